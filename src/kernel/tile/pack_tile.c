/* Packing: lines of an operand of a matrix product, wherever they lie, become a panel. Where
 * neighbours of a panel are neighbours there, whole pieces are taken at once. */
#include "kernel/tile/tile_inner.h"

#include "topology/half.h"

INLINE bool neighbours(const int64_t *at, int64_t n)
{
  for (int64_t i = 1; i < n; i++)
    if (at[i] != at[0] + i) return false;
  return true;
}

/* How many steps are neighbours from here on: a few at a time, which stay in the cache while all
 * lines of them are turned. */
INLINE int64_t run_of(const int64_t *step, int64_t n)
{
  enum { TURNED = 16 };
  int64_t run = 1;
  while (run < n && run < TURNED && step[run] == step[0] + run) run++;
  return run;
}

#define PACK(name, T, R, VALUE)                                           \
  INLINE void name##_of(const tsr__packing *p, int high)                  \
  {                                                                       \
    const T *from = p->from;                                              \
    R *to = p->to;                                                        \
    const int64_t *line = p->line, *step = p->step, depth = p->depth;     \
    if (neighbours(line, high)) {                                         \
      for (int64_t k = 0; k < depth; k++, to += high) {                   \
        const T *x = from + line[0] + step[k];                            \
        for (int i = 0; i < high; i++) to[i] = VALUE(x[i]);               \
      }                                                                   \
    } else {                                                              \
      for (int64_t k = 0, n; k < depth; k += n, to += n * high) {         \
        n = run_of(step + k, depth - k);                                  \
        for (int i = 0; i < high; i++) {                                  \
          const T *x = from + line[i] + step[k];                          \
          for (int64_t j = 0; j < n; j++) to[j * high + i] = VALUE(x[j]); \
        }                                                                 \
      }                                                                   \
    }                                                                     \
  }                                                                       \
  void TSR__ISA_NAME(tsr__##name)(const tsr__packing *p)                  \
  {                                                                       \
    name##_of(p, p->high);                                                \
  }

#define AS_f32(v) ((float)(v))
#define AS_f64(v) ((double)(v))
#define AS_u32(v) ((uint32_t)(v))
#define AS_u64(v) ((uint64_t)(v))
#define F16_f32(v) tsr__f32_of_f16(v)
#define BF16_f32(v) tsr__f32_of_bf16(v)
#define F16_f64(v) ((double)tsr__f32_of_f16(v))
#define BF16_f64(v) ((double)tsr__f32_of_bf16(v))

PACK(pack_F32_f32, float, float, AS_f32)
PACK(pack_F16_f32, uint16_t, float, F16_f32)
PACK(pack_BF16_f32, uint16_t, float, BF16_f32)
PACK(pack_F64_f64, double, double, AS_f64)
PACK(pack_F32_f64, float, double, AS_f64)
PACK(pack_F16_f64, uint16_t, double, F16_f64)
PACK(pack_BF16_f64, uint16_t, double, BF16_f64)

/* Integers are widened with their sign and computed modulo 2^bits. */
#define WHOLE(kind, R, signed_R)                   \
  PACK(pack_I8_##kind, int8_t, R, (R)(signed_R))   \
  PACK(pack_I16_##kind, int16_t, R, (R)(signed_R)) \
  PACK(pack_I32_##kind, int32_t, R, (R)(signed_R)) \
  PACK(pack_U8_##kind, uint8_t, R, (R))            \
  PACK(pack_U16_##kind, uint16_t, R, (R))          \
  PACK(pack_U32_##kind, uint32_t, R, (R))
WHOLE(u32, uint32_t, int32_t)
WHOLE(u64, uint64_t, int64_t)
PACK(pack_I64_u64, int64_t, uint64_t, AS_u64)
PACK(pack_U64_u64, uint64_t, uint64_t, AS_u64)
