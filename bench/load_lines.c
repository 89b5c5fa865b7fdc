/* load.*: shuffled batches from memory, in CPU nanoseconds a record, since what fills batches runs
 * beside what uses them; shuffle.index, a place of a global shuffle; load.first, the first batch.
 *
 * A record of 3 KB is u8[32,32,3] with an i32 label, cast to f32 and scaled by 1/255 on its
 * device; one of 52 bytes is f32[13]. The hand-written loop gathers and scales in one pass on one
 * thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { RUNS = 7, BATCH = 256, IMAGES = 50000, PIXELS = 3072, ROWS = 1000000, WIDTH = 13 };

typedef struct load {
  const char *name;
  bool images;
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

static bool fill_memory(load *l)
{
  l->image = malloc((size_t)IMAGES * PIXELS);
  l->label = malloc(IMAGES * sizeof *l->label);
  l->row = malloc((size_t)ROWS * WIDTH * sizeof *l->row);
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
  return tsr_source_memory(s, IMAGES, { "image", TSR_U8, TSR_SHAPE(32, 32, 3), l->image },
                           { "label", TSR_I32, { 0 }, l->label });
}

/* What an epoch took, by the processor and by the clock. */
typedef struct spent {
  double cpu, seconds, sum;
} spent;

/* An epoch; with `check` the sum of all elements, which no order changes. */
static bool epoch(const load *l, tsr_scope *outer, bool check, spent *out)
{
  tsr_scope *s = tsr_scope_open(outer);
  tsr_function *map = l->images ? tsr_function_make(s, scaled, .name = "scaled") : NULL;
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

/* The same by hand: a random gather that scales, into the memory of one batch. */
static double by_hand(const load *l)
{
  static float out[BATCH * PIXELS];
  static uint32_t order[ROWS];
  int64_t count = records_of(l);
  uint64_t state = 1;
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
      memcpy(out + i % BATCH * WIDTH, l->row + (size_t)order[i] * WIDTH, WIDTH * sizeof *out);
      continue;
    }
    const uint8_t *from = l->image + (size_t)order[i] * PIXELS;
    float *to = out + i % BATCH * PIXELS;
    for (int k = 0; k < PIXELS; k++) to[k] = (float)from[k] * (1.0f / 255);
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

/* load.3k, load.52b against NumPy, in the CPU time of both. */
static int against_numpy(load *l)
{
  tsr_runtime *rt;
  tsr_scope *s = open_on("cpu:1", &rt);
  double ours[BENCH_ROUNDS], theirs[BENCH_ROUNDS], limits[BENCH_ROUNDS];
  bench_peer *peer = bench_peer_open("loading.py", l->images ? "3k" : "52b");
  bool failed = false;
  spent took = { 0 };
  for (int r = -1; r < RUNS && !failed; r++) {
    char rest[64] = "";
    failed = !epoch(l, s, r < 0, &took);
    double its = peer ? bench_peer_run(peer, rest, sizeof rest) : -1, cpu = -1;
    if (its > 0) sscanf(rest, "%lf", &cpu);
    if (r >= 0) ours[r] = took.cpu, theirs[r] = cpu, limits[r] = by_hand(l);
  }
  if (peer) bench_peer_close(peer);
  if (!failed)
    bench_line(l->name, bench_median(ours, RUNS) * 1e9, "numpy by hand, CPU",
               peer ? bench_median(theirs, RUNS) * 1e9 : -1, bench_median(limits, RUNS) * 1e9,
               "ns");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}

/* load.8dev: the images on eight devices beside the same on one. */
static int on_eight(load *l)
{
  tsr_runtime *rt[2];
  tsr_scope *s[2] = { open_on("cpu:1", &rt[0]), open_on("cpu:8", &rt[1]) };
  double cpu[2][BENCH_ROUNDS], seconds[2][BENCH_ROUNDS], limits[BENCH_ROUNDS];
  bool failed = false;
  spent took[2] = { { 0 } };
  for (int r = -1; r < RUNS && !failed; r++)
    for (int d = 0; d < 2 && !failed; d++) {
      failed = !epoch(l, s[d], r < 0, &took[d]);
      if (r < 0) continue;
      cpu[d][r] = took[d].cpu, seconds[d][r] = took[d].seconds;
      if (d) limits[r] = by_hand(l);
    }
  if (!failed) {
    bench_line("load.8dev", bench_median(cpu[1], RUNS) * 1e9, "on one device, CPU",
               bench_median(cpu[0], RUNS) * 1e9, bench_median(limits, RUNS) * 1e9, "ns");
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

int bench_loading(const char *name)
{
  load l = { .name = name, .images = strcmp(name, "load.52b") != 0 };
  int failed = 1;
  if (!strcmp(name, "shuffle.index")) return shuffle_index();
  if (!fill_memory(&l)) fprintf(stderr, "%s: no memory\n", name);
  else if (!strcmp(name, "load.8dev")) failed = on_eight(&l);
  else if (!strcmp(name, "load.first")) failed = first_batch(&l);
  else failed = against_numpy(&l);
  free(l.image);
  free(l.label);
  free(l.row);
  return failed;
}
