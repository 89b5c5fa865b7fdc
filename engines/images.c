/* The plugin `images`: JPEG by libjpeg-turbo and PNG by libspng.
 *
 *   JPEG   | rows above the window: skipped, their entropy code alone is read
 *          | blocks the window lies in | rows of the window
 *          | rows below: never looked at
 *   PNG    rows above are inflated and dropped; an interlaced image is decoded whole
 *
 * Invariant: libjpeg leaves by longjmp, from `fails`, to where `guard` was set last, which is in
 * the call that is running. */
#include <limits.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>
#include <spng.h>

#include "pipeline/image_plugin.h"

enum {
  EDGE = 2, /* pixels beside a window that its own depend on: colours are of two pixels each */
  EXIF_MOST = 65533
};

struct tsr__image_reader {
  struct jpeg_decompress_struct jpeg; /* first: libjpeg gives its address back */
  struct jpeg_error_mgr error;
  struct jpeg_progress_mgr progress;
  jmp_buf guard;
  char why[TSR__IMAGES_WHY];
  tsr__image_ask ask;
  tsr__image_box window;
  int height, width;
  int skip;      /* bytes of a decoded row before the window */
  bool direct;   /* rows are decoded where they are wanted, what is beside the window into slack */
  bool made;     /* jpeg */
  bool inverted; /* inks of Adobe's, which are stored so */
  bool heads;    /* a JPEG's header is read */
  spng_ctx *png; /* of the image that is read; NULL: it is a JPEG, or none */
  unsigned char *chunks; /* a PNG without those that no pixel needs */
  size_t chunks_room;
  bool whole; /* `rows` has all rows, of which `next` is the next one */
  unsigned char *rows;
  size_t room;
  int next;
};

static bool refuse(tsr__image_reader *r, const char *what, const char *why)
{
  snprintf(r->why, sizeof r->why, "%s: %s", what, why);
  return false;
}

/* Sizes are looked at before memory is taken for them. */
static bool fits(tsr__image_reader *r, const char *what, uint32_t height, uint32_t width)
{
  if (height && width && height <= INT_MAX / 4 && width <= INT_MAX / 8 &&
      (int64_t)height * width <= r->ask.most_pixels) {
    r->height = (int)height;
    r->width = (int)width;
    return true;
  }
  snprintf(r->why, sizeof r->why,
           "%s: %lu x %lu pixels, expected %lld together at most "
           "(.most_pixels)",
           what, (unsigned long)height, (unsigned long)width, (long long)r->ask.most_pixels);
  return false;
}

static bool has_room(tsr__image_reader *r, const char *what, size_t bytes)
{
  if (bytes <= r->room) return true;
  free(r->rows);
  r->rows = malloc(bytes);
  r->room = r->rows ? bytes : 0;
  if (r->rows) return true;
  snprintf(r->why, sizeof r->why, "%s: no memory for %zu bytes", what, bytes);
  return false;
}

/* ---- EXIF ------------------------------------------------------------------------------------ */

typedef struct exif {
  const unsigned char *data;
  size_t size;
  bool big;
} exif;

static uint32_t exif_word(const exif *e, size_t at, size_t bytes)
{
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; i++)
    value |= (uint32_t)e->data[at + i] << 8 * (e->big ? bytes - 1 - i : i);
  return value;
}

/* The orientation of a TIFF header, 1 where none is told. */
static int orientation_in(const unsigned char *data, size_t size)
{
  exif e = { data, size, false };
  if (size < 8 || (memcmp(data, "II", 2) != 0 && memcmp(data, "MM", 2) != 0)) return 1;
  e.big = data[0] == 'M';
  size_t at = exif_word(&e, 4, 4);
  if (at < 8 || at > size - 2) return 1;
  uint32_t count = exif_word(&e, at, 2);
  for (at += 2; count && size >= 12 && at <= size - 12; count--, at += 12) {
    if (exif_word(&e, at, 2) != 0x0112 || exif_word(&e, at + 2, 2) != 3) continue;
    uint32_t value = exif_word(&e, at + 8, 2);
    return value >= 1 && value <= 8 ? (int)value : 1;
  }
  return 1;
}

/* ---- JPEG ------------------------------------------------------------------------------------ */

static void fails(j_common_ptr jpeg)
{
  tsr__image_reader *r = (tsr__image_reader *)jpeg;
  char text[JMSG_LENGTH_MAX];
  r->error.format_message(jpeg, text);
  refuse(r, "JPEG", text);
  longjmp(r->guard, 1);
}

/* What costs no pixel: words of a header that nobody needs, and bytes between its parts. Bytes that
 * are left over behind pixels are another thing: what was read before them is damaged. */
static bool is_harmless(const tsr__image_reader *r)
{
  int code = r->error.msg_code;
  return code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM ||
         (code == JWRN_EXTRANEOUS_DATA && r->heads);
}

static void warns(j_common_ptr jpeg, int level)
{
  tsr__image_reader *r = (tsr__image_reader *)jpeg;
  if (level < 0 && !r->ask.lenient && !is_harmless(r)) fails(jpeg);
}

static void says_nothing(j_common_ptr jpeg)
{
  (void)jpeg;
}

/* A few bytes may ask for any number of scans over a large image. */
static void counts_scans(j_common_ptr jpeg)
{
  tsr__image_reader *r = (tsr__image_reader *)jpeg;
  if (r->jpeg.input_scan_number <= TSR__IMAGES_SCANS) return;
  snprintf(r->why, sizeof r->why, "JPEG: more than %d scans", (int)TSR__IMAGES_SCANS);
  longjmp(r->guard, 1);
}

static bool make_jpeg(tsr__image_reader *r)
{
  r->jpeg.err = jpeg_std_error(&r->error);
  r->error.error_exit = fails;
  r->error.emit_message = warns;
  r->error.output_message = says_nothing;
  if (setjmp(r->guard)) return false;
  jpeg_create_decompress(&r->jpeg);
  r->progress.progress_monitor = counts_scans;
  r->jpeg.progress = &r->progress;
  jpeg_save_markers(&r->jpeg, JPEG_APP0 + 1, EXIF_MOST);
  return r->made = true;
}

static bool look_jpeg(tsr__image_reader *r, tsr__image_head *head)
{
  static const unsigned char mark[6] = "Exif";
  if (!r->made && !make_jpeg(r)) return false;
  r->heads = true;
  if (setjmp(r->guard)) return false;
  jpeg_mem_src(&r->jpeg, r->ask.data, (unsigned long)r->ask.size);
  jpeg_read_header(&r->jpeg, TRUE);
  r->heads = false;
  if (!fits(r, "JPEG", r->jpeg.image_height, r->jpeg.image_width)) return false;
  *head = (tsr__image_head){ r->height, r->width, 1 };
  for (jpeg_saved_marker_ptr m = r->jpeg.marker_list; m; m = m->next)
    if (m->data_length > sizeof mark && !memcmp(m->data, mark, sizeof mark)) {
      head->orientation = orientation_in(m->data + sizeof mark, m->data_length - sizeof mark);
      break;
    }
  return true;
}

/* Inks have no conversion in libjpeg: they are read as they are. */
static void choose_colours(tsr__image_reader *r)
{
  J_COLOR_SPACE space = r->jpeg.jpeg_color_space;
  if (space == JCS_CMYK || space == JCS_YCCK) r->jpeg.out_color_space = JCS_CMYK;
  else r->jpeg.out_color_space = r->ask.lanes == 1 ? JCS_GRAYSCALE : JCS_EXT_RGBX;
  r->inverted = r->jpeg.saw_Adobe_marker;
}

static bool begin_jpeg(tsr__image_reader *r)
{
  const tsr__image_box *w = &r->window;
  if (setjmp(r->guard)) return false;
  choose_colours(r);
  jpeg_start_decompress(&r->jpeg);
  int left = w->left > EDGE ? w->left - EDGE : 0;
  int right = w->left + w->width + EDGE < r->width ? w->left + w->width + EDGE : r->width;
  JDIMENSION first = (JDIMENSION)left, columns = (JDIMENSION)(right - left);
  if (columns < (JDIMENSION)r->width) jpeg_crop_scanline(&r->jpeg, &first, &columns);
  if (w->top) jpeg_skip_scanlines(&r->jpeg, (JDIMENSION)w->top);
  r->skip = (w->left - (int)first) * r->jpeg.output_components;
  int behind = ((int)(first + columns) - w->left - w->width) * r->jpeg.output_components;
  r->direct = r->jpeg.out_color_space != JCS_CMYK && r->skip <= TSR__IMAGES_SLACK &&
              behind <= TSR__IMAGES_SLACK;
  return has_room(r, "JPEG", (size_t)columns * (size_t)r->jpeg.output_components);
}

static unsigned char share(int a, int b)
{
  return (unsigned char)((a * b + 127) / 255);
}

static unsigned char grey_of(const unsigned char *colour)
{
  return (unsigned char)((colour[0] * 19595 + colour[1] * 38470 + colour[2] * 7471 + 0x8000) >> 16);
}

/* Four inks to colours, in place or to grey. */
static void unink(const tsr__image_reader *r, unsigned char *to, const unsigned char *from)
{
  for (int x = 0; x < r->window.width; x++, from += 4) {
    unsigned char colour[4];
    int flip = r->inverted ? 0 : 255, k = from[3] ^ flip;
    for (int i = 0; i < 3; i++) colour[i] = share(from[i] ^ flip, k);
    colour[3] = 255;
    if (r->ask.lanes == 1) to[x] = grey_of(colour);
    else memcpy(to + 4 * (size_t)x, colour, 4);
  }
}

static bool row_jpeg(tsr__image_reader *r, unsigned char *to)
{
  JSAMPROW row = r->direct ? to - r->skip : r->rows;
  if (setjmp(r->guard)) return false;
  if (jpeg_read_scanlines(&r->jpeg, &row, 1) != 1) return refuse(r, "JPEG", "a row is missing");
  if (r->direct) return true;
  const unsigned char *from = r->rows + r->skip;
  if (r->jpeg.out_color_space == JCS_CMYK) unink(r, to, from);
  else memcpy(to, from, (size_t)r->window.width * (size_t)r->ask.lanes);
  return true;
}

/* ---- PNG ------------------------------------------------------------------------------------- */

static bool says(tsr__image_reader *r, int code)
{
  return refuse(r, "PNG", spng_strerror(code));
}

/* A part of a PNG: length (4) | name (4) | bytes | CRC (4) */
typedef struct chunk {
  const unsigned char *at; /* of all of it */
  size_t size, whole;      /* of its bytes, and of all that is there */
} chunk;

static uint32_t big_word(const unsigned char *at)
{
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The chunk at a place, as far as it is there; false: not even its name is. */
static bool chunk_at(const tsr__image_reader *r, size_t at, chunk *out)
{
  size_t left = r->ask.size - at;
  if (left < 8) return false;
  *out = (chunk){ .at = r->ask.data + at, .size = big_word(r->ask.data + at) };
  out->whole = left - 8 < 4 || out->size > left - 12 ? left : out->size + 12;
  return true;
}

/* As a name's first letter says. */
static bool is_needed(const chunk *c)
{
  return !(c->at[4] & 0x20);
}

static bool is_sound(const chunk *c)
{
  uint32_t crc = 0xFFFFFFFF;
  if (c->whole != c->size + 12) return false;
  for (size_t i = 4; i < c->size + 8; i++) {
    crc ^= c->at[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return ~crc == big_word(c->at + 8 + c->size);
}

/* The orientation, which may be told behind the pixels as well; 0: what tells it is damaged. */
static int orientation_png(const tsr__image_reader *r)
{
  chunk c;
  for (size_t at = 8; chunk_at(r, at, &c); at += c.whole) {
    if (memcmp(c.at + 4, "eXIf", 4) != 0) continue;
    if (is_sound(&c)) return orientation_in(c.at + 8, c.size);
    return r->ask.lenient ? 1 : 0;
  }
  return 1;
}

/* Texts, profiles and the like take memory where they are read, and none of them is a pixel: the
 * decoder gets what is left without them. `size` is of that; NULL: no memory. */
static const unsigned char *needed_chunks(tsr__image_reader *r, size_t *size)
{
  chunk c;
  bool all = true;
  for (size_t at = 8; all && chunk_at(r, at, &c); at += c.whole) all = is_needed(&c);
  *size = r->ask.size;
  if (all) return r->ask.data;
  if (r->chunks_room < r->ask.size) {
    free(r->chunks);
    r->chunks = malloc(r->ask.size);
    r->chunks_room = r->chunks ? r->ask.size : 0;
    if (!r->chunks) return NULL;
  }
  size_t used = r->ask.size < 8 ? r->ask.size : 8, at = used;
  memcpy(r->chunks, r->ask.data, used);
  for (; chunk_at(r, at, &c); at += c.whole) {
    if (!is_needed(&c)) continue;
    memcpy(r->chunks + used, c.at, c.whole);
    used += c.whole;
  }
  *size = used;
  return r->chunks;
}

static bool look_png(tsr__image_reader *r, tsr__image_head *head)
{
  struct spng_ihdr ihdr;
  size_t size;
  const unsigned char *chunks = needed_chunks(r, &size);
  r->png = chunks ? spng_ctx_new(r->ask.lenient ? SPNG_CTX_IGNORE_ADLER32 : 0) : NULL;
  if (!r->png) return refuse(r, "PNG", "no memory");
  if (r->ask.lenient) spng_set_crc_action(r->png, SPNG_CRC_USE, SPNG_CRC_USE);
  spng_set_image_limits(r->png, INT_MAX / 8, INT_MAX / 4);
  int code = spng_set_png_buffer(r->png, chunks, size);
  if (!code) code = spng_get_ihdr(r->png, &ihdr);
  if (code) return says(r, code);
  if (!fits(r, "PNG", ihdr.height, ihdr.width)) return false;
  r->whole = ihdr.interlace_method != SPNG_INTERLACE_NONE;
  *head = (tsr__image_head){ r->height, r->width, orientation_png(r) };
  return head->orientation ? true : refuse(r, "PNG", "its eXIf is damaged");
}

static bool begin_png(tsr__image_reader *r)
{
  size_t row = (size_t)r->width * 4, rows = r->whole ? (size_t)r->height : 1;
  if (!has_room(r, "PNG", row * rows)) return false;
  int code = spng_decode_image(r->png, r->whole ? r->rows : NULL, r->whole ? row * rows : 0,
                               SPNG_FMT_RGBA8, r->whole ? 0 : SPNG_DECODE_PROGRESSIVE);
  r->skip = r->window.left * 4;
  r->next = r->window.top;
  for (int y = 0; !r->whole && !code && y < r->window.top; y++)
    code = spng_decode_row(r->png, r->rows, row);
  return !code || says(r, code);
}

static bool row_png(tsr__image_reader *r, unsigned char *to)
{
  size_t row = (size_t)r->width * 4;
  const unsigned char *from = r->rows + r->skip;
  int code = 0;
  if (r->whole) from += row * (size_t)r->next++;
  else code = spng_decode_row(r->png, r->rows, row);
  if (code && code != SPNG_EOI) return says(r, code);
  if (r->ask.lanes == 4) memcpy(to, from, (size_t)r->window.width * 4);
  for (int x = 0; x < r->window.width && r->ask.lanes == 1; x++) to[x] = grey_of(from + 4 * x);
  return true;
}

/* ---- both ------------------------------------------------------------------------------------ */

static tsr__image_reader *open_reader(void)
{
  return calloc(1, sizeof(tsr__image_reader));
}

static void end_image(tsr__image_reader *r)
{
  spng_ctx_free(r->png);
  r->png = NULL;
  if (r->made) jpeg_abort_decompress(&r->jpeg);
}

static void close_reader(tsr__image_reader *r)
{
  if (!r) return;
  end_image(r);
  if (r->made) jpeg_destroy_decompress(&r->jpeg);
  free(r->chunks);
  free(r->rows);
  free(r);
}

static bool look(tsr__image_reader *r, const tsr__image_ask *ask, tsr__image_head *head)
{
  static const unsigned char jpeg[3] = { 0xff, 0xd8, 0xff }, png[4] = { 0x89, 'P', 'N', 'G' };
  end_image(r);
  r->ask = *ask;
  r->why[0] = 0;
  const unsigned char *d = ask->data;
  if (ask->size >= sizeof jpeg && !memcmp(d, jpeg, sizeof jpeg)) return look_jpeg(r, head);
  if (ask->size >= sizeof png && !memcmp(d, png, sizeof png)) return look_png(r, head);
  if (ask->size < sizeof png)
    snprintf(r->why, sizeof r->why, "%zu bytes, expected those of a JPEG or PNG", ask->size);
  else
    snprintf(r->why, sizeof r->why,
             "it begins with %02x %02x %02x %02x, which is neither JPEG nor "
             "PNG",
             d[0], d[1], d[2], d[3]);
  return false;
}

static bool begin(tsr__image_reader *r, const tsr__image_box *window)
{
  r->window = *window;
  return r->png ? begin_png(r) : begin_jpeg(r);
}

static bool row(tsr__image_reader *r, unsigned char *to)
{
  return r->png ? row_png(r, to) : row_jpeg(r, to);
}

static const char *why(const tsr__image_reader *r)
{
  return r->why;
}

__attribute__((visibility("default"))) const tsr__image_calls *tessera_images(void)
{
  static const tsr__image_calls calls = {
    TSR__IMAGES_VERSION, open_reader, close_reader, look, begin, row, end_image, why,
  };
  return &calls;
}
