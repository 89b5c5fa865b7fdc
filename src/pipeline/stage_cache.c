/* Records that are kept once they were read, in memory.
 *
 *   state   0 not there   1 somebody reads it   2 there
 *   field   [ r0 r1 .. ] of all records that are kept, a block of memory each
 *
 * Who finds a record at 0 makes it 1, reads it into its place and makes it 2, or 0 again where the
 * reading failed; who meets a 1 reads for itself, so nobody waits. Whatever is kept was read as of
 * epoch 0: what a cache gives does not depend on who came first. */
#include "pipeline/stage_cache.h"

typedef struct cache_source {
  tsr_source source;
  int64_t kept; /* records 0 .. kept - 1 are */
  _Atomic unsigned char *state;
  char *data[TSR__MAX_COLUMNS];
} cache_source;

/* Some records of a question, by what is to be done for them. */
typedef struct some_rows {
  int64_t row[TSR__BLOCK], at[TSR__BLOCK], place[TSR__BLOCK], count;
} some_rows;

static void add_row(some_rows *s, const tsr__ask_rows *ask, int64_t i, int64_t place)
{
  s->row[s->count] = i;
  s->at[s->count] = ask->at[i];
  s->place[s->count++] = place;
}

/* From the cache to where the records are wanted. */
static void copy_rows(const cache_source *k, const tsr__ask_rows *ask, const some_rows *some)
{
  for (int c = 0; c < k->source.column_count; c++) {
    size_t bytes = k->source.columns[c].bytes;
    for (int64_t i = 0; ask->cells[c].data && i < some->count; i++)
      memcpy(tsr__cell_of(ask, c, some->row[i]), k->data[c] + (size_t)some->at[i] * bytes, bytes);
  }
}

static tsr_status read_some(const tsr_source *source, const tsr__ask_rows *ask,
                            const some_rows *some, const tsr__cell *cells, tsr__error *error)
{
  tsr__ask_rows below = *ask;
  below.epoch = 0;
  below.at = some->at;
  below.place = some->place;
  below.count = some->count;
  below.cells = cells;
  return tsr__records_read(source->children[0], &below, error);
}

static tsr_status read_cache(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const cache_source *k = (const cache_source *)source;
  some_rows there = { .count = 0 }, mine = { .count = 0 }, others = { .count = 0 };
  tsr__cell cells[TSR__MAX_COLUMNS];
  for (int64_t i = 0; i < ask->count; i++) {
    int64_t at = ask->at[i];
    unsigned char state = 1, none = 0;
    /* Acquired: who sees a 2 also sees the record that was written before it. */
    if (at < k->kept) state = atomic_load_explicit(&k->state[at], memory_order_acquire);
    if (!state && atomic_compare_exchange_strong(&k->state[at], &none, 1))
      add_row(&mine, ask, i, at);
    else if (state == 2) add_row(&there, ask, i, at);
    else add_row(&others, ask, i, tsr__place_of(ask, i));
  }
  copy_rows(k, ask, &there);
  for (int c = 0; c < source->column_count; c++)
    cells[c] = (tsr__cell){ k->data[c], source->columns[c].bytes };
  tsr_status status = read_some(source, ask, &mine, cells, error);
  for (int64_t i = 0; i < mine.count; i++)
    /* Of a question that failed none is kept: which of its records was bad is not known here. */
    atomic_store_explicit(&k->state[mine.at[i]], status ? 0 : 2, memory_order_release);
  /* Read into the cache first and copied out, so that each record is read once and has one form. */
  if (!status) copy_rows(k, ask, &mine);
  return status ? status : read_some(source, ask, &others, ask->cells, error);
}

static void about_cache(const tsr_source *source, tsr__text *out)
{
  const cache_source *k = (const cache_source *)source;
  if (k->kept < source->count) tsr__text_add(out, "%lld", (long long)k->kept);
}

static size_t bytes_of(const cache_source *k, int column)
{
  return (size_t)k->kept * k->source.columns[column].bytes + 1;
}

static void release_cache(tsr_source *source)
{
  cache_source *k = (cache_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  for (int c = 0; c < source->column_count; c++) tsr__del(heap, k->data[c], bytes_of(k, c));
  tsr__del(heap, (void *)k->state, (size_t)k->kept + 1);
}

static const tsr__records_ops cache_ops = { "cache",     read_cache,    tsr__cache_ids,
                                            about_cache, release_cache, NULL,
                                            NULL };

void tsr__cache_ids(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                    int64_t *to)
{
  (void)epoch;
  tsr__records_ids(source->children[0], 0, at, count, to);
}

/* All memory is taken at once, so that it is here that it does not suffice. */
static tsr_status take_memory(cache_source *k, tsr__error *error)
{
  tsr__heap *heap = &k->source.node.scope->rt->heap;
  size_t row = 1;
  for (int c = 0; c < k->source.column_count; c++) row += k->source.columns[c].bytes;
  /* Pages that no record was put into yet are not taken from the machine, only promised. */
  bool fits = (size_t)k->kept < (SIZE_MAX >> 2) / row;
  k->state = fits ? tsr__new(heap, (size_t)k->kept + 1) : NULL;
  fits = k->state;
  for (int c = 0; fits && c < k->source.column_count; c++)
    fits = (k->data[c] = tsr__new_raw(heap, bytes_of(k, c)));
  if (fits) return TSR_OK;
  return tsr__error_set(error, TSR_ENOMEM,
                        "no memory for %lld records of %zu bytes; set .records or .bytes to cache "
                        "fewer records, or .path to cache in a file",
                        (long long)k->kept, row - 1);
}

static tsr_status check_cache(const tsr_cache_args *a, tsr__error *error)
{
  if (a->source->by_epoch || a->source->drawn)
    return tsr__error_set(error, TSR_EARG,
                          "the source %s anew in each epoch, but cached records stay the same; %s "
                          "the result of this stage instead",
                          a->source->by_epoch ? "is shuffled" : "has a random map",
                          a->source->by_epoch ? "shuffle" : "map");
  if (a->records < 0)
    return tsr__error_set(error, TSR_EARG, ".records is %lld, expected 1 or more, or 0 for all",
                          (long long)a->records);
  if (a->bytes < 0)
    return tsr__error_set(error, TSR_EARG, ".bytes is %lld, expected 1 or more, or 0 for all",
                          (long long)a->bytes);
  if ((a->records || a->bytes) && a->path)
    return tsr__error_set(
        error, TSR_EARG, ".%s and .path are both set, but a file caches all records; leave one out",
        a->records ? "records" : "bytes");
  return TSR_OK;
}

/* How many records: with the byte of state that each has. */
static int64_t kept_of(const tsr_cache_args *a)
{
  int64_t kept = a->source->count, row = 1;
  if (a->records && a->records < kept) kept = a->records;
  for (int c = 0; c < a->source->column_count; c++) row += (int64_t)a->source->columns[c].bytes;
  return a->bytes && a->bytes / row < kept ? a->bytes / row : kept;
}

tsr_source *tsr_source_cache_with(const tsr_cache_args *given, const char *site)
{
  const char *call = "tsr_source_cache";
  tsr_cache_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr_source *source = given ? given->source : NULL;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  if (tsr__take_opts(call, given, &args, sizeof args, &error) || check_cache(&args, &error))
    return tsr__stage_refused(source, call, &error, site);
  if (args.path) return tsr__cache_file(source, args.path, site);
  tsr_source *made = tsr__records_over(source, call, &cache_ops, sizeof(cache_source), site);
  if (made->inert) return made;
  tsr__records_follow(made, source);
  cache_source *k = (cache_source *)made;
  k->kept = kept_of(&args);
  if (!take_memory(k, &error)) return made;
  return tsr__stage_refused(source, call, &error, site);
}
