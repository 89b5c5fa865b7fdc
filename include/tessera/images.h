/* Images: encoded ones, as sources have them, to pixels of one size.
 *
 * JPEG is read by libjpeg-turbo and PNG by libspng, in a plugin, tessera_images.so, that lies where
 * the library does or in a folder of TSR_PLUGIN_PATH and is loaded at the first call. */
#ifndef TESSERA_IMAGES_H
#define TESSERA_IMAGES_H

#include "pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which part of an image is taken. */
typedef enum tsr_image_crop {
  TSR_CROP_NONE,   /* all of it, whatever its aspect */
  TSR_CROP_CENTRE, /* the largest box of the result's aspect in the middle, times .share */
  TSR_CROP_RANDOM  /* a box of random area and aspect at a random place */
} tsr_image_crop;

typedef struct tsr_image_args {
  size_t size;
  tsr_source *source TSR_REST_BY_NAME;
  const char *field; /* encoded bytes, u8[n], whose number is the field NAME_length, if there is
                        one; NULL: "image" */
  int height, width; /* of the result; 1 to 65,535 */
  int channels;      /* 3: red, green, blue; 1: grey; 0: 3 */
  tsr_dtype dtype;   /* TSR_U8, or TSR_F32: 0 .. 1, less .mean, over .std; 0: TSR_U8 */
  bool chw;          /* [channels, height, width]; else [height, width, channels] */
  tsr_image_crop crop;
  double share;           /* of CROP_CENTRE: 0 < share <= 1; 0: 1 */
  double area[2];         /* of CROP_RANDOM: the least and the largest share; 0: 0.08 and 1 */
  double aspect[2];       /* and of width by height; 0: 3/4 and 4/3 */
  bool flip;              /* half of the images, by their draws, are mirrored, left is right */
  double mean[3], std[3]; /* of TSR_F32, by channel; .std 0: 1 */
  bool aliased;           /* two neighbours a side even where an image becomes smaller */
  bool as_stored;         /* EXIF's orientation is left alone */
  bool lenient;           /* data that ends early or is damaged shows what there is of it */
  int64_t most_pixels;    /* images with more are refused before they take memory; 0: 2^26 */
  uint64_t seed;          /* of its draws */
} tsr_image_args;

/* Records whose encoded images are pixels: tsr_source_images(source, .height = 224, .width = 224,
 * .crop = TSR_CROP_RANDOM, .flip = true). The pixels take the field's name and stand first; the
 * field NAME_length goes. The image is turned as EXIF says, cut, resized bilinearly (pixels are
 * weighed about their centres, by a triangle as wide as a step of the result where it becomes
 * smaller) and mirrored; of a JPEG only the blocks in the box are decoded. What is random follows
 * from .seed, the epoch and the record's id. Inks (CMYK) become colours without a profile,
 * transparency is dropped, 16 bits are cut to 8. It runs on host threads when a batch is filled.
 * Errors: TSR_EARG, TSR_EDTYPE, TSR_ESHAPE, TSR_EUNSUPPORTED (no plugin; the message names the
 * packages); of reading TSR_EPARSE (no JPEG or PNG, damaged, too large), with the record; damage
 * behind the box is not seen. Returns a source owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_images_with(const tsr_image_args *args, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* tsr_source_images(source, .height = 224, .width = 224) */
#define TSR_SOURCE_IMAGES_(source_, ...) \
  (&(tsr_image_args){ .size = sizeof(tsr_image_args), .source = (source_), __VA_ARGS__ })
#define tsr_source_images(...) tsr_source_images_with(TSR_SOURCE_IMAGES_(__VA_ARGS__, ), TSR_HERE)
#endif

#endif
