/* load.tfrecord, load.tar: an epoch of files of records, read in order, parsed, in batches of 256;
 * their files lie in the page cache. load.jpeg (jpegs.c has the images): decoded, cut at random,
 * resized to 224, flipped, normalised. All in processor time a record, since what fills batches
 * runs beside what uses them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "jpegs.h"

enum { RUNS = 3, BATCH = 256 };

/* Records of so many bytes, about 100 MB of them. */
typedef struct kind {
  const char *name, *peer, *family, *label, *format;
  int64_t bytes, count;
} kind;

/* ---- files ----------------------------------------------------------------------------------- */

static uint32_t crc32c(const unsigned char *data, size_t size)
{
  static uint32_t table[256];
  uint32_t crc = ~0u;
  if (!table[1])
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t c = i;
      for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
      table[i] = c;
    }
  for (size_t i = 0; i < size; i++) crc = table[(crc ^ data[i]) & 255] ^ crc >> 8;
  return ~crc;
}

static void put_masked(FILE *to, const void *data, size_t size)
{
  uint32_t crc = crc32c(data, size), masked = (crc >> 15 | crc << 17) + 0xA282EAD8u;
  fwrite(&masked, sizeof masked, 1, to);
}

/* A length of a message, in seven bits a byte. */
static size_t put_varint(unsigned char *to, uint64_t value)
{
  size_t used = 0;
  for (; value >= 128; value >>= 7) to[used++] = (unsigned char)(value | 128);
  to[used++] = (unsigned char)value;
  return used;
}

static size_t varint_size(uint64_t value)
{
  unsigned char room[10];
  return put_varint(room, value);
}

/* An entry of the map of features: name, and a feature whose list `field` has one value of `size`
 * bytes, tag and all. */
static size_t put_entry(unsigned char *to, const char *name, unsigned char field,
                        const unsigned char *value, size_t size)
{
  size_t length = strlen(name), list = 1 + varint_size(size) + size, used = 0;
  to[used++] = 0x0a;
  used += put_varint(to + used, 2 + length + 1 + varint_size(list) + list);
  to[used++] = 0x0a;
  to[used++] = (unsigned char)length;
  memcpy(to + used, name, length);
  used += length;
  to[used++] = 0x12;
  used += put_varint(to + used, list);
  to[used++] = (unsigned char)(field << 3 | 2);
  used += put_varint(to + used, size);
  memcpy(to + used, value, size);
  return used + size;
}

static void put_example(FILE *to, const unsigned char *data, size_t size, int label,
                        unsigned char *room)
{
  unsigned char *value = room, *features = value + size + 16, *message = features + size + 64;
  value[0] = 0x0a;
  size_t head = 1 + put_varint(value + 1, size);
  memcpy(value + head, data, size);
  size_t used = put_entry(features, "data", 1, value, head + size);
  const unsigned char number[2] = { 0x08, (unsigned char)label };
  used += put_entry(features + used, "label", 3, number, sizeof number);
  message[0] = 0x0a;
  head = 1 + put_varint(message + 1, used);
  memcpy(message + head, features, used);
  uint64_t length = head + used;
  fwrite(&length, sizeof length, 1, to);
  put_masked(to, &length, sizeof length);
  fwrite(message, 1, length, to);
  put_masked(to, message, length);
}

static void put_member(FILE *to, int64_t record, const char *ending, const void *data, size_t size)
{
  static const char zeros[512];
  char head[512] = { 0 };
  unsigned sum = 0;
  snprintf(head, 100, "%09lld.%s", (long long)record, ending);
  memcpy(head + 100, "0000644\0000000000\0000000000", 24);
  snprintf(head + 124, 12, "%011zo", size);
  memcpy(head + 136, "00000000000", 12);
  memset(head + 148, ' ', 8);
  head[156] = '0';
  memcpy(head + 257, "ustar\00000", 8);
  for (size_t i = 0; i < sizeof head; i++) sum += (unsigned char)head[i];
  snprintf(head + 148, 8, "%06o", sum);
  fwrite(head, 1, sizeof head, to);
  fwrite(data, 1, size, to);
  fwrite(zeros, 1, (512 - size % 512) % 512, to);
}

/* Writes the file of a kind where it is not there yet. */
static bool make_file(const kind *k, const char *path)
{
  static const char zeros[1024];
  struct stat info;
  if (!stat(path, &info) && info.st_size > k->count * k->bytes) return true;
  FILE *to = fopen(path, "wb");
  size_t size = (size_t)k->bytes;
  unsigned char *data = malloc(size), *room = malloc(3 * size + 512);
  bool tar = !strcmp(k->format, "tar");
  for (int64_t r = 0; to && data && room && r < k->count; r++) {
    int label = (int)(r % 10);
    char digit = (char)('0' + label);
    for (size_t i = 0; i < size; i++)
      data[i] = (unsigned char)(((uint32_t)r * 40503u + (uint32_t)i * 2654435761u) >> 13);
    if (!tar) put_example(to, data, size, label, room);
    else {
      put_member(to, r, "bin", data, size);
      put_member(to, r, "cls", &digit, 1);
    }
  }
  if (to && tar) fwrite(zeros, 1, sizeof zeros, to);
  bool fine = to && data && room && !ferror(to);
  if (to) fine = !fclose(to) && fine;
  free(data);
  free(room);
  return fine;
}

/* ---- an epoch -------------------------------------------------------------------------------- */

static tsr_source *source_of(const kind *k, tsr_scope *s, const char *path)
{
  if (!strcmp(k->format, "tar"))
    return tsr_source_tar(s, path,
                          .fields = { { "bin", TSR_U8, TSR_SHAPE(k->bytes) },
                                      { "cls", TSR_I64, TSR_SCALAR } });
  return tsr_source_tfrecord(s, path,
                             .fields = { { "data", TSR_U8, TSR_SHAPE(k->bytes) },
                                         { "label", TSR_I64, TSR_SCALAR } });
}

/* What an epoch took a record; making the source is in it, as the peers' is. */
typedef struct spent {
  double cpu, seconds;
} spent;

static bool epoch(const kind *k, tsr_scope *outer, const char *path, bool check, spent *out)
{
  tsr_scope *s = tsr_scope_open(outer);
  double cpu = bench_cpu(), start = bench_now(), total = 0, sum;
  const char *label = strcmp(k->format, "tar") ? "label" : "cls";
  tsr_pipeline *p =
      tsr_pipeline_open(source_of(k, s, path), .batch_size = BATCH, .on = tsr_on(outer, "data"));
  int64_t records = 0;
  bool failed = false;
  for (tsr_batch *b; !failed && (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    records += tsr_batch_count(b);
    failed = check && tsr_read_scalar(tsr_sum(tsr_batch_field(b, label)), &sum);
    if (check) total += sum;
  }
  failed = tsr_pipeline_close(p) || failed || records != k->count;
  out->cpu = (bench_cpu() - cpu) / (double)k->count;
  out->seconds = (bench_now() - start) / (double)k->count;
  if (failed) fprintf(stderr, "%s: %s\n", k->name, tsr_message(s));
  if (check && total != (double)(k->count / 10 * 45)) failed = true;
  tsr_scope_close(s);
  return !failed;
}

static int line_of(const kind *k)
{
  char path[1024], given[1100], rest[256] = "";
  snprintf(path, sizeof path, "%s/%s", bench_data_dir(), k->name);
  snprintf(given, sizeof given, "%s %s %s %lld", k->peer, k->format, path, (long long)k->bytes);
  if (!make_file(k, path)) {
    fprintf(stderr, "%s: the file %s cannot be written\n", k->name, path);
    return 1;
  }
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_scope_use_mesh(s, tsr_mesh_default(rt, "data"));
  double cpu[2][BENCH_ROUNDS], seconds[2][BENCH_ROUNDS];
  spent took;
  bench_peer *peer = bench_peer_open_in(k->family, "loading_files.py", given);
  bool failed = false;
  for (int r = -1; r < RUNS && !failed; r++) {
    failed = !epoch(k, s, path, r < 0, &took);
    if (r < 0) continue;
    cpu[0][r] = took.cpu, seconds[0][r] = took.seconds, cpu[1][r] = seconds[1][r] = -1;
    double turn = bench_peer_run(peer, rest, sizeof rest);
    if (turn > 0) seconds[1][r] = turn / (double)k->count, sscanf(rest, "%lf", &cpu[1][r]);
  }
  bench_peer_close(peer);
  if (!failed) {
    bench_line(k->name, bench_median(cpu[0], RUNS) * 1e6, k->label,
               peer ? bench_median(cpu[1], RUNS) * 1e6 : -1, -1, "us");
    printf("    by the clock %.3g us, %s %.3g us\n", bench_median(seconds[0], RUNS) * 1e6, k->label,
           peer ? bench_median(seconds[1], RUNS) * 1e6 : -1.0);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}

int bench_loading_files(const char *name)
{
  static const kind kinds[] = {
    { "load.tfrecord.1k", "tfdata", "TF", "tf.data", "tfrecord", 1000, 100000 },
    { "load.tfrecord.100k", "tfdata", "TF", "tf.data", "tfrecord", 100000, 1000 },
    { "load.tar.1k", "webdataset", "", "WebDataset", "tar", 1000, 100000 },
    { "load.tar.100k", "webdataset", "", "WebDataset", "tar", 100000, 1000 },
  };
  int failed = 0;
  if (!strcmp(name, "load.jpeg")) return bench_jpeg_line();
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strncmp(kinds[i].name, name, strlen(name))) failed |= line_of(&kinds[i]);
  return failed;
}
