/* load.jpeg: images of 500 x 375, 4:2:0, quality 90, from memory, decoded, cut at random, resized
 * to 224 x 224 of f32, flipped and normalised, in batches of 64 in another order in each epoch. The
 * limit is libjpeg-turbo alone: the rows and columns of the same windows, at full size.
 *
 *   file   | count (u32) | lengths (u32 each) | images |       what the peers read, too */
#include "jpegs.h"

#include <stdio.h>

#ifndef BENCH_JPEG
int bench_jpeg_line(void)
{
  printf("load.jpeg needs libjpeg-turbo (libjpeg62-turbo-dev) to make images\n");
  return 0;
}
#else
#include <jpeglib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 5, COUNT = 512, WIDTH = 500, HEIGHT = 375, BATCH = 64, SIDE = 224, SEED = 1 };
enum { EDGE = 2 }; /* pixels beside a window that its own depend on */

typedef struct images {
  unsigned char *data;
  int64_t offsets[COUNT + 1];
} images;

/* ---- making ---------------------------------------------------------------------------------- */

/* Waves with noise on them, as large as photographs when they are encoded. */
static void draw(unsigned char *to, uint32_t number)
{
  uint32_t state = number * 2654435761u + 1;
  double a = 0.01 + 0.002 * (number % 17), b = 0.013 + 0.003 * (number % 11);
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++) {
      double wave = 60 * sin(a * x + 0.3 * number) + 50 * cos(b * y - 0.2 * number);
      state = state * 1664525u + 1013904223u;
      double noise = (double)(state >> 24) / 255 * 46 - 23;
      for (int c = 0; c < 3; c++) {
        double v = 128 + wave * (1 - 0.3 * c) + noise;
        *to++ = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
      }
    }
}

/* Encodes one image behind the others. */
static int64_t encode(uint32_t number, unsigned char *pixels, unsigned char **out)
{
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr error;
  unsigned long size = 0;
  draw(pixels, number);
  jpeg.err = jpeg_std_error(&error);
  jpeg_create_compress(&jpeg);
  jpeg_mem_dest(&jpeg, out, &size);
  jpeg.image_width = WIDTH;
  jpeg.image_height = HEIGHT;
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 90, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < HEIGHT; y++) {
    JSAMPROW row = pixels + (size_t)y * WIDTH * 3;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  return (int64_t)size;
}

static bool make_images(images *set, const char *path)
{
  enum { ROOM = 400000 };
  unsigned char *pixels = malloc((size_t)WIDTH * HEIGHT * 3);
  uint32_t head[COUNT + 1] = { COUNT };
  set->data = malloc((size_t)COUNT * ROOM);
  for (uint32_t i = 0; set->data && pixels && i < COUNT; i++) {
    unsigned char *one = NULL;
    int64_t size = encode(i, pixels, &one);
    head[i + 1] = (uint32_t)size;
    memcpy(set->data + set->offsets[i], one, (size_t)size);
    set->offsets[i + 1] = set->offsets[i] + size;
    free(one);
  }
  FILE *to = fopen(path, "wb");
  bool fine = to && set->data && pixels && fwrite(head, sizeof head, 1, to) == 1 &&
              fwrite(set->data, 1, (size_t)set->offsets[COUNT], to) == (size_t)set->offsets[COUNT];
  if (to) fine = !fclose(to) && fine;
  free(pixels);
  return fine;
}

/* ---- windows as the library draws them ------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
  for (int i = 0; i < 2; i++) {
    a += UINT64_C(0x9E3779B97F4A7C15) + (i ? b : 0);
    a = (a ^ a >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    a = (a ^ a >> 27) * UINT64_C(0x94D049BB133111EB);
    a ^= a >> 31;
  }
  return a;
}

static double drawn(uint64_t draw, uint64_t k)
{
  return (double)(mix(draw, k) >> 11) * 0x1p-53;
}

typedef struct box {
  int top, left, height, width;
} box;

static box window_of(uint64_t id)
{
  uint64_t draw = mix(mix(SEED, 0), id);
  for (uint64_t k = 1; k <= 40; k += 4) {
    double area = (0.08 + 0.92 * drawn(draw, k)) * HEIGHT * WIDTH;
    double aspect = 0.75 * pow(16.0 / 9, drawn(draw, k + 1));
    double h = sqrt(area / aspect) + 0.5, w = sqrt(area * aspect) + 0.5;
    if (!(h >= 1 && w >= 1 && h < HEIGHT + 1.0 && w < WIDTH + 1.0)) continue;
    box b = { 0, 0, (int)h, (int)w };
    b.top = (int)(drawn(draw, k + 2) * (HEIGHT - b.height + 1));
    b.left = (int)(drawn(draw, k + 3) * (WIDTH - b.width + 1));
    return b;
  }
  return (box){ 0, 0, HEIGHT, WIDTH };
}

/* Processor seconds an image of decoding the windows and nothing else, on one thread. */
static double decode_alone(const images *set)
{
  static unsigned char row[(WIDTH + 64) * 3];
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr error;
  jpeg.err = jpeg_std_error(&error);
  jpeg_create_decompress(&jpeg);
  double cpu = bench_cpu();
  for (int i = 0; i < COUNT; i++) {
    box b = window_of((uint64_t)i);
    jpeg_mem_src(&jpeg, set->data + set->offsets[i],
                 (unsigned long)(set->offsets[i + 1] - set->offsets[i]));
    jpeg_read_header(&jpeg, TRUE);
    jpeg.out_color_space = JCS_RGB;
    jpeg_start_decompress(&jpeg);
    int left = b.left > EDGE ? b.left - EDGE : 0;
    int right = b.left + b.width + EDGE < WIDTH ? b.left + b.width + EDGE : WIDTH;
    JDIMENSION first = (JDIMENSION)left, columns = (JDIMENSION)(right - left);
    jpeg_crop_scanline(&jpeg, &first, &columns);
    if (b.top) jpeg_skip_scanlines(&jpeg, (JDIMENSION)b.top);
    JSAMPROW rows = row;
    for (int y = 0; y < b.height; y++) jpeg_read_scanlines(&jpeg, &rows, 1);
    jpeg_abort_decompress(&jpeg);
  }
  cpu = bench_cpu() - cpu;
  jpeg_destroy_decompress(&jpeg);
  return cpu / COUNT;
}

/* ---- the line -------------------------------------------------------------------------------- */

static bool epoch(const images *set, tsr_scope *outer, uint64_t order, double took[2])
{
  tsr_scope *s = tsr_scope_open(outer);
  double cpu = bench_cpu(), start = bench_now();
  tsr_source *source =
      tsr_source_ragged(s, COUNT, { "image", TSR_U8, TSR_SCALAR, set->data, set->offsets });
  source = tsr_source_images(source, .height = SIDE, .width = SIDE, .dtype = TSR_F32,
                             .crop = TSR_CROP_RANDOM, .flip = true, .seed = SEED,
                             .mean = { 0.485, 0.456, 0.406 }, .std = { 0.229, 0.224, 0.225 });
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = BATCH, .shuffle = true, .seed = order,
                                      .on = tsr_on(outer, "data"));
  int64_t records = 0;
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b))
    records += tsr_batch_count(b);
  bool fine = !tsr_pipeline_close(p) && records == COUNT;
  took[0] = (bench_cpu() - cpu) / COUNT;
  took[1] = (bench_now() - start) / COUNT;
  if (!fine) fprintf(stderr, "load.jpeg: %s\n", tsr_message(s));
  tsr_scope_close(s);
  return fine;
}

static const struct {
  const char *family, *peer, *label;
} peers[] = { { "", "torchvision", "torchvision" },
              { "", "pillow", "torchvision, PIL" },
              { "TF", "tfdata", "tf.data" } };
enum { PEERS = sizeof peers / sizeof *peers };

/* A turn of a peer, by the processor and by the clock. */
static void ask_peer(bench_peer *peer, double took[2])
{
  char rest[256];
  took[0] = took[1] = -1;
  double seconds = bench_peer_run(peer, rest, sizeof rest);
  if (seconds > 0 && sscanf(rest, "%lf", &took[0]) == 1) took[1] = seconds / COUNT;
}

static void print_line(double all[PEERS + 1][2][BENCH_ROUNDS], double *limits)
{
  double own = bench_median(all[0][0], RUNS), clock = bench_median(all[0][1], RUNS);
  double limit = bench_median(limits, RUNS);
  for (int k = 0; k < PEERS; k++) {
    double theirs = bench_median(all[k + 1][0], RUNS), waits = bench_median(all[k + 1][1], RUNS);
    bench_line("load.jpeg", own * 1e6, peers[k].label, theirs < 0 ? -1 : theirs * 1e6, limit * 1e6,
               "us");
    if (waits > 0)
      printf("    by the clock %.0f us, %s %.0f us, ratio %.2f\n", clock * 1e6, peers[k].label,
             waits * 1e6, waits / clock);
  }
}

static int measure(const images *set, const char *path)
{
  static double all[PEERS + 1][2][BENCH_ROUNDS], limits[BENCH_ROUNDS];
  bench_peer *open[PEERS];
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_scope_use_mesh(s, tsr_mesh_default(rt, "data"));
  for (int k = 0; k < PEERS; k++) {
    char given[1100];
    snprintf(given, sizeof given, "%s jpeg %s 0", peers[k].peer, path);
    open[k] = bench_peer_open_in(peers[k].family, "loading_files.py", given);
  }
  bool failed = false;
  for (int r = -1; r < RUNS && !failed; r++) {
    double took[2];
    failed = !epoch(set, s, (uint64_t)r, took);
    if (r < 0) continue;
    all[0][0][r] = took[0], all[0][1][r] = took[1], limits[r] = decode_alone(set);
    for (int k = 0; k < PEERS; k++) {
      ask_peer(open[k], took);
      all[k + 1][0][r] = took[0], all[k + 1][1][r] = took[1];
    }
  }
  for (int k = 0; k < PEERS; k++) bench_peer_close(open[k]);
  if (!failed) print_line(all, limits);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}

int bench_jpeg_line(void)
{
  static images set;
  char path[1024];
  snprintf(path, sizeof path, "%s/images.jpegs", bench_data_dir());
  int failed = 1;
  if (make_images(&set, path)) failed = measure(&set, path);
  else fprintf(stderr, "load.jpeg: the file %s cannot be written\n", path);
  free(set.data);
  return failed;
}
#endif
