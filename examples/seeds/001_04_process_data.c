/* Arrays, block 4: an array of what each process gives, whose shape follows from the blocks. */
#include "check.h"
#include "several.h"

int main(void)
{
  check c = check_open("001_04");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  float data[64];
  int rows = several_rows(rt, data);

  check_array(&c, "array_x,y",
              tsr_from_process_data(s, data, .dtype = TSR_F32, .shape = TSR_SHAPE(rows, 8),
                                    .on = tsr_on(mesh, "x,y")));
  /* Along y each process has all of dim 0: the blocks lie side by side. */
  if (tsr_process_count(rt) == 2)
    check_array(&c, "array_y,x",
                tsr_from_process_data(s, data, .dtype = TSR_F32, .shape = TSR_SHAPE(rows, 8),
                                      .on = tsr_on(mesh, "y,x")));

  tsr_runtime_close(rt);
  return check_close(&c);
}
