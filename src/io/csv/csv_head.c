/* The beginning of a file: a mark, lines to skip, how lines end, the header.
 *
 *   first file    a,b,c       the columns, or those of them that are chosen
 *   second file   c,a,b       the same names in any order: at[] = 1 2 0
 *
 * Invariant: what is found here is found again in the loaded file, so offsets stay right. */
#include "io/csv/csv_inner.h"

#define SEPARATORS ",;\t|" /* one of these, where nobody says which */

/* Rows that say which, as far as they lie within so many bytes. */
enum { ROWS_THAT_VOTE = 100, VOTING_BYTES = 16 << 10 };

/* Behind the field that begins at `at`: where its separator, CR or LF stands, or the text's end. */
static const char *field_stop(const char *at, const char *end, const char *separators)
{
  /* Doubled quotes are stepped over in pairs, by the loop's step and the one in it. */
  if (at < end && *at == '"')
    for (at++; at < end && (*at != '"' || (at + 1 < end && at[1] == '"')); at++) at += *at == '"';
  while (at < end && *at != '\r' && *at != '\n' && !(*at && strchr(separators, *at))) at++;
  return at;
}

/* LF if there is one outside quoted fields; else, in a whole file, CR if there is one; 0: not
 * known. A line end inside quotes is text, so fields are stepped over as a whole. */
static char find_newline(tsr__csv_window text, const char *separators, bool whole)
{
  bool returns = false;
  for (const char *at = text.at; at < text.end; at++) {
    at = field_stop(at, text.end, separators);
    if (at < text.end && *at == '\n') return '\n';
    returns |= at < text.end && *at == '\r';
  }
  if (!whole) return 0;
  /* Not before the whole file was seen: an LF may follow, and old Macintosh files (CR alone) have
   * none. */
  return returns ? '\r' : '\n';
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Copies a field of the header without its quotes; a nameless column is called by its place. NULL:
 * out of memory, or no UTF-8 (then `*bad`). */
static const char *name_of(tsr__csv *csv, int place, tsr__text_span f, bool *bad)
{
  tsr__text name;
  tsr__text_init(&name, csv->heap);
  bool quoted = f.length >= 2 && f.at[0] == '"';
  /* Names may be quoted as any field, quotes doubled. */
  if (quoted) f.at++, f.length -= 2;
  for (size_t i = 0; i < f.length; i++) {
    tsr__text_put(&name, f.at + i, 1);
    if (quoted && f.at[i] == '"') i++;
  }
  if (name.length == 0) tsr__text_add(&name, "column_%d", place + 1);
  /* A NUL would end the name for every caller that reads it as C does. */
  *bad = !name.failed && (!tsr__utf8_valid(tsr__text_get(&name), name.length) ||
                          strlen(tsr__text_get(&name)) != name.length);
  const char *copy = NULL;
  if (!name.failed && !*bad) copy = tsr__arena_text(&csv->arena, tsr__text_get(&name), name.length);
  tsr__text_free(&name);
  return copy;
}

/* The names that a file's header gives, or its columns' places. */
static tsr_status read_names(tsr__csv_file *file, tsr__csv_window text, const tsr__csv_row *row,
                             const char **names, tsr__error *error)
{
  tsr__csv *csv = file->csv;
  const char *at = row->begin;
  for (int i = 0; i < file->fields; i++) {
    bool bad = false;
    const char *from = at;
    tsr__text_span field = tsr__csv_next_field(&file->dialect, &at, row->next);
    /* Names that are given replace those of the header, which was still read to count the
     * fields. */
    if (csv->names.count) names[i] = csv->names.item[i].text;
    else names[i] = name_of(csv, i, csv->opts.no_header ? (tsr__text_span){ 0 } : field, &bad);
    if (names[i]) continue;
    if (!bad) return tsr__csv_no_memory(csv, error);
    int64_t line, column;
    tsr__csv_place(file, text, from, &line, &column);
    return tsr__error_set(error, TSR_EPARSE,
                          "%s:%lld:%lld: the name of column %d in the header is not UTF-8 text; "
                          "convert the file (iconv -f LATIN1 -t UTF-8)",
                          file->path, (long long)line, (long long)column, i + 1);
  }
  return TSR_OK;
}

/* ---- which field is which column ------------------------------------------------------------- */

static tsr_status twice(const tsr__csv_file *file, int a, int b, const char *name,
                        tsr__error *error)
{
  return tsr__error_set(error, TSR_ECOLUMN,
                        "%s: columns %d and %d of the header are both called \"%.100s\"; rename "
                        "one, names must be unique",
                        file->path, a + 1, b + 1, name);
}

/* A free name for column `place`, whose own stands before it: with its number, as a nameless
 * column's has one. It is in the index then. NULL: out of memory. */
static const char *numbered(const tsr__csv_file *file, int place, const char *name,
                            tsr__dict_local *index)
{
  tsr__csv *csv = file->csv;
  tsr__text text;
  const char *copy = NULL;
  tsr__text_init(&text, csv->heap);
  tsr__text_add(&text, "%s_%d", name, place + 1);
  /* "a_3" may itself be taken: underscores are added until it is free. */
  for (bool added = false; !added && !text.failed; tsr__text_put(&text, "_", 1)) {
    copy = tsr__arena_text(&csv->arena, tsr__text_get(&text), text.length);
    if (!copy || tsr__dict_code(index, copy, text.length, false, &added) < 0) break;
  }
  bool failed = text.failed || index->failed;
  tsr__text_free(&text);
  if (failed || !copy) return NULL;
  tsr__text_add(&csv->notes, "%s: column %d is another \"%.100s\", and called \"%.100s\"\n",
                file->path, place + 1, name, copy);
  return copy;
}

/* Codes of the file's names, which are the fields' places. */
static tsr_status index_names(const tsr__csv_file *file, const char **names, tsr__dict_local *index,
                              tsr__error *error)
{
  bool unique = file->csv->opts.unique_names || file->csv->names.count;
  /* Who gives names or types by them must be told of doubles; else the second one is renamed, as
   * pandas does. */
  for (int i = 0; i < file->fields; i++) {
    bool added;
    int32_t first = tsr__dict_code(index, names[i], strlen(names[i]), false, &added);
    if (first < 0) return tsr__csv_no_memory(file->csv, error);
    if (!added && unique) return twice(file, first, i, names[i], error);
    if (!added) names[i] = numbered(file, i, names[i], index);
    if (!names[i]) return tsr__csv_no_memory(file->csv, error);
  }
  return TSR_OK;
}

static int32_t place_of(tsr__dict_local *index, int fields, const char *name)
{
  bool added;
  /* Asking adds an unknown name, with a code behind all fields by which it is told from those that
   * are there. */
  int32_t code = tsr__dict_code(index, name, strlen(name), false, &added);
  return code < fields ? code : -1;
}

static tsr_status unknown(const tsr__csv *csv, const char *list, const char *name,
                          const char *const *names, tsr__error *error)
{
  int count = csv->files[0].fields;
  int near = tsr__text_nearest(name, names, count < 1000 ? count : 1000);
  return tsr__error_set(
      error, TSR_ECOLUMN,
      "%s: the list of %s names \"%.100s\", but there is no such column%s%.100s%s", csv->path, list,
      name, near < 0 ? "" : "; did you mean \"", near < 0 ? "" : names[near],
      near < 0 ? "" : "\"?");
}

static tsr_status choose_columns(tsr__csv *csv, const char *const *names, tsr__dict_local *index,
                                 int *column_of, tsr__error *error)
{
  int fields = csv->files[0].fields;
  for (int i = 0; i < fields; i++) column_of[i] = -1;
  for (int c = 0; c < csv->column_count; c++) {
    const char *name = csv->chosen.count ? csv->chosen.item[c].text : names[c];
    int32_t place = csv->chosen.count ? place_of(index, fields, name) : c;
    if (place < 0) return unknown(csv, "columns", name, names, error);
    if (column_of[place] >= 0)
      return tsr__error_set(error, TSR_ECOLUMN,
                            "%s: the list of columns names \"%.100s\" twice; name each column once",
                            csv->path, name);
    column_of[place] = c;
    csv->columns[c].name = (char *)(uintptr_t)name;
    csv->info[c].widened_row = -1;
  }
  for (int i = 0; i < csv->types.count; i++) {
    int32_t place = place_of(index, fields, csv->types.item[i].text);
    if (place < 0) return unknown(csv, "types", csv->types.item[i].text, names, error);
    int c = column_of[place];
    /* A type for a column that is not chosen is no mistake: the list may be used for many
     * readings. */
    if (c < 0) continue;
    csv->info[c].forced = true;
    csv->columns[c].type = (tsr_coltype)tsr__type_named(csv->types.item[i].word);
  }
  return TSR_OK;
}

/* Makes the source's columns of the first file's names. */
static tsr_status make_columns(tsr__csv *csv, const char *const *names, tsr__dict_local *index,
                               tsr__error *error)
{
  int fields = csv->files[0].fields, count = csv->chosen.count ? csv->chosen.count : fields;
  size_t size = (size_t)fields * sizeof(int);
  csv->columns = tsr__arena_new(&csv->arena, (size_t)count * sizeof *csv->columns);
  csv->info = tsr__arena_new(&csv->arena, (size_t)count * sizeof *csv->info);
  int *column_of = tsr__new(csv->heap, size);
  if (!csv->columns || !csv->info || !column_of) {
    tsr__del(csv->heap, column_of, size);
    return tsr__csv_no_memory(csv, error);
  }
  csv->column_count = count;
  tsr_status status = choose_columns(csv, names, index, column_of, error);
  tsr__del(csv->heap, column_of, size);
  return status;
}

static tsr_status other_columns(const tsr__csv_file *file, const char *name, bool lacks,
                                tsr__error *error)
{
  const char *first = file->csv->files[0].path;
  return tsr__error_set(error, TSR_ECOLUMN,
                        "%s: %s column \"%.100s\", but the column %s %s; files that are read as "
                        "one frame need the same columns, in any order (or see the option columns)",
                        file->path, lacks ? "lacks" : "has a", name, lacks ? "is in" : "is not in",
                        first);
}

/* Finds the columns among the file's fields. */
static tsr_status map_columns(tsr__csv_file *file, const char *const *names, tsr__dict_local *index,
                              tsr__error *error)
{
  tsr__csv *csv = file->csv;
  int *at = tsr__arena_new(&csv->arena, (size_t)csv->column_count * sizeof *at);
  /* Names in any order, so each file has its own places. */
  if (!at) return tsr__csv_no_memory(csv, error);
  for (int c = 0; c < csv->column_count; c++) {
    at[c] = place_of(index, file->fields, csv->columns[c].name);
    if (at[c] < 0) return other_columns(file, csv->columns[c].name, true, error);
  }
  file->at = at;
  if (csv->chosen.count || file->fields == csv->column_count) return TSR_OK;
  /* All of ours are there, so one of theirs is new. */
  size_t size = (size_t)file->fields * sizeof(bool);
  bool *known = tsr__new(csv->heap, size);
  if (!known) return tsr__csv_no_memory(csv, error);
  int i = 0;
  for (int c = 0; c < csv->column_count; c++) known[at[c]] = true;
  while (known[i]) i++;
  tsr__del(csv->heap, known, size);
  return other_columns(file, names[i], false, error);
}

static tsr_status take_names(tsr__csv_file *file, tsr__csv_window text, const tsr__csv_row *row,
                             tsr__error *error)
{
  /* A name's code is its place, as long as all names are different: then the index answers where a
   * column stands. */
  tsr__csv *csv = file->csv;
  tsr__dict_local index;
  const char **names = tsr__new(csv->heap, (size_t)file->fields * sizeof *names);
  if (!names) return tsr__csv_no_memory(csv, error);
  tsr__dict_local_init(&index, csv->heap);
  tsr_status status = read_names(file, text, row, names, error);
  if (!status) status = index_names(file, names, &index, error);
  if (!status && file == csv->files) status = make_columns(csv, names, &index, error);
  if (!status) status = map_columns(file, names, &index, error);
  tsr__dict_local_free(&index);
  tsr__del(csv->heap, names, (size_t)file->fields * sizeof *names);
  return status;
}

/* ---- the header ------------------------------------------------------------------------------ */

static tsr_status take_header(tsr__csv_file *file, tsr__csv_window text, const tsr__csv_row *row,
                              tsr__error *error)
{
  tsr__csv *csv = file->csv;
  /* Columns times rows of a batch are counted in 32 bits. */
  if (row->fields > INT32_MAX / 1024)
    return tsr__error_set(error, TSR_EUNSUPPORTED, "%s: has more than %d columns", file->path,
                          INT32_MAX / 1024);
  if (csv->names.count && csv->names.count != row->fields)
    return tsr__error_set(error, TSR_ECOLUMN,
                          "%s: %d names are given, but the file has %lld columns; name each column",
                          file->path, csv->names.count, (long long)row->fields);
  file->fields = (int)row->fields;
  /* An empty line in a file of one column is an empty field, in others it is nothing. */
  file->dialect.skip_blank = row->fields > 1;
  file->body = row->next - text.at;
  /* Without a header the first row is one of values: back to where it begins. In a file of one
   * column, empty lines before it are rows. */
  if (csv->opts.no_header) file->body = row->fields > 1 ? row->begin - text.at : file->head;
  return take_names(file, text, row, error);
}

/* How a separator would cut a text. */
typedef struct cut {
  int64_t fields;   /* of the header; 0: it goes on behind the text */
  const char *next; /* behind it */
  int agree;        /* rows behind it that have as many fields */
} cut;

static cut cut_header(tsr__csv_dialect dialect, char separator, tsr__csv_window text)
{
  tsr__csv_row row;
  dialect.separator = separator;
  tsr__csv_found found = tsr__csv_next_row(&dialect, text.at, text.end, &row);
  if (found == TSR__CSV_CUT) return (cut){ 0 };
  if (found != TSR__CSV_ROW) return (cut){ .fields = 1 };
  return (cut){ row.fields, row.next, 0 };
}

/* Counts the rows that agree, of the first ROWS_THAT_VOTE. A row that no quote ends well agrees
 * with no header, and one that the text cuts says nothing. */
static void count_votes(tsr__csv_dialect dialect, char separator, const char *end, cut *by)
{
  tsr__csv_found found = TSR__CSV_ROW;
  tsr__csv_row row = { .next = by->next };
  dialect.separator = separator;
  for (int r = 0; r < ROWS_THAT_VOTE && found == TSR__CSV_ROW; r++) {
    found = tsr__csv_next_row(&dialect, row.next, end, &row);
    if (found == TSR__CSV_ROW) by->agree += row.fields == by->fields;
    if (found != TSR__CSV_JUNK) continue;
    const char *line = memchr(row.fault, dialect.newline, (size_t)(end - row.fault));
    found = line ? TSR__CSV_ROW : TSR__CSV_END;
    row.next = line ? line + 1 : end;
  }
}

/* What separates fields: of those that the first line holds, the one by which most of the next rows
 * have as many fields as that line, and of several the one that makes the most. Where there are no
 * rows a comma goes before others. 0: more of the text is needed; `whole`: there is none. */
static char find_separator(const tsr__csv_file *file, tsr__csv_window text, bool whole)
{
  /* With decimal commas the list is tried without its first, the comma. */
  const char *all = &SEPARATORS[file->csv->opts.decimal_comma];
  cut best = { .fields = 1, .agree = -1 }, by[sizeof SEPARATORS];
  int held = 0;
  char found = ',';
  text.at += file->head;
  for (int i = 0; all[i]; i++) {
    by[i] = cut_header(file->dialect, all[i], text);
    if (!by[i].fields) return 0;
    held += by[i].fields > 1;
  }
  for (int i = 0; all[i]; i++) {
    if (by[i].fields < 2) continue;
    /* How much is read of a file must not show: all that vote are there, or more is asked for. */
    bool there = text.end - by[i].next >= VOTING_BYTES;
    if (held > 1 && !there && !whole) return 0;
    const char *end = there ? by[i].next + VOTING_BYTES : text.end;
    if (held > 1) count_votes(file->dialect, all[i], end, &by[i]);
    bool more = by[i].fields > best.fields && (best.agree || found != ',');
    if (by[i].agree < best.agree || (by[i].agree == best.agree && !more)) continue;
    best = by[i];
    found = all[i];
  }
  return found;
}

/* Sees what separates fields, if nobody said; false: the text is too short to know. */
static bool settle_separator(tsr__csv_file *file, tsr__csv_window text, bool whole,
                             tsr__error *error)
{
  tsr__csv *csv = file->csv;
  if (csv->opts.separator) return true;
  char found = find_separator(file, text, whole);
  if (!found && !whole) return false;
  if (found) file->dialect.separator = found;
  if (csv->opts.decimal_comma && file->dialect.separator == ',')
    tsr__error_set(error, TSR_EARG,
                   "%s: with a decimal comma the separator cannot be ',' too; give another "
                   "separator, mostly ';'",
                   file->path);
  if (file->dialect.separator == ',') return true;
  bool tab = file->dialect.separator == '\t';
  tsr__text_add(&csv->notes, "%s: fields are separated by '%s%c', as its first rows show\n",
                file->path, tab ? "\\" : "", tab ? 't' : file->dialect.separator);
  return true;
}

/* Moves file->head behind the lines to skip; false: there are too few. */
static bool skip_lines(tsr__csv_file *file, tsr__csv_window text)
{
  /* Quotes mean nothing here: such lines are often remarks, with an odd quote in them. */
  for (int i = 0; i < file->csv->opts.skip_rows; i++) {
    const char *from = text.at + file->head;
    const char *found = memchr(from, file->dialect.newline, (size_t)(text.end - from));
    if (!found) return false;
    file->head = found + 1 - text.at;
  }
  return true;
}

/* Reads the beginning in `text`; false if it is too short for that and the file is not `whole`. */
static bool read_beginning(tsr__csv_file *file, tsr__csv_window *head, bool whole,
                           tsr__error *error)
{
  tsr__csv_window text = *head;
  bool mark = text.end - text.at >= 3 && memcmp(text.at, "\xef\xbb\xbf", 3) == 0;
  tsr__csv_window lines = { text.at + (mark ? 3 : 0), text.end };
  char given[2] = { file->csv->opts.separator, 0 };
  char newline = find_newline(lines, *given ? given : SEPARATORS, whole);
  if (!newline) return false;
  tsr__csv_end_rows_with(file, newline);
  if (whole) text.end = file->data + file->end;
  file->head = mark ? 3 : 0;
  file->dialect.skip_blank = true;
  bool enough = skip_lines(file, text);
  if (!enough && !whole) return false;
  if (!enough) {
    tsr__error_set(error, TSR_EPARSE, "%s: has fewer lines than skip_rows, %d", file->path,
                   file->csv->opts.skip_rows);
    return true;
  }
  if (whole) {
    if (tsr__csv_uncomment_file(file, error)) return true;
    text = (tsr__csv_window){ file->data, file->data + file->end };
  } else if (file->csv->opts.comment) {
    char *from = (char *)(uintptr_t)text.at + file->head;
    text.end = head->end = from + tsr__csv_uncomment_head(file, from, text.end - from);
  }
  if (!settle_separator(file, text, whole, error)) return false;
  if (error->status) return true;
  tsr__csv_row row;
  tsr__csv_found found = tsr__csv_next_row(&file->dialect, text.at + file->head, text.end, &row);
  if (found == TSR__CSV_ROW) take_header(file, text, &row, error);
  else if (!whole) return false;
  else if (found == TSR__CSV_END && file->csv->file_count > 1) file->empty = true;
  else if (found == TSR__CSV_END)
    tsr__error_set(error, TSR_EPARSE,
                   "%s: holds no header, only empty lines; a CSV file begins with a header line",
                   file->path);
  else tsr__csv_row_error(file, found, &row, error);
  return true;
}

tsr_status tsr__csv_read_head(tsr__csv_file *file, tsr__csv_window *head, tsr__error *error)
{
  /* From the window of its beginning where that will do. A header that does not end there needs the
   * whole file. */
  if (!file->data) {
    if (read_beginning(file, head, false, error)) return error->status;
    if (tsr__csv_load(file->csv, file, 1, error)) return error->status;
  }
  tsr__csv_window text = { file->data, file->data + file->size };
  (void)read_beginning(file, &text, true, error);
  return error->status;
}
