/* Derivatives as functions of directions, and as arrays.
 *
 *   linearize   the jvp's program on arguments that lie there: what does not depend on directions
 *               is evaluated once, and each call makes only what does
 *   jacobian    vjp, or jvp where the argument is smaller than the result, over unit vectors
 *
 * Both are bodies made of vjp and jvp alone, so whatever has a gradient has these; no row of the
 * table of operations says anything for them. */
#include "tessera/gradient.h"
#include "tessera/mapping.h"
#include "tessera/shape.h"
#include "transform/backward.h"

typedef tsr_array array;

/* ---- jacobians ------------------------------------------------------------------------------- */

typedef struct jacobian {
  tsr_function *of, *back, *forward; /* mapped over their first argument, a unit vector */
  tsr_dims wrt;
} jacobian;

/* vjp and jvp with what is carried in front, so that it can be mapped over.
 *
 *   in     unit, x, y           turned   x, y, unit           of (value, gradients) the second
 *
 * A vmap maps a dim of each argument; in front its place does not depend on how many there are. */
static array *carried_first(tsr_scope *scope, array *const *in, void *user)
{
  array *turned[TSR_MAX_ARGS + 1];
  int count = tsr__count_arguments(in) - 1;
  (void)scope;
  memcpy(turned, in + 1, (size_t)count * sizeof *turned);
  turned[count] = in[0];
  return tsr_item_at(tsr_call_at(user, turned, count + 1, in[0]->node.site), 1, in[0]->node.site);
}

/* All vectors like `like` that have one 1.
 *
 *   like [2,2]   [4, 2,2]:  1 0   0 1   0 0   0 0
 *                           0 0   0 0   1 0   0 1
 *
 * A comparison of two iotas, so that no matrix comes from the host. */
static array *unit_vectors(tsr_scope *scope, const array *like, const char *site)
{
  int64_t count = tsr__shape_count(&like->shape);
  tsr_shape shape = { .rank = like->shape.rank + 1, .dims = { count } };
  for (int d = 1; d < shape.rank; d++) shape.dims[d] = like->shape.dims[d - 1];
  tsr_shape both = { .rank = 2, .dims = { count, count } };
  array *row = tsr_iota_at(scope, TSR_I64, both, 0, (tsr_sharding){ 0 }, site);
  array *column = tsr_iota_at(scope, TSR_I64, both, 1, (tsr_sharding){ 0 }, site);
  array *eye =
      tsr_cast_at(tsr_eq_at(row, tsr_operand_array(column), site), (tsr_dtype)like->dtype, site);
  return tsr_reshape_at(eye, shape, site);
}

/* [vectors, a ..] as [result .., a ..]; with `last` [result .., argument ..] of [argument,
 * result]. The front numbers the vectors in C order of their shape, so a reshape gives it its dims
 * back. */
static array *unfolded(array *a, const tsr_shape *vectors, bool last, const char *site)
{
  if (a->inert) return a;
  tsr_shape shape = { .rank = vectors->rank + a->shape.rank - 1 };
  if (shape.rank > TSR_MAX_RANK) {
    tsr__error error = { .status = TSR_OK };
    tsr__error_set(&error, TSR_ESHAPE,
                   "tsr_jacobian: the result would have %d dims, the most is %d; reshape the "
                   "arguments or the result of the function",
                   shape.rank, TSR_MAX_RANK);
    return tsr__refused(a, &error, site);
  }
  int own = a->shape.rank - 1;
  if (last) a = tsr_moveaxis_at(a, 0, -1, site);
  for (int d = 0; d < vectors->rank; d++) shape.dims[d + (last ? own : 0)] = vectors->dims[d];
  for (int d = 0; d < own; d++)
    shape.dims[d + (last ? 0 : vectors->rank)] = a->shape.dims[last ? d : d + 1];
  return tsr_reshape_at(a, shape, site);
}

/* Each array of a tree. */
static array *unfold_all(tsr_scope *scope, array *tree, const tsr_shape *vectors, const char *site)
{
  tsr__leaves all = { 0 };
  if (tree->inert || !tsr__leaves_of(&scope->arena, tree, &all)) return tree;
  for (int i = 0; i < all.count; i++) all.at[i] = unfolded(all.at[i], vectors, false, site);
  return tsr__like(tree, all.at, all.count, site);
}

/* Of one array that the function gives. One way goes as often as that has elements, the other as
 * often as the argument has: the smaller one is taken. Forwards only by one array, as directions of
 * several would each need a turn. */
static array *jacobian_of(tsr_scope *scope, const jacobian *j, array *out, tsr__operands in)
{
  const char *site = j->of->node.site;
  array *turned[TSR_MAX_ARGS + 1];
  uint32_t wrt = tsr__dims_bits(j->wrt, in.count);
  int first = wrt ? __builtin_ctz(wrt) : 0;
  memcpy(turned + 1, in.at, (size_t)in.count * sizeof *turned);
  /* At most one bit of wrt. */
  bool small = !(wrt & (wrt - 1)) && first < in.count && !tsr_is_tree(in.at[first]) &&
               tsr__has_gradient(in.at[first]) &&
               tsr__shape_count(&in.at[first]->shape) < tsr__shape_count(&out->shape);
  turned[0] = unit_vectors(scope, small ? in.at[first] : out, site);
  if (turned[0]->inert) return turned[0];
  array *made = tsr_call_at(small ? j->forward : j->back, turned, in.count + 1, site);
  if (small) return unfolded(made, &in.at[first]->shape, true, site);
  return unfold_all(scope, made, &out->shape, site);
}

/* A vjp or a jvp mapped over what it carries. Everything but the vector is the same for all
 * elements. */
static tsr_function *mapped(tsr_function *f, const char *site)
{
  if (!tsr__gradient_called(f, "tsr_jacobian")) return NULL;
  tsr_function *turned =
      tsr__function_new(f->node.scope, carried_first, f, f->of ? f->of->name : f->name, site);
  if (!turned) return NULL;
  turned->of = f;
  turned->inert = f->inert;
  tsr_vmap_args args = { .size = sizeof args, .function = turned };
  for (int i = 1; i < TSR_MAX_ARGS; i++) args.in_dims[i] = TSR_UNMAPPED;
  return tsr_vmap_at(&args, site);
}

/* Both ways of a function, as which of them is called depends on the types of a call. False: out of
 * memory. */
static bool both_ways(jacobian *j, tsr_function *of, tsr_dims wrt, const char *site)
{
  tsr_gradient_args args = { .size = sizeof args, .function = of, .wrt = wrt };
  *j = (jacobian){ .of = of, .wrt = wrt };
  j->back = mapped(tsr_vjp_at(&args, site), site);
  j->forward = j->back ? mapped(tsr_jvp_at(&args, site), site) : NULL;
  return j->forward != NULL;
}

/* One array of the tree that a function gives. */
typedef struct one_leaf {
  tsr_function *of;
  int leaf;
} one_leaf;

static array *leaf_body(tsr_scope *scope, array *const *in, void *user)
{
  const one_leaf *one = user;
  tsr__leaves all = { 0 };
  array *out = tsr_call_at(one->of, in, tsr__count_arguments(in), scope->site);
  if (out->inert || !tsr__leaves_of(&scope->arena, out, &all)) return out;
  return all.at[one->leaf];
}

/* The functions of single arrays end with this body, in which they are called. */
static array *jacobian_of_tree(tsr_scope *scope, const jacobian *j, array *out, tsr__operands in)
{
  const char *site = j->of->node.site;
  tsr__leaves all = { 0 };
  if (!tsr__leaves_of(&scope->arena, out, &all)) return NULL;
  for (int i = 0; i < all.count; i++) {
    one_leaf one = { j->of, i };
    jacobian each;
    tsr_function *f = tsr__function_new(scope, leaf_body, &one, j->of->name, site);
    if (!f || !both_ways(&each, f, j->wrt, site)) return NULL;
    all.at[i] = jacobian_of(scope, &each, all.at[i], in);
    if (all.at[i]->inert) return all.at[i];
  }
  return tsr__form_fill(scope, tsr_tree_text(out), all.at, site);
}

/* What is not of floats in what a function gives, NULL: nothing is. */
static array *no_float(tsr_scope *scope, array *out)
{
  tsr__leaves all = { 0 };
  if (!tsr__leaves_of(&scope->arena, out, &all)) return NULL;
  for (int i = 0; i < all.count; i++)
    if (!tsr__has_gradient(all.at[i])) return all.at[i];
  return NULL;
}

static array *jacobian_body(tsr_scope *scope, array *const *in, void *user)
{
  const jacobian *j = user;
  const char *site = j->of->node.site;
  tsr__operands given = { in, tsr__count_arguments(in) };
  /* Called for its type; nobody reads it, so it is not computed. */
  array *out = tsr_call_at(j->of, in, given.count, site);
  if (!out || out->inert || !given.count) return out;
  array *wrong = no_float(scope, out);
  if (wrong || given.count >= TSR_MAX_ARGS) {
    tsr__fail(scope, site, wrong ? TSR_EDTYPE : TSR_EARG,
              "tsr_jacobian: %s with %d arguments returns %s, expected floats and at most %d "
              "arguments; leave out constant arguments, or use tsr_vjp",
              j->of->name, given.count, tsr_type_of(wrong ? wrong : out), TSR_MAX_ARGS - 1);
    return tsr__make_inert(scope, site);
  }
  return tsr_is_tree(out) ? jacobian_of_tree(scope, j, out, given)
                          : jacobian_of(scope, j, out, given);
}

tsr_function *tsr_jacobian_at(const tsr_gradient_args *given, const char *site)
{
  tsr_gradient_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_jacobian", given, &args, sizeof args, &error);
  tsr_function *of = given ? given->function : NULL;
  if (!of) return tsr__no_function("tsr_jacobian", site);
  tsr_scope *scope = of->node.scope;
  if (status) tsr__fail_error(scope, site, &error); /* before those that it is made of say it */
  jacobian *j = tsr__arena_new(&scope->arena, sizeof *j);
  tsr_function *f = j ? tsr__function_new(scope, jacobian_body, j, of->name, site) : NULL;
  TSR__CALL(scope, "jacobian");
  if (!f || !both_ways(j, of, args.wrt, site)) {
    tsr__or_no_memory(scope, NULL, "tsr_jacobian", site);
    return NULL;
  }
  f->of = of;
  f->inert = of->inert || status || j->back->inert || j->forward->inert;
  return f;
}

/* ---- linearizing ----------------------------------------------------------------------------- */

/* The jvp at a point. */
typedef struct linear {
  tsr__replay replay; /* of the jvp: `at` has what does not depend on directions */
  const tsr__traced *traced;
  int first;    /* the first array of the directions, among the arguments */
  bool *varies; /* by node: it depends on a direction */
} linear;

/* Whether a node is an array of a direction. */
static bool is_direction(const linear *l, const tsr__gnode *node)
{
  if (node->op != TSR__OP_ARG) return false;
  int i = tsr__index_of(l->replay.program, node);
  return i >= l->first && i < l->traced->argument_count;
}

/* `at` is apart from the replay's own: what varies is made anew for each call, in its scope. */
static array *make_node(const tsr__replay *replay, int n, array **at)
{
  const tsr__gnode *node = &replay->program->nodes[n];
  array **in = tsr__arena_new(&replay->scope->arena, ((size_t)node->in_count + 1) * sizeof *in);
  for (int i = 0; in && i < node->in_count; i++) {
    int o = tsr__in(replay->program, node, i);
    in[i] = o < 0 ? NULL : at[o];
  }
  return in ? tsr__replay_make(replay, n, (tsr__operands){ in, node->in_count })
            : tsr__make_inert(replay->scope, replay->site);
}

/* Makes what does not depend on directions, and evaluates what the rest reads of it.
 *
 *   program of the jvp      x -- sin --> a      dx -- mul(dx, b) --> dy       varies: dx, dy
 *                             \- cos --> b                                   asked: b
 *
 * One evaluation for all of it. What nothing that varies reads is not asked for and never
 * computed. */
static bool evaluate_known(linear *l)
{
  const tsr__program *program = l->replay.program;
  int count = 0;
  size_t room = (size_t)program->node_count + (size_t)program->operand_count + 1;
  array **asked = tsr__arena_new(&l->replay.scope->arena, room * sizeof *asked);
  if (!asked) return false;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *node = &program->nodes[n];
    l->varies[n] = is_direction(l, node);
    TSR_FOR_OPERANDS (program, node, i, o) l->varies[n] |= l->varies[o];
    if (!l->varies[n] && !l->replay.at[n]) l->replay.at[n] = make_node(&l->replay, n, l->replay.at);
    TSR_FOR_OPERANDS (program, node, i, o)
      if (l->varies[n] && !l->varies[o] && program->nodes[o].op != TSR__OP_CONST)
        asked[count++] = l->replay.at[o];
  }
  return !count || !tsr_eval_at(asked, count, l->replay.site);
}

/* The values are captured by the trace of this body, as any array from outside is. Constants are
 * made anew, as a region's numbers are its own. Only the derivative is given, not the value beside
 * it. */
static array *linear_body(tsr_scope *scope, array *const *in, void *user)
{
  const linear *l = user;
  const tsr__program *program = l->replay.program;
  const char *site = l->replay.site;
  tsr__replay replay = l->replay;
  tsr__leaves given = { 0 };
  replay.scope = scope;
  int count = l->traced->region->result_count;
  array **at = tsr__arena_new(&scope->arena, ((size_t)program->node_count + 1) * sizeof *at);
  array **all = tsr__arena_new(&scope->arena, ((size_t)count + 1) * sizeof *all);
  for (int i = 0; at && in[i]; i++)
    if (!tsr__leaves_of(&scope->arena, in[i], &given)) return NULL;
  if (!at || !all) return NULL;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *node = &program->nodes[n];
    at[n] = l->replay.at[n];
    if (node->op == TSR__OP_CONST || (l->varies[n] && !is_direction(l, node)))
      at[n] = make_node(&replay, n, at);
    if (!is_direction(l, node)) continue;
    int i = tsr__index_of(program, node) - l->first;
    array *a = i < given.count ? given.at[i] : NULL;
    tsr_shape want = tsr__gnode_shape(node);
    if (a && a->dtype == node->dtype && tsr__shape_same(&a->shape, &want)) {
      at[n] = a;
      continue;
    }
    tsr__fail(scope, site, TSR_ESHAPE,
              "tsr_linearize: tangent %d is %s, expected an array like its primal", i,
              a ? tsr_type_of(a) : "missing");
    return tsr__make_inert(scope, site);
  }
  for (int i = 0; i < count; i++) all[i] = at[l->replay.results[i]];
  return tsr_item_at(tsr__form_fill(scope, l->traced->form, all, site), 1, site);
}

/* Traces the jvp at the arguments, which stand for the directions too: these have their types.
 * `first` counts the leaves in front of the directions. Those have no arrays after the replay is
 * opened: whoever reads one before it is given finds NULL. */
static bool trace_jvp(linear *l, tsr_function *jvp, const tsr_linearize_args *args,
                      const char *site)
{
  tsr_scope *scope = jvp->node.scope;
  int count = tsr__count_arguments(args->at), all = count;
  array **in = tsr__arena_new(&scope->arena, (2 * TSR_MAX_ARGS + 1) * sizeof *in);
  uint32_t wrt = tsr__dims_bits(args->wrt, count);
  if (!in) return false;
  memcpy(in, args->at, (size_t)count * sizeof *in);
  for (int i = 0; i < count; i++) l->first += tsr_leaf_count(args->at[i]);
  for (int i = 0; i < count; i++)
    if ((wrt ? wrt : 1) >> i & 1) in[all++] = args->at[i];
  tsr__arguments given = { .in = { in, all } };
  if (!tsr__take_leaves(scope, jvp, &given, site)) return false;
  l->traced = tsr__trace(scope, jvp, &given, site);
  if (!l->traced || !tsr__replay_open(&l->replay, scope, l->traced, given.leaves.at, site))
    return false;
  for (int n = 0; n < l->replay.program->node_count; n++)
    if (is_direction(l, &l->replay.program->nodes[n])) l->replay.at[n] = NULL;
  l->varies = tsr__arena_new(&scope->arena, (size_t)l->replay.program->node_count + 1);
  return l->varies && evaluate_known(l);
}

/* What is wrong with it is said in the name of this call. */
static tsr_function *make_jvp(tsr_function *of, tsr_dims wrt, const char *site)
{
  TSR__CALL(of->node.scope, "linearize");
  tsr_gradient_args args = { .size = sizeof args, .function = of, .wrt = wrt };
  return tsr__gradient_called(tsr_jvp_at(&args, site), "tsr_linearize");
}

tsr_function *tsr_linearize_at(const tsr_linearize_args *given, const char *site)
{
  tsr_linearize_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_linearize", given, &args, sizeof args, &error);
  tsr_function *of = given ? given->function : NULL;
  if (!of) return tsr__no_function("tsr_linearize", site);
  tsr_scope *scope = of->node.scope;
  tsr_function *jvp = make_jvp(of, args.wrt, site);
  linear *l = tsr__arena_new(&scope->arena, sizeof *l);
  tsr_function *f = l && jvp ? tsr__function_new(scope, linear_body, l, of->name, site) : NULL;
  if (!f) {
    tsr__or_no_memory(scope, NULL, "tsr_linearize", site);
    return NULL;
  }
  f->inert = jvp->inert || status;
  for (int i = 0; i < TSR_MAX_ARGS && args.at[i]; i++) f->inert |= args.at[i]->inert;
  if (status) tsr__fail_error(scope, site, &error);
  if (!f->inert && !trace_jvp(l, jvp, &args, site)) {
    f->inert = true;
    if (!tsr_scope_status(scope)) tsr__or_no_memory(scope, NULL, "tsr_linearize", site);
  }
  return f;
}
