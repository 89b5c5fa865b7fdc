/* Scattering along a dim, or some dims as one: out[.., at[j], ..] joins the operand's element there
 * and all updates[.., j, ..] that go there, in order of j.
 *
 *   before x along x after      the operand's shard; a strip is one of `before` and some of `after`
 *   before x count x after      the updates
 *   batch x count               the indices; the batch dims are the first of `before`
 *
 * If the dim is sharded, each device takes the updates whose places it holds; if the updates are
 * sharded, devices join their results (scatter_apart.c). Sums of floats are exact and made there,
 * too: many updates are shared out to the workers as to devices. Integers wrap and extremes are
 * elements, so that the order of updates does not change them; products of floats are computed in
 * f64 and rounded once. */
#include "kernel/routine/scatter.h"

#include <math.h>

#include "topology/half.h"

enum { STRIP = 1 << 16, BLOCK = TSR__BINS_BLOCK };

static const tsr__gnode *operand(const tsr__call *call, int i)
{
  return &call->program->nodes[tsr__in(call->program, tsr__call_node(call), i)];
}

static const tsr__scatter_attr *scatter_attr_of(const tsr__call *call)
{
  return tsr__attr_of(call->program, tsr__call_node(call));
}

int tsr__scatter_more(const tsr__call *call)
{
  return (int)scatter_attr_of(call)->more;
}

/* How many places there are along the dims that are one. */
static int64_t count_indexed_places(const tsr__call *call)
{
  const tsr__scatter_attr *attr = scatter_attr_of(call);
  int64_t size = 1;
  for (int64_t d = attr->dim; d <= attr->dim + attr->more; d++) size *= operand(call, 0)->dims[d];
  return size;
}

bool tsr__scatter_sums(const tsr__call *call)
{
  return scatter_attr_of(call)->how == TSR_SCATTER_ADD &&
         tsr__dtype_rounds(tsr__call_dtype(call, 0));
}

bool tsr__scatter_free(const tsr__call *call)
{
  int64_t how = scatter_attr_of(call)->how;
  bool rounds = how == TSR_SCATTER_MUL && tsr__dtype_rounds(tsr__call_dtype(call, 0));
  return how != TSR_SCATTER_SET && !rounds;
}

/* Strips are as narrow as makes a line's results fit the cache: updates go anywhere along the
 * dim. */
int64_t tsr__scatter_width(const tsr__call *call)
{
  int64_t along = count_indexed_places(call), width = STRIP / (along ? along : 1);
  if (width > TSR__SCATTER_WIDTH) width = TSR__SCATTER_WIDTH;
  return width ? width : 1;
}

int64_t tsr__scatter_batch(const tsr__call *call, const tsr__call_part *part)
{
  return tsr__box_count(&part->in[0].box, (int)scatter_attr_of(call)->batch);
}

/* Indices that lie with a part, of an element of the batch dims. The indices may be cut, too: each
 * device has its own. */
static int64_t count_part_indices(const tsr__call *call, const tsr__call_part *part)
{
  int64_t batch = tsr__scatter_batch(call, part);
  return batch ? tsr__box_count(&part->in[1].box, operand(call, 1)->rank) / batch : 0;
}

/* The number of the element of the batch dims that a strip lies in. */
static int64_t batch_of_strip(const tsr__strip *s)
{
  int64_t batch = s->at ? tsr__scatter_batch(s->call, s->part) : 1;
  if (batch == 1) return 0;
  return s->at / (tsr__box_count(&s->part->in[0].box, operand(s->call, 0)->rank) / batch);
}

/* The memory that a strip's work reads and writes; `begin` is 0, `end` all updates, for work that
 * takes them in shares. */
tsr__scattering tsr__scattering_of(const tsr__strip *s)
{
  bool narrow = operand(s->call, 1)->dtype == TSR_I32;
  int64_t count = count_part_indices(s->call, s->part);
  const char *at = tsr__cpu_data(s->part->in[1].buffer);
  return (tsr__scattering){ .strip = s,
                            .dtype = tsr__call_dtype(s->call, 0),
                            .attr = scatter_attr_of(s->call),
                            .x = operand(s->call, 0),
                            .at = at + batch_of_strip(s) * count * (narrow ? 4 : 8),
                            .narrow = narrow,
                            .updates = tsr__cpu_data(s->part->in[2].buffer),
                            .to = tsr__cpu_data(s->part->out[0].buffer),
                            .outside = (_Atomic bool *)(uintptr_t)s->user,
                            .count = count,
                            .end = count,
                            .size = count_indexed_places(s->call) };
}

/* The place of the update for element `j` of the strip's first line. */
static int64_t update_at(const tsr__scattering *a, int64_t j)
{
  const tsr__strip *s = a->strip;
  /*   operand   [before, along, after]     updates   [before, count, after] */
  int64_t row = s->along * s->after, before = s->at / row;
  return (before * a->count + j) * s->after + s->at % row;
}

/* Indices count like NumPy's: from the front, or from the end below 0. */
static bool is_valid_index(const tsr__scattering *a, int64_t index)
{
  return index >= -a->size && index < a->size;
}

/* Which element of a line of the shard an index goes to; -1: none of them. Dims that are one are
 * counted through, the last the fastest; each may be cut, so each is compared with the device's
 * box. */
static int64_t place_of_index(const tsr__scattering *a, int64_t index)
{
  const tsr_box *box = &a->strip->part->in[0].box;
  int64_t place = 0, scale = 1;
  if (!is_valid_index(a, index)) return -1;
  if (index < 0) index += a->size;
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

/* i32 as it was given, so that it need not be widened in memory. */
static int64_t index_of_update(const tsr__scattering *a, int64_t j)
{
  return a->narrow ? ((const int32_t *)a->at)[j] : ((const int64_t *)a->at)[j];
}

int64_t tsr__scatter_place(const tsr__scattering *a, int64_t j)
{
  return place_of_index(a, index_of_update(a, j));
}

/* Finds the places of updates j .. j + n - 1, at most a block: without a branch if there is one
 * dim. */
static void find_update_places(const tsr__scattering *a, int64_t j, int64_t n, int64_t *place)
{
  const tsr_box *box = &a->strip->part->in[0].box;
  const tsr__tiles *tiles = tsr__cpu_of(a->strip->call->rt)->tiles;
  const int64_t dim = a->attr->dim;
  bool inside = true;
  if (!a->attr->more) {
    tsr__aiming aim = { a->size, box->start[dim], box->size[dim], a->narrow };
    inside = tiles->aim(place, (const char *)a->at + (a->narrow ? 4 : 8) * j, n, &aim);
  }
  for (int64_t i = 0; a->attr->more && i < n; i++) {
    place[i] = tsr__scatter_place(a, j + i);
    inside &= is_valid_index(a, index_of_update(a, j + i));
  }
  /* Only noted: which index is told is found afterwards, by the first place of all
   * (tsr__scatter_find_wrong). */
  if (!inside) atomic_store(a->outside, true);
}

/* How many updates from `j` on a block takes. So many that a block's lines fit the room of
 * doubles. */
static int64_t updates_in_block(const tsr__scattering *a, int64_t j)
{
  int64_t most = BLOCK / a->strip->count;
  return a->end - j < most ? a->end - j : most;
}

/* To be asked before so many lines or updates: false once the work was cancelled. */
static bool strip_goes_on(tsr__scattering *a, int64_t n)
{
  a->left += (n - 1) * a->strip->count;
  return tsr__strip_goes_on(a->strip, &a->left);
}

/* Asks for the indices and updates of a block: adding those of the one before it waits for neither,
 * so that both go on at once. Into the second cache, which has room beside the sums. */
static void fetch_block(const tsr__scattering *a, int64_t j)
{
  if (j >= a->end) return;
  const int64_t n = updates_in_block(a, j), index = a->narrow ? 4 : 8;
  const int64_t update = n * a->strip->count * (int64_t)tsr_dtype_size(a->dtype);
  const char *at = (const char *)a->at + j * index;
  const char *from = (const char *)a->updates + (size_t)update_at(a, j) * tsr_dtype_size(a->dtype);
  for (int64_t i = 0; i < n * index; i += 64) __builtin_prefetch(at + i, 0, 2);
  for (int64_t i = 0; i < update && a->strip->count == a->strip->after; i += 64)
    __builtin_prefetch(from + i, 0, 2);
}

/* ---- elements joined one by one ---- */

/* The result begins as the operand. */
static void begin_strip(tsr__scattering *a)
{
  const tsr__strip *s = a->strip;
  const char *from = tsr__cpu_data(s->part->in[0].buffer);
  char *to = a->to;
  /* A strip is runs of `count` neighbouring elements, `after` apart. */
  size_t size = tsr_dtype_size(a->dtype), bytes = (size_t)s->count * size;
  size_t step = (size_t)s->after * size, at = (size_t)s->at * size;
  for (int64_t t = 0; t < s->along && tsr__strip_goes_on(s, &a->left); t++, at += step)
    memcpy(to + at, from + at, bytes);
}

/* The updates of a block are found first and joined then: two short loops instead of a long one. */
void tsr__scatter_fold(tsr__scattering *a, tsr__join_fn *join)
{
  const tsr__strip *s = a->strip;
  const size_t size = tsr_dtype_size(a->dtype);
  int64_t place[BLOCK], n;
  for (int64_t j = a->begin; j < a->end && strip_goes_on(a, n = updates_in_block(a, j)); j += n) {
    find_update_places(a, j, n, place);
    fetch_block(a, j + n);
    join(&(tsr__joined){ .to = (char *)a->to + (size_t)s->at * size,
                         .from = (const char *)a->updates + (size_t)update_at(a, j) * size,
                         .place = place,
                         .n = n,
                         .width = s->count,
                         .after = s->after });
  }
}

/* Updates come in order of j, so of `set` the last one stays. Lines of one element, side by side,
 * are a loop of their own: counts are made so. */
#define FOLD(name, T, JOINED)                                                         \
  static inline void name##_lines(const tsr__joined *u, int64_t width, int64_t after) \
  {                                                                                   \
    const T *from = u->from;                                                          \
    for (int64_t i = 0, n = u->n; i < n; i++, from += after) {                        \
      if (u->place[i] < 0) continue;                                                  \
      T *to = (T *)u->to + u->place[i] * after;                                       \
      for (int64_t k = 0; k < width; k++) {                                           \
        const T now = to[k], x = from[k];                                             \
        (void)now;                                                                    \
        to[k] = (T)(JOINED);                                                          \
      }                                                                               \
    }                                                                                 \
  }                                                                                   \
  static void name(const tsr__joined *u)                                              \
  {                                                                                   \
    if (u->width == 1 && u->after == 1) name##_lines(u, 1, 1);                        \
    else name##_lines(u, u->width, u->after);                                         \
  }

FOLD(set_8, uint8_t, x)
FOLD(set_16, uint16_t, x)
FOLD(set_32, uint32_t, x)
FOLD(set_64, uint64_t, x)
FOLD(add_8, uint8_t, now + x)
FOLD(add_16, uint16_t, now + x)
FOLD(add_32, uint32_t, now + x)
FOLD(add_64, uint64_t, now + x)
/* Two uint8_t are widened to int, which holds their product. */
FOLD(mul_8, uint8_t, now *x)
/* Two uint16_t would be multiplied as int, which can overflow. */
FOLD(mul_16, uint16_t, (uint32_t)now *x)
FOLD(mul_32, uint32_t, now *x)
FOLD(mul_64, uint64_t, now *x)

/* Floats as integers in their order, NaN beyond all on the side that wins: the one there stays
 * before an equal one. */
static int64_t float_key_of(double x, int64_t none)
{
  return x == x ? tsr__key_of_f64(x) : none;
}

static double f16_of(uint16_t x)
{
  return (double)tsr__f32_of_f16(x);
}

static double bf16_of(uint16_t x)
{
  return (double)tsr__f32_of_bf16(x);
}

/* A NaN that comes is the usual one: whose it was, the order of updates would say. */
#define COMES(convert, none) (convert(x) == convert(x) ? x : (none))
#define KEYED(convert, SIGN, end, none) \
  float_key_of(convert(x), end) SIGN float_key_of(convert(now), end) ? COMES(convert, none) : now
#define EXTREME(dtype, T)                 \
  FOLD(min_##dtype, T, x < now ? x : now) \
  FOLD(max_##dtype, T, x > now ? x : now)
#define EXTREME_REAL(dtype, T, convert, none)                     \
  FOLD(min_##dtype, T, KEYED(convert, <, TSR__KEY_NAN_MIN, none)) \
  FOLD(max_##dtype, T, KEYED(convert, >, TSR__KEY_NAN_MAX, none))

EXTREME(i8, int8_t)
EXTREME(i16, int16_t)
EXTREME(i32, int32_t)
EXTREME(i64, int64_t)
EXTREME(u8, uint8_t)
EXTREME(u16, uint16_t)
EXTREME(u32, uint32_t)
EXTREME(u64, uint64_t)
EXTREME_REAL(f16, uint16_t, f16_of, 0x7e00)
EXTREME_REAL(bf16, uint16_t, bf16_of, 0x7fc0)
EXTREME_REAL(f32, float, (double), NAN)
EXTREME_REAL(f64, double, (double), (double)NAN)

static tsr__join_fn *extreme_of(tsr_dtype dtype, bool largest)
{
/* Two functions a dtype; bools come as numbers. */
#define BOTH(id, dtype) [TSR_##id] = { min_##dtype, max_##dtype }
  static tsr__join_fn *const folds[TSR__DTYPES][2] = {
    BOTH(I8, i8),   BOTH(I16, i16),   BOTH(I32, i32), BOTH(I64, i64),
    BOTH(U8, u8),   BOTH(U16, u16),   BOTH(U32, u32), BOTH(U64, u64),
    BOTH(F16, f16), BOTH(BF16, bf16), BOTH(F32, f32), BOTH(F64, f64),
  };
#undef BOTH
  return folds[dtype][largest];
}

/* The function for bits alone, by the size of an element. */
static tsr__join_fn *whole_join_of(tsr_dtype dtype, int64_t how)
{
  /* Integers and floats of a size alike: bits are copied, or the floats went another way. */
  static tsr__join_fn *const folds[3][4] = {
    [TSR_SCATTER_SET] = { set_8, set_16, set_32, set_64 },
    [TSR_SCATTER_ADD] = { add_8, add_16, add_32, add_64 },
    [TSR_SCATTER_MUL] = { mul_8, mul_16, mul_32, mul_64 },
  };
  size_t size = tsr_dtype_size(dtype);
  return folds[how][size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3];
}

tsr__join_fn *tsr__scatter_join(const tsr__scattering *a)
{
  int64_t how = a->attr->how;
  bool joins = how == TSR_SCATTER_ADD || how == TSR_SCATTER_MUL;
  /* Sums and products of floats keep more than an element while they run, and are rounded once at
   * the end. */
  if (joins && tsr__dtype_rounds(a->dtype)) return NULL;
  if (joins || how == TSR_SCATTER_SET) return whole_join_of(a->dtype, how);
  return extreme_of(a->dtype, how == TSR_SCATTER_MAX);
}

/* ---- sums and products of floats ---- */

/* Loads values from lines of the strip, from `at` on: in place, or as doubles in `room`. Dense f32
 * is read where it lies; all else is widened to doubles, which hold every type of floats. */
static tsr__reals load_strip_lines(const tsr__scattering *a, const void *from, int64_t at,
                                   const tsr__reals *room)
{
  const tsr__strip *s = a->strip;
  double *to = (double *)(uintptr_t)room->f64;
  bool flat = s->count == s->after;
  if (flat && a->dtype == TSR_F32) return (tsr__reals){ NULL, (const float *)from + at, room->n };
  if (flat) tsr__load_reals(a->dtype, from, at, room->n, to);
  for (int done = 0; !flat && done < room->n; done += (int)s->count, at += s->after)
    tsr__load_reals(a->dtype, from, at, s->count, to + done);
  return *room;
}

/* Gives all elements of the operand to `take`, in blocks, with their places in the strip. */
void tsr__scatter_each_x(tsr__scattering *a, tsr__take_fn *take, void *user)
{
  const tsr__strip *s = a->strip;
  int64_t n, most = BLOCK / s->count, place[BLOCK];
  double room[BLOCK];
  for (int64_t t = 0; t < s->along; t += n) {
    n = s->along - t < most ? s->along - t : most;
    if (!strip_goes_on(a, n)) return;
    /* Places count the elements of the strip: [along, count]. */
    for (int64_t i = 0; i < n * s->count; i++) place[i] = t * s->count + i;
    tsr__reals x = load_strip_lines(a, tsr__cpu_data(s->part->in[0].buffer), s->at + t * s->after,
                                    &(tsr__reals){ .f64 = room, .n = (int)(n * s->count) });
    take(user, place, &x);
  }
}

/* Finds the place of each element of lines of several elements. */
static void spread_places(const int64_t *line, int64_t n, int64_t width, int64_t *place)
{
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < width; k++) *place++ = line[i] < 0 ? -1 : line[i] * width + k;
}

/* Gives all updates from `begin` to `end` to `take`, in blocks; -1 is the place of those that go to
 * another device. */
void tsr__scatter_each_update(tsr__scattering *a, tsr__take_fn *take, void *user)
{
  const int64_t width = a->strip->count;
  int64_t n, line[BLOCK], place[BLOCK];
  double room[BLOCK];
  for (int64_t j = a->begin; j < a->end && strip_goes_on(a, n = updates_in_block(a, j)); j += n) {
    find_update_places(a, j, n, width == 1 ? place : line);
    if (width > 1) spread_places(line, n, width, place);
    tsr__reals x = load_strip_lines(a, a->updates, update_at(a, j),
                                    &(tsr__reals){ .f64 = room, .n = (int)(n * width) });
    fetch_block(a, j + n);
    take(user, place, &x);
  }
}

static void take_product(void *user, const int64_t *place, const tsr__reals *x)
{
  double *product = user;
  for (int i = 0; i < x->n; i++)
    if (place[i] >= 0) product[place[i]] *= tsr__real_at(x, i);
}

static void write_products(tsr__scattering *a, const double *product)
{
  const tsr__strip *s = a->strip;
  for (int64_t t = 0; t < s->along && tsr__strip_goes_on(s, &a->left); t++)
    for (int64_t j = 0; j < s->count; j++)
      tsr__dtype_put_real(a->dtype, a->to, s->at + t * s->after + j, product[t * s->count + j]);
}

static tsr_status product_strip(tsr__scattering *a)
{
  const tsr__strip *s = a->strip;
  tsr__error error;
  int64_t count = s->along * s->count;
  tsr__buffer *memory =
      tsr__cpu_take(s->call->rt, s->part->device, (size_t)count * sizeof(double), &error);
  if (!memory) return TSR_ENOMEM;
  double *product = tsr__cpu_data(memory);
  /* 1 times anything is itself, so the operand's element is the first factor and no case of its
   * own. */
  for (int64_t i = 0; i < count; i++) product[i] = 1;
  tsr__scatter_each_x(a, take_product, product);
  tsr__scatter_each_update(a, take_product, product);
  write_products(a, product);
  tsr__buffer_release(memory);
  return TSR_OK;
}

/* ---- the whole ---- */

/* A strip is one worker's: no other writes its places. */
static tsr_status scatter_strip(const tsr__strip *s)
{
  tsr__scattering a = tsr__scattering_of(s);
  tsr__join_fn *join = tsr__scatter_join(&a);
  if (!join) return product_strip(&a);
  begin_strip(&a);
  tsr__scatter_fold(&a, join);
  return TSR_OK;
}

/* The position of a part's index among all indices, in C order. */
static int64_t position_of_index(const tsr__call *call, const tsr__call_part *part, int64_t j)
{
  const tsr__gnode *at = operand(call, 1);
  int64_t position = 0, scale = 1;
  for (int d = at->rank - 1; d >= 0; d--) {
    position += (part->in[1].box.start[d] + j % part->in[1].box.size[d]) * scale;
    j /= part->in[1].box.size[d];
    scale *= at->dims[d];
  }
  return position;
}

/* From the start, part by part: this is read only when an index is known to be wrong. */
tsr__scatter_wrong tsr__scatter_find_wrong(const tsr__call *call)
{
  tsr__scatter_wrong wrong = { INT64_MAX, 0 };
  for (int p = 0; p < call->part_count && !scatter_attr_of(call)->drops; p++) {
    if (!tsr__call_here(call, p)) continue;
    tsr__strip strip = { .call = call, .part = &call->parts[p] };
    tsr__scattering a = tsr__scattering_of(&strip);
    int64_t j = 0, count = a.count * tsr__scatter_batch(call, strip.part);
    while (j < count && is_valid_index(&a, index_of_update(&a, j))) j++;
    if (j == count || position_of_index(call, &call->parts[p], j) >= wrong.position) continue;
    wrong.position = position_of_index(call, &call->parts[p], j);
    wrong.value = index_of_update(&a, j);
  }
  return wrong;
}

tsr_status tsr__scatter_refuse(const tsr__call *call, const tsr__scatter_wrong *wrong,
                               tsr__error *error)
{
  if (wrong->position == INT64_MAX) return TSR_OK;
  int64_t size = count_indexed_places(call);
  return tsr__error_set(error, TSR_EVALUE,
                        "tsr_scatter: index %lld at position %lld of the indices is out of "
                        "range, expected %lld to %lld",
                        (long long)wrong->value, (long long)wrong->position, (long long)-size,
                        (long long)size - 1);
}

/* Whether some device makes nothing, and so looks at no index. */
static bool some_idle(const tsr__call *call)
{
  bool idle = false;
  for (int p = 0; p < call->part_count; p++)
    for (int d = 0; d < operand(call, 0)->rank; d++) idle |= call->parts[p].in[0].box.size[d] == 0;
  return idle;
}

/* Sums and products of floats are made beside the result, strip by strip: one a worker, and two
 * where shares of several meet. */
int64_t tsr__room_of_scatter(const tsr__call *call, const bool *wanted)
{
  (void)wanted;
  const tsr__gnode *x = operand(call, 0);
  tsr__sides sides = tsr__sides_over(&call->parts[0].in[0], x->rank, tsr__call_dim(call),
                                     tsr__call_dim(call) + tsr__scatter_more(call));
  int64_t width = tsr__scatter_width(call), count = sides.along * width;
  if (width > sides.after) count = sides.along * sides.after;
  int64_t strips = sides.before * ((sides.after + width - 1) / width);
  int64_t workers = tsr__worker_count(call->rt), most = strips < workers ? strips : workers;
  if (tsr__scatter_sums(call)) return 2 * most * (int64_t)tsr__bins_bytes(count);
  bool product =
      scatter_attr_of(call)->how == TSR_SCATTER_MUL && tsr__dtype_rounds(tsr__call_dtype(call, 0));
  return product ? most * count * (int64_t)sizeof(double) : 0;
}

/* Whether the updates of a strip may be work for several workers: so many that joining the workers'
 * results is cheap beside them. The first part has the most. */
static bool is_shared(const tsr__call *call)
{
  enum { MANY = 1 << 16 };
  int64_t updates = count_part_indices(call, &call->parts[0]) * tsr__scatter_width(call);
  return tsr__scatter_sums(call) || (tsr__scatter_free(call) && updates >= MANY);
}

/* Indices are checked where they are used; an index outside of the dim fails the call. */
tsr_status tsr__routine_scatter(const tsr__call *call, tsr__error *error)
{
  bool apart = tsr__call_node(call)->reduce_axes || is_shared(call);
  _Atomic bool outside = some_idle(call);
  tsr__line_work work = { .width = tsr__scatter_width(call),
                          .more = tsr__scatter_more(call),
                          .user = &outside,
                          .fn = scatter_strip };
  tsr_status status =
      apart ? tsr__scatter_apart(call, &outside, error) : tsr__each_line(call, &work, error);
  if (status || !outside || call->peers) return status;
  tsr__scatter_wrong wrong = tsr__scatter_find_wrong(call);
  return tsr__scatter_refuse(call, &wrong, error);
}
