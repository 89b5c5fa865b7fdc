/* Long work stops wherever the progress callback asks for it, and leaves nothing behind.
 *
 * With the gap between two calls set to 0 the callback is called at every place where work can
 * stop, so that places can be counted and each be tried; no clock is needed. With CANCEL_ROWS=n
 * (`make torture`) a report of measured times is printed as well: how long until a request, made at
 * a random moment, ends the call, on one thread. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "harness.h"
#include "support/first_axis.h"
#include "tessera.h"
#include "tessera/arrow.h"
#include "tessera/io.h"

enum { DEVICES = 2, LEAST_ROWS_A_CALL = 131072, KEPT_BLOCKS = 4 };

/* ---- the callback ---- */

typedef struct asker {
  int64_t calls, stop_at; /* stop_at: the call that cancels; 0 = none */
  int64_t stopped;        /* calls that said so */
  double last, gap;       /* seconds: the last call, the longest time between two */
  double request;         /* when somebody asks for an end; 0 = nobody does */
} asker;

/* Seconds of processor time: what others do on the machine does not show. */
static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool on_progress(const char *what, int64_t done, int64_t total, void *user)
{
  asker *a = user;
  double at = now();
  CHECK(what && done >= 0 && total >= 0);
  if (at - a->last > a->gap) a->gap = at - a->last;
  a->last = at;
  bool stop = ++a->calls == a->stop_at || (a->request > 0 && at >= a->request);
  a->stopped += stop;
  return !stop;
}

/* ---- what is worked on ---- */

typedef struct world {
  asker ask;
  struct test_alloc memory;
  tsr_allocator allocator;
  tsr_runtime *rt;
  tsr_mesh *mesh;
  tsr_scope *scope;
  tsr_frame
      *table; /* k: all different, g: 1,000 values, h: one value, x: floats, t: texts, d: days */
  tsr_array *x;
  double *host;
  int64_t rows;
  bool timed; /* only how long it takes counts: results are not looked at */
} world;

static void make_world(world *w, int64_t rows, bool timed)
{
  char devices[16];
  snprintf(devices, sizeof devices, "cpu:%d", DEVICES);
  *w = (world){ .rows = rows, .timed = timed };
  w->allocator = test_allocator(&w->memory); /* fills all that it gives, which takes its time */
  w->rt = tsr_runtime_open(devices, .threads = 1, .progress = on_progress, .progress_user = &w->ask,
                           .allocator = timed ? NULL : &w->allocator);
  w->mesh = tsr_mesh_default(w->rt, "data");
  w->scope = tsr_scope_open(w->rt);
  tsr_scope *s = w->scope;
  tsr_sharding at = tsr_on(w->mesh, "data");
  tsr_array *n = tsr_iota(s, TSR_I64, TSR_SHAPE(rows), 0, at);
  w->x = tsr_uniform(s, .key = 7, .shape = TSR_SHAPE(rows), .on = at, .dtype = TSR_F64);
  tsr_frame *df = tsr_frame_new(s, { "k", tsr_mod(tsr_mul(n, 2654435761), rows * 2 + 1) },
                                { "g", tsr_mod(n, 1000) },
                                { "h", tsr_full(s, 7, TSR_I64, TSR_SHAPE(rows), at) },
                                { "x", w->x }, { "d", tsr_cast(tsr_mod(n, 20000), TSR_I32) });
  const char **texts = malloc((size_t)rows * sizeof *texts);
  char *words = malloc((size_t)rows * 24);
  w->host = malloc((size_t)rows * sizeof *w->host);
  for (int64_t i = 0; i < rows; i++) {
    texts[i] = words + 24 * i;
    snprintf(words + 24 * i, 24, "w%lld", (long long)(i * 7919 % (rows / 4 + 1)));
    w->host[i] = (double)i;
  }
  df = tsr_frame_text_column(df, "t", texts, rows);
  w->table = tsr_frame_keep(s, df);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  free(texts);
  free(words);
}

static void end_world(world *w)
{
  tsr_scope_close(w->scope);
  tsr_runtime_close(w->rt);
  CHECK_I64(w->memory.live, 0);
  free(w->host);
}

/* A scope to work in, and the table in it. */
typedef struct place {
  world *w;
  tsr_scope *s;
  tsr_frame *df;
} place;

/* ---- results in short ---- */

static uint64_t digest;

static tsr_status take_table(tsr_frame *df)
{
  tsr_table *table;
  tsr_status status = tsr_frame_collect(df, &table);
  if (status) return status;
  int64_t rows = tsr_table_row_count(table), step = rows / 64 + 1;
  digest = tsr__hash(&rows, sizeof rows, 1);
  for (int64_t r = 0; r < rows; r += step)
    for (int c = 0; c < tsr_table_column_count(table); c++) {
      const char *text = tsr_table_text(table, r, c);
      digest = tsr__hash(text ? text : "-", text ? strlen(text) : 1, digest);
    }
  return TSR_OK;
}

static tsr_status take_rows(tsr_frame *df)
{
  int64_t rows = 0;
  tsr_status status = tsr_frame_row_count(df, &rows);
  digest = (uint64_t)rows;
  return status;
}

static tsr_status take_number(tsr_array *a)
{
  double value = 0;
  tsr_status status = tsr_read_scalar(a, &value);
  memcpy(&digest, &value, sizeof digest);
  return status;
}

static tsr_status take_file(const place *p, const char *name, tsr_status status)
{
  size_t length;
  if (status || p->w->timed) return status;
  char *bytes = test_read(test_tmp(name), &length);
  digest = tsr__hash(bytes, length, 3);
  free(bytes);
  return TSR_OK;
}

/* ---- the work ---- */

static tsr_status draws(place *p)
{
  tsr_sharding at = tsr_on(p->w->mesh, "data");
  return take_number(
      tsr_sum(tsr_uniform(p->s, .key = 1, .shape = TSR_SHAPE(8 * p->w->rows), .on = at)));
}

static tsr_status poisson(place *p)
{
  tsr_sharding at = tsr_on(p->w->mesh, "data");
  return take_number(
      tsr_sum(tsr_poisson(p->s, 9, .key = 1, .shape = TSR_SHAPE(4 * p->w->rows), .on = at)));
}

static tsr_status functions(place *p)
{
  tsr_array *x = tsr_keep(p->s, p->w->x), *y = x;
  for (int i = 0; i < 6; i++) y = tsr_log1p(tsr_exp(y));
  tsr_status status = tsr_eval(&y, 1);
  return status ? status : take_number(tsr_max(y));
}

static tsr_array *grid(place *p, int64_t columns)
{
  return tsr_uniform(p->s, .key = 2, .shape = TSR_SHAPE(4 * p->w->rows / columns, columns),
                     .on = tsr_on(p->w->mesh, "data,-"), .dtype = TSR_F64);
}

static tsr_status sum_of_each_row(place *p)
{
  return take_number(tsr_max(tsr_sum(grid(p, 4), .dims = TSR_DIMS(1))));
}

static tsr_status sum_of_each_column(place *p)
{
  tsr_array *sums = tsr_sum(grid(p, p->w->rows), .dims = TSR_DIMS(0));
  tsr_status status = tsr_eval(&sums, 1);
  return status ? status : take_number(tsr_max(sums));
}

static tsr_status reshard(place *p)
{
  tsr_array *a = grid(p, 16), *b = tsr_reshard(a, tsr_on(p->w->mesh, "-,data"));
  tsr_status status = tsr_eval(&b, 1);
  return status ? status : take_number(tsr_sum(b));
}

static tsr_status read_array(place *p)
{
  size_t bytes = (size_t)p->w->rows * 64;
  double *out = malloc(bytes);
  tsr_array *a = tsr_uniform(p->s, .key = 3, .shape = TSR_SHAPE(8 * p->w->rows),
                             .on = tsr_on(p->w->mesh, "data"), .dtype = TSR_F64);
  tsr_status status = tsr_read(a, out, bytes);
  if (!status && !p->w->timed) digest = tsr__hash(out, bytes, 5);
  free(out);
  return status;
}

static tsr_status put_array(place *p)
{
  tsr_array *a =
      tsr_put(p->s, p->w->host, TSR_F64, TSR_SHAPE(p->w->rows), tsr_on(p->w->mesh, "data"));
  return take_number(tsr_sum(a));
}

static tsr_status take_elements(place *p)
{
  tsr_array *x = tsr_reshard(tsr_keep(p->s, p->w->x), tsr_on(p->w->mesh, "-"));
  tsr_array *n = tsr_iota(p->s, TSR_I64, TSR_SHAPE(p->w->rows), 0, tsr_on(p->w->mesh, "data"));
  tsr_array *at = tsr_mod(tsr_mul(n, 48271), p->w->rows);
  return take_number(tsr_sum(tsr_take(x, at, 0)));
}

/* Both ways through a grid: short lines, and long ones of which each has its neighbours. */
static tsr_status cumulate(place *p)
{
  tsr_array *sums = tsr_cumsum(tsr_cumsum(grid(p, 4), 1), 0);
  return take_number(tsr_sum(tsr_cumprod(tsr_cummin(tsr_cummax(sums, 0), 1), 0)));
}

/* Short lines, and one that all workers sort together. */
static tsr_status sort_lines(place *p)
{
  tsr_array *few = tsr_sort(grid(p, 4), 1), *many = tsr_argsort(tsr_keep(p->s, p->w->x), 0);
  return take_number(tsr_sum(tsr_take(tsr_cumsum(few, 0), tsr_mod(many, 1000), 0)));
}

static tsr_status scatter(place *p)
{
  tsr_array *x = tsr_keep(p->s, p->w->x);
  tsr_array *n = tsr_iota(p->s, TSR_I64, TSR_SHAPE(p->w->rows), 0, tsr_on(p->w->mesh, "data"));
  tsr_array *at = tsr_mod(tsr_mul(n, 48271), 1000);
  tsr_array *none = tsr_full(p->s, 0, TSR_F64, TSR_SHAPE(1000), tsr_on(p->w->mesh, "-"));
  return take_number(tsr_sum(tsr_scatter_add(none, at, x, 0)));
}

static tsr_status multiply(place *p)
{
  tsr_array *a = grid(p, 64), *b = tsr_uniform(p->s, .key = 3, .shape = TSR_SHAPE(64, 256));
  return take_number(tsr_sum(tsr_matmul(a, b)));
}

static tsr_status save_npy(place *p)
{
  return take_file(p, "c.npy", tsr_save_npy(grid(p, 4), test_tmp("c.npy")));
}

static tsr_status read_npy(place *p)
{
  return take_number(tsr_sum(tsr_load_npy(p->s, test_tmp("in.npy"), tsr_on(p->w->mesh, "data,-"))));
}

static tsr_status save_npz(place *p)
{
  return take_file(p, "c.npz",
                   tsr_save_npz(p->s, test_tmp("c.npz"), { "a", grid(p, 4) },
                                { "b", tsr_keep(p->s, p->w->x) }));
}

static tsr_status read_npz(place *p)
{
  tsr_npz *npz = tsr_load_npz(p->s, test_tmp("in.npz"));
  return take_number(tsr_sum(tsr_npz_array(npz, "a", tsr_on(p->w->mesh, "data,-"))));
}

static tsr_status aggregate(place *p)
{
  return take_table(tsr_frame_agg(tsr_frame_filter(p->df, "x > 0.25"), "sum(x), std(x), max(k)"));
}

static tsr_status collect_some(place *p)
{
  return take_table(tsr_frame_filter(p->df, "x > 0.25 and g != 3"));
}

static tsr_status collect_all(place *p)
{
  return take_table(tsr_frame_assign(p->df, "y", "x * 2 + g"));
}

static tsr_status sort_floats(place *p)
{
  return take_table(tsr_frame_sort(p->df, "x desc"));
}

static tsr_status sort_texts(place *p)
{
  return take_table(tsr_frame_sort(p->df, "t, k"));
}

static tsr_status sort_equal(place *p)
{
  return take_table(tsr_frame_sort(p->df, "h"));
}

static tsr_status join_all(place *p)
{
  tsr_frame *right = tsr_frame_select(p->df, "k, y = x");
  return take_table(tsr_frame_join(p->df, right, "k"));
}

static tsr_status join_texts(place *p)
{
  tsr_frame *right = tsr_frame_distinct(tsr_frame_select(p->df, "u = t, y = x"), "u");
  return take_table(tsr_frame_join(p->df, right, "t = u", .how = TSR_JOIN_LEFT));
}

static tsr_status join_one_to_all(place *p)
{
  return take_rows(tsr_frame_join(tsr_frame_head(p->df, 2), p->df, "h"));
}

static tsr_status join_all_to_few(place *p)
{
  return take_rows(tsr_frame_join(p->df, tsr_frame_head(p->df, 4), "h"));
}

static tsr_status join_semi(place *p)
{
  tsr_frame *right = tsr_frame_filter(p->df, "x > 0.5");
  return take_rows(tsr_frame_join(p->df, right, "k", .how = TSR_JOIN_SEMI));
}

static tsr_status group_few(place *p)
{
  return take_table(tsr_frame_group_agg(p->df, "g", "sum(x), count(), max(t)"));
}

static tsr_status group_many(place *p)
{
  return take_table(tsr_frame_group_agg(p->df, "k, t", "sum(x), min(g)"));
}

static tsr_status group_medians(place *p)
{
  return take_table(tsr_frame_group_agg(p->df, "g", "median(x), nunique(t), first(k)"));
}

static tsr_status group_one(place *p)
{
  return take_table(tsr_frame_group_agg(p->df, "h", "median(x), quantile(k, 0.3), nunique(k)"));
}

static tsr_status medians(place *p)
{
  return take_table(tsr_frame_agg(p->df, "median(x), nunique(t), last(k)"));
}

static tsr_status describe(place *p)
{
  return take_table(tsr_frame_describe(p->df));
}

static tsr_status value_counts(place *p)
{
  return take_table(tsr_frame_value_counts(p->df, "t"));
}

static tsr_status distinct(place *p)
{
  return take_table(tsr_frame_distinct(p->df, "t, g"));
}

static tsr_status group_head(place *p)
{
  return take_table(tsr_frame_group_head(tsr_frame_sort(p->df, "x"), "g", 3));
}

static tsr_status concat(place *p)
{
  tsr_frame *other = tsr_frame_assign(p->df, "t", "concat(t, 'z')");
  return take_table(tsr_frame_concat(p->df, other, p->df));
}

static tsr_status sample(place *p)
{
  return take_table(tsr_frame_sample(p->df, .rows = p->w->rows / 3, .seed = 5));
}

static tsr_status rebalance(place *p)
{
  return take_table(tsr_frame_rebalance(tsr_frame_filter(p->df, "k < 1000000 or x < 0.5")));
}

static tsr_status gather(place *p)
{
  return take_table(tsr_frame_gather(p->df));
}

static tsr_status replicate(place *p)
{
  return take_table(tsr_frame_scatter(p->df, tsr_on(p->w->mesh, "-")));
}

static tsr_status text_functions(place *p)
{
  return take_table(
      tsr_frame_assign(p->df, "u", "replace(upper(concat(t, '-', slice(t, 1, 3))), '1', 'one')"));
}

static tsr_status to_text(place *p)
{
  return take_table(tsr_frame_assign(p->df, "u", "concat(cast(g, 'text'), t)"));
}

static tsr_status numbers_to_text(place *p)
{
  return take_table(tsr_frame_select(p->df, "a = cast(k, 'text'), b = cast(x, 'text')"));
}

static tsr_status texts_in_order(place *p)
{
  return take_table(tsr_frame_select(p->df, "a = t < concat(t, 'z'), b = cast(slice(t, 1), 'f64'), "
                                            "c = t in ('w1', 'w2'), d = t >= 'w3'"));
}

static tsr_status one_column(place *p)
{
  return take_number(tsr_sum(tsr_frame_column(tsr_frame_filter(p->df, "g < 900"), "x")));
}

static tsr_status print(place *p)
{
  const char *text = tsr_frame_text(tsr_frame_sort(p->df, "k"));
  digest = tsr__hash(text, strlen(text), 1);
  return tsr_scope_status(p->s);
}

static tsr_status write_csv(place *p)
{
  return take_file(p, "c.csv", tsr_frame_write_csv(p->df, test_tmp("c.csv")));
}

static tsr_status write_gzip(place *p)
{
  return take_file(p, "c.csv.gz", tsr_frame_write_csv(p->df, test_tmp("c.csv.gz")));
}

static tsr_status write_json(place *p)
{
  return take_file(p, "c.jsonl", tsr_frame_write_json(p->df, test_tmp("c.jsonl")));
}

static tsr_status read_csv(place *p)
{
  return take_table(tsr_frame_read_csv(p->s, test_tmp("in.csv"), .on = first_axis(p->w->mesh)));
}

static tsr_status read_csv_carefully(place *p)
{
  int64_t bad;
  return take_table(tsr_frame_read_csv(p->s, test_tmp("in.csv"), .on = first_axis(p->w->mesh),
                                       .bad_rows = TSR_BAD_ROWS_SKIP, .bad_rows_found = &bad));
}

static tsr_status read_gzip(place *p)
{
  return take_table(tsr_frame_read_csv(p->s, test_tmp("in.csv.gz"), .on = first_axis(p->w->mesh)));
}

static tsr_status read_zstd(place *p)
{
  return take_table(tsr_frame_read_csv(p->s, test_tmp("in.csv.zst"), .on = first_axis(p->w->mesh)));
}

static tsr_status read_json(place *p)
{
  return take_table(tsr_frame_read_json(p->s, test_tmp("in.jsonl"), .on = first_axis(p->w->mesh)));
}

static tsr_status through_arrow(place *p)
{
  struct ArrowArrayStream stream;
  tsr_status status = tsr_frame_to_arrow(tsr_frame_filter(p->df, "x > 0.1"), &stream);
  if (status) return status;
  return take_table(tsr_frame_from_arrow(p->s, &stream, .on = first_axis(p->w->mesh)));
}

typedef struct job {
  const char *name;
  tsr_status (*run)(place *p);
} job;

#define WORK(fn) \
  {              \
#fn, fn      \
  }
static const job works[] = {
  WORK(draws),
  WORK(poisson),
  WORK(functions),
  WORK(sum_of_each_row),
  WORK(sum_of_each_column),
  WORK(reshard),
  WORK(read_array),
  WORK(put_array),
  WORK(take_elements),
  WORK(cumulate),
  WORK(sort_lines),
  WORK(scatter),
  WORK(multiply),
  WORK(save_npy),
  WORK(read_npy),
  WORK(save_npz),
  WORK(read_npz),
  WORK(aggregate),
  WORK(collect_some),
  WORK(collect_all),
  WORK(sort_floats),
  WORK(sort_texts),
  WORK(sort_equal),
  WORK(join_all),
  WORK(join_texts),
  WORK(join_one_to_all),
  WORK(join_all_to_few),
  WORK(join_semi),
  WORK(group_few),
  WORK(group_many),
  WORK(group_medians),
  WORK(group_one),
  WORK(medians),
  WORK(describe),
  WORK(value_counts),
  WORK(distinct),
  WORK(group_head),
  WORK(concat),
  WORK(sample),
  WORK(rebalance),
  WORK(gather),
  WORK(replicate),
  WORK(text_functions),
  WORK(to_text),
  WORK(numbers_to_text),
  WORK(texts_in_order),
  WORK(one_column),
  WORK(print),
  WORK(write_csv),
  WORK(write_gzip),
  WORK(write_json),
  WORK(read_csv),
  WORK(read_csv_carefully),
  WORK(read_gzip),
  WORK(read_zstd),
  WORK(read_json),
  WORK(through_arrow),
};
enum { WORKS = sizeof works / sizeof *works };

/* The files that are read. */
static void make_files(world *w)
{
  place p = { w, tsr_scope_open(w->scope), NULL };
  tsr_frame *df = tsr_frame_keep(p.s, w->table);
  tsr_array *a = grid(&p, 4);
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("in.csv")), TSR_OK, p.s);
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("in.csv.gz")), TSR_OK, p.s);
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("in.csv.zst")), TSR_OK, p.s);
  CHECK_STATUS(tsr_frame_write_json(df, test_tmp("in.jsonl")), TSR_OK, p.s);
  CHECK_STATUS(tsr_save_npy(a, test_tmp("in.npy")), TSR_OK, p.s);
  CHECK_STATUS(tsr_save_npz(p.s, test_tmp("in.npz"), { "a", a }), TSR_OK, p.s);
  tsr_scope_close(p.s);
}

/* ---- running it ---- */

static tsr_status run(world *w, const job *work, char message[400])
{
  place p = { w, tsr_scope_open(w->scope), NULL };
  p.df = tsr_frame_keep(p.s, w->table);
  digest = 0;
  w->ask.calls = w->ask.stopped = 0;
  w->ask.last = now();
  w->ask.gap = 0;
  tsr_status status = work->run(&p);
  double gap = now() - w->ask.last;
  if (gap > w->ask.gap) w->ask.gap = gap;
  snprintf(message, 400, "%s", tsr_message(p.s));
  tsr_scope_close(p.s);
  return status;
}

typedef struct held {
  int64_t blocks, bytes;
  int files;
} held;

static int count_files(void)
{
  int count = 0;
  DIR *dir = opendir(test_tmp(""));
  CHECK(dir != NULL);
  for (struct dirent *entry; (entry = readdir(dir));)
    count += strstr(entry->d_name, ".tmp") != NULL;
  closedir(dir);
  return count;
}

static held what_is_held(world *w)
{
  held h = { .blocks = atomic_load(&w->rt->heap.live), .files = count_files() };
  for (int d = 0; d < DEVICES; d++) h.bytes += tsr_device_memory(w->rt, d).now;
  return h;
}

/* Blocks kept for reuse come and go, a few at a time. */
static void check_held(world *w, const char *name, int64_t at, held before)
{
  held after = what_is_held(w);
  if (after.blocks > before.blocks + KEPT_BLOCKS || after.bytes != before.bytes ||
      after.files != before.files)
    FAIL("%s cancelled at call %lld: %lld blocks, %lld bytes and %d files are left", name,
         (long long)at, (long long)(after.blocks - before.blocks),
         (long long)(after.bytes - before.bytes), after.files - before.files);
}

/* Cancels at call `at`: nobody asks again, and no more is held than before. */
static void cancel_at(world *w, const job *work, int64_t at, held before)
{
  char message[400];
  w->ask.stop_at = at;
  tsr_status status = run(w, work, message);
  w->ask.stop_at = 0;
  if (status != TSR_ECANCELLED || !strstr(message, "cancelled"))
    FAIL("%s cancelled at call %lld: %s: %s", work->name, (long long)at, tsr_status_name(status),
         message);
  if (w->ask.calls != at)
    FAIL("%s cancelled at call %lld goes on for %lld calls", work->name, (long long)at,
         (long long)(w->ask.calls - at));
  check_held(w, work->name, at, before);
}

static void run_whole(world *w, const job *work, uint64_t right, bool known)
{
  char message[400];
  tsr_status status = run(w, work, message);
  if (status) FAIL("%s: %s: %s", work->name, tsr_status_name(status), message);
  if (known && digest != right) FAIL("%s: another result after it was cancelled", work->name);
}

TEST_TIMEOUT(each_place_to_stop_leaves_nothing_behind, 300)
{
  enum { EACH = 8 };
  world w;
  test_rng rng = test_seeded(11);
  make_world(&w, test_quick() ? 3000 : 20000, false);
  make_files(&w);
  w.rt->progress_gap = 0;
  for (int i = 0; i < WORKS; i++) {
    run_whole(&w, &works[i], 0, false);
    uint64_t right = digest;
    run_whole(&w, &works[i], right, true);
    int64_t calls = w.ask.calls;
    held before = what_is_held(&w);
    CHECK(calls > 0);
    for (int64_t at = 1; at <= calls; at++) {
      bool some = at <= EACH || at > calls - EACH || test_range(&rng, 1, calls) <= EACH;
      if (some) cancel_at(&w, &works[i], at, before);
    }
    run_whole(&w, &works[i], right, true);
  }
  end_world(&w);
}

TEST_TIMEOUT(long_work_can_stop_often, 300)
{
  if (test_quick()) SKIP("long");
  bool all = true;
  world w;
  make_world(&w, 1 << 19, false);
  make_files(&w);
  w.rt->progress_gap = 0;
  for (int i = 0; i < WORKS; i++) {
    run_whole(&w, &works[i], 0, false);
    bool often = w.ask.calls >= w.rows / LEAST_ROWS_A_CALL;
    if (!often)
      printf("# %s asks the callback %lld times in %lld rows\n", works[i].name,
             (long long)w.ask.calls, (long long)w.rows);
    all = all && often;
  }
  CHECK(all);
  end_world(&w);
}

/* ---- measured ---- */

static int by_size(const void *a, const void *b)
{
  const double *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

static void measure(world *w, const job *work)
{
  enum { TIMES = 9 };
  double latency[TIMES];
  char message[400];
  test_rng rng = test_seeded(5);
  double start = now();
  run_whole(w, work, 0, false);
  double whole = now() - start, gap = w->ask.gap;
  for (int i = 0; i < TIMES; i++) {
    w->ask.request = now() + whole * test_uniform(&rng);
    double request = w->ask.request;
    tsr_status status = run(w, work, message);
    double end = now();
    w->ask.request = 0;
    CHECK(status == TSR_OK || status == TSR_ECANCELLED);
    latency[i] = status && end > request ? end - request : 0;
  }
  qsort(latency, TIMES, sizeof *latency, by_size);
  printf(
      "# %-20s %7.2f s  longest silence %6.1f ms  request to return: median %6.1f, most %6.1f ms\n",
      work->name, whole, 1e3 * gap, 1e3 * latency[TIMES / 2], 1e3 * latency[TIMES - 1]);
  fflush(stdout);
}

TEST_TIMEOUT(report_of_measured_times, 3000)
{
  const char *rows = getenv("CANCEL_ROWS"), *only = getenv("CANCEL_ONLY");
  if (!rows) SKIP("CANCEL_ROWS=10000000 prints how long it takes until cancelled work returns");
  world w;
  make_world(&w, atoll(rows), true);
  make_files(&w);
  for (int i = 0; i < WORKS; i++)
    if (!only || strstr(works[i].name, only)) measure(&w, &works[i]);
  end_world(&w);
}
