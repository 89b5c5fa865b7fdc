/* This file holds the table of the CPU devices' functions and opens the devices of a runtime: it is
 * the one place that names functions of every sub-room. */
#include "comm/peers.h"
#include "kernel/fallback/fallback.h"
#include "kernel/routine/routine.h"
#include "kernel/rows/row_ops.h"
#include "topology/topology.h"

/* A second table (tests/support/guarded_devices.c) forwards to this one, so everything above
 * calls through it and nothing by name. */
static const tsr__row_ops row_ops = {
  .keys_range = tsr__keys_range,
  .pack_keys = tsr__pack_keys,
  .packed_came = tsr__packed_came,
  .gather_column = tsr__gather_column,
  .sort_rows = tsr__sort_rows,
  .top_rows = tsr__top_rows,
  .sort_sample_rows = tsr__sort_sample_rows,
  .sort_split_rows = tsr__sort_split_rows,
  .route_rows = tsr__route_rows,
  .aggregate_groups = tsr__aggregate_groups,
  .group_record_groups = tsr__group_record_groups,
  .tallied_read = tsr__tallied_read,
  .match_find = tsr__match_find,
  .match_left = tsr__match_left,
  .match_right = tsr__match_right,
  .match_keep = tsr__match_keep,
  .match_extent_of = tsr__match_extent_of,
  .match_owners_of = tsr__match_owners_of,
  .match_answers = tsr__match_answers,
  .match_at_home = tsr__match_at_home,
  .homes_group = tsr__homes_group,
  .homes_of_nothing = tsr__homes_of_nothing,
  .homes_send = tsr__homes_send,
  .homes_meet = tsr__homes_meet,
  .homes_settle = tsr__homes_settle,
  .homes_codes = tsr__homes_codes,
  .homes_by_code = tsr__homes_by_code,
  .homes_route = tsr__homes_route,
  .homes_aggregate = tsr__homes_aggregate,
  .homes_dest = tsr__homes_dest,
  .homes_order = tsr__homes_order,
  .homes_first = tsr__homes_first,
  .homes_keep = tsr__homes_keep,
  .leaving_count = tsr__leaving_count,
  .leaving_take = tsr__leaving_take,
  .leaving_join = tsr__leaving_join,
};

static const tsr__device_ops cpu_ops = {
  .kind = "cpu",
  .rows = &row_ops,
  .take = tsr__cpu_take,
  .give = tsr__cpu_give,
  .adopt = tsr__cpu_adopt,
  .memory = tsr__cpu_memory,
  .expect = tsr__cpu_expect,
  .fill = tsr__cpu_fill,
  .number = tsr__cpu_number,
  .map = tsr__cpu_map,
  .unmap = tsr__cpu_unmap,
  .staging_open = tsr__cpu_staging_open,
  .staging_close = tsr__cpu_staging_close,
  .from_host = tsr__cpu_from_host,
  .to_host = tsr__cpu_to_host,
  .copy = tsr__cpu_copy,
  .assemble = tsr__cpu_assemble,
  .pick = tsr__cpu_pick,
  .partial_bytes = tsr__cpu_partial_bytes,
  .disperse = tsr__cpu_disperse,
  .partial = tsr__partial_new,
  .partial_free = tsr__partial_free,
  .partial_take = tsr__partial_take,
  .partial_tell = tsr__partial_tell,
  .partial_far = tsr__partial_far,
  .run = tsr__cpu_run,
  .call = tsr__cpu_call,
  .call_axes = tsr__cpu_call_axes,
  .call_apart = tsr__cpu_call_apart,
  .all_reduce = tsr__cpu_all_reduce,
  .mask_count = tsr__cpu_mask_count,
  .mask_find = tsr__cpu_mask_find,
  .compact = tsr__cpu_compact,
  .mask_first = tsr__cpu_mask_first,
  .call_room = tsr__cpu_call_room,
  .share = tsr__cpu_share,
  .open_shared = tsr__cpu_open_shared,
  .fetch = tsr__cpu_fetch,
};

static void cpu_free(tsr_runtime *rt, void *slot)
{
  tsr__cpu *cpu = slot;
  /* Working memory first: it is the heap's, pools have their own. */
  tsr__scratch *near = atomic_exchange(&cpu->near, NULL);
  if (near) near->next = cpu->idle;
  for (tsr__scratch *next, *s = near ? near : cpu->idle; s; s = next) {
    next = s->next;
    tsr__del(&rt->heap, s->memory, s->size);
    tsr__del(&rt->heap, s, sizeof *s);
  }
  tsr__spares_free(&cpu->headers, &rt->heap);
  tsr__spares_free(&cpu->base.values, &rt->heap);
  for (int i = 0; i < cpu->base.count; i++)
    /* A runtime that could be opened by half is closed here as well. */
    if (cpu->pools[i]) tsr__pool_close(cpu->pools[i]);
  tsr__del(&rt->heap, cpu->pools, (size_t)cpu->base.count * sizeof *cpu->pools);
  pthread_mutex_destroy(&cpu->lock);
  tsr__del(&rt->heap, cpu, sizeof *cpu);
}

/* Nothing of it works by itself. */
static void cpu_leave(tsr_runtime *rt, void *slot)
{
  (void)rt, (void)slot;
}

/* The host's limit is the sum of its devices' limits, and at least the memory that many workers
 * need to read files: the limit covers memory that grows with the rows, not memory that is always
 * in use. */
static int64_t host_share(int64_t limit, int devices)
{
  enum { LEAST = 256 << 20 };
  int64_t share;
  if (limit <= 0) return 0;
  if (__builtin_mul_overflow(limit, devices, &share)) return INT64_MAX;
  return share > LEAST ? share : LEAST;
}

/* The host's part, in which devices of any kind lie beside: pools and working memory. */
static tsr_status open_host(tsr_runtime *rt)
{
  const tsr__topology *topology = tsr__topology_of(rt);
  tsr__cpu *cpu = tsr__new(&rt->heap, sizeof *cpu);
  if (!cpu) return tsr__runtime_fail(rt, TSR_ENOMEM, "tsr_runtime_open: no memory for devices");
  pthread_mutex_init(&cpu->lock, NULL);
  /* Chosen once: which functions a kernel calls cannot change while programs run. */
  cpu->tiles = tsr__tiles_of(rt->isa);
  cpu->base.ops = &cpu_ops;
  /* Device ids count over all processes; pools are those of this one. */
  cpu->base.first = topology->process_index * topology->per_process;
  cpu->base.count = topology->per_process;
  cpu->headers.more = 4 * cpu->base.count; /* a step has some values, each with a buffer a device */
  cpu->pools = tsr__new(&rt->heap, (size_t)cpu->base.count * sizeof *cpu->pools);
  if (!cpu->pools) cpu->base.count = 0;
  bool complete = cpu->pools != NULL;
  /* Other processes read devices' memory in place. */
  tsr__peers *peers = tsr__peers_of(rt);
  for (int i = 0; i < cpu->base.count; i++) {
    cpu->pools[i] = tsr__pool_open(&rt->heap, rt->opts.memory_limit);
    complete = complete && cpu->pools[i];
    if (peers && cpu->pools[i])
      tsr__pool_from(cpu->pools[i], &(tsr__pool_source){ tsr__peers_take, tsr__peers_give,
                                                         tsr__peers_own, peers });
  }
  if (!complete) {
    cpu_free(rt, cpu);
    return tsr__runtime_fail(rt, TSR_ENOMEM, "tsr_runtime_open: no memory for devices");
  }
  /* Set when the devices are there: memory taken until now is the same for every runtime. */
  rt->heap.limit = host_share(rt->opts.memory_limit, cpu->base.count);
  rt->slots[TSR__SLOT_HOST] = cpu;
  rt->slot_free[TSR__SLOT_HOST] = cpu_free;
  rt->slot_leave[TSR__SLOT_HOST] = cpu_leave;
  rt->slots[TSR__SLOT_DEVICES] = &cpu->base;
  /* The devices are a part of the slot HOST, which ends their work. */
  rt->slot_leave[TSR__SLOT_DEVICES] = tsr__slot_stay;
  return TSR_OK;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* The host's part is the CPU devices of every runtime. */
tsr_status tsr__open_cpu(tsr_runtime *rt, int first, int count)
{
  (void)rt, (void)first, (void)count;
  return TSR_OK;
}

/* A buffer is the CPU's or the other kind's: tables of several kinds would need a copy of each to
 * each. */
static tsr_status check_kinds(tsr_runtime *rt, const tsr__topology *topology)
{
  int others = 0;
  for (int k = 0; k < topology->kind_count; k++)
    others += strcmp(topology->kinds[k].name, cpu_ops.kind) != 0;
  if (others > 1)
    return tsr__runtime_fail(rt, TSR_EUNSUPPORTED,
                             "tsr_runtime_open: the devices are of %d kinds beside cpu, expected "
                             "one kind beside cpu; open a runtime for each",
                             others);
  if (topology->kind_count > 1 && tsr__peers_of(rt))
    return tsr__runtime_fail(rt, TSR_EUNSUPPORTED,
                             "tsr_runtime_open: devices of kinds %s and %s in a program of several "
                             "processes, expected devices of one kind; open devices of one kind",
                             topology->kinds[0].name, topology->kinds[1].name);
  return TSR_OK;
}

tsr_status tsr__devices_install(tsr_runtime *rt)
{
  if (rt->error.status != TSR_OK) return rt->error.status;
  const tsr__topology *topology = tsr__topology_of(rt);
  tsr_status status = tsr__isa_resolve(rt);
  if (!status) status = check_kinds(rt, topology);
  if (!status) status = open_host(rt);
  int start = topology->process_index * topology->per_process;
  for (int k = 0; k < topology->kind_count && !status; k++) {
    bool last = k == topology->kind_count - 1;
    int first = topology->kinds[k].first;
    int end = last ? topology->per_process : topology->kinds[k + 1].first;
    status = tsr__kind_open(rt, topology->kinds[k].name, start + first, end - first);
  }
  return status;
}
