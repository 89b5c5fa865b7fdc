/* Functions: making and calling them.
 *
 *   tsr_call(f, x, y)    leaves of the arguments --> signature --> its trace (trace.c), made once
 *                        CALL node on the leaves and on what the body captured
 *                        RESULT nodes --> the form that the body returned
 *
 * A call computes nothing: the node is planned and run with what uses it, and the plan is found by
 * the region's hash. */
#include "transform/transform.h"

/* ---- making ---------------------------------------------------------------------------------- */

static void release_function(tsr__node *node)
{
  tsr_function *f = (tsr_function *)node;
  tsr__heap *heap = &node->scope->rt->heap;
  for (tsr__traced *t = f->traced, *next; t; t = next) {
    next = t->next;
    tsr__traced_free(heap, t);
  }
  pthread_mutex_destroy(&f->lock);
}

tsr_function *tsr__function_new(tsr_scope *scope, tsr_body_fn *body, void *user, const char *name,
                                const char *site)
{
  if (!scope || scope->inert) return NULL;
  tsr_function *f = (tsr_function *)tsr__node_new(scope, sizeof *f, site, NULL);
  if (!f) return NULL;
  f->name = tsr__arena_text(&scope->arena, name, strlen(name));
  f->body = body;
  f->call = "tsr_call";
  f->user = user;
  if (!f->name || pthread_mutex_init(&f->lock, NULL)) {
    tsr__or_no_memory(scope, NULL, "tsr_function_make", site);
    return NULL;
  }
  f->node.release = release_function;
  return f;
}

/* What is wrong with a spec the call says that uses it. */
static tsr_sharding read_spec(const tsr_function *f, const tsr_mesh *mesh, const char *spec)
{
  if (!spec) return (tsr_sharding){ 0 };
  return mesh ? tsr_on(mesh, spec) : tsr_on(f->node.scope, spec);
}

tsr_function *tsr_function_make_at(tsr_scope *scope, const tsr_function_args *given,
                                   const char *site)
{
  tsr_function_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts("tsr_function_make", given, &args, sizeof args, &error);
  tsr_function *f =
      tsr__function_new(scope, args.body, args.user, args.name ? args.name : "function", site);
  if (!f) return NULL;
  f->asked = true;
  f->user_bytes = args.user_bytes;
  f->explicit_places = args.explicit_shardings;
  if (!error.status && !args.body)
    tsr__error_set(&error, TSR_EARG, "tsr_function_make: the body is NULL; give a callback");
  if (!error.status && args.user_bytes && !args.user)
    tsr__error_set(&error, TSR_EARG,
                   "tsr_function_make: %zu bytes at NULL are arguments; give .user",
                   args.user_bytes);
  for (int i = 0; i < TSR_MAX_ARGS; i++) {
    f->in[i] = read_spec(f, args.mesh, args.in_specs[i]);
    f->out[i] = read_spec(f, args.mesh, args.out_specs[i]);
  }
  f->inert = error.status != TSR_OK;
  if (f->inert) tsr__fail_error(scope, site, &error);
  return f;
}

int tsr_trace_count(const tsr_function *f)
{
  return f ? f->trace_count : 0;
}

/* ---- calling --------------------------------------------------------------------------------- */

bool tsr__take_leaves(tsr_scope *scope, tsr_function *f, tsr__arguments *a, const char *site)
{
  tsr__leaves *out = &a->leaves;
  for (int i = 0; i < a->in.count; i++) {
    int first = out->count;
    if (!tsr__leaves_of(&scope->arena, a->in.at[i], out)) return false;
    if (i >= TSR_MAX_ARGS || !f->in[i].mesh) continue;
    for (int k = first; k < out->count; k++)
      out->at[k] = tsr_reshard_at(out->at[k], f->in[i], site);
  }
  return true;
}

/* What the body captured, as operands behind the leaves. */
static bool add_captured(tsr_scope *scope, const tsr__traced *t, tsr__leaves *out, const char *site)
{
  size_t room = (size_t)(out->count + t->captured_count + 1);
  tsr_array **all = tsr__arena_new(&scope->arena, room * sizeof *all);
  if (!all) return false;
  if (out->count) memcpy(all, out->at, (size_t)out->count * sizeof *all);
  for (int i = 0; i < t->captured_count; i++) all[out->count++] = tsr__captured(scope, t, i, site);
  out->at = all;
  return true;
}

/* The call's results as the body returned them. */
tsr_array *tsr__call_trace(tsr_scope *scope, const tsr__traced *t, tsr__leaves *in,
                           const char *site)
{
  tsr__region *region = t->region;
  if (t->captured_count && !add_captured(scope, t, in, site)) return tsr__make_inert(scope, site);
  tsr__ask ask = { .regions = &region,
                   .region_count = 1,
                   .numbers = region->program.params,
                   .number_count = region->program.param_count };
  tsr_array *call =
      tsr__make(scope, TSR__OP_CALL, (tsr__operands){ in->at, in->count }, &ask, site);
  tsr_array *few[4], **results = few;
  if (region->result_count > 4)
    results = tsr__arena_new(&scope->arena, (size_t)region->result_count * sizeof *results);
  for (int i = 0; results && i < region->result_count; i++)
    results[i] = tsr__make(scope, TSR__OP_RESULT, TSR__IN(call),
                           &(tsr__ask){ TSR__ATTR(tsr__index_attr, .index = i) }, site);
  return results ? tsr__form_fill(scope, t->form, results, site) : tsr__make_inert(scope, site);
}

tsr_array *tsr__refuse_arguments(const tsr_function *f, const tsr__operands *in, const char *call,
                                 const char *site)
{
  tsr_scope *scope = tsr__scope_here(f->node.scope);
  tsr_array *const *arguments = in->at;
  int count = in->count;
  for (int i = 0; i < count; i++) {
    if (arguments[i] && arguments[i]->inert) return arguments[i];
    if (arguments[i] && arguments[i]->node.scope->rt == scope->rt) continue;
    tsr__fail(scope, site, TSR_EARG, "%s: argument %d of %s %s", call, i, f->name,
              arguments[i] ? "belongs to another runtime; read it there and put it here"
                           : "is NULL; give an array");
    return tsr__make_inert(scope, site);
  }
  if (count <= TSR_MAX_ARGS) return NULL;
  tsr__fail(scope, site, TSR_EARG,
            "%s: %d arguments for %s, expected %d at most; put some together with tsr_tree", call,
            count, f->name, TSR_MAX_ARGS);
  return tsr__make_inert(scope, site);
}

tsr_array *tsr_call_at(tsr_function *f, tsr_array *const *arguments, int count, const char *site)
{
  if (!f || f->inert || count < 0 || (count && !arguments))
    return tsr__make_inert(f ? tsr__scope_here(f->node.scope)
                             : tsr__home_of((tsr__operands){ arguments, arguments ? count : 0 }),
                           site);
  tsr__arguments a = { .in = { arguments, count } };
  tsr_array *refused = tsr__refuse_arguments(f, &a.in, "tsr_call", site);
  if (refused) return refused;
  tsr_scope *scope = tsr__scope_here(tsr__scope_inner(f->node.scope, tsr__home_of(a.in)));
  bool taken = tsr__take_leaves(scope, f, &a, site);
  const tsr__traced *t = taken ? tsr__trace(scope, f, &a, site) : NULL;
  tsr_array *made = t ? tsr__call_trace(scope, t, &a.leaves, site) : NULL;
  return tsr__or_no_memory(scope, made, "tsr_call", site);
}
