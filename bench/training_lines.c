/* mlp.1dev, mlp.8dev, cnn.1dev, cnn.8dev: one step of training as a traced function (loss,
 * gradient, SGD), beside JAX's jit and PyTorch. first_step.mlp, first_step.cnn: a process that
 * makes one step and prints the loss. What goes in is made by a formula on both sides
 * (peers/training.py). */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the networks ---------------------------------------------------------------------------- */

static tsr_array *dense(tsr_array *p, tsr_array *x)
{
  return tsr_add(tsr_matmul(x, tsr_field(p, "w")), tsr_field(p, "b"));
}

static tsr_array *mlp_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *x = tsr_relu(dense(tsr_field(in[0], "one"), in[1]));
  x = tsr_relu(dense(tsr_field(in[0], "two"), x));
  return tsr_mean(tsr_cross_entropy(dense(tsr_field(in[0], "three"), x), in[2]));
}

static tsr_array *cnn_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *x = tsr_relu(tsr_conv(in[1], tsr_field(in[0], "near"), .same = true));
  x = tsr_max_pool(x, .window = { 2, 2 });
  x = tsr_relu(tsr_conv(x, tsr_field(in[0], "far"), .same = true));
  x = tsr_max_pool(x, .window = { 2, 2 });
  x = tsr_reshape(x, TSR_SHAPE(128, 8 * 8 * 64));
  return tsr_mean(tsr_cross_entropy(dense(tsr_field(in[0], "last"), x), in[2]));
}

static tsr_array *downhill(tsr_scope *s, tsr_array *const *leaves, void *user)
{
  (void)s, (void)user;
  return tsr_sub(leaves[0], tsr_mul(leaves[1], 0.01));
}

/* `user`: the loss and its gradient. */
static tsr_array *step(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *both = tsr_call(user, in[0], in[1], in[2]);
  tsr_array *next = tsr_tree_map(downhill, NULL, (tsr_array *[]){ in[0], tsr_item(both, 1) }, 2);
  return tsr_tuple(s, next, tsr_item(both, 0));
}

/* ---- what goes in ---------------------------------------------------------------------------- */

/* Numbers from -scale to scale. */
static tsr_array *reals(tsr_scope *s, uint32_t salt, double scale, tsr_shape shape, tsr_sharding on)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  float *x = malloc((size_t)count * sizeof *x);
  for (int64_t i = 0; i < count; i++) {
    uint32_t mixed = (uint32_t)i * 2654435761u + salt * 40503u;
    x[i] = (float)scale * ((float)(mixed >> 8) * 0x1p-23f - 1);
  }
  tsr_array *array = tsr_put(s, x, TSR_F32, shape, on);
  free(x);
  return array;
}

static tsr_array *layer(tsr_scope *s, uint32_t salt, int64_t in, int64_t out, tsr_sharding on)
{
  return tsr_tree(s, { "w", reals(s, salt, 0.08, TSR_SHAPE(in, out), on) },
                  { "b", tsr_full(s, 0, TSR_F32, TSR_SHAPE(out), on) });
}

/* Model, images, labels, and the function of a step. */
typedef struct job {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_array *in[3];
  tsr_function *step;
} job;

static job open_job(bool windows, int devices)
{
  char name[16];
  snprintf(name, sizeof name, "cpu:%d", devices);
  job j = { .rt = tsr_runtime_open(name, .threads = 2) };
  tsr_mesh *mesh = tsr_mesh_default(j.rt, "data");
  tsr_scope *s = j.s = tsr_scope_open(j.rt);
  tsr_sharding rows = tsr_on(mesh, "data"), whole = tsr_on(mesh, "");
  int64_t batch = windows ? 128 : 1024;
  if (windows) {
    j.in[0] = tsr_tree(s, { "near", reals(s, 1, 0.15, TSR_SHAPE(3, 3, 3, 32), whole) },
                       { "far", reals(s, 2, 0.08, TSR_SHAPE(3, 3, 32, 64), whole) },
                       { "last", layer(s, 3, 8 * 8 * 64, 10, whole) });
    j.in[1] = reals(s, 4, 1, TSR_SHAPE(128, 32, 32, 3), rows);
  } else {
    j.in[0] =
        tsr_tree(s, { "one", layer(s, 1, 784, 512, whole) },
                 { "two", layer(s, 2, 512, 512, whole) }, { "three", layer(s, 3, 512, 10, whole) });
    j.in[1] = reals(s, 4, 1, TSR_SHAPE(1024, 784), rows);
  }
  int32_t labels[1024];
  for (int i = 0; i < batch; i++) labels[i] = i % 10;
  j.in[2] = tsr_put(s, labels, TSR_I32, TSR_SHAPE(batch), rows);
  tsr_function *slope = tsr_value_and_grad(tsr_function_make(s, windows ? cnn_loss : mlp_loss));
  j.step = tsr_function_make(s, step, .user = slope);
  return j;
}

static void close_job(job *j)
{
  tsr_scope_close(j->s);
  tsr_runtime_close(j->rt);
}

/* One step: seconds and CPU seconds; NAN: it failed. */
static double make_step(const job *j, double *cpu, double *loss)
{
  tsr_array *leaves[16];
  tsr_scope *s = tsr_scope_open(j->s);
  double busy = bench_cpu(), start = bench_now();
  tsr_array *out = tsr_call(j->step, tsr_tree_keep(s, j->in[0]), j->in[1], j->in[2]);
  int count = tsr_tree_leaves(out, leaves, 16);
  tsr_status status = tsr_eval(leaves, count);
  if (!status) status = tsr_read_scalar(leaves[count - 1], loss);
  double seconds = bench_now() - start;
  *cpu = bench_cpu() - busy;
  if (status) fprintf(stderr, "training: %s\n", tsr_message(s));
  tsr_scope_close(s);
  return status ? NAN : seconds;
}

/* ---- the lines ------------------------------------------------------------------------------- */

static const char *const peer_names[] = { "JAX", "PyTorch" };

/* Times of one side by round. */
typedef struct side {
  double seconds[BENCH_ROUNDS], cpu[BENCH_ROUNDS], loss;
  bench_peer *peer;
} side;

static bool ask(side *p, int round)
{
  char said[128] = "";
  double seconds = bench_peer_run(p->peer, said, sizeof said), cpu = 0;
  if (seconds < 0 || sscanf(said, "%lf %lf", &p->loss, &cpu) != 2) return false;
  if (round >= 0) p->seconds[round] = seconds, p->cpu[round] = cpu;
  return true;
}

static void print_sides(const char *name, side *sides, int rounds)
{
  double own = bench_median(sides[0].seconds, rounds), cpu = bench_median(sides[0].cpu, rounds);
  for (int k = 1; k < 3; k++) {
    double seconds = sides[k].peer ? bench_median(sides[k].seconds, rounds) : -1;
    bench_line(name, own * 1e3, peer_names[k - 1], seconds < 0 ? -1 : seconds * 1e3, -1, "ms");
    if (!sides[k].peer) continue;
    double theirs = bench_median(sides[k].cpu, rounds);
    printf("    CPU %.1f ms, %s %.1f ms, ratio %.2f\n", cpu * 1e3, peer_names[k - 1], theirs * 1e3,
           theirs / cpu);
  }
}

int bench_training(const char *name)
{
  enum { ROUNDS = 9 };
  static side sides[3];
  char given[32];
  bool windows = name[0] == 'c';
  int devices = strstr(name, ".8dev") ? 8 : 1, failed = 0;
  job j = open_job(windows, devices);
  memset(sides, 0, sizeof sides);
  for (int k = 0; k < 2; k++) {
    snprintf(given, sizeof given, "%s %s %d", peer_names[k], windows ? "cnn" : "mlp", devices);
    sides[k + 1].peer = bench_peer_open("training.py", given);
  }
  for (int round = -2; round < ROUNDS && !failed; round++) {
    double cpu, seconds = make_step(&j, &cpu, &sides[0].loss);
    failed = isnan(seconds);
    if (round >= 0) sides[0].seconds[round] = seconds, sides[0].cpu[round] = cpu;
    for (int k = 1; k < 3 && !failed; k++) failed = sides[k].peer && !ask(&sides[k], round);
  }
  for (int k = 1; k < 3 && !failed; k++) {
    if (!sides[k].peer || fabs(sides[k].loss - sides[0].loss) < 1e-4 * sides[0].loss) continue;
    fprintf(stderr, "%s: a loss of %g, %s has %g\n", name, sides[0].loss, peer_names[k - 1],
            sides[k].loss);
    failed = 1;
  }
  if (!failed) print_sides(name, sides, ROUNDS);
  for (int k = 1; k < 3; k++) bench_peer_close(sides[k].peer);
  close_job(&j);
  return failed;
}

/* What the lines first_step time. */
int bench_first_step_child(const char *which)
{
  job j = open_job(which[0] == 'c', 1);
  double cpu, loss = 0, seconds = make_step(&j, &cpu, &loss);
  printf("%g\n", loss);
  close_job(&j);
  return isnan(seconds);
}
