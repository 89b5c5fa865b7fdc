/* Rows chosen by a mask: counting them, moving them together, keeping the first of them.
 *
 *   mask   1 0 1 1 0      from   a b c d e      to   a c d
 *
 * The bits of a mask's last word after its rows have no meaning and are never read. */
#include "kernel/device/cpu.h"

int64_t tsr__cpu_mask_count(const tsr__buffer *mask, int64_t rows)
{
  return tsr__bits_count(tsr__cpu_data(mask), rows);
}

int64_t tsr__cpu_mask_find(const tsr__buffer *mask, int64_t rows, bool bit, int64_t n)
{
  for (int64_t at = 0; at < rows; at += 64) {
    int some = rows - at < 64 ? (int)(rows - at) : 64;
    uint64_t all = some < 64 ? (UINT64_C(1) << some) - 1 : ~UINT64_C(0);
    uint64_t bits = tsr__bits_get(tsr__cpu_data(mask), at, some);
    /* Looking for false ones: bits after the rows are neither. */
    if (!bit) bits = ~bits & all;
    int here = __builtin_popcountll(bits);
    if (n >= here) {
      n -= here;
      continue;
    }
    /* The n lowest ones are taken off; the next is the one that is meant. */
    for (; n; n--) bits &= bits - 1;
    return at + __builtin_ctzll(bits);
  }
  return rows;
}

/* Each set bit of `bits` moves one row of `size` bytes. A word of ones moves 64 rows at once.
 * Runs of few ones cost as many steps as there are ones, which is why masks are looked at by
 * words. */
#define COMPACT(name, T)                                                \
  static T *name(T *to, const T *from, uint64_t bits)                   \
  {                                                                     \
    for (; bits; bits &= bits - 1) *to++ = from[__builtin_ctzll(bits)]; \
    return to;                                                          \
  }

COMPACT(compact_8, uint8_t)
COMPACT(compact_16, uint16_t)
COMPACT(compact_32, uint32_t)
COMPACT(compact_64, uint64_t)

static char *compact_rows(char *to, const char *from, uint64_t bits, size_t size)
{
  for (; bits; bits &= bits - 1, to += size)
    memcpy(to, from + (size_t)__builtin_ctzll(bits) * size, size);
  return to;
}

static void compact_plain(size_t size, int64_t rows, const uint64_t *mask, const char *from,
                          char *to)
{
  for (int64_t at = 0; at < rows; at += 64, from += 64 * size) {
    int some = rows - at < 64 ? (int)(rows - at) : 64;
    uint64_t bits = tsr__bits_get(mask, at, some);
    /* Filters keep most rows or few: whole words are frequent, and a copy is several times
     * faster. */
    if (bits == ~UINT64_C(0)) {
      memcpy(to, from, 64 * size);
      to += 64 * size;
    } else if (size == 8) {
      to = (char *)compact_64((uint64_t *)(void *)to, (const uint64_t *)(const void *)from, bits);
    } else if (size == 4) {
      to = (char *)compact_32((uint32_t *)(void *)to, (const uint32_t *)(const void *)from, bits);
    } else if (size == 2) {
      to = (char *)compact_16((uint16_t *)(void *)to, (const uint16_t *)(const void *)from, bits);
    } else if (size == 1) {
      to = (char *)compact_8((uint8_t *)(void *)to, (const uint8_t *)(const void *)from, bits);
    } else {
      to = compact_rows(to, from, bits, size);
    }
  }
}

/* Rows `first` on, to row `kept` of the result. Rows of bools are bits, and may begin anywhere in a
 * word. */
static void compact_bits(const tsr__compact *job, int64_t first, int64_t rows, int64_t kept)
{
  const uint64_t *mask = tsr__cpu_data(job->mask);
  int64_t n = job->row_elements, at = kept * n;
  for (int64_t r = first; r < first + rows; r++) {
    if (!(mask[r / 64] >> (r % 64) & 1)) continue;
    tsr__bits_copy(tsr__cpu_data(job->to), at, tsr__cpu_data(job->from), r * n, n);
    at += n;
  }
}

/* In stretches of whole words of the mask, asking between them. */
void tsr__cpu_compact(const tsr__compact *job)
{
  enum { STRETCH = 1 << 18 };
  const uint64_t *mask = tsr__cpu_data(job->mask);
  size_t size = (size_t)job->row_elements * tsr_dtype_size(job->dtype);
  /* A multiple of 64 in either case, so that each stretch begins at a word of the mask. */
  int64_t step = job->row_elements > 64 ? STRETCH / 64 : STRETCH, kept = 0;
  if (job->row_elements <= 0) return;
  for (int64_t at = 0; at < job->rows; at += step) {
    int64_t rows = job->rows - at < step ? job->rows - at : step;
    if (job->dtype == TSR_BOOL) compact_bits(job, at, rows, kept);
    else
      compact_plain(size, rows, mask + at / 64,
                    (const char *)tsr__cpu_data(job->from) + (size_t)at * size,
                    (char *)tsr__cpu_data(job->to) + (size_t)kept * size);
    /* The mask alone decides the place of the next stretch. */
    kept += tsr__bits_count(mask + at / 64, rows);
    if (job->progress && tsr__progress_stops(job->progress, job->worker)) return;
  }
}

/* `keep` counts, from word to word, the bits that may still be kept; once it is 0 all words are
 * 0. */
void tsr__cpu_mask_first(const tsr__buffer *mask, int64_t rows, int64_t keep, tsr__buffer *to)
{
  const uint64_t *from = tsr__cpu_data(mask);
  uint64_t *out = tsr__cpu_data(to);
  for (int64_t at = 0; at < rows; at += 64) {
    int some = rows - at < 64 ? (int)(rows - at) : 64;
    uint64_t bits = tsr__bits_get(from, at, some);
    int count = __builtin_popcountll(bits);
    if (count > keep) {
      /* The first `keep` ones are taken off a copy: the ones left in it must go. */
      uint64_t rest = bits;
      for (int64_t k = 0; k < keep; k++) rest &= rest - 1;
      bits ^= rest;
      count = (int)keep;
    }
    keep -= count;
    out[at / 64] = bits;
  }
}
