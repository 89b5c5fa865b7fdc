/* The large example: a frame of revenue and sessions, drawn on the devices, filtered, given a
 * derived column and aggregated in one pass; how fast that is beside merely reading the columns;
 * and that the results have the same bits on 1, 2 and 8 devices.
 *
 *   large [ROWS]     default: $TESSERA_DEMO_ROWS, else 1,000,000 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera.h>

#include "progress.h"
#include "readlimit.h"

enum { ROUNDS = 5, ROW_BYTES = 16 };

/* What one mesh gives. Figures and times; only the former are compared. */
typedef struct result {
  struct {
    double revenue, mean, mean_positive;
    int64_t sessions, kept, empty;
  } of;
  double draw, pass, read; /* seconds */
} result;

/* ---- text ---------------------------------------------------------------------------------- */

/* A number with a comma every three digits, in one of a few buffers that the caller has. */
static const char *grouped(double value, int decimals, char out[64])
{
  char plain[64];
  int length = snprintf(plain, sizeof plain, "%.*f", decimals, value), at = 0;
  int whole = (int)strcspn(plain, ".");
  if (!isfinite(value)) return strcpy(out, plain);
  for (int i = 0; i < length; i++) {
    if (i > 0 && i < whole && (whole - i) % 3 == 0 && plain[i - 1] != '-') out[at++] = ',';
    out[at++] = plain[i];
  }
  out[at] = 0;
  return out;
}

/* ---- memory --------------------------------------------------------------------------------- */

static int64_t number_in(const char *path, const char *key)
{
  char line[256];
  long long value = -1;
  size_t length = strlen(key);
  FILE *file = fopen(path, "r");
  while (file && value < 0 && fgets(line, sizeof line, file))
    if (strncmp(line, key, length) == 0 && sscanf(line + length, "%lld", &value) != 1) value = -1;
  if (file) fclose(file);
  return value;
}

/* Bytes that may still be taken: what the system has, or what the group of processes may. */
static int64_t memory_available(void)
{
  int64_t system = number_in("/proc/meminfo", "MemAvailable:");
  int64_t most = number_in("/sys/fs/cgroup/memory.max", "");
  int64_t now = number_in("/sys/fs/cgroup/memory.current", "");
  int64_t bytes = system < 0 ? INT64_MAX : system * 1024;
  return most > 0 && now >= 0 && most - now < bytes ? most - now : bytes;
}

/* The rows asked for, or as many as leave a quarter of the memory free. */
static int64_t rows_that_fit(int64_t rows)
{
  char asked[64], fitting[64];
  int64_t most = memory_available() / 4 * 3 / ROW_BYTES;
  if (rows <= most) return rows;
  most = most < 1000 ? 1000 : most - most % 1000;
  printf("only %s rows instead of %s,\nbecause the memory that is free allows no more\n\n",
         grouped((double)most, 0, fitting), grouped((double)rows, 0, asked));
  return most;
}

/* ---- the job -------------------------------------------------------------------------------- */

static tsr_frame *draw(tsr_scope *s, int64_t rows, tsr_sharding sharding, tsr_array *drawn[2])
{
  drawn[0] = tsr_exponential(s, 100, .key = 1, .shape = TSR_SHAPE(rows), .on = sharding);
  drawn[1] = tsr_poisson(s, 5, .key = 2, .shape = TSR_SHAPE(rows), .on = sharding);
  /* Nothing asks for user_id, so its rows are never made. */
  return tsr_frame_new(s, { "user_id", tsr_iota(s, TSR_I64, TSR_SHAPE(rows), 0, sharding) },
                       { "revenue", drawn[0] }, { "sessions", drawn[1] });
}

static tsr_frame *kept(tsr_frame *df)
{
  df = tsr_frame_filter(df, "revenue > ?", 50);
  return tsr_frame_assign(df, "revenue_per_session", "revenue / sessions");
}

/* The three aggregates, from the frame to numbers on the host. */
static void run_job(tsr_frame *df, result *out)
{
  df =
      tsr_frame_agg(kept(df), "r = sum(revenue), s = sum(sessions), m = mean(revenue_per_session)");
  tsr_row *row = tsr_frame_row(df);
  out->of.revenue = tsr_row_f64(row, "r");
  out->of.sessions = tsr_row_i64(row, "s");
  out->of.mean = tsr_row_f64(row, "m");
}

/* What stands beside them: how many rows have no sessions, and the mean over the others. */
static void run_beside(tsr_frame *df, result *out)
{
  tsr_row *row = tsr_frame_row(
      tsr_frame_agg(kept(df), "n = count(), m = mean(if(sessions > 0, revenue_per_session, null)),"
                              "z = sum(sessions == 0)"));
  out->of.kept = tsr_row_i64(row, "n");
  out->of.empty = tsr_row_i64(row, "z");
  out->of.mean_positive = tsr_row_f64(row, "m");
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Times the job and the reading of the same buffers in turn; the figures are medians. */
static tsr_status time_job(tsr_runtime *rt, tsr_frame *df, tsr_array *const drawn[2], result *out)
{
  read_span spans[16];
  double pass[ROUNDS], read[ROUNDS];
  /* Of several processes each has its own share of the devices, and reads that. */
  int here = tsr_device_count(rt) / tsr_process_count(rt), first = here * tsr_process_index(rt);
  for (int i = 0; i < 2 * here; i++) {
    tsr_shard shard;
    tsr_status status = tsr_shard_view(drawn[i % 2], first + i / 2, &shard);
    if (status) return status;
    spans[i] = (read_span){ shard.data, shard.box.size[0] * 8 };
  }
  run_job(df, out); /* plans */
  for (int r = 0; r < ROUNDS; r++) {
    double start = seconds_now();
    run_job(df, out);
    pass[r] = seconds_now() - start;
    read[r] = read_all(spans, 2 * here);
  }
  qsort(pass, ROUNDS, sizeof *pass, by_value);
  qsort(read, ROUNDS, sizeof *read, by_value);
  out->pass = pass[ROUNDS / 2];
  out->read = read[ROUNDS / 2];
  return TSR_OK;
}

/* Draws once and forgets it: memory that is touched first is fetched from the system page by page,
 * which takes longer than drawing. The bar shows how much of it is there. */
static tsr_status warm(tsr_runtime *rt, int64_t rows, const char *devices)
{
  char label[32];
  progress bar;
  tsr_array *drawn[2];
  tsr_scope *s = tsr_scope_open(rt);
  draw(s, rows, tsr_on(tsr_mesh_default(rt, "data"), "data"), drawn);
  snprintf(label, sizeof label, "warming %s", devices);
  progress_begin(&bar, label, rows * ROW_BYTES);
  tsr_status status = tsr_eval(drawn, 2);
  progress_end(&bar);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  tsr_scope_close(s);
  return status;
}

static tsr_status draw_and_time(tsr_runtime *rt, int devices, int64_t rows, result *out)
{
  tsr_array *drawn[2];
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = draw(s, rows, tsr_on(tsr_mesh_default(rt, "data"), "data"), drawn);
  double start = seconds_now();
  tsr_status status = tsr_eval(drawn, 2);
  out->draw = seconds_now() - start;
  if (!status)
    printf("drawn on cpu:%d   %5.2f GB in %.2f s\n", devices, (double)rows * ROW_BYTES / 1e9,
           out->draw);
  fflush(stdout);
  if (!status) status = time_job(rt, df, drawn, out);
  if (!status) run_beside(df, out);
  status = tsr_scope_status(s);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  tsr_scope_close(s);
  return status;
}

static tsr_status run_devices(int devices, int64_t rows, result *out)
{
  char text[16];
  snprintf(text, sizeof text, "cpu:%d", devices);
  tsr_runtime *rt = tsr_runtime_open(text);
  tsr_status status = warm(rt, rows, text);
  if (!status) status = draw_and_time(rt, devices, rows, out);
  tsr_runtime_close(rt);
  return status;
}

/* ---- what is shown --------------------------------------------------------------------------- */

static void print_answer(const result *r)
{
  char text[64];
  printf("\nTotal revenue: $%s\n", grouped(r->of.revenue, 2, text));
  printf("Total sessions: %s\n", grouped((double)r->of.sessions, 0, text));
  printf("Avg revenue/session: $%.2f\n\n", r->of.mean);
  printf("%s rows are kept", grouped((double)r->of.kept, 0, text));
  printf("; %s of them have no sessions, so that the mean\n",
         grouped((double)r->of.empty, 0, text));
  printf("is honestly infinite. Where sessions > 0 it is $%.2f;\n", r->of.mean_positive);
  printf("revenue by sessions is $%.2f.\n", r->of.revenue / (double)r->of.sessions);
}

static void print_bits(const int *devices, const result *results, int count)
{
  printf("\n%7s  %-22s %15s  %s\n", "devices", "total revenue", "total sessions",
         "mean, sessions > 0");
  for (int i = 0; i < count; i++)
    printf("%7d  %-22a %15lld  %a\n", devices[i], results[i].of.revenue,
           (long long)results[i].of.sessions, results[i].of.mean_positive);
}

/* Columns that caches can hold say nothing about the memory's limit, so their share is left out. */
static void print_speed(const int *devices, const result *results, int count, int64_t rows)
{
  double bytes = (double)rows * ROW_BYTES;
  printf("\n%7s  %10s  %14s  %10s  %12s  %s\n", "devices", "one pass", "rows/s", "reads at",
         "reading only", "of the limit");
  for (int i = 0; i < count; i++) {
    const result *r = &results[i];
    char speed[64], share[16] = "-";
    if (bytes >= 256e6) snprintf(share, sizeof share, "%.0f %%", 100 * r->read / r->pass);
    printf("%7d  %7.2f ms  %14s  %5.1f GB/s  %7.1f GB/s  %12s\n", devices[i], r->pass * 1e3,
           grouped((double)rows / r->pass, 0, speed), bytes / r->pass / 1e9, bytes / r->read / 1e9,
           share);
  }
}

static bool same_bits(const result *a, const result *b)
{
  return memcmp(&a->of, &b->of, sizeof a->of) == 0;
}

static int64_t rows_asked(int argc, char **argv)
{
  const char *text = argc > 1 ? argv[1] : getenv("TESSERA_DEMO_ROWS");
  char *end = NULL;
  if (!text || !*text) return 1000000;
  long long rows = strtoll(text, &end, 10);
  return *end || rows < 1 || rows > 1000000000000 ? -1 : rows;
}

int main(int argc, char **argv)
{
  static const int devices[] = { 8, 2, 1 };
  result results[3] = { 0 };
  char text[64];
  int64_t rows = rows_asked(argc, argv);
  if (rows < 0) {
    fprintf(stderr, "usage: large [ROWS]\n");
    return 2;
  }
  rows = rows_that_fit(rows);
  printf("%s rows: revenue = exponential(100), sessions = Poisson(5)\n\n",
         grouped((double)rows, 0, text));
  for (int i = 0; i < 3; i++)
    if (run_devices(devices[i], rows, &results[i])) return 1;
  print_answer(&results[0]);
  print_bits(devices, results, 3);
  bool same = same_bits(&results[0], &results[1]) && same_bits(&results[0], &results[2]);
  printf(same ? "the same bits on 8, 2 and 1 devices\n" : "THE BITS DIFFER\n");
  print_speed(devices, results, 3, rows);
  return !same;
}
