/* Nodes that run their regions: how operands become arguments, and what regions must be.
 *
 *   scan     operands    carries, slices, rest        region  (number, carries, slice, rest)
 *            results     carries, stacks                      -> (carries, one of each stack)
 *   while    operands    carries, rest                regions (carries, rest) -> (bool)
 *            results     carries                              (carries, rest) -> (carries)
 *   switch   operands    number, rest                 regions (rest) -> (results), of each the same
 *
 * Where nothing is sliced or stacked the number of steps is no type's, but a number of the node.
 *
 * A region need not read its arguments, and all regions of a node number them alike. */
#include "graph/infer_inner.h"

/* Argument i of a region is which operand of the node; -1: the number of the step. */
int tsr__loop_operand(const tsr__loop_attr *attr, int i)
{
  if (attr->kind == TSR__LOOP_SCAN) return i - 1;
  return attr->kind == TSR__LOOP_SWITCH ? i + 1 : i;
}

int64_t tsr__loop_steps(const tsr__loop_attr *attr, const tsr__gnode *node, const tsr__num *params)
{
  return attr->count == TSR__COUNTED ? params[node->param + node->param_count - 1].i : attr->count;
}

static tsr__result result_of(const tsr__type *type)
{
  tsr__result out = { .dtype = type->dtype, .rank = type->rank };
  memcpy(out.dims, type->dims, type->rank * sizeof *out.dims);
  return out;
}

/* The type of argument `i` of a region, given the operand's: of a slice without its first dim. */
static tsr__result argument_type(const tsr__loop_attr *attr, int i, const tsr__type *operand)
{
  int at = tsr__loop_operand(attr, i);
  if (at < 0) return (tsr__result){ .dtype = TSR_I64 };
  tsr__result out = result_of(operand);
  if (at < attr->carries || at >= attr->carries + attr->slices) return out;
  out.rank--;
  memmove(out.dims, &out.dims[1], out.rank * sizeof *out.dims);
  out.dims[out.rank] = 0;
  return out;
}

/* For messages: as users write types. */
static type_text words_of(const tsr__result *result)
{
  tsr__type type = { .dtype = result->dtype, .rank = result->rank, .dims = result->dims };
  return text_of(&type);
}

static bool same_type(const tsr__result *a, const tsr__result *b)
{
  return a->dtype == b->dtype && a->rank == b->rank &&
         !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims);
}

/* The steps of a scan's slices, and sizes that are known. Rows must be as many at each run, or a
 * region would have no type. */
static tsr_status check_operands(tsr__op op, tsr__types in, const tsr__loop_attr *attr,
                                 tsr__error *error)
{
  for (int i = 0; i < in.count; i++) {
    const tsr__type *x = &in.at[i];
    bool slice = i >= attr->carries && i < attr->carries + attr->slices;
    tsr__result type = result_of(x);
    if (x->ragged || (x->rank && x->dims[0] == TSR__DYNAMIC))
      return tsr__error_set(error, TSR_EUNSUPPORTED,
                            "tsr_%s: the number of rows of operand %d is known only at run time; "
                            "evaluate the operand and rebalance its rows first",
                            tsr__ops[op].name, i + 1);
    if (slice && (!x->rank || x->dims[0] != attr->count))
      return tsr__error_set(error, TSR_ESHAPE,
                            "tsr_%s: operand %d is %s, expected %lld steps along its first dim",
                            tsr__ops[op].name, i + 1, words_of(&type).text, (long long)attr->count);
  }
  return TSR_OK;
}

/* A region's arguments are of the operands' types. */
static tsr_status check_arguments(tsr__op op, tsr__types in, const tsr__loop_attr *attr,
                                  const tsr__region *region, tsr__error *error)
{
  /* Only arguments that the region reads are there to be checked. */
  for (int n = 0; n < region->program.node_count; n++) {
    const tsr__gnode *arg = &region->program.nodes[n];
    if (arg->op != TSR__OP_ARG) continue;
    int i = tsr__index_of(&region->program, arg), at = tsr__loop_operand(attr, i);
    if (at >= in.count)
      return tsr__error_set(error, TSR_EARG, "tsr_%s: %d operands, but a region takes argument %d",
                            tsr__ops[op].name, in.count, i + 1);
    tsr__type type = tsr__gnode_type(arg);
    tsr__result want = result_of(&type);
    tsr__result got = argument_type(attr, i, at < 0 ? NULL : &in.at[at]);
    if (!same_type(&want, &got))
      return tsr__error_set(
          error, TSR_ESHAPE,
          "tsr_%s: operand %d is given as %s, expected %s, the type that the region was traced for",
          tsr__ops[op].name, at + 1, words_of(&got).text, words_of(&want).text);
  }
  return TSR_OK;
}

/* The type of what a region gives at place i. */
static tsr__result result_at(const tsr__region *region, int i)
{
  tsr__type type = tsr__gnode_type(&region->program.nodes[region->results[i]]);
  return result_of(&type);
}

/* What a step gives the next is what that takes; whether to go on is one bool; and of several
 * regions each gives the same. */
static tsr_status check_results(tsr__op op, tsr__types in, const tsr__ask *ask,
                                const tsr__loop_attr *attr, tsr__error *error)
{
  const tsr__region *last = ask->regions[ask->region_count - 1];
  bool chooses = attr->kind == TSR__LOOP_SWITCH;
  /* Fewer results than carries, or fewer operands than that: no comparison would be safe. */
  bool fits =
      last->result_count >= attr->carries && in.count >= attr->carries + attr->slices + chooses;
  /* Slices and stacks have as many steps as their types say. */
  if (attr->count == TSR__COUNTED)
    fits = fits && attr->kind == TSR__LOOP_SCAN && !attr->slices &&
           last->result_count == attr->carries;
  for (int i = 0; i < attr->carries && fits; i++) {
    tsr__result got = result_at(last, i), want = result_of(&in.at[i]);
    fits = same_type(&got, &want);
  }
  for (int r = 0; r < ask->region_count - 1 && fits; r++) {
    const tsr__region *region = ask->regions[r];
    /* The first region of a while gives the bool, the second the carries. */
    bool asks = attr->kind == TSR__LOOP_WHILE;
    fits = region->result_count == (asks ? 1 : last->result_count);
    for (int i = 0; i < region->result_count && fits; i++) {
      tsr__result got = result_at(region, i), want = { .dtype = TSR_BOOL };
      if (!asks) want = result_at(last, i);
      fits = same_type(&got, &want);
    }
  }
  if (fits) return TSR_OK;
  return tsr__error_set(error, TSR_ESHAPE,
                        "tsr_%s: the results of the regions do not have the types of the operands",
                        tsr__ops[op].name);
}

tsr_status tsr__shape_loop(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                           tsr__error *error)
{
  (void)out; /* of each result in the list */
  const tsr__loop_attr *attr = ask->attr ? ask->attr : tsr__attrs[TSR__ATTR_LOOP].zero;
  if (check_operands(op, in, attr, error)) return error->status;
  for (int r = 0; r < ask->region_count; r++)
    if (check_arguments(op, in, attr, ask->regions[r], error)) return error->status;
  return check_results(op, in, ask, attr, error);
}
