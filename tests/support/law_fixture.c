#include "support/law_fixture.h"
#include "support/dealt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- trials ------------------------------------------------------------------------------ */

/* The seed that was asked for; false: none was. */
static bool only_seed(uint64_t *seed)
{
  const char *given = getenv("LAW_SEED");
  if (given) *seed = strtoull(given, NULL, 0);
  return given != NULL;
}

void law_each_seed(uint64_t first, int count, void (*trial)(uint64_t seed))
{
  bool only = only_seed(&first);
  if (only) count = 1;
  for (int i = 0; i < count; i++) {
    if (!only && !test_share(first + (uint64_t)i)) continue;
    printf("# LAW_SEED=%llu\n", (unsigned long long)first + (unsigned long long)i);
    trial(first + (uint64_t)i);
  }
}

void law_each_seed_on_8(uint64_t first, int count, double share,
                        bool (*trial)(tsr_runtime *rt, uint64_t seed))
{
  bool only = only_seed(&first);
  int some = 0, tried = 0;
  if (only) count = 1;
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (int i = 0; i < count; i++) {
    if (!only && !test_share(first + (uint64_t)i)) continue;
    some += trial(rt, first + (uint64_t)i);
    tried++;
  }
  tsr_runtime_close(rt);
  CHECK(only || some > tried * share);
}

/* ---- meshes ------------------------------------------------------------------------------ */

/* Speeds change where arrays lie and what moves, and no result. With slow speeds small arrays move
 * in two steps as well. */
const char *const law_meshes[LAW_MESHES] = {
  "x=1", "x=2", "x=3", "x=4", "x=8", "x=2,y=2", "x=4@10,y=2@300", "x=2@20,y=2@900,z=2@90"
};

tsr_sharding law_sharding(test_rng *rng, const tsr_mesh *mesh, int rank)
{
  char part[TSR_MAX_RANK][64] = { { 0 } }, text[256] = "";
  if (test_range(rng, 0, 5) == 0) return (tsr_sharding){ 0 };
  for (int a = 0; a < tsr_mesh_axis_count(mesh); a++) {
    int64_t d = test_range(rng, -1, rank - 1);
    if (d < 0) continue;
    if (part[d][0]) strcat(part[d], "+");
    strcat(part[d], tsr_mesh_axis_name(mesh, a));
  }
  for (int d = 0; d < rank; d++) {
    if (d) strcat(text, ",");
    strcat(text, part[d][0] ? part[d] : "-");
  }
  return tsr_on(mesh, text);
}

tsr_sharding law_placed(test_rng *rng, const tsr_mesh *mesh, int rank)
{
  tsr_sharding out;
  do out = law_sharding(rng, mesh, rank);
  while (!out.mesh);
  return out;
}

tsr_shape law_large(test_rng *rng, int least, int most)
{
  tsr_shape shape = { .rank = (int)test_range(rng, least, most) };
  int few = (int)test_range(rng, 0, shape.rank - 1), others = shape.rank - 1;
  int64_t size = others ? test_range(rng, 0, 3) : test_range(rng, 33000, 70000), left = 70000;
  if (size) left /= size;
  for (int d = 0; d < shape.rank; d++) {
    if (d == few) {
      shape.dims[d] = size;
      continue;
    }
    double even = pow((double)left, 1.0 / others--);
    shape.dims[d] = others ? test_range(rng, (int64_t)even / 2 + 1, (int64_t)even) : left;
    left /= shape.dims[d];
  }
  return shape;
}

tsr_shape law_deep(test_rng *rng, tsr_shape shape, int most)
{
  if (shape.rank >= most || test_range(rng, 0, 7)) return shape;
  /* At times all that there are, as the last one is where mistakes are. */
  int rank = test_range(rng, 0, 2) ? (int)test_range(rng, shape.rank + 1, most) : most;
  for (int twos = 0; shape.rank < rank;) {
    int at = (int)test_range(rng, 0, shape.rank);
    bool two = twos < 3 && !test_range(rng, 0, 3);
    memmove(shape.dims + at + 1, shape.dims + at, (size_t)(shape.rank - at) * sizeof *shape.dims);
    shape.dims[at] = two ? 2 : 1;
    twos += two;
    shape.rank++;
  }
  return shape;
}

law_mesh law_open(test_rng *rng)
{
  char mesh[24];
  const dealt_devices all = dealt((int)test_range(rng, 1, 8));
  int devices = all.count;
  bool flat = devices % 2 || test_range(rng, 0, 1);
  snprintf(mesh, sizeof mesh, flat ? "x=%d" : "x=%d,y=2", flat ? devices : devices / 2);
  tsr_runtime *rt = tsr_runtime_open(all.text, .threads = (int)test_range(rng, 1, 2));
  return (law_mesh){ rt, tsr_mesh_make(rt, mesh), flat };
}

/* ---- tables ------------------------------------------------------------------------------ */

static uint64_t bits_of(const tsr_table *table, int64_t row, int c)
{
  tsr_coltype type = tsr_table_type(table, c);
  if (type < TSR_COL_F16 || type > TSR_COL_F64) return (uint64_t)tsr_table_i64(table, row, c);
  double value = tsr_table_f64(table, row, c);
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static bool same_cell(const tsr_table *a, const tsr_table *b, int64_t r, int c)
{
  bool null = tsr_table_is_null(a, r, c);
  if (null || tsr_table_is_null(b, r, c)) return null == tsr_table_is_null(b, r, c);
  if (tsr_table_type(a, c) == TSR_COL_TEXT)
    return !strcmp(tsr_table_text(a, r, c), tsr_table_text(b, r, c));
  return bits_of(a, r, c) == bits_of(b, r, c);
}

const char *law_differs(const tsr_table *found, const tsr_table *expected)
{
  static char text[1000];
  int columns = tsr_table_column_count(expected);
  long long rows = tsr_table_row_count(expected);
  snprintf(text, sizeof text, "%lld rows and %d columns, expected %lld and %d",
           (long long)tsr_table_row_count(found), tsr_table_column_count(found), rows, columns);
  if (tsr_table_row_count(found) != rows || tsr_table_column_count(found) != columns) return text;
  for (int c = 0; c < columns; c++) {
    const char *name = tsr_table_name(expected, c);
    snprintf(text, sizeof text, "column %d is %s of type %d, expected %s of type %d", c,
             tsr_table_name(found, c), (int)tsr_table_type(found, c), name,
             (int)tsr_table_type(expected, c));
    if (strcmp(tsr_table_name(found, c), name) != 0) return text;
    if (tsr_table_type(found, c) != tsr_table_type(expected, c)) return text;
    for (int64_t r = 0; r < rows; r++) {
      if (same_cell(found, expected, r, c)) continue;
      snprintf(text, sizeof text, "row %lld of %s is %s, expected %s", (long long)r, name,
               tsr_table_text(found, r, c), tsr_table_text(expected, r, c));
      return text;
    }
  }
  return NULL;
}
