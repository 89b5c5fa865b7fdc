/* Members as threads of one process, each with a runtime of its own, around one coordinator: all of
 * the talking where thread sanitizers see both sides. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"
#include "support/process_fixture.h"

enum { COUNT = 4, ROUNDS = 100 };

typedef struct part {
  pthread_t thread;
  const char *address;
  int index;
  tsr_runtime *rt;
} part;

static tsr_runtime *join(const part *p)
{
  tsr_runtime *rt = tsr__runtime_new(NULL);
  tsr_process_opts opts = { .size = sizeof opts,
                            .coordinator = p->address,
                            .process_count = COUNT,
                            .process_index = p->index,
                            .secret = "threads",
                            .start_timeout = 60 };
  tsr__comm_install(rt, "2 of each process", &opts);
  CHECK_STR(tsr_runtime_message(rt), "");
  return rt;
}

/* Two threads of each member ask at the same time. */
static void *count_up(void *argument)
{
  part *p = argument;
  tsr_scope *s = tsr_scope_open(p->rt);
  int64_t sum;
  char key[40];
  for (int i = 0; i < ROUNDS; i++) {
    snprintf(key, sizeof key, "%d/%d", p->index, i);
    CHECK_STATUS(tsr_store_add(s, "all", 1, &sum), TSR_OK, s);
    CHECK_STATUS(tsr_store_set(s, key, key, strlen(key)), TSR_OK, s);
  }
  tsr_scope_close(s);
  return NULL;
}

static void *take_part(void *argument)
{
  part *p = argument;
  tsr_value value;
  pthread_t other;
  int64_t sum = 0;
  char key[40];
  p->rt = join(p);
  tsr_scope *s = tsr_scope_open(p->rt);
  CHECK_I64(pthread_create(&other, NULL, count_up, p), 0);
  for (int i = 0; i < ROUNDS; i++) {
    snprintf(key, sizeof key, "%d/%d", (p->index + 1) % COUNT, i);
    CHECK_STATUS(tsr_store_get(s, key, &value, .timeout = 60), TSR_OK, s);
    CHECK_STR(value.data, key);
    CHECK_STATUS(tsr_sync(s, "round", .timeout = 60), TSR_OK, s);
  }
  CHECK_I64(pthread_join(other, NULL), 0);
  CHECK_STATUS(tsr_sync(s, "counted", .timeout = 60), TSR_OK, s);
  CHECK_STATUS(tsr_store_add(s, "all", 0, &sum), TSR_OK, s);
  CHECK_I64(sum, COUNT * ROUNDS);
  CHECK_STATUS(tsr_sync(s, "seen", .timeout = 60), TSR_OK, s);
  /* One gives up while the others wait. */
  if (p->index == 2) CHECK_STATUS(tsr_process_fail(s, "enough"), TSR_OK, s);
  else CHECK_STATUS(tsr_sync(s, "never", .timeout = 60), TSR_EPEER, s);
  if (p->index != 2) CHECK(!tsr_process_alive(p->rt, 2));
  tsr_runtime_close(p->rt);
  return NULL;
}

TEST(members_may_be_threads)
{
  part parts[COUNT];
  char address[300];
  snprintf(address, sizeof address, "%s", fixture_socket("threads"));
  for (int i = 0; i < COUNT; i++) {
    parts[i] = (part){ .address = address, .index = i };
    CHECK_I64(pthread_create(&parts[i].thread, NULL, take_part, &parts[i]), 0);
  }
  for (int i = 0; i < COUNT; i++) CHECK_I64(pthread_join(parts[i].thread, NULL), 0);
}
