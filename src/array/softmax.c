/* softmax and its like: powers of what elements are below the largest, so that none overflows.
 * exp(x - top) is 1 at most, and 1 at the largest itself, so a sum of them is neither infinite nor
 * 0; the largest is added again outside. */
#include "array/array_room.h"
#include "tessera/statistics.h"

#include <math.h>

typedef tsr_array array;

/* The largest along the dims, which stay; of none -inf. */
static array *largest(const tsr_reduce_args *args, const char *site)
{
  tsr_reduce_args max = *args;
  max.keep_dims = true;
  max.initial = tsr_operand_float(-(double)INFINITY);
  return tsr_max_at(&max, site);
}

/* An infinite one is no measure: 0 takes its place. */
array *tsr_logsumexp_at(const tsr_reduce_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "logsumexp");
  tsr_reduce_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  array *x = given ? given->x : NULL;
  if (!x || x->inert || tsr__take_opts("tsr_logsumexp", given, &args, sizeof args, &error))
    return tsr_sum_at(given, site); /* which tells what is wrong */
  args.x = x = tsr__as_float(x, site);
  array *top = largest(&args, site);
  /* All elements -inf, or one infinite: the sum of powers then is 0 or infinity by itself. */
  array *finite = tsr_lt_at(tsr_abs_at(top, site), tsr_operand_float((double)INFINITY), site);
  top = tsr_where_at(finite, tsr_operand_array(top), tsr_operand_int(0), site);
  args.x = tsr_exp_at(tsr_sub_at(x, tsr_operand_array(top), site), site);
  /* The sum is at least 1 where the largest is finite. */
  array *log = tsr_log_at(tsr_sum_at(&args, site), site);
  if (args.keep_dims) return tsr_add_at(log, tsr_operand_array(top), site);
  tsr_reduce_args drop = { .x = top, .dims = args.dims }; /* of one element: itself */
  return tsr_add_at(log, tsr_operand_array(tsr_max_at(&drop, site)), site);
}

/* What elements are below the largest along a dim, and the sum of the powers of that. */
typedef struct parts {
  array *below, *power, *sum;
} parts;

static parts parts_along(array *a, int dim, const char *site)
{
  tsr_reduce_args args = { .x = tsr__as_float(a, site),
                           .dims = tsr_dims_of(&dim, 1),
                           .keep_dims = true };
  parts out;
  out.below = tsr_sub_at(args.x, tsr_operand_array(largest(&args, site)), site);
  args.x = out.power = tsr_exp_at(out.below, site);
  out.sum = tsr_sum_at(&args, site);
  return out;
}

array *tsr_softmax_at(array *a, int dim, const char *site)
{
  TSR__CALL(tsr__home(a), "softmax");
  if (!a || a->inert) return tsr_exp_at(a, site);
  parts p = parts_along(a, dim, site);
  return tsr_div_at(p.power, tsr_operand_array(p.sum), site);
}

array *tsr_log_softmax_at(array *a, int dim, const char *site)
{
  TSR__CALL(tsr__home(a), "log_softmax");
  if (!a || a->inert) return tsr_exp_at(a, site);
  parts p = parts_along(a, dim, site);
  return tsr_sub_at(p.below, tsr_operand_array(tsr_log_at(p.sum, site)), site);
}
