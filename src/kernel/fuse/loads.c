/* Loads as affine maps: a domain's indices give the places of an operand's elements.
 *
 *   domain d0, d1   <-   transpose   <-   slice 2:9:3   <-   x
 *                        v0 = d1          x0 = 2 + 3 v0       x0 = 2 + 3 d1
 *                        v1 = d0          x1 = v1             x1 = d0
 *
 * Maps of whole parts: a dim that is more than passed on is whole on every device, so an index in
 * the device's part is the index in the array; one that is passed on is cut alike in all. */
#include "kernel/fuse/fuse.h"

static tsr__loadinfo unbounded(int rank)
{
  tsr__loadinfo load = { .input = -1, .fill = -1, .rank = rank };
  for (int d = 0; d < TSR_MAX_RANK; d++) load.high[d] = INT64_MAX;
  return load;
}

tsr__loadinfo tsr__load_aligned(const tsr__gnode *domain, const tsr__gnode *o)
{
  tsr__loadinfo load = unbounded(o->rank);
  for (int k = 0; k < o->rank; k++) {
    int d = domain->rank - o->rank + k;
    /* A size of -1 is taken from the device's part when it runs; one that is repeated is 1
     * wherever. */
    bool flat = o->dims[k] == 1 && domain->dims[d] != 1;
    load.dims[k] = (tsr__loaddim){ .step = !flat, .size = flat ? 1 : -1, .dim = d };
  }
  return load;
}

/* Such an operand is no load at all: tiles read it where it lies. */
bool tsr__load_plain(const tsr__loadinfo *load, int rank)
{
  bool plain = load->rank == rank;
  for (int k = 0; k < load->rank; k++) {
    const tsr__loaddim *dim = &load->dims[k];
    plain = plain && dim->dim == k && dim->step == 1 && dim->size < 0;
  }
  for (int d = 0; d < rank; d++) plain = plain && !load->low[d] && load->high[d] == INT64_MAX;
  return plain;
}

/* a / b rounded down, b > 0. C rounds to zero, which for negative a is up. */
static int64_t load_from_end(int64_t a, int64_t b)
{
  return a / b - (a % b < 0);
}

/* Narrows the bounds of a load to where low <= start + step * index < high. False: nowhere.
 *
 *   start 2, step 3, of 4 <= x < 12:   x   2 5 8 11 14
 *                                      i   0 1 2  3  4      first = 1, end = 4 */
static bool narrow_load(tsr__loadinfo *load, const tsr__loaddim *dim, int64_t low, int64_t high)
{
  int64_t start = dim->start, step = dim->step, first, end;
  if (!step) return start >= low && start < high;
  if (step > 0) {
    /* The first index at or beyond `low` is the quotient rounded up, -down(-a, b); so is the
     * first at or beyond `high`, where it ends. */
    first = -load_from_end(start - low, step);
    end = -load_from_end(start - high, step);
  } else {
    first = load_from_end(start - high, -step) + 1;
    end = load_from_end(start - low, -step) + 1;
  }
  if (first > load->low[dim->dim]) load->low[dim->dim] = first;
  if (end < load->high[dim->dim]) load->high[dim->dim] = end;
  return load->low[dim->dim] < load->high[dim->dim];
}

bool tsr__load_through(const tsr__program *program, const tsr__gnode *view, int i,
                       const tsr__loadinfo *from, tsr__loadinfo *out)
{
  const tsr__gnode *operand = &program->nodes[tsr__in(program, view, i)];
  tsr__viewing how = tsr__view_of(program, view, i);
  *out = unbounded(operand->rank);
  /* Bounds are indices of the domain, however many views lie between: each can only narrow them. */
  memcpy(out->low, from->low, sizeof out->low);
  memcpy(out->high, from->high, sizeof out->high);
  for (int d = 0; d < view->rank; d++)
    if (how.high[d] != INT64_MAX && !narrow_load(out, &from->dims[d], how.low[d], how.high[d]))
      return false;
  for (int k = 0; k < operand->rank; k++) {
    const tsr__viewdim *dim = &how.dims[k];
    const tsr__loaddim *outer = &from->dims[dim->dim];
    /* The map of the outer view inside that of this one: s + t (S + T d) = (s + t S) + (t T) d. */
    out->dims[k] = (tsr__loaddim){ .start = dim->start + dim->step * outer->start,
                                   .step = dim->step * outer->step,
                                   .size = dim->same ? outer->size : operand->dims[k],
                                   .dim = outer->dim };
  }
  return true;
}
