/* Cube roots and lengths of f32: see formula_root.h. */
#include "kernel/tile/formula_f32.h"

#define CBRT_2 0x1.428a30p+0f
#define CBRT_4 0x1.965feap+0f
#define TOO_LARGE 0x1p60f
#define TOO_SMALL 0x1p-40f
#define SCALE 0x1p-90f

#include "kernel/tile/formula_root.h"
