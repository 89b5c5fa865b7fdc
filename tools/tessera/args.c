/* Parses the command line: long options, "--name value" or "--name=value". */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

/* The commands that read tables, and those that read tables or records. */
#define TABLES "query convert schema"
#define READING TABLES " pipeline"

const tool_option tool_options[OPT_COUNT] = {
  [OPT_JOIN] = { "--join", "FILE", NULL, "query", true,
                 "join with another file on the keys of --on" },
  [OPT_ON] = { "--on", "KEYS", NULL, "query", true,
               "keys of a --join: 'k', or 'left = right', or several; expressions such as cast(k, "
               "'i64')" },
  [OPT_HOW] = { "--how", "KIND", "inner left semi anti", "query", true,
                "kind of join (default inner)" },
  [OPT_SUFFIX] = { "--suffix", "TEXT", NULL, "query", true,
                   "text that a --join appends to names that are taken (default _right, then "
                   "_right2, ...)" },
  [OPT_RENAME] = { "--rename", "NAMES", NULL, "query", true,
                   "rename columns: 'old = new, ...'; between two --join it applies before the "
                   "second one" },
  [OPT_WHERE] = { "--where", "E", NULL, "query pipeline", true,
                  "keep the rows where E is true; E can use the columns of each --with before it" },
  [OPT_WITH] = { "--with", "NAME=E", NULL, "query", true,
                 "add a column; options after it can use it" },
  [OPT_SELECT] = { "--select", "COLUMNS", NULL, "query", false,
                   "columns to show: 'a, b, c = a + b'" },
  [OPT_AGG] = { "--agg", "A", NULL, "query", false,
                "aggregate all rows: 'sum(x), n = count(), median(y)'" },
  [OPT_BY] = { "--by", "KEYS", NULL, "query", false,
               "with --agg: aggregate each group of equal keys: 'origin, month'" },
  [OPT_DISTINCT] = { "--distinct", "COLUMNS", NULL, "query", false,
                     "keep the first of the rows that are equal in the columns 'a, b'; '*': in all "
                     "columns" },
  [OPT_SORT] = { "--sort", "KEYS", NULL, "query", false,
                 "order the rows: 'a, b desc nulls first'" },
  [OPT_LIMIT] = { "--limit", "N", NULL, "query", false, "keep the first N rows" },
  [OPT_TAIL] = { "--tail", "N", NULL, "query", false, "keep the last N rows" },
  [OPT_SAMPLE] = { "--sample", "N", NULL, "query", false,
                   "keep a random sample of N rows, in order; each run draws the same rows" },
  [OPT_SEED] = { "--seed", "K", NULL, "query pipeline", false,
                 "with --sample or --shuffle: seed of the random order (default 0)" },
  [OPT_FORMAT] = { "--format", "FORMAT", "table csv tsv json md", "query convert schema", false,
                   "output format (default table; for a file the one of its name)" },
  [OPT_OUT] = { "--out", "FILE", NULL, "query", false,
                "write all rows to FILE: .csv .tsv .json .jsonl .md, also .gz or .zst" },
  [OPT_ROWS] = { "--rows", "N", NULL, "query schema", false,
                 "most rows of a table, half from each end; 0: all (default 20, in a file all)" },
  [OPT_WIDTH] = { "--width", "N", NULL, "query schema shard pipeline", false,
                  "characters a line of a table or drawing may take (default the terminal's, else "
                  "any number for a table, 80 for a drawing; 0: that too)" },
  [OPT_SVG] = { "--svg", NULL, NULL, "shard", false,
                "print an SVG document, 80 characters wide unless --width is given" },
  [OPT_FROM] = { "--from", "FORMAT", "csv tsv json", TABLES, false,
                 "input format, if the file's name does not give it" },
  [OPT_SEPARATOR] = { "--separator", "C", NULL, READING, false,
                      "CSV: field separator (default: found in the first rows)" },
  [OPT_NO_HEADER] = { "--no-header", NULL, NULL, READING, false, "CSV: the first line holds data" },
  [OPT_SKIP] = { "--skip", "N", NULL, READING, false, "CSV: skip N lines before the header" },
  [OPT_COMMENT] = { "--comment", "C", NULL, READING, false, "CSV: skip lines that begin with C" },
  [OPT_DECIMAL_COMMA] = { "--decimal-comma", NULL, NULL, READING, false, "CSV: 1,5 is 1.5" },
  [OPT_NULLS] = { "--nulls", "LIST", NULL, READING, false,
                  "CSV: null markers besides the empty field (default NA)" },
  [OPT_TEXT_NULLS] = { "--text-nulls", NULL, NULL, READING, false,
                       "CSV: null markers apply to text columns too" },
  [OPT_TYPES] = { "--types", "LIST", NULL, READING, false,
                  "set types of columns, also of joined files: 'a i64, day text'" },
  [OPT_BAD_ROWS] = { "--bad-rows", "WHAT", "error skip null", READING, false,
                     "treatment of malformed rows (default error)" },
  [OPT_LITERAL_PATH] = { "--literal-path", NULL, NULL, READING, false,
                         "read FILE as a file name, not as a pattern" },
  [OPT_UNPACK_LIMIT] = { "--unpack-limit", "BYTES", NULL, READING, false,
                         "most bytes of an unpacked file (default 1000 times the packed size, at "
                         "least 268435456)" },
  [OPT_NAMES] = { "--names", "LIST", NULL, READING, false,
                  "CSV: column names 'a, b, c' in place of the header's" },
  [OPT_UNIQUE_NAMES] = { "--unique-names", NULL, NULL, READING, false,
                         "CSV: a duplicate name is an error (default: it gets a number)" },
  [OPT_QUICK] = { "--quick", NULL, NULL, "schema", false,
                  "print names and types, inferred from a sample of the rows" },
  [OPT_PROCESSES] = { "--processes", "N", NULL, "run", false,
                      "number of processes; -n N is the same" },
  [OPT_COORDINATOR] = { "--coordinator", "A", NULL, "run", false,
                        "address where process 0 listens: HOST:PORT or unix:PATH (default a socket "
                        "for this user only)" },
  [OPT_ON_FAILURE] = { "--on-failure", "MODE", "shutdown error shrink", "run", false,
                       "reaction of the other processes when one fails: end, get errors, or "
                       "continue as a smaller job (default shutdown); also TSR_ON_FAILURE" },
  [OPT_ENGINE] = { "--engine", "E", NULL, "run", false,
                   "engine that moves bytes between hosts: ucx (default), mpi, or local for one "
                   "host" },
  [OPT_DEVICES] = { "--devices", "cpu:N", NULL, READING " info bench", false,
                    "shard the rows over N virtual devices (default cpu:1); bench: devices of each "
                    "process (default cpu:1, of a single process cpu:2)" },
  [OPT_ONLY] = { "--only", "NAME", "all_reduce all_gather reduce_scatter all_to_all", "bench",
                 false, "measure one collective (default all)" },
  [OPT_LEAST] = { "--min", "BYTES", NULL, "bench", false,
                  "smallest size (default 8); K, M and G are 2^10, 2^20 and 2^30" },
  [OPT_MOST] = { "--max", "BYTES", NULL, "bench", false, "largest size (default 256M)" },
  [OPT_FACTOR] = { "--factor", "N", NULL, "bench", false,
                   "ratio of a size to the one before (default 4)" },
  [OPT_TYPE] = { "--type", "TYPE", "i32 i64 f16 bf16 f32 f64", "bench", false,
                 "element type (default f32)" },
  [OPT_RECORDS] = { "--from", "FORMAT",
                    "npz npy safetensors tfrecord binary lines tar folder csv tsv json", "pipeline",
                    false, "file format, if the names do not give it" },
  [OPT_LAYOUT] = { "--layout", "FIELDS", NULL, "pipeline", false,
                   "fields of a record, if the files do not name them: 'label u8, image "
                   "u8[3,32,32]'. binary: in the order of the bytes; tfrecord: features by name, "
                   "f32, i64 or u8 (default those of the first record); tar: members by ending" },
  [OPT_HEADER] = { "--header", "BYTES", NULL, "pipeline", false,
                   "binary: bytes before the first record of each file" },
  [OPT_FIELDS] = { "--fields", "NAMES", NULL, "pipeline", false,
                   "fields to read: 'image, label'; of CSV and JSON also expressions" },
  [OPT_SHUFFLE] = { "--shuffle", NULL, NULL, "pipeline", false,
                    "read the records in random order" },
  [OPT_BATCH] = { "--batch-size", "N", NULL, "pipeline", false,
                  "records of a batch (default 256)" },
  [OPT_SECONDS] = { "--seconds", "N", NULL, "pipeline", false,
                    "read for N seconds, over several epochs if needed; 0: read the sample only "
                    "(default one epoch)" },
  [OPT_THREADS] = { "--threads", "N", NULL, "pipeline", false,
                    "threads that fill batches ahead; 0: none (default 2)" },
  [OPT_HEAD] = { "--head", "N", NULL, "pipeline", false,
                 "number of records to show, at most 8 (default 1)" },
  [OPT_JSON] = { "--json", NULL, NULL, "bench ckpt pipeline", false, "print JSON" },
  [OPT_EXPLAIN] = { "--explain", NULL, NULL, "query", false,
                    "print the plan with the bytes that move between devices" },
  [OPT_COMPILE] = { "--compile", NULL, NULL, "function", false,
                    "print the cost of a call: flops, memory, and traffic between devices with its "
                    "reasons" },
  [OPT_HELP] = { "--help", NULL, NULL, NULL, false, "print this text" },
};

/* Whether `word` is in a list of words with blanks between them. */
static bool among(const char *words, const char *word)
{
  /* Lengths must be equal: "left" is not "leftmost". */
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

/* Prints a mistake of the command line. Returns false. */
static bool mistake(const char *command, const char *what, const char *word)
{
  fprintf(stderr, "tessera %s: %s%s%s%s\n", command, what, word ? " '" : "", word ? word : "",
          word ? "'" : "");
  fprintf(stderr, "tessera %s --help lists its options\n", command);
  return false;
}

/* The edit distance of two words: deleted, inserted and changed letters, and swapped neighbours.
 * The rows hold distances of the words' prefixes. */
static size_t edit_distance(const char *a, const char *b)
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
  /* A prefix counts (--lim for --limit); else one letter may be wrong, two in longer words. */
  size_t length = strlen(word), limit = length > 4 ? 2 : 1;
  bool begins = length > 2 && !strncmp(word, name, length);
  if (!begins && edit_distance(word, name) > limit) return false;
  /* At equal distance the first in the table wins, so that messages do not change. */
  if (*best && edit_distance(word, *best) <= edit_distance(word, name)) return false;
  *best = name;
  return true;
}

/* Prints that a command lacks an option, with the nearest one. Returns false. */
static bool no_option(const char *command, const char *word)
{
  static const struct {
    const char *elsewhere;
    tool_opt option;
  } others[] = {
    /* Names in pandas, Polars, SQL and other tools. */
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
  /* A name of another tool needs no guess. */
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

/* The option of a letter; -1: unknown. */
static int short_option(const char *command, const char *word)
{
  if (!strcmp(word, "-h")) return OPT_HELP;
  return !strcmp(word, "-n") && tool_takes(command, OPT_PROCESSES) ? OPT_PROCESSES : -1;
}

const char *tool_value(const tool_args *args, tool_opt option)
{
  return args->count[option] ? args->value[option][0] : NULL;
}

static bool take_option(const char *command, int option, const char *value, tool_args *out)
{
  const tool_option *row = &tool_options[option];
  char text[160];
  if (out->count[option] >= (row->repeated ? TOOL_MOST : 1))
    return mistake(command, "repeated option", row->name);
  if (row->choices && !among(row->choices, value)) {
    snprintf(text, sizeof text, "%s takes one of: %s; found", row->name, row->choices);
    return mistake(command, text, value);
  }
  out->value[option][out->count[option]++] = value ? value : "";
  /* These steps keep their order on the command line: later ones use columns of earlier ones. */
  if (option == OPT_WHERE || option == OPT_WITH || option == OPT_JOIN || option == OPT_RENAME)
    out->step[out->step_count++] = (tool_opt)option;
  return true;
}

static bool read_number(const tool_args *args, tool_opt option, int64_t *out)
{
  const char *value = tool_value(args, option);
  char *end, text[80];
  *out = -1;
  if (!value) return true;
  errno = 0;
  long long n = strtoll(value, &end, 10);
  *out = n;
  /* Digits only: no sign, no fraction, no overflow. */
  if (end != value && !*end && n >= 0 && !errno) return true;
  snprintf(text, sizeof text, "%s takes a %s, found", tool_options[option].name,
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

/* Reads a number of bytes: a whole number, then K, M, G or nothing. */
static bool read_bytes(const tool_args *args, tool_opt option, int64_t otherwise, int64_t *out)
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
  snprintf(text, sizeof text, "%s takes a number of bytes, such as 64K, found",
           tool_options[option].name);
  return mistake(args->command, text, value);
}

/* Copies a name up to its end: the closing quote (a doubled quote is one), or without quotes the
 * '='. Returns the rest; NULL: the name is not closed, empty or longer than `size`. */
static const char *copy_name(const char *at, char *name, size_t size)
{
  /* As the library quotes names of columns: in double quotes, with quotes inside doubled. */
  bool quoted = *at == '"';
  size_t length = 0;
  /* A quoted name may contain '='. */
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
  const char *at = copy_name(text, name, size);
  while (at && isspace((unsigned char)*at)) at++;
  /* "a == b" and "a <= b" are expressions without a name. */
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
    list += *list == '"'; /* a doubled quote is one quote */
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
      return mistake(command, "--with takes 'NAME = E', found", args->value[OPT_WITH][i]);
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

static bool read_numbers(tool_args *args)
{
  return read_number(args, OPT_LIMIT, &args->limit) && read_number(args, OPT_TAIL, &args->tail) &&
         read_number(args, OPT_SAMPLE, &args->sample) && read_number(args, OPT_SEED, &args->seed) &&
         read_number(args, OPT_ROWS, &args->rows) && read_number(args, OPT_WIDTH, &args->width) &&
         read_number(args, OPT_SKIP, &args->skip) &&
         read_number(args, OPT_UNPACK_LIMIT, &args->unpack_limit) &&
         read_number(args, OPT_PROCESSES, &args->processes) &&
         read_number(args, OPT_FACTOR, &args->factor) &&
         read_number(args, OPT_BATCH, &args->batch) &&
         read_number(args, OPT_SECONDS, &args->seconds) &&
         read_number(args, OPT_THREADS, &args->threads) &&
         read_number(args, OPT_HEAD, &args->head) && read_number(args, OPT_HEADER, &args->header);
}

static bool one_character(const tool_args *args, tool_opt option)
{
  const char *value = tool_value(args, option);
  char text[80];
  /* The shell passes \t as two characters. */
  if (!value || (value[0] && !value[1]) || !strcmp(value, "\\t")) return true;
  snprintf(text, sizeof text, "%s takes one character, found", tool_options[option].name);
  return mistake(args->command, text, value);
}

static bool check_run(const tool_args *args)
{
  if (strcmp(args->command, "run") != 0) return true;
  if (!args->program) return mistake("run", "PROGRAM is missing; options come before it", NULL);
  if (args->processes < 1)
    return mistake("run", "the number of processes is missing; give it, such as -n 4", NULL);
  return true;
}

static bool check_bench(tool_args *args)
{
  if (strcmp(args->command, "bench") != 0) return true;
  if (args->file_count != 1 || strcmp(args->files[0], "collectives") != 0)
    return mistake("bench", "takes 'collectives'", NULL);
  if (args->factor < 0) args->factor = 4;
  if (args->factor < 2 || args->factor > 1 << 20)
    return mistake("bench", "--factor takes 2 or more, found", tool_value(args, OPT_FACTOR));
  return read_bytes(args, OPT_LEAST, 8, &args->least) &&
         read_bytes(args, OPT_MOST, INT64_C(1) << 28, &args->most);
}

static bool check_pipeline(const tool_args *args)
{
  if (strcmp(args->command, "pipeline") != 0) return true;
  if (args->file_count == 0) return mistake("pipeline", "FILE is missing", NULL);
  if (args->batch == 0 || args->batch > INT64_C(1) << 40)
    return mistake("pipeline", "--batch-size takes 1 to 2^40, found", tool_value(args, OPT_BATCH));
  if (args->threads > 256)
    return mistake("pipeline", "--threads takes 0 to 256, found", tool_value(args, OPT_THREADS));
  if (args->seconds > 1000000)
    return mistake("pipeline", "--seconds takes 0 to 1000000, found",
                   tool_value(args, OPT_SECONDS));
  if (args->head > 8)
    return mistake("pipeline", "--head takes 0 to 8, found", tool_value(args, OPT_HEAD));
  return true;
}

static bool check_arguments(tool_args *args)
{
  const char *command = args->command;
  /* --help wins over any mistake. */
  if (args->count[OPT_HELP]) return true;
  if (!strcmp(command, "shard") && args->file_count != 2)
    return mistake(command, "takes a type and a mesh, such as 'f32[8,8]@(x,-)' x=4,y=2", NULL);
  /* `-` counts as a file: standard input is never read unasked. */
  if (tool_takes(command, OPT_FORMAT) && args->file_count == 0)
    return mistake(command, "FILE is missing (- is standard input)", NULL);
  if (!strcmp(command, "convert") && args->file_count < 2)
    return mistake(command, "takes the files to read, then the file to write", NULL);
  if (!strcmp(command, "function") && args->file_count != 1)
    return mistake(command, "takes one file, a saved function", NULL);
  if (!strcmp(command, "ckpt") &&
      (args->file_count != 2 || (strcmp(args->files[0], "ls") && strcmp(args->files[0], "verify"))))
    return mistake(command, "takes ls or verify, then the folder of a checkpoint or a step", NULL);
  if ((!strcmp(command, "info") || !strcmp(command, "version")) && args->file_count > 0)
    return mistake(command, "takes no files, found", args->files[0]);
  return read_numbers(args) && one_character(args, OPT_SEPARATOR) &&
         one_character(args, OPT_COMMENT) && check_query(args) && check_run(args) &&
         check_bench(args) && check_pipeline(args);
}

bool tool_parse(const char *command, int argc, char **argv, tool_args *out)
{
  bool options = true;
  memset(out, 0, sizeof *out);
  out->command = command;
  for (int i = 0; i < argc; i++) {
    const char *word = argv[i];
    /* After "--" a file name may begin with '-'. */
    if (options && strcmp(word, "--") == 0) {
      options = false;
      continue;
    }
    /* "-" alone is standard input. */
    if (!options || word[0] != '-' || !word[1]) {
      /* The rest belongs to the program. */
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
    if (!take_option(command, option, value, out)) return false;
  }
  return check_arguments(out);
}
