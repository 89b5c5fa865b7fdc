#include "support/rel_fixture.h"
#include "kernel/device/cpu.h"

#include "support/topology_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/topology.h"

/* ---- tables on the host ---- */

void rel_host_like(rel_host *host, const rel_host *like, int64_t rows)
{
  rel_host made = { .count = like->count, .rows = rows };
  for (int c = 0; c < like->count; c++) {
    made.dtype[c] = like->dtype[c];
    made.nulls[c] = like->nulls[c];
    made.corners[c] = like->corners[c];
    made.cell[c] = calloc((size_t)rows + 1, sizeof(uint64_t));
    made.null[c] = calloc((size_t)rows + 1, 1);
  }
  *host = made;
}

void rel_host_free(rel_host *host)
{
  for (int c = 0; c < host->count; c++) {
    free(host->cell[c]);
    free(host->null[c]);
  }
  memset(host, 0, sizeof *host);
}

static double any_float(test_rng *rng, int64_t most)
{
  static const double odd[] = { NAN, 0.0, -0.0, INFINITY, -INFINITY, 5e-324 };
  if (!test_range(rng, 0, 7)) return odd[test_range(rng, 0, 5)];
  return (double)test_range(rng, -most, most) / 4;
}

static uint64_t any_cell(test_rng *rng, tsr_dtype dtype, int64_t most)
{
  const tsr__dtype_info *info = tsr__dtype_info_of(dtype);
  int64_t top = info->precision < 63 ? (INT64_C(1) << info->precision) - 1 : INT64_MAX;
  uint64_t cell = 0;
  if (most < top) top = most;
  if (info->kind == TSR__DTYPE_FLOAT) tsr__dtype_put_real(dtype, &cell, 0, any_float(rng, most));
  else if (info->kind == TSR__DTYPE_BOOL) cell = test_random(rng) & 1;
  else
    tsr__dtype_put_whole(dtype, &cell, 0,
                         test_range(rng, info->kind == TSR__DTYPE_INT ? -top : 0, top));
  return cell;
}

/* The corners of u64 are those of i64 as bits: 0, its largest, and both sides of 2^63. */
static uint64_t corner_cell(test_rng *rng, tsr_dtype dtype)
{
  const tsr__dtype_info *info = tsr__dtype_info_of(dtype);
  int64_t top = info->precision < 63 ? (INT64_C(1) << info->precision) - 1 : INT64_MAX;
  bool signed_ends = info->kind == TSR__DTYPE_INT || info->bits == 64;
  uint64_t cell = 0;
  if (info->kind == TSR__DTYPE_FLOAT) tsr__dtype_put_real(dtype, &cell, 0, test_corner_f64(rng));
  else if (info->kind == TSR__DTYPE_BOOL) cell = test_random(rng) & 1;
  else tsr__dtype_put_whole(dtype, &cell, 0, test_corner(rng, signed_ends ? -top - 1 : 0, top));
  return cell;
}

void rel_host_new(rel_host *host, test_rng *rng, int count, int64_t rows, int64_t most)
{
  rel_host like = { .count = count };
  for (int c = 0; c < count; c++) {
    like.dtype[c] = fixture_dtype(test_range(rng, 0, 99));
    like.nulls[c] = test_range(rng, 0, 1);
    like.corners[c] = !test_range(rng, 0, 3);
  }
  rel_host_like(host, &like, rows);
  for (int c = 0; c < count; c++) {
    int64_t share = test_range(rng, 0, 4); /* of nulls; 4: nothing else */
    for (int64_t i = 0; i < rows; i++) {
      host->null[c][i] = host->nulls[c] && test_range(rng, 0, 3) < share;
      if (host->null[c][i]) continue;
      host->cell[c][i] =
          host->corners[c] ? corner_cell(rng, host->dtype[c]) : any_cell(rng, host->dtype[c], most);
    }
  }
}

void rel_host_copy_row(rel_host *to, int64_t to_row, const rel_host *from, int64_t from_row)
{
  for (int c = 0; c < to->count; c++) {
    to->cell[c][to_row] = from_row < 0 ? 0 : from->cell[c][from_row];
    to->null[c][to_row] = from_row < 0 || from->null[c][from_row];
  }
}

/* ---- layouts ---- */

const rel_layout rel_layouts[REL_LAYOUTS] = {
  { "", "" },         { "x=1", "x" },       { "x=2", "x" }, { "x=3", "x" },     { "x=4", "x" },
  { "x=5", "x" },     { "x=6", "x" },       { "x=7", "x" }, { "x=8", "x" },     { "x=2,y=2", "x" },
  { "x=2,y=2", "y" }, { "x=2,y=2", "y+x" }, { "x=3", "-" }, { "x=2,y=3", "y" },
};

tsr_runtime *rel_open(const tsr_runtime_opts *opts)
{
  tsr_runtime_opts usual = { .size = sizeof usual };
  char text[16];
  snprintf(text, sizeof text, "cpu:%d", REL_DEVICES);
  return tsr_runtime_open_with(text, opts ? opts : &usual);
}

tsr_sharding rel_sharding(tsr_runtime *rt, int layout)
{
  tsr_sharding none = { .mesh = NULL };
  if (!*rel_layouts[layout].mesh) return tsr__sharding_canon(&none);
  tsr_sharding on = tsr_on(tsr_mesh_make(rt, rel_layouts[layout].mesh), rel_layouts[layout].spec);
  return tsr__sharding_canon(&on);
}

int64_t rel_most_held(tsr_runtime *rt, bool peak)
{
  int64_t most = 0;
  for (int d = 0; d < REL_DEVICES; d++) {
    tsr_memory memory = tsr_device_memory(rt, d);
    int64_t bytes = peak ? memory.peak : memory.now;
    most = bytes > most ? bytes : most;
  }
  return most;
}

/* ---- tables on devices ---- */

static void random_rows(test_rng *rng, const tsr_sharding *sharding, int64_t total, int64_t *rows)
{
  int positions = tsr__positions(sharding), parts = (int)tsr__dim_parts(sharding, 0);
  int64_t share[REL_POSITIONS], left = total;
  int heavy = (int)test_range(rng, 0, parts - 1);
  for (int p = 0; p < parts; p++) {
    share[p] = test_range(rng, 0, 2) ? test_range(rng, 0, left) / 2 : 0;
    left -= share[p];
  }
  share[heavy] += left;
  for (int p = 0; p < positions; p++) rows[p] = share[tsr__dim_index(sharding, 0, p)];
}

static tsr__value *make_value(tsr_runtime *rt, const tsr__layout *layout, const uint64_t *cell,
                              const bool *null)
{
  tsr__error error = { .status = TSR_OK };
  tsr__value *value = tsr__value_new(rt, layout, &error);
  size_t rows = (size_t)layout->shape->dims[0];
  size_t size = layout->dtype == TSR_BOOL ? 1 : tsr_dtype_size(layout->dtype);
  unsigned char *data = calloc(rows + 1, size);
  CHECK(value && data);
  for (size_t i = 0; i < rows; i++) {
    uint64_t bits = cell ? cell[i] : !null[i];
    if (cell && null[i]) bits = UINT64_C(0xDEADBEEF12345678) & (size == 1 ? 1 : UINT64_MAX);
    memcpy(data + i * size, &bits, size);
  }
  tsr__value_from_host(value, data);
  free(data);
  return value;
}

void rel_make(tsr_runtime *rt, const tsr_sharding *sharding, const rel_host *host, test_rng *rng,
              tsr__rel *out)
{
  tsr__error error = { .status = TSR_OK };
  int64_t rows[REL_POSITIONS];
  tsr_shape shape = { 1, { host->rows } };
  tsr__layout layout = { TSR_BOOL, &shape, sharding, rng ? rows : NULL };
  if (rng) random_rows(rng, sharding, host->rows, rows);
  CHECK_STATUS(tsr__rel_new(rt, sharding, host->count, out, &error), TSR_OK, NULL);
  out->total = host->rows;
  for (int c = 0; c < host->count; c++) {
    layout.dtype = host->dtype[c];
    out->column[c].values = make_value(rt, &layout, host->cell[c], host->null[c]);
    layout.dtype = TSR_BOOL;
    if (host->nulls[c]) out->column[c].valid = make_value(rt, &layout, NULL, host->null[c]);
  }
}

static uint64_t cell_of(tsr_dtype dtype, const void *data, int64_t row)
{
  if (dtype == TSR_BOOL) return ((const uint64_t *)data)[row / 64] >> (row % 64) & 1;
  size_t size = tsr_dtype_size(dtype);
  uint64_t cell = 0;
  memcpy(&cell, (const char *)data + (size_t)row * size, size);
  return cell;
}

/* One position's rows; those already read by a replica must be the same. */
static void read_part(const tsr__rel *rel, int c, int position, bool *seen, rel_host *out)
{
  const tsr__value *values = rel->column[c].values, *valid = rel->column[c].valid;
  tsr_box box;
  tsr__value_box(values, position, &box);
  int device = tsr__home_device(rel->rt, &rel->sharding, position);
  if (!tsr__device_local(tsr__topology_of(rel->rt), device)) {
    CHECK(!values->parts[position]);
    return;
  }
  CHECK_I64(values->parts[position]->device, device);
  const void *data = tsr__value_map(values, position);
  const void *there = valid ? tsr__value_map(valid, position) : NULL;
  for (int64_t i = 0; i < box.size[0]; i++) {
    int64_t row = box.start[0] + i;
    bool null = valid && !cell_of(TSR_BOOL, there, i);
    uint64_t cell = null ? 0 : cell_of(out->dtype[c], data, i);
    if (seen[row]) {
      CHECK_U64(cell, out->cell[c][row]);
      CHECK_I64(null, out->null[c][row]);
    }
    seen[row] = true;
    out->cell[c][row] = cell;
    out->null[c][row] = null;
  }
  tsr__value_unmap(values, position);
  if (valid) tsr__value_unmap(valid, position);
}

/* Rows that lie in other processes, as the host sees them. */
static void read_others(const tsr__rel *rel, int c, bool *seen, rel_host *out)
{
  tsr__error error = { .status = TSR_OK };
  size_t size = out->dtype[c] == TSR_BOOL ? 1 : tsr_dtype_size(out->dtype[c]);
  unsigned char *data = calloc((size_t)rel->total + 1, size);
  unsigned char *there = calloc((size_t)rel->total + 1, 1);
  const tsr__value *valid = rel->column[c].valid;
  CHECK_STATUS(tsr__value_fetch(rel->column[c].values, data, "the test", &error), TSR_OK, NULL);
  if (valid) CHECK_STATUS(tsr__value_fetch(valid, there, "the test", &error), TSR_OK, NULL);
  for (int64_t i = 0; i < rel->total; i++) {
    uint64_t cell = 0;
    bool null = valid && !there[i];
    if (!null) memcpy(&cell, data + (size_t)i * size, size);
    if (!seen[i]) out->null[c][i] = null;
    if (!seen[i]) out->cell[c][i] = cell;
    CHECK_U64(out->cell[c][i], cell);
    CHECK_I64(out->null[c][i], null);
    seen[i] = true;
  }
  free(there);
  free(data);
}

void rel_read(const tsr__rel *rel, rel_host *out)
{
  rel_host like = { .count = rel->count };
  for (int c = 0; c < rel->count; c++) {
    like.dtype[c] = (tsr_dtype)rel->column[c].values->dtype;
    like.nulls[c] = rel->column[c].valid != NULL;
    CHECK_I64(rel->column[c].values->shape.dims[0], rel->total);
    CHECK(tsr__sharding_equal(&rel->column[c].values->sharding, &rel->sharding));
  }
  rel_host_like(out, &like, rel->total);
  for (int c = 0; c < rel->count; c++) {
    bool *seen = calloc((size_t)rel->total + 1, 1);
    for (int p = 0; p < tsr__positions(&rel->sharding); p++) read_part(rel, c, p, seen, out);
    if (tsr__peers_of(rel->rt)) read_others(rel, c, seen, out);
    for (int64_t i = 0; i < rel->total; i++) CHECK(seen[i]);
    free(seen);
  }
}

void rel_check(const rel_host *found, const rel_host *expected, const char *what)
{
  if (found->count != expected->count || found->rows != expected->rows)
    FAIL("%s: %d columns of %lld rows, expected %d of %lld", what, found->count,
         (long long)found->rows, expected->count, (long long)expected->rows);
  for (int c = 0; c < found->count; c++) {
    CHECK_I64(found->dtype[c], expected->dtype[c]);
    for (int64_t i = 0; i < found->rows; i++)
      if (found->null[c][i] != expected->null[c][i] || found->cell[c][i] != expected->cell[c][i])
        FAIL("%s: column %d (%s) row %lld is %llx%s, expected %llx%s", what, c,
             tsr_dtype_name(found->dtype[c]), (long long)i, (unsigned long long)found->cell[c][i],
             found->null[c][i] ? " (null)" : "", (unsigned long long)expected->cell[c][i],
             expected->null[c][i] ? " (null)" : "");
  }
}

/* ---- the order of rows ---- */

static int compare_numbers(double a, double b)
{
  if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
  return (a > b) - (a < b);
}

int rel_compare_cells(tsr_dtype dtype, uint64_t a, uint64_t b)
{
  if (tsr__dtype_is_real(dtype))
    return compare_numbers(tsr__dtype_get_real(dtype, &a, 0), tsr__dtype_get_real(dtype, &b, 0));
  if (tsr__dtype_info_of(dtype)->kind != TSR__DTYPE_INT) return (a > b) - (a < b);
  int64_t x = tsr__dtype_get_whole(dtype, &a, 0), y = tsr__dtype_get_whole(dtype, &b, 0);
  return (x > y) - (x < y);
}

int rel_compare(const rel_host *host, const tsr__rel_key *keys, int count, const int64_t rows[2])
{
  for (int k = 0; k < count; k++) {
    int c = keys[k].column, order;
    bool a = host->null[c][rows[0]], b = host->null[c][rows[1]];
    if (a || b) order = keys[k].nulls_first ? b - a : a - b;
    else {
      uint64_t x = host->cell[c][rows[0]], y = host->cell[c][rows[1]];
      if (keys[k].map) {
        x = (uint64_t)(uint32_t)keys[k].map[x];
        y = (uint64_t)(uint32_t)keys[k].map[y];
      }
      order = rel_compare_cells(host->dtype[c], x, y) * (keys[k].descending ? -1 : 1);
    }
    if (order) return order;
  }
  return 0;
}
