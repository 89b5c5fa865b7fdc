/* Frames, block 8: local operations followed by a single reduction: one pass over the rows and one
 * collective. Three sums are three programs, or one, with one collective again. */
#include "check.h"
#include "inputs.h"

static void check_three(check *c, tsr_scope *s, tsr_frame *df)
{
  const char *outputs[] = { "sum1.a", "sum2.a", "sum3.a", "sum1.b", "sum2.b", "sum3.b" };
  const char *columns[] = { "a1", "a2", "a3", "b1", "b2", "b3" };
  tsr_frame *sums = tsr_frame_agg(df, "a1 = sum(a), a2 = sum(a * 2), a3 = sum(a + 1),"
                                      "b1 = sum(b), b2 = sum(b * 2), b3 = sum(b + 1)");
  check_explained(c, "three_sums", tsr_frame_explain(sums));
  tsr_row *row = tsr_frame_row(sums);
  check_ran(c, "three_sums", s);
  for (int i = 0; i < 3; i++)
    check_ints(c, outputs[i], &(int64_t){ tsr_row_i64(row, columns[i]) }, 1);
  for (int i = 3; i < 6; i++) check_number(c, outputs[i], tsr_row_f64(row, columns[i]), 0);
}

static void reduce_once(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = input_ab(s, 1000, tsr_on(tsr_mesh_make(rt, "data=2,model=4"), "data"));

  tsr_frame *result = tsr_frame_sum(tsr_frame_add(tsr_frame_mul(df, 2), 1));
  check_explained(c, "result", tsr_frame_explain(result));
  check_row(c, "result", result);
  check_ran(c, "result", s);
  if (tsr_last_run(s).kernels != 1) check_fail(c, "%d passes, not one", tsr_last_run(s).kernels);

  check_row(c, "sum1", tsr_frame_sum(df));
  check_row(c, "sum2", tsr_frame_sum(tsr_frame_mul(df, 2)));
  check_row(c, "sum3", tsr_frame_sum(tsr_frame_add(df, 1)));
  check_three(c, s, df);
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("000_08");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  reduce_once(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
