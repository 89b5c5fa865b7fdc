/* frames.4proc: work on frames in four processes of one device each, beside one process with four
 * devices on the same cores; the results are compared.
 *
 *   main job    the columns of main_job, drawn where they lie      bar: 1.15 times one process
 *   group g5    the table of group.g5, read by all together        bar: 1.6 times
 *
 * Each turn starts a job of its own, so that the sides take turns; it warms up once and gives the
 * median of its runs. */
#include "bench.h"
#include "tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 3, RUNS = 5 };

static int64_t job_rows(void)
{
  const char *text = getenv("BENCH_ROWS");
  return text ? strtoll(text, NULL, 10) : 100000000;
}

static tsr_frame *main_table(tsr_scope *s, tsr_sharding on)
{
  int64_t rows = job_rows();
  return tsr_frame_new(
      s, { "revenue", tsr_exponential(s, 100, .key = 1, .shape = TSR_SHAPE(rows), .on = on) },
      { "sessions", tsr_poisson(s, 5, .key = 2, .shape = TSR_SHAPE(rows), .on = on) });
}

static tsr_frame *main_once(tsr_frame *df)
{
  df = tsr_frame_assign(tsr_frame_filter(df, "revenue > ?", 50), "rps", "revenue / sessions");
  return tsr_frame_agg(df, "a = sum(revenue), b = sum(sessions), c = max(rps)");
}

static tsr_frame *group_table(tsr_scope *s, tsr_sharding on)
{
  const char *path = bench_table_csv();
  return tsr_frame_select(tsr_frame_read_csv(s, path ? path : "", .on = on), "id6, v1, v2, v3");
}

static tsr_frame *group_once(tsr_frame *df)
{
  return tsr_frame_group_agg(df, "id6", "a = sum(v1), b = sum(v2), c = sum(v3)");
}

typedef struct job {
  const char *name;
  tsr_frame *(*table)(tsr_scope *s, tsr_sharding on), *(*once)(tsr_frame *df);
  double bar;
} job;

static const job jobs[] = { { "main_job", main_table, main_once, 1.15 },
                            { "group.g5", group_table, group_once, 1.6 } };

/* Seconds of one run, to rows that are kept; the sums that are compared. */
static double run_once(const job *j, tsr_frame *table, tsr_scope *outer, double sum[3])
{
  double start = bench_now();
  tsr_scope *s = tsr_scope_open(outer);
  tsr_frame *made = tsr_frame_keep(s, j->once(tsr_frame_keep(s, table)));
  double seconds = bench_now() - start;
  tsr_row *row = tsr_frame_row(tsr_frame_agg(made, "a = sum(a), b = sum(b), c = sum(c)"));
  bool fine = tsr_row_status(row) == TSR_OK;
  sum[0] = tsr_row_f64(row, "a");
  sum[1] = tsr_row_f64(row, "b");
  sum[2] = tsr_row_f64(row, "c");
  if (!fine) fprintf(stderr, "frames.4proc: %s\n", tsr_message(s));
  tsr_scope_close(s);
  return fine ? seconds : -1;
}

/* Processor seconds of all processes since each had worked so long. */
static double cpu_of_all(tsr_runtime *rt, tsr_scope *s, double before)
{
  int64_t all = (int64_t)((bench_cpu() - before) * 1e6);
  if (tsr_process_count(rt) > 1) {
    tsr_status status = tsr_store_add(s, "cpu", all, &all);
    if (!status) status = tsr_sync(s, "added");
    if (!status) status = tsr_store_add(s, "cpu", 0, &all);
    if (status) return -1;
  }
  return (double)all * 1e-6;
}

int bench_frames_child(const char *which)
{
  const job *j = &jobs[strcmp(which, jobs[0].name) != 0];
  double times[BENCH_ROUNDS], sum[3] = { 0 };
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(tsr_mesh_default(rt, "data"), "data");
  tsr_frame *table = tsr_frame_keep(s, j->table(s, on));
  bool fine = !tsr_scope_status(s);
  if (!fine) fprintf(stderr, "frames.4proc: %s\n", tsr_message(s));
  double before = 0;
  for (int r = -1; r < RUNS && fine; r++) {
    if (r == 0) before = bench_cpu();
    double seconds = run_once(j, table, s, sum);
    fine = seconds >= 0;
    if (r >= 0) times[r] = seconds;
  }
  double cpu = fine ? cpu_of_all(rt, s, before) / RUNS : -1;
  if (fine && !tsr_process_index(rt))
    printf("took %.9f %.9f with %.17g %.17g %.17g\n", bench_median(times, RUNS), cpu, sum[0],
           sum[1], sum[2]);
  fflush(stdout);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return !fine;
}

/* What a child says: seconds and processor seconds of a run, and the sums. */
typedef struct turn_of {
  double seconds[BENCH_ROUNDS], cpu[BENCH_ROUNDS], sum[3];
} turn_of;

static bool run_child(const char *command, int turn, turn_of *to)
{
  char line[256];
  bool found = false;
  FILE *out = popen(command, "r");
  if (!out) return false;
  while (fgets(line, sizeof line, out)) {
    const char *at = strstr(line, "took ");
    double *sum = to->sum;
    if (at)
      found = sscanf(at, "took %lf %lf with %lf %lf %lf", &to->seconds[turn], &to->cpu[turn],
                     &sum[0], &sum[1], &sum[2]) == 5;
  }
  return pclose(out) == 0 && found;
}

int bench_frames_processes(const char *self, const char *tool)
{
  /* The file is made before processes look for it. */
  if (!bench_table_csv()) return 1;
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
    char alone[2048], several[2048], name[64];
    turn_of own, other;
    snprintf(alone, sizeof alone, "'%s' --frames '%s'", self, jobs[i].name);
    snprintf(several, sizeof several, "'%s' run -n 4 '%s' --frames '%s'", tool, self, jobs[i].name);
    for (int turn = 0; turn < TURNS; turn++) {
      bool good = run_child(several, turn, &own) && run_child(alone, turn, &other);
      if (good && !memcmp(own.sum, other.sum, sizeof own.sum)) continue;
      fprintf(stderr, "frames.4proc: %s: %s\n", jobs[i].name,
              good ? "results differ" : "a process failed");
      return 1;
    }
    double ours = bench_median(own.seconds, TURNS), theirs = bench_median(other.seconds, TURNS);
    double cpu = bench_median(own.cpu, TURNS), its = bench_median(other.cpu, TURNS);
    snprintf(name, sizeof name, "frames.4proc %s", jobs[i].name);
    bench_line(name, ours * 1e3, "1 process, cpu:4", theirs * 1e3, -1, "ms");
    printf("    %.2f times one process, the bar is %.2f; processor time %.0f ms, %.2f times\n",
           ours / theirs, jobs[i].bar, cpu * 1e3, cpu / its);
  }
  return 0;
}
