/* Choosing, finding and counting give what NumPy gives, bit for bit, on one device and on several
 * however their operands are cut (tests/golden/make_indexing.py). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/law_fixture.h"
#include "support/naive_program.h"
#include "tessera.h"

enum { MOST = 8 };

typedef struct array {
  tsr_dtype dtype;
  tsr_shape shape;
  int64_t count;
  cell *cells;
} array;

typedef struct golden {
  char name[32];
  int64_t number;
  int in_count, out_count;
  array in[MOST], out[MOST];
} golden;

static tsr_dtype dtype_of(const char *name)
{
  for (int d = TSR_BOOL; d <= TSR_F64; d++)
    if (!strcmp(tsr_dtype_name((tsr_dtype)d), name)) return (tsr_dtype)d;
  FAIL("no dtype %s", name);
}

/* "f64:2x2:0x1p+0,nan" */
static array parse_array(char *text)
{
  char *dims = strchr(text, ':'), *values = strchr(dims + 1, ':');
  *dims++ = *values++ = '\0';
  array a = { .dtype = dtype_of(text), .count = 1 };
  for (char *at = dims; *at; at += *at == 'x') {
    a.shape.dims[a.shape.rank] = strtoll(at, &at, 10);
    a.count *= a.shape.dims[a.shape.rank++];
  }
  a.cells = calloc((size_t)a.count + 1, sizeof *a.cells);
  for (int64_t i = 0; i < a.count; i++, values += *values == ',') {
    if (naive_is_real((int)a.dtype)) a.cells[i].f = strtod(values, &values);
    else if (*values == '-') a.cells[i].i = strtoll(values, &values, 10);
    else a.cells[i].i = (int64_t)strtoull(values, &values, 10);
  }
  return a;
}

static golden parse_line(char *line)
{
  golden g = { .in_count = 0 };
  char *rest = NULL, *word = strtok_r(line, " ", &rest);
  snprintf(g.name, sizeof g.name, "%s", word);
  bool behind = false;
  while ((word = strtok_r(NULL, " ", &rest))) {
    if (!strcmp(word, ">")) behind = true;
    else if (!strchr(word, ':')) g.number = strtoll(word, NULL, 10);
    else if (behind) g.out[g.out_count++] = parse_array(word);
    else g.in[g.in_count++] = parse_array(word);
  }
  return g;
}

static void free_golden(golden *g)
{
  for (int i = 0; i < g->in_count; i++) free(g->in[i].cells);
  for (int i = 0; i < g->out_count; i++) free(g->out[i].cells);
}

/* ---- the calls ---- */

typedef struct made {
  tsr_array *at[MOST];
} made;

static made one(tsr_array *a)
{
  return (made){ { a } };
}

static made searchsorted(tsr_array **in, int64_t n)
{
  return one(tsr_searchsorted(in[0], in[1], n != 0));
}

static made digitize(tsr_array **in, int64_t n)
{
  return one(tsr_digitize(in[0], in[1], n != 0));
}

static made isin(tsr_array **in, int64_t n)
{
  (void)n;
  return one(tsr_isin(in[0], in[1]));
}

static made compress(tsr_array **in, int64_t n)
{
  return one(tsr_compress(in[0], in[1], n));
}

static made nonzero(tsr_array **in, int64_t n)
{
  return one(tsr_nonzero(in[0], .count = n, .fill = TSR_OPERAND(-1)));
}

static made nonzero_dims(tsr_array **in, int64_t n)
{
  made m = { { NULL } };
  tsr_nonzero_dims(in[0], m.at, n, .fill = TSR_OPERAND(-1));
  return m;
}

static made unique(tsr_array **in, int64_t n)
{
  tsr_unique_parts u = tsr_unique(in[0], .count = n);
  return (made){ { u.values, u.index, u.inverse, u.counts } };
}

static made histogram(tsr_array **in, int64_t n)
{
  tsr_histogram_parts h = tsr_histogram(in[0], .bins = n);
  return (made){ { h.counts, h.edges } };
}

static made histogram_edges(tsr_array **in, int64_t n)
{
  (void)n;
  return one(tsr_histogram(in[0], .edges = in[1]).counts);
}

static made density(tsr_array **in, int64_t n)
{
  return one(tsr_histogram(in[0], .bins = n, .density = true).counts);
}

static made bincount(tsr_array **in, int64_t n)
{
  return one(tsr_bincount(in[0], n, NULL));
}

static made weights(tsr_array **in, int64_t n)
{
  return one(tsr_bincount(in[0], n, in[1]));
}

static made one_hot(tsr_array **in, int64_t n)
{
  return one(tsr_one_hot(in[0], n, 0));
}

static made interp(tsr_array **in, int64_t n)
{
  (void)n;
  return one(tsr_interp(in[0], in[1], in[2]));
}

static made interp_ends(tsr_array **in, int64_t n)
{
  (void)n;
  return one(tsr_interp(in[0], in[1], in[2], .left = TSR_OPERAND(-7), .right = TSR_OPERAND(9)));
}

static made selected(tsr_array **in, int64_t n)
{
  (void)n;
  return one(tsr_select(in, in + 2, 2, .otherwise = TSR_OPERAND(5)));
}

typedef struct call {
  const char *name;
  made (*make)(tsr_array **in, int64_t n);
} call;

#define CALL(name) \
  {                \
#name, name    \
  }
static const call calls[] = {
  CALL(searchsorted),    CALL(digitize),     CALL(isin),        CALL(compress),
  CALL(nonzero),         CALL(nonzero_dims), CALL(unique),      CALL(histogram),
  CALL(histogram_edges), CALL(density),      CALL(bincount),    CALL(weights),
  CALL(one_hot),         CALL(interp),       CALL(interp_ends), { "select", selected },
};
#undef CALL

static made make(const golden *g, tsr_array **in)
{
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    if (!strcmp(calls[i].name, g->name)) return calls[i].make(in, g->number);
  FAIL("no call %s", g->name);
}

/* ---- running ---- */

static void check_array(tsr_scope *s, tsr_array *a, const array *expected, const char *line)
{
  if (tsr_is_inert(a)) FAIL("%s: %s", line, tsr_message(s));
  bool alike = tsr_dtype_of(a) == expected->dtype && tsr_shape_of(a).rank == expected->shape.rank;
  for (int d = 0; alike && d < expected->shape.rank; d++)
    alike = tsr_shape_of(a).dims[d] == expected->shape.dims[d];
  if (!alike) FAIL("%s: made %s", line, tsr_type_of(a));
  char *out = calloc((size_t)expected->count + 1, 8);
  size_t bytes = (size_t)expected->count * tsr_dtype_size(expected->dtype);
  if (tsr_read(a, out, bytes)) FAIL("%s: %s", line, tsr_message(s));
  for (int64_t i = 0; i < expected->count; i++)
    naive_check(line, i, (int)expected->dtype, naive_get(out, (int)expected->dtype, i),
                expected->cells[i]);
  tsr_run_stats stats = tsr_last_run(s);
  CHECK_I64(stats.bytes_counted, stats.bytes_explained + stats.bytes_escaped);
  free(out);
}

static void run_line(tsr_runtime *rt, const tsr_mesh *mesh, test_rng *rng, const char *line)
{
  char text[1 << 14];
  snprintf(text, sizeof text, "%s", line);
  golden g = parse_line(text);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *in[MOST];
  for (int i = 0; i < g.in_count; i++) {
    char *bytes = calloc((size_t)g.in[i].count + 1, 8);
    for (int64_t k = 0; k < g.in[i].count; k++)
      naive_put(bytes, (int)g.in[i].dtype, k, g.in[i].cells[k]);
    in[i] = tsr_put(s, bytes, g.in[i].dtype, g.in[i].shape,
                    law_sharding(rng, mesh, g.in[i].shape.rank));
    free(bytes);
  }
  made m = make(&g, in);
  for (int i = 0; i < g.out_count; i++) check_array(s, m.at[i], &g.out[i], line);
  tsr_scope_close(s);
  free_golden(&g);
}

TEST_TIMEOUT(numpy_gives_the_same_on_any_mesh, 300)
{
  char *lines = test_read(test_file("golden/indexing.txt"), NULL), *rest = NULL;
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh[3] = { tsr_mesh_make(rt, "x=1"), tsr_mesh_make(rt, "x=3"),
                        tsr_mesh_make(rt, "x=4,y=2") };
  test_rng rng = test_seeded(4);
  int cases = 0;
  for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), cases++)
    for (int i = 0; i < 3; i++) run_line(rt, mesh[i], &rng, line);
  CHECK(cases >= 350);
  tsr_runtime_close(rt);
  free(lines);
}
