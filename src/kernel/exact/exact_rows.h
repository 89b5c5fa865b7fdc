/* Exact sums of many elements at once: the state of a reduction to an array, or of one by group.
 *
 * An element is the exact sum part[0] + part[1] + part[2], kept by three error-free additions a
 * value. A value that does not fit three doubles (rare: values more than 150 binades apart, or huge
 * ones) escapes to an accumulator of its own, so that nothing is ever lost. Between devices travel
 * three doubles an element, and an entry for each escape. */
#ifndef TSR_KERNEL_EXACT_ROWS_H
#define TSR_KERNEL_EXACT_ROWS_H

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "kernel/exact/exact.h"

typedef struct tsr__escape {
  int64_t element;
  tsr__acc2 sum;
} tsr__escape;

/* part[0] is NaN or an infinity once the sum is. An element of no value is -0, -0, -0; any
 * addition makes part[1] something else, and part[0] stays -0 only while all values are -0.
 * Finite parts stay below 2^1000, so that no addition of theirs overflows. */
typedef struct tsr__rows {
  int64_t count;
  double *part[3];
  tsr__heap *heap; /* for the arrays below, which are usually empty */
  uint32_t *slot;  /* each element's escape, counted from 1; NULL without escapes */
  tsr__escape *escape;
  size_t escape_count, escape_capacity;
  bool failed; /* out of memory: the sums are worthless */
} tsr__rows;

/* Values of either width: the other pointer is NULL. */
typedef struct tsr__reals {
  const double *f64;
  const float *f32;
  int n;
} tsr__reals;

static inline double tsr__real_at(const tsr__reals *x, int i)
{
  return x->f32 ? (double)x->f32[i] : x->f64[i];
}

typedef struct tsr__rows_at {
  tsr__rows *rows;
  int64_t element;
  tsr__rows *squares; /* NULL unless both sums are wanted */
} tsr__rows_at;

/* Bytes of the fixed part, and of one escape, as they are counted when they travel. */
static inline size_t tsr__rows_bytes(int64_t count)
{
  return (size_t)count * 3 * sizeof(double);
}
enum { TSR__ESCAPE_WIRE = 8 + TSR__ACC2_WIRE };

/* Takes `memory` (tsr__rows_bytes, borrowed, 8-byte aligned) for sums as it is: without value where
 * all of it is -0. */
void tsr__rows_over(tsr__rows *rows, tsr__heap *heap, void *memory, int64_t count);
/* The same, made sums of no value. */
void tsr__rows_init(tsr__rows *rows, tsr__heap *heap, void *memory, int64_t count);
/* Sums first .. first + count - 1, borrowed: over the same memory and escapes. */
tsr__rows tsr__rows_slice(const tsr__rows *rows, int64_t first, int64_t count);
/* Frees the escapes; the memory is the caller's. */
void tsr__rows_free(tsr__rows *rows);
void tsr__rows_clear(tsr__rows *rows);

/* Makes elements first .., which have no value, the sums of one value each. */
void tsr__rows_begin(tsr__rows *rows, int64_t first, const tsr__reals *x);

/* Adds a value that the fast way refused, or a product. */
void tsr__rows_hard(tsr__rows *rows, int64_t element, double value);
void tsr__rows_hard_product(tsr__rows *rows, int64_t element, double x, double y);
/* Adds an escape of another element to this one. */
void tsr__rows_escape(tsr__rows *rows, int64_t element, const tsr__acc2 *sum);

#define TSR__ROWS_VALUE_LIMIT 0x1p960
#define TSR__ROWS_PART_LIMIT 0x1p1000

/* a + b without loss: returns the rounded sum, and in *low the rounding error (Knuth 1969). */
static inline double tsr__two_sum(double a, double b, double *low)
{
  double sum = a + b;
  double part = sum - a;
  *low = (a - (sum - part)) + (b - part);
  return sum;
}

/* Moves a rounded value to the neighbour with an odd last bit, on the side where the exact value
 * is: rounding that once more, to 24 bits, is rounding the exact value (Boldo, Melquiond 2008).
 * Rounding to 53 bits and then to 24 rounds twice, and a value that was nearly half way may fall to
 * the wrong side. An odd last bit keeps it off the middle: the function adds one to the bits, or
 * takes one off, by the sign of the error. */
static inline double tsr__odd_neighbour(double value, double lacks)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (lacks == 0 || (bits & 1)) return value;
  bits += (lacks > 0) == (value > 0) ? 1 : UINT64_MAX;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Whether `sum` is a + value without loss. If |a| is the larger one, sum - a is the part taken of
 * the value, exactly; else sum - value is the part taken of a. The bits of a are compared, so that
 * -0 is refused: an element of -0 may have no value yet. */
static inline bool tsr__takes_all(double a, double value, double sum)
{
  double back = sum - value;
  return memcmp(&back, &a, sizeof a) == 0 && sum - a == value;
}

/* Adds one value to one element. */
static inline void tsr__rows_add(tsr__rows *rows, int64_t element, double value)
{
  double *a = rows->part[0] + element, *b = rows->part[1] + element, *c = rows->part[2] + element;
  double low0, low1, low2, plain = *a + value;
  /* This is nearly always so for f32 values. */
  if (tsr__takes_all(*a, value, plain) && fabs(plain) < TSR__ROWS_PART_LIMIT) {
    *a = plain;
    return;
  }
  double sum0 = tsr__two_sum(*a, value, &low0);
  double sum1 = tsr__two_sum(*b, low0, &low1);
  double sum2 = tsr__two_sum(*c, low1, &low2);
  if (fabs(value) < TSR__ROWS_VALUE_LIMIT && fabs(sum0) < TSR__ROWS_PART_LIMIT && low2 == 0) {
    *a = sum0;
    *b = sum1;
    *c = sum2;
  } else {
    tsr__rows_hard(rows, element, value);
  }
}

/* Adds x * y to one element. */
void tsr__rows_add_product(tsr__rows *rows, int64_t element, double x, double y);

/* By group: adds x[i] to element group[i]. Groups below 0 are left out, and elements that
 * `mask` (bits; NULL: all) does not choose. Pass squares for x[i] * x[i]. */
typedef struct tsr__scatter {
  const int32_t *group;
  const uint64_t *mask;
  int64_t n;
  bool squares;
} tsr__scatter;

void tsr__rows_scatter_f64(tsr__rows *rows, const double *x, const tsr__scatter *how);
void tsr__rows_scatter_f32(tsr__rows *rows, const float *x, const tsr__scatter *how);

/* ---- reading, each element rounded once -------------------------------------------------- */

/* Rounded to the dtype `to`; `counts` (one an element) or, where it is NULL, `n` for all. */
typedef struct tsr__rows_read {
  tsr_dtype to;
  int64_t n;
  const int64_t *counts;
  int64_t ddof;
  bool root; /* std instead of var */
} tsr__rows_read;

void tsr__rows_sum(const tsr__rows *rows, const tsr__rows_read *how, void *out);
void tsr__rows_mean(const tsr__rows *rows, const tsr__rows_read *how, void *out);
void tsr__rows_spread(const tsr__rows *sums, const tsr__rows *squares, const tsr__rows_read *how,
                      void *out);

/* One element as an accumulator, without rounding. */
void tsr__rows_get(const tsr__rows *rows, int64_t element, tsr__acc2 *out);

#endif
