#include "support/golden_arrays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { MOST = 64 };

static const tsr_dtype dtypes[] = { TSR_BOOL, TSR_I8,  TSR_I16, TSR_I32,  TSR_I64, TSR_U8, TSR_U16,
                                    TSR_U32,  TSR_U64, TSR_F16, TSR_BF16, TSR_F32, TSR_F64 };
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* An array of the file: "f32:2x3:1f,0,..." */
typedef struct golden {
  tsr_dtype dtype;
  tsr_shape shape;
  int64_t count;
  char bytes[MOST * 8];
} golden;

tsr_dtype golden_dtype(const char *name)
{
  for (int i = 0; i < DTYPES; i++)
    if (!strcmp(tsr_dtype_name(dtypes[i]), name)) return dtypes[i];
  FAIL("no dtype is called %s", name);
}

char *golden_type(char *text, tsr_dtype *dtype, tsr_shape *shape)
{
  char *dims = strchr(text, ':') + 1, *elements = strchr(dims, ':') + 1, *rest = NULL;
  dims[-1] = elements[-1] = '\0';
  *dtype = golden_dtype(text);
  shape->rank = 0;
  for (char *d = strtok_r(dims, "x", &rest); d; d = strtok_r(NULL, "x", &rest))
    shape->dims[shape->rank++] = atoll(d);
  return elements;
}

static golden parse(char *text)
{
  golden g = { .count = 1 };
  char *bits = golden_type(text, &g.dtype, &g.shape);
  for (int d = 0; d < g.shape.rank; d++) g.count *= g.shape.dims[d];
  CHECK(g.count <= MOST);
  size_t size = tsr_dtype_size(g.dtype);
  for (int64_t i = 0; i < g.count; i++) {
    uint64_t value = strtoull(bits, &bits, 16);
    memcpy(g.bytes + (size_t)i * size, &value, size);
    bits += *bits == ',';
  }
  return g;
}

static bool is_nan(tsr_dtype dtype, uint64_t bits)
{
  switch (dtype) {
  case TSR_F16: return (bits & 0x7fff) > 0x7c00;
  case TSR_BF16: return (bits & 0x7fff) > 0x7f80;
  case TSR_F32: return (bits & 0x7fffffff) > 0x7f800000;
  case TSR_F64: return (bits & INT64_MAX) > 0x7ff0000000000000;
  default: return false;
  }
}

void golden_check_bits(const char *what, tsr_scope *s, tsr_array *a, int64_t count,
                       const void *bits)
{
  tsr_dtype dtype = tsr_dtype_of(a);
  size_t size = tsr_dtype_size(dtype), bytes = (size_t)count * size;
  char *found = malloc(bytes + 8);
  CHECK(found != NULL);
  CHECK_STATUS(tsr_read(a, found, bytes), TSR_OK, s);
  for (int64_t i = 0; i < count; i++) {
    uint64_t x = 0, y = 0;
    memcpy(&x, found + (size_t)i * size, size);
    memcpy(&y, (const char *)bits + (size_t)i * size, size);
    if (x != y && !(is_nan(dtype, x) && is_nan(dtype, y)))
      FAIL("%s of %s at %lld: %llx, expected %llx", what, tsr_type_of(a), (long long)i,
           (unsigned long long)x, (unsigned long long)y);
  }
  free(found);
}

static void check(const char *op, tsr_scope *s, tsr_array *a, const golden *g)
{
  CHECK_STR(tsr_dtype_name(tsr_dtype_of(a)), tsr_dtype_name(g->dtype));
  golden_check_bits(op, s, a, g->count, g->bytes);
  for (int d = 0; d < g->shape.rank; d++) CHECK_I64(tsr_shape_of(a).dims[d], g->shape.dims[d]);
}

/* "op dim operand ... > result ..." */
static void run_case(tsr_scope *outer, const tsr_mesh *mesh, char *line, golden_apply *apply)
{
  char *rest = NULL;
  const char *op = strtok_r(line, " ", &rest);
  int dim = atoi(strtok_r(NULL, " ", &rest)), ins = 0, outs = 0;
  tsr_array *in[GOLDEN_ARRAYS], *out[GOLDEN_ARRAYS] = { NULL };
  tsr_scope *s = tsr_scope_open(outer);
  char *word = strtok_r(NULL, " ", &rest);
  for (; *word != '>'; word = strtok_r(NULL, " ", &rest)) {
    golden g = parse(word);
    tsr_sharding at = g.shape.rank ? tsr_on(mesh, "x") : (tsr_sharding){ 0 };
    in[ins++] = tsr_put(s, g.bytes, g.dtype, g.shape, at);
  }
  apply(op, dim, in, out);
  while ((word = strtok_r(NULL, " ", &rest))) {
    golden g = parse(word);
    check(op, s, out[outs++], &g);
  }
  CHECK(outs > 0);
  tsr_scope_close(s);
}

int golden_arrays_check(const char *file, golden_apply *apply)
{
  int cases = 0;
  for (int devices = 1; devices <= 3; devices += 2) {
    char text[16], *rest = NULL;
    snprintf(text, sizeof text, "cpu:%d", devices);
    tsr_runtime *rt = tsr_runtime_open(text);
    tsr_scope *s = tsr_scope_open(rt);
    char *lines = test_read(test_file(file), NULL);
    cases = 0;
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
      run_case(s, tsr_mesh_default(rt, "x"), line, apply), cases++;
    free(lines);
    tsr_scope_close(s);
    tsr_runtime_close(rt);
  }
  return cases;
}
