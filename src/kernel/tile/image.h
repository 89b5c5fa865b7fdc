/* Inside kernel/ and for who resizes images: rows of pixels, weighted and added.
 *
 *   rows   | r g b x | r g b x | ...     bytes, of which some rows are added: down
 *   sum    | r g b x | r g b x | ...     f32, of which some pixels are added: across
 *   out    | r g b x | r g b x | ...     or | r g b | r g b | ...
 *
 * Pixels have one or four lanes. Each product is rounded, and they are added in order, so that all
 * instruction sets give the same bits. */
#ifndef TSR_KERNEL_IMAGE_H
#define TSR_KERNEL_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

enum { TSR__IMAGE_PAD = 64 }; /* bytes behind a row of bytes, and behind sums, that are touched */

/* What places of a result take from places of a source: `count` lists of at most `most` weights,
 * list i for places first[i] .. first[i] + length[i] - 1. */
typedef struct tsr__taps {
  int count, most;
  int32_t *first, *length;
  float *weight; /* [count * most] */
} tsr__taps;

typedef struct tsr__across {
  const float *sum;
  const tsr__taps *taps;
  int lanes;     /* 1 or 4 */
  bool reversed; /* the last list comes first */
  bool packed;   /* of four lanes three are written */
  float scale[4], bias[4];
} tsr__across;

typedef struct tsr__image_tiles {
  /* sum[i] = weight[0] * row[0][i] + weight[1] * row[1][i] + ... */
  void (*down)(float *sum, const unsigned char *const *row, const float *weight, int rows,
               int64_t n);
  /* out[k] = (the pixels of `sum` that list k says) * scale + bias. */
  void (*across)(float *out, const tsr__across *job);
} tsr__image_tiles;

/* By what the kernels of a runtime run with, `rt->isa`. */
const tsr__image_tiles *tsr__image_tiles_of(const char *isa);

#endif
