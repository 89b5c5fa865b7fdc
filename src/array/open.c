/* Opening a runtime: the parts of all rooms, put together in the order of their levels. */
#include "array/array_room.h"
#include "comm/comm.h"

/* From the lowest level up, as each stands on those before; what fails is kept in the runtime. */
static void install(tsr_runtime *rt, const char *devices)
{
  tsr_status status = tsr__topology_install(rt, devices);
  if (!status) status = tsr__devices_install(rt);
  if (!status) tsr__engine_install(rt);
}

tsr_runtime *tsr_runtime_open_with(const char *devices, const tsr_runtime_opts *opts)
{
  tsr_runtime *rt = tsr__runtime_new(opts);
  if (tsr_runtime_status(rt) == TSR_OK) install(rt, devices);
  return rt;
}

/* Whether an option of a caller's struct, which may be shorter than ours, is there. */
#define HAS(opts, field) \
  ((opts) &&             \
   (!(opts)->size || (opts)->size >= offsetof(tsr_process_opts, field) + sizeof(opts)->field))

tsr_runtime *tsr_initialize_with(const char *devices, const tsr_process_opts *opts)
{
  tsr_runtime *rt = tsr__runtime_new(HAS(opts, runtime) ? opts->runtime : NULL);
  if (tsr_runtime_status(rt) == TSR_OK) install(rt, devices);
  /* Last: a process that cannot do its part does not join at all. */
  if (tsr_runtime_status(rt) == TSR_OK) tsr__comm_install(rt, opts);
  return rt;
}

tsr_memory tsr_device_memory(const tsr_runtime *rt, int device)
{
  /* Devices of other processes have no pool here. */
  tsr__devices *devices = rt && !rt->error.status ? tsr__devices_of(rt) : NULL;
  int at = devices ? device - devices->first : -1;
  if (at < 0 || at >= devices->count) return (tsr_memory){ 0 };
  return tsr__pool_memory(devices->pools[at]);
}

int tsr_device_count(const tsr_runtime *rt)
{
  tsr__topology *topology = rt && !rt->error.status ? tsr__topology_of(rt) : NULL;
  return topology ? topology->device_count : 0;
}

const char *tsr_isa(const tsr_runtime *rt)
{
  return rt ? rt->isa : "";
}
