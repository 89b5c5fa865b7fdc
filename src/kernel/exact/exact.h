/* Exact sums, as which Tessera forms sums, means and variances of floating-point numbers; matrix
 * products round at each step (docs/NUMERICS.md).
 *
 * An accumulator holds the mathematically exact sum of the added values, as a long fixed-point
 * number, and is rounded once, ties to even, when it is read. So neither the order of the additions
 * nor how they were split over accumulators can show. Accumulators are plain data: memcpy moves
 * them, tsr__acc_merge joins them. One thread writes an accumulator at a time. How many values were
 * added is not part of it: callers know and pass `n`. */
#ifndef TSR_KERNEL_EXACT_H
#define TSR_KERNEL_EXACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topology/topology.h"

__extension__ typedef __int128 tsr__i128;
__extension__ typedef unsigned __int128 tsr__u128;

/* Flags of the values seen beside the finite part. The sum of nothing is +0, that of -0.0 alone is
 * -0. */
enum {
  TSR__SAW_NAN = 1,
  TSR__SAW_PINF = 2,
  TSR__SAW_NINF = 4,
  TSR__SAW_NEG_ZERO = 8, /* at least one -0.0 */
  TSR__SAW_OTHER = 16    /* at least one value that is not -0.0 */
};

/* Word i of an accumulator weighs 2^(32 i + base): 32 bits of value and room for carries.
 * 68 words hold the sum of 2^63 f64 of any size; 134 words that of 2^63 squares of f64. */
enum { TSR__ACC_WORDS = 68, TSR__ACC_BASE = -1074, TSR__ACC2_WORDS = 134, TSR__ACC2_BASE = -2148 };

/* Between two normalisations a word changes by less than 2^32 an addition, and `adds` counts
 * those (merging adds the counts), so that |word| <= adds * 2^32 stays below 2^62. */
typedef struct tsr__acc {
  int64_t word[TSR__ACC_WORDS];
  uint32_t flags, adds;
} tsr__acc;

/* Sums of x * x, exact also where the square overflows or lies below 2^-1074. */
typedef struct tsr__acc2 {
  int64_t word[TSR__ACC2_WORDS];
  uint32_t flags, adds;
} tsr__acc2;

/* Sum of squares of integers, or of products (two's complement): 192 bits, low word first. */
typedef struct tsr__isq {
  uint64_t word[3];
} tsr__isq;

/* The words that are not all zero at either end, [first, end); none: first = end. */
typedef struct tsr__words_used {
  int first, end;
} tsr__words_used;

tsr__words_used tsr__words_in_use(const int64_t *word, int count);

/* Zeroed memory is the accumulator of no value; this zeroes it. */
void tsr__acc2_zero(tsr__acc2 *acc);

void tsr__acc_add(tsr__acc *acc, double value);
void tsr__acc_merge(tsr__acc *into, const tsr__acc *from);

void tsr__acc2_add(tsr__acc2 *acc, double value);               /* value itself */
void tsr__acc2_add_product(tsr__acc2 *acc, double x, double y); /* x * y, exactly */
void tsr__acc2_add_square(tsr__acc2 *acc, double value);
void tsr__acc2_merge(tsr__acc2 *into, const tsr__acc2 *from);

void tsr__isq_add(tsr__isq *acc, int64_t value); /* value * value */
void tsr__isq_merge(tsr__isq *into, const tsr__isq *from);

/* The wire form: a fixed number of bytes, little-endian: 32-bit words of the two's complement
 * total, low word first, then the flags. Equal sums of equal flags have equal bytes. */
enum { TSR__ACC_WIRE = 4 * (TSR__ACC_WORDS + 1), TSR__ACC2_WIRE = 4 * (TSR__ACC2_WORDS + 1) };

void tsr__acc_pack(const tsr__acc *acc, void *wire);
void tsr__acc_unpack(tsr__acc *acc, const void *wire);
void tsr__acc2_pack(const tsr__acc2 *acc, void *wire);
void tsr__acc2_unpack(tsr__acc2 *acc, const void *wire);

/* ---- reading: each value is the exact one, rounded once to the result (exact_round.c) ---- */

/* `to` is the dtype, of floats, that a result is rounded to; the double holds it exactly.
 *
 * The sum. NaN was seen, or infinities of both signs: NaN; infinities of one sign: that infinity. A
 * finite sum gives an infinity only if the exact sum rounds to one. */
double tsr__acc_sum(const tsr__acc *acc, tsr_dtype to);

/* sum / n; n <= 0: NaN. */
double tsr__acc_mean(const tsr__acc *acc, int64_t n, tsr_dtype to);

/* (S2 - S1 * S1 / n) / (n - ddof), and its square root. NaN where n - ddof <= 0, n <= 0 or
 * anything special was seen. */
double tsr__acc_var(const tsr__acc *sum, const tsr__acc2 *squares, int64_t n, int64_t ddof,
                    tsr_dtype to);
double tsr__acc_std(const tsr__acc *sum, const tsr__acc2 *squares, int64_t n, int64_t ddof,
                    tsr_dtype to);

/* The same where a plain sum, too, is kept in the wide accumulator. */
typedef struct tsr__spread_read {
  int64_t n, ddof;
  bool root; /* std instead of var */
} tsr__spread_read;

double tsr__acc2_mean(const tsr__acc2 *acc, int64_t n, tsr_dtype to); /* n = 1: the sum */
double tsr__acc2_spread(const tsr__acc2 *sum, const tsr__acc2 *squares, const tsr__spread_read *how,
                        tsr_dtype to);

/* Pearson's correlation of n >= 2 pairs: c / sqrt(a b) of a = n Sxx - Sx Sx, b and c likewise, each
 * exact and rounded once, and no farther from 0 than 1. NaN where a or b is 0, or anything special
 * was seen. */
typedef struct tsr__pair_sums {
  tsr__acc2 x, y, xx, yy, xy;
} tsr__pair_sums;

double tsr__acc2_corr_f64(const tsr__pair_sums *sums, int64_t n);

/* The same for integers, whose sums are kept in 128 bits. */
typedef struct tsr__pair_ints {
  tsr__i128 x, y;
  tsr__isq xx, yy, xy;
} tsr__pair_ints;

double tsr__corr_i128_f64(const tsr__pair_ints *sums, int64_t n);
double tsr__i128_f64(tsr__i128 value);
double tsr__mean_i128(tsr__i128 sum, int64_t n, tsr_dtype to);
double tsr__var_i128(tsr__i128 sum, const tsr__isq *squares, int64_t n, int64_t ddof, tsr_dtype to);
double tsr__std_i128(tsr__i128 sum, const tsr__isq *squares, int64_t n, int64_t ddof, tsr_dtype to);

#endif
