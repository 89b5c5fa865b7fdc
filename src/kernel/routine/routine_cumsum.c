/* Prefix sums along a dim: element i is the sum of elements 0 .. i, that one included.
 *
 *   sums of a strip     one exact sum a line (exact_rows.h); each step adds a run to them and
 *                       rounds every one once
 *
 * Integers wrap. A state is the sum of all elements before: so a line may be cut anywhere. */
#include "kernel/routine/scan.h"

enum { WIDTH = 64, TILE = 1024 };

/* ---- one line of f32 or f64, in registers ---- */

/* Three doubles that are a sum, as in exact_rows.h. */
typedef struct sum {
  double a, b, c;
} sum;

/* Adds a value; false: it must go the hard way, and nothing was added. */
static inline bool add_double_to_sum(sum *s, double value)
{
  double low0, low1, low2;
  double a = tsr__two_sum(s->a, value, &low0), b = tsr__two_sum(s->b, low0, &low1);
  double c = tsr__two_sum(s->c, low1, &low2);
  /* low2 is the part that three doubles cannot hold; comparisons fail for NaN and infinity, which
   * go the hard way, too. */
  bool fits = fabs(value) < TSR__ROWS_VALUE_LIMIT && fabs(a) < TSR__ROWS_PART_LIMIT && low2 == 0;
  if (fits) *s = (sum){ a, b, c };
  return fits;
}

/* A sum of two doubles rounded to f64 is one addition. */
static inline bool rounds_by_addition(const sum *s)
{
  return s->c == 0 && s->a != 0 && fabs(s->a) < TSR__ROWS_PART_LIMIT;
}

/* Rounding to f64 and then to f32 is rounding once, unless f64 lies in the middle of two f32 and is
 * not exact, or f32 has fewer bits there. */
static inline bool round_f32(const sum *s, float *out)
{
  double low, value = tsr__two_sum(s->a, s->b, &low);
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  *out = (float)value;
  /* f64 has 29 bits more than f32: exactly half of an f32's last place are a one and 28 zeros,
   * where the part that f64 lost decides. */
  bool middle = (bits & 0x1fffffff) == 0x10000000 && low != 0;
  return rounds_by_addition(s) && !middle && fabs(value) > 0x1p-120 && fabs(value) < 0x1p126;
}

static inline bool round_f64(const sum *s, double *out)
{
  *out = s->a + s->b;
  return rounds_by_addition(s);
}

/* The line's sum lives in registers and goes back to memory only for the hard cases and at the
 * end. */
static void load_sum(const tsr__rows *rows, sum *s)
{
  *s = (sum){ rows->part[0][0], rows->part[1][0], rows->part[2][0] };
}

static void store_sum(const sum *s, tsr__rows *rows)
{
  rows->part[0][0] = s->a;
  rows->part[1][0] = s->b;
  rows->part[2][0] = s->c;
}

static void add_hard(sum *s, double value, tsr__rows *rows)
{
  store_sum(s, rows);
  tsr__rows_hard(rows, 0, value);
  load_sum(rows, s);
}

static void read_hard(const sum *s, tsr_dtype to, tsr__rows *rows, void *out)
{
  store_sum(s, rows);
  tsr__rows_sum(rows, &(tsr__rows_read){ .to = to }, out);
}

/* A sum with an escape has a part in a long number, of which registers know nothing. */
#define LINE(name, T, ROUND, DTYPE)                                                       \
  static void name(const tsr__scan_block *b, tsr__rows *rows)                             \
  {                                                                                       \
    const T *from = (const T *)b->from + b->at;                                           \
    T *to = (T *)b->to + b->at;                                                           \
    sum s;                                                                                \
    load_sum(rows, &s);                                                                   \
    for (int64_t i = 0, at = 0; i < b->runs; i++, at += b->step) {                        \
      if (!add_double_to_sum(&s, (double)from[at])) add_hard(&s, (double)from[at], rows); \
      if (rows->slot || !ROUND(&s, &to[at])) read_hard(&s, DTYPE, rows, &to[at]);         \
    }                                                                                     \
    store_sum(&s, rows);                                                                  \
  }

LINE(line_f32, float, round_f32, TSR_F32)
LINE(line_f64, double, round_f64, TSR_F64)

/* The sum of elements side by side: their order does not show. */
static void total_line(const tsr__scan_block *b, tsr__rows *rows)
{
  /* Backwards the block begins at its last element. */
  int64_t first = b->step < 0 ? b->at - (b->runs - 1) : b->at;
  tsr__grid grid = { 0 };
  tsr__rows_at at = { rows, 0, NULL };
  for (int64_t i = 0; i < b->runs; i += TILE) {
    int n = (int)(b->runs - i < TILE ? b->runs - i : TILE);
    if (b->dtype == TSR_F64)
      b->tiles->exact->rows_run_f64(at, &grid, (const double *)b->from + first + i, n, NULL);
    else b->tiles->exact->rows_run_f32(at, &grid, (const float *)b->from + first + i, n, NULL);
  }
}

/* ---- many lines, any floats ---- */

/* Sums of a step that fit two doubles are read at once; other sums by the exact accumulator. */
static void read_prefix_sums(const tsr__rows *sums, tsr_dtype dtype, void *to)
{
  if (dtype != TSR_F64 || sums->slot) {
    tsr__rows_sum(sums, &(tsr__rows_read){ .to = dtype }, to);
    return;
  }
  for (int64_t j = 0; j < sums->count; j++) {
    sum s = { sums->part[0][j], sums->part[1][j], sums->part[2][j] };
    if (round_f64(&s, (double *)to + j)) continue;
    tsr__rows one = tsr__rows_slice(sums, j, 1);
    tsr__rows_sum(&one, &(tsr__rows_read){ .to = dtype }, (double *)to + j);
  }
}

static void many_lines(const tsr__scan_block *b, tsr__scan_state *state)
{
  double x[WIDTH];
  int64_t size = (int64_t)tsr_dtype_size(b->dtype), at = b->at;
  for (int64_t t = 0; t < b->runs; t++, at += b->step) {
    tsr__load_reals(b->dtype, b->from, at, state->count, x);
    b->tiles->exact->rows_add_f64(&state->sums, 0, x, state->count, NULL);
    if (b->to) read_prefix_sums(&state->sums, b->dtype, (char *)b->to + at * size);
  }
}

static void add_reals(const tsr__scan_block *b, tsr__scan_state *state)
{
  bool wide = b->dtype == TSR_F64 || b->dtype == TSR_F32;
  bool side_by_side = b->step == 1 || b->step == -1;
  if (b->runs) state->empty = false;
  /* One line of f32 or f64 has paths of its own, since there is nothing beside it to fill
   * vectors with. */
  if (state->count > 1 || !wide || (!b->to && !side_by_side)) many_lines(b, state);
  else if (!b->to) total_line(b, &state->sums);
  else if (b->dtype == TSR_F32) line_f32(b, &state->sums);
  else line_f64(b, &state->sums);
}

/* ---- integers: i64 and u64 alike ---- */

static void add_integers(const tsr__scan_block *b, tsr__scan_state *state)
{
  const uint64_t *from = b->from;
  uint64_t *to = b->to, *total = state->memory;
  int64_t at = b->at;
  if (b->runs) state->empty = false;
  for (int64_t t = 0; t < b->runs; t++, at += b->step)
    for (int64_t j = 0; j < state->count; j++) {
      total[j] += from[at + j];
      if (to) to[at + j] = total[j];
    }
}

tsr_status tsr__routine_cumsum(const tsr__call *call, tsr__error *error)
{
  bool real = tsr__dtype_rounds(tsr__call_dtype(call, 0));
  tsr__scan_work work = { .sums = real, .go = real ? add_reals : add_integers };
  return tsr__scan_lines(call, &work, error);
}
