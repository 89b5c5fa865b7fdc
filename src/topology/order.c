/* The order of devices in a mesh, from how they are wired.
 *
 * The devices of a process are a grid, its ends joined (a torus), ids row-major. Axes of the mesh
 * take axes of the grid, the last one first, as it is the busiest; each takes several whole ones if
 * it can, so that it has all their links:
 *
 *     grid 4x4x8, mesh a=16,b=8       b takes the third, a the first and second
 *
 * Where whole ones do not fit, axes of the grid are split, if that is allowed: factor[p][a] is how
 * much of axis p of the grid goes to axis a of the mesh. Coordinates are then digits in these
 * factors, for an axis of the mesh by p, for one of the grid by a, the major one first.
 *
 * A ring goes through all devices so that those next to each other are neighbours. A hybrid mesh
 * has one such order in each process, and processes along its outer sizes.
 *
 * Invariant: an order is a permutation: all digits together are a number of as many devices as
 * there are, and each position has other digits. Products are bounded when options are read (wire),
 * so that none overflows further down. */
#include "topology/topology.h"

typedef struct wiring {
  int rank, axes;
  int64_t grid[TSR_MAX_AXES];  /* of the devices of one process */
  int64_t sizes[TSR_MAX_AXES]; /* of the mesh in one process */
  int64_t factor[TSR_MAX_AXES][TSR_MAX_AXES];
} wiring;

/* ---- whole axes -------------------------------------------------------------------------- */

/* The first `count` axes of the grid not yet taken whose product is `size`, as a mask in the order
 * of their numbers; 0 if there are none. All subsets are tried: 2^8 at most. Axes of size 1 count
 * as well, so a product may have several masks and the first in the order of combinations is taken,
 * as JAX does. */
static unsigned whole_axes(const wiring *w, unsigned taken, int count, int64_t size)
{
  unsigned best = 0;
  for (unsigned mask = 1; mask < 1u << w->rank; mask++) {
    int64_t product = 1;
    if (mask & taken || __builtin_popcount(mask) != count) continue;
    for (int p = 0; p < w->rank; p++)
      if (mask >> p & 1) product *= w->grid[p];
    if (product != size) continue;
    /* Of two masks the first combination is the one that has the lowest axis where they differ. */
    unsigned differ = mask ^ best;
    if (!best || mask & differ & -differ) best = mask;
  }
  return best;
}

/* Many axes before few: a mesh axis that has more axes of the grid has more links. */
static bool assign_whole(wiring *w)
{
  unsigned taken = 0;
  for (int a = w->axes - 1; a >= 0; a--) {
    unsigned found = 0;
    for (int count = w->rank; count > 0 && !found; count--)
      found = whole_axes(w, taken, count, w->sizes[a]);
    if (!found && w->sizes[a] > 1) return false;
    taken |= found;
    for (int p = 0; p < w->rank; p++) w->factor[p][a] = found >> p & 1 ? w->grid[p] : 1;
  }
  return true;
}

/* ---- split axes -------------------------------------------------------------------------- */

/* How much of each axis of the grid an axis of the mesh would take, and how good that is: what of
 * it is whole axes, how many those are, what of it no other axis uses. Compared in this order:
 * first what of it is whole, then by how many, then what it has alone. */
typedef struct share {
  int64_t part[TSR_MAX_AXES];
  int64_t whole, count, alone;
} share;

/* What is left of the grid's axes, the ways tried and the best of them. */
typedef struct trial {
  const wiring *w;
  int64_t left[TSR_MAX_AXES];
  share at, best;
} trial;

/* At last by the parts themselves, so that there is one best and all processes find it. */
static bool better(const share *x, const share *y, int rank)
{
  if (x->whole != y->whole) return x->whole > y->whole;
  if (x->count != y->count) return x->count > y->count;
  if (x->alone != y->alone) return x->alone > y->alone;
  for (int p = 0; p < rank; p++)
    if (x->part[p] != y->part[p]) return x->part[p] > y->part[p];
  return false;
}

static void judge(trial *t)
{
  const wiring *w = t->w;
  share *s = &t->at;
  s->whole = s->alone = 1;
  s->count = 0;
  for (int p = 0; p < w->rank; p++) {
    bool whole = s->part[p] == w->grid[p];
    if (whole) s->whole *= s->part[p];
    if (whole && s->part[p] > 1) s->count++;
    if (t->left[p] == w->grid[p]) s->alone *= s->part[p];
  }
}

/* Tries all ways to take `size` out of what is left of the axes from `p` on. Divisors alone, so
 * there are few ways; as deep as the grid has axes. */
static void try_shares(trial *s, int p, int64_t size)
{
  if (p == s->w->rank) {
    if (size != 1) return;
    judge(s);
    if (!s->best.whole || better(&s->at, &s->best, p)) s->best = s->at;
    return;
  }
  for (int64_t part = 1; part <= s->left[p] && part <= size; part++) {
    if (s->left[p] % part || size % part) continue;
    s->at.part[p] = part;
    try_shares(s, p + 1, size / part);
  }
}

/* The busiest axis chooses first, and is not asked again. */
static bool assign_split(wiring *w)
{
  trial s = { .w = w };
  memcpy(s.left, w->grid, sizeof s.left);
  for (int a = w->axes - 1; a >= 0; a--) {
    s.best.whole = 0;
    try_shares(&s, 0, w->sizes[a]);
    if (!s.best.whole) return false;
    for (int p = 0; p < w->rank; p++) {
      w->factor[p][a] = s.best.part[p];
      s.left[p] /= s.best.part[p];
    }
  }
  return true;
}

/* ---- orders ------------------------------------------------------------------------------ */

/* The device at a position: the mesh's coordinates as digits, put together by the grid's axes.
 *
 *   grid 4x2, mesh a=2,b=4      factor  p0: a 2 b 2   p1: a 1 b 2
 *   position 5 = a 1, b 1       digits  p0: a 1 b 0   p1: b 1       device (1 * 2 + 0) * 2 + 1
 */
static int torus_device(const wiring *w, int64_t position)
{
  int64_t digit[TSR_MAX_AXES][TSR_MAX_AXES], device = 0;
  for (int a = w->axes - 1; a >= 0; a--)
    for (int p = w->rank - 1; p >= 0; p--) {
      digit[p][a] = position % w->factor[p][a];
      position /= w->factor[p][a];
    }
  for (int p = 0; p < w->rank; p++)
    for (int a = 0; a < w->axes; a++) device = device * w->factor[p][a] + digit[p][a];
  return (int)device;
}

/* Step `at` of the way there and back through all dims, each turned as often as those before it
 * went on: neighbours differ by one in one dim.
 *
 *   0 1 2
 *   5 4 3       3 x 3, by numbers of steps: from the last there is no way back to the first
 *   6 7 8
 */
static int snake_device(const wiring *w, int64_t at)
{
  int64_t below = 1, device = 0;
  for (int p = 0; p < w->rank; p++) below *= w->grid[p];
  for (int p = 0; p < w->rank; p++) {
    bool back = at / below & 1;
    below /= w->grid[p];
    int64_t digit = at / below % w->grid[p];
    device = device * w->grid[p] + (back ? w->grid[p] - 1 - digit : digit);
  }
  return (int)device;
}

/* Of a grid of two dims, the first even: out along the first row, to and fro in what is right of
 * the first column, home along that.
 *
 *    0  1  2
 *   11  4  3      4 x 3
 *   10  5  6
 *    9  8  7
 */
static int loop_device(const wiring *w, int64_t at)
{
  int64_t rows = w->grid[0], columns = w->grid[1], inner = columns - 1;
  if (at < columns) return (int)at;
  at -= columns;
  if (at >= (rows - 1) * inner) return (int)((rows - 1 - (at - (rows - 1) * inner)) * columns);
  int64_t row = 1 + at / inner, step = at % inner;
  return (int)(row * columns + (row & 1 ? columns - 1 - step : 1 + step));
}

/* Of other grids the last and the first may be no neighbours. */
static int ring_device(const wiring *w, int64_t at)
{
  bool loops = w->rank == 2 && w->grid[0] % 2 == 0 && w->grid[1] > 1;
  return loops ? loop_device(w, at) : snake_device(w, at);
}

/* ---- the calls --------------------------------------------------------------------------- */

/* The sizes of a grid or mesh, "4x4x8". */
static const char *sizes_text(const int64_t *sizes, int count, char out[TSR_MAX_AXES * 21 + 1])
{
  int n = 0;
  out[0] = '\0';
  for (int i = 0; i < count; i++) {
    if (i) out[n++] = 'x';
    n += tsr__text_i64(out + n, sizes[i]);
    out[n] = '\0';
  }
  return out;
}

/* The product, or -1 where it or a size is no number of devices. */
static int64_t product_of(const int64_t *sizes, int count)
{
  int64_t product = 1;
  for (int i = 0; i < count; i++)
    if (sizes[i] < 1 || (product *= sizes[i]) > INT32_MAX) return -1;
  return product;
}

/* Without a grid devices are one line, which whole axes need not fit. */
static tsr_status wire(const tsr_mesh_opts *opts, wiring *w, tsr__error *error)
{
  char grid[TSR_MAX_AXES * 21 + 1], mesh[TSR_MAX_AXES * 21 + 1];
  for (int a = 0; a < w->axes; a++) {
    int64_t outer = opts->outer[a] ? opts->outer[a] : 1;
    if (outer < 1 || opts->sizes[a] % outer)
      return tsr__error_set(
          error, TSR_EARG,
          "mesh: .outer is %lld along axis %d, expected a divisor of its size %lld",
          (long long)outer, a, (long long)opts->sizes[a]);
    w->sizes[a] = opts->sizes[a] / outer;
  }
  if (!w->rank) w->grid[w->rank++] = product_of(w->sizes, w->axes);
  int64_t there = product_of(w->grid, w->rank), asked = product_of(w->sizes, w->axes);
  if (there < 0 || there != asked)
    return tsr__error_set(error, TSR_EARG,
                          "mesh: the grid has %s devices, expected as many as the axes %s",
                          sizes_text(w->grid, w->rank, grid), sizes_text(w->sizes, w->axes, mesh));
  if (opts->ring || assign_whole(w)) return TSR_OK;
  if (!opts->grid_rank || (opts->split && assign_split(w))) return TSR_OK;
  return tsr__error_set(error, TSR_EARG, "mesh: axes of %s do not fit whole axes of a grid of %s%s",
                        sizes_text(w->sizes, w->axes, mesh), sizes_text(w->grid, w->rank, grid),
                        opts->split ? " nor parts of them"
                                    : "; set .split to allow parts of grid dims");
}

tsr_status tsr__mesh_order(const tsr_mesh_opts *opts, int count, int *out, tsr__error *error)
{
  wiring w = { .rank = opts->grid_rank, .axes = opts->axis_count };
  if (w.rank < 0 || w.rank > TSR_MAX_AXES)
    return tsr__error_set(error, TSR_EARG, "mesh: the grid has %d dims, expected 1 to %d", w.rank,
                          TSR_MAX_AXES);
  memcpy(w.grid, opts->grid, sizeof w.grid);
  if (wire(opts, &w, error)) return error->status;
  int64_t own = product_of(w.sizes, w.axes);
  for (int p = 0; p < count; p++) {
    /*   x=4 with outer 2, y=2      coordinate of x: process 0 0 1 1, inside 0 1 0 1
     *
     * Processes are numbered along the outer sizes row by row, their devices follow each other. */
    int64_t process = 0, inside = 0, rest = p, stride = count;
    for (int a = 0; a < w.axes; a++) {
      int64_t at = rest / (stride /= opts->sizes[a]);
      rest %= stride;
      process = process * (opts->sizes[a] / w.sizes[a]) + at / w.sizes[a];
      inside = inside * w.sizes[a] + at % w.sizes[a];
    }
    int device = opts->ring        ? ring_device(&w, inside)
                 : opts->grid_rank ? torus_device(&w, inside)
                                   : (int)inside;
    out[p] = (int)(process * own) + device;
  }
  return TSR_OK;
}
