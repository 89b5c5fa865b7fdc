/* A process that fails before a run still takes part in it: all get its message, and go on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/among.h"
#include "tessera.h"

typedef struct world {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_sharding on;
  bool me; /* the process in which things go wrong: the last one */
  char sign[32];
} world;

static void settle_in(world *w)
{
  w->s = tsr_scope_open(w->rt);
  w->on = tsr_on(tsr_mesh_default(w->rt, "x"), "x");
  w->me = test_process() == test_process_count() - 1;
  snprintf(w->sign, sizeof w->sign, "process %d: ", test_process_count() - 1);
}

static world open_world(void)
{
  world w = { .rt = among_open(2) };
  settle_in(&w);
  return w;
}

static tsr_array *twelve(world *w, bool good)
{
  static const float data[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
  return tsr_put(w->s, good ? data : NULL, TSR_F32, TSR_SHAPE(12), w->on);
}

/* Everybody has failed, the others in this process's words; then all go on. */
static void failed(world *w, tsr_status status, tsr_status expected, const char *part)
{
  double sum = 0;
  CHECK_STATUS(status, expected, w->s);
  CHECK_STR_HAS(tsr_message(w->s), part);
  if (!w->me) CHECK_STR_HAS(tsr_message(w->s), w->sign);
  tsr_scope_clear(w->s);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(twelve(w, true)), &sum), TSR_OK, w->s);
  CHECK(sum == 78);
}

static void close_world(world *w)
{
  tsr_scope_close(w->s);
  tsr_runtime_close(w->rt);
}

static tsr_status no_part(const tsr_box *box, void *out, void *user)
{
  memset(out, 0, (size_t)box->size[0] * sizeof(float));
  return *(bool *)user ? TSR_EIO : TSR_OK;
}

static void arrays_that_one_cannot_make(void)
{
  world w = open_world();
  double sum;
  float all[12];
  tsr_array *a = twelve(&w, !w.me);
  failed(&w, tsr_read_scalar(tsr_sum(tsr_mul(a, 2)), &sum), TSR_EARG, "data is NULL");
  a = twelve(&w, !w.me);
  failed(&w, tsr_read(a, all, sizeof all), TSR_EARG, "data is NULL");
  /* Of one that each has by itself, beside one that all have. */
  a = tsr_put(w.s, w.me ? NULL : all, TSR_F32, TSR_SHAPE(12), (tsr_sharding){ 0 });
  tsr_array *both = tsr_add(a, twelve(&w, true));
  failed(&w, tsr_eval(&both, 1), TSR_EARG, "data is NULL");
  a = tsr_from_callback(w.s, no_part, &w.me, TSR_F32, TSR_SHAPE(12), w.on);
  tsr_array *negated = tsr_neg(a);
  failed(&w, tsr_eval(&negated, 1), TSR_EIO, "the callback failed");
  /* Operations that do not fit here. */
  a = tsr_add(twelve(&w, true), tsr_full(w.s, 1, TSR_F32, TSR_SHAPE(w.me ? 5 : 12), w.on));
  failed(&w, tsr_read_scalar(tsr_sum(a), &sum), TSR_ESHAPE, "tsr_add");
  a = tsr_reshard(twelve(&w, true), tsr_on(w.on.mesh, w.me ? "y" : "-"));
  failed(&w, tsr_read_scalar(tsr_sum(a), &sum), TSR_EAXIS, "no axis 'y'");
  close_world(&w);
}

AMONG_2_AND_4(arrays_that_one_cannot_make, arrays_that_one_cannot_make)

static void terminals_that_one_asks_wrongly(void)
{
  world w = open_world();
  double sum;
  int64_t whole;
  float all[12];
  const char *text;
  for (int ready = 0; ready < 2; ready++) {
    tsr_array *a = tsr_mul(twelve(&w, true), 3), *b = tsr_mul(twelve(&w, true), 5);
    if (ready) CHECK_STATUS(tsr_eval((tsr_array *[]){ a, b }, 2), TSR_OK, w.s);
    failed(&w, tsr_read(a, all, w.me ? 7 : sizeof all), TSR_EARG, "expected exactly 48");
    failed(&w, tsr_read(b, w.me ? NULL : all, sizeof all), TSR_EARG, "expected exactly 48");
    a = tsr_mul(twelve(&w, true), 7);
    if (ready) CHECK_STATUS(tsr_wait(a), TSR_OK, w.s);
    failed(&w, tsr_text_into(a, w.me ? NULL : &text), TSR_EARG, "the pointer for the text is NULL");
  }
  failed(&w, tsr_read_scalar(tsr_sum(twelve(&w, true)), w.me ? NULL : &sum), TSR_EARG,
         "the pointer for the result is NULL");
  tsr_array *counts = tsr_cast(twelve(&w, true), w.me ? TSR_F64 : TSR_I64);
  failed(&w, tsr_read_i64(tsr_sum(counts), &whole), TSR_EDTYPE, "expected an integer or bool");
  tsr_array *gone = tsr_mul(twelve(&w, true), 2);
  if (w.me) tsr_delete(gone);
  failed(&w, tsr_read(gone, all, sizeof all), TSR_ESTATE, "was deleted");
  close_world(&w);
}

AMONG_2_AND_4(terminals_that_one_asks_wrongly, terminals_that_one_asks_wrongly)

static void meetings_that_one_cannot_come_to(void)
{
  world w = open_world();
  float all[12] = { 0 };
  tsr_array *own = tsr_put(w.s, w.me ? NULL : all, TSR_F32, TSR_SHAPE(12), (tsr_sharding){ 0 });
  tsr_array *out = tsr_process_gather(own);
  CHECK(tsr_is_inert(out));
  failed(&w, tsr_scope_status(w.s), TSR_EARG, "data is NULL");
  own = tsr_put(w.s, w.me ? NULL : all, TSR_F32, TSR_SHAPE(12), (tsr_sharding){ 0 });
  failed(&w, tsr_process_equal(own, NULL), TSR_EARG, "data is NULL");
  failed(&w, tsr_process_meet(w.s, w.me ? NULL : "here"), TSR_EARG,
         "the name of the round is NULL");
  tsr_array *shared = twelve(&w, !w.me);
  failed(&w, tsr_read_root(shared, 0, all, sizeof all), TSR_EARG, "data is NULL");
  close_world(&w);
}

AMONG_2_AND_4(meetings_that_one_cannot_come_to, meetings_that_one_cannot_come_to)

/* A call on a frame in which the last process is wrong. */
typedef struct frame_call {
  tsr_status (*fn)(world *w, tsr_frame *df);
  tsr_status expected;
  const char *said;
} frame_call;

static tsr_frame *sixteen(world *w)
{
  tsr_array *k = tsr_iota(w->s, TSR_F64, TSR_SHAPE(16), 0, w->on);
  return tsr_frame_new(w->s, { "k", k });
}

/* What is wrong with the frame itself. */
static tsr_frame *bad_frame(world *w)
{
  return tsr_frame_filter(sixteen(w), w->me ? "no > 1" : "k > 1");
}

#define FRAME_CALL(name, ...)                            \
  static tsr_status name##_call(world *w, tsr_frame *df) \
  {                                                      \
    (void)w;                                             \
    const char *text = NULL;                             \
    tsr_table *table = NULL;                             \
    int64_t rows = 0;                                    \
    double sum = 0;                                      \
    (void)text, (void)table, (void)rows, (void)sum;      \
    __VA_ARGS__;                                         \
  }

FRAME_CALL(text, return tsr_frame_text_into(df, NULL, &text))
FRAME_CALL(text_nowhere, return tsr_frame_text_into(df, NULL, w->me ? NULL : &text))
FRAME_CALL(count, return tsr_frame_row_count(df, &rows))
FRAME_CALL(count_nowhere, return tsr_frame_row_count(df, w->me ? NULL : &rows))
FRAME_CALL(collect, return tsr_frame_collect(df, &table))
FRAME_CALL(collect_nowhere, return tsr_frame_collect(df, w->me ? NULL : &table))
FRAME_CALL(row, return tsr_row_status(tsr_frame_row(tsr_frame_agg(df, "s = sum(k)"))))
FRAME_CALL(column, tsr_array *a = tsr_frame_column(df, "k");
           return tsr_read_scalar(tsr_sum(a), &sum))
FRAME_CALL(no_column, tsr_array *a = tsr_frame_column(df, w->me ? "no" : "k");
           return tsr_read_scalar(tsr_sum(a), &sum))
FRAME_CALL(keep, return tsr_frame_row_count(tsr_frame_keep(w->s, df), &rows))
FRAME_CALL(sort, return tsr_frame_row_count(tsr_frame_head(tsr_frame_sort(df, "k"), 3), &rows))
FRAME_CALL(csv, return tsr_frame_write_csv(df, test_tmp("out.csv")))
FRAME_CALL(csv_nowhere, return tsr_frame_write_csv(df, w->me ? "" : test_tmp("out.csv")))
FRAME_CALL(json, return tsr_frame_write_json(df, test_tmp("out.json")))
FRAME_CALL(markdown, return tsr_frame_write_markdown(df, test_tmp("out.md")))
FRAME_CALL(devices, return tsr_frame_devices_into(df, &text))

static const frame_call of_bad_frames[] = {
  { text_call, TSR_ECOLUMN, "no column 'no'" },    { count_call, TSR_ECOLUMN, "no column 'no'" },
  { collect_call, TSR_ECOLUMN, "no column 'no'" }, { row_call, TSR_ECOLUMN, "no column 'no'" },
  { column_call, TSR_ECOLUMN, "no column 'no'" },  { keep_call, TSR_ECOLUMN, "no column 'no'" },
  { sort_call, TSR_ECOLUMN, "no column 'no'" },    { csv_call, TSR_ECOLUMN, "no column 'no'" },
  { json_call, TSR_ECOLUMN, "no column 'no'" },    { markdown_call, TSR_ECOLUMN, "no column 'no'" },
  { devices_call, TSR_ECOLUMN, "no column 'no'" },
};

static const frame_call of_good_frames[] = {
  { text_nowhere_call, TSR_EARG, "the pointer for the text is NULL" },
  { count_nowhere_call, TSR_EARG, "`out` is NULL" },
  { collect_nowhere_call, TSR_EARG, "`out` is NULL" },
  { no_column_call, TSR_ECOLUMN, "no column 'no'" },
  { csv_nowhere_call, TSR_EARG, "the path is empty" },
};

static void frames_that_one_asks_wrongly(void)
{
  world w = open_world();
  for (size_t i = 0; i < sizeof of_bad_frames / sizeof *of_bad_frames; i++) {
    const frame_call *c = &of_bad_frames[i];
    failed(&w, c->fn(&w, bad_frame(&w)), c->expected, c->said);
  }
  for (size_t i = 0; i < sizeof of_good_frames / sizeof *of_good_frames; i++) {
    const frame_call *c = &of_good_frames[i];
    failed(&w, c->fn(&w, sixteen(&w)), c->expected, c->said);
  }
  close_world(&w);
}

AMONG_2_AND_4(frames_that_one_asks_wrongly, frames_that_one_asks_wrongly)

/* Files that one process opens or saves in another way than it may. */
static void files_that_one_asks_wrongly(void)
{
  world w = open_world();
  char path[600];
  snprintf(path, sizeof path, "%s.%d", test_tmp("in.csv"), test_process());
  FILE *file = fopen(path, "w");
  CHECK(file && fputs("k\n1\n2\n", file) >= 0 && !fclose(file));
  tsr_array *a = twelve(&w, true);
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, w.s);
  failed(&w, tsr_save_npz(w.s, w.me ? NULL : test_tmp("a.npz"), { "a", a }), TSR_EARG,
         "path is NULL");
  failed(&w, tsr_save_npy(a, w.me ? NULL : test_tmp("a.npy")), TSR_EARG, "path is NULL");
  (void)tsr_frame_read_csv(w.s, w.me ? NULL : path);
  failed(&w, tsr_scope_status(w.s), TSR_EARG, "path is NULL");
  (void)tsr_frame_read_csv(w.s, path, .on = w.me ? tsr_on(w.on.mesh, "no") : w.on);
  failed(&w, tsr_scope_status(w.s), TSR_EAXIS, "'no'");
  close_world(&w);
}

AMONG_2_AND_4(files_that_one_asks_wrongly, files_that_one_asks_wrongly)

/* Two processes whose memory is of this allocator, which the last may find at an end. */
static world open_with(tsr_allocator *allocator)
{
  tsr_runtime_opts opts = { .size = sizeof opts, .allocator = allocator, .threads = 1 };
  char address[400];
  snprintf(address, sizeof address, "unix:%s", test_tmp("memory"));
  world w = { .rt = tsr_initialize("cpu:2", .coordinator = address, .process_count = 2,
                                   .process_index = test_process(), .runtime = &opts) };
  CHECK_STATUS(tsr_runtime_status(w.rt), TSR_OK, NULL);
  settle_in(&w);
  return w;
}

/* All have failed, or none. */
static bool all_alike(world *w, tsr_status status)
{
  int32_t statuses[2], mine = (int32_t)status;
  tsr_scope_clear(w->s);
  tsr_scope *s = tsr_scope_open(w->rt);
  tsr_array *own = tsr_put(s, &mine, TSR_I32, TSR_SCALAR, (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_read(tsr_process_gather(own), statuses, sizeof statuses), TSR_OK, s);
  CHECK_I64(!statuses[0], !statuses[1]);
  tsr_scope_close(s);
  return mine != TSR_OK;
}

/* After a program during which memory could end on one process: whether it failed, as on all. */
static int end_alike(world *w, struct test_alloc *state, tsr_scope *s, tsr_status status)
{
  state->fail_at = 0;
  tsr_scope_clear(s);
  tsr_scope_close(s);
  return all_alike(w, status);
}

/* Memory that ends in one process at any allocation of a program: all fail, or none. */
TEST_PROCESSES(memory_that_ends_on_one, 2)
{
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  world w = open_with(&allocator);
  int ended = 0;
  for (int64_t n = 1; n < 120; n += 3) {
    tsr_scope *s = tsr_scope_open(w.rt);
    double sum = 0;
    tsr_array *a = tsr_mul(twelve(&w, true), (double)n);
    tsr_array *b = tsr_cumsum(tsr_add(a, tsr_full(s, n, TSR_F32, TSR_SHAPE(12), w.on)), 0);
    if (w.me) state.fail_at = state.count + n;
    tsr_status status = tsr_read_scalar(tsr_max(b), &sum);
    if (!status) CHECK(sum == 90.0 * (double)n);
    ended += end_alike(&w, &state, s, status);
  }
  CHECK(ended > 5);
  close_world(&w);
}

enum { MANY = 3000 };

/* Lists of the arrays of a large tree need memory of their own. */
TEST_PROCESSES(memory_that_ends_where_a_tree_is_compared, 2)
{
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  world w = open_with(&allocator);
  static tsr_array *items[MANY];
  const float one = 1;
  for (int i = 0; i < MANY; i++)
    items[i] = i ? items[0] : tsr_put(w.s, &one, TSR_F32, TSR_SCALAR, (tsr_sharding){ 0 });
  tsr_array *tree = tsr_tuple_at(w.s, items, MANY, NULL);
  int ended = 0;
  for (int64_t n = 1; n < 12; n++) {
    tsr_scope *s = tsr_scope_open(w.s);
    if (w.me) state.fail_at = state.count + n;
    tsr_status status = tsr_process_equal(tree, NULL);
    ended += end_alike(&w, &state, s, status);
  }
  CHECK(ended > 2);
  close_world(&w);
}

/* So many sums meet in one step that what the meeting needs does not fit into the first memory of a
 * run. */
TEST_PROCESSES(memory_that_ends_where_many_sums_meet, 2)
{
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  world w = open_with(&allocator);
  int ended = 0;
  for (int count = 16; count <= 256; count *= 2)
    for (int64_t n = 1; n < 60; n++) {
      tsr_scope *s = tsr_scope_open(w.s);
      tsr_array *x = twelve(&w, true), *sums[256];
      for (int i = 0; i < count; i++) sums[i] = tsr_sum(tsr_mul(x, i + 1));
      if (n == 1) CHECK_STATUS(tsr_eval(sums, count), TSR_OK, w.s); /* the plan is there */
      for (int i = 0; i < count; i++) sums[i] = tsr_sum(tsr_mul(x, i + 2));
      if (w.me) state.fail_at = state.count + n;
      tsr_status status = tsr_eval(sums, count);
      ended += end_alike(&w, &state, s, status);
    }
  CHECK(ended > 20);
  close_world(&w);
}

/* Refuses blocks of so many bytes and more; 0: none. */
static void *take_small(size_t size, size_t alignment, void *user)
{
  size_t most = *(const size_t *)user;
  if (most && size >= most) return NULL;
  return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
}

static void give_small(void *block, size_t size, void *user)
{
  (void)size, (void)user;
  free(block);
}

static tsr_array *with_outer(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_add(in[0], tsr_sum(tsr_mul(((tsr_array **)user)[0], ((tsr_array **)user)[1])));
}

/* Who has no memory for an array from outside, which lies over all, does not leave the others
 * waiting for it: a function is saved by all or by none. */
TEST_PROCESSES(functions_that_one_cannot_save, 2)
{
  enum { COUNT = 1 << 16 };
  size_t most = 0;
  tsr_allocator allocator = { take_small, give_small, &most };
  world w = open_with(&allocator);
  /* One that each process has whole, which nobody waits for, and one that lies over both. */
  tsr_sharding all = { .mesh = w.on.mesh };
  for (int k = 0; k < 2; k++) {
    tsr_array *outer[] = { tsr_iota(w.s, TSR_F32, TSR_SHAPE(COUNT), 0, k ? w.on : all),
                           tsr_iota(w.s, TSR_F32, TSR_SHAPE(COUNT), 0, k ? all : w.on) };
    CHECK_STATUS(tsr_eval(outer, 2), TSR_OK, w.s);
    tsr_function *f = tsr_function_make(w.s, with_outer, .user = outer);
    const char *text = NULL, *path = test_tmp(w.me ? "a.tsr" : "b.tsr");
    CHECK_STATUS(tsr_function_text_into(f, &text, tsr_num(w.s, 1)), TSR_OK, w.s);
    CHECK_STR_HAS(text, "data 2 f32[65536]@0");
    if (w.me) most = COUNT * sizeof(float) + 1;
    tsr_status status = tsr_function_save(f, path, tsr_num(w.s, 1));
    most = 0;
    failed(&w, status, TSR_ENOMEM, "no memory for the text");
    CHECK_STATUS(tsr_function_save(f, path, tsr_num(w.s, 1)), TSR_OK, w.s);
    size_t length;
    char *written = test_read(path, &length);
    CHECK(length == strlen(text) && !memcmp(written, text, length));
    free(written);
  }
  close_world(&w);
}
