/* Gradients of views: elements go back to where they were shown from, and add up where they were
 * shown more than once. All of it are views again, so nothing is computed but sums. */
#include "tessera/shape.h"
#include "transform/backward.h"

typedef tsr_array array;

static array *sliced(const tsr__pull *p, array *a, const tsr__slice_attr *attr)
{
  tsr__ask ask = { .attr = attr, .attr_bytes = sizeof *attr };
  return tsr__make(NULL, TSR__OP_SLICE, TSR__IN(a), &ask, p->site);
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* A dim of n elements becomes one of n * step, `first` zeros in front of each element. */
static array *spread(const tsr__pull *p, array *a, int dim, int64_t step, int64_t first)
{
  return tsr__spread_dim(&(tsr_pad_args){ .x = a }, dim, step, first, p->site);
}

/*   a b c, step 3      a . . b . . c . .      the last two are cut: a . . b . . c */
array *tsr__spaced(const tsr__pull *p, array *a, int dim, int64_t step)
{
  if (step == 1 || a->inert || a->shape.dims[dim] < 2) return a;
  int64_t end = (a->shape.dims[dim] - 1) * step + 1;
  return tsr__part(spread(p, a, dim, step, 0), dim, (tsr_range){ 0, end, 1 }, p->site);
}

/* Turned the right way round, spread, and put between zeros.
 *
 *   x 0 1 2 3 4 5 6     x[5:0:-2] shows 5 3 1     due a b c
 *   turned c b a, from 1 on in steps of 2        . c . b . a .
 *
 * A step of 0 is a dim that was left as it is. */
void tsr__grad_slice(const tsr__pull *p)
{
  const tsr__slice_attr *attr = p->attr;
  const tsr_shape *from = &p->in[0]->shape;
  tsr_pad_args pad = { .size = sizeof pad, .x = p->due };
  bool any = false;
  for (int d = 0; d < from->rank && !pad.x->inert; d++) {
    int64_t step = attr->step[d], size = attr->size[d], first = attr->start[d];
    if (!step) continue;
    if (step < 0 && size > 1) {
      pad.x = tsr_flip_at(pad.x, (tsr_dims){ .bits = 1u << d }, p->site);
      first += (size - 1) * step;
      step = -step;
    }
    /* Elements of whole steps, as of windows side by side, lie between zeros already. */
    bool steps = step > 1 && size > 1 && first < step && size * step == from->dims[d];
    pad.x = steps ? spread(p, pad.x, d, step, first) : tsr__spaced(p, pad.x, d, step);
    if (pad.x->inert) break;
    pad.low[d] = size && !steps ? first : 0;
    pad.high[d] = from->dims[d] - pad.low[d] - pad.x->shape.dims[d];
    any |= pad.low[d] || pad.high[d];
  }
  tsr__give(p, 0, any ? tsr_pad_at(&pad, p->site) : pad.x);
}

/* The operand's part of a padded array. Of an empty operand no place is inside, and a slice of size
 * 0 must still begin in the array. */
static tsr__slice_attr inner_of(const tsr__pull *p)
{
  const tsr__pad_attr *attr = p->attr;
  tsr__slice_attr inner = { .start = { 0 } };
  for (int d = 0; d < p->in[0]->shape.rank; d++) {
    if (!attr->low[d] && !attr->high[d]) continue;
    inner.start[d] = p->in[0]->shape.dims[d] ? attr->low[d] : 0;
    inner.step[d] = 1;
    inner.size[d] = p->in[0]->shape.dims[d];
  }
  return inner;
}

/* Of the operand's ends that were cut off nothing was shown: zeros are due to them. */
static array *without_borders(const tsr__pull *p)
{
  const tsr__pad_attr *attr = p->attr;
  tsr_pad_args pad = { .size = sizeof pad, .x = p->due };
  tsr__slice_attr inner = inner_of(p);
  bool cut = false;
  for (int d = 0; d < p->out->shape.rank; d++) {
    pad.low[d] = -attr->low[d];
    pad.high[d] = -attr->high[d];
    cut |= attr->low[d] < 0 || attr->high[d] < 0;
  }
  if (cut) return tsr_pad_at(&pad, p->site);
  array *windows = tsr__windows_part(p, &inner);
  return windows ? windows : sliced(p, p->due, &inner);
}

/* The number around it is in all of the border. */
void tsr__grad_pad(const tsr__pull *p)
{
  const tsr__pad_attr *attr = p->attr;
  if (tsr__wants(p, 0)) tsr__give(p, 0, without_borders(p));
  if (!tsr__wants(p, 1)) return;
  array *inside = tsr_full_at(tsr__home(p->due), tsr_operand_bool(false), TSR_BOOL, p->in[0]->shape,
                              (tsr_sharding){ 0 }, p->site);
  tsr_pad_args pad = { .size = sizeof pad, .x = inside, .value = tsr_operand_bool(true) };
  memcpy(pad.low, attr->low, sizeof pad.low);
  memcpy(pad.high, attr->high, sizeof pad.high);
  tsr_reduce_args sum = { .size = sizeof sum, .x = p->due, .where = tsr_pad_at(&pad, p->site) };
  tsr__give(p, 1, tsr_sum_at(&sum, p->site));
}

/* ---- the others ------------------------------------------------------------------------------ */

void tsr__grad_transpose(const tsr__pull *p)
{
  const tsr__order_attr *order = p->attr;
  int back[TSR_MAX_RANK], rank = p->in[0]->shape.rank;
  for (int d = 0; d < rank; d++) back[order->dims[d]] = d;
  tsr__give(p, 0, rank ? tsr_transpose_at(p->due, back, rank, p->site) : p->due);
}

void tsr__grad_broadcast(const tsr__pull *p)
{
  tsr__give(p, 0, p->due);
}

void tsr__grad_reshape(const tsr__pull *p)
{
  tsr__give(p, 0, tsr_reshape_at(p->due, p->in[0]->shape, p->site));
}

/* Zeros but for the diagonal, which as a column between zeros broadcasts to the matrix. */
void tsr__grad_diagonal(const tsr__pull *p)
{
  const tsr__diagonal_attr *attr = p->attr;
  const tsr_shape *x = &p->in[0]->shape;
  int d = (int)attr->dim, next = d + 1;
  tsr_pad_args pad = { .size = sizeof pad, .x = p->due };
  pad.low[d] = attr->offset < 0 ? -attr->offset : 0;
  pad.high[d] = x->dims[d] - pad.low[d] - p->out->shape.dims[d];
  array *column = tsr_expand_dims_at(tsr_pad_at(&pad, p->site), tsr_dims_of(&next, 1), p->site);
  tsr_shape line[2] = { *x, *x };
  for (int k = 0; k < x->rank; k++) line[0].dims[k] = k == d ? x->dims[k] : 1;
  for (int k = 0; k < x->rank; k++) line[1].dims[k] = k == next ? x->dims[k] : 1;
  tsr_sharding any = { .mesh = NULL };
  array *row = tsr_iota_at(tsr__home(p->due), TSR_I64, line[0], d, any, p->site);
  array *at = tsr_iota_at(tsr__home(p->due), TSR_I64, line[1], next, any, p->site);
  row = tsr_add_at(row, tsr_operand_int(attr->offset), p->site);
  tsr__give(p, 0, tsr__only(p, tsr_eq_at(row, tsr_operand_array(at), p->site), column));
}

/* Both operands are one. */
void tsr__grad_roll(const tsr__pull *p)
{
  const tsr__roll_attr *roll = p->attr;
  int dim = (int)roll->dim;
  int64_t shift = -roll->count;
  tsr__give(p, 0, tsr_roll_at(p->due, &shift, &dim, 1, p->site));
}

/* Lists where each element was shown: by element, `most` places each, below 0 where it was shown
 * less often. NULL: no memory.
 *
 *   picks   2 0 2 -     of 4 elements, most 2      1 -  - -  0 2  - - */
static int32_t *find_places_shown(const tsr__pull *p, int64_t size, int64_t *most)
{
  const tsr__pick_attr *attr = p->attr;
  int64_t count = p->out->shape.dims[attr->dim];
  tsr__arena *arena = &tsr__home(p->due)->arena;
  int32_t *times = tsr__arena_new(arena, ((size_t)size + 1) * sizeof *times);
  *most = 0;
  for (int64_t i = 0; times && i < count; i++) {
    int32_t from = attr->picks[i];
    if (from >= 0 && ++times[from] > *most) *most = times[from];
  }
  int32_t *shown = tsr__arena_new(arena, ((size_t)(size * *most) + 1) * sizeof *shown);
  if (!times || !shown) return NULL;
  for (int64_t i = 0; i < size * *most; i++) shown[i] = -1;
  for (int64_t i = count - 1; i >= 0; i--) {
    int32_t from = attr->picks[i];
    if (from >= 0) shown[from * *most + --times[from]] = (int32_t)i;
  }
  return shown;
}

/* The gradient of an element is the sum of the gradients at all places that showed it. */
void tsr__grad_pick(const tsr__pull *p)
{
  const tsr__pick_attr *attr = p->attr;
  int dim = (int)attr->dim;
  int64_t size = p->in[0]->shape.dims[dim], most;
  if (!tsr__wants(p, 0)) return;
  int32_t *shown = find_places_shown(p, size, &most);
  if (!shown) {
    tsr__give(p, 0, tsr__or_no_memory(tsr__home(p->due), NULL, "tsr_grad", p->site));
    return;
  }
  if (!most) return;
  array *due = tsr__pick_dim(p->due, dim, shown, size * most, p->site);
  if (most > 1) {
    due = tsr__split_dim(due, dim, size, p->site);
    tsr_reduce_args sum = { .size = sizeof sum, .x = due, .dims = { .bits = 2u << dim } };
    due = tsr_sum_at(&sum, p->site);
  }
  tsr__give(p, 0, due);
}

void tsr__grad_concat(const tsr__pull *p)
{
  const tsr__dim_attr *attr = p->attr;
  int64_t first = 0;
  for (int i = 0; i < p->node->in_count; i++) {
    int64_t next = first + p->in[i]->shape.dims[attr->dim];
    if (tsr__wants(p, i))
      tsr__give(p, i, tsr__part(p->due, (int)attr->dim, (tsr_range){ first, next, 1 }, p->site));
    first = next;
  }
}
