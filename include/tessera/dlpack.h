/* DLPack: arrays to and from NumPy, PyTorch, JAX and other libraries that implement it, in memory
 * and, where layouts agree, without a copy.
 *
 * The structs are those of the published ABI under names of our own, so that its header may be
 * included as well: cast a DLManagedTensor * to a tsr_dl_managed *, a DLManagedTensorVersioned * to
 * a tsr_dl_versioned *. The structs are exchanged by pointer; the consumer calls the deleter
 * once. */
#ifndef TESSERA_DLPACK_H
#define TESSERA_DLPACK_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor in memory: a type of `code` (0 signed, 1 unsigned, 2 float, 4 bfloat, 6 bool) and
 * `bits`, shape and strides in elements (NULL: dense, C order). */
typedef struct tsr_dl_tensor {
  void *data;
  int32_t device_type, device_id; /* 1: host memory; 3: host memory that CUDA pinned */
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes; /* 1 */
  int64_t *shape, *strides;
  uint64_t byte_offset; /* from data to the first element */
} tsr_dl_tensor;

/* The struct of versions before 1. */
typedef struct tsr_dl_managed {
  tsr_dl_tensor tensor;
  void *manager_ctx;
  void (*deleter)(struct tsr_dl_managed *self); /* NULL: nothing to do */
} tsr_dl_managed;

#define TSR_DL_MAJOR 1
#define TSR_DL_MINOR 0
#define TSR_DL_READ_ONLY 1u
#define TSR_DL_IS_COPIED 2u

/* The struct since version 1; of another major version only the first four fields count. */
typedef struct tsr_dl_versioned {
  uint32_t major, minor;
  void *manager_ctx;
  void (*deleter)(struct tsr_dl_versioned *self);
  uint64_t flags; /* TSR_DL_READ_ONLY | TSR_DL_IS_COPIED */
  tsr_dl_tensor tensor;
} tsr_dl_versioned;

/* Options of tsr_from_dlpack. Zero means default. */
typedef struct tsr_dlpack_opts {
  size_t size TSR_REST_BY_NAME;
  tsr_sharding on; /* the array's sharding; zero = unplaced, on one device */
} tsr_dlpack_opts;

/* Makes an array of a tensor and takes the tensor over: its deleter is called exactly once, also
 * after an error, maybe when the scope closes, maybe later. The tensor's memory is borrowed where
 * it is dense, aligned to 64 bytes and for one device, and must then not change. Otherwise it is
 * copied and released at once; bools always are, since devices store them as bits. Strides may be
 * negative or 0. Errors: TSR_EARG for an invalid struct, TSR_EDTYPE, TSR_EUNSUPPORTED for devices
 * other than the host, TSR_ESHAPE, TSR_EAXIS. Returns an array owned by the scope. Collective, same
 * arguments. */
TSR_API tsr_array *tsr_from_dlpack_with(tsr_scope *scope, tsr_dl_managed *tensor,
                                        const tsr_dlpack_opts *opts, const char *site);
/* Makes an array as tsr_from_dlpack does, of the struct since version 1. Error: TSR_EUNSUPPORTED
 * for another major version. Collective, same arguments. */
TSR_API tsr_array *tsr_from_dlpack_versioned_with(tsr_scope *scope, tsr_dl_versioned *tensor,
                                                  const tsr_dlpack_opts *opts, const char *site);

/* Evaluates and writes one addressable shard, by mesh position, to `*out` as a tensor of host
 * memory. The tensor is the device's own memory, which must not be written to; bools are a copy.
 * The tensor holds that memory: it may outlive the scope and the runtime. `*out` is untouched on
 * failure; the caller calls the tensor's deleter, from any thread. Errors: TSR_EARG. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_to_dlpack_at(tsr_array *a, int position, tsr_dl_managed **out,
                                                 const char *site);
/* Writes a tensor as tsr_to_dlpack does, in the struct since version 1, with the flag that it is
 * read-only. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_to_dlpack_versioned_at(tsr_array *a, int position,
                                                           tsr_dl_versioned **out,
                                                           const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* tsr_from_dlpack(s, tensor), tsr_from_dlpack(s, tensor, .on = tsr_on(mesh, "x")) */
#define tsr_from_dlpack(...) \
  TSR_NEEDS_2_("tsr_from_dlpack(scope, tensor)", TSR_FROM_DLPACK_, __VA_ARGS__)
#define TSR_FROM_DLPACK_(scope, tensor, ...)                                               \
  tsr_from_dlpack_with((scope), (tensor),                                                  \
                       &(tsr_dlpack_opts){ .size = sizeof(tsr_dlpack_opts), __VA_ARGS__ }, \
                       TSR_HERE)
#define tsr_from_dlpack_versioned(...) \
  TSR_NEEDS_2_("tsr_from_dlpack_versioned(scope, tensor)", TSR_FROM_DLPACK_VERSIONED_, __VA_ARGS__)
#define TSR_FROM_DLPACK_VERSIONED_(scope, tensor, ...)                                       \
  tsr_from_dlpack_versioned_with(                                                            \
      (scope), (tensor), &(tsr_dlpack_opts){ .size = sizeof(tsr_dlpack_opts), __VA_ARGS__ }, \
      TSR_HERE)
#define tsr_to_dlpack(a, position, out) tsr_to_dlpack_at((a), (position), (out), TSR_HERE)
#define tsr_to_dlpack_versioned(a, position, out) \
  tsr_to_dlpack_versioned_at((a), (position), (out), TSR_HERE)
#endif

#endif
