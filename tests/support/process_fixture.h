/* Tests of several processes: they meet at a socket in the test's own folder, or at a free port. */
#ifndef TESTS_SUPPORT_PROCESS_FIXTURE_H
#define TESTS_SUPPORT_PROCESS_FIXTURE_H

#include <sys/types.h>

#include "harness.h"
#include "tessera.h"

/* "unix:" and a path of that name in the test's folder; good until the next call. */
const char *fixture_socket(const char *name);
/* "127.0.0.1:PORT", the same in all processes of a test, and free when it began. */
const char *fixture_port(void);
/* At most 8 ports of this host that nobody listens at now. */
void fixture_free_ports(int *out, int count);

/* Joins the other processes of a TEST_PROCESSES test; start_timeout 30 s unless it is given. */
#define fixture_join(...) FIXTURE_JOIN_(__VA_ARGS__, .size = sizeof(tsr_process_opts))
#define FIXTURE_JOIN_(name, ...) fixture_join_with((name), &(tsr_process_opts){ __VA_ARGS__ })
tsr_runtime *fixture_join_with(const char *name, const tsr_process_opts *opts);

/* A process that joins as number `index` of `count`, does `work` and ends with what it returns. The
 * caller has no threads. */
typedef int (*fixture_work)(tsr_runtime *rt, tsr_scope *s, int index);
pid_t fixture_start(const char *name, int index, int count, fixture_work work);
/* Waits for it: its exit status, or 128 and its signal. */
int fixture_end(pid_t process);
/* `count` of them, at most 8, which all end well. */
void fixture_run(const char *name, int count, fixture_work work);

/* Memory of which one allocation of the thread that asks for it fails: after `left` more; negative:
 * none. `count`: all that it made. */
typedef struct fixture_ending {
  pid_t thread;
  int left, count;
} fixture_ending;
tsr_allocator fixture_ending_memory(fixture_ending *ending);

/* Seconds of a clock that does not go back. */
double fixture_now(void);

#endif
