/* The all-reduce of accumulators. Members send their accumulators to the leader of their group. The
 * leader merges them, rounds each result once and sends the result to the members.
 * A scattered result has leaders, the first members that have each piece; a result that several
 * processes finish is led by the first member in each, which finishes a share of its elements. A
 * member without an output gets no result.
 *
 * Invariant: partials travel exactly, so neither the number of members nor their order can show
 * (products of floats excepted: they are multiplied in order of the members). */
#include "kernel/tile/meeting.h"

typedef tsr__meeting_now meeting;
typedef tsr__piece_run run;

/* Accumulators of a crossing are few and in ascending order; a result may read one that another
 * result brought. */
static const tsr__partial *partial_of(const tsr__all_reduce *c, int member, int accum)
{
  int first = 0, count = c->accum_count; /* ascending */
  while (count > 1) {
    int half = count / 2;
    if (c->accums[first + half] <= accum) first += half;
    count -= half;
  }
  return count && c->accums[first] == accum ? c->partials[member][first] : NULL;
}

/* ---- together -------------------------------------------------------------------------------- */

/* The part of so many elements that is finished here. */
static run share_of_elements(const tsr__share *share, int64_t elements)
{
  if (share->count == 1) return (run){ 0, elements, 0 };
  int64_t first = tsr__share_first(elements, share->index, share->count);
  return (run){ first, tsr__share_first(elements, share->index + 1, share->count) - first, first };
}

/* The others' partials to one member: a run of them, or this process's share (NULL). Accumulator by
 * accumulator, so that the receiver's stays in the cache while all members' are added. */
static tsr_status send_run(const meeting *m, int member, const run *r)
{
  const tsr__all_reduce *c = m->c;
  tsr__traffic uncounted = { 0 };
  for (int a = 0; a < c->accum_count; a++)
    for (int from = 0; from < c->member_count && c->partials[member][a]; from++) {
      const run own = r ? *r : share_of_elements(&c->share, c->partials[from][a]->count);
      const tsr__sending sending = { c->partials[member][a],
                                     c->partials[from][a],
                                     own.first,
                                     own.count,
                                     m->tiles,
                                     m->progress,
                                     c->share.again ? &uncounted : m->traffic };
      /* One sender after the other: the receiver's accumulator is written by one thread. */
      if (from == member || tsr__partial_send(&sending)) continue;
      return tsr__error_set(m->error, TSR_ENOMEM,
                            "device %d has no memory to combine the partial "
                            "results of a reduction; free arrays",
                            c->devices[member]);
    }
  return m->progress->stop ? tsr__cancelled(m->error, TSR__PROGRAM) : TSR_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

/* The results of a run; one of bools begins at a whole word. The slice has its own view of
 * counts, so that readers need not know where they begin. */
static tsr_status read_final_run(const tsr__final *all, const run *r, tsr__error *error)
{
  tsr__final f = *all;
  int dtype = f.node->dtype;
  tsr__partial main = tsr__partial_slice(all->main, r->first, r->count), counts;
  f.main = &main;
  if (f.count) {
    counts = tsr__partial_slice(all->count, r->first, r->count);
    f.count = &counts;
  }
  f.out = (char *)f.out + (size_t)tsr__elements_bytes((tsr_dtype)dtype, r->at);
  f.elements = r->count;
  return main.ops->read(&f, error);
}

/* The members that get the same of a result as a leader, who is the first of them: without pieces
 * all do. -1: no further one. */
static int next_alike(const tsr__all_reduce *c, int member)
{
  if (c->pieces) return c->pieces->next[member];
  return member + 1 < c->member_count ? member + 1 : -1;
}

/* A process that finishes a share copies it to its own devices only, as other members have no
 * output here; `again` then counts the bytes that do not cross in this process but would in one. */
void tsr__send_results(const meeting *m, int member, int k, const run *r)
{
  const tsr__all_reduce *c = m->c;
  int dtype = c->program->nodes[c->finals[k]].dtype;
  size_t begin = (size_t)tsr__elements_bytes((tsr_dtype)dtype, r->at),
         bytes = (size_t)tsr__elements_bytes((tsr_dtype)dtype, r->count);
  const char *from = tsr__cpu_data(c->outputs[member][k]);
  if (c->share.again) m->traffic->bytes += (int64_t)bytes;
  for (int to = c->pieces ? member : 0; to >= 0; to = next_alike(c, to))
    if (to != member && c->outputs[to][k])
      tsr__cpu_move(&(tsr__transfer){ (char *)tsr__cpu_data(c->outputs[to][k]) + begin,
                                      from + begin, bytes, c->devices[to], c->devices[member],
                                      m->streams },
                    m->traffic);
}

static tsr_status finish_run(const meeting *m, int member, int k, const run *all)
{
  const tsr__all_reduce *c = m->c;
  int n = c->finals[k];
  /* Means of masked operands read two accumulators; both have met by now, as they travel
   * together. */
  int count = c->schedule->final_count[n];
  tsr__final f = { .node = &c->program->nodes[n],
                   .attr = tsr__reduce_of(c->program, &c->program->nodes[n]),
                   .main = partial_of(c, member, c->schedule->final_main[n]),
                   .count = count < 0 ? NULL : partial_of(c, member, count),
                   .population = c->populations[k],
                   .out = tsr__cpu_data(c->outputs[member][k]) };
  TSR_INVARIANT(f.main && (count < 0 || f.count));
  if (f.main->rows[0].failed || f.main->rows[1].failed)
    return tsr__error_set(m->error, TSR_ENOMEM,
                          "no memory left for sums that do not fit three doubles");
  for (int64_t done = 0; done < all->count; done += TSR__PARTIAL_SLICE) {
    /* The loop goes by slices, so that long results can be cancelled and a slice is sent while it
     * is in the cache. */
    int64_t left = all->count - done;
    run r = { all->first + done, left < TSR__PARTIAL_SLICE ? left : TSR__PARTIAL_SLICE,
              all->at + done };
    if (tsr__progress_stops(m->progress, 0)) return tsr__cancelled(m->error, TSR__PROGRAM);
    if (read_final_run(&f, &r, m->error)) return m->error->status;
    tsr__send_results(m, member, k, &r);
  }
  return TSR_OK;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/*   array [4, 6, 5], piece [2, 3, 5]      the last dim is whole: a run is 3 * 5 elements, of 2
 *   array [4, 6, 5], piece [2, 6, 5]      the last two are: one run of 2 * 6 * 5 */
tsr__piece_runs tsr__runs_of(const tsr__all_reduce *c, int member, int64_t elements)
{
  const tsr__pieces *pieces = c->pieces;
  tsr__piece_runs p = { pieces, NULL, -1, 1, elements, 1 };
  if (!pieces) return p;
  p.box = &pieces->of_member[member];
  p.last = pieces->rank - 1;
  while (p.last >= 0 && p.box->size[p.last] == pieces->size[p.last])
    p.inner *= pieces->size[p.last--];
  for (int d = 0; d < p.last; d++) p.runs *= p.box->size[d];
  p.length = p.last >= 0 ? p.box->size[p.last] * p.inner : p.inner;
  if (!p.length) p.runs = 0;
  return p;
}

/* `first` counts elements of the whole partial, `at` those of the piece. */
tsr__piece_run tsr__piece_run_at(const tsr__piece_runs *p, int64_t index)
{
  const tsr_box *box = p->box;
  int64_t first = p->last >= 0 ? box->start[p->last] * p->inner : 0, rest = index, step = p->inner;
  for (int d = p->last - 1; d >= 0; d--) {
    step *= p->pieces->size[d + 1];
    first += (box->start[d] + rest % box->size[d]) * step;
    rest /= box->size[d];
  }
  return (tsr__piece_run){ first, p->length, index * p->length };
}

/* Whether a result is read from partials, and not made of whole elements. */
static bool has_result_partials(const tsr__all_reduce *c, int k)
{
  return !c->schedule->accums[c->schedule->final_main[c->finals[k]]].whole;
}

/* The piece of a member; `results`: it is together and to be read. */
static tsr_status each_run(const meeting *m, int member, bool results)
{
  tsr__piece_runs piece = tsr__runs_of(m->c, member, 0);
  for (int64_t row = 0; row < piece.runs; row++) {
    run r = tsr__piece_run_at(&piece, row);
    tsr_status status = results ? TSR_OK : send_run(m, member, &r);
    for (int k = 0; k < m->c->final_count && results && !status; k++)
      if (has_result_partials(m->c, k)) status = finish_run(m, member, k, &r);
    if (status) return status;
  }
  return TSR_OK;
}

/* Members of another process lead there. */
static bool is_member_here(const tsr__all_reduce *c, int member)
{
  return tsr__device_local(tsr__topology_of(c->rt), c->devices[member]);
}

/* The member that finishes this process's share. All members here hold the same result, so any of
 * them would do; the first is the one others expect. */
static int sharer_of(const tsr__all_reduce *c)
{
  int member = 0;
  if (c->share.index < 0) return -1;
  while (!is_member_here(c, member)) member++;
  return member;
}

int tsr__next_leader(const tsr__all_reduce *c, int member)
{
  if (!c->pieces) {
    int sharer = sharer_of(c);
    return sharer < member ? c->member_count : sharer;
  }
  while (member < c->member_count &&
         (c->pieces->first[member] != member || !is_member_here(c, member)))
    member++;
  return member;
}

static tsr_status scatter_pieces(const meeting *m)
{
  tsr_status status = TSR_OK;
  for (int member = tsr__next_leader(m->c, 0); member < m->c->member_count && !status;
       member = tsr__next_leader(m->c, member + 1)) {
    /* All of a member's piece meets before any of it is read. */
    status = each_run(m, member, false);
    if (!status) status = each_run(m, member, true);
  }
  return status;
}

tsr_status tsr__cpu_all_reduce(const tsr__all_reduce *c, tsr__traffic *traffic, tsr__error *error)
{
  tsr__progress progress = { .rt = c->rt, .what = TSR__PROGRAM };
  const meeting m = { c, tsr__cpu_of(c->rt)->tiles, &progress, traffic, error, false };
  tsr_status status = tsr__meet_whole(&m);
  if (c->pieces) return status ? status : scatter_pieces(&m);
  int member = sharer_of(c);
  if (status || member < 0) return status;
  status = send_run(&m, member, NULL);
  for (int k = 0; k < c->final_count && !status; k++) {
    const run own = share_of_elements(&c->share, c->out_counts[k]);
    if (has_result_partials(c, k)) status = finish_run(&m, member, k, &own);
  }
  return status;
}
