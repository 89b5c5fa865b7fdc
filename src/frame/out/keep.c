/* Frames evaluated once and kept:
 *
 *   chain --> keep            a breaker in the chain's scope that passes its rows on
 *             v
 *         source of arrays    in the scope asked for: the chain may go, buffers stay, shared
 *
 * Invariant: a kept frame stands on nothing but its own source. */
#include "frame/out/out.h"

/* Makes the rows of a frame of kind KEEP; the error is in its scope. All columns are needed, so all
 * are made. */
static tsr_status make(tsr_frame *out)
{
  tsr__bind bind;
  tsr__bound bound;
  tsr_status status = tsr__bind_open(&bind, out, out->what, NULL);
  if (status) return status;
  status = tsr__bind_meet(&bind);
  if (!status) status = tsr__bind_frame(&bind, out, true, NULL, &bound);
  tsr_status closed = tsr__bind_close(&bind);
  return closed ? closed : status;
}

/* The schema in memory of the frame's own scope: the chain's may close. */
static bool own_schema(tsr_frame *out)
{
  tsr__arena *arena = &out->node.scope->arena;
  int count = out->schema.count;
  tsr__field *field = tsr__arena_new(arena, (size_t)(count ? count : 1) * sizeof *field);
  for (int i = 0; field && i < count; i++) {
    const char *name = out->schema.field[i].name;
    field[i] = out->schema.field[i];
    field[i].name = tsr__arena_text(arena, name, strlen(name));
    /* A name that could not be copied ends the loop and is out of memory. */
    if (!field[i].name) field = NULL;
  }
  out->schema = (tsr__schema){ field ? count : 0, field, NULL };
  tsr__error error = { 0 };
  if (!field) tsr__error_set(&error, TSR_ENOMEM, "%s: out of memory", out->what);
  else tsr__schema_index(out, &error);
  return !tsr__fail_error(out->node.scope, out->node.site, &error);
}

/* One column's values and validity, held by a leaf of the frame's scope. */
static bool hold(tsr_frame *out, const tsr_array *from, tsr_array **to)
{
  if (!from) return true;
  tsr__value_hold(from->value);
  *to = tsr__make_leaf(out->node.scope, (tsr_dtype)from->dtype, &from->value->shape,
                       &from->value->sharding, from->value, out->node.site);
  return !(*to)->inert;
}

/* What was made becomes the source of a frame in another scope. What a later terminal would add to
 * a chain, columns read or made since, is no part of it. */
static bool take_source(tsr_frame *out, const tsr_frame *made)
{
  const tsr__source *from = made->source;
  tsr__source *to = out->source = tsr__source_new(out->node.scope, out->schema.count);
  bool fine = to != NULL && hold(out, from->whole, &to->whole);
  for (int i = 0; fine && i < out->schema.count; i++) {
    const tsr__col *col = &from->col[i];
    to->col[i] = (tsr__col){ .type = col->type, .dict = col->dict };
    if (col->dict) to->dicts[to->dict_count++] = tsr__dict_hold(col->dict);
    fine = hold(out, col->values, &to->col[i].values) && hold(out, col->valid, &to->col[i].valid);
  }
  if (!fine) {
    tsr__fail(out->node.scope, out->node.site, TSR_ENOMEM, "%s: out of memory", out->what);
    return false;
  }
  to->rows = from->rows;
  to->sharding = from->sharding;
  to->version = out->version;
  tsr__source_use(out);
  return true;
}

/* What was made, whole: its schema and its rows. */
static bool take(tsr_frame *out, const tsr_frame *made)
{
  out->schema = made->schema;
  out->one_row = made->parent->one_row;
  return own_schema(out) && take_source(out, made);
}

/* Says in the scope of the result what went wrong in the chain's. The result stays, inert: it has a
 * scope, where its message stands. */
static tsr_frame *fail_as(tsr_frame *out, const tsr_frame *df)
{
  tsr_scope *from = df ? df->node.scope : NULL;
  tsr_status why = df ? tsr_scope_status(from) : TSR_EARG;
  if (why && from != out->node.scope)
    tsr__fail(out->node.scope, out->node.site, why, "tsr_frame_keep: %s",
              df ? tsr_message(from) : "the frame is NULL");
  out->inert = true;
  out->schema = (tsr__schema){ 0 };
  return out;
}

/* Rows are handed from scope to scope as references to values, so what is made in `work`, which
 * closes here, stays: only nodes and names go with it. */
tsr_frame *tsr_frame_keep_at(tsr_scope *scope, tsr_frame *df, const char *site)
{
  tsr_frame *out = tsr__frame_make(scope, TSR__FRAME_ARRAYS, "tsr_frame_keep", site);
  if (out->inert) return out;
  if (df && df->node.scope) out->shared = df->shared;
  if (!tsr__frame_usable(df)) {
    out = fail_as(out, df);
    if (df) tsr__frame_refuse((tsr_frame *)df, out->what, site, tsr_scope_status(out->node.scope));
    return out;
  }
  if (df->node.scope->rt != scope->rt) {
    tsr__fail(scope, site, TSR_EARG,
              "tsr_frame_keep: the frame belongs to another runtime than the scope");
    return fail_as(out, out);
  }
  /* The work is done where the chain is seen, in a scope that ends with it. The chain may live in
   * an outer scope, or in one that the result outlives. */
  bool seen = tsr__scope_encloses(df->node.scope, scope);
  tsr_scope *work = tsr_scope_nest_at(seen ? scope : df->node.scope, site);
  if (work->inert) {
    tsr__fail(scope, site, TSR_ENOMEM, "%s: out of memory", out->what);
    return fail_as(out, out);
  }
  tsr_frame *made = tsr__frame_make(work, TSR__FRAME_KEEP, "tsr_frame_keep", site);
  if (!made->inert) {
    made->parent = df;
    made = tsr__frame_typed(made);
  }
  if (made->inert || make(made)) out = fail_as(out, made);
  else if (!take(out, made)) out = fail_as(out, out);
  tsr_scope_close(work);
  return out;
}
