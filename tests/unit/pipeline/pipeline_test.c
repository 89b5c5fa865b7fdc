/* Pipelines: sources, batches, remainders, states, errors, ends.
 * Guards the devices. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "tessera.h"

static const tsr_sharding unplaced;

static tsr_source *range_of(tsr_scope *s, int64_t count)
{
  return tsr_source_range(s, count);
}

/* Reads the i64 field "index" of a batch. */
static int64_t *indices(tsr_batch *b, int64_t *out)
{
  tsr_array *a = tsr_batch_field(b, "index");
  CHECK_STATUS(tsr_read(a, out, (size_t)tsr_batch_row_count(b) * sizeof *out), TSR_OK,
               tsr_batch_scope(b));
  return out;
}

/* All records of a pipeline, one batch after the other; returns how many. */
static int64_t drain(tsr_pipeline *p, int64_t *out)
{
  int64_t count = 0, rows[1000];
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    indices(b, rows);
    for (int64_t i = 0; i < tsr_batch_count(b); i++) out[count++] = rows[i];
  }
  return count;
}

static void check_list(tsr_source *source, const int64_t *expected, int64_t count)
{
  int64_t found[1000];
  CHECK_I64(tsr_source_count(source), count);
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 3);
  CHECK_I64(drain(p, found), count);
  CHECK_BYTES(found, expected, (size_t)count * sizeof *expected);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
}

#define LIST(source, ...)                                \
  check_list((source), (const int64_t[]){ __VA_ARGS__ }, \
             (int64_t)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

TEST(orders_by_hand)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *ten = range_of(s, 10);
  LIST(ten, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
  LIST(tsr_source_slice(ten, TSR_STEPS(1, TSR_END, 4)), 1, 5, 9);
  LIST(tsr_source_slice(ten, TSR_RANGE(-3, TSR_END)), 7, 8, 9);
  LIST(tsr_source_take(ten, 2), 0, 1);
  LIST(tsr_source_skip(ten, 8), 8, 9);
  LIST(tsr_source_repeat(tsr_source_take(ten, 2), 3), 0, 1, 0, 1, 0, 1);
  LIST(tsr_source_concat(tsr_source_take(ten, 2), tsr_source_skip(ten, 7)), 0, 1, 7, 8, 9);
  /* Shares 3:1 of n records, rounded: a a b a, then again; it ends where `b` has no third. */
  tsr_source *few = tsr_source_slice(ten, TSR_RANGE(8, 10));
  tsr_source *mixed = tsr_source_mix({ ten, 3 }, { few, 1 });
  int64_t found[20], b_seen = 0;
  tsr_pipeline *p = tsr_pipeline_open(mixed, .batch_size = 4);
  int64_t count = drain(p, found);
  CHECK(count >= 8 && count <= 12);
  for (int64_t i = 0, a_next = 0; i < count; i++) {
    if (found[i] == a_next) a_next++;
    else CHECK_I64(found[i], 8 + b_seen++);
    double share = (double)(i + 1) / 4;
    CHECK((double)b_seen < share + 1 && (double)b_seen > share - 1);
  }
  CHECK_I64(b_seen, 2);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(zip_and_select)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *a = tsr_source_select(range_of(s, 5), "index=a"), *b = range_of(s, 7);
  tsr_source *both = tsr_source_zip(a, tsr_source_skip(b, 3));
  CHECK_I64(tsr_source_count(both), 4);
  CHECK_STR(tsr_source_text(both),
            "(range(5 of index i64[]) > select(index=a) | range(7 of index i64[]) > "
            "slice(3:7)) > zip()");
  tsr_pipeline *p = tsr_pipeline_open(both, .batch_size = 4);
  tsr_batch *batch = tsr_pipeline_next(p);
  int64_t x[4];
  CHECK_STATUS(tsr_read(tsr_sub(tsr_batch_field(batch, "index"), tsr_batch_field(batch, "a")), x,
                        sizeof x),
               TSR_OK, s);
  for (int i = 0; i < 4; i++) CHECK_I64(x[i], 3);
  tsr_batch_release(batch);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Ten records in batches of four, by what is done with the last two. */
TEST(remainders)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=4");
  tsr_scope *s = tsr_scope_open(rt);
  static const int64_t batches[] = { 3, 2, 3, 3 }, rows[] = { 2, 0, 4, 4 }, real[] = { 2, 0, 2, 4 };
  for (int r = 0; r < 4; r++) {
    tsr_pipeline *p =
        tsr_pipeline_open(range_of(s, 10), .batch_size = 4, .on = tsr_on(mesh, "data"),
                          .remainder = (tsr_remainder)r, .ids = true);
    CHECK_I64(tsr_pipeline_batch_count(p), batches[r]);
    int64_t n = 0, x[4], ones;
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); n++, tsr_batch_release(b)) {
      CHECK_I64(tsr_batch_index(b), n);
      CHECK_I64(tsr_batch_row_count(b), n < 2 ? 4 : rows[r]);
      CHECK_I64(tsr_batch_count(b), n < 2 ? 4 : real[r]);
      CHECK_STATUS(tsr_read_i64(tsr_sum(tsr_cast(tsr_batch_mask(b), TSR_I64)), &ones), TSR_OK, s);
      CHECK_I64(ones, tsr_batch_count(b));
      indices(b, x);
      for (int64_t i = 0; i < tsr_batch_row_count(b); i++) {
        bool filler = i >= tsr_batch_count(b);
        CHECK_I64(x[i], filler ? 0 : (n * 4 + i) % 10);
        CHECK_I64(tsr_batch_ids(b)[i], filler ? -1 : (n * 4 + i) % 10);
      }
    }
    CHECK_I64(n, batches[r]);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Who uses a batch has the source's scope, and looks there. */
TEST(errors_of_batches_are_the_sources)
{
  double sum;
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_pipeline *p = tsr_pipeline_open(range_of(s, 30), .batch_size = 10);
  for (int i = 0; i < 2; i++) {
    tsr_batch *b = tsr_pipeline_next(p);
    for (int twice = 0; twice < 2; twice++) {
      CHECK_STATUS(tsr_read_scalar(tsr_batch_field(b, "none"), &sum), TSR_EARG, s);
      CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
      CHECK_STR_HAS(tsr_message(s), "pipeline_test.c:");
      CHECK_STR_HAS(tsr_message(s), "no part \"none\"");
      tsr_scope_clear(s);
    }
    tsr_batch_release(b);
  }
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_runtime_close(rt);
}

TEST(no_records_are_no_batches)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  for (int shuffle = 0; shuffle < 2; shuffle++) {
    tsr_pipeline *p =
        tsr_pipeline_open(range_of(s, 0), .batch_size = 4, .shuffle = shuffle, .epochs = -1);
    CHECK(!tsr_pipeline_next(p));
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  }
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Each epoch has every record once, in an order of its own. */
TEST(epochs_are_permutations)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_pipeline *p = tsr_pipeline_open(range_of(s, 103), .batch_size = 16, .shuffle = true,
                                      .seed = 7, .epochs = 3, .on = tsr_on(mesh, "data"));
  int64_t x[309];
  CHECK_I64(drain(p, x), 309);
  for (int e = 0; e < 3; e++) {
    bool met[103] = { 0 };
    for (int i = 0; i < 103; i++) met[x[e * 103 + i]] = true;
    for (int i = 0; i < 103; i++) CHECK(met[i]);
    if (e) CHECK(memcmp(x, x + 103 * e, 103 * sizeof *x));
  }
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Bools (bits on devices), cut columns and replicas, from one archive that the library wrote. */
TEST(archives_in_their_shards)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2,model=4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *n = tsr_iota(s, TSR_I32, TSR_SHAPE(100, 6), 0, unplaced), *flag;
  n = tsr_add(tsr_mul(n, 10), tsr_iota(s, TSR_I32, TSR_SHAPE(100, 6), 1, unplaced));
  flag = tsr_eq(tsr_mod(n, 3), 0);
  CHECK_STATUS(tsr_save_npz(s, test_tmp("a.npz"), { "n", n }, { "flag", flag }), TSR_OK, s);
  tsr_pipeline *p = tsr_pipeline_open(tsr_source_npz(s, test_tmp("a.npz")), .batch_size = 30,
                                      .shuffle = true, .ids = true, .on = tsr_on(mesh, "data"),
                                      .fields = { { "n", tsr_on(mesh, "data,model") } });
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  int64_t batches = 0;
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); batches++, tsr_batch_release(b)) {
    int32_t x[30 * 6];
    bool f[30 * 6];
    size_t cells = (size_t)tsr_batch_row_count(b) * 6;
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "n"), x, cells * sizeof *x), TSR_OK, s);
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "flag"), f, cells), TSR_OK, s);
    for (size_t i = 0; i < cells; i++) {
      CHECK_I64(x[i], tsr_batch_ids(b)[i / 6] * 10 + (int64_t)(i % 6));
      CHECK_I64(f[i], x[i] % 3 == 0);
    }
  }
  CHECK_I64(batches, 4);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* A file is read as memory is; what it lacks later is an error with its name. */
TEST(files_by_record)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *n = tsr_iota(s, TSR_F64, TSR_SHAPE(500, 3), 0, unplaced);
  CHECK_STATUS(tsr_save_npy(n, test_tmp("n.npy")), TSR_OK, s);
  tsr_source *file = tsr_source_npy(s, test_tmp("n.npy"));
  for (int shuffle = 0; shuffle < 2; shuffle++) {
    tsr_pipeline *p = tsr_pipeline_open(file, .batch_size = 64, .shuffle = shuffle, .ids = true);
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
      double x[64 * 3];
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "data"), x,
                            (size_t)tsr_batch_row_count(b) * 3 * sizeof *x),
                   TSR_OK, s);
      for (int64_t i = 0; i < tsr_batch_row_count(b) * 3; i++)
        CHECK_I64((int64_t)x[i], tsr_batch_ids(b)[i / 3]);
    }
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  }
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK(!truncate(test_tmp("n.npy"), 4000));
  tsr_pipeline *p = tsr_pipeline_open(file, .batch_size = 500);
  CHECK(!tsr_pipeline_next(p));
  CHECK_STATUS(tsr_pipeline_close(p), TSR_EIO, NULL);
  CHECK_STR_HAS(tsr_message(s), "n.npy");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- functions of records -------------------------------------------------------------------- */

static tsr_status square(const tsr_record *r, void *user)
{
  int64_t index;
  memcpy(&index, r->in[0], sizeof index);
  double squared = (double)(index * index) + *(const double *)user;
  memcpy(r->out[0], &squared, sizeof squared);
  return index == r->id ? TSR_OK : TSR_EARG;
}

static tsr_status draw(const tsr_record *r, void *user)
{
  (void)user;
  memcpy(r->out[0], r->draw, sizeof r->draw);
  return TSR_OK;
}

TEST(functions_of_records)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=4");
  tsr_scope *s = tsr_scope_open(rt);
  double half = 0.5;
  tsr_source *made = tsr_source_map(range_of(s, 1000), square, .user = &half,
                                    .fields = { { "square", TSR_F64, { 0 } } });
  CHECK_I64(tsr_source_field_count(made), 2);
  tsr_pipeline *p =
      tsr_pipeline_open(made, .batch_size = 300, .shuffle = true, .on = tsr_on(mesh, "data"));
  double rest, all = 0;
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    tsr_array *i = tsr_cast(tsr_batch_field(b, "index"), TSR_F64);
    tsr_array *over = tsr_sub(tsr_batch_field(b, "square"), tsr_mul(i, i));
    CHECK_STATUS(tsr_read_scalar(tsr_sum(over), &rest), TSR_OK, s);
    all += rest;
  }
  CHECK_F64_BITS(all, 500);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Draws belong to the record: order, batch size and threads do not change them; epochs do. */
TEST(draws_belong_to_records)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  static uint64_t first[2][50][2];
  tsr_source *drawn = tsr_source_map(range_of(s, 50), draw, .seed = 9,
                                     .fields = { { "bits", TSR_U64, TSR_SHAPE(2) } });
  for (int round = 0; round < 2; round++) {
    tsr_pipeline *p = tsr_pipeline_open(drawn, .batch_size = 7 + 4 * round, .shuffle = round,
                                        .epochs = 2, .ids = true, .threads = round ? -1 : 3);
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
      uint64_t x[16][2];
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "bits"), x,
                            (size_t)tsr_batch_row_count(b) * sizeof *x),
                   TSR_OK, s);
      for (int64_t i = 0; i < tsr_batch_row_count(b); i++) {
        uint64_t *kept = first[tsr_batch_epoch(b)][tsr_batch_ids(b)[i]];
        if (round) CHECK_BYTES(x[i], kept, sizeof *x);
        else memcpy(kept, x[i], sizeof *x);
      }
    }
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  }
  CHECK(memcmp(first[0], first[1], sizeof first[0]));
  CHECK(first[0][0][0] != first[0][1][0]);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static tsr_status fails_late(const tsr_record *r, void *user)
{
  memcpy(r->out[0], r->in[0], sizeof(int64_t));
  return r->id >= *(const int64_t *)user ? TSR_EARG : TSR_OK;
}

/* The batches before the first bad record come; its error names it, whatever the threads. */
TEST(failing_functions_name_the_record)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  int64_t bad = 700;
  for (int threads = -1; threads < 4; threads++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_source *made = tsr_source_map(range_of(s, 100000), fails_late, .user = &bad,
                                      .name = "check", .fields = { { "index", TSR_I64, { 0 } } });
    tsr_pipeline *p = tsr_pipeline_open(made, .batch_size = 300, .threads = threads);
    int64_t x[1000];
    CHECK_I64(drain(p, x), 600);
    CHECK(!tsr_pipeline_next(p));
    CHECK_STATUS(tsr_pipeline_close(p), TSR_EARG, NULL);
    CHECK_STR_HAS(tsr_message(s), "tsr_pipeline_next: check: record 700 of epoch 0");
    CHECK(tsr_pipeline_stopping(p));
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

static tsr_status fails_often(const tsr_record *r, void *user)
{
  memcpy(r->out[0], r->in[0], sizeof(int64_t));
  return r->id % *(const int64_t *)user == 0 ? TSR_EVALUE : TSR_OK;
}

/* A budget ends a pipeline at the same batch whatever the threads; it goes on in a restored one. */
TEST(budgets_of_bad_records)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  int64_t hundred = 100, x[8000];
  char state[500];
  size_t size = 0;
  tsr_source *made = tsr_source_map(range_of(s, 4000), fails_often, .user = &hundred,
                                    .name = "check", .fields = { { "index", TSR_I64, { 0 } } });
  for (int threads = -1; threads < 4; threads++) {
    tsr_pipeline *p = tsr_pipeline_open(made, .batch_size = 150, .threads = threads,
                                        .bad = TSR_BAD_SKIP, .bad_most = 20);
    CHECK_I64(drain(p, x), 13 * 150 - 20); /* the 21st is record 2000, of batch 13 */
    CHECK_I64(tsr_pipeline_bad_count(p), 21);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_EVALUE, NULL);
    CHECK_STR_HAS(tsr_message(s), "21 of 2100 records are bad, expected 20 at most (.bad_most); "
                                  "the last bad record: check: record 2000 of epoch 0");
    CHECK_STR_HAS(tsr_pipeline_report(p), "21 bad records of 2100\n       21 check\n");
    CHECK_STR_HAS(tsr_pipeline_report(p), "first: check: record 0 of epoch 0: the function");
    tsr_scope_clear(s);
    /* 10 of the first thousand, 1 %, are the share that is asked for; then 11 of 1050. */
    p = tsr_pipeline_open(made, .batch_size = 50, .threads = threads, .bad = TSR_BAD_MASK,
                          .bad_share = 0.01);
    CHECK_I64(drain(p, x), 1000 - 10);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_EVALUE, NULL);
    CHECK_STR_HAS(tsr_message(s), "11 of 1050 records are bad, a share of 0.010476190476190476");
    tsr_scope_clear(s);
  }
  tsr_pipeline *p =
      tsr_pipeline_open(made, .batch_size = 150, .bad = TSR_BAD_SUBSTITUTE, .bad_most = 20);
  for (int i = 0; i < 10; i++) tsr_batch_release(tsr_pipeline_next(p));
  CHECK_STATUS(tsr_pipeline_save(p, state, sizeof state, &size), TSR_OK, s);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  p = tsr_pipeline_open(made, .batch_size = 150, .bad = TSR_BAD_SUBSTITUTE, .bad_most = 20,
                        .state = state, .state_size = size);
  CHECK_I64(tsr_pipeline_bad_count(p), 15);
  CHECK_I64(drain(p, x), 3 * 150);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_EVALUE, NULL);
  tsr_scope_clear(s);
  /* What becomes of bad records may change on the way: here from the end on that one brought. */
  p = tsr_pipeline_open(made, .batch_size = 150, .bad = TSR_BAD_MASK, .state = state,
                        .state_size = size);
  CHECK_I64(tsr_pipeline_bad_count(p), 15);
  CHECK_I64(drain(p, x), 4000 - 1500 - 25);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  p = tsr_pipeline_open(made, .batch_size = 150, .epochs = 2);
  CHECK(!tsr_pipeline_next(p));
  CHECK_STATUS(tsr_pipeline_save(p, state, sizeof state, &size), TSR_OK, s);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_EVALUE, NULL);
  tsr_scope_clear(s);
  p = tsr_pipeline_open(made, .batch_size = 150, .epochs = 2, .bad = TSR_BAD_SKIP, .state = state,
                        .state_size = size);
  CHECK_I64(drain(p, x), 2 * (4000 - 40));
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static tsr_status dawdles(const tsr_record *r, void *user)
{
  memcpy(r->out[0], r->in[0], sizeof(int64_t));
  usleep(*(const unsigned *)user);
  return TSR_OK;
}

static double number_behind(const char *text, const char *name)
{
  const char *at = strstr(text, name);
  return at ? strtod(at + strlen(name), NULL) : -1;
}

/* Which stage takes longest, who waits for whom, and hashes of orders. */
TEST(figures_name_the_slowest)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  uint64_t order[2] = { 0, 0 };
  for (int fast = 0; fast < 2; fast++) {
    unsigned pause = fast ? 0 : 2000;
    tsr_source *made = tsr_source_map(range_of(s, 60), dawdles, .user = &pause,
                                      .fields = { { "index", TSR_I64, { 0 } } });
    tsr_pipeline *p = tsr_pipeline_open(fast ? range_of(s, 60) : made, .batch_size = 10 + fast,
                                        .threads = fast ? 2 : -1, .shuffle = true, .ids = true);
    CHECK(!strstr(tsr_pipeline_text(p), "left "));
    double left = -1;
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
      if (fast) usleep(30000);
      if (fast && tsr_batch_index(b) == 2) left = number_behind(tsr_pipeline_text(p), "\nleft ");
    }
    /* Three of six at 30 ms each and more, if the machine has other work. */
    if (fast) CHECK(left >= 0.085);
    const char *text = tsr_pipeline_text(p), *json = tsr_pipeline_json(p);
    CHECK(number_behind(json, "\"left_seconds\":") == 0);
    CHECK_STR_HAS(text, fast ? "slower    the consumer" : "longest   map\nslower    the pipeline");
    CHECK_STR_HAS(json, "\"records\":60,");
    CHECK_STR_HAS(json, "{\"kind\":\"range\",\"share\":");
    if (!fast) CHECK_STR_HAS(json, "\"longest\":\"map\",\"slower\":\"the pipeline: it has no");
    if (fast) CHECK_STR_HAS(text, " of 3 batches ready when one was asked for");
    order[fast] = tsr_pipeline_order(p);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
    CHECK_STR_HAS(tsr_pipeline_text(p), "records   60, 480 bytes"); /* after the end, too */
  }
  CHECK(order[0] && order[0] == order[1]);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static tsr_status works(const tsr_record *r, void *user)
{
  uint64_t x = (uint64_t)r->id;
  for (int i = 0; i < *(const int *)user; i++) x = x * 6364136223846793005u + 1;
  memcpy(r->out[0], &x, sizeof x);
  return TSR_OK;
}

/* Told while threads fill they are of one moment: shares of stages are of one sum. */
TEST(figures_while_threads_fill)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  int turns = 200;
  tsr_source *made = range_of(s, 4000);
  for (int i = 0; i < 3; i++)
    made = tsr_source_map(made, works, .user = &turns, .fields = { { "index", TSR_I64, { 0 } } });
  tsr_pipeline *p = tsr_pipeline_open(made, .batch_size = 20, .threads = 3, .prefetch = 8);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    double sum = 0;
    for (const char *at = tsr_pipeline_json(p); (at = strstr(at, "\"share\":")); at++)
      sum += strtod(at + strlen("\"share\":"), NULL);
    if (sum > 0) CHECK(sum > 0.999 && sum < 1.001);
  }
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- maps on the devices --------------------------------------------------------------------- */

static tsr_array *scale(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *x = tsr_cast(tsr_field(in[0], "index"), TSR_F32);
  return tsr_tree(s, { "half", tsr_mul(x, 0.5) }, { "index", tsr_field(in[0], "index") });
}

TEST(traced_maps)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_function *f = tsr_function_make(s, scale, .name = "scale");
  tsr_pipeline *p =
      tsr_pipeline_open(range_of(s, 64), .batch_size = 16, .map = f, .on = tsr_on(mesh, "data"));
  double sum, all = 0;
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_batch_field(b, "half")), &sum), TSR_OK, s);
    all += sum;
  }
  CHECK_F64_BITS(all, 0.5 * 63 * 64 / 2);
  CHECK_I64(tsr_trace_count(f), 1);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* What was made of a batch and kept outlives it. */
TEST(kept_results_outlive_batches)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_pipeline *p = tsr_pipeline_open(range_of(s, 40), .batch_size = 10);
  tsr_array *sums[4];
  for (int i = 0; i < 4; i++) {
    tsr_batch *b = tsr_pipeline_next(p);
    sums[i] = tsr_keep(s, tsr_sum(tsr_batch_field(b, "index")));
    tsr_batch_release(b);
  }
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  for (int i = 0; i < 4; i++) {
    int64_t sum;
    CHECK_STATUS(tsr_read_i64(sums[i], &sum), TSR_OK, s);
    CHECK_I64(sum, 45 + 100 * i);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- states ---------------------------------------------------------------------------------- */

static tsr_pipeline *shuffled(tsr_scope *s, uint64_t seed, int threads, const void *state,
                              size_t size)
{
  return tsr_pipeline_open(range_of(s, 103), .batch_size = 10, .shuffle = true, .seed = seed,
                           .epochs = 2, .threads = threads, .prefetch = threads + 2, .state = state,
                           .state_size = size);
}

/* Saved behind every batch, its end included, and restored with other threads: what follows is
 * what would have followed, no record twice and none missing. */
TEST(states_go_on_exactly)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  int64_t whole[206], head[206], tail[206], rows[10];
  tsr_pipeline *p = shuffled(s, 7, 2, NULL, 0);
  CHECK_I64(drain(p, whole), 206);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  for (int stop = 0; stop <= 22; stop++) {
    char state[500];
    size_t size;
    p = shuffled(s, 7, stop % 4, NULL, 0);
    int64_t got = 0;
    for (int i = 0; i < stop; i++) {
      tsr_batch *b = tsr_pipeline_next(p);
      indices(b, rows);
      memcpy(head + got, rows, (size_t)tsr_batch_count(b) * sizeof *rows);
      got += tsr_batch_count(b);
      tsr_batch_release(b);
    }
    CHECK_STATUS(tsr_pipeline_save(p, state, sizeof state, &size), TSR_OK, s);
    CHECK(size < 300);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
    p = shuffled(s, 7, 3 - stop % 4, state, size);
    int64_t more = drain(p, tail);
    CHECK_I64(got + more, 206);
    CHECK_BYTES(head, whole, (size_t)got * sizeof *head);
    CHECK_BYTES(tail, whole + got, (size_t)more * sizeof *tail);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  }
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(states_of_others_are_refused)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  char state[500], bad[500];
  size_t size;
  tsr_pipeline *p = shuffled(s, 7, 1, NULL, 0);
  CHECK_STATUS(tsr_pipeline_save(p, NULL, 0, &size), TSR_OK, s);
  CHECK_STATUS(tsr_pipeline_save(p, state, size - 1, NULL), TSR_EARG, NULL);
  CHECK_STATUS(tsr_pipeline_save(p, state, sizeof state, &size), TSR_OK, s);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  p = shuffled(s, 8, 1, state, size);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(s), "stage 2 was 'shuffle(seed=7)' and now is 'shuffle(seed=8)'");
  tsr_scope_clear(s);
  /* Every byte that is changed, and every length, is found. */
  for (size_t i = 0; i < size; i++) {
    memcpy(bad, state, size);
    bad[i] ^= 0x20;
    p = shuffled(s, 7, 1, bad, size);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_EPARSE, NULL);
    p = shuffled(s, 7, 1, state, i);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_EPARSE, NULL);
    tsr_scope_clear(s);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct slow {
  tsr_pipeline *_Atomic p;
  _Atomic int calls;
} slow;

static tsr_status slowly(const tsr_record *r, void *user)
{
  slow *how = user;
  memcpy(r->out[0], r->in[0], sizeof(int64_t));
  atomic_fetch_add(&how->calls, 1);
  for (int i = 0; i < 3000 && !(how->p && tsr_pipeline_stopping(how->p)); i++) usleep(1000);
  return TSR_OK;
}

/* From any state: right after opening, with a full ring, in the middle of batches, twice. */
TEST(closing_wakes_everybody)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  for (int taken = 0; taken < 4; taken++) {
    tsr_pipeline *p = tsr_pipeline_open(range_of(s, 1000000), .batch_size = 100, .threads = 4,
                                        .prefetch = 1 + taken);
    tsr_batch *held[4];
    for (int i = 0; i < taken; i++) held[i] = tsr_pipeline_next(p);
    if (taken == 2) usleep(20000); /* the ring is full */
    double begin = now();
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
    CHECK(now() - begin < 0.5);
    CHECK(!tsr_pipeline_next(p));
    int64_t x[100];
    for (int i = 0; i < taken; i++) CHECK_I64(indices(held[i], x)[99], 100 * i + 99);
    for (int i = 0; i < taken; i++) tsr_batch_release(held[i]);
  }
  slow how = { .calls = 0 };
  tsr_source *made = tsr_source_map(range_of(s, 1000), slowly, .user = &how,
                                    .fields = { { "index", TSR_I64, { 0 } } });
  how.p = tsr_pipeline_open(made, .batch_size = 10);
  while (!how.calls) usleep(1000);
  double begin = now();
  CHECK_I64(tsr_pipeline_close(how.p), TSR_OK);
  CHECK(now() - begin < 1);
  /* Closed by its scope, with batches that nobody released. */
  tsr_pipeline *left = tsr_pipeline_open(range_of(s, 1000), .batch_size = 10);
  CHECK(tsr_pipeline_next(left));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static bool never(const char *what, int64_t done, int64_t total, void *user)
{
  (void)what, (void)done, (void)total;
  return !*(bool *)user;
}

TEST(waiting_can_be_cancelled)
{
  bool cancel = false;
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .progress = never, .progress_user = &cancel);
  tsr_scope *s = tsr_scope_open(rt);
  slow how = { .calls = 0 };
  tsr_source *made = tsr_source_map(range_of(s, 10), slowly, .user = &how,
                                    .fields = { { "index", TSR_I64, { 0 } } });
  how.p = tsr_pipeline_open(made, .batch_size = 10);
  while (!how.calls) usleep(1000);
  cancel = true;
  double begin = now();
  CHECK(!tsr_pipeline_next(how.p));
  CHECK(now() - begin < 1);
  CHECK_STATUS(tsr_pipeline_close(how.p), TSR_ECANCELLED, NULL);
  CHECK_STATUS(tsr_scope_status(s), TSR_ECANCELLED, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- functions that block -------------------------------------------------------------------- */

typedef struct blocked {
  pthread_t caller;
  _Atomic int calls, by_caller;
  unsigned pause; /* microseconds */
} blocked;

static tsr_status blocks(int64_t at, void *const *out, void *user)
{
  blocked *b = user;
  memcpy(out[0], &at, sizeof at);
  atomic_fetch_add(&b->calls, 1);
  if (pthread_equal(pthread_self(), b->caller)) atomic_fetch_add(&b->by_caller, 1);
  usleep(b->pause);
  return TSR_OK;
}

static tsr_source *blocking_source(tsr_scope *s, int64_t count, blocked *b)
{
  return tsr_source_callback(s, .count = count, .fn = blocks, .user = b, .name = "remote",
                             .blocking = true, .fields = { { "index", TSR_I64, { 0 } } });
}

/* Threads wait side by side, and neither the caller nor a worker does; without threads only the
 * caller does. */
TEST(functions_that_block_have_threads_of_their_own)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  int64_t x[1000];
  for (int threads = -1; threads < 9; threads += 9) {
    blocked b = { .caller = pthread_self(), .pause = 5000 };
    tsr_source *source = tsr_source_shuffle(blocking_source(s, 200, &b), .seed = 1);
    double begin = now();
    tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 40, .threads = threads);
    CHECK_I64(drain(p, x), 200);
    if (threads > 0) CHECK(now() - begin < 0.75); /* one second, one after the other */
    CHECK_I64(b.calls, 200);
    CHECK_I64(b.by_caller, threads > 0 ? 0 : 200);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static char logged[1000];

static void keep_log(tsr_log_level level, const char *area, const char *line, void *user)
{
  (void)level, (void)user;
  if (!strcmp(area, "pipeline")) snprintf(logged, sizeof logged, "%s", line);
}

/* Cancelled at once though the function does not ask; closing says whom it waits for. */
TEST(closing_names_the_function_that_it_waits_for)
{
  bool cancel = false;
  tsr_runtime *rt =
      tsr_runtime_open("cpu:1", .progress = never, .progress_user = &cancel, .log = keep_log);
  for (int threads = -1; threads < 2; threads += 2) {
    tsr_scope *s = tsr_scope_open(rt);
    blocked b = { .caller = pthread_self(), .pause = threads > 0 ? 1600000 : 50000 };
    cancel = threads < 0; /* while it fills itself it can be cancelled between two records */
    tsr_pipeline *p =
        tsr_pipeline_open(blocking_source(s, 100, &b), .batch_size = 100, .threads = threads);
    while (threads > 0 && !b.calls) usleep(1000);
    cancel = true;
    double begin = now();
    CHECK(!tsr_pipeline_next(p));
    CHECK(now() - begin < 1);
    begin = now();
    CHECK_STATUS(tsr_pipeline_close(p), TSR_ECANCELLED, NULL);
    CHECK_STR_HAS(tsr_message(s), "tsr_pipeline_next: cancelled");
    if (threads > 0) CHECK_STR_HAS(logged, "tsr_pipeline_close waits for remote at record 0");
    else CHECK(b.calls < 20);
    CHECK(now() - begin < 10);
    cancel = false;
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* A program that seems to hang hears by whom, once. */
static _Atomic int told_waits;

static void count_waits(tsr_log_level level, const char *area, const char *line, void *user)
{
  (void)user;
  if (strcmp(area, "pipeline") != 0) return;
  CHECK_I64(level, TSR_LOG_WARN);
  snprintf(logged, sizeof logged, "%s", line);
  told_waits++;
}

TEST(waiting_names_the_function_that_it_waits_for)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .log = count_waits);
  tsr_scope *s = tsr_scope_open(rt);
  blocked b = { .caller = pthread_self(), .pause = 5600000 };
  tsr_pipeline *p = tsr_pipeline_open(blocking_source(s, 1, &b), .threads = 1);
  tsr_batch *batch = tsr_pipeline_next(p);
  CHECK(batch);
  CHECK_STR_HAS(logged,
                "tsr_pipeline_next has waited 5 s for batch 0, where remote is at record 0");
  CHECK_I64(told_waits, 1);
  tsr_batch_release(batch);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- wrong calls ----------------------------------------------------------------------------- */

#define REFUSED(call, status, part)               \
  do {                                            \
    (void)(call);                                 \
    CHECK_STATUS(tsr_scope_status(s), status, s); \
    CHECK_STR_HAS(tsr_message(s), part);          \
    tsr_scope_clear(s);                           \
  } while (0)

TEST(wrong_calls)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *ten = range_of(s, 10);
  float x[10] = { 0 };
  REFUSED(range_of(s, -1), TSR_EARG, "-1 records");
  REFUSED(tsr_source_npz(s, test_tmp("none.npz")), TSR_EIO, "none.npz");
  REFUSED(tsr_source_npy(s, test_tmp("none.npy")), TSR_EIO, "none.npy");
  REFUSED(tsr_source_memory(s, 10, { "x", TSR_F32, { 0 }, NULL }), TSR_EARG, "data is NULL");
  REFUSED(tsr_source_memory(s, 10, { "", TSR_F32, { 0 }, x }), TSR_EARG, "has no name");
  REFUSED(tsr_source_memory(s, 10, { "x", TSR_F32, { 0 }, x }, { "x", TSR_F32, { 0 }, x }),
          TSR_EARG, "is given twice");
  REFUSED(tsr_source_slice(ten, TSR_STEPS(0, 5, 0)), TSR_EARG, "the step is 0");
  REFUSED(tsr_source_shuffle(ten, .window = -1), TSR_EARG, ".window is -1");
  REFUSED(tsr_source_repeat(ten, -1), TSR_EARG, "-1 repeats");
  REFUSED(tsr_source_zip(ten, ten), TSR_EARG, "rename one with tsr_source_select");
  REFUSED(tsr_source_select(ten, "indx"), TSR_EARG, "did you mean 'index'?");
  REFUSED(tsr_source_mix({ ten, 0 }), TSR_EARG, "a weight is 0");
  tsr_source *other = tsr_source_select(ten, "index=i");
  REFUSED(tsr_source_concat(ten, other), TSR_EARG, "index i64[]");
  REFUSED(tsr_source_map(ten, NULL), TSR_EARG, "function is NULL");
  REFUSED(tsr_source_map(ten, draw), TSR_EARG, "no .fields");
  REFUSED(tsr_pipeline_open(ten, .batch_size = -1), TSR_EARG, ".batch_size is -1");
  REFUSED(tsr_pipeline_open(ten, .epochs = -2), TSR_EARG, ".epochs is -2");
  REFUSED(tsr_pipeline_open(ten, .threads = -2), TSR_EARG, ".threads is -2");
  REFUSED(tsr_pipeline_open(ten, .batch_size = 4, .on = tsr_on(mesh, "model")), TSR_EAXIS,
          "field index");
  REFUSED(tsr_pipeline_open(ten, .on = tsr_on(mesh, "data,-")), TSR_ESHAPE, "field index");
  REFUSED(tsr_pipeline_open(ten, .fields = { { "x", tsr_on(mesh, "") } }), TSR_EARG, "'x'");
  tsr_pipeline *p = tsr_pipeline_open(ten, .batch_size = 10);
  tsr_batch *b = tsr_pipeline_next(p);
  tsr_array *none = tsr_batch_field(b, "x");
  CHECK(none && tsr_scope_status(tsr_batch_scope(b)));
  tsr_batch_release(b);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  /* What follows from an error is inert and says nothing more. */
  tsr_source *bad = tsr_source_shuffle(tsr_source_slice(ten, TSR_STEPS(0, 5, 0)), .seed = 1);
  p = tsr_pipeline_open(bad, .batch_size = 4);
  CHECK(!tsr_pipeline_next(p));
  CHECK(tsr_pipeline_close(p) != TSR_OK);
  CHECK_I64(tsr_source_count(bad), 0);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- more sources ---------------------------------------------------------------------------- */

TEST(splits)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *ten = range_of(s, 10), *eleven = range_of(s, 11);
  LIST(tsr_source_split(ten, .part = 0, .parts = 3), 0, 1, 2, 3);
  LIST(tsr_source_split(ten, .part = 1, .parts = 3), 4, 5, 6);
  LIST(tsr_source_split(ten, .part = 2, .parts = 3), 7, 8, 9);
  LIST(tsr_source_split(eleven, .part = 1, .parts = 3), 4, 5, 6, 7);
  LIST(tsr_source_split(eleven, .part = 2, .parts = 3, .drop = true), 6, 7, 8);
  LIST(tsr_source_split(eleven, .part = 1, .parts = 4, .strided = true), 1, 5, 9);
  LIST(tsr_source_split(eleven, .part = 0, .parts = 4, .strided = true, .drop = true), 0, 4);
  /* All parts of any split are all records, once. */
  for (int64_t n = 0; n < 12; n++)
    for (int64_t parts = 1; parts < 5; parts++)
      for (int strided = 0; strided < 2; strided++) {
        bool met[12] = { 0 };
        int64_t all = 0, x[12];
        for (int64_t k = 0; k < parts; k++) {
          tsr_pipeline *p = tsr_pipeline_open(tsr_source_split(range_of(s, n), .part = k,
                                                               .parts = parts, .strided = strided),
                                              .batch_size = 12, .threads = -1);
          int64_t got = drain(p, x);
          for (int64_t i = 0; i < got; i++) CHECK(!met[x[i]]), met[x[i]] = true;
          all += got;
          CHECK_I64(tsr_pipeline_close(p), TSR_OK);
        }
        CHECK_I64(all, n);
      }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static bool divides(const tsr_record *r, void *user)
{
  int64_t index;
  memcpy(&index, r->in[0], sizeof index);
  CHECK_I64(r->id, index);
  return index % *(const int64_t *)user == 0;
}

TEST(filters)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  int64_t three = 3, thousand = 1000, x[400];
  LIST(tsr_source_filter(range_of(s, 11), divides, .user = &three), 0, 3, 6, 9);
  LIST(tsr_source_filter(tsr_source_skip(range_of(s, 11), 4), divides, .user = &three), 6, 9);
  tsr_source *few = tsr_source_filter(range_of(s, 999), divides, .user = &three);
  CHECK_I64(tsr_source_count(few), 333);
  tsr_pipeline *p = tsr_pipeline_open(few, .batch_size = 50, .shuffle = true, .ids = true);
  CHECK_I64(drain(p, x), 333);
  for (int i = 0; i < 333; i++) CHECK_I64(x[i] % 3, 0);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  CHECK_I64(tsr_source_count(tsr_source_filter(few, divides, .user = &thousand)), 1);
  tsr_source *shuffled_ten = tsr_source_shuffle(range_of(s, 10), .seed = 1);
  tsr_source_filter(shuffled_ten, divides, .user = &three);
  CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s), "filter before the shuffle");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static tsr_status make_pair(int64_t at, void *const *out, void *user)
{
  int32_t twice = (int32_t)(2 * at);
  float values[3] = { (float)at, (float)at + 0.25f, (float)at + 0.5f };
  memcpy(out[0], &twice, sizeof twice);
  memcpy(out[1], values, sizeof values);
  return user && at >= 30 ? TSR_EVALUE : TSR_OK;
}

TEST(functions_as_sources)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=4");
  tsr_scope *s = tsr_scope_open(rt);
  for (int fails = 0; fails < 2; fails++) {
    tsr_source *made = tsr_source_callback(
        s, .count = 40, .fn = make_pair, .user = fails ? &fails : NULL, .name = "pairs",
        .fields = { { "twice", TSR_I32, { 0 } }, { "x", TSR_F32, TSR_SHAPE(3) } });
    tsr_pipeline *p = tsr_pipeline_open(tsr_source_select(made, "x"), .batch_size = 10,
                                        .on = tsr_on(mesh, "data"));
    int batches = 0;
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b), batches++) {
      float x[30];
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "x"), x, sizeof x), TSR_OK, s);
      for (int i = 0; i < 30; i++)
        CHECK_F32_BITS(x[i], (float)(batches * 10 + i / 3) + 0.25f * (float)(i % 3));
    }
    CHECK_I64(batches, fails ? 3 : 4);
    CHECK_STATUS(tsr_pipeline_close(p), fails ? TSR_EVALUE : TSR_OK, NULL);
  }
  CHECK_STR_HAS(tsr_message(s), "pairs: record 30: the function returned TSR_EVALUE");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* What the readers of CSV and JSON lines give. */
TEST(frames_as_sources)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  static const char csv[] = "n,x y,flag,word\n1,0.5,true,a\n2,,false,b\n3,1.5,true,c\n";
  test_write(test_tmp("t.csv"), csv, sizeof csv - 1);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("t.csv"));
  tsr_source *rows = tsr_source_frame(tsr_frame_drop(df, "word"));
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_I64(tsr_source_count(rows), 3);
  CHECK_STR(tsr_source_field_of(rows, 1).name, "x_y");
  tsr_pipeline *p = tsr_pipeline_open(rows, .batch_size = 3);
  tsr_batch *b = tsr_pipeline_next(p);
  int64_t n[3];
  double x[3];
  bool flag[3];
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "n"), n, sizeof n), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "x_y"), x, sizeof x), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "flag"), flag, sizeof flag), TSR_OK, s);
  CHECK(n[2] == 3 && x[0] == 0.5 && x[1] != x[1] && x[2] == 1.5 && flag[0] && !flag[1]);
  tsr_batch_release(b);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Records in several files with headers, footers and gaps, against what was written. */
static void write_records(const char *path, int first, int count)
{
  unsigned char bytes[4 + 100 * 11 + 2] = { 'H', 'E', 'A', 'D' };
  size_t at = 4;
  for (int i = first; i < first + count; i++, at += 11) {
    float x[2] = { (float)i, (float)-i };
    bytes[at] = (unsigned char)i;
    memcpy(bytes + at + 1, x, sizeof x);
    memset(bytes + at + 9, 0xEE, 2);
  }
  test_write(path, bytes, at + 2);
}

static tsr_source *records_of(tsr_scope *s, const char *path, int64_t header)
{
  return tsr_source_binary(s, path, .header = header, .footer = 2, .skipped = 2,
                           .fields = { { "label", TSR_U8, { 0 } },
                                       { "x", TSR_F32, TSR_SHAPE(2) } });
}

TEST(files_of_fixed_records)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2");
  tsr_scope *s = tsr_scope_open(rt);
  write_records(test_tmp("r_1.bin"), 0, 40);
  write_records(test_tmp("r_2.bin"), 40, 0);
  write_records(test_tmp("r_3.bin"), 40, 60);
  tsr_source *all = records_of(s, test_tmp("r_*.bin"), 4);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_I64(tsr_source_count(all), 100);
  for (int shuffle = 0; shuffle < 2; shuffle++) {
    tsr_pipeline *p = tsr_pipeline_open(all, .batch_size = 33, .shuffle = shuffle, .ids = true,
                                        .on = tsr_on(mesh, "data"));
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
      unsigned char label[33];
      float x[33][2];
      size_t rows = (size_t)tsr_batch_row_count(b);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "label"), label, rows), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "x"), x, rows * sizeof *x), TSR_OK, s);
      for (size_t i = 0; i < rows; i++) {
        CHECK_I64(label[i], tsr_batch_ids(b)[i]);
        CHECK(x[i][0] == (float)label[i] && x[i][1] == -(float)label[i]);
      }
    }
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  }
  /* A file that became shorter; then one that ends within a record. */
  CHECK(!truncate(test_tmp("r_3.bin"), 4 + 30 * 11 + 5));
  tsr_pipeline *p = tsr_pipeline_open(all, .batch_size = 10);
  int64_t batches = 0;
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) batches++;
  CHECK_I64(batches, 4);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_EIO, NULL);
  CHECK_STR_HAS(tsr_message(s), "r_3.bin: record 40 at byte 4: the file has become shorter");
  tsr_scope_clear(s);
  /* Masked instead: records of other files come, and the report names the file. */
  int64_t real = 0;
  p = tsr_pipeline_open(all, .batch_size = 10, .bad = TSR_BAD_MASK, .ids = true);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) real += tsr_batch_count(b);
  CHECK_I64(real, 40);
  CHECK_STR_HAS(tsr_pipeline_report(p), "60 bad records of 100\n       60 ");
  CHECK_STR_HAS(tsr_pipeline_report(p), "r_3.bin: record 40 at byte 4: the file has become");
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  records_of(s, test_tmp("r_*.bin"), 4);
  CHECK_STATUS(tsr_scope_status(s), TSR_EPARSE, s);
  CHECK_STR_HAS(tsr_message(s), "r_3.bin: 339 bytes");
  CHECK_STR_HAS(tsr_message(s), "; set .partial to leave out a record that is cut off");
  tsr_scope_clear(s);
  all = tsr_source_binary(s, test_tmp("r_*.bin"), .header = 4, .footer = 2, .skipped = 2,
                          .partial = true,
                          .fields = { { "label", TSR_U8, { 0 } }, { "x", TSR_F32, TSR_SHAPE(2) } });
  CHECK_I64(tsr_source_count(all), 70);
  p = tsr_pipeline_open(all, .batch_size = 70);
  tsr_batch *b = tsr_pipeline_next(p);
  unsigned char label[70];
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "label"), label, sizeof label), TSR_OK, s);
  CHECK_I64(label[69], 69);
  tsr_batch_release(b);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  records_of(s, test_tmp("none.bin"), 4);
  CHECK_STATUS(tsr_scope_status(s), TSR_EIO, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Where uneven parts are an error, the last batch counts, too. */
TEST(short_batches_are_refused_where_parts_are_to_be_even)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(mesh, "data", .strict = true);
  CHECK_I64(tsr_pipeline_close(tsr_pipeline_open(range_of(s, 60), .batch_size = 8, .on = on)),
            TSR_OK); /* 60 is 7 * 8 + 4 */
  tsr_pipeline *p = tsr_pipeline_open(range_of(s, 61), .batch_size = 8, .on = on);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_ESHAPE, NULL);
  CHECK_STR_HAS(tsr_message(s), "field index: the last batch has 5 rows: ");
  CHECK_STR_HAS(tsr_message(s),
                "TSR_DROP, TSR_PAD_AND_MASK or TSR_WRAP, which keep batch sizes equal");
  tsr_scope_clear(s);
  for (int kind = TSR_DROP; kind <= TSR_WRAP; kind++) {
    p = tsr_pipeline_open(range_of(s, 61), .batch_size = 8, .on = on,
                          .remainder = (tsr_remainder)kind);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  }
  p = tsr_pipeline_open(range_of(s, 60), .batch_size = 6, .on = on);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_ESHAPE, NULL);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- TFRecord -------------------------------------------------------------------------------- */

static tsr_source *examples_of(tsr_scope *s, const char *path)
{
  return tsr_source_tfrecord(s, path,
                             .fields = { { "image", TSR_U8, TSR_SHAPE(2, 3) },
                                         { "weights", TSR_F32, TSR_SHAPE(3) },
                                         { "label", TSR_I64, { 0 } } });
}

/* Messages that protobuf encoded, packed and not (tests/golden/make_tfrecords.py has what is in
 * them), over two files. */
TEST(examples_of_tensorflow)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *all = examples_of(s, test_file("golden/files/examples_*.tfrecord"));
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_I64(tsr_source_count(all), 12);
  for (int shuffle = 0; shuffle < 2; shuffle++) {
    tsr_pipeline *p = tsr_pipeline_open(all, .batch_size = 5, .shuffle = shuffle, .ids = true,
                                        .on = tsr_on(mesh, "data"));
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
      uint8_t image[5][6];
      float weights[5][3];
      int64_t label[5];
      size_t rows = (size_t)tsr_batch_row_count(b);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "image"), image, rows * 6), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "weights"), weights, rows * 12), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "label"), label, rows * 8), TSR_OK, s);
      for (size_t i = 0; i < rows; i++) {
        int64_t n = tsr_batch_ids(b)[i];
        CHECK_I64(label[i], -n);
        for (int k = 0; k < 6; k++) CHECK_I64(image[i][k], 6 * n + k);
        for (int k = 0; k < 3; k++) CHECK_F32_BITS(weights[i][k], (float)n / 4 - (float)k);
      }
    }
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Reads a file to its end: how many records came, and the status. */
static tsr_status read_examples(tsr_scope *s, const char *path, int64_t *count)
{
  tsr_source *source = examples_of(s, path);
  *count = 0;
  if (tsr_scope_status(s)) return tsr_scope_status(s);
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 1, .threads = -1);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) ++*count;
  return tsr_pipeline_close(p);
}

/* A byte that changes is found; any end is an error or a whole number of records. */
TEST(damaged_examples)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  size_t size;
  char *whole = test_read(test_file("golden/files/examples_1.tfrecord"), &size);
  const char *path = test_tmp("x.tfrecord");
  size_t each = size / 7; /* records of one length, but for the labels' ten bytes */
  for (size_t i = 0; i < size; i += test_quick() ? 29 : 5) {
    tsr_scope *s = tsr_scope_open(rt);
    int64_t count;
    whole[i] ^= 0x10;
    test_write(path, whole, size);
    CHECK_STATUS(read_examples(s, path, &count), TSR_EPARSE, s);
    CHECK_STR_HAS(tsr_message(s), "x.tfrecord: record ");
    CHECK(count <= (int64_t)(i / each) + 1);
    whole[i] ^= 0x10;
    test_write(path, whole, i);
    tsr_status status = read_examples(s, path, &count);
    CHECK(status == TSR_OK ? count < 7 : status == TSR_EPARSE);
    tsr_scope_close(s);
  }
  free(whole);
  tsr_runtime_close(rt);
}

/* Messages whose checksums hold and that are not what was asked for. */
TEST(other_examples)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_file("golden/files/examples_1.tfrecord");
  static const struct {
    tsr_record_field field;
    const char *says;
  } cases[] = { { { "none", TSR_F32, { 0 } }, "there is no feature none" },
                { { "label", TSR_F32, { 0 } }, "feature label is a list of integers" },
                { { "image", TSR_U8, { 0 } }, "feature image has 6 values, expected 1" },
                { { "weights", TSR_F32, { 1, { 4 } } }, "feature weights has 3 values" } };
  for (int i = 0; i < 4; i++) {
    tsr_source *source = tsr_source_tfrecord(s, path, .fields = { cases[i].field });
    tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 2);
    CHECK(!tsr_pipeline_next(p));
    CHECK_STATUS(tsr_pipeline_close(p), TSR_EPARSE, NULL);
    CHECK_STR_HAS(tsr_message(s), cases[i].says);
    tsr_scope_clear(s);
  }
  /* With zeros for what lacks a name that is wrong would be nothing but zeros. */
  tsr_source_tfrecord(s, path, .defaults = true, .fields = { { "weight", TSR_F32, { 0 } } });
  CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s), "no record of 7 has a field 'weight'; did you mean 'weights'?");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Nothing fills devices that there are not: what was said of the runtime is said once. */
TEST(of_a_runtime_that_failed_to_open)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:none");
  CHECK(tsr_runtime_status(rt) != TSR_OK);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
  for (int placed = 0; placed < 2; placed++) {
    tsr_pipeline *p = tsr_pipeline_open(range_of(s, 10), .batch_size = 2,
                                        .on = placed ? tsr_on(mesh, "x") : unplaced);
    CHECK(!tsr_pipeline_next(p));
    CHECK(tsr_pipeline_close(p) != TSR_OK);
  }
  CHECK_STR_HAS(tsr_message(s), "cpu:none");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
