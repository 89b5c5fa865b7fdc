/* Rows of one device's column on their way to all devices.
 *
 *   dest   1 0 1 1       to 0   . . b        each keeps the place where its next row goes
 *   from   a b c d       to 1   . a c d
 *
 * Invariant: a row's place depends on the rows before it alone, so senders write side by side; only
 * words of bits can hold rows of two senders, and those are changed by atomics. */
#include "kernel/device/cpu.h"

enum { SLICE = 1 << 16 }; /* rows between two questions whether to go on */

/* A run of rows and where each goes. */
typedef struct slice {
  const uint16_t *dest;
  int64_t *next, count;
  const void *from;
} slice;

#define DISPERSE(name, T)                                  \
  static void name(const slice *s, tsr__buffer *const *to) \
  {                                                        \
    const T *from = s->from;                               \
    for (int64_t i = 0; i < s->count; i++) {               \
      uint16_t p = s->dest[i];                             \
      ((T *)tsr__cpu_data(to[p]))[s->next[p]++] = from[i]; \
    }                                                      \
  }

DISPERSE(disperse_8, uint8_t)
DISPERSE(disperse_16, uint16_t)
DISPERSE(disperse_32, uint32_t)
DISPERSE(disperse_64, uint64_t)

/* Words begin as ones, so only zeros are written; atomics clear them, as a word may have rows of
 * two senders. */
static void disperse_bits(const slice *s, tsr__buffer *const *to)
{
  const uint64_t *from = s->from;
  for (int64_t i = 0; i < s->count; i++) {
    uint16_t p = s->dest[i];
    int64_t at = s->next[p]++;
    if (from[i / 64] >> (i % 64) & 1) continue;
    uint64_t *word = (uint64_t *)tsr__cpu_data(to[p]) + at / 64;
    __atomic_fetch_and(word, ~(UINT64_C(1) << (at % 64)), __ATOMIC_RELAXED);
  }
}

void tsr__cpu_disperse(const tsr__disperse *s, const tsr__buffer *from, tsr__buffer *const *to,
                       tsr__traffic *traffic)
{
  static void (*const ways[TSR__SIZES])(
      const slice *, tsr__buffer *const *) = { disperse_8, disperse_16, disperse_32, disperse_64 };
  int64_t rows = 0, size = (int64_t)tsr_dtype_size(s->dtype);
  bool bits = s->dtype == TSR_BOOL;
  for (int p = 0; p < s->parts; p++) {
    rows += s->counts[p];
    if (!traffic || from->device == to[p]->device) continue;
    traffic->bytes += tsr__elements_bytes(s->dtype, s->counts[p]);
  }
  const uint16_t *dest = tsr__cpu_data(s->dest);
  for (int64_t at = 0; at < rows && !tsr__progress_stops(s->progress, s->worker); at += SLICE) {
    int64_t n = rows - at < SLICE ? rows - at : SLICE;
    slice some = { dest + at, s->next, n,
                   (const char *)tsr__cpu_data(from) + (bits ? at / 8 : at * size) };
    if (bits) disperse_bits(&some, to);
    else ways[tsr__size_log(size)](&some, to);
  }
}
