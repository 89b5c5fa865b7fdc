/* Closing and cancelling: within a tenth of a second of work wherever the library computes, in each
 * kind of stage. Processor time is counted, of all threads together, and records where functions
 * sleep, as neither grows beside other programs. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "tessera.h"

enum { ATTEMPTS = 5, MANY = 3000000, LONG = 1 << 20 };

/* Seconds of processor time. */
static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- work that takes long -------------------------------------------------------------------- */

static double *numbers; /* two records of LONG */

static tsr_source *long_records(tsr_scope *s)
{
  tsr_source *two = tsr_source_memory(s, 2, { "x", TSR_F64, TSR_SHAPE(LONG), numbers });
  return tsr_source_repeat(two, 1000);
}

static tsr_status count_up(void *const *out, bool *ended, void *user)
{
  int64_t *next = user;
  *ended = *next == 100 * (int64_t)MANY;
  memcpy(out[0], next, sizeof *next);
  ++*next;
  return TSR_OK;
}

static tsr_status from_zero(int64_t epoch, void *user)
{
  (void)epoch;
  *(int64_t *)user = 0;
  return TSR_OK;
}

static tsr_status same(const tsr_record *record, void *user)
{
  (void)user;
  memcpy(record->out[0], record->in[0], sizeof(int64_t));
  return TSR_OK;
}

static int64_t two_parts(const tsr_record *record, void *user)
{
  (void)record, (void)user;
  return 2;
}

static tsr_status one_part(const tsr_record *record, int64_t part, void *user)
{
  (void)user;
  memcpy(record->out[0], &part, sizeof part);
  return record->id < 0 ? TSR_EVALUE : TSR_OK;
}

static tsr_source *work(tsr_scope *s, int kind, int64_t *next, int64_t *batch)
{
  tsr_source *range = tsr_source_range(s, 100 * (int64_t)MANY);
  *batch = MANY;
  switch (kind) {
  case 0: return range;
  case 1: return tsr_source_shuffle(range, .seed = 1, .window = 1000);
  case 2: return tsr_source_map(range, same, .fields = { { "index", TSR_I64, { 0 } } });
  case 3: return tsr_source_mix({ range, 3 }, { range, 2 });
  case 4: return tsr_source_one_hot(tsr_source_take(range, 10), "index", .classes = 10);
  case 5:
    return tsr_source_stream(s, .fn = count_up, .begin = from_zero, .user = next,
                             .fields = { { "index", TSR_I64, { 0 } } });
  case 6:
    return tsr_source_flat_map(tsr_source_take(range, 100000), one_part, .count = two_parts,
                               .fields = { { "part", TSR_I64, { 0 } } });
  default: break;
  }
  *batch = 8;
  tsr_source *x = long_records(s);
  switch (kind) {
  case 7: return tsr_source_cast(x, "x", .dtype = TSR_BF16);
  case 8: return tsr_source_cast(x, "x", .dtype = TSR_F32, .scale = 0.5);
  case 9: return tsr_source_pad(x, "x", .length = 2 * LONG, .value = TSR_VALUE(1));
  case 10: return tsr_source_batch(tsr_source_take(x, 8), .rows = 2);
  default: return x;
  }
}

enum { KINDS = 12 };

/* Processor time that closing takes while batches of a kind are being filled. */
static double close_amid(tsr_runtime *rt, int kind, int threads)
{
  tsr_scope *s = tsr_scope_open(rt);
  int64_t next = 0, batch;
  tsr_source *source = work(s, kind, &next, &batch);
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = batch, .epochs = 50, .threads = threads,
                                      .remainder = TSR_DROP);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  usleep(15000);
  double begin = now();
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  double took = now() - begin;
  tsr_scope_close(s);
  return took;
}

static void fill_numbers(void)
{
  numbers = malloc(2 * sizeof *numbers * LONG);
  CHECK(numbers);
  for (int i = 0; i < 2 * LONG; i++) numbers[i] = i * 0.25;
}

TEST_TIMEOUT(closing_takes_a_tenth_of_a_second, 120)
{
  const double most = 0.1 * test_patience();
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  fill_numbers();
  for (int kind = 0; kind < KINDS; kind++) {
    double least = 1e9;
    for (int i = 0; i < ATTEMPTS && least > most; i++) {
      double took = close_amid(rt, kind, 1 + i % 3);
      if (took < least) least = took;
    }
    if (least > most) FAIL("closing amid work %d takes %.3f s", kind, least);
  }
  tsr_runtime_close(rt);
  free(numbers);
}

/* ---- calls that look at all records ---------------------------------------------------------- */

typedef struct told {
  bool stops;
  double at; /* when the callback first said so; 0: not yet */
} told;

static bool ask(const char *what, int64_t done, int64_t total, void *user)
{
  told *t = user;
  (void)what, (void)done, (void)total;
  if (t->stops && t->at == 0) t->at = now();
  return !t->stops;
}

static bool keeps(const tsr_record *record, void *user)
{
  (void)user;
  return record->id % 2;
}

/* A call of a kind on a source that is large; of ragged ones `w` has lengths. */
static void look_at_all(int kind, tsr_source *range, tsr_source *words)
{
  switch (kind) {
  case 0: tsr_source_filter(range, keeps); break;
  case 1: tsr_source_cache(range); break;
  case 2: tsr_source_cache(range, .path = test_tmp("stop.cache")); break;
  case 3: tsr_source_bucket(words, "w", .rows = 8, .bounds = { 1 }); break;
  case 4: tsr_source_pack(words, "w", .length = 8); break;
  case 5: tsr_source_pack(words, "w", .length = 8, .way = TSR_PACK_CUT); break;
  case 6: tsr_source_fit(words, "w"); break;
  case 7: tsr_source_sample(.parts = { { range, 3 }, { range, 1 } }); break;
  default:
    tsr_source_flat_map(range, one_part, .count = two_parts,
                        .fields = { { "part", TSR_I64, { 0 } } });
  }
}

/* Processor time from when the callback said so to the end of the call; 0: it was not asked. */
static double cancel_amid(int kind)
{
  told t = { .stops = false };
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .progress = ask, .progress_user = &t);
  tsr_scope *s = tsr_scope_open(rt);
  static const int64_t word[2] = { 1, 2 }, one = 1;
  tsr_source *w = tsr_source_memory(s, 1, { "w", TSR_I64, TSR_SHAPE(2), word },
                                    { "w_length", TSR_I64, { 0 }, &one });
  tsr_source *words = tsr_source_repeat(w, MANY);
  tsr_source *range = tsr_source_range(s, MANY);
  t.stops = true;
  look_at_all(kind, range, words);
  double took = t.at > 0 ? now() - t.at : 0;
  if (t.at > 0) CHECK_STATUS(tsr_scope_status(s), TSR_ECANCELLED, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return took;
}

TEST_TIMEOUT(calls_are_cancelled_in_a_tenth_of_a_second, 120)
{
  const double most = 0.1 * test_patience();
  for (int kind = 0; kind < 9; kind++) {
    double least = 1e9;
    for (int i = 0; i < ATTEMPTS && least > most; i++) {
      double took = cancel_amid(kind);
      if (took < least) least = took;
    }
    if (least > most) FAIL("a call of kind %d takes %.3f s", kind, least);
    /* A cache in memory reads nothing at the call. */
    if (kind != 1 && least == 0) FAIL("a call of kind %d never asked", kind);
  }
}

/* ---- batches that the caller fills ----------------------------------------------------------- */

static int slept; /* by the caller's thread alone */

static tsr_status slow_part(const tsr_record *record, int64_t part, void *user)
{
  usleep(2000);
  slept++;
  return one_part(record, part, user);
}

static tsr_status slow_record(const tsr_record *record, void *user)
{
  usleep(2000);
  slept++;
  return same(record, user);
}

/* Half a second of one block's records; without threads it is the caller who would be held up. */
static tsr_source *slow_work(tsr_scope *s, int kind)
{
  tsr_source *range = tsr_source_range(s, 256);
  if (!kind) return tsr_source_map(range, slow_record, .fields = { { "index", TSR_I64, { 0 } } });
  return tsr_source_flat_map(range, slow_part, .count = two_parts,
                             .fields = { { "part", TSR_I64, { 0 } } });
}

/* A tenth of a second is fifty records. */
TEST_TIMEOUT(batches_are_cancelled_in_fifty_records, 60)
{
  for (int kind = 0; kind < 2; kind++) {
    told t = { .stops = false };
    tsr_runtime *rt = tsr_runtime_open("cpu:1", .progress = ask, .progress_user = &t);
    tsr_scope *s = tsr_scope_open(rt);
    tsr_pipeline *p = tsr_pipeline_open(slow_work(s, kind), .batch_size = 256, .threads = -1);
    t.stops = true;
    slept = 0;
    CHECK(!tsr_pipeline_next(p));
    if (slept > 50) FAIL("a batch of kind %d is cancelled after %d records", kind, slept);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_ECANCELLED, NULL);
    tsr_scope_close(s);
    tsr_runtime_close(rt);
  }
}

/* ---- a function that asks its own pipeline --------------------------------------------------- */

typedef struct asking {
  tsr_pipeline *pipeline;
  bool closes;
  _Atomic int calls;
} asking;

static tsr_status ask_own(const tsr_record *record, void *user)
{
  asking *a = user;
  int64_t id = record->id;
  memcpy(record->out[0], &id, sizeof id);
  if (id < 20 || !a->pipeline) return TSR_OK;
  a->calls++;
  /* It gives nothing, at once. */
  if (a->closes) CHECK_I64(tsr_pipeline_close(a->pipeline), TSR_ESTATE);
  else CHECK(!tsr_pipeline_next(a->pipeline));
  return TSR_OK;
}

static tsr_status stream_own(void *const *out, bool *ended, void *user)
{
  asking *a = user;
  int64_t n = a->calls++;
  memcpy(out[0], &n, sizeof n);
  *ended = n == 100;
  if (n > 20 && a->pipeline) CHECK(!tsr_pipeline_next(a->pipeline));
  return TSR_OK;
}

TEST_TIMEOUT(asking_the_own_pipeline_is_an_error, 60)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (int threads = -1; threads < 4; threads++)
    for (int kind = 0; kind < 4; kind++) {
      tsr_scope *s = tsr_scope_open(rt);
      asking a = { .closes = kind == 1 };
      tsr_source *source =
          kind == 3 ? tsr_source_stream(s, .fn = stream_own, .user = &a,
                                        .fields = { { "n", TSR_I64, { 0 } } })
                    : tsr_source_map(tsr_source_range(s, 100), ask_own, .user = &a,
                                     .blocking = kind == 2, .fields = { { "n", TSR_I64, { 0 } } });
      /* It is given to the function before anything is filled that would ask. */
      tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 10, .threads = threads,
                                          .prefetch = 1, .bad = kind % 2 ? 0 : TSR_BAD_MASK);
      a.pipeline = p;
      int64_t batches = 0;
      for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) batches++;
      CHECK(batches < 10);
      CHECK_STATUS(tsr_scope_status(s), TSR_ESTATE, s);
      CHECK_STR_HAS(tsr_message(s), "called tsr_pipeline_next of the same pipeline");
      CHECK(!tsr_pipeline_next(p));
      CHECK_I64(tsr_pipeline_close(p), TSR_ESTATE);
      tsr_scope_close(s);
    }
  tsr_runtime_close(rt);
}
