/* The law of elementwise calls: over random shapes, meshes and specs, each of them on each of the
 * types gives what C's library or plain arithmetic says, exactly or within what its row of the
 * table of operations states, and on every mesh the bits of one device. A failure names its
 * seed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"
#include "support/naive_program.h"
#include "support/row_columns.h"
#include "tessera.h"

__extension__ typedef __int128 wide;

typedef enum taken { NUMBERS, REALS, WHOLES, BITS, ALL } taken;
typedef enum given { SAME, REAL, TRUTH } given;

/* What an element should be: a real one within `within` units in the last place of `unit`. */
typedef struct answer {
  long double real, unit;
  int64_t whole;
  double within;
} answer;

typedef struct call call;
/* `dtype`: what the operands are; `out`: of the result. Operands that become f64 are so already. */
typedef answer (*oracle_fn)(const call *f, int dtype, int out, const cell *in);

struct call {
  const char *name;
  taken takes;
  given gives;
  tsr_array *(*one)(tsr_array *a, const char *site);
  tsr_array *(*two)(tsr_array *a, tsr_operand b, const char *site);
  tsr_array *(*three)(tsr_array *a, tsr_operand b, tsr_operand c, const char *site);
  oracle_fn is;
  long double (*exact)(long double x);
  long double (*exact_2)(long double x, long double y);
};

static answer real_answer(long double value, double within)
{
  return (answer){ .real = value, .unit = value, .within = within };
}

static answer whole_answer(wide value)
{
  return (answer){ .whole = (int64_t)value };
}

static answer of_cell(int dtype, cell c)
{
  return naive_is_real(dtype) ? real_answer((long double)c.f, 0) : whole_answer(c.i);
}

/* ---- oracles --------------------------------------------------------------------------------- */

static answer by_function(const call *f, int dtype, int out, const cell *in)
{
  (void)dtype;
  long double x = (long double)in[0].f, y = (long double)in[1].f;
  return real_answer(f->one ? f->exact(x) : f->exact_2(x, y), row_ulp(f->name, (tsr_dtype)out));
}

static long double exact_sigmoid(long double x)
{
  return x < -1000 ? 0 : 1 / (1 + expl(-x));
}

static long double exact_gelu(long double x)
{
  if (isinf(x) && x < 0) return 0;
  return x * erfcl(-x * 0.707106781186547524400844362104849039L) / 2;
}

/* Of the smallest number that has all digits. */
static const int least_exponents[] = {
  [TSR_F16] = -14, [TSR_BF16] = -126, [TSR_F32] = -126, [TSR_F64] = -1022
};

static answer silu(const call *f, int dtype, int out, const cell *in)
{
  (void)f, (void)dtype;
  cell s = { .f = (double)exact_sigmoid((long double)in[0].f) };
  if (out != TSR_F64) s = naive_cast(TSR_F64, out, s);
  answer a = real_answer((long double)s.f * (long double)in[0].f, out == TSR_F64 ? 4 : 3);
  /* What the sigmoid is off by is a step of the smallest numbers where it is one of them. */
  long double least = ldexpl(fabsl((long double)in[0].f), least_exponents[out]);
  if (least > fabsl(a.unit)) a.unit = least;
  return a;
}

static answer logaddexp(const call *f, int dtype, int out, const cell *in)
{
  (void)dtype;
  long double x = (long double)in[0].f, y = f->one ? 0 : (long double)in[1].f;
  long double high = x > y ? x : y, low = x > y ? y : x;
  long double sum = x == y ? high + logl(2) : high + log1pl(expl(low - high));
  if (isnan(x) || isnan(y)) sum = (long double)NAN;
  answer a = real_answer(sum, row_ulp("logaddexp", (tsr_dtype)out));
  if (fabsl(high) > fabsl(sum)) a.unit = high;
  return a;
}

static answer lgamma_of(const call *f, int dtype, int out, const cell *in)
{
  (void)dtype;
  long double x = (long double)in[0].f, value = lgammal(x);
  answer a = real_answer(value, row_ulp(f->name, (tsr_dtype)out));
  if (x >= 0 || x == floorl(x) || isnan(x)) return a;
  long double part = fabsl(x - rintl(x)) * 3.14159265358979323846264338327950288L;
  long double terms[] = { 1.1447L, lgammal(1 - x), logl(sinl(part)) };
  for (int i = 0; i < 3; i++)
    if (fabsl(terms[i]) > fabsl(a.unit)) a.unit = terms[i];
  return a;
}

static cell element(tsr__op op, int dtype, cell x, cell y)
{
  return naive_element(op, dtype, 2, (const cell[]){ x, y });
}

static cell number(int dtype, double value)
{
  return naive_cast(TSR_F64, dtype, (cell){ .f = value });
}

static answer square(const call *f, int dtype, int out, const cell *in)
{
  (void)f, (void)out;
  return of_cell(dtype, element(TSR__OP_MUL, dtype, in[0], in[0]));
}

static answer reciprocal(const call *f, int dtype, int out, const cell *in)
{
  (void)f, (void)out;
  return of_cell(dtype, element(TSR__OP_DIV, dtype, number(dtype, 1), in[0]));
}

static answer degrees(const call *f, int dtype, int out, const cell *in)
{
  (void)out;
  bool up = !strcmp(f->name, "rad2deg");
  double by = up ? 180 / M_PI : M_PI / 180;
  return of_cell(dtype, element(TSR__OP_MUL, dtype, in[0], number(dtype, by)));
}

static answer sign(const call *f, int dtype, int out, const cell *in)
{
  (void)f, (void)out;
  if (!naive_is_real(dtype))
    return whole_answer(dtype == TSR_U64 ? in[0].i != 0 : (in[0].i > 0) - (in[0].i < 0));
  double x = in[0].f;
  return real_answer(isnan(x) ? (long double)NAN : (long double)((x > 0) - (x < 0)), 0);
}

static answer relu(const call *f, int dtype, int out, const cell *in)
{
  (void)f, (void)out;
  cell zero = { .i = 0 };
  return of_cell(dtype, element(TSR__OP_MAXIMUM, dtype, in[0], zero));
}

static answer questions(const call *f, int dtype, int out, const cell *in)
{
  (void)out;
  bool real = naive_is_real(dtype), finite = !real || isfinite(in[0].f);
  bool minus = real ? signbit(in[0].f) != 0 : dtype < TSR_U8 && in[0].i < 0;
  if (!strcmp(f->name, "isfinite")) return whole_answer(finite);
  if (!strcmp(f->name, "isinf")) return whole_answer(real && isinf(in[0].f));
  return whole_answer(minus);
}

static answer nan_to_num(const call *f, int dtype, int out, const cell *in)
{
  (void)f, (void)out;
  if (!naive_is_real(dtype) || isfinite(in[0].f)) return of_cell(dtype, in[0]);
  double top = dtype == TSR_F16    ? 65504
               : dtype == TSR_BF16 ? 0x1.fep127
               : dtype == TSR_F32  ? 0x1.fffffep127
                                   : 0x1.fffffffffffffp1023;
  double x = in[0].f;
  return real_answer(isnan(x) ? 0 : (long double)copysign(top, x), 0);
}

static answer counts(const call *f, int dtype, int out, const cell *in)
{
  static const int widths[] = { [TSR_I8] = 8, [TSR_I16] = 16, [TSR_I32] = 32, [TSR_I64] = 64,
                                [TSR_U8] = 8, [TSR_U16] = 16, [TSR_U32] = 32, [TSR_U64] = 64 };
  int ones = 0, zeros = 0;
  bool seen = false;
  (void)out;
  for (int b = widths[dtype] - 1; b >= 0; b--) {
    bool set = (uint64_t)in[0].i >> b & 1;
    seen = seen || set;
    ones += set;
    zeros += !seen;
  }
  return whole_answer(f->name[0] == 'p' ? ones : zeros);
}

static answer shifts(const call *f, int dtype, int out, const cell *in)
{
  static const int widths[] = { [TSR_I8] = 8, [TSR_I16] = 16, [TSR_I32] = 32, [TSR_I64] = 64,
                                [TSR_U8] = 8, [TSR_U16] = 16, [TSR_U32] = 32, [TSR_U64] = 64 };
  (void)out;
  bool natural = dtype >= TSR_U8, inside = in[1].i >= 0 && in[1].i < widths[dtype];
  wide x = natural ? (wide)(uint64_t)in[0].i : (wide)in[0].i;
  if (f->name[0] == 'r') return whole_answer(inside ? x >> in[1].i : x < 0 ? -1 : 0);
  cell low = { .i = inside ? (int64_t)((uint64_t)in[0].i << in[1].i) : 0 };
  return whole_answer(naive_cast(TSR_I64, dtype, low).i);
}

static answer by_element(const call *f, int dtype, int out, const cell *in)
{
  static const struct {
    const char *name;
    tsr__op op;
  } rows[] = { { "fmod", TSR__OP_FMOD },
               { "and", TSR__OP_AND },
               { "or", TSR__OP_OR },
               { "xor", TSR__OP_XOR },
               { "not", TSR__OP_NOT } };
  (void)out;
  for (int i = 0; i < 5; i++)
    if (!strcmp(rows[i].name, f->name))
      return of_cell(dtype, element(rows[i].op, dtype, in[0], in[1]));
  FAIL("no row %s", f->name);
}

static answer logic(const call *f, int dtype, int out, const cell *in)
{
  (void)out;
  bool x = naive_cast(dtype, TSR_BOOL, in[0]).i, y = naive_cast(dtype, TSR_BOOL, in[1]).i;
  const char *kind = f->name + strlen("logical_");
  return whole_answer(kind[0] == 'a'   ? x && y
                      : kind[0] == 'o' ? x || y
                      : kind[0] == 'x' ? x != y
                                       : !x);
}

static answer extremes(const call *f, int dtype, int out, const cell *in)
{
  tsr__op op = !strcmp(f->name, "fmin") ? TSR__OP_MINIMUM : TSR__OP_MAXIMUM;
  (void)out;
  if (naive_is_real(dtype) && isnan(in[0].f)) return of_cell(dtype, in[1]);
  if (naive_is_real(dtype) && isnan(in[1].f)) return of_cell(dtype, in[0]);
  return of_cell(dtype, element(op, dtype, in[0], in[1]));
}

static answer heaviside(const call *f, int dtype, int out, const cell *in)
{
  (void)f, (void)dtype, (void)out;
  double x = in[0].f;
  return real_answer((long double)(x == 0 ? in[1].f : isnan(x) ? x : x > 0), 0);
}

static answer sign_of(const call *f, int dtype, int out, const cell *in)
{
  (void)f, (void)dtype, (void)out;
  return real_answer((long double)copysign(in[0].f, in[1].f), 0);
}

/* The next number of 16 bits is that of the next bits. */
static answer next(const call *f, int dtype, int out, const cell *in)
{
  (void)f, (void)dtype;
  double x = in[0].f, y = in[1].f;
  if (out == TSR_F64) return real_answer((long double)nextafter(x, y), 0);
  if (out == TSR_F32) return real_answer((long double)nextafterf((float)x, (float)y), 0);
  if (isnan(x) || isnan(y)) return real_answer((long double)NAN, 0);
  if (x == y) return real_answer((long double)y, 0);
  uint16_t bits;
  naive_put(&bits, out, 0, in[0]);
  if (x == 0) bits = signbit(y) ? 0x8001 : 1;
  else bits = (uint16_t)((y > x) == (x > 0) ? bits + 1 : bits - 1);
  return real_answer((long double)naive_get(&bits, out, 0).f, 0);
}

/* Within half a unit, since it is rounded once: f64 and f32 by C's own. */
static answer fused(const call *f, int dtype, int out, const cell *in)
{
  (void)f, (void)dtype;
  double x = in[0].f, y = in[1].f, z = in[2].f;
  if (out == TSR_F64) return real_answer((long double)fma(x, y, z), 0);
  if (out == TSR_F32) return real_answer((long double)fmaf((float)x, (float)y, (float)z), 0);
  return real_answer((long double)x * (long double)y + (long double)z, 0.501);
}

static answer clip(const call *f, int dtype, int out, const cell *in)
{
  (void)f, (void)out;
  cell low = element(TSR__OP_MAXIMUM, dtype, in[0], in[1]);
  return of_cell(dtype, element(TSR__OP_MINIMUM, dtype, low, in[2]));
}

static tsr_array *round_2(tsr_array *a, const char *site)
{
  return tsr_round_at(&(tsr_round_args){ .x = a, .decimals = 2 }, site);
}

static tsr_array *round_tens(tsr_array *a, const char *site)
{
  return tsr_round_at(&(tsr_round_args){ .x = a, .decimals = -1 }, site);
}

static tsr_array *numbers_only(tsr_array *a, const char *site)
{
  return tsr_nan_to_num_at(&(tsr_nan_to_num_args){ .x = a }, site);
}

static answer rounds(const call *f, int dtype, int out, const cell *in)
{
  bool tens = !strcmp(f->name, "round_tens");
  (void)out;
  if (naive_is_real(dtype)) {
    cell unit = number(dtype, tens ? 10 : 100);
    tsr__op up = tens ? TSR__OP_DIV : TSR__OP_MUL, down = tens ? TSR__OP_MUL : TSR__OP_DIV;
    cell x = naive_element(TSR__OP_RINT, dtype, 1, (cell[]){ element(up, dtype, in[0], unit) });
    return of_cell(dtype, element(down, dtype, x, unit));
  }
  if (!tens) return whole_answer(in[0].i);
  wide x = dtype == TSR_U64 ? (wide)(uint64_t)in[0].i : (wide)in[0].i, q = x / 10 - (x % 10 < 0);
  wide rest = x - 10 * q;
  q += rest > 5 || (rest == 5 && q % 2 != 0);
  return whole_answer(naive_cast(TSR_I64, dtype, (cell){ .i = (int64_t)(uint64_t)(q * 10) }).i);
}

#define FUNCTION(name, exact)                                               \
  {                                                                         \
#name, ALL, REAL, tsr_##name##_at, NULL, NULL, by_function, exact, NULL \
  }
#define ONE(name, takes, gives, is)                                  \
  {                                                                  \
#name, takes, gives, tsr_##name##_at, NULL, NULL, is, NULL, NULL \
  }
#define TWO(name, takes, gives, is)                                  \
  {                                                                  \
#name, takes, gives, NULL, tsr_##name##_at, NULL, is, NULL, NULL \
  }

static const call calls[] = {
  FUNCTION(cbrt, cbrtl),
  FUNCTION(asin, asinl),
  FUNCTION(acos, acosl),
  FUNCTION(atan, atanl),
  FUNCTION(sinh, sinhl),
  FUNCTION(cosh, coshl),
  FUNCTION(erf, erfl),
  FUNCTION(erfc, erfcl),
  FUNCTION(sigmoid, exact_sigmoid),
  FUNCTION(gelu, exact_gelu),
  ONE(lgamma, ALL, REAL, lgamma_of),
  ONE(silu, ALL, REAL, silu),
  ONE(softplus, ALL, REAL, logaddexp),
  ONE(square, NUMBERS, SAME, square),
  ONE(reciprocal, ALL, REAL, reciprocal),
  ONE(deg2rad, ALL, REAL, degrees),
  ONE(rad2deg, ALL, REAL, degrees),
  ONE(sign, NUMBERS, SAME, sign),
  ONE(relu, NUMBERS, SAME, relu),
  ONE(isfinite, ALL, TRUTH, questions),
  ONE(isinf, ALL, TRUTH, questions),
  ONE(signbit, ALL, TRUTH, questions),
  ONE(popcount, WHOLES, SAME, counts),
  ONE(clz, WHOLES, SAME, counts),
  ONE(not, BITS, SAME, by_element),
  ONE(logical_not, ALL, TRUTH, logic),
  { "round_2", NUMBERS, SAME, round_2, NULL, NULL, rounds, NULL, NULL },
  { "round_tens", NUMBERS, SAME, round_tens, NULL, NULL, rounds, NULL, NULL },
  { "nan_to_num", ALL, SAME, numbers_only, NULL, NULL, nan_to_num, NULL, NULL },
  { "atan2", ALL, REAL, NULL, tsr_atan2_at, NULL, by_function, NULL, atan2l },
  { "hypot", ALL, REAL, NULL, tsr_hypot_at, NULL, by_function, NULL, hypotl },
  TWO(logaddexp, ALL, REAL, logaddexp),
  TWO(copysign, ALL, REAL, sign_of),
  TWO(nextafter, ALL, REAL, next),
  TWO(heaviside, ALL, REAL, heaviside),
  TWO(fmod, NUMBERS, SAME, by_element),
  TWO(fmin, NUMBERS, SAME, extremes),
  TWO(fmax, NUMBERS, SAME, extremes),
  TWO(and, BITS, SAME, by_element),
  TWO(or, BITS, SAME, by_element),
  TWO(xor, BITS, SAME, by_element),
  TWO(left_shift, WHOLES, SAME, shifts),
  TWO(right_shift, WHOLES, SAME, shifts),
  TWO(logical_and, ALL, TRUTH, logic),
  TWO(logical_or, ALL, TRUTH, logic),
  TWO(logical_xor, ALL, TRUTH, logic),
  { "fma", ALL, REAL, NULL, NULL, tsr_fma_at, fused, NULL, NULL },
  { "clip", NUMBERS, SAME, NULL, NULL, tsr_clip_at, clip, NULL, NULL },
};
enum { CALLS = sizeof calls / sizeof *calls, MOST = 70000 };

/* ---- trials ---------------------------------------------------------------------------------- */

static bool fits(taken takes, int dtype)
{
  bool real = naive_is_real(dtype), truth = dtype == TSR_BOOL;
  return takes == ALL || (takes == NUMBERS && !truth) || (takes == REALS && real) ||
         (takes == WHOLES && !real && !truth) || (takes == BITS && !real);
}

static double unit_of(int dtype, long double value)
{
  static const int precision[] = { [TSR_F16] = 11, [TSR_BF16] = 8, [TSR_F32] = 24, [TSR_F64] = 53 };
  static const int lowest[] = {
    [TSR_F16] = -24, [TSR_BF16] = -133, [TSR_F32] = -149, [TSR_F64] = -1074
  };
  int exponent;
  frexpl(value, &exponent);
  exponent -= precision[dtype];
  return ldexp(1, exponent < lowest[dtype] ? lowest[dtype] : exponent);
}

static bool is_right(const answer *a, int dtype, cell found)
{
  if (!naive_is_real(dtype)) return found.i == a->whole;
  cell near = naive_cast(TSR_F64, dtype, (cell){ .f = (double)a->real });
  if (isnan(found.f) || isnan(near.f)) return isnan(found.f) && isnan(near.f);
  if (a->within <= 0) return !memcmp(&found, &near, sizeof near);
  if (found.f == near.f) return true;
  if (isinf(found.f) || !isfinite((double)a->real)) return false;
  double unit = unit_of(dtype, isfinite(a->unit) ? a->unit : a->real);
  return (double)fabsl((long double)found.f - a->real) <= a->within * unit;
}

typedef struct trial {
  test_rng rng;
  uint64_t seed;
  const call *call;
  tsr_dtype dtype;
  tsr_shape shape;
  int64_t count;
  int operands;
  char host[3][MOST * 8], first[MOST * 8], found[MOST * 8];
} trial;

static void draw(trial *t)
{
  static const int64_t sizes[] = { 0, 1, 2, 3, 4, 5, 7, 8, 13, 33 };
  do {
    t->call = &calls[test_range(&t->rng, 0, CALLS - 1)];
    t->dtype = (tsr_dtype)test_range(&t->rng, TSR_BOOL, TSR_F64);
  } while (!fits(t->call->takes, (int)t->dtype));
  t->operands = t->call->one ? 1 : t->call->two ? 2 : 3;
  t->shape = (tsr_shape){ .rank = (int)test_range(&t->rng, 0, 3) };
  t->count = 1;
  for (int d = 0; d < t->shape.rank; d++)
    t->shape.dims[d] = sizes[test_range(&t->rng, d > 1 ? 1 : 0, t->shape.rank > 2 ? 7 : 9)];
  t->shape = law_deep(&t->rng, t->shape, TSR_MAX_RANK);
  if (test_range(&t->rng, 0, 99) == 0) t->shape = law_large(&t->rng, 1, 3);
  for (int d = 0; d < t->shape.rank; d++) t->count *= t->shape.dims[d];
  bool shift = strstr(t->call->name, "_shift") != NULL, tame = test_range(&t->rng, 0, 2) == 0;
  for (int o = 0; o < t->operands; o++)
    for (int64_t i = 0; i < t->count; i++) {
      cell c = naive_random(&t->rng, (int)t->dtype);
      if (naive_is_real((int)t->dtype) && tame)
        c = number((int)t->dtype,
                   (test_uniform(&t->rng) * 2 - 1) * ldexp(1, (int)test_range(&t->rng, -9, 5)));
      if (shift && o && test_range(&t->rng, 0, 3)) c.i = test_range(&t->rng, 0, 70);
      naive_put(t->host[o], (int)t->dtype, i, c);
    }
}

/* Applies the call to operands that lie as specs of `mesh` say; of none: on one device. */
static tsr_dtype apply(trial *t, tsr_runtime *rt, const tsr_mesh *mesh, char *out)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *put[3] = { NULL };
  for (int o = 0; o < t->operands; o++) {
    tsr_sharding on = { 0 };
    if (mesh) on = law_sharding(&t->rng, mesh, t->shape.rank);
    put[o] = tsr_put(s, t->host[o], t->dtype, t->shape, on);
  }
  tsr_operand b = tsr_operand_array(put[1]), c = tsr_operand_array(put[2]);
  tsr_array *r = t->call->one   ? t->call->one(put[0], TSR_HERE)
                 : t->call->two ? t->call->two(put[0], b, TSR_HERE)
                                : t->call->three(put[0], b, c, TSR_HERE);
  tsr_dtype dtype = tsr_dtype_of(r);
  size_t bytes = (size_t)t->count * tsr_dtype_size(dtype);
  if (tsr_read(r, out, bytes))
    FAIL("seed %llu, %s of %s: %s", (unsigned long long)t->seed, t->call->name,
         tsr_dtype_name(t->dtype), tsr_message(s));
  tsr_scope_close(s);
  return dtype;
}

static void check(const trial *t, int out)
{
  int dtype = (int)t->dtype;
  bool widens = t->call->gives == REAL && !naive_is_real(dtype);
  for (int64_t i = 0; i < t->count; i++) {
    cell in[3] = { { 0 } }, found = naive_get(t->found, out, i);
    for (int o = 0; o < t->operands; o++) {
      in[o] = naive_get(t->host[o], dtype, i);
      if (widens) in[o] = naive_cast(dtype, TSR_F64, in[o]);
    }
    answer a = t->call->is(t->call, widens ? TSR_F64 : dtype, out, in);
    if (is_right(&a, out, found)) continue;
    if (naive_is_real(out))
      FAIL("seed %llu: %s(%a, %a, %a) of %s is %a, expected %La", (unsigned long long)t->seed,
           t->call->name, in[0].f, in[1].f, in[2].f, tsr_dtype_name(t->dtype), found.f, a.real);
    FAIL("seed %llu: %s(%lld, %lld) of %s is %lld, expected %lld", (unsigned long long)t->seed,
         t->call->name, (long long)in[0].i, (long long)in[1].i, tsr_dtype_name(t->dtype),
         (long long)found.i, (long long)a.whole);
  }
}

static bool one_trial(tsr_runtime *rt, uint64_t seed)
{
  static trial t;
  t.rng = test_seeded(seed);
  t.seed = seed;
  draw(&t);
  const tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(&t.rng, 0, LAW_MESHES - 1)]);
  tsr_dtype alone = apply(&t, rt, NULL, t.first), out = apply(&t, rt, mesh, t.found);
  CHECK(alone == out);
  given gives = t.call->gives;
  bool same = gives == SAME || naive_is_real((int)t.dtype);
  CHECK(out == (gives == TRUTH ? TSR_BOOL : same ? t.dtype : TSR_F64));
  char what[160]; /* every NaN is the same there */
  snprintf(what, sizeof what, "seed %llu: %s of %s on %s", (unsigned long long)seed, t.call->name,
           tsr_dtype_name(t.dtype), tsr_mesh_text(mesh));
  for (int64_t i = 0; i < t.count; i++)
    naive_check(what, i, (int)out, naive_get(t.found, (int)out, i),
                naive_get(t.first, (int)out, i));
  check(&t, (int)out);
  return t.count > 0;
}

TEST_TIMEOUT(elementwise_calls_are_what_c_says, 600)
{
  law_each_seed_on_8(1, test_quick() ? 4000 : 40000, 0.5, one_trial);
}
