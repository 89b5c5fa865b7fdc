/* Taking from a table that is sharded along the indexed dims: each device has some of the entries
 * and gives other devices the entries that they look for.
 *
 *   table, cut in 3   [a b][c d][e]        out[g, a, i, b] = table[g, a, index[g, i], b]
 *   indices           3 0 0                of the own entries, else of the device that has them
 *   the first device  d a a                d crosses, a is here
 *
 * All devices that differ along the table's axes alone look for the same elements, and each of
 * these lies on one of them: p - 1 of p devices are sent it, whatever the indices are. But of FETCH
 * each device has indices of its own, which decide the bytes. Elements are copied as they are, so
 * no mesh changes a result. */
#include "kernel/routine/routine.h"

#include "kernel/device/cpu.h"

enum { TASK = 1 << 15 }; /* elements of a task */

typedef struct looking {
  const tsr__call *call;
  const tsr__gnode *node, *table;
  int first, last;         /* dims of the table that are looked into, as one */
  int batch;               /* dims before those that the indices have, too */
  bool each;               /* each element of the result has an index of its own */
  bool own;                /* each run has: the same elements before the dim have others */
  tsr__line_groups groups; /* that together hold the table */
  int64_t *tasks;          /* [part]: before it */
  _Atomic int64_t moved;
  tsr__progress progress;
} looking;

/* The runs of a part of the result: `length` elements, an index each. `round`: those of one element
 * of the batch dims, which read its `middle` indices again and again. */
typedef struct lines {
  int64_t round, middle, after, runs, length;
} lines;

/* If each element has its own index (take_along), a run is one element; else a run is all elements
 * after the dim, consecutive in table and result. */
static lines runs_of_part(const looking *l, int part)
{
  const tsr_box *box = &l->call->parts[part].out[0].box;
  /* The number of dims of the result that stand for the indexed dims: as many as the index has. */
  int rank = l->node->rank, span = rank - l->table->rank + l->last - l->first + 1;
  lines s = { 1, 1, 1, 1, 1 };
  if (l->each) span = 1;
  for (int d = 0; d < rank; d++) {
    s.runs *= box->size[d];
    if (d >= l->first + span) s.after *= box->size[d];
    else if (d >= l->batch) s.round *= box->size[d];
    if (d >= l->first && d < l->first + span) s.middle *= box->size[d];
  }
  if (l->each) return s;
  s.length = s.after;
  s.runs = s.after ? s.runs / s.after : 0;
  return s;
}

/* Which of the indices run `u` has. */
static int64_t index_at(const looking *l, const lines *s, int part, int64_t u)
{
  const int64_t *index = tsr__cpu_data(l->call->parts[part].in[1].buffer);
  return index[l->own ? u : u / s->round * s->middle + u % s->middle];
}

static int64_t count_entries(const looking *l)
{
  int64_t count = 1;
  for (int d = l->first; d <= l->last; d++) count *= l->table->dims[d];
  return count;
}

/* The place of an entry among those of a part; -1: the part lacks the entry. A device has a box of
 * the entries, which may be sharded along each of the indexed dims. */
static int64_t place_in(const looking *l, int part, int64_t entry)
{
  const tsr_box *box = &l->call->parts[part].in[0].box;
  /* From the last dim on, which runs fastest in the entry's number and in the box. */
  int64_t place = 0, scale = 1;
  for (int d = l->last; d >= l->first; d--) {
    int64_t here = entry % l->table->dims[d] - box->start[d];
    entry /= l->table->dims[d];
    if (here < 0 || here >= box->size[d]) return -1;
    place += here * scale;
    scale *= box->size[d];
  }
  return place;
}

/* ---- indices --------------------------------------------------------------------------------- */

/* The position of the first element of a run in the whole result. */
static int64_t position_of_run(const looking *l, int part, int64_t at)
{
  const tsr_box *box = &l->call->parts[part].out[0].box;
  int64_t position = 0, scale = 1;
  for (int d = l->node->rank - 1; d >= 0; d--) {
    position += (box->start[d] + at % box->size[d]) * scale;
    at /= box->size[d];
    scale *= l->node->dims[d];
  }
  return position;
}

/* The first element of the whole that has an index out of range; all devices look. Before
 * anything is copied, so that results are not touched by a call that fails. */
static tsr_status check_indices(looking *l, tsr__error *error)
{
  int64_t limit = count_entries(l), first = INT64_MAX, value = 0;
  for (int p = 0; p < l->call->part_count; p++) {
    lines s = runs_of_part(l, p);
    for (int64_t u = 0; u < s.runs; u++) {
      /* Later runs of a round read the indices of its first ones. */
      if (!l->own && u % s.round == s.middle) u += s.round - s.middle;
      if (u >= s.runs) break;
      int64_t index = index_at(l, &s, p, u);
      if (index >= -limit && index < limit) continue;
      int64_t position = position_of_run(l, p, u * s.length);
      if (position < first) value = index;
      if (position < first) first = position;
      break;
    }
  }
  if (first == INT64_MAX) return TSR_OK;
  return tsr__error_set(error, TSR_EVALUE,
                        "tsr_%s: index %lld at position %lld of the result is out of range, "
                        "expected %lld to %lld",
                        tsr__ops[l->node->op].name, (long long)value, (long long)first,
                        (long long)-limit, (long long)limit - 1);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* A run of a table's shard to one of the result's. */
typedef struct giving {
  int from, to; /* parts */
  int64_t from_at, to_at, length;
} giving;

/* Bools travel as bytes. */
static void give_bits(const looking *l, const giving *g, tsr__traffic *traffic)
{
  const tsr__call_part *from = &l->call->parts[g->from], *to = &l->call->parts[g->to];
  for (int64_t i = 0; i < g->length; i++) {
    uint8_t here = 0,
            there = (uint8_t)tsr__bits_get(tsr__cpu_data(from->in[0].buffer), g->from_at + i, 1);
    tsr__cpu_move(&(tsr__transfer){ &here, &there, 1, to->device, from->device, false }, traffic);
    tsr__bits_put(tsr__cpu_data(to->out[0].buffer), g->to_at + i, 1, here);
  }
}

static void give_run(const looking *l, const giving *g, tsr__traffic *traffic)
{
  const tsr__call_part *from = &l->call->parts[g->from], *to = &l->call->parts[g->to];
  size_t size = tsr_dtype_size((tsr_dtype)l->node->dtype);
  if (l->node->dtype == TSR_BOOL) {
    give_bits(l, g, traffic);
    return;
  }
  tsr__cpu_move(
      &(tsr__transfer){ (char *)tsr__cpu_data(to->out[0].buffer) + (size_t)g->to_at * size,
                        (const char *)tsr__cpu_data(from->in[0].buffer) + (size_t)g->from_at * size,
                        (size_t)g->length * size, to->device, from->device, false },
      traffic);
}

/* The search of a task: a part, its group, and the member that had the run before. */
typedef struct search {
  int part, hint;
  const int *member;
} search;

/* Finds run `u` at the member that has it. */
static giving find_run(const looking *l, search *at, const lines *s, int64_t u)
{
  int64_t index = index_at(l, s, at->part, u), limit = count_entries(l), place = -1;
  int64_t entry = index < 0 ? index + limit : index;
  /* The member that had the last one first: indices are often sorted or near each other. */
  for (int k = 0; k < l->groups.members && place < 0; k++) {
    place = place_in(l, at->member[at->hint], entry);
    if (place < 0) at->hint = (at->hint + 1) % l->groups.members;
  }
  /* check_indices saw to that: each entry is held by a member. */
  TSR_INVARIANT(place >= 0);
  const tsr_box *box = &l->call->parts[at->member[at->hint]].in[0].box;
  int64_t along = 1, a = l->each ? u / (s->middle * s->after) : u / s->middle;
  for (int d = l->first; d <= l->last; d++) along *= box->size[d];
  int64_t b = l->each ? u % s->after : 0;
  return (giving){ .from = at->member[at->hint],
                   .to = at->part,
                   .from_at = (a * along + place) * s->after + b,
                   .to_at = u * s->length,
                   .length = s->length };
}

static int64_t runs_of_task(const looking *l, const lines *s)
{
  if (l->node->dtype == TSR_BOOL) return s->runs ? s->runs : 1; /* tasks share no word */
  int64_t runs = TASK / (s->length ? s->length : 1);
  return runs ? runs : 1;
}

static void look_for_runs_task(void *user, int64_t task, int worker)
{
  looking *l = user;
  search at = { .member = l->groups.part };
  while (at.part + 1 < l->call->part_count && task >= l->tasks[at.part + 1]) at.part++;
  /* Groups stand one after the other in the list, so a place modulo `members` is the member's
   * number. The search begins with the device's own entries. */
  const int *mine = at.member;
  while (*mine != at.part) mine++;
  at.hint = (int)((mine - at.member) % l->groups.members);
  at.member = mine - at.hint;
  lines s = runs_of_part(l, at.part);
  int64_t some = runs_of_task(l, &s), first = (task - l->tasks[at.part]) * some, left = 0;
  int64_t end = s.runs - first < some ? s.runs : first + some;
  tsr__traffic traffic = { 0 };
  for (int64_t u = first; u < end; u++, left += s.length) {
    if (left > TASK && tsr__progress_stops(&l->progress, worker)) break;
    if (left > TASK) left = 0;
    giving g = find_run(l, &at, &s, u);
    give_run(l, &g, &traffic);
  }
  atomic_fetch_add(&l->moved, traffic.bytes);
}

/* ---- runs of another host -------------------------------------------------------------------- */

/* Runs of the table's parts that are looked for, as bits. */
typedef struct asking {
  const looking *l;
  uint64_t *bits;
  int64_t *words; /* [part]: words of the parts before it */
} asking;

/* The elements of a run of a part, 1 for an empty part. Parts of a group agree. */
static int64_t length_in(const looking *l, int part)
{
  int64_t length = runs_of_part(l, part).length;
  return length ? length : 1;
}

static int64_t words_of_bits(const looking *l, int part)
{
  const tsr_box *box = &l->call->parts[part].in[0].box;
  return tsr__box_count(box, l->table->rank) / length_in(l, part) / 64 + 1;
}

/* The first part that reads the same memory, of which this one is a replica. */
static int first_alike(const looking *l, int part)
{
  int first = 0;
  while (l->call->parts[first].in[0].buffer != l->call->parts[part].in[0].buffer) first++;
  return first;
}

/* Marks the runs that part k of the groups takes. */
static void mark_runs(const asking *a, int k)
{
  const looking *l = a->l;
  int part = l->groups.part[k], own = k % l->groups.members;
  search at = { part, own, &l->groups.part[k - own] };
  lines s = runs_of_part(l, part);
  for (int64_t u = 0; u < s.runs && s.length; u++) {
    giving g = find_run(l, &at, &s, u);
    int64_t run = g.from_at / s.length;
    a->bits[a->words[first_alike(l, g.from)] + run / 64] |= UINT64_C(1) << run % 64;
  }
}

/* Runs with no more than `gap` others between them go together; returns how many those are. */
static int64_t ask_for_runs(const asking *a, int part, int64_t gap, bool wants)
{
  const tsr__call_reads *reads = a->l->call->reads;
  const uint64_t *bits = a->bits + a->words[part];
  const int64_t length = length_in(a->l, part), all = 64 * words_of_bits(a->l, part);
  int64_t first = -1, end = 0, count = 0;
  for (int64_t run = 0; run <= all; run++) {
    if (run < all && !(bits[run / 64] >> run % 64)) run |= 63;
    else if (run == all || bits[run / 64] >> run % 64 & 1) {
      if (first >= 0 && (run == all || run - end > gap)) {
        count++;
        if (wants)
          reads->want(reads->user, &a->l->call->parts[part], first * length,
                      (end - first) * length);
        first = -1;
      }
      if (first < 0) first = run;
      end = run + 1;
    }
  }
  return count;
}

/* Runs that lie near are asked for together: so many bytes come sooner than one more answer. */
static void ask_all(const asking *a)
{
  enum { NEAR = 4096, MOST = 4096 };
  const looking *l = a->l;
  const int64_t size = (int64_t)tsr_dtype_size((tsr_dtype)l->node->dtype);
  for (int p = 0; p < l->call->part_count; p++) {
    int64_t gap = NEAR / (length_in(l, p) * size);
    if (!tsr__buffer_lent(l->call->parts[p].in[0].buffer) || first_alike(l, p) != p) continue;
    while (ask_for_runs(a, p, gap, false) > MOST) gap = 2 * gap + 1;
    ask_for_runs(a, p, gap, true);
  }
}

/* One block:  words | bits  */
static tsr_status see_tables(const looking *l, tsr__error *error)
{
  const int count = l->call->part_count;
  const tsr__call_reads *reads = l->call->reads;
  int64_t words = 0;
  if (!reads) return TSR_OK;
  asking a = { .l = l };
  for (int p = 0; p < count; p++) words += words_of_bits(l, p);
  size_t bytes = ((size_t)count + (size_t)words) * sizeof *a.bits;
  a.words = tsr__new(&l->call->rt->heap, bytes);
  if (!a.words) return tsr__error_set(error, TSR_ENOMEM, "no memory to run a program");
  a.bits = (uint64_t *)(a.words + count);
  for (int p = 1; p < count; p++) a.words[p] = a.words[p - 1] + words_of_bits(l, p - 1);
  for (int k = 0; k < l->groups.count * l->groups.members; k++)
    if (l->call->parts[l->groups.part[k]].out[0].buffer) mark_runs(&a, k);
  ask_all(&a);
  tsr__del(&l->call->rt->heap, a.words, bytes);
  return reads->come(reads->user, error);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static tsr_status look_all(looking *l, tsr__error *error)
{
  int count = l->call->part_count;
  int64_t tasks = 0, elements = 0;
  for (int p = 0; p < count; p++) {
    lines s = runs_of_part(l, p);
    int64_t some = runs_of_task(l, &s);
    l->tasks[p] = tasks;
    /* Another process's: it makes that itself. */
    if (!l->call->parts[p].out[0].buffer) continue;
    tasks += (s.runs + some - 1) / some;
    elements += s.runs * s.length;
  }
  /* Too little to wake anybody for. */
  if (elements <= TASK)
    for (int64_t t = 0; t < tasks; t++) look_for_runs_task(l, t, 0);
  else tsr__parallel_progress(&l->progress, tasks, look_for_runs_task, l);
  if (l->call->traffic) l->call->traffic->bytes += l->moved;
  if (l->call->traffic && tsr__ops[l->node->op].fetches) l->call->traffic->escapes += l->moved;
  return atomic_load(&l->progress.stop) ? tsr__cancelled(error, l->progress.what) : TSR_OK;
}

tsr_status tsr__routine_take(const tsr__call *call, tsr__error *error)
{
  const tsr__gnode *node = tsr__call_node(call);
  looking l = { .call = call,
                .node = node,
                .table = &call->program->nodes[tsr__in(call->program, node, 0)],
                .first = tsr__call_dim(call),
                .batch = tsr__batch_of(call->program, node),
                .each = tsr__ops[node->op].each_line,
                .own = tsr__ops[node->op].each_line || tsr__ops[node->op].fetches,
                .progress = { .rt = call->rt, .what = TSR__PROGRAM } };
  l.last = l.first + tsr__more_of(call->program, node);
  size_t bytes = ((size_t)call->part_count + 1) * sizeof *l.tasks;
  l.tasks = tsr__new(&call->rt->heap, bytes);
  if (!l.tasks) return tsr__error_set(error, TSR_ENOMEM, "no memory to run a program");
  tsr_status status =
      tsr__groups_over(call, tsr__cpu_call_axes(call->program, call->node), &l.groups, error);
  if (!status) status = check_indices(&l, error);
  if (!status) status = see_tables(&l, error);
  if (!status) status = look_all(&l, error);
  tsr__line_groups_free(call, &l.groups);
  tsr__del(&call->rt->heap, l.tasks, bytes);
  return status;
}
