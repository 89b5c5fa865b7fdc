/* Every collective over devices of several processes: as in one. */

#include <math.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- long results, of which each process finishes a part for the others ---------------------- */

enum { LONG = 3 * 4096 + 77, TURNS = 8 };

static tsr_array *join(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_psum(in[0], "x");
}

/* Special values by place; every device brings its number times the rest. */
static float brought(int i, int device, int turn)
{
  switch (i % 11) {
  case 0: return -0.0F;
  case 1: return device ? 1 : INFINITY;
  case 2: return device == 1 ? NAN : 1;
  case 3: return device == 0 ? INFINITY : device == 1 ? -INFINITY : 0;
  case 4: return device == 0 ? 0x1.fffffep127F : device == 1 ? -0x1.fffffep127F : 0x1p-149F;
  case 5: return device == 0 ? 0x1p100F : device == 1 ? 0x1p-100F : device == 2 ? -0x1p100F : 0;
  default: return (float)((device + 1) * (i % 1000 + turn));
  }
}

/* Of long doubles, which hold all of these sums but the one of 2^100 and 2^-100. */
static float summed(int i, int devices, int turn)
{
  long double sum = -0.0L;
  if (i % 11 == 5) return devices > 2 ? 0x1p-100F : 0x1p100F;
  for (int d = 0; d < devices; d++) sum += brought(i, d, turn);
  return (float)sum;
}

static tsr_array *put_brought(tsr_scope *s, tsr_mesh *mesh, int devices, int turn)
{
  float *data = malloc((size_t)(LONG * devices) * sizeof *data);
  for (int k = 0; k < LONG * devices; k++) data[k] = brought(k % LONG, k / LONG, turn);
  tsr_array *x = tsr_put(s, data, TSR_F32, TSR_SHAPE(LONG * devices), tsr_on(mesh, "x"));
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  free(data);
  return x;
}

static void check_same(const float *got, const float *wanted, int n)
{
  int wrong = 0;
  for (int i = 0; i < n; i++)
    wrong += isnan(wanted[i]) ? !isnan(got[i]) : memcmp(&got[i], &wanted[i], sizeof *got) != 0;
  CHECK_I64(wrong, 0);
}

/* A long result is read, read by the rest of its program, and its memory then is another array's,
 * which nobody may write: one process comes late at each turn. */
static void check_long(int devices_each)
{
  tsr_runtime *rt = among_open(devices_each);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  int devices = tsr_device_count(rt), count = tsr_process_count(rt);
  float *got = malloc(LONG * sizeof *got), *wanted = malloc(LONG * sizeof *wanted);
  for (int turn = 0; turn < TURNS; turn++) {
    tsr_scope *s = tsr_scope_open(rt), *inner = tsr_scope_open(s);
    for (int i = 0; i < LONG; i++) wanted[i] = summed(i, devices, turn);
    tsr_array *x = put_brought(inner, mesh, devices, turn);
    tsr_array *y =
        tsr_shard_map(mesh, join, NULL, .in = { x }, .in_specs = { "x" }, .out_specs = { "" });
    if (turn % count == test_process()) usleep(2000);
    if (turn % 2) CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, inner);
    tsr_array *next = tsr_neg(tsr_flip(y, TSR_DIMS(0)));
    CHECK_STATUS(tsr_read(next, got, LONG * sizeof *got), TSR_OK, inner);
    for (int i = 0; i < LONG / 2; i++) {
      float t = -got[i];
      got[i] = -got[LONG - 1 - i];
      got[LONG - 1 - i] = t;
    }
    got[LONG / 2] = -got[LONG / 2];
    check_same(got, wanted, LONG);
    CHECK_STATUS(tsr_read(y, got, LONG * sizeof *got), TSR_OK, inner);
    check_same(got, wanted, LONG);
    tsr_scope_close(inner);
    tsr_array *own = tsr_put(s, wanted, TSR_F32, TSR_SHAPE(LONG), tsr_on(mesh, ""));
    CHECK_STATUS(tsr_eval(&own, 1), TSR_OK, s);
    usleep(3000);
    CHECK_STATUS(tsr_read(own, got, LONG * sizeof *got), TSR_OK, s);
    check_same(got, wanted, LONG);
    tsr_scope_close(s);
  }
  free(got);
  free(wanted);
  tsr_runtime_close(rt);
}

static void check_long_one_each(void)
{
  check_long(1);
}

static void check_long_two_each(void)
{
  check_long(2);
}

AMONG_2_AND_4(long_results_come_to_all, check_long_one_each)
AMONG_2_AND_4(long_results_come_to_all_devices, check_long_two_each)

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
