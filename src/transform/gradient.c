/* Gradients as functions of functions: bodies that trace the function that they are made of,
 * replay what it computes and go back (backward.c).
 *
 *   grad      result 0 gets a 1; what comes to the arguments is the result
 *   vjp       results get the last argument
 *   jvp       vjp is linear in its last argument: what it gives is gone through backwards by that
 *   hvp       jvp of grad
 *
 * A jvp by two vjps (J. Townsend, 2017): a vjp is linear in what it carries, zeros here, so going
 * back through it by that turns the map round once more: into the derivative along a direction. So
 * one table of rules, for going back, serves both ways. */
#include "tessera/gradient.h"

#include "transform/backward.h"

typedef struct differentiated differentiated;

/* What a function that is made of another holds. In the arena of the scope of `of`, as the function
 * made of it is. */
struct differentiated {
  tsr_function *of;
  tsr_function *vjp; /* jvp: that of the same function */
  tsr_dims wrt;
  const char *call; /* "tsr_grad" */
  bool with_value;
  bool at_zeros;   /* it is the vjp of a jvp */
  bool all_floats; /* by all floats of the arguments that are named: the other arrays have zeros */
};

/* A call of it: the arguments, their arrays, and by which of them.
 *
 *   in      | the function's arguments | what is carried |      first   0 2 3      x a tree of two,
 *             x            y           behind of them                             y an array
 */
typedef struct calling {
  const differentiated *d;
  tsr_scope *scope;
  tsr_array *const *in;
  int count; /* of the function's arguments */
  uint32_t wrt;
  int first[TSR_MAX_ARGS +
            1]; /* by argument: its first array; behind the last how many there are */
  tsr__arguments given;
  const char *site;
} calling;

static tsr_array *fail(const calling *c, tsr_status status, const char *text)
{
  tsr__fail(c->scope, c->site, status, "%s: %s", c->d->call, text);
  return tsr__make_inert(c->scope, c->site);
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* A gradient is asked of floats alone. */
static bool check_floats(const calling *c, int argument)
{
  if (c->d->all_floats) return true;
  for (int k = c->first[argument]; k < c->first[argument + 1]; k++) {
    tsr_array *leaf = c->given.leaves.at[k];
    if (tsr__has_gradient(leaf)) continue;
    tsr__fail(c->scope, c->site, TSR_EDTYPE,
              "%s: array %s of argument %d of %s is %s, which has no gradient, expected floats; "
              "name other arguments with .wrt, or convert the array with tsr_cast first",
              c->d->call, tsr__leaf_path(c->scope, c->in[argument], k - c->first[argument]),
              argument, c->d->of->name, tsr_type_of(leaf));
    return false;
  }
  return true;
}

/* Takes a body's arguments, of which `behind` are not the function's. False: the error is
 * recorded. By the first argument where .wrt names none. `site` is where the function was made: the
 * body has no line of its own. */
static bool open_call(calling *c, tsr_scope *scope, const differentiated *d, tsr_array *const *in,
                      int behind)
{
  *c = (calling){ .d = d, .scope = scope, .in = in, .site = d->of->node.site };
  c->count = tsr__count_arguments(in) - behind;
  c->wrt = tsr__dims_bits(d->wrt, c->count > 0 ? c->count : 0);
  if (!c->wrt) c->wrt = 1;
  if (c->count > 0 && tsr__dims_twice(d->wrt, c->count)) {
    fail(c, TSR_EARG, ".wrt names an argument twice; name each once");
    return false;
  }
  if (c->count < 1 || c->wrt >> c->count) {
    fail(c, TSR_EARG,
         "the call has fewer arguments than .wrt names; give all arguments of the function, then "
         "the cotangents or tangents");
    return false;
  }
  for (int i = 0; i < c->count; i++) c->first[i + 1] = c->first[i] + tsr_leaf_count(in[i]);
  c->given.in = (tsr__operands){ in, c->count };
  if (!tsr__take_leaves(scope, d->of, &c->given, c->site)) return false;
  for (int i = 0; i < c->count; i++)
    if (c->wrt >> i & 1 && !check_floats(c, i)) return false;
  return true;
}

/* Opens the way back through the function, up to its results. What is wanted must be known before
 * the forward nodes are made: a scan that is gone back through is made otherwise
 * (tsr__scan_keeping). */
static bool go_forward(const calling *c, tsr__backward *back)
{
  const tsr__traced *traced = tsr__trace(c->scope, c->d->of, &c->given, c->site);
  if (!traced || !tsr__backward_open(back, c->scope, traced, c->given.leaves.at, c->site))
    return false;
  back->at_zeros = c->d->at_zeros;
  back->call = c->d->call;
  for (int i = 0; i < c->count; i++)
    for (int k = c->first[i]; c->wrt >> i & 1 && k < c->first[i + 1]; k++)
      if (tsr__has_gradient(c->given.leaves.at[k])) tsr__backward_want(back, k);
  tsr__backward_forward(back);
  return true;
}

/* ---- results --------------------------------------------------------------------------------- */

/* The function's own result. */
static tsr_array *value_of(const calling *c, const tsr__backward *back)
{
  int count = back->traced->region->result_count;
  tsr_array **all = tsr__arena_new(&c->scope->arena, ((size_t)count + 1) * sizeof *all);
  for (int i = 0; all && i < count; i++) all[i] = tsr__backward_result(back, i);
  return all ? tsr__form_fill(c->scope, back->traced->form, all, c->site)
             : tsr__make_inert(c->scope, c->site);
}

/* What came to one argument, in its form. An empty tree has an empty gradient, itself. */
static tsr_array *gradient_of(const calling *c, tsr__backward *back, int argument)
{
  int first = c->first[argument], count = c->first[argument + 1] - first;
  tsr_array **all = tsr__arena_new(&c->scope->arena, ((size_t)count + 1) * sizeof *all);
  for (int k = 0; all && k < count; k++)
    all[k] = tsr__backward_take(back, first + k, c->given.leaves.at[first + k]);
  if (!all) return tsr__make_inert(c->scope, c->site);
  return count ? tsr__like(c->in[argument], all, count, c->site) : c->in[argument];
}

/* One argument gives its gradient, several a tuple of them in order. */
static tsr_array *gradients(const calling *c, tsr__backward *back)
{
  tsr_array *each[TSR_MAX_ARGS];
  int count = 0;
  if (!tsr__backward_run(back)) return tsr__make_inert(c->scope, c->site);
  for (int i = 0; i < c->count; i++)
    if (c->wrt >> i & 1) each[count++] = gradient_of(c, back, i);
  return count == 1 ? each[0] : tsr_tuple_at(c->scope, each, count, c->site);
}

static tsr_array *with_value(const calling *c, const tsr__backward *back, tsr_array *other)
{
  tsr_array *both[2] = { value_of(c, back), other };
  return tsr_tuple_at(c->scope, both, 2, c->site);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* The seed is a node with a number, cast to the result's dtype: in f16 a gradient runs in f16. */
static tsr_array *grad_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  const differentiated *d = user;
  calling c;
  tsr__backward back;
  if (!open_call(&c, scope, d, in, 0) || !go_forward(&c, &back))
    return tsr__make_inert(scope, c.site);
  tsr_array *value = back.traced->region->result_count ? tsr__backward_result(&back, 0) : NULL;
  if (value && value->inert) return value;
  if (!value || value->shape.rank || !tsr__has_gradient(value)) {
    tsr__fail(scope, c.site, value && !value->shape.rank ? TSR_EDTYPE : TSR_ESHAPE,
              "%s: the result of %s is %s, expected one float of rank 0; sum it, or use tsr_vjp",
              d->call, d->of->name, value ? tsr_type_of(value) : "an empty tree");
    return tsr__make_inert(scope, c.site);
  }
  tsr_array *one = tsr__strong_number(scope, tsr_scalar_float(1), c.site);
  tsr__backward_seed(&back, 0, tsr_cast_at(one, (tsr_dtype)value->dtype, c.site));
  tsr_array *gradient = gradients(&c, &back);
  return d->with_value ? with_value(&c, &back, gradient) : gradient;
}

/* Seeds results `first` and up with the arrays of trees; false: they are others. Forms are not
 * compared, only the arrays in order: what is carried may be a tuple where the function gives a
 * named tree. */
static bool seed(const calling *c, tsr__backward *back, int first, tsr_array *const *trees,
                 int count)
{
  tsr__leaves seeds = { 0 };
  for (int i = 0; i < count; i++)
    if (!tsr__leaves_of(&c->scope->arena, trees[i], &seeds)) return false;
  int results = back->traced->region->result_count - first;
  bool ahead = c->d->vjp; /* a jvp: its seeds are tangents of arguments */
  const char *seeded = ahead ? "tangent" : "cotangent";
  if (seeds.count != results) {
    tsr__fail(c->scope, c->site, TSR_ESHAPE,
              "%s: the %s has %d arrays, expected %d: one per %s of the function", c->d->call,
              seeded, seeds.count, results, ahead ? "argument" : "result");
    return false;
  }
  for (int i = 0; i < seeds.count; i++) {
    tsr_array *to = tsr__backward_result(back, first + i), *from = seeds.at[i];
    if (to->dtype == from->dtype && tsr__shape_same(&to->shape, &from->shape)) continue;
    tsr__fail(c->scope, c->site, to->dtype == from->dtype ? TSR_ESHAPE : TSR_EDTYPE,
              "%s: array %s of the %s is %s, expected %s like the %s of the function", c->d->call,
              tsr__argument_path(c->scope, (tsr__operands){ trees, count }, 0, i), seeded,
              tsr_type_of(from), tsr_type_of(to), ahead ? "argument" : "result");
    return false;
  }
  for (int i = 0; i < seeds.count; i++) tsr__backward_seed(back, first + i, seeds.at[i]);
  return true;
}

static tsr_array *vjp_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  const differentiated *d = user;
  calling c;
  tsr__backward back;
  if (!open_call(&c, scope, d, in, 1) || !go_forward(&c, &back) ||
      !seed(&c, &back, 0, in + c.count, 1))
    return tsr__make_inert(scope, c.site);
  return with_value(&c, &back, gradients(&c, &back));
}

/* Zeros like what a function gives: of what differs along a mesh's axis they do as well, or how
 * results depend on them would be summed over its places. */
static tsr_array *zeros_like(const calling *c, tsr_array *const *leaves, int count,
                             const char *form)
{
  tsr_array **all = tsr__arena_new(&c->scope->arena, ((size_t)count + 1) * sizeof *all);
  for (int i = 0; all && i < count; i++)
    all[i] = tsr__zeros_as(c->scope, leaves[i], (tsr_sharding){ 0 }, c->site);
  return all ? tsr__form_fill(c->scope, form, all, c->site) : tsr__make_inert(c->scope, c->site);
}

/* The function's results, to know what they are like. Nodes that nobody reads: only their types are
 * looked at. */
static tsr_array *like_results(const calling *c)
{
  tsr__backward back;
  if (!go_forward(c, &back)) return NULL;
  int count = back.traced->region->result_count;
  tsr_array **all = tsr__arena_new(&c->scope->arena, ((size_t)count + 1) * sizeof *all);
  for (int i = 0; all && i < count; i++) all[i] = tsr__backward_result(&back, i);
  return all ? zeros_like(c, all, count, back.traced->form) : NULL;
}

/* Gives the vjp zeros to carry back, and asks how what comes of it depends on them: the directions
 * are what is due to its results behind the function's own.
 *
 *   in      x, y, dx                                     c: x, y        directions: 1
 *   given   x, y, zeros like f(x, y)                     v: the vjp, differentiated by the zeros
 *   back    results of the vjp: f(x, y), d/dx            `own` of them are f's, the seeds go behind
 *
 * The value comes of the same trace, as result 0 of the vjp. A result that is no float does not
 * change: what is carried back of it is looked at by nobody, and in a direction it has zeros. */
static tsr_array *jvp_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  const differentiated *d = user;
  calling c, v;
  tsr__backward back;
  differentiated outer = { .of = d->vjp, .call = d->call, .all_floats = true };
  int directions = __builtin_popcount(d->wrt.bits) + __builtin_popcount(d->wrt.negative);
  if (!directions) directions = 1;
  if (!open_call(&c, scope, d, in, directions)) return tsr__make_inert(scope, c.site);
  tsr_array *none = c.count < TSR_MAX_ARGS ? like_results(&c) : NULL;
  if (!none) return tsr__make_inert(scope, c.site);
  tsr_array *given[TSR_MAX_ARGS + 1] = { NULL };
  memcpy(given, in, (size_t)c.count * sizeof *given);
  given[c.count] = none;
  outer.wrt.bits = 1u << c.count;
  if (!open_call(&v, scope, &outer, given, 0) || !go_forward(&v, &back))
    return tsr__make_inert(scope, c.site);
  int own = tsr_leaf_count(none);
  if (!seed(&c, &back, own, in + c.count, directions)) return tsr__make_inert(scope, c.site);
  tsr_array *both[2] = { tsr_item_at(value_of(&v, &back), 0, c.site), gradients(&v, &back) };
  return tsr_tuple_at(scope, both, 2, c.site);
}

/* ---- making ---------------------------------------------------------------------------------- */

typedef struct kind {
  const char *call, *name;
  tsr_body_fn *body;
  bool with_value;
} kind;

/* A function whose options are wrong is made and inert. Its name is what errors of its body say:
 * "the gradient of loss". */
static tsr_function *make(const kind *k, const tsr_gradient_args *given, const char *site)
{
  tsr_gradient_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts(k->call, given, &args, sizeof args, &error);
  tsr_function *of = given ? given->function : NULL;
  if (!of) return tsr__no_function(k->call, site);
  tsr_scope *scope = of->node.scope;
  tsr__text name;
  tsr__text_init(&name, &scope->rt->heap);
  tsr__text_add(&name, "%s of %s", k->name, of->name);
  differentiated *d = tsr__arena_new(&scope->arena, sizeof *d);
  tsr_function *f = d ? tsr__function_new(scope, k->body, d, tsr__text_get(&name), site) : NULL;
  tsr__text_free(&name);
  if (!f) {
    tsr__or_no_memory(scope, NULL, k->call, site);
    return NULL;
  }
  *d = (differentiated){ .of = of, .wrt = args.wrt, .call = k->call, .with_value = k->with_value };
  f->of = of;
  if (!status && args.wrt.invalid)
    tsr__error_set(
        &error, TSR_EARG,
        "%s: .wrt names an argument beyond %d, the last a function can have; name others", k->call,
        TSR_MAX_ARGS - 1);
  else if (!status && (args.wrt.twice || args.wrt.none))
    tsr__error_set(&error, TSR_EARG, "%s: .wrt names %s; name at least one argument, and each once",
                   k->call, args.wrt.none ? "no argument" : "an argument twice");
  f->inert = of->inert || error.status;
  if (error.status) tsr__fail_error(scope, site, &error);
  return f;
}

tsr_function *tsr_grad_at(const tsr_gradient_args *args, const char *site)
{
  return make(&(kind){ "tsr_grad", "the gradient", grad_body, false }, args, site);
}

tsr_function *tsr_value_and_grad_at(const tsr_gradient_args *args, const char *site)
{
  return make(&(kind){ "tsr_value_and_grad", "value and gradient", grad_body, true }, args, site);
}

tsr_function *tsr_vjp_at(const tsr_gradient_args *args, const char *site)
{
  return make(&(kind){ "tsr_vjp", "the vjp", vjp_body, true }, args, site);
}

tsr_function *tsr_jvp_at(const tsr_gradient_args *args, const char *site)
{
  tsr_function *f = make(&(kind){ "tsr_jvp", "the jvp", jvp_body, true }, args, site);
  if (!f || f->inert) return f;
  /* A function of its own, so its traces are kept over calls of the jvp. */
  tsr_function *vjp = tsr__gradient_called(tsr_vjp_at(args, site), "tsr_jvp");
  ((differentiated *)f->user)->vjp = vjp;
  if (vjp) ((differentiated *)vjp->user)->at_zeros = true;
  f->inert = !vjp;
  return f;
}

tsr_function *tsr__gradient_called(tsr_function *f, const char *call)
{
  differentiated *d = f ? f->user : NULL;
  if (d) d->call = call;
  if (d && d->vjp) tsr__gradient_called(d->vjp, call);
  return f;
}

/* Of (gradient, its derivative along the direction) the second. */
static tsr_array *second(tsr_scope *scope, tsr_array *const *in, void *user)
{
  const char *site = scope->site;
  return tsr_item_at(tsr_call_at(user, in, tsr__count_arguments(in), site), 1, site);
}

tsr_function *tsr_hvp_at(const tsr_gradient_args *args, const char *site)
{
  TSR__CALL(args && args->function ? args->function->node.scope : NULL, "hvp");
  tsr_function *slope = tsr__gradient_called(tsr_grad_at(args, site), "tsr_hvp");
  if (!slope) return NULL;
  tsr_gradient_args of_slope = *args;
  of_slope.function = slope;
  tsr_function *jvp = tsr__gradient_called(tsr_jvp_at(&of_slope, site), "tsr_hvp");
  tsr_function *f = jvp ? tsr__function_new(slope->node.scope, second, jvp, "the hvp", site) : NULL;
  if (!f) {
    tsr__or_no_memory(slope->node.scope, NULL, "tsr_hvp", site);
    return NULL;
  }
  f->of = jvp;
  f->inert = jvp->inert;
  return f;
}
