/* The error function of f64, its complement to 1, its inverse, and the normal distribution's gelu.
 *
 *   erf x = x + x E(x^2)                    for |x| < 1
 *   erfc x = exp(-x^2) R(t) / (1 + 2 x)     for x >= 0.47, t = (x - 4) / (x + 4)
 *
 * The rounding error of the square is put back. The inverse is guessed to some 20 bits from log(1 -
 * x^2) and mended by Halley's step, on the complement if that is the smaller part.
 *
 * Coefficients: Chebyshev interpolation in 70 digits, rounded. Errors are measured against long
 * double (tests/unit/kernel/formula_test.c) and stated in docs/NUMERICS.md. */
#include "kernel/tile/formula_exp.h"

#define TWO_BY_ROOT_PI 0x1.20dd750429b6dp+0

/* Takes a size below 1. */
INLINE val erf_near(val x)
{
  static const double e[] = {
    /* erf x / x - 1 in x^2 */
    0x1.05ffd737fb32ep-34, -0x1.389d4f2641625p-30, 0x1.f7b4bf3b13964p-27, -0x1.5f1ecb6f0764cp-23,
    0x1.b9df224ca4b97p-20, -0x1.f4d1e3183f7aep-17, 0x1.f9a321d5b8e1ep-14, -0x1.c02db3dac435fp-11,
    0x1.565bcd0dbaa38p-8,  -0x1.b82ce31284e00p-6,  0x1.ce2f21a042b30p-4,  -0x1.812746b0379e6p-2,
    0x1.06eba8214db69p-3
  };
  return fused(x, polynomial(x * x, e, 13), x);
}

/* exp(x^2) erfc x for x from 0.47 on. */
INLINE val scaled_rest_f64(val x)
{
  static const double r[] = {
    /* (1 + 2 x) exp(x^2) erfc x in t */
    -0x1.6d91601470a69p-27, -0x1.a4ea5f199f568p-27, 0x1.c80127e73acdep-24,  0x1.202b687af3330p-24,
    -0x1.b9f339d1b039dp-21, 0x1.4190012560fe4p-22,  0x1.7f21aa7fc44fcp-18,  -0x1.78a34a47e3254p-17,
    -0x1.9959b7ff2ffc2p-16, 0x1.3be0d38c91082p-13,  -0x1.a1df1a40dd8a0p-13, -0x1.8d4aa14ac5af0p-11,
    0x1.49c6726faa9b9p-8,   -0x1.0962387dd64aap-6,  0x1.3079edf6dec81p-5,   -0x1.0fb06dfe6a52dp-4,
    0x1.7fee004e0f536p-4,   -0x1.9ddb23c3e7d7bp-4,  0x1.16ecefcfa54f7p-4,   0x1.f7f5df66fd585p-7,
    -0x1.1df1ad154a290p-3,  0x1.3ba5916e9fd7fp+0
  };
  val four = real(4), above = x + four;
  val t = (x - four) / above;
  return polynomial(t, r, 22) / fused(real(2), x, real(1));
}

/* exp(-scale x^2) for a scale that is a power of two. */
INLINE val bell_of_size(val x, double scale)
{
  val square = x * x, low = fused(x, x, -square);
  mask known = square < real(2000); /* beyond, low may be no number */
  return exp_sum(square * real(-scale), where(known, low * real(-scale), real(0)));
}

/* erfc of a size from 0.47 on; 28 is far enough. */
INLINE val erfc_far(val size)
{
  val x = least_of_vals(size, real(28));
  return bell_of_size(x, 1) * scaled_rest_f64(x);
}

#include "kernel/tile/formula_erf.h"

/* x Phi(x): below -0.7 half of x erfc(-x / sqrt 2), near 0 of x + x erf(x / sqrt 2), beyond 0.7 it
 * is x less half of x erfc(x / sqrt 2). */
INLINE val gelu_of(val x)
{
  val size = size_of(x), zero = real(0);
  val near_to = least_of_vals(size, real(60)), half = near_to * real(0.5);
  val root = near_to * real(ROOT_HALF);
  val end = (half * scaled_rest_f64(root)) * bell_of_size(near_to, 0.5);
  val far = where(is_minus(x), -end, x - end);
  val part = x * real(0.5);
  val near = fused(part, erf_near(x * real(ROOT_HALF)), part);
  val result = where(size < real(0.7), near, far);
  result = where(x < real(-60), real(-0.0), result);
  return where(x == zero, x, result);
}

/* The guess for x >= 0, from w = -log(1 - x^2). */
INLINE val erfinv_guess(val x, val w)
{
  static const double near[] = {
    /* erfinv x / x in w up to 5 */
    0x1.7e723ea50af32p-22, -0x1.3ba14e97f46b0p-17, 0x1.78b69bf27daacp-14, -0x1.ca043495b381bp-13,
    -0x1.245086fc7f8ddp-9, 0x1.786f345ef69bep-7,   0x1.db3161deb4076p-3,  0x1.c5bf76bd12625p-1
  };
  static const double far[] = {
    /* and in the root of w beyond */
    -0x1.874076603f0dcp-22, 0x1.3f956987d2176p-16, -0x1.da262c1356a77p-12, 0x1.a6095e7f4b260p-8,
    -0x1.f572e81cc96f7p-5,  0x1.a25143b8012c6p-2,  -0x1.f5708f1a73a9fp+0,  0x1.b1d77b25a599fp+2,
    -0x1.0bad4d1583cdbp+4,  0x1.c814021288472p+4,  -0x1.f68dfaf2b1314p+4,  0x1.49084a5a6f02cp+4,
    -0x1.42ed102e1e0c3p+2
  };
  val s = root_of(w);
  val ratio = where(w < real(5), polynomial(w, near, 8), polynomial(s, far, 13));
  return x * ratio;
}

/* A guess, made better once by Halley's method: the second derivative of erf is -2 y times the
 * first. Near 1 the complements are compared, as size has no bits left there. */
INLINE val erfinv_of(val x)
{
  val size = size_of(x), one = real(1), rest = one - size;
  val product = rest * (one + size);
  val w = most(-log_of(product), real(0));
  val y = erfinv_guess(size, w), e = bell_of_size(y, 1);
  val over = erf_near(y) - size;
  val far = rest - (e * scaled_rest_f64(y));
  over = where(size < real(0.8), over, far);
  val step = over / (e * real(TWO_BY_ROOT_PI));
  step = step / fused(y, step, one);
  val result = y - step;
  result = where(size == one, real((double)INFINITY), result);
  result = where(size > one, real((double)NAN), result);
  return with_sign_of(result, x);
}

TILE_OF_1(erf)
TILE_OF_1(erfc)
TILE_OF_1(erfinv)
TILE_OF_1(gelu)
