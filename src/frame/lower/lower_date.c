/* The calendar as arithmetic: proleptic Gregorian, UTC, for every value that a column can hold.
 *
 *   time (us) --floor / 86,400,000,000--> days --+ 719,468--> eras of 400 years that begin in March
 *
 *   era    146,097 days          the leap day comes last in a year that begins in March, so that
 *   year   365 d + y/4 - y/100   months follow the line (153 m + 2) / 5
 *
 * (The method is Howard Hinnant's, as in datetime_write.c.) Days are at most 2^31, so quotients are
 * taken in f64 by the rounded inverse of the divisor: floor((n + 1/2) / d) is exact there, and many
 * elements go at once, which integer divisions do not. */
#include "frame/lower/functions.h"

#define DAY_MICROS INT64_C(86400000000)

typedef tsr_array *val;

static val real(tsr__lower *low, double value)
{
  return tsr__const_f(low, TSR_F64, value);
}

static val add(tsr__lower *low, val a, val b)
{
  return tsr__op2(low, TSR__OP_ADD, a, b);
}

static val sub(tsr__lower *low, val a, val b)
{
  return tsr__op2(low, TSR__OP_SUB, a, b);
}

static val times(tsr__lower *low, val a, double b)
{
  return tsr__op2(low, TSR__OP_MUL, a, real(low, b));
}

static val plus(tsr__lower *low, val a, double b)
{
  return tsr__op2(low, TSR__OP_ADD, a, real(low, b));
}

static val is(tsr__lower *low, tsr__op op, val a, double b)
{
  return tsr__op2(low, op, a, real(low, b));
}

/* floor(n / d) of whole numbers. */
static val quotient(tsr__lower *low, val n, double d)
{
  return tsr__op1(low, TSR__OP_FLOOR, times(low, plus(low, n, 0.5), 1 / d));
}

/* n - d floor(n / d). */
static val remainder_of(tsr__lower *low, val n, double d)
{
  return sub(low, n, times(low, quotient(low, n, d), d));
}

/* ---- years and months --------------------------------------------------------------------- */

/* All in f64. */
typedef struct calendar {
  val year, month, day; /* month 1..12, day 1..31 */
  val of_year;          /* 1..366 */
} calendar;

/* 1 in leap years. */
static val leap(tsr__lower *low, val year)
{
  val fourth = is(low, TSR__OP_EQ, remainder_of(low, year, 4), 0);
  val whole = is(low, TSR__OP_EQ, remainder_of(low, year, 100), 0);
  val again = is(low, TSR__OP_EQ, remainder_of(low, year, 400), 0);
  val common = tsr__op2(low, TSR__OP_AND, whole, tsr__op1(low, TSR__OP_NOT, again));
  val yes = tsr__op2(low, TSR__OP_AND, fourth, tsr__op1(low, TSR__OP_NOT, common));
  return tsr__where(low, yes, real(low, 1), real(low, 0));
}

static calendar calendar_of(tsr__lower *low, val days)
{
  /* March 1 of year 0 is 719,468 days before 1970. */
  val z = plus(low, days, 719468);
  val era = quotient(low, z, 146097);
  val e = sub(low, z, times(low, era, 146097));
  /* Days of the era less its leap days so far (one in 1,460 days, but not in 36,524, but in
   * 146,096): what is left are years of 365 days. */
  val y = add(low, sub(low, e, quotient(low, e, 1460)), quotient(low, e, 36524));
  y = quotient(low, sub(low, y, quotient(low, e, 146096)), 365);
  val before = add(low, times(low, y, 365), quotient(low, y, 4));
  val d = sub(low, e, sub(low, before, quotient(low, y, 100)));
  val m = quotient(low, plus(low, times(low, d, 5), 2), 153);
  val spring = is(low, TSR__OP_LT, m, 10); /* March to December */
  calendar c;
  c.day = plus(low, sub(low, d, quotient(low, plus(low, times(low, m, 153), 2), 5)), 1);
  c.month = tsr__where(low, spring, plus(low, m, 3), plus(low, m, -9));
  c.year = add(low, y, times(low, era, 400));
  c.year = tsr__where(low, spring, c.year, plus(low, c.year, 1));
  /* In the year from March on January 1 is day 306, in its own day 1; March 1 is day 60, or 61. */
  c.of_year =
      tsr__where(low, spring, add(low, plus(low, d, 60), leap(low, c.year)), plus(low, d, -305));
  return c;
}

/* 1 is Monday: 1970-01-01 was a Thursday. */
static val weekday(tsr__lower *low, val days)
{
  return plus(low, remainder_of(low, plus(low, days, 3), 7), 1);
}

/* ISO 8601: weeks begin on Monday and belong to the year of their Thursday. */
static val week(tsr__lower *low, val days)
{
  val thursday = plus(low, sub(low, days, weekday(low, days)), 4);
  val of_year = calendar_of(low, thursday).of_year;
  return plus(low, quotient(low, plus(low, of_year, -1), 7), 1);
}

/* The number of the year's day on which its quarter begins, from 0.
 *
 *   days before   Jan 0   Apr 90   Jul 181   Oct 273      one more after February of leap years
 */
static val quarter_start(tsr__lower *low, const calendar *c)
{
  val extra = leap(low, c->year);
  val later = add(low, real(low, 90), extra);
  val out = tsr__where(low, is(low, TSR__OP_GT, c->month, 3), later, real(low, 0));
  later = add(low, real(low, 181), extra);
  out = tsr__where(low, is(low, TSR__OP_GT, c->month, 6), later, out);
  later = add(low, real(low, 273), extra);
  return tsr__where(low, is(low, TSR__OP_GT, c->month, 9), later, out);
}

/* The first day of the year, quarter, month or week of a day. */
static val first_day(tsr__lower *low, int unit, val days)
{
  if (unit == TSR__U_DAY) return days;
  if (unit == TSR__U_WEEK) return plus(low, sub(low, days, weekday(low, days)), 1);
  calendar c = calendar_of(low, days);
  if (unit == TSR__U_MONTH) return plus(low, sub(low, days, c.day), 1);
  val new_year = plus(low, sub(low, days, c.of_year), 1);
  return unit == TSR__U_YEAR ? new_year : add(low, new_year, quarter_start(low, &c));
}

/* ---- columns ----------------------------------------------------------------------------- */

static val whole(tsr__lower *low, int64_t value)
{
  return tsr__const_i(low, TSR_I64, value);
}

/* The days of a date or time, in f64. */
static val days_of(tsr__lower *low, tsr__col x)
{
  /* Rounded down: a moment before 1970 belongs to the day it is in. */
  if (x.type == TSR_COL_TIME)
    x.values = tsr__op2(low, TSR__OP_FLOORDIV, x.values, whole(low, DAY_MICROS));
  return tsr__cast(low, x.values, TSR_F64);
}

tsr__col tsr__to_narrow(tsr__lower *low, tsr__col column, int type)
{
  tsr_dtype dtype = tsr__dtype_of_type(type);
  /* What the narrower type does not hold marks its row. */
  val under = tsr__op2(low, TSR__OP_LT, column.values, whole(low, tsr__dtype_least(dtype)));
  val over = tsr__op2(low, TSR__OP_GT, column.values, whole(low, (int64_t)tsr__dtype_most(dtype)));
  tsr__note_overflow(low, tsr__op2(low, TSR__OP_OR, under, over), column.valid);
  column.values = tsr__cast(low, column.values, dtype);
  column.type = (uint8_t)type;
  return column;
}

/* Days in f64 as a column of dates or, at their midnights, times. */
static tsr__col from_days(tsr__lower *low, val days, tsr_array *valid, int type)
{
  tsr__col out = { .type = TSR_COL_I64, .values = tsr__cast(low, days, TSR_I64), .valid = valid };
  if (type == TSR_COL_DATE) return tsr__to_narrow(low, out, TSR_COL_DATE);
  val day = whole(low, DAY_MICROS);
  tsr__note_overflow(low, tsr__op2(low, TSR__OP_MULOVF, out.values, day), valid);
  out.values = tsr__op2(low, TSR__OP_MUL, out.values, day);
  out.type = TSR_COL_TIME;
  return out;
}

static tsr__col truncate(tsr__lower *low, int unit, tsr__col x)
{
  static const int64_t micros[TSR__UNITS] = {
    [TSR__U_HOUR] = INT64_C(3600000000), [TSR__U_MINUTE] = 60000000, [TSR__U_SECOND] = 1000000
  };
  if (unit <= TSR__U_DAY)
    return from_days(low, first_day(low, unit, days_of(low, x)), x.valid, x.type);
  /* The remainder is never negative, so before 1970, too, this goes back in time; the very first
   * moments have nowhere to go back to. */
  val past = tsr__op2(low, TSR__OP_MOD, x.values, whole(low, micros[unit]));
  tsr__note_overflow(low, tsr__op2(low, TSR__OP_SUBOVF, x.values, past), x.valid);
  x.values = tsr__op2(low, TSR__OP_SUB, x.values, past);
  return x;
}

/* The hour, minute or second of a time. Integers down to less than a day of units, f64 from there
 * on: 86,400 is small enough for quotient. */
static val time_part(tsr__lower *low, int fn, val micros)
{
  static const int64_t unit[TSR__FNS] = {
    [TSR__F_HOUR] = INT64_C(3600000000), [TSR__F_MINUTE] = 60000000, [TSR__F_SECOND] = 1000000
  };
  val part = tsr__op2(low, TSR__OP_MOD, micros, whole(low, DAY_MICROS));
  val n = tsr__cast(low, tsr__op2(low, TSR__OP_FLOORDIV, part, whole(low, unit[fn])), TSR_F64);
  return fn == TSR__F_HOUR ? n : remainder_of(low, n, 60);
}

static val part(tsr__lower *low, int fn, tsr__col x)
{
  if (fn == TSR__F_HOUR || fn == TSR__F_MINUTE || fn == TSR__F_SECOND)
    return time_part(low, fn, x.values);
  val days = days_of(low, x);
  if (fn == TSR__F_WEEKDAY) return weekday(low, days);
  if (fn == TSR__F_WEEK) return week(low, days);
  calendar c = calendar_of(low, days);
  switch (fn) {
  case TSR__F_YEAR: return c.year;
  case TSR__F_MONTH: return c.month;
  case TSR__F_DAY: return c.day;
  case TSR__F_QUARTER: return plus(low, quotient(low, plus(low, c.month, -1), 3), 1);
  default: return c.of_year;
  }
}

/* Functions of a unit and a date have the date last. */
tsr__col tsr__lower_date_fn(tsr__lower *low, const tsr__expr *expr)
{
  const tsr__expr *arg = expr->arg[expr->count - 1];
  tsr__col x = tsr__lower_as(low, arg, arg->type ? arg->type : TSR_COL_TIME);
  if (expr->op == TSR__F_DATE_TRUNC)
    return x.type == expr->type ? truncate(low, expr->unit, x) : tsr__convert(low, x, expr->type);
  if (expr->op == TSR__F_DATE)
    return x.type == TSR_COL_DATE ? x : from_days(low, days_of(low, x), x.valid, TSR_COL_DATE);
  return (tsr__col){ .type = TSR_COL_I64,
                     .valid = x.valid,
                     .values = tsr__cast(low, part(low, expr->op, x), TSR_I64) };
}

/* ---- differences ------------------------------------------------------------------------- */

/*   date + 3         days           i64, then narrowed with a check
 *   time - time      microseconds   i64
 *   date - time      a date becomes its midnight first
 *
 * A number beside a moment counts its units; u64 beyond i64 would turn negative and marks its
 * row. */
tsr__col tsr__lower_moved(tsr__lower *low, const tsr__expr *expr)
{
  const tsr__expr *a = expr->arg[0], *b = expr->arg[1];
  bool apart = tsr__is_temporal(a->type) && tsr__is_temporal(b->type);
  int kind = !apart ? expr->type : a->type == b->type ? a->type : TSR_COL_TIME;
  tsr__col side[2];
  for (int i = 0; i < 2; i++) {
    const tsr__expr *arg = expr->arg[i];
    bool moment = tsr__is_temporal(arg->type);
    side[i] = tsr__lower_as(low, arg,
                            moment                     ? kind
                            : arg->type == TSR_COL_U64 ? TSR_COL_U64
                                                       : TSR_COL_I64);
    if (arg->type == TSR_COL_U64) {
      val most = tsr__const_i(low, TSR_U64, INT64_MAX);
      tsr__note_overflow(low, tsr__op2(low, TSR__OP_GT, side[i].values, most), side[i].valid);
    }
    side[i].values = tsr__cast(low, side[i].values, TSR_I64);
    side[i].type = TSR_COL_I64;
  }
  tsr__col out = tsr__lower_integer(low, expr->op, side[0], side[1]);
  if (expr->type == TSR_COL_DATE) return tsr__to_narrow(low, out, TSR_COL_DATE);
  out.type = expr->type;
  return out;
}
