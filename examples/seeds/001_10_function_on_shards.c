/* Arrays, block 10: a function that sums the rows of a device's shard. What it says is not enough:
 * a shard has not all of a row, and that the sums are the same along y cannot be proved, as both
 * of them are not. The error says what to do: sum over y. */
#include "check.h"
#include "inputs.h"

static tsr_array *part_of_rows(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(in[0], .dims = TSR_DIMS(1));
}

static tsr_array *rows(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_psum(part_of_rows(s, in, user), "y");
}

static tsr_array *kept(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_expand_dims(rows(s, in, user), TSR_DIMS(1));
}

static void refused(check *c, tsr_scope *s, tsr_array *a, const char *why)
{
  c->outputs++;
  if (!tsr_is_inert(a)) check_fail(c, "it is taken, expected: %s", why);
  else if (!strstr(tsr_message(s), why)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_clear(s);
}

int main(void)
{
  check c = check_open("001_10");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");

  tsr_array *x = input_s(s, TSR_SHAPE(8, 16), 1, tsr_on(mesh, "x,y"));
  refused(&c, s,
          tsr_shard_map(mesh, rows, NULL, .in = { x }, .in_specs = { "x,y" },
                        .out_specs = { "x,-" }),
          "fewer dims than its spec");
  refused(&c, s,
          tsr_shard_map(mesh, part_of_rows, NULL, .in = { x }, .in_specs = { "x,y" },
                        .out_specs = { "x" }),
          "may differ along axis y");
  check_array(&c, "rows",
              tsr_shard_map(mesh, rows, NULL, .in = { x }, .in_specs = { "x,y" },
                            .out_specs = { "x" }));
  check_ran(&c, "rows", s);
  check_array(&c, "rows_kept_rank_2",
              tsr_shard_map(mesh, kept, NULL, .in = { x }, .in_specs = { "x,y" },
                            .out_specs = { "x,-" }));

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
