/* A body put into another node: a call, a checkpoint, rules of its own, a loop of one step, a map
 * of one element, a choice. None of them changes what it gives, how that changes with what it is
 * given, or where that differs along an axis. */
#ifndef TESTS_SUPPORT_WRAPPED_H
#define TESTS_SUPPORT_WRAPPED_H

#include "harness.h"
#include "tessera.h"

enum {
  WRAPPED_NOT,
  WRAPPED_CALL,
  WRAPPED_CHECKPOINT,
  WRAPPED_VJP,    /* a rule that goes back by the body's own vjp */
  WRAPPED_JVP,    /* one that goes forward by its jvp */
  WRAPPED_SCAN,   /* what it is given stands beside the step, */
  WRAPPED_SLICES, /* is sliced, */
  WRAPPED_CARRY,  /* or carried */
  WRAPPED_FORI,
  WRAPPED_VMAP,
  WRAPPED_NAMED, /* a vmap with an axis of its own */
  WRAPPED_COND,
  WRAPPED_SWITCH,
  WRAPPED_WHILE, /* nothing goes back through it */
  WRAPPED_KINDS
};

extern const char *const wrapped_names[WRAPPED_KINDS];

/* Which kinds stand around a body, the first outermost. */
typedef struct wrapping {
  int kinds[2];
} wrapping;

/* One kind at random, at times two. `back`: a gradient goes back through it. */
wrapping wrapping_draw(test_rng *rng, bool back);

/* What a body makes of `count` arrays, at most 4, in what stands around it.
 * The body uses no array but those; `user` lives as long as what is traced. */
tsr_array *wrapped(wrapping kinds, tsr_scope *s, tsr_body_fn *body, void *user,
                   tsr_array *const *in, int count);

#endif
