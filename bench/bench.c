/* make bench: runs the lines of bench/README.md and prints one line a figure. */
#include "bench.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double rusage_seconds(int who)
{
  struct rusage u;
  getrusage(who, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

double bench_cpu(void)
{
  return rusage_seconds(RUSAGE_SELF);
}

static double clock_seconds(clockid_t clock)
{
  struct timespec t = { 0 };
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_now(void)
{
  static int by_cpu = -1;
  if (by_cpu < 0) {
    const char *clock = getenv("BENCH_CLOCK");
    by_cpu = clock && strcmp(clock, "cpu") == 0;
  }
  if (!by_cpu) return clock_seconds(CLOCK_MONOTONIC);
  return clock_seconds(CLOCK_PROCESS_CPUTIME_ID) + rusage_seconds(RUSAGE_CHILDREN);
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_median(double *times, int count)
{
  if (count < 1) return -1;
  qsort(times, (size_t)count, sizeof *times, by_value);
  return count % 2 ? times[count / 2] : (times[count / 2 - 1] + times[count / 2]) / 2;
}

void bench_line(const char *name, double ours, const char *peer_name, double peer, double limit,
                const char *unit)
{
  char peer_text[32] = "n/a", ratio[32] = "n/a", limit_text[32] = "n/a";
  if (peer > 0) {
    snprintf(peer_text, sizeof peer_text, "%.4g", peer);
    snprintf(ratio, sizeof ratio, "%.2f", peer / ours);
  }
  if (limit > 0) snprintf(limit_text, sizeof limit_text, "%.2f", limit / ours);
  printf("%-16s %10.4g %-4s %-18s %10s %8s %8s\n", name, ours, unit, peer_name, peer_text, ratio,
         limit_text);
  fflush(stdout);
}

void bench_eight(const char *name, const bench_pair *took)
{
  char full[64];
  snprintf(full, sizeof full, "%s.8dev", name);
  bench_line(full, took->eight, "ours on 1 device", took->one, -1, "s");
  printf("  CPU %.3f s, %.2f times that on 1 device\n", took->eight_cpu,
         took->eight_cpu / took->one_cpu);
}

const char *bench_data_dir(void)
{
  const char *dir = getenv("BENCH_DATA");
  if (!dir) dir = "build/bench-data";
  mkdir("build", 0777);
  mkdir(dir, 0777);
  return dir;
}

bool bench_short(double seconds)
{
  return seconds >= 0 && seconds < 0.05;
}

tsr_array *bench_reals(tsr_scope *s, uint32_t salt, double scale, tsr_shape shape, tsr_sharding on)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  float *x = malloc((size_t)count * sizeof *x);
  for (int64_t i = 0; i < count; i++) {
    uint32_t mixed = (uint32_t)i * 2654435761u + salt * 40503u;
    x[i] = (float)scale * ((float)(mixed >> 8) * 0x1p-23f - 1);
  }
  tsr_array *array = tsr_put(s, x, TSR_F32, shape, on);
  free(x);
  return array;
}

/* ---- peers ---- */

struct bench_peer {
  pid_t pid;
  FILE *to, *from;
};

bench_peer *bench_peer_open(const char *script, const char *arguments)
{
  return bench_peer_open_in("", script, arguments);
}

bench_peer *bench_peer_open_in(const char *family, const char *script, const char *arguments)
{
  char own[64];
  int down[2], up[2];
  snprintf(own, sizeof own, "BENCH_PYTHON_%s", family);
  const char *python = getenv(own);
  if (!python) python = getenv("BENCH_PYTHON");
  if (!python || !*python || pipe(down) || pipe(up)) return NULL;
  pid_t pid = fork();
  if (pid == 0) {
    char command[2048];
    snprintf(command, sizeof command, "exec '%s' bench/peers/%s %s", python, script, arguments);
    dup2(down[0], 0);
    dup2(up[1], 1);
    close(down[1]);
    close(up[0]);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  close(down[0]);
  close(up[1]);
  /* Peers that are started later must not keep this one's input open. */
  fcntl(down[1], F_SETFD, FD_CLOEXEC);
  fcntl(up[0], F_SETFD, FD_CLOEXEC);
  bench_peer *peer = malloc(sizeof *peer);
  *peer = (bench_peer){ pid, fdopen(down[1], "w"), fdopen(up[0], "r") };
  char line[256];
  if (!fgets(line, sizeof line, peer->from) || strncmp(line, "ready", 5) != 0) {
    bench_peer_close(peer);
    return NULL;
  }
  /* A figure says little without the version of the peer. */
  if (line[5] == ' ' && line[6] != '\n') printf("# %s: %s", script, line + 6);
  return peer;
}

/* Pools of threads go on spinning when their work is done, some for 0.2 s: who comes next would run
 * against them. Returns when a process has slept through two looks. */
static void settle(pid_t pid)
{
  const struct timespec look = { .tv_nsec = 20000000 };
  clockid_t clock;
  if (clock_getcpuclockid(pid, &clock)) return;
  for (int quiet = 0, looks = 0; quiet < 2 && looks < 50; looks++) {
    double before = clock_seconds(clock);
    nanosleep(&look, NULL);
    quiet = clock_seconds(clock) - before < 5e-4 ? quiet + 1 : 0;
  }
}

double bench_peer_run(bench_peer *peer, char *result, int size)
{
  return bench_peer_ask(peer, "run", result, size);
}

double bench_peer_ask(bench_peer *peer, const char *ask, char *result, int size)
{
  char line[1024];
  if (!peer) return -1;
  settle(getpid());
  fprintf(peer->to, "%s\n", ask);
  fflush(peer->to);
  if (!fgets(line, sizeof line, peer->from)) return -1;
  settle(peer->pid);
  char *rest;
  double seconds = strtod(line, &rest);
  rest[strcspn(rest, "\n")] = 0;
  snprintf(result, (size_t)size, "%s", *rest == ' ' ? rest + 1 : rest);
  return seconds;
}

void bench_peer_close(bench_peer *peer)
{
  if (!peer) return;
  fclose(peer->to);
  fclose(peer->from);
  waitpid(peer->pid, NULL, 0);
  free(peer);
}

/* ---- lines ---- */

static int run_line(const char *name, const char *self)
{
  char library[1024], tool[1024];
  int folder = (int)(strrchr(self, '/') - self + 1);
  snprintf(library, sizeof library, "%.*s../lib/libtessera.so", folder, self);
  snprintf(tool, sizeof tool, "%.*s../bin/tessera", folder, self);
  if (strcmp(name, "main_job") == 0) return bench_main_job(false);
  if (strcmp(name, "main_job.finite") == 0) return bench_main_job(true);
  if (strncmp(name, "call.", 5) == 0) return bench_call(name);
  if (strncmp(name, "plan.", 5) == 0) return bench_plans(atoi(name + 5), strstr(name, ".placed"));
  if (strcmp(name, "start") == 0) return bench_start(self);
  if (strcmp(name, "size") == 0) return bench_size(library);
  if (strcmp(name, "sum.f64.memory") == 0) return bench_sum(TSR_F64);
  if (strcmp(name, "sum.f32.memory") == 0) return bench_sum(TSR_F32);
  if (strcmp(name, "view.slice") == 0) return bench_view(false);
  if (strcmp(name, "view.transpose") == 0) return bench_view(true);
  if (strncmp(name, "psum", 4) == 0 || strcmp(name, "all_gather.4m") == 0)
    return bench_collectives(strcmp(name, "psum") == 0 ? NULL : name);
  if (strncmp(name, "comm", 4) == 0) return bench_comm(name, tool);
  if (strcmp(name, "wait.cpu") == 0) return bench_wait(self, tool);
  if (strcmp(name, "mlp.4proc") == 0) return bench_mlp_processes(self, tool);
  if (strcmp(name, "frames.4proc") == 0) return bench_frames_processes(self, tool);
  if (strcmp(name, "vmap") == 0) return bench_vmap();
  if (strcmp(name, "scan") == 0) return bench_scan();
  if (strcmp(name, "load.jpeg") == 0 || strcmp(name, "load.tfrecord") == 0 ||
      strcmp(name, "load.tar") == 0)
    return bench_loading_files(name);
  if (strncmp(name, "load.", 5) == 0 || strcmp(name, "shuffle.index") == 0)
    return bench_loading(name);
  if (strcmp(name, "cnn.fed") == 0 || strcmp(name, "digits.fed") == 0) return bench_fed(name);
  if (strncmp(name, "reshard", 7) == 0 || strncmp(name, "all_", 4) == 0 ||
      strncmp(name, "reduce.", 7) == 0)
    return bench_reshards(strcmp(name, "reshard") == 0 ? NULL : name);
  if (strncmp(name, "many", 4) == 0) return bench_many(name);
  if (strncmp(name, "fsdp", 4) == 0) return bench_layers(name);
  if (strcmp(name, "matmul.f32") == 0) return bench_matmul(TSR_F32);
  if (strcmp(name, "matmul.f64") == 0) return bench_matmul(TSR_F64);
  if (strcmp(name, "conv.f32") == 0) return bench_conv();
  if (strcmp(name, "uniform") == 0) return bench_draws(false);
  if (strcmp(name, "normal") == 0) return bench_draws(true);
  if (strcmp(name, "main_job.generated") == 0) return bench_generated();
  if (strcmp(name, "processes") == 0 || strcmp(name, "death.notice") == 0 ||
      strcmp(name, "wait.cpu") == 0 || strcmp(name, "start.local.4") == 0)
    return bench_processes(name);
  if (strcmp(name, "start.ucx.4") == 0) return bench_start_engine(self);
  if (strcmp(name, "tool.start") == 0) return bench_tool_start(tool);
  if (strcmp(name, "csv.read") == 0) return bench_csv(false);
  if (strcmp(name, "csv.agg") == 0) return bench_csv(true);
  if (strncmp(name, "arrays.1dev", 11) == 0) return bench_arrays(1, name[11] ? name + 12 : NULL);
  if (strncmp(name, "arrays.8dev", 11) == 0) return bench_arrays(8, name[11] ? name + 12 : NULL);
  if (strncmp(name, "mlp.", 4) == 0 || strncmp(name, "cnn.", 4) == 0 ||
      strcmp(name, "transformer.8dev") == 0)
    return bench_training(name);
  if (strncmp(name, "first_step.", 11) == 0) return bench_first_step(name + 11, self);
  if (strncmp(name, "group", 5) == 0) return bench_groups(name);
  static const char *const lines[] = { "line", "sort.f32", "argsort.f32", "sort.8dev",
                                       "cumsum.8dev" };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (strcmp(name, lines[i]) == 0) return bench_lines_sorted(name);
  if (strncmp(name, "sort", 4) == 0) return bench_sorts(name);
  if (strcmp(name, "text.memory") == 0) return bench_text_memory(self);
  if (strncmp(name, "text", 4) == 0) return bench_texts(name);
  if (strncmp(name, "json", 4) == 0 || strcmp(name, "csv.gz") == 0) return bench_files(name);
  if (strncmp(name, "join", 4) == 0) return bench_joins(name);
  if (strncmp(name, "ckpt", 4) == 0) return bench_checkpoints(name);
  fprintf(stderr, "bench: no line is named %s\n", name);
  return 2;
}

/* What the `start` line times. */
static int start_child(void)
{
  float x[1024];
  double total = 0;
  for (int i = 0; i < 1024; i++) x[i] = (float)i;
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = tsr_put(s, x, TSR_F32, TSR_SHAPE(1024), (tsr_sharding){ 0 });
  tsr_status status = tsr_read_scalar(tsr_sum(a), &total);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  printf("%g\n", total);
  return status != TSR_OK;
}

/* The lines that run when no name is given, in this order. */
static const char *const names[] = {
  "call.3",
  "call.3.8dev",
  "call.fn",
  "call.fn.8dev",
  "plan.10",
  "plan.1000",
  "plan.10000",
  "plan.10.placed",
  "plan.1000.placed",
  "plan.10000.placed",
  "start",
  "tool.start",
  "processes",
  "start.ucx.4",
  "size",
  "sum.f64.memory",
  "sum.f32.memory",
  "view.slice",
  "view.transpose",
  "reshard",
  "many",
  "fsdp",
  "psum",
  "vmap",
  "scan",
  "load.3k",
  "load.3k.map",
  "load.52b",
  "load.8dev",
  "load.first",
  "load.resume",
  "load.jpeg",
  "load.tfrecord",
  "load.tar",
  "shuffle.index",
  "matmul.f32",
  "matmul.f64",
  "conv.f32",
  "uniform",
  "normal",
  "main_job",
  "main_job.finite",
  "main_job.generated",
  "csv.read",
  "csv.agg",
  "csv.gz",
  "json",
  "group",
  "sort",
  "text",
  "text.memory",
  "line",
  "join",
  "ckpt",
  "arrays.1dev",
  "arrays.8dev",
  "mlp.1dev",
  "mlp.8dev",
  "cnn.1dev",
  "cnn.8dev",
  "cnn.fed",
  "digits.fed",
  "transformer.8dev",
  "first_step.mlp",
  "first_step.cnn",
  "comm",
  "mlp.4proc",
  "wait.cpu",
  "frames.4proc",
};
enum { NAMES = sizeof names / sizeof *names };

static int print_names(void)
{
  for (int i = 0; i < NAMES; i++) puts(names[i]);
  return 0;
}

int main(int argc, char **argv)
{
  if (argc > 1 && strcmp(argv[1], "--names") == 0) return print_names();
  if (argc > 1 && strcmp(argv[1], "--start") == 0) return start_child();
  if (argc > 2 && strcmp(argv[1], "--first-step") == 0) return bench_first_step_child(argv[2]);
  if (argc > 1 && strcmp(argv[1], "--mlp-steps") == 0) return bench_mlp_child();
  if (argc > 1 && strcmp(argv[1], "--start-apart") == 0) return bench_start_child();
  if (argc > 1 && strcmp(argv[1], "--wait") == 0) return bench_wait_child();
  if (argc > 2 && strcmp(argv[1], "--text") == 0) return bench_text_child(argv[2]);
  if (argc > 2 && strcmp(argv[1], "--frames") == 0) return bench_frames_child(argv[2]);
  signal(SIGPIPE, SIG_IGN);
  printf("%-16s %10s %-4s %-18s %10s %8s %8s\n", "name", "ours", "", "peer-name", "peer", "ratio",
         "limit");
  int failed = 0;
  if (argc > 1) return run_line(argv[1], argv[0]);
  for (int i = 0; i < NAMES; i++) failed |= run_line(names[i], argv[0]);
  return failed;
}
