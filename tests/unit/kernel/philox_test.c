/* Philox4x32-10 against its published answers and the paper read in Python (golden/functions.txt);
 * the same draws on any mesh. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/tile/isa.h"
#include "support/kernel_fixture.h"
#include "support/naive_program.h"

static const char *const isas[] = { "baseline", "avx2", "avx512" };

static uint64_t hex(const char *text)
{
  return strtoull(text, NULL, 16);
}

static double as_double(uint64_t bits)
{
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

TEST(known_answers)
{
  char *text = test_read(test_file("golden/functions.txt"), NULL), *save;
  int cases = 0;
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    char first[20], stream[20], seed[20], wide[20], narrow[20];
    if (sscanf(line, "philox %19s %19s %19s %19s %19s", first, stream, seed, wide, narrow) != 5)
      continue;
    cases++;
    for (int i = 0; i < 3; i++) {
      const tsr__tiles *tiles = tsr__tiles_of(isas[i]);
      if (!tiles) continue;
      const int64_t key[2] = { (int64_t)hex(seed), (int64_t)hex(stream) };
      double f64;
      float f32;
      tiles->uniform_f64(&f64, (int64_t)hex(first), 1, key);
      tiles->uniform_f32(&f32, (int64_t)hex(first), 1, key);
      CHECK_F64_BITS(f64, as_double(hex(wide)));
      CHECK_F64_BITS((double)f32, as_double(hex(narrow)));
    }
  }
  CHECK_I64(cases, 43);
  free(text);
}

/* Operands of one element and of many, against unmapped pages. */
TEST(words_by_keys_of_their_own)
{
  test_rng rng = test_seeded(4);
  for (int i = 0; i < 3; i++) {
    const tsr__tiles *tiles = tsr__tiles_of(isas[i]);
    for (int n = 0; tiles && n <= TSR__TILE; n = n < 70 ? n + 1 : n * 2 - 11)
      for (uint32_t scalar = 0; scalar < 8; scalar++) {
        uint64_t *in[3], *out = test_guarded((size_t)n * 8 + 8), last = 77;
        memcpy(out + n, &last, sizeof last);
        for (int k = 0; k < 3; k++) {
          int count = scalar >> k & 1 ? 1 : n;
          in[k] = test_guarded((size_t)count * 8);
          for (int j = 0; j < count; j++) in[k][j] = test_random(&rng);
        }
        tiles->fn[TSR__K_PHILOX][TSR_U64](out, in[0], in[1], in[2], (tsr__stretch){ n, scalar });
        for (int j = 0; j < n; j++)
          CHECK_U64(out[j], naive_philox(in[0][scalar & 1 ? 0 : j], in[1][scalar & 2 ? 0 : j],
                                         in[2][scalar & 4 ? 0 : j]));
        CHECK_U64(out[n], last);
      }
  }
}

static void draw(int devices, tsr_shape shape, tsr_dtype dtype, void *out)
{
  kernel_fixture k;
  kernel_open(&k, devices, NULL, 2);
  tsr__ask ask = { .dtype = dtype, .shape = shape, TSR__NUMBERS({ .i = 42 }, { .i = 3 }) };
  int u = kernel_node(&k, TSR__OP_UNIFORM, TSR__LINKS_NONE, &ask, true);
  kernel_root(&k, u);
  CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
  kernel_read(&k, u, out);
  kernel_close(&k);
}

TEST(no_mesh_shows_in_the_draws)
{
  static double one[50000], other[50000];
  const tsr_shape shapes[] = { TSR_SHAPE(50000), TSR_SHAPE(7), TSR_SHAPE(100, 77),
                               TSR_SHAPE(5, 30, 3) };
  for (int s = 0; s < 4; s++) {
    int64_t count = tsr__shape_count(&shapes[s]);
    draw(1, shapes[s], TSR_F64, one);
    for (int64_t i = 0; i < count; i++) {
      double alone;
      const int64_t key[2] = { 42, 3 };
      tsr__tiles_of("baseline")->uniform_f64(&alone, i, 1, key);
      CHECK_F64_BITS(one[i], alone);
      CHECK(one[i] >= 0 && one[i] < 1);
    }
    for (int devices = 2; devices <= 8; devices++) {
      draw(devices, shapes[s], TSR_F64, other);
      CHECK_BYTES(other, one, (size_t)count * 8);
    }
  }
}

TEST(draws_are_spread_evenly)
{
  static float x[50000];
  int buckets[10] = { 0 };
  draw(3, TSR_SHAPE(50000), TSR_F32, x);
  for (int i = 0; i < 50000; i++) buckets[(int)(x[i] * 10)]++;
  for (int i = 0; i < 10; i++) CHECK(buckets[i] > 4700 && buckets[i] < 5300);
}
