/* Element types: dtypes.def as data, and how two of them meet.
 *
 *   bool -> i32 -> i64 -> f32 -> f64        INTO_I64: the set { i64, f32, f64 }
 *
 * Invariant: INTO_x is x and all that lies above it, so the least type of a set that two types share
 * is the one whose own set is just that. */
#include "topology/topology.h"

enum {
#define DTYPE(id, text, width, what, significant, least, register_, npy_text, arrow_text, above) \
  INTO_##id = 1 << TSR_##id | (above),
#include "topology/dtypes.def"
#undef DTYPE
};

typedef struct dtype_row {
  tsr__dtype_info info;
  unsigned into;
} dtype_row;

static const dtype_row rows[TSR__DTYPES] = {
  [0] = { .info = { .name = "?", .npy = "", .arrow = "" } },
#define DTYPE(id, text, width, what, significant, least, register_, npy_text, arrow_text, above) \
  [TSR_##id] = { .info = { .name = text,                                                         \
                           .bits = width,                                                        \
                           .kind = TSR__DTYPE_##what,                                            \
                           .precision = significant,                                             \
                           .lowest = least,                                                      \
                           .computes = TSR_##register_,                                          \
                           .npy = npy_text,                                                      \
                           .arrow = arrow_text },                                                \
                 .into = INTO_##id },
#include "topology/dtypes.def"
#undef DTYPE
};

static const dtype_row *row_of(tsr_dtype dtype)
{
  unsigned index = (unsigned)dtype;
  return index < TSR__DTYPES && rows[index].info.name ? &rows[index] : &rows[0];
}

const tsr__dtype_info *tsr__dtype_info_of(tsr_dtype dtype)
{
  return &row_of(dtype)->info;
}

tsr_dtype tsr__promote(tsr_dtype a, tsr_dtype b)
{
  if (a == b || !b) return a;
  if (!a) return b;
  unsigned both = row_of(a)->into & row_of(b)->into;
  for (int dtype = 1; dtype < TSR__DTYPES; dtype++)
    if (both >> dtype & 1 && rows[dtype].into == both) return (tsr_dtype)dtype;
  /* Two integers that no integer holds meet where f16 and bf16 part: in the default float. */
  return TSR_F64;
}

const char *tsr_dtype_name(tsr_dtype dtype)
{
  return row_of(dtype)->info.name;
}

size_t tsr_dtype_size(tsr_dtype dtype)
{
  return row_of(dtype)->info.bits / 8u;
}
