/* From a command line to a frame:
 *
 *   files -> join -> where and with, as they stand -> select -> by + agg -> distinct -> sort
 *         -> limit | tail | sample */
#include <stdio.h>
#include <string.h>

#include "tool.h"

/* Where a node was made is in this program, not the user's. */
#undef TSR_HERE
#define TSR_HERE NULL

bool tool_has_extension(const char *path, const char *extension)
{
  size_t length = strlen(path), wanted = strlen(extension);
  if (length > 3 && !strcmp(path + length - 3, ".gz")) length -= 3;
  if (length > 4 && !strcmp(path + length - 4, ".zst")) length -= 4;
  return length > wanted && !strncmp(path + length - wanted, extension, wanted);
}

static char character(const tool_args *args, tool_opt option)
{
  const char *value = tool_value(args, option);
  if (!value) return 0;
  return strcmp(value, "\\t") == 0 ? '\t' : value[0];
}

static tsr_bad_rows bad_rows(const tool_args *args)
{
  const char *what = tool_value(args, OPT_BAD_ROWS);
  if (!what || what[0] == 'e') return TSR_BAD_ROWS_ERROR;
  return what[0] == 's' ? TSR_BAD_ROWS_SKIP : TSR_BAD_ROWS_NULL;
}

/* How a file is read: by its name, where --from does not say. */
typedef enum format { CSV, TSV, JSON } format;

static format format_of(const tool_args *args, const char *file)
{
  const char *from = tool_value(args, OPT_FROM);
  if (from) return from[0] == 'j' ? JSON : from[0] == 't' ? TSV : CSV;
  bool json = tool_has_extension(file, ".jsonl") || tool_has_extension(file, ".ndjson") ||
              tool_has_extension(file, ".json");
  return json ? JSON : tool_has_extension(file, ".tsv") ? TSV : CSV;
}

static void note_lines(const char *lines)
{
  while (*lines) {
    int length = (int)strcspn(lines, "\n");
    fprintf(stderr, "tessera: note: %.*s\n", length, lines);
    lines += length + (lines[length] == '\n');
  }
}

static void note_bad_rows(const tool_args *args, int64_t rows)
{
  if (!rows) return;
  fprintf(stderr, "tessera: note: %lld bad row%s %s\n", (long long)rows, rows == 1 ? "" : "s",
          bad_rows(args) == TSR_BAD_ROWS_SKIP ? "left out" : "with fields made null");
}

/* Files of one format as one frame. */
static tsr_frame *read_alike(tsr_scope *s, const tool_args *args, const char *const *files,
                             int count)
{
  format how = format_of(args, files[0]);
  bool literal = args->count[OPT_LITERAL_PATH] > 0;
  int64_t bad = 0, most = args->unpack_limit > 0 ? args->unpack_limit : 0;
  if (how == JSON) {
    tsr_frame *df =
        tsr_frame_read_json(s, files[0], .types = tool_value(args, OPT_TYPES),
                            .bad_rows = bad_rows(args), .bad_rows_found = &bad, .more = files + 1,
                            .more_count = count - 1, .literal_path = literal, .unpack_limit = most);
    note_bad_rows(args, bad);
    return df;
  }
  char separator = character(args, OPT_SEPARATOR);
  tsr_csv_opts opts = { .size = sizeof opts,
                        .separator = separator    ? separator
                                     : how == TSV ? '\t'
                                                  : 0,
                        .comment = character(args, OPT_COMMENT),
                        .no_header = args->count[OPT_NO_HEADER] > 0,
                        .decimal_comma = args->count[OPT_DECIMAL_COMMA] > 0,
                        .text_nulls = args->count[OPT_TEXT_NULLS] > 0,
                        .skip_rows = args->skip > 0 ? (int)args->skip : 0,
                        .names = tool_value(args, OPT_NAMES),
                        .types = tool_value(args, OPT_TYPES),
                        .nulls = tool_value(args, OPT_NULLS),
                        .bad_rows = bad_rows(args),
                        .bad_rows_found = &bad,
                        .more = files + 1,
                        .more_count = count - 1,
                        .literal_path = literal,
                        .unique_names = args->count[OPT_UNIQUE_NAMES] > 0,
                        .unpack_limit = most };
  if (args->skip > 1000000000) opts.skip_rows = 1000000000;
  tsr_frame *df = tsr_frame_read_csv_with(s, files[0], &opts, TSR_HERE);
  note_lines(tsr_frame_notes(df));
  note_bad_rows(args, bad);
  return df;
}

/* Files as one frame: runs of one format are read as one, so that a column's type is that of all
 * its values in them. */
static tsr_frame *read_files(tsr_scope *s, const tool_args *args, const char *const *files,
                             int count)
{
  tsr_frame *frames[TOOL_MOST];
  int runs = 0;
  for (int i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count; end++)
      if (format_of(args, files[end]) != format_of(args, files[i])) break;
    frames[runs++] = read_alike(s, args, files + i, end - i);
  }
  return runs == 1 ? frames[0] : tsr_frame_concat_at(frames, runs, TSR_HERE);
}

tsr_frame *tool_read_all(tsr_scope *s, const tool_args *args)
{
  int count = args->file_count - (args->command[0] == 'c'); /* convert: the last is written */
  return read_files(s, args, args->files, count);
}

static tsr_join_how join_how(const char *how)
{
  if (!how || how[0] == 'i') return TSR_JOIN_INNER;
  if (how[0] == 'l') return TSR_JOIN_LEFT;
  return how[0] == 's' ? TSR_JOIN_SEMI : TSR_JOIN_ANTI;
}

/* The steps that choose and order rows of the result. "*" is every column there is by then. */
static tsr_frame *choose_rows(tsr_frame *df, const tool_args *args)
{
  const char *distinct = tool_value(args, OPT_DISTINCT), *sort = tool_value(args, OPT_SORT);
  if (distinct) df = tsr_frame_distinct(df, strcmp(distinct, "*") ? distinct : NULL);
  if (sort) df = tsr_frame_sort(df, sort);
  if (args->limit >= 0) df = tsr_frame_head(df, args->limit);
  if (args->tail >= 0) df = tsr_frame_tail(df, args->tail);
  if (args->sample >= 0)
    df = tsr_frame_sample(df, .rows = args->sample,
                          .seed = args->seed > 0 ? (uint64_t)args->seed : 0);
  return df;
}

static tsr_frame *filter_and_derive(tsr_frame *df, const tool_args *args)
{
  int used[OPT_COUNT] = { 0 };
  for (int i = 0; i < args->step_count; i++) {
    tool_opt option = args->step[i];
    const char *text = args->value[option][used[option]++], *expression;
    char name[256];
    if (option == OPT_WHERE) df = tsr_frame_filter(df, text);
    else if (tool_split_with(text, name, sizeof name, &expression))
      df = tsr_frame_assign(df, name, expression);
  }
  return df;
}

tsr_frame *tool_chain(tsr_scope *s, const tool_args *args)
{
  tsr_frame *df = tool_read_all(s, args);
  for (int i = 0; i < args->count[OPT_JOIN]; i++) {
    const char *how = i < args->count[OPT_HOW] ? args->value[OPT_HOW][i] : NULL;
    df = tsr_frame_join(df, read_files(s, args, &args->value[OPT_JOIN][i], 1),
                        args->value[OPT_ON][i], .how = join_how(how));
  }
  df = filter_and_derive(df, args);
  const char *select = tool_value(args, OPT_SELECT), *agg = tool_value(args, OPT_AGG);
  const char *by = tool_value(args, OPT_BY);
  if (select) df = tsr_frame_select(df, select);
  if (agg && by) df = tsr_frame_group_agg(df, by, agg);
  else if (agg) df = tsr_frame_agg(df, agg);
  return choose_rows(df, args);
}

/* Whether "name = ..." stands in a list. */
static bool list_names(const char *list, const char *name)
{
  size_t length = strlen(name);
  for (const char *at = list; (at = strstr(at, name)); at += length) {
    size_t blanks = strspn(at + length, " ");
    const char *after = at + length + blanks;
    if ((at == list || strchr(" ,", at[-1])) && *after == '=' && after[1] != '=') return true;
  }
  return false;
}

void tool_note_order(const tool_args *args, const tsr_scope *s)
{
  char lacks[256], name[256];
  const char *message = strstr(tsr_message(s), "tsr_frame_filter: no column '"), *unused;
  const char *agg = tool_value(args, OPT_AGG);
  if (!message || sscanf(message, "tsr_frame_filter: no column '%255[^']'", lacks) != 1) return;
  for (int i = 0; i < args->count[OPT_WITH]; i++)
    if (tool_split_with(args->value[OPT_WITH][i], name, sizeof name, &unused) &&
        !strcmp(name, lacks)) {
      fprintf(stderr, "tessera: --with makes '%s' after that; put it before\n", lacks);
      return;
    }
  if (agg && list_names(agg, lacks))
    fprintf(stderr, "tessera: --agg makes '%s' after that; --sort and --distinct see it\n", lacks);
}
