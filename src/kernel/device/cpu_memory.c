/* Memory of the CPU's devices: a pool each, buffers in it, and working memory for tasks.
 *
 * Invariant: a buffer's bytes lie in the pool of the buffer's device (or in memory that the user
 * lent), so no device computes from another's memory. */
#include "kernel/device/cpu.h"

static tsr__pool *pool_of(const tsr_runtime *rt, int device)
{
  const tsr__cpu *cpu = tsr__cpu_of(rt);
  int at = device - cpu->base.first;
  /* Memory taken here for a device of another process comes from the first pool. */
  return cpu->pools[at < 0 || at >= cpu->base.count ? 0 : at];
}

tsr_memory tsr__cpu_memory(const tsr_runtime *rt, int device)
{
  const tsr__cpu *cpu = tsr__cpu_of(rt);
  int at = device - cpu->base.first;
  if (at < 0 || at >= cpu->base.count) return (tsr_memory){ 0 };
  return tsr__pool_memory(cpu->pools[at]);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static tsr_status refuse_pool_bytes(tsr__pool *pool, int device, size_t bytes, tsr__error *error)
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

static tsr__cpu_buffer *header_new(tsr_runtime *rt, int device, size_t bytes)
{
  tsr__cpu *cpu = tsr__cpu_of(rt);
  tsr__cpu_buffer *buffer = tsr__spares_take(&cpu->headers, &rt->heap, sizeof *buffer);
  if (!buffer) return NULL;
  *buffer = (tsr__cpu_buffer){
    .head = { .device = device, .bytes = bytes, .ops = cpu->base.ops, .rt = rt },
  };
  atomic_init(&buffer->head.refs, 1);
  return buffer;
}

static void header_free(tsr_runtime *rt, tsr__cpu_buffer *buffer)
{
  tsr__spares_give(&tsr__cpu_of(rt)->headers, &rt->heap, buffer, sizeof *buffer);
}

/* The header is the heap's and the data the pool's: a limit of device memory counts data alone. */
tsr__buffer *tsr__cpu_take(tsr_runtime *rt, int device, size_t bytes, tsr__error *error)
{
  tsr__pool *pool = pool_of(rt, device);
  tsr__cpu_buffer *buffer = header_new(rt, device, bytes);
  /* An array of no elements has an address too, and is given back as others are. */
  size_t size = bytes ? bytes : 1;
  void *data = buffer ? tsr__pool_take(pool, size) : NULL;
  if (!data) {
    header_free(rt, buffer);
    refuse_pool_bytes(pool, device, size, error);
    return NULL;
  }
  buffer->data = data;
  return &buffer->head;
}

void tsr__cpu_give(tsr__buffer *buffer)
{
  tsr__cpu_buffer *own = (tsr__cpu_buffer *)buffer;
  if (!buffer->lent)
    tsr__pool_give(pool_of(buffer->rt, buffer->device), own->data,
                   buffer->bytes ? buffer->bytes : 1);
  else if (own->release) own->release(own->data, own->user);
  header_free(buffer->rt, own);
}

/* On a failure the memory stays the caller's, and its release is not called. */
tsr__buffer *tsr__cpu_adopt(tsr_runtime *rt, int device, const tsr__foreign *memory)
{
  tsr__cpu_buffer *buffer = header_new(rt, device, memory->bytes);
  if (!buffer) return NULL;
  buffer->head.lent = true;
  buffer->data = memory->data;
  buffer->release = memory->release;
  buffer->user = memory->user;
  return &buffer->head;
}

void tsr__cpu_expect(tsr_runtime *rt, int device, size_t bytes, int count)
{
  tsr__pool_expect(pool_of(rt, device), bytes ? bytes : 1, count);
}

void tsr__cpu_fill(tsr__buffer *buffer, uint8_t byte)
{
  memset(tsr__cpu_data(buffer), byte, buffer->bytes);
}

void tsr__cpu_number(tsr__buffer *buffer, int64_t first, int64_t count)
{
  int64_t *out = tsr__cpu_data(buffer);
  for (int64_t i = 0; i < count; i++) out[i] = first + i;
}

/* The host reads and fills the memory of a CPU device in place. A device with memory of its own
 * would copy in map, and in staging_close. */
const void *tsr__cpu_map(tsr__buffer *buffer)
{
  return tsr__cpu_data(buffer);
}

void tsr__cpu_unmap(tsr__buffer *buffer)
{
  (void)buffer;
}

void *tsr__cpu_staging_open(tsr__buffer *buffer, bool keeps, tsr__error *error)
{
  (void)keeps, (void)error;
  return tsr__cpu_data(buffer);
}

void tsr__cpu_staging_close(tsr__buffer *buffer, void *memory, bool filled)
{
  (void)buffer, (void)memory, (void)filled;
}

/* ---- working memory -------------------------------------------------------------------------- */

/* The scratch memory's contents are undefined, and it is the caller's alone until it is given
 * back. */
tsr__scratch *tsr__scratch_take(tsr_runtime *rt, size_t size)
{
  tsr__cpu *cpu = tsr__cpu_of(rt);
  /* The one given back last, which is warm. The number of kept blocks is the most that were ever in
   * use at once: one a worker. */
  tsr__scratch *scratch = atomic_exchange(&cpu->near, NULL);
  if (!scratch) {
    pthread_mutex_lock(&cpu->lock);
    scratch = cpu->idle;
    if (scratch) cpu->idle = scratch->next;
    pthread_mutex_unlock(&cpu->lock);
  }
  if (!scratch) scratch = tsr__new(&rt->heap, sizeof *scratch);
  /* An idle block is never smaller than some task needed; it grows to the largest and stays. The
   * block's contents are of no use, so they are not copied. */
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
