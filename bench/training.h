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

/* A network of layers (of `inputs` numbers, two of `hidden`, ten) or of windows, on the default
 * mesh of so many devices. */
typedef struct training_net {
  bool windows;
  int64_t batch, inputs, hidden; /* windows: 128 of 32 x 32 x 3 */
  int devices, threads;
} training_net;
training_job bench_training_open(const training_net *net);
void bench_training_close(training_job *j);
/* One step on x and y: seconds and CPU seconds; NAN: it failed. */
double bench_training_step(const training_job *j, tsr_array *x, tsr_array *y, double *cpu,
                           double *loss);

/* That of examples/transformer.c behind its first steps (decoder_job.c). What it began with goes to
 * the file `path`, for the peer. A failure is told in the scope. */
training_job bench_decoder_job(const char *path);

#endif
