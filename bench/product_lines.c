/* Matrix products, beside the best of NumPy, JAX and PyTorch, and a convolution, beside PyTorch's
 * best layout; and beside what two threads can add and multiply in registers. */
#include "bench.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct product_shape {
  int64_t m, k, n;
} product_shape;

/* ---- the limit ------------------------------------------------------------------------------- */

enum { CHAINS = 16, STEPS = 1 << 20, THREADS = 2 };

/* Chains of fused multiply-adds in registers, as many as hide their latency. */
#define CHAIN(isa, T, BYTES)                                                              \
  typedef T vector_##isa##_##T __attribute__((vector_size(BYTES)));                       \
  __attribute__((target(#isa ",fma"),                                                     \
                 optimize("fp-contract=fast"))) static void *chain_##isa##_##T(void *out) \
  {                                                                                       \
    vector_##isa##_##T c[CHAINS] = { { 0 } }, a = { 0 }, b = { 0 };                       \
    for (int i = 0; i < (int)(BYTES / sizeof(T)); i++) a[i] = (T)0.5, b[i] = (T)1;        \
    for (int k = 0; k < STEPS; k++) {                                                     \
      __asm__ volatile("" : "+x"(a));                                                     \
      _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) c[i] = c[i] * a + b;      \
    }                                                                                     \
    for (int i = 1; i < CHAINS; i++) c[0] += c[i];                                        \
    *(double *)out = (double)c[0][0];                                                     \
    return NULL;                                                                          \
  }

#if defined(__x86_64__) && !defined(__clang__)
CHAIN(avx512f, float, 64)
CHAIN(avx512f, double, 64)
CHAIN(avx2, float, 32)
CHAIN(avx2, double, 32)
#endif

/* Products a second; 0: not known here. */
static double peak_of(tsr_dtype dtype)
{
#if defined(__x86_64__) && !defined(__clang__)
  bool wide = __builtin_cpu_supports("avx512f"), real = dtype == TSR_F64;
  void *(*chain)(void *) = wide   ? real ? chain_avx512f_double : chain_avx512f_float
                           : real ? chain_avx2_double
                                  : chain_avx2_float;
  double out[THREADS], best = INFINITY;
  if (!__builtin_cpu_supports("fma")) return 0;
  for (int round = 0; round < 5; round++) {
    pthread_t other;
    double start = bench_now();
    bool two = !pthread_create(&other, NULL, chain, &out[1]);
    chain(&out[0]);
    if (two) pthread_join(other, NULL);
    double seconds = bench_now() - start;
    if (two && seconds < best) best = seconds;
  }
  return (double)THREADS * CHAINS * STEPS * (wide ? 64 : 32) / (real ? 8 : 4) / best;
#else
  (void)dtype;
  return 0;
#endif
}

/* ---- the lines ------------------------------------------------------------------------------- */

typedef tsr_array *make_fn(tsr_array *x, tsr_array *y);

static tsr_array *product_of(tsr_array *x, tsr_array *y)
{
  return tsr_matmul(x, y);
}

static double once(tsr_scope *s, make_fn *make, tsr_array *x, tsr_array *y)
{
  tsr_scope *inner = tsr_scope_open(s);
  tsr_array *product = make(tsr_keep(inner, x), tsr_keep(inner, y));
  double start = bench_now();
  tsr_status status = tsr_wait(product);
  double seconds = bench_now() - start;
  if (status) fprintf(stderr, "products: %s\n", tsr_message(inner));
  tsr_scope_close(inner);
  return status ? -1 : seconds;
}

static int one_shape(tsr_scope *outer, tsr_dtype dtype, product_shape p, double peak,
                     bench_peer *peer)
{
  enum { RUNS = 7 };
  char name[64], ask[96], said[128] = "";
  double ours[BENCH_ROUNDS], theirs[BENCH_ROUNDS];
  tsr_scope *s = tsr_scope_open(outer);
  tsr_array *x = tsr_cast(tsr_uniform(s, .key = 1, .shape = TSR_SHAPE(p.m, p.k)), dtype);
  tsr_array *y = tsr_cast(tsr_uniform(s, .key = 2, .shape = TSR_SHAPE(p.k, p.n)), dtype);
  int failed = tsr_eval((tsr_array *[]){ x, y }, 2) != TSR_OK;
  snprintf(ask, sizeof ask, "run %lld %lld %lld", (long long)p.m, (long long)p.k, (long long)p.n);
  for (int r = -1; r < RUNS && !failed; r++) {
    double mine = once(s, product_of, x, y);
    if (bench_short(mine)) mine = once(s, product_of, x, y);
    double other = peer ? bench_peer_ask(peer, ask, said, sizeof said) : -1;
    failed = mine < 0;
    if (r >= 0) ours[r] = mine, theirs[r] = other;
  }
  snprintf(name, sizeof name, "matmul.%s[%lldx%lldx%lld]", tsr_dtype_name(dtype), (long long)p.m,
           (long long)p.k, (long long)p.n);
  double products = (double)p.m * (double)p.k * (double)p.n;
  if (!failed)
    bench_line(name, bench_median(ours, RUNS) * 1e3, peer ? said : "NumPy, JAX, PyTorch",
               peer ? bench_median(theirs, RUNS) * 1e3 : -1, peak > 0 ? products / peak * 1e3 : -1,
               "ms");
  tsr_scope_close(s);
  return failed;
}

int bench_matmul(tsr_dtype dtype)
{
  static const product_shape shapes[] = {
    { 256, 256, 256 },    { 512, 512, 512 }, { 1024, 1024, 1024 }, { 2048, 2048, 2048 },
    { 4096, 4096, 4096 }, { 1, 4096, 4096 }, { 4096, 4096, 1 },    { 8, 4096, 4096 },
    { 4096, 64, 4096 },   { 333, 777, 555 }, { 31, 2000, 31 },     { 100000, 32, 32 },
    { 64, 50000, 64 }
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = THREADS);
  tsr_scope *s = tsr_scope_open(rt);
  bench_peer *peer = bench_peer_open("products.py", tsr_dtype_name(dtype));
  double peak = peak_of(dtype);
  int failed = 0;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes && !failed; i++)
    failed = one_shape(s, dtype, shapes[i], peak, peer);
  if (peer) bench_peer_close(peer);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}

/* ---- convolution ----------------------------------------------------------------------------- */

enum { IMAGES = 32, SIDE = 56, CHANNELS = 64 };

static tsr_array *conv_of(tsr_array *x, tsr_array *kernel)
{
  return tsr_conv(x, kernel, .same = true);
}

/* The sum of the sizes of what a convolution gives: peers say it, too. */
static double sizes_of(tsr_scope *outer, tsr_array *x, tsr_array *kernel)
{
  double sum = NAN;
  tsr_scope *s = tsr_scope_open(outer);
  tsr_array *sizes = tsr_abs(conv_of(tsr_keep(s, x), tsr_keep(s, kernel)));
  if (tsr_read_scalar(tsr_sum(tsr_cast(sizes, TSR_F64)), &sum))
    fprintf(stderr, "conv.f32: %s\n", tsr_message(s));
  tsr_scope_close(s);
  return sum;
}

/* Answers are "seconds CPU-seconds sum layout". */
static int conv_rounds(tsr_scope *s, tsr_array *x, tsr_array *kernel, bench_peer *peer)
{
  enum { RUNS = 7 };
  double ours[RUNS], theirs[RUNS], own_cpu[RUNS], cpu[RUNS];
  char said[128] = "", *rest = said;
  double sum = sizes_of(s, x, kernel);
  if (isnan(sum)) return 1;
  for (int r = -1; r < RUNS; r++) {
    int at = r < 0 ? 0 : r;
    double before = bench_cpu();
    ours[at] = once(s, conv_of, x, kernel);
    own_cpu[at] = bench_cpu() - before;
    if (ours[at] < 0) return 1;
    theirs[at] = bench_peer_ask(peer, "run", said, sizeof said);
    if (theirs[at] < 0) continue;
    cpu[at] = strtod(said, &rest);
    double other = strtod(rest, &rest);
    if (fabs(other - sum) <= 1e-4 * sum) continue;
    fprintf(stderr, "conv.f32: ours sums to %.9g, the peer's to %.9g\n", sum, other);
    return 1;
  }
  double products = (double)IMAGES * SIDE * SIDE * 9 * CHANNELS * CHANNELS, peak = peak_of(TSR_F32);
  double mine = bench_median(own_cpu, RUNS), its = bench_median(cpu, RUNS);
  bench_line("conv.f32", bench_median(ours, RUNS) * 1e3, peer ? rest + 1 : "PyTorch",
             peer ? bench_median(theirs, RUNS) * 1e3 : -1, peak > 0 ? products / peak * 1e3 : -1,
             "ms");
  if (peer)
    printf("    CPU %.1f ms, PyTorch %.1f ms, ratio %.2f\n", mine * 1e3, its * 1e3, its / mine);
  return 0;
}

int bench_conv(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = THREADS);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding here = { .mesh = NULL };
  tsr_array *x = bench_reals(s, 1, 1, TSR_SHAPE(IMAGES, SIDE, SIDE, CHANNELS), here);
  tsr_array *kernel = bench_reals(s, 2, 0.1, TSR_SHAPE(3, 3, CHANNELS, CHANNELS), here);
  bench_peer *peer = bench_peer_open("products.py", "conv");
  int failed = conv_rounds(s, x, kernel, peer);
  bench_peer_close(peer);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}
