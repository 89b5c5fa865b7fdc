/* Products of two vectors and norms: the exact sums of exact products that Python's fractions give,
 * bit for bit, on any mesh. Runs at each ISA. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

enum { MOST = 128 };

/* Numbers as hexadecimal floats; returns how many. */
static int64_t read_numbers(char *text, double *out)
{
  int64_t count = 0;
  char *rest = NULL;
  for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
    CHECK(count < MOST);
    out[count++] = strtod(word, NULL);
  }
  return count;
}

static tsr_array *put(tsr_scope *s, const double *x, int64_t count, tsr_dtype dtype,
                      tsr_sharding at)
{
  tsr_array *a = tsr_cast(tsr_put(s, x, TSR_F64, TSR_SHAPE(count), at), dtype);
  CHECK_STATUS(tsr_wait(a), TSR_OK, s);
  return a;
}

static void check(tsr_scope *s, const char *line, tsr_array *a, double expected)
{
  double found;
  if (tsr_read(tsr_cast(a, TSR_F64), &found, sizeof found)) FAIL("%s: %s", line, tsr_message(s));
  CHECK_I64(tsr_shape_of(a).rank, 0);
  bool both_nan = found != found && expected != expected;
  if (memcmp(&found, &expected, sizeof found) && !both_nan)
    FAIL("%s: found %a, expected %a", line, found, expected);
}

/* "dtype a b > vdot(a, b) norm(a)" */
static void run_case(tsr_scope *outer, const tsr_mesh *mesh, char *line)
{
  char whole[100], *rest = NULL;
  double x[MOST], y[MOST];
  snprintf(whole, sizeof whole, "%s", line);
  char *name = strtok_r(line, " ", &rest), *left = strtok_r(NULL, " ", &rest);
  char *right = strtok_r(NULL, " ", &rest), *dot = strtok_r(NULL, " ", &rest);
  double norm = strtod(strtok_r(NULL, " ", &rest), NULL);
  tsr_dtype dtype = !strcmp(name, "f64")    ? TSR_F64
                    : !strcmp(name, "f32")  ? TSR_F32
                    : !strcmp(name, "bf16") ? TSR_BF16
                                            : TSR_F16;
  tsr_scope *s = tsr_scope_open(outer);
  tsr_sharding at = tsr_on(mesh, "x");
  int64_t count = read_numbers(left, x);
  CHECK_I64(read_numbers(right, y), count);
  tsr_array *a = put(s, x, count, dtype, at), *b = put(s, y, count, dtype, (tsr_sharding){ 0 });
  double expected = strtod(dot, NULL);
  check(s, whole, tsr_vdot(a, b), expected);
  check(s, whole, tsr_dot(b, a), expected);
  check(s, whole, tsr_inner(a, b), expected);
  check(s, whole, tsr_matmul(a, b), expected);
  check(s, whole, tsr_einsum("i,i", a, b), expected);
  check(s, whole, tsr_norm(a), norm);
  CHECK_I64(tsr_last_run(s).bytes_counted,
            tsr_last_run(s).bytes_explained + tsr_last_run(s).bytes_escaped);
  tsr_scope_close(s);
}

TEST_TIMEOUT(products_of_vectors_are_exact_sums, 100)
{
  static const char *const meshes[] = { "x=1", "x=3", "x=8" };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  for (int m = 0; m < 3; m++) {
    tsr_mesh *mesh = tsr_mesh_make(rt, meshes[m]);
    char *text = test_read(test_file("golden/vector_products.txt"), NULL), *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
      run_case(s, mesh, line);
    free(text);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Norms along a dim, with the dim kept, and where a mask says. */
TEST(norms_go_along_dims)
{
  static const double x[] = { 3, 1, 4, 1, 5, 2 };
  double out[3];
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(2, 3), (tsr_sharding){ 0 });
  tsr_array *n = tsr_norm(a, .dims = TSR_DIMS(-1), .keep_dims = true);
  CHECK_I64(tsr_shape_of(n).rank, 2);
  CHECK_STATUS(tsr_read(n, out, 2 * sizeof *out), TSR_OK, s);
  CHECK(out[0] == 0x1.465655f122ff6p+2 && out[1] == 0x1.5e8add236a58fp+2);
  n = tsr_norm(a, .dims = TSR_DIMS(0), .where = tsr_gt(a, 1));
  CHECK_STATUS(tsr_read(n, out, 3 * sizeof *out), TSR_OK, s);
  CHECK(out[0] == 3 && out[1] == 5 && out[2] == 0x1.1e3779b97f4a8p+2);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
