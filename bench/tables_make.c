/* Making the tables: every cell is a function of its row and column, so that a file made again is
 * the same file. */
#include "tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

uint64_t bench_mix(uint64_t place)
{
  uint64_t z = place * UINT64_C(0x9E3779B97F4A7C15) + UINT64_C(0x632BE59BD9B4E019);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

int64_t bench_table_rows(void)
{
  const char *text = getenv("BENCH_TABLE_ROWS");
  int64_t rows = text ? strtoll(text, NULL, 10) : 10000000;
  return rows < 1000 ? 1000 : rows;
}

/* Writes `value` with at least `width` digits; returns the end. */
static char *digits(char *at, uint64_t value, int width)
{
  char reversed[24];
  int n = 0;
  while (value || n < width || n == 0) {
    reversed[n++] = (char)('0' + value % 10);
    value /= 10;
  }
  while (n) *at++ = reversed[--n];
  return at;
}

static char *put(char *at, const char *text)
{
  while (*text) *at++ = *text++;
  return at;
}

static char *row_text(char *at, int64_t row, int64_t many)
{
  uint64_t place = (uint64_t)row * 16;
  at = digits(put(at, "id"), 1 + bench_mix(place) % 100, 3);
  at = digits(put(at, ",id"), 1 + bench_mix(place + 1) % 100, 3);
  at = digits(put(at, ",id"), 1 + bench_mix(place + 2) % (uint64_t)many, 10);
  const uint64_t below[] = { 100, 100, (uint64_t)many, 5, 15 };
  for (int c = 0; c < 5; c++) {
    *at++ = ',';
    at = digits(at, 1 + bench_mix(place + 3 + (uint64_t)c) % below[c], 1);
  }
  uint64_t v3 = bench_mix(place + 8) % 100000000;
  *at++ = ',';
  at = digits(at, v3 / 1000000, 1);
  *at++ = '.';
  at = digits(at, v3 % 1000000, 6);
  *at++ = '\n';
  return at;
}

static char *hex_digits(char *at, uint64_t value)
{
  for (int shift = 60; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[value >> shift & 15];
  return at;
}

/* An id that no other row has: the mix of different numbers is different. */
static char *put_id(char *at, int64_t row)
{
  return hex_digits(put(at, "user-"), bench_mix((uint64_t)row | UINT64_C(5) << 40));
}

/* Four to eleven words of 4,096. */
static char *sentence_text(char *at, int64_t row, int64_t many)
{
  static const char syllables[] = "baconedifogahulimakonapiqurasoti";
  uint64_t place = (uint64_t)row * 16 + (UINT64_C(6) << 40);
  int words = 4 + (int)(bench_mix(place) % 8);
  (void)many;
  at = put_id(at, row);
  for (int w = 0; w < words; w++) {
    uint64_t word = bench_mix(place + 1 + (uint64_t)w);
    *at++ = w ? ' ' : ',';
    for (int s = 0; s < 3; s++, word >>= 4, at += 2) memcpy(at, syllables + 2 * (word & 15), 2);
  }
  *at++ = ',';
  at = digits(at, bench_mix(place + 15) % 1000, 1);
  *at++ = '\n';
  return at;
}

static char *fifth_text(char *at, int64_t row, int64_t many)
{
  (void)many;
  at = put_id(at, row * 5);
  *at++ = ',';
  at = digits(at, (uint64_t)row % 1000, 1);
  *at++ = '\n';
  return at;
}

/* The cells of row_text, by name. */
static char *json_text(char *at, int64_t row, int64_t many)
{
  static const char *const names[] = { "id1", "id2", "id3", "id4", "id5", "id6", "v1", "v2", "v3" };
  char cells[160], *end = row_text(cells, row, many), *cell = cells;
  for (int c = 0; c < 9; c++) {
    char *next = memchr(cell, c < 8 ? ',' : '\n', (size_t)(end - cell));
    at = put(put(put(at, c ? ",\"" : "{\""), names[c]), c < 3 ? "\":\"" : "\":");
    memcpy(at, cell, (size_t)(next - cell));
    at += next - cell;
    if (c < 3) *at++ = '"';
    cell = next + 1;
  }
  return put(at, "}\n");
}

typedef char *row_fn(char *at, int64_t row, int64_t many);

static bool write_rows(FILE *file, const char *head, row_fn *fn, int64_t rows)
{
  enum { ROOM = 1 << 16, LONGEST = 320 };
  static char room[ROOM];
  char *at = room;
  fputs(head, file);
  for (int64_t row = 0; row < rows; row++) {
    at = fn(at, row, rows / 100);
    if (at - room < ROOM - LONGEST) continue;
    fwrite(room, 1, (size_t)(at - room), file);
    at = room;
  }
  fwrite(room, 1, (size_t)(at - room), file);
  return !ferror(file);
}

static const char *make_csv(const char *name, const char *head, row_fn *fn, int64_t rows)
{
  static char path[600], fresh[620];
  struct stat info;
  snprintf(path, sizeof path, "%s/%s_%lld.csv", bench_data_dir(), name, (long long)rows);
  if (stat(path, &info) == 0) return path;
  snprintf(fresh, sizeof fresh, "%s.new", path);
  FILE *file = fopen(fresh, "w");
  if (!file) return NULL;
  fprintf(stderr, "making %s\n", path);
  bool fine = write_rows(file, head, fn, rows);
  fine = !fclose(file) && fine && !rename(fresh, path);
  return fine ? path : NULL;
}

const char *bench_table_csv(void)
{
  return make_csv("g1", "id1,id2,id3,id4,id5,id6,v1,v2,v3\n", row_text, bench_table_rows());
}

const char *bench_table_json(void)
{
  return make_csv("lines", "", json_text, bench_table_rows() / 5);
}

const char *bench_table_gz(void)
{
  static char path[640];
  char command[3000];
  struct stat info;
  const char *csv = bench_table_csv();
  if (!csv) return NULL;
  snprintf(path, sizeof path, "%s.gz", csv);
  snprintf(command, sizeof command, "gzip -c '%s' > '%s.new' && mv '%s.new' '%s'", csv, path, path,
           path);
  return stat(path, &info) == 0 || system(command) == 0 ? path : NULL;
}

const char *bench_text_csv(bool right)
{
  int64_t rows = bench_table_rows() / 2;
  return right ? make_csv("right", "id,w\n", fifth_text, rows / 5)
               : make_csv("texts", "id,s,v\n", sentence_text, rows);
}

/* ---- joins ---- */

static tsr_status save(tsr_runtime *rt, const void *data, tsr_dtype dtype, int64_t count,
                       const char *path)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_status status =
      tsr_save_npy(tsr_put(s, data, dtype, TSR_SHAPE(count), (tsr_sharding){ 0 }), path);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  tsr_scope_close(s);
  return status;
}

bool bench_join_files(const bench_join *join)
{
  char path[4][640];
  static const char *const parts[] = { "rk", "rw", "lk", "lv" };
  struct stat info;
  int64_t left = bench_table_rows(), right = join->right_rows;
  for (int i = 0; i < 4; i++)
    snprintf(path[i], sizeof path[i], "%s/join_%s_%lld_%s.npy", bench_data_dir(), join->name,
             (long long)left, parts[i]);
  if (stat(path[3], &info) == 0) return true;
  size_t most = (size_t)(left > right ? left : right);
  int64_t *keys = malloc(most * 8);
  double *values = malloc(most * 8);
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  bool fine = keys && values;
  for (int64_t i = 0; fine && i < right; i++) {
    int64_t other = (int64_t)(bench_mix((uint64_t)i) % (uint64_t)(i + 1));
    keys[i] = keys[other];
    keys[other] = i;
    values[i] = (double)(bench_mix(UINT64_C(1) << 40 | (uint64_t)i) >> 11) * 0x1p-53 * 100;
  }
  fine = fine && !save(rt, keys, TSR_I64, right, path[0]) &&
         !save(rt, values, TSR_F64, right, path[1]);
  uint64_t range = (uint64_t)((double)right * 1.1) + 1;
  for (int64_t i = 0; fine && i < left; i++) {
    keys[i] = (int64_t)(bench_mix(UINT64_C(2) << 40 | (uint64_t)i) % range);
    values[i] = (double)(bench_mix(UINT64_C(3) << 40 | (uint64_t)i) >> 11) * 0x1p-53 * 100;
  }
  fine =
      fine && !save(rt, keys, TSR_I64, left, path[2]) && !save(rt, values, TSR_F64, left, path[3]);
  tsr_runtime_close(rt);
  free(keys);
  free(values);
  return fine;
}
