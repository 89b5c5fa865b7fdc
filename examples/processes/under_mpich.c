/* Under MPICH's mpiexec (hydra), which says who each process is, but not where process 0 listens;
 * that MPICH is asked, by the engine mpi_mpich:
 *
 *   mpiexec -n 4 ./under_mpich
 *
 * (on Debian mpiexec.hydra; without the engine -genv TSR_COORDINATOR 127.0.0.1:7000 says it, and
 * with several hosts -genv TSR_SECRET). Process 0 draws the weights,
 * all get them, and make sure that they have the same. */
#include <stdio.h>

#include <tessera.h>

static tsr_status share_weights(tsr_scope *s, tsr_runtime *rt)
{
  double sum = 0;
  uint64_t key = 1 + (uint64_t)tsr_process_index(rt); /* each would draw others */
  tsr_array *w = tsr_normal(s, .key = key, .shape = TSR_SHAPE(64, 32), .dtype = TSR_F32);
  tsr_array *b = tsr_uniform(s, .key = key, .shape = TSR_SHAPE(32), .dtype = TSR_F32);
  tsr_array *model = tsr_process_broadcast(tsr_tree(s, { "w", w }, { "b", b }), .root = 0);
  tsr_status status = tsr_process_equal(model, "the model");
  if (!status) status = tsr_read_scalar(tsr_sum(tsr_field(model, "w")), &sum);
  if (!status) printf("process %d: %.6f\n", tsr_process_index(rt), sum);
  return status;
}

int main(void)
{
  tsr_runtime *rt = tsr_initialize("cpu:1");
  if (tsr_runtime_status(rt)) {
    fprintf(stderr, "%s\n", tsr_runtime_message(rt));
    return 1;
  }
  tsr_scope *s = tsr_scope_open(rt);
  tsr_status status = share_weights(s, rt);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  tsr_runtime_close(rt);
  return status != TSR_OK;
}
