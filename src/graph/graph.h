/* Level 2: the table of operations, nodes, and programs (a node graph made flat).
 *
 * Users' calls make nodes (tsr_array). A terminal collects the nodes it needs into a program: a
 * flat list in topological order, whose nodes name each other by index. It is at once the key of
 * the plan cache, what partition/ rewrites and what kernel/ fuses. A sharding points to its mesh:
 * equal meshes are one object. Regions are compared by content. Two programs with equal bytes have
 * equal plans. */
#ifndef TSR_GRAPH_GRAPH_H
#define TSR_GRAPH_GRAPH_H

#include "graph/attrs.h"
#include "graph/ops.h"

/* ---- several results, nested programs ---------------------------------------------------- */

/* The type of one of a node's results: plain bytes. */
typedef struct tsr__result {
  uint8_t dtype, rank;
  uint16_t sharding; /* as in tsr__gnode */
  uint32_t zero;
  int64_t dims[TSR_MAX_RANK];
} tsr__result;

typedef struct tsr__region tsr__region; /* below: a program inside a node */
enum { TSR__MAX_REGIONS = 32 };         /* the most that a node may have */

/* What few nodes have. */
typedef struct tsr__extras {
  int32_t result_count, region_count;
  tsr__result *results; /* shardings 0 */
  tsr__region **regions;
  const char *const *names; /* of a tree: one an operand, in the arena; NULL: they have none */
} tsr__extras;

/* ---- nodes ----------------------------------------------------------------------------- */

typedef struct tsr__value tsr__value; /* execute/: buffers on devices */

#define TSR__DYNAMIC (-1) /* a dim whose size is known at run time */

/* A run under way that will make an array's value, as its nodes know it: `forget` is called for one
 * that goes before. */
typedef struct tsr__pending {
  void (*forget)(struct tsr__pending *pending, tsr_array *array);
} tsr__pending;

struct tsr_array {
  tsr__node node;
  uint16_t op;            /* tsr__op */
  uint8_t dtype;          /* tsr_dtype */
  uint8_t inert;          /* made by a failed call, or of one: computes nothing */
  uint8_t deleted;        /* tsr__deleted: `value` goes with the last of `users` */
  uint8_t placed;         /* `sharding` was asked for (leaf, source, constrain, reshard) */
  uint32_t mark;          /* index + 1 of its node in the program traced last */
  uint32_t visit;         /* its place in that program's `visited`, which proves `mark` */
  _Atomic uint32_t users; /* tsr__array_users, and in the highest bit whether it is deleted */
  int32_t in_count, number_count;
  uint32_t attr_bytes; /* as the table says */
  _Atomic bool shared; /* it or what it is of lies, or was to lie, where all processes take part */
  bool weak;           /* a number of the user's: beside arrays its kind counts, not its dtype */
  /* all three behind the node, in its allocation */
  tsr_array **in; /* NULL: left out, as only one in the middle is */
  const tsr__num *numbers;
  const void *attr;          /* the struct of its family */
  const tsr__extras *extras; /* NULL: one result, no regions */
  tsr_shape shape;
  tsr_sharding sharding; /* canonical; meaningful if placed or value */
  /* Not NULL: evaluated, held by reference. Atomic, as sums that were kept unreduced get elements
   * in place of them when the first of several threads looks. */
  _Atomic(tsr__value *) value;
  tsr__pending *pending; /* not NULL: a run under way makes the value */
  const char *given_up;  /* where tsr_donate was called; which body it is of */
};

enum tsr__deleted {
  TSR__DELETED = 1, /* by tsr_delete: those made of it before keep it */
  TSR__GIVEN_UP,    /* by tsr_donate: the next program that reads it takes its value over */
  TSR__ENDED        /* of a body that was traced and has returned */
};

/* The operands of a call, borrowed: TSR__IN(a, b, c), TSR__IN_NONE. One that the operation can do
 * without is NULL; NULLs at the end may as well be left away. */
typedef struct tsr__operands {
  tsr_array *const *at;
  int count;
} tsr__operands;

#define TSR__IN(...)                                     \
  ((tsr__operands){ (tsr_array *const[]){ __VA_ARGS__ }, \
                    (int)(sizeof(tsr_array *const[]){ __VA_ARGS__ } / sizeof(tsr_array *)) })
#define TSR__IN_NONE ((tsr__operands){ NULL, 0 })

/* Fields that a call gives beside its operands, which the op's rules read. */
typedef struct tsr__ask {
  tsr_dtype dtype;  /* rule ATTR */
  tsr_shape shape;  /* rule SOURCE */
  const void *attr; /* TSR__ATTR(tsr__dim_attr, .dim = 1); NULL: zeros */
  uint32_t attr_bytes;
  int number_count; /* TSR__NUMBERS({ .i = 7 }) */
  const tsr__num *numbers;
  int region_count;
  tsr__region *const *regions;  /* borrowed: the node holds them, too */
  const tsr_sharding *sharding; /* NULL or unplaced: free */
  bool opens;                   /* it may leave dims to the planner */
  const char *call;             /* who asks, "argsort", for messages; NULL: the row's name */
} tsr__ask;

#define TSR__ATTR(type, ...) .attr = &(const type){ __VA_ARGS__ }, .attr_bytes = sizeof(type)
#define TSR__NUMBERS(...)                       \
  .numbers = (const tsr__num[]){ __VA_ARGS__ }, \
  .number_count = (int)(sizeof(const tsr__num[]){ __VA_ARGS__ } / sizeof(tsr__num))

/* Makes a node of `op` on operands: promotes and casts them, infers dtype and shape, checks, and on
 * any error records it and returns an inert node. An inert operand is returned itself: its scope
 * has the error. `ask` has the fields of the op's ATTR or SOURCE rules. The node belongs to
 * `scope`, or to the innermost of the operands' scopes where that is further in; NULL: to
 * tsr__home_of the operands. Never NULL. */
tsr_array *tsr__make(tsr_scope *scope, tsr__op op, tsr__operands in, const tsr__ask *ask,
                     const char *site);

/* The dtype in which arrays meet; weak ones take that of the others, or make it one of their
 * kind. */
tsr_dtype tsr__meet_of(tsr__operands in);

/* The same of a region that was traced for arguments of just these types, so that nothing is
 * inferred nor cast; and one of the results of a node of several. */
tsr_array *tsr__make_call(tsr_scope *scope, tsr__op op, tsr__operands in, const tsr__ask *ask,
                          const char *site);
tsr_array *tsr__make_result(tsr_scope *scope, tsr_array *node, int index, const char *site);

/* Where a result of operands belongs; NULL where none has a scope. It is also where a terminal on
 * arrays that others may read records its error and puts its text. */
tsr_scope *tsr__home_of(tsr__operands in);
static inline tsr_scope *tsr__home(const tsr_array *a)
{
  return a ? tsr__scope_here(a->node.scope) : NULL;
}

/* "its dims are -2..1", as messages have it. */
typedef struct tsr__dims_words {
  char text[32];
} tsr__dims_words;
tsr__dims_words tsr__dims_text(int rank);
/* TSR_EARG for a dim, as it was given, of an array of the type `type` that has it not. `call`:
 * "sort". */
tsr_status tsr__no_dim(tsr__error *error, const char *call, int64_t dim, const char *type,
                       int rank);

/* Whether an array of that dtype and shape can lie so in a scope. Errors: TSR_EAXIS, TSR_ESHAPE,
 * without the name of a call. */
tsr_status tsr__check_place(const tsr_scope *scope, const tsr_sharding *sharding, tsr_dtype dtype,
                            const tsr_shape *shape, tsr__error *error);
/* The same of what is computed: on a mesh of sizes alone it can be planned. */
tsr_status tsr__check_plan(const tsr_scope *scope, const tsr_sharding *sharding, tsr_dtype dtype,
                           const tsr_shape *shape, tsr__error *error);

/* Whether an array of a dtype may be a sum that is not yet made (';sum' of its sharding). */
tsr_status tsr__check_sum(const tsr_sharding *sharding, tsr_dtype dtype, tsr__error *error);

/* Whether all processes take part in what is done with it. */
static inline bool tsr__is_shared(const tsr_array *a)
{
  return atomic_load_explicit(&a->shared, memory_order_relaxed);
}

/* An inert node of what was to lie so. */
tsr_array *tsr__make_inert_on(tsr_scope *scope, const tsr_sharding *sharding, const char *site);

/* A node without checks or operands, for leaves with a value (put, adopt, keep). */
tsr_array *tsr__make_leaf(tsr_scope *scope, tsr_dtype dtype, const tsr_shape *shape,
                          const tsr_sharding *sharding, tsr__value *value, const char *site);
/* A leaf that never has a value: programs of it are looked at, not run. */
static inline bool tsr__is_abstract(const tsr_array *a)
{
  return a->op == TSR__OP_LEAF && !a->value && !a->deleted && !a->inert;
}
tsr_array *tsr__make_inert(tsr_scope *scope, const char *site);
/* What a call gives that was given NULL for the object that it is of (tsr__fail_null). */
tsr_array *tsr__make_of_null(const char *call, const char *what, const char *site);
/* One of no scope, with why: TSR_ENOMEM, or another status for a scope that never was. */
tsr_array *tsr__inert_why(tsr_status why);
/* A tree of arrays and trees, which are its operands; `names`, one each, or NULL, are copied. No
 * program ever holds it: whoever takes arrays takes those in it. */
tsr_array *tsr__make_tree(tsr_scope *scope, tsr__operands in, const char *const *names,
                          const char *site);
/* A number as a rank-0 constant of a dtype. */
tsr_array *tsr__make_const(tsr_scope *scope, tsr_dtype dtype, tsr__num value, const char *site);

/* Lets go of a node's operands once it has its value, or for good. */
void tsr__array_drop_operands(tsr_array *a);
/* A user that is no node: a deleted array keeps its value until all users let go of it. */
void tsr__array_use(tsr_array *a);
void tsr__array_let_go(tsr_array *a);
/* How many nodes that are not yet evaluated have it as an operand, of any thread. */
static inline uint32_t tsr__array_users(const tsr_array *a)
{
  return atomic_load(&a->users) & INT32_MAX;
}
/* tsr_delete: later uses fail; the value goes when no unevaluated node needs it. */
void tsr__array_delete(tsr_array *a);
/* tsr_donate: the same, but that the next run that reads it takes the value over, and says so. */
void tsr__array_donate(tsr_array *a, const char *site);
/* Ends the arrays of a scope: `body`, borrowed, says of which body they were. */
void tsr__arrays_end(tsr_scope *scope, const char *body);
void tsr__array_taken_over(tsr_array *a);
/* How an array came to be gone and what to do about it, for messages. */
const char *tsr__gone_text(const tsr_array *a, tsr__error *room);

/* Hooks for values, provided by execute/: how graph/ lets go of them when a node dies, and whether
 * the rows lie as a filter left them (run-time counts) instead of at the usual borders, or it is
 * accumulators that have not met. */
void tsr__value_release(tsr__value *value);
bool tsr__value_ragged(const tsr__value *value);
/* The row of accums.def of the accumulators that it is kept in; -1: it has elements. */
int tsr__value_kept(const tsr__value *value);
/* What scales such a sum, in order, once it is rounded: `number` if the operation has one. */
typedef struct tsr__scale_by {
  uint16_t op;
  tsr__num number;
} tsr__scale_by;
enum { TSR__MOST_SCALES = 4 };
int tsr__value_scales(const tsr__value *value, const tsr__scale_by **out);

/* ---- inference (infer.c) ---------------------------------------------------------------- */

/* The type of an operand, borrowed; `sharding` serves messages and may be NULL. */
typedef struct tsr__type {
  uint8_t dtype; /* 0: the operand is left out */
  uint8_t rank;
  bool ragged; /* dim 0 is known at run time, whatever `dims` says */
  const int64_t *dims;
  const tsr_sharding *sharding;
  const tsr__result *results; /* not NULL: a node of several, of which one must be taken */
  int result_count;
} tsr__type;

typedef struct tsr__types {
  const tsr__type *at;
  int count;
} tsr__types;

typedef struct tsr__inferred {
  tsr_dtype dtype;
  tsr_shape shape;
  uint8_t *operand; /* the caller's, one an operand: the dtype it must have, by a cast if need be */
} tsr__inferred;

/* How many results a node lists (0: its one stands in it), and one of them. */
int tsr__infer_results(tsr__op op, const tsr__ask *ask);
tsr__result tsr__infer_result(tsr__op op, tsr__types in, const tsr__ask *ask, int i);
/* Applies the dtype and shape rules of an op's row to as many operands as the row allows. `ask`
 * carries what rules ATTR and SOURCE need and the attributes. Errors: TSR_ESHAPE, TSR_EDTYPE,
 * TSR_EARG, in our wording. */
tsr_status tsr__infer(tsr__op op, tsr__types in, const tsr__ask *ask, tsr__inferred *out,
                      tsr__error *error);

/* ---- views (views.c) --------------------------------------------------------------------- */

/* A dim of a view's operand is read at start + step * (index along the result's dim `dim`). */
typedef struct tsr__viewdim {
  int64_t start, step; /* step 0: repeated */
  int dim;
  bool same;  /* passed on as it is: both may be cut alike */
  bool again; /* a dim before it is read along `dim`, too: it is cut by other axes than that */
} tsr__viewdim;

/* Which elements of one operand a view shows, and where: low <= index < high, by dims of the
 * result, which both may lie beyond; a high of INT64_MAX: everywhere. Where it does not, later
 * operands do. */
typedef struct tsr__viewing {
  tsr__viewdim dims[TSR_MAX_RANK]; /* by dims of the operand */
  int64_t low[TSR_MAX_RANK], high[TSR_MAX_RANK];
  bool linear; /* no such map: the operand's elements in order, as they lie in memory */
  /* Not NULL: index i along dim `picked` shows the operand's element picks[i], below 0 nothing.
   * That dim of operand and result is one, and has a map of its own for each run of picks. */
  const int32_t *picks;
  int picked;
} tsr__viewing;

tsr__view_fn tsr__view_slice, tsr__view_order, tsr__view_broadcast, tsr__view_pad, tsr__view_concat,
    tsr__view_reshape, tsr__view_roll, tsr__view_pick, tsr__view_diagonal;
/* Of operand `i` of a view. */
tsr__viewing tsr__view_of(const struct tsr__program *program, const struct tsr__gnode *node, int i);

/* The dims of a fold in one of its shapes. */
typedef struct tsr__fold_side {
  int8_t dim, next;          /* the major dim, and the one after it; -1: there is one alone */
  int64_t inner, next_inner; /* elements behind an index along them, in the fold */
} tsr__fold_side;

/* Dims of two shapes with as many elements that become each other: [12, 5] and [4, 3, 5] have the
 * folds 12 -> 4, 3 and 5 -> 5. The first dims of a fold are its major ones; dims of size 1 are in
 * none. Cut along its major dims alone, a fold is a range on both sides; and so it is if the next
 * dim is cut, too, and devices have one index of the major one each. */
typedef struct tsr__fold {
  tsr__fold_side from, to;
  int64_t size; /* elements in all */
} tsr__fold;

/* Of the shapes of a reshape's operand and result: how many, in order; 0 without elements. */
int tsr__folds_of(const struct tsr__gnode *from, const struct tsr__gnode *to,
                  tsr__fold out[TSR_MAX_RANK]);

/* The part of a fold that a position holds. */
tsr__span tsr__fold_span(const tsr_sharding *at, const tsr__fold_side *side, int64_t size,
                         int position);

/* How a view and its operands lie: by the operand's place, its sharding. */
typedef struct tsr__viewed {
  const struct tsr__program *program;
  const struct tsr__gnode *node;
  const tsr_sharding *to;
  const tsr_sharding *const *from;
} tsr__viewed;

/* Whether some element of a view lies on another device than in its operand, or at another place
 * than local indices give: a dim is cut along which elements come to lie elsewhere. */
bool tsr__view_moves(const tsr__viewed *viewed);
/* The same of a node of a program with all places. */
bool tsr__node_moves(const struct tsr__program *program, int node);
/* Whether a node is a view that is a step of its own: one that moves, or that reads by a table,
 * which no kernel does. */
bool tsr__node_shifts(const struct tsr__program *program, int node);

/* ---- factors: the sharding rule of a node, expanded ------------------------------------- */

/* MEET: the result has it not, and it need not be whole. Where it is cut devices join what each of
 * them has of it. */
enum tsr__factor_kind {
  TSR__FACTOR_PASS,
  TSR__FACTOR_REDUCE,
  TSR__FACTOR_REPLICATE,
  TSR__FACTOR_PERMUTE,
  TSR__FACTOR_MEET
};

#define TSR__MAX_FACTORS (2 * TSR_MAX_RANK)

/* Which factors a letter of a rule stands for. */
typedef struct tsr__letter {
  int8_t first, span;
} tsr__letter;

/* A factor that cuts a dim further than the dim's own factor does; -1: none. `single`: only if that
 * cuts so many elements into single ones; 0: whatever it does. */
typedef struct tsr__further {
  int32_t factor, single;
} tsr__further;

typedef struct tsr__factors {
  const struct tsr__program *program;
  const struct tsr__gnode *node;
  int count;
  uint8_t kind[TSR__MAX_FACTORS];
  int64_t size[TSR__MAX_FACTORS];
  int8_t out[TSR_MAX_RANK]; /* factor of each dim of the result, or of all of several; -1: size 1 */
  tsr__further further[TSR_MAX_RANK], further_in[TSR_MAX_RANK]; /* of the result, of operand 0 */
  tsr__letter letter[32]; /* by the low bits of its character; first -1: not met */
} tsr__factors;

void tsr__factors_of(const struct tsr__program *program, int node, tsr__factors *out);
/* The factor of each dim of operand `i`; -1: size 1, broadcast. */
void tsr__factors_in(const tsr__factors *factors, int i, int8_t map[TSR_MAX_RANK]);

/* ---- programs -------------------------------------------------------------------------- */

/* In a site: what a gradient goes back from stands behind it, up to a parenthesis. */
#define TSR__BACK_FROM " (back from "

/* One node of a program: plain bytes, no pointers, all padding zero. */
typedef struct tsr__gnode {
  uint16_t op;
  uint8_t dtype, rank;
  uint8_t flags;        /* TSR__ROOT and those after it */
  uint8_t reduce_axes;  /* set by partition: mesh axes over which partials are combined, or over
                           which the table lies that is looked into */
  uint8_t cause;        /* set by partition on RESHARD nodes: tsr__cause; of kept sums: which row
                           of accums.def */
  uint8_t region_count; /* indices into `regions`: so many of `operands` behind its operands */
  uint16_t sharding;    /* index into `shardings`; 0 = unplaced */
  uint16_t zero;        /* no padding */
  uint32_t attr_bytes;  /* attributes: as the table says, in `attrs` from byte `attr` on */
  uint32_t attr;        /* 0 if it has none */
  int32_t in_count, first_in; /* operands: that many of `operands` from there on */
  int32_t param_count, param; /* numbers: that many of `params` from there on; -1 = none */
  int32_t result_count;       /* several results: that many of `results` from there on; it has no */
  int32_t first_result;       /* dtype, rank and sharding of its own; 0: its one result is here */
  int32_t with; /* set by partition on what crosses devices: 1 + the next node that travels with it,
                   the first again behind the last; 0: it goes alone */
  int64_t dims[TSR_MAX_RANK];
} tsr__gnode;

enum {
  TSR__ROOT = 1,
  TSR__PLACED = 2,
  TSR__RAGGED = 4, /* leaf with its own row borders */
  TSR__SEEN = 8,   /* set before fusing: stored, as somebody looks at it */
  TSR__KEEP = 16,  /* root of which accumulators may be left, instead of what they come to */
  TSR__KEPT = 32,  /* a sum that is not reduced, as the accumulators of its devices: a leaf that was
                      left so; by partition, a sum and views of it */
  TSR__LATE = 64,  /* set by partition on a movement: it waits until its first user needs it */
  TSR__AGAIN = 128 /* by partition, on a movement: the same was made before, for earlier users */
};

/* A program. Nodes, operands, attributes, results, shardings and regions (these by what is in
 * them) are the key: equal ones mean equal programs. The rest binds one run of it: numbers, the
 * leaves' values, where nodes came from. */
typedef struct tsr__program {
  tsr__heap *heap;
  tsr__gnode *nodes;
  int32_t *operands;       /* of all nodes: earlier nodes; -1 = left out, before one that is not;
                              behind them, a node's regions */
  char *attrs;             /* each different attribute once, at a multiple of 8 */
  tsr_sharding *shardings; /* [0] is unplaced; canonical */
  tsr__result *results;    /* of the nodes that have several */
  tsr__region **regions;   /* each different one once, held */
  int node_count, operand_count, attr_count, sharding_count, result_count, region_count;
  /* not part of the key */
  tsr__num *params;
  int param_count;
  const char **sites; /* one a node; may be NULL */
  tsr_array **arrays; /* one a node: leaves and roots to be bound; NULL after partition adds */
  size_t capacity, operand_capacity, sharding_capacity, param_capacity, site_capacity;
  size_t array_capacity, attr_capacity, result_capacity, region_capacity;
  bool failed; /* out of memory while building */
  bool open;   /* traced for a region: arguments may stand in it */
  bool looks;  /* traced to be looked at, not run: leaves need no values */
  /* how tracing finds its way; empty otherwise */
  tsr_array **visited;    /* every array met, in the order of their `visit` */
  struct tsr__todo *todo; /* arrays waiting for their operands */
  uint32_t visited_count;
  size_t visited_capacity, todo_capacity;
  tsr__table equal; /* nodes by hash, to merge equal ones */
  tsr__table blobs; /* attributes by hash, to have each once: the numbers are bytes of `attrs` */
} tsr__program;

/* Operands of a node to be added: TSR__LINKS(a, b), TSR__LINKS_NONE. */
typedef struct tsr__links {
  const int32_t *at;
  int count;
} tsr__links;

#define TSR__LINKS(...)                            \
  ((tsr__links){ (const int32_t[]){ __VA_ARGS__ }, \
                 (int)(sizeof(const int32_t[]){ __VA_ARGS__ } / sizeof(int32_t)) })
#define TSR__LINKS_NONE ((tsr__links){ NULL, 0 })

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
/* How many roots a program has that was just traced, if an equal one can be told by following it
 * (tsr__program_follow); else 0: arrays that are equal are one node of it, or there is something in
 * it that only a run knows. */
int tsr__program_followable(const tsr__program *program);
/* Whether tracing the roots would give a program again that was traced before, found along it node
 * by node: nothing is hashed, and nothing written but what is this run's. True: numbers, arrays and
 * marks are as if it had been traced, and its nodes are those of the other one. False: it would
 * not, or some of the arrays would be one node; it is half of another one then, and is to be
 * cleared. An error is told as tracing would. */
typedef struct tsr__followed {
  const tsr__program *program;
  int roots; /* as many as tsr__program_followable said */
  bool keep; /* roots are TSR__KEEP */
} tsr__followed;

bool tsr__program_follow(tsr__program *program, const tsr__followed *known, tsr__operands roots,
                         tsr__error *error);
/* Whether the arrays of a program that was just traced are all that still read one of them, and how
 * many times they do. */
bool tsr__program_reads_all(const tsr__program *program, const tsr_array *a, int *out_reads);
/* Makes room for so many nodes with so many operands at once. False: out of memory. */
bool tsr__program_reserve(tsr__program *program, int nodes, int operands);
/* Puts copies[n] copies of each node right after it, for nodes without regions. Operands stay the
 * first ones; `place` gets the new number of each node. False: out of memory, and nothing is
 * changed. */
bool tsr__program_copy_nodes(tsr__program *program, const int32_t *copies, int32_t *place);
/* The index of a region, which the program holds if it is new; -1 out of memory. */
int tsr__program_region(tsr__program *program, tsr__region *region);
/* Appends the results of a node to be added; where they begin, -1 out of memory. */
int tsr__program_results(tsr__program *program, const tsr__result *results, int count);
/* Appends a copy of a node and returns its index; -1 out of memory. `in` are its operands and
 * behind them its `region_count` regions (its own first_in and in_count are not looked at). */
int tsr__program_add(tsr__program *program, const tsr__gnode *node, tsr__links in,
                     const char *site);
int tsr__program_sharding(tsr__program *program, const tsr_sharding *sharding); /* its index */
/* Where an attribute lies in `attrs`, which takes it in if it is new; 0 for none. */
uint32_t tsr__program_attr(tsr__program *program, const void *attr, uint32_t bytes);
/* Here, so that it is copied once, to where it is wanted. */
static inline tsr_shape tsr__gnode_shape(const tsr__gnode *node)
{
  tsr_shape shape;
  shape.rank = node->rank;
  memcpy(shape.dims, node->dims, sizeof shape.dims);
  return shape;
}
/* What a node is for those that use it; borrows its dims. */
tsr__type tsr__gnode_type(const tsr__gnode *node);
/* The same with its results, where it has several. */
tsr__type tsr__node_type(const tsr__program *program, int node);
/* tsr__infer for a node of a program: TSR_ESTATE where an operand would have to be cast. */
tsr_status tsr__program_infer(const tsr__program *program, const tsr__gnode *node,
                              tsr__inferred *out, tsr__error *error);

/* The attributes of a node: the struct of its family. */
static inline const void *tsr__attr_of(const tsr__program *program, const tsr__gnode *node)
{
  return program->attrs + node->attr;
}

static inline const tsr__reduce_attr *tsr__reduce_of(const tsr__program *program,
                                                     const tsr__gnode *node)
{
  return tsr__attr_of(program, node);
}

static inline int tsr__index_of(const tsr__program *program, const tsr__gnode *node)
{
  const tsr__index_attr *attr = tsr__attr_of(program, node);
  return (int)attr->index;
}

static inline int tsr__dim_of(const tsr__program *program, const tsr__gnode *node)
{
  const tsr__dim_attr *attr = tsr__attr_of(program, node);
  return (int)attr->dim;
}

/* The tsr__span_attr of a look-up or scatter (a scatter's attribute begins with one); else NULL. */
static inline const tsr__span_attr *tsr__span_of(const tsr__program *program,
                                                 const tsr__gnode *node)
{
  int family = tsr__ops[node->op].attr;
  if (family != TSR__ATTR_SPAN && family != TSR__ATTR_SCATTER) return NULL;
  return tsr__attr_of(program, node);
}

/* How many names a call with a rule keeps. */
static inline int tsr__keep_count(const tsr__gnode *node)
{
  return (int)((node->attr_bytes - sizeof(tsr__custom_attr)) / sizeof(tsr__name_attr));
}

/* How many dims behind tsr__dim_of are one with it. */
static inline int tsr__more_of(const tsr__program *program, const tsr__gnode *node)
{
  const tsr__span_attr *span = tsr__span_of(program, node);
  return span ? (int)span->more : 0;
}

/* How many dims operand 0 and the indices have in common, before all others. */
static inline int tsr__batch_of(const tsr__program *program, const tsr__gnode *node)
{
  const tsr__span_attr *span = tsr__span_of(program, node);
  return span ? (int)span->batch : 0;
}

static inline const tsr__dot_attr *tsr__dot_of(const tsr__program *program, const tsr__gnode *node)
{
  return (const void *)(program->attrs + node->attr);
}

/* The node that is operand `i` of another; -1: it has none there. */
static inline int tsr__in(const tsr__program *program, const tsr__gnode *node, int i)
{
  return i < node->in_count ? program->operands[node->first_in + i] : -1;
}

/* Whether node `n` takes one of the results of node `whole` out. */
static inline bool tsr__is_part(const tsr__program *program, int n, int whole)
{
  const tsr__gnode *node = &program->nodes[n];
  return tsr__takes_result(node->op) && tsr__in(program, node, 0) == whole;
}

static inline tsr__region *tsr__region_in(const tsr__program *program, const tsr__gnode *node,
                                          int i)
{
  return program->regions[program->operands[node->first_in + node->in_count + i]];
}

/* The next node after `n` of those that travel with `first`, the lowest of them; -1: none. */
static inline int tsr__fellow(const tsr__program *program, int first, int n)
{
  int next = program->nodes[n].with - 1;
  return next == first ? -1 : next;
}

/* The rank of a node, of several results that of each. */
static inline int tsr__rank_of(const tsr__program *program, const tsr__gnode *node)
{
  return node->result_count ? program->results[node->first_result].rank : node->rank;
}

/* Each operand that is there: its place `i`, its node `o`. */
#define TSR_FOR_OPERANDS(program, node, i, o)                              \
  for (int i = 0, o = tsr__in((program), (node), 0); i < (node)->in_count; \
       o = tsr__in((program), (node), ++i))                                \
    if (o >= 0)

/* Whether a node looks into a table that is cut along what is looked into: then it is no part of a
 * kernel, but a routine in which each device gives the others what it holds. */
static inline bool tsr__looks_away(const tsr__gnode *node)
{
  return tsr__ops[node->op].looks_up && node->reduce_axes;
}

/* The elements of a node on all devices together, or (`local`) at its first position, which has the
 * most; a dim that is known at run time counts as 0. */
int64_t tsr__node_elements(const tsr__program *program, int node, bool local);
/* The bytes of its elements there. */
int64_t tsr__node_device_bytes(const tsr__program *program, int node);
/* The column FLOPS: one for each element of the result; for each of operand 0; a multiplication and
 * an addition for each combination of a product's indices. */
tsr__flops_fn tsr__flops_result, tsr__flops_operand, tsr__flops_dot;
/* The flops of a product at its first position, if its operands and its result lay at `at`; NULL:
 * of all of it. */
double tsr__flops_dot_at(const tsr__program *program, int node, const tsr_sharding *const at[3]);

/* A private copy without the binding part (params, arrays): the plan cache's key. */
tsr_status tsr__program_copy(tsr__program *out, const tsr__program *in, tsr__heap *heap);
/* Gives an empty program the attributes, results and regions of another, at the same places: nodes
 * may then be copied from it as they are. False: out of memory. */
bool tsr__program_share(tsr__program *out, const tsr__program *in);
bool tsr__program_same(const tsr__program *a, const tsr__program *b);
uint64_t tsr__program_hash(const tsr__program *program);
/* Text of a program, one line a node with dtype, shape, sharding and site. Constants stand where
 * they are used, so that the other nodes are numbered without gaps. */
void tsr__program_print(const tsr__program *program, tsr__text *out);
/* The same as lines that processes compare, "what<TAB>site", with the numbers that nodes take. */
void tsr__program_lines(const tsr__program *program, tsr__text *out);
/* The number that a node has in that text: how many nodes but constants come before it. */
int tsr__program_number(const tsr__program *program, int node);
/* Checks every promise of a program (order, arity, dtypes, shapes by the table's rules).
 * tsr__partition checks the program that it is given, tsr__partition_in only one that has a dim
 * known at run time; tests check the result, too. */
tsr_status tsr__program_verify(const tsr__program *program, tsr__error *error);

/* ---- regions (region.c) ------------------------------------------------------------------ */

/* A program inside a node: it computes `results` from ARG leaves, which are the node's operands,
 * and from numbers that are the node's: number k of its params is the node's k-th, counted on over
 * its regions. Immutable, counted by its holders; its hash is taken once. */
struct tsr__region {
  _Atomic int refs;
  uint64_t hash;
  bool sums; /* tsr__leaves_sums of its program */
  tsr__program program;
  int result_count;
  int32_t *results; /* nodes of `program` */
};

/* Makes a region out of a program, which is empty afterwards; the caller holds it. NULL out of
 * memory, the program untouched. */
tsr__region *tsr__region_make(tsr__program *program, tsr__links results);
void tsr__region_hold(tsr__region *region);
void tsr__region_release(tsr__region *region);
/* Whether something of a program, or in its regions, is left unreduced. */
bool tsr__leaves_sums(const tsr__program *program);
/* Whether two regions compute the same. */
bool tsr__region_same(const tsr__region *a, const tsr__region *b);

/* The operand of a loop that is argument `i` of its regions; -1: the number of a scan's step. */
int tsr__loop_operand(const tsr__loop_attr *attr, int i);

/* The steps of a scan whose program has these numbers. */
int64_t tsr__loop_steps(const tsr__loop_attr *attr, const tsr__gnode *node, const tsr__num *params);

/* Puts what regions compute in the place of the nodes that have them, all the way down, into an
 * empty program, which has the numbers of the given one; loops stay, and with `rules` so do labels
 * and nodes of several regions, of which all but the first are rules. `place`, of the arena: by
 * node of the given one, where it is now; -1: a node of a region, whose results are where RESULT
 * nodes are. False out of memory; `out` is to be freed anyhow. */
bool tsr__program_inline(const tsr__program *program, bool rules, tsr__arena *arena,
                         tsr__program *out, int32_t **place);

/* Drops the nodes of a function that its caller does not read, and those that only labels stood on.
 * A traced program has no such nodes; they come with the regions. `place` has `count` nodes and is
 * changed with them. False: out of memory. */
bool tsr__program_drop_others(tsr__program *program, tsr__arena *arena, int32_t *place, int count);

/* When each node is done. A program runs in slots: kernels of stage s, then the combining of their
 * reductions, then steps of stage s, for s = -1, 0, 1, ... (-1: steps that need no kernel).
 *
 *   LEAF             -1: there from the start
 *   TILE, FORMULA,   0 or more, the stage of the node's kernel: the maximum over the operands of
 *   VIEW, REDUCE     their stage where a kernel computes the operand for each element, and of their
 *                    stage + 1 for any other operand (LEAF, REDUCE, STEP ...). A view that moves
 *                    elements is as STEP. The accumulators of a REDUCE are combined after the
 *                    kernels of its stage, or later (tsr__meeting_stages)
 *   PART             with its operand, of which it is one result
 *   STEP, ROUTINE    runs after the combining of this stage, in order of nodes but for those that
 *                    travel together: the maximum over the operands' stages. These run at the
 *                    latest stage of them
 *   LATE             a movement with this flag waits for the last stage before its first user, as
 *                    do formulas and views of such movements alone; those that travel together
 *                    wait for the first user of any
 *
 * Fills `stage` (one a node) and returns the number of kernel stages: the largest + 1. */
int tsr__stages(const tsr__program *program, int *stage);

/* The stage in which the partials of each reduction are combined; for any other node its own stage.
 * `stage` is as tsr__stages filled it. Reductions wait for a later one over the same axes where
 * no node needs their results before: they are one collective then.
 *
 *   loss = mean(e)  stage 0    slope = sum(g(e))  stage 1    loss, read by nobody, meets in 1 */
void tsr__meeting_stages(const tsr__program *program, const int *stage, int *meets);

/* Whether a node is computed in a kernel for each element; a reduction is not. */
bool tsr__in_kernel(const tsr__program *program, int node);
/* Whether a node is a formula or a view of nodes of a set, and of numbers, alone. */
bool tsr__computed_of(const tsr__program *program, int node, const bool *set);

#endif
