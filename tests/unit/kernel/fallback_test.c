/* Devices that lack entries: which steps the host does, the bytes that this costs, what an
 * explanation says of it, and devices that do some kernels themselves. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

#include "kernel/device/cpu.h"
#include "kernel/fallback/mirror.h"
#include "kernel/rows/row_ops.h"
#include "kernel/tile/interp.h"
#include "support/empty_devices.h"
#include "tessera.h"

typedef struct world {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
} world;

static world open_world(const tsr__device_ops *ops, const tsr_runtime_opts *opts)
{
  world w = { .rt = tsr_runtime_open_with("cpu:2", opts) };
  CHECK_STATUS(tsr_runtime_status(w.rt), TSR_OK, NULL);
  CHECK_STATUS(empty_install_with(w.rt, ops), TSR_OK, NULL);
  w.s = tsr_scope_open(w.rt);
  w.mesh = tsr_mesh_make(w.rt, "x=2");
  return w;
}

/* A world whose allocations are counted, and fail where `state` says. */
static world open_counted_world(struct test_alloc *state, int threads)
{
  tsr_allocator allocator = test_allocator(state);
  return open_world(&empty_ops, &(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts),
                                                     .allocator = &allocator,
                                                     .threads = threads });
}

static void close_world(world *w)
{
  tsr_scope_close(w->s);
  tsr_runtime_close(w->rt);
}

enum { N = 8 };
static const float numbers[N] = { 1, -2, 3, 4.5f, -5, 6, 7, 8 };

static tsr_array *put_numbers(world *w, const char *axis)
{
  return tsr_put(w->s, numbers, TSR_F32, TSR_SHAPE(N), tsr_on(w->mesh, axis));
}

static int64_t read_and_count(world *w, tsr_array *a, void *out, size_t bytes)
{
  CHECK_STATUS(tsr_read(a, out, bytes), TSR_OK, w->s);
  return tsr_last_run(w->s).bytes_through_host;
}

/* Kernels of one operand. */
static bool few_operands(const tsr__device_work *work)
{
  return work->kind == TSR__WORK_KERNEL && tsr__kernel_io_of(work->kernel)->input_count == 1;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* A table is a struct of pointers: the number of the first one that is NULL, -1: all are there. */
static int first_null(const void *table, size_t bytes)
{
  for (size_t i = 0; i < bytes / sizeof(void *); i++) {
    void *entry;
    memcpy(&entry, (const char *)table + i * sizeof entry, sizeof entry);
    if (!entry) return (int)i;
  }
  return -1;
}

static tsr__code *make_code(tsr_runtime *rt, const tsr__program *program, const tsr__kernel *kernel,
                            tsr__error *error);

/* An entry that is new to the table, and that the host does not do for a kind without it. */
TEST(the_table_has_every_entry)
{
  world w = open_world(&empty_ops, NULL);
  tsr__device_ops ops = *tsr__devices_of(w.rt)->ops;
  CHECK(!ops.supports && !ops.prepare);
  ops.supports = few_operands;
  ops.prepare = make_code;
  CHECK_I64(first_null(&ops, sizeof ops), -1);
  CHECK_I64(first_null(ops.rows, sizeof *ops.rows), -1);
  close_world(&w);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

TEST(a_kernel_copies_its_operands_and_results)
{
  world w = open_world(&empty_ops, NULL);
  float out[N];
  tsr_array *x = put_numbers(&w, "x"), *y = put_numbers(&w, "x");
  CHECK_I64(read_and_count(&w, tsr_add(tsr_mul(x, y), x), out, sizeof out), 3 * sizeof numbers);
  for (int i = 0; i < N; i++) CHECK_F32_BITS(out[i], numbers[i] * numbers[i] + numbers[i]);
  close_world(&w);
}

/* Accumulators lie in host memory: only operands and the result on each device travel. */
TEST(a_reduction_copies_operands_and_results_alone)
{
  world w = open_world(&empty_ops, NULL);
  float sum;
  tsr_array *squares = tsr_mul(put_numbers(&w, "x"), put_numbers(&w, "x"));
  CHECK_I64(read_and_count(&w, tsr_sum(squares), &sum, sizeof sum),
            2 * sizeof numbers + 2 * sizeof sum);
  float exact = 0;
  for (int i = 0; i < N; i++) exact += numbers[i] * numbers[i];
  CHECK_F32_BITS(sum, exact);
  close_world(&w);
}

TEST(cpu_devices_copy_nothing)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  world w = { rt, tsr_scope_open(rt), tsr_mesh_make(rt, "x=2") };
  float out[N];
  CHECK_I64(read_and_count(&w, tsr_exp(put_numbers(&w, "x")), out, sizeof out), 0);
  CHECK(!strstr(tsr_explain(&(tsr_array *){ tsr_exp(put_numbers(&w, "x")) }, 1), "the host"));
  close_world(&w);
}

/* ---- explanations ---------------------------------------------------------------------------- */

TEST(explanations_name_the_steps_that_the_host_does)
{
  world w = open_world(&empty_ops, NULL);
  tsr_array *x = put_numbers(&w, "x");
  tsr_array *moved = tsr_reshard(tsr_sort(tsr_exp(x), 0), tsr_on(w.mesh, "-"));
  const char *text = tsr_explain(&(tsr_array *){ moved }, 1);
  CHECK_STR_HAS(text,
                "the host does 1 kernel, which devices of kind empty lack: operands and results\n");
  CHECK_STR_HAS(text, "the host does 1 routine, which devices of kind empty lack");
  CHECK_STR_HAS(text, "the host does 1 move to another sharding, which devices of kind empty lack");
  close_world(&w);
}

/* ---- devices that do some work -------------------------------------------------------------- */

static int own_runs; /* of kernels, by the device itself */

static void show_all(const tsr__run *run, void (*show)(const tsr__buffer *))
{
  const tsr__kernel_io *io = tsr__kernel_io_of(run->kernel);
  for (int p = 0; p < run->part_count; p++) {
    for (int i = 0; i < io->input_count; i++) show(run->parts[p].inputs[i]);
    for (int i = 0; i < io->output_count; i++)
      if (run->parts[p].outputs[i] != run->parts[p].inputs[0]) show(run->parts[p].outputs[i]);
  }
}

static tsr_status run_in_place(const tsr__run *run, tsr__error *error)
{
  own_runs++;
  show_all(run, empty_show);
  tsr_status status = tsr__cpu_run(run, error);
  show_all(run, empty_hide);
  return status;
}

TEST(supported_kernels_run_on_the_device_and_others_on_the_host)
{
  tsr__device_ops ops = empty_ops;
  ops.run = run_in_place;
  ops.supports = few_operands;
  own_runs = 0;
  world w = open_world(&ops, NULL);
  float out[N];
  tsr_array *x = put_numbers(&w, "x"), *y = put_numbers(&w, "x");
  tsr_array *one = tsr_neg(x), *two = tsr_add(x, y);
  CHECK(!strstr(tsr_explain(&one, 1), "the host"));
  CHECK_STR_HAS(tsr_explain(&two, 1), "the host does 1 kernel");
  CHECK_I64(read_and_count(&w, one, out, sizeof out), 0);
  CHECK_I64(own_runs, 1);
  for (int i = 0; i < N; i++) CHECK_F32_BITS(out[i], -numbers[i]);
  CHECK_I64(read_and_count(&w, two, out, sizeof out), 3 * sizeof numbers);
  CHECK_I64(own_runs, 1);
  for (int i = 0; i < N; i++) CHECK_F32_BITS(out[i], 2 * numbers[i]);
  /* A kernel of one operand with an accumulator: the kind has none of its own. */
  CHECK_STATUS(tsr_read(tsr_sum(tsr_exp(x)), out, sizeof *out), TSR_OK, w.s);
  CHECK_I64(own_runs, 1);
  close_world(&w);
}

/* ---- code of kernels ------------------------------------------------------------------------- */

/* The kind's form of a kernel: it remembers of which. */
typedef struct own_code {
  tsr__code head;
  tsr_runtime *rt;
  const tsr__kernel *kernel;
} own_code;

static int made, asked, dropped, runs_with_code;
static bool no_memory_for_code;

static void drop_code(tsr__code *code)
{
  own_code *own = (own_code *)code;
  dropped++;
  tsr__del(&own->rt->heap, own, sizeof *own);
}

/* Kernels of two operands have none. */
static tsr__code *make_code(tsr_runtime *rt, const tsr__program *program, const tsr__kernel *kernel,
                            tsr__error *error)
{
  asked++;
  CHECK(program);
  if (tsr__kernel_io_of(kernel)->input_count > 1) return NULL;
  own_code *own = no_memory_for_code ? NULL : tsr__new(&rt->heap, sizeof *own);
  if (!own) {
    tsr__error_set(error, TSR_ENOMEM, "no memory for the code of a kernel");
    return NULL;
  }
  *own = (own_code){ { drop_code }, rt, kernel };
  made++;
  return &own->head;
}

static tsr_status run_code(const tsr__run *run, tsr__error *error)
{
  const own_code *own = (const own_code *)run->code;
  runs_with_code += own != NULL;
  CHECK(!own || own->kernel == run->kernel);
  CHECK((tsr__kernel_io_of(run->kernel)->input_count == 1) == (own != NULL));
  return run_in_place(run, error);
}

static world open_code_world(const tsr_runtime_opts *opts)
{
  static tsr__device_ops ops;
  ops = empty_ops;
  ops.run = run_code;
  ops.prepare = make_code;
  made = asked = dropped = runs_with_code = 0;
  return open_world(&ops, opts);
}

static void read_shifted(world *w, double by, tsr_status expected)
{
  float out[N];
  tsr_array *x = put_numbers(w, "x");
  CHECK_STATUS(tsr_read(tsr_add(tsr_neg(x), by), out, sizeof out), expected, NULL);
  for (int i = 0; i < N && !expected; i++) CHECK_F32_BITS(out[i], (float)by - numbers[i]);
}

TEST(code_is_made_once_a_plan)
{
  world w = open_code_world(NULL);
  float out[N];
  for (int i = 0; i < 3; i++) read_shifted(&w, i, TSR_OK); /* one plan: numbers are parameters */
  CHECK_I64(made, 1);
  CHECK_I64(runs_with_code, 3);
  tsr_array *x = put_numbers(&w, "x"), *y = put_numbers(&w, "x");
  for (int i = 0; i < 3; i++) CHECK_STATUS(tsr_read(tsr_sub(x, y), out, sizeof out), TSR_OK, w.s);
  CHECK_I64(made, 1);
  CHECK_I64(asked, 2);
  CHECK_I64(dropped, 0);
  close_world(&w);
  CHECK_I64(dropped, 1);
}

TEST(code_goes_with_its_plan)
{
  const tsr_runtime_opts opts = { .size = sizeof opts, .plan_cache = 1 };
  world w = open_code_world(&opts);
  float out[N];
  for (int i = 0; i < 4; i++) {
    read_shifted(&w, i, TSR_OK);
    CHECK_STATUS(tsr_read(tsr_abs(put_numbers(&w, "x")), out, sizeof out), TSR_OK, w.s);
  }
  CHECK_I64(made, 8);
  CHECK_I64(dropped, 7);
  close_world(&w);
  CHECK_I64(dropped, 8);
}

TEST(a_run_without_memory_for_code_fails_and_the_next_one_tries_again)
{
  world w = open_code_world(NULL);
  no_memory_for_code = true;
  read_shifted(&w, 1, TSR_ENOMEM);
  CHECK_STR_HAS(tsr_message(w.s), "no memory for the code of a kernel");
  no_memory_for_code = false;
  tsr_scope_close(w.s);
  w.s = tsr_scope_open(w.rt);
  read_shifted(&w, 1, TSR_OK);
  CHECK_I64(made, 1);
  CHECK_I64(asked, 2);
  close_world(&w);
  CHECK_I64(dropped, 1);
}

static int own_copies;

static void copy_in_place(const tsr__box_copy *copy, const tsr__buffer *from, tsr__buffer *to,
                          tsr__traffic *traffic)
{
  own_copies++;
  void *mirrors[] = { from->data, to->data };
  empty_show(from);
  empty_show(to);
  tsr__cpu_copy(copy, from, to, traffic);
  empty_hide(from);
  empty_hide(to);
  ((tsr__buffer *)(uintptr_t)from)->data = mirrors[0];
  to->data = mirrors[1];
}

static tsr__box_copy copy_of(const int64_t *count)
{
  static const int64_t zero = 0;
  return (tsr__box_copy){ .dtype = TSR_I64,
                          .rank = 1,
                          .from_dims = count,
                          .from_start = &zero,
                          .to_dims = count,
                          .to_start = &zero,
                          .size = count };
}

TEST(a_copy_of_the_device_sees_what_the_host_wrote)
{
  tsr__device_ops own = empty_ops;
  own.copy = copy_in_place;
  own_copies = 0;
  world w = open_world(&own, NULL);
  const tsr__device_ops *ops = tsr__devices_of(w.rt)->ops;
  tsr__error error = { 0 };
  int64_t count = 4, host[4];
  tsr__buffer *a = ops->take(w.rt, 0, sizeof host, &error);
  tsr__buffer *b = ops->take(w.rt, 0, sizeof host, &error);
  const tsr__box_copy copy = copy_of(&count);
  ops->number(a, 1, 4);
  const int64_t *mapped = ops->map(a);
  ops->number(a, 28, 4); /* by the host, in the mirror that is mapped */
  CHECK_I64(mapped[2], 30);
  ops->copy(&copy, a, b, NULL);
  ops->unmap(a);
  CHECK_I64(own_copies, 1);
  ops->to_host(&copy, b, host);
  CHECK_I64(host[2], 30);
  void *staging = ops->staging_open(a, true, &error);
  CHECK(staging);
  ((int64_t *)staging)[1] = 7;
  ops->staging_close(a, staging, true);
  ops->copy(&copy, a, b, NULL);
  ops->to_host(&copy, b, host);
  CHECK_I64(host[1], 7);
  CHECK_I64(host[2], 30);
  tsr__buffer_release(a);
  tsr__buffer_release(b);
  close_world(&w);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Columns are read from the device and come to it; the index stays with the host. */
TEST(gathered_columns_lie_on_the_device)
{
  world w = open_world(&empty_ops, NULL);
  const tsr__device_ops *ops = tsr__devices_of(w.rt)->ops;
  tsr__error error = { 0 };
  int64_t rows[] = { 3, 3 }, count = 3, host[3];
  tsr__parts parts = { 2, (int[]){ 0, 1 }, rows };
  tsr__buffer *from[2], *values[2] = { 0 }, *valid[2] = { 0 };
  tsr__index index;
  CHECK_STATUS(tsr__index_new(w.rt, &parts, &index, &error), TSR_OK, NULL);
  for (int p = 0; p < 2; p++) {
    from[p] = ops->take(w.rt, p, sizeof host, &error);
    ops->number(from[p], 10 * p, 3);
    for (uint32_t i = 0; i < 3; i++) index.at[p][i] = 2 - i;
  }
  const tsr__gather ask = { &parts, &index, &(tsr__colparts){ TSR_I64, from, NULL }, false };
  int64_t before = tsr__host_bytes(w.rt);
  CHECK_STATUS(ops->rows->gather_column(w.rt, &ask, values, valid, &error), TSR_OK, NULL);
  CHECK_I64(tsr__host_bytes(w.rt) - before, 4 * (int64_t)sizeof host);
  for (int p = 0; p < 2; p++) {
    const tsr__box_copy copy = copy_of(&count);
    CHECK(!values[p]->data && values[p]->ops == ops && !valid[p]);
    ops->to_host(&copy, values[p], host);
    for (int i = 0; i < 3; i++) CHECK_I64(host[i], 10 * p + 2 - i);
    tsr__buffer_release(values[p]);
    tsr__buffer_release(from[p]);
  }
  tsr__index_free(w.rt, &index);
  close_world(&w);
}

TEST(a_terminal_of_frames_counts_its_rows_too)
{
  world w = open_world(&empty_ops, NULL);
  const double keys[] = { 0.5, 7, 0.5, 7, 0.5, 1e300, 7, 7 };
  tsr_sharding at = tsr_on(w.mesh, "x");
  tsr_frame *df = tsr_frame_new(w.s, { "k", tsr_put(w.s, keys, TSR_F64, TSR_SHAPE(N), at) },
                                { "v", put_numbers(&w, "x") });
  tsr_frame *sums = tsr_frame_group_agg(df, "k", "s = sum(v)");
  CHECK_STR_HAS(tsr_frame_explain(sums), "the host sorts, groups and joins rows");
  int64_t before = tsr__host_bytes(w.rt);
  int64_t groups;
  CHECK_STATUS(tsr_frame_row_count(sums, &groups), TSR_OK, w.s);
  CHECK_I64(groups, 3);
  CHECK(tsr_last_run(w.s).bytes_through_host >= (int64_t)sizeof keys);
  CHECK_I64(tsr_last_run(w.s).bytes_through_host, tsr__host_bytes(w.rt) - before);
  close_world(&w);
}

/* ---- mirrors --------------------------------------------------------------------------------- */

static void touch_one(tsr__touch *t, const void *ask)
{
  tsr__touch_buffer(t, ask, TSR__READS);
}

static void change_one(tsr__touch *t, const void *ask)
{
  tsr__touch_buffer(t, ask, TSR__CHANGES);
}

TEST(a_mirror_is_shared_and_brought_back_once)
{
  world w = open_world(&empty_ops, NULL);
  const tsr__device_ops *ops = tsr__devices_of(w.rt)->ops;
  tsr__error error = { 0 };
  tsr__buffer *b = ops->take(w.rt, 0, sizeof(int64_t[4]), &error);
  CHECK(b && !b->data);
  ops->number(b, 7, 4);
  int64_t before = tsr__host_bytes(w.rt);
  CHECK(tsr__mirrors_open(touch_one, b) && tsr__mirrors_open(change_one, b));
  int64_t *seen = b->data;
  CHECK_I64(seen[3], 10);
  seen[3] = -1;
  tsr__mirrors_close(change_one, b);
  CHECK(b->data == seen);
  tsr__mirrors_close(touch_one, b);
  CHECK(!b->data);
  CHECK_I64(tsr__host_bytes(w.rt) - before, 2 * (int64_t)b->bytes);
  int64_t host[4], count = 4;
  const tsr__box_copy copy = copy_of(&count);
  ops->to_host(&copy, b, host);
  CHECK_I64(host[2], 9);
  CHECK_I64(host[3], -1);
  tsr__buffer_release(b);
  close_world(&w);
}

/* A buffer that goes while it is mapped takes its mirror along: closing finds no block left. */
TEST(a_mapped_buffer_may_go)
{
  struct test_alloc state = { 0 };
  world w = open_counted_world(&state, 0);
  const tsr__device_ops *ops = tsr__devices_of(w.rt)->ops;
  tsr__error error = { 0 };
  tsr__buffer *b = ops->take(w.rt, 1, 100, &error);
  CHECK(ops->map(b));
  tsr__buffer_release(b);
  close_world(&w);
  CHECK_I64(atomic_load(&state.live), 0);
}

/* An entry without a status cannot tell that it found no memory; the next read does. */
TEST(a_lost_mirror_is_told)
{
  struct test_alloc state = { 0 };
  world w = open_counted_world(&state, 0);
  const tsr__device_ops *ops = tsr__devices_of(w.rt)->ops;
  tsr__error error = { 0 };
  float out[N];
  tsr_array *x = put_numbers(&w, "x");
  CHECK_STATUS(tsr_read(x, out, sizeof out), TSR_OK, w.s);
  tsr__buffer *b = ops->take(w.rt, 0, 64, &error);
  state.fail_at = atomic_load(&state.count) + 1;
  ops->fill(b, 1);
  CHECK_STATUS(tsr_read(x, out, sizeof out), TSR_ENOMEM, NULL);
  CHECK_STR_HAS(tsr_message(w.s), "the host had no memory for a copy of device memory");
  tsr__buffer_release(b);
  close_world(&w);
}

/* Whatever allocation fails: the error is told, or the result is right, and no block stays. */
TEST(a_failed_allocation_never_shows_in_a_result)
{
  bool failed = true;
  for (int64_t k = 1; failed; k++) {
    struct test_alloc state = { 0 };
    world w = open_counted_world(&state, 1);
    float out[N] = { 0 };
    tsr_array *x = put_numbers(&w, "x");
    tsr_array *sorted = tsr_reshard(tsr_sort(tsr_neg(x), 0), tsr_on(w.mesh, "-"));
    state.fail_at = atomic_load(&state.count) + k;
    tsr_status status = tsr_read(sorted, out, sizeof out);
    failed = atomic_load(&state.count) >= state.fail_at;
    CHECK(status == TSR_OK || (failed && status == TSR_ENOMEM));
    for (int i = 1; i < N && !status; i++) CHECK(out[i - 1] < out[i]);
    close_world(&w);
    CHECK_I64(atomic_load(&state.live), 0);
  }
}
