/* Shapes of looking into tables, and of scattering.
 *
 *   take      table [G, A, t, B] at indices [G, S]     -> [G, A, S, B]
 *   along     table [A, t, B] at indices [A, i, B] -> [A, i, B]
 *   scatter   [G, A, t, B] at indices [G, S], updates [G, A, S, B] -> [G, A, t, B]
 *
 * t is a dim, or some dims as one. G are the batch dims, each element of which has indices of its
 * own. */
#include "graph/infer_inner.h"

/* The rank of the elements found at indices. */
static int found_rank(const tsr__type *table, const tsr__type *index, const tsr__span_attr *span)
{
  return (int)(table->rank - span->more - 1 + index->rank - span->batch);
}

/* What lies at indices: the table's dims before and behind, and theirs between. */
static tsr_shape found_shape(const tsr__type *table, const tsr__type *index,
                             const tsr__span_attr *span)
{
  tsr_shape shape = { .rank = found_rank(table, index, span) };
  int at = 0, dim = (int)span->dim, end = dim + (int)span->more + 1;
  for (int d = 0; d < dim; d++) shape.dims[at++] = dim_of(table, d);
  for (int d = (int)span->batch; d < index->rank; d++) shape.dims[at++] = dim_of(index, d);
  for (int d = end; d < table->rank; d++) shape.dims[at++] = dim_of(table, d);
  return shape;
}

/* Checks the dims that are one with a table's dim, which is known to be good, and that the batch
 * dims of the table are those of the indices. */
static tsr_status check_span(tsr__op op, tsr__types in, const tsr__span_attr *span,
                             tsr__error *error)
{
  const tsr__type *table = &in.at[0], *index = &in.at[1];
  if (span->more < 0 || span->more >= table->rank - span->dim)
    return no_such_dim(op, table, span->dim + span->more, error);
  bool fits = span->batch >= 0 && span->batch <= span->dim && span->batch <= index->rank;
  for (int d = 0; fits && d < span->batch; d++) fits = dim_of(table, d) == dim_of(index, d);
  if (fits) return TSR_OK;
  return tsr__error_set(error, TSR_ESHAPE,
                        "tsr_%s: the first %lld dims of %s and of the indices %s differ, expected "
                        "the same before dim %lld",
                        tsr__ops[op].name, (long long)span->batch, text_of(table).text,
                        text_of(index).text, (long long)span->dim);
}

tsr_status tsr__shape_take(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                           tsr__error *error)
{
  const tsr__span_attr *attr = asked_attr(op, ask);
  const tsr__type *table = &in.at[0], *index = &in.at[1];
  const char *name = tsr__ops[op].name;
  int64_t dim = attr->dim;
  if (dim < 0 || dim >= table->rank) return no_such_dim(op, table, dim, error);
  if (check_span(op, in, attr, error)) return error->status;
  /* The dims are known to be good from here on, so differences of ranks cannot be negative. */
  int rank = found_rank(table, index, attr);
  if (rank > TSR_MAX_RANK)
    return tsr__error_set(
        error, TSR_ESHAPE,
        "tsr_%s: the result of %s at indices %s would have %d dims, the most is %d", name,
        text_of(table).text, text_of(index).text, rank, TSR_MAX_RANK);
  /* Sizes of the run may be dim 0 only, and that of the indices would come to stand behind `dim`
   * others. */
  if (dim > 0 && index->rank > 0 && dim_of(index, 0) == TSR__DYNAMIC)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "tsr_%s: %s cannot be indexed along dim %lld by indices whose number is "
                          "known only at run time; take along dim 0",
                          name, text_of(table).text, (long long)dim);
  *out = found_shape(table, index, attr);
  return TSR_OK;
}

/*   table [n, rows, ..], index [n, k] -> [n, k, ..], with the same dims before them all
 *   the lists that each place gives to each: [n, n, 3] */
tsr_status tsr__shape_fetch(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                            tsr__error *error)
{
  const tsr__span_attr *attr = asked_attr(op, ask);
  const tsr__type *table = &in.at[0], *index = &in.at[1];
  bool fits = attr->dim >= 0 && attr->more == 1 && !attr->batch && attr->dim + 1 < table->rank &&
              index->rank == attr->dim + 2;
  for (int d = 0; fits && d <= attr->dim; d++)
    fits = dim_of(table, d) != TSR__DYNAMIC && dim_of(table, d) == dim_of(index, d);
  if (fits && in.count > 2) {
    const tsr__type *gives = &in.at[2];
    int dim = (int)attr->dim;
    fits = gives->rank == dim + 3 && tsr__dtype_integer(dtype_at(in, 2)) &&
           dim_of(gives, dim + 1) == dim_of(table, dim) && dim_of(gives, dim + 2) == 3;
    for (int d = 0; fits && d <= dim; d++) fits = dim_of(gives, d) == dim_of(table, d);
  }
  if (!fits)
    return tsr__error_set(
        error, TSR_ESHAPE,
        "tsr_%s: %s has no rows for indices %s along dim %lld; give both the same "
        "dims up to it, and one more",
        tsr__ops[op].name, text_of(table).text, text_of(index).text, (long long)attr->dim);
  *out = shape_of(table);
  out->dims[attr->dim + 1] = index->dims[attr->dim + 1];
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
  const tsr__span_attr span = { .dim = attr->dim, .more = attr->more, .batch = attr->batch };
  if (tsr__shape_along(op, in, ask, out, error)) return error->status;
  if (check_span(op, in, &span, error)) return error->status;
  int rank = found_rank(x, at, &span);
  tsr_shape found = { .rank = 0 };
  /* Too many dims are reported as updates that do not fit: none could. */
  bool fits = rank <= TSR_MAX_RANK;
  if (fits) found = found_shape(x, at, &span);
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
