/* The law of rows: random programs of every row of the table of operations, on every type that it
 * takes, over random shapes, meshes and specs, have bit for bit the values of the naive evaluator.
 * A row that is neither drawn here nor listed with its reason fails the test, which prints how
 * often each was drawn, by the type of its first operand. */
#include <stdio.h>
#include <stdlib.h>

#include "support/law_fixture.h"
#include "support/law_rows.h"
#include "support/topology_fixture.h"

static int64_t seen[TSR__OPS][TSR__DTYPES];

/* ---- programs -------------------------------------------------------------------------------- */

static tsr__op draw_op(law_rows *w)
{
  for (;;) {
    tsr__op op = (tsr__op)law_draw(&w->law, 0, TSR__OPS - 1);
    if (!law_rows_elsewhere[op]) return op;
  }
}

/* One to six nodes, the last of them of a row that its number says. */
static void one_program(tsr_runtime *rt, uint64_t seed)
{
  law_rows w = { .law = { .rng = test_seeded(seed), .seed = seed, .seen = seen } };
  w.law.s = tsr_scope_open(rt);
  w.law.mesh = tsr_mesh_make(rt, law_meshes[law_draw(&w.law, 0, LAW_MESHES - 1)]);
  w.base = law_shape(&w.law, 0, 3);
  /* An index of two dims may stand for one. */
  w.base = law_deep(&w.law.rng, w.base, TSR_MAX_RANK - 1);
  /* Of three dims, as the evaluator sorts lines in squares of their lengths. */
  if (law_draw(&w.law, 0, 99) == 0) w.base = law_large(&w.law.rng, 3, 3);
  tsr__op last = (tsr__op)(seed % TSR__OPS);
  for (int64_t more = law_draw(&w.law, 0, 5); more >= 0; more--) {
    tsr__op op = more || law_rows_elsewhere[last] ? draw_op(&w) : last;
    tsr_array *made = law_row(&w, op);
    if (tsr_scope_status(w.law.s))
      FAIL("seed %llu, %s: %s", (unsigned long long)seed, tsr__ops[op].name, tsr_message(w.law.s));
    if (made) w.law.made[w.law.count++] = made;
  }
  law_check(&w.law);
}

/* Operation by type by class; rows that nobody looked at fail. */
static void print_table(void)
{
  static const char *const classes[] = {
    [TSR__LOW_LEAF] = "leaf",        [TSR__LOW_TILE] = "element",
    [TSR__LOW_FORMULA] = "function", [TSR__LOW_VIEW] = "view",
    [TSR__LOW_REDUCE] = "reduction", [TSR__LOW_STEP] = "placing",
    [TSR__LOW_ROUTINE] = "routine",  [TSR__LOW_PART] = "result",
    [TSR__LOW_REGION] = "region",    [TSR__LOW_NAMED] = "named",
    [TSR__LOW_LABEL] = "label",
  };
  int missing = 0;
  printf("# %-22s %-10s %-16s", "operation", "class", "rule");
  for (int i = 0; i < FIXTURE_DTYPES; i++) printf("%6s", tsr_dtype_name(fixture_dtype(i)));
  for (int op = 0; op < TSR__OPS; op++) {
    int64_t all = 0;
    printf("\n# %-22s %-10s %-16s", tsr__ops[op].name, classes[tsr__ops[op].lowering],
           tsr__ops[op].factors);
    for (int i = 0; i < FIXTURE_DTYPES && !law_rows_elsewhere[op]; i++) {
      printf("%6lld", (long long)seen[op][fixture_dtype(i)]);
      all += seen[op][fixture_dtype(i)];
    }
    if (law_rows_elsewhere[op]) printf("  %s", law_rows_elsewhere[op]);
    missing += !all && !law_rows_elsewhere[op];
  }
  printf("\n");
  CHECK_I64(missing, 0);
}

TEST_TIMEOUT(every_row_on_any_mesh_equals_the_naive_evaluator, 900)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  const char *only = getenv("LAW_SEED");
  uint64_t programs = (test_quick() ? 17 : 250) * (uint64_t)TSR__OPS,
           first = only ? strtoull(only, NULL, 10) : 1;
  for (uint64_t seed = first; seed <= (only ? first : programs); seed++)
    if (only || test_share(seed)) one_program(rt, seed);
  tsr_runtime_close(rt);
  if (!only) print_table();
}
