/* Programs that are started and waited for later: who waits, in what order they run, where errors
 * are told, and what may go before they are done. */
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "tessera.h"

/* ---- a runtime whose runner can be held ---- */

/* Held programs stay in the progress callback of their thread. */
typedef struct gate {
  pthread_t main;
  atomic_bool holds;
  atomic_int elsewhere; /* calls on other threads than the test's */
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
  return tsr_runtime_open("cpu:4", .progress = pass, .progress_user = g, .threads = 2);
}

/* Large enough to be worth asking the callback. */
static tsr_array *line(tsr_runtime *rt, tsr_scope *s, int64_t count)
{
  return tsr_iota(s, TSR_F64, ((tsr_shape){ 1, { count } }), 0,
                  tsr_on(tsr_mesh_default(rt, "x"), "x"));
}

TEST(a_start_returns_before_the_run_is_done)
{
  gate g;
  tsr_runtime *rt = open_held(&g);
  tsr_scope *s = tsr_scope_open(rt);
  double out = 0;
  tsr_array *sum = tsr_sum(tsr_sqrt(line(rt, s, 1 << 20)));
  tsr_array *more = tsr_add(sum, 1);
  CHECK_STATUS(tsr_start(&sum, 1), TSR_OK, s);
  while (!atomic_load(&g.elsewhere)) nap(); /* it runs, and is held, and we are here */
  atomic_store(&g.holds, false);
  CHECK_STATUS(tsr_wait(sum), TSR_OK, s);
  CHECK_STATUS(tsr_read_scalar(more, &out), TSR_OK, s);
  CHECK(out > 7.15e8 && out < 7.16e8);
  tsr_runtime_close(rt);
}

TEST(scopes_and_runtimes_close_over_what_was_started)
{
  gate g;
  tsr_runtime *rt = open_held(&g);
  for (int i = 0; i < 3; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *a = tsr_exp(line(rt, s, 1 << 20)), *b = tsr_log(line(rt, s, 1 << 20));
    CHECK_STATUS(tsr_start((tsr_array *[]){ a, b }, 2), TSR_OK, s);
    if (i == 1) tsr_delete(a);
    tsr_scope_close(s);
  }
  while (!atomic_load(&g.elsewhere)) nap();
  atomic_store(&g.holds, false);
  tsr_runtime_close(rt); /* some have run, some never will */
}

/* ---- values ---- */

TEST(started_programs_have_the_values_of_evaluated_ones)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  test_rng rng = test_seeded(11);
  for (int round = 0; round < (test_quick() ? 50 : 300); round++) {
    tsr_scope *s = tsr_scope_open(rt);
    int64_t count = test_range(&rng, 1, 3000);
    tsr_array *x = line(rt, s, count), *chain = x, *twin = x;
    for (int step = 0; step < 5; step++) {
      double k = (double)test_range(&rng, 1, 9);
      chain = step % 2 ? tsr_mul(chain, k) : tsr_add(tsr_sin(chain), k);
      twin = step % 2 ? tsr_mul(twin, k) : tsr_add(tsr_sin(twin), k);
      if (test_range(&rng, 0, 1)) CHECK_STATUS(tsr_start(&chain, 1), TSR_OK, s);
      if (test_range(&rng, 0, 3) == 0) CHECK_STATUS(tsr_start(&chain, 1), TSR_OK, s);
    }
    double a[3000], b[3000];
    CHECK_STATUS(tsr_read(twin, b, (size_t)count * 8), TSR_OK, s);
    CHECK_STATUS(tsr_read(chain, a, (size_t)count * 8), TSR_OK, s);
    CHECK_BYTES(a, b, (size_t)count * 8);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(several_at_once_and_one_twice)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = line(rt, s, 1000), *many[16];
  double out;
  for (int i = 0; i < 16; i++) many[i] = i % 4 == 3 ? many[i - 1] : tsr_sum(tsr_mul(x, i));
  CHECK_STATUS(tsr_eval(&many[0], 1), TSR_OK, s);
  CHECK_STATUS(tsr_start(many, 8), TSR_OK, s);
  CHECK_STATUS(tsr_start(many, 16), TSR_OK, s);
  CHECK_STATUS(tsr_eval(many, 16), TSR_OK, s);
  for (int i = 15; i >= 0; i--) {
    CHECK_STATUS(tsr_read_scalar(many[i], &out), TSR_OK, s);
    CHECK_F64_BITS(out, 499500.0 * (i % 4 == 3 ? i - 1 : i));
  }
  CHECK_STATUS(tsr_start(many, 0), TSR_OK, s);
  tsr_runtime_close(rt);
}

/* ---- errors ---- */

TEST(errors_of_a_run_are_told_to_who_waits)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = line(rt, s, 10), *place = tsr_num(s, 99);
  tsr_array *bad = tsr_take(x, place, 0), *good = tsr_add(x, 1), *later = tsr_mul(bad, 2);
  double out[10];
  CHECK_STATUS(tsr_start(&bad, 1), TSR_OK, s);
  CHECK_STATUS(tsr_start(&good, 1), TSR_OK, s);
  CHECK_STATUS(tsr_wait(bad), TSR_EVALUE, s);
  CHECK_STATUS(tsr_scope_status(s), TSR_EVALUE, s);
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_read(good, out, sizeof out), TSR_OK, s);
  CHECK_F64_BITS(out[9], 10);
  /* What comes of one that fails is told when it is started, as that waits for it. */
  CHECK_STATUS(tsr_start(&bad, 1), TSR_OK, s);
  CHECK_STATUS(tsr_start(&later, 1), TSR_EVALUE, s);
  tsr_runtime_close(rt);
}

TEST(mistakes_are_told_at_the_start)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4"), *other = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt), *t = tsr_scope_open(other);
  tsr_array *x = tsr_sum(line(rt, s, 10)), *y = tsr_sum(line(other, t, 10));
  CHECK_STATUS(tsr_start(NULL, 1), TSR_EARG, NULL);
  tsr_scope_clear(s); /* it is told to all scopes of the thread */
  tsr_scope_clear(t);
  CHECK_STATUS(tsr_start((tsr_array *[]){ x, NULL }, 2), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s), "tsr_start: array 1 is NULL");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_start((tsr_array *[]){ x, y }, 2), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s), "tsr_start: array 1 belongs to another runtime than array 0");
  tsr_scope_clear(s);
  tsr_array *inert = tsr_add(line(rt, s, 3), line(rt, s, 4));
  CHECK_STATUS(tsr_start(&inert, 1), TSR_ESHAPE, s);
  tsr_runtime_close(other);
  tsr_runtime_close(rt);
}
