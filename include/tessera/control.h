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
 * A loop is one node, however many steps it has, and runs inside one program on all devices. Loops
 * and choices may be called on arrays, and on arguments in the body of a function or of another
 * loop. Carries and operands are arrays or trees. A carry keeps its dtype, shape and sharding: the
 * sharding that it begins with, or, if it begins unplaced, the sharding that the first step gives
 * it. Pass other operands of the body as `.with`. An array from outside that the body uses becomes
 * an operand, with its value at the time of the trace; if it is not evaluated, each step computes
 * it again. */
#ifndef TESSERA_CONTROL_H
#define TESSERA_CONTROL_H

#include "function.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_loop_args {
  size_t size;
  tsr_array *carry TSR_REST_BY_NAME;
  tsr_array *xs;   /* arrays or a tree, sliced along dim 0, one slice a step; NULL: the body gets
                    * the step's number */
  tsr_array *with; /* an operand that is the same in all steps; NULL: nothing */
  int64_t length;  /* number of steps; may be left out where xs gives it */
  bool reverse;    /* runs the last step first; stacked results keep the order of xs */
} tsr_loop_args;

/* Runs a body along the first dim of arrays: body(in[0] = carry, in[1] = slice of xs, in[2] = with)
 * returns a pair, tsr_tuple(s, carry, y). Returns the pair of the last carry and the stacked
 * results: the y of all steps along a new first dim. Errors: TSR_EARG, TSR_ESHAPE and TSR_EDTYPE (a
 * carry whose type changes; the message names it), and those of the body. Owned as results are.
 * Local. */
TSR_API tsr_array *tsr_scan_at(tsr_body_fn *body, void *user, const tsr_loop_args *args,
                               const char *site);

typedef struct tsr_fori_args {
  size_t size;
  int64_t lower, upper; /* numbers lower .. upper - 1; no step where upper is not larger */
  tsr_array *carry TSR_REST_BY_NAME;
  tsr_array *with;
} tsr_fori_args;

/* Runs a body for each number in turn: body(in[0] = number, i64[], in[1] = carry, in[2] = with)
 * returns the next carry. Returns the last carry. Errors as tsr_scan. Owned as results are.
 * Local. */
TSR_API tsr_array *tsr_fori_at(tsr_body_fn *body, void *user, const tsr_fori_args *args,
                               const char *site);

typedef struct tsr_while_args {
  size_t size;
  tsr_array *carry TSR_REST_BY_NAME;
  tsr_array *with;
} tsr_while_args;

/* Runs a body while a condition holds: goes_on(in[0] = carry, in[1] = with) returns a bool[] and
 * runs before each step; body(in[0] = carry, in[1] = with) returns the next carry. Returns the last
 * carry. tsr_jvp supports it; a gradient needs a loop of fixed length. Errors as tsr_scan. Owned as
 * results are. Local. */
TSR_API tsr_array *tsr_while_at(tsr_body_fn *goes_on, tsr_body_fn *body, void *user,
                                const tsr_while_args *args, const char *site);

enum { TSR_MAX_BRANCHES = 32 };

typedef struct tsr_switch_args {
  size_t size TSR_REST_BY_NAME;
  tsr_body_fn *bodies[TSR_MAX_BRANCHES]; /* up to the first NULL */
  tsr_array *in[TSR_MAX_ARGS];           /* operands of the bodies, up to the first NULL */
} tsr_switch_args;

/* Runs the body whose number a rank-0 integer gives at run time: a negative number means the first,
 * one too large the last. All bodies return the same types. Returns the result of that body.
 * Errors: TSR_EARG, TSR_ESHAPE, TSR_EDTYPE and those of the bodies. Owned as results are. Local. */
TSR_API tsr_array *tsr_switch_at(tsr_array *index, void *user, const tsr_switch_args *args,
                                 const char *site);
/* Runs one of two bodies as tsr_switch does, chosen by a bool[] at run time: .bodies = { body if
 * true, body if false }. Local. */
TSR_API tsr_array *tsr_cond_at(tsr_array *predicate, void *user, const tsr_switch_args *args,
                               const char *site);

typedef struct tsr_prefix_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  int dim;      /* the dim of the scan in each array; negative: from the end */
  bool reverse; /* from the last element on */
} tsr_prefix_args;

/* Returns all prefixes of the elements of an array, or of a tree of arrays of one length, under an
 * associative operation: element k of the result combines elements 0 to k, in a logarithmic number
 * of steps. combine(in[0] = earlier elements, in[1] = later elements) gets arrays or trees of many
 * elements (the size along the dim varies) and returns the combination of each pair, of the same
 * types. `combine` is called about twice per halving of the number of elements. That number alone
 * decides the order of combination, so operations that round give the same bits on every mesh.
 * Errors: TSR_EARG, TSR_ESHAPE, TSR_EDTYPE and those of the callback. Owned as results are.
 * Local. */
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
