/* Texts in order, by eight bytes at a time, on all workers.
 *
 *   list   0 "bob"  1 "ann"  2 "bob"  3 "amy"        ranks   2 1 2 0
 *
 * A key is the next eight bytes and how many of them are the text's own: a text that ends goes
 * before those that have it as their beginning. Many texts are dealt to buckets by keys that a
 * sample tells, a key that is frequent to one of its own; what is small enough for a cache is one
 * task, sorted by digits. Texts with equal keys that go on are sorted by what follows.
 *
 *   split   < s0 | == s0 | between | == s1 | > s1      buckets of a range, 0 to 2 * splitters
 *
 * Invariant: ranks follow from the texts alone. Equal ones have one rank, whatever their places, so
 * neither buckets nor the order in which equal texts come out show. */
#include "frame/lower/functions.h"

#include <stdlib.h>

enum {
  STEP = 8,
  FEW = 24,
  DIGITS = 256,
  SMALL = 1 << 16, /* texts that one task sorts */
  CHUNK = 1 << 14, /* texts of a range that a task looks at */
  AHEAD = 12,      /* texts that are asked for before they are looked at: they lie anywhere */
  SPLITTERS = 127,
  SAMPLE = 16 * SPLITTERS,
  BUCKETS = 2 * SPLITTERS + 1
};

/* A text in the order so far: its next bytes, and how many of them are its own (STEP + 1: it goes
 * on). `tie`: it is equal to the text before it, which is known where it ends. */
typedef struct item {
  uint64_t key;
  int32_t code;
  uint8_t left, bucket;
  bool tie;
} item;

/* A run of texts that are alike in their first `depth` bytes. `loaded`: their keys are there, so
 * that the texts, which lie anywhere, are looked at no more before these tell nothing new. */
typedef struct range {
  int64_t first, count, depth;
  bool loaded;
} range;

typedef struct ranges {
  range *list;
  size_t room;
  int64_t count;
} ranges;

typedef struct sorter {
  tsr__heap *heap;
  const tsr__dict *dict;
  item *items, *spare;
  ranges large, small; /* still to be sorted; small ones all at once at the end */
  /* The range that is split. */
  range now;
  item splitter[SPLITTERS];
  uint64_t split_key[SPLITTERS]; /* theirs; behind the last the largest there is */
  int splitters;
  int64_t *start; /* [chunk * BUCKETS + bucket]: how many, then where they go */
  int64_t *least; /* by chunk: bytes that its texts have in common with the range's first */
  int32_t *ranks;
  int64_t *different; /* by chunk: texts that are no ties, then how many stand before */
  _Atomic bool no_memory;
} sorter;

static const char *rest_of(const tsr__dict *dict, int32_t code, int64_t depth, int64_t *left)
{
  const char *text = tsr__dict_get(dict, code, left);
  *left -= depth;
  return text + depth;
}

/* A statement, as the compiler drops calls of functions that only ask ahead. */
#define ASK_AHEAD(dict, items, i, count, depth)                                                 \
  do {                                                                                          \
    if ((i) + 2 * AHEAD < (count))                                                              \
      __builtin_prefetch(&(dict)->offsets[(items)[(i) + 2 * AHEAD].code]);                      \
    if ((i) + AHEAD < (count))                                                                  \
      __builtin_prefetch((dict)->bytes + (dict)->offsets[(items)[(i) + AHEAD].code] + (depth)); \
  } while (0)

static void load(const tsr__dict *dict, item *it, int64_t depth)
{
  int64_t left;
  const char *text = rest_of(dict, it->code, depth, &left);
  uint64_t key = 0;
  if (left >= STEP) memcpy(&key, text, STEP);
  else memcpy(&key, text, (size_t)left);
  /* The first byte of the text on top, so that numbers compare as texts do. */
  it->key = __builtin_bswap64(key);
  /* "a" and "a" followed by a zero byte have one key; how many bytes are their own tells them
   * apart. */
  it->left = (uint8_t)(left > STEP ? STEP + 1 : left);
  it->tie = false;
}

static void load_all(const tsr__dict *dict, item *items, int64_t count, int64_t depth)
{
  for (int64_t i = 0; i < count; i++) {
    ASK_AHEAD(dict, items, i, count, depth);
    load(dict, &items[i], depth);
  }
}

static inline bool before(const item *a, const item *b)
{
  return a->key != b->key ? a->key < b->key : a->left < b->left;
}

static inline bool alike(const item *a, const item *b)
{
  return a->key == b->key && a->left == b->left;
}

static bool add_range(sorter *s, ranges *to, range r)
{
  bool fine = tsr__grow(s->heap, (void **)&to->list, &to->room, (size_t)to->count + 1, sizeof r);
  if (fine) to->list[to->count++] = r;
  else atomic_store(&s->no_memory, true);
  return fine;
}

/* How many bytes from `depth` on all texts of a range share with its first, at most `most`. */
static int64_t in_common(const sorter *s, const item *items, int64_t count, int64_t depth)
{
  int64_t most, left;
  const char *first = rest_of(s->dict, items[0].code, depth, &most);
  for (int64_t i = 1; i < count && most; i++) {
    ASK_AHEAD(s->dict, items, i, count, depth);
    const char *text = rest_of(s->dict, items[i].code, depth, &left);
    int64_t n = 0;
    if (left < most) most = left;
    while (n < most && text[n] == first[n]) n++;
    most = n;
  }
  return most;
}

/* ---- small ranges ---------------------------------------------------------------------------- */

/* Of texts with their keys: what follows decides where those do not. */
static int order_of(const sorter *s, const item *a, const item *b, int64_t depth)
{
  int64_t left, other;
  if (!alike(a, b)) return before(a, b) ? -1 : 1;
  if (a->left <= STEP) return 0;
  const char *text = rest_of(s->dict, a->code, depth + STEP, &left);
  const char *next = rest_of(s->dict, b->code, depth + STEP, &other);
  return tsr__text_order(text, left, next, other);
}

static void sort_few(const sorter *s, item *items, int64_t count, int64_t depth)
{
  for (int64_t i = 1; i < count; i++) {
    item it = items[i];
    int64_t at = i;
    for (; at > 0 && order_of(s, &it, &items[at - 1], depth) < 0; at--) items[at] = items[at - 1];
    items[at] = it;
  }
  for (int64_t i = 1; i < count; i++) items[i].tie = !order_of(s, &items[i - 1], &items[i], depth);
}

/* The length is the least significant digit. */
static inline unsigned digit(const item *it, int pass)
{
  return pass == 0 ? it->left : (unsigned)(it->key >> (8 * (pass - 1)) & 0xff);
}

/* By the least significant digit first: how many bytes are left, then eight bytes, the last one
 * first. Each pass is stable; digits that all have alike are skipped. */
static void sort_many(item *items, item *spare, int64_t count)
{
  item *from = items, *to = spare;
  for (int pass = 0; pass <= STEP; pass++) {
    int32_t start[DIGITS] = { 0 }, sum = 0;
    for (int64_t i = 0; i < count; i++) start[digit(&from[i], pass)]++;
    if (start[digit(&from[0], pass)] == count) continue;
    for (int d = 0; d < DIGITS; d++) {
      int32_t here = start[d];
      start[d] = sum;
      sum += here;
    }
    for (int64_t i = 0; i < count; i++) to[start[digit(&from[i], pass)]++] = from[i];
    item *swap = from;
    from = to;
    to = swap;
  }
  if (from != items) memcpy(items, from, (size_t)count * sizeof *items);
}

/* Sorts one range by a key's bytes; those that are alike and go on are added to `todo`. */
static bool sort_range(sorter *s, range r, ranges *todo)
{
  item *items = s->items + r.first;
  bool few = r.count <= FEW;
  /* What all have in common needs no digits; a comparison passes over it by itself. */
  if (!few && !r.loaded) r.depth += in_common(s, items, r.count, r.depth);
  if (!r.loaded) load_all(s->dict, items, r.count, r.depth);
  if (few) {
    sort_few(s, items, r.count, r.depth);
    return true;
  }
  sort_many(items, s->spare + r.first, r.count);
  for (int64_t i = 0, end; i < r.count; i = end) {
    bool goes_on = items[i].left > STEP;
    for (end = i + 1; end < r.count && alike(&items[i], &items[end]); end++)
      items[end].tie = !goes_on;
    range more = { r.first + i, end - i, r.depth + STEP, false };
    if (goes_on && end - i > 1 && !add_range(s, todo, more)) return false;
  }
  return true;
}

static void sort_small(void *user, int64_t task, int worker)
{
  (void)worker;
  sorter *s = user;
  ranges todo = { 0 };
  /* A list instead of recursion: texts that are alike for a megabyte need no stack. */
  bool fine = sort_range(s, s->small.list[task], &todo);
  while (fine && todo.count) {
    range next = todo.list[--todo.count];
    fine = sort_range(s, next, &todo);
  }
  tsr__del(s->heap, todo.list, todo.room * sizeof *todo.list);
}

/* ---- large ranges ---------------------------------------------------------------------------- */

static int64_t chunks_of(int64_t count)
{
  return (count + CHUNK - 1) / CHUNK;
}

/* A chunk's items of the range that is split; how many. */
static int64_t chunk_of(const sorter *s, int64_t chunk, item **out)
{
  int64_t left = s->now.count - chunk * CHUNK;
  *out = s->items + s->now.first + chunk * CHUNK;
  return left < CHUNK ? left : CHUNK;
}

static void compare_chunk(void *user, int64_t chunk, int worker)
{
  (void)worker;
  sorter *s = user;
  item *items, *first = s->items + s->now.first;
  int64_t count = chunk_of(s, chunk, &items);
  item pair[2] = { *first, items[0] };
  int64_t own = in_common(s, items, count, s->now.depth);
  int64_t with = in_common(s, pair, 2, s->now.depth);
  s->least[chunk] = own < with ? own : with;
}

static void load_chunk(void *user, int64_t chunk, int worker)
{
  (void)worker;
  sorter *s = user;
  item *items;
  int64_t count = chunk_of(s, chunk, &items);
  load_all(s->dict, items, count, s->now.depth);
}

static int by_key(const void *left, const void *right)
{
  const item *a = left, *b = right;
  return before(a, b) ? -1 : before(b, a);
}

/* Different keys of a sample at even distances: a frequent one is among them. */
static void choose_splitters(sorter *s)
{
  item sample[SAMPLE];
  const item *items = s->items + s->now.first;
  for (int64_t i = 0; i < SAMPLE; i++) sample[i] = items[i * s->now.count / SAMPLE];
  qsort(sample, SAMPLE, sizeof *sample, by_key);
  s->splitters = 0;
  for (int i = SAMPLE / SPLITTERS / 2; i < SAMPLE; i += SAMPLE / SPLITTERS)
    if (s->splitters < SPLITTERS &&
        (!s->splitters || !alike(&s->splitter[s->splitters - 1], &sample[i])))
      s->splitter[s->splitters++] = sample[i];
  for (int i = 0; i < SPLITTERS; i++)
    s->split_key[i] = i < s->splitters ? s->splitter[i].key : UINT64_MAX;
}

static int bucket_of(const sorter *s, const item *it)
{
  int low = 0;
  /* How many keys are below it, without a branch that depends on it. */
  for (int half = (SPLITTERS + 1) / 2; half; half /= 2)
    low += s->split_key[low + half - 1] < it->key ? half : 0;
  /* The first splitter that is not before it. */
  while (low < s->splitters && before(&s->splitter[low], it)) low++;
  return 2 * low + (low < s->splitters && alike(&s->splitter[low], it));
}

static void count_chunk(void *user, int64_t chunk, int worker)
{
  (void)worker;
  sorter *s = user;
  item *items;
  int64_t count = chunk_of(s, chunk, &items), *here = s->start + chunk * BUCKETS;
  memset(here, 0, BUCKETS * sizeof *here);
  for (int64_t i = 0; i < count; i++) {
    items[i].bucket = (uint8_t)bucket_of(s, &items[i]);
    here[items[i].bucket]++;
  }
}

static void deal_chunk(void *user, int64_t chunk, int worker)
{
  (void)worker;
  sorter *s = user;
  item *items;
  int64_t count = chunk_of(s, chunk, &items), *at = s->start + chunk * BUCKETS;
  for (int64_t i = 0; i < count; i++) s->spare[at[items[i].bucket]++] = items[i];
}

static void copy_chunk(void *user, int64_t chunk, int worker)
{
  (void)worker;
  sorter *s = user;
  item *items;
  int64_t count = chunk_of(s, chunk, &items);
  memcpy(items, s->spare + (items - s->items), (size_t)count * sizeof *items);
}

/* What becomes of a bucket that lies from `first` on. */
static bool add_bucket(sorter *s, int bucket, int64_t first, int64_t count)
{
  range r = { first, count, s->now.depth, true };
  if (count < 2) return true;
  if (bucket % 2) {
    /* One key: the texts end with it and are equal, or what follows decides. */
    bool ends = s->splitter[bucket / 2].left <= STEP;
    for (int64_t i = 1; ends && i < count; i++) s->items[first + i].tie = true;
    if (ends) return true;
    r.depth += STEP;
    r.loaded = false;
  }
  return add_range(s, count > SMALL ? &s->large : &s->small, r);
}

/* Where the buckets of each chunk go, one bucket after the other. */
static bool place_buckets(sorter *s, int64_t chunks)
{
  int64_t at = s->now.first;
  for (int b = 0; b < 2 * s->splitters + 1; b++) {
    for (int64_t c = 0; c < chunks; c++) {
      int64_t here = s->start[c * BUCKETS + b];
      s->start[c * BUCKETS + b] = at;
      at += here;
    }
  }
  return at == s->now.first + s->now.count;
}

/* The buckets, once their texts were dealt: the last chunk's places are where they end. */
static bool add_buckets(sorter *s, int64_t chunks)
{
  int64_t first = s->now.first;
  for (int b = 0; b < 2 * s->splitters + 1; b++) {
    int64_t end = s->start[(chunks - 1) * BUCKETS + b];
    if (!add_bucket(s, b, first, end - first)) return false;
    first = end;
  }
  return true;
}

/* The keys of the range at hand, behind what all its texts have in common; false: cancelled. */
static bool load_range(tsr_runtime *rt, sorter *s, int64_t chunks)
{
  if (!tsr__parallel_long(rt, TSR__PROGRAM, chunks, compare_chunk, s)) return false;
  int64_t common = s->least[0];
  for (int64_t c = 1; c < chunks; c++)
    if (s->least[c] < common) common = s->least[c];
  s->now.depth += common;
  return tsr__parallel_long(rt, TSR__PROGRAM, chunks, load_chunk, s);
}

/* False: out of memory or cancelled. */
static bool split_range(tsr__lower *low, sorter *s, range r)
{
  tsr_runtime *rt = low->scope->rt;
  int64_t chunks = chunks_of(r.count);
  s->now = r;
  if (!r.loaded && !load_range(rt, s, chunks)) return false;
  choose_splitters(s);
  return tsr__parallel_long(rt, TSR__PROGRAM, chunks, count_chunk, s) && place_buckets(s, chunks) &&
         tsr__parallel_long(rt, TSR__PROGRAM, chunks, deal_chunk, s) &&
         tsr__parallel_long(rt, TSR__PROGRAM, chunks, copy_chunk, s) && add_buckets(s, chunks);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void count_different(void *user, int64_t chunk, int worker)
{
  (void)worker;
  sorter *s = user;
  item *items;
  int64_t count = chunk_of(s, chunk, &items), sum = 0;
  for (int64_t i = 0; i < count; i++) sum += !items[i].tie;
  s->different[chunk] = sum;
}

static void rank_chunk(void *user, int64_t chunk, int worker)
{
  (void)worker;
  sorter *s = user;
  item *items;
  int64_t count = chunk_of(s, chunk, &items), rank = s->different[chunk] - 1;
  for (int64_t i = 0; i < count; i++) {
    rank += !items[i].tie;
    s->ranks[items[i].code] = (int32_t)rank;
  }
}

static bool rank_all(tsr__lower *low, sorter *s, int64_t count)
{
  tsr_runtime *rt = low->scope->rt;
  int64_t chunks = chunks_of(count), sum = 0;
  s->now = (range){ .count = count };
  if (!tsr__parallel_long(rt, TSR__PROGRAM, chunks, count_different, s)) return false;
  for (int64_t c = 0; c < chunks; c++) {
    int64_t here = s->different[c];
    s->different[c] = sum;
    sum += here;
  }
  return tsr__parallel_long(rt, TSR__PROGRAM, chunks, rank_chunk, s);
}

static bool sort_all(tsr__lower *low, sorter *s, int64_t count)
{
  range all = { .count = count };
  bool fine = add_range(s, count > SMALL ? &s->large : &s->small, all);
  while (fine && s->large.count) {
    range next = s->large.list[--s->large.count];
    fine = split_range(low, s, next);
  }
  return fine && tsr__parallel_long(low->scope->rt, TSR__PROGRAM, s->small.count, sort_small, s) &&
         !s->no_memory && rank_all(low, s, count);
}

const int32_t *tsr__text_ranks(tsr__lower *low, const tsr__dict *dict)
{
  tsr__heap *heap = &low->scope->rt->heap;
  size_t count = (size_t)dict->count, chunks = (size_t)chunks_of(dict->count) + 1;
  size_t items = (count + 1) * sizeof(item), starts = chunks * BUCKETS * sizeof(int64_t);
  sorter s = { .heap = heap,
               .dict = dict,
               .ranks = tsr__lower_room(low, dict->count, sizeof(int32_t)) };
  if (!s.ranks || tsr__lower_stops(low, -1)) return NULL;
  s.items = tsr__new_raw(heap, items);
  s.spare = tsr__new_raw(heap, items);
  s.start = tsr__new_raw(heap, starts);
  s.least = tsr__new_raw(heap, chunks * sizeof *s.least);
  s.different = tsr__new_raw(heap, chunks * sizeof *s.different);
  bool room = s.items && s.spare && s.start && s.least && s.different;
  for (size_t i = 0; room && i < count; i++) s.items[i] = (item){ .code = (int32_t)i };
  bool whole = room && (!count || sort_all(low, &s, dict->count));
  tsr__del(heap, s.items, items);
  tsr__del(heap, s.spare, items);
  tsr__del(heap, s.start, starts);
  tsr__del(heap, s.least, chunks * sizeof *s.least);
  tsr__del(heap, s.different, chunks * sizeof *s.different);
  tsr__del(heap, s.large.list, s.large.room * sizeof *s.large.list);
  tsr__del(heap, s.small.list, s.small.room * sizeof *s.small.list);
  if (whole) return s.ranks;
  tsr__progress progress = { .rt = low->scope->rt, .what = TSR__PROGRAM };
  progress.stop = room && !s.no_memory;
  (void)tsr__lower_dict(low, NULL, &progress);
  return NULL;
}
