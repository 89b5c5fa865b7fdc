/* Records that cannot be read below every stage that looks at all of them or keeps them, under
 * every policy: what comes is what the stage makes of the others, each once, whatever the threads
 * and the order; a pipeline that ended with one goes on under another policy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/law_fixture.h"

enum { MOST = 80, LONGEST = 5, KEYS = MOST * 16 };

typedef enum stage {
  FILTER,
  FLAT,
  FIT,
  BUCKET,
  BUCKET_SIZES,
  FIRST_FIT,
  BEST_FIT,
  CUT,
  UNBATCH,
  CACHE,
  DISK,
  DISK_AGAIN,
  BATCH,
  MERGE,
  STAGES
} stage;

typedef struct world {
  test_rng rng;
  tsr_scope *s;
  int64_t count;
  bool bad[MOST];
  int64_t tokens[MOST]; /* of a record */
  stage stage;
  /* What may come: how often each key did, and is to. */
  int expected[KEYS], found[KEYS];
  int64_t rows_bad; /* rows of the stage that cannot be read */
} world;

/* ---- the records ----------------------------------------------------------------------------- */

/* Fields r, the ragged w whose values say whose they are, and rows. */
static tsr_status make_record(const tsr_record *record, void *user)
{
  const world *w = user;
  int64_t r = record->id, tokens[LONGEST] = { 0 };
  for (int64_t k = 0; k < w->tokens[r]; k++) tokens[k] = r * 16 + k + 1;
  memcpy(record->out[0], &r, sizeof r);
  memcpy(record->out[1], tokens, sizeof tokens);
  memcpy(record->out[2], &w->tokens[r], sizeof r);
  return w->bad[r] ? TSR_EPARSE : TSR_OK;
}

static tsr_source *leaf(world *w)
{
  return tsr_source_map(tsr_source_range(w->s, w->count), make_record, .user = w, .name = "leaf",
                        .fields = { { "r", TSR_I64, { 0 } },
                                    { "w", TSR_I64, TSR_SHAPE(LONGEST) },
                                    { "w_length", TSR_I64, { 0 } } });
}

static bool is_odd(const tsr_record *record, void *user)
{
  (void)user;
  return record->id % 2;
}

static int64_t parts_of(const tsr_record *record, void *user)
{
  (void)user;
  return record->id % 3;
}

static tsr_status make_part(const tsr_record *record, int64_t part, void *user)
{
  (void)user;
  memcpy(record->out[0], &part, sizeof part);
  return TSR_OK;
}

/* "rows" of w, which unbatch takes apart. */
static tsr_status count_rows(const tsr_record *record, void *user)
{
  (void)user;
  memcpy(record->out[0], record->in[3], sizeof(int64_t)); /* index, r, w, w_length */
  return TSR_OK;
}

static tsr_status negate(const tsr_record *record, void *user)
{
  (void)user;
  int64_t r;
  memcpy(&r, record->in[1], sizeof r);
  r = -r;
  memcpy(record->out[0], &r, sizeof r);
  return TSR_OK;
}

static void expect_tokens(world *w, int64_t r)
{
  for (int64_t k = 0; k < w->tokens[r]; k++) w->expected[r * 16 + k + 1]++;
}

/* ---- stages, and what they make of good records ---------------------------------------------- */

static tsr_source *make_stage(world *w)
{
  tsr_source *below = leaf(w);
  const char *path = test_tmp("l.cache");
  switch (w->stage) {
  case FILTER: return tsr_source_filter(below, is_odd);
  case FLAT:
    return tsr_source_flat_map(below, make_part, .count = parts_of,
                               .fields = { { "part", TSR_I64, { 0 } } });
  case FIT: return tsr_source_fit(below, "w");
  case BUCKET: return tsr_source_bucket(below, "w", .rows = 4, .bounds = { 1, 3 });
  case BUCKET_SIZES: return tsr_source_bucket(below, "w", .bounds = { 1, 3 }, .sizes = { 5, 3, 2 });
  case FIRST_FIT: return tsr_source_pack(below, "w", .length = 7, .open = 3);
  case BEST_FIT: return tsr_source_pack(below, "w", .length = 7, .way = TSR_PACK_BEST_FIT);
  case CUT: return tsr_source_pack(below, "w", .length = 7, .way = TSR_PACK_CUT);
  case UNBATCH:
    below = tsr_source_map(below, count_rows, .fields = { { "rows", TSR_I64, { 0 } } });
    return tsr_source_unbatch(tsr_source_select(below, "w,rows"));
  case CACHE: return tsr_source_cache(below);
  case DISK: remove(path); return tsr_source_cache(below, .path = path);
  case DISK_AGAIN:
    remove(path);
    tsr_source_cache(below, .path = path);
    return tsr_source_cache(below, .path = path);
  case BATCH: return tsr_source_batch(below, .rows = 3, .remainder = TSR_DROP);
  default: {
    tsr_source *other = tsr_source_map(tsr_source_select(below, "w_length,r"), negate,
                                       .fields = { { "minus", TSR_I64, { 0 } } });
    return tsr_source_merge(tsr_source_select(below, "r"), tsr_source_select(other, "minus"));
  }
  }
}

static void expect_all(world *w)
{
  for (int64_t r = 0; r < w->count; r++) {
    w->rows_bad += w->bad[r];
    if (w->bad[r]) continue;
    if (w->stage == FIRST_FIT || w->stage == BEST_FIT || w->stage == CUT || w->stage == UNBATCH)
      expect_tokens(w, r);
    else if (w->stage == FLAT)
      for (int64_t part = 0; part < r % 3; part++) w->expected[r * 16 + part]++;
    else if (w->stage != BATCH) w->expected[r * 16] += w->stage != FILTER || r % 2;
  }
  if (w->stage == BATCH) w->rows_bad = 0;
  for (int64_t b = 0; w->stage == BATCH && b + 3 <= w->count; b += 3) {
    bool bad = w->bad[b] || w->bad[b + 1] || w->bad[b + 2];
    w->rows_bad += bad;
    for (int64_t r = b; r < b + 3; r++) w->expected[r * 16] += !bad;
  }
}

/* ---- reading --------------------------------------------------------------------------------- */

static void meet(world *w, int64_t key)
{
  CHECK(key >= 0 && key < KEYS);
  /* A record that is not to be there is wrong under any policy. */
  if (!w->expected[key]) FAIL("stage %d gives %lld", (int)w->stage, (long long)key);
  w->found[key]++;
}

static void meet_rows(world *w, tsr_batch *b)
{
  enum { CELLS = 8 * 64 };
  bool mask[64];
  int64_t value[CELLS], part[64];
  int64_t rows = tsr_batch_row_count(b);
  const char *field =
      w->stage == FIRST_FIT || w->stage == BEST_FIT || w->stage == CUT || w->stage == UNBATCH ? "w"
                                                                                              : "r";
  tsr_array *x = tsr_batch_field(b, field);
  int64_t wide = tsr_shape_of(x).rank > 1 ? tsr_shape_of(x).dims[1] : 1;
  CHECK(rows <= 64 && rows * wide <= CELLS);
  CHECK_STATUS(tsr_read(x, value, (size_t)(rows * wide) * 8), TSR_OK, w->s);
  CHECK_STATUS(tsr_read(tsr_batch_mask(b), mask, (size_t)rows), TSR_OK, w->s);
  if (w->stage == FLAT)
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "part"), part, (size_t)rows * 8), TSR_OK, w->s);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; mask[i] && k < wide; k++) {
      int64_t v = value[i * wide + k];
      if (*field == 'r') meet(w, v * 16 + (w->stage == FLAT ? part[i] : 0));
      else if (v) meet(w, v);
    }
}

/* Whether all that is to come came, each once. */
static void check_met(const world *w, bool once)
{
  for (int key = 0; key < KEYS; key++) {
    CHECK(w->found[key] >= w->expected[key]);
    if (once) CHECK(w->found[key] <= w->expected[key]);
  }
}

static tsr_pipeline_args how_to(world *w, tsr_source *source, tsr_bad_records bad)
{
  tsr_pipeline_args how = { .size = sizeof how,
                            .source = source,
                            .batch_size = w->stage == BUCKET_SIZES ? 0 : 4,
                            .shuffle = w->stage != BUCKET_SIZES && test_range(&w->rng, 0, 1),
                            .seed = (uint64_t)test_range(&w->rng, 0, 99),
                            .threads = (int)test_range(&w->rng, -1, 3),
                            .bad = bad };
  return how;
}

/* All there is under a policy, from a state on. */
static tsr_status read_all(world *w, const tsr_pipeline_args *how, bool clear)
{
  if (clear) memset(w->found, 0, sizeof w->found);
  tsr_pipeline *p = tsr_pipeline_open_with(how, TSR_HERE);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) meet_rows(w, b);
  int64_t bad = tsr_pipeline_bad_count(p);
  tsr_status status = tsr_pipeline_close(p);
  if (!status && how->bad != TSR_BAD_FAIL && !how->state) CHECK_I64(bad, w->rows_bad);
  return status;
}

/* One that ended with a bad record goes on, and leaves it out. */
static void go_on(world *w, tsr_source *source)
{
  static char state[1 << 16];
  size_t size;
  memset(w->found, 0, sizeof w->found);
  tsr_pipeline_args how = how_to(w, source, TSR_BAD_FAIL);
  tsr_pipeline *p = tsr_pipeline_open_with(&how, TSR_HERE);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) meet_rows(w, b);
  CHECK_STATUS(tsr_pipeline_save(p, state, sizeof state, &size), TSR_OK, w->s);
  CHECK_I64(tsr_pipeline_close(p), w->rows_bad ? TSR_EPARSE : TSR_OK);
  if (w->rows_bad) CHECK_STR_HAS(tsr_message(w->s), "leaf: record ");
  tsr_scope_clear(w->s);
  how.state = state;
  how.state_size = size;
  how.bad = TSR_BAD_SKIP;
  CHECK_I64(read_all(w, &how, false), TSR_OK);
  CHECK_STATUS(tsr_scope_status(w->s), TSR_OK, w->s);
  check_met(w, true);
}

static void trial(uint64_t seed)
{
  static world w;
  w = (world){ .rng = test_seeded(seed), .stage = (stage)(seed % STAGES) };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  w.s = tsr_scope_open(rt);
  w.count = test_range(&w.rng, 3, MOST - 1);
  int64_t each = test_range(&w.rng, 1, 12);
  for (int64_t r = 0; r < w.count; r++) {
    w.bad[r] = test_range(&w.rng, 0, each) == 0;
    w.tokens[r] = test_range(&w.rng, 0, LONGEST);
  }
  expect_all(&w);
  tsr_source *source = make_stage(&w);
  CHECK_STATUS(tsr_scope_status(w.s), TSR_OK, w.s);
  bool any = false;
  for (int key = 0; key < KEYS; key++) any = any || w.expected[key];
  for (int policy = TSR_BAD_SKIP; policy <= TSR_BAD_MASK; policy++) {
    tsr_pipeline_args how = how_to(&w, source, (tsr_bad_records)policy);
    tsr_status status = read_all(&w, &how, true);
    /* Nothing stands in where nothing can be read. */
    if (policy == TSR_BAD_SUBSTITUTE && status && any)
      FAIL("stage %d, %s: %s", (int)w.stage, tsr_source_text(source), tsr_message(w.s));
    if (policy == TSR_BAD_SUBSTITUTE && status) CHECK(!any);
    else CHECK_STATUS(status, TSR_OK, w.s);
    if (!status) check_met(&w, policy != TSR_BAD_SUBSTITUTE);
    tsr_scope_clear(w.s);
  }
  go_on(&w, source);
  tsr_scope_close(w.s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(every_stage_under_every_policy, 300)
{
  law_each_seed(1, test_quick() ? 280 : 2800, trial);
}
