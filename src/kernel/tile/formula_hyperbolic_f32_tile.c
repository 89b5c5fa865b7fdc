/* Hyperbolic functions and their like of f32: see formula_hyperbolic.h. */
#include "kernel/tile/formula_f32.h"

#define EXP_MOST 88

#include "kernel/tile/formula_hyperbolic.h"
