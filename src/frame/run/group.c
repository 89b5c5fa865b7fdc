/* Groups: keys and arguments of aggregates become columns, relate/ groups them, and what
 * stands around the aggregates is computed of the groups.
 *
 *   sum(a) / count() + median(a)       leaves   sum(a)   count()   median(a)     columns of relate/
 *                                      item     column / column + column         of groups
 *
 * Equal leaves are one column. An AGG with such aggregates is a group without keys. Each stands
 * behind the keys in what relate/ gives, in the order in which the walk over the items met it.
 *
 *   stage 1    parents bound, keys and arguments evaluated, rows left out    tsr__carry_rows
 *   relate/    one row a group, in the order of their first rows             tsr__rel_group
 *   stage 2    items over these rows, again as columns                       tsr__carry_rows */
#include "frame/run/run.h"

/*
 *    carry      keys | arguments of aggregates            each column once
 *    out        keys | a column a leaf                    leaf.at */
typedef struct work {
  tsr__bind *bind;
  const bool *need;
  tsr__lower low;
  tsr__bound bound;
  tsr__carry carry;
  tsr__rel_key *keys;
  tsr__col *key_col;
  int key_count;
  struct tsr__group_leaf *leaf;
  tsr__group_agg *agg;
  int leaf_count;
  tsr__rel in, out;
} work;

/* ---- leaves ------------------------------------------------------------------------------ */

/* An aggregate inside another is refused by the checker, so the walk stops at the first. */
static int count_leaves(const tsr__expr *expr)
{
  int count = expr->kind == TSR__E_AGG;
  for (int i = 0; i < expr->count && expr->kind != TSR__E_AGG; i++)
    count += count_leaves(expr->arg[i]);
  return count;
}

/* Two names of the language may be one of relate/: a median is the quantile at a half. */
static int op_of(int agg)
{
  switch (agg) {
  case TSR__A_SUM: return TSR__GROUP_SUM;
  case TSR__A_MEAN: return TSR__GROUP_MEAN;
  case TSR__A_VAR: return TSR__GROUP_VAR;
  case TSR__A_STD: return TSR__GROUP_STD;
  case TSR__A_MIN: return TSR__GROUP_MIN;
  case TSR__A_MAX: return TSR__GROUP_MAX;
  case TSR__A_ANY: return TSR__GROUP_ANY;
  case TSR__A_ALL: return TSR__GROUP_ALL;
  case TSR__A_MEDIAN:
  case TSR__A_QUANTILE: return TSR__GROUP_QUANTILE;
  case TSR__A_NUNIQUE: return TSR__GROUP_NUNIQUE;
  case TSR__A_FIRST: return TSR__GROUP_FIRST;
  case TSR__A_LAST: return TSR__GROUP_LAST;
  case TSR__A_CORR: return TSR__GROUP_CORR;
  default: return TSR__GROUP_COUNT;
  }
}

/* The place of a column among those carried; a new one if it is not there. Equal nodes are one
 * node: a column that is key and argument travels once. */
static int carry(work *w, tsr__col col)
{
  for (int i = 0; i < w->carry.count; i++)
    if (w->carry.col[i].values == col.values && w->carry.col[i].valid == col.valid) return i;
  w->carry.col[w->carry.count] = col;
  return w->carry.count++;
}

/* The share of a quantile, which the language has as a literal. */
static double quantile_of(const tsr__expr *expr)
{
  if (expr->op != TSR__A_QUANTILE) return 0.5;
  const tsr__expr *q = expr->arg[1];
  return q->kind == TSR__E_FLOAT ? q->f : (double)q->i;
}

/* A column of a correlation beside another integer: as it is, but u64 beside i64 as distances from
 * 2^63, of which a correlation is the same. */
static tsr__col whole_column(work *w, const tsr__expr *expr, bool natural)
{
  tsr__lower *low = &w->low;
  tsr__col col = tsr__lower_as(low, expr, expr->type);
  if (natural || expr->type != TSR_COL_U64) return col;
  tsr_array *middle = tsr__const_i(low, TSR_I64, INT64_MIN);
  col.values = tsr__op2(low, TSR__OP_SUB, tsr__cast(low, col.values, TSR_I64), middle);
  col.type = TSR_COL_I64;
  return col;
}

/* Integers of 64 bits do not fit f64 and stay what they are. */
static bool is_long(const tsr__expr *expr)
{
  return expr->type == TSR_COL_I64 || expr->type == TSR_COL_U64;
}

/* The two columns of a correlation, of the rows where both are there. */
static void add_pair(work *w, const tsr__expr *expr, tsr__group_agg *agg)
{
  tsr__expr *const *arg = expr->arg;
  tsr__col col[2];
  bool whole = true;
  for (int i = 0; i < 2; i++)
    whole = whole && (tsr__is_integer(arg[i]->type) || arg[i]->type == TSR_COL_BOOL);
  bool natural = arg[0]->type == TSR_COL_U64 && arg[1]->type == TSR_COL_U64;
  for (int i = 0; i < 2; i++) {
    int type = is_long(arg[i]) ? (int)arg[i]->type : TSR_COL_F64;
    col[i] = whole ? whole_column(w, arg[i], natural) : tsr__lower_as(&w->low, arg[i], type);
  }
  /* A pair counts only where both are there: each gets the validity of both. */
  tsr_array *valid = tsr__both(&w->low, col[0].valid, col[1].valid);
  col[0].valid = col[1].valid = valid ? tsr__spread(&w->low, valid) : NULL;
  agg->column = carry(w, col[0]);
  agg->other = carry(w, col[1]);
}

/* Adds the column that an aggregate is computed of. relate/ knows columns by number and no types of
 * the language: what depends on these, bools for any() and all(), ranks for texts, is done here. */
static tsr_status add_leaf(work *w, const tsr__expr *expr)
{
  tsr__bind *bind = w->bind;
  const char *text = tsr__leaf_text(bind->scope, expr);
  if (!text) return tsr__error_set(&bind->error, TSR_ENOMEM, "%s: out of memory", bind->what);
  /* By what they say, printed: sum(a) in two items is computed once. */
  if (tsr__leaf_find(w->leaf, w->leaf_count, text)) return TSR_OK;
  struct tsr__group_leaf *leaf = &w->leaf[w->leaf_count];
  tsr__group_agg *agg = &w->agg[w->leaf_count];
  *leaf = (struct tsr__group_leaf){ .expr = expr, .text = text, .type = expr->type };
  *agg = (tsr__group_agg){ .op = (uint8_t)op_of(expr->op), .column = -1, .q = quantile_of(expr) };
  leaf->at = w->key_count + w->leaf_count++;
  /* count() has no argument. */
  if (!expr->count) return TSR_OK;
  const tsr__expr *arg = expr->arg[0];
  bool truth = expr->op == TSR__A_ANY || expr->op == TSR__A_ALL;
  /* The argument is an expression over rows, though the frame makes groups: its checks speak of
   * rows. */
  w->low.of_rows = true;
  if (expr->op == TSR__A_CORR) {
    add_pair(w, expr, agg);
    w->low.of_rows = false;
    return TSR_OK;
  }
  tsr__col col = tsr__lower_as(&w->low, arg, truth ? TSR_COL_BOOL : arg->type);
  /* Others take a value as it stands, or go by ranks. */
  bool by_code = expr->op == TSR__A_NUNIQUE;
  w->low.of_rows = false;
  if (by_code && !tsr__text_distinct(&w->low, &col)) return tsr_scope_status(bind->scope);
  leaf->dict = col.dict;
  agg->column = carry(w, col);
  bool ordered = expr->op == TSR__A_MIN || expr->op == TSR__A_MAX;
  if (!ordered || col.type != TSR_COL_TEXT || !col.dict) return TSR_OK;
  /* The least text is that of the least rank; codes are in order of appearance. */
  agg->map = tsr__text_ranks(&w->low, col.dict);
  agg->map_count = col.dict->count;
  return agg->map ? TSR_OK : tsr_scope_status(bind->scope);
}

static tsr_status add_leaves(work *w, const tsr__expr *expr)
{
  if (expr->kind == TSR__E_AGG) return add_leaf(w, expr);
  tsr_status status = TSR_OK;
  for (int i = 0; i < expr->count && !status; i++) status = add_leaves(w, expr->arg[i]);
  return status;
}

/* ---- grouping ---------------------------------------------------------------------------- */

/* Where only constants are needed of one row of all: a count of the rows is that row. */
static void add_row(work *w)
{
  w->leaf[0] = (struct tsr__group_leaf){ .text = "", .type = TSR_COL_I64 };
  w->agg[0] = (tsr__group_agg){ .op = TSR__GROUP_COUNT, .column = -1 };
  w->leaf_count = 1;
}

/* Starts from nothing each time: it is called again when what it asked for was found. */
static tsr_status lower_columns(tsr__bind *bind, void *user)
{
  work *w = user;
  tsr_frame *df = bind->top;
  const tsr__formula *keys = &df->keys.formula, *items = &df->formula;
  tsr_status status = TSR_OK;
  w->low = (tsr__lower){
    .bind = bind, .scope = bind->scope, .site = bind->site, .frame = df, .in = &w->bound
  };
  w->carry.count = w->leaf_count = 0;
  for (int i = 0; i < keys->count; i++) {
    const tsr__expr *expr = keys->item[i].expr;
    w->key_col[i] = tsr__lower_key(&w->low, expr, expr->type);
    w->keys[i] = (tsr__rel_key){ .column = carry(w, w->key_col[i]) };
  }
  /* Items that nobody needs are not computed, but their places in the schema stay. */
  for (int i = 0; i < items->count && !status; i++) {
    if (!w->need[keys->count + i]) continue;
    status = add_leaves(w, items->item[i].expr);
    tsr__lower_finish(&w->low, items->item[i].expr);
  }
  if (!w->key_count && !w->leaf_count) add_row(w);
  if (!w->carry.count) /* count() of no keys: some column tells the rows */
    carry(w, (tsr__col){ .type = TSR_COL_BOOL, .values = tsr__const_i(&w->low, TSR_BOOL, 1) });
  return status;
}

/* Two columns a leaf at most, those of a corr. */
static tsr_status prepare(work *w)
{
  tsr__bind *bind = w->bind;
  tsr_frame *df = bind->top;
  const tsr__formula *keys = &df->keys.formula, *items = &df->formula;
  bool *parent = tsr__bind_room(bind, df->parent->schema.count, sizeof *parent);
  int leaves = 0;
  w->key_count = keys->count;
  /* As many as there may be; equal ones are found later, by what they say. */
  for (int i = 0; i < items->count; i++)
    if (w->need[keys->count + i]) leaves += count_leaves(items->item[i].expr);
  w->carry.col = tsr__bind_room(bind, keys->count + 2 * leaves + 1, sizeof *w->carry.col);
  w->key_col = tsr__bind_room(bind, keys->count, sizeof *w->key_col);
  w->keys = tsr__bind_room(bind, keys->count, sizeof *w->keys);
  w->leaf = tsr__bind_room(bind, leaves + 1, sizeof *w->leaf);
  w->agg = tsr__bind_room(bind, leaves + 1, sizeof *w->agg);
  if (!parent || !w->carry.col || !w->key_col || !w->keys || !w->leaf || !w->agg)
    return bind->error.status;
  tsr__frame_needs(df, w->need, parent, NULL);
  tsr_status status = tsr__stage_frame(bind, df->parent, true, parent, &w->bound);
  return status ? status : tsr__lower_until_known(bind, lower_columns, w);
}

/* ---- items over groups --------------------------------------------------------------------- */

/* The grouped columns as a bound frame of one row a group. The groups as if they were a source:
 * the items are lowered over them as expressions over any rows, except that aggregates are found
 * among the columns (tsr__leaves). */
static tsr_status bind_out(work *w, tsr_frame *rows, tsr__bound *bound)
{
  tsr__bind *bind = w->bind;
  /* The values are held once more: the table of relate/ and the leaves let go of them at different
   * times. */
  *bound = (tsr__bound){ .rows = w->out.total, .count = w->out.count };
  bound->col = tsr__bind_room(bind, w->out.count, sizeof *bound->col);
  rows->source = tsr__bind_room(bind, 1, sizeof *rows->source);
  if (!bound->col || !rows->source) return bind->error.status;
  for (int i = 0; i < w->out.count; i++) {
    tsr__value *all[2] = { w->out.column[i].values, w->out.column[i].valid };
    tsr_array *arrays[2] = { NULL, NULL };
    for (int k = 0; k < 2; k++) {
      if (!all[k]) continue;
      tsr__value_hold(all[k]);
      arrays[k] = tsr__make_leaf(bind->scope, (tsr_dtype)all[k]->dtype, &all[k]->shape,
                                 &all[k]->sharding, all[k], bind->site);
    }
    bound->col[i] = (tsr__col){ .values = arrays[0], .valid = arrays[1] };
  }
  /* All columns of a table lie alike, so the first says where. */
  const tsr__value *first = w->out.column[0].values;
  if (first->sharding.mesh) bound->sharding = &first->sharding;
  return tsr__lay_rows(bind, rows, first, bound);
}

/* relate/ gives numbers; what they mean is what the keys and aggregates were before. */
static void name_columns(work *w, tsr__bound *bound)
{
  for (int i = 0; i < w->key_count; i++) {
    bound->col[i].type = w->key_col[i].type;
    bound->col[i].dict = w->key_col[i].dict;
  }
  for (int i = 0; i < w->leaf_count; i++) {
    bound->col[w->leaf[i].at].type = w->leaf[i].type;
    bound->col[w->leaf[i].at].dict = w->leaf[i].dict;
  }
}

/* The items of the result over the columns that were grouped. */
typedef struct items {
  const work *w;
  tsr__bound bound;
  tsr__leaves leaves;
  tsr__lower low;
  tsr__carry out;
  tsr__made *made;
} items;

/* Keys are columns as they are; what is written around aggregates is computed of one row a
 * group. */
static tsr__col lower_item(items *m, int at)
{
  const tsr_frame *df = m->w->bind->top;
  if (at < m->w->key_count) return m->bound.col[at];
  const tsr__expr *expr = df->formula.item[at - m->w->key_count].expr;
  tsr__col col = tsr__lower_as(&m->low, expr, df->schema.field[at].type);
  tsr__lower_finish(&m->low, expr);
  return col;
}

static tsr_status lower_items(tsr__bind *bind, void *user)
{
  items *m = user;
  const tsr_frame *df = bind->top;
  m->low = (tsr__lower){ .bind = bind,
                         .scope = bind->scope,
                         .site = bind->site,
                         .frame = df,
                         .in = &m->bound,
                         .groups = m->bound.rows,
                         .leaves = &m->leaves };
  m->out.count = 0;
  /* Only needed columns are made: `at` says which of the frame's each one is. */
  for (int i = 0; i < df->schema.count; i++) {
    if (!m->w->need[i]) continue;
    tsr__col col = lower_item(m, i);
    m->made->at[m->out.count] = i;
    m->made->meta[i] = col;
    m->made->meta[i].type = df->schema.field[i].type;
    m->out.col[m->out.count++] = col;
  }
  /* Nothing is needed but the number of rows: some column must say it. */
  if (m->out.count) return TSR_OK;
  m->made->at[0] = -1;
  m->out.col[m->out.count++] = m->bound.col[0];
  return TSR_OK;
}

static tsr_status make_items(work *w, tsr__made *made)
{
  tsr__bind *bind = w->bind;
  tsr_frame rows = { .inert = false };
  int most = bind->top->schema.count + 1;
  items m = { .w = w, .leaves = { w->leaf, w->leaf_count }, .made = made };
  tsr_status status = bind_out(w, &rows, &m.bound);
  if (status) return status;
  name_columns(w, &m.bound);
  m.out.col = tsr__bind_room(bind, most, sizeof *m.out.col);
  if (!m.out.col || tsr__made_room(bind, most, made)) return bind->error.status;
  status = tsr__lower_until_known(bind, lower_items, &m);
  return status ? status : tsr__carry_rows(&m.low, &m.out, &made->rel);
}

/* For explain: bytes are those of the tables before and after, validity included. */
static void note(tsr_frame *df, const tsr__rel *in, const tsr__rel *out)
{
  tsr__making *making = &df->making;
  making->done = true;
  making->path = "groups of rows";
  making->rows_in = in->total;
  making->bytes_in = tsr__rel_bytes(in);
  making->rows_out = out->total;
  making->bytes_out = tsr__rel_bytes(out);
}

tsr_status tsr__make_group(tsr__bind *bind, tsr__visit *v, tsr__made *made)
{
  tsr_frame *df = bind->top;
  work w = { .bind = bind, .need = v->need };
  tsr_status status = prepare(&w);
  if (!status) status = tsr__carry_rows(&w.low, &w.carry, &w.in);
  tsr__rel_group_ask ask = {
    .in = &w.in, .keys = w.keys, .key_count = w.key_count, .aggs = w.agg, .agg_count = w.leaf_count
  };
  if (!status) status = tsr__rel_group(&ask, &w.out, &df->making.stats, &bind->error);
  if (!status) note(df, &w.in, &w.out);
  /* Rows are done with before the items take memory. */
  tsr__rel_free(&w.in);
  if (!status) status = make_items(&w, made);
  tsr__rel_free(&w.out);
  return status;
}

/* An aggregate of all rows is a group without keys where relate/ must compute it. */
tsr_status tsr__make_agg(tsr__bind *bind, tsr__visit *v, tsr__made *made)
{
  return tsr__frame_by_rows(bind->top) ? tsr__make_group(bind, v, made)
                                       : tsr__make_row(bind, v, made);
}
