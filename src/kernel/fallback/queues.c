/* The order of queued work, for kinds of devices whose entries return before their work is over.
 *
 *   device 0   writes a          reads a                       writes a         number 7
 *   device 1              reads a, which is follow(1, 0, a.here)
 *                         and a.elsewhere = number 6    -->    follow(0, 1, 6)
 *   host       get(a): await(0, a.here)
 *   give(a)    when a.here of device 0 and a.elsewhere of all others are over
 *
 * Work is queued at the device of the buffers that it writes: the writer of a buffer is its own
 * device, and its readers there need not wait. `elsewhere` stands for all other devices: numbers
 * ascend over all queues, so that one number says "each of them up to there".
 *
 * Invariant: a device's `marked` is the last number that its queue was given. */
#include "kernel/fallback/mirror.h"

#include <limits.h>

static tsr__queued *queued_of(const tsr__buffer *buffer)
{
  return (tsr__queued *)(uintptr_t)buffer;
}

static uint64_t marked_on(const tsr__other *other, int device)
{
  return other->marked[device - other->first];
}

/* The number of a device that a user of a buffer waits for. A reader waits for the buffer's own
 * device alone. */
static uint64_t number_to_await(const tsr__other *other, const tsr__buffer *b, int device,
                                bool writes)
{
  const tsr__queued *q = queued_of(b);
  if (device == b->device) return q->here;
  uint64_t last = marked_on(other, device);
  if (!writes) return 0;
  return q->elsewhere < last ? q->elsewhere : last;
}

static bool is_lost(const tsr__other *other, int device)
{
  const tsr__device_queue *queue = other->kind.queue;
  return queue->lost && queue->lost(other->rt, device);
}

static bool is_over(const tsr__other *other, int device, uint64_t number)
{
  return !number || other->kind.queue->done(other->rt, device) >= number || is_lost(other, device);
}

static void await_number(const tsr__other *other, int device, uint64_t number)
{
  while (!is_over(other, device, number)) other->kind.queue->await(other->rt, device, number);
}

static int end_of(const tsr__other *other)
{
  return other->first + other->count;
}

static bool buffer_is_over(const tsr__other *other, const tsr__buffer *b)
{
  for (int d = other->first; d < end_of(other); d++)
    if (!is_over(other, d, number_to_await(other, b, d, true))) return false;
  return true;
}

static void await_buffer(const tsr__other *other, const tsr__buffer *b, bool writes)
{
  for (int d = other->first; d < end_of(other); d++)
    await_number(other, d, number_to_await(other, b, d, writes));
}

/* The device's next work begins when the buffer may be read there, or written. */
static void follow_buffer(const tsr__other *other, int device, const tsr__buffer *b, bool writes)
{
  for (int d = other->first; d < end_of(other); d++) {
    uint64_t number = number_to_await(other, b, d, writes);
    if (d != device && !is_over(other, d, number))
      other->kind.queue->follow(other->rt, device, d, number);
  }
}

/* All that the device has queued gets the number. */
static uint64_t mark_device(tsr__other *other, int device, uint64_t number)
{
  other->kind.queue->mark(other->rt, device, number);
  other->marked[device - other->first] = number;
  return number;
}

static void keep_latest(uint64_t *last, uint64_t number)
{
  if (*last < number) *last = number;
}

static void note_use(tsr__buffer *b, int device, uint64_t number)
{
  tsr__queued *q = queued_of(b);
  keep_latest(b->device == device ? &q->here : &q->elsewhere, number);
}

/* ---- walks over the buffers of an ask -------------------------------------------------------- */

void tsr__queues_touch_device(tsr__touch *t, int device)
{
  if (device < t->first) t->first = device;
  if (device > t->last) t->last = device;
}

void tsr__queues_touch(tsr__touch *t, tsr__buffer *b, enum tsr__use use)
{
  bool writes = use != TSR__READS;
  switch (t->step) {
  case TSR__TOUCH_WRITERS:
    if (writes) tsr__queues_touch_device(t, b->device);
    break;
  case TSR__TOUCH_AWAIT: await_buffer(t->other, b, writes); break;
  case TSR__TOUCH_FOLLOW:
    if (!writes || b->device == t->device) follow_buffer(t->other, t->device, b, writes);
    break;
  default: /* another device's result is that device's work */
    if (!writes || b->device == t->device) note_use(b, t->device, t->number);
  }
}

/* Lists the devices that write buffers of an ask, as a range. */
static tsr__touch find_writers(tsr__touch_fn *fn, const void *ask)
{
  tsr__touch touch = { .step = TSR__TOUCH_WRITERS, .good = true, .first = INT_MAX, .last = -1 };
  fn(&touch, ask);
  return touch;
}

static void walk(tsr__touch_fn *fn, const void *ask, tsr__touch touch)
{
  touch.good = true;
  fn(&touch, ask);
}

/* An entry that writes no buffer has an answer for the host, and is over when it returns. */
void tsr__queues_begin(tsr__touch_fn *fn, const void *ask)
{
  const tsr__touch writers = find_writers(fn, ask);
  if (writers.last < 0) walk(fn, ask, (tsr__touch){ .step = TSR__TOUCH_AWAIT });
  for (int d = writers.first; d <= writers.last; d++)
    walk(fn, ask, (tsr__touch){ .step = TSR__TOUCH_FOLLOW, .device = d });
}

void tsr__queues_end(tsr__touch_fn *fn, const void *ask)
{
  const tsr__touch writers = find_writers(fn, ask);
  tsr__other *other = writers.other;
  if (!other || !other->kind.queue) return;
  for (int d = writers.first; d <= writers.last; d++) {
    pthread_mutex_lock(&other->lock);
    uint64_t number = mark_device(other, d, ++other->clock);
    pthread_mutex_unlock(&other->lock);
    walk(fn, ask, (tsr__touch){ .step = TSR__TOUCH_MARK, .device = d, .number = number });
  }
}

/* ---- bytes from and to the host -------------------------------------------------------------- */

void tsr__queued_put(tsr__other *other, tsr__buffer *to, size_t at, const void *host, size_t bytes)
{
  if (other->kind.queue) follow_buffer(other, to->device, to, true);
  other->kind.ops->put(to, at, host, bytes);
  if (other->kind.queue) note_use(to, to->device, mark_device(other, to->device, ++other->clock));
}

void tsr__queued_get(tsr__other *other, const tsr__buffer *from, size_t at, void *host,
                     size_t bytes)
{
  if (other->kind.queue) await_buffer(other, from, false);
  other->kind.ops->get(from, at, host, bytes);
}

/* ---- all queues ------------------------------------------------------------------------------ */

bool tsr__queues_exist(const tsr__devices *devices)
{
  return devices->own && ((const tsr__other *)devices)->kind.queue;
}

uint64_t tsr__queues_clock(const tsr__devices *devices)
{
  tsr__other *other = (tsr__other *)(uintptr_t)devices;
  pthread_mutex_lock(&other->lock);
  uint64_t clock = other->clock;
  pthread_mutex_unlock(&other->lock);
  return clock;
}

uint64_t tsr__queues_mark(const tsr__devices *devices, uint64_t since)
{
  tsr__other *other = (tsr__other *)(uintptr_t)devices;
  pthread_mutex_lock(&other->lock);
  uint64_t number = other->clock > since ? ++other->clock : since;
  for (int d = other->first; d < end_of(other) && number > since; d++)
    mark_device(other, d, number);
  pthread_mutex_unlock(&other->lock);
  return number;
}

/* The number that a device has to reach for all work up to a number to be over. */
static uint64_t share_of(tsr__other *other, int device, uint64_t number)
{
  pthread_mutex_lock(&other->lock);
  uint64_t last = marked_on(other, device);
  pthread_mutex_unlock(&other->lock);
  return number < last ? number : last;
}

bool tsr__queues_over(const tsr__devices *devices, uint64_t number)
{
  tsr__other *other = (tsr__other *)(uintptr_t)devices;
  for (int d = other->first; d < end_of(other); d++)
    if (!is_over(other, d, share_of(other, d, number))) return false;
  return true;
}

void tsr__queues_await(const tsr__devices *devices, uint64_t number)
{
  tsr__other *other = (tsr__other *)(uintptr_t)devices;
  for (int d = other->first; d < end_of(other); d++) {
    uint64_t share = share_of(other, d, number);
    if (is_over(other, d, share)) continue;
    other->kind.queue->await(other->rt, d, share);
    return;
  }
}

/* Gives back buffers whose work is over, oldest first: younger ones are rarely over before. */
static void give_over(tsr__other *other)
{
  pthread_mutex_lock(&other->lock);
  for (tsr__queued *q; (q = other->leaving) && buffer_is_over(other, &q->head);) {
    other->leaving = q->next;
    if (!other->leaving) other->leaving_end = &other->leaving;
    other->kind.ops->give(&q->head);
  }
  pthread_mutex_unlock(&other->lock);
}

/* Waits for all work up to a number, and gives back the memory that it used. */
static void settle_queues(tsr__other *other, uint64_t last)
{
  while (!tsr__queues_over(&other->base, last)) tsr__queues_await(&other->base, last);
  give_over(other);
}

void tsr__queues_settle(const tsr__devices *devices)
{
  tsr__other *other = (tsr__other *)(uintptr_t)devices;
  if (other->kind.queue) settle_queues(other, tsr__queues_clock(devices));
}

/* ---- devices that are lost ------------------------------------------------------------------- */

tsr_status tsr__device_lost(const tsr_runtime *rt, int device, tsr__error *error)
{
  return tsr__error_set(error, TSR_EIO,
                        "device %d of kind %s is lost, and the elements of arrays on it; close the "
                        "runtime and open a new one",
                        device, tsr__own_of(rt)->kind);
}

tsr_status tsr__queues_check(const tsr__other *other, tsr__error *error)
{
  for (int d = other->first; d < end_of(other) && other->kind.queue; d++)
    if (is_lost(other, d)) return tsr__device_lost(other->rt, d, error);
  return TSR_OK;
}

/* ---- late errors and traffic ----------------------------------------------------------------- */

tsr__late *tsr__late_new(tsr__other *other, tsr__error *of_run)
{
  tsr__late *late = tsr__new(&other->rt->heap, sizeof *late);
  if (!late) {
    tsr__error_set(of_run, TSR_ENOMEM, "no memory to run a program; free some arrays");
    return NULL;
  }
  late->of_run = of_run;
  pthread_mutex_lock(&other->lock);
  late->after = other->clock;
  *other->told_end = late;
  other->told_end = &late->next;
  pthread_mutex_unlock(&other->lock);
  return late;
}

/* Takes the records of a run's entries: the traffic of all, and the first error in place of the
 * run's own, if there is one from before the run failed. */
static bool take_told(tsr__other *other, const tsr__queued_run *run)
{
  tsr__error *of_run = run->error;
  bool found = false;
  tsr__late **at = &other->told;
  pthread_mutex_lock(&other->lock);
  for (tsr__late *late; (late = *at);) {
    if (late->of_run != of_run) {
      at = &late->next;
      continue;
    }
    bool counts = late->error.status && late->after < run->failed;
    if (counts && !found) *of_run = late->error;
    found = found || counts;
    run->traffic->bytes += late->traffic.bytes;
    run->traffic->escapes += late->traffic.escapes;
    *at = late->next;
    tsr__del(&other->rt->heap, late, sizeof *late);
  }
  other->told_end = at;
  pthread_mutex_unlock(&other->lock);
  return found;
}

static bool has_told(tsr__other *other, const tsr__error *of_run)
{
  pthread_mutex_lock(&other->lock);
  const tsr__late *late = other->told;
  while (late && late->of_run != of_run) late = late->next;
  pthread_mutex_unlock(&other->lock);
  return late;
}

/* The first error of a run's entries so far, which are over. */
static tsr_status look_at_told(tsr__other *other, tsr__error *of_run)
{
  tsr_status status = TSR_OK;
  pthread_mutex_lock(&other->lock);
  for (const tsr__late *late = other->told; late && !status; late = late->next) {
    if (late->of_run != of_run || !late->error.status) continue;
    *of_run = late->error;
    status = of_run->status;
  }
  pthread_mutex_unlock(&other->lock);
  return status;
}

/* A loop asks its condition, for one, and might not end if the elements before it are wrong. */
tsr_status tsr__read_check(const tsr__devices *devices, tsr__error *error)
{
  tsr__other *other = (tsr__other *)(uintptr_t)devices;
  tsr_status status = tsr__mirrors_check(other, error);
  if (status || !has_told(other, error)) return status;
  tsr__queues_settle(devices);
  return look_at_told(other, error);
}

/* The host may have found errors in the elements of a lost device: the loss comes before these. */
tsr_status tsr__queues_end_run(const tsr__devices *devices, const tsr__queued_run *run)
{
  tsr__other *other = (tsr__other *)(uintptr_t)devices;
  tsr__error lost = { .status = TSR_OK };
  if (!other->kind.queue) return run->status;
  settle_queues(other, run->last);
  if (take_told(other, run)) return run->error->status;
  if (!tsr__queues_check(other, &lost)) return run->status;
  *run->error = lost;
  return lost.status;
}

/* ---- memory that goes back ------------------------------------------------------------------- */

/* Waits for the buffer that was released first of those that are not over. False: there is none. */
static bool await_leaving(tsr__other *other)
{
  pthread_mutex_lock(&other->lock);
  const tsr__queued *q = other->leaving;
  if (q) await_buffer(other, &q->head, true);
  pthread_mutex_unlock(&other->lock);
  bool some = q;
  if (some) give_over(other);
  return some;
}

/* Work that is queued holds memory which it would have given back if it were over: rather than take
 * more than ever before, the host waits. So a device needs no more than if nothing were late. */
tsr__buffer *tsr__queued_take(tsr_runtime *rt, int device, size_t bytes, tsr__error *error)
{
  tsr__other *other = tsr__other_of(rt);
  const tsr__device_ops *own = other->kind.ops;
  tsr__error full = { .status = TSR_OK };
  give_over(other);
  for (tsr_memory m = own->memory(rt, device); m.now + (int64_t)bytes > m.peak;) {
    if (!await_leaving(other)) break;
    m = own->memory(rt, device);
  }
  tsr__buffer *buffer = own->take(rt, device, bytes, &full);
  if (buffer) return buffer;
  while (await_leaving(other)) continue;
  return own->take(rt, device, bytes, error);
}

void tsr__queued_give(tsr__buffer *buffer)
{
  tsr__other *other = tsr__other_of(buffer->rt);
  pthread_mutex_lock(&other->lock);
  bool over = buffer_is_over(other, buffer);
  if (!over) {
    tsr__queued *q = queued_of(buffer);
    q->next = NULL;
    *other->leaving_end = q;
    other->leaving_end = &q->next;
  }
  pthread_mutex_unlock(&other->lock);
  if (over) other->kind.ops->give(buffer);
}
