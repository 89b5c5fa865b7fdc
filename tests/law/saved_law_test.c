/* The law of saved functions: every row of the table of operations, on random operands, is saved as
 * a text that is the same when it was loaded and saved again, and gives the same bits. */
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"
#include "support/law_rows.h"

enum { MOST = TSR_MAX_ARGS };

static int64_t seen[TSR__OPS];

/* A node and what it is made of: each operand once. */
typedef struct trial {
  law_rows w;
  uint64_t seed;
  tsr_array *node;
  bool part;
  int64_t index;
  tsr_array *args[MOST];
  int count;
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

static bool draw_trial(trial *t)
{
  tsr__op op = (tsr__op)(t->seed % TSR__OPS);
  bool leaf = tsr__ops[op].lowering == TSR__LOW_LEAF; /* no node of a body */
  tsr_array *made = leaf || law_rows_elsewhere[op] ? NULL : law_row(&t->w, op);
  CHECK_STATUS(tsr_scope_status(t->w.law.s), TSR_OK, t->w.law.s);
  if (!made) return false;
  t->part = made->op == TSR__OP_RESULT;
  if (t->part) t->index = ((const tsr__index_attr *)made->attr)->index;
  t->node = t->part ? made->in[0] : made;
  if (tsr__ops[t->node->op].lowering == TSR__LOW_LEAF) return false;
  for (int i = 0; i < t->node->in_count; i++) {
    tsr_array *a = t->node->in[i];
    if (a && argument_of(t, a) < 0) t->args[t->count++] = a;
  }
  return true;
}

static void *bytes_of(const trial *t, tsr_array *a, size_t *bytes)
{
  *bytes = (size_t)law_count(tsr_shape_of(a)) * tsr_dtype_size(tsr_dtype_of(a));
  void *out = calloc(1, *bytes + 1);
  if (tsr_read(a, out, *bytes))
    FAIL("seed %llu, %s: %s", (unsigned long long)t->seed, tsr__ops[t->node->op].name,
         tsr_message(t->w.law.s));
  return out;
}

static void check_trial(trial *t)
{
  tsr_scope *s = t->w.law.s;
  const char *text = "", *again = "";
  size_t bytes, own;
  tsr_function *f = tsr_function_make(s, body, .user = t);
  if (tsr_function_text_into_at(f, &text, t->args, t->count, TSR_HERE)) FAIL("%s", tsr_message(s));
  tsr_function *g = tsr_function_from_text(s, text);
  if (tsr_scope_status(s)) FAIL("%s\n%s", tsr_message(s), text);
  if (tsr_function_text_into_at(g, &again, t->args, t->count, TSR_HERE))
    FAIL("%s\n%s", tsr_message(s), text);
  if (strcmp(text, again)) FAIL("seed %llu:\n%s\n%s", (unsigned long long)t->seed, text, again);
  void *a = bytes_of(t, tsr_call_at(f, t->args, t->count, TSR_HERE), &bytes);
  void *b = bytes_of(t, tsr_call_at(g, t->args, t->count, TSR_HERE), &own);
  if (bytes != own || memcmp(a, b, bytes))
    FAIL("seed %llu: %s has other bits when it is loaded:\n%s", (unsigned long long)t->seed,
         tsr__ops[t->node->op].name, text);
  free(a);
  free(b);
  seen[t->node->op]++;
}

static void one_trial(tsr_runtime *rt, uint64_t seed)
{
  trial t = { .w = { .law = { .rng = test_seeded(seed), .seed = seed } }, .seed = seed };
  tsr_scope *s = t.w.law.s = tsr_scope_open(rt);
  t.w.law.mesh = tsr_mesh_make(rt, law_meshes[law_draw(&t.w.law, 0, LAW_MESHES - 1)]);
  t.w.base = law_shape(&t.w.law, 0, 3);
  if (draw_trial(&t)) check_trial(&t);
  for (int i = 0; i < t.w.law.leaves; i++) free(t.w.law.cells[i]);
  tsr_scope_close(s);
}

TEST_TIMEOUT(every_row_is_the_same_when_it_was_saved_and_loaded, 900)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  const char *only = getenv("LAW_SEED");
  uint64_t count = test_quick() ? 3600 : 18000, first = only ? strtoull(only, NULL, 10) : 1;
  for (uint64_t seed = first; seed <= (only ? first : count); seed++)
    if (only || test_share(seed)) one_trial(rt, seed);
  tsr_runtime_close(rt);
  for (int op = 0; op < TSR__OPS && !only; op++) {
    bool leaf = tsr__ops[op].lowering == TSR__LOW_LEAF;
    bool drawn = !law_rows_elsewhere[op] && !leaf && op != TSR__OP_RESULT;
    if (drawn && !seen[op]) FAIL("%s was never saved", tsr__ops[op].name);
  }
}
