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
    CHECK(row->shape_rule <= TSR__SH_RESULT);
    CHECK(row->lowering <= TSR__LOW_REGION);
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
    if (tsr__ops[op].shape_rule != TSR__SH_SOURCE)
      CHECK(terms >= (tsr__ops[op].least > 2 ? 2 : tsr__ops[op].least));
    CHECK_I64((int64_t)strspn(rule, ".,->!~?abgikmprst"), (int64_t)strlen(rule));
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

TEST(reductions_take_a_mask_and_codes)
{
  for (int op = 0; op < TSR__OPS; op++) {
    if (tsr__ops[op].lowering != TSR__LOW_REDUCE) continue;
    CHECK_I64(tsr__ops[op].most, 3);
    CHECK(tsr__ops[op].acc != TSR__ACC_NONE);
  }
}
