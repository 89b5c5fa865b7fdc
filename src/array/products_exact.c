/* Products of two vectors, and what is like them: the exact sum of exact products, rounded once.
 *
 *   f32 and less   each product is exact in f64
 *   f64            a b = high + low, high = a * b rounded, low = fma(a, b, -high)
 *
 *   [2, n]         row 0: high                one sum over both rows is that of all products. Where
 *                  row 1: low, -0 if none     high is not finite, low is none */
#include <math.h>

#include "array/products_room.h"
#include "tessera/elementwise.h"
#include "tessera/shape.h"

/* Rows are told by comparing an index instead of joined by a concat, so that all of it is one loop
 * over the elements and nothing of twice the size is stored. A low of 0 is put down as -0, which
 * changes no sum, not even one of zeros alone. */
tsr_array *tsr__exact_terms(tsr_array *a, tsr_array *b, const char *site)
{
  tsr_scope *scope = tsr__home_of(TSR__IN(a, b));
  tsr_shape shape = { .rank = a->shape.rank + 1, .dims = { 2 } };
  if (a->inert || b->inert) return tsr_mul_at(a, tsr__of(b), site);
  for (int d = 0; d < a->shape.rank; d++) shape.dims[d + 1] = a->shape.dims[d];
  tsr_array *x = tsr_broadcast_to_at(a, shape, site), *y = tsr_broadcast_to_at(b, shape, site);
  tsr_array *high = tsr_mul_at(x, tsr__of(y), site);
  tsr_array *low = tsr_fma_at(x, tsr__of(y), tsr__of(tsr_neg_at(high, site)), site);
  tsr_array *row = tsr_iota_at(scope, TSR_I64, shape, 0, (tsr_sharding){ 0 }, site);
  tsr_array *none = tsr__number_node(scope, tsr_scalar_float(-0.0), TSR_F64, "tsr_vdot", site);
  tsr_array *finite = tsr_lt_at(tsr_abs_at(high, site), tsr_operand_float((double)INFINITY), site);
  tsr_array *some = tsr_and_at(finite, tsr__of(tsr_ne_at(low, tsr_operand_int(0), site)), site);
  low = tsr_where_at(some, tsr__of(low), tsr__of(none), site);
  return tsr_where_at(tsr_eq_at(row, tsr_operand_int(0), site), tsr__of(high), tsr__of(low), site);
}

/* The dims of b in the order of a's; false: it is no such product. Of no other product each dim of
 * both sides meets one of the other and none is left. */
static bool meet_dims(const tsr__contraction *c, int order[TSR_MAX_RANK])
{
  int rank = c->a->shape.rank;
  unsigned seen = 0;
  if (c->b->shape.rank != rank || rank < 1 || rank == TSR_MAX_RANK || c->at.out[0]) return false;
  for (int d = 0; d < rank; d++) {
    order[d] = -1;
    for (int e = 0; e < rank; e++)
      if (c->at.left[d] && c->at.right[e] == c->at.left[d] && !c->at.window[d]) order[d] = e;
    if (order[d] < 0 || c->a->shape.dims[d] != c->b->shape.dims[order[d]]) return false;
    seen |= 1u << order[d];
  }
  return seen == (1u << rank) - 1;
}

/* NULL: not all elements of both meet, and it is a product like others. What is less than f64 has
 * exact products in f64, 24 bits by 24; of f64 each product is two summands. */
tsr_array *tsr__exact_product(const tsr__contraction *c, tsr_dtype in, tsr_dtype out,
                              const char *site)
{
  int order[TSR_MAX_RANK];
  if (!tsr__dtype_rounds(out) || !meet_dims(c, order)) return NULL;
  int rank = c->a->shape.rank;
  bool turned = false;
  for (int d = 0; d < rank; d++) turned |= order[d] != d;
  tsr_array *b = turned ? tsr_transpose_at(c->b, order, rank, site) : c->b;
  tsr_array *x = tsr_cast_at(tsr_cast_at(c->a, in, site), TSR_F64, site);
  tsr_array *y = tsr_cast_at(tsr_cast_at(b, in, site), TSR_F64, site);
  bool exact = tsr__dtype_is_real(in) && in != TSR_F64;
  tsr_array *terms = exact ? tsr_mul_at(x, tsr__of(y), site) : tsr__exact_terms(x, y, site);
  tsr__ask ask = { TSR__ATTR(tsr__reduce_attr, .dims = (1u << terms->shape.rank) - 1),
                   .dtype = out };
  return tsr__make(NULL, TSR__OP_SUM_TO, TSR__IN(terms), &ask, site);
}
