/* Prefix products and extremes along a dim: element i is made of elements 0 .. i, one after the
 * other.
 *
 *   cumprod            floats of any width in f64, each product rounded there, each element once
 *                      more to its dtype, in order on any mesh; integers wrap
 *   cummax, cummin     one of the elements: NaN wins and stays, -0 < +0 */
#include "kernel/routine/scan.h"

#include "topology/half.h"

enum { WIDTH = 64 };

/* ---- products ---- */

/* Multiplies `runs` times one element of each line into the products of the state, and stores them
 * each time. */
static void multiply_reals(const tsr__scan_block *b, tsr__scan_state *state)
{
  double x[WIDTH], *product = state->memory;
  int64_t at = b->at;
  for (int64_t t = 0; t < b->runs; t++, at += b->step) {
    tsr__load_reals(b->dtype, b->from, at, state->count, x);
    for (int64_t j = 0; j < state->count; j++) {
      /* In f64 throughout: only the result is rounded to the dtype, not the running product. */
      product[j] *= x[j];
      tsr__dtype_put_real(b->dtype, b->to, at + j, product[j]);
    }
  }
}

/* i64 and u64 alike. */
static void multiply_integers(const tsr__scan_block *b, tsr__scan_state *state)
{
  const uint64_t *from = b->from;
  uint64_t *to = b->to, *product = state->memory;
  int64_t at = b->at;
  if (b->runs) state->empty = false;
  for (int64_t t = 0; t < b->runs; t++, at += b->step)
    for (int64_t j = 0; j < state->count; j++) {
      product[j] *= from[at + j];
      if (to) to[at + j] = product[j];
    }
}

tsr_status tsr__routine_cumprod(const tsr__call *call, tsr__error *error)
{
  const double one = 1;
  tsr__scan_work work = { .neutral = 1, .go = multiply_integers };
  if (tsr__dtype_rounds(tsr__call_dtype(call, 0))) {
    work = (tsr__scan_work){ .ordered = true, .go = multiply_reals };
    memcpy(&work.neutral, &one, sizeof one);
  }
  return tsr__scan_lines(call, &work, error);
}

/* ---- extremes ---- */

/* The order of integers that floats are given: NaN beyond all on the side that wins. */
static int64_t extreme_key_of(double x, bool largest)
{
  if (x != x) return largest ? TSR__KEY_NAN_MAX : TSR__KEY_NAN_MIN;
  return tsr__key_of_f64(x);
}

/* A state's words are elements; the first elements replace the words of an empty state. The first
 * element stands for the neutral one, which not every type has: NaN wins both ways. */
#define EXTREMES(name, T, KEY_TYPE, KEY)                                                       \
  static void name(const tsr__scan_block *b, tsr__scan_state *state, bool largest)             \
  {                                                                                            \
    const T *from = b->from;                                                                   \
    T *to = b->to, *best = state->memory;                                                      \
    int64_t at = b->at;                                                                        \
    if (state->empty && b->runs) memcpy(best, from + at, (size_t)state->count * sizeof *best); \
    for (int64_t t = 0; t < b->runs; t++, at += b->step)                                       \
      for (int64_t j = 0; j < state->count; j++) {                                             \
        T x = best[j];                                                                         \
        KEY_TYPE top = KEY;                                                                    \
        x = from[at + j];                                                                      \
        KEY_TYPE mine = KEY;                                                                   \
        if (largest ? mine > top : mine < top) best[j] = x;                                    \
        if (to) to[at + j] = best[j];                                                          \
      }                                                                                        \
  }

EXTREMES(extremes_i8, int8_t, int8_t, x)
EXTREMES(extremes_i16, int16_t, int16_t, x)
EXTREMES(extremes_i32, int32_t, int32_t, x)
EXTREMES(extremes_i64, int64_t, int64_t, x)
EXTREMES(extremes_u8, uint8_t, uint8_t, x)
EXTREMES(extremes_u16, uint16_t, uint16_t, x)
EXTREMES(extremes_u32, uint32_t, uint32_t, x)
EXTREMES(extremes_u64, uint64_t, uint64_t, x)
EXTREMES(extremes_f16, uint16_t, int64_t, extreme_key_of((double)tsr__f32_of_f16(x), largest))
EXTREMES(extremes_bf16, uint16_t, int64_t, extreme_key_of((double)tsr__f32_of_bf16(x), largest))
EXTREMES(extremes_f32, float, int64_t, extreme_key_of((double)x, largest))
EXTREMES(extremes_f64, double, int64_t, extreme_key_of(x, largest))

static void extremes(const tsr__scan_block *b, tsr__scan_state *state, bool largest)
{
  static void (*const ways[TSR__DTYPES])(const tsr__scan_block *, tsr__scan_state *, bool) = {
    [TSR_I8] = extremes_i8,     [TSR_I16] = extremes_i16, [TSR_I32] = extremes_i32,
    [TSR_I64] = extremes_i64,   [TSR_U8] = extremes_u8,   [TSR_U16] = extremes_u16,
    [TSR_U32] = extremes_u32,   [TSR_U64] = extremes_u64, [TSR_F16] = extremes_f16,
    [TSR_BF16] = extremes_bf16, [TSR_F32] = extremes_f32, [TSR_F64] = extremes_f64,
  };
  ways[b->dtype](b, state, largest);
  if (b->runs) state->empty = false;
}

static void largest_go(const tsr__scan_block *b, tsr__scan_state *state)
{
  extremes(b, state, true);
}

static void smallest_go(const tsr__scan_block *b, tsr__scan_state *state)
{
  extremes(b, state, false);
}

tsr_status tsr__routine_cummax(const tsr__call *call, tsr__error *error)
{
  return tsr__scan_lines(call, &(tsr__scan_work){ .go = largest_go }, error);
}

tsr_status tsr__routine_cummin(const tsr__call *call, tsr__error *error)
{
  return tsr__scan_lines(call, &(tsr__scan_work){ .go = smallest_go }, error);
}
