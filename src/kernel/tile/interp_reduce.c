/* Reductions of a tile, run by run: a run is what goes across into one element of an accumulator or
 * along into neighbouring ones; elements with group codes go where these say (accum.h).
 *
 * All ways of one row keep the same accumulators, and all but products of floats are exact, so how
 * a domain was cut into runs cannot show. */
#include "kernel/tile/interp.h"

static bool in_group(const tsr__feed *f, int64_t groups, int32_t code, int64_t i)
{
  return (code >= 0) & (code < groups) & tsr__taken(f->mask, i);
}

/* Scatters the elements that count. Under a mask they are put side by side first, without a jump:
 * where it follows no pattern, every loop above would guess wrong at every other element. */
static void scatter_taken(tsr__feed *f, int64_t groups, const int32_t *codes, int32_t *room)
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
    room[count] = codes[i];
    place[count] = (uint16_t)i;
    count += in_group(f, groups, codes[i], i);
  }
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
static const uint64_t *bits_from(const uint64_t *bits, int64_t at, int64_t n, uint64_t *room)
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
    scatter_taken(&f, info->groups, task->slot[info->codes], task->codes);
    return;
  }
  const tsr__walk *walk = &red->walk;
  if (walk->rank == 1 && walk->step[0] == 0) {
    ops->across(&f);
    return;
  }
  uint64_t x_room[TSR__TILE / 64], mask_room[TSR__TILE / 64];
  bool inner_kept = walk->step[walk->rank - 1] != 0, bits = info->dtype == TSR_BOOL;
  size_t size = tsr_dtype_size((tsr_dtype)info->dtype);
  void (*take)(const tsr__feed *) = inner_kept ? ops->along : ops->across;
  for (int64_t i = 0; i < n; i += f.n) {
    f.element = tsr__walk_at(walk, at + i, &f.n);
    if (f.n > n - i) f.n = n - i;
    f.at = at + i;
    f.mask = bits_from(mask, i, f.n, mask_room);
    if (x)
      f.x = bits ? (const void *)bits_from(x, i, f.n, x_room) : (const char *)x + (size_t)i * size;
    take(&f);
  }
}
