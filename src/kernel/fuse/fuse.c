/* From a partitioned program to steps: which nodes share a kernel, in which order kernels run, and
 * which values are stored between them.
 *
 * A kernel is a loop over a domain: a shape, its sharding and, where rows are only known at run
 * time, whose rows. Everything of a stage over one domain shares a pass over memory:
 *
 *   stage 0   kernel(s) by level: a kernel before stores the values that another broadcasts
 *             combine: all reductions of the stage but those that wait for a later one
 *             steps: reshard, compact, ... of the stage; those that travel together are one
 *   stage 1   ...
 *
 * Levels are as late as they can be, so that a chain is not torn apart. A node with one value for
 * all elements (numbers, full, arithmetic of those and of single elements) is computed anew in each
 * kernel that needs it. So is a view, which is a way of reading memory: an earlier kernel stores
 * the view's operand, and the view itself is stored only where a step needs it. */
#include "kernel/fuse/fuse.h"

enum { MOST_VIEWS = 64 }; /* the most views that are read through at once */

/* ---- facts ----------------------------------------------------------------------------------- */

static bool has_one_element(const tsr__gnode *g)
{
  for (int d = 0; d < g->rank; d++)
    if (g->dims[d] != 1) return false;
  return true;
}

static bool same_dims(const tsr__gnode *a, const tsr__gnode *b)
{
  return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]);
}

static bool has_dynamic_rows(const tsr__gnode *g)
{
  return g->rank > 0 && g->dims[0] == TSR__DYNAMIC;
}

/* Whether no kernel makes a reduction: it combines the devices' shards straight from memory, or its
 * operand consists of accumulators already. */
static bool meets_whole(const tsr__program *program, const tsr__gnode *g)
{
  const tsr__gnode *x = &program->nodes[tsr__in(program, g, 0)];
  if (x->flags & TSR__KEPT) return true;
  return tsr__meets_whole(program, g, &program->shardings[x->sharding], g->reduce_axes);
}

/* Whether a node gives one value for all elements without a loop. The prologue of every kernel that
 * needs such a node computes it on one element; no kernel stores it for others. */
static bool is_uniform(const tsr__fusion *f, int n)
{
  const tsr__gnode *g = &f->program->nodes[n];
  if (g->op == TSR__OP_CONST) return true;
  /* A node that no kernel computes is in memory; a single element is read once a task. */
  if (!f->fact[n].tile) return has_one_element(g);
  if (tsr__ops[g->op].looks_up || tsr__ops[g->op].attr == TSR__ATTR_WITHIN) return false;
  if (tsr__ops[g->op].source) return g->in_count > 0; /* a number everywhere, or positions */
  /* A pad or a concat of single elements shows several of them. */
  if (tsr__is_view(g->op) && g->in_count > 1) return false;
  bool all = true;
  TSR_FOR_OPERANDS (f->program, g, i, o) all = all && f->fact[o].uniform;
  return all;
}

bool tsr__reads_lines(const tsr__program *program, int node)
{
  const tsr__gnode *g = &program->nodes[node];
  return tsr__is_view(g->op) && tsr__view_of(program, g, 0).linear &&
         !tsr__node_shifts(program, node);
}

int tsr__reach(const tsr__fusion *f, int node, int i)
{
  const tsr__gnode *g = &f->program->nodes[node];
  int in = tsr__in(f->program, g, i);
  if (in < 0) return TSR__REACH_NONE;
  if (tsr__ops[g->op].looks_up && i == 0) return TSR__REACH_MEMORY;
  if (f->fact[in].uniform) return TSR__REACH_UNIFORM;
  /* The order of these tests decides: a table is always memory; then come uniform nodes, then nodes
   * of another shape; element by element only where the shape is the domain's. */
  int away = f->fact[in].view ? TSR__REACH_VIEW : TSR__REACH_MEMORY;
  /* Lines are read as memory of another shape. Two of them after each other are one; an affine
   * view between would have to be in memory first. */
  if (tsr__reads_lines(f->program, node))
    return tsr__reads_lines(f->program, in) ? away : TSR__REACH_MEMORY;
  const tsr__gnode *first = &f->program->nodes[tsr__in(f->program, g, 0)];
  /* Indices of a take lie along some dims of the result: their shape may equal it and still mean
   * other elements. */
  bool inside = tsr__ops[g->op].inserts_dims && first->rank != 1;
  if (inside || tsr__is_view(g->op)) return away;
  /* A reduction's domain is its operand's. */
  const tsr__gnode *domain = tsr__is_reduction(g->op) ? first : g;
  return same_dims(&f->program->nodes[in], domain) ? TSR__REACH_ELEMENT : away;
}

/* ---- rows known at run time ------------------------------------------------------------------ */

/* Nodes with the same rows are one set; its smallest node is the origin, so links only go down. */
static int origin_node(const tsr__fusion *f, int n)
{
  while (f->fact[n].origin != n) n = f->fact[n].origin;
  return n;
}

static void same_rows(tsr__fusion *f, int a, int b)
{
  if (a < 0 || b < 0 || !has_dynamic_rows(&f->program->nodes[a]) ||
      !has_dynamic_rows(&f->program->nodes[b]))
    return;
  int x = origin_node(f, a), y = origin_node(f, b);
  if (x < y) f->fact[y].origin = x;
  else f->fact[x].origin = y;
}

/* Operands of an elementwise node, a reduction or a filter have the same rows, and so have the
 * results of two filters with one mask. */
static void unite_rows(tsr__fusion *f, int n)
{
  const tsr__gnode *g = &f->program->nodes[n];
  bool moves = tsr__moves_rows(g->op), filters = tsr__ops[g->op].ragged;
  int first = tsr__ops[g->op].looks_up ? 1 : 0;
  TSR_FOR_OPERANDS (f->program, g, i, o) {
    if (i < first) continue;
    same_rows(f, tsr__in(f->program, g, first), o);
    if (!moves && !tsr__is_reduction(g->op)) same_rows(f, n, o);
  }
  bool known = !moves;
  for (int k = 0; moves && k < f->mover_count; k++) {
    int m = f->movers[k];
    const tsr__gnode *other = &f->program->nodes[m];
    /* Equal masks leave the same rows only if they are judged by the same parts. */
    if (other->op != g->op || other->sharding != g->sharding) continue;
    int by = filters ? 1 : 0; /* the mask, or the rows themselves */
    int mine = tsr__in(f->program, g, by), its = tsr__in(f->program, other, by);
    /* A filter's rows follow from its mask, a rebalance's from how many there are. */
    bool alike = by ? mine == its : origin_node(f, its) == origin_node(f, mine);
    if (alike) same_rows(f, m, n);
    known = known || (alike && filters);
  }
  if (!known) f->movers[f->mover_count++] = n; /* equal ones are compared with this one only */
}

/* ---- domains and levels ---------------------------------------------------------------------- */

/* Two shardings that put the same parts on the same devices make one domain. */
static bool same_sharding(const tsr__program *p, const tsr__gnode *a, const tsr__gnode *b)
{
  tsr_shape shape = tsr__gnode_shape(a);
  return a->sharding == b->sharding ||
         tsr__same_places(&p->shardings[a->sharding], &p->shardings[b->sharding], &shape);
}

/* Programs have few domains, so a linear search does. */
static int domain_of(tsr__fusion *f, int n)
{
  const tsr__gnode *g = &f->program->nodes[n];
  for (int i = 0; i < f->domain_count; i++) {
    const tsr__gnode *other = &f->program->nodes[f->domains[i]];
    if (same_dims(g, other) && same_sharding(f->program, g, other) &&
        (!has_dynamic_rows(g) || origin_node(f, n) == origin_node(f, f->domains[i])))
      return i;
  }
  f->domains[f->domain_count] = n;
  return f->domain_count++;
}

/* How many views are read through to read this view: a longer chain is stored on its way. */
static int count_views(const tsr__fusion *f, int n)
{
  int views = 1;
  /* A view that moves elements between devices is a step, whose result lies in memory. */
  if (!tsr__is_view(f->program->nodes[n].op) || !tsr__in_kernel(f->program, n)) return 0;
  TSR_FOR_OPERANDS (f->program, &f->program->nodes[n], i, o)
    /* All operands' views count: a tree of concats is read through at each leaf, so the cost is the
     * number of loads of one tile, not the depth of the tree. */
    views += f->fact[o].view ? f->fact[o].views : 1;
  return views;
}

/* Three walks: facts of a node follow from its operands, which stand before it; the set of its rows
 * may be joined by a later node, so domains are found when all rows are united. */
static void find_facts(tsr__fusion *f, const int *stage)
{
  int count = f->program->node_count;
  for (int n = 0; n < count; n++) {
    f->fact[n] =
        (tsr__fact){ .stage = stage[n], .level = -1, .domain = -1, .kernel = -1, .origin = n };
    f->fact[n].tile = tsr__in_kernel(f->program, n);
    f->fact[n].uniform = is_uniform(f, n);
    f->fact[n].views = count_views(f, n);
    f->fact[n].view = f->fact[n].views > 0 && f->fact[n].views <= MOST_VIEWS && !f->fact[n].uniform;
  }
  for (int n = 0; n < count; n++) unite_rows(f, n);
  for (int n = 0; n < count; n++) {
    const tsr__gnode *g = &f->program->nodes[n];
    if (f->fact[n].tile) f->fact[n].domain = domain_of(f, n);
    else if (tsr__is_reduction(g->op) && !meets_whole(f->program, g))
      f->fact[n].domain = domain_of(f, tsr__in(f->program, g, 0));
  }
}

/* The earliest level: one more than the level of any operand that must be stored first. */
static void early_levels(tsr__fusion *f)
{
  for (int n = 0; n < f->program->node_count; n++) {
    tsr__fact *fact = &f->fact[n];
    if (fact->domain < 0) continue;
    fact->level = 0;
    TSR_FOR_OPERANDS (f->program, &f->program->nodes[n], i, o) {
      if (!f->fact[o].tile || f->fact[o].stage != fact->stage) continue;
      int least = f->fact[o].level + (tsr__reach(f, n, i) == TSR__REACH_MEMORY);
      if (least > fact->level) fact->level = least;
    }
  }
}

/* Moves every node to the last level it can have: that of its users, or the last of its domain.
 *
 *   early   y = exp(r) 0    z = sin(x) 0    w = x * y 1 (y is broadcast, and stored before)
 *   late    y          0    z          1    w         1: z and w read x in one pass
 *
 * Users stand after their operands, so one walk from the end settles all. */
static void late_levels(tsr__fusion *f, int *last)
{
  int count = f->program->node_count, domains = f->domain_count;
  for (int n = 0; n < count; n++) {
    const tsr__fact *fact = &f->fact[n];
    if (fact->level < 0) continue;
    int *most = &last[fact->stage * domains + fact->domain];
    /* The last level of a domain in a stage is where its pass over memory would be anyway. */
    if (fact->level > *most) *most = fact->level;
  }
  for (int n = 0; n < count; n++)
    if (f->fact[n].level >= 0)
      f->fact[n].level = last[f->fact[n].stage * domains + f->fact[n].domain];
  for (int n = count - 1; n >= 0; n--) {
    const tsr__fact *fact = &f->fact[n];
    if (fact->level < 0) continue;
    TSR_FOR_OPERANDS (f->program, &f->program->nodes[n], i, o) {
      if (!f->fact[o].tile || f->fact[o].stage != fact->stage) continue;
      /* An operand in memory must be stored one level before, by another kernel. */
      int most = fact->level - (tsr__reach(f, n, i) == TSR__REACH_MEMORY);
      if (most < f->fact[o].level) f->fact[o].level = most;
    }
  }
}

/* ---- accumulators ---------------------------------------------------------------------------- */

static bool find_meetings(tsr__fusion *f, const int *stage)
{
  size_t bytes = (size_t)f->program->node_count * sizeof(int);
  int *meets = tsr__arena_raw(f->scratch, bytes);
  if (!meets) return false;
  tsr__meeting_stages(f->program, stage, meets);
  for (int n = 0; n < f->program->node_count; n++) f->fact[n].meets = meets[n];
  return true;
}

/* The accumulators in order of the stage where devices combine them: a stage combines its
 * accumulators together and frees them. */
static bool find_accums(tsr__fusion *f, const int *stage_of)
{
  const tsr__program *p = f->program;
  tsr__schedule *out = f->out;
  int count = 0, room = 2 * p->node_count + 1, used = 0;
  tsr__accum *all = tsr__arena_raw(f->scratch, (size_t)room * sizeof *all);
  int *of_node = tsr__arena_raw(f->scratch, 2 * (size_t)p->node_count * sizeof *of_node);
  int *place = tsr__arena_raw(f->scratch, 2 * (size_t)room * sizeof *place);
  if (!all || !of_node || !place) return false;
  /* Each node's main accumulator, and the accumulator that counts. */
  count = tsr__accums(p, stage_of, all, of_node);
  out->accum_room = count + 1;
  out->accums = tsr__new_raw(f->heap, (size_t)out->accum_room * sizeof *out->accums);
  out->first_final = tsr__new_raw(f->heap, (size_t)out->accum_room * sizeof(int));
  if (!out->accums || !out->first_final) return false;
  /* In the order of stages, and stable within a stage: each stage's list is built from its end. */
  int *first = f->of_stage, *next = place + room;
  for (int stage = 0; stage < f->stages; stage++) first[stage] = -1;
  for (int a = count - 1; a >= 0; a--) {
    next[a] = first[f->fact[all[a].node].meets];
    first[f->fact[all[a].node].meets] = a;
  }
  for (int stage = 0; stage < f->stages; stage++)
    for (int a = first[stage]; a >= 0; a = next[a]) {
      place[a] = used;
      out->accums[used++] = all[a];
    }
  for (int n = 0; n < p->node_count; n++) {
    out->final_main[n] = of_node[2 * n] < 0 ? -1 : place[of_node[2 * n]];
    out->final_count[n] = of_node[2 * n + 1] < 0 ? -1 : place[of_node[2 * n + 1]];
  }
  out->accum_count = used;
  /* And from each accumulator to the nodes that are read from it. */
  for (int a = 0; a < used; a++) out->first_final[a] = -1;
  for (int n = p->node_count - 1; n >= 0; n--) {
    int main = out->final_main[n];
    if (main < 0) continue;
    out->next_final[n] = out->first_final[main];
    out->first_final[main] = n;
  }
  return true;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Marks the nodes that must be in memory: roots, taps, and operands that are read from memory. */
static void find_stores(tsr__fusion *f)
{
  const tsr__program *p = f->program;
  for (int n = 0; n < p->node_count; n++) {
    const tsr__gnode *g = &p->nodes[n];
    if (f->fact[n].tile && (g->flags & (TSR__ROOT | TSR__SEEN))) f->fact[n].store = true;
    bool in_kernel = f->fact[n].domain >= 0;
    TSR_FOR_OPERANDS (p, g, i, o) {
      int reach = tsr__reach(f, n, i);
      if (!f->fact[o].tile) continue;
      /* Steps and routines read whole shards. A view is stored for them alone; kernels read
       * through it. */
      if (!in_kernel || reach == TSR__REACH_MEMORY) f->fact[o].store = true;
      else if (reach == TSR__REACH_ELEMENT && f->fact[o].kernel != f->fact[n].kernel &&
               !f->fact[o].view)
        f->fact[o].store = true;
    }
  }
}

/* Nodes of kernels in the order in which their kernels run. Accumulators and steps are in the
 * order of stages, too, so that one walk over the stages meets all three lists in step. */
static int by_kernel(const tsr__fact *x, const tsr__fact *y)
{
  if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
  if (x->level != y->level) return x->level < y->level ? -1 : 1;
  return (x->domain > y->domain) - (x->domain < y->domain);
}

/* Sorts node numbers by their kernels, merging runs of doubled length. Stable, so nodes of a
 * kernel stay in the program's order, which emit.c relies on; and without recursion or qsort,
 * whose comparison could not see `f`. */
static void sort_nodes(const tsr__fusion *f, int *list, int *room, int count)
{
  for (int run = 1; run < count; run *= 2) {
    for (int at = 0; at < count; at += 2 * run) {
      int left = at, right = at + run < count ? at + run : count, out = at;
      int middle = right, end = at + 2 * run < count ? at + 2 * run : count;
      while (left < middle || right < end) {
        bool take_left = right >= end || (left < middle && by_kernel(&f->fact[list[left]],
                                                                     &f->fact[list[right]]) <= 0);
        room[out++] = list[take_left ? left++ : right++];
      }
    }
    memcpy(list, room, (size_t)count * sizeof *list);
  }
}

/* Numbers the kernels by stage, level and domain. Nodes that nothing stores and no reduction uses
 * get a number, too; a kernel without results is never written. -1: out of memory. */
static int number_kernels(tsr__fusion *f)
{
  size_t bytes = (size_t)f->program->node_count * sizeof(int);
  int *list = f->kernel_nodes, *room = tsr__arena_raw(f->scratch, bytes);
  int count = 0, kernels = 0;
  if (!room) return -1;
  for (int n = 0; n < f->program->node_count; n++)
    if (f->fact[n].domain >= 0) list[count++] = n;
  sort_nodes(f, list, room, count);
  for (int i = 0; i < count; i++) {
    tsr__fact *fact = &f->fact[list[i]];
    if (!i || by_kernel(&f->fact[list[i - 1]], fact)) f->kernel_first[kernels++] = i;
    fact->kernel = kernels - 1;
    f->kernel_stage[kernels - 1] = fact->stage;
  }
  f->kernel_first[kernels] = count;
  return kernels;
}

/* Which kernels have results, and whose the accumulators are. From the last to the first, so
 * that each node's list begins with its main accumulator. */
static void find_work(tsr__fusion *f)
{
  for (int n = 0; n < f->program->node_count; n++) {
    f->node_accum[n] = -1;
    if (f->fact[n].kernel >= 0 && f->fact[n].store) f->kernel_works[f->fact[n].kernel] = true;
  }
  for (int a = f->out->accum_count - 1; a >= 0; a--) {
    int n = f->out->accums[a].node;
    f->next_accum[a] = f->node_accum[n];
    f->node_accum[n] = a;
    if (f->fact[n].kernel >= 0) f->kernel_works[f->fact[n].kernel] = true;
  }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void append_step(tsr__schedule *out, tsr__step step)
{
  out->steps[out->step_count++] = step;
}

static bool step_is_late(const tsr__fusion *f, int n)
{
  return f->program->nodes[n].flags & TSR__LATE;
}

/* Steps that travel together do so at the last stage among them; late ones have one stage. Called
 * once stages of kernels are settled: users of a delayed step have a later stage already, as
 * partition joins only steps whose results no earlier stage needs. */
static void delay_steps(tsr__fusion *f)
{
  const tsr__program *p = f->program;
  for (int n = 0; n < p->node_count; n++) {
    int next = p->nodes[n].with - 1, stage = f->fact[n].stage;
    if (next > n && f->fact[next].stage < stage) f->fact[next].stage = stage;
    if (next < 0 || next > n) continue;
    for (int k = next; k >= 0; k = tsr__fellow(p, next, k)) f->fact[k].stage = stage;
  }
}

/* The nodes that are steps, by stage. */
static void list_stage_steps(tsr__fusion *f)
{
  delay_steps(f);
  for (int s = -1; s < f->stages; s++) f->of_stage[s + 1] = -1;
  for (int n = f->program->node_count - 1; n >= 0; n--) {
    int op = f->program->nodes[n].op;
    /* Views and look-ups that no kernel can do: their elements are with other devices. */
    bool away = (tsr__is_view(op) || tsr__is_elementwise(op)) && !f->fact[n].tile;
    if (!tsr__is_step(op) && !tsr__is_routine(op) && !away) continue;
    f->fact[n].step = true;
    int *first = &f->of_stage[f->fact[n].stage + 1];
    f->next_step[n] = *first;
    *first = n;
  }
}

static bool add_together(tsr__fusion *f, int first);

/* Whether a step of a stage is done; a late one is done now, if it can be. */
static bool late_step_done(tsr__fusion *f, int n)
{
  int first = n;
  if (f->fact[n].done || !step_is_late(f, n)) return f->fact[n].done;
  for (int k = n; k >= 0; k = tsr__fellow(f->program, n, k)) first = k < first ? k : first;
  return add_together(f, first);
}

/* Whether the steps of its stage that a step needs are done: the late ones, or the others. */
static bool step_ready(tsr__fusion *f, int n, bool late)
{
  const tsr__program *p = f->program;
  TSR_FOR_OPERANDS (p, &p->nodes[n], i, o) {
    /* A part is made by the node that it is a result of, and is ready with it. */
    bool part = tsr__takes_result(p->nodes[o].op);
    int by = part ? tsr__in(p, &p->nodes[o], 0) : o;
    bool here = f->fact[by].step && f->fact[by].stage == f->fact[n].stage;
    if (here && step_is_late(f, by) == late && !late_step_done(f, by)) return false;
  }
  return true;
}

/* Adds a step with all that travel with it, if all are ready. Late ones are asked for last, when
 * nothing else is missing. */
static bool add_together(tsr__fusion *f, int first)
{
  const tsr__program *p = f->program;
  const tsr__gnode *g = &p->nodes[first];
  for (int late = 0; late < 2; late++)
    for (int k = first; k >= 0; k = tsr__fellow(p, first, k))
      if (!step_ready(f, k, late)) return false;
  for (int k = first; k >= 0; k = tsr__fellow(p, first, k)) f->fact[k].done = true;
  int kind = tsr__is_view(g->op) ? TSR__STEP_SHIFT : tsr__step_of(g->op);
  if (tsr__looks_away(g)) kind = TSR__STEP_ROUTINE;
  if (g->flags & TSR__KEPT) kind = TSR__STEP_KEPT;
  append_step(f->out, (tsr__step){ .kind = (uint8_t)kind, .node = first });
  return true;
}

/* Adds a step as the last of those that travel together is met: `with` of the last one in the
 * circle leads to the first, which is the lowest, and only there it is not beyond. */
static bool try_step(tsr__fusion *f, int n)
{
  const tsr__gnode *g = &f->program->nodes[n];
  int first = g->with ? g->with - 1 : n;
  return first <= n && add_together(f, first);
}

/* Tries the steps of a list in order of nodes, and leaves those that have to wait. Returns whether
 * some are done. */
static bool try_steps(tsr__fusion *f, int *list, bool late)
{
  bool some = false;
  while (*list >= 0) {
    int n = *list;
    bool tries = late || !step_is_late(f, n);
    bool done = f->fact[n].done || (tries && try_step(f, n));
    if (done) *list = f->next_step[n];
    else list = &f->next_step[n];
    some |= done;
  }
  return some;
}

/* The steps of a stage in order of nodes; a step that needs a later node's step waits for it. Late
 * steps come right before the first step that needs them, or last if kernels of the next stage do.
 * Each round takes all steps that are ready; a round without any would be a cycle, and programs
 * have no cycles. */
static void order_steps(tsr__fusion *f, int stage)
{
  int *list = &f->of_stage[stage + 1];
  while (*list >= 0) {
    bool some = try_steps(f, list, false) || try_steps(f, list, true);
    TSR_INVARIANT(some);
  }
}

/* How far the kernels and accumulators, both in the order of stages, are scheduled. */
typedef struct progress {
  int kernel, accum;
} progress;

static tsr_status stage_steps(tsr__fusion *f, int stage, int kernels, progress *done)
{
  tsr__schedule *out = f->out;
  for (; done->kernel < kernels && f->kernel_stage[done->kernel] == stage; done->kernel++) {
    /* All of its nodes are computed where they are needed (uniform, views), or by nobody. */
    if (!f->kernel_works[done->kernel]) continue;
    tsr__kernel *kernel;
    tsr_status status = tsr__emit(f, done->kernel, &kernel);
    if (status) return status;
    append_step(out, (tsr__step){
                         .kind = TSR__STEP_KERNEL, .node = kernel->io.domain, .kernel = kernel });
  }
  /* After all kernels of the stage: kernels that accumulate and kernels that only store share the
   * devices, and accumulators that meet over the same axes travel together, also those of earlier
   * stages. */
  int first = done->accum;
  while (done->accum < out->accum_count && f->fact[out->accums[done->accum].node].meets == stage)
    done->accum++;
  if (done->accum > first)
    append_step(out, (tsr__step){ .kind = TSR__STEP_ALL_REDUCE,
                                  .node = out->accums[first].node,
                                  .first = first,
                                  .count = done->accum - first });
  order_steps(f, stage);
  return TSR_OK;
}

static tsr_status make_schedule(tsr__fusion *f, const int *stage)
{
  int count = f->program->node_count, stages = f->stages;
  tsr__schedule *out = f->out;
  find_facts(f, stage);
  early_levels(f);
  size_t last_bytes = (size_t)(stages + 1) * (size_t)(f->domain_count + 1) * sizeof(int);
  int *last = tsr__arena_new(f->scratch, last_bytes);
  if (!last) return tsr__error_set(f->error, TSR_ENOMEM, "no memory for a plan");
  late_levels(f, last);
  int kernels = number_kernels(f);
  if (kernels < 0 || !find_meetings(f, stage) || !find_accums(f, stage))
    return tsr__error_set(f->error, TSR_ENOMEM, "no memory for a plan");
  find_stores(f);
  find_work(f);
  /* A step a kernel, one a node at most, one combining a stage. */
  out->step_room = kernels + count + stages + 2;
  out->steps = tsr__new(f->heap, (size_t)out->step_room * sizeof *out->steps);
  if (!out->steps) return tsr__error_set(f->error, TSR_ENOMEM, "no memory for a plan");
  tsr_status status = TSR_OK;
  progress done = { 0, 0 };
  list_stage_steps(f);
  for (int s = -1; s < stages && !status; s++) status = stage_steps(f, s, kernels, &done);
  return status;
}

enum { INTS = 12 }; /* a node, as start_fusion hands them out */

static bool start_fusion(tsr__fusion *f, int *room)
{
  size_t count = (size_t)f->program->node_count;
  tsr__schedule *out = f->out;
  f->fact = tsr__arena_raw(f->scratch, count * sizeof *f->fact);
  f->kernel_works = tsr__arena_new(f->scratch, count * sizeof *f->kernel_works);
  f->value = tsr__arena_new(f->scratch, count * sizeof *f->value);
  f->marks = tsr__arena_new(f->scratch, (count + 63) / 64 * sizeof *f->marks);
  out->final_main = tsr__new(f->heap, 3 * count * sizeof(int));
  if (!room || !f->fact || !f->kernel_works || !f->value || !f->marks || !out->final_main)
    return false;
  out->final_count = out->final_main + count;
  out->next_final = out->final_count + count;
  /* One allocation for all lists of numbers: planning a small program is mostly allocating. */
  int **lists[] = { &f->domains, &f->kernel_stage, &f->kernel_nodes, &f->node_accum,
                    &f->movers,  &f->numbers,      &f->next_step };
  room += count; /* stages */
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++, room += count) *lists[i] = room;
  f->kernel_first = room; /* one more than nodes */
  f->of_stage = f->kernel_first + count + 1;
  f->next_accum = f->of_stage + count + 1; /* room for find_accums' most */
  for (size_t n = 0, number = 0; n < count; n++) {
    f->value[n].slot = -1;
    f->numbers[n] = (int)number;
    number += f->program->nodes[n].op != TSR__OP_CONST;
  }
  return true;
}

tsr_status tsr__fuse_in(const tsr__program *program, tsr__arena *scratch, tsr__schedule *out,
                        tsr__error *error)
{
  /* Made aside, so that `out` is untouched on failure. */
  tsr__schedule made = { .heap = scratch->heap, .node_count = program->node_count };
  tsr__fusion f = { .program = program, .scratch = scratch, .out = &made, .error = error };
  f.heap = scratch->heap;
  int *room = tsr__arena_new(scratch, (INTS * (size_t)program->node_count + 3) * sizeof(int));
  tsr_status status;
  if (!start_fusion(&f, room)) {
    status = tsr__error_set(error, TSR_ENOMEM, "no memory for a plan");
  } else {
    f.stages = tsr__stages(program, room);
    status = make_schedule(&f, room);
  }
  if (status) tsr__schedule_free(&made);
  else *out = made;
  return status;
}

tsr_status tsr__fuse(const tsr__program *program, tsr__heap *heap, tsr__schedule *out,
                     tsr__error *error)
{
  tsr__arena scratch;
  tsr__arena_init(&scratch, heap);
  tsr_status status = tsr__fuse_in(program, &scratch, out, error);
  tsr__arena_free(&scratch);
  return status;
}

void tsr__schedule_free(tsr__schedule *s)
{
  size_t count = (size_t)s->node_count;
  for (int i = 0; i < s->step_count; i++) tsr__kernel_free(s->steps[i].kernel);
  tsr__del(s->heap, s->steps, (size_t)s->step_room * sizeof *s->steps);
  tsr__del(s->heap, s->accums, (size_t)s->accum_room * sizeof *s->accums);
  tsr__del(s->heap, s->final_main, 3 * count * sizeof(int));
  tsr__del(s->heap, s->first_final, (size_t)s->accum_room * sizeof(int));
  memset(s, 0, sizeof *s);
}
