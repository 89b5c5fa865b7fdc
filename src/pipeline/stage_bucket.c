/* Records in an order that puts those of about one length into a batch.
 *
 *   buckets   <= 4: r0 r3 r4 r7 r8     <= 16: r1 r2     longer: r5 r6 r9
 *   batches   of 2   r0 r3 | r1 r2 | r4 r7 | r5 r6 | r8 r9     as they fill up; what is left
 *                    <=4     <=16    <=4    longer   longer     over comes last, short to long
 *
 * A batch of a pipeline that reads this is as long as the bound of the longest bucket it has
 * records of, instead of the field's longest length. Kept are the places of records by bucket, and
 * which batch comes when; where it is shuffled both are permuted by arithmetic.
 *
 * With sizes of their own positions are those of `place`, bucket after bucket, and the batches
 * stand in no order of positions: the source deals them.
 *
 *   sizes 4 2 1   r0 r3 r4 r7 | r1 r2 | r5 | r6 | r9 | r8       whole ones as they fill up,
 *   positions     0  1  2  3    5  6    7    8    9    4         then each bucket's rest, alone
 *
 * Where a batch begins is a product, then, whichever came before it: a sum over batches of other
 * sizes in a permuted order would take a list for each epoch. */
#include "pipeline/permute.h"
#include "pipeline/stage.h"

typedef struct bucket_source {
  tsr_source source;
  tsr_bucket_args args;
  int field, told, buckets;
  int64_t longest;                    /* length of the field */
  int64_t first[TSR_MAX_BUCKETS + 1]; /* in `place` */
  int64_t full[TSR_MAX_BUCKETS + 1];  /* whole batches of earlier buckets */
  int64_t rest[TSR_MAX_BUCKETS + 1];  /* left over records of earlier buckets */
  int64_t *place;                     /* records, bucket by bucket */
  int64_t *turn;                      /* whole batches as they come; NULL: shuffled */
  tsr__bucket bucket[TSR_MAX_BUCKETS];
  bool deals; /* batches of the buckets' own sizes */
  tsr__dealer dealer;
} bucket_source;

/* Of a few dozen, in order: a search would take as long. Empty buckets begin where the next does,
 * and the last that begins there is taken. */
static int bucket_of(const int64_t *start, int buckets, int64_t at)
{
  int b = 0;
  while (b + 1 < buckets && start[b + 1] <= at) b++;
  return b;
}

/* Which whole batch comes as number `at`. */
static int64_t batch_at(const bucket_source *k, int64_t epoch, int64_t at)
{
  if (k->turn) return k->turn[at];
  tsr__permutation p;
  tsr__permutation_make(&p, tsr__records_isa(&k->source), (uint64_t)k->full[k->buckets],
                        k->args.seed, (uint64_t)epoch);
  tsr__permute(&p, &at, &at, 1);
  return at;
}

/* The bucket of a position, and which of its records before they are shuffled. */
static int place_at(const bucket_source *k, int64_t epoch, int64_t at, int64_t *inside)
{
  int b;
  if (k->deals) {
    b = bucket_of(k->first, k->buckets, at);
    *inside = at - k->first[b];
    return b;
  }
  /* Whole batches come first, then what is left over, from short to long. */
  int64_t rows = k->args.rows, batch = at / rows, left = at - k->full[k->buckets] * rows;
  if (left < 0) {
    batch = batch_at(k, epoch, batch);
    b = bucket_of(k->full, k->buckets, batch);
    *inside = (batch - k->full[b]) * rows + at % rows;
  } else {
    b = bucket_of(k->rest, k->buckets, left);
    *inside = (k->full[b + 1] - k->full[b]) * rows + left - k->rest[b];
  }
  return b;
}

/* The record of a position. */
static int64_t record_at(const bucket_source *k, int64_t epoch, int64_t at)
{
  int64_t inside;
  int b = place_at(k, epoch, at, &inside);
  if (k->args.shuffle) {
    tsr__permutation p;
    /* A seed for each bucket: equally full ones are shuffled neither alike nor as the batches. */
    uint64_t key = tsr__mix(k->args.seed, (uint64_t)b + 1);
    tsr__permutation_make(&p, tsr__records_isa(&k->source),
                          (uint64_t)(k->first[b + 1] - k->first[b]), key, (uint64_t)epoch);
    tsr__permute(&p, &inside, &inside, 1);
  }
  return k->place[k->first[b] + inside];
}

/* Neighbours here lie anywhere below, so each position is turned by itself. */
static tsr_status read_bucket(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const bucket_source *k = (const bucket_source *)source;
  int64_t at[TSR__BLOCK];
  tsr__ask_rows below = *ask;
  for (int64_t i = 0; i < ask->count; i++) at[i] = record_at(k, ask->epoch, ask->at[i]);
  below.at = at;
  return tsr__records_read(source->children[0], &below, error);
}

static void ids_bucket(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                       int64_t *to)
{
  const bucket_source *k = (const bucket_source *)source;
  for (int64_t i = 0; i < count; i++) to[i] = record_at(k, epoch, at[i]);
  tsr__records_ids(source->children[0], epoch, to, count, to);
}

/* The bound of the longest bucket that has some of the records. */
static int64_t fit_bucket(const tsr_source *source, int64_t epoch, int64_t first, int64_t count)
{
  const bucket_source *k = (const bucket_source *)source;
  int64_t rows = k->args.rows, full = k->full[k->buckets], last = first + count - 1;
  int longest = 0;
  if (count < 1) return k->longest;
  for (int64_t batch = first / rows; batch <= last / rows && batch < full; batch++) {
    int b = bucket_of(k->full, k->buckets, batch_at(k, epoch, batch));
    if (b > longest) longest = b;
  }
  /* Left over records come from short to long: the last one decides. */
  if (last >= full * rows) {
    int b = bucket_of(k->rest, k->buckets, last - full * rows);
    if (b > longest) longest = b;
  }
  return k->bucket[longest].bound;
}

/* The same of positions that are in no order of batches. */
static int64_t fit_place(const tsr_source *source, int64_t epoch, int64_t first, int64_t count)
{
  const bucket_source *k = (const bucket_source *)source;
  (void)epoch;
  return count < 1 ? k->longest
                   : k->bucket[bucket_of(k->first, k->buckets, first + count - 1)].bound;
}

/* ---- batches of their own sizes -------------------------------------------------------------- */

/* places   | bucket 0: b0 b1 b2 rest | bucket 1: b3 rest | ...     of batches of each one's size
 *
 * Whole batches in their turn, then one for each bucket with a rest. What wraps stays within its
 * bucket: records of others may not fit its bound. */
static void deal_bucket(const tsr__dealer *dealer, int64_t epoch, int64_t batch, tsr__deal *out)
{
  const bucket_source *k = (const bucket_source *)dealer->source;
  int64_t late = batch - dealer->whole; /* of what is left over */
  int b = 0;
  if (late < 0) {
    batch = batch_at(k, epoch, batch);
    b = bucket_of(k->full, k->buckets, batch);
  } else {
    /* A batch for each bucket that has something left; there are enough of them, as `all` says. */
    while (k->rest[b + 1] == k->rest[b] || late-- > 0) b++;
    batch = k->full[b + 1];
  }
  int64_t size = k->bucket[b].size, inside = (batch - k->full[b]) * size;
  int64_t left = k->bucket[b].records - inside;
  *out = (tsr__deal){ .first = k->first[b] + inside,
                      .records = left < size ? left : size,
                      .size = size,
                      .home = k->first[b],
                      .around = k->bucket[b].records };
}

/* What a pipeline has to know before any batch is dealt: how many there are, and their sizes. */
static void make_dealer(bucket_source *k)
{
  tsr__dealer *d = &k->dealer;
  int64_t full = k->full[k->buckets];
  *d = (tsr__dealer){ .source = &k->source,
                      .deal = deal_bucket,
                      .whole = full,
                      .all = full,
                      .least = k->bucket[0].size,
                      .buckets = k->bucket,
                      .bucket_count = k->buckets,
                      .field = k->source.columns[k->field].name };
  for (int b = 0; b < k->buckets; b++) {
    d->all += k->rest[b + 1] > k->rest[b];
    if (k->bucket[b].size < d->least) d->least = k->bucket[b].size;
    if (k->bucket[b].size > d->most) d->most = k->bucket[b].size;
  }
  k->source.dealer = d;
}

/* ---- the stage ------------------------------------------------------------------------------- */

/* Lengths are data: a hash of the places says whether they would fall alike. */
static void about_bucket(const tsr_source *source, tsr__text *out)
{
  const bucket_source *k = (const bucket_source *)source;
  size_t bytes = (size_t)source->count * sizeof *k->place;
  tsr__text_add(out, "%s by", source->children[0]->columns[k->field].name);
  for (int b = 0; b < k->buckets; b++) tsr__text_add(out, " %lld", (long long)k->bucket[b].bound);
  for (int b = 0; k->deals && b < k->buckets; b++)
    tsr__text_add(out, "%s%lld", b ? " " : ", sizes=", (long long)k->bucket[b].size);
  if (!k->deals) tsr__text_add(out, ", rows=%lld", (long long)k->args.rows);
  if (k->args.shuffle) tsr__text_add(out, ", seed=%llu", (unsigned long long)k->args.seed);
  tsr__text_add(out, ", %016llx", (unsigned long long)tsr__hash(k->place, bytes, 0));
}

static void release_bucket(tsr_source *source)
{
  bucket_source *k = (bucket_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  tsr__numbers_free(heap, k->place, source->count);
  tsr__numbers_free(heap, k->turn, k->full[k->buckets]);
}

static const tsr__records_ops bucket_ops = { "bucket",       read_bucket, ids_bucket, about_bucket,
                                             release_bucket, NULL,        NULL };

/* ---- dealing records out --------------------------------------------------------------------- */

typedef struct dealing {
  bucket_source *k;
  unsigned char *bucket; /* by record */
} dealing;

/* By the lengths that records say, of which nothing else is read. */
static tsr_status deal_some(void *user, const tsr__room *room, int64_t first, int64_t count,
                            tsr__error *error)
{
  dealing *d = user;
  bucket_source *k = d->k;
  const tsr__cell *cell = &room->cells[k->told];
  for (int64_t i = 0; i < count; i++) {
    int64_t length;
    int b = 0;
    memcpy(&length, cell->data + (size_t)i * cell->stride, sizeof length);
    if (length < 0 || length > k->longest)
      return tsr__error_set(error, TSR_EVALUE,
                            "record %lld has a length of %lld, expected 0 to %lld",
                            (long long)(first + i), (long long)length, (long long)k->longest);
    /* Ends at the last bound, which is `longest`: larger lengths were refused above. */
    while (k->bucket[b].bound < length) b++;
    d->bucket[first + i] = (unsigned char)b;
    k->bucket[b].records++;
    k->bucket[b].used += length;
  }
  return TSR_OK;
}

/* Nobody knows how long it is; see place_bad. */
static void deal_bad(void *user, int64_t record)
{
  ((dealing *)user)->bucket[record] = TSR_MAX_BUCKETS;
}

/* To the shortest ones that there are, where some record could stand in for it. */
static void place_bad(const dealing *d, int64_t count)
{
  int b = 0;
  while (b + 1 < d->k->buckets && !d->k->bucket[b].records) b++;
  for (int64_t r = 0; r < count; r++) {
    if (d->bucket[r] != TSR_MAX_BUCKETS) continue;
    d->bucket[r] = (unsigned char)b;
    d->k->bucket[b].records++;
  }
}

/* Sorts records by bucket, and whole batches by when their last record comes. */
static void sort_records(bucket_source *k, const unsigned char *bucket, int64_t count)
{
  int64_t next[TSR_MAX_BUCKETS] = { 0 }, turns = 0;
  for (int b = 0; b < k->buckets; b++) {
    const tsr__bucket *mine = &k->bucket[b];
    k->first[b + 1] = k->first[b] + mine->records;
    k->full[b + 1] = k->full[b] + mine->records / mine->size;
    k->rest[b + 1] = k->rest[b] + mine->records % mine->size;
  }
  for (int64_t r = 0; r < count; r++) {
    int b = bucket[r];
    int64_t size = k->bucket[b].size;
    k->place[k->first[b] + next[b]++] = r;
    /* A batch comes when its last record does, as if records were dealt out one after the other. */
    if (k->turn && next[b] % size == 0) k->turn[turns++] = k->full[b] + next[b] / size - 1;
  }
}

/* `over` is what it is to stand over. */
static tsr_status deal_all(tsr_source *source, bucket_source *k, tsr_source **over,
                           tsr__error *error)
{
  tsr__heap *heap = &source->node.scope->rt->heap;
  size_t bytes = (size_t)source->count + 1;
  dealing d = { k, tsr__new_raw(heap, bytes) };
  tsr__scan scan = {
    source, tsr__columns_one(k->told), "tsr_source_bucket", "bucket", deal_some, &d, deal_bad
  };
  if (!d.bucket)
    return tsr__error_set(error, TSR_ENOMEM, "no memory for the buckets of %lld records",
                          (long long)source->count);
  if (!tsr__scan_all(&scan, error)) {
    *over = scan.source;
    if (scan.source != source) place_bad(&d, source->count);
    /* Known before lists are allocated, and again when they are freed: `turn` is as long. */
    int64_t full = 0;
    for (int b = 0; b < k->buckets; b++) full += k->bucket[b].records / k->bucket[b].size;
    k->full[k->buckets] = full;
    k->place = tsr__numbers_new(heap, source->count, error);
    if (k->place && !k->args.shuffle) k->turn = tsr__numbers_new(heap, full, error);
    if (!error->status) sort_records(k, d.bucket, source->count);
  }
  tsr__del(heap, d.bucket, bytes);
  return error->status;
}

/* ---- making one ------------------------------------------------------------------------------ */

static bool is_size(int64_t size)
{
  return size >= 1 && size <= INT64_C(1) << 40;
}

/* A size for each of `given` bounds, and one for what is longer than the last: as tf.data has them.
 * Those of bounds that no record exceeds are left out, as the bounds are. */
static tsr_status check_sizes(const tsr_bucket_args *a, bucket_source *k, int given,
                              tsr__error *error)
{
  int sizes = 0;
  while (sizes < TSR_MAX_BUCKETS && a->sizes[sizes]) sizes++;
  k->deals = sizes > 0;
  if (k->deals && a->rows)
    return tsr__error_set(error, TSR_EARG,
                          ".rows and .sizes are both set; set .rows for one batch size, or .sizes "
                          "for one per bucket");
  if (k->deals && sizes != given + 1 && !(sizes == given && k->buckets <= given))
    return tsr__error_set(error, TSR_EARG,
                          "there are %d .sizes for %d .bounds, expected %d: one for each bound, "
                          "and one for longer records",
                          sizes, given, given + 1);
  if (!k->deals && !is_size(a->rows))
    return tsr__error_set(
        error, TSR_EARG,
        ".rows is %lld, expected 1 or more: the pipeline's batch size; or set .sizes by bucket",
        (long long)a->rows);
  for (int b = 0; b < k->buckets; b++) {
    k->bucket[b].size = k->deals ? a->sizes[b] : a->rows;
    if (!is_size(k->bucket[b].size))
      return tsr__error_set(error, TSR_EARG, ".sizes has %lld at position %d, expected 1 or more",
                            (long long)k->bucket[b].size, b);
  }
  return TSR_OK;
}

static tsr_status check_bucket(const tsr_bucket_args *a, bucket_source *k, tsr__error *error)
{
  int given = 0;
  k->field = tsr__field_find(a->source, a->field, error);
  if (k->field < 0) return error->status;
  k->args = *a;
  k->told = tsr__length_find(a->source, a->field);
  if (k->told < 0)
    return tsr__error_set(error, TSR_ESHAPE,
                          "field %.80s is not ragged: there is no field %.80s_length of i64",
                          a->field, a->field);
  k->longest =
      a->source->columns[k->field].shape.rank ? a->source->columns[k->field].shape.dims[0] : 0;
  for (int b = 0; b < TSR_MAX_BUCKETS - 1 && a->bounds[b]; b++, given++) {
    if (a->bounds[b] < 1 || (b && a->bounds[b] <= a->bounds[b - 1]))
      return tsr__error_set(error, TSR_EARG,
                            ".bounds has %lld as number %d, expected more than %lld",
                            (long long)a->bounds[b], b, (long long)(b ? a->bounds[b - 1] : 0));
    /* Bounds that no record exceeds are buckets that would stay empty. */
    if (a->bounds[b] < k->longest) k->bucket[k->buckets++].bound = a->bounds[b];
  }
  k->bucket[k->buckets++].bound = k->longest;
  return check_sizes(a, k, given, error) ? error->status : tsr__scan_check(a->source, error);
}

tsr_source *tsr_source_bucket_with(const tsr_bucket_args *given, const char *site)
{
  const char *call = "tsr_source_bucket";
  tsr_bucket_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  bucket_source like = { 0 };
  tsr_source *source = given ? given->source : NULL, *over = source;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error) &&
      !check_bucket(&args, &like, &error))
    deal_all(source, &like, &over, &error);
  tsr_source *made = error.status
                         ? tsr__stage_refused(source, call, &error, site)
                         : tsr__records_over(over, call, &bucket_ops, sizeof(bucket_source), site);
  if (made->inert) {
    tsr__heap *heap = &source->node.scope->rt->heap;
    tsr__numbers_free(heap, like.place, source->count);
    tsr__numbers_free(heap, like.turn, like.full[like.buckets]);
    return made;
  }
  bucket_source *k = (bucket_source *)made;
  like.source = k->source;
  *k = like;
  made->by_epoch = made->by_epoch || args.shuffle;
  made->fitted = made;
  made->fit = k->deals ? fit_place : fit_bucket;
  made->fit_column = k->field;
  if (k->deals) make_dealer(k);
  return made;
}
