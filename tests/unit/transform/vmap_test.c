/* Mapping: functions of one element on many at once, collectives by name, bodies on shards. */
#include <string.h>

#include "harness.h"
#include "support/mesh_fixture.h"
#include "tessera.h"

static tsr_array *counted(fixture *f, tsr_shape shape)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  return tsr_reshape(tsr_arange(f->s, .stop = (double)count), shape);
}

static void check_numbers(fixture *f, tsr_array *a, const double *want, int count)
{
  double found[512];
  CHECK_STATUS(tsr_read(a, found, (size_t)count * sizeof *found), TSR_OK, f->s);
  CHECK_BYTES(found, want, (size_t)count * sizeof *want);
}

static void check_equal(fixture *f, tsr_array *a, tsr_array *b)
{
  double want[512];
  int count = 1;
  tsr_shape shape = tsr_shape_of(b), own = tsr_shape_of(a);
  CHECK_I64(own.rank, shape.rank);
  for (int d = 0; d < shape.rank; d++) {
    CHECK_I64(own.dims[d], shape.dims[d]);
    count *= (int)shape.dims[d];
  }
  CHECK_STATUS(tsr_read(b, want, (size_t)count * sizeof *want), TSR_OK, f->s);
  check_numbers(f, a, want, count);
}

/* ---- vmap ------------------------------------------------------------------------------------ */

/* Of a vector [4], a matrix [3, 4] and a place: reductions, products, views, sorts, look-ups. */
static tsr_array *many(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *v = in[0], *m = in[1];
  tsr_array *p = tsr_matmul(m, v), *sorted = tsr_sort(tsr_mod(tsr_mul(v, 7), 5), 0);
  tsr_array *looked = tsr_take(v, tsr_argmax(m, .dims = TSR_DIMS(1)), 0);
  tsr_array *added = tsr_add(tsr_transpose(m), tsr_expand_dims(v, TSR_DIMS(1)));
  tsr_array *padded = tsr_pad(tsr_flip(v, TSR_DIMS(0)), .low = { 1 });
  tsr_array *sum = tsr_add(tsr_sum(added, .dims = TSR_DIMS(0)), tsr_mul(p, looked));
  tsr_array *wide = tsr_concat((tsr_array *[]){ sum, sorted, tsr_cumsum(padded, 0) }, 3, 0);
  return tsr_tuple(s, wide, tsr_mean(m), tsr_broadcast_to(tsr_max(v), TSR_SHAPE(2)));
}

static void check_many(fixture *f, tsr_array *v, tsr_array *m, const int *dims)
{
  tsr_function *one = tsr_function_make(f->s, many);
  tsr_function *all = tsr_vmap(one, .in_dims = { dims[0], dims[1] });
  tsr_array *found = tsr_call(all, v, m);
  CHECK_STATUS(tsr_scope_status(f->s), TSR_OK, f->s);
  for (int i = 0; i < 2; i++) {
    tsr_range at = { i, i + 1, 1 };
    tsr_array *a = dims[0] == TSR_UNMAPPED ? v : tsr_squeeze(tsr_slice(v, at), TSR_DIMS(0));
    tsr_array *b = m;
    if (dims[1] == 1) b = tsr_squeeze(tsr_slice(m, TSR_ALL, at), TSR_DIMS(1));
    tsr_array *want = tsr_call(one, a, b);
    for (int k = 0; k < 3; k++)
      check_equal(f, tsr_squeeze(tsr_slice(tsr_item(found, k), at), TSR_DIMS(0)),
                  tsr_item(want, k));
  }
}

TEST(a_mapped_function_is_that_of_each_element)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *v = counted(&f, TSR_SHAPE(2, 4)), *m = counted(&f, TSR_SHAPE(3, 2, 4));
  m = tsr_mod(tsr_mul(m, 5), 11);
  check_many(&f, v, m, (int[]){ 0, 1 });
  check_many(&f, tsr_ravel(tsr_slice(v, { 0, 1, 1 })), m, (int[]){ TSR_UNMAPPED, 1 });
  check_many(&f, tsr_reshard(v, tsr_on(f.mesh, "y,x")), tsr_reshard(m, tsr_on(f.mesh, "-,y,x")),
             (int[]){ 0, 1 });
  close_fixture(&f);
}

/* Of a scalar: what is not the scalar itself. */
static tsr_array *of_scalar(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *x = in[0], *place = tsr_cast(tsr_argmax(x), TSR_F64);
  tsr_array *all[] = { place, tsr_var(x), tsr_cast(tsr_count(x), TSR_F64), tsr_sum(x),
                       tsr_max(x, .keep_dims = true) };
  return tsr_stack(all, 5, 0);
}

TEST(mapped_scalars_are_reduced_as_scalars_are)
{
  static const double want[] = { 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 2, 2 };
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_function *all = tsr_vmap(tsr_function_make(f.s, of_scalar));
  check_numbers(&f, tsr_call(all, counted(&f, TSR_SHAPE(3))), want, 15);
  close_fixture(&f);
}

/* ---- collectives ----------------------------------------------------------------------------- */

enum {
  PSUM,
  GROUPS,
  SCATTER,
  SCATTER_TILED,
  TILED,
  GATHER,
  GATHER_ALL,
  GATHER_LAST,
  GATHER_TILED,
  PERMUTE,
  SHIFT,
  ALL_TO_ALL,
  COLLECTIVES
};

/* The documentation's numbers: 4 places, place i holds row i of arange(16) as 4 x 4. */
static tsr_array *collective(tsr_scope *s, tsr_array *const *in, void *user)
{
  static const int pairs[] = { 0, 1, 2, 3 }, crossed[] = { 0, 2, 3, 1 };
  (void)s;
  switch (*(int *)user) {
  case PSUM: return tsr_psum(in[0], "i");
  case GROUPS: return tsr_psum(in[0], "i", .groups = pairs, .group_count = 2);
  case SCATTER: return tsr_psum_scatter(in[0], "i");
  case SCATTER_TILED: return tsr_psum_scatter(in[0], "i", .tiled = true);
  case GATHER_ALL: return tsr_all_gather(in[0], "i");
  case GATHER_LAST: return tsr_all_gather(in[0], "i", .dim = -1);
  case GATHER_TILED: return tsr_all_gather(in[0], "i", .tiled = true);
  case TILED:
    return tsr_psum_scatter(in[0], "i", .tiled = true, .groups = crossed, .group_count = 2);
  case GATHER: return tsr_all_gather(in[0], "i", .groups = crossed, .group_count = 2);
  case PERMUTE: return tsr_ppermute(in[0], "i", { 0, 1 }, { 1, 2 });
  case SHIFT: return tsr_ppermute(in[0], "i", { 0, 1 }, { 1, 2 }, { 2, 3 }, { 3, 0 });
  default: return tsr_all_to_all(in[0], "i");
  }
}

#define ROWS 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#define COLUMNS 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15

static const double documented[COLLECTIVES][64] = {
  [PSUM] = { 24, 28, 32, 36, 24, 28, 32, 36, 24, 28, 32, 36, 24, 28, 32, 36 },
  [GROUPS] = { 4, 6, 8, 10, 4, 6, 8, 10, 20, 22, 24, 26, 20, 22, 24, 26 },
  [SCATTER] = { 24, 28, 32, 36 },
  [SCATTER_TILED] = { 24, 28, 32, 36 },
  [GATHER_ALL] = { ROWS, ROWS, ROWS, ROWS },
  [GATHER_LAST] = { COLUMNS, COLUMNS, COLUMNS, COLUMNS },
  [GATHER_TILED] = { ROWS, ROWS, ROWS, ROWS },
  [TILED] = { 8, 10, 20, 22, 12, 14, 16, 18 },
  [GATHER] = { 0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 4, 5, 6, 7,
               0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 4, 5, 6, 7 },
  [PERMUTE] = { 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0 },
  [SHIFT] = { 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 },
  [ALL_TO_ALL] = { COLUMNS },
};

TEST(collectives_are_as_documented)
{
  static const int counts[] = { 16, 16, 4, 4, 8, 32, 64, 64, 64, 16, 16, 16 };
  static const int dims[][4] = {
    [SCATTER] = { 4 },          [SCATTER_TILED] = { 4, 1 }, [TILED] = { 4, 2 },
    [GATHER] = { 4, 2, 4 },     [GATHER_ALL] = { 4, 4, 4 }, [GATHER_LAST] = { 4, 4, 4 },
    [GATHER_TILED] = { 4, 16 }, [COLLECTIVES] = { 0 }
  };
  for (int on_mesh = 0; on_mesh < 2; on_mesh++)
    for (int kind = 0; kind < COLLECTIVES; kind++) {
      fixture f = open_fixture("cpu:8", "x=4,y=2");
      tsr_array *x = counted(&f, TSR_SHAPE(4, 4));
      if (on_mesh) x = tsr_reshard(x, tsr_on(f.mesh, "x,y"));
      tsr_function *one = tsr_function_make(f.s, collective, .user = &kind);
      tsr_array *found = tsr_call(tsr_vmap(one, .axis = "i"), x);
      check_numbers(&f, found, documented[kind], counts[kind]);
      for (int d = 0; d < 4 && dims[kind][d]; d++)
        CHECK_I64(tsr_shape_of(found).dims[d], dims[kind][d]);
      close_fixture(&f);
    }
}

/* ---- constraints ----------------------------------------------------------------------------- */

static tsr_array *constrained(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *x = user ? tsr_constrain(in[0], tsr_on((tsr_mesh *)user, "x")) : in[0];
  return tsr_sum(tsr_mul(tsr_square(x), x));
}

static tsr_array *all_constrained(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_sum(tsr_call(tsr_vmap(tsr_function_make(s, constrained, .user = user)), in[0]));
}

/* A constraint of an element leaves the dim in front open, also when it is differentiated. */
TEST(constraints_of_elements_are_differentiated)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *x = counted(&f, TSR_SHAPE(3, 8));
  tsr_function *on = tsr_grad(tsr_function_make(f.s, all_constrained, .user = f.mesh));
  tsr_array *want = tsr_mul(tsr_square(x), 3), *found = tsr_call(on, x);
  check_equal(&f, found, want);
  tsr_function *second = tsr_hvp(tsr_function_make(f.s, all_constrained, .user = f.mesh));
  check_equal(&f, tsr_call(second, x, x), tsr_mul(tsr_square(x), 6));
  close_fixture(&f);
}

/* ---- collectives mapped over ----------------------------------------------------------------- */

enum {
  EACH_PSUM,
  EACH_PMEAN,
  EACH_PMAX,
  EACH_GATHER,
  EACH_TILED,
  EACH_SCATTER,
  EACH_ALL,
  EACH_SENT,
  EACH_SHUFFLED,
  EACH_SWAPPED,
  EACH_FROM,
  EACH_GROUPS,
  EACH_INDEX,
  EACH_KINDS
};

static tsr_array *each(tsr_scope *s, tsr_array *const *in, void *user)
{
  static const int crossed[] = { 0, 2, 3, 1 };
  tsr_array *x = in[0];
  switch (*(int *)user) {
  case EACH_PSUM: return tsr_psum(x, "i");
  case EACH_PMEAN: return tsr_pmean(x, "i");
  case EACH_PMAX: return tsr_sub(tsr_pmax(x, "i"), tsr_pmin(x, "i"));
  case EACH_GATHER: return tsr_all_gather(x, "i", .dim = -1);
  case EACH_TILED: return tsr_all_gather(x, "i", .dim = 1, .tiled = true);
  case EACH_SCATTER: return tsr_psum_scatter(x, "i");
  case EACH_ALL: return tsr_all_to_all(x, "i", .dim = 1, .tiled = true);
  case EACH_SENT: return tsr_ppermute(x, "i", { 0, 1 }, { 1, 3 });
  case EACH_SHUFFLED: return tsr_pshuffle(x, "i", 2, 0, 3, 1);
  case EACH_SWAPPED: return tsr_pswapaxes(x, "i");
  case EACH_FROM: return tsr_pbroadcast(x, "i", 2);
  case EACH_GROUPS: return tsr_psum(x, "i", .groups = crossed, .group_count = 2);
  default: return tsr_add(x, tsr_axis_index(s, "i"));
  }
}

static tsr_array *inside(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_function *f = tsr_function_make(s, each, .user = user);
  return tsr_call(tsr_vmap(f, .in_dims = { 1 }, .out_dims = { 1 }), in[0]);
}

static tsr_array *on_shard(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *own[] = { tsr_squeeze(in[0], TSR_DIMS(0)) };
  return tsr_expand_dims(inside(s, own, user), TSR_DIMS(0));
}

/* What places do together is done by each element: mapped inside of the axis, around it, and on
 * devices. */
TEST(collectives_are_mapped_over)
{
  for (int kind = 0; kind < EACH_KINDS; kind++) {
    fixture f = open_fixture("cpu:8", "i=4,y=2");
    tsr_array *x = tsr_mod(tsr_mul(counted(&f, TSR_SHAPE(4, 4, 3, 2)), 37), 41), *all[3];
    tsr_function *one = tsr_vmap(tsr_function_make(f.s, each, .user = &kind), .axis = "i");
    for (int k = 0; k < 3; k++)
      all[k] =
          tsr_call(one, tsr_squeeze(tsr_slice(x, TSR_ALL, TSR_ALL, { k, k + 1, 1 }), TSR_DIMS(2)));
    tsr_array *want = tsr_stack(all, 3, 2);
    tsr_function *in = tsr_vmap(tsr_function_make(f.s, inside, .user = &kind), .axis = "i");
    check_equal(&f, tsr_call(in, x), want);
    tsr_function *around = tsr_vmap(one, .in_dims = { 2 }, .out_dims = { 2 });
    check_equal(&f, tsr_call(around, x), want);
    tsr_array *on = tsr_shard_map(f.mesh, on_shard, &kind, .in = { x }, .in_specs = { "i" },
                                  .out_specs = { "i" });
    check_equal(&f, on, want);
    close_fixture(&f);
  }
}

/* ---- shard_map ------------------------------------------------------------------------------- */

static tsr_array *row_sum(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  CHECK_I64(tsr_shape_of(in[0]).dims[0], 2);
  CHECK_I64(tsr_shape_of(in[0]).dims[1], 2);
  return tsr_psum(tsr_sum(in[0], .dims = TSR_DIMS(1)), "y");
}

static tsr_array *product(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_psum_scatter(tsr_matmul(in[0], in[1]), user, .tiled = true);
}

static tsr_array *unsummed(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(in[0]);
}

static tsr_array *index_of(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_add(tsr_mul(in[0], 0), tsr_axis_index(s, "y,x"));
}

TEST(bodies_see_their_shards)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *x = counted(&f, TSR_SHAPE(8, 4));
  tsr_array *rows = tsr_shard_map(f.mesh, row_sum, NULL, .in = { x }, .in_specs = { "x,y" },
                                  .out_specs = { "x" });
  check_equal(&f, rows, tsr_sum(x, .dims = TSR_DIMS(1)));
  tsr_array *places = tsr_shard_map(f.mesh, index_of, NULL, .in = { counted(&f, TSR_SHAPE(8)) },
                                    .in_specs = { "x+y" }, .out_specs = { "x+y" });
  check_numbers(&f, places, (double[]){ 0, 4, 1, 5, 2, 6, 3, 7 }, 8);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  CHECK(tsr_is_inert(tsr_shard_map(f.mesh, unsummed, NULL, .in = { x }, .in_specs = { "x" },
                                   .out_specs = { "" })));
  CHECK_STR_HAS(tsr_message(f.s), "tsr_shard_map: result 0 may differ along axis x");
  close_fixture(&f);
}

TEST(products_are_reduced_and_scattered)
{
  fixture f = open_fixture("cpu:8", "x=2,y=2,z=2");
  tsr_array *a = counted(&f, TSR_SHAPE(8, 8)), *b = tsr_mod(a, 5);
  tsr_array *c = tsr_shard_map(f.mesh, product, "y", .in = { a, b }, .in_specs = { "z,y", "y,-" },
                               .out_specs = { "z+y" });
  check_equal(&f, c, tsr_matmul(a, b));
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  close_fixture(&f);
}

/* ---- arrays of many dims --------------------------------------------------------------------- */

static const tsr_shape eight = { .rank = 8, .dims = { 2, 1, 3, 1, 2, 1, 1, 2 } };

static tsr_array *numbers_of(tsr_scope *s, tsr_shape shape)
{
  tsr_shape flat = { .rank = 1, .dims = { 1 } };
  for (int d = 0; d < shape.rank; d++) flat.dims[0] *= shape.dims[d];
  return tsr_reshape(tsr_sin(tsr_arange(s, .stop = (double)flat.dims[0])), shape);
}

/* All that looks at dims, on an array that has eight. */
static tsr_array *of_eight(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *x = tsr_transpose(in[0], 7, 6, 5, 4, 3, 2, 1, 0);
  x = tsr_sub(x, tsr_mean(x, .dims = TSR_DIMS(0, 5), .keep_dims = true));
  x = tsr_softmax(tsr_concat(((tsr_array *[]){ x, tsr_flip(x, TSR_DIMS(5)) }), 2, 5), 5);
  x = tsr_cumsum(tsr_take(x, tsr_argmax(tsr_ravel(in[0])), 5, .mode = TSR_INDEX_CLAMP), 3);
  return tsr_mul(tsr_sum(x), tsr_sort(in[0], 2));
}

static tsr_array *of_eight_sum(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_sum(tsr_square(of_eight(s, in, user)));
}

/* Element `i` of dim 0. */
static tsr_array *element_at(tsr_array *all, int64_t i)
{
  return tsr_squeeze(tsr_slice(all, TSR_RANGE(i, i + 1)), TSR_DIMS(0));
}

TEST(maps_add_their_dims_to_eight)
{
  fixture f = open_fixture("cpu:8", "x=2,y=2,z=2");
  tsr_function *one = tsr_function_make(f.s, of_eight), *sum = tsr_function_make(f.s, of_eight_sum);
  tsr_function *made[] = { one, tsr_grad(sum), tsr_grad(tsr_checkpoint(sum)) };
  tsr_shape shape = { .rank = 10, .dims = { 2, 3 } };
  memcpy(shape.dims + 2, eight.dims, 8 * sizeof *eight.dims);
  tsr_array *x = numbers_of(f.s, shape);
  for (int k = 0; k < 3; k++) {
    tsr_array *all = tsr_call(tsr_vmap(tsr_vmap(made[k])), x);
    for (int64_t i = 0; i < 2; i++)
      for (int64_t j = 0; j < 3; j++) {
        tsr_array *want = tsr_call(made[k], element_at(element_at(x, i), j));
        double off = 1;
        tsr_array *far = tsr_max(tsr_abs(tsr_sub(element_at(element_at(all, i), j), want)));
        CHECK_STATUS(tsr_read(far, &off, sizeof off), TSR_OK, f.s);
        CHECK(off < 1e-12);
      }
  }
  close_fixture(&f);
}

/* Three axes in front of eight dims, of which some are cut. */
static tsr_array *on_devices(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(tsr_square(in[0]), tsr_psum(in[0], "x,y,z"));
}

TEST(bodies_see_arrays_of_eight_dims)
{
  fixture f = open_fixture("cpu:8", "x=2,y=2,z=2");
  tsr_shape shape = { .rank = 8, .dims = { 2, 3, 2, 1, 2, 1, 1, 2 } };
  tsr_array *x = numbers_of(f.s, shape);
  const char *spec = "x,-,y,-,z";
  tsr_array *found = tsr_shard_map(f.mesh, on_devices, NULL, .in = { x }, .in_specs = { spec },
                                   .out_specs = { spec });
  tsr_array *over = tsr_sum(x, .dims = TSR_DIMS(0, 2, 4), .keep_dims = true);
  tsr_array *far = tsr_max(tsr_abs(tsr_sub(found, tsr_add(tsr_square(x), over))));
  double off = 1;
  CHECK_STATUS(tsr_read(far, &off, sizeof off), TSR_OK, f.s);
  CHECK(off < 1e-12);
  close_fixture(&f);
}

static tsr_array *cubes(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_pow(in[0], 3));
}

/* The gradient of a number is its jacobian; by a number of eight dims too. */
TEST(jacobians_have_as_many_dims_as_both)
{
  fixture f = open_fixture("cpu:2", "x=2");
  double off = 1;
  tsr_array *x = numbers_of(f.s, eight);
  tsr_array *all = tsr_call(tsr_jacobian(tsr_function_make(f.s, cubes)), x);
  CHECK_I64(tsr_shape_of(all).rank, 8);
  tsr_array *far = tsr_max(tsr_abs(tsr_sub(all, tsr_mul(tsr_square(x), 3))));
  CHECK_STATUS(tsr_read(far, &off, sizeof off), TSR_OK, f.s);
  CHECK(off < 1e-12);
  tsr_array *second = tsr_call(tsr_jacobian(tsr_grad(tsr_function_make(f.s, cubes))), x);
  CHECK_I64(tsr_shape_of(second).rank, 16);
  far = tsr_sub(tsr_sum(second), tsr_mul(tsr_sum(x), 6));
  CHECK_STATUS(tsr_read(far, &off, sizeof off), TSR_OK, f.s);
  CHECK(off < 1e-9 && off > -1e-9);
  close_fixture(&f);
}
