/* Inside array/ and the rooms above: small things its files share. */
#ifndef TSR_ARRAY_ARRAY_ROOM_H
#define TSR_ARRAY_ARRAY_ROOM_H

#include "execute/execute.h"
#include "graph/leaves.h"
#include "graph/whys.h"
#include "tessera/array.h"
#include "tessera/inspect.h"

/* The operand as a node, in `scope` if it is a number: that takes the dtype it has beside an array
 * of `beside`'s dtype (a weak type: an integer follows any number dtype, a float any float). */
tsr_array *tsr__operand_node(tsr_scope *scope, tsr_array *beside, tsr_operand operand,
                             const char *site);

/* The left operand of a call as an array: a number is one of tsr_num, where results of the arrays
 * beside it belong. */
tsr_array *tsr__left_node(tsr_operand a, tsr__operands beside, const char *site);

/* A number of tsr_num as the node that it is beside an array; all else as it is. For calls that are
 * made of several nodes: a node by itself takes its numbers so (graph/node.c). */
tsr_array *tsr__settled(tsr_array *a, tsr_array *beside, const char *site);

/* The calls of a row of the table, by its family (operations.c). */
tsr_array *tsr__unary(tsr__op op, tsr_array *a, const char *site);
tsr_array *tsr__binary(tsr__op op, tsr_array *a, tsr_operand b, const char *site);
tsr_array *tsr__reduction(tsr__op op, const tsr_reduce_args *given, const char *site);

/* A number as a constant of a dtype, range-checked: an integer that does not fit is an error, said
 * in the name of `what`; NULL: of the call that is open. */
tsr_array *tsr__number_node(tsr_scope *scope, tsr_scalar number, tsr_dtype dtype, const char *what,
                            const char *site);

/* As tsr_num_at, of the widest dtype of the number's kind for good. */
tsr_array *tsr__strong_number(tsr_scope *scope, tsr_scalar value, const char *site);

/* A set of dims as inference takes it: none named is none, and a dim that an array of `rank` has
 * not is one beyond its last. */
uint32_t tsr__dims_bits(tsr_dims dims, int rank);
/* The same of a set that is all dims where none is named, unless it says that none is meant. */
uint32_t tsr__dims_or_all(tsr_dims dims, int rank);
/* Whether one is named twice, and that said in the name of `what`. */
bool tsr__dims_twice(tsr_dims dims, int rank);
tsr_status tsr__dims_once(const char *what, tsr_dims dims, tsr_array *a, tsr__error *error);

/* Whether there is something to look at: neither NULL nor inert. Of others, inert ones are made. */
static inline bool tsr__usable(const tsr_array *a)
{
  return a && !a->inert;
}

static inline bool tsr__of_floats(const tsr_array *a)
{
  return tsr__dtype_is_real((tsr_dtype)a->dtype);
}

/* Whether functions of an array have derivatives. */
static inline bool tsr__has_gradient(const tsr_array *a)
{
  return tsr__dtype_has_gradient((tsr_dtype)a->dtype);
}

/* The array if it is of floats, otherwise its values in f64. */
tsr_array *tsr__as_float(tsr_array *a, const char *site);

/* An array as an operand; short, as formulas are made of it. */
static inline tsr_operand tsr__of(tsr_array *a)
{
  return tsr_operand_array(a);
}

/* As tsr_reshard and tsr_constrain, on account of another call: explanations tell that reason.
 * Rooms call these and not the public ones (lint checks): nobody asked for such a place. */
tsr_array *tsr__reshard_for(tsr_array *a, tsr_sharding to, tsr__why why, const char *site);
tsr_array *tsr__constrain_for(tsr_array *a, tsr_sharding to, tsr__why why, const char *site);

/* A result that is made of others, in the place that was asked for; of no place as it comes. */
static inline tsr_array *tsr__placed_on(tsr_array *a, const tsr_sharding *on, const char *site)
{
  return on->mesh && !a->inert && !a->placed ? tsr__constrain_for(a, *on, TSR__WHY_ON, site) : a;
}

/* Whether an operand that may be left out was named. */
static inline bool tsr__is_given(tsr_operand operand)
{
  return operand.array || operand.number.kind != TSR_SCALAR_NONE;
}

/* Records an error with the scope of an operand, or of several; returns an inert array there. */
tsr_array *tsr__refused(tsr_array *a, const tsr__error *error, const char *site);
tsr_array *tsr__refused_of(tsr__operands in, const tsr__error *error, const char *site);

/* Counts a dim of an array that is not inert from its start. `what`: the call. Error: TSR_EARG. */
tsr_status tsr__find_dim(tsr_array *a, int *dim, const char *what, tsr__error *error);

/* Elements first .. end of an array along a dim. */
tsr_array *tsr__part(tsr_array *a, int dim, tsr_range range, const char *site);
/* The elements along a dim that a table names, one for each of `count` picks, and zeros where a
 * pick is below 0. The table is copied. An inert array is returned itself. */
tsr_array *tsr__pick_dim(tsr_array *a, int dim, const int32_t *picks, int64_t count,
                         const char *site);
/* The array of a pad, of which each element along a dim becomes `step`: itself at place `first`,
 * the pad's value elsewhere. Borders are not looked at. */
tsr_array *tsr__spread_dim(const tsr_pad_args *pad, int dim, int64_t step, int64_t first,
                           const char *site);

/* The elements whose index along the dim after `dim` is `offset` more than along `dim`, in place of
 * both dims; none of a diagonal outside. An inert array is returned itself. */
tsr_array *tsr__diagonal(tsr_array *a, int dim, int64_t offset, const char *site);

/* A dim as `parts` (which divide it) times what is left, two dims; and two dims, from `dim` on, as
 * one. An inert array is returned itself. */
tsr_array *tsr__split_dim(tsr_array *a, int dim, int64_t parts, const char *site);
tsr_array *tsr__join_dims(tsr_array *a, int dim, const char *site);
/* A dim moved by tsr_moveaxis; the array itself if it is inert or the dim stays. */
tsr_array *tsr__move_dim(tsr_array *a, int from, int to, const char *site);

/* Evaluates one array; an error is recorded as tsr_eval does, in the name of `what`. */
tsr_status tsr__array_ready(tsr_array *a, const char *what, const char *site);

/* After a terminal's own error, which its scope has: tells the other processes, where they wait for
 * this one (terminals.c). `fetches`: the terminal reads elements. Returns `status`. */
tsr_status tsr__refuse_array(tsr_array *a, tsr_status status, bool fetches, const char *site);

/* Says why a position of an evaluated array has no part here. Returns TSR_EARG. */
tsr_status tsr__no_part(tsr_array *a, int position, const char *what, const char *site);

/* Checks dtype, shape and sharding of data from outside; records the error. */
tsr_status tsr__check_placement(tsr_scope *scope, const char *what, tsr_dtype dtype,
                                const tsr_shape *shape, const tsr_sharding *sharding,
                                const char *site);
/* The same of what is computed, for which a mesh of sizes will do. */
tsr_status tsr__check_planned(tsr_scope *scope, const char *what, tsr_dtype dtype,
                              const tsr_shape *shape, const tsr_sharding *sharding,
                              const char *site);

/* A leaf that takes over `value`; where that is NULL an inert array, with the error said. */
tsr_array *tsr__leaf_of(tsr_scope *scope, tsr__value *value, const tsr__error *error,
                        const char *what, const char *site);

/* Within a run that all processes are in: copies all elements to host memory of one of them, `out`
 * of which is NULL elsewhere. As tsr__value_fetch. */
tsr_status tsr__fetch_at(const tsr__value *value, void *out, tsr__error *error);

/* Values of host memory (bool as bytes) as NumPy prints them (print_values.c). */
void tsr__print_values(tsr__text *out, tsr_dtype dtype, const tsr_shape *shape, const void *data);

/* The arrays of a list in which trees stand for those in them (terminals.c): the list itself where
 * there are none. Errors are recorded in the name of `what`. */
tsr_status tsr__spread_trees(tsr_array *const *arrays, int count, const char *what,
                             const char *site, tsr__leaves *out);

#endif
