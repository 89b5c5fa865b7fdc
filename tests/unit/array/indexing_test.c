/* What indexing refuses in the run, and what moves. */
#include <string.h>

#include "harness.h"
#include "tessera.h"

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

enum { PLACES = 37, UPDATES = 3001, WIDTH = 70 };

/* Adds whole numbers, some of them to places that are not there, and compares with a loop: floats
 * through their exact sums, integers and extremes one by one. */
static void add_many(tsr_scope *s, tsr_dtype dtype, tsr_scatter_how how, int64_t width)
{
  static int64_t at[UPDATES];
  static double want[PLACES * WIDTH], found[PLACES * WIDTH], updates[UPDATES * WIDTH];
  for (int64_t i = 0; i < PLACES * width; i++) want[i] = (double)(i % 11);
  tsr_array *x =
      tsr_cast(tsr_put(s, want, TSR_F64, TSR_SHAPE(PLACES, width), (tsr_sharding){ 0 }), dtype);
  for (int64_t j = 0; j < UPDATES; j++) {
    at[j] = j * j % 97 - PLACES - 3;
    int64_t place = at[j] < 0 ? at[j] + PLACES : at[j];
    for (int64_t k = 0; k < width; k++) {
      double update = updates[j * width + k] = (double)((j + k) % 13);
      if (place < 0 || place >= PLACES) continue;
      double *now = &want[place * width + k];
      *now = how == TSR_SCATTER_ADD ? *now + update : *now > update ? *now : update;
    }
  }
  tsr_array *places = tsr_put(s, at, TSR_I64, TSR_SHAPE(UPDATES), (tsr_sharding){ 0 });
  tsr_array *u = tsr_put(s, updates, TSR_F64, TSR_SHAPE(UPDATES, width), (tsr_sharding){ 0 });
  tsr_array *y = tsr_scatter(x, places, tsr_cast(u, dtype), 0, .how = how, .mode = TSR_INDEX_DROP);
  size_t bytes = (size_t)(PLACES * width) * sizeof(double);
  CHECK_STATUS(tsr_read(tsr_cast(y, TSR_F64), found, bytes), TSR_OK, s);
  CHECK_BYTES(found, want, bytes);
}

TEST(many_updates_go_where_a_loop_puts_them)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  const tsr_dtype dtypes[] = { TSR_F32, TSR_F64, TSR_I32, TSR_I64 };
  const int64_t widths[] = { 1, 8, WIDTH }; /* the last is no whole strip */
  for (int w = 0; w < 3; w++)
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
      add_many(s, dtypes[d], TSR_SCATTER_ADD, widths[w]);
      add_many(s, dtypes[d], TSR_SCATTER_MAX, widths[w]);
    }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Many updates of one device or several are shared out; indices of i32 are read as they are. What
 * they come to a loop of integers says: all are multiples of 2^-10, and -0 counts only where it is
 * alone. */
static void add_shared(const char *devices, bool minus)
{
  enum { SHARED = 300000, BINS = 1000 };
  static int32_t at[SHARED];
  static float x[BINS], updates[SHARED], found[BINS], want[BINS];
  static int64_t sum[BINS];
  tsr_runtime *rt = tsr_runtime_open(devices, .threads = 3);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  memset(sum, 0, sizeof sum);
  for (int i = 0; i < BINS; i++) x[i] = minus && i % 3 == 0 ? -0.0f : 0;
  for (int i = 0; i < SHARED; i++) {
    int place = (int)((int64_t)i * 7919 % (BINS - 9)); /* the last ones get none */
    int64_t units = (int64_t)i * i % 40009 - 20000;
    at[i] = i % 2 ? place : place - BINS;
    updates[i] = (float)units * 0x1p-10f;
    sum[place] += units;
  }
  for (int i = 0; i < BINS; i++) want[i] = i < BINS - 9 ? (float)((double)sum[i] * 0x1p-10) : x[i];
  tsr_array *y =
      tsr_scatter_add(tsr_put(s, x, TSR_F32, TSR_SHAPE(BINS), tsr_on(mesh, "-")),
                      tsr_put(s, at, TSR_I32, TSR_SHAPE(SHARED), tsr_on(mesh, "x")),
                      tsr_put(s, updates, TSR_F32, TSR_SHAPE(SHARED), tsr_on(mesh, "x")), 0);
  CHECK_STATUS(tsr_read(y, found, sizeof found), TSR_OK, s);
  CHECK_BYTES(found, want, sizeof want);
  at[SHARED - 7] = BINS;
  y = tsr_scatter_add(tsr_put(s, x, TSR_F32, TSR_SHAPE(BINS), tsr_on(mesh, "-")),
                      tsr_put(s, at, TSR_I32, TSR_SHAPE(SHARED), tsr_on(mesh, "x")), 1, 0);
  CHECK_STATUS(tsr_eval(&y, 1), TSR_EVALUE, s);
  CHECK_STR_HAS(tsr_message(s), "tsr_scatter: index 1000 at position 299993 of the indices is out");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static uint32_t joined(tsr_scatter_how how, uint32_t now, uint32_t update)
{
  switch (how) {
  case TSR_SCATTER_SET: return update;
  case TSR_SCATTER_ADD: return now + update;
  case TSR_SCATTER_MUL: return now * update;
  case TSR_SCATTER_MIN: return (int32_t)update < (int32_t)now ? update : now;
  default: return (int32_t)update > (int32_t)now ? update : now;
  }
}

/* The same of whole numbers, which wrap: fewer devices than workers, and more. Updates of `set`
 * are not shared out, as the last one counts. */
static void join_shared(const char *devices, tsr_scatter_how how)
{
  enum { SHARED = 400000, BINS = 1000 };
  static int32_t at[SHARED];
  static uint32_t updates[SHARED], want[BINS], found[BINS];
  tsr_runtime *rt = tsr_runtime_open(devices, .threads = 3);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  for (uint32_t i = 0; i < BINS; i++) want[i] = i * 2654435761u | 1;
  tsr_array *x = tsr_put(s, want, TSR_I32, TSR_SHAPE(BINS), tsr_on(mesh, "-"));
  for (uint32_t i = 0; i < SHARED; i++) {
    at[i] = (int32_t)(i * 40503u >> 8) % BINS;
    updates[i] = i * 2246822519u | 1;
    want[at[i]] = joined(how, want[at[i]], updates[i]);
  }
  tsr_array *places = tsr_put(s, at, TSR_I32, TSR_SHAPE(SHARED), tsr_on(mesh, "x"));
  tsr_array *u = tsr_put(s, updates, TSR_I32, TSR_SHAPE(SHARED), tsr_on(mesh, "x"));
  CHECK_STATUS(tsr_read(tsr_scatter(x, places, u, 0, .how = how), found, sizeof found), TSR_OK, s);
  CHECK_BYTES(found, want, sizeof want);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(shared_whole_numbers_are_joined_as_a_loop_does)
{
  const tsr_scatter_how hows[] = { TSR_SCATTER_SET, TSR_SCATTER_ADD, TSR_SCATTER_MUL,
                                   TSR_SCATTER_MIN, TSR_SCATTER_MAX };
  for (size_t h = 0; h < sizeof hows / sizeof *hows; h++) {
    join_shared("cpu:1", hows[h]);
    join_shared("cpu:2", hows[h]);
    join_shared("cpu:4", hows[h]);
  }
}

TEST(shared_updates_are_the_sums_of_a_loop)
{
  for (int minus = 0; minus < 2; minus++) {
    add_shared("cpu:1", minus);
    add_shared("cpu:4", minus);
  }
}
