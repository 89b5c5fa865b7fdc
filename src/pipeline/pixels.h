/* Inside pipeline/: one encoded image to pixels of a given size.
 *
 *   stored    | . . . . . . |             upright     a box of it      result
 *   rows of   | . [ box ] . |  down and   (as EXIF -> of any size  ->  height x width,
 *   the box   | . . . . . . |  across      says)                       mirrored or not
 *
 * Rows of the box come one by one from the reader into a ring of as many rows as one row of the
 * result is made of. Turns and mirrors are strides of the result. */
#ifndef TSR_PIPELINE_PIXELS_H
#define TSR_PIPELINE_PIXELS_H

#include "base/base.h"
#include "kernel/tile/image.h"
#include "pipeline/image_plugin.h"

/* What every record's image becomes. */
typedef struct tsr__image_plan {
  const tsr__image_calls *calls;
  const tsr__image_tiles *tiles;
  int height, width, channels;
  bool f32, planes; /* planes: [channels, height, width] */
  bool aliased, lenient, as_stored;
  int64_t most_pixels;
  float scale[4], bias[4]; /* of f32, on 0 .. 255 */
  /* Where the box comes from. */
  enum { TSR__BOX_ALL, TSR__BOX_CENTRE, TSR__BOX_RANDOM } box;
  double share;              /* CENTRE */
  double area[2], aspect[2]; /* RANDOM */
  bool flips;
} tsr__image_plan;

/* What one thread needs at a time. */
typedef struct tsr__image_bench {
  struct tsr__image_bench *next;
  tsr__heap *heap;
  tsr__image_reader *reader;
  char *encoded;    /* a record's field, of which `length` bytes are the image */
  const char *lent; /* where it lies in memory instead; NULL: nowhere */
  int64_t length;
  size_t encoded_size;
  char *room;
  size_t size;
} tsr__image_bench;

/* One record's image. */
typedef struct tsr__image_one {
  tsr__image_ask ask;
  uint64_t draw; /* decides about box and mirror */
  void *out;
} tsr__image_one;

/* Decodes one image. TSR_EPARSE for what is no image, or damaged; TSR_ENOMEM. */
tsr_status tsr__image_make(const tsr__image_plan *plan, tsr__image_bench *bench,
                           const tsr__image_one *one, tsr__error *error);

#endif
