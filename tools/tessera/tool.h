/* The command-line tool: a client of the public interface and of nothing else.
 *
 *   main.c      the table of commands, their help
 *   args.c      the table of options, and reading a command line by it
 *   expressions.c  what expressions are made of, as a page
 *   pages.c     completion scripts and the manual page, made of the two tables
 *   chain.c     files and options to a frame
 *   output.c    a frame to a table, CSV, JSON or Markdown, on the terminal or in a file
 *   progress.c  the progress line, interruptions and readers that went away
 *   commands.c  what each command does with files
 *   shard.c     drawings of shardings
 *   launch.c    several processes of one program
 *   bench.c     what collectives take
 *   signature.c saved functions
 *   steps.c     checkpoints
 *   formats.c   files to records
 *   features.c  what TFRecord files have
 *   reading.c   what records are and how fast they are read */
#ifndef TOOL_H
#define TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <tessera.h>

/* Exit codes: done; the work failed (the message is on stderr); the command line is wrong. */
enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

enum { TOOL_MOST = 64, TOOL_NAME = 80, TOOL_TEXT = 256 };

typedef enum tool_opt {
  OPT_JOIN,
  OPT_ON,
  OPT_HOW,
  OPT_SUFFIX,
  OPT_RENAME,
  OPT_WHERE,
  OPT_WITH,
  OPT_SELECT,
  OPT_AGG,
  OPT_BY,
  OPT_DISTINCT,
  OPT_SORT,
  OPT_LIMIT,
  OPT_TAIL,
  OPT_SAMPLE,
  OPT_SEED,
  OPT_FORMAT,
  OPT_OUT,
  OPT_ROWS,
  OPT_WIDTH,
  OPT_SVG,
  OPT_FROM,
  OPT_SEPARATOR,
  OPT_NO_HEADER,
  OPT_SKIP,
  OPT_COMMENT,
  OPT_DECIMAL_COMMA,
  OPT_NULLS,
  OPT_TEXT_NULLS,
  OPT_TYPES,
  OPT_BAD_ROWS,
  OPT_LITERAL_PATH,
  OPT_UNPACK_LIMIT,
  OPT_NAMES,
  OPT_UNIQUE_NAMES,
  OPT_QUICK,
  OPT_PROCESSES,
  OPT_COORDINATOR,
  OPT_ON_FAILURE,
  OPT_ENGINE,
  OPT_DEVICES,
  OPT_ONLY,
  OPT_LEAST,
  OPT_MOST,
  OPT_FACTOR,
  OPT_TYPE,
  OPT_RECORDS,
  OPT_LAYOUT,
  OPT_HEADER,
  OPT_FIELDS,
  OPT_SHUFFLE,
  OPT_BATCH,
  OPT_SECONDS,
  OPT_THREADS,
  OPT_HEAD,
  OPT_JSON,
  OPT_EXPLAIN,
  OPT_COMPILE,
  OPT_HELP,
  OPT_COUNT
} tool_opt;

/* One option: the only place where it is described. */
typedef struct tool_option {
  const char *name;     /* "--where" */
  const char *value;    /* "E", NULL for one that takes none */
  const char *choices;  /* "table csv json md", NULL for any */
  const char *commands; /* "query schema", those that take it; NULL for all */
  bool repeated;
  const char *help;
} tool_option;
extern const tool_option tool_options[OPT_COUNT];
/* What does in a program what an option does, apart by ';', as messages name it; NULL: nothing. */
extern const char *const tool_calls[OPT_COUNT];
bool tool_takes(const char *command, tool_opt option);

/* What a command line says. Texts are borrowed from argv. */
typedef struct tool_args {
  const char *command;
  const char *files[TOOL_MOST];
  int file_count;
  const char *value[OPT_COUNT][TOOL_MOST];
  int count[OPT_COUNT];
  tool_opt step[4 * TOOL_MOST]; /* --join, --rename, --where and --with as they stand */
  int step_count;
  int64_t limit, tail, sample, seed, rows, width, skip, unpack_limit; /* -1: not given */
  int64_t processes, least, most, factor;
  int64_t batch, seconds, threads, head, header;
  bool quiet;           /* notes on files are not wanted */
  char *const *program; /* run: the program and its arguments; NULL: none */
} tool_args;

/* Reads the arguments after the command's name. On a mistake prints it and returns false. */
bool tool_parse(const char *command, int argc, char **argv, tool_args *out);
/* The value of an option given once, NULL if it was not. */
const char *tool_value(const tool_args *args, tool_opt option);

/* Whether a name is like a mistyped word, more than `*best` is; then it becomes that. */
bool tool_nearest(const char *word, const char *name, const char **best);

typedef struct tool_command {
  const char *name, *usage, *summary, *text, *examples;
  int (*run)(const tool_args *args);
} tool_command;
extern const tool_command tool_commands[];
extern const int tool_command_count;

int tool_info(const tool_args *args);
int tool_version(const tool_args *args);
int tool_query(const tool_args *args);
int tool_schema(const tool_args *args);
int tool_convert(const tool_args *args);
int tool_shard(const tool_args *args);
int tool_run(const tool_args *args);
int tool_function(const tool_args *args);
int tool_bench(const tool_args *args);
int tool_ckpt(const tool_args *args);
int tool_pipeline(const tool_args *args);
int tool_completion(const tool_args *args);
int tool_man(const tool_args *args);

/* The page of expressions, for a terminal and for the manual; and text of the manual. */
void tool_print_expressions(FILE *out);
void tool_man_expressions(FILE *out);
void tool_man_text(const char *text, FILE *out);

/* Opens a runtime and prints why when that fails (NULL). */
tsr_runtime *tool_open(const tool_args *args);
/* Opens the progress line where stderr is a terminal, and sees to signals: an interruption, and a
 * reader of stdout that went away, end the tool as they would have, the line wiped. */
void tool_progress_open(void);
/* The runtime's callback. */
bool tool_progress(const char *what, int64_t done, int64_t total, void *unused);
/* From now on an interruption cancels the work first, so that no half-made file stays behind; a
 * second one ends it at once. */
void tool_guard(void);
/* Whether one did, so that the failure needs no words; and ends the tool as it would have, if
 * so. */
bool tool_interrupted(void);
void tool_interrupted_end(void);
/* Wipes the line for good: called before the first byte of a result or message. */
void tool_progress_end(void);

/* One pair or word of a list: "a = b, c". Texts lie in the list. */
typedef struct tool_item {
  char left[TOOL_TEXT], right[TOOL_TEXT]; /* without quotes and blanks; right "": no '=' or blank */
} tool_item;
/* The next item of a list whose parts are apart by `sign` ('=' or ' '); what follows it, NULL:
 * none. */
const char *tool_next_item(const char *list, char sign, tool_item *out);

/* The frame of all files of the command line, and of the whole command line. */
tsr_frame *tool_read_all(tsr_scope *s, const tool_args *args);
tsr_frame *tool_chain(tsr_scope *s, const tool_args *args);
/* Says what reading found of the files beside what opening did. */
void tool_note_late(const tool_args *args);
/* Splits "name = expression" at the first '=' that is no part of ==, <=, >= or !=. The name is
 * copied without blanks (and quotes) around it; the expression is borrowed. */
bool tool_split_with(const char *text, char *name, size_t size, const char **out_expression);
/* The records of all files of the command line; NULL: an error, which was printed. */
tsr_source *tool_source(tsr_scope *s, const tool_args *args);
/* Features of TFRecords, up to TSR_MAX_FIELDS: room for their names and fields, what was found. */
typedef struct tool_feature_list {
  char (*names)[TOOL_NAME];
  tsr_record_field *fields;
  int count;
  int64_t records;             /* that were looked at */
  bool ragged[TSR_MAX_FIELDS]; /* records have different numbers of values */
  bool sparse;                 /* some record lacks some */
} tool_feature_list;
/* Looks at the first records of the first file of a pattern; how many features there are, 0: they
 * cannot be read. */
int tool_features(tsr_scope *s, const char *path, int64_t limit, tool_feature_list *list);
/* Adds a column's name in quotes, doubled inside; what follows it. */
char *tool_put_name(char *at, const char *name);
/* Whether a path ends in an extension, a compression's left out of account. */
bool tool_has_extension(const char *path, const char *extension);

/* Where --where names a column that a later option makes, says so. */
void tool_note_order(const tool_args *args, const tsr_scope *s);

/* Characters a line of the terminal holds; 0: not a terminal. */
int tool_terminal_width(FILE *out);
/* Whether colours are wanted there: a terminal that has them, or the environment says so. */
bool tool_wants_colour(FILE *out);

/* Prints a text as JSON has it. */
void tool_put_json(const char *text);
/* Bytes of the character of UTF-8 at `text`, of which `left` are there; 0: it is none. */
int tool_character(const char *text, size_t left);
/* A text with what is none, or would steer a terminal, written as "\xE9"; cut to `size`. */
const char *tool_tame(const char *text, char *out, size_t size);
/* Prints what the library says of work before it begins. */
void tool_log(tsr_log_level level, const char *area, const char *line, void *user);
/* "1.5 MiB"; bytes below a KiB as they are. */
void tool_size_text(int64_t bytes, char out[32]);

/* Writes the frame as --format and --out say. */
int tool_show(const tool_args *args, tsr_frame *df, tsr_scope *s);
/* A scope's message without the line of the source and the status. */
const char *tool_message(const tsr_scope *s);
/* Prints a text of the library, with the calls and fields it names as options; of a message the
 * call that it begins with, too. */
void tool_put_words(FILE *out, const char *text);
void tool_put_message(FILE *out, const char *message);
/* The same as a text, which the caller frees; NULL: no memory. */
char *tool_say_message(const char *message);
/* Prints a scope's message in the words of the command line. Returns TOOL_FAILED. */
int tool_fail(const tsr_scope *s);

#endif
