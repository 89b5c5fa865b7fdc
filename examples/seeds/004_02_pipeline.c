/* Quick reference, block 2: a source in memory and batches of 128. */
#include "check.h"
#include "inputs.h"

int main(void)
{
  check c = check_open("004_02");
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *source = input_images(s, 1024, TSR_SHAPE(32, 32, 3));
  tsr_pipeline *pipeline = tsr_pipeline_open(source, .batch_size = 128);
  check_ints(&c, "batches", &(int64_t){ tsr_pipeline_batch_count(pipeline) }, 1);
  char line[64];
  snprintf(line, sizeof line, "Pipeline: %lld samples, batch_size=128",
           (long long)tsr_source_count(source));
  check_print(&c, "printed", 0, line);
  if (tsr_pipeline_close(pipeline)) check_fail(&c, "%s", tsr_message(s));

  /* All records as one batch. */
  pipeline = tsr_pipeline_open(source, .batch_size = 1024);
  tsr_batch *b = tsr_pipeline_next(pipeline);
  check_array(&c, "image", tsr_batch_field(b, "image"));
  check_array(&c, "label", tsr_batch_field(b, "label"));
  tsr_batch_release(b);
  if (tsr_pipeline_close(pipeline)) check_fail(&c, "%s", tsr_message(s));
  tsr_runtime_close(rt);
  return check_close(&c);
}
