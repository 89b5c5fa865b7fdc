/* Makes the frame of a command line:
 *
 *   files -> join and rename -> where, with and rename, in order -> select -> by + agg
 *         -> distinct -> sort -> limit | tail | sample */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tool.h"

/* Source locations of this program would say nothing to its users. */
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

/* The format of a file: from --from, else from its name. */
typedef enum format { CSV, TSV, JSON } format;

static format format_of(const tool_args *args, const char *file)
{
  const char *from = tool_value(args, OPT_FROM);
  if (from) return from[0] == 'j' ? JSON : from[0] == 't' ? TSV : CSV;
  bool json = tool_has_extension(file, ".jsonl") || tool_has_extension(file, ".ndjson") ||
              tool_has_extension(file, ".json");
  return json ? JSON : tool_has_extension(file, ".tsv") ? TSV : CSV;
}

static void note_lines(const tool_args *args, const char *lines)
{
  if (args->quiet) return;
  while (*lines) {
    int length = (int)strcspn(lines, "\n");
    char line[1000];
    snprintf(line, sizeof line, "%.*s", length, lines);
    fprintf(stderr, "tessera: note: ");
    tool_put_words(stderr, line);
    fputc('\n', stderr);
    lines += length + (lines[length] == '\n');
  }
}

/* Frames of CSV files, with the length of their notes that was printed: reading adds notes. */
static struct {
  const tsr_frame *df;
  size_t printed;
} noted[4 * TOOL_MOST];
static int noted_count;

static void note_frame(const tool_args *args, const tsr_frame *df)
{
  note_lines(args, tsr_frame_notes(df));
  if (args->quiet || noted_count >= 4 * TOOL_MOST) return;
  noted[noted_count].df = df;
  noted[noted_count++].printed = strlen(tsr_frame_notes(df));
}

void tool_note_late(const tool_args *args)
{
  for (int i = 0; i < noted_count; i++) {
    const char *notes = tsr_frame_notes(noted[i].df);
    note_lines(args, notes + noted[i].printed);
    noted[i].printed = strlen(notes);
  }
}

static void note_bad_rows(const tool_args *args, int64_t rows)
{
  if (!rows || args->quiet) return;
  fprintf(stderr, "tessera: note: %lld bad row%s %s\n", (long long)rows, rows == 1 ? "" : "s",
          bad_rows(args) == TSR_BAD_ROWS_SKIP ? "skipped" : "with nulls for malformed fields");
}

/* The frame of files of one format. */
static tsr_frame *read_alike(tsr_scope *s, const tool_args *args, const char *types,
                             const char *const *files, int count)
{
  format how = format_of(args, files[0]);
  bool literal = args->count[OPT_LITERAL_PATH] > 0;
  int64_t bad = 0, most = args->unpack_limit > 0 ? args->unpack_limit : 0;
  if (how == JSON) {
    tsr_frame *df =
        tsr_frame_read_json(s, files[0], .types = types, .bad_rows = bad_rows(args),
                            .bad_rows_found = &bad, .more = files + 1, .more_count = count - 1,
                            .literal_path = literal, .unpack_limit = most);
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
                        .types = types,
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
  note_frame(args, df);
  note_bad_rows(args, bad);
  return df;
}

/* The frame of all files. Neighbours of one format are read together, so that a column's type comes
 * from all its values in them. */
static tsr_frame *read_files(tsr_scope *s, const tool_args *args, const char *types,
                             const char *const *files, int count)
{
  tsr_frame *frames[TOOL_MOST];
  int runs = 0;
  for (int i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count; end++)
      if (format_of(args, files[end]) != format_of(args, files[i])) break;
    frames[runs++] = read_alike(s, args, types, files + i, end - i);
  }
  return runs == 1 ? frames[0] : tsr_frame_concat_at(frames, runs, TSR_HERE);
}

tsr_frame *tool_read_all(tsr_scope *s, const tool_args *args)
{
  int count = args->file_count - (args->command[0] == 'c'); /* convert writes the last file */
  return read_files(s, args, tool_value(args, OPT_TYPES), args->files, count);
}

/* ---- types of several files ---- */

static bool has_column(const tsr_frame *df, const char *name)
{
  for (int c = tsr_frame_column_count(df); c-- > 0;)
    if (!strcmp(tsr_frame_column_name(df, c), name)) return true;
  return false;
}

/* Whether a file can be read twice: a stream cannot. */
static bool can_peek(const char *path)
{
  struct stat entry;
  return strcmp(path, "-") != 0 && (stat(path, &entry) || S_ISREG(entry.st_mode));
}

/* The frame of files read without --types; NULL: a stream, or an error that comes again later. */
static tsr_frame *peek(tsr_scope *s, const tool_args *args, const char *const *files, int count)
{
  tool_args quiet = *args;
  for (int i = 0; i < count; i++)
    if (!can_peek(files[i])) return NULL;
  quiet.quiet = true;
  tsr_frame *df = read_files(s, &quiet, NULL, files, count);
  if (!tsr_scope_status(s)) return df;
  tsr_scope_clear(s);
  return NULL;
}

/* The items of --types for the columns of a file, if files are joined. The first files also get the
 * items of no joined file, so that an unknown name is an error. `taken`: by item, whether a joined
 * file has the column. */
static const char *types_of(tsr_scope *outer, const tool_args *args, const char *const *files,
                            int count, bool *taken)
{
  static char kept[TOOL_MOST + 1][4096];
  bool first = files == args->files;
  char *out = kept[first ? TOOL_MOST : files - args->value[OPT_JOIN]], *to = out;
  const char *list = tool_value(args, OPT_TYPES), *next;
  if (!list || !args->count[OPT_JOIN]) return list;
  tsr_scope *s = tsr_scope_open(outer);
  tsr_frame *df = peek(s, args, files, count);
  tool_item item;
  *out = 0;
  for (int i = 0; (next = tool_next_item(list, ' ', &item)); list = next, i++) {
    bool has = df && has_column(df, item.left);
    if (i < 4 * TOOL_MOST && !first) taken[i] = taken[i] || has;
    if (!has && !(first && (i >= 4 * TOOL_MOST || !taken[i]))) continue;
    if (to - out > (int)sizeof kept[0] - 3 * TOOL_TEXT) break;
    if (to > out) *to++ = ',';
    to = tool_put_name(to, item.left);
    to += sprintf(to, " %s", item.right);
  }
  tsr_scope_close(s);
  return *out ? out : NULL;
}

static tsr_join_how join_how(const char *how)
{
  if (!how || how[0] == 'i') return TSR_JOIN_INNER;
  if (how[0] == 'l') return TSR_JOIN_LEFT;
  return how[0] == 's' ? TSR_JOIN_SEMI : TSR_JOIN_ANTI;
}

/* The steps that choose and order rows of the result. "*" is every column at that step. */
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

/* Renames by a list "old = new, ..."; the library's list is "new = old". If only names on the right
 * of the signs are columns, the list is read as "new = old". */
static tsr_frame *rename_columns(tsr_frame *df, const char *list)
{
  static char text[3 * 4096];
  char *to = text;
  tool_item item;
  int old = 0, new = 0;
  for (const char *at = list; (at = tool_next_item(at, '=', &item));) {
    old += has_column(df, item.left);
    new += has_column(df, item.right) && !has_column(df, item.left);
  }
  for (const char *at = list; (at = tool_next_item(at, '=', &item));) {
    if (to - text > (int)sizeof text - 5 * TOOL_TEXT) break;
    if (to > text) *to++ = ',';
    bool turned = old || !new;
    to = tool_put_name(to, turned ? item.right : item.left);
    *to++ = '=';
    to = tool_put_name(to, turned ? item.left : item.right);
  }
  *to = 0;
  return tsr_frame_rename(df, text);
}

static tsr_frame *join_next(tsr_scope *s, tsr_frame *df, const tool_args *args, int i, bool *taken)
{
  const char *how = i < args->count[OPT_HOW] ? args->value[OPT_HOW][i] : NULL;
  const char *const *file = &args->value[OPT_JOIN][i];
  char suffix[32] = "_right";
  if (i > 0) snprintf(suffix, sizeof suffix, "_right%d", i + 1);
  tsr_frame *right = read_files(s, args, types_of(s, args, file, 1, taken), file, 1);
  return tsr_frame_join(df, right, args->value[OPT_ON][i], .how = join_how(how),
                        .suffix =
                            i < args->count[OPT_SUFFIX] ? args->value[OPT_SUFFIX][i] : suffix);
}

/* Reads and joins all files. Each --rename before the last --join is applied in its place. */
static tsr_frame *read_and_join(tsr_scope *s, const tool_args *args, int *renames)
{
  bool taken[4 * TOOL_MOST] = { false };
  int joins = args->count[OPT_JOIN], joined = 0;
  /* The columns of joined files must be known before the first files are read. */
  for (int i = 0; i < joins; i++) types_of(s, args, &args->value[OPT_JOIN][i], 1, taken);
  int count = args->file_count;
  const char *types = types_of(s, args, args->files, count, taken);
  tsr_frame *df = read_files(s, args, types, args->files, count);
  for (int i = 0; i < args->step_count && joined < joins; i++) {
    if (args->step[i] == OPT_JOIN) df = join_next(s, df, args, joined++, taken);
    if (args->step[i] == OPT_RENAME) df = rename_columns(df, args->value[OPT_RENAME][(*renames)++]);
  }
  return df;
}

static tsr_frame *filter_and_derive(tsr_frame *df, const tool_args *args, int renames)
{
  int used[OPT_COUNT] = { 0 };
  for (int i = 0; i < args->step_count; i++) {
    tool_opt option = args->step[i];
    int place = used[option]++;
    const char *text = args->value[option][place], *expression;
    char name[256];
    if (option == OPT_WHERE) df = tsr_frame_filter(df, text);
    else if (option == OPT_RENAME && place >= renames) df = rename_columns(df, text);
    else if (option == OPT_WITH && tool_split_with(text, name, sizeof name, &expression))
      df = tsr_frame_assign(df, name, expression);
  }
  return df;
}

tsr_frame *tool_chain(tsr_scope *s, const tool_args *args)
{
  int renames = 0;
  tsr_frame *df = read_and_join(s, args, &renames);
  df = filter_and_derive(df, args, renames);
  const char *select = tool_value(args, OPT_SELECT), *agg = tool_value(args, OPT_AGG);
  const char *by = tool_value(args, OPT_BY);
  if (select) df = tsr_frame_select(df, select);
  if (agg && by) df = tsr_frame_group_agg(df, by, agg);
  else if (agg) df = tsr_frame_agg(df, agg);
  return choose_rows(df, args);
}

/* Whether a list contains "name = ...". */
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
      fprintf(stderr, "tessera: a later --with makes '%s'; move it before the --where\n", lacks);
      return;
    }
  if (agg && list_names(agg, lacks))
    fprintf(stderr,
            "tessera: --agg makes '%s' after --where; only --sort and --distinct can use it\n",
            lacks);
}
