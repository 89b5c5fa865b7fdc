/* Frames, block 4: sum, mean, max and min of each column, over all devices. Sums are exact and the
 * million integers of `a` add up past 32 bits. */
#include "check.h"
#include "inputs.h"

/* Four programs of one collective each, for both columns; the list allows `most` of them in all. */
static void reduce(check *c, tsr_scope *s, const char *name, tsr_frame *df)
{
  tsr_frame *reduced[] = { tsr_frame_sum(df), tsr_frame_mean(df), tsr_frame_max(df),
                           tsr_frame_min(df) };
  const char *outputs[] = { "sum", "mean", "max", "min" };
  char allowed[64];
  int ran = 0, listed = check_listed(c, name, allowed);
  for (int i = 0; i < 4; i++) {
    char output[64];
    snprintf(output, sizeof output, "%s.%s", name, outputs[i]);
    check_explained(c, name, tsr_frame_explain(reduced[i]));
    check_row(c, output, reduced[i]);
    ran += tsr_last_run(s).collectives;
  }
  if (ran > listed) check_fail(c, "%s: %d collectives ran, expected at most %d", name, ran, listed);
}

static void reductions(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding rows = tsr_on(tsr_mesh_make(rt, "data=2,model=4"), "data");
  reduce(c, s, "xy", input_xy(s, rows));
  reduce(c, s, "ab", input_ab(s, 1000000, rows));
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("000_04");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  reductions(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
