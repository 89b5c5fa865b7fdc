/* Accumulators and whole elements of other processes, for the time that a reduction is combined.
 *
 *    accumulator a of a step     position   0    1  |  2    3
 *    of this process             partials   p    p  |  -    -
 *    while all meet              met        p    p  |  far  far      far: read where it lies
 *
 * Each process publishes its accumulators, as the device's entry `partial_tell` describes them.
 * Nobody waits until peers have read: published memory is freed at the next meeting, to which
 * peers come after their reads. */
#include "execute/engine.h"

/* Memory that peers may read until the next meeting, in one block of the heap. All in it is owned;
 * `copies` are those that came with published partials, NULL for a partial without one. */
typedef struct lent {
  tsr_runtime *rt;
  size_t bytes;
  int partial_count, kept_count, copy_count;
  tsr__partial **partials;
  tsr__kept **kept;
  tsr__buffer **copies;
} lent;

/* A step that meets: its accumulators one after another, by position. */
typedef struct meeting {
  tsr__exec *exec;
  tsr__peers *peers;
  const tsr__step *step;
  tsr__partial_told *told;
  int told_count;
  tsr__peers_note *notes;
  size_t *next; /* [process]: bytes of its note that were read */
  lent *lent;   /* NULL: peers read no memory of this step */
} meeting;

static const tsr__accum *accum_of(const tsr__exec *exec, int a)
{
  return &exec->plan->schedule.accums[a];
}

/* An accumulator without a mesh is each process's own. */
static int process_of_partial(const tsr__exec *exec, int a, int position)
{
  const tsr_sharding *sharding = tsr__sharding_of(exec, accum_of(exec, a)->node);
  if (!sharding->mesh) return tsr__topology_of(exec->rt)->process_index;
  return tsr__device_process(tsr__topology_of(exec->rt), tsr__position_device(sharding, position));
}

static int positions_of(const tsr__exec *exec, int a)
{
  return tsr__positions(tsr__sharding_of(exec, accum_of(exec, a)->node));
}

/* Whether an accumulator is combined over devices; else it stays in place. A sum that stays
 * unreduced (TSR__KEPT) has axes and combines nothing now. */
static bool is_combined(const tsr__exec *exec, int a)
{
  const tsr__accum *accum = accum_of(exec, a);
  return accum->axes && !(exec->program->nodes[accum->node].flags & TSR__KEPT);
}

/* Whether some group of an accumulator has members in several processes. */
static bool accum_crosses_processes(const tsr__exec *exec, int a)
{
  const tsr_mesh *mesh = tsr__sharding_of(exec, accum_of(exec, a)->node)->mesh;
  return is_combined(exec, a) && tsr__groups_are_apart(exec->rt, mesh, accum_of(exec, a)->axes);
}

/* The answer follows from the plan, so that all processes agree. */
bool tsr__step_is_apart(tsr_runtime *rt, const tsr__plan *plan, const tsr__step *step)
{
  const tsr__exec exec = { .rt = rt, .plan = plan, .program = &plan->parts.program };
  for (int a = step->first; a < step->first + step->count; a++)
    if (accum_crosses_processes(&exec, a)) return true;
  return false;
}

/* ---- publishing ------------------------------------------------------------------------------ */

static tsr_status publish_partial(meeting *m, const tsr__partial *partial)
{
  tsr__buffer **copy = &m->lent->copies[m->lent->copy_count++];
  tsr__partial_told *told = &m->told[m->told_count++];
  return tsr__devices_of(m->exec->rt)->ops->partial_tell(partial, told, copy, m->exec->error);
}

/* This process's partials of an accumulator: from its kernels, or of an unreduced sum. */
static tsr__partial **brought(const meeting *m, int a)
{
  tsr__kept *kept = m->exec->kept[a - m->step->first];
  return kept ? kept->partials : m->exec->partials[a];
}

/* An accumulator without a mesh is each process's own. */
static bool is_published(const meeting *m, int a)
{
  return is_combined(m->exec, a) && brought(m, a) &&
         tsr__sharding_of(m->exec, accum_of(m->exec, a)->node)->mesh;
}

/* Takes the accumulators of sums that earlier steps left unreduced: they meet in this step. */
static tsr_status take_kept(const meeting *m)
{
  tsr__exec *exec = m->exec;
  for (int a = m->step->first; a < m->step->first + m->step->count; a++) {
    tsr__kept **kept = &exec->kept[a - m->step->first];
    if (!accum_of(exec, a)->kept) continue;
    *kept = tsr__exec_kept_meets(exec, m->step, a);
    if (!*kept) return exec->error->status;
  }
  return TSR_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads a partial of another process. NULL: no memory, or that process published less than the
 * plan says. */
static tsr__partial *read_far(meeting *m, int a, int position)
{
  int process = process_of_partial(m->exec, a, position);
  const tsr__peers_note *note = &m->notes[process];
  tsr__partial_told told;
  if (m->next[process] + sizeof told > note->size) {
    tsr__error_set(m->exec->error, TSR_EPEER,
                   "process %d published fewer partial sums than this process expects", process);
    return NULL;
  }
  memcpy(&told, (const char *)note->data + m->next[process], sizeof told);
  m->next[process] += sizeof told;
  const tsr__accum *accum = accum_of(m->exec, a);
  tsr__partial_ask ask = { tsr__position_device(tsr__sharding_of(m->exec, accum->node), position),
                           m->exec->program, accum, tsr__partial_count(m->exec, a, position) };
  return tsr__devices_of(m->exec->rt)->ops->partial_far(m->exec->rt, &ask, &told, m->exec->error);
}

/* Reads an accumulator's partials of all processes. Positions are walked in the order in which
 * each process published its own, so notes need no names. */
static tsr_status read_accum_partials(meeting *m, int a)
{
  tsr__exec *exec = m->exec;
  int positions = positions_of(exec, a), own = tsr__peers_index(m->peers);
  tsr__partial **met = tsr__arena_new(exec->scratch, (size_t)positions * sizeof *met);
  if (!met) return tsr__no_memory_to_combine(exec);
  exec->met[a] = met;
  for (int p = 0; p < positions; p++) {
    if (process_of_partial(exec, a, p) == own) {
      met[p] = brought(m, a)[p];
      continue;
    }
    met[p] = read_far(m, a, p);
    if (!met[p]) return exec->error->status;
  }
  return TSR_OK;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/*   lent | partials | kept | copies */
static lent *lent_new(const meeting *m, size_t partials)
{
  tsr__heap *heap = &m->exec->rt->heap;
  size_t kept = (size_t)m->step->count, words = 2 * partials + kept;
  size_t bytes = sizeof(lent) + words * sizeof(void *);
  lent *l = tsr__new(heap, bytes);
  if (!l) return NULL;
  *l = (lent){ .rt = m->exec->rt, .bytes = bytes };
  l->partials = (tsr__partial **)(l + 1);
  l->kept = (tsr__kept **)(l->partials + partials);
  l->copies = (tsr__buffer **)(l->kept + kept);
  return l;
}

/* Whether the step publishes accumulators, and not elements alone, or holds unreduced sums for
 * as long. */
static bool some_accumulators(const meeting *m)
{
  for (int a = m->step->first; a < m->step->first + m->step->count; a++)
    if (!accum_of(m->exec, a)->whole || accum_of(m->exec, a)->kept) return true;
  return false;
}

/* The number of results of a step, or more. */
static int finals_of(const meeting *m)
{
  const tsr__schedule *schedule = &m->exec->plan->schedule;
  int finals = 0;
  for (int a = m->step->first; a < m->step->first + m->step->count; a++)
    for (int n = schedule->first_final[a]; n >= 0; n = schedule->next_final[n]) finals++;
  return finals;
}

/* All memory is the run's, except `lent`, which may outlive the run. */
static tsr_status open_meeting(meeting *m)
{
  tsr__exec *exec = m->exec;
  size_t partials = 0, processes = (size_t)tsr__peers_count(m->peers);
  size_t accums = (size_t)exec->plan->schedule.accum_count + 1;
  size_t count = (size_t)m->step->count;
  for (int a = m->step->first; a < m->step->first + m->step->count; a++)
    partials += (size_t)positions_of(exec, a);
  m->told = tsr__arena_new(exec->scratch, (partials + 1) * sizeof *m->told);
  m->notes = tsr__arena_new(exec->scratch, processes * sizeof *m->notes);
  m->next = tsr__arena_new(exec->scratch, processes * sizeof *m->next);
  exec->met = tsr__arena_new(exec->scratch, accums * sizeof *exec->met);
  exec->kept = tsr__arena_new(exec->scratch, count * sizeof *exec->kept);
  exec->copies = tsr__arena_new(exec->scratch, count * sizeof *exec->copies);
  exec->whole = tsr__arena_new(exec->scratch, (count + (size_t)finals_of(m)) * sizeof *exec->whole);
  bool lends = some_accumulators(m);
  if (lends) m->lent = lent_new(m, partials);
  if (!m->told || !m->notes || !m->next || !exec->met || !exec->kept || !exec->copies ||
      !exec->whole || (lends && !m->lent))
    return tsr__no_memory_to_combine(exec);
  return TSR_OK;
}

/* Whether accumulators meet in a step, and not elements alone; the answer follows from the plan.
 * If only elements meet, no process publishes accumulators or comes to that meeting. */
static bool step_has_partials(const meeting *m)
{
  for (int a = m->step->first; a < m->step->first + m->step->count; a++)
    if (is_combined(m->exec, a) && !accum_of(m->exec, a)->whole) return true;
  return false;
}

static bool closes(const meeting *m)
{
  const tsr__plan *plan = m->exec->plan;
  return m->exec->outer && m->step - plan->schedule.steps == plan->closes;
}

/* Adds results whose parts processes finish for each other to exec->whole, after the operands
 * that meet whole. The results are made before the meeting, each process publishes where they
 * lie, and peers write finished parts there, so that no part is copied once more. Results on
 * another host cannot be written; there, and where each process has complete results, nothing is
 * added. */
static void list_results(meeting *m, tsr__sight *sight)
{
  tsr__exec *exec = m->exec;
  if (tsr__peers_hosts(m->peers) > 1) return;
  for (tsr__crossing *c = exec->crossings; c; c = c->next) {
    if (!c->sharding->mesh || tsr__deal_is_complete(exec, c)) continue;
    c->given = m->step->count + sight->result_count;
    sight->result_count += c->final_count;
    for (int f = 0; f < c->final_count; f++) exec->whole[c->given + f] = exec->values[c->finals[f]];
  }
  /* A run that checks each step's values does not wait for its end, and the end of a run within
   * another is no meeting. */
  sight->ends = closes(m) && tsr__peers_ends_next(m->peers) && !exec->rt->check;
}

/* Reads partials first, then whole elements, each in one meeting. */
static tsr_status see_step(meeting *m, tsr__sight *sight)
{
  tsr__exec *exec = m->exec;
  int first = m->step->first, count = m->step->count;
  tsr_status status = open_meeting(m);
  if (!status) status = take_kept(m);
  for (int a = first; a < first + count && !status; a++)
    for (int p = 0, n = positions_of(exec, a); is_published(m, a) && p < n && !status; p++)
      if (brought(m, a)[p]) status = publish_partial(m, brought(m, a)[p]);
  if (!status && step_has_partials(m))
    status = tsr__peers_gather(m->peers, m->told, (size_t)m->told_count * sizeof *m->told, m->notes,
                               exec->error);
  for (int a = first; a < first + count && !status; a++)
    if (is_published(m, a)) status = read_accum_partials(m, a);
  if (!status) status = tsr__peers_fetched(m->peers, exec->error);
  for (int a = first; a < first + count && !status; a++)
    if (accum_of(exec, a)->whole) exec->whole[a - first] = exec->values[accum_of(exec, a)->operand];
  if (!status) status = tsr__begin_crossings(exec, m->step);
  if (!status && closes(m) && tsr__crossings_are_sure(exec, m->step))
    sight->promise = tsr__exec_promise(exec);
  if (!status) list_results(m, sight);
  count += sight->result_count;
  return status ? status : tsr__see_pieces(exec->rt, exec->whole, count, sight, exec->error);
}

/* Requests the elements of an accumulator from all members, as far as this process combines
 * them: its share, or the pieces of its devices. */
static void want_member_elements(const tsr__exec *exec, const tsr__all_reduce *c, int a,
                                 int64_t count)
{
  const tsr__gnode *node = &exec->program->nodes[accum_of(exec, c->accums[a])->operand];
  int64_t first = 0, size = count, dims = count;
  tsr__box_copy copy = { (tsr_dtype)node->dtype, .rank = 1, .from_dims = &dims };
  if (!c->pieces) {
    first = tsr__share_first(count, c->share.index, c->share.count);
    size = tsr__share_first(count, c->share.index + 1, c->share.count) - first;
    copy.from_start = &first;
    copy.size = &size;
    for (int m = 0; m < c->member_count; m++) tsr__sight_want_box(c->elements[m][a], &copy);
    return;
  }
  copy.rank = c->pieces->rank;
  copy.from_dims = c->pieces->size;
  for (int k = 0; k < c->member_count; k++) {
    if (!tsr__device_local(tsr__topology_of(exec->rt), c->devices[k])) continue;
    copy.from_start = c->pieces->of_member[k].start;
    copy.size = c->pieces->of_member[k].size;
    for (int m = 0; m < c->member_count; m++) tsr__sight_want_box(c->elements[m][a], &copy);
  }
}

tsr_status tsr__together_want(const tsr__exec *exec, const tsr__all_reduce *c)
{
  const tsr__schedule *schedule = &exec->plan->schedule;
  tsr__peers *peers = tsr__peers_of(exec->rt);
  if (!exec->whole || !peers || tsr__peers_hosts(peers) < 2) return TSR_OK;
  if (!c->pieces && c->share.index < 0) return TSR_OK;
  for (int a = 0; a < c->accum_count; a++) {
    int f = 0;
    if (!schedule->accums[c->accums[a]].whole) continue;
    /* The first result that reads the accumulator gives the number of elements. */
    while (f < c->final_count && schedule->final_main[c->finals[f]] != c->accums[a]) f++;
    if (f < c->final_count) want_member_elements(exec, c, a, c->out_counts[f]);
  }
  return tsr__peers_fetched(peers, exec->error);
}

/* Frees the handles of peers' accumulators, whose memory is the peers'. The lists may be empty
 * if opening the meeting failed. */
static void drop_far(const meeting *m)
{
  tsr__exec *exec = m->exec;
  int own = tsr__peers_index(m->peers);
  for (int a = m->step->first; a < m->step->first + m->step->count && exec->met; a++) {
    for (int p = 0, n = positions_of(exec, a); p < n && exec->met[a]; p++)
      if (exec->met[a][p] && process_of_partial(exec, a, p) != own)
        tsr__devices_of(exec->rt)->ops->partial_free(exec->met[a][p]);
    exec->met[a] = NULL;
  }
}

/* Frees lent memory: at the next meeting, after peers have read, or at once if nobody will read. */
static void take_back(void *user, bool came)
{
  (void)came;
  lent *l = user;
  const tsr__device_ops *ops = tsr__devices_of(l->rt)->ops;
  for (int i = 0; i < l->partial_count; i++) ops->partial_free(l->partials[i]);
  for (int i = 0; i < l->kept_count; i++) tsr__kept_release(l->kept[i]);
  for (int i = 0; i < l->copy_count; i++) tsr__buffer_release(l->copies[i]);
  tsr__del(&l->rt->heap, l, l->bytes);
}

/* Moves published memory from the run to the block that is freed later. Lent partials are taken
 * out of the run, which would free them at the end of the step. */
static void lend(meeting *m)
{
  tsr__exec *exec = m->exec;
  if (!exec->kept) return; /* opening the meeting failed: nothing was published */
  for (int a = m->step->first; a < m->step->first + m->step->count; a++) {
    tsr__kept *kept = exec->kept[a - m->step->first];
    if (kept) m->lent->kept[m->lent->kept_count++] = kept;
    if (kept || !is_published(m, a)) continue;
    for (int p = 0, n = positions_of(exec, a); p < n; p++)
      if (exec->partials[a][p]) m->lent->partials[m->lent->partial_count++] = exec->partials[a][p];
    exec->partials[a] = NULL;
  }
}

/* After a failure nothing is lent: peers learn it when they leave the run, and read no more. */
tsr_status tsr__meet_step(tsr__exec *exec, const tsr__step *step,
                          tsr_status (*combine)(tsr__exec *exec, const tsr__step *step))
{
  meeting m = { .exec = exec, .peers = tsr__peers_of(exec->rt), .step = step };
  tsr__sight sight = { .rt = exec->rt };
  tsr_status status = see_step(&m, &sight);
  if (!status) status = combine(exec, step);
  status = tsr__unsee(&sight, status, exec->error);
  drop_far(&m);
  if (m.lent) lend(&m);
  exec->met = NULL;
  exec->whole = NULL;
  exec->kept = NULL;
  exec->copies = NULL;
  if (!m.lent) return status;
  if (status) take_back(m.lent, false);
  else tsr__peers_later(m.peers, take_back, m.lent);
  return status;
}
