/* Samples: each row of the source has a draw that depends on the seed and its number alone.
 *
 *   a fraction   rows whose draw is below it
 *   exactly n    rows whose draws are the n smallest of those selected: the draw below which there
 *                are n is searched for by counting, so that no row goes anywhere
 *
 * Draws are multiples of 2^-53, so the search ends at the latest after 53 halvings; since they are
 * even, a guess by proportion mostly needs a handful. */
#include "frame/run/run.h"

/* Apart from what users draw by the same seed. */
#define STREAM INT64_C(0x73616d706c65)

/* Draws for rows that lie ragged: made at the usual borders, moved through the host. A draw
 * belongs to a row's number, and ragged rows have numbers that no iota of their shards has: made
 * as if rows lay at the usual borders, then dealt out by number. */
static tsr_array *ragged_draws(tsr__lower *low, tsr_array *draws)
{
  const tsr__value *like = low->in->ragged->source->whole->value;
  tsr__bind *bind = low->bind;
  size_t bytes = ((size_t)low->in->rows + 1) * sizeof(double);
  if (tsr__bind_run(bind, &draws, 1)) return NULL;
  double *host = tsr__new_raw(&low->scope->rt->heap, bytes);
  tsr__layout layout = { TSR_F64, &like->shape, &like->sharding, like->rows };
  tsr__value *value = host ? tsr__value_new(like->rt, &layout, &bind->error) : NULL;
  bool read = value && !tsr__value_fetch(draws->value, host, bind->what, &bind->error);
  if (value && !(read && tsr__value_from_host(value, host))) {
    if (read) tsr__cancelled(&bind->error, bind->what);
    tsr__value_release(value);
    value = NULL;
  }
  tsr__del(&low->scope->rt->heap, host, bytes);
  if (!value) {
    tsr__error_set(&bind->error, TSR_ENOMEM, "%s: out of memory", bind->what);
    return NULL;
  }
  return tsr__make_leaf(low->scope, TSR_F64, &value->shape, &value->sharding, value, low->site);
}

static tsr_array *draw(tsr__lower *low, uint64_t seed)
{
  tsr__ask ask = { .dtype = TSR_F64,
                   .shape = { 1, { low->in->rows } },
                   TSR__NUMBERS({ .i = (int64_t)seed }, { .i = STREAM }),
                   .sharding = low->in->sharding };
  tsr_array *draws = tsr__make(low->scope, TSR__OP_UNIFORM, TSR__IN_NONE, &ask, low->site);
  return low->in->ragged ? ragged_draws(low, draws) : draws;
}

static tsr_array *below(tsr__lower *low, tsr_array *draws, double limit)
{
  tsr_array *mask = tsr__op2(low, TSR__OP_LT, draws, tsr__const_f(low, TSR_F64, limit));
  return tsr__both(low, low->in->mask, mask);
}

static tsr_status count_below(tsr__lower *low, tsr_array *draws, double limit, int64_t *count)
{
  tsr_array *total = tsr__op1(low, TSR__OP_COUNT, below(low, draws, limit));
  tsr_status status = tsr__bind_run(low->bind, &total, 1);
  tsr__bind *bind = low->bind;
  return status ? status : tsr__value_fetch(total->value, count, bind->what, &bind->error);
}

/* The limit below which exactly `wanted` of `total` rows draw, or the two neighbours between which
 * draws are equal. */
typedef struct bracket {
  double low, high; /* multiples of 2^-53 */
  int64_t below_low, below_high;
} bracket;

/* By proportion; every third step halves, so that draws which are not even cannot make it slow. */
static double guess(const bracket *b, int64_t wanted, bool halve)
{
  const double unit = 0x1p-53;
  double part = halve ? 0.5
                      : ((double)(wanted - b->below_low) + 0.5) /
                            ((double)(b->below_high - b->below_low) + 1);
  double at = b->low + (b->high - b->low) * part;
  at = (double)(int64_t)(at / unit) * unit;
  if (at <= b->low) at = b->low + unit;
  return at >= b->high ? b->high - unit : at;
}

/* Only counts come to the host; masks and draws stay on the devices. */
static tsr_status narrow(tsr__lower *low, tsr_array *draws, int64_t wanted, bracket *b)
{
  for (int step = 0; b->high - b->low > 0x1p-53 && b->below_low != wanted; step++) {
    int64_t count;
    double at = guess(b, wanted, step % 3 == 2);
    tsr_status status = count_below(low, draws, at, &count);
    if (status) return status;
    if (count <= wanted) {
      b->low = at;
      b->below_low = count;
    } else {
      b->high = at;
      b->below_high = count;
    }
  }
  return TSR_OK;
}

static tsr_array *exactly(tsr__lower *low, tsr_array *draws, int64_t wanted)
{
  bracket b = { .high = 1 };
  tsr__bind *bind = low->bind;
  if (tsr__bind_run(bind, &draws, 1)) return NULL;
  if (low->in->mask && tsr__bind_run(bind, (tsr_array *[1]){ low->in->mask }, 1)) return NULL;
  b.below_high = low->in->rows;
  if (low->in->mask && tsr__mask_rows(bind, low->in->mask->value, &b.below_high)) return NULL;
  /* Fewer rows than asked for: all of them. */
  if (b.below_high <= wanted) return low->in->mask;
  if (narrow(low, draws, wanted, &b)) return NULL;
  tsr_array *mask = below(low, draws, b.low);
  if (b.below_low == wanted) return mask;
  /* Rows with equal draws: the first of them. */
  tsr_array *equal = tsr__op2(low, TSR__OP_EQ, draws, tsr__const_f(low, TSR_F64, b.low));
  tsr__ask ask = { TSR__NUMBERS({ .i = wanted - b.below_low }) };
  equal = tsr__make(low->scope, TSR__OP_FIRSTN, TSR__IN(tsr__both(low, low->in->mask, equal)), &ask,
                    low->site);
  return tsr__op2(low, TSR__OP_OR, mask, equal);
}

/* Of a share nothing is counted. */
static bool is_exact(const tsr_sample_opts *opts)
{
  return opts->rows > 0 || opts->fraction <= 0;
}

tsr__known tsr__known_sample(const tsr_frame *df, bool ran)
{
  tsr__known known = tsr__known_tail(df, ran);
  return known == TSR__KNOWN_COUNTED && !is_exact(&df->sample) ? TSR__KNOWN : known;
}

tsr_status tsr__make_sample(tsr__bind *bind, tsr__visit *v, tsr__made *out)
{
  const tsr_sample_opts *opts = &v->df->sample;
  tsr__lower low = tsr__visit_lower(bind, v);
  (void)out;
  v->mask = NULL;
  if (opts->rows <= 0 && opts->fraction >= 1) return TSR_OK;
  tsr_array *draws = draw(&low, opts->seed);
  if (draws && !draws->inert)
    v->mask =
        is_exact(opts) ? exactly(&low, draws, opts->rows) : below(&low, draws, opts->fraction);
  return bind->error.status ? bind->error.status : tsr_scope_status(bind->scope);
}
