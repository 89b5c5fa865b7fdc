/* Pipelines over devices, block 3: each process keeps its part of a batch. Sizes that do not divide
 * are shared out truly, 10 rows over 4 as 3, 3, 2, 2: nothing is dropped. */
#include "check.h"
#include "inputs.h"

int main(void)
{
  check c = check_open("003_03");
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding rows = tsr_on(tsr_mesh_default(rt, "data"), "data");
  tsr_array *batch = input_s(s, TSR_SHAPE(12, 4), 1, rows);
  float mine[12 * 4], all[12 * 4], joined[12 * 4];
  const size_t bytes = sizeof all / (size_t)tsr_process_count(rt);
  const tsr_shape shape = TSR_SHAPE(12 / tsr_process_count(rt), 4);

  if (tsr_read_process(batch, mine, bytes)) check_fail(&c, "%s", tsr_message(s));
  if (tsr_process_count(rt) == 2)
    check_array(&c, tsr_process_index(rt) ? "local_batch_p1" : "local_batch_p0",
                tsr_put(s, mine, TSR_F32, shape, (tsr_sharding){ .mesh = NULL }));
  /* Put together again they are the batch. */
  tsr_array *again = tsr_from_process_data(s, mine, .dtype = TSR_F32, .shape = shape, .on = rows);
  if (tsr_read(batch, all, sizeof all) || tsr_read(again, joined, sizeof joined))
    check_fail(&c, "%s", tsr_message(s));
  if (memcmp(all, joined, sizeof all) != 0) check_fail(&c, "joined they are another batch");

  tsr_box boxes[4];
  int64_t ends[8];
  tsr_sharding four = tsr_on(tsr_mesh_abstract(rt, "data=4"), "data");
  if (tsr_shard_boxes(&four, TSR_SHAPE(10, 4), boxes, 4)) check_fail(&c, "no boxes");
  for (int p = 0; p < 4; p++) {
    ends[2 * p] = boxes[p].start[0];
    ends[2 * p + 1] = boxes[p].start[0] + boxes[p].size[0];
  }
  check_ints(&c, "uneven.true_size", ends, 8);

  tsr_runtime_close(rt);
  return check_close(&c);
}
