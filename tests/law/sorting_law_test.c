/* The law of sorts over devices: long lines of all dtypes, cut over any mesh, are in the
 * one order there is, as a sort by comparison of elements and places finds it: up, down, the first
 * few of the largest, and by several keys. Results lie where the operand did, and explained and
 * escaped bytes are those counted. Runs at each ISA. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/law_fixture.h"
#include "support/naive_program.h"
#include "support/topology_fixture.h"
#include "tessera.h"

enum { KEYS = 3 };
enum { UP, DOWN, TOP, BY_KEYS, HOWS };

typedef struct line_case {
  test_rng rng;
  int how, keys;
  tsr_dtype dtype[KEYS];
  int64_t before, along, after;
  int64_t kept; /* of a line */
  cell *cells[KEYS];
  void *bytes[KEYS];
} line_case;

/* A place of a line, and what stands there. */
typedef struct element {
  const line_case *c;
  int64_t at, place;
} element;

static int compare(int dtype, cell a, cell b, int how)
{
  int order = 0;
  if (naive_is_real(dtype)) {
    bool x = isnan(a.f), y = isnan(b.f);
    if (x != y) return (x ? 1 : -1) * (how == TOP ? -1 : 1); /* NaN last, up and down */
    if (!x) order = (a.f > b.f) - (a.f < b.f);
  } else if (dtype == TSR_U64) {
    order = ((uint64_t)a.i > (uint64_t)b.i) - ((uint64_t)a.i < (uint64_t)b.i);
  } else {
    order = (a.i > b.i) - (a.i < b.i);
  }
  return how == DOWN || how == TOP ? -order : order;
}

static int by_value(const void *left, const void *right)
{
  const element *a = left, *b = right;
  const line_case *c = a->c;
  for (int k = c->keys - 1; k >= 0; k--) {
    int order = compare((int)c->dtype[k], c->cells[k][a->at], c->cells[k][b->at], c->how);
    if (order) return order;
  }
  return (a->place > b->place) - (a->place < b->place);
}

static int64_t index_of(const line_case *c, int64_t line, int64_t i)
{
  return (line / c->after * c->along + i) * c->after + line % c->after;
}

/* Values far apart, or few; in order, or nearly; some without zeros and NaN. */
static void draw_values(line_case *c, int k)
{
  int64_t count = c->before * c->along * c->after, kind = test_range(&c->rng, 0, 3);
  bool plain = test_range(&c->rng, 0, 1);
  cell *cells = c->cells[k] = calloc((size_t)count, sizeof *cells);
  int dtype = (int)c->dtype[k];
  c->bytes[k] = malloc((size_t)count * 8);
  for (int64_t i = 0; i < count; i++) {
    cells[i] = naive_random(&c->rng, dtype);
    if (plain && naive_is_real(dtype) && !(fabs(cells[i].f) > 0x1p-9))
      cells[i].f = (double)(i % 1000) - 500.5;
    if ((kind == 1 || k) && i > 5) cells[i] = cells[test_range(&c->rng, 0, 5)];
    if (kind == 2 && i > 5 && test_range(&c->rng, 0, 9)) cells[i] = cells[i - 1];
    naive_put(c->bytes[k], dtype, i, cells[i]);
    cells[i] = naive_get(c->bytes[k], dtype, i);
  }
}

/* `values` NULL: there are none. */
static void check_case(const line_case *c, const void *values, const int64_t *places)
{
  element *line = malloc((size_t)c->along * sizeof *line);
  for (int64_t l = 0; l < c->before * c->after; l++) {
    for (int64_t i = 0; i < c->along; i++) line[i] = (element){ c, index_of(c, l, i), i };
    qsort(line, (size_t)c->along, sizeof *line, by_value);
    for (int64_t i = 0; i < c->kept; i++) {
      int64_t at = (l / c->after * c->kept + i) * c->after + l % c->after;
      CHECK_I64(places[at], line[i].place);
      if (values)
        naive_check("sort", at, (int)c->dtype[0], naive_get(values, (int)c->dtype[0], at),
                    c->cells[0][line[i].at]);
    }
  }
  free(line);
}

static line_case draw_case(uint64_t seed)
{
  line_case c = { .rng = test_seeded(seed), .keys = 1, .before = 1, .after = 1 };
  c.how = (int)test_range(&c.rng, 0, HOWS - 1);
  if (c.how == BY_KEYS) c.keys = (int)test_range(&c.rng, 1, KEYS);
  if (!test_range(&c.rng, 0, 1)) c.before = test_range(&c.rng, 1, 3);
  if (!test_range(&c.rng, 0, 1)) c.after = test_range(&c.rng, 1, 3);
  c.along = test_range(&c.rng, 4090, test_range(&c.rng, 0, 9) ? 6000 : 90000);
  if (!test_range(&c.rng, 0, 2))
    c.along = test_range(&c.rng, 0, test_range(&c.rng, 0, 1) ? 9 : 900);
  c.kept = c.along;
  if (c.how == TOP) {
    int64_t most = test_range(&c.rng, 0, 3) && c.along > 20 ? 20 : c.along;
    c.kept = test_range(&c.rng, 0, most);
  }
  for (int k = 0; k < c.keys; k++) {
    c.dtype[k] = fixture_dtype(test_range(&c.rng, 0, FIXTURE_DTYPES - 1));
    draw_values(&c, k);
  }
  return c;
}

/* What is asked for: values, where there are any, and places. */
static void ask(const line_case *c, tsr_array *const *x, tsr_array *both[2])
{
  bool down = c->how == DOWN;
  both[0] = c->how == TOP ? tsr_top_k(x[0], c->kept, 1) : tsr_sort(x[0], 1, .descending = down);
  both[1] =
      c->how == TOP ? tsr_arg_top_k(x[0], c->kept, 1) : tsr_argsort(x[0], 1, .descending = down);
  if (c->how == BY_KEYS) both[1] = tsr_lexsort(x, c->keys, 1);
}

static void one_case(tsr_runtime *rt, uint64_t seed)
{
  static const char *const meshes[] = { "x=2", "x=3", "x=8", "x=2,y=2", "x=4,y=2", "x=2,y=2,z=2" };
  line_case c = draw_case(seed);
  tsr_scope *s = tsr_scope_open(rt);
  const tsr_mesh *mesh = tsr_mesh_make(rt, meshes[test_range(&c.rng, 0, 5)]);
  tsr_array *x[KEYS], *both[2];
  for (int k = 0; k < c.keys; k++)
    x[k] = tsr_put(s, c.bytes[k], c.dtype[k], TSR_SHAPE(c.before, c.along, c.after),
                   law_sharding(&c.rng, mesh, 3));
  ask(&c, x, both);
  int64_t count = c.before * c.kept * c.after;
  size_t bytes = (size_t)count * tsr_dtype_size(c.dtype[0]);
  char *values = malloc((size_t)count * 8 + 8);
  int64_t *places = malloc((size_t)count * sizeof *places + 8);
  bool keys = c.how == BY_KEYS;
  if (!keys && test_range(&c.rng, 0, 1)) CHECK_STATUS(tsr_eval(both, 2), TSR_OK, s);
  if (!keys) CHECK_STATUS(tsr_read(both[0], values, bytes), TSR_OK, s);
  CHECK_STATUS(tsr_read(both[1], places, (size_t)count * 8), TSR_OK, s);
  tsr_run_stats stats = tsr_last_run(s);
  CHECK_I64(stats.bytes_counted, stats.bytes_explained + stats.bytes_escaped);
  check_case(&c, keys ? NULL : values, places);
  free(values);
  free(places);
  for (int k = 0; k < c.keys; k++) {
    free(c.cells[k]);
    free(c.bytes[k]);
  }
  tsr_scope_close(s);
}

TEST_TIMEOUT(long_lines_over_devices_have_one_order, 600)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  const char *only = getenv("LAW_SEED");
  uint64_t cases = test_quick() ? 60 : 600, first = only ? strtoull(only, NULL, 10) : 1;
  for (uint64_t seed = first; seed <= (only ? first : cases); seed++) {
    if (!only && !test_share(seed)) continue;
    if (getenv("LAW_SEEDS")) printf("# seed %llu\n", (unsigned long long)seed);
    one_case(rt, seed);
  }
  tsr_runtime_close(rt);
}
