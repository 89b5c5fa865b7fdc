/* Mapping over loops and choices: the same node of bodies that are mapped over.
 *
 *   scan     carries that vary, or come to in some step, have the front from the start; slices
 *            have it behind their steps, [steps, b, ..], as have stacks
 *   while    goes on as long as any element does; one that is done keeps its carries
 *   switch   of one number the same of mapped bodies; of one an element all bodies run, and each
 *            element takes what its own gives
 *
 * Which results of a region vary is found by mapping over it in a scope that is closed again. */
#include "tessera/control.h"
#include "tessera/shape.h"
#include "transform/batch.h"

/* A node in the making, as its bodies know it. On the stack of tsr__batch_loop but for the lists,
 * as bodies are traced before it returns. */
typedef struct looped {
  const tsr__batched *x;
  const tsr__loop_attr *attr;
  bool *in, *out; /* by operand and by result: it varies */
  bool asks_each; /* while: elements are done one before the other */
  int next;       /* switch: the region of the body that is traced next */
} looped;

static tsr_array *inert_of(const looped *l)
{
  tsr_scope *scope = l->x->batch->replay.scope;
  return tsr__or_no_memory(scope, tsr__make_inert(scope, l->x->site), "tsr_vmap", l->x->site);
}

static tsr_array **new_list(tsr_scope *scope, int count)
{
  return tsr__arena_new(&scope->arena, ((size_t)count + 1) * sizeof(tsr_array *));
}

/* ---- regions --------------------------------------------------------------------------------- */

/* Replays a region for all elements, of arguments by number. Regions know named axes as the body
 * around does, hence the same axis, size and kind. */
static bool through(const looped *l, int r, tsr_scope *scope, tsr_array *const *args,
                    tsr__batch *out)
{
  const tsr__batch *b = l->x->batch;
  int count = l->x->count + 1;
  tsr__traced traced = tsr__region_trace(&b->replay, l->x->n, r);
  bool *varies = tsr__arena_new(&scope->arena, (size_t)count);
  *out = (tsr__batch){ .axis = b->axis, .mesh = b->mesh, .size = b->size, .of_mesh = b->of_mesh };
  if (!varies || !tsr__replay_open(&out->replay, scope, &traced, args, l->x->site)) return false;
  out->replay.params = tsr__region_numbers(&b->replay, l->x->n, r);
  for (int i = 0; i < count; i++) {
    int operand = tsr__loop_operand(l->attr, i);
    varies[i] = operand >= 0 && operand < l->x->count && l->in[operand];
  }
  return tsr__batch_through(out, varies);
}

/* Arguments of a region's types, with the front where they vary. NULL out of memory. */
static tsr_array **stand_ins(const looped *l, int r, tsr_scope *scope)
{
  const tsr__batched *x = l->x;
  const tsr__program *program = &tsr__region_in(x->batch->replay.program, x->g, r)->program;
  tsr_array **args = new_list(scope, x->count + 1);
  for (int n = 0; args && n < program->node_count; n++) {
    const tsr__gnode *arg = &program->nodes[n];
    if (arg->op != TSR__OP_ARG) continue;
    int i = tsr__index_of(program, arg), operand = tsr__loop_operand(l->attr, i);
    tsr_shape shape = tsr__gnode_shape(arg);
    if (operand >= 0 && l->in[operand]) shape = tsr__batch_shape(x->batch, shape);
    args[i] = tsr__stand_in(scope, (tsr_dtype)arg->dtype, &shape, x->site);
  }
  return args;
}

/* Adds which results of a region vary; what is wrong with it is told when it is made. Made to look
 * at and thrown away: nodes are cheap, and what varies follows from the rules alone, so it is not
 * worked out a second way. Errors of that scope go with it. */
static bool try_region(const looped *l, int r, bool *varies)
{
  tsr_scope *scope = tsr_scope_nest_at(l->x->batch->replay.scope, l->x->site);
  tsr_array **args = stand_ins(l, r, scope);
  tsr__batch b;
  bool good = args && through(l, r, scope, args, &b);
  for (int i = 0; good && i < b.replay.region->result_count; i++)
    varies[i] |= b.varies[b.replay.results[i]];
  tsr_scope_close(scope);
  return good;
}

/* Carries that vary after some step do from the first on.
 *
 *   scan (a, b) -> (a + b, b) with b mapped over     round 1: a varies by b; round 2: no more
 *
 * Each round adds a carry or ends, so there are at most one more than carries. */
static bool settle(looped *l, int r)
{
  for (bool more = true; more;) {
    more = false;
    if (!try_region(l, r, l->out)) return false;
    for (int i = 0; i < l->attr->carries; i++) {
      more |= l->out[i] && !l->in[i];
      l->out[i] = l->in[i] = l->out[i] || l->in[i];
    }
  }
  return true;
}

/* Result `i` of a region, with the front if all that it joins has it. */
static tsr_array *result_of(const looped *l, const tsr__batch *b, int i)
{
  int n = b->replay.results[i];
  tsr_array *a = b->replay.at[n];
  return !l->out[i] || b->varies[n] || a->inert ? a : tsr__batch_repeat(b, a, l->x->site);
}

/* Results first .. end of a region as a tuple. */
static tsr_array *results_of(const looped *l, const tsr__batch *b, int first, int end)
{
  tsr_scope *scope = b->replay.scope;
  tsr_array **all = new_list(scope, end - first);
  for (int i = first; all && i < end; i++) all[i - first] = result_of(l, b, i);
  return all ? tsr_tuple_at(scope, all, end - first, l->x->site) : NULL;
}

/* Operands first .. end of the node, as its bodies are to see them. A carry keeps its first
 * sharding, so a carry that is repeated gets the sharding that it has in the next steps. */
static tsr_array *operands_of(const looped *l, int first, int end)
{
  const tsr__batched *x = l->x;
  for (int i = first; i < end; i++) {
    if (!l->in[i] || x->varies[i]) continue;
    x->in[i] = tsr__batch_repeat(x->batch, x->in[i], x->site);
    if (x->batch->of_mesh) x->in[i] = tsr__batch_lay(x->batch, x->in[i], TSR__WHY_CUT, x->site);
  }
  return tsr_tuple_at(x->batch->replay.scope, x->in + first, end - first, x->site);
}

/* What a body is given, tuples after each other, as arguments by number from `first` on. Ends at
 * the NULL behind the tuples. */
static tsr_array **arguments_of(tsr_scope *scope, const looped *l, tsr_array *const *in, int first)
{
  tsr_array **args = new_list(scope, l->x->count + 2);
  for (int at = first; args && *in; in++)
    for (int i = 0; i < tsr_item_count(*in); i++) args[at++] = tsr_item_at(*in, i, scope->site);
  return args;
}

/* A bool or number for each element beside arrays of `rank` dims. [b] as [b, 1, 1 ..], which a
 * where broadcasts. */
static tsr_array *beside(const looped *l, tsr_array *each, int rank)
{
  tsr_shape shape = { .rank = rank, .dims = { l->x->batch->size } };
  for (int d = 1; d < rank; d++) shape.dims[d] = 1;
  return each->inert ? each : tsr_reshape_at(each, shape, l->x->site);
}

/* ---- scan ------------------------------------------------------------------------------------ */

/* in: the carries; slices and the number; the rest.
 *
 *   args   0 number | carries | slices | rest        in: (carries), (slices, number), (rest)
 */
static tsr_array *mapped_step(tsr_scope *scope, tsr_array *const *in, void *user)
{
  const looped *l = user;
  tsr__batch b;
  int carries = (int)l->attr->carries, last = carries + (int)l->attr->slices;
  tsr_array **args = new_list(scope, l->x->count + 2);
  if (!args) return NULL;
  args[0] = tsr_item_at(in[1], (int)l->attr->slices, scope->site);
  for (int i = 0; i < l->x->count; i++) {
    int part = i < carries ? 0 : i < last ? 1 : 2;
    args[1 + i] = tsr_item_at(in[part], i - (part == 2 ? last : part * carries), scope->site);
  }
  if (!through(l, 0, scope, args, &b)) return NULL;
  tsr_array *const both[2] = { results_of(l, &b, 0, carries),
                               results_of(l, &b, carries, l->x->g->result_count) };
  return both[0] && both[1] ? tsr_tuple_at(scope, both, 2, l->x->site) : NULL;
}

static tsr_array *map_scan(looped *l)
{
  const tsr__batched *x = l->x;
  const char *site = x->site;
  tsr_scope *scope = x->batch->replay.scope;
  int carries = (int)l->attr->carries, last = carries + (int)l->attr->slices;
  int count = x->g->result_count;
  tsr_array **xs = new_list(scope, last - carries + 1), **all = new_list(scope, count);
  if (!xs || !all || !settle(l, 0)) return inert_of(l);
  for (int i = carries; i < last; i++)
    /* A scan slices along dim 0, so the front goes behind the steps, and back again with stacks. */
    xs[i - carries] = l->in[i] ? tsr_moveaxis_at(x->in[i], 0, 1, site) : x->in[i];
  int64_t steps = tsr__loop_steps(l->attr, x->g, x->batch->replay.params);
  xs[last - carries] = tsr_iota_at(scope, TSR_I64, (tsr_shape){ .rank = 1, .dims = { steps } }, 0,
                                   (tsr_sharding){ 0 }, site);
  tsr_loop_args args = { .size = sizeof args,
                         .carry = operands_of(l, 0, carries),
                         .xs = tsr_tuple_at(scope, xs, last - carries + 1, site),
                         .with = operands_of(l, last, x->count),
                         .reverse = l->attr->reverse };
  tsr_array *made = tsr_scan_at(mapped_step, l, &args, site);
  if (made->inert) return made;
  for (int i = 0; i < count; i++) {
    bool stack = i >= carries;
    all[i] = tsr_item_at(tsr_item_at(made, stack, site), stack ? i - carries : i, site);
    if (stack && l->out[i]) all[i] = tsr_moveaxis_at(all[i], 1, 0, site);
  }
  return tsr_tuple_at(scope, all, count, site);
}

/* ---- while ----------------------------------------------------------------------------------- */

/* in: the carries; the rest. Elements that are done go on being computed, and keep what they had
 * (mapped_round). */
static tsr_array *mapped_question(tsr_scope *scope, tsr_array *const *in, void *user)
{
  const looped *l = user;
  tsr__batch b;
  tsr_array **args = arguments_of(scope, l, in, 0);
  if (!args || !through(l, 0, scope, args, &b)) return NULL;
  tsr_array *on = b.replay.at[b.replay.results[0]];
  return l->asks_each ? tsr_any_at(&(tsr_reduce_args){ .size = sizeof(tsr_reduce_args), .x = on },
                                   l->x->site)
                      : on;
}

static tsr_array *mapped_round(tsr_scope *scope, tsr_array *const *in, void *user)
{
  const looped *l = user;
  tsr__batch b, asked;
  int carries = (int)l->attr->carries;
  tsr_array **args = arguments_of(scope, l, in, 0), **next = new_list(scope, carries);
  if (!args || !next || !through(l, 1, scope, args, &b)) return NULL;
  if (!l->asks_each) return results_of(l, &b, 0, carries);
  if (!through(l, 0, scope, args, &asked)) return NULL;
  tsr_array *on = asked.replay.at[asked.replay.results[0]];
  for (int i = 0; i < carries; i++) {
    tsr_array *own = beside(l, on, args[i]->shape.rank), *made = result_of(l, &b, i);
    next[i] = tsr_where_at(own, TSR_OPERAND(made), TSR_OPERAND(args[i]), l->x->site);
  }
  return tsr_tuple_at(scope, next, carries, l->x->site);
}

/* Where the question varies every carry does, as each element ends in its own round. */
static tsr_array *map_while(looped *l)
{
  if (!settle(l, 1) || !try_region(l, 0, &l->asks_each)) return inert_of(l);
  for (int i = 0; i < l->attr->carries && l->asks_each; i++) l->in[i] = l->out[i] = true;
  int carries = (int)l->attr->carries;
  tsr_while_args args = { .size = sizeof args,
                          .carry = operands_of(l, 0, carries),
                          .with = operands_of(l, carries, l->x->count) };
  return tsr_while_at(mapped_question, mapped_round, l, &args, l->x->site);
}

/* ---- switch ---------------------------------------------------------------------------------- */

static tsr_array *mapped_branch(tsr_scope *scope, tsr_array *const *in, void *user)
{
  looped *l = user;
  tsr__batch b;
  tsr_array **args = arguments_of(scope, l, in, 0);
  if (!args || !through(l, l->next++, scope, args, &b)) return NULL;
  return results_of(l, &b, 0, l->x->g->result_count);
}

/* One number for all elements. */
static tsr_array *choose_one(looped *l)
{
  const tsr__batched *x = l->x;
  tsr_switch_args args = { .size = sizeof args };
  for (int r = 0; r < x->g->region_count; r++) {
    if (!try_region(l, r, l->out)) return inert_of(l);
    args.bodies[r] = mapped_branch;
  }
  *args.in = operands_of(l, 1, x->count);
  return tsr_switch_at(*x->in, l, &args, x->site);
}

/* A number for each: those from `r` on take what body `r` gives, or one behind it. Along an axis of
 * a mesh the bodies' arguments vary then: of a gradient only places that took a body have a part of
 * it, so that parts meet outside of the bodies. Costs all bodies for all elements; there is no
 * other way in which one program runs for all. */
static tsr_array *choose_each(looped *l)
{
  const tsr__batched *x = l->x;
  tsr_scope *scope = x->batch->replay.scope;
  int count = x->g->result_count;
  tsr_array **all = new_list(scope, count);
  for (int i = 1; i < x->count && x->batch->of_mesh; i++) l->in[i] = true;
  tsr_array *rest[2] = { operands_of(l, 1, x->count) };
  tsr_array **args = all && !rest[0]->inert ? arguments_of(scope, l, rest, 0) : NULL;
  if (!args) return inert_of(l);
  for (int i = 0; i < count; i++) l->out[i] = true;
  for (int r = 0; r < x->g->region_count; r++) {
    tsr__batch b;
    if (!through(l, r, scope, args, &b)) return inert_of(l);
    tsr_array *from = tsr_ge_at(*x->in, TSR_OPERAND(r), x->site);
    for (int i = 0; i < count; i++) {
      tsr_array *made = result_of(l, &b, i);
      if (made->inert) return made;
      tsr_array *here = beside(l, from, made->shape.rank);
      all[i] = r ? tsr_where_at(here, TSR_OPERAND(made), TSR_OPERAND(all[i]), x->site) : made;
    }
  }
  return tsr_tuple_at(scope, all, count, x->site);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Such a node may vary although none of its operands does: a place that knows its number
 * differs. */
bool tsr__batch_named(const tsr__program *program, const tsr__gnode *node)
{
  for (int r = 0; r < node->region_count; r++) {
    const tsr__program *inner = &tsr__region_in(program, node, r)->program;
    for (int n = 0; n < inner->node_count; n++)
      if (tsr__is_named(inner->nodes[n].op) || tsr__batch_named(inner, &inner->nodes[n]))
        return true;
  }
  return false;
}

tsr_array *tsr__batch_loop(const tsr__batched *x)
{
  tsr__arena *arena = &x->batch->replay.scope->arena;
  looped l = { .x = x, .attr = tsr__batch_attr(x) };
  l.in = tsr__arena_new(arena, (size_t)x->count + 1);
  l.out = tsr__arena_new(arena, (size_t)x->g->result_count + 1);
  if (!l.in || !l.out) return inert_of(&l);
  for (int i = 0; i < x->count; i++) l.in[i] = x->varies[i];
  /* Before anything is made, as results are taken out by it later. */
  x->batch->parts[x->n] = l.out;
  if (l.attr->kind == TSR__LOOP_SCAN) return map_scan(&l);
  if (l.attr->kind == TSR__LOOP_WHILE) return map_while(&l);
  return x->varies[0] ? choose_each(&l) : choose_one(&l);
}
