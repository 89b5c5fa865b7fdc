/* Sorting a line of an array, whole and cut over devices, and prefix sums over devices. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ROUNDS = 7, STRIDE = 9973 };

/* An array on some devices; on one of them a peer's file of the same numbers, too. */
typedef struct side {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_array *x;
} side;

static bool open_side(side *on, int devices, int64_t count)
{
  char names[16];
  snprintf(names, sizeof names, "cpu:%d", devices);
  on->rt = tsr_runtime_open(names, .threads = 2);
  on->s = tsr_scope_open(on->rt);
  tsr_mesh *mesh = tsr_mesh_default(on->rt, "data");
  tsr_array *draws =
      tsr_uniform(on->s, .key = 1, .shape = TSR_SHAPE(count), .on = tsr_on(mesh, "data"));
  on->x = tsr_sub(tsr_cast(draws, TSR_F32), 0.25);
  if (!tsr_eval(&on->x, 1)) return true;
  fprintf(stderr, "sort: %s\n", tsr_message(on->s));
  return false;
}

static void close_side(side *on)
{
  tsr_scope_close(on->s);
  tsr_runtime_close(on->rt);
}

typedef tsr_array *make_fn(tsr_array *x);

static tsr_array *sorted(tsr_array *x)
{
  return tsr_sort(x, 0);
}

static tsr_array *places(tsr_array *x)
{
  return tsr_argsort(x, 0);
}

static tsr_array *prefixes(tsr_array *x)
{
  return tsr_cumsum(x, 0);
}

/* Seconds, and those of all threads; negative: it failed. */
static double once(const side *on, make_fn *make, double *cpu)
{
  tsr_scope *s = tsr_scope_open(on->s);
  double start = bench_now(), before = bench_cpu();
  tsr_status status = tsr_wait(make(tsr_keep(s, on->x)));
  double seconds = bench_now() - start;
  *cpu = bench_cpu() - before;
  if (status) fprintf(stderr, "sort: %s\n", tsr_message(s));
  tsr_scope_close(s);
  return status ? -1 : seconds;
}

/* What both sides show of a result: the sum of elements here and there. */
static double look(const side *on, make_fn *make)
{
  double sum = NAN;
  tsr_scope *s = tsr_scope_open(on->s);
  tsr_array *x = tsr_keep(s, on->x), *made = make(x);
  if (make == places) made = tsr_take(x, made, 0);
  made = tsr_slice(made, TSR_STEPS(0, TSR_END, STRIDE));
  if (tsr_read_scalar(tsr_sum(tsr_cast(made, TSR_F64)), &sum))
    fprintf(stderr, "sort: %s\n", tsr_message(s));
  tsr_scope_close(s);
  return sum;
}

/* ---- beside NumPy ---------------------------------------------------------------------------- */

static bench_peer *open_peer(const side *on, const char *what)
{
  char path[1024], arguments[1100];
  struct stat info;
  snprintf(path, sizeof path, "%s/sort.npy", bench_data_dir());
  if (stat(path, &info) && tsr_save_npy(on->x, path)) return NULL;
  snprintf(arguments, sizeof arguments, "%s '%s' %d", what, path, STRIDE);
  return bench_peer_open("sorting.py", arguments);
}

static int beside_numpy(const char *name, const char *what, make_fn *make)
{
  side on;
  char said[128] = "";
  double ours[ROUNDS], theirs[ROUNDS], cpu;
  bool open = open_side(&on, 1, 10000000);
  bench_peer *peer = open ? open_peer(&on, what) : NULL;
  int failed = !open;
  for (int r = -1; r < ROUNDS && !failed; r++) {
    double mine = once(&on, make, &cpu);
    if (bench_short(mine)) mine = once(&on, make, &cpu);
    double other = bench_peer_run(peer, said, sizeof said);
    failed = mine < 0;
    if (r >= 0) ours[r] = mine, theirs[r] = other;
  }
  double own = failed || !peer ? 0 : look(&on, make);
  if (!failed && peer && !(fabs(strtod(said, NULL) - own) <= 1e-9 * fabs(own))) {
    fprintf(stderr, "%s: NumPy has %s here and there, we have %.17g\n", name, said, own);
    failed = 1;
  }
  if (!failed)
    bench_line(name, bench_median(ours, ROUNDS) * 1e3, "NumPy",
               peer ? bench_median(theirs, ROUNDS) * 1e3 : -1, -1, "ms");
  bench_peer_close(peer);
  close_side(&on);
  return failed;
}

/* ---- eight devices beside one ---------------------------------------------------------------- */

static int beside_one(const char *name, make_fn *make, int64_t count)
{
  side eight, one;
  bool open = open_side(&eight, 8, count);
  open = open_side(&one, 1, count) && open;
  double took[4][ROUNDS];
  int failed = !open;
  for (int r = -1; r < ROUNDS && !failed; r++) {
    double a, b, x = once(&eight, make, &a), y = once(&one, make, &b);
    failed = x < 0 || y < 0;
    if (r >= 0) took[0][r] = x, took[1][r] = y, took[2][r] = a, took[3][r] = b;
  }
  if (!failed && look(&eight, make) != look(&one, make)) {
    fprintf(stderr, "%s: not the same on eight devices as on one\n", name);
    failed = 1;
  }
  if (!failed)
    bench_eight(name,
                &(bench_pair){ bench_median(took[0], ROUNDS), bench_median(took[1], ROUNDS),
                               bench_median(took[2], ROUNDS), bench_median(took[3], ROUNDS) });
  close_side(&one);
  close_side(&eight);
  return failed;
}

int bench_lines_sorted(const char *only)
{
  bool all = strcmp(only, "line") == 0;
  int failed = 0;
  if (all || strcmp(only, "sort.f32") == 0) failed |= beside_numpy("sort.f32", "sort", sorted);
  if (all || strcmp(only, "argsort.f32") == 0)
    failed |= beside_numpy("argsort.f32", "argsort", places);
  if (all || strcmp(only, "sort.8dev") == 0) failed |= beside_one("sort", sorted, 1 << 22);
  if (all || strcmp(only, "cumsum.8dev") == 0) failed |= beside_one("cumsum", prefixes, 1 << 26);
  return failed;
}
