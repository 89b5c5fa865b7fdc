/* What becomes of records between a source and its batches: cases by hand. The rest of it is in
 * law/stage_law_test.c. Guards the devices. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "tessera.h"

enum { MOST = 2000 };

/* The i64 field of a name of all records, one after the other; returns how many records. */
static int64_t all_of(tsr_source *source, const char *field, int64_t *out, tsr_pipeline_args how)
{
  int64_t count = 0, each = 1;
  how.size = sizeof how;
  how.source = source;
  how.batch_size = how.batch_size ? how.batch_size : 3;
  tsr_pipeline *p = tsr_pipeline_open_with(&how, TSR_HERE);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    tsr_array *a = tsr_batch_field(b, field);
    tsr_shape shape = tsr_shape_of(a);
    each = 1;
    for (int d = 1; d < shape.rank; d++) each *= shape.dims[d];
    size_t bytes = (size_t)(shape.dims[0] * each) * sizeof *out;
    CHECK_STATUS(tsr_read(a, out + count * each, bytes), TSR_OK, tsr_batch_scope(b));
    count += tsr_batch_count(b);
  }
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  return count;
}

static void check_list(tsr_source *source, const char *field, const int64_t *expected,
                       int64_t count)
{
  int64_t found[MOST];
  int64_t records = all_of(source, field, found, (tsr_pipeline_args){ .threads = -1 });
  CHECK_I64(records, tsr_source_count(source));
  CHECK_BYTES(found, expected, (size_t)count * sizeof *expected);
}

/* All numbers of a field of all records. */
#define LIST(source, field, ...)                                  \
  check_list((source), (field), (const int64_t[]){ __VA_ARGS__ }, \
             (int64_t)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

TEST(batches_as_records)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *n = tsr_source_range(s, 7);
  tsr_source *pad = tsr_source_batch(n, .rows = 3, .remainder = TSR_PAD_AND_MASK);
  LIST(pad, "index", 0, 1, 2, 3, 4, 5, 6, 0, 0);
  LIST(pad, "rows", 3, 3, 1);
  LIST(tsr_source_batch(n, .rows = 3, .remainder = TSR_DROP), "index", 0, 1, 2, 3, 4, 5);
  LIST(tsr_source_batch(n, .rows = 3, .remainder = TSR_WRAP), "index", 0, 1, 2, 3, 4, 5, 6, 0, 1);
  LIST(tsr_source_batch(n, .rows = 3, .stride = 2), "index", 0, 1, 2, 2, 3, 4, 4, 5, 6);
  LIST(tsr_source_unbatch(pad), "index", 0, 1, 2, 3, 4, 5, 6);
  /* Those of three as those of two, across borders. */
  tsr_source *two = tsr_source_batch(tsr_source_unbatch(pad), .rows = 2, .remainder = TSR_DROP);
  LIST(two, "index", 0, 1, 2, 3, 4, 5);
  CHECK_STR(tsr_source_text(two), "range(7 of index i64[]) > slice(0:7) > batch(2, drop)");
  tsr_source_unbatch(tsr_source_shuffle(pad, .seed = 0));
  CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s), "shuffle the result of this stage instead");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* A function of a batch at a time: its rows less the first of them. */
static tsr_status less_first(const tsr_record *record, void *user)
{
  int64_t in[4], rows;
  (void)user;
  memcpy(in, record->in[0], sizeof in);
  memcpy(&rows, record->in[1], sizeof rows);
  for (int64_t i = rows - 1; i >= 0; i--) in[i] -= in[0];
  memcpy(record->out[0], in, sizeof in);
  return TSR_OK;
}

TEST(functions_of_batches)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *fours =
      tsr_source_batch(tsr_source_range(s, 10), .rows = 4, .remainder = TSR_PAD_AND_MASK);
  tsr_source *made =
      tsr_source_map(fours, less_first, .fields = { { "index", TSR_I64, TSR_SHAPE(4) } });
  LIST(tsr_source_unbatch(made), "index", 0, 1, 2, 3, 0, 1, 2, 3, 0, 1);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(lengths_and_classes)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  static const int64_t w[6] = { 1, 2, 3, 4, 0, 0 }, length[2] = { 3, 1 };
  tsr_source *words = tsr_source_memory(s, 2, { "w", TSR_I64, TSR_SHAPE(3), w },
                                        { "w_length", TSR_I64, { 0 }, length });
  LIST(tsr_source_pad(words, "w", .length = 5), "w", 1, 2, 3, 0, 0, 4, 0, 0, 0, 0);
  LIST(tsr_source_pad(words, "w", .length = 4, .value = TSR_VALUE(-1)), "w", 1, 2, 3, -1, 4, -1, -1,
       -1);
  LIST(tsr_source_pad(words, "w", .length = 4, .front = true), "w", 0, 1, 2, 3, 0, 0, 0, 4);
  LIST(tsr_source_pad(words, "w", .length = 2), "w", 1, 2, 4, 0);
  LIST(tsr_source_pad(words, "w", .length = 2, .front = true), "w", 2, 3, 0, 4);
  LIST(tsr_source_pad(words, "w", .length = 2), "w_length", 2, 1);
  LIST(tsr_source_one_hot(tsr_source_select(words, "w_length=n"), "n", .classes = 4,
                          .dtype = TSR_I64),
       "n", 0, 0, 0, 1, 0, 1, 0, 0);
  CHECK_STR_HAS(tsr_source_text(tsr_source_pad(words, "w", .length = 4, .front = true)),
                " > pad(w to 4, 0, front)");
  tsr_pipeline *p =
      tsr_pipeline_open(tsr_source_one_hot(words, "w_length", .classes = 2), .batch_size = 2);
  CHECK(!tsr_pipeline_next(p));
  CHECK_STATUS(tsr_pipeline_close(p), TSR_EVALUE, NULL);
  CHECK_STR_HAS(tsr_message(s), "one_hot: record 0: w_length is 3, expected 0 to 1");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* tf.data.Dataset.range(1, 6).interleave(lambda x: Dataset.from_tensors(x).repeat(6),
 * cycle_length=2, block_length=4), whose order its reference gives. */
TEST(sources_by_turns)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *six[5];
  for (int i = 0; i < 5; i++)
    six[i] =
        tsr_source_repeat(tsr_source_slice(tsr_source_range(s, 6), TSR_RANGE(i + 1, i + 2)), 6);
  LIST(tsr_source_interleave(six, 5, .cycle = 2, .block = 4), "index", 1, 1, 1, 1, 2, 2, 2, 2, 1, 1,
       2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  /* Long ones are no more work: two runs of rounds. */
  tsr_source *two[2] = { tsr_source_range(s, INT64_C(1) << 50), tsr_source_range(s, 1) };
  tsr_source *turns = tsr_source_interleave(two, 2, .block = 1);
  LIST(tsr_source_slice(turns, TSR_RANGE(0, 4)), "index", 0, 0, 1, 2);
  LIST(tsr_source_slice(turns, TSR_RANGE(INT64_C(1) << 49, (INT64_C(1) << 49) + 1)), "index",
       (INT64_C(1) << 49) - 1);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- caches ---------------------------------------------------------------------------------- */

typedef struct counted {
  _Atomic int64_t reads;
  int64_t fails; /* so many of the first reads do */
} counted;

static tsr_status read_counted(int64_t at, void *const *out, void *user)
{
  counted *c = user;
  int64_t square = at * at;
  memcpy(out[0], &square, sizeof square);
  return atomic_fetch_add(&c->reads, 1) < c->fails ? TSR_EIO : TSR_OK;
}

static tsr_source *squares(tsr_scope *s, counted *c)
{
  return tsr_source_callback(s, .count = 500, .fn = read_counted, .user = c, .name = "squares",
                             .fields = { { "n", TSR_I64, { 0 } } });
}

/* Every record is read once whatever asks, and as often as it fails. */
TEST(caches_in_memory)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (int kind = 0; kind < 4; kind++) {
    tsr_scope *s = tsr_scope_open(rt);
    counted c = { 0, kind == 3 ? 1 : 0 };
    int64_t kept = kind == 2 ? 100 : 500, found[3 * 500];
    tsr_source *cache = tsr_source_cache(squares(s, &c), .records = kind == 2 ? 100 : 0);
    if (kind == 3) {
      tsr_pipeline *p = tsr_pipeline_open(cache, .batch_size = 10, .threads = -1);
      CHECK(!tsr_pipeline_next(p));
      CHECK_STATUS(tsr_pipeline_close(p), TSR_EIO, NULL);
      tsr_scope_clear(s);
      atomic_store(&c.reads, 1);
      c.fails = 0;
    }
    int64_t before = atomic_load(&c.reads);
    tsr_pipeline_args how = {
      .epochs = 3, .threads = kind ? 4 : -1, .shuffle = kind != 0, .seed = 3, .batch_size = 20
    };
    CHECK_I64(all_of(cache, "n", found, how), 1500);
    int64_t sum = 0;
    for (int i = 0; i < 1500; i++) sum += found[i];
    CHECK_I64(sum, 3 * (INT64_C(499) * 500 * 999 / 6));
    if (kind < 2) CHECK_I64(atomic_load(&c.reads), 500);
    else if (kind == 2) CHECK_I64(atomic_load(&c.reads), kept + 3 * (500 - kept));
    else CHECK(atomic_load(&c.reads) - before <= 500);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* What opening the cache in that file says. */
static tsr_status open_cache(tsr_scope *s, const char *path, counted *c)
{
  tsr_source_cache(squares(s, c), .path = path);
  tsr_status status = tsr_scope_status(s);
  return status;
}

TEST(caches_in_files)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_tmp("squares.cache");
  counted c = { 0 };
  int64_t found[500], plain[500];
  size_t size;
  tsr_source *cache = tsr_source_cache(squares(s, &c), .path = path);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_I64(all_of(squares(s, &c), "n", plain, (tsr_pipeline_args){ .batch_size = 9 }), 500);
  atomic_store(&c.reads, 0);
  cache = tsr_source_cache(squares(s, &c), .path = path);
  CHECK_I64(all_of(cache, "n", found, (tsr_pipeline_args){ .batch_size = 9 }), 500);
  CHECK_BYTES(found, plain, sizeof plain);
  CHECK_I64(c.reads, 0);
  /* Of another source; cut off anywhere; a byte changed anywhere. */
  tsr_source_cache(tsr_source_select(squares(s, &c), "n=m"), .path = path);
  CHECK_STATUS(tsr_scope_status(s), TSR_ESTATE, s);
  CHECK_STR_HAS(tsr_message(s), "squares.cache: caches other records: 'callback(squares");
  char *whole = test_read(path, &size);
  for (size_t i = 0; i < size; i += i < 200 ? 1 : 97) {
    tsr_scope_clear(s);
    test_write(path, whole, i);
    CHECK(open_cache(s, path, &c) != TSR_OK);
    tsr_scope_clear(s);
    whole[i] ^= 1;
    test_write(path, whole, size);
    if (!open_cache(s, path, &c)) {
      cache = tsr_source_cache(squares(s, &c), .path = path);
      tsr_pipeline *p = tsr_pipeline_open(cache, .batch_size = 500);
      CHECK(!tsr_pipeline_next(p));
      CHECK_STATUS(tsr_pipeline_close(p), TSR_EPARSE, NULL);
      CHECK_STR_HAS(tsr_message(s), "damaged");
    }
    whole[i] ^= 1;
  }
  free(whole);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* What could not be read when the file was written is read below, each time, and is in no file. */
TEST(caches_that_fail)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_tmp("failed.cache");
  counted c = { 0, 1 << 20 };
  tsr_source *cache = tsr_source_cache(squares(s, &c), .path = path);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_pipeline *p = tsr_pipeline_open(cache, .batch_size = 10);
  CHECK(!tsr_pipeline_next(p));
  CHECK_STATUS(tsr_pipeline_close(p), TSR_EIO, NULL);
  CHECK_STR_HAS(tsr_message(s), "squares: record 0");
  tsr_scope_clear(s);
  c.fails = 0;
  for (int again = 0; again < 2; again++) {
    int64_t found[500];
    atomic_store(&c.reads, 0);
    if (again) cache = tsr_source_cache(squares(s, &c), .path = path);
    CHECK_I64(all_of(cache, "n", found, (tsr_pipeline_args){ .batch_size = 33 }), 500);
    for (int64_t i = 0; i < 500; i++) CHECK_I64(found[i], i * i);
    CHECK_I64(atomic_load(&c.reads), 500);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- files in another order, branches -------------------------------------------------------- */

TEST(files_change_places)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *all = tsr_source_range(s, 100), *part[7];
  static const int64_t border[8] = { 0, 10, 11, 11, 40, 60, 61, 100 };
  int64_t found[300], orders = 0;
  for (int i = 0; i < 7; i++) part[i] = tsr_source_slice(all, TSR_RANGE(border[i], border[i + 1]));
  tsr_source *files =
      tsr_source_concat(part[0], part[1], part[2], part[3], part[4], part[5], part[6]);
  tsr_source *moved = tsr_source_shuffle(files, .seed = 5, .files = true, .window = 1);
  CHECK_I64(all_of(moved, "index", found, (tsr_pipeline_args){ .epochs = 3, .batch_size = 7 }),
            300);
  for (int e = 0; e < 3; e++) {
    bool met[100] = { 0 };
    int begun = 0;
    for (int i = 0; i < 100; i++) {
      int64_t n = found[100 * e + i];
      CHECK(!met[n]);
      met[n] = true;
      for (int b = 0; b < 7; b++)
        if (n == border[b] && border[b + 1] > border[b]) begun++;
      if (i && n != found[100 * e + i - 1] + 1) orders++;
    }
    CHECK_I64(begun, 6);
  }
  CHECK(orders > 6 && orders <= 18);
  /* With a window: near neighbours of that order, each record once. */
  tsr_source *near = tsr_source_shuffle(files, .seed = 5, .files = true, .window = 8);
  int64_t mixed[300];
  CHECK_I64(all_of(near, "index", mixed, (tsr_pipeline_args){ .epochs = 3, .batch_size = 7 }), 300);
  int64_t shifted = 0;
  for (int e = 0; e < 3; e++)
    for (int w = 0; w < 100; w += 8) {
      int64_t sum = 0, other = 0;
      for (int i = w; i < w + 8 && i < 100; i++) {
        sum += found[100 * e + i] * found[100 * e + i];
        other += mixed[100 * e + i] * mixed[100 * e + i];
        shifted += found[100 * e + i] != mixed[100 * e + i];
      }
      CHECK_I64(other, sum);
    }
  CHECK(shifted > 200);
  /* Those of a format are known without a concat. */
  test_write(test_tmp("l1.txt"), "a\nb\n", 4);
  test_write(test_tmp("l2.txt"), "c\n", 2);
  tsr_source *lines = tsr_source_lines(s, test_tmp("l*.txt"), .longest = 4);
  lines = tsr_source_shuffle(lines, .seed = 1, .files = true, .window = 1);
  CHECK_STR_HAS(tsr_source_text(lines), " > files(2, seed=1, ");
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* The bits drawn for a record, beside it. */
static tsr_status draw_bits(const tsr_record *record, void *user)
{
  (void)user;
  memcpy(record->out[0], &record->draw[0], 8);
  return TSR_OK;
}

/* Draws are those of the record: any batch size, threads, order, cache below and branch beside. */
TEST(draws_belong_to_records)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  int64_t plain[100], drawn[200], places[200];
  tsr_source *n = tsr_source_range(s, 100);
  tsr_source *bits =
      tsr_source_map(n, draw_bits, .seed = 9, .fields = { { "bits", TSR_I64, { 0 } } });
  CHECK_I64(all_of(bits, "bits", plain, (tsr_pipeline_args){ .threads = -1 }), 100);
  for (int kind = 0; kind < 6; kind++) {
    tsr_source *below = kind % 2 ? tsr_source_cache(n) : n;
    tsr_source *made =
        tsr_source_map(kind % 3 ? tsr_source_shuffle(below, .seed = 4) : below, draw_bits,
                       .seed = 9, .fields = { { "bits", TSR_I64, { 0 } } });
    tsr_pipeline_args how = { .threads = kind - 1, .batch_size = 1 + 13 * kind, .epochs = 2 };
    CHECK_I64(all_of(made, "bits", drawn, how), 200);
    CHECK_I64(all_of(made, "index", places, how), 200);
    for (int i = 0; i < 100; i++) CHECK_I64(drawn[i], plain[places[i]]);
    for (int i = 100; i < 200; i++) CHECK(drawn[i] != plain[places[i]]); /* anew */
  }
  tsr_source *both = tsr_source_merge(tsr_source_select(bits, "bits=left"),
                                      tsr_source_select(bits, "bits=right"), n);
  CHECK_I64(all_of(both, "right", drawn, (tsr_pipeline_args){ .batch_size = 8 }), 100);
  CHECK_BYTES(drawn, plain, sizeof plain);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- branches -------------------------------------------------------------------------------- */

/* How often each record was made; those of `wide` fill a room of their own. */
typedef struct making {
  _Atomic int made[2][100];
  int wide;
} making;

static tsr_status count_making(const tsr_record *record, void *user)
{
  making *m = user;
  int64_t n, *out = record->out[0];
  memcpy(&n, record->in[0], sizeof n);
  atomic_fetch_add(&m->made[record->epoch][record->id], 1);
  for (int i = 0; i < m->wide; i++) out[i] = n * 1000 + i;
  memcpy(record->out[1], &n, sizeof n);
  return n % 50 == 49 ? TSR_EVALUE : TSR_OK;
}

static tsr_status sum_up(const tsr_record *record, void *user)
{
  const int64_t *in = record->in[*(int *)user];
  int64_t sum = 0;
  for (int i = 0; i < 3; i++) sum += in[i];
  memcpy(record->out[0], &sum, sizeof sum);
  return TSR_OK;
}

/* A record that branches have in common is made once for all of them, wherever it stands, in each
 * epoch; but for the bad ones and those beside them, which are asked for one by one again. */
/* Branches of what several sources make together are of one order, too; of others they are not. */
TEST(branches_of_several_sources)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *a = tsr_source_range(s, 5), *b = tsr_source_range(s, 7);
  tsr_source *beside = tsr_source_zip(a, tsr_source_select(b, "index=other"));
  tsr_source *behind = tsr_source_concat(a, b), *again = tsr_source_concat(a, b);
  tsr_source *mixed = tsr_source_mix({ a, 2 }, { b, 1 }),
             *turned = tsr_source_mix({ a, 1 }, { b, 2 });
  tsr_source *const pairs[][2] = {
    { tsr_source_select(beside, "index"), tsr_source_select(beside, "other") },
    { tsr_source_select(behind, "index"), tsr_source_select(behind, "index=other") },
    { tsr_source_select(behind, "index"), tsr_source_select(again, "index=other") },
    { mixed, tsr_source_select(mixed, "index=other") },
    { tsr_source_shuffle(behind, .seed = 3),
      tsr_source_select(tsr_source_shuffle(again, .seed = 3), "index=other") },
  };
  for (int i = 0; i < 5; i++) {
    tsr_source *both = tsr_source_merge(pairs[i][0], pairs[i][1]);
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    int64_t left[12], right[12];
    tsr_pipeline *p = tsr_pipeline_open(both, .batch_size = 12);
    tsr_batch *batch = tsr_pipeline_next(p);
    size_t bytes = (size_t)tsr_source_count(both) * sizeof *left;
    CHECK_STATUS(tsr_read(tsr_batch_field(batch, "index"), left, bytes), TSR_OK, s);
    CHECK_STATUS(tsr_read(tsr_batch_field(batch, "other"), right, bytes), TSR_OK, s);
    CHECK_BYTES(left, right, bytes);
    tsr_batch_release(batch);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  }
  tsr_source *const wrong[][2] = {
    { behind, tsr_source_select(tsr_source_concat(b, a), "index=other") },
    { behind, tsr_source_select(tsr_source_shuffle(behind, .seed = 1), "index=other") },
    { tsr_source_take(mixed, 7), tsr_source_select(tsr_source_take(turned, 7), "index=other") },
    { tsr_source_take(behind, 5),
      tsr_source_select(tsr_source_batch(a, .rows = 1), "index=other") },
  };
  for (int i = 0; i < 4; i++) {
    tsr_source_merge(wrong[i][0], wrong[i][1]);
    CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
    tsr_scope_clear(s);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(branches_read_records_once)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  static making m;
  for (int kind = 0; kind < 12; kind++) {
    tsr_scope *s = tsr_scope_open(rt);
    bool bad = kind % 2;
    int which = 1;
    m = (making){ .wide = kind % 3 ? 5 : 20000 };
    tsr_source *range = tsr_source_take(tsr_source_range(s, 100), bad ? 100 : 49);
    tsr_source *common = tsr_source_map(range, count_making, .user = &m,
                                        .fields = { { "x", TSR_I64, TSR_SHAPE(m.wide) },
                                                    { "n", TSR_I64, TSR_SCALAR } });
    if (kind & 4) common = tsr_source_shuffle(common, .seed = 5);
    tsr_source *left = tsr_source_select(tsr_source_pad(common, "x", .length = 3), "x=left");
    tsr_source *sums = tsr_source_select(tsr_source_map(common, sum_up, .user = &which,
                                                        .fields = { { "s", TSR_I64, { 0 } } }),
                                         "s,n");
    /* Another order in both branches. */
    if (kind & 8) left = tsr_source_shuffle(left, .seed = 8);
    if (kind & 8) sums = tsr_source_shuffle(sums, .seed = 8);
    tsr_source *both =
        tsr_source_merge(left, sums, tsr_source_select(kind & 8 ? sums : common, "n=third"));
    CHECK_STR_HAS(tsr_source_text(both), "merge(");
    tsr_pipeline *p = tsr_pipeline_open(both, .batch_size = 7, .threads = kind % 4 ? 3 : -1,
                                        .epochs = 2, .bad = bad ? TSR_BAD_MASK : TSR_BAD_FAIL);
    int64_t records = 0;
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
      int64_t rows = tsr_batch_row_count(b), x[21], sum[7], n[7], third[7];
      size_t bytes = (size_t)rows * 8;
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "left"), x, 3 * bytes), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "s"), sum, bytes), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "n"), n, bytes), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "third"), third, bytes), TSR_OK, s);
      for (int64_t i = 0; i < rows; i++) {
        bool there = x[3 * i + 1] != 0; /* a masked row is zeros */
        CHECK_I64(sum[i], there ? n[i] * 3000 + 3 : 0);
        CHECK_I64(third[i], n[i]);
        for (int k = 0; k < 3; k++) CHECK_I64(x[3 * i + k], there ? n[i] * 1000 + k : 0);
        records += there;
      }
    }
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
    CHECK_I64(records, bad ? 2 * 98 : 2 * 49);
    for (int e = 0; e < 2 && !bad; e++)
      for (int r = 0; r < 49; r++) CHECK_I64(m.made[e][r], 1);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- buckets --------------------------------------------------------------------------------- */

enum { WORDS = 203, LONGEST = 40, BUCKETS = 4 };
static const int64_t bounds[BUCKETS] = { 4, 9, 25, LONGEST };

typedef struct words {
  int16_t w[WORDS][LONGEST];
  int64_t length[WORDS], n[WORDS];
} words;

static tsr_source *words_of(tsr_scope *s, words *v)
{
  test_rng rng = test_seeded(7);
  for (int r = 0; r < WORDS; r++) {
    v->length[r] = test_range(&rng, 0, LONGEST);
    v->n[r] = r;
    for (int i = 0; i < v->length[r]; i++) v->w[r][i] = (int16_t)test_range(&rng, 1, 30000);
  }
  return tsr_source_memory(s, WORDS, { "n", TSR_I64, { 0 }, v->n },
                           { "w", TSR_I16, TSR_SHAPE(LONGEST), v->w },
                           { "w_length", TSR_I64, { 0 }, v->length });
}

static int64_t bound_of(int64_t length)
{
  int b = 0;
  while (bounds[b] < length) b++;
  return bounds[b];
}

/* A batch against the words: its rows, and that it is as long as its longest bucket. Whole batches
 * are of one bucket while `whole` of that bucket are left. */
static void check_words(tsr_batch *b, const words *v, int64_t *whole, int64_t *order)
{
  int64_t rows = tsr_batch_row_count(b), count = tsr_batch_count(b), longest = 0, least = LONGEST;
  tsr_array *a = tsr_batch_field(b, "w");
  int16_t found[8 * LONGEST];
  int64_t n[8], dim = tsr_shape_of(a).dims[1];
  CHECK_STATUS(tsr_read(a, found, (size_t)(rows * dim) * 2), TSR_OK, tsr_batch_scope(b));
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "n"), n, (size_t)rows * 8), TSR_OK, tsr_batch_scope(b));
  for (int64_t i = 0; i < rows; i++) {
    static const int16_t none[LONGEST];
    int64_t bound = i < count ? bound_of(v->length[n[i]]) : 0;
    if (bound > longest) longest = bound;
    if (i < count && bound < least) least = bound;
    CHECK_BYTES(&found[i * dim], i < count ? v->w[n[i]] : none, (size_t)dim * 2);
    if (i < count) order[i] = n[i];
  }
  CHECK_I64(dim, longest);
  int bucket = 0;
  while (bounds[bucket] < longest) bucket++;
  if (least == longest && count == 8 && whole[bucket] > 0) whole[bucket]--;
  else
    for (int k = 0; k < BUCKETS; k++) CHECK_I64(whole[k], 0); /* left over ones come last */
}

static int64_t follow_words(tsr_pipeline *p, const words *v, int64_t most, int64_t *whole,
                            int64_t *order)
{
  int64_t got = 0, batches = 0;
  for (tsr_batch *b; batches < most && (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    check_words(b, v, whole, order + got);
    got += tsr_batch_count(b);
    batches++;
  }
  return got;
}

TEST(batches_of_one_length)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  const tsr_mesh *mesh = tsr_mesh_make(rt, "data=4");
  static words v;
  tsr_source *all = words_of(s, &v);
  int64_t first[WORDS], order[WORDS], in_bucket[BUCKETS] = { 0 };
  for (int r = 0; r < WORDS; r++)
    for (int b = 0; b < BUCKETS; b++) in_bucket[b] += bound_of(v.length[r]) == bounds[b];
  for (int kind = 0; kind < 12; kind++) {
    int64_t whole[BUCKETS], got, stop = kind % 5 * 6;
    bool met[WORDS] = { 0 }, shuffle = kind >= 6;
    for (int b = 0; b < BUCKETS; b++) whole[b] = in_bucket[b] / 8;
    tsr_source *made = tsr_source_bucket(all, "w", .rows = 8, .bounds = { 4, 9, 25 },
                                         .shuffle = shuffle, .seed = 3);
    /* Fields that others make and names do not matter. */
    if (kind % 2) made = tsr_source_select(made, "w,n,w_length");
    tsr_pipeline_args how = { .size = sizeof how,
                              .source = made,
                              .batch_size = 8,
                              .threads = kind % 3 ? kind % 3 * 2 : -1,
                              .remainder = kind % 4 ? TSR_KEEP_SHORT : TSR_PAD_AND_MASK,
                              .on = kind % 3 == 1 ? tsr_on(mesh, "data") : tsr_on(mesh, "") };
    char state[1000];
    size_t size;
    tsr_pipeline *p = tsr_pipeline_open_with(&how, TSR_HERE);
    got = follow_words(p, &v, stop, whole, order);
    CHECK_STATUS(tsr_pipeline_save(p, state, sizeof state, &size), TSR_OK, s);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
    how.state = state;
    how.state_size = size;
    p = tsr_pipeline_open_with(&how, TSR_HERE);
    got += follow_words(p, &v, INT64_MAX, whole, order + got);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
    CHECK_I64(got, WORDS);
    for (int i = 0; i < WORDS; i++) CHECK(!met[order[i]]), met[order[i]] = true;
    if (kind == 0 || kind == 6) memcpy(first, order, sizeof first);
    CHECK_BYTES(order, first, sizeof first);
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  }
  /* Behind another order batches are as long as they need be. */
  tsr_source *near = tsr_source_bucket(all, "w", .rows = 8, .bounds = { 4, 9, 25 });
  tsr_pipeline *p = tsr_pipeline_open(near, .batch_size = 8, .shuffle = true);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    int64_t length[8], most = 0, rows = tsr_batch_row_count(b);
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "w_length"), length, (size_t)rows * 8), TSR_OK, s);
    for (int64_t i = 0; i < rows; i++)
      if (bound_of(length[i]) > most) most = bound_of(length[i]);
    CHECK_I64(tsr_shape_of(tsr_batch_field(b, "w")).dims[1], most);
  }
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Sizes by bucket: what is told of them, what they go with, and what is refused. tests/law has what
 * batches hold. */
TEST(batches_of_sizes_by_bucket)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  static words v;
  tsr_source *all = words_of(s, &v);
  int64_t used = 0, room = 0;
  for (int r = 0; r < WORDS; r++) used += v.length[r], room += bound_of(v.length[r]);
  tsr_source *made = tsr_source_bucket(all, "w", .bounds = { 4, 9, 25 }, .sizes = { 16, 12, 8, 4 });
  CHECK_STR_HAS(tsr_source_text(made), "bucket(w by 4 9 25 40, sizes=16 12 8 4, ");
  tsr_pipeline *p = tsr_pipeline_open(made);
  char line[200];
  for (tsr_batch *b; (b = tsr_pipeline_next(p));) tsr_batch_release(b);
  snprintf(line, sizeof line, "%.1f %% of w is data, the rest padding\n",
           100 * (double)used / (double)room);
  CHECK_STR_HAS(tsr_pipeline_text(p), " of 4 to 16 records; ");
  CHECK_STR_HAS(tsr_pipeline_text(p), "buckets   up to 4: ");
  CHECK_STR_HAS(tsr_pipeline_text(p), line);
  CHECK_STR_HAS(tsr_pipeline_json(p), "\"buckets\":[{\"bound\":4,\"batch_size\":16,\"records\":");
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  /* Nobody measures what cannot be of other sizes, nor shows that it tried. */
  CHECK_I64(tsr_placement_of(rt, made).measured, 0);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  /* What takes records elsewhere takes batches apart: those are the pipeline's again. */
  p = tsr_pipeline_open(tsr_source_shuffle(made), .batch_size = 50);
  CHECK_I64(tsr_pipeline_batch_count(p), 5);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  /* A bound that no word exceeds has no bucket, and may have a size. */
  made = tsr_source_bucket(all, "w", .bounds = { 9, 40 }, .sizes = { 12, 3 });
  CHECK_STR_HAS(tsr_source_text(made), "bucket(w by 9 40, sizes=12 3, ");
  made = tsr_source_bucket(all, "w", .bounds = { 9, 50 }, .sizes = { 12, 3, 1 });
  CHECK_STR_HAS(tsr_source_text(made), "bucket(w by 9 40, sizes=12 3, ");
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  for (int k = 0; k < 7; k++) {
    static const char *const expected[] = {
      ".batch_size is set, but the buckets of 'w' have .sizes of their own; leave it out",
      ".shuffle is set, but the buckets of 'w' have .sizes of their own; leave it out and set "
      ".shuffle of tsr_source",
      "there are 2 .sizes for 2 .bounds, expected 3: one for each bound, and one for longer "
      "records",
      "4 .sizes for 2 .bounds, expected 3",
      ".rows and .sizes are both set",
      ".sizes has -1 at position 1, expected 1 or more",
      ".rows is 0, expected 1 or more: the pipeline's batch size; or set .sizes by bucket"
    };
    switch (k) {
    case 0: p = tsr_pipeline_open(made, .batch_size = 8); break;
    case 1: p = tsr_pipeline_open(made, .shuffle = true); break;
    case 2: tsr_source_bucket(all, "w", .bounds = { 4, 9 }, .sizes = { 8, 4 }); break;
    case 3: tsr_source_bucket(all, "w", .bounds = { 4, 9 }, .sizes = { 8, 4, 2, 1 }); break;
    case 4: tsr_source_bucket(all, "w", .rows = 4, .bounds = { 4 }, .sizes = { 8, 4 }); break;
    case 5: tsr_source_bucket(all, "w", .bounds = { 4 }, .sizes = { 8, -1 }); break;
    default: tsr_source_bucket(all, "w", .bounds = { 4 }); break;
    }
    CHECK_STATUS(tsr_scope_status(s), TSR_EARG, NULL);
    CHECK_STR_HAS(tsr_message(s), expected[k]);
    if (k < 2) CHECK_I64(tsr_pipeline_close(p), TSR_EARG);
    tsr_scope_clear(s);
  }
  /* Where shards must be even, all of the sizes have to divide. */
  tsr_sharding even = tsr_on(tsr_mesh_make(rt, "data=4"), "data", .strict = true);
  made = tsr_source_bucket(all, "w", .bounds = { 9 }, .sizes = { 8, 6 });
  p = tsr_pipeline_open(made, .on = even, .remainder = TSR_DROP);
  CHECK_I64(tsr_pipeline_close(p), TSR_ESHAPE);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* A recommendation leaves what went wrong to those who open pipelines. */
static tsr_status never(const tsr_record *record, void *user)
{
  (void)record, (void)user;
  return TSR_EVALUE;
}

TEST(recommendations_leave_no_error)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *bad =
      tsr_source_map(tsr_source_range(s, 100), never, .fields = { { "x", TSR_I64, TSR_SCALAR } });
  CHECK_I64(tsr_placement_of(rt, bad).measured, 0);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK(tsr_placement_of(rt, tsr_source_range(s, 100)).measured > 0);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Every batch is as long as its longest word, brought up to whole times of three, in any order. */
TEST(batches_as_long_as_their_longest)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  const tsr_mesh *mesh = tsr_mesh_make(rt, "data=4");
  static words v;
  tsr_source *all = tsr_source_fit(words_of(s, &v), "w", .multiple = 3);
  CHECK_STR_HAS(tsr_source_text(all), " > fit(w, multiple=3)");
  for (int kind = 0; kind < 8; kind++) {
    tsr_source *source = kind & 1 ? tsr_source_shuffle(all, .seed = 4, .window = kind & 2 ? 20 : 0)
                                  : tsr_source_slice(all, TSR_STEPS(kind & 2, TSR_END, 2));
    tsr_pipeline *p = tsr_pipeline_open(tsr_source_select(source, "w,w_length"), .batch_size = 7,
                                        .epochs = 2, .on = tsr_on(mesh, kind & 4 ? "data" : ""));
    int64_t seen = 0;
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
      int64_t length[7], most = 1, rows = tsr_batch_row_count(b);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "w_length"), length, (size_t)rows * 8), TSR_OK, s);
      for (int64_t i = 0; i < rows; i++)
        if (length[i] > most) most = length[i];
      most = (most + 2) / 3 * 3;
      tsr_shape shape = tsr_shape_of(tsr_batch_field(b, "w"));
      CHECK_I64(shape.dims[1], most < LONGEST ? most : LONGEST);
      seen += rows;
    }
    CHECK_I64(seen, 2 * tsr_source_count(source));
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  }
  tsr_source_fit(words_of(s, &v), "n");
  CHECK_STATUS(tsr_scope_status(s), TSR_ESHAPE, s);
  CHECK_STR_HAS(tsr_message(s), "there is no field n_length of i64");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(packs_by_hand)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  static const int64_t w[5][4] = { { 1, 2, 3 }, { 4, 5 }, { 6, 7, 8, 9 }, { 10 }, { 11, 12 } };
  static const int64_t length[5] = { 3, 2, 4, 1, 2 };
  tsr_source *all = tsr_source_memory(s, 5, { "w", TSR_I64, TSR_SHAPE(4), w },
                                      { "w_length", TSR_I64, { 0 }, length });
  tsr_source *packs = tsr_source_pack(all, "w", .length = 5);
  LIST(packs, "w", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0);
  LIST(packs, "w_length", 5, 5, 2);
  CHECK_STR_HAS(tsr_source_text(packs), " > pack(w in 5, open=16, 3 packs, ");
  /* The last word goes to the fullest pack that has room instead of the first. */
  static const int64_t other[4] = { 2, 3, 1, 1 };
  tsr_source *few = tsr_source_memory(s, 4, { "w", TSR_I64, TSR_SHAPE(4), w },
                                      { "w_length", TSR_I64, { 0 }, other });
  LIST(tsr_source_pack(few, "w", .length = 4), "w_length", 4, 3);
  LIST(tsr_source_pack(few, "w", .length = 4, .way = TSR_PACK_BEST_FIT), "w_length", 3, 4);
  tsr_source *cut = tsr_source_pack(all, "w", .length = 5, .way = TSR_PACK_CUT);
  LIST(cut, "w", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0);
  cut = tsr_source_pack(all, "w", .length = 2, .way = TSR_PACK_CUT);
  LIST(cut, "w", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
  LIST(cut, "w_length", 2, 2, 2, 2, 2, 2);
  CHECK_STR_HAS(tsr_source_text(cut), " > pack(w in 2, cut, 6 packs, ");
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- lists, losses, draws -------------------------------------------------------------------- */

TEST(places_of_the_programs)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  int64_t places[5] = { 6, 0, 6, 3, 1 };
  tsr_source *some = tsr_source_gather(tsr_source_range(s, 7), places, 5);
  places[0] = 2; /* a copy was made */
  LIST(some, "index", 6, 0, 6, 3, 1);
  LIST(tsr_source_gather(tsr_source_skip(some, 1), places + 3, 1), "index", 1);
  CHECK_I64(tsr_source_count(tsr_source_gather(some, NULL, 0)), 0);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  places[2] = 7;
  tsr_source_gather(tsr_source_range(s, 7), places, 5);
  CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s), "position 2 of the list is 7, expected 0 to 6");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static bool is_below(const tsr_record *record, void *user)
{
  int64_t index;
  memcpy(&index, record->in[0], sizeof index);
  return index < *(const int64_t *)user;
}

static char logged[400];

static void keep_log(tsr_log_level level, const char *area, const char *line, void *user)
{
  (void)user;
  if (level == TSR_LOG_WARN && !strcmp(area, "pipeline"))
    snprintf(logged, sizeof logged, "%s", line);
}

TEST(losses_of_filters)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .log = keep_log);
  tsr_scope *s = tsr_scope_open(rt);
  int64_t most = 10;
  tsr_source *n = tsr_source_range(s, 100);
  LIST(tsr_source_filter(n, is_below, .user = &most), "index", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
  CHECK_STR(logged, ""); /* nine in ten are not more than that */
  most = 9;
  CHECK_I64(tsr_source_count(tsr_source_filter(n, is_below, .user = &most)), 9);
  CHECK_STR_HAS(logged, "tsr_source_filter dropped 91 of 100 records");
  *logged = 0;
  tsr_source_filter(n, is_below, .user = &most, .warn_lost = 0.95);
  CHECK_STR(logged, "");
  /* All of them may go: there are no batches, and nobody waits for one. */
  most = 0;
  tsr_source *none = tsr_source_filter(n, is_below, .user = &most);
  CHECK_STR_HAS(logged, "dropped 100 of 100");
  tsr_pipeline *p = tsr_pipeline_open(none, .batch_size = 4, .epochs = -1);
  CHECK(!tsr_pipeline_next(p));
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  most = 50;
  tsr_source_filter(n, is_below, .user = &most, .most_lost = 0.5);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  most = 49;
  tsr_source_filter(n, is_below, .user = &most, .most_lost = 0.5);
  CHECK_STATUS(tsr_scope_status(s), TSR_EVALUE, s);
  CHECK_STR_HAS(tsr_message(s), "51 of 100 records were dropped");
  tsr_scope_clear(s);
  tsr_source_filter(n, is_below, .user = &most, .warn_lost = 2);
  CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Which of three ranges each record is of: those of source k are 1000 k and up. */
TEST(samples_of_sources)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  static const int64_t counts[3] = { 300, 100, 200 }, weights[3] = { 3, 1, 2 };
  tsr_source *n = tsr_source_range(s, 3000), *of[3];
  for (int k = 0; k < 3; k++)
    of[k] = tsr_source_slice(n, TSR_RANGE(1000 * k, 1000 * k + counts[k]));
  for (int end = 0; end < 3; end++) {
    int64_t x[MOST], next[3] = { 0 }, turns[3] = { 0 };
    tsr_source *made = tsr_source_sample(.parts = { { of[0], 3 }, { of[1], 1 }, { of[2], 2 } },
                                         .seed = 5, .end = (tsr_sample_end)end);
    int64_t count = all_of(made, "index", x, (tsr_pipeline_args){ .batch_size = 37 });
    CHECK_I64(count, tsr_source_count(made));
    for (int64_t i = 0; i < count; i++) {
      int64_t k = x[i] / 1000;
      CHECK_I64(x[i], 1000 * k + next[k]); /* in order, from the start again where it restarts */
      if (++next[k] == counts[k] && end == TSR_SAMPLE_RESTART) next[k] = 0;
      turns[k]++;
    }
    int64_t ended = 0, all = 0;
    for (int k = 0; k < 3; k++) ended += turns[k] >= counts[k], all += turns[k];
    if (end == TSR_SAMPLE_ALL) CHECK_I64(all, 600);
    if (end == TSR_SAMPLE_FIRST) CHECK(ended >= 1);
    if (end == TSR_SAMPLE_RESTART) CHECK_I64(ended, 3);
    /* The first half goes by the weights: 5 standard deviations. */
    int64_t half = count / 3, drawn[3] = { 0 };
    for (int64_t i = 0; i < half; i++) drawn[x[i] / 1000]++;
    for (int k = 0; k < 3; k++) {
      double share = (double)weights[k] / 6, mean = share * (double)half;
      double off = (double)drawn[k] - mean;
      CHECK(off * off < 25 * mean * (1 - share));
    }
  }
  tsr_source *one = tsr_source_sample(.parts = { { of[0], 1 }, { of[1], 0 } });
  CHECK_I64(tsr_source_count(one), 0);
  CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s), "a weight is 0");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int64_t as_many(const tsr_record *record, void *user)
{
  int64_t index;
  (void)user;
  memcpy(&index, record->in[0], sizeof index);
  return index % 4;
}

/* Part and bits drawn for it; the third part of record `user` fails. */
static tsr_status part_and_draw(const tsr_record *record, int64_t part, void *user)
{
  int64_t out[2] = { part, (int64_t)(record->draw[0] >> 1) };
  memcpy(record->out[0], out, sizeof out);
  return user && record->id == *(const int64_t *)user && part == 2 ? TSR_EVALUE : TSR_OK;
}

static tsr_source *parts_of(tsr_scope *s, int64_t count, int64_t *fails)
{
  return tsr_source_flat_map(tsr_source_range(s, count), part_and_draw, .count = as_many,
                             .user = fails, .seed = 5, .name = "cut",
                             .fields = { { "part", TSR_I64, TSR_SHAPE(2) } });
}

/* The draws of a part are its own, whoever reads it and in whatever order. */
TEST(parts_of_records)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *parts = parts_of(s, 40, NULL);
  int64_t parents[MOST], drawn[MOST], again[MOST];
  LIST(parts_of(s, 8, NULL), "index", 1, 2, 2, 3, 3, 3, 5, 6, 6, 7, 7, 7);
  CHECK_I64(all_of(parts, "part", drawn, (tsr_pipeline_args){ .threads = -1 }), 60);
  for (int i = 0; i < 60; i++)
    for (int j = 0; j < i; j++) CHECK(drawn[2 * i + 1] != drawn[2 * j + 1]);
  for (int shuffle = 0; shuffle < 2; shuffle++)
    for (int threads = 1; threads <= 4; threads += 3) {
      tsr_pipeline_args how = {
        .threads = threads, .batch_size = 7, .shuffle = shuffle, .seed = 3
      };
      CHECK_I64(all_of(parts, "part", again, how), 60);
      CHECK_I64(all_of(parts, "index", parents, how), 60);
      for (int i = 0; i < 60; i++) {
        int at = 0;
        for (int r = 0; r < parents[i]; r++) at += r % 4;
        CHECK_I64(again[2 * i + 1], drawn[2 * (at + again[2 * i]) + 1]);
      }
    }
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  int64_t seven = 7;
  tsr_pipeline *p = tsr_pipeline_open(parts_of(s, 8, &seven), .batch_size = 12);
  CHECK(!tsr_pipeline_next(p));
  CHECK_STATUS(tsr_pipeline_close(p), TSR_EVALUE, NULL);
  CHECK_STR_HAS(tsr_message(s), "cut: part 2 of record 7 of epoch 0: the function returned");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static tsr_status add_one(const tsr_record *record, void *user)
{
  (void)user;
  *(int64_t *)record->out[0] = *(const int64_t *)record->in[0] + 1;
  return TSR_OK;
}

static bool keep_all(const tsr_record *record, void *user)
{
  (void)record, (void)user;
  return true;
}

/* A stage of some kind over a source of fewer than MOST records. */
static tsr_source *one_more(tsr_source *source, int kind)
{
  switch (kind) {
  case 0: return tsr_source_map(source, add_one, .fields = { { "index", TSR_I64, { 0 } } });
  case 1: return tsr_source_cache(source);
  case 2: return tsr_source_concat(source, tsr_source_slice(source, TSR_RANGE(0, 0)));
  case 3: return tsr_source_unbatch(tsr_source_batch(source, .rows = 1));
  case 4: return tsr_source_filter(source, keep_all);
  default: return tsr_source_select(source, "index");
  }
}

/* As many stages one over the other as there may be, of each kind and of all, are read on threads
 * of the pipeline, on workers and by who asks; one more is refused. */
TEST(stages_one_over_the_other)
{
  enum { KINDS = 6, DEEPEST = 128 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 3);
  for (int kind = 0; kind <= KINDS; kind++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_source *source = tsr_source_range(s, 5), *next = source;
    int64_t maps = 0, found[MOST];
    for (int i = 0; !tsr_scope_status(s); i++) {
      int which = kind < KINDS ? kind : i % KINDS;
      source = next;
      next = one_more(source, which);
      maps += which == 0 && !tsr_scope_status(s);
      CHECK(i < DEEPEST);
    }
    CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
    CHECK_STR_HAS(tsr_message(s), "more than 128 stages are stacked");
    tsr_scope_clear(s);
    for (int threads = -1; threads < 2; threads++) {
      CHECK_I64(all_of(source, "index", found, (tsr_pipeline_args){ .threads = threads }), 5);
      for (int64_t i = 0; i < 5; i++) CHECK_I64(found[i], i + maps);
    }
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}
