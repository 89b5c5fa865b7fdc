/* main_job.generated: twenty jobs like the main one, drawn from a fixed grammar with a fixed seed.
 *
 *   job        = filter derived aggregates
 *   filter     = predicate ("and" | "or") predicate
 *   predicate  = number ("<" | ">" | "<=" | ">=") constant | text ("==" | "!=") value | number "is
 *              not null"
 *   derived    = number ("+" | "-" | "*" | "/") number
 *   aggregates = one to three of sum, mean, min, max, count of the derived column or another
 *
 * Columns: f64 with nulls, f64, f32, i64, i32, text of 50 values. A job's limit is reading the
 * columns it names, validity included; the line is the geometric mean of the jobs' shares of it.
 * Beside the time on the clock stands that of the processors, both of ours and of the limit: on a
 * machine that does other things, too, it is the steadier one. BENCH_JOB=n runs job n alone. */
#include "tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 20, ROUNDS = 5, ROWS = 20000000 };

typedef struct draws {
  uint64_t at;
} draws;

static int draw(draws *d, int below)
{
  return (int)(bench_mix(UINT64_C(7) << 56 | d->at++) % (uint64_t)below);
}

typedef struct column {
  const char *name;
  int bytes; /* a row, validity counted as 1/8 apart */
  bool nulls;
  int least, most; /* constants that a predicate compares with */
} column;

static const column columns[] = { { "x", 8, true, 0, 100 },     { "y", 8, false, 0, 100 },
                                  { "h", 4, false, 0, 1 },      { "n", 8, false, 0, 1000 },
                                  { "m", 4, false, -500, 500 }, { "t", 4, false, 0, 50 } };
enum { NUMBERS = 5, TEXT = 5 };

typedef struct job {
  char filter[160], derived[80], aggregates[160];
  bool used[6];
} job;

static const char *number(draws *d, job *j)
{
  int c = draw(d, NUMBERS);
  j->used[c] = true;
  return columns[c].name;
}

static void predicate(draws *d, job *j, char *out, size_t size)
{
  static const char *const compare[] = { "<", ">", "<=", ">=" };
  int kind = draw(d, 6);
  if (kind == 0) {
    j->used[TEXT] = true;
    snprintf(out, size, "t %s 'k%d'", draw(d, 2) ? "==" : "!=", draw(d, 50));
  } else if (kind == 1) {
    j->used[0] = true;
    snprintf(out, size, "x is not null");
  } else {
    int c = draw(d, NUMBERS);
    const column *of = &columns[c];
    j->used[c] = true;
    double value = of->least + (of->most - of->least) * (draw(d, 1000) / 1000.0);
    snprintf(out, size, c == 3 || c == 4 ? "%s %s %.0f" : "%s %s %.3f", of->name,
             compare[draw(d, 4)], value);
  }
}

static void make_job(draws *d, job *j)
{
  static const char *const aggregates[] = { "sum", "mean", "min", "max", "count" };
  char a[64], b[64];
  memset(j, 0, sizeof *j);
  predicate(d, j, a, sizeof a);
  predicate(d, j, b, sizeof b);
  snprintf(j->filter, sizeof j->filter, "%s %s %s", a, draw(d, 2) ? "and" : "or", b);
  const char *left = number(d, j);
  /* * 1.0: an integer product could leave its range, which is not what is measured */
  snprintf(j->derived, sizeof j->derived, "%s * 1.0 %c %s", left, "+-*/"[draw(d, 4)], number(d, j));
  int many = 1 + draw(d, 3);
  for (int i = 0; i < many; i++) {
    size_t at = strlen(j->aggregates);
    const char *of = i ? number(d, j) : "d";
    snprintf(j->aggregates + at, sizeof j->aggregates - at, "%sr%d = %s(%s)", i ? ", " : "", i,
             aggregates[draw(d, 5)], of);
  }
}

static tsr_status run_job(tsr_scope *outer, tsr_frame *table, const job *j)
{
  tsr_scope *s = tsr_scope_open(outer);
  tsr_frame *df = tsr_frame_keep(s, table);
  df = tsr_frame_filter_at(df, &(tsr_formula){ .text = j->filter }, TSR_HERE);
  df = tsr_frame_assign_at(df, "d", &(tsr_formula){ .text = j->derived }, TSR_HERE);
  df = tsr_frame_agg_at(df, &(tsr_formula){ .text = j->aggregates }, TSR_HERE);
  tsr_table *t = NULL;
  tsr_status status = tsr_frame_collect(df, &t);
  if (status) fprintf(stderr, "main_job.generated: %s\n", tsr_message(s));
  tsr_scope_close(s);
  return status;
}

static tsr_frame *make_table(tsr_scope *s, tsr_sharding at)
{
  const char **texts = malloc(ROWS * sizeof *texts);
  char values[50][8];
  if (!texts) return NULL;
  for (int i = 0; i < 50; i++) snprintf(values[i], sizeof values[i], "k%d", i);
  for (int64_t i = 0; i < ROWS; i++) texts[i] = values[bench_mix((uint64_t)i) % 50];
  tsr_shape shape = TSR_SHAPE(ROWS);
  tsr_array *u = tsr_uniform(s, .key = 14, .shape = shape, .on = at);
  tsr_array *x = tsr_uniform(s, .key = 11, .shape = shape, .on = at);
  tsr_array *y = tsr_uniform(s, .key = 12, .shape = shape, .on = at);
  tsr_array *h = tsr_uniform(s, .key = 13, .dtype = TSR_F32, .shape = shape, .on = at);
  tsr_frame *df = tsr_frame_new(s, { "x", tsr_mul(x, 100) }, { "y", tsr_mul(y, 100) }, { "h", h },
                                { "n", tsr_cast(tsr_mul(u, 1000), TSR_I64) },
                                { "m", tsr_cast(tsr_sub(tsr_mul(u, 1000), 500), TSR_I32) });
  df = tsr_frame_text_column(df, "t", texts, ROWS);
  df = tsr_frame_assign(df, "x", "if(y < 10, null, x)");
  df = tsr_frame_keep(s, df);
  free(texts);
  return df;
}

static double job_bytes(const job *j)
{
  double bytes = 0;
  for (int c = 0; c < 6; c++)
    if (j->used[c]) bytes += columns[c].bytes + (columns[c].nulls ? 0.125 : 0);
  return bytes * ROWS;
}

/* The table on one or eight devices. */
typedef struct table_side {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_frame *table;
} table_side;

static bool open_side(table_side *d, int devices)
{
  char names[16];
  snprintf(names, sizeof names, "cpu:%d", devices);
  d->rt = tsr_runtime_open(names, .threads = 2);
  d->s = tsr_scope_open(d->rt);
  d->table = make_table(d->s, tsr_on(tsr_mesh_default(d->rt, "data"), "data"));
  if (d->table && !tsr_scope_status(d->s)) return true;
  fprintf(stderr, "main_job.generated: %s\n", tsr_message(d->s));
  return false;
}

static void close_side(table_side *d)
{
  tsr_scope_close(d->s);
  tsr_runtime_close(d->rt);
}

/* Seconds on the clock and of all processors. */
typedef struct span_time {
  double clock, cpu;
} span_time;

static span_time time_now(void)
{
  return (span_time){ bench_now(), bench_cpu() };
}

/* What a job took in each round, on one device, on eight, and its limit. */
enum { ONE, EIGHT, LIMIT, WHAT };
typedef struct rounds {
  double clock[ROUNDS], cpu[ROUNDS];
} rounds;

typedef struct timing {
  span_time of[WHAT]; /* medians of the rounds */
} timing;

static tsr_status time_job(table_side side[2], const job *j, void *room, timing *out)
{
  rounds took[WHAT];
  bench_span span = { room, (int64_t)job_bytes(j) };
  for (int r = -1; r < ROUNDS; r++)
    for (int w = 0; w < WHAT; w++) {
      span_time start = time_now();
      tsr_status status = w == LIMIT ? TSR_OK : run_job(side[w].s, side[w].table, j);
      if (status) return status;
      if (w == LIMIT) bench_read_spans(&span, 1, 2);
      span_time end = time_now();
      if (r < 0) continue;
      took[w].clock[r] = end.clock - start.clock;
      took[w].cpu[r] = end.cpu - start.cpu;
    }
  for (int w = 0; w < WHAT; w++)
    out->of[w] =
        (span_time){ bench_median(took[w].clock, ROUNDS), bench_median(took[w].cpu, ROUNDS) };
  return TSR_OK;
}

/* Shares of the limit, over the jobs. */
typedef struct shares {
  double logs, worst;
} shares;

static double add_share(shares *all, double ours, double limit)
{
  double share = limit / ours;
  all->logs += log(share);
  all->worst = all->worst == 0 || share < all->worst ? share : all->worst;
  return share;
}

/* Runs the jobs that `only` names (NULL: all) and prints them, then the lines. */
static int run_jobs(table_side side[2], void *room, const char *only)
{
  shares clock = { 0 }, cpu = { 0 };
  timing total = { 0 };
  draws d = { 0 };
  int jobs = 0;
  for (int n = 1; n <= JOBS; n++) {
    job j;
    timing t;
    make_job(&d, &j);
    if (only && atoi(only) != n) continue;
    if (time_job(side, &j, room, &t)) return 1;
    span_time one = t.of[ONE], limit = t.of[LIMIT];
    printf("  %2d  %.4f s  share %.2f   cpu %.4f s  share %.2f   %s | d = %s | %s\n", n, one.clock,
           add_share(&clock, one.clock, limit.clock), one.cpu, add_share(&cpu, one.cpu, limit.cpu),
           j.filter, j.derived, j.aggregates);
    for (int w = 0; w < WHAT; w++) {
      total.of[w].clock += t.of[w].clock;
      total.of[w].cpu += t.of[w].cpu;
    }
    jobs++;
  }
  if (!jobs) return 0;
  span_time one = total.of[ONE], eight = total.of[EIGHT];
  bench_line("main_job.generated", one.clock / jobs, "n/a", -1, total.of[LIMIT].clock / jobs, "s");
  printf("  geometric mean of the shares %.2f, worst %.2f; of processors' time %.2f, worst %.2f\n",
         exp(clock.logs / jobs), clock.worst, exp(cpu.logs / jobs), cpu.worst);
  bench_eight("main_job.generated", &(bench_pair){ eight.clock / jobs, one.clock / jobs,
                                                   eight.cpu / jobs, one.cpu / jobs });
  return 0;
}

int bench_generated(void)
{
  table_side side[2] = { { 0 } };
  void *room = bench_written((int64_t)ROWS * 40);
  int failed = !room || !open_side(&side[0], 1) || !open_side(&side[1], 8);
  if (!failed) failed = run_jobs(side, room, getenv("BENCH_JOB"));
  free(room);
  for (int i = 0; i < 2; i++)
    if (side[i].rt) close_side(&side[i]);
  return failed;
}
