/* Powers of f32: see formula_pow.h. */
#include "kernel/tile/formula_f32.h"

#define LN2_NEAR LN2_HIGH
#define LN2_REST LN2_LOW
#define FAR 160
#define MOST_EXPONENT 1e37f

#include "kernel/tile/formula_pow.h"
