/* Which routine a row has, and lines handed out to the workers. */
#include "kernel/routine/routine.h"

#include "topology/half.h"

/* The functions that a row names: its routine, NULL without one, and that of its scratch memory. */
typedef struct routine {
  tsr__routine_fn *call;
  tsr__room_fn *room;
} routine;

#define ROUTINE(function) .call = tsr__routine_##function
#define TILE(instruction) .call = NULL
#define EMIT(writer) .call = NULL
#define VIEW(name) .call = NULL
#define FORMULA(function) .call = NULL
#define REDUCE(accumulator, finish) .call = NULL
#define STEP(kind) .call = NULL
#define PART() .call = NULL
#define NAMED() .call = NULL
#define LEAF() .call = NULL
#define REGION() .call = NULL
#define LABEL() .call = NULL

#define SCRATCH(function) .room = tsr__room_of_##function,
#define OP(id, text, kernel, ...) [TSR__OP_##id] = { kernel, __VA_ARGS__ },
static const routine routines[TSR__OPS] = {
#include "graph/ops.def"
};

/* A node of several results has the placement of the first: all lie alike. */
static const tsr_sharding *sharding_of_call(const tsr__call *call)
{
  const tsr__gnode *node = tsr__call_node(call);
  int number =
      node->result_count ? call->program->results[node->first_result].sharding : node->sharding;
  return &call->program->shardings[number];
}

/* The devices that hold a sharded table look entries up in it, whatever kernel the row names. */
tsr_status tsr__cpu_call(const tsr__call *call, tsr__error *error)
{
  if (tsr__looks_away(tsr__call_node(call))) return tsr__routine_take(call, error);
  return routines[tsr__call_node(call)->op].call(call, error);
}

unsigned tsr__cpu_call_axes(const tsr__program *program, int node)
{
  const tsr__gnode *g = &program->nodes[node];
  const tsr_sharding *at = sharding_of_call(&(tsr__call){ .program = program, .node = node });
  bool lines = at->mesh && tsr__ops[g->op].by_lines;
  return g->reduce_axes | (lines ? tsr__dim_axes(at, tsr__dim_of(program, g)) : 0);
}

int tsr__cpu_call_apart(const tsr__program *program, int node)
{
  const tsr__gnode *g = &program->nodes[node];
  bool looks = tsr__looks_away(g) || tsr__ops[g->op].fetches;
  return looks ? TSR__CALL_LOOKS : TSR__CALL_MEETS;
}

tsr__sides tsr__sides_over(const tsr__shard *shard, int rank, int dim, int last)
{
  tsr__sides sides = { 1, 1, 1 };
  /* Multiplies the sizes of the dims before `dim`, of dims dim .. last together, and of those
   * after. */
  for (int d = 0; d < rank; d++) {
    int64_t *side = d < dim ? &sides.before : d > last ? &sides.after : &sides.along;
    *side *= shard->box.size[d];
  }
  return sides;
}

tsr__sides tsr__sides_of(const tsr__shard *shard, int rank, int dim)
{
  return tsr__sides_over(shard, rank, dim, dim);
}

#define LOAD(T, VALUE)                                        \
  do {                                                        \
    const T *in = (const T *)from + at;                       \
    for (int64_t i = 0; i < n; i++) out[i] = (double)(VALUE); \
  } while (0)

void tsr__load_reals(tsr_dtype dtype, const void *from, int64_t at, int64_t n, double *out)
{
  switch (dtype) {
  case TSR_F64: memcpy(out, (const double *)from + at, (size_t)n * sizeof *out); break;
  case TSR_F32: LOAD(float, in[i]); break;
  case TSR_F16: LOAD(uint16_t, tsr__f32_of_f16(in[i])); break;
  default: LOAD(uint16_t, tsr__f32_of_bf16(in[i]));
  }
}

/* ---- groups of devices ----------------------------------------------------------------------- */

/* The part at a position; -1: it is another process's. Parts stand in order of their positions. */
static int part_of_position(const tsr__call *call, int position)
{
  int first = 0, count = call->part_count;
  if (position < count && call->parts[position].position == position) return position;
  while (count > 1) {
    int half = count / 2;
    if (call->parts[first + half].position <= position) first += half;
    count -= half;
  }
  return count && call->parts[first].position == position ? first : -1;
}

/* Devices that together do a dim's lines (dim -1: that differ along the axes), in the order of the
 * lines' pieces or of their positions. */
typedef struct group_order {
  unsigned axes;
  int dim;
} group_order;

static tsr_status group_is_apart(const tsr__call *call, tsr__error *error)
{
  return tsr__error_set(error, TSR_EUNSUPPORTED,
                        "tsr_%s: dims sharded over several processes are not yet supported; use a "
                        "mesh of this process's devices",
                        tsr__ops[tsr__call_node(call)->op].name);
}

/* A group is met at its leader, and must have all its members here. */
static tsr_status fill_groups(const tsr__call *call, const group_order *by, tsr__line_groups *out,
                              tsr__error *error)
{
  const tsr_sharding *at = sharding_of_call(call);
  for (int p = 0; p < call->part_count; p++) {
    int leader = call->parts[p].position;
    if (tsr__mesh_group_leader(at->mesh, by->axes, leader) != leader) continue;
    for (int i = 0; i < out->members; i++) {
      int offset = by->dim < 0 ? tsr__mesh_group_offset(at->mesh, by->axes, i)
                               : tsr__part_offset(at, by->dim, i);
      int part = part_of_position(call, leader + offset);
      if (part < 0) return group_is_apart(call, error);
      out->part[out->count * out->members + i] = part;
    }
    out->count++;
  }
  /* Members whose leader is another process's are in no group that was met. */
  bool all = out->count * out->members == call->part_count;
  return all ? TSR_OK : group_is_apart(call, error);
}

/* Groups are complete, so their members are as many as the parts; an incomplete group would list
 * only some. */
static size_t group_bytes(const tsr__call *call, const tsr__line_groups *groups)
{
  return ((size_t)call->part_count + (size_t)groups->members) * sizeof *groups->part;
}

static tsr_status make_groups(const tsr__call *call, const group_order *by, tsr__line_groups *out,
                              tsr__error *error)
{
  *out =
      (tsr__line_groups){ .members = tsr__mesh_group_size(sharding_of_call(call)->mesh, by->axes) };
  out->part = tsr__new(&call->rt->heap, group_bytes(call, out));
  if (!out->part) return tsr__error_set(error, TSR_ENOMEM, "no memory to run a program");
  return fill_groups(call, by, out, error);
}

/* Lines that are cut lie in parts of several devices: such parts are a group, and its members stand
 * in the order of their pieces of the line. */
tsr_status tsr__line_groups_find(const tsr__call *call, tsr__line_groups *out, tsr__error *error)
{
  int dim = tsr__call_dim(call);
  const group_order by = { tsr__dim_axes(sharding_of_call(call), dim), dim };
  return make_groups(call, &by, out, error);
}

tsr_status tsr__groups_over(const tsr__call *call, unsigned axes, tsr__line_groups *out,
                            tsr__error *error)
{
  const group_order by = { axes, -1 };
  return make_groups(call, &by, out, error);
}

void tsr__line_groups_free(const tsr__call *call, tsr__line_groups *groups)
{
  tsr__del(&call->rt->heap, groups->part, group_bytes(call, groups));
}

/* ---- lines ----------------------------------------------------------------------------------- */

enum { TASK = 1 << 15 }; /* elements of a task; so few of all are not worth waking a worker for */

typedef struct line_job {
  const tsr__call *call;
  const tsr__line_work *work;
  int rank, dim;
  int64_t strips;     /* strips a task */
  _Atomic int failed; /* a tsr_status */
  tsr__progress progress;
} line_job;

static tsr__sides sides_of_lines(const line_job *job, int part)
{
  return tsr__sides_over(&job->call->parts[part].in[0], job->rank, job->dim,
                         job->dim + job->work->more);
}

static int64_t strips_of_part(const line_job *job, int part)
{
  tsr__sides sides = sides_of_lines(job, part);
  if (!sides.along) return 0;
  return sides.before * ((sides.after + job->work->width - 1) / job->work->width);
}

/* Does some strips of one part. */
static void run_strips(line_job *job, int part, int64_t first, int worker)
{
  /* A task begins at a strip of its part's; how many it does is the same for all tasks, so that any
   * worker can find it by its number. */
  tsr_runtime *rt = job->call->rt;
  tsr__sides sides = sides_of_lines(job, part);
  int64_t width = job->work->width, across = (sides.after + width - 1) / width;
  int64_t all = sides.before * across, end = all - first < job->strips ? all : first + job->strips;
  /* One room for all strips of the task: they are done one after the other. */
  tsr__scratch *scratch = tsr__scratch_take(rt, job->work->room + 64);
  tsr__strip strip = { .call = job->call,
                       .work = job->work,
                       .part = &job->call->parts[part],
                       .user = job->work->user,
                       .along = sides.along,
                       .after = sides.after,
                       .worker = worker,
                       .progress = &job->progress };
  tsr_status status = scratch ? TSR_OK : TSR_ENOMEM;
  for (int64_t s = first; s < end && !status; s++) {
    int64_t line = s % across * width;
    /*   [before, along, after], strips of `width` lines side by side:
     *
     *   after     |<-- width -->|<-- width -->|rest|    a strip goes down `along`,
     *   along     v             v             v         `after` from one of its runs to the next */
    strip.at = s / across * sides.along * sides.after + line;
    strip.count = sides.after - line < width ? sides.after - line : width;
    strip.room = scratch->memory;
    status = job->work->fn(&strip);
  }
  tsr__scratch_give(rt, scratch);
  /* Any of them will do: all mean that memory was short. */
  if (status) job->failed = status;
}

/* Tasks are numbered through the parts: those of the parts before are counted off. */
static void line_task(void *user, int64_t task, int worker)
{
  line_job *job = user;
  int part = 0;
  for (int64_t tasks; task >= (tasks = (strips_of_part(job, part) + job->strips - 1) / job->strips);
       part++)
    task -= tasks;
  /* Tasks that remain after a failure do not begin. */
  if (!job->failed) run_strips(job, part, task * job->strips, worker);
}

tsr_status tsr__each_line(const tsr__call *call, const tsr__line_work *work, tsr__error *error)
{
  const tsr__gnode *node = tsr__call_node(call);
  const tsr__gnode *x = &call->program->nodes[tsr__in(call->program, node, 0)];
  line_job job = { .call = call,
                   .work = work,
                   .rank = x->rank,
                   .dim = tsr__dim_of(call->program, node),
                   .progress = { .rt = call->rt, .what = TSR__PROGRAM } };
  int64_t all = 0, tasks = 0, strip = work->width;
  /* Counts the whole dim: sharded parts have fewer elements, which only makes tasks shorter. */
  for (int d = job.dim; d <= job.dim + work->more; d++) strip *= x->dims[d];
  job.strips = TASK / (strip ? strip : 1);
  if (job.strips < 1) job.strips = 1;
  for (int p = 0; p < call->part_count; p++) {
    int64_t strips = strips_of_part(&job, p);
    all += strips;
    tasks += (strips + job.strips - 1) / job.strips;
  }
  /* Too little to wake anybody for: on this thread. */
  if (all * strip <= TASK)
    for (int64_t t = 0; t < tasks; t++) line_task(&job, t, 0);
  else tsr__parallel_progress(&job.progress, tasks, line_task, &job);
  if (job.failed)
    return tsr__error_set(error, (tsr_status)job.failed,
                          "tsr_%s: no scratch memory left; free arrays or raise .memory_limit",
                          tsr__ops[node->op].name);
  return atomic_load(&job.progress.stop) ? tsr__cancelled(error, job.progress.what) : TSR_OK;
}

/* ---- scratch memory ----------------------------------------------------------------------- */

/* Other routines use their workers' scratch memory (tsr__scratch_take), which belongs to no
 * device. */
int64_t tsr__cpu_call_room(const tsr__call *call, const bool *wanted)
{
  tsr__room_fn *room = routines[tsr__call_node(call)->op].room;
  return room ? room(call, wanted) : 0;
}
