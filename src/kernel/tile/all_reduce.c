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
  return f->node->op == TSR__OP_MEAN;
}

static bool is_root(const final *f)
{
  return f->node->op == TSR__OP_STD;
}

/* ---- floats ------------------------------------------------------------------------------------------- */

static void read_scalar(const final *f)
{
  bool wide = f->node->dtype == TSR_F64;
  double *out = f->out;
  float *narrow = f->out;
  const tsr__acc *acc = f->main->data;
  const tsr__spread *spread = f->main->data;
  int64_t n = count_at(f, 0), ddof = f->attr->ddof;
  if (f->main->form == TSR__FORM_ACC) {
    if (is_mean(f) && wide) *out = tsr__acc_mean_f64(acc, n);
    else if (is_mean(f)) *narrow = tsr__acc_mean_f32(acc, n);
    else if (wide) *out = tsr__acc_f64(acc);
    else *narrow = tsr__acc_f32(acc);
  } else if (is_root(f)) {
    if (wide) *out = tsr__acc_std_f64(&spread->sum, &spread->squares, n, ddof);
    else *narrow = tsr__acc_std_f32(&spread->sum, &spread->squares, n, ddof);
  } else {
    if (wide) *out = tsr__acc_var_f64(&spread->sum, &spread->squares, n, ddof);
    else *narrow = tsr__acc_var_f32(&spread->sum, &spread->squares, n, ddof);
  }
}

static void read_rows(const final *f)
{
  bool wide = f->node->dtype == TSR_F64;
  const tsr__rows *rows = f->main->rows;
  tsr__rows_read how = { .n = f->population,
                         .counts = f->count ? f->count->data : NULL,
                         .ddof = f->attr->ddof,
                         .root = is_root(f) };
  if (f->main->form == TSR__FORM_ROWS2) {
    if (wide) tsr__rows_spread_f64(&rows[0], &rows[1], &how, f->out);
    else tsr__rows_spread_f32(&rows[0], &rows[1], &how, f->out);
  } else if (is_mean(f)) {
    if (wide) tsr__rows_mean_f64(rows, &how, f->out);
    else tsr__rows_mean_f32(rows, &how, f->out);
  } else {
    if (wide) tsr__rows_sum_f64(rows, f->out);
    else tsr__rows_sum_f32(rows, f->out);
  }
}

/* ---- integers and the rest ------------------------------------------------------------------------------- */

static void put_whole(const final *f, int64_t i, int64_t value)
{
  if (f->node->dtype == TSR_BOOL) tsr__bits_put(f->out, i, 1, (uint64_t)(value != 0));
  else if (f->node->dtype == TSR_I32) ((int32_t *)f->out)[i] = (int32_t)(uint32_t)(uint64_t)value;
  else ((int64_t *)f->out)[i] = value;
}

static void put_real(const final *f, int64_t i, double value)
{
  if (f->node->dtype == TSR_F32) ((float *)f->out)[i] = (float)value;
  else ((double *)f->out)[i] = value;
}

static tsr_status read_i128(const final *f, tsr__error *error)
{
  const tsr__i128 *sum = f->main->data;
  for (int64_t i = 0; i < f->elements; i++) {
    bool outside = sum[i] > INT64_MAX || sum[i] < INT64_MIN;
    if (f->node->op == TSR__OP_MEAN) {
      if (f->node->dtype == TSR_F32)
        ((float *)f->out)[i] = tsr__mean_i128_f32(sum[i], count_at(f, i));
      else ((double *)f->out)[i] = tsr__mean_i128_f64(sum[i], count_at(f, i));
    } else if (outside && f->attr->checked) {
      char text[32];
      tsr__text_f64(text, tsr__i128_f64(sum[i]));
      return tsr__error_set(error, TSR_EVALUE,
                            "a sum of integers is %s, which does not fit i64; "
                            "cast the column to f64 first",
                            text);
    } else {
      put_whole(f, i, (int64_t)(uint64_t)(tsr__u128)sum[i]);
    }
  }
  return TSR_OK;
}

static void read_spread(const final *f)
{
  const tsr__int_spread *s = f->main->data;
  int64_t ddof = f->attr->ddof;
  for (int64_t i = 0; i < f->elements; i++) {
    int64_t n = count_at(f, i);
    if (f->node->dtype == TSR_F64)
      ((double *)f->out)[i] = is_root(f) ? tsr__std_i128_f64(s[i].sum, &s[i].squares, n, ddof)
                                         : tsr__var_i128_f64(s[i].sum, &s[i].squares, n, ddof);
    else
      ((float *)f->out)[i] = is_root(f) ? tsr__std_i128_f32(s[i].sum, &s[i].squares, n, ddof)
                                        : tsr__var_i128_f32(s[i].sum, &s[i].squares, n, ddof);
  }
}

static void read_keys(const final *f)
{
  const int64_t *key = f->main->data;
  bool real = tsr__dtype_float((tsr_dtype)f->node->dtype);
  for (int64_t i = 0; i < f->elements; i++) {
    bool none = key[i] == TSR__KEY_NAN_MIN || key[i] == TSR__KEY_NAN_MAX;
    if (real) put_real(f, i, none ? (double)NAN : tsr__f64_of_key(key[i]));
    else put_whole(f, i, key[i]);
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

/* ---- groups of devices ------------------------------------------------------------------------------------ */

static const tsr__partial *leaders(const tsr__combine *c, int accum)
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
  const tsr__combine *c;
  int k; /* which result */
  const final *f;
  tsr__progress *progress;
  tsr__traffic *traffic;
} finishing;

/* All results, and their way to the other devices. */
static tsr_status read_all(const finishing *all, tsr__error *error)
{
  const tsr__combine *c = all->c;
  const final *f = all->f;
  for (int64_t at = 0; at < f->elements; at += TSR__PARTIAL_SLICE) {
    int64_t left = f->elements - at, count = left < TSR__PARTIAL_SLICE ? left : TSR__PARTIAL_SLICE;
    if (tsr__progress_stops(all->progress, 0)) return tsr__cancelled(error, TSR__PROGRAM);
    tsr_status status = read_slice(f, at, count, error);
    if (status) return status;
    size_t begin = travel_bytes(f->node->dtype, at), bytes = travel_bytes(f->node->dtype, count);
    for (int m = 1; m < c->member_count; m++)
      tsr__cpu_move(&(tsr__carry){ (char *)c->outputs[m][all->k]->data + begin,
                                   (char *)f->out + begin, bytes, c->devices[m], c->devices[0] },
                    all->traffic);
  }
  return TSR_OK;
}

static tsr_status finish(const tsr__combine *c, int k, tsr__progress *progress,
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

tsr_status tsr__cpu_combine(const tsr__combine *c, tsr__traffic *traffic, tsr__error *error)
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
