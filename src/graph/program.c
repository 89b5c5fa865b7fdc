/* Programs: the nodes that a terminal needs, flat and in order, as plain bytes.
 *
 *   arrays (pointers, scopes)   --trace-->   nodes[]     op, dtype, dims; where its lists begin
 *                                            operands[]  of all nodes, by index
 *                                            attrs[]     each different attribute once
 *                                            shardings[] [0] = unplaced
 *                                            results[], regions[]  of the few nodes that have them
 *
 * Invariants: operands stand before their users; all padding is zero, so that equal programs have
 * equal bytes; numbers lie apart in params[], so that they are no part of a plan. Tracing walks
 * with a stack of its own (a chain of 100,000 nodes is fine) and, once the arrays have grown,
 * allocates nothing. An array knows its node by `mark`, and the program proves it by
 * visited[visit]: no hash table, and marks left by other programs do no harm. */
#include "graph/graph.h"

_Static_assert(sizeof(tsr__gnode) == 48 + 8 * TSR_MAX_RANK,
               "no padding: nodes are compared as bytes");

typedef struct tsr__todo {
  tsr_array *array;
  int next; /* the operand to look at */
} todo;

/* ---- memory ---- */

void tsr__program_init(tsr__program *program, tsr__heap *heap)
{
  memset(program, 0, sizeof *program);
  program->heap = heap;
  program->equal.heap = program->blobs.heap = heap;
}

/* Regions are counted, as a plan that still runs may hold one of a program that is gone. */
static void drop_regions(tsr__program *program)
{
  for (int i = 0; i < program->region_count; i++) tsr__region_release(program->regions[i]);
  program->region_count = 0;
}

void tsr__program_free(tsr__program *program)
{
  /* A program that was never begun is zeros: freeing it is nothing. */
  tsr__heap *heap = program->heap;
  if (!heap) return;
  tsr__del(heap, program->nodes, program->capacity * sizeof *program->nodes);
  tsr__del(heap, program->operands, program->operand_capacity * sizeof *program->operands);
  tsr__del(heap, program->shardings, program->sharding_capacity * sizeof *program->shardings);
  if (program->param_capacity)
    tsr__del(heap, program->params, program->param_capacity * sizeof *program->params);
  tsr__del(heap, program->sites, program->site_capacity * sizeof *program->sites);
  tsr__del(heap, program->arrays, program->array_capacity * sizeof *program->arrays);
  tsr__del(heap, program->visited, program->visited_capacity * sizeof *program->visited);
  tsr__del(heap, program->todo, program->todo_capacity * sizeof *program->todo);
  tsr__del(heap, program->attrs, program->attr_capacity);
  tsr__del(heap, program->results, program->result_capacity * sizeof *program->results);
  drop_regions(program);
  tsr__del(heap, program->regions, program->region_capacity * sizeof *program->regions);
  tsr__table_free(&program->equal);
  tsr__table_free(&program->blobs);
  tsr__program_init(program, heap);
}

void tsr__program_clear(tsr__program *program)
{
  program->node_count = program->operand_count = 0;
  program->sharding_count = program->param_count = 0;
  program->attr_count = program->result_count = 0;
  drop_regions(program);
  program->visited_count = 0;
  /* The lists stay as long as they are, and are written over: only `visited_count` says what of
   * `visited` counts. */
  program->failed = program->open = program->looks = false;
  tsr__table_clear(&program->equal);
  tsr__table_clear(&program->blobs);
}

/* A program that ran out of memory says so once, at the end: those who add look at indices below
 * 0 or at `failed`, not at every list. */
static bool grow(tsr__program *program, void **array, size_t *capacity, size_t need, size_t element)
{
  if (need <= *capacity) return true;
  if (tsr__grow(program->heap, array, capacity, need, element)) return true;
  program->failed = true;
  return false;
}

#define GROW(program, field, capacity, need)                                \
  grow((program), (void **)&(program)->field, &(program)->capacity, (need), \
       sizeof *(program)->field)

/* ---- parts ---- */

int tsr__program_sharding(tsr__program *program, const tsr_sharding *sharding)
{
  /* Two, for the unplaced one and the new one. */
  if (!GROW(program, shardings, sharding_capacity, (size_t)program->sharding_count + 2)) return 0;
  if (!program->sharding_count)
    memset(&program->shardings[program->sharding_count++], 0, sizeof(tsr_sharding));
  if (!sharding || !sharding->mesh) return 0;
  /* A program has few different ones, so they are looked through. */
  for (int i = 1; i < program->sharding_count; i++)
    if (!memcmp(&program->shardings[i], sharding, sizeof *sharding)) return i;
  /* Nodes have 16 bits for the index. */
  if (program->sharding_count > UINT16_MAX) {
    program->failed = true;
    return 0;
  }
  memcpy(&program->shardings[program->sharding_count], sharding, sizeof *sharding);
  return program->sharding_count++;
}

uint32_t tsr__program_attr(tsr__program *program, const void *attr, uint32_t bytes)
{
  size_t start = (size_t)program->attr_count, room = ((size_t)bytes + 7) / 8 * 8;
  if (!bytes) return 0;
  uint64_t hash = tsr__hash(attr, bytes, bytes);
  int32_t at;
  /* What is found may lie so near the end that its bytes are not all there: numbers of the table
   * are starts of attributes of any length. */
  TSR_FOR_HASHED (&program->blobs, hash, at)
    if ((size_t)at + bytes <= start && !memcmp(program->attrs + at, attr, bytes))
      return (uint32_t)at;
  if (start + room > INT32_MAX || !tsr__table_add(&program->blobs, hash, (int32_t)start))
    program->failed = true;
  if (program->failed || !GROW(program, attrs, attr_capacity, start + room)) return 0;
  /* Rounded up to 8 so that the next struct is aligned; the gap is part of the key and must be
   * zero. */
  memset(program->attrs + start, 0, room);
  memcpy(program->attrs + start, attr, bytes);
  program->attr_count += (int)room;
  return (uint32_t)start;
}

int tsr__program_region(tsr__program *program, tsr__region *region)
{
  /* By what is in them, not by pointer: a body that was traced twice is one region. */
  for (int i = 0; i < program->region_count; i++)
    if (tsr__region_same(program->regions[i], region)) return i;
  if (!GROW(program, regions, region_capacity, (size_t)program->region_count + 1)) return -1;
  tsr__region_hold(region);
  program->regions[program->region_count] = region;
  return program->region_count++;
}

int tsr__program_results(tsr__program *program, const tsr__result *results, int count)
{
  int first = program->result_count;
  if (!GROW(program, results, result_capacity, (size_t)first + (size_t)count)) return -1;
  for (int i = 0; i < count; i++) program->results[program->result_count++] = results[i];
  return first;
}

/* Lists that go along with the nodes: sites and arrays are one a node, so they grow together. */
static inline bool room_for(tsr__program *program, size_t nodes, size_t operands)
{
  return GROW(program, nodes, capacity, nodes) && GROW(program, sites, site_capacity, nodes) &&
         GROW(program, arrays, array_capacity, nodes) &&
         GROW(program, operands, operand_capacity, operands);
}

bool tsr__program_reserve(tsr__program *program, int nodes, int operands)
{
  return room_for(program, (size_t)nodes, (size_t)operands);
}

/* Index of a new node with room for its operands and regions, neither yet set; -1 out of memory. */
static int new_node(tsr__program *program, int operands, const char *site, tsr_array *array)
{
  /* Index 0 must be there before any node is, as 0 is what nodes without a place have. */
  if (!program->sharding_count) tsr__program_sharding(program, NULL);
  if (program->failed || program->node_count == INT32_MAX ||
      operands > INT32_MAX - program->operand_count ||
      !room_for(program, (size_t)program->node_count + 1,
                (size_t)program->operand_count + (size_t)operands)) {
    program->failed = true;
    return -1;
  }
  program->sites[program->node_count] = site;
  program->arrays[program->node_count] = array;
  return program->node_count++;
}

int tsr__program_add(tsr__program *program, const tsr__gnode *node, tsr__links in, const char *site)
{
  int index = new_node(program, in.count, site, NULL);
  if (index < 0) return index;
  tsr__gnode *to = &program->nodes[index];
  /* As bytes, padding and all: a node that was zeroed when it was made stays so. */
  memcpy(to, node, sizeof *node);
  to->first_in = program->operand_count;
  /*   operands[]   ... | in 0 | in 1 | region 0 | ...       first_in at in 0, in_count 2 */
  to->in_count = in.count - node->region_count;
  for (int i = 0; i < in.count; i++) program->operands[program->operand_count++] = in.at[i];
  return index;
}

/* From the last node to the first, as nodes only move up. */
bool tsr__program_copy_nodes(tsr__program *program, const int32_t *copies, int32_t *place)
{
  int count = program->node_count, nodes = 0, operands = program->operand_count;
  for (int n = 0; n < count; n++) {
    place[n] = nodes;
    nodes += 1 + copies[n];
    operands += copies[n] * program->nodes[n].in_count;
  }
  if (!room_for(program, (size_t)nodes, (size_t)operands)) return false;
  for (int n = 0; n < count; n++)
    TSR_FOR_OPERANDS (program, &program->nodes[n], i, o)
      program->operands[program->nodes[n].first_in + i] = place[o];
  for (int n = count - 1; n >= 0; n--)
    for (int k = copies[n]; k >= 0; k--) {
      tsr__gnode *to = &program->nodes[place[n] + k];
      *to = program->nodes[n];
      program->sites[place[n] + k] = program->sites[n];
      program->arrays[place[n] + k] = k ? NULL : program->arrays[n];
      if (!k) continue;
      const int32_t *in = &program->operands[to->first_in];
      to->first_in = program->operand_count;
      program->operand_count += to->in_count;
      memcpy(&program->operands[to->first_in], in, (size_t)to->in_count * sizeof *in);
    }
  program->node_count = nodes;
  return true;
}

tsr__type tsr__gnode_type(const tsr__gnode *node)
{
  /* Never ragged: a leaf whose rows lie so has a dim of TSR__DYNAMIC, as the program's nodes
   * have. */
  return (tsr__type){ .dtype = node->dtype, .rank = node->rank, .dims = node->dims };
}

tsr__type tsr__node_type(const tsr__program *program, int node)
{
  const tsr__gnode *g = &program->nodes[node];
  tsr__type type = tsr__gnode_type(g);
  type.result_count = g->result_count;
  if (g->result_count) type.results = &program->results[g->first_result];
  return type;
}

/* ---- tracing ---- */

/* The node of an array already met, -1 for a new one. `visit` may be of another program, or of
 * this one before it was cleared: it proves itself by the list having the array there. */
static int node_of(const tsr__program *program, const tsr_array *array)
{
  bool met = array->visit < program->visited_count && program->visited[array->visit] == array;
  return met ? (int)array->mark - 1 : -1;
}

static bool is_leaf(const tsr_array *array)
{
  /* What was evaluated is read, not computed again, whatever made it. */
  return array->value || array->op == TSR__OP_LEAF;
}

static void fill_leaf(tsr__program *program, const tsr_array *array, tsr__gnode *node)
{
  node->op = TSR__OP_LEAF;
  node->flags = array->sharding.mesh ? TSR__PLACED : 0;
  node->sharding = (uint16_t)tsr__program_sharding(program, &array->sharding);
  if (array->value && tsr__value_kept(array->value) >= 0) {
    node->flags |= TSR__KEPT;
    node->cause = (uint8_t)tsr__value_kept(array->value);
  }
  if (!array->value || !array->shape.rank || !tsr__value_ragged(array->value)) return;
  /* The array may know how many rows there are by now; the program must not, or each count would
   * be another plan. */
  node->flags |= TSR__RAGGED;
  node->dims[0] = TSR__DYNAMIC;
}

static bool unknown_size(const tsr__gnode *node)
{
  for (int d = 0; d < node->rank; d++)
    if (node->dims[d] == TSR__DYNAMIC) return true;
  return false;
}

/* Operands evaluated since a node was made may have sizes now that were unknown then, and
 * the other way round: shapes with run-time sizes are inferred again. */
static void refresh_shape(tsr__program *program, tsr__gnode *node)
{
  bool unknown = unknown_size(node);
  TSR_FOR_OPERANDS (program, node, i, o) unknown = unknown || unknown_size(&program->nodes[o]);
  /* Nearly all: inference costs more than the rest of tracing a node. */
  if (!unknown) return;
  tsr__inferred type;
  tsr__error error = { .status = TSR_OK };
  /* A mismatch that only shows now is left as it is: verify and the run report it. */
  if (tsr__program_infer(program, node, &type, &error)) return;
  memcpy(node->dims, type.shape.dims, sizeof node->dims);
}

/* Regions stand behind the operands; results in a list of their own. */
static void fill_extras(tsr__program *program, const tsr__extras *extras, tsr__gnode *node)
{
  node->region_count = (uint8_t)extras->region_count;
  for (int i = 0; i < extras->region_count; i++)
    /* new_node has made room for them behind the operands. A -1 there is out of memory, which
     * `failed` says, too. */
    program->operands[program->operand_count++] = tsr__program_region(program, extras->regions[i]);
  node->first_result = tsr__program_results(program, extras->results, extras->result_count);
  node->result_count = node->first_result < 0 ? 0 : extras->result_count;
}

static void fill_inner(tsr__program *program, const tsr_array *array, tsr__gnode *node)
{
  node->op = array->op;
  node->attr_bytes = array->attr_bytes;
  /* Equal attributes are one, so nodes compare them by where they lie. */
  node->attr = tsr__program_attr(program, array->attr, array->attr_bytes);
  node->in_count = array->in_count;
  for (int i = 0; i < array->in_count; i++)
    program->operands[program->operand_count++] =
        array->in[i] ? node_of(program, array->in[i]) : -1;
  if (array->extras) fill_extras(program, array->extras, node);
  if (array->placed) {
    node->flags = TSR__PLACED;
    node->sharding = (uint16_t)tsr__program_sharding(program, &array->sharding);
  }
  /* A source's shape was given, and is no consequence of its operand's. Out of memory the
   * attributes are not there to infer by. */
  if (!tsr__shape_is_given(node->op) && !program->failed) refresh_shape(program, node);
}

/* The low half of a node's hash is its place: beside those of nodes with as new operands, so that
 * tracing walks through the table as through the program instead of missing the caches at every
 * node. Where many use the same operands, the table goes by the high half. */
static uint64_t hash_node(const tsr__program *program, const tsr__gnode *node)
{
  const uint64_t mix = UINT64_C(0x9e3779b97f4a7c15);
  int32_t newest = 0;
  uint64_t hash;
  /* The first eight bytes of a node: op, dtype, rank, flags, how many regions, and what
   * partition sets (zeros here). A root that is met again is equal all the same: flags are set
   * when all is traced. */
  memcpy(&hash, node, sizeof hash);
  for (int i = 0; i < node->in_count + node->region_count; i++) {
    int32_t operand = program->operands[node->first_in + i];
    hash = hash * mix + (uint32_t)operand + 1;
    if (i < node->in_count && operand > newest) newest = operand;
  }
  hash += (uint64_t)node->sharding << 48;
  hash += (uint64_t)node->attr * 977 + (uint64_t)node->dims[0] * 31;
  hash *= UINT64_C(0xd6e8feb86659fd93);
  return (hash >> 32 << 32) | (uint32_t)(2 * newest);
}

/* Whether two nodes are equal but for where their operands are listed and who wants them. */
static bool same_node(const tsr__program *program, const tsr__gnode *a, const tsr__gnode *b)
{
  /* Attributes, shardings and regions are compared by index, since each is there once. */
  uint8_t flags = (uint8_t)(a->flags ^ b->flags);
  if (flags & (uint8_t)~TSR__ROOT || a->in_count != b->in_count ||
      a->region_count != b->region_count || a->result_count != b->result_count)
    return false;
  return a->op == b->op && a->dtype == b->dtype && a->rank == b->rank &&
         a->sharding == b->sharding && a->attr == b->attr && a->attr_bytes == b->attr_bytes &&
         a->param == b->param &&
         (!(a->in_count + a->region_count) ||
          !memcmp(&program->operands[a->first_in], &program->operands[b->first_in],
                  (size_t)(a->in_count + a->region_count) * sizeof *program->operands)) &&
         (!a->result_count ||
          !memcmp(&program->results[a->first_result], &program->results[b->first_result],
                  (size_t)a->result_count * sizeof *program->results)) &&
         !memcmp(a->dims, b->dims, sizeof a->dims);
}

/* The node equal to the newest one, which is then dropped; else the newest, now in the table.
 * Nodes with numbers are not brought here: whether they are equal hangs on the run. */
static int merge_newest(tsr__program *program)
{
  int newest = program->node_count - 1, other;
  const tsr__gnode *node = &program->nodes[newest];
  uint64_t hash = hash_node(program, node);
  TSR_FOR_HASHED (&program->equal, hash, other) {
    if (!same_node(program, &program->nodes[other], node)) continue;
    /* It was the last one, so its lists end with it and are cut. Attributes that it brought in
     * stay: they were there before, or its double would not be its equal. */
    program->node_count--;
    program->operand_count = node->first_in;
    if (node->result_count) program->result_count = node->first_result;
    return other;
  }
  if (!tsr__table_add(&program->equal, hash, newest)) program->failed = true;
  return newest;
}

static void bind_params(tsr__program *program, const tsr_array *array, tsr__gnode *node)
{
  int count = array->number_count;
  if (!GROW(program, params, param_capacity, (size_t)program->param_count + (size_t)count)) return;
  node->param_count = count;
  node->param = program->param_count;
  for (int i = 0; i < count; i++) program->params[program->param_count++] = array->numbers[i];
}

/* What scales a kept sum stands behind its leaf, as if it were still to be computed; returns the
 * node that has the value. */
static int emit_scales(tsr__program *program, const tsr_array *array, int leaf)
{
  const tsr__scale_by *scale;
  int count = tsr__value_scales(array->value, &scale), at = leaf;
  for (int i = 0; i < count && at >= 0; i++) {
    tsr__gnode scaled = program->nodes[leaf];
    tsr__gnode number = { .op = TSR__OP_CONST, .dtype = scaled.dtype, .param_count = 1 };
    int32_t factor = -1;
    scaled.op = scale[i].op;
    scaled.flags = 0;
    scaled.cause = 0;
    scaled.sharding = 0;
    if (tsr__ops[scaled.op].least > 1) {
      if (!GROW(program, params, param_capacity, (size_t)program->param_count + 1)) return -1;
      number.param = program->param_count;
      program->params[program->param_count++] = scale[i].number;
      factor = tsr__program_add(program, &number, TSR__LINKS_NONE, array->node.site);
    }
    tsr__links in = factor < 0 ? TSR__LINKS(at) : TSR__LINKS(at, factor);
    at = tsr__program_add(program, &scaled, in, array->node.site);
  }
  return at;
}

/* Adds the node of an array whose operands have theirs. Order matters: the lists' ends must be
 * where `first_in` says before operands are appended. */
static void emit(tsr__program *program, tsr_array *array)
{
  bool leaf = is_leaf(array);
  int regions = array->extras ? array->extras->region_count : 0;
  int index = new_node(program, leaf ? 0 : array->in_count + regions, array->node.site, array);
  if (index < 0 || !GROW(program, visited, visited_capacity, (size_t)program->visited_count + 1))
    return;
  tsr__gnode *node = &program->nodes[index];
  memset(node, 0, sizeof *node);
  node->dtype = array->dtype;
  node->rank = (uint8_t)array->shape.rank;
  node->param = -1;
  node->first_in = program->operand_count;
  for (int d = 0; d < array->shape.rank; d++) node->dims[d] = array->shape.dims[d];
  if (leaf) {
    fill_leaf(program, array, node);
  } else {
    fill_inner(program, array, node);
    if (array->number_count) bind_params(program, array, node);
    else index = merge_newest(program);
  }
  /* What a body captures it is given as a leaf of each call, which brings the scales. */
  if (leaf && array->value && !program->open) index = emit_scales(program, array, index);
  if (index < 0) return;
  /* Equal arrays have one node, but each its own place in `visited`. */
  array->mark = (uint32_t)index + 1;
  array->visit = program->visited_count;
  program->visited[program->visited_count++] = array;
}

/* ---- following ------------------------------------------------------------------------------- */

/* Whether a node lies as asked; NULL: nobody asked. */
static bool same_place(const tsr__program *known, const tsr__gnode *node, const tsr_sharding *asked)
{
  uint8_t own = node->flags & (uint8_t) ~(TSR__ROOT | TSR__KEEP);
  if (own != (asked ? TSR__PLACED : 0)) return false;
  if (!asked || !asked->mesh) return !node->sharding;
  return node->sharding && !memcmp(&known->shardings[node->sharding], asked, sizeof *asked);
}

static bool same_operands(const tsr__program *program, const tsr__program *known,
                          const tsr__gnode *node, const tsr_array *array)
{
  if (node->in_count != array->in_count) return false;
  for (int i = 0; i < array->in_count; i++) {
    int32_t in = known->operands[node->first_in + i];
    if (in != (array->in[i] ? node_of(program, array->in[i]) : -1)) return false;
  }
  return true;
}

static bool same_extras(const tsr__program *known, const tsr__gnode *node,
                        const tsr__extras *extras)
{
  if (!extras) return !node->region_count && !node->result_count;
  if (node->region_count != extras->region_count || node->result_count != extras->result_count)
    return false;
  for (int i = 0; i < extras->region_count; i++) {
    int32_t region = known->operands[node->first_in + node->in_count + i];
    if (!tsr__region_same(known->regions[region], extras->regions[i])) return false;
  }
  return !extras->result_count || !memcmp(&known->results[node->first_result], extras->results,
                                          (size_t)extras->result_count * sizeof *extras->results);
}

/* Numbers are taken as they come; only where they stand is the program's. */
static bool take_numbers(tsr__program *program, const tsr__gnode *node, const tsr_array *array)
{
  int count = array->number_count;
  if (!count) return node->param < 0;
  if (node->param != program->param_count || node->param_count != count ||
      !GROW(program, params, param_capacity, (size_t)program->param_count + (size_t)count))
    return false;
  for (int i = 0; i < count; i++) program->params[program->param_count++] = array->numbers[i];
  return true;
}

static bool same_inner(tsr__program *program, const tsr__program *known, const tsr__gnode *node,
                       const tsr_array *array)
{
  return node->op == array->op && node->attr_bytes == array->attr_bytes &&
         same_operands(program, known, node, array) &&
         (!array->attr_bytes ||
          !memcmp(known->attrs + node->attr, array->attr, array->attr_bytes)) &&
         same_place(known, node, array->placed ? &array->sharding : NULL) &&
         same_extras(known, node, array->extras) && take_numbers(program, node, array);
}

/* Whether an array is the next node of a program, which then is the next of this one, too. Nothing
 * is written of the node, as it is there: only which array it is. What is not the same in an equal
 * program, as the rows that a filter left, is in none that is followed. */
static bool follow(tsr__program *program, const tsr__program *known, tsr_array *array)
{
  int at = program->node_count;
  const tsr__gnode *node = &known->nodes[at];
  if (at == known->node_count || node->dtype != array->dtype || node->rank != array->shape.rank)
    return false;
  for (int d = 0; d < array->shape.rank; d++)
    if (node->dims[d] != array->shape.dims[d]) return false;
  if (!is_leaf(array)) {
    if (!same_inner(program, known, node, array)) return false;
  } else if (node->op != TSR__OP_LEAF || !array->value || tsr__value_kept(array->value) >= 0 ||
             tsr__value_ragged(array->value) ||
             !same_place(known, node, array->sharding.mesh ? &array->sharding : NULL)) {
    return false;
  }
  program->nodes[at].flags = 0;
  program->arrays[at] = program->visited[at] = array;
  array->mark = (uint32_t)at + 1;
  array->visit = program->visited_count++;
  program->node_count++;
  return true;
}

static tsr_status refuse_inert(const tsr_array *array, tsr__error *error)
{
  const tsr_scope *scope = array->node.scope;
  /* The two constants have no scope to ask; their number tells (node.c). */
  if (!scope && array->numbers[0].i == TSR_ENOMEM)
    return tsr__error_set(error, TSR_ENOMEM, "no memory was left to make an array");
  if (!scope)
    return tsr__error_set(error, TSR_EARG,
                          "an array was made in a scope that is NULL or was never opened");
  if (scope->status != TSR_OK)
    return tsr__error_set(error, scope->status, "a call before failed: %s", tsr_message(scope));
  return tsr__error_set(
      error, TSR_ESTATE,
      "the array made at %s is the result of a failed call whose error was cleared",
      array->node.site ? array->node.site : "an unknown line");
}

static tsr_status refuse(const tsr__program *program, const tsr_array *array, bool root,
                         tsr__error *error)
{
  if (array->inert) return refuse_inert(array, error);
  if (tsr__is_abstract(array))
    return program->looks
               ? TSR_OK
               : tsr__error_set(
                     error, TSR_ESTATE,
                     "the array made at %s by tsr_abstract is a type without elements; compute "
                     "with an array that has elements, or ask tsr_explain or tsr_compile",
                     array->node.site ? array->node.site : "an unknown line");
  if (array->op == TSR__OP_ARG && !program->open)
    return tsr__error_set(
        error, TSR_ESTATE,
        "the array is computed from an argument of a function that is being traced, and has no "
        "value yet; return the array from the body and read the call's result");
  if (array->op == TSR__OP_TREE)
    return tsr__error_set(
        error, TSR_EARG, "the array made at %s is a tree of %d parts; take the parts with tsr_item",
        array->node.site ? array->node.site : "an unknown line", array->in_count);
  /* What was deleted may still be read by nodes made before, but is not to be asked for by name;
   * a leaf without its value has nothing to read. */
  bool gone = array->deleted && (root || (is_leaf(array) && !array->value));
  tsr__error room;
  if (gone || (array->op == TSR__OP_LEAF && !array->value))
    return tsr__error_set(error, TSR_ESTATE, "the array made at %s was %s",
                          array->node.site ? array->node.site : "an unknown line",
                          tsr__gone_text(array, &room));
  return TSR_OK;
}

/* Whether a value may be written over: only if nobody outside this program counts on it. Reads
 * are counted as users are, once for each place of an operand. */
bool tsr__program_reads_all(const tsr__program *program, const tsr_array *a, int *out_reads)
{
  uint32_t reads = 0;
  for (uint32_t v = 0; v < program->visited_count; v++) {
    const tsr_array *by = program->visited[v];
    /* What is a leaf of this program does not read its operands here, so they stay counted with
     * its array and keep the value. */
    for (int i = 0; i < by->in_count && !is_leaf(by); i++) reads += by->in[i] == a;
  }
  *out_reads = (int)reads;
  return reads == tsr__array_users(a);
}

static bool push(tsr__program *program, size_t depth, tsr_array *array)
{
  if (!GROW(program, todo, todo_capacity, depth + 1)) return false;
  program->todo[depth] = (todo){ array, 0 };
  return true;
}

/* Adds what an array is, or finds that it is the next node of what is known. */
static bool take(tsr__program *program, const tsr__program *known, tsr_array *array)
{
  if (known) return follow(program, known, array);
  emit(program, array);
  return true;
}

/* Adds everything below one root, deepest first. `known` is not NULL where it is followed: false,
 * where it is another program.
 *
 *   todo    root, 1 | a, 0 | c, 2 <- top       next operand to look at, by array on the way down
 *
 * An array is added when its operands are: the order is that of a walk in depth, the same for
 * the same calls, which equal keys need. */
static bool trace_root(tsr__program *program, const tsr__program *known, tsr_array *root,
                       tsr__error *error)
{
  size_t depth = 0;
  if (refuse(program, root, true, error)) return false;
  if (node_of(program, root) >= 0) return true;
  if (push(program, depth, root)) depth++;
  while (depth > 0 && !program->failed) {
    /* `top` may move when the stack grows, so it is read anew in each round. */
    todo *top = &program->todo[depth - 1];
    tsr_array *array = top->array, *operand = NULL;
    int count = is_leaf(array) ? 0 : array->in_count;
    while (top->next < count && !operand) {
      operand = array->in[top->next++];
      if (operand && node_of(program, operand) >= 0) operand = NULL;
    }
    if (operand) {
      if (refuse(program, operand, false, error)) return false;
      if (push(program, depth, operand)) depth++;
    } else {
      depth--;
      if (!take(program, known, array)) return false;
    }
  }
  return true;
}

/* A number to be read: something must hold it. */
static void hold_const(tsr__program *program, tsr_array *root)
{
  const tsr__gnode *number = &program->nodes[root->mark - 1];
  if (number->op != TSR__OP_CONST) return;
  /* `number` lies in the list that adding grows: all that is needed of it is taken first. */
  tsr__gnode full = { .op = TSR__OP_FULL, .dtype = number->dtype, .param = -1 };
  tsr__links in = TSR__LINKS((int32_t)root->mark - 1);
  int index = tsr__program_add(program, &full, in, root->node.site);
  if (index >= 0) root->mark = (uint32_t)index + 1;
}

tsr_status tsr__program_trace(tsr__program *program, tsr_array *const *roots, int count,
                              tsr__error *error)
{
  for (int i = 0; i < count && !program->failed; i++) {
    if (!roots[i]) return tsr__error_set(error, TSR_EARG, "array %d is NULL; give an array", i + 1);
    if (!trace_root(program, NULL, roots[i], error)) return error->status;
  }
  /* After all roots are traced: a number may be a root and an operand of another. */
  for (int i = 0; i < count && !program->failed; i++) hold_const(program, roots[i]);
  if (program->failed)
    return tsr__error_set(error, TSR_ENOMEM,
                          "no memory to trace a program; close scopes that are no longer needed");
  /* Last, as merging compares nodes without it, and so that a failed trace leaves no roots. */
  for (int i = 0; i < count; i++) program->nodes[roots[i]->mark - 1].flags |= TSR__ROOT;
  return TSR_OK;
}

int tsr__program_followable(const tsr__program *program)
{
  int roots = 0;
  if (program->visited_count != (uint32_t)program->node_count) return 0;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *node = &program->nodes[n];
    if (node->flags & (TSR__RAGGED | TSR__KEPT) || unknown_size(node)) return 0;
    roots += (node->flags & TSR__ROOT) != 0;
  }
  return roots;
}

bool tsr__program_follow(tsr__program *program, const tsr__followed *known, tsr__operands roots,
                         tsr__error *error)
{
  const tsr__program *of = known->program;
  int found = 0;
  tsr__program_clear(program);
  if (!room_for(program, (size_t)of->node_count, 0) ||
      !GROW(program, visited, visited_capacity, (size_t)of->node_count))
    return false;
  for (int i = 0; i < roots.count; i++)
    if (!roots.at[i] || !trace_root(program, of, roots.at[i], error) || program->failed)
      return false;
  /* All of its nodes, and all of its roots, each perhaps given twice. */
  for (int i = 0; i < roots.count; i++) {
    int n = (int)roots.at[i]->mark - 1, flags = of->nodes[n].flags;
    if (!(flags & TSR__ROOT) || !(flags & TSR__KEEP) != !known->keep) return false;
    found += !program->nodes[n].flags;
    program->nodes[n].flags = TSR__ROOT;
  }
  return program->node_count == of->node_count && found == known->roots;
}

/* ---- as a key ---- */

/* Who is shown an array has another address in each process: of taps that is left out. They are the
 * only attributes with addresses, and rare. */
static uint64_t hash_attrs(const tsr__program *program, uint64_t hash)
{
  if (!program->attr_count) return hash;
  const char *at = (const char *)program->attrs, *end = at + program->attr_count;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *g = &program->nodes[n];
    if (tsr__ops[g->op].attr != TSR__ATTR_TAP) continue;
    const tsr__tap_attr *tap = tsr__attr_of(program, g);
    const int64_t what[] = { tap->kind, tap->shards };
    if ((const char *)tap < at) continue; /* one attribute of two nodes */
    hash = tsr__hash(at, (size_t)((const char *)tap - at), hash);
    hash = tsr__hash(what, sizeof what, hash);
    at = (const char *)(tap + 1);
  }
  return tsr__hash(at, (size_t)(end - at), hash);
}

uint64_t tsr__program_hash(const tsr__program *program)
{
  size_t nodes = (size_t)program->node_count * sizeof *program->nodes;
  size_t operands = (size_t)program->operand_count * sizeof *program->operands;
  /* Regions give the hash that was taken when they were made: a key of a large body costs no
   * more than one of a small one. Numbers are left out: another value is no other plan. */
  uint64_t hash = tsr__hash(program->nodes, nodes, (uint64_t)program->node_count);
  hash = tsr__hash(program->operands, operands, hash);
  hash = hash_attrs(program, hash);
  if (program->result_count)
    hash =
        tsr__hash(program->results, (size_t)program->result_count * sizeof *program->results, hash);
  for (int i = 0; i < program->region_count; i++)
    hash = tsr__hash(&program->regions[i]->hash, sizeof program->regions[i]->hash, hash);
  for (int i = 1; i < program->sharding_count; i++) {
    const tsr_sharding *sharding = &program->shardings[i];
    /* A mesh by its number, axes and devices, not by its address: hashes are then equal in all
     * processes, which do the same. */
    uint64_t seed = hash + (uint64_t)sharding->mesh->id;
    if (!sharding->mesh->own) seed += sharding->mesh->branch.hash;
    hash = tsr__hash(sharding->first, sizeof sharding->first + sizeof sharding->axis, seed);
  }
  return hash;
}

static bool same_bytes(const void *a, const void *b, int count, size_t element)
{
  return !count || !memcmp(a, b, (size_t)count * element);
}

static bool same_regions(const tsr__program *a, const tsr__program *b)
{
  bool same = a->region_count == b->region_count;
  for (int i = 0; same && i < a->region_count; i++)
    same = tsr__region_same(a->regions[i], b->regions[i]);
  return same;
}

/* The cheap counts first. Shardings are compared with the pointers to their meshes in them,
 * which are one object each. */
bool tsr__program_same(const tsr__program *a, const tsr__program *b)
{
  return a->node_count == b->node_count && a->operand_count == b->operand_count &&
         a->attr_count == b->attr_count && a->sharding_count == b->sharding_count &&
         same_bytes(a->nodes, b->nodes, a->node_count, sizeof *a->nodes) &&
         same_bytes(a->operands, b->operands, a->operand_count, sizeof *a->operands) &&
         a->result_count == b->result_count && same_regions(a, b) &&
         same_bytes(a->results, b->results, a->result_count, sizeof *a->results) &&
         same_bytes(a->attrs, b->attrs, a->attr_count, sizeof *a->attrs) &&
         same_bytes(a->shardings, b->shardings, a->sharding_count, sizeof *a->shardings);
}

/* Copies one list of a program; false when memory is short. */
#define COPY(to, from, field, count_field, capacity_field)                                   \
  (!(from)->count_field ||                                                                   \
   (GROW((to), field, capacity_field, (size_t)(from)->count_field) &&                        \
    memcpy((to)->field, (from)->field, (size_t)(from)->count_field * sizeof *(to)->field) && \
    ((to)->count_field = (from)->count_field)))

bool tsr__program_share(tsr__program *out, const tsr__program *in)
{
  if (!COPY(out, in, attrs, attr_count, attr_capacity) ||
      !COPY(out, in, results, result_count, result_capacity) ||
      !COPY(out, in, regions, region_count, region_capacity))
    return false;
  for (int i = 0; i < out->region_count; i++) tsr__region_hold(out->regions[i]);
  return true;
}

tsr_status tsr__program_copy(tsr__program *out, const tsr__program *in, tsr__heap *heap)
{
  tsr__program copy;
  tsr__program_init(&copy, heap);
  if (!tsr__program_share(&copy, in) || !COPY(&copy, in, nodes, node_count, capacity) ||
      !COPY(&copy, in, operands, operand_count, operand_capacity) ||
      !COPY(&copy, in, shardings, sharding_count, sharding_capacity)) {
    tsr__program_free(&copy);
    return TSR_ENOMEM;
  }
  *out = copy;
  return TSR_OK;
}
