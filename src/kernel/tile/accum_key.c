/* Accumulators of the smallest and the largest element: order keys, which meet as integers
 * (interp_tile.h). */
#include "kernel/tile/accum.h"

#include <math.h>

static bool largest(const tsr__partial *p)
{
  return p->ops == &tsr__accum_MAX;
}

int64_t tsr__key_of_none(int dtype, bool largest)
{
  if (tsr__dtype_float((tsr_dtype)dtype))
    return tsr__key_of_f64(largest ? -(double)INFINITY : (double)INFINITY);
  const tsr__dtype_info *info = tsr__dtype_info_of((tsr_dtype)dtype);
  if (dtype == TSR_U64) return largest ? INT64_MIN : INT64_MAX; /* keys less 2^63 */
  int64_t most = (int64_t)((UINT64_C(1) << info->precision) - 1);
  if (!largest) return most;
  return info->kind == TSR__DTYPE_INT ? -most - 1 : 0;
}

static void no_keys(const tsr__partial *p, size_t from, size_t to)
{
  tsr__accum_fill(p, from, to, tsr__key_of_none(p->dtype, largest(p)));
}

/* ---- elements -------------------------------------------------------------------------------- */

static void across(const tsr__feed *f)
{
  tsr__extreme to = { (int64_t *)f->to->data + f->element, true, largest(f->to) };
  f->tiles->extreme[f->dtype](to, f->x, f->n, f->mask);
}

static void along(const tsr__feed *f)
{
  tsr__extreme to = { (int64_t *)f->to->data + f->element, false, largest(f->to) };
  f->tiles->extreme[f->dtype](to, f->x, f->n, f->mask);
}

static int64_t key_of(double value, bool most)
{
  if (value != value) return most ? TSR__KEY_NAN_MAX : TSR__KEY_NAN_MIN;
  return tsr__key_of_f64(value);
}

/* The key of each element of a run. */
static void keys_of(const tsr__feed *f, bool most, int64_t *key)
{
  switch (f->dtype) {
  case TSR_I32:
    for (int64_t i = 0; i < f->n; i++) key[i] = ((const int32_t *)f->x)[i];
    break;
  case TSR_I64: memcpy(key, f->x, (size_t)f->n * sizeof *key); break;
  case TSR_F32:
    for (int64_t i = 0; i < f->n; i++) key[i] = key_of((double)((const float *)f->x)[i], most);
    break;
  default:
    for (int64_t i = 0; i < f->n; i++) key[i] = key_of(((const double *)f->x)[i], most);
  }
}

static void scatter(const tsr__feed *f, const int32_t *codes)
{
  int64_t key[TSR__TILE], *best = f->to->data;
  bool most = largest(f->to);
  keys_of(f, most, key);
  for (int64_t i = 0; i < f->n; i++) {
    if (codes[i] < 0) continue;
    int64_t *now = best + codes[i];
    if (most ? key[i] > *now : key[i] < *now) *now = key[i];
  }
}

static void merge_least(const tsr__partial *p, void *into, const void *from)
{
  int64_t *to = into;
  const int64_t *of = from;
  for (int64_t i = 0; i < p->count; i++) to[i] = of[i] < to[i] ? of[i] : to[i];
}

static void merge_most(const tsr__partial *p, void *into, const void *from)
{
  int64_t *to = into;
  const int64_t *of = from;
  for (int64_t i = 0; i < p->count; i++) to[i] = of[i] > to[i] ? of[i] : to[i];
}

/* ---- travelling ------------------------------------------------------------------------------ */

/* A key travels as a value of its dtype. */
static uint64_t value_of_key(int dtype, int64_t key)
{
  if (!tsr__dtype_float((tsr_dtype)dtype)) return (uint64_t)key;
  bool none = key == TSR__KEY_NAN_MIN || key == TSR__KEY_NAN_MAX;
  uint64_t bits = 0;
  tsr__dtype_put_real((tsr_dtype)dtype, &bits, 0, none ? (double)NAN : tsr__f64_of_key(key));
  return bits;
}

static int64_t key_of_value(int dtype, uint64_t bits, bool most)
{
  if (!tsr__dtype_float((tsr_dtype)dtype)) return tsr__dtype_get_whole((tsr_dtype)dtype, &bits, 0);
  return key_of(tsr__dtype_get_real((tsr_dtype)dtype, &bits, 0), most);
}

static void pack(const tsr__partial *p, int64_t i, unsigned char *wire, size_t size)
{
  tsr__put_bytes(wire, value_of_key(p->dtype, ((const int64_t *)p->data)[i]), size);
}

static void unpack(const tsr__partial *p, const unsigned char *wire, size_t size, void *memory)
{
  *(int64_t *)memory = key_of_value(p->dtype, tsr__get_bytes(wire, size), largest(p));
}

/* ---- results --------------------------------------------------------------------------------- */

/* Keys of u64 are those of the number less 2^63. */
static tsr_status read(const tsr__final *f, tsr__error *error)
{
  (void)error;
  const int64_t *key = f->main->data;
  bool real = tsr__dtype_float((tsr_dtype)f->node->dtype);
  uint64_t turn = f->node->dtype == TSR_U64 ? UINT64_C(1) << 63 : 0;
  for (int64_t i = 0; i < f->elements; i++) {
    bool none = key[i] == TSR__KEY_NAN_MIN || key[i] == TSR__KEY_NAN_MAX;
    if (real) tsr__final_put_real(f, i, none ? (double)NAN : tsr__f64_of_key(key[i]));
    else tsr__final_put_whole(f, i, (int64_t)((uint64_t)key[i] ^ turn));
  }
  return TSR_OK;
}

const tsr__accum_ops tsr__accum_MIN = { .bytes = sizeof(int64_t),
                                        .none = no_keys,
                                        .across = across,
                                        .along = along,
                                        .scatter = scatter,
                                        .merge = merge_least,
                                        .pack = pack,
                                        .unpack = unpack,
                                        .read = read };

const tsr__accum_ops tsr__accum_MAX = { .bytes = sizeof(int64_t),
                                        .none = no_keys,
                                        .across = across,
                                        .along = along,
                                        .scatter = scatter,
                                        .merge = merge_most,
                                        .pack = pack,
                                        .unpack = unpack,
                                        .read = read };
