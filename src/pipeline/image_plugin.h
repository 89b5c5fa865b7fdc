/* Level 8: what reads images, which stands on libraries of their own.
 *
 * tessera_images.so is loaded when images are decoded; nothing here is linked with what it stands
 * on. Its one symbol is tessera_images. A reader is of one thread at a time and reads one image
 * after the other, and of each only the rows and columns of a window:
 *
 *   look     the header: size and orientation
 *   begin    a window
 *   row      its rows, from the top, each asked for once
 *   end      from any state
 *
 * Pixels are one byte of grey, or four bytes, of which the first three are red, green and blue. */
#ifndef TSR_PIPELINE_IMAGE_PLUGIN_H
#define TSR_PIPELINE_IMAGE_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  TSR__IMAGES_VERSION = 2,
  TSR__IMAGES_WHY = 256,   /* room for what went wrong, in words */
  TSR__IMAGES_SLACK = 128, /* bytes in front of a row and behind it that reading it may change */
  TSR__IMAGES_SCANS = 500  /* of a progressive JPEG, at most */
};

typedef struct tsr__image_reader tsr__image_reader;

typedef struct tsr__image_ask {
  const unsigned char *data;
  size_t size;
  int lanes;           /* 1: grey, 4: colours */
  bool lenient;        /* what is only warned of is read as it is */
  int64_t most_pixels; /* what has more is refused before it takes memory */
} tsr__image_ask;

typedef struct tsr__image_head {
  int height, width; /* as stored */
  int orientation;   /* 1 to 8, as EXIF numbers them */
} tsr__image_head;

typedef struct tsr__image_box {
  int top, left, height, width;
} tsr__image_box;

typedef struct tsr__image_calls {
  uint32_t version;                 /* TSR__IMAGES_VERSION */
  tsr__image_reader *(*open)(void); /* NULL: no memory */
  void (*close)(tsr__image_reader *reader);
  /* These are false with `why` set. The data stays until `end`. */
  bool (*look)(tsr__image_reader *reader, const tsr__image_ask *ask, tsr__image_head *head);
  bool (*begin)(tsr__image_reader *reader, const tsr__image_box *window);
  bool (*row)(tsr__image_reader *reader, unsigned char *to);
  void (*end)(tsr__image_reader *reader);
  const char *(*why)(const tsr__image_reader *reader);
} tsr__image_calls;

/* What the plugin has. */
const tsr__image_calls *tessera_images(void);

#endif
