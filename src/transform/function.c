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

/* A function is a node of a scope, so it goes with that; its traces are held by it alone, and
 * regions by whoever calls them. */
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

/* Called when a body returns: functions that were made in it may hold its locals in `user`, so
 * calls of them are refused by name from then on. */
void tsr__functions_end(tsr_scope *scope, const char *body)
{
  for (tsr__node *node = scope->nodes; node; node = node->next)
    if (node->release == release_function) ((tsr_function *)node)->ended = body;
}

bool tsr__function_ended(tsr_scope *scope, const tsr_function *f, const char *call,
                         const char *site)
{
  if (!f->ended) return false;
  tsr__fail(scope, site, TSR_ESTATE,
            "%s: the function %s, made at %s, was made in %s, which has returned; make the "
            "function outside of that body, or where it is called",
            call, f->name, f->node.site ? f->node.site : "an unknown line", f->ended);
  return true;
}

/* NULL where memory is short, which is recorded. `user` is borrowed, and is there as long as the
 * body may be traced. */
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
  /* Last, as the hook destroys the lock: a function that has none is not to be released by it. */
  f->node.release = release_function;
  return f;
}

void *tsr__no_function(const char *call, const char *site)
{
  tsr__fail_null(call, "function", site);
  return NULL;
}

/* What is wrong with a spec the call says that uses it. */
static tsr_sharding read_spec(const tsr_function *f, const tsr_mesh *mesh, const char *spec)
{
  if (!spec) return (tsr_sharding){ 0 };
  return mesh ? tsr_on(mesh, spec) : tsr_on(f->node.scope, spec);
}

/* A wrong call gives a function all the same, an inert one: what it is called on becomes inert, and
 * the error stands where it was made. */
tsr_function *tsr_function_make_at(tsr_scope *scope, const tsr_function_args *given,
                                   const char *site)
{
  tsr_function_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts("tsr_function_make", given, &args, sizeof args, &error);
  if (tsr__scope_usable(scope, "tsr_function_make", site) && !scope) return NULL;
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
                   "tsr_function_make: .user_bytes is %zu, but .user is NULL; give .user",
                   args.user_bytes);
  for (int i = 0; i < TSR_MAX_ARGS; i++) {
    f->in[i] = read_spec(f, args.mesh, args.in_specs[i]);
    f->out[i] = read_spec(f, args.mesh, args.out_specs[i]);
  }
  /* Specs are read even then, as they are fields of any function; those of a bad mesh tell at the
   * call. */
  f->inert = error.status != TSR_OK;
  if (f->inert) tsr__fail_error(scope, site, &error);
  return f;
}

/* Of traces that came to something; for tests and for who wonders why a step is slow. */
int tsr_trace_count(const tsr_function *f)
{
  if (!f) return 0;
  pthread_mutex_lock((pthread_mutex_t *)&f->lock);
  int count = f->trace_count;
  pthread_mutex_unlock((pthread_mutex_t *)&f->lock);
  return count;
}

/* ---- calling --------------------------------------------------------------------------------- */

/* Before the signature is written: where a leaf lies is part of it, so arguments that are put to
 * one place share one trace. */
bool tsr__take_leaves(tsr_scope *scope, tsr_function *f, tsr__arguments *a, const char *site)
{
  tsr__leaves *out = &a->leaves;
  for (int i = 0; i < a->in.count; i++) {
    int first = out->count;
    if (!tsr__leaves_of(&scope->arena, a->in.at[i], out)) return false;
    if (i >= TSR_MAX_ARGS || !f->in[i].mesh) continue;
    /* A tree has one spec for all its leaves: specs are given by argument. */
    for (int k = first; k < out->count; k++)
      out->at[k] = tsr__reshard_for(out->at[k], f->in[i], TSR__WHY_IN_SPECS, site);
  }
  return true;
}

/* The numbers of all regions, one after the other, and the node's own into `ask`. False: out of
 * memory. */
/* Numbers in formulas are no part of a region's bytes, or a rate that changes would be another
 * program; they are the node's.
 *
 *   regions of a node   cond: "x < 10"        body: "x * 0.5 + 3"        number of steps
 *   its numbers         | 10                | 0.5  3                   | 100
 *
 * Which of them a region's are follows from how many those before it have (tsr__region_numbers). */
static bool add_numbers(const tsr__calling *c, tsr__ask *ask)
{
  const tsr__program *first = &c->traced[0]->region->program;
  ask->numbers = first->params;
  ask->number_count = first->param_count;
  /* The usual call has one region, whose numbers serve as they lie. */
  if (c->count == 1 && !c->counted) return true;
  for (int r = 1; r < c->count; r++) ask->number_count += c->traced[r]->region->program.param_count;
  size_t room = (size_t)ask->number_count + 2;
  tsr__num *all = tsr__arena_new(&c->scope->arena, room * sizeof *all), *at = all;
  for (int r = 0; all && r < c->count; r++) {
    const tsr__program *program = &c->traced[r]->region->program;
    if (program->param_count)
      memcpy(at, program->params, (size_t)program->param_count * sizeof *at);
    at += program->param_count;
  }
  if (all && c->counted) *at = (tsr__num){ .i = c->steps };
  ask->number_count += c->counted;
  ask->numbers = all;
  return all;
}

tsr_array *tsr__call_node(const tsr__calling *c, tsr__operands in)
{
  tsr__region *regions[TSR__MAX_REGIONS];
  tsr__ask ask = {
    .attr = c->attr, .attr_bytes = c->attr_bytes, .regions = regions, .region_count = c->count
  };
  for (int r = 0; r < c->count; r++) regions[r] = c->traced[r]->region;
  if (!add_numbers(c, &ask)) return tsr__make_inert(c->scope, c->site);
  return c->fits ? tsr__make_call(c->scope, c->op, in, &ask, c->site)
                 : tsr__make(c->scope, c->op, in, &ask, c->site);
}

/* A node of several results is no array: each is taken out by a node of its own, which costs
 * nothing in a plan. */
tsr_array *tsr__result_of(tsr_scope *scope, tsr_array *node, int i, const char *site)
{
  return tsr__make_result(scope, node, i, site);
}

/* Leaves, and behind them what the bodies captured. False: out of memory. */
static bool add_captured(const tsr__calling *c, tsr__leaves *in)
{
  /*   in    | leaves of the arguments | captured by region 0 | captured by region 1 |
   *
   * A region numbers its arguments likewise, its own captures behind the leaves; where others'
   * stand between, the attribute of the node says which are whose. */
  int own = in->count, count = own;
  for (int r = 0; r < c->count; r++) count += c->traced[r]->captured_count;
  if (count == own) return true;
  tsr_array **all = tsr__arena_new(&c->scope->arena, (size_t)count * sizeof *all);
  if (!all) return false;
  if (own) memcpy(all, in->at, (size_t)own * sizeof *all);
  *in = (tsr__leaves){ .at = all, .count = own };
  for (int r = 0; r < c->count; r++)
    for (int i = 0; i < c->traced[r]->captured_count; i++)
      all[in->count++] = tsr__captured(c->scope, c->traced[r], i, c->site);
  return true;
}

tsr_array *tsr__call_traces(const tsr__calling *c, int gives, const tsr__leaves *in)
{
  /* The body whose results are the node's: of a while not the first, which only asks. */
  const tsr__traced *given = c->traced[gives];
  int count = given->region->result_count;
  tsr__leaves operands = *in;
  /* Most functions return one array or two. */
  tsr_array *few[4], **results = few;
  if (count > 4) results = tsr__arena_new(&c->scope->arena, (size_t)count * sizeof *results);
  if (!results || !add_captured(c, &operands)) return tsr__make_inert(c->scope, c->site);
  tsr_array *node = tsr__call_node(c, (tsr__operands){ operands.at, operands.count });
  for (int i = 0; i < count; i++) results[i] = tsr__result_of(c->scope, node, i, c->site);
  return tsr__form_fill(c->scope, given->form, results, c->site);
}

tsr_array *tsr__call_trace(tsr_scope *scope, const tsr__traced *t, const tsr__leaves *in,
                           const char *site)
{
  tsr__calling c = {
    .scope = scope, .site = site, .op = TSR__OP_CALL, .fits = true, .traced = { t }, .count = 1
  };
  return tsr__call_traces(&c, 0, in);
}

/* An inert one is returned as it is, without a word: who made it has told why. The first that is
 * wrong is the one that is named. */
tsr_array *tsr__refuse_arguments(const tsr_function *f, const tsr__operands *in, const char *call,
                                 const char *site)
{
  tsr_array *const *arguments = in->at;
  int count = in->count;
  for (int i = 0; i < count; i++) {
    if (arguments[i] && arguments[i]->inert) return arguments[i];
    if (arguments[i] && arguments[i]->node.scope->rt == f->node.scope->rt) continue;
    tsr_scope *scope = tsr__scope_here(f->node.scope);
    tsr__fail(
        scope, site, TSR_EARG, "%s: argument %d of %s %s", call, i, f->name,
        arguments[i]
            ? "belongs to another runtime; read the array there and place it here with tsr_put"
            : "is NULL; give an array");
    return tsr__make_inert(scope, site);
  }
  if (count <= TSR_MAX_ARGS) return NULL;
  tsr_scope *scope = tsr__scope_here(f->node.scope);
  tsr__fail(scope, site, TSR_EARG,
            "%s: %d arguments for %s, expected %d at most; join some in a tree with tsr_tree", call,
            count, f->name, TSR_MAX_ARGS);
  return tsr__make_inert(scope, site);
}

/* A call of NULL, which is told where the arguments live. */
static tsr_array *no_function(tsr__operands in, const char *site)
{
  tsr_scope *scope = tsr__home_of(in);
  for (int i = 0; i < in.count; i++)
    if (in.at[i] && in.at[i]->inert) return in.at[i];
  tsr__fail(scope, site, TSR_EARG,
            "tsr_call: the function is NULL; give a function of tsr_function_make");
  return tsr__make_inert(scope, site);
}

/* Nothing here runs but the body, and that at the first call of a signature alone: after it a call
 * is a hash of the types, a look into a list, and as many nodes as there are results and one. */
tsr_array *tsr_call_at(tsr_function *f, tsr_array *const *arguments, int count, const char *site)
{
  if (!f) return no_function((tsr__operands){ arguments, arguments ? count : 0 }, site);
  if (count < 0 || (count && !arguments))
    tsr__fail(tsr__scope_here(f->node.scope), site, TSR_EARG,
              "tsr_call: the count of arguments is %d%s; give the arguments and their number",
              count, arguments ? "" : ", but the list is NULL");
  if (f->inert || count < 0 || (count && !arguments))
    return tsr__make_inert(tsr__scope_here(f->node.scope), site);
  tsr_array *few[8];
  tsr__arguments a = { .in = { arguments, count }, .leaves = { few, 0, 8 } };
  tsr_array *refused = tsr__refuse_arguments(f, &a.in, "tsr_call", site);
  if (refused) return refused;
  /* What a call makes belongs to the innermost scope of all that it is made of, so that none of
   * it goes before its result does; in a body, to the scope of the body. */
  tsr_scope *scope = tsr__scope_here(tsr__scope_inner(f->node.scope, tsr__home_of(a.in)));
  bool taken = tsr__take_leaves(scope, f, &a, site);
  const tsr__traced *t = taken ? tsr__trace(scope, f, &a, site) : NULL;
  tsr_array *made = t ? tsr__call_trace(scope, t, &a.leaves, site) : NULL;
  return tsr__or_no_memory(scope, made, "tsr_call", site);
}
