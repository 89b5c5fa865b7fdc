/* All prefixes of a row of elements in a logarithm of steps.
 *
 *   elements      a   b   c   d   e            level 0
 *   pairs           ab      cd                 level 1: the prefixes of half as many
 *   odd ones        ab      abcd               what that comes to
 *   even ones   a       abc     abcde          each a pair before it and one element
 *
 * Many elements are joined at once, and all that is joined are slices: so what devices, gradients
 * and mapping make of prefixes is what they make of slices and concats. */
#include "tessera/shape.h"
#include "transform/transform.h"

static tsr_array **new_leaves(const tsr__prefixes *p)
{
  return tsr__arena_new(&p->scope->arena, ((size_t)p->count + 1) * sizeof(tsr_array *));
}

/* Each array's elements of a range. NULL out of memory. */
static tsr_array **part_of(const tsr__prefixes *p, tsr_array **all, tsr_range range)
{
  tsr_array **out = new_leaves(p);
  for (int i = 0; out && i < p->count; i++) out[i] = tsr__part(all[i], p->dim[i], range, p->site);
  return out;
}

/* e0 o0 e1 o1 ..: as many of both, or one even one more. Two dims for one need a dim to spare, so
 * arrays of all dims have two others joined meanwhile. A last even one without a partner is put
 * behind what was stacked. */
static tsr_array *interleave(const tsr__prefixes *p, tsr_array *even, tsr_array *odd, int dim)
{
  if (even->inert || odd->inert) return even->inert ? even : odd;
  const char *site = p->site;
  tsr_shape shape = odd->shape;
  int64_t pairs = shape.dims[dim], more = even->shape.dims[dim] - pairs;
  int joined = shape.rank < TSR_MAX_RANK ? -1 : dim < 2 ? 2 : 0;
  int at = joined == 0 ? dim - 1 : dim;
  tsr_array *first = more ? tsr__part(even, dim, (tsr_range){ 0, pairs, 1 }, site) : even;
  tsr_array *both[2] = { first, odd };
  for (int i = 0; i < 2 && joined >= 0; i++) both[i] = tsr__join_dims(both[i], joined, site);
  tsr_array *out = tsr_stack_at(both, 2, at + 1, site);
  shape.dims[dim] = 2 * pairs;
  if (!out->inert) out = tsr_reshape_at(out, shape, site);
  if (!more) return out;
  both[0] = out;
  both[1] = tsr__part(even, dim, (tsr_range){ pairs, pairs + 1, 1 }, site);
  return tsr_concat_at(both, 2, dim, site);
}

/* As deep as the logarithm of the size; two joins a level at most, on half of the elements each
 * time, so it is about twice as much work as one after the other. */
tsr_array **tsr__prefixes_of(const tsr__prefixes *p, tsr_array **all, int64_t size)
{
  if (size < 2) return all;
  tsr_array **left = part_of(p, all, (tsr_range){ 0, size / 2 * 2, 2 });
  tsr_array **right = part_of(p, all, (tsr_range){ 1, size, 2 });
  tsr_array **odd = left && right ? p->join(p->user, left, right) : NULL;
  odd = odd ? tsr__prefixes_of(p, odd, size / 2) : NULL;
  tsr_array **first = odd ? part_of(p, all, (tsr_range){ 0, 1, 1 }) : NULL;
  if (!first) return NULL;
  if (size > 2) {
    int64_t evens = (size - 1) / 2;
    tsr_array **before = part_of(p, odd, (tsr_range){ 0, evens, 1 });
    tsr_array **own = part_of(p, all, (tsr_range){ 2, size, 2 });
    tsr_array **even = before && own ? p->join(p->user, before, own) : NULL;
    for (int i = 0; even && i < p->count; i++)
      first[i] = tsr_concat_at((tsr_array *[]){ first[i], even[i] }, 2, p->dim[i], p->site);
    if (!even) return NULL;
  }
  for (int i = 0; i < p->count; i++) first[i] = interleave(p, first[i], odd[i], p->dim[i]);
  return first;
}
