/* A runtime that has devices and nothing else, for tests of the lower rooms. */
#ifndef TESTS_SUPPORT_TOPOLOGY_FIXTURE_H
#define TESTS_SUPPORT_TOPOLOGY_FIXTURE_H

#include "harness.h"
#include "topology/topology.h"

static inline tsr_runtime *fixture_devices(const char *devices)
{
  tsr_allocator kept = test_kept(); /* most tests of plans take nothing down */
  tsr_runtime *rt =
      tsr__runtime_new(&(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .allocator = &kept });

  CHECK_STATUS(tsr__topology_install(rt, devices), TSR_OK, NULL);
  return rt;
}

/* Whether the text of a sharding was wrong, or its mesh. */
static inline bool fixture_bad_spec(tsr_sharding sharding)
{
  return sharding.mesh && tsr_mesh_status(sharding.mesh) != TSR_OK;
}

/* The number of its devices; 0 when it has no topology. */
static inline int fixture_count(const tsr_runtime *rt)
{
  const tsr__topology *topology = tsr__topology_of(rt);

  return topology ? topology->device_count : 0;
}

/* How many dtypes there are: a row of their table each. */
enum {
#define DTYPE(...) +1
  FIXTURE_DTYPES = 0
#include "topology/dtypes.def"
#undef DTYPE
};

/* One dtype after the other, again from the first. */
static inline tsr_dtype fixture_dtype(int64_t number)
{
  number %= FIXTURE_DTYPES;
  TSR__FOR_DTYPES(dtype)
  if (number-- == 0) return (tsr_dtype)dtype;
  return TSR_F64;
}

#endif
