/* Level 2: the table of operations, nodes, and programs (a node graph made flat).
 *
 * Users' calls make nodes (tsr_array). A terminal collects the nodes it needs into a program: a
 * flat, pointer-free, topologically ordered list that is at once the key of the plan cache, what
 * partition/ rewrites and what kernel/ fuses. Two programs with equal bytes have equal plans. */
#ifndef TSR_GRAPH_GRAPH_H
#define TSR_GRAPH_GRAPH_H

#include "base/base.h"
#include "tessera/array.h"
#include "topology/topology.h"

/* ---- the table ------------------------------------------------------------------------- */

typedef enum tsr__op {
#define OP(id, ...) TSR__OP_##id,
#include "graph/ops.def"
#undef OP
  TSR__OPS /* how many */
} tsr__op;

enum tsr__want {
  TSR__WANT_ANY,
  TSR__WANT_COMMON,
  TSR__WANT_NUMBER,
  TSR__WANT_FLOAT,
  TSR__WANT_BOOL,
  TSR__WANT_INTEGER,
  TSR__WANT_TRUTH,
  TSR__WANT_SUMMAND,
  TSR__WANT_SPECIAL
};
enum tsr__dtype_rule { TSR__DT_SAME, TSR__DT_BOOL, TSR__DT_ATTR, TSR__DT_FLOAT, TSR__DT_SUM };
enum tsr__shape_rule {
  TSR__SH_ELEMENT,
  TSR__SH_REDUCE,
  TSR__SH_SOURCE,
  TSR__SH_FIRST,
  TSR__SH_TAKE,
  TSR__SH_DYNAMIC
};
enum tsr__lowering {
  TSR__LOW_LEAF,
  TSR__LOW_TILE,
  TSR__LOW_FORMULA,
  TSR__LOW_REDUCE,
  TSR__LOW_STEP
};
enum tsr__rule { TSR__RULE_NONE }; /* gradient and batching: none yet */

typedef struct tsr__opinfo {
  const char *name;
  uint8_t least, most; /* operands */
  uint8_t wants, dtype_rule, shape_rule;
  uint8_t numbers; /* how many it takes at run time */
  const char *factors;
  uint8_t gradient, batching;
  uint8_t lowering;
} tsr__opinfo;

extern const tsr__opinfo tsr__ops[TSR__OPS];

/* ---- attributes ------------------------------------------------------------------------ */

/* A number given in a formula, or a seed: a parameter of the run, not of the plan. Integers and
 * bools (0 or 1) lie in `i`, f64 and f32 (to be rounded to f32 when used) in `f`. */
typedef union tsr__num {
  int64_t i;
  double f;
} tsr__num;

/* What a node is beside its operands. Part of the plan's key, unlike tsr__num. */
typedef struct tsr__attr {
  uint32_t dims;       /* reductions: bit d = dim d is reduced; iota, take: the dim's number */
  uint8_t keep;        /* reductions: reduced dims stay with size 1 */
  uint8_t checked;     /* sum: leaving the range of i64 is an error (frames) */
  uint8_t param_count; /* numbers the node takes at run time: const 1, uniform 2, firstn 1 */
  uint8_t pad;
  int64_t ddof;   /* var, std */
  int64_t groups; /* reductions by group: number of groups; 0 = not grouped */
} tsr__attr;

/* ---- nodes ----------------------------------------------------------------------------- */

typedef struct tsr__value tsr__value; /* execute/: buffers on devices */

#define TSR__DYNAMIC (-1) /* a dim whose size is known at run time */

struct tsr_array {
  tsr__node node;
  uint8_t op;    /* tsr__op */
  uint8_t dtype; /* tsr_dtype */
  uint8_t in_count;
  uint8_t inert;          /* made by a failed call, or of one: computes nothing */
  uint8_t deleted;        /* tsr_delete was called: `value` goes with the last of `users` */
  uint8_t placed;         /* `sharding` was asked for (leaf, source, constrain, reshard) */
  uint32_t mark;          /* index + 1 of its node in the program traced last */
  uint32_t visit;         /* its place in that program's `visited`, which proves `mark` */
  tsr_array *in[3];       /* NULL: operand left out (a reduction's mask or code) */
  _Atomic uint32_t users; /* nodes not yet evaluated that have it as an operand, of any thread */
  tsr_shape shape;
  tsr__attr attr;
  tsr__num param[2];
  tsr_sharding sharding; /* canonical; meaningful if placed or value */
  tsr__value *value;     /* not NULL: evaluated, held by reference */
};

/* Makes a node of `op` on operands: promotes and casts them, infers dtype and shape, checks, and
 * on any error records it and returns an inert node. An inert operand is returned itself: its scope
 * knows why. `ask` carries what the op's ATTR or SOURCE rules need. Never NULL. */
typedef struct tsr__ask {
  tsr_dtype dtype; /* rule ATTR */
  tsr_shape shape; /* rule SOURCE */
  tsr__attr attr;
  tsr__num param[2];
  const tsr_sharding *sharding; /* NULL or unplaced: free */
} tsr__ask;

tsr_array *tsr__make(tsr_scope *scope, tsr__op op, tsr_array *const in[3], const tsr__ask *ask,
                     const char *site);

/* A node without checks or operands, for leaves with a value (put, adopt, keep). */
tsr_array *tsr__make_leaf(tsr_scope *scope, tsr_dtype dtype, const tsr_shape *shape,
                          const tsr_sharding *sharding, tsr__value *value, const char *site);
tsr_array *tsr__make_inert(tsr_scope *scope, const char *site);
/* A number as a rank-0 constant of a dtype. */
tsr_array *tsr__make_const(tsr_scope *scope, tsr_dtype dtype, tsr__num value, const char *site);

/* Lets go of a node's operands once it has its value, or for good. */
void tsr__array_drop_operands(tsr_array *a);
/* A user that is no node: a deleted array keeps its value until all users let go of it. */
void tsr__array_use(tsr_array *a);
void tsr__array_let_go(tsr_array *a);
/* tsr_delete: later uses fail; the value goes when no unevaluated node needs it. */
void tsr__array_delete(tsr_array *a);

/* The dtype two operands meet in (JAX's table with 64-bit types on; i64 + f32 is f32). */
tsr_dtype tsr__promote(tsr_dtype a, tsr_dtype b);

/* Hooks for values, provided by execute/: how graph/ lets go of them when a node dies, and whether
 * the rows lie as a filter left them (run-time counts) instead of at the usual borders. */
void tsr__value_release(tsr__value *value);
bool tsr__value_ragged(const tsr__value *value);

/* ---- inference (infer.c) ---------------------------------------------------------------- */

/* The type of an operand; `sharding` serves messages and may be NULL. */
typedef struct tsr__type {
  tsr_dtype dtype; /* 0: the operand is left out */
  tsr_shape shape;
  const tsr_sharding *sharding;
} tsr__type;

typedef struct tsr__inferred {
  tsr_dtype dtype;
  tsr_shape shape;
  tsr_dtype operand[3]; /* the dtype each operand must have: cast it when it has another */
} tsr__inferred;

/* Applies the dtype and shape rules of an op's row. `ask` carries what rules ATTR and SOURCE
 * need and the attributes. Errors: TSR_ESHAPE, TSR_EDTYPE, TSR_EARG, in our wording. */
tsr_status tsr__infer(tsr__op op, const tsr__type in[3], const tsr__ask *ask, tsr__inferred *out,
                      tsr__error *error);

/* ---- factors: the sharding rule of a node, expanded ------------------------------------- */

enum tsr__factor_kind {
  TSR__FACTOR_PASS,
  TSR__FACTOR_REDUCE,
  TSR__FACTOR_REPLICATE,
  TSR__FACTOR_PERMUTE
};

#define TSR__MAX_FACTORS (2 * TSR_MAX_RANK)

typedef struct tsr__factors {
  int count;
  uint8_t kind[TSR__MAX_FACTORS];
  int64_t size[TSR__MAX_FACTORS];
  int8_t in[3][TSR_MAX_RANK]; /* factor of each operand's dim; -1: size 1, broadcast */
  int8_t out[TSR_MAX_RANK];
} tsr__factors;

struct tsr__gnode;
struct tsr__program;
void tsr__factors_of(const struct tsr__program *program, int node, tsr__factors *out);

/* ---- programs -------------------------------------------------------------------------- */

/* One node of a program: plain bytes, no pointers, all padding zero. */
typedef struct tsr__gnode {
  uint8_t op, dtype, rank;
  uint8_t flags;       /* TSR__ROOT, TSR__PLACED */
  uint16_t sharding;   /* index into `shardings`; 0 = unplaced */
  uint8_t reduce_axes; /* set by partition: mesh axes over which partials are combined */
  uint8_t cause;       /* set by partition on RESHARD nodes: tsr__cause */
  int32_t in[3];       /* earlier nodes; -1 = none */
  int32_t param;       /* first of its numbers in `params`; -1 = none */
  int64_t dims[TSR_MAX_RANK];
  tsr__attr attr;
} tsr__gnode;

enum { TSR__ROOT = 1, TSR__PLACED = 2, TSR__RAGGED = 4 /* leaf with its own row borders */ };

/* A program. `nodes` and `shardings` are the key: equal bytes mean equal programs. The rest binds
 * one run of it: numbers, the leaves' values, where nodes came from. */
typedef struct tsr__program {
  tsr__heap *heap;
  tsr__gnode *nodes;
  tsr_sharding *shardings; /* [0] is unplaced; canonical */
  int node_count, sharding_count;
  /* not part of the key */
  tsr__num *params;
  int param_count;
  const char **sites; /* one a node; may be NULL */
  tsr_array **arrays; /* one a node: leaves and roots to be bound; NULL after partition adds */
  size_t capacity, sharding_capacity, param_capacity, site_capacity, array_capacity;
  bool failed; /* out of memory while building */
  /* how tracing finds its way; empty otherwise */
  tsr_array **visited;        /* every array met, in the order of their `visit` */
  struct tsr__todo *todo;     /* arrays waiting for their operands */
  struct tsr__slot_of *table; /* nodes by hash, to merge equal ones */
  uint32_t visited_count, stamp;
  size_t visited_capacity, todo_capacity, table_size;
} tsr__program;

void tsr__program_init(tsr__program *program, tsr__heap *heap);
void tsr__program_free(tsr__program *program);
/* Empties it but keeps its memory: a runtime keeps one for the fast path. */
void tsr__program_clear(tsr__program *program);
/* Collects `roots` and what they need, operands first. Evaluated nodes become leaves. Nodes of
 * equal op, operands and attributes are one; those that take numbers never are, since a plan may
 * not depend on values. A root that is a constant gets a FULL node of rank 0. Afterwards
 * `roots[i]->mark - 1` is a root's node. Fails on inert nodes
 * (with the error of the scope that has it), on deleted roots, and on deleted leaves. */
tsr_status tsr__program_trace(tsr__program *program, tsr_array *const *roots, int count,
                              tsr__error *error);
int tsr__program_add(tsr__program *program, const tsr__gnode *node, const char *site);
int tsr__program_sharding(tsr__program *program, const tsr_sharding *sharding); /* its index */
tsr_shape tsr__gnode_shape(const tsr__gnode *node);
/* A private copy without the binding part (params, arrays): the plan cache's key. */
tsr_status tsr__program_copy(tsr__program *out, const tsr__program *in, tsr__heap *heap);
bool tsr__program_same(const tsr__program *a, const tsr__program *b);
uint64_t tsr__program_hash(const tsr__program *program);
/* Text of a program, one line a node with dtype, shape, sharding and site. Constants stand where
 * they are used, so that the other nodes are numbered without gaps. */
void tsr__program_print(const tsr__program *program, tsr__text *out);
/* The number that a node has in that text: how many nodes but constants come before it. */
int tsr__program_number(const tsr__program *program, int node);
/* Checks every promise of a program (order, arity, dtypes, shapes by the table's rules).
 * tsr__partition does so with what it is given and with what it makes. */
tsr_status tsr__program_verify(const tsr__program *program, tsr__error *error);

/* When each node is done. A program runs in slots: kernels of stage s, then the combining of their
 * reductions, then steps of stage s, for s = -1, 0, 1, ... (-1: steps that need no kernel).
 *
 *   LEAF             -1: there from the start
 *   TILE, FORMULA    0 or more: computed in a kernel of this stage. It is the maximum over the
 *   REDUCE           operands of: stage of a TILE or FORMULA; stage + 1 of a LEAF, REDUCE or STEP.
 *                    A REDUCE accumulates there and is combined right after
 *   STEP             runs after the combining of this stage, in order of nodes: the maximum over
 *                    the operands' stages
 *
 * Fills `stage` (one a node) and returns the number of kernel stages: the largest + 1. */
int tsr__stages(const tsr__program *program, int *stage);

/* ---- accumulators: what a reduction keeps while it runs, and what of it travels ------------- */

/* Classes. SUM serves sum and mean; SQUARES (sums of x and of x*x) var and std. Mean, var and std of
 * a masked or grouped operand use a COUNT of the same mask and codes beside it; unmasked ones
 * know their count. */
enum tsr__acc_class {
  TSR__ACC_NONE,
  TSR__ACC_SUM,
  TSR__ACC_SQUARES,
  TSR__ACC_PROD,
  TSR__ACC_MIN,
  TSR__ACC_MAX,
  TSR__ACC_ANY,
  TSR__ACC_ALL,
  TSR__ACC_COUNT
};

/* The accumulator of one or more reduction nodes: those with equal class, operands, dims and groups
 * share it. A COUNT has no operand (-1): it counts where the mask (if any) is true. COUNT, ANY and
 * ALL nodes have bool operands; a COUNT node of a bool without a mask counts that bool as its mask. */
typedef struct tsr__accum {
  uint8_t cls;   /* tsr__acc_class */
  uint8_t dtype; /* of the operand; of COUNT: i64 */
  uint8_t axes;  /* mesh axes over which partials are combined */
  int32_t node;  /* the first reduction node that uses it: gives dims, groups, shape */
  int32_t operand, mask, codes;
} tsr__accum;

/* The class of a reduction op; TSR__ACC_NONE for other ops. */
int tsr__acc_class_of(int op);
/* Whether the node's finalisation also needs a COUNT accumulator. */
bool tsr__acc_needs_count(const tsr__gnode *node);
/* Lists the distinct accumulators of a program in order of their first node; returns how many. One
 * serves nodes of one stage only (tsr__stages).
 * `out` may be NULL to count. `of_node[2*node]`, `[2*node+1]` (if not NULL) get the indices of
 * its main and its COUNT accumulator, -1 for none. */
int tsr__accums(const tsr__program *program, tsr__accum *out, int *of_node);
/* Bytes that the partial of an accumulator takes on the way between devices, escapes not counted:
 * `count` output elements; `scalar`: reduced to one element (fixed words).
 *
 *                         scalar                              an element of an array
 *   SUM      of floats    276: 68 words of 32 bits, flags     24: three f64
 *            of integers  16                                  16
 *   SQUARES  of floats    816: 276, and 134 words, flags      48
 *            of integers  40: 16, and 192 bits                40
 *   COUNT, PROD           8                                   8
 *   MIN, MAX              that of the dtype (bool: 1)         the same
 *   ANY, ALL              1                                   1 */
enum { TSR__WIRE_SUM = 276, TSR__WIRE_SQUARES = 816 };
/* Whether a reduction node gives one element: not grouped, and every dim of the result is 1. */
bool tsr__reduces_to_one(const tsr__gnode *node);
int64_t tsr__wire_bytes(int cls, int dtype, int64_t count, bool scalar);

#endif
