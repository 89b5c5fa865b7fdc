/* What each verb is in a terminal: the nodes of its columns and mask (here), its rows
 * (materialize.c, group.c, join.c, describe.c), and what room they take (room.c).
 *
 * Invariant: bound is what stands between rows that are there, a source's or a breaker's that
 * were made, and the result. */
#include "frame/run/run.h"
#include "graph/whys.h"

#define VERB(kind, rows, type, needs, origin, lies, estimate, make, bind, known, least, room, ...) \
  { tsr__make_##make, tsr__bind_##bind, tsr__known_##known, tsr__least_##least, tsr__room_##room },
static const tsr__verb_run verbs[TSR__FRAME_KINDS] = {
#include "frame/chain/verbs.def"
};
#undef VERB

const tsr__verb_run *tsr__verb_run_of(const tsr_frame *df)
{
  return &verbs[df->kind];
}

tsr__lower tsr__visit_lower(tsr__bind *bind, const tsr__visit *v)
{
  return (tsr__lower){ .bind = bind,
                       .scope = bind->scope,
                       .site = v->df->node.site,
                       .frame = v->df,
                       .in = v->parent ? &v->parent->bound : &v->bound };
}

/* Columns of the parent by place. */
static void keep_columns(tsr__visit *v)
{
  const tsr__bound *from = &v->parent->bound;
  for (int i = 0; i < v->df->parent->schema.count; i++) v->bound.col[i] = from->col[i];
}

/* A row where the condition is null is dropped: lower_known asks where it is known to be true. */
void tsr__bind_filter(tsr__bind *bind, tsr__visit *v)
{
  tsr__lower low = tsr__visit_lower(bind, v);
  const tsr__expr *expr = v->df->formula.item[0].expr;
  keep_columns(v);
  if (v->from) {
    /* The last of them takes rows for all: nobody else uses what stands between. */
    const tsr__visit *file = v->from;
    if (file->pushdown->all == v->df)
      v->bound.mask = tsr__both(&low, v->bound.mask, file->df->source->pushed->mask);
    return;
  }
  tsr_array *keep = tsr__spread(&low, tsr__lower_known(&low, expr, true));
  tsr__lower_finish(&low, expr);
  v->bound.mask = tsr__both(&low, v->bound.mask, keep);
}

/* The first `count` rows of a selection. The number is a parameter, so a head of another length
 * is the same plan. */
static tsr_array *first_rows(tsr__lower *low, tsr_array *mask, int64_t count)
{
  tsr__ask ask = { TSR__NUMBERS({ .i = count }) };
  return tsr__make(low->scope, TSR__OP_FIRSTN, TSR__IN(mask), &ask, low->site);
}

static tsr__col lower_item(tsr__lower *low, const tsr__expr *expr, int type)
{
  tsr__col out = tsr__lower_as(low, expr, type);
  tsr__lower_finish(low, expr);
  return out;
}

void tsr__bind_assign(tsr__bind *bind, tsr__visit *v)
{
  tsr__lower low = tsr__visit_lower(bind, v);
  int at = tsr__frame_added(v->df);
  keep_columns(v);
  if (v->need[at])
    v->bound.col[at] = lower_item(&low, v->df->formula.item[0].expr, v->df->schema.field[at].type);
}

void tsr__bind_select(tsr__bind *bind, tsr__visit *v)
{
  tsr__lower low = tsr__visit_lower(bind, v);
  for (int i = 0; i < v->df->formula.count; i++)
    if (v->need[i])
      v->bound.col[i] = lower_item(&low, v->df->formula.item[i].expr, v->df->schema.field[i].type);
}

/* Rows first .. first + count - 1 of those selected before. Over a selection the first rows are
 * counted by the device (FIRSTN); over all rows their numbers tell, and no step of its own is
 * needed. */
void tsr__bind_head(tsr__bind *bind, tsr__visit *v)
{
  tsr__lower low = tsr__visit_lower(bind, v);
  int64_t first = v->df->first, count = v->df->count, end;
  keep_columns(v);
  /* Further than any row: none is left out at the end. */
  if (__builtin_add_overflow(first, count, &end)) end = INT64_MAX;
  if (v->bound.mask) {
    tsr_array *before = v->bound.mask;
    v->bound.mask = first_rows(&low, before, end);
    if (first)
      v->bound.mask = tsr__both(&low, v->bound.mask,
                                tsr__op1(&low, TSR__OP_NOT, first_rows(&low, before, first)));
    return;
  }
  tsr_array *index = tsr__row_numbers(&low), *mask = NULL;
  if (first) mask = tsr__op2(&low, TSR__OP_GE, index, tsr__const_i(&low, TSR_I64, first));
  if (end < v->bound.rows)
    mask =
        tsr__both(&low, mask, tsr__op2(&low, TSR__OP_LT, index, tsr__const_i(&low, TSR_I64, end)));
  v->bound.mask = mask;
}

/* The rows behind those that it skips. */
void tsr__bind_tail(tsr__bind *bind, tsr__visit *v)
{
  tsr__lower low = tsr__visit_lower(bind, v);
  tsr_array *keep, *mask = v->bound.mask;
  keep_columns(v);
  /* All rows that there are, or fewer than were asked for. */
  if (v->skip <= 0) return;
  if (mask) keep = tsr__op1(&low, TSR__OP_NOT, first_rows(&low, mask, v->skip));
  else
    keep = tsr__op2(&low, TSR__OP_GE, tsr__row_numbers(&low), tsr__const_i(&low, TSR_I64, v->skip));
  v->bound.mask = tsr__both(&low, mask, keep);
}

/* A column of row numbers in front; only where no mask leaves rows out. */
void tsr__bind_index(tsr__bind *bind, tsr__visit *v)
{
  tsr__lower low = tsr__visit_lower(bind, v);
  const tsr__bound *from = &v->parent->bound;
  for (int i = 1; i < v->df->schema.count; i++) v->bound.col[i] = from->col[i - 1];
  if (v->need[0])
    v->bound.col[0] = (tsr__col){ .type = TSR_COL_I64, .values = tsr__row_numbers(&low) };
}

/* The rows that were found when the mask was made. */
void tsr__bind_chosen(tsr__bind *bind, tsr__visit *v)
{
  tsr__lower low = tsr__visit_lower(bind, v);
  keep_columns(v);
  if (v->mask) v->bound.mask = tsr__both(&low, v->bound.mask, v->mask);
}

/* One row: what follows sees scalars. */
void tsr__bind_aggregate(tsr__bind *bind, tsr__visit *v)
{
  tsr__lower low = tsr__visit_lower(bind, v);
  tsr__bind_aggregates(&low, v->df, v->need, v->bound.col);
  v->bound.scalar = true;
  v->bound.rows = 1;
  v->bound.mask = NULL;
  v->bound.sharding = NULL;
  v->bound.ragged = NULL;
}

/* Where two frames lie differently, columns made of both lie where the rows are said to. */
static tsr_array *at_rows(const tsr__lower *low, tsr_array *a)
{
  const tsr__ask ask = { TSR__ATTR(tsr__place_attr, .why = TSR__WHY_ROWS),
                         .sharding = low->in->sharding };
  if (!a || !a->shape.rank) return a;
  return tsr__make(low->scope, TSR__OP_CONSTRAIN, TSR__IN(a), &ask, low->site);
}

/* Column by column; where one side is one row it is broadcast and the other gives the rows. */
void tsr__bind_arith(tsr__bind *bind, tsr__visit *v)
{
  tsr_frame *df = v->df;
  /* `turned`: the left side is the one row, so the rows are those of the right one. */
  bool turned = v->other && v->parent->bound.scalar && !v->other->bound.scalar;
  const tsr__bound *a = &v->parent->bound, *b = v->other ? &v->other->bound : NULL;
  tsr__col *col = v->bound.col;
  if (turned) {
    v->bound = *b;
    v->bound.col = col;
  }
  v->bound.count = df->schema.count;
  /* Where both have rows and lie at the usual borders, the result lies where they meet. */
  if (b && !a->scalar && !b->scalar && !a->ragged && !b->ragged)
    v->bound.sharding = tsr__rows_meet(a->sharding, b->sharding);
  bool apart = b && v->bound.sharding && !v->bound.ragged && a->sharding && b->sharding &&
               !tsr__sharding_equal(a->sharding, b->sharding);
  tsr__lower low = tsr__visit_lower(bind, v);
  low.in = &v->bound;
  for (int i = 0; i < df->schema.count; i++) {
    if (!v->need[i]) continue;
    int type = df->schema.field[i].type;
    const char *name = df->schema.field[i].name;
    tsr__col left = tsr__convert(&low, a->col[i], type), right;
    if (b) right = tsr__convert(&low, b->col[tsr__schema_find(&df->other->schema, name)], type);
    /* The number of the formula takes the type of each column it stands beside. */
    else right = tsr__lower_as(&low, df->number, type);
    col[i] = tsr__lower_pair(&low, df->op, left, right);
    if (apart) col[i].values = at_rows(&low, col[i].values);
    if (apart) col[i].valid = at_rows(&low, col[i].valid);
    tsr__lower_finish(&low, NULL);
  }
}

/* The one value of a row as a scalar. The maximum of one element is the element. */
static tsr_array *scalar_of(tsr__lower *low, tsr_array *a)
{
  tsr__ask ask = { TSR__ATTR(tsr__reduce_attr, .dims = 1) };
  if (!a || a->inert) return a;
  tsr__op op = a->dtype == TSR_BOOL ? TSR__OP_ANY : TSR__OP_MAX;
  return tsr__make(low->scope, op, TSR__IN(a), &ask, low->site);
}

static void bind_scalars(tsr__bind *bind, tsr__visit *v)
{
  tsr__lower low = tsr__visit_lower(bind, v);
  for (int i = 0; i < v->df->schema.count; i++) {
    tsr__col *col = &v->bound.col[i];
    if (!v->need[i]) continue;
    col->values = scalar_of(&low, col->values);
    col->valid = scalar_of(&low, col->valid);
  }
  /* Nothing is left of the rows: no mask, no counts, no place. */
  v->bound =
      (tsr__bound){ .rows = 1, .scalar = true, .count = v->bound.count, .col = v->bound.col };
}

/* Arrays that their owner deleted: the frame holds their values, but the nodes take no users.
 * tsr_delete promises that later uses are errors, while frames made before keep what they were
 * made of. */
static void bind_deleted(tsr__bind *bind, tsr__visit *v)
{
  for (int i = 0; i < v->df->schema.count; i++) {
    const tsr_array *a = v->bound.col[i].values;
    if (!v->need[i] || !a || !a->deleted) continue;
    if (!a->value) {
      tsr__error_set(&bind->error, TSR_ESTATE,
                     "%s: the array of column '%.60s' was deleted before it was evaluated; call "
                     "tsr_eval on the array first, or delete it after the frame's last use",
                     bind->what, v->df->schema.field[i].name);
      return;
    }
    tsr__value_hold(a->value);
    v->bound.col[i].values = tsr__make_leaf(bind->scope, (tsr_dtype)a->dtype, &a->value->shape,
                                            &a->value->sharding, a->value, a->node.site);
  }
}

/* A column of texts beside those of the parent. */
void tsr__bind_text(tsr__bind *bind, tsr__visit *v)
{
  (void)bind;
  keep_columns(v);
  v->bound.col[tsr__frame_added(v->df)] = v->df->source->col[0];
}

/* The columns of rows that are there. */
void tsr__bind_rows(tsr__bind *bind, tsr__visit *v)
{
  tsr_frame *df = v->df;
  const tsr__source *source = tsr__scan_source(v);
  v->bound.rows = source->rows;
  v->bound.sharding = source->sharding.mesh ? &source->sharding : NULL;
  v->bound.ragged = source->whole ? df : NULL;
  for (int i = 0; i < df->schema.count; i++)
    if (v->need[i]) v->bound.col[i] = tsr__scan_column(source, i, v->pushdown);
  if (tsr__verb_of(df)->rows == TSR__ROWS_SOURCE) bind_deleted(bind, v);
  if (tsr__frame_numbers(df) && v->need[0]) {
    tsr__lower low = tsr__visit_lower(bind, v);
    low.in = &v->bound;
    v->bound.col[0] = (tsr__col){ .type = TSR_COL_I64, .values = tsr__row_numbers(&low) };
  }
  if (v->scalar) bind_scalars(bind, v);
}
