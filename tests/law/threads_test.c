/* Several threads on one runtime, each with scopes of its own: the same answers as one thread, and
 * nothing for a race checker to say. Runs under `make tsan`. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/first_axis.h"
#include "tessera.h"

enum { THREADS = 4, ROWS = 3000 };

/* What the threads share: a runtime, its meshes, a computed array and a file. */
struct shared {
  tsr_runtime *rt;
  tsr_mesh *mesh;
  tsr_scope *scope;
  tsr_array *data; /* of it */
  const char *path;
  int rounds;
  _Atomic int failed;
};

struct worker {
  struct shared *shared;
  int number;
  double sum;
  char message[500];
};

static void start(struct worker workers[THREADS], struct shared *shared, void *(*body)(void *))
{
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (struct worker){ .shared = shared, .number = i };
    CHECK(pthread_create(&threads[i], NULL, body, &workers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < THREADS; i++)
    if (*workers[i].message) FAIL("thread %d: %s", i, workers[i].message);
  CHECK_I64(shared->failed, 0);
}

static void complain(struct worker *w, tsr_scope *s, const char *what)
{
  snprintf(w->message, sizeof w->message, "%s: %s", what, tsr_message(s));
  w->shared->failed++;
}

static struct shared open_shared(const char *devices, int threads)
{
  struct shared shared = { .rt = tsr_runtime_open(devices, .threads = threads),
                           .rounds = test_quick() ? 5 : 40 };
  shared.mesh = tsr_mesh_default(shared.rt, "d");
  CHECK_STATUS(tsr_runtime_status(shared.rt), TSR_OK, NULL);
  return shared;
}

/* ---- arrays ---- */

/* Each round: the shared array moved to the thread's own scope, a program of its own and one that
 * all threads have in common, a draw, an error, a mesh. */
static void *compute(void *user)
{
  struct worker *w = user;
  struct shared *shared = w->shared;
  for (int round = 0; round < shared->rounds; round++) {
    tsr_scope *s = tsr_scope_open(shared->rt);
    tsr_array *x = tsr_keep(s, shared->data);
    tsr_array *own = tsr_sum(tsr_mul(tsr_add(x, w->number), round % 3 + 1));
    tsr_array *common = tsr_mean(tsr_sqrt(tsr_add(tsr_mul(x, x), 1)));
    tsr_array *drawn = tsr_count(tsr_gt(
        tsr_uniform(s, .key = 7, .shape = TSR_SHAPE(ROWS), .on = tsr_on(shared->mesh, "d")), 0.5));
    double mean = 0, sum = 0;
    int64_t count;
    if (tsr_eval((tsr_array *[]){ own, common }, 2) || tsr_read_scalar(own, &sum) ||
        tsr_read_scalar(common, &mean) || tsr_read_i64(drawn, &count))
      complain(w, s, "a program");
    double expected = (ROWS * (ROWS - 1) / 2.0 + (double)ROWS * w->number) * (round % 3 + 1);
    if (sum != expected || count < ROWS / 3) complain(w, s, "a wrong sum");
    if (round && mean != w->sum) complain(w, s, "a mean that changes");
    w->sum = mean;
    tsr_array *bad = tsr_add(x, tsr_full(s, 1, TSR_F64, TSR_SHAPE(7), (tsr_sharding){ 0 }));
    if (!tsr_is_inert(bad) || tsr_scope_status(s) != TSR_ESHAPE) complain(w, s, "no error");
    char text[16];
    snprintf(text, sizeof text, "t%d=2,r=2", (w->number + round) % 3);
    if (tsr_mesh_status(tsr_mesh_make(shared->rt, text))) complain(w, s, text);
    tsr_scope_close(s);
  }
  return NULL;
}

TEST_TIMEOUT(threads_compute_side_by_side, 300)
{
  struct worker workers[THREADS];
  for (int pool = 1; pool <= 4; pool += 3) {
    struct shared shared = open_shared("cpu:4", pool);
    tsr_scope *s = tsr_scope_open(shared.rt);
    shared.data = tsr_iota(s, TSR_F64, TSR_SHAPE(ROWS), 0, tsr_on(shared.mesh, "d"));
    CHECK_STATUS(tsr_eval(&shared.data, 1), TSR_OK, s);
    start(workers, &shared, compute);
    for (int i = 1; i < THREADS; i++) CHECK_F64_BITS(workers[i].sum, workers[0].sum);
    tsr_scope_close(s);
    tsr_runtime_close(shared.rt);
  }
}

/* The same on the shared array itself: each thread nests its scopes in the one that holds it, and
 * what it makes, its mistakes and its texts are in these. */
static void *compute_nested(void *user)
{
  struct worker *w = user;
  struct shared *shared = w->shared;
  for (int round = 0; round < shared->rounds; round++) {
    tsr_scope *s = tsr_scope_open(shared->scope);
    tsr_array *x = shared->data;
    tsr_array *own = tsr_sum(tsr_where(tsr_lt(x, w->number), 0, tsr_cast(x, TSR_I64)));
    tsr_array *mean = tsr_mean(tsr_sqrt(tsr_abs(x)), .where = tsr_not(tsr_isnan(x)));
    double sum = 0, found = 0, wrong[2];
    if (tsr_read_scalar(own, &sum) || tsr_read_scalar(mean, &found)) complain(w, s, "a program");
    if (sum != (ROWS * (ROWS - 1) - w->number * (w->number - 1)) / 2.0) complain(w, s, "a sum");
    if (round && found != w->sum) complain(w, s, "a mean that changes");
    w->sum = found;
    if (!strstr(tsr_type_of(x), "f64") || !strstr(tsr_dump(tsr_neg(x)), "neg"))
      complain(w, s, "a text");
    if (tsr_read(x, wrong, sizeof wrong) != TSR_EARG || tsr_scope_status(s) != TSR_EARG)
      complain(w, s, "no error of a terminal");
    tsr_scope_clear(s);
    tsr_array *bad = tsr_add(x, tsr_full(s, 1, TSR_F64, TSR_SHAPE(7), (tsr_sharding){ 0 }));
    if (!tsr_is_inert(bad) || tsr_scope_status(s) != TSR_ESHAPE) complain(w, s, "no error");
    tsr_scope_close(s);
  }
  return NULL;
}

TEST_TIMEOUT(threads_nest_in_one_scope, 300)
{
  struct worker workers[THREADS];
  struct shared shared = open_shared("cpu:4", 4);
  shared.scope = tsr_scope_open(shared.rt);
  shared.data = tsr_iota(shared.scope, TSR_F64, TSR_SHAPE(ROWS), 0, tsr_on(shared.mesh, "d"));
  CHECK_STATUS(tsr_eval(&shared.data, 1), TSR_OK, shared.scope);
  int64_t nodes = tsr_scope_node_count(shared.scope);
  start(workers, &shared, compute_nested);
  for (int i = 1; i < THREADS; i++) CHECK_F64_BITS(workers[i].sum, workers[0].sum);
  CHECK_I64(tsr_scope_node_count(shared.scope), nodes);
  CHECK_STR(tsr_message(shared.scope), "");
  tsr_scope_close(shared.scope);
  tsr_runtime_close(shared.rt);
}

/* ---- frames ---- */

static void *query(void *user)
{
  struct worker *w = user;
  struct shared *shared = w->shared;
  for (int round = 0; round < shared->rounds / 5; round++) {
    tsr_scope *s = tsr_scope_open(shared->rt);
    tsr_frame *df = tsr_frame_read_csv(s, shared->path, .on = first_axis(shared->mesh));
    df = tsr_frame_filter(df, "a >= ?", w->number);
    tsr_table *table = NULL;
    if (tsr_frame_collect(tsr_frame_group_agg(df, "t", "s = sum(a), n = count()"), &table))
      complain(w, s, "groups");
    else if (tsr_table_row_count(table) != 3) complain(w, s, "not three groups");
    tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "s = sum(a), m = mean(b)"));
    double expected = ROWS * (ROWS - 1) / 2.0 - w->number * (w->number - 1) / 2.0;
    if (tsr_row_status(row) || tsr_row_f64(row, "s") != expected) complain(w, s, "a wrong sum");
    if (!strlen(tsr_frame_text(tsr_frame_head(df, 7)))) complain(w, s, "no text");
    tsr_scope_close(s);
  }
  return NULL;
}

static void write_table(const char *path)
{
  char *text = malloc(ROWS * 64), *at = text + sprintf(text, "a,b,t\n");
  for (int i = 0; i < ROWS; i++) {
    const char *word = i % 3 == 0 ? "x" : i % 3 == 1 ? "\"y\nz\"" : "";
    at += sprintf(at, "%d,%d.5,%s\n", i, i % 17, word);
  }
  test_write(path, text, (size_t)(at - text));
  free(text);
}

TEST_TIMEOUT(threads_read_and_query_one_file, 300)
{
  struct worker workers[THREADS];
  struct shared shared = open_shared("cpu:4", 4);
  shared.path = test_tmp("t.csv");
  write_table(shared.path);
  start(workers, &shared, query);
  tsr_runtime_close(shared.rt);
}

/* ---- sums that were kept ---- */

static void *look_at_sum(void *user)
{
  struct worker *w = user;
  double found[4];
  tsr_scope *s = tsr_scope_open(w->shared->scope);
  tsr_array *next = tsr_add(w->shared->data, w->number);
  if (tsr_read(w->shared->data, found, sizeof found)) complain(w, s, "a sum");
  for (int i = 0; i < 4; i++)
    if (found[i] != 8 * i + 112) complain(w, s, "other elements");
  if (tsr_read(next, found, sizeof found)) complain(w, s, "a program of it");
  if (found[1] != 120 + w->number) complain(w, s, "other elements of a program");
  tsr_scope_close(s);
  return NULL;
}

/* Of a sum that was left unreduced the first thread that looks makes the elements. */
TEST_TIMEOUT(threads_look_at_a_sum_that_waits, 300)
{
  double data[8][4];
  struct worker workers[THREADS];
  struct shared shared = open_shared("cpu:4", 2);
  for (int i = 0; i < 32; i++) data[i / 4][i % 4] = i;
  for (int round = 0; round < shared.rounds; round++) {
    tsr_scope *s = shared.scope = tsr_scope_open(shared.rt);
    tsr_array *x = tsr_put(s, data, TSR_F64, TSR_SHAPE(8, 4), tsr_on(shared.mesh, "d,-"));
    shared.data = tsr_sum(x, .dims = TSR_DIMS(0));
    shared.data = tsr_constrain(shared.data, tsr_on(shared.mesh, "-;sum(d)"));
    CHECK_STATUS(tsr_eval(&shared.data, 1), TSR_OK, s);
    start(workers, &shared, look_at_sum);
    tsr_scope_close(s);
  }
  tsr_runtime_close(shared.rt);
}

/* One thread and four read the same table. */
TEST_TIMEOUT(four_workers_read_as_one_does, 300)
{
  char *text[2];
  write_table(test_tmp("t.csv"));
  for (int i = 0; i < 2; i++) {
    struct shared shared = open_shared("cpu:4", i ? 4 : 1);
    tsr_scope *s = tsr_scope_open(shared.rt);
    tsr_frame *df = tsr_frame_read_csv(s, test_tmp("t.csv"));
    tsr_frame *by = tsr_frame_group_agg(df, "t", "sum(a), var(b), min(b), count()");
    const char *printed = tsr_frame_text(by);
    text[i] = malloc(strlen(printed) + 1);
    strcpy(text[i], printed);
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    tsr_scope_close(s);
    tsr_runtime_close(shared.rt);
  }
  CHECK_STR(text[1], text[0]);
  for (int i = 0; i < 2; i++) free(text[i]);
}

/* ---- rows that move, files of every kind ---- */

enum { MOVED = 700 };

static uint64_t mix(uint64_t hash, const char *text)
{
  for (; text && *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
  return hash * 31 + 7;
}

static bool mix_table(tsr_frame *df, uint64_t *hash)
{
  tsr_table *t = NULL;
  if (tsr_frame_collect(df, &t)) return false;
  for (int c = 0; c < tsr_table_column_count(t); c++)
    for (int64_t r = 0; r < tsr_table_row_count(t); r++)
      *hash = mix(*hash, tsr_table_text(t, r, c));
  return true;
}

static tsr_frame *numbers(tsr_scope *s, const tsr_mesh *mesh)
{
  int64_t k[MOVED];
  double x[MOVED];
  const char *word[MOVED];
  static const char *const words[] = { "a", "", NULL, "\"q\"\n", "\xc3\xa9" };
  for (int i = 0; i < MOVED; i++) {
    k[i] = i * 7919 % 53;
    x[i] = i % 11 ? i * 0.37 - 50 : -0.0;
    word[i] = words[i * 31 % 5];
  }
  tsr_sharding at = tsr_on(mesh, "d");
  tsr_frame *df = tsr_frame_new(s, { "k", tsr_put(s, k, TSR_I64, TSR_SHAPE(MOVED), at) },
                                { "x", tsr_put(s, x, TSR_F64, TSR_SHAPE(MOVED), at) });
  return tsr_frame_text_column(df, "w", word, MOVED);
}

/* Sorts, groups and joins, whose rows go from device to device. */
static bool move_rows(tsr_frame *df, uint64_t *hash)
{
  tsr_frame *by = tsr_frame_group_agg(df, "w, k", "median(x), n = nunique(x), first(x), sum(x)");
  tsr_frame *joined = tsr_frame_join(df, tsr_frame_group_agg(df, "k", "m = mean(x)"), "k");
  tsr_frame *sorted = tsr_frame_sort(tsr_frame_filter(joined, "x > m"), "w desc nulls first, x");
  return mix_table(by, hash) && mix_table(sorted, hash) &&
         mix_table(tsr_frame_distinct(tsr_frame_rebalance(sorted), "w"), hash) &&
         mix_table(tsr_frame_concat(tsr_frame_tail(sorted, 9), tsr_frame_head(joined, 3)), hash) &&
         mix_table(tsr_frame_describe(df), hash);
}

/* Writes, and reads what was written. */
static bool use_files(const struct worker *w, tsr_scope *s, tsr_frame *df, const tsr_mesh *mesh,
                      uint64_t *hash)
{
  static const char *const kinds[] = { "csv", "csv.gz", "csv.zst", "jsonl", "npz", "npy" };
  char path[6][300];
  for (int i = 0; i < 6; i++)
    snprintf(path[i], sizeof path[i], "%.250s-%d.%s", w->shared->path, w->number, kinds[i]);
  tsr_array *x = tsr_frame_column(df, "x");
  for (int i = 0; i < 3; i++)
    if (tsr_frame_write_csv(df, path[i]) ||
        !mix_table(tsr_frame_read_csv(s, path[i], .on = first_axis(mesh)), hash))
      return false;
  if (tsr_frame_write_json(df, path[3]) || tsr_save_npz(s, path[4], { "x", x }) ||
      tsr_save_npy(x, path[5]))
    return false;
  tsr_npz *npz = tsr_load_npz(s, path[4]);
  tsr_sharding at = tsr_on(mesh, "d");
  tsr_array *again = tsr_npz_array(npz, "x", at), *mapped = tsr_load_npy(s, path[5], at);
  return mix_table(tsr_frame_read_json(s, path[3], .on = first_axis(mesh)), hash) &&
         mix_table(tsr_frame_new(s, { "p", again }, { "q", mapped }), hash);
}

static bool use_arrow(tsr_scope *s, tsr_frame *df, uint64_t *hash)
{
  struct ArrowArrayStream stream;
  return !tsr_frame_to_arrow(df, &stream) && mix_table(tsr_frame_from_arrow(s, &stream), hash);
}

static bool job(tsr_runtime *rt, const tsr_mesh *mesh, struct worker *w)
{
  uint64_t hash = 1;
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = numbers(s, mesh);
  bool good = move_rows(df, &hash) && use_files(w, s, df, mesh, &hash) && use_arrow(s, df, &hash) &&
              strlen(tsr_frame_explain(df)) > 0;
  if (!good) snprintf(w->message, sizeof w->message, "%.400s", tsr_message(s));
  tsr_scope_close(s);
  w->sum = (double)(hash >> 12);
  return good;
}

static void *shared_job(void *user)
{
  struct worker *w = user;
  for (int round = 0; round < (w->shared->rounds + 9) / 10; round++)
    if (!job(w->shared->rt, w->shared->mesh, w)) w->shared->failed++;
  return NULL;
}

/* Opens and closes a runtime of its own, of another number of devices than its neighbours'. */
static void *own_job(void *user)
{
  struct worker *w = user;
  char devices[16];
  snprintf(devices, sizeof devices, "cpu:%d", 1 + w->number);
  tsr_runtime *rt = tsr_runtime_open(devices, .threads = 2);
  if (!job(rt, tsr_mesh_default(rt, "d"), w)) w->shared->failed++;
  tsr_runtime_close(rt);
  return NULL;
}

/* All threads do a job, with the same outcome. */
static void each_does(void *(*body)(void *), int pool)
{
  struct worker workers[THREADS];
  struct shared shared = open_shared("cpu:4", pool);
  shared.path = test_tmp("moved");
  start(workers, &shared, body);
  for (int i = 1; i < THREADS; i++) CHECK_F64_BITS(workers[i].sum, workers[0].sum);
  tsr_runtime_close(shared.rt);
}

TEST_TIMEOUT(threads_move_rows_and_use_files, 300)
{
  each_does(shared_job, 4);
}

TEST_TIMEOUT(threads_with_runtimes_of_their_own, 300)
{
  each_does(own_job, 1);
}
