/* The table of operations: every row is complete and says what its columns may say. */
#include <string.h>

#include "graph/accums.h"
#include "harness.h"

TEST(every_row_is_filled)
{
  for (int op = 0; op < TSR__OPS; op++) {
    const tsr__opinfo *row = &tsr__ops[op];
    CHECK(row->name && row->name[0]);
    CHECK(row->least <= row->most && (row->most <= 3 || row->most == TSR__MANY));
    CHECK(row->dtype_rule <= TSR__DT_RESULT);
    CHECK(row->shape);
    CHECK(row->lowering <= TSR__LOW_LABEL);
    CHECK(row->regions <= TSR__MAX_REGIONS || row->regions == TSR__MANY);
    CHECK(row->results != 1);
    CHECK(strstr(row->factors, "->"));
  }
}

TEST(names_are_unique)
{
  for (int a = 0; a < TSR__OPS; a++)
    for (int b = 0; b < a; b++) CHECK(strcmp(tsr__ops[a].name, tsr__ops[b].name) != 0);
}

/* A sharding rule has one term an operand (operands past the last term follow it) and is made of
 * known symbols. */
TEST(sharding_rules_are_well_formed)
{
  for (int op = 0; op < TSR__OPS; op++) {
    const char *rule = tsr__ops[op].factors;
    const char *arrow = strstr(rule, "->");
    int terms = arrow > rule;
    for (const char *at = rule; at < arrow; at++) terms += *at == ',';
    CHECK(terms <= tsr__ops[op].most);
    if (!tsr__shape_is_given(op)) CHECK(terms >= (tsr__ops[op].least > 2 ? 2 : tsr__ops[op].least));
    CHECK_I64((int64_t)strspn(rule, ".,->!~?abgijkmprstu"), (int64_t)strlen(rule));
  }
}

/* What stands for an operation on bools is one of logic and has as many operands. */
TEST(operations_on_bools_are_logic)
{
  for (int op = 0; op < TSR__OPS; op++) {
    if (!tsr__ops[op].on_bools) continue;
    const tsr__opinfo *logic = &tsr__ops[tsr__ops[op].on_bools];
    CHECK(logic->dtype_rule == TSR__DT_BOOL || logic->wants == TSR__WANT_BITS);
    CHECK(logic->wants == TSR__WANT_BITS || logic->wants == TSR__WANT_TRUTH);
    CHECK_I64(logic->most, tsr__ops[op].most);
    CHECK_I64(logic->on_bools, 0);
  }
}

/* Whoever asks for a trait reads the attribute that goes with it. */
TEST(traits_have_the_attributes_they_are_read_with)
{
  for (int op = 0; op < TSR__OPS; op++) {
    const tsr__opinfo *row = &tsr__ops[op];
    CHECK(!row->contracts || row->attr == TSR__ATTR_DOT);
    CHECK(!row->permutes || row->attr == TSR__ATTR_ORDER);
    CHECK(!row->keeps_first || row->attr == TSR__ATTR_SORT);
    CHECK(!row->loops || (row->attr == TSR__ATTR_LOOP && row->regions));
    CHECK(!row->by_lines || row->attr == TSR__ATTR_SCAN || row->attr == TSR__ATTR_SORT ||
          row->fetches);
    CHECK(!row->fetches || (row->attr == TSR__ATTR_SPAN && row->by_lines));
    CHECK(!row->inserts_dims || row->attr == TSR__ATTR_SPAN);
    CHECK(!row->inserts_dims || row->looks_up);
    CHECK(!row->each_line || (row->looks_up && row->attr == TSR__ATTR_DIM));
    CHECK(!row->at_start || (row->least >= 2 && tsr__is_routine(op)));
    CHECK(!row->source || tsr__is_elementwise(op));
    CHECK((row->reshapes || row->repeats || row->permutes) <= tsr__is_view(op));
    CHECK((row->ragged || row->even || row->moves) <= tsr__is_step(op));
  }
}

/* Rows that compute have flops; leaves, views, moves and sources have none. */
TEST(rows_that_compute_have_flops)
{
  for (int op = 0; op < TSR__OPS; op++) {
    bool computes = (tsr__is_elementwise(op) && !tsr__ops[op].source) || tsr__is_reduction(op) ||
                    tsr__is_routine(op);
    if (computes != (tsr__ops[op].flops != NULL)) FAIL("FLOPS of %s", tsr__ops[op].name);
  }
}

TEST(reductions_take_a_mask_and_codes)
{
  for (int op = 0; op < TSR__OPS; op++) {
    if (tsr__ops[op].lowering != TSR__LOW_REDUCE) continue;
    CHECK_I64(tsr__ops[op].most, 3);
    CHECK(tsr__ops[op].acc != TSR__ACC_NONE);
  }
}
