/* Accumulators: their memory, how two of them join, and what of one travels.
 *
 * Invariant: joining is exact and commutative for every class but the product of floats, so
 * neither tasks nor devices nor their order can show in a result. */
#include "kernel/tile/partial.h"

#include <math.h>

static int form_of(int cls, int dtype, bool scalar)
{
  switch (cls) {
  case TSR__ACC_SUM:
    return tsr__dtype_float((tsr_dtype)dtype) ? scalar ? TSR__FORM_ACC : TSR__FORM_ROWS
                                              : TSR__FORM_I128;
  case TSR__ACC_SQUARES:
    return tsr__dtype_float((tsr_dtype)dtype) ? scalar ? TSR__FORM_SPREAD : TSR__FORM_ROWS2
                                              : TSR__FORM_ISPREAD;
  case TSR__ACC_MIN:
  case TSR__ACC_MAX: return TSR__FORM_KEY;
  case TSR__ACC_PROD: return tsr__dtype_float((tsr_dtype)dtype) ? TSR__FORM_F64 : TSR__FORM_I64;
  default: return TSR__FORM_I64;
  }
}

static size_t form_size(int form)
{
  static const size_t size[] = { [TSR__FORM_ACC] = sizeof(tsr__acc),
                                 [TSR__FORM_SPREAD] = sizeof(tsr__spread),
                                 [TSR__FORM_ROWS] = 24,
                                 [TSR__FORM_ROWS2] = 48,
                                 [TSR__FORM_I128] = sizeof(tsr__i128),
                                 [TSR__FORM_ISPREAD] = sizeof(tsr__int_spread),
                                 [TSR__FORM_KEY] = 8,
                                 [TSR__FORM_F64] = 8,
                                 [TSR__FORM_I64] = 8 };
  return size[form];
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

void tsr__partial_plan(tsr__partial *partial, int cls, int dtype, bool scalar, int64_t count)
{
  partial->cls = (uint8_t)cls;
  partial->dtype = (uint8_t)dtype;
  partial->scalar = scalar;
  partial->form = (uint8_t)form_of(cls, dtype, scalar);
  partial->count = count;
  partial->bytes = form_size(partial->form) * (size_t)count;
}

static int rows_of(const tsr__partial *p)
{
  return p->form == TSR__FORM_ROWS ? 1 : p->form == TSR__FORM_ROWS2 ? 2 : 0;
}

/* The word that an accumulator of no value is full of. */
static int64_t word_of_none(const tsr__partial *p)
{
  const double no_sum = -0.0, product = 1;
  int64_t word = p->cls == TSR__ACC_PROD || p->cls == TSR__ACC_ALL;
  if (rows_of(p)) memcpy(&word, &no_sum, sizeof word);
  else if (p->form == TSR__FORM_KEY) word = tsr__key_of_none(p->dtype, p->cls == TSR__ACC_MAX);
  else if (p->form == TSR__FORM_F64) memcpy(&word, &product, sizeof word);
  return word;
}

static void take_data(tsr__partial *p, tsr__heap *heap)
{
  for (int i = 0; i < rows_of(p); i++)
    tsr__rows_over(&p->rows[i], heap, (char *)p->data + (size_t)i * tsr__rows_bytes(p->count),
                   p->count);
}

static void fill_words(const tsr__partial *p, size_t from, size_t to)
{
  int64_t *word = p->data, none = word_of_none(p);
  for (size_t i = from; i < to; i++) word[i] = none;
}

void tsr__partial_start(tsr__partial *p, tsr__heap *heap)
{
  take_data(p, heap);
  fill_words(p, 0, p->bytes / sizeof(int64_t));
}

void tsr__partial_stop(tsr__partial *p)
{
  if (p->form != TSR__FORM_ROWS && p->form != TSR__FORM_ROWS2) return;
  tsr__rows_free(&p->rows[0]);
  if (p->form == TSR__FORM_ROWS2) tsr__rows_free(&p->rows[1]);
}

/* ---- joining --------------------------------------------------------------------------------- */

static void merge_words(int cls, int64_t *into, const int64_t *from, int64_t count)
{
  switch (cls) {
  case TSR__ACC_MIN:
    for (int64_t i = 0; i < count; i++) into[i] = from[i] < into[i] ? from[i] : into[i];
    break;
  case TSR__ACC_MAX:
    for (int64_t i = 0; i < count; i++) into[i] = from[i] > into[i] ? from[i] : into[i];
    break;
  case TSR__ACC_PROD:
    for (int64_t i = 0; i < count; i++) into[i] = (int64_t)((uint64_t)into[i] * (uint64_t)from[i]);
    break;
  case TSR__ACC_ANY:
    for (int64_t i = 0; i < count; i++) into[i] |= from[i];
    break;
  case TSR__ACC_ALL:
    for (int64_t i = 0; i < count; i++) into[i] &= from[i];
    break;
  default:
    for (int64_t i = 0; i < count; i++) into[i] += from[i];
  }
}

/* Joins elements in the form they have in memory; rows are joined by the caller. */
static void merge_data(const tsr__partial *p, void *into, const void *from)
{
  if (p->form == TSR__FORM_ACC) {
    tsr__acc_merge(into, from);
  } else if (p->form == TSR__FORM_SPREAD) {
    tsr__spread *to = into;
    const tsr__spread *of = from;
    tsr__acc_merge(&to->sum, &of->sum);
    tsr__acc2_merge(&to->squares, &of->squares);
  } else if (p->form == TSR__FORM_I128) {
    tsr__i128 *to = into;
    const tsr__i128 *of = from;
    for (int64_t i = 0; i < p->count; i++) to[i] = (tsr__i128)((tsr__u128)to[i] + (tsr__u128)of[i]);
  } else if (p->form == TSR__FORM_ISPREAD) {
    tsr__int_spread *to = into;
    const tsr__int_spread *of = from;
    for (int64_t i = 0; i < p->count; i++) {
      to[i].sum = (tsr__i128)((tsr__u128)to[i].sum + (tsr__u128)of[i].sum);
      tsr__isq_merge(&to[i].squares, &of[i].squares);
    }
  } else if (p->form == TSR__FORM_F64) {
    double *to = into;
    const double *of = from;
    for (int64_t i = 0; i < p->count; i++) to[i] *= of[i];
  } else {
    merge_words(p->cls, into, from, p->count);
  }
}

bool tsr__partial_merge(tsr__partial *into, const tsr__partial *from, const tsr__tiles *tiles)
{
  bool good = true;
  for (int i = 0; i < rows_of(into); i++) {
    tiles->exact->rows_merge(&into->rows[i], 0, &from->rows[i]);
    good = good && !into->rows[i].failed && !from->rows[i].failed;
  }
  if (!rows_of(into)) merge_data(into, into->data, from->data);
  return good;
}

/* ---- travelling ------------------------------------------------------------------------------ */

static void put_bytes(unsigned char *to, uint64_t value, size_t size)
{
  for (size_t i = 0; i < size; i++) to[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get_bytes(const unsigned char *from, size_t size)
{
  uint64_t value = 0;
  for (size_t i = 0; i < size; i++) value |= (uint64_t)from[i] << (8 * i);
  return value;
}

/* A min or max travels as a value of its dtype. */
static uint64_t value_of_key(int dtype, int64_t key)
{
  if (!tsr__dtype_float((tsr_dtype)dtype)) return (uint64_t)key;
  bool none = key == TSR__KEY_NAN_MIN || key == TSR__KEY_NAN_MAX;
  uint64_t bits = 0;
  tsr__dtype_put_real((tsr_dtype)dtype, &bits, 0, none ? (double)NAN : tsr__f64_of_key(key));
  return bits;
}

static int64_t key_of_value(int dtype, uint64_t bits, bool largest)
{
  if (!tsr__dtype_float((tsr_dtype)dtype)) return tsr__dtype_get_whole((tsr_dtype)dtype, &bits, 0);
  double value = tsr__dtype_get_real((tsr_dtype)dtype, &bits, 0);
  if (value != value) return largest ? TSR__KEY_NAN_MAX : TSR__KEY_NAN_MIN;
  return tsr__key_of_f64(value);
}

/* One element of a form that is not its own wire form: packs into `wire` and unpacks to memory. */
static void pack(const tsr__partial *p, int64_t i, unsigned char *wire, size_t size)
{
  const int64_t *word = p->data;
  if (p->form == TSR__FORM_ACC) {
    tsr__acc_pack(p->data, wire);
  } else if (p->form == TSR__FORM_SPREAD) {
    const tsr__spread *spread = p->data;
    tsr__acc_pack(&spread->sum, wire);
    tsr__acc2_pack(&spread->squares, wire + TSR__ACC_WIRE);
  } else if (p->form == TSR__FORM_ISPREAD) {
    const tsr__int_spread *spread = (const tsr__int_spread *)p->data + i;
    memcpy(wire, &spread->sum, 16);
    memcpy(wire + 16, &spread->squares, 24);
  } else if (p->form == TSR__FORM_KEY) {
    put_bytes(wire, value_of_key(p->dtype, word[i]), size);
  } else {
    put_bytes(wire, (uint64_t)word[i], size);
  }
}

static void unpack(const tsr__partial *p, const unsigned char *wire, size_t size, void *memory)
{
  int64_t *word = memory;
  if (p->form == TSR__FORM_ACC) {
    tsr__acc_unpack(memory, wire);
  } else if (p->form == TSR__FORM_SPREAD) {
    tsr__spread *spread = memory;
    tsr__acc_unpack(&spread->sum, wire);
    tsr__acc2_unpack(&spread->squares, wire + TSR__ACC_WIRE);
  } else if (p->form == TSR__FORM_ISPREAD) {
    tsr__int_spread *spread = memory;
    memcpy(&spread->sum, wire, 16);
    memcpy(&spread->squares, wire + 16, 24);
  } else if (p->form == TSR__FORM_KEY) {
    *word = key_of_value(p->dtype, get_bytes(wire, size), p->cls == TSR__ACC_MAX);
  } else {
    uint64_t value = get_bytes(wire, size);
    *word = size == 4 ? (int32_t)(uint32_t)value : (int64_t)value;
  }
}

/* Escapes travel after the fixed part, each with its element's number. */
static bool send_escapes(tsr__partial *to_partial, const tsr__partial *from_partial, int k,
                         tsr__traffic *traffic)
{
  tsr__rows *into = &to_partial->rows[k];
  const tsr__rows *from = &from_partial->rows[k];
  int to = to_partial->device, from_device = from_partial->device;
  for (size_t i = 0; i < from->escape_count; i++) {
    unsigned char out[TSR__ESCAPE_WIRE], in[TSR__ESCAPE_WIRE];
    put_bytes(out, (uint64_t)from->escape[i].element, 8);
    tsr__acc2_pack(&from->escape[i].sum, out + 8);
    tsr__cpu_move(&(tsr__transfer){ in, out, sizeof in, to, from_device }, traffic);
    if (to != from_device && traffic) traffic->escapes += (int64_t)sizeof in;
    tsr__acc2 sum;
    tsr__acc2_unpack(&sum, in + 8);
    tsr__rows_escape(into, (int64_t)get_bytes(in, 8), &sum);
  }
  return !into->failed && !from->failed;
}

tsr__partial tsr__partial_slice(const tsr__partial *p, int64_t first, int64_t count)
{
  tsr__partial slice = *p;
  if (rows_of(p))
    for (int k = 0; k < rows_of(p); k++) slice.rows[k] = tsr__rows_slice(&p->rows[k], first, count);
  else slice.data = (char *)p->data + (size_t)first * form_size(p->form);
  slice.count = count;
  return slice;
}

/* A part at a time, through a stage on the other device. */
static bool send_rows(tsr__partial *into, const tsr__partial *from, const tsr__tiles *tiles,
                      tsr__progress *progress, tsr__traffic *traffic)
{
  tsr__pool *pool =
      tsr__devices_of(into->rt)->pools[into->device - tsr__devices_of(into->rt)->first];
  int64_t most = from->count < TSR__PARTIAL_SLICE ? from->count : TSR__PARTIAL_SLICE;
  size_t bytes = tsr__rows_bytes(most ? most : 1);
  void *stage = tsr__pool_take(pool, bytes);
  if (!stage) return false;
  bool good = true;
  for (int k = 0; k < rows_of(from); k++) {
    for (int64_t at = 0; at < from->count && !tsr__progress_stops(progress, 0); at += most) {
      tsr__rows copy, slice;
      slice =
          tsr__rows_slice(&from->rows[k], at, from->count - at < most ? from->count - at : most);
      tsr__rows_over(&copy, slice.heap, stage, slice.count);
      for (int i = 0; i < 3; i++)
        tsr__cpu_move(&(tsr__transfer){ copy.part[i], slice.part[i],
                                        (size_t)slice.count * sizeof(double), into->device,
                                        from->device },
                      traffic);
      tiles->exact->rows_merge(&into->rows[k], at, &copy);
    }
    good = send_escapes(into, from, k, traffic) && good;
  }
  tsr__pool_give(pool, stage, bytes);
  return good;
}

bool tsr__partial_send(tsr__partial *into, const tsr__partial *from, const tsr__tiles *tiles,
                       tsr__progress *progress, tsr__traffic *traffic)
{
  if (rows_of(into)) return send_rows(into, from, tiles, progress, traffic);
  unsigned char out[TSR__WIRE_SQUARES], in[TSR__WIRE_SQUARES];
  size_t size = (size_t)tsr__wire_bytes(from->cls, from->dtype, 1, from->scalar);
  const tsr__transfer carry = { in, out, size, into->device, from->device };
  tsr__partial one = *into;
  union {
    tsr__spread spread;
    tsr__int_spread whole;
    int64_t word;
  } memory;
  one.count = 1;
  for (int64_t i = 0; i < from->count; i++) {
    if (i % TSR__PARTIAL_SLICE == TSR__PARTIAL_SLICE - 1 && tsr__progress_stops(progress, 0)) break;
    if (from->form == TSR__FORM_I128) {
      memcpy(out, (const tsr__i128 *)from->data + i, size);
      tsr__cpu_move(&carry, traffic);
      memcpy(&memory, in, size);
    } else {
      pack(from, i, out, size);
      tsr__cpu_move(&carry, traffic);
      unpack(from, in, size, &memory);
    }
    merge_data(&one, (char *)into->data + (size_t)i * form_size(into->form), &memory);
  }
  return true;
}

/* ---- a device's ------------------------------------------------------------------------------ */

/* The header lies before the data, in one block of the device's pool. */
enum { HEADER = (sizeof(tsr__partial) + 63) / 64 * 64 };

enum { FILLED = 1 << 17 }; /* words that a task fills: fresh memory is slow */

static void fill_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const tsr__partial *p = user;
  size_t all = p->bytes / sizeof(int64_t), from = (size_t)task * FILLED;
  fill_words(p, from, all - from < FILLED ? all : from + FILLED);
}

tsr__partial *tsr__partial_new(tsr_runtime *rt, const tsr__partial_ask *ask, tsr__error *error)
{
  const tsr__devices *devices = tsr__devices_of(rt);
  const tsr__accum *accum = ask->accum;
  tsr__partial plan = { .rt = rt, .device = ask->device };
  bool scalar = tsr__reduces_to_one(ask->program, &ask->program->nodes[accum->node]);
  tsr__partial_plan(&plan, accum->cls, accum->dtype, scalar, ask->count);
  tsr__partial *p =
      tsr__pool_take(devices->pools[ask->device - devices->first], HEADER + plan.bytes);
  if (!p) {
    tsr__error_set(error, TSR_ENOMEM,
                   "device %d has no memory for the %lld partial results of a "
                   "reduction; free arrays or raise .memory_limit",
                   ask->device, (long long)ask->count);
    return NULL;
  }
  *p = plan;
  p->data = (char *)p + HEADER;
  take_data(p, &rt->heap);
  int64_t tasks = (int64_t)((p->bytes / sizeof(int64_t) + FILLED - 1) / FILLED);
  if (tasks <= 1) fill_words(p, 0, p->bytes / sizeof(int64_t));
  else if (!tsr__parallel_long(rt, TSR__PROGRAM, tasks, fill_task, p)) {
    tsr__partial_free(p);
    tsr__cancelled(error, TSR__PROGRAM);
    return NULL;
  }
  return p;
}

void tsr__partial_free(tsr__partial *p)
{
  if (!p) return;
  const tsr__devices *devices = tsr__devices_of(p->rt);
  tsr__partial_stop(p);
  tsr__pool_give(devices->pools[p->device - devices->first], p, HEADER + p->bytes);
}
