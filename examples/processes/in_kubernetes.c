/* In the pods of a Kubernetes Job, which kubernetes.yaml beside this file describes:
 *
 *   kubectl create secret generic rows-secret --from-literal=value=$(openssl rand -hex 16)
 *   kubectl apply -f kubernetes.yaml
 *   kubectl logs -l job-name=rows --prefix
 *
 * Pod 0 is process 0, at rows-0.rows:7000. Each says when it is ready, and adds the rows of its own
 * share of the work; where some have more than others, parts are of different sizes. */
#include <stdio.h>

#include <tessera.h>

enum { ROWS = 1001 };

static tsr_status add_rows(tsr_scope *s, tsr_runtime *rt)
{
  static double mine[ROWS];
  tsr_sharding on = tsr_on(tsr_mesh_default(rt, "data"), "data");
  int me = tsr_process_index(rt), count = tsr_process_count(rt);
  tsr_process_part part;
  int64_t ready = 0, first = 0;
  double sum = 0;
  tsr_status status = tsr_store_add(s, "ready", 1, &ready);
  if (!status) status = tsr_sync(s, "ready", .timeout = 60);
  /* How many rows are this process's: the shares before it begin where it does. */
  for (int p = 0; p < me && !status; p++) {
    status = tsr_process_part_of(&on, TSR_SHAPE(ROWS), p, &part);
    first += status ? 0 : part.shape.dims[0];
  }
  if (!status) status = tsr_process_part_of(&on, TSR_SHAPE(ROWS), me, &part);
  if (status) return status;
  for (int64_t i = 0; i < part.shape.dims[0]; i++) mine[i] = (double)(first + i);
  tsr_array *rows = tsr_from_process_data(s, mine, .dtype = TSR_F64, .shape = part.shape, .on = on);
  status = tsr_read_scalar(tsr_sum(rows), &sum);
  if (!status && me == 0)
    printf("%d processes, %lld rows: %.0f\n", count, (long long)tsr_shape_of(rows).dims[0], sum);
  return status || sum == ROWS * (ROWS - 1) / 2 ? status : TSR_EVALUE;
}

int main(void)
{
  tsr_runtime *rt = tsr_initialize("cpu:2");
  if (tsr_runtime_status(rt)) {
    fprintf(stderr, "%s\n", tsr_runtime_message(rt));
    return 1;
  }
  tsr_scope *s = tsr_scope_open(rt);
  tsr_status status = add_rows(s, rt);
  if (status) fprintf(stderr, "%s: %s\n", tsr_status_text(status), tsr_message(s));
  tsr_runtime_close(rt);
  return status != TSR_OK;
}
