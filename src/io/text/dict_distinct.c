/* The texts of a list that may repeat, once each; and which texts of one list another has.
 *
 *   list     0 "k7"  1 "k2"  2 "k7"  3 "k9"
 *   bin      0 2 3 | 1 ...         by hash, in order within each: equal texts are in one bin
 *   first    0 1 0 3               where a text stood first: found bin by bin, each on one worker
 *   map      0 1 0 2               numbers of the firsts, in order      once  "k7" "k2" "k9"
 *
 * Of two lists the shorter one is dealt to bins, and the texts of the other are looked up there.
 * Most have no equal there: a filter of a few bits a text, which stays in the cache, says so first.
 *
 * Invariant: texts are numbered by their first places, so neither bins nor workers show; hashes
 * decide nothing but where to look, and take the heap's seed. */
#include "io/text/dict.h"

enum {
  CHUNK = 1 << 14,
  BIN = 1 << 12,
  MOST_BINS = 1 << 12,
  FILTER = 8, /* bits a text */
  GROUP = 64  /* texts looked up together, what they are compared with fetched ahead */
};

/* A text in its bin or a slot, with bits of its hash: who compares it mostly looks no further. */
typedef struct dealt {
  uint32_t hash;
  int32_t text; /* -1: a slot is free */
} dealt;

typedef struct finding {
  const tsr__dict *dict;
  int64_t count, chunks, bins;
  /* Where texts are looked up afterwards: bins' slots one behind the other, where each begins, and
   * a bit for what hashes there are. NULL: each bin's go at once. */
  dealt *slots;
  int64_t *slot_at;
  _Atomic uint64_t *filter;
  uint64_t filter_bits;
  uint64_t *hash;  /* by text; its upper half says which bin */
  int64_t *start;  /* [chunk * bins + bin]: how many, then where they go */
  dealt *bin;      /* texts by bin */
  int32_t *first;  /* by text */
  int32_t *map;    /* by text */
  int64_t *number; /* by chunk: firsts, then the number of its first one */
  int64_t *bytes;  /* likewise */
  tsr__dict *out;
  _Atomic bool no_memory;
} finding;

static int64_t end_of(const finding *f, int64_t chunk)
{
  int64_t end = (chunk + 1) * CHUNK;
  return end < f->count ? end : f->count;
}

/* The product is even over all of `count`, whatever it is. */
static uint64_t share_of(uint64_t hash, uint64_t count)
{
  return (hash >> 32) * count >> 32;
}

static int64_t bin_of(const finding *f, int64_t i)
{
  return (int64_t)share_of(f->hash[i], (uint64_t)f->bins);
}

static int64_t bin_begin(const finding *f, int64_t bin)
{
  /* Dealt by now: the last chunk's starts are the ends of bins. */
  return bin ? f->start[(f->chunks - 1) * f->bins + bin - 1] : 0;
}

static void hash_chunk(void *user, int64_t chunk, int worker)
{
  (void)worker;
  finding *f = user;
  int64_t *count = f->start + chunk * f->bins;
  for (int64_t i = chunk * CHUNK; i < end_of(f, chunk); i++) {
    int64_t length;
    const char *text = tsr__dict_get(f->dict, i, &length);
    f->hash[i] = tsr__hash(text, (size_t)length, f->dict->heap->seed);
    count[bin_of(f, i)]++;
    if (!f->filter) continue;
    uint64_t bit = share_of(f->hash[i], f->filter_bits);
    atomic_fetch_or_explicit(&f->filter[bit / 64], UINT64_C(1) << (bit % 64), memory_order_relaxed);
  }
}

/* Bin after bin, and chunk after chunk in each: so a bin's texts are in order. */
static void place_bins(finding *f)
{
  int64_t at = 0;
  for (int64_t b = 0; b < f->bins; b++)
    for (int64_t c = 0; c < f->chunks; c++) {
      int64_t here = f->start[c * f->bins + b];
      f->start[c * f->bins + b] = at;
      at += here;
    }
}

static void deal_chunk(void *user, int64_t chunk, int worker)
{
  (void)worker;
  finding *f = user;
  int64_t *at = f->start + chunk * f->bins;
  /* Afterwards each start is where the next chunk's began. */
  for (int64_t i = chunk * CHUNK; i < end_of(f, chunk); i++)
    f->bin[at[bin_of(f, i)]++] = (dealt){ (uint32_t)f->hash[i], (int32_t)i };
}

static bool same(const finding *f, int32_t a, int32_t b)
{
  int64_t length, other;
  const char *left = tsr__dict_get(f->dict, a, &length), *right = tsr__dict_get(f->dict, b, &other);
  return length == other && (!length || !memcmp(left, right, (size_t)length));
}

/* Slots of a bin: a third is free at least. */
static int64_t slots_for(int64_t texts)
{
  int64_t slots = 8;
  while (slots < texts + texts / 2) slots *= 2;
  return slots;
}

static void find_firsts(void *user, int64_t b, int worker)
{
  (void)worker;
  finding *f = user;
  int64_t from = bin_begin(f, b), to = bin_begin(f, b + 1), slots = slots_for(to - from);
  const dealt *bin = f->bin;
  size_t size = (size_t)slots * sizeof(dealt);
  dealt *slot = f->slots ? f->slots + f->slot_at[b] : tsr__new_raw(f->dict->heap, size);
  if (!slot) {
    atomic_store(&f->no_memory, true);
    return;
  }
  memset(slot, 0xff, size);
  for (int64_t n = from; n < to; n++) {
    const dealt *own = &bin[n];
    int64_t at = own->hash & (slots - 1);
    for (; slot[at].text >= 0; at = (at + 1) & (slots - 1))
      if (slot[at].hash == own->hash && same(f, slot[at].text, own->text)) break;
    if (slot[at].text < 0) slot[at] = *own;
    f->first[own->text] = slot[at].text;
  }
  if (!f->slots) tsr__del(f->dict->heap, slot, size);
}

static void count_firsts(void *user, int64_t chunk, int worker)
{
  (void)worker;
  finding *f = user;
  for (int64_t i = chunk * CHUNK; i < end_of(f, chunk); i++) {
    if (f->first[i] != i) continue;
    f->number[chunk]++;
    f->bytes[chunk] += f->dict->offsets[i + 1] - f->dict->offsets[i];
  }
}

static void copy_firsts(void *user, int64_t chunk, int worker)
{
  (void)worker;
  finding *f = user;
  int64_t number = f->number[chunk], at = f->bytes[chunk];
  for (int64_t i = chunk * CHUNK; i < end_of(f, chunk); i++) {
    int64_t length;
    if (f->first[i] != i) continue;
    const char *text = tsr__dict_get(f->dict, i, &length);
    if (length) memcpy(f->out->bytes + at, text, (size_t)length);
    at += length;
    f->out->offsets[number + 1] = at;
    f->map[i] = (int32_t)number++;
  }
}

static void map_chunk(void *user, int64_t chunk, int worker)
{
  (void)worker;
  finding *f = user;
  /* Only those of firsts are read, of whatever chunk, and only others' written. */
  for (int64_t i = chunk * CHUNK; i < end_of(f, chunk); i++)
    if (f->first[i] != i) f->map[i] = f->map[f->first[i]];
}

/* Counts become sums of what stands before; returns the last one. */
static int64_t sum_up(int64_t *count, int64_t chunks)
{
  int64_t sum = 0;
  for (int64_t c = 0; c < chunks; c++) {
    int64_t here = count[c];
    count[c] = sum;
    sum += here;
  }
  return sum;
}

static bool make_slots(finding *f)
{
  int64_t sum = 0;
  for (int64_t b = 0; b < f->bins; b++) {
    f->slot_at[b] = sum;
    sum += slots_for(bin_begin(f, b + 1) - bin_begin(f, b));
  }
  f->slot_at[f->bins] = sum;
  f->slots = tsr__new_raw(f->dict->heap, (size_t)sum * sizeof *f->slots);
  return f->slots != NULL;
}

/* Fills `first`; false: out of memory or cancelled. */
static bool find_all(finding *f, tsr__progress *progress)
{
  if (!tsr__parallel_progress(progress, f->chunks, hash_chunk, f)) return false;
  place_bins(f);
  return tsr__parallel_progress(progress, f->chunks, deal_chunk, f) &&
         (!f->slot_at || make_slots(f)) &&
         tsr__parallel_progress(progress, f->bins, find_firsts, f) && !f->no_memory;
}

/* Makes the list of the firsts, and the map. */
static bool make_list(finding *f, int64_t count, int64_t bytes, tsr__progress *progress)
{
  f->out = tsr__dict_new(f->dict->heap, (int32_t)count, bytes);
  f->map = tsr__new_raw(f->dict->heap, (size_t)f->count * sizeof *f->map);
  return f->out && f->map && tsr__parallel_progress(progress, f->chunks, copy_firsts, f) &&
         tsr__parallel_progress(progress, f->chunks, map_chunk, f);
}

/* NULL as of tsr__dict_distinct. */
static tsr__dict_once *make_once(finding *f, tsr__progress *progress)
{
  tsr__heap *heap = f->dict->heap;
  if (!find_all(f, progress) || !tsr__parallel_progress(progress, f->chunks, count_firsts, f))
    return NULL;
  int64_t count = sum_up(f->number, f->chunks), bytes = sum_up(f->bytes, f->chunks);
  /* All different, as ids are: the list is what was asked for. */
  bool own = count == f->dict->count;
  if (!own && !make_list(f, count, bytes, progress)) return NULL;
  tsr__dict_once *once = tsr__new(heap, sizeof *once);
  if (!once || own) return once;
  *once = (tsr__dict_once){ f->out, f->map };
  f->out = NULL;
  f->map = NULL;
  return once;
}

/* The first one that was made stays: others may have it already. */
static const tsr__dict_once *publish(tsr__dict *dict, tsr__dict_once *once)
{
  tsr__dict_once *there = NULL;
  if (!once || atomic_compare_exchange_strong(&dict->once, &there, once)) return once;
  tsr__dict_release(once->dict);
  tsr__del(dict->heap, once->map, once->map ? (size_t)dict->count * sizeof *once->map : 0);
  tsr__del(dict->heap, once, sizeof *once);
  return there;
}

/* Room for what is found of a list; false: out of memory. */
static bool open_finding(finding *f, const tsr__dict *dict)
{
  tsr__heap *heap = dict->heap;
  *f = (finding){ .dict = dict, .count = dict->count };
  f->chunks = f->count / CHUNK + 1;
  f->bins = f->count / BIN + 1 < MOST_BINS ? f->count / BIN + 1 : MOST_BINS;
  size_t count = (size_t)f->count, chunks = (size_t)f->chunks;
  f->hash = tsr__new_raw(heap, (count + 1) * sizeof *f->hash);
  f->bin = tsr__new_raw(heap, count * sizeof *f->bin);
  f->first = tsr__new_raw(heap, (count + 1) * sizeof *f->first);
  f->start = tsr__new(heap, chunks * (size_t)f->bins * sizeof *f->start);
  f->number = tsr__new(heap, chunks * sizeof *f->number);
  f->bytes = tsr__new(heap, chunks * sizeof *f->bytes);
  return f->hash && f->bin && f->first && f->start && f->number && f->bytes;
}

static void close_finding(finding *f)
{
  tsr__heap *heap = f->dict->heap;
  size_t count = (size_t)f->count, chunks = (size_t)f->chunks;
  tsr__dict_release(f->out);
  tsr__del(heap, f->hash, (count + 1) * sizeof *f->hash);
  tsr__del(heap, f->bin, count * sizeof *f->bin);
  tsr__del(heap, f->first, (count + 1) * sizeof *f->first);
  tsr__del(heap, f->map, count * sizeof *f->map);
  tsr__del(heap, f->start, chunks * (size_t)f->bins * sizeof *f->start);
  tsr__del(heap, f->number, chunks * sizeof *f->number);
  tsr__del(heap, f->bytes, chunks * sizeof *f->bytes);
}

const tsr__dict_once *tsr__dict_distinct(const tsr__dict *dict, tsr__progress *progress)
{
  tsr__dict *shared = (tsr__dict *)dict; /* what it says never changes, what is known of it does */
  tsr__dict_once *once = atomic_load(&shared->once);
  finding f;
  if (once) return once;
  if (open_finding(&f, dict)) once = make_once(&f, progress);
  close_finding(&f);
  return publish(shared, once);
}

/* ---- two lists ----------------------------------------------------------------------------- */

/* The texts of `other` are looked up among those of a list that was dealt. */
typedef struct matching {
  finding of;
  const tsr__dict *other;
  int32_t *map;
  bool turned; /* the map is of the list that was dealt, else of the other */
} matching;

/* Up to GROUP texts of the other list that have equals, as far as the filter knows. */
typedef struct asked {
  int count;
  int32_t text[GROUP];
  uint64_t hash[GROUP];
} asked;

/* The slots of a hash's bin, and which of them the search for it begins with. */
static const dealt *slots_of(const finding *f, uint64_t hash, int64_t *mask, int64_t *at)
{
  int64_t b = (int64_t)share_of(hash, (uint64_t)f->bins);
  *mask = f->slot_at[b + 1] - f->slot_at[b] - 1;
  *at = (uint32_t)hash & *mask;
  return f->slots + f->slot_at[b];
}

/* The first place of a text in the list that was dealt, or -1. */
static int32_t look_up(const finding *f, uint64_t hash, const char *text, int64_t length)
{
  int64_t mask, at;
  const dealt *slot = slots_of(f, hash, &mask, &at);
  for (; slot[at].text >= 0; at = (at + 1) & mask) {
    int64_t other;
    if (slot[at].hash != (uint32_t)hash) continue;
    const char *bytes = tsr__dict_get(f->dict, slot[at].text, &other);
    if (other == length && (!length || !memcmp(bytes, text, (size_t)length))) return slot[at].text;
  }
  return -1;
}

/* Three steps lead to the bytes, each to another place in memory: all texts of a group take one
 * before any takes the next. */
static void fetch(const finding *f, const asked *a)
{
  const dealt *slot[GROUP];
  for (int i = 0; i < a->count; i++) {
    int64_t mask, at;
    slot[i] = slots_of(f, a->hash[i], &mask, &at);
    slot[i] += at;
    __builtin_prefetch(slot[i]);
  }
  for (int i = 0; i < a->count; i++) {
    if (slot[i]->text < 0 || slot[i]->hash != (uint32_t)a->hash[i]) slot[i] = NULL;
    else __builtin_prefetch(&f->dict->offsets[slot[i]->text]);
  }
  for (int i = 0; i < a->count; i++)
    if (slot[i]) __builtin_prefetch(f->dict->bytes + f->dict->offsets[slot[i]->text]);
}

static void answer(matching *m, asked *a)
{
  fetch(&m->of, a);
  for (int i = 0; i < a->count; i++) {
    int64_t length, text = a->text[i];
    const char *bytes = tsr__dict_get(m->other, text, &length);
    int32_t found = look_up(&m->of, a->hash[i], bytes, length);
    /* Of texts that do not repeat only one is equal to another: no two write to one place. */
    if (!m->turned) m->map[text] = found;
    else if (found >= 0) m->map[found] = (int32_t)text;
  }
  a->count = 0;
}

static void match_chunk(void *user, int64_t chunk, int worker)
{
  (void)worker;
  matching *m = user;
  asked a = { .count = 0 };
  int64_t end = (chunk + 1) * CHUNK < m->other->count ? (chunk + 1) * CHUNK : m->other->count;
  for (int64_t i = chunk * CHUNK; i < end; i++) {
    int64_t length;
    const char *text = tsr__dict_get(m->other, i, &length);
    uint64_t hash = tsr__hash(text, (size_t)length, m->of.dict->heap->seed);
    uint64_t bit = share_of(hash, m->of.filter_bits);
    bool may =
        atomic_load_explicit(&m->of.filter[bit / 64], memory_order_relaxed) >> (bit % 64) & 1;
    if (!m->turned) m->map[i] = -1;
    if (!may) continue;
    a.hash[a.count] = hash;
    a.text[a.count++] = (int32_t)i;
    if (a.count == GROUP) answer(m, &a);
  }
  answer(m, &a);
}

static void clear_map(void *user, int64_t chunk, int worker)
{
  (void)worker;
  matching *m = user;
  int64_t from = chunk * CHUNK, end = end_of(&m->of, chunk);
  memset(m->map + from, 0xff, (size_t)(end - from) * sizeof *m->map);
}

/* What is equal to a text's first is equal to it. */
static void spread_chunk(void *user, int64_t chunk, int worker)
{
  (void)worker;
  matching *m = user;
  for (int64_t i = chunk * CHUNK; i < end_of(&m->of, chunk); i++)
    if (m->of.first[i] != i) m->map[i] = m->map[m->of.first[i]];
}

static size_t filter_size(const finding *f)
{
  return (size_t)(f->filter_bits / 64) * sizeof *f->filter;
}

static bool open_slots(finding *f)
{
  uint64_t bits = ((uint64_t)f->count * FILTER + 64) / 64 * 64;
  f->filter_bits = bits < UINT64_C(1) << 31 ? bits : UINT64_C(1) << 31;
  f->filter = tsr__new(f->dict->heap, filter_size(f));
  f->slot_at = tsr__new(f->dict->heap, (size_t)(f->bins + 1) * sizeof *f->slot_at);
  return f->filter && f->slot_at;
}

static bool match_all(matching *m, tsr__progress *progress)
{
  return open_slots(&m->of) && find_all(&m->of, progress) &&
         (!m->turned || tsr__parallel_progress(progress, m->of.chunks, clear_map, m)) &&
         tsr__parallel_progress(progress, m->other->count / CHUNK + 1, match_chunk, m) &&
         (!m->turned || tsr__parallel_progress(progress, m->of.chunks, spread_chunk, m));
}

bool tsr__dict_map(const tsr__dict *from, const tsr__dict *to, int32_t *map,
                   tsr__progress *progress)
{
  matching m = { .map = map, .turned = from->count <= to->count };
  tsr__heap *heap = from->heap;
  m.other = m.turned ? to : from;
  finding *f = &m.of;
  bool whole = open_finding(f, m.turned ? from : to) && match_all(&m, progress);
  if (f->slots) tsr__del(heap, f->slots, (size_t)f->slot_at[f->bins] * sizeof *f->slots);
  if (f->filter) tsr__del(heap, (void *)f->filter, filter_size(f));
  tsr__del(heap, f->slot_at, (size_t)(f->bins + 1) * sizeof *f->slot_at);
  close_finding(f);
  return whole;
}
