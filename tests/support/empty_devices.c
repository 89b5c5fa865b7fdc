/* A device kind of five functions.
 *
 *   pool of a device   | ~bytes of a buffer | ~bytes of a buffer |      put and get complement */
#include "support/empty_devices.h"

#include <stdlib.h>

typedef struct empty_buffer {
  tsr__buffer head;
  unsigned char *hidden;
} empty_buffer;

typedef struct empty_state {
  int first, count;
  tsr__pool *pool[]; /* one a device */
} empty_state;

static empty_buffer *hidden_of(const tsr__buffer *buffer)
{
  return (empty_buffer *)(uintptr_t)buffer;
}

static tsr__pool *pool_of(const tsr_runtime *rt, int device)
{
  empty_state *state = tsr__kind_state(rt);
  int at = device - state->first;
  return at < 0 || at >= state->count ? NULL : state->pool[at];
}

static tsr__buffer *empty_take(tsr_runtime *rt, int device, size_t bytes, tsr__error *error)
{
  tsr__pool *pool = pool_of(rt, device);
  empty_buffer *buffer = tsr__new(&rt->heap, sizeof *buffer);
  if (buffer) buffer->hidden = tsr__pool_take(pool, bytes ? bytes : 1);
  if (!buffer || !buffer->hidden) {
    tsr_memory memory = tsr__pool_memory(pool);
    tsr__del(&rt->heap, buffer, sizeof *buffer);
    tsr__error_set(error, TSR_ENOMEM,
                   "device %d cannot hold %zu more bytes: it holds %lld of the %lld bytes that "
                   ".memory_limit allows; free arrays or raise the limit",
                   device, bytes, (long long)memory.now, (long long)memory.limit);
    return NULL;
  }
  buffer->head.device = device;
  buffer->head.bytes = bytes;
  buffer->head.ops = tsr__devices_of(rt)->ops;
  buffer->head.rt = rt;
  atomic_init(&buffer->head.refs, 1);
  return &buffer->head;
}

static void empty_give(tsr__buffer *buffer)
{
  tsr__pool_give(pool_of(buffer->rt, buffer->device), hidden_of(buffer)->hidden,
                 buffer->bytes ? buffer->bytes : 1);
  tsr__del(&buffer->rt->heap, hidden_of(buffer), sizeof(empty_buffer));
}

static tsr_memory empty_memory(const tsr_runtime *rt, int device)
{
  tsr__pool *pool = pool_of(rt, device);
  return pool ? tsr__pool_memory(pool) : (tsr_memory){ 0 };
}

static void complement(unsigned char *to, const unsigned char *from, size_t bytes)
{
  for (size_t i = 0; i < bytes; i++) to[i] = (unsigned char)~from[i];
}

static void empty_put(tsr__buffer *to, size_t at, const void *host, size_t bytes)
{
  if (at > to->bytes || bytes > to->bytes - at) abort();
  complement(hidden_of(to)->hidden + at, host, bytes);
}

static void empty_get(const tsr__buffer *from, size_t at, void *host, size_t bytes)
{
  if (at > from->bytes || bytes > from->bytes - at) abort();
  complement(host, hidden_of(from)->hidden + at, bytes);
}

void empty_show(const tsr__buffer *buffer)
{
  empty_buffer *b = hidden_of(buffer);
  complement(b->hidden, b->hidden, buffer->bytes);
  b->head.data = b->hidden;
}

void empty_hide(const tsr__buffer *buffer)
{
  empty_buffer *b = hidden_of(buffer);
  complement(b->hidden, b->hidden, buffer->bytes);
  b->head.data = NULL;
}

const tsr__device_ops empty_ops = { .kind = "empty",
                                    .take = empty_take,
                                    .give = empty_give,
                                    .memory = empty_memory,
                                    .put = empty_put,
                                    .get = empty_get };

static void close_empty(tsr_runtime *rt, void *slot)
{
  empty_state *state = slot;
  for (int i = 0; i < state->count; i++) tsr__pool_close(state->pool[i]);
  tsr__del(&rt->heap, state, sizeof *state + (size_t)state->count * sizeof *state->pool);
}

bool empty_asked(void)
{
  const char *wanted = getenv("TEST_EMPTY");
  return wanted && *wanted;
}

tsr_status empty_open_with(tsr_runtime *rt, const tsr__device_ops *ops, int first, int count)
{
  empty_state *state = tsr__new(&rt->heap, sizeof *state + (size_t)count * sizeof *state->pool);
  if (!state) abort();
  state->first = first;
  state->count = count;
  for (int i = 0; i < count; i++) {
    state->pool[i] = tsr__pool_open(&rt->heap, rt->opts.memory_limit);
    if (!state->pool[i]) abort();
  }
  return tsr__devices_add(
      rt, &(tsr__device_kind){
              .ops = ops, .state = state, .close = close_empty, .first = first, .count = count });
}

tsr_status empty_open(tsr_runtime *rt, int first, int count)
{
  return empty_open_with(rt, &empty_ops, first, count);
}

tsr_status empty_install_with(tsr_runtime *rt, const tsr__device_ops *ops)
{
  const tsr__devices *all = tsr__devices_of(rt);
  return empty_open_with(rt, ops, all->first, all->count);
}

tsr_status empty_install(tsr_runtime *rt)
{
  return empty_install_with(rt, &empty_ops);
}
