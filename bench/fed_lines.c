/* cnn.fed, digits.fed: steps of training on batches of 128 that a pipeline fills meanwhile,
 * shuffled and scaled from bytes, beside steps on data that is in its place. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "training.h"

enum { ROUNDS = 9, BATCH = 128, MOST_STEPS = 200 };

typedef struct feeding {
  const char *name;
  training_job job;
  tsr_pipeline *p;
  int steps; /* a turn */
} feeding;

/* What a turn's steps took in the median. */
typedef struct turn {
  double seconds, cpu;
} turn;

/* One step on the next batch, the wait for it included. */
static double fed_step(feeding *f)
{
  double cpu, loss, start = bench_now();
  tsr_batch *b = tsr_pipeline_next(f->p);
  double took = !b ? NAN
                   : bench_training_step(&f->job, tsr_batch_field(b, "x"),
                                         tsr_batch_field(b, "label"), &cpu, &loss);
  tsr_batch_release(b);
  return isnan(took) ? NAN : bench_now() - start;
}

static double placed_step(feeding *f)
{
  double cpu, loss, start = bench_now();
  double took = bench_training_step(&f->job, f->job.in[1], f->job.in[2], &cpu, &loss);
  return isnan(took) ? NAN : bench_now() - start;
}

static bool take_turn(feeding *f, bool fed, turn *out)
{
  double times[MOST_STEPS], cpu = bench_cpu();
  for (int i = 0; i < f->steps; i++) {
    times[i] = fed ? fed_step(f) : placed_step(f);
    if (isnan(times[i])) return false;
  }
  out->cpu = (bench_cpu() - cpu) / f->steps;
  out->seconds = bench_median(times, f->steps);
  return true;
}

static int measure(feeding *f)
{
  double seconds[2][BENCH_ROUNDS], cpu[2][BENCH_ROUNDS];
  turn took = { 0 };
  bool failed = false;
  for (int r = -1; r < ROUNDS && !failed; r++)
    for (int fed = 0; fed < 2 && !failed; fed++) {
      failed = !take_turn(f, fed, &took);
      if (r >= 0) seconds[fed][r] = took.seconds, cpu[fed][r] = took.cpu;
    }
  if (failed) {
    fprintf(stderr, "%s: %s\n", f->name, tsr_message(f->job.s));
    return 1;
  }
  double placed = bench_median(seconds[0], ROUNDS), fed = bench_median(seconds[1], ROUNDS);
  bench_line(f->name, fed * 1e3, "in its place", placed * 1e3, -1, "ms");
  printf("    CPU %.3f ms, in its place %.3f ms; %.3f times the time\n",
         bench_median(cpu[1], ROUNDS) * 1e3, bench_median(cpu[0], ROUNDS) * 1e3, fed / placed);
  return 0;
}

int bench_fed(const char *name)
{
  bool windows = name[0] == 'c';
  const training_net net = { windows, BATCH, 64, 256, 1, 2 };
  int64_t records = windows ? 20000 : 1797, bytes = windows ? 3072 : 64;
  uint8_t *image = malloc((size_t)(records * bytes));
  int32_t *label = malloc((size_t)records * sizeof *label);
  feeding f = { name, bench_training_open(&net), NULL, windows ? 8 : MOST_STEPS };
  if (!image || !label) return 1;
  for (int64_t i = 0; i < records * bytes; i++)
    image[i] = (uint8_t)((uint64_t)i * 2654435761u >> 13);
  for (int64_t i = 0; i < records; i++) label[i] = (int32_t)(i % 10);
  tsr_scope *s = f.job.s;
  tsr_source *source =
      tsr_source_memory(s, records,
                        { "x", TSR_U8, windows ? TSR_SHAPE(32, 32, 3) : TSR_SHAPE(64), image },
                        { "label", TSR_I32, { 0 }, label });
  source = tsr_source_cast(source, "x", .scale = 1.0 / 255);
  f.p = tsr_pipeline_open(source, .batch_size = BATCH, .shuffle = true, .epochs = -1,
                          .remainder = TSR_DROP,
                          .on = tsr_on(tsr_mesh_default(f.job.rt, "data"), "data"));
  int failed = measure(&f);
  if (tsr_pipeline_close(f.p)) failed = 1;
  bench_training_close(&f.job);
  free(image);
  free(label);
  return failed;
}
