/* Inside array/: words of random bits by key and place, which all distributions are made of.
 *
 *   word d of element i = Philox(key; counter i, stream + 2^32 d)
 *
 * i counts in C order through the draw of one key. So each element has 2^31 words of its own, and a
 * distribution takes as many as it needs. */
#ifndef TSR_ARRAY_RANDOM_ROOM_H
#define TSR_ARRAY_RANDOM_ROOM_H

#include "array/array_room.h"
#include "tessera/random.h"

/* A call that draws. */
typedef struct tsr__draws {
  tsr_scope *scope;
  const char *what, *site; /* "tsr_uniform" */
  tsr_dtype usual; /* of the result where none is asked for: f64, i64 of what counts, bool */
  const tsr_shape *behind; /* dims that the call adds behind those of .shape; NULL: none */
  bool anywhere;           /* what is drawn is not yet the result, and may lie as it likes */
  tsr_sharding on;         /* where the result lies */
  double number;           /* what the distribution is of, where `by` is NULL */
  tsr_array *by;           /* the same of each element: f64, broadcasts to the result */
  tsr_random_args args;
} tsr__draws;

#define TSR__DRAWS(name, dtype)                                        \
  {                                                                    \
    .scope = scope, .what = "tsr_" #name, .site = site, .usual = dtype \
  }

/* Takes the arguments of a call, checked, with the dtype filled in. Records what is wrong and
 * returns false; an inert key knows why. */
bool tsr__draws_take(tsr__draws *d, const tsr_random_args *given);
/* The same of a distribution that is of something: its `number` or `by` is filled in. Draws that
 * say no shape, and have one key, have that of the array. */
bool tsr__draws_take_of(tsr__draws *d, const tsr_random_args *given, tsr_operand of);
/* What the distribution is of, as an operand of f64. */
tsr_operand tsr__draws_of(const tsr__draws *d);
/* The result, in the place that was asked for. */
tsr_array *tsr__draws_placed(const tsr__draws *d, tsr_array *out);
/* An inert array, for what was wrong. */
tsr_array *tsr__draws_inert(const tsr__draws *d);
/* Records what is wrong behind the name of the call, and the same. */
tsr_array *tsr__draws_fail(const tsr__draws *d, const tsr__error *error);
/* The same of TSR_EARG; `format` has one %s, for `found`. */
tsr_array *tsr__draws_refuse(const tsr__draws *d, const char *format, double found);

/* Word `number` of each element: of dtypes of integers bits, of floats a uniform draw of [0, 1). */
tsr_array *tsr__draws_word(const tsr__draws *d, uint64_t number, tsr_dtype dtype);
/* Uniform between -1 and 1, of f32 or f64: odd multiples of the step, which are neither. */
tsr_array *tsr__draws_between(const tsr__draws *d, uint64_t number, tsr_dtype dtype);
/* Normal, of f32 or f64. */
tsr_array *tsr__draws_normal(const tsr__draws *d, uint64_t number, tsr_dtype dtype);
/* log(1 - u): an exponential draw of mean 1, turned round. */
tsr_array *tsr__draws_log(const tsr__draws *d, uint64_t number, tsr_dtype dtype);

#endif
