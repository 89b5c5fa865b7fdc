/* Sums and variances down long columns: what lies in memory is taken many rows at once, what is
 * computed on the way row by row. Runs at each ISA. */
#include "harness.h"
#include "tessera.h"

#include <stdlib.h>

/* Values some binades apart, with zeros and a few that no window holds. */
static tsr_array *values(tsr_scope *s, test_rng *rng, tsr_shape shape, tsr_sharding on)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  float *x = malloc((size_t)count * sizeof *x);
  for (int64_t i = 0; i < count; i++) {
    int64_t kind = test_range(rng, 0, 20000);
    float value = (float)(test_uniform(rng) - 0.25);
    x[i] = kind == 0 ? value * 1e30f : kind == 1 ? value * 1e-30f : kind < 40 ? -0.0f : value;
  }
  tsr_array *array = tsr_put(s, x, TSR_F32, shape, on);
  CHECK_STATUS(tsr_eval(&array, 1), TSR_OK, s);
  free(x);
  return array;
}

static void same(tsr_scope *s, tsr_array *a, tsr_array *b)
{
  static float once[8192], again[8192];
  size_t bytes = sizeof(float);
  for (int d = 0; d < tsr_shape_of(a).rank; d++) bytes *= (size_t)tsr_shape_of(a).dims[d];
  CHECK_STATUS(tsr_read(a, once, bytes), TSR_OK, s);
  CHECK_STATUS(tsr_read(b, again, bytes), TSR_OK, s);
  CHECK_BYTES(once, again, bytes);
}

TEST(many_rows_at_once_are_rows_one_by_one)
{
  const tsr_shape shapes[] = { TSR_SHAPE(131, 2500), TSR_SHAPE(700, 50), TSR_SHAPE(3, 90, 2101),
                               TSR_SHAPE(5, 70, 100), TSR_SHAPE(2, 4000) };
  test_rng rng = test_seeded(9);
  for (int devices = 1; devices <= 3; devices += 2)
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
      tsr_runtime *rt = tsr_runtime_open(devices > 1 ? "cpu:3" : "cpu:1", .threads = 3);
      tsr_scope *s = tsr_scope_open(rt);
      tsr_mesh *mesh = tsr_mesh_default(rt, "x");
      int dim = shapes[k].rank - 2;
      tsr_array *x = values(s, &rng, shapes[k], tsr_on(mesh, shapes[k].rank > 2 ? "-,x" : "x"));
      tsr_array *y = tsr_mul(x, 1);
      same(s, tsr_sum(x, .dims = TSR_DIMS(dim)), tsr_sum(y, .dims = TSR_DIMS(dim)));
      same(s, tsr_mean(x, .dims = TSR_DIMS(dim)), tsr_mean(y, .dims = TSR_DIMS(dim)));
      same(s, tsr_var(x, .dims = TSR_DIMS(dim)), tsr_var(y, .dims = TSR_DIMS(dim)));
      tsr_scope_close(s);
      tsr_runtime_close(rt);
    }
}
