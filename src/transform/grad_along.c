/* Gradients of routines along a dim.
 *
 * A prefix sum goes back as the sum from the other end. Prefixes of products and extremes are
 * written as the slices and joins they come to (tsr__give_through), in a logarithm of steps, and
 * have the gradients of these. */
#include "tessera/indexing.h"
#include "tessera/shape.h"
#include "tessera/sorting.h"
#include "transform/backward.h"

typedef tsr_array array;

/* ---- prefixes -------------------------------------------------------------------------------- */

/* Each element is in all sums behind it. */
void tsr__grad_cumsum(const tsr__pull *p)
{
  tsr__scan_attr attr = *(const tsr__scan_attr *)p->attr;
  attr.reverse = !attr.reverse;
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr };
  tsr__give(p, 0, tsr__make(NULL, TSR__OP_CUMSUM, TSR__IN(p->due), &ask, p->site));
}

/* What is joined with all elements before each: pairs are joined, half as many are done so, and
 * what lies between is joined with one more. No quotient, which zeros would break; ties of extremes
 * share as they meet here, which is as in JAX. */
typedef array *join_fn(array *a, tsr_operand b, const char *site);

typedef struct prefix {
  join_fn *join;
  int dim;
  bool reverse;
} prefix;

/* Every second element from `first` on, up to `end`. */
static array *halved(array *a, int dim, int64_t first, int64_t end, const char *site)
{
  return tsr__part(a, dim, (tsr_range){ first, end, 2 }, site);
}

/* Elements of `a` and `b` in turn, of which `a` may have one more.
 *
 *   a   a0 a1 a2     b   b0 b1 +pad       stacked  a0 b0 a1 b1 a2 pad       cut to 5
 */
static array *in_turn(array *a, array *b, int dim, const char *site)
{
  if (a->inert || b->inert) return a->inert ? a : b;
  int64_t n = a->shape.dims[dim] + b->shape.dims[dim];
  tsr_pad_args pad = { .size = sizeof pad, .x = b };
  pad.high[dim] = a->shape.dims[dim] - b->shape.dims[dim];
  tsr_shape whole = a->shape;
  whole.dims[dim] *= 2;
  array *both = tsr_stack_at((array *[]){ a, tsr_pad_at(&pad, site) }, 2, dim + 1, site);
  return tsr__part(tsr_reshape_at(both, whole, site), dim, (tsr_range){ 0, n, 1 }, site);
}

/*   x          a  b  c  d  e
 *   pairs      ab    cd             their prefixes: ab, abcd, which are the odd ones
 *   even       a     ab|c   abcd|e  each the odd one before it, joined with one more
 */
static array *prefixes(const prefix *f, array *x, const char *site)
{
  if (x->inert) return x;
  int dim = f->dim;
  int64_t n = x->shape.dims[dim], half = n / 2, rest = n - half - 1;
  if (n < 2) return x;
  array *pairs = f->join(halved(x, dim, 0, 2 * half, site),
                         tsr_operand_array(halved(x, dim, 1, n, site)), site);
  array *odd = prefixes(f, pairs, site), *even = tsr__part(x, dim, (tsr_range){ 0, 1, 1 }, site);
  if (rest) {
    array *before = tsr__part(odd, dim, (tsr_range){ 0, rest, 1 }, site);
    array *more = f->join(before, tsr_operand_array(halved(x, dim, 2, n, site)), site);
    even = tsr_concat_at((array *[]){ even, more }, 2, dim, site);
  }
  return in_turn(even, odd, dim, site);
}

static array *prefix_body(tsr_scope *scope, array *const *in, void *user)
{
  prefix f = *(const prefix *)user;
  const char *site = in[0]->node.site;
  array *x = in[0];
  (void)scope;
  if (x->shape.rank == TSR_MAX_RANK) { /* there is to be room for one dim more */
    tsr_shape flat = { .rank = 3, .dims = { 1, x->shape.dims[f.dim], 1 } };
    for (int d = 0; d < TSR_MAX_RANK; d++)
      if (d != f.dim) flat.dims[d < f.dim ? 0 : 2] *= x->shape.dims[d];
    x = tsr_reshape_at(x, flat, site);
    f.dim = 1;
  }
  tsr_dims dims = { .bits = 1u << f.dim };
  array *out = prefixes(&f, f.reverse ? tsr_flip_at(x, dims, site) : x, site);
  out = f.reverse ? tsr_flip_at(out, dims, site) : out;
  return x == in[0] ? out : tsr_reshape_at(out, in[0]->shape, site);
}

/* The struct is on the stack: the body is traced before this returns. */
static void give_prefix(const tsr__pull *p, join_fn *join)
{
  const tsr__scan_attr *attr = p->attr;
  prefix f = { join, (int)attr->dim, attr->reverse != 0 };
  tsr__give_through(p, prefix_body, &f);
}

void tsr__grad_cumprod(const tsr__pull *p)
{
  give_prefix(p, tsr_mul_at);
}

void tsr__grad_cummax(const tsr__pull *p)
{
  give_prefix(p, tsr_maximum_at);
}

void tsr__grad_cummin(const tsr__pull *p)
{
  give_prefix(p, tsr_minimum_at);
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Where the elements of a sort's first result were. */
static array *places_of(const tsr__pull *p)
{
  tsr__ask ask = { TSR__ATTR(tsr__index_attr, .index = 1) };
  return tsr__make(NULL, TSR__OP_RESULT, TSR__IN(p->out), &ask, p->site);
}

/* The place of each place is where an element went. */
void tsr__grad_sort(const tsr__pull *p)
{
  const tsr__sort_attr *attr = p->attr;
  tsr_sort_args sort = { .size = sizeof sort, .x = places_of(p), .dim = (int)attr->dim };
  tsr_take_args take = { .size = sizeof take, .x = p->due, .dim = (int)attr->dim };
  take.indices = tsr_argsort_at(&sort, p->site);
  tsr__give(p, 0, tsr_take_along_dim_at(&take, p->site));
}

/* The places are distinct within a line, so each element gets the one that is due, or nothing. */
void tsr__grad_top_k(const tsr__pull *p)
{
  const tsr__sort_attr *attr = p->attr;
  tsr__give(p, 0, tsr__put_along(p, p->in[0], places_of(p), (int)attr->dim));
}
