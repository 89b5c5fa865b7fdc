/* Signals while long work runs: a timer fires every millisecond, with and without SA_RESTART, on
 * any thread; no call is seen to be interrupted and every result has the same bits. And the tool,
 * ended in the middle of writing, leaves no half of its file under the name that was asked for. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/verb_cases.h"

static _Atomic int64_t fired;

static void count_signal(int number)
{
  (void)number;
  fired++;
}

static void start_timer(int flags, long microseconds)
{
  struct sigaction action = { .sa_handler = count_signal, .sa_flags = flags };
  sigemptyset(&action.sa_mask);
  CHECK_I64(sigaction(SIGALRM, &action, NULL), 0);
  struct itimerval often = { { 0, microseconds }, { 0, microseconds } };
  CHECK_I64(setitimer(ITIMER_REAL, &often, NULL), 0);
}

static void run_all(int flags)
{
  verb_files();
  for (int i = 0; i < verb_case_count; i++) {
    uint64_t quiet = 0, found = 0;
    tsr_runtime *rt = tsr_runtime_open("cpu:4", .threads = 2);
    CHECK_STATUS(verb_run(&verb_cases[i], rt, &quiet), TSR_OK, NULL);
    tsr_runtime_close(rt);
    start_timer(flags, 200);
    rt = tsr_runtime_open("cpu:4", .threads = 2);
    tsr_status status = verb_run(&verb_cases[i], rt, &found);
    tsr_runtime_close(rt);
    setitimer(ITIMER_REAL, &(struct itimerval){ .it_value = { 0 } }, NULL);
    if (status) FAIL("%s: %s", verb_cases[i].name, verb_message());
    if (found != quiet) FAIL("%s: another result", verb_cases[i].name);
  }
  CHECK(fired > 0);
}

TEST_TIMEOUT(every_verb_under_signals_that_restart_calls, 300)
{
  run_all(SA_RESTART);
}

TEST_TIMEOUT(every_verb_under_signals_that_interrupt_calls, 300)
{
  run_all(0);
}

/* Sort, join, write, read back: seconds of work for a thousand signals. */
static double long_job(int64_t rows)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding at = tsr_on(tsr_mesh_default(rt, "d"), "d");
  tsr_array *u = tsr_uniform(s, .key = 7, .shape = TSR_SHAPE(rows), .on = at);
  tsr_array *k = tsr_cast(tsr_mul(u, 5000), TSR_I64);
  tsr_frame *df = tsr_frame_new(s, { "u", u }, { "k", k });
  tsr_frame *right = tsr_frame_group_agg(df, "k", "m = mean(u)");
  tsr_frame *all = tsr_frame_join(tsr_frame_sort(df, "u desc"), right, "k");
  CHECK_STATUS(tsr_frame_write_csv(all, test_tmp("long.csv.gz")), TSR_OK, s);
  tsr_frame *again = tsr_frame_read_csv(s, test_tmp("long.csv.gz"));
  tsr_row *row = tsr_frame_row(tsr_frame_agg(again, "x = sum(u * m)"));
  CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
  double sum = tsr_row_f64(row, "x");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return sum;
}

TEST_TIMEOUT(long_work_under_signals_has_the_same_bits, 300)
{
  int64_t rows = test_quick() ? 20000 : 200000;
  double quiet = long_job(rows);
  start_timer(0, 1000);
  double found = long_job(rows);
  setitimer(ITIMER_REAL, &(struct itimerval){ .it_value = { 0 } }, NULL);
  CHECK_F64_BITS(found, quiet);
  CHECK(fired > 0);
}

/* ---- the tool -------------------------------------------------------------------------------- */

static const char *tool_path(void)
{
  static char path[4200];
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  CHECK(length > 0);
  self[length] = 0;
  for (int i = 0; i < 3; i++) *strrchr(self, '/') = 0;
  snprintf(path, sizeof path, "%s/bin/tessera", self);
  return path;
}

/* Files of the folder "t" beside "o.*"; the target is absent, as it was, or whole. */
static int strangers(void)
{
  int count = 0;
  DIR *folder = opendir(test_tmp("t"));
  for (struct dirent *e; (e = readdir(folder));)
    count += e->d_name[0] != '.' && strncmp(e->d_name, "o.csv", strlen(e->d_name)) != 0;
  closedir(folder);
  return count;
}

static int run_tool(const char *in, const char *out, int number, long microseconds)
{
  pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(99);
    execl(tool_path(), "tessera", "convert", in, out, (char *)NULL);
    _exit(99);
  }
  int status = 0;
  if (number) {
    nanosleep(&(struct timespec){ 0, microseconds * 1000 }, NULL);
    kill(child, number);
  }
  CHECK_I64(waitpid(child, &status, 0), child);
  return status;
}

TEST_TIMEOUT(the_tool_ended_while_it_writes_leaves_no_half_file, 300)
{
  enum { LINES = 150000 };
  if (access(tool_path(), X_OK)) SKIP("the tool was not built");
  char *text = malloc(LINES * 24 + 16), *at = text;
  at += sprintf(at, "a,b\n");
  for (int i = 0; i < LINES; i++) at += sprintf(at, "%d,%d.25\n", i, i * 7);
  const char *in = test_tmp("in.csv");
  mkdir(test_tmp("t"), 0777);
  const char *out = test_tmp("t/o.csv");
  test_write(in, text, (size_t)(at - text));
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  int status = run_tool(in, out, 0, 0);
  clock_gettime(CLOCK_MONOTONIC, &end);
  long whole_time = (end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000;
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  size_t whole, length;
  free(test_read(out, &whole));
  static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
  for (int i = 0, rounds = test_quick() ? 6 : 24; i < rounds; i++) {
    int number = signals[i % 3];
    test_write(out, "before", 6);
    status = run_tool(in, out, number, whole_time * (i + 1) / rounds);
    free(test_read(out, &length));
    bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    bool ended = WIFSIGNALED(status) && WTERMSIG(status) == number;
    if (!done && !ended) FAIL("signal %d: ends with %d", number, status);
    if (length != (done ? whole : 6) && length != whole)
      FAIL("signal %d: %zu bytes of %zu", number, length, whole);
    if (strangers()) FAIL("signal %d: leaves a temporary file", number);
  }
  free(text);
}
