/* The logarithm of the size of the gamma function, of f64.
 *
 *   0 < a < 0.6    lgamma a = a (a - 1) S(1 + a) - log a
 *   up to 3        (a - 1) (a - 2) S(a): both factors and so the zeros are exact
 *   up to 8        lgamma of a - n between 2 and 3, and log of (a - 1) ... (a - n)
 *   beyond         (a - 1/2) (log a - 1) + log(2 pi) / 2 - 1/2 + T(1 / a^2) / a
 *   x < 0, a = -x  log pi - log |sin pi a| - lgamma(1 + a)
 *
 * Coefficients: Chebyshev interpolation in 70 digits, rounded. Errors are measured against long
 * double (tests/unit/kernel/formula_test.c) and stated in docs/NUMERICS.md. */
#include "kernel/tile/formula_exp.h"
#include "kernel/tile/formula_trig.h"

/* lgamma of 1 + d for d from -0.4 to 2, d and less = d - 1 being exact. */
INLINE val near_zeros(val d, val less)
{
  static const double low[] = {
    /* lgamma x / (x - 1) / (x - 2) in x - 1.1 */
    -0x1.b839a43904277p-8, 0x1.f54e88e606483p-8, 0x1.1f90944821bb7p-9,  -0x1.440d8180c7778p-9,
    -0x1.4b882cc76031cp-8, 0x1.7b978af9bd455p-8, -0x1.b86eab984610dp-9, 0x1.fea357b185b33p-9,
    -0x1.62e9b5545b944p-8, 0x1.9c501c8314a35p-8, -0x1.d5f1ae40a67e5p-8, 0x1.12fcba6398dbep-7,
    -0x1.43cc9e05f46f0p-7, 0x1.7e41ee0858411p-7, -0x1.c5aa1b67cdc78p-7, 0x1.0ef4bb7f77ed0p-6,
    -0x1.46201206fddf4p-6, 0x1.8c29ee7e93897p-6, -0x1.e6d5728812f29p-6, 0x1.2fa403d17b739p-5,
    -0x1.8289ea6d219d8p-5, 0x1.faa9818d13371p-5, -0x1.5b748bd865397p-4, 0x1.018440cead7d1p-3,
    -0x1.bcffe8e38ca75p-3, 0x1.1bb801c40f517p-1
  };
  static const double high[] = {
    /* and in x - 2.3 */
    -0x1.4052fb234be84p-28, 0x1.8120e400a9d0cp-27, -0x1.0bd742469214ep-26, 0x1.448fef44fbab2p-25,
    -0x1.bd8df57079ad8p-24, 0x1.0f41145811e94p-22, -0x1.47d5da9f98b4fp-21, 0x1.927ebe6fdf0ccp-20,
    -0x1.f1011c0924f65p-19, 0x1.3484a927692bdp-17, -0x1.81db167b5b81bp-16, 0x1.e705e04521640p-15,
    -0x1.36f211f1e230ap-13, 0x1.931e6277f70c2p-12, -0x1.0ab781df192cep-10, 0x1.6b49adaf39502p-9,
    -0x1.0251964fd0804p-7,  0x1.89eb934d57d92p-6,  -0x1.55ac05c042a3fp-4,  0x1.94d89ddaa9d27p-2
  };
  val first = polynomial(d - real(0.1), low, 26);
  val second = polynomial(d - real(1.3), high, 20);
  val s = where(d < real(0.6), first, second);
  return (d * less) * s;
}

/* (a - 1) ... (a - n), n <= 5 factors. */
INLINE val falling(val a, val n)
{
  val product = real(1);
  for (int i = 1; i <= 5; i++) {
    mask here = n >= real(i);
    val factor = where(here, a - real(i), real(1));
    product = product * factor;
  }
  return product;
}

INLINE val stirling(val a, val log)
{
  static const double t[] = { /* a times the terms after the first ones, in 1 / a^2 */
                              -0x1.55b3a71b46db0p-6, 0x1.96db406143a31p-8,   -0x1.f5ff2fdcde511p-10,
                              0x1.b94f6d659214dp-11, -0x1.38137ec070146p-11, 0x1.a01a019ee0dbep-11,
                              -0x1.6c16c16c16b29p-9, 0x1.5555555555555p-4
  };
  val one = real(1), inverse = one / a;
  val rest = polynomial(inverse * inverse, t, 8);
  rest = fused(rest, inverse, real(0x1.acfe390c97d69p-2));
  return fused(a - real(0.5), log - one, rest);
}

/* log of |sin pi a|, times a where a is not small; a itself where it is tiny. */
INLINE val log_of_sine(val a, mask small)
{
  val pi = real(0x1.921fb54442d18p+1);
  val r = a - rint_of(a);
  val s = size_of(sin_of(r * pi));
  mask tiny = a < real(0x1p-60);
  s = where(small, s, s * a);
  val log = log_of(where(tiny, a, s));
  return where(tiny, log, log - real(0x1.250d048e7a1bdp+0));
}

INLINE val lgamma_of(val x)
{
  val a = size_of(x), one = real(1), zero = real(0), top = real((double)INFINITY);
  mask small = a < real(0.6), far = a >= real(8);
  mask middle = a >= real(3);
  val n = where(middle, floor_of(a) - real(2), zero);
  val d = where(small, a, (a - n) - one);
  val core = near_zeros(d, where(small, a - one, (a - n) - real(2)));
  val product = where(middle, falling(a, n), one);
  product = where(small, a, product);
  val log = log_of(where(far, a, product));
  val above = where(small, core - log, core + log);
  above = where(far, stirling(a, log), above);
  above = where(a == top, top, above);
  val below = (-log_of_sine(a, small)) - where(small, core, above);
  mask whole_x = floor_of(x) == x;
  below = where(whole_x, top, below);
  return where(x <= zero, below, above);
}

TILE_THROUGH_1(lgamma)
