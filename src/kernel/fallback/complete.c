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
 * It says of kernels over devices of two kinds whether each kind does its own parts. Steps inside
 * loops are not listed, as an explanation does not list them either. */
#include "kernel/fallback/mirror.h"

#include "comm/peers.h"
#include "kernel/rows/row_ops.h"

static size_t marks_bytes(const tsr__other *other)
{
  return ((size_t)other->count + 1) * sizeof *other->marked;
}

static void free_other(tsr_runtime *rt, tsr__other *other)
{
  if (other->marked) tsr__del(&rt->heap, other->marked, marks_bytes(other));
  pthread_mutex_destroy(&other->making);
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
  other->first = kind->count ? kind->first : cpu->first;
  other->count = kind->count ? kind->count : cpu->count;
  other->mixed = other->count < cpu->count;
  other->base = (tsr__devices){
    .ops = &other->ops, .own = kind->ops, .count = cpu->count, .first = cpu->first
  };
  tsr__complete(other);
  pthread_mutex_init(&other->lock, NULL);
  pthread_mutex_init(&other->making, NULL);
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

int64_t tsr__kind_bytes_of(const tsr__devices *devices)
{
  return atomic_load_explicit(&((const tsr__other *)devices)->between, memory_order_relaxed);
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

/* A kind without accumulators of its own cannot add to those of the host, where they lie beside CPU
 * devices. */
static bool has_entry(const tsr__other *other, const tsr__device_work *work)
{
  const tsr__device_ops *own = other->kind.ops;
  bool partials = own->partial && !other->mixed;
  switch (work->kind) {
  case TSR__WORK_KERNEL:
    return own->run && (partials || !tsr__kernel_io_of(work->kernel)->accum_count);
  case TSR__WORK_ROUTINE: return own->call;
  default: return own->all_reduce && partials;
  }
}

bool tsr__host_does(const tsr_runtime *rt, const tsr__device_work *work)
{
  const tsr__device_ops *own = tsr__devices_of(rt)->own;
  return own && !(has_entry(tsr__other_of(rt), work) && (!own->supports || own->supports(work)));
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

/* A step of a program, to be told of. */
typedef struct told_step {
  const tsr_runtime *rt;
  const tsr__program *program;
  const tsr__step *step;
  int node; /* the first that meets, where an all-reduce has several */
} told_step;

static int node_of_told(const tsr__schedule *schedule, const tsr__step *step)
{
  return step->kind == TSR__STEP_ALL_REDUCE ? schedule->accums[step->first].node : step->node;
}

static bool lacks_step(const told_step *told)
{
  const tsr_runtime *rt = told->rt;
  const tsr__step *step = told->step;
  const tsr__device_ops *own = tsr__devices_of(rt)->own;
  tsr__device_work work = { .program = told->program, .kernel = step->kernel, .node = told->node };
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

/* The node that lies on the devices over which a step works. */
static int node_of_devices(const told_step *told)
{
  const tsr__gnode *g = &told->program->nodes[told->node];
  if (told->step->kind == TSR__STEP_KERNEL) return tsr__kernel_io_of(told->step->kernel)->domain;
  return told->step->kind == TSR__STEP_ROUTINE ? tsr__in(told->program, g, 0) : told->node;
}

/* The kinds of those devices. */
static unsigned sides_of_step(const told_step *told)
{
  const tsr__other *other = tsr__other_of(told->rt);
  const tsr__program *program = told->program;
  if (!other->mixed) return TSR__ON_DEVICES;
  const tsr_sharding *over = &program->shardings[program->nodes[node_of_devices(told)].sharding];
  unsigned sides = 0;
  for (int p = 0; p < tsr__positions(over); p++) {
    int device = over->mesh ? tsr__position_device(over, p) : other->base.first;
    sides |= tsr__is_of_kind(other, device) ? TSR__ON_DEVICES : TSR__ON_HOST;
  }
  return sides;
}

/* The doer of a step; moves between kinds have lines of their own, with bytes. */
enum doer { DEVICES, LACKED, ON_TWO_KINDS, BY_TWO_KINDS, DOERS };

static enum doer doer_of(const told_step *told)
{
  unsigned sides = sides_of_step(told);
  if (sides & TSR__ON_DEVICES && lacks_step(told)) return LACKED;
  if (sides != TSR__ON_BOTH) return DEVICES;
  switch (told->step->kind) {
  case TSR__STEP_KERNEL:
    return tsr__kernel_may_fail(told->step->kernel) ? ON_TWO_KINDS : BY_TWO_KINDS;
  case TSR__STEP_ROUTINE: return ON_TWO_KINDS;
  default: return DEVICES;
  }
}

static void add_doer(const tsr_runtime *rt, enum doer doer, const char *steps, int count,
                     tsr__text *out)
{
  const char *kind = tsr__devices_of(rt)->own->kind;
  if (doer == BY_TWO_KINDS)
    tsr__text_add(out, "%d %s run%s on devices of kinds cpu and %s, each part by its own kind\n",
                  count, steps, count == 1 ? "s" : "", kind);
  else if (doer == ON_TWO_KINDS)
    tsr__text_add(out,
                  "the host does %d %s over devices of kinds cpu and %s: operands and results are "
                  "copied to and from host memory\n",
                  count, steps, kind);
  else
    tsr__text_add(out,
                  "the host does %d %s, which devices of kind %s lack: operands and results are "
                  "copied to and from host memory\n",
                  count, steps, kind);
}

void tsr__host_explain(const tsr_runtime *rt, const tsr__program *program,
                       const tsr__schedule *schedule, tsr__text *out)
{
  enum { KINDS = TSR__STEP_LOOP + 1, NAMED = sizeof words_of / sizeof *words_of };
  int count[KINDS][DOERS] = { 0 };
  if (!tsr__devices_of(rt)->own) return;
  for (int s = 0; s < schedule->step_count; s++) {
    const tsr__step *step = &schedule->steps[s];
    const told_step told = { rt, program, step, node_of_told(schedule, step) };
    count[step->kind][doer_of(&told)]++;
  }
  for (int k = 0; k < NAMED; k++)
    for (enum doer by = LACKED; by < DOERS; by++)
      if (count[k][by])
        add_doer(rt, by, count[k][by] == 1 ? words_of[k].one : words_of[k].many, count[k][by], out);
}

void tsr__host_explain_rows(const tsr_runtime *rt, tsr__text *out)
{
  const tsr__device_ops *own = tsr__devices_of(rt)->own;
  if (!own || own->rows) return;
  if (tsr__other_of(rt)->mixed)
    tsr__text_add(
        out,
        "the host sorts, groups and joins rows that lie on devices of kind %s, too: their "
        "columns are copied to and from host memory\n",
        own->kind);
  else
    tsr__text_add(out,
                  "the host sorts, groups and joins rows, which devices of kind %s lack: "
                  "columns are copied to and from host memory\n",
                  own->kind);
}
