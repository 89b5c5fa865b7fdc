/* Element types: their names and sizes. */
#include "topology/topology.h"

static const struct dtype_row {
  char name[8];
  size_t size;
} dtype_rows[] = {
  [0] = { "?", 0 },         [TSR_BOOL] = { "bool", 1 }, [TSR_I32] = { "i32", 4 },
  [TSR_I64] = { "i64", 8 }, [TSR_F32] = { "f32", 4 },   [TSR_F64] = { "f64", 8 },
};

enum { DTYPE_ROWS = sizeof dtype_rows / sizeof dtype_rows[0] };

static const struct dtype_row *dtype_row(tsr_dtype dtype)
{
  unsigned index = (unsigned)dtype;
  return &dtype_rows[index < DTYPE_ROWS ? index : 0];
}

const char *tsr_dtype_name(tsr_dtype dtype)
{
  return dtype_row(dtype)->name;
}

size_t tsr_dtype_size(tsr_dtype dtype)
{
  return dtype_row(dtype)->size;
}
