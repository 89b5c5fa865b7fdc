#include "support/wrapped.h"

enum { MOST = 4 };

const char *const wrapped_names[WRAPPED_KINDS] = {
  "nothing",         "call", "checkpoint", "custom_vjp", "custom_jvp", "scan",   "scan of slices",
  "scan of carries", "fori", "vmap",       "named vmap", "cond",       "switch", "while"
};

typedef tsr_array *const *given;

/* A body and what is still around it. */
typedef struct wrapped_body {
  tsr_body_fn *body;
  void *user;
  int kind, count; /* the kind right around it, of the one behind in the list; of arrays */
} wrapped_body;

static tsr_array *inside(tsr_scope *s, given in, void *user);

/* ---- what a body is given -------------------------------------------------------------------- */

static tsr_array *tuple_of(tsr_scope *s, given in, int count)
{
  (void)s;
  return tsr_tuple_at(s, in, count, TSR_HERE);
}

static tsr_array *on_items(tsr_scope *s, tsr_array *tuple, const wrapped_body *w)
{
  tsr_array *in[MOST + 1] = { NULL };
  for (int i = 0; i < w->count; i++) in[i] = tsr_item(tuple, i);
  return inside(s, in, (void *)(uintptr_t)w);
}

static tsr_array *zeros(tsr_scope *s, given in, void *user)
{
  (void)user;
  return tsr_full(s, 0, tsr_dtype_of(in[0]), tsr_shape_of(in[0]), (tsr_sharding){ 0 });
}

/* Zeros like what the body gives. */
static tsr_array *zeros_like(tsr_scope *s, given in, const wrapped_body *w)
{
  tsr_array *like = w->body(s, in, w->user);
  return tsr_tree_map(zeros, NULL, (tsr_array *[]){ like }, 1);
}

static tsr_dims floats_of(given in, int count)
{
  tsr_dims out = { 0 };
  for (int i = 0; i < count; i++)
    if (tsr_dtype_of(in[i]) == TSR_F64) out.bits |= 1u << i;
  return out;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static tsr_array *rule_back(tsr_scope *s, given in, void *user)
{
  const wrapped_body *w = user;
  tsr_array *args[MOST + 2] = { NULL }, *parts[MOST];
  tsr_dims wrt = floats_of(in, w->count);
  tsr_function *f = tsr_function_make(s, inside, .user = user);
  for (int i = 0; i < w->count; i++) args[i] = in[i];
  args[w->count] = in[w->count + 1];
  tsr_array *made = tsr_item(tsr_call_at(tsr_vjp(f, .wrt = wrt), args, w->count + 1, TSR_HERE), 1);
  for (int i = 0, k = 0; i < w->count; i++)
    parts[i] = !(wrt.bits >> i & 1) ? in[i] : tsr_is_tree(made) ? tsr_item(made, k++) : made;
  return tuple_of(s, parts, w->count);
}

static tsr_array *rule_forward(tsr_scope *s, given in, void *user)
{
  const wrapped_body *w = user;
  tsr_array *args[2 * MOST + 1] = { NULL };
  tsr_dims wrt = floats_of(in, w->count);
  tsr_function *f = tsr_function_make(s, inside, .user = user);
  int count = 0;
  for (int i = 0; i < w->count; i++) args[count++] = in[i];
  for (int i = 0; i < w->count; i++)
    if (wrt.bits >> i & 1) args[count++] = in[w->count + 1 + i];
  return tsr_item(tsr_call_at(tsr_jvp(f, .wrt = wrt), args, count, TSR_HERE), 1);
}

/* ---- loops ----------------------------------------------------------------------------------- */

static tsr_array *beside_step(tsr_scope *s, given in, void *user)
{
  return tsr_tuple(s, in[0], on_items(s, in[2], user));
}

static tsr_array *sliced_step(tsr_scope *s, given in, void *user)
{
  return tsr_tuple(s, in[0], on_items(s, in[1], user));
}

/* in: (what the body gives, what it is given). */
static tsr_array *carried_step(tsr_scope *s, given in, void *user)
{
  tsr_array *args = tsr_item(in[0], 1), *made = on_items(s, args, user);
  return tsr_tuple(s, tsr_tuple(s, made, args), tsr_sum(tsr_item(args, 0)));
}

static tsr_array *counted_step(tsr_scope *s, given in, void *user)
{
  return on_items(s, in[2], user);
}

static tsr_array *not_yet(tsr_scope *s, given in, void *user)
{
  (void)s, (void)user;
  return tsr_lt(tsr_item(in[0], 0), 1);
}

static tsr_array *asked_step(tsr_scope *s, given in, void *user)
{
  return tsr_tuple(s, tsr_add(tsr_item(in[0], 0), 1), on_items(s, in[1], user));
}

/* ---- choices --------------------------------------------------------------------------------- */

static tsr_array *three_times(tsr_scope *s, given in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(in[0], 3);
}

static tsr_array *not_taken(tsr_scope *s, given in, void *user)
{
  return tsr_tree_map(three_times, NULL, (tsr_array *[]){ inside(s, in, user) }, 1);
}

/* ---- all ------------------------------------------------------------------------------------- */

static tsr_array *first(tsr_scope *s, given in, void *user)
{
  (void)s, (void)user;
  return tsr_squeeze(in[0], TSR_DIMS(0));
}

static tsr_array *first_of(tsr_array *tree)
{
  return tsr_tree_map(first, NULL, (tsr_array *[]){ tree }, 1);
}

static tsr_array *in_loop(int kind, tsr_scope *s, given in, wrapped_body *w)
{
  tsr_array *rows[MOST], *all = tuple_of(s, in, w->count), *none = tsr_num(s, 0.0), *made;
  for (int i = 0; i < w->count; i++) rows[i] = tsr_expand_dims(in[i], TSR_DIMS(0));
  switch (kind) {
  case WRAPPED_SCAN:
    return first_of(tsr_item(tsr_scan(beside_step, w, none, .with = all, .length = 1), 1));
  case WRAPPED_SLICES:
    made = tsr_scan(sliced_step, w, none, .xs = tuple_of(s, rows, w->count));
    return first_of(tsr_item(made, 1));
  case WRAPPED_CARRY:
    made = tsr_scan(carried_step, w, tsr_tuple(s, zeros_like(s, in, w), all), .length = 1);
    return tsr_item(tsr_item(made, 0), 0);
  case WRAPPED_FORI: return tsr_fori(2, 3, counted_step, w, zeros_like(s, in, w), .with = all);
  default:
    made = tsr_tuple(s, tsr_num(s, 0), zeros_like(s, in, w));
    return tsr_item(tsr_while(not_yet, asked_step, w, made, .with = all), 1);
  }
}

/* One element, of which the last array is the same for all. */
static tsr_array *in_map(int kind, tsr_scope *s, given in, wrapped_body *w)
{
  tsr_vmap_args args = { .size = sizeof args,
                         .function = tsr_function_make(s, inside, .user = w),
                         .axis = kind == WRAPPED_NAMED ? "of one" : NULL };
  tsr_array *rows[MOST];
  for (int i = 0; i < w->count; i++) {
    bool same = i && i == w->count - 1;
    rows[i] = same ? in[i] : tsr_expand_dims(in[i], TSR_DIMS(0));
    if (same) args.in_dims[i] = TSR_UNMAPPED;
  }
  return first_of(tsr_call_at(tsr_vmap_at(&args, TSR_HERE), rows, w->count, TSR_HERE));
}

static tsr_array *in_choice(int kind, tsr_scope *s, given in, wrapped_body *w)
{
  tsr_switch_args args = { .size = sizeof args, .bodies = { inside, not_taken } };
  for (int i = 0; i < w->count; i++) args.in[i] = in[i];
  if (kind == WRAPPED_COND) return tsr_cond_at(tsr_gt(tsr_num(s, 1), 0), w, &args, TSR_HERE);
  args.bodies[0] = args.bodies[2] = not_taken;
  args.bodies[1] = inside;
  return tsr_switch_at(tsr_num(s, 1), w, &args, TSR_HERE);
}

static tsr_array *around(int kind, tsr_scope *s, given in, wrapped_body *w)
{
  tsr_function *f = tsr_function_make(s, inside, .user = w);
  switch (kind) {
  case WRAPPED_NOT: return inside(s, in, w);
  case WRAPPED_CALL: break;
  case WRAPPED_CHECKPOINT: f = tsr_checkpoint(f); break;
  case WRAPPED_VJP: f = tsr_custom_vjp(f, .backward = rule_back, .user = w); break;
  case WRAPPED_JVP: f = tsr_custom_jvp(f, .forward = rule_forward, .user = w); break;
  case WRAPPED_VMAP:
  case WRAPPED_NAMED: return in_map(kind, s, in, w);
  case WRAPPED_COND:
  case WRAPPED_SWITCH: return in_choice(kind, s, in, w);
  default: return in_loop(kind, s, in, w);
  }
  return tsr_call_at(f, in, w->count, TSR_HERE);
}

/* The body in what is still around it. */
static tsr_array *inside(tsr_scope *s, given in, void *user)
{
  wrapped_body *w = user;
  return w->kind ? around(w->kind, s, in, w + 1) : w->body(s, in, w->user);
}

wrapping wrapping_draw(test_rng *rng, bool back)
{
  int last = back ? WRAPPED_WHILE - 1 : WRAPPED_WHILE;
  wrapping out = { { (int)test_range(rng, 1, last), WRAPPED_NOT } };
  bool ruled = out.kinds[0] == WRAPPED_VJP || out.kinds[0] == WRAPPED_JVP;
  if (ruled) last = WRAPPED_WHILE - 1; /* a rule goes back, or is turned to do so */
  if (test_range(rng, 0, 3) == 0) out.kinds[1] = (int)test_range(rng, 1, last);
  return out;
}

/* All that is around is traced before the call of it returns, so that this lies on the stack. */
tsr_array *wrapped(wrapping kinds, tsr_scope *s, tsr_body_fn *body, void *user, given in, int count)
{
  wrapped_body w[2] = { { body, user, kinds.kinds[1], count }, { body, user, WRAPPED_NOT, count } };
  return around(kinds.kinds[0], s, in, w);
}
