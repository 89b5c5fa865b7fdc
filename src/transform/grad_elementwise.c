/* Gradients of elementwise operations. Where JAX chooses at an edge (0 to a power, ties, signs of
 * 0), these choose alike. */
#include <math.h>

#include "tessera/elementwise.h"
#include "transform/backward.h"

typedef tsr_array array;

/* A rule is written with `due`, the gradient by the result, and gives each operand its product with
 * the slope. Three habits run through all of them:
 *
 *   out instead of in   exp, tanh, sqrt, tan: the slope follows from the result, which is there:
 *                       one function less to compute
 *   where before, not   where(x == 0, 0, f(x)) would multiply by an infinite or NaN slope in the
 *   after               gradient of the gradient: operands are made safe first, then f, then chosen
 *
 *   quotients before    a / out is small where a * a, or a times what is due, is more than f16 or
 *   products            f32 hold: in a rule and in what is gone back to through it
 *
 * Rounding is that of the formula as it stands: these are nodes, planned and fused like users'. */
static array *square(const tsr__pull *p, array *a)
{
  return tsr__times(p, a, a);
}

/* 1 - a * a */
static array *one_less_square(const tsr__pull *p, array *a)
{
  return tsr__more(p, tsr_neg_at(square(p, a), p->site), 1);
}

/* Gives the operand of a function its derivative's share. */
static void by(const tsr__pull *p, array *slope)
{
  tsr__give(p, 0, tsr__times(p, p->due, slope));
}

/* Where the slope is 1 / a: one division, which rounds once, instead of two roundings. */
static void by_inverse(const tsr__pull *p, array *slope)
{
  tsr__give(p, 0, tsr__over(p, p->due, slope));
}

/* ---- one operand ----------------------------------------------------------------------------- */

void tsr__grad_neg(const tsr__pull *p)
{
  tsr__give(p, 0, tsr_neg_at(p->due, p->site));
}

/* The sign of 0 is 0: at the corner nothing. */
void tsr__grad_abs(const tsr__pull *p)
{
  by(p, tsr_sign_at(p->in[0], p->site));
}

/* At 0 infinite, as the slope is, and NaN where 0 is due: both as in JAX. */
void tsr__grad_sqrt(const tsr__pull *p)
{
  by_inverse(p, tsr__scaled(p, p->out, 2));
}

void tsr__grad_cbrt(const tsr__pull *p)
{
  by_inverse(p, tsr__scaled(p, square(p, p->out), 3));
}

void tsr__grad_exp(const tsr__pull *p)
{
  by(p, p->out);
}

void tsr__grad_exp2(const tsr__pull *p)
{
  by(p, tsr__scaled(p, p->out, 0x1.62e42fefa39efp-1)); /* log 2 */
}

void tsr__grad_expm1(const tsr__pull *p)
{
  by(p, tsr__more(p, p->out, 1));
}

void tsr__grad_log(const tsr__pull *p)
{
  by_inverse(p, p->in[0]);
}

void tsr__grad_log1p(const tsr__pull *p)
{
  by_inverse(p, tsr__more(p, p->in[0], 1));
}

void tsr__grad_log2(const tsr__pull *p)
{
  by_inverse(p, tsr__scaled(p, p->in[0], 0x1.62e42fefa39efp-1)); /* log 2 */
}

void tsr__grad_log10(const tsr__pull *p)
{
  by_inverse(p, tsr__scaled(p, p->in[0], 0x1.26bb1bbb55516p+1)); /* log 10 */
}

void tsr__grad_tanh(const tsr__pull *p)
{
  by(p, one_less_square(p, p->out));
}

/* sqrt(a * a + 1), without the square. */
static array *beside_one(const tsr__pull *p)
{
  return tsr_hypot_at(p->in[0], tsr_operand_int(1), p->site);
}

void tsr__grad_asinh(const tsr__pull *p)
{
  by_inverse(p, beside_one(p));
}

/* (1 - a) (1 + a), at both ends 0 and not -0: what is divided by it is infinite with its sign. */
static array *short_of_one(const tsr__pull *p, array *a)
{
  return tsr__times(p, tsr__more(p, tsr_neg_at(a, p->site), 1), tsr__more(p, a, 1));
}

/* By the roots of a - 1 and a + 1: a * a - 1 loses digits near 1. */
void tsr__grad_acosh(const tsr__pull *p)
{
  array *less = tsr_sqrt_at(tsr__more(p, p->in[0], -1), p->site);
  by_inverse(p, tsr__times(p, less, tsr_sqrt_at(tsr__more(p, p->in[0], 1), p->site)));
}

void tsr__grad_atanh(const tsr__pull *p)
{
  by_inverse(p, short_of_one(p, p->in[0]));
}

void tsr__grad_sin(const tsr__pull *p)
{
  by(p, tsr_cos_at(p->in[0], p->site));
}

void tsr__grad_cos(const tsr__pull *p)
{
  by(p, tsr_neg_at(tsr_sin_at(p->in[0], p->site), p->site));
}

void tsr__grad_tan(const tsr__pull *p)
{
  by(p, tsr__more(p, square(p, p->out), 1));
}

/* sqrt(1 - a * a) */
static array *height(const tsr__pull *p)
{
  return tsr_sqrt_at(short_of_one(p, p->in[0]), p->site);
}

void tsr__grad_asin(const tsr__pull *p)
{
  by_inverse(p, height(p));
}

void tsr__grad_acos(const tsr__pull *p)
{
  by_inverse(p, tsr_neg_at(height(p), p->site));
}

/* 1 / (a * a + 1) */
void tsr__grad_atan(const tsr__pull *p)
{
  array *root = beside_one(p);
  tsr__give(p, 0, tsr__over(p, tsr__over(p, p->due, root), root));
}

void tsr__grad_sinh(const tsr__pull *p)
{
  by(p, tsr_cosh_at(p->in[0], p->site));
}

void tsr__grad_cosh(const tsr__pull *p)
{
  by(p, tsr_sinh_at(p->in[0], p->site));
}

/* a, no farther from 0 than where exp(-a * a / 2) is 0 in all floats: its square, and products with
 * what is gone back to, stay in those that are narrow. */
static array *short_of_nothing(const tsr__pull *p)
{
  array *a = tsr_maximum_at(p->in[0], tsr_operand_int(-40), p->site);
  return tsr_minimum_at(a, tsr_operand_int(40), p->site);
}

/* 2 / sqrt(pi) exp(-a * a) */
static array *bell(const tsr__pull *p)
{
  array *power = tsr_exp_at(tsr_neg_at(square(p, short_of_nothing(p)), p->site), p->site);
  return tsr__scaled(p, power, 0x1.20dd750429b6dp+0);
}

void tsr__grad_erf(const tsr__pull *p)
{
  by(p, bell(p));
}

void tsr__grad_erfc(const tsr__pull *p)
{
  by(p, tsr_neg_at(bell(p), p->site));
}

/* sqrt(pi) / 2 exp(out * out): the inverse of erf's slope at the result. */
void tsr__grad_erfinv(const tsr__pull *p)
{
  by(p, tsr__scaled(p, tsr_exp_at(square(p, p->out), p->site), 0x1.c5bf891b4ef6bp-1));
}

void tsr__grad_lgamma(const tsr__pull *p)
{
  by(p, tsr_digamma_at(p->in[0], p->site));
}

/* 1 - out loses all digits where out is near 1; the same function of -a has them. */
void tsr__grad_sigmoid(const tsr__pull *p)
{
  array *other = tsr_sigmoid_at(tsr_neg_at(p->in[0], p->site), p->site); /* 1 - out, exactly */
  by(p, tsr__times(p, p->out, other));
}

/* The share of the normal distribution below a, and a times its density. */
void tsr__grad_gelu(const tsr__pull *p)
{
  array *a = p->in[0];
  array *below = tsr_erfc_at(tsr__scaled(p, a, -0x1.6a09e667f3bcdp-1), p->site); /* -sqrt(1/2) */
  array *density = tsr_exp_at(tsr__scaled(p, square(p, short_of_nothing(p)), -0.5), p->site);
  array *more = tsr__times(p, a, tsr__scaled(p, density, 0x1.9884533d43651p-2)); /* sqrt(1/2pi) */
  by(p, tsr_add_at(tsr__scaled(p, below, 0.5), tsr_operand_array(more), p->site));
}

/* ---- two and three operands ------------------------------------------------------------------ */

void tsr__grad_add(const tsr__pull *p)
{
  tsr__give(p, 0, p->due);
  tsr__give(p, 1, p->due);
}

void tsr__grad_sub(const tsr__pull *p)
{
  tsr__give(p, 0, p->due);
  if (tsr__wants(p, 1)) tsr__give(p, 1, tsr_neg_at(p->due, p->site));
}

void tsr__grad_mul(const tsr__pull *p)
{
  if (tsr__wants(p, 0)) tsr__give(p, 0, tsr__times(p, p->due, p->in[1]));
  if (tsr__wants(p, 1)) tsr__give(p, 1, tsr__times(p, p->due, p->in[0]));
}

/* - due * (a / b) / b: by quotients that were there, where b * b might overflow. */
void tsr__grad_div(const tsr__pull *p)
{
  array *part = tsr__over(p, p->due, p->in[1]);
  tsr__give(p, 0, part);
  if (!tsr__wants(p, 1)) return;
  array *ratio = tsr__over(p, p->in[0], p->in[1]);
  tsr__give(p, 1, tsr_neg_at(tsr__times(p, part, ratio), p->site));
}

/* What a division leaves changes with the divisor by the quotient, which is a whole number. */
static void give_rest(const tsr__pull *p)
{
  tsr__give(p, 0, p->due);
  if (!tsr__wants(p, 1)) return;
  array *whole = tsr_sub_at(p->in[0], tsr_operand_array(p->out), p->site);
  whole = tsr_rint_at(tsr__over(p, whole, p->in[1]), p->site);
  tsr__give(p, 1, tsr_neg_at(tsr__times(p, p->due, whole), p->site));
}

/* mod and fmod differ in the quotient they leave, and that is taken from the result. */
void tsr__grad_mod(const tsr__pull *p)
{
  give_rest(p);
}

void tsr__grad_fmod(const tsr__pull *p)
{
  give_rest(p);
}

/* b a^(b - 1), 0 where b is; an exponent that is a number is known here. An array as the exponent
 * may have zeros in it, so where b is 0 both factors are made 1 before and the 0 chosen behind: 0 *
 * pow(0, -1) would be NaN. */
static array *power_slope(const tsr__pull *p)
{
  const tsr__replay *replay = &p->back->replay;
  const tsr__gnode *b = &replay->program->nodes[tsr__in(replay->program, p->node, 1)];
  if (b->op == TSR__OP_CONST) {
    double exponent = replay->params[b->param].f;
    if (exponent == 2) return tsr__scaled(p, p->in[0], 2);
    array *power = tsr_pow_at(p->in[0], tsr_operand_float(exponent - 1), p->site);
    return tsr__scaled(p, exponent == 0 ? p->out : power, exponent);
  }
  array *none = tsr_eq_at(p->in[1], tsr_operand_int(0), p->site);
  array *safe = tsr_where_at(none, tsr_operand_int(1), tsr_operand_array(p->in[1]), p->site);
  array *less = tsr__more(p, safe, -1);
  array *slope = tsr__times(p, safe, tsr_pow_at(p->in[0], tsr_operand_array(less), p->site));
  return tsr_where_at(none, tsr_operand_int(0), tsr_operand_array(slope), p->site);
}

/* By the exponent log(a) a^b: 0 where a is, for exponents above 0, as the power falls faster than
 * the logarithm; NaN where a is below 0. */
void tsr__grad_pow(const tsr__pull *p)
{
  if (tsr__wants(p, 0)) tsr__give(p, 0, tsr__times(p, p->due, power_slope(p)));
  if (!tsr__wants(p, 1)) return;
  array *none = tsr_eq_at(p->in[0], tsr_operand_int(0), p->site);
  array *safe = tsr_where_at(none, tsr_operand_int(1), tsr_operand_array(p->in[0]), p->site);
  array *slope = tsr__times(p, tsr_log_at(safe, p->site), p->out);
  tsr__give(p, 1, tsr__times(p, p->due, slope));
}

/* 1 where an operand is the result, 1/2 where both are, else 0. */
/* As JAX: a tie is shared. maximum(x, x) has slope 1 then, as x has. Where the result is NaN
 * neither is equal to it, and nobody gets anything. */
static array *share(const tsr__pull *p, int i)
{
  tsr_operand out = tsr_operand_array(p->out);
  array *other = tsr_eq_at(p->in[!i], out, p->site);
  array *full = tsr_cast_at(tsr_eq_at(p->in[i], out, p->site), (tsr_dtype)p->out->dtype, p->site);
  return tsr_where_at(other, tsr_operand_array(tsr__scaled(p, full, 0.5)), tsr_operand_array(full),
                      p->site);
}

/* All of it goes to the first where that is the result, else to the second. NaN is equal to
 * nothing, so what is due to one goes to the second. */
static void give_first(const tsr__pull *p)
{
  array *first = tsr_eq_at(p->in[0], tsr_operand_array(p->out), p->site);
  if (tsr__wants(p, 0)) tsr__give(p, 0, tsr__only(p, first, p->due));
  if (tsr__wants(p, 1)) tsr__give(p, 1, tsr__only(p, tsr_not_at(first, p->site), p->due));
}

void tsr__grad_extreme_of_two(const tsr__pull *p)
{
  const tsr__tie_attr *tie = p->attr;
  if (tie->first) {
    give_first(p);
    return;
  }
  if (tsr__wants(p, 0)) tsr__give(p, 0, tsr__times(p, p->due, share(p, 0)));
  if (tsr__wants(p, 1)) tsr__give(p, 1, tsr__times(p, p->due, share(p, 1)));
}

/* Turned where both signs differ; by the second operand it is 0 almost everywhere. Signs by
 * copysign and not by comparisons, so that -0 counts as negative. */
void tsr__grad_copysign(const tsr__pull *p)
{
  array *unit = tsr__strong_number(tsr__home(p->due), tsr_scalar_float(1), p->site);
  unit = tsr_cast_at(unit, (tsr_dtype)p->out->dtype, p->site);
  array *from = tsr_copysign_at(unit, tsr_operand_array(p->in[0]), p->site);
  array *to = tsr_copysign_at(unit, tsr_operand_array(p->in[1]), p->site);
  by(p, tsr__times(p, from, to));
}

/* (b da - a db) / (a a + b b) */
void tsr__grad_atan2(const tsr__pull *p)
{
  array *a = p->in[0], *b = p->in[1], *root = tsr_hypot_at(a, tsr_operand_array(b), p->site);
  array *part = tsr__over(p, p->due, root);
  if (tsr__wants(p, 0)) tsr__give(p, 0, tsr__times(p, part, tsr__over(p, b, root)));
  if (tsr__wants(p, 1))
    tsr__give(p, 1, tsr_neg_at(tsr__times(p, part, tsr__over(p, a, root)), p->site));
}

/* At the origin 0. */
void tsr__grad_hypot(const tsr__pull *p)
{
  array *none = tsr_eq_at(p->out, tsr_operand_int(0), p->site);
  array *safe = tsr_where_at(none, tsr_operand_int(1), tsr_operand_array(p->out), p->site);
  if (tsr__wants(p, 0)) tsr__give(p, 0, tsr__times(p, p->due, tsr__over(p, p->in[0], safe)));
  if (tsr__wants(p, 1)) tsr__give(p, 1, tsr__times(p, p->due, tsr__over(p, p->in[1], safe)));
}

/* An infinite one beside the infinite result has all of it. Infinity less itself would be NaN: both
 * become 0 and the share 1. */
static array *less_infinite(const tsr__pull *p, array *a)
{
  array *infinite = tsr_eq_at(a, tsr_operand_float((double)INFINITY), p->site);
  return tsr_where_at(infinite, tsr_operand_int(0), tsr_operand_array(a), p->site);
}

/* What operand `i` adds to the sum, as a part of it. */
static array *share_of_sum(const tsr__pull *p, int i)
{
  tsr_operand out = tsr_operand_array(less_infinite(p, p->out));
  return tsr_exp_at(tsr_sub_at(less_infinite(p, p->in[i]), out, p->site), p->site);
}

/* exp(a - out), which lies between 0 and 1 and so cannot overflow. */
void tsr__grad_logaddexp(const tsr__pull *p)
{
  if (tsr__wants(p, 0)) tsr__give(p, 0, tsr__times(p, p->due, share_of_sum(p, 0)));
  if (tsr__wants(p, 1)) tsr__give(p, 1, tsr__times(p, p->due, share_of_sum(p, 1)));
}

void tsr__grad_fma(const tsr__pull *p)
{
  tsr__grad_mul(p);
  tsr__give(p, 2, p->due);
}

/* What is not chosen is 0 and not 0 * due: an infinity on the side that was left shows nowhere. */
void tsr__grad_where(const tsr__pull *p)
{
  if (tsr__wants(p, 1)) tsr__give(p, 1, tsr__only(p, p->in[0], p->due));
  if (tsr__wants(p, 2)) tsr__give(p, 2, tsr__only(p, tsr_not_at(p->in[0], p->site), p->due));
}
