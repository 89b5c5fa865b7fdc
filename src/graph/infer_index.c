/* Shapes of looking into tables, and of scattering.
 *
 *   take      table [A, t, B] at indices [S]     -> [A, S, B]     t: a dim, or some dims as one
 *   along     table [A, t, B] at indices [A, i, B] -> [A, i, B]
 *   scatter   [A, t, B] at indices [S], updates [A, S, B] -> [A, t, B] */
#include "graph/infer_inner.h"

/* The dims that an attribute names of a table: from `dim` to before the returned one. */
static int dims_end(tsr__op op, const void *attr)
{
  const tsr__span_attr *span = attr;
  /* Both families begin with the dim; only one of them has `more`. */
  const tsr__dim_attr *one = attr;
  bool many = tsr__ops[op].attr == TSR__ATTR_SPAN || tsr__ops[op].attr == TSR__ATTR_SCATTER;
  return (int)(many ? span->dim + span->more : one->dim) + 1;
}

/* What lies at indices: the table's dims before and behind, and theirs between. */
static tsr_shape found_shape(const tsr__type *table, const tsr__type *index, int dim, int end)
{
  tsr_shape shape = { .rank = table->rank - (end - dim) + index->rank };
  int at = 0;
  for (int d = 0; d < dim; d++) shape.dims[at++] = dim_of(table, d);
  for (int d = 0; d < index->rank; d++) shape.dims[at++] = dim_of(index, d);
  for (int d = end; d < table->rank; d++) shape.dims[at++] = dim_of(table, d);
  return shape;
}

tsr_status tsr__shape_take(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                           tsr__error *error)
{
  const tsr__dim_attr *attr = asked_attr(op, ask);
  const tsr__type *table = &in.at[0], *index = &in.at[1];
  const char *name = tsr__ops[op].name;
  int64_t first = attr->dim;
  if (first < 0 || first >= table->rank || dims_end(op, attr) > table->rank)
    return no_such_dim(op, table, first, error);
  /* The dim is known to be good from here on, so differences of ranks cannot be negative. */
  int dim = (int)first, end = dims_end(op, attr), rank = table->rank - (end - dim) + index->rank;
  if (rank > TSR_MAX_RANK)
    return tsr__error_set(
        error, TSR_ESHAPE,
        "tsr_%s: the result of %s at indices %s would have %d dims, the most is %d", name,
        text_of(table).text, text_of(index).text, rank, TSR_MAX_RANK);
  /* Sizes of the run may be dim 0 only, and that of the indices would come to stand behind `dim`
   * others. */
  if (dim > 0 && index->rank > 0 && dim_of(index, 0) == TSR__DYNAMIC)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "tsr_%s: %s cannot be indexed along dim %d by indices whose number is "
                          "known only at run time; take along dim 0",
                          name, text_of(table).text, dim);
  *out = found_shape(table, index, dim, end);
  return TSR_OK;
}

tsr_status tsr__shape_take_along(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                                 tsr__error *error)
{
  const tsr__dim_attr *attr = asked_attr(op, ask);
  const tsr__type *table = &in.at[0], *index = &in.at[1];
  if (tsr__shape_along(op, in, ask, out, error)) return error->status;
  bool fits = table->rank == index->rank;
  for (int d = 0; fits && d < table->rank; d++)
    /* Ones were broadcast by the call, so that here all must be equal. */
    fits = d == attr->dim || dim_of(table, d) == dim_of(index, d);
  *out = shape_of(index);
  if (fits) return TSR_OK;
  return tsr__error_set(error, TSR_ESHAPE,
                        "tsr_%s: %s along dim %lld does not fit indices %s; the other dims of both "
                        "must be equal, or one of them 1",
                        tsr__ops[op].name, text_of(table).text, (long long)attr->dim,
                        text_of(index).text);
}

tsr_status tsr__shape_scatter(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                              tsr__error *error)
{
  const tsr__scatter_attr *attr = asked_attr(op, ask);
  const tsr__type *x = &in.at[0], *at = &in.at[1], *updates = &in.at[2];
  if (tsr__shape_along(op, in, ask, out, error)) return error->status;
  int dim = (int)attr->dim, end = dims_end(op, attr), rank = x->rank - (end - dim) + at->rank;
  tsr_shape found = { .rank = 0 };
  /* Too many dims are reported as updates that do not fit: none could. */
  bool fits = end <= x->rank && rank <= TSR_MAX_RANK;
  if (fits) found = found_shape(x, at, dim, end);
  fits = fits && rank == updates->rank;
  for (int d = 0; fits && d < rank; d++) fits = dim_of(updates, d) == found.dims[d];
  if (fits) return TSR_OK;
  tsr__type want = { .dtype = x->dtype, .rank = (uint8_t)found.rank, .dims = found.dims };
  return tsr__error_set(
      error, TSR_ESHAPE,
      "tsr_%s: the updates are %s for %s at indices %s, expected a shape that broadcasts to %s",
      tsr__ops[op].name, text_of(updates).text, text_of(x).text, text_of(at).text,
      text_of(&want).text);
}
