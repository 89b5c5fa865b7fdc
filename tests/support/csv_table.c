/* Whole tables for the tests of the CSV reader. Buffers have exactly the sizes that csv.h promises
 * to respect, so that a byte too many is seen by the sanitizers. */
#include "support/csv_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

static size_t value_bytes(tsr_coltype type, int64_t rows)
{
  if (type == TSR_COL_BOOL) return (size_t)(rows + 63) / 64 * 8;
  bool small = type == TSR_COL_DATE || type == TSR_COL_TEXT || type == TSR_COL_I32;
  return (size_t)rows * (small || type == TSR_COL_F32 ? 4 : 8);
}

static int64_t *borders(int parts, uint64_t seed, int64_t rows)
{
  int64_t *out = calloc((size_t)parts + 1, sizeof *out);
  test_rng rng = test_seeded(seed);
  for (int p = 1; p <= parts; p++)
    out[p] = seed ? test_range(&rng, out[p - 1], rows) : rows * p / parts;
  out[parts] = rows;
  return out;
}

static void make_targets(const struct table *t, tsr__read_ask *read)
{
  read->targets = calloc((size_t)t->columns + 1, sizeof *read->targets);
  read->target_count = t->columns;
  for (int c = 0; c < t->columns; c++) {
    tsr__read_target *target = &read->targets[c];
    target->column = c;
    target->values = calloc((size_t)read->parts, sizeof(void *));
    target->validity = calloc((size_t)read->parts, sizeof(uint64_t *));
    for (int p = 0; p < read->parts; p++) {
      int64_t rows = read->rows[p + 1] - read->rows[p];
      size_t bytes = value_bytes(t->schema[c].type, rows), words = (size_t)(rows + 63) / 64 * 8;
      target->values[p] = malloc(bytes);
      target->validity[p] = malloc(words);
      if (bytes) memset(target->values[p], 0xcb, bytes);
      if (words) memset(target->validity[p], 0xcb, words);
    }
  }
}

static void free_targets(tsr__read_ask *read)
{
  for (int c = 0; c < read->target_count; c++) {
    for (int p = 0; p < read->parts; p++) {
      free(read->targets[c].values[p]);
      free(read->targets[c].validity[p]);
    }
    free(read->targets[c].values);
    free(read->targets[c].validity);
  }
  free(read->targets);
}

static struct table_cell cell_at(const tsr__read_target *target, tsr_coltype type, int part,
                                 int64_t i)
{
  struct table_cell cell = { .null = !(target->validity[part][i / 64] >> (i % 64) & 1) };
  void *values = target->values[part];
  switch (type) {
  case TSR_COL_BOOL: cell.bits = ((uint64_t *)values)[i / 64] >> (i % 64) & 1; break;
  case TSR_COL_I32:
  case TSR_COL_DATE: cell.bits = (uint64_t)((int32_t *)values)[i]; break;
  case TSR_COL_F32: {
    double wide = (double)((float *)values)[i];
    memcpy(&cell.bits, &wide, sizeof wide);
    break;
  }
  case TSR_COL_I64:
  case TSR_COL_TIME:
  case TSR_COL_F64: cell.bits = ((uint64_t *)values)[i]; break;
  default:
    memcpy(&cell.bits, (char *)values + (size_t)i * tsr_dtype_size((tsr_dtype)type),
           tsr_dtype_size((tsr_dtype)type));
    break;
  case TSR_COL_TEXT: {
    if (cell.null) break;
    int32_t code = ((int32_t *)values)[i];
    if (code < 0 || code >= target->dict->count) FAIL("code %d of %d", code, target->dict->count);
    cell.bits = (uint64_t)code;
    cell.text = target->dict->bytes + target->dict->offsets[code];
    cell.length = (size_t)(target->dict->offsets[code + 1] - target->dict->offsets[code]);
  }
  }
  if (cell.null && cell.bits) FAIL("the value of a null is not 0");
  return cell;
}

static void check_tail(const tsr__read_target *target, tsr_coltype type, int part, int64_t rows)
{
  if (rows % 64 == 0) return;
  uint64_t tail = target->validity[part][rows / 64] >> (rows % 64);
  if (type == TSR_COL_BOOL) tail |= ((uint64_t *)target->values[part])[rows / 64] >> (rows % 64);
  if (tail) FAIL("bits behind the last row are not 0");
}

static void gather(struct table *t, const tsr__read_ask *read)
{
  t->cells = calloc((size_t)(t->rows * t->columns) + 1, sizeof *t->cells);
  t->nulls = calloc((size_t)t->columns + 1, sizeof *t->nulls);
  t->dicts = calloc((size_t)t->columns + 1, sizeof *t->dicts);
  for (int c = 0; c < t->columns; c++) {
    const tsr__read_target *target = &read->targets[c];
    struct table_cell *cell = t->cells + c * t->rows;
    int64_t nulls = 0;
    t->dicts[c] = target->dict;
    t->nulls[c] = target->nulls;
    for (int p = 0; p < read->parts; p++) {
      int64_t rows = read->rows[p + 1] - read->rows[p];
      for (int64_t i = 0; i < rows; i++)
        nulls += (*cell++ = cell_at(target, t->schema[c].type, p, i)).null;
      check_tail(target, t->schema[c].type, p, rows);
    }
    CHECK_I64(target->nulls, nulls);
    CHECK(nulls == 0 || t->schema[c].nullable);
  }
}

static void copy_schema(tsr__csv *csv, struct table *t)
{
  const tsr__read_column *columns;
  for (int c = 0; t->schema && c < t->columns; c++) free(t->schema[c].name);
  free(t->schema);
  t->columns = tsr__csv_columns(csv, &columns);
  t->schema = calloc((size_t)t->columns + 1, sizeof *t->schema);
  for (int c = 0; c < t->columns; c++) {
    t->schema[c] = columns[c];
    t->schema[c].name = strdup(columns[c].name);
  }
}

/* Reads the first t->rows rows. */
static tsr_status read_rows(tsr__csv *csv, const struct table_how *how, bool front, struct table *t,
                            tsr__error *error)
{
  tsr_status status = TSR_OK;
  int parts = how->parts ? how->parts : 1;
  int64_t *rows = borders(parts, how->seed, t->rows);
  for (;;) {
    copy_schema(csv, t);
    tsr__read_ask read = { .parts = parts, .rows = rows, .front = front };
    make_targets(t, &read);
    status = tsr__csv_read_parts(csv, &read, error);
    if (!status && !read.retyped) copy_schema(csv, t);
    if (!status && !read.retyped) gather(t, &read);
    free_targets(&read);
    if (status || !read.retyped) break;
    if (++t->retypes > 3) FAIL("types do not settle");
  }
  free(rows);
  return status;
}

static tsr_status read_all(tsr__csv *csv, const struct table_how *how, struct table *t,
                           tsr__error *error)
{
  tsr_status status = tsr__csv_count(csv, &t->rows, error);
  return status ? status : read_rows(csv, how, false, t, error);
}

static tsr_status read_once(tsr_runtime *rt, const char *path, const struct table_how *how,
                            struct table *out, tsr__error *error)
{
  *out = (struct table){ 0 };
  tsr__csv *csv = tsr__csv_open_with(rt, path, &how->opts, error);
  if (!csv) return error->status;
  tsr_status status = read_all(csv, how, out, error);
  out->bad_rows = tsr__csv_bad_rows(csv);
  tsr__csv_close(csv);
  if (status) table_free(out);
  return status;
}

/* Every file is read as a large one, too: through windows, with the same result. */
static void check_windows(tsr_runtime *rt, const char *path, const struct table_how *how,
                          const struct table *expected, const tsr__error *said)
{
  struct table_how other = *how;
  struct table found;
  tsr__error error = { 0 };
  other.opts.held = 1;
  tsr_status status = read_once(rt, path, &other, &found, &error);
  if (status == TSR_ENOMEM || status == TSR_ECANCELLED) return; /* injected */
  if (status != said->status || strcmp(error.text, said->text) != 0)
    FAIL("through windows: '%s', expected '%s'", error.text, said->text);
  if (!status && table_differs(&found, expected))
    FAIL("through windows: %s", table_differs(&found, expected));
  table_free(&found);
}

static bool same_cell(const struct table_cell *a, const struct table_cell *b)
{
  return a->null == b->null && a->bits == b->bits && a->length == b->length &&
         (a->length == 0 || memcmp(a->text, b->text, a->length) == 0);
}

/* The first rows that a front gives are those of the whole, but for types that later rows widen. */
static void compare_front(const struct table *front, const struct table *whole)
{
  for (int c = 0; c < whole->columns; c++) {
    if (front->schema[c].type != whole->schema[c].type) continue;
    for (int64_t r = 0; r < front->rows; r++)
      if (!same_cell(&front->cells[c * front->rows + r], &whole->cells[c * whole->rows + r]))
        FAIL("a front: column %d, row %" PRId64, c, r);
  }
}

/* Every file is read by its first rows, too, and then as a whole. */
static void check_front(tsr_runtime *rt, const char *path, const struct table_how *how,
                        const struct table *expected, int64_t want)
{
  struct table_how other = *how;
  struct table front = { 0 };
  tsr__error error = { 0 };
  int64_t rows;
  other.parts = 2;
  other.opts.front = 1 + want % 9;
  tsr__csv *csv = tsr__csv_open_with(rt, path, &other.opts, &error);
  tsr_status status = csv ? tsr__csv_front(csv, want, &front.rows, &error) : error.status;
  if (!status) {
    CHECK(front.rows >= want || front.rows == expected->rows);
    if (front.rows > want) front.rows = want;
    status = read_rows(csv, &other, true, &front, &error);
  }
  if (!status) compare_front(&front, expected);
  if (!status) status = tsr__csv_count(csv, &rows, &error);
  if (!status) CHECK_I64(rows, expected->rows);
  tsr__csv_close(csv);
  table_free(&front);
  if (status && status != TSR_ENOMEM && status != TSR_ECANCELLED)
    FAIL("a front of %" PRId64 " rows: %s", want, error.text);
}

tsr_status table_read(tsr_runtime *rt, const char *path, const struct table_how *how,
                      struct table *out, tsr__error *error)
{
  static const struct table_how plain;
  if (!how) how = &plain;
  tsr_status status = read_once(rt, path, how, out, error);
  bool again = !how->opts.read && !how->opts.held && strcmp(path, "-") != 0;
  if (again && status != TSR_ENOMEM && status != TSR_ECANCELLED && status != TSR_EIO)
    check_windows(rt, path, how, out, error);
  for (int64_t want = 0; again && !status && want <= out->rows; want = want * 3 + 1)
    check_front(rt, path, how, out, want);
  return status;
}

void table_free(struct table *table)
{
  for (int c = 0; c < table->columns; c++) {
    free(table->schema[c].name);
    if (table->dicts) tsr__dict_release(table->dicts[c]);
  }
  free(table->schema);
  free(table->nulls);
  free(table->cells);
  free(table->dicts);
  *table = (struct table){ 0 };
}

const char *table_type_name(tsr_coltype type)
{
  switch (type) {
  case TSR_COL_BOOL: return "bool";
  case TSR_COL_I64: return "i64";
  case TSR_COL_F64: return "f64";
  case TSR_COL_DATE: return "date";
  case TSR_COL_TIME: return "time";
  case TSR_COL_TEXT: return "text";
  case TSR_COL_I32: return "i32";
  case TSR_COL_F32: return "f32";
  default: return tsr_dtype_name((tsr_dtype)type);
  }
}

const char *table_differs(const struct table *a, const struct table *b)
{
  static char what[200];
  if (a->rows != b->rows || a->columns != b->columns) return "rows or columns";
  for (int c = 0; c < a->columns; c++) {
    const char *name = a->schema[c].name;
    snprintf(what, sizeof what, "column %s: type, name or nulls", name);
    if (a->schema[c].type != b->schema[c].type || strcmp(name, b->schema[c].name) != 0 ||
        a->nulls[c] != b->nulls[c] || a->schema[c].nullable != b->schema[c].nullable)
      return what;
    for (int64_t r = 0; r < a->rows; r++) {
      const struct table_cell *x = &a->cells[c * a->rows + r], *y = &b->cells[c * a->rows + r];
      if (same_cell(x, y)) continue;
      snprintf(what, sizeof what,
               "column %s, row %" PRId64 ": %d %" PRIx64 " '%.*s', %d %" PRIx64 " '%.*s'", name, r,
               x->null, x->bits, (int)x->length, x->text ? x->text : "", y->null, y->bits,
               (int)y->length, y->text ? y->text : "");
      return what;
    }
  }
  return NULL;
}

tsr_runtime *table_runtime(const char *isa, int threads)
{
  return tsr__runtime_new(
      &(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .isa = isa, .threads = threads });
}
