/* Going forward through a while, which nothing goes back through.
 *
 *   the vjp in a jvp   carries zeros back (gradient.c), and is asked only how it depends on them
 *   J(x)^T z at z = 0  is 0, whatever the loop does; so is its slope by x; that by z, turned, is
 *                      J(x) d, which is a loop again:
 *
 *     %1:n = custom_vjp(x .., z ..)     zeros like what is differentiated by
 *         rule (.., d)                  while (carries, directions): the question asks the carries
 *
 * So in a vjp at zeros the rule of a while is a call whose value is 0 and whose own rule goes
 * forward: exact, as z is nothing but 0 there. In any other the while is refused (backward.c). A
 * jvp of a jvp finds the while that the rule made, and does the same with that. */
#include "tessera/control.h"
#include "tessera/gradient.h"
#include "transform/backward.h"

typedef tsr_array array;

/* The node. On the stack of the rule: bodies that hold it are traced before that returns. */
typedef struct ahead {
  const tsr__pull *p;
  int node, carries;
} ahead;

/* Arrays in the making of a tuple. */
typedef struct listed {
  array **at;
  int count;
} listed;

static listed new_list(tsr_scope *s, int most)
{
  return (listed){ tsr__arena_new(&s->arena, ((size_t)most + 1) * sizeof(array *)), 0 };
}

static array *tuple_of(tsr_scope *s, const listed *list)
{
  return tsr_tuple_at(s, list->at, list->count, s->site);
}

/* Whether operand `i` has a direction in the loop: each carry of floats may get one from others. */
static bool has_direction(const ahead *a, int i)
{
  return tsr__has_gradient(a->p->in[i]) && (i < a->carries || tsr__wants(a->p, i));
}

static array *zeros_like(tsr_scope *s, array *like)
{
  return tsr__zeros_as(s, like, tsr__place_like(like), s->site);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Region `r` on its arguments. False: out of memory. */
static bool through(const ahead *a, int r, tsr_scope *s, array *const *args, tsr__replay *out)
{
  const tsr__replay *replay = &a->p->back->replay;
  tsr__traced traced = tsr__region_trace(replay, a->node, r);
  if (!args || !tsr__replay_open(out, s, &traced, args, s->site)) return false;
  out->params = tsr__region_numbers(replay, a->node, r);
  tsr__replay_through(out);
  return true;
}

/* in: ((carries), (directions)), ((rest), (directions)). The arguments of a region. */
static array **arguments_of(const ahead *a, tsr_scope *s, array *const *in)
{
  int count = a->p->node->in_count;
  array **all = new_list(s, count).at, *own = tsr_item_at(in[0], 0, s->site);
  array *rest = tsr_item_at(in[1], 0, s->site);
  for (int i = 0; all && i < count; i++)
    all[i] = tsr_item_at(i < a->carries ? own : rest, i < a->carries ? i : i - a->carries, s->site);
  return all;
}

static array *question(tsr_scope *s, array *const *in, void *user)
{
  tsr__replay replay;
  if (!through(user, 0, s, arguments_of(user, s, in), &replay)) return NULL;
  return replay.at[replay.results[0]];
}

/* A step as a function of what has a direction, in[0], and of what has none. Gives the carries that
 * have one. */
static array *step(tsr_scope *s, array *const *in, void *user)
{
  const ahead *a = user;
  int at[2] = { 0, 0 }, count = a->p->node->in_count;
  listed out = new_list(s, a->carries);
  array **args = new_list(s, count).at;
  tsr__replay replay;
  for (int i = 0; args && i < count; i++) {
    int part = !has_direction(a, i);
    args[i] = tsr_item_at(in[part], at[part]++, s->site);
  }
  if (!out.at || !through(a, 1, s, args, &replay)) return NULL;
  for (int i = 0; i < a->carries; i++)
    if (has_direction(a, i)) out.at[out.count++] = replay.at[replay.results[i]];
  return tuple_of(s, &out);
}

/* The next carries, and their directions by the jvp of the step. It makes the carries again, which
 * are equal nodes and so the same. What is the same at all places of a mesh's axis has a direction
 * that says it differs: then it goes in as what differs, or the directions would be added up. */
static array *next(tsr_scope *s, array *const *in, void *user)
{
  const ahead *a = user;
  int count = a->p->node->in_count;
  array **args = arguments_of(a, s, in);
  listed real = new_list(s, count), other = new_list(s, count), to = new_list(s, count);
  listed carries = new_list(s, a->carries);
  tsr__replay replay;
  tsr_gradient_args of = { .size = sizeof of,
                           .function = tsr__function_new(s, step, user, "a step", s->site) };
  if (!of.function || !real.at || !other.at || !to.at || !carries.at ||
      !through(a, 1, s, args, &replay))
    return NULL;
  for (int i = 0; i < a->carries; i++) carries.at[carries.count++] = replay.at[replay.results[i]];
  int own = tsr_item_count(tsr_item_at(in[0], 1, s->site));
  for (int i = 0; i < count; i++) {
    if (!has_direction(a, i)) {
      other.at[other.count++] = args[i];
      continue;
    }
    int at = to.count;
    array *from = tsr_item_at(in[at >= own], 1, s->site);
    array *along = tsr_item_at(from, at < own ? at : at - own, s->site);
    to.at[to.count++] = along;
    real.at[real.count++] = tsr__axis_as(args[i], along, s->site);
  }
  array *asked[3] = { tuple_of(s, &real), tuple_of(s, &other), tuple_of(s, &to) };
  array *made = tsr_call_at(tsr_jvp_at(&of, s->site), asked, 3, s->site);
  array *both[2] = { tuple_of(s, &carries), tsr_item_at(made, 1, s->site) };
  return tsr_tuple_at(s, both, 2, s->site);
}

/* ---- the call that stands for it ------------------------------------------------------------- */

/* in: (operands), (due to results of floats). Gives zeros like the operands that are wanted. */
static array *nothing(tsr_scope *s, array *const *in, void *user)
{
  const ahead *a = user;
  listed out = new_list(s, a->p->node->in_count);
  for (int i = 0; out.at && i < a->p->node->in_count; i++)
    if (has_direction(a, i) && tsr__wants(a->p, i))
      out.at[out.count++] = zeros_like(s, tsr_item_at(in[0], i, s->site));
  return out.at ? tuple_of(s, &out) : NULL;
}

/* in: (operands), (due to results), what `nothing` gave, directions of these. Gives zeros for the
 * operands, and for what is due the directions of the results that it is due to. */
static array *loop_ahead(tsr_scope *s, array *const *in, void *user)
{
  const ahead *a = user;
  int count = a->p->node->in_count, at = 0;
  listed out = new_list(s, count + a->carries), part[2][2]; /* carries, rest: arrays, directions */
  for (int i = 0; i < 4; i++) part[i / 2][i % 2] = new_list(s, count);
  for (int i = 0; i < 4; i++)
    if (!out.at || !part[i / 2][i % 2].at) return NULL;
  for (int i = 0; i < count; i++) {
    array *own = tsr_item_at(in[0], i, s->site);
    listed *pair = part[i >= a->carries];
    pair[0].at[pair[0].count++] = own;
    out.at[out.count++] = tsr__has_gradient(own) ? zeros_like(s, own) : own;
    if (!has_direction(a, i)) continue;
    pair[1].at[pair[1].count++] =
        tsr__wants(a->p, i) ? tsr_item_at(in[3], at++, s->site) : zeros_like(s, own);
  }
  array *both[2][2];
  for (int i = 0; i < 4; i++) both[i / 2][i % 2] = tuple_of(s, &part[i / 2][i % 2]);
  tsr_while_args args = { .size = sizeof args,
                          .carry = tsr_tuple_at(s, both[0], 2, s->site),
                          .with = tsr_tuple_at(s, both[1], 2, s->site) };
  array *made = tsr_while_at(question, next, user, &args, s->site);
  array *to = tsr_item_at(made, 1, s->site);
  for (int i = 0; i < part[0][1].count; i++) out.at[out.count++] = tsr_item_at(to, i, s->site);
  return tuple_of(s, &out);
}

/* What is due to a result, zeros where nothing is, varies along an axis as the result does: what
 * the rule gives it is a direction of that. */
void tsr__forward_while(const tsr__pull *p)
{
  tsr_scope *s = p->back->replay.scope;
  const tsr__loop_attr *attr = p->attr;
  ahead a = { p, (int)(p->node - p->back->replay.program->nodes), (int)attr->carries };
  tsr__results results;
  listed due = new_list(s, a.carries);
  tsr_custom_args ruled = { .size = sizeof ruled, .backward = loop_ahead, .user = &a };
  ruled.function = tsr__function_new(s, nothing, &a, "the loop", p->site);
  if (!due.at || !ruled.function || !tsr__pull_results(p, &results)) {
    tsr__or_no_memory(s, NULL, "tsr_jvp", p->site);
    return;
  }
  for (int i = 0; i < a.carries; i++) {
    if (!tsr__has_gradient(p->in[i])) continue;
    array *one = results.out[i] ? results.out[i] : tsr__result_of(s, p->out, i, p->site);
    array *own = results.due[i] ? results.due[i] : zeros_like(s, one);
    due.at[due.count++] = tsr__axis_as(own, one, p->site);
  }
  array *in[2] = { tsr_tuple_at(s, p->in, p->node->in_count, p->site), tuple_of(s, &due) };
  array *parts = tsr_call_at(tsr_custom_vjp_at(&ruled, p->site), in, 2, p->site);
  for (int i = 0, at = 0; i < p->node->in_count && !parts->inert; i++) {
    if (!has_direction(&a, i) || !tsr__wants(p, i)) continue;
    tsr__pull own = *p;
    own.out = tsr_item_at(parts, at++, p->site); /* its own measure of what varies */
    tsr__give(&own, i, own.out);
  }
}
