/* The law of mapping: a row of the table of operations mapped over random operands, any of which
 * vary, along any dim of theirs, has bit for bit what a loop over the elements gives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"
#include "support/law_rows.h"
#include "transform/batch.h"

enum { MOST = TSR_MAX_ARGS };

static int64_t seen[TSR__OPS];

/* A node and what it is made of: each operand once. */
typedef struct trial {
  law_rows w;
  uint64_t seed;
  tsr_array *node; /* of the row */
  bool part;       /* `node` has several results, of which one is taken out: */
  int64_t index;
  tsr_array *args[MOST], *all[MOST];
  int count;
  bool varies[MOST];
  int dims[MOST]; /* along which all elements lie in `all` */
  int64_t size;
} trial;

static int argument_of(const trial *t, const tsr_array *a)
{
  for (int i = 0; i < t->count; i++)
    if (t->args[i] == a) return i;
  return -1;
}

static tsr_array *body(tsr_scope *s, tsr_array *const *in, void *user)
{
  const trial *t = user;
  const tsr_array *node = t->node;
  tsr_array *operands[MOST];
  tsr__ask ask = { .dtype = (tsr_dtype)node->dtype,
                   .shape = node->shape,
                   .attr = node->attr_bytes ? node->attr : NULL,
                   .attr_bytes = node->attr_bytes,
                   .numbers = node->number_count ? node->numbers : NULL,
                   .number_count = node->number_count,
                   .sharding = node->placed ? &node->sharding : NULL };
  for (int i = 0; i < node->in_count; i++)
    operands[i] = node->in[i] ? in[argument_of(t, node->in[i])] : NULL;
  tsr_array *made =
      tsr__make(s, (tsr__op)node->op, (tsr__operands){ operands, node->in_count }, &ask, TSR_HERE);
  if (!t->part) return made;
  return tsr__make(s, TSR__OP_RESULT, TSR__IN(made),
                   &(tsr__ask){ TSR__ATTR(tsr__index_attr, .index = t->index) }, TSR_HERE);
}

/* Elements made of one: its own numbers, turned, so that places stay places. */
static tsr_array *elements_of(const trial *t, tsr_array *a, int dim)
{
  tsr_array *rows[4];
  const tsr__opinfo *info = &tsr__ops[t->node->op];
  bool table = info->looks_up && info->aligned && a == t->node->in[0];
  for (int64_t k = 0; k <= t->size && k < 4; k++) {
    tsr_array *row = tsr_roll(tsr_ravel(a), k, 0);
    if (table) row = tsr_minimum(a, 3 - k);
    rows[k] = tsr_expand_dims(tsr_reshape(row, tsr_shape_of(a)), TSR_DIMS(0));
  }
  tsr_array *all = tsr_concat(rows, t->size ? (int)t->size : 1, 0);
  if (!t->size) all = tsr_slice(all, TSR_RANGE(0, 0));
  return dim ? tsr_moveaxis(all, 0, dim) : all;
}

static bool draw_trial(trial *t)
{
  tsr__op op = (tsr__op)(t->seed % TSR__OPS);
  tsr_array *made = law_rows_elsewhere[op] ? NULL : law_row(&t->w, op);
  if (tsr_scope_status(t->w.law.s))
    FAIL("seed %llu, %s: %s", (unsigned long long)t->seed, tsr__ops[op].name,
         tsr_message(t->w.law.s));
  if (!made) return false;
  t->part = made->op == TSR__OP_RESULT;
  if (t->part) t->index = ((const tsr__index_attr *)made->attr)->index;
  t->node = t->part ? made->in[0] : made;
  for (int i = 0; i < t->node->in_count; i++) {
    tsr_array *a = t->node->in[i];
    if (a && argument_of(t, a) < 0) t->args[t->count++] = a;
  }
  if (!t->count) return false;
  t->size = law_draw(&t->w.law, 0, 3);
  int64_t one = law_draw(&t->w.law, 0, t->count - 1);
  for (int i = 0; i < t->count; i++) {
    t->varies[i] = i == one || law_draw(&t->w.law, 0, 1);
    t->dims[i] = (int)law_draw(&t->w.law, 0, t->args[i]->shape.rank);
    t->all[i] = t->args[i];
    if (t->varies[i]) t->all[i] = elements_of(t, t->args[i], t->dims[i]);
  }
  return true;
}

/* Bits, but one NaN is as good as another: which of several stays depends on the compiler. */
static void *bytes_of(const trial *t, tsr_array *a, size_t *bytes)
{
  tsr_shape shape = tsr_shape_of(a);
  bool floats = tsr__dtype_is_real(tsr_dtype_of(a));
  if (floats) a = tsr_cast(a, TSR_F64);
  *bytes = (size_t)law_count(shape) * tsr_dtype_size(tsr_dtype_of(a));
  void *out = calloc(1, *bytes + 1);
  if (tsr_read(a, out, *bytes))
    FAIL("seed %llu, %s: %s", (unsigned long long)t->seed, tsr__ops[t->node->op].name,
         tsr_message(t->w.law.s));
  double *number = (double *)out;
  for (size_t i = 0; floats && i < *bytes / sizeof *number; i++)
    if (isnan(number[i])) number[i] = (double)NAN;
  return out;
}

static bool same_type(const tsr_array *a, const tsr_array *b)
{
  return a->dtype == b->dtype && a->shape.rank == b->shape.rank &&
         !memcmp(a->shape.dims, b->shape.dims, (size_t)a->shape.rank * sizeof *a->shape.dims);
}

static void check_element(const trial *t, tsr_function *f, tsr_array *mapped, int64_t k)
{
  tsr_array *in[MOST];
  size_t bytes, own;
  for (int i = 0; i < t->count; i++) {
    in[i] = t->all[i];
    if (!t->varies[i]) continue;
    in[i] = tsr_slice(tsr_moveaxis(in[i], t->dims[i], 0), TSR_RANGE(k, k + 1));
    in[i] = tsr_squeeze(in[i], TSR_DIMS(0));
  }
  const char *name = tsr__ops[t->node->op].name;
  tsr_array *want = tsr_call_at(f, in, t->count, TSR_HERE);
  tsr_array *found = tsr_squeeze(tsr_slice(mapped, TSR_RANGE(k, k + 1)), TSR_DIMS(0));
  if (!same_type(found, want))
    FAIL("seed %llu: element %lld of %s is %s mapped, %s alone", (unsigned long long)t->seed,
         (long long)k, name, tsr_type_of(found), tsr_type_of(want));
  void *a = bytes_of(t, found, &bytes), *b = bytes_of(t, want, &own);
  if (bytes != own || memcmp(a, b, bytes))
    FAIL("seed %llu: element %lld of %s is another one mapped", (unsigned long long)t->seed,
         (long long)k, name);
  free(a);
  free(b);
}

static void one_trial(tsr_runtime *rt, uint64_t seed)
{
  trial t = { .w = { .law = { .rng = test_seeded(seed), .seed = seed } }, .seed = seed };
  tsr_scope *s = t.w.law.s = tsr_scope_open(rt);
  t.w.law.mesh = tsr_mesh_make(rt, law_meshes[law_draw(&t.w.law, 0, LAW_MESHES - 1)]);
  test_rng deep = test_seeded(~seed);
  t.w.base = law_deep(&deep, law_shape(&t.w.law, 0, 3), TSR_MAX_RANK - 2);
  if (draw_trial(&t)) {
    tsr_vmap_args args = { .size = sizeof args };
    args.function = tsr_function_make(s, body, .user = &t);
    for (int i = 0; i < t.count; i++) args.in_dims[i] = t.varies[i] ? t.dims[i] : TSR_UNMAPPED;
    tsr_array *mapped = tsr_call_at(tsr_vmap_at(&args, TSR_HERE), t.all, t.count, TSR_HERE);
    if (tsr_scope_status(s))
      FAIL("seed %llu, %s: %s", (unsigned long long)seed, tsr__ops[t.node->op].name,
           tsr_message(s));
    if (tsr_shape_of(mapped).dims[0] != t.size)
      FAIL("seed %llu: %s mapped over %lld elements is %s", (unsigned long long)seed,
           tsr__ops[t.node->op].name, (long long)t.size, tsr_type_of(mapped));
    for (int64_t k = 0; k < t.size; k++) check_element(&t, args.function, mapped, k);
    seen[t.node->op]++;
  }
  for (int i = 0; i < t.w.law.leaves; i++) free(t.w.law.cells[i]);
  tsr_scope_close(s);
}

TEST_TIMEOUT(mapping_a_row_is_a_loop_over_elements, 900)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  const char *only = getenv("LAW_SEED");
  uint64_t count = (test_quick() ? 10 : 100) * (uint64_t)TSR__OPS,
           first = only ? strtoull(only, NULL, 10) : 1;
  for (uint64_t seed = first; seed <= (only ? first : count); seed++)
    if (only || test_share(seed)) one_trial(rt, seed);
  tsr_runtime_close(rt);
  for (int op = 0; op < TSR__OPS && !only; op++) {
    bool drawn = !law_rows_elsewhere[op] && tsr__ops[op].most && op != TSR__OP_RESULT;
    if (drawn && !seen[op]) FAIL("%s was never mapped", tsr__ops[op].name);
  }
}

TEST(every_row_is_mapped_or_says_why_not)
{
  for (int op = 0; op < TSR__OPS; op++) {
    if (!tsr__batch_kind(op)) FAIL("%s has neither BATCH nor NO_BATCH", tsr__ops[op].name);
    bool drawn = !law_rows_elsewhere[op];
    if (drawn && strcmp(tsr__batch_kind(op), "rule"))
      FAIL("%s is not mapped: %s", tsr__ops[op].name, tsr__batch_kind(op));
  }
}
