/* The tile functions: one instruction on one tile of at most 1,024 elements.
 *
 * Compiled once for each instruction set, with the same results to the last bit: every operation
 * rounds as IEEE says, nothing is contracted or reassociated, and operations without an exact
 * vector form go element by element. Operands may lie against unmapped pages: nothing outside
 * elements 0 .. n - 1 is read or written, except that the last 64-bit word of a bool is written
 * whole. */
#ifndef TSR_KERNEL_INTERP_TILE_H
#define TSR_KERNEL_INTERP_TILE_H

#include "kernel/exact/exact_tile.h"
#include "kernel/fuse/kir.h"
#include "kernel/tile/image.h"
#include "kernel/tile/panels.h"
#include "kernel/tile/rounds.h"

/* How many elements; bit k of `scalar`: operand k is one element, used for all. */
typedef struct tsr__stretch {
  int32_t n;
  uint32_t scalar;
} tsr__stretch;

/* out[i] = op(a[i], b[i], c[i]). Bools are bits and never scalar. `out` overlaps no operand. */
typedef void tsr__tile_fn(void *restrict out, const void *a, const void *b, const void *c,
                          tsr__stretch span);

/* Smallest and largest as order keys: integers in the order of the values, -0 before +0, NaN
 * beyond everything on the side that wins. `key[first + i]` meets x[i]; or, `flat`, key[0] meets
 * all. */
typedef struct tsr__extreme {
  int64_t *key;
  bool flat, largest;
} tsr__extreme;

/* Rows of which those stay whose match is there (`hits`), or is not; `kept` of them. */
typedef struct tsr__keep {
  const uint32_t *match;
  int64_t rows, kept;
  bool hits;
} tsr__keep;

/* Floats as whole numbers of 2^(low - 1075): those whose exponent field is low .. low + width, and
 * 0; `special`: and NaN, infinities and -0, which become 0. */
typedef struct tsr__unit {
  int low, width; /* width: at most 63 */
  bool special;
} tsr__unit;

/* Indices of a dim of `size`, of which some places are here: `here` from `start` on. */
typedef struct tsr__aiming {
  int64_t size, start, here;
  bool narrow; /* i32, else i64 */
} tsr__aiming;

typedef struct tsr__tiles {
  const char *isa; /* "baseline", "avx2", "avx512" */
  const tsr__exact_ops *exact;
  tsr__tile_fn *const (*fn)[TSR__DTYPES]; /* [op][dtype]; NULL: no such instruction */
  /* x[i] of a numeric dtype, mask bits or NULL */
  void (*extreme[TSR__DTYPES])(tsr__extreme to, const void *x, int64_t n, const uint64_t *mask);
  /* How many of bits 0 .. n - 1 are set in a and, if there is one, in b. */
  int64_t (*count)(const uint64_t *a, const uint64_t *b, int64_t n);
  /* Draws element first + i of a stream into out[i]. */
  void (*uniform_f64)(double *out, int64_t first, int64_t n, const int64_t key[2]);
  void (*uniform_f32)(float *out, int64_t first, int64_t n, const int64_t key[2]);
  /* Copies past the caches to memory that is 64-byte aligned; drain() once, after the last. */
  void (*stream)(void *to, const void *from, size_t bytes);
  void (*drain)(void);
  /* out[i] = number of table entries <= x[i]; `table` ascending. One function per dtype of
   * registers. */
  void (*search[TSR__DTYPES])(int64_t *out, const void *x, int64_t n, const void *table,
                              int64_t count);
  /* Elements of 1, 2, 4 and 8 bytes of the rows that stay. */
  void (*keep[TSR__SIZES])(void *out, const void *x, const tsr__keep *keep);
  /* x in units, as two words of two's complement. False: some x is no such number. */
  bool (*units)(uint64_t *low, uint64_t *high, const double *x, int n, const tsr__unit *unit);
  /* Which place here an index means, which may count from the end; -1: no place here. False: some
   * index is out of range. */
  bool (*aim)(int64_t *place, const void *at, int64_t n, const tsr__aiming *aim);
  const tsr__products *products; /* indexed by tsr__product_kind */
  /* Whether no x lies outside -most - 1 .. most, where most + 1 is a power of two. */
  bool (*within)(const int64_t *x, int n, int64_t most);
  /* Turns the first lines of elements of so many bytes; returns how many. */
  int64_t (*turn)(const tsr__turning *job, int64_t size);
  const tsr__image_tiles *image;
  tsr__rounds_fn *rounds;
} tsr__tiles;

extern const tsr__tiles tsr__tiles_baseline;
#if defined(__x86_64__)
extern const tsr__tiles tsr__tiles_avx2, tsr__tiles_avx512;
#endif

/* The order key of a float: ascending with the value, -0 before +0. A NaN's key is meaningless. */
static inline int64_t tsr__key_of_f64(double value)
{
  int64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits ^ (int64_t)((uint64_t)(bits >> 63) >> 1);
}

static inline double tsr__f64_of_key(int64_t key)
{
  double value;
  key ^= (int64_t)((uint64_t)(key >> 63) >> 1);
  memcpy(&value, &key, sizeof value);
  return value;
}

/* Keys that stand for NaN: no number has them. */
#define TSR__KEY_NAN_MIN INT64_MIN
#define TSR__KEY_NAN_MAX INT64_MAX

#endif
