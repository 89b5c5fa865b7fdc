/* Distributions that are made of words of bits (random_room.h) by more than one formula.
 *
 * Each element has words of its own by its place in the whole array, and word k of it is the same
 * whatever other words are asked for. So nothing here may draw until something passes: candidates
 * are made all at once, from words of their own, and the first that passes is chosen. */
#include "array/random_room.h"
#include "tessera/elementwise.h"
#include "tessera/indexing.h"
#include "tessera/operations.h"
#include "tessera/sorting.h"

#include <math.h>

static tsr_array *times(tsr_array *a, double b, const char *site)
{
  return tsr_mul_at(a, tsr_operand_float(b), site);
}

static tsr_array *plus(tsr_array *a, double b, const char *site)
{
  return tsr_add_at(a, tsr_operand_float(b), site);
}

static tsr_array *between(tsr_array *a, double low, double high, const char *site)
{
  return tsr_minimum_at(tsr_maximum_at(a, tsr_operand_float(low), site), tsr_operand_float(high),
                        site);
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* The cumulative probabilities of a Poisson distribution, up to where they round to 1. The weights
 * go out from the mode by ratios, so only IEEE's basic operations are used and the table has the
 * same bits everywhere. Returns the number of entries, at most `capacity`. The weights are taken
 * twice: first to their total, from the mode outwards, then in order from the left, as a cumulative
 * sum must be made.
 *
 *   low ... mode ... high       weight(k + 1) = weight(k) rate / (k + 1) */
static int poisson_table(double rate, double *table, int capacity)
{
  /* Weights relative to that of the mode: exp(-rate) would be 0 from 745 on. 2^-80 of the largest
   * is beyond what rounding to f64 leaves of a sum. */
  int mode = (int)rate, low = mode, count = 0;
  double weight = 1, total = 1;
  for (; low > 0 && weight > 0x1p-80; low--) total += weight *= low / rate;
  weight = 1;
  int high = mode;
  for (; high < capacity - 1 && weight > 0x1p-80; high++) total += weight *= rate / (high + 1);
  /* Once more from the left, in the order of the table: sums of ascending terms, from what weighs
   * least. */
  weight = 1;
  for (int k = mode; k > low; k--) weight *= k / rate;
  double sum = 0;
  for (int k = 0; k <= high; k++) {
    if (k > low) weight *= rate / k;
    if (k >= low) sum += weight;
    double p = sum / total;
    if (p >= 1) break;
    table[count++] = p;
  }
  return count;
}

/* The table as an array that is whole wherever the draws are. */
static tsr_array *poisson_array(const tsr__draws *d, double rate)
{
  /* Rates go up to 10,000, whose probabilities reach 1 some thousand entries later. */
  enum { CAPACITY = 16384 };
  tsr__heap *heap = &d->scope->rt->heap;
  double *table = tsr__new(heap, CAPACITY * sizeof(double));
  if (!table) {
    tsr__fail(d->scope, d->site, TSR_ENOMEM, "%s: no memory for the table of probabilities",
              d->what);
    return tsr__draws_inert(d);
  }
  tsr_shape shape = TSR_SHAPE(rate > 0 ? poisson_table(rate, table, CAPACITY) : 0);
  tsr_sharding whole = { .mesh = d->args.on.mesh };
  tsr_array *out = tsr_put_at(d->scope, table, TSR_F64, shape, whole, d->site);
  tsr__del(heap, table, CAPACITY * sizeof(double));
  return out;
}

/* Of rates below 10 by inversion: how many of the cumulative probabilities are not above u. That
 * of 48 is 1 in f64. */
static tsr_array *poisson_of_few(const tsr__draws *d)
{
  enum { MOST = 48 };
  const char *site = d->site;
  tsr_array *u = tsr__draws_word(d, 0, TSR_F64), *p = tsr_exp_at(tsr_neg_at(d->by, site), site);
  tsr_array *below = p, *out = tsr__strong_number(d->scope, tsr_scalar_float(0), site);
  for (int k = 1; k <= MOST; k++) {
    tsr_array *reached = tsr_le_at(below, tsr__of(u), site);
    out = tsr_where_at(reached, tsr_operand_float(k), tsr__of(out), site);
    p = tsr_mul_at(p, tsr__of(times(d->by, 1.0 / k, site)), site);
    below = tsr_add_at(below, tsr__of(p), site);
  }
  return out;
}

/* The hat of W. Hoermann's transformed rejection (PTRS, 1993) for rates of 10 and more. */
typedef struct hat {
  tsr_array *a, *b, *scale; /* scale: the inverse of alpha */
} hat;

static hat hat_of(tsr_array *rate, const char *site)
{
  hat h = { .b = plus(times(tsr_sqrt_at(rate, site), 2.53, site), 0.931, site) };
  h.a = plus(times(h.b, 0.02483, site), -0.059, site);
  h.scale = tsr_reciprocal_at(plus(h.b, -3.4, site), site);
  h.scale = plus(times(h.scale, 1.1328, site), 1.1239, site);
  return h;
}

/* Of rates from 10 on the first candidate that passes, each of draws 2 k + 1 and 2 k + 2. A quarter
 * fails at 10, fewer beyond. Later ones are written first. */
static tsr_array *poisson_of_many(const tsr__draws *d)
{
  /* A quarter of the candidates to the 17th is 6 in 10^11: the mode's neighbour stands for
   * these. */
  enum { CANDIDATES = 17 };
  const char *site = d->site;
  tsr_array *rate = d->by, *log_rate = tsr_log_at(rate, site);
  hat h = hat_of(rate, site);
  tsr_array *start = plus(rate, 0.43, site), *out = tsr_floor_at(start, site);
  /* Counters are fixed: candidate c has the same words whether or not earlier ones passed, so that
   * draws do not depend on each other. */
  for (uint64_t c = CANDIDATES; c-- > 0;) {
    tsr_array *u = plus(tsr__draws_word(d, 2 * c + 1, TSR_F64), -0.5, site);
    tsr_array *v = tsr__draws_word(d, 2 * c + 2, TSR_F64);
    tsr_array *rim = plus(tsr_neg_at(tsr_abs_at(u, site), site), 0.5, site);
    tsr_array *slope =
        tsr_div_at(h.a, tsr__of(rim), site); /* without end at the rim: k is below 0 */
    tsr_array *k =
        tsr_mul_at(tsr_add_at(times(slope, 2, site), tsr__of(h.b), site), tsr__of(u), site);
    k = tsr_floor_at(tsr_add_at(k, tsr__of(start), site), site);
    tsr_array *below = tsr_add_at(tsr_div_at(slope, tsr__of(rim), site), tsr__of(h.b), site);
    v = tsr_log_at(tsr_div_at(tsr_mul_at(v, tsr__of(h.scale), site), tsr__of(below), site), site);
    tsr_array *most = tsr_sub_at(tsr_mul_at(k, tsr__of(log_rate), site), tsr__of(rate), site);
    most = tsr_sub_at(most, tsr__of(tsr_lgamma_at(plus(k, 1, site), site)), site);
    tsr_array *passes = tsr_and_at(tsr_ge_at(k, tsr_operand_int(0), site),
                                   tsr__of(tsr_le_at(v, tsr__of(most), site)), site);
    out = tsr_where_at(passes, tsr__of(k), tsr__of(out), site);
  }
  return out;
}

/* No table serves every rate of an array. */
static tsr_array *poisson_by(const tsr__draws *d)
{
  tsr_array *few = tsr_lt_at(d->by, tsr_operand_int(10), d->site);
  tsr_array *out =
      tsr_where_at(few, tsr__of(poisson_of_few(d)), tsr__of(poisson_of_many(d)), d->site);
  /* Negative rates and NaN, which a number would have been refused for, give 0. */
  tsr_array *can = tsr_ge_at(d->by, tsr_operand_int(0), d->site);
  out = tsr_where_at(can, tsr__of(out), tsr_operand_int(0), d->site);
  return tsr_cast_at(out, d->args.dtype, d->site);
}

tsr_array *tsr_poisson_at(tsr_scope *scope, tsr_operand rate, const tsr_random_args *args,
                          const char *site)
{
  TSR__CALL(scope, "poisson");
  tsr__draws d = TSR__DRAWS(poisson, TSR_I64);
  if (!tsr__draws_take_of(&d, args, rate)) return tsr__draws_inert(&d);
  if (d.by) return tsr__draws_placed(&d, poisson_by(&d));
  if (!(d.number >= 0 && d.number <= 10000))
    return tsr__draws_refuse(&d, "the rate is %s, expected 0..10,000", d.number);
  /* Inversion: how many of the cumulative probabilities are not above u. */
  tsr_array *u = tsr__draws_word(&d, 0, TSR_F64);
  tsr_array *below = tsr__make(NULL, TSR__OP_SEARCH, TSR__IN(poisson_array(&d, d.number), u),
                               &(tsr__ask){ .dtype = TSR_I64 }, site);
  return tsr__draws_placed(&d, tsr_cast_at(below, d.args.dtype, site));
}

tsr_array *tsr_randint_at(tsr_scope *scope, int64_t low, int64_t high, const tsr_random_args *args,
                          const char *site)
{
  tsr__draws d = TSR__DRAWS(randint, TSR_I64);
  tsr__error error = { .status = TSR_OK };
  if (!tsr__draws_take(&d, args)) return tsr__draws_inert(&d);
  if (low >= high)
    tsr__error_set(&error, TSR_EARG, "low is %lld and high is %lld, expected low below high",
                   (long long)low, (long long)high);
  else if (!tsr__dtype_holds(d.args.dtype, low) || !tsr__dtype_holds(d.args.dtype, high - 1))
    tsr__error_set(&error, TSR_EARG, "%lld to %lld do not all fit %s; ask for a wider dtype",
                   (long long)low, (long long)high - 1, tsr_dtype_name(d.args.dtype));
  if (error.status) return tsr__draws_fail(&d, &error);
  tsr_array *bits = tsr__draws_word(&d, 0, TSR_U64);
  /* The bias of a remainder is at most span / 2^64. */
  bits = tsr_mod_at(bits, tsr_operand_uint((uint64_t)high - (uint64_t)low), site);
  /* Modulo 2^64, as the difference was taken: right for ranges from INT64_MIN to INT64_MAX, too. */
  tsr_array *start = tsr__make_const(scope, TSR_U64, (tsr__num){ .i = low }, site);
  bits = tsr_add_at(bits, tsr__of(start), site);
  return tsr__draws_placed(&d, tsr_cast_at(bits, d.args.dtype, site));
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* erf of an end over sqrt 2: how much more of all normal numbers lie below it than above. */
static tsr_array *share_below(const tsr__draws *d, double end)
{
  tsr_scalar scaled = tsr_scalar_float(end * 0x1.6a09e667f3bcdp-1);
  return tsr_erf_at(tsr__strong_number(d->scope, scaled, d->site), d->site);
}

/* What erfinv takes to sqrt(1/2) of the draw: uniform between the shares, and never 1 or -1. */
static tsr_array *share(const tsr__draws *d, double low, double high)
{
  const char *site = d->site;
  tsr_array *from = share_below(d, low), *to = share_below(d, high);
  tsr_array *half = times(tsr_sub_at(to, tsr__of(from), site), 0.5, site);
  tsr_array *middle = times(tsr_add_at(to, tsr__of(from), site), 0.5, site);
  tsr_array *x = tsr_mul_at(tsr__draws_between(d, 0, TSR_F64), tsr__of(half), site);
  return between(tsr_add_at(x, tsr__of(middle), site), -1 + 0x1p-53, 1 - 0x1p-53, site);
}

tsr_array *tsr_truncated_normal_at(tsr_scope *scope, double low, double high,
                                   const tsr_random_args *args, const char *site)
{
  tsr__draws d = TSR__DRAWS(truncated_normal, TSR_F64);
  if (!tsr__draws_take(&d, args)) return tsr__draws_inert(&d);
  if (!(low < high))
    return tsr__draws_refuse(&d, "the range is %s long; give a low end below the high end",
                             high - low);
  /* The host's erf judges only whether the range can be drawn from at all, no number comes of
   * it. */
  double held = erf(high * M_SQRT1_2) / 2 - erf(low * M_SQRT1_2) / 2;
  if (held < 1e-6)
    return tsr__draws_refuse(
        &d, "the range holds a share of %s of all normal numbers, expected 1e-6 or more", held);
  tsr_array *x = tsr_erfinv_at(share(&d, low, high), site);
  x = between(times(x, 0x1.6a09e667f3bcdp+0, site), low, high, site);
  return tsr__draws_placed(&d, tsr_cast_at(x, d.args.dtype, site));
}

/* Of candidates v = (1 + c x)^3 for normal x the first is taken for which log u < x^2 / 2 + shift
 * (1 - v + log v). Later ones are written first. G. Marsaglia and W. W. Tsang, 2000. */
static tsr_array *gamma_above_one(const tsr__draws *d, tsr_array *a)
{
  /* Nineteen of twenty pass; all eight fail in 4 of 10^11 draws, which are 1 then. */
  enum { CANDIDATES = 8 };
  const char *site = d->site;
  tsr_array *shift = plus(a, -1 / 3.0, site);
  tsr_array *c = tsr_reciprocal_at(tsr_sqrt_at(times(shift, 9, site), site), site);
  tsr_array *out = tsr__strong_number(d->scope, tsr_scalar_float(1), site);
  for (uint64_t k = CANDIDATES; k-- > 0;) {
    tsr_array *x = tsr__draws_normal(d, 2 * k + 1, TSR_F64),
              *log_u = tsr__draws_log(d, 2 * k + 2, TSR_F64);
    tsr_array *root = plus(tsr_mul_at(x, tsr__of(c), site), 1, site);
    tsr_array *v = tsr_mul_at(tsr_mul_at(root, tsr__of(root), site), tsr__of(root), site);
    /* Of negative v the logarithm is NaN, and the comparison false: it does not pass. */
    tsr_array *most = plus(tsr_sub_at(tsr_log_at(v, site), tsr__of(v), site), 1, site);
    tsr_array *square = times(tsr_mul_at(x, tsr__of(x), site), 0.5, site);
    most = tsr_add_at(square, tsr__of(tsr_mul_at(most, tsr__of(shift), site)), site);
    out = tsr_where_at(tsr_lt_at(log_u, tsr__of(most), site), tsr__of(v), tsr__of(out), site);
  }
  return tsr_mul_at(out, tsr__of(shift), site);
}

/* Below 1 what is drawn of one more, times u^(1/a). (u^(1/a) as exp(log(u) / a): a small one would
 * be 0 before it meets the rest.) */
static tsr_array *gamma_by(const tsr__draws *d)
{
  const char *site = d->site;
  tsr_array *a = d->by, *below = tsr_lt_at(a, tsr_operand_int(1), site);
  tsr_array *out =
      gamma_above_one(d, tsr_where_at(below, tsr__of(plus(a, 1, site)), tsr__of(a), site));
  tsr_array *power =
      tsr_mul_at(tsr__draws_log(d, 0, TSR_F64), tsr__of(tsr_reciprocal_at(a, site)), site);
  power = tsr_where_at(below, tsr__of(tsr_exp_at(power, site)), tsr_operand_int(1), site);
  out = tsr_mul_at(out, tsr__of(power), site);
  tsr_array *can = tsr_gt_at(a, tsr_operand_int(0), site);
  return tsr_where_at(can, tsr__of(out), tsr_operand_float(NAN), site);
}

tsr_array *tsr_gamma_at(tsr_scope *scope, tsr_operand a, const tsr_random_args *args,
                        const char *site)
{
  TSR__CALL(scope, "gamma");
  tsr__draws d = TSR__DRAWS(gamma, TSR_F64);
  if (!tsr__draws_take_of(&d, args, a)) return tsr__draws_inert(&d);
  if (!d.by && !(d.number > 0 && d.number < 1e300))
    return tsr__draws_refuse(&d,
                             "the shape parameter is %s, expected a positive number below 1e300",
                             d.number);
  bool above = !d.by && d.number >= 1;
  /* A number of 1 and more needs no draw of u, and below 1 both ways are the array's. */
  if (!d.by) d.by = tsr__strong_number(scope, tsr_scalar_float(d.number), site);
  tsr_array *out = above ? gamma_above_one(&d, d.by) : gamma_by(&d);
  return tsr__draws_placed(&d, tsr_cast_at(out, d.args.dtype, site));
}

tsr_array *tsr_bernoulli_at(tsr_scope *scope, tsr_operand p, const tsr_random_args *args,
                            const char *site)
{
  TSR__CALL(scope, "bernoulli");
  tsr__draws d = TSR__DRAWS(bernoulli, TSR_BOOL);
  if (!tsr__draws_take_of(&d, args, p)) return tsr__draws_inert(&d);
  if (!d.by && !(d.number >= 0 && d.number <= 1))
    return tsr__draws_refuse(&d, "the probability is %s, expected 0..1", d.number);
  tsr_array *out = tsr_lt_at(tsr__draws_word(&d, 0, TSR_F64), tsr__draws_of(&d), site);
  return tsr__draws_placed(&d, out);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* An exponential draw, which is not 0. -log(1 - u) is 0 where u is, one draw of 2^53; its logarithm
 * must be finite. */
static tsr_array *waiting(const tsr__draws *d)
{
  tsr_array *late = tsr_neg_at(tsr__draws_log(d, 0, TSR_F64), d->site);
  return tsr_maximum_at(late, tsr_operand_float(0x1p-54), d->site);
}

/* The place of the largest logit - log(exponential draw): Gumbel's trick. */
tsr_array *tsr_categorical_at(tsr_array *logits, int dim, const tsr_random_args *args,
                              const char *site)
{
  tsr_scope *scope = tsr__home(logits);
  tsr__draws d = TSR__DRAWS(categorical, TSR_I64);
  tsr__error error = { .status = TSR_OK };
  if (!logits) tsr__fail_null(d.what, "array of logits", site);
  if (!tsr__usable(logits)) return tsr__draws_inert(&d);
  if (!tsr__dtype_is_real((tsr_dtype)logits->dtype))
    tsr__error_set(&error, TSR_EDTYPE, "%s: logits are %s, expected floats; cast them first",
                   d.what, tsr_type_of(logits));
  if (error.status || tsr__find_dim(logits, &dim, d.what, &error))
    return tsr__refused(logits, &error, site);
  d.behind = &logits->shape;
  d.anywhere = true;
  if (!tsr__draws_take(&d, args)) return tsr__draws_inert(&d);
  tsr_array *score = tsr_sub_at(logits, tsr__of(tsr_log_at(waiting(&d), site)), site);
  if (score->inert) return score;
  /* Dims of keys stand in front of those of the logits. */
  dim += score->shape.rank - logits->shape.rank;
  tsr_reduce_args best = { .size = sizeof best, .x = score, .dims = tsr_dims_of(&dim, 1) };
  return tsr__draws_placed(&d, tsr_cast_at(tsr_argmax_at(&best, site), d.args.dtype, site));
}

/* The places along its last dim that put x in order. */
static tsr_array *order_of(tsr_array *x, const char *site)
{
  return tsr_argsort_at(&(tsr_sort_args){ .size = sizeof(tsr_sort_args), .x = x, .dim = -1 }, site);
}

tsr_array *tsr_permutation_at(tsr_scope *scope, int64_t count, const tsr_random_args *args,
                              const char *site)
{
  tsr__draws d = TSR__DRAWS(permutation, TSR_I64);
  d.behind = &TSR_SHAPE(count);
  if (!tsr__draws_take(&d, args)) return tsr__draws_inert(&d);
  /* Who sorts 64 random bits has a random order: that two are equal among n is a chance of n^2 /
   * 2^65. */
  tsr_array *order = order_of(tsr__draws_word(&d, 0, TSR_U64), site);
  return tsr__draws_placed(&d, tsr_cast_at(order, d.args.dtype, site));
}

static tsr_array *slices(tsr_array *x, tsr_array *places, int dim, const char *site)
{
  return tsr_take_at(
      &(tsr_take_args){ .size = sizeof(tsr_take_args), .x = x, .indices = places, .dim = dim },
      site);
}

tsr_array *tsr_shuffle_at(tsr_array *a, int dim, const tsr_random_args *args, const char *site)
{
  tsr_scope *scope = tsr__home(a);
  tsr__draws d = TSR__DRAWS(shuffle, TSR_I64);
  tsr__error error = { .status = TSR_OK };
  if (!a) tsr__fail_null(d.what, "array", site);
  if (!tsr__usable(a)) return tsr__draws_inert(&d);
  if (tsr__find_dim(a, &dim, d.what, &error)) return tsr__refused(a, &error, site);
  d.behind = &TSR_SHAPE(a->shape.dims[dim]);
  d.anywhere = true;
  if (!tsr__draws_take(&d, args)) return tsr__draws_inert(&d);
  /* One order for all slices: rows stay whole. */
  tsr_array *bits = tsr__draws_word(&d, 0, TSR_U64);
  if (bits->inert || bits->shape.rank == 1)
    return tsr__draws_placed(&d, slices(a, order_of(bits, site), dim, site));
  tsr__error_set(&error, TSR_ESHAPE,
                 "%s: the keys give orders of shape %s, expected a single order; give one key",
                 d.what, tsr_type_of(bits));
  return tsr__refused(a, &error, site);
}

/* What is wrong with what is chosen from. */
static tsr_status check_choice(const char *what, const tsr_choice_args *args, tsr__error *error)
{
  const tsr_array *x = args->x, *w = args->weights;
  int64_t size = x->shape.rank ? x->shape.dims[0] : -1;
  if (size < 0)
    return tsr__error_set(error, TSR_ESHAPE, "%s: %s has no dim 0 of a known size", what,
                          tsr_type_of(args->x));
  if (args->count < 0 || (args->replace ? !size && args->count : args->count > size))
    return tsr__error_set(error, TSR_EARG, "%s: %lld draws from %lld slices %s", what,
                          (long long)args->count, (long long)size,
                          args->count < 0 ? "are impossible; give a count of 0 or more"
                          : args->replace ? "are impossible; give an array with slices"
                                          : "without replacement; draw fewer, or set .replace");
  if (w && (w->shape.rank != 1 || w->shape.dims[0] != size))
    return tsr__error_set(error, TSR_ESHAPE, "%s: .weights are %s, expected %lld numbers", what,
                          tsr_type_of(args->weights), (long long)size);
  return TSR_OK;
}

/* Each slice by a draw of its own. */
static tsr_array *with_replacement(const tsr__draws *d, tsr_array *weights, int64_t size)
{
  const char *site = d->site;
  /* A bias of at most size / 2^64, as in tsr_randint. */
  if (!weights)
    return tsr_mod_at(tsr__draws_word(d, 0, TSR_U64), tsr_operand_uint((uint64_t)size), site);
  tsr_scan_args all = { .size = sizeof all, .x = weights };
  tsr_array *sums = tsr_cumsum_at(&all, site);
  tsr_array *total = tsr__part(sums, 0, TSR_RANGE(-1, TSR_END), site);
  tsr_array *x = tsr_mul_at(tsr__draws_word(d, 0, TSR_F64), tsr__of(total), site);
  /* Places of weight 0 add nothing to the sums, and are never the first one above x. u < 1 keeps x
   * below the total in any rounding. */
  return tsr__make(NULL, TSR__OP_SEARCH, TSR__IN(sums, x), &(tsr__ask){ 0 }, site);
}

/* In the order in which they are met: by weights as who waits least. */
static tsr_array *without_replacement(const tsr__draws *d, tsr_array *weights, int64_t count)
{
  /* Waiting times of rate w: who waits least is who would be drawn first, then second ...
   * (Efraimidis and Spirakis). Weight 0 waits for ever and comes last. */
  tsr_array *when =
      weights ? tsr_div_at(waiting(d), tsr__of(weights), d->site) : tsr__draws_word(d, 0, TSR_U64);
  tsr_array *order = order_of(when, d->site);
  if (order->inert) return order;
  return tsr__part(order, order->shape.rank - 1, TSR_RANGE(0, count), d->site);
}

/* With replacement there is a draw for each place of the result, without for each of x. */
tsr_array *tsr_choice_at(const tsr_choice_args *given, const char *site)
{
  tsr_choice_args args = { .size = sizeof args };
  tsr_array *x = given ? given->x : NULL;
  tsr_scope *scope = tsr__home(x);
  tsr__draws d = TSR__DRAWS(choice, TSR_I64);
  tsr__error error = { .status = TSR_OK };
  if (!x) tsr__fail_null(d.what, "array", site);
  if (!tsr__usable(x)) return tsr__draws_inert(&d);
  if (tsr__take_opts(d.what, given, &args, sizeof args, &error))
    return tsr__refused(x, &error, site);
  if (args.weights && !tsr__usable(args.weights)) return tsr__draws_inert(&d);
  if (check_choice(d.what, &args, &error)) return tsr__refused(x, &error, site);
  int64_t size = x->shape.dims[0];
  d.behind = &TSR_SHAPE(args.replace ? args.count : size);
  d.anywhere = true;
  args.by.keyed = args.by.keyed || args.keyed;
  if (!tsr__draws_take(&d, &args.by)) return tsr__draws_inert(&d);
  tsr_array *weights = args.weights ? tsr_cast_at(args.weights, TSR_F64, site) : NULL;
  tsr_array *places = args.replace ? with_replacement(&d, weights, size)
                                   : without_replacement(&d, weights, args.count);
  return tsr__draws_placed(&d, slices(x, places, 0, site));
}
