/* tessera bench: measures the collectives between the devices of one process, or under `tessera
 * run` of several processes.
 *
 *   size      bytes on a device: input of an all-reduce, reduce-scatter and all-to-all, result of
 *             an all-gather
 *   algbw     size by time
 *   busbw     bandwidth of a bus between two devices: algbw times 2 (n - 1) / n for an all-reduce,
 *             else times (n - 1) / n
 *   share     the time to copy as many bytes as all devices read and write, by the time of a call
 *
 * A call is timed whole: scope, traced function, run, end. All processes return from it together,
 * and process 0 measures the time and prints. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

enum { BATCHES = 5, LIMIT_FROM = 1 << 20, MOST_THREADS = 64, MOST_FACTOR = 1 << 20 };

typedef enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, KINDS } kind;

static const char *const names[KINDS] = { "all_reduce", "all_gather", "reduce_scatter",
                                          "all_to_all" };

typedef struct bench {
  tsr_runtime *rt;
  const tool_args *args;
  tsr_mesh *mesh;
  tsr_dtype dtype;
  int devices, printed;
  kind kind;
} bench;

typedef struct figures {
  double seconds, limit; /* limit -1: not measured */
  bool wrong;
} figures;

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *times)
{
  qsort(times, BATCHES, sizeof *times, ascending);
  return times[BATCHES / 2];
}

/* ---- the copy limit -------------------------------------------------------------------------- */

typedef struct copying {
  char *from, *to;
  size_t bytes;
} copying;

static void *copy(void *user)
{
  copying *c = user;
  memcpy(c->to, c->from, c->bytes);
  return NULL;
}

static double copy_once(const copying *all, int threads)
{
  pthread_t thread[MOST_THREADS];
  copying part[MOST_THREADS];
  bool started[MOST_THREADS] = { false };
  double start = now();
  for (int t = 0; t < threads; t++) {
    size_t first = all->bytes / (size_t)threads * (size_t)t;
    size_t end = t + 1 < threads ? all->bytes / (size_t)threads * (size_t)(t + 1) : all->bytes;
    part[t] = (copying){ all->from + first, all->to + first, end - first };
    if (t) started[t] = !pthread_create(&thread[t], NULL, copy, &part[t]);
    if (t && !started[t]) copy(&part[t]);
  }
  copy(&part[0]);
  for (int t = 1; t < threads; t++)
    if (started[t]) pthread_join(thread[t], NULL);
  return now() - start;
}

/* The time to copy this process's share of the bytes that all devices read and write, halved since
 * a copy reads and writes; all processes copy at once. */
static double copy_limit(const bench *b, int64_t size)
{
  int processes = tsr_process_count(b->rt);
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int64_t n = b->devices, all = b->kind == REDUCE_SCATTER ? (n + 1) * size / 2 : n * size;
  int threads = cores > processes ? (int)cores / processes : 1;
  copying c = { NULL, NULL, (size_t)(all / processes) };
  double times[BATCHES];
  if (size < LIMIT_FROM) return -1;
  c.from = malloc(c.bytes);
  c.to = malloc(c.bytes);
  bool room = c.from && c.to;
  if (room) {
    memset(c.from, 1, c.bytes);
    memset(c.to, 1, c.bytes);
  }
  for (int i = 0; i < BATCHES && room; i++)
    times[i] = copy_once(&c, threads < MOST_THREADS ? threads : MOST_THREADS);
  free(c.from);
  free(c.to);
  return room ? median(times) : -1;
}

/* ---- collectives ----------------------------------------------------------------------------- */

static tsr_array *join(tsr_scope *s, tsr_array *const *in, void *user)
{
  const bench *b = user;
  (void)s;
  switch (b->kind) {
  case ALL_REDUCE: return tsr_psum(in[0], "x");
  case ALL_GATHER: return tsr_all_gather(in[0], "x", .tiled = true);
  case REDUCE_SCATTER: return tsr_psum_scatter(in[0], "x", .tiled = true);
  default: return tsr_all_to_all(in[0], "x", .tiled = true);
  }
}

static tsr_array *whole(tsr_scope *s, tsr_array *const *in, void *user)
{
  const bench *b = user;
  bool everywhere = b->kind == ALL_REDUCE || b->kind == ALL_GATHER;
  (void)s;
  return tsr_shard_map(b->mesh, join, user, .in = { in[0] }, .in_specs = { "x" },
                       .out_specs = { everywhere ? "" : "x" });
}

static tsr_status call(tsr_scope *outer, tsr_function *f, tsr_array *x, int times)
{
  tsr_status status = TSR_OK;
  for (int i = 0; i < times && !status; i++) {
    tsr_scope *s = tsr_scope_open(outer);
    tsr_array *y = tsr_call(f, tsr_keep(s, x));
    status = tsr_eval(&y, 1);
    if (status) tool_fail(s);
    tsr_scope_close(s);
  }
  return status;
}

/* Compares the sums of arguments and results, which are small whole numbers. */
static tsr_status check(tsr_scope *outer, tsr_function *f, tsr_array *x, bool *wrong)
{
  double sent = 0, got = 0;
  tsr_scope *s = tsr_scope_open(outer);
  tsr_array *y = tsr_call(f, tsr_keep(s, x));
  tsr_status status = tsr_read_scalar(tsr_sum(tsr_cast(tsr_keep(s, x), TSR_F64)), &sent);
  if (!status) status = tsr_read_scalar(tsr_sum(tsr_cast(y, TSR_F64)), &got);
  if (status) tool_fail(s);
  tsr_scope_close(s);
  *wrong = sent != got;
  return status;
}

/* Calls a batch, the same in all processes. */
static int calls_of(int64_t size)
{
  return size <= 1 << 14 ? 200 : size <= 1 << 18 ? 50 : size <= 1 << 22 ? 10 : 2;
}

static tsr_status measure(bench *b, int64_t size, figures *out)
{
  tsr_scope *s = tsr_scope_open(b->rt);
  int64_t count = size / (int64_t)tsr_dtype_size(b->dtype);
  int64_t all = b->kind == ALL_GATHER ? count : count * b->devices;
  double times[BATCHES];
  int calls = calls_of(size);
  tsr_array *x = tsr_mod(tsr_arange(s, .stop = (double)all, .dtype = TSR_I64), 3);
  x = tsr_reshard(tsr_cast(x, b->dtype), tsr_on(b->mesh, "x"));
  tsr_function *f = tsr_function_make(s, whole, .user = b, .name = names[b->kind]);
  tsr_status status = tsr_eval(&x, 1);
  if (status) tool_fail(s);
  if (!status) status = check(s, f, x, &out->wrong);
  if (!status) status = call(s, f, x, calls < 10 ? 1 : 10);
  for (int i = 0; i < BATCHES && !status; i++) {
    double start = now();
    status = call(s, f, x, calls);
    times[i] = (now() - start) / calls;
  }
  if (!status) out->seconds = median(times);
  out->limit = status ? -1 : copy_limit(b, size);
  tsr_scope_close(s);
  return status;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void print_table(bench *b, int64_t size, const figures *f)
{
  double n = b->devices, algbw = (double)size / f->seconds * 1e-9;
  double busbw = algbw * (b->kind == ALL_REDUCE ? 2 : 1) * (n - 1) / n;
  const char *redop = b->kind == ALL_REDUCE || b->kind == REDUCE_SCATTER ? "sum" : "none";
  long long bytes = size, count = size / (int64_t)tsr_dtype_size(b->dtype);
  char share[16] = "";
  if (f->limit >= 0) snprintf(share, sizeof share, "%.2f", f->limit / f->seconds);
  if (tool_value(b->args, OPT_JSON)) {
    printf("%s  {\"collective\": \"%s\", \"places\": %d, \"processes\": %d, \"size\": %lld, "
           "\"count\": %lld, \"type\": \"%s\", \"redop\": \"%s\", \"us\": %.3f, \"algbw\": %.4f, "
           "\"busbw\": %.4f, \"share\": %s, \"wrong\": %s}",
           b->printed ? ",\n" : "[\n", names[b->kind], b->devices, tsr_process_count(b->rt), bytes,
           count, tsr_dtype_name(b->dtype), redop, f->seconds * 1e6, algbw, busbw,
           *share ? share : "null", f->wrong ? "true" : "false");
  } else {
    if (!b->printed)
      printf("# %d devices in %d processes; GB/s; share: of the copy limit\n"
             "%-15s %11s %11s %5s %5s %11s %8s %8s %6s %6s\n",
             b->devices, tsr_process_count(b->rt), "collective", "size (B)", "count", "type",
             "redop", "time (us)", "algbw", "busbw", "share", "#wrong");
    printf("%-15s %11lld %11lld %5s %5s %11.2f %8.2f %8.2f %6s %6d\n", names[b->kind], bytes, count,
           tsr_dtype_name(b->dtype), redop, f->seconds * 1e6, algbw, busbw, *share ? share : "-",
           f->wrong);
  }
  b->printed++;
  fflush(stdout);
}

/* Rounds a size down to whole elements, the same number for each device. */
static int64_t fitting(const bench *b, int64_t size)
{
  int64_t unit = (int64_t)tsr_dtype_size(b->dtype) * (b->kind == ALL_REDUCE ? 1 : b->devices);
  return size < unit ? unit : size / unit * unit;
}

static int run_all(bench *b)
{
  const char *only = tool_value(b->args, OPT_ONLY);
  bool shows = tsr_process_index(b->rt) == 0, wrong = false;
  for (int k = 0; k < KINDS; k++) {
    if (only && strcmp(only, names[k]) != 0) continue;
    b->kind = (kind)k;
    int64_t before = 0;
    for (int64_t size = b->args->least; size <= b->args->most; size *= b->args->factor) {
      int64_t fits = fitting(b, size);
      figures f = { 0 };
      if (fits == before) continue;
      before = fits;
      if (measure(b, fits, &f)) return TOOL_FAILED;
      if (shows) print_table(b, fits, &f);
      wrong = wrong || f.wrong;
    }
  }
  if (shows && tool_value(b->args, OPT_JSON)) printf(b->printed ? "\n]\n" : "[]\n");
  return wrong ? TOOL_FAILED : TOOL_OK;
}

static bool dtype_of(const char *name, tsr_dtype *out)
{
  for (int d = TSR_BOOL; d <= TSR_F64; d++)
    if (!strcmp(name, tsr_dtype_name((tsr_dtype)d))) {
      *out = (tsr_dtype)d;
      return true;
    }
  return false;
}

int tool_bench(const tool_args *args)
{
  const char *type = tool_value(args, OPT_TYPE), *devices = tool_value(args, OPT_DEVICES);
  bench b = { .args = args, .dtype = TSR_F32 };
  /* Default: two devices in one process, one device in each of several. */
  b.rt = tsr_initialize(devices ? devices : getenv("TSR_PROCESS_COUNT") ? "cpu:1" : "cpu:2");
  if (tsr_runtime_status(b.rt)) {
    fputs("tessera bench: ", stderr);
    tool_put_message(stderr, tsr_runtime_message(b.rt));
    fputc('\n', stderr);
    tsr_runtime_close(b.rt);
    return TOOL_FAILED;
  }
  if (type) dtype_of(type, &b.dtype);
  b.devices = tsr_device_count(b.rt);
  b.mesh = tsr_mesh_default(b.rt, "x");
  tool_progress_end();
  int code = run_all(&b);
  tsr_runtime_close(b.rt);
  return code;
}
