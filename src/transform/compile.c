/* Compiling ahead of time: a function traced and planned for types.
 *
 *   types --> leaves without values --> tsr_call --> its plan --> figures, explanation
 *
 * The plan lies in the cache of plans, where the first call finds it: a leaf's value is no part of
 * a plan. What is kept here is the trace, so that calls compare types and look nothing up.
 *
 * Invariant: where `traced` is set the function was traced and planned for these types, and figures
 * and text are of that plan. */
#include "tessera/compile.h"

#include "transform/transform.h"

struct tsr_compiled {
  tsr__node node;
  tsr_function *function;
  const tsr__traced *traced; /* NULL: it could not be compiled, and `text` says why */
  const char *text;
  tsr__costs costs;
};

/* A leaf without a value: it can be traced, planned and asked for its type, and not run. On an
 * abstract mesh only the form of its place can be checked. */
tsr_array *tsr_abstract_at(tsr_scope *scope, tsr_dtype dtype, tsr_shape shape,
                           tsr_sharding sharding, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  if (tsr__scope_usable(scope, "tsr_abstract", site)) return tsr__make_inert(scope, site);
  if (!tsr__dtype_check(dtype, &error) && !tsr__shape_check(&shape, &error)) {
    if (!tsr_mesh_is_abstract(sharding.mesh))
      tsr__check_place(scope, &sharding, dtype, &shape, &error);
    else if (sharding.mesh->rt != scope->rt)
      tsr__error_set(&error, TSR_EAXIS,
                     "the mesh %s belongs to another runtime; make it with the scope's",
                     tsr_mesh_text(sharding.mesh));
    else tsr__sharding_check_form(&sharding, &shape, &error);
  }
  if (!error.status) return tsr__make_leaf(scope, dtype, &shape, &sharding, NULL, site);
  tsr__fail(scope, site, error.status, "tsr_abstract: %s", error.text);
  return tsr__make_inert(scope, site);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Adds the largest arrays at the peak, and how many more there are. */
static void add_peak(const tsr__costs *costs, tsr__text *out)
{
  enum { LISTED = 8 };
  int64_t rest = 0;
  for (int i = 0; i < costs->count; i++) {
    const tsr_peak_array *a = &costs->peak[i];
    if (i >= LISTED) rest += a->bytes;
    if (i >= LISTED) continue;
    tsr__text_add(out, "  %lld bytes: %s %s of %s", (long long)a->bytes, a->role, a->type,
                  a->operation);
    if (a->site) tsr__text_add(out, " at %s", tsr__site_file(a->site));
    tsr__text_add(out, "\n");
  }
  if (costs->count > LISTED)
    tsr__text_add(out, "  %lld bytes: %d smaller arrays\n", (long long)rest, costs->count - LISTED);
}

static void add_figures(const tsr_compiled *c, tsr__text *out)
{
  const tsr_figures *f = &c->costs.figures;
  tsr__text_add(out, "%s: %lld flops, %lld per device; %d kernel%s, ", c->function->name,
                (long long)f->flops, (long long)f->device_flops, f->kernels,
                f->kernels == 1 ? "" : "s");
  tsr__text_add(out, "%lld bytes read and written per device\n", (long long)f->device_bytes);
  tsr__text_add(out,
                "memory per device: %lld bytes of arguments, %lld of results, %lld at the peak\n",
                (long long)f->argument_bytes, (long long)f->result_bytes, (long long)f->peak_bytes);
  add_peak(&c->costs, out);
  for (int k = 0; k < f->kind_count; k++)
    tsr__text_add(out, "%d %s: %lld bytes\n", f->kinds[k].count, f->kinds[k].kind,
                  (long long)f->kinds[k].bytes);
}

/* The figures and what tsr_explain says, as one text of the scope; NULL out of memory. Folded to 80
 * columns, as the text is for people to read. */
static const char *write_text(const tsr_compiled *c, tsr_array *const *roots, int count,
                              tsr__error *error)
{
  tsr_scope *scope = c->node.scope;
  tsr__text lines, folded;
  tsr__text_init(&lines, &scope->rt->heap);
  tsr__text_init(&folded, &scope->rt->heap);
  add_figures(c, &lines);
  tsr__explain(scope, roots, count, &lines, error);
  tsr__explain_fold(&folded, &lines);
  const char *out = NULL;
  if (!folded.failed) out = tsr__arena_text(&scope->arena, tsr__text_get(&folded), folded.length);
  if (!out && !error->status) tsr__error_set(error, TSR_ENOMEM, "no memory for the text");
  tsr__text_free(&lines);
  tsr__text_free(&folded);
  return out;
}

/* An argument as types alone, so that nothing of what computes it is planned along. NULL out of
 * memory. */
static tsr_array *type_of(tsr_scope *scope, tsr_array *argument, const char *site)
{
  tsr__leaves leaves = { 0 };
  if (!tsr__leaves_of(&scope->arena, argument, &leaves)) return NULL;
  for (int i = 0; i < leaves.count; i++) {
    const tsr_array *leaf = leaves.at[i];
    leaves.at[i] =
        tsr__make_leaf(scope, (tsr_dtype)leaf->dtype, &leaf->shape, &leaf->sharding, NULL, site);
  }
  return tsr__like(argument, leaves.at, leaves.count, site);
}

/* Whatever fails leaves `traced` at NULL, and the scope says why. The call that is planned here is
 * thrown away: what stays is its plan in the cache and the trace. */
static void compile(tsr_compiled *c, const tsr__operands *in, const char *site)
{
  tsr_scope *scope = c->node.scope;
  tsr_array *types[TSR_MAX_ARGS];
  tsr__arguments a = { .in = { types, in->count } };
  tsr__error error = { .status = TSR_OK };
  tsr__leaves roots = { 0 };
  TSR__CALL(scope, "compile");
  for (int i = 0; i < in->count; i++) {
    types[i] = type_of(scope, in->at[i], site);
    if (!types[i]) types[i] = tsr__make_inert(scope, site);
  }
  bool taken = tsr__take_leaves(scope, c->function, &a, site);
  const tsr__traced *t = taken ? tsr__trace(scope, c->function, &a, site) : NULL;
  tsr_array *made = t ? tsr__call_trace(scope, t, &a.leaves, site) : NULL;
  made = tsr__or_no_memory(scope, made, "tsr_compile", site);
  if (!t || made->inert || !tsr__leaves_of(&scope->arena, made, &roots)) return;
  tsr_status status = tsr__figures(scope, roots.at, roots.count, &c->costs, &error);
  const char *text = status ? NULL : write_text(c, roots.at, roots.count, &error);
  if (error.status) tsr__fail(scope, site, error.status, "tsr_compile: %s", error.text);
  if (error.status) return;
  c->text = text;
  c->traced = t;
}

/* Not NULL but for a function that is none, or without memory. */
tsr_compiled *tsr_compile_at(tsr_function *f, tsr_array *const *arguments, int count,
                             const char *site)
{
  if (!f) return tsr__no_function("tsr_compile", site);
  tsr__arguments a = { .in = { arguments, arguments ? count : 0 } };
  tsr_scope *scope = tsr__scope_here(tsr__scope_inner(f->node.scope, tsr__home_of(a.in)));
  tsr_compiled *c = tsr__node_new(scope, sizeof *c, site, NULL);
  if (!c) return NULL;
  c->function = f;
  if (f->inert || tsr__refuse_arguments(f, &a.in, "tsr_compile", site)) return c;
  compile(c, &a.in, site);
  return c;
}

/* ---- using ----------------------------------------------------------------------------------- */

tsr_figures tsr_compiled_figures(const tsr_compiled *c)
{
  return c && c->traced ? c->costs.figures : (tsr_figures){ 0 };
}

const tsr_peak_array *tsr_compiled_peak(const tsr_compiled *c, int *count)
{
  bool made = c && c->traced;
  if (count) *count = made ? c->costs.count : 0;
  return made ? c->costs.peak : NULL;
}

/* Of what could not be compiled the message of its scope, so that printing the text tells why. */
const char *tsr_compiled_text(const tsr_compiled *c)
{
  return !c ? "(NULL)" : c->traced ? c->text : tsr_message(c->node.scope);
}

/* Whether arguments are of the types that were compiled for; the error is told. */
static bool fits(tsr_scope *scope, const tsr_compiled *c, const tsr__arguments *a, const char *site)
{
  int unlike = tsr__first_unlike(c->traced, a);
  if (unlike < 0 && tsr__same_forms(c->traced, &a->in)) return true;
  tsr__text type;
  tsr__text_init(&type, &scope->rt->heap);
  if (unlike < 0 || unlike >= a->leaves.count || unlike >= c->traced->argument_count)
    tsr__fail(
        scope, site, TSR_EARG,
        "tsr_compiled_call: %s was compiled for %d arrays in arguments of the forms %.*s, but is "
        "called with %d arrays in arguments of other forms; give those forms, or use tsr_call",
        c->function->name, c->traced->argument_count, (int)c->traced->first_leaf, c->traced->key,
        a->leaves.count);
  else {
    tsr__traced_type(c->traced, unlike, &type);
    tsr__fail(scope, site, TSR_EARG,
              "tsr_compiled_call: array %s of the arguments of %s is %s, but the function was "
              "compiled for %s; give an array of that type, or use tsr_call",
              tsr__argument_path(scope, a->in, 0, unlike), c->function->name,
              tsr_type_of(a->leaves.at[unlike]), tsr__text_get(&type));
  }
  tsr__text_free(&type);
  return false;
}

/* Where a body is mapped over named axes it is another trace. Scopes around count, as axes that are
 * bound there are seen from here. */
static bool inside_axes(const tsr_scope *scope)
{
  while (scope && !scope->axes) scope = scope->outer;
  return scope;
}

tsr_array *tsr_compiled_call_at(tsr_compiled *c, tsr_array *const *arguments, int count,
                                const char *site)
{
  tsr__arguments a = { .in = { arguments, arguments ? count : 0 } };
  if (!c) {
    tsr__fail(tsr__home_of(a.in), site, TSR_EARG,
              "tsr_compiled_call: the compiled function is NULL; give a result of tsr_compile");
    return tsr__make_inert(tsr__home_of(a.in), site);
  }
  if (!c->traced) return tsr__make_inert(tsr__scope_here(c->node.scope), site);
  tsr_array *refused = tsr__refuse_arguments(c->function, &a.in, "tsr_compiled_call", site);
  if (refused) return refused;
  tsr_scope *scope = tsr__scope_here(tsr__scope_inner(c->node.scope, tsr__home_of(a.in)));
  if (tsr__function_ended(scope, c->function, "tsr_compiled_call", site))
    return tsr__make_inert(scope, site);
  bool taken = tsr__take_leaves(scope, c->function, &a, site);
  if (taken && !fits(scope, c, &a, site)) return tsr__make_inert(scope, site);
  const tsr__traced *t = c->traced;
  if (taken && inside_axes(scope)) t = tsr__trace(scope, c->function, &a, site);
  tsr_array *made = taken && t ? tsr__call_trace(scope, t, &a.leaves, site) : NULL;
  return tsr__or_no_memory(scope, made, "tsr_compiled_call", site);
}
