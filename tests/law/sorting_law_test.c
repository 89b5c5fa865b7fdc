/* The law of sorts over devices: long lines of all thirteen dtypes, cut over any mesh, are in the
 * one order there is, as a sort by comparison of elements and places finds it; both results lie
 * where the operand did, and explained and escaped bytes are those counted. Runs at each ISA. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/law_fixture.h"
#include "support/naive_program.h"
#include "support/topology_fixture.h"
#include "tessera.h"

enum { DTYPES = 13 };

typedef struct element {
  cell value;
  int64_t place;
  int dtype;
  bool down;
} element;

static int by_value(const void *left, const void *right)
{
  const element *a = left, *b = right;
  int order = 0;
  if (naive_is_real(a->dtype)) {
    bool x = isnan(a->value.f), y = isnan(b->value.f);
    if (x != y) return x ? 1 : -1; /* NaN last both ways */
    if (!x) order = (a->value.f > b->value.f) - (a->value.f < b->value.f);
  } else if (a->dtype == TSR_U64) {
    uint64_t x = (uint64_t)a->value.i, y = (uint64_t)b->value.i;
    order = (x > y) - (x < y);
  } else {
    order = (a->value.i > b->value.i) - (a->value.i < b->value.i);
  }
  if (order) return a->down ? -order : order;
  return (a->place > b->place) - (a->place < b->place);
}

typedef struct line_case {
  test_rng rng;
  tsr_dtype dtype;
  int64_t before, along, after;
  bool down;
  cell *cells;
  void *bytes;
} line_case;

static int64_t index_of(const line_case *c, int64_t line, int64_t i)
{
  return (line / c->after * c->along + i) * c->after + line % c->after;
}

/* Values far apart, or few; in order, or nearly. */
static void draw_values(line_case *c)
{
  int64_t count = c->before * c->along * c->after, kind = test_range(&c->rng, 0, 3);
  c->cells = calloc((size_t)count, sizeof *c->cells);
  c->bytes = malloc((size_t)count * 8);
  for (int64_t i = 0; i < count; i++) {
    c->cells[i] = naive_random(&c->rng, (int)c->dtype);
    if (kind == 1 && i > 5) c->cells[i] = c->cells[test_range(&c->rng, 0, 5)];
    if (kind == 2 && i > 5 && test_range(&c->rng, 0, 9)) c->cells[i] = c->cells[i - 1];
    naive_put(c->bytes, (int)c->dtype, i, c->cells[i]);
    c->cells[i] = naive_get(c->bytes, (int)c->dtype, i);
  }
}

static void check_case(const line_case *c, const void *values, const int64_t *places)
{
  element *line = malloc((size_t)c->along * sizeof *line);
  for (int64_t l = 0; l < c->before * c->after; l++) {
    for (int64_t i = 0; i < c->along; i++)
      line[i] = (element){ c->cells[index_of(c, l, i)], i, (int)c->dtype, c->down };
    qsort(line, (size_t)c->along, sizeof *line, by_value);
    for (int64_t i = 0; i < c->along; i++) {
      int64_t at = index_of(c, l, i);
      CHECK_I64(places[at], line[i].place);
      naive_check("sort", at, (int)c->dtype, naive_get(values, (int)c->dtype, at), line[i].value);
    }
  }
  free(line);
}

static void one_case(tsr_runtime *rt, uint64_t seed)
{
  static const char *const meshes[] = { "x=2", "x=3", "x=8", "x=2,y=2", "x=4,y=2", "x=2,y=2,z=2" };
  line_case c = { .rng = test_seeded(seed), .before = 1, .after = 1 };
  tsr_scope *s = tsr_scope_open(rt);
  const tsr_mesh *mesh = tsr_mesh_make(rt, meshes[test_range(&c.rng, 0, 5)]);
  c.dtype = fixture_dtype(test_range(&c.rng, 0, DTYPES - 1));
  if (!test_range(&c.rng, 0, 1)) c.before = test_range(&c.rng, 1, 3);
  if (!test_range(&c.rng, 0, 1)) c.after = test_range(&c.rng, 1, 3);
  c.along = test_range(&c.rng, 4090, test_range(&c.rng, 0, 9) ? 6000 : 80000);
  c.down = test_range(&c.rng, 0, 1);
  draw_values(&c);
  int64_t count = c.before * c.along * c.after;
  tsr_shape shape = TSR_SHAPE(c.before, c.along, c.after);
  tsr_sharding at = law_sharding(&c.rng, mesh, 3);
  tsr_array *x = tsr_put(s, c.bytes, c.dtype, shape, at);
  tsr_array *both[2] = { tsr_sort(x, 1, .descending = c.down),
                         tsr_argsort(x, 1, .descending = c.down) };
  void *values = malloc((size_t)count * 8);
  int64_t *places = malloc((size_t)count * sizeof *places);
  if (test_range(&c.rng, 0, 1)) CHECK_STATUS(tsr_eval(both, 2), TSR_OK, s);
  CHECK_STATUS(tsr_read(both[1], places, (size_t)count * 8), TSR_OK, s);
  CHECK_STATUS(tsr_read(both[0], values, (size_t)count * tsr_dtype_size(c.dtype)), TSR_OK, s);
  tsr_run_stats stats = tsr_last_run(s);
  CHECK_I64(stats.bytes_counted, stats.bytes_explained + stats.bytes_escaped);
  check_case(&c, values, places);
  free(values);
  free(places);
  free(c.cells);
  free(c.bytes);
  tsr_scope_close(s);
}

TEST_TIMEOUT(long_lines_over_devices_have_one_order, 600)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  const char *only = getenv("LAW_SEED");
  uint64_t cases = test_quick() ? 60 : 600, first = only ? strtoull(only, NULL, 10) : 1;
  for (uint64_t seed = first; seed <= (only ? first : cases); seed++) {
    if (getenv("LAW_SEEDS")) printf("# seed %llu\n", (unsigned long long)seed);
    one_case(rt, seed);
  }
  tsr_runtime_close(rt);
}
