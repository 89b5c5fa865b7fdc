/* Opens devices of a kind beside the CPU's, and says which work the host does for them.
 *
 *   slot HOST       CPU devices: pools and working memory for the host's part
 *   slot DEVICES    tsr__other: a copy of the kind's table whose empty places are filled
 *
 * An explanation has a line for each kind of step that the host does, after the steps:
 *
 *   kernel 1 over f32[8]@(x): reads 1 array (32 bytes), stores 1, reduces 0, in one pass
 *   the host does 1 kernel, which devices of kind empty lack: operands and results are copied ...
 *
 * Steps inside loops are not listed, as an explanation does not list them either. */
#include "kernel/fallback/mirror.h"

#include "comm/peers.h"
#include "kernel/rows/row_ops.h"

static size_t marks_bytes(const tsr__other *other)
{
  return ((size_t)other->base.count + 1) * sizeof *other->marked;
}

static void free_other(tsr_runtime *rt, tsr__other *other)
{
  if (other->marked) tsr__del(&rt->heap, other->marked, marks_bytes(other));
  pthread_mutex_destroy(&other->lock);
  tsr__del(&rt->heap, other, sizeof *other);
}

static void close_other(tsr_runtime *rt, void *slot)
{
  tsr__other *other = slot;
  tsr__spares_free(&other->base.values, &rt->heap);
  rt->slots[TSR__SLOT_DEVICES] = other; /* the kind finds its state there */
  tsr__queues_settle(&other->base);
  rt->slots[TSR__SLOT_DEVICES] = NULL;
  if (other->kind.close) other->kind.close(rt, other->kind.state);
  free_other(rt, other);
}

/* Memory may be lent beyond the close: work on it ends now. */
static void leave_other(tsr_runtime *rt, void *slot)
{
  (void)rt;
  tsr__queues_settle(&((tsr__other *)slot)->base);
}

tsr_status tsr__devices_add(tsr_runtime *rt, const tsr__device_kind *kind)
{
  const tsr__devices *cpu = tsr__devices_of(rt);
  /* Peers read memory at an address that is told: work on it would have to be over by then. */
  if (tsr__peers_of(rt) && (!kind->ops->share || kind->queue))
    return tsr__runtime_fail(rt, TSR_EUNSUPPORTED,
                             "tsr_runtime_open: devices of kind %s share no memory between "
                             "processes",
                             kind->ops->kind);
  tsr__other *other = tsr__new(&rt->heap, sizeof *other);
  if (!other) return tsr__runtime_fail(rt, TSR_ENOMEM, "tsr_runtime_open: no memory for devices");
  other->rt = rt;
  other->leaving_end = &other->leaving;
  other->told_end = &other->told;
  other->kind = *kind;
  other->ops = *kind->ops;
  tsr__complete(&other->ops);
  other->base = (tsr__devices){
    .ops = &other->ops, .own = kind->ops, .count = cpu->count, .first = cpu->first
  };
  if (kind->queue) other->ops.take = tsr__queued_take;
  pthread_mutex_init(&other->lock, NULL);
  other->marked = tsr__new(&rt->heap, marks_bytes(other));
  if (!other->marked) {
    free_other(rt, other);
    return tsr__runtime_fail(rt, TSR_ENOMEM, "tsr_runtime_open: no memory for devices");
  }
  rt->slots[TSR__SLOT_DEVICES] = other;
  rt->slot_free[TSR__SLOT_DEVICES] = close_other;
  rt->slot_leave[TSR__SLOT_DEVICES] = leave_other;
  return TSR_OK;
}

void *tsr__kind_state(const tsr_runtime *rt)
{
  return tsr__other_of(rt)->kind.state;
}

int64_t tsr__host_bytes_of(const tsr__devices *devices)
{
  return atomic_load_explicit(&((const tsr__other *)devices)->bytes, memory_order_relaxed);
}

tsr_status tsr__no_mirror(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM,
                        "the host has no memory for a copy of device memory; free arrays");
}

tsr_status tsr__mirrors_check(const tsr__other *other, tsr__error *error)
{
  if (!atomic_load_explicit(&other->lost, memory_order_relaxed))
    return tsr__queues_check(other, error);
  return tsr__error_set(error, TSR_ENOMEM,
                        "the host had no memory for a copy of device memory, so that elements of "
                        "arrays are lost; open a new runtime, with smaller arrays");
}

/* ---- which work ------------------------------------------------------------------------------ */

/* A kind without accumulators of its own cannot add to those of the host. */
static bool has_entry(const tsr__device_ops *own, const tsr__device_work *work)
{
  switch (work->kind) {
  case TSR__WORK_KERNEL:
    return own->run && (own->partial || !tsr__kernel_io_of(work->kernel)->accum_count);
  case TSR__WORK_ROUTINE: return own->call;
  default: return own->all_reduce && own->partial;
  }
}

bool tsr__host_does(const tsr_runtime *rt, const tsr__device_work *work)
{
  const tsr__device_ops *own = tsr__devices_of(rt)->own;
  return own && !(has_entry(own, work) && (!own->supports || own->supports(work)));
}

/* The name of a step in an explanation, by tsr__step_kind; steps without one call no device. */
static const struct step_words {
  const char *one, *many;
} words_of[] = {
  [TSR__STEP_KERNEL] = { "kernel", "kernels" },
  [TSR__STEP_ALL_REDUCE] = { "combination of partial results", "combinations of partial results" },
  [TSR__STEP_RESHARD] = { "move to another sharding", "moves to another sharding" },
  [TSR__STEP_SHIFT] = { "shift between devices", "shifts between devices" },
  [TSR__STEP_COMPACT] = { "removal of filtered rows", "removals of filtered rows" },
  [TSR__STEP_FIRSTN] = { "cut to the first rows", "cuts to the first rows" },
  [TSR__STEP_REBALANCE] = { "move of rows to an even layout", "moves of rows to an even layout" },
  [TSR__STEP_ROUTINE] = { "routine", "routines" },
};

static bool lacks_step(const tsr_runtime *rt, const tsr__program *program, const tsr__step *step)
{
  const tsr__device_ops *own = tsr__devices_of(rt)->own;
  tsr__device_work work = { .program = program, .kernel = step->kernel, .node = step->node };
  switch (step->kind) {
  case TSR__STEP_KERNEL: work.kind = TSR__WORK_KERNEL; return tsr__host_does(rt, &work);
  case TSR__STEP_ROUTINE: work.kind = TSR__WORK_ROUTINE; return tsr__host_does(rt, &work);
  case TSR__STEP_ALL_REDUCE: work.kind = TSR__WORK_ALL_REDUCE; return tsr__host_does(rt, &work);
  case TSR__STEP_RESHARD: return !own->assemble;
  case TSR__STEP_SHIFT:
  case TSR__STEP_REBALANCE: return !own->copy;
  case TSR__STEP_COMPACT: return !own->compact;
  case TSR__STEP_FIRSTN: return !own->mask_first;
  default: return false;
  }
}

void tsr__host_explain(const tsr_runtime *rt, const tsr__program *program,
                       const tsr__schedule *schedule, tsr__text *out)
{
  enum { KINDS = TSR__STEP_LOOP + 1, NAMED = sizeof words_of / sizeof *words_of };
  int count[KINDS] = { 0 };
  if (!tsr__devices_of(rt)->own) return;
  for (int s = 0; s < schedule->step_count; s++)
    count[schedule->steps[s].kind] += lacks_step(rt, program, &schedule->steps[s]);
  for (int k = 0; k < NAMED; k++)
    if (count[k])
      tsr__text_add(out,
                    "the host does %d %s, which devices of kind %s lack: operands and "
                    "results are copied to and from host memory\n",
                    count[k], count[k] == 1 ? words_of[k].one : words_of[k].many,
                    tsr__devices_of(rt)->own->kind);
}

void tsr__host_explain_rows(const tsr_runtime *rt, tsr__text *out)
{
  const tsr__device_ops *own = tsr__devices_of(rt)->own;
  if (own && !own->rows)
    tsr__text_add(out,
                  "the host sorts, groups and joins rows, which devices of kind %s lack: "
                  "columns are copied to and from host memory\n",
                  own->kind);
}
