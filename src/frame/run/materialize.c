/* The rows of breakers: made on the devices, kept with the frame column by column.
 *
 *   parents bound        columns, keys          relate/              source of the frame
 *   values, mask   -->   compacted values  -->  new rows, ragged --> leaf arrays, `whole`
 *
 * Invariant: what is made is a function of the frame's chain alone, so columns made by a later
 * terminal lie as those made before. All columns of a source lie alike: either at the usual borders
 * or all ragged with the same counts. */
#include "frame/run/run.h"
#include "graph/whys.h"

/* ---- what is there -------------------------------------------------------------------------- */

bool tsr__rows_ready(const tsr_frame *df, const bool *need)
{
  if (!df->source || df->source->rows < 0) return false;
  for (int i = 0; i < df->schema.count; i++) {
    /* Row numbers are made wherever they are asked for, and not kept. */
    bool numbers = i < tsr__frame_numbers(df);
    if (need[i] && !numbers && !df->source->col[i].values) return false;
  }
  return true;
}

void tsr__rows_forget(tsr_frame *df)
{
  /* A late value of a file changed a type, and with it the version: rows of the old one are of
   * types that no longer hold. */
  tsr__source *source = df->source;
  if (!source || source->version == df->version) return;
  for (int i = 0; i < df->schema.count; i++) source->col[i] = (tsr__col){ 0 };
  source->rows = -1;
  source->whole = source->index = NULL;
}

/* ---- evaluating the parents ------------------------------------------------------------------ */

/* Where the rows of a bound frame lie must be the same for all that is evaluated of them. Ragged
 * rows cannot be resharded by a constraint, and need not be: they were made together. */
static tsr_array *in_place(tsr__lower *low, tsr_array *a, const tsr_sharding *sharding)
{
  if (!a || !sharding || low->in->ragged) return a;
  const tsr__ask ask = { TSR__ATTR(tsr__place_attr, .why = TSR__WHY_ROWS), .sharding = sharding };
  return tsr__make(low->scope, TSR__OP_CONSTRAIN, TSR__IN(a), &ask, low->site);
}

/* spread: a column may be one number for all rows, which has no rows to leave out. */
static tsr_array *picked(tsr__lower *low, tsr_array *a, const tsr_sharding *sharding,
                         tsr_array *mask)
{
  if (!a) return NULL;
  a = in_place(low, tsr__spread(low, a), sharding);
  return mask ? tsr__op2(low, TSR__OP_COMPACT, a, mask) : a;
}

static bool lie_alike(const tsr__value *a, const tsr__value *b)
{
  if (!tsr__sharding_equal(&a->sharding, &b->sharding) || !a->rows != !b->rows) return false;
  if (a->shape.dims[0] != b->shape.dims[0]) return false;
  return !a->rows || !memcmp(a->rows, b->rows, (size_t)a->part_count * sizeof *a->rows);
}

/* Where columns that lie apart are to meet: on the first mesh that one of them lies on. */
static const tsr__value *place_of(tsr_array *const *roots, int count)
{
  for (int i = 0; i < count; i++)
    if (roots[i] && roots[i]->value->sharding.mesh) return roots[i]->value;
  return roots[0]->value;
}

/* Moves one array of rows, as a table of its own, to the usual borders of a sharding. */
static tsr_status place_root(tsr__lower *low, const tsr_sharding *to, tsr_array **root)
{
  tsr__bind *bind = low->bind;
  tsr__value *value = (*root)->value;
  tsr__rel in = { 0 }, out = { 0 };
  tsr__rel_stats stats = { 0 };
  tsr_status status = tsr__rel_new(value->rt, &value->sharding, 1, &in, &bind->error);
  if (status) return status;
  in.total = value->shape.dims[0];
  tsr__value_hold(in.column[0].values = value);
  status = tsr__rel_place(&in, to, &out, &stats, &bind->error);
  if (!status) {
    tsr__bind_moved(bind, &stats);
    value = tsr__without_counts(out.column[0].values, &bind->error);
    out.column[0].values = NULL;
    if (value) *root = tsr__value_leaf(low->scope, value, low->site);
    status = bind->error.status ? bind->error.status : tsr_scope_status(low->scope);
  }
  tsr__rel_free(&in);
  tsr__rel_free(&out);
  return status;
}

tsr_status tsr__bring_together(tsr__lower *low, tsr_array **roots, int count)
{
  const tsr__value *first = count ? place_of(roots, count) : NULL;
  const tsr_sharding to = first ? first->sharding : (tsr_sharding){ 0 };
  tsr_status status = TSR_OK;
  bool apart = false;
  for (int i = 0; i < count; i++) apart = apart || (roots[i] && !lie_alike(roots[i]->value, first));
  for (int i = 0; apart && i < count && !status; i++)
    if (roots[i]) status = place_root(low, &to, &roots[i]);
  return status;
}

/* `roots` are values and validity in turn. The table holds them once more; the arrays go with the
 * scope. */
static tsr_status take_values(tsr__lower *low, tsr_array *const *roots, int count, tsr__rel *out)
{
  const tsr__value *first = roots[0]->value;
  tsr_status status = tsr__rel_new(low->scope->rt, &first->sharding, count, out, &low->bind->error);
  out->total = first->shape.dims[0];
  for (int i = 0; i < count && !status; i++) {
    out->column[i].values = roots[2 * i]->value;
    out->column[i].valid = roots[2 * i + 1] ? roots[2 * i + 1]->value : NULL;
    tsr__value_hold(out->column[i].values);
    tsr__value_hold(out->column[i].valid);
  }
  return status;
}

tsr_status tsr__carry_rows(tsr__lower *low, const tsr__carry *carry, tsr__rel *out)
{
  tsr__bind *bind = low->bind;
  const tsr_sharding *sharding = low->in->sharding;
  tsr_array *mask = low->in->mask;
  tsr_array **roots = tsr__bind_room(bind, 2 * (int64_t)carry->count, sizeof *roots);
  if (!roots) return bind->error.status;
  /* Rows of a frame that nothing places lie where the partitioner put the mask: that must be
   * known before columns are asked to lie alike. */
  if (mask && !sharding) {
    if (tsr__bind_run(bind, &mask, 1)) return bind->error.status;
    if (mask->value->sharding.mesh) sharding = &mask->value->sharding;
  }
  mask = in_place(low, mask, sharding);
  for (int i = 0; i < carry->count; i++) {
    tsr__col *col = &carry->col[i];
    /* An aggregate's column keeps its counts apart until someone needs validity. */
    *col = tsr__settle(low, *col);
    roots[2 * i] = picked(low, col->values, sharding, mask);
    roots[2 * i + 1] = picked(low, col->valid, sharding, mask);
  }
  /* Nodes that could not be made have told the scope, so one look is enough for all. */
  if (tsr_scope_status(bind->scope)) return tsr_scope_status(bind->scope);
  tsr_status status = tsr__bind_run(bind, roots, 2 * carry->count);
  if (!status) status = tsr__bring_together(low, roots, 2 * carry->count);
  return status ? status : take_values(low, roots, carry->count, out);
}

/* A key column: what relate/ must know to order or match it. `map` lives in the terminal's
 * scope. */
static tsr_status rel_key_of(tsr__lower *low, const tsr__col *col, int column, tsr__rel_key *out)
{
  *out = (tsr__rel_key){ .column = column };
  if (col->type != TSR_COL_TEXT || !col->dict) return TSR_OK;
  out->map = tsr__text_ranks(low, col->dict);
  out->map_count = col->dict->count;
  return out->map ? TSR_OK : tsr_scope_status(low->scope);
}

/* ---- keeping rows ---------------------------------------------------------------------------- */

/* Whether rows lie at the usual borders after all. A sort of evenly dealt rows ends where the
 * usual borders are: then the counts are dropped, and later programs are those of any other
 * frame. */
static bool at_borders(const tsr__value *value)
{
  for (int p = 0; value->rows && p < value->part_count; p++) {
    tsr_box box;
    tsr__box(&value->sharding, &value->shape, p, &box);
    if (box.size[0] != value->rows[p]) return false;
  }
  return true;
}

/* Buffers are shared, only the description is another. */
tsr__value *tsr__without_counts(tsr__value *value, tsr__error *error)
{
  if (!value || !value->rows) return value;
  tsr__layout layout = { (tsr_dtype)value->dtype, &value->shape, &value->sharding, NULL };
  tsr__value *out = tsr__value_frame(value->rt, &layout, error);
  for (int p = 0; out && p < value->part_count; p++) {
    out->parts[p] = value->parts[p];
    if (out->parts[p]) tsr__buffer_hold(out->parts[p]);
  }
  tsr__value_release(value);
  return out;
}

static tsr_array *leaf(const tsr_frame *df, tsr__value *value)
{
  return tsr__value_leaf(df->node.scope, value, df->node.site);
}

/* Adds a dictionary to those that the frame lets go of at its end. A source holds each dictionary
 * once, however many columns use it; its list is twice as long each time. */
static bool own_dict(tsr_frame *df, tsr__dict *dict)
{
  tsr__source *source = df->source;
  for (int i = 0; i < source->dict_count; i++) {
    if (source->dicts[i] != dict) continue;
    tsr__dict_release(dict);
    return true;
  }
  int room_for = source->dict_room ? source->dict_room : df->schema.count;
  if (source->dict_count >= room_for) {
    tsr__dict **more =
        tsr__arena_new(&df->node.scope->arena, 2 * (size_t)(room_for + 1) * sizeof *more);
    if (!more) {
      tsr__dict_release(dict);
      return false;
    }
    memcpy(more, source->dicts, (size_t)source->dict_count * sizeof *more);
    source->dicts = more;
    source->dict_room = 2 * (room_for + 1);
  }
  source->dicts[source->dict_count++] = dict;
  return true;
}

static tsr_status no_memory(tsr__bind *bind)
{
  return tsr__error_set(&bind->error, TSR_ENOMEM, "%s: out of memory", bind->what);
}

/* Starts a source with the layout of the rows made; nothing where there is one already. Columns
 * made by a later terminal join the source that is there; they lie alike since what makes rows is
 * a function of the chain. */
static tsr_status begin_source(tsr__bind *bind, const tsr__rel *rel)
{
  tsr_frame *df = bind->top;
  if (!df->source) df->source = tsr__source_new(df->node.scope, df->schema.count);
  tsr__source *source = df->source;
  if (!source) return no_memory(bind);
  if (source->rows >= 0) return TSR_OK;
  const tsr__value *first = rel->column[0].values;
  source->sharding = first->sharding;
  source->version = df->version;
  if (!at_borders(first)) {
    tsr__value *value = tsr__value_like(first, TSR_BOOL, &bind->error);
    if (!value) return bind->error.status;
    tsr_array *whole = leaf(df, value);
    if (whole->inert) return no_memory(bind);
    source->whole = whole;
  }
  source->rows = first->shape.dims[0];
  return TSR_OK;
}

/* `rows` stands for a frame that nobody made: a bound column finds by it which rows are there. */
tsr_status tsr__lay_rows(tsr__bind *bind, tsr_frame *rows, const tsr__value *like,
                         tsr__bound *bound)
{
  if (!like->rows) return TSR_OK;
  rows->node.scope = bind->scope;
  rows->node.site = bind->site;
  tsr__value *value = tsr__value_like(like, TSR_BOOL, &bind->error);
  if (!value) return bind->error.status;
  rows->source->whole = leaf(rows, value);
  bound->ragged = rows;
  return tsr_scope_status(bind->scope);
}

/* Keeps one column; takes over the references of `from`. */
static tsr_status keep_column(tsr__bind *bind, int at, tsr__rel_column *from, const tsr__col *meta)
{
  tsr_frame *df = bind->top;
  tsr__col col = { .type = meta->type };
  tsr__value *all[2] = { from->values, from->valid };
  tsr_array *arrays[2] = { NULL, NULL };
  /* The references are taken, so that the table's release finds nothing twice. */
  *from = (tsr__rel_column){ 0 };
  for (int i = 0; i < 2; i++) {
    if (!all[i]) continue;
    if (!df->source->whole) all[i] = tsr__without_counts(all[i], &bind->error);
    if (all[i]) arrays[i] = leaf(df, all[i]);
    if (!arrays[i] || arrays[i]->inert) {
      /* The other one's reference was taken and not yet passed on. */
      if (i == 0) tsr__value_release(all[1]);
      return no_memory(bind);
    }
  }
  col.values = arrays[0];
  col.valid = arrays[1];
  if (meta->dict) {
    if (!own_dict(df, tsr__dict_hold(meta->dict))) return no_memory(bind);
    col.dict = meta->dict;
  }
  df->source->col[at] = col;
  return TSR_OK;
}

static tsr_status keep_rows(tsr__bind *bind, tsr__made *made)
{
  tsr_status status = begin_source(bind, &made->rel);
  for (int i = 0; i < made->rel.count && !status; i++)
    if (made->at[i] >= 0)
      status = keep_column(bind, made->at[i], &made->rel.column[i], &made->meta[made->at[i]]);
  return status;
}

/* ---- figures --------------------------------------------------------------------------------- */

int64_t tsr__rel_bytes(const tsr__rel *rel)
{
  int64_t bytes = 0;
  for (int i = 0; i < rel->count; i++) {
    const tsr__rel_column *column = &rel->column[i];
    if (column->values)
      bytes += (int64_t)tsr__device_bytes((tsr_dtype)column->values->dtype, rel->total);
    if (column->valid) bytes += (int64_t)tsr__device_bytes(TSR_BOOL, rel->total);
  }
  return bytes;
}

static void note(tsr_frame *df, const tsr__rel *in, const tsr__rel *out)
{
  df->making.done = true;
  df->making.rows_in = in->total;
  df->making.bytes_in = tsr__rel_bytes(in);
  df->making.rows_out = out->total;
  df->making.bytes_out = tsr__rel_bytes(out);
}

/* ---- one parent: sort, place, plain rows ----------------------------------------------------- */

tsr_status tsr__made_room(tsr__bind *bind, int columns, tsr__made *made)
{
  made->at = tsr__bind_room(bind, columns, sizeof *made->at);
  made->meta = tsr__bind_room(bind, bind->top->schema.count, sizeof *made->meta);
  return bind->error.status;
}

/* The needed columns of the parent, by place, and the keys; key i is column keys[i].column.
 *
 *    carry.col    the columns that are needed, by place | keys that are none of them
 *    made->at     which column of the frame each is     | -1 */
typedef struct work {
  tsr__lower low;
  tsr__bound bound;
  tsr__carry carry;
  int columns; /* that are no keys */
  tsr__rel_key *keys;
  tsr__rel in;
} work;

static tsr_status add_key(tsr__bind *bind, work *w, int at)
{
  const tsr__keylist *keys = &bind->top->keys;
  const tsr__expr *expr = keys->formula.item[at].expr;
  int column = -1;
  /* A sort goes by ranks, which are one for equal texts. */
  tsr__col col = keys->order ? tsr__lower_row(&w->low, expr, expr->type)
                             : tsr__lower_key(&w->low, expr, expr->type);
  /* A key that is a column as it stands is not carried a second time. Equal nodes are one, so
   * comparing pointers finds it. */
  for (int i = 0; i < w->carry.count && column < 0; i++)
    if (w->carry.col[i].values == col.values && w->carry.col[i].valid == col.valid) column = i;
  if (column < 0) {
    column = w->carry.count++;
    w->carry.col[column] = col;
  }
  tsr_status status = rel_key_of(&w->low, &w->carry.col[column], column, &w->keys[at]);
  w->keys[at].descending = keys->order && keys->order[at].descending;
  w->keys[at].nulls_first = keys->order && keys->order[at].nulls_first;
  return status;
}

/* May be called again once what it asked for was found, so it starts from the columns. */
static tsr_status lower_keys(tsr__bind *bind, void *user)
{
  work *w = user;
  tsr_status status = TSR_OK;
  w->low = (tsr__lower){
    .bind = bind, .scope = bind->scope, .site = bind->site, .frame = bind->top, .in = &w->bound
  };
  w->carry.count = w->columns;
  for (int i = 0; i < bind->top->keys.formula.count && !status; i++) status = add_key(bind, w, i);
  return status;
}

/* Binds the parent and evaluates what is needed of it; `shift`: columns of the frame before those
 * of the parent. */
static tsr_status prepare(tsr__bind *bind, const bool *need, work *w, tsr__made *made)
{
  tsr_frame *df = bind->top;
  /* A frame with row numbers has one column more, in front, than the parent. */
  int shift = tsr__frame_numbers(df), keys = df->keys.formula.count;
  bool *parent = tsr__bind_room(bind, df->parent->schema.count, sizeof *parent);
  w->carry.col = tsr__bind_room(bind, df->schema.count + keys, sizeof *w->carry.col);
  w->keys = tsr__bind_room(bind, keys, sizeof *w->keys);
  if (!parent || !w->carry.col || !w->keys || tsr__made_room(bind, df->schema.count + keys, made))
    return bind->error.status;
  tsr__frame_needs(df, need, parent, NULL);
  tsr_status status = tsr__stage_frame(bind, df->parent, true, parent, &w->bound);
  if (status) return status;
  for (int i = shift; i < df->schema.count; i++) {
    if (!need[i]) continue;
    made->at[w->columns] = i;
    made->meta[i] = w->bound.col[i - shift];
    made->meta[i].type = df->schema.field[i].type;
    w->carry.col[w->columns++] = w->bound.col[i - shift];
  }
  status = tsr__lower_until_known(bind, lower_keys, w);
  for (int i = w->columns; i < w->carry.count; i++) made->at[i] = -1;
  return status ? status : tsr__carry_rows(&w->low, &w->carry, &w->in);
}

/* How the rows of one parent become others. */
typedef tsr_status turning(tsr__bind *bind, work *w, tsr__rel *out);

static tsr_status sort(tsr__bind *bind, work *w, tsr__rel *out)
{
  tsr_frame *df = bind->top;
  tsr__rel_sort_ask ask = { &w->in, w->keys, df->keys.formula.count };
  tsr__rel_stats *stats = &df->making.stats;
  /* A head that stands on a sort was moved into it: `count`. */
  return df->count ? tsr__rel_top(&ask, df->count, out, stats, &bind->error)
                   : tsr__rel_sort(&ask, out, stats, &bind->error);
}

static tsr_status place(tsr__bind *bind, work *w, tsr__rel *out)
{
  tsr_frame *df = bind->top;
  tsr_sharding to = df->even ? w->in.sharding : df->to;
  return tsr__rel_place(&w->in, &to, out, &df->making.stats, &bind->error);
}

/* The same columns under another table. Rows that must only be there as rows: their columns are
 * kept, not computed again by each terminal. */
static tsr_status pass_on(tsr__bind *bind, work *w, tsr__rel *out)
{
  (void)bind;
  *out = w->in;
  w->in = (tsr__rel){ 0 };
  return TSR_OK;
}

static tsr_status make_alone(tsr__bind *bind, const bool *need, turning *turn, tsr__made *made)
{
  tsr_frame *df = bind->top;
  work w = { .bound = { 0 } };
  tsr_status status = prepare(bind, need, &w, made);
  if (status) return status;
  status = turn(bind, &w, &made->rel);
  /* pass_on took the rows away: what came in is what goes out. */
  if (!status) note(df, w.in.count ? &w.in : &made->rel, &made->rel);
  tsr__rel_free(&w.in);
  return status;
}

tsr_status tsr__make_sort(tsr__bind *bind, tsr__visit *v, tsr__made *made)
{
  return make_alone(bind, v->need, sort, made);
}

tsr_status tsr__make_place(tsr__bind *bind, tsr__visit *v, tsr__made *made)
{
  return make_alone(bind, v->need, place, made);
}

tsr_status tsr__make_copy(tsr__bind *bind, tsr__visit *v, tsr__made *made)
{
  return make_alone(bind, v->need, pass_on, made);
}

/* ---- one row: the scalars of an aggregate ----------------------------------------------- */

/* For explain: a count() among the items tells how many rows came to them. Reading a value back
 * costs little here: it is one number, and only if a count stands among the items. */
static void note_one_row(tsr__bind *bind, const tsr__made *made)
{
  tsr_frame *df = bind->top;
  df->making = (tsr__making){ .done = true, .rows_in = -1, .rows_out = 1 };
  for (int i = 0; i < made->rel.count && tsr__frame_aggregates(df); i++) {
    if (!tsr__counts_rows(df->formula.item[made->at[i]].expr)) continue;
    tsr__error none = { 0 };
    tsr__value_fetch(made->rel.column[i].values, &df->making.rows_in, bind->what, &none);
    return;
  }
}

/* The scalars of an aggregate as a table of one row. */
tsr_status tsr__make_row(tsr__bind *bind, tsr__visit *v, tsr__made *made)
{
  const bool *need = v->need;
  tsr_frame *df = bind->top;
  tsr__bound bound, row = { .rows = 1 };
  tsr__carry carry = { tsr__bind_room(bind, df->schema.count, sizeof(tsr__col)), 0 };
  if (!carry.col || tsr__made_room(bind, df->schema.count, made)) return bind->error.status;
  tsr_status status = tsr__stage_frame(bind, df, false, need, &bound);
  if (status) return status;
  tsr__lower low = {
    .bind = bind, .scope = bind->scope, .site = bind->site, .frame = df, .in = &row
  };
  for (int i = 0; i < df->schema.count; i++) {
    if (!need[i]) continue;
    made->at[carry.count] = i;
    made->meta[i] = bound.col[i];
    carry.col[carry.count++] = bound.col[i];
  }
  status = tsr__carry_rows(&low, &carry, &made->rel);
  if (!status && !tsr__frame_breaks(df)) note_one_row(bind, made);
  return status;
}

/* ---- several parents: concat ----------------------------------------------------------------- */

/* A part's column in a type of the whole; of one that holds nothing only its rows count. A column
 * of a file that held nothing but nulls may have any type; its nulls are made anew in the type of
 * the others. */
static tsr__col part_column(work *w, int at, const tsr__field *from, int type)
{
  tsr__col col = w->bound.col[at];
  if (from->vacant && from->type != type)
    col = tsr__lower_expr(&w->low, &(tsr__expr){ .kind = TSR__E_NULL });
  return tsr__convert(&w->low, col, type);
}

/* Binds each part and brings its columns to the types of the whole, in its order. */
static tsr_status lower_part(tsr__bind *bind, const bool *need, int part, work *w)
{
  tsr_frame *df = bind->top, *from = df->part[part];
  bool *wanted = tsr__bind_room(bind, from->schema.count, sizeof *wanted);
  w->carry.col = tsr__bind_room(bind, df->schema.count, sizeof *w->carry.col);
  if (!wanted || !w->carry.col) return bind->error.status;
  tsr__part_needs(df, part, need, wanted);
  tsr_status status = tsr__stage_frame(bind, from, true, wanted, &w->bound);
  w->low = (tsr__lower){
    .bind = bind, .scope = bind->scope, .site = bind->site, .frame = df, .in = &w->bound
  };
  for (int i = 0; i < df->schema.count && !status; i++) {
    if (!need[i]) continue;
    int at = tsr__schema_find(&from->schema, df->schema.field[i].name);
    w->carry.col[w->carry.count++] =
        part_column(w, at, &from->schema.field[at], df->schema.field[i].type);
  }
  return status ? status : tsr_scope_status(bind->scope);
}

/* One dictionary for a text column of all parts. */
static tsr_status unify_column(tsr__bind *bind, work *w, int column)
{
  int parts = bind->top->part_count;
  tsr__col **col = tsr__bind_room(bind, parts, sizeof *col);
  tsr__lower **low = tsr__bind_room(bind, parts, sizeof *low);
  if (!col || !low) return bind->error.status;
  for (int p = 0; p < parts; p++) {
    col[p] = &w[p].carry.col[column];
    low[p] = &w[p].low;
  }
  return tsr__text_unify_all(low, col, parts);
}

/* Each part is bound by itself, in one stage: parts may be frames of one chain, and share what
 * stands before both. */
tsr_status tsr__make_concat(tsr__bind *bind, tsr__visit *v, tsr__made *made)
{
  const bool *need = v->need;
  tsr_frame *df = bind->top;
  int parts = df->part_count, count = 0;
  work *w = tsr__bind_room(bind, parts, sizeof *w);
  const tsr__rel **in = tsr__bind_room(bind, parts, sizeof *in);
  if (!w || !in || tsr__made_room(bind, df->schema.count, made)) return bind->error.status;
  tsr_status status = TSR_OK;
  for (int p = 0; p < parts && !status; p++) status = lower_part(bind, need, p, &w[p]);
  for (int i = 0; i < df->schema.count && !status; i++) {
    if (!need[i]) continue;
    if (df->schema.field[i].type == TSR_COL_TEXT) status = unify_column(bind, w, count);
    made->at[count] = i;
    made->meta[i] = w[0].carry.col[count++];
    made->meta[i].type = df->schema.field[i].type;
  }
  /* Only now: texts got the codes of the common dictionary above. */
  for (int p = 0; p < parts && !status; p++) {
    status = tsr__carry_rows(&w[p].low, &w[p].carry, &w[p].in);
    in[p] = &w[p].in;
  }
  if (!status) status = tsr__rel_concat(in, parts, &made->rel, &df->making.stats, &bind->error);
  if (!status) note(df, &w[0].in, &made->rel);
  for (int p = 0; p < parts; p++) tsr__rel_free(&w[p].in);
  return status;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* What is there as it is: sources, and masks that their nodes tell. */
tsr_status tsr__make_none(tsr__bind *bind, tsr__visit *v, tsr__made *made)
{
  (void)bind;
  (void)v;
  (void)made;
  return TSR_OK;
}

static tsr_status make(tsr__bind *stage, tsr__visit *v)
{
  tsr__made made = { .at = NULL };
  tsr_status status = tsr__verb_run_of(v->df)->make(stage, v, &made);
  if (!status && made.at) status = keep_rows(stage, &made);
  tsr__rel_free(&made.rel);
  return status;
}

tsr_status tsr__materialize_rows(tsr__bind *outer, const tsr__visit *v)
{
  tsr__bind stage;
  tsr_frame *df = v->df;
  tsr__visit missing = *v;
  if (tsr__stage_open(&stage, df, outer)) return outer->error.status;
  missing.need = tsr__bind_room(&stage, df->schema.count, sizeof *missing.need);
  tsr_status status = missing.need ? TSR_OK : stage.error.status;
  bool some = df->source && df->source->rows >= 0;
  for (int i = 0; missing.need && i < df->schema.count; i++)
    /* What an earlier terminal made stays; only what is missing is made beside it. */
    missing.need[i] = v->need[i] && !(some && df->source->col[i].values);
  if (!status) status = make(&stage, &missing);
  if (!status) tsr__bind_moved(&stage, &df->making.stats);
  /* In any case, since it holds what was made on the way. */
  tsr_status closed = tsr__stage_close(&stage, outer);
  return status ? outer->error.status ? outer->error.status : status : closed;
}
