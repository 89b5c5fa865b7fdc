/* The CPU's devices: a pool of memory each, buffers in it, and working memory for tasks.
 *
 * Invariant: a buffer's bytes lie in its own device's pool (or in memory the user lent), so what
 * one device computes from is never another's. */
#include "kernel/device/cpu.h"

size_t tsr__device_bytes(tsr_dtype dtype, int64_t count)
{
  /* Whole words: loops over masks take 64 elements at a time and need not ask where they end. */
  if (dtype == TSR_BOOL) return (size_t)((count + 63) / 64) * 8;
  return (size_t)count * tsr_dtype_size(dtype);
}

static tsr__pool *pool_of(const tsr_runtime *rt, int device)
{
  const tsr__devices *devices = tsr__devices_of(rt);
  int at = device - devices->first;
  /* What is done here for a device of another process takes memory of the first one. */
  return devices->pools[at < 0 || at >= devices->count ? 0 : at];
}

/* ---- buffers --------------------------------------------------------------------------------- */

static tsr_status refuse(tsr__pool *pool, int device, size_t bytes, tsr__error *error)
{
  tsr_memory memory = tsr__pool_memory(pool);
  /* Asked again, since other threads took and gave meanwhile: a limit that is no longer in the way
   * was not the reason, or will not be the next time. */
  if (!tsr__pool_would_fit(pool, bytes))
    return tsr__error_set(error, TSR_ENOMEM,
                          "device %d cannot hold %zu more bytes: it holds %lld of the %lld bytes "
                          "that .memory_limit allows; free arrays or raise the limit",
                          device, bytes, (long long)memory.now, (long long)memory.limit);
  return tsr__error_set(error, TSR_ENOMEM,
                        "the machine has no memory for %zu more bytes on device %d, which holds "
                        "%lld bytes; free arrays or use more machines",
                        bytes, device, (long long)memory.now);
}

/* Cleared. */
static tsr__buffer *take_header(tsr_runtime *rt)
{
  tsr__buffer *header = tsr__spares_take(&tsr__cpu_of(rt)->headers, &rt->heap, sizeof *header);
  if (header) *header = (tsr__buffer){ .refs = 0 };
  return header;
}

static void give_header(tsr_runtime *rt, tsr__buffer *header)
{
  tsr__spares_give(&tsr__cpu_of(rt)->headers, &rt->heap, header, sizeof *header);
}

/* The header is the heap's and the data the pool's: a limit of device memory counts data alone. */
tsr__buffer *tsr__cpu_buffer(tsr_runtime *rt, int device, size_t bytes, tsr__error *error)
{
  tsr__pool *pool = pool_of(rt, device);
  tsr__buffer *buffer = take_header(rt);
  /* An array of no elements has an address too, and is given back as others are. */
  size_t size = bytes ? bytes : 1;
  void *data = buffer ? tsr__pool_take(pool, size) : NULL;
  if (!data) {
    give_header(rt, buffer);
    refuse(pool, device, size, error);
    return NULL;
  }
  atomic_init(&buffer->refs, 1);
  buffer->device = device;
  buffer->bytes = bytes;
  buffer->data = data;
  buffer->rt = rt;
  return buffer;
}

void tsr__cpu_expect(tsr_runtime *rt, int device, size_t bytes, int count)
{
  tsr__pool_expect(pool_of(rt, device), bytes ? bytes : 1, count);
}

void tsr__cpu_fill(tsr__buffer *buffer, uint8_t byte)
{
  memset(buffer->data, byte, buffer->bytes);
}

void tsr__cpu_number(tsr__buffer *buffer, int64_t first, int64_t count)
{
  int64_t *out = buffer->data;
  for (int64_t i = 0; i < count; i++) out[i] = first + i;
}

/* Memory of this device is the host's own; one with memory of its own would copy here, and back
 * in unmap. */
void *tsr__cpu_map(tsr__buffer *buffer)
{
  return buffer->data;
}

void tsr__cpu_unmap(tsr__buffer *buffer)
{
  (void)buffer;
}

/* On a failure the memory stays the caller's, and its release is not called. */
tsr__buffer *tsr__buffer_adopt(tsr_runtime *rt, int device, const tsr__foreign *memory)
{
  tsr__buffer *buffer = take_header(rt);
  if (!buffer) return NULL;
  *buffer = (tsr__buffer){ .device = device,
                           .bytes = memory->bytes,
                           .data = memory->data,
                           .release = memory->release,
                           .user = memory->user,
                           .rt = rt,
                           .adopted = true };
  atomic_init(&buffer->refs, 1);
  return buffer;
}

void tsr__buffer_hold(tsr__buffer *buffer)
{
  /* Whoever holds has a reference already, so nothing is ordered by it; the last one to let go must
   * see what all others did. */
  atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
}

bool tsr__buffer_alone(const tsr__buffer *buffer)
{
  /* Lent memory is never alone: the user may be looking at it. */
  return !buffer->adopted && atomic_load_explicit(&buffer->refs, memory_order_acquire) == 1;
}

bool tsr__buffer_lent(const tsr__buffer *buffer)
{
  return buffer->adopted;
}

/* Lent memory goes back by a call of the user's: on whatever thread lets go last. */
void tsr__buffer_release(tsr__buffer *buffer)
{
  if (!buffer || atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) != 1) return;
  if (!buffer->adopted)
    tsr__pool_give(pool_of(buffer->rt, buffer->device), buffer->data,
                   buffer->bytes ? buffer->bytes : 1);
  else if (buffer->release) buffer->release(buffer->data, buffer->user);
  give_header(buffer->rt, buffer);
}

/* ---- working memory -------------------------------------------------------------------------- */

/* Its contents are anything, and it is the caller's alone until it is given back. */
tsr__scratch *tsr__scratch_take(tsr_runtime *rt, size_t size)
{
  tsr__cpu *cpu = tsr__cpu_of(rt);
  /* The one given back last, which is warm. As many are kept as ever were in use at once: one a
   * worker. */
  tsr__scratch *scratch = atomic_exchange(&cpu->near, NULL);
  if (!scratch) {
    pthread_mutex_lock(&cpu->lock);
    scratch = cpu->idle;
    if (scratch) cpu->idle = scratch->next;
    pthread_mutex_unlock(&cpu->lock);
  }
  if (!scratch) scratch = tsr__new(&rt->heap, sizeof *scratch);
  /* What is idle is never smaller than some task needed; it grows to the largest and stays. Its
   * contents are of no use, so it is not copied. */
  if (!scratch || scratch->size >= size) return scratch;
  /* Before the larger one is taken, so that both need not fit. */
  tsr__del(&rt->heap, scratch->memory, scratch->size);
  scratch->size = 0;
  scratch->memory = tsr__new(&rt->heap, size);
  if (!scratch->memory) {
    tsr__del(&rt->heap, scratch, sizeof *scratch);
    return NULL;
  }
  scratch->size = size;
  return scratch;
}

void tsr__scratch_give(tsr_runtime *rt, tsr__scratch *scratch)
{
  tsr__cpu *cpu = tsr__cpu_of(rt);
  if (scratch) scratch = atomic_exchange(&cpu->near, scratch);
  if (!scratch) return;
  pthread_mutex_lock(&cpu->lock);
  scratch->next = cpu->idle;
  cpu->idle = scratch;
  pthread_mutex_unlock(&cpu->lock);
}
