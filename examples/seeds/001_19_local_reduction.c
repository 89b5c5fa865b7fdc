/* Arrays, block 19: row sums within a device's shard. As it stands it is refused: shards have not
 * all of a row. Three ways to mean it: keep the partial sums, sum over y, or take whole rows. */
#include "check.h"
#include "inputs.h"

static tsr_array *partial(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(in[0], .dims = TSR_DIMS(1), .keep_dims = true);
}

static tsr_array *local(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(in[0], .dims = TSR_DIMS(1));
}

static tsr_array *summed(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_psum(local(s, in, user), "y");
}

int main(void)
{
  check c = check_open("001_19");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");

  tsr_array *x = input_s(s, TSR_SHAPE(8, 16), 1, tsr_on(mesh, "x,y"));
  tsr_array *as_written =
      tsr_shard_map(mesh, local, NULL, .in = { x }, .in_specs = { "x,y" }, .out_specs = { "x" });
  c.outputs++;
  if (!tsr_is_inert(as_written) || !strstr(tsr_message(s), "may differ along axis y"))
    check_fail(&c, "what differs along y is taken for the same");
  tsr_scope_clear(s);
  check_array(&c, "partial_sums",
              tsr_shard_map(mesh, partial, NULL, .in = { x }, .in_specs = { "x,y" },
                            .out_specs = { "x,y" }));
  check_ran(&c, "partial_sums", s);
  check_array(&c, "rows",
              tsr_shard_map(mesh, summed, NULL, .in = { x }, .in_specs = { "x,y" },
                            .out_specs = { "x" }));
  check_ran(&c, "rows", s);
  check_array(&c, "rows_from_whole_rows",
              tsr_shard_map(mesh, local, NULL, .in = { x }, .in_specs = { "x" },
                            .out_specs = { "x" }));

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
