/* The texts of a list that may repeat, once each; and those of two lists that are equal.
 *
 *   list     0 "k7"  1 "k2"  2 "k7"  3 "k9"
 *   bin      0 2 3 | 1 ...         by hash, in order within each: equal texts are in one bin
 *   first    0 1 0 3               where a text stood first: found bin by bin, each on one worker
 *   map      0 1 0 2               numbers of the firsts, in order      once  "k7" "k2" "k9"
 *
 * Of two lists the second's texts stand behind the first's: those whose firsts are of the first
 * list are in both.
 *
 * Invariant: texts are numbered by their first places, so neither bins nor workers show; hashes
 * decide nothing but where to look, and take the heap's seed. */
#include "io/text/dict.h"

enum { CHUNK = 1 << 14, BIN = 1 << 12, MOST_BINS = 1 << 12 };

/* A text in its bin, with bits of its hash: who compares it mostly looks no further. */
typedef struct dealt {
  uint32_t hash;
  int32_t text;
} dealt;

typedef struct finding {
  const tsr__dict *dict, *more; /* NULL: one list */
  int64_t count, chunks, bins;
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

static const char *text_of(const finding *f, int64_t i, size_t *length)
{
  const tsr__dict *dict = i < f->dict->count ? f->dict : f->more;
  if (dict == f->more) i -= f->dict->count;
  *length = (size_t)(dict->offsets[i + 1] - dict->offsets[i]);
  return dict->bytes + dict->offsets[i];
}

/* The product is even over all bins, whatever their number. */
static int64_t bin_of(const finding *f, int64_t i)
{
  return (int64_t)((f->hash[i] >> 32) * (uint64_t)f->bins >> 32);
}

static void hash_chunk(void *user, int64_t chunk, int worker)
{
  (void)worker;
  finding *f = user;
  int64_t *count = f->start + chunk * f->bins;
  for (int64_t i = chunk * CHUNK; i < end_of(f, chunk); i++) {
    size_t length;
    const char *text = text_of(f, i, &length);
    f->hash[i] = tsr__hash(text, length, f->dict->heap->seed);
    count[bin_of(f, i)]++;
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
  size_t length, other;
  const char *left = text_of(f, a, &length), *right = text_of(f, b, &other);
  return length == other && (!length || !memcmp(left, right, length));
}

static void find_firsts(void *user, int64_t b, int worker)
{
  (void)worker;
  finding *f = user;
  /* Dealt by now: the last chunk's starts are the ends of bins. */
  const int64_t *ends = f->start + (f->chunks - 1) * f->bins;
  int64_t from = b ? ends[b - 1] : 0, to = ends[b], slots = 8;
  const dealt *bin = f->bin;
  while (slots < 2 * (to - from)) slots *= 2;
  size_t size = (size_t)slots * sizeof(int32_t);
  int32_t *slot = tsr__new_raw(f->dict->heap, size);
  if (!slot) {
    atomic_store(&f->no_memory, true);
    return;
  }
  memset(slot, 0xff, size);
  /* Slots hold places in the bin, which is small. */
  for (int32_t n = 0; n < to - from; n++) {
    const dealt *own = &bin[from + n], *other;
    int64_t at = own->hash & (slots - 1);
    for (; slot[at] >= 0; at = (at + 1) & (slots - 1)) {
      other = &bin[from + slot[at]];
      if (other->hash == own->hash && same(f, other->text, own->text)) break;
    }
    if (slot[at] < 0) slot[at] = n;
    f->first[own->text] = bin[from + slot[at]].text;
  }
  tsr__del(f->dict->heap, slot, size);
}

static void count_firsts(void *user, int64_t chunk, int worker)
{
  (void)worker;
  finding *f = user;
  size_t length;
  for (int64_t i = chunk * CHUNK; i < end_of(f, chunk); i++) {
    if (f->first[i] != i) continue;
    (void)text_of(f, i, &length);
    f->number[chunk]++;
    f->bytes[chunk] += (int64_t)length;
  }
}

static void copy_firsts(void *user, int64_t chunk, int worker)
{
  (void)worker;
  finding *f = user;
  int64_t number = f->number[chunk], at = f->bytes[chunk];
  for (int64_t i = chunk * CHUNK; i < end_of(f, chunk); i++) {
    size_t length;
    if (f->first[i] != i) continue;
    const char *text = text_of(f, i, &length);
    if (length) memcpy(f->out->bytes + at, text, length);
    at += (int64_t)length;
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

/* Fills `first`; false: out of memory or cancelled. */
static bool find_all(finding *f, tsr__progress *progress)
{
  if (!tsr__parallel_progress(progress, f->chunks, hash_chunk, f)) return false;
  place_bins(f);
  return tsr__parallel_progress(progress, f->chunks, deal_chunk, f) &&
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

/* Room for what is found of one list or two; false: out of memory. */
static bool open_finding(finding *f, const tsr__dict *dict, const tsr__dict *more)
{
  tsr__heap *heap = dict->heap;
  *f = (finding){ .dict = dict, .more = more, .count = dict->count + (more ? more->count : 0LL) };
  f->chunks = f->count / CHUNK + 1;
  f->bins = f->count / BIN + 1 < MOST_BINS ? f->count / BIN + 1 : MOST_BINS;
  size_t count = (size_t)f->count, chunks = (size_t)f->chunks;
  /* Places are 32 bits wide. */
  if (f->count > INT32_MAX) return false;
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
  if (open_finding(&f, dict, NULL)) once = make_once(&f, progress);
  close_finding(&f);
  return publish(shared, once);
}

bool tsr__dict_map(const tsr__dict *from, const tsr__dict *to, int32_t *map,
                   tsr__progress *progress)
{
  finding f;
  bool whole = open_finding(&f, to, from) && find_all(&f, progress);
  for (int32_t i = 0; whole && i < from->count; i++) {
    int32_t first = f.first[to->count + i];
    map[i] = first < to->count ? first : -1;
  }
  close_finding(&f);
  return whole;
}
