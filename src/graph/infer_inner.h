/* Inside inference: types in words, and the shape rules. */
#ifndef TSR_GRAPH_INFER_INNER_H
#define TSR_GRAPH_INFER_INNER_H

#include "graph/graph.h"

typedef struct type_text {
  char text[160];
} type_text;

static inline int64_t dim_of(const tsr__type *type, int dim)
{
  return type->ragged && !dim ? TSR__DYNAMIC : type->dims[dim];
}

static inline tsr_shape shape_of(const tsr__type *type)
{
  tsr_shape shape = { .rank = type->rank };
  for (int d = 0; d < type->rank; d++) shape.dims[d] = dim_of(type, d);
  return shape;
}

/* dim_of says TSR__DYNAMIC of rows that lie ragged, so two such shapes are equal here; whether
 * they are the same rows is seen at the run. */
static inline bool same_shape(const tsr__type *a, const tsr__type *b)
{
  if (a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; d++)
    if (dim_of(a, d) != dim_of(b, d)) return false;
  return true;
}

/* The dtype of an operand that may be left out: then 0. */
static inline tsr_dtype dtype_at(tsr__types in, int i)
{
  return i < in.count ? (tsr_dtype)in.at[i].dtype : 0;
}

static inline type_text text_of(const tsr__type *type)
{
  type_text out;
  tsr_type_text((tsr_dtype)type->dtype, shape_of(type), type->sharding, out.text, sizeof out.text);
  return out;
}

/* A mistake that was found without knowing the operation. It is wrapped by the row's name here,
 * once, so that whoever finds one (shapes, dtypes) need not know for whom. */
static inline tsr_status name_error(tsr__op op, const tsr__error *found, tsr__error *error)
{
  return tsr__error_set(error, found->status, "tsr_%s: %s", tsr__ops[op].name, found->text);
}

/* A dim of operand 0 that it has not; negative ones as they came, counted from the end. */
static inline tsr_status no_such_dim(tsr__op op, const tsr__type *x, int64_t dim, tsr__error *error)
{
  return tsr__no_dim(error, tsr__ops[op].name, dim < 0 ? dim - x->rank : dim, text_of(x).text,
                     x->rank);
}

/* The attributes asked for; zeros where the call gives none. */
static inline const void *asked_attr(tsr__op op, const tsr__ask *ask)
{
  return ask->attr ? ask->attr : tsr__attrs[tsr__ops[op].attr].zero;
}

/* The column SHAPE (infer.c, infer_views.c, infer_index.c, infer_dot.c, loop.c):
 *
 *   element       broadcast of all operands
 *   search        that of all but operand 0, a table of one dim
 *   reduce        the attribute's dims removed (groups > 0: one dim of that size)
 *   source        given at the call, of a number or along the attribute's dim
 *   first         that of operand 0; like: the same, which operand 1 has too; list: of one dim
 *   along         that of operand 0, which has the attribute's dim; several results have their own
 *   keys          as along, and all operands are numbers of that shape
 *   top           as along, with the attribute's count along the dim
 *   take          the table's dim becomes the dims of operand 1; take_along: that of operand 1
 *   scatter       that of operand 0, operand 2 as take would give it at operand 1
 *   update        that of operand 0, operand 2 no larger along any dim, operand 1 one number a dim
 *   filter        that of operand 0, dim 0 known at run time; operand 1 has a bool for each row
 *   rows          that of operand 0, dim 0 known at run time
 *   dot, blocks   as the attribute says
 *   call, custom, loop   checks operands against the arguments of regions
 *   axis_all, axis_own   a named axis as the first dim of the result, of the operand
 *   result        that of one result of the operand
 *   views         as their attribute or the call says */
tsr__shape_fn tsr__shape_element, tsr__shape_search, tsr__shape_reduce, tsr__shape_source,
    tsr__shape_first, tsr__shape_like, tsr__shape_named, tsr__shape_list, tsr__shape_along,
    tsr__shape_keys, tsr__shape_top, tsr__shape_take, tsr__shape_take_along, tsr__shape_fetch,
    tsr__shape_scatter, tsr__shape_update, tsr__shape_filter, tsr__shape_rows, tsr__shape_dot,
    tsr__shape_blocks, tsr__shape_call, tsr__shape_custom, tsr__shape_loop, tsr__shape_axis_all,
    tsr__shape_axis_own, tsr__shape_result, tsr__shape_slice, tsr__shape_dynamic_slice,
    tsr__shape_order, tsr__shape_broadcast, tsr__shape_pad, tsr__shape_reshape, tsr__shape_roll,
    tsr__shape_pick, tsr__shape_diagonal, tsr__shape_concat;

#endif
