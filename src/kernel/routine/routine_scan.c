/* Prefix products and extremes along a dim: element i is made of elements 0 .. i, one after the
 * other.
 *
 *   cumprod            floats of any width in f64, each product rounded there, each element once
 *                      more to its dtype; integers wrap
 *   cummax, cummin     one of the elements: NaN wins and stays, -0 < +0 */
#include "kernel/routine/routine.h"

#include "topology/half.h"

enum { WIDTH = 64 };

/* ---- products ---- */

static tsr_status real_products(const tsr__strip *s)
{
  bool reverse = tsr__call_reverse(s->call);
  tsr_dtype dtype = tsr__call_dtype(s->call, 0);
  const void *from = s->part->in[0].buffer->data;
  void *to = s->part->out[0].buffer->data;
  double product[WIDTH], x[WIDTH];
  int64_t left = 0;
  for (int64_t j = 0; j < s->count; j++) product[j] = 1;
  for (int64_t t = 0; t < s->along && tsr__strip_goes_on(s, &left); t++) {
    int64_t at = tsr__strip_at(s, t, reverse);
    tsr__load_reals(dtype, from, at, s->count, x);
    for (int64_t j = 0; j < s->count; j++) {
      product[j] *= x[j];
      tsr__dtype_put_real(dtype, to, at + j, product[j]);
    }
  }
  return TSR_OK;
}

/* i64 and u64 alike. */
static tsr_status whole_products(const tsr__strip *s)
{
  bool reverse = tsr__call_reverse(s->call);
  const uint64_t *from = s->part->in[0].buffer->data;
  uint64_t *to = s->part->out[0].buffer->data, product[WIDTH];
  int64_t left = 0;
  for (int64_t j = 0; j < s->count; j++) product[j] = 1;
  for (int64_t t = 0; t < s->along && tsr__strip_goes_on(s, &left); t++) {
    int64_t at = tsr__strip_at(s, t, reverse);
    for (int64_t j = 0; j < s->count; j++) to[at + j] = product[j] *= from[at + j];
  }
  return TSR_OK;
}

tsr_status tsr__routine_cumprod(const tsr__call *call, tsr__error *error)
{
  bool real = tsr__dtype_float(tsr__call_dtype(call, 0));
  tsr__line_work work = { .width = WIDTH, .fn = real ? real_products : whole_products };
  return tsr__each_line(call, &work, error);
}

/* ---- extremes ---- */

/* Whether x comes before what the prefix has, in the order of integers that floats are given: NaN
 * beyond all on the side that wins. */
static int64_t key_of(double x, bool largest)
{
  if (x != x) return largest ? TSR__KEY_NAN_MAX : TSR__KEY_NAN_MIN;
  return tsr__key_of_f64(x);
}

#define EXTREMES(name, T, KEY_TYPE, KEY)                                     \
  static tsr_status name(const tsr__strip *s, bool largest)                  \
  {                                                                          \
    const T *from = s->part->in[0].buffer->data;                             \
    T *to = s->part->out[0].buffer->data;                                    \
    bool reverse = tsr__call_reverse(s->call);                               \
    int64_t left = 0, last = reverse ? s->after : -s->after;                 \
    for (int64_t t = 0; t < s->along && tsr__strip_goes_on(s, &left); t++) { \
      int64_t at = tsr__strip_at(s, t, reverse);                             \
      for (int64_t j = at; j < at + s->count; j++) {                         \
        T x = from[j];                                                       \
        KEY_TYPE mine = KEY;                                                 \
        to[j] = x;                                                           \
        if (!t) continue;                                                    \
        x = to[j + last];                                                    \
        KEY_TYPE best = KEY;                                                 \
        if (largest ? best >= mine : best <= mine) to[j] = x;                \
      }                                                                      \
    }                                                                        \
    return TSR_OK;                                                           \
  }

EXTREMES(extremes_i8, int8_t, int8_t, x)
EXTREMES(extremes_i16, int16_t, int16_t, x)
EXTREMES(extremes_i32, int32_t, int32_t, x)
EXTREMES(extremes_i64, int64_t, int64_t, x)
EXTREMES(extremes_u8, uint8_t, uint8_t, x)
EXTREMES(extremes_u16, uint16_t, uint16_t, x)
EXTREMES(extremes_u32, uint32_t, uint32_t, x)
EXTREMES(extremes_u64, uint64_t, uint64_t, x)
EXTREMES(extremes_f16, uint16_t, int64_t, key_of((double)tsr__f32_of_f16(x), largest))
EXTREMES(extremes_bf16, uint16_t, int64_t, key_of((double)tsr__f32_of_bf16(x), largest))
EXTREMES(extremes_f32, float, int64_t, key_of((double)x, largest))
EXTREMES(extremes_f64, double, int64_t, key_of(x, largest))

static tsr_status extreme_strip(const tsr__strip *s, bool largest)
{
  static tsr_status (*const ways[TSR__DTYPES])(const tsr__strip *, bool) = {
    [TSR_I8] = extremes_i8,     [TSR_I16] = extremes_i16, [TSR_I32] = extremes_i32,
    [TSR_I64] = extremes_i64,   [TSR_U8] = extremes_u8,   [TSR_U16] = extremes_u16,
    [TSR_U32] = extremes_u32,   [TSR_U64] = extremes_u64, [TSR_F16] = extremes_f16,
    [TSR_BF16] = extremes_bf16, [TSR_F32] = extremes_f32, [TSR_F64] = extremes_f64,
  };
  return ways[tsr__call_dtype(s->call, 0)](s, largest);
}

static tsr_status largest_strip(const tsr__strip *s)
{
  return extreme_strip(s, true);
}

static tsr_status smallest_strip(const tsr__strip *s)
{
  return extreme_strip(s, false);
}

tsr_status tsr__routine_cummax(const tsr__call *call, tsr__error *error)
{
  return tsr__each_line(call, &(tsr__line_work){ .width = WIDTH, .fn = largest_strip }, error);
}

tsr_status tsr__routine_cummin(const tsr__call *call, tsr__error *error)
{
  return tsr__each_line(call, &(tsr__line_work){ .width = WIDTH, .fn = smallest_strip }, error);
}
