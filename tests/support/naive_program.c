/* See naive_program.h. */
#include "support/naive_program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/exact/exact.h"
#include "tessera/indexing.h"

/* ---- elements ---- */

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 uwide;

bool naive_is_real(int dtype)
{
  return dtype >= TSR_F16;
}

/* Bits of an integer dtype, negative for unsigned ones. */
static int int_bits(int dtype)
{
  static const int bits[] = {
    [TSR_BOOL] = 64, [TSR_I8] = 8,    [TSR_I16] = 16,  [TSR_I32] = 32, [TSR_I64] = 64,
    [TSR_U8] = -8,   [TSR_U16] = -16, [TSR_U32] = -32, [TSR_U64] = -64
  };
  return bits[dtype];
}

static wide int_least(int dtype)
{
  int bits = int_bits(dtype);
  return bits < 0 ? 0 : -((wide)1 << (bits - 1));
}

static wide int_most(int dtype)
{
  int bits = int_bits(dtype);
  return ((wide)1 << (bits < 0 ? -bits : bits - 1)) - 1;
}

/* What an integer cell means: u64 lies there in its bits. */
static wide int_value(int dtype, int64_t i)
{
  return dtype == TSR_U64 ? (wide)(uint64_t)i : (wide)i;
}

/* Rounds by scaling: to `precision` bits or multiples of 2^lowest, beyond 2^top to infinity. */
static double rounded(long double value, int precision, int lowest, int top)
{
  int exponent;
  if (value == 0 || isnan(value) || isinf(value)) return (double)value;
  frexpl(value, &exponent);
  int step = exponent - precision > lowest ? exponent - precision : lowest;
  long double kept = ldexpl(rintl(ldexpl(value, -step)), step);
  if (fabsl(kept) >= ldexpl(1, top)) return value < 0 ? -(double)INFINITY : (double)INFINITY;
  return (double)copysignl(kept, value);
}

static cell real(int dtype, long double value)
{
  cell c;
  c.f = dtype == TSR_F32    ? (double)(float)value
        : dtype == TSR_F16  ? rounded(value, 11, -24, 16)
        : dtype == TSR_BF16 ? rounded(value, 8, -133, 128)
                            : (double)value;
  return c;
}

static cell whole(int dtype, wide value)
{
  cell c;
  switch (int_bits(dtype)) {
  case 8: c.i = (int8_t)(uint8_t)(uwide)value; break;
  case 16: c.i = (int16_t)(uint16_t)(uwide)value; break;
  case 32: c.i = (int32_t)(uint32_t)(uwide)value; break;
  case -8: c.i = (uint8_t)(uwide)value; break;
  case -16: c.i = (uint16_t)(uwide)value; break;
  case -32: c.i = (uint32_t)(uwide)value; break;
  default: c.i = (int64_t)(uint64_t)(uwide)value;
  }
  return c;
}

static cell truth(bool value)
{
  cell c;
  c.i = value;
  return c;
}

static double less_of(double a, double b)
{
  if (isnan(a) || isnan(b)) return NAN;
  if (a == b) return signbit(a) ? a : b;
  return a < b ? a : b;
}

/* How many bits are 1, or how many above the highest 1 are 0. */
static cell counted(tsr__op op, int dtype, int64_t a)
{
  int ones = 0, zeros = 0;
  bool seen = false;
  for (int b = abs(int_bits(dtype)) - 1; b >= 0; b--) {
    bool set = (uint64_t)a >> b & 1;
    seen = seen || set;
    ones += set;
    zeros += !seen;
  }
  return whole(dtype, op == TSR__OP_POPCOUNT ? ones : zeros);
}

/* By `places` that may be any: of too many nothing is left but, to the right, the sign. */
static cell shifted(tsr__op op, int dtype, int64_t a, wide places)
{
  wide x = int_value(dtype, a);
  bool inside = places >= 0 && places < abs(int_bits(dtype));
  if (op == TSR__OP_LEFT_SHIFT) return whole(dtype, inside ? (wide)((uwide)x << places) : 0);
  return whole(dtype, inside ? x >> places : x < 0 ? -1 : 0);
}

static cell int_op(tsr__op op, int dtype, int64_t a, int64_t b)
{
  wide x = int_value(dtype, a), y = int_value(dtype, b), q = 0;
  bool narrow = abs(int_bits(dtype)) < 32, natural = int_bits(dtype) < 0;
  int range = !narrow ? dtype : natural ? TSR_U32 : TSR_I32; /* what narrow ones are computed in */
  wide least = int_least(range), most = int_most(range), p;
  if (b) {
    q = x / y;
    if (x % y != 0 && (x % y < 0) != (y < 0)) q--;
  }
  switch (op) {
  case TSR__OP_ADD: return whole(dtype, x + y);
  case TSR__OP_SUB: return whole(dtype, x - y);
  case TSR__OP_MUL: return whole(dtype, (wide)((uwide)x * (uwide)y));
  case TSR__OP_FLOORDIV: return whole(dtype, q);
  case TSR__OP_MOD: return whole(dtype, b ? x - q * y : 0);
  case TSR__OP_FMOD: return whole(dtype, b ? x % y : 0);
  case TSR__OP_MINIMUM: return whole(dtype, x < y ? x : y);
  case TSR__OP_MAXIMUM: return whole(dtype, x > y ? x : y);
  case TSR__OP_ADDOVF: return truth(x + y < least || x + y > most);
  case TSR__OP_SUBOVF: return truth(x - y < least || x - y > most);
  case TSR__OP_MULOVF: /* two u64 may be beyond even `wide` */
    return truth(__builtin_mul_overflow(x, y, &p) || p < least || p > most);
  case TSR__OP_EQ: return truth(a == b);
  case TSR__OP_NE: return truth(a != b);
  case TSR__OP_LT: return truth(x < y);
  case TSR__OP_LE: return truth(x <= y);
  case TSR__OP_GT: return truth(x > y);
  case TSR__OP_GE: return truth(x >= y);
  case TSR__OP_AND: return whole(dtype, a & b);
  case TSR__OP_OR: return whole(dtype, a | b);
  case TSR__OP_XOR: return whole(dtype, a ^ b);
  case TSR__OP_STOP: return whole(dtype, x);
  case TSR__OP_NEG: return whole(dtype, -x);
  case TSR__OP_ABS: return whole(dtype, x < 0 ? -x : x);
  case TSR__OP_NOT: return dtype == TSR_BOOL ? truth(!a) : whole(dtype, ~(wide)a);
  case TSR__OP_POPCOUNT:
  case TSR__OP_CLZ: return counted(op, dtype, a);
  case TSR__OP_LEFT_SHIFT:
  case TSR__OP_RIGHT_SHIFT: return shifted(op, dtype, a, y);
  case TSR__OP_POW: {
    uint64_t power = 1;
    for (int64_t i = 0; i < b; i++) power *= (uint64_t)a;
    return whole(dtype, (wide)(int64_t)power);
  }
  default: FAIL("%s of integers is not known here", tsr__ops[op].name);
  }
}

static double float_rest(double a, double b)
{
  double r = fmod(a, b);
  if (r == 0) return copysign(0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

/* Python's float // as CPython and NumPy define it. */
static double naive_floordiv(double a, double b, bool narrow)
{
  double rest = narrow ? (double)fmodf((float)a, (float)b) : fmod(a, b);
  if (b == 0) return a / b;
  double q = narrow ? (double)((float)((float)a - (float)rest) / (float)b) : (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) q = narrow ? (double)((float)q - 1) : q - 1;
  if (q == 0) return copysign(0, narrow ? (double)((float)a / (float)b) : a / b);
  double down = floor(q);
  return q - down > 0.5 ? down + 1 : down;
}

static cell next_after(int dtype, double a, double b)
{
  cell from = { .f = a };
  uint16_t bits;
  if (dtype == TSR_F64 || isnan(a) || isnan(b) || a == b) return real(dtype, nextafter(a, b));
  if (dtype == TSR_F32) return real(dtype, (double)nextafterf((float)a, (float)b));
  naive_put(&bits, dtype, 0, from);
  if (a == 0) bits = signbit(b) ? 0x8001 : 1;
  else bits = (uint16_t)((b > a) == (a > 0) ? bits + 1 : bits - 1);
  return naive_get(&bits, dtype, 0);
}

static cell float_op(tsr__op op, int dtype, double a, double b)
{
  bool narrow = dtype != TSR_F64;
  switch (op) {
  case TSR__OP_ADD: return real(dtype, narrow ? (double)((float)a + (float)b) : a + b);
  case TSR__OP_SUB: return real(dtype, narrow ? (double)((float)a - (float)b) : a - b);
  case TSR__OP_MUL: return real(dtype, narrow ? (double)((float)a * (float)b) : a * b);
  case TSR__OP_DIV: return real(dtype, narrow ? (double)((float)a / (float)b) : a / b);
  case TSR__OP_FLOORDIV: return real(dtype, naive_floordiv(a, b, narrow));
  case TSR__OP_MOD:
    if (!narrow) return real(dtype, float_rest(a, b));
    float r = fmodf((float)a, (float)b);
    if (r == 0) return real(dtype, copysign(0, b));
    return real(dtype, (r < 0) != (b < 0) ? (double)(r + (float)b) : (double)r);
  case TSR__OP_FMOD: return real(dtype, fmod(a, b));
  case TSR__OP_POW:
    if (b == 2) return float_op(TSR__OP_MUL, dtype, a, a);
    if (b == 0.5 && fabs(a) > 0 && !isinf(a)) return float_op(TSR__OP_SQRT, dtype, a, 0);
    if (fabs(b) >= 0x1p62) return real(dtype, pow(a, b)); /* glibc's powl takes -2^63 for 2^63 */
    return real(dtype, (double)powl((long double)a, (long double)b));
  case TSR__OP_MINIMUM: return real(dtype, less_of(a, b));
  case TSR__OP_MAXIMUM: return real(dtype, -less_of(-a, -b));
  case TSR__OP_EQ: return truth(a == b);
  case TSR__OP_NE: return truth(a != b);
  case TSR__OP_LT: return truth(a < b);
  case TSR__OP_LE: return truth(a <= b);
  case TSR__OP_GT: return truth(a > b);
  case TSR__OP_GE: return truth(a >= b);
  case TSR__OP_STOP: return real(dtype, a);
  case TSR__OP_NEG: return real(dtype, -a);
  case TSR__OP_ABS: return real(dtype, fabs(a));
  case TSR__OP_SQRT: return real(dtype, narrow ? (double)sqrtf((float)a) : sqrt(a));
  case TSR__OP_RINT: return real(dtype, rint(a));
  case TSR__OP_FLOOR: return real(dtype, floor(a));
  case TSR__OP_CEIL: return real(dtype, ceil(a));
  case TSR__OP_TRUNC: return real(dtype, trunc(a));
  case TSR__OP_ISNAN: return truth(isnan(a));
  case TSR__OP_COPYSIGN: return real(dtype, copysign(a, b));
  case TSR__OP_NEXTAFTER: return next_after(dtype, a, b);
  default: FAIL("%s of floats is not known here", tsr__ops[op].name);
  }
}

cell naive_cast(int from, int to, cell x)
{
  if (!naive_is_real(from)) {
    if (to == TSR_BOOL) return truth(x.i != 0);
    if (!naive_is_real(to)) return whole(to, x.i);
    wide value = int_value(from, x.i);
    if (to == TSR_F32) return real(TSR_F32, (double)(float)value);
    if (to == TSR_F64) return real(TSR_F64, (double)value);
    return real(to, (long double)value);
  }
  if (to == TSR_BOOL) return truth(x.f != 0);
  if (naive_is_real(to)) return real(to, x.f);
  if (isnan(x.f)) return whole(to, 0);
  if (x.f >= (double)int_most(to)) return whole(to, int_most(to));
  if (x.f <= (double)int_least(to)) return whole(to, int_least(to));
  return whole(to, (wide)x.f);
}

/* ---- arrays of cells ---- */

static double half_value(int dtype, unsigned bits)
{
  int mantissa = dtype == TSR_F16 ? 10 : 7, exponent = (int)(bits & 0x7fff) >> mantissa;
  int rest = (int)(bits & ((1u << mantissa) - 1)), bias = dtype == TSR_F16 ? 15 : 127;
  double size = exponent ? ldexp((1 << mantissa) + rest, exponent - bias - mantissa)
                         : ldexp(rest, 1 - bias - mantissa);
  if (exponent == 2 * bias + 1) size = rest ? NAN : (double)INFINITY;
  return bits >> 15 ? -size : size;
}

/* The bits by trying: values ascend with them. */
static unsigned half_bits(int dtype, double value)
{
  unsigned sign = signbit(value) ? 0x8000 : 0, low = 0, high = dtype == TSR_F16 ? 0x7c00 : 0x7f80;
  if (isnan(value)) return high + 1;
  while (low < high) {
    unsigned middle = (low + high) / 2;
    if (half_value(dtype, middle) < fabs(value)) low = middle + 1;
    else high = middle;
  }
  return sign | low;
}

/* One element, as it lies in memory that need not be aligned. */
typedef union stored {
  int8_t i8;
  uint8_t u8;
  int16_t i16;
  uint16_t u16;
  int32_t i32;
  uint32_t u32;
  int64_t i64;
  float f32;
  double f64;
} stored;

void naive_put(void *array, int dtype, int64_t at, cell c)
{
  size_t size = tsr_dtype_size((tsr_dtype)dtype);
  stored e = { .f64 = c.f };
  switch (dtype) {
  case TSR_BOOL:
  case TSR_I8:
  case TSR_U8: e.u8 = (uint8_t)c.i; break;
  case TSR_I16:
  case TSR_U16: e.u16 = (uint16_t)c.i; break;
  case TSR_I32:
  case TSR_U32: e.u32 = (uint32_t)c.i; break;
  case TSR_I64:
  case TSR_U64: e.i64 = c.i; break;
  case TSR_F16:
  case TSR_BF16: e.u16 = (uint16_t)half_bits(dtype, c.f); break;
  case TSR_F32: e.f32 = (float)c.f; break;
  default: break;
  }
  memcpy((char *)array + (size_t)at * size, &e, size);
}

cell naive_get(const void *array, int dtype, int64_t at)
{
  size_t size = tsr_dtype_size((tsr_dtype)dtype);
  cell c = { .i = 0 };
  stored e;
  memcpy(&e, (const char *)array + (size_t)at * size, size);
  switch (dtype) {
  case TSR_BOOL:
  case TSR_U8: c.i = e.u8; break;
  case TSR_I8: c.i = e.i8; break;
  case TSR_I16: c.i = e.i16; break;
  case TSR_U16: c.i = e.u16; break;
  case TSR_I32: c.i = e.i32; break;
  case TSR_U32: c.i = e.u32; break;
  case TSR_I64:
  case TSR_U64: c.i = e.i64; break;
  case TSR_F16:
  case TSR_BF16: c.f = half_value(dtype, e.u16); break;
  case TSR_F32: c.f = (double)e.f32; break;
  default: c.f = e.f64;
  }
  return c;
}

cell naive_random(test_rng *rng, int dtype)
{
  /* clang-format off */
  static const double odd[] = {
    0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, INFINITY, -INFINITY, NAN, 0x1p31, -0x1p31, 0x1p63,
    0x1p64, 255.5, -128.5, 65504, 65519.99, 65520, 0x1p-24, 0x1.002p0, 0x1.01p0, -0x1p63,
    2147483647.5, -2147483648.5, 1e300, -1e300, 5e-324, 0x1p-126, 1e30, 3, 7, -7,
    9007199254740993.0
  };
  static const int64_t odd_int[] = {
    0, 1, -1, 2, -2, 3, 7, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, (1LL << 53) + 1, INT8_MIN,
    UINT8_MAX, INT16_MIN, UINT16_MAX, (1LL << 33) + (1LL << 25) + 1, -(1LL << 60) + 77, 46341
  };
  /* clang-format on */
  cell c;
  int64_t kind = test_range(rng, 0, 3);
  if (dtype == TSR_BOOL) return truth(test_range(rng, 0, 1));
  if (naive_is_real(dtype)) {
    double v = kind == 0   ? odd[test_range(rng, 0, (int64_t)(sizeof odd / sizeof *odd) - 1)]
               : kind == 1 ? test_any_f64(rng)
                           : (test_uniform(rng) - 0.5) * 1000;
    return real(dtype, v);
  }
  c.i = kind == 0   ? odd_int[test_range(rng, 0, (int64_t)(sizeof odd_int / sizeof *odd_int) - 1)]
        : kind == 1 ? (int64_t)test_random(rng)
                    : test_range(rng, -100, 100);
  return whole(dtype, c.i);
}

void naive_check(const char *what, int64_t at, int dtype, cell found, cell expected)
{
  bool same = naive_is_real(dtype) ? (isnan(found.f) && isnan(expected.f)) ||
                                         !memcmp(&found.f, &expected.f, sizeof found.f)
                                   : found.i == expected.i;
  if (same) return;
  if (naive_is_real(dtype))
    FAIL("%s at %lld: %a, expected %a", what, (long long)at, found.f, expected.f);
  FAIL("%s at %lld: %lld, expected %lld", what, (long long)at, (long long)found.i,
       (long long)expected.i);
}

uint64_t naive_philox(uint64_t key, uint64_t place, uint64_t stream)
{
  uint32_t c[4] = { (uint32_t)place, (uint32_t)(place >> 32), (uint32_t)stream,
                    (uint32_t)(stream >> 32) };
  uint32_t k[2] = { (uint32_t)key, (uint32_t)(key >> 32) };
  for (int round = 0; round < 10; round++) {
    uint64_t p = (uint64_t)0xD2511F53 * c[0], q = (uint64_t)0xCD9E8D57 * c[2];
    uint32_t next[4] = { (uint32_t)(q >> 32) ^ c[1] ^ k[0], (uint32_t)q,
                         (uint32_t)(p >> 32) ^ c[3] ^ k[1], (uint32_t)p };
    memcpy(c, next, sizeof c);
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return (uint64_t)c[1] << 32 | c[0];
}

cell naive_draw(int dtype, uint64_t bits)
{
  int kept = dtype == TSR_F64 ? 53 : dtype == TSR_F32 ? 24 : dtype == TSR_F16 ? 11 : 8;
  if (!naive_is_real(dtype)) return whole(dtype, (wide)bits);
  uint64_t top = dtype == TSR_F64 ? bits >> (64 - kept) : (uint32_t)bits >> (32 - kept);
  return real(dtype, ldexpl((long double)top, -kept));
}

/* A sum whose last bit says whether there is more: rounded again to fewer bits it is right. */
static double odd_sum(double a, double b)
{
  double sum = a + b, other = sum - a, rest = (a - (sum - other)) + (b - other);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  if (rest == 0 || !isfinite(sum) || bits & 1) return sum;
  return nextafter(sum, rest > 0 ? (double)INFINITY : -(double)INFINITY);
}

static cell fused(int dtype, double a, double b, double c)
{
  if (dtype == TSR_F64) return real(dtype, fma(a, b, c));
  if (dtype == TSR_F32) return real(dtype, (double)fmaf((float)a, (float)b, (float)c));
  return real(dtype, odd_sum(a * b, c)); /* the product of halves is exact */
}

cell naive_element(tsr__op op, int dtype, int count, const cell *in)
{
  if (op == TSR__OP_WHERE) return in[0].i ? in[1] : in[2];
  if (op == TSR__OP_FMA) return fused(dtype, in[0].f, in[1].f, in[2].f);
  if (naive_is_real(dtype)) return float_op(op, dtype, in[0].f, count > 1 ? in[1].f : 0);
  return int_op(op, dtype, in[0].i, count > 1 ? in[1].i : 0);
}

/* ---- shapes ---- */

static int64_t count_of(const tsr__gnode *g)
{
  int64_t count = 1;
  for (int d = 0; d < g->rank; d++) count *= g->dims[d];
  return count;
}

/* Division by 32 bits takes a third of the time; arrays that are evaluated element by element are
 * smaller than that. */
static void unravel(const tsr__gnode *g, int64_t at, int64_t index[TSR_MAX_RANK])
{
  uint32_t left = (uint32_t)at;
  for (int d = g->rank - 1; d >= 0; d--) {
    uint32_t size = (uint32_t)g->dims[d];
    index[d] = left % size;
    left /= size;
  }
}

/* The element of `o` that meets index `index` of `g` when broadcast. */
static int64_t met(const tsr__gnode *g, const tsr__gnode *o, const int64_t *index)
{
  int64_t at = 0;
  for (int d = 0; d < o->rank; d++)
    at = at * o->dims[d] + (o->dims[d] == 1 ? 0 : index[d + g->rank - o->rank]);
  return at;
}

/* ---- reductions ---- */

typedef struct pile {
  tsr__acc sum;
  tsr__acc2 squares;
  wide whole, shifted;
  tsr__isq whole_squares;
  int64_t n, trues, place;
  cell best;
  double product;
  uint64_t int_product;
} pile;

/* Whether x takes the place of what stood before it, as in NumPy: the first of equal ones stays,
 * and the first NaN. */
static bool takes_place(int op, int dtype, cell best, cell x)
{
  if (!naive_is_real(dtype)) {
    wide a = int_value(dtype, best.i), b = int_value(dtype, x.i);
    return op == TSR__OP_ARGMAX ? b > a : b < a;
  }
  if (isnan(best.f) || isnan(x.f)) return !isnan(best.f);
  return op == TSR__OP_ARGMAX ? x.f > best.f : x.f < best.f;
}

static void pile_place(pile *p, int op, int dtype, cell x, int64_t place)
{
  if (p->n++ && !takes_place(op, dtype, p->best, x)) return;
  p->best = x;
  p->place = place;
}

static void pile_add(pile *p, int op, int dtype, cell x)
{
  bool real_type = naive_is_real(dtype);
  cell two[2] = { p->best, x };
  if (real_type) {
    tsr__acc_add(&p->sum, x.f);
    tsr__acc2_add_square(&p->squares, x.f);
    p->product *= x.f;
  } else {
    int64_t shifted = dtype == TSR_U64 ? (int64_t)((uint64_t)x.i ^ 1ull << 63) : x.i;
    p->whole += int_value(dtype, x.i);
    p->shifted += shifted; /* what spreads is the same for it */
    tsr__isq_add(&p->whole_squares, shifted);
    p->int_product *= (uint64_t)x.i;
    p->trues += x.i != 0;
  }
  if ((op == TSR__OP_MIN || op == TSR__OP_MAX) && p->n)
    x = naive_element(op == TSR__OP_MIN ? TSR__OP_MINIMUM : TSR__OP_MAXIMUM, dtype, 2, two);
  p->best = x;
  p->n++;
}

static cell nothing(int op, int dtype)
{
  bool low = op == TSR__OP_MAX;
  cell c;
  if (naive_is_real(dtype)) c.f = low ? -(double)INFINITY : (double)INFINITY;
  else c.i = (int64_t)(uint64_t)(low ? int_least(dtype) : int_most(dtype));
  return c;
}

static cell spread_of(const pile *p, const tsr__gnode *g, int64_t ddof, bool real_type)
{
  cell c;
  tsr_dtype to = (tsr_dtype)g->dtype;
  bool var = g->op == TSR__OP_VAR;
  if (real_type) c.f = (var ? tsr__acc_var : tsr__acc_std)(&p->sum, &p->squares, p->n, ddof, to);
  else c.f = (var ? tsr__var_i128 : tsr__std_i128)(p->shifted, &p->whole_squares, p->n, ddof, to);
  return c;
}

static cell pile_result(const pile *p, const tsr__gnode *g, int64_t ddof, int dtype)
{
  bool real_type = naive_is_real(dtype);
  tsr_dtype to = (tsr_dtype)g->dtype;
  cell c;
  switch (g->op) {
  case TSR__OP_SUM_TO:
  case TSR__OP_SUM:
    if (!real_type) return whole(g->dtype, p->whole);
    c.f = tsr__acc_sum(&p->sum, to);
    return c;
  case TSR__OP_MEAN:
    c.f = real_type ? tsr__acc_mean(&p->sum, p->n, to) : tsr__mean_i128(p->whole, p->n, to);
    return c;
  case TSR__OP_VAR:
  case TSR__OP_STD: return spread_of(p, g, ddof, real_type);
  case TSR__OP_PROD:
    if (real_type) return real(g->dtype, p->product);
    return whole(g->dtype, (wide)(int64_t)p->int_product);
  case TSR__OP_MIN:
  case TSR__OP_MAX: return p->n ? p->best : nothing(g->op, dtype);
  case TSR__OP_ARGMIN:
  case TSR__OP_ARGMAX: c.i = p->n ? p->place : -1; return c;
  case TSR__OP_ANY: return truth(p->trues > 0);
  case TSR__OP_ALL: return truth(p->trues == p->n);
  default: c.i = p->trues; return c;
  }
}

static void reduce(const tsr__program *program, int n, cell **value)
{
  const tsr__gnode *g = &program->nodes[n];
  const tsr__reduce_attr *attr = tsr__reduce_of(program, g);
  int in = tsr__in(program, g, 0), mask = tsr__in(program, g, 1), codes = tsr__in(program, g, 2);
  const tsr__gnode *x = &program->nodes[in];
  int64_t outputs = count_of(g), index[TSR_MAX_RANK];
  pile *piles = calloc((size_t)outputs + 1, sizeof *piles);
  CHECK(piles);
  for (int64_t i = 0; i < outputs; i++) {
    piles[i].product = 1;
    piles[i].int_product = 1;
  }
  for (int64_t i = 0; i < count_of(x); i++) {
    unravel(x, i, index);
    if (mask >= 0 && !value[mask][met(x, &program->nodes[mask], index)].i) continue;
    int64_t at = 0, place = 0;
    for (int d = 0; d < x->rank; d++) {
      int64_t *which = attr->dims >> d & 1 ? &place : &at;
      *which = *which * x->dims[d] + index[d];
    }
    if (codes >= 0) at = value[codes][i].i;
    if (g->op == TSR__OP_ARGMIN || g->op == TSR__OP_ARGMAX)
      pile_place(&piles[at], g->op, x->dtype, value[in][i], codes >= 0 ? i : place);
    else pile_add(&piles[at], g->op, x->dtype, value[in][i]);
  }
  for (int64_t i = 0; i < outputs; i++)
    value[n][i] = pile_result(&piles[i], g, attr->ddof, x->dtype);
  free(piles);
}

/* ---- programs ---- */

static void element(const tsr__program *program, int n, cell **value)
{
  const tsr__gnode *g = &program->nodes[n];
  int64_t index[TSR_MAX_RANK] = { 0 };
  enum { MOST = 8 };
  int dtype = program->nodes[tsr__in(program, g, g->op == TSR__OP_WHERE)].dtype;
  int first = tsr__in(program, g, 0);
  CHECK(g->in_count <= MOST);
  for (int64_t i = 0; i < count_of(g); i++) {
    cell in[MOST];
    unravel(g, i, index);
    TSR_FOR_OPERANDS (program, g, k, o) {
      if (g->op == TSR__OP_SEARCH && !k) continue;
      in[k] = value[o][met(g, &program->nodes[o], index)];
    }
    if (g->op == TSR__OP_FULL || g->op == TSR__OP_CAST) {
      value[n][i] = naive_cast(dtype, g->dtype, in[0]);
    } else if (g->op == TSR__OP_SEARCH) {
      value[n][i].i = 0;
      for (int64_t k = 0; k < count_of(&program->nodes[first]); k++)
        value[n][i].i += naive_is_real(dtype)
                             ? value[first][k].f <= in[1].f
                             : int_value(dtype, value[first][k].i) <= int_value(dtype, in[1].i);
    } else if (g->op == TSR__OP_RANDOM) {
      uint64_t bits = naive_philox((uint64_t)in[0].i, (uint64_t)in[1].i, (uint64_t)in[2].i);
      value[n][i] = naive_draw(g->dtype, bits);
    } else {
      value[n][i] = naive_element((tsr__op)g->op, dtype, g->in_count, in);
    }
  }
}

/* Where element `index` of a view lies: in which operand, and dim by dim of that. */
static int viewed(const tsr__program *program, const tsr__gnode *g, const int64_t *index,
                  int64_t *from)
{
  const void *attr = program->attrs + g->attr;
  int operand = 0, more = g->rank - program->nodes[tsr__in(program, g, 0)].rank;
  memcpy(from, index, TSR_MAX_RANK * sizeof *from);
  for (int d = 0; d < g->rank; d++) {
    const tsr__gnode *in = &program->nodes[tsr__in(program, g, 0)];
    const tsr__slice_attr *slice = attr;
    const tsr__pad_attr *pad = attr;
    switch (g->op) {
    case TSR__OP_TRANSPOSE: from[((const tsr__order_attr *)attr)->dims[d]] = index[d]; break;
    case TSR__OP_SLICE:
      if (slice->step[d]) from[d] = slice->start[d] + slice->step[d] * index[d];
      break;
    case TSR__OP_BROADCAST:
      if (d >= more) from[d - more] = in->dims[d - more] == 1 ? 0 : index[d];
      break;
    case TSR__OP_PAD:
      from[d] = index[d] - pad->low[d];
      if (from[d] < 0 || from[d] >= in->dims[d]) operand = 1;
      break;
    case TSR__OP_ROLL:
      if (d == tsr__dim_of(program, g)) {
        int64_t size = g->dims[d], shift = ((const tsr__roll_attr *)attr)->count;
        from[d] = (index[d] + size - shift) % size;
      }
      break;
    case TSR__OP_DIAGONAL: {
      const tsr__diagonal_attr *by = attr;
      if (d > by->dim) from[d + 1] = index[d];
      if (d != by->dim) break;
      from[d] = index[d] - (by->offset < 0 ? by->offset : 0);
      from[d + 1] = from[d] + by->offset;
      break;
    }
    case TSR__OP_PICK:
      if (d == tsr__dim_of(program, g)) {
        from[d] = ((const tsr__pick_attr *)attr)->picks[index[d]];
        if (from[d] < 0) operand = 1;
      }
      break;
    default:
      for (; d == tsr__dim_of(program, g) && from[d] >= in->dims[d];
           in = &program->nodes[tsr__in(program, g, ++operand)])
        from[d] -= in->dims[d];
    }
  }
  return operand;
}

static void view(const tsr__program *program, int n, cell **value)
{
  const tsr__gnode *g = &program->nodes[n];
  int64_t index[TSR_MAX_RANK] = { 0 }, from[TSR_MAX_RANK];
  for (int64_t i = 0; i < count_of(g) && g->op == TSR__OP_RESHAPE; i++)
    value[n][i] = value[tsr__in(program, g, 0)][i];
  for (int64_t i = 0; i < count_of(g) && g->op != TSR__OP_RESHAPE; i++) {
    unravel(g, i, index);
    int in = tsr__in(program, g, viewed(program, g, index, from));
    int64_t at = 0;
    for (int d = 0; d < program->nodes[in].rank; d++)
      at = at * program->nodes[in].dims[d] + from[d];
    value[n][i] = value[in][at];
  }
}

static void uniform(const tsr__program *program, const tsr__gnode *g, cell *out)
{
  const tsr__num *by = &program->params[g->param];
  for (int64_t i = 0; i < count_of(g); i++)
    out[i] = naive_draw(g->dtype, naive_philox((uint64_t)by[0].i, (uint64_t)i, (uint64_t)by[1].i));
}

static void iota(const tsr__gnode *g, int dim, cell *out)
{
  int64_t index[TSR_MAX_RANK] = { 0 };
  for (int64_t i = 0; i < count_of(g); i++) {
    unravel(g, i, index);
    cell at = { .i = index[dim] };
    out[i] = naive_cast(TSR_I64, g->dtype, at);
  }
}

/* ---- routines ---- */

/* Lines of operand 0 along the node's dim: element k of line (b, a) lies at (b * along + k) * after
 * + a. */
typedef struct lines {
  int64_t before, along, after;
  const cell *in;
  const tsr__gnode *x;
} lines;

static lines lines_of(const tsr__program *program, const tsr__gnode *g, cell **value)
{
  int in = tsr__in(program, g, 0), dim = tsr__dim_of(program, g);
  lines l = { 1, program->nodes[in].dims[dim], 1, value[in], &program->nodes[in] };
  for (int d = 0; d < dim; d++) l.before *= l.x->dims[d];
  for (int d = dim + 1; d < l.x->rank; d++) l.after *= l.x->dims[d];
  return l;
}

/* Lines that have the same batch dims, and so the same indices. */
static int64_t lines_alike(const tsr__program *program, const tsr__gnode *g, const lines *l)
{
  int64_t batch = 1;
  for (int d = 0; d < tsr__batch_of(program, g); d++) batch *= l->x->dims[d];
  return batch ? l->before / batch : 1;
}

/* Elements of lines at indices: those of each line, or the same of all that have the same batch
 * dims. Some dims of a table may be one. */
static void take(const tsr__program *program, int n, cell **value)
{
  const tsr__gnode *g = &program->nodes[n], *at = &program->nodes[tsr__in(program, g, 1)];
  bool own = g->op == TSR__OP_TAKE_ALONG, fetches = g->op == TSR__OP_FETCH;
  const cell *index = value[tsr__in(program, g, 1)];
  lines l = lines_of(program, g, value);
  int dim = tsr__dim_of(program, g);
  for (int d = dim + 1; d <= dim + tsr__more_of(program, g); d++) {
    l.along *= l.x->dims[d];
    l.after /= l.x->dims[d] ? l.x->dims[d] : 1;
  }
  int64_t alike = lines_alike(program, g, &l);
  int64_t count = own ? g->dims[dim] : count_of(at) * alike / (l.before ? l.before : 1);
  if (fetches) count = at->dims[dim] * at->dims[dim + 1];
  for (int64_t i = 0; i < count_of(g); i++) {
    int64_t line = i / l.after / count, k = line / alike * count + i / l.after % count;
    int64_t entry = index[own ? i : fetches ? i / l.after : k].i;
    if (entry < 0) entry += l.along;
    value[n][i] = l.in[(line * l.along + entry) * l.after + i % l.after];
  }
}

/* Indices of a dim, the negative ones from its end. */
static void within(const tsr__program *program, int n, cell **value)
{
  const tsr__gnode *g = &program->nodes[n];
  const tsr__within_attr *attr = tsr__attr_of(program, g);
  for (int64_t i = 0; i < count_of(g); i++) {
    cell at = value[tsr__in(program, g, 0)][i];
    value[n][i].i = at.i < 0 ? at.i + attr->size : at.i;
  }
}

/* A box of an array from starts on that are moved to where it lies inside: read, or written. */
static void box_at_starts(const tsr__program *program, int n, cell **value)
{
  const tsr__gnode *g = &program->nodes[n], *x = &program->nodes[tsr__in(program, g, 0)];
  bool writes = g->op == TSR__OP_DYNAMIC_UPDATE;
  const tsr__gnode *box = writes ? &program->nodes[tsr__in(program, g, 2)] : g;
  cell *in = value[tsr__in(program, g, 0)];
  for (int64_t i = 0; writes && i < count_of(g); i++) value[n][i] = in[i];
  for (int64_t i = 0; i < count_of(box); i++) {
    int64_t index[TSR_MAX_RANK] = { 0 }, at = 0;
    unravel(box, i, index);
    for (int d = 0; d < x->rank; d++) {
      int64_t start = value[tsr__in(program, g, 1)][d].i, most = x->dims[d] - box->dims[d];
      start += start < 0 ? x->dims[d] : 0;
      start = start < 0 ? 0 : start > most ? most : start;
      at = at * x->dims[d] + start + index[d];
    }
    if (writes) value[n][at] = value[tsr__in(program, g, 2)][i];
    else value[n][i] = in[at];
  }
}

/* Every prefix is a reduction of its own; floats that are multiplied go by f64. */
static void cumulate(const tsr__program *program, int n, tsr__op as, cell **value)
{
  const tsr__gnode *g = &program->nodes[n];
  lines l = lines_of(program, g, value);
  const tsr__scan_attr *attr = tsr__attr_of(program, g);
  tsr__gnode whole_line = { .op = (uint16_t)as, .dtype = g->dtype };
  for (int64_t line = 0; line < l.before * l.after; line++) {
    pile p = { .product = 1, .int_product = 1 };
    for (int64_t k = 0; k < l.along; k++) {
      int64_t step = attr->reverse ? l.along - 1 - k : k;
      int64_t at = (line / l.after * l.along + step) * l.after + line % l.after;
      pile_add(&p, (int)as, l.x->dtype, l.in[at]);
      value[n][at] = pile_result(&p, &whole_line, 0, l.x->dtype);
    }
  }
}

/* Whether x belongs before y: NaN is beyond all, -0 and 0 are equal. */
static bool before(int dtype, cell x, cell y)
{
  if (!naive_is_real(dtype)) return int_value(dtype, x.i) < int_value(dtype, y.i);
  if (isnan(x.f) || isnan(y.f)) return !isnan(x.f);
  return x.f < y.f;
}

/* 1: x belongs before y in an order, -1: behind it, 0: they are equal. */
static int goes_before(int dtype, int64_t order, cell x, cell y)
{
  int up = before(dtype, x, y) - before(dtype, y, x);
  bool nan = naive_is_real(dtype) && (isnan(x.f) || isnan(y.f));
  bool turned = order == TSR__ORDER_LARGEST || (order == TSR__ORDER_DESCENDING && !nan);
  return turned ? -up : up;
}

/* Each element goes behind those that belong before it, and equal ones before it in the line; of
 * the largest few behind those that are larger. */
static void sort(const tsr__program *program, int n, cell **value)
{
  const tsr__gnode *g = &program->nodes[n];
  const tsr__gnode *whole = &program->nodes[tsr__in(program, g, 0)];
  const tsr__sort_attr *attr = tsr__attr_of(program, whole);
  bool places = tsr__index_of(program, g) == 1;
  int64_t kept = g->dims[tsr__dim_of(program, whole)];
  lines l = lines_of(program, whole, value);
  for (int64_t line = 0; line < l.before * l.after; line++) {
    int64_t first = line / l.after * l.along * l.after + line % l.after;
    for (int64_t k = 0; k < l.along; k++) {
      int64_t place = 0;
      cell x = l.in[first + k * l.after];
      for (int64_t j = 0; j < l.along; j++) {
        cell y = l.in[first + j * l.after];
        int less = goes_before(l.x->dtype, attr->order, y, x);
        place += less > 0 || (!less && j < k);
      }
      int64_t to = line / l.after * kept * l.after + line % l.after + place * l.after;
      if (place < kept) value[n][to] = places ? (cell){ .i = k } : x;
    }
  }
}

/* The place that each element of a line has by its keys, the last of which decides first. */
static void lexsort(const tsr__program *program, int n, cell **value)
{
  const tsr__gnode *g = &program->nodes[n];
  lines l = lines_of(program, g, value);
  for (int64_t line = 0; line < l.before * l.after; line++) {
    int64_t first = line / l.after * l.along * l.after + line % l.after;
    for (int64_t k = 0; k < l.along; k++) {
      int64_t place = 0;
      for (int64_t j = 0; j < l.along; j++) {
        int less = 0;
        for (int key = g->in_count - 1; key >= 0 && !less; key--) {
          int in = tsr__in(program, g, key);
          less = goes_before(program->nodes[in].dtype, TSR__ORDER_ASCENDING,
                             value[in][first + j * l.after], value[in][first + k * l.after]);
        }
        place += less > 0 || (!less && j < k);
      }
      value[n][first + place * l.after].i = k;
    }
  }
}

/* What a scatter makes of what is there and of one more. */
static cell scattered(int64_t how, int dtype, cell now, cell x)
{
  tsr__op op = how == TSR_SCATTER_MIN ? TSR__OP_MINIMUM : TSR__OP_MAXIMUM;
  if (how == TSR_SCATTER_SET) return x;
  if (how == TSR_SCATTER_ADD) return whole(dtype, (wide)now.i + x.i);
  if (how != TSR_SCATTER_MUL) return naive_element(op, dtype, 2, (const cell[]){ now, x });
  if (naive_is_real(dtype)) return (cell){ .f = now.f * x.f };
  return whole(dtype, (wide)((uwide)now.i * (uwide)x.i));
}

/* Each place takes what is there and all updates that go there, in their order. */
static void scatter(const tsr__program *program, int n, cell **value)
{
  const tsr__gnode *g = &program->nodes[n], *at = &program->nodes[tsr__in(program, g, 1)];
  const tsr__scatter_attr *attr = (const void *)(program->attrs + g->attr);
  bool sums = attr->how == TSR_SCATTER_ADD && naive_is_real(g->dtype);
  const cell *index = value[tsr__in(program, g, 1)], *update = value[tsr__in(program, g, 2)];
  lines l = lines_of(program, g, value);
  int64_t alike = lines_alike(program, g, &l);
  int64_t count = count_of(at) * alike / (l.before ? l.before : 1);
  tsr__gnode sum = { .op = TSR__OP_SUM, .dtype = g->dtype };
  for (int64_t d = attr->dim + 1; d <= attr->dim + attr->more; d++) {
    l.along *= g->dims[d];
    l.after /= g->dims[d] ? g->dims[d] : 1;
  }
  for (int64_t i = 0; i < count_of(g); i++) {
    int64_t b = i / l.after / l.along, k = i / l.after % l.along, a = i % l.after;
    pile p = { .n = 0 };
    cell now = l.in[i];
    pile_add(&p, TSR__OP_SUM, g->dtype, now);
    for (int64_t j = 0; j < count; j++) {
      int64_t there = index[b / alike * count + j].i, place = there < 0 ? there + l.along : there;
      cell x = update[(b * count + j) * l.after + a];
      if (place != k) continue;
      if (sums) pile_add(&p, TSR__OP_SUM, g->dtype, x);
      else now = scattered(attr->how, g->dtype, now, x);
    }
    value[n][i] = sums                      ? pile_result(&p, &sum, 0, g->dtype)
                  : naive_is_real(g->dtype) ? real(g->dtype, now.f)
                                            : now;
  }
}

/* The element of an operand at values of the indices of a product; `left` has windows. */
static cell at_indices(const tsr__gnode *x, const cell *value, const tsr__dot_attr *attr, bool left,
                       const int64_t *at)
{
  int64_t place = 0;
  for (int d = 0; d < x->rank; d++) {
    int index = left ? attr->left[d] : attr->right[d];
    int64_t along = index ? at[index] : 0;
    if (left && attr->window[d])
      along = along * attr->stride[d] + at[attr->window[d]] * attr->dilation[d];
    place = place * x->dims[d] + along;
  }
  return value[place];
}

/* The next values of what is contracted, the last index the fastest; false behind the last. */
static bool next_indices(const int64_t *size, const bool *kept, int64_t *at)
{
  for (int i = 2 * TSR_MAX_RANK; i > 0; i--) {
    if (kept[i] || size[i] < 0) continue;
    if (++at[i] < size[i]) return true;
    at[i] = 0;
  }
  return false;
}

/* One element: products one after the other in order of what is contracted, from `at` on. */
typedef struct dotted {
  const tsr__gnode *a, *b;
  const cell *left, *right;
  const tsr__dot_attr *attr;
  const int64_t *size;
  bool twice, real;
} dotted;

static double chain(const dotted *w, const bool *kept, int64_t *at, double sum, uwide *whole_sum)
{
  do {
    cell x = at_indices(w->a, w->left, w->attr, true, at);
    cell y = at_indices(w->b, w->right, w->attr, false, at);
    if (!w->real) *whole_sum += (uwide)x.i * (uwide)y.i;
    else sum = w->twice ? fma(x.f, y.f, sum) : (double)fmaf((float)x.f, (float)y.f, (float)sum);
  } while (next_indices(w->size, kept, at));
  return sum;
}

/* Leaves first .. first + count - 1 of 32 indices each, of a power of two; those past the end add
 * nothing. */
static double tree(const dotted *w, bool *kept, int64_t *at, int64_t first, int64_t count)
{
  int64_t length = w->size[w->attr->leaf];
  if (first * 32 >= length) return -0.0;
  if (count > 1) {
    double l = tree(w, kept, at, first, count / 2);
    double r = tree(w, kept, at, first + count / 2, count / 2);
    return w->twice ? l + r : (double)((float)l + (float)r);
  }
  double sum = -0.0;
  uwide none = 0;
  kept[w->attr->leaf] = true;
  for (int64_t i = first * 32; i < length && i < first * 32 + 32; i++) {
    at[w->attr->leaf] = i;
    sum = chain(w, kept, at, sum, &none);
  }
  kept[w->attr->leaf] = false;
  return sum;
}

static double in_leaves(const dotted *w, bool *kept, int64_t *at)
{
  int64_t count = 1;
  while (count * 32 < w->size[w->attr->leaf]) count *= 2;
  return tree(w, kept, at, 0, count);
}

static void dot(const tsr__program *program, int n, cell **value)
{
  const tsr__gnode *g = &program->nodes[n];
  const tsr__dot_attr *attr = tsr__dot_of(program, g);
  const uint8_t *indices[2] = { attr->left, attr->right };
  int64_t size[2 * TSR_MAX_RANK + 1], at[2 * TSR_MAX_RANK + 1] = { 0 }, depth = 1;
  bool kept[2 * TSR_MAX_RANK + 1] = { false }, twice = g->dtype == TSR_F64;
  const tsr__gnode *a = &program->nodes[tsr__in(program, g, 0)];
  const tsr__gnode *b = &program->nodes[tsr__in(program, g, 1)];
  memset(size, -1, sizeof size);
  TSR_FOR_OPERANDS (program, g, i, o)
    for (int d = 0; d < program->nodes[o].rank; d++)
      if (indices[i][d]) size[indices[i][d]] = program->nodes[o].dims[d];
  for (int d = 0; d < g->rank; d++) {
    kept[attr->out[d]] = true;
    size[attr->out[d]] = g->dims[d];
  }
  for (int i = 1; i <= 2 * TSR_MAX_RANK; i++) depth *= kept[i] || size[i] < 0 ? 1 : size[i];
  for (int64_t i = 0, rest = 0; i < count_of(g); rest = ++i) {
    memset(at, 0, sizeof at);
    for (int d = g->rank - 1; d >= 0; rest /= g->dims[d--]) at[attr->out[d]] = rest % g->dims[d];
    double sum = depth ? -0.0 : 0;
    uwide whole_sum = 0;
    dotted w = { a,    b,     value[tsr__in(program, g, 0)], value[tsr__in(program, g, 1)], attr,
                 size, twice, naive_is_real(g->dtype) };
    if (depth && attr->leaf) sum = in_leaves(&w, kept, at);
    else if (depth) sum = chain(&w, kept, at, sum, &whole_sum);
    value[n][i] = naive_is_real(g->dtype) ? real(g->dtype, sum) : whole(g->dtype, (wide)whole_sum);
  }
}

void naive_program(const tsr__program *program, cell **value)
{
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *g = &program->nodes[n];
    int lowering = tsr__ops[g->op].lowering;
    bool known = lowering != TSR__LOW_STEP && lowering != TSR__LOW_FORMULA;
    TSR_FOR_OPERANDS (program, g, i, o) known = known && value[o];
    if (value[n] || !known) continue;
    value[n] = calloc((size_t)count_of(g) + 1, sizeof(cell));
    CHECK(value[n]);
    if (g->op == TSR__OP_CONST && naive_is_real(g->dtype))
      value[n][0] = real(g->dtype, program->params[g->param].f);
    else if (g->op == TSR__OP_CONST) value[n][0].i = program->params[g->param].i;
    else if (g->op == TSR__OP_UNIFORM) uniform(program, g, value[n]);
    else if (g->op == TSR__OP_IOTA) iota(g, tsr__dim_of(program, g), value[n]);
    else if (tsr__ops[g->op].wants == TSR__WANT_INDEX && !tsr__ops[g->op].at_start)
      take(program, n, value);
    else if (g->op == TSR__OP_WITHIN) within(program, n, value);
    else if (g->op == TSR__OP_DYNAMIC_SLICE || g->op == TSR__OP_DYNAMIC_UPDATE)
      box_at_starts(program, n, value);
    else if (g->op == TSR__OP_CUMSUM) cumulate(program, n, TSR__OP_SUM, value);
    else if (g->op == TSR__OP_CUMPROD) cumulate(program, n, TSR__OP_PROD, value);
    else if (g->op == TSR__OP_CUMMAX) cumulate(program, n, TSR__OP_MAX, value);
    else if (g->op == TSR__OP_CUMMIN) cumulate(program, n, TSR__OP_MIN, value);
    else if (g->op == TSR__OP_SCATTER) scatter(program, n, value);
    else if (g->op == TSR__OP_DOT) dot(program, n, value);
    else if (g->op == TSR__OP_LEXSORT) lexsort(program, n, value);
    else if (g->result_count) continue; /* its results are computed where they are taken out */
    else if (g->op == TSR__OP_RESULT) sort(program, n, value);
    else if (lowering == TSR__LOW_REDUCE) reduce(program, n, value);
    else if (lowering == TSR__LOW_VIEW) view(program, n, value);
    else element(program, n, value);
  }
}
