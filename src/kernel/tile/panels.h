/* Panels: the packed operands of a matrix product, and the functions on them.
 *
 *   operand   lines x depth, each element wherever it lies      panel   depth x high, dense:
 *             line[i] + step[k]                                         of each k its lines
 *
 * The operands are packed alike, rows of the left and columns of the right being the lines.
 * Products are computed in one of four kinds of numbers, to which packing converts. */
#ifndef TSR_KERNEL_PANELS_H
#define TSR_KERNEL_PANELS_H

#include "topology/topology.h"

/* The kinds of numbers that products are computed in: integers narrower than 32 bits are the ends
 * of wider ones, f16 and bf16 are f32. */
enum tsr__product_kind {
  TSR__PRODUCT_F32,
  TSR__PRODUCT_F64,
  TSR__PRODUCT_U32,
  TSR__PRODUCT_U64,
  TSR__PRODUCT_KINDS
};

/* A block of c, up to a panel's rows by a panel's columns: c += a b, element by element a chain of
 * fused products in order of k. A `b` that lies in memory may be two panels side by side for two
 * rows, and any number of panels for one row. Steps are in elements. */
typedef struct tsr__tile_product {
  void *c;
  int64_t c_row; /* from a row of c to the next */
  const void *a, *b;
  /* NULL: a is a panel; else its rows lie in memory, row i's number of k at line[i] + step[k]. All
   * of a panel's rows are readable, the first `rows` count. */
  const int64_t *line, *step;
  int64_t a_step, b_step; /* from a k to the next of a panel of a, of b */
  int64_t depth;
  int64_t columns; /* whole panels */
  int rows;        /* at most `high` of the kind */
  bool in_place;   /* b is no panel but lies in memory */
  bool fresh;      /* c begins here: with -0, to which anything can be added without a trace */
} tsr__tile_product;

/* A row by columns that lie as lines along the depth, line[i] elements from `from`: c[i] += the
 * chain of a[k] * line i's k. All of TSR__PRODUCT_LINES lines, or of the next multiple of it, are
 * readable; the first `lines` count. */
enum { TSR__PRODUCT_LINES = 16 };
typedef struct tsr__lines_product {
  void *c;
  const void *a, *from;
  const int64_t *line;
  int64_t lines, depth;
  bool fresh; /* like tsr__tile_product's */
} tsr__lines_product;

typedef struct tsr__packing {
  const void *from;
  const int64_t *line, *step;
  const int64_t *run;   /* per k at which a run begins: the steps from there that are one apart */
  int64_t depth, lines; /* whole panels of lines are readable, the first `lines` count */
  int high;
  void *to; /* panels of `high` lines, one after the other */
} tsr__packing;

/* Lines of 64 bytes, `step` elements from each other, become columns: element r of line c goes to
 * place r * pitch + c. */
typedef struct tsr__turning {
  const void *from;
  void *to;
  int64_t step, lines, pitch;
} tsr__turning;

typedef void tsr__pack_fn(const tsr__packing *job);

/* An instruction set's functions for a kind. A panel of the left is `high` rows, of the right
 * `wide` columns. */
typedef struct tsr__products {
  int high, wide;
  void (*product)(const tsr__tile_product *job);
  void (*lines)(const tsr__lines_product *job);
  tsr__pack_fn *pack[TSR__DTYPES]; /* by the operand's dtype; NULL: it is not made narrower */
} tsr__products;

#endif
