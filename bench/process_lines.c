/* Four processes of one host: how soon they hear of a death, how soon they are there, and what
 * waiting takes of a core. And of two hosts, as they believe: how soon they are there by UCX, and
 * how long the smallest sum over both takes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { COUNT = 4, ROUNDS = 9 };
#define IDLE 2.0 /* seconds that are waited through */

/* What processes write down for the bench. */
typedef struct notes {
  double died, heard[COUNT], there[COUNT], waited[COUNT], worked[COUNT];
} notes;

static tsr_status add_all(tsr_runtime *rt)
{
  float x[64];
  double total = 0;
  for (int i = 0; i < 64; i++) x[i] = (float)i;
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = tsr_put(s, x, TSR_F32, TSR_SHAPE(64), tsr_on(tsr_mesh_default(rt, "x"), "x"));
  tsr_status status = tsr_read_scalar(tsr_cast(tsr_sum(a), TSR_F64), &total);
  tsr_scope_clear(s);
  tsr_scope_close(s);
  return status ? status : total == 2016 ? TSR_OK : TSR_EVALUE;
}

/* The last one sleeps while the others wait for it, and then dies while all compute. */
static int take_part(const char *address, int index, notes *out)
{
  tsr_runtime *rt = tsr_initialize("cpu:1", .coordinator = address, .process_count = COUNT,
                                   .process_index = index, .on_failure = "error");
  tsr_status status = add_all(rt);
  out->there[index] = bench_now();
  if (index == COUNT - 1) usleep((useconds_t)(IDLE * 1e6));
  double began = bench_now(), worked = bench_cpu();
  if (!status) status = add_all(rt);
  out->waited[index] = bench_now() - began;
  out->worked[index] = bench_cpu() - worked;
  for (int i = 0; i < 20 && !status; i++) status = add_all(rt);
  if (index == COUNT - 1) {
    out->died = bench_now();
    raise(SIGKILL);
  }
  while (!status) status = add_all(rt);
  out->heard[index] = bench_now();
  tsr_runtime_close(rt);
  return status != TSR_EPEER;
}

/* One round: what it took from the first fork until all were there; negative: it failed. */
static double run_round(int round, notes *out)
{
  char address[400];
  pid_t ids[COUNT];
  bool good = true;
  double last = 0;
  snprintf(address, sizeof address, "unix:@tessera-bench-%d-%d", (int)getpid(), round);
  double began = bench_now();
  for (int i = 0; i < COUNT; i++) {
    ids[i] = fork();
    if (ids[i] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      _exit(take_part(address, i, out));
    }
  }
  for (int i = 0; i < COUNT; i++) {
    int status = 1;
    if (ids[i] > 0) waitpid(ids[i], &status, 0);
    good = good && (status == 0) == (i < COUNT - 1);
    if (out->there[i] > last) last = out->there[i];
  }
  return good ? last - began : -1;
}

int bench_processes(const char *name)
{
  double starts[ROUNDS], notices[ROUNDS * (COUNT - 1)], idle[ROUNDS * (COUNT - 1)];
  notes *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  int used = 0;
  for (int round = 0; round < ROUNDS; round++) {
    starts[round] = run_round(round, shared);
    if (starts[round] < 0) {
      fprintf(stderr, "bench: processes did not do what they should\n");
      munmap(shared, sizeof *shared);
      return 1;
    }
    for (int i = 0; i < COUNT - 1; i++, used++) {
      notices[used] = shared->heard[i] - shared->died;
      idle[used] = 100 * shared->worked[i] / shared->waited[i];
    }
  }
  munmap(shared, sizeof *shared);
  bool all = strcmp(name, "processes") == 0;
  if (all || !strcmp(name, "death.notice"))
    bench_line("death.notice", bench_median(notices, used) * 1e3, "bar", 50, -1, "ms");
  if (all || !strcmp(name, "wait.cpu"))
    bench_line("wait.cpu", bench_median(idle, used), "bar", 2, -1, "%");
  if (all || !strcmp(name, "start.local.4"))
    bench_line("start.local.4", bench_median(starts, ROUNDS) * 1e3, "bar of ucx", 100, -1, "ms");
  return 0;
}

/* ---- by an engine ---------------------------------------------------------------------------- */

enum { SUMS = 2000 };

/* "there SECONDS sum SECONDS": when the first sum over all was done, by the clock of all, and what
 * each later one takes. */
int bench_start_child(void)
{
  tsr_runtime *rt = tsr_initialize("cpu:1");
  tsr_status status = tsr_runtime_status(rt);
  if (status) fprintf(stderr, "%s\n", tsr_runtime_message(rt));
  else status = add_all(rt);
  double there = bench_now(), last;
  for (int i = 0; i < SUMS / 10 && !status; i++) status = add_all(rt);
  double began = bench_now();
  for (int i = 0; i < SUMS && !status; i++) status = add_all(rt);
  last = (bench_now() - began) / SUMS;
  if (!status) printf("there %.9f sum %.9f\n", there, last);
  fflush(stdout);
  tsr_runtime_close(rt);
  return status != TSR_OK;
}

/* Starts so many programs, by turns on one host and on the other, as many on each. */
static bool start_apart(const char *self, int count, int hosts, double *start, double *sum)
{
  char command[2048], line[256];
  *start = *sum = 0;
  snprintf(command, sizeof command,
           "for i in $(seq 0 %d); do TSR_PROCESS_INDEX=$i TSR_PROCESS_COUNT=%d TSR_ENGINE=ucx "
           "TSR_HOST=h$((i * %d / %d)) TSR_COORDINATOR=unix:@tessera-bench-%d '%s' --start-apart & "
           "done; wait",
           count - 1, count, hosts, count, (int)getpid(), self);
  int found = 0;
  double began = bench_now(), there, each;
  FILE *out = popen(command, "r");
  if (!out) return false;
  while (fgets(line, sizeof line, out)) {
    if (sscanf(line, "there %lf sum %lf", &there, &each) != 2) continue;
    if (there - began > *start) *start = there - began;
    if (each > *sum) *sum = each;
    found++;
  }
  return pclose(out) == 0 && found == count;
}

static double start_of_jax(void)
{
  const char *python = getenv("BENCH_PYTHON");
  char command[1024];
  double seconds = -1;
  if (!python || !*python) return -1;
  snprintf(command, sizeof command, "'%s' bench/peers/start_processes.py 4 2>/dev/null", python);
  FILE *out = popen(command, "r");
  if (out && fscanf(out, "%lf", &seconds) != 1) seconds = -1;
  if (out) pclose(out);
  return seconds;
}

int bench_start_engine(const char *self)
{
  enum { TURNS = 5 };
  double starts[TURNS], jax[TURNS], sums[3][TURNS], unused;
  for (int i = 0; i < TURNS; i++) {
    bool good = start_apart(self, COUNT, 2, &starts[i], &sums[2][i]);
    good = good && start_apart(self, 2, 2, &unused, &sums[1][i]);
    good = good && start_apart(self, 2, 1, &unused, &sums[0][i]);
    jax[i] = i < 3 ? start_of_jax() : jax[0];
    if (good) continue;
    fprintf(stderr, "start.ucx.4: processes of two hosts did not do what they should\n");
    return 1;
  }
  bench_line("start.ucx.4", bench_median(starts, TURNS) * 1e3, "bar", 100, -1, "ms");
  double peer = bench_median(jax, 3);
  bench_line("start.ucx.4", bench_median(starts, TURNS) * 1e3, "JAX with its import",
             peer > 0 ? peer * 1e3 : -1, -1, "ms");
  bench_line("hosts.sum.2", bench_median(sums[1], TURNS) * 1e6, "one host",
             bench_median(sums[0], TURNS) * 1e6, -1, "us");
  bench_line("hosts.sum.4", bench_median(sums[2], TURNS) * 1e6, "2 hosts of one",
             bench_median(sums[1], TURNS) * 1e6, -1, "us");
  return 0;
}
