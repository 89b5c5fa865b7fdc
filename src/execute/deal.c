/* The division of a reduction over several processes: which process combines which part, and how
 * results reach them all.
 *
 *   few elements    (results times members, at most FEW) each process combines all that its devices
 *                   get, of all that is brought
 *   many            each combines a share of every result, and all get it: on one host who combined
 *                   it writes it where each wants it (together.c), so that nobody reads what
 *                   another core has just written; between hosts they copy it when all met
 *
 *      result of n elements     | share 0 | share 1 | share 2 |      in 3 processes
 *      process 0 reads            of all                            and writes it to all devices
 *      or, between hosts          of all    from 1    from 2        and writes it to its own, which
 *                                                                   the other shares follow
 *
 * The process of the first device that gets a piece of a scattered result finishes it. The first
 * member's process finishes results that not all members get, and products, which are multiplied
 * in order of the members. Everything else is exact until it is rounded, so that the result does
 * not depend on which process combines. Traffic is counted once, as in one process. */
#include "execute/engine.h"
#include "graph/accums.h"

enum { DEAL_FIRST, DEAL_EACH, DEAL_SHARES };
enum {
  FEW = 1 << 12,         /* elements that members bring together */
  PIECE_BYTES = 1 << 20, /* of a task that copies */
  ALONE_BYTES = 1 << 16, /* one thread copies less sooner than it wakes others */
  STREAM_BYTES = 1 << 24 /* more than caches hold */
};

static int process_of_member(const tsr__exec *exec, const tsr__crossing *c, int position)
{
  int device = tsr__home_device(exec->rt, c->sharding, position);
  return tsr__device_process(tsr__topology_of(exec->rt), device);
}

static int own_process_index(const tsr__exec *exec)
{
  return tsr__topology_of(exec->rt)->process_index;
}

/* ---- the group at hand ----------------------------------------------------------------------- */

/* A single process is the only one of each group. */
static bool is_alone(const tsr__exec *exec)
{
  return tsr__topology_of(exec->rt)->process_count == 1;
}

/* Processes are numbered by their first member, so that all number them alike.
 *
 *   members      4  5  6  7         processes  1 0 2
 *   process of   1  0  0  2         first      4 5 7
 */
static void list_processes(const tsr__exec *exec, tsr__crossing *c)
{
  int turn = ++c->turn;
  c->process_count = 0;
  for (int m = 0; m < c->group_size; m++) {
    int process = process_of_member(exec, c, c->members[m]);
    if (c->met[process] == turn) continue;
    c->met[process] = turn;
    c->processes[c->process_count] = process;
    c->first[c->process_count++] = c->members[m];
  }
}

void tsr__crossing_group(const tsr__exec *exec, tsr__crossing *c, int group)
{
  const tsr_mesh *mesh = c->sharding->mesh;
  int leader = tsr__mesh_group_offset(mesh, ~c->axes, group);
  for (int m = 0; m < c->group_size; m++)
    c->members[m] = leader + tsr__mesh_group_offset(mesh, c->axes, m);
  if (!is_alone(exec)) list_processes(exec, c);
}

/* ---- the processes that combine -------------------------------------------------------------- */

/* The way to divide a crossing. It follows from the shardings of results alone, so that all
 * processes agree. */
static int deal_of(const tsr__exec *exec, const tsr__crossing *c)
{
  int64_t elements = 0;
  if (!exec->met || c->scattered) return DEAL_FIRST;
  for (int a = 0; a < c->accum_count; a++) {
    const tsr__accum *accum = &exec->plan->schedule.accums[c->accums[a]];
    if (tsr__accum_infos[accum->row].takes & TSR__TAKES_ORDERED) return DEAL_FIRST;
  }
  for (int f = 0; f < c->final_count; f++) {
    const tsr__value *result = exec->values[c->finals[f]];
    elements += tsr__shape_count(&result->shape) * c->group_size;
    for (int p = 0; p < result->part_count; p++)
      if (!tsr__holds(&result->sharding, p)) return DEAL_FIRST;
  }
  return elements <= FEW ? DEAL_EACH : DEAL_SHARES;
}

/* One block:  processes[group] | first[group] | met[process] */
tsr_status tsr__deal(const tsr__exec *exec, tsr__crossing *c)
{
  size_t members = (size_t)c->group_size;
  size_t processes = (size_t)tsr__topology_of(exec->rt)->process_count;
  c->deal = deal_of(exec, c);
  if (is_alone(exec)) return TSR_OK;
  c->processes = tsr__arena_new(exec->scratch, (2 * members + processes) * sizeof(int));
  if (!c->processes) return tsr__no_memory_to_combine(exec);
  c->first = c->processes + members;
  c->met = c->first + members;
  return TSR_OK;
}

/* index -1: this process combines nothing of the group. */
tsr__share tsr__deal_share(const tsr__exec *exec, const tsr__crossing *c)
{
  if (is_alone(exec)) return (tsr__share){ 0, 1, false };
  int own = own_process_index(exec);
  bool leads = c->processes[0] == own;
  if (c->deal == DEAL_FIRST) return (tsr__share){ leads ? 0 : -1, 1, false };
  tsr__share share = { -1, c->process_count, false };
  for (int k = 0; k < c->process_count; k++)
    if (c->processes[k] == own) share.index = k;
  if (c->deal == DEAL_EACH && share.index >= 0) share = (tsr__share){ 0, 1, !leads };
  return share;
}

/* Only DEAL_EACH needs copies: each process adds to its own first partial, while peers read that
 * one to do the same. */
tsr_status tsr__deal_copy(const tsr__exec *exec, const tsr__crossing *c, tsr__partial ***partials)
{
  const tsr__device_ops *ops = tsr__devices_of(exec->rt)->ops;
  int m = 0, members = c->group_size;
  if (c->deal != DEAL_EACH) return TSR_OK;
  while (m < members && process_of_member(exec, c, c->members[m]) != own_process_index(exec)) m++;
  for (int a = 0; a < c->accum_count && m < members; a++) {
    if (!partials[m][a]) continue;
    tsr__partial *copy = ops->partial_take(partials[m][a], NULL, 0, exec->error);
    if (!copy) return exec->error->status;
    partials[m][a] = copy;
    exec->copies[c->accums[a] - c->step->first] = copy;
  }
  return TSR_OK;
}

/* Copies live for one group at a time; called after a failure, too. */
void tsr__deal_drop(const tsr__exec *exec, const tsr__crossing *c)
{
  for (int a = 0; a < c->accum_count && exec->copies; a++) {
    tsr__partial **copy = &exec->copies[c->accums[a] - c->step->first];
    if (*copy) tsr__devices_of(exec->rt)->ops->partial_free(*copy);
    *copy = NULL;
  }
}

/* ---- results of other processes -------------------------------------------------------------- */

/* A range of elements of position `from` of a result, copied to position `to`. */
typedef struct taking {
  int final, from, to;
  int64_t first, count;
} taking;

typedef struct take_job {
  tsr__exec *exec;
  tsr__crossing *c;
  const tsr__value **seen;
  taking *list; /* NULL: takings are only counted */
  int64_t count, bytes;
  _Atomic int64_t moved;
  tsr__progress progress;
  bool streams;
} take_job;

static int64_t elements_at(const tsr__value *value, int position)
{
  tsr_box box;
  tsr__value_box(value, position, &box);
  return tsr__box_count(&box, value->shape.rank);
}

/* Lists a range in pieces, so that several workers share it. */
static void list_share(take_job *job, const taking *all)
{
  tsr_dtype dtype = (tsr_dtype)job->exec->values[job->c->finals[all->final]]->dtype;
  int64_t most = (int64_t)PIECE_BYTES / (int64_t)tsr_dtype_size(dtype);
  for (int64_t done = 0; done < all->count; done += most) {
    taking piece = *all;
    piece.first += done;
    piece.count = all->count - done < most ? all->count - done : most;
    if (job->list) job->list[job->count] = piece;
    job->count++;
    job->bytes += (int64_t)tsr__device_bytes(dtype, piece.count);
  }
}

/* The position that finishes another position's elements: the first of its group. In a scattered
 * result it is the first of those with the same piece, which differ in combined axes that do not
 * shard it. */
static int leader_of(const tsr__crossing *c, const tsr__value *result, int p)
{
  unsigned axes = c->axes;
  if (c->scattered) axes &= tsr__free_axes(&result->sharding);
  return tsr__mesh_group_leader(result->sharding.mesh, axes, p);
}

static bool is_taken_here(const tsr__value *result, int position)
{
  return result->parts[position] && tsr__holds(&result->sharding, position);
}

/* Lists the shares of a result that other processes of the current group finished, for each of
 * the group's members here. Members hold the same elements. */
static void list_shares_of_result(take_job *job, int final)
{
  const tsr__crossing *c = job->c;
  const tsr__value *result = job->exec->values[c->finals[final]];
  int own = own_process_index(job->exec);
  int64_t n = elements_at(result, c->members[0]);
  for (int m = 0; m < c->group_size; m++)
    for (int s = 0; s < c->process_count && is_taken_here(result, c->members[m]); s++) {
      int64_t at = tsr__share_first(n, s, c->process_count);
      int64_t end = tsr__share_first(n, s + 1, c->process_count);
      if (c->processes[s] != own)
        list_share(job, &(taking){ final, c->first[s], c->members[m], at, end - at });
    }
}

/* Lists the elements of a position that another process finished. */
static void list_finished(take_job *job, int final, int position)
{
  const tsr__crossing *c = job->c;
  const tsr__value *result = job->exec->values[c->finals[final]];
  int leader = leader_of(c, result, position);
  if (process_of_member(job->exec, c, leader) != own_process_index(job->exec))
    list_share(job, &(taking){ final, leader, position, 0, elements_at(result, position) });
}

/* Lists all elements that other processes finished for the devices of this process. Called
 * twice: without a list it only counts, with a list it fills it. */
static void list_takings(take_job *job)
{
  tsr__crossing *c = job->c;
  job->count = job->bytes = 0;
  for (int g = 0; g < tsr__crossing_groups(c) && c->deal == DEAL_SHARES; g++) {
    tsr__crossing_group(job->exec, c, g);
    for (int f = 0; f < c->final_count; f++) list_shares_of_result(job, f);
  }
  for (int f = 0; f < c->final_count && c->deal != DEAL_SHARES; f++) {
    const tsr__value *result = job->exec->values[c->finals[f]];
    for (int p = 0; p < result->part_count; p++)
      if (is_taken_here(result, p)) list_finished(job, f, p);
  }
}

/* Copies one taking. A part of a result has the same order at both ends, so it is copied as a
 * list of elements. */
static void copy_taking(void *user, int64_t task, int worker)
{
  take_job *job = user;
  const taking *t = &job->list[task];
  tsr__value *result = job->exec->values[job->c->finals[t->final]];
  int64_t all = elements_at(result, t->to);
  tsr__traffic traffic = { 0 };
  tsr__box_copy copy = { .dtype = (tsr_dtype)result->dtype,
                         .rank = 1,
                         .from_dims = &all,
                         .from_start = &t->first,
                         .to_dims = &all,
                         .to_start = &t->first,
                         .size = &t->count,
                         .progress = &job->progress,
                         .worker = worker,
                         .streams = job->streams };
  tsr__devices_of(job->exec->rt)
      ->ops->copy(&copy, job->seen[t->final]->parts[t->from], result->parts[t->to], &traffic);
  atomic_fetch_add_explicit(&job->moved, traffic.bytes, memory_order_relaxed);
}

/* Copies all takings. Bytes are counted as they are copied, by the process whose devices receive
 * them. */
static tsr_status copy_takings(take_job *job)
{
  tsr__exec *exec = job->exec;
  job->streams = job->bytes > STREAM_BYTES;
  if (job->bytes > ALONE_BYTES)
    tsr__parallel_progress(&job->progress, job->count, copy_taking, job);
  else
    for (int64_t t = 0; t < job->count; t++) copy_taking(job, t, 0);
  exec->traffic.bytes += job->moved;
  return job->progress.stop ? tsr__cancelled(exec->error, TSR__PROGRAM) : TSR_OK;
}

/* Whether every process finishes all results of its devices, so that nobody meets. The answer
 * follows from the plan and the results' shardings, so either all processes meet or none. */
bool tsr__deal_is_complete(const tsr__exec *exec, const tsr__crossing *c)
{
  if (c->deal != DEAL_FIRST) return c->deal == DEAL_EACH;
  for (int f = 0; f < c->final_count; f++) {
    const tsr__value *result = exec->values[c->finals[f]];
    for (int p = 0; p < result->part_count; p++)
      if (tsr__holds(&result->sharding, p) &&
          process_of_member(exec, c, leader_of(c, result, p)) != process_of_member(exec, c, p))
        return false;
  }
  return true;
}

/* Takes the results that other processes finished, from their memory. tsr__see_made waits until
 * these are filled, even where every process has a replica, since the replica itself is yet to
 * be filled. */
tsr_status tsr__deal_take(tsr__exec *exec, tsr__crossing *c)
{
  take_job job = { .exec = exec, .c = c, .progress = { .rt = exec->rt, .what = TSR__PROGRAM } };
  tsr__sight sight;
  if (c->given || tsr__deal_is_complete(exec, c)) return TSR_OK;
  list_takings(&job);
  job.list = tsr__arena_new(exec->scratch, (size_t)(job.count + 1) * sizeof *job.list);
  job.seen = tsr__arena_new(exec->scratch, (size_t)(c->final_count + 1) * sizeof *job.seen);
  if (!job.list || !job.seen) return tsr__no_memory_to_combine(exec);
  list_takings(&job);
  for (int k = 0; k < c->final_count; k++) job.seen[k] = exec->values[c->finals[k]];
  tsr_status status = tsr__see_made(exec->rt, job.seen, c->final_count, &sight, exec->error);
  for (int64_t t = 0; t < job.count && !status; t++) {
    const taking *part = &job.list[t];
    tsr__sight_want(&sight,
                    &(tsr__sight_part){ part->final, part->from, part->first, part->count });
  }
  if (!status) status = tsr__sight_come(&sight, exec->error);
  if (!status) status = copy_takings(&job);
  return tsr__unsee(&sight, status, exec->error);
}
