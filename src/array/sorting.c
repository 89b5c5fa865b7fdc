/* Order and prefixes along a dim: the calls of include/tessera/sorting.h. The work is that of
 * device routines (kernel/routine).
 *
 * Order is stable, NaN last in either direction, both zeros equal. Bools have no order of
 * their own and go as u8, which keeps it. */
#include "tessera/sorting.h"
#include "array/array_room.h"

/* What is no dim, inference says. */
static int64_t dim_of(const tsr_array *x, int64_t dim)
{
  return x && !x->inert && dim < 0 ? dim + x->shape.rank : dim;
}

/* ---- order ----------------------------------------------------------------------------------- */

/* What a call wants of a node that gives both. */
enum { ELEMENTS, PLACES };

/* Values and places are two results of one node: asked for both, it sorts once. Bools sort as
 * numbers. `call`: "argsort". */
static tsr_array *sorted(tsr_array *a, tsr__sort_attr attr, int result, const char *call,
                         const char *site)
{
  tsr__op op = attr.order == TSR__ORDER_LARGEST ? TSR__OP_TOP_K : TSR__OP_SORT;
  /* TOP_K and SORT give elements and places as two results; RESULT picks one. */
  bool truth = tsr__usable(a) && a->dtype == TSR_BOOL;
  attr.dim = dim_of(a, attr.dim);
  if (truth) a = tsr_cast_at(a, TSR_U8, site);
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr, .call = call };
  tsr_array *both = tsr__make(NULL, op, TSR__IN(a), &ask, site);
  tsr_array *out = tsr__make(NULL, TSR__OP_RESULT, TSR__IN(both),
                             &(tsr__ask){ TSR__ATTR(tsr__index_attr, .index = result) }, site);
  return truth && result == ELEMENTS ? tsr_cast_at(out, TSR_BOOL, site) : out;
}

static tsr_array *sort_as_asked(const tsr_sort_args *given, int result, const char *what,
                                const char *site)
{
  tsr_sort_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_array *x = given ? given->x : NULL;
  /* NULL arguments are told by what the node says of its operand. */
  if (tsr__take_opts(what, given, &args, sizeof args, &error) && tsr__usable(x))
    return tsr__refused(x, &error, site);
  int64_t order = args.descending ? TSR__ORDER_DESCENDING : TSR__ORDER_ASCENDING;
  /* Calls are named without "tsr_" in nodes. */
  return sorted(x, (tsr__sort_attr){ .dim = args.dim, .order = order }, result,
                what + strlen("tsr_"), site);
}

tsr_array *tsr_sort_at(const tsr_sort_args *args, const char *site)
{
  return sort_as_asked(args, ELEMENTS, "tsr_sort", site);
}

tsr_array *tsr_argsort_at(const tsr_sort_args *args, const char *site)
{
  return sort_as_asked(args, PLACES, "tsr_argsort", site);
}

/* Of keys some of which are bools. */
static tsr_array *lexsort_as_numbers(tsr__operands in, int dim, const char *site)
{
  /* All keys are given on, those that are bools as numbers; the list lives for the call only. */
  tsr__error error = { .status = TSR_OK };
  tsr__heap *heap = &tsr__home_of(in)->rt->heap;
  size_t bytes = (size_t)in.count * sizeof *in.at;
  tsr_array **keys = tsr__new(heap, bytes);
  if (!keys) {
    tsr__error_set(&error, TSR_ENOMEM, "tsr_lexsort: no memory for a list of %d keys", in.count);
    return tsr__refused(in.at[0], &error, site);
  }
  for (int i = 0; i < in.count; i++) {
    bool truth = tsr__usable(in.at[i]) && in.at[i]->dtype == TSR_BOOL;
    keys[i] = truth ? tsr_cast_at(in.at[i], TSR_U8, site) : in.at[i];
  }
  tsr_array *out = tsr_lexsort_at(keys, in.count, dim, site);
  tsr__del(heap, keys, bytes);
  return out;
}

tsr_array *tsr_lexsort_at(tsr_array *const *keys, int count, int dim, const char *site)
{
  tsr__operands in = { keys, keys && count > 0 ? count : 0 };
  bool truth = false;
  for (int i = 0; i < in.count; i++) {
    truth = truth || (tsr__usable(keys[i]) && keys[i]->dtype == TSR_BOOL);
    /* A key that is NULL would end the list: said here, by its number. */
    if (keys[i]) continue;
    tsr_scope *scope = tsr__home_of(in);
    tsr__fail(scope, site, TSR_EARG, "tsr_lexsort: key %d is NULL; give an array", i + 1);
    return tsr__make_inert(scope, site);
  }
  int64_t along = dim_of(in.count ? keys[0] : NULL, dim);
  if (truth) return lexsort_as_numbers(in, dim, site);
  return tsr__make(NULL, TSR__OP_LEXSORT, in,
                   &(tsr__ask){ TSR__ATTR(tsr__sort_attr, .dim = along) }, site);
}

static tsr_array *largest(tsr_array *a, tsr__dim_attr dim, int64_t count, int result,
                          const char *site)
{
  tsr__sort_attr attr = { .dim = dim.dim, .count = count, .order = TSR__ORDER_LARGEST };
  return sorted(a, attr, result, result == ELEMENTS ? "top_k" : "arg_top_k", site);
}

tsr_array *tsr_top_k_at(tsr_array *a, int64_t count, int dim, const char *site)
{
  return largest(a, (tsr__dim_attr){ dim }, count, ELEMENTS, site);
}

tsr_array *tsr_arg_top_k_at(tsr_array *a, int64_t count, int dim, const char *site)
{
  return largest(a, (tsr__dim_attr){ dim }, count, PLACES, site);
}

/* A sort is the partition that no method can change. */
static tsr_array *parted(tsr_array *a, tsr__dim_attr dim, int64_t kth, int result, const char *site)
{
  /* The place only has to exist: all of the order is made. */
  const char *call = result == ELEMENTS ? "partition" : "argpartition";
  int64_t along = dim_of(a, dim.dim);
  bool known = tsr__usable(a) && along >= 0 && along < a->shape.rank;
  int64_t size = known ? a->shape.dims[along] : 0;
  /* A size known at run time only is not checked: the sort does not depend on the place. */
  if (known && size >= 0 && (kth < -size || kth >= size)) {
    tsr__error error = { .status = TSR_OK };
    tsr__error_set(&error, TSR_EARG,
                   "tsr_%s: position %lld in a dim of %lld elements, expected -%lld..%lld", call,
                   (long long)kth, (long long)size, (long long)size, (long long)size - 1);
    return tsr__refused(a, &error, site);
  }
  return sorted(a, (tsr__sort_attr){ .dim = dim.dim }, result, call, site);
}

tsr_array *tsr_partition_at(tsr_array *a, int64_t kth, int dim, const char *site)
{
  return parted(a, (tsr__dim_attr){ dim }, kth, ELEMENTS, site);
}

tsr_array *tsr_argpartition_at(tsr_array *a, int64_t kth, int dim, const char *site)
{
  return parted(a, (tsr__dim_attr){ dim }, kth, PLACES, site);
}

/* ---- prefixes -------------------------------------------------------------------------------- */

typedef struct scan {
  const char *what; /* "tsr_cumsum" */
  tsr__op op;
  bool picks; /* one of the elements, which may be bools */
  bool skip_nan;
  int64_t neutral; /* counts in the place of NaN that are skipped */
} scan;

static tsr_array *scanned(const tsr_scan_args *given, const scan *how, const char *site)
{
  tsr_scan_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_array *x = given ? given->x : NULL;
  if (tsr__take_opts(how->what, given, &args, sizeof args, &error) && tsr__usable(x))
    return tsr__refused(x, &error, site);
  /* What counts as nothing in the place of NaN: 0 in a sum, 1 in a product. */
  if (how->skip_nan && tsr__usable(x) && tsr__dtype_has_nan((tsr_dtype)x->dtype))
    x = tsr_where_at(tsr_isnan_at(x, site), tsr_operand_int(how->neutral), tsr_operand_array(x),
                     site);
  bool truth = how->picks && tsr__usable(x) && x->dtype == TSR_BOOL;
  if (truth) x = tsr_cast_at(x, TSR_U8, site);
  tsr__scan_attr attr = { .dim = dim_of(x, args.dim), .reverse = args.reverse };
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr, .call = how->what + strlen("tsr_") };
  tsr_array *out = tsr__make(NULL, how->op, TSR__IN(x), &ask, site);
  return truth ? tsr_cast_at(out, TSR_BOOL, site) : out;
}

#define SCAN(name, OP, ...)                                                         \
  tsr_array *tsr_##name##_at(const tsr_scan_args *args, const char *site)           \
  {                                                                                 \
    return scanned(args, &(scan){ "tsr_" #name, TSR__OP_##OP, __VA_ARGS__ }, site); \
  }
SCAN(cumsum, CUMSUM, .picks = false)
SCAN(cumprod, CUMPROD, .picks = false)
SCAN(cummax, CUMMAX, .picks = true)
SCAN(cummin, CUMMIN, .picks = true)
SCAN(nancumsum, CUMSUM, .skip_nan = true, .neutral = 0)
SCAN(nancumprod, CUMPROD, .skip_nan = true, .neutral = 1)
#undef SCAN
