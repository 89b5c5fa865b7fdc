/* Scattering along a dim, or some dims as one: what stands at out[.., at[j], ..] is made of the
 * operand's element there and of all updates[.., j, ..] that go there, in order of j.
 *
 *   before x along x after      the operand's shard; a strip is one of `before` and some of `after`
 *   before x count x after      the updates: as many as there are indices, all of them here
 *
 * Where the dim is sharded each device takes the updates whose places it holds. Sums of floats are
 * exact (exact_rows.h), integers wrap and extremes are elements, so that the order of updates
 * cannot show in them; products of floats go by f64 and are rounded once. */
#include "kernel/routine/routine.h"

#include "tessera/indexing.h"
#include "topology/half.h"

enum { WIDTH = 64, STRIP = 1 << 16 };

/* What a strip is made of: updates, and where those go. */
typedef struct scattering {
  const tsr__strip *strip;
  tsr_dtype dtype;
  const tsr__scatter_attr *attr;
  const tsr__gnode *x;
  const int64_t *at;
  const void *updates;
  void *to;
  int64_t count, size, left; /* size: of the dim in the whole; left: of tsr__strip_goes_on */
} scattering;

/* Where the update for element `j` of the strip's first line lies. */
static int64_t update_at(const scattering *a, int64_t j)
{
  const tsr__strip *s = a->strip;
  int64_t row = s->along * s->after, before = s->at / row;
  return (before * a->count + j) * s->after + s->at % row;
}

/* Which element of a line of the shard an update goes to; -1: none of them. */
static int64_t place_of(const scattering *a, int64_t j)
{
  const tsr_box *box = &a->strip->part->in[0].box;
  int64_t index = a->at[j] < 0 ? a->at[j] + a->size : a->at[j], place = 0, scale = 1;
  if (index < 0 || index >= a->size) return -1;
  int first = (int)a->attr->dim, last = first + (int)a->attr->more;
  for (int d = last; d >= first; d--) {
    int64_t here = d == first ? index : index % a->x->dims[d];
    index = d == first ? 0 : index / a->x->dims[d];
    here -= box->start[d];
    if (here < 0 || here >= box->size[d]) return -1;
    place += here * scale;
    scale *= box->size[d];
  }
  return place;
}

/* ---- elements joined one by one ---- */

/* The result begins as the operand. */
static void begin_strip(scattering *a)
{
  const tsr__strip *s = a->strip;
  const char *from = s->part->in[0].buffer->data;
  char *to = a->to;
  size_t size = tsr_dtype_size(a->dtype), bytes = (size_t)s->count * size;
  size_t step = (size_t)s->after * size, at = (size_t)s->at * size;
  for (int64_t t = 0; t < s->along && tsr__strip_goes_on(s, &a->left); t++, at += step)
    memcpy(to + at, from + at, bytes);
}

#define FOLD(name, T, JOINED)                                                   \
  static void name(scattering *a)                                               \
  {                                                                             \
    const tsr__strip *s = a->strip;                                             \
    for (int64_t u = 0; u < a->count && tsr__strip_goes_on(s, &a->left); u++) { \
      int64_t place = place_of(a, u);                                           \
      if (place < 0) continue;                                                  \
      const T *from = (const T *)a->updates + update_at(a, u);                  \
      T *into = (T *)a->to + s->at + place * s->after;                          \
      for (int64_t j = 0; j < s->count; j++) {                                  \
        const T now = into[j], x = from[j];                                     \
        (void)now;                                                              \
        into[j] = (T)(JOINED);                                                  \
      }                                                                         \
    }                                                                           \
  }

FOLD(set_8, uint8_t, x)
FOLD(set_16, uint16_t, x)
FOLD(set_32, uint32_t, x)
FOLD(set_64, uint64_t, x)
FOLD(add_8, uint8_t, now + x)
FOLD(add_16, uint16_t, now + x)
FOLD(add_32, uint32_t, now + x)
FOLD(add_64, uint64_t, now + x)
FOLD(mul_8, uint8_t, now *x)
FOLD(mul_16, uint16_t, (uint32_t)now *x)
FOLD(mul_32, uint32_t, now *x)
FOLD(mul_64, uint64_t, now *x)

/* Floats as integers in their order, NaN beyond all on the side that wins: the one there stays
 * before an equal one. */
static int64_t key_of(const scattering *a, double x)
{
  if (x == x) return tsr__key_of_f64(x);
  return a->attr->how == TSR_SCATTER_MAX ? TSR__KEY_NAN_MAX : TSR__KEY_NAN_MIN;
}

static double f16_of(uint16_t x)
{
  return (double)tsr__f32_of_f16(x);
}

static double bf16_of(uint16_t x)
{
  return (double)tsr__f32_of_bf16(x);
}

#define KEYED(convert, SIGN) key_of(a, convert(x)) SIGN key_of(a, convert(now)) ? x : now
#define EXTREME(dtype, T)                 \
  FOLD(min_##dtype, T, x < now ? x : now) \
  FOLD(max_##dtype, T, x > now ? x : now)
#define EXTREME_REAL(dtype, T, convert)   \
  FOLD(min_##dtype, T, KEYED(convert, <)) \
  FOLD(max_##dtype, T, KEYED(convert, >))

EXTREME(i8, int8_t)
EXTREME(i16, int16_t)
EXTREME(i32, int32_t)
EXTREME(i64, int64_t)
EXTREME(u8, uint8_t)
EXTREME(u16, uint16_t)
EXTREME(u32, uint32_t)
EXTREME(u64, uint64_t)
EXTREME_REAL(f16, uint16_t, f16_of)
EXTREME_REAL(bf16, uint16_t, bf16_of)
EXTREME_REAL(f32, float, (double))
EXTREME_REAL(f64, double, (double))

typedef void fold_fn(scattering *a);

static fold_fn *extreme_of(tsr_dtype dtype, bool largest)
{
#define BOTH(id, dtype) [TSR_##id] = { min_##dtype, max_##dtype }
  static fold_fn *const folds[TSR__DTYPES][2] = {
    BOTH(I8, i8),   BOTH(I16, i16),   BOTH(I32, i32), BOTH(I64, i64),
    BOTH(U8, u8),   BOTH(U16, u16),   BOTH(U32, u32), BOTH(U64, u64),
    BOTH(F16, f16), BOTH(BF16, bf16), BOTH(F32, f32), BOTH(F64, f64),
  };
#undef BOTH
  return folds[dtype][largest];
}

/* Of bits alone, by their number. */
static fold_fn *whole_of(tsr_dtype dtype, int64_t how)
{
  static fold_fn *const folds[3][4] = {
    [TSR_SCATTER_SET] = { set_8, set_16, set_32, set_64 },
    [TSR_SCATTER_ADD] = { add_8, add_16, add_32, add_64 },
    [TSR_SCATTER_MUL] = { mul_8, mul_16, mul_32, mul_64 },
  };
  size_t size = tsr_dtype_size(dtype);
  return folds[how][size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3];
}

static tsr_status fold_strip(scattering *a)
{
  bool extreme = a->attr->how == TSR_SCATTER_MIN || a->attr->how == TSR_SCATTER_MAX;
  begin_strip(a);
  (extreme ? extreme_of(a->dtype, a->attr->how == TSR_SCATTER_MAX)
           : whole_of(a->dtype, a->attr->how))(a);
  return TSR_OK;
}

/* ---- sums and products of floats ---- */

/* Element t of line j of a strip is number t * count + j of what is kept. */
typedef struct kept {
  tsr__rows sums;
  double *product; /* not NULL: products */
} kept;

static void join(kept *k, int64_t first, const double *value, int64_t n)
{
  for (int64_t j = 0; j < n; j++) {
    if (k->product) k->product[first + j] *= value[j];
    else tsr__rows_add(&k->sums, first + j, value[j]);
  }
}

static void write_kept(const scattering *a, kept *k, int64_t first, int64_t to)
{
  int64_t n = a->strip->count, size = (int64_t)tsr_dtype_size(a->dtype);
  if (!k->product) {
    tsr__rows some = tsr__rows_slice(&k->sums, first, n);
    tsr__rows_sum(&some, &(tsr__rows_read){ .to = a->dtype }, (char *)a->to + to * size);
    return;
  }
  for (int64_t j = 0; j < n; j++)
    tsr__dtype_put_real(a->dtype, a->to, to + j, k->product[first + j]);
}

static void join_reals(scattering *a, kept *k)
{
  const tsr__strip *s = a->strip;
  const void *x = s->part->in[0].buffer->data;
  int64_t n = s->count;
  double value[WIDTH];
  for (int64_t t = 0; t < s->along && tsr__strip_goes_on(s, &a->left); t++) {
    tsr__load_reals(a->dtype, x, s->at + t * s->after, n, value);
    join(k, t * n, value, n);
  }
  for (int64_t u = 0; u < a->count && tsr__strip_goes_on(s, &a->left); u++) {
    int64_t place = place_of(a, u);
    if (place < 0) continue;
    tsr__load_reals(a->dtype, a->updates, update_at(a, u), n, value);
    join(k, place * n, value, n);
  }
  for (int64_t t = 0; t < s->along && tsr__strip_goes_on(s, &a->left); t++)
    write_kept(a, k, t * n, s->at + t * s->after);
}

static tsr_status real_strip(scattering *a)
{
  const tsr__strip *s = a->strip;
  tsr__error error;
  tsr_runtime *rt = s->call->rt;
  int64_t count = s->along * s->count;
  bool multiplies = a->attr->how == TSR_SCATTER_MUL;
  size_t bytes = multiplies ? (size_t)count * sizeof(double) : tsr__rows_bytes(count);
  tsr__buffer *memory = tsr__cpu_buffer(rt, s->part->device, bytes, &error);
  if (!memory) return TSR_ENOMEM;
  kept k = { .product = multiplies ? memory->data : NULL };
  for (int64_t i = 0; multiplies && i < count; i++) k.product[i] = 1;
  if (!multiplies) tsr__rows_init(&k.sums, &rt->heap, memory->data, count);
  join_reals(a, &k);
  tsr_status status = k.sums.failed ? TSR_ENOMEM : TSR_OK;
  if (!multiplies) tsr__rows_free(&k.sums);
  tsr__buffer_release(memory);
  return status;
}

/* ---- the whole ---- */

static const tsr__gnode *operand(const tsr__call *call, int i)
{
  return &call->program->nodes[tsr__in(call->program, tsr__call_node(call), i)];
}

static int64_t count_of(const tsr__gnode *g)
{
  int64_t count = 1;
  for (int d = 0; d < g->rank; d++) count *= g->dims[d];
  return count;
}

static const tsr__scatter_attr *attr_of(const tsr__call *call)
{
  return (const void *)(call->program->attrs + tsr__call_node(call)->attr);
}

/* How many places there are along the dims that are one. */
static int64_t size_of(const tsr__call *call)
{
  const tsr__scatter_attr *attr = attr_of(call);
  int64_t size = 1;
  for (int64_t d = attr->dim; d <= attr->dim + attr->more; d++) size *= operand(call, 0)->dims[d];
  return size;
}

static tsr_status scatter_strip(const tsr__strip *s)
{
  scattering a = { .strip = s,
                   .dtype = tsr__call_dtype(s->call, 0),
                   .attr = attr_of(s->call),
                   .x = operand(s->call, 0),
                   .at = s->part->in[1].buffer->data,
                   .updates = s->part->in[2].buffer->data,
                   .to = s->part->out[0].buffer->data,
                   .count = count_of(operand(s->call, 1)),
                   .size = size_of(s->call) };
  bool joins = a.attr->how == TSR_SCATTER_ADD || a.attr->how == TSR_SCATTER_MUL;
  return joins && tsr__dtype_float(a.dtype) ? real_strip(&a) : fold_strip(&a);
}

/* The first index that is none; every device has all of them. */
static tsr_status check_places(const tsr__call *call, tsr__error *error)
{
  const int64_t *at = call->part_count ? call->parts[0].in[1].buffer->data : NULL;
  int64_t count = count_of(operand(call, 1)), size = size_of(call);
  for (int64_t j = 0; at && !attr_of(call)->drops && j < count; j++)
    if (at[j] < -size || at[j] >= size)
      return tsr__error_set(error, TSR_EVALUE,
                            "tsr_scatter: index %lld at position %lld of the indices is out of "
                            "range, expected %lld to %lld",
                            (long long)at[j], (long long)j, (long long)-size, (long long)size - 1);
  return TSR_OK;
}

tsr_status tsr__routine_scatter(const tsr__call *call, tsr__error *error)
{
  int64_t along = size_of(call), width = STRIP / (along ? along : 1);
  if (check_places(call, error)) return error->status;
  if (width > WIDTH) width = WIDTH;
  tsr__line_work work = { .width = width ? width : 1,
                          .more = (int)attr_of(call)->more,
                          .fn = scatter_strip };
  return tsr__each_line(call, &work, error);
}
