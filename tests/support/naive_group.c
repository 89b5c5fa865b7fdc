#include "support/naive_group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/exact/exact.h"
#include "oracle.h"

/* -1, 0, 1: NaN above all; `zeros` tells -0 from 0. */
static int order(tsr_dtype dtype, item a, item b, bool zeros)
{
  if (dtype == TSR_U64) return ((uint64_t)a.i > (uint64_t)b.i) - ((uint64_t)a.i < (uint64_t)b.i);
  if (!is_float(dtype)) return (a.i > b.i) - (a.i < b.i);
  if (isnan(a.f) || isnan(b.f)) return isnan(a.f) - isnan(b.f);
  if (a.f == 0 && b.f == 0 && zeros) return (signbit(b.f) != 0) - (signbit(a.f) != 0);
  return (a.f > b.f) - (a.f < b.f);
}

static _Thread_local tsr_dtype sort_dtype;
static int by_value(const void *a, const void *b)
{
  return order(sort_dtype, *(const item *)a, *(const item *)b, true);
}

static double real_of(tsr_dtype dtype, item x)
{
  if (dtype == TSR_U64) return (double)(uint64_t)x.i;
  return is_float(dtype) ? x.f : (double)x.i;
}

static expected naive_sorted(const item *items, int64_t n, tsr_dtype dtype,
                             const tsr__group_agg *agg)
{
  if (agg->op == TSR__GROUP_NUNIQUE) {
    int64_t distinct = n > 0;
    for (int64_t k = 1; k < n; k++) distinct += order(dtype, items[k - 1], items[k], false) != 0;
    return (expected){ false, { 0, distinct } };
  }
  if (!n) return (expected){ .null = true };
  double at = agg->q * (double)(n - 1);
  int64_t k = (int64_t)at;
  double low = real_of(dtype, items[k]);
  if (k + 1 >= n || at == (double)k) return (expected){ false, { low, 0 } };
  double high = real_of(dtype, items[k + 1]);
  if (low == high) return (expected){ false, { low, 0 } };
  if (isinf(low) && isfinite(high)) return (expected){ false, { low, 0 } };
  if (at - (double)k == 0.5) return (expected){ false, { (low + high) / 2, 0 } };
  return (expected){ false, { low + (high - low) * (at - (double)k), 0 } };
}

static double naive_spread(const group_items *group, const tally *t, const item *items, int op)
{
  bool real = is_float(group->dtype), root = op == TSR__GROUP_STD;
  tsr_dtype to = tsr__group_dtype(op, group->dtype);
  double told = tally_var(t, real, 1, root, to);
  if (!real) return told;
  tsr__acc sum = { 0 };
  tsr__acc2 squares = { 0 };
  for (int64_t k = 0; k < t->n; k++) {
    tsr__acc_add(&sum, items[k].f);
    tsr__acc2_add_square(&squares, items[k].f);
  }
  double found = (root ? tsr__acc_std : tsr__acc_var)(&sum, &squares, t->n, 1, to);
  if (group->tellable) CHECK_F64_BITS(found, told);
  return found;
}

static expected naive_moment(const group_items *group, const tally *t, const item *items, int op)
{
  expected out = { 0 };
  bool real = is_float(group->dtype);
  tsr_dtype to = tsr__group_dtype(op, group->dtype);
  if (op == TSR__GROUP_SUM) {
    if (real) out.value.f = tally_float_sum(t, to, 1);
    else out.value.i = (int64_t)t->isum;
  } else if (op == TSR__GROUP_MEAN) {
    out.null = !t->n;
    out.value.f = real ? tally_float_sum(t, to, (uint64_t)t->n) : int_mean(t);
  } else {
    out.null = t->n < 2;
    if (!out.null) out.value.f = naive_spread(group, t, items, op);
  }
  return out;
}

/* The values that are not null, tallied. */
typedef struct gathered {
  item *items, least, most;
  int64_t n;
  tally tally;
} gathered;

static int compare(const group_items *group, const tsr__group_agg *agg, item a, item b)
{
  if (agg->map) return agg->map[a.i] - agg->map[b.i];
  return order(group->dtype, a, b, true);
}

static void gather(const group_items *group, const tsr__group_agg *agg, gathered *out)
{
  dense one = { .dtype = group->dtype, .count = 1 };
  memset(out, 0, sizeof *out);
  out->items = calloc((size_t)group->count + 1, sizeof *out->items);
  for (int64_t k = 0; k < group->count; k++) {
    if (group->null && group->null[k]) continue;
    item x = group->items[k];
    one.f = &x.f;
    one.i = &x.i;
    tally_add(&out->tally, &one, 0);
    if (!out->n || compare(group, agg, x, out->least) < 0) out->least = x;
    if (!out->n || compare(group, agg, x, out->most) > 0) out->most = x;
    out->items[out->n++] = x;
  }
}

static bool true_at(const group_items *group, item x)
{
  return is_float(group->dtype) ? x.f != 0 : x.i != 0;
}

static expected of_values(const group_items *group, const tsr__group_agg *agg, gathered *v)
{
  expected out = { 0 };
  bool any = false, all = true;
  for (int64_t k = 0; k < v->n; k++) {
    any = any || true_at(group, v->items[k]);
    all = all && true_at(group, v->items[k]);
  }
  switch (agg->op) {
  case TSR__GROUP_COUNT: out.value.i = v->n; break;
  case TSR__GROUP_MIN: out = (expected){ !v->n, v->least }; break;
  case TSR__GROUP_MAX: out = (expected){ !v->n, v->most }; break;
  case TSR__GROUP_ANY: out.value.i = any; break;
  case TSR__GROUP_ALL: out.value.i = all; break;
  case TSR__GROUP_NUNIQUE:
  case TSR__GROUP_QUANTILE:
    sort_dtype = group->dtype;
    qsort(v->items, (size_t)v->n, sizeof *v->items, by_value);
    return naive_sorted(v->items, v->n, sort_dtype, agg);
  default: return naive_moment(group, &v->tally, v->items, agg->op);
  }
  return out;
}

expected naive_aggregate(const group_items *group, const tsr__group_agg *agg)
{
  gathered v;
  if (agg->column < 0) return (expected){ false, { 0, group->count } };
  if (agg->op == TSR__GROUP_FIRST || agg->op == TSR__GROUP_LAST) {
    int64_t k = agg->op == TSR__GROUP_FIRST ? 0 : group->count - 1;
    if (!group->count || (group->null && group->null[k])) return (expected){ .null = true };
    return (expected){ false, group->items[k] };
  }
  gather(group, agg, &v);
  expected out = of_values(group, agg, &v);
  free(v.items);
  return out;
}

static double corr_of(double a, double b, double c)
{
  double r = c / sqrt(a * b);
  return a > 0 && b > 0 ? fmin(fmax(r, -1), 1) : (double)NAN;
}

/* Of whole numbers: all fits 128 bits. */
static double corr_whole(const group_items *x, const group_items *y, double unit)
{
  tsr__i128 s[5] = { 0 }, n = 0;
  for (int64_t k = 0; k < x->count; k++) {
    if (x->null && x->null[k]) continue;
    tsr__i128 i = unit != 0 ? (int64_t)(x->items[k].f / unit) : x->items[k].i;
    tsr__i128 j = unit != 0 ? (int64_t)(y->items[k].f / unit) : y->items[k].i;
    s[0] += i, s[1] += j, s[2] += i * i, s[3] += j * j, s[4] += i * j, n++;
  }
  return corr_of((double)(n * s[2] - s[0] * s[0]), (double)(n * s[3] - s[1] * s[1]),
                 (double)(n * s[4] - s[0] * s[1]));
}

/* Products of an integer of 64 bits, in two halves that f64 holds, with a double. */
static void add_whole(tsr__acc2 *acc, const item *x, tsr_dtype dtype, double by)
{
  bool minus = dtype != TSR_U64 && x->i < 0;
  uint64_t size = minus ? 0 - (uint64_t)x->i : (uint64_t)x->i;
  double sign = minus ? -1 : 1;
  tsr__acc2_add_product(acc, sign * (double)(size >> 32) * 0x1p32, by);
  tsr__acc2_add_product(acc, sign * (double)(uint32_t)size, by);
}

static void add_square(tsr__acc2 *acc, const item *x, tsr_dtype dtype)
{
  bool minus = dtype != TSR_U64 && x->i < 0;
  double sign = minus ? -1 : 1;
  uint64_t size = minus ? 0 - (uint64_t)x->i : (uint64_t)x->i;
  add_whole(acc, x, dtype, sign * (double)(size >> 32) * 0x1p32);
  add_whole(acc, x, dtype, sign * (double)(uint32_t)size);
}

/* Of an integer and a float, whichever comes first. */
static double corr_mixed(const group_items *x, const group_items *y)
{
  static tsr__pair_sums sums;
  const group_items *whole = is_float(x->dtype) ? y : x, *real = is_float(x->dtype) ? x : y;
  int64_t n = 0;
  memset(&sums, 0, sizeof sums);
  for (int64_t k = 0; k < x->count; k++) {
    if (x->null && x->null[k]) continue;
    const item *i = &whole->items[k];
    double j = real->items[k].f;
    add_whole(&sums.x, i, whole->dtype, 1);
    add_square(&sums.xx, i, whole->dtype);
    add_whole(&sums.xy, i, whole->dtype, j);
    tsr__acc2_add(&sums.y, j);
    tsr__acc2_add_square(&sums.yy, j);
    n++;
  }
  return tsr__acc2_corr_f64(&sums, n);
}

expected naive_corr(const group_items *x, const group_items *y)
{
  static tsr__pair_sums sums;
  int64_t n = 0;
  bool finite = true;
  memset(&sums, 0, sizeof sums);
  for (int64_t k = 0; k < x->count; k++) {
    if (x->null && x->null[k]) continue;
    double i = is_float(x->dtype) ? x->items[k].f : 0, j = is_float(y->dtype) ? y->items[k].f : 0;
    finite = finite && isfinite(i) && isfinite(j);
    tsr__acc2_add(&sums.x, i);
    tsr__acc2_add(&sums.y, j);
    tsr__acc2_add_product(&sums.xx, i, i);
    tsr__acc2_add_product(&sums.yy, j, j);
    tsr__acc2_add_product(&sums.xy, i, j);
    n++;
  }
  expected out = { .null = n < 2 };
  if (n < 2) return out;
  if (is_float(x->dtype) != is_float(y->dtype)) out.value.f = corr_mixed(x, y);
  else if (!is_float(x->dtype)) out.value.f = corr_whole(x, y, 0);
  else out.value.f = tsr__acc2_corr_f64(&sums, n);
  if (!finite) CHECK(isnan(out.value.f));
  else if (is_float(x->dtype) && is_float(y->dtype) && x->tellable)
    CHECK_F64_BITS(out.value.f, corr_whole(x, y, 0x1p-10));
  return out;
}

bool naive_same(int op, tsr_dtype dtype, item found, const expected *e)
{
  if (!is_float(dtype)) return found.i == e->value.i;
  double want = dtype == TSR_F32 ? (double)(float)e->value.f : e->value.f;
  if (isnan(found.f)) return isnan(want);
  if (op == TSR__GROUP_QUANTILE && found.f == 0 && want == 0) return true;
  return memcmp(&found.f, &want, sizeof want) == 0;
}
