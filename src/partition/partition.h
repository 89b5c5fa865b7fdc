/* Level 3: partitioning turns a global program into the program of each device.
 *
 * Shardings flow along the factors of the op table from leaves, sources and constraints; if they
 * disagree, the fewest bytes decide. If an operand lies elsewhere than its user needs it, a RESHARD
 * node is inserted, and reductions over sharded dims get the mesh axes over which their partials
 * are combined. The result is again a program (all nodes placed) plus one note for each node that
 * moves data. A pure function of the program's bytes: no pointers, timings or probed sizes decide
 * anything. Speeds of mesh axes decide where a user gave them: they are part of the mesh. */
#ifndef TSR_PARTITION_PARTITION_H
#define TSR_PARTITION_PARTITION_H

#include "base/base.h"
#include "graph/graph.h"
#include "graph/whys.h"

/* The kind of a note's communication, by the reshard ladder. */
enum tsr__move {
  TSR__MOVE_SLICE,          /* replicated -> sharded: each device takes its shard; no bytes */
  TSR__MOVE_PERMUTE,        /* same parts on other devices */
  TSR__MOVE_ALL_TO_ALL,     /* sharding moves between dims */
  TSR__MOVE_ALL_GATHER,     /* an axis is dropped */
  TSR__MOVE_BROADCAST,      /* from one device (unplaced data) to others */
  TSR__MOVE_REMATERIALISE,  /* gather all, then slice: legal, always reported as a warning */
  TSR__MOVE_ALL_REDUCE,     /* partials of reductions */
  TSR__MOVE_REDUCE_SCATTER, /* partials of reductions; each device finishes its own shard */
  TSR__MOVE_PREFIX,         /* the prefix of the elements before a device's part of a line */
  TSR__MOVE_FETCH,          /* rows to the devices that name them; bytes known after the run */
  TSR__MOVE_SORT,           /* elements to their sorted positions; bytes known after the run */
  TSR__MOVE_EXCHANGE,       /* a view's elements from the devices that hold them */
  TSR__MOVE_LOOK,           /* a sharded table's elements from the devices that hold them */
  TSR__MOVE_ROWS /* rows with run-time sizes: rebalance; bytes known after the run only */
};

/* "all-gather"; static. */
const char *tsr__move_name(int move);

/* Why. */
enum tsr__cause {
  TSR__CAUSE_NONE,
  TSR__CAUSE_PLACED,   /* a node placed it, with a reason (graph/whys.def) */
  TSR__CAUSE_OPERAND,  /* an operand lies differently from the operation that uses it */
  TSR__CAUSE_UNPLACED, /* an unplaced operand joins placed ones */
  TSR__CAUSE_WHOLE,    /* a user needs whole dims, such as those of a table */
  TSR__CAUSE_REDUCED,  /* reduced dims are sharded */
  TSR__CAUSE_PARTS,    /* contracted dims are sharded: parts of sums of products meet */
  TSR__CAUSE_WINDOWS,  /* windows show elements of other devices */
  TSR__CAUSE_LEAVES,   /* borders of contracted dims move to borders of leaves */
  TSR__CAUSE_ALONG,    /* a routine runs along a sharded dim */
  TSR__CAUSE_MESH,     /* operands on two meshes */
  TSR__CAUSE_ROWS,     /* even borders after a filter */
  TSR__CAUSE_VIEW,     /* a view shows elements of other devices */
  TSR__CAUSE_JOINED    /* a table, or updates, are sharded, and devices join their elements */
};

typedef struct tsr__note {
  uint8_t move, cause;
  uint8_t axes; /* mesh axes the data crosses */
  uint8_t step; /* 1, 2: a step of a move in two; 0: the move has one */
  const tsr_mesh *mesh;
  int32_t node;   /* in the partitioned program: the RESHARD, or the (first) reduction */
  int32_t user;   /* the node on whose account; -1 */
  int32_t lead;   /* the first note of those that travel together: one collective */
  int32_t next;   /* the next of these notes; -1 */
  int32_t accums; /* all-reduce: number of accumulators that travel together */
  int64_t bytes;  /* all devices together; the fixed part */
  int64_t along[TSR_MAX_AXES]; /* on a mesh with speeds: about how many of these bytes have each
                                * axis as the slowest that they cross */
  int64_t cheaper_bytes;       /* bytes of the alternative; -1: no cheaper way is known */
  char cheaper[120]; /* the alternative in words, "put b with spec x,-"; "": no alternative */
} tsr__note;

/* A product, or the products of a loop, that several devices make alike, though something that they
 * are computed of was cut among these devices. */
typedef struct tsr__repeated {
  int32_t node;  /* in the partitioned program: the product, or the loop */
  int32_t of;    /* the array that would have to lie otherwise: the product, or a loop's slices */
  int32_t count; /* products of one line, type and spec */
  uint8_t axes;  /* mesh axes along which devices make the same */
  double flops;  /* of each device, all these products together */
  int64_t bytes; /* that the other placement of a loop's array moves; -1: not known */
  char spec[64]; /* the spec with which each device makes its own part */
} tsr__repeated;

typedef struct tsr__inner tsr__inner;

typedef struct tsr__partitioned {
  tsr__program program;
  tsr__inner *inner; /* the regions of its loops, in order of nodes and regions */
  int inner_count;
  size_t inner_room;
  tsr__note *notes;
  int note_count;
  tsr__repeated *repeated;
  int repeated_count;
  int32_t *origin; /* [program.node_count]: the input program's node it stands for; -1: inserted */
  int32_t *number; /* [program.node_count]: as tsr_dump numbers the input's node; -1: inserted */
  int32_t *home;   /* [input node_count]: the node of `program` with its value; -1: unread */
  int home_count;
} tsr__partitioned;

/* A region of a node that runs it, as a program of its own: arguments are leaves. */
struct tsr__inner {
  int32_t node, region; /* of the program around it */
  tsr__partitioned parts;
  int argument_count, result_count;
  int32_t *arguments; /* the leaves */
  int32_t *operands;  /* by leaf: the node's operand that it takes */
  int32_t *results;   /* nodes that hold the results */
  int number;         /* the parameter that is a step's number, after those of the region */
  void *block;        /* holds the three lists */
  size_t block_bytes;
};

/* The result's numbers (`param`) index the input's params; its params and arrays stay empty, so
 * that a cached result can be bound to any later program of equal bytes. */
tsr_status tsr__partition(const tsr__program *program, tsr__heap *heap, tsr__partitioned *out,
                          tsr__error *error);
/* Partitions a traced program, whose only possible error is a size of the run. The caller owns
 * `scratch`, the working memory; the result is allocated from the heap of `scratch`. */
tsr_status tsr__partition_in(const tsr__program *program, tsr__arena *scratch,
                             tsr__partitioned *out, tsr__error *error);
void tsr__partitioned_free(tsr__partitioned *partitioned, tsr__heap *heap);

/* ---- moving elements between two shardings (reshard.c) ----------------------------------- */

/* A box of elements that a position holds (`box`), and all that it holds (`part`). */
typedef struct tsr__moved_box {
  int position;
  const tsr_box *box, *part;
} tsr__moved_box;
typedef void (*tsr__piece_fn)(void *user, const tsr__moved_box *piece);

/* A move of an array of a shape from one sharding to another; both have the usual borders, or `to`
 * has those of `blocks`. */
typedef struct tsr__reshard {
  const tsr_sharding *from, *to;
  const tsr_shape *shape;
  const tsr__blocks_attr *blocks;
  int device; /* the device that takes the array if `to` is unplaced */
} tsr__reshard;

/* The box that a position of `to` takes, in elements of the array. */
void tsr__reshard_want(const tsr__reshard *move, int to_position, tsr_box *out);
/* The move of a RESHARD or BLOCKS node. */
tsr__reshard tsr__reshard_of(const tsr__program *program, int node, tsr_shape *shape);

/* Calls `fn` with disjoint boxes (global coordinates) that together are the shard at `to_position`
 * of `to`, each with the position of `from` it is copied from: a position on the same device if
 * that holds the box, else the lowest that does. The planner counts bytes and the executor copies
 * by this one rule. */
void tsr__reshard_pieces(const tsr__reshard *move, int to_position, tsr__piece_fn fn, void *user);

/* The same pieces dim by dim, made once for all positions: along dim d part j of `to` has the
 * overlaps first[d][j] .. first[d][j + 1] - 1 with parts of `from`. A list has at most as many
 * overlaps as both sides have parts; the pieces are products of overlaps. */
typedef struct tsr__overlaps {
  int *first[TSR_MAX_RANK];
  tsr__overlap *list[TSR_MAX_RANK];
} tsr__overlaps;

/* False: out of memory. Sizes must be known. */
bool tsr__overlaps_make(const tsr__reshard *move, tsr__arena *arena, tsr__overlaps *out);
/* The pieces that a position takes. False: the position holds no elements of its own and takes no
 * pieces. */
bool tsr__overlaps_at(const tsr__reshard *move, const tsr__overlaps *overlaps, int to_position,
                      tsr__piece_grid *out);

/* Bytes that a box of elements counts when it crosses from one device to another; bools are bits,
 * rounded up to whole bytes a piece. */
int64_t tsr__piece_bytes(tsr_dtype dtype, int rank, const tsr_box *box);
/* Bytes that cross between devices in all: the sum over the pieces whose devices differ. */
int64_t tsr__reshard_bytes(const tsr_sharding *from, const tsr_sharding *to, tsr_dtype dtype,
                           const tsr_shape *shape);
int64_t tsr__move_bytes(const tsr__reshard *move, tsr_dtype dtype);
/* The ladder's rung (tsr__move), and the mesh axes of `to` (of `from` where `to` is unplaced) that
 * the data crosses. */
int tsr__reshard_move(const tsr_sharding *from, const tsr_sharding *to, const tsr_shape *shape,
                      unsigned *out_axes);

/* ---- views of elements on other devices (shift.c) ---------------------------------------- */

/* A box of a view's result, copied from an operand's shard at a position; the fields are those of
 * tsr__box_copy. */
typedef struct tsr__shift_piece {
  int operand, from_position, rank;
  int64_t from_dims[TSR_MAX_RANK], from_start[TSR_MAX_RANK], from_step[TSR_MAX_RANK];
  int64_t to_dims[TSR_MAX_RANK], to_start[TSR_MAX_RANK], size[TSR_MAX_RANK];
} tsr__shift_piece;

typedef struct tsr__shift_take {
  void (*fn)(void *user, const tsr__shift_piece *piece);
  void *user;
} tsr__shift_take;

/* A node of a program with all places. False: out of memory. */
bool tsr__shift_of(const tsr__program *program, int node, tsr__arena *arena, tsr__viewed *out);
/* Gives the pieces of a view's shard at a position; later pieces may overwrite earlier ones. */
void tsr__shift_pieces(const tsr__viewed *viewed, int to_position, const tsr__shift_take *take);
/* Bytes that cross between devices in all. */
int64_t tsr__shift_bytes(const tsr__viewed *viewed);

/* Writes the explanation: each collective with cause, axis, bytes, alternative and the asking site.
 * `counted` (one a note, or NULL) are the bytes of the last run: {bytes, escapes}; `params` are the
 * numbers of the program (NULL: it has no loops). */
void tsr__explain_print(const tsr__partitioned *partitioned, const int64_t (*counted)[2],
                        const tsr__num *params, tsr__text *out);
/* The numbers of a loop's region among those of the program around it, one region's after the
 * other's; NULL if `params` is NULL. */
const tsr__num *tsr__inner_numbers(const tsr__partitioned *partitioned, int inner,
                                   const tsr__num *params);
/* The number of bytes of a line that fit into `width` columns: up to the last blank that fits; a
 * first word that is longer is cut. */
size_t tsr__explain_fits(const char *text, size_t length, int width);
/* Adds lines, folding long ones at blanks to 80 columns; continuations are four columns deeper. */
void tsr__explain_fold(tsr__text *out, const tsr__text *lines);

#endif
