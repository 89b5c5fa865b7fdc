/* Relations of tables too large for one stretch, piece or bucket: eight devices give what one
 * gives. */
#include "tessera.h"

#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 400000 };

static uint64_t mix(uint64_t z)
{
  z = (z + 1) * UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 29)) * UINT64_C(0xBF58476D1CE4E5B9);
  return z ^ (z >> 32);
}

static tsr_frame *side(tsr_scope *s, tsr_sharding at, int seed, const char *key, const char *value)
{
  int64_t *k = malloc(ROWS * sizeof *k);
  double *v = malloc(ROWS * sizeof *v);
  CHECK(k && v);
  for (int64_t i = 0; i < ROWS; i++) {
    uint64_t bits = mix((uint64_t)(i + seed * 1000003));
    k[i] = seed ? (int64_t)(bits % (ROWS + ROWS / 10)) : (i * 7919) % ROWS;
    v[i] = (double)(mix(bits) >> 11) * 0x1p-40;
  }
  tsr_frame *df = tsr_frame_new(s, { key, tsr_put(s, k, TSR_I64, TSR_SHAPE(ROWS), at) },
                                { value, tsr_put(s, v, TSR_F64, TSR_SHAPE(ROWS), at) });
  free(k);
  free(v);
  return df;
}

/* What depends on every value and its place: a weighted sum beside the plain ones. */
static void digest(tsr_frame *df, const char *column, char *out, size_t size)
{
  char aggregates[200], weighted[80];
  snprintf(weighted, sizeof weighted, "%s * (row %% 1009)", column);
  df = tsr_frame_assign_at(tsr_frame_with_row_index(df, "row"), "weighted",
                           &(tsr_formula){ .text = weighted }, TSR_HERE);
  snprintf(aggregates, sizeof aggregates, "n = count(), a = sum(%s), b = sum(weighted)", column);
  tsr_row *row =
      tsr_frame_row(tsr_frame_agg_at(df, &(tsr_formula){ .text = aggregates }, TSR_HERE));
  CHECK_I64(tsr_row_status(row), TSR_OK);
  snprintf(out, size, "%lld %a %a", (long long)tsr_row_i64(row, "n"), tsr_row_f64(row, "a"),
           tsr_row_f64(row, "b"));
}

enum { JOIN, SEMI, SORT, SORT_BACK, GROUP, MEDIAN, TOP, JOBS };

static void run(int job, const char *devices, char *out, size_t size)
{
  tsr_runtime *rt = tsr_runtime_open(devices);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding at = tsr_on(tsr_mesh_default(rt, "data"), "data");
  tsr_frame *left = side(s, at, 1, "k", "v"), *right = side(s, at, 0, "k", "w");
  switch (job) {
  case JOIN: digest(tsr_frame_join(left, right, "k"), "w", out, size); break;
  case SEMI: digest(tsr_frame_join(left, right, "k", .how = TSR_JOIN_SEMI), "v", out, size); break;
  case SORT: digest(tsr_frame_sort(left, "v"), "v", out, size); break;
  case SORT_BACK: digest(tsr_frame_sort(left, "k desc"), "v", out, size); break;
  case GROUP: digest(tsr_frame_group_agg(left, "k", "x = sum(v)"), "x", out, size); break;
  case MEDIAN:
    digest(tsr_frame_group_agg(left, "g = k % 97", "x = median(v)"), "x", out, size);
    break;
  default: digest(tsr_frame_group_head(tsr_frame_sort(left, "v desc"), "k", 1), "v", out, size);
  }
  CHECK_STR(tsr_message(s), "");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(large_tables_do_not_show_their_mesh, 300)
{
  for (int job = 0; job < JOBS; job++) {
    char one[200], many[200];
    run(job, "cpu:1", one, sizeof one);
    for (int devices = 3; devices <= 8; devices += 5) {
      char names[16];
      snprintf(names, sizeof names, "cpu:%d", devices);
      run(job, names, many, sizeof many);
      if (strcmp(one, many) != 0) FAIL("job %d: one device %s, %s %s", job, one, names, many);
    }
  }
}
