/* A pipeline over eight devices: shuffled batches of digits, and a mean over all of them. */
#include <stdio.h>

#include <tessera.h>

int main(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=8");
  tsr_scope *s = tsr_scope_open(rt);

  tsr_source *digits = tsr_source_npz(s, "examples/data/digits.npz");
  tsr_pipeline *p = tsr_pipeline_open(digits, .batch_size = 500, .shuffle = true, .seed = 7,
                                      .remainder = TSR_PAD_AND_MASK, .on = tsr_on(mesh, "data"));
  tsr_scope *step = tsr_scope_open(s);
  tsr_array *known = tsr_metric_start(step);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    tsr_array *image = tsr_batch_field(b, "image"), *mask = tsr_batch_mask(b);
    printf("%s of %d records\n", tsr_type_of(image), (int)tsr_batch_count(b));
    known = tsr_tree_keep(tsr_batch_scope(b), known); /* moves the metric into the batch's scope */
    tsr_scope_close(step), step = tsr_scope_open(s);
    known = tsr_tree_keep(step, tsr_metric_add(known, image, .where = mask));
  }
  double mean = 0;
  tsr_status status = tsr_pipeline_close(p); /* an error, if reading failed */
  if (!status) status = tsr_read_scalar(tsr_metric_of(known, TSR_METRIC_MEAN), &mean);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  else printf("mean pixel %.6f\n", mean);

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status != TSR_OK;
}
