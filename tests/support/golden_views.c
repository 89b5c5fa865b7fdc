#include "support/golden_views.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { MOST = 8192 };

/* "3,4" as a shape. */
static tsr_shape shape_of(const char *text)
{
  tsr_shape shape = { .rank = 0 };
  for (const char *at = text; *at >= '0' && *at <= '9'; at += *at == ',') {
    char *end;
    shape.dims[shape.rank++] = strtoll(at, &end, 10);
    at = end;
  }
  return shape;
}

/* Cuts "shape | calls | shape | elements" into its four parts. */
static void cut(char *line, char *part[4])
{
  for (int i = 0; i < 4; i++) {
    part[i] = line;
    char *bar = strchr(line, '|');
    if (!bar) break;
    bar[i ? -1 : line < bar ? -1 : 0] = '\0';
    line = bar + 1 + (bar[1] == ' ');
  }
}

static void check_case(tsr_runtime *rt, char *line, const tsr_mesh *mesh, golden_view *apply)
{
  double *x = malloc(MOST * sizeof *x), *found = malloc(MOST * sizeof *found);
  char *part[4] = { NULL };
  CHECK(x && found);
  cut(line, part);
  for (int i = 0; i < MOST; i++) x[i] = i;
  tsr_shape leaf = shape_of(part[0]), shape = shape_of(part[2]);
  tsr_sharding on = { 0 };
  if (mesh) on = tsr_on(mesh, leaf.rank || shape.rank ? "x" : "");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = tsr_put(s, x, TSR_F64, leaf, leaf.rank ? on : (tsr_sharding){ 0 });
  a = apply(s, a, part[1], on);
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  CHECK(count <= MOST);
  CHECK_STATUS(tsr_read(a, found, (size_t)count * sizeof *found), TSR_OK, s);
  CHECK_I64(tsr_shape_of(a).rank, shape.rank);
  for (int d = 0; d < shape.rank; d++) CHECK_I64(tsr_shape_of(a).dims[d], shape.dims[d]);
  char *at = part[3];
  for (int64_t i = 0; i < count; i++, at += *at == ',') CHECK_F64_BITS(found[i], strtod(at, &at));
  tsr_scope_close(s);
  free(found);
  free(x);
}

int golden_views_check(const char *file, golden_view *apply)
{
  char *text = test_read(test_file(file), NULL);
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=3");
  int cases = 0;
  for (char *line = text, *next; *line; line = next, cases++) {
    next = strchr(line, '\n');
    *next++ = '\0';
    char *copy = strdup(line);
    check_case(rt, copy, NULL, apply);
    free(copy);
    check_case(rt, line, mesh, apply);
  }
  tsr_runtime_close(rt);
  free(text);
  return cases;
}
