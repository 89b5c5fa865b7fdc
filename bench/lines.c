/* The lines of bench/README.md. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int report_failure(const char *name, const char *message)
{
  fprintf(stderr, "%s: %s\n", name, message);
  return 1;
}

static bool close_to(double a, double b)
{
  return a == b || fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* ---- main_job ---- */

static int64_t job_rows(void)
{
  const char *text = getenv("BENCH_ROWS");
  return text ? strtoll(text, NULL, 10) : 100000000;
}

/* Draws the two columns once and saves them for both sides. */
static tsr_status make_columns(tsr_scope *outer, int64_t rows, const char *revenue,
                               const char *sessions)
{
  struct stat info;
  if (stat(revenue, &info) == 0 && info.st_size > rows * 8 && info.st_size < rows * 8 + 4096 &&
      stat(sessions, &info) == 0)
    return TSR_OK;
  tsr_scope *s = tsr_scope_open(outer);
  tsr_array *r = tsr_exponential(s, 100, .key = 1, .shape = TSR_SHAPE(rows));
  tsr_array *c = tsr_poisson(s, 5, .key = 2, .shape = TSR_SHAPE(rows));
  tsr_status status = tsr_save_npy(r, revenue);
  if (!status) status = tsr_save_npy(c, sessions);
  if (status) fprintf(stderr, "main_job: %s\n", tsr_message(s));
  tsr_scope_close(s);
  return status;
}

static tsr_status job_once(tsr_scope *outer, tsr_array *revenue, tsr_array *sessions, bool finite,
                           double out[3])
{
  tsr_scope *s = tsr_scope_open(outer);
  tsr_frame *df = tsr_frame_new(s, { "revenue", revenue }, { "sessions", sessions });
  df = tsr_frame_filter(df, finite ? "revenue > ? and sessions > 0" : "revenue > ?", 50);
  df = tsr_frame_assign(df, "rps", "revenue / sessions");
  df = tsr_frame_agg(df, finite ? "a = sum(revenue), b = sum(sessions), c = mean(rps)"
                                : "a = sum(revenue), b = sum(sessions), c = max(rps)");
  tsr_table *t = NULL;
  tsr_status status = tsr_frame_collect(df, &t);
  if (status) fprintf(stderr, "main_job: %s\n", tsr_message(s));
  for (int i = 0; i < 3 && !status; i++) out[i] = tsr_table_f64(t, 0, i);
  tsr_scope_close(s);
  return status;
}

/* The columns on one or eight devices. */
typedef struct job_side {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_array *columns[2];
} job_side;

static bool open_job(job_side *d, int devices, const char *revenue, const char *sessions)
{
  char names[16];
  snprintf(names, sizeof names, "cpu:%d", devices);
  d->rt = tsr_runtime_open(names, .threads = 2);
  d->s = tsr_scope_open(d->rt);
  if (make_columns(d->s, job_rows(), revenue, sessions)) return false;
  tsr_sharding rows = tsr_on(tsr_mesh_default(d->rt, "data"), "data");
  d->columns[0] = tsr_load_npy(d->s, revenue, rows);
  d->columns[1] = tsr_load_npy(d->s, sessions, rows);
  if (!tsr_eval(d->columns, 2)) return true;
  report_failure("main_job", tsr_message(d->s));
  return false;
}

static void close_job(job_side *d)
{
  tsr_scope_close(d->s);
  tsr_runtime_close(d->rt);
}

/* Wall and CPU seconds of one run; negative: it failed. */
static double time_job(job_side *d, bool finite, double out[3], double *cpu)
{
  double start = bench_now(), before = bench_cpu();
  tsr_status status = job_once(d->s, d->columns[0], d->columns[1], finite, out);
  double seconds = bench_now() - start;
  *cpu = bench_cpu() - before;
  return status ? -1 : seconds;
}

/* Whether what the peer said is the job's result. */
static bool peer_agrees(const char *name, const char *said, const double out[3])
{
  double p[3];
  if (sscanf(said, "%lf %lf %lf", &p[0], &p[1], &p[2]) == 3 && close_to(p[0], out[0]) &&
      p[1] == out[1] && close_to(p[2], out[2]))
    return true;
  fprintf(stderr, "%s: ours %.17g %.17g %.17g, the peer's %s\n", name, out[0], out[1], out[2],
          said);
  return false;
}

static int main_job_rounds(job_side side[2], bool finite, bench_peer *peer)
{
  enum { MAIN_ROUNDS = 7 };
  double ours[2][BENCH_ROUNDS], cpu[2][BENCH_ROUNDS], theirs[BENCH_ROUNDS], limits[BENCH_ROUNDS];
  double out[2][3];
  bench_span spans[2];
  const char *name = finite ? "main_job.finite" : "main_job";
  int64_t rows = tsr_shape_of(side[0].columns[0]).dims[0];
  for (int i = 0; i < 2; i++) {
    tsr_shard shard;
    if (tsr_shard_view(side[0].columns[i], 0, &shard))
      return report_failure(name, tsr_message(side[0].s));
    spans[i] = (bench_span){ shard.data, rows * 8 };
  }
  for (int r = -1; r < MAIN_ROUNDS; r++) {
    int at = r < 0 ? 0 : r;
    char said[256] = "";
    for (int d = 0; d < 2; d++)
      if ((ours[d][at] = time_job(&side[d], finite, out[d], &cpu[d][at])) < 0) return 1;
    if (memcmp(out[0], out[1], sizeof out[0]) != 0)
      return report_failure(name, "eight devices have another result than one");
    if (r < 0) continue;
    limits[r] = bench_read_spans(spans, 2, 2);
    theirs[r] = bench_peer_run(peer, said, sizeof said);
    if (peer && !peer_agrees(name, said, out[0])) return 1;
  }
  char full[64];
  snprintf(full, sizeof full, rows == 100000000 ? "%s" : "%s[%.2g rows]", name, (double)rows);
  double mine = bench_median(ours[0], MAIN_ROUNDS);
  bench_line(full, mine, "polars streaming", peer ? bench_median(theirs, MAIN_ROUNDS) : -1,
             bench_median(limits, MAIN_ROUNDS), "s");
  bench_eight(full, &(bench_pair){ bench_median(ours[1], MAIN_ROUNDS), mine,
                                   bench_median(cpu[1], MAIN_ROUNDS),
                                   bench_median(cpu[0], MAIN_ROUNDS) });
  return 0;
}

int bench_main_job(bool finite)
{
  char revenue[600], sessions[600], arguments[700];
  snprintf(revenue, sizeof revenue, "%s/revenue.npy", bench_data_dir());
  snprintf(sessions, sizeof sessions, "%s/sessions.npy", bench_data_dir());
  snprintf(arguments, sizeof arguments, "%s %s 2", bench_data_dir(), finite ? "finite" : "max");
  job_side side[2] = { { 0 } };
  int failed =
      !open_job(&side[0], 1, revenue, sessions) || !open_job(&side[1], 8, revenue, sessions);
  if (!failed) {
    bench_peer *peer = bench_peer_open("main_job.py", arguments);
    failed = main_job_rounds(side, finite, peer);
    bench_peer_close(peer);
  }
  close_job(&side[0]);
  if (side[1].rt) close_job(&side[1]);
  return failed;
}

/* ---- call.3, call.fn ---- */

static tsr_array *three(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_add(tsr_mul(in[0], 2), 1));
}

/* Written out, or as the function that was traced of it. The scope of a call lies inside the
 * function's, which its results depend on. */
static double call_once(tsr_scope *outer, tsr_function *f, tsr_array *x)
{
  double total = 0;
  tsr_scope *s = tsr_scope_open(outer);
  tsr_array *inner = tsr_keep(s, x);
  tsr_array *sum = f ? tsr_call(f, inner) : three(s, &inner, NULL);
  tsr_status status = tsr_read_scalar(sum, &total);
  if (status) fprintf(stderr, "call: %s\n", tsr_message(s));
  tsr_scope_close(s);
  return status ? (double)NAN : total;
}

int bench_call(const char *name)
{
  int devices = strstr(name, "8dev") ? 8 : 1;
  char device_text[16], arguments[16], result[256] = "";
  float x[1024];
  for (int i = 0; i < 1024; i++) x[i] = (float)i;
  snprintf(device_text, sizeof device_text, "cpu:%d", devices);
  snprintf(arguments, sizeof arguments, "%d", devices);
  tsr_runtime *rt = tsr_runtime_open(device_text, .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a =
      tsr_put(s, x, TSR_F32, TSR_SHAPE(1024), tsr_on(tsr_mesh_default(rt, "data"), "data"));
  tsr_function *f = strstr(name, "fn") ? tsr_function_make(s, three) : NULL;
  bench_peer *peer = bench_peer_open("call.py", arguments);
  double ours[BENCH_ROUNDS], theirs[BENCH_ROUNDS], total = 0;
  int rounds = 9, failed = 0;
  for (int r = -1; r < rounds && !failed; r++) {
    double start = bench_now();
    for (int k = 0; k < 1000; k++) total = call_once(s, f, a);
    if (r < 0) continue;
    ours[r] = (bench_now() - start) / 1000;
    theirs[r] = bench_peer_run(peer, result, sizeof result);
    if (total != 1048576 || (peer && strtod(result, NULL) != total))
      failed = report_failure(name, "the sums differ");
  }
  if (!failed)
    bench_line(name, bench_median(ours, rounds) * 1e6, "jax jit",
               peer ? bench_median(theirs, rounds) * 1e6 : -1, -1, "us");
  bench_peer_close(peer);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}

/* ---- start, size ---- */

static double run_command(const char *command)
{
  double start = bench_now();
  return system(command) == 0 ? bench_now() - start : -1;
}

/* Times two commands from fork to exit in turns; `theirs` may be empty. */
static int race(const char *name, const char *ours, const char *theirs, const char *peer)
{
  enum { RUNS = 9 };
  double took[BENCH_ROUNDS], took_theirs[BENCH_ROUNDS];
  for (int r = -1; r < RUNS; r++) {
    double mine = run_command(ours), other = *theirs ? run_command(theirs) : -1;
    if (mine < 0) return report_failure(name, "the command failed");
    if (r >= 0) took[r] = mine, took_theirs[r] = other;
  }
  double best = bench_median(took_theirs, RUNS);
  bench_line(name, bench_median(took, RUNS) * 1e3, peer, best > 0 ? best * 1e3 : -1, -1, "ms");
  return 0;
}

int bench_start(const char *self)
{
  char ours[1200], theirs[1200] = "";
  const char *python = getenv("BENCH_PYTHON");
  snprintf(ours, sizeof ours, "exec '%s' --start >/dev/null", self);
  if (python)
    snprintf(
        theirs, sizeof theirs,
        "exec '%s' -c 'import numpy; print(numpy.arange(1024, dtype=\"f4\").sum())' >/dev/null",
        python);
  return race("start", ours, theirs, "python + numpy");
}

int bench_first_step(const char *which, const char *self)
{
  char name[32], ours[1200], theirs[1200] = "";
  const char *python = getenv("BENCH_PYTHON");
  snprintf(name, sizeof name, "first_step.%s", which);
  snprintf(ours, sizeof ours, "exec '%s' --first-step %s >/dev/null", self, which);
  if (python)
    snprintf(theirs, sizeof theirs, "exec '%s' bench/peers/training.py JAX %s 1 once >/dev/null",
             python, which);
  return race(name, ours, theirs, "JAX");
}

/* A file of a thousand rows, a filter and groups. */
int bench_tool_start(const char *tool)
{
  char path[600], ours[2000], theirs[2000] = "";
  snprintf(path, sizeof path, "%s/thousand.csv", bench_data_dir());
  FILE *file = fopen(path, "w");
  if (!file) return report_failure("tool.start", "the file cannot be written");
  fprintf(file, "k,a,b\n");
  for (int i = 0; i < 1000; i++) fprintf(file, "k%d,%d,%d.5\n", i % 7, i, i * 3 % 100);
  if (fclose(file)) return report_failure("tool.start", "the file cannot be written");
  snprintf(ours, sizeof ours,
           "exec '%s' query '%s' --where 'a > 10' --by k --agg 'sum(b)' >/dev/null", tool, path);
  if (system("command -v duckdb >/dev/null 2>&1") == 0)
    snprintf(theirs, sizeof theirs,
             "exec duckdb -c \"select k, sum(b) from '%s' where a > 10 group by k\" >/dev/null",
             path);
  return race("tool.start", ours, theirs, "duckdb's command");
}

static double file_megabytes(const char *path)
{
  struct stat info;
  return stat(path, &info) == 0 ? (double)info.st_size / 1e6 : -1;
}

int bench_size(const char *library)
{
  char command[2400], stripped[600], path[1024] = "";
  snprintf(stripped, sizeof stripped, "%s/libtessera.stripped", bench_data_dir());
  snprintf(command, sizeof command, "strip -s -o '%s' '%s'", stripped, library);
  if (system(command) != 0) return report_failure("size", "strip failed");
  const char *python = getenv("BENCH_PYTHON");
  if (python) {
    snprintf(command, sizeof command,
             "'%s' -c 'import _duckdb; print(_duckdb.__file__)' 2>/dev/null || "
             "'%s' -c 'import duckdb.duckdb as d; print(d.__file__)' 2>/dev/null",
             python, python);
    FILE *pipe = popen(command, "r");
    if (pipe && fgets(path, sizeof path, pipe)) path[strcspn(path, "\n")] = 0;
    if (pipe) pclose(pipe);
  }
  bench_line("size", file_megabytes(stripped), "duckdb module", *path ? file_megabytes(path) : -1,
             -1, "MB");
  return 0;
}

/* ---- sums ---- */

int bench_sum(tsr_dtype dtype)
{
  bool wide = dtype == TSR_F64;
  const char *name = wide ? "sum.f64.memory" : "sum.f32.memory";
  int64_t count = wide ? (int64_t)1 << 27 : (int64_t)1 << 28;
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_uniform(s, .key = 3, .dtype = dtype, .shape = TSR_SHAPE(count));
  tsr_shard shard;
  double ours[BENCH_ROUNDS], plain[BENCH_ROUNDS], limits[BENCH_ROUNDS], exact = 0, rounded = 0;
  int rounds = 7;
  if (tsr_shard_view(x, 0, &shard)) return report_failure(name, tsr_message(s));
  for (int r = -1; r < rounds; r++) {
    tsr_scope *inner = tsr_scope_open(s);
    double start = bench_now();
    tsr_status status = tsr_read_scalar(tsr_sum(tsr_keep(inner, x)), &exact);
    double mine = bench_now() - start;
    tsr_scope_close(inner);
    if (status) return report_failure(name, "the sum failed");
    double theirs = wide ? bench_plain_sum_f64(shard.data, count, 2, &rounded)
                         : bench_plain_sum_f32(shard.data, count, 2, &rounded);
    bench_span span = { shard.data, 1 << 30 };
    double limit = bench_read_spans(&span, 1, 2);
    if (r >= 0) ours[r] = mine, plain[r] = theirs, limits[r] = limit;
  }
  bench_line(name, bench_median(ours, rounds), "plain vector sum", bench_median(plain, rounds),
             bench_median(limits, rounds), "s");
  if (!wide) printf("  exact %.2f, the plain sum says %.2f\n", exact, rounded);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return 0;
}
