/* Steps of optimisers, as maps over the arrays of trees of one form.
 *
 *   model    gradient    state            one place of all trees at a time
 *     p   ←     g     ←    v              v' = what is kept of v and g; p' = p less what v' says
 *
 * A step counts in f32 at least: what is kept of bf16 and f16 is f32, and p' is cast back.
 *
 * All numbers of a step are nodes: a step that was traced once runs with any rate and any state.
 * The state is a tree (step, v, ...) whose trees have the model's form; f32 or f64, zeros at
 * first.
 *
 *   state   sgd  (step, velocity: like the model)        adam  (step, mean: .., square: ..)
 *
 * Invariant: a step gives (model, state) of the forms and dtypes that it took, so it can be the
 * body of a loop or be called again with what it gave. */
#include "train/train_room.h"

typedef tsr_array array;

/* The dtype in which arrays of a dtype are counted. */
static tsr_dtype counted(const array *a)
{
  return a->dtype == TSR_F64 ? TSR_F64 : TSR_F32;
}

/* ---- trees ----------------------------------------------------------------------------------- */

/* The arrays of a tree; NULL, recorded: out of memory. */
static array **leaves_of(array *tree, int *count, const char *site)
{
  tsr__leaves all = { .count = 0 };
  tsr_scope *scope = tsr__home(tree);
  if (!tsr__leaves_of(&scope->arena, tree, &all)) {
    tsr__or_no_memory(scope, NULL, "tsr_tree_leaves", site);
    return NULL;
  }
  *count = all.count;
  return all.at;
}

/* All of them floats; NULL with the error. */
array **tsr__floats_of(array *tree, const char *call, int *count, const char *site)
{
  array **all = leaves_of(tree, count, site);
  for (int i = 0; all && i < *count; i++) {
    if (tsr__of_floats(all[i])) continue;
    tsr__fail(tsr__home(tree), site, TSR_EDTYPE,
              "%s: array %s of the tree is %s, expected floats; keep other arrays outside the "
              "tree, or convert them with tsr_cast",
              call, tsr__leaf_path(tsr__home(tree), tree, i), tsr_type_of(all[i]));
    return NULL;
  }
  return all;
}

static bool of_floats(array *tree, const char *site)
{
  int count = 0;
  return tsr__floats_of(tree, "tsr_tree", &count, site);
}

/* Whether a tree can stand beside the model; else the error is recorded. By the text of its form,
 * and the shape of each array. */
static bool stands_beside(array *model, array *tree, const char *what, const char *site)
{
  int count = 0, others = 0;
  array **own = leaves_of(model, &count, site), **all = leaves_of(tree, &others, site);
  const char *form = tsr_tree_text(model), *found = tsr_tree_text(tree);
  if (!own || !all) return false;
  if (!form || !found) {
    tsr__or_no_memory(tsr__home(tree), NULL, "tsr_tree", site);
    return false;
  }
  if (strcmp(form, found) != 0) {
    tsr__fail(tsr__home(tree), site, TSR_EARG,
              "tsr_tree: the %s is %s, expected the form of the model, %s; give the tree that "
              "belongs to this model",
              what, found, form);
    return false;
  }
  for (int i = 0; i < count; i++) {
    if (tsr__shape_same(&own[i]->shape, &all[i]->shape)) continue;
    tsr__fail(tsr__home(tree), site, TSR_ESHAPE,
              "tsr_tree: array %s of the %s is %s, expected the shape in the model, %s; give the "
              "tree that belongs to this model",
              tsr__leaf_path(tsr__home(tree), tree, i), what, tsr_type_of(all[i]),
              tsr_type_of(own[i]));
    return false;
  }
  return of_floats(tree, site);
}

/* ---- states ---------------------------------------------------------------------------------- */

/* Where the model's array lies, so that steps move nothing. `site` is the address of the text: a
 * callback's `user` is no const pointer. */
static array *zeros_like(tsr_scope *s, array *const *leaf, void *site)
{
  return tsr_full_at(s, tsr_operand_int(0), counted(leaf[0]), leaf[0]->shape,
                     tsr__place_like(leaf[0]), *(const char **)site);
}

/* (step, names[0], ...): a tree of zeros of the model's form by name. names[1] is NULL for one tree
 * only; then its field is not counted. */
static array *new_state(array *model, const char *const names[2], const char *site)
{
  /* NULL and inert models make inert states. */
  if (!tsr__usable(model)) return model ? model : tsr__make_of_null("tsr_tree", "model", site);
  tsr_scope *scope = tsr__home(model);
  if (!of_floats(model, site)) return tsr__make_inert(scope, site);
  array *step = tsr_cast_at(tsr_num_at(scope, tsr_scalar_int(0), site), TSR_I64, site);
  array *zeros[2] = { NULL, NULL };
  for (int i = 0; i < 2 && names[i]; i++)
    zeros[i] = tsr_tree_map_at(zeros_like, &site, &model, 1, site);
  const tsr_field_args fields[] = { { "step", step },
                                    { names[0], zeros[0] },
                                    { names[1], zeros[1] } };
  return tsr_tree_at(scope, fields, names[1] ? 3 : 2, site);
}

array *tsr_sgd_state_at(array *model, const char *site)
{
  TSR__CALL(tsr__home(model), "sgd_state");
  return new_state(model, (const char *const[2]){ "velocity", NULL }, site);
}

array *tsr_adam_state_at(array *model, const char *site)
{
  TSR__CALL(tsr__home(model), "adam_state");
  return new_state(model, (const char *const[2]){ "mean", "square" }, site);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* A step: what it is given, by array, and its numbers. On the stack of a call: maps run their
 * callbacks before they return. */
typedef struct stepping {
  array *model, *gradient, *step; /* the step that is made, counted from 1, f64 */
  array *rate;                    /* scalars, f64 */
  array *power[2];                /* Adam: 1 - beta^step */
  double decay, momentum, beta[2], smooth;
  bool nesterov;
  const char *site;
} stepping;

/* In the dtype that a step counts in. */
static array *cast_to(const array *like, array *a, const char *site)
{
  return tsr_cast_at(a, counted(like), site);
}

/* a * x + b * y */
static array *mix(array *x, double a, array *y, double b, const char *site)
{
  return tsr_add_at(tsr__times_number(x, a, site), tsr_operand_array(tsr__times_number(y, b, site)),
                    site);
}

/* p less what goes off it, as p is and where it lies. Constrained to where it lay: else the planner
 * might leave it as the gradient lies, and the next step be another trace. */
static array *less(array *p, array *wide, array *off, const char *site)
{
  array *next =
      tsr_cast_at(tsr_sub_at(wide, tsr_operand_array(off), site), (tsr_dtype)p->dtype, site);
  return p->sharding.mesh && !next->inert
             ? tsr__constrain_for(next, p->sharding, TSR__WHY_STATE, site)
             : next;
}

/* Of trees that fit, the state's among them. False: the error is recorded. What a step needs of its
 * numbers is made here: the step in f64, so that it is exact for long. A rate may be a number or an
 * array of rank 0, such as tsr_schedule gives; an inert one is left for the arithmetic to carry
 * on. */
static bool open_step(stepping *s, array *state, tsr_operand rate, const char *const names[2])
{
  tsr_scope *scope = tsr__home(s->model);
  array *step = tsr_field_at(state, "step", s->site);
  if (step->inert || !of_floats(s->model, s->site) ||
      !stands_beside(s->model, s->gradient, "gradient", s->site))
    return false;
  for (int i = 0; i < 2 && names[i]; i++) {
    array *kept = tsr_field_at(state, names[i], s->site);
    if (kept->inert || !stands_beside(s->model, kept, names[i], s->site)) return false;
  }
  if (!tsr__is_given(rate) || (rate.array && !rate.array->inert && rate.array->shape.rank)) {
    tsr__fail(scope, s->site, TSR_EARG,
              "tsr_tree: the rate is %s, expected a number; give .rate = TSR_OPERAND(0.01), or a "
              "result of tsr_schedule",
              rate.array ? tsr_type_of(rate.array) : "missing");
    return false;
  }
  /* Only who keeps squares counts steps: what nobody uses would read the state all the same. */
  if (names[1])
    s->step = tsr_cast_at(tsr_add_at(step, tsr_operand_int(1), s->site), TSR_F64, s->site);
  s->rate = tsr_cast_at(rate.array ? rate.array : tsr_num_at(scope, rate.number, s->site), TSR_F64,
                        s->site);
  return true;
}

/* The state is given back counted one up, with what was kept. */
static array *close_step(array *next, array *state, array *first, array *second, const char *site)
{
  /* Not that of `next`, which has none where memory ended. */
  tsr_scope *scope = tsr__home(state);
  /* As an integer, in the dtype that the state has it in; open_step counts in f64 for itself. */
  array *step = tsr_add_at(tsr_item_at(state, 0, site), tsr_operand_int(1), site);
  const tsr_field_args fields[] = { { "step", step },
                                    { second ? "mean" : "velocity", first },
                                    { "square", second } };
  array *kept = tsr_tree_at(scope, fields, second ? 3 : 2, site);
  return tsr_tuple_at(scope, (array *[]){ next, kept }, 2, site);
}

/* Whether the trees are there, and numbers lie where they may. What is wrong is recorded. An inert
 * tree says nothing: its own call did. */
static bool check(array *const trees[3], bool good, const char *what, const char *site)
{
  tsr_scope *scope = NULL;
  for (int i = 0; i < 3; i++) {
    if (trees[i] && trees[i]->inert) return false;
    if (trees[i]) scope = tsr__scope_inner(scope, tsr__home(trees[i]));
  }
  for (int i = 0; i < 3; i++)
    if (!trees[i]) {
      static const char *const names[] = { "model", "gradient", "state" };
      tsr__fail(scope, site, TSR_EARG, "tsr_tree: the %s is NULL; give a tree", names[i]);
      return false;
    }
  if (!good) tsr__fail(scope, site, TSR_EARG, "tsr_tree: %s", what);
  return good;
}

/* Inert in the innermost place that is known of. */
static array *inert_beside(array *const trees[3], const char *site)
{
  for (int i = 0; i < 3; i++)
    if (trees[i]) return trees[i]->inert ? trees[i] : tsr__make_inert(tsr__home(trees[i]), site);
  return tsr__make_inert(NULL, site);
}

/* One function over two or three trees of one form. */
static array *map(tsr_tree_fn *fn, stepping *s, array *a, array *b, array *c)
{
  return tsr_tree_map_at(fn, s, (array *[]){ a, b, c }, c ? 3 : 2, s->site);
}

/* ---- SGD ------------------------------------------------------------------------------------- */

/* v' = momentum * v + g, where g has the decay of the weights in it; without momentum v' is g. */
static array *next_velocity(tsr_scope *scope, array *const *leaf, void *user)
{
  const stepping *s = user;
  array *v = leaf[0], *g = cast_to(leaf[1], leaf[1], s->site);
  (void)scope;
  g = tsr_cast_at(g, (tsr_dtype)v->dtype, s->site);
  if (s->decay > 0)
    g = mix(g, 1, tsr_cast_at(leaf[2], (tsr_dtype)v->dtype, s->site), s->decay, s->site);
  return s->momentum > 0 ? mix(v, s->momentum, g, 1, s->site) : g;
}

/* p' = p - rate * v', or, by Nesterov, p - rate * (g + momentum * v'). The decay is in v' already;
 * by Nesterov it belongs to the gradient that is added once more, too. */
static array *sgd_leaf(tsr_scope *scope, array *const *leaf, void *user)
{
  const stepping *s = user;
  array *p = leaf[0], *wide = cast_to(p, p, s->site), *way = leaf[1];
  (void)scope;
  if (s->nesterov) {
    array *g = cast_to(p, leaf[2], s->site);
    if (s->decay > 0) g = mix(g, 1, wide, s->decay, s->site);
    way = mix(way, s->momentum, g, 1, s->site);
  }
  array *rate = cast_to(p, s->rate, s->site);
  return less(p, wide, tsr_mul_at(way, tsr_operand_array(rate), s->site), s->site);
}

/* Without momentum the velocity is the gradient, and kept all the same: the state has one form
 * whatever the options are. */
array *tsr_sgd_at(const tsr_sgd_args *given, const char *site)
{
  tsr_sgd_args a = { .size = sizeof a };
  tsr__error error = { .status = TSR_OK };
  bool later = tsr__take_opts("tsr_sgd", given, &a, sizeof a, &error) != TSR_OK;
  /* Options that are too new leave the arguments unread but for the model, which says where to
   * record. */
  if (later) a = (tsr_sgd_args){ .model = given->model };
  array *const trees[3] = { a.model, a.gradient, a.state };
  TSR__CALL(tsr__home(a.model), "sgd");
  if (later) return tsr__refused(a.model, &error, site);
  bool good = a.momentum >= 0 && a.momentum < 1 && a.decay >= 0 && (!a.nesterov || a.momentum > 0);
  stepping s = { .model = a.model,
                 .gradient = a.gradient,
                 .decay = a.decay,
                 .momentum = a.momentum,
                 .nesterov = a.nesterov,
                 .site = site };
  if (!check(trees, good,
             ".momentum or .decay is out of range, expected 0 <= .momentum < 1, above 0 with "
             ".nesterov, and .decay >= 0",
             site) ||
      !open_step(&s, a.state, a.rate, (const char *const[2]){ "velocity", NULL }))
    return inert_beside(trees, site);
  array *velocity =
      map(next_velocity, &s, tsr_field_at(a.state, "velocity", site), a.gradient, a.model);
  array *next = map(sgd_leaf, &s, a.model, velocity, a.gradient);
  return close_step(next, a.state, velocity, NULL, site);
}

/* ---- Adam ------------------------------------------------------------------------------------ */

/* m' = beta1 * m + (1 - beta1) * g */
static array *next_mean(tsr_scope *scope, array *const *leaf, void *user)
{
  const stepping *s = user;
  (void)scope;
  array *g = tsr_cast_at(leaf[1], (tsr_dtype)leaf[0]->dtype, s->site);
  return mix(leaf[0], s->beta[0], g, 1 - s->beta[0], s->site);
}

/* s' = beta2 * s + (1 - beta2) * g * g */
static array *next_square(tsr_scope *scope, array *const *leaf, void *user)
{
  const stepping *s = user;
  (void)scope;
  array *g = tsr_cast_at(leaf[1], (tsr_dtype)leaf[0]->dtype, s->site);
  array *square = tsr_mul_at(g, tsr_operand_array(g), s->site);
  return mix(leaf[0], s->beta[1], square, 1 - s->beta[1], s->site);
}

/* p' = p - rate * (m / (1 - beta1^t)) / (sqrt(s / (1 - beta2^t)) + smooth), and of decay rate *
 * decay * p less, as AdamW has it (Loshchilov and Hutter): not through the moments. Kingma and Ba
 * (2015): `smooth` is added to the corrected root, as their algorithm has it, and not to the plain
 * one. */
static array *adam_leaf(tsr_scope *scope, array *const *leaf, void *user)
{
  const stepping *s = user;
  array *p = leaf[0], *wide = cast_to(p, p, s->site);
  (void)scope;
  /* Both corrections are scalars: they are taken out of the loop over elements. */
  array *length = tsr_div_at(s->rate, tsr_operand_array(s->power[0]), s->site);
  array *root = cast_to(p, tsr_sqrt_at(s->power[1], s->site), s->site);
  array *under = tsr_div_at(tsr_sqrt_at(leaf[2], s->site), tsr_operand_array(root), s->site);
  under = tsr_add_at(under, tsr_operand_float(s->smooth), s->site);
  array *off = tsr_div_at(leaf[1], tsr_operand_array(under), s->site);
  off = tsr_mul_at(off, tsr_operand_array(cast_to(p, length, s->site)), s->site);
  if (s->decay > 0) {
    array *lost = cast_to(p, tsr__times_number(s->rate, s->decay, s->site), s->site);
    lost = tsr_mul_at(wide, tsr_operand_array(lost), s->site);
    wide = tsr_sub_at(wide, tsr_operand_array(lost), s->site);
  }
  return less(p, wide, off, s->site);
}

/* 1 - beta^step in f64, where it does not vanish in rounding early. Of step 1 on, so never 0. */
static void find_powers(stepping *s)
{
  tsr_array *one = tsr_num_at(tsr__home(s->model), tsr_scalar_float(1), s->site);
  for (int i = 0; i < 2; i++) {
    array *beta = tsr_num_at(tsr__home(s->model), tsr_scalar_float(s->beta[i]), s->site);
    beta = tsr_pow_at(beta, tsr_operand_array(s->step), s->site);
    s->power[i] = tsr_sub_at(one, tsr_operand_array(beta), s->site);
  }
}

array *tsr_adam_at(const tsr_adam_args *given, const char *site)
{
  tsr_adam_args a = { .size = sizeof a };
  tsr__error error = { .status = TSR_OK };
  bool later = tsr__take_opts("tsr_adam", given, &a, sizeof a, &error) != TSR_OK;
  if (later) a = (tsr_adam_args){ .model = given->model };
  array *const trees[3] = { a.model, a.gradient, a.state };
  TSR__CALL(tsr__home(a.model), "adam");
  if (later) return tsr__refused(a.model, &error, site);
  bool good =
      a.beta1 >= 0 && a.beta1 < 1 && a.beta2 >= 0 && a.beta2 < 1 && a.smooth >= 0 && a.decay >= 0;
  stepping s = { .model = a.model,
                 .gradient = a.gradient,
                 .decay = a.decay,
                 /* 0 is a field that was left out. */
                 .beta = { a.beta1 > 0 ? a.beta1 : 0.9, a.beta2 > 0 ? a.beta2 : 0.999 },
                 .smooth = a.smooth > 0 ? a.smooth : 1e-8,
                 .site = site };
  if (!check(trees, good,
             "a number is out of range, expected .beta1 and .beta2 from 0 to below 1, .smooth and "
             ".decay not below 0",
             site) ||
      !open_step(&s, a.state, a.rate, (const char *const[2]){ "mean", "square" }))
    return inert_beside(trees, site);
  find_powers(&s);
  array *mean = map(next_mean, &s, tsr_field_at(a.state, "mean", site), a.gradient, NULL);
  array *square = map(next_square, &s, tsr_field_at(a.state, "square", site), a.gradient, NULL);
  array *next = map(adam_leaf, &s, a.model, mean, square);
  return close_step(next, a.state, mean, square, site);
}
