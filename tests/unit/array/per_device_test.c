/* Per-device code: pmap, xmap, what devices do together, axes that are manual and those that are
 * not, uneven shards, and the field's documented cases. */
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

static void check_equal(fixture *f, tsr_array *a, tsr_array *b)
{
  double found[256], want[256];
  size_t count = 1;
  CHECK_STATUS(tsr_scope_status(f->s), TSR_OK, f->s);
  tsr_shape shape = tsr_shape_of(b), own = tsr_shape_of(a);
  CHECK_I64(own.rank, shape.rank);
  for (int d = 0; d < shape.rank; d++) {
    CHECK_I64(own.dims[d], shape.dims[d]);
    count *= (size_t)shape.dims[d];
  }
  CHECK(count <= 256);
  CHECK_STATUS(tsr_read(tsr_cast(a, TSR_F64), found, count * sizeof *found), TSR_OK, f->s);
  CHECK_STATUS(tsr_read(tsr_cast(b, TSR_F64), want, count * sizeof *want), TSR_OK, f->s);
  CHECK_BYTES(found, want, count * sizeof *want);
}

static void check_numbers(fixture *f, tsr_array *a, const double *want, int64_t count)
{
  check_equal(f, tsr_ravel(a), tsr_put(f->s, want, TSR_F64, TSR_SHAPE(count), (tsr_sharding){ 0 }));
}

static void check_refused(fixture *f, tsr_array *a, const char *text)
{
  CHECK(tsr_is_inert(a));
  CHECK_STR_HAS(tsr_message(f->s), text);
  tsr_scope_clear(f->s);
}

/* ---- pmap ------------------------------------------------------------------------------------ */

static tsr_array *centred(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *sum = tsr_psum(in[0], "devices");
  return tsr_tuple(s, tsr_mul(in[0], in[1]), sum, tsr_add(in[0], tsr_axis_index(s, "devices")));
}

TEST(each_element_of_a_pmap_has_its_device)
{
  fixture f = open_fixture("cpu:8", "x=8");
  tsr_array *x = counted(&f, TSR_SHAPE(3, 4)), *w = counted(&f, TSR_SHAPE(3));
  tsr_function *one = tsr_function_make(f.s, centred);
  tsr_function *all =
      tsr_pmap(one, .in_dims = { 1, TSR_UNMAPPED }, .out_dims = { -1, TSR_UNMAPPED, 1 });
  tsr_array *out = tsr_call(all, x, w);
  check_equal(&f, tsr_item(out, 0), tsr_mul(x, tsr_expand_dims(w, TSR_DIMS(1))));
  check_equal(&f, tsr_item(out, 1), tsr_sum(x, .dims = TSR_DIMS(1)));
  check_equal(&f, tsr_item(out, 2), tsr_add(x, tsr_arange(f.s, .stop = 4)));
  char text[64];
  tsr_array *spread = tsr_item(out, 0);
  CHECK_STATUS(tsr_eval(&spread, 1), TSR_OK, f.s);
  tsr_sharding at = tsr_sharding_of(spread);
  tsr_sharding_text(&at, 2, text, sizeof text);
  CHECK_STR(text, "(-,devices)");
  CHECK_STR(tsr_mesh_text(at.mesh), "devices=4");
  tsr_array *nine = counted(&f, TSR_SHAPE(3, 9));
  check_refused(&f, tsr_call(all, nine, w),
                "9 elements need as many devices, but there are only 8");
  tsr_function *same = tsr_pmap(one, .in_dims = { 1, TSR_UNMAPPED }, .out_dims = { TSR_UNMAPPED });
  check_refused(&f, tsr_call(same, x, w), "result 0 may differ along devices");
  close_fixture(&f);
}

/* ---- xmap ------------------------------------------------------------------------------------ */

static tsr_array *row_sums(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_psum(in[0], "features");
}

static tsr_array *products(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_mul(in[0], in[1]));
}

static tsr_array *unreduced(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(in[0], 2);
}

TEST(names_of_dims_are_mapped_over)
{
  fixture f = open_fixture("cpu:8", "batch=8");
  tsr_array *x = counted(&f, TSR_SHAPE(8, 4)), *y = counted(&f, TSR_SHAPE(4, 3));
  tsr_function *sums = tsr_xmap(tsr_function_make(f.s, row_sums), .in_axes = { "batch,features" },
                                .out_axes = { "batch" }, .mesh = f.mesh);
  check_equal(&f, tsr_call(sums, x), tsr_sum(x, .dims = TSR_DIMS(1)));
  tsr_function *dot = tsr_xmap(tsr_function_make(f.s, products), .in_axes = { "i,-", "-,j" },
                               .out_axes = { "j,i" });
  check_equal(&f, tsr_call(dot, x, y), tsr_transpose(tsr_matmul(x, y)));
  tsr_function *twice = tsr_function_make(f.s, unreduced);
  tsr_function *turned = tsr_xmap(twice, .in_axes = { "a,-,b" }, .out_axes = { "b,-,a" });
  tsr_array *cube = counted(&f, TSR_SHAPE(2, 3, 4));
  check_equal(&f, tsr_call(turned, cube), tsr_mul(tsr_transpose(cube), 2));
  tsr_function *kept = tsr_xmap(twice, .in_axes = { "batch,features" }, .out_axes = { "batch" });
  check_refused(&f, tsr_call(kept, x), "may differ along features");
  close_fixture(&f);
}

/* ---- collectives ----------------------------------------------------------------------------- */

static tsr_array *shuffled(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tuple(s, tsr_pshuffle(in[0], "i", 3, 2, 1, 0), tsr_pswapaxes(in[0], "i"));
}

static tsr_array *sent(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_ragged_all_to_all(in[0], "i", .to = in[1], .starts = in[2], .sizes = in[3],
                               .places = in[4]);
}

static tsr_array *ints(fixture *f, const int64_t *numbers, tsr_shape shape)
{
  return tsr_put(f->s, numbers, TSR_I64, shape, (tsr_sharding){ 0 });
}

TEST(places_are_shuffled_swapped_and_sent_rows)
{
  fixture f = open_fixture("cpu:8", "i=4,y=2");
  tsr_array *x = counted(&f, TSR_SHAPE(4, 4));
  tsr_function *both = tsr_vmap(tsr_function_make(f.s, shuffled), .axis = "i");
  tsr_array *out = tsr_call(both, x);
  check_equal(&f, tsr_item(out, 0), tsr_flip(x, TSR_DIMS(0)));
  check_equal(&f, tsr_item(out, 1), tsr_transpose(x));
  static const int64_t rows[] = { 1, 2, 2, 3, 4, 0 }, starts[] = { 0, 1, 0, 1 };
  static const int64_t sizes[] = { 1, 2, 1, 1 }, places[] = { 0, 0, 1, 2 };
  tsr_function *ragged = tsr_vmap(tsr_function_make(f.s, sent), .axis = "i");
  tsr_array *none = tsr_full(f.s, 0, TSR_I64, TSR_SHAPE(2, 4), (tsr_sharding){ 0 });
  tsr_array *got =
      tsr_call(ragged, ints(&f, rows, TSR_SHAPE(2, 3)), none, ints(&f, starts, TSR_SHAPE(2, 2)),
               ints(&f, sizes, TSR_SHAPE(2, 2)), ints(&f, places, TSR_SHAPE(2, 2)));
  check_numbers(&f, got, (double[]){ 1, 3, 0, 0, 2, 2, 4, 0 }, 8);
  close_fixture(&f);
}

/* ---- the field's cases on a mesh of 2 x 2 x 2 ------------------------------------------------ */

static tsr_array *scattered(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_psum_scatter(tsr_matmul(in[0], in[1]), user, .tiled = true);
}

static tsr_array *gathered(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_all_gather(in[0], "z,x", .tiled = true);
}

static tsr_array *permuted(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_pair pairs[8];
  (void)s, (void)user;
  for (int i = 0; i < 8; i++) pairs[i] = (tsr_pair){ i, (i + 2) % 8 };
  tsr_permute_args args = { .size = sizeof args, .x = in[0], .axis = "x,y,z", .pairs = pairs };
  args.count = 8;
  return tsr_ppermute_at(&args, TSR_HERE);
}

static tsr_array *turned(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_all_to_all(in[0], "x,y,z", .split = 1, .dim = 1, .tiled = true);
}

static tsr_array *groups_summed(tsr_scope *s, tsr_array *const *in, void *user)
{
  static const int groups[] = { 0, 2, 4, 6, 1, 3, 5, 7 };
  (void)s, (void)user;
  return tsr_psum_scatter(in[0], "x,y,z", .tiled = true, .groups = groups, .group_count = 2);
}

static tsr_array *places_of(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_add(tsr_mul(in[0], 0), tsr_axis_index(s, "y,x"));
}

static tsr_array *map(fixture *f, tsr_body_fn *body, tsr_array *a, const char *in, const char *out)
{
  return tsr_shard_map(f->mesh, body, NULL, .in = { a }, .in_specs = { in }, .out_specs = { out });
}

TEST(documented_cases_of_three_axes)
{
  fixture f = open_fixture("cpu:8", "x=2,y=2,z=2");
  tsr_array *a = counted(&f, TSR_SHAPE(8, 8)), *b = tsr_mod(a, 7), *ab = tsr_matmul(a, b);
  tsr_array *c = tsr_shard_map(f.mesh, scattered, "y", .in = { a, b }, .in_specs = { "z,y", "y" },
                               .out_specs = { "z+y" });
  check_equal(&f, c, ab);
  tsr_array *half = tsr_shard_map(f.mesh, scattered, "z,y", .in = { a, b },
                                  .in_specs = { "z,y", "y" }, .out_specs = { "z+y" });
  check_equal(&f, half, tsr_add(tsr_slice(ab, TSR_RANGE(0, 4)), tsr_slice(ab, TSR_RANGE(4, 8))));
  check_equal(&f, map(&f, gathered, a, "z+x", ""), a);
  check_equal(&f, map(&f, permuted, a, "x+y+z", "x+y+z"), tsr_roll(a, 2, 0));
  check_equal(&f, map(&f, turned, a, "x+y+z", "x+y+z"), tsr_transpose(a));
  tsr_array *even = tsr_slice(a, TSR_ALL, { 0, 8, 2 }), *odd = tsr_slice(a, TSR_ALL, { 1, 8, 2 });
  tsr_array *sums[] = { tsr_sum(even, .dims = TSR_DIMS(1)), tsr_sum(odd, .dims = TSR_DIMS(1)) };
  tsr_array *want = tsr_reshape(tsr_stack(sums, 2, 1), TSR_SHAPE(4, 2, 2));
  want = tsr_reshape(tsr_moveaxis(want, 2, 1), TSR_SHAPE(16));
  tsr_array *found = tsr_ravel(map(&f, groups_summed, a, "-,x+y+z", "x+y+z"));
  check_equal(&f, found, want);
  tsr_array *eight = counted(&f, TSR_SHAPE(8));
  check_numbers(&f, map(&f, places_of, eight, "x+y+z", "x+y+z"),
                (double[]){ 0, 0, 2, 2, 1, 1, 3, 3 }, 8);
  close_fixture(&f);
}

/* ---- axes that are not manual, nesting, arrays from outside ---------------------------------- */

static tsr_array *rows_only(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  CHECK_I64(tsr_shape_of(in[0]).dims[0], 2);
  CHECK_I64(tsr_shape_of(in[0]).dims[1], 8);
  return tsr_psum(tsr_matmul(in[0], tsr_transpose(in[0])), "x");
}

static tsr_array *inner(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  CHECK_I64(tsr_shape_of(in[0]).dims[1], 4);
  return tsr_psum(tsr_sum(in[0], .dims = TSR_DIMS(1)), "x,y");
}

static tsr_array *nested(tsr_scope *s, tsr_array *const *in, void *user)
{
  const fixture *f = user;
  (void)s;
  return tsr_shard_map(f->mesh, inner, NULL, .in = { in[0] }, .in_specs = { "-,y" },
                       .out_specs = { "" });
}

static tsr_array *again(tsr_scope *s, tsr_array *const *in, void *user)
{
  const fixture *f = user;
  (void)s;
  return tsr_shard_map(f->mesh, inner, NULL, .in = { in[0] }, .axes = "x", .in_specs = { "x" },
                       .out_specs = { "x" });
}

static tsr_array *placed(tsr_scope *s, tsr_array *const *in, void *user)
{
  const fixture *f = user;
  (void)s;
  return tsr_constrain(in[0], tsr_on(f->mesh, "x"));
}

static tsr_array *with_outer(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_psum(tsr_sum(tsr_mul(in[0], (tsr_array *)user), .dims = TSR_DIMS(0)), "x");
}

static tsr_array *of_argument(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_shard_map(user, with_outer, in[1], .in = { in[0] }, .in_specs = { "x" },
                       .out_specs = { "" });
}

TEST(some_axes_are_manual)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *x = counted(&f, TSR_SHAPE(8, 8)), *sums = tsr_num(f.s, 0.0);
  for (int i = 0; i < 4; i++) {
    tsr_array *rows = tsr_slice(x, TSR_RANGE(2 * i, 2 * i + 2));
    sums = tsr_add(sums, tsr_matmul(rows, tsr_transpose(rows)));
  }
  check_equal(&f,
              tsr_shard_map(f.mesh, rows_only, NULL,
                            .in = { tsr_reshard(x, tsr_on(f.mesh, "x,y")) }, .axes = "x",
                            .in_specs = { "x" }, .out_specs = { "" }),
              sums);
  tsr_array *folded = tsr_sum(tsr_reshape(x, TSR_SHAPE(4, 2, 8)), .dims = TSR_DIMS(0, 2));
  check_equal(&f,
              tsr_shard_map(f.mesh, nested, &f, .in = { x }, .axes = "x", .in_specs = { "x" },
                            .out_specs = { "" }),
              folded);
  check_refused(&f,
                tsr_shard_map(f.mesh, again, &f, .in = { x }, .axes = "x", .in_specs = { "x" },
                              .out_specs = { "x" }),
                "axis x is manual already");
  check_refused(
      &f, tsr_shard_map(f.mesh, again, &f, .in = { x }, .in_specs = { "x" }, .out_specs = { "x" }),
      "axis x is manual already");
  check_refused(&f,
                tsr_shard_map(f.mesh, placed, &f, .in = { x }, .axes = "x", .in_specs = { "x" },
                              .out_specs = { "x" }),
                "axis x is manual here");
  check_refused(&f,
                tsr_shard_map(f.mesh, rows_only, NULL, .in = { x }, .axes = "x",
                              .in_specs = { "x,y" }, .out_specs = { "" }),
                "names axis y, which is not manual");
  check_refused(&f,
                tsr_shard_map(f.mesh, rows_only, NULL, .in = { x }, .axes = "q",
                              .in_specs = { "x" }, .out_specs = { "" }),
                "no axis \"q\" in mesh");
  close_fixture(&f);
}

TEST(arrays_from_outside_are_the_same_everywhere)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *x = counted(&f, TSR_SHAPE(8, 2)), *w = tsr_add(counted(&f, TSR_SHAPE(2)), 3);
  tsr_array *found =
      tsr_shard_map(f.mesh, with_outer, w, .in = { x }, .in_specs = { "x" }, .out_specs = { "" });
  check_equal(&f, found, tsr_sum(tsr_mul(x, w), .dims = TSR_DIMS(0)));
  tsr_function *g = tsr_function_make(f.s, of_argument, .user = f.mesh);
  check_refused(&f, tsr_call(g, x, w), "uses an argument of the function around it");
  close_fixture(&f);
}

/* ---- uneven shards --------------------------------------------------------------------------- */

static tsr_array *masked(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  CHECK_I64(tsr_shape_of(in[0]).dims[0], 3);
  tsr_array *rows = tsr_psum(tsr_count(in[1]), "x");
  tsr_array *most = tsr_pmax(tsr_max(in[0], .where = in[1]), "x");
  return tsr_tuple(s, tsr_add(in[0], tsr_axis_index(s, "x")), rows, most);
}

TEST(uneven_shards_are_those_of_arrays)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *x = tsr_sub(counted(&f, TSR_SHAPE(10)), 20);
  tsr_array *there = tsr_full(f.s, true, TSR_BOOL, TSR_SHAPE(10), (tsr_sharding){ 0 });
  tsr_array *out = tsr_shard_map(f.mesh, masked, NULL, .in = { x, there }, .uneven = true,
                                 .in_specs = { "x", "x" }, .out_specs = { "x", "", "" });
  static const double device[] = { 0, 0, 0, 1, 1, 1, 2, 2, 3, 3 };
  tsr_array *at = tsr_put(f.s, device, TSR_F64, TSR_SHAPE(10), (tsr_sharding){ 0 });
  check_equal(&f, tsr_item(out, 0), tsr_add(x, at));
  check_numbers(&f, tsr_item(out, 1), (double[]){ 10 }, 1);
  check_numbers(&f, tsr_item(out, 2), (double[]){ -11 }, 1);
  check_refused(&f,
                tsr_shard_map(f.mesh, masked, NULL, .in = { x, there }, .in_specs = { "x", "x" },
                              .out_specs = { "x", "", "" }),
                "give a size that divides, or set .uneven");
  close_fixture(&f);
}

static tsr_array *nth(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_item(in[0], *(const int *)user);
}

/* However many leaves a tree has, and however many of one size come before another. */
TEST(each_uneven_leaf_is_as_long_as_it_was)
{
  enum { LEAVES = 40 };
  static const int ways[][2] = { { 9, 4 }, { 10, 0 } };
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  for (int way = 0; way < 2; way++) {
    tsr_array *leaf[LEAVES];
    for (int i = 0; i < LEAVES; i++)
      leaf[i] = counted(&f, TSR_SHAPE(ways[way][0] + i * ways[way][1]));
    leaf[LEAVES - 1] = counted(&f, TSR_SHAPE(201));
    tsr_array *tree = tsr_tuple_at(f.s, leaf, LEAVES, TSR_HERE);
    for (int at = 0; at < LEAVES; at += 13)
      check_equal(&f,
                  tsr_shard_map(f.mesh, nth, &at, .in = { tree }, .in_specs = { "x" },
                                .out_specs = { "x" }, .uneven = true),
                  leaf[at]);
  }
  close_fixture(&f);
}

/* ---- draws ----------------------------------------------------------------------------------- */

static tsr_array *drawn(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_uniform(s, .keys = in[0], .shape = TSR_SHAPE(5));
}

static tsr_array *drawn_here(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)in;
  tsr_array *key = tsr_random_key(s, 7);
  if (user) key = tsr_random_fold_in(key, tsr_axis_index(s, "x"));
  return tsr_uniform(s, .keys = key, .shape = TSR_SHAPE(3));
}

TEST(draws_of_mapped_keys_are_those_of_each)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *keys = tsr_random_split(tsr_random_key(f.s, 3), 4);
  tsr_function *one = tsr_function_make(f.s, drawn);
  tsr_array *all = tsr_call(tsr_vmap(one), keys);
  for (int i = 0; i < 4; i++) {
    tsr_array *key = tsr_squeeze(tsr_slice(keys, TSR_RANGE(i, i + 1)), TSR_DIMS(0));
    check_equal(&f, tsr_squeeze(tsr_slice(all, TSR_RANGE(i, i + 1)), TSR_DIMS(0)),
                tsr_uniform(f.s, .keys = key, .shape = TSR_SHAPE(5)));
  }
  /* one key: the same everywhere, which is proved; the place in it: another one at each */
  tsr_array *x = counted(&f, TSR_SHAPE(4));
  check_equal(&f, map(&f, drawn_here, x, "x", ""),
              tsr_uniform(f.s, .key = 7, .shape = TSR_SHAPE(3)));
  tsr_array *each =
      tsr_shard_map(f.mesh, drawn_here, &f, .in = { x }, .in_specs = { "x" }, .out_specs = { "x" });
  for (int i = 0; i < 4; i++)
    check_equal(&f, tsr_slice(each, TSR_RANGE(3 * i, 3 * i + 3)),
                tsr_uniform(f.s, .keys = tsr_random_fold_in(tsr_random_key(f.s, 7), i),
                            .shape = TSR_SHAPE(3)));
  close_fixture(&f);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static tsr_array *same(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return in[0];
}

static tsr_array *summed_twice(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_psum(in[0], "x,y,x");
}

static tsr_array *sent_twice(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_ppermute(in[0], "x", { 0, 1 }, { 2, 1 });
}

TEST(specs_that_do_not_fit_are_refused)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *x = counted(&f, TSR_SHAPE(4)), *odd = counted(&f, TSR_SHAPE(3));
  check_refused(&f, map(&f, same, odd, "x", "x"), "give a size that divides, or set .uneven");
  check_refused(&f, map(&f, same, x, "x,y", "x"), "give a spec without dims beyond the array's");
  check_refused(&f, map(&f, same, x, "x", "x,y"),
                "result 0 is f64[1] on each device, fewer dims than its spec \"x,y\"");
  check_refused(&f, map(&f, summed_twice, x, "x", ""), "axis x is named twice in \"x,y,x\"");
  check_refused(&f, map(&f, sent_twice, x, "x", "x"),
                "pair 1 sends from 2 to 1, expected each of 0..3");
  check_refused(&f, map(&f, same, x, "x", ""), "may differ along axis x");
  check_refused(&f,
                tsr_shard_map(f.mesh, same, NULL, .in = { x }, .in_specs = { "x", "y" },
                              .out_specs = { "x" }),
                "argument 1 has a spec, but does not exist");
  check_refused(&f,
                tsr_shard_map(f.mesh, same, NULL, .in = { x }, .in_specs = { "x" },
                              .out_specs = { "x", "x" }),
                "result 1 has a spec, but does not exist");
  close_fixture(&f);
}

/* ---- many results ---------------------------------------------------------------------------- */

enum { MANY = 40 };

static tsr_array *many_results(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *all[MANY];
  (void)s;
  for (int i = 0; i < MANY; i++) {
    all[i] = tsr_mul(in[0], i + 1);
    if (user || i < MANY / 2) all[i] = tsr_psum(all[i], "x");
  }
  return tsr_tuple_at(s, all, MANY, TSR_HERE);
}

/* More than there are specs: those without one are the same everywhere, which is proved. */
TEST(each_of_many_results_is_proved_to_be_the_same)
{
  fixture f = open_fixture("cpu:4", "x=4");
  tsr_array *x = counted(&f, TSR_SHAPE(4)); /* 0 + 1 + 2 + 3 */
  tsr_array *all = tsr_shard_map(f.mesh, many_results, &f, .in = { x }, .in_specs = { "x" });
  for (int i = 0; i < MANY; i++) {
    double sum = 6 * (i + 1);
    check_numbers(&f, tsr_item(all, i), &sum, 1);
  }
  all = tsr_shard_map(f.mesh, many_results, NULL, .in = { x }, .in_specs = { "x" });
  check_refused(&f, all, "result 20 may differ along axis x");
  close_fixture(&f);
}

/* ---- rows that are not there ----------------------------------------------------------------- */

/* Each of 4 places sends to place 0 alone, as one number of three says otherwise. */
typedef struct sending {
  int64_t start, size, place;
} sending;

static tsr_array *send_rows(tsr_scope *s, tsr_array *const *in, void *user)
{
  const sending *to = user;
  int64_t lists[3][4] = { { to->start }, { to->size }, { to->place } };
  tsr_array *all[3];
  for (int i = 0; i < 3; i++)
    all[i] = tsr_put(s, lists[i], TSR_I64, TSR_SHAPE(4), (tsr_sharding){ 0 });
  tsr_array *room = tsr_full(s, 0, TSR_F64, TSR_SHAPE(3), (tsr_sharding){ 0 });
  return tsr_ragged_all_to_all(in[0], "x", .to = room, .starts = all[0], .sizes = all[1],
                               .places = all[2]);
}

/* x has rows 0 and 1 at each place, and there is room for three. */
TEST(rows_that_are_not_there_are_named)
{
  static const struct {
    sending to;
    const char *said;
  } rows[] = { { { 0, 2, 1 }, NULL },
               { { 1, 1, 2 }, NULL },
               { { 9, 0, -4 }, NULL }, /* nobody looks where nothing is sent */
               { { 1, 2, 0 }, ".starts and .sizes name row 2 of x, expected rows 0 to 1" },
               { { -1, 2, 0 }, ".starts and .sizes name row -1 of x" },
               { { 0, 2, 2 }, ".places and .sizes name row 3 of .to, expected rows 0 to 2" },
               { { 0, 1, -1 }, ".places and .sizes name row -1 of .to" },
               { { 0, -2, 0 }, ".sizes has a size of -2 rows, expected 0 or more" } };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fixture f = open_fixture("cpu:4", "x=4");
    sending to = rows[i].to;
    double out[12];
    tsr_array *y = tsr_shard_map(f.mesh, send_rows, &to, .in = { counted(&f, TSR_SHAPE(8)) },
                                 .in_specs = { "x" }, .out_specs = { "x" });
    tsr_status status = tsr_read(y, out, sizeof out);
    CHECK_I64(status, rows[i].said ? TSR_EVALUE : TSR_OK);
    if (rows[i].said) CHECK_STR_HAS(tsr_message(f.s), "tsr_ragged_all_to_all: ");
    if (rows[i].said) CHECK_STR_HAS(tsr_message(f.s), rows[i].said);
    close_fixture(&f);
  }
}
