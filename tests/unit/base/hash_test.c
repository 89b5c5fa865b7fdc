/* The hash: a function of the bytes only, no read past the end, well spread. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

TEST(only_bytes_length_and_seed_count)
{
  unsigned char text[200], shifted[208];
  for (int i = 0; i < 200; i++) text[i] = (unsigned char)(i * 7);
  for (size_t offset = 0; offset < 8; offset++) {
    memcpy(shifted + offset, text, sizeof text);
    for (size_t length = 0; length <= sizeof text; length++)
      CHECK_U64(tsr__hash(shifted + offset, length, 5), tsr__hash(text, length, 5));
  }
  CHECK(tsr__hash(text, 100, 5) != tsr__hash(text, 100, 6));
  CHECK_U64(tsr__hash(NULL, 0, 1), tsr__hash("", 0, 1));
}

TEST(nothing_past_the_end_is_read)
{
  for (size_t length = 1; length < 100; length++) {
    unsigned char *block = test_guarded(length);
    memset(block, 3, length);
    (void)tsr__hash(block, length, 0);
  }
}

static int compare(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void check_distinct(uint64_t *hashes, size_t count)
{
  qsort(hashes, count, sizeof *hashes, compare);
  for (size_t i = 1; i < count; i++) CHECK(hashes[i] != hashes[i - 1]);
}

TEST(like_inputs_do_not_collide)
{
  enum { COUNT = 65536 };
  static uint64_t hashes[COUNT];
  for (uint32_t i = 0; i < COUNT; i++) hashes[i] = tsr__hash(&i, sizeof i, 0);
  check_distinct(hashes, COUNT);
  static const unsigned char zeros[5000];
  for (uint32_t i = 0; i < 5000; i++) hashes[i] = tsr__hash(zeros, i, 0);
  check_distinct(hashes, 5000);
  for (uint32_t i = 0; i < COUNT; i++) { /* one differing word deep in a long input */
    uint64_t words[40] = { 0 };
    words[i % 40] = i + 1;
    hashes[i] = tsr__hash(words, sizeof words, 0);
  }
  check_distinct(hashes, COUNT);
}

/* No block of bytes makes a factor 0 and so hides what came before it. */
TEST(chosen_blocks_hide_nothing)
{
  enum { COUNT = 10000 };
  static uint64_t hashes[COUNT];
  const uint64_t roots[] = { UINT64_C(0x6a09e667f3bcc909), UINT64_C(0xbb67ae8584caa73b),
                             UINT64_C(0x3c6ef372fe94f82b), UINT64_C(0xa54ff53a5f1d36f1) };
  for (int at = 0; at < 4; at++)
    for (int constant = 0; constant < 4; constant++) {
      for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t words[5] = { i, i, i, i, i };
        words[at + 1] = roots[constant];
        hashes[i] = tsr__hash(words, (size_t)(at + 2) * 8, 1);
      }
      check_distinct(hashes, COUNT);
    }
}

TEST(every_input_bit_moves_half_of_the_output)
{
  test_rng rng = test_seeded(3);
  for (size_t length = 1; length <= 70; length++) {
    int64_t moved = 0, tries = 0;
    int least = 64;
    for (int sample = 0; sample < 20; sample++) {
      unsigned char text[70];
      for (size_t i = 0; i < length; i++) text[i] = (unsigned char)test_random(&rng);
      uint64_t before = tsr__hash(text, length, 0);
      for (size_t bit = 0; bit < length * 8; bit++) {
        text[bit / 8] ^= (unsigned char)(1u << bit % 8);
        int bits = __builtin_popcountll(before ^ tsr__hash(text, length, 0));
        text[bit / 8] ^= (unsigned char)(1u << bit % 8);
        moved += bits;
        if (bits < least) least = bits;
        tries++;
      }
    }
    CHECK(moved > tries * 30 && moved < tries * 34);
    CHECK(least > 4);
  }
}

TEST(low_bits_fill_a_table_evenly)
{
  enum { BUCKETS = 256, KEYS = 256 * 200 };
  int filled[BUCKETS] = { 0 };
  for (uint64_t i = 0; i < KEYS; i++) {
    uint64_t key[3] = { i * 8, 0, 64 };
    filled[tsr__hash(key, sizeof key, 0) % BUCKETS]++;
  }
  for (int i = 0; i < BUCKETS; i++) CHECK(filled[i] > 120 && filled[i] < 280); /* 200 +- 5.6 sd */
}
