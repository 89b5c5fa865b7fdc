/* Partials meet: members send theirs to the leader, which rounds each result once, and get it back.
 *
 * Invariant: what is sent is exact, so neither the number of members nor their order can show
 * (products of floats excepted: they are multiplied in order of the members). */
#include "kernel/tile/partial.h"

#include <math.h>

/* One result being read from its accumulators. */
typedef struct final {
  const tsr__gnode *node;
  const tsr__reduce_attr *attr;     /* of it */
  const tsr__partial *main, *count; /* count: NULL = all outputs have `population` */
  int64_t population, elements;
  void *out;
} final;

static int64_t count_at(const final *f, int64_t i)
{
  return f->count ? ((const int64_t *)f->count->data)[i] : f->population;
}

static bool is_mean(const final *f)
{
  return tsr__ops[f->node->op].finish == TSR__FINISH_MEAN;
}

static bool is_root(const final *f)
{
  return tsr__ops[f->node->op].finish == TSR__FINISH_STD;
}

/* ---- floats ---------------------------------------------------------------------------------- */

static void read_scalar(const final *f)
{
  tsr_dtype to = (tsr_dtype)f->node->dtype;
  const tsr__acc *acc = f->main->data;
  const tsr__spread *spread = f->main->data;
  int64_t n = count_at(f, 0), ddof = f->attr->ddof;
  double value;
  if (f->main->form == TSR__FORM_ACC)
    value = is_mean(f) ? tsr__acc_mean(acc, n, to) : tsr__acc_sum(acc, to);
  else if (is_root(f)) value = tsr__acc_std(&spread->sum, &spread->squares, n, ddof, to);
  else value = tsr__acc_var(&spread->sum, &spread->squares, n, ddof, to);
  tsr__dtype_put_real(to, f->out, 0, value);
}

static void read_rows(const final *f)
{
  const tsr__rows *rows = f->main->rows;
  tsr__rows_read how = { .to = (tsr_dtype)f->node->dtype,
                         .n = f->population,
                         .counts = f->count ? f->count->data : NULL,
                         .ddof = f->attr->ddof,
                         .root = is_root(f) };
  if (f->main->form == TSR__FORM_ROWS2) tsr__rows_spread(&rows[0], &rows[1], &how, f->out);
  else if (is_mean(f)) tsr__rows_mean(rows, &how, f->out);
  else tsr__rows_sum(rows, &how, f->out);
}

/* ---- integers and the rest ------------------------------------------------------------------- */

static void put_whole(const final *f, int64_t i, int64_t value)
{
  if (f->node->dtype == TSR_BOOL) tsr__bits_put(f->out, i, 1, (uint64_t)(value != 0));
  else tsr__dtype_put_whole((tsr_dtype)f->node->dtype, f->out, i, value);
}

static void put_real(const final *f, int64_t i, double value)
{
  tsr__dtype_put_real((tsr_dtype)f->node->dtype, f->out, i, value);
}

/* Whether a sum leaves the range of its dtype, which is i64 or u64. */
static bool leaves(const final *f, tsr__i128 sum)
{
  if (f->node->dtype == TSR_U64) return sum > UINT64_MAX || sum < 0;
  return sum > INT64_MAX || sum < INT64_MIN;
}

static tsr_status read_i128(const final *f, tsr__error *error)
{
  const tsr__i128 *sum = f->main->data;
  for (int64_t i = 0; i < f->elements; i++) {
    if (is_mean(f)) {
      put_real(f, i, tsr__mean_i128(sum[i], count_at(f, i), (tsr_dtype)f->node->dtype));
    } else if (f->attr->checked && leaves(f, sum[i])) {
      char text[32];
      tsr__text_f64(text, tsr__i128_f64(sum[i]));
      return tsr__error_set(error, TSR_EVALUE,
                            "a sum of integers is %s, which does not fit %s; "
                            "cast the column to f64 first",
                            text, tsr_dtype_name((tsr_dtype)f->node->dtype));
    } else {
      put_whole(f, i, (int64_t)(uint64_t)(tsr__u128)sum[i]);
    }
  }
  return TSR_OK;
}

static void read_spread(const final *f)
{
  const tsr__int_spread *s = f->main->data;
  tsr_dtype to = (tsr_dtype)f->node->dtype;
  for (int64_t i = 0; i < f->elements; i++) {
    int64_t n = count_at(f, i), ddof = f->attr->ddof;
    double value = is_root(f) ? tsr__std_i128(s[i].sum, &s[i].squares, n, ddof, to)
                              : tsr__var_i128(s[i].sum, &s[i].squares, n, ddof, to);
    put_real(f, i, value);
  }
}

/* Keys of u64 are those of the number less 2^63. */
static void read_keys(const final *f)
{
  const int64_t *key = f->main->data;
  bool real = tsr__dtype_float((tsr_dtype)f->node->dtype);
  uint64_t turn = f->node->dtype == TSR_U64 ? UINT64_C(1) << 63 : 0;
  for (int64_t i = 0; i < f->elements; i++) {
    bool none = key[i] == TSR__KEY_NAN_MIN || key[i] == TSR__KEY_NAN_MAX;
    if (real) put_real(f, i, none ? (double)NAN : tsr__f64_of_key(key[i]));
    else put_whole(f, i, (int64_t)((uint64_t)key[i] ^ turn));
  }
}

static tsr_status read_final(const final *f, tsr__error *error)
{
  switch (f->main->form) {
  case TSR__FORM_ACC:
  case TSR__FORM_SPREAD: read_scalar(f); return TSR_OK;
  case TSR__FORM_ROWS:
  case TSR__FORM_ROWS2: read_rows(f); return TSR_OK;
  case TSR__FORM_I128: return read_i128(f, error);
  case TSR__FORM_ISPREAD: read_spread(f); return TSR_OK;
  case TSR__FORM_KEY: read_keys(f); return TSR_OK;
  case TSR__FORM_F64:
    for (int64_t i = 0; i < f->elements; i++) put_real(f, i, ((const double *)f->main->data)[i]);
    return TSR_OK;
  default:
    for (int64_t i = 0; i < f->elements; i++) put_whole(f, i, ((const int64_t *)f->main->data)[i]);
    return TSR_OK;
  }
}

/* ---- groups of devices ----------------------------------------------------------------------- */

static const tsr__partial *leaders(const tsr__all_reduce *c, int accum)
{
  for (int a = 0; a < c->accum_count; a++)
    if (c->accums[a] == accum) return c->partials[0][a];
  return NULL;
}

/* Bytes of a result as they travel: of bools, whole bytes. */
static size_t travel_bytes(int dtype, int64_t count)
{
  return dtype == TSR_BOOL ? (size_t)(count + 7) / 8
                           : (size_t)count * tsr_dtype_size((tsr_dtype)dtype);
}

/* The results of a slice of elements; a slice begins at a whole word of bools. */
static tsr_status read_slice(const final *all, int64_t first, int64_t count, tsr__error *error)
{
  final f = *all;
  int dtype = f.node->dtype;
  tsr__partial main = tsr__partial_slice(all->main, first, count), counts;
  f.main = &main;
  if (f.count) {
    counts = tsr__partial_slice(all->count, first, count);
    f.count = &counts;
  }
  f.out = (char *)f.out + travel_bytes(dtype, first);
  f.elements = count;
  return read_final(&f, error);
}

typedef struct finishing {
  const tsr__all_reduce *c;
  int k; /* which result */
  const final *f;
  tsr__progress *progress;
  tsr__traffic *traffic;
} finishing;

/* All results, and their way to the other devices. */
static tsr_status read_all(const finishing *all, tsr__error *error)
{
  const tsr__all_reduce *c = all->c;
  const final *f = all->f;
  for (int64_t at = 0; at < f->elements; at += TSR__PARTIAL_SLICE) {
    int64_t left = f->elements - at, count = left < TSR__PARTIAL_SLICE ? left : TSR__PARTIAL_SLICE;
    if (tsr__progress_stops(all->progress, 0)) return tsr__cancelled(error, TSR__PROGRAM);
    tsr_status status = read_slice(f, at, count, error);
    if (status) return status;
    size_t begin = travel_bytes(f->node->dtype, at), bytes = travel_bytes(f->node->dtype, count);
    for (int m = 1; m < c->member_count; m++)
      tsr__cpu_move(&(tsr__transfer){ (char *)c->outputs[m][all->k]->data + begin,
                                      (char *)f->out + begin, bytes, c->devices[m], c->devices[0] },
                    all->traffic);
  }
  return TSR_OK;
}

static tsr_status finish(const tsr__all_reduce *c, int k, tsr__progress *progress,
                         tsr__traffic *traffic, tsr__error *error)
{
  int n = c->finals[k];
  int count = c->schedule->final_count[n];
  final f = { .node = &c->program->nodes[n],
              .attr = tsr__reduce_of(c->program, &c->program->nodes[n]),
              .main = leaders(c, c->schedule->final_main[n]),
              .count = count < 0 ? NULL : leaders(c, count),
              .population = c->populations[k],
              .elements = c->out_counts[k],
              .out = c->outputs[0][k]->data };
  TSR_INVARIANT(f.main && (count < 0 || f.count));
  if (f.main->rows[0].failed || f.main->rows[1].failed)
    return tsr__error_set(error, TSR_ENOMEM,
                          "no memory left for sums that do not fit three doubles");
  return read_all(&(finishing){ c, k, &f, progress, traffic }, error);
}

tsr_status tsr__cpu_all_reduce(const tsr__all_reduce *c, tsr__traffic *traffic, tsr__error *error)
{
  const tsr__tiles *tiles = tsr__cpu_of(c->rt)->tiles;
  tsr__progress progress = { .rt = c->rt, .what = TSR__PROGRAM };
  for (int a = 0; a < c->accum_count; a++)
    for (int m = 1; m < c->member_count; m++)
      if (!tsr__partial_send(c->partials[0][a], c->partials[m][a], tiles, &progress, traffic))
        return tsr__error_set(error, TSR_ENOMEM,
                              "device %d has no memory to combine the partial "
                              "results of a reduction; free arrays",
                              c->devices[0]);
  if (progress.stop) return tsr__cancelled(error, TSR__PROGRAM);
  for (int k = 0; k < c->final_count; k++) {
    tsr_status status = finish(c, k, &progress, traffic, error);
    if (status) return status;
  }
  return TSR_OK;
}
