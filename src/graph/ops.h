/* The table of operations: ops.def as data, one row an operation. */
#ifndef TSR_GRAPH_OPS_H
#define TSR_GRAPH_OPS_H

#include "base/base.h"
#include "topology/topology.h"

typedef enum tsr__op {
#define OP(id, ...) TSR__OP_##id,
#include "graph/ops.def"
  TSR__OPS /* how many */
} tsr__op;

enum tsr__want {
  TSR__WANT_ANY,
  TSR__WANT_COMMON,
  TSR__WANT_ALIKE,
  TSR__WANT_NUMBER,
  TSR__WANT_FLOAT,
  TSR__WANT_BOOL,
  TSR__WANT_BITS,
  TSR__WANT_INTEGER,
  TSR__WANT_TRUTH,
  TSR__WANT_SUMMAND,
  TSR__WANT_SCATTER,
  TSR__WANT_ROUNDED,
  TSR__WANT_ASKED,
  TSR__WANT_INDEX,
  TSR__WANT_MASK,
  TSR__WANT_CHOICE
};
enum tsr__dtype_rule {
  TSR__DT_SAME,
  TSR__DT_SECOND,
  TSR__DT_BOOL,
  TSR__DT_I64,
  TSR__DT_ATTR,
  TSR__DT_ATTR_NUMBER,
  TSR__DT_ATTR_FLOAT,
  TSR__DT_FLOAT,
  TSR__DT_SUM,
  TSR__DT_RESULT
};
/* The kernel column of a row. Only graph/ reads it; other rooms ask the functions below. */
enum tsr__lowering {
  TSR__LOW_LEAF,
  TSR__LOW_TILE,
  TSR__LOW_FORMULA,
  TSR__LOW_VIEW,
  TSR__LOW_REDUCE,
  TSR__LOW_STEP,
  TSR__LOW_ROUTINE,
  TSR__LOW_PART,
  TSR__LOW_NAMED,
  TSR__LOW_REGION,
  TSR__LOW_LABEL
};
enum tsr__negated { TSR__AS_IS, TSR__NOT_LEFT, TSR__NOT_RIGHT, TSR__NOT_RESULT };

#define TSR__MANY UINT16_MAX /* any number */

struct tsr__program;
struct tsr__gnode;
struct tsr__viewing;
struct tsr__types;
struct tsr__ask;

/* Makes the part of a view that its operand `i` has, from one that is aligned at the last dim
 * (views.c). */
typedef void tsr__view_fn(const struct tsr__program *program, const struct tsr__gnode *node, int i,
                          struct tsr__viewing *view);
/* The shape of a result of operands of these types (infer.c). */
typedef tsr_status tsr__shape_fn(tsr__op op, struct tsr__types in, const struct tsr__ask *ask,
                                 tsr_shape *out, tsr__error *error);
/* The flops of a node: of all devices, or of the first position (flops.c). */
typedef double tsr__flops_fn(const struct tsr__program *program, int node, bool local);

/* A row. ops.def has the meaning of each column. */
typedef struct tsr__opinfo {
  const char *name;
  uint16_t least, most; /* operands; most may be TSR__MANY */
  uint16_t results; /* 0: one, its type stands in the node; else listed; TSR__MANY: any number */
  uint16_t numbers; /* how many it takes at run time; TSR__MANY: those of its regions */
  uint16_t regions; /* nested programs; TSR__MANY: one or more */
  uint8_t wants, dtype_rule;
  uint8_t attr; /* tsr__attr_family */
  const char *factors;
  uint8_t lowering;
  uint8_t acc, finish; /* reductions: tsr__acc_class and tsr__finish */
  uint8_t prefix[2];  /* scans: bytes of the state before a piece of a line: of floats, of others */
  uint16_t least_cut; /* dims that elements cross (~) are whole if they are shorter */
  uint8_t negated;    /* tsr__negated */
  bool needs_one;
  bool scales;      /* with a number, it scales its operand */
  bool reads_parts; /* operand 0 may lie where devices made it */
  bool aligned, source, looks_up, inserts_dims, each_line, at_start, contracts;
  bool permutes, reshapes, repeats, ragged, even, moves, follows, loops, keeps_first, by_lines;
  bool fetches;
  uint16_t on_bools, square, joins; /* tsr__op; 0: none */
  const char *sign;
  tsr__shape_fn *shape;
  tsr__view_fn *view;   /* NULL: the row is no view */
  tsr__flops_fn *flops; /* NULL: computes nothing */
} tsr__opinfo;

extern const tsr__opinfo tsr__ops[TSR__OPS];

/* ---- questions about a row ------------------------------------------------------------------- */

/* The row is a value, a number or an argument. */
static inline bool tsr__is_leaf(int op)
{
  return tsr__ops[op].lowering == TSR__LOW_LEAF;
}

/* The row is one of the results of its operand, which makes it. */
static inline bool tsr__takes_result(int op)
{
  return tsr__ops[op].lowering == TSR__LOW_PART;
}

/* The row computes each element from those of its operands or from its position. A kernel can do
 * so unless other devices have a part of its table. */
static inline bool tsr__is_elementwise(int op)
{
  return tsr__ops[op].lowering == TSR__LOW_TILE || tsr__ops[op].lowering == TSR__LOW_FORMULA;
}

/* The row shows elements of its operands at other places. */
static inline bool tsr__is_view(int op)
{
  return tsr__ops[op].lowering == TSR__LOW_VIEW;
}

/* The row joins elements by an accumulator. */
static inline bool tsr__is_reduction(int op)
{
  return tsr__ops[op].lowering == TSR__LOW_REDUCE;
}

/* The row is work of a device on whole shards. */
static inline bool tsr__is_routine(int op)
{
  return tsr__ops[op].lowering == TSR__LOW_ROUTINE;
}

/* The row is a step of the executor: communication, or sizes that a run decides. */
static inline bool tsr__is_step(int op)
{
  return tsr__ops[op].lowering == TSR__LOW_STEP;
}

/* The row's first region takes its place before it is planned. */
static inline bool tsr__is_call(int op)
{
  return tsr__ops[op].lowering == TSR__LOW_REGION;
}

/* The row says something of its last operand, which takes its place before it is planned. */
static inline bool tsr__is_label(int op)
{
  return tsr__ops[op].lowering == TSR__LOW_LABEL;
}

/* Mapping over the row's axis takes its place. */
static inline bool tsr__is_named(int op)
{
  return tsr__ops[op].lowering == TSR__LOW_NAMED;
}

/* The call gives the shape, which does not follow from operands. */
static inline bool tsr__shape_is_given(int op)
{
  return tsr__is_leaf(op) || tsr__ops[op].source;
}

/* Whether two rows have the same kernel column: both are views, both are steps, ... */
static inline bool tsr__same_work(int a, int b)
{
  return tsr__ops[a].lowering == tsr__ops[b].lowering;
}

/* The result has other rows than the operand: the size of dim 0 is known at run time. */
static inline bool tsr__moves_rows(int op)
{
  return tsr__ops[op].ragged || tsr__ops[op].even;
}

#endif
