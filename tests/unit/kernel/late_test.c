/* Devices whose entries return before their work is over: when the host waits, which queue waits for
 * which, and when memory that is given back is taken again. */
#include "harness.h"

#include <string.h>

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
  late_hold(w.rt, true);
  tsr__buffer *a = take(&w, 0), *b = take(&w, 1);
  int64_t one = bytes_in_use(&w, 0);
  w.ops->number(a, 3, N);
  copy_whole(&w, a, b);
  tsr__buffer_release(a);
  tsr__buffer *c = take(&w, 0);
  CHECK_I64(bytes_in_use(&w, 0), 2 * one);
  w.ops->fill(c, 0xEE);
  check_numbers(&w, b, 3);
  tsr__devices_settle(w.rt);
  CHECK_I64(bytes_in_use(&w, 0), one);
  tsr__buffer_release(b);
  tsr__buffer_release(c);
  CHECK_I64(bytes_in_use(&w, 0), 0);
  close_world(&w);
}

TEST(a_take_waits_for_memory_that_is_given_back)
{
  world w = open_world(&(tsr_runtime_opts){ .memory_limit = 3 * BYTES / 2 });
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

TEST(results_take_the_memory_of_donated_operands)
{
  world w = open_world(NULL);
  float numbers[N], out[N], kept[N];
  for (int i = 0; i < TIMES; i++) {
    tsr_array *x = put_numbers(&w, numbers);
    tsr_array *before = tsr_reshard(x, tsr_on(w.mesh, "-"));
    CHECK_STATUS(tsr_eval(&before, 1), TSR_OK, w.s);
    tsr_donate(x);
    CHECK_STATUS(tsr_read(tsr_neg(x), out, sizeof out), TSR_OK, w.s);
    CHECK_STATUS(tsr_read(before, kept, sizeof kept), TSR_OK, w.s);
    for (int k = 0; k < N; k++) CHECK_F32_BITS(out[k], -numbers[k]);
    for (int k = 0; k < N; k++) CHECK_F32_BITS(kept[k], numbers[k]);
  }
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
