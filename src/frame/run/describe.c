/* Descriptions: one row of aggregates turned into a table of nine.
 *
 *   rows  count(x) mean(x) ... max(x)  count(t) min(t) max(t)        one pass over the frame
 *
 *   statistic   x     t            a column of the frame is a column here, numbers as f64, others
 *   count       3     4            as text; what has no meaning for its type is null
 *   nulls       1     0
 *   mean        2.5   null
 *   ...
 *
 * Invariant: the aggregates stand in the parent by column, each column's in the order of
 * tsr__statistics, so their places follow from the types alone. */
#include "frame/run/run.h"

#include "io/text/dict.h"

enum { ROWS = 9, NULLS = 1 }; /* of the table; the row of "nulls" */

static const char *const names[ROWS] = { "count", "nulls", "mean", "std", "min",
                                         "25%",   "50%",   "75%",  "max" };

/* ---- the table --------------------------------------------------------------------------- */

/* One column of the result on the host. */
typedef struct lines {
  double number[ROWS];
  const char *text[ROWS];
  uint8_t valid[ROWS];
} lines;

static const char *whole_text(tsr_scope *scope, int64_t value)
{
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)value);
  return tsr__arena_text(&scope->arena, text, strlen(text));
}

/* Fills what the row of aggregates says of one column, whose first item is `at`. */
static void fill(const tsr_table *row, int at, int type, tsr_scope *scope, lines *out)
{
  *out = (lines){ .valid = { 0 } };
  for (int i = 0; i < TSR__STATISTICS; i++) {
    if (!tsr__describes(i, type)) continue;
    int to = tsr__statistics[i].row, from = at++;
    out->valid[to] = !tsr_table_is_null(row, 0, from);
    if (!out->valid[to]) continue;
    if (tsr__describes_number(type)) out->number[to] = tsr_table_f64(row, 0, from);
    else out->text[to] = tsr_table_text(row, 0, from);
    if (i > 0) continue;
    /* `count` is the first statistic: what it lacks of the rows are nulls. */
    int64_t nulls = tsr_table_i64(row, 0, 0) - tsr_table_i64(row, 0, from);
    out->valid[NULLS] = true;
    out->number[NULLS] = (double)nulls;
    out->text[NULLS] = whole_text(scope, nulls);
  }
}

static tsr_status keep(tsr_frame *df, int at, const lines *in, tsr__error *error)
{
  tsr__source *source = df->source;
  tsr_scope *scope = df->node.scope;
  tsr_shape shape = { 1, { ROWS } };
  int32_t codes[ROWS];
  uint8_t valid[ROWS];
  tsr__col col = { .type = df->schema.field[at].type };
  memcpy(valid, in->valid, sizeof valid);
  if (col.type == TSR_COL_TEXT) {
    const char *texts[ROWS];
    for (int i = 0; i < ROWS; i++) {
      texts[i] = in->valid[i] ? in->text[i] : NULL;
      if (in->valid[i] && !texts[i])
        return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
    }
    tsr__dict *dict = tsr__texts_encode(scope->rt, texts, ROWS, codes, valid);
    if (!dict) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
    source->dicts[source->dict_count++] = dict;
    col.dict = dict;
  }
  const void *data = col.type == TSR_COL_TEXT ? (const void *)codes : in->number;
  tsr_dtype dtype = tsr__dtype_of_type(col.type);
  col.values = tsr_put_at(scope, data, dtype, shape, (tsr_sharding){ 0 }, df->node.site);
  if (memchr(valid, 0, ROWS))
    col.valid = tsr_put_at(scope, valid, TSR_BOOL, shape, (tsr_sharding){ 0 }, df->node.site);
  if (col.values->inert || (col.valid && col.valid->inert))
    return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  source->col[at] = col;
  return TSR_OK;
}

/* The parent's row on the host. */
static tsr_table *read_row(tsr__bind *bind, const bool *need)
{
  tsr_frame *row = bind->top->parent;
  tsr__bound bound;
  bool *parent = tsr__arena_new(&bind->scope->arena, (size_t)row->schema.count + 1);
  tsr_table *table = parent ? tsr__table_new(bind->scope, row, 1) : NULL;
  if (!table) {
    tsr__error_set(&bind->error, TSR_ENOMEM, "%s: out of memory", bind->what);
    return NULL;
  }
  tsr__frame_needs(bind->top, need, parent, NULL);
  if (tsr__stage_frame(bind, row, true, parent, &bound)) return NULL;
  for (int i = 0; i < bound.count; i++) {
    if (!parent[i]) continue;
    tsr__table_fill(table, i, &bound.col[i], &bind->error);
  }
  return bind->error.status ? NULL : table;
}

tsr_status tsr__make_describe(tsr__bind *bind, tsr__visit *v, tsr__made *made)
{
  const bool *need = v->need;
  tsr_frame *df = bind->top;
  const tsr__schema *from = tsr__described(df);
  const tsr_table *row = read_row(bind, need);
  lines column = { .valid = { 0 } };
  (void)made;
  if (!row) return bind->error.status ? bind->error.status : tsr_scope_status(bind->scope);
  if (!df->source) df->source = tsr__source_new(df->node.scope, df->schema.count);
  if (!df->source) return tsr__error_set(&bind->error, TSR_ENOMEM, "%s: out of memory", df->what);
  tsr_status status = TSR_OK;
  for (int i = 0; i < ROWS; i++) {
    column.text[i] = names[i];
    column.valid[i] = 1;
  }
  if (need[0]) status = keep(df, 0, &column, &bind->error);
  for (int i = 0, at = 1; i < from->count && !status;
       at += tsr__describe_items(from->field[i++].type)) {
    if (!need[i + 1]) continue;
    fill(row, at, from->field[i].type, bind->scope, &column);
    status = keep(df, i + 1, &column, &bind->error);
  }
  if (status) return status;
  df->source->rows = ROWS;
  df->source->version = df->version;
  df->making = (tsr__making){ .done = true, .rows_in = 1, .rows_out = ROWS };
  return TSR_OK;
}
