/* Arrays, block 13: sum, gather and permutation over named devices, in a function on shards. */
#include "check.h"
#include "inputs.h"

static tsr_array *psum(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_psum(in[0], "devices");
}

static tsr_array *all_gather(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_all_gather(in[0], "devices");
}

static tsr_array *swap(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_ppermute(in[0], "devices", { 0, 1 }, { 1, 0 });
}

static tsr_array *on_devices(const tsr_mesh *mesh, tsr_scope *s, tsr_body_fn *body, const char *out)
{
  tsr_array *x = input_s(s, TSR_SHAPE(16), 1, tsr_on(mesh, "devices"));
  return tsr_shard_map(mesh, body, NULL, .in = { x }, .in_specs = { "devices" },
                       .out_specs = { out });
}

int main(void)
{
  check c = check_open("001_13");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "devices=8");
  tsr_mesh *two = tsr_mesh_make(rt, "devices=2");

  check_array(&c, "psum", on_devices(mesh, s, psum, ""));
  check_ran(&c, "psum", s);
  check_array(&c, "all_gather", on_devices(mesh, s, all_gather, ""));
  check_ran(&c, "all_gather", s);
  check_array(&c, "ppermute", on_devices(mesh, s, swap, "devices"));
  check_array(&c, "ppermute_on_devices=2", on_devices(two, s, swap, "devices"));

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
