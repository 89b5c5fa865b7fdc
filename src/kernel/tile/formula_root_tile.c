/* Cube roots and lengths of f64: the constants and coefficients for formula_root.h. */
#include "kernel/tile/formula_inner.h"

#define CBRT_2 0x1.428a2f98d728bp+0
#define CBRT_4 0x1.965fea53d6e3dp+0
#define TOO_LARGE 0x1p500
#define TOO_SMALL 0x1p-400
#define SCALE 0x1p-600

/* m^(1/3) */
static const double cbrt_guess[] = { 0x1.ef6684e7ec74ap-7, -0x1.0e2040ad1a642p-3,
                                     0x1.0289f481035a9p-1, -0x1.1dd369c7d9155p+0,
                                     0x1.9640fc65317c6p+0, -0x1.8fbc7ec870ed1p+0,
                                     0x1.5280bfd24fc05p+0, 0x1.85b9b4dec7ccfp-2 };

#include "kernel/tile/formula_root.h"
