/* Where the smallest and the largest element stand: NumPy's places, however the array lies; masks,
 * and what is refused. Runs at each ISA. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

enum { MOST = 64 };

static tsr_dtype dtype_named(const char *name)
{
  for (int d = TSR_BOOL; d <= TSR_F64; d++)
    if (strcmp(tsr_dtype_name((tsr_dtype)d), name) == 0) return (tsr_dtype)d;
  FAIL("dtype %s", name);
}

static int64_t numbers(char *text, int base, uint64_t *out)
{
  int64_t count = 0;
  char *rest = NULL;
  for (char *v = strtok_r(text, ",", &rest); v; v = strtok_r(NULL, ",", &rest)) {
    CHECK(count < MOST);
    out[count++] = strtoull(v, NULL, base);
  }
  return count;
}

typedef struct example {
  tsr_array *(*op)(const tsr_reduce_args *args, const char *site);
  tsr_dtype dtype;
  tsr_shape shape;
  tsr_dims dims;
  unsigned char x[MOST * 8];
  uint64_t places[MOST];
  int64_t count; /* of places */
} example;

static example parse(char *line)
{
  char *word[6] = { 0 }, *rest = NULL;
  for (int w = 0; w < 6; w++) CHECK((word[w] = strtok_r(w ? NULL : line, " ", &rest)) != NULL);
  uint64_t list[MOST];
  example e = { .op = strcmp(word[0], "argmin") ? tsr_argmax_at : tsr_argmin_at,
                .dtype = dtype_named(word[1]) };
  e.shape.rank = (int)numbers(word[2], 10, list);
  for (int d = 0; d < e.shape.rank; d++) e.shape.dims[d] = (int64_t)list[d];
  if (strcmp(word[3], "all")) e.dims.bits = 1u << atoi(word[3]);
  int64_t elements = numbers(word[4], 16, list);
  size_t size = tsr_dtype_size(e.dtype);
  for (int64_t i = 0; i < elements; i++) memcpy(e.x + (size_t)i * size, &list[i], size);
  e.count = numbers(word[5], 10, e.places);
  return e;
}

static void check_places(const example *e, tsr_scope *s, tsr_sharding how, bool keep)
{
  tsr_array *x = tsr_put(s, e->x, e->dtype, e->shape, how);
  tsr_reduce_args args = { .size = sizeof args, .x = x, .dims = e->dims, .keep_dims = keep };
  tsr_array *r = e->op(&args, TSR_HERE);
  int64_t found[MOST];
  CHECK(tsr_dtype_of(r) == TSR_I64);
  CHECK_I64(tsr_shape_of(r).rank, keep ? e->shape.rank : e->dims.bits ? e->shape.rank - 1 : 0);
  CHECK_STATUS(tsr_read(r, found, (size_t)e->count * sizeof *found), TSR_OK, s);
  for (int64_t i = 0; i < e->count; i++) CHECK_I64(found[i], (int64_t)e->places[i]);
}

static void check_line(tsr_runtime *rt, char *line)
{
  static const char *const specs[] = { "x", "x,y", "-,x", "y,-,x", "x+y" };
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2"), *three = tsr_mesh_make(rt, "z=3");
  example e = parse(line);
  tsr_scope *s = tsr_scope_open(rt);
  check_places(&e, s, (tsr_sharding){ 0 }, false);
  check_places(&e, s, tsr_on(three, "z"), true);
  for (int i = 0; i < 5; i++) {
    int dims = 1;
    for (const char *c = specs[i]; *c; c++) dims += *c == ',';
    if (dims <= e.shape.rank) check_places(&e, s, tsr_on(mesh, specs[i]), i % 2);
  }
  tsr_scope_close(s);
}

TEST_TIMEOUT(places_are_numpys_on_every_mesh, 200)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  char *text = test_read(test_file("golden/places.txt"), NULL), *rest = NULL;
  int cases = 0;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), cases++)
    check_line(rt, line);
  CHECK_I64(cases, 13 * 2 * (3 * 2 + 3 * 3 + 2 * 4));
  free(text);
  tsr_runtime_close(rt);
}

static void check_place(tsr_scope *s, tsr_array *place, int64_t expected)
{
  int64_t found;
  CHECK_STATUS(tsr_read_i64(place, &found), TSR_OK, s);
  CHECK_I64(found, expected);
}

TEST(a_mask_leaves_places_as_they_are)
{
  static const double x[6] = { 5, 9, -1, 9, -1, 7 };
  static const bool some[6] = { true, false, false, true, true, true }, none[6] = { 0 };
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding rows = tsr_on(tsr_mesh_make(rt, "x=4"), "x");
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(6), rows);
  tsr_array *m = tsr_put(s, some, TSR_BOOL, TSR_SHAPE(6), rows);
  tsr_array *no = tsr_put(s, none, TSR_BOOL, TSR_SHAPE(6), rows);
  check_place(s, tsr_argmax(a), 1);
  check_place(s, tsr_argmin(a), 2);
  check_place(s, tsr_argmax(a, .where = m), 3);
  check_place(s, tsr_argmin(a, .where = m), 4);
  check_place(s, tsr_argmax(a, .where = no), -1);
  check_place(s, tsr_argmin(a, .where = no), -1);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Long rows of a transposed array are met block by block, not in their order. */
TEST(the_order_of_tiles_does_not_show)
{
  enum { ROWS = 5000, COLUMNS = 60 };
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  test_rng rng = test_seeded(29);
  double *x = malloc(ROWS * COLUMNS * sizeof *x);
  int64_t found[ROWS];
  for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (double)test_range(&rng, 0, 2);
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(ROWS, COLUMNS), (tsr_sharding){ 0 });
  tsr_array *turned = tsr_transpose(a);
  CHECK_STATUS(tsr_read(tsr_argmax(turned, .dims = TSR_DIMS(0)), found, sizeof found), TSR_OK, s);
  for (int r = 0; r < ROWS; r++) {
    int best = 0;
    for (int c = 1; c < COLUMNS; c++)
      if (x[r * COLUMNS + c] > x[r * COLUMNS + best]) best = c;
    CHECK_I64(found[r], best);
  }
  int first = 0;
  while (x[first * COLUMNS] != 0) first++;
  check_place(s, tsr_argmin(turned), first);
  free(x);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* What NumPy's nanmin, nanmax, nanargmax, nansum and nanmean give. */
TEST(nan_may_be_left_out)
{
  static const double x[5] = { NAN, 2, -3, NAN, 4 }, none[2] = { NAN, NAN };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding rows = tsr_on(tsr_mesh_make(rt, "x=2"), "x");
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(5), rows);
  tsr_array *no = tsr_put(s, none, TSR_F64, TSR_SHAPE(2), rows);
  tsr_array *all[] = { tsr_min(a, .skip_nan = true),
                       tsr_max(a, .skip_nan = true),
                       tsr_sum(a, .skip_nan = true),
                       tsr_mean(a, .skip_nan = true),
                       tsr_sum(a, .skip_nan = true, .where = tsr_lt(a, 3)),
                       tsr_sum(no, .skip_nan = true) };
  static const double expected[] = { -3, 4, 3, 1, -1, 0 };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    double found;
    CHECK_STATUS(tsr_read_scalar(all[i], &found), TSR_OK, s);
    CHECK_F64_BITS(found, expected[i]);
  }
  check_place(s, tsr_argmax(a, .skip_nan = true), 4);
  check_place(s, tsr_argmax(a), 0);
  check_place(s, tsr_argmax(no, .skip_nan = true), -1);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(nothing_has_no_place)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding rows = tsr_on(tsr_mesh_make(rt, "x=2"), "x");
  tsr_array *empty = tsr_put(s, "", TSR_I32, TSR_SHAPE(0, 3), rows);
  CHECK_STATUS(tsr_read(tsr_argmin(empty, .dims = TSR_DIMS(1)), NULL, 0), TSR_OK, s);
  tsr_argmax(empty, .dims = TSR_DIMS(0));
  CHECK_STATUS(tsr_scope_status(s), TSR_ESHAPE, s);
  CHECK_STR_HAS(tsr_message(s), "tsr_argmax");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
