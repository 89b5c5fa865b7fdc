/* Inside kernel/: the instruction sets of this build. */
#ifndef TSR_KERNEL_ISA_H
#define TSR_KERNEL_ISA_H

#include "kernel/tile/interp_tile.h"

/* The tile functions of an instruction set; NULL if the build or the machine lacks it. */
const tsr__tiles *tsr__tiles_of(const char *isa);

/* Names the instruction set that the kernels of a runtime run with: fills rt->isa from opts,
 * $TSR_ISA or cpuid. */
tsr_status tsr__isa_resolve(tsr_runtime *rt);

#endif
