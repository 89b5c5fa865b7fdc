/* Taking at indices and scattering: rows of the table with what their modes make of the indices.
 *
 *   error    the row looks at them, or WITHIN does
 *   clamp    the row gets others
 *   fill     the row gets 0 for those out of range, and what it took there is replaced
 *   drop     it gets one beyond all, and leaves that out
 *
 * So the rows themselves know but two kinds of places: those in range, and (of a scatter that
 * drops) those to leave out. All else is arithmetic on indices, which fuses with what is around it.
 *
 * A size known only at run time allows the mode `error` only, as the others compute with it. */
#include "tessera/indexing.h"
#include "array/array_room.h"

#include <math.h>

/* Indices of one dim, or of some that are one; `inside` where they are in range, NULL: the row
 * looks. */
typedef struct aim {
  tsr_array *place, *inside;
} aim;

static bool is_bool(const tsr_array *a)
{
  return tsr__usable(a) && a->dtype == TSR_BOOL;
}

static bool is_index(const tsr_array *a)
{
  return tsr__usable(a) && tsr__dtype_integer((tsr_dtype)a->dtype);
}

/* As i64: what that has not is out of every range. The largest i64 stands for all that is larger:
 * no dim is as long. */
static tsr_array *index_of(tsr_array *at, const char *site)
{
  if (at->dtype == TSR_U64) at = tsr_minimum_at(at, tsr_operand_int(INT64_MAX), site);
  return tsr_cast_at(at, TSR_I64, site);
}

/* What the row gets in place of the indices of a dim of `size`, by the mode. */
static aim aim_at(tsr_array *at, int64_t size, tsr_index_mode mode, const char *site)
{
  tsr_operand zero = tsr_operand_int(0);
  at = index_of(at, site);
  /* Indices in range pass as they are, negative ones too: the row counts these from the end. */
  if (mode == TSR_INDEX_ERROR) return (aim){ at, NULL };
  tsr_array *behind = tsr_lt_at(at, zero, site);
  tsr_array *place =
      tsr_where_at(behind, tsr_operand_array(tsr_add_at(at, tsr_operand_int(size), site)),
                   tsr_operand_array(at), site);
  if (mode == TSR_INDEX_CLAMP) {
    /* An empty dim has no place to clamp to; place 0 is refused by the row as out of range. */
    tsr_array *above = tsr_maximum_at(place, zero, site);
    return (aim){ tsr_minimum_at(above, tsr_operand_int(size ? size - 1 : 0), site), NULL };
  }
  /* One comparison each way, on what negative indices were turned into. */
  tsr_array *from = tsr_ge_at(place, zero, site),
            *to = tsr_lt_at(place, tsr_operand_int(size), site);
  return (aim){ place, tsr_and_at(from, tsr_operand_array(to), site) };
}

/* Those out of range are one place. Of `fill` it is one that may be taken (0), of `drop` one beyond
 * all, which the row leaves out. */
static tsr_array *settle(aim a, int64_t outside, const char *site)
{
  if (!a.inside) return a.place;
  return tsr_where_at(a.inside, tsr_operand_array(a.place), tsr_operand_int(outside), site);
}

static tsr_status check_mode(const char *call, tsr_index_mode mode, tsr__error *error)
{
  if ((int)mode >= TSR_INDEX_ERROR && mode <= TSR_INDEX_FILL) return TSR_OK;
  return tsr__error_set(error, TSR_EARG, "%s: %d is no tsr_index_mode", call, (int)mode);
}

static tsr_status check_known(const char *call, tsr_array *x, int dim, tsr_index_mode mode,
                              tsr__error *error)
{
  if (mode == TSR_INDEX_ERROR || x->shape.dims[dim] >= 0) return TSR_OK;
  return tsr__error_set(error, TSR_EUNSUPPORTED,
                        "%s: the size of dim %d of %s is known only at run time, which allows only "
                        "TSR_INDEX_ERROR; evaluate the array and rebalance its rows first",
                        call, dim, tsr_type_of(x));
}

/* ---- what is filled in ---- */

/* By default as JAX has it. JAX: NaN; of signed integers the least, of others the largest; true. */
static tsr_operand default_fill(tsr_dtype dtype)
{
  /* The ends of each integer type; of signed ones the least, so `most` is 0. */
  static const struct {
    int64_t least;
    uint64_t most;
  } ends[TSR__DTYPES] = {
    [TSR_I8] = { INT8_MIN, 0 },    [TSR_I16] = { INT16_MIN, 0 }, [TSR_I32] = { INT32_MIN, 0 },
    [TSR_I64] = { INT64_MIN, 0 },  [TSR_U8] = { 0, UINT8_MAX },  [TSR_U16] = { 0, UINT16_MAX },
    [TSR_U32] = { 0, UINT32_MAX }, [TSR_U64] = { 0, UINT64_MAX }
  };
  if (tsr__dtype_has_nan(dtype)) return tsr_operand_float((double)NAN);
  if (dtype == TSR_BOOL) return tsr_operand_bool(true);
  return ends[dtype].most ? tsr_operand_uint(ends[dtype].most) : tsr_operand_int(ends[dtype].least);
}

/* The value in the dtype of the result, an array as well as a number. */
static tsr_array *fill_of(const tsr_array *like, tsr_operand given, const char *site)
{
  tsr_dtype dtype = (tsr_dtype)like->dtype;
  if (given.array) return tsr_cast_at(given.array, dtype, site);
  if (given.number.kind == TSR_SCALAR_NONE) given = default_fill(dtype);
  return tsr__number_node(tsr__home(like), given.number, dtype, NULL, site);
}

/* A bool for each index [S] as one for each element [A, S, B] that was found there: spread to
 * [A, B, S], of which a view turns the dims. */
static tsr_array *spread(tsr_array *inside, const tsr_array *found, int before, const char *site)
{
  int rank = found->shape.rank, span = inside->shape.rank, dims[TSR_MAX_RANK];
  tsr_shape shape = { .rank = rank };
  /* `at` goes through the dims of A and B in order, which stand in front in [A, B, S]. */
  int at = 0;
  for (int d = 0; d < rank; d++) {
    bool index = d >= before && d < before + span;
    int from = index ? rank - span + d - before : at++;
    dims[d] = from;
    shape.dims[from] = found->shape.dims[d];
  }
  return tsr_transpose_at(tsr_broadcast_to_at(inside, shape, site), dims, rank, site);
}

/* An operand that is inert has said its error already. */
static tsr_array *fill_in(tsr_array *found, tsr_array *inside, tsr_operand fill, const char *site)
{
  if (!tsr__usable(found) || !tsr__usable(inside)) return found;
  return tsr_where_at(inside, tsr_operand_array(found),
                      tsr_operand_array(fill_of(found, fill, site)), site);
}

/* Nothing is there to take: all is filled in. */
static tsr_array *filled(tsr_array *like, tsr_operand fill, const char *site)
{
  return tsr_broadcast_to_at(fill_of(like, fill, site), like->shape, site);
}

/* ---- along a dim ---- */

static tsr_array *look(tsr__op op, tsr_array *x, tsr_array *at, int dim, const char *site)
{
  tsr__span_attr span = { .dim = dim }; /* begins with the tsr__dim_attr of TAKE_ALONG */
  tsr__ask ask = { .attr = &span, .attr_bytes = tsr__attrs[tsr__ops[op].attr].bytes };
  return tsr__make(NULL, op, TSR__IN(x, at), &ask, site);
}

static tsr_array *within(tsr_array *at, const tsr__within_attr *attr, const char *site)
{
  return tsr__make(NULL, TSR__OP_WITHIN, TSR__IN(at),
                   &(tsr__ask){ .attr = attr, .attr_bytes = sizeof *attr }, site);
}

/* Whether a dim beside the one that is looked into is empty: no element would check an index. */
static bool takes_nothing(const tsr_array *x, int dim)
{
  bool none = false;
  for (int d = 0; d < x->shape.rank; d++) none = none || (d != dim && !x->shape.dims[d]);
  return none;
}

/* Takes along a dim by a row, in any mode. What is wrong with the arguments beyond options and mode
 * is said by inference, in its own words. */
static tsr_array *take(tsr__op op, const char *call, const tsr_take_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), call + strlen("tsr_"));
  tsr_take_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts(call, given, &args, sizeof args, &error);
  tsr_array *x = given ? given->x : NULL, *at = given ? given->indices : NULL;
  int dim = tsr__usable(x) && args.dim < 0 ? args.dim + x->shape.rank : args.dim;
  if (tsr__usable(x) && !status) status = check_mode(call, args.mode, &error);
  bool there = tsr__usable(x) && dim >= 0 && dim < x->shape.rank;
  if (there && !status) status = check_known(call, x, dim, args.mode, &error);
  if (tsr__usable(x) && status) return tsr__refused(x, &error, site);
  if (!there || !is_index(at)) return look(op, x, at, dim, site); /* which says what is wrong */
  aim a = aim_at(at, x->shape.dims[dim], args.mode, site);
  /* Each element that is made looks at its index. Where none is made nobody would, and whether an
   * index is wrong must not depend on the other dims. */
  if (args.mode == TSR_INDEX_ERROR && tsr__ops[op].inserts_dims && takes_nothing(x, dim))
    a.place =
        within(a.place, &(tsr__within_attr){ x->shape.dims[dim], dim, TSR__WITHIN_TAKE }, site);
  tsr_array *found = look(op, x, settle(a, 0, site), dim, site);
  if (!a.inside || !tsr__usable(found)) return found;
  if (!x->shape.dims[dim]) return filled(found, args.fill, site);
  if (tsr__ops[op].inserts_dims) a.inside = spread(a.inside, found, dim, site);
  return fill_in(found, a.inside, args.fill, site);
}

tsr_array *tsr_take_at(const tsr_take_args *args, const char *site)
{
  return take(TSR__OP_TAKE, "tsr_take", args, site);
}

/* Where one of two arrays of a rank has size 1 along a dim, but for one, it takes the other's. */
static void meet(tsr_array **a, tsr_array **b, int but, const char *site)
{
  /* Sizes that differ otherwise are left to inference, which refuses them. */
  tsr_shape of_a = (*a)->shape, of_b = (*b)->shape;
  bool more_a = false, more_b = false;
  for (int d = 0; d < of_a.rank; d++) {
    if (d == but || of_a.dims[d] == of_b.dims[d]) continue;
    if (of_a.dims[d] == 1) of_a.dims[d] = of_b.dims[d], more_a = true;
    else if (of_b.dims[d] == 1) of_b.dims[d] = of_a.dims[d], more_b = true;
  }
  if (more_a) *a = tsr_broadcast_to_at(*a, of_a, site);
  if (more_b) *b = tsr_broadcast_to_at(*b, of_b, site);
}

/* Both broadcast to each other before the node is made, but along the dim that is indexed. */
tsr_array *tsr_take_along_dim_at(const tsr_take_args *given, const char *site)
{
  tsr_take_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  const char *call = "tsr_take_along_dim";
  tsr_status status = tsr__take_opts(call, given, &args, sizeof args, &error);
  if (tsr__usable(args.x) && status) return tsr__refused(args.x, &error, site);
  int rank = tsr__usable(args.x) ? args.x->shape.rank : 0;
  if (tsr__usable(args.x) && tsr__usable(args.indices) && args.indices->shape.rank == rank)
    meet(&args.x, &args.indices, args.dim < 0 ? args.dim + rank : args.dim, site);
  args.size = sizeof args;
  return take(TSR__OP_TAKE_ALONG, call, &args, site);
}

/* ---- at leading dims ---- */

/* What indices of leading dims come to: places of those dims as one. `at` has an array for each of
 * the first dims; the list ends with a NULL. */
static tsr_status aim_nd(const char *call, tsr_array *x, tsr_array *const *at, tsr_index_mode mode,
                         tsr__error *error)
{
  int count = 0;
  while (count < TSR_MAX_RANK && at[count]) count++;
  if (!count || count > x->shape.rank)
    return tsr__error_set(error, TSR_EARG,
                          "%s: %d arrays of indices for %s, expected 1 to %d: one per dim", call,
                          count, tsr_type_of(x), x->shape.rank);
  for (int d = 0; d < count; d++) {
    if (tsr__usable(at[d]) && !is_index(at[d]))
      return tsr__error_set(error, TSR_EDTYPE,
                            "%s: the index of dim %d is %s, expected an integer; convert it with "
                            "tsr_cast",
                            call, d, tsr_type_of(at[d]));
    if (x->shape.dims[d] < 0)
      return tsr__error_set(error, TSR_EUNSUPPORTED,
                            "%s: the size of dim %d of %s is known only at run time; evaluate the "
                            "array and rebalance its rows first",
                            call, d, tsr_type_of(x));
  }
  return check_mode(call, mode, error);
}

static int count_of(tsr_array *const *at)
{
  int count = 0;
  while (count < TSR_MAX_RANK && at[count]) count++;
  return count;
}

/* i * n + j, and so on: what is in range stays so, and nothing can overflow but what is not. */
static aim join_aims(const tsr_array *x, tsr_array *const *at, tsr_index_mode mode, int whom,
                     const char *site)
{
  /* Invariant: after dim d the joined place of what is in range is below the product of the first d
   * + 1 sizes, which the shape of `x` already has. */
  aim all = { NULL, NULL };
  /* C order, the first dim outermost. */
  for (int d = 0; d < count_of(at); d++) {
    int64_t size = x->shape.dims[d];
    aim one = aim_at(at[d], size, mode, site);
    /* Before they are joined: one that is out of range in its dim may be in range of all of
     * them. */
    if (mode == TSR_INDEX_ERROR)
      one.place = within(one.place, &(tsr__within_attr){ size, d, whom }, site);
    one.place = settle(one, 0, site);
    if (all.place) {
      tsr_array *rows = tsr_mul_at(all.place, tsr_operand_int(size), site);
      one.place = tsr_add_at(rows, tsr_operand_array(one.place), site);
    }
    if (all.inside) one.inside = tsr_and_at(all.inside, tsr_operand_array(one.inside), site);
    all = one;
  }
  return all;
}

/* How many places the first `dims` dims have: of none there is nothing to take. */
static int64_t places_of(const tsr_array *x, int dims)
{
  int64_t count = 1;
  for (int d = 0; d < dims; d++) count *= x->shape.dims[d];
  return count;
}

tsr_array *tsr_gather_at(const tsr_gather_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "gather");
  tsr_gather_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_gather", given, &args, sizeof args, &error);
  tsr_array *x = args.x;
  /* `x` may be unusable: the row is made all the same, to say why. */
  if (!tsr__usable(x))
    return tsr__make(NULL, TSR__OP_GATHER, TSR__IN(x, x), &(tsr__ask){ 0 }, site);
  if (!status) status = aim_nd("tsr_gather", x, args.at, args.mode, &error);
  if (status) return tsr__refused(x, &error, site);
  int count = count_of(args.at);
  aim a = join_aims(x, args.at, args.mode, TSR__WITHIN_GATHER, site);
  tsr_array *found = tsr__make(NULL, TSR__OP_GATHER, TSR__IN(x, a.place),
                               &(tsr__ask){ TSR__ATTR(tsr__span_attr, .more = count - 1) }, site);
  if (!a.inside || !tsr__usable(found)) return found;
  if (!places_of(x, count)) return filled(found, args.fill, site);
  return fill_in(found, spread(a.inside, found, 0, site), args.fill, site);
}

/* ---- putting ---- */

/* The updates as an array of what taking at the places gives, where they can be that. */
static tsr_array *updates_for(tsr_array *x, tsr_array *place, const tsr__scatter_attr *attr,
                              tsr_operand given, const char *site)
{
  tsr_shape shape = { .rank = 0 };
  tsr_array *u = given.array;
  /* [dims before, dims of the indices, dims behind]: what a take at these places has. */
  int end = (int)(attr->dim + attr->more) + 1, rank = x->shape.rank - end + (int)attr->dim;
  if (rank + place->shape.rank > TSR_MAX_RANK || (u && u->inert)) return u;
  for (int d = 0; d < attr->dim; d++) shape.dims[shape.rank++] = x->shape.dims[d];
  for (int d = 0; d < place->shape.rank; d++) shape.dims[shape.rank++] = place->shape.dims[d];
  for (int d = end; d < x->shape.rank; d++) shape.dims[shape.rank++] = x->shape.dims[d];
  if (!u && given.number.kind != TSR_SCALAR_NONE)
    u = tsr__number_node(tsr__home(x), given.number, (tsr_dtype)x->dtype, NULL, site);
  if (!tsr__usable(u)) return u;
  /* As broadcasting has it: from the last dim on, equal or 1. */
  bool same = u->shape.rank == shape.rank, fits = u->shape.rank <= shape.rank;
  for (int d = 0; fits && d < u->shape.rank; d++) {
    int64_t mine = u->shape.dims[d], want = shape.dims[d + shape.rank - u->shape.rank];
    same = same && mine == want;
    fits = mine == want || mine == 1;
  }
  return fits && !same ? tsr_broadcast_to_at(u, shape, site) : u;
}

/* Bools are joined as numbers of 0 and 1: their sum is their largest, their product the least. */
static tsr_array *scatter(tsr_array *x, tsr_array *place, tsr_operand updates,
                          tsr__scatter_attr attr, const char *site)
{
  /* Operands of the node have one shape; here they may broadcast, as a number does. */
  tsr_array *u = updates_for(x, place, &attr, updates, site);
  bool truth = is_bool(x) && is_bool(u);
  if (truth) {
    x = tsr_cast_at(x, TSR_U8, site);
    u = tsr_cast_at(u, TSR_U8, site);
    /* u8 has no `or`, but of 0 and 1 the largest is it, and no sum wraps. */
    if (attr.how == TSR_SCATTER_ADD) attr.how = TSR_SCATTER_MAX;
    if (attr.how == TSR_SCATTER_MUL) attr.how = TSR_SCATTER_MIN;
  }
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr };
  tsr_array *out = tsr__make(NULL, TSR__OP_SCATTER, TSR__IN(x, place, u), &ask, site);
  return truth ? tsr_cast_at(out, TSR_BOOL, site) : out;
}

static tsr_status check_how(const char *call, tsr_scatter_how how, tsr__error *error)
{
  if ((int)how >= TSR_SCATTER_SET && how <= TSR_SCATTER_MAX) return TSR_OK;
  return tsr__error_set(error, TSR_EARG, "%s: %d is no tsr_scatter_how", call, (int)how);
}

tsr_array *tsr_scatter_at(const tsr_scatter_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "scatter");
  tsr_scatter_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_scatter", given, &args, sizeof args, &error);
  tsr_array *x = args.x;
  /* An index that is dropped is `size`, the place behind the last one. */
  tsr__scatter_attr attr = { .how = args.how, .drops = args.mode == TSR_INDEX_DROP };
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr };
  attr.dim = tsr__usable(x) && args.dim < 0 ? args.dim + x->shape.rank : args.dim;
  if (!status) status = check_how("tsr_scatter", args.how, &error);
  if (!status) status = check_mode("tsr_scatter", args.mode, &error);
  if (tsr__usable(x) && status) return tsr__refused(x, &error, site);
  bool there = tsr__usable(x) && attr.dim >= 0 && attr.dim < x->shape.rank;
  bool number = args.updates.number.kind != TSR_SCALAR_NONE;
  tsr_array *u = args.updates.array || !number ? args.updates.array : x; /* it says what is wrong */
  /* What inference refuses it refuses in words of its own; places of a size not known yet have no
   * end that could be left out. */
  if (!there || !is_index(args.indices) || x->shape.dims[attr.dim] < 0)
    return tsr__make(NULL, TSR__OP_SCATTER, TSR__IN(x, args.indices, u), &ask, site);
  int64_t size = x->shape.dims[attr.dim];
  /* i32 needs no widening: what it says is all the row asks. */
  bool as_is = args.mode == TSR_INDEX_ERROR && args.indices->dtype == TSR_I32;
  tsr_array *place =
      as_is ? args.indices : settle(aim_at(args.indices, size, args.mode, site), size, site);
  return tsr__usable(place) ? scatter(x, place, args.updates, attr, site) : place;
}

tsr_array *tsr_scatter_nd_at(const tsr_scatter_nd_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "scatter_nd");
  tsr_scatter_nd_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_scatter_nd", given, &args, sizeof args, &error);
  tsr_array *x = args.x;
  if (!tsr__usable(x))
    return tsr__make(NULL, TSR__OP_SCATTER, TSR__IN(x, x, x), &(tsr__ask){ 0 }, site);
  if (!status) status = aim_nd("tsr_scatter_nd", x, args.at, args.mode, &error);
  if (!status) status = check_how("tsr_scatter_nd", args.how, &error);
  if (status) return tsr__refused(x, &error, site);
  int count = count_of(args.at);
  aim a = join_aims(x, args.at, args.mode, TSR__WITHIN_SCATTER, site);
  /* An error has been said where the index was looked at. */
  if (!tsr__usable(a.place)) return a.place;
  tsr__scatter_attr attr = { .more = count - 1,
                             .how = args.how,
                             .drops = args.mode == TSR_INDEX_DROP };
  return scatter(x, settle(a, places_of(x, count), site), args.updates, attr, site);
}
