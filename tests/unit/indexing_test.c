/* What indexing refuses, at the call and in the run, and what it says. */
#include "harness.h"
#include "tessera.h"

static tsr_array *ones(tsr_scope *s, tsr_dtype dtype, tsr_shape shape)
{
  return tsr_full(s, 1, dtype, shape, (tsr_sharding){ 0 });
}

static tsr_array *at_2(tsr_scope *s)
{
  return ones(s, TSR_I64, TSR_SHAPE(2));
}

static tsr_array *x_34(tsr_scope *s)
{
  return ones(s, TSR_F32, TSR_SHAPE(3, 4));
}

static tsr_array *places_of(tsr_scope *s, int64_t count)
{
  tsr_array *out[2];
  tsr_nonzero_dims(x_34(s), out, count);
  return out[1];
}

typedef struct refusal {
  tsr_array *(*call)(tsr_scope *s);
  const char *says;
} refusal;

#define CALL(name, expression)         \
  static tsr_array *name(tsr_scope *s) \
  {                                    \
    return expression;                 \
  }
CALL(take_dim, tsr_take(x_34(s), at_2(s), 2))
CALL(take_floats, tsr_take(x_34(s), x_34(s), 0, .mode = TSR_INDEX_FILL))
CALL(take_bools, tsr_take(x_34(s), ones(s, TSR_BOOL, TSR_SHAPE(3)), 0))
CALL(take_mode, tsr_take(x_34(s), at_2(s), 0, .mode = (tsr_index_mode)7))
CALL(take_fill, tsr_take(ones(s, TSR_I8, TSR_SHAPE(3)), at_2(s), 0, .mode = TSR_INDEX_FILL,
                         .fill = TSR_OPERAND(300)))
CALL(take_null, tsr_take(x_34(s), NULL, 0))
CALL(along_rank, tsr_take_along_dim(x_34(s), at_2(s), 0))
CALL(along_dims, tsr_take_along_dim(x_34(s), ones(s, TSR_I64, TSR_SHAPE(2, 3)), 0))
CALL(along_dim, tsr_take_along_dim(x_34(s), ones(s, TSR_I64, TSR_SHAPE(2, 3)), -3))
CALL(gather_none, tsr_gather(x_34(s), { NULL }))
CALL(gather_many, tsr_gather(x_34(s), { at_2(s), at_2(s), at_2(s) }))
CALL(gather_floats, tsr_gather(x_34(s), { at_2(s), x_34(s) }))
CALL(gather_shapes, tsr_gather(x_34(s), { at_2(s), ones(s, TSR_I64, TSR_SHAPE(3)) }))
CALL(scatter_dim, tsr_scatter(x_34(s), at_2(s), 1, 2))
CALL(scatter_floats, tsr_scatter(x_34(s), x_34(s), 1, 0))
CALL(scatter_updates, tsr_scatter(x_34(s), at_2(s), ones(s, TSR_F32, TSR_SHAPE(2, 3)), 0))
CALL(scatter_how, tsr_scatter(x_34(s), at_2(s), 1, 0, .how = (tsr_scatter_how)9))
CALL(scatter_number, tsr_scatter(ones(s, TSR_I8, TSR_SHAPE(3)), at_2(s), 300, 0))
CALL(scatter_many, tsr_scatter_nd(at_2(s), 1, { at_2(s), at_2(s) }))
CALL(select_none, tsr_select(NULL, NULL, 0, .otherwise = TSR_OPERAND(at_2(s))))
CALL(select_numbers, tsr_select((tsr_array *[]){ at_2(s) }, (tsr_array *[]){ at_2(s) }, 1))
CALL(select_null, tsr_select((tsr_array *[]){ NULL }, (tsr_array *[]){ at_2(s) }, 1))
CALL(compress_mask, tsr_compress(x_34(s), at_2(s), 1))
CALL(compress_size, tsr_compress(x_34(s), ones(s, TSR_BOOL, TSR_SHAPE(2)), 1))
CALL(compress_dim, tsr_compress(x_34(s), ones(s, TSR_BOOL, TSR_SHAPE(3)), 1, .dim = 2))
CALL(places_count, places_of(s, -2))
CALL(nonzero_count, tsr_nonzero(at_2(s), .count = -1))
CALL(search_dims, tsr_searchsorted(x_34(s), at_2(s), false))
CALL(digitize_dims, tsr_digitize(at_2(s), x_34(s), true))
CALL(isin_dims, tsr_isin(at_2(s), x_34(s)))
CALL(isin_null, tsr_isin(at_2(s), NULL))
CALL(interp_sizes, tsr_interp(at_2(s), at_2(s), ones(s, TSR_F64, TSR_SHAPE(3))))
CALL(interp_none,
     tsr_interp(at_2(s), ones(s, TSR_F64, TSR_SHAPE(0)), ones(s, TSR_F64, TSR_SHAPE(0))))
CALL(unique_count, tsr_unique(x_34(s), .count = -1).inverse)
CALL(hot_floats, tsr_one_hot(x_34(s), 3, 0))
CALL(hot_classes, tsr_one_hot(at_2(s), -1, 0))
CALL(bincount_floats, tsr_bincount(x_34(s), 3, NULL))
CALL(bincount_length, tsr_bincount(at_2(s), 0, NULL))
CALL(bincount_weights, tsr_bincount(at_2(s), 3, x_34(s)))
CALL(histogram_bools, tsr_histogram(ones(s, TSR_BOOL, TSR_SHAPE(3))).counts)
CALL(histogram_bins, tsr_histogram(x_34(s), .bins = -1).edges)
CALL(histogram_range, tsr_histogram(x_34(s), .low = 2, .high = 1).counts)
CALL(histogram_edges, tsr_histogram(x_34(s), .edges = ones(s, TSR_F64, TSR_SHAPE(1))).counts)
#undef CALL

TEST(what_does_not_fit_is_refused)
{
  static const refusal cases[] = {
    { take_dim, "TSR_EARG: tsr_take: dim 2 of f32[3,4]; its dims are -2..1" },
    { take_floats, "TSR_EDTYPE: tsr_take: the index is f32[3,4], expected an integer; convert it" },
    { take_bools, "TSR_EDTYPE: tsr_take: the index is bool[3], expected an integer" },
    { take_mode, "TSR_EARG: tsr_take: 7 is no tsr_index_mode" },
    { take_fill, "TSR_EDTYPE: what is filled in: the integer 300 does not fit i8" },
    { take_null, "TSR_EARG: tsr_take: operand 2 is NULL; give an array" },
    { along_rank, "TSR_ESHAPE: tsr_take_along_dim: f32[3,4] along dim 0 at indices i64[2]; their "
                  "other dims must be equal, or one of them 1" },
    { along_dims, "TSR_ESHAPE: tsr_take_along_dim: f32[3,4] along dim 0 at indices i64[2,3]" },
    { along_dim, "TSR_EARG: tsr_take_along_dim: dim -3 of f32[3,4]; dims are -2..1" },
    { gather_none, "TSR_EARG: tsr_gather: 0 arrays of indices for f32[3,4]; give 1 to 2" },
    { gather_many, "TSR_EARG: tsr_gather: 3 arrays of indices for f32[3,4]; give 1 to 2" },
    { gather_floats,
      "TSR_EDTYPE: tsr_gather: the index of dim 1 is f32[3,4], expected an integer" },
    { gather_shapes, "TSR_ESHAPE: tsr_add: cannot broadcast i64[2] with i64[3]" },
    { scatter_dim, "TSR_EARG: tsr_scatter: dim 2 of f32[3,4]; dims are -2..1" },
    { scatter_floats, "TSR_EDTYPE: tsr_scatter: the index is f32[3,4], expected an integer" },
    { scatter_updates, "TSR_ESHAPE: tsr_scatter: the updates are f32[2,3], expected what tsr_take "
                       "gives of f32[3,4] along dim 0 at i64[2]" },
    { scatter_how, "TSR_EARG: tsr_scatter: 9 is no tsr_scatter_how" },
    { scatter_number, "TSR_EDTYPE: a number: the integer 300 does not fit i8" },
    { scatter_many, "TSR_EARG: tsr_scatter_nd: 2 arrays of indices for i64[2]; give 1 to 1" },
    { select_none, "TSR_EARG: tsr_select: 0 choices; give at least one, and as many conditions" },
    { select_numbers, "TSR_EDTYPE: tsr_where: the condition is i64[2], expected bool" },
    { select_null, "TSR_EARG: tsr_select: operand 2 is NULL; give an array" },
    { compress_mask, "TSR_EDTYPE: tsr_compress: the mask is i64[2], expected bool" },
    { compress_size, "TSR_ESHAPE: tsr_compress: the mask is bool[2], expected one element for each "
                     "of dim 0 of f32[3,4]" },
    { compress_dim, "TSR_EARG: tsr_compress: dim 2 of f32[3,4]; its dims are -2..1" },
    { nonzero_count, "TSR_EARG: tsr_nonzero: a count of -1, expected 0 or more" },
    { search_dims, "TSR_ESHAPE: tsr_searchsorted: what is searched is f32[3,4], expected one dim" },
    { digitize_dims, "TSR_ESHAPE: tsr_digitize: what is searched is f32[3,4], expected one dim" },
    { isin_dims, "TSR_ESHAPE: tsr_isin: what it may be in is f32[3,4], expected one dim" },
    { isin_null, "TSR_EARG: tsr_isin: operand 2 is NULL; give an array" },
    { interp_sizes, "TSR_ESHAPE: tsr_interp: xp is i64[2] and fp f64[3]; give as many places" },
    { interp_none, "TSR_ESHAPE: tsr_interp: xp is f64[0] and fp f64[0]" },
    { unique_count, "TSR_EARG: tsr_unique: a count of -1, expected 0 or more" },
    { places_count, "TSR_EARG: tsr_nonzero_dims: a count of -2, expected 0 or more" },
    { hot_floats, "TSR_EDTYPE: tsr_one_hot: the index is f32[3,4], expected an integer" },
    { hot_classes, "TSR_EARG: tsr_one_hot: -1 classes of i64[2]; give 0 or more" },
    { bincount_floats, "TSR_EDTYPE: tsr_bincount: x is f32[3,4], expected integers" },
    { bincount_length, "TSR_EARG: tsr_bincount: a length of 0, expected 1 to 2147483647" },
    { bincount_weights,
      "TSR_ESHAPE: tsr_sum: the group code is i32[2], expected the shape of the" },
    { histogram_bools, "TSR_EDTYPE: tsr_histogram: x is bool[3], expected numbers" },
    { histogram_bins, "TSR_EARG: tsr_histogram: -1 bins from " },
    { histogram_range, "TSR_EARG: tsr_histogram: 10 bins from 2" },
    { histogram_edges, "TSR_EARG: tsr_histogram: 0 bins from " },
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *outer = tsr_scope_open(rt);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_scope *s = tsr_scope_open(outer);
    CHECK(tsr_is_inert(cases[i].call(s)));
    CHECK_STR_HAS(tsr_message(s), cases[i].says);
    tsr_scope_close(s);
  }
  tsr_scope_close(outer);
  tsr_runtime_close(rt);
}

static void says(tsr_scope *outer, tsr_array *a, const char *text)
{
  CHECK(tsr_wait(a) == TSR_EVALUE);
  CHECK_STR_HAS(tsr_message(outer), text);
}

/* Of a table without elements nothing is taken, but each index is looked at, as in NumPy. */
TEST(indices_are_checked_though_nothing_is_taken)
{
  static const int64_t index[4] = { 0, -3, 3, -4 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (int way = 0; way < 6; way++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_mesh *mesh = tsr_mesh_default(rt, "x");
    tsr_array *at = tsr_put(s, index, TSR_I64, TSR_SHAPE(4), tsr_on(mesh, way % 2 ? "x" : "-"));
    tsr_array *x = tsr_full(s, 1, TSR_F32, TSR_SHAPE(3, 0), tsr_on(mesh, "x"));
    if (way < 2)
      says(s, tsr_take(x, at, 0), "tsr_take: index 3 at position 2 of the indices of dim 0 is out");
    if (way == 2 || way == 3)
      says(s, tsr_gather(x, { at }), "tsr_gather: index 3 at position 2 of the indices of dim 0");
    if (way > 3) says(s, tsr_scatter(x, at, 1, 0), "tsr_scatter: index 3 at position 2");
    tsr_array *near = tsr_take(x, tsr_mod(at, 3), 0);
    CHECK_STATUS(tsr_eval(&near, 1), TSR_OK, s);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* The first index that is none is named with where it stands and what its dim has. */
TEST(indices_out_of_range_fail_the_terminal)
{
  static const int64_t index[4] = { 0, -3, 3, -4 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (int way = 0; way < 5; way++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_mesh *mesh = tsr_mesh_default(rt, "x");
    tsr_array *at = tsr_put(s, index, TSR_I64, TSR_SHAPE(4), tsr_on(mesh, "x"));
    tsr_array *zero = tsr_full(s, 0, TSR_I64, TSR_SHAPE(4), (tsr_sharding){ 0 });
    tsr_array *x = ones(s, TSR_F32, TSR_SHAPE(3, 4)), *y = ones(s, TSR_F32, TSR_SHAPE(3));
    const char *range = "3 at position 2 of the result is out of range, expected -3 to 2";
    if (way == 0) says(s, tsr_take(x, at, 0), "tsr_take: index 3 at position 8 of the result");
    if (way == 1) says(s, tsr_take_along_dim(y, at, 0), range);
    if (way == 2)
      says(s, tsr_gather(x, { at, zero }),
           "tsr_gather: index 3 at position 2 of the indices of dim 0 is out of range, expected -3 "
           "to 2");
    if (way == 3)
      says(s, tsr_scatter(x, at, 1, 0),
           "tsr_scatter: index 3 at position 2 of the indices is out of range, expected -3 to 2");
    if (way == 4)
      says(s, tsr_scatter_nd(x, 1, { zero, tsr_add(at, 2) }),
           "tsr_scatter_nd: index 5 at position 2 of the indices of dim 1 is out of range, "
           "expected -4 to 3");
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* A scatter into a sharded dim moves the updates that others hold, not the array. */
TEST(a_sharded_dim_is_scattered_into_where_it_lies)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  static const int64_t index[3] = { 900, -1, 3 };
  tsr_array *x = tsr_full(s, 1, TSR_F64, TSR_SHAPE(1001, 8), tsr_on(mesh, "x,-"));
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  tsr_array *at = tsr_put(s, index, TSR_I64, TSR_SHAPE(3), tsr_on(mesh, "-"));
  tsr_array *y = tsr_scatter(x, at, 5, 0, .how = TSR_SCATTER_ADD);
  CHECK_STR_HAS(tsr_explain(&y, 1), "nothing moves between devices\n");
  double sum;
  CHECK_STATUS(tsr_read_scalar(tsr_sum(y), &sum), TSR_OK, s);
  CHECK_F64_BITS(sum, 1001 * 8 + 3 * 8 * 5);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
