/* The law of wrong calls: what a function was compiled or saved for is all that it takes. Arguments
 * of another dtype, shape, form or number are refused with a message, and the next good call gives
 * the bits that it gave before. */
#include <string.h>

#include "support/law_fixture.h"

enum { ARGUMENTS = 2, WRONGS = 8 };

static tsr_array *body(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_mul(tsr_sin(in[0]), in[1]), .dims = TSR_DIMS(0));
}

typedef struct trial {
  test_rng rng;
  tsr_scope *s;
  tsr_array *in[ARGUMENTS];
  tsr_compiled *compiled;
  tsr_function *loaded;
  int64_t columns;
} trial;

static tsr_array *call(const trial *t, int which, tsr_array *const *in, int count)
{
  if (which) return tsr_call_at(t->loaded, in, count, TSR_HERE);
  return tsr_compiled_call_at(t->compiled, in, count, TSR_HERE);
}

static void read_good(const trial *t, int which, double out[8])
{
  size_t bytes = (size_t)t->columns * sizeof *out;
  CHECK_STATUS(tsr_read(call(t, which, t->in, ARGUMENTS), out, bytes), TSR_OK, t->s);
}

/* One argument wrong, or their number. */
static int make_wrong(trial *t, int how, tsr_array *in[ARGUMENTS + 1])
{
  int64_t at = test_range(&t->rng, 0, ARGUMENTS - 1);
  for (int i = 0; i < ARGUMENTS; i++) in[i] = t->in[i];
  in[ARGUMENTS] = t->in[0];
  switch (how) {
  case 0: in[at] = tsr_cast(in[at], TSR_F32); break;
  case 1: in[at] = tsr_gt(in[at], 0); break;
  case 2: in[at] = tsr_expand_dims(in[at], TSR_DIMS(0)); break;
  case 3: in[at] = tsr_concat((tsr_array *[]){ in[at], in[at] }, 2, 0); break;
  case 4: in[at] = tsr_tuple(t->s, in[at]); break;
  case 5: in[at] = NULL; break;
  case 6: return ARGUMENTS - 1;
  default: return ARGUMENTS + 1;
  }
  return ARGUMENTS;
}

static void one_trial(uint64_t seed)
{
  trial t = { .rng = test_seeded(seed) };
  law_mesh m = law_open(&t.rng);
  tsr_scope *s = t.s = tsr_scope_open(m.rt);
  const char *text = NULL;
  int64_t rows = test_range(&t.rng, 1, 6);
  t.columns = test_range(&t.rng, 1, 6);
  tsr_array *x = tsr_iota(s, TSR_F64, TSR_SHAPE(rows, t.columns), 1, (tsr_sharding){ 0 });
  t.in[0] = tsr_reshard(x, law_sharding(&t.rng, m.mesh, 2));
  t.in[1] = tsr_reshard(tsr_add(x, 0.5), law_sharding(&t.rng, m.mesh, 2));
  CHECK_STATUS(tsr_eval(t.in, ARGUMENTS), TSR_OK, s);
  tsr_function *f = tsr_function_make(s, body);
  t.compiled = tsr_compile(f, t.in[0], t.in[1]);
  CHECK_STATUS(tsr_function_text_into(f, &text, t.in[0], t.in[1]), TSR_OK, s);
  t.loaded = tsr_function_from_text(s, text);
  double before[2][8], after[8];
  for (int w = 0; w < 2; w++) read_good(&t, w, before[w]);
  CHECK(!memcmp(before[0], before[1], (size_t)t.columns * sizeof **before));
  for (int how = 0; how < WRONGS; how++) {
    tsr_array *in[ARGUMENTS + 1];
    for (int w = 0; w < 2; w++) {
      int count = make_wrong(&t, how, in);
      CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
      bool inert = tsr_is_inert(call(&t, w, in, count));
      if (!inert || !tsr_scope_status(s) || !strstr(tsr_message(s), ": tsr_"))
        FAIL("seed %llu, %d, %d: %s", (unsigned long long)seed, how, w, tsr_message(s));
      tsr_scope_clear(s);
      read_good(&t, w, after);
      CHECK(!memcmp(before[w], after, (size_t)t.columns * sizeof *after));
    }
  }
  tsr_scope_close(s);
  tsr_runtime_close(m.rt);
}

TEST_TIMEOUT(wrong_arguments_are_refused_and_good_ones_go_on, 300)
{
  law_each_seed(1, test_quick() ? 20 : 150, one_trial);
}
