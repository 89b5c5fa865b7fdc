/* The command-line tool: a client of the public interface only.
 *
 *   main.c      the table of commands with their help
 *   args.c      the table of options, and the parser of the command line
 *   expressions.c  the page of expressions
 *   pages.c     completion scripts and the manual page, made from the two tables
 *   chain.c     from files and options to a frame
 *   output.c    from a frame to a table, CSV, JSON or Markdown, on the terminal or in a file
 *   progress.c  the progress line, interruptions and closed pipes
 *   commands.c  the commands of tables
 *   shard.c     drawings of shardings
 *   launch.c    several processes of one program
 *   bench.c     measurements of collectives
 *   signature.c saved functions
 *   steps.c     checkpoints
 *   formats.c   from files to sources of records
 *   features.c  the features of TFRecord files
 *   reading.c   samples of records, and the speed of reading */
#ifndef TOOL_H
#define TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <tessera.h>

/* Exit codes: success; failure, with a message on stderr; a wrong command line. */
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

/* One option: all texts about it come from this row. */
typedef struct tool_option {
  const char *name;     /* "--where" */
  const char *value;    /* "E"; NULL: the option takes no value */
  const char *choices;  /* "table csv json md"; NULL: any value */
  const char *commands; /* that take it, "query schema"; NULL: all */
  bool repeated;
  const char *help;
} tool_option;
extern const tool_option tool_options[OPT_COUNT];
/* The library's calls that an option stands for, separated by ';', as messages name them; NULL:
 * none.
 */
extern const char *const tool_calls[OPT_COUNT];
bool tool_takes(const char *command, tool_opt option);

/* A parsed command line. Texts are borrowed from argv. */
typedef struct tool_args {
  const char *command;
  const char *files[TOOL_MOST];
  int file_count;
  const char *value[OPT_COUNT][TOOL_MOST];
  int count[OPT_COUNT];
  tool_opt step[4 * TOOL_MOST]; /* --join, --rename, --where and --with in order */
  int step_count;
  int64_t limit, tail, sample, seed, rows, width, skip, unpack_limit; /* -1: not given */
  int64_t processes, least, most, factor;
  int64_t batch, seconds, threads, head, header;
  bool quiet;           /* print no notes about files */
  char *const *program; /* run: the program and its arguments; NULL: none */
} tool_args;

/* Parses the arguments after the command's name. Prints a mistake and returns false. */
bool tool_parse(const char *command, int argc, char **argv, tool_args *out);
/* The first value of an option; NULL: not given. */
const char *tool_value(const tool_args *args, tool_opt option);

/* Sets `*best` to `name` if that is nearer to a mistyped word. Returns whether it was. */
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

/* Print the page of expressions, for a terminal and for the manual, and a text of the manual. */
void tool_print_expressions(FILE *out);
void tool_man_expressions(FILE *out);
void tool_man_text(const char *text, FILE *out);

/* Opens a runtime; prints an error and returns NULL. */
tsr_runtime *tool_open(const tool_args *args);
/* Opens the progress line if stderr is a terminal, and handles signals: an interruption or a closed
 * stdout wipes the line and then ends the tool as the signal would have. */
void tool_progress_open(void);
/* The runtime's callback. */
bool tool_progress(const char *what, int64_t done, int64_t total, void *unused);
/* From now on an interruption cancels the work first, so that no temporary file stays; a second one
 * ends the tool at once. */
void tool_guard(void);
/* Whether an interruption cancelled the work, whose failure then needs no message; and ends the
 * tool by that signal if so. */
bool tool_interrupted(void);
void tool_interrupted_end(void);
/* Wipes the line for good; called before the first byte of a result or message. */
void tool_progress_end(void);

/* One pair or word of a list: "a = b, c". Texts lie in the list. */
typedef struct tool_item {
  char left[TOOL_TEXT], right[TOOL_TEXT]; /* without quotes and blanks; right "": no sign */
} tool_item;
/* Reads the next item of a list, with `sign` ('=' or ' ') between its two texts. Returns the rest
 * of the list; NULL: no item is left. */
const char *tool_next_item(const char *list, char sign, tool_item *out);

/* Return the frame of all files, and the frame of the whole command line. */
tsr_frame *tool_read_all(tsr_scope *s, const tool_args *args);
tsr_frame *tool_chain(tsr_scope *s, const tool_args *args);
/* Prints the notes that reading added to those of opening. */
void tool_note_late(const tool_args *args);
/* Splits "name = expression" at the first '=' that is no part of ==, <=, >= or !=. The name is
 * copied without blanks (and quotes) around it; the expression is borrowed. */
bool tool_split_with(const char *text, char *name, size_t size, const char **out_expression);
/* The source of all files of the command line; NULL: an error, which was printed. */
tsr_source *tool_source(tsr_scope *s, const tool_args *args);
/* Features of TFRecords, up to TSR_MAX_FIELDS. The caller provides `names` and `fields`. */
typedef struct tool_feature_list {
  char (*names)[TOOL_NAME];
  tsr_record_field *fields;
  int count;
  int64_t records;             /* that were read */
  bool ragged[TSR_MAX_FIELDS]; /* records have different numbers of values */
  bool sparse;                 /* some record lacks a feature */
} tool_feature_list;
/* Reads the first records of the first file of a pattern. Returns the number of features; 0: the
 * file cannot be read. */
int tool_features(tsr_scope *s, const char *path, int64_t limit, tool_feature_list *list);
/* Writes a column's name in quotes, with quotes inside doubled. Returns its end. */
char *tool_put_name(char *at, const char *name);
/* Whether a path ends in an extension, before .gz or .zst if there is one. */
bool tool_has_extension(const char *path, const char *extension);

/* Prints a hint if --where names a column that a later option makes. */
void tool_note_order(const tool_args *args, const tsr_scope *s);

/* The characters of a line of the terminal; 0: not a terminal. */
int tool_terminal_width(FILE *out);
/* Whether to print colours: on a terminal that has them, or by the environment. */
bool tool_wants_colour(FILE *out);

/* Prints a text as a JSON string. */
void tool_put_json(const char *text);
/* The length of the UTF-8 character at `text`, of `left` bytes; 0: not UTF-8. */
int tool_character(const char *text, size_t left);
/* Writes a text with control characters and bytes that are not UTF-8 as "\xE9", cut to `size`. */
const char *tool_tame(const char *text, char *out, size_t size);
/* Prints notes that the library logs before it begins work. */
void tool_log(tsr_log_level level, const char *area, const char *line, void *user);
/* "1.5 MiB"; bytes below a KiB as they are. */
void tool_size_text(int64_t bytes, char out[32]);

/* Writes the frame as --format and --out say. */
int tool_show(const tool_args *args, tsr_frame *df, tsr_scope *s);
/* A scope's message without source location and status. */
const char *tool_message(const tsr_scope *s);
/* Print a text of the library, with calls and fields replaced by options; of a message also the
 * call at its start. */
void tool_put_words(FILE *out, const char *text);
void tool_put_message(FILE *out, const char *message);
/* The words of tool_put_message, which the caller frees; NULL: out of memory. */
char *tool_message_words(const char *message);
/* Prints a scope's message in the words of the command line. Returns TOOL_FAILED. */
int tool_fail(const tsr_scope *s);

#endif
