/* The part of a buffer that is the same for every kind of device: its size and its references.
 *
 * Invariant: the last reference to go gives the memory back through the device's own table. */
#include "kernel/device/device.h"

size_t tsr__device_bytes(tsr_dtype dtype, int64_t count)
{
  /* Whole words: loops over masks take 64 elements at a time and need not ask where they end. */
  if (dtype == TSR_BOOL) return (size_t)((count + 63) / 64) * 8;
  return (size_t)count * tsr_dtype_size(dtype);
}

/* The last holder must see all writes of the others. Lent memory goes back by a call of the user's:
 * on whatever thread lets go last. */
void tsr__buffer_release(tsr__buffer *buffer)
{
  if (!buffer || atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) != 1) return;
  buffer->ops->give(buffer);
}

tsr__buffer *tsr__take_beside(const tsr__buffer *like, tsr_runtime *rt, int device, size_t bytes,
                              tsr__error *error)
{
  const tsr__device_ops *ops = like && !like->ops->get ? like->ops : tsr__devices_of(rt)->ops;
  return ops->take(rt, device, bytes, error);
}
