/* Adding at places along a dim: out[.., at[j], ..] is the operand there plus all updates[.., j, ..]
 * that go there.
 *
 *   before x along x after      the operand; a strip is one of `before` and some of `after`
 *   before x count x after      the updates: as many as there are indices, all of them here
 *
 * Sums of floats are exact (exact_rows.h) and integers wrap: the order of updates cannot show. */
#include "kernel/routine/routine.h"

enum { WIDTH = 64, STRIP = 1 << 16 };

/* What a strip adds to: elements of the operand, updates, and where those go. */
typedef struct adding {
  const tsr__strip *strip;
  const int64_t *at;
  int64_t count, left; /* left: of tsr__strip_goes_on */
} adding;

/* Where the update for element `j` of the strip's first line lies. */
static int64_t update_at(const adding *a, int64_t j)
{
  const tsr__strip *s = a->strip;
  int64_t row = s->along * s->after, before = s->at / row;
  return (before * a->count + j) * s->after + s->at % row;
}

static int64_t place_of(const adding *a, int64_t j)
{
  return a->at[j] < 0 ? a->at[j] + a->strip->along : a->at[j];
}

/* ---- floats ---- */

/* The sums of a strip: element t of line j is number t * count + j. */
static tsr_status add_reals(adding *a, tsr__rows *sums)
{
  const tsr__strip *s = a->strip;
  tsr_dtype dtype = tsr__call_dtype(s->call, 0);
  const void *x = s->part->in[0].buffer->data, *updates = s->part->in[2].buffer->data;
  char *to = s->part->out[0].buffer->data;
  int64_t n = s->count, size = (int64_t)tsr_dtype_size(dtype);
  double value[WIDTH];
  for (int64_t t = 0; t < s->along && tsr__strip_goes_on(s, &a->left); t++) {
    tsr__load_reals(dtype, x, s->at + t * s->after, n, value);
    for (int64_t j = 0; j < n; j++) tsr__rows_add(sums, t * n + j, value[j]);
  }
  for (int64_t u = 0; u < a->count && tsr__strip_goes_on(s, &a->left); u++) {
    int64_t first = place_of(a, u) * n;
    tsr__load_reals(dtype, updates, update_at(a, u), n, value);
    for (int64_t j = 0; j < n; j++) tsr__rows_add(sums, first + j, value[j]);
  }
  for (int64_t t = 0; t < s->along && tsr__strip_goes_on(s, &a->left); t++) {
    tsr__rows some = tsr__rows_slice(sums, t * n, n);
    tsr__rows_sum(&some, &(tsr__rows_read){ .to = dtype }, to + (s->at + t * s->after) * size);
  }
  return sums->failed ? TSR_ENOMEM : TSR_OK;
}

static tsr_status real_strip(const tsr__strip *s, adding *a)
{
  tsr__error error;
  tsr_runtime *rt = s->call->rt;
  int64_t count = s->along * s->count;
  tsr__buffer *memory = tsr__cpu_buffer(rt, s->part->device, tsr__rows_bytes(count), &error);
  if (!memory) return TSR_ENOMEM;
  tsr__rows sums;
  tsr__rows_init(&sums, &rt->heap, memory->data, count);
  tsr_status status = add_reals(a, &sums);
  tsr__rows_free(&sums);
  tsr__buffer_release(memory);
  return status;
}

/* ---- integers ---- */

#define WHOLE_STRIP(name, T)                                                          \
  static void name(adding *a)                                                         \
  {                                                                                   \
    const tsr__strip *s = a->strip;                                                   \
    const T *x = s->part->in[0].buffer->data, *updates = s->part->in[2].buffer->data; \
    T *to = s->part->out[0].buffer->data;                                             \
    size_t bytes = (size_t)s->count * sizeof *to;                                     \
    for (int64_t t = 0, i = s->at; t < s->along && tsr__strip_goes_on(s, &a->left);   \
         t++, i += s->after)                                                          \
      memcpy(to + i, x + i, bytes);                                                   \
    for (int64_t u = 0; u < a->count && tsr__strip_goes_on(s, &a->left); u++) {       \
      const T *from = updates + update_at(a, u);                                      \
      T *sum = to + s->at + place_of(a, u) * s->after;                                \
      for (int64_t j = 0; j < s->count; j++) sum[j] = (T)(sum[j] + from[j]);          \
    }                                                                                 \
  }

WHOLE_STRIP(whole_8, uint8_t)
WHOLE_STRIP(whole_16, uint16_t)
WHOLE_STRIP(whole_32, uint32_t)
WHOLE_STRIP(whole_64, uint64_t)

/* ---- the whole ---- */

static int64_t count_of(const tsr__gnode *g)
{
  int64_t count = 1;
  for (int d = 0; d < g->rank; d++) count *= g->dims[d];
  return count;
}

static const tsr__gnode *operand(const tsr__call *call, int i)
{
  return &call->program->nodes[tsr__in(call->program, tsr__call_node(call), i)];
}

static tsr_status scatter_strip(const tsr__strip *s)
{
  tsr_dtype dtype = tsr__call_dtype(s->call, 0);
  adding a = { s, s->part->in[1].buffer->data, count_of(operand(s->call, 1)), 0 };
  if (tsr__dtype_float(dtype)) return real_strip(s, &a);
  switch (tsr_dtype_size(dtype)) {
  case 1: whole_8(&a); break;
  case 2: whole_16(&a); break;
  case 4: whole_32(&a); break;
  default: whole_64(&a);
  }
  return TSR_OK;
}

/* The first index that is none; every device has all of them. */
static tsr_status check_places(const tsr__call *call, int64_t along, tsr__error *error)
{
  const int64_t *at = call->part_count ? call->parts[0].in[1].buffer->data : NULL;
  int64_t count = count_of(operand(call, 1));
  for (int64_t j = 0; at && j < count; j++)
    if (at[j] < -along || at[j] >= along)
      return tsr__error_set(error, TSR_EVALUE,
                            "tsr_scatter_add: index %lld at position %lld of the indices is out of "
                            "range, expected %lld to %lld",
                            (long long)at[j], (long long)j, (long long)-along,
                            (long long)along - 1);
  return TSR_OK;
}

tsr_status tsr__routine_scatter_add(const tsr__call *call, tsr__error *error)
{
  int64_t along = operand(call, 0)->dims[tsr__dim_of(call->program, tsr__call_node(call))];
  int64_t width = STRIP / (along ? along : 1);
  if (check_places(call, along, error)) return error->status;
  if (width > WIDTH) width = WIDTH;
  tsr__line_work work = { .width = width ? width : 1, .fn = scatter_strip };
  return tsr__each_line(call, &work, error);
}
