/* Scattering updates that are cut over devices: each makes something of its own, and the first of
 * those that hold the same part of the result joins that.
 *
 *   device 0   x, and updates 0 1 2      the sums, the extremes or the last ones so far
 *   device 1      updates 3 4 5    -->   to device 0, which joins them, and back to all
 *
 * Sums of floats travel exactly, integers wrap and extremes are elements. Of updates that replace
 * what is there the last one in the order of all indices wins: which one that is, devices tell each
 * other for each place. So neither the cut nor the order of devices can show. */
#include "kernel/routine/scatter.h"

#include "kernel/device/cpu.h"

typedef struct apart {
  const tsr__call *call;
  tsr__line_groups groups;
  int64_t width;
  int64_t *
      *last; /* set: [part][place] the number of the last update, then (of a group's first part)
                     the member that has the last of all; else NULL */
  _Atomic int64_t moved, escaped;
  _Atomic bool failed;
  tsr__progress progress;
} apart;

/* A strip of a group. */
typedef struct unit {
  apart *job;
  const int *part;    /* the group's */
  const int64_t *who; /* set: by place, the member that has the last update */
  tsr__strip strip;   /* of the first member */
} unit;

static tsr__scattering of_member(const unit *u, int member, tsr__strip *strip)
{
  *strip = u->strip;
  strip->part = &u->job->call->parts[u->part[member]];
  return tsr__scattering_of(strip);
}

/* Copies from one member's device to another's, counted. */
static void carry(const unit *u, int from, int to, tsr__transfer what)
{
  tsr__traffic traffic = { 0 };
  what.from_device = u->job->call->parts[u->part[from]].device;
  what.to_device = u->job->call->parts[u->part[to]].device;
  tsr__cpu_move(&what, &traffic);
  atomic_fetch_add(&u->job->moved, traffic.bytes);
}

/* Run t of a member's result. */
static void *run_of(const unit *u, int member, int64_t t)
{
  const tsr__strip *s = &u->strip;
  size_t size = tsr_dtype_size(tsr__call_dtype(s->call, 0));
  char *out = u->job->call->parts[u->part[member]].out[0].buffer->data;
  return out + (size_t)(s->at + t * s->after) * size;
}

static size_t run_bytes(const unit *u)
{
  return (size_t)u->strip.count * tsr_dtype_size(tsr__call_dtype(u->strip.call, 0));
}

/* The finished result to those that only helped. */
static void send_back(const unit *u)
{
  for (int m = 1; m < u->job->groups.members; m++)
    for (int64_t t = 0; t < u->strip.along; t++)
      carry(u, 0, m,
            (tsr__transfer){
                .to = run_of(u, m, t), .from = run_of(u, 0, t), .bytes = run_bytes(u) });
}

/* ---- sums of floats -------------------------------------------------------------------------- */

/* What of a member's sums travels; joining them is exact. */
static void send_sums(const unit *u, int member, const tsr__rows *sums)
{
  uint64_t wire[1024];
  size_t bytes = tsr__rows_bytes(sums->count);
  for (size_t at = 0; at < bytes; at += sizeof wire)
    carry(u, member, 0,
          (tsr__transfer){ .to = wire,
                           .from = (const char *)sums->part[0] + at,
                           .bytes = bytes - at < sizeof wire ? bytes - at : sizeof wire });
  int64_t escapes = (int64_t)sums->escape_count * TSR__ESCAPE_WIRE;
  atomic_fetch_add(&u->job->moved, escapes);
  atomic_fetch_add(&u->job->escaped, escapes);
}

static bool sum_unit(const unit *u, void *memory)
{
  tsr__heap *heap = &u->job->call->rt->heap;
  int64_t count = u->strip.along * u->strip.count;
  tsr__rows sums, other;
  tsr__strip strip;
  tsr__scattering first = of_member(u, 0, &strip);
  tsr__rows_init(&sums, heap, memory, count);
  tsr__scatter_sum_x(&first, &sums);
  tsr__scatter_sum_updates(&first, &sums);
  bool good = !sums.failed;
  for (int m = 1; m < u->job->groups.members && good; m++) {
    tsr__strip its;
    tsr__scattering a = of_member(u, m, &its);
    tsr__rows_init(&other, heap, (char *)memory + tsr__rows_bytes(count), count);
    tsr__scatter_sum_updates(&a, &other);
    send_sums(u, m, &other);
    tsr__cpu_of(u->job->call->rt)->tiles->exact->rows_merge(&sums, 0, &other);
    good = !sums.failed && !other.failed;
    tsr__rows_free(&other);
  }
  if (good) tsr__scatter_write_sums(&first, &sums);
  tsr__rows_free(&sums);
  return good;
}

static bool real_unit(const unit *u)
{
  tsr__error error;
  int64_t count = u->strip.along * u->strip.count;
  int device = u->job->call->parts[u->part[0]].device;
  tsr__buffer *memory =
      tsr__cpu_buffer(u->job->call->rt, device, 2 * tsr__rows_bytes(count), &error);
  bool good = memory && sum_unit(u, memory->data);
  tsr__buffer_release(memory);
  return good;
}

/* ---- elements joined one by one -------------------------------------------------------------- */

/* What a member begins with: what is there, where joining that again changes nothing, else what
 * changes nothing itself. */
static void begin_run(const unit *u, int member, int64_t t, const tsr__scattering *a)
{
  int64_t how = a->attr->how;
  void *run = run_of(u, member, t);
  size_t size = tsr_dtype_size(a->dtype);
  bool counts = how == TSR_SCATTER_ADD || how == TSR_SCATTER_MUL;
  const char *x = u->job->call->parts[u->part[member]].in[0].buffer->data;
  if (!member || !counts) {
    memcpy(run, x + (size_t)(u->strip.at + t * u->strip.after) * size, run_bytes(u));
    return;
  }
  memset(run, 0, run_bytes(u));
  for (int64_t j = 0; how == TSR_SCATTER_MUL && j < u->strip.count; j++)
    tsr__dtype_put_whole(a->dtype, run, j, 1);
}

/* What came of another member's run t. */
static void join_run(const unit *u, int64_t t, const void *came, tsr__join_fn *join)
{
  const int64_t first = 0, width = u->strip.count;
  join(&(tsr__joined){ run_of(u, 0, t), came, &first, 1, width, width });
}

static void fold_unit(const unit *u)
{
  unsigned char came[8 * TSR__SCATTER_WIDTH];
  tsr__join_fn *join = NULL;
  for (int m = 0; m < u->job->groups.members; m++) {
    tsr__strip strip;
    tsr__scattering a = of_member(u, m, &strip);
    join = tsr__scatter_join(&a);
    for (int64_t t = 0; t < u->strip.along; t++) begin_run(u, m, t, &a);
    tsr__scatter_fold(&a, join);
  }
  for (int m = 1; m < u->job->groups.members; m++)
    for (int64_t t = 0; t < u->strip.along; t++) {
      carry(u, m, 0, (tsr__transfer){ .to = came, .from = run_of(u, m, t), .bytes = run_bytes(u) });
      if (!u->who || u->who[t] == m) join_run(u, t, came, join);
    }
}

/* ---- which update is the last ---------------------------------------------------------------- */

static tsr__sides sides_of(const apart *job, int part)
{
  int dim = tsr__call_dim(job->call);
  return tsr__sides_over(&job->call->parts[part].in[0], tsr__call_rank(job->call), dim,
                         dim + tsr__scatter_more(job->call));
}

/* The number of a part's update among all of them. */
static int64_t number_of(const apart *job, int part, int64_t j)
{
  const tsr__gnode *at =
      &job->call->program->nodes[tsr__in(job->call->program, tsr__call_node(job->call), 1)];
  const tsr_box *box = &job->call->parts[part].in[1].box;
  int64_t number = 0, scale = 1;
  for (int d = at->rank - 1; d >= 0; d--) {
    number += (box->start[d] + j % box->size[d]) * scale;
    j /= box->size[d];
    scale *= at->dims[d];
  }
  return number;
}

static void find_last(apart *job, int part)
{
  tsr__strip strip = { .call = job->call, .part = &job->call->parts[part] };
  tsr__scattering a = tsr__scattering_of(&strip);
  for (int64_t t = 0; t < sides_of(job, part).along; t++) job->last[part][t] = -1;
  for (int64_t j = 0; j < a.count; j++) {
    int64_t place = tsr__scatter_place(&a, j), number = number_of(job, part, j);
    if (place >= 0 && number > job->last[part][place]) job->last[part][place] = number;
  }
}

/* Of a group: afterwards the first part's list says who has the last of all. */
static void find_winners(apart *job, const int *part)
{
  int64_t along = sides_of(job, part[0]).along, *first = job->last[part[0]];
  unit u = { .job = job, .part = part };
  for (int m = 0; m < job->groups.members; m++) find_last(job, part[m]);
  for (int64_t t = 0; t < along; t++) {
    int64_t most = first[t], who = 0;
    for (int m = 1; m < job->groups.members; m++) {
      int64_t number = -1;
      carry(&u, m, 0,
            (tsr__transfer){
                .to = &number, .from = &job->last[part[m]][t], .bytes = sizeof number });
      if (number > most) who = m;
      if (number > most) most = number;
    }
    first[t] = who;
  }
}

static int64_t units_of(const apart *job, int group)
{
  tsr__sides sides = sides_of(job, job->groups.part[group * job->groups.members]);
  return sides.along ? sides.before * ((sides.after + job->width - 1) / job->width) : 0;
}

/* In one block: pointers by part, then the lists. NULL out of memory. */
static int64_t **new_lists(const apart *job, size_t *bytes)
{
  size_t count = (size_t)job->call->part_count, cells = 0;
  for (size_t p = 0; p < count; p++) cells += (size_t)sides_of(job, (int)p).along;
  *bytes = count * sizeof(int64_t *) + (cells + 1) * sizeof(int64_t);
  int64_t **last = tsr__new(&job->call->rt->heap, *bytes);
  if (!last) return NULL;
  int64_t *next = (int64_t *)(last + count);
  for (size_t p = 0; p < count; p++) {
    last[p] = next;
    next += sides_of(job, (int)p).along;
  }
  return last;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void unit_task(void *user, int64_t task, int worker)
{
  apart *job = user;
  int group = 0;
  for (int64_t units; task >= (units = units_of(job, group)); group++) task -= units;
  const int *part = &job->groups.part[group * job->groups.members];
  tsr__sides sides = sides_of(job, part[0]);
  int64_t across = (sides.after + job->width - 1) / job->width, line = task % across * job->width;
  unit u = { .job = job,
             .part = part,
             .who = job->last ? job->last[part[0]] : NULL,
             .strip = { .call = job->call,
                        .along = sides.along,
                        .after = sides.after,
                        .at = task / across * sides.along * sides.after + line,
                        .count = sides.after - line < job->width ? sides.after - line : job->width,
                        .worker = worker,
                        .progress = &job->progress } };
  tsr__strip strip;
  tsr__scattering first = of_member(&u, 0, &strip);
  if (tsr__scatter_join(&first)) fold_unit(&u);
  else if (!real_unit(&u)) atomic_store(&job->failed, true);
  send_back(&u);
}

static tsr_status do_units(apart *job, tsr__error *error)
{
  int64_t units = 0;
  for (int g = 0; g < job->groups.count; g++) {
    units += units_of(job, g);
    if (job->last && units_of(job, g))
      find_winners(job, &job->groups.part[g * job->groups.members]);
  }
  bool done = tsr__parallel_progress(&job->progress, units, unit_task, job);
  if (job->call->traffic) {
    job->call->traffic->bytes += job->moved;
    job->call->traffic->escapes += job->escaped;
  }
  if (job->failed)
    return tsr__error_set(error, TSR_ENOMEM,
                          "tsr_scatter: no memory left to work in; free arrays or raise "
                          ".memory_limit");
  return done ? TSR_OK : tsr__cancelled(error, job->progress.what);
}

tsr_status tsr__scatter_apart(const tsr__call *call, tsr__error *error)
{
  const tsr__scatter_attr *attr = tsr__attr_of(call->program, tsr__call_node(call));
  apart job = { .call = call,
                .width = tsr__scatter_width(call),
                .progress = { .rt = call->rt, .what = TSR__PROGRAM } };
  size_t bytes = 0;
  tsr_status status = tsr__groups_over(call, tsr__call_node(call)->reduce_axes, &job.groups, error);
  if (!status && attr->how == TSR_SCATTER_SET && !(job.last = new_lists(&job, &bytes)))
    status = tsr__error_set(error, TSR_ENOMEM, "no memory to run a program");
  if (!status) status = do_units(&job, error);
  if (job.last) tsr__del(&call->rt->heap, job.last, bytes);
  tsr__line_groups_free(call, &job.groups);
  return status;
}
