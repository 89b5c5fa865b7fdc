/* Steps that move elements between devices, and those whose sizes are known only at run time.
 *
 * Every copy goes through the device's copy routine, which counts the bytes that cross from one
 * pool to another: tsr_last_run reports the bytes that were copied, not those that were planned. */
#include "execute/engine.h"

static tsr_status out_of_memory(tsr__exec *exec)
{
  return tsr__error_set(exec->error, TSR_ENOMEM, "no memory to move an array between devices");
}

/* ---- resharding ---- */

/* The pieces that a target position takes, one after another. */
typedef struct pieces {
  tsr__exec *exec;
  const tsr__value *from;
  tsr__value *to;
  int to_position;
  bool away; /* a piece is another process's */
  tsr__progress *progress;
  bool requests; /* pieces are requested, to be copied later */
  tsr__traffic traffic;
  tsr_box want; /* the box that the target position takes */
} pieces;

/* A piece is a box of the whole array. Each side holds a box of its own, and the copy gets the
 * piece's begin in each:
 *
 *    whole array   |------[ part.start ....[ box ].... ]------|
 *    from_start    box.start - part.start
 *    to_start      box.start - want.start
 *
 * No two pieces of one target overlap, so they need no order. */
static void copy_piece(void *user, const tsr__moved_box *piece)
{
  pieces *p = user;
  /* Other pieces of a cancelled move are skipped; its value is dropped with the run. */
  if (atomic_load(&p->progress->stop)) return;
  int64_t from_start[TSR_MAX_RANK] = { 0 }, to_start[TSR_MAX_RANK] = { 0 };
  for (int d = 0; d < p->from->shape.rank; d++) {
    from_start[d] = piece->box->start[d] - piece->part->start[d];
    to_start[d] = piece->box->start[d] - p->want.start[d];
  }
  tsr__box_copy copy = { .dtype = (tsr_dtype)p->from->dtype,
                         .rank = p->from->shape.rank,
                         .from_dims = piece->part->size,
                         .from_start = from_start,
                         .to_dims = p->want.size,
                         .to_start = to_start,
                         .size = piece->box->size,
                         .progress = p->progress };
  /* The position may be another process's while a replica of it is here. */
  int near = tsr__value_near(p->from, piece->position);
  p->away |= near < 0;
  if (near >= 0 && p->requests) tsr__sight_want_box(p->from->parts[near], &copy);
  else if (near >= 0)
    tsr__devices_of(p->exec->rt)
        ->ops->copy(&copy, p->from->parts[near], p->to->parts[p->to_position], &p->traffic);
}

/* The status after copying pieces: a part may have been another process's. */
static tsr_status end_move(tsr__exec *exec, const tsr__value *from, bool away,
                           const tsr__progress *progress)
{
  if (away && tsr__value_here(from, TSR__PROGRAM, exec->error)) return exec->error->status;
  return progress->stop ? tsr__cancelled(exec->error, progress->what) : TSR_OK;
}

/* An array that is moved. Target positions that hold the same box are served together, slab by
 * slab, so that the elements copied to the first are in the cache for the others. */
typedef struct moving {
  tsr__exec *exec;
  const tsr__value *from;
  tsr__value *to;
  tsr__reshard move;
  tsr_shape shape; /* the shape of `from`; `move` borrows it */
  const tsr__overlaps *overlaps;
  /* by position of `from`: a part, or a replica of it; NULL: neither is here */
  tsr__buffer *const *sources;
  int slabs;
  int leaders;  /* positions of `to`, one for each distinct box */
  int together; /* how many leaders one task serves */
  bool streams;
  _Atomic bool away;
  _Atomic int64_t bytes;
} moving;

typedef struct reshard_job {
  moving *moves;
  tsr__progress *progress;
  int count, most;         /* the most tasks of any */
  const tsr__value **from; /* the source of each move, with other processes' parts */
} reshard_job;

enum { SLAB_BYTES = 1 << 18, STREAM_BYTES = 1 << 24 };

/* The number of slabs of a part. Bits share words with their neighbours, and blocks lie in
 * another order than they are read: both are one slab. */
static int slabs_of(const moving *m)
{
  int64_t bytes = (int64_t)tsr_dtype_size((tsr_dtype)m->to->dtype), most = 1;
  tsr_box box;
  if (m->move.blocks || m->to->dtype == TSR_BOOL) return 1;
  tsr__value_box(m->to, 0, &box);
  for (int d = 0; d < m->to->shape.rank; d++) {
    bytes *= box.size[d];
    if (most == 1) most = box.size[d];
  }
  if (bytes < 2 * SLAB_BYTES) return 1;
  if (m->leaders == m->to->part_count) return 1;
  int64_t slabs = bytes / SLAB_BYTES;
  return (int)(slabs < 1 ? 1 : slabs < most ? slabs : most > 0 ? most : 1);
}

/* Sets slab number `slab` of a part: an even share of its first dim with more than one element. */
static void put_slab(const moving *m, const tsr_box *box, int slab, tsr__assembly *out)
{
  int d = 0;
  out->slab_dim = -1;
  while (d < m->shape.rank && box->size[d] == 1) d++;
  if (m->slabs == 1 || d == m->shape.rank) return;
  out->slab_dim = d;
  out->slab_start = box->size[d] * slab / m->slabs;
  out->slab_end = box->size[d] * (slab + 1) / m->slabs;
}

/* Parts that a task assembles, several at once. */
typedef struct joining {
  reshard_job *job;
  moving *m;
  int slab, worker, count;
  tsr__assembly parts[TSR__MOST_ASSEMBLED];
} joining;

/* The task counts its own traffic and adds it once. */
static void join_parts(joining *j)
{
  tsr__traffic traffic = { 0 };
  const tsr__device_ops *ops = tsr__devices_of(j->m->exec->rt)->ops;
  bool all = ops->assemble(j->parts, j->count, j->m->sources, &traffic);
  if (!all) atomic_store(&j->m->away, true);
  atomic_fetch_add_explicit(&j->m->bytes, traffic.bytes, memory_order_relaxed);
  j->count = 0;
}

static void add_part(joining *j, int position)
{
  const moving *m = j->m;
  tsr__assembly *part = &j->parts[j->count];
  tsr_box box;
  if (!tsr__overlaps_at(&m->move, m->overlaps, position, &part->pieces)) return;
  for (int d = 0; d < m->shape.rank; d++)
    if (!part->pieces.counts[d]) return;
  tsr__value_box(m->to, position, &box);
  memcpy(part->to_dims, box.size, sizeof part->to_dims);
  part->dtype = (tsr_dtype)m->from->dtype;
  part->to = m->to->parts[position];
  part->progress = j->job->progress;
  part->worker = j->worker;
  part->streams = m->streams;
  put_slab(m, &box, j->slab, part);
  if (++j->count == TSR__MOST_ASSEMBLED) join_parts(j);
}

/* The leader of the positions that hold box number `number`, in the order in which boxes lie in the
 * array: neighbours take neighbouring elements of the same parts.
 *
 *   x=2,y=3, "y,x"      boxes  (0,0) (0,1) (1,0) (1,1) (2,0) (2,1)
 *                     leaders    0     3     1     4     2     5
 */
static int leader_of_box(const moving *m, int64_t number)
{
  const tsr_sharding *at = &m->to->sharding;
  int leader = 0;
  for (int d = m->to->shape.rank - 1; d >= 0; d--) {
    int64_t parts = tsr__dim_parts(at, d);
    leader += tsr__part_offset(at, d, number % parts);
    number /= parts;
  }
  return leader;
}

/* Task t is array t mod count, so that workers share arrays evenly. A task serves all positions
 * that hold the same slab, for `together` leaders. */
static void reshard_task(void *user, int64_t task, int worker)
{
  reshard_job *job = user;
  moving *m = &job->moves[task % job->count];
  const tsr_sharding *at = &m->to->sharding;
  unsigned free = tsr__free_axes(at);
  int number = (int)(task / job->count), first = number / m->slabs * m->together;
  joining j;
  j.job = job;
  j.m = m;
  j.slab = number % m->slabs;
  j.worker = worker;
  j.count = 0;
  for (int n = first; n < m->leaders && n < first + m->together; n++) {
    int leader = leader_of_box(m, n);
    for (int i = 0; i < m->to->part_count / m->leaders; i++) {
      int p = leader + tsr__mesh_group_offset(at->mesh, free, i);
      if (m->to->parts[p] && !atomic_load(&job->progress->stop)) add_part(&j, p);
    }
  }
  if (j.count) join_parts(&j);
}

/* One thread copies few bytes sooner than it wakes others. */
static void copy_all(reshard_job *job)
{
  enum { FEW_BYTES = 1 << 16 };
  size_t bytes = 0;
  /* Each array gets as many tasks as the array with the most; surplus tasks end at once. */
  int tasks = job->count * job->most;
  for (int i = 0; i < job->count; i++) {
    const tsr__value *to = job->moves[i].to;
    bytes += tsr__device_bytes((tsr_dtype)to->dtype, tsr__shape_count(&to->shape));
  }
  if (bytes > FEW_BYTES) tsr__parallel_progress(job->progress, tasks, reshard_task, job);
  else
    for (int t = 0; t < tasks; t++) reshard_task(job, t, 0);
}

/* Whether the copy exceeds caches. No part is larger than the whole, which mostly gives the
 * answer. */
static bool exceeds_caches(const tsr__value *to)
{
  size_t bytes = 0;
  size_t whole = tsr__device_bytes((tsr_dtype)to->dtype, tsr__shape_count(&to->shape));
  if (whole <= STREAM_BYTES / (size_t)to->part_count) return false;
  for (int p = 0; p < to->part_count; p++) {
    tsr_box box;
    tsr__value_box(to, p, &box);
    bytes += tsr__device_bytes((tsr_dtype)to->dtype, tsr__box_count(&box, to->shape.rank));
  }
  return bytes > STREAM_BYTES;
}

/* Neighbours read the same memory; some tasks for each worker must be left. */
static int leaders_together(const tsr__exec *exec, int leaders)
{
  int some = leaders / (8 * tsr__worker_count(exec->rt));
  return some < 1 ? 1 : some < 2 * TSR__MOST_ASSEMBLED ? some : 2 * TSR__MOST_ASSEMBLED;
}

/* The value that moves may have another sharding than planned: the value's own counts. */
static tsr_status start_moving(tsr__exec *exec, int node, moving *out)
{
  const tsr_sharding *sharding = tsr__sharding_of(exec, node);
  tsr_shape shape;
  out->exec = exec;
  out->from = tsr__value_in(exec, node, 0);
  out->move = tsr__reshard_of(exec->program, node, &shape);
  shape = out->shape = out->from->shape;
  /* Blocks overlap, so the result is longer than what moves. */
  if (out->move.blocks) shape = tsr__gnode_shape(&exec->program->nodes[node]);
  tsr__layout layout = { (tsr_dtype)out->from->dtype, &shape, sharding, NULL };
  tsr__value *to = out->to = tsr__value_new(exec->rt, &layout, exec->error);
  if (!to) return exec->error->status;
  exec->values[node] = to;
  /* The sharding and shape are the value's and not the plan's: a ragged value has rows of its
   * own. */
  out->move.from = &out->from->sharding;
  out->move.shape = &out->shape;
  out->move.device = tsr__home_device(exec->rt, &to->sharding, 0);
  out->leaders = tsr__mesh_group_size(sharding->mesh, ~tsr__free_axes(sharding));
  out->slabs = slabs_of(out);
  out->together = out->slabs > 1 ? 1 : leaders_together(exec, out->leaders);
  out->streams = exceeds_caches(to);
  out->overlaps = tsr__exec_overlaps(exec, node, &out->move);
  return out->overlaps ? TSR_OK : out_of_memory(exec);
}

/* Called by one thread after all tasks: traffic and errors are summed here. */
static tsr_status end_moving(tsr__exec *exec, const moving *m, const tsr__progress *progress)
{
  exec->traffic.bytes += m->bytes;
  return end_move(exec, m->from, m->away, progress);
}

/* Finds out whether a process takes a piece that it lacks. */
typedef struct looking {
  const moving *m;
  int process;
  bool lacks;
} looking;

static void look_at_piece(void *user, const tsr__moved_box *piece)
{
  looking *l = user;
  const moving *m = l->m;
  l->lacks =
      l->lacks || !tsr__position_near(m->exec->rt, &m->from->sharding, piece->position, l->process);
}

/* Whether some process lacks a piece that it takes. All processes are looked at, so that all
 * give the same answer; on meshes of many devices a meeting is quicker than the answer. */
static bool move_crosses_processes(const moving *m)
{
  enum { MANY = 32 };
  const tsr_sharding *to = &m->to->sharding;
  const tsr__topology *topology = tsr__topology_of(m->exec->rt);
  looking l = { .m = m };
  if (!to->mesh || m->from->part_count > MANY || m->to->part_count > MANY) return true;
  for (int p = 0; p < m->to->part_count && !l.lacks; p++) {
    l.process = tsr__device_process(topology, tsr__position_device(to, p));
    tsr__reshard_pieces(&m->move, p, look_at_piece, &l);
  }
  return l.lacks;
}

/* Requests from other hosts the pieces that this process's positions take, once where several
 * positions hold the same box. */
static tsr_status want_pieces(reshard_job *job, const tsr__sight *sight, tsr__error *error)
{
  for (int i = 0; i < job->count; i++) {
    moving *m = &job->moves[i];
    for (int p = 0; p < m->to->part_count; p++) {
      pieces mine = { .exec = m->exec,
                      .from = m->from,
                      .to = m->to,
                      .to_position = p,
                      .requests = true,
                      .progress = job->progress };
      if (tsr__value_near(m->to, tsr__replica_leader(&m->to->sharding, p)) != p) continue;
      tsr__reshard_want(&m->move, p, &mine.want);
      tsr__reshard_pieces(&m->move, p, copy_piece, &mine);
    }
  }
  return tsr__sight_come(sight, error);
}

/* Lists the buffers that parts are copied from. A position may be another process's while a
 * replica of it is here. */
static tsr_status find_sources(moving *m)
{
  const tsr__value *from = m->from;
  int p = 0;
  m->sources = from->parts;
  while (p < from->part_count && from->parts[p]) p++;
  if (p == from->part_count) return TSR_OK;
  size_t bytes = (size_t)from->part_count * sizeof(tsr__buffer *);
  tsr__buffer **sources = tsr__arena_new(m->exec->scratch, bytes);
  if (!sources) return out_of_memory(m->exec);
  for (p = 0; p < from->part_count; p++) {
    int near = tsr__value_near(from, p);
    if (near >= 0) sources[p] = from->parts[near];
  }
  m->sources = sources;
  return TSR_OK;
}

/* Makes other processes' parts of all moves readable. A move for which each process has all its
 * pieces stays out of the meeting: NULL in its place. */
static tsr_status see_all(tsr__exec *exec, reshard_job *job, tsr__sight *sight)
{
  bool several = tsr__peers_of(exec->rt) != NULL;
  for (int i = 0; i < job->count; i++)
    job->from[i] = several && move_crosses_processes(&job->moves[i]) ? job->moves[i].from : NULL;
  if (several) sight->promise = tsr__exec_promise(exec);
  tsr_status status = tsr__see_pieces(exec->rt, job->from, job->count, sight, exec->error);
  for (int i = 0; i < job->count && !status; i++)
    if (job->from[i]) job->moves[i].from = job->from[i];
  if (!status && tsr__sight_is_far(sight)) status = want_pieces(job, sight, exec->error);
  return status;
}

/* ---- moves that copy nothing ----------------------------------------------------------------- */

/* Whether each position has one index of dim 0 and all of the other dims. */
static bool in_elements(const tsr__value *value)
{
  bool all = value->sharding.mesh && !value->sharding.unreduced && !value->rows && !value->kept;
  for (int p = 0; p < value->part_count && all; p++) {
    tsr_box box;
    tsr__value_box(value, p, &box);
    all = value->parts[p] && box.size[0] == 1;
    for (int d = 1; d < value->shape.rank; d++) all &= box.size[d] == value->shape.dims[d];
  }
  return all;
}

/* Whether each position wants all of dim 0 and a range of dim 1. */
static bool wants_runs(const tsr_sharding *to, const tsr_shape *shape, int positions)
{
  bool run = tsr__positions(to) == positions;
  for (int p = 0; p < positions && run; p++) {
    tsr_box box;
    tsr__box(to, shape, p, &box);
    run = tsr__holds(to, p);
    for (int d = 0; d < shape->rank; d++) run &= d == 1 || box.size[d] == shape->dims[d];
  }
  return run;
}

/* Whether the next node is the only reader of the move and would add its shards in order: that
 * routine then reads them in place, in one pass instead of three. */
static bool is_read_there(const tsr__exec *exec, int node)
{
  const tsr__program *program = exec->program;
  int last = exec->plan->last_use[node], next = node + 1;
  if (next >= program->node_count || last < 0) return false;
  const tsr__step *step = &exec->plan->schedule.steps[last];
  return tsr__ops[program->nodes[next].op].reads_parts && step->node == next &&
         step->kind == TSR__STEP_ROUTINE && tsr__in(program, &program->nodes[next], 0) == node;
}

/* Leaves a value in place if its reader allows that. The move is counted, as the devices that
 * read the value there still take it from each other. */
static bool leave_in_place(tsr__exec *exec, int node)
{
  const tsr__value *from = tsr__value_in(exec, node, 0);
  const tsr_sharding *to = tsr__sharding_of(exec, node);
  tsr_shape shape;
  tsr__reshard move = tsr__reshard_of(exec->program, node, &shape);
  if (!is_read_there(exec, node) || tsr__peers_of(exec->rt) || move.blocks ||
      from->dtype == TSR_BOOL || from->sharding.mesh != to->mesh || !in_elements(from) ||
      !wants_runs(to, &from->shape, from->part_count))
    return false;
  exec->traffic.bytes += tsr__move_bytes(&move, (tsr_dtype)from->dtype);
  exec->values[node] = exec->values[tsr__in(exec->program, &exec->program->nodes[node], 0)];
  tsr__value_hold(exec->values[node]);
  return true;
}

/* One routine for all classes of resharding: a slice copies nothing from other devices, an
 * all-gather everything. The class was chosen by the partitioner, and only its notes know it;
 * the pieces follow from the two shardings. Moves that travel together are copied in one pass. */
tsr_status tsr__exec_reshard(tsr__exec *exec, int node)
{
  tsr__progress progress = { .rt = exec->rt, .what = TSR__PROGRAM };
  reshard_job job = { .progress = &progress };
  tsr__sight sight = { .rt = exec->rt };
  for (int n = node; n >= 0; n = tsr__fellow(exec->program, node, n))
    job.count += !leave_in_place(exec, n);
  if (!job.count) return TSR_OK;
  job.moves = tsr__arena_new(exec->scratch, (size_t)job.count * sizeof *job.moves);
  job.from = tsr__arena_new(exec->scratch, (size_t)job.count * sizeof *job.from);
  if (!job.moves || !job.from) return out_of_memory(exec);
  moving *m = job.moves;
  tsr_status status = TSR_OK;
  /* All values are made before anything moves, so that a shortage of memory is found here. */
  for (int n = node; n >= 0 && !status; n = tsr__fellow(exec->program, node, n)) {
    if (exec->values[n]) continue; /* leave_in_place set it */
    status = start_moving(exec, n, m);
    int tasks = status ? 0 : (m->leaders + m->together - 1) / m->together * m->slabs;
    if (tasks > job.most) job.most = tasks;
    m++;
  }
  if (!status) status = see_all(exec, &job, &sight);
  for (int i = 0; i < job.count && !status; i++) status = find_sources(&job.moves[i]);
  if (!status) copy_all(&job);
  for (int i = 0; i < job.count && !status; i++)
    status = end_moving(exec, &job.moves[i], &progress);
  return tsr__unsee(&sight, status, exec->error);
}

/* ---- views of what lies on other devices ---- */

typedef struct shifting {
  tsr__exec *exec;
  const tsr__value **from; /* by operand: its value */
  int to_position;
  tsr__value *to;
  tsr__progress *progress;
  bool requests; /* pieces are requested, to be copied later */
} shifting;

/* Runs on the thread of the run (shift_one), so that traffic and error are the run's own. */
static void copy_shift(void *user, const tsr__shift_piece *piece)
{
  shifting *s = user;
  if (atomic_load(&s->progress->stop)) return;
  const tsr__value *from = s->from[piece->operand];
  int near = tsr__value_near(from, piece->from_position);
  if (near < 0) {
    tsr__value_here(from, TSR__PROGRAM, s->exec->error);
    return;
  }
  tsr__box_copy copy = { .dtype = (tsr_dtype)from->dtype,
                         .rank = piece->rank,
                         .from_dims = piece->from_dims,
                         .from_start = piece->from_start,
                         .from_step = piece->from_step,
                         .to_dims = piece->to_dims,
                         .to_start = piece->to_start,
                         .size = piece->size,
                         .progress = s->progress };
  if (s->requests) {
    tsr__sight_want_box(from->parts[near], &copy);
    return;
  }
  tsr__devices_of(s->exec->rt)
      ->ops->copy(&copy, from->parts[near], s->to->parts[s->to_position], &s->exec->traffic);
}

/* Copies to each position, piece by piece, the elements that its view shows of its own and of
 * others' parts. The value is in exec->values before it is filled, so tsr__exec_free frees it
 * after a failure. */
static tsr_status shift_one(tsr__exec *exec, int node)
{
  const tsr__gnode *g = &exec->program->nodes[node];
  tsr_shape shape = tsr__gnode_shape(g);
  tsr__layout layout = { (tsr_dtype)g->dtype, &shape, tsr__sharding_of(exec, node), NULL };
  tsr__viewed viewed;
  if (!tsr__shift_of(exec->program, node, exec->scratch, &viewed))
    return tsr__no_memory_to_run(exec);
  const tsr__value **from = tsr__arena_new(exec->scratch, (size_t)g->in_count * sizeof *from);
  tsr__value *to = from ? tsr__value_new(exec->rt, &layout, exec->error) : NULL;
  if (!from) tsr__error_set(exec->error, TSR_ENOMEM, "no memory to run a program");
  if (!to) return exec->error->status;
  exec->values[node] = to;
  tsr__sight sight = { .rt = exec->rt };
  for (int i = 0; i < g->in_count; i++) from[i] = tsr__value_in(exec, node, i);
  if (tsr__see_pieces(exec->rt, from, g->in_count, &sight, exec->error)) return exec->error->status;
  tsr__progress progress = { .rt = exec->rt, .what = TSR__PROGRAM };
  for (int p = 0; p < to->part_count && tsr__sight_is_far(&sight); p++) {
    shifting job = { exec, from, p, to, &progress, true };
    if (to->parts[p]) tsr__shift_pieces(&viewed, p, &(tsr__shift_take){ copy_shift, &job });
  }
  tsr_status came = tsr__sight_come(&sight, exec->error);
  if (came) return tsr__unsee(&sight, came, exec->error);
  /* Positions are served one after another: views that move are mostly few elements at the
   * borders. */
  for (int p = 0; p < to->part_count && !atomic_load(&progress.stop); p++) {
    shifting job = { exec, from, p, to, &progress, false };
    if (to->parts[p]) tsr__shift_pieces(&viewed, p, &(tsr__shift_take){ copy_shift, &job });
  }
  if (atomic_load(&progress.stop)) tsr__cancelled(exec->error, progress.what);
  return tsr__unsee(&sight, exec->error->status, exec->error);
}

tsr_status tsr__exec_shift(tsr__exec *exec, int node)
{
  tsr_status status = TSR_OK;
  for (int n = node; n >= 0 && !status; n = tsr__fellow(exec->program, node, n))
    status = shift_one(exec, n);
  return status;
}

/* ---- rows ---- */

/* The elements of one index of dim 0, so that one routine moves rows of any rank. */
static int64_t row_elements(const tsr__value *value)
{
  int64_t count = 1;
  for (int d = 1; d < value->shape.rank; d++) count *= value->shape.dims[d];
  return count;
}

/* The common fields of steps whose row counts only the mask knows; each uses the fields it
 * needs. */
typedef struct row_job {
  tsr__exec *exec;
  const tsr__value *from, *mask;
  const tsr__value *counted; /* the mask with all its parts */
  tsr__value *to;
  int64_t *rows;
  const int64_t *keep;
  tsr__progress progress;
} row_job;

/* Replicas count for themselves: equal masks give equal counts without communication. */
static void count_mask_task(void *user, int64_t position, int worker)
{
  (void)worker;
  row_job *job = user;
  job->rows[position] = tsr__value_true(job->counted, (int)position);
}

/* Counts the rows of each position, all at once; of other processes' masks as well. Counting
 * comes before the result is made: each process must know all counts to number its rows, and all
 * numbers must be equal. */
static tsr_status count_mask_rows(row_job *job)
{
  tsr__exec *exec = job->exec;
  tsr__sight sight;
  job->counted = job->mask;
  if (tsr__see(exec->rt, &job->counted, 1, &sight, exec->error) ||
      tsr__value_here(job->counted, TSR__PROGRAM, exec->error))
    return exec->error->status;
  tsr__parallel(exec->rt, job->mask->part_count, count_mask_task, job);
  return tsr__unsee(&sight, TSR_OK, exec->error);
}

/* Moves the rows that the mask takes together, on each device by itself. */
static void compact_task(void *user, int64_t position, int worker)
{
  row_job *job = user;
  tsr_box box;
  tsr__value_box(job->from, (int)position, &box);
  if (!job->to->parts[position]) return;
  tsr__compact rows = { .dtype = (tsr_dtype)job->from->dtype,
                        .row_elements = row_elements(job->from),
                        .rows = box.size[0],
                        .mask = job->mask->parts[position],
                        .from = job->from->parts[position],
                        .to = job->to->parts[position],
                        .progress = &job->progress,
                        .worker = worker };
  tsr__devices_of(job->exec->rt)->ops->compact(&rows);
}

static int64_t *row_room(tsr__exec *exec, int positions)
{
  int64_t *room = tsr__arena_new(exec->scratch, (size_t)positions * sizeof(int64_t));
  if (!room)
    tsr__error_set(exec->error, TSR_ENOMEM, "no memory for the row counts of %d devices",
                   positions);
  return room;
}

/* Counts, numbers, makes, moves. The result's sizes are known only in the middle, so no plan has
 * them: the result is a ragged value with its row counts.
 *
 *   mask   1 0 1 | 0 0 | 1 1       rows 2 0 2      start 0 2 2       rows of the result: 4 */
tsr_status tsr__exec_compact(tsr__exec *exec, int node)
{
  row_job job = { .exec = exec,
                  .from = tsr__value_in(exec, node, 0),
                  .mask = tsr__value_in(exec, node, 1),
                  .progress = { .rt = exec->rt, .what = TSR__PROGRAM } };
  int positions = job.from->part_count;
  job.rows = row_room(exec, positions);
  int64_t *start = row_room(exec, positions);
  if (!job.rows || !start || count_mask_rows(&job)) return exec->error->status;
  tsr_shape shape = job.from->shape;
  /* Rows stay on their device; the global number of each follows from the counts before it. */
  shape.dims[0] = tsr__number_rows(&job.mask->sharding, positions, job.rows, start);
  job.to = tsr__value_new(
      exec->rt, &(tsr__layout){ (tsr_dtype)job.from->dtype, &shape, &job.from->sharding, job.rows },
      exec->error);
  if (!job.to) return exec->error->status;
  exec->values[node] = job.to;
  bool done = tsr__parallel_progress(&job.progress, positions, compact_task, &job);
  return done ? TSR_OK : tsr__cancelled(exec->error, TSR__PROGRAM);
}

/* The mask keeps its first `keep` ones; rows stay in place, and their readers read the mask. */
static void keep_first_task(void *user, int64_t position, int worker)
{
  (void)worker;
  row_job *job = user;
  tsr_box box;
  tsr__value_box(job->mask, (int)position, &box);
  if (job->to->parts[position])
    tsr__devices_of(job->exec->rt)
        ->ops->mask_first(job->mask->parts[position], box.size[0], job->keep[position],
                          job->to->parts[position]);
}

/* The first rows are known once all were counted; each device then keeps its share of them. */
tsr_status tsr__exec_firstn(tsr__exec *exec, int node)
{
  const tsr__gnode *g = &exec->program->nodes[node];
  row_job job = { .exec = exec, .mask = tsr__value_in(exec, node, 0) };
  int positions = job.mask->part_count;
  job.rows = row_room(exec, positions);
  int64_t *keep = row_room(exec, positions), *before = row_room(exec, positions);
  if (!job.rows || !keep || !before || count_mask_rows(&job)) return exec->error->status;
  tsr__number_rows(&job.mask->sharding, positions, job.rows, before);
  /* A parameter of the run: head(5) and head(7) share a plan. */
  int64_t wanted = exec->program->params[g->param].i;
  for (int p = 0; p < positions; p++) {
    int64_t left = wanted - tsr__rows_before(&job.mask->sharding, before, p);
    /* The wanted rows that the parts before leave over, in global order. */
    keep[p] = left < 0 ? 0 : left < job.rows[p] ? left : job.rows[p];
  }
  job.keep = keep;
  job.to = tsr__value_new(
      exec->rt, &(tsr__layout){ TSR_BOOL, &job.mask->shape, &job.mask->sharding, job.mask->rows },
      exec->error);
  if (!job.to) return exec->error->status;
  exec->values[node] = job.to;
  tsr__parallel(exec->rt, positions, keep_first_task, &job);
  return TSR_OK;
}

/* Copies the rows that a position of the result needs from a ragged value: from its own device
 * first, then from the lowest position among replicas. Row numbers are global, so that pieces of
 * several positions join without a gap. */
static void gather_ragged_rows(pieces *of)
{
  const tsr__value *from = of->from;
  tsr__value *to = of->to;
  int position = of->to_position;
  tsr_box want;
  tsr__value_box(to, position, &want);
  of->want = want;
  /* Invariant: rows before `at` are copied. */
  int64_t at = want.start[0], end = at + want.size[0];
  while (at < end) {
    int source = -1;
    tsr_box have = { 0 };
    for (int p = 0; p < from->part_count; p++) {
      tsr_box box;
      tsr__value_box(from, p, &box);
      bool holds = at >= box.start[0] && at < box.start[0] + box.size[0];
      if (!holds || (source >= 0 && p != position)) continue;
      source = p;
      have = box;
    }
    TSR_INVARIANT(source >= 0);
    int64_t last = have.start[0] + have.size[0] < end ? have.start[0] + have.size[0] : end;
    tsr_box piece = want;
    piece.start[0] = at;
    piece.size[0] = last - at;
    copy_piece(of, &(tsr__moved_box){ source, &piece, &have });
    at = last;
  }
}

/* Moves ragged rows to even borders: each holder of a piece of a part gives it. */
tsr_status tsr__exec_rebalance(tsr__exec *exec, int node)
{
  const tsr__value *from = tsr__value_in(exec, node, 0);
  tsr__value *to = tsr__value_new(exec->rt,
                                  &(tsr__layout){ (tsr_dtype)from->dtype, &from->shape,
                                                  tsr__sharding_of(exec, node), NULL },
                                  exec->error);
  if (!to) return exec->error->status;
  exec->values[node] = to;
  tsr__sight sight = { .rt = exec->rt };
  if (tsr__see_pieces(exec->rt, &from, 1, &sight, exec->error)) return exec->error->status;
  tsr__progress progress = { .rt = exec->rt, .what = TSR__PROGRAM };
  pieces job = { .exec = exec, .from = from, .to = to, .progress = &progress, .requests = true };
  for (job.to_position = 0; job.to_position < to->part_count && tsr__sight_is_far(&sight);
       job.to_position++)
    if (to->parts[job.to_position]) gather_ragged_rows(&job);
  tsr_status came = tsr__sight_come(&sight, exec->error);
  if (came) return tsr__unsee(&sight, came, exec->error);
  job.requests = false;
  for (job.to_position = 0; job.to_position < to->part_count; job.to_position++)
    if (to->parts[job.to_position]) gather_ragged_rows(&job);
  exec->traffic.bytes += job.traffic.bytes;
  exec->traffic.escapes += job.traffic.escapes;
  return tsr__unsee(&sight, end_move(exec, from, job.away, &progress), exec->error);
}
