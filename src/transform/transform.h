/* Level 6: functions of arrays, and functions made of functions.
 *
 * A function is a C callback. For each signature of arguments it is traced once: it runs on ARG
 * nodes in a scope of its own, and what it made becomes a region, a program that takes arrays. A
 * call is a CALL node with that region. What makes functions of functions (gradients, batching,
 * per-device code) is a body too: it traces the function that it is made of, replays the
 * region, and makes nodes with the calls that users have. So one thing is cached and called. */
#ifndef TSR_TRANSFORM_TRANSFORM_H
#define TSR_TRANSFORM_TRANSFORM_H

#include "array/array_room.h"
#include "graph/leaves.h"
#include "tessera/function.h"
#include "tessera/tree.h"

/* ---- forms of trees ------------------------------------------------------------------------ */

/* A form is a text: "*" for an array, "(a: F, b: F)" for a tree with names, "(F, F)" without. */

/* Appends the form of a tree. */
void tsr__form_of(const tsr_array *tree, tsr__text *out);
/* Makes a tree of a form of `leaves`, which it takes one by one from *leaves on. */
tsr_array *tsr__form_fill(tsr_scope *scope, const char *form, tsr_array *const *leaves,
                          const char *site);
/* Appends the path of a leaf, "layer.w", "0.1"; of an array nothing. */
void tsr__path_add(const tsr_array *tree, int leaf, tsr__text *out);
/* For messages, in the scope's arena: the path of a leaf, of an array "0"; of a leaf of arguments,
 * of which `in` are those from number `first` on, with the argument's number in front. */
const char *tsr__leaf_path(tsr_scope *scope, const tsr_array *tree, int leaf);
const char *tsr__argument_path(tsr_scope *scope, tsr__operands in, int first, int leaf);
/* Other arrays in the form of an argument: of an array the one leaf. */
tsr_array *tsr__like(tsr_array *like, tsr_array *const *leaves, int count, const char *site);

/* Without memory nothing says so but who asked for it: gives what a call made, and records
 * TSR_ENOMEM with `scope` where that is nothing, or inert, and nobody recorded why. */
tsr_array *tsr__or_no_memory(tsr_scope *scope, tsr_array *made, const char *call, const char *site);

/* An array in the sharding of another of its shape, wherever the planner puts that. With `stated`,
 * a sharding, only if the other one cuts that further, and in the stated sharding otherwise. */
tsr_array *tsr__place_as(tsr_array *a, tsr_array *like, const tsr_sharding *stated,
                         const char *site);

/* The lists that places send to each other, [sender, receiver] from dim `dim` on, as [receiver,
 * sender]. The result has the sharding of `said`. */
tsr_array *tsr__said_back(tsr_array *said, int dim, const char *site);

/* Where zeros like an array lie: as it does, or, where that is not said whole, anywhere. */
static inline tsr_sharding tsr__place_like(const tsr_array *a)
{
  return a->sharding.open || a->sharding.unreduced ? (tsr_sharding){ .mesh = NULL } : a->sharding;
}

/* ---- functions ----------------------------------------------------------------------------- */

/* An array that a body took from outside. */
typedef struct tsr__capture {
  tsr__value *value;  /* held */
  tsr_sharding place; /* the value's; of a mesh without devices the array's, to be planned */
  const char *site;
} tsr__capture;

/* What a body came to for one signature. Immutable once `region` is set. */
typedef struct tsr__traced {
  struct tsr__traced *next;
  char *key;                    /* the signature as bytes */
  size_t key_bytes, first_leaf; /* where the leaves' types stand in it */
  uint64_t hash;
  uintptr_t thread;    /* that traces it, while region is NULL */
  tsr__region *region; /* its arguments: the leaves of the arguments, then what was captured */
  char *form;          /* of the result */
  int argument_count;  /* leaves */
  int captured_count;
  tsr__capture *captured;
} tsr__traced;

struct tsr_function {
  tsr__node node; /* of its scope */
  tsr_body_fn *body;
  void *user;
  size_t user_bytes;
  const char *name;
  const char *call; /* whose body it is, "tsr_scan" */
  int skip;         /* so many operands stand before those that its body captures */
  bool inert;
  const char *ended;      /* NULL, or in which body it was made, which has returned */
  bool asked;             /* its body is a user's, not one of this room */
  bool explicit_places;   /* what its operands do not settle is an error */
  const tsr_function *of; /* it is made of that, whose `user_bytes` are arguments of it, too */
  tsr_sharding in[TSR_MAX_ARGS], out[TSR_MAX_ARGS]; /* no mesh: as it comes */
  pthread_mutex_t lock;                             /* of the list */
  tsr__traced *traced;
  _Atomic(const tsr__traced *) last; /* a finished one, which stays as long as this: asked first */
  int trace_count;
};

/* Functions of a scope end with `body`, whose scope it is: calls of them say so. */
void tsr__functions_end(tsr_scope *scope, const char *body);
/* Whether one has; the error is told. */
bool tsr__function_ended(tsr_scope *scope, const tsr_function *f, const char *call,
                         const char *site);
/* A function whose body and `user` are another room's; `user` lives in the arena of `scope`. */
tsr_function *tsr__function_new(tsr_scope *scope, tsr_body_fn *body, void *user, const char *name,
                                const char *site);
/* What a function is called on: arrays and trees, and the arrays in them. */
typedef struct tsr__arguments {
  tsr__operands in;
  tsr__leaves leaves;
} tsr__arguments;
/* Adds the arrays in the arguments, each where the function's spec says. False: out of memory. */
bool tsr__take_leaves(tsr_scope *scope, tsr_function *function, tsr__arguments *arguments,
                      const char *site);
/* How many arguments a body is given: behind the last there is NULL. */
int tsr__count_arguments(tsr_array *const *in);
/* The trace of a function for arguments, of which only types are looked at, made in a scope inside
 * `scope` if it is new. NULL: the error is recorded in `scope`. */
const tsr__traced *tsr__trace(tsr_scope *scope, tsr_function *function,
                              const tsr__arguments *arguments, const char *site);
/* What was captured, as an array of a scope. */
tsr_array *tsr__captured(tsr_scope *scope, const tsr__traced *traced, int i, const char *site);
/* The first leaf that is not of the type that was traced for; -1: none. Trees may still differ. */
int tsr__first_unlike(const tsr__traced *traced, const tsr__arguments *arguments);
/* Whether arguments have the forms that were traced for, "*;(a: *);" at the start of the key. */
bool tsr__same_forms(const tsr__traced *traced, const tsr__operands *in);
/* The type of a leaf that was traced for, and how it lay. */
tsr__result tsr__traced_leaf(const tsr__traced *traced, int leaf, tsr_sharding *place);
/* Appends it as text. */
void tsr__traced_type(const tsr__traced *traced, int leaf, tsr__text *out);
/* An argument that is no one's: an array of which nothing but its type is looked at. */
tsr_array *tsr__stand_in(tsr_scope *scope, tsr_dtype dtype, const tsr_shape *shape,
                         const char *site);

/* Lists of arrays of one length, each along a dim of its own, of which elements are joined. */
typedef struct tsr__prefixes {
  tsr_scope *scope;
  /* Joins two lists of elements, as many in each, one by one: `before` stands before `after` in the
   * row. NULL: the error is told, or memory is out. */
  tsr_array **(*join)(const void *user, tsr_array **before, tsr_array **after);
  const void *user;
  int count;      /* arrays in a list */
  const int *dim; /* by array */
  const char *site;
} tsr__prefixes;
/* Each element joined with all before it, of `size` of them (prefixes.c). NULL as `join` gives
 * it. */
tsr_array **tsr__prefixes_of(const tsr__prefixes *prefixes, tsr_array **all, int64_t size);

/* A node of traces, in the order of its regions (function.c). */
typedef struct tsr__calling {
  tsr_scope *scope;
  const char *site;
  tsr__op op;
  const void *attr;
  uint32_t attr_bytes;
  bool fits;    /* operands are of the types that it was traced for */
  bool counted; /* it has a number of its own, `steps`, behind those of its regions */
  int64_t steps;
  const tsr__traced *traced[TSR__MAX_REGIONS];
  int count;
} tsr__calling;

/* The node on all of its operands, with the numbers of its regions one after the other, and its
 * own. */
tsr_array *tsr__call_node(const tsr__calling *calling, tsr__operands in);
/* The node on `in` and, behind it, what the bodies captured: its results, as trace `gives`
 * returned them. */
tsr_array *tsr__call_traces(const tsr__calling *calling, int gives, const tsr__leaves *in);
/* The call of one trace on leaves of its signature. */
tsr_array *tsr__call_trace(tsr_scope *scope, const tsr__traced *traced, const tsr__leaves *in,
                           const char *site);
/* Result `i` of a node of several; no scope: the node's. */
tsr_array *tsr__result_of(tsr_scope *scope, tsr_array *node, int i, const char *site);
/* Arguments that are there. NULL: they are. Else what is to be returned; `call` is who asks. */
tsr_array *tsr__refuse_arguments(const tsr_function *f, const tsr__operands *arguments,
                                 const char *call, const char *site);
/* Reports that `call` was given NULL for its function. Returns NULL, as `call` then does. */
void *tsr__no_function(const char *call, const char *site);
void tsr__traced_free(tsr__heap *heap, tsr__traced *traced);

/* Results of a body that was traced to a program. */
typedef struct tsr__explicit {
  tsr__arena *arena;  /* for what is found on the way */
  tsr__links results; /* their nodes */
} tsr__explicit;

/* How each result lies by the rules of explicit shardings (explicit.c). False: what they leave
 * open, as the end of a sentence about the body. */
bool tsr__explicit_places(const tsr__program *program, const tsr__explicit *ask, tsr_sharding *out,
                          tsr__error *error);

/* ---- named axes (axes.c) -------------------------------------------------------------------- */

/* Makes an axis that bodies are mapped over known in a scope and those in it. False: out of
 * memory. */
bool tsr__axis_bind(tsr_scope *scope, const char *name, int64_t size, bool of_mesh);
/* Whether the devices along an axis of a mesh run a body in a scope. */
bool tsr__axis_manual(const tsr_scope *scope, const char *name);
/* Appends the names and sizes of all axes that are known in a scope: part of a signature. */
void tsr__axes_text(const tsr_scope *scope, tsr__text *out);
/* A part of a gradient that comes from `out` to an operand: where along an axis of a mesh the
 * operand is the same at all places and the part or `out` is not, the sum over them. But over
 * `except`, if any. */
tsr_array *tsr__axis_meet(tsr_array *part, tsr_array *out, tsr_array *operand,
                          const tsr__axis_attr *except, const char *site);
/* What is due to `out`, or goes with it, as something that differs along a mesh's axis where that
 * does, also if it came out the same at all places. */
tsr_array *tsr__axis_as(tsr_array *due, tsr_array *out, const char *site);
/* Zeros like `like`, which differ along a mesh's axis where that does, so that no parts of them
 * have to meet. */
tsr_array *tsr__zeros_as(tsr_scope *scope, tsr_array *like, tsr_sharding on, const char *site);

/* ---- replaying a region -------------------------------------------------------------- */

/* Nodes of a region made again as arrays of a scope: `at` by node of the region's program. */
typedef struct tsr__replay {
  tsr_scope *scope;
  const tsr__region *region;
  const tsr__program *program; /* the region's, what it calls in the place of CALL nodes */
  const int32_t *results;      /* where the region's results are in it */
  const tsr__num *params;      /* its numbers */
  tsr_array **at;              /* in the arena of `scope` */
  const char *site;
} tsr__replay;

/* Opens a replay on `arguments`: the leaves of the arguments; what was captured is added. False:
 * out of memory. */
bool tsr__replay_open(tsr__replay *replay, tsr_scope *scope, const tsr__traced *traced,
                      tsr_array *const *arguments, const char *site);
/* What node `n` of the region is beside its operands and its place: dtype, shape, attribute,
 * numbers and regions, into `regions`. */
tsr__ask tsr__replay_ask(const tsr__replay *replay, int n, tsr__region *regions[TSR__MAX_REGIONS]);
/* Node `n` of the region, of other operands, as an array of the replay's scope: what it has beside
 * them (dtype, shape, attribute, numbers, sharding, regions) is the same. Casts are not added. */
tsr_array *tsr__replay_make(const tsr__replay *replay, int n, tsr__operands in);
/* Region `r` of node `n` as a trace whose arguments are all leaves, and the numbers of the region,
 * which are the node's behind those of the regions before. */
tsr__traced tsr__region_trace(const tsr__replay *replay, int n, int r);
const tsr__num *tsr__region_numbers(const tsr__replay *replay, int n, int r);
/* All nodes, as they are or as `make` makes them. */
typedef tsr_array *tsr__replay_fn(const tsr__replay *replay, int n, tsr__operands in, void *user);
void tsr__replay_by(tsr__replay *replay, tsr__replay_fn *make, void *user);
void tsr__replay_through(tsr__replay *replay);

#endif
