/* Images: encoded images of a source decoded to pixels of one size.
 *
 * libjpeg-turbo decodes JPEG and libspng decodes PNG, in the plugin tessera_images.so. The plugin
 * is in the library's folder or in a folder of TSR_PLUGIN_PATH, and is loaded at the first call. */
#ifndef TESSERA_IMAGES_H
#define TESSERA_IMAGES_H

#include "pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The part of an image to use. */
typedef enum tsr_image_crop {
  TSR_CROP_NONE,   /* the whole image, whatever its aspect */
  TSR_CROP_CENTRE, /* the largest centred box of the result's aspect, times .share */
  TSR_CROP_RANDOM  /* a box of random area and aspect at a random position */
} tsr_image_crop;

typedef struct tsr_image_args {
  size_t size;
  tsr_source *source TSR_REST_BY_NAME;
  /* encoded bytes, u8[n], with their number in the field NAME_length, if there is one; NULL:
   * "image" */
  const char *field;
  int height, width; /* of the result; 1 to 65,535 */
  int channels;      /* 3: red, green, blue; 1: grey; 0: 3 */
  tsr_dtype dtype;   /* TSR_U8, or TSR_F32: (x - .mean) / .std of x from 0 to 1; 0: TSR_U8 */
  bool chw;          /* [channels, height, width]; else [height, width, channels] */
  tsr_image_crop crop;
  double share;           /* for CROP_CENTRE: 0 < share <= 1; 0: 1 */
  double area[2];         /* for CROP_RANDOM: the least and the largest share; 0: 0.08 and 1 */
  double aspect[2];       /* for CROP_RANDOM: width / height, least and largest; 0: 3/4 and 4/3 */
  bool flip;              /* mirrors a random half of the images left to right */
  double mean[3], std[3]; /* for TSR_F32, by channel; .std 0: 1 */
  bool aliased;           /* interpolates two neighbours per dim, also where an image shrinks */
  bool as_stored;         /* ignores the EXIF orientation */
  bool lenient;           /* decodes truncated or damaged data as far as possible */
  int64_t most_pixels;    /* images with more pixels are refused before they take memory; 0: 2^26 */
  uint64_t seed;          /* of the random draws */
} tsr_image_args;

/* Returns records with the pixels of their encoded images: tsr_source_images(source, .height = 224,
 * .width = 224, .crop = TSR_CROP_RANDOM, .flip = true). The pixels replace the encoded field and
 * come first; the field NAME_length is dropped. An image is turned by its EXIF orientation,
 * cropped, resized bilinearly and mirrored. Resizing weighs pixels about their centres; where the
 * image shrinks, the weights are a triangle that reaches one pixel of the result to each side. JPEG
 * blocks outside the box are not decoded. Random draws depend on .seed, the epoch and the record's
 * id. CMYK becomes RGB without a colour profile, transparency is dropped, and 16 bits are cut to 8.
 * Decoding runs on host threads when a batch is filled. Errors: TSR_EARG, TSR_EDTYPE, TSR_ESHAPE,
 * TSR_EUNSUPPORTED (no plugin; the message names the packages); of reading TSR_EPARSE (not JPEG or
 * PNG, damaged, too large), with the record; damage after the box goes unseen. The source is owned
 * as `source` is. Local. */
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
