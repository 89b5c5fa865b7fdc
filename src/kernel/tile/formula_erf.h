/* The error function of f64 or f32 and its complement to 1. `erf_near`, of a size below 1, and
 * `erfc_far`, of one from 0.47 on, stand before this. */
#ifndef TSR_KERNEL_FORMULA_ERF_H
#define TSR_KERNEL_FORMULA_ERF_H

#include "kernel/tile/formula_inner.h"

INLINE val erf_of(val x)
{
  val size = size_of(x), one = real(1);
  val far = one - erfc_far(size);
  return with_sign_of(where(size < one, erf_near(size), far), x);
}

INLINE val erfc_of(val x)
{
  val size = size_of(x), far = erfc_far(size);
  far = where(is_minus(x), real(2) - far, far);
  val near = real(1) - erf_near(x);
  return where(size < real((element)0.8), near, far);
}

#endif
