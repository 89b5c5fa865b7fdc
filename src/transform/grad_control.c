/* Gradients of loops and choices.
 *
 *   scan      forward             (number, c, x, rest) -> c', y, and c itself is stacked
 *             backward, reversed  carry  what is due to c', and the parts of the rest so far
 *                                 slices c, x, number, what is due to y
 *                                 gives  what is due to c; the rest's parts; of each x its own
 *   switch    another switch      the rest, what is due to the results -> parts of the rest
 *
 * A step goes back through its region as any body does: it is replayed on what it took, so that all
 * that is kept of a loop are its carries, one a step, and values that checkpoints in it name
 * (residuals.c). All are results of the node that makes the value, which so runs once; where nobody
 * goes back nobody reads them, and they are not made. */
#include "tessera/control.h"
#include "transform/backward.h"

/* A node whose rule is applied, as its bodies know it. On the stack of the rule: bodies that hold
 * it are traced before that returns, and never again. */
typedef struct tape {
  const tsr__pull *p;
  const tsr__program *program;
  const tsr__loop_attr *attr;
  tsr_array **due; /* by result: NULL where nothing is */
  int operands, results;
  tsr__operands kept; /* by checkpoints in the regions; of a scan the stacks */
  int next;           /* switch: the region of the body that is traced next */
  bool *read;         /* by operand: a region looks at it; NULL: whoever asks */
} tape;

/* Whether operand `i` is gone back to: carries are, whoever asks, since others come of them. */
static bool goes_back(const tape *t, int i)
{
  bool carry = i < t->attr->carries;
  bool read = !t->read || t->read[i];
  return tsr__has_gradient(t->p->in[i]) && (carry || (read && tsr__wants(t->p, i)));
}

static tsr_array *zeros_like(const tape *t, tsr_array *a)
{
  tsr_array *zeros = tsr_full_at(t->p->back->replay.scope, tsr_operand_int(0), (tsr_dtype)a->dtype,
                                 a->shape, (tsr_sharding){ 0 }, t->p->site);
  return tsr__place_as(zeros, a, NULL, t->p->site);
}

/* Gives an operand its part. Parts of what a body reads have met in it, so they are their own
 * measure of what varies; that of a carry is what it becomes. `out` of a pull says what a part may
 * differ by along an axis (tsr__axis_meet). */
static void give(const tape *t, int i, tsr_array *part)
{
  tsr__pull own = *t->p;
  bool carry = i < t->attr->carries;
  own.out = carry ? tsr__result_of(t->p->back->replay.scope, t->p->out, i, own.site) : part;
  tsr__give(&own, i, part);
}

/* A list in the making, which becomes a tuple. */
typedef struct listed {
  tsr_array **at;
  int count;
} listed;

static bool open_list(tsr_scope *scope, listed *list, int most)
{
  *list = (listed){ tsr__arena_new(&scope->arena, ((size_t)most + 1) * sizeof *list->at), 0 };
  return list->at;
}

static void add(listed *list, tsr_array *a)
{
  list->at[list->count++] = a;
}

static tsr_array *tuple_of(tsr_scope *scope, const listed *list, const char *site)
{
  return tsr_tuple_at(scope, list->at, list->count, site);
}

static tsr_array *no_memory(tsr_scope *scope, const char *site)
{
  return tsr__or_no_memory(scope, NULL, "tsr_grad", site);
}

/* ---- what is looked at ----------------------------------------------------------------------- */

/* Marks the operands of a node that its regions read. All carries of a loop count, and all operands
 * of another node but an array that the node follows. */
static bool mark_read(tsr_scope *s, const tsr__program *program, const tsr__gnode *node, bool *read)
{
  const tsr__loop_attr *attr = tsr__ops[node->op].loops ? tsr__attr_of(program, node) : NULL;
  for (int i = 0; i < node->in_count; i++)
    read[i] = attr ? i < attr->carries || (attr->kind == TSR__LOOP_SWITCH && !i)
                   : !i || !tsr__ops[node->op].follows;
  for (int r = 0; attr && r < node->region_count; r++) {
    const tsr__region *region = tsr__region_in(program, node, r);
    const tsr__program *inner = &region->program;
    bool *live = tsr__arena_new(&s->arena, (size_t)inner->node_count + 1);
    if (!live) return false;
    for (int i = 0; i < region->result_count; i++) live[region->results[i]] = true;
    for (int n = inner->node_count - 1; n >= 0; n--) {
      const tsr__gnode *g = &inner->nodes[n];
      bool *own = live[n] ? tsr__arena_new(&s->arena, (size_t)g->in_count + 1) : NULL;
      if (!live[n]) continue;
      if (!own || !mark_read(s, inner, g, own)) return false;
      TSR_FOR_OPERANDS (inner, g, i, o) live[o] |= own[i];
      int operand = g->op == TSR__OP_ARG ? tsr__loop_operand(attr, tsr__index_of(inner, g)) : -1;
      if (operand >= 0) read[operand] = true;
    }
  }
  return true;
}

/* ---- a region on arguments ------------------------------------------------------------------- */

/* Arguments by number: of a scan its number, carries, slices and the rest, of a switch the rest.
 *
 *   scan     step: carries, slices, number      in: number, carries, slices, rest
 *   switch   no step                            in: rest
 */
static tsr_array **arguments_of(tsr_scope *scope, const tape *t, tsr_array *step, tsr_array *rest)
{
  bool scan = t->attr->kind == TSR__LOOP_SCAN;
  int steps = (int)(t->attr->carries + t->attr->slices);
  tsr_array **in = tsr__arena_new(&scope->arena, ((size_t)t->operands + 2) * sizeof *in);
  if (!in) return NULL;
  if (scan) in[0] = tsr_item_at(step, steps, scope->site);
  for (int i = 0; i < steps; i++) in[1 + i] = tsr_item_at(step, i, scope->site);
  for (int i = 0; i < tsr_item_count(rest); i++)
    in[scan + steps + i] = tsr_item_at(rest, i, scope->site);
  return in;
}

/* The last items of a tuple, which are the kept values. No list: out of memory. */
static tsr__operands kept_items(tsr_scope *scope, const tape *t, tsr_array *tuple)
{
  listed own;
  int count = t->kept.count, first = tsr_item_count(tuple) - count;
  if (!open_list(scope, &own, count)) return TSR__IN_NONE;
  for (int i = 0; i < count; i++) add(&own, tsr_item_at(tuple, first + i, scope->site));
  return (tsr__operands){ own.at, count };
}

/* ---- scan ------------------------------------------------------------------------------------ */

/* Results that something can be due to: of floats. */
static bool result_goes(const tape *t, int i)
{
  const tsr__result *r = &t->program->results[t->p->node->first_result + i];
  return tsr__dtype_has_gradient((tsr_dtype)r->dtype);
}

/* What flows into a step backwards: in[0] what is due to its carries and what the rest got so far;
 * in[1] what it took, and what is due to its own results. In the order in which run_back put them:
 * carries of floats in in[0], results of floats behind the number in in[1]. */
static bool seed_step(tsr__backward *back, const tape *t, tsr_array *const *in)
{
  int own = 0, at = (int)(t->attr->carries + t->attr->slices) + 1;
  for (int i = 0; i < t->operands; i++)
    if (goes_back(t, i)) tsr__backward_want(back, 1 + i);
  tsr__backward_forward(back);
  for (int i = 0; i < t->results; i++) {
    bool carry = i < t->attr->carries;
    if (!result_goes(t, i)) continue;
    tsr_array *due = carry ? tsr_item_at(in[0], own++, back->replay.site)
                           : tsr_item_at(in[1], at++, back->replay.site);
    tsr__backward_seed(back, i, due);
  }
  return tsr__backward_run(back);
}

/*   in     (due to carries, parts of rest so far), (carries, slices, number, due to results, kept),
 *          rest
 *   gives  (due to carries one step sooner, parts of the rest), (parts of this step's slices)
 *
 * What a slice gets is its own alone and is stacked; the rest is read by each step, so its parts
 * add up in the carry. */
static tsr_array *back_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  const tape *t = user;
  tsr__backward back;
  listed next, own;
  int steps = (int)(t->attr->carries + t->attr->slices);
  tsr_array **args = arguments_of(s, t, in[1], in[2]);
  tsr__into into = { t->p, 0, { args, t->operands + 1 }, kept_items(s, t, in[1]) };
  if (!args || !into.kept.at || !tsr__backward_into(&back, &into, s) ||
      !open_list(s, &next, t->operands) || !open_list(s, &own, t->operands))
    return no_memory(s, s->site);
  if (!seed_step(&back, t, in)) return tsr__make_inert(s, s->site);
  for (int i = 0; i < t->operands; i++) {
    if (!goes_back(t, i)) continue;
    tsr_array *part = tsr__backward_take(&back, 1 + i, args[1 + i]);
    if (i >= steps) {
      tsr_array *before = tsr_item_at(in[0], next.count, s->site);
      part = tsr_add_at(before, tsr_operand_array(part), s->site);
    }
    add(i >= t->attr->carries && i < steps ? &own : &next, part);
  }
  return tsr_tuple_at(
      s, (tsr_array *const[]){ tuple_of(s, &next, s->site), tuple_of(s, &own, s->site) }, 2,
      s->site);
}

/* Operands from..end of the node as a tuple. */
static tsr_array *operands_of(const tape *t, int from, int end)
{
  return tsr_tuple_at(t->p->back->replay.scope, t->p->in + from, end - from, t->p->site);
}

/* The carries that each step took, stacked, by the scan that went forward. */
static tsr_array *kept_carries(const tape *t)
{
  tsr_scope *s = t->p->back->replay.scope;
  const tsr__region *region = t->p->out->extras->regions[0];
  int carries = (int)t->attr->carries;
  listed kept;
  if (!open_list(s, &kept, carries)) return no_memory(s, t->p->site);
  for (int i = 0; i < carries; i++)
    add(&kept, tsr__result_of(s, t->p->out, tsr__kept_carry(region, carries, i), t->p->site));
  return tuple_of(s, &kept, t->p->site);
}

/* What goes into the backward scan, and what comes of it to the operands. The lists are an
 * agreement with back_step and seed_step: who changes an order changes all three. */
static void run_back(tape *t, tsr_array *kept, tsr_array *number)
{
  tsr_scope *s = t->p->back->replay.scope;
  const char *site = t->p->site;
  int carries = (int)t->attr->carries, steps = carries + (int)t->attr->slices;
  listed carry, xs;
  if (!open_list(s, &carry, t->operands) ||
      !open_list(s, &xs, t->operands + t->results + 1 + t->kept.count))
    return;
  for (int i = 0; i < carries; i++) {
    add(&xs, tsr_item_at(kept, i, site));
    /* A carry of the way back keeps the sharding that it begins with: that of the carry. */
    if (goes_back(t, i))
      add(&carry, t->due[i] ? tsr__place_as(t->due[i], t->p->in[i], NULL, site)
                            : zeros_like(t, t->p->in[i]));
  }
  for (int i = carries; i < steps; i++) add(&xs, t->p->in[i]);
  for (int i = steps; i < t->operands; i++)
    if (goes_back(t, i)) add(&carry, zeros_like(t, t->p->in[i]));
  add(&xs, number);
  for (int i = carries; i < t->results; i++) {
    const tsr__result *r = &t->program->results[t->p->node->first_result + i];
    tsr_shape shape = { .rank = r->rank };
    memcpy(shape.dims, r->dims, sizeof shape.dims);
    tsr_array *zeros =
        tsr_full_at(s, tsr_operand_int(0), (tsr_dtype)r->dtype, shape, (tsr_sharding){ 0 }, site);
    if (result_goes(t, i)) add(&xs, t->due[i] ? t->due[i] : zeros);
  }
  for (int i = 0; i < t->kept.count; i++) add(&xs, t->kept.at[i]);
  tsr_loop_args args = { .size = sizeof args,
                         .carry = tuple_of(s, &carry, site),
                         .xs = tuple_of(s, &xs, site),
                         .with = operands_of(t, steps, t->operands),
                         .reverse = !t->attr->reverse };
  tsr_array *out = tsr_scan_at(back_step, t, &args, site);
  if (out->inert) return;
  tsr_array *last = tsr_item_at(out, 0, site), *own = tsr_item_at(out, 1, site);
  for (int i = 0, a = 0, b = 0; i < t->operands; i++) {
    if (!goes_back(t, i)) continue;
    bool slice = i >= carries && i < steps;
    give(t, i, slice ? tsr_item_at(own, b++, site) : tsr_item_at(last, a++, site));
  }
}

/* False: out of memory. */
static bool open_tape(tape *t, const tsr__pull *p)
{
  tsr__results results;
  if (!tsr__pull_results(p, &results)) return false;
  *t = (tape){ .p = p,
               .program = p->back->replay.program,
               .attr = p->attr,
               .due = results.due,
               .operands = p->node->in_count,
               .results = p->node->result_count };
  if (!tsr__pull_kept(p, &t->kept)) return false;
  if (!p->back->at_zeros) return true;
  /* The way back of a jvp is an operand of its way forward, which does not look at it. Nothing is
   * due to it then: it is not to be gone back through where a jvp of that is made. */
  tsr_scope *s = p->back->replay.scope;
  t->read = tsr__arena_new(&s->arena, (size_t)t->operands + 1);
  return t->read && mark_read(s, t->program, p->node, t->read);
}

/* The numbers of the steps that went forward are slices like others, so that each step gets its own
 * whichever way the scan goes. */
void tsr__grad_scan(const tsr__pull *p)
{
  tape t;
  if (!open_tape(&t, p)) return;
  int64_t count = tsr__loop_steps(t.attr, p->node, p->back->replay.params);
  tsr_shape steps = { .rank = 1, .dims = { count } };
  tsr_array *number =
      tsr_iota_at(p->back->replay.scope, TSR_I64, steps, 0, (tsr_sharding){ 0 }, p->site);
  tsr_array *kept = kept_carries(&t);
  if (!kept->inert) run_back(&t, kept, number);
}

/* ---- switch ---------------------------------------------------------------------------------- */

/* in[0]: the arguments of the regions; in[1]: the cotangents of the results that go back; in[2]:
 * the kept values. tsr_switch traces its bodies in order, once each: so `next` says which region
 * this is. */
static tsr_array *back_body(tsr_scope *s, tsr_array *const *in, void *user)
{
  tape *t = user;
  int r = t->next++, own = 0;
  tsr__backward back;
  listed parts;
  tsr_array **args = arguments_of(s, t, NULL, in[0]);
  tsr__into into = { t->p, r, { args, t->operands - 1 }, kept_items(s, t, in[2]) };
  if (!args || !into.kept.at || !tsr__backward_into(&back, &into, s) ||
      !open_list(s, &parts, t->operands))
    return no_memory(s, s->site);
  for (int i = 1; i < t->operands; i++)
    if (goes_back(t, i)) tsr__backward_want(&back, i - 1);
  tsr__backward_forward(&back);
  for (int i = 0; i < t->results; i++)
    if (t->due[i]) tsr__backward_seed(&back, i, tsr_item_at(in[1], own++, s->site));
  if (!tsr__backward_run(&back)) return tsr__make_inert(s, s->site);
  for (int i = 1; i < t->operands; i++)
    if (goes_back(t, i)) add(&parts, tsr__backward_take(&back, i - 1, args[i - 1]));
  return tuple_of(s, &parts, s->site);
}

/* The same number chooses, so each region is gone back through where it was taken. Operand 0 is
 * that number, an integer, and gets nothing. */
void tsr__grad_switch(const tsr__pull *p)
{
  tsr_scope *s = p->back->replay.scope;
  listed dues;
  tape t;
  if (!open_tape(&t, p) || !open_list(s, &dues, t.results)) return;
  for (int i = 0; i < t.results; i++)
    if (t.due[i]) add(&dues, t.due[i]);
  tsr_switch_args args = { .size = sizeof args,
                           .in = { operands_of(&t, 1, t.operands), tuple_of(s, &dues, p->site),
                                   tsr_tuple_at(s, t.kept.at, t.kept.count, p->site) } };
  for (int r = 0; r < p->node->region_count; r++) args.bodies[r] = back_body;
  tsr_array *parts = tsr_switch_at(p->in[0], &t, &args, p->site);
  for (int i = 1, at = 0; i < t.operands && !parts->inert; i++)
    if (goes_back(&t, i)) give(&t, i, tsr_item_at(parts, at++, p->site));
}
