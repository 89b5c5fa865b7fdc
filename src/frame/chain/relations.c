/* The calls that choose, order, join and place rows. Each makes a node; what it does
 * stands in its row of verbs.def.
 *
 *   head limit tail sample distinct group_head      masks beside the columns, which stay
 *   sort join concat scatter gather rebalance       breakers: new rows
 *   with_row_index                                  numbers; a breaker behind what left out rows */
#include "frame/chain/chain.h"

/* An inert frame with a message, where a call's own arguments are wrong. */
static tsr_frame *refuse(tsr_frame *df, tsr_status status, const char *message)
{
  tsr__error error = { 0 };
  tsr__error_set(&error, status, "%s: %s", df->what, message);
  return tsr__frame_fail(df, &error);
}

/* ---- masks ------------------------------------------------------------------------------- */

static tsr_frame *some_rows(tsr_frame *out, int64_t first, int64_t count)
{
  tsr__error error = { 0 };
  if (out->inert) return out;
  out->first = first;
  out->count = count;
  if (first >= 0 && count >= 0) return tsr__frame_typed(out);
  tsr__error_set(&error, TSR_EARG, "%s: %lld rows, expected 0 or more", out->what,
                 (long long)(count < 0 ? count : first));
  return tsr__frame_fail(out, &error);
}

/* Of a sort that no terminal has made, a twin that makes no more than the first `rows` rows, which
 * is all that those who ask for the first ones need; other frames as they are. The sort itself
 * stays whole for others that stand on it. */
static tsr_frame *top_of(tsr_frame *df, int64_t first, int64_t count)
{
  /* A sort that is a top already keeps its own number. */
  if (!tsr__frame_usable(df) || df->kind != TSR__FRAME_SORT || df->count) return df;
  /* Rows that were made lie there: nothing is saved by a smaller sort. */
  if (first < 0 || count < 1 || first > INT64_MAX - count || df->source) return df;
  tsr_frame *out = tsr__frame_begin(df->parent, TSR__FRAME_SORT, df->what, df->node.site);
  if (out->inert) return out;
  out->keys = df->keys;
  out->count = first + count;
  return tsr__frame_typed(out);
}

tsr_frame *tsr_frame_head_at(tsr_frame *df, int64_t count, const char *site)
{
  df = top_of(df, 0, count);
  return some_rows(tsr__frame_begin(df, TSR__FRAME_HEAD, "tsr_frame_head", site), 0, count);
}

/* The top must have the rows that are left out in front, too. */
tsr_frame *tsr_frame_limit_at(tsr_frame *df, int64_t first, int64_t count, const char *site)
{
  df = top_of(df, first, count);
  return some_rows(tsr__frame_begin(df, TSR__FRAME_HEAD, "tsr_frame_limit", site), first, count);
}

/* No top_of here: the last rows need the whole sort. */
tsr_frame *tsr_frame_tail_at(tsr_frame *df, int64_t count, const char *site)
{
  return some_rows(tsr__frame_begin(df, TSR__FRAME_TAIL, "tsr_frame_tail", site), 0, count);
}

tsr_frame *tsr_frame_sample_with(tsr_frame *df, const tsr_sample_opts *opts, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_SAMPLE, "tsr_frame_sample", site);
  if (out->inert) return out;
  tsr__error error = { 0 };
  if (tsr__take_opts(out->what, opts, &out->sample, sizeof out->sample, &error))
    return tsr__frame_fail(out, &error);
  const tsr_sample_opts *ask = &out->sample;
  if (ask->rows < 0) return refuse(out, TSR_EARG, "`rows` is negative; give 0 or more");
  /* false of NaN, too. */
  if (!(ask->fraction >= 0 && ask->fraction <= 1))
    return refuse(out, TSR_EARG, "`fraction` is not between 0 and 1");
  if (ask->rows > 0 && ask->fraction > 0)
    return refuse(out, TSR_EARG, "`rows` and `fraction` are both given; give one of them");
  if (!ask->sized && !(ask->rows > 0) && !(ask->fraction > 0))
    return refuse(out, TSR_EARG, "neither `rows` nor `fraction` is given; give one of them");
  return tsr__frame_typed(out);
}

/* ---- keys -------------------------------------------------------------------------------- */

/* All columns of the parent as keys. */
tsr_status tsr__all_keys(tsr_frame *df, tsr__error *error)
{
  const tsr__schema *from = &df->parent->schema;
  tsr__arena *arena = &df->node.scope->arena;
  size_t count = (size_t)from->count;
  tsr__item *item = tsr__arena_new(arena, (count + 1) * sizeof *item);
  tsr__expr *expr = tsr__arena_new(arena, (count + 1) * sizeof *expr);
  if (!item || !expr) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  for (int i = 0; i < from->count; i++) {
    /* As if all names had been written out. */
    const char *name = from->field[i].name;
    expr[i] =
        (tsr__expr){ .kind = TSR__E_COLUMN, .depth = 1, .text = name, .length = (int)strlen(name) };
    item[i] = (tsr__item){ .name = name, .expr = &expr[i] };
  }
  df->keys.formula =
      (tsr__formula){ .what = df->what, .source = "", .count = from->count, .item = item };
  return TSR_OK;
}

/* Keys whose order has no meaning. An order that is written is refused instead of ignored: who
 * writes one expects it. */
static tsr_status take_keys(tsr_frame *df, const char *keys, tsr__error *error)
{
  if (tsr__parse_keys(df->what, keys, &df->node.scope->arena, &df->keys, error))
    return error->status;
  for (int i = 0; i < df->keys.formula.count; i++) {
    const tsr__item *item = &df->keys.formula.item[i];
    if (df->keys.order[i].given)
      return tsr__caret(
          error, TSR_EPARSE, (tsr__place){ &df->keys.formula, item->at, item->span },
          "a key takes no order here, as rows keep their order; sort before or after");
  }
  return TSR_OK;
}

/* distinct is a group's first row, all columns being the key unless some are named. */
static tsr_frame *firsts(tsr_frame *out, const char *keys, int64_t count)
{
  tsr__error error = { 0 };
  if (out->inert) return out;
  out->count = count;
  /* Refused there, as of all verbs that count rows. */
  if (count < 0) return some_rows(out, 0, count);
  tsr_status status = keys ? take_keys(out, keys, &error) : tsr__all_keys(out, &error);
  return status ? tsr__frame_fail(out, &error) : tsr__frame_typed(out);
}

tsr_frame *tsr_frame_distinct_at(tsr_frame *df, const char *columns, const char *site)
{
  return firsts(tsr__frame_begin(df, TSR__FRAME_FIRSTS, "tsr_frame_distinct", site), columns, 1);
}

/* NULL keys are an error here, where distinct takes all columns. */
tsr_frame *tsr_frame_group_head_at(tsr_frame *df, const char *keys, int64_t count, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_FIRSTS, "tsr_frame_group_head", site);
  if (!out->inert && !keys) return refuse(out, TSR_EARG, "the keys are NULL");
  return firsts(out, keys, count);
}

tsr_frame *tsr_frame_sort_at(tsr_frame *df, const char *keys, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_SORT, "tsr_frame_sort", site);
  tsr__error error = { 0 };
  if (out->inert) return out;
  if (tsr__parse_keys(out->what, keys, &out->node.scope->arena, &out->keys, &error))
    return tsr__frame_fail(out, &error);
  return tsr__frame_typed(out);
}

tsr_frame *tsr_frame_with_row_index_at(tsr_frame *df, const char *name, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_INDEX, "tsr_frame_with_row_index", site);
  tsr__error error = { 0 };
  if (out->inert) return out;
  if (tsr__check_name(out->what, name, &error)) return tsr__frame_fail(out, &error);
  out->name = tsr__arena_text(&out->node.scope->arena, name, strlen(name));
  if (!out->name) return refuse(out, TSR_ENOMEM, "out of memory");
  return tsr__frame_typed(out);
}

/* ---- several frames ---------------------------------------------------------------------- */

/* The list is copied, as the caller's may be gone when a terminal comes. */
static tsr_status take_parts(tsr_frame *df, tsr_frame *const *frames, int count, tsr__error *error)
{
  size_t bytes = (size_t)count * sizeof *df->part;
  df->part = tsr__arena_new(&df->node.scope->arena, bytes);
  if (!df->part) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  memcpy(df->part, frames, bytes);
  df->part_count = count;
  df->parent = frames[0];
  for (int i = 0; i < count; i++)
    if (tsr__check_owner(frames[i]->node.scope, df->node.scope, df->what, "a frame", error))
      return error->status;
  return TSR_OK;
}

/* In the innermost of the frames' scopes, as the result lives no longer than any of them. */
tsr_frame *tsr_frame_concat_at(tsr_frame *const *frames, int count, const char *site)
{
  tsr_scope *scope = NULL;
  bool usable = true;
  tsr__error error = { 0 };
  for (int i = 0; frames && i < count; i++) {
    usable = usable && tsr__frame_usable(frames[i]);
    if (frames[i]) scope = tsr__scope_inner(scope, frames[i]->node.scope);
  }
  if (!usable || !scope)
    return tsr__frame_inert_among(frames, frames ? count : 0, "tsr_frame_concat", site);
  tsr_frame *df =
      tsr__frame_make(tsr__scope_here(scope), TSR__FRAME_CONCAT, "tsr_frame_concat", site);
  if (df->inert) return df;
  if (take_parts(df, frames, count, &error)) return tsr__frame_fail(df, &error);
  return tsr__frame_typed(df);
}

/* ---- where rows lie ---------------------------------------------------------------------- */

/* One entry for rows and, if given, one for columns, which must be whole. */
static tsr_status take_place(tsr_frame *df, const tsr_sharding *to, tsr__error *error)
{
  /* Sizes do not matter to a spec of frames; the ranks do. */
  tsr_shape shape = { to->rank > 2 ? to->rank : 2, { 0 } };
  if (to->strict)
    return tsr__error_set(
        error, TSR_EUNSUPPORTED,
        "%s: the sharding is strict, but rows need not divide evenly; leave .strict out", df->what);
  if (tsr__sharding_check(to, &shape, error)) return error->status;
  if (to->mesh && to->mesh->rt != df->node.scope->rt)
    return tsr__error_set(
        error, TSR_EARG,
        "%s: the mesh belongs to another runtime; make it with the runtime of the scope", df->what);
  if (to->rank > 2)
    return tsr__error_set(error, TSR_EAXIS,
                          "%s: the spec has %d dims, expected one for rows and one for columns",
                          df->what, to->rank);
  if (to->rank == 2 && tsr__dim_parts(to, 1) > 1)
    return tsr__error_set(
        error, TSR_EUNSUPPORTED,
        "%s: the spec shards columns, but a frame shards only rows; write \"-\" for the columns",
        df->what);
  df->to = tsr__sharding_canon(to);
  return TSR_OK;
}

tsr_frame *tsr_frame_scatter_at(tsr_frame *df, tsr_sharding to, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_PLACE, "tsr_frame_scatter", site);
  tsr__error error = { 0 };
  if (out->inert) return out;
  if (take_place(out, &to, &error)) return tsr__frame_fail(out, &error);
  return tsr__frame_typed(out);
}

/* The same node as a scatter's, whose `to` stays empty. */
tsr_frame *tsr_frame_gather_at(tsr_frame *df, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_PLACE, "tsr_frame_gather", site);
  return out->inert ? out : tsr__frame_typed(out);
}

/* The same node again, whose rows stay on their mesh and are made even. */
tsr_frame *tsr_frame_rebalance_at(tsr_frame *df, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_PLACE, "tsr_frame_rebalance", site);
  if (out->inert) return out;
  out->even = true;
  return tsr__frame_typed(out);
}
