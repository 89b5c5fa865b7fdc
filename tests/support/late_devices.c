/* Queues of a device each, and one thread that empties them.
 *
 *   entry    -> | piece | piece | ...      a piece has copies of the ask's lists
 *   thread   <- from a queue by chance     on buffers of another runtime
 *
 * The devices' memory is that of the CPU devices of this other runtime, which has no workers. So
 * the thread takes its scratch memory from there, and none of the host's. */
#include "support/late_devices.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "kernel/device/cpu.h"
#include "kernel/fuse/kir.h"
#include "kernel/routine/routine.h"
#include "kernel/tile/interp.h"
#include "kernel/tile/partial.h"
#include "support/late_queues.h"

enum { OVERWRITTEN = 0xA5, MOST_DEVICES = 64 };

typedef struct late_buffer {
  tsr__queued queued;
  tsr__buffer *hidden; /* of the other runtime */
} late_buffer;

typedef struct queue {
  late_piece *first, **last;
  _Atomic uint64_t done;
  uint64_t awaited; /* the lowest number that a thread waits for; UINT64_MAX: none */
  _Atomic bool lost;
  tsr_status fails; /* of a piece to come, after so many others; TSR_OK: none fails */
  int64_t after;
} queue;

typedef struct late_state {
  tsr_runtime *rt, *hidden;
  int first, count;
  pthread_mutex_t lock;
  pthread_cond_t more; /* for the thread: of work, or of those that await some */
  pthread_cond_t over; /* for those that await */
  pthread_t thread;
  int generation;
  bool held, stalled, quit;
  int wanted; /* threads that await */
  /* Work begins when so many pieces are queued, drawn by chance, or a thread awaits. */
  int64_t patience;
  int64_t pieces, waits;
  bool fresh; /* something was queued since the last wait */
  uint64_t chance;
  queue queue[]; /* one a device */
} late_state;

static late_state *state_of(const tsr_runtime *rt)
{
  return tsr__kind_state(rt);
}

static queue *queue_of(const tsr_runtime *rt, int device)
{
  late_state *s = state_of(rt);
  int at = device - s->first;
  return at < 0 || at >= s->count ? NULL : &s->queue[at];
}

static late_buffer *late_of(const tsr__buffer *buffer)
{
  return (late_buffer *)(uintptr_t)buffer;
}

tsr_runtime *late_hidden(const tsr_runtime *rt)
{
  return state_of(rt)->hidden;
}

/* A header of the hidden buffer, which lives as long as a piece. */
static tsr__buffer shadow_of(const tsr__buffer *buffer)
{
  return *late_of(buffer)->hidden;
}

static unsigned char *bytes_of(const tsr__buffer *buffer)
{
  return tsr__cpu_data(late_of(buffer)->hidden);
}

/* ---- the thread ------------------------------------------------------------------------------ */

void *late_piece_new(size_t bytes, void (*work)(late_piece *p))
{
  late_piece *p = calloc(1, bytes);
  if (!p) abort();
  p->work = work;
  return p;
}

/* The lock is held. */
static void add_piece(late_state *s, queue *q, late_piece *p)
{
  *q->last = p;
  q->last = &p->next;
  s->pieces++;
  s->fresh = true;
  if (s->pieces >= s->patience) pthread_cond_signal(&s->more);
}

void late_enqueue(const tsr_runtime *rt, int device, late_piece *p)
{
  late_state *s = state_of(rt);
  pthread_mutex_lock(&s->lock);
  add_piece(s, queue_of(rt, device), p);
  pthread_mutex_unlock(&s->lock);
}

static uint64_t draw(late_state *s)
{
  s->chance ^= s->chance << 13;
  s->chance ^= s->chance >> 7;
  s->chance ^= s->chance << 17;
  return s->chance;
}

/* How many queues have come to some work. */
static int arrived(const late_state *s, const late_piece *work)
{
  int count = 0;
  for (int i = 0; i < s->count; i++) count += s->queue[i].first && s->queue[i].first->meets == work;
  return count;
}

static bool is_ready(const late_state *s, const late_piece *p)
{
  if (p && p->meets) return arrived(s, p->meets) == p->meets->count;
  return p && (p->work || p->other < 0 || s->queue[p->other - s->first].done >= p->number);
}

/* A queue whose first piece may begin, drawn by chance; NULL: there is none, or work is held. */
static queue *ready_queue(late_state *s)
{
  int from = (int)(draw(s) % (uint64_t)s->count);
  bool patient = s->held || s->pieces < s->patience;
  if ((s->stalled || (patient && !s->wanted)) && !s->quit) return NULL;
  for (int i = 0; i < s->count; i++) {
    queue *q = &s->queue[(from + i) % s->count];
    if (is_ready(s, q->first)) return q;
  }
  return NULL;
}

static void drop_first_piece(late_state *s, queue *q)
{
  late_piece *p = q->first;
  q->first = p->next;
  if (!q->first) q->last = &q->first;
  if (!--s->pieces) {
    s->patience = 1 + (int64_t)(draw(s) % 64);
    pthread_cond_broadcast(&s->over);
  }
  free(p);
}

/* Whether a queue's first piece is not done, as the device is lost or short of memory: the error of
 * its ask says so. Errors of pieces after the loss may be gone, as these count as over. */
static bool fails(late_state *s, queue *q, const late_piece *work)
{
  tsr__error none = { .status = TSR_OK }, *error = work->error ? work->error : &none;
  bool now = !q->after;
  if (q->lost) return true;
  if (q->after) q->after--;
  if (now && q->fails == TSR_EIO) {
    tsr__device_lost(s->rt, s->first + (int)(q - s->queue), error);
    q->lost = true; /* last: the runtime waits for this device no more */
    return true;
  }
  if (!now || q->fails != TSR_ENOMEM || !work->error) return false;
  tsr__error_set(error, TSR_ENOMEM, "no memory left for the working set of a kernel");
  q->fails = TSR_OK;
  return true;
}

/* The queue's work up to a number is over. */
static void reach(late_state *s, queue *q, uint64_t number)
{
  q->done = number;
  if (number < q->awaited) return;
  q->awaited = UINT64_MAX;
  pthread_cond_broadcast(&s->over);
}

static bool is_first(const queue *q, const late_piece *work)
{
  return q->first && (q->first == work || q->first->meets == work);
}

/* A piece stays first of its queue until it is over, so that the queue is in order. */
static void do_first_piece(late_state *s, queue *q)
{
  late_piece *p = q->first, *work = p->meets ? p->meets : p;
  unsigned delay = draw(s) % 64 ? 0 : (unsigned)(draw(s) % 100);
  bool failed = false, several = p->meets;
  for (int i = 0; i < s->count && work->work; i++)
    if (is_first(&s->queue[i], work)) failed = fails(s, &s->queue[i], work) || failed;
  pthread_mutex_unlock(&s->lock);
  if (delay) usleep(delay);
  if (work->work && !failed) work->work(work);
  if (work->end) work->end(work);
  pthread_mutex_lock(&s->lock);
  if (!work->work && p->other == HAS_NUMBER) reach(s, q, p->number);
  for (int i = 0; i < s->count; i++)
    if (is_first(&s->queue[i], work)) drop_first_piece(s, &s->queue[i]);
  if (several) free(work);
}

static void *late_thread(void *user)
{
  late_state *s = user;
  pthread_mutex_lock(&s->lock);
  while (!s->quit || s->pieces) {
    queue *q = ready_queue(s);
    if (q) do_first_piece(s, q);
    else pthread_cond_wait(&s->more, &s->lock);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

/* Two threads' work of several devices stands in one order on all of them: crossed, each would wait
 * for the other. */
void late_meet(const tsr_runtime *rt, const int *devices, int count, late_piece *work)
{
  late_state *s = state_of(rt);
  work->count = count;
  pthread_mutex_lock(&s->lock);
  for (int i = 0; i < count; i++) {
    late_piece *p = late_piece_new(sizeof *p, NULL);
    p->meets = work;
    add_piece(s, queue_of(rt, devices[i]), p);
  }
  pthread_mutex_unlock(&s->lock);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void late_mark(tsr_runtime *rt, int device, uint64_t number)
{
  late_piece *p = late_piece_new(sizeof *p, NULL);
  p->other = HAS_NUMBER;
  p->number = number;
  late_enqueue(rt, device, p);
}

static void late_follow(tsr_runtime *rt, int device, int other, uint64_t number)
{
  late_piece *p = late_piece_new(sizeof *p, NULL);
  p->other = other;
  p->number = number;
  late_enqueue(rt, device, p);
}

/* How often this process was forked off another. */
static int generation;

static void count_generation(void)
{
  generation++;
}

static void watch_forks(void)
{
  pthread_atfork(NULL, NULL, count_generation);
}

/* A child of fork has no thread. */
static uint64_t late_done(const tsr_runtime *rt, int device)
{
  return state_of(rt)->generation == generation ? queue_of(rt, device)->done : UINT64_MAX;
}

static bool late_lost(const tsr_runtime *rt, int device)
{
  return queue_of(rt, device)->lost;
}

static void late_await(tsr_runtime *rt, int device, uint64_t number)
{
  enum { WAIT_NS = 10000000, SECOND = 1000000000 };
  late_state *s = state_of(rt);
  queue *q = queue_of(rt, device);
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += WAIT_NS;
  until.tv_sec += until.tv_nsec / SECOND;
  until.tv_nsec %= SECOND;
  pthread_mutex_lock(&s->lock);
  s->wanted++;
  s->waits += s->fresh; /* else the same wait goes on */
  s->fresh = false;
  pthread_cond_signal(&s->more);
  /* Held work is all done once some is awaited, so that waits can be counted. */
  while (s->held ? s->pieces : q->done < number) {
    if (number < q->awaited) q->awaited = number;
    if (pthread_cond_timedwait(&s->over, &s->lock, &until)) break;
  }
  s->wanted--;
  pthread_mutex_unlock(&s->lock);
}

/* The host waits for all that is queued. */
void late_drain(const tsr_runtime *rt)
{
  late_state *s = state_of(rt);
  pthread_mutex_lock(&s->lock);
  s->wanted++;
  pthread_cond_signal(&s->more);
  while (s->pieces && s->generation == generation) pthread_cond_wait(&s->over, &s->lock);
  s->wanted--;
  pthread_mutex_unlock(&s->lock);
}

/* Whether a device has nothing to do, or nobody who would do it. */
bool late_is_idle(const tsr_runtime *rt, int device)
{
  late_state *s = state_of(rt);
  pthread_mutex_lock(&s->lock);
  bool idle = !queue_of(rt, device)->first || s->generation != generation;
  pthread_mutex_unlock(&s->lock);
  return idle;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static tsr__buffer *late_take(tsr_runtime *rt, int device, size_t bytes, tsr__error *error)
{
  late_buffer *buffer = tsr__new(&rt->heap, sizeof *buffer);
  if (!buffer) {
    tsr__error_set(error, TSR_ENOMEM, "no memory for a buffer; free arrays");
    return NULL;
  }
  buffer->hidden = tsr__cpu_take(late_hidden(rt), device, bytes, error);
  if (!buffer->hidden) {
    tsr__del(&rt->heap, buffer, sizeof *buffer);
    return NULL;
  }
  tsr__buffer *head = &buffer->queued.head;
  head->device = device;
  head->bytes = bytes;
  head->ops = tsr__devices_of(rt)->ops;
  head->rt = rt;
  atomic_init(&head->refs, 1);
  return head;
}

static void late_give(tsr__buffer *buffer)
{
  if (buffer->bytes) memset(bytes_of(buffer), OVERWRITTEN, buffer->bytes);
  tsr__buffer_release(late_of(buffer)->hidden);
  tsr__del(&buffer->rt->heap, late_of(buffer), sizeof(late_buffer));
}

static tsr_memory late_memory(const tsr_runtime *rt, int device)
{
  return tsr__cpu_memory(late_hidden(rt), device);
}

typedef struct put_piece {
  late_piece head;
  unsigned char *to;
  size_t bytes;
  unsigned char host[];
} put_piece;

static void do_put(late_piece *p)
{
  put_piece *put = (put_piece *)p;
  memcpy(put->to, put->host, put->bytes);
}

static void late_put(tsr__buffer *to, size_t at, const void *host, size_t bytes)
{
  if (at > to->bytes || bytes > to->bytes - at) abort();
  put_piece *put = late_piece_new(sizeof *put + bytes, do_put);
  put->to = bytes_of(to) + at;
  put->bytes = bytes;
  if (bytes) memcpy(put->host, host, bytes);
  late_enqueue(to->rt, to->device, &put->head);
}

static void late_get(const tsr__buffer *from, size_t at, void *host, size_t bytes)
{
  if (at > from->bytes || bytes > from->bytes - at) abort();
  if (bytes) memcpy(host, bytes_of(from) + at, bytes);
}

/* ---- fill and number ------------------------------------------------------------------------- */

typedef struct fill_piece {
  late_piece head;
  tsr__buffer to;
  int64_t first, count;
} fill_piece;

static void do_fill(late_piece *p)
{
  fill_piece *fill = (fill_piece *)p;
  tsr__cpu_fill(&fill->to, (uint8_t)fill->first);
}

static void late_fill(tsr__buffer *buffer, uint8_t byte)
{
  fill_piece *fill = late_piece_new(sizeof *fill, do_fill);
  fill->to = shadow_of(buffer);
  fill->first = byte;
  late_enqueue(buffer->rt, buffer->device, &fill->head);
}

static void do_number(late_piece *p)
{
  fill_piece *fill = (fill_piece *)p;
  tsr__cpu_number(&fill->to, fill->first, fill->count);
}

static void late_number(tsr__buffer *buffer, int64_t first, int64_t count)
{
  fill_piece *fill = late_piece_new(sizeof *fill, do_number);
  fill->to = shadow_of(buffer);
  fill->first = first;
  fill->count = count;
  late_enqueue(buffer->rt, buffer->device, &fill->head);
}

/* ---- copies ---------------------------------------------------------------------------------- */

typedef struct copy_piece {
  late_piece head;
  tsr__box_copy copy;
  tsr__buffer from, to;
  int64_t lists[6][TSR_MAX_RANK];
} copy_piece;

static void do_copy(late_piece *p)
{
  copy_piece *c = (copy_piece *)p;
  tsr__cpu_copy(&c->copy, &c->from, &c->to, NULL);
}

static const int64_t *keep_list(copy_piece *c, int number, const int64_t *list)
{
  if (!list) return NULL;
  memcpy(c->lists[number], list, (size_t)c->copy.rank * sizeof *list);
  return c->lists[number];
}

static void count_elements(tsr_dtype dtype, int64_t count, tsr__traffic *traffic)
{
  if (!traffic) return;
  traffic->bytes += tsr__elements_bytes(dtype, count);
}

static void count_copy(const tsr__box_copy *copy, tsr__traffic *traffic)
{
  int64_t count = 1;
  for (int d = 0; d < copy->rank; d++) count *= copy->size[d] > 0 ? copy->size[d] : 0;
  count_elements(copy->dtype, count, traffic);
}

static void late_copy(const tsr__box_copy *copy, const tsr__buffer *from, tsr__buffer *to,
                      tsr__traffic *traffic)
{
  copy_piece *c = late_piece_new(sizeof *c, do_copy);
  c->copy = *copy;
  c->copy.progress = NULL;
  c->copy.from_dims = keep_list(c, 0, copy->from_dims);
  c->copy.from_start = keep_list(c, 1, copy->from_start);
  c->copy.to_dims = keep_list(c, 2, copy->to_dims);
  c->copy.to_start = keep_list(c, 3, copy->to_start);
  c->copy.size = keep_list(c, 4, copy->size);
  c->copy.from_step = keep_list(c, 5, copy->from_step);
  c->from = shadow_of(from);
  c->to = shadow_of(to);
  if (from->device != to->device) count_copy(copy, traffic);
  late_enqueue(to->rt, to->device, &c->head);
}

/* ---- assemblies ------------------------------------------------------------------------------ */

/* One part of an assembly. Shadows of the buffers by position follow, then the overlaps. */
typedef struct assemble_piece {
  late_piece head;
  tsr__assembly part;
  tsr__buffer to;
  tsr__buffer **from;
  tsr__buffer *shadows;
  tsr__overlap *overlaps;
} assemble_piece;

static int greater(int a, int b)
{
  return a > b ? a : b;
}

/* One more than the last position that has a piece of a part. */
static int positions_of(const tsr__piece_grid *pieces)
{
  int last = 0;
  for (int d = 0; d < pieces->rank; d++) {
    int most = 0;
    for (int i = 0; i < pieces->counts[d]; i++) most = greater(most, pieces->overlaps[d][i].offset);
    last += most;
  }
  return 1 + greater(last, greater(pieces->leader, pieces->own));
}

static int overlaps_of(const tsr__piece_grid *pieces)
{
  int count = 0;
  for (int d = 0; d < pieces->rank; d++) count += pieces->counts[d];
  return count;
}

/* The elements of a piece that belong to the part's slab, along one dim. */
static int64_t size_in_slab(const tsr__assembly *part, int d, const tsr__overlap *o)
{
  int64_t start = o->to_start, end = o->to_start + o->size;
  if (d == part->slab_dim && start < part->slab_start) start = part->slab_start;
  if (d == part->slab_dim && end > part->slab_end) end = part->slab_end;
  return end > start ? end - start : 0;
}

/* Counts a piece, and shadows its buffer; those of positions without a piece may be gone. False: it
 * has none. */
static bool take_piece(assemble_piece *a, const int *index, tsr__buffer *const *from,
                       tsr__traffic *traffic)
{
  const tsr__piece_grid *g = &a->part.pieces;
  int64_t count = 1;
  int at = 0;
  for (int d = 0; d < g->rank; d++) {
    const tsr__overlap *o = &g->overlaps[d][index[d]];
    count *= size_in_slab(&a->part, d, o);
    at += o->offset;
  }
  at = at == g->leader ? g->own : at;
  if (!from[at]) return !count;
  a->shadows[at] = shadow_of(from[at]);
  a->from[at] = &a->shadows[at];
  if (from[at]->device != a->to.device) count_elements(a->part.dtype, count, traffic);
  return true;
}

static bool take_pieces(assemble_piece *a, tsr__buffer *const *from, tsr__traffic *traffic)
{
  const tsr__piece_grid *g = &a->part.pieces;
  int index[TSR_MAX_RANK] = { 0 }, d;
  bool all = true;
  for (d = 0; d < g->rank; d++)
    if (!g->counts[d]) return true;
  do {
    all = take_piece(a, index, from, traffic) && all;
    for (d = g->rank - 1; d >= 0 && ++index[d] == g->counts[d]; d--) index[d] = 0;
  } while (d >= 0);
  return all;
}

static void do_assemble(late_piece *p)
{
  assemble_piece *a = (assemble_piece *)p;
  tsr__cpu_assemble(&a->part, 1, a->from, NULL);
}

static assemble_piece *assemble_piece_new(const tsr__assembly *part)
{
  size_t positions = (size_t)positions_of(&part->pieces);
  size_t overlaps = (size_t)overlaps_of(&part->pieces);
  size_t each = sizeof(tsr__buffer) + sizeof(tsr__buffer *);
  assemble_piece *a =
      late_piece_new(sizeof *a + positions * each + overlaps * sizeof(tsr__overlap), do_assemble);
  a->shadows = (tsr__buffer *)(a + 1);
  a->from = (tsr__buffer **)(a->shadows + positions);
  a->overlaps = (tsr__overlap *)(a->from + positions);
  a->part = *part;
  a->part.progress = NULL;
  a->to = shadow_of(part->to);
  a->part.to = &a->to;
  tsr__overlap *next = a->overlaps;
  for (int d = 0; d < part->pieces.rank; d++) {
    size_t count = (size_t)part->pieces.counts[d];
    if (count) memcpy(next, part->pieces.overlaps[d], count * sizeof *next);
    a->part.pieces.overlaps[d] = next;
    next += count;
  }
  return a;
}

static bool late_assemble(const tsr__assembly *parts, int count, tsr__buffer *const *from,
                          tsr__traffic *traffic)
{
  bool all = true;
  for (int i = 0; i < count; i++) {
    assemble_piece *a = assemble_piece_new(&parts[i]);
    all = take_pieces(a, from, traffic) && all;
    late_enqueue(parts[i].to->rt, parts[i].to->device, &a->head);
  }
  return all;
}

/* ---- programs -------------------------------------------------------------------------------- */

void late_keep_program(late_program *to, const tsr__program *from)
{
  size_t bytes = ((size_t)from->param_count + 1) * sizeof *to->params;
  to->program = *from;
  to->program.params = to->params = calloc(1, bytes);
  if (!to->params) abort();
  if (from->param_count) memcpy(to->params, from->params, bytes - sizeof *to->params);
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Some parts of a kernel. The parts, their lists and the shadows that these point to follow. */
typedef struct run_piece {
  late_piece head;
  tsr__run run;
  late_program program;
  tsr__run_part parts[];
} run_piece;

static void do_run(late_piece *p)
{
  run_piece *r = (run_piece *)p;
  tsr__cpu_run(&r->run, p->error);
}

static void end_run(late_piece *p)
{
  free(((run_piece *)p)->program.params);
}

void late_shadow_list(tsr__buffer **to, tsr__buffer *shadows, tsr__buffer *const *from, int count)
{
  for (int i = 0; i < count; i++) {
    if (!from[i]) continue;
    shadows[i] = shadow_of(from[i]);
    to[i] = &shadows[i];
  }
}

static late_piece *run_piece_new(const tsr__run *run, const tsr__run_part *parts, int count,
                                 tsr__error *error)
{
  const tsr__kernel_io *io = tsr__kernel_io_of(run->kernel);
  size_t buffers = (size_t)io->input_count + (size_t)io->output_count, all = (size_t)count;
  size_t accums = (size_t)io->accum_count;
  size_t of_part = sizeof *parts + buffers * (sizeof(tsr__buffer *) + sizeof(tsr__buffer)) +
                   accums * sizeof(tsr__partial *);
  run_piece *r = late_piece_new(sizeof *r + all * of_part, do_run);
  tsr__buffer *shadows = (tsr__buffer *)(r->parts + count);
  tsr__buffer **lists = (tsr__buffer **)(shadows + all * buffers);
  tsr__partial **partials = (tsr__partial **)(lists + all * buffers);
  for (int p = 0; p < count; p++, shadows += buffers, lists += buffers, partials += accums) {
    late_shadow_list(lists, shadows, parts[p].inputs, io->input_count);
    late_shadow_list(lists + io->input_count, shadows + io->input_count, parts[p].outputs,
                     io->output_count);
    r->parts[p] = parts[p];
    r->parts[p].inputs = lists;
    r->parts[p].outputs = lists + io->input_count;
    r->parts[p].partials = partials;
    late_hidden_partials(partials, parts[p].partials, io->accum_count);
  }
  r->run = *run;
  r->run.rt = late_hidden(run->rt);
  late_keep_program(&r->program, run->program);
  r->run.program = &r->program.program;
  r->run.part_count = count;
  r->run.parts = r->parts;
  r->run.busy = NULL;
  r->head.end = end_run;
  r->head.error = error;
  return &r->head;
}

/* A kernel that looks up an index, which may be out of range. */
static bool may_fail(const tsr__kernel *kernel)
{
  for (int i = 0; i < kernel->inst_count; i++)
    if (kernel->insts[i].op == TSR__K_TAKE || kernel->insts[i].op == TSR__K_WITHIN) return true;
  return false;
}

/* The first index out of range is that of all devices, which then work together. */
static tsr_status late_run(const tsr__run *run, tsr__error *error)
{
  if (run->part_count > 1 && run->part_count <= MOST_DEVICES && may_fail(run->kernel)) {
    int devices[MOST_DEVICES];
    for (int p = 0; p < run->part_count; p++) devices[p] = run->parts[p].device;
    late_piece *all = run_piece_new(run, run->parts, run->part_count, error);
    late_meet(run->rt, devices, run->part_count, all);
    return TSR_OK;
  }
  for (int p = 0; p < run->part_count; p++)
    late_enqueue(run->rt, run->parts[p].device, run_piece_new(run, &run->parts[p], 1, error));
  return TSR_OK;
}

/* ---- routines -------------------------------------------------------------------------------- */

/* A routine of all its devices. The parts, their shards and the shadows of buffers follow. */
typedef struct call_piece {
  late_piece head;
  tsr__call call;
  late_program program;
  tsr__call_part parts[];
} call_piece;

static void do_call(late_piece *p)
{
  call_piece *c = (call_piece *)p;
  tsr__cpu_call(&c->call, p->error);
}

static void end_call(late_piece *p)
{
  free(((call_piece *)p)->program.params);
}

static void shadow_shards(tsr__shard *to, tsr__buffer *shadows, const tsr__shard *from, int count)
{
  for (int i = 0; i < count; i++) {
    to[i] = from[i];
    if (!from[i].buffer) continue;
    shadows[i] = shadow_of(from[i].buffer);
    to[i].buffer = &shadows[i];
  }
}

static tsr_status late_call(const tsr__call *call, tsr__error *error)
{
  const tsr__gnode *node = tsr__call_node(call);
  int ins = node->in_count, outs = node->result_count ? node->result_count : 1;
  size_t shards = (size_t)(ins + outs), all = (size_t)call->part_count;
  size_t of_part = sizeof *call->parts + shards * (sizeof(tsr__shard) + sizeof(tsr__buffer));
  call_piece *c = late_piece_new(sizeof *c + all * of_part, do_call);
  tsr__buffer *shadows = (tsr__buffer *)(c->parts + all);
  tsr__shard *lists = (tsr__shard *)(shadows + all * shards);
  int devices[MOST_DEVICES];
  for (int p = 0; p < call->part_count; p++, lists += shards, shadows += shards) {
    shadow_shards(lists, shadows, call->parts[p].in, ins);
    shadow_shards(lists + ins, shadows + ins, call->parts[p].out, outs);
    devices[p] = call->parts[p].device;
    c->parts[p] = call->parts[p];
    c->parts[p].in = lists;
    c->parts[p].out = lists + ins;
  }
  c->call = *call;
  c->call.rt = late_hidden(call->rt);
  late_keep_program(&c->program, call->program);
  c->call.program = &c->program.program;
  c->call.parts = c->parts;
  c->head.end = end_call;
  c->head.error = error;
  late_meet(call->rt, devices, call->part_count, &c->head);
  return TSR_OK;
}

/* ---- the kind -------------------------------------------------------------------------------- */

static const tsr__device_ops late_ops = { .kind = "late",
                                          .take = late_take,
                                          .give = late_give,
                                          .memory = late_memory,
                                          .put = late_put,
                                          .get = late_get,
                                          .fill = late_fill,
                                          .number = late_number,
                                          .copy = late_copy,
                                          .assemble = late_assemble,
                                          .run = late_run,
                                          .call = late_call,
                                          .partial_bytes = tsr__cpu_partial_bytes,
                                          .partial = late_partial_take,
                                          .partial_free = late_partial_free,
                                          .partial_take = late_partial_of,
                                          .partial_tell = late_partial_tell,
                                          .partial_far = late_partial_far,
                                          .all_reduce = late_all_reduce };

static const tsr__device_queue late_queue = { late_mark, late_done, late_await, late_follow,
                                              late_lost };

static void close_late(tsr_runtime *rt, void *slot)
{
  late_state *s = slot;
  pthread_mutex_lock(&s->lock);
  s->quit = true;
  pthread_cond_signal(&s->more);
  pthread_mutex_unlock(&s->lock);
  bool own = s->generation == generation;
  if (own) pthread_join(s->thread, NULL);
  if (own) tsr_runtime_close(s->hidden); /* else the thread of the parent may have its locks */
  if (own) pthread_mutex_destroy(&s->lock);
  if (own) pthread_cond_destroy(&s->more); /* else the thread of the parent waits for it */
  if (own) pthread_cond_destroy(&s->over);
  tsr__del(&rt->heap, s, sizeof *s + (size_t)s->count * sizeof *s->queue);
}

/* Whether this thread opens a runtime whose devices are the CPU's whatever the environment asks. */
static _Thread_local bool hides;

static bool is_asked(const char *name)
{
  const char *wanted = getenv(name);
  return wanted && *wanted && !hides;
}

bool late_asked(void)
{
  return is_asked("TEST_LATE");
}

bool late_asked_beside_cpu(void)
{
  return is_asked("TEST_MIXED");
}

static tsr_runtime *hidden_runtime(const tsr_runtime *rt)
{
  char devices[32];
  tsr_runtime *hidden = tsr__runtime_new(&(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts),
                                                              .isa = rt->opts.isa,
                                                              .allocator = rt->opts.allocator,
                                                              .memory_limit = rt->opts.memory_limit,
                                                              .threads = 1 });
  snprintf(devices, sizeof devices, "cpu:%d", tsr__devices_of(rt)->count);
  hides = true;
  if (tsr__topology_install(hidden, devices) || tsr__devices_install(hidden)) abort();
  hides = false;
  return hidden;
}

tsr_status late_open(tsr_runtime *rt, int first, int count)
{
  static pthread_once_t watched = PTHREAD_ONCE_INIT;
  late_state *s = tsr__new(&rt->heap, sizeof *s + (size_t)count * sizeof *s->queue);
  if (!s) abort();
  s->rt = rt;
  s->first = first;
  s->count = count;
  pthread_once(&watched, watch_forks);
  s->generation = generation;
  s->chance = UINT64_C(0x9E3779B97F4A7C15);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->more, NULL);
  pthread_cond_init(&s->over, NULL);
  for (int i = 0; i < s->count; i++) s->queue[i].last = &s->queue[i].first;
  for (int i = 0; i < s->count; i++) s->queue[i].awaited = UINT64_MAX;
  s->hidden = hidden_runtime(rt);
  if (!tsr__thread_start(&s->thread, TSR__THREAD_OWN, 0, late_thread, s)) abort();
  return tsr__devices_add(rt, &(tsr__device_kind){ &late_ops, s, close_late, &late_queue, first,
                                                   count });
}

tsr_status late_install(tsr_runtime *rt)
{
  const tsr__devices *all = tsr__devices_of(rt);
  return late_open(rt, all->first, all->count);
}

void late_hold(tsr_runtime *rt, bool held)
{
  late_state *s = state_of(rt);
  pthread_mutex_lock(&s->lock);
  s->held = held;
  pthread_cond_signal(&s->more);
  pthread_mutex_unlock(&s->lock);
}

void late_stall(tsr_runtime *rt, bool stalled)
{
  late_state *s = state_of(rt);
  pthread_mutex_lock(&s->lock);
  s->stalled = stalled;
  pthread_cond_signal(&s->more);
  pthread_mutex_unlock(&s->lock);
}

void late_fail(tsr_runtime *rt, int device, int64_t after, tsr_status status)
{
  late_state *s = state_of(rt);
  pthread_mutex_lock(&s->lock);
  queue_of(rt, device)->fails = status;
  queue_of(rt, device)->after = after;
  pthread_mutex_unlock(&s->lock);
}

int64_t late_pieces(tsr_runtime *rt)
{
  late_state *s = state_of(rt);
  pthread_mutex_lock(&s->lock);
  int64_t pieces = s->pieces;
  pthread_mutex_unlock(&s->lock);
  return pieces;
}

int64_t late_waits(tsr_runtime *rt)
{
  late_state *s = state_of(rt);
  pthread_mutex_lock(&s->lock);
  int64_t waits = s->waits;
  pthread_mutex_unlock(&s->lock);
  return waits;
}
