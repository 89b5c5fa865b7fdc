/* Rows picked from a buffer by number, to a run of another.
 *
 *   rows   3 0 1        from   a b c d        to   d a b
 *
 * Invariant: a row is fetched into the cache ahead of its reading, but memory beyond the buffer,
 * where a missing row points, is never read. */
#include "kernel/device/cpu.h"

enum { AHEAD = 64, ABREAST = 8 };

/* Rows lie anywhere, so each is fetched into the cache well before it is read; an address beyond
 * the column, of a missing row, is never read. */
#define FETCH(T, from, row) \
  __builtin_prefetch((const void *)((uintptr_t)(from) + (uintptr_t)(row) * sizeof(T)))

#define PICK_LOOP(T, VALUE)                                                    \
  do {                                                                         \
    const T *from = data;                                                      \
    T *out = to;                                                               \
    int64_t i = 0;                                                             \
    for (; i < n - AHEAD - ABREAST; i += ABREAST) {                            \
      for (int64_t k = i; k < i + ABREAST; k++) FETCH(T, from, at[k + AHEAD]); \
      for (int64_t k = i; k < i + ABREAST; k++) out[k] = VALUE(at[k]);         \
    }                                                                          \
    for (; i < n; i++) out[i] = VALUE(at[i]);                                  \
  } while (0)

#define PRESENT(row) from[row]
#define PRESENT_OR_0(row) ((row) == TSR__NO_ROW ? 0 : from[row])

#define PICK(name, T)                                                                   \
  static void name(const uint32_t *at, int64_t n, const void *data, void *to)           \
  {                                                                                     \
    PICK_LOOP(T, PRESENT);                                                              \
  }                                                                                     \
  static void name##_or_none(const uint32_t *at, int64_t n, const void *data, void *to) \
  {                                                                                     \
    PICK_LOOP(T, PRESENT_OR_0);                                                         \
  }

PICK(pick_8, uint8_t)
PICK(pick_16, uint16_t)
PICK(pick_32, uint32_t)
PICK(pick_64, uint64_t)

tsr__pick_fn *const tsr__picks[TSR__SIZES][2] = { { pick_8, pick_8_or_none },
                                                  { pick_16, pick_16_or_none },
                                                  { pick_32, pick_32_or_none },
                                                  { pick_64, pick_64_or_none } };

/* Whole words of bits; a missing row gives 0. The last word's unused bits are 0. */
void tsr__pick_bits(const uint32_t *at, int64_t n, const uint64_t *from, uint64_t *to)
{
  for (int64_t i = 0; i < n; i += 64) {
    int some = n - i < 64 ? (int)(n - i) : 64;
    uint64_t bits = 0;
    for (int k = 0; k < some; k++) {
      uint32_t row = at[i + k];
      if (row != TSR__NO_ROW) bits |= (from[row / 64] >> (row % 64) & 1) << k;
    }
    to[i / 64] = bits;
  }
}

/* Like tsr__pick_bits, to bit `start` on; bits around are left alone. */
static void put_picked_bits(const uint32_t *at, int64_t n, const uint64_t *from, uint64_t *to,
                            int64_t start)
{
  for (int64_t i = 0; i < n; i += 64) {
    int some = n - i < 64 ? (int)(n - i) : 64;
    uint64_t bits;
    tsr__pick_bits(at + i, some, from, &bits);
    tsr__bits_put(to, start + i, some, bits);
  }
}

/* A part of the list of rows, to its own place in the result, so that tasks may share a pick. */
void tsr__cpu_pick(const tsr__pick *pick, const tsr__buffer *from, tsr__buffer *to,
                   tsr__traffic *traffic)
{
  size_t size = tsr_dtype_size(pick->dtype);
  bool bits = pick->dtype == TSR_BOOL;
  const uint32_t *rows = (const uint32_t *)tsr__cpu_data(pick->rows) + pick->first;
  char *out = (char *)tsr__cpu_data(to) + (size_t)pick->at * size;
  if (bits) put_picked_bits(rows, pick->count, tsr__cpu_data(from), tsr__cpu_data(to), pick->at);
  else tsr__picks[tsr__size_log((int64_t)size)][false](rows, pick->count, tsr__cpu_data(from), out);
  if (from->device == to->device || !traffic) return;
  traffic->bytes += tsr__elements_bytes(pick->dtype, pick->count);
}
