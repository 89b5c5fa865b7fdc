/* What an operation makes of its operands' types: the dtype and shape rules of the op table.
 *
 * Two dtypes promote to the least dtype that both go into (topology/dtypes.def: JAX's table with
 * 64-bit types on). Shapes broadcast as in NumPy, aligned at the last dim:
 *
 *     [8, 1, 5]
 *        [3, 1]   ->  [8, 3, 5]
 *
 * A dim known at run time (TSR__DYNAMIC) meets another such dim or a 1; whether two of them are
 * the same rows is checked when the program runs. Outputs are untouched on failure. */
#include "graph/infer_inner.h"

#include <stdio.h>

tsr__dims_words tsr__dims_text(int rank)
{
  tsr__dims_words out = { "it has no dims" };
  if (rank) snprintf(out.text, sizeof out.text, "its dims are -%d..%d", rank, rank - 1);
  return out;
}

tsr_status tsr__no_dim(tsr__error *error, const char *call, int64_t dim, const char *type, int rank)
{
  return tsr__error_set(error, TSR_EARG, "tsr_%s: dim %lld of %s does not exist; %s", call,
                        (long long)dim, type, tsr__dims_text(rank).text);
}

/* ---- dtypes ---- */

/* All errors of dtypes have this form; `which` ends with a blank or is empty, as an operation of
 * one operand need not say which. */
static tsr_status dtype_error(tsr__op op, const tsr__type *type, const char *which,
                              const char *expected, tsr__error *error)
{
  return tsr__error_set(error, TSR_EDTYPE, "tsr_%s: %sis %s, expected %s; convert it with tsr_cast",
                        tsr__ops[op].name, which, text_of(type).text, expected);
}

/* Narrow unsigned types wrap to their own range, but do so in u32: signedness is what decides
 * here, not width. */
static bool is_natural(int dtype)
{
  return tsr__dtype_info_of((tsr_dtype)dtype)->kind == TSR__DTYPE_UINT;
}

/* Operands that do not meet in an integer or, of bits, a bool: one is of another kind, or u64 meets
 * a signed one. */
static tsr_status not_bits(tsr__op op, tsr__types in, bool bools, tsr__error *error)
{
  static const char *const ordinals[] = { "the first operand ", "the second operand " };
  const char *expected = bools ? "a bool or an integer" : "an integer";
  int which = 0;
  for (; which < in.count; which++) {
    tsr_dtype dtype = (tsr_dtype)in.at[which].dtype;
    if (!tsr__dtype_integer(dtype) && !(bools && dtype == TSR_BOOL)) break;
  }
  /* Each is an integer by itself, so they are at odds: u64 and a signed one meet in f64. The
   * second is named, as the first stood there when it came. */
  if (which == in.count) {
    which = 1;
    expected = is_natural(in.at[0].dtype) ? "an unsigned integer like the first operand"
                                          : "a signed integer like the first operand";
  }
  return dtype_error(op, &in.at[which], in.count > 1 ? ordinals[which] : "the operand ", expected,
                     error);
}

/* The one dtype of operands that must share one; 0 with the error set. */
static tsr_dtype common_dtype(tsr__op op, enum tsr__want wants, tsr__types in, tsr__error *error)
{
  /* 0 meets anything in the other, so operands left out do not count. */
  tsr_dtype meet = 0;
  for (int i = 0; i < in.count; i++)
    if (in.at[i].dtype) meet = tsr__promote(meet, (tsr_dtype)in.at[i].dtype);
  /* Functions of floats take integers as f64, which holds all that 32 bits do and the most of
   * 64. */
  if (wants == TSR__WANT_FLOAT) return tsr__dtype_of_functions(meet);
  if (wants == TSR__WANT_BITS && !tsr__dtype_has_bits(meet)) {
    not_bits(op, in, true, error);
    return 0;
  }
  if ((wants == TSR__WANT_NUMBER || wants == TSR__WANT_ROUNDED) && meet == TSR_BOOL) {
    dtype_error(op, &in.at[0], "the operand ", "a number", error);
    return 0;
  }
  if (wants == TSR__WANT_INTEGER && !tsr__dtype_integer(meet)) {
    not_bits(op, in, false, error);
    return 0;
  }
  /* COMMON is what registers hold: bools as i32, narrow types as what they are computed in
   * (dtypes.def). */
  if (wants != TSR__WANT_COMMON) return meet;
  return meet == TSR_BOOL ? TSR_I32 : (tsr_dtype)tsr__dtype_info_of(meet)->computes;
}

/* A reduction's mask must be bool, its group codes integers. */
static tsr_status beside_reduction(tsr__op op, tsr__types in, tsr__error *error)
{
  tsr_dtype mask = dtype_at(in, 1), codes = dtype_at(in, 2);
  if (mask && mask != TSR_BOOL) return dtype_error(op, &in.at[1], "the mask ", "bool", error);
  if (codes && !tsr__dtype_integer(codes))
    return dtype_error(op, &in.at[2], "the group code ", "an integer", error);
  return TSR_OK;
}

/* Where one operand alone must be of a kind. */
static tsr_status wants_bool(tsr__op op, tsr__types in, int which, const char *name,
                             tsr__error *error)
{
  if (dtype_at(in, which) == TSR_BOOL) return TSR_OK;
  return dtype_error(op, &in.at[which], name, "bool", error);
}

/* Operand 1: indices of a table, or where a box begins. */
static tsr_status wants_index(tsr__op op, tsr__types in, uint8_t *want, tsr__error *error)
{
  if (!tsr__dtype_integer(dtype_at(in, 1)))
    return dtype_error(op, &in.at[1], tsr__ops[op].at_start ? "the start " : "the index ",
                       "an integer", error);
  want[1] = TSR_I64;
  return TSR_OK;
}

static tsr_status wants_choice(tsr__op op, tsr__types in, uint8_t *want, tsr__error *error)
{
  if (wants_bool(op, in, 0, "the condition ", error)) return error->status;
  want[1] = want[2] = (uint8_t)tsr__promote(dtype_at(in, 1), dtype_at(in, 2));
  return TSR_OK;
}

/* What is put, and where, meet in one dtype. */
static tsr_status scatter_dtypes(tsr__op op, tsr__types in, uint8_t *want, tsr__error *error)
{
  tsr_dtype meet = tsr__promote(dtype_at(in, 0), dtype_at(in, 2));
  want[0] = want[2] = (uint8_t)meet;
  if (wants_index(op, in, want, error)) return error->status;
  if (!tsr__ops[op].at_start && dtype_at(in, 1) == TSR_I32) want[1] = TSR_I32;
  return TSR_OK;
}

/* Writes the dtype that each operand must have. That is all a rule says of operands: who makes
 * the node puts casts where they differ, and a program in which they would still differ is
 * malformed. */
static tsr_status operand_dtypes(tsr__op op, tsr__types in, const tsr__ask *ask, uint8_t *want,
                                 tsr__error *error)
{
  enum tsr__want wants = (enum tsr__want)tsr__ops[op].wants;
  bool reduce = tsr__is_reduction((int)op);
  /* As they are, unless a rule says otherwise: masks, codes and indices stay what the user gave. */
  for (int i = 0; i < in.count; i++) want[i] = in.at[i].dtype;
  if (reduce && beside_reduction(op, in, error)) return error->status;
  switch (wants) {
  case TSR__WANT_ANY: return TSR_OK;
  case TSR__WANT_BOOL: return wants_bool(op, in, 0, "the operand ", error);
  case TSR__WANT_SCATTER: return scatter_dtypes(op, in, want, error);
  case TSR__WANT_ASKED: want[0] = ask->dtype ? (uint8_t)ask->dtype : want[0]; return TSR_OK;
  case TSR__WANT_INDEX: return wants_index(op, in, want, error);
  case TSR__WANT_MASK: return wants_bool(op, in, 1, "the mask ", error);
  case TSR__WANT_CHOICE: return wants_choice(op, in, want, error);
  case TSR__WANT_TRUTH: want[0] = TSR_BOOL; return TSR_OK;
  /* Sums of integers are made in 64 bits of their own sign, so that the result has room; floats
   * sum to their own type, exactly. */
  case TSR__WANT_SUMMAND:
    if (!tsr__dtype_rounds((tsr_dtype)want[0]))
      want[0] = (uint8_t)tsr__promote((tsr_dtype)want[0], is_natural(want[0]) ? TSR_U64 : TSR_I64);
    return TSR_OK;
  default: break;
  }
  if (reduce) in.count = 1; /* mask and codes are no numbers to reduce */
  tsr_dtype meet = common_dtype(op, wants, in, error);
  if (!meet) return error->status;
  for (int i = 0; i < in.count; i++)
    if (want[i]) want[i] = (uint8_t)meet;
  return TSR_OK;
}

/* By the dtypes that operands will have, not those they came with: of a cast operand the result
 * follows the cast. */
static tsr_dtype result_dtype(tsr__op op, tsr__types in, const uint8_t *want, const tsr__ask *ask)
{
  const tsr__index_attr *attr = ask->attr;
  switch (tsr__ops[op].dtype_rule) {
  case TSR__DT_BOOL: return TSR_BOOL;
  case TSR__DT_RESULT:
    /* A node of several has no type of its own; RESULT, which takes one out, has that one's. */
    if (tsr__ops[op].results) return 0;
    return (tsr_dtype)in.at[0].results[attr ? attr->index : 0].dtype;
  case TSR__DT_I64: return TSR_I64;
  case TSR__DT_SECOND: return (tsr_dtype)want[1];
  case TSR__DT_ATTR:
  case TSR__DT_ATTR_NUMBER:
  case TSR__DT_ATTR_FLOAT: return ask->dtype;
  case TSR__DT_FLOAT: return tsr__dtype_of_functions((tsr_dtype)want[0]);
  default: return (tsr_dtype)want[0];
  }
}

/* Dtypes given at the call. They may be any number that a C program puts into the enumeration. */
static tsr_status check_asked(tsr__op op, tsr_dtype dtype, tsr__error *error)
{
  int rule = tsr__ops[op].dtype_rule;
  const char *expected = NULL;
  /* The enumeration keeps the three rules of a given dtype beside each other. */
  if (rule < TSR__DT_ATTR || rule > TSR__DT_ATTR_FLOAT) return TSR_OK;
  tsr__error unknown = { .status = TSR_OK };
  if (tsr__dtype_check(dtype, &unknown)) return name_error(op, &unknown, error);
  if (rule == TSR__DT_ATTR_FLOAT && !tsr__dtype_is_real(dtype)) expected = "a float";
  else if (rule == TSR__DT_ATTR_NUMBER && dtype == TSR_BOOL) expected = "a number's dtype";
  if (!expected) return TSR_OK;
  return tsr__error_set(error, TSR_EDTYPE, "tsr_%s: the requested dtype is %s, expected %s",
                        tsr__ops[op].name, tsr_dtype_name(dtype), expected);
}

/* ---- shapes ---- */

/* `back` counts dims from the end, as they are aligned there: that is the only number that is
 * right for both operands. */
static tsr_status broadcast_error(tsr__op op, tsr__types in, const int pair[2], int back,
                                  tsr__error *error)
{
  const tsr__type *a = &in.at[pair[0]], *b = &in.at[pair[1]];
  char size[2][32];
  for (int i = 0; i < 2; i++) {
    const tsr__type *type = &in.at[pair[i]];
    int64_t dim = dim_of(type, type->rank - back);
    if (dim == TSR__DYNAMIC) snprintf(size[i], sizeof size[i], "? (known only at run time)");
    else snprintf(size[i], sizeof size[i], "%lld", (long long)dim);
  }
  return tsr__error_set(error, TSR_ESHAPE,
                        "tsr_%s: cannot broadcast %s with %s: the sizes of dim -%d are %s and %s; "
                        "they must be equal, or one of them 1",
                        tsr__ops[op].name, text_of(a).text, text_of(b).text, back, size[0],
                        size[1]);
}

/* The operand whose dim, `back` from the end, is what the others must meet: not 1 and not
 * missing. Writes its size; -1 if there is none and all are 1. The message names the ruler and
 * the operand that does not fit it. A dim of size 0 rules as any other does: 1 meets 0 in 0, and
 * 3 does not. */
static int ruling_operand(tsr__types in, int first, int back, int64_t *size)
{
  int ruler = -1;
  *size = 1;
  for (int i = first; i < in.count; i++) {
    if (!in.at[i].dtype || in.at[i].rank < back) continue;
    int64_t dim = dim_of(&in.at[i], in.at[i].rank - back);
    if (dim == 1 || ruler >= 0) continue;
    ruler = i;
    *size = dim;
  }
  return ruler;
}

/* Whether nothing broadcasts: so it is nearly always. Tried first, since making a node is what a
 * small program's time goes to. */
static bool all_alike(tsr__types in)
{
  bool alike = in.at[0].dtype != 0;
  for (int i = 1; i < in.count && alike; i++) alike = same_shape(&in.at[i], &in.at[0]);
  return alike;
}

/* The broadcast of the operands from `first` on. `first` is 1 where operand 0 is a table, which
 * takes no part. */
static tsr_status element_shape(tsr__op op, tsr__types in, int first, tsr_shape *out,
                                tsr__error *error)
{
  if (!first && all_alike(in)) {
    *out = shape_of(&in.at[0]);
    return TSR_OK;
  }
  tsr_shape shape = { .rank = 0 };
  for (int i = first; i < in.count; i++)
    if (in.at[i].dtype && in.at[i].rank > shape.rank) shape.rank = in.at[i].rank;
  for (int back = 1; back <= shape.rank; back++) {
    int64_t size;
    int ruler = ruling_operand(in, first, back, &size);
    for (int i = first; i < in.count; i++) {
      if (!in.at[i].dtype || in.at[i].rank < back) continue;
      int64_t dim = dim_of(&in.at[i], in.at[i].rank - back);
      if (dim != 1 && dim != size)
        return broadcast_error(op, in, (int[2]){ ruler, i }, back, error);
    }
    shape.dims[shape.rank - back] = size;
  }
  *out = shape;
  return TSR_OK;
}

tsr_status tsr__shape_element(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                              tsr__error *error)
{
  (void)ask;
  return element_shape(op, in, 0, out, error);
}

/* The table's borders are one line; what is looked up may have any shape and is the result's. */
tsr_status tsr__shape_search(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                             tsr__error *error)
{
  (void)ask;
  tsr_shape shape;
  if (element_shape(op, in, 1, &shape, error)) return error->status;
  if (in.at[0].rank != 1)
    return tsr__error_set(error, TSR_ESHAPE, "tsr_%s: the table is %s, expected one dim",
                          tsr__ops[op].name, text_of(&in.at[0]).text);
  *out = shape;
  return TSR_OK;
}

/* The smallest or largest of no element does not exist. A mask or groups may leave nothing of
 * any array, so those rows have a value for it; without them an empty dim is a mistake that is
 * seen here. Where a kept dim is empty there is no result that would need an element. */
static tsr_status check_one(tsr__op op, tsr__types in, uint32_t dims, tsr__error *error)
{
  if (!tsr__ops[op].needs_one || dtype_at(in, 1) || dtype_at(in, 2)) return TSR_OK;
  const tsr__type *x = &in.at[0];
  for (int d = 0; d < x->rank; d++)
    if (!(dims >> d & 1) && dim_of(x, d) == 0) return TSR_OK;
  for (int d = 0; d < x->rank; d++)
    if (dim_of(x, d) == 0)
      return tsr__error_set(error, TSR_ESHAPE,
                            "tsr_%s: %s has no elements along dim %d, so there is no %s; give "
                            ".where to get %s instead",
                            tsr__ops[op].name, text_of(x).text, d, tsr__ops[op].name,
                            tsr__ops[op].dtype_rule == TSR__DT_I64 ? "-1" : "the dtype's limit");
  return TSR_OK;
}

/*   sum of [8, 5] over dim 1         -> [8]
 *   the same, kept                   -> [8, 1]
 *   of rows by code, 3 groups        -> [3]       all dims are reduced, whatever they are */
tsr_status tsr__shape_reduce(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                             tsr__error *error)
{
  const tsr__reduce_attr *attr = asked_attr(op, ask);
  const tsr__type *x = &in.at[0];
  for (int i = 1; i < in.count; i++)
    if (in.at[i].dtype && !same_shape(&in.at[i], x))
      return tsr__error_set(error, TSR_ESHAPE,
                            "tsr_%s: the %s is %s, expected %sthe shape of the operand, %s",
                            tsr__ops[op].name, i == 1 ? "mask" : "group code",
                            text_of(&in.at[i]).text, i == 1 ? "a shape that broadcasts to " : "",
                            text_of(x).text);
  /* Tested by bits alone: a mask of dims can name some that are not there. */
  if (attr->dims >> x->rank)
    return tsr__error_set(error, TSR_EARG, "tsr_%s: .dims names a dim that %s does not have; %s",
                          tsr__ops[op].name, text_of(x).text, tsr__dims_text(x->rank).text);
  if ((attr->groups > 0) != (dtype_at(in, 2) != 0) || attr->groups < 0)
    return tsr__error_set(error, TSR_EARG,
                          "tsr_%s: %lld groups %s group codes; give both or neither",
                          tsr__ops[op].name, (long long)attr->groups,
                          dtype_at(in, 2) ? "with" : "without");
  if (check_one(op, in, attr->dims, error)) return error->status;
  tsr_shape left = { .rank = 0 };
  if (attr->groups > 0) left.dims[left.rank++] = attr->groups;
  else
    for (int d = 0; d < x->rank; d++) {
      bool gone = attr->dims >> d & 1;
      if (!gone || attr->keep) left.dims[left.rank++] = gone ? 1 : dim_of(x, d);
    }
  *out = left;
  return TSR_OK;
}

/* A device routine works on whole shards, so their sizes must be known when it is planned. */
static tsr_status check_known(tsr__op op, tsr__types in, tsr__error *error)
{
  for (int i = 0; i < in.count; i++)
    for (int d = 0; in.at[i].dtype && d < in.at[i].rank; d++)
      if (dim_of(&in.at[i], d) < 0)
        return tsr__error_set(error, TSR_ESHAPE,
                              "tsr_%s: the number of rows of %s is known only at run time; "
                              "evaluate and rebalance the array first",
                              tsr__ops[op].name, text_of(&in.at[i]).text);
  return TSR_OK;
}

tsr_status tsr__shape_along(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                            tsr__error *error)
{
  const tsr__dim_attr *attr = asked_attr(op, ask);
  const tsr__type *x = &in.at[0];
  int64_t dim = attr->dim, rank = x->rank;
  if (dim < 0 || dim >= rank) return no_such_dim(op, x, dim, error);
  /* Of several results each has its shape in the list (tsr__infer_result), the node has none. */
  *out = tsr__ops[op].results ? (tsr_shape){ .rank = 0 } : shape_of(x);
  return TSR_OK;
}

/* The dim is looked at first: a count is compared with its size. The shape itself is that of the
 * listed results. */
tsr_status tsr__shape_top(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                          tsr__error *error)
{
  const tsr__sort_attr *attr = asked_attr(op, ask);
  const tsr__type *x = &in.at[0];
  if (tsr__shape_along(op, in, ask, out, error)) return error->status;
  if (attr->count >= 0 && attr->count <= dim_of(x, (int)attr->dim)) return TSR_OK;
  return tsr__error_set(error, TSR_EARG,
                        "tsr_%s: %lld elements along dim %lld of %s, expected 0 to %lld",
                        tsr__ops[op].name, (long long)attr->count, (long long)attr->dim,
                        text_of(x).text, (long long)dim_of(x, (int)attr->dim));
}

/* Keys are compared one after the other, so they may be of different dtypes. */
tsr_status tsr__shape_keys(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                           tsr__error *error)
{
  if (tsr__shape_along(op, in, ask, out, error)) return error->status;
  for (int i = 0; i < in.count; i++) {
    const tsr__type *x = &in.at[i];
    if (x->dtype == TSR_BOOL) return dtype_error(op, x, "a key ", "a number", error);
    if (!same_shape(x, &in.at[0]))
      return tsr__error_set(error, TSR_ESHAPE,
                            "tsr_%s: key %d is %s, expected the shape of key 1, %s",
                            tsr__ops[op].name, i + 1, text_of(x).text, text_of(&in.at[0]).text);
  }
  return TSR_OK;
}

tsr_status tsr__shape_rows(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                           tsr__error *error)
{
  (void)ask;
  const tsr__type *rows = &in.at[0];
  if (rows->rank < 1)
    return tsr__error_set(error, TSR_ESHAPE,
                          "tsr_%s: %s has no rows; give an array of at least one dim",
                          tsr__ops[op].name, text_of(rows).text);
  *out = shape_of(rows);
  /* How many rows stay, or come to a device, is known at the run; the other dims are the rows'
   * own. */
  out->dims[0] = TSR__DYNAMIC;
  return TSR_OK;
}

tsr_status tsr__shape_filter(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                             tsr__error *error)
{
  const tsr__type *rows = &in.at[0], *mask = &in.at[1];
  tsr_shape left;
  if (tsr__shape_rows(op, in, ask, &left, error)) return error->status;
  if (mask->rank != 1 || dim_of(mask, 0) != dim_of(rows, 0))
    return tsr__error_set(error, TSR_ESHAPE,
                          "tsr_%s: the mask is %s, expected one element for each row of %s",
                          tsr__ops[op].name, text_of(mask).text, text_of(rows).text);
  *out = left;
  return TSR_OK;
}

tsr_status tsr__shape_list(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                           tsr__error *error)
{
  (void)ask;
  if (in.at[0].rank != 1)
    return tsr__error_set(error, TSR_ESHAPE, "tsr_%s: the operand is %s, expected one dim",
                          tsr__ops[op].name, text_of(&in.at[0]).text);
  *out = shape_of(&in.at[0]);
  return TSR_OK;
}

/* A region's arguments are what its node has for operands, and as they are: nothing is cast
 * inside. */
static tsr_status check_call(tsr__types in, const tsr__region *region, tsr__error *error)
{
  for (int n = 0; n < region->program.node_count; n++) {
    const tsr__gnode *arg = &region->program.nodes[n];
    if (arg->op != TSR__OP_ARG) continue;
    /* Not every argument need be used by the body, and not in order: what stands there says
     * which one it is. */
    int i = tsr__index_of(&region->program, arg);
    tsr__type want = tsr__gnode_type(arg);
    if (i >= in.count)
      return tsr__error_set(
          error, TSR_EARG,
          "tsr_call: %d operands, but the program takes argument %d; give all its arguments",
          in.count, i + 1);
    if (in.at[i].dtype != want.dtype || !same_shape(&in.at[i], &want))
      return tsr__error_set(
          error, in.at[i].dtype != want.dtype ? TSR_EDTYPE : TSR_ESHAPE,
          "tsr_call: operand %d is %s, expected %s, the type that the program was traced for",
          i + 1, text_of(&in.at[i]).text, text_of(&want).text);
  }
  return TSR_OK;
}

/* Of a call with a rule: that it has the operands which its attribute tells apart, and all that the
 * rule takes. A text that was read may say anything. */
static tsr_status check_rule(tsr__types in, const tsr__ask *ask, const tsr__custom_attr *attr,
                             tsr__error *error)
{
  int64_t behind = attr->arguments + attr->captured, rest = in.count - behind;
  int64_t takes = attr->arguments + 2 * (int64_t)ask->regions[0]->result_count + rest;
  bool good = attr->arguments >= 0 && attr->captured >= 0 && rest >= 0;
  const tsr__program *rule = &ask->regions[1]->program;
  for (int n = 0; good && !attr->again && n < rule->node_count; n++)
    good = rule->nodes[n].op != TSR__OP_ARG || tsr__index_of(rule, &rule->nodes[n]) < takes;
  if (good) return TSR_OK;
  return tsr__error_set(
      error, TSR_EARG,
      "tsr_call: %d operands, expected %lld and the operands of the rule; give all arguments",
      in.count, (long long)behind);
}

tsr_status tsr__shape_call(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                           tsr__error *error)
{
  (void)op;
  (void)out;
  return check_call(in, ask->regions[0], error);
}

tsr_status tsr__shape_custom(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                             tsr__error *error)
{
  if (check_rule(in, ask, asked_attr(op, ask), error)) return error->status;
  return tsr__shape_call(op, in, ask, out, error);
}

static tsr_status no_such_axis(tsr__op op, const tsr__type *x, const tsr__axis_attr *axis,
                               tsr__error *error)
{
  return tsr__error_set(error, TSR_ESHAPE, "tsr_%s: %s does not fit axis %s of size %lld",
                        tsr__ops[op].name, text_of(x).text, axis->name, (long long)axis->size);
}

/* The axis becomes one dim more, for which a full rank has no room. */
tsr_status tsr__shape_axis_all(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                               tsr__error *error)
{
  const tsr__axis_attr *axis = asked_attr(op, ask);
  const tsr__type *x = &in.at[0];
  if (x->rank == TSR_MAX_RANK) return no_such_axis(op, x, axis, error);
  out->rank = x->rank + 1;
  out->dims[0] = axis->size;
  for (int d = 1; d < out->rank; d++) out->dims[d] = x->dims[d - 1];
  return TSR_OK;
}

/* The operand's first dim is the axis, and goes. */
tsr_status tsr__shape_axis_own(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                               tsr__error *error)
{
  const tsr__axis_attr *axis = asked_attr(op, ask);
  const tsr__type *x = &in.at[0];
  if (!x->rank || x->dims[0] != axis->size) return no_such_axis(op, x, axis, error);
  out->rank = x->rank - 1;
  for (int d = 0; d < out->rank; d++) out->dims[d] = x->dims[d + 1];
  return TSR_OK;
}

/* The region whose results are a node's: of a loop the last, since what is asked of it comes before
 * what it runs; of others the first, since rules come behind. */
static const tsr__region *region_of(tsr__op op, const tsr__ask *ask)
{
  return ask->regions[tsr__ops[op].loops ? ask->region_count - 1 : 0];
}

int tsr__infer_results(tsr__op op, const tsr__ask *ask)
{
  int count = tsr__ops[op].results;
  return count == TSR__MANY ? region_of(op, ask)->result_count : count;
}

/* The results of a routine have the operand's shape, or fewer elements along its dim. The first has
 * the operand's dtype, the others are indices. */
tsr__result tsr__infer_result(tsr__op op, tsr__types in, const tsr__ask *ask, int i)
{
  tsr__type type = in.count ? in.at[0] : (tsr__type){ .dtype = 0 };
  bool loop = tsr__ops[op].loops;
  if (tsr__ops[op].regions) {
    const tsr__region *region = region_of(op, ask);
    /* A region's results have the types that its own nodes have: the body was inferred when it
     * was traced, and arguments fit exactly (check_call, loop.c). */
    type = tsr__gnode_type(&region->program.nodes[region->results[i]]);
    /* Sort and its like: values first, then the places they came from. */
  } else if (i) {
    type.dtype = TSR_I64;
  }
  tsr__result out = { .dtype = type.dtype, .rank = type.rank };
  memcpy(out.dims, type.dims, type.rank * sizeof *out.dims);
  const tsr__sort_attr *top = tsr__ops[op].keeps_first ? asked_attr(op, ask) : NULL;
  if (top) out.dims[top->dim] = top->count;
  const tsr__loop_attr *steps = loop ? asked_attr(op, ask) : NULL;
  if (!steps || steps->kind != TSR__LOOP_SCAN || i < steps->carries) return out;
  memmove(&out.dims[1], out.dims, out.rank++ * sizeof *out.dims);
  out.dims[0] = steps->count;
  return out;
}

/* Only RESULT can do something with an operand of several results. */
static tsr_status check_several(tsr__op op, tsr__types in, const tsr__index_attr *attr,
                                tsr__error *error)
{
  bool takes = tsr__takes_result((int)op);
  for (int i = 0; i < in.count; i++) {
    const tsr__type *type = &in.at[i];
    if (takes && (attr->index < 0 || attr->index >= type->result_count))
      return tsr__error_set(error, TSR_EARG,
                            "tsr_%s: result %lld does not exist in an array of %d results",
                            tsr__ops[op].name, (long long)attr->index, type->result_count);
    if (!takes && type->results)
      return tsr__error_set(error, TSR_EARG,
                            "tsr_%s: operand %d has %d results; take one of the results first",
                            tsr__ops[op].name, i + 1, type->result_count);
  }
  return TSR_OK;
}

/* A source is made of its attributes: the shape is what was asked for, and all there is to check
 * is that it is one. The operand, where there is one, is the number to fill with. */
tsr_status tsr__shape_source(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                             tsr__error *error)
{
  tsr__error wrong = { .status = TSR_OK };
  if (tsr__shape_check(&ask->shape, &wrong)) return name_error(op, &wrong, error);
  if (in.count && in.at[0].rank != 0)
    return tsr__error_set(error, TSR_ESHAPE, "tsr_%s: the number is %s, expected rank 0",
                          tsr__ops[op].name, text_of(&in.at[0]).text);
  const tsr__dim_attr *attr = asked_attr(op, ask);
  bool along = tsr__ops[op].attr == TSR__ATTR_DIM;
  if (along && (attr->dim < 0 || attr->dim >= ask->shape.rank))
    return tsr__error_set(
        error, TSR_EARG, "tsr_%s: dim %lld does not exist in a shape of %d dims; dims count from 0",
        tsr__ops[op].name, (long long)attr->dim, ask->shape.rank);
  *out = ask->shape;
  return TSR_OK;
}

/* ---- other shapes ---- */

tsr_status tsr__shape_first(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                            tsr__error *error)
{
  (void)op;
  (void)ask;
  (void)error;
  *out = shape_of(&in.at[0]);
  return TSR_OK;
}

/* Shardings go from one operand to the other, so each dim of one has to be one of the other. */
tsr_status tsr__shape_like(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                           tsr__error *error)
{
  (void)ask;
  *out = shape_of(&in.at[0]);
  if (same_shape(&in.at[0], &in.at[1])) return TSR_OK;
  return tsr__error_set(error, TSR_ESHAPE, "tsr_%s: operand 0 is %s, expected the dims of %s",
                        tsr__ops[op].name, text_of(&in.at[0]).text, text_of(&in.at[1]).text);
}

/* A kept value is of the type of the one that it stands for. */
tsr_status tsr__shape_named(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                            tsr__error *error)
{
  bool kept = in.count > 1 && in.at[1].dtype;
  (void)ask;
  *out = shape_of(&in.at[0]);
  if (!kept || (in.at[0].dtype == in.at[1].dtype && same_shape(&in.at[0], &in.at[1])))
    return TSR_OK;
  return tsr__error_set(error, TSR_ESHAPE, "tsr_%s: the kept value is %s, expected %s",
                        tsr__ops[op].name, text_of(&in.at[1]).text, text_of(&in.at[0]).text);
}

tsr_status tsr__shape_result(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                             tsr__error *error)
{
  const tsr__index_attr *attr = asked_attr(op, ask);
  const tsr__result *result = &in.at[0].results[attr->index];
  (void)error;
  out->rank = result->rank;
  memcpy(out->dims, result->dims, sizeof out->dims);
  return TSR_OK;
}

static tsr_status result_shape(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                               tsr__error *error)
{
  if (tsr__is_routine((int)op) && check_known(op, in, error)) return error->status;
  return tsr__ops[op].shape(op, in, ask, out, error);
}

/* Broadcasting and take make shapes larger than their operands'. A sixteenth of the range is the
 * bound for shapes that are given, too: bytes, which are eight times as many, must be countable
 * with something to spare for what is added to them. */
static tsr_status check_size(tsr__op op, const tsr__inferred *type, tsr__error *error)
{
  for (int d = 0; d < type->shape.rank; d++)
    /* Its rows are counted at the run, where memory is the bound. */
    if (type->shape.dims[d] < 0) return TSR_OK;
  int64_t count = tsr__shape_count(&type->shape);
  if (count >= 0 && count <= INT64_MAX / 16) return TSR_OK;
  tsr__type result = { .dtype = (uint8_t)type->dtype,
                       .rank = (uint8_t)type->shape.rank,
                       .dims = type->shape.dims };
  return tsr__error_set(error, TSR_ESHAPE,
                        "tsr_%s: the result %s has more elements than 63 bits can count; work on "
                        "a part at a time",
                        tsr__ops[op].name, text_of(&result).text);
}

tsr_status tsr__infer(tsr__op op, tsr__types in, const tsr__ask *ask, tsr__inferred *out,
                      tsr__error *error)
{
  /* In this order: an operand of several results has no dtype to look at, and the dtypes that
   * operands will have give the result's. */
  tsr__inferred found = { .operand = out->operand };
  if (check_several(op, in, asked_attr(op, ask), error)) return error->status;
  if (operand_dtypes(op, in, ask, found.operand, error)) return error->status;
  found.dtype = result_dtype(op, in, found.operand, ask);
  if (check_asked(op, found.dtype, error)) return error->status;
  if (result_shape(op, in, ask, &found.shape, error)) return error->status;
  if (check_size(op, &found, error)) return error->status;
  *out = found;
  return TSR_OK;
}
