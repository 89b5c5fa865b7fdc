/* Staging buffers: host memory in which threads of the host fill a buffer of a device.
 *
 *   readers, trays, restores          tsr__staging_give           kernels, collectives
 *   write `memory` by address   -->   one transfer          -->   read the buffer
 *
 * If the host can address a device's memory, as on CPU devices, `memory` is the buffer's own and
 * giving copies nothing.
 *
 * Invariant: from open to give or drop nobody reads the buffer, and afterwards nobody uses
 * `memory`. A staging buffer holds no reference: the buffer is released after give or drop. */
#ifndef TSR_KERNEL_STAGING_H
#define TSR_KERNEL_STAGING_H

#include "kernel/device/device.h"

typedef struct tsr__staging {
  tsr__buffer *buffer; /* NULL: not open */
  void *memory;        /* buffer->bytes, as elements lie on the device: bools are bits */
} tsr__staging;

/* Opens staging for a buffer that is filled whole: `memory` holds anything at first. Without a
 * buffer (a position of another process) `out` stays closed. On an error `out` is closed. */
static inline tsr_status tsr__staging_open(tsr__buffer *buffer, tsr__staging *out,
                                           tsr__error *error)
{
  *out = (tsr__staging){ 0 };
  void *memory = buffer ? buffer->ops->staging_open(buffer, false, error) : NULL;
  if (memory) *out = (tsr__staging){ buffer, memory };
  return buffer && !memory ? error->status : TSR_OK;
}

/* Opens staging for a buffer that was given before: `memory` holds the buffer's elements. */
static inline tsr_status tsr__staging_reopen(tsr__buffer *buffer, tsr__staging *out,
                                             tsr__error *error)
{
  void *memory = buffer->ops->staging_open(buffer, true, error);
  *out = memory ? (tsr__staging){ buffer, memory } : (tsr__staging){ 0 };
  return memory ? TSR_OK : error->status;
}

/* Gives the elements in `memory` to the buffer, which may be read afterwards. No effect if not
 * open. */
static inline void tsr__staging_give(tsr__staging *staging)
{
  tsr__buffer *buffer = staging->buffer;
  if (buffer) buffer->ops->staging_close(buffer, staging->memory, true);
  *staging = (tsr__staging){ 0 };
}

/* Ends staging without giving: the buffer holds anything. No effect if not open. */
static inline void tsr__staging_drop(tsr__staging *staging)
{
  tsr__buffer *buffer = staging->buffer;
  if (buffer) buffer->ops->staging_close(buffer, staging->memory, false);
  *staging = (tsr__staging){ 0 };
}

#endif
