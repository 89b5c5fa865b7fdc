/* Encoded images to pixels: files of every kind against Pillow's pixels (golden/make_images.py),
 * and laws among results. Runs at each ISA. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include <zlib.h>

#include "harness.h"
#include "support/record_writer.h"
#include "tessera.h"

#ifndef TEST_PLUGINS
#define TEST_PLUGINS NULL
#endif

enum { HEIGHT = 20, WIDTH = 24, CASES = 46, RAMPS = 44 };

static tsr_source *golden(tsr_scope *s)
{
  const char *plugins = TEST_PLUGINS;
  if (!plugins) SKIP("libjpeg62-turbo-dev or libspng-dev was not there");
  setenv("TSR_PLUGIN_PATH", plugins, 0);
  tsr_source *all = tsr_source_npz(s, test_file("golden/files/images.npz"));
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  return all;
}

/* All of a field, in order of the records; the caller frees it. */
static void *read_all(tsr_source *source, const char *field, int64_t batch, int threads)
{
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = batch, .threads = threads);
  tsr_scope *s = NULL;
  char *all = NULL;
  size_t used = 0;
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    tsr_array *x = tsr_batch_field(b, field);
    tsr_shape shape = tsr_shape_of(x);
    size_t bytes = tsr_dtype_size(tsr_dtype_of(x));
    for (int d = 0; d < shape.rank; d++) bytes *= (size_t)shape.dims[d];
    s = tsr_batch_scope(b);
    all = realloc(all, used + bytes + 1);
    CHECK_STATUS(tsr_read(x, all + used, bytes), TSR_OK, s);
    used += bytes;
  }
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  return all;
}

static tsr_source *only(tsr_source *all, int64_t record)
{
  return tsr_source_slice(tsr_source_select(all, "image,image_length"),
                          TSR_RANGE(record, record + 1));
}

/* ---- against Pillow -------------------------------------------------------------------------- */

/* Pillow rounds between its two passes and has another libjpeg: 2 of 255 apart at most, and of
 * inks or grey, which it makes of rounded colours, 3. */
static void check_near(const unsigned char *found, const unsigned char *expected, int64_t bytes,
                       int most)
{
  int64_t size = bytes / CASES;
  for (int64_t r = 0; r < CASES; r++) {
    int64_t sum = 0;
    for (int64_t i = r * size; i < (r + 1) * size; i++) {
      int apart = abs(found[i] - expected[i]);
      if (apart > most)
        FAIL("record %lld, byte %lld: %d, expected %d", (long long)r, (long long)(i - r * size),
             found[i], expected[i]);
      sum += apart;
    }
    if (sum > size / 2)
      FAIL("record %lld is %g apart in the mean", (long long)r, (double)sum / (double)size);
  }
}

TEST(as_pillow_has_them)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *all = golden(s);
  CHECK_I64(tsr_source_count(all), CASES);
  tsr_source *made = tsr_source_images(all, .height = HEIGHT, .width = WIDTH);
  CHECK_STR_HAS(tsr_source_text(made), "images(image u8[20,24,3]; all, seed=0)");
  unsigned char *found = read_all(made, "image", 7, 2), *expected = read_all(all, "colour", 7, 2);
  check_near(found, expected, CASES * HEIGHT * WIDTH * 3, 3);
  free(found);
  free(expected);
  made = tsr_source_images(all, .height = HEIGHT, .width = WIDTH, .channels = 1);
  found = read_all(made, "image", 5, -1), expected = read_all(all, "grey", 5, -1);
  check_near(found, expected, CASES * HEIGHT * WIDTH, 3);
  free(found);
  free(expected);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- laws ------------------------------------------------------------------------------------ */

/* Planes of f32 are pixels of f32 turned, and both the bytes before they were rounded. */
TEST(layouts_and_types_agree)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *all = golden(s);
  enum { PIXELS = HEIGHT * WIDTH };
  unsigned char *bytes =
      read_all(tsr_source_images(all, .height = HEIGHT, .width = WIDTH), "image", 9, -1);
  tsr_image_args args = { .size = sizeof args,
                          .source = all,
                          .height = HEIGHT,
                          .width = WIDTH,
                          .dtype = TSR_F32,
                          .mean = { 0.5, 0.25, 0 },
                          .std = { 0.5, 2, 0 } };
  float *pixels = read_all(tsr_source_images_with(&args, TSR_HERE), "image", 9, -1);
  args.chw = true;
  float *planes = read_all(tsr_source_images_with(&args, TSR_HERE), "image", 9, -1);
  for (int64_t i = 0; i < (int64_t)CASES * PIXELS; i++)
    for (int c = 0; c < 3; c++) {
      float x = pixels[i * 3 + c];
      double mean = args.mean[c], std = c == 2 ? 1 : args.std[c];
      CHECK_F32_BITS(planes[(i / PIXELS * 3 + c) * PIXELS + i % PIXELS], x);
      CHECK(fabs((x * std + mean) * 255 - bytes[i * 3 + c]) < 0.5001);
    }
  free(bytes);
  free(pixels);
  free(planes);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* What is decoded of a window alone is what the whole image has there: the middle of 37 x 53. */
TEST(windows_are_parts_of_the_whole)
{
  enum { H = 37, W = 53 };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *all = golden(s);
  for (int64_t record = 0; record < 16; record++) {
    if (record == 6 || record == 7) continue; /* of another size */
    bool turned = record >= 8 + 4;
    int h = turned ? W : H, w = turned ? H : W;
    tsr_source *one = only(all, record);
    unsigned char *whole =
        read_all(tsr_source_images(one, .height = h, .width = w), "image", 1, -1);
    for (int side = 1; side <= H; side++) {
      tsr_source *part = tsr_source_images(one, .height = side, .width = side,
                                           .crop = TSR_CROP_CENTRE, .share = (double)side / H);
      unsigned char *found = read_all(part, "image", 1, -1);
      int top = (h - side) / 2, left = (w - side) / 2;
      for (int y = 0; y < side; y++)
        CHECK_BYTES(found + (size_t)(y * side * 3),
                    whole + ((size_t)(top + y) * (size_t)w + (size_t)left) * 3, (size_t)side * 3);
      free(found);
    }
    free(whole);
  }
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static tsr_source *drawn_of(tsr_source *all, uint64_t seed, bool flip)
{
  return tsr_source_images(all, .height = HEIGHT, .width = WIDTH, .crop = TSR_CROP_RANDOM,
                           .flip = flip, .dtype = TSR_F32, .seed = seed);
}

/* Threads and batches do not show; half are mirrored, in every bit. */
TEST(draws_follow_from_the_record)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *all = golden(s);
  enum { LINE = WIDTH * 3, IMAGE = HEIGHT * LINE };
  int mirrored = 0, differ = 0;
  float *plain = read_all(drawn_of(all, 7, false), "image", 1, -1);
  float *found = read_all(drawn_of(all, 7, true), "image", 1, -1);
  for (int threads = 1; threads <= 3; threads++) {
    float *same = read_all(drawn_of(all, 7, true), "image", 5 * threads, threads);
    CHECK_BYTES(same, found, CASES * IMAGE * sizeof *same);
    free(same);
  }
  for (int r = 0; r < CASES; r++) {
    const float *x = plain + (size_t)r * IMAGE, *y = found + (size_t)r * IMAGE;
    if (!memcmp(x, y, IMAGE * sizeof *x)) continue;
    mirrored++;
    for (int at = 0; at < IMAGE; at++) {
      int line = at / LINE, column = at % LINE / 3;
      CHECK_F32_BITS(y[at], x[line * LINE + (WIDTH - 1 - column) * 3 + at % 3]);
    }
  }
  CHECK(mirrored > CASES / 4 && mirrored < CASES * 3 / 4);
  float *other = read_all(drawn_of(all, 8, false), "image", 4, -1);
  for (int r = 0; r < CASES; r++)
    differ +=
        memcmp(plain + (size_t)r * IMAGE, other + (size_t)r * IMAGE, sizeof(float[IMAGE])) != 0;
  CHECK(differ > CASES * 9 / 10);
  free(plain);
  free(found);
  free(other);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* The two pixels of a record's row or column, epoch after epoch. */
static float *corners(tsr_source *one, int64_t epochs)
{
  float *all = malloc((size_t)epochs * 4 * sizeof *all);
  tsr_source *made = tsr_source_images(one, .height = 2, .width = 2, .channels = 1,
                                       .dtype = TSR_F32, .crop = TSR_CROP_RANDOM, .seed = 3);
  tsr_pipeline *p = tsr_pipeline_open(made, .epochs = epochs);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b))
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "image"), all + tsr_batch_epoch(b) * 4,
                          4 * sizeof *all),
                 TSR_OK, tsr_batch_scope(b));
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  return all;
}

/* A ramp that is cut shows where: areas and aspects of the boxes lie where they should. */
TEST(random_boxes)
{
  enum { SIDE = 256, RECORDS = 400 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *all = golden(s);
  float *corner[2] = { NULL };
  for (int down = 0; down < 2; down++) {
    /* The same id for both, and so the same boxes. */
    tsr_source *ramps = tsr_source_select(all, "image,image_length");
    tsr_source *one = tsr_source_slice(ramps, TSR_RANGE(RAMPS + down, RAMPS + down + 1));
    tsr_source_field of[2];
    void *data[2] = { read_all(one, "image", 1, -1), read_all(one, "image_length", 1, -1) };
    for (int f = 0; f < 2; f++) {
      tsr_record_field field = tsr_source_field_of(one, f);
      of[f] = (tsr_source_field){ field.name, field.dtype, field.shape, data[f] };
    }
    corner[down] = corners(tsr_source_memory_at(s, 1, of, 2, TSR_HERE), RECORDS);
    free(data[0]);
    free(data[1]);
  }
  double least = 1, most = 0, mean = 0, thin = 9, wide = 0;
  for (int r = 0; r < RECORDS; r++) {
    /* Of two pixels, each is the mean of its half, weighed by a triangle: they are 5/12 of the box
     * apart, nearly. */
    double w = (double)(corner[0][r * 4 + 1] - corner[0][r * 4]) * 255 / SIDE;
    double h = (double)(corner[1][r * 4 + 2] - corner[1][r * 4]) * 255 / SIDE;
    double area = w * h, aspect = w / h;
    CHECK(w > 0 && h > 0);
    least = fmin(least, area), most = fmax(most, area), mean += area / RECORDS;
    thin = fmin(thin, aspect), wide = fmax(wide, aspect);
  }
  /* Areas are drawn evenly from 8 % on; of large ones only those that fit stay. */
  double whole = 25.0 / 144;
  CHECK(least > 0.07 * whole && least < 0.12 * whole);
  CHECK(most > 0.85 * whole && most < 1.1 * whole);
  CHECK(mean > 0.40 * whole && mean < 0.60 * whole);
  CHECK(thin > 0.72 && thin < 0.8 && wide < 1.37 && wide > 1.25);
  free(corner[0]);
  free(corner[1]);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- bad input ------------------------------------------------------------------------------- */

/* One record of so many bytes that is damaged: the status and what its message has. */
static void refused_as(tsr_scope *outer, const unsigned char *bytes, int64_t length, bool lenient,
                       const char *part)
{
  tsr_scope *s = tsr_scope_open(outer);
  tsr_source *one = tsr_source_memory(s, 1, { "image", TSR_U8, TSR_SHAPE(length), bytes });
  tsr_source *made = tsr_source_images(one, .height = 8, .width = 8, .lenient = lenient);
  tsr_pipeline *p = tsr_pipeline_open(made, .threads = -1);
  tsr_batch *b = tsr_pipeline_next(p);
  CHECK(!b == !!part);
  if (part) {
    CHECK_I64(tsr_scope_status(s), TSR_EPARSE);
    CHECK_STR_HAS(tsr_message(s), "image: record 0 of epoch 0: ");
    CHECK_STR_HAS(tsr_message(s), part);
  }
  tsr_batch_release(b);
  CHECK_I64(tsr_pipeline_close(p), part ? TSR_EPARSE : TSR_OK);
  tsr_scope_close(s);
}

TEST(damaged_images)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *all = golden(s);
  unsigned char *image = read_all(all, "image", 100, -1);
  int64_t *length = read_all(all, "image_length", 100, -1);
  tsr_record_field field = tsr_source_field_of(all, 0);
  CHECK_STR(field.name, "image");
  int64_t longest = field.shape.dims[0];
  refused_as(s, image, length[0], false, NULL);
  refused_as(s, image, length[0] / 2, false, "JPEG: Premature end of JPEG file");
  refused_as(s, image, length[0] / 2, true, NULL);
  refused_as(s, image, 2, false, "2 bytes, expected those of a JPEG or PNG");
  refused_as(s, (const unsigned char *)"RIFF.WEBP", 9, false, "it begins with 52 49 46 46");
  unsigned char *png = image + 16 * longest;
  CHECK_I64(png[1], 'P');
  refused_as(s, png, length[16] / 2, false, "PNG: ");
  png[length[16] - 20] ^= 4; /* in the checksum of what is packed */
  refused_as(s, png, length[16], false, "PNG: ");
  /* Sizes are believed before anything is allocated for them. */
  unsigned char *huge = image + 20 * longest;
  memcpy(huge + 16, "\x7f\xff\xff\xff\x7f\xff\xff\xff", 8);
  refused_as(s, huge, length[20], true, "PNG: ");
  unsigned char *jpeg = image + longest;
  for (int64_t i = 0; i + 8 < length[1]; i++)
    if (jpeg[i] == 0xff && jpeg[i + 1] == 0xc0) memcpy(jpeg + i + 5, "\xff\xdc\xff\xdc", 4);
  refused_as(s, jpeg, length[1], true, "JPEG: 65500 x 65500 pixels, expected 67108864 together");
  free(image);
  free(length);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* The pixels of one image, 12 x 12, as EXIF turns it. */
static unsigned char *pixels_of(tsr_scope *outer, const written *image)
{
  tsr_scope *s = tsr_scope_open(outer);
  tsr_source *one =
      tsr_source_memory(s, 1, { "image", TSR_U8, TSR_SHAPE((int64_t)image->size), image->bytes });
  unsigned char *pixels =
      read_all(tsr_source_images(one, .height = 12, .width = 12), "image", 1, -1);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  return pixels;
}

/* A chunk of a PNG. */
static void put_chunk(written *w, const char *name, const void *bytes, size_t size)
{
  unsigned char length[4], sum[4];
  uint32_t crc = (uint32_t)crc32(crc32(0, (const Bytef *)name, 4), bytes, (uInt)size);
  for (int i = 0; i < 4; i++) {
    length[i] = (unsigned char)(size >> 8 * (3 - i));
    sum[i] = (unsigned char)(crc >> 8 * (3 - i));
  }
  written_put(w, length, 4);
  written_put(w, name, 4);
  written_put(w, bytes, size);
  written_put(w, sum, 4);
}

/* Where a part of an image begins. */
static size_t find_mark(const unsigned char *bytes, size_t size, const char *mark, size_t length)
{
  for (size_t at = 0; at + length <= size; at++)
    if (!memcmp(bytes + at, mark, length)) return at;
  FAIL("no such part");
  return 0;
}

/* Bytes that are no pixels change none, wherever they stand, and refuse no image. */
TEST(bytes_beside_pixels)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *all = golden(s);
  unsigned char *image = read_all(all, "image", 100, -1);
  int64_t *length = read_all(all, "image_length", 100, -1);
  int64_t longest = tsr_source_field_of(all, 0).shape.dims[0];
  /* A JPEG with bytes in front of each part of its header. */
  static const struct {
    const char *mark, *put;
    size_t size;
  } between[] = { { "\xff\xdb", "\0\0\0\0", 4 },
                  { "\xff\xc4", "abc", 3 },
                  { "\xff\xda", "\0", 1 } };
  written plain = { .size = 0 };
  written_put(&plain, image, (size_t)length[0]);
  unsigned char *expected = pixels_of(s, &plain);
  for (int i = 0; i < 3; i++) {
    written w = { .size = 0 };
    size_t at = find_mark(plain.bytes, plain.size, between[i].mark, 2);
    written_put(&w, plain.bytes, at);
    written_put(&w, between[i].put, between[i].size);
    written_put(&w, plain.bytes + at, plain.size - at);
    unsigned char *found = pixels_of(s, &w);
    CHECK_BYTES(found, expected, 12 * 12 * 3);
    free(found);
    written_free(&w);
  }
  free(expected);
  written_free(&plain);
  /* A PNG with texts that are long when they are unpacked, and the orientation before its pixels or
   * behind them. */
  const unsigned char *png = image + 16 * longest;
  size_t size = (size_t)length[16], first = find_mark(png, size, "IDAT", 4) - 4;
  size_t end = find_mark(png, size, "IEND", 4) - 4;
  unsigned char text[4000] = "Comment\0";
  char digits[90000];
  uLongf packed = sizeof text - 9;
  for (size_t i = 0; i < sizeof digits; i++) digits[i] = (char)('0' + i % 10);
  CHECK(compress(text + 9, &packed, (const Bytef *)digits, sizeof digits) == Z_OK);
  static const char turned[] = "II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0";
  unsigned char *pixels[6];
  for (int form = 0; form < 6; form++) {
    written w = { .size = 0 };
    written_put(&w, png, first);
    if (form == 1 || form == 3) put_chunk(&w, "zTXt", text, 9 + packed);
    if (form == 2) put_chunk(&w, "tEXt", digits, sizeof digits);
    if (form == 4) put_chunk(&w, "eXIf", turned, sizeof turned - 1);
    written_put(&w, png + first, end - first);
    if (form == 3) put_chunk(&w, "iTXt", "a\0\0\0\0\0b", 7);
    if (form == 5) put_chunk(&w, "eXIf", turned, sizeof turned - 1);
    written_put(&w, png + end, size - end);
    pixels[form] = pixels_of(s, &w);
    written_free(&w);
  }
  for (int form = 1; form < 4; form++) CHECK_BYTES(pixels[form], pixels[0], 12 * 12 * 3);
  /* Six turns it: the first row is the first column from below. */
  CHECK(memcmp(pixels[4], pixels[0], 12 * 12 * 3) != 0);
  CHECK_BYTES(pixels[5], pixels[4], 12 * 12 * 3);
  for (int form = 0; form < 6; form++) free(pixels[form]);
  free(image);
  free(length);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* An image that cannot be read is told with its file. */
TEST(broken_images_name_their_file)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  golden(s);
  written tar = { .size = 0 };
  CHECK(!mkdir(test_tmp("b"), 0700) && !mkdir(test_tmp("b/cat"), 0700));
  test_write(test_tmp("b/cat/broken.jpg"), "\xff\xd8\xff\xe0 no image", 13);
  tar_member(&tar, "some/key.jpg", "no image", 8);
  tar_end(&tar);
  written_to(&tar, test_tmp("b.tar"));
  tsr_source *folder = tsr_source_folder(s, test_tmp("b"));
  tsr_source *shard = tsr_source_tar(s, test_tmp("b.tar"), .fields = { { "jpg", TSR_U8, { 0 } } });
  tsr_source *other = tsr_source_memory(s, 1, { "label", TSR_I64, { 0 }, "01234567" });
  tsr_source *beside = tsr_source_zip(tsr_source_select(folder, "image,image_length"), other);
  static const char *const says[] = { "b/cat/broken.jpg", "b.tar, sample some/key",
                                      "b/cat/broken.jpg" };
  tsr_source *const from[] = { folder,
                               tsr_source_select(shard, "jpg=image,jpg_length=image_length"),
                               tsr_source_concat(beside, beside) };
  for (int i = 0; i < 3; i++) {
    tsr_pipeline *p =
        tsr_pipeline_open(tsr_source_images(from[i], .height = 4, .width = 4), .threads = -1);
    CHECK(!tsr_pipeline_next(p));
    CHECK_I64(tsr_pipeline_close(p), TSR_EPARSE);
    CHECK_STR_HAS(tsr_message(s), "image: record 0 of epoch 0: ");
    CHECK_STR_HAS(tsr_message(s), says[i]);
    tsr_scope_clear(s);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static tsr_status says_more(const tsr_record *record, void *user)
{
  memcpy(record->out[0], user, sizeof(int64_t));
  return TSR_OK;
}

/* Bytes in memory are read where they lie, but only as far as their own length says. */
TEST(lengths_of_maps)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *all = golden(s);
  unsigned char *image = read_all(all, "image", 100, -1);
  int64_t *length = read_all(all, "image_length", 100, -1), whole = length[0];
  int64_t offsets[3] = { 0, whole, whole + whole / 2 }, record = 1;
  unsigned char *data = test_guarded((size_t)offsets[2]);
  memcpy(data, image, (size_t)whole);
  memcpy(data + whole, image, (size_t)(whole / 2));
  tsr_source *two = tsr_source_ragged(s, 2, { "image", TSR_U8, { 0 }, data, offsets });
  tsr_source *told = tsr_source_map(two, says_more, .user = &whole,
                                    .fields = { { "image_length", TSR_I64, { 0 } } });
  tsr_source *made = tsr_source_images(told, .height = HEIGHT, .width = WIDTH, .lenient = true);
  free(read_all(tsr_source_slice(made, TSR_RANGE(record, 2)), "image", 1, -1));
  free(image);
  free(length);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Any byte changed, any end: an error or pixels, and the next record is read as ever. */
TEST(bytes_changed)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *all = golden(s);
  test_rng rng = test_seeded(11);
  unsigned char *image = read_all(all, "image", 100, -1);
  int64_t *length = read_all(all, "image_length", 100, -1);
  int64_t longest = tsr_source_field_of(all, 0).shape.dims[0];
  for (int turn = 0; turn < (test_quick() ? 300 : 3000); turn++) {
    int64_t r = test_range(&rng, 0, CASES - 1);
    unsigned char *own = malloc((size_t)length[r]);
    memcpy(own, image + r * longest, (size_t)length[r]);
    for (int64_t n = test_range(&rng, 1, 3); n; n--)
      own[test_range(&rng, 0, length[r] - 1)] ^= (unsigned char)test_range(&rng, 1, 255);
    tsr_scope *inner = tsr_scope_open(s);
    tsr_source *one = tsr_source_memory(inner, 1, { "image", TSR_U8, TSR_SHAPE(length[r]), own });
    tsr_source *made =
        tsr_source_images(one, .height = 8, .width = 8, .lenient = turn % 2, .most_pixels = 100000);
    tsr_pipeline *p = tsr_pipeline_open(made, .threads = -1);
    tsr_batch_release(tsr_pipeline_next(p));
    tsr_status status = tsr_pipeline_close(p);
    CHECK(status == TSR_OK || status == TSR_EPARSE);
    tsr_scope_close(inner);
    free(own);
  }
  free(image);
  free(length);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

#define REFUSED(source, status, part)             \
  do {                                            \
    tsr_scope *inner = tsr_scope_open(s);         \
    tsr_source *all = golden(inner);              \
    (void)(source);                               \
    CHECK_I64(tsr_scope_status(inner), (status)); \
    CHECK_STR_HAS(tsr_message(inner), (part));    \
    tsr_scope_close(inner);                       \
  } while (0)

TEST(refusals)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  golden(s);
  REFUSED(tsr_source_images(all), TSR_ESHAPE, ".height x .width is 0 x 0");
  REFUSED(tsr_source_images(all, .height = 2, .width = 2, .field = "imag"), TSR_EARG,
          "no field 'imag'");
  REFUSED(tsr_source_images(all, .height = 2, .width = 2, .field = "colour"), TSR_EDTYPE,
          "expected encoded bytes");
  REFUSED(tsr_source_images(all, .height = 2, .width = 2, .area = { 0.5, 2 }), TSR_EARG,
          ".area is 0.5 to 2");
  REFUSED(tsr_source_images(all, .height = 2, .width = 2, .std = { -1 }), TSR_EARG,
          ".std of channel 0");
  setenv("TSR_PLUGIN_PATH", "/there/is/none", 1);
  REFUSED(tsr_source_images(all, .height = 2, .width = 2), TSR_EUNSUPPORTED,
          "where these packages are installed: libjpeg62-turbo-dev and libspng-dev");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
