/* What training_lines.c times. */
#ifndef BENCH_TRAINING_H
#define BENCH_TRAINING_H

#include "bench.h"

/* What a step is given, the model first, and its function; the last array that it returns is the
 * loss. */
typedef struct training_job {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_array *in[3];
  tsr_function *step;
} training_job;

/* That of examples/transformer.c behind its first steps (decoder_job.c). What it began with goes to
 * the file `path`, for the peer. A failure is told in the scope. */
training_job bench_decoder_job(const char *path);

#endif
