/* Gradients of reductions: what is due to a result goes to each element that was counted. */
#include "tessera/indexing.h"
#include "tessera/shape.h"
#include "transform/backward.h"

typedef tsr_array array;

/* An array of a reduction's shape with the reduced dims as 1. No dims at all mean all of them. */
static array *kept(const tsr__pull *p, array *a)
{
  const tsr__reduce_attr *attr = p->attr;
  tsr_shape shape = p->in[0]->shape;
  for (int d = 0; d < shape.rank; d++)
    if (!attr->dims || attr->dims >> d & 1) shape.dims[d] = 1;
  bool same = a->inert || (a->shape.rank == shape.rank && attr->keep);
  return same ? a : tsr_reshape_at(a, shape, p->site);
}

/*   operands   0 what is reduced   1 mask, or left out   2 codes of groups, or left out
 */
static array *mask_of(const tsr__pull *p)
{
  return p->node->in_count > 1 ? p->in[1] : NULL;
}

/* What a result has at all elements that it was made of; by groups each has that of its group. */
static array *unreduced(const tsr__pull *p, array *a)
{
  const tsr__reduce_attr *attr = p->attr;
  if (!attr->groups) return tsr_broadcast_to_at(kept(p, a), p->in[0]->shape, p->site);
  tsr_take_args take = { .size = sizeof take, .x = a, .indices = p->in[2] };
  return tsr_take_at(&take, p->site);
}

/* What the mask leaves out had no part in the result, whatever its slope would be. */
static void give_counted(const tsr__pull *p, array *part)
{
  array *mask = mask_of(p);
  tsr__give(p, 0, mask ? tsr__only(p, mask, part) : part);
}

/* How many elements a result is made of, less `ddof`, as a number or an array of the result's
 * shape. With a mask or groups it is the run's: ones are summed as the elements were. Counted as
 * integers, and cast once. */
static tsr_operand count_of(const tsr__pull *p, int64_t ddof)
{
  const tsr__reduce_attr *attr = p->attr;
  array *mask = mask_of(p), *codes = p->node->in_count > 2 ? p->in[2] : NULL;
  if (!mask && !codes) {
    int64_t count = 1;
    for (int d = 0; d < p->in[0]->shape.rank; d++)
      if (!attr->dims || attr->dims >> d & 1) count *= p->in[0]->shape.dims[d];
    return tsr_operand_float((double)(count - ddof));
  }
  array *ones = tsr_full_at(tsr__home(p->due), tsr_operand_int(1), TSR_I64, p->in[0]->shape,
                            (tsr_sharding){ 0 }, p->site);
  tsr__ask ask = { .attr = attr, .attr_bytes = sizeof *attr };
  array *count = tsr__make(NULL, TSR__OP_SUM, TSR__IN(ones, mask, codes), &ask, p->site);
  count = tsr_sub_at(count, tsr_operand_int(ddof), p->site);
  return tsr_operand_array(tsr_cast_at(count, (tsr_dtype)p->out->dtype, p->site));
}

void tsr__grad_sum(const tsr__pull *p)
{
  give_counted(p, unreduced(p, p->due));
}

void tsr__grad_mean(const tsr__pull *p)
{
  give_counted(p, unreduced(p, tsr_div_at(p->due, count_of(p, 0), p->site)));
}

/* How far elements are from their mean. */
static array *from_mean(const tsr__pull *p)
{
  const tsr__reduce_attr *attr = p->attr;
  tsr__ask ask = { .attr = attr, .attr_bytes = sizeof *attr };
  array *codes = p->node->in_count > 2 ? p->in[2] : NULL;
  array *mean = tsr__make(NULL, TSR__OP_MEAN, TSR__IN(p->in[0], mask_of(p), codes), &ask, p->site);
  return tsr_sub_at(p->in[0], tsr_operand_array(unreduced(p, mean)), p->site);
}

/* 2 (x - mean) / (n - ddof). That the mean moves along adds nothing: deviations from it sum to
 * 0. */
void tsr__grad_var(const tsr__pull *p)
{
  const tsr__reduce_attr *attr = p->attr;
  array *each = tsr_div_at(tsr__scaled(p, p->due, 2), count_of(p, attr->ddof), p->site);
  give_counted(p, tsr__times(p, unreduced(p, each), from_mean(p)));
}

/* (x - mean) / std / (n - ddof), which is 0 / 0, NaN, where all are equal. The first quotient is at
 * most the root of n; with what is due in its place the gradient of this would add up products of x
 * with what it is asked along, which narrow floats do not hold. */
void tsr__grad_std(const tsr__pull *p)
{
  const tsr__reduce_attr *attr = p->attr;
  array *each = tsr_div_at(p->due, count_of(p, attr->ddof), p->site);
  array *from = tsr__over(p, from_mean(p), unreduced(p, p->out));
  give_counted(p, tsr__times(p, unreduced(p, each), from));
}

/* Those that are as the result share alike. Where nothing was counted, nobody gets anything; beside
 * NaN, to which nothing is equal, the shares are NaN. With a mask, or by groups, a result may be of
 * no element: 1 keeps its quotient from being 0 / 0. */
void tsr__grad_extreme(const tsr__pull *p)
{
  const tsr__reduce_attr *attr = p->attr;
  tsr__ask ask = { .attr = attr, .attr_bytes = sizeof *attr };
  array *mask = mask_of(p), *codes = p->node->in_count > 2 ? p->in[2] : NULL;
  tsr_operand best = tsr_operand_array(unreduced(p, p->out));
  array *equal = tsr_eq_at(p->in[0], best, p->site);
  array *each = tsr_cast_at(equal, (tsr_dtype)p->out->dtype, p->site);
  array *count = tsr__make(NULL, TSR__OP_SUM, TSR__IN(each, mask, codes), &ask, p->site);
  if (mask || codes) count = tsr_maximum_at(count, tsr_operand_int(1), p->site);
  array *part = unreduced(p, tsr__over(p, p->due, count));
  give_counted(p, tsr__times(p, part, each));
}

/* Of [lines, n] the product of all the others of a line: pairs are joined until one is left, and
 * on the way back each has its neighbour times what its pair has.
 *
 *   2 3 5 7 11 (1)   pairs 6 35 11   others of pairs: 385 66 210
 *                    of 2: its neighbour 3 * 385;   of 11: 1 * 210
 *
 * In a logarithm of steps, and exact zeros stay what they are. */
static array *product_of_others(const tsr__pull *p, array *a)
{
  if (a->inert) return a;
  int64_t lines = a->shape.dims[0], n = a->shape.dims[1], half = (n + 1) / 2;
  if (n < 2)
    return tsr_full_at(tsr__home(a), tsr_operand_int(1), (tsr_dtype)a->dtype, a->shape,
                       (tsr_sharding){ 0 }, p->site);
  tsr_pad_args pad = { .size = sizeof pad, .x = a, .value = tsr_operand_int(1) };
  pad.high[1] = n % 2;
  array *pairs = tsr_reshape_at(tsr_pad_at(&pad, p->site), TSR_SHAPE(lines, half, 2), p->site);
  tsr_reduce_args both = { .size = sizeof both, .x = pairs, .dims = { .bits = 4 } };
  array *rest = product_of_others(p, tsr_prod_at(&both, p->site));
  rest = tsr_reshape_at(rest, TSR_SHAPE(lines, half, 1), p->site);
  array *neighbour = tsr_flip_at(pairs, (tsr_dims){ .bits = 4 }, p->site);
  array *all = tsr_reshape_at(tsr__times(p, neighbour, rest), TSR_SHAPE(lines, 2 * half), p->site);
  return tsr__part(all, 1, (tsr_range){ 0, n, 1 }, p->site);
}

/* Not a quotient, which zeros would break: the reduced dims become one, the last. */
void tsr__grad_prod(const tsr__pull *p)
{
  const tsr__reduce_attr *attr = p->attr;
  array *x = p->in[0], *mask = mask_of(p);
  int order[TSR_MAX_RANK], back[TSR_MAX_RANK], rank = x->shape.rank, next = 0;
  tsr_shape flat = { .rank = 2, .dims = { 1, 1 } };
  if (!rank) {
    give_counted(p, p->due);
    return;
  }
  for (int reduced = 0; reduced < 2; reduced++) {
    for (int d = 0; d < rank; d++) {
      if ((!attr->dims || attr->dims >> d & 1) != reduced) continue;
      flat.dims[reduced] *= x->shape.dims[d];
      back[d] = next;
      order[next++] = d;
    }
  }
  if (mask) x = tsr_where_at(mask, tsr_operand_array(x), tsr_operand_int(1), p->site);
  array *turned = tsr_transpose_at(x, order, rank, p->site);
  array *others = product_of_others(p, tsr_reshape_at(turned, flat, p->site));
  others = tsr_reshape_at(others, turned->shape, p->site);
  others = tsr_transpose_at(others, back, rank, p->site);
  give_counted(p, tsr__times(p, unreduced(p, p->due), others));
}

/* A sum in another dtype than its operand's. */
void tsr__grad_sum_to(const tsr__pull *p)
{
  array *due = tsr_cast_at(p->due, (tsr_dtype)p->in[0]->dtype, p->site);
  give_counted(p, unreduced(p, due));
}
