/* Text made fit for reading: comments and bad rows are taken out of a copy of the file, so that
 * the fast ways of finding rows and fields need not know of them.
 *
 *   skip    1,2\n3,4,5\n6,7\n        ->  1,2\n6,7\n
 *   null    1,2\n3\nx,7\n            ->  1,2\n3,#\n#,7\n     # is TSR__CSV_NULL, never in UTF-8
 *
 * Invariant: afterwards every row has the right number of fields, and no field is bad. */
#include "io/csv/csv_inner.h"

enum { ROWS_A_STEP = 1 << 15 };

/* Behind the next newline. */
static const char *next_line(const tsr__csv_dialect *d, const char *at, const char *end)
{
  const char *found = memchr(at, d->newline, (size_t)(end - at));
  return found ? found + 1 : end;
}

/* Reads a row that may be bad; behind it. `*found` is never TSR__CSV_END: there is text. What is
 * wrong with a row ends with its line; quotes that are open to the end take all of it. */
static const char *any_row(const tsr__csv_dialect *d, const char *at, const char *end,
                           tsr__csv_found *found, tsr__csv_row *row)
{
  *found = tsr__csv_next_row(d, at, end, row);
  if (*found == TSR__CSV_ROW) return row->next;
  if (*found == TSR__CSV_JUNK) return next_line(d, row->fault, end);
  return end;
}

/* ---- comments -------------------------------------------------------------------------------- */

struct strip {
  const tsr__csv_file *file;
  tsr__csv_file *note; /* where cuts are noted; NULL: nowhere */
  const char *from, *end;
  char *to;
  bool no_memory;
};

/* Lines are counted for messages: who reads the mended text must be able to say where things stood
 * in the file. */
static void note_cut(struct strip *s)
{
  tsr__csv_file *file = s->note;
  /* Cuts at one place are one entry: a file may begin with a thousand comments. */
  int64_t at = s->to - file->data;
  if (file->cut_count && file->cuts[file->cut_count - 1].at == at) {
    file->cuts[file->cut_count - 1].lines++;
  } else if (tsr__grow(file->csv->heap, (void **)&file->cuts, &file->cut_capacity,
                       file->cut_count + 1, sizeof *file->cuts)) {
    file->cuts[file->cut_count++] = (tsr__csv_cut){ at, 1 };
  } else {
    s->no_memory = true;
  }
}

static void strip_step(void *user, int64_t task, int worker)
{
  (void)task;
  (void)worker;
  struct strip *s = user;
  tsr__csv_dialect plain = s->file->dialect;
  /* Empty lines must not be stepped over here: one of them may be followed by a comment. */
  plain.skip_blank = false;
  /* Some rows, then back to the caller, so that a long text can be cancelled between two steps. */
  for (int i = 0; i < ROWS_A_STEP && s->from < s->end && !s->no_memory; i++) {
    tsr__csv_found found;
    tsr__csv_row row;
    if (*s->from == s->file->csv->opts.comment) {
      s->from = next_line(&plain, s->from, s->end);
      if (s->note) note_cut(s);
      continue;
    }
    /* Row by row, since a comment byte inside a quoted field is text. */
    const char *next = any_row(&plain, s->from, s->end, &found, &row);
    memmove(s->to, s->from, (size_t)(next - s->from));
    s->to += next - s->from;
    s->from = next;
  }
}

/* In a window of the file, only to read the header. Cuts are not noted: the whole file is stripped
 * once more, and they are counted then. */
int64_t tsr__csv_uncomment_head(const tsr__csv_file *file, char *text, int64_t length)
{
  struct strip s = { .file = file, .from = text, .end = text + length, .to = text };
  while (s.from < s.end) strip_step(&s, 0, 0);
  return s.to - text;
}

/* Whether there are comments at all. One thread a piece, before the text is moved by one alone:
 * most files have no comment. */
struct look {
  const tsr__csv_file *file;
  _Atomic bool found;
};

static void look_task(void *user, int64_t task, int worker)
{
  (void)worker;
  struct look *look = user;
  const tsr__csv_file *file = look->file;
  const char *at = file->data + file->head + task * TSR__CSV_PIECE, *end = at + TSR__CSV_PIECE;
  if (end > file->data + file->size) end = file->data + file->size;
  const char *first = file->data + file->head;
  /* At the beginning of a line. Inside quotes this may be wrong: then the text is walked, and
   * nothing is cut. */
  for (; (at = memchr(at, file->csv->opts.comment, (size_t)(end - at))); at++)
    if (at == first || at[-1] == file->dialect.newline) {
      atomic_store(&look->found, true);
      return;
    }
}

tsr_status tsr__csv_uncomment_file(tsr__csv_file *file, tsr__error *error)
{
  tsr__csv *csv = file->csv;
  if (file->bare || !csv->opts.comment) return TSR_OK;
  struct look look = { .file = file };
  int64_t tasks = (file->size - file->head + TSR__CSV_PIECE - 1) / TSR__CSV_PIECE;
  bool whole = tsr__parallel_long(csv->rt, "csv", tasks, look_task, &look);
  char *from = file->data + file->head;
  struct strip s = { file, file, from, file->data + file->size, from, false };
  /* One task at a time: each row moves to behind the row before it, so no two may move at once. */
  while (whole && atomic_load(&look.found) && s.from < s.end && !s.no_memory)
    whole = tsr__parallel_long(csv->rt, "csv", 1, strip_step, &s);
  if (!whole) return tsr__cancelled(error, csv->path);
  if (s.no_memory) return tsr__csv_no_memory(csv, error);
  if (atomic_load(&look.found)) tsr__csv_file_done(file, s.to - file->data);
  file->bare = true;
  return TSR_OK;
}

/* ---- which rows are bad ---------------------------------------------------------------------- */

struct bad_row {
  const char *begin, *next;
};

struct clean {
  tsr__csv_file *file;
  const int *column_of; /* by field; -1: it is not read */
  const char *at, *end;
  struct bad_row *rows;
  size_t count, capacity;
  int64_t growth; /* bytes that nulls may add */
  bool no_memory;
};

static bool bad_field(const struct clean *c, int field, tsr__text_span f)
{
  const tsr__csv *csv = c->file->csv;
  tsr__read_value value;
  int column = c->column_of[field];
  /* Columns that are not read may hold anything. */
  if (column < 0) return false;
  if (!tsr__utf8_valid(f.at, f.length)) return true;
  if (!csv->info[column].forced) return false;
  tsr_coltype type = csv->columns[column].type;
  if (type == TSR_COL_TEXT) return false;
  /* The column's type is given: a number may begin with zeros. */
  unsigned class = tsr__csv_classify(csv, f, &value) & ~(unsigned)TSR__CLASS_CODE;
  return !tsr__csv_fits(type, class, &value);
}

static bool is_bad(const struct clean *c, const tsr__csv_row *row)
{
  const tsr__csv_file *file = c->file;
  if (row->fields != file->fields) return true;
  size_t length = (size_t)(row->next - row->begin);
  /* Valid as a whole it is valid field by field, where no type asks for more. */
  if (!file->csv->types.count && tsr__utf8_valid(row->begin, length)) return false;
  const char *at = row->begin;
  for (int i = 0; i < file->fields; i++)
    if (bad_field(c, i, tsr__csv_next_field(&file->dialect, &at, row->next))) return true;
  return false;
}

static void find_step(void *user, int64_t task, int worker)
{
  (void)task;
  (void)worker;
  struct clean *c = user;
  for (int i = 0; i < ROWS_A_STEP && c->at < c->end; i++) {
    tsr__csv_found found;
    tsr__csv_row row;
    const char *next = any_row(&c->file->dialect, c->at, c->end, &found, &row);
    c->at = next;
    if (found == TSR__CSV_END || (found == TSR__CSV_ROW && !is_bad(c, &row))) continue;
    c->no_memory = !tsr__grow(c->file->csv->heap, (void **)&c->rows, &c->capacity, c->count + 1,
                              sizeof *c->rows);
    if (c->no_memory) return;
    c->rows[c->count++] = (struct bad_row){ row.begin, next };
    /* At most a byte and a separator for each field of a short row. */
    c->growth += 2 * (int64_t)c->file->fields;
  }
}

/* ---- rewriting ------------------------------------------------------------------------------- */

/* Writes a bad row with what is good of it; returns its end. */
static char *mend(const struct clean *c, const struct bad_row *row, char *to)
{
  const tsr__csv_dialect *d = &c->file->dialect;
  const char *at = row->begin, *junk;
  bool more = true;
  for (int i = 0; i < c->file->fields; i++) {
    /* A row that ended early has no field here: null. Fields beyond the last column are left
     * out. */
    const char *stop = more ? tsr__csv_field_end(d, at, row->next, &junk) : NULL;
    tsr__text_span field = { at, 0 };
    if (stop) field = tsr__csv_next_field(d, &at, row->next);
    if (i) *to++ = d->separator;
    if (!stop || bad_field(c, i, field)) {
      *to++ = (char)TSR__CSV_NULL;
    } else {
      memmove(to, field.at, field.length);
      to += field.length;
    }
    more = stop && *stop != d->newline;
  }
  *to++ = d->newline;
  return to;
}

/* Copies what is good; mends or leaves out what is bad. */
static tsr_status rewrite(struct clean *c, tsr__error *error)
{
  tsr__csv_file *file = c->file;
  tsr__csv *csv = file->csv;
  bool null = csv->opts.bad_rows == TSR__CSV_BAD_NULL;
  tsr__csv_file other = *file; /* its block is the new text */
  /* Skipping only removes: the text can be moved within its block. Nulls may lengthen a row. */
  if (null) {
    other.block = other.data = NULL;
    other.block_size = 0;
    if (!tsr__csv_file_room(&other, file->end + c->growth, 0))
      return tsr__csv_no_memory(csv, error);
  }
  char *first = null ? other.block + TSR__CSV_FRONT : file->data, *to = first;
  const char *from = file->data, *end = file->data + file->end;
  /* The good text up to bad row i; after the last bad one, what is left of the file. */
  for (size_t i = 0; i <= c->count; i++) {
    const char *until = i < c->count ? c->rows[i].begin : end;
    memmove(to, from, (size_t)(until - from));
    to += until - from;
    if (i == c->count) break;
    if (null) to = mend(c, &c->rows[i], to);
    from = c->rows[i].next;
  }
  if (null) {
    tsr__del(csv->heap, file->block, file->block_size);
    file->block = other.block;
    file->block_size = other.block_size;
    /* From here on the byte counts as null in every column; no text in UTF-8 has it. */
    csv->null_bytes = true;
  }
  csv->bad_rows += (int64_t)c->count;
  tsr__csv_file_done(file, to - first);
  return TSR_OK;
}

static tsr_status clean_file(struct clean *c, tsr__error *error)
{
  while (c->at < c->end && !c->no_memory)
    if (!tsr__parallel_long(c->file->csv->rt, "csv", 1, find_step, c))
      return tsr__cancelled(error, c->file->csv->path);
  if (c->no_memory) return tsr__csv_no_memory(c->file->csv, error);
  return c->count ? rewrite(c, error) : TSR_OK;
}

tsr_status tsr__csv_clean_rows(tsr__csv_file *file, tsr__error *error)
{
  tsr__csv *csv = file->csv;
  size_t size = (size_t)file->fields * sizeof(int);
  int *column_of = tsr__new(csv->heap, size);
  if (!column_of) return tsr__csv_no_memory(csv, error);
  /* The other way round of file->at: from a field to its column. */
  for (int i = 0; i < file->fields; i++) column_of[i] = -1;
  for (int c = 0; c < csv->column_count; c++) column_of[file->at[c]] = c;
  struct clean clean = { .file = file,
                         .column_of = column_of,
                         .at = file->data + file->body,
                         .end = file->data + file->end };
  tsr_status status = clean_file(&clean, error);
  tsr__del(csv->heap, clean.rows, clean.capacity * sizeof *clean.rows);
  tsr__del(csv->heap, column_of, size);
  return status;
}
