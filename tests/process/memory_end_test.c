/* Memory that ends for one process, at any allocation of an evaluation, planning included: all
 * processes get the same status, that one's message, and go on together. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/peers_room.h"
#include "execute/execute.h"
#include "support/process_fixture.h"

static tsr_array *program(tsr_scope *s, tsr_runtime *rt)
{
  float data[24];
  for (int i = 0; i < 24; i++) data[i] = (float)i;
  tsr_array *a = tsr_put(s, data, TSR_F32, TSR_SHAPE(24), tsr_on(tsr_mesh_default(rt, "x"), "x"));
  return tsr_cast(tsr_sum(tsr_mul(a, a)), TSR_F64);
}

/* Whose plan takes the place of that one, so that each evaluation makes it anew. */
static void forget(tsr_scope *s)
{
  double out;
  float two[2] = { 1, 2 };
  tsr_array *a = tsr_put(s, two, TSR_F32, TSR_SHAPE(2), (tsr_sharding){ .mesh = NULL });
  CHECK_STATUS(tsr_read_scalar(tsr_cast(tsr_sum(a), TSR_F64), &out), TSR_OK, s);
}

TEST_PROCESSES(memory_ends_for_one_process, 3)
{
  enum { ROUNDS = 120 };
  fixture_ending e = { gettid(), -1, 0 };
  tsr_allocator memory = fixture_ending_memory(&e);
  tsr_runtime_opts opts = { .size = sizeof opts, .allocator = &memory, .plan_cache = 1 };
  tsr_runtime *rt = fixture_join("memory", .runtime = &opts, .on_failure = "error");
  int failed = 0;
  CHECK_STR(tsr_runtime_message(rt), "");
  for (int k = 0; k < ROUNDS; k++) {
    double total = 0;
    tsr_scope *s = tsr_scope_open(rt);
    forget(s);
    tsr_array *x = program(s, rt);
    if (test_process() == 1) e.left = k;
    tsr_status status = tsr_eval(&x, 1);
    e.left = -1;
    /* All go the same way from here. */
    if (!status) {
      CHECK_STATUS(tsr_read_scalar(x, &total), TSR_OK, s);
      CHECK(total == 4324);
    } else {
      CHECK_STATUS(status, TSR_ENOMEM, s);
      if (test_process() != 1) CHECK_STR_HAS(tsr_message(s), "process 1: ");
      failed++;
    }
    tsr_scope_clear(s);
    tsr_scope_close(s);
  }
  CHECK(failed > 10 && failed < ROUNDS);
  tsr_runtime_close(rt);
}

/* ---- runs that end with their last gathering ------------------------------------------------- */

/* A sum of which each device has one element, a gather and a deal, all of few elements. */
static tsr_array *short_program(tsr_scope *s, tsr_array *x, tsr_mesh *mesh, int which)
{
  if (which == 0) return tsr_sum(x, .dims = TSR_DIMS(0));
  if (which == 1) return tsr_reshard(x, tsr_on(mesh, ""));
  if (which == 2) return tsr_reshard(x, tsr_on(mesh, "-,x"));
  (void)s;
  return tsr_reshape(tsr_reshard(x, tsr_on(mesh, "")), TSR_SHAPE(9));
}

/* What each process came to, to all. */
static void check_same(tsr__peers *peers, tsr_status status)
{
  const tsr__peers_work work = { .fingerprint = 5, .what = "comparing" };
  tsr__error error = { .status = TSR_OK };
  tsr__peers_note all[3];
  CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__peers_gather(peers, &status, sizeof status, all, &error), TSR_OK, NULL);
  for (int p = 0; p < 3; p++) CHECK(!memcmp(all[p].data, &status, sizeof status));
  CHECK_STATUS(tsr__peers_leave(peers, TSR_OK, &error), TSR_OK, NULL);
}

/* Results stay, so that what is kept for values to come runs out, and each of them asks for
 * memory. */
TEST_PROCESSES(memory_ends_before_the_last_meeting_and_not_behind_it, 3)
{
  enum { ROUNDS = 60, PROGRAMS = 4 };
  fixture_ending e = { gettid(), -1, 0 };
  tsr_allocator memory = fixture_ending_memory(&e);
  tsr_runtime_opts opts = { .size = sizeof opts, .allocator = &memory };
  tsr_runtime *rt = fixture_join("short", .runtime = &opts, .on_failure = "error");
  CHECK_STR(tsr_runtime_message(rt), "");
  tsr__peers *peers = tsr__peers_of(rt);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  int32_t data[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
  tsr_array *x = tsr_put(s, data, TSR_I32, TSR_SHAPE(3, 3), tsr_on(mesh, "x,-"));
  int failed = 0, promised = 0;
  for (int which = 0; which < PROGRAMS; which++)
    for (int k = -3; k < ROUNDS; k++) {
      tsr_scope *inner = tsr_scope_open(rt);
      tsr_array *y = short_program(inner, tsr_keep(inner, x), mesh, which);
      if (test_process() == 1) e.left = k < 0 ? -1 : k;
      tsr_status status = tsr_eval(&y, 1);
      e.left = -1;
      promised += peers->all_promised;
      check_same(peers, status);
      failed += status != TSR_OK;
      if (status) CHECK_STATUS(status, TSR_ENOMEM, inner);
      else tsr_keep(s, y);
      tsr_scope_clear(inner);
      tsr_scope_close(inner);
    }
  CHECK(failed > 8);
  CHECK(promised > PROGRAMS * ROUNDS / 4);
  tsr_runtime_close(rt);
}
