/* Accumulators: what a reduction keeps while it runs, and what of it travels. */
#ifndef TSR_GRAPH_ACCUMS_H
#define TSR_GRAPH_ACCUMS_H

#include "graph/graph.h"

/* The rows of accums.def, and what of them others than their functions must know. */
enum tsr__accum_row {
#define ACCUM(id, ...) TSR__ACCUM_##id,
#define CLASS(...)
#include "graph/accums.def"
  TSR__ACCUMS /* how many */
};

enum tsr__takes {
  TSR__TAKES_BITS = 1,
  TSR__TAKES_NATURAL = 2,
  TSR__TAKES_TURNED = 4,
  TSR__TAKES_DOUBLE = 8,
  TSR__TAKES_ORDERED = 16
};

/* A scalar sum of floats travels as 68 words of 32 bits and flags; that of squares has 134 words
 * more, and flags of its own. */
enum { TSR__WIRE_SUM = 276, TSR__WIRE_SQUARES = 816 };

typedef struct tsr__accum_info {
  uint16_t fixed, values; /* on the way: bytes of an element, and how many values of its dtype */
  uint16_t takes;         /* tsr__takes */
} tsr__accum_info;

extern const tsr__accum_info tsr__accum_infos[TSR__ACCUMS];

/* Classes of accumulators, by what reductions need of them. Mean, var and std of a masked or
 * grouped operand use a COUNT of the same mask and codes beside theirs; unmasked ones know their
 * count. */
enum tsr__acc_class {
  TSR__ACC_NONE,
#define ACCUM(...)
#define CLASS(id, ...) TSR__ACC_##id,
#include "graph/accums.def"
  TSR__ACC_CLASSES
};

/* The accumulator of one or more reduction nodes: those with equal row, operands, dims and groups
 * share it. A COUNT has no operand (-1): it counts where the mask (if any) is true. COUNT, ANY and
 * ALL nodes have bool operands; a COUNT node of a bool without a mask counts that bool as its
 * mask. */
typedef struct tsr__accum {
  uint8_t row;   /* tsr__accum_row */
  uint8_t dtype; /* of the operand; of COUNT: i64 */
  uint8_t axes;  /* mesh axes over which partials are combined */
  bool whole;    /* devices have one element each: these travel, and no kernel adds them up */
  bool kept;     /* the operand is such accumulators already, which are to meet */
  int32_t node;  /* the first reduction node that uses it: gives dims, groups, shape */
  int32_t operand, mask, codes;
} tsr__accum;

/* What is read of a reduction's accumulator at the end; all but VALUE divide by a count. */
enum tsr__finish { TSR__FINISH_VALUE, TSR__FINISH_MEAN, TSR__FINISH_VAR, TSR__FINISH_STD };

/* Where partials that meet over axes lie, if their result lies at a place: as it does, but whole
 * along these axes. A result that is cut by them is scattered: each device finishes its part. */
tsr_sharding tsr__partial_place(const tsr_sharding *at, unsigned axes);
bool tsr__is_scattered(const tsr__program *program, const tsr__gnode *node);
/* Whether two reductions that meet over the same axes are scattered alike, or both not. */
bool tsr__scattered_alike(const tsr__program *program, const tsr__gnode *a, const tsr__gnode *b);
enum { TSR__MOST_WHOLE = 64 }; /* devices whose elements meet without partials */
/* Whether a reduction that meets over `axes`, with its operand at a place, has but one element on
 * each device for each of its result. Then it needs no partials: what meets are the elements. */
bool tsr__meets_whole(const tsr__program *program, const tsr__gnode *node,
                      const tsr_sharding *operand, unsigned axes);
/* The accumulators that a node needs, shared or not; returns how many, 0 for no reduction. */
int tsr__accums_of(const tsr__program *program, int node, tsr__accum out[2]);
/* Lists the distinct accumulators of a program in order of their first node; returns how many. One
 * serves nodes of one stage only (`stage`: as tsr__stages).
 * `out` has room for two a reduction node. `of_node[2*node]`, `[2*node+1]` get the indices of
 * its main and its COUNT accumulator, -1 for none. */
int tsr__accums(const tsr__program *program, const int *stage, tsr__accum *out, int *of_node);
/* Bytes that `count` elements of a row take on the way between devices, escapes not counted. */
int64_t tsr__wire_bytes(int row, int dtype, int64_t count);
int64_t tsr__accum_bytes(const tsr__accum *accum, int64_t count);

#endif
