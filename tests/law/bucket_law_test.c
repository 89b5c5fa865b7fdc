/* Batches of buckets' own sizes against records dealt out by hand: as they fill up, what is left
 * over by bucket, in any remainder, on random meshes, for any threads, gone on from a state. */
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"

enum { RECORDS = 120, LONGEST = 12, BOUNDS = 3, MOST_ROWS = 9, BATCHES = 4 * RECORDS };

/* A batch as it should be: its bucket, how many records, and in order which; those that wrap
 * follow. */
typedef struct dealt {
  int bucket;
  int64_t records, rows, id[2 * RECORDS + MOST_ROWS];
} dealt;

typedef struct world {
  test_rng rng;
  tsr_scope *s;
  tsr_source *source;
  int16_t w[RECORDS][LONGEST];
  int64_t count, n[RECORDS], length[RECORDS];
  int buckets;
  int64_t bound[BOUNDS + 1], size[BOUNDS + 1]; /* of buckets that there are */
  bool shuffle;
  int64_t in[BOUNDS + 1][RECORDS], has[BOUNDS + 1]; /* records by bucket, in order */
  tsr_pipeline_args how;
  dealt batch[BATCHES];
  int batches; /* of an epoch */
} world;

/* ---- by hand --------------------------------------------------------------------------------- */

static int bucket_of(const world *w, int64_t record)
{
  int b = 0;
  while (w->bound[b] < w->length[record]) b++;
  return b;
}

static void end_batch(world *w, int b, const int64_t *ids, int64_t count)
{
  tsr_remainder rest = w->how.remainder;
  dealt *d = &w->batch[w->batches];
  if (count < w->size[b] && rest == TSR_DROP) return;
  *d = (dealt){ .bucket = b, .records = count, .rows = w->size[b] };
  for (int64_t i = 0; i < count; i++) d->id[i] = ids[i];
  for (int64_t i = count; i < d->rows; i++)
    d->id[i] = rest == TSR_WRAP ? w->in[b][(i - count) % w->has[b]] : -1;
  if (rest == TSR_WRAP) d->records = d->rows;
  if (rest != TSR_WRAP && rest != TSR_PAD_AND_MASK) d->rows = count;
  w->batches++;
}

static void deal_out(world *w)
{
  int64_t held[BOUNDS + 1] = { 0 }, open[BOUNDS + 1][MOST_ROWS];
  for (int64_t r = 0; r < w->count; r++) {
    int b = bucket_of(w, r);
    w->in[b][w->has[b]++] = r;
  }
  for (int64_t r = 0; r < w->count; r++) {
    int b = bucket_of(w, r);
    open[b][held[b]++] = r;
    if (held[b] < w->size[b]) continue;
    end_batch(w, b, open[b], held[b]);
    held[b] = 0;
  }
  for (int b = 0; b < w->buckets; b++)
    if (held[b]) end_batch(w, b, open[b], held[b]);
}

/* ---- a chain of stages ----------------------------------------------------------------------- */

static void make_records(world *w)
{
  w->count = test_corner(&w->rng, 0, RECORDS);
  for (int64_t r = 0; r < w->count; r++) {
    w->n[r] = r;
    w->length[r] = test_range(&w->rng, 0, LONGEST);
    for (int64_t i = 0; i < w->length[r]; i++) w->w[r][i] = (int16_t)test_range(&w->rng, 1, 30000);
  }
  w->source = tsr_source_memory(w->s, w->count, { "n", TSR_I64, { 0 }, w->n },
                                { "w", TSR_I16, TSR_SHAPE(LONGEST), w->w },
                                { "w_length", TSR_I64, { 0 }, w->length });
}

static tsr_status add_one(const tsr_record *record, void *user)
{
  int64_t n;
  (void)user;
  memcpy(&n, record->in[0], sizeof n);
  n++;
  memcpy(record->out[0], &n, sizeof n);
  return TSR_OK;
}

/* Buckets up to bounds that ascend; the last is of all that is longer. */
static void make_buckets(world *w)
{
  tsr_bucket_args args = { .size = sizeof args, .source = w->source, .field = "w" };
  int bounds = (int)test_range(&w->rng, 0, BOUNDS);
  args.shuffle = w->shuffle = test_range(&w->rng, 0, 1);
  args.seed = test_random(&w->rng);
  for (int b = 0; b < bounds; b++)
    args.bounds[b] = test_range(&w->rng, 1, 5) + (b ? args.bounds[b - 1] : 0);
  for (int b = 0; b <= bounds; b++) args.sizes[b] = test_range(&w->rng, 1, MOST_ROWS);
  for (int b = 0; b < bounds && args.bounds[b] < LONGEST; b++)
    w->bound[w->buckets++] = args.bounds[b];
  w->bound[w->buckets++] = LONGEST;
  memcpy(w->size, args.sizes, sizeof w->size);
  w->source = tsr_source_bucket_with(&args, TSR_HERE);
}

/* What keeps records where they are keeps batches, too. */
static void make_behind(world *w)
{
  tsr_source *range;
  switch (test_range(&w->rng, 0, 4)) {
  case 0: w->source = tsr_source_select(w->source, "w,n,w_length"); break;
  case 1:
    w->source = tsr_source_map(w->source, add_one, .fields = { { "next", TSR_I64, TSR_SCALAR } });
    break;
  case 2:
    if (!w->shuffle) w->source = tsr_source_cache(w->source, .records = 20);
    break;
  case 3:
    range = tsr_source_select(tsr_source_range(w->s, w->count), "index=at");
    w->source = test_range(&w->rng, 0, 1) ? tsr_source_zip(w->source, range)
                                          : tsr_source_zip(range, w->source);
    break;
  default: break;
  }
}

/* ---- checking -------------------------------------------------------------------------------- */

/* Reads which records a batch has (-1: none) and checks that its other fields are of these, as long
 * as its bucket is; which that is. */
static int read_rows(const world *w, tsr_batch *b, int64_t *ids)
{
  int64_t rows = tsr_batch_row_count(b), length[MOST_ROWS];
  int16_t found[MOST_ROWS * LONGEST];
  static const int16_t none[LONGEST];
  bool mask[MOST_ROWS];
  tsr_array *a = tsr_batch_field(b, "w");
  size_t bytes = (size_t)rows * sizeof *ids;
  int64_t columns = tsr_shape_of(a).dims[1];
  CHECK(rows <= MOST_ROWS && columns <= LONGEST);
  CHECK_STATUS(tsr_read(a, found, (size_t)(rows * columns) * 2), TSR_OK, w->s);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "n"), ids, bytes), TSR_OK, w->s);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "w_length"), length, bytes), TSR_OK, w->s);
  CHECK_STATUS(tsr_read(tsr_batch_mask(b), mask, (size_t)rows), TSR_OK, w->s);
  int bucket = bucket_of(w, ids[0]);
  /* Behind a cache batches are as long as records may be. */
  if (!strstr(tsr_source_text(w->source), "cache")) CHECK_I64(columns, w->bound[bucket]);
  for (int64_t i = 0; i < rows; i++) {
    CHECK_I64(mask[i], i < tsr_batch_count(b));
    if (!mask[i]) CHECK_I64(ids[i], 0), ids[i] = -1;
    CHECK_I64(length[i], ids[i] < 0 ? 0 : w->length[ids[i]]);
    CHECK_BYTES(found + i * columns, ids[i] < 0 ? none : w->w[ids[i]], (size_t)columns * 2);
    if (ids[i] >= 0) CHECK_I64(bucket_of(w, ids[i]), bucket);
  }
  return bucket;
}

/* In another order: a batch that was still to come, of records that nobody met yet but for those
 * that wrap. */
static void check_shuffled(const world *w, int bucket, int64_t rows, const int64_t *ids, bool *due,
                           bool *met)
{
  int64_t records = 0, wrapped = 0;
  int k = 0;
  while (records < rows && ids[records] >= 0) records++;
  while (k < w->batches && !(due[k] && w->batch[k].bucket == bucket && w->batch[k].rows == rows &&
                             w->batch[k].records == records))
    k++;
  CHECK(k < w->batches);
  due[k] = false;
  for (int64_t i = 0; i < records; i++) {
    wrapped += met[ids[i]];
    met[ids[i]] = true;
  }
  if (w->how.remainder != TSR_WRAP) CHECK_I64(wrapped, 0);
}

/* What was seen of an epoch, and the order of all. */
typedef struct sight {
  bool due[BATCHES], met[RECORDS];
  int64_t order[4 * RECORDS * MOST_ROWS], rows;
} sight;

static void end_epoch(const world *w, const sight *seen)
{
  for (int64_t r = 0; r < w->count && w->how.remainder != TSR_DROP; r++) CHECK(seen->met[r]);
}

static int64_t follow(world *w, tsr_pipeline *p, int64_t most, sight *seen)
{
  int64_t done = 0;
  for (tsr_batch *b; done < most && (b = tsr_pipeline_next(p)); tsr_batch_release(b), done++) {
    int64_t index = tsr_batch_index(b), rows = tsr_batch_row_count(b), *ids;
    const dealt *d = &w->batch[index];
    CHECK(index < w->batches);
    if (!index) {
      memset(seen->due, 1, sizeof seen->due);
      memset(seen->met, 0, sizeof seen->met);
    }
    ids = seen->order + seen->rows;
    int bucket = read_rows(w, b, ids);
    if (w->shuffle) check_shuffled(w, bucket, rows, ids, seen->due, seen->met);
    else {
      CHECK_I64(rows, d->rows);
      CHECK_I64(tsr_batch_count(b), d->records);
      CHECK_BYTES(ids, d->id, (size_t)rows * sizeof *d->id);
      for (int64_t i = 0; i < d->records; i++) seen->met[ids[i]] = true;
    }
    seen->rows += rows;
    if (index == w->batches - 1) end_epoch(w, seen);
  }
  CHECK_STATUS(tsr_scope_status(w->s), TSR_OK, w->s);
  return done;
}

static void trial(uint64_t seed)
{
  static world w;
  static sight whole, parts;
  w = (world){ .rng = test_seeded(seed) };
  law_mesh m = law_open(&w.rng);
  w.s = tsr_scope_open(m.rt);
  make_records(&w);
  make_buckets(&w);
  make_behind(&w);
  w.how = (tsr_pipeline_args){ .size = sizeof w.how,
                               .source = w.source,
                               .epochs = test_range(&w.rng, 1, 2),
                               .remainder = (tsr_remainder)test_range(&w.rng, 1, 4),
                               .threads = (int)test_range(&w.rng, -1, 3),
                               .on = law_sharding(&w.rng, m.mesh, 1) };
  if (test_range(&w.rng, 0, 1) && tsr_process_count(m.rt) == 1 &&
      w.how.remainder == TSR_ALWAYS_SHORT)
    w.how.remainder = TSR_KEEP_SHORT;
  deal_out(&w);
  whole = parts = (sight){ 0 };
  tsr_pipeline *p = tsr_pipeline_open_with(&w.how, TSR_HERE);
  CHECK_STATUS(tsr_scope_status(w.s), TSR_OK, w.s);
  CHECK_I64(tsr_pipeline_batch_count(p), w.batches);
  CHECK_I64(follow(&w, p, INT64_MAX, &whole), w.batches * w.how.epochs);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  /* Once more, stopped on the way. */
  char state[2000];
  size_t size;
  int64_t stop = test_range(&w.rng, 0, w.batches * w.how.epochs);
  p = tsr_pipeline_open_with(&w.how, TSR_HERE);
  CHECK_I64(follow(&w, p, stop, &parts), stop);
  CHECK_STATUS(tsr_pipeline_save(p, state, sizeof state, &size), TSR_OK, w.s);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  w.how.threads = (int)test_range(&w.rng, -1, 3);
  w.how.prefetch = (int)test_range(&w.rng, 0, 4);
  w.how.state = state;
  w.how.state_size = size;
  p = tsr_pipeline_open_with(&w.how, TSR_HERE);
  CHECK_I64(follow(&w, p, INT64_MAX, &parts), w.batches * w.how.epochs - stop);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  CHECK_I64(parts.rows, whole.rows);
  CHECK_BYTES(parts.order, whole.order, (size_t)whole.rows * sizeof *whole.order);
  tsr_scope_close(w.s);
  tsr_runtime_close(m.rt);
}

TEST_TIMEOUT(batches_are_dealt_by_bucket, 300)
{
  law_each_seed(1, test_quick() ? 100 : 1000, trial);
}
