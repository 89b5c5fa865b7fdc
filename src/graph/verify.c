/* The promises of a program, checked: whoever makes or rewrites one may be wrong. */
#include "graph/verify.h"

/* It is the library's mistake and not the user's, so what is said is meant for whoever mends it:
 * the node by its place in the list, not by its number in the text. */
static tsr_status broken(tsr__error *error, int node, const tsr__gnode *g, const char *what)
{
  return tsr__error_set(error, TSR_ESTATE, "a program is malformed at %%%d (%s): %s", node,
                        g->op < TSR__OPS ? tsr__ops[g->op].name : "?", what);
}

static const char *wrong_type(int dtype, int rank, const int64_t *dims)
{
  if (!tsr__dtype_known((tsr_dtype)dtype)) return "no such dtype";
  if (rank > TSR_MAX_RANK) return "too many dims";
  for (int d = 0; d < TSR_MAX_RANK; d++)
    /* Dims behind the rank are part of the key and must be zero. */
    if (d < rank ? dims[d] < TSR__DYNAMIC : dims[d] != 0) return "a dim is wrong";
  return NULL;
}

/* One result stands in the node, several in the program. */
static tsr_status check_results(const tsr__program *program, int n, tsr__error *error)
{
  const tsr__gnode *g = &program->nodes[n];
  const char *wrong = NULL;
  int expected = tsr__ops[g->op].results;
  if (!expected) {
    wrong = g->result_count ? "there are too many results" : wrong_type(g->dtype, g->rank, g->dims);
  } else if (expected != TSR__MANY && g->result_count != expected) {
    wrong = "a result is missing";
  } else if (g->result_count < 0 || g->first_result < 0 ||
             g->first_result > program->result_count - g->result_count) {
    wrong = "its results are out of range";
  } else if (g->dtype || g->rank || g->sharding) {
    wrong = "the node has several results and a type";
  }
  /* Only where their place in the list was found right. */
  for (int i = 0; !wrong && i < g->result_count; i++) {
    const tsr__result *r = &program->results[g->first_result + i];
    wrong = wrong_type(r->dtype, r->rank, r->dims);
    if (r->sharding && r->sharding >= program->sharding_count) wrong = "no such sharding";
  }
  return wrong ? broken(error, n, g, wrong) : TSR_OK;
}

/* A region's numbers are its node's, and so is how often it runs where no type says it. */
static tsr_status check_regions(const tsr__program *program, int n, tsr__error *error)
{
  const tsr__gnode *g = &program->nodes[n];
  int numbers = tsr__ops[g->op].numbers;
  bool some = tsr__ops[g->op].regions == TSR__MANY && g->region_count > 0;
  if (!some && g->region_count != tsr__ops[g->op].regions)
    return broken(error, n, g, "a region is missing");
  /* The row leaves it to the regions, whose numbers are all there are. */
  if (numbers == TSR__MANY) numbers = 0;
  for (int i = 0; i < g->region_count; i++) {
    int at = program->operands[g->first_in + g->in_count + i];
    if (at < 0 || at >= program->region_count) return broken(error, n, g, "no such region");
    numbers += program->regions[at]->program.param_count;
  }
  const tsr__loop_attr *loop = tsr__ops[g->op].loops ? tsr__attr_of(program, g) : NULL;
  numbers += loop && loop->count == TSR__COUNTED;
  if (g->param_count != numbers || (numbers > 0) != (g->param >= 0))
    return broken(error, n, g, "numbers are missing");
  return TSR_OK;
}

static tsr_status check_node(const tsr__program *program, int n, tsr__error *error)
{
  const tsr__gnode *g = &program->nodes[n];
  /* First what indexes tables, then what those rows say: each line may rely on those before, and
   * nothing is read that may not be there. */
  if (g->op >= TSR__OPS) return broken(error, n, g, "no such operation");
  if (check_results(program, n, error)) return error->status;
  if (g->sharding && g->sharding >= program->sharding_count)
    return broken(error, n, g, "no such sharding");
  if (!g->sharding && g->reduce_axes) return broken(error, n, g, "combines axes but is unplaced");
  if (g->first_in < 0 || g->in_count < 0 ||
      g->first_in > program->operand_count - g->in_count - g->region_count)
    return broken(error, n, g, "its operands are out of range");
  if (g->in_count < tsr__ops[g->op].least) return broken(error, n, g, "an operand is missing");
  if (g->in_count > tsr__ops[g->op].most)
    return broken(error, n, g, "there is an operand too many");
  for (int i = 0; i < g->in_count; i++) {
    int in = tsr__in(program, g, i);
    /* Order is what lets everybody walk a program once; it also means that there are no cycles. */
    if (in >= n || in < -1) return broken(error, n, g, "an operand stands after its user");
    /* What is left out stands in the middle only, else equal nodes could have lists of different
     * lengths. */
    if (in < 0 && (i < tsr__ops[g->op].least || i == g->in_count - 1))
      return broken(error, n, g, "an operand is missing");
  }
  if (check_regions(program, n, error)) return error->status;
  const tsr__attr_info *attrs = &tsr__attrs[tsr__ops[g->op].attr];
  uint32_t table = g->attr_bytes - attrs->bytes; /* wraps where there are too few */
  if (g->attr_bytes < attrs->bytes || (attrs->each ? table % attrs->each : table) || g->attr % 8 ||
      g->attr > (uint32_t)program->attr_count - g->attr_bytes)
    return broken(error, n, g, "its attributes are not those of the table");
  return TSR_OK;
}

/* A sharding must be canonical and use each axis once, on dims that are there. */
static tsr_status check_sharding(const tsr__program *program, int n, tsr__error *error)
{
  const tsr__gnode *g = &program->nodes[n];
  if (!g->sharding) return TSR_OK;
  const tsr_sharding *s = &program->shardings[g->sharding];
  unsigned seen = 0;
  /* `first` of the last dim is how many axes there are in all. */
  for (int i = 0; i < s->first[TSR_MAX_RANK]; i++) {
    if (seen >> s->axis[i] & 1) return broken(error, n, g, "an axis is used twice");
    seen |= 1u << s->axis[i];
  }
  for (int d = g->rank; d < TSR_MAX_RANK; d++)
    if (tsr__dim_axes(s, d)) return broken(error, n, g, "a sharded dim does not exist");
  return TSR_OK;
}

/* The types of a node's operands; those of nearly all nodes lie on the stack. */
enum { FEW = 4 };

tsr_status tsr__program_infer(const tsr__program *program, const tsr__gnode *g, tsr__inferred *out,
                              tsr__error *error)
{
  /* What a call would have asked for is read back from the node: dtype and shape where rules
   * take them as given, which those that infer them do not look at. */
  tsr__ask ask = { .dtype = (tsr_dtype)g->dtype,
                   .shape = tsr__gnode_shape(g),
                   .attr = g->attr_bytes ? program->attrs + g->attr : NULL,
                   .attr_bytes = g->attr_bytes };
  tsr__region *regions[TSR__MAX_REGIONS];
  for (int i = 0; i < g->region_count; i++) regions[i] = tsr__region_in(program, g, i);
  ask.regions = regions;
  ask.region_count = g->region_count;
  tsr__type few[FEW], *type = few;
  uint8_t few_want[FEW], *want = few_want;
  size_t bytes = (size_t)g->in_count * (sizeof *type + sizeof *want);
  if (g->in_count > FEW) {
    type = tsr__new_raw(program->heap, bytes);
    if (!type) return tsr__error_set(error, TSR_ENOMEM, "no memory to check a program");
    want = (uint8_t *)(type + g->in_count);
  }
  for (int i = 0; i < g->in_count; i++) {
    int o = tsr__in(program, g, i);
    type[i] = o < 0 ? (tsr__type){ .dtype = 0 } : tsr__node_type(program, o);
  }
  tsr__inferred found = { .operand = want };
  tsr_status status =
      tsr__infer((tsr__op)g->op, (tsr__types){ type, g->in_count }, &ask, &found, error);
  for (int i = 0; i < g->in_count && !status; i++)
    /* Casts are nodes of their own by now (node.c): whatever still differs was forgotten by a
     * rewrite. An operand left out wants 0 and has it. */
    if (want[i] != type[i].dtype)
      status = tsr__error_set(error, TSR_ESTATE, "an operand lacks its cast");
  if (type != few) tsr__del(program->heap, type, bytes);
  if (status) return status;
  *out = found;
  /* The list it pointed to is the stack's. */
  out->operand = NULL;
  return TSR_OK;
}

/* Whether a node's results are those that its operands or regions give it. Of the results only
 * types are compared: where they lie is not inferred. */
static bool same_results(const tsr__program *program, const tsr__gnode *g)
{
  tsr__region *regions[TSR__MAX_REGIONS];
  for (int i = 0; i < g->region_count; i++) regions[i] = tsr__region_in(program, g, i);
  tsr__type first = { .dtype = 0 };
  if (g->in_count) first = tsr__node_type(program, tsr__in(program, g, 0));
  tsr__ask ask = { .attr = g->attr_bytes ? program->attrs + g->attr : NULL,
                   .regions = regions,
                   .region_count = g->region_count };
  bool same = g->result_count == tsr__infer_results((tsr__op)g->op, &ask);
  for (int i = 0; same && i < g->result_count; i++) {
    tsr__result made = tsr__infer_result((tsr__op)g->op, (tsr__types){ &first, 1 }, &ask, i);
    const tsr__result *said = &program->results[g->first_result + i];
    same = said->dtype == made.dtype && said->rank == made.rank &&
           !memcmp(said->dims, made.dims, sizeof said->dims);
  }
  return same;
}

static tsr_status check_types(const tsr__program *program, int n, tsr__error *error)
{
  const tsr__gnode *g = &program->nodes[n];
  tsr__inferred type;
  tsr__error inner;
  inner.status = TSR_OK; /* the text, which is long, is written with an error */
  /* It has what its value has, and is no consequence of anything. */
  if (g->op == TSR__OP_LEAF) return TSR_OK;
  tsr_status status = tsr__program_infer(program, g, &type, &inner);
  /* No memory to look is not a mistake of the program. */
  if (status == TSR_ENOMEM) return tsr__error_set(error, status, "%s", inner.text);
  if (status) return broken(error, n, g, inner.text);
  if (tsr__ops[g->op].results && !same_results(program, g))
    return broken(error, n, g, "the results are not the table's");
  if (type.dtype != (tsr_dtype)g->dtype) return broken(error, n, g, "the dtype is not the table's");
  if (type.shape.rank != g->rank || memcmp(type.shape.dims, g->dims, sizeof g->dims) != 0)
    return broken(error, n, g, "the shape is not the table's");
  return TSR_OK;
}

/* What may stand only in a region, or only outside. That an argument is one of the node's operands
 * is for the rule of the node's operation to see. */
static tsr_status check_leaf(const tsr__program *program, int n, bool inside, tsr__error *error)
{
  const tsr__gnode *g = &program->nodes[n];
  if (g->op == TSR__OP_ARG && (!inside || tsr__index_of(program, g) < 0))
    return broken(error, n, g, "the argument stands outside of a region");
  if (tsr__is_named(g->op) && !inside)
    return broken(error, n, g, "its named axis is not mapped over");
  /* A value belongs to one run's binding, and a region is shared by all. */
  if (g->op == TSR__OP_LEAF && inside)
    return broken(error, n, g, "a region holds a value, expected arguments only");
  return TSR_OK;
}

/* Regions hold programs, and those regions: the depth is that of the calls that users nested. */
static tsr_status verify(const tsr__program *program, bool inside, tsr__error *error);

static tsr_status check_region(const tsr__region *region, tsr__error *error)
{
  const tsr__program *program = &region->program;
  if (verify(program, true, error)) return error->status;
  for (int i = 0; i < region->result_count; i++) {
    int n = region->results[i];
    /* A node of several results is none itself: RESULT nodes are listed. */
    if (n < 0 || n >= program->node_count || program->nodes[n].result_count)
      return tsr__error_set(error, TSR_ESTATE, "result %d of a region is not one of its nodes", i);
  }
  return TSR_OK;
}

/* The node's form before its meaning: what it names must be there to be looked at. */
static tsr_status verify_node(const tsr__program *program, int n, bool inside, tsr__error *error)
{
  if (check_node(program, n, error)) return error->status;
  if (check_leaf(program, n, inside, error)) return error->status;
  if (check_sharding(program, n, error)) return error->status;
  return check_types(program, n, error);
}

tsr_status tsr__program_verify_node(const tsr__program *program, int n, tsr__error *error)
{
  return verify_node(program, n, true, error);
}

/* Each region once, however many nodes have it. */
static tsr_status verify(const tsr__program *program, bool inside, tsr__error *error)
{
  if (program->failed) return tsr__error_set(error, TSR_ENOMEM, "a program is incomplete");
  for (int i = 0; i < program->region_count; i++)
    if (check_region(program->regions[i], error)) return error->status;
  for (int n = 0; n < program->node_count; n++)
    if (verify_node(program, n, inside, error)) return error->status;
  return TSR_OK;
}

tsr_status tsr__program_verify(const tsr__program *program, tsr__error *error)
{
  return verify(program, false, error);
}
