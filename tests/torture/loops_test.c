/* What runs for long on one runtime: loops with a scope a step, servers with a thread a query.
 * Nothing grows, nobody waits for anybody, and whoever waits can be cancelled.
 *
 * Memory is measured in blocks of the allocator, bytes on devices and nodes of the outer scope,
 * after N turns and after 10 N: 10 N is a million with TEST_FULL=1 (`make torture`). */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "tessera.h"

enum { THREADS = 8, ROWS = 600 };

static int64_t turns(void)
{
  const char *full = getenv("TEST_FULL");
  return full && *full != '0' ? 1000000 : test_quick() ? 2000 : 20000;
}

static int64_t held_on_devices(const tsr_runtime *rt)
{
  int64_t bytes = 0;
  for (int d = 0; d < tsr_device_count(rt); d++) bytes += tsr_device_memory(rt, d).now;
  return bytes;
}

/* ---- one thread: a step of training ---- */

/* A weight that meets a line. What a step makes lies in the newest scope, also what it makes of the
 * data alone. */
static tsr_array *step(tsr_array *x, tsr_array *y, tsr_array *w)
{
  tsr_array *scale = tsr_div(tsr_sum(tsr_mul(x, x)), ROWS);
  tsr_array *error = tsr_sub(tsr_mul(x, w), y);
  tsr_array *slope = tsr_div(tsr_mean(tsr_mul(error, x)), scale);
  return tsr_sub(w, tsr_mul(slope, 0.5));
}

TEST_TIMEOUT(a_training_loop_stays_flat, 1800)
{
  struct test_alloc memory = { 0 };
  tsr_allocator allocator = test_allocator(&memory);
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 1, .allocator = &allocator);
  tsr_scope *outer = tsr_scope_open(rt);
  tsr_sharding rows = tsr_on(tsr_mesh_default(rt, "data"), "data");
  tsr_array *x = tsr_iota(outer, TSR_F64, TSR_SHAPE(ROWS), 0, rows);
  tsr_array *y = tsr_mul(x, 3);
  CHECK_STATUS(tsr_eval((tsr_array *[]){ x, y }, 2), TSR_OK, outer);
  int64_t nodes = tsr_scope_node_count(outer), blocks = 0, bytes = 0, all = turns();
  tsr_scope *now = tsr_scope_open(outer);
  tsr_array *w = tsr_num(now, 0.0);
  for (int64_t turn = 1; turn <= all; turn++) {
    tsr_array *better = step(x, y, w);
    tsr_scope *next = tsr_scope_open(outer);
    w = tsr_keep(next, better);
    tsr_scope_close(now);
    now = next;
    if (turn == all / 10) {
      blocks = memory.live;
      bytes = held_on_devices(rt);
    }
  }
  double found = 0;
  CHECK_STATUS(tsr_read_scalar(w, &found), TSR_OK, now);
  CHECK(fabs(found - 3) < 1e-9);
  CHECK_I64(memory.live, blocks);
  CHECK_I64(held_on_devices(rt), bytes);
  CHECK_I64(tsr_scope_node_count(outer), nodes);
  tsr_scope_close(outer);
  tsr_runtime_close(rt);
}

/* ---- many threads: queries on a kept frame ---- */

typedef struct server {
  tsr_runtime *rt;
  tsr_scope *scope;
  tsr_frame *table; /* k: 0 .. 9, v: the row, t: three texts */
  int64_t queries;  /* a thread */
  _Atomic int failed;
  char why[500];
} server;

static void open_server(server *sv, tsr_scope *s)
{
  static const char *const texts[] = { "red", "green", "blue" };
  int64_t k[ROWS], v[ROWS];
  const char *t[ROWS];
  for (int i = 0; i < ROWS; i++) {
    k[i] = i % 10;
    v[i] = i;
    t[i] = texts[i % 3];
  }
  tsr_scope *load = tsr_scope_open(s);
  tsr_sharding at = tsr_on(tsr_mesh_default(sv->rt, "data"), "data");
  tsr_frame *df = tsr_frame_new(load, { "k", tsr_put(load, k, TSR_I64, TSR_SHAPE(ROWS), at) },
                                { "v", tsr_put(load, v, TSR_I64, TSR_SHAPE(ROWS), at) });
  df = tsr_frame_text_column(df, "t", t, ROWS);
  sv->table = tsr_frame_keep(s, tsr_frame_filter(df, "v >= 100")); /* ragged */
  tsr_scope_close(load);
  CHECK_STR(tsr_message(s), "");
}

static void complain(server *sv, tsr_scope *s, const char *what)
{
  if (!sv->failed++) snprintf(sv->why, sizeof sv->why, "%s: %s", what, tsr_message(s));
}

/* One answer: a number, groups, rows in order, texts, a mistake. */
static void answer(server *sv, tsr_scope *s, int64_t q)
{
  int64_t k = q % 10, sum = 0;
  for (int64_t i = 100; i < ROWS; i++) sum += i % 10 == k ? i : 0;
  tsr_row *row =
      tsr_frame_row(tsr_frame_agg(tsr_frame_filter(sv->table, "k == ?", k), "s = sum(v)"));
  if (tsr_row_status(row) || tsr_row_i64(row, "s") != sum) complain(sv, s, "a sum");
  tsr_table *table = NULL;
  int64_t kind = q % 6, count = 0;
  if (kind == 0) {
    if (tsr_frame_collect(tsr_frame_group_agg(sv->table, "t", "n = count()"), &table) ||
        tsr_table_row_count(table) != 3)
      complain(sv, s, "groups");
  } else if (kind == 1) {
    tsr_frame *top = tsr_frame_head(tsr_frame_sort(sv->table, "k desc, v"), 5);
    if (tsr_frame_collect(top, &table) || tsr_table_i64(table, 0, 1) != 109)
      complain(sv, s, "rows");
  } else if (kind == 2) {
    if (!strstr(tsr_frame_text(tsr_frame_head(sv->table, 3)), "green")) complain(sv, s, "a text");
  } else if (kind == 3) {
    if (tsr_frame_row_count(sv->table, &count) || count != ROWS - 100) complain(sv, s, "a count");
  } else if (kind == 4) {
    tsr_array *v = tsr_frame_column(tsr_frame_with_row_index(sv->table, "i"), "i");
    double most = 0;
    if (tsr_read_scalar(tsr_max(v), &most) || most != ROWS - 101)
      complain(sv, s, "numbers of rows");
  } else {
    tsr_frame *bad = tsr_frame_filter(sv->table, "nothing > 1");
    if (!tsr_frame_is_inert(bad) || tsr_scope_status(s) != TSR_ECOLUMN) complain(sv, s, "no error");
  }
}

static void *serve(void *user)
{
  server *sv = user;
  for (int64_t q = 0; q < sv->queries; q++) {
    tsr_scope *s = tsr_scope_open(sv->scope);
    answer(sv, s, q);
    tsr_scope_close(s);
  }
  return NULL;
}

static void run_threads(server *sv, int64_t queries)
{
  pthread_t thread[THREADS];
  sv->queries = queries;
  for (int i = 0; i < THREADS; i++) CHECK(!pthread_create(&thread[i], NULL, serve, sv));
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  if (sv->failed) FAIL("%s", sv->why);
}

TEST_TIMEOUT(a_server_stays_flat, 1800)
{
  struct test_alloc memory = { 0 };
  tsr_allocator allocator = test_allocator(&memory);
  server sv = { .rt = tsr_runtime_open("cpu:2", .threads = 2, .allocator = &allocator) };
  tsr_scope *s = tsr_scope_open(sv.rt);
  sv.scope = s;
  open_server(&sv, s);
  int64_t nodes = tsr_scope_node_count(s), few = turns() / 10 / THREADS / 10;
  run_threads(&sv, few);
  int64_t bytes = held_on_devices(sv.rt), blocks = memory.live;
  run_threads(&sv, 9 * few);
  CHECK_I64(held_on_devices(sv.rt), bytes);
  CHECK_I64(tsr_scope_node_count(s), nodes);
  CHECK(memory.live < blocks + 200); /* kept for reuse, by as many threads as ran at once */
  CHECK_STR(tsr_message(s), "");
  tsr_scope_close(s);
  tsr_runtime_close(sv.rt);
  CHECK_I64(memory.live, 0);
}

/* ---- nobody waits ---- */

/* A long program of another thread, which stands still inside its callback: what waited for it
 * would wait for good. No clock is needed. */
typedef struct long_work {
  tsr_runtime *rt;
  pthread_t self;                 /* who looks on */
  int calls;                      /* of the other's callback */
  _Atomic bool still, go_on, end; /* the other: stands still, may go on, is to end */
  _Atomic bool cancel;            /* the callback of who looks on says so ... */
  _Atomic int asked;              /* ... when it is asked */
} long_work;

static bool on_progress(const char *what, int64_t done, int64_t total, void *user)
{
  long_work *l = user;
  (void)what, (void)done, (void)total;
  if (pthread_equal(pthread_self(), l->self)) {
    l->asked++;
    return !l->cancel;
  }
  if (++l->calls < 3) return true; /* before the job and in it */
  l->still = true;
  while (!l->go_on) usleep(1000);
  return !l->end;
}

static void *work_long(void *user)
{
  long_work *l = user;
  while (!l->end) {
    tsr_scope *s = tsr_scope_open(l->rt);
    tsr_array *x = tsr_uniform(s, .shape = TSR_SHAPE(20000000), .key = 1);
    for (int i = 0; i < 6; i++) x = tsr_exp(tsr_neg(tsr_abs(x)));
    tsr_array *sum = tsr_sum(x);
    tsr_status status = tsr_eval(&sum, 1);
    CHECK(!status || status == TSR_ECANCELLED);
    tsr_scope_close(s);
  }
  return NULL;
}

static void sum_up(long_work *l, int64_t count, tsr_status expected)
{
  tsr_scope *s = tsr_scope_open(l->rt);
  tsr_array *x = tsr_iota(s, TSR_I64, TSR_SHAPE(count), 0, (tsr_sharding){ 0 });
  int64_t sum = -1;
  CHECK_STATUS(tsr_read_i64(tsr_sum(x), &sum), expected, s);
  CHECK_I64(sum, expected ? -1 : count * (count - 1) / 2);
  tsr_scope_close(s);
}

TEST(nobody_waits_for_another_threads_program)
{
  long_work l = { .self = pthread_self() };
  pthread_t thread;
  l.rt = tsr_runtime_open("cpu:2", .threads = 2, .progress = on_progress, .progress_user = &l);
  CHECK(!pthread_create(&thread, NULL, work_long, &l));
  while (!l.still) usleep(1000);
  for (int i = 0; i < 100; i++) sum_up(&l, 10, TSR_OK);
  sum_up(&l, 3000000, TSR_OK);
  CHECK(l.asked > 0);
  l.cancel = true;
  usleep(30000); /* it was asked just now */
  sum_up(&l, 3000000, TSR_ECANCELLED);
  l.end = l.go_on = true;
  pthread_join(thread, NULL);
  tsr_runtime_close(l.rt);
}

/* ---- callbacks that use the library ---- */

typedef struct owner {
  tsr_scope *outer;
  tsr_array *beside; /* of it */
  int released;
  double sum;
} owner;

static void release_and_compute(void *data, void *user)
{
  owner *o = user;
  free(data);
  tsr_scope *s = tsr_scope_open(o->outer);
  tsr_array *x = tsr_iota(s, TSR_F64, TSR_SHAPE(200000), 0, (tsr_sharding){ 0 });
  double a = 0, b = 0;
  CHECK_STATUS(tsr_read_scalar(tsr_sum(x), &a), TSR_OK, s);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_add(o->beside, 1)), &b), TSR_OK, s);
  o->sum = a + b;
  o->released++;
  tsr_scope_close(s);
}

static tsr_array *adopt(owner *o, tsr_scope *s)
{
  double *data = aligned_alloc(64, 100000 * sizeof *data);
  for (int i = 0; i < 100000; i++) data[i] = 1;
  return tsr_adopt(s, data, TSR_F64, TSR_SHAPE(100000), .release = release_and_compute, .user = o);
}

/* The last reference goes with the scope, by tsr_delete, and at the end of the run that used it. */
TEST(a_release_callback_may_compute)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 2);
  tsr_scope *outer = tsr_scope_open(rt), *s = tsr_scope_open(outer);
  owner o = { .outer = outer };
  o.beside = tsr_iota(outer, TSR_F64, TSR_SHAPE(10), 0, (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_eval(&o.beside, 1), TSR_OK, outer);
  int64_t nodes = tsr_scope_node_count(outer);
  adopt(&o, s);
  tsr_scope_close(s);
  CHECK_I64(o.released, 1);
  s = tsr_scope_open(outer);
  tsr_delete(adopt(&o, s));
  CHECK_I64(o.released, 2);
  tsr_array *a = adopt(&o, s), *sum = tsr_sum(a);
  tsr_delete(a);
  double found = 0;
  CHECK_STATUS(tsr_read_scalar(sum, &found), TSR_OK, s);
  CHECK_F64_BITS(found, 100000);
  CHECK_I64(o.released, 3);
  CHECK_F64_BITS(o.sum, 199999.0 * 100000 + 55);
  tsr_scope_close(s);
  CHECK_I64(tsr_scope_node_count(outer), nodes);
  tsr_runtime_close(rt);
  CHECK_I64(o.released, 3);
}

/* ---- small stacks ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STACK = 2 << 20 }; /* frames are several times as large */
#else
enum { STACK = 256 << 10 };
#endif

static void *use_all(void *user)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, user);
  tsr_frame *sums = tsr_frame_group_agg(df, "k", "s = sum(v), m = median(v)");
  tsr_frame *joined = tsr_frame_sort(tsr_frame_join(df, sums, "k"), "v desc, k");
  char deep[4096] = "v";
  for (int i = 0; i < 90; i++) {
    memmove(deep + 1, deep, strlen(deep) + 1);
    deep[0] = '(';
    strcat(deep, " + 1)");
  }
  joined = tsr_frame_assign(joined, "w", deep);
  joined = tsr_frame_assign(joined, "u", "upper(t)");
  tsr_table *table = NULL;
  tsr_status status = tsr_frame_collect(joined, &table);
  bool right = !status && tsr_table_i64(table, 0, tsr_table_find(table, "w")) == 49999 + 90;
  right = right && !tsr_frame_write_csv(joined, test_tmp("small_out.csv"));
  right = right && strlen(tsr_frame_explain(joined)) > 100 && strlen(tsr_frame_text(joined)) > 100;
  static char why[500];
  snprintf(why, sizeof why, "%s", right ? "" : tsr_message(s));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return right ? NULL : why;
}

TEST_TIMEOUT(a_thread_of_256_kib_is_enough, 120)
{
  const char *path = test_tmp("small.csv");
  FILE *file = fopen(path, "w");
  fprintf(file, "k,v,t\n");
  for (int i = 0; i < 50000; i++) fprintf(file, "%d,%d,\"a %d\"\n", i % 1000, i, i % 77);
  fclose(file);
  pthread_attr_t attr;
  pthread_t thread;
  void *why = NULL;
  pthread_attr_init(&attr);
  CHECK(!pthread_attr_setstacksize(&attr, STACK));
  CHECK(!pthread_create(&thread, &attr, use_all, (void *)path));
  pthread_join(thread, &why);
  if (why) FAIL("%s", (char *)why);
}
