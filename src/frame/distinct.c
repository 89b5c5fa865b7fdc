/* The different values of a column, found on the host, and the place of each row's value among them.
 *
 *   values     7 3 3 9 7         list    3 7 9        place    1 0 0 2 1
 *
 * This is how functions of two text columns learn which pairs of texts there are, and how numbers
 * become texts: what is asked is asked once of each different value, and rows look it up. The list is
 * in order, so that no mesh shows in it. */
#include "frame/functions.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 1 << 24, ASK_AFTER = 1 << 18 }; /* words; rows between two looks at the callback */

/* Open addressing over 64-bit words; word 0 stands apart since it marks what is free. */
typedef struct words {
  tsr__heap *heap;
  uint64_t *slot;
  size_t room, count;
  bool zero, failed;
} words;

static void put(words *set, uint64_t word);

static void widen(words *set)
{
  words wider = { .heap = set->heap, .room = set->room ? 4 * set->room : 1024 };
  wider.slot = tsr__new(set->heap, wider.room * sizeof *wider.slot);
  if (!wider.slot) {
    set->failed = true;
    return;
  }
  for (size_t i = 0; i < set->room; i++)
    if (set->slot[i]) put(&wider, set->slot[i]);
  tsr__del(set->heap, set->slot, set->room * sizeof *set->slot);
  set->slot = wider.slot;
  set->room = wider.room;
}

static void put(words *set, uint64_t word)
{
  if (2 * set->count >= set->room) widen(set);
  if (set->failed) return;
  if (!word) {
    set->zero = true;
    return;
  }
  uint64_t mixed = word * UINT64_C(0x9e3779b97f4a7c15);
  size_t i = (size_t)(mixed ^ mixed >> 32) & (set->room - 1);
  while (set->slot[i] && set->slot[i] != word) i = (i + 1) & (set->room - 1);
  set->count += !set->slot[i];
  set->slot[i] = word;
}

static int by_integer(const void *left, const void *right)
{
  const int64_t *a = left, *b = right;
  return *a < *b ? -1 : *a > *b;
}

static int by_double(const void *left, const void *right)
{
  const double *a = left, *b = right;
  return *a < *b ? -1 : *a > *b;
}

static bool failed(tsr__lower *low)
{
  tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
  return false;
}

typedef struct picking {
  int64_t rows;
  bool real;
  tsr__progress *progress;
} picking;

static void cancelled(tsr__lower *low)
{
  tsr__cancelled(&low->bind->error, low->bind->what);
  tsr__fail_error(low->scope, low->site, &low->bind->error);
}

/* The words of the rows that count. False: cancelled. */
static bool collect(const uint64_t *row, const uint8_t *use, const picking *ask, words *set)
{
  bool real = ask->real;
  for (int64_t i = 0; i < ask->rows && !set->failed && set->count <= MOST; i++) {
    double value;
    if (i % ASK_AFTER == ASK_AFTER - 1 && tsr__progress_stops(ask->progress, 0)) return false;
    memcpy(&value, &row[i], sizeof value);
    if (use && !use[i]) continue;
    if (real && isnan(value)) continue;
    put(set, real && value == 0 ? 0 : row[i]);
  }
  return true;
}

static bool list_words(tsr__lower *low, const words *set, bool real, tsr__distinct *ask)
{
  uint64_t *list = tsr__lower_room(low, (int64_t)set->count + 1, sizeof *list);
  int64_t n = 0;
  if (!list) return false;
  if (set->zero) list[n++] = 0;
  for (size_t i = 0; i < set->room; i++)
    if (set->slot[i]) list[n++] = set->slot[i];
  qsort(list, (size_t)n, sizeof *list, real ? by_double : by_integer);
  ask->list = list;
  ask->count = n;
  return true;
}

bool tsr__find_distinct(tsr__lower *low, tsr__distinct *ask)
{
  tsr_array *roots[2] = { ask->values, ask->mask };
  if (tsr__bind_run(low->bind, roots, 2)) {
    tsr_status status = low->bind->error.status;
    if (!tsr_scope_status(low->scope))
      tsr__fail(low->scope, low->site, status, "%s", low->bind->error.text);
    return false;
  }
  tsr__heap *heap = &low->scope->rt->heap;
  bool real = ask->values->dtype == TSR_F64;
  int64_t rows = ask->values->shape.rank ? ask->values->shape.dims[0] : 1;
  size_t room = (size_t)(rows ? rows : 1);
  uint64_t *row = tsr__new_raw(heap, room * sizeof *row);
  uint8_t *use = ask->mask ? tsr__new_raw(heap, room) : NULL;
  words set = { .heap = heap };
  set.failed = !row || (ask->mask && !use);
  tsr__progress progress = { .rt = low->scope->rt, .what = TSR__PROGRAM };
  bool whole = !set.failed && tsr__value_to_host(ask->values->value, row) &&
               (!use || tsr__value_to_host(ask->mask->value, use)) &&
               collect(row, use, &(picking){ rows, real, &progress }, &set);
  tsr__del(heap, row, row ? room * sizeof *row : 0);
  tsr__del(heap, use, use ? room : 0);
  bool fine = false;
  if (set.failed) failed(low);
  else if (!whole) cancelled(low);
  else if (set.count > MOST)
    tsr__fail(low->scope, low->site, TSR_EUNSUPPORTED,
              "%s: more than %d different values or pairs of texts; make fewer before, or filter",
              low->bind->what, MOST);
  else fine = list_words(low, &set, real, ask);
  tsr__del(heap, set.slot, set.room * sizeof *set.slot);
  return fine;
}

tsr_array *tsr__place_of(tsr__lower *low, const tsr__distinct *of)
{
  tsr_dtype dtype = (tsr_dtype)of->values->dtype;
  if (!of->count) return tsr__const_i(low, TSR_I64, 0);
  tsr_array *list = tsr__table_leaf(low, dtype, of->list, of->count);
  tsr_array *at = tsr__make(low->scope, TSR__OP_SEARCH, (tsr_array *[3]){ list, of->values },
                            &(tsr__ask){ .dtype = TSR_I64 }, low->site);
  at = tsr__op2(low, TSR__OP_SUB, at, tsr__const_i(low, TSR_I64, 1));
  return tsr__op2(low, TSR__OP_MAXIMUM, at, tsr__const_i(low, TSR_I64, 0));
}
