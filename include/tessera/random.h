/* Random draws by keys. An element's draw is a function of the key, the stream and the element's
 * index (Philox4x32-10, Salmon et al. 2011; docs/NUMERICS.md): any mesh gives the same numbers, and
 * calls keep no state.
 *
 * A key is a number, `.key = 7`, or an array of u64, `.keys = k`: a scalar or a batch, traced and
 * sharded as other data is. The number 7 and a scalar of 7 draw the same. */
#ifndef TESSERA_RANDOM_H
#define TESSERA_RANDOM_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- keys ------------------------------------------------------------------------------ */

/* Returns a key made from a seed: a scalar of u64 with the seed's value. Owned by the scope.
 * Local. */
TSR_API tsr_array *tsr_random_key_at(tsr_scope *scope, uint64_t seed, const char *site);

/* Returns `count` new, independent keys per key: of the shape of `keys`, then [count]. A larger
 * count begins with the same keys. Errors: TSR_EDTYPE for keys that are not u64, TSR_EARG for a
 * negative count, TSR_ESHAPE for too many dims. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_random_split_at(tsr_array *keys, int64_t count, const char *site);

/* Returns new keys made from keys and integers, an array or a number, which broadcast: different
 * integers give different keys, and none that tsr_random_split returns. Errors: TSR_EDTYPE,
 * TSR_ESHAPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_random_fold_in_at(tsr_array *keys, tsr_operand data, const char *site);

/* ---- draws ----------------------------------------------------------------------------- */

/* Arguments of draws beside their distribution. */
typedef struct tsr_random_args {
  size_t size TSR_REST_BY_NAME;
  uint64_t key;     /* the key as a number; 0 counts as given where it is named, or `keyed` is
                     * true */
  uint64_t stream;  /* below 2^32: different streams of one key are independent */
  tsr_dtype dtype;  /* of the result; 0 = f64, or i64 for draws of integers */
  tsr_shape shape;  /* of the draw per key */
  tsr_sharding on;  /* the result's sharding: tsr_on(mesh, "x,y"); zero = as the planner chooses */
  tsr_array *keys;  /* in place of `key`, u64: a draw of `shape` per key, in dims after those of
                     * `keys` */
  double low, high; /* only for tsr_uniform: low <= x < high; both 0: 0 and 1 */
  bool keyed;       /* `key` is given though it is 0; the macros set it where .key is named */
} tsr_random_args;

/* A draw needs a key: without one the call is TSR_EARG, since all its draws would be the same.
 *
 * Errors of all calls below: TSR_EARG for a stream that is too large or both `key` and `keys`,
 * TSR_EDTYPE for a dtype that cannot hold the draws or keys that are not u64, TSR_ESHAPE and
 * TSR_EAXIS as tsr_put. Results are owned by the scope. */

/* Returns random bits: u64, or with .dtype another integer made of the low bits. Local. */
TSR_API tsr_array *tsr_random_bits_at(tsr_scope *scope, const tsr_random_args *args,
                                      const char *site);

/* Returns uniform draws from [0, 1): multiples of 2^-53 (f64), 2^-24 (f32), 2^-11 (f16), 2^-8
 * (bf16); or with .low and .high from that range, which rounding never leaves. TSR_EARG unless, in
 * the dtype, low < high and their distance is finite. Local. */
TSR_API tsr_array *tsr_uniform_at(tsr_scope *scope, const tsr_random_args *args, const char *site);

/* Returns uniform draws of integers low <= i < high, to within 2^-64 of their number. TSR_EARG for
 * an empty range, or one that the dtype cannot hold. Local. */
TSR_API tsr_array *tsr_randint_at(tsr_scope *scope, int64_t low, int64_t high,
                                  const tsr_random_args *args, const char *site);

/* Returns normal draws of mean 0 and variance 1: sqrt(2) erfinv(x) of a uniform x between -1 and 1.
 * Draws end at 5.4 (f32 and narrower ones) or 8.3 (f64). Local. */
TSR_API tsr_array *tsr_normal_at(tsr_scope *scope, const tsr_random_args *args, const char *site);

/* Returns normal draws of mean 0 and variance 1 between `low` and `high`, by inversion of one
 * uniform draw each; ends may be infinite. TSR_EARG unless low < high, and for ends between which
 * less than a millionth of all normal draws fall. Local. */
TSR_API tsr_array *tsr_truncated_normal_at(tsr_scope *scope, double low, double high,
                                           const tsr_random_args *args, const char *site);

/* Returns exponential draws of mean `scale` > 0: -scale * log1p(-u), one uniform draw each. Error:
 * TSR_EARG. Local. */
TSR_API tsr_array *tsr_exponential_at(tsr_scope *scope, double scale, const tsr_random_args *args,
                                      const char *site);

/* The parameter of the draws below is a number, or an array that broadcasts to the result; without
 * `.shape` and `.keys`, the result has the array's shape. Errors: TSR_EARG for a number out of
 * range, TSR_ESHAPE for an array that does not broadcast. */

/* Returns Poisson draws of mean 0 <= `rate` <= 10,000 by inversion of one uniform draw each. With
 * an array, rates below 10 are inverted; larger ones are drawn by rejection (Hoermann 1993) from 17
 * candidates, all of which fail less than once in 10^10 draws; rates that are negative or NaN give
 * 0. Local. */
TSR_API tsr_array *tsr_poisson_at(tsr_scope *scope, tsr_operand rate, const tsr_random_args *args,
                                  const char *site);

/* Returns gamma draws of shape `a`, 0 < a < 1e300, and scale 1 (Marsaglia and Tsang 2000), from
 * eight candidates each; where all fail, less than once in 10^10 draws, the draw is a - 1/3.
 * Elements of an array that are not positive give NaN, the others the same as the number. Local. */
TSR_API tsr_array *tsr_gamma_at(tsr_scope *scope, tsr_operand a, const tsr_random_args *args,
                                const char *site);

/* Returns bools that are true with probability 0 <= `p` <= 1; elements of an array outside this
 * range are clipped to it, NaN counts as 0. Local. */
TSR_API tsr_array *tsr_bernoulli_at(tsr_scope *scope, tsr_operand p, const tsr_random_args *args,
                                    const char *site);

/* ---- draws of places ------------------------------------------------------------------- */

/* Returns, for each line of `logits` (floats) along `dim`, an index (i64) drawn with probabilities
 * in proportion to exp(logit). The dims of `.shape` and of `.keys`, if any, come before the other
 * dims. Errors: TSR_EDTYPE, TSR_EARG for a dim out of range. Returns an array owned as results are.
 * Local. */
TSR_API tsr_array *tsr_categorical_at(tsr_array *logits, int dim, const tsr_random_args *args,
                                      const char *site);

/* Returns a random permutation of 0 .. count - 1, i64, all equally likely; `.shape` is ignored.
 * Error: TSR_EARG for a negative count. Local. */
TSR_API tsr_array *tsr_permutation_at(tsr_scope *scope, int64_t count, const tsr_random_args *args,
                                      const char *site);

/* Returns the slices of `a` along `dim` in an order that tsr_permutation draws with one key.
 * Errors: TSR_EARG, TSR_ESHAPE for several keys. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_shuffle_at(tsr_array *a, int dim, const tsr_random_args *args,
                                  const char *site);

/* Arguments of tsr_choice. */
typedef struct tsr_choice_args {
  size_t size;
  tsr_array *x;
  int64_t count TSR_REST_BY_NAME; /* number of slices of x along dim 0, per key */
  bool replace;                   /* a slice may be drawn several times */
  tsr_array *weights;             /* one number, 0 or more, per slice; NULL: all equally likely */
  tsr_random_args by;             /* the key or keys, the stream, and the result's sharding */
  bool keyed;                     /* as in tsr_random_args */
} tsr_choice_args;

/* Returns `count` random slices of x along dim 0: tsr_choice(x, 5, .by = { .key = 7 }). Without
 * .replace, each is drawn from the remaining slices with probabilities in proportion to the
 * weights; slices of weight 0 come last. Errors: TSR_EARG for a count above the number of slices,
 * TSR_ESHAPE for a wrong number of weights; with .replace, weights that are all 0 fail the terminal
 * with TSR_EVALUE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_choice_at(const tsr_choice_args *args, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* The first argument is the text of the arguments. */
#define TSR_RANDOM_(text, ...) \
  (&(tsr_random_args){         \
      .keyed = tsr_argument_is_named(text, "key"), .size = sizeof(tsr_random_args), __VA_ARGS__ })
#define tsr_random_key(scope, seed) tsr_random_key_at((scope), (seed), TSR_HERE)
#define tsr_random_split(keys, count) tsr_random_split_at((keys), (count), TSR_HERE)
#define tsr_random_fold_in(keys, data) tsr_random_fold_in_at((keys), TSR_OPERAND(data), TSR_HERE)
#define tsr_random_bits(scope, ...) \
  tsr_random_bits_at((scope), TSR_RANDOM_(#__VA_ARGS__, __VA_ARGS__), TSR_HERE)
#define tsr_uniform(scope, ...) \
  tsr_uniform_at((scope), TSR_RANDOM_(#__VA_ARGS__, __VA_ARGS__), TSR_HERE)
#define tsr_normal(scope, ...) \
  tsr_normal_at((scope), TSR_RANDOM_(#__VA_ARGS__, __VA_ARGS__), TSR_HERE)
#define tsr_exponential(scope, scale, ...) \
  tsr_exponential_at((scope), (scale), TSR_RANDOM_(#__VA_ARGS__, __VA_ARGS__), TSR_HERE)
#define tsr_poisson(scope, rate, ...) \
  tsr_poisson_at((scope), TSR_OPERAND(rate), TSR_RANDOM_(#__VA_ARGS__, __VA_ARGS__), TSR_HERE)
#define tsr_randint(scope, low, high, ...) \
  tsr_randint_at((scope), (low), (high), TSR_RANDOM_(#__VA_ARGS__, __VA_ARGS__), TSR_HERE)
#define tsr_truncated_normal(scope, low, high, ...) \
  tsr_truncated_normal_at((scope), (low), (high), TSR_RANDOM_(#__VA_ARGS__, __VA_ARGS__), TSR_HERE)
#define tsr_gamma(scope, a, ...) \
  tsr_gamma_at((scope), TSR_OPERAND(a), TSR_RANDOM_(#__VA_ARGS__, __VA_ARGS__), TSR_HERE)
#define tsr_bernoulli(scope, p, ...) \
  tsr_bernoulli_at((scope), TSR_OPERAND(p), TSR_RANDOM_(#__VA_ARGS__, __VA_ARGS__), TSR_HERE)
#define tsr_categorical(logits, dim, ...) \
  tsr_categorical_at((logits), (dim), TSR_RANDOM_(#__VA_ARGS__, __VA_ARGS__), TSR_HERE)
#define tsr_permutation(scope, count, ...) \
  tsr_permutation_at((scope), (count), TSR_RANDOM_(#__VA_ARGS__, __VA_ARGS__), TSR_HERE)
#define tsr_shuffle(a, dim, ...) \
  tsr_shuffle_at((a), (dim), TSR_RANDOM_(#__VA_ARGS__, __VA_ARGS__), TSR_HERE)
#define TSR_CHOICE_(x_, count_, ...)                                        \
  (&(tsr_choice_args){ .keyed = tsr_argument_is_named(#__VA_ARGS__, "key"), \
                       .size = sizeof(tsr_choice_args),                     \
                       .x = (x_),                                           \
                       .count = (count_),                                   \
                       __VA_ARGS__ })
#define tsr_choice(...) \
  tsr_choice_at(TSR_NEEDS_2_("tsr_choice(x, count)", TSR_CHOICE_, __VA_ARGS__), TSR_HERE)
#endif

#endif
