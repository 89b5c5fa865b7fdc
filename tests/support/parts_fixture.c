#include "support/parts_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "topology/topology.h"

void parts_open(parts_fixture *f, int devices, const tsr_runtime_opts *opts)
{
  char text[16];
  memset(f, 0, sizeof *f);
  snprintf(text, sizeof text, "cpu:%d", devices);
  tsr_runtime_opts usual = { .size = sizeof usual };
  f->rt = tsr__runtime_new(opts ? opts : &usual);
  tsr__topology_install(f->rt, text);
  tsr__devices_install(f->rt);
  f->parts = (tsr__parts){ devices, f->device, f->rows };
  for (int p = 0; p < devices; p++) f->device[p] = p;
}

void parts_close(parts_fixture *f)
{
  tsr_runtime_close(f->rt);
}

void parts_set(parts_fixture *f, const int64_t *rows)
{
  memcpy(f->rows, rows, (size_t)f->parts.count * sizeof *rows);
}

void parts_column_new(parts_fixture *f, tsr_dtype dtype, bool nulls, parts_column *out)
{
  const tsr__device_ops *ops = tsr__devices_of(f->rt)->ops;
  memset(out, 0, sizeof *out);
  out->parts = (tsr__colparts){ dtype, out->values, out->valid };
  out->count = f->parts.count;
  for (int p = 0; p < f->parts.count; p++) {
    out->values[p] = ops->take(f->rt, p, tsr__device_bytes(dtype, f->rows[p]), &f->error);
    if (nulls)
      out->valid[p] = ops->take(f->rt, p, tsr__device_bytes(TSR_BOOL, f->rows[p]), &f->error);
  }
}

void parts_column_free(parts_column *column)
{
  for (int p = 0; p < column->count; p++) {
    tsr__buffer_release(column->values[p]);
    tsr__buffer_release(column->valid[p]);
  }
}

static double random_float(test_rng *rng, int64_t most)
{
  static const double odd[] = { NAN, -NAN, 0.0, -0.0, INFINITY, -INFINITY, 5e-324, -1e300 };
  if (!test_range(rng, 0, 9)) return odd[test_range(rng, 0, 7)];
  return (double)test_range(rng, -most, most) / 4;
}

void parts_column_fill(parts_fixture *f, test_rng *rng, parts_column *column, int p, int64_t most)
{
  void *data = tsr__cpu_data(column->values[p]);
  int64_t small = most < INT32_MAX ? most : INT32_MAX;
  for (int64_t i = 0; i < f->rows[p]; i++) {
    tsr_dtype dtype = column->parts.dtype;
    bool wide = tsr_dtype_size(dtype) == 8;
    if (dtype == TSR_BOOL) ((uint64_t *)data)[i / 64] = test_random(rng);
    else if (tsr__dtype_is_real(dtype))
      tsr__dtype_put_real(dtype, data, i, random_float(rng, most));
    else
      tsr__dtype_put_whole(dtype, data, i,
                           wide ? test_range(rng, -most, most) : test_range(rng, -small, small));
    if (column->valid[p] && i % 64 == 0)
      ((uint64_t *)tsr__cpu_data(column->valid[p]))[i / 64] = test_random(rng) | test_random(rng);
  }
}
