/* Control flow inside a program: loops and choices whose bodies are traced once.
 *
 *   static tsr_array *step(tsr_scope *s, tsr_array *const *in, void *user)
 *   {
 *     tsr_array *h = tsr_tanh(tsr_add(tsr_matmul(in[0], in[2]), in[1]));
 *     return tsr_tuple(s, h, tsr_sum(h));
 *   }
 *   tsr_array *out = tsr_scan(step, NULL, h0, .xs = x, .with = w);
 *   tsr_array *h = tsr_item(out, 0), *sums = tsr_item(out, 1);
 *
 * A loop is one node, however often it runs, and runs inside one execution on all devices. They may
 * be called on arrays as on arguments in a body of a function or of another loop. Carries and
 * operands are arrays or trees. A carry keeps its dtype, its shape and its place: where it lies at
 * first, or, if that is nowhere, where the first step leaves it. What a body needs beside its
 * carries comes as `.with`; arrays from outside that it uses become operands with the value they
 * have when it is traced, and what waits to be computed is computed in each step anew. */
#ifndef TESSERA_CONTROL_H
#define TESSERA_CONTROL_H

#include "function.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_loop_args {
  size_t size;
  tsr_array *carry TSR_REST_BY_NAME;
  tsr_array *xs;   /* arrays with one step along dim 0; NULL: the body sees the step's number */
  tsr_array *with; /* the same for all steps; NULL: nothing */
  int64_t length;  /* steps; may be left out where xs has them */
  bool reverse;    /* the last step is done first; stacks lie as xs do */
} tsr_loop_args;

/* Runs a body along the first dim of arrays: body(in[0] = carry, in[1] = what stands at the step,
 * in[2] = with) returns a pair, tsr_tuple(s, carry, y). Returns such a pair: the last carry and the
 * y of all steps, stacked along a new first dim. Errors: TSR_EARG, TSR_ESHAPE and TSR_EDTYPE (a
 * carry of another type than it began with, which is named), and those of the body. Owned as
 * results are. Local. */
TSR_API tsr_array *tsr_scan_at(tsr_body_fn *body, void *user, const tsr_loop_args *args,
                               const char *site);

typedef struct tsr_fori_args {
  size_t size;
  int64_t lower, upper; /* numbers lower .. upper - 1; none where upper is not larger */
  tsr_array *carry TSR_REST_BY_NAME;
  tsr_array *with;
} tsr_fori_args;

/* Runs a body for numbers in turn: body(in[0] = number, i64[], in[1] = carry, in[2] = with) returns
 * the carry. Returns the last carry. Errors as of tsr_scan. Owned as results are. Local. */
TSR_API tsr_array *tsr_fori_at(tsr_body_fn *body, void *user, const tsr_fori_args *args,
                               const char *site);

typedef struct tsr_while_args {
  size_t size;
  tsr_array *carry TSR_REST_BY_NAME;
  tsr_array *with;
} tsr_while_args;

/* Runs a body as long as another says so: goes_on(in[0] = carry, in[1] = with) returns a bool[],
 * which is asked first, body(the same) the carry. Returns the last carry. tsr_jvp goes through it;
 * a gradient is there of loops of fixed length alone. Errors as of tsr_scan. Owned as results are.
 * Local. */
TSR_API tsr_array *tsr_while_at(tsr_body_fn *goes_on, tsr_body_fn *body, void *user,
                                const tsr_while_args *args, const char *site);

enum { TSR_MAX_BRANCHES = 32 };

typedef struct tsr_switch_args {
  size_t size TSR_REST_BY_NAME;
  tsr_body_fn *bodies[TSR_MAX_BRANCHES]; /* up to the first NULL */
  tsr_array *in[TSR_MAX_ARGS];           /* what they are given, up to the first NULL */
} tsr_switch_args;

/* Runs one of several bodies, as a number of rank 0 says at run time; one below 0 is the first, one
 * too large the last. All return the same types. Returns what the body did. Errors: TSR_EARG,
 * TSR_ESHAPE, TSR_EDTYPE and those of the bodies. Owned as results are. Local. */
TSR_API tsr_array *tsr_switch_at(tsr_array *index, void *user, const tsr_switch_args *args,
                                 const char *site);
/* The same of two, as a bool[] says at run time: .bodies = { if it is true, if not }. Local. */
TSR_API tsr_array *tsr_cond_at(tsr_array *predicate, void *user, const tsr_switch_args *args,
                               const char *site);

typedef struct tsr_prefix_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  int dim;      /* elements stand along it, in each array; from the end if negative */
  bool reverse; /* from the last element on */
} tsr_prefix_args;

/* All prefixes of the elements of an array, or of a tree of arrays of as many, under an operation
 * that is associative: element k of the result is element 0 combined with 1, .. with k, in a
 * logarithm of steps. combine(in[0] = those before, in[1] = those after) gets arrays or trees of
 * many elements, as the call did, of another size along the dim, and returns what is made of each
 * pair, of the same types. It is called about twice for each time that the elements can be halved.
 * Which are combined first is settled by their number alone, so that operations that round give
 * the same bits everywhere. Errors: TSR_EARG, TSR_ESHAPE, TSR_EDTYPE and those of the callback.
 * Owned as results are. Local. */
TSR_API tsr_array *tsr_associative_scan_at(tsr_body_fn *combine, void *user,
                                           const tsr_prefix_args *args, const char *site);

/* tsr_scan(step, user, carry, .xs = x), tsr_fori(0, 10, step, user, carry),
 * tsr_while(goes_on, step, user, carry), tsr_cond(p, yes, no, user, x, y),
 * tsr_switch(i, user, .bodies = { a, b, c }, .in = { x }), tsr_associative_scan(add, user, x) */
#define TSR_SCAN_(body, user, carry_, ...)                                                       \
  tsr_scan_at((body), (user),                                                                    \
              &(tsr_loop_args){ .size = sizeof(tsr_loop_args), .carry = (carry_), __VA_ARGS__ }, \
              TSR_HERE)
#define tsr_scan(...) TSR_NEEDS_3_("tsr_scan(body, user, carry)", TSR_SCAN_, __VA_ARGS__)
#define TSR_FORI_(first, end, body, user, carry_, ...)         \
  tsr_fori_at((body), (user),                                  \
              &(tsr_fori_args){ .size = sizeof(tsr_fori_args), \
                                .lower = (first),              \
                                .upper = (end),                \
                                .carry = (carry_),             \
                                __VA_ARGS__ },                 \
              TSR_HERE)
#define tsr_fori(...) \
  TSR_NEEDS_5_("tsr_fori(first, end, body, user, carry)", TSR_FORI_, __VA_ARGS__)
#define TSR_WHILE_(goes_on, body, user, carry_, ...)                                 \
  tsr_while_at((goes_on), (body), (user),                                            \
               &(tsr_while_args){                                                    \
                   .size = sizeof(tsr_while_args), .carry = (carry_), __VA_ARGS__ }, \
               TSR_HERE)
#define tsr_while(...) \
  TSR_NEEDS_4_("tsr_while(goes_on, body, user, carry)", TSR_WHILE_, __VA_ARGS__)
#define tsr_cond(predicate, yes, no, user, ...)                    \
  tsr_cond_at((predicate), (user),                                 \
              &(tsr_switch_args){ .size = sizeof(tsr_switch_args), \
                                  .bodies = { (yes), (no) },       \
                                  .in = { __VA_ARGS__ } },         \
              TSR_HERE)
#define tsr_switch(index, user, ...) \
  tsr_switch_at((index), (user),     \
                &(tsr_switch_args){ .size = sizeof(tsr_switch_args), __VA_ARGS__ }, TSR_HERE)
#define TSR_ASSOCIATIVE_SCAN_(combine, user, x_, ...) \
  tsr_associative_scan_at(                            \
      (combine), (user),                              \
      &(tsr_prefix_args){ .size = sizeof(tsr_prefix_args), .x = (x_), __VA_ARGS__ }, TSR_HERE)
#define tsr_associative_scan(...) \
  TSR_NEEDS_3_("tsr_associative_scan(combine, user, x)", TSR_ASSOCIATIVE_SCAN_, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
