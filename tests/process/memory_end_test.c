/* Memory that ends for one process, at any allocation of an evaluation, planning included: all
 * processes get the same status, that one's message, and go on together. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/process_fixture.h"

/* Fails one allocation of the thread that asks for it. */
typedef struct ending {
  pid_t thread;
  int left; /* allocations until then; negative: none fails */
} ending;

static void *take(size_t size, size_t alignment, void *user)
{
  ending *e = user;
  if (e->left >= 0 && gettid() == e->thread && e->left-- == 0) return NULL;
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void give(void *block, size_t size, void *user)
{
  (void)user, (void)size;
  free(block);
}

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
  ending e = { gettid(), -1 };
  tsr_allocator memory = { take, give, &e };
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
