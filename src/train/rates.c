/* Rates by step, as formulas of a scalar, so that a step of training is traced once for all.
 *
 *   warmup    rate * step / warmup         before step `warmup`
 *   cosine    from rate to end              over the steps behind it
 *   steps     rate * factor^floor(at / every)
 *
 * Invariant: a rate is f64, of rank 0, and a function of the step alone; nothing is kept from one
 * step to the next, so a run that goes on from a saved step has the rates it would have had. */
#include "train/train_room.h"

#include "tessera/elementwise.h"

typedef tsr_array array;

/* Of cosine the warm-up is a part of `steps`, so there must be more of these. */
static void check(const tsr_schedule_args *a, tsr__error *error)
{
  tsr_dtype dtype = (tsr_dtype)a->step->dtype;
  char text[32];
  tsr__text_f64(text, a->factor);
  if (!tsr__dtype_integer(dtype) || a->step->shape.rank)
    tsr__error_set(error, TSR_EDTYPE,
                   "tsr_schedule: the step is %s, expected one integer, such as the count in an "
                   "optimiser's state",
                   tsr_type_of(a->step));
  else if ((unsigned)a->kind > TSR_SCHEDULE_STEPS)
    tsr__error_set(error, TSR_EARG,
                   "tsr_schedule: .kind is %d, expected a value of tsr_schedule_kind",
                   (int)a->kind);
  else if (a->warmup < 0 || (a->kind == TSR_SCHEDULE_COSINE && a->steps <= a->warmup))
    tsr__error_set(error, TSR_EARG,
                   "tsr_schedule: .steps is %lld with a warm-up of %lld steps, expected more; give "
                   "a larger .steps",
                   (long long)a->steps, (long long)a->warmup);
  else if (a->kind == TSR_SCHEDULE_STEPS && (a->every < 1 || !(a->factor > 0)))
    tsr__error_set(error, TSR_EARG,
                   "tsr_schedule: .factor is %s and .every is %lld steps, expected both above 0; "
                   "give .every and .factor",
                   text, (long long)a->every);
}

/* From .rate to .end: how far along the wave a step is lies between 0 and 1. */
static array *cosine(const tsr_schedule_args *a, array *at, const char *site)
{
  /* Behind the last step the wave stays at its end. */
  double pi = 3.14159265358979323846;
  array *way = tsr_div_at(at, tsr_operand_float((double)(a->steps - a->warmup)), site);
  way = tsr_clip_at(way, tsr_operand_int(0), tsr_operand_int(1), site);
  array *wave = tsr_cos_at(tsr__times_number(way, pi, site), site);
  wave =
      tsr__times_number(tsr_add_at(wave, tsr_operand_int(1), site), (a->rate - a->end) / 2, site);
  return tsr_add_at(wave, tsr_operand_float(a->end), site);
}

/* In f64: powers of the factor, one for each stair. */
static array *stairs(const tsr_schedule_args *a, array *at, const char *site)
{
  array *times = tsr_floor_at(tsr_div_at(at, tsr_operand_float((double)a->every), site), site);
  array *factor =
      tsr_cast_at(tsr_num_at(tsr__home(at), tsr_scalar_float(a->factor), site), TSR_F64, site);
  return tsr__times_number(tsr_pow_at(factor, tsr_operand_array(times), site), a->rate, site);
}

array *tsr_schedule_at(const tsr_schedule_args *given, const char *site)
{
  tsr_schedule_args a = { .size = sizeof a };
  tsr__error error = { .status = TSR_OK };
  array *step = given ? given->step : NULL;
  TSR__CALL(tsr__home(step), "schedule");
  if (!tsr__usable(step)) return tsr_abs_at(step, site); /* which tells what is wrong */
  if (!tsr__take_opts("tsr_schedule", given, &a, sizeof a, &error)) check(&a, &error);
  if (error.status) return tsr__refused(step, &error, site);
  /* Steps are counted from 0 here: at step 0 of a warm-up the rate is 0. */
  array *now = tsr_cast_at(step, TSR_F64, site);
  array *at = tsr_sub_at(now, tsr_operand_float((double)a.warmup), site), *rate;
  if (a.kind == TSR_SCHEDULE_COSINE) rate = cosine(&a, at, site);
  else if (a.kind == TSR_SCHEDULE_STEPS) rate = stairs(&a, at, site);
  else
    rate = tsr_full_at(tsr__home(step), tsr_operand_float(a.rate), TSR_F64, TSR_SCALAR,
                       (tsr_sharding){ 0 }, site);
  if (!a.warmup) return rate;
  /* Both are computed; the step chooses. */
  array *rising = tsr__times_number(now, a.rate / (double)a.warmup, site);
  /* What the wave or the stairs say before the warm-up's end is not looked at. */
  array *early = tsr_lt_at(now, tsr_operand_float((double)a.warmup), site);
  return tsr_where_at(early, tsr_operand_array(rising), tsr_operand_array(rate), site);
}
