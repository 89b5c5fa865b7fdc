/* Frames, block 10: columns made of columns, computed in one pass when the frame is collected. Row
 * 0 divides 0 by 0 and row 1009 divides by 0: NaN and -inf are values, not errors. */
#include "check.h"
#include "inputs.h"

static double revenue(int64_t i)
{
  return (double)input_r(i) / 8;
}

static double cost(int64_t i)
{
  return (double)(i * 104729 % 811) / 8;
}

/* Compares a collected table with what the columns said before. */
static void check_table(check *c, const tsr_table *table)
{
  int64_t rows = tsr_table_row_count(table);
  int margin = tsr_table_find(table, "margin");
  if (rows != 1024 || tsr_table_column_count(table) != 4)
    check_fail(c, "the table has another form");
  if (margin < 0 || tsr_table_is_null(table, 0, margin) || !isnan(tsr_table_f64(table, 0, margin)))
    check_fail(c, "margin of row 0 is not NaN");
  if (!(tsr_table_f64(table, 1009, margin) < -1e308))
    check_fail(c, "margin of row 1009 is not -inf");
}

static void new_columns(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding rows = tsr_on(tsr_mesh_make(rt, "data=2,model=4"), "data");
  tsr_frame *df = tsr_frame_new(s, { "revenue", input_f64(s, 1024, revenue, rows) },
                                { "cost", input_f64(s, 1024, cost, rows) });

  tsr_frame *wider = tsr_frame_assign(df, "profit", "revenue - cost");
  wider = tsr_frame_assign(wider, "margin", "profit / revenue");
  check_explained(c, "result", tsr_frame_explain(wider));

  tsr_table *result = NULL;
  if (tsr_frame_collect(wider, &result)) check_fail(c, "%s", tsr_message(s));
  else check_table(c, result);
  check_ran(c, "result", s);
  check_frame(c, "result", wider);
  if (tsr_frame_column_count(df) != 2) check_fail(c, "assigning changed the frame itself");
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("000_10");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  new_columns(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
