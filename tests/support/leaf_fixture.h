/* Leaves without elements, for tests that look at programs and never run them. */
#ifndef TESTS_SUPPORT_LEAF_FIXTURE_H
#define TESTS_SUPPORT_LEAF_FIXTURE_H

#include "execute/execute.h"
#include "support/topology_fixture.h"

/* A leaf of a shape on `spec` of a mesh (NULL mesh: unplaced). */
static inline tsr_array *fixture_leaf(tsr_scope *s, tsr_dtype dtype, tsr_shape shape,
                                      const tsr_mesh *mesh, const char *spec)
{
  tsr_sharding asked = mesh ? tsr_on(mesh, spec) : (tsr_sharding){ .mesh = NULL };
  tsr_sharding at = tsr__sharding_canon(&asked);
  tsr__error error = { .status = TSR_OK };
  CHECK_STATUS(tsr__sharding_check(&asked, &shape, &error), TSR_OK, NULL);
  tsr__value *value = tsr__value_frame(s->rt, &(tsr__layout){ dtype, &shape, &at, NULL }, &error);
  CHECK(value);
  return tsr__make_leaf(s, dtype, &shape, &at, value, TSR_HERE);
}

/* A leaf whose rows lie as a filter left them: `rows` at each position. */
static inline tsr_array *fixture_ragged(tsr_scope *s, tsr_dtype dtype, tsr_shape shape,
                                        const tsr_mesh *mesh, const char *spec, const int64_t *rows)
{
  tsr_sharding asked = tsr_on(mesh, spec), at = tsr__sharding_canon(&asked);
  tsr__error error = { .status = TSR_OK };
  tsr__value *value = tsr__value_frame(s->rt, &(tsr__layout){ dtype, &shape, &at, rows }, &error);
  CHECK(value);
  return tsr__make_leaf(s, dtype, &shape, &at, value, TSR_HERE);
}

static inline tsr_array *fixture_number(tsr_scope *s, tsr_dtype dtype, double number)
{
  tsr__num value = { .f = number };
  if (!tsr__dtype_is_real(dtype)) value.i = (int64_t)number;
  return tsr__make_const(s, dtype, value, TSR_HERE);
}

/* An operation without attributes on up to three operands. */
static inline tsr_array *fixture_make(tsr__op op, tsr_array *a, tsr_array *b, tsr_array *c,
                                      const char *site)
{
  return tsr__make(a->node.scope, op, TSR__IN(a, b, c), &(tsr__ask){ .dtype = 0 }, site);
}

/* A reduction over a set of dims (0 = all). */
static inline tsr_array *fixture_reduce(tsr__op op, tsr_array *a, tsr_array *mask, uint32_t dims,
                                        const char *site)
{
  tsr__ask ask = { TSR__ATTR(tsr__reduce_attr, .dims = dims) };
  return tsr__make(a->node.scope, op, TSR__IN(a, mask), &ask, site);
}

#endif
