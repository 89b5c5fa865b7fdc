/* Dictionaries of text columns.
 *
 *   worker 0: EWR row 0, JFK row 0, LGA row 256    0 1 3
 *   worker 1: BOS row 64, EWR row 64               2 0       unified: EWR JFK BOS LGA
 *
 * Invariant: a worker's entries are in the order in which they first appeared among its rows, so
 * merging them by those rows gives the order of first appearance in the file, however the rows
 * were dealt out. Hash values decide nothing but where to look. */
#include "io/text/dict_inner.h"

#include "base/utf8.h"

void tsr__dict_local_free(tsr__dict_local *local)
{
  if (!local->heap) return;
  tsr__arena_free(&local->arena);
  tsr__del(local->heap, local->entries, local->capacity * sizeof *local->entries);
  tsr__del(local->heap, local->slots, local->slot_count * sizeof *local->slots);
  tsr__del(local->heap, local->scratch, local->scratch_size);
  tsr__dict_runs_free(local);
  *local = (tsr__dict_local){ 0 };
}

/* ---- keys --------------------------------------------------------------------------------- */

__extension__ typedef unsigned __int128 wide;

/* Odd constants with bits everywhere: the fractional part of the golden ratio, and one of a
 * published mixer. */
static const uint64_t k1 = UINT64_C(0x9e3779b97f4a7c15), k2 = UINT64_C(0xd6e8feb86659fd93);

/* All dictionaries of a heap share them, for their keys meet in unify. */
static void make_secret(uint64_t seed, uint64_t secret[2])
{
  secret[0] = tsr__hash("", 0, seed) ^ k1;
  secret[1] = tsr__hash("", 0, ~seed) ^ k2;
}

static inline uint64_t load(const char *at)
{
  uint64_t x;
  memcpy(&x, at, 8);
  return x;
}

/* A product of 128 bits folded to 64: every bit of both has a say in every bit of the result. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
  wide product = (wide)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Two hashes for a key of more than 16 bytes; the last two loads may overlap the others. */
static void hash_long(const char *at, size_t length, const uint64_t secret[2], tsr__dict_key *key)
{
  /* Two hashes of 64 bits with another way of mixing each: texts that are equal in both are
   * compared as well, so they only save comparisons. */
  const char *last = at + length - 16;
  uint64_t a = length * k2, b = k1;
  for (; at < last; at += 16) {
    a = fold(a ^ load(at) ^ secret[0], load(at + 8) ^ secret[1]);
    b = (b ^ load(at)) * k2 + load(at + 8);
  }
  key->a = fold(a ^ load(last) ^ secret[0], load(last + 8) ^ secret[1]);
  key->b = (b ^ load(last)) * k2 + load(last + 8);
}

static inline uint64_t low_bytes(uint64_t x, size_t count)
{
  return count ? x & UINT64_MAX >> (64 - 8 * count) : 0;
}

/* 16 bytes behind the text are readable. Made here rather than by tsr__hash because most texts
 * of a table are shorter than a call takes. A short text is its own key: looking it up never leaves
 * the slot.
 *
 *    length 0..8     a = bytes, 0...         9..16   a, b = bytes, 0...
 *    longer          a, b = two hashes, and the text is compared */
static inline tsr__dict_key key_of_padded(const char *at, size_t length, const uint64_t secret[2])
{
  tsr__dict_key key = { .length = (uint32_t)length };
  if (length <= 8) {
    key.a = low_bytes(load(at), length);
  } else if (length <= 16) {
    key.a = load(at);
    key.b = low_bytes(load(at + 8), length - 8);
  } else {
    hash_long(at, length, secret, &key);
  }
  /* The length goes in: "a" and "a\0" have the same bytes in their keys. The low bits of one
   * product say where to look, and counted texts make a ladder of them: a second one mixes it. */
  key.hash = fold(fold(key.a ^ secret[0], key.b ^ secret[1] ^ length), k1);
  return key;
}

static tsr__dict_key key_of(const char *at, size_t length, const uint64_t secret[2])
{
  char padded[32] = { 0 };
  /* Longer texts have 16 bytes to load; short ones may end at the end of readable memory. */
  if (length > 16) return key_of_padded(at, length, secret);
  if (length) memcpy(padded, at, length);
  return key_of_padded(padded, length, secret);
}

/* ---- local dictionaries ------------------------------------------------------------------- */

void tsr__dict_local_init(tsr__dict_local *local, tsr__heap *heap)
{
  *local = (tsr__dict_local){ .heap = heap };
  tsr__arena_init(&local->arena, heap);
  make_secret(heap->seed, local->secret);
}

enum { ASK_AFTER = 1 << 14 }; /* steps between two questions whether to go on */

static inline bool stops(const tsr__dict_local *local, size_t step)
{
  return step % ASK_AFTER == ASK_AFTER - 1 && local->progress &&
         tsr__progress_stops(local->progress, local->worker);
}

/* Where the search for a key begins: at the first slot of a cache line, so that it mostly ends in
 * the line that was fetched. */
static inline size_t home_of(uint64_t hash, size_t slot_count)
{
  return hash & (slot_count - 1) & ~(size_t)1;
}

/* False: cancelled. */
static bool fill_slots(const tsr__dict_local *local, tsr__dict_slot *slots, size_t slot_count)
{
  for (size_t i = 0; i < slot_count; i++) {
    if (stops(local, i)) return false;
    slots[i].entry = -1;
  }
  /* In steps: a dictionary of a hundred million texts takes seconds to grow, and may be
   * cancelled. */
  for (size_t i = 0; i < local->slot_count; i++) {
    const tsr__dict_slot *slot = &local->slots[i];
    if (stops(local, i)) return false;
    if (slot->entry < 0) continue;
    size_t at = home_of(slot->hash, slot_count);
    while (slots[at].entry >= 0) at = (at + 1) & (slot_count - 1);
    slots[at] = *slot;
  }
  return true;
}

static bool rehash(tsr__dict_local *local, size_t slot_count)
{
  size_t size = slot_count * sizeof(tsr__dict_slot);
  tsr__dict_slot *slots = tsr__new_raw(local->heap, size);
  if (!slots) return false;
  /* What fails leaves the old slots as they were: the dictionary is still whole. */
  if (!fill_slots(local, slots, slot_count)) {
    tsr__del(local->heap, slots, size);
    return false;
  }
  tsr__del(local->heap, local->slots, local->slot_count * sizeof *local->slots);
  local->slots = slots;
  local->slot_count = slot_count;
  return true;
}

/* Twice the room for entries, moved a little at a time. */
static bool widen(tsr__dict_local *local)
{
  size_t capacity = local->capacity ? 2 * local->capacity : 8, count = (size_t)local->count;
  tsr__dict_entry *entries = tsr__new_raw(local->heap, capacity * sizeof *entries);
  if (!entries) return false;
  for (size_t i = 0; i < count; i++) {
    if (stops(local, i)) {
      tsr__del(local->heap, entries, capacity * sizeof *entries);
      return false;
    }
    entries[i] = local->entries[i];
  }
  tsr__del(local->heap, local->entries, local->capacity * sizeof *entries);
  local->entries = entries;
  local->capacity = capacity;
  return true;
}

static int32_t fail(tsr__dict_local *local)
{
  local->failed = true;
  return -1;
}

/* Adds an entry, which no slot leads to. */
static int32_t push(tsr__dict_local *local, const char *text, const tsr__dict_key *key)
{
  if (local->count == INT32_MAX) return fail(local);
  if ((size_t)local->count >= local->capacity && !widen(local)) return fail(local);
  local->entries[local->count] =
      (tsr__dict_entry){ .key = *key, .code = -1, .first = local->now, .text = text };
  local->bytes += key->length;
  return local->count++;
}

/* Adds a text that is not there yet. */
static int32_t add(tsr__dict_local *local, const char *text, const tsr__dict_key *key)
{
  if (local->count == INT32_MAX) return fail(local);
  size_t need = (size_t)local->count + 1;
  /* At most half are taken, so that a search ends soon. */
  if (need * 2 > local->slot_count) {
    size_t slots = local->slot_count ? local->slot_count * 2 : 64;
    if (!rehash(local, slots)) return fail(local);
  }
  size_t at = home_of(key->hash, local->slot_count);
  for (; local->slots[at].entry >= 0; at = (at + 1) & (local->slot_count - 1)) local->steps++;
  int32_t code = push(local, text, key);
  if (code >= 0)
    local->slots[at] = (tsr__dict_slot){ key->a, key->b, key->hash, key->length, code };
  return code;
}

static inline int32_t find(const tsr__dict_local *local, const char *text, const tsr__dict_key *key)
{
  if (!local->slot_count) return -1;
  size_t mask = local->slot_count - 1;
  for (size_t at = home_of(key->hash, mask + 1);; at = (at + 1) & mask) {
    const tsr__dict_slot *slot = &local->slots[at];
    if (slot->entry < 0) return -1;
    /* Equal short texts have equal keys and lengths, and need no comparison. */
    if (slot->a != key->a || slot->b != key->b || slot->length != key->length) continue;
    if (key->length <= 16 || memcmp(local->entries[slot->entry].text, text, key->length) == 0)
      return slot->entry;
  }
}

int32_t tsr__dict_code(tsr__dict_local *local, const char *text, size_t length, bool copy,
                       bool *added)
{
  *added = false;
  /* Lengths are kept in 32 bits. */
  if (length > UINT32_MAX) return fail(local);
  if (local->layout != TSR__TEXTS_CODES && tsr__dict_decide(local, 1)) {
    *added = true;
    return tsr__dict_append(local, text, length);
  }
  tsr__dict_key key = key_of(text, length, local->secret);
  int32_t code = find(local, text, &key);
  if (code >= 0) return code;
  *added = true;
  if ((copy || local->copies) && !(text = tsr__arena_text(&local->arena, text, length)))
    return fail(local);
  return add(local, text, &key);
}

static uint64_t append_all(tsr__dict_local *local, const tsr__text_span *texts, int count,
                           int32_t *codes)
{
  tsr__dict_append_all(local, texts, count, codes);
  return count ? UINT64_MAX >> (64 - count) : 0;
}

uint64_t tsr__dict_codes(tsr__dict_local *local, const tsr__text_span *texts, int count,
                         int32_t *codes)
{
  if (local->layout != TSR__TEXTS_CODES && tsr__dict_decide(local, count))
    return append_all(local, texts, count, codes);
  tsr__dict_key keys[64];
  uint64_t added = 0, secret[2] = { local->secret[0], local->secret[1] };
  size_t mask = local->slot_count - 1;
  for (int i = 0; i < count; i++) {
    /* All keys first, then all look-ups: the slots come from memory meanwhile. Texts are in the
     * file's block, behind which 16 bytes are readable. */
    keys[i] = key_of_padded(texts[i].at, texts[i].length, secret);
    if (local->slot_count) __builtin_prefetch(&local->slots[keys[i].hash & mask]);
  }
  for (int i = 0; i < count; i++) {
    codes[i] = find(local, texts[i].at, &keys[i]);
    if (codes[i] >= 0) continue;
    const char *text = texts[i].at;
    /* Windows are used again, so the text must move. */
    if (local->copies) text = tsr__arena_text(&local->arena, text, texts[i].length);
    codes[i] = text ? add(local, text, &keys[i]) : fail(local);
    added |= UINT64_C(1) << i;
    /* Codes behind it are not made; the caller sees `failed`. */
    if (codes[i] < 0) break;
  }
  return added;
}

/* ---- unifying ------------------------------------------------------------------------------ */

void tsr__dict_release(tsr__dict *dict)
{
  if (!dict || atomic_fetch_sub(&dict->refs, 1) > 1) return;
  tsr__dict_once *once = atomic_load(&dict->once);
  if (once) {
    tsr__dict_release(once->dict);
    tsr__del(dict->heap, once->map, once->map ? (size_t)dict->count * sizeof *once->map : 0);
    tsr__del(dict->heap, once, sizeof *once);
  }
  tsr__del_once(dict->heap, dict->offsets, dict->offsets_size);
  tsr__del_once(dict->heap, dict->bytes, dict->bytes_size);
  tsr__del(dict->heap, dict, sizeof *dict);
}

tsr__dict *tsr__dict_new(tsr__heap *heap, int32_t count, int64_t bytes)
{
  tsr__dict *dict = tsr__new(heap, sizeof *dict);
  if (!dict) return NULL;
  dict->heap = heap;
  atomic_init(&dict->refs, 1);
  dict->count = count;
  dict->offsets_size = tsr__whole_pages(((size_t)count + 1) * sizeof *dict->offsets);
  dict->bytes_size = tsr__whole_pages((size_t)bytes + 1);
  /* A byte more, for the NUL behind the last text and so that none has size 0. */
  dict->offsets = tsr__new_once(heap, dict->offsets_size);
  dict->bytes = tsr__new_once(heap, dict->bytes_size);
  if (!dict->offsets || !dict->bytes) {
    tsr__dict_release(dict);
    return NULL;
  }
  dict->offsets[0] = 0;
  dict->offsets[count] = bytes;
  dict->bytes[bytes] = 0;
  return dict;
}

tsr__dict *tsr__dict_hold(const tsr__dict *dict)
{
  tsr__dict *shared = (tsr__dict *)dict; /* what it says never changes, who holds it does */
  atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
  return shared;
}

/* Copies the entries of a local dictionary into one of its own. */
static tsr__dict *freeze(tsr__heap *heap, const tsr__dict_local *all)
{
  int64_t bytes = 0, at = 0;
  for (int32_t e = 0; e < all->count; e++) bytes += all->entries[e].key.length;
  tsr__dict *dict = tsr__dict_new(heap, all->count, bytes);
  if (dict) dict->repeats = all->unseen;
  for (int32_t e = 0; dict && e < all->count; e++) {
    const tsr__dict_entry *entry = &all->entries[e];
    if (stops(all, (size_t)e)) {
      tsr__dict_release(dict);
      return NULL;
    }
    dict->offsets[e] = at;
    /* Short texts stand in their keys: the file's bytes are far away by now. */
    memcpy(dict->bytes + at, entry->key.length <= 16 ? (const char *)&entry->key : entry->text,
           entry->key.length);
    at += entry->key.length;
  }
  return dict;
}

/* The local dictionary whose next entry (at `next`) comes first; -1: there is none. `*until` is
 * where that of another one follows. */
static int earliest(tsr__dict_local *const *locals, const int32_t *next, int count, int64_t *until)
{
  int best = -1;
  *until = INT64_MAX;
  for (int l = 0; l < count; l++) {
    if (next[l] == locals[l]->count) continue;
    int64_t at = locals[l]->entries[next[l]].first;
    if (best < 0 || at < locals[best]->entries[next[best]].first) {
      if (best >= 0) *until = locals[best]->entries[next[best]].first;
      best = l;
    } else if (at < *until) {
      *until = at;
    }
  }
  return best;
}

/* Adds entries of one local dictionary from `at` on, as long as they come before `until`; returns
 * where it stopped, -1 out of memory or cancelled. */
static int32_t take_run(tsr__dict_local *all, tsr__dict_local *local, int32_t at, int64_t until)
{
  enum { AHEAD = 16 };
  int32_t from = at;
  for (; at < local->count; at++) {
    tsr__dict_entry *entry = &local->entries[at];
    /* A run goes on until another dictionary has something earlier: its first entry is the earliest
     * by choice, even where two came in one row. */
    if (at > from && entry->first >= until) break;
    if (stops(all, (size_t)at)) return -1;
    if (all->slot_count && at + AHEAD < local->count)
      __builtin_prefetch(&all->slots[entry[AHEAD].key.hash & (all->slot_count - 1)]);
    entry->code = all->unseen ? -1 : find(all, entry->text, &entry->key);
    all->now = entry->first;
    if (entry->code < 0)
      entry->code =
          all->unseen ? push(all, entry->text, &entry->key) : add(all, entry->text, &entry->key);
    if (entry->code < 0) return -1;
    /* Texts that no two workers have alike are only put side by side from here on. */
    if (++all->asked == TSR__TEXTS_TRIAL && all->layout == TSR__TEXTS_CHOSEN)
      all->unseen = 4 * (int64_t)all->count > 3 * all->asked;
    /* Codes that stay what they were need no second pass over the rows. */
    local->recoded |= entry->code != at;
  }
  return at;
}

/* The list of `all` and of the locals' runs; entries' codes, of `all` until now, become its. */
static tsr__dict *finish(const tsr__dict_local *all, tsr__dict_local **locals, int count)
{
  int64_t runs = 0;
  for (int l = 0; l < count; l++) runs += locals[l]->run_count;
  if (!runs) return freeze(all->heap, all);
  size_t size = ((size_t)all->count + 1) * sizeof(int32_t);
  int32_t *place = tsr__new_raw(all->heap, size);
  tsr__dict *dict = place ? tsr__dict_join(all, locals, count, place) : NULL;
  for (int l = 0; dict && l < count; l++) {
    locals[l]->recoded = true;
    for (int32_t e = 0; e < locals[l]->count; e++)
      locals[l]->entries[e].code = place[locals[l]->entries[e].code];
  }
  tsr__del(all->heap, place, size);
  return dict;
}

/* One alone is in order as it is. */
static tsr__dict *unify_one(tsr__dict_local *local)
{
  for (int32_t e = 0; e < local->count; e++) {
    if (stops(local, (size_t)e)) return NULL;
    local->entries[e].code = e;
  }
  return finish(local, &local, 1);
}

static tsr__dict *unify_some(tsr__heap *heap, tsr__dict_local **locals, int count)
{
  if (count == 1) return unify_one(locals[0]);
  tsr__dict_local all;
  tsr__dict *dict = NULL;
  int64_t until;
  size_t size = ((size_t)count + 1) * sizeof(int32_t);
  int32_t *next = tsr__new(heap, size);
  if (!next) return NULL;
  tsr__dict_local_init(&all, heap);
  if (count) {
    all.progress = locals[0]->progress;
    all.worker = locals[0]->worker;
    all.layout = locals[0]->layout == TSR__TEXTS_CHOSEN ? TSR__TEXTS_CHOSEN : TSR__TEXTS_CODES;
    /* Beside texts that were added unseen it does not matter if some others stand there twice. */
    for (int w = 0; w < count; w++) all.unseen |= locals[w]->run_count > 0;
  }
  int l = earliest(locals, next, count, &until);
  while (l >= 0) {
    next[l] = take_run(&all, locals[l], next[l], until);
    if (next[l] < 0) break;
    l = earliest(locals, next, count, &until);
  }
  if (l < 0) dict = finish(&all, locals, count);
  tsr__dict_local_free(&all);
  tsr__del(heap, next, size);
  return dict;
}

tsr__dict *tsr__dict_unify(tsr__heap *heap, tsr__dict_local **locals, int count)
{
  tsr__dict *dict = unify_some(heap, locals, count);
  for (int l = 0; dict && l < count; l++) dict->came += locals[l]->came;
  return dict;
}

/* Where the texts of each local go that is left; false: there are too many. */
static bool deal_places(const tsr__dict_local *all, tsr__dict_rest *rest, int64_t *texts,
                        int64_t *bytes)
{
  *texts = all->count;
  *bytes = all->bytes;
  for (int l = rest->from; l < rest->count; l++) {
    const tsr__dict_local *local = rest->locals[l];
    rest->place[l] = (struct tsr__dict_place){ *texts, *bytes };
    *texts += (int64_t)local->count + local->run_texts;
    *bytes += local->bytes;
  }
  return *texts <= INT32_MAX;
}

/* The texts that were looked up stand in front; the others only need room. */
static tsr__dict *begin_list(tsr__heap *heap, const tsr__dict_local *all, tsr__dict_rest *rest)
{
  int64_t texts, bytes;
  if (!deal_places(all, rest, &texts, &bytes)) return NULL;
  tsr__dict *dict = tsr__dict_new(heap, (int32_t)texts, bytes);
  if (!dict) return NULL;
  dict->repeats = true;
  tsr__filling filling = { .bytes = dict->bytes, .offsets = dict->offsets };
  for (int32_t e = 0; e < all->count; e++) {
    if (stops(all, (size_t)e)) {
      tsr__dict_release(dict);
      return NULL;
    }
    tsr__filling_put_entry(&filling, &all->entries[e]);
  }
  return dict;
}

bool tsr__dict_unify_rows(tsr__heap *heap, tsr__dict_rest *rest)
{
  tsr__dict_local all;
  bool fine = true;
  int64_t came = 0;
  tsr__dict_local_init(&all, heap);
  rest->from = 0;
  for (int l = 0; l < rest->count; l++) {
    all.unseen |= rest->locals[l]->run_count > 0;
    came += rest->locals[l]->came;
  }
  if (rest->count) {
    all.progress = rest->locals[0]->progress;
    all.worker = rest->locals[0]->worker;
    all.layout =
        rest->locals[0]->layout == TSR__TEXTS_CHOSEN ? TSR__TEXTS_CHOSEN : TSR__TEXTS_CODES;
  }
  while (fine && rest->from < rest->count && !all.unseen)
    fine = take_run(&all, rest->locals[rest->from++], 0, INT64_MAX) >= 0;
  bool whole = rest->from == rest->count;
  rest->dict = !fine ? NULL : whole ? freeze(heap, &all) : begin_list(heap, &all, rest);
  if (rest->dict) rest->dict->came = came;
  tsr__dict_local_free(&all);
  return rest->dict != NULL;
}

/* ---- UTF-8 --------------------------------------------------------------------------------- */

bool tsr__utf8_valid(const char *text, size_t length)
{
  size_t at = 0;
  while (at < length) {
    /* Eight ASCII bytes at a time. */
    if (length - at >= 8 && !(load(text + at) & UINT64_C(0x8080808080808080))) {
      at += 8;
      continue;
    }
    uint32_t c;
    size_t step = tsr__utf8_read(text + at, length - at, &c);
    if (step == 0) return false;
    at += step;
  }
  return true;
}
