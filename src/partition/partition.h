/* Level 3: from a global program to the program of each device.
 *
 * Shardings flow along the factors of the op table from leaves, sources and constraints; where they
 * disagree, the fewest bytes decide. Where an operand lies differently from what its user chose, a
 * RESHARD node is put between, and reductions over sharded dims get the mesh axes over which their
 * partials are combined. The result is again a program (all nodes placed) plus one note for each
 * thing that moves data. A pure function of the program's bytes: no pointers, timings or probed
 * sizes decide anything. */
#ifndef TSR_PARTITION_PARTITION_H
#define TSR_PARTITION_PARTITION_H

#include "base/base.h"
#include "graph/graph.h"
#include "graph/whys.h"

/* What a note's communication is, by the reshard ladder. */
enum tsr__move {
  TSR__MOVE_SLICE,          /* replicated -> sharded: each device keeps its part; no bytes */
  TSR__MOVE_PERMUTE,        /* same parts on other devices */
  TSR__MOVE_ALL_TO_ALL,     /* sharding moves between dims */
  TSR__MOVE_ALL_GATHER,     /* an axis is dropped */
  TSR__MOVE_BROADCAST,      /* from one device (unplaced data) to others */
  TSR__MOVE_REMATERIALISE,  /* gather all, then slice: legal, always reported as a warning */
  TSR__MOVE_ALL_REDUCE,     /* partials of reductions */
  TSR__MOVE_REDUCE_SCATTER, /* the same, and each device finishes a part of its own */
  TSR__MOVE_PREFIX,         /* what is before a device's piece of a line */
  TSR__MOVE_SORT,           /* elements to where their order puts them; bytes known after the run */
  TSR__MOVE_EXCHANGE,       /* a view's elements from the devices that hold them */
  TSR__MOVE_LOOK,           /* a cut table's elements from the devices that hold them */
  TSR__MOVE_ROWS /* rows with run-time sizes: rebalance; bytes known after the run only */
};

/* "all-gather"; static. */
const char *tsr__move_name(int move);

/* Why. */
enum tsr__cause {
  TSR__CAUSE_NONE,
  TSR__CAUSE_PLACED,   /* a node puts it there, and says why (graph/whys.def) */
  TSR__CAUSE_OPERAND,  /* an operand lies differently from the operation that uses it */
  TSR__CAUSE_UNPLACED, /* an unplaced operand joins placed ones */
  TSR__CAUSE_WHOLE,    /* dims must be whole where they are read, as those of a table */
  TSR__CAUSE_REDUCED,  /* reduced dims are sharded */
  TSR__CAUSE_PARTS,    /* contracted dims are sharded: parts of sums of products meet */
  TSR__CAUSE_WINDOWS,  /* windows show elements of other devices */
  TSR__CAUSE_LEAVES,   /* borders of such a dim come to borders of leaves */
  TSR__CAUSE_ALONG,    /* the dim that a routine goes along is sharded */
  TSR__CAUSE_MESH,     /* operands on two meshes */
  TSR__CAUSE_ROWS,     /* even borders after a filter */
  TSR__CAUSE_VIEW,     /* a view shows elements of other devices */
  TSR__CAUSE_JOINED    /* a table, or updates, are cut, and devices join what each has */
};

typedef struct tsr__note {
  uint8_t move, cause;
  uint8_t axes; /* mesh axes the data crosses */
  const tsr_mesh *mesh;
  int32_t node;          /* in the partitioned program: RESHARD, or the (first) reduction */
  int32_t user;          /* the node on whose account; -1 */
  int32_t lead;          /* the first of the notes that travel with it: these are one collective */
  int32_t next;          /* the next of them; -1 */
  int32_t accums;        /* all-reduce: number of accumulators that travel together */
  int64_t bytes;         /* all devices together; the fixed part */
  int64_t cheaper_bytes; /* what the alternative would move; -1 = no cheaper way is known */
  char cheaper[120];     /* that alternative in words: "put b with spec x,-", "" = none */
} tsr__note;

typedef struct tsr__inner tsr__inner;

typedef struct tsr__partitioned {
  tsr__program program;
  tsr__inner *inner; /* the regions of its loops, in order of nodes and regions */
  int inner_count;
  size_t inner_room;
  tsr__note *notes;
  int note_count;
  int32_t *origin; /* [program.node_count]: the input program's node it stands for; -1: inserted */
  int32_t *number; /* [program.node_count]: as tsr_dump numbers the input's node; -1: inserted */
  int32_t *home;   /* [input node_count]: the node of `program` that holds the input node */
  int home_count;
} tsr__partitioned;

/* A region of a node that runs it, as a program of its own: arguments are leaves. */
struct tsr__inner {
  int32_t node, region; /* of the program around it */
  tsr__partitioned parts;
  int argument_count, result_count;
  int32_t *arguments; /* the leaves, */
  int32_t *operands;  /* and which operand of the node each takes */
  int32_t *results;   /* nodes that hold the results */
  int number;         /* the parameter that is a step's number, behind those of the region */
  void *block;        /* holds the three */
  size_t block_bytes;
};

/* The result's numbers (`param`) index the input's params; its params and arrays stay empty, so
 * that a cached result can be bound to any later program of equal bytes. */
tsr_status tsr__partition(const tsr__program *program, tsr__heap *heap, tsr__partitioned *out,
                          tsr__error *error);
/* The same of a program that was traced, with working memory of the caller's, who lets go of it;
 * all that is made is of its heap. Only sizes of a run may be wrong in it. */
tsr_status tsr__partition_in(const tsr__program *program, tsr__arena *scratch,
                             tsr__partitioned *out, tsr__error *error);
void tsr__partitioned_free(tsr__partitioned *partitioned, tsr__heap *heap);

/* ---- moving elements between two shardings (reshard.c) ----------------------------------- */

/* A box of elements that a position has, and all that it has. */
typedef struct tsr__moved_box {
  int position;
  const tsr_box *box, *part;
} tsr__moved_box;
typedef void (*tsr__piece_fn)(void *user, const tsr__moved_box *piece);

/* What is moved: an array of a shape from one sharding to another; both need the usual borders, or
 * what is moved to has those of `blocks`. */
typedef struct tsr__reshard {
  const tsr_sharding *from, *to;
  const tsr_shape *shape;
  const tsr__blocks_attr *blocks;
  int device; /* what `to` names no device for: which one takes */
} tsr__reshard;

/* The box that a position of `to` takes, in elements of the array. */
void tsr__reshard_want(const tsr__reshard *move, int to_position, tsr_box *out);
/* The move of a node that is one. */
tsr__reshard tsr__reshard_of(const tsr__program *program, int node, tsr_shape *shape);

/* Calls `fn` with disjoint boxes (global coordinates) that together are what the device at
 * `to_position` of `to` holds, each with the position of `from` it is copied from: a position on
 * the same device where one holds it, else the lowest that does. The planner counts bytes and the
 * executor copies by this one rule. */
void tsr__reshard_pieces(const tsr__reshard *move, int to_position, tsr__piece_fn fn, void *user);

/* The same pieces dim by dim, made once for all positions: along dim d part j of `to` has the
 * overlaps first[d][j] .. first[d][j + 1] - 1 with parts of `from`. The lists are as long as both
 * have parts; the pieces are their products. */
typedef struct tsr__overlaps {
  int *first[TSR_MAX_RANK];
  tsr__overlap *list[TSR_MAX_RANK];
} tsr__overlaps;

/* False: out of memory. Sizes must be known. */
bool tsr__overlaps_make(const tsr__reshard *move, tsr__arena *arena, tsr__overlaps *out);
/* The pieces of what a position takes. False: it has no elements of its own, and takes nothing. */
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

/* ---- views of what lies on other devices (shift.c) --------------------------------------- */

/* A box of a view's result, from an operand's part at a position: as a tsr__box_copy has it. */
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
/* Gives the pieces of what a position holds of a view; later ones may lie over earlier ones. */
void tsr__shift_pieces(const tsr__viewed *viewed, int to_position, const tsr__shift_take *take);
/* Bytes that cross between devices in all. */
int64_t tsr__shift_bytes(const tsr__viewed *viewed);

/* Text for people: each collective with cause, axis, bytes, alternative, and who asked (site).
 * `counted` (one a note, or NULL) are the bytes of the last run: {bytes, escapes}; `params` the
 * numbers of the program (NULL: it has no loops). */
void tsr__explain_print(const tsr__partitioned *partitioned, const int64_t (*counted)[2],
                        const tsr__num *params, tsr__text *out);
/* The numbers of a loop's region among those of the program around it, one region's after the
 * other's; NULL where that has none. */
const tsr__num *tsr__inner_numbers(const tsr__partitioned *partitioned, int inner,
                                   const tsr__num *params);
/* How many bytes of a line go into `width` columns: up to the last blank there, else the words that
 * begin it; a word alone that is longer is cut. */
size_t tsr__explain_fits(const char *text, size_t length, int width);
/* Adds lines with the long ones folded at blanks to 80 columns, what continues a line four
 * deeper. */
void tsr__explain_fold(tsr__text *out, const tsr__text *lines);

#endif
