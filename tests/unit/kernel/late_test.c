/* Devices whose entries return before their work is over: when the host waits, which queue waits
 * for which, and when memory that is given back is taken again. */
#include "harness.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/fallback/fallback.h"
#include "support/late_devices.h"
#include "tessera.h"

enum { N = 64, BYTES = N * (int)sizeof(int64_t), TIMES = 40 };

typedef struct world {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
  const tsr__device_ops *ops;
} world;

static world open_world(const tsr_runtime_opts *opts)
{
  world w = { .rt = tsr_runtime_open_with("cpu:2", opts) };
  CHECK_STATUS(tsr_runtime_status(w.rt), TSR_OK, NULL);
  CHECK_STATUS(late_install(w.rt), TSR_OK, NULL);
  w.s = tsr_scope_open(w.rt);
  w.mesh = tsr_mesh_make(w.rt, "x=2");
  w.ops = tsr__devices_of(w.rt)->ops;
  return w;
}

static void close_world(world *w)
{
  tsr_scope_close(w->s);
  tsr_runtime_close(w->rt);
}

static tsr__buffer *take(const world *w, int device)
{
  tsr__error error = { 0 };
  tsr__buffer *buffer = w->ops->take(w->rt, device, BYTES, &error);
  CHECK_STATUS(error.status, TSR_OK, NULL);
  CHECK(buffer);
  return buffer;
}

static tsr__box_copy whole(void)
{
  static const int64_t zero = 0, count = N;
  return (tsr__box_copy){ .dtype = TSR_I64,
                          .rank = 1,
                          .from_dims = &count,
                          .from_start = &zero,
                          .to_dims = &count,
                          .to_start = &zero,
                          .size = &count };
}

static void copy_whole(const world *w, const tsr__buffer *from, tsr__buffer *to)
{
  tsr__box_copy copy = whole();
  w->ops->copy(&copy, from, to, &(tsr__traffic){ 0 });
}

/* Checks that a buffer has first, first + 1, ... */
static void check_numbers(const world *w, const tsr__buffer *buffer, int64_t first)
{
  int64_t host[N];
  tsr__box_copy copy = whole();
  w->ops->to_host(&copy, buffer, host);
  for (int i = 0; i < N; i++) CHECK_I64(host[i], first + i);
}

static int64_t bytes_in_use(const world *w, int device)
{
  return w->ops->memory(w->rt, device).now;
}

/* ---- order ----------------------------------------------------------------------------------- */

TEST(work_is_queued_until_the_host_reads)
{
  world w = open_world(NULL);
  late_hold(w.rt, true);
  tsr__buffer *a = take(&w, 0), *b = take(&w, 1);
  w.ops->number(a, 7, N);
  copy_whole(&w, a, b);
  CHECK(late_pieces(w.rt) >= 2);
  CHECK_I64(late_waits(w.rt), 0);
  check_numbers(&w, b, 7);
  CHECK_I64(late_waits(w.rt), 1);
  tsr__buffer_release(a);
  tsr__buffer_release(b);
  close_world(&w);
}

/* Either queue may be first by chance, if nothing orders them. */
TEST(a_writer_waits_for_readers_of_other_devices)
{
  world w = open_world(NULL);
  tsr__buffer *a = take(&w, 0), *b = take(&w, 1);
  for (int i = 0; i < TIMES; i++) {
    late_hold(w.rt, true);
    w.ops->number(a, i, N);
    copy_whole(&w, a, b);
    w.ops->number(a, -i, N);
    late_hold(w.rt, i % 2);
    check_numbers(&w, b, i);
    check_numbers(&w, a, -i);
  }
  tsr__buffer_release(a);
  tsr__buffer_release(b);
  close_world(&w);
}

/* The mirror is brought to the device in order, too. */
TEST(what_the_host_writes_waits_for_readers)
{
  world w = open_world(NULL);
  tsr__error error = { 0 };
  tsr__buffer *a = take(&w, 0), *b = take(&w, 1);
  for (int i = 0; i < TIMES; i++) {
    late_hold(w.rt, true);
    w.ops->number(a, i, N);
    copy_whole(&w, a, b);
    int64_t *staging = w.ops->staging_open(a, false, &error);
    CHECK(staging);
    for (int k = 0; k < N; k++) staging[k] = 1000 + k;
    w.ops->staging_close(a, staging, true);
    check_numbers(&w, b, i);
    check_numbers(&w, a, 1000);
  }
  tsr__buffer_release(a);
  tsr__buffer_release(b);
  close_world(&w);
}

/* ---- memory ---------------------------------------------------------------------------------- */

TEST(memory_is_kept_until_its_last_reader_is_over)
{
  world w = open_world(NULL);
  tsr__buffer *a = take(&w, 0), *b = take(&w, 1);
  int64_t one = bytes_in_use(&w, 0);
  tsr__buffer_release(take(&w, 0)); /* so that a take need not wait for memory */
  late_hold(w.rt, true);
  w.ops->number(a, 3, N);
  copy_whole(&w, a, b);
  tsr__buffer_release(a);
  tsr__buffer *c = take(&w, 0);
  CHECK_I64(bytes_in_use(&w, 0), 2 * one);
  w.ops->fill(c, 0xEE);
  check_numbers(&w, b, 3);
  tsr__queues_settle(tsr__devices_of(w.rt));
  CHECK_I64(bytes_in_use(&w, 0), one);
  tsr__buffer_release(b);
  tsr__buffer_release(c);
  CHECK_I64(bytes_in_use(&w, 0), 0);
  close_world(&w);
}

/* Rather than have more of it than before. */
TEST(a_take_waits_for_memory_on_its_way_back)
{
  world w = open_world(NULL);
  late_hold(w.rt, true);
  tsr__buffer *a = take(&w, 0);
  for (int i = 0; i < TIMES; i++) {
    w.ops->number(a, i, N);
    tsr__buffer_release(a);
    a = take(&w, 0);
  }
  CHECK_I64(w.ops->memory(w.rt, 0).peak, bytes_in_use(&w, 0));
  tsr__buffer_release(a);
  close_world(&w);
}

TEST(a_take_past_the_limit_waits_for_memory_too)
{
  world w = open_world(
      &(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .memory_limit = 3 * BYTES / 2 });
  late_hold(w.rt, true);
  tsr__buffer *a = take(&w, 0);
  w.ops->number(a, 1, N);
  tsr__buffer_release(a);
  tsr__buffer *b = take(&w, 0);
  CHECK_I64(late_pieces(w.rt), 0);
  tsr__buffer_release(b);
  close_world(&w);
}

/* ---- programs -------------------------------------------------------------------------------- */

static tsr_array *put_numbers(world *w, float *numbers)
{
  for (int i = 0; i < N; i++) numbers[i] = (float)i / 4 - 5;
  return tsr_put(w->s, numbers, TSR_F32, TSR_SHAPE(N), tsr_on(w->mesh, "x"));
}

/* A run queues its kernels, and waits for each device at its end at most. */
TEST(a_run_waits_at_its_end)
{
  world w = open_world(NULL);
  late_hold(w.rt, true);
  float numbers[N], out[N];
  tsr_array *x = put_numbers(&w, numbers), *y = tsr_add(tsr_mul(x, x), x);
  CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, w.s);
  CHECK_I64(late_pieces(w.rt), 0);
  CHECK(late_waits(w.rt) <= 2);
  CHECK_STATUS(tsr_read(y, out, sizeof out), TSR_OK, w.s);
  for (int i = 0; i < N; i++) CHECK_F32_BITS(out[i], numbers[i] * numbers[i] + numbers[i]);
  close_world(&w);
}

/* How often the host waits for a group by of rows over both devices, `keys` different ones. */
static int64_t waits_of_group_by(int64_t rows, int64_t keys, const char *aggregates)
{
  world w = open_world(NULL);
  int64_t *key = malloc((size_t)rows * sizeof *key);
  double *number = malloc((size_t)rows * sizeof *number);
  CHECK(key && number);
  for (int64_t i = 0; i < rows; i++) key[i] = i * 7919 % keys * 1000, number[i] = (double)i;
  tsr_array *k = tsr_put(w.s, key, TSR_I64, TSR_SHAPE(rows), tsr_on(w.mesh, "x"));
  tsr_array *v = tsr_put(w.s, number, TSR_F64, TSR_SHAPE(rows), tsr_on(w.mesh, "x"));
  tsr_frame *f = tsr_frame_new(w.s, { "k", k }, { "v", tsr_add(v, v) });
  late_hold(w.rt, true);
  int64_t before = late_waits(w.rt);
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_collect(tsr_frame_group_agg(f, "k", aggregates), &table), TSR_OK, w.s);
  int64_t waits = late_waits(w.rt) - before;
  CHECK_I64(tsr_table_row_count(table), keys);
  free(key);
  free(number);
  close_world(&w);
  return waits;
}

/* For the columns that it reads and for its results. Keys, groups and records are the host's, also
 * when they travel. */
TEST(a_group_by_waits_twice)
{
  CHECK_I64(waits_of_group_by(8, 3, "total = sum(v), n = count()"), 2);
  CHECK_I64(waits_of_group_by(8000, 7, "total = sum(v), n = count()"), 2);
  CHECK_I64(waits_of_group_by(8000, 4000, "total = sum(v), m = mean(v)"), 2);
  CHECK_I64(waits_of_group_by(300000, 300000, "total = sum(v), most = max(v)"), 2);
}

/* Sums over both devices, of numbers too far apart for the fixed part of a partial sum. */
static tsr_run_stats read_sums(world *w, double *out, size_t bytes)
{
  static const double far[] = { 1e300, 1, 1e-150, 1e-300 };
  double numbers[N];
  for (int i = 0; i < N; i++) numbers[i] = far[i / 4 % 4] * (i < N / 2 ? 1 : -1) + i % 4;
  tsr_array *x = tsr_put(w->s, numbers, TSR_F64, TSR_SHAPE(N / 4, 4), tsr_on(w->mesh, "x"));
  tsr_array *y = tsr_sum(x, .dims = TSR_DIMS(0));
  CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, w->s);
  tsr_run_stats stats = tsr_last_run(w->s);
  CHECK_STATUS(tsr_read(y, out, bytes), TSR_OK, w->s);
  return stats;
}

/* Bytes of sums beyond their fixed parts are known when the sums are over. */
TEST(sums_are_reduced_late_and_tell_their_traffic)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  world w = open_world(NULL), cpu = { rt, tsr_scope_open(rt), tsr_mesh_make(rt, "x=2"), NULL };
  double found[4], expected[4];
  const tsr_run_stats right = read_sums(&cpu, expected, sizeof expected);
  CHECK(right.bytes_escaped > 0);
  for (int i = 0; i < TIMES; i++) {
    late_hold(w.rt, i % 2);
    const tsr_run_stats stats = read_sums(&w, found, sizeof found);
    CHECK_I64(memcmp(found, expected, sizeof found), 0);
    CHECK_I64(stats.bytes_escaped, right.bytes_escaped);
    CHECK_I64(stats.bytes_counted, right.bytes_counted);
    CHECK_I64(stats.bytes_through_host, 0);
  }
  close_world(&cpu);
  close_world(&w);
}

TEST(results_take_the_memory_of_donated_operands)
{
  world w = open_world(NULL);
  float numbers[N], out[N], kept[N];
  for (int i = 0; i < TIMES; i++) {
    tsr_array *x = put_numbers(&w, numbers);
    tsr_array *before = tsr_reshard(x, tsr_on(w.mesh, "-"));
    CHECK_STATUS(tsr_eval(&before, 1), TSR_OK, w.s);
    tsr_array *y = tsr_neg(x);
    CHECK_STATUS(tsr_donate(x), TSR_OK, w.s);
    CHECK_STATUS(tsr_read(y, out, sizeof out), TSR_OK, w.s);
    CHECK_STATUS(tsr_read(before, kept, sizeof kept), TSR_OK, w.s);
    for (int k = 0; k < N; k++) CHECK_F32_BITS(out[k], -numbers[k]);
    for (int k = 0; k < N; k++) CHECK_F32_BITS(kept[k], numbers[k]);
  }
  close_world(&w);
}

static tsr_array *add_number(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(in[1], in[0]);
}

/* The number of a step is that of the call, though the next step has begun. */
TEST(steps_of_a_loop_keep_their_numbers)
{
  world w = open_world(NULL);
  late_hold(w.rt, true);
  int64_t numbers[N], out[N];
  for (int i = 0; i < N; i++) numbers[i] = 5 * i;
  tsr_array *x = tsr_put(w.s, numbers, TSR_I64, TSR_SHAPE(N), tsr_on(w.mesh, "x"));
  CHECK_STATUS(tsr_read(tsr_fori(0, 10, add_number, NULL, x), out, sizeof out), TSR_OK, w.s);
  for (int i = 0; i < N; i++) CHECK_I64(out[i], numbers[i] + 45);
  close_world(&w);
}

TEST(programs_that_are_started_are_waited_for)
{
  world w = open_world(NULL);
  float numbers[N], out[N];
  tsr_array *x = put_numbers(&w, numbers), *y = tsr_mul(x, x), *z = tsr_add(y, x);
  CHECK_STATUS(tsr_start(&y, 1), TSR_OK, w.s);
  CHECK_STATUS(tsr_start(&z, 1), TSR_OK, w.s);
  CHECK_STATUS(tsr_read(z, out, sizeof out), TSR_OK, w.s);
  for (int i = 0; i < N; i++) CHECK_F32_BITS(out[i], numbers[i] * numbers[i] + numbers[i]);
  close_world(&w);
}

/* The pieces of a kernel over both devices: each has the kernel's and that of its number. */
enum { KERNEL_PIECES = 4 };

static void await_pieces(const world *w, int64_t count)
{
  while (late_pieces(w->rt) < count) sched_yield();
}

/* Lets devices hold so much that no take waits for memory. */
static void allow_memory(const world *w)
{
  tsr__error error = { 0 };
  for (int d = 0; d < 2; d++) tsr__buffer_release(w->ops->take(w->rt, d, 1 << 16, &error));
}

/* A reader of a program's arrays waits for the program; no other call waits. */
TEST(a_program_is_queued_while_another_is_under_way)
{
  world w = open_world(NULL);
  float numbers[N], out[N];
  allow_memory(&w);
  tsr_array *x = put_numbers(&w, numbers), *y = tsr_mul(x, x), *z = tsr_add(x, x);
  tsr__queues_settle(tsr__devices_of(w.rt));
  late_stall(w.rt, true);
  CHECK_STATUS(tsr_start(&y, 1), TSR_OK, w.s);
  CHECK_STATUS(tsr_start(&z, 1), TSR_OK, w.s);
  await_pieces(&w, 2 * KERNEL_PIECES);
  late_stall(w.rt, false);
  CHECK_STATUS(tsr_read(z, out, sizeof out), TSR_OK, w.s);
  for (int i = 0; i < N; i++) CHECK_F32_BITS(out[i], numbers[i] + numbers[i]);
  CHECK_STATUS(tsr_read(y, out, sizeof out), TSR_OK, w.s);
  for (int i = 0; i < N; i++) CHECK_F32_BITS(out[i], numbers[i] * numbers[i]);
  close_world(&w);
}

TEST(a_program_that_nobody_reads_is_left_behind)
{
  world w = open_world(NULL);
  float numbers[N];
  allow_memory(&w);
  tsr_array *x = put_numbers(&w, numbers), *y = tsr_mul(x, x);
  tsr__queues_settle(tsr__devices_of(w.rt));
  late_stall(w.rt, true);
  CHECK_STATUS(tsr_start(&y, 1), TSR_OK, w.s);
  await_pieces(&w, KERNEL_PIECES);
  tsr_scope_close(w.s);
  late_stall(w.rt, false);
  w.s = tsr_scope_open(w.rt);
  close_world(&w);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static tsr_array *look_up(world *w, tsr_array *table, const int32_t *at, int count)
{
  return tsr_take(table, tsr_put(w->s, at, TSR_I32, TSR_SHAPE(count), tsr_on(w->mesh, "x")), 0);
}

/* Reads the sum of two look-ups with indices out of range, each in a kernel of its own. */
static void read_bad_sum(world *w, char *message, size_t size)
{
  static const int32_t bad[] = { 0, 1, 70, 71 }, worse[] = { 90, 0, 0, 91 };
  static const float small[] = { 1, 2 };
  float out[4];
  tsr_sharding cut = tsr_on(w->mesh, "x"), whole = tsr_on(w->mesh, "-");
  tsr_array *table = tsr_put(w->s, small, TSR_F32, TSR_SHAPE(2), whole);
  tsr_array *x = look_up(w, table, bad, 4), *y = look_up(w, table, worse, 4);
  tsr_array *moved = tsr_reshard(tsr_reshard(x, whole), cut);
  CHECK_I64(tsr_read(tsr_add(moved, y), out, sizeof out), TSR_EVALUE);
  snprintf(message, size, "%s", tsr_message(w->s));
  tsr_scope_close(w->s);
  w->s = tsr_scope_open(w->rt);
}

/* The CPU's devices fail at once, and at the first step that fails. */
TEST(the_first_late_error_is_told_as_that_of_cpu_devices)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  world w = open_world(NULL), cpu = { rt, tsr_scope_open(rt), tsr_mesh_make(rt, "x=2"), NULL };
  char told[1000], expected[1000];
  read_bad_sum(&cpu, expected, sizeof expected);
  CHECK_STR_HAS(expected, "late_test.c");
  for (int i = 0; i < TIMES; i++) {
    late_hold(w.rt, i % 2);
    read_bad_sum(&w, told, sizeof told);
    CHECK_STR(told, expected);
  }
  close_world(&cpu);
  close_world(&w);
}

static tsr_array *table_is_low(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_lt(tsr_max(tsr_take(in[1], in[0], 0)), 1);
}

static tsr_array *next_index(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(in[0], 1);
}

/* An index out of range reads element 0, with which the loop would go on for ever. */
TEST(a_late_error_ends_a_loop_that_asks_its_condition)
{
  world w = open_world(NULL);
  static const float zero[2];
  static const int32_t at = 7;
  tsr_sharding whole = tsr_on(w.mesh, "-");
  tsr_array *table = tsr_put(w.s, zero, TSR_F32, TSR_SHAPE(2), whole);
  tsr_array *index = tsr_put(w.s, &at, TSR_I32, TSR_SHAPE(1), whole);
  tsr_array *found = tsr_while(table_is_low, next_index, NULL, index, .with = table);
  int32_t out;
  CHECK_I64(tsr_read(found, &out, sizeof out), TSR_EVALUE);
  CHECK_STR_HAS(tsr_message(w.s), "index 7");
  close_world(&w);
}

/* ---- progress -------------------------------------------------------------------------------- */

/* A callback for a run on stalled devices: once it sees work that is queued it lets the devices go
 * on, and may stop the run. */
typedef struct listener {
  tsr_runtime *rt; /* NULL: not yet, or no more */
  bool stops, seen;
  bool waits;   /* first it waits for the steps that are queued */
  int64_t done; /* steps that were over then */
} listener;

static bool listen(const char *what, int64_t done, int64_t total, void *user)
{
  listener *l = user;
  (void)what, (void)total;
  if (!l->rt || !late_pieces(l->rt)) return true;
  late_stall(l->rt, false);
  if (l->waits) {
    l->waits = false;
    tsr__queues_settle(tsr__devices_of(l->rt));
    late_stall(l->rt, true);
    return true;
  }
  if (!l->seen) l->done = done;
  l->seen = true;
  return !l->stops;
}

static world open_listened(listener *l)
{
  world w = open_world(&(tsr_runtime_opts){
      .size = sizeof(tsr_runtime_opts), .progress = listen, .progress_user = l });
  allow_memory(&w);
  return w;
}

static tsr_array *many_steps(world *w, tsr_array *x)
{
  for (int i = 0; i < 4; i++)
    x = tsr_reshard(tsr_reshard(tsr_exp(x), tsr_on(w->mesh, "-")), tsr_on(w->mesh, "x"));
  return x;
}

/* The callback is asked while the host waits, and told of steps that are over. */
TEST(the_progress_is_that_of_steps_that_are_over)
{
  listener l = { 0 };
  world w = open_listened(&l);
  float numbers[N], out[N];
  tsr_array *y = many_steps(&w, put_numbers(&w, numbers));
  tsr__queues_settle(tsr__devices_of(w.rt));
  late_stall(w.rt, true);
  l.rt = w.rt;
  CHECK_STATUS(tsr_read(y, out, sizeof out), TSR_OK, w.s);
  CHECK(l.seen);
  CHECK_I64(l.done, 0);
  l.rt = NULL;
  close_world(&w);
}

TEST(a_run_that_is_stopped_waits_for_what_is_queued)
{
  listener l = { .stops = true };
  world w = open_listened(&l);
  float numbers[N], out[N];
  tsr_array *x = put_numbers(&w, numbers), *y = many_steps(&w, x);
  tsr__queues_settle(tsr__devices_of(w.rt));
  late_stall(w.rt, true);
  l.rt = w.rt;
  CHECK_I64(tsr_read(y, out, sizeof out), TSR_ECANCELLED);
  CHECK(l.seen);
  CHECK_I64(late_pieces(w.rt), 0);
  l.rt = NULL;
  CHECK_STATUS(tsr_read(x, out, sizeof out), TSR_OK, w.s);
  CHECK_I64(memcmp(out, numbers, sizeof out), 0);
  close_world(&w);
}

/* Stops a run whose first step has an index out of range. */
static void stop_bad_run(bool waits, tsr_status expected)
{
  static const int32_t bad[] = { 0, 1, 70, 71 };
  static const float small[] = { 1, 2 };
  float out[4];
  listener l = { .stops = true, .waits = waits };
  world w = open_listened(&l);
  tsr_array *table = tsr_put(w.s, small, TSR_F32, TSR_SHAPE(2), tsr_on(w.mesh, "-"));
  tsr_array *y = many_steps(&w, look_up(&w, table, bad, 4));
  tsr__queues_settle(tsr__devices_of(w.rt));
  late_stall(w.rt, true);
  w.rt->progress_gap = 0;
  l.rt = w.rt;
  CHECK_I64(tsr_read(y, out, sizeof out), expected);
  CHECK(l.seen);
  CHECK_I64(l.done > 0, waits);
  l.rt = NULL;
  close_world(&w);
}

/* Either is told as on CPU devices, where the user is asked between steps. */
TEST(of_a_stop_and_a_late_error_the_first_is_told)
{
  stop_bad_run(false, TSR_ECANCELLED);
  stop_bad_run(true, TSR_EVALUE);
}

/* ---- devices that fail ----------------------------------------------------------------------- */

TEST(a_lack_of_memory_is_told_late)
{
  world w = open_world(NULL);
  float numbers[N], out[N];
  tsr_array *x = put_numbers(&w, numbers);
  late_hold(w.rt, true);
  tsr__queues_settle(tsr__devices_of(w.rt));
  late_fail(w.rt, 1, 0, TSR_ENOMEM);
  CHECK_I64(tsr_read(tsr_neg(x), out, sizeof out), TSR_ENOMEM);
  CHECK_STR_HAS(tsr_message(w.s), "late_test.c");
  CHECK_STR_HAS(tsr_message(w.s), "no memory left");
  CHECK_STATUS(tsr_read(tsr_neg(x), out, sizeof out), TSR_OK, w.s);
  for (int i = 0; i < N; i++) CHECK_F32_BITS(out[i], -numbers[i]);
  close_world(&w);
}

static void check_lost(const world *w, tsr_status status)
{
  CHECK_I64(status, TSR_EIO);
  CHECK_STR_HAS(tsr_message(w->s), "late_test.c");
  CHECK_STR_HAS(tsr_message(w->s), "device 1 of kind late is lost");
}

/* Loses a device in a run, after so many pieces. False: the run has no more. */
static bool lose_device(int64_t after)
{
  world w = open_world(NULL);
  float numbers[N], out[N];
  tsr_array *x = put_numbers(&w, numbers), *y = many_steps(&w, x);
  tsr__queues_settle(tsr__devices_of(w.rt));
  late_fail(w.rt, 1, after, TSR_EIO);
  tsr_status status = tsr_read(y, out, sizeof out);
  if (status) {
    check_lost(&w, status);
    check_lost(&w, tsr_read(x, out, sizeof out));
    check_lost(&w, tsr_read(tsr_neg(put_numbers(&w, numbers)), out, sizeof out));
    tsr_scope_close(w.s);
    w.s = tsr_scope_open(w.rt);
    check_lost(&w, tsr_read(put_numbers(&w, numbers), out, sizeof out));
  }
  close_world(&w);
  return status;
}

TEST(a_lost_device_fails_its_run_and_all_later_ones)
{
  int64_t after = 0;
  while (lose_device(after)) after++;
  CHECK(after >= 8); /* exp and two moves, four times */
}

/* ---- closing --------------------------------------------------------------------------------- */

TEST(a_scope_and_a_runtime_close_while_work_is_queued)
{
  world w = open_world(NULL);
  late_hold(w.rt, true);
  float numbers[N];
  tsr_array *y = tsr_exp(put_numbers(&w, numbers));
  CHECK_STATUS(tsr_start(&y, 1), TSR_OK, w.s);
  CHECK(!tsr_is_inert(put_numbers(&w, numbers)));
  tsr_scope_close(w.s);
  w.s = tsr_scope_open(w.rt);
  CHECK(!tsr_is_inert(put_numbers(&w, numbers)));
  close_world(&w);
}

/* A child has no thread that would do the work, and waits for none. */
TEST(a_child_of_fork_closes_while_work_is_queued)
{
  world w = open_world(NULL);
  late_hold(w.rt, true);
  float numbers[N], out[N];
  tsr_array *x = put_numbers(&w, numbers);
  CHECK(late_pieces(w.rt) > 0);
  pid_t child = fork();
  if (!child) {
    close_world(&w);
    _exit(0);
  }
  int status = -1;
  CHECK_I64(waitpid(child, &status, 0), child);
  CHECK_I64(status, 0);
  CHECK_STATUS(tsr_read(x, out, sizeof out), TSR_OK, w.s);
  CHECK_I64(memcmp(out, numbers, sizeof out), 0);
  close_world(&w);
}
