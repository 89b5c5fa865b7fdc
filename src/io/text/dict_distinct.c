/* The texts of a list that may repeat, once each.
 *
 *   list     0 "k7"  1 "k2"  2 "k7"  3 "k9"
 *   bin      0 1 3 | 2 ...         by hash, in order within each: equal texts are in one bin
 *   first    0 1 0 3               where a text stood first: found bin by bin, each on one worker
 *   map      0 1 0 2               numbers of the firsts, in order      once  "k7" "k2" "k9"
 *
 * Invariant: texts are numbered by their first places, so neither bins nor workers show; hashes
 * decide nothing but where to look, and take the heap's seed. */
#include "io/text/dict.h"

enum { CHUNK = 1 << 14, BIN = 1 << 12, MOST_BINS = 1 << 12 };

typedef struct finding {
  const tsr__dict *dict;
  int64_t chunks, bins;
  uint64_t *hash;  /* by text; its upper bits say which bin */
  int64_t *start;  /* [chunk * bins + bin]: how many, then where they go */
  int32_t *bin;    /* texts by bin */
  int32_t *first;  /* by text; then the map */
  int64_t *number; /* by chunk: firsts, then the number of its first one */
  int64_t *bytes;  /* likewise */
  tsr__dict *out;
  _Atomic bool no_memory;
} finding;

static int64_t end_of(const finding *f, int64_t chunk)
{
  int64_t end = (chunk + 1) * CHUNK;
  return end < f->dict->count ? end : f->dict->count;
}

static const char *text_of(const finding *f, int64_t i, size_t *length)
{
  *length = (size_t)(f->dict->offsets[i + 1] - f->dict->offsets[i]);
  return f->dict->bytes + f->dict->offsets[i];
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
    f->bin[at[bin_of(f, i)]++] = (int32_t)i;
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
  while (slots < 2 * (to - from)) slots *= 2;
  size_t size = (size_t)slots * sizeof(int32_t);
  int32_t *slot = tsr__new_raw(f->dict->heap, size);
  if (!slot) {
    atomic_store(&f->no_memory, true);
    return;
  }
  memset(slot, 0xff, size);
  for (int64_t n = from; n < to; n++) {
    int32_t i = f->bin[n];
    /* The upper half chose the bin. */
    int64_t at = (int64_t)(uint32_t)f->hash[i] & (slots - 1);
    for (; slot[at] >= 0; at = (at + 1) & (slots - 1))
      if (f->hash[slot[at]] == f->hash[i] && same(f, slot[at], i)) break;
    if (slot[at] < 0) slot[at] = i;
    f->first[i] = slot[at];
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

/* Numbers of firsts go where the bins were, which nobody reads any more. */
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
    f->bin[i] = (int32_t)number++;
  }
}

static void map_chunk(void *user, int64_t chunk, int worker)
{
  (void)worker;
  finding *f = user;
  /* Only those of firsts are read, of whatever chunk, and only others' written. */
  for (int64_t i = chunk * CHUNK; i < end_of(f, chunk); i++)
    if (f->first[i] != i) f->bin[i] = f->bin[f->first[i]];
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
         tsr__parallel_progress(progress, f->bins, find_firsts, f) && !f->no_memory &&
         tsr__parallel_progress(progress, f->chunks, count_firsts, f);
}

/* Makes the list of the firsts, and the map in `bin`. */
static bool make_list(finding *f, int64_t count, int64_t bytes, tsr__progress *progress)
{
  f->out = tsr__dict_new(f->dict->heap, (int32_t)count, bytes);
  return f->out && tsr__parallel_progress(progress, f->chunks, copy_firsts, f) &&
         tsr__parallel_progress(progress, f->chunks, map_chunk, f);
}

/* NULL as of tsr__dict_distinct. */
static tsr__dict_once *make_once(finding *f, tsr__progress *progress)
{
  tsr__heap *heap = f->dict->heap;
  if (!find_all(f, progress)) return NULL;
  int64_t count = sum_up(f->number, f->chunks), bytes = sum_up(f->bytes, f->chunks);
  /* All different, as ids are: the list is what was asked for. */
  bool own = count == f->dict->count;
  if (!own && !make_list(f, count, bytes, progress)) return NULL;
  tsr__dict_once *once = tsr__new(heap, sizeof *once);
  if (!once || own) return once;
  *once = (tsr__dict_once){ f->out, f->bin };
  f->out = NULL;
  f->bin = NULL;
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

const tsr__dict_once *tsr__dict_distinct(const tsr__dict *dict, tsr__progress *progress)
{
  tsr__dict *shared = (tsr__dict *)dict; /* what it says never changes, what is known of it does */
  tsr__heap *heap = dict->heap;
  tsr__dict_once *once = atomic_load(&shared->once);
  if (once) return once;
  finding f = { .dict = dict, .chunks = dict->count / CHUNK + 1, .bins = dict->count / BIN + 1 };
  if (f.bins > MOST_BINS) f.bins = MOST_BINS;
  size_t count = (size_t)dict->count, starts = (size_t)(f.chunks * f.bins) * sizeof *f.start;
  size_t chunks = (size_t)f.chunks * sizeof *f.number;
  f.hash = tsr__new_raw(heap, (count + 1) * sizeof *f.hash);
  f.bin = tsr__new_raw(heap, count * sizeof *f.bin);
  f.first = tsr__new_raw(heap, (count + 1) * sizeof *f.first);
  f.start = tsr__new(heap, starts);
  f.number = tsr__new(heap, chunks);
  f.bytes = tsr__new(heap, chunks);
  if (f.hash && f.bin && f.first && f.start && f.number && f.bytes) once = make_once(&f, progress);
  tsr__dict_release(f.out);
  tsr__del(heap, f.hash, (count + 1) * sizeof *f.hash);
  tsr__del(heap, f.bin, count * sizeof *f.bin);
  tsr__del(heap, f.first, (count + 1) * sizeof *f.first);
  tsr__del(heap, f.start, starts);
  tsr__del(heap, f.number, chunks);
  tsr__del(heap, f.bytes, chunks);
  return publish(shared, once);
}
