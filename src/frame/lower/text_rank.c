/* Dictionaries in order, and dictionaries against each other.
 *
 *   dictionary   0 "bob"  1 "ann"  2 "amy"        ranks   2 1 0
 *
 * Ranks come of a radix sort by eight bytes of the texts at a time: equal keys that go on are
 * sorted by the next eight. A text that ends goes before those that have it as their beginning, so
 * a key is the bytes and how many there were. Everything here is done once for each distinct
 * text. */
#include "frame/lower/lower.h"

#include "io/text/dict.h"

enum { STEP = 8, FEW = 24, DIGITS = 256 };

/* A text in the order so far: its next bytes, and how many of them are its own (STEP + 1: it goes
 * on). */
typedef struct item {
  uint64_t key;
  int32_t code;
  uint8_t left;
} item;

static void *room(tsr__lower *low, int64_t count, size_t element)
{
  void *out = tsr__arena_new(&low->scope->arena, (size_t)(count > 0 ? count : 1) * element);
  if (!out) tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
  return out;
}

static void load(const tsr__dict *dict, item *it, int64_t depth)
{
  int64_t length;
  const char *text = tsr__dict_get(dict, it->code, &length);
  int64_t left = length - depth;
  uint8_t bytes[STEP] = { 0 };
  memcpy(bytes, text + depth, (size_t)(left < STEP ? left : STEP));
  uint64_t key;
  memcpy(&key, bytes, sizeof key);
  it->key = __builtin_bswap64(key);
  it->left = (uint8_t)(left > STEP ? STEP + 1 : left);
}

static bool before(const item *a, const item *b)
{
  return a->key != b->key ? a->key < b->key : a->left < b->left;
}

static void sort_few(item *items, int64_t count)
{
  for (int64_t i = 1; i < count; i++) {
    item it = items[i];
    int64_t at = i;
    for (; at > 0 && before(&it, &items[at - 1]); at--) items[at] = items[at - 1];
    items[at] = it;
  }
}

static unsigned digit(const item *it, int pass)
{
  return pass == 0 ? it->left : (unsigned)(it->key >> (8 * (pass - 1)) & 0xff);
}

/* A run of texts that are alike in their first `depth` bytes. */
typedef struct run {
  int64_t first, count, depth;
} run;

typedef struct sorter {
  tsr__lower *low;
  int64_t steps; /* texts sorted so far, as often as each was */
  const tsr__dict *dict;
  item *items, *spare;
  run *todo; /* at most one for each two texts */
  int64_t runs;
  bool stopped;
} sorter;

static bool stops(sorter *s)
{
  return s->stopped = s->stopped || tsr__lower_stops(s->low, s->steps++);
}

/* By the least significant digit first; digits that all have alike are skipped. */
static void sort_many(sorter *s, item *items, int64_t count)
{
  item *from = items, *to = s->spare;
  for (int pass = 0; pass <= STEP; pass++) {
    int64_t start[DIGITS] = { 0 }, sum = 0;
    for (int64_t i = 0; i < count; i++) start[digit(&from[i], pass)]++;
    if (start[digit(&from[0], pass)] == count) continue;
    for (int d = 0; d < DIGITS; d++) {
      int64_t here = start[d];
      start[d] = sum;
      sum += here;
    }
    for (int64_t i = 0; i < count; i++) {
      if (stops(s)) return;
      to[start[digit(&from[i], pass)]++] = from[i];
    }
    item *swap = from;
    from = to;
    to = swap;
  }
  if (from != items) memcpy(items, from, (size_t)count * sizeof *items);
}

static void sort_run(sorter *s, run r)
{
  item *items = s->items + r.first;
  for (int64_t i = 0; i < r.count && !stops(s); i++) load(s->dict, &items[i], r.depth);
  if (s->stopped) return;
  if (r.count <= FEW) sort_few(items, r.count);
  else sort_many(s, items, r.count);
  if (s->stopped) return;
  for (int64_t i = 0, end; i < r.count; i = end) {
    for (end = i + 1; end < r.count && !before(&items[i], &items[end]); end++) {
    }
    if (end - i > 1 && items[i].left > STEP)
      s->todo[s->runs++] = (run){ r.first + i, end - i, r.depth + STEP };
  }
}

const int32_t *tsr__text_ranks(tsr__lower *low, const tsr__dict *dict)
{
  int64_t count = dict->count;
  int32_t *ranks = room(low, count, sizeof *ranks);
  sorter s = { .low = low,
               .dict = dict,
               .items = room(low, count, sizeof(item)),
               .spare = room(low, count, sizeof(item)),
               .todo = room(low, count / 2 + 1, sizeof(run)) };
  if (!ranks || !s.items || !s.spare || !s.todo) return NULL;
  for (int64_t i = 0; i < count; i++) s.items[i].code = (int32_t)i;
  if (count > 1) s.todo[s.runs++] = (run){ 0, count, 0 };
  while (s.runs && !s.stopped) sort_run(&s, s.todo[--s.runs]);
  if (s.stopped) return NULL;
  for (int64_t i = 0; i < count; i++) ranks[s.items[i].code] = (int32_t)i;
  return ranks;
}

/* ---- one dictionary against another ---------------------------------------------------------- */

/* Adds the texts of a dictionary to a table; codes[i] is what text i got. False: it failed or was
 * cancelled. */
static bool add_texts(tsr__lower *low, tsr__dict_local *local, const tsr__dict *dict,
                      int32_t *codes)
{
  for (int32_t i = 0; i < dict->count; i++) {
    int64_t length;
    bool added;
    if (tsr__lower_stops(low, i)) return false;
    const char *text = tsr__dict_get(dict, i, &length);
    codes[i] = tsr__dict_code(local, text, (size_t)length, false, &added);
    if (codes[i] < 0) break;
  }
  if (local->failed && local->progress->stop) tsr__lower_cancelled(low);
  return !local->failed;
}

const int32_t *tsr__text_map(tsr__lower *low, const tsr__dict *from, const tsr__dict *to)
{
  int32_t *own = room(low, to->count, sizeof *own), *codes = room(low, from->count, sizeof *codes);
  if (!own || !codes) return NULL;
  tsr__progress progress = { .rt = low->scope->rt, .what = TSR__PROGRAM };
  tsr__dict_local local;
  tsr__dict_local_init(&local, &low->scope->rt->heap);
  local.progress = &progress;
  bool fine = add_texts(low, &local, to, own) && add_texts(low, &local, from, codes);
  tsr__dict_local_free(&local);
  for (int32_t i = 0; fine && i < from->count; i++)
    if (codes[i] >= to->count) codes[i] = -1;
  if (fine) return codes;
  tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
  return NULL;
}

static bool same_codes(const int32_t *codes, int32_t count)
{
  for (int32_t i = 0; i < count; i++)
    if (codes[i] != i) return false;
  return true;
}

static tsr_status unify_all(tsr__lower **low, tsr__col **col, int count, tsr__dict_local *local)
{
  bool fine = true;
  for (int i = 0; i < count && fine; i++) {
    const tsr__dict *dict = col[i]->dict;
    if (!dict || !dict->count) continue;
    int32_t *codes = room(low[i], dict->count, sizeof *codes);
    fine = codes && add_texts(low[i], local, dict, codes);
    if (!fine || same_codes(codes, dict->count)) continue;
    tsr_array *table = tsr__table_leaf(low[i], TSR_I32, codes, dict->count);
    col[i]->values = tsr__op2(low[i], TSR__OP_TAKE, table, tsr__spread(low[i], col[i]->values));
  }
  tsr__dict *made = fine ? tsr__dict_unify(local->heap, &local, 1) : NULL;
  const tsr__dict *all = tsr__lower_dict(low[0], made, local->progress);
  for (int i = 0; i < count; i++) col[i]->dict = all;
  return tsr_scope_status(low[0]->scope);
}

tsr_status tsr__text_unify_all(tsr__lower **low, tsr__col **col, int count)
{
  const tsr__dict *one = NULL;
  bool alike = true;
  for (int i = 0; i < count; i++) {
    if (!col[i]->dict) continue;
    alike = alike && (!one || one == col[i]->dict);
    one = col[i]->dict;
  }
  for (int i = 0; i < count && alike; i++) col[i]->dict = one;
  if (alike) return TSR_OK;
  tsr__progress progress = { .rt = low[0]->scope->rt, .what = TSR__PROGRAM };
  tsr__dict_local local;
  tsr__dict_local_init(&local, &low[0]->scope->rt->heap);
  local.progress = &progress;
  tsr_status status = unify_all(low, col, count, &local);
  tsr__dict_local_free(&local);
  return status;
}
