/* Keys, words of bits, and the distributions that are formulas of a word: see random_room.h.
 *
 * Words of floats by a number are the node UNIFORM, which knows where it stands; all others are
 * RANDOM, whose indices are an operand. Both give the same bits. Keys come of keys by counters that
 * no draw has: their last word is 2^31.
 *
 * A word is a function of three numbers alone:
 *
 *   word      f(key, place, stream)        Philox: a pure function, so no draw hangs on another
 *   place     number of the element in C order within its draw
 *   stream    low half: the caller's; high half: which word of an element (number_of) */
#include "array/random_room.h"
#include "tessera/operations.h"
#include "tessera/shape.h"

#include <math.h>

#define SPLIT (UINT64_C(1) << 63)
#define FOLD (SPLIT + 1)
#define STREAMS (UINT64_C(1) << 32)

/* ---- keys ------------------------------------------------------------------------------------ */

static tsr_array *number(tsr_scope *scope, uint64_t value, const char *site)
{
  return tsr__make_const(scope, TSR_U64, (tsr__num){ .i = (int64_t)value }, site);
}

/* Words of keys, places and streams that broadcast against each other. */
static tsr_array *words(tsr__operands in, tsr_dtype dtype, const char *site)
{
  return tsr__make(NULL, TSR__OP_RANDOM, in, &(tsr__ask){ .dtype = dtype }, site);
}

/* Records an error where there are keys of another dtype. */
static bool are_keys(tsr_array *keys, const char *what, const char *site)
{
  if (!keys) tsr__fail_null(what, "array of keys", site);
  if (!tsr__usable(keys)) return false;
  if (keys->dtype == TSR_U64) return true;
  tsr__fail(tsr__home(keys), site, TSR_EDTYPE,
            "%s: keys are %s, expected u64; make them with tsr_random_key", what,
            tsr_type_of(keys));
  return false;
}

tsr_array *tsr_random_key_at(tsr_scope *scope, uint64_t seed, const char *site)
{
  tsr__scope_usable(scope, "tsr_random_key", site);
  return number(scope, seed, site);
}

/* Keys with so many dims of size 1 behind theirs. Each key then meets all elements of its own
 * draw. */
static tsr_array *with_dims(tsr_array *keys, int behind, const char *site)
{
  if (!keys->shape.rank || !behind) return keys;
  return tsr_expand_dims_at(keys, (tsr_dims){ .negative = (1u << behind) - 1 }, site);
}

tsr_array *tsr_random_split_at(tsr_array *keys, int64_t count, const char *site)
{
  const char *what = "tsr_random_split";
  tsr_scope *scope = tsr__home(keys);
  /* Anything that is no key has said so. */
  if (!are_keys(keys, what, site)) return tsr__make_inert(scope, site);
  tsr__error error = { .status = TSR_OK };
  if (count < 0)
    tsr__error_set(&error, TSR_EARG, "%s: %lld new keys per key, expected 0 or more", what,
                   (long long)count);
  else if (keys->shape.rank == TSR_MAX_RANK)
    tsr__error_set(
        &error, TSR_ESHAPE,
        "%s: keys are %s, and an array has no more dims than that; split fewer keys at a time",
        what, tsr_type_of(keys));
  if (error.status) return tsr__refused(keys, &error, site);
  /* The index along the new last dim is the counter. */
  tsr_array *index = tsr_iota_at(scope, TSR_U64, TSR_SHAPE(count), 0, (tsr_sharding){ 0 }, site);
  keys = with_dims(keys, 1, site);
  return words(TSR__IN(keys, index, number(scope, SPLIT, site)), TSR_U64, site);
}

tsr_array *tsr_random_fold_in_at(tsr_array *keys, tsr_operand data, const char *site)
{
  const char *what = "tsr_random_fold_in";
  tsr_scope *scope = tsr__home(keys);
  if (!are_keys(keys, what, site)) return tsr__make_inert(scope, site);
  tsr_array *x = data.array ? data.array : tsr__strong_number(scope, data.number, site);
  if (!tsr__usable(x)) return tsr__make_inert(scope, site);
  if (!tsr__dtype_integer((tsr_dtype)x->dtype)) {
    tsr__error error = { .status = TSR_OK };
    tsr__error_set(&error, TSR_EDTYPE,
                   "%s: the data to fold in is %s, expected integers; cast it first", what,
                   tsr_type_of(x));
    return tsr__refused(keys, &error, site);
  }
  /* Negative numbers fold in as their 64 bits. */
  x = tsr_cast_at(x, TSR_U64, site);
  return words(TSR__IN(keys, x, number(scope, FOLD, site)), TSR_U64, site);
}

/* ---- arguments ------------------------------------------------------------------------------- */

tsr_array *tsr__draws_inert(const tsr__draws *d)
{
  return tsr__make_inert(d->scope, d->site);
}

tsr_array *tsr__draws_fail(const tsr__draws *d, const tsr__error *error)
{
  tsr__fail(d->scope, d->site, error->status, "%s: %s", d->what, error->text);
  return tsr__draws_inert(d);
}

tsr_array *tsr__draws_refuse(const tsr__draws *d, const char *format, double found)
{
  char text[32];
  tsr__text_f64(text, found);
  tsr__error error = { .status = TSR_OK };
  tsr__error_set(&error, TSR_EARG, format, text);
  return tsr__draws_fail(d, &error);
}

/* What becomes integers must be asked for as integers, floats as floats, bools as bools. So that
 * asking tsr_randint for f32, say, is a mistake and no conversion. */
static tsr_status check_dtype(const tsr__draws *d, tsr__error *error)
{
  static const char *const expected[] = {
    [TSR__DTYPE_BOOL] = "bool", [TSR__DTYPE_INT] = "an integer", [TSR__DTYPE_FLOAT] = "a float"
  };
  tsr_dtype dtype = d->args.dtype;
  if (tsr__dtype_check(dtype, error)) return error->status;
  /* Whether integers have a sign is no matter of what kind they are. */
  int found = tsr__dtype_info_of(dtype)->kind, kind = tsr__dtype_info_of(d->usual)->kind;
  if (found == TSR__DTYPE_UINT) found = TSR__DTYPE_INT;
  if (kind == TSR__DTYPE_UINT) kind = TSR__DTYPE_INT;
  if (found == kind) return TSR_OK;
  return tsr__error_set(error, TSR_EDTYPE, ".dtype is %s, expected %s", tsr_dtype_name(dtype),
                        expected[kind]);
}

static tsr_status check_keys(const tsr__draws *d, tsr__error *error)
{
  const tsr_array *keys = d->args.keys;
  int rank = (keys ? keys->shape.rank : 0) + d->args.shape.rank;
  /* Dims that the distribution itself adds, behind the draw's. */
  if (d->behind) rank += d->behind->rank;
  /* The upper half of the word's second counter says which word of an element it is. */
  if (d->args.stream >= STREAMS)
    return tsr__error_set(
        error, TSR_EARG,
        ".stream is %llu, expected less than 2^32; fold the number into a key instead",
        (unsigned long long)d->args.stream);
  if (keys && d->args.key)
    return tsr__error_set(error, TSR_EARG, "both .key and .keys are given; give one of them");
  if (!keys && !d->args.key && !d->args.keyed)
    return tsr__error_set(error, TSR_EARG,
                          "there is no key, and all draws without a key would be the same; give "
                          ".key = 7, or .keys of tsr_random_key or tsr_random_split");
  if (rank > TSR_MAX_RANK)
    return tsr__error_set(error, TSR_ESHAPE,
                          "keys of rank %d and draws of rank %d, expected %d dims together at most",
                          keys ? keys->shape.rank : 0, rank - (keys ? keys->shape.rank : 0),
                          TSR_MAX_RANK);
  return TSR_OK;
}

static void add_dims(tsr_shape *shape, const tsr_shape *more)
{
  for (int i = 0; more && i < more->rank; i++) shape->dims[shape->rank++] = more->dims[i];
}

/* Copies the arguments and sees that they go together. */
static tsr_status take(tsr__draws *d, const tsr_random_args *given, tsr__error *error)
{
  d->args = (tsr_random_args){ .size = sizeof d->args };
  if (!given) return tsr__error_set(error, TSR_EARG, "its arguments are NULL; give them");
  if (tsr__take_opts(d->what, given, &d->args, sizeof d->args, error)) return error->status;
  if (!d->args.dtype) d->args.dtype = d->usual;
  d->on = d->args.on;
  if (d->anywhere) d->args.on = (tsr_sharding){ 0 };
  /* By an array of means, say, without a shape: a draw for each of them. */
  if (d->by && !d->args.keys && !d->args.shape.rank) d->args.shape = d->by->shape;
  if (check_dtype(d, error) || tsr__shape_check(&d->args.shape, error) || check_keys(d, error))
    return error->status;
  add_dims(&d->args.shape, d->behind);
  return TSR_OK;
}

/* What the distribution is of has an element, or one for several, for each draw. */
static tsr_status check_by(const tsr__draws *d, const tsr_shape *shape, tsr__error *error)
{
  const tsr_shape *by = &d->by->shape;
  bool fits = by->rank <= shape->rank;
  for (int i = 1; fits && i <= by->rank; i++) {
    int64_t n = by->dims[by->rank - i];
    fits = n == 1 || n == shape->dims[shape->rank - i];
  }
  if (fits) return TSR_OK;
  char result[160];
  tsr_type_text(d->args.dtype, *shape, NULL, result, sizeof result);
  return tsr__error_set(error, TSR_ESHAPE,
                        "the parameter is %s, expected a shape that broadcasts to %s",
                        tsr_type_of(d->by), result);
}

bool tsr__draws_take(tsr__draws *d, const tsr_random_args *given)
{
  tsr__error error = { .status = TSR_OK };
  if (take(d, given, &error)) {
    bool named = error.status == TSR_EUNSUPPORTED; /* by who takes options */
    if (named) tsr__fail_error(d->scope, d->site, &error);
    else tsr__draws_fail(d, &error);
    return false;
  }
  if (d->args.keys && !are_keys(d->args.keys, d->what, d->site)) return false;
  tsr_shape shape = { .rank = 0 };
  /* The whole result: the dims of the keys, then those of each draw. */
  if (d->args.keys) add_dims(&shape, &d->args.keys->shape);
  add_dims(&shape, &d->args.shape);
  if (d->by && check_by(d, &shape, &error)) {
    tsr__draws_fail(d, &error);
    return false;
  }
  return !tsr__check_planned(d->scope, d->what, d->args.dtype, &shape, &d->args.on, d->site);
}

/* A distribution of a number that may be an array: its dtype is f64, whatever it was, so that the
 * formula does not lose bits of it. */
bool tsr__draws_take_of(tsr__draws *d, const tsr_random_args *given, tsr_operand of)
{
  if (of.array && !tsr__usable(of.array)) return false;
  d->by = of.array;
  if (!of.array) d->number = tsr__scalar_real(of.number);
  if (!tsr__draws_take(d, given)) return false;
  if (d->by) d->by = tsr_cast_at(d->by, TSR_F64, d->site);
  return !d->by || tsr__usable(d->by);
}

tsr_operand tsr__draws_of(const tsr__draws *d)
{
  return d->by ? tsr_operand_array(d->by) : tsr_operand_float(d->number);
}

tsr_array *tsr__draws_placed(const tsr__draws *d, tsr_array *out)
{
  TSR__CALL(d->scope, d->what + strlen("tsr_"));
  return tsr__placed_on(out, &d->on, d->site);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The number of each element in C order, u64. Of one draw: keys number theirs anew. That makes a
 * draw of a shape the same wherever it is cut, and a prefix of a longer one along the first dim. */
static tsr_array *places(const tsr__draws *d)
{
  const tsr_shape *shape = &d->args.shape;
  /* Kept as nodes of the dims' own numbers, so that a cut array makes only its own part of them. */
  tsr_array *sum = number(d->scope, 0, d->site);
  uint64_t step = 1;
  for (int k = shape->rank - 1; k >= 0; k--) {
    /* Where these lie follows from what is made of them. */
    tsr_array *along = tsr_iota_at(d->scope, TSR_U64, *shape, k, (tsr_sharding){ 0 }, d->site);
    if (step != 1) along = tsr_mul_at(along, tsr_operand_uint(step), d->site);
    sum = step == 1 && k == shape->rank - 1 ? along
                                            : tsr_add_at(sum, tsr_operand_array(along), d->site);
    step *= (uint64_t)shape->dims[k];
  }
  return sum;
}

tsr_array *tsr__draws_word(const tsr__draws *d, uint64_t number_of, tsr_dtype dtype)
{
  tsr_array *keys = d->args.keys;
  /* Each word of an element has a stream of its own. */
  uint64_t stream = d->args.stream + number_of * STREAMS;
  /* Floats by a number: a source, which each device makes its own part of without any operand. */
  if (!keys && tsr__dtype_is_real(dtype)) {
    tsr__ask ask = { .dtype = dtype,
                     .shape = d->args.shape,
                     TSR__NUMBERS({ .i = (int64_t)d->args.key }, { .i = (int64_t)stream }),
                     .sharding = &d->args.on,
                     .call = d->what + strlen("tsr_") };
    return tsr__make(d->scope, TSR__OP_UNIFORM, TSR__IN_NONE, &ask, d->site);
  }
  /* Keys stand before the dims of the draw: size 1 beside each of its elements. */
  keys =
      keys ? with_dims(keys, d->args.shape.rank, d->site) : number(d->scope, d->args.key, d->site);
  tsr_array *out =
      words(TSR__IN(keys, places(d), number(d->scope, stream, d->site)), dtype, d->site);
  return d->args.on.mesh ? tsr__constrain_for(out, d->args.on, TSR__WHY_ON, d->site) : out;
}

tsr_array *tsr__draws_between(const tsr__draws *d, uint64_t number_of, tsr_dtype dtype)
{
  /* As many bits as a word of that dtype has. */
  double step = dtype == TSR_F64 ? 0x1p-53 : 0x1p-24;
  tsr_array *u = tsr__draws_word(d, number_of, dtype);
  /* (2 u - 1) + step, all of it exact: u is a multiple of the step, so this is an odd multiple, and
   * neither end nor 0 is drawn. */
  tsr_array *twice = tsr_mul_at(u, tsr_operand_int(2), d->site);
  return tsr_add_at(twice, tsr_operand_float(step - 1), d->site);
}

/* The inverse of the error function takes what is uniform between -1 and 1 to what is normal; one
 * word gives one number, on every machine the same. */
tsr_array *tsr__draws_normal(const tsr__draws *d, uint64_t number_of, tsr_dtype dtype)
{
  tsr_array *x = tsr_erfinv_at(tsr__draws_between(d, number_of, dtype), d->site);
  /* sqrt 2. */
  return tsr_mul_at(x, tsr_operand_float(0x1.6a09e667f3bcdp+0), d->site);
}

tsr_array *tsr__draws_log(const tsr__draws *d, uint64_t number_of, tsr_dtype dtype)
{
  /* 1 - u is never 0; log1p keeps what 1 - u would round away where u is small. */
  return tsr_log1p_at(tsr_neg_at(tsr__draws_word(d, number_of, dtype), d->site), d->site);
}

/* ---- distributions --------------------------------------------------------------------------- */

tsr_array *tsr_random_bits_at(tsr_scope *scope, const tsr_random_args *args, const char *site)
{
  tsr__draws d = TSR__DRAWS(random_bits, TSR_U64);
  if (!tsr__draws_take(&d, args)) return tsr__draws_inert(&d);
  return tsr__draws_placed(&d, tsr__draws_word(&d, 0, d.args.dtype));
}

/* low + u (high - low), which rounding may take to high: then what is next to it. */
static tsr_array *in_range(const tsr__draws *d, tsr_array *u)
{
  tsr_dtype dtype = d->args.dtype;
  /* u itself, with no rounding by a product that changes nothing. */
  if (d->args.low == 0 && (d->args.high == 0 || d->args.high == 1)) return u;
  /* In the dtype asked for: what is above its largest number has no span there. */
  double low = tsr__dtype_round(dtype, d->args.low), high = tsr__dtype_round(dtype, d->args.high);
  double span = tsr__dtype_round(dtype, high - low);
  if (!(low < high && isfinite(span)))
    return tsr__draws_refuse(d,
                             low < high ? "the range is %s long, expected a finite range; draw "
                                          "from a smaller range and scale the result"
                                        : "the range is %s long; give a low end below the high end",
                             high - low);
  tsr_array *x = tsr_mul_at(u, tsr_operand_float(span), d->site);
  x = tsr_add_at(x, tsr_operand_float(low), d->site);
  /* One step below `high`, in the dtype's own steps. */
  tsr_array *end = tsr__make_const(d->scope, dtype, (tsr__num){ .f = high }, d->site);
  end = tsr_nextafter_at(end, tsr_operand_float(low), d->site);
  return tsr_minimum_at(x, tsr_operand_array(end), d->site);
}

tsr_array *tsr_uniform_at(tsr_scope *scope, const tsr_random_args *args, const char *site)
{
  tsr__draws d = TSR__DRAWS(uniform, TSR_F64);
  if (!tsr__draws_take(&d, args)) return tsr__draws_inert(&d);
  return tsr__draws_placed(&d, in_range(&d, tsr__draws_word(&d, 0, d.args.dtype)));
}

/* Draws of few bits make poor formulas. */
static tsr_dtype wide(tsr_dtype dtype)
{
  return dtype == TSR_F64 ? TSR_F64 : TSR_F32;
}

tsr_array *tsr_normal_at(tsr_scope *scope, const tsr_random_args *args, const char *site)
{
  tsr__draws d = TSR__DRAWS(normal, TSR_F64);
  if (!tsr__draws_take(&d, args)) return tsr__draws_inert(&d);
  tsr_array *x = tsr__draws_normal(&d, 0, wide(d.args.dtype));
  return tsr__draws_placed(&d, tsr_cast_at(x, d.args.dtype, site));
}

tsr_array *tsr_exponential_at(tsr_scope *scope, double scale, const tsr_random_args *args,
                              const char *site)
{
  tsr__draws d = TSR__DRAWS(exponential, TSR_F64);
  if (!tsr__draws_take(&d, args)) return tsr__draws_inert(&d);
  if (!(scale > 0) || isinf(scale))
    return tsr__draws_refuse(&d, "the scale is %s, expected a positive number", scale);
  tsr_array *x = tsr__draws_log(&d, 0, d.args.dtype);
  return tsr__draws_placed(&d, tsr_mul_at(x, tsr_operand_float(-scale), site));
}
