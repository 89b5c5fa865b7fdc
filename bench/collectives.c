/* psum.1k, .64k, .4m, .64m and all_gather.4m: collectives by name in a traced function, so many
 * bytes of f32 on each of eight devices; and vmap: a function of one row on 1,024 of them.
 *
 * The limit is a copy of as many bytes as the results have on all devices together. The peer of
 * collectives is JAX on 8 host devices; that of vmap the same program, batched by hand. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

enum { RUNS = 9, DEVICES = 8, THREADS = 2 };

typedef struct line {
  const char *name;
  int64_t bytes; /* of a device's shard */
  int calls;     /* in a round */
  bool gathers;
} line;

static const line lines[] = {
  { "psum.1k", 1 << 10, 500, false },    { "psum.64k", 64 << 10, 200, false },
  { "psum.4m", 4 << 20, 10, false },     { "psum.64m", 64 << 20, 1, false },
  { "all_gather.4m", 4 << 20, 2, true },
};

static tsr_array *join(tsr_scope *s, tsr_array *const *in, void *user)
{
  const line *l = user;
  (void)s;
  return l->gathers ? tsr_all_gather(in[0], "x", .tiled = true) : tsr_psum(in[0], "x");
}

typedef struct setting {
  const line *l;
  tsr_mesh *mesh;
} setting;

static tsr_array *whole(tsr_scope *s, tsr_array *const *in, void *user)
{
  setting *own = user;
  (void)s;
  return tsr_shard_map(own->mesh, join, (void *)own->l, .in = { in[0] }, .in_specs = { "x,-" },
                       .out_specs = { "" });
}

static tsr_status once(tsr_scope *s, tsr_function *f, tsr_array *x)
{
  tsr_scope *inner = tsr_scope_open(s);
  tsr_array *y = tsr_call(f, tsr_keep(inner, x));
  tsr_status status = tsr_eval(&y, 1);
  if (status) fprintf(stderr, "%s\n", tsr_message(inner));
  tsr_scope_close(inner);
  return status;
}

static int run(const line *l)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = THREADS);
  tsr_scope *s = tsr_scope_open(rt);
  setting own = { l, tsr_mesh_make(rt, "x=8") };
  tsr_array *x = tsr_uniform(s, .key = 3, .dtype = TSR_F32, .on = tsr_on(own.mesh, "x,-"),
                             .shape = TSR_SHAPE(DEVICES, l->bytes / 4));
  tsr_function *f = tsr_function_make(s, whole, .user = &own, .name = l->name);
  double ours[BENCH_ROUNDS], theirs[BENCH_ROUNDS], limit[BENCH_ROUNDS];
  char rest[64], arguments[64];
  snprintf(arguments, sizeof arguments, "%s %lld %d", l->gathers ? "all_gather" : "psum",
           (long long)l->bytes, l->calls);
  bench_peer *peer = bench_peer_open("collectives.py", arguments);
  bool failed = tsr_eval(&x, 1), large = l->bytes >= 4 << 20;
  for (int r = -1; r < RUNS && !failed; r++) {
    double start = bench_now();
    for (int k = 0; k < l->calls && !failed; k++) failed = once(s, f, x);
    double mine = (bench_now() - start) / l->calls;
    double its = bench_peer_run(peer, rest, sizeof rest);
    if (r < 0) continue;
    ours[r] = mine;
    theirs[r] = its;
    limit[r] = large ? bench_copy(DEVICES * l->bytes * (l->gathers ? DEVICES : 1), THREADS) : -1;
  }
  bench_peer_close(peer);
  if (!failed)
    bench_line(l->name, bench_median(ours, RUNS) * 1e6, "jax", bench_median(theirs, RUNS) * 1e6,
               bench_median(limit, RUNS) * 1e6, "us");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}

int bench_collectives(const char *only)
{
  int failed = 0;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (!only || strcmp(only, lines[i].name) == 0) failed |= run(&lines[i]);
  return failed;
}

/* ---- vmap ------------------------------------------------------------------------------------ */

enum { ROWS = 1024, WIDE = 64 };

/* Of a row [64] and weights [64, 64], or of many rows at once. */
static tsr_array *score(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *y = tsr_tanh(tsr_matmul(in[0], in[1]));
  tsr_dims last = TSR_DIMS(-1);
  tsr_array *away = tsr_sub(y, tsr_mean(y, .dims = last, .keep_dims = true));
  return tsr_sum(tsr_square(away), .dims = last);
}

static double timed(tsr_scope *s, tsr_function *f, tsr_array *x, tsr_array *w)
{
  double start = bench_now();
  for (int k = 0; k < 200; k++) {
    tsr_scope *inner = tsr_scope_open(s);
    tsr_array *y = tsr_call(f, tsr_keep(inner, x), tsr_keep(inner, w));
    if (tsr_eval(&y, 1)) fprintf(stderr, "vmap: %s\n", tsr_message(inner));
    tsr_scope_close(inner);
  }
  return (bench_now() - start) / 200;
}

int bench_vmap(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = THREADS);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *in[] = { tsr_uniform(s, .key = 3, .dtype = TSR_F32, .shape = TSR_SHAPE(ROWS, WIDE)),
                      tsr_uniform(s, .key = 4, .dtype = TSR_F32, .shape = TSR_SHAPE(WIDE, WIDE)) };
  tsr_function *one = tsr_function_make(s, score, .name = "score");
  tsr_function *mapped = tsr_vmap(one, .in_dims = { 0, TSR_UNMAPPED });
  double ours[BENCH_ROUNDS], byhand[BENCH_ROUNDS], apart = 1;
  tsr_array *differ = tsr_sub(tsr_call(mapped, in[0], in[1]), tsr_call(one, in[0], in[1]));
  bool failed = tsr_eval(in, 2) || tsr_read_scalar(tsr_max(tsr_abs(differ)), &apart);
  if (failed || apart > 0) fprintf(stderr, "vmap: results differ by %g\n", apart);
  for (int r = -1; r < RUNS && !failed; r++) {
    double mine = timed(s, mapped, in[0], in[1]), other = timed(s, one, in[0], in[1]);
    if (r >= 0) ours[r] = mine, byhand[r] = other;
  }
  if (!failed)
    bench_line("vmap", bench_median(ours, RUNS) * 1e6, "batched by hand",
               bench_median(byhand, RUNS) * 1e6, -1, "us");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed || apart > 0;
}
