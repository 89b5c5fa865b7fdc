/* comm.allreduce, comm.all_gather, comm.reduce_scatter, comm.all_to_all (`comm`: all, with their
 * mean): `tessera run -n N tessera bench collectives` for 2 and 4 processes, beside Open MPI's own
 * collectives, JAX's by Gloo and ours between hosts by UCX; mlp.4proc: a step of training in four
 * processes and in one; wait.cpu: what waiting for another process takes of a core.
 *
 * Each side sweeps over all collectives and sizes in each round; the sides take turns. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 3, KINDS = 4, SIZES = 6, SIDES = 4 };

static const char *const kinds[KINDS] = { "all_reduce", "all_gather", "reduce_scatter",
                                          "all_to_all" };
static const char *const lines[KINDS] = { "comm.allreduce", "comm.all_gather",
                                          "comm.reduce_scatter", "comm.all_to_all" };
/* The last is ours, too: each process as if on a host of its own. */
static const char *const sides[SIDES] = { "ours", "Open MPI", "JAX, Gloo", "ours by UCX" };
static const int counts[] = { 2, 4 };
/* 8 bytes to 256 MiB. */
static const long long sizes[SIZES] = { 8, 256, 8192, 262144, 8388608, 268435456 };

/* Times of one side by collective, size and round; and of ours the shares of the copy limit. */
typedef struct sweep {
  double seconds[KINDS][SIZES][BENCH_ROUNDS], share[KINDS][SIZES][BENCH_ROUNDS];
  int found;
} sweep;

static void take(sweep *s, const char *kind, int size, double seconds, double share, int round)
{
  for (int k = 0; k < KINDS; k++)
    if (!strcmp(kind, kinds[k]) && size < SIZES) {
      s->seconds[k][size][round] = seconds;
      s->share[k][size][round] = share;
      s->found++;
    }
}

/* Lines of peers: "all_reduce 8 0.000001"; of ours a record of JSON. Sizes come in their order. */
static void read_line(sweep *s, const char *line, int round, int *size)
{
  static char last[32];
  char kind[32];
  double seconds = 0, share = -1;
  const char *at = strstr(line, "\"collective\": \"");
  if (at) {
    const char *us = strstr(at, "\"us\": "), *limit = strstr(at, "\"share\": ");
    if (!us || !limit || sscanf(at + 15, "%31[a-z_]", kind) != 1) return;
    seconds = strtod(us + 6, NULL) * 1e-6;
    if (strncmp(limit + 9, "null", 4) != 0) share = strtod(limit + 9, NULL);
  } else if (sscanf(line, "%31[a-z_] %*d %lf", kind, &seconds) != 2) {
    return;
  }
  *size = strcmp(last, kind) == 0 ? *size + 1 : 0;
  snprintf(last, sizeof last, "%s", kind);
  take(s, kind, *size, seconds, share, round);
}

static bool make_sweep(sweep *s, const char *command, int round)
{
  char line[1024];
  int size = 0, before = s->found;
  FILE *out = *command ? popen(command, "r") : NULL;
  if (!out) return false;
  /* Nothing of the sweep before. */
  read_line(s, "none 0 0", round, &size);
  while (fgets(line, sizeof line, out)) read_line(s, line, round, &size);
  return pclose(out) == 0 && s->found - before == KINDS * SIZES;
}

/* The command lines of all sides; empty where one is missing. */
static void say_commands(const char *tool, int count, char out[SIDES][2048])
{
  const char *python = getenv("BENCH_PYTHON"), *dir = bench_data_dir();
  char all[256] = "", build[2048];
  for (int i = 0; i < SIZES; i++)
    snprintf(all + strlen(all), sizeof all - strlen(all), " %lld", sizes[i]);
  snprintf(out[0], sizeof out[0],
           "'%s' run -n %d '%s' bench collectives --json --factor 32 2>/dev/null", tool, count,
           tool);
  snprintf(build, sizeof build,
           "mpicc -O2 -o '%s/collectives_mpi' -x c bench/peers/collectives_mpi.inc >/dev/null 2>&1",
           dir);
  snprintf(out[3], sizeof out[3],
           "'%s' run -n %d --engine ucx sh -c 'TSR_HOST=h$TSR_PROCESS_INDEX exec \"$0\" bench "
           "collectives --json --factor 32' '%s' 2>/dev/null",
           tool, count, tool);
  out[1][0] = out[2][0] = 0;
  if (system(build) == 0)
    snprintf(out[1], sizeof out[1],
             "mpirun --allow-run-as-root --oversubscribe -n %d '%s/collectives_mpi'%s 2>/dev/null",
             count, dir, all);
  if (python && *python)
    snprintf(out[2], sizeof out[2], "'%s' bench/peers/collectives_gloo.py %d%s 2>/dev/null", python,
             count, all);
}

/* One line a collective, and one a size below it; returns the sums of logarithms of ratios. */
static void print_kind(int kind, int count, sweep all[SIDES], const bool *there, double logs[SIDES])
{
  double means[SIDES] = { 0 }, medians[SIDES][SIZES], share[SIZES];
  for (int side = 0; side < SIDES; side++) {
    for (int i = 0; i < SIZES && there[side]; i++) {
      medians[side][i] = bench_median(all[side].seconds[kind][i], ROUNDS);
      means[side] += log(medians[side][i]) / SIZES;
    }
    logs[side] += means[side] - means[0];
  }
  for (int i = 0; i < SIZES; i++) share[i] = bench_median(all[0].share[kind][i], ROUNDS);
  char name[32];
  snprintf(name, sizeof name, "%s.%d", lines[kind], count);
  for (int side = 1; side < SIDES; side++)
    bench_line(name, exp(means[0]) * 1e6, sides[side], there[side] ? exp(means[side]) * 1e6 : -1,
               -1, "us");
  for (int i = 0; i < SIZES; i++) {
    printf("    %9lld B %12.2f us", sizes[i], medians[0][i] * 1e6);
    for (int side = 1; side < SIDES; side++)
      if (there[side])
        printf("  %s %.2f us, %.2f", sides[side], medians[side][i] * 1e6,
               medians[side][i] / medians[0][i]);
    if (share[i] >= 0) printf("  share of the copy limit %.2f", share[i]);
    printf("\n");
  }
  fflush(stdout);
}

int bench_comm(const char *only, const char *tool)
{
  static sweep all[SIDES];
  double logs[SIDES] = { 0 };
  bool every = !strcmp(only, "comm"), there[SIDES] = { true, true, true, true };
  int terms = 0, failed = 0;
  for (size_t c = 0; c < sizeof counts / sizeof *counts && !failed; c++) {
    char commands[SIDES][2048];
    memset(all, 0, sizeof all);
    say_commands(tool, counts[c], commands);
    for (int round = 0; round < ROUNDS && !failed; round++)
      for (int side = 0; side < SIDES; side++) {
        bool good = there[side] && make_sweep(&all[side], commands[side], round);
        if (side == 0) failed = !good;
        else there[side] = good;
      }
    for (int k = 0; k < KINDS && !failed; k++) {
      if (!every && strcmp(only, lines[k]) != 0) continue;
      print_kind(k, counts[c], all, there, logs);
      terms++;
    }
  }
  if (failed) fprintf(stderr, "comm: '%s' bench collectives failed\n", tool);
  for (int side = 1; side < SIDES && every && !failed; side++)
    if (there[side])
      printf("comm: %s takes %.2f times as long in the geometric mean\n", sides[side],
             exp(logs[side] / terms));
  return failed;
}

/* ---- a step of training ---------------------------------------------------------------------- */

/* Seconds of a step, and the loss, as the child says it. */
static bool run_child(const char *command, double *seconds, double *loss)
{
  char line[256];
  bool found = false;
  FILE *out = popen(command, "r");
  if (!out) return false;
  while (fgets(line, sizeof line, out)) {
    const char *at = strstr(line, "step ");
    if (at) found = sscanf(at, "step %lf loss %lf", seconds, loss) == 2;
  }
  return pclose(out) == 0 && found;
}

int bench_mlp_processes(const char *self, const char *tool)
{
  enum { TURNS = 5 };
  char alone[2048], several[2048];
  double own[BENCH_ROUNDS], theirs[BENCH_ROUNDS], loss[2];
  snprintf(alone, sizeof alone, "'%s' --mlp-steps", self);
  snprintf(several, sizeof several, "'%s' run -n 4 '%s' --mlp-steps", tool, self);
  for (int round = 0; round < TURNS; round++) {
    bool good = run_child(several, &own[round], &loss[0]);
    good = good && run_child(alone, &theirs[round], &loss[1]);
    if (good && loss[0] == loss[1]) continue;
    fprintf(stderr, "mlp.4proc: %s\n", good ? "losses differ" : "a process failed");
    return 1;
  }
  bench_line("mlp.4proc", bench_median(own, TURNS) * 1e3, "ours, 1 process",
             bench_median(theirs, TURNS) * 1e3, -1, "ms");
  return 0;
}

/* ---- waiting --------------------------------------------------------------------------------- */

enum { WAIT = 2 };

/* Process 0 reads a sum to which process 1 comes late. */
int bench_wait_child(void)
{
  double total = 0;
  tsr_runtime *rt = tsr_initialize("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *x = tsr_full(s, 1, TSR_F32, TSR_SHAPE(64), tsr_on(mesh, "x"));
  tsr_status status = tsr_read_scalar(tsr_sum(x), &total);
  int index = tsr_process_index(rt);
  if (index) sleep(WAIT);
  double busy = bench_cpu(), start = bench_now();
  if (!status) status = tsr_read_scalar(tsr_sum(tsr_mul(x, 2)), &total);
  if (!index && !status) printf("step %.9f loss %.9f\n", bench_cpu() - busy, bench_now() - start);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status != TSR_OK;
}

int bench_wait(const char *self, const char *tool)
{
  enum { TURNS = 3 };
  char command[2048];
  double shares[BENCH_ROUNDS];
  snprintf(command, sizeof command, "'%s' run -n 2 '%s' --wait", tool, self);
  for (int round = 0; round < TURNS; round++) {
    double busy, seconds;
    if (!run_child(command, &busy, &seconds)) {
      fprintf(stderr, "wait.cpu: a process failed\n");
      return 1;
    }
    shares[round] = busy / seconds * 100;
  }
  bench_line("wait.cpu", bench_median(shares, TURNS), "bar", 2, -1, "%");
  return 0;
}
