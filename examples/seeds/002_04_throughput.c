/* Sharding guide, block 4: how long batches take, the first five left out. The times are stand-ins,
 * so that what is printed is known; then the pipeline is measured, and nothing is compared. Where
 * no batch is left to time that is said: the block prints nan. */
#include <time.h>

#include "check.h"
#include "inputs.h"

enum { SKIPPED = 5, MOST = 50 };

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The mean of all times but the first; false where there are no more. */
static bool mean_time(const double *times, int count, double *out)
{
  double sum = 0;
  if (count <= SKIPPED) return false;
  for (int i = SKIPPED; i < count; i++) sum += times[i];
  *out = sum / (count - SKIPPED);
  return true;
}

/* Times of batches, each until all of it is on its devices. */
static int time_batches(tsr_pipeline *p, double *times, int64_t *bytes)
{
  int count = 0;
  for (tsr_batch *b; count < MOST; tsr_batch_release(b)) {
    double begin = now();
    if (!(b = tsr_pipeline_next(p))) break;
    times[count++] = now() - begin;
    tsr_shape shape = tsr_shape_of(tsr_batch_field(b, "image"));
    *bytes = (int64_t)sizeof(float);
    for (int d = 0; d < shape.rank; d++) *bytes *= shape.dims[d];
  }
  return count;
}

int main(void)
{
  check c = check_open("002_04");
  double times[MOST], mean = 0;
  char line[128];
  for (int i = 0; i < MOST; i++) times[i] = i < SKIPPED ? 0.5 : 0.03125;
  if (!mean_time(times, MOST, &mean)) check_fail(&c, "no times");
  check_number(&c, "average", mean, 0);
  check_number(&c, "throughput", 256 / mean, 0);
  snprintf(line, sizeof line, "Average batch time: %.2fms", mean * 1000);
  check_print(&c, "printed", 0, line);
  snprintf(line, sizeof line, "Throughput: %.0f samples/sec", 256 / mean);
  check_print(&c, "printed", 1, line);

  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *images = input_images(s, 1024, TSR_SHAPE(32, 32, 3));
  for (int epochs = 1; epochs <= 4; epochs += 3) {
    int64_t bytes = 0;
    tsr_pipeline *p =
        tsr_pipeline_open(images, .batch_size = 256, .epochs = epochs, .on = tsr_on(mesh, "data"));
    int count = time_batches(p, times, &bytes);
    if (tsr_pipeline_close(p)) check_fail(&c, "%s", tsr_message(s));
    check_ints(&c, "batch_bytes", &bytes, 1);
    if (count != 4 * epochs) check_fail(&c, "%d batches, expected %d", count, 4 * epochs);
    bool some = mean_time(times, count, &mean);
    if (some != (epochs > 1)) check_fail(&c, "%d batches gave %s mean", count, some ? "a" : "no");
    if (some) printf("measured: %.2f ms a batch\n", mean * 1000);
    else printf("%d batches: the first %d are skipped and none is left to time\n", count, SKIPPED);
  }
  tsr_runtime_close(rt);
  return check_close(&c);
}
