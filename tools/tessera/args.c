/* The command line: long options with a value, "--name value" or "--name=value". */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

/* The commands that read files: tables, or those among them that are records. */
#define TABLES "query convert schema"
#define READING TABLES " pipeline"

const tool_option tool_options[OPT_COUNT] = {
  [OPT_JOIN] = { "--join", "FILE", NULL, "query", true,
                 "join with another file, on the keys of --on" },
  [OPT_ON] = { "--on", "KEYS", NULL, "query", true,
               "its keys: 'k', or 'left = right', or several; expressions, such as cast(k, "
               "'i64')" },
  [OPT_HOW] = { "--how", "KIND", "inner left semi anti", "query", true,
                "the kind of join (default inner)" },
  [OPT_SUFFIX] = { "--suffix", "TEXT", NULL, "query", true,
                   "what a --join adds to names that are taken (default _right, then _right2, "
                   "...)" },
  [OPT_RENAME] = { "--rename", "NAMES", NULL, "query", true,
                   "rename columns: 'old = new, ...'; between two --join before the second one" },
  [OPT_WHERE] = { "--where", "E", NULL, "query pipeline", true,
                  "keep the rows where E is true; it sees the columns of each --with before it" },
  [OPT_WITH] = { "--with", "NAME=E", NULL, "query", true,
                 "add a column; whatever stands after it sees it" },
  [OPT_SELECT] = { "--select", "COLUMNS", NULL, "query", false,
                   "the columns to show: 'a, b, c = a + b'" },
  [OPT_AGG] = { "--agg", "A", NULL, "query", false, "reduce: 'sum(x), n = count(), median(y)'" },
  [OPT_BY] = { "--by", "KEYS", NULL, "query", false,
               "with --agg: one row a group: 'origin, month'" },
  [OPT_DISTINCT] = { "--distinct", "COLUMNS", NULL, "query", false,
                     "the first of the rows that are equal in 'a, b'; '*': in all columns" },
  [OPT_SORT] = { "--sort", "KEYS", NULL, "query", false,
                 "order the rows: 'a, b desc nulls first'" },
  [OPT_LIMIT] = { "--limit", "N", NULL, "query", false, "the first N rows only" },
  [OPT_TAIL] = { "--tail", "N", NULL, "query", false, "the last N rows only" },
  [OPT_SAMPLE] = { "--sample", "N", NULL, "query", false,
                   "N rows drawn at random, in order; each run draws the same" },
  [OPT_SEED] = { "--seed", "K", NULL, "query pipeline", false,
                 "with --sample or --shuffle: another number draws others (default 0)" },
  [OPT_FORMAT] = { "--format", "FORMAT", "table csv tsv json md", "query convert schema", false,
                   "how to print (default table; a file is written as its name says)" },
  [OPT_OUT] = { "--out", "FILE", NULL, "query", false,
                "write all rows to FILE: .csv .tsv .json .jsonl .md, also .gz or .zst" },
  [OPT_ROWS] = { "--rows", "N", NULL, "query schema", false,
                 "rows of a printed table, half from each end (default 20, in a file all; 0: "
                 "all)" },
  [OPT_WIDTH] = { "--width", "N", NULL, "query schema shard pipeline", false,
                  "characters a line of a table or drawing may take (default the terminal's, else "
                  "any number for a table, 80 for a drawing; 0: that too)" },
  [OPT_SVG] = { "--svg", NULL, NULL, "shard", false,
                "print an SVG document, 80 characters wide unless --width is given" },
  [OPT_FROM] = { "--from", "FORMAT", "csv tsv json", TABLES, false,
                 "the format of the input where its name does not say" },
  [OPT_SEPARATOR] = { "--separator", "C", NULL, READING, false,
                      "CSV: what separates fields (default: by the first rows)" },
  [OPT_NO_HEADER] = { "--no-header", NULL, NULL, READING, false, "CSV: the first line is data" },
  [OPT_SKIP] = { "--skip", "N", NULL, READING, false, "CSV: leave out N lines before the header" },
  [OPT_COMMENT] = { "--comment", "C", NULL, READING, false,
                    "CSV: leave out lines that begin with C" },
  [OPT_DECIMAL_COMMA] = { "--decimal-comma", NULL, NULL, READING, false, "CSV: 1,5 is 1.5" },
  [OPT_NULLS] = { "--nulls", "LIST", NULL, READING, false,
                  "CSV: null markers beside the empty field (default NA)" },
  [OPT_TEXT_NULLS] = { "--text-nulls", NULL, NULL, READING, false,
                       "CSV: they are null in text columns too" },
  [OPT_TYPES] = { "--types", "LIST", NULL, READING, false,
                  "force types: 'a i64, day text'; of joined files, too" },
  [OPT_BAD_ROWS] = { "--bad-rows", "WHAT", "error skip null", READING, false,
                     "rows that are wrong (default error)" },
  [OPT_LITERAL_PATH] = { "--literal-path", NULL, NULL, READING, false,
                         "a file's name is no pattern, whatever characters it holds" },
  [OPT_UNPACK_LIMIT] = { "--unpack-limit", "BYTES", NULL, READING, false,
                         "what a packed file may unpack to (default 1000 times its size, at least "
                         "268435456)" },
  [OPT_NAMES] = { "--names", "LIST", NULL, READING, false,
                  "CSV: 'a, b, c' in place of the header's names" },
  [OPT_UNIQUE_NAMES] = { "--unique-names", NULL, NULL, READING, false,
                         "CSV: a name that stands twice is an error, and gets no number" },
  [OPT_QUICK] = { "--quick", NULL, NULL, "schema", false,
                  "names and types of a sample; read no rows" },
  [OPT_PROCESSES] = { "--processes", "N", NULL, "run", false,
                      "how many processes to start; -n N is the same" },
  [OPT_COORDINATOR] = { "--coordinator", "A", NULL, "run", false,
                        "where process 0 listens: HOST:PORT or unix:PATH (default a socket that "
                        "only this user can reach)" },
  [OPT_ON_FAILURE] = { "--on-failure", "MODE", "shutdown error shrink", "run", false,
                       "what the others do when a process fails: they end (the default), get "
                       "errors, or may go on as fewer; TSR_ON_FAILURE says the same" },
  [OPT_ENGINE] = { "--engine", "E", NULL, "run", false,
                   "what moves bytes between hosts: ucx (default), mpi, or local for one host" },
  [OPT_DEVICES] = { "--devices", "cpu:N", NULL, READING " info bench", false,
                    "split the rows over N virtual devices (default cpu:1); bench: those of each "
                    "process (default cpu:1, of one process cpu:2)" },
  [OPT_ONLY] = { "--only", "NAME", "all_reduce all_gather reduce_scatter all_to_all", "bench",
                 false, "one collective (default all)" },
  [OPT_LEAST] = { "--min", "BYTES", NULL, "bench", false,
                  "the smallest size (default 8); K, M and G are 2^10, 2^20 and 2^30" },
  [OPT_MOST] = { "--max", "BYTES", NULL, "bench", false, "the largest size (default 256M)" },
  [OPT_FACTOR] = { "--factor", "N", NULL, "bench", false,
                   "each size is N times the one before (default 4)" },
  [OPT_TYPE] = { "--type", "TYPE", "i32 i64 f16 bf16 f32 f64", "bench", false,
                 "element type (default f32)" },
  [OPT_RECORDS] = { "--from", "FORMAT",
                    "npz npy safetensors tfrecord binary lines tar folder csv tsv json", "pipeline",
                    false, "the format of the files where their names do not say" },
  [OPT_LAYOUT] = { "--layout", "FIELDS", NULL, "pipeline", false,
                   "the fields of a record where files do not tell them: 'label u8, image "
                   "u8[3,32,32]'; of a binary file as they lie there, of tfrecord features by name "
                   "(f32, i64, u8; default those of the first record), of tar members by ending" },
  [OPT_HEADER] = { "--header", "BYTES", NULL, "pipeline", false,
                   "binary: bytes at the start of each file that are no records" },
  [OPT_FIELDS] = { "--fields", "NAMES", NULL, "pipeline", false,
                   "the fields to read: 'image, label'; of CSV and JSON expressions, too" },
  [OPT_SHUFFLE] = { "--shuffle", NULL, NULL, "pipeline", false,
                    "read the records in an order that is drawn" },
  [OPT_BATCH] = { "--batch-size", "N", NULL, "pipeline", false,
                  "records of a batch (default 256)" },
  [OPT_SECONDS] = { "--seconds", "N", NULL, "pipeline", false,
                    "read for so long, as many epochs as it takes (default one epoch; 0: read "
                    "nothing but the sample)" },
  [OPT_THREADS] = { "--threads", "N", NULL, "pipeline", false,
                    "threads that fill batches ahead (default 2; 0: none)" },
  [OPT_HEAD] = { "--head", "N", NULL, "pipeline", false,
                 "records that are shown (default 1, at most 8)" },
  [OPT_JSON] = { "--json", NULL, NULL, "bench ckpt pipeline", false, "print JSON" },
  [OPT_EXPLAIN] = { "--explain", NULL, NULL, "query", false,
                    "show the plan and what it moves between devices" },
  [OPT_COMPILE] = { "--compile", NULL, NULL, "function", false,
                    "what running it takes: flops, memory, what moves between devices and why" },
  [OPT_HELP] = { "--help", NULL, NULL, NULL, false, "this text" },
};

/* Whether a word is one of a list of words. */
static bool among(const char *words, const char *word)
{
  /* "left" is no "leftmost": lengths must be equal. */
  size_t length = strlen(word);
  while (*words) {
    size_t here = strcspn(words, " ");
    if (here == length && !strncmp(words, word, length)) return true;
    words += here + (words[here] == ' ');
  }
  return false;
}

const char *const tool_calls[OPT_COUNT] = {
  [OPT_JOIN] = "tsr_frame_join",
  [OPT_ON] = "tsr_frame_join, keys",
  [OPT_RENAME] = "tsr_frame_rename",
  [OPT_WHERE] = "tsr_frame_filter;tsr_source_filter",
  [OPT_WITH] = "tsr_frame_assign;tsr_frame_fill_null",
  [OPT_SELECT] = "tsr_frame_select;tsr_frame_drop",
  [OPT_AGG] = "tsr_frame_agg;tsr_frame_group_agg",
  [OPT_BY] = "tsr_frame_group_agg, keys",
  [OPT_DISTINCT] = "tsr_frame_distinct",
  [OPT_SORT] = "tsr_frame_sort",
  [OPT_LIMIT] = "tsr_frame_head",
  [OPT_TAIL] = "tsr_frame_tail",
  [OPT_SAMPLE] = "tsr_frame_sample",
  [OPT_OUT] =
      "tsr_frame_write_csv;tsr_frame_write_json;tsr_frame_write_markdown;tsr_frame_write_text",
  [OPT_TYPES] = "tsr_frame_read_csv, types;tsr_frame_read_json, types",
  [OPT_DEVICES] = "tsr_runtime_open;tsr_initialize",
  [OPT_SHUFFLE] = "tsr_source_shuffle",
};

bool tool_takes(const char *command, tool_opt option)
{
  const char *commands = tool_options[option].commands;
  return !commands || among(commands, command);
}

static bool mistake(const char *command, const char *what, const char *word)
{
  fprintf(stderr, "tessera %s: %s%s%s%s\n", command, what, word ? " '" : "", word ? word : "",
          word ? "'" : "");
  fprintf(stderr, "tessera %s --help lists what it takes\n", command);
  return false;
}

/* How unlike two words are: letters that are left out, put in, changed or swapped with the next.
 * Rows of the usual table of distances, of the words' beginnings. */
static size_t unlike(const char *a, const char *b)
{
  enum { MOST = 40 };
  size_t la = strlen(a), lb = strlen(b), row[3][MOST + 1];
  if (la > MOST || lb > MOST) return MOST;
  for (size_t i = 0; i <= la; i++) {
    size_t *now = row[i % 3], *up = row[(i + 2) % 3], *swap = row[(i + 1) % 3];
    now[0] = i;
    for (size_t k = 1; k <= lb; k++) {
      size_t least = i ? up[k - 1] + (a[i - 1] != b[k - 1]) : k;
      if (i && up[k] + 1 < least) least = up[k] + 1;
      if (now[k - 1] + 1 < least) least = now[k - 1] + 1;
      bool swapped = i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
      if (swapped && swap[k - 2] + 1 < least) least = swap[k - 2] + 1;
      now[k] = least;
    }
  }
  return row[la % 3][lb];
}

bool tool_nearest(const char *word, const char *name, const char **best)
{
  /* --lim is meant as --limit; else a letter may be wrong, two in longer words. */
  size_t length = strlen(word), limit = length > 4 ? 2 : 1;
  bool begins = length > 2 && !strncmp(word, name, length);
  if (!begins && unlike(word, name) > limit) return false;
  /* Of two that are as near the first in the table wins, so that messages do not change. */
  if (*best && unlike(word, *best) <= unlike(word, name)) return false;
  *best = name;
  return true;
}

static bool no_option(const char *command, const char *word)
{
  static const struct {
    const char *elsewhere;
    tool_opt option;
  } others[] = {
    /* What pandas, Polars, SQL and other tools call them. */
    { "--filter", OPT_WHERE },    { "--group-by", OPT_BY },   { "--groupby", OPT_BY },
    { "--order-by", OPT_SORT },   { "--sort-by", OPT_SORT },  { "--head", OPT_LIMIT },
    { "--columns", OPT_SELECT },  { "--output", OPT_OUT },    { "--assign", OPT_WITH },
    { "--aggregate", OPT_AGG },   { "--sep", OPT_SEPARATOR }, { "--delimiter", OPT_SEPARATOR },
    { "--left-on", OPT_ON },      { "-o", OPT_OUT },          { "-n", OPT_LIMIT },
    { "--unique", OPT_DISTINCT }, { "--last", OPT_TAIL },     { "--drop-duplicates", OPT_DISTINCT }
  };
  const char *best = NULL;
  char text[200];
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (!strcmp(word, others[i].elsewhere) && tool_takes(command, others[i].option))
      best = tool_options[others[i].option].name;
  /* A name that is known elsewhere is no guess. */
  bool known = best != NULL;
  for (int i = 0; i < OPT_COUNT && !known; i++)
    if (tool_takes(command, (tool_opt)i)) tool_nearest(word, tool_options[i].name, &best);
  if (!best) return mistake(command, "there is no option", word);
  snprintf(text, sizeof text, "there is no option '%.100s'; did you mean %s?", word, best);
  return mistake(command, text, NULL);
}

static int find_option(const char *command, const char *word, size_t length)
{
  for (int i = 0; i < OPT_COUNT; i++)
    if (strlen(tool_options[i].name) == length &&
        strncmp(tool_options[i].name, word, length) == 0 && tool_takes(command, (tool_opt)i))
      return i;
  return -1;
}

/* The two options that have a letter. */
static int short_option(const char *command, const char *word)
{
  if (!strcmp(word, "-h")) return OPT_HELP;
  return !strcmp(word, "-n") && tool_takes(command, OPT_PROCESSES) ? OPT_PROCESSES : -1;
}

const char *tool_value(const tool_args *args, tool_opt option)
{
  return args->count[option] ? args->value[option][0] : NULL;
}

static bool take(const char *command, int option, const char *value, tool_args *out)
{
  const tool_option *row = &tool_options[option];
  char text[160];
  if (out->count[option] >= (row->repeated ? TOOL_MOST : 1))
    return mistake(command, "given too often:", row->name);
  if (row->choices && !among(row->choices, value)) {
    snprintf(text, sizeof text, "%s takes one of: %s; not", row->name, row->choices);
    return mistake(command, text, value);
  }
  out->value[option][out->count[option]++] = value ? value : "";
  /* Conditions and new columns keep their order on the command line: later ones see earlier
   * ones. */
  if (option == OPT_WHERE || option == OPT_WITH || option == OPT_JOIN || option == OPT_RENAME)
    out->step[out->step_count++] = (tool_opt)option;
  return true;
}

static bool number(const tool_args *args, tool_opt option, int64_t *out)
{
  const char *value = tool_value(args, option);
  char *end, text[80];
  *out = -1;
  if (!value) return true;
  errno = 0;
  long long n = strtoll(value, &end, 10);
  *out = n;
  /* No sign, no fraction, nothing behind the digits, and no overflow. */
  if (end != value && !*end && n >= 0 && !errno) return true;
  snprintf(text, sizeof text, "%s takes a %s, not", tool_options[option].name,
           option == OPT_SEED                          ? "whole number of 0 or more"
           : option == OPT_SKIP                        ? "number of lines"
           : option == OPT_WIDTH                       ? "number of characters"
           : option == OPT_UNPACK_LIMIT                ? "number of bytes"
           : option == OPT_PROCESSES                   ? "number of processes"
           : option == OPT_HEADER                      ? "number of bytes"
           : option == OPT_SECONDS                     ? "number of seconds"
           : option == OPT_THREADS                     ? "number of threads"
           : option == OPT_BATCH || option == OPT_HEAD ? "number of records"
           : option == OPT_FACTOR                      ? "whole number of 2 or more"
                                                       : "number of rows");
  return mistake(args->command, text, value);
}

/* Bytes: a whole number and one letter, perhaps. */
static bool bytes(const tool_args *args, tool_opt option, int64_t otherwise, int64_t *out)
{
  static const char letters[] = "KMG";
  const char *value = tool_value(args, option), *letter = NULL;
  char *end, text[80];
  *out = otherwise;
  if (!value) return true;
  errno = 0;
  long long n = strtoll(value, &end, 10);
  if (end != value && *end && (letter = strchr(letters, *end))) end++;
  int shift = letter ? 10 * (int)(letter - letters + 1) : 0;
  if (end != value && !*end && n > 0 && n <= INT64_C(1) << 40 >> shift && !errno) {
    *out = n << shift;
    return true;
  }
  snprintf(text, sizeof text, "%s takes a number of bytes, such as 64K, not",
           tool_options[option].name);
  return mistake(args->command, text, value);
}

/* Copies a name up to its end: the closing quote, where a doubled one stands for one, or else the
 * '='. What follows; NULL: it is not closed, empty or longer than `size`. */
static const char *take_name(const char *at, char *name, size_t size)
{
  /* The library's rule for names of columns: in double quotes, themselves doubled. */
  bool quoted = *at == '"';
  size_t length = 0;
  /* A condition of the loop, not an end of the name: what is quoted may hold '='. */
  for (at += quoted; *at && (quoted || *at != '='); at++) {
    if (quoted && *at == '"' && *++at != '"') break;
    if (length + 1 >= size) return NULL;
    name[length++] = *at;
  }
  while (!quoted && length && isspace((unsigned char)name[length - 1])) length--;
  name[length] = 0;
  return length && *at ? at : NULL;
}

bool tool_split_with(const char *text, char *name, size_t size, const char **out_expression)
{
  while (isspace((unsigned char)*text)) text++;
  const char *at = take_name(text, name, size);
  while (at && isspace((unsigned char)*at)) at++;
  /* "a == b" and "a <= b" are expressions without a name, and would else be a column `a <`. */
  if (!at || *at != '=' || at[1] == '=' || strchr("<>!", at[-1])) return false;
  *out_expression = at + 1;
  return true;
}

const char *tool_next_item(const char *list, char sign, tool_item *out)
{
  char *to = out->left;
  bool quoted = false, right = false;
  memset(out, 0, sizeof *out);
  while (*list == ' ' || *list == ',') list++;
  if (!*list) return NULL;
  for (; *list && (quoted || *list != ','); list++) {
    if (*list == '"' && !(quoted && list[1] == '"')) {
      quoted = !quoted;
      continue;
    }
    list += *list == '"'; /* a doubled quote is one */
    if (!quoted && !right && *list == sign) {
      right = true;
      to = out->right;
    } else if ((quoted || *list != ' ') && to - (right ? out->right : out->left) < TOOL_TEXT - 1) {
      *to++ = *list;
    }
  }
  return list;
}

static bool check_query(const tool_args *args)
{
  const char *command = args->command, *unused;
  char name[256];
  for (int i = 0; i < args->count[OPT_WITH]; i++)
    if (!tool_split_with(args->value[OPT_WITH][i], name, sizeof name, &unused))
      return mistake(command, "--with takes 'NAME = E', not", args->value[OPT_WITH][i]);
  if (args->count[OPT_BY] && !args->count[OPT_AGG])
    return mistake(command, "--by needs --agg, such as 'count()'", NULL);
  if (args->count[OPT_JOIN] != args->count[OPT_ON])
    return mistake(command, "each --join needs an --on with its keys", NULL);
  if (args->count[OPT_HOW] > args->count[OPT_JOIN])
    return mistake(command, "--how needs a --join", NULL);
  if (args->count[OPT_SUFFIX] > args->count[OPT_JOIN])
    return mistake(command, "--suffix needs a --join", NULL);
  if (args->count[OPT_LIMIT] + args->count[OPT_TAIL] + args->count[OPT_SAMPLE] > 1)
    return mistake(command, "give one of --limit, --tail and --sample", NULL);
  if (args->count[OPT_SEED] && !args->count[OPT_SAMPLE] && !args->count[OPT_SHUFFLE])
    return mistake(command,
                   tool_takes(command, OPT_SAMPLE) ? "--seed needs --sample"
                                                   : "--seed needs --shuffle",
                   NULL);
  return true;
}

static bool numbers(tool_args *args)
{
  return number(args, OPT_LIMIT, &args->limit) && number(args, OPT_TAIL, &args->tail) &&
         number(args, OPT_SAMPLE, &args->sample) && number(args, OPT_SEED, &args->seed) &&
         number(args, OPT_ROWS, &args->rows) && number(args, OPT_WIDTH, &args->width) &&
         number(args, OPT_SKIP, &args->skip) &&
         number(args, OPT_UNPACK_LIMIT, &args->unpack_limit) &&
         number(args, OPT_PROCESSES, &args->processes) && number(args, OPT_FACTOR, &args->factor) &&
         number(args, OPT_BATCH, &args->batch) && number(args, OPT_SECONDS, &args->seconds) &&
         number(args, OPT_THREADS, &args->threads) && number(args, OPT_HEAD, &args->head) &&
         number(args, OPT_HEADER, &args->header);
}

static bool one_character(const tool_args *args, tool_opt option)
{
  const char *value = tool_value(args, option);
  char text[80];
  /* A shell passes \t as two characters. */
  if (!value || (value[0] && !value[1]) || !strcmp(value, "\\t")) return true;
  snprintf(text, sizeof text, "%s takes one character, not", tool_options[option].name);
  return mistake(args->command, text, value);
}

static bool check_run(const tool_args *args)
{
  if (strcmp(args->command, "run") != 0) return true;
  if (!args->program) return mistake("run", "which program? Options stand before it", NULL);
  if (args->processes < 1) return mistake("run", "how many processes? Such as -n 4", NULL);
  return true;
}

static bool check_bench(tool_args *args)
{
  if (strcmp(args->command, "bench") != 0) return true;
  if (args->file_count != 1 || strcmp(args->files[0], "collectives") != 0)
    return mistake("bench", "of what? There is 'collectives'", NULL);
  if (args->factor < 0) args->factor = 4;
  if (args->factor < 2 || args->factor > 1 << 20)
    return mistake("bench", "--factor is 2 or more, not", tool_value(args, OPT_FACTOR));
  return bytes(args, OPT_LEAST, 8, &args->least) &&
         bytes(args, OPT_MOST, INT64_C(1) << 28, &args->most);
}

static bool check_pipeline(const tool_args *args)
{
  if (strcmp(args->command, "pipeline") != 0) return true;
  if (args->file_count == 0) return mistake("pipeline", "which file?", NULL);
  if (args->batch == 0 || args->batch > INT64_C(1) << 40)
    return mistake("pipeline", "--batch-size is 1 to 2^40, not", tool_value(args, OPT_BATCH));
  if (args->threads > 256)
    return mistake("pipeline", "--threads is 0 to 256, not", tool_value(args, OPT_THREADS));
  if (args->seconds > 1000000)
    return mistake("pipeline", "--seconds is up to 1000000, not", tool_value(args, OPT_SECONDS));
  if (args->head > 8)
    return mistake("pipeline", "--head is 0 to 8, not", tool_value(args, OPT_HEAD));
  return true;
}

static bool check(tool_args *args)
{
  const char *command = args->command;
  /* Who asks for help gets it, whatever else is wrong. */
  if (args->count[OPT_HELP]) return true;
  if (!strcmp(command, "shard") && args->file_count != 2)
    return mistake(command, "takes a type and a mesh, such as 'f32[8,8]@(x,-)' x=4,y=2", NULL);
  /* `-` counts as a file: a pipe is named, never guessed. */
  if (tool_takes(command, OPT_FORMAT) && args->file_count == 0)
    return mistake(command, "which file? (- is standard input)", NULL);
  if (!strcmp(command, "convert") && args->file_count < 2)
    return mistake(command, "takes the files to read, then the one to write", NULL);
  if (!strcmp(command, "function") && args->file_count != 1)
    return mistake(command, "takes one file, that of a saved function", NULL);
  if (!strcmp(command, "ckpt") &&
      (args->file_count != 2 || (strcmp(args->files[0], "ls") && strcmp(args->files[0], "verify"))))
    return mistake(command, "takes ls or verify, then the folder of a checkpoint or of a step",
                   NULL);
  if ((!strcmp(command, "info") || !strcmp(command, "version")) && args->file_count > 0)
    return mistake(command, "takes no file, found", args->files[0]);
  return numbers(args) && one_character(args, OPT_SEPARATOR) && one_character(args, OPT_COMMENT) &&
         check_query(args) && check_run(args) && check_bench(args) && check_pipeline(args);
}

bool tool_parse(const char *command, int argc, char **argv, tool_args *out)
{
  bool options = true;
  memset(out, 0, sizeof *out);
  out->command = command;
  for (int i = 0; i < argc; i++) {
    const char *word = argv[i];
    /* Behind "--" a file may begin with '-'. */
    if (options && strcmp(word, "--") == 0) {
      options = false;
      continue;
    }
    /* "-" alone is standard input. */
    if (!options || word[0] != '-' || !word[1]) {
      /* What stands behind a program is its own. */
      if (!strcmp(command, "run")) {
        out->program = argv + i;
        break;
      }
      if (out->file_count >= TOOL_MOST) return mistake(command, "too many files", word);
      out->files[out->file_count++] = word;
      continue;
    }
    size_t length = strcspn(word, "=");
    int option = short_option(command, word);
    if (option < 0) option = find_option(command, word, length);
    if (option < 0) return no_option(command, word);
    const char *value = word[length] ? word + length + 1 : NULL;
    bool valued = tool_options[option].value != NULL;
    if (!valued && value) return mistake(command, "takes no value:", word);
    if (valued && !value) {
      if (++i >= argc) return mistake(command, "a value is missing after", word);
      value = argv[i];
    }
    if (!take(command, option, value, out)) return false;
  }
  return check(out);
}
