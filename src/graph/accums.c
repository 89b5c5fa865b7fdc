/* Accumulators: what the reductions of a program keep while they run, shared where equal, what of
 * them travels between devices, and in which stage each node is computed. */
#include "graph/accums.h"

#include <limits.h>

/* ---- stages ---- */

bool tsr__in_kernel(const tsr__program *program, int n)
{
  int op = program->nodes[n].op;
  if (program->nodes[n].flags & TSR__KEPT) return false;
  if (tsr__is_view(op)) return !tsr__node_shifts(program, n);
  /* A table that lies with other devices needs them: that is a routine's work, not a loop's. */
  if (tsr__looks_away(&program->nodes[n])) return false;
  return tsr__is_elementwise(op);
}

bool tsr__computed_of(const tsr__program *program, int n, const bool *set)
{
  bool any = false, all = tsr__in_kernel(program, n);
  TSR_FOR_OPERANDS (program, &program->nodes[n], i, o) {
    any = any || set[o];
    all = all && (set[o] || program->nodes[o].op == TSR__OP_CONST);
  }
  return any && all;
}

/* Whether a node waits with late movements: it is one, or is computed of such nodes alone. Anything
 * else that it read would be read a second time for it. */
static bool waits_late(const tsr__program *program, int n, const bool *late)
{
  return program->nodes[n].flags & TSR__LATE || tsr__computed_of(program, n, late);
}

/* Whether a step reads a step of its own stage and a formula that waits with late movements: in one
 * stage the formulas of a chain of such steps would all be computed before its first. */
static bool needs_own_stage(const tsr__program *program, const int *stage, int n, const bool *late)
{
  bool waits = false, follows = false;
  TSR_FOR_OPERANDS (program, &program->nodes[n], i, o) {
    bool kernel = tsr__in_kernel(program, o);
    waits = waits || (kernel && late[o]);
    follows = follows ||
              (!kernel && !late[o] && !tsr__is_leaf(program->nodes[o].op) && stage[o] == stage[n]);
  }
  return waits && follows;
}

/* Sets each node's earliest stage, and returns the number of stages. `late`, by node: whether it
 * waits with late movements; NULL: no movement is late.
 *
 *   x, y leaves -1     a = x + y  0     s = sum(a)  0     b = a / s  1     t = sum(b)  1
 *
 * b reads s, which is whole only after the combining of stage 0. */
static int early_stages(const tsr__program *program, int *stage, bool *late)
{
  int last = -1;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *node = &program->nodes[n];
    bool in_kernel = tsr__in_kernel(program, n) || tsr__is_reduction(node->op);
    stage[n] = in_kernel ? 0 : -1;
    TSR_FOR_OPERANDS (program, node, i, o) {
      int ready = stage[o];
      /* What a kernel does not make is there one slot later: -1 for leaves becomes stage 0. */
      if (in_kernel && !tsr__in_kernel(program, o)) ready++;
      if (ready > stage[n]) stage[n] = ready;
    }
    if (late) late[n] = waits_late(program, n, late);
    if (late && !in_kernel && needs_own_stage(program, stage, n, late)) stage[n]++;
    if (stage[n] > last) last = stage[n];
  }
  return last + 1;
}

static bool has_late(const tsr__program *program)
{
  bool any = false;
  for (int n = 0; n < program->node_count && !any; n++) any = program->nodes[n].flags & TSR__LATE;
  return any;
}

/* The last stage in which an operand can be made. */
static int last_for(const tsr__program *program, const int *stage, int user, int operand)
{
  bool kernel = tsr__in_kernel(program, user) || tsr__is_reduction(program->nodes[user].op);
  return stage[user] - (kernel && !tsr__in_kernel(program, operand));
}

/* The walk from the end that delays nodes, as users stand after their operands. */
typedef struct delaying {
  const tsr__program *program;
  int *stage;
  int *until;  /* by node: the last stage in which it can be made */
  int *read;   /* by node: the last stage in which it is read */
  bool *late;  /* by node: it waits with late movements */
  bool *fuses; /* by node: a kernel over the same elements reads it in the stage `until` */
} delaying;

/* Whether a formula that waits for its first user takes no more memory meanwhile: its operands are
 * read later anyway, or take no more than its result, which is not stored then. Sizes of a run are
 * not known.
 *
 *   y = tanh(z)  0    s = 1 - y * y  0, with y    ...    g * s  9     s waits for 9, as y does */
static bool may_wait(const delaying *d, int n)
{
  const tsr__program *program = d->program;
  const tsr__gnode *node = &program->nodes[n];
  int64_t kept = 0, own = tsr__node_device_bytes(program, n);
  bool formula = tsr__is_elementwise(node->op) && tsr__in_kernel(program, n) && node->in_count;
  if (!formula || node->flags & (TSR__ROOT | TSR__SEEN) || !d->fuses[n] || !own) return false;
  TSR_FOR_OPERANDS (program, node, i, o) {
    bool there = d->read[o] >= d->until[n] || program->nodes[o].op == TSR__OP_CONST;
    bool square = i && o == tsr__in(program, node, 0); /* read once */
    if (there || square) continue;
    int64_t bytes = tsr__node_device_bytes(program, o);
    if (bytes > own - kept) return false;
    kept += bytes;
  }
  return true;
}

static bool same_elements(const tsr__gnode *a, const tsr__gnode *b)
{
  return a->rank == b->rank && a->sharding == b->sharding &&
         !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

/* Tells operands how long they can wait: those of late movements not at all, as a movement that
 * travels with others goes back to the first of them. */
static void tell_operands(const delaying *d, int n)
{
  const tsr__program *program = d->program;
  const tsr__gnode *node = &program->nodes[n];
  TSR_FOR_OPERANDS (program, node, i, o) {
    bool moved = node->flags & TSR__LATE;
    int last = moved ? d->stage[o] : last_for(program, d->stage, n, o);
    bool fuses = tsr__is_elementwise(node->op) && tsr__in_kernel(program, n) &&
                 same_elements(node, &program->nodes[o]);
    if (last < d->until[o]) d->fuses[o] = fuses;
    else if (last == d->until[o]) d->fuses[o] |= fuses;
    if (last < d->until[o]) d->until[o] = last;
    if (d->stage[n] > d->read[o]) d->read[o] = d->stage[n];
  }
}

/* A node that waits goes to the last stage in which it can be made, and its operands hear of that
 * before their own turn.
 *
 *   node             early   until   read       then
 *   y = tanh(z)      0       0       0, 0       0, and read until 9
 *   s = 1 - y * y    0       9       9          9
 *   g * s            9       -       -          9 */
static void delay_nodes(const delaying *d)
{
  const tsr__program *program = d->program;
  int count = program->node_count;
  for (int n = 0; n < count; n++) {
    d->until[n] = INT_MAX;
    d->read[n] = -1;
  }
  for (int n = 0; n < count; n++)
    TSR_FOR_OPERANDS (program, &program->nodes[n], i, o)
      if (d->stage[n] > d->read[o]) d->read[o] = d->stage[n];
  for (int n = count - 1; n >= 0; n--) {
    bool waits = d->until[n] > d->stage[n] && d->until[n] < INT_MAX;
    if (waits && (d->late[n] || may_wait(d, n))) d->stage[n] = d->until[n];
    tell_operands(d, n);
  }
}

/* Late movements that travel together do so in the first stage of any. */
static void join_late_stages(const delaying *d)
{
  const tsr__program *program = d->program;
  for (int n = 0; n < program->node_count; n++) {
    int first = d->stage[n];
    if (!d->late[n] || !program->nodes[n].with) continue;
    for (int k = n; k >= 0; k = tsr__fellow(program, n, k))
      if (d->stage[k] < first) first = d->stage[k];
    for (int k = n; k >= 0; k = tsr__fellow(program, n, k)) {
      d->stage[k] = first;
      d->late[k] = false;
    }
  }
}

/* Without memory none waits. */
int tsr__stages(const tsr__program *program, int *stage)
{
  bool any = has_late(program);
  int stages = any ? 0 : early_stages(program, stage, NULL);
  if (!any && stages < 2) return stages;
  size_t count = (size_t)program->node_count, bytes = 2 * count * (sizeof(int) + sizeof(bool));
  int *room = tsr__new(program->heap, bytes);
  bool *flags = (bool *)(room + 2 * count);
  delaying d = { program, stage, room, room + count, flags, flags + count };
  if (!room) return any ? early_stages(program, stage, NULL) : stages;
  if (any) stages = early_stages(program, stage, d.late);
  delay_nodes(&d);
  join_late_stages(&d);
  tsr__del(program->heap, room, bytes);
  return stages;
}

/* ---- in which they meet ---- */

/* Reductions that could meet at once, if at one time. */
typedef struct kind {
  int node;   /* one of them */
  int newest; /* the stage where the latest of them meet; -1: none do yet */
  int until;  /* of those of the stage at hand: how long they can wait */
} kind;

typedef struct waiting {
  const tsr__program *program;
  const int *stage;
  int *until; /* by node: the last stage in which it can meet */
  int *first; /* by stage: its reductions, */
  int *next;  /* by node: and the next of them; -1 */
  kind *kinds;
  int kind_count, stages;
} waiting;

static bool crosses(const tsr__gnode *node)
{
  return node->reduce_axes && tsr__is_reduction(node->op);
}

static kind *kind_of(waiting *w, int n)
{
  const tsr__gnode *nodes = w->program->nodes, *node = &nodes[n];
  const tsr_sharding *at = w->program->shardings;
  int k = 0;
  for (; k < w->kind_count; k++) {
    const tsr__gnode *other = &nodes[w->kinds[k].node];
    if (other->reduce_axes == node->reduce_axes &&
        at[other->sharding].mesh == at[node->sharding].mesh &&
        tsr__scattered_alike(w->program, other, node))
      return &w->kinds[k];
  }
  w->kinds[w->kind_count++] = (kind){ n, -1, INT_MAX };
  return &w->kinds[k];
}

/* What kernels of a stage read has met before; a step reads what meets in its own. */
static void find_untils(waiting *w)
{
  const tsr__program *program = w->program;
  for (int n = 0; n < program->node_count; n++) w->until[n] = INT_MAX;
  for (int n = 0; n < program->node_count; n++) {
    bool kernel = tsr__in_kernel(program, n) || tsr__is_reduction(program->nodes[n].op);
    int last = w->stage[n] - kernel;
    TSR_FOR_OPERANDS (program, &program->nodes[n], i, o)
      if (last < w->until[o]) w->until[o] = last;
  }
}

/* From the last stage to the first: those of a kind and a stage go on to where the next of their
 * kind meet if all of them can wait so long. Where one cannot, nothing is saved. */
static void settle_meetings(waiting *w, int *meets)
{
  for (int s = w->stages - 1; s >= 0; s--) {
    for (int n = w->first[s]; n >= 0; n = w->next[n]) {
      kind *k = kind_of(w, n);
      if (w->until[n] < k->until) k->until = w->until[n];
    }
    for (int n = w->first[s]; n >= 0; n = w->next[n]) {
      const kind *k = kind_of(w, n);
      if (k->newest > s && k->until >= k->newest) meets[n] = k->newest;
    }
    for (int n = w->first[s]; n >= 0; n = w->next[n]) {
      kind *k = kind_of(w, n);
      k->newest = meets[n];
      k->until = INT_MAX;
    }
  }
}

void tsr__meeting_stages(const tsr__program *program, const int *stage, int *meets)
{
  int count = program->node_count, crossing = 0, stages = 0;
  for (int n = 0; n < count; n++) {
    meets[n] = stage[n];
    if (!crosses(&program->nodes[n])) continue;
    crossing++;
    if (stage[n] >= stages) stages = stage[n] + 1;
  }
  if (crossing < 2 || stages < 2) return;
  size_t ints = (2 * (size_t)count + (size_t)stages) * sizeof(int);
  size_t kinds = (size_t)crossing * sizeof(kind);
  waiting w = { .program = program, .stage = stage, .stages = stages };
  w.until = tsr__new(program->heap, ints);
  w.kinds = tsr__new(program->heap, kinds);
  if (w.until && w.kinds) { /* without memory none waits */
    w.next = w.until + count;
    w.first = w.next + count;
    for (int s = 0; s < stages; s++) w.first[s] = -1;
    for (int n = count - 1; n >= 0; n--) {
      if (!crosses(&program->nodes[n])) continue;
      w.next[n] = w.first[stage[n]];
      w.first[stage[n]] = n;
    }
    find_untils(&w);
    settle_meetings(&w, meets);
  }
  tsr__del(program->heap, w.until, ints);
  tsr__del(program->heap, w.kinds, kinds);
}

/* ---- which of them ---- */

const tsr__accum_info tsr__accum_infos[TSR__ACCUMS] = {
#define BITS TSR__TAKES_BITS
#define NATURAL TSR__TAKES_NATURAL
#define TURNED TSR__TAKES_TURNED
#define DOUBLE TSR__TAKES_DOUBLE
#define ORDERED TSR__TAKES_ORDERED
#define ACCUM(id, bytes, count, how) [TSR__ACCUM_##id] = { bytes, count, how },
#define CLASS(...)
#include "graph/accums.def"
#undef BITS
#undef NATURAL
#undef TURNED
#undef DOUBLE
#undef ORDERED
};

/* The rows of a class. Three, as sums of floats to one number are kept as long fixed-point
 * numbers, to many as three f64 each, and integers in 128 bits: each where it costs the least. */
static const struct {
  uint8_t floats_to_one, floats_to_many, others;
} rows[TSR__ACC_CLASSES] = {
#define ACCUM(...)
#define CLASS(id, one, many, rest) \
  [TSR__ACC_##id] = { TSR__ACCUM_##one, TSR__ACCUM_##many, TSR__ACCUM_##rest },
#include "graph/accums.def"
};

/* Whether the node's finalisation also needs a COUNT accumulator. Unmasked ones divide by a
 * number that shapes tell. */
static bool needs_count(const tsr__gnode *node)
{
  return tsr__ops[node->op].finish != TSR__FINISH_VALUE && node->in_count > 1; /* a mask or codes */
}

/* Not grouped, and every dim of the result is 1. */
static bool reduces_to_one(const tsr__program *program, const tsr__gnode *node)
{
  if (tsr__reduce_of(program, node)->groups > 0) return false;
  for (int d = 0; d < node->rank; d++)
    if (node->dims[d] != 1) return false;
  return true;
}

/* The accumulator of `node`, which reduces elements of a dtype. */
static uint8_t row_of(const tsr__program *program, const tsr__gnode *node, int dtype)
{
  int class = tsr__ops[node->op].acc;
  if (!tsr__dtype_rounds((tsr_dtype)dtype)) return rows[class].others;
  if (reduces_to_one(program, node)) return rows[class].floats_to_one;
  return rows[class].floats_to_many;
}

/* Only sums as they are: others are packed by rows of their own, and a mask would have to travel,
 * too. A dim that is not cut has size 1; one that is has a place for each element. */
bool tsr__meets_whole(const tsr__program *program, const tsr__gnode *node,
                      const tsr_sharding *operand, unsigned axes)
{
  const tsr__gnode *x = &program->nodes[tsr__in(program, node, 0)];
  bool sums = tsr__ops[node->op].acc == TSR__ACC_SUM && node->in_count == 1;
  bool floats = tsr__dtype_rounds((tsr_dtype)x->dtype);
  if (!axes || !operand->mesh || !sums || !(floats || x->dtype == TSR_I64)) return false;
  const tsr__reduce_attr *attr = tsr__reduce_of(program, node);
  int64_t members = 1;
  for (int a = 0; a < operand->mesh->axis_count; a++)
    if (axes >> a & 1) members *= operand->mesh->sizes[a];
  bool one = attr->groups <= 0 && members <= TSR__MOST_WHOLE && !(x->flags & TSR__KEPT);
  for (int d = 0; d < x->rank && one; d++) {
    one = x->dims[d] >= 0;
    if (attr->dims >> d & 1) one = one && x->dims[d] == tsr__dim_parts(operand, d);
  }
  return one;
}

static tsr__accum main_accum(const tsr__program *program, int n)
{
  const tsr__gnode *node = &program->nodes[n], *x = &program->nodes[tsr__in(program, node, 0)];
  int dtype = x->dtype;
  bool whole = tsr__meets_whole(program, node, &program->shardings[x->sharding], node->reduce_axes);
  bool kept = x->flags & TSR__KEPT;
  tsr__accum accum = {
    .row = kept ? x->cause : row_of(program, node, dtype),
    .whole = whole && !kept,
    .kept = kept,
    .dtype = (uint8_t)dtype,
    .axes = node->reduce_axes,
    .node = n,
    .operand = tsr__in(program, node, 0),
    .mask = tsr__in(program, node, 1),
    .codes = tsr__in(program, node, 2),
  };
  /* A count of trues is a count with that bool as its mask: so it shares its accumulator with
   * the count that a mean with this mask needs. */
  if (accum.row == TSR__ACCUM_COUNT && accum.mask < 0) {
    accum.mask = accum.operand;
    accum.operand = -1;
  }
  if (accum.row == TSR__ACCUM_COUNT) accum.dtype = TSR_I64;
  /* They are added up as many at once as there are. */
  if (accum.row == TSR__ACCUM_SUM_LONE && whole) accum.row = TSR__ACCUM_SUM_ROWS;
  return accum;
}

/* Without an operand: how many there are does not depend on what they are. */
static tsr__accum count_accum(const tsr__program *program, int n)
{
  const tsr__gnode *node = &program->nodes[n];
  return (tsr__accum){ .row = TSR__ACCUM_COUNT,
                       .dtype = TSR_I64,
                       .axes = node->reduce_axes,
                       .node = n,
                       .operand = -1,
                       .mask = tsr__in(program, node, 1),
                       .codes = tsr__in(program, node, 2) };
}

tsr_sharding tsr__partial_place(const tsr_sharding *at, unsigned axes)
{
  tsr_sharding out;
  uint8_t used = 0;
  /* Places are compared as bytes. Sums that are not made and priorities are no part of where
   * partials lie. */
  memset(&out, 0, sizeof out);
  out.mesh = at->mesh;
  out.rank = at->rank;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    for (int i = at->first[d]; i < at->first[d + 1]; i++)
      if (!(axes >> at->axis[i] & 1)) out.axis[used++] = at->axis[i];
    out.first[d + 1] = used;
  }
  return out;
}

bool tsr__is_scattered(const tsr__program *program, const tsr__gnode *node)
{
  return node->reduce_axes &&
         tsr__used_axes(&program->shardings[node->sharding]) & node->reduce_axes;
}

/* Scattered results are finished piece by piece: which piece depends on shape and sharding, so
 * those must agree, too. */
bool tsr__scattered_alike(const tsr__program *program, const tsr__gnode *a, const tsr__gnode *b)
{
  bool scattered = tsr__is_scattered(program, a);
  if (scattered != tsr__is_scattered(program, b)) return false;
  return !scattered || (a->sharding == b->sharding && a->rank == b->rank &&
                        !memcmp(a->dims, b->dims, sizeof a->dims));
}

/* Which elements of what meet, and on which mesh: reductions that differ only in keep, ddof or op
 * may share. A count that is needed in two stages is made in each, since it is combined and gone in
 * between. */
static bool shares(const tsr__program *program, const int *stage, const tsr__accum *a,
                   const tsr__accum *b)
{
  const tsr_sharding *at = program->shardings;
  if (a->operand != b->operand || a->mask != b->mask || a->codes != b->codes || a->row != b->row ||
      a->dtype != b->dtype || a->axes != b->axes)
    return false;
  const tsr__reduce_attr *left = tsr__reduce_of(program, &program->nodes[a->node]);
  const tsr__reduce_attr *right = tsr__reduce_of(program, &program->nodes[b->node]);
  return stage[a->node] == stage[b->node] && left->dims == right->dims &&
         left->groups == right->groups &&
         at[program->nodes[a->node].sharding].mesh == at[program->nodes[b->node].sharding].mesh &&
         !((program->nodes[a->node].flags ^ program->nodes[b->node].flags) & TSR__KEPT) &&
         tsr__scattered_alike(program, &program->nodes[a->node], &program->nodes[b->node]);
}

int tsr__accums_of(const tsr__program *program, int n, tsr__accum out[2])
{
  const tsr__gnode *node = &program->nodes[n];
  if (tsr__ops[node->op].acc == TSR__ACC_NONE) return 0;
  out[0] = main_accum(program, n);
  if (!needs_count(node)) return 1;
  out[1] = count_accum(program, n);
  return 2;
}

/* Accumulators of one operand hang in one list: two that share must have it, so only these are
 * compared. */
typedef struct listing {
  const tsr__program *program;
  const int *stage;
  int *first, *next; /* by operand + 1, by accumulator + 1: the newest of the operand; 0: none.
                        NULL out of memory: nothing is shared then, which computes more, and the
                        same results */
  tsr__accum *out;
  int count;
} listing;

static int list_accum(listing *l, const tsr__accum *accum)
{
  int *first = l->first ? &l->first[accum->operand + 1] : NULL;
  for (int i = first ? *first : 0; i; i = l->next[i])
    if (shares(l->program, l->stage, &l->out[i - 1], accum)) return i - 1;
  l->out[l->count++] = *accum;
  if (!first) return l->count - 1;
  l->next[l->count] = *first;
  *first = l->count;
  return l->count - 1;
}

int tsr__accums(const tsr__program *program, const int *stage, tsr__accum *out, int *of_node)
{
  enum { FEW = 64 };
  int few[3 * FEW];
  size_t nodes = (size_t)program->node_count + 1, room = 3 * nodes * sizeof(int);
  /* A node has two accumulators at most, and they are numbered from 1. */
  int *lists = nodes <= FEW ? few : tsr__new_raw(program->heap, room);
  listing l = { .program = program, .stage = stage, .first = lists, .out = out };
  if (lists) {
    l.next = lists + nodes;
    memset(lists, 0, nodes * sizeof *lists); /* `next` is written before it is read */
  }
  for (int n = 0; n < program->node_count; n++) {
    tsr__accum mine[2];
    /* A mean's pair: the sum and, where masked, the count that it is divided by. */
    int found[2] = { -1, -1 };
    int wanted = tsr__accums_of(program, n, mine);
    for (int k = 0; k < wanted; k++) found[k] = list_accum(&l, &mine[k]);
    memcpy(&of_node[2 * n], found, sizeof found);
  }
  if (lists != few) tsr__del(program->heap, lists, room);
  return l.count;
}

/* ---- bytes on the way ---- */

int64_t tsr__wire_bytes(int row, int dtype, int64_t count)
{
  const tsr__accum_info *info = &tsr__accum_infos[row];
  /* Fixed words of a long number, or values of the operand's own type, or both (a key and its
   * place). */
  return (info->fixed + info->values * (int64_t)tsr_dtype_size((tsr_dtype)dtype)) * count;
}

int64_t tsr__accum_bytes(const tsr__accum *accum, int64_t count)
{
  if (accum->whole) return count * (int64_t)tsr_dtype_size((tsr_dtype)accum->dtype);
  return tsr__wire_bytes(accum->row, accum->dtype, count);
}
