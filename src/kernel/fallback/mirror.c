/* Mirrors: making, sharing and bringing back.
 *
 *   mirrors of a buffer    0            1               2              1            0
 *   data                   NULL         filled          shared         shared       put, freed
 *
 * Invariant: while `mirrors` is 0 the device has the newest bytes. The lock is held while bytes
 * travel, so no entry sees a mirror that is being filled. */
#include "kernel/fallback/mirror.h"

#include "kernel/device/cpu.h"

/* Kernels may read a full vector past the last element. */
enum { SLACK = 64 };

static size_t mirror_bytes(const tsr__buffer *buffer)
{
  return buffer->bytes + SLACK;
}

static void count_bytes(tsr__other *other, size_t bytes)
{
  atomic_fetch_add_explicit(&other->bytes, (int64_t)bytes, memory_order_relaxed);
}

static void bring_mirror(tsr__other *other, tsr__buffer *b)
{
  tsr__queued_get(other, b, 0, b->data, b->bytes);
  count_bytes(other, b->bytes);
}

static void bring_mirror_back(tsr__other *other, tsr__buffer *b)
{
  tsr__queued_put(other, b, 0, b->data, b->bytes);
  count_bytes(other, b->bytes);
  b->newer = false;
}

static void free_mirror(tsr__buffer *b)
{
  tsr__del_pooled(&b->rt->heap, b->data, mirror_bytes(b));
  b->data = NULL;
  b->newer = b->filled = false;
  b->mirrors = 0;
}

static bool open_mirror(tsr__other *other, tsr__buffer *b, enum tsr__use use)
{
  if (!b->mirrors) b->data = tsr__new_pooled(&b->rt->heap, mirror_bytes(b));
  if (!b->data) return false;
  if (!b->filled && use != TSR__WRITES) bring_mirror(other, b);
  b->filled = true;
  b->newer = b->newer || use != TSR__READS;
  b->mirrors++;
  return true;
}

static void close_mirror(tsr__other *other, tsr__buffer *b)
{
  if (!b->mirrors || --b->mirrors) return;
  if (b->newer) bring_mirror_back(other, b);
  free_mirror(b);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void touch_locked(tsr__touch *t, tsr__other *other, tsr__buffer *b, enum tsr__use use)
{
  switch (t->step) {
  case TSR__TOUCH_BEFORE:
    if (b->mirrors && b->newer) bring_mirror_back(other, b);
    break;
  case TSR__TOUCH_AFTER:
    if (b->mirrors && use != TSR__READS) bring_mirror(other, b);
    break;
  case TSR__TOUCH_OPEN:
    t->good = t->good && open_mirror(other, b, use);
    t->count += t->good;
    break;
  case TSR__TOUCH_CLOSE:
    if (t->count-- > 0) close_mirror(other, b);
    break;
  default: tsr__queues_touch(t, b, use);
  }
}

/* Asks hold many of their buffers as constant. A mirror is a cache, which these have too. */
void tsr__touch_buffer(tsr__touch *t, const tsr__buffer *buffer, enum tsr__use use)
{
  tsr__buffer *b = (tsr__buffer *)(uintptr_t)buffer;
  if (!b) return;
  if (t->step == TSR__TOUCH_SIDES) {
    t->sides |= tsr__on_host(b) ? TSR__ON_HOST : TSR__ON_DEVICES;
    return;
  }
  if (tsr__on_host(b)) {
    t->good = t->good && t->step != TSR__TOUCH_BEFORE;
    return;
  }
  tsr__other *other = t->other = tsr__other_of(b->rt);
  pthread_mutex_lock(&other->lock);
  touch_locked(t, other, b, use);
  pthread_mutex_unlock(&other->lock);
}

void tsr__touch_device(tsr__touch *t, const tsr_runtime *rt, int device)
{
  if (t->step != TSR__TOUCH_WRITERS) return;
  t->other = tsr__other_of(rt);
  tsr__queues_touch_device(t, device);
}

void tsr__touch_buffers(tsr__touch *t, tsr__buffer *const *buffers, int64_t count,
                        enum tsr__use use)
{
  for (int64_t i = 0; buffers && i < count; i++) tsr__touch_buffer(t, buffers[i], use);
}

unsigned tsr__ask_sides(tsr__touch_fn *fn, const void *ask)
{
  tsr__touch touch = { .step = TSR__TOUCH_SIDES, .good = true };
  fn(&touch, ask);
  return touch.sides;
}

bool tsr__device_can(tsr__touch_fn *fn, const void *ask)
{
  tsr__touch touch = { .step = TSR__TOUCH_BEFORE, .good = true };
  fn(&touch, ask);
  if (touch.good && touch.other && touch.other->kind.queue) tsr__queues_begin(fn, ask);
  return touch.good;
}

void tsr__device_did(tsr__touch_fn *fn, const void *ask)
{
  tsr__queues_end(fn, ask);
  tsr__touch touch = { .step = TSR__TOUCH_AFTER, .good = true };
  fn(&touch, ask);
}

static void close_some(tsr__touch_fn *fn, const void *ask, int64_t count)
{
  tsr__touch touch = { .step = TSR__TOUCH_CLOSE, .count = count, .good = true };
  fn(&touch, ask);
}

/* The list is the same each time, so the number of its buffers that were opened says which. */
bool tsr__mirrors_open(tsr__touch_fn *fn, const void *ask)
{
  tsr__touch touch = { .step = TSR__TOUCH_OPEN, .good = true };
  fn(&touch, ask);
  if (!touch.good) close_some(fn, ask, touch.count);
  return touch.good;
}

bool tsr__mirrors_open_or_lose(tsr_runtime *rt, tsr__touch_fn *fn, const void *ask)
{
  bool good = tsr__mirrors_open(fn, ask);
  if (!good) atomic_store(&tsr__other_of(rt)->lost, true);
  return good;
}

void tsr__mirrors_close(tsr__touch_fn *fn, const void *ask)
{
  close_some(fn, ask, INT64_MAX);
}

void tsr__mirror_drop(tsr__buffer *buffer)
{
  if (buffer->mirrors) free_mirror(buffer);
}

/* ---- single buffers -------------------------------------------------------------------------- */

bool tsr__put_straight(tsr__buffer *to, size_t at, const void *host, size_t bytes)
{
  tsr__other *other = tsr__other_of(to->rt);
  if (tsr__on_host(to)) return false;
  pthread_mutex_lock(&other->lock);
  bool may = !to->mirrors;
  if (may) tsr__queued_put(other, to, at, host, bytes);
  pthread_mutex_unlock(&other->lock);
  return may;
}

bool tsr__get_straight(const tsr__buffer *from, size_t at, void *host, size_t bytes)
{
  tsr__other *other = tsr__other_of(from->rt);
  if (tsr__on_host(from)) return false;
  pthread_mutex_lock(&other->lock);
  bool may = !from->mirrors;
  if (may) tsr__queued_get(other, from, at, host, bytes);
  pthread_mutex_unlock(&other->lock);
  return may;
}

void tsr__touch_read(tsr__touch *t, const void *buffer)
{
  tsr__touch_buffer(t, buffer, TSR__READS);
}

tsr_status tsr__bring_to_host(tsr__buffer **buffer, tsr__error *error)
{
  tsr__buffer *from = *buffer;
  if (!from || tsr__on_host(from)) return TSR_OK;
  tsr__buffer *to = tsr__cpu_take(from->rt, from->device, from->bytes, error);
  if (!to) return error->status;
  tsr__device_can(tsr__touch_read, from);
  tsr__other_of(from->rt)->kind.ops->get(from, 0, to->data, from->bytes);
  count_bytes(tsr__other_of(from->rt), from->bytes);
  tsr__buffer_release(from);
  *buffer = to;
  return TSR_OK;
}

tsr_status tsr__bring_to_device(tsr__buffer **buffer, tsr__error *error)
{
  tsr__buffer *from = *buffer;
  if (!from || !tsr__on_host(from)) return TSR_OK;
  tsr__other *other = tsr__other_of(from->rt);
  if (!tsr__is_of_kind(other, from->device)) return TSR_OK;
  tsr__buffer *to = other->ops.take(from->rt, from->device, from->bytes, error);
  if (!to) return error->status;
  tsr__put_straight(to, 0, from->data, from->bytes);
  count_bytes(other, from->bytes);
  tsr__buffer_release(from);
  *buffer = to;
  return TSR_OK;
}
