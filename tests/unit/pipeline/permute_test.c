/* Permutations that are computed: bijections of every size, drawn evenly, different for each seed
 * and epoch, and the same for ever. Runs at each ISA. */
#include "pipeline/permute.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

static const char *isa(void)
{
  const char *asked = getenv("TSR_ISA");
  return asked && *asked ? asked : "baseline";
}

/* Whether positions 0 .. n - 1 go to 0 .. n - 1, each once. */
static void check_bijection(int64_t n, uint64_t seed, uint64_t epoch)
{
  int64_t *to = malloc((size_t)n * sizeof *to + 1);
  char *met = calloc((size_t)n + 1, 1);
  tsr__permutation p;
  tsr__permutation_make(&p, isa(), (uint64_t)n, seed, epoch);
  for (int64_t i = 0; i < n; i++) to[i] = i;
  tsr__permute(&p, to, to, n);
  for (int64_t i = 0; i < n; i++) {
    CHECK(to[i] >= 0 && to[i] < n);
    CHECK(!met[to[i]]);
    met[to[i]] = 1;
  }
  free(to);
  free(met);
}

TEST(every_position_goes_somewhere_once)
{
  for (int64_t n = 0; n <= 300; n++) check_bijection(n, (uint64_t)n, 0);
  const int64_t sizes[] = { 999, 1024, 1797, 4095, 4096, 4097, 65535, 65537, 60000, 1281167 };
  for (int i = 0; i < 10; i++) check_bijection(sizes[i], 7, (uint64_t)i);
}

/* Orders of every size come with even numbers of swaps of two, and with odd ones. */
TEST(odd_orders_and_even_ones)
{
  enum { MOST = 225, SEEDS = 64 };
  for (int64_t n = 2; n <= MOST; n++) {
    int odd = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
      int64_t to[MOST];
      tsr__permutation p;
      tsr__permutation_make(&p, isa(), (uint64_t)n, (uint64_t)seed, 0);
      for (int64_t i = 0; i < n; i++) to[i] = i;
      tsr__permute(&p, to, to, n);
      bool met[MOST] = { false };
      int swaps = 0;
      for (int64_t i = 0; i < n; i++)
        for (int64_t k = i; !met[k]; k = to[k], swaps++) met[k] = true, swaps -= to[k] == i;
      odd += swaps & 1;
    }
    if (odd < SEEDS / 4 || odd > SEEDS * 3 / 4)
      FAIL("%d of %d orders of %d are odd", odd, SEEDS, (int)n);
  }
}

/* Of sizes that no table holds, blocks of positions do not meet. */
TEST(large_sizes_do_not_meet)
{
  const uint64_t sizes[] = { 1000000000, UINT64_C(1) << 40, (UINT64_C(1) << 62) - 1,
                             (UINT64_C(1) << 61) + 12345 };
  enum { N = 4096 };
  static int64_t at[N], to[N];
  for (int k = 0; k < 4; k++) {
    tsr__permutation p;
    tsr__permutation_make(&p, isa(), sizes[k], 3, 1);
    for (int i = 0; i < N; i++) at[i] = (int64_t)(sizes[k] - 1 - (uint64_t)i);
    tsr__permute(&p, at, to, N);
    for (int i = 0; i < N; i++) {
      CHECK((uint64_t)to[i] < sizes[k]);
      for (int j = 0; j < i; j++) CHECK(to[i] != to[j]);
    }
  }
}

/* One at a time is the same as many at once, however many there are: of vectors, and of what is
 * left behind the last whole one. */
TEST(lanes_do_not_show)
{
  const uint64_t sizes[] = { 10, 1000, 1281167, UINT64_C(1) << 40, (UINT64_C(1) << 62) - 1 };
  enum { N = 300 };
  int64_t at[N], one[N], all[N];
  for (int k = 0; k < 5; k++) {
    tsr__permutation p;
    tsr__permutation_make(&p, isa(), sizes[k], 5, 2);
    for (int i = 0; i < N; i++) {
      at[i] = (int64_t)((uint64_t)i * 7 % sizes[k]);
      tsr__permute(&p, &at[i], &one[i], 1);
    }
    for (int n = 0; n <= N; n++) {
      tsr__permute(&p, at, all, n);
      CHECK_BYTES(all, one, (size_t)n * sizeof *all);
    }
  }
}

/* Where pairs of neighbours go, over many seeds: every ordered pair about equally often. The sum of
 * squares over expected counts stays near its degrees of freedom (its deviation is sqrt(2 n)). */
static void check_pairs(int64_t n, int seeds)
{
  size_t cells = (size_t)(n * n);
  int *count = calloc(cells, sizeof *count);
  int64_t at[2], to[2];
  for (int s = 0; s < seeds; s++) {
    tsr__permutation p;
    tsr__permutation_make(&p, isa(), (uint64_t)n, (uint64_t)(s / 16), (uint64_t)(s % 16));
    at[0] = s % (n - 1);
    at[1] = at[0] + 1;
    tsr__permute(&p, at, to, 2);
    count[to[0] * n + to[1]]++;
  }
  double expected = (double)seeds / (double)(n * (n - 1)), sum = 0;
  double freedom = (double)(n * (n - 1) - 1);
  for (int64_t a = 0; a < n; a++)
    for (int64_t b = 0; b < n; b++) {
      double over = count[a * n + b] - expected;
      if (a != b) sum += over * over / expected;
      else CHECK_I64(count[a * n + b], 0);
    }
  free(count);
  CHECK(sum < freedom + 8 * 1.4143 * freedom / __builtin_sqrt(freedom));
}

TEST(pairs_are_drawn_evenly)
{
  check_pairs(3, 60000);
  check_pairs(5, 100000);
  check_pairs(10, 200000);
  check_pairs(64, 400000);
}

TEST(seeds_and_epochs_differ)
{
  /* Epoch 1 of seed 0 is not epoch 0 of seed 1. */
  enum { N = 1000 };
  int64_t at[N], to[3][N];
  const uint64_t how[3][2] = { { 0, 0 }, { 0, 1 }, { 1, 0 } };
  for (int i = 0; i < N; i++) at[i] = i;
  for (int k = 0; k < 3; k++) {
    tsr__permutation p;
    tsr__permutation_make(&p, isa(), N, how[k][0], how[k][1]);
    tsr__permute(&p, at, to[k], N);
    int fixed = 0;
    for (int i = 0; i < N; i++) fixed += to[k][i] == i;
    CHECK(fixed < 10);
    for (int j = 0; j < k; j++) {
      int same = 0;
      for (int i = 0; i < N; i++) same += to[k][i] == to[j][i];
      CHECK(same < 10);
    }
  }
}

/* States name no algorithm: it stays. tests/golden/make_permutations.py computes the same. */
TEST(the_order_stays)
{
  static const int64_t ten[8] = { 6, 1, 7, 0, 5, 2, 9, 4 };
  static const int64_t many[8] = { 933646, 461425, 598022, 265862, 965940, 84813, 876672, 1279884 };
  tsr__permutation p;
  int64_t at[8], to[8];
  for (int i = 0; i < 8; i++) at[i] = i;
  tsr__permutation_make(&p, isa(), 10, 42, 0);
  tsr__permute(&p, at, to, 8);
  CHECK_BYTES(to, ten, sizeof ten);
  tsr__permutation_make(&p, isa(), 1281167, 0, 3);
  tsr__permute(&p, at, to, 8);
  CHECK_BYTES(to, many, sizeof many);
}
