/* load.*: shuffled batches from memory, in CPU nanoseconds a record, since what fills batches runs
 * beside what uses them; shuffle.index, a place of a global shuffle; load.first, the first batch;
 * load.resume, the first batch behind a state.
 *
 * A record of 3 KB is u8[32,32,3] with an i32 label, cast to f32 and scaled by 1/255 on its way to
 * its device (load.3k.map: by a traced function there); one of 52 bytes is f32[13]. The
 * hand-written loop gathers and scales in one pass on one thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

enum {
  RUNS = 7,
  BATCH = 256,
  ROTATED = 4,
  IMAGES = 50000,
  PIXELS = 3072,
  ROWS = 1000000,
  WIDTH = 13
};

typedef struct load {
  const char *name;
  bool images, mapped;
  uint8_t *image;
  int32_t *label;
  float *row;
} load;

static int64_t records_of(const load *l)
{
  return l->images ? IMAGES : ROWS;
}

static tsr_array *scaled(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *image = tsr_cast(tsr_field(in[0], "image"), TSR_F32);
  return tsr_tree(s, { "x", tsr_mul(image, 1.0 / 255) }, { "label", tsr_field(in[0], "label") });
}

/* In large pages, as NumPy asks for them for its arrays. */
static void *in_large_pages(size_t bytes)
{
  size_t page = (size_t)1 << 21;
  void *data = aligned_alloc(page, (bytes + page - 1) / page * page);
#ifdef MADV_HUGEPAGE
  if (data) madvise(data, bytes, MADV_HUGEPAGE);
#endif
  return data;
}

static bool fill_memory(load *l)
{
  l->image = in_large_pages((size_t)IMAGES * PIXELS);
  l->label = malloc(IMAGES * sizeof *l->label);
  l->row = in_large_pages((size_t)ROWS * WIDTH * sizeof *l->row);
  if (!l->image || !l->label || !l->row) return false;
  for (size_t i = 0; i < (size_t)IMAGES * PIXELS; i++)
    l->image[i] = (uint8_t)(i * 2654435761u >> 13);
  for (int i = 0; i < IMAGES; i++) l->label[i] = i % 10;
  for (size_t i = 0; i < (size_t)ROWS * WIDTH; i++) l->row[i] = (float)(i % 1009);
  return true;
}

static tsr_source *source_of(const load *l, tsr_scope *s)
{
  if (!l->images) return tsr_source_memory(s, ROWS, { "x", TSR_F32, TSR_SHAPE(WIDTH), l->row });
  tsr_source *raw =
      tsr_source_memory(s, IMAGES,
                        { l->mapped ? "image" : "x", TSR_U8, TSR_SHAPE(32, 32, 3), l->image },
                        { "label", TSR_I32, { 0 }, l->label });
  return l->mapped ? raw : tsr_source_cast(raw, "x", .scale = 1.0 / 255);
}

/* What an epoch took, by the processor and by the clock. */
typedef struct spent {
  double cpu, seconds, sum;
} spent;

/* An epoch; with `check` the sum of all elements, which no order changes. */
static bool epoch(const load *l, tsr_scope *outer, bool check, spent *out)
{
  tsr_scope *s = tsr_scope_open(outer);
  tsr_function *map = l->mapped ? tsr_function_make(s, scaled, .name = "scaled") : NULL;
  double cpu = bench_cpu(), start = bench_now(), sum = 0;
  static uint64_t seed;
  tsr_pipeline *p =
      tsr_pipeline_open(source_of(l, s), .batch_size = BATCH, .shuffle = true, .seed = seed++,
                        .remainder = TSR_DROP, .map = map, .on = tsr_on(outer, "data"));
  out->sum = 0;
  int64_t batches = 0;
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b), batches++) {
    tsr_array *x = tsr_batch_field(b, "x"), *tree = tsr_batch_tree(b);
    if (check ? tsr_read_scalar(tsr_sum(x), &sum) : tsr_eval(&tree, 1)) break;
    out->sum += sum;
  }
  bool fine = batches == tsr_pipeline_batch_count(p) && !tsr_pipeline_close(p);
  out->cpu = (bench_cpu() - cpu) / (double)(batches * BATCH);
  out->seconds = (bench_now() - start) / (double)(batches * BATCH);
  if (!fine) fprintf(stderr, "%s: %s\n", l->name, tsr_message(s));
  tsr_scope_close(s);
  return fine;
}

/* As fast as this machine adds and multiplies, whatever the program is built for. */
#if defined(__x86_64__) && !defined(__clang__)
#define FAST __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))
#else
#define FAST
#endif

FAST static void scale_by_hand(float *restrict to, const uint8_t *restrict from)
{
  for (int k = 0; k < PIXELS; k++) to[k] = (float)from[k] * (1.0f / 255);
}

/* The same by hand: a random gather that scales, into the memory of so many batches by turns, a
 * power of two of at most ROTATED; the next record is asked for before one is read. */
static double by_hand(const load *l, int64_t batches)
{
  static float *room;
  static uint32_t order[ROWS];
  int64_t count = records_of(l), turn = BATCH * batches - 1;
  uint64_t state = 1;
  if (!room) room = in_large_pages(sizeof *room * ROTATED * BATCH * PIXELS);
  if (!room) return -1;
  float *out = room;
  for (int64_t i = 0; i < count; i++) order[i] = (uint32_t)i;
  for (int64_t i = count - 1; i > 0; i--) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    int64_t j = (int64_t)((state >> 33) % (uint64_t)(i + 1));
    uint32_t kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  double cpu = bench_cpu();
  for (int64_t i = 0; i < count; i++) {
    if (!l->images) {
      memcpy(out + (i & turn) * WIDTH, l->row + (size_t)order[i] * WIDTH, WIDTH * sizeof *out);
      continue;
    }
    const uint8_t *next = l->image + (size_t)order[i + 2 < count ? i + 2 : i] * PIXELS;
    for (int k = 0; k < PIXELS; k += 64) __builtin_prefetch(next + k, 0, 2);
    scale_by_hand(out + (i & turn) * PIXELS, l->image + (size_t)order[i] * PIXELS);
  }
  volatile float used = out[1];
  (void)used;
  return (bench_cpu() - cpu) / (double)count;
}

static tsr_scope *open_on(const char *devices, tsr_runtime **rt)
{
  *rt = tsr_runtime_open(devices, .threads = 2);
  tsr_scope *s = tsr_scope_open(*rt);
  tsr_scope_use_mesh(s, tsr_mesh_default(*rt, "data"));
  return s;
}

/* Loaders that take so long that an epoch of each, behind its first batches, is enough. */
static const struct {
  const char *family, *arguments, *label;
} loaders[] = { { "", "torch", "DataLoader" },
                { "", "torch2", "DataLoader, 2" },
                { "GRAIN", "grain", "Grain" },
                { "GRAIN", "grain_batch", "Grain, batches" },
                { "TF", "tfdata", "tf.data" } };

/* The figures of ours beside theirs: processor time and, below it, the clock. */
static void beside_loaders(const load *l, double cpu, double seconds)
{
  for (size_t i = 0; i < sizeof loaders / sizeof *loaders; i++) {
    char given[64], rest[128] = "";
    double their_cpu = -1, their_seconds = -1;
    snprintf(given, sizeof given, "%s %s", loaders[i].arguments, l->images ? "3k" : "52b");
    bench_peer *peer = bench_peer_open_in(loaders[i].family, "loading.py", given);
    if (peer && bench_peer_run(peer, rest, sizeof rest) > 0)
      sscanf(rest, "%lf %lf", &their_cpu, &their_seconds);
    bench_peer_close(peer);
    bench_line(l->name, cpu * 1e9, loaders[i].label, their_cpu < 0 ? -1 : their_cpu * 1e9, -1,
               "ns");
    if (their_seconds > 0)
      printf("    by the clock %.0f ns, %s %.0f ns, ratio %.1f\n", seconds * 1e9, loaders[i].label,
             their_seconds * 1e9, their_seconds / seconds);
  }
}

/* load.3k, load.52b against NumPy in turns and then the others, in the CPU time of all. */
static int against_others(load *l)
{
  tsr_runtime *rt;
  tsr_scope *s = open_on("cpu:1", &rt);
  double ours[BENCH_ROUNDS], theirs[BENCH_ROUNDS], limits[BENCH_ROUNDS], seconds[BENCH_ROUNDS];
  bench_peer *peer = bench_peer_open("loading.py", l->images ? "numpy 3k" : "numpy 52b");
  bool failed = false;
  spent took = { 0 };
  for (int r = -1; r < RUNS && !failed; r++) {
    char rest[128] = "";
    failed = !epoch(l, s, r < 0, &took);
    double its = peer ? bench_peer_run(peer, rest, sizeof rest) : -1, cpu = -1;
    if (its > 0) sscanf(rest, "%lf", &cpu);
    if (r < 0) continue;
    ours[r] = took.cpu, theirs[r] = cpu, limits[r] = by_hand(l, 1), seconds[r] = took.seconds;
  }
  bench_peer_close(peer);
  if (!failed) {
    double own = bench_median(ours, RUNS);
    bench_line(l->name, own * 1e9, "numpy by hand, CPU",
               peer ? bench_median(theirs, RUNS) * 1e9 : -1, bench_median(limits, RUNS) * 1e9,
               "ns");
    if (peer && !l->mapped) beside_loaders(l, own, bench_median(seconds, RUNS));
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}

/* load.8dev: the images on eight devices beside the same on one. */
static int on_eight(load *l)
{
  tsr_runtime *rt[2];
  tsr_scope *s[2] = { open_on("cpu:1", &rt[0]), open_on("cpu:8", &rt[1]) };
  double cpu[2][BENCH_ROUNDS], seconds[2][BENCH_ROUNDS], limits[BENCH_ROUNDS], turns[BENCH_ROUNDS];
  bool failed = false;
  spent took[2] = { { 0 } };
  for (int r = -1; r < RUNS && !failed; r++)
    for (int d = 0; d < 2 && !failed; d++) {
      failed = !epoch(l, s[d], r < 0, &took[d]);
      if (r < 0) continue;
      cpu[d][r] = took[d].cpu, seconds[d][r] = took[d].seconds;
      if (d) limits[r] = by_hand(l, 1), turns[r] = by_hand(l, ROTATED);
    }
  if (!failed) {
    bench_line("load.8dev", bench_median(cpu[1], RUNS) * 1e9, "on one device, CPU",
               bench_median(cpu[0], RUNS) * 1e9, bench_median(limits, RUNS) * 1e9, "ns");
    bench_line("load.8dev.turns", bench_median(cpu[1], RUNS) * 1e9, "by hand, 4 batches",
               bench_median(turns, RUNS) * 1e9, -1, "ns");
    bench_line("load.8dev.clock", bench_median(seconds[1], RUNS) * 1e9, "on one device",
               bench_median(seconds[0], RUNS) * 1e9, -1, "ns");
  }
  for (int d = 0; d < 2; d++) {
    tsr_scope_close(s[d]);
    tsr_runtime_close(rt[d]);
  }
  return failed;
}

/* shuffle.index: numbers of a range of 1e9, shuffled, in batches; writing them is in the figure. */
static int shuffle_index(void)
{
  enum { SIZE = 1 << 16, COUNT = 200 };
  tsr_runtime *rt;
  tsr_scope *s = open_on("cpu:1", &rt);
  double ours[BENCH_ROUNDS];
  bool failed = false;
  for (int r = 0; r < RUNS && !failed; r++) {
    tsr_pipeline *p = tsr_pipeline_open(tsr_source_range(s, 1000000000), .batch_size = SIZE,
                                        .shuffle = true, .seed = 7, .epochs = 1);
    double cpu = bench_cpu();
    int done = 0;
    for (tsr_batch *b; done < COUNT && (b = tsr_pipeline_next(p)); done++) tsr_batch_release(b);
    failed = tsr_pipeline_close(p) || done < COUNT;
    ours[r] = (bench_cpu() - cpu) / ((double)SIZE * COUNT);
  }
  if (!failed) bench_line("shuffle.index", bench_median(ours, RUNS) * 1e9, "bar", 15, -1, "ns");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}

/* load.first: from opening a pipeline over memory to its first batch. */
static int first_batch(load *l)
{
  tsr_runtime *rt;
  tsr_scope *s = open_on("cpu:8", &rt);
  double ours[BENCH_ROUNDS];
  tsr_source *source = source_of(l, s);
  bool failed = false;
  for (int r = -1; r < RUNS && !failed; r++) {
    double start = bench_now();
    tsr_pipeline *p =
        tsr_pipeline_open(source, .batch_size = BATCH, .shuffle = true, .on = tsr_on(s, "data"));
    tsr_batch *b = tsr_pipeline_next(p);
    if (r >= 0) ours[r] = bench_now() - start;
    failed = !b;
    tsr_batch_release(b);
    failed = tsr_pipeline_close(p) || failed;
  }
  if (!failed) bench_line("load.first", bench_median(ours, RUNS) * 1e3, "bar", 5, -1, "ms");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}

/* The first batch of a pipeline that goes on behind `done` batches, from opening it. Before it as
 * many are drawn wherever it goes on: what ran last decides what lies in the caches and which
 * thread the system lets run, which would be taken for the place. */
static double resume_behind(tsr_source *source, tsr_scope *s, int64_t done)
{
  char state[4096];
  size_t size = 0;
  tsr_sharding on = tsr_on(s, "data");
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = BATCH, .shuffle = true, .on = on);
  bool failed = false;
  for (int64_t i = 0; i < IMAGES / BATCH; i++) {
    if (i == done) failed = tsr_pipeline_save(p, state, sizeof state, &size);
    tsr_batch_release(tsr_pipeline_next(p));
  }
  failed = tsr_pipeline_close(p) || failed;
  double start = bench_now();
  p = tsr_pipeline_open(source, .batch_size = BATCH, .shuffle = true, .on = on, .state = state,
                        .state_size = size);
  tsr_batch *b = tsr_pipeline_next(p);
  double took = bench_now() - start;
  failed = failed || !b || tsr_batch_index(b) != done;
  tsr_batch_release(b);
  failed = tsr_pipeline_close(p) || failed;
  return failed ? -1 : took;
}

/* load.resume: restored at 90 % of an epoch beside at 10 %. */
static int resume(load *l)
{
  enum { TURNS = 15 };
  tsr_runtime *rt;
  tsr_scope *s = open_on("cpu:8", &rt);
  double took[2][BENCH_ROUNDS];
  tsr_source *source = source_of(l, s);
  int64_t batches = IMAGES / BATCH;
  bool failed = false;
  for (int r = -1; r < TURNS && !failed; r++)
    for (int k = 0; k < 2 && !failed; k++) {
      double seconds = resume_behind(source, s, batches * (k ? 9 : 1) / 10);
      failed = seconds < 0;
      if (r >= 0) took[k][r] = seconds;
    }
  if (failed) fprintf(stderr, "load.resume: %s\n", tsr_message(s));
  else
    bench_line("load.resume", bench_median(took[1], TURNS) * 1e3, "at 10 %",
               bench_median(took[0], TURNS) * 1e3, -1, "ms");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}

int bench_loading(const char *name)
{
  load l = { .name = name,
             .images = strcmp(name, "load.52b") != 0,
             .mapped = strcmp(name, "load.3k.map") == 0 };
  int failed = 1;
  if (!strcmp(name, "shuffle.index")) return shuffle_index();
  if (!fill_memory(&l)) fprintf(stderr, "%s: no memory\n", name);
  else if (!strcmp(name, "load.8dev")) failed = on_eight(&l);
  else if (!strcmp(name, "load.first")) failed = first_batch(&l);
  else if (!strcmp(name, "load.resume")) failed = resume(&l);
  else failed = against_others(&l);
  free(l.image);
  free(l.label);
  free(l.row);
  return failed;
}
