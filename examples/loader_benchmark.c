/* Measures how fast a pipeline delivers batches to one, two and four devices.
 *
 *   loader_benchmark [BATCHES]      default: $TESSERA_DEMO_STEPS, else 2000
 *
 * The records are handwritten digits, shuffled, in batches of 256. Pixels are bytes in the file and
 * floats from 0 to 1 on the devices. The program waits for the floats of each batch. It skips the
 * first batches, in which programs are planned and memory is touched for the first time. It adds up
 * the pixels of the batches after the timed ones exactly, so all rows of the table show one sum.
 *
 * The devices share the same processors, so the table shows the cost of more devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tessera.h>

enum { WARM_UP = 5, BATCH = 256, CHECKED = 20, MOST = 100000 };

static double now(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The results of a run. */
typedef struct outcome {
  int devices, batches; /* timed batches */
  double mean, longest; /* seconds per batch */
  double processors;    /* CPU seconds per batch */
  double sum;           /* of the pixels of the batches after these */
  int64_t memory;       /* bytes of a batch on a device */
} outcome;

static tsr_array *to_floats(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *image = tsr_div(tsr_cast(tsr_field(in[0], "image"), TSR_F32), 16);
  return tsr_tree(s, { "image", image }, { "label", tsr_field(in[0], "label") });
}

/* Waits until the whole batch is on its devices. */
static tsr_status until_ready(tsr_batch *b, outcome *out)
{
  tsr_array *tree = tsr_batch_tree(b);
  tsr_status status = tsr_eval(&tree, 1);
  tsr_array *image = tsr_batch_field(b, "image");
  tsr_sharding on = tsr_sharding_of(image);
  tsr_shape part = tsr_shape_of(image);
  if (!status) status = tsr_shard_shape(&on, tsr_shape_of(image), &part);
  out->memory = part.dims[0] * (int64_t)(8 * 8 * sizeof(float) + 1);
  return status;
}

/* Measures the time from batch to batch while the caller only waits for them. The warm-up does not
 * count. */
static tsr_status time_batches(tsr_pipeline *p, int batches, outcome *out)
{
  double begin = now(CLOCK_MONOTONIC), first = begin, cpu = 0;
  tsr_status status = TSR_OK;
  int seen = 0;
  for (tsr_batch *b; !status && seen < batches && (b = tsr_pipeline_next(p)); seen++) {
    status = until_ready(b, out);
    tsr_batch_release(b);
    double end = now(CLOCK_MONOTONIC);
    if (seen >= WARM_UP && end - begin > out->longest) out->longest = end - begin;
    if (seen == WARM_UP - 1) first = end, cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    begin = end;
  }
  if (seen <= WARM_UP) return status;
  out->batches = seen - WARM_UP;
  out->mean = (begin - first) / out->batches;
  out->processors = (now(CLOCK_PROCESS_CPUTIME_ID) - cpu) / out->batches;
  return status;
}

/* Adds up the pixels of the next batches. */
static tsr_status add_up(tsr_pipeline *p, outcome *out)
{
  tsr_status status = TSR_OK;
  double sum = 0;
  tsr_batch *b;
  for (int i = 0; !status && i < CHECKED && (b = tsr_pipeline_next(p)); i++) {
    status = tsr_read_scalar(tsr_sum(tsr_batch_field(b, "image")), &sum);
    out->sum += sum;
    tsr_batch_release(b);
  }
  return status;
}

/* Returns false after printing an error. */
static bool measure(int devices, int batches, outcome *out)
{
  char name[16];
  snprintf(name, sizeof name, "cpu:%d", devices);
  tsr_runtime *rt = tsr_runtime_open(name);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *digits = tsr_source_npz(s, EXAMPLES_DATA "/digits.npz");
  *out = (outcome){ .devices = devices };
  tsr_pipeline *p =
      tsr_pipeline_open(digits, .batch_size = BATCH, .shuffle = true, .seed = 1, .epochs = -1,
                        .remainder = TSR_DROP, .on = tsr_on(tsr_mesh_default(rt, "data"), "data"),
                        .map = tsr_function_make(s, to_floats));
  tsr_status status = time_batches(p, batches, out);
  if (!status) status = add_up(p, out);
  if (!status && devices == 4) printf("%s\n", tsr_pipeline_text(p));
  tsr_status closed = tsr_pipeline_close(p);
  if (!status) status = closed;
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status == TSR_OK;
}

int main(int argc, char **argv)
{
  static const int devices[] = { 1, 2, 4 };
  const char *asked = argc > 1 ? argv[1] : getenv("TESSERA_DEMO_STEPS");
  int batches = asked ? atoi(asked) : 2000;
  outcome all[3];
  if (batches < 1 || batches > MOST) return fprintf(stderr, "loader_benchmark [BATCHES]\n"), 2;
  for (int i = 0; i < 3; i++)
    if (!measure(devices[i], batches, &all[i])) return 1;
  if (!all[0].batches) {
    printf("%d batches are not enough: the first %d are left out\n", batches, WARM_UP);
    return 0;
  }
  printf("%d batches of %d, the first %d left out\n\n", all[0].batches, BATCH, WARM_UP);
  printf("devices   a batch   longest  processors  samples/s  scaling  bytes a device\n");
  for (int i = 0; i < 3; i++)
    printf("%7d %6.3f ms %6.3f ms %8.3f ms %10.0f %8.2f %15lld\n", all[i].devices,
           all[i].mean * 1e3, all[i].longest * 1e3, all[i].processors * 1e3, BATCH / all[i].mean,
           all[0].mean / all[i].mean, (long long)all[i].memory);
  bool same = all[0].sum == all[1].sum && all[0].sum == all[2].sum;
  printf("\nthe pixels of the next %d batches %s\n", CHECKED,
         same ? "add up to the same on 1, 2 and 4 devices" : "DIFFER");
  return same ? 0 : 1;
}
