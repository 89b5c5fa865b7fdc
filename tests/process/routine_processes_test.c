/* Routines whose devices work together over the borders of processes: each process does its own
 * devices' part, in memory for that alone, and where memory ends for one of them all hear of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/peers.h"
#include "execute/execute.h"
#include "support/among.h"
#include "support/process_fixture.h"

enum { SUM, MOST, PRODUCT, SORT, PLACES, TWO_KEYS, TOP, TAKE, ADDED, LATEST, LEAST, ROUTINES };
enum { N = 3 << 13, FEW = 60, BEGIN = 7 };

/* Whole numbers with repetitions; products stay small. */
static void fill(float *x, int which)
{
  for (int i = 0; i < N; i++)
    x[i] = which == PRODUCT ? (i % 7 == 3 ? -1 : 1) : (float)(i * 7919 % 1009 - 500);
}

static tsr_array *routine(tsr_scope *s, tsr_array *x, int which)
{
  if (which == SUM) return tsr_cumsum(x, 0);
  if (which == MOST) return tsr_cummax(x, 0);
  if (which == PRODUCT) return tsr_cumprod(x, 0);
  if (which == SORT) return tsr_sort(x, 0);
  if (which == PLACES) return tsr_cast(tsr_argsort(x, 0), TSR_F32);
  if (which == TWO_KEYS)
    return tsr_cast(tsr_lexsort(TSR_ARRAYS(x, tsr_floor(tsr_div(x, 100))), 0), TSR_F32);
  if (which == TOP) return tsr_top_k(x, FEW, 0);
  tsr_array *at = tsr_arange(s, 0, which == TAKE ? FEW : N, 1, .dtype = TSR_I64);
  if (which == TAKE) return tsr_take(x, tsr_mul(at, N / FEW), 0);
  static const tsr_scatter_how hows[] = {
    [ADDED] = TSR_SCATTER_ADD, [LATEST] = TSR_SCATTER_SET, [LEAST] = TSR_SCATTER_MIN
  };
  /* All of few places but the last one, which keeps what was there. */
  tsr_array *few = tsr_full(s, BEGIN, TSR_F32, TSR_SHAPE(FEW), (tsr_sharding){ 0 });
  return tsr_scatter(few, tsr_mod(at, FEW - 1), x, 0, .how = hows[which]);
}

/* What a scatter makes of place `i`. */
static float joined_at(const float *x, int which, int i)
{
  double now = BEGIN;
  for (int j = i; j < N && i < FEW - 1; j += FEW - 1)
    now = which == ADDED ? now + x[j] : which == LATEST ? x[j] : fmin(now, x[j]);
  return (float)now;
}

static const float *keys;

/* A stable order: which of two places comes first. */
static int by_key(const void *left, const void *right)
{
  int a = *(const int *)left, b = *(const int *)right;
  return keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : (a > b) - (a < b);
}

static float expected_at(const float *x, const int *order, int which, int i)
{
  if (which >= ADDED) return joined_at(x, which, i);
  if (which == TAKE) return x[i * (N / FEW)];
  if (which == TOP) return x[order[N - 1 - i]];
  return which == SORT ? x[order[i]] : (float)order[i];
}

static void check_sorted(const float *x, const float *out, int which)
{
  static int order[N];
  for (int i = 0; i < N; i++) order[i] = i;
  keys = x; /* of two keys the second one, which decides first, says no more than the first */
  qsort(order, N, sizeof *order, by_key);
  for (int i = 0, n = which >= TOP ? FEW : N; i < n; i++)
    if (out[i] != expected_at(x, order, which, i))
      FAIL("routine %d, element %d: %g", which, i, out[i]);
}

static void check_result(const float *x, const float *out, int which)
{
  double state = which == PRODUCT ? 1 : which == MOST ? x[0] : 0;
  if (which >= SORT) {
    check_sorted(x, out, which);
    return;
  }
  for (int i = 0; i < N; i++) {
    if (which == SUM) state += x[i];
    else if (which == PRODUCT) state *= x[i];
    else if (x[i] > state) state = x[i];
    if (out[i] != (float)state) FAIL("routine %d, element %d: %g", which, i, out[i]);
  }
}

static size_t bytes_of(int which)
{
  return (which >= TOP ? FEW : N) * sizeof(float);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t now_of(const tsr_runtime *rt, bool peak)
{
  tsr_memory memory = tsr_device_memory(rt, 2 * test_process());
  return peak ? memory.peak : memory.now;
}

/* In parts of an array: its result, and what a sort works in. Of six devices' results a process
 * once made all, four of them on its first device. */
TEST_PROCESSES(a_process_has_memory_for_its_own_part, 3)
{
  static float x[N], out[N];
  tsr_runtime *rt = among_open(2);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  const int64_t part = N / 6 * (int64_t)sizeof *x;
  const int64_t parts[] = {
    [SUM] = 1, [MOST] = 1, [PRODUCT] = 1, [SORT] = 5, [PLACES] = 9, [TWO_KEYS] = 15
  };
  for (int which = SUM; which < ROUTINES; which++) {
    tsr_scope *s = tsr_scope_open(rt);
    fill(x, which);
    tsr_array *a = tsr_put(s, x, TSR_F32, TSR_SHAPE(N), tsr_on(mesh, "x"));
    CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, s);
    int64_t before = now_of(rt, false);
    tsr_array *y = routine(s, a, which);
    CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, s);
    if (which < TOP) CHECK(now_of(rt, true) <= before + parts[which] * part + 4096);
    CHECK_STATUS(tsr_read(y, out, bytes_of(which)), TSR_OK, s);
    check_result(x, out, which);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- who takes part ---- */

/* Of three processes the last one has no device of the mesh; and one, of two dims, of which some
 * groups are not its own. */
static void check_all(tsr_runtime *rt, const char *mesh, const char *spec)
{
  static float x[N], out[N];
  for (int which = SUM; which < ROUTINES; which++) {
    tsr_scope *s = tsr_scope_open(rt);
    fill(x, which);
    tsr_sharding on = tsr_on(tsr_mesh_make(rt, mesh), spec);
    tsr_array *a = tsr_put(s, x, TSR_F32, TSR_SHAPE(N), on);
    tsr_array *y = routine(s, a, which);
    CHECK_STATUS(tsr_read(y, out, bytes_of(which)), TSR_OK, s);
    check_result(x, out, which);
    tsr_scope_close(s);
  }
}

TEST_PROCESSES(processes_without_members_take_part, 3)
{
  tsr_runtime *rt = among_open(2);
  check_all(rt, "x=4", "x");
  check_all(rt, "y=3,x=2", "y");
  check_all(rt, "y=3,x=2", "x");
  check_all(rt, "y=2,x=3", "x");
  check_all(rt, "y=2,x=3", "x+y");
  tsr_runtime_close(rt);
}

/* ---- scatters ---- */

/* Values so far apart that sums escape from three doubles, infinities, and places of nothing but
 * -0; to one dim, to a line of each row, and so many that each process finishes some. */
enum { LINES = 600, WIDE = 80, HARD = (3 + 2 * WIDE) * FEW };

static const double hard[] = { 1e300, 1, -1e300, 0x1p-1074, -1, 1e-200, 3e10, -0x1p-1074 };

static void add_many(tsr_scope *s, tsr_mesh *mesh, double *out)
{
  static double x[2 * LINES * WIDE], start[2 * FEW * WIDE];
  int64_t at[LINES];
  for (int i = 0; i < LINES; i++) at[i] = i * 11 % FEW;
  for (int i = 0; i < 2 * LINES * WIDE; i++) x[i] = hard[i * 13 % 8] * (i % 31);
  for (int i = 0; i < 2 * FEW * WIDE; i++) start[i] = i % 3 ? -0.0 : i;
  tsr_array *few = tsr_put(s, start, TSR_F64, TSR_SHAPE(2, FEW, WIDE), tsr_on(mesh, "-,-,-"));
  tsr_array *to = tsr_put(s, at, TSR_I64, TSR_SHAPE(LINES), tsr_on(mesh, "x"));
  tsr_array *many = tsr_put(s, x, TSR_F64, TSR_SHAPE(2, LINES, WIDE), tsr_on(mesh, "-,x,-"));
  tsr_array *sums = tsr_scatter_add(few, to, many, 1);
  CHECK_STR_HAS(tsr_explain(&sums, 1), "all-reduce over x=6");
  CHECK_STATUS(tsr_read(sums, out, sizeof start), TSR_OK, s);
  CHECK_I64(tsr_last_run(s).bytes_counted, tsr_last_run(s).bytes_explained);
}

static void add_hard(tsr_runtime *rt, double *out)
{
  static double x[N], start[2][FEW];
  static int64_t at[N];
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  for (int i = 0; i < N; i++) at[i] = i * 7 % FEW;
  for (int i = 0; i < N; i++) x[i] = at[i] == 3 ? -0.0 : hard[i * 13 % 8];
  x[N - 9] = INFINITY;
  for (int i = 0; i < FEW; i++) start[0][i] = start[1][i] = i % 2 ? -0.0 : 1e-9;
  tsr_sharding cut = tsr_on(mesh, "x"), whole = tsr_on(mesh, "-"), wide = tsr_on(mesh, "-,-");
  tsr_array *few = tsr_put(s, start, TSR_F64, TSR_SHAPE(FEW), whole);
  tsr_array *both = tsr_put(s, start, TSR_F64, TSR_SHAPE(2, FEW), wide);
  tsr_array *to = tsr_put(s, at, TSR_I64, TSR_SHAPE(N), cut);
  tsr_array *updates = tsr_put(s, x, TSR_F64, TSR_SHAPE(N), cut);
  tsr_array *signs = tsr_put(s, (double[]){ 1, -1 }, TSR_F64, TSR_SHAPE(2, 1), wide);
  tsr_array *rows = tsr_mul(updates, signs);
  tsr_array *one = tsr_scatter_add(few, to, updates, 0), *two = tsr_scatter_add(both, to, rows, 1);
  CHECK_STATUS(tsr_read(one, out, FEW * sizeof *out), TSR_OK, s);
  CHECK_STATUS(tsr_read(two, out + FEW, 2 * FEW * sizeof *out), TSR_OK, s);
  add_many(s, mesh, out + 3 * FEW);
  tsr_scope_close(s);
}

TEST_PROCESSES(sums_of_several_processes_are_those_of_one, 3)
{
  static double expected[HARD], found[HARD];
  tsr_runtime *rt = among_open(2), *alone = tsr_runtime_open("cpu:6");
  add_hard(alone, expected);
  add_hard(rt, found);
  CHECK_BYTES(found, expected, sizeof found);
  CHECK(signbit(found[3]) && found[3] == 0);
  tsr_runtime_close(alone);
  tsr_runtime_close(rt);
}

/* Of indices that are none of the dim's, in parts of two processes, all are told the first one. */
TEST_PROCESSES(the_first_index_that_is_none_is_told_to_all, 3)
{
  static int64_t at[N];
  at[N - 1] = FEW;
  at[N / 2 + 3] = -FEW - 1;
  tsr_runtime *rt = among_open(2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *few = tsr_full(s, 0, TSR_I32, TSR_SHAPE(FEW), tsr_on(mesh, "-"));
  tsr_array *to = tsr_put(s, at, TSR_I64, TSR_SHAPE(N), tsr_on(mesh, "x"));
  tsr_array *ones = tsr_full(s, 1, TSR_I32, TSR_SHAPE(N), tsr_on(mesh, "x"));
  tsr_array *y = tsr_scatter_add(few, to, ones, 0);
  CHECK_STATUS(tsr_eval(&y, 1), TSR_EVALUE, NULL);
  CHECK_STR_HAS(tsr_message(s), "index -61 at position 12291 of the indices is out of range, "
                                "expected -60 to 59");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- between hosts --------------------------------------------------------------------------- */

/* Of prefixes four devices' states cross, and of elements none. Of what is sorted the samples of
 * the other host's two devices, a key's word and two more a row, and the half of what comes here:
 * elements and their places. Of updates nothing, but what they come to. */
static void check_fetched(int64_t bytes, int which)
{
  enum { SAMPLES = 2 * 1024, REST = 4096 };
  const int words = which == TWO_KEYS ? 2 : 1, columns = words + (which != SORT);
  if (which < SORT) CHECK(bytes <= 1024);
  else if (which < TOP) CHECK(bytes <= SAMPLES * (words + 2) * 8 + N / 8 * columns * 4 + REST);
  else if (which == TOP) CHECK(bytes <= REST);
  else if (which >= ADDED) CHECK(bytes <= 2 * (FEW * 3 * 8 + 64));
}

TEST_PROCESSES(what_is_needed_crosses_between_hosts, 4)
{
  static float x[N], out[N];
  setenv("TEST_HOSTS", "2", 1);
  among_plugins();
  tsr_runtime *rt = among_open(1);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  for (int which = SUM; which < ROUTINES; which++) {
    tsr_scope *s = tsr_scope_open(rt);
    fill(x, which);
    tsr_array *a = tsr_put(s, x, TSR_F32, TSR_SHAPE(N), tsr_on(mesh, "x"));
    CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, s);
    int64_t before = tsr__peers_moved(tsr__peers_of(rt)).got_bytes;
    tsr_array *y = routine(s, a, which);
    CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, s);
    check_fetched(tsr__peers_moved(tsr__peers_of(rt)).got_bytes - before, which);
    CHECK_STATUS(tsr_read(y, out, bytes_of(which)), TSR_OK, s);
    check_result(x, out, which);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- memory that ends ------------------------------------------------------------------------ */

/* Every allocation in turn, of a process in the middle; the plan is there already. */
TEST_PROCESSES(memory_ends_in_a_routine_for_one_process, 3)
{
  static float x[N], out[N];
  fixture_ending e = { gettid(), -1, 0 };
  tsr_allocator memory = fixture_ending_memory(&e);
  tsr_runtime_opts opts = { .size = sizeof opts, .allocator = &memory };
  tsr_runtime *rt = fixture_join("routine", .runtime = &opts, .on_failure = "error");
  CHECK_STR(tsr_runtime_message(rt), "");
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  for (int which = SUM; which < ROUTINES; which++) {
    tsr_scope *s = tsr_scope_open(rt);
    int failed = 0, good = 0;
    fill(x, which);
    tsr_array *a = tsr_put(s, x, TSR_F32, TSR_SHAPE(N), tsr_on(mesh, "x"));
    CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, s);
    for (int k = -2; good < 6; k++) {
      tsr_scope *inner = tsr_scope_open(rt);
      tsr_array *y = routine(inner, tsr_keep(inner, a), which);
      if (test_process() == 1) e.left = k < 0 ? -1 : k;
      tsr_status status = tsr_eval(&y, 1);
      e.left = -1;
      if (status) CHECK_STATUS(status, TSR_ENOMEM, inner);
      if (status && test_process() != 1) CHECK_STR_HAS(tsr_message(inner), "process 1: ");
      failed += status != TSR_OK;
      good = status ? 0 : good + 1;
      if (!status) {
        CHECK_STATUS(tsr_read(y, out, bytes_of(which)), TSR_OK, inner);
        check_result(x, out, which);
      }
      tsr_scope_clear(inner);
      tsr_scope_close(inner);
    }
    CHECK(failed > 2);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}
