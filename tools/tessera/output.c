/* Output: messages, texts, and frames as a table, CSV, JSON lines or Markdown. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tool.h"

/* ---- messages ---- */

/* Whether a list of calls, separated by ';', contains a call. */
static bool has_call(const char *calls, const char *call, size_t length)
{
  for (const char *at = calls; at && *at; at += strcspn(at, ";"), at += *at == ';')
    if (strcspn(at, ";") == length && !strncmp(at, call, length)) return true;
  return false;
}

/* The option or command of a call of the library; NULL: none. */
static const char *option_of(const char *call, size_t length)
{
  /* Calls without an option of their own. */
  static const struct {
    const char *call, *words;
  } others[] = { { "tsr_frame_concat", "files" },
                 { "tsr_frame_read_csv", "--from csv" },
                 { "tsr_frame_read_json", "--from json" },
                 { "tsr_load_npy", "tessera pipeline" },
                 { "tsr_load_npz", "tessera pipeline" } };
  for (int i = 0; i < OPT_COUNT; i++)
    if (has_call(tool_calls[i], call, length)) return tool_options[i].name;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (has_call(others[i].call, call, length)) return others[i].words;
  return NULL;
}

static size_t word_length(const char *text)
{
  return strspn(text, "abcdefghijklmnopqrstuvwxyz_");
}

/* The option of a field of the library's option structs; NULL: none. */
static const char *option_named(const char *field, size_t length)
{
  for (int i = 0; i < OPT_COUNT; i++) {
    const char *name = tool_options[i].name + 2;
    size_t at = 0;
    while (at < length && name[at] == (field[at] == '_' ? '-' : field[at])) at++;
    if (at == length && !name[at]) return tool_options[i].name;
  }
  return NULL;
}

/* Prints a phrase of the library's messages in words of the command line. Returns its length in
 * `text`; 0: no phrase. */
static size_t put_phrase(FILE *out, const char *text)
{
  static const char *const phrases[][2] = {
    { "the option unpack_limit, and .memory_limit if there is one", "--unpack-limit" },
    { " (or see the option columns)", "; narrow the pattern, or query the files one by one" },
    { "give .null_value or filter them out", "leave them out: --where 'COLUMN is not null'" },
    { "choose others with .columns, or rename it", "rename it in the file" },
    /* Files are concatenated before any --with runs. */
    { "make them one type with tsr_frame_assign", "give it one type with --types" }
  };
  for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
    if (!strncmp(text, phrases[i][0], strlen(phrases[i][0]))) {
      fputs(phrases[i][1], out);
      return strlen(phrases[i][0]);
    }
  /* "the option bad_rows", ".suffix". */
  size_t before = !strncmp(text, "the option ", 11) ? 11 : *text == '.';
  size_t length = before ? word_length(text + before) : 0;
  const char *option = length ? option_named(text + before, length) : NULL;
  if (!option) return 0;
  fputs(option, out);
  return before + length;
}

/* Prints a call as its option, else as words. */
static void put_call(FILE *out, const char *call, size_t length)
{
  const char *option = option_of(call, length);
  if (option) fputs(option, out);
  for (size_t i = 4; i < length && !option; i++) fputc(call[i] == '_' ? ' ' : call[i], out);
}

void tool_put_words(FILE *out, const char *text)
{
  /* Whole names are compared: tsr_frame_join_x does not contain the call tsr_frame_join. */
  const char *begin = text;
  for (size_t used; *text; text += used) {
    size_t length = word_length(text);
    bool call = !strncmp(text, "tsr_", 4) && length > 4;
    /* ".json" in "a.json" is not a field. */
    bool starts = text == begin || *text == ' ' || strchr(" (", text[-1]);
    used = call || !starts ? 0 : put_phrase(out, text);
    if (used) continue;
    used = length ? length : 1;
    if (call) put_call(out, text, length);
    else fwrite(text, 1, used, out);
  }
}

/* The library's messages begin with the source location and the call, which the command line does
 * not show. */
const char *tool_message(const tsr_scope *s)
{
  const char *message = tsr_message(s), *status = strstr(message, "TSR_E");
  const char *text = status ? strstr(status, ": ") : NULL;
  return text ? text + 2 : message;
}

void tool_put_message(FILE *out, const char *message)
{
  const char *end = strncmp(message, "tsr_", 4) == 0 ? strstr(message, ": ") : NULL;
  const char *option = end ? option_of(message, (size_t)(end - message)) : NULL;
  if (option) fprintf(out, "%s: ", option);
  tool_put_words(out, end ? end + 2 : message);
}

char *tool_message_words(const char *message)
{
  char *words = NULL;
  size_t size;
  FILE *out = open_memstream(&words, &size);
  if (!out) return NULL;
  tool_put_message(out, message);
  if (!fclose(out)) return words;
  free(words);
  return NULL;
}

int tool_fail(const tsr_scope *s)
{
  tool_progress_end();
  /* After an interruption by the user the message would only say that the call was cancelled. */
  if (tool_interrupted()) return TOOL_FAILED;
  fputs("tessera: ", stderr);
  tool_put_message(stderr, tool_message(s));
  fputc('\n', stderr);
  return TOOL_FAILED;
}

void tool_log(tsr_log_level level, const char *area, const char *line, void *user)
{
  (void)user;
  if (level > TSR_LOG_INFO || strcmp(area, "pipeline") != 0) return;
  tool_progress_end();
  fputs("tessera: note: ", stderr);
  tool_put_words(stderr, line);
  fputc('\n', stderr);
}

/* ---- texts ---- */

int tool_character(const char *text, size_t left)
{
  const unsigned char *c = (const unsigned char *)text;
  if (c[0] < 0x80) return 1;
  int size = c[0] >= 0xF0 ? 4 : c[0] >= 0xE0 ? 3 : 2;
  if (c[0] < 0xC2 || c[0] > 0xF4 || (size_t)size > left) return 0;
  for (int i = 1; i < size; i++)
    if ((c[i] & 0xC0) != 0x80) return 0;
  /* Overlong forms, surrogates, and code points above U+10FFFF. */
  if ((c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xED && c[1] >= 0xA0)) return 0;
  if ((c[0] == 0xF0 && c[1] < 0x90) || (c[0] == 0xF4 && c[1] >= 0x90)) return 0;
  return size;
}

const char *tool_tame(const char *text, char *out, size_t size)
{
  size_t used = 0, left = strlen(text);
  for (int n; left && used + 8 < size; text += n, left -= (size_t)n) {
    int length = tool_character(text, left);
    n = length ? length : 1;
    bool plain = length > 1 || (length && (unsigned char)*text >= 0x20 && *text != 0x7F);
    if (plain) memcpy(out + used, text, (size_t)n), used += (size_t)n;
    else used += (size_t)sprintf(out + used, "\\x%02X", (unsigned char)*text);
  }
  out[used] = 0;
  return out;
}

void tool_put_json(const char *text)
{
  size_t left = strlen(text);
  putchar('"');
  for (int n; left; text += n, left -= (size_t)n) {
    unsigned char c = (unsigned char)*text;
    n = tool_character(text, left);
    if (!n) {
      fputs("\\ufffd", stdout);
      n = 1;
    } else if (c < 0x20) printf("\\u%04x", c);
    else if (c == '"' || c == '\\') printf("\\%c", c);
    else fwrite(text, 1, (size_t)n, stdout);
  }
  putchar('"');
}

void tool_size_text(int64_t bytes, char out[32])
{
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
  double size = (double)bytes;
  int unit = 0;
  while (size >= 1024 && unit < 6) size /= 1024, unit++;
  snprintf(out, 32, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
}

/* ---- tables ---- */

int tool_terminal_width(FILE *out)
{
  const char *columns = getenv("COLUMNS");
  struct winsize size;
  /* Lines of a file or a pipe have no limit. */
  if (!isatty(fileno(out))) return 0;
  /* COLUMNS, set by hand or by the shell, wins over the terminal. */
  if (columns && atoi(columns) > 0) return atoi(columns);
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool tool_wants_colour(FILE *out)
{
  const char *never = getenv("NO_COLOR"), *always = getenv("CLICOLOR_FORCE");
  const char *term = getenv("TERM");
  /* no-color.org: any value but the empty one counts. */
  if (never && *never) return false;
  /* Colours also in a pipe, for a pager that shows colours. */
  if (always && *always && strcmp(always, "0") != 0) return true;
  return isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
}

static tsr_status show_table(const tool_args *args, tsr_frame *df, const char *path)
{
  bool terminal = !strcmp(path, "-");
  int width = terminal ? tool_terminal_width(stdout) : 0;
  /* --width 0: no limit. */
  if (args->width >= 0) width = args->width < INT_MAX ? (int)args->width : 0;
  tsr_show_opts opts = { .size = sizeof opts,
                         .rows = args->rows > 0                 ? args->rows
                                 : args->rows == 0 || !terminal ? -1
                                                                : 20,
                         .width = width ? width : -1,
                         .colour = terminal && tool_wants_colour(stdout) };
  return tsr_frame_write_text_with(df, path, &opts, TSR_HERE);
}

/* ---- destinations ---- */

/* The format of --format or of the path's name; NULL: none. */
static const char *format_of(const tool_args *args, const char *path)
{
  static const char *const ends[][2] = { { ".csv", "csv" },     { ".tsv", "tsv" },
                                         { ".json", "json" },   { ".jsonl", "json" },
                                         { ".ndjson", "json" }, { ".md", "md" } };
  const char *format = tool_value(args, OPT_FORMAT);
  if (format) return format;
  if (!strcmp(path, "-")) return "table";
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (tool_has_extension(path, ends[i][0])) return ends[i][1];
  return NULL;
}

int tool_show(const tool_args *args, tsr_frame *df, tsr_scope *s)
{
  /* convert writes its last file; others write to --out or the terminal. */
  const char *path =
      args->command[0] == 'c' ? args->files[args->file_count - 1] : tool_value(args, OPT_OUT);
  if (!path) path = "-";
  const char *format = format_of(args, path);
  if (!format) {
    fprintf(
        stderr,
        "tessera: the name '%s' gives no format; end it in .csv, .tsv, .json, .jsonl or .md, or "
        "give --format (table: long texts are cut)%s\n",
        path, tool_has_extension(path, ".parquet") ? " (Parquet is not supported yet)" : "");
    return TOOL_USAGE;
  }
  tsr_status status = TSR_OK;
  /* From here on an interruption must let the library remove its temporary file. */
  if (strcmp(path, "-") != 0) tool_guard();
  switch (format[0]) {
  case 'c': status = tsr_frame_write_csv(df, path); break;
  case 'j': status = tsr_frame_write_json(df, path); break;
  case 'm': status = tsr_frame_write_markdown(df, path); break;
  default:
    status = format[1] == 's' ? tsr_frame_write_csv(df, path, .separator = '\t')
                              : show_table(args, df, path);
  }
  tool_progress_end();
  tool_note_late(args);
  return status ? tool_fail(s) : TOOL_OK;
}
