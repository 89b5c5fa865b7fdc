/* Every collective over devices of several processes: as in one. */

#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "support/among.h"
#include "support/collective_laws.h"

TEST_PROCESSES(collectives_of_one, 1)
{
  collective_laws_check(3, false);
}

TEST_PROCESSES(collectives_of_two, 2)
{
  collective_laws_check(1, false);
}

TEST_PROCESSES(collectives_of_three, 3)
{
  collective_laws_check(1, false);
}

TEST_PROCESSES(collectives_of_four, 4)
{
  collective_laws_check(2, false);
}

/* Parts that fit a note of a meeting travel in it, longer ones are read where they lie; of uneven
 * ones one process may say this and another that. */
static void check_parts(void)
{
  static const int lengths[] = { 1, 2, 16, 17, 224, 225, 239, 240, 241, 256, 1000 };
  enum { KINDS = sizeof lengths / sizeof *lengths, MOST = 4 * 1000 + 1 };
  tsr_runtime *rt = among_open(1);
  const tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  float got[MOST];
  for (int k = 0; k < 2 * KINDS; k++) {
    tsr_scope *s = tsr_scope_open(rt);
    int n = lengths[k / 2] * tsr_process_count(rt) + k % 2, wrong = 0;
    tsr_array *x = tsr_arange(s, .stop = n, .dtype = TSR_F32);
    x = tsr_add(tsr_reshard(x, tsr_on(mesh, "x")), k);
    CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
    tsr_array *all = tsr_reshard(x, tsr_on(mesh, "-")),
              *turned = tsr_reshard(tsr_flip(x, TSR_DIMS(0)), tsr_on(mesh, "-"));
    CHECK_STATUS(tsr_read(all, got, (size_t)n * sizeof *got), TSR_OK, s);
    for (int i = 0; i < n; i++) wrong += got[i] != (float)(i + k);
    CHECK_STATUS(tsr_read(turned, got, (size_t)n * sizeof *got), TSR_OK, s);
    for (int i = 0; i < n; i++) wrong += got[i] != (float)(n - 1 - i + k);
    CHECK_I64(wrong, 0);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

AMONG_2_AND_4(parts_of_any_length_come, check_parts)

static double processor_time(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Who waits for long sleeps; two in a hundred are the aim, twice that is let pass. */
TEST_PROCESSES(waiting_takes_little_of_a_core, 2)
{
  tsr_runtime *rt = among_open(1);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_full(s, 1, TSR_F32, TSR_SHAPE(64), tsr_on(tsr_mesh_default(rt, "x"), "x"));
  double total = 0, before;
  CHECK_STATUS(tsr_read_scalar(tsr_sum(x), &total), TSR_OK, s);
  if (test_process()) usleep(1500000);
  before = processor_time();
  CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_mul(x, 2)), &total), TSR_OK, s);
  if (!test_process()) CHECK(processor_time() - before < 0.06);
  CHECK(total == 128);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
