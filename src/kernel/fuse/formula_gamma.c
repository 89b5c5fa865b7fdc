/* The logarithm of the size of the gamma function, of f64.
 *
 *   0 < a < 0.6    lgamma a = a (a - 1) S(1 + a) - log a
 *   up to 3        (a - 1) (a - 2) S(a): both factors and so the zeros are exact
 *   up to 8        lgamma of a - n between 2 and 3, and log of (a - 1) ... (a - n)
 *   beyond         (a - 1/2) (log a - 1) + log(2 pi) / 2 - 1/2 + T(1 / a^2) / a
 *   x < 0, a = -x  log pi - log |sin pi a| - lgamma(1 + a)
 *
 * Coefficients: Chebyshev interpolation in 70 digits, rounded. Errors are measured against long
 * double (tests/unit/formula_test.c) and stated in docs/NUMERICS.md. */
#include "kernel/fuse/formula_inner.h"

#include <math.h>

static val times(tsr__kbuild *b, val x, val y)
{
  return op2(b, TSR__K_MUL, x, y);
}

static val minus(tsr__kbuild *b, val x, val y)
{
  return op2(b, TSR__K_SUB, x, y);
}

/* lgamma of 1 + d for d from -0.4 to 2, d and less = d - 1 being exact. */
static val near_zeros(tsr__kbuild *b, val d, val less)
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
  val first = polynomial(b, minus(b, d, real(b, 0.1)), low, 26);
  val second = polynomial(b, minus(b, d, real(b, 1.3)), high, 20);
  val s = where(b, test2(b, TSR__K_LT, d, real(b, 0.6)), first, second);
  return times(b, times(b, d, less), s);
}

/* (a - 1) ... (a - n), n <= 5 factors. */
static val falling(tsr__kbuild *b, val a, val n)
{
  val product = real(b, 1);
  for (int i = 1; i <= 5; i++) {
    val here = test2(b, TSR__K_GE, n, real(b, i));
    val factor = where(b, here, minus(b, a, real(b, i)), real(b, 1));
    product = times(b, product, factor);
  }
  return product;
}

static val stirling(tsr__kbuild *b, val a, val log)
{
  static const double t[] = { /* a times what the first terms lack, in 1 / a^2 */
                              -0x1.55b3a71b46db0p-6, 0x1.96db406143a31p-8,   -0x1.f5ff2fdcde511p-10,
                              0x1.b94f6d659214dp-11, -0x1.38137ec070146p-11, 0x1.a01a019ee0dbep-11,
                              -0x1.6c16c16c16b29p-9, 0x1.5555555555555p-4
  };
  val one = real(b, 1), inverse = op2(b, TSR__K_DIV, one, a);
  val rest = polynomial(b, times(b, inverse, inverse), t, 8);
  rest = fused(b, rest, inverse, real(b, 0x1.acfe390c97d69p-2));
  return fused(b, minus(b, a, real(b, 0.5)), minus(b, log, one), rest);
}

/* log of |sin pi a|, times a where a is not small; a itself where it is tiny. */
static val log_of_sine(tsr__kbuild *b, val a, val small)
{
  val pi = real(b, 0x1.921fb54442d18p+1);
  val r = minus(b, a, op1(b, TSR__K_RINT, a));
  val s = op1(b, TSR__K_ABS, tsr__formula_sin(b, times(b, r, pi)));
  val tiny = test2(b, TSR__K_LT, a, real(b, 0x1p-60));
  s = where(b, small, s, times(b, s, a));
  val log = tsr__formula_log(b, where(b, tiny, a, s));
  return where(b, tiny, log, minus(b, log, real(b, 0x1.250d048e7a1bdp+0)));
}

val tsr__formula_lgamma(tsr__kbuild *b, val x)
{
  val a = op1(b, TSR__K_ABS, x), one = real(b, 1), zero = real(b, 0),
      top = real(b, (double)INFINITY);
  val small = test2(b, TSR__K_LT, a, real(b, 0.6)), far = test2(b, TSR__K_GE, a, real(b, 8));
  val middle = test2(b, TSR__K_GE, a, real(b, 3));
  val n = where(b, middle, minus(b, op1(b, TSR__K_FLOOR, a), real(b, 2)), zero);
  val d = where(b, small, a, minus(b, minus(b, a, n), one));
  val core =
      near_zeros(b, d, where(b, small, minus(b, a, one), minus(b, minus(b, a, n), real(b, 2))));
  val product = where(b, middle, falling(b, a, n), one);
  product = where(b, small, a, product);
  val log = tsr__formula_log(b, where(b, far, a, product));
  val above = where(b, small, minus(b, core, log), op2(b, TSR__K_ADD, core, log));
  above = where(b, far, stirling(b, a, log), above);
  above = where(b, test2(b, TSR__K_EQ, a, top), top, above);
  val below = minus(b, op1(b, TSR__K_NEG, log_of_sine(b, a, small)), where(b, small, core, above));
  val whole_x = test2(b, TSR__K_EQ, op1(b, TSR__K_FLOOR, x), x);
  below = where(b, whole_x, top, below);
  return where(b, test2(b, TSR__K_LE, x, zero), below, above);
}
