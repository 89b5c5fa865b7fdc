/* See law_world.h. */
#include "support/law_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"

int64_t law_draw(law_world *w, int64_t first, int64_t last)
{
  return test_range(&w->rng, first, last);
}

int64_t law_count(tsr_shape shape)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  return count;
}

tsr_shape law_shape(law_world *w, int least, int most)
{
  static const int64_t sizes[] = { 0, 1, 2, 3, 5, 7, 8, 13, 17, 70 };
  tsr_shape shape = { .rank = (int)law_draw(w, least, most) };
  for (int d = 0; d < shape.rank; d++)
    shape.dims[d] = sizes[law_draw(w, law_draw(w, 0, 7) ? 1 : 0, shape.rank > 2 ? 6 : 9)];
  return shape;
}

tsr_array *law_leaf(law_world *w, tsr_dtype dtype, tsr_shape shape, int64_t most)
{
  int64_t count = law_count(shape);
  cell *cells = calloc((size_t)count + 1, sizeof *cells);
  void *bytes = malloc((size_t)count * 8 + 8);
  bool few = law_draw(w, 0, 3) == 0; /* many equal ones */
  CHECK(w->leaves < LAW_MOST);
  for (int64_t i = 0; i < count; i++) {
    cells[i] = naive_random(&w->rng, (int)dtype);
    if (most && naive_is_real((int)dtype)) cells[i].f = (double)law_draw(w, -most, most - 1);
    else if (most) cells[i].i = law_draw(w, -most, most - 1);
    else if (few && i) cells[i] = cells[law_draw(w, 0, i - 1)];
    naive_put(bytes, (int)dtype, i, cells[i]);
    if (most) cells[i] = naive_get(bytes, (int)dtype, i); /* what unsigned ones make of it */
  }
  tsr_array *a = tsr_put(w->s, bytes, dtype, shape, law_sharding(&w->rng, w->mesh, shape.rank));
  free(bytes);
  w->leaf[w->leaves] = a;
  w->cells[w->leaves++] = cells;
  return a;
}

/* ---- one operation alone --------------------------------------------------------------------- */

static tsr_shape shape_of(const tsr__gnode *g)
{
  tsr_shape shape = { .rank = g->rank };
  memcpy(shape.dims, g->dims, (size_t)g->rank * sizeof *shape.dims);
  return shape;
}

static tsr_array *put_cells(tsr_scope *s, const tsr__gnode *g, const cell *cells)
{
  int64_t count = law_count(shape_of(g));
  void *bytes = malloc((size_t)count * 8 + 8);
  for (int64_t i = 0; i < count; i++) naive_put(bytes, g->dtype, i, cells[i]);
  tsr_array *a =
      tsr_put(s, bytes, (tsr_dtype)g->dtype, shape_of(g), (tsr_sharding){ .mesh = NULL });
  free(bytes);
  return a;
}

static cell *read_cells(tsr_scope *s, tsr_array *a)
{
  int64_t count = law_count(tsr_shape_of(a));
  size_t bytes = (size_t)count * tsr_dtype_size(tsr_dtype_of(a));
  void *out = malloc(bytes + 8);
  cell *cells = calloc((size_t)count + 1, sizeof *cells);
  CHECK_STATUS(tsr_read(a, out, bytes), TSR_OK, s);
  for (int64_t i = 0; i < count; i++) cells[i] = naive_get(out, (int)tsr_dtype_of(a), i);
  free(out);
  return cells;
}

/* What a node makes of the values of its operands where nothing is placed and nothing fuses. */
static cell *alone(law_world *w, const tsr__program *program, const tsr__gnode *g, cell **value)
{
  enum { MOST = 8 };
  tsr_scope *s = tsr_scope_open(w->s);
  tsr_array *in[MOST];
  CHECK(g->in_count <= MOST);
  TSR_FOR_OPERANDS (program, g, i, o) in[i] = put_cells(s, &program->nodes[o], value[o]);
  tsr__ask ask = { .dtype = (tsr_dtype)g->dtype,
                   .shape = shape_of(g),
                   .number_count = tsr__ops[g->op].numbers,
                   .attr_bytes = tsr__attrs[tsr__ops[g->op].attr].bytes };
  if (ask.number_count) ask.numbers = program->params + g->param;
  if (ask.attr_bytes) ask.attr = program->attrs + g->attr;
  bool same = tsr__ops[g->op].lowering == TSR__LOW_STEP;
  tsr_array *out =
      same ? in[0]
           : tsr__make(s, (tsr__op)g->op, (tsr__operands){ in, g->in_count }, &ask, TSR_HERE);
  cell *cells = read_cells(s, out);
  tsr_scope_close(s);
  return cells;
}

static bool is_due(const tsr__program *program, int n, cell **value)
{
  const tsr__gnode *g = &program->nodes[n];
  if (value[n] || g->result_count) return false;
  TSR_FOR_OPERANDS (program, g, i, o)
    if (!value[o]) return false;
  return true;
}

/* ---- the program ----------------------------------------------------------------------------- */

static cell **evaluate(law_world *w, tsr__program *program)
{
  tsr__error error = { .status = TSR_OK };
  tsr__program_init(program, &w->s->rt->heap);
  if (tsr__program_trace(program, w->made, w->count, &error)) FAIL("%s", error.text);
  cell **value = calloc((size_t)program->node_count + 1, sizeof *value);
  for (int n = 0; n < program->node_count; n++)
    for (int i = 0; i < w->leaves; i++) {
      if (program->arrays[n] != w->leaf[i]) continue;
      value[n] = w->cells[i];
      w->cells[i] = NULL;
    }
  for (int next = 0; next < program->node_count;) {
    naive_program(program, value);
    while (next < program->node_count && !is_due(program, next, value)) next++;
    if (next < program->node_count) value[next] = alone(w, program, &program->nodes[next], value);
  }
  return value;
}

static void compare(law_world *w, tsr_array *a, const cell *expected)
{
  char what[160];
  snprintf(what, sizeof what, "seed %llu: %s", (unsigned long long)w->seed, tsr_type_of(a));
  cell *found = read_cells(w->s, a);
  CHECK(expected != NULL);
  for (int64_t i = 0; i < law_count(tsr_shape_of(a)); i++)
    naive_check(what, i, (int)tsr_dtype_of(a), found[i], expected[i]);
  free(found);
}

static void count_rows(law_world *w, const tsr__program *program)
{
  for (int n = 0; n < program->node_count && w->seen; n++) {
    const tsr__gnode *g = &program->nodes[n];
    int in = g->in_count ? tsr__in(program, g, 0) : n;
    int dtype = in >= 0 ? program->nodes[in].dtype : g->dtype; /* of several results: none */
    w->seen[g->op][dtype ? dtype : g->dtype]++;
  }
}

void law_check(law_world *w)
{
  tsr__program program;
  int32_t node[LAW_MOST];
  if (tsr_scope_status(w->s)) FAIL("seed %llu: %s", (unsigned long long)w->seed, tsr_message(w->s));
  for (int i = 0; getenv("LAW_SHOW") && i < w->count; i++)
    fprintf(stderr, "seed %llu, %d\n%s", (unsigned long long)w->seed, i, tsr_dump(w->made[i]));
  cell **value = evaluate(w, &program);
  count_rows(w, &program);
  for (int i = 0; i < w->count; i++) node[i] = (int32_t)w->made[i]->mark - 1;
  if (tsr_eval(w->made, w->count))
    FAIL("seed %llu: %s", (unsigned long long)w->seed, tsr_message(w->s));
  tsr_run_stats stats = tsr_last_run(w->s);
  if (stats.bytes_counted != stats.bytes_explained + stats.bytes_escaped)
    FAIL("seed %llu: %lld bytes counted, %lld explained, %lld escaped", (unsigned long long)w->seed,
         (long long)stats.bytes_counted, (long long)stats.bytes_explained,
         (long long)stats.bytes_escaped);
  for (int i = 0; i < w->count; i++) compare(w, w->made[i], value[node[i]]);
  for (int n = 0; n < program.node_count; n++) free(value[n]);
  for (int i = 0; i < w->leaves; i++) free(w->cells[i]);
  free(value);
  tsr__program_free(&program);
  tsr_scope_close(w->s);
}
