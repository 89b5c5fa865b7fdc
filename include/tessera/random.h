/* Random draws by keys. What is drawn for an element is a function of the key, the stream and where
 * the element stands (Philox4x32-10, Salmon et al. 2011; docs/NUMERICS.md), so the same numbers
 * come on any mesh and nothing is kept between calls.
 *
 * A key is a number, `.key = 7`, or an array of u64, `.keys = k`: a scalar or a batch, traced,
 * sharded and kept as other data is. The number 7 and a scalar of 7 draw the same. */
#ifndef TESSERA_RANDOM_H
#define TESSERA_RANDOM_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- keys ------------------------------------------------------------------------------ */

/* Makes a key, a scalar of u64, of a seed, which is its value. Returns it owned by the scope.
 * Local. */
TSR_API tsr_array *tsr_random_key_at(tsr_scope *scope, uint64_t seed, const char *site);

/* `count` new keys of each one, which tell nothing of each other: the shape of `keys`, then
 * [count]. More of them begin with the same ones. Errors: TSR_EDTYPE for keys that are not u64,
 * TSR_EARG for a negative count, TSR_ESHAPE for too many dims. Returns an array owned as results
 * are. Local. */
TSR_API tsr_array *tsr_random_split_at(tsr_array *keys, int64_t count, const char *site);

/* New keys of keys and integers, an array or a number, which broadcast: others for other integers,
 * and none that tsr_random_split makes. Errors: TSR_EDTYPE, TSR_ESHAPE. Returns an array owned as
 * results are. Local. */
TSR_API tsr_array *tsr_random_fold_in_at(tsr_array *keys, tsr_operand data, const char *site);

/* ---- draws ----------------------------------------------------------------------------- */

/* What draws need beside their distribution. */
typedef struct tsr_random_args {
  size_t size TSR_REST_BY_NAME;
  uint64_t key;     /* the key as a number; 0 is one where it is named, or `keyed` is true */
  uint64_t stream;  /* below 2^32: different streams of one key are independent */
  tsr_dtype dtype;  /* of the result; 0 = f64, of what counts i64 */
  tsr_shape shape;  /* of the draw of one key */
  tsr_sharding on;  /* where the result lies: tsr_on(mesh, "x,y"); zero = as it comes */
  tsr_array *keys;  /* in the place of `key`, u64: a draw of `shape` for each, in dims behind
                      those of `keys` */
  double low, high; /* of tsr_uniform alone: low <= x < high; both 0: 0 and 1 */
  bool keyed;       /* `key` is given though it is 0: the macros see .key where it stands */
} tsr_random_args;

/* A draw has a key: without one it is TSR_EARG, since all draws would be the same one.
 *
 * Of all that follow: TSR_EARG for a stream that is too large or both `key` and `keys`, TSR_EDTYPE
 * for a dtype that cannot hold the draws or keys that are not u64, TSR_ESHAPE and TSR_EAXIS as of
 * tsr_put. Results are owned by the scope. */

/* Draws random bits: u64, or as .dtype says the low ones as another integer. Local. */
TSR_API tsr_array *tsr_random_bits_at(tsr_scope *scope, const tsr_random_args *args,
                                      const char *site);

/* Draws uniform numbers in [0, 1): multiples of 2^-53 (f64), 2^-24 (f32), 2^-11 (f16), 2^-8
 * (bf16); or with .low and .high in their range, which rounding never leaves: TSR_EARG unless, in
 * the dtype, low < high and their distance is finite. Local. */
TSR_API tsr_array *tsr_uniform_at(tsr_scope *scope, const tsr_random_args *args, const char *site);

/* Draws integers low <= i < high, each as likely as another up to 2^-64 of their number. TSR_EARG
 * where there are none, or the dtype has not all of them. Local. */
TSR_API tsr_array *tsr_randint_at(tsr_scope *scope, int64_t low, int64_t high,
                                  const tsr_random_args *args, const char *site);

/* Draws normal numbers of mean 0 and variance 1: sqrt(2) erfinv(x) of a uniform x between -1 and 1.
 * They end at 5.4 (f32 and narrower ones) or 8.3 (f64). Local. */
TSR_API tsr_array *tsr_normal_at(tsr_scope *scope, const tsr_random_args *args, const char *site);

/* Draws normal numbers of mean 0 and variance 1, given that they lie between `low` and `high`, by
 * inversion of one uniform draw each; ends may be infinite. TSR_EARG unless low < high, and for
 * ends between which less than a millionth of all normal numbers lie. Local. */
TSR_API tsr_array *tsr_truncated_normal_at(tsr_scope *scope, double low, double high,
                                           const tsr_random_args *args, const char *site);

/* Draws exponential numbers of mean `scale` > 0: -scale * log1p(-u), one uniform draw each. Error:
 * TSR_EARG. Local. */
TSR_API tsr_array *tsr_exponential_at(tsr_scope *scope, double scale, const tsr_random_args *args,
                                      const char *site);

/* What follows is drawn by a number or by an array of one for each draw, which broadcasts to the
 * result; where there is neither `.shape` nor `.keys`, draws have its shape. Errors: TSR_EARG for a
 * number that cannot be, TSR_ESHAPE for an array that does not fit. */

/* Draws Poisson numbers of mean 0 <= `rate` <= 10,000 by inversion of one uniform draw each. By an
 * array, rates below 10 are inverted, others are drawn by rejection (Hoermann 1993), of 17
 * candidates, of which none will do less than once in 10^10 draws; those that are not 0 or more
 * give 0. Local. */
TSR_API tsr_array *tsr_poisson_at(tsr_scope *scope, tsr_operand rate, const tsr_random_args *args,
                                  const char *site);

/* Draws gamma numbers of shape `a`, 0 < a < 1e300, and scale 1 (Marsaglia and Tsang 2000), from
 * eight candidates each, of which none will do less than once in 10^10 draws: then it is a - 1/3.
 * Elements of an array that are not positive give NaN, the others what their number gives.
 * Local. */
TSR_API tsr_array *tsr_gamma_at(tsr_scope *scope, tsr_operand a, const tsr_random_args *args,
                                const char *site);

/* Draws bools that are true with probability 0 <= `p` <= 1; elements of an array that are not in
 * this range are taken as its next end, NaN as 0. Local. */
TSR_API tsr_array *tsr_bernoulli_at(tsr_scope *scope, tsr_operand p, const tsr_random_args *args,
                                    const char *site);

/* ---- draws of places ------------------------------------------------------------------- */

/* Draws for each line of `logits` (floats) along `dim` a place of it, i64, with probabilities in
 * proportion to exp(logit): those of `.shape`, if it has dims, and of `.keys` come in front of the
 * others. Errors: TSR_EDTYPE, TSR_EARG for a dim that is not there.
 * Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_categorical_at(tsr_array *logits, int dim, const tsr_random_args *args,
                                      const char *site);

/* Draws an order of 0 .. count - 1, i64, all of them as likely; `.shape` is of no account. Error:
 * TSR_EARG for a negative count. Local. */
TSR_API tsr_array *tsr_permutation_at(tsr_scope *scope, int64_t count, const tsr_random_args *args,
                                      const char *site);

/* The slices of `a` along `dim` in an order that tsr_permutation draws with one key. Errors:
 * TSR_EARG, TSR_ESHAPE for several keys. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_shuffle_at(tsr_array *a, int dim, const tsr_random_args *args,
                                  const char *site);

/* Of tsr_choice. */
typedef struct tsr_choice_args {
  size_t size;
  tsr_array *x;
  int64_t count TSR_REST_BY_NAME; /* how many slices of x along dim 0, for each key */
  bool replace;                   /* one may come several times */
  tsr_array *weights;             /* one number, 0 or more, for each slice; NULL: all as likely */
  tsr_random_args by;             /* the key or keys, the stream, and where the result lies */
  bool keyed;                     /* as in tsr_random_args */
} tsr_choice_args;

/* `count` of the slices of x along dim 0, by chance: tsr_choice(x, 5, .by = { .key = 7 }). Without
 * .replace, each is chosen among those left, with probabilities in proportion to the weights; of
 * weight 0 come last. Errors: TSR_EARG for more than there are, TSR_ESHAPE for weights that are not
 * as many; with .replace, weights that are all 0 fail what evaluates it, TSR_EVALUE. Returns an
 * array owned as results are. Local. */
TSR_API tsr_array *tsr_choice_at(const tsr_choice_args *args, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* The arguments' text first. */
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
