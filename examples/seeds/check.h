/* Comparing what a program of this folder computes with the expected outputs of its block:
 * tests/golden/seeds/DDD_BB.txt, a fact a line (tests/golden/make_seeds.py tells which).
 *
 *   check c = check_open("000_03");
 *   check_frame(&c, "df2", df2);       every column, bit for bit, and where its rows lie
 *   return check_close(&c);            prints the verdict; the exit status
 *
 * Values are compared as bits: a mean that is off by the last place is a failure. */
#ifndef EXAMPLES_CHECK_H
#define EXAMPLES_CHECK_H

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera.h>

#ifndef EXAMPLES_DATA /* built by hand: run in the project's folder */
#define EXAMPLES_DATA "examples/data"
#endif

typedef struct check {
  const char *block;
  char *golden; /* the whole file */
  int outputs, failures;
} check;

static inline bool check_fail(check *c, const char *format, ...) TSR_PRINTF(2, 3);

static inline bool check_fail(check *c, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  fprintf(stderr, "%s: ", c->block);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  c->failures++;
  return false;
}

static inline char *check_read_file(const char *path)
{
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  if (file && fseek(file, 0, SEEK_END) == 0) {
    long size = ftell(file);
    rewind(file);
    text = size >= 0 ? calloc((size_t)size + 1, 1) : NULL;
    if (text && fread(text, 1, (size_t)size, file) != (size_t)size) text[0] = 0;
  }
  if (file) fclose(file);
  return text;
}

/* Opens the golden of a block, such as "000_03". */
static inline check check_open(const char *block)
{
  check c = { .block = block };
  char path[1024];
  snprintf(path, sizeof path, "%s/../../tests/golden/seeds/%s.txt", EXAMPLES_DATA, block);
  c.golden = check_read_file(path);
  if (!c.golden || !*c.golden) check_fail(&c, "cannot read %s", path);
  return c;
}

/* Prints how many outputs agree and returns the program's exit status. */
static inline int check_close(check *c)
{
  if (c->failures == 0) printf("%s: %d outputs as expected\n", c->block, c->outputs);
  else printf("%s: %d outputs differ\n", c->block, c->failures);
  free(c->golden);
  return c->failures != 0;
}

/* ---- facts of the golden ------------------------------------------------------------------ */

/* The text after "KIND NAME " of the first such line at or after `from`, or NULL. */
static inline const char *check_line(const char *from, const char *kind, const char *name)
{
  char head[200];
  int length = snprintf(head, sizeof head, "\n%s %s", kind, name);
  for (const char *at = from; at && (at = strstr(at, head)); at++)
    if (strchr(" \n", at[length])) return at + length;
  return NULL;
}

/* The text after "KEY" of an array's own lines (they follow its first), or NULL. */
static inline const char *check_fact(const char *array, const char *key)
{
  size_t length = strlen(key);
  for (const char *at = strchr(array, '\n'); at && at[1]; at = strchr(at + 1, '\n')) {
    if (strncmp(at + 1, "array ", 6) == 0 || strncmp(at + 1, "collective ", 11) == 0) return NULL;
    if (strncmp(at + 1, key, length) == 0 && strchr(" \n", at[1 + length])) return at + 1 + length;
  }
  return NULL;
}

/* A float of any width; a bf16 is the upper half of an f32. */
static inline double check_float(tsr_dtype dtype, const void *value)
{
  float narrow = 0;
  if (dtype == TSR_F64) return *(const double *)value;
  if (dtype == TSR_BF16) {
    uint32_t bits = (uint32_t) * (const uint16_t *)value << 16;
    memcpy(&narrow, &bits, sizeof narrow);
  } else {
    narrow = *(const float *)value;
  }
  return (double)narrow;
}

/* Compares one value of a golden list with `value` (dtype as the array's) and moves past it. */
static inline bool check_next(const char **list, tsr_dtype dtype, const void *value)
{
  char *end = NULL;
  bool same;
  if (dtype == TSR_F64 || dtype == TSR_F32 || dtype == TSR_BF16) {
    double expected = strtod(*list, &end), found = check_float(dtype, value);
    same = isnan(expected) ? isnan(found) : memcmp(&expected, &found, sizeof found) == 0;
  } else {
    int64_t expected = strtoll(*list, &end, 10);
    same = expected == (dtype == TSR_I64    ? *(const int64_t *)value
                        : dtype == TSR_BOOL ? *(const bool *)value
                                            : *(const int32_t *)value);
  }
  bool read = end != *list;
  *list = end;
  return same && read;
}

/* ---- arrays --------------------------------------------------------------------------------- */

static inline bool check_values(check *c, const char *name, const char *golden, tsr_dtype dtype,
                                const void *data, int64_t count)
{
  size_t size = tsr_dtype_size(dtype);
  const char *keys[] = { "values", "first", "last" };
  for (int k = 0; k < 3; k++) {
    const char *list = check_fact(golden, keys[k]);
    if (!list) continue;
    int64_t shown = k == 0 || count < 16 ? count : 16, start = k == 2 ? count - shown : 0;
    for (int64_t i = start; i < start + shown; i++)
      if (!check_next(&list, dtype, (const char *)data + (size_t)i * size))
        return check_fail(c, "%s: element %lld differs", name, (long long)i);
  }
  return true;
}

/* The sums of the goldens' inputs are exact in any order, so a plain loop is a fair judge. */
static inline void check_sum(check *c, const char *name, const char *golden, tsr_dtype dtype,
                             const void *data, int64_t count)
{
  const char *list = check_fact(golden, "sum");
  double f = 0;
  int64_t i64 = 0;
  if (!list) return;
  for (int64_t i = 0; i < count; i++)
    if (dtype == TSR_F64) f += ((const double *)data)[i];
    else if (dtype == TSR_F32) f += (double)((const float *)data)[i];
    else i64 += ((const int64_t *)data)[i];
  bool floats = dtype == TSR_F64 || dtype == TSR_F32;
  const void *sum = floats ? (const void *)&f : (const void *)&i64;
  if (!check_next(&list, floats ? TSR_F64 : TSR_I64, sum))
    check_fail(c, "%s: the sum differs", name);
}

/* Whether a sharding is written as the golden has it: "(data) on data=2,model=4". */
static inline void check_lies(check *c, const char *name, const char *golden, tsr_sharding sharding,
                              int rank)
{
  const char *lies = check_fact(golden, "lies");
  char found[128];
  if (!lies) return;
  tsr_sharding_text(&sharding, rank, found, sizeof found);
  size_t length = strlen(found);
  snprintf(found + length, sizeof found - length, " on %s", tsr_mesh_text(sharding.mesh));
  if (strncmp(lies + 1, found, strlen(found)) != 0 || lies[1 + strlen(found)] != '\n')
    check_fail(c, "%s lies %s, expected%.*s", name, found, (int)strcspn(lies, "\n"), lies);
}

/* "(data) on data=2,model=4", and how many elements of dim 0 each device holds. */
static inline bool check_place(check *c, const char *name, const char *golden, tsr_array *a)
{
  const char *shards = check_fact(golden, "shards");
  tsr_sharding sharding = tsr_sharding_of(a);
  check_lies(c, name, golden, sharding, tsr_shape_of(a).rank);
  for (int p = 0; shards && p < tsr_mesh_device_count(sharding.mesh); p++) {
    tsr_shard shard;
    tsr_status status = tsr_shard_box(&sharding, tsr_shape_of(a), p, &shard.box);
    /* Parts of other processes cannot be looked at. */
    bool here = false;
    for (int k = 0; k < tsr_local_shard_count(&sharding); k++)
      here |= tsr_local_shard(&sharding, k) == p;
    if (here && !status) status = tsr_shard_view(a, p, &shard);
    int64_t rows = !status && tsr_shape_of(a).rank ? shard.box.size[0] : 1;
    if (status || !check_next(&shards, TSR_I64, &rows))
      return check_fail(c, "%s: the shard of device %d differs", name, p);
  }
  return true;
}

static inline bool check_type(check *c, const char *name, const char *golden, tsr_array *a)
{
  char expected[64] = "", found[64];
  tsr_shape shape = tsr_shape_of(a);
  snprintf(expected, sizeof expected, "%.*s", (int)strcspn(golden + 1, "\n"), golden + 1);
  int length = snprintf(found, sizeof found, "%s", tsr_dtype_name(tsr_dtype_of(a)));
  for (int d = 0; d < shape.rank; d++)
    length +=
        snprintf(found + length, sizeof found - (size_t)length, " %lld", (long long)shape.dims[d]);
  if (strcmp(found, expected) == 0) return true;
  check_fail(c, "%s is %s, expected %s", name, found, expected);
  return false;
}

/* Evaluates an array and compares dtype, shape, place and values. */
static inline bool check_array(check *c, const char *name, tsr_array *a)
{
  const char *golden = check_line(c->golden, "array", name);
  tsr_status status = tsr_eval(&a, 1);
  c->outputs++;
  if (!golden) return check_fail(c, "there is no output '%s'", name);
  if (status) return check_fail(c, "%s: %s", name, tsr_status_text(status));
  if (!check_type(c, name, golden, a)) return false;
  tsr_shape shape = tsr_shape_of(a);
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  size_t bytes = (size_t)count * tsr_dtype_size(tsr_dtype_of(a));
  void *data = malloc(bytes + 1);
  if (!data || tsr_read(a, data, bytes)) check_fail(c, "%s cannot be read", name);
  else check_values(c, name, golden, tsr_dtype_of(a), data, count);
  if (data) check_sum(c, name, golden, tsr_dtype_of(a), data, count);
  free(data);
  check_place(c, name, golden, a);
  return true;
}

/* The sums of the parts of an array of f32 or i32 on each device. */
static inline bool check_add_parts(check *c, tsr_array *a, int devices, double *sums)
{
  for (int p = 0; p < devices; p++) {
    tsr_shard shard;
    int64_t count = 1;
    if (tsr_eval(&a, 1) || tsr_shard_view(a, p, &shard))
      return check_fail(c, "device %d has no part", p);
    for (int d = 0; d < tsr_shape_of(a).rank; d++) count *= shard.box.size[d];
    sums[p] = 0;
    for (int64_t i = 0; i < count; i++)
      if (tsr_dtype_of(a) == TSR_F32) sums[p] += (double)((const float *)shard.data)[i];
      else sums[p] += ((const int32_t *)shard.data)[i];
  }
  return true;
}

/* Compares a list of numbers, of integers too, with the values of an output. */
static inline bool check_numbers(check *c, const char *name, const double *values, int count)
{
  const char *golden = check_line(c->golden, "array", name);
  const char *list = golden ? check_fact(golden, "values") : NULL;
  c->outputs++;
  for (int i = 0; i < count; i++)
    if (!list || !check_next(&list, TSR_F64, &values[i]))
      return check_fail(c, "%s: value %d is %.17g", name, i, values[i]);
  if (!list || *list != '\n') return check_fail(c, "%s has more than %d values", name, count);
  return true;
}

/* Compares the sum of each device's part of an f32 array, exact in any order, and how it lies. */
static inline bool check_shard_sums(check *c, const char *name, tsr_array *a)
{
  const char *golden = check_line(c->golden, "array", name);
  double sums[16] = { 0 };
  int devices = tsr_mesh_device_count(tsr_sharding_of(a).mesh);
  c->outputs++;
  if (!golden) return check_fail(c, "there is no output '%s'", name);
  for (int p = 0; p < devices && p < 16; p++) {
    tsr_shard shard;
    int64_t count = 1;
    if (tsr_shard_view(a, p, &shard)) return check_fail(c, "%s: device %d has no part", name, p);
    for (int d = 0; d < tsr_shape_of(a).rank; d++) count *= shard.box.size[d];
    for (int64_t i = 0; i < count; i++) sums[p] += (double)((const float *)shard.data)[i];
  }
  return check_values(c, name, golden, TSR_F64, sums, devices) && check_place(c, name, golden, a);
}

/* ---- numbers and texts ----------------------------------------------------------------------- */

/* Compares a list of integers with the values of an output. */
static inline bool check_ints(check *c, const char *name, const int64_t *values, int count)
{
  const char *golden = check_line(c->golden, "array", name);
  const char *list = golden ? check_fact(golden, "values") : NULL;
  c->outputs++;
  for (int i = 0; i < count; i++)
    if (!list || !check_next(&list, TSR_I64, &values[i]))
      return check_fail(c, "%s: value %d is %lld", name, i, (long long)values[i]);
  if (!list || *list != '\n') return check_fail(c, "%s has more than %d values", name, count);
  return true;
}

/* Compares one number; `rel` 0 means bit for bit. */
static inline void check_number(check *c, const char *name, double value, double rel)
{
  const char *golden = check_line(c->golden, "array", name);
  const char *list = golden ? check_fact(golden, "values") : NULL;
  double expected = list ? strtod(list, NULL) : (double)NAN;
  c->outputs++;
  if (memcmp(&expected, &value, sizeof value) == 0) return;
  if (rel > 0 && fabs(value - expected) <= rel * fabs(expected)) return;
  check_fail(c, "%s is %.17g, expected %.17g", name, value, expected);
}

/* Compares a mesh with its text and with the ids of its devices, position by position. */
static inline void check_mesh(check *c, const char *name, const tsr_mesh *mesh, const char *text)
{
  int64_t ids[16];
  int count = tsr_mesh_device_count(mesh);
  for (int i = 0; i < count && i < 16; i++) ids[i] = tsr_mesh_device(mesh, i);
  if (strcmp(tsr_mesh_text(mesh), text) != 0)
    check_fail(c, "%s is %s, expected %s", name, tsr_mesh_text(mesh), text);
  check_ints(c, name, ids, count);
}

/* Compares where a sharding cuts a shape: start and end of every dim, device by device. */
static inline bool check_bounds(check *c, const char *name, tsr_sharding on, tsr_shape shape)
{
  int64_t bounds[16 * 2 * TSR_MAX_RANK];
  int count = 0, devices = tsr_mesh_device_count(on.mesh);
  for (int p = 0; p < devices && p < 16; p++) {
    tsr_box box;
    if (tsr_shard_box(&on, shape, p, &box)) return check_fail(c, "%s: no box", name);
    for (int d = 0; d < shape.rank; d++) {
      bounds[count++] = box.start[d];
      bounds[count++] = box.start[d] + box.size[d];
    }
  }
  const char *golden = check_line(c->golden, "array", name);
  if (golden) check_lies(c, name, golden, on, shape.rank);
  return check_ints(c, name, bounds, count);
}

/* Prints a line to stdout that must be the `number`th (from 0) of the block's printed ones. */
static inline void check_print(check *c, const char *name, int number, const char *text)
{
  const char *line = c->golden;
  for (int i = 0; line && i <= number; i++) line = check_line(line, "line", name);
  c->outputs++;
  puts(text);
  if (!line || strncmp(line + 1, text, strlen(text)) != 0 || line[1 + strlen(text)] != '\n')
    check_fail(c, "printed line %d differs: %s", number, text);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Compares each column of a frame with the output NAME.COLUMN. */
static inline void check_frame(check *c, const char *name, tsr_frame *df)
{
  if (tsr_frame_column_count(df) == 0) check_fail(c, "%s has no columns", name);
  for (int i = 0; i < tsr_frame_column_count(df); i++) {
    char output[200];
    const char *column = tsr_frame_column_name(df, i);
    snprintf(output, sizeof output, "%s.%s", name, column);
    check_array(c, output, tsr_frame_column(df, column));
  }
}

/* Compares each column of a frame of one row with the number NAME.COLUMN, and its type. */
static inline bool check_row(check *c, const char *name, tsr_frame *df)
{
  tsr_row *row = tsr_frame_row(df);
  if (tsr_row_status(row))
    return check_fail(c, "%s: %s", name, tsr_status_text(tsr_row_status(row)));
  for (int i = 0; i < tsr_frame_column_count(df); i++) {
    char output[200];
    const char *column = tsr_frame_column_name(df, i);
    snprintf(output, sizeof output, "%s.%s", name, column);
    const char *golden = check_line(c->golden, "array", output);
    const char *type = tsr_coltype_name(tsr_frame_column_type(df, i));
    if (!golden || strncmp(golden + 1, type, strlen(type)) != 0)
      check_fail(c, "%s is of type %s", output, type);
    if (tsr_frame_column_type(df, i) == TSR_COL_I64)
      check_ints(c, output, &(int64_t){ tsr_row_i64(row, column) }, 1);
    else check_number(c, output, tsr_row_f64(row, column), 0);
  }
  return true;
}

/* How many rows each device has after a filter, from the text that says so. */
static inline bool check_rows_by_device(tsr_frame *df, int64_t rows[8])
{
  const char *line = tsr_frame_devices(df);
  for (int d = 0; d < 8; d++) {
    int id;
    long long kept;
    if (!line || sscanf(line, "device %d: %lld", &id, &kept) != 2 || id != d) return false;
    rows[d] = kept;
    line = strchr(line, '\n');
    if (line) line++;
  }
  return true;
}

/* ---- communication --------------------------------------------------------------------------- */

/* What the golden lists for NAME: how many collectives, and "KIND over AXIS=" of them, as they
 * begin in tsr_explain's text. */
static inline int check_listed(const check *c, const char *name, char out[64])
{
  int listed = 0;
  out[0] = 0;
  for (const char *at = c->golden; (at = check_line(at, "collective", name)); listed++) {
    char kind[32] = "", axis[16] = "";
    if (sscanf(at, "%31s %15s", kind, axis) == 2) snprintf(out, 64, "%s over %s=", kind, axis);
  }
  return listed;
}

/* What is explained for NAME must be on its list: at most as many, each of the kind and over the
 * axis that is named there. */
static inline void check_explained(check *c, const char *name, const char *explained)
{
  static const char *const kinds[] = { "all-reduce", "all-gather", "all-to-all",   "broadcast",
                                       "permute",    "rebalance",  "rematerialise" };
  char allowed[64];
  int listed = check_listed(c, name, allowed), found = 0;
  c->outputs++;
  for (const char *line = explained; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    const char *word = line + strspn(line, " ");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
      if (strncmp(word, kinds[k], strlen(kinds[k])) != 0) continue;
      found++;
      if (!listed || strncmp(word, allowed, strlen(allowed)) != 0)
        check_fail(c, "%s: not on the list: %.*s", name, (int)strcspn(word, "\n"), word);
    }
  }
  if (found > listed) check_fail(c, "%s: %d collectives, expected at most %d", name, found, listed);
}

/* The scope's last run must not have communicated more often than NAME's list has lines. A sum over
 * devices may take two steps: an all-to-all deals the elements out, and what was added up is
 * gathered, where that weighs less than the exact parts of all sums. */
static inline void check_ran(check *c, const char *name, const tsr_scope *s)
{
  char allowed[64];
  int listed = check_listed(c, name, allowed), ran = tsr_last_run(s).collectives;
  for (const char *at = c->golden; (at = check_line(at, "collective", name));)
    listed += !strncmp(at, " all-reduce", strlen(" all-reduce"));
  c->outputs++;
  if (ran > listed) check_fail(c, "%s: %d collectives ran, expected at most %d", name, ran, listed);
}

#endif
