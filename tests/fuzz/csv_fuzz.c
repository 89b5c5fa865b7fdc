/* Any bytes as a CSV file under any options: never a crash or a leak; cutting it differently,
 * packing it, reading its columns together or one by one, or with another instruction set, gives
 * the same rows, values and errors. The first eight bytes choose how the file is cut (3), the
 * options (3) and forced types (2). */
#include <zlib.h>

#include "fuzz_columns.h"

enum { CHOICES = 8, TYPES_ROOM = 4000 };

/* How a file is read: `part` out of 4 is where the border between two parts lies. */
struct way {
  const char *path;
  tsr_runtime *rt;
  const tsr__csv_opts *opts;
  int part;
  bool together; /* all columns in one read */
};

/* The columns first .. first + count - 1 of all rows in two parts. */
static void read_columns(tsr__csv *csv, int first, int count, int64_t border, fuzz_result *r)
{
  const tsr__read_column *columns;
  tsr__error error = { 0 };
  int64_t rows[3] = { 0, border, r->rows };
  fuzz_held *held = calloc((size_t)count, sizeof *held);
  tsr__read_target *targets = calloc((size_t)count, sizeof *targets);
  tsr__read_ask read = { .parts = 2, .rows = rows, .target_count = count, .targets = targets };
  for (int turn = 0; !turn || read.retyped; turn++) {
    REQUIRE(turn < 2 + 2 * count);
    tsr__csv_columns(csv, &columns);
    for (int c = 0; c < count; c++) {
      fuzz_hold(&held[c], columns[first + c].type, rows);
      targets[c] = (tsr__read_target){ .column = first + c,
                                       .values = held[c].values,
                                       .validity = held[c].validity };
    }
    read.retyped = 0;
    r->status = tsr__csv_read_parts(csv, &read, &error);
    for (int c = 0; c < count; c++) {
      if (!r->status && !read.retyped)
        fuzz_hash_column(&columns[first + c], &held[c], &targets[c], rows, r);
      if (!r->status && !read.retyped) tsr__dict_release(targets[c].dict);
      for (int p = 0; p < 2; p++) {
        free(held[c].values[p]);
        free(held[c].validity[p]);
      }
    }
    if (r->status) break;
  }
  if (r->status) strcpy(r->text, error.text);
  free(held);
  free(targets);
}

static fuzz_result read_file(const struct way *way)
{
  fuzz_result r = { 0 };
  tsr__error error = { 0 };
  int64_t live = way->rt->heap.live;
  tsr__csv *csv = tsr__csv_open_with(way->rt, way->path, way->opts, &error);
  r.status = csv ? tsr__csv_count(csv, &r.rows, &error) : error.status;
  if (r.status) {
    fuzz_message(error.text, sizeof error.text);
    strcpy(r.text, error.text);
  } else {
    const tsr__read_column *columns;
    int64_t border = r.rows * way->part / 4;
    r.columns = tsr__csv_columns(csv, &columns);
    r.bad_rows = tsr__csv_bad_rows(csv);
    if (way->together) read_columns(csv, 0, r.columns, border, &r);
    for (int c = 0; !way->together && c < r.columns && !r.status; c++)
      read_columns(csv, c, 1, border, &r);
    if (!r.status) r.bad_rows = tsr__csv_bad_rows(csv);
  }
  tsr__csv_close(csv);
  REQUIRE(way->rt->heap.live == live);
  return r;
}

/* Options from three bytes; all zero: none. */
static tsr__csv_opts options_of(const uint8_t *bytes)
{
  static const char separators[] = { ',', ';', '\t', '|', ' ', 'x', 0 };
  static const char comments[] = { 0, '#', '-', '1' };
  static const char *const nulls[] = { NULL, "-", "0, x, 1.5", "\"\", NA, true" };
  static const char *const types[] = { NULL,     "column_1 i64", "column_1 f64, column_2 text",
                                       "a i32",  "a f32",        "a bool, b date",
                                       "a time", "a text" };
  static const char *const columns[] = { NULL, "a", "column_2, column_1", "b, a" };
  return (tsr__csv_opts){ .no_header = bytes[0] & 1,
                          .decimal_comma = bytes[0] >> 1 & 1,
                          .text_nulls = bytes[0] >> 2 & 1,
                          .bad_rows = (tsr__csv_bad)((bytes[0] >> 3 & 3) % 3),
                          .comment = comments[bytes[0] >> 5 & 3],
                          .skip_rows = bytes[0] >> 7,
                          .separator = separators[(bytes[1] & 7) % 7],
                          .nulls = nulls[bytes[1] >> 3 & 3],
                          .names = bytes[1] >> 5 & 1 ? "a, b" : NULL,
                          .types = types[bytes[2] & 7],
                          .columns = columns[bytes[2] >> 3 & 3] };
}

/* Forces types of the columns that the file has; false: it cannot be opened, or none are forced. */
static bool types_of(const struct way *way, const uint8_t choice[2], char out[TYPES_ROOM])
{
  const tsr__read_column *columns;
  tsr__error error = { 0 };
  tsr__csv *csv = tsr__csv_open_with(way->rt, way->path, way->opts, &error);
  int count = csv ? tsr__csv_columns(csv, &columns) : 0;
  char *to = out;
  *out = 0;
  for (int c = 0; c < count; c++) {
    int type = fuzz_forced(choice, c);
    if (type < 0 || to + 2 * strlen(columns[c].name) + 16 > out + TYPES_ROOM) continue;
    if (to > out) *to++ = ',';
    *to++ = '"';
    for (const char *name = columns[c].name; *name; name++) {
      if (*name == '"') *to++ = '"';
      *to++ = *name;
    }
    to += sprintf(to, "\" %s", tsr_coltype_name((tsr_coltype)type));
  }
  tsr__csv_close(csv);
  return *out;
}

static int packed_of(const uint8_t *bytes, size_t length, char path[FUZZ_PATH])
{
  uint8_t *packed = malloc(length * 2 + 1000);
  z_stream z = { 0 };
  REQUIRE(deflateInit2(&z, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  z.next_in = (uint8_t *)(uintptr_t)bytes;
  z.avail_in = (unsigned)length;
  z.next_out = packed;
  z.avail_out = (unsigned)length * 2 + 1000;
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  int fd = fuzz_file(packed, (size_t)z.total_out, path);
  deflateEnd(&z);
  free(packed);
  return fd;
}

static bool is_packed(const uint8_t *text)
{
  return memcmp(text, "\x1f\x8b", 2) == 0 || text[0] == 0x28 || text[0] >> 4 == 5;
}

static tsr_runtime *runtime(const char *isa)
{
  return tsr__runtime_new(
      &(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .threads = 1, .isa = isa });
}

/* The earliest error, wherever the file is cut; which that is depends on the types sampled. */
static void same_words(const fuzz_result *a, const fuzz_result *b)
{
  if (!strcmp(a->text, b->text)) return;
  fuzz_show(a);
  fuzz_show(b);
  abort();
}

static tsr__csv_opts cut_of(const tsr__csv_opts *whole, const uint8_t *data, int turn)
{
  tsr__csv_opts cut = *whole;
  cut.granule = turn == 0 ? 1 + data[0] : turn == 1 ? 1 + data[0] % 16 : 64 + data[1];
  cut.stripes = 1 + (data[1] + turn) % 5;
  cut.batch_rows = data[1] >> 4;
  cut.sample = turn == 1 ? 0 : data[2];
  cut.piece = 1 + data[0] * 3 + turn * 7;
  return cut;
}

static void check(const uint8_t *data, const uint8_t *text, size_t length)
{
  static tsr_runtime *rt[4];
  char path[FUZZ_PATH], other[FUZZ_PATH], types[TYPES_ROOM];
  static const char *const isas[] = { NULL, "baseline", "avx2", "avx512" };
  for (int i = 0; i < 4; i++)
    if (!rt[i]) rt[i] = runtime(isas[i]);
  int fd = fuzz_file(text, length, path), packed = packed_of(text, length, other);
  tsr__csv_opts whole = options_of(data + 3);
  struct way plain = { path, rt[0], &whole, .part = 4 };
  if ((data[6] || data[7]) && types_of(&plain, data + 6, types)) whole.types = types;
  fuzz_result a = read_file(&plain), b[4];
  for (int turn = 0; turn < 4; turn++) {
    tsr__csv_opts cut = cut_of(&whole, data, turn % 3);
    b[turn] = read_file(&(struct way){ path, rt[(turn + 1) % 4], &cut, turn, turn == 1 });
    fuzz_same_result(&a, &b[turn]);
    if (turn != 1) same_words(&b[0], &b[turn]);
  }
  tsr__csv_opts cut = cut_of(&whole, data, 0);
  fuzz_result c = read_file(&(struct way){ path, rt[2], &cut, 1, false });
  fuzz_result d = read_file(&(struct way){ other, rt[0], &cut, 2, false });
  close(fd);
  close(packed);
  fuzz_same_result(&a, &c);
  same_words(&b[0], &c);
  /* Other formats are known by their first bytes where they stand in a file, not in a packed one;
   * and what is packed again is not unpacked twice. */
  if (a.status != TSR_EUNSUPPORTED && !(length >= 2 && is_packed(text))) fuzz_same_result(&a, &d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < CHOICES || size > 1 << 16) return 0;
  check(data, data + CHOICES, size - CHOICES);
  return 0;
}
