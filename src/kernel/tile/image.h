/* Inside kernel/ and for who resizes images: rows of pixels, weighted and added.
 *
 *   rows   | r g b x | r g b x | ...     bytes, of which some rows are added: down
 *   sum    | r g b x | r g b x | ...     f32, of which some pixels are added: across
 *   out    | r g b x | r g b x | ...     or | r g b | r g b | ...
 *
 * Pixels have one or four lanes. Weights across are the same in all rows, so that four sums go
 * together: with four lanes pixel x of row r is at 16 x + 4 r. Each product is rounded, and they
 * are added in order, so that all instruction sets give the same bits. */
#ifndef TSR_KERNEL_IMAGE_H
#define TSR_KERNEL_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TSR__IMAGE_PAD = 64 }; /* bytes after a row of bytes, and after sums, that are touched */

/* Factors and addends of bytes: element i takes i mod TSR__SCALED of each, so that up to four
 * channels come round. */
enum { TSR__SCALED = 48 };
typedef struct tsr__scaling {
  float by[TSR__SCALED], plus[TSR__SCALED];
} tsr__scaling;

/* Weights of a result's places on a source's places: `count` lists of at most `most` weights, list
 * i for places first[i] .. first[i] + length[i] - 1. */
typedef struct tsr__taps {
  int count, most;
  int32_t *first, *length;
  float *weight; /* [count * most] */
} tsr__taps;

enum { TSR__IMAGE_ROWS = 4 }; /* sums that go across together, at most */

typedef struct tsr__down {
  const unsigned char *const *row;
  const float *weight;
  int rows;
  int64_t n; /* bytes of a row */
  int place; /* the sum's place among those that go across together; -1: it lies alone */
} tsr__down;

typedef struct tsr__across {
  const float *sum;
  int64_t line;   /* with one lane: from one sum to the next */
  int rows;       /* sums that there are */
  ptrdiff_t step; /* from a row of the result to the next */
  const tsr__taps *taps;
  int lanes;     /* 1 or 4 */
  bool reversed; /* the last list comes first */
  bool packed;   /* three of four lanes are written */
  float scale[4], bias[4];
} tsr__across;

typedef struct tsr__image_tiles {
  /* sum[i] = weight[0] * row[0][i] + weight[1] * row[1][i] + ... */
  void (*down)(float *sum, const tsr__down *job);
  /* out[k] = (the pixels of `sum` that list k says) * scale + bias, of each row. */
  void (*across)(float *out, const tsr__across *job);
  /* out[i] = from[i] * by[i] + plus[i]. */
  void (*scaled)(float *out, const unsigned char *from, int64_t n, const tsr__scaling *scaling);
} tsr__image_tiles;

/* The functions for the instruction set of a runtime, `rt->isa`. */
const tsr__image_tiles *tsr__image_tiles_of(const char *isa);

#endif
