/* Exact sums of many elements: the rare cases of adding, and reading.
 *
 *     element i:  part[0][i]   part[1][i]   part[2][i]      slot[i] -> escape: a long number
 *                 largest      the rest     the rest's rest
 *
 * Invariant: the sum is the parts plus the escape, exactly. Parts need not be in order of size,
 * nor apart: reading takes care of that. */
#include "kernel/exact/exact_rows.h"

#include <string.h>

void tsr__rows_over(tsr__rows *rows, tsr__heap *heap, void *memory, int64_t count)
{
  memset(rows, 0, sizeof *rows);
  rows->heap = heap;
  rows->count = count;
  for (int k = 0; k < 3; k++) rows->part[k] = (double *)memory + k * count;
}

void tsr__rows_init(tsr__rows *rows, tsr__heap *heap, void *memory, int64_t count)
{
  tsr__rows_over(rows, heap, memory, count);
  /* -0 leaves every number as it is when added, +0 too: a sum of nothing but -0 stays -0. */
  for (int64_t i = 0; i < 3 * count; i++) ((double *)memory)[i] = -0.0;
}

/* Escapes are found by slot, and slots move along with the parts: so a slice may read them, but
 * not make new ones. */
tsr__rows tsr__rows_slice(const tsr__rows *rows, int64_t first, int64_t count)
{
  tsr__rows slice = *rows;
  for (int k = 0; k < 3; k++) slice.part[k] += first;
  if (slice.slot) slice.slot += first;
  slice.count = count;
  return slice;
}

void tsr__rows_free(tsr__rows *rows)
{
  tsr__del(rows->heap, rows->slot, (size_t)rows->count * sizeof *rows->slot);
  tsr__del(rows->heap, rows->escape, rows->escape_capacity * sizeof *rows->escape);
  rows->slot = NULL;
  rows->escape = NULL;
  rows->escape_count = rows->escape_capacity = 0;
}

void tsr__rows_clear(tsr__rows *rows)
{
  tsr__rows_free(rows);
  tsr__rows_init(rows, rows->heap, rows->part[0], rows->count);
}

/* The escape of an element, made at first need; NULL out of memory. `slot` is a number an element
 * and so as large as half a part; it is made when the first element needs it. Numbers begin at 1,
 * since zeroed memory must say "none". */
static tsr__acc2 *escape_of(tsr__rows *rows, int64_t element)
{
  if (!rows->slot) {
    rows->slot = tsr__new(rows->heap, (size_t)rows->count * sizeof *rows->slot);
    if (!rows->slot) return NULL;
  }
  if (rows->slot[element]) return &rows->escape[rows->slot[element] - 1].sum;
  size_t need = rows->escape_count + 1;
  if (!tsr__grow(rows->heap, (void **)&rows->escape, &rows->escape_capacity, need,
                 sizeof *rows->escape))
    return NULL;
  tsr__escape *escape = &rows->escape[rows->escape_count++];
  escape->element = element;
  tsr__acc2_zero(&escape->sum);
  /* Places, not pointers: the list moves when it grows. */
  rows->slot[element] = (uint32_t)rows->escape_count;
  return &escape->sum;
}

/* Something other than -0 was added. The value itself goes to an escape, so no addition changes the
 * parts; but -0 would still say that the element has no value. 0 == -0, so this writes +0 over
 * either. */
static void touch(tsr__rows *rows, int64_t element)
{
  for (int k = 0; k < 3; k++)
    if (rows->part[k][element] == 0) rows->part[k][element] = 0;
}

void tsr__rows_hard(tsr__rows *rows, int64_t element, double value)
{
  double *first = rows->part[0] + element;
  touch(rows, element);
  if (!isfinite(*first) || !isfinite(value)) {
    /* Special is special whatever is added; finite values no longer matter. A sum that is special
     * keeps its first special: infinity of the other sign makes it NaN, and a finite value changes
     * nothing. */
    if (!isfinite(value)) *first = isfinite(*first) ? value : *first + value;
    return;
  }
  tsr__acc2 *escape = escape_of(rows, element);
  if (escape) tsr__acc2_add(escape, value);
  else rows->failed = true;
}

void tsr__rows_begin(tsr__rows *rows, int64_t first, const tsr__reals *x)
{
  double *a = rows->part[0] + first, *b = rows->part[1] + first, *c = rows->part[2] + first;
  bool large = false;
  for (int i = 0; i < x->n; i++) {
    a[i] = tsr__real_at(x, i);
    b[i] = c[i] = 0;
    large |= fabs(a[i]) >= TSR__ROWS_VALUE_LIMIT;
  }
  for (int i = 0; large && i < x->n; i++) {
    if (!(fabs(a[i]) >= TSR__ROWS_VALUE_LIMIT)) continue;
    a[i] = 0;
    tsr__rows_hard(rows, first + i, tsr__real_at(x, i));
  }
}

void tsr__rows_hard_product(tsr__rows *rows, int64_t element, double x, double y)
{
  if (!isfinite(x) || !isfinite(y)) {
    tsr__rows_hard(rows, element, x * y);
    return;
  }
  touch(rows, element);
  tsr__acc2 *escape = escape_of(rows, element);
  if (escape) tsr__acc2_add_product(escape, x, y);
  else rows->failed = true;
}

void tsr__rows_escape(tsr__rows *rows, int64_t element, const tsr__acc2 *sum)
{
  touch(rows, element);
  tsr__acc2 *escape = escape_of(rows, element);
  if (escape) tsr__acc2_merge(escape, sum);
  else rows->failed = true;
}

/* Products of such numbers and their rounding errors are exact. A smaller product could have an
 * error smaller than the smallest denormal; above, the product could overflow. */
static inline bool mild(double value)
{
  double size = fabs(value);
  return value == 0 || (size >= 0x1p-400 && size < 0x1p480);
}

void tsr__rows_add_product(tsr__rows *rows, int64_t element, double x, double y)
{
  if (!mild(x) || !mild(y)) {
    tsr__rows_hard_product(rows, element, x, y);
    return;
  }
  double product = x * y;
  tsr__rows_add(rows, element, product);
  /* The rounded product and its error together are the product, exactly: two values to be added. */
  tsr__rows_add(rows, element, fma(x, y, -product));
}

static bool skipped(const tsr__scatter *how, int64_t i)
{
  return how->group[i] < 0 || (how->mask && !(how->mask[i >> 6] >> (i & 63) & 1));
}

void tsr__rows_scatter_f64(tsr__rows *rows, const double *x, const tsr__scatter *how)
{
  for (int64_t i = 0; i < how->n; i++) {
    if (skipped(how, i)) continue;
    if (how->squares) tsr__rows_add_product(rows, how->group[i], x[i], x[i]);
    else tsr__rows_add(rows, how->group[i], x[i]);
  }
}

void tsr__rows_scatter_f32(tsr__rows *rows, const float *x, const tsr__scatter *how)
{
  for (int64_t i = 0; i < how->n; i++) {
    if (skipped(how, i)) continue;
    /* 24 by 24 bits fit 53: the square of an f32 is exact in f64. */
    if (how->squares) tsr__rows_add(rows, how->group[i], (double)x[i] * (double)x[i]);
    else tsr__rows_add(rows, how->group[i], (double)x[i]);
  }
}

/* ---- reading ------------------------------------------------------------------------------- */

/* The long way, always right: all parts and the escape in one accumulator. The functions below are
 * short ways for common cases. */
void tsr__rows_get(const tsr__rows *rows, int64_t element, tsr__acc2 *out)
{
  tsr__acc2_zero(out);
  if (signbit(rows->part[1][element]) && rows->part[1][element] == 0) return; /* no value */
  tsr__acc2_add(out, rows->part[0][element]);
  for (int k = 1; k < 3; k++)
    if (rows->part[k][element] != 0) tsr__acc2_add(out, rows->part[k][element]);
  if (rows->slot && rows->slot[element])
    tsr__acc2_merge(out, &rows->escape[rows->slot[element] - 1].sum);
}

/* The sum as the rounded one, its error, and the error of both. False: not finite, or a part of it
 * escaped. */
static bool fold_parts(const tsr__rows *rows, int64_t i, double *high, double *low, double *last)
{
  double a = rows->part[0][i], b = rows->part[1][i], c = rows->part[2][i], rest;
  /* NaN and infinities are not below the limit either, so they go the long way. */
  if (!(fabs(a) < TSR__ROWS_PART_LIMIT) || (rows->slot && rows->slot[i])) return false;
  /* Three parts as a sum and an error: exact as long as nothing is left in `last`. Then `high` is
   * the rounded sum, and only the sign and the size of `low` matter to who rounds further. */
  a = tsr__two_sum(a, b, &rest);
  rest = tsr__two_sum(rest, c, last);
  *high = tsr__two_sum(a, rest, low);
  return true;
}

/* The sum as one double and its error, if two doubles hold it and it is finite. */
static bool as_two(const tsr__rows *rows, int64_t i, double *high, double *low)
{
  double a = rows->part[0][i], b = rows->part[1][i], last;
  if (a == 0 && b == 0 && !(rows->slot && rows->slot[i])) {
    *high = signbit(a) && !signbit(b) ? -0.0 : 0.0; /* only -0s; else nothing, or +0 */
    *low = 0;
    return rows->part[2][i] == 0;
  }
  return fold_parts(rows, i, high, low, &last) && last == 0;
}

/* The sum in its first part alone, as nearly all sums of a few f32 are: rounded once by the cast.
 * No value at all is -0 in both parts, and 0. */
static bool first_alone(const tsr__rows *rows, int64_t i, double *out)
{
  double a = rows->part[0][i], b = rows->part[1][i];
  *out = a == 0 && signbit(b) ? 0.0 : a;
  return b == 0 && rows->part[2][i] == 0 && fabs(a) < TSR__ROWS_PART_LIMIT;
}

/* Elements from `i` on, as long as that holds; returns where it ended. */
static int64_t sum_plain(const tsr__rows *rows, float *out, int64_t i)
{
  double sum;
  for (; i < rows->count && first_alone(rows, i, &sum); i++) out[i] = (float)sum;
  return i;
}

void tsr__rows_sum(const tsr__rows *rows, const tsr__rows_read *how, void *out)
{
  tsr_dtype to = how->to;
  bool plain = to == TSR_F32 && !rows->slot; /* an escape is not in the parts */
  for (int64_t i = 0; i < rows->count; i++) {
    double high, low;
    if (plain && (i = sum_plain(rows, out, i)) == rows->count) break;
    tsr__acc2 sum;
    if (as_two(rows, i, &high, &low)) {
      tsr__dtype_put_real(to, out, i, to == TSR_F64 ? high : tsr__odd_neighbour(high, low));
      continue;
    }
    tsr__rows_get(rows, i, &sum);
    tsr__dtype_put_real(to, out, i, tsr__acc2_mean(&sum, 1, to));
  }
}

static int64_t count_of_values(const tsr__rows_read *how, int64_t i)
{
  return how->counts ? how->counts[i] : how->n;
}

/* sum / n where one division does: the sum is one double, n is one too. */
static bool as_one(const tsr__rows *rows, int64_t i, int64_t n, double *out)
{
  double low;
  return n > 0 && n < (int64_t)1 << 53 && as_two(rows, i, out, &low) && low == 0;
}

void tsr__rows_mean(const tsr__rows *rows, const tsr__rows_read *how, void *out)
{
  tsr_dtype to = how->to;
  for (int64_t i = 0; i < rows->count; i++) {
    int64_t n = count_of_values(how, i);
    double sum;
    tsr__acc2 acc;
    /* The remainder of the division decides narrow results, and fma must not underflow: hence the
     * lower limit. For f64 the quotient is rounded once by the division itself. */
    bool wide = to == TSR_F64;
    if (as_one(rows, i, n, &sum) && (wide || sum == 0 || fabs(sum) > 0x1p-800)) {
      double quotient = sum / (double)n;
      if (!wide) quotient = tsr__odd_neighbour(quotient, fma(-quotient, (double)n, sum));
      tsr__dtype_put_real(to, out, i, quotient);
      continue;
    }
    tsr__rows_get(rows, i, &acc);
    tsr__dtype_put_real(to, out, i, tsr__acc2_mean(&acc, n, to));
  }
}

/* ---- variances, the short way ---------------------------------------------------------------- */

/* A number as two doubles, of which the first is the rounded one, and how far off it may be. */
typedef struct about {
  double high, low, error;
} about;

/* Above this bound the errors of products and quotients are doubles; below the other nothing
 * overflows. */
#define NEAR_ZERO 0x1p-700
#define NEAR_END 0x1p900

/* x / by for a whole `by` below 2^53, to some 2^-102 of it. */
static about divide_about(about x, double by)
{
  about out;
  double quotient = x.high / by, rest = fma(-quotient, by, x.high) + x.low;
  out.high = tsr__two_sum(quotient, rest / by, &out.low);
  out.error = x.error / by + fabs(out.high) * 0x1p-101;
  return out;
}

static about root(about x)
{
  about out;
  double first = sqrt(x.high), rest = fma(-first, first, x.high) + x.low;
  out.high = tsr__two_sum(first, rest / (2 * first), &out.low);
  out.error = x.error / first + out.high * 0x1p-100;
  return out;
}

/* n S2 - S1 S1, where not too much of it cancels. n S2 is the larger one: all errors are small
 * beside it. */
static bool differ(const tsr__rows *sums, const tsr__rows *squares, int64_t i, double n, about *out)
{
  double s1, s1_low, s1_last, s2, s2_low, s2_last;
  if (!fold_parts(sums, i, &s1, &s1_low, &s1_last)) return false;
  if (!fold_parts(squares, i, &s2, &s2_low, &s2_last)) return false;
  if (fabs(s1_last) > fabs(s1) * 0x1p-104 || fabs(s2_last) > s2 * 0x1p-104) return false;
  double left = n * s2, right = s1 * s1;
  if (!(left > NEAR_ZERO && left < NEAR_END)) return false;
  double left_low = fma(n, s2, -left) + n * s2_low;
  double right_low = fma(s1, s1, -right) + 2 * s1 * s1_low, rest;
  double high = tsr__two_sum(left, -right, &rest);
  out->high = tsr__two_sum(high, rest + (left_low - right_low), &out->low);
  out->error = left * 0x1p-99;
  return out->high > left * 0x1p-40;
}

/* Whether all numbers near one round to the same, which is put. A narrow type asks that of a wider
 * neighbourhood, so that its ends may be doubles. */
static bool put_about(tsr_dtype to, about x, void *out, int64_t i)
{
  if (to != TSR_F64) x.error += x.high * 0x1p-50;
  double least = x.high + (x.low - x.error), most = x.high + (x.low + x.error);
  if (tsr__dtype_round(to, least) != tsr__dtype_round(to, most)) return false;
  tsr__dtype_put_real(to, out, i, least);
  return true;
}

/* x / (n (n - ddof)) or its root by one double a step, which is off by less than 2^-51 of it: that
 * bound nearly always decides which narrow value is nearest. */
static bool put_narrow(const tsr__rows_read *how, about x, double by, void *out, int64_t i)
{
  double quotient = x.high / by;
  if (how->to == TSR_F64 || !(quotient > NEAR_ZERO)) return false;
  if (how->root) quotient = sqrt(quotient);
  return put_about(how->to, (about){ quotient, 0, quotient * 0x1p-51 }, out, i);
}

/* A variance, if two doubles a step decide its rounding: nearly always, but for columns that are
 * nearly constant. The error bounds are a multiple of the true errors. */
static bool put_spread(const tsr__rows *sums, const tsr__rows *squares, const tsr__rows_read *how,
                       void *out, int64_t i)
{
  const int64_t n = count_of_values(how, i), most = (int64_t)1 << 53;
  about x;
  if (n <= 0 || n >= most || n - how->ddof <= 0 || n - how->ddof >= most) return false;
  if (!differ(sums, squares, i, (double)n, &x)) return false;
  if (put_narrow(how, x, (double)n * (double)(n - how->ddof), out, i)) return true;
  x = divide_about(divide_about(x, (double)n), (double)(n - how->ddof));
  if (!(x.high > NEAR_ZERO)) return false;
  return put_about(how->to, how->root ? root(x) : x, out, i);
}

void tsr__rows_spread(const tsr__rows *sums, const tsr__rows *squares, const tsr__rows_read *how,
                      void *out)
{
  for (int64_t i = 0; i < sums->count; i++) {
    tsr__acc2 sum, square;
    if (put_spread(sums, squares, how, out, i)) continue;
    tsr__rows_get(sums, i, &sum);
    tsr__rows_get(squares, i, &square);
    tsr__spread_read read = { count_of_values(how, i), how->ddof, how->root };
    tsr__dtype_put_real(how->to, out, i, tsr__acc2_spread(&sum, &square, &read, how->to));
  }
}
