/* Inverse sines and tangents of f64: the constants and coefficients for formula_arc.h.
 *
 * Coefficients: Chebyshev interpolation in 70 digits, rounded. Errors are measured against long
 * double (tests/unit/kernel/formula_test.c) and stated in docs/NUMERICS.md. */
#include "kernel/tile/formula_inner.h"

#define QUARTER 0x1.921fb54442d18p+0 /* pi / 2 in two parts */
#define QUARTER_LOW 0x1.1a62633145c07p-54

/* (atan s - s) / s^3 in s^2 */
static const double atan_tail[] = {
  0x1.2f07811f9f6e9p-16, -0x1.a359b96a4eee4p-13, 0x1.1325b2f8964bep-10, -0x1.ca3677db66678p-9,
  0x1.123baedb61abdp-7,  -0x1.fd0e4de8fed90p-7,  0x1.843f4bca23369p-6,  -0x1.00390504e9f2fp-5,
  0x1.3328700bb8169p-5,  -0x1.5d02278205cc7p-5,  0x1.841dcf603a209p-5,  -0x1.aebbb1647a168p-5,
  0x1.e1d0239d392a6p-5,  -0x1.110fff599e4d2p-4,  0x1.3b1399d1dcdc7p-4,  -0x1.745d15ee35819p-4,
  0x1.c71c71bb00a6cp-4,  -0x1.24924924753ecp-3,  0x1.9999999999620p-3,  -0x1.5555555555555p-2
};

/* (asin s - s) / s^3 in s^2 */
static const double asin_tail[] = {
  0x1.d72b2bc8155f8p-6, -0x1.e6aaa8a0a04ccp-7, 0x1.1d189408314eep-6, 0x1.65a9c4dfcf8b2p-8,
  0x1.52420b04b37bep-7, 0x1.782651caa6547p-7,  0x1.c9cf07674736ap-7, 0x1.1c4d35cf95421p-6,
  0x1.6e8bb1c8209a2p-6, 0x1.f1c71c1db0623p-6,  0x1.6db6db6e31f13p-5, 0x1.3333333332ecap-4,
  0x1.5555555555556p-3
};

#include "kernel/tile/formula_arc.h"
