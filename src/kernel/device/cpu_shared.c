/* Memory of the CPU devices between processes.
 *
 *   owner       segment   | ... | buffer | ...        the handle: the offset of the buffer there
 *   peer        window       | ... | buffer | ...     the same memory, mapped at another address
 *   other host  mirror       | ... | .. .. | ...      address space into which bytes are fetched */
#include "comm/peers.h"
#include "kernel/device/cpu.h"

bool tsr__cpu_share(const tsr__buffer *buffer, uint64_t *handle)
{
  const tsr__peers *peers = tsr__peers_of(buffer->rt);
  if (!peers || !tsr__peers_has(peers, tsr__cpu_data(buffer))) return false;
  *handle = tsr__peers_offset(peers, tsr__cpu_data(buffer));
  return true;
}

tsr__buffer *tsr__cpu_open_shared(tsr_runtime *rt, int device, uint64_t handle, size_t bytes,
                                  tsr__error *error)
{
  int process = tsr__device_process(tsr__topology_of(rt), device);
  tsr__foreign memory = { tsr__peers_at(tsr__peers_of(rt), process, handle, bytes), bytes, NULL,
                          NULL };
  tsr__buffer *opened = memory.data ? tsr__cpu_adopt(rt, device, &memory) : NULL;
  if (!opened) tsr__error_set(error, TSR_ENOMEM, "no memory to read the shards of other processes");
  return opened;
}

/* Memory that the user lent is on a device of this process. */
void tsr__cpu_fetch(const tsr__buffer *opened, const tsr__byte_runs *runs)
{
  if (!tsr__buffer_lent(opened)) return;
  int process = tsr__device_process(tsr__topology_of(opened->rt), opened->device);
  tsr__peers_fetch(tsr__peers_of(opened->rt), process,
                   (const char *)tsr__cpu_data(opened) + runs->first,
                   &(tsr__peers_runs){ runs->bytes, runs->count, runs->stride });
}
