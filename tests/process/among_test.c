/* Programs over devices of several processes: the bits of one process, whatever moves. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "support/among.h"
#include "tessera.h"

enum { DEVICES = 8, N = 37, M = 24, MOST = 20000 };

/* What a program gives, one number after another. */
typedef struct results {
  double at[MOST];
  int count;
} results;

static void take(results *out, tsr_array *x)
{
  tsr_shape shape = tsr_shape_of(x);
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  CHECK(out->count + count <= MOST);
  tsr_array *wide = tsr_cast(x, TSR_F64);
  CHECK_STATUS(tsr_read(wide, out->at + out->count, (size_t)count * sizeof(double)), TSR_OK, NULL);
  out->count += (int)count;
}

static void arrays(tsr_runtime *rt, results *out)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4@10,y=2@300");
  float data[N * M];
  for (int i = 0; i < N * M; i++) data[i] = sinf((float)i) * expf((float)(i % 40) - 20);
  tsr_array *a = tsr_put(s, data, TSR_F32, TSR_SHAPE(N, M), tsr_on(mesh, "x,y"));
  tsr_array *b = tsr_put(s, data, TSR_F32, TSR_SHAPE(N, M), tsr_on(mesh, "y,x"));
  tsr_array *loose = tsr_put(s, data, TSR_F32, TSR_SHAPE(N, M), (tsr_sharding){ .mesh = NULL });
  take(out, a);
  take(out, tsr_sum(a));
  take(out, tsr_mean(tsr_mul(a, 3), .dims = TSR_DIMS(0)));
  take(out, tsr_var(a, .dims = TSR_DIMS(1)));
  take(out, tsr_max(tsr_add(a, b)));
  take(out, tsr_sub(a, tsr_mul(loose, 2)));
  take(out, tsr_constrain(a, tsr_on(mesh, "y,x")));
  take(out, tsr_sum(tsr_constrain(a, tsr_on(mesh, "-,x+y")), .dims = TSR_DIMS(0)));
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, NULL);
  tsr_scope_close(s);
}

static tsr_array *body(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  (void)user;
  return tsr_psum(tsr_mul(in[0], in[0]), "x");
}

/* Products, windows, scans, sorts, look-ups, draws and collectives by name. */
static void wide(tsr_runtime *rt, results *out)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");
  float data[N * M];
  int64_t at[40];
  for (int i = 0; i < N * M; i++) data[i] = sinf((float)i * 3);
  for (int i = 0; i < 40; i++) at[i] = i * 7 % 9;
  tsr_array *a = tsr_put(s, data, TSR_F32, TSR_SHAPE(N, M), tsr_on(mesh, "x,y"));
  tsr_array *c = tsr_put(s, data, TSR_F32, TSR_SHAPE(M, N), tsr_on(mesh, "y,x"));
  tsr_array *draws = tsr_normal(s, .key = 7, .shape = TSR_SHAPE(40, 6), .dtype = TSR_F32,
                                .on = tsr_on(mesh, "x,-"));
  take(out, tsr_matmul(a, c));
  take(out, tsr_roll(a, 5, 0));
  take(out, tsr_slice(a, { 3, 30, 1 }, { 2, 20, 1 }));
  take(out, draws);
  take(out, tsr_cumsum(a, 0));
  take(out, tsr_sort(draws, 0));
  take(out, tsr_argsort(draws, 0));
  tsr_array *nine = tsr_put(s, data, TSR_F32, TSR_SHAPE(9, 6), tsr_on(mesh, "-,y"));
  tsr_array *places = tsr_put(s, at, TSR_I64, TSR_SHAPE(40), tsr_on(mesh, "x"));
  take(out, tsr_scatter_add(nine, places, draws, 0));
  take(out, tsr_take(draws, places, .dim = 0));
  take(out, tsr_shard_map(mesh, body, NULL, .in = { draws }, .in_specs = { "x,-" },
                          .out_specs = { "-,-" }));
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, NULL);
  tsr_scope_close(s);
}

/* A frame's filter, new column and aggregates. */
static void frames(tsr_runtime *rt, results *out)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=8");
  double revenue[N * M];
  int64_t sessions[N * M];
  for (int i = 0; i < N * M; i++) {
    revenue[i] = 100 * fabs(sin(i));
    sessions[i] = i % 7;
  }
  tsr_sharding on = tsr_on(mesh, "data");
  tsr_frame *df =
      tsr_frame_new(s, { "revenue", tsr_put(s, revenue, TSR_F64, TSR_SHAPE(N * M), on) },
                    { "sessions", tsr_put(s, sessions, TSR_I64, TSR_SHAPE(N * M), on) });
  df = tsr_frame_filter(df, "revenue > ?", 50);
  df = tsr_frame_assign(df, "each", "revenue / sessions");
  tsr_row *row =
      tsr_frame_row(tsr_frame_agg(df, "r = sum(revenue), n = sum(sessions), m = min(each)"));
  out->at[out->count++] = tsr_row_f64(row, "r");
  out->at[out->count++] = tsr_row_f64(row, "n");
  out->at[out->count++] = tsr_row_f64(row, "m");
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, NULL);
  tsr_scope_close(s);
}

/* The same in one process with as many devices. */
static void check_alone(void (*program)(tsr_runtime *, results *))
{
  static results mine, expected;
  mine.count = expected.count = 0;
  tsr_runtime *among = among_open(DEVICES / test_process_count());
  tsr_runtime *alone = tsr_runtime_open("cpu:8");
  CHECK_I64(tsr_device_count(among), DEVICES);
  program(alone, &expected);
  program(among, &mine);
  CHECK_I64(mine.count, expected.count);
  CHECK_BYTES(mine.at, expected.at, (size_t)mine.count * sizeof(double));
  tsr_runtime_close(alone);
  tsr_runtime_close(among);
}

TEST_PROCESSES(arrays_of_two, 2)
{
  check_alone(arrays);
}

TEST_PROCESSES(arrays_of_four, 4)
{
  check_alone(arrays);
}

TEST_PROCESSES(wide_of_two, 2)
{
  check_alone(wide);
}

TEST_PROCESSES(wide_of_four, 4)
{
  check_alone(wide);
}

TEST_PROCESSES(frames_of_two, 2)
{
  check_alone(frames);
}

/* ---- failures ---- */

static tsr_status fails_on_one(const tsr_seen *seen, void *user)
{
  (void)seen;
  (void)user;
  return test_process() == 1 ? TSR_EIO : TSR_OK;
}

/* What fails on one process fails on all of them, with its message, and they go on together. */
/* 1 to 12 over all devices, two a process. */
static tsr_array *twelve(tsr_runtime **rt, tsr_scope **s)
{
  static const float data[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
  *rt = among_open(2);
  *s = tsr_scope_open(*rt);
  return tsr_put(*s, data, TSR_F32, TSR_SHAPE(12), tsr_on(tsr_mesh_default(*rt, "x"), "x"));
}

TEST_PROCESSES(an_error_of_one_is_told_to_all, 3)
{
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_array *a = twelve(&rt, &s);
  tsr_array *shown = tsr_callback(tsr_sum(a), fails_on_one);
  double total = 0;
  CHECK_STATUS(tsr_read_scalar(shown, &total), TSR_EIO, NULL);
  CHECK(strstr(tsr_message(s), "the callback of tsr_callback"));
  if (test_process() != 1) CHECK(strstr(tsr_message(s), "process 1: "));
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(a), &total), TSR_OK, NULL);
  CHECK(total == 78);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_PROCESSES(different_programs_are_named, 2)
{
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_array *a = twelve(&rt, &s);
  double total = 0;
  CHECK_STATUS(tsr_read_scalar(test_process() ? tsr_sum(a) : tsr_max(a), &total), TSR_EPEER, NULL);
  CHECK(strstr(tsr_message(s), "processes run different programs"));
  CHECK(strstr(tsr_message(s), "among_test.c:"));
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_read_scalar(tsr_max(a), &total), TSR_OK, NULL);
  CHECK(total == 12);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_PROCESSES(who_ends_is_named_by_the_others, 3)
{
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_array *a = twelve(&rt, &s);
  double total = 0;
  /* Between hosts the last message of process 2 may go with it: then the sum names it already. */
  tsr_status status = tsr_read_scalar(tsr_sum(a), &total);
  if (test_process() == 2) {
    CHECK_STATUS(status, TSR_OK, NULL);
    _exit(0);
  }
  if (!status) status = tsr_read_scalar(tsr_max(a), &total);
  CHECK_STATUS(status, TSR_EPEER, NULL);
  CHECK(strstr(tsr_message(s), "process 2"));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
