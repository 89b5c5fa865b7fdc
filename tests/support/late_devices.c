/* Queues of a device each, and one thread that empties them.
 *
 *   entry    -> | piece | piece | ...      a piece has copies of the ask's lists
 *   thread   <- from a queue by chance     on shadows: headers whose `data` is the memory */
#include "support/late_devices.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "kernel/device/cpu.h"
#include "kernel/fuse/kir.h"
#include "kernel/tile/interp.h"

enum { OVERWRITTEN = 0xA5 };

typedef struct late_buffer {
  tsr__queued queued;
  unsigned char *hidden;
} late_buffer;

typedef struct piece piece;
struct piece {
  piece *next;
  void (*work)(piece *p); /* NULL: it waits for, or has, a number */
  int other;              /* waits for a number of it; -1: it has the number */
  uint64_t number;
};

typedef struct queue {
  tsr__pool *pool;
  piece *first, **last;
  uint64_t done;
} queue;

typedef struct late_state {
  int first, count;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  pid_t process;
  bool held, quit;
  int wanted; /* threads that await */
  int64_t pieces, waits;
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

/* What the functions of the CPU find in a buffer of the host. */
static tsr__buffer shadow_of(const tsr__buffer *buffer)
{
  tsr__buffer shadow = *buffer;
  shadow.data = late_of(buffer)->hidden;
  return shadow;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *piece_new(size_t bytes, void (*work)(piece *p))
{
  piece *p = calloc(1, bytes);
  if (!p) abort();
  p->work = work;
  return p;
}

static void enqueue(const tsr_runtime *rt, int device, piece *p)
{
  late_state *s = state_of(rt);
  queue *q = queue_of(rt, device);
  pthread_mutex_lock(&s->lock);
  *q->last = p;
  q->last = &p->next;
  s->pieces++;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

static uint64_t draw(late_state *s)
{
  s->chance ^= s->chance << 13;
  s->chance ^= s->chance >> 7;
  s->chance ^= s->chance << 17;
  return s->chance;
}

static bool is_ready(const late_state *s, const piece *p)
{
  return p && (p->work || p->other < 0 || s->queue[p->other - s->first].done >= p->number);
}

/* A queue whose first piece may begin, drawn by chance; NULL: there is none, or work is held. */
static queue *ready_queue(late_state *s)
{
  int from = (int)(draw(s) % (uint64_t)s->count);
  if (s->held && !s->wanted && !s->quit) return NULL;
  for (int i = 0; i < s->count; i++) {
    queue *q = &s->queue[(from + i) % s->count];
    if (is_ready(s, q->first)) return q;
  }
  return NULL;
}

/* The piece stays first of its queue until it is over, so that the queue is in order. */
static void do_first_piece(late_state *s, queue *q)
{
  piece *p = q->first;
  unsigned delay = draw(s) % 8 ? 0 : (unsigned)(draw(s) % 100);
  pthread_mutex_unlock(&s->lock);
  if (delay) usleep(delay);
  if (p->work) p->work(p);
  pthread_mutex_lock(&s->lock);
  if (!p->work && p->other < 0) q->done = p->number;
  q->first = p->next;
  if (!q->first) q->last = &q->first;
  s->pieces--;
  pthread_cond_broadcast(&s->changed);
  free(p);
}

static void *late_thread(void *user)
{
  late_state *s = user;
  pthread_mutex_lock(&s->lock);
  while (!s->quit || s->pieces) {
    queue *q = ready_queue(s);
    if (q) do_first_piece(s, q);
    else pthread_cond_wait(&s->changed, &s->lock);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void late_mark(tsr_runtime *rt, int device, uint64_t number)
{
  piece *p = piece_new(sizeof *p, NULL);
  p->other = -1;
  p->number = number;
  enqueue(rt, device, p);
}

static void late_follow(tsr_runtime *rt, int device, int other, uint64_t number)
{
  piece *p = piece_new(sizeof *p, NULL);
  p->other = other;
  p->number = number;
  enqueue(rt, device, p);
}

/* A child of fork has no thread. */
static uint64_t late_done(const tsr_runtime *rt, int device)
{
  late_state *s = state_of(rt);
  if (s->process != getpid()) return UINT64_MAX;
  pthread_mutex_lock(&s->lock);
  uint64_t done = queue_of(rt, device)->done;
  pthread_mutex_unlock(&s->lock);
  return done;
}

static void late_await(tsr_runtime *rt, int device, uint64_t number)
{
  late_state *s = state_of(rt);
  const queue *q = queue_of(rt, device);
  pthread_mutex_lock(&s->lock);
  s->wanted++;
  s->waits++;
  pthread_cond_broadcast(&s->changed);
  while (q->done < number) pthread_cond_wait(&s->changed, &s->lock);
  s->wanted--;
  pthread_mutex_unlock(&s->lock);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t size_of(size_t bytes)
{
  return bytes ? bytes : 1;
}

static tsr__buffer *late_take(tsr_runtime *rt, int device, size_t bytes, tsr__error *error)
{
  tsr__pool *pool = queue_of(rt, device)->pool;
  late_buffer *buffer = tsr__new(&rt->heap, sizeof *buffer);
  if (buffer) buffer->hidden = tsr__pool_take(pool, size_of(bytes));
  if (!buffer || !buffer->hidden) {
    tsr_memory memory = tsr__pool_memory(pool);
    tsr__del(&rt->heap, buffer, sizeof *buffer);
    tsr__error_set(error, TSR_ENOMEM,
                   "device %d cannot hold %zu more bytes: it holds %lld of the %lld bytes that "
                   ".memory_limit allows; free arrays or raise the limit",
                   device, bytes, (long long)memory.now, (long long)memory.limit);
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
  size_t size = size_of(buffer->bytes);
  unsigned char *hidden = late_of(buffer)->hidden;
  memset(hidden, OVERWRITTEN, size);
  tsr__pool_give(queue_of(buffer->rt, buffer->device)->pool, hidden, size);
  tsr__del(&buffer->rt->heap, late_of(buffer), sizeof(late_buffer));
}

static tsr_memory late_memory(const tsr_runtime *rt, int device)
{
  queue *q = queue_of(rt, device);
  return q ? tsr__pool_memory(q->pool) : (tsr_memory){ 0 };
}

typedef struct put_piece {
  piece head;
  unsigned char *to;
  size_t bytes;
  unsigned char host[];
} put_piece;

static void do_put(piece *p)
{
  put_piece *put = (put_piece *)p;
  memcpy(put->to, put->host, put->bytes);
}

static void late_put(tsr__buffer *to, size_t at, const void *host, size_t bytes)
{
  if (at > to->bytes || bytes > to->bytes - at) abort();
  put_piece *put = piece_new(sizeof *put + bytes, do_put);
  put->to = late_of(to)->hidden + at;
  put->bytes = bytes;
  if (bytes) memcpy(put->host, host, bytes);
  enqueue(to->rt, to->device, &put->head);
}

static void late_get(const tsr__buffer *from, size_t at, void *host, size_t bytes)
{
  if (at > from->bytes || bytes > from->bytes - at) abort();
  if (bytes) memcpy(host, late_of(from)->hidden + at, bytes);
}

/* ---- fill and number ------------------------------------------------------------------------- */

typedef struct fill_piece {
  piece head;
  tsr__buffer to;
  int64_t first, count;
} fill_piece;

static void do_fill(piece *p)
{
  fill_piece *fill = (fill_piece *)p;
  tsr__cpu_fill(&fill->to, (uint8_t)fill->first);
}

static void late_fill(tsr__buffer *buffer, uint8_t byte)
{
  fill_piece *fill = piece_new(sizeof *fill, do_fill);
  fill->to = shadow_of(buffer);
  fill->first = byte;
  enqueue(buffer->rt, buffer->device, &fill->head);
}

static void do_number(piece *p)
{
  fill_piece *fill = (fill_piece *)p;
  tsr__cpu_number(&fill->to, fill->first, fill->count);
}

static void late_number(tsr__buffer *buffer, int64_t first, int64_t count)
{
  fill_piece *fill = piece_new(sizeof *fill, do_number);
  fill->to = shadow_of(buffer);
  fill->first = first;
  fill->count = count;
  enqueue(buffer->rt, buffer->device, &fill->head);
}

/* ---- copies ---------------------------------------------------------------------------------- */

typedef struct copy_piece {
  piece head;
  tsr__box_copy copy;
  tsr__buffer from, to;
  int64_t lists[6][TSR_MAX_RANK];
} copy_piece;

static void do_copy(piece *p)
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

static void count_copy(const tsr__box_copy *copy, tsr__traffic *traffic)
{
  int64_t count = 1;
  for (int d = 0; d < copy->rank; d++) count *= copy->size[d] > 0 ? copy->size[d] : 0;
  traffic->bytes +=
      copy->dtype == TSR_BOOL ? (count + 7) / 8 : count * (int64_t)tsr_dtype_size(copy->dtype);
}

static void late_copy(const tsr__box_copy *copy, const tsr__buffer *from, tsr__buffer *to,
                      tsr__traffic *traffic)
{
  copy_piece *c = piece_new(sizeof *c, do_copy);
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
  if (traffic && from->device != to->device) count_copy(copy, traffic);
  enqueue(to->rt, to->device, &c->head);
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* One device's part of a kernel. The lists and the shadows that they point to follow. */
typedef struct run_piece {
  piece head;
  tsr__run run;
  tsr__run_part part;
  tsr__buffer *lists[];
} run_piece;

static void do_run(piece *p)
{
  run_piece *r = (run_piece *)p;
  tsr__error error = { .status = TSR_OK };
  if (tsr__cpu_run(&r->run, &error)) abort(); /* supports() leaves out kernels that may fail */
}

static void shadow_list(tsr__buffer **to, tsr__buffer *shadows, tsr__buffer *const *from, int count)
{
  for (int i = 0; i < count; i++) {
    if (!from[i]) continue;
    shadows[i] = shadow_of(from[i]);
    to[i] = &shadows[i];
  }
}

static void enqueue_part(const tsr__run *run, const tsr__run_part *part)
{
  const tsr__kernel_io *io = tsr__kernel_io_of(run->kernel);
  size_t ins = (size_t)io->input_count, outs = (size_t)io->output_count;
  size_t each = sizeof(tsr__buffer *) + sizeof(tsr__buffer);
  run_piece *r = piece_new(sizeof *r + (ins + outs) * each, do_run);
  tsr__buffer *shadows = (tsr__buffer *)(r->lists + ins + outs);
  shadow_list(r->lists, shadows, part->inputs, io->input_count);
  shadow_list(r->lists + ins, shadows + ins, part->outputs, io->output_count);
  r->run = *run;
  r->part = *part;
  r->part.inputs = r->lists;
  r->part.outputs = r->lists + ins;
  r->part.partials = NULL;
  r->run.part_count = 1;
  r->run.parts = &r->part;
  r->run.busy = NULL;
  enqueue(run->rt, part->device, &r->head);
}

static tsr_status late_run(const tsr__run *run, tsr__error *error)
{
  (void)error;
  for (int p = 0; p < run->part_count; p++) enqueue_part(run, &run->parts[p]);
  return TSR_OK;
}

/* ---- the kind -------------------------------------------------------------------------------- */

/* Kernels that look up no index, which might be out of range. */
static bool late_supports(const tsr__device_work *work)
{
  if (work->kind != TSR__WORK_KERNEL) return false;
  for (int i = 0; i < work->kernel->inst_count; i++) {
    int op = work->kernel->insts[i].op;
    if (op == TSR__K_TAKE || op == TSR__K_WITHIN) return false;
  }
  return true;
}

static const tsr__device_ops late_ops = { .kind = "late",
                                          .supports = late_supports,
                                          .take = late_take,
                                          .give = late_give,
                                          .memory = late_memory,
                                          .put = late_put,
                                          .get = late_get,
                                          .fill = late_fill,
                                          .number = late_number,
                                          .copy = late_copy,
                                          .run = late_run };

static const tsr__device_queue late_queue = { late_mark, late_done, late_await, late_follow };

static void close_late(tsr_runtime *rt, void *slot)
{
  late_state *s = slot;
  pthread_mutex_lock(&s->lock);
  s->quit = true;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  if (s->process == getpid()) pthread_join(s->thread, NULL);
  for (int i = 0; i < s->count; i++) tsr__pool_close(s->queue[i].pool);
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->changed);
  tsr__del(&rt->heap, s, sizeof *s + (size_t)s->count * sizeof *s->queue);
}

bool late_asked(void)
{
  const char *wanted = getenv("TEST_LATE");
  return wanted && *wanted;
}

tsr_status late_install(tsr_runtime *rt)
{
  const tsr__devices *cpu = tsr__devices_of(rt);
  late_state *s = tsr__new(&rt->heap, sizeof *s + (size_t)cpu->count * sizeof *s->queue);
  if (!s) abort();
  s->first = cpu->first;
  s->count = cpu->count;
  s->process = getpid();
  s->chance = UINT64_C(0x9E3779B97F4A7C15);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  for (int i = 0; i < s->count; i++) {
    s->queue[i].pool = tsr__pool_open(&rt->heap, rt->opts.memory_limit);
    s->queue[i].last = &s->queue[i].first;
    if (!s->queue[i].pool) abort();
  }
  if (!tsr__thread_start(&s->thread, TSR__THREAD_OWN, 0, late_thread, s)) abort();
  return tsr__devices_add(rt, &(tsr__device_kind){ &late_ops, s, close_late, &late_queue });
}

void late_hold(tsr_runtime *rt, bool held)
{
  late_state *s = state_of(rt);
  pthread_mutex_lock(&s->lock);
  s->held = held;
  pthread_cond_broadcast(&s->changed);
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
