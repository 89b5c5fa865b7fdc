/* Programs as text, one line a node:
 *
 *   %0 = put                  f64[8,8]@(x,y)     normalise.c:12
 *   %1 = %0 * 2               f64[8,8]@(x,y)     normalise.c:13
 *   %2 = mean(%0)             f64[]              normalise.c:13
 *   %3:2 = call(%1)           f64[8,8], bool[]   normalise.c:14
 *       %0 = arg 0            f64[8,8]
 *       ...
 *       return %0, %4
 *   %4 = %3#1                 bool[]
 *
 * Constants stand where they are used. Columns are as wide as their widest entry, up to a limit. */
#include "graph/graph.h"

#include <stdio.h>

/* A longer entry hangs over, and only its own line. */
#define FORMULA_LIMIT 44
#define TYPE_LIMIT 40

/* Counted anew each time: printing a whole program counts once (`numbers`), and messages name
 * one node. */
int tsr__program_number(const tsr__program *program, int node)
{
  int number = 0;
  for (int n = 0; n < node; n++) number += program->nodes[n].op != TSR__OP_CONST;
  return number;
}

/* A constant where it is used: as short as it can be read back. */
static void add_const(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  char number[32];
  /* A program kept as a key has no numbers. */
  if (!program->params || node->param < 0 || node->param >= program->param_count) {
    tsr__text_add(out, "?");
    return;
  }
  tsr__num value = program->params[node->param];
  tsr_dtype dtype = (tsr_dtype)node->dtype;
  /* As the number will be: rounded to its dtype, in the shortest text that reads back to it. */
  if (dtype == TSR_F64) tsr__text_f64(number, value.f);
  else if (tsr__dtype_is_real(dtype))
    tsr__text_f32(number, (float)tsr__dtype_round(dtype, value.f));
  else if (dtype == TSR_U64) snprintf(number, sizeof number, "%llu", (unsigned long long)value.i);
  else if (node->dtype == TSR_BOOL) snprintf(number, sizeof number, value.i ? "true" : "false");
  else snprintf(number, sizeof number, "%lld", (long long)value.i);
  tsr__text_add(out, "%s", number);
}

/* Numbers leave constants out, so that lines are numbered without a gap. */
static void add_operand(const tsr__program *program, const int *numbers, int node, tsr__text *out)
{
  if (program->nodes[node].op == TSR__OP_CONST) add_const(program, &program->nodes[node], out);
  else tsr__text_add(out, "%%%d", numbers ? numbers[node] : tsr__program_number(program, node));
}

/* ---- attributes, by family ---- */

static void add_reduce(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  const tsr__reduce_attr *attr = tsr__reduce_of(program, node);
  /* All dims are the default and are not named. */
  uint32_t all = (1u << program->nodes[tsr__in(program, node, 0)].rank) - 1;
  if (attr->groups > 0) tsr__text_add(out, ", %lld groups", (long long)attr->groups);
  else if (attr->dims != all) {
    tsr__text_add(out, ", dims ");
    for (int d = 0, many = 0; d < TSR_MAX_RANK; d++)
      if (attr->dims >> d & 1) tsr__text_add(out, "%s%d", many++ ? "," : "", d);
  }
  if (attr->keep) tsr__text_add(out, ", keep");
  if (attr->ddof) tsr__text_add(out, ", ddof %lld", (long long)attr->ddof);
}

/* Sources have it as the first thing in their parentheses. */
static void add_dim(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  tsr__text_add(out, "%sdim %d", node->in_count ? ", " : "", tsr__dim_of(program, node));
}

static void add_scan(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  const tsr__scan_attr *attr = tsr__attr_of(program, node);
  tsr__text_add(out, ", dim %lld%s", (long long)attr->dim, attr->reverse ? ", reverse" : "");
}

/* TOP_K has the number of elements where others have their direction. */
static void add_sort(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  const tsr__sort_attr *attr = tsr__attr_of(program, node);
  tsr__text_add(out, ", dim %lld", (long long)attr->dim);
  if (attr->order == TSR__ORDER_DESCENDING) tsr__text_add(out, ", descending");
  if (attr->order == TSR__ORDER_LARGEST) tsr__text_add(out, ", %lld", (long long)attr->count);
}

/* Ranges as Python writes them, start:stop:step, so that they can be tried there: an empty stop
 * where going down ends at 0, for -1 would be the last element. ":" is a dim that stays whole. */
static void add_slice(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  const tsr__slice_attr *attr = (const void *)(program->attrs + node->attr);
  for (int d = 0; d < node->rank; d++) {
    int64_t start = attr->start[d], step = attr->step[d], size = attr->size[d];
    tsr__text_add(out, ", ");
    if (step) tsr__text_add(out, "%lld", (long long)start);
    tsr__text_add(out, ":");
    /* One beyond the last element that is shown, not the one that was asked for: 0:10:4 of ten
     * prints 0:9:4, of the same elements. */
    int64_t stop = size ? start + step * (size - 1) + (step > 0 ? 1 : -1) : start;
    if (step && stop >= 0) tsr__text_add(out, "%lld", (long long)stop);
    if (step && step != 1) tsr__text_add(out, ":%lld", (long long)step);
  }
}

/* The dims of the operand in their new order. */
static void add_order(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  const tsr__order_attr *attr = (const void *)(program->attrs + node->attr);
  tsr__text_add(out, ", dims ");
  for (int d = 0; d < node->rank; d++) tsr__text_add(out, "%s%d", d ? "," : "", attr->dims[d]);
}

/* By dim what comes before and after it, "1+2". */
static void add_pad(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  const tsr__pad_attr *attr = (const void *)(program->attrs + node->attr);
  for (int d = 0; d < node->rank; d++)
    tsr__text_add(out, ", %lld+%lld", (long long)attr->low[d], (long long)attr->high[d]);
}

static void add_span(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  int more = tsr__more_of(program, node);
  add_dim(program, node, out);
  if (more) tsr__text_add(out, "..%d", tsr__dim_of(program, node) + more);
  if (tsr__batch_of(program, node)) tsr__text_add(out, ", batch %d", tsr__batch_of(program, node));
}

/* How two updates of one place meet, and whether places out of range are dropped. */
static void add_scatter(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  static const char *const hows[] = { "set", "add", "mul", "min", "max" };
  const tsr__scatter_attr *attr = (const void *)(program->attrs + node->attr);
  add_span(program, node, out);
  tsr__text_add(out, ", %s%s", hows[attr->how], attr->drops ? ", drop" : "");
}

static void add_within(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  const tsr__within_attr *attr = (const void *)(program->attrs + node->attr);
  tsr__text_add(out, ", %lld", (long long)attr->size);
}

static void add_roll(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  const tsr__roll_attr *attr = tsr__attr_of(program, node);
  tsr__text_add(out, ", dim %lld, by %lld", (long long)attr->dim, (long long)attr->count);
}

static void add_diagonal(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  const tsr__diagonal_attr *attr = tsr__attr_of(program, node);
  tsr__text_add(out, ", dim %lld, %lld aside", (long long)attr->dim, (long long)attr->offset);
}

/* "dim 0, 1..2 0 none": elements that follow each other as one. */
static void add_pick(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  const tsr__pick_attr *attr = tsr__attr_of(program, node);
  tsr__text_add(out, ", dim %lld,", (long long)attr->dim);
  for (int64_t i = 0, end; i < node->dims[attr->dim]; i = end) {
    int32_t from = attr->picks[i];
    for (end = i + 1; end < node->dims[attr->dim]; end++)
      if (attr->picks[end] != (from < 0 ? from : from + (end - i))) break;
    if (from < 0) tsr__text_add(out, " none");
    else tsr__text_add(out, " %d", from);
    if (from >= 0 && end > i + 1) tsr__text_add(out, "..%d", from + (int)(end - i) - 1);
  }
}

/* "2f": so many times an index, by its letter. */
static void add_index(int64_t times, int index, tsr__text *out)
{
  if (times > 1) tsr__text_add(out, "%lld", (long long)times);
  /* At most 16 indices, so letters are enough. */
  tsr__text_add(out, "%c", 'a' + index - 1);
}

/* The letters of dims; 1: a dim of size 1 that no index runs along. */
static void add_letters(const uint8_t *indices, int rank, tsr__text *out)
{
  for (int d = 0; d < rank; d++) {
    if (indices[d]) add_index(1, indices[d], out);
    else tsr__text_add(out, "1");
  }
}

/* As an einsum, ab,bc->ac; along a dim of windows (2f+a) is where window f has its element a. */
static void add_dot(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  const tsr__dot_attr *attr = tsr__attr_of(program, node);
  int left = program->nodes[tsr__in(program, node, 0)].rank;
  tsr__text_add(out, ", ");
  for (int d = 0; d < left; d++) {
    if (!attr->window[d]) {
      add_letters(&attr->left[d], 1, out);
      continue;
    }
    tsr__text_add(out, "(");
    add_index(attr->stride[d], attr->left[d], out);
    tsr__text_add(out, "+");
    add_index(attr->dilation[d], attr->window[d], out);
    tsr__text_add(out, ")");
  }
  tsr__text_add(out, ",");
  add_letters(attr->right, program->nodes[tsr__in(program, node, 1)].rank, out);
  tsr__text_add(out, "->");
  add_letters(attr->out, node->rank, out);
}

static void add_tap(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  static const char *const kinds[] = { "sharding", "values", "print" };
  const tsr__tap_attr *attr = tsr__attr_of(program, node);
  tsr__text_add(out, ", %s%s", kinds[attr->kind], attr->shards ? " of shards" : "");
}

/* The name of a value, in quotes. */
static void add_given_name(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  const tsr__name_attr *attr = tsr__attr_of(program, node);
  tsr__text_add(out, ", \"%s\"", attr->text);
}

/* The names of the values that a checkpoint keeps. */
static void add_custom(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  const tsr__custom_attr *attr = tsr__attr_of(program, node);
  for (int i = 0; i < tsr__keep_count(node); i++)
    tsr__text_add(out, "%s\"%s\"", i ? ", " : ", keep ", attr->keep[i].text);
}

/* What stands in the parentheses behind a node's operands; NULL: nothing. INDEX stands where the
 * node is named (arg 1, %3#0); BLOCKS and AXIS are not shown. */
static void (*const attributes[TSR__ATTR_FAMILIES])(const tsr__program *, const tsr__gnode *,
                                                    tsr__text *) = {
  [TSR__ATTR_REDUCE] = add_reduce,     [TSR__ATTR_DIM] = add_dim,
  [TSR__ATTR_SLICE] = add_slice,       [TSR__ATTR_ORDER] = add_order,
  [TSR__ATTR_PAD] = add_pad,           [TSR__ATTR_SPAN] = add_span,
  [TSR__ATTR_SCATTER] = add_scatter,   [TSR__ATTR_WITHIN] = add_within,
  [TSR__ATTR_SCAN] = add_scan,         [TSR__ATTR_SORT] = add_sort,
  [TSR__ATTR_ROLL] = add_roll,         [TSR__ATTR_DOT] = add_dot,
  [TSR__ATTR_TAP] = add_tap,           [TSR__ATTR_PICK] = add_pick,
  [TSR__ATTR_NAME] = add_given_name,   [TSR__ATTR_CUSTOM] = add_custom,
  [TSR__ATTR_DIAGONAL] = add_diagonal,
};

/* ---- nodes ---- */

static void add_call(const tsr__program *program, const int *numbers, const tsr__gnode *node,
                     tsr__text *out)
{
  bool reduce = tsr__is_reduction(node->op);
  int family = tsr__ops[node->op].attr;
  /* By the place of a reduction's operand: sum(x, where m, by codes). */
  static const char *const roles[] = { "", "where ", "by " };
  tsr__text_add(out, "%s", tsr__ops[node->op].name);
  /* Sources: "iota(dim 0)", and an argument as "arg 1", which takes no parentheses. */
  if (!node->in_count) {
    if (family == TSR__ATTR_INDEX) tsr__text_add(out, " %d", tsr__index_of(program, node));
    if (node->region_count) tsr__text_add(out, "()");
    if (!attributes[family]) return;
    tsr__text_add(out, "(");
    attributes[family](program, node, out);
    tsr__text_add(out, ")");
    return;
  }
  tsr__text_add(out, "(");
  TSR_FOR_OPERANDS (program, node, i, o) {
    tsr__text_add(out, "%s%s", i ? ", " : "", reduce ? roles[i] : "");
    add_operand(program, numbers, o, out);
  }
  if (attributes[family]) attributes[family](program, node, out);
  tsr__text_add(out, ")");
}

static void add_formula(const tsr__program *program, const int *numbers, int n, tsr__text *out)
{
  const tsr__gnode *node = &program->nodes[n];
  const char *sign = tsr__ops[node->op].sign;
  tsr__text_add(out, "  %%%d", numbers ? numbers[n] : tsr__program_number(program, n));
  if (node->result_count) tsr__text_add(out, ":%d", node->result_count);
  tsr__text_add(out, " = ");
  if (tsr__takes_result(node->op)) {
    add_operand(program, numbers, tsr__in(program, node, 0), out);
    tsr__text_add(out, "#%d", tsr__index_of(program, node));
    return;
  }
  /* Operators have two operands, both there. */
  if (!sign) {
    add_call(program, numbers, node, out);
    return;
  }
  add_operand(program, numbers, tsr__in(program, node, 0), out);
  tsr__text_add(out, " %s ", sign);
  add_operand(program, numbers, tsr__in(program, node, 1), out);
}

static void add_type(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  tsr_shape shape = tsr__gnode_shape(node);
  for (int i = 0; i < node->result_count; i++) {
    const tsr__result *result = &program->results[node->first_result + i];
    tsr_shape own = { .rank = result->rank };
    memcpy(own.dims, result->dims, sizeof own.dims);
    if (i) tsr__text_add(out, ", ");
    tsr__type_add(out, (tsr_dtype)result->dtype, &own, &program->shardings[result->sharding]);
  }
  if (!node->result_count && node->dtype)
    tsr__type_add(out, (tsr_dtype)node->dtype, &shape, &program->shardings[node->sharding]);
}

/* The width of a column: its widest entry within the limit. False: out of memory. Entries beyond
 * the limit do not count. */
static bool measure(const tsr__program *program, const int *numbers, size_t width[2])
{
  tsr__text line;
  bool failed = false;
  /* At least so wide, so that small programs printed after each other look alike. */
  width[0] = 20;
  width[1] = 14;
  for (int n = 0; n < program->node_count; n++) {
    if (program->nodes[n].op == TSR__OP_CONST) continue;
    /* Each line is made twice, to measure and to print: programs that are printed are small. */
    for (int column = 0; column < 2; column++) {
      size_t limit = column ? TYPE_LIMIT : FORMULA_LIMIT;
      tsr__text_init(&line, program->heap);
      if (column) add_type(program, &program->nodes[n], &line);
      else add_formula(program, numbers, n, &line);
      if (line.length > width[column] && line.length <= limit) width[column] = line.length;
      failed |= line.failed;
      tsr__text_free(&line);
    }
  }
  return !failed;
}

/* `start`: where the entry began in the text. */
static void pad_to(tsr__text *out, size_t start, size_t width)
{
  size_t used = out->length - start;
  tsr__text_pad(out, ' ', used < width ? (int)(width - used) : 0);
}

/* The number of each node. NULL: no memory; then they are counted one by one, so that a text comes
 * out all the same. */
static int *number_nodes(const tsr__program *program)
{
  int *numbers = tsr__new(program->heap, ((size_t)program->node_count + 1) * sizeof *numbers);
  for (int n = 0, number = 0; numbers && n < program->node_count; n++) {
    numbers[n] = number;
    number += program->nodes[n].op != TSR__OP_CONST;
  }
  return numbers;
}

static void free_numbers(const tsr__program *program, int *numbers)
{
  tsr__del(program->heap, numbers, ((size_t)program->node_count + 1) * sizeof *numbers);
}

static void print(const tsr__program *program, int indent, tsr__text *out);

/* The regions of a node, below it and further in. */
static void print_regions(const tsr__program *program, const tsr__gnode *node, int indent,
                          tsr__text *out)
{
  for (int i = 0; i < node->region_count; i++) {
    const tsr__region *region = tsr__region_in(program, node, i);
    /* Numbered by itself, from 0 on: a region knows nothing of what is around it. */
    print(&region->program, indent + 4, out);
    tsr__text_pad(out, ' ', indent + 4);
    tsr__text_add(out, "  return");
    for (int r = 0; r < region->result_count; r++) {
      tsr__text_add(out, r ? ", " : " ");
      add_operand(&region->program, NULL, region->results[r], out);
    }
    tsr__text_add(out, "\n");
  }
}

void tsr__program_print(const tsr__program *program, tsr__text *out)
{
  print(program, 0, out);
}

static void print(const tsr__program *program, int indent, tsr__text *out)
{
  size_t width[2];
  int *numbers = number_nodes(program);
  if (!measure(program, numbers, width)) out->failed = true;
  for (int n = 0; n < program->node_count; n++) {
    if (program->nodes[n].op == TSR__OP_CONST) continue;
    const char *site = program->sites ? tsr__site_file(program->sites[n]) : "";
    tsr__text_pad(out, ' ', indent);
    size_t start = out->length;
    add_formula(program, numbers, n, out);
    pad_to(out, start, width[0]);
    tsr__text_add(out, "  ");
    start = out->length;
    add_type(program, &program->nodes[n], out);
    if (*site) {
      pad_to(out, start, width[1]);
      tsr__text_add(out, "  %s", site);
    }
    tsr__text_add(out, "\n");
    print_regions(program, &program->nodes[n], indent, out);
  }
  free_numbers(program, numbers);
}

/* ---- lines to be compared -------------------------------------------------------------------- */

/* Numbers that a node takes by itself, as a draw does its key: no formula shows them. */
static void add_numbers(const tsr__program *program, const tsr__gnode *node, tsr__text *out)
{
  for (int i = 0; i < node->param_count && program->params; i++)
    tsr__text_add(out, ", %lld", (long long)program->params[node->param + i].i);
}

void tsr__program_lines(const tsr__program *program, tsr__text *out)
{
  int *numbers = number_nodes(program);
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *node = &program->nodes[n];
    if (node->op == TSR__OP_CONST) continue;
    add_formula(program, numbers, n, out);
    add_numbers(program, node, out);
    tsr__text_add(out, " : ");
    add_type(program, node, out);
    tsr__text_add(out, "\t%s\n", program->sites ? tsr__site_file(program->sites[n]) : "");
    for (int i = 0; i < node->region_count; i++)
      tsr__program_lines(&tsr__region_in(program, node, i)->program, out);
  }
  free_numbers(program, numbers);
}
