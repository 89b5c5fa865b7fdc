/* For tests that take any mesh: rows split over its first axis. */
#ifndef TSR_TESTS_FIRST_AXIS_H
#define TSR_TESTS_FIRST_AXIS_H

#include "tessera/topology.h"

static inline tsr_sharding first_axis(const tsr_mesh *mesh)
{
  return tsr_on(mesh, tsr_mesh_axis_name(mesh, 0));
}

#endif
