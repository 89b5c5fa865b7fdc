/* Polynomials and numbers of the functions of f32. Written by scripts/formulas.py. */
#ifndef TSR_KERNEL_FORMULA_F32_TABLES_H
#define TSR_KERNEL_FORMULA_F32_TABLES_H

/* clang-format off */
#define LN2_HIGH 0x1.62e43p-1f
#define LN2_LOW -0x1.05c61p-29f
#define LOG2_E_HIGH 0x1.715476p+0f
#define LOG2_E_LOW 0x1.4ae0cp-26f
#define LOG10_E_HIGH 0x1.bcb7b2p-2f
#define LOG10_E_LOW -0x1.5b235ep-27f
#define LOG10_2_HIGH 0x1.344136p-2f
#define LOG10_2_LOW -0x1.ec10cp-27f
#define THIRD_HIGH 0x1.555556p-2f
#define THIRD_LOW -0x1.555556p-27f
#define FIFTH_HIGH 0x1.99999ap-3f
#define FIFTH_LOW -0x1.99999ap-29f
#define HALF_PI_HIGH 0x1.921fb4p+0f
#define HALF_PI_LOW 0x1.4442dp-24f
#define HALF_PI_LAST 0x1.846988p-48f

/* (exp r - 1 - r) / r^2 */
static const float exp_tail[] = {
  0x1.6a4154p-10f, 0x1.1239c6p-7f, 0x1.5558bcp-5f, 0x1.555492p-3f,
  0x1.fffffcp-2f,
};

/* the same, where 1 is taken off again */
static const float expm1_tail[] = {
  0x1.a242fcp-13f, 0x1.6d3cd2p-10f, 0x1.111004p-7f, 0x1.5554f6p-5f,
  0x1.555556p-3f, 0x1.0p-1f,
};

/* (2^r - 1) / r */
static const float exp2_tail[] = {
  0x1.416f1ep-13f, 0x1.5f09a4p-10f, 0x1.3b2ddep-7f, 0x1.c6af7ap-5f,
  0x1.ebfbdcp-3f, 0x1.62e43p-1f,
};

/* (log(1 + f) - f + f^2 / 2) / f^3 */
static const float log_tail[] = {
  -0x1.41fe3ap-4f, 0x1.07d6a8p-3f, -0x1.0cdf74p-3f, 0x1.226d1ap-3f,
  -0x1.54788ep-3f, 0x1.99a5aap-3f, -0x1.00022p-2f, 0x1.55554ap-2f,
};

/* (sin r - r) / r^3 in r^2 */
static const float sin_tail[] = {
  0x1.7b13fp-19f, -0x1.a0561cp-13f, 0x1.111172p-7f, -0x1.555556p-3f,
};

/* (cos r - 1 + r^2 / 2) / r^4 in r^2 */
static const float cos_tail[] = {
  0x1.99d65cp-16f, -0x1.6c0c04p-10f, 0x1.55554ap-5f,
};

/* erf x / x - 1 in x^2 */
static const float erf_tail[] = {
  0x1.4c344ep-14f, -0x1.a50b0ep-11f, 0x1.542e1p-8f, -0x1.b7fe9p-6f,
  0x1.ce2d5p-4f, -0x1.81274p-2f, 0x1.06eba8p-3f,
};

/* (1 + 2 x) exp(x^2) erfc x in (x - 4) / (x + 4) */
static const float erfc_rest[] = {
  -0x1.08c4f2p-9f, -0x1.165ef6p-9f, 0x1.cfde7p-8f, -0x1.d59746p-7f,
  0x1.2ba9b2p-5f, -0x1.127c5ap-4f, 0x1.802728p-4f, -0x1.9d783cp-4f,
  0x1.16ebcap-4f, 0x1.f7d068p-7f, -0x1.1df1aep-3f, 0x1.3ba592p+0f,
};

/* erfinv x / x in -log(1 - x^2) - 2.5 */
static const float erfinv_near[] = {
  -0x1.1b974p-27f, 0x1.e1d8bp-26f, 0x1.ee14b2p-22f, -0x1.d8bd46p-19f,
  -0x1.4bcbf8p-18f, 0x1.ca617cp-13f, -0x1.4866fap-10f, -0x1.11c99ap-8f,
  0x1.f91e8ap-3f, 0x1.805c5ep+0f,
};

/* the same in sqrt(-log(1 - x^2)) - 3 */
static const float erfinv_far[] = {
  -0x1.9fb1dep-13f, 0x1.a0dc92p-14f, 0x1.61e866p-10f, -0x1.e14f6ap-9f,
  0x1.77f382p-8f, -0x1.f392fcp-8f, 0x1.355526p-7f, 0x1.006db8p+0f,
  0x1.6a9efcp+1f,
};

/* (atan s - s) / s^3 in s^2 */
static const float atan_tail[] = {
  -0x1.ddfe6ep-10f, 0x1.6a0162p-7f, -0x1.016dcp-5f, 0x1.dccd22p-5f,
  -0x1.58c954p-4f, 0x1.c0cbfep-4f, -0x1.24265ap-3f, 0x1.999268p-3f,
  -0x1.55554p-2f,
};

/* (asin s - s) / s^3 in s^2 */
static const float asin_tail[] = {
  0x1.59cc8ep-5f, 0x1.8bb538p-6f, 0x1.748a2cp-5f, 0x1.33016ap-4f,
  0x1.5555cap-3f,
};

/* (sinh x - x) / x^3 in x^2 */
static const float sinh_tail[] = {
  0x1.75a6f4p-19f, 0x1.a02156p-13f, 0x1.1110e2p-7f, 0x1.555556p-3f,
};

/* m^(1/3) */
static const float cbrt_guess[] = {
  0x1.d6a8dcp-5f, -0x1.26dc86p-2f, 0x1.7975f2p-1f, 0x1.f92cc8p-2f,
};

/* (atanh s / s - 1 - z/3 - z^2/5) / z^3 in z = s^2 */
static const float atanh_tail5[] = {
  0x1.d9efap-4f, 0x1.24754cp-3f,
};

/* (exp v - 1 - v - v^2/2) / v^3 */
static const float exp_tail3[] = {
  0x1.a23ec2p-13f, 0x1.6d4d08p-10f, 0x1.111006p-7f, 0x1.5554e8p-5f,
  0x1.555556p-3f,
};

/* clang-format on */

#endif
