/* Reading results from records: each result is rounded once from an exact sum.
 *
 * A sum in units is an integer; it is rounded like an integer and scaled by a power of two, which
 * is exact. A mean takes one division and its remainder: where these leave the last bit in doubt,
 * an exact division decides.
 *
 * Memory:
 *   record     count | sum in units | squares | flags      words of a group, `stride` apart
 *   result     values [first + i], valid bits     groups from .. from + count - 1
 *
 * Sums whose values did not fit units are kept as rows of doubles (TSR__RECORD_ROWS); both ways
 * round once, to the same bits. */
#include "kernel/rows/group_record.h"

#include "kernel/tile/interp_tile.h"

enum { BLOCK = 512 };

#define SIGN (UINT64_C(1) << 63)

/* The dtype of a result from its operation and operand: extremes, first and last keep the
 * operand's. */
tsr_dtype tsr__group_dtype(int op, tsr_dtype dtype)
{
  bool real = tsr__dtype_is_real((tsr_dtype)dtype);
  switch (op) {
  case TSR__GROUP_COUNT:
  case TSR__GROUP_NUNIQUE: return TSR_I64;
  case TSR__GROUP_SUM:
    if (real) return dtype;
    return tsr__dtype_info_of(dtype)->kind == TSR__DTYPE_UINT ? TSR_U64 : TSR_I64;
  case TSR__GROUP_ANY:
  case TSR__GROUP_ALL: return TSR_BOOL;
  case TSR__GROUP_CORR: return TSR_F64;
  case TSR__GROUP_MEAN:
  case TSR__GROUP_VAR:
  case TSR__GROUP_STD:
  case TSR__GROUP_QUANTILE: return dtype == TSR_F32 ? TSR_F32 : TSR_F64;
  default: return dtype;
  }
}

/* ---- records --------------------------------------------------------------------------------- */

/* Records of a group lie together, those of the next one `stride` bytes on. */
static const uint64_t *tally_word_at(const tsr__reading *r, const tsr__group_record_state *state,
                                     int tally, int64_t group)
{
  const tsr__group_record *t = &r->plan->item[tally];
  return (const void *)(state->record + t->offset + (size_t)group * r->plan->stride);
}

static int64_t count_at(const tsr__reading *r, const tsr__group_record_state *state, int64_t group)
{
  return (int64_t)*tally_word_at(r, state, r->count, group);
}

static tsr__i128 total_at(const tsr__reading *r, const tsr__group_record_state *state, int tally,
                          int64_t group)
{
  const uint64_t *word = tally_word_at(r, state, tally, group);
  if (r->plan->item[tally].kind == TSR__RECORD_I64) return (int64_t)word[0];
  /* A sum in 64 bits is widened with its sign; others lie low word first. */
  return (tsr__i128)((tsr__u128)word[1] << 64 | word[0]);
}

static tsr__i128 sum_at(const tsr__reading *r, const tsr__group_record_state *state, int64_t group)
{
  return total_at(r, state, r->main, group);
}

/* A sum of products. */
static tsr__isq products_at(const tsr__reading *r, const tsr__group_record_state *state, int tally,
                            int64_t group)
{
  const uint64_t *word = tally_word_at(r, state, tally, group);
  uint64_t sign = 0 - (word[0] >> 63);
  if (r->plan->item[tally].kind == TSR__RECORD_I64) return (tsr__isq){ { word[0], sign, sign } };
  return (tsr__isq){ { word[0], word[1], word[2] } };
}

/* Without such a word anything may have been seen, but nothing that is special. */
static uint64_t saw_at(const tsr__reading *r, const tsr__group_record_state *state, int64_t group)
{
  return r->saw < 0 ? (uint64_t)TSR__SAW_OTHER : *tally_word_at(r, state, r->saw, group);
}

/* The power of two that one unit is. */
static double unit_of_sum(const tsr__reading *r)
{
  int kind = r->plan->item[r->main].kind;
  if (kind != TSR__RECORD_FIX) return 1;
  return ldexp(1, r->plan->span[r->agg->column].unit.low - 1075);
}

/* Sum and squares in units as accumulators. 32 bits at a time: each such piece times a power of
 * two is an exact double. */
static void to_acc2(const uint64_t *word, int words, double unit, tsr__acc2 *out)
{
  tsr__acc2_zero(out);
  for (int k = 0; k < 2 * words; k++, unit *= 0x1p32)
    tsr__acc2_add(out, (double)(uint32_t)(word[k / 2] >> (32 * (k & 1))) * unit);
}

static void sum_to_acc2(tsr__i128 sum, double unit, tsr__acc2 *out)
{
  tsr__u128 size = sum < 0 ? 0 - (tsr__u128)sum : (tsr__u128)sum;
  to_acc2((uint64_t[2]){ (uint64_t)size, (uint64_t)(size >> 64) }, 2, sum < 0 ? -unit : unit, out);
}

/* ---- rounding -------------------------------------------------------------------------------- */

/* The rounded quotient and the exact one's excess over it, whose sign is sure; false: not sure. */
static bool round_quotient(tsr__i128 sum, int64_t n, double *out, double *lacks)
{
  double high = (double)sum, by = (double)n;
  *lacks = 0;
  /* Beyond these a double does not hold n, or the low part not exactly. */
  if (fabs(high) >= 0x1p104 || n >= INT64_C(1) << 53) return false;
  double low = (double)(sum - (tsr__i128)high), first = high / by;
  double more = (fma(-first, by, high) + low) / by, doubt = fabs(more) * 0x1p-50;
  /* `more` is the first quotient's error, within `doubt`: if adding the least and the most of it
   * rounds alike, the sum is the rounded quotient. */
  *out = first + (more - doubt);
  if (*out != first + (more + doubt)) return false;
  *lacks = more - (*out - first);
  return more == 0 || fabs(*lacks) > doubt;
}

static double mean_f64(tsr__i128 sum, int64_t n, double unit)
{
  double out, lacks;
  if (round_quotient(sum, n, &out, &lacks)) return out * unit;
  return tsr__mean_i128(sum, n, TSR_F64) * unit;
}

static float mean_f32(tsr__i128 sum, int64_t n, double unit)
{
  double out, lacks;
  tsr__acc2 acc;
  if (round_quotient(sum, n, &out, &lacks)) return (float)(tsr__odd_neighbour(out, lacks) * unit);
  /* In doubt the exact accumulator decides, rounded once to f32. */
  sum_to_acc2(sum, unit, &acc);
  return (float)tsr__acc2_mean(&acc, n, TSR_F32);
}

/* Ready to be rounded to a float narrower than f64. */
static double sum_odd(tsr__i128 sum, double unit)
{
  double high = (double)sum;
  tsr__i128 low = sum - (tsr__i128)high;
  return tsr__odd_neighbour(high, low > 0 ? 1 : low < 0 ? -1 : 0) * unit;
}

/* NaN, an infinity or -0 where that is the sum; false: the units say it. */
static bool special_sum(uint64_t saw, double *out)
{
  bool up = saw & TSR__SAW_PINF, down = saw & TSR__SAW_NINF;
  *out = up ? (double)INFINITY : -(double)INFINITY;
  if ((saw & TSR__SAW_NAN) || (up && down)) *out = (double)NAN;
  else if (saw == TSR__SAW_NEG_ZERO) *out = -0.0;
  else return up || down;
  return true;
}

/* ---- results --------------------------------------------------------------------------------- */

static void put_real_result(const tsr__read_to *to, tsr_dtype dtype, int64_t i, double value)
{
  if (dtype == TSR_F64) ((double *)to->values)[to->first + i] = value;
  else if (dtype == TSR_F32) ((float *)to->values)[to->first + i] = (float)value;
  else tsr__dtype_put_real(dtype, to->values, to->first + i, value);
}

static void put_whole_result(const tsr__read_to *to, tsr_dtype dtype, int64_t i, int64_t value)
{
  if (dtype == TSR_I32) ((int32_t *)to->values)[to->first + i] = (int32_t)value;
  else if (dtype == TSR_I64) ((int64_t *)to->values)[to->first + i] = value;
  else if (dtype == TSR_BOOL) tsr__bits_put(to->values, to->first + i, 1, value != 0);
  else tsr__dtype_put_whole(dtype, to->values, to->first + i, value);
}

/* False: some sum does not fit its dtype. */
static bool read_integer_sums(const tsr__reading *r, const tsr__group_record_state *state,
                              const tsr__read_to *to)
{
  bool fits = true;
  bool natural = r->dtype == TSR_U64;
  tsr__i128 least = natural ? 0 : INT64_MIN, most = natural ? (tsr__i128)UINT64_MAX : INT64_MAX;
  int64_t *out = (int64_t *)to->values + to->first;
  for (int64_t i = 0; i < to->count; i++) {
    tsr__i128 sum = sum_at(r, state, to->from + i);
    /* All are written, as nobody reads results of a job that failed. */
    fits = fits && sum >= least && sum <= most;
    out[i] = (int64_t)(uint64_t)(tsr__u128)sum;
  }
  return fits;
}

/* A sum counts units and is an integer, so it is exact; NaN, infinities and -0 are flags in a word
 * of their own. */
static void read_unit_sums(const tsr__reading *r, const tsr__group_record_state *state,
                           const tsr__read_to *to)
{
  double unit = unit_of_sum(r), special;
  for (int64_t i = 0; i < to->count; i++) {
    tsr__i128 sum = sum_at(r, state, to->from + i);
    if (special_sum(saw_at(r, state, to->from + i), &special))
      put_real_result(to, r->dtype, i, special);
    else if (r->dtype == TSR_F64) put_real_result(to, TSR_F64, i, (double)sum * unit);
    else put_real_result(to, r->dtype, i, sum_odd(sum, unit));
  }
}

static void read_unit_means(const tsr__reading *r, const tsr__group_record_state *state,
                            const tsr__read_to *to)
{
  double unit = unit_of_sum(r), special;
  for (int64_t i = 0; i < to->count; i++) {
    tsr__i128 sum = sum_at(r, state, to->from + i);
    int64_t n = count_at(r, state, to->from + i);
    /* No value: the result is null, and 0 lies under it, so that equal frames have equal bytes. */
    if (!n) put_real_result(to, r->dtype, i, 0);
    else if (special_sum(saw_at(r, state, to->from + i), &special))
      put_real_result(to, r->dtype, i, special);
    else if (r->dtype == TSR_F32) put_real_result(to, TSR_F32, i, (double)mean_f32(sum, n, unit));
    else put_real_result(to, r->dtype, i, mean_f64(sum, n, unit));
  }
}

/* With one of these among its values a spread is NaN. */
enum { WILD = TSR__SAW_NAN | TSR__SAW_PINF | TSR__SAW_NINF };

/* The f64 result rounds to the right f32 but where it lies between two of them, or below the normal
 * ones; there the sums themselves decide. */
static float round_spread_f32(tsr__i128 sum, const tsr__isq *squares, int64_t n, double unit,
                              bool root)
{
  double value = root ? tsr__std_i128(sum, squares, n, 1, TSR_F64) * unit
                      : tsr__var_i128(sum, squares, n, 1, TSR_F64) * (unit * unit);
  uint64_t bits, below = (UINT64_C(1) << 29) - 1;
  memcpy(&bits, &value, sizeof bits);
  if (value == 0 || (value >= 0x1p-126 && (bits & below) != (below + 1) / 2)) return (float)value;
  tsr__acc2 a, b;
  sum_to_acc2(sum, unit, &a);
  to_acc2(squares->word, 3, unit * unit, &b);
  return (float)tsr__acc2_spread(&a, &b, &(tsr__spread_read){ n, 1, root }, TSR_F32);
}

/* Var scales by the square of the unit, its root by the unit: powers of two, and exact within
 * the exponents that units are chosen from (LOWEST, HIGHEST). */
static void read_unit_spreads(const tsr__reading *r, const tsr__group_record_state *state,
                              const tsr__read_to *to)
{
  bool root = r->agg->op == TSR__GROUP_STD;
  double unit = unit_of_sum(r), scale = root ? unit : unit * unit;
  for (int64_t i = 0; i < to->count; i++) {
    tsr__i128 sum = sum_at(r, state, to->from + i);
    tsr__isq squares = products_at(r, state, r->squares, to->from + i);
    int64_t n = count_at(r, state, to->from + i);
    /* Fewer than two values have no spread: the result is null. */
    if (n < 2) put_real_result(to, r->dtype, i, 0);
    else if (saw_at(r, state, to->from + i) & WILD) put_real_result(to, r->dtype, i, (double)NAN);
    else if (r->dtype == TSR_F32)
      put_real_result(to, TSR_F32, i, (double)round_spread_f32(sum, &squares, n, unit, root));
    else if (root)
      put_real_result(to, r->dtype, i, tsr__std_i128(sum, &squares, n, 1, TSR_F64) * scale);
    else put_real_result(to, r->dtype, i, tsr__var_i128(sum, &squares, n, 1, TSR_F64) * scale);
  }
}

/* Units cancel. */
static void read_correlations(const tsr__reading *r, const tsr__group_record_state *state,
                              const tsr__read_to *to)
{
  double *out = (double *)to->values + to->first;
  for (int64_t i = 0; i < to->count; i++) {
    int64_t group = to->from + i, n = count_at(r, state, group);
    uint64_t saw = saw_at(r, state, group);
    /* Flags of either column count. */
    if (r->other_saw >= 0) saw |= *tally_word_at(r, state, r->other_saw, group);
    out[i] = n < 2 ? 0 : (double)NAN;
    if (n < 2 || (saw & WILD)) continue;
    tsr__pair_ints sums = { total_at(r, state, r->main, group),
                            total_at(r, state, r->other_main, group),
                            products_at(r, state, r->squares, group),
                            products_at(r, state, r->other_squares, group),
                            products_at(r, state, r->both, group) };
    out[i] = tsr__corr_i128_f64(&sums, n);
  }
}

/* A sum, or a sum of products, of whole numbers or kept as rows. */
static void tally_to_acc2(const tsr__reading *r, const tsr__group_record_state *state, int tally,
                          int64_t group, tsr__acc2 *out)
{
  const tsr__group_record *t = &r->plan->item[tally];
  if (t->kind == TSR__RECORD_ROWS || t->kind == TSR__RECORD_ROWS2)
    tsr__rows_get(&state->rows[t->offset], group, out);
  else if (t->kind == TSR__RECORD_I192) /* Squares alone are beside rows: never below 0. */
    to_acc2(tally_word_at(r, state, tally, group), 3, 1, out);
  else sum_to_acc2(total_at(r, state, tally, group), 1, out);
}

/* Reads correlations where some sums are kept as rows. */
static void read_row_correlations(const tsr__reading *r, const tsr__group_record_state *state,
                                  const tsr__read_to *to)
{
  double *out = (double *)to->values + to->first;
  const int tally[] = { r->main, r->other_main, r->squares, r->other_squares, r->both };
  for (int64_t i = 0; i < to->count; i++) {
    int64_t group = to->from + i, n = count_at(r, state, group);
    tsr__pair_sums sums;
    tsr__acc2 *const sum[] = { &sums.x, &sums.y, &sums.xx, &sums.yy, &sums.xy };
    for (int k = 0; k < 5; k++) tally_to_acc2(r, state, tally[k], group, sum[k]);
    out[i] = n < 2 ? 0 : tsr__acc2_corr_f64(&sums, n);
  }
}

/* Reads by blocks, so that counts fit the stack; values are rounded in the result's memory. */
static void read_row_results(const tsr__reading *r, const tsr__group_record_state *state,
                             const tsr__read_to *to)
{
  int64_t counts[BLOCK];
  for (int64_t at = 0; at < to->count; at += BLOCK) {
    int64_t n = to->count - at < BLOCK ? to->count - at : BLOCK;
    tsr__rows sums = tsr__rows_slice(&state->rows[r->plan->item[r->main].offset], to->from + at, n);
    tsr__rows_read how = { .to = r->dtype, .counts = counts, .root = r->agg->op == TSR__GROUP_STD };
    void *out = (char *)to->values + (size_t)(to->first + at) * tsr_dtype_size(r->dtype);
    for (int64_t i = 0; i < n && r->count >= 0; i++)
      counts[i] = count_at(r, state, to->from + at + i);
    if (r->squares >= 0) {
      tsr__rows squares =
          tsr__rows_slice(&state->rows[r->plan->item[r->squares].offset], to->from + at, n);
      how.ddof = 1;
      tsr__rows_spread(&sums, &squares, &how, out);
    } else if (r->agg->op == TSR__GROUP_MEAN) {
      tsr__rows_mean(&sums, &how, out);
    } else {
      tsr__rows_sum(&sums, &how, out);
    }
  }
}

/* Extremes, as keys in the order of values; records keep the largest, so of a smallest the key is
 * turned. */
static void read_keys(const tsr__reading *r, const tsr__group_record_state *state,
                      const tsr__read_to *to)
{
  const tsr__group_record *t = &r->plan->item[r->main];
  uint64_t flip = t->inverted ? ~UINT64_C(0) : 0;
  /* The sign bit is turned in signed keys, so that they compare as unsigned words. */
  bool real = tsr__dtype_is_real((tsr_dtype)r->dtype);
  uint64_t change = r->dtype == TSR_U64 ? flip : SIGN ^ flip;
  for (int64_t i = 0; i < to->count; i++) {
    uint64_t word = *tally_word_at(r, state, r->main, to->from + i);
    bool none = r->least && count_at(r, state, to->from + i) < r->least;
    int64_t key = (int64_t)(word ^ change);
    if (none) key = 0;
    /* The code is the low half: ranks are only for comparing. */
    if (t->map) put_whole_result(to, r->dtype, i, none ? 0 : (int64_t)(uint32_t)word);
    else if (!real) put_whole_result(to, r->dtype, i, key);
    else put_real_result(to, r->dtype, i, key == INT64_MAX ? (double)NAN : tsr__f64_of_key(key));
  }
}

/* `any` keeps whether there was a true one, `all` whether there was a false one. */
static void read_truth(const tsr__reading *r, const tsr__group_record_state *state,
                       const tsr__read_to *to)
{
  bool inverted = r->plan->item[r->main].inverted;
  for (int64_t i = 0; i < to->count; i++)
    put_whole_result(to, TSR_BOOL, i,
                     (*tally_word_at(r, state, r->main, to->from + i) != 0) != inverted);
}

/* Which results are null; `nulls` counts them. */
static void read_result_nulls(const tsr__reading *r, const tsr__group_record_state *state,
                              tsr__read_to *to)
{
  for (int64_t i = 0; i < to->count; i += 64) {
    int some = to->count - i < 64 ? (int)(to->count - i) : 64;
    uint64_t bits = 0;
    for (int k = 0; k < some; k++)
      bits |= (uint64_t)(count_at(r, state, to->from + i + k) >= r->least) << k;
    /* Tasks begin at multiples of 64 groups, so words are nobody else's. */
    to->valid[(to->first + i) / 64] = bits;
    to->nulls += some - __builtin_popcountll(bits);
  }
}

/* `least` is 0 where no result can be null. */
bool tsr__group_record_read(const tsr__reading *r, const tsr__group_record_state *state,
                            tsr__read_to *to)
{
  bool real = r->main >= 0 && r->plan->item[r->main].kind == TSR__RECORD_ROWS;
  if (r->least) read_result_nulls(r, state, to);
  switch (r->agg->op) {
  case TSR__GROUP_COUNT:
    for (int64_t i = 0; i < to->count; i++)
      put_whole_result(to, TSR_I64, i, count_at(r, state, to->from + i));
    return true;
  case TSR__GROUP_SUM:
    if (real) read_row_results(r, state, to);
    else if (tsr__dtype_integer(r->dtype)) return read_integer_sums(r, state, to);
    else read_unit_sums(r, state, to);
    return true;
  case TSR__GROUP_MEAN: (real ? read_row_results : read_unit_means)(r, state, to); return true;
  case TSR__GROUP_VAR:
  case TSR__GROUP_STD: (real ? read_row_results : read_unit_spreads)(r, state, to); return true;
  case TSR__GROUP_CORR:
    /* An integer's own sums are whole numbers, whatever the float's are. */
    real = r->plan->item[r->both].kind == TSR__RECORD_ROWS2;
    (real ? read_row_correlations : read_correlations)(r, state, to);
    return true;
  case TSR__GROUP_ANY:
  case TSR__GROUP_ALL: read_truth(r, state, to); return true;
  default: read_keys(r, state, to); return true;
  }
}
