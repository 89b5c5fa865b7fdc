/* Finds the different values that lowering asked for (lower/ask_distinct.c), on the host: in one
 * run for all that was asked, and each list in order, so that no mesh shows in it. */
#include "frame/lower/functions.h"
#include "frame/run/run.h"
#include "kernel/rows/key_hash.h"

#include <math.h>

enum { MOST = 1 << 24, DIGITS = 256 }; /* words */

/* Open addressing over 64-bit words; word 0 stands apart since it marks what is free. */
typedef struct words {
  tsr__heap *heap;
  tsr__lower *low;
  tsr__key_seed seed;
  uint64_t *slot;
  size_t room, count;
  bool zero, failed, stopped; /* stopped: cancelled */
} words;

static void put(words *set, uint64_t word);

static void widen(words *set)
{
  words wider = { .heap = set->heap, .seed = set->seed };
  wider.room = set->room ? 2 * set->room : 1024;
  wider.slot = tsr__new_raw(set->heap, wider.room * sizeof *wider.slot);
  if (!wider.slot) {
    set->failed = true;
    return;
  }
  for (size_t i = 0; i < wider.room && !set->stopped; i++) {
    wider.slot[i] = 0;
    set->stopped = tsr__lower_stops(set->low, (int64_t)i);
  }
  for (size_t i = 0; i < set->room && !set->stopped; i++) {
    if (set->slot[i]) put(&wider, set->slot[i]);
    set->stopped = tsr__lower_stops(set->low, (int64_t)i);
  }
  tsr__del(set->heap, set->slot, set->room * sizeof *set->slot);
  set->slot = wider.slot;
  set->room = wider.room;
}

static void put(words *set, uint64_t word)
{
  if (2 * set->count >= set->room) widen(set);
  if (set->failed || set->stopped) return;
  if (!word) {
    set->zero = true;
    return;
  }
  size_t i = tsr__key_place(set->seed, &word, 1, 1) & (set->room - 1);
  while (set->slot[i] && set->slot[i] != word) i = (i + 1) & (set->room - 1);
  set->count += !set->slot[i];
  set->slot[i] = word;
}

/* ---- the order ------------------------------------------------------------------------------ */

/* A word whose unsigned order is that of the values. */
static uint64_t key_of(uint64_t word, bool real)
{
  const uint64_t sign = UINT64_C(1) << 63;
  return real && word & sign ? ~word : word ^ sign;
}

static uint64_t word_of(uint64_t key, bool real)
{
  const uint64_t sign = UINT64_C(1) << 63;
  return real && !(key & sign) ? ~key : key ^ sign;
}

/* Moves the keys into the order of one of their bytes; where all are alike nothing moves. False:
 * cancelled. */
static bool sort_pass(tsr__lower *low, uint64_t **from, uint64_t **to, int64_t count, int shift)
{
  int64_t start[DIGITS] = { 0 }, sum = 0;
  uint64_t *keys = *from, *out = *to;
  for (int64_t i = 0; i < count; i++) start[keys[i] >> shift & 0xff]++;
  if (start[keys[0] >> shift & 0xff] == count) return true;
  for (int d = 0; d < DIGITS; d++) {
    int64_t here = start[d];
    start[d] = sum;
    sum += here;
  }
  for (int64_t i = 0; i < count; i++) {
    if (tsr__lower_stops(low, i)) return false;
    out[start[keys[i] >> shift & 0xff]++] = keys[i];
  }
  *from = out;
  *to = keys;
  return true;
}

/* Puts words into the order of their values, one byte at a time; NULL: cancelled. Else it is the
 * one of the two lists where they are. */
static uint64_t *sort_words(tsr__lower *low, uint64_t *list, uint64_t *spare, int64_t count,
                            bool real)
{
  for (int64_t i = 0; i < count; i++) list[i] = key_of(list[i], real);
  for (int shift = 0; shift < 64 && count > 1; shift += 8)
    if (!sort_pass(low, &list, &spare, count, shift)) return NULL;
  for (int64_t i = 0; i < count; i++) list[i] = word_of(list[i], real);
  return list;
}

/* ---- finding -------------------------------------------------------------------------------- */

static bool failed(tsr__lower *low)
{
  tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
  return false;
}

static void collect(const uint64_t *row, const uint8_t *use, int64_t rows, bool real, words *set)
{
  for (int64_t i = 0; i < rows && !set->failed && !set->stopped && set->count <= MOST; i++) {
    double value;
    set->stopped = tsr__lower_stops(set->low, i);
    memcpy(&value, &row[i], sizeof value);
    if (use && !use[i]) continue;
    if (real && isnan(value)) continue;
    put(set, real && value == 0 ? 0 : row[i]);
  }
}

static bool list_words(tsr__lower *low, const words *set, bool real, tsr__distinct *ask)
{
  uint64_t *list = tsr__lower_room(low, (int64_t)set->count + 1, sizeof *list);
  uint64_t *spare = tsr__lower_room(low, (int64_t)set->count + 1, sizeof *list);
  int64_t n = 0;
  if (!list || !spare) return false;
  if (set->zero) list[n++] = 0;
  for (size_t i = 0; i < set->room; i++) {
    if (tsr__lower_stops(low, (int64_t)i)) return false;
    if (set->slot[i]) list[n++] = set->slot[i];
  }
  ask->list = sort_words(low, list, spare, n, real);
  ask->count = n;
  return ask->list != NULL;
}

/* The list of values that were evaluated. */
static bool find(tsr__lower *low, tsr__distinct *ask)
{
  tsr__heap *heap = &low->scope->rt->heap;
  bool real = ask->values->dtype == TSR_F64;
  int64_t rows = ask->values->shape.rank ? ask->values->shape.dims[0] : 1;
  size_t room = (size_t)(rows ? rows : 1);
  uint64_t *row = tsr__new_raw(heap, room * sizeof *row);
  uint8_t *use = ask->mask ? tsr__new_raw(heap, room) : NULL;
  words set = { .heap = heap, .low = low, .seed = tsr__key_seed_of(heap->seed) };
  set.failed = !row || (ask->mask && !use);
  tsr__bind *bind = low->bind;
  bool whole = !set.failed &&
               !tsr__value_fetch(ask->values->value, row, bind->what, &bind->error) &&
               (!use || !tsr__value_fetch(ask->mask->value, use, bind->what, &bind->error));
  if (whole) collect(row, use, rows, real, &set);
  tsr__del(heap, row, row ? room * sizeof *row : 0);
  tsr__del(heap, use, use ? room : 0);
  bool fine = false;
  if (set.failed) failed(low);
  else if (!whole) tsr__fail_error(low->scope, low->site, &bind->error);
  else if (set.count > MOST)
    tsr__fail(low->scope, low->site, TSR_EUNSUPPORTED,
              "%s: more than %d different values or pairs of texts; make fewer before, or filter",
              low->bind->what, MOST);
  else if (!set.stopped) fine = list_words(low, &set, real, ask);
  tsr__del(heap, set.slot, set.room * sizeof *set.slot);
  return fine;
}

/* Finds all that was asked for since the last time. */
static tsr_status find_asked(tsr__bind *bind)
{
  int count = 0, n = 0;
  for (const tsr__distinct *d = bind->distinct; d && !d->found; d = d->next) count++;
  tsr_array **roots = tsr__bind_room(bind, 2 * count, sizeof *roots);
  if (!roots) return bind->error.status;
  for (const tsr__distinct *d = bind->distinct; d && !d->found; d = d->next) {
    roots[n++] = d->values;
    roots[n++] = d->mask;
  }
  bind->asked = false;
  tsr_status status = tsr__bind_run(bind, roots, n);
  for (tsr__distinct *d = bind->distinct; d && !d->found && !status; d = d->next) {
    tsr__lower low = { .bind = bind, .scope = bind->scope, .site = d->site, .frame = d->frame };
    if (!find(&low, d)) status = tsr_scope_status(bind->scope);
  }
  for (tsr__distinct *d = bind->distinct; d && !d->found; d = d->next) d->found = true;
  return status;
}

tsr_status tsr__lower_until_known(tsr__bind *bind, tsr__lowering *lower, void *user)
{
  tsr__run_check *checks = bind->checks;
  int check_count = bind->check_count;
  tsr_status status = lower(bind, user);
  while (bind->asked && !status) {
    bind->checks = checks; /* those of columns that were not known yet say nothing */
    bind->check_count = check_count;
    status = find_asked(bind);
    if (!status) status = lower(bind, user);
  }
  return status;
}
