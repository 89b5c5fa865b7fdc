/* Reductions of a tile, run by run: a run goes across into one element of an accumulator or along
 * into neighbouring ones; elements with group codes go where these say (accum.h).
 *
 * All ways of one row keep the same accumulators, and all but products of floats are exact, so how
 * a domain was cut into runs cannot show. */
#include "kernel/tile/interp.h"

static bool in_group(const tsr__feed *f, int64_t groups, int32_t code, int64_t i)
{
  /* Without && for the same reason: no jump. */
  return (code >= 0) & (code < groups) & tsr__taken(f->mask, i);
}

/* Scatters the elements that count. Under a mask the elements of types other than bool are first
 * put side by side without a branch: a branch on a mask without a pattern is predicted wrong at
 * every other element. Otherwise an element that is left out gets the code -1. */
static void scatter_taken_elements(tsr__feed *f, int64_t groups, const int32_t *codes,
                                   int32_t *room)
{
  uint16_t place[TSR__TILE];
  _Alignas(8) unsigned char values[TSR__TILE * 8];
  const char *x = f->x;
  int64_t count = 0, n = f->n;
  if (!f->mask || (x && f->dtype == TSR_BOOL)) {
    for (int64_t i = 0; i < n; i++) room[i] = in_group(f, groups, codes[i], i) ? codes[i] : -1;
    f->to->ops->scatter(f, room);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    /* Written always and kept only if it counts: the next one goes over it otherwise. */
    room[count] = codes[i];
    place[count] = (uint16_t)i;
    count += in_group(f, groups, codes[i], i);
  }
  /* Places of the compacted elements, for accumulators that ask where an element stood. */
  f->kept = place;
  if (x && tsr_dtype_size((tsr_dtype)f->dtype) == 8)
    for (int64_t k = 0; k < count; k++) memcpy(values + 8 * k, x + 8 * place[k], 8);
  else if (x)
    for (int64_t k = 0; k < count; k++) memcpy(values + 4 * k, x + 4 * place[k], 4);
  if (x) f->x = values;
  f->n = count;
  f->to->ops->scatter(f, room);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* `n` bits from bit `at` on, moved to the start of `room` if they do not start a word. */
static const uint64_t *bits_from_place(const uint64_t *bits, int64_t at, int64_t n, uint64_t *room)
{
  if (!bits) return NULL;
  if (at % 64 == 0) return bits + at / 64;
  for (int64_t i = 0; i < n; i += 64)
    room[i / 64] = tsr__bits_get(bits, at + i, n - i < 64 ? (int)(n - i) : 64);
  return room;
}

void tsr__do_reduce(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n)
{
  const tsr__redinfo *info = &task->kernel->reds[inst->extra];
  tsr__reducing *red = &task->reds[inst->extra];
  const void *x = task->slot[info->value];
  const uint64_t *mask = task->slot[info->mask];
  const tsr__accum_ops *ops = red->to->ops;
  tsr__feed f = { .to = red->to,
                  .tiles = task->tiles,
                  .grid = &red->grid,
                  .dtype = info->dtype,
                  .x = x,
                  .mask = mask,
                  .n = n,
                  .places = &red->places,
                  .at = at };
  if (info->codes >= 0) {
    scatter_taken_elements(&f, info->groups, task->slot[info->codes], task->codes);
    return;
  }
  const tsr__walk *walk = &red->walk;
  /* All of the part into one element: the usual sum. */
  if (walk->rank == 1 && walk->step[0] == 0) {
    ops->across(&f);
    return;
  }
  uint64_t x_room[TSR__TILE / 64], mask_room[TSR__TILE / 64];
  bool inner_kept = walk->step[walk->rank - 1] != 0, bits = info->dtype == TSR_BOOL;
  size_t size = tsr_dtype_size((tsr_dtype)info->dtype);
  void (*take)(const tsr__feed *) = inner_kept ? ops->along : ops->across;
  for (int64_t i = 0; i < n; i += f.n) {
    /* A run ends with the dim or with the tile, whichever comes first. */
    f.element = tsr__walk_at(walk, at + i, &f.n);
    if (f.n > n - i) f.n = n - i;
    f.at = at + i;
    f.mask = bits_from_place(mask, i, f.n, mask_room);
    if (x)
      f.x = bits ? (const void *)bits_from_place(x, i, f.n, x_room)
                 : (const char *)x + (size_t)i * size;
    take(&f);
  }
}

enum { SHORT_ROW = 2048 };

/* ---- many rows ------------------------------------------------------------------------------- */

/*   domain   [.., rows, columns], of which `rows` is reduced: a run is a row
 *
 * Plain sums of short rows stay in the nearest cache, where one by one is as good. */
static bool is_down(const tsr__task *task, const tsr__inst *inst)
{
  if (inst->op != TSR__K_REDUCE) return false;
  const tsr__redinfo *info = &task->kernel->reds[inst->extra];
  const tsr__reducing *red = &task->reds[inst->extra];
  const tsr__slotinfo *slot = info->value < 0 ? NULL : &task->kernel->slots[info->value];
  int last = red->walk.rank - 1;
  if (last < 1 || (red->to->ops->rows < 2 && red->walk.size[last] <= SHORT_ROW)) return false;
  return red->to->ops->down && info->codes < 0 && info->mask < 0 && info->dtype == TSR_F32 &&
         slot && slot->kind == TSR__SLOT_INPUT && slot->dtype == TSR_F32 &&
         red->walk.step[last] == 1 && red->walk.step[last - 1] == 0;
}

/* Only a kernel of nothing but such reductions of inputs: others want tiles. */
bool tsr__goes_down(const tsr__task *task)
{
  const tsr__kernel *k = task->kernel;
  for (int i = k->prologue_count; i < k->inst_count; i++)
    if (!is_down(task, &k->insts[i])) return false;
  return k->inst_count > k->prologue_count;
}

/* Elements from .. in one reduction: whole rows together, the rest of a row by itself. */
static bool reduce_down(tsr__task *task, const tsr__inst *inst, int64_t from, int64_t to)
{
  enum { MOST = 1 << 20 }; /* elements between two questions whether to go on */
  const tsr__redinfo *info = &task->kernel->reds[inst->extra];
  tsr__reducing *red = &task->reds[inst->extra];
  const float *x = tsr__cpu_data(task->part->inputs[task->kernel->slots[info->value].index]);
  const int64_t *size = red->walk.size + red->walk.rank - 1, row = size[0];
  tsr__feed f = { .to = red->to, .tiles = task->tiles, .grid = &red->grid, .dtype = TSR_F32 };
  for (int64_t at = from, left; at < to; at += left) {
    if (tsr__task_stops(task)) return false;
    f.x = x + at;
    f.element = tsr__walk_at(&red->walk, at, &f.n);
    int64_t rows = size[-1] - at / row % size[-1], whole = (to - at) / row, most = MOST / row + 1;
    /* Whole rows within the stretch; the rest of a row at its ends goes along by itself. */
    if (rows > whole) rows = whole;
    if (rows > most) rows = most;
    left = f.n < to - at ? f.n : to - at;
    if (f.n == row && rows > 1) {
      red->to->ops->down(&f, rows);
      left = rows * row;
      continue;
    }
    if (left > TSR__TILE) left = TSR__TILE;
    f.n = left;
    red->to->ops->along(&f);
  }
  return true;
}

/* One reduction after the other over the whole stretch, as each of them streams its operand by
 * itself and there is nothing else in the kernel. */
void tsr__do_down(tsr__task *task, int64_t from, int64_t to)
{
  const tsr__kernel *k = task->kernel;
  for (int i = k->prologue_count; i < k->inst_count; i++)
    if (!reduce_down(task, &k->insts[i], from, to)) return;
}
