/* Choosing, finding and counting: compositions of what is there.
 *
 *   nonzero      where a running count of true elements first exceeds 0, 1, 2, ...: a search in it
 *   unique       the nonzero places of what differs from its neighbour, once sorted
 *   histogram    a search among the edges, then sums by group, which need no order */
#include "array/array_room.h"
#include "tessera/indexing.h"
#include "tessera/shape.h"
#include "tessera/sorting.h"

#include <math.h>

/* The first of some arrays that is NULL or inert, as what is made of it would be; NULL: all are
 * good. */
static tsr_array *unusable(const char *call, tsr__operands in, const char *site)
{
  for (int i = 0; i < in.count; i++) {
    if (in.at[i] && in.at[i]->inert) return in.at[i];
    if (in.at[i]) continue;
    tsr__error error = { .status = TSR_OK };
    tsr__error_set(&error, TSR_EARG, "%s: operand %d is NULL; give an array", call, i + 1);
    return tsr__refused_of(in, &error, site);
  }
  return NULL;
}

static tsr_operand whole(int64_t number)
{
  return tsr_operand_int(number);
}

static tsr_array *iota(tsr_scope *scope, int64_t count, const char *site)
{
  return tsr_iota_at(scope, TSR_I64, TSR_SHAPE(count), 0, (tsr_sharding){ 0 }, site);
}

/* Elements first .. last - 1 of a list. */
static tsr_array *part(tsr_array *list, int64_t first, int64_t last, const char *site)
{
  return tsr_slice_at(list, &(tsr_range){ first, last, 1 }, 1, site);
}

/* The one element of a list at an end of it, as an array of rank 0. Taken and not sliced, so that
 * the rank goes as well; -1 counts from the end. */
static tsr_array *end_of(tsr_array *list, int64_t index, const char *site)
{
  tsr_array *at = tsr__strong_number(tsr__home(list), tsr_scalar_int(index), site);
  return tsr_take_at(&(tsr_take_args){ .x = list, .indices = at }, site);
}

static tsr_array *take_list(tsr_array *list, tsr_array *at, const char *site)
{
  return tsr_take_at(&(tsr_take_args){ .x = list, .indices = at }, site);
}

/* Whether an array has one dim of a size that is known. */
static tsr_status check_list(const char *call, const char *what, tsr_array *a, tsr__error *error)
{
  if (a->shape.rank == 1 && a->shape.dims[0] >= 0) return TSR_OK;
  return tsr__error_set(error, TSR_ESHAPE, "%s: %s %s, expected one dim of a known size", call,
                        what, tsr_type_of(a));
}

/* ---- choosing by conditions ---- */

tsr_array *tsr_select_at(const tsr_select_args *given, const char *site)
{
  tsr_select_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_select", given, &args, sizeof args, &error);
  if (args.count < 1 || !args.conditions || !args.choices) {
    tsr__error_set(
        &error, TSR_EARG,
        "tsr_select: there are %d choices, expected at least one, and as many conditions",
        args.count);
    return tsr__refused(args.otherwise.array, &error, site);
  }
  /* Where several conditions hold the first one counts (NumPy's select), so the last is laid down
   * first and earlier ones over it. */
  tsr_array *known = args.choices[0];
  TSR__CALL(tsr__home(known), "select");
  for (int i = 0; i < args.count; i++) {
    if (tsr__usable(known) && (!args.conditions[i] || !args.choices[i])) {
      tsr__error_set(&error, TSR_EARG, "tsr_select: %s %d is NULL; give an array",
                     args.choices[i] ? "condition" : "choice", i + 1);
      return tsr__refused(known, &error, site);
    }
    tsr_array *bad =
        unusable("tsr_select", TSR__IN(known, args.conditions[i], args.choices[i]), site);
    if (bad) return bad;
  }
  if (status) return tsr__refused(known, &error, site);
  tsr_operand rest = args.otherwise;
  if (!rest.array && rest.number.kind == TSR_SCALAR_NONE) rest = tsr_operand_int(0);
  for (int i = args.count - 1; i >= 0; i--)
    rest = tsr__of(tsr_where_at(args.conditions[i], tsr__of(args.choices[i]), rest, site));
  return rest.array;
}

static tsr_array *sums_up_to(tsr_array *list, const char *site)
{
  return tsr_cumsum_at(&(tsr_scan_args){ .size = sizeof(tsr_scan_args), .x = list }, site);
}

/* Where the k-th true element of a list stands, k = 0 .. count - 1: before it, k are true. Where
 * there is none, the size of the list. On bools t f t t:
 *
 *    running count   1 1 2 3
 *    k = 0           no entry is not above 0: place 0
 *    k = 1           two are (1 1): place 2        k = 3: all four are, which is no place
 *
 * Its size is `count`, which the caller says: a result as long as there are true elements would
 * have a size that only the run knows. */
static tsr_array *true_places(tsr_array *list, int64_t count, const char *site)
{
  tsr_array *before = sums_up_to(tsr_cast_at(list, TSR_BOOL, site), site);
  return tsr__make(NULL, TSR__OP_SEARCH, TSR__IN(before, iota(tsr__home(list), count, site)),
                   &(tsr__ask){ 0 }, site);
}

static tsr_status take_find(const char *call, const tsr_find_args *given, tsr_find_args *args,
                            tsr__error *error)
{
  if (tsr__take_opts(call, given, args, sizeof *args, error)) return error->status;
  /* One more is asked for where counts are differences of places. */
  if (args->count >= 0 && args->count < INT64_MAX) return TSR_OK;
  return tsr__error_set(error, TSR_EARG, "%s: the count is %lld, expected 0 or more%s", call,
                        (long long)args->count, args->count < 0 ? "" : " and below 2^63 - 1");
}

static tsr_operand or_zero(tsr_operand fill)
{
  return fill.array || fill.number.kind != TSR_SCALAR_NONE ? fill : tsr_operand_int(0);
}

tsr_array *tsr_compress_at(const tsr_find_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "compress");
  tsr_find_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = take_find("tsr_compress", given, &args, &error);
  tsr_array *x = args.x, *mask = args.mask, *bad = unusable("tsr_compress", TSR__IN(x, mask), site);
  if (bad) return bad;
  /* A mask of x's own shape chooses elements: both are looked through as lists. */
  if (x->shape.rank != 1 && tsr__shape_same(&x->shape, &mask->shape)) {
    x = tsr_ravel_at(x, site);
    mask = tsr_ravel_at(mask, site);
    args.dim = 0;
    if (x->inert || mask->inert) return x->inert ? x : mask;
  }
  int dim = args.dim;
  if (!status && mask->dtype != TSR_BOOL)
    status = tsr__error_set(
        &error, TSR_EDTYPE,
        "tsr_compress: the mask is %s, expected bool; make it by a comparison or by tsr_cast",
        tsr_type_of(mask));
  if (!status) status = check_list("tsr_compress", "the mask is", mask, &error);
  if (!status) status = tsr__find_dim(x, &dim, "tsr_compress", &error);
  if (!status && mask->shape.dims[0] != x->shape.dims[dim])
    status = tsr__error_set(
        &error, TSR_ESHAPE,
        "tsr_compress: the mask is %s, expected one element for each element of dim %d of %s",
        tsr_type_of(mask), dim, tsr_type_of(x));
  if (status) return tsr__refused(x, &error, site);
  /* Places of elements that are not there are the dim's size: they lie outside x, and are
   * filled. */
  return tsr_take_at(&(tsr_take_args){ .x = x,
                                       .indices = true_places(mask, args.count, site),
                                       .dim = dim,
                                       .mode = TSR_INDEX_FILL,
                                       .fill = or_zero(args.fill) },
                     site);
}

/* Takes what is looked through, of any rank, as a list; NULL: `bad` says what is made instead. */
static tsr_array *list_of(const char *call, const tsr_find_args *given, tsr_find_args *args,
                          tsr_array **bad, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  tsr_status status = take_find(call, given, args, &error);
  *bad = unusable(call, TSR__IN(args->x), site);
  if (*bad) return NULL;
  for (int d = 0; d < args->x->shape.rank && !status; d++)
    if (args->x->shape.dims[d] < 0) status = check_list(call, "x is", args->x, &error);
  if (status) *bad = tsr__refused(args->x, &error, site);
  return status ? NULL : args->x->shape.rank == 1 ? args->x : tsr_ravel_at(args->x, site);
}

tsr_array *tsr_nonzero_at(const tsr_find_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "nonzero");
  tsr_find_args args = { .size = sizeof args };
  tsr_array *bad, *list = list_of("tsr_nonzero", given, &args, &bad, site);
  if (!list || list->inert) return list ? list : bad;
  tsr_array *at = true_places(list, args.count, site);
  /* Places behind the last one that was found lie outside the list. */
  tsr_array *there = tsr_lt_at(at, whole(list->shape.dims[0]), site);
  return tsr_where_at(there, tsr__of(at), or_zero(args.fill), site);
}

void tsr_nonzero_dims_at(const tsr_find_args *given, tsr_array **out, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "nonzero_dims");
  tsr_find_args args = { .size = sizeof args };
  tsr_array *bad, *list = list_of("tsr_nonzero_dims", given, &args, &bad, site);
  int rank = args.x ? args.x->shape.rank : 0;
  tsr_array *at = list && !list->inert ? true_places(list, args.count, site) : NULL;
  int64_t inner = 1;
  /* C order: the last dim runs fastest. */
  for (int d = rank - 1; d >= 0; d--) {
    /* A dim of no elements divides by 0 otherwise; there is nothing to be found then. */
    int64_t size = args.x->shape.dims[d] > 0 ? args.x->shape.dims[d] : 1;
    out[d] = list ? list : bad;
    if (!at) continue;
    tsr_array *there = tsr_lt_at(at, whole(list->shape.dims[0]), site);
    tsr_array *along = tsr_mod_at(tsr_floordiv_at(at, whole(inner), site), whole(size), site);
    out[d] = tsr_where_at(there, tsr__of(along), or_zero(args.fill), site);
    inner *= size;
  }
}

/* ---- finding in order ---- */

/* Two arrays as what can be compared with each other; bools as numbers. */
static void compare_alike(tsr_array **a, tsr_array **b, const char *site)
{
  /* Searches compare numbers; false and true are 0 and 1 as numbers, in the same order. */
  tsr_dtype meet = tsr__meet_of(TSR__IN(*a, *b));
  if (meet == TSR_BOOL) meet = TSR_U8;
  *a = tsr_cast_at(*a, meet, site);
  *b = tsr_cast_at(*b, meet, site);
}

/* How many entries are not above each element; NaN is above all, and equal to itself. */
static tsr_array *not_above(tsr_array *sorted, tsr_array *x, const char *site)
{
  tsr_array *at = tsr__make(NULL, TSR__OP_SEARCH, TSR__IN(sorted, x), &(tsr__ask){ 0 }, site);
  if (!tsr__of_floats(x)) return at;
  /* SEARCH compares, and nothing compares with NaN, so where they stand is said here: behind
   * all. */
  return tsr_where_at(tsr_isnan_at(x, site), whole(sorted->shape.dims[0]), tsr__of(at), site);
}

/* The same order from the other end: of integers -1 - x, which never overflows. */
static tsr_array *reversed(tsr_array *x, const char *site)
{
  tsr_array *negative = tsr_neg_at(x, site);
  return tsr__of_floats(x) ? negative : tsr_sub_at(negative, whole(1), site);
}

/* How many entries are below each element: all but those that, in the reversed order, are not above
 * it. NaN, last in the table, is -inf there; of NaN all entries are below that are numbers. For
 * instance 3 in 1 3 3 5:
 *
 *    reversed   -5 -3 -3 -1      three are not above -3, so 4 - 3 = 1 entry is below 3 */
static tsr_array *below(tsr_array *sorted, tsr_array *x, const char *site)
{
  int64_t size = sorted->shape.dims[0];
  tsr_array *table = reversed(sorted, site);
  tsr_operand least = tsr_operand_float(-(double)INFINITY);
  if (tsr__of_floats(x))
    table = tsr_where_at(tsr_isnan_at(sorted, site), least, tsr__of(table), site);
  table = tsr_flip_at(table, (tsr_dims){ 0 }, site);
  tsr_array *rest =
      tsr__make(NULL, TSR__OP_SEARCH, TSR__IN(table, reversed(x, site)), &(tsr__ask){ 0 }, site);
  tsr_array *at = tsr_add_at(tsr_neg_at(rest, site), whole(size), site);
  if (!tsr__of_floats(x)) return at;
  tsr_array *number = tsr_not_at(tsr_isnan_at(sorted, site), site);
  tsr_array *numbers = tsr_count_at(&(tsr_reduce_args){ .x = number }, site);
  /* Only numbers are below a NaN, however many NaN end the list. */
  return tsr_where_at(tsr_isnan_at(x, site), tsr__of(numbers), tsr__of(at), site);
}

/*   right   entries <= x   not_above       1 3 3 5, x = 3:   3
 *   left    entries <  x   below                             1 */
static tsr_array *find_place(const char *call, tsr_array *sorted, tsr_array *x, bool right,
                             const char *site)
{
  TSR__CALL(tsr__home(x), call + strlen("tsr_"));
  tsr_array *bad = unusable(call, TSR__IN(sorted, x), site);
  tsr__error error = { .status = TSR_OK };
  if (bad) return bad;
  if (check_list(call, "the sorted array is", sorted, &error))
    return tsr__refused(sorted, &error, site);
  compare_alike(&sorted, &x, site);
  return right ? not_above(sorted, x, site) : below(sorted, x, site);
}

tsr_array *tsr_searchsorted_at(tsr_array *sorted, tsr_array *x, bool right, const char *site)
{
  return find_place("tsr_searchsorted", sorted, x, right, site);
}

/* NumPy's `right` says which end of a bin is closed: that of a search is the other one. */
tsr_array *tsr_digitize_at(tsr_array *x, tsr_array *bins, bool right, const char *site)
{
  TSR__CALL(tsr__home(x), "digitize");
  tsr_array *up = find_place("tsr_digitize", bins, x, !right, site);
  /* Fewer than two bins go neither up nor down. */
  if (up->inert || bins->shape.dims[0] < 2) return up;
  /* Which way the bins go is in their elements, which only the run knows: both answers are made,
   * and the ends say which one counts. */
  tsr_array *turned = tsr_flip_at(bins, (tsr_dims){ 0 }, site);
  tsr_array *down = find_place("tsr_digitize", turned, x, !right, site);
  down = tsr_add_at(tsr_neg_at(down, site), whole(bins->shape.dims[0]), site);
  tsr_array *ascends = tsr_ge_at(end_of(bins, -1, site), tsr__of(end_of(bins, 0, site)), site);
  return tsr_where_at(ascends, tsr__of(up), tsr__of(down), site);
}

tsr_array *tsr_isin_at(tsr_array *x, tsr_array *among, const char *site)
{
  TSR__CALL(tsr__home(x), "isin");
  tsr_array *bad = unusable("tsr_isin", TSR__IN(x, among), site);
  tsr__error error = { .status = TSR_OK };
  if (bad) return bad;
  if (check_list("tsr_isin", "the list of values is", among, &error))
    return tsr__refused(x, &error, site);
  compare_alike(&x, &among, site);
  /* A search in nothing gives 0, and no element stands before that. */
  if (!among->shape.dims[0]) {
    tsr_array *none = tsr__strong_number(tsr__home(x), tsr_scalar_bool(false), site);
    return tsr_broadcast_to_at(none, x->shape, site);
  }
  tsr_sort_args order = { .size = sizeof order, .x = among };
  tsr_array *sorted = tsr_sort_at(&order, site);
  /* The last entry not above x is x itself, or x is not there. NaN equals nothing, as in NumPy. */
  tsr_array *at = tsr__make(NULL, TSR__OP_SEARCH, TSR__IN(sorted, x), &(tsr__ask){ 0 }, site);
  tsr_array *last = tsr_maximum_at(tsr_sub_at(at, whole(1), site), whole(0), site);
  tsr_array *same = tsr_eq_at(take_list(sorted, last, site), tsr__of(x), site);
  return tsr_and_at(same, tsr__of(tsr_gt_at(at, whole(0), site)), site);
}

/* ---- lines through points ---- */

typedef struct line {
  tsr_array *x, *x0, *x1, *f0, *f1;
} line;

/* As NumPy: from the left point; where that is NaN from the right one; where that is NaN too, what
 * both have. */
static tsr_array *on_line(const line *l, const char *site)
{
  tsr_array *rise = tsr_sub_at(l->f1, tsr__of(l->f0), site);
  tsr_array *slope = tsr_div_at(rise, tsr__of(tsr_sub_at(l->x1, tsr__of(l->x0), site)), site);
  tsr_array *first = tsr_mul_at(slope, tsr__of(tsr_sub_at(l->x, tsr__of(l->x0), site)), site);
  tsr_array *second = tsr_mul_at(slope, tsr__of(tsr_sub_at(l->x, tsr__of(l->x1), site)), site);
  first = tsr_add_at(first, tsr__of(l->f0), site);
  second = tsr_add_at(second, tsr__of(l->f1), site);
  tsr_array *same = tsr_eq_at(l->f0, tsr__of(l->f1), site);
  tsr_array *flat = tsr_and_at(tsr_isnan_at(second, site), tsr__of(same), site);
  second = tsr_where_at(flat, tsr__of(l->f0), tsr__of(second), site);
  return tsr_where_at(tsr_isnan_at(first, site), tsr__of(second), tsr__of(first), site);
}

static tsr_status check_points(const tsr_interp_args *args, tsr__error *error)
{
  if (check_list("tsr_interp", "xp is", args->xp, error)) return error->status;
  if (check_list("tsr_interp", "fp is", args->fp, error)) return error->status;
  if (args->xp->shape.dims[0] == args->fp->shape.dims[0] && args->xp->shape.dims[0] > 0)
    return TSR_OK;
  return tsr__error_set(
      error, TSR_ESHAPE,
      "tsr_interp: xp is %s and fp is %s; give as many points as values, at least one",
      tsr_type_of(args->xp), tsr_type_of(args->fp));
}

static void to_floats(tsr_interp_args *args, const char *site)
{
  /* Integers are computed with as f64, as in NumPy. */
  tsr_dtype meet = tsr__dtype_of_functions(tsr__meet_of(TSR__IN(args->xp, args->fp, args->x)));
  args->x = tsr_cast_at(args->x, meet, site);
  args->xp = tsr_cast_at(args->xp, meet, site);
  args->fp = tsr_cast_at(args->fp, meet, site);
}

tsr_array *tsr_interp_at(const tsr_interp_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "interp");
  tsr_interp_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_interp", given, &args, sizeof args, &error);
  tsr_array *bad = unusable("tsr_interp", TSR__IN(args.x, args.xp, args.fp), site);
  if (bad) return bad;
  if (!status) status = check_points(&args, &error);
  if (status) return tsr__refused(args.x, &error, site);
  to_floats(&args, site);
  tsr_array *x = args.x, *xp = args.xp, *fp = args.fp;
  int64_t last = xp->shape.dims[0] - 1;
  /* The last point not right of x; left of all of them the first, whose answer is replaced
   * below. */
  tsr_array *at = tsr__make(NULL, TSR__OP_SEARCH, TSR__IN(xp, x), &(tsr__ask){ 0 }, site);
  tsr_array *from = tsr_maximum_at(tsr_sub_at(at, whole(1), site), whole(0), site);
  tsr_array *to = tsr_minimum_at(tsr_add_at(from, whole(1), site), whole(last), site);
  line l = { x, take_list(xp, from, site), take_list(xp, to, site), take_list(fp, from, site),
             take_list(fp, to, site) };
  /* A point gives its own value, untouched by arithmetic: neighbours may be infinite. */
  tsr_array *met = tsr_eq_at(x, tsr__of(l.x0), site);
  tsr_array *y = tsr_where_at(met, tsr__of(l.f0), tsr__of(on_line(&l, site)), site);
  tsr_array *first_x = end_of(xp, 0, site), *last_x = end_of(xp, last, site);
  tsr_operand left = tsr__is_given(args.left) ? args.left : tsr__of(end_of(fp, 0, site));
  tsr_operand right = tsr__is_given(args.right) ? args.right : tsr__of(end_of(fp, last, site));
  tsr_array *inside = tsr_le_at(x, tsr__of(last_x), site),
            *not_below = tsr_ge_at(x, tsr__of(first_x), site);
  tsr_array *nan = tsr_isnan_at(x, site);
  /* A NaN is on neither side: it compares false with both ends. */
  y = tsr_where_at(tsr_or_at(inside, tsr__of(nan), site), tsr__of(y), right, site);
  y = tsr_where_at(tsr_or_at(not_below, tsr__of(nan), site), tsr__of(y), left, site);
  /* NumPy's: a single point answers a NaN, several do not. */
  return tsr_where_at(nan, last ? tsr__of(x) : tsr__of(end_of(fp, 0, site)), tsr__of(y), site);
}

/* ---- different elements ---- */

/* Every result is the inert array, so that whichever the caller goes on with says the same. */
static tsr_unique_parts no_parts(tsr_array *inert)
{
  return (tsr_unique_parts){ inert, inert, inert, inert };
}

/* Where an element of a sorted list is another than the one before it; NaNs, last, are one. */
static tsr_array *begins(tsr_array *sorted, const char *site)
{
  int64_t size = sorted->shape.dims[0];
  /* No first element, so nothing begins. */
  if (!size) return tsr_cast_at(sorted, TSR_BOOL, site);
  tsr_array *before = part(sorted, 0, size - 1, site), *next = part(sorted, 1, size, site);
  tsr_array *other = tsr_ne_at(next, tsr__of(before), site);
  if (tsr__of_floats(sorted))
    other = tsr_and_at(other, tsr__of(tsr_not_at(tsr_isnan_at(before, site), site)), site);
  tsr_array *first = tsr_full_at(tsr__home(sorted), tsr_operand_bool(true), TSR_BOOL, TSR_SHAPE(1),
                                 (tsr_sharding){ 0 }, site);
  return tsr_concat_at((tsr_array *const[]){ first, other }, 2, 0, site);
}

/* Of list `of_first` the elements at the places where values begin; of those missing `fill`, or the
 * first. */
static tsr_array *at_begins(tsr_array *list, tsr_array *at, tsr_operand fill, const char *site)
{
  int64_t size = list->shape.dims[0];
  tsr_take_args take = { .x = list, .indices = at, .mode = TSR_INDEX_FILL, .fill = fill };
  if (tsr__is_given(fill) || !size) return tsr_take_at(&take, site);
  tsr_array *there = tsr_lt_at(at, whole(size), site);
  return take_list(list, tsr_where_at(there, tsr__of(at), whole(0), site), site);
}

tsr_unique_parts tsr_unique_at(const tsr_find_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "unique");
  tsr_find_args args = { .size = sizeof args };
  tsr_array *bad, *list = list_of("tsr_unique", given, &args, &bad, site);
  if (!list || list->inert) return no_parts(list ? list : bad);
  /* What is filled in for missing values is the first, which a list of none has not. */
  if (!list->shape.dims[0]) args.fill = or_zero(args.fill);
  tsr_sort_args order = { .size = sizeof order, .x = list };
  tsr_array *sorted = tsr_sort_at(&order, site), *from = tsr_argsort_at(&order, site);
  /* One place more than values: the counts are differences, and of values that are not there, whose
   * places are the end of the list, 0. */
  tsr_array *first = begins(sorted, site), *places = true_places(first, args.count + 1, site);
  tsr_array *at = part(places, 0, args.count, site), *end = part(places, 1, args.count + 1, site);
  /* A value's number, at the places that the sort took elements from: back to where they stood. */
  tsr_array *number = tsr_sub_at(sums_up_to(first, site), whole(1), site);
  tsr_array *inverse = tsr_scatter_at(
      &(tsr_scatter_args){ .x = number, .indices = from, .updates = tsr__of(number) }, site);
  if (args.x->shape.rank != 1) inverse = tsr_reshape_at(inverse, args.x->shape, site);
  return (tsr_unique_parts){
    .values = at_begins(sorted, at, args.fill, site),
    .index = at_begins(from, at, tsr_operand_int(0), site),
    .inverse = inverse,
    .counts = tsr_sub_at(end, tsr__of(at), site),
  };
}

/* ---- counting ---- */

tsr_array *tsr_one_hot_at(tsr_array *indices, int64_t classes, tsr_dtype dtype, const char *site)
{
  TSR__CALL(tsr__home(indices), "one_hot");
  tsr_array *bad = unusable("tsr_one_hot", TSR__IN(indices), site);
  tsr__error error = { .status = TSR_OK };
  if (bad) return bad;
  int rank = indices->shape.rank, dims[TSR_MAX_RANK];
  if (!tsr__dtype_integer((tsr_dtype)indices->dtype))
    tsr__error_set(&error, TSR_EDTYPE,
                   "tsr_one_hot: the index is %s, expected an integer; convert it with tsr_cast",
                   tsr_type_of(indices));
  else if (classes < 0 || rank == TSR_MAX_RANK)
    tsr__error_set(&error, TSR_EARG,
                   "tsr_one_hot: %lld classes for indices %s; give 0 or more classes, and indices "
                   "of at most %d dims",
                   (long long)classes, tsr_type_of(indices), TSR_MAX_RANK - 1);
  if (error.status) return tsr__refused(indices, &error, site);
  /* Broadcasting adds dims in front: the classes are the first dim, which a view then makes the
   * last. */
  tsr_shape shape = { .rank = rank + 1, .dims = { classes } };
  memcpy(shape.dims + 1, indices->shape.dims, (size_t)rank * sizeof *shape.dims);
  for (int d = 0; d <= rank; d++) dims[d] = d < rank ? d + 1 : 0;
  tsr_array *spread =
      tsr_transpose_at(tsr_broadcast_to_at(indices, shape, site), dims, rank + 1, site);
  /* As numbers that i64 has: none of those above is a class. */
  if (indices->dtype == TSR_U64) spread = tsr_minimum_at(spread, whole(INT64_MAX), site);
  tsr_array *is = tsr_eq_at(tsr_cast_at(spread, TSR_I64, site),
                            tsr__of(iota(tsr__home(indices), classes, site)), site);
  return tsr_cast_at(is, dtype ? dtype : TSR_F32, site);
}

/* How many elements are in each group, or what they weigh; those of group -1 are in none. Sums by
 * groups are exact, as all sums, and counts are of i64: how elements lie cannot show. */
static tsr_array *by_group(tsr_array *codes, tsr_array *weights, int64_t groups, const char *site)
{
  /* A sum by groups is of dims; a single number is a dim of one. */
  if (!codes->shape.rank) codes = tsr_broadcast_to_at(codes, TSR_SHAPE(1), site);
  if (weights && !weights->inert && !weights->shape.rank)
    weights = tsr_broadcast_to_at(weights, TSR_SHAPE(1), site);
  tsr_array *x = weights ? weights : tsr_ge_at(codes, whole(0), site);
  return tsr__make(NULL, weights ? TSR__OP_SUM : TSR__OP_COUNT, TSR__IN(x, NULL, codes),
                   &(tsr__ask){ TSR__ATTR(tsr__reduce_attr, .groups = groups) }, site);
}

/* Integers of 0 .. groups - 1 as codes; others are in none. i32 is what groups are coded in, and
 * there are never more of them than that holds. */
static tsr_array *codes_of(tsr_array *at, int64_t groups, const char *site)
{
  tsr_array *from = tsr_ge_at(at, whole(0), site), *to = tsr_lt_at(at, whole(groups), site);
  tsr_array *inside = tsr_and_at(from, tsr__of(to), site);
  return tsr_cast_at(tsr_where_at(inside, tsr__of(at), whole(-1), site), TSR_I32, site);
}

static tsr_status check_weights(const char *call, tsr_array *x, tsr_array *weights,
                                tsr__error *error)
{
  bool same = !weights || weights->shape.rank == x->shape.rank;
  for (int d = 0; weights && same && d < x->shape.rank; d++)
    same = weights->shape.dims[d] == x->shape.dims[d];
  if (same) return TSR_OK;
  return tsr__error_set(error, TSR_ESHAPE, "%s: the weights are %s, expected the shape of x, %s",
                        call, tsr_type_of(weights), tsr_type_of(x));
}

tsr_array *tsr_bincount_at(tsr_array *x, int64_t length, tsr_array *weights, const char *site)
{
  TSR__CALL(tsr__home(x), "bincount");
  tsr_array *bad = unusable("tsr_bincount", TSR__IN(x), site);
  tsr__error error = { .status = TSR_OK };
  if (bad || (weights && weights->inert)) return bad ? bad : weights;
  if (!tsr__dtype_integer((tsr_dtype)x->dtype))
    tsr__error_set(&error, TSR_EDTYPE,
                   "tsr_bincount: x is %s, expected integers; convert it with tsr_cast",
                   tsr_type_of(x));
  else if (length < 1 || length > INT32_MAX)
    tsr__error_set(&error, TSR_EARG, "tsr_bincount: the length is %lld, expected 1 to %d",
                   (long long)length, INT32_MAX);
  else check_weights("tsr_bincount", x, weights, &error);
  if (error.status) return tsr__refused(x, &error, site);
  /* Too large for any group as it was, but no negative number when it is cast. */
  if (x->dtype == TSR_U64) x = tsr_minimum_at(x, whole(INT64_MAX), site);
  return by_group(codes_of(tsr_cast_at(x, TSR_I64, site), length, site), weights, length, site);
}

/* Two numbers as arrays of rank 0: f64, or of floats that are looked at, of their dtype. */
typedef struct ends {
  tsr_array *low, *high;
} ends;

static tsr_array *real(tsr_scope *scope, double number, const char *site)
{
  return tsr__strong_number(scope, tsr_scalar_float(number), site);
}

/* From where to where equal bins go: NumPy makes room around a single value. As arrays of rank 0,
 * since of data they are known to the run alone; so no terminal comes between. */
static ends ends_of(const tsr_histogram_args *args, const char *site)
{
  tsr_array *x = args->x;
  tsr_scope *scope = tsr__home(x);
  bool none = false;
  for (int d = 0; d < x->shape.rank; d++) none = none || !x->shape.dims[d];
  /* A range that was given, or no element to take one from: NumPy's 0 to 1. */
  if (args->low < args->high || none) {
    bool asked = args->low < args->high;
    return (ends){ real(scope, asked ? args->low : 0, site),
                   real(scope, asked ? args->high : 1, site) };
  }
  tsr_dtype dtype = tsr__of_floats(x) ? (tsr_dtype)x->dtype : TSR_F64;
  ends e = { tsr_cast_at(tsr_min_at(&(tsr_reduce_args){ .x = x }, site), dtype, site),
             tsr_cast_at(tsr_max_at(&(tsr_reduce_args){ .x = x }, site), dtype, site) };
  /* Ends that were given and are equal, but for 0 and 0, which is what leaving them out looks
   * like. */
  if (args->low != 0 || args->high != 0)
    e = (ends){ real(scope, args->low, site), real(scope, args->high, site) };
  tsr_array *same = tsr_eq_at(e.low, tsr__of(e.high), site);
  tsr_operand half = tsr_operand_float(0.5);
  return (
      ends){ tsr_where_at(same, tsr__of(tsr_sub_at(e.low, half, site)), tsr__of(e.low), site),
             tsr_where_at(same, tsr__of(tsr_add_at(e.high, half, site)), tsr__of(e.high), site) };
}

/* low + i * step, and high at the end. */
static tsr_array *equal_edges(const tsr_histogram_args *args, const char *site)
{
  ends e = ends_of(args, site);
  int64_t bins = args->bins;
  tsr_array *i = iota(tsr__home(args->x), bins + 1, site);
  tsr_array *step =
      tsr_div_at(tsr_sub_at(e.high, tsr__of(e.low), site), tsr_operand_float((double)bins), site);
  /* In the dtype of the step, f64 or x's own: i * step + low as NumPy has it. */
  tsr_array *edge = tsr_mul_at(tsr_cast_at(i, tsr_dtype_of(step), site), tsr__of(step), site);
  edge = tsr_add_at(edge, tsr__of(e.low), site);
  /* Not low + bins * step, which rounds: the largest element must be in the last bin. */
  edge = tsr_where_at(tsr_eq_at(i, whole(bins), site), tsr__of(e.high), tsr__of(edge), site);
  return tsr__of_floats(args->x) ? tsr_cast_at(edge, (tsr_dtype)args->x->dtype, site) : edge;
}

/* Sets args->bins to what it is in all three cases: as many as edges leave, as asked for, or 10. */
static tsr_status check_histogram(tsr_histogram_args *args, tsr__error *error)
{
  if (args->x->dtype == TSR_BOOL)
    return tsr__error_set(error, TSR_EDTYPE, "tsr_histogram: x is %s, expected numbers",
                          tsr_type_of(args->x));
  if (args->edges && check_list("tsr_histogram", "the edges are", args->edges, error))
    return error->status;
  int64_t bins = args->edges ? args->edges->shape.dims[0] - 1 : args->bins ? args->bins : 10;
  /* inf - inf is NaN, which does not equal itself; low <= high is false of NaN ends. */
  bool range = args->low <= args->high && args->low - args->high == args->low - args->high;
  args->bins = bins;
  if (bins >= 1 && bins < INT32_MAX && range) return TSR_OK;
  char low[32], high[32];
  tsr__text_f64(low, args->low);
  tsr__text_f64(high, args->high);
  return tsr__error_set(error, TSR_EARG,
                        "tsr_histogram: %lld bins from %s to %s; give at least one bin or two "
                        "edges, and a low end below the high end",
                        (long long)bins, low, high);
}

/* Counts over the widths of their bins and the sum of all. In f64 whatever the dtype of the edges,
 * as NumPy has it. */
static tsr_array *density_of(tsr_array *counts, tsr_array *edges, int64_t bins, const char *site)
{
  tsr_array *width =
      tsr_sub_at(part(edges, 1, bins + 1, site), tsr__of(part(edges, 0, bins, site)), site);
  tsr_array *sum = tsr_sum_at(&(tsr_reduce_args){ .x = counts }, site);
  tsr_array *per = tsr_div_at(tsr_cast_at(counts, TSR_F64, site),
                              tsr__of(tsr_cast_at(width, TSR_F64, site)), site);
  return tsr_div_at(per, tsr__of(tsr_cast_at(sum, TSR_F64, site)), site);
}

tsr_histogram_parts tsr_histogram_at(const tsr_histogram_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "histogram");
  tsr_histogram_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_histogram", given, &args, sizeof args, &error);
  tsr_array *x = args.x, *bad = unusable("tsr_histogram", TSR__IN(x), site);
  if (!bad && args.edges) bad = unusable("tsr_histogram", TSR__IN(x, args.edges), site);
  if (!bad && args.weights) bad = unusable("tsr_histogram", TSR__IN(x, args.weights), site);
  if (bad) return (tsr_histogram_parts){ bad, bad };
  if (!status) status = check_histogram(&args, &error);
  if (!status) status = check_weights("tsr_histogram", x, args.weights, &error);
  if (status) {
    bad = tsr__refused(x, &error, site);
    return (tsr_histogram_parts){ bad, bad };
  }
  tsr_array *edges = args.edges ? args.edges : equal_edges(&args, site), *among = edges;
  /* The edges that are given back keep their dtype; those that are searched get that of both. */
  compare_alike(&among, &x, site);
  tsr_array *at = tsr__make(NULL, TSR__OP_SEARCH, TSR__IN(among, x), &(tsr__ask){ 0 }, site);
  /* Bins are open at the right but for the last one (NumPy). */
  tsr_array *last = tsr_eq_at(x, tsr__of(end_of(among, -1, site)), site);
  at = tsr_where_at(last, whole(args.bins - 1), tsr__of(tsr_sub_at(at, whole(1), site)), site);
  tsr_array *counts = by_group(codes_of(at, args.bins, site), args.weights, args.bins, site);
  if (args.density) counts = density_of(counts, edges, args.bins, site);
  return (tsr_histogram_parts){ counts, edges };
}
