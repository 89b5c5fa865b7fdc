/* Inverse sines and tangents of f32: see formula_arc.h. */
#include "kernel/tile/formula_f32.h"

#define QUARTER HALF_PI_HIGH
#define QUARTER_LOW HALF_PI_LOW

#include "kernel/tile/formula_arc.h"
