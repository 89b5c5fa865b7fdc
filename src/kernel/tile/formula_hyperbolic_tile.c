/* Hyperbolic functions and their like of f64: the constants and coefficients for
 * formula_hyperbolic.h. */
#include "kernel/tile/formula_exp.h"

#define EXP_MOST 709

/* (sinh x - x) / x^3 in x^2 */
static const double sinh_tail[] = { 0x1.b41232cf9950fp-41, 0x1.611cb330c1fe8p-33,
                                    0x1.ae6460fae3728p-26, 0x1.71de3a4e14f40p-19,
                                    0x1.a01a01a01ee70p-13, 0x1.11111111110fdp-7,
                                    0x1.5555555555555p-3 };

#include "kernel/tile/formula_hyperbolic.h"
