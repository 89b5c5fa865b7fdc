/* Reducers over tiles of at most 1,024 elements: the fast way into the accumulators of exact.h.
 *
 * Each instruction set has its own compiled copy; all give the same accumulator values, to the last
 * bit. `mask` chooses elements: bit i of the little-endian bit string `mask[]` takes element i;
 * NULL takes all. Only elements 0 .. n - 1 are read, chosen or not. */
#ifndef TSR_KERNEL_EXACT_TILE_H
#define TSR_KERNEL_EXACT_TILE_H

#include "kernel/exact/exact.h"
#include "kernel/exact/exact_rows.h"

enum { TSR__BINS_BLOCK = 512 };
#define TSR__BINS_MOST 0x1p40

enum { TSR__TILE = 1024 };

/* State that a caller keeps between tiles of the same data, one a worker and column: a guess of how
 * large the values are. The guess changes how fast a sum is, never its value. Start with zeros. */
typedef struct tsr__grid {
  int16_t exponent; /* values below 2^exponent, and not far below it, are fast */
  uint8_t careful;  /* so many tiles yet to take with the careful loop */
  uint8_t streak;   /* how many to take next time */
} tsr__grid;

/* The two sums that var and std need. */
typedef struct tsr__spread {
  tsr__acc sum;
  tsr__acc2 squares;
} tsr__spread;

typedef struct tsr__int_spread {
  tsr__i128 sum;
  tsr__isq squares;
} tsr__int_spread;

/* Some rows of `n` values each, `stride` values from each other. */
typedef struct tsr__columns {
  const float *at;
  int64_t n, rows, stride;
} tsr__columns;

/* `count` rows of `n` values each. */
typedef struct tsr__few {
  const void *const *x;
  int count, n;
} tsr__few;

typedef struct tsr__exact_ops {
  void (*sum_f64)(tsr__acc *acc, tsr__grid *grid, const double *x, int n, const uint64_t *mask);
  void (*sum_f32)(tsr__acc *acc, tsr__grid *grid, const float *x, int n, const uint64_t *mask);
  /* A grid serves either sums or spreads, f64 or f32, not several. */
  void (*spread_f64)(tsr__spread *out, tsr__grid *grid, const double *x, int n,
                     const uint64_t *mask);
  void (*spread_f32)(tsr__spread *out, tsr__grid *grid, const float *x, int n,
                     const uint64_t *mask);
  void (*sum_i64)(tsr__i128 *sum, const int64_t *x, int n, const uint64_t *mask);
  void (*sum_i32)(tsr__i128 *sum, const int32_t *x, int n, const uint64_t *mask);
  void (*spread_i64)(tsr__int_spread *out, const int64_t *x, int n, const uint64_t *mask);
  void (*spread_i32)(tsr__int_spread *out, const int32_t *x, int n, const uint64_t *mask);

  /* Array outputs: adds x[i] to element first + i; any n. */
  void (*rows_add_f64)(tsr__rows *rows, int64_t first, const double *x, int64_t n,
                       const uint64_t *mask);
  void (*rows_add_f32)(tsr__rows *rows, int64_t first, const float *x, int64_t n,
                       const uint64_t *mask);
  /* The same with x[i] * x[i]. */
  void (*rows_square_f64)(tsr__rows *rows, int64_t first, const double *x, int64_t n,
                          const uint64_t *mask);
  void (*rows_square_f32)(tsr__rows *rows, int64_t first, const float *x, int64_t n,
                          const uint64_t *mask);
  /* x as whole numbers of `unit`, a power of two, smaller than TSR__BINS_MOST in size; any other
   * value gives 0 and sets bit i of `left`. `x` has at most TSR__BINS_BLOCK values. */
  void (*whole_units)(int64_t *out, uint64_t *left, const tsr__reals *x, double unit);
  /* Adds element i of `from` to element first + i of `into`. */
  void (*rows_merge)(tsr__rows *into, int64_t first, const tsr__rows *from);
  /* Adds the sum of a tile to one element: reductions along the last dim. */
  void (*rows_run_f64)(tsr__rows_at at, tsr__grid *grid, const double *x, int n,
                       const uint64_t *mask);
  void (*rows_run_f32)(tsr__rows_at at, tsr__grid *grid, const float *x, int n,
                       const uint64_t *mask);
  /* The same with at.squares taking the sum of x[i] * x[i]; a grid of its own, as for spreads. */
  void (*rows_spread_f64)(tsr__rows_at at, tsr__grid *grid, const double *x, int n,
                          const uint64_t *mask);
  void (*rows_spread_f32)(tsr__rows_at at, tsr__grid *grid, const float *x, int n,
                          const uint64_t *mask);
  /* Adds column i of x to element at.element + i, and its squares to at.squares where
   * that is there. */
  void (*rows_down_f32)(tsr__rows_at at, const tsr__columns *x);
  /* The sum of some values each: out[i] of x[0][i], x[1][i], .. f32 values give the exact sum; f64
   * values give the rounded sum. Bit i of `left` is set if only an accumulator can tell the sum; at
   * most a tile of elements. */
  void (*few_f32)(double *out, uint64_t *left, const tsr__few *x);
  /* The same times a power of two, rounded to f32. */
  void (*few_to_f32)(float *out, uint64_t *left, const tsr__few *x, double scale);
  void (*few_f64)(double *out, uint64_t *left, const tsr__few *x);
} tsr__exact_ops;

#define TSR__ISA_PASTE_(name, isa) name##_##isa
#define TSR__ISA_PASTE(name, isa) TSR__ISA_PASTE_(name, isa)
/* In a *_tile.c file: the name with the instruction set appended. */
#define TSR__ISA_NAME(name) TSR__ISA_PASTE(name, TSR__ISA)
#define TSR__ISA_TEXT_(isa) #isa
#define TSR__ISA_TEXT(isa) TSR__ISA_TEXT_(isa)

extern const tsr__exact_ops tsr__exact_ops_baseline;
#if defined(__x86_64__)
extern const tsr__exact_ops tsr__exact_ops_avx2;
extern const tsr__exact_ops tsr__exact_ops_avx512;
#endif

#endif
