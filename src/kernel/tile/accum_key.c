/* Accumulators of the smallest and the largest element, and of where it stands: order keys, which
 * meet as integers (interp_tile.h).
 *
 *   MIN, MAX         key
 *   ARGMIN, ARGMAX   key, and the first place that has it; -0 has the key of +0
 *
 * Invariant: keys meet as integers, so the smallest and the largest are the same in whatever order
 * runs, tasks and devices come. NaN has keys of its own, beyond those of all values at the side
 * where it wins. */
#include "kernel/tile/accum.h"

#include <math.h>

/* The functions are shared by both ends; which one it is follows from the row. */
static bool wants_largest(const tsr__partial *p)
{
  return p->ops == &tsr__accum_MAX || p->ops == &tsr__accum_ARGMAX;
}

/* The order key of no value: above (min) or below (max) all others; the key is in the dtype's own
 * range, so that reading it gives the largest or smallest value, infinity for floats. */
static int64_t none_key_of(int dtype, bool largest)
{
  if (tsr__dtype_has_nan((tsr_dtype)dtype))
    return tsr__key_of_f64(largest ? -(double)INFINITY : (double)INFINITY);
  const tsr__dtype_info *info = tsr__dtype_info_of((tsr_dtype)dtype);
  if (dtype == TSR_U64) return largest ? INT64_MIN : INT64_MAX; /* keys less 2^63 */
  /* i64 gives 2^63 - 1, as precision counts value bits. */
  int64_t most = (int64_t)((UINT64_C(1) << info->precision) - 1);
  if (!largest) return most;
  return info->kind == TSR__DTYPE_INT ? -most - 1 : 0;
}

static void no_keys(const tsr__partial *p, size_t from, size_t to)
{
  tsr__accum_fill(p, from, to, none_key_of(p->dtype, wants_largest(p)));
}

/* ---- elements -------------------------------------------------------------------------------- */

/* The run meets one key, by vectors: `to` is the key, one for all elements, and the wanted end. */
static void across_key(const tsr__feed *f)
{
  tsr__extreme to = { (int64_t *)f->to->data + f->element, true, wants_largest(f->to) };
  f->tiles->extreme[f->dtype](to, f->x, f->n, f->mask);
}

static void along_keys(const tsr__feed *f)
{
  tsr__extreme to = { (int64_t *)f->to->data + f->element, false, wants_largest(f->to) };
  f->tiles->extreme[f->dtype](to, f->x, f->n, f->mask);
}

/* The key of one float. Which key NaN has depends on the end that is asked for: it wins either. */
static int64_t order_key_of(double value, bool most)
{
  if (value != value) return most ? TSR__KEY_NAN_MAX : TSR__KEY_NAN_MIN;
  /* f32 is widened exactly, so its keys have the order of its values, too. */
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
    for (int64_t i = 0; i < f->n; i++)
      key[i] = order_key_of((double)((const float *)f->x)[i], most);
    break;
  default:
    for (int64_t i = 0; i < f->n; i++) key[i] = order_key_of(((const double *)f->x)[i], most);
  }
}

/* Keys are made for the whole run first, in a loop that compilers make vectors of; then each
 * goes to its group. */
static void scatter_keys(const tsr__feed *f, const int32_t *codes)
{
  int64_t key[TSR__TILE], *best = f->to->data;
  bool most = wants_largest(f->to);
  keys_of(f, most, key);
  for (int64_t i = 0; i < f->n; i++) {
    if (codes[i] < 0) continue;
    int64_t *now = best + codes[i];
    if (most ? key[i] > *now : key[i] < *now) *now = key[i];
  }
}

/* Word by word: those of one accumulator against those of another. */
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

/* A key travels as a value of its dtype. Less to carry: a key has 8 bytes, a value of f32 4 and
 * of i8 1. NaN of either side becomes a NaN and its key again where it arrives. */
static uint64_t value_of_key(int dtype, int64_t key)
{
  if (!tsr__dtype_is_real((tsr_dtype)dtype)) return (uint64_t)key;
  bool none = key == TSR__KEY_NAN_MIN || key == TSR__KEY_NAN_MAX;
  uint64_t bits = 0;
  tsr__dtype_put_real((tsr_dtype)dtype, &bits, 0, none ? (double)NAN : tsr__f64_of_key(key));
  return bits;
}

/* Back from a value of its dtype. Integers of 64 bits are their own keys; those of u64 come as they
 * were sent, less 2^63. */
static int64_t key_of_value(int dtype, uint64_t bits, bool most)
{
  if (!tsr__dtype_is_real((tsr_dtype)dtype))
    return tsr__dtype_get_whole((tsr_dtype)dtype, &bits, 0);
  return order_key_of(tsr__dtype_get_real((tsr_dtype)dtype, &bits, 0), most);
}

static void pack_key(const tsr__partial *p, int64_t i, unsigned char *wire, size_t size)
{
  tsr__put_bytes(wire, value_of_key(p->dtype, ((const int64_t *)p->data)[i]), size);
}

static void unpack_key(const tsr__partial *p, const unsigned char *wire, size_t size, void *memory)
{
  *(int64_t *)memory = key_of_value(p->dtype, tsr__get_bytes(wire, size), wants_largest(p));
}

/* ---- results --------------------------------------------------------------------------------- */

/* Keys of u64 are those of the number less 2^63. */
static tsr_status read(const tsr__final *f, tsr__error *error)
{
  (void)error;
  const int64_t *key = f->main->data;
  bool real = tsr__dtype_is_real((tsr_dtype)f->node->dtype);
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
                                        .across = across_key,
                                        .along = along_keys,
                                        .scatter = scatter_keys,
                                        .merge = merge_least,
                                        .pack = pack_key,
                                        .unpack = unpack_key,
                                        .read = read };

const tsr__accum_ops tsr__accum_MAX = { .bytes = sizeof(int64_t),
                                        .none = no_keys,
                                        .across = across_key,
                                        .along = along_keys,
                                        .scatter = scatter_keys,
                                        .merge = merge_most,
                                        .pack = pack_key,
                                        .unpack = unpack_key,
                                        .read = read };

/* ---- places ---------------------------------------------------------------------------------- */

/* The keys and places of an accumulator alternate: key, place, key, place, ... */
typedef struct best {
  int64_t key, place; /* place: -1 = no element */
} best;

/* `from` and `to` count words: keys stand at even ones, places at odd ones. */
static void no_places(const tsr__partial *p, size_t from, size_t to)
{
  int64_t *data = p->data, none = none_key_of(p->dtype, wants_largest(p));
  for (size_t i = from; i < to; i++) data[i] = i % 2 ? -1 : none;
}

/* The place of element i of the run.
 *
 *   f->at + i      element of the part, in C order
 *   at % size      its index along each dim, the last one first; the box's start makes it global */
static int64_t place_in_domain(const tsr__feed *f, int64_t i)
{
  const tsr__places *p = f->places;
  int64_t at = f->at + (f->kept ? f->kept[i] : i), place = 0;
  for (int d = p->rank - 1; d >= 0; d--) {
    place += (p->start[d] + at % p->size[d]) * p->step[d];
    at /= p->size[d];
  }
  return place;
}

static int64_t without_sign_of_zero(int dtype, int64_t key)
{
  /* -0 has the key just below that of +0: -1 below 0. */
  return tsr__dtype_is_real((tsr_dtype)dtype) && key == -1 ? 0 : key;
}

/* Keys of a run, both zeros made one: a search for zero finds the first one, whatever its sign. */
static void level_keys_of(const tsr__feed *f, bool most, int64_t *key)
{
  keys_of(f, most, key);
  if (!tsr__dtype_is_real((tsr_dtype)f->dtype)) return;
  for (int64_t i = 0; i < f->n; i++) key[i] += key[i] == -1;
}

/* Whether a key at a place takes over: among equal keys the first place stays, in whatever order
 * tiles come; none, as the largest unsigned number, comes last. So the result depends on no order
 * of tasks, tiles or devices. */
static bool wins(const best *now, int64_t key, int64_t place, bool most)
{
  if (key == now->key) return (uint64_t)place < (uint64_t)now->place;
  return most ? key > now->key : key < now->key;
}

/* The keys of a run are looked at one by one only where the run has a better one. One look by
 * vectors at the whole run, then a walk up to the first element that is the best of it: mostly no
 * run but the first few has anything better. */
static void across_places(const tsr__feed *f)
{
  int64_t key[TSR__TILE];
  best *now = (best *)f->to->data + f->element;
  bool most = wants_largest(f->to);
  /* Begins as the present key, so that it ends as the better of both. */
  int64_t top = now->key;
  f->tiles->extreme[f->dtype]((tsr__extreme){ &top, true, most }, f->x, f->n, f->mask);
  top = without_sign_of_zero(f->dtype, top);
  /* The first place of the run is the best it could have; even that would lose. */
  if (!wins(now, top, place_in_domain(f, 0), most)) return;
  level_keys_of(f, most, key);
  for (int64_t i = 0; i < f->n; i++) {
    if (key[i] != top || !tsr__taken(f->mask, i)) continue;
    int64_t place = place_in_domain(f, i);
    if (wins(now, top, place, most)) *now = (best){ top, place };
    return;
  }
}

/* Along a kept dim all elements of a run stand at one place. */
static void along_places(const tsr__feed *f)
{
  int64_t key[TSR__TILE], place = place_in_domain(f, 0);
  best *now = (best *)f->to->data + f->element;
  bool most = wants_largest(f->to);
  level_keys_of(f, most, key);
  for (int64_t i = 0; i < f->n; i++)
    if (tsr__taken(f->mask, i) && wins(&now[i], key[i], place, most))
      now[i] = (best){ key[i], place };
}

/* Elements meet one by one; their keys were made for the whole run. */
static void scatter_places(const tsr__feed *f, const int32_t *codes)
{
  int64_t key[TSR__TILE];
  best *now = f->to->data;
  bool most = wants_largest(f->to);
  level_keys_of(f, most, key);
  for (int64_t i = 0; i < f->n; i++) {
    if (codes[i] < 0) continue;
    best *to = &now[codes[i]];
    /* Places cost divisions: they are found only for keys that may win. */
    if (key[i] != to->key && !wins(to, key[i], 0, most)) continue;
    int64_t place = place_in_domain(f, i);
    if (wins(to, key[i], place, most)) *to = (best){ key[i], place };
  }
}

/* Merges like elements do: the better key, then the first place. */
static void merge_places(const tsr__partial *p, void *into, const void *from)
{
  best *to = into;
  const best *of = from;
  bool most = wants_largest(p);
  for (int64_t i = 0; i < p->count; i++)
    if (wins(&to[i], of[i].key, of[i].place, most)) to[i] = of[i];
}

static void pack_place(const tsr__partial *p, int64_t i, unsigned char *wire, size_t size)
{
  const best *b = (const best *)p->data + i;
  /*   wire   place, 8 bytes | value, as many as its dtype has */
  tsr__put_bytes(wire, (uint64_t)b->place, 8);
  tsr__put_bytes(wire + 8, value_of_key(p->dtype, b->key), size - 8);
}

static void unpack_place(const tsr__partial *p, const unsigned char *wire, size_t size,
                         void *memory)
{
  int64_t key = key_of_value(p->dtype, tsr__get_bytes(wire + 8, size - 8), wants_largest(p));
  *(best *)memory = (best){ key, (int64_t)tsr__get_bytes(wire, 8) };
}

static tsr_status read_places(const tsr__final *f, tsr__error *error)
{
  (void)error;
  for (int64_t i = 0; i < f->elements; i++)
    tsr__final_put_whole(f, i, ((const best *)f->main->data)[i].place);
  return TSR_OK;
}

#define PLACES                                                                                   \
  {                                                                                              \
    .places = true, .bytes = sizeof(best), .none = no_places, .across = across_places,           \
    .along = along_places, .scatter = scatter_places, .merge = merge_places, .pack = pack_place, \
    .unpack = unpack_place, .read = read_places                                                  \
  }

const tsr__accum_ops tsr__accum_ARGMIN = PLACES;
const tsr__accum_ops tsr__accum_ARGMAX = PLACES;
