/* Arrays, block 3: what each process has of its own becomes part of an array that all have. */
#include "check.h"
#include "several.h"

/* The sum of each of this process's parts, beside those of the others. */
static tsr_array *sums_of_parts(tsr_scope *s, tsr_array *a)
{
  tsr_sharding on = tsr_sharding_of(a);
  float sums[8] = { 0 };
  int count = tsr_local_shard_count(&on);
  for (int k = 0; k < count; k++) {
    tsr_shard shard;
    if (tsr_shard_view(a, tsr_local_shard(&on, k), &shard)) return a;
    for (int64_t i = 0; i < shard.box.size[0] * shard.box.size[1]; i++)
      sums[k] += ((const float *)shard.data)[i];
  }
  return tsr_process_gather(
      tsr_put(s, sums, TSR_F32, TSR_SHAPE(count), (tsr_sharding){ .mesh = NULL }));
}

int main(void)
{
  check c = check_open("001_03");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4"); /* of two processes each is a row */
  float data[64];
  int rows = several_rows(rt, data);

  tsr_array *local =
      tsr_put(s, data, TSR_F32, TSR_SHAPE(rows, 8), tsr_on(tsr_mesh_local(mesh), "x,y"));
  tsr_array *global = tsr_to_global(local, tsr_on(mesh, "x,y"));
  check_array(&c, "global_array", global);
  if (tsr_process_count(rt) == 2) check_array(&c, "member_shard_sums", sums_of_parts(s, global));
  /* And back. */
  float again[64] = { 0 };
  if (tsr_read(tsr_to_local(global), again, (size_t)rows * 8 * sizeof *again))
    check_fail(&c, "%s", tsr_message(s));
  if (memcmp(again, data, (size_t)rows * 8 * sizeof *data) != 0)
    check_fail(&c, "what comes back is something else");

  tsr_runtime_close(rt);
  return check_close(&c);
}
