/* Inside inference: types in words, and the shape rules of infer_index.c. */
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

/* A dim of operand 0 that it has not; negative ones as they came, counted from the end. */
static inline tsr_status no_such_dim(tsr__op op, const tsr__type *x, int64_t dim, tsr__error *error)
{
  return tsr__no_dim(error, tsr__ops[op].name, dim < 0 ? dim - x->rank : dim, text_of(x).text,
                     x->rank);
}

/* ALONG: that of operand 0, which has the dim. */
tsr_status tsr__along_shape(tsr__op op, tsr__types in, const tsr__dim_attr *attr, tsr_shape *out,
                            tsr__error *error);
/* Rules of looking into tables and of scattering (infer_index.c); `attr` begins with the dim. */
tsr_status tsr__take_shape(tsr__op op, tsr__types in, const void *attr, tsr_shape *out,
                           tsr__error *error);
tsr_status tsr__take_along_shape(tsr__types in, const tsr__dim_attr *attr, tsr_shape *out,
                                 tsr__error *error);
tsr_status tsr__scatter_shape(tsr__op op, tsr__types in, const tsr__scatter_attr *attr,
                              tsr_shape *out, tsr__error *error);

#endif
