/* Opening a runtime: the parts of all rooms, put together in the order of their levels. */
#include "array/array_room.h"
#include "comm/comm.h"
#include "comm/peers.h"

#include <stdio.h>
#include <stdlib.h>

/* Whose devices a text names. */
typedef enum devices_of {
  OF_PROCESS, /* this process's; the others have as many of their own */
  OF_ALL      /* all processes', dealt out to them */
} devices_of;

/* Names the numbers of processes that would do. */
static tsr_status fail_to_deal(tsr_runtime *rt, const char *devices, int count)
{
  int all = tsr__topology_of(rt)->device_count;
  tsr__text counts;
  tsr__text_init(&counts, &rt->heap);
  for (int n = 1; n <= all; n++)
    if (all % n == 0) tsr__text_add(&counts, "%s%d", n > 1 ? ", " : "", n);
  tsr__runtime_fail(
      rt, TSR_EARG,
      "tsr_runtime_open: the %d devices of \"%s\" cannot be split evenly over %d processes; start "
      "a number of processes that divides %d (%.200s), or open %d devices",
      all, devices, count, all, tsr__text_get(&counts), (all + count - 1) / count * count);
  tsr__text_free(&counts);
  return TSR_EARG;
}

/*   "cpu:4", 2 processes     OF_PROCESS   8 devices, 0-3 here and 4-7 there
 *                            OF_ALL       4 devices, 0-1 here and 2-3 there */
static tsr_status deal_out(tsr_runtime *rt, devices_of whose, const char *devices)
{
  int count = tsr_process_count(rt), index = tsr_process_index(rt);
  if (whose == OF_PROCESS && !tsr__topology_spread(rt, count, index))
    return tsr__runtime_fail(rt, TSR_EARG,
                             "tsr_initialize: %d processes with \"%s\" each have more devices "
                             "together than a runtime can have; open fewer",
                             count, devices);
  if (whose == OF_ALL && !tsr__topology_split(rt, count, index))
    return fail_to_deal(rt, devices, count);
  return TSR_OK;
}

/* What a runtime is opened with. */
typedef struct opening {
  const char *devices;
  devices_of whose;
  bool counted; /* the user says how many threads */
} opening;

/* From the lowest level up, as each stands on those before; what fails is kept in the runtime. */
static void install(tsr_runtime *rt, const opening *o)
{
  const char *devices = o->devices;
  devices_of whose = o->whose;
  bool several = tsr_process_count(rt) > 1;
  tsr_status status = several ? tsr__comm_share(rt) : TSR_OK;
  /* Workers of several processes on the same cores would only take them from each other. No thread
   * has been started yet. */
  if (!status && several && !o->counted) rt->opts.threads = tsr__peers_cores(tsr__peers_of(rt));
  if (!status) status = tsr__topology_install(rt, devices);
  if (!status && several) status = deal_out(rt, whose, devices);
  if (!status) status = tsr__devices_install(rt);
  if (!status) tsr__engine_install(rt);
}

/* What all processes must say alike of their devices. */
typedef struct device_words {
  char text[48];
} device_words;

static device_words words_of(const tsr__topology *topology, devices_of whose)
{
  device_words words;
  snprintf(words.text, sizeof words.text, "%d of %s", topology->device_count,
           whose == OF_ALL ? "all processes" : "each process");
  return words;
}

/* A process that cannot do its part does not join at all. */
static void join(tsr_runtime *rt, const opening *o, const tsr_process_opts *opts)
{
  tsr__topology parsed;
  tsr__error error = { .status = TSR_OK };
  if (tsr__topology_parse(o->devices, &parsed, &error))
    tsr__runtime_fail(rt, error.status, "tsr_initialize: %s", error.text);
  else tsr__comm_install(rt, words_of(&parsed, o->whose).text, opts);
}

/* Whether an option of a caller's struct, which may be shorter than ours, is there. */
#define HAS(opts, field) \
  ((opts) &&             \
   (!(opts)->size || (opts)->size >= offsetof(tsr_process_opts, field) + sizeof(opts)->field))

tsr_runtime *tsr_initialize_with(const char *devices, const tsr_process_opts *opts)
{
  const tsr_runtime_opts *own = HAS(opts, runtime) ? opts->runtime : NULL;
  tsr_runtime *rt = tsr__runtime_new(own);
  const opening o = { devices, OF_PROCESS, own && own->threads > 0 };
  if (tsr_runtime_status(rt) == TSR_OK) join(rt, &o, opts);
  if (tsr_runtime_status(rt) == TSR_OK) install(rt, &o);
  return rt;
}

/* The runtime of those that are left of one, which it closes. */
static tsr_runtime *regroup(tsr_runtime *rt, tsr__comm *comm, const char *devices, double timeout)
{
  tsr__error error = { .status = TSR_OK };
  tsr__topology parsed = { .device_count = 0 };
  tsr__role role;
  tsr_runtime *next = tsr__runtime_new(rt ? &rt->opts : NULL);
  if ((comm && tsr__topology_parse(devices, &parsed, &error)) ||
      tsr__comm_leave(comm, timeout, &role, &error))
    tsr__runtime_fail(next, error.status, "tsr_process_regroup: %s", error.text);
  /* Process 0 listens at one address for both. */
  tsr_runtime_close(rt);
  if (tsr_runtime_status(next) == TSR_OK)
    tsr__comm_join(next, words_of(&parsed, OF_PROCESS).text, &role);
  /* It has as many threads as before. */
  if (tsr_runtime_status(next) == TSR_OK) install(next, &(opening){ devices, OF_PROCESS, true });
  return next;
}

/* The old runtime ends in any case, and what comes back is a runtime, with its error if there is
 * one: so callers have one to close, whatever happened. Where another process dies before the new
 * one is whole, those that are left of that go on. */
tsr_runtime *tsr_process_regroup_with(tsr_runtime *rt, const char *devices,
                                      const tsr_regroup_opts *opts)
{
  tsr_regroup_opts own = { .size = sizeof own };
  tsr__error error = { .status = TSR_OK };
  if (tsr__take_opts("tsr_process_regroup", opts, &own, sizeof own, &error)) {
    tsr_runtime *none = tsr__runtime_new(rt ? &rt->opts : NULL);
    tsr__runtime_fail(none, error.status, "tsr_process_regroup: %s", error.text);
    tsr_runtime_close(rt);
    return none;
  }
  tsr_runtime *next = regroup(rt, tsr__comm_of(rt), devices, own.timeout);
  while (tsr_runtime_status(next) == TSR_EPEER && next->slots[TSR__SLOT_COMM] &&
         tsr__comm_failed(next->slots[TSR__SLOT_COMM], &error))
    next = regroup(next, next->slots[TSR__SLOT_COMM], devices, own.timeout);
  return next;
}

/* Whether who started this process says that it is one of several, so that programs that know
 * nothing of that run on all of them. What is no count is for who joins to refuse, and devices that
 * cannot be dealt out for all of them: a program that one of them started finds that it is none. */
static bool is_one_of_several(const char *devices)
{
  const char *text = getenv("TSR_PROCESS_COUNT");
  tsr__topology parsed;
  tsr__error error = { .status = TSR_OK };
  long count = text && getenv("TSR_COORDINATOR") ? strtol(text, NULL, 10) : 1;
  return count != 1 && !tsr__topology_parse(devices, &parsed, &error);
}

tsr_runtime *tsr_runtime_open_with(const char *devices, const tsr_runtime_opts *opts)
{
  tsr_runtime *rt = tsr__runtime_new(opts);
  const opening o = { devices, OF_ALL, opts && opts->threads > 0 };
  if (is_one_of_several(devices) && tsr_runtime_status(rt) == TSR_OK) join(rt, &o, NULL);
  if (tsr_runtime_status(rt) == TSR_OK) install(rt, &o);
  return rt;
}

tsr_memory tsr_device_memory(const tsr_runtime *rt, int device)
{
  if (!rt || rt->error.status) return (tsr_memory){ 0 };
  return tsr__devices_of(rt)->ops->memory(rt, device);
}

int tsr_device_count(const tsr_runtime *rt)
{
  tsr__topology *topology = rt && !rt->error.status ? tsr__topology_of(rt) : NULL;
  return topology ? topology->device_count : 0;
}

const char *tsr_device_kind(const tsr_runtime *rt, int device)
{
  const tsr__topology *topology = rt && !rt->error.status ? tsr__topology_of(rt) : NULL;
  if (!topology || device < 0 || device >= topology->device_count) return "";
  return topology->kinds[tsr__device_kind_of(topology, device)].name;
}

const char *tsr_isa(const tsr_runtime *rt)
{
  return rt ? rt->isa : "";
}
