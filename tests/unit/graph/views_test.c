/* Slices, transposes and other views: NumPy's values, what moves, and that a view that is kept
 * does not hold what it was made of. Runs at each ISA. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/golden_views.h"
#include "tessera.h"

/* ---- goldens ---- */

/* The numbers of a view; E: `missing`. */
static int numbers(char *text, int64_t missing, int64_t *out)
{
  int count = 0;
  char *rest = NULL;
  for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
    out[count++] = *word == 'E' ? missing : strtoll(word, NULL, 10);
  return count;
}

static tsr_array *sliced(tsr_array *a, const int64_t *v)
{
  tsr_range ranges[TSR_MAX_RANK];
  for (int d = 0; d < v[0]; d++) {
    const int64_t *r = v + 1 + 3 * d;
    ranges[d] = TSR_STEPS(r[0] == TSR_END && r[2] > 0 ? 0 : r[0], r[1], r[2]);
  }
  return tsr_slice_at(a, ranges, (int)v[0], TSR_HERE);
}

static tsr_array *apply(tsr_array *a, char *view)
{
  int64_t v[64];
  int dims[TSR_MAX_RANK] = { 0 };
  char *space = strchr(view, ' ');
  *space = '\0';
  numbers(space + 1, TSR_END, v);
  for (int i = 0; i < v[0]; i++) dims[i] = (int)v[1 + i];
  if (!strcmp(view, "slice")) return sliced(a, v);
  if (!strcmp(view, "transpose")) return tsr_transpose_at(a, dims, (int)v[0], TSR_HERE);
  if (!strcmp(view, "flip")) /* "flip 0" is NumPy's axis=None: all dims */
    return tsr_flip(a, v[0] ? tsr_dims_of(dims, (int)v[0]) : (tsr_dims){ .bits = 0 });
  if (!strcmp(view, "broadcast")) {
    tsr_shape shape = { .rank = (int)v[0] };
    memcpy(shape.dims, v + 1, (size_t)v[0] * sizeof *v);
    return tsr_broadcast_to(a, shape);
  }
  if (!strcmp(view, "pad")) {
    tsr_pad_args args = { .size = sizeof args, .x = a, .value = TSR_OPERAND(v[1 + 2 * v[0]]) };
    for (int d = 0; d < v[0]; d++) {
      args.low[d] = v[1 + 2 * d];
      args.high[d] = v[2 + 2 * d];
    }
    return tsr_pad_at(&args, TSR_HERE);
  }
  if (!strcmp(view, "concat") && !tsr_shape_of(a).rank) return a;
  if (!strcmp(view, "concat"))
    return tsr_concat((tsr_array *[]){ a, tsr_flip(a, (tsr_dims){ .bits = 0 }), a }, 3, dims[0]);
  FAIL("view %s", view);
}

static tsr_array *apply_all(tsr_scope *s, tsr_array *a, char *views, tsr_sharding on)
{
  (void)s;
  (void)on;
  for (char *next; views; views = next) {
    next = strstr(views, " ; ");
    if (next) {
      *next = '\0';
      next += 3;
    }
    a = apply(a, views);
  }
  return a;
}

TEST(chains_of_views_are_those_of_numpy)
{
  CHECK(golden_views_check("golden/views.txt", apply_all) >= 400);
}

/* "pad DTYPE VALUE", then by dim what is before it, after it and between: the array of that dtype,
 * padded, as f64. */
static tsr_array *padded(tsr_scope *s, tsr_array *a, char *call, tsr_sharding on)
{
  tsr_dtype dtype = TSR_F64;
  int64_t v[1 + 3 * TSR_MAX_RANK];
  char *name = strchr(call, ' ') + 1, *rest = strchr(name, ' ');
  *rest++ = '\0';
  for (int d = TSR_BOOL; d <= TSR_F64; d++)
    if (!strcmp(tsr_dtype_name((tsr_dtype)d), name)) dtype = (tsr_dtype)d;
  CHECK_STR(tsr_dtype_name(dtype), name);
  int count = numbers(rest, 0, v) - 1;
  (void)s, (void)on;
  tsr_pad_args args = { .size = sizeof args, .x = tsr_cast(a, dtype) };
  args.value = dtype == TSR_BOOL ? tsr_operand_bool(v[0]) : tsr_operand_int(v[0]);
  for (int d = 0; d < count / 3; d++) {
    args.low[d] = v[1 + 3 * d];
    args.high[d] = v[2 + 3 * d];
    args.interior[d] = v[3 + 3 * d];
  }
  tsr_array *out = tsr_pad_at(&args, TSR_HERE);
  CHECK_I64(tsr_dtype_of(out), dtype);
  return tsr_cast(out, TSR_F64);
}

TEST(pads_that_cut_and_stand_between_are_those_of_jax)
{
  CHECK_I64(golden_views_check("golden/pads.txt", padded), 300);
}

static tsr_array *one_row(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_pad(in[0], .low = { -1 }, .high = { 2 }, .interior = { 1 },
                 .value = TSR_OPERAND(in[1]));
}

/* Each row with a number of its own around: 0 1 2 is 9 1 9 2 9 9. */
TEST(pads_of_each_row_are_one_pad)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
  double x[12], value[4] = { 9, 8, 7, 6 }, out[24];
  for (int i = 0; i < 12; i++) x[i] = i;
  for (int cut = 0; cut < 2; cut++) {
    tsr_sharding on = cut ? tsr_on(mesh, "x") : (tsr_sharding){ 0 };
    tsr_array *rows = tsr_put(s, x, TSR_F64, TSR_SHAPE(4, 3), on);
    tsr_array *around = tsr_put(s, value, TSR_F64, TSR_SHAPE(4), on);
    tsr_array *made = tsr_call(tsr_vmap(tsr_function_make(s, one_row)), rows, around);
    CHECK_STATUS(tsr_read(made, out, sizeof out), TSR_OK, s);
    for (int i = 0; i < 24; i++)
      CHECK(out[i] == (i % 6 == 1 || i % 6 == 3 ? i / 6 * 3 + (i % 6 + 1) / 2 : value[i / 6]));
  }
  tsr_runtime_close(rt);
}

/* ---- macros ---- */

TEST(ranges_and_dims_are_named_in_the_call)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  int32_t x[6] = { 1, 2, 3, 4, 5, 6 }, out[6] = { 0 };
  tsr_array *a = tsr_put(s, x, TSR_I32, TSR_SHAPE(2, 3), (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_read(tsr_slice(a, TSR_ALL, TSR_RANGE(-2, TSR_END)), out, 16), TSR_OK, s);
  CHECK_BYTES(out, ((int32_t[]){ 2, 3, 5, 6 }), 16);
  CHECK_STATUS(tsr_read(tsr_slice(a, TSR_STEPS(TSR_END, TSR_END, -1)), out, 24), TSR_OK, s);
  CHECK_BYTES(out, ((int32_t[]){ 4, 5, 6, 1, 2, 3 }), 24);
  CHECK_STATUS(tsr_read(tsr_transpose(a), out, 24), TSR_OK, s);
  CHECK_BYTES(out, ((int32_t[]){ 1, 4, 2, 5, 3, 6 }), 24);
  CHECK_STATUS(tsr_read(tsr_transpose(a, 0, 1), out, 24), TSR_OK, s);
  CHECK_BYTES(out, x, 24);
  CHECK_STATUS(tsr_read(tsr_flip(a, TSR_DIMS(-1)), out, 24), TSR_OK, s);
  CHECK_BYTES(out, ((int32_t[]){ 3, 2, 1, 6, 5, 4 }), 24);
  tsr_runtime_close(rt);
}

TEST(borders_and_parts_are_named_in_the_call)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  float x[2] = { 1, 2 };
  float out[6];
  bool bits[2] = { true, false }, more[4];
  tsr_array *a = tsr_put(s, x, TSR_F32, TSR_SHAPE(2), (tsr_sharding){ 0 });
  tsr_array *b = tsr_put(s, bits, TSR_BOOL, TSR_SHAPE(2), (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_read(tsr_pad(a, .low = { 1 }, .high = { 1 }), out, 16), TSR_OK, s);
  CHECK_BYTES(out, ((float[]){ 0, 1, 2, 0 }), 16);
  CHECK_STATUS(tsr_read(tsr_pad(a, .low = { 2 }, .value = TSR_OPERAND(0.5)), out, 16), TSR_OK, s);
  CHECK_BYTES(out, ((float[]){ 0.5f, 0.5f, 1, 2 }), 16);
  CHECK_STATUS(tsr_read(tsr_pad(b, .high = { 2 }, .value = TSR_OPERAND(1)), more, 4), TSR_OK, s);
  CHECK_BYTES(more, ((bool[]){ true, false, true, true }), 4);
  CHECK_STATUS(tsr_read(tsr_concat((tsr_array *[]){ a, a, a }, 3, -1), out, 24), TSR_OK, s);
  CHECK_BYTES(out, ((float[]){ 1, 2, 1, 2, 1, 2 }), 24);
  CHECK(tsr_dtype_of(tsr_concat((tsr_array *[]){ b, a }, 2, 0)) == TSR_F32);
  CHECK_STATUS(tsr_read(tsr_broadcast_to(a, TSR_SHAPE(3, 2)), out, 24), TSR_OK, s);
  CHECK_BYTES(out, ((float[]){ 1, 2, 1, 2, 1, 2 }), 24);
  tsr_runtime_close(rt);
}

/* More operands than are read at once, each in its place. */
TEST(a_hundred_parts_are_one_array)
{
  enum { N = 100 };
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=3");
  tsr_array *parts[N];
  int16_t x[N][6], out[2 * 3 * N], expected[2 * 3 * N];
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < 6; k++) x[i][k] = (int16_t)(6 * i + k);
    for (int k = 0; k < 6; k++) expected[(k / 3) * 3 * N + 3 * i + k % 3] = x[i][k];
    tsr_sharding at = tsr_on(mesh, i % 3 ? "-,x" : "x");
    parts[i] = tsr_put(s, x[i], TSR_I16, TSR_SHAPE(2, 3), at);
  }
  tsr_array *all = tsr_concat(parts, N, 1);
  CHECK_STATUS(tsr_read(all, out, sizeof out), TSR_OK, s);
  CHECK_BYTES(out, expected, sizeof out);
  tsr_array *again = tsr_concat(parts, N, 1);
  tsr_array *half =
      tsr_slice(tsr_add(tsr_flip(again, (tsr_dims){ .bits = 0 }), 1), TSR_RANGE(0, 1));
  CHECK_STATUS(tsr_read(half, out, sizeof out / 2), TSR_OK, s);
  for (int i = 0; i < 3 * N; i++) CHECK_I64(out[i], expected[2 * 3 * N - 1 - i] + 1);
  tsr_runtime_close(rt);
}

/* ---- bits ---- */

/* Not a value may change on the way: NaNs of every kind keep their bits in every dtype. */
TEST(elements_keep_their_bits)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  static const tsr_dtype dtypes[] = { TSR_F16, TSR_BF16, TSR_F32, TSR_F64 };
  test_rng rng = test_seeded(3);
  for (int d = 0; d < 4; d++) {
    tsr_scope *s = tsr_scope_open(rt);
    uint64_t x[40], out[40];
    size_t size = tsr_dtype_size(dtypes[d]), bytes = 40 * size;
    for (int i = 0; i < 40; i++) x[i] = test_random(&rng) | UINT64_C(0x7f807f807f807f80);
    tsr_array *a = tsr_put(s, x, dtypes[d], TSR_SHAPE(40), (tsr_sharding){ 0 });
    CHECK_STATUS(tsr_read(tsr_flip(a, (tsr_dims){ .bits = 0 }), out, bytes), TSR_OK, s);
    for (size_t i = 0; i < 40; i++)
      CHECK_BYTES((char *)out + i * size, (char *)x + (39 - i) * size, size);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- memory ---- */

TEST(a_kept_view_does_not_hold_what_it_was_made_of)
{
  enum { N = 1 << 20 };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *outer = tsr_scope_open(rt), *inner = tsr_scope_open(outer);
  double *x = calloc(N, sizeof *x), out[4];
  for (int i = 0; i < 4; i++) x[N - 1 - i] = i;
  tsr_array *a = tsr_put(inner, x, TSR_F64, TSR_SHAPE(N), (tsr_sharding){ 0 });
  tsr_array *kept = tsr_keep(outer, tsr_slice(a, TSR_STEPS(TSR_END, -5, -1)));
  CHECK(tsr_device_memory(rt, 0).now >= N * 8);
  tsr_scope_close(inner);
  CHECK(tsr_device_memory(rt, 0).now < 4096);
  CHECK_STATUS(tsr_read(kept, out, sizeof out), TSR_OK, outer);
  for (int i = 0; i < 4; i++) CHECK_F64_BITS(out[i], i);
  free(x);
  tsr_runtime_close(rt);
}

/* ---- what moves ---- */

TEST(dims_that_are_left_alone_stay_where_they_are)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  double x[70], out[70];
  for (int i = 0; i < 70; i++) x[i] = i;
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(10, 7), tsr_on(mesh, "x"));
  tsr_array *stays = tsr_transpose(tsr_slice(a, TSR_ALL, TSR_RANGE(1, 4)));
  CHECK_STATUS(tsr_read(stays, out, 30 * 8), TSR_OK, s);
  CHECK_I64(tsr_last_run(s).bytes_counted, 0);
  char text[64];
  tsr_sharding at = tsr_sharding_of(stays);
  tsr_sharding_text(&at, 2, text, sizeof text);
  CHECK_STR(text, "(-,x)");
  for (int i = 0; i < 30; i++) CHECK_F64_BITS(out[i], (double)(i % 10 * 7 + i / 10 + 1));
  tsr_array *moves = tsr_flip(a, TSR_DIMS(0));
  CHECK_STR_HAS(tsr_explain(&moves, 1), "slice");
  CHECK_STATUS(tsr_read(moves, out, sizeof out), TSR_OK, s);
  CHECK(tsr_last_run(s).bytes_counted > 0);
  CHECK_I64(tsr_last_run(s).bytes_counted, tsr_last_run(s).bytes_explained);
  for (int i = 0; i < 70; i++) CHECK_F64_BITS(out[i], (double)((9 - i / 7) * 7 + i % 7));
  tsr_runtime_close(rt);
}

TEST(bounds_may_be_any_numbers)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  static const double x[6];
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(2, 3), (tsr_sharding){ 0 });
  CHECK(!tsr_is_inert(tsr_slice(a, TSR_STEPS(INT64_MIN, INT64_MAX, INT64_MAX),
                                TSR_STEPS(INT64_MAX, INT64_MIN, INT64_MIN))));
  tsr_runtime_close(rt);
}

TEST(a_dump_says_what_views_show)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  static const double x[50];
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(10, 5), (tsr_sharding){ 0 });
  tsr_array *b = tsr_slice(a, TSR_RANGE(2, 9), TSR_STEPS(4, TSR_END, -2));
  const char *text = tsr_dump(tsr_pad(tsr_transpose(b), .low = { 1, 0 }, .high = { 2, 3 }));
  CHECK_STR_HAS(text, "%1 = slice(%0, 2:9, 4::-2) ");
  CHECK_STR_HAS(text, "%2 = transpose(%1, dims 1,0) ");
  CHECK_STR_HAS(text, "%4 = pad(%2, %3, 1+2, 0+3) ");
  CHECK_STR_HAS(tsr_dump(tsr_slice(a, TSR_ALL, TSR_STEPS(3, 0, -1))), "slice(%0, :, 3:0:-1) ");
  CHECK_STR_HAS(tsr_dump(tsr_slice(a, TSR_STEPS(1, 10, 3))), "slice(%0, 1:8:3, :) ");
  CHECK_STR_HAS(tsr_dump(tsr_concat((tsr_array *[]){ a, a }, 2, 1)), "concat(%0, %0, dim 1) ");
  CHECK_STR_HAS(tsr_dump(tsr_roll(a, -1, 0)), "roll(%0, %0, dim 0, by 9) ");
  tsr_runtime_close(rt);
}

/* As einsum's letters; of windows how their places and elements come to those of the operand. */
TEST(a_dump_says_which_dims_a_product_runs_along)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  static const double data[64];
  tsr_array *a = tsr_put(s, data, TSR_F64, TSR_SHAPE(4, 3), (tsr_sharding){ 0 });
  tsr_array *x = tsr_put(s, data, TSR_F64, TSR_SHAPE(1, 9, 2), (tsr_sharding){ 0 });
  tsr_array *k = tsr_put(s, data, TSR_F64, TSR_SHAPE(3, 2, 5), (tsr_sharding){ 0 });
  CHECK_STR_HAS(tsr_dump(tsr_matmul(a, tsr_transpose(a))), "dot(%0, %0, ac,bc->ab) ");
  CHECK_STR_HAS(tsr_dump(tsr_conv(x, k, .stride = { 2 }, .dilation = { 3 })),
                "dot(%0, %1, c(2e+3a)b,abd->ced) ");
  tsr_runtime_close(rt);
}

/* What a view of x [37, 11, width] shows: every other row from 1 on of each 11, between zeros, one
 * before and two behind along dim 1, three behind along dim 2. */
static double shown_at(int64_t i, int64_t width)
{
  int64_t k = i % (width + 3), j = i / (width + 3) % 8 - 1, n = i / (width + 3) / 8;
  if (k >= width || j < 0 || j >= 5) return 0;
  return (double)(((n * 11 + 1 + 2 * j) * width + k) % 97 + 1);
}

/* Lines are copied several at a time, of tiles that begin and end within one. */
TEST(short_lines_are_shown_between_borders)
{
  static const int64_t widths[] = { 1, 3, 16, 31, 64, 253, 300 };
  static const tsr_dtype dtypes[] = { TSR_I8, TSR_BF16, TSR_F32, TSR_F64, TSR_BOOL };
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 2);
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++) {
      tsr_scope *s = tsr_scope_open(rt);
      int64_t width = widths[w], count = 37 * 11 * width, all = 37 * 8 * (width + 3);
      double *x = malloc((size_t)(count + all) * sizeof *x), *found = x + count;
      CHECK(x);
      for (int64_t i = 0; i < count; i++) x[i] = (double)(i % 97 + 1);
      tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(37, 11, width), (tsr_sharding){ 0 });
      a = tsr_cast(a, dtypes[t]);
      CHECK_STATUS(tsr_wait(a), TSR_OK, s);
      a = tsr_slice(a, TSR_ALL, TSR_STEPS(1, TSR_END, 2));
      a = tsr_pad(a, .low = { 0, 1, 0 }, .high = { 0, 2, 3 });
      CHECK_STATUS(tsr_read(tsr_cast(a, TSR_F64), found, (size_t)all * sizeof *x), TSR_OK, s);
      for (int64_t i = 0; i < all; i++) {
        double expected = shown_at(i, width);
        CHECK_F64_BITS(found[i], dtypes[t] == TSR_BOOL ? expected != 0 : expected);
      }
      free(x);
      tsr_scope_close(s);
    }
  tsr_runtime_close(rt);
}
