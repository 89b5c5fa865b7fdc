/* What comes out: a table fitted to the terminal, CSV, JSON lines or Markdown. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tool.h"

/* ---- messages ---- */

/* Which option a call of the library was made for. */
static const char *option_of(const char *call, size_t length)
{
  static const struct {
    const char *call, *option;
  } rows[] = { { "tsr_frame_filter", "--where" },      { "tsr_frame_assign", "--with" },
               { "tsr_frame_select", "--select" },     { "tsr_frame_agg", "--agg" },
               { "tsr_frame_group_agg", "--agg" },     { "tsr_frame_group_agg, keys", "--by" },
               { "tsr_frame_sort", "--sort" },         { "tsr_frame_join", "--join" },
               { "tsr_frame_head", "--limit" },        { "tsr_frame_concat", "files" },
               { "tsr_frame_tail", "--tail" },         { "tsr_frame_sample", "--sample" },
               { "tsr_frame_distinct", "--distinct" }, { "tsr_frame_join, keys", "--on" } };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strlen(rows[i].call) == length && !strncmp(rows[i].call, call, length))
      return rows[i].option;
  return NULL;
}

/* Prints a message with the calls and fields that it names as the options that stand for them. */
static void print_words(const char *text)
{
  static const char *const fields[][2] = { { "the option bad_rows", "--bad-rows" },
                                           { " (or see the option columns)",
                                             "; narrow the pattern, or query them one by one" } };
  while (*text) {
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz_"), used = length ? length : 1;
    const char *option = length ? option_of(text, length) : NULL;
    for (int i = 0; i < 2; i++)
      if (!strncmp(text, fields[i][0], strlen(fields[i][0]))) {
        option = fields[i][1];
        used = strlen(fields[i][0]);
      }
    if (option) fputs(option, stderr);
    else fwrite(text, 1, used, stderr);
    text += used;
  }
}

/* The library's messages begin with where in the C source a call stands and which it is; in a shell the
 * option says it better. */
int tool_fail(const tsr_scope *s)
{
  const char *message = tsr_message(s), *status = strstr(message, "TSR_E");
  const char *text = status ? strstr(status, ": ") : NULL;
  text = text ? text + 2 : message;
  const char *end = strncmp(text, "tsr_", 4) == 0 ? strstr(text, ": ") : NULL;
  const char *option = end ? option_of(text, (size_t)(end - text)) : NULL;
  tool_progress_end();
  if (tool_interrupted()) return TOOL_FAILED;
  fprintf(stderr, "tessera: %s%s", option ? option : "", option ? ": " : "");
  print_words(end ? end + 2 : text);
  fputc('\n', stderr);
  return TOOL_FAILED;
}

/* ---- tables ---- */

/* Characters a line of the terminal holds; 0: not a terminal. */
static int terminal_width(FILE *out)
{
  const char *columns = getenv("COLUMNS");
  struct winsize size;
  if (!isatty(fileno(out))) return 0;
  if (columns && atoi(columns) > 0) return atoi(columns);
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static bool wants_colour(FILE *out)
{
  const char *never = getenv("NO_COLOR"), *always = getenv("CLICOLOR_FORCE");
  const char *term = getenv("TERM");
  if (never && *never) return false;
  if (always && *always && strcmp(always, "0") != 0) return true;
  return isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
}

static int show_table(const tool_args *args, tsr_frame *df, tsr_scope *s, FILE *out)
{
  bool terminal = out == stdout;
  int width = terminal ? terminal_width(out) : 0;
  if (args->width >= 0) width = args->width < INT_MAX ? (int)args->width : 0;
  tsr_show_opts opts = { .size = sizeof opts,
                         .rows = args->rows == 0  ? -1
                                 : args->rows < 0 ? 0
                                                  : args->rows,
                         .width = width ? width : -1,
                         .colour = terminal && wants_colour(out) };
  const char *text = tsr_frame_text_with(df, &opts);
  if (tsr_scope_status(s)) return tool_fail(s);
  tool_progress_end();
  return fputs(text, out) < 0 ? TOOL_FAILED : TOOL_OK;
}

/* A cell of Markdown: bars escaped, one line. */
static void put_cell(const char *text, FILE *out)
{
  for (; *text; text++) {
    if (*text == '|' || *text == '\\') fputc('\\', out);
    if (*text == '\n') fputs("<br>", out);
    else if (*text != '\r') fputc(*text, out);
  }
}

static bool is_number(tsr_coltype type)
{
  return type > TSR_COL_BOOL && type < TSR_COL_DATE;
}

static int show_markdown(tsr_frame *df, tsr_scope *s, FILE *out)
{
  tsr_table *t = NULL;
  if (tsr_frame_collect(df, &t)) return tool_fail(s);
  tool_progress_end();
  int columns = tsr_table_columns(t);
  for (int c = 0; c < columns; c++) {
    fputs(c ? " | " : "| ", out);
    put_cell(tsr_table_name(t, c), out);
  }
  fputs(" |\n", out);
  for (int c = 0; c < columns; c++) fputs(is_number(tsr_table_type(t, c)) ? "|--:" : "|---", out);
  fputs("|\n", out);
  for (int64_t row = 0; row < tsr_table_rows(t); row++) {
    for (int c = 0; c < columns; c++) {
      const char *text = tsr_table_text(t, row, c);
      fputs(c ? " | " : "| ", out);
      if (text) put_cell(text, out);
    }
    fputs(" |\n", out);
  }
  return tsr_scope_status(s) ? tool_fail(s) : TOOL_OK;
}

/* ---- where it goes ---- */

static const char *format_of(const tool_args *args, const char *path)
{
  const char *format = tool_value(args, OPT_FORMAT);
  if (format) return format;
  if (!path) return "table";
  if (tool_has_extension(path, ".csv")) return "csv";
  if (tool_has_extension(path, ".tsv")) return "tsv";
  if (tool_has_extension(path, ".json") || tool_has_extension(path, ".jsonl") ||
      tool_has_extension(path, ".ndjson"))
    return "json";
  if (tool_has_extension(path, ".md")) return "md";
  return tool_has_extension(path, ".txt") ? "table" : NULL;
}

/* A table or Markdown in a file: written beside it, then renamed. */
static int show_in_file(const tool_args *args, tsr_frame *df, tsr_scope *s, const char *path)
{
  char fresh[4096];
  if (snprintf(fresh, sizeof fresh, "%s.part", path) >= (int)sizeof fresh) return TOOL_FAILED;
  FILE *out = fopen(fresh, "w");
  int code = TOOL_FAILED;
  if (out) {
    code =
        format_of(args, path)[0] == 'm' ? show_markdown(df, s, out) : show_table(args, df, s, out);
    bool fine = !ferror(out);
    fine = !fclose(out) && fine;
    if (code == TOOL_OK && fine && !rename(fresh, path)) return TOOL_OK;
    remove(fresh);
  }
  if (!tsr_scope_status(s)) fprintf(stderr, "tessera: '%s' cannot be written\n", path);
  return code ? code : TOOL_FAILED;
}

int tool_show(const tool_args *args, tsr_frame *df, tsr_scope *s)
{
  const char *path =
      args->command[0] == 'c' ? args->files[args->file_count - 1] : tool_value(args, OPT_OUT);
  if (path && !strcmp(path, "-")) path = NULL;
  const char *format = format_of(args, path);
  if (!format) {
    fprintf(stderr,
            "tessera: '%s' does not say its format; end it in .csv, .tsv, .jsonl or .md, or give "
            "--format%s\n",
            path, tool_has_extension(path, ".parquet") ? " (Parquet comes later)" : "");
    return TOOL_USAGE;
  }
  tsr_status status = TSR_OK;
  if (path) tool_guard();
  if (!strcmp(format, "csv") || !strcmp(format, "tsv"))
    status = tsr_frame_write_csv(df, path ? path : "-", .separator = format[0] == 't' ? '\t' : ',');
  else if (!strcmp(format, "json")) status = tsr_frame_write_json(df, path ? path : "-");
  else if (path) return show_in_file(args, df, s, path);
  else if (!strcmp(format, "md")) return show_markdown(df, s, stdout);
  else return show_table(args, df, s, stdout);
  tool_progress_end();
  return status ? tool_fail(s) : TOOL_OK;
}
