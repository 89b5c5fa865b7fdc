/* Terminals that bring rows to the host: collect, row, rows, column, and rows for what follows an
 * aggregate.
 *
 *   no selection          values            -> host
 *   a selection           compact(values)   -> host     each device sends only the rows it kept
 *
 * A window is a second selection, by number:
 *   head and tail         values where the row's number says so
 *
 * A terminal may run several programs: the selection, to see how many rows there are; then the
 * columns of those that are wanted. */
#include "frame/run/run.h"

/* ---- roots ------------------------------------------------------------------------------- */

enum { ROOTS = 4 }; /* arrays a column may have */

/* Runs all arrays of columns as one program: what they share, a filter above all, is computed once.
 * Those that a column does not have are NULL, which the run skips. */
static tsr_status run_columns(tsr__bind *bind, const tsr__col *col, int count)
{
  tsr_array **roots = tsr__bind_room(bind, (int64_t)count * ROOTS, sizeof(tsr_array *));
  if (!roots) return bind->error.status;
  for (int i = 0; i < count; i++) {
    roots[ROOTS * i] = col[i].values;
    roots[ROOTS * i + 1] = col[i].valid;
    roots[ROOTS * i + 2] = col[i].count;
    roots[ROOTS * i + 3] = col[i].real;
  }
  return tsr__bind_run(bind, roots, count * ROOTS);
}

static tsr__lower lower_on(tsr__bind *bind, const tsr__bound *bound)
{
  return (tsr__lower){
    .bind = bind, .scope = bind->scope, .site = bind->site, .frame = bind->top, .in = bound
  };
}

/* ---- which rows ---------------------------------------------------------------------------- */

/* The global row of the `wanted`-th true bit, counted from 0. */
static tsr_status find_bit(tsr__bind *bind, const tsr__value *mask, int64_t wanted, int64_t *row)
{
  return tsr__value_find(mask, (tsr__value_place){ true, wanted }, row, bind->what, &bind->error);
}

tsr_status tsr__mask_rows(tsr__bind *bind, const tsr__value *mask, int64_t *out)
{
  return tsr__value_count(mask, out, bind->what, &bind->error);
}

/* Makes the bound frame's selection the window's: rows up to the `head`-th and from the `tail`-th
 * last on. `total` becomes the number of all that are selected, for who prints it. */
static tsr_status narrow(tsr__bind *bind, tsr__bound *bound, tsr__window *window)
{
  tsr__lower low = lower_on(bind, bound);
  window->total = bound->rows;
  /* How many rows there are decides which of them are wanted: the selection runs by itself. It has
   * a value from then on and is a leaf of what runs later. */
  if (bound->mask) {
    if (tsr__bind_run(bind, &bound->mask, 1)) return tsr_scope_status(bind->scope);
    if (tsr__mask_rows(bind, bound->mask->value, &window->total)) return bind->error.status;
  }
  /* No window, or head and tail meet: all rows are wanted. */
  if (window->head < 0 || window->total <= window->head + window->tail) return TSR_OK;
  /* Rows by number: those before the `first` selected one behind the head, and from the `last`
   * on. */
  int64_t first = window->head, last = window->total - window->tail;
  /* The n-th selected row is the n-th true bit of the mask: both numbers become those of rows. */
  if (bound->mask) {
    if (find_bit(bind, bound->mask->value, first, &first)) return bind->error.status;
    if (find_bit(bind, bound->mask->value, last, &last)) return bind->error.status;
  }
  tsr_array *index = tsr__row_numbers(&low);
  tsr_array *front = tsr__op2(&low, TSR__OP_LT, index, tsr__const_i(&low, TSR_I64, first));
  tsr_array *back = tsr__op2(&low, TSR__OP_GE, index, tsr__const_i(&low, TSR_I64, last));
  bound->mask = tsr__both(&low, bound->mask, tsr__op2(&low, TSR__OP_OR, front, back));
  return TSR_OK;
}

/* Makes a column's arrays hold the wanted rows only, in order. Counts are settled into validity
 * first, as COMPACT knows values and validity alone, and a column that is one number for all rows
 * is spread. */
static void compact(tsr__lower *low, tsr__col *col, tsr_array *mask)
{
  *col = tsr__settle(low, *col);
  col->values = tsr__spread(low, col->values);
  if (col->valid) col->valid = tsr__spread(low, col->valid);
  if (!mask) return;
  col->values = tsr__op2(low, TSR__OP_COMPACT, col->values, mask);
  if (col->valid) col->valid = tsr__op2(low, TSR__OP_COMPACT, col->valid, mask);
}

/* ---- tables ------------------------------------------------------------------------------ */

static tsr_status fill_table(tsr__bind *bind, const tsr__bound *bound, int64_t rows,
                             tsr_table **out)
{
  tsr_scope *scope = bind->home;
  tsr_table *table = tsr__table_new(scope, bind->top, rows);
  if (!table)
    return tsr__error_set(&bind->error, TSR_ENOMEM, "%s: no memory for %lld rows", bind->what,
                          (long long)rows);
  /* The table holds every dictionary for itself: those of the terminal's go with its scope. */
  for (int i = 0; i < bound->count; i++) {
    const tsr__value *value = bound->col[i].values->value;
    table->apart = table->apart || tsr__rel_apart(scope->rt, &value->sharding);
    if (tsr__table_fill(table, i, &bound->col[i], &bind->error)) return bind->error.status;
    if (!tsr__table_hold(table, i, bound->col[i].dict))
      return tsr__error_set(&bind->error, TSR_ENOMEM, "%s: out of memory", bind->what);
  }
  *out = table;
  return TSR_OK;
}

/* Collects the rows of a frame in a terminal that is open; the table is of its home. */
static tsr_status collect_rows(tsr__bind *bind, tsr__window *window, tsr_table **out)
{
  tsr__bound bound;
  tsr_status status = tsr__bind_frame(bind, bind->top, false, NULL, &bound);
  if (status) return status;
  /* An aggregate is one row, whatever stands before it. */
  window->total = 1;
  if (!bound.scalar) {
    /* One row has no selection: its columns are of rank 0. */
    if (window->head >= 0 || bound.mask) status = narrow(bind, &bound, window);
    else window->total = bound.rows;
    if (status) return status;
    if (bind->error.status) return bind->error.status;
    tsr__lower low = lower_on(bind, &bound);
    for (int i = 0; i < bound.count; i++) compact(&low, &bound.col[i], bound.mask);
  }
  status = run_columns(bind, bound.col, bound.count);
  if (status) return status;
  int64_t rows = window->total;
  /* What the window leaves of the rows that there are. */
  if (window->head >= 0 && rows > window->head + window->tail) rows = window->head + window->tail;
  status = fill_table(bind, &bound, rows, out);
  /* A breaker has noted its rows when they were made. */
  if (!status && !tsr__frame_breaks(bind->top)) tsr__note_rows(bind->top, *out, window->total);
  return status;
}

int tsr__shard_type(int type)
{
  /* bf16 has no type outside: what leaves as memory is the f32 that holds it. */
  return type == TSR_COL_BF16 ? TSR_COL_F32 : type;
}

/* As rows of each device: what a column's arrays are, and all columns, lie alike. */
static tsr_status lie_together(tsr__lower *low, tsr__bound *bound)
{
  tsr_array **roots = tsr__bind_room(low->bind, 2 * (int64_t)bound->count, sizeof *roots);
  if (!roots) return low->bind->error.status;
  for (int i = 0; i < bound->count; i++) {
    roots[2 * i] = bound->col[i].values;
    roots[2 * i + 1] = bound->col[i].valid;
  }
  tsr_status status = tsr__bring_together(low, roots, 2 * bound->count);
  for (int i = 0; i < bound->count && !status; i++) {
    bound->col[i].values = roots[2 * i];
    bound->col[i].valid = roots[2 * i + 1];
  }
  return status;
}

/* The rows of each device stay there: no window, and no order between devices is asked for. */
tsr_status tsr__collect_shards(tsr__bind *bind, bool distinct, tsr__bound *out)
{
  tsr_status status = tsr__bind_frame(bind, bind->top, true, NULL, out);
  if (status) return status;
  tsr__lower low = lower_on(bind, out);
  for (int i = 0; i < out->count; i++) {
    int type = out->col[i].type;
    if (distinct && !tsr__text_distinct(&low, &out->col[i])) return tsr_scope_status(bind->scope);
    if (tsr__shard_type(type) != type)
      out->col[i] = tsr__convert(&low, out->col[i], tsr__shard_type(type));
    compact(&low, &out->col[i], out->mask);
  }
  status = run_columns(bind, out->col, out->count);
  return status ? status : lie_together(&low, out);
}

tsr_status tsr__collect(tsr_frame *df, tsr__window *window, tsr_table **out, const char *site)
{
  tsr__bind bind;
  tsr_table *table = NULL;
  tsr_status status = tsr__bind_open(&bind, df, "tsr_frame_collect", site);
  if (status) return status;
  /* The table belongs to the frame's home, which outlives the terminal. An error of the terminal
   * goes over there when it is closed, and is then the answer. */
  status = tsr__bind_meet(&bind);
  if (!status) status = collect_rows(&bind, window, &table);
  tsr_status closed = tsr__bind_close(&bind);
  if (closed) return closed;
  if (!status) *out = table;
  return status;
}

tsr_status tsr_frame_collect_at(tsr_frame *df, tsr_table **out, const char *site)
{
  tsr__window window = { -1, -1, 0 };
  if (df && !df->inert && !out)
    return tsr__frame_refuse(
        df, "tsr_frame_collect", site,
        tsr__fail(tsr__frame_home(df), site ? site : df->node.site, TSR_EARG,
                  "tsr_frame_collect: `out` is NULL; give the address of a pointer"));
  return tsr__collect(df, &window, out, site);
}

/* ---- one row ------------------------------------------------------------------------------- */

struct tsr_row {
  tsr__node node;
  tsr_table *table;
  tsr_status status;
};

/* What is returned when there is no memory for a row or no frame: they are never written to, and
 * say their status to who asks. */
static const tsr_row no_row = { .status = TSR_ENOMEM };
static const tsr_row no_frame_row = { .status = TSR_EARG };

tsr_row *tsr_frame_row_at(tsr_frame *df, const char *site)
{
  /* Two rows are enough to know that there is more than one. */
  tsr__window window = { 2, 0, 0 };
  /* A frame without a scope is one of those that could not be made; its `op` says why. */
  if (!df) tsr__fail_null("tsr_frame_row", "frame", site);
  else if (!df->node.scope) tsr__frame_why_inert(df, "tsr_frame_row", site);
  if (!df || !df->node.scope)
    return (tsr_row *)(df && df->op == TSR_ENOMEM ? &no_row : &no_frame_row);
  tsr_scope *scope = tsr__frame_home(df);
  tsr_row *row = tsr__node_new(scope, sizeof *row, site, NULL);
  if (!row) return (tsr_row *)&no_row;
  row->status = tsr__collect(df, &window, &row->table, site);
  if (!row->status && window.total != 1) {
    row->status = tsr__fail(scope, site, TSR_ESHAPE,
                            "tsr_frame_row: the frame has %lld rows, expected 1; use "
                            "tsr_frame_collect",
                            (long long)window.total);
    row->table = NULL;
  }
  return row;
}

tsr_status tsr_row_status(const tsr_row *row)
{
  return row ? row->status : TSR_EARG;
}

/* The column of a name; an unknown one is recorded, with names that are near. */
static int find(const tsr_row *row, const char *name)
{
  if (!row || !row->table) return -1;
  int at = tsr_table_find(row->table, name);
  if (at >= 0) return at;
  /* The names alone are a schema, as the search for near names wants one. */
  tsr_scope *scope = row->node.scope;
  tsr__field *field =
      tsr__arena_new(&scope->arena, (size_t)(row->table->count + 1) * sizeof *field);
  tsr__text hint;
  tsr__text_init(&hint, &scope->rt->heap);
  for (int i = 0; field && i < row->table->count; i++) field[i].name = row->table->column[i].name;
  tsr__schema schema = { field ? row->table->count : 0, field, NULL };
  tsr__schema_hint(&schema, name ? name : "", &hint);
  tsr__fail(scope, row->node.site, TSR_ECOLUMN, "tsr_row: no column '%.60s'%s", name ? name : "",
            tsr__text_get(&hint));
  tsr__text_free(&hint);
  return -1;
}

bool tsr_row_is_null(const tsr_row *row, const char *name)
{
  return tsr_table_is_null(row ? row->table : NULL, 0, find(row, name));
}

double tsr_row_f64(const tsr_row *row, const char *name)
{
  return tsr_table_f64(row ? row->table : NULL, 0, find(row, name));
}

int64_t tsr_row_i64(const tsr_row *row, const char *name)
{
  return tsr_table_i64(row ? row->table : NULL, 0, find(row, name));
}

const char *tsr_row_text(const tsr_row *row, const char *name)
{
  return tsr_row_bytes(row, name, NULL);
}

const char *tsr_row_bytes(const tsr_row *row, const char *name, size_t *length)
{
  return tsr_table_bytes(row ? row->table : NULL, 0, find(row, name), length);
}

/* ---- counting ------------------------------------------------------------------------------ */

tsr_status tsr__count_rows(tsr__bind *bind, const tsr__bound *bound, int64_t *out)
{
  *out = bound->rows;
  if (!bound->mask) return TSR_OK;
  /* The mask is counted by the devices: an integer comes back instead of the selection. */
  tsr__lower low = lower_on(bind, bound);
  tsr__col rows = tsr__aggregate(&low, TSR__A_COUNT, (tsr__col){ 0 });
  tsr_status status = tsr__bind_run(bind, &rows.values, 1);
  return status ? status : tsr__value_fetch(rows.values->value, out, bind->what, &bind->error);
}

static tsr_status count(tsr__bind *bind, int64_t *out)
{
  tsr_frame *df = bind->top;
  tsr__bound bound;
  /* As many rows as before: these need not be made. */
  while (tsr__verb_of(df)->rows == TSR__ROWS_MOVES && !df->count && !df->source) df = df->parent;
  /* No column is needed, only the selection. */
  bool *none = tsr__bind_room(bind, df->schema.count, sizeof *none);
  if (!none) return bind->error.status;
  tsr_status status = tsr__bind_frame(bind, df, true, none, &bound);
  if (!status) status = tsr__count_rows(bind, &bound, out);
  /* Kept with the frame, so that an explanation shows it. */
  if (!status) tsr__note_count(df, *out);
  return status;
}

tsr_status tsr_frame_row_count_at(tsr_frame *df, int64_t *out, const char *site)
{
  tsr__bind bind;
  int64_t rows = 0;
  tsr_status status = tsr__bind_open(&bind, df, "tsr_frame_row_count", site);
  if (status) return status;
  if (!out)
    tsr__error_set(&bind.error, TSR_EARG,
                   "tsr_frame_row_count: `out` is NULL; give the address of an int64_t");
  status = tsr__bind_meet(&bind);
  if (!status) status = count(&bind, &rows);
  tsr_status closed = tsr__bind_close(&bind);
  if (!status && !closed) *out = rows;
  return closed ? closed : status;
}

/* ---- a column as an array -------------------------------------------------------------------- */

/* Gives a column values where it has nulls, since an array has no way to say that one is missing.
 * Without a value to put there the column must have none among the selected rows. */
static tsr_status fill_nulls(tsr__lower *low, tsr__col *col, const char *name,
                             const tsr_scalar *null_value)
{
  tsr__bind *bind = low->bind;
  if (!col->valid) return TSR_OK;
  if (null_value->kind == TSR_SCALAR_NONE) {
    /* Whether a null is among the rows that count, only a run tells. */
    tsr_array *nulls = tsr__op1(low, TSR__OP_NOT, tsr__spread(low, col->valid));
    nulls = tsr__both(low, nulls, low->in->mask);
    tsr_array *total = tsr__op1(low, TSR__OP_COUNT, nulls);
    int64_t found = 0;
    tsr_status status = tsr__bind_run(bind, &total, 1);
    if (!status) status = tsr__value_fetch(total->value, &found, bind->what, &bind->error);
    if (status) return status;
    if (found)
      return tsr__error_set(&bind->error, TSR_EVALUE,
                            "tsr_frame_column: column '%.60s' has %lld null%s, but an array holds "
                            "no nulls; give .null_value or filter them out",
                            name, (long long)found, found == 1 ? "" : "s");
    col->valid = NULL;
    return TSR_OK;
  }
  tsr_dtype dtype = (tsr_dtype)col->values->dtype;
  /* The value must be one of the column's type: a number of any kind for a float; for an integer a
   * whole one in its range. */
  bool real = tsr__dtype_is_real((tsr_dtype)dtype);
  tsr_scalar given = tsr__scalar_signed(*null_value);
  bool whole = given.kind == TSR_SCALAR_BOOL || given.kind == TSR_SCALAR_INT;
  bool natural = given.kind == TSR_SCALAR_UINT; /* beyond i64 */
  bool fits = real ? whole || natural || given.kind == TSR_SCALAR_FLOAT
                   : whole || (natural && dtype == TSR_U64);
  if (whole && tsr__dtype_integer(dtype)) fits = tsr__dtype_holds(dtype, given.i);
  if (!fits)
    return tsr__error_set(&bind->error, TSR_EDTYPE,
                          "tsr_frame_column: .null_value must be a number "
                          "that fits %s",
                          tsr_dtype_name(dtype));
  tsr_array *other = real ? tsr__const_f(low, dtype, tsr__scalar_real(given))
                          : tsr__const_i(low, dtype, natural ? (int64_t)given.u : given.i);
  tsr_array *have = col->valid;
  /* Bools are bits, which WHERE does not choose. */
  if (dtype == TSR_BOOL)
    col->values = given.i ? tsr__op2(low, TSR__OP_OR, col->values, tsr__op1(low, TSR__OP_NOT, have))
                          : tsr__both(low, col->values, have);
  else
    col->values = tsr__make(low->scope, TSR__OP_WHERE, TSR__IN(have, col->values, other),
                            &(tsr__ask){ 0 }, low->site);
  col->valid = NULL;
  return TSR_OK;
}

static tsr_status column(tsr__bind *bind, int at, const tsr_scalar *null_value, tsr_array **out)
{
  tsr__bound bound;
  const char *name = bind->top->schema.field[at].name;
  /* Only this column is needed; the mask needs what it needs. */
  bool *need = tsr__bind_room(bind, bind->top->schema.count, sizeof *need);
  if (!need) return bind->error.status;
  need[at] = true;
  tsr_status status = tsr__bind_frame(bind, bind->top, true, need, &bound);
  if (status) return status;
  tsr__lower low = lower_on(bind, &bound);
  tsr__col col = tsr__settle(&low, bound.col[at]);
  if (col.type == TSR_COL_TEXT)
    return tsr__error_set(&bind->error, TSR_EDTYPE,
                          "tsr_frame_column: column '%.60s' is text, and arrays hold only numbers "
                          "and bools; collect the frame and read the texts of the table",
                          name);
  status = fill_nulls(&low, &col, name, null_value);
  if (status) return status;
  compact(&low, &col, bound.mask);
  /* Rows were left out, or lie ragged: the usual borders come back here. */
  if (bound.mask || bound.ragged) col.values = tsr__op1(&low, TSR__OP_REBALANCE, col.values);
  status = tsr__bind_run(bind, &col.values, 1);
  if (!status) *out = col.values;
  return status;
}

tsr_array *tsr_frame_column_with(tsr_frame *df, const char *name, const tsr_frame_column_opts *opts,
                                 const char *site)
{
  tsr__bind bind;
  tsr_array *found = NULL;
  tsr_scope *scope = tsr__frame_home(df);
  if (tsr__bind_open(&bind, df, "tsr_frame_column", site)) return tsr__frame_inert_array(df, site);
  tsr_frame_column_opts all = { .size = sizeof all };
  tsr__take_opts("tsr_frame_column", opts, &all, sizeof all, &bind.error);
  /* Options and name are checked in the open terminal, so that their errors go the way of all its
   * errors. */
  int at = name ? tsr__schema_find(&df->schema, name) : -1;
  if (at < 0 && !bind.error.status) {
    tsr__text hint;
    tsr__text_init(&hint, NULL);
    tsr__schema_hint(&df->schema, name ? name : "", &hint);
    tsr__error_set(&bind.error, TSR_ECOLUMN, "tsr_frame_column: no column '%.60s'%.500s",
                   name ? name : "", tsr__text_get(&hint));
    tsr__text_free(&hint);
  }
  if (!tsr__bind_meet(&bind)) column(&bind, at, &all.null_value, &found);
  tsr_array *kept = NULL;
  if (!bind.error.status && !tsr_scope_status(bind.scope) && found && found->value) {
    /* The terminal's scope closes; the value goes over to the caller's. */
    tsr__value_hold(found->value);
    kept = tsr__make_leaf(scope, (tsr_dtype)found->dtype, &found->value->shape,
                          &found->value->sharding, found->value, site);
  }
  tsr__bind_close(&bind);
  return kept ? kept : tsr__make_inert(scope, site);
}
