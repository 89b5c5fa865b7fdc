/* Gradients against central differences. */
#ifndef TESTS_SUPPORT_GRADIENT_CHECK_H
#define TESTS_SUPPORT_GRADIENT_CHECK_H

#include "tessera.h"

/* A body, and where its gradient is looked at: by all arguments that are f64. */
typedef struct gradient_case {
  const char *name; /* in what a failure says */
  tsr_scope *s;
  tsr_body_fn *body;
  void *user;
  tsr_array *const *in;
  int count;
  int depth;        /* 1: the gradient; 2: also that of the gradient */
  double tolerance; /* relative to the sizes of what is compared; 0: 1e-6 */
  uint64_t seed;    /* of the direction */
} gradient_case;

/* The gradient of the sum of the body's result, times weights, along a random direction is how
 * that sum changes along it, within the tolerance; and the same of the gradient. */
void gradient_check(const gradient_case *given);

#endif
