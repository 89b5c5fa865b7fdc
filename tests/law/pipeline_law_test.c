/* Random pipelines on random meshes: every batch, on every device, holds what a list of records
 * kept by hand says, whatever the threads; saved anywhere and restored, the rest follows. The same
 * with records that cannot be read. */
#include <stdlib.h>
#include <string.h>

#include "execute/execute.h"
#include "pipeline/permute.h"
#include "support/law_fixture.h"

enum { MOST = 400, FIELDS = 3, STAGES = 5 };

/* A source, and what its records should be, in order: numbers of records of the leaf. Where it is
 * shuffled only which they are is known. */
typedef struct listed {
  tsr_source *source;
  int64_t count, at[MOST];
  bool any_order;
} listed;

typedef struct world {
  test_rng rng;
  tsr_runtime *rt;
  tsr_scope *s;
  const tsr_mesh *mesh;
  int64_t records;
  tsr_source_field field[FIELDS];
  size_t bytes[FIELDS]; /* of a record, on the host */
  char *data[FIELDS];
  tsr_field_on on[FIELDS];
} world;

/* ---- records --------------------------------------------------------------------------------- */

static tsr_shape random_shape(test_rng *rng)
{
  tsr_shape shape = { .rank = (int)test_range(rng, 0, 3) };
  for (int d = 0; d < shape.rank; d++) shape.dims[d] = test_range(rng, d ? 0 : 1, 5);
  return shape;
}

static void make_fields(world *w)
{
  static const tsr_dtype dtypes[] = { TSR_BOOL, TSR_U8, TSR_I16, TSR_F32, TSR_F64, TSR_I64 };
  static const char *const names[FIELDS] = { "a", "b", "c" };
  for (int f = 0; f < FIELDS; f++) {
    tsr_source_field *field = &w->field[f];
    *field = (tsr_source_field){ names[f], dtypes[test_range(&w->rng, 0, 5)], random_shape(&w->rng),
                                 NULL };
    w->bytes[f] = tsr_dtype_size(field->dtype);
    for (int d = 0; d < field->shape.rank; d++) w->bytes[f] *= (size_t)field->shape.dims[d];
    size_t all = w->bytes[f] * (size_t)w->records;
    field->data = w->data[f] = test_guarded(all + 1);
    for (size_t i = 0; i < all; i++)
      w->data[f][i] = (char)(test_random(&w->rng) & (field->dtype == TSR_BOOL ? 1 : 255));
    w->on[f] = (tsr_field_on){ names[f], law_sharding(&w->rng, w->mesh, field->shape.rank + 1) };
  }
}

/* ---- stages, by the tool and by hand --------------------------------------------------------- */

static void slice_both(world *w, listed *l)
{
  int64_t start = test_range(&w->rng, 0, l->count), stop = test_range(&w->rng, start, l->count);
  int64_t step = test_range(&w->rng, 1, 4), kept = 0;
  for (int64_t i = start; i < stop; i += step) l->at[kept++] = l->at[i];
  l->count = kept;
  l->source = tsr_source_slice(l->source, TSR_STEPS(start, stop, step));
}

static void repeat_both(world *w, listed *l)
{
  int64_t times = test_range(&w->rng, 0, 3);
  if (l->count * times > MOST) return;
  for (int64_t t = 1; t < times; t++)
    memcpy(l->at + t * l->count, l->at, (size_t)l->count * sizeof *l->at);
  l->count *= times;
  l->source = tsr_source_repeat(l->source, times);
}

static void concat_both(world *w, listed *l)
{
  if (l->count * 2 > MOST) return;
  listed other = *l;
  slice_both(w, &other);
  memcpy(l->at + l->count, other.at, (size_t)other.count * sizeof *l->at);
  l->count += other.count;
  l->source = tsr_source_concat(l->source, other.source);
}

/* The quota method by fractions: of those not ahead of their share the most overdue one. */
static void mix_both(world *w, listed *l)
{
  listed part[2] = { *l, *l };
  int64_t weight[2], had[2] = { 0, 0 }, n = 0;
  slice_both(w, &part[1]);
  for (int k = 0; k < 2; k++) weight[k] = test_range(&w->rng, 1, 6);
  double all = (double)(weight[0] + weight[1]);
  for (; n < MOST; n++) {
    int next = -1;
    double least = 0;
    for (int k = 0; k < 2; k++) {
      double overdue = (double)(had[k] + 1) / (double)weight[k];
      bool ahead = (double)had[k] * all >= (double)((n + 1) * weight[k]);
      if (!ahead && (next < 0 || overdue < least)) next = k, least = overdue;
    }
    if (had[next] == part[next].count) break;
    l->at[n] = part[next].at[had[next]++];
  }
  if (n == MOST) { /* longer than the list */
    *l = part[0];
    return;
  }
  l->count = n;
  l->source = tsr_source_mix({ part[0].source, weight[0] }, { part[1].source, weight[1] });
}

static void split_both(world *w, listed *l)
{
  int64_t parts = test_range(&w->rng, 1, 4), part = test_range(&w->rng, 0, parts - 1), kept = 0;
  bool strided = test_range(&w->rng, 0, 1), drop = test_range(&w->rng, 0, 1);
  int64_t most = drop ? l->count / parts : l->count;
  int64_t before = 0, mine = 0; /* of neighbours: the first `count % parts` have one more */
  for (int64_t k = 0; k <= part; k++) {
    before += mine;
    mine = l->count / parts + (!drop && k < l->count % parts);
  }
  for (int64_t i = 0; i < l->count; i++) {
    bool stays = strided ? i % parts == part && kept < most : i >= before && i < before + mine;
    if (stays) l->at[kept++] = l->at[i];
  }
  l->count = kept;
  l->source =
      tsr_source_split(l->source, .part = part, .parts = parts, .strided = strided, .drop = drop);
}

/* Whether a record's number is not a multiple. */
static bool no_multiple(const tsr_record *record, void *user)
{
  return record->id % *(const int64_t *)user != 0;
}

static void filter_both(world *w, listed *l)
{
  int64_t factor = test_range(&w->rng, 1, 5), kept = 0;
  for (int64_t i = 0; i < l->count; i++)
    if (l->at[i] % factor != 0) l->at[kept++] = l->at[i];
  l->count = kept;
  l->source = tsr_source_filter(l->source, no_multiple, .user = &factor);
}

static void shuffle_both(world *w, listed *l)
{
  l->any_order = true;
  l->source =
      tsr_source_shuffle(l->source, .seed = test_random(&w->rng),
                         .window = test_range(&w->rng, 0, 1) ? test_range(&w->rng, 1, 50) : 0);
}

static listed make_chain(world *w)
{
  listed l = { .count = w->records };
  for (int64_t i = 0; i < l.count; i++) l.at[i] = i;
  l.source = tsr_source_memory_at(w->s, w->records, w->field, FIELDS, TSR_HERE);
  for (int64_t k = test_range(&w->rng, 0, STAGES); k > 0; k--) {
    /* A part of a shuffled list could be any records: no such stages behind a shuffle. */
    switch (l.any_order ? 6 : test_range(&w->rng, 0, 7)) {
    case 0: slice_both(w, &l); break;
    case 1: repeat_both(w, &l); break;
    case 2: concat_both(w, &l); break;
    case 3: mix_both(w, &l); break;
    case 4: split_both(w, &l); break;
    case 5: filter_both(w, &l); break;
    default: shuffle_both(w, &l); break;
    }
  }
  return l;
}

/* ---- checking -------------------------------------------------------------------------------- */

/* What each device holds of a field: rows of the records `ids` (-1: zeros), cut as its box says. */
static void check_field(world *w, int f, tsr_batch *b, const int64_t *ids)
{
  tsr_array *a = tsr_batch_field(b, w->field[f].name);
  size_t size = tsr_dtype_size(w->field[f].dtype);
  char host[8192], expected[8192];
  for (int k = 0; k < a->value->part_count; k++) {
    tsr_box box;
    if (!a->value->parts[k]) continue; /* another process's */
    tsr__value_box(a->value, k, &box);
    tsr__box_copy copy = tsr__part_copy(a->value, &box);
    int64_t cells = tsr__box_count(&box, a->shape.rank);
    CHECK((size_t)cells * size <= sizeof host);
    tsr__devices_of(a->value->rt)->ops->to_host(&copy, a->value->parts[k], host);
    for (int64_t i = 0; i < cells; i++) {
      int64_t left = i, inside = 0, scale = 1, row = 0;
      for (int d = a->shape.rank - 1; d >= 0; d--) {
        int64_t at = box.start[d] + left % box.size[d];
        left /= box.size[d];
        if (!d) row = at;
        else inside += at * scale;
        scale *= a->shape.dims[d];
      }
      char *to = expected + (size_t)i * size;
      if (ids[row] < 0) memset(to, 0, size);
      else memcpy(to, w->data[f] + (size_t)ids[row] * w->bytes[f] + (size_t)inside * size, size);
    }
    CHECK_BYTES(host, expected, (size_t)cells * size);
  }
}

static void check_mask(tsr_batch *b)
{
  bool mask[MOST];
  int64_t rows = tsr_batch_row_count(b);
  CHECK_STATUS(tsr_read(tsr_batch_mask(b), mask, (size_t)rows), TSR_OK, tsr_batch_scope(b));
  for (int64_t i = 0; i < rows; i++) CHECK_I64(mask[i], i < tsr_batch_count(b));
}

/* Reads a pipeline to its end or for so many batches, checks each, and lists its records. */
static int64_t follow(world *w, tsr_pipeline *p, int64_t most, int64_t *records)
{
  int64_t count = 0;
  tsr_batch *b;
  for (int64_t n = 0; n < most && (b = tsr_pipeline_next(p)); n++, tsr_batch_release(b)) {
    const int64_t *ids = tsr_batch_ids(b);
    for (int f = 0; f < FIELDS; f++) check_field(w, f, b, ids);
    check_mask(b);
    memcpy(records + count, ids, (size_t)tsr_batch_count(b) * sizeof *ids);
    count += tsr_batch_count(b);
  }
  CHECK_STATUS(tsr_scope_status(w->s), TSR_OK, w->s);
  return count;
}

static int by_number(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Each epoch against the list, as sets where it is shuffled. */
static void check_epochs(const listed *l, const tsr_pipeline_args *how, const int64_t *records,
                         int64_t count)
{
  int64_t size = how->batch_size, short_of = l->count % size, each = l->count;
  if (how->remainder == TSR_DROP) each -= short_of;
  if (how->remainder == TSR_WRAP && short_of) each += size - short_of;
  CHECK_I64(count, l->count ? each * how->epochs : 0);
  for (int64_t e = 0; l->count && e < how->epochs; e++) {
    int64_t found[2 * MOST], expected[2 * MOST];
    for (int64_t i = 0; i < each; i++) expected[i] = l->at[i % l->count];
    memcpy(found, records + e * each, (size_t)each * sizeof *found);
    if (l->any_order && each > l->count) continue; /* who comes twice is not known */
    if (l->any_order) {
      qsort(found, (size_t)each, sizeof *found, by_number);
      qsort(expected, (size_t)l->count, sizeof *expected, by_number);
      if (each < l->count) continue; /* nor who is left out */
    } else if (how->remainder == TSR_WRAP) {
      for (int64_t i = 0; i < each; i++) expected[i] = l->at[i % l->count];
    }
    CHECK_BYTES(found, expected, (size_t)each * sizeof *found);
  }
}

static tsr_pipeline *reopened(world *w, const listed *l, tsr_pipeline_args how, const void *state,
                              size_t size)
{
  how.source = l->source;
  how.threads = (int)test_range(&w->rng, -1, 3);
  how.prefetch = (int)test_range(&w->rng, 0, 4);
  how.state = state;
  how.state_size = size;
  return tsr_pipeline_open_with(&how, TSR_HERE);
}

static void trial(uint64_t seed)
{
  world w = { .rng = test_seeded(seed) };
  law_mesh m = law_open(&w.rng);
  w.rt = m.rt;
  w.s = tsr_scope_open(m.rt);
  w.mesh = m.mesh;
  w.records = test_corner(&w.rng, 0, 100);
  make_fields(&w);
  listed l = make_chain(&w);
  CHECK_STATUS(tsr_scope_status(w.s), TSR_OK, w.s);
  CHECK_I64(tsr_source_count(l.source), l.count);
  tsr_pipeline_args how = { .size = sizeof how,
                            .batch_size = test_range(&w.rng, 1, 12),
                            .epochs = test_range(&w.rng, 1, 2),
                            .ids = true,
                            .remainder = (tsr_remainder)test_range(&w.rng, 0, 4) };
  memcpy(how.fields, w.on, sizeof w.on);
  int64_t whole[4 * MOST], again[4 * MOST];
  char state[4000];
  size_t size;
  tsr_pipeline *p = reopened(&w, &l, how, NULL, 0);
  int64_t count = follow(&w, p, INT64_MAX, whole);
  check_epochs(&l, &how, whole, count);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  /* Once more, stopped on the way. */
  p = reopened(&w, &l, how, NULL, 0);
  int64_t stop = test_range(&w.rng, 0, tsr_pipeline_batch_count(p) * how.epochs);
  int64_t got = follow(&w, p, stop, again);
  CHECK_STATUS(tsr_pipeline_save(p, state, sizeof state, &size), TSR_OK, w.s);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  p = reopened(&w, &l, how, state, size);
  got += follow(&w, p, INT64_MAX, again + got);
  CHECK_I64(got, count);
  CHECK_BYTES(again, whole, (size_t)count * sizeof *whole);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_scope_close(w.s);
  tsr_runtime_close(m.rt);
}

TEST_TIMEOUT(batches_hold_what_the_list_says, 300)
{
  law_each_seed(1, test_quick() ? 100 : 600, trial);
}

/* ---- records that cannot be read ------------------------------------------------------------ */

enum { TRIES = 16 };

static bool is_bad(int64_t id, uint64_t salt)
{
  return tsr__mix(salt, (uint64_t)id) % (2 + salt % 9) == 0;
}

static tsr_status refuse_some(const tsr_record *record, void *user)
{
  int64_t id = record->id;
  memcpy(record->out[0], &id, sizeof id);
  return is_bad(id, *(const uint64_t *)user) ? TSR_EVALUE : TSR_OK;
}

/* What a batch should be: by row the record, -1: zeros, of which the mask is false. */
typedef struct expected {
  int64_t rows, records, bad;
  int64_t id[2 * MOST], meant[2 * MOST];
  bool lost; /* no substitute could be read */
} expected;

/* `order` has the id at each position of an epoch. */
typedef struct model {
  const tsr_pipeline_args *how;
  int64_t count, batches;
  uint64_t salt;
  const int64_t *order;
} meaning;

static int64_t stand_in(const meaning *m, int64_t epoch, int64_t at)
{
  const int64_t *order = m->order + epoch * m->count;
  uint64_t key = tsr__mix(tsr__mix((uint64_t)at, (uint64_t)epoch), m->how->seed);
  for (uint64_t try = 1; try <= TRIES; try++) {
    int64_t other = order[tsr__mix(key, try) % (uint64_t)m->count];
    if (!is_bad(other, m->salt)) return other;
  }
  for (int64_t next = 1; next < m->count; next++)
    if (!is_bad(order[(at + next) % m->count], m->salt)) return order[(at + next) % m->count];
  return -1;
}

static void expect_batch(const meaning *m, int64_t number, expected *e)
{
  int64_t epoch = number / m->batches, first = number % m->batches * m->how->batch_size;
  int64_t left = m->count - first, size = m->how->batch_size;
  bool wraps = m->how->remainder == TSR_WRAP;
  *e = (expected){ .records = left < size && !wraps ? left : size };
  for (int64_t i = 0; i < e->records; i++) {
    int64_t at = (first + i) % m->count, id = m->order[epoch * m->count + at];
    bool bad = is_bad(id, m->salt);
    e->bad += bad;
    e->meant[e->rows] = id;
    if (bad && m->how->bad == TSR_BAD_SKIP) continue;
    e->id[e->rows] = !bad ? id : m->how->bad == TSR_BAD_MASK ? -1 : stand_in(m, epoch, at);
    if (bad && m->how->bad == TSR_BAD_SUBSTITUTE && e->id[e->rows] < 0) e->lost = true;
    e->rows++;
  }
  e->records = e->rows - (m->how->bad == TSR_BAD_MASK ? e->bad : 0);
  while (m->how->remainder == TSR_PAD_AND_MASK && e->rows < size) e->id[e->rows++] = -1;
}

/* Follows the batches from `number` on, `most` of them; the number of the next one. */
static int64_t follow_bad(world *w, tsr_pipeline *p, const meaning *m, int64_t number, int64_t most,
                          int64_t *bad)
{
  bool alone = tsr_process_count(w->rt) == 1;
  expected e;
  tsr_batch *b;
  for (int64_t n = 0; n < most && (b = tsr_pipeline_next(p)); n++, tsr_batch_release(b)) {
    for (;; number++) { /* batches that lost all their records do not come */
      expect_batch(m, number, &e);
      *bad += e.bad;
      if (m->how->bad != TSR_BAD_SKIP || e.records) break;
    }
    CHECK_I64(tsr_batch_epoch(b), number / m->batches);
    CHECK_I64(tsr_batch_index(b), number % m->batches);
    CHECK_I64(tsr_batch_row_count(b), e.rows);
    for (int f = 0; f < FIELDS; f++) check_field(w, f, b, e.id);
    bool mask[MOST];
    CHECK_STATUS(tsr_read(tsr_batch_mask(b), mask, (size_t)e.rows), TSR_OK, tsr_batch_scope(b));
    for (int64_t i = 0; i < e.rows; i++) CHECK_I64(mask[i], e.id[i] >= 0);
    if (alone) CHECK_I64(tsr_batch_count(b), e.records);
    if (alone) CHECK_BYTES(tsr_batch_ids(b), e.id, (size_t)e.rows * sizeof *e.id);
    number++;
  }
  return number;
}

/* The batch behind the last one that comes, and why: the budget, or a record that nothing could
 * stand in for. */
static int64_t find_end(const meaning *m, tsr_status *why)
{
  int64_t bad = 0, total = m->batches * m->how->epochs;
  expected e;
  *why = TSR_OK;
  for (int64_t n = 0; n < total; n++) {
    expect_batch(m, n, &e);
    bad += e.bad;
    if (!e.lost && !(m->how->bad_most && bad > m->how->bad_most)) continue;
    *why = TSR_EVALUE;
    return n;
  }
  return total;
}

static void bad_trial(uint64_t seed)
{
  world w = { .rng = test_seeded(seed) };
  law_mesh m = law_open(&w.rng);
  w.rt = m.rt;
  w.s = tsr_scope_open(m.rt);
  w.mesh = m.mesh;
  w.records = test_range(&w.rng, 1, 100);
  bool alone = tsr_process_count(m.rt) == 1;
  make_fields(&w);
  listed l = make_chain(&w);
  if (!l.count) {
    tsr_scope_close(w.s);
    tsr_runtime_close(m.rt);
    return;
  }
  tsr_pipeline_args how = { .size = sizeof how,
                            .batch_size = test_range(&w.rng, 1, 12),
                            .epochs = test_range(&w.rng, 1, 2),
                            .on = law_sharding(&w.rng, m.mesh, 1),
                            .ids = true };
  memcpy(how.fields, w.on, sizeof w.on);
  int64_t order[2 * MOST], bad = 0;
  tsr_pipeline *p = reopened(&w, &l, how, NULL, 0);
  CHECK_I64(follow(&w, p, INT64_MAX, order), l.count * how.epochs);
  int64_t batches = tsr_pipeline_batch_count(p);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  meaning model = { &how, l.count, batches, test_random(&w.rng), order };
  how.remainder = (tsr_remainder)test_range(&w.rng, 1, 4);
  if (how.remainder == TSR_DROP) model.batches = l.count / how.batch_size;
  how.bad = (tsr_bad_records)test_range(&w.rng, alone ? 1 : 2, 3);
  if (alone && test_range(&w.rng, 0, 2) == 0) how.bad_most = test_range(&w.rng, 1, 10);
  l.source = tsr_source_map(l.source, refuse_some, .user = &model.salt,
                            .fields = { { "number", TSR_I64, { 0 } } });
  tsr_status why;
  int64_t end = find_end(&model, &why);
  if (why && !alone) how.bad = TSR_BAD_MASK, end = find_end(&model, &why);
  /* Stopped on the way, and once more from there. */
  p = reopened(&w, &l, how, NULL, 0);
  int64_t number = follow_bad(&w, p, &model, 0, test_range(&w.rng, 0, end), &bad);
  char state[4000];
  size_t size;
  CHECK_STATUS(tsr_pipeline_save(p, state, sizeof state, &size), TSR_OK, w.s);
  /* At the end batches without a record were passed over, too. */
  if (alone && how.bad != TSR_BAD_SKIP) CHECK_I64(tsr_pipeline_bad_count(p), bad);
  tsr_status early = tsr_pipeline_close(p);
  CHECK(early == TSR_OK || early == why);
  tsr_scope_clear(w.s);
  p = reopened(&w, &l, how, state, size);
  number = follow_bad(&w, p, &model, number, INT64_MAX, &bad);
  if (how.bad != TSR_BAD_SKIP || why) CHECK(number <= end);
  if (how.bad != TSR_BAD_SKIP) CHECK_I64(number, end);
  CHECK_STATUS(tsr_pipeline_close(p), why, w.s);
  tsr_scope_close(w.s);
  tsr_runtime_close(m.rt);
}

TEST_TIMEOUT(bad_records_show_in_their_own_rows, 300)
{
  law_each_seed(1, test_quick() ? 100 : 600, bad_trial);
}
