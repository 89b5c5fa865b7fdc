/* mlp.1dev, mlp.8dev, cnn.1dev, cnn.8dev: one step of training as a traced function (loss,
 * gradient, SGD), beside JAX's jit and PyTorch; transformer.8dev (decoder_job.c), beside JAX.
 * first_step.mlp, first_step.cnn: a process that makes one step and prints the loss. What goes in
 * is made by a formula on both sides (peers/training.py). */
#include "training.h"

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

static tsr_array *layer(tsr_scope *s, uint32_t salt, int64_t in, int64_t out, tsr_sharding on)
{
  return tsr_tree(s, { "w", bench_reals(s, salt, 0.08, TSR_SHAPE(in, out), on) },
                  { "b", tsr_full(s, 0, TSR_F32, TSR_SHAPE(out), on) });
}

/* Model, images, labels. */
training_job bench_training_open(const training_net *net)
{
  char name[16];
  snprintf(name, sizeof name, "cpu:%d", net->devices);
  training_job j = { .rt = tsr_runtime_open(name, .threads = net->threads) };
  tsr_mesh *mesh = tsr_mesh_default(j.rt, "data");
  tsr_scope *s = j.s = tsr_scope_open(j.rt);
  tsr_sharding rows = tsr_on(mesh, "data"), whole = tsr_on(mesh, "");
  int64_t batch = net->batch, hidden = net->hidden;
  if (net->windows) {
    j.in[0] = tsr_tree(s, { "near", bench_reals(s, 1, 0.15, TSR_SHAPE(3, 3, 3, 32), whole) },
                       { "far", bench_reals(s, 2, 0.08, TSR_SHAPE(3, 3, 32, 64), whole) },
                       { "last", layer(s, 3, 8 * 8 * 64, 10, whole) });
    j.in[1] = bench_reals(s, 4, 1, TSR_SHAPE(128, 32, 32, 3), rows);
  } else {
    j.in[0] = tsr_tree(s, { "one", layer(s, 1, net->inputs, hidden, whole) },
                       { "two", layer(s, 2, hidden, hidden, whole) },
                       { "three", layer(s, 3, hidden, 10, whole) });
    j.in[1] = bench_reals(s, 4, 1, TSR_SHAPE(batch, net->inputs), rows);
  }
  int32_t labels[1024];
  for (int i = 0; i < batch; i++) labels[i] = i % 10;
  j.in[2] = tsr_put(s, labels, TSR_I32, TSR_SHAPE(batch), rows);
  tsr_function *slope =
      tsr_value_and_grad(tsr_function_make(s, net->windows ? cnn_loss : mlp_loss));
  j.step = tsr_function_make(s, step, .user = slope);
  return j;
}

static training_job open_job(bool windows, int devices, int threads)
{
  const training_net net = { windows, windows ? 128 : 1024, 784, 512, devices, threads };
  return bench_training_open(&net);
}

void bench_training_close(training_job *j)
{
  tsr_scope_close(j->s);
  tsr_runtime_close(j->rt);
}

enum { MOST_LEAVES = 128 };

double bench_training_step(const training_job *j, tsr_array *x, tsr_array *y, double *cpu,
                           double *loss)
{
  tsr_array *leaves[MOST_LEAVES], *in[3] = { j->in[0], x, y };
  tsr_scope *s = tsr_scope_open(j->s);
  double busy = bench_cpu(), start = bench_now();
  for (int i = 0; i < 3; i++) in[i] = tsr_tree_keep(s, in[i]);
  tsr_array *out = tsr_call(j->step, in[0], in[1], in[2]);
  int count = tsr_tree_leaves(out, leaves, MOST_LEAVES);
  tsr_status status = tsr_eval(leaves, count);
  if (!status) status = tsr_read_scalar(leaves[count - 1], loss);
  double seconds = bench_now() - start;
  *cpu = bench_cpu() - busy;
  if (status) fprintf(stderr, "training: %s\n", tsr_message(s));
  tsr_scope_close(s);
  return status ? NAN : seconds;
}

static double make_step(const training_job *j, double *cpu, double *loss)
{
  return bench_training_step(j, j->in[1], j->in[2], cpu, loss);
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
  int peers = name[0] == 't' ? 1 : 2; /* nobody's PyTorch cuts a model over host devices */
  for (int k = 1; k <= peers; k++) {
    double seconds = sides[k].peer ? bench_median(sides[k].seconds, rounds) : -1;
    bench_line(name, own * 1e3, peer_names[k - 1], seconds < 0 ? -1 : seconds * 1e3, -1, "ms");
    if (!sides[k].peer) continue;
    double theirs = bench_median(sides[k].cpu, rounds);
    printf("    CPU %.1f ms, %s %.1f ms, ratio %.2f\n", cpu * 1e3, peer_names[k - 1], theirs * 1e3,
           theirs / cpu);
  }
}

/* A turn of ours. */
static bool take_turn(const training_job *j, side *own, int round)
{
  double cpu, seconds = make_step(j, &cpu, &own->loss);
  if (bench_short(seconds)) seconds = make_step(j, &cpu, &own->loss);
  if (round >= 0) own->seconds[round] = seconds, own->cpu[round] = cpu;
  return !isnan(seconds);
}

/* Opens the job of a line and its peers. */
static training_job open_sides(const char *name, side sides[3])
{
  char path[1024], given[1100];
  int devices = strstr(name, ".8dev") ? 8 : 1;
  snprintf(path, sizeof path, "%s/decoder.npz", bench_data_dir());
  if (name[0] == 't') {
    training_job j = bench_decoder_job(path);
    sides[1].peer = bench_peer_open("decoder.py", path);
    return j;
  }
  for (int k = 0; k < 2; k++) {
    snprintf(given, sizeof given, "%s %.3s %d", peer_names[k], name, devices);
    sides[k + 1].peer = bench_peer_open("training.py", given);
  }
  return open_job(name[0] == 'c', devices, 2);
}

int bench_training(const char *name)
{
  enum { ROUNDS = 9 };
  static side sides[3];
  int failed = 0;
  memset(sides, 0, sizeof sides);
  training_job j = open_sides(name, sides);
  for (int round = -2; round < ROUNDS && !failed; round++) {
    failed = !take_turn(&j, &sides[0], round);
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
  bench_training_close(&j);
  return failed;
}

/* Four devices, of this process or dealt out to those it is one of, and so many threads as there
 * are cores for it. */
int bench_mlp_child(void)
{
  enum { WARM = 3, STEPS = 25 };
  double times[STEPS], cpu, loss = 0;
  training_job j = open_job(false, 4, 0);
  bool failed = false;
  for (int i = -WARM; i < STEPS && !failed; i++) {
    double seconds = make_step(&j, &cpu, &loss);
    failed = isnan(seconds);
    if (i >= 0) times[i] = seconds;
  }
  int index = tsr_process_index(j.rt);
  bench_training_close(&j);
  if (failed) return 1;
  if (!index) printf("step %.9f loss %.17g\n", bench_median(times, STEPS), loss);
  return 0;
}

/* What the lines first_step time. */
int bench_first_step_child(const char *which)
{
  training_job j = open_job(which[0] == 'c', 1, 2);
  double cpu, loss = 0, seconds = make_step(&j, &cpu, &loss);
  printf("%g\n", loss);
  bench_training_close(&j);
  return isnan(seconds);
}
