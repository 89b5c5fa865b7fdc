/* Aggregates: one masked reduction each, no compaction.
 *
 *   mean(x) where s      reduce mean(x, mask = s and valid(x))     null where count(mask) is 0
 *
 * The counts that say whether a result is null are outputs beside it; the host compares (see
 * tsr__col), so that the whole is one kernel. Equal reductions and counts are shared by the
 * graph. */
#include "frame/lower/functions.h"

static tsr_array *reduce(tsr__lower *low, tsr__op op, tsr_array *x, tsr_array *mask,
                         const tsr__reduce_attr *attr)
{
  tsr__reduce_attr use = attr ? *attr : (tsr__reduce_attr){ 0 };
  /* Bit 0: the rows, the only dim that a column has. */
  use.dims = 1;
  tsr__ask ask = { .attr = &use, .attr_bytes = sizeof use };
  return tsr__make(low->scope, op, TSR__IN(x, mask), &ask, low->site);
}

/* How many rows a mask takes. Every row counts where there is no mask, so it is a number of the
 * plan and no reduction. */
static tsr_array *count_rows(tsr__lower *low, tsr_array *mask)
{
  if (!mask) return tsr__const_i(low, TSR_I64, low->in->rows);
  return reduce(low, TSR__OP_COUNT, tsr__spread(low, mask), NULL, NULL);
}

/* Says that a result is null where fewer than `least` rows count. Without a mask the number of rows
 * is known now, and nothing is counted. A count that another aggregate of the same mask has is the
 * same node, and is counted once. */
static void null_below(tsr__lower *low, tsr__col *out, tsr_array *mask, int64_t least)
{
  if (!mask) {
    if (low->in->rows < least) out->valid = tsr__const_i(low, TSR_BOOL, 0);
    return;
  }
  out->count = count_rows(low, mask);
  out->least = least;
}

/* NaN is greater than every number: the largest is NaN if there is one, the smallest only if there
 * is nothing else. The array reductions let NaN win. Texts are put in order first: the smallest
 * rank is that of the smallest text. */
static tsr__col extreme(tsr__lower *low, int op, tsr__col x, tsr_array *mask)
{
  if (x.type == TSR_COL_TEXT) tsr__text_rank(low, &x);
  tsr__col out = { .type = x.type, .dict = x.dict };
  tsr_array *use = mask;
  if (!mask && !low->in->rows) { /* the smallest of nothing does not exist */
    out.values = tsr__convert(low, (tsr__col){ 0 }, x.type).values;
    out.valid = tsr__const_i(low, TSR_BOOL, 0);
    return out;
  }
  /* NaN is left out of a minimum; where nothing else is there `real` counts 0, and settling makes
   * it NaN again. */
  if (op == TSR__A_MIN && tsr__is_float(x.type)) {
    use = tsr__both(low, mask, tsr__op1(low, TSR__OP_NOT, tsr__op1(low, TSR__OP_ISNAN, x.values)));
    out.real = count_rows(low, use);
  }
  out.values = reduce(low, op == TSR__A_MIN ? TSR__OP_MIN : TSR__OP_MAX, x.values, use, NULL);
  null_below(low, &out, mask, 1);
  return out;
}

static tsr__col sum(tsr__lower *low, tsr__col x, tsr_array *mask)
{
  bool real = tsr__is_float(x.type);
  /* A frame's sum of integers does not wrap: the kernel says so when it does not fit. */
  tsr__reduce_attr attr = { .checked = !real };
  return (tsr__col){ .type = (uint8_t)tsr__sum_type(x.type),
                     .values = reduce(low, TSR__OP_SUM, x.values, mask, &attr) };
}

static tsr__col moment(tsr__lower *low, int op, tsr__col x, tsr_array *mask)
{
  static const uint16_t ops[TSR__AGGS] = {
    [TSR__A_MEAN] = TSR__OP_MEAN, [TSR__A_VAR] = TSR__OP_VAR, [TSR__A_STD] = TSR__OP_STD
  };
  /* The sample's variance, as in pandas and SQL; arrays divide by n. */
  tsr__reduce_attr attr = { .ddof = op == TSR__A_MEAN ? 0 : 1 };
  tsr__col out = { .type = (uint8_t)tsr__mean_type(x.type) };
  if (tsr__is_float(x.type)) x.values = tsr__cast(low, x.values, tsr__dtype_of_type(out.type));
  out.values = reduce(low, (tsr__op)ops[op], x.values, mask, &attr);
  null_below(low, &out, mask, op == TSR__A_MEAN ? 1 : 2);
  return out;
}

tsr__col tsr__aggregate(tsr__lower *low, int op, tsr__col x)
{
  tsr_array *mask = low->in->mask;
  /* count() counts rows, count(x) those that are not null. */
  if (!x.values || op == TSR__A_COUNT) {
    if (x.valid) mask = tsr__both(low, tsr__spread(low, x.valid), mask);
    return (tsr__col){ .type = TSR_COL_I64, .values = count_rows(low, mask) };
  }
  if (x.type == TSR__COL_NULL) x = tsr__convert(low, x, TSR_COL_I64);
  x.values = tsr__spread(low, x.values);
  if (x.valid) mask = tsr__both(low, tsr__spread(low, x.valid), mask);
  switch (op) {
  case TSR__A_SUM: return sum(low, x, mask);
  case TSR__A_MIN:
  case TSR__A_MAX: return extreme(low, op, x, mask);
  case TSR__A_ANY:
  case TSR__A_ALL:
    return (tsr__col){ .type = TSR_COL_BOOL,
                       .values = reduce(low, op == TSR__A_ANY ? TSR__OP_ANY : TSR__OP_ALL, x.values,
                                        mask, NULL) };
  default: return moment(low, op, x, mask);
  }
}

/* The column of an aggregate that relate/ computed. By what it says and not by its place in a tree:
 * two items with "sum(a)" are computed once. */
static tsr__col leaf_column(tsr__lower *low, const tsr__expr *expr)
{
  const char *text = tsr__leaf_text(low->scope, expr);
  const struct tsr__group_leaf *leaf =
      text ? tsr__leaf_find(low->leaves->leaf, low->leaves->count, text) : NULL;
  if (leaf) return low->in->col[leaf->at];
  tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
  return (tsr__col){ .type = expr->type, .values = tsr__make_inert(low->scope, low->site) };
}

tsr__col tsr__lower_agg(tsr__lower *low, const tsr__expr *expr)
{
  tsr__col x = { 0 };
  /* relate/ has computed it; around it the item is an expression over groups. */
  if (low->leaves) return leaf_column(low, expr);
  if (tsr__agg_needs_rows(expr->op)) {
    tsr__fail(low->scope, low->site, TSR_EUNSUPPORTED, "%s: %s(...) cannot be computed here",
              low->bind->what, tsr__agg_name(expr->op));
    return (tsr__col){ .type = expr->type, .values = tsr__make_inert(low->scope, low->site) };
  }
  /* Only while the argument is lowered: checks in it are of rows, those around the aggregate of
   * groups. */
  low->of_rows = true;
  if (expr->count) x = tsr__settle(low, tsr__lower_expr(low, expr->arg[0]));
  low->of_rows = false;
  if (expr->op == TSR__A_ANY || expr->op == TSR__A_ALL) x = tsr__convert(low, x, TSR_COL_BOOL);
  return tsr__aggregate(low, expr->op, x);
}

/* A column as a REDUCE adds it up: one that holds nothing may be called text. */
static tsr__col reduced_column(tsr__lower *low, const tsr_frame *df, int at)
{
  const tsr__field *from = &df->parent->schema.field[at];
  bool text = from->type == TSR_COL_TEXT && df->schema.field[at].type != TSR_COL_TEXT;
  bool adds = from->vacant && text && df->op != TSR__A_COUNT;
  return adds ? tsr__all_null(low, TSR_COL_I64) : low->in->col[at];
}

/* Bare aggregates keep their `count` and `real`, for the host to compare; what stands around one
 * needs them settled, which converting does. A REDUCE has its columns as they are bound, so it
 * lowers nothing. */
tsr_status tsr__bind_aggregates(tsr__lower *low, const tsr_frame *df, const bool *need,
                                tsr__col *out)
{
  if (df->kind == TSR__FRAME_REDUCE) {
    for (int i = 0; i < df->schema.count; i++)
      if (need[i]) out[i] = tsr__aggregate(low, df->op, reduced_column(low, df, i));
    return tsr_scope_status(low->scope);
  }
  int keys = tsr__frame_key_columns(df);
  for (int i = 0; i < df->formula.count; i++) {
    const tsr__expr *expr = df->formula.item[i].expr;
    if (!need[keys + i]) continue;
    tsr__col *col = &out[keys + i];
    *col = tsr__lower_expr(low, expr);
    if (expr->kind != TSR__E_AGG) *col = tsr__convert(low, *col, df->schema.field[keys + i].type);
    tsr__lower_finish(low, expr);
  }
  return tsr_scope_status(low->scope);
}

/* ---- aggregates that relate/ computed -------------------------------------------------------- */

const char *tsr__leaf_text(tsr_scope *scope, const tsr__expr *expr)
{
  tsr__text text;
  tsr__text_init(&text, &scope->rt->heap);
  tsr__expr_print(expr, &text);
  char *out =
      text.failed ? NULL : tsr__arena_text(&scope->arena, tsr__text_get(&text), text.length);
  tsr__text_free(&text);
  return out;
}

const struct tsr__group_leaf *tsr__leaf_find(const struct tsr__group_leaf *leaf, int count,
                                             const char *text)
{
  for (int i = 0; i < count; i++)
    if (!strcmp(leaf[i].text, text)) return &leaf[i];
  return NULL;
}
