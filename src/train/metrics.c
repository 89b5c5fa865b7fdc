/* Metrics: numbers that come batch by batch, from all devices and processes, as five scalars.
 *
 *   (sum, rest, count, least, most)       sum + rest is what they add up to, in twice f64's digits
 *
 * The sum of a batch is exact and is rounded once. Adding it to the one before rounds, too, and
 * what is lost there is itself a number of f64 (Knuth's two-sum): it goes to `rest`.
 *
 * Invariant: what is known is a value like any other, a tree of five f64: it is carried by loops,
 * saved in steps and joined, and an empty one changes nothing. */
#include <math.h>

#include "train/train_room.h"

#include "tessera/elementwise.h"
#include "tessera/shape.h"
#include "tessera/tree.h"

typedef tsr_array array;

static const char form[] = "(sum: *, rest: *, count: *, least: *, most: *)";

/* Whether a tree is one of metrics; else the error is recorded. */
static bool check_known(array *known, const char *call, const char *site)
{
  const char *found = tsr_tree_text(known);
  array *at[5] = { NULL };
  if (!found) {
    tsr__fail(tsr__home(known), site, TSR_ENOMEM, "%s: no memory to compare the metric's state",
              call);
    return false;
  }
  bool fine = !strcmp(found, form) && tsr_tree_leaves(known, at, 5) == 5;
  for (int i = 0; fine && i < 5; i++) fine = at[i]->dtype == TSR_F64 && !at[i]->shape.rank;
  if (!fine)
    tsr__fail(tsr__home(known), site, TSR_EARG,
              "%s: found %s, expected a result of tsr_metric_start or tsr_metric_add, %s of f64[]",
              call, found, form);
  return fine;
}

/* In the order of `form`, which check_known compares. */
static array *known_of(tsr_scope *scope, array *const at[5], const char *site)
{
  const tsr_field_args fields[] = {
    { "sum", at[0] }, { "rest", at[1] }, { "count", at[2] }, { "least", at[3] }, { "most", at[4] }
  };
  return tsr_tree_at(scope, fields, 5, site);
}

/* The ends are those of no number at all: whatever comes first is the least and the most. */
array *tsr_metric_start_at(tsr_scope *scope, const char *site)
{
  const double first[5] = { 0, 0, 0, INFINITY, -INFINITY };
  array *at[5];
  TSR__CALL(scope, "metric_start");
  for (int i = 0; i < 5; i++)
    at[i] = tsr_cast_at(tsr_num_at(scope, tsr_scalar_float(first[i]), site), TSR_F64, site);
  return known_of(scope, at, site);
}

static array *plus(array *a, array *b, const char *site)
{
  return tsr_add_at(a, tsr_operand_array(b), site);
}

static array *less(array *a, array *b, const char *site)
{
  return tsr_sub_at(a, tsr_operand_array(b), site);
}

/* Joins what is known, `to` and `with`, into `to`.
 *
 *   sum  = a + b                  part = sum - a           what of b arrived
 *   lost = (a - (sum - part)) + (b - part)                 exact, whichever is larger
 *
 * Valid because nothing in the library contracts or reorders floats. */
static void join(array *to[5], array *const with[5], const char *site)
{
  array *a = to[0], *b = with[0], *sum = plus(a, b, site), *part = less(sum, a, site);
  array *lost = plus(less(a, less(sum, part, site), site), less(b, part, site), site);
  array *rest = plus(plus(to[1], with[1], site), lost, site);
  to[0] = sum;
  /* Of infinite sums nothing is lost that could be counted. */
  to[1] =
      tsr_where_at(tsr_isfinite_at(sum, site), tsr_operand_array(rest), tsr_operand_int(0), site);
  to[2] = plus(to[2], with[2], site);
  to[3] = tsr_minimum_at(to[3], tsr_operand_array(with[3]), site);
  to[4] = tsr_maximum_at(to[4], tsr_operand_array(with[4]), site);
}

/* The mask of rows, with dims of 1 behind as far as `x` has more. [rows] as [rows, 1, 1 ..]:
 * broadcasting would align it with the last dim instead. */
static array *mask_for(array *where, const array *x, const char *site)
{
  if (!where || where->shape.rank >= x->shape.rank) return where;
  tsr_shape shape = where->shape;
  while (shape.rank < x->shape.rank) shape.dims[shape.rank++] = 1;
  return tsr_reshape_at(where, shape, site);
}

array *tsr_metric_add_at(const tsr_metric_args *given, const char *site)
{
  tsr_metric_args a = { .size = sizeof a };
  tsr__error error = { .status = TSR_OK };
  array *to[5], *home = given ? given->known : NULL;
  TSR__CALL(tsr__home(home), "metric_add");
  if (!tsr__usable(home)) return tsr_abs_at(home, site); /* which tells what is wrong */
  if (tsr__take_opts("tsr_metric_add", given, &a, sizeof a, &error))
    return tsr__refused(home, &error, site);
  if (!a.x) {
    tsr__error_set(&error, TSR_EARG, "tsr_metric_add: x is NULL, expected an array of numbers");
    return tsr__refused(home, &error, site);
  }
  if (!check_known(a.known, "tsr_metric_add", site))
    return tsr__make_inert(tsr__home(a.known), site);
  array *x = tsr_cast_at(a.x, TSR_F64, site);
  if (!tsr__usable(x)) return x;
  array *where = mask_for(a.where, x, site);
  /* Counted in f64 like the rest: exact up to 2^53, and one dtype for the whole tree. */
  array *ones = tsr_full_like_at(x, tsr_operand_int(1), site);
  tsr_reduce_args sum = { .size = sizeof sum, .x = x, .where = where }, count = sum, least = sum,
                  most = sum;
  count.x = ones;
  /* With these a batch of no rows, or of which the mask leaves none, is no error. */
  least.initial = tsr_operand_float(INFINITY);
  most.initial = tsr_operand_float(-INFINITY);
  array *with[5] = { tsr_sum_at(&sum, site),
                     tsr_cast_at(tsr_num_at(tsr__home(a.known), tsr_scalar_int(0), site), TSR_F64,
                                 site),
                     tsr_sum_at(&count, site), tsr_min_at(&least, site), tsr_max_at(&most, site) };
  tsr_tree_leaves(a.known, to, 5);
  join(to, with, site);
  return known_of(tsr__home(a.known), to, site);
}

array *tsr_metric_join_at(array *a, array *b, const char *site)
{
  array *to[5], *with[5];
  TSR__CALL(tsr__home(a), "metric_join");
  if (!tsr__usable(a)) return tsr_abs_at(a, site);
  if (!b)
    tsr__fail(tsr__home(a), site, TSR_EARG, "tsr_metric_join: operand 2 is NULL; give a tree");
  if (!tsr__usable(b)) return tsr_abs_at(b, site);
  if (!check_known(a, "tsr_metric_join", site) || !check_known(b, "tsr_metric_join", site))
    return tsr__make_inert(tsr__home(a), site);
  tsr_tree_leaves(a, to, 5);
  tsr_tree_leaves(b, with, 5);
  join(to, with, site);
  return known_of(tsr__home(a), to, site);
}

/* The mean of nothing is 0 / 0, NaN. */
array *tsr_metric_of_at(array *known, tsr_metric which, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  array *at[5];
  TSR__CALL(tsr__home(known), "metric_of");
  if (!tsr__usable(known)) return tsr_abs_at(known, site);
  if (!check_known(known, "tsr_metric_of", site)) return tsr__make_inert(tsr__home(known), site);
  tsr_tree_leaves(known, at, 5);
  array *sum = plus(at[0], at[1], site);
  switch (which) {
  case TSR_METRIC_MEAN: return tsr_div_at(sum, tsr_operand_array(at[2]), site);
  case TSR_METRIC_SUM: return sum;
  case TSR_METRIC_COUNT: return at[2];
  case TSR_METRIC_MIN: return at[3];
  case TSR_METRIC_MAX: return at[4];
  }
  tsr__error_set(&error, TSR_EARG,
                 "tsr_metric_of: the metric is %d, expected a value of tsr_metric", (int)which);
  return tsr__refused(known, &error, site);
}
