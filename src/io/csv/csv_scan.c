/* Structure by bit masks: a 64-bit word says for 64 bytes where quotes, newlines and separators
 * are, and a prefix-xor over the quotes says which bytes are inside quotes.
 *
 *   text     a,"x,y"\n         bits are drawn left to right
 *   quote    00100010
 *   inside   00111100          (prefix-xor: odd number of quotes up to here)
 *   separator & ~inside        01000000
 *
 * Only `masks` knows instruction sets: it fills small arrays that stay in L1. The counting and
 * flattening over the masks is one text, compiled once more where popcnt and tzcnt exist.
 *
 * That a byte is inside quotes exactly if an odd number of quotes stands before it holds as long as
 * every opening quote begins a field and every closing one ends it (or is doubled). Both are
 * checked here for every quote; a file that breaks the rule is read byte by byte (csv_rows.c). */
#include "io/csv/csv_inner.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET_AVX2 __attribute__((target("avx2,bmi,popcnt")))
#define TARGET_AVX512 __attribute__((target("avx512bw,avx512vbmi2,bmi,popcnt")))
#endif
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Quotes, newlines and separators are asked for by all, returns by counting alone: last, so that
 * the others are the first three. */
enum { QUOTE, NEWLINE, SEPARATOR, RETURN, KINDS };

/* Which of `bytes[kind]` each byte equals, for `words` words of 64 bytes. */
typedef uint64_t mask_rows[KINDS][TSR__CSV_WORDS];
typedef void mask_fn(const char *at, int words, const char *bytes, int kinds, mask_rows out);

_Static_assert((int)KINDS == (int)TSR__CSV_KINDS, "csv_inner.h declares masks of as many kinds");

/* ---- masks --------------------------------------------------------------------------------- */

/* The bytes of x that are zero, as eight bits. */
ALWAYS_INLINE uint64_t zero_bytes(uint64_t x)
{
  /* A zero byte's 0x7f + 0 leaves the top bit clear, as do no others: no carry crosses bytes. The
   * product gathers the eight bits, which stand eight apart, in the top byte. */
  const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
  uint64_t hit = ~(((x & low) + low) | x | low);
  return (hit >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

static void masks_baseline(const char *at, int words, const char *bytes, int kinds, mask_rows out)
{
  for (int kind = 0; kind < kinds; kind++) {
    uint64_t pattern = (unsigned char)bytes[kind] * UINT64_C(0x0101010101010101);
    for (int w = 0; w < words; w++) {
      uint64_t mask = 0, x;
      for (int i = 0; i < 8; i++) {
        memcpy(&x, at + 64 * w + 8 * i, 8);
        mask |= zero_bytes(x ^ pattern) << (8 * i);
      }
      out[kind][w] = mask;
    }
  }
}

#if defined(__x86_64__)
TARGET_AVX2 static void masks_avx2(const char *at, int words, const char *bytes, int kinds,
                                   mask_rows out)
{
  for (int w = 0; w < words; w++) {
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(at + 64 * w));
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(at + 64 * w + 32));
    for (int kind = 0; kind < kinds; kind++) {
      __m256i x = _mm256_set1_epi8(bytes[kind]);
      uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, x));
      uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b, x));
      out[kind][w] = low | (uint64_t)high << 32;
    }
  }
}

TARGET_AVX512 static void masks_avx512(const char *at, int words, const char *bytes, int kinds,
                                       mask_rows out)
{
  for (int w = 0; w < words; w++) {
    __m512i a = _mm512_loadu_si512((const void *)(at + 64 * w));
    for (int kind = 0; kind < kinds; kind++)
      out[kind][w] = _mm512_cmpeq_epi8_mask(a, _mm512_set1_epi8(bytes[kind]));
  }
}
#endif

/* ---- over the masks -------------------------------------------------------------------------- */

ALWAYS_INLINE uint64_t prefix_xor(uint64_t x)
{
  /* x ^ x << 1 is the parity of the last two bits, then four, eight ...: six steps for 64. */
  for (int shift = 1; shift < 64; shift *= 2) x ^= x << shift;
  return x;
}

ALWAYS_INLINE int words_of(const char *at, const char *to)
{
  int64_t left = (to - at + 63) / 64;
  return left < TSR__CSV_WORDS ? (int)left : TSR__CSV_WORDS;
}

/* The bits of a word that lie before `to`. */
ALWAYS_INLINE uint64_t before_end(const char *at, const char *to)
{
  /* A shift by 64 means nothing in C. */
  return to - at >= 64 ? UINT64_MAX : (UINT64_C(1) << (to - at)) - 1;
}

ALWAYS_INLINE void kinds_of(const tsr__csv_dialect *dialect, char *bytes)
{
  bytes[QUOTE] = '"';
  bytes[NEWLINE] = dialect->newline;
  bytes[SEPARATOR] = dialect->separator;
  bytes[RETURN] = '\r'; /* with newline == '\r' it is never followed by a newline of its own */
}

/* May a closing quote stand before this byte? */
ALWAYS_INLINE uint64_t ends_field(const tsr__csv_dialect *d, const char *at)
{
  /* A quote may close before another one: it is then the first of a doubled pair. */
  return *at == d->separator || *at == d->newline || *at == '"' ||
         (*at == '\r' && at[1] == d->newline);
}

/* The last words of the masks, whose top bits the next word needs. */
struct carry {
  uint64_t newline, returns, begins;
};

ALWAYS_INLINE struct carry carry_from(const tsr__csv_dialect *d, const char *from)
{
  /* Two bytes before the text are readable: the block has room in front (TSR__CSV_FRONT). */
  uint64_t one = from[-1] == d->newline, two = from[-2] == d->newline;
  uint64_t begins = one | (from[-1] == d->separator) | (from[-1] == '"');
  return (struct carry){ .newline = one << 63 | two << 62,
                         .returns = (uint64_t)(from[-1] == '\r') << 63,
                         .begins = begins << 63 };
}

/* Newlines that end an empty line. */
ALWAYS_INLINE uint64_t blank_ends(uint64_t newline, uint64_t returns, const struct carry *carry)
{
  /* A line is empty if the byte before its end is the end of another, with CR in between or not. */
  uint64_t one = newline << 1 | carry->newline >> 63, two = newline << 2 | carry->newline >> 62;
  return newline & (one | ((returns << 1 | carry->returns >> 63) & two));
}

/* Each word is counted for both answers: `inside` as if the granule began outside quotes.
 *
 *    ends[0], stray[0]     rows and misplaced quotes if it begins outside
 *    ends[1], stray[1]     the same if it begins inside
 *    flips                 whether it holds an odd number of quotes */
ALWAYS_INLINE void count_body(const tsr__csv_dialect *d, const char *from, const char *to,
                              tsr__csv_granule *out, mask_fn *masks)
{
  char bytes[KINDS];
  mask_rows m;
  struct carry carry = carry_from(d, from);
  uint64_t flip = 0, stray0 = 0, stray1 = 0, ends0 = 0, ends1 = 0;
  kinds_of(d, bytes);
  for (const char *piece = from; piece < to; piece += 64 * TSR__CSV_WORDS) {
    int words = words_of(piece, to);
    masks(piece, words, bytes, KINDS, m);
    for (int w = 0; w < words; w++) {
      const char *at = piece + 64 * w;
      uint64_t live = before_end(at, to), newline = m[NEWLINE][w], quote = m[QUOTE][w] & live;
      /* In files whose lines end in CR, a CR is no part of a longer end. */
      uint64_t returns = d->newline == '\r' ? 0 : m[RETURN][w];
      uint64_t ends = newline & live, inside = flip;
      uint64_t begins = newline | m[SEPARATOR][w] | m[QUOTE][w];
      if (d->skip_blank) ends &= ~blank_ends(newline, returns, &carry);
      if (quote) {
        inside ^= prefix_xor(quote);
        /* A bit moved up by one is what stands before its byte, moved down what stands behind
         * it. */
        uint64_t opens = begins << 1 | carry.begins >> 63;
        uint64_t next = newline >> 1 | (uint64_t)(at[64] == d->newline) << 63;
        uint64_t closes = (begins | (returns & next)) >> 1 | ends_field(d, at + 64) << 63;
        /* Seen from outside: a quote that opens (it is now inside) needs a field's beginning before
         * it, one that closes a field's end behind it. From inside, the roles are swapped. */
        stray0 |= quote & ((inside & ~opens) | (~inside & ~closes));
        stray1 |= quote & ((~inside & ~opens) | (inside & ~closes));
        /* All ones or none, as the parity of the word's quotes is odd. */
        flip ^= 0 - (uint64_t)(__builtin_popcountll(quote) & 1);
      }
      ends0 += (uint64_t)__builtin_popcountll(ends & ~inside);
      ends1 += (uint64_t)__builtin_popcountll(ends & inside);
      carry = (struct carry){ newline, returns, begins };
    }
  }
  *out = (tsr__csv_granule){ .ends = { (uint32_t)ends0, (uint32_t)ends1 },
                             .flips = flip & 1,
                             .stray = { stray0 != 0, stray1 != 0 } };
}

/* The lowest n bits of a mask that are set. */
ALWAYS_INLINE uint64_t lowest(uint64_t mask, size_t n)
{
  uint64_t rest = mask;
  /* Bits are cleared from below; what is left of them are the upper ones. */
  for (; n && rest; n--) rest &= rest - 1;
  return mask & ~rest;
}

/* Writes base + i for each bit i of the marks, and up to TSR__CSV_SLACK values behind them. */
typedef void spread_fn(uint64_t marks, uint32_t base, uint32_t *out);

struct flattener {
  mask_fn *masks;
  spread_fn *spread;
};

ALWAYS_INLINE void spread_bits(uint64_t marks, uint32_t base, uint32_t *out)
{
  /* Four at a time: where fewer are left, what is written is overwritten by the next word. */
  for (; marks; out += 4)
    for (int i = 0; i < 4; i++, marks &= marks - 1)
      out[i] = base + (uint32_t)(marks ? __builtin_ctzll(marks) : 0);
}

#if defined(__x86_64__)
TARGET_AVX512 static inline void spread_avx512(uint64_t marks, uint32_t base, uint32_t *out)
{
  static const uint8_t count[64] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
  };
  __m512i bits = _mm512_maskz_compress_epi8(marks, _mm512_loadu_si512(count));
  /* Byte numbers 0 to 63 whose bit is set, packed to the front; sixteen at a time are widened and
   * stored. */
  __m512i first = _mm512_set1_epi32((int)base);
  int n = __builtin_popcountll(marks);
  _mm512_storeu_si512(out,
                      _mm512_add_epi32(first, _mm512_cvtepu8_epi32(_mm512_castsi512_si128(bits))));
  if (n <= 16) return;
  __m128i second = _mm512_extracti32x4_epi32(bits, 1);
  _mm512_storeu_si512(out + 16, _mm512_add_epi32(first, _mm512_cvtepu8_epi32(second)));
  if (n <= 32) return;
  __m128i third = _mm512_extracti32x4_epi32(bits, 2), last = _mm512_extracti32x4_epi32(bits, 3);
  _mm512_storeu_si512(out + 32, _mm512_add_epi32(first, _mm512_cvtepu8_epi32(third)));
  _mm512_storeu_si512(out + 48, _mm512_add_epi32(first, _mm512_cvtepu8_epi32(last)));
}
#endif

ALWAYS_INLINE size_t flatten_body(const tsr__csv_dialect *d, const char *from, const char *to,
                                  tsr__csv_flat *flat, struct flattener with)
{
  char bytes[KINDS];
  mask_rows m;
  uint64_t flip = 0;
  size_t count = 0, newlines = 0;
  kinds_of(d, bytes);
  for (const char *piece = from; piece < to && count < flat->want; piece += 64 * TSR__CSV_WORDS) {
    int words = words_of(piece, to);
    /* CR is not asked for: it is trimmed field by field (tsr__csv_trim_returns). */
    with.masks(piece, words, bytes, SEPARATOR + 1, m);
    for (int w = 0; w < words && count < flat->want; w++) {
      const char *at = piece + 64 * w;
      uint64_t quote = m[QUOTE][w], inside = flip;
      if (quote) {
        inside ^= prefix_xor(quote);
        flip ^= 0 - (uint64_t)(__builtin_popcountll(quote) & 1);
      }
      uint64_t marks = (m[NEWLINE][w] | m[SEPARATOR][w]) & ~inside & before_end(at, to);
      size_t here = (size_t)__builtin_popcountll(marks);
      /* Never more than are asked for: the list has room for these and TSR__CSV_SLACK. */
      if (count + here > flat->want) {
        marks = lowest(marks, flat->want - count);
        here = flat->want - count;
      }
      newlines += (size_t)__builtin_popcountll(marks & m[NEWLINE][w]);
      with.spread(marks, (uint32_t)(at - from), flat->ends + count);
      count += here;
    }
  }
  flat->newlines = newlines;
  return count;
}

/* ---- one of each a instruction set -------------------------------------------------------- */

static void count_baseline(const tsr__csv_dialect *d, const char *from, const char *to,
                           tsr__csv_granule *out)
{
  count_body(d, from, to, out, masks_baseline);
}

static size_t flatten_baseline(const tsr__csv_dialect *d, const char *from, const char *to,
                               tsr__csv_flat *flat)
{
  return flatten_body(d, from, to, flat, (struct flattener){ masks_baseline, spread_bits });
}

static const tsr__csv_scan scan_baseline = {
  .isa = "baseline", .masks = masks_baseline, .count = count_baseline, .flatten = flatten_baseline
};

#if defined(__x86_64__)
TARGET_AVX2 static void count_avx2(const tsr__csv_dialect *d, const char *from, const char *to,
                                   tsr__csv_granule *out)
{
  count_body(d, from, to, out, masks_avx2);
}

TARGET_AVX2 static size_t flatten_avx2(const tsr__csv_dialect *d, const char *from, const char *to,
                                       tsr__csv_flat *flat)
{
  return flatten_body(d, from, to, flat, (struct flattener){ masks_avx2, spread_bits });
}

TARGET_AVX512 static void count_avx512(const tsr__csv_dialect *d, const char *from, const char *to,
                                       tsr__csv_granule *out)
{
  count_body(d, from, to, out, masks_avx512);
}

TARGET_AVX512 static size_t flatten_avx512(const tsr__csv_dialect *d, const char *from,
                                           const char *to, tsr__csv_flat *flat)
{
  return flatten_body(d, from, to, flat, (struct flattener){ masks_avx512, spread_avx512 });
}

static const tsr__csv_scan scan_avx2 = {
  .isa = "avx2", .masks = masks_avx2, .count = count_avx2, .flatten = flatten_avx2
};
static const tsr__csv_scan scan_avx512 = { .isa = "avx512",
                                           .masks = masks_avx512,
                                           .count = count_avx512,
                                           .flatten = flatten_avx512,
                                           .integers = tsr__csv_integers_avx512,
                                           .reals = tsr__csv_reals_avx512 };
#endif

/* What the runtime asks for, as far as the CPU has it. */
const tsr__csv_scan *tsr__csv_scan_for(const tsr_runtime *rt)
{
#if defined(__x86_64__)
  const char *isa = rt->isa[0] ? rt->isa : rt->opts.isa;
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi");
  bool avx512 = avx2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi2");
  /* All that the masks and csv_numbers.c use; machines with less of AVX-512 take AVX2. */
  avx512 = avx512 && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
  if (isa && strcmp(isa, "baseline") == 0) return &scan_baseline;
  if (avx512 && !(isa && strcmp(isa, "avx2") == 0)) return &scan_avx512;
  if (avx2) return &scan_avx2;
#else
  (void)rt;
#endif
  return &scan_baseline;
}

/* ---- finding one row ------------------------------------------------------------------------- */

int64_t tsr__csv_nth_end(const tsr__csv_file *file, const tsr__csv_granule *granule, int64_t from,
                         int64_t n)
{
  const tsr__csv_dialect *d = &file->dialect;
  const char *at = file->data + from, *to = file->data + file->end;
  char bytes[KINDS];
  mask_rows m;
  /* The granule knows whether it begins inside quotes, so one answer is counted here. */
  struct carry carry = carry_from(d, at);
  uint64_t flip = granule->inside ? UINT64_MAX : 0;
  kinds_of(d, bytes);
  for (; at < to; at += 64) {
    file->csv->scan->masks(at, 1, bytes, KINDS, m);
    uint64_t newline = m[NEWLINE][0], quote = m[QUOTE][0];
    uint64_t returns = d->newline == '\r' ? 0 : m[RETURN][0];
    uint64_t ends = newline & ~(flip ^ prefix_xor(quote)) & before_end(at, to);
    if (d->skip_blank) ends &= ~blank_ends(newline, returns, &carry);
    int64_t here = __builtin_popcountll(ends);
    if (here >= n) {
      /* Take away the n - 1 lowest; the lowest of the rest is it. */
      uint64_t rest = ends & ~lowest(ends, (size_t)n - 1);
      return at - file->data + __builtin_ctzll(rest) + 1;
    }
    n -= here;
    flip ^= 0 - (uint64_t)(__builtin_popcountll(quote) & 1);
    carry = (struct carry){ newline, returns, 0 };
  }
  return file->end;
}
