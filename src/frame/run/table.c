/* Tables: rows on the host, as terminals hand them out.
 *
 *   column[i]   values   an element a row: bools are bytes, texts codes into `dict` (i32)
 *               valid    a byte a row, 0 for a null; NULL where there are none
 *
 * The structs are the scope's, the rows lie in the heap: so a table whose rows were written to a
 * file can give them back long before its scope closes. A null has some value all the same; whoever
 * asks looks at `valid` first. */
#include "frame/run/run.h"

#include <math.h>

static void release_table(tsr__node *node)
{
  tsr__table_empty((tsr_table *)node);
}

void tsr__table_empty(tsr_table *table)
{
  tsr__heap *heap = &table->node.scope->rt->heap;
  for (int i = 0; i < table->count; i++) {
    tsr__del(heap, table->column[i].values, table->column[i].bytes);
    tsr__del(heap, table->column[i].valid, table->column[i].valid_bytes);
  }
  table->rows = table->count = 0;
}

static bool add_room(tsr__heap *heap, tsr__table_column *column, int64_t rows)
{
  size_t size = tsr_dtype_size(tsr__dtype_of_type(column->type));
  /* One element at least: out of memory is then the only reason for a NULL. */
  column->bytes = (size_t)(rows ? rows : 1) * size;
  column->values = tsr__new_raw(heap, column->bytes);
  if (!column->values) column->bytes = 0;
  return column->values != NULL;
}

tsr_table *tsr__table_new(tsr_scope *scope, const tsr_frame *df, int64_t rows)
{
  tsr_table *table = tsr__node_new(scope, sizeof *table, df->node.site, release_table);
  int count = df->schema.count;
  if (!table) return NULL;
  table->column =
      tsr__arena_new(&scope->arena, (size_t)(count ? count : 1) * sizeof *table->column);
  if (!table->column) return NULL;
  table->rows = rows;
  for (int i = 0; i < count; i++) {
    tsr__table_column *column = &table->column[i];
    column->name = df->schema.field[i].name;
    column->type = df->schema.field[i].type;
    /* Counted as it is made, so that who frees a half-made table frees what there is. */
    table->count = i + 1;
    if (!add_room(&scope->rt->heap, column, rows)) return NULL;
  }
  return table;
}

/* Reads an array of one element a row, or one for all rows. */
static tsr_status read_rows(const tsr_array *array, int64_t rows, void *out, tsr__error *error)
{
  size_t size = tsr_dtype_size((tsr_dtype)array->dtype);
  /* Room for the largest element. */
  unsigned char one[8] = { 0 };
  /* An aggregate is one element of rank 0, whatever the table's number of rows: all get it. */
  if (array->shape.rank > 0) return tsr__value_fetch(array->value, out, TSR__PROGRAM, error);
  tsr_status status = tsr__value_fetch(array->value, one, TSR__PROGRAM, error);
  for (int64_t i = 0; i < rows; i++) memcpy((char *)out + (size_t)i * size, one, size);
  return status;
}

/* The validity of a column. All rows are valid when it is first asked for: a column's own nulls and
 * its counts both take some away. */
static uint8_t *valid_bytes(tsr_table *table, tsr__table_column *column)
{
  size_t bytes = (size_t)(table->rows ? table->rows : 1);
  if (column->valid) return column->valid;
  column->valid = tsr__new_raw(&table->node.scope->rt->heap, bytes);
  if (!column->valid) return NULL;
  column->valid_bytes = bytes;
  memset(column->valid, 1, bytes);
  return column->valid;
}

/* What a column is filled from beside its values: which rows are null, or how many values were
 * counted into each. */
typedef struct filling {
  tsr_table *table;
  tsr__table_column *column;
  tsr__error *error;
} filling;

static tsr_status short_of_memory(const filling *f)
{
  return tsr__error_set(f->error, TSR_ENOMEM, "no memory for %lld rows of a column",
                        (long long)f->table->rows);
}

static tsr_status read_valid(const filling *f, const tsr_array *valid)
{
  uint8_t *bytes = valid_bytes(f->table, f->column);
  if (!bytes) return short_of_memory(f);
  return read_rows(valid, f->table->rows, bytes, f->error);
}

/* Applies counts: those below `least` make a null, none makes a NaN where `least` is 0. */
static void apply(const filling *f, const int64_t *counts, int64_t least)
{
  tsr__table_column *column = f->column;
  for (int64_t i = 0; i < f->table->rows; i++) {
    if (least && column->valid)
      column->valid[i] = (uint8_t)(column->valid[i] && counts[i] >= least);
    /* What lies under a null must be a code of the dictionary all the same. */
    if (least && counts[i] < least && column->type == TSR_COL_TEXT)
      ((int32_t *)column->values)[i] = 0;
    if (!least && counts[i] == 0 && tsr__is_float(column->type))
      tsr__dtype_put_real((tsr_dtype)column->type, column->values, i, (double)NAN);
  }
}

static tsr_status read_counts(const filling *f, const tsr_array *count, int64_t least)
{
  size_t bytes = (size_t)(f->table->rows ? f->table->rows : 1) * sizeof(int64_t);
  tsr__heap *heap = &f->table->node.scope->rt->heap;
  int64_t *counts = tsr__new_raw(heap, bytes);
  /* Counts live on the host only while they are applied; with `least` they make nulls, so there
   * must be a validity to make them in, though the column came without one. */
  if (!counts || (least && !valid_bytes(f->table, f->column))) short_of_memory(f);
  else if (!read_rows(count, f->table->rows, counts, f->error)) apply(f, counts, least);
  tsr__del(heap, counts, bytes);
  return f->error->status;
}

bool tsr__table_hold(tsr_table *table, int column, const tsr__dict *dict)
{
  table->column[column].dict = dict ? tsr__dict_in(table->node.scope, tsr__dict_hold(dict)) : NULL;
  return !dict || table->column[column].dict;
}

tsr_status tsr__table_fill(tsr_table *table, int index, const tsr__col *col, tsr__error *error)
{
  filling f = { table, &table->column[index], error };
  f.column->dict = col->dict;
  if (read_rows(col->values, table->rows, f.column->values, error)) return error->status;
  /* A column's own nulls come first: reading them writes every byte of the validity, and counts
   * only clear some. */
  tsr_status status = col->valid ? read_valid(&f, col->valid) : TSR_OK;
  if (!status && col->real) status = read_counts(&f, col->real, 0);
  if (!status && col->count) status = read_counts(&f, col->count, col->least);
  return status;
}

/* ---- asking ------------------------------------------------------------------------------ */

int64_t tsr_table_row_count(const tsr_table *table)
{
  return table ? table->rows : 0;
}

int tsr_table_column_count(const tsr_table *table)
{
  return table ? table->count : 0;
}

/* All questions are answered for wrong columns and rows too: NULL, 0, NaN or null. */
static const tsr__table_column *column_of(const tsr_table *table, int column)
{
  return table && column >= 0 && column < table->count ? &table->column[column] : NULL;
}

const char *tsr_table_name(const tsr_table *table, int column)
{
  const tsr__table_column *c = column_of(table, column);
  return c ? c->name : NULL;
}

tsr_coltype tsr_table_type(const tsr_table *table, int column)
{
  const tsr__table_column *c = column_of(table, column);
  return c ? (tsr_coltype)c->type : (tsr_coltype)0;
}

int tsr_table_find(const tsr_table *table, const char *name)
{
  for (int i = 0; table && name && i < table->count; i++)
    if (!strcmp(table->column[i].name, name)) return i;
  return -1;
}

bool tsr_table_is_null(const tsr_table *table, int64_t row, int column)
{
  const tsr__table_column *c = column_of(table, column);
  if (!c || row < 0 || row >= table->rows) return true;
  return c->valid && !c->valid[row];
}

/* The codes of a text say nothing without the dictionary: texts are asked for one by one. */
const void *tsr_table_values(const tsr_table *table, int column)
{
  const tsr__table_column *c = column_of(table, column);
  return c && c->type != TSR_COL_TEXT ? c->values : NULL;
}

const uint8_t *tsr_table_valid(const tsr_table *table, int column)
{
  const tsr__table_column *c = column_of(table, column);
  return c ? c->valid : NULL;
}

double tsr_table_f64(const tsr_table *table, int64_t row, int column)
{
  const tsr__table_column *c = column_of(table, column);
  if (tsr_table_is_null(table, row, column) || c->type == TSR_COL_TEXT) return (double)NAN;
  if (tsr__is_float(c->type)) return tsr__dtype_get_real((tsr_dtype)c->type, c->values, row);
  /* The bits of a u64 come as an i64, of which the upper half would be negative. */
  int64_t whole = tsr_table_i64(table, row, column);
  return c->type == TSR_COL_U64 ? (double)(uint64_t)whole : (double)whole;
}

static int64_t cut(double value)
{
  /* What C leaves undefined has an end here: the nearest i64, and 0 for NaN. Both bounds are
   * doubles: 2^63 itself is beyond i64, -2^63 is not. */
  if (isnan(value)) return 0;
  if (value >= 0x1p63) return INT64_MAX;
  return value <= -0x1p63 ? INT64_MIN : (int64_t)value;
}

int64_t tsr_table_i64(const tsr_table *table, int64_t row, int column)
{
  const tsr__table_column *c = column_of(table, column);
  if (tsr_table_is_null(table, row, column)) return 0;
  tsr_dtype dtype = tsr__dtype_of_type(c->type);
  if (c->type == TSR_COL_TEXT) return 0;
  if (tsr__dtype_is_real(dtype)) return cut(tsr__dtype_get_real(dtype, c->values, row));
  return tsr__dtype_get_whole(dtype, c->values, row);
}

void tsr__table_print(const tsr_table *table, int64_t row, int column, tsr__text *out)
{
  const tsr__table_column *c = column_of(table, column);
  char room[40];
  int length = 0;
  int64_t bytes, i = tsr_table_i64(table, row, column);
  if (tsr_table_is_null(table, row, column)) {
    tsr__text_add(out, "null");
    return;
  }
  switch (c->type) {
  case TSR_COL_BOOL: tsr__text_add(out, "%s", i ? "true" : "false"); break;
  case TSR_COL_DATE: length = tsr__date_write(i, room); break;
  case TSR_COL_TIME: length = tsr__time_write(i, room); break;
  case TSR_COL_TEXT: {
    const char *text = tsr__dict_get(c->dict, ((const int32_t *)c->values)[row], &bytes);
    tsr__text_put(out, text, (size_t)bytes);
    break;
  }
  default: length = tsr__dtype_text((tsr_dtype)c->type, c->values, row, room);
  }
  /* Nothing where the case above wrote for itself: `length` is 0 then. */
  tsr__text_put(out, room, (size_t)length);
}

const char *tsr_table_text(const tsr_table *table, int64_t row, int column)
{
  return tsr_table_bytes(table, row, column, NULL);
}

const char *tsr_table_bytes(const tsr_table *table, int64_t row, int column, size_t *length)
{
  tsr__text text;
  if (length) *length = 0;
  if (tsr_table_is_null(table, row, column)) return NULL;
  /* Written into a text that grows, then copied to where the table lives, so that the caller may
   * keep it as long as the table. */
  tsr__text_init(&text, &table->node.scope->rt->heap);
  tsr__table_print(table, row, column, &text);
  char *out = NULL;
  if (!text.failed)
    out = tsr__arena_text(&table->node.scope->arena, tsr__text_get(&text), text.length);
  if (out && length) *length = text.length;
  tsr__text_free(&text);
  if (!out) tsr__fail(table->node.scope, table->node.site, TSR_ENOMEM, "tsr_table_text: no memory");
  return out;
}

/* ---- for explain ----------------------------------------------------------------------------- */

bool tsr__counts_rows(const tsr__expr *expr)
{
  return expr->kind == TSR__E_AGG && expr->op == TSR__A_COUNT && expr->count == 0;
}

void tsr__note_rows(tsr_frame *df, const tsr_table *table, int64_t rows)
{
  if (tsr__frame_is_source(df)) return;
  df->making.done = true;
  /* -1: how many rows came to it is not known, unless a count() among its items says so. */
  df->making.rows_in = -1;
  df->making.rows_out = rows;
  for (int i = 0; tsr__frame_aggregates(df) && i < df->formula.count; i++)
    if (tsr__counts_rows(df->formula.item[i].expr))
      df->making.rows_in = *(const int64_t *)table->column[i].values;
}
