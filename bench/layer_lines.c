/* fsdp.*: networks whose weights lie sharded over eight devices and are whole for a layer alone.
 *
 *   fsdp.peak     memory of a device at the peak of a gradient, by the plan
 *   fsdp.bytes    bytes that the gradient moves: each layer's weights twice, its gradient once
 *
 * Peers are the least: arguments and results, the activations that the backward pass keeps, and
 * four whole layers; the bytes that devices lack. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

enum { DEVICES = 8, SIZE = 512, ROWS = 1024, MOST_LAYERS = 64 };

typedef struct network {
  const tsr_mesh *mesh;
  int layers;
} network;

static tsr_array *all_layers(tsr_scope *s, tsr_array *const *in, void *user)
{
  const network *n = user;
  tsr_array *h = in[1];
  (void)s;
  for (int i = 0; i < n->layers; i++) {
    tsr_array *w = tsr_constrain(tsr_item(in[0], i), tsr_on(n->mesh, ""));
    h = tsr_constrain(tsr_tanh(tsr_matmul(h, w)), tsr_on(n->mesh, "x"));
  }
  return tsr_sum(h);
}

static int run_layers(tsr_runtime *rt, int layers, const char *only)
{
  tsr_scope *s = tsr_scope_open(rt);
  network n = { tsr_mesh_make(rt, "x=8"), layers };
  tsr_array *w[MOST_LAYERS];
  tsr_array *x = tsr_abstract(s, TSR_F32, TSR_SHAPE(ROWS, SIZE), tsr_on(n.mesh, "x"));
  for (int i = 0; i < layers; i++)
    w[i] = tsr_abstract(s, TSR_F32, TSR_SHAPE(SIZE, SIZE), tsr_on(n.mesh, "x"));
  tsr_function *slope = tsr_grad(tsr_function_make(s, all_layers, .user = &n));
  tsr_compiled *c = tsr_compile(slope, tsr_tuple_at(s, w, layers, TSR_HERE), x);
  tsr_figures f = tsr_compiled_figures(c);
  double whole = (double)SIZE * SIZE * 4, kept = (double)layers * ROWS / DEVICES * SIZE * 4;
  double peak = (double)(f.argument_bytes + f.result_bytes) + kept + 4 * whole;
  double bytes = 3.0 * layers * whole * (DEVICES - 1);
  char name[32];
  int failed = tsr_scope_status(s);
  if (failed) fprintf(stderr, "fsdp: %s\n", tsr_message(s));
  snprintf(name, sizeof name, "fsdp.peak.%d", layers);
  if (!failed && !strncmp(name, only, strlen(only)))
    bench_line(name, (double)f.peak_bytes / 1e6, "bar", peak / 1e6, -1, "MB");
  snprintf(name, sizeof name, "fsdp.bytes.%d", layers);
  if (!failed && !strncmp(name, only, strlen(only)))
    bench_line(name, (double)f.bytes_moved / 1e6, "least", bytes / 1e6, -1, "MB");
  tsr_scope_close(s);
  return failed;
}

int bench_layers(const char *only)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  int failed = tsr_runtime_status(rt);
  for (int layers = 4; layers <= MOST_LAYERS && !failed; layers *= 4)
    failed = run_layers(rt, layers, only);
  tsr_runtime_close(rt);
  return failed;
}
