/* Attributes: what a node is beside its operands, one struct a family, and the numbers of a run. */
#ifndef TSR_GRAPH_ATTRS_H
#define TSR_GRAPH_ATTRS_H

#include "base/base.h"
#include "tessera/array.h"
#include "topology/topology.h"

/* A number given in a formula, or a seed: a parameter of the run, not of the plan. Integers and
 * bools (0 or 1) lie in `i`, f64 and f32 (to be rounded to f32 when used) in `f`. */
typedef union tsr__num {
  int64_t i;
  double f;
} tsr__num;

/* What a node is beside its operands: one struct a family, without holes since they are compared as
 * bytes (asserted in ops.c). Part of the plan's key, unlike tsr__num. A row of the table names its
 * family, and whoever makes a node without attributes gets zeros. */
enum tsr__attr_family {
  TSR__ATTR_NONE,
  TSR__ATTR_REDUCE,
  TSR__ATTR_DIM,
  TSR__ATTR_SCAN,
  TSR__ATTR_SORT,
  TSR__ATTR_ROLL,
  TSR__ATTR_TIE,
  TSR__ATTR_INDEX,
  TSR__ATTR_PLACE,
  TSR__ATTR_SLICE,
  TSR__ATTR_ORDER,
  TSR__ATTR_PAD,
  TSR__ATTR_SPAN,
  TSR__ATTR_SCATTER,
  TSR__ATTR_WITHIN,
  TSR__ATTR_DOT,
  TSR__ATTR_BLOCKS,
  TSR__ATTR_AXIS,
  TSR__ATTR_TAP,
  TSR__ATTR_LOOP,
  TSR__ATTR_CUSTOM,
  TSR__ATTR_FAMILIES
};

typedef struct tsr__reduce_attr {
  uint32_t dims;    /* bit d = dim d is reduced */
  uint16_t keep;    /* reduced dims stay with size 1 */
  uint16_t checked; /* sum: leaving the range of i64 is an error (frames) */
  int64_t ddof;     /* var, std */
  int64_t groups;   /* number of groups; 0 = not grouped */
} tsr__reduce_attr;

typedef struct tsr__dim_attr {
  int64_t dim; /* iota: along which it counts; take: which is looked into; concat: along which */
} tsr__dim_attr;

/* The dim of these two is read as that of tsr__dim_attr. */
typedef struct tsr__scan_attr {
  int64_t dim, reverse; /* reverse: from the last element on */
} tsr__scan_attr;

enum tsr__sort_order {
  TSR__ORDER_ASCENDING,  /* NaN last */
  TSR__ORDER_DESCENDING, /* NaN last */
  TSR__ORDER_LARGEST     /* descending, NaN first */
};

typedef struct tsr__sort_attr {
  int64_t dim, count; /* top: how many are kept */
  int64_t order;      /* tsr__sort_order */
} tsr__sort_attr;

typedef struct tsr__roll_attr {
  int64_t dim, count; /* how far along which dim */
} tsr__roll_attr;

/* Who gets the gradient of an extreme of two where both are it: 0 a half each, 1 the first. */
typedef struct tsr__tie_attr {
  int64_t first;
} tsr__tie_attr;

typedef struct tsr__index_attr {
  int64_t index; /* arg: which operand of the region's node; result: which result of its operand */
} tsr__index_attr;

/* By dim: `size` elements from `start` on, `step` apart; a step of 0 leaves the dim as it is. */
typedef struct tsr__slice_attr {
  int64_t start[TSR_MAX_RANK], step[TSR_MAX_RANK], size[TSR_MAX_RANK];
} tsr__slice_attr;

typedef struct tsr__order_attr {
  uint8_t dims[TSR_MAX_RANK]; /* by dim of the result: which dim of the operand */
} tsr__order_attr;

typedef struct tsr__pad_attr {
  /* Elements before and after each dim; below 0 as many are cut off. */
  int64_t low[TSR_MAX_RANK], high[TSR_MAX_RANK];
} tsr__pad_attr;

typedef struct tsr__span_attr {
  int64_t dim, more; /* the dim, and so many behind it, are one: an index counts through them */
} tsr__span_attr;

typedef struct tsr__scatter_attr {
  int64_t dim, more; /* as of tsr__span_attr */
  int64_t how;       /* tsr_scatter_how */
  int64_t drops;     /* an index out of range is left out, instead of an error */
} tsr__scatter_attr;

enum tsr__within {
  TSR__WITHIN_GATHER,
  TSR__WITHIN_SCATTER,
  TSR__WITHIN_TAKE,
  TSR__WITHIN_SENT, /* ragged_all_to_all: rows of x, */
  TSR__WITHIN_PUT,  /* rows of what they are put into, */
  TSR__WITHIN_SIZES /* and how many; of these three one below 0 stands as that less the size */
};

typedef struct tsr__within_attr {
  int64_t size; /* of the dim that the indices are of */
  int64_t dim;  /* which one that is, */
  int64_t whom; /* and of whom: tsr__within */
} tsr__within_attr;

/* By dim the index that runs along it, from 1 on: einsum's letters. 0: of an operand, a dim of size
 * 1 that no index runs along; of the result, no dim. Indices that the result has not are contracted
 * in their order, the last the fastest. Along a dim of the left operand a second one may run inside
 * windows: the place is stride * index + dilation * window. */
typedef struct tsr__dot_attr {
  uint8_t left[TSR_MAX_RANK], right[TSR_MAX_RANK], out[TSR_MAX_RANK], window[TSR_MAX_RANK];
  int64_t stride[TSR_MAX_RANK], dilation[TSR_MAX_RANK];
  /* Set by partition, where devices have the windows' dim in blocks of their own: how many windows
   * there are along it. 0: as many as fit. */
  int64_t places[TSR_MAX_RANK];
  /* Set by partition, of a product whose contracted dims are cut: how many devices have a part of
   * the sum each. They lie along dim 0 of the result, whose index runs in no operand. */
  int64_t parts;
  /* A contracted index, and how far it goes: sums are trees over its leaves (docs/NUMERICS.md), in
   * which it is the slowest. 0: they are chains. */
  int64_t leaf, length;
} tsr__dot_attr;

enum { TSR__LEAF = 32 };

/* By dim: `items` that each show `width` elements, `step` from one to the next, are cut over so
 * many parts at the usual borders, and a part takes what its items show; of that, what lies behind
 * the end is nowhere. 0 parts: the dim lies by its own borders. */
typedef struct tsr__blocks_attr {
  int64_t parts[TSR_MAX_RANK], items[TSR_MAX_RANK], step[TSR_MAX_RANK], width[TSR_MAX_RANK];
} tsr__blocks_attr;

/* Elements along a dim of the largest of blocks, as large as all are. */
static inline int64_t tsr__block_size(const tsr__blocks_attr *blocks, int dim)
{
  int64_t most = (blocks->items[dim] + blocks->parts[dim] - 1) / blocks->parts[dim];
  return most ? (most - 1) * blocks->step[dim] + blocks->width[dim] : 0;
}

enum { TSR__AXIS_NAME = 32 };

typedef struct tsr__axis_attr {
  char name[TSR__AXIS_NAME]; /* zeros behind it */
  int64_t size;
  int64_t of_mesh; /* its places are devices, and what does not vary along it is one array */
} tsr__axis_attr;

enum tsr__tap { TSR__TAP_SHARDING, TSR__TAP_VALUES, TSR__TAP_PRINT };

/* Who is shown an array. Pointers as numbers, zero where there is none; a plan is of them, too. */
typedef struct tsr__tap_attr {
  uint64_t fn, user; /* tsr_sharding_fn for tsr__tap SHARDING, else tsr_seen_fn */
  uint64_t format;   /* of a print, of the runtime's texts, */
  uint64_t write;    /* and who takes it: tsr_line_fn */
  int64_t kind;      /* tsr__tap */
  int64_t shards;    /* each device's part instead of the whole */
} tsr__tap_attr;

/* A node whose regions run as often as its operands say (docs/ARCHITECTURE.md). Results begin with
 * the carries, which are the first of its arrays as operands, too. */
enum tsr__loop { TSR__LOOP_SCAN, TSR__LOOP_WHILE, TSR__LOOP_SWITCH };

typedef struct tsr__loop_attr {
  int64_t kind;    /* tsr__loop */
  int64_t carries; /* arrays that each step takes from the one before it */
  int64_t slices;  /* scan: arrays behind them of which a step sees what stands at its number */
  int64_t count, reverse; /* scan: steps, and whether the last is done first */
} tsr__loop_attr;

/* As count: no shape depends on it, so that it is a number of the node, behind those of its region,
 * and no part of a plan. */
enum { TSR__COUNTED = -1 };

/* Operands of a call with a rule: arguments, then what its region captured, then what the rule
 * did. The rule's region takes the arguments, the results, what is due to these, and the last.
 * With `again` there is no rule: its first region is gone back through, and the second is that
 * once more. */
typedef struct tsr__custom_attr {
  int64_t arguments, captured, again;
} tsr__custom_attr;

/* The size of a family's struct, and one of zeros. */
typedef struct tsr__attr_info {
  uint16_t bytes;
  const void *zero;
} tsr__attr_info;

extern const tsr__attr_info tsr__attrs[TSR__ATTR_FAMILIES];

#endif
