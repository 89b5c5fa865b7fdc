/* Under Slurm, whose srun says who each process is and where process 0 listens:
 *
 *   srun -n 4 ./under_slurm
 *   TSR_SECRET=$(openssl rand -hex 16) srun -N 2 -n 4 ./under_slurm     on several nodes
 *
 * A line through points of which each process has its own, by steps down the slope. */
#include <math.h>
#include <stdio.h>

#include <tessera.h>

enum { POINTS = 100, STEPS = 60 };

/* Puts the points of this process, on the line 3x + 1, beside those of the others. */
static void make_points(tsr_scope *s, tsr_runtime *rt, tsr_array **x, tsr_array **y)
{
  double at[POINTS], on_line[POINTS];
  int me = tsr_process_index(rt), count = tsr_process_count(rt);
  tsr_sharding rows = tsr_on(tsr_mesh_default(rt, "data"), "data");
  for (int i = 0; i < POINTS; i++) {
    at[i] = 2 * (me * POINTS + i + 0.5) / (count * POINTS) - 1;
    on_line[i] = 3 * at[i] + 1;
  }
  *x = tsr_from_process_data(s, at, .dtype = TSR_F64, .shape = TSR_SHAPE(POINTS), .on = rows);
  *y = tsr_from_process_data(s, on_line, .dtype = TSR_F64, .shape = TSR_SHAPE(POINTS), .on = rows);
}

/* One step: the slopes of the mean square, over the points of all. */
static tsr_status descend(tsr_runtime *rt, tsr_array *x, tsr_array *y, double *slope, double *start)
{
  double down[2];
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *off = tsr_sub(tsr_add(tsr_mul(x, *slope), *start), y);
  tsr_status status = tsr_read_scalar(tsr_mean(tsr_mul(off, x)), &down[0]);
  if (!status) status = tsr_read_scalar(tsr_mean(off), &down[1]);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  tsr_scope_close(s);
  if (status) return status;
  *slope -= down[0];
  *start -= down[1];
  return TSR_OK;
}

int main(void)
{
  tsr_runtime *rt = tsr_initialize("cpu:2");
  if (tsr_runtime_status(rt)) {
    fprintf(stderr, "%s\n", tsr_runtime_message(rt));
    return 1;
  }
  tsr_scope *s = tsr_scope_open(rt);
  double slope = 0, start = 0;
  tsr_array *x, *y;
  make_points(s, rt, &x, &y);
  tsr_status status = tsr_scope_status(s);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  for (int step = 0; step < STEPS && !status; step++) status = descend(rt, x, y, &slope, &start);
  if (!status && tsr_process_index(rt) == 0)
    printf("%d processes: %.4f x + %.4f\n", tsr_process_count(rt), slope, start);
  tsr_runtime_close(rt);
  return status || fabs(slope - 3) > 1e-4 || fabs(start - 1) > 1e-4;
}
