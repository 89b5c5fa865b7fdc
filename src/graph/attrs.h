/* Attributes of nodes, one struct a family, and the numbers of a run. */
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

/* The families of attributes. Their structs have no holes, as attributes are compared as bytes
 * (asserted in ops.c). Attributes are part of the plan's key, unlike tsr__num. A row of the table
 * names its family; a node that is made without attributes has zeros. */
enum tsr__attr_family {
  TSR__ATTR_NONE,
  TSR__ATTR_REDUCE,
  TSR__ATTR_DIM,
  TSR__ATTR_SCAN,
  TSR__ATTR_SORT,
  TSR__ATTR_ROLL,
  TSR__ATTR_PICK,
  TSR__ATTR_DIAGONAL,
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
  TSR__ATTR_NAME,
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
  /* iota: that it counts along; take_along_dim: of the table; concat: that grows */
  int64_t dim;
} tsr__dim_attr;

/* `dim` of this and the next struct is read as that of tsr__dim_attr. */
typedef struct tsr__scan_attr {
  int64_t dim, reverse; /* reverse: the scan begins at the last element */
} tsr__scan_attr;

enum tsr__sort_order {
  TSR__ORDER_ASCENDING,  /* NaN last */
  TSR__ORDER_DESCENDING, /* NaN last */
  TSR__ORDER_LARGEST     /* descending, NaN first */
};

typedef struct tsr__sort_attr {
  int64_t dim, count; /* count: elements that top keeps */
  int64_t order;      /* tsr__sort_order */
} tsr__sort_attr;

typedef struct tsr__roll_attr {
  int64_t dim, count; /* the elements move by `count` along `dim` */
} tsr__roll_attr;

/* As long as its result is along `dim`. */
typedef struct tsr__pick_attr {
  int64_t dim;
  int32_t picks[]; /* by index of the result: that of the operand, or below 0 for a zero */
} tsr__pick_attr;

static inline uint32_t tsr__pick_bytes(int64_t count)
{
  return (uint32_t)(sizeof(tsr__pick_attr) + (size_t)count * sizeof(int32_t));
}

typedef struct tsr__diagonal_attr {
  int64_t dim, offset; /* of a row and its column along `dim` and the next one: column - row */
} tsr__diagonal_attr;

/* Elements of the diagonal of a matrix, within which it lies. */
static inline int64_t tsr__diagonal_length(const tsr__diagonal_attr *attr, int64_t rows,
                                           int64_t columns)
{
  int64_t down = attr->offset < 0 ? rows + attr->offset : rows;
  int64_t right = attr->offset > 0 ? columns - attr->offset : columns;
  return down < right ? down : right;
}

/* The operands of an extreme may be equal: `first` gives the gradient to the first operand then,
 * else each gets half of it. */
typedef struct tsr__tie_attr {
  int64_t first;
} tsr__tie_attr;

typedef struct tsr__index_attr {
  int64_t index; /* arg: the operand of the region's node; result: the result of its operand */
} tsr__index_attr;

/* A slice by dim: `size` elements from `start` on, `step` apart. A step of 0 keeps the dim. */
typedef struct tsr__slice_attr {
  int64_t start[TSR_MAX_RANK], step[TSR_MAX_RANK], size[TSR_MAX_RANK];
} tsr__slice_attr;

typedef struct tsr__order_attr {
  uint8_t dims[TSR_MAX_RANK]; /* by dim of the result: the dim of the operand */
} tsr__order_attr;

typedef struct tsr__pad_attr {
  /* Elements before and after each dim; below 0 as many are cut off. */
  int64_t low[TSR_MAX_RANK], high[TSR_MAX_RANK];
} tsr__pad_attr;

/* Where indices look. Table and indices share the first `batch` dims, so that each element of
 * these has indices of its own; `dim` comes after them.
 *
 *   table [b, 5, 4]   indices [b, 2]   batch 1, dim 1    out[i, j, k] = table[i, index[i, j], k] */
typedef struct tsr__span_attr {
  int64_t dim, more; /* an index counts through the dim and the `more` dims after it as one */
  int64_t batch;
} tsr__span_attr;

typedef struct tsr__scatter_attr {
  int64_t dim, more, batch; /* those of tsr__span_attr */
  int64_t how;              /* tsr_scatter_how */
  int64_t drops;            /* an index out of range is left out, instead of an error */
} tsr__scatter_attr;

enum tsr__within {
  TSR__WITHIN_GATHER,
  TSR__WITHIN_SCATTER,
  TSR__WITHIN_TAKE,
  /* ragged_all_to_all: rows of x, rows of the array that takes them, and numbers of rows. A value
   * below 0 stands as itself less the size. */
  TSR__WITHIN_SENT,
  TSR__WITHIN_PUT,
  TSR__WITHIN_SIZES
};

typedef struct tsr__within_attr {
  int64_t size; /* the size of the dim that the indices count along */
  int64_t dim;  /* the dim */
  int64_t whom; /* tsr__within: the operation whose indices these are */
} tsr__within_attr;

/* A product names the index that runs along each dim, from 1 on, as einsum's letters do. An operand
 * has 0 for a dim of size 1 that no index runs along, the result for a dim that it does not have.
 * Indices that the result lacks are contracted in their order, the last the fastest. A second index
 * may run inside windows along a dim of the left operand: its place is stride * index +
 * dilation * window. */
typedef struct tsr__dot_attr {
  uint8_t left[TSR_MAX_RANK], right[TSR_MAX_RANK], out[TSR_MAX_RANK], window[TSR_MAX_RANK];
  int64_t stride[TSR_MAX_RANK], dilation[TSR_MAX_RANK];
  /* The number of windows along the dim, which partition sets if devices have the windows' dim in
   * blocks of their own. 0: as many windows as fit. */
  int64_t places[TSR_MAX_RANK];
  /* The number of devices that have a part of the sum each, which partition sets if contracted dims
   * are cut. The parts lie along dim 0 of the result, whose index runs in no operand. */
  int64_t parts;
  /* A contracted index, and how far it goes: sums are trees over its leaves (docs/NUMERICS.md), in
   * which it is the slowest. 0: they are chains. */
  int64_t leaf, length;
} tsr__dot_attr;

enum { TSR__LEAF = 32 };

/* Blocks by dim: `items` show `width` elements each, `step` elements from one item to the next. The
 * items are cut over `parts` at the usual borders, and a part has the elements that its items show,
 * as far as the dim has them. 0 parts: the dim lies by its own borders. */
typedef struct tsr__blocks_attr {
  int64_t parts[TSR_MAX_RANK], items[TSR_MAX_RANK], step[TSR_MAX_RANK], width[TSR_MAX_RANK];
} tsr__blocks_attr;

/* The elements along a dim of the largest block; all blocks take as much memory. */
static inline int64_t tsr__block_size(const tsr__blocks_attr *blocks, int dim)
{
  int64_t most = (blocks->items[dim] + blocks->parts[dim] - 1) / blocks->parts[dim];
  return most ? (most - 1) * blocks->step[dim] + blocks->width[dim] : 0;
}

enum { TSR__AXIS_NAME = 32 };

typedef struct tsr__axis_attr {
  char name[TSR__AXIS_NAME]; /* filled up with zeros */
  int64_t size;
  int64_t
      of_mesh; /* its places are devices, and an array that does not vary along it is one array */
} tsr__axis_attr;

enum tsr__tap { TSR__TAP_SHARDING, TSR__TAP_VALUES, TSR__TAP_PRINT };

/* The callback that is shown an array. Pointers are numbers, 0 for none, and part of a plan. */
typedef struct tsr__tap_attr {
  uint64_t fn, user; /* tsr_sharding_fn for tsr__tap SHARDING, else tsr_seen_fn */
  uint64_t format;   /* of a print: one of the runtime's texts */
  uint64_t write;    /* of a print: the tsr_line_fn that takes it */
  int64_t kind;      /* tsr__tap */
  int64_t shards;    /* each device's part instead of the whole */
} tsr__tap_attr;

/* A node whose regions run as often as its operands say (docs/ARCHITECTURE.md). The carries come
 * first among its results, and among its operands that are arrays. */
enum tsr__loop { TSR__LOOP_SCAN, TSR__LOOP_WHILE, TSR__LOOP_SWITCH };

typedef struct tsr__loop_attr {
  int64_t kind;           /* tsr__loop */
  int64_t carries;        /* arrays that each step takes from the one before it */
  int64_t slices;         /* scan: arrays after the carries, of which step k sees element k */
  int64_t count, reverse; /* scan: steps, and whether the last is done first */
} tsr__loop_attr;

/* A `count` of COUNTED is a number of the node, after those of its region, and no part of a plan,
 * as no shape depends on it. */
enum { TSR__COUNTED = -1 };

/* The name that a user gave a value. */
enum { TSR__NAME = 64 };

typedef struct tsr__name_attr {
  char text[TSR__NAME]; /* filled up with zeros */
} tsr__name_attr;

/* The operands of a call with a rule: its arguments, the arrays that its region captured, and those
 * that the rule captured. The rule's region takes the arguments, the results, the cotangents of the
 * results and the arrays that it captured. With `again` there is no rule: the gradient goes through
 * the first region, and the second is a copy of it that is computed again, but for values that are
 * kept. */
typedef struct tsr__custom_attr {
  int64_t arguments, captured, again;
  tsr__name_attr keep[]; /* the names of the values in the first region that a gradient keeps */
} tsr__custom_attr;

/* The size of a family's struct, and one of zeros. `each`: a table follows, of items of so many
 * bytes. */
typedef struct tsr__attr_info {
  uint16_t bytes, each;
  const void *zero;
} tsr__attr_info;

extern const tsr__attr_info tsr__attrs[TSR__ATTR_FAMILIES];

#endif
