/* Routines whose devices work together over the borders of processes: each process does its own
 * devices' part, in memory for that alone, and where memory ends for one of them all hear of it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/peers.h"
#include "execute/execute.h"
#include "support/among.h"
#include "support/process_fixture.h"

enum { N = 3 << 12, SUM, MOST, PRODUCT, ROUTINES };

/* Whole numbers with repetitions; products stay small. */
static void fill(float *x, int which)
{
  for (int i = 0; i < N; i++)
    x[i] = which == PRODUCT ? (i % 7 == 3 ? -1 : 1) : (float)(i * 7919 % 1009 - 500);
}

static tsr_array *routine(tsr_array *x, int which)
{
  if (which == SUM) return tsr_cumsum(x, 0);
  if (which == MOST) return tsr_cummax(x, 0);
  return tsr_cumprod(x, 0);
}

static void check_result(const float *x, const float *out, int which)
{
  double state = which == PRODUCT ? 1 : which == MOST ? x[0] : 0;
  for (int i = 0; i < N; i++) {
    if (which == SUM) state += x[i];
    else if (which == PRODUCT) state *= x[i];
    else if (x[i] > state) state = x[i];
    if (out[i] != (float)state) FAIL("routine %d, element %d: %g", which, i, out[i]);
  }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t now_of(const tsr_runtime *rt, bool peak)
{
  tsr_memory memory = tsr_device_memory(rt, 2 * test_process());
  return peak ? memory.peak : memory.now;
}

/* Of six devices' results a process once made all, four of them on its first device. */
TEST_PROCESSES(a_process_has_memory_for_its_own_part, 3)
{
  static float x[N], out[N];
  tsr_runtime *rt = among_open(2);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  const int64_t part = N / 6 * (int64_t)sizeof *x;
  for (int which = SUM; which < ROUTINES; which++) {
    tsr_scope *s = tsr_scope_open(rt);
    fill(x, which);
    tsr_array *a = tsr_put(s, x, TSR_F32, TSR_SHAPE(N), tsr_on(mesh, "x"));
    CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, s);
    int64_t before = now_of(rt, false);
    tsr_array *y = routine(a, which);
    CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, s);
    CHECK(now_of(rt, true) <= before + part + 4096);
    CHECK_STATUS(tsr_read(y, out, sizeof out), TSR_OK, s);
    check_result(x, out, which);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- between hosts --------------------------------------------------------------------------- */

/* Four devices' states cross, and of their elements none. */
TEST_PROCESSES(states_cross_between_hosts_and_no_elements, 4)
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
    tsr_array *y = routine(a, which);
    CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, s);
    CHECK(tsr__peers_moved(tsr__peers_of(rt)).got_bytes - before <= 1024);
    CHECK_STATUS(tsr_read(y, out, sizeof out), TSR_OK, s);
    check_result(x, out, which);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- memory that ends ------------------------------------------------------------------------ */

/* Fails one allocation of the thread that asks for it. */
typedef struct ending {
  pid_t thread;
  int left; /* allocations until then; negative: none fails */
} ending;

static void *take(size_t size, size_t alignment, void *user)
{
  ending *e = user;
  if (gettid() == e->thread && e->left >= 0 && e->left-- == 0) return NULL;
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void give(void *block, size_t size, void *user)
{
  (void)size, (void)user;
  free(block);
}

/* Every allocation in turn, of a process in the middle; the plan is there already. */
TEST_PROCESSES(memory_ends_in_a_routine_for_one_process, 3)
{
  static float x[N], out[N];
  ending e = { gettid(), -1 };
  tsr_allocator memory = { take, give, &e };
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
      tsr_array *y = routine(tsr_keep(inner, a), which);
      if (test_process() == 1) e.left = k < 0 ? -1 : k;
      tsr_status status = tsr_eval(&y, 1);
      e.left = -1;
      if (status) CHECK_STATUS(status, TSR_ENOMEM, inner);
      if (status && test_process() != 1) CHECK_STR_HAS(tsr_message(inner), "process 1: ");
      failed += status != TSR_OK;
      good = status ? 0 : good + 1;
      if (!status) {
        CHECK_STATUS(tsr_read(y, out, sizeof out), TSR_OK, inner);
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
