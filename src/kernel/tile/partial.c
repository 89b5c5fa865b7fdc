/* Accumulators: their memory, how two of them join, and their wire form.
 *
 * Invariant: joining is exact and commutative for every class but the product of floats, so
 * neither tasks nor devices nor their order can show in a result.
 *
 * In the pool of its device:
 *
 *    header | data: rows[0] | rows[1], or count elements of ops->bytes      one block
 *    escapes of its rows, sums that no three doubles hold                   in the heap */
#include "kernel/tile/accum.h"

/* Only numbers: the memory may be a device's or a task's own. `rt`, `device` and `data` are the
 * caller's to set. `data` must have `bytes` bytes, without a header. */
void tsr__partial_plan(tsr__partial *partial, int row, int dtype, int64_t count)
{
  partial->row = (uint8_t)row;
  partial->dtype = (uint8_t)dtype;
  partial->ops = tsr__accum_table[row];
  partial->count = count;
  partial->bytes = partial->ops->bytes * (size_t)count;
}

/*    data   rows[0]: part 0 | part 1 | part 2 | rows[1]: part 0 ...      of classes with rows */
static void take_data(tsr__partial *p, tsr__heap *heap)
{
  for (int i = 0; i < p->ops->rows; i++)
    tsr__rows_over(&p->rows[i], heap, (char *)p->data + (size_t)i * tsr__rows_bytes(p->count),
                   p->count);
}

void tsr__partial_start(tsr__partial *p, tsr__heap *heap)
{
  take_data(p, heap);
  p->ops->none(p, 0, p->bytes / sizeof(int64_t));
}

/* Only escapes lie in the heap; `data` is the caller's. */
void tsr__partial_stop(tsr__partial *p)
{
  for (int i = 0; i < p->ops->rows; i++) tsr__rows_free(&p->rows[i]);
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Sums in rows join by their own function, all else by the row's `merge`; no class has both. */
bool tsr__partial_merge(tsr__partial *into, const tsr__partial *from, const tsr__tiles *tiles)
{
  bool good = true;
  for (int i = 0; i < into->ops->rows; i++) {
    tiles->exact->rows_merge(&into->rows[i], 0, &from->rows[i]);
    good = good && !into->rows[i].failed && !from->rows[i].failed;
  }
  if (into->ops->merge) into->ops->merge(into, into->data, from->data);
  return good;
}

/* ---- travelling ------------------------------------------------------------------------------ */

/* Escapes travel after the fixed part, each with its element's number. Their bytes are counted as
 * they go: their number depends on the data, so they are counted apart from the explained bytes. */
static bool send_escapes(const tsr__sending *s, int k)
{
  tsr__rows *into = &s->into->rows[k];
  const tsr__rows *from = &s->from->rows[k];
  int to = s->into->device, from_device = s->from->device;
  for (size_t i = 0; i < from->escape_count; i++) {
    unsigned char out[TSR__ESCAPE_WIRE], in[TSR__ESCAPE_WIRE];
    int64_t element = from->escape[i].element;
    /* A piece sends only its own elements' escapes. */
    if (element < s->first || element >= s->first + s->count) continue;
    tsr__put_bytes(out, (uint64_t)element, 8);
    tsr__acc2_pack(&from->escape[i].sum, out + 8);
    tsr__cpu_move(&(tsr__transfer){ in, out, sizeof in, to, from_device, false }, s->traffic);
    if (to != from_device && s->traffic) s->traffic->escapes += (int64_t)sizeof in;
    tsr__acc2 sum;
    tsr__acc2_unpack(&sum, in + 8);
    tsr__rows_escape(into, (int64_t)tsr__get_bytes(in, 8), &sum);
  }
  return !into->failed && !from->failed;
}

/* A view: it owns nothing, shares the data, and must not be stopped. */
tsr__partial tsr__partial_slice(const tsr__partial *p, int64_t first, int64_t count)
{
  tsr__partial slice = *p;
  if (p->ops->rows)
    for (int k = 0; k < p->ops->rows; k++)
      slice.rows[k] = tsr__rows_slice(&p->rows[k], first, count);
  else slice.data = (char *)p->data + (size_t)first * p->ops->bytes;
  slice.count = count;
  return slice;
}

/* A part at a time, through a stage on the other device. Three copies a slice, one for each part,
 * and a merge on the other side. A stage as large as a slice is all the memory that combining
 * takes. */
static bool send_partial_rows(const tsr__sending *s)
{
  tsr__partial *into = s->into;
  int64_t most = s->count < TSR__PARTIAL_SLICE ? s->count : TSR__PARTIAL_SLICE;
  int64_t end = s->first + s->count;
  size_t bytes = tsr__rows_bytes(most ? most : 1);
  /* The stage is the receiving device's: that is where the memory limit is to count it. */
  tsr__error none = { .status = TSR_OK };
  tsr__buffer *stage = tsr__cpu_take(into->rt, into->device, bytes, &none);
  if (!stage) return false;
  bool good = true;
  for (int k = 0; k < into->ops->rows; k++) {
    for (int64_t at = s->first; at < end && !tsr__progress_stops(s->progress, 0); at += most) {
      tsr__rows copy, slice;
      slice = tsr__rows_slice(&s->from->rows[k], at, end - at < most ? end - at : most);
      tsr__rows_over(&copy, slice.heap, tsr__cpu_data(stage), slice.count);
      for (int i = 0; i < 3; i++)
        tsr__cpu_move(&(tsr__transfer){ copy.part[i], slice.part[i],
                                        (size_t)slice.count * sizeof(double), into->device,
                                        s->from->device, false },
                      s->traffic);
      s->tiles->exact->rows_merge(&into->rows[k], at, &copy);
    }
    good = send_escapes(s, k) && good;
  }
  tsr__buffer_release(stage);
  return good;
}

bool tsr__partial_send(const tsr__sending *s)
{
  const tsr__partial *from = s->from;
  const tsr__accum_ops *ops = from->ops;
  if (ops->rows) return send_partial_rows(s);
  unsigned char out[TSR__WIRE_SQUARES], in[TSR__WIRE_SQUARES];
  size_t size = (size_t)tsr__wire_bytes(from->row, from->dtype, 1);
  const tsr__transfer carry = { in, out, size, s->into->device, from->device, false };
  tsr__partial one = *s->into;
  /* The largest type that `unpack` writes, aligned for 128-bit integers. */
  union {
    tsr__spread largest;
    tsr__i128 aligned;
  } memory;
  one.count = 1;
  /* One element at a time by way of its wire form: the counted bytes are those that would travel
   * between processes. */
  for (int64_t i = s->first; i < s->first + s->count; i++) {
    if (i % TSR__PARTIAL_SLICE == TSR__PARTIAL_SLICE - 1 && tsr__progress_stops(s->progress, 0))
      break;
    ops->pack(from, i, out, size);
    tsr__cpu_move(&carry, s->traffic);
    ops->unpack(from, in, size, &memory);
    ops->merge(&one, (char *)s->into->data + (size_t)i * ops->bytes, &memory);
  }
  return true;
}

/* ---- a device's ------------------------------------------------------------------------------ */

/* The partial itself lies before its data, in one buffer of its device. */
enum { HEADER = (sizeof(tsr__partial) + 63) / 64 * 64 };

/* Sums in rows have a stage beside the data, for a slice of another device's sums
 * (send_partial_rows). */
size_t tsr__cpu_partial_bytes(const tsr__partial_ask *ask, bool meets)
{
  const tsr__accum_ops *ops = tsr__accum_table[ask->accum->row];
  int64_t most = ask->count < TSR__PARTIAL_SLICE ? ask->count : TSR__PARTIAL_SLICE;
  if (!meets) return HEADER + ops->bytes * (size_t)ask->count;
  return ops->rows ? tsr__rows_bytes(most ? most : 1) : 0;
}

enum { FILLED = 1 << 17 }; /* words that a task fills: fresh memory is slow */

/* Fills part of an accumulator of many outputs; one element is filled by the caller. */
static void fill_partial_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const tsr__partial *p = user;
  size_t all = p->bytes / sizeof(int64_t), from = (size_t)task * FILLED;
  p->ops->none(p, from, all - from < FILLED ? all : from + FILLED);
}

/* With room for as many elements, which hold anything. Its memory is the host's, also where the
 * devices are of a kind without accumulators. */
static tsr__partial *partial_room(const tsr__partial *plan, tsr__error *error)
{
  tsr__error none = { .status = TSR_OK };
  tsr__buffer *memory = tsr__cpu_take(plan->rt, plan->device, HEADER + plan->bytes, &none);
  if (!memory) {
    tsr__error_set(error, TSR_ENOMEM,
                   "device %d has no memory for the %lld partial results of a "
                   "reduction; free arrays or raise .memory_limit",
                   plan->device, (long long)plan->count);
    return NULL;
  }
  tsr__partial *p = tsr__cpu_data(memory);
  *p = *plan;
  p->memory = memory;
  p->data = (char *)p + HEADER;
  take_data(p, &plan->rt->heap);
  return p;
}

tsr__partial *tsr__partial_new(tsr_runtime *rt, const tsr__partial_ask *ask, tsr__error *error)
{
  const tsr__accum *accum = ask->accum;
  tsr__partial plan = { .rt = rt, .device = ask->device };
  tsr__partial_plan(&plan, accum->row, accum->dtype, ask->count);
  tsr__partial *p = partial_room(&plan, error);
  if (!p) return NULL;
  int64_t tasks = (int64_t)((p->bytes / sizeof(int64_t) + FILLED - 1) / FILLED);
  if (tasks <= 1) p->ops->none(p, 0, p->bytes / sizeof(int64_t));
  else if (!tsr__parallel_long(rt, TSR__PROGRAM, tasks, fill_partial_task, p)) {
    tsr__partial_free(p);
    tsr__cancelled(error, TSR__PROGRAM);
    return NULL;
  }
  return p;
}

/* Escapes lie in the heap, which no peer can read: they are copied to memory of the devices. */
static tsr__buffer *copy_escapes(const tsr__partial *p, tsr__error *error)
{
  size_t count = p->rows[0].escape_count, both = count + p->rows[1].escape_count;
  tsr__buffer *copy = tsr__cpu_take(p->rt, p->device, both * sizeof(tsr__escape), error);
  if (!copy) return NULL;
  tsr__escape *to = tsr__cpu_data(copy);
  for (size_t i = 0; i < both; i++)
    to[i] = i < count ? p->rows[0].escape[i] : p->rows[1].escape[i - count];
  return copy;
}

tsr_status tsr__partial_tell(const tsr__partial *p, tsr__partial_told *out, tsr__buffer **copy,
                             tsr__error *error)
{
  *copy = NULL;
  *out = (tsr__partial_told){ .failed = 0 };
  for (int i = 0; i < p->ops->rows; i++) {
    out->escape_count[i] = p->rows[i].escape_count;
    out->failed |= (uint64_t)p->rows[i].failed << i;
  }
  tsr__cpu_share(p->memory, &out->memory);
  if (!out->escape_count[0] && !out->escape_count[1]) return TSR_OK;
  *copy = copy_escapes(p, error);
  if (*copy) tsr__cpu_share(*copy, &out->escapes);
  return *copy ? TSR_OK : error->status;
}

/* Opens memory of another process and requests its bytes from `first` on. */
static tsr__buffer *open_far(const tsr__partial *p, uint64_t handle, size_t first, size_t bytes,
                             tsr__error *error)
{
  tsr__buffer *opened = tsr__cpu_open_shared(p->rt, p->device, handle, first + bytes, error);
  if (opened) tsr__cpu_fetch(opened, &(tsr__byte_runs){ first, bytes, 1, 0 });
  return opened;
}

/* Only the partial itself is this process's, and lies in the heap; the header of the other process
 * is left out. */
tsr__partial *tsr__partial_far(tsr_runtime *rt, const tsr__partial_ask *ask,
                               const tsr__partial_told *told, tsr__error *error)
{
  uint64_t escapes = told->escape_count[0] + told->escape_count[1];
  tsr__partial *p = tsr__new(&rt->heap, sizeof *p);
  if (!p) {
    tsr__error_set(error, TSR_ENOMEM, "no memory to combine sums with other processes");
    return NULL;
  }
  *p = (tsr__partial){ .rt = rt, .device = ask->device, .far = true };
  tsr__partial_plan(p, ask->accum->row, ask->accum->dtype, ask->count);
  p->memory = open_far(p, told->memory, HEADER, p->bytes, error);
  if (escapes) p->escapes = open_far(p, told->escapes, 0, escapes * sizeof(tsr__escape), error);
  if (!p->memory || (escapes && !p->escapes)) {
    tsr__partial_free(p);
    return NULL;
  }
  p->data = (char *)tsr__cpu_data(p->memory) + HEADER;
  take_data(p, &rt->heap);
  for (int i = 0; i < p->ops->rows; i++) {
    p->rows[i].failed = told->failed >> i & 1;
    if (!told->escape_count[i]) continue;
    p->rows[i].escape = (tsr__escape *)tsr__cpu_data(p->escapes) + (i ? told->escape_count[0] : 0);
    p->rows[i].escape_count = told->escape_count[i];
  }
  return p;
}

void tsr__partial_free(tsr__partial *p)
{
  if (!p) return;
  if (!p->far) {
    tsr__partial_stop(p);
    tsr__buffer_release(p->memory); /* the partial lies in it */
    return;
  }
  tsr__buffer_release(p->escapes);
  tsr__buffer_release(p->memory);
  tsr__del(&p->rt->heap, p, sizeof *p);
}

/* ---- elements of another --------------------------------------------------------------------- */

/* Which elements: all where there is no index. */
typedef struct taking {
  const int64_t *index;
  int64_t count;
} taking;

/* Rows of `size` bytes. */
static void take_partial_rows(char *to, const char *from, size_t size, const taking *t)
{
  if (!t->index) memcpy(to, from, (size_t)t->count * size);
  else if (size == sizeof(double))
    for (int64_t i = 0; i < t->count; i++) ((double *)to)[i] = ((const double *)from)[t->index[i]];
  else
    for (int64_t i = 0; i < t->count; i++)
      memcpy(to + (size_t)i * size, from + (size_t)t->index[i] * size, size);
}

/* `slot` counts an element's escape from 1; 0: no escape. */
static bool take_partial_escapes(tsr__rows *to, const tsr__rows *from, const taking *t)
{
  for (int64_t i = 0; from->escape_count && i < t->count; i++) {
    int64_t element = t->index ? t->index[i] : i;
    uint32_t slot = from->slot[element];
    if (slot) tsr__rows_escape(to, i, &from->escape[slot - 1].sum);
  }
  return !to->failed && !from->failed;
}

/* The whole is copied without an index, which tsr__deal_copy asks for. */
tsr__partial *tsr__partial_take(const tsr__partial *from, const int64_t *index, int64_t count,
                                tsr__error *error)
{
  const taking t = { index, index ? count : from->count };
  tsr__partial plan = { .rt = from->rt, .device = from->device };
  tsr__partial_plan(&plan, from->row, from->dtype, t.count);
  tsr__partial *p = partial_room(&plan, error);
  bool good = p != NULL;
  if (good && !p->ops->rows) take_partial_rows(p->data, from->data, p->ops->bytes, &t);
  for (int k = 0; good && k < p->ops->rows; k++) {
    for (int i = 0; i < 3; i++)
      take_partial_rows((char *)p->rows[k].part[i], (const char *)from->rows[k].part[i],
                        sizeof(double), &t);
    good = take_partial_escapes(&p->rows[k], &from->rows[k], &t);
  }
  if (good || !p) return p;
  tsr__partial_free(p);
  tsr__error_set(error, TSR_ENOMEM, "no memory left for sums that do not fit three doubles");
  return NULL;
}
