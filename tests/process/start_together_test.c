/* Programs of several processes that are started and waited for later: they run behind the calls,
 * in their order on all, and whatever else the processes do together comes after them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness.h"
#include "support/among.h"
#include "tessera.h"

enum { COUNT = 600 };

static tsr_array *line(tsr_runtime *rt, tsr_scope *s)
{
  return tsr_iota(s, TSR_F64, ((tsr_shape){ 1, { COUNT } }), 0,
                  tsr_on(tsr_mesh_default(rt, "x"), "x"));
}

/* ---- behind the calls ---- */

/* Programs stay in the progress callback of a thread that is not the test's. */
typedef struct gate {
  pthread_t main;
  atomic_bool holds;
  atomic_int elsewhere;
} gate;

static void nap(void)
{
  nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
}

static bool pass(const char *what, int64_t done, int64_t total, void *user)
{
  gate *g = user;
  (void)what, (void)done, (void)total;
  if (pthread_equal(pthread_self(), g->main)) return true;
  atomic_fetch_add(&g->elsewhere, 1);
  while (atomic_load(&g->holds)) nap();
  return true;
}

static tsr_runtime *open_held(gate *g)
{
  *g = (gate){ .main = pthread_self() };
  atomic_store(&g->holds, true);
  char address[400];
  snprintf(address, sizeof address, "unix:%s", test_tmp("held"));
  tsr_runtime_opts opts = {
    .size = sizeof opts, .progress = pass, .progress_user = g, .threads = 2
  };
  return tsr_initialize("cpu:2", .coordinator = address, .process_count = test_process_count(),
                        .process_index = test_process(), .runtime = &opts);
}

TEST_PROCESSES(a_start_returns_before_the_run_is_done, 2)
{
  gate g;
  tsr_runtime *rt = open_held(&g);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(tsr_mesh_default(rt, "x"), "x");
  tsr_array *x = tsr_iota(s, TSR_F64, ((tsr_shape){ 1, { 1 << 20 } }), 0, on);
  tsr_array *sum = tsr_sum(tsr_sqrt(x));
  double out = 0;
  CHECK_STATUS(tsr_start(&sum, 1), TSR_OK, s);
  while (!atomic_load(&g.elsewhere)) nap(); /* it runs, and is held, and we are here */
  atomic_store(&g.holds, false);
  CHECK_STATUS(tsr_read_scalar(sum, &out), TSR_OK, s);
  CHECK(out > 7.15e8 && out < 7.16e8);
  tsr_runtime_close(rt);
}

/* ---- in their order ---- */

/* The same calls on all processes, some of which come late; each value is that of a twin. */
static void mix_starts(tsr_runtime *rt, test_rng *rng)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *chain = line(rt, s), *twin = chain;
  double a[COUNT], b[COUNT], sum, other;
  for (int step = 0; step < 6; step++) {
    double k = (double)test_range(rng, 1, 9);
    tsr_array *mean = tsr_mean(chain), *own = tsr_mean(twin);
    chain = tsr_add(tsr_mul(chain, 1 / k), mean);
    twin = tsr_add(tsr_mul(twin, 1 / k), own);
    int64_t way = test_range(rng, 0, 4), late = test_range(rng, 0, test_process_count() - 1);
    if (late == test_process() && step % 2) nap();
    if (way < 3) CHECK_STATUS(tsr_start((tsr_array *[]){ chain, mean }, 2), TSR_OK, s);
    if (way == 1) CHECK_STATUS(tsr_eval(&own, 1), TSR_OK, s);
    if (way == 2) CHECK_STATUS(tsr_read_scalar(own, &other), TSR_OK, s);
    if (way == 3) CHECK_STATUS(tsr_process_meet(s, "between"), TSR_OK, s);
    if (way < 4) continue;
    CHECK_STATUS(tsr_read_scalar(tsr_sum(chain), &sum), TSR_OK, s);
    CHECK_STATUS(tsr_read_scalar(tsr_sum(twin), &other), TSR_OK, s);
    CHECK_F64_BITS(sum, other);
  }
  CHECK_STATUS(tsr_read(twin, b, sizeof b), TSR_OK, s);
  CHECK_STATUS(tsr_read(chain, a, sizeof a), TSR_OK, s);
  CHECK_BYTES(a, b, sizeof a);
  tsr_scope_close(s);
}

static void started_and_evaluated(void)
{
  tsr_runtime *rt = among_open(2);
  test_rng rng = test_seeded(5);
  for (int round = 0; round < (test_quick() ? 40 : 100); round++) mix_starts(rt, &rng);
  tsr_runtime_close(rt);
}

AMONG_2_AND_4(started_programs_keep_the_order_of_the_calls, started_and_evaluated)

/* Nobody waits for them, and others' need this process's part: they run before it closes. */
static void left_alone(void)
{
  tsr_runtime *rt = among_open(2);
  tsr_scope *s = tsr_scope_open(rt);
  double out = 0;
  for (int i = 0; i < 20; i++) {
    tsr_array *sum = tsr_sum(tsr_mul(line(rt, s), i));
    CHECK_STATUS(tsr_start(&sum, 1), TSR_OK, s);
    if (i < 19 || test_process()) continue;
    CHECK_STATUS(tsr_read_scalar(sum, &out), TSR_OK, s);
    CHECK_F64_BITS(out, 19.0 * COUNT * (COUNT - 1) / 2);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

AMONG_2_AND_4(what_was_started_runs_before_a_process_ends, left_alone)

/* ---- errors ---- */

static void told_to_who_waits(void)
{
  tsr_runtime *rt = among_open(2);
  tsr_scope *s = tsr_scope_open(rt);
  bool me = test_process() == test_process_count() - 1;
  for (int round = 0; round < 5; round++) {
    tsr_array *x = line(rt, s), *place = tsr_num(s, round % 2 ? COUNT + 5 : 7);
    tsr_array *bad = tsr_sum(tsr_take(x, place, 0)), *good = tsr_sum(tsr_add(x, 1));
    double out = 0;
    CHECK_STATUS(tsr_start(&bad, 1), TSR_OK, s);
    CHECK_STATUS(tsr_start(&good, 1), TSR_OK, s);
    CHECK_STATUS(tsr_wait(bad), round % 2 ? TSR_EVALUE : TSR_OK, s);
    tsr_scope_clear(s);
    CHECK_STATUS(tsr_read_scalar(good, &out), TSR_OK, s);
    CHECK_F64_BITS(out, (double)COUNT * (COUNT + 1) / 2);
    /* What one cannot even start, the others hear of where they wait. */
    tsr_array *gone = tsr_sum(tsr_mul(x, 3));
    if (me) tsr_delete(gone);
    tsr_status status = tsr_start(&gone, 1);
    CHECK_STATUS(status, me ? TSR_ESTATE : TSR_OK, s);
    CHECK_STATUS(tsr_wait(gone), TSR_ESTATE, s);
    CHECK_STR_HAS(tsr_message(s), "was deleted");
    tsr_scope_clear(s);
    CHECK_STATUS(tsr_read_scalar(tsr_sum(x), &out), TSR_OK, s);
    CHECK_F64_BITS(out, (double)COUNT * (COUNT - 1) / 2);
  }
  tsr_runtime_close(rt);
}

AMONG_2_AND_4(errors_are_told_to_who_waits, told_to_who_waits)
