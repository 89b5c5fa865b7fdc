/* Pipelines over processes: all open the same one or none, states go on in any number of processes,
 * and those that are left of a job go on with the records that the model has not seen. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "support/process_fixture.h"

enum { RECORDS = 103, BATCH = 24, EPOCHS = 2, ALL = RECORDS * EPOCHS };

/* i64 "n" = 1, 2, 3 ... in another order each epoch. */
static tsr_status count_up(int64_t at, void *const *out, void *user)
{
  (void)user;
  int64_t n = at + 1;
  memcpy(out[0], &n, sizeof n);
  return TSR_OK;
}

static tsr_pipeline_args numbers(tsr_scope *s, tsr_runtime *rt)
{
  tsr_source *source = tsr_source_callback(s, .count = RECORDS, .fn = count_up, .name = "numbers",
                                           .fields = { { "n", TSR_I64, { 0 } } });
  return (tsr_pipeline_args){ .size = sizeof(tsr_pipeline_args),
                              .source = source,
                              .batch_size = BATCH,
                              .shuffle = true,
                              .seed = 5,
                              .epochs = EPOCHS,
                              .ids = true,
                              .on = rt ? tsr_on(tsr_mesh_default(rt, "x"), "x")
                                       : (tsr_sharding){ 0 } };
}

/* What one process alone reads: all ids in order. */
static void read_alone(tsr_scope *s, int64_t *out)
{
  tsr_pipeline_args how = numbers(s, NULL);
  tsr_pipeline *p = tsr_pipeline_open_with(&how, TSR_HERE);
  int64_t count = 0;
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    memcpy(out + count, tsr_batch_ids(b), (size_t)tsr_batch_count(b) * sizeof *out);
    count += tsr_batch_count(b);
  }
  CHECK_I64(count, ALL);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
}

/* The ids of a batch, its numbers checked against them and against its mask. */
static int64_t check_batch(tsr_batch *b, int64_t *out)
{
  int64_t n[BATCH], rows = tsr_batch_row_count(b), count = tsr_batch_count(b);
  bool mask[BATCH];
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "n"), n, (size_t)rows * sizeof *n), TSR_OK,
               tsr_batch_scope(b));
  CHECK_STATUS(tsr_read(tsr_batch_mask(b), mask, (size_t)rows), TSR_OK, tsr_batch_scope(b));
  for (int64_t i = 0; i < rows; i++) {
    CHECK_I64(mask[i], i < count);
    CHECK_I64(n[i], tsr_batch_ids(b)[i] + 1);
  }
  memcpy(out, tsr_batch_ids(b), (size_t)count * sizeof *out);
  return count;
}

/* ---- opening --------------------------------------------------------------------------------- */

TEST_PROCESSES(all_open_the_same_or_none, 3)
{
  tsr_runtime *rt = fixture_join("open");
  tsr_scope *s = tsr_scope_open(rt);
  int me = test_process();
  tsr_pipeline_args how = numbers(s, rt);
  if (me == 1) how.seed = 6;
  tsr_pipeline *p = tsr_pipeline_open_with(&how, TSR_HERE);
  CHECK(!tsr_pipeline_next(p));
  CHECK_STATUS(tsr_pipeline_close(p), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(s),
                "tsr_pipeline_open: process 1 opens another pipeline than process 0: its stage 2 "
                "is 'shuffle(seed=6)', but 'shuffle(seed=5)' in process 0");
  tsr_scope_clear(s);
  /* Further than the others, and behind where they are: other numbers of batches. */
  how = numbers(s, rt);
  if (me == 2) how.epochs = 3;
  p = tsr_pipeline_open_with(&how, TSR_HERE);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(s), "is 'epochs(3)', but 'epochs(2)' in process 0");
  tsr_scope_clear(s);
  /* One whose file is not there, and one that asks for what cannot be. */
  how = numbers(s, rt);
  if (me == 2) how.source = tsr_source_npy(s, test_tmp("none.npy"));
  p = tsr_pipeline_open_with(&how, TSR_HERE);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_EIO, NULL);
  CHECK_STR_HAS(tsr_message(s), me == 2 ? "tsr_source_npy: " : "tsr_pipeline_open: process 2: ");
  CHECK_STR_HAS(tsr_message(s), "none.npy");
  tsr_scope_clear(s);
  how = numbers(s, rt);
  if (me == 0) how.batch_size = -1;
  p = tsr_pipeline_open_with(&how, TSR_HERE);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(s), ".batch_size is -1 records");
  tsr_scope_clear(s);
  how = numbers(s, rt);
  how.bad = TSR_BAD_SKIP;
  p = tsr_pipeline_open_with(&how, TSR_HERE);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(s), "bad records cannot be skipped");
  tsr_scope_clear(s);
  /* A mesh of process 0 alone is nobody else's business. */
  tsr_sharding own = { 0 };
  how = numbers(s, rt);
  how.on = own;
  if (me == 0) {
    p = tsr_pipeline_open_with(&how, TSR_HERE);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  }
  how = numbers(s, rt);
  p = tsr_pipeline_open_with(&how, TSR_HERE);
  int64_t count = 0, batches = 0, ids[BATCH];
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b), batches++) {
    CHECK_I64(tsr_batch_row_count(b), BATCH); /* padded, as all are over processes */
    count += check_batch(b, ids);
  }
  CHECK_I64(count, ALL);
  CHECK_I64(batches, 10);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- another number of processes ------------------------------------------------------------- */

/* Goes on where the state in a file says, reads three batches, and leaves a state behind. */
static int read_some(tsr_runtime *rt, tsr_scope *s, int index)
{
  static int64_t expected[ALL];
  int64_t ids[BATCH];
  size_t size = 0;
  char out[1000], *state = NULL;
  read_alone(s, expected);
  tsr_pipeline_args how = numbers(s, rt);
  int count = tsr_process_count(rt);
  how.threads = count - 2;
  how.prefetch = count;
  if (!access(test_tmp("state"), F_OK)) how.state = state = test_read(test_tmp("state"), &size);
  how.state_size = size;
  tsr_pipeline *p = tsr_pipeline_open_with(&how, TSR_HERE);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  for (int i = 0; i < 3; i++) {
    tsr_batch *b = tsr_pipeline_next(p);
    if (!b) break;
    int64_t first = tsr_batch_epoch(b) * RECORDS + tsr_batch_index(b) * BATCH;
    int64_t got = check_batch(b, ids);
    CHECK_BYTES(ids, expected + first, (size_t)got * sizeof *ids);
    tsr_batch_release(b);
  }
  CHECK_STATUS(tsr_pipeline_save(p, out, sizeof out, &size), TSR_OK, s);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  CHECK_STATUS(tsr_sync(s, "read"), TSR_OK, s);
  if (index == 0) test_write(test_tmp("state"), out, size);
  free(state);
  return 0;
}

TEST(states_go_on_in_any_number_of_processes)
{
  static const int counts[] = { 4, 1, 3, 2 };
  for (int k = 0; k < 4; k++) {
    char name[16];
    snprintf(name, sizeof name, "some%d", k);
    fixture_run(name, counts[k], read_some);
  }
}

/* ---- fewer processes in the same program ---------------------------------------------------- */

static const tsr_sharding nowhere;
enum { COUNT = 4, VICTIM = 2, DEATH = 5, STEPS = 10 };

/* What a process knows of its training. */
typedef struct training {
  int64_t total;     /* the model: the sum of squares of what it has seen */
  int64_t seen[ALL]; /* ids, in order */
  int64_t count;
  int64_t step;
} training;

static tsr_status save(tsr_scope *s, training *t, tsr_pipeline *p)
{
  char state[1000];
  size_t size = 0;
  tsr_status status = tsr_pipeline_save(p, state, sizeof state, &size);
  if (status) return status;
  tsr_array *tree = tsr_tree(s, { "total", tsr_put(s, &t->total, TSR_I64, TSR_SCALAR, nowhere) });
  return tsr_checkpoint_save(s, test_tmp("ckpt"), tree, .step = t->step, .overwrite = true,
                             .blobs = { { "pipeline", state, size },
                                        { "seen", t->seen, (size_t)t->count * sizeof *t->seen } });
}

/* Trains to the end from the newest step that is there, and saves each second one. */
static tsr_status train(tsr_runtime *rt, training *t, bool victim)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_value state = { NULL, 0 }, seen = { NULL, 0 };
  tsr_pipeline_args how = numbers(s, rt);
  if (!access(test_tmp("ckpt/step_2"), F_OK)) {
    tsr_saved_step *c = tsr_checkpoint_open(s, test_tmp("ckpt"));
    double total = 0;
    CHECK_STATUS(tsr_read_scalar(tsr_checkpoint_restore(c, NULL, .path = "total"), &total), TSR_OK,
                 s);
    CHECK_STATUS(tsr_checkpoint_blob(c, "pipeline", &state), TSR_OK, s);
    CHECK_STATUS(tsr_checkpoint_blob(c, "seen", &seen), TSR_OK, s);
    t->step = tsr_checkpoint_step(c);
    t->total = (int64_t)total;
    t->count = (int64_t)(seen.length / sizeof *t->seen);
    memcpy(t->seen, seen.data, seen.length);
  }
  how.state = state.data;
  how.state_size = state.length;
  tsr_pipeline *p = tsr_pipeline_open_with(&how, TSR_HERE);
  tsr_status status = tsr_scope_status(s);
  for (tsr_batch *b; !status && (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    int64_t squares = 0;
    tsr_array *n = tsr_mul(tsr_batch_field(b, "n"), tsr_cast(tsr_batch_mask(b), TSR_I64));
    if (t->step == DEATH && victim) raise(SIGKILL);
    status = tsr_read_i64(tsr_sum(tsr_mul(n, n)), &squares);
    if (status) continue;
    t->total += squares;
    memcpy(t->seen + t->count, tsr_batch_ids(b), (size_t)tsr_batch_count(b) * sizeof *t->seen);
    t->count += tsr_batch_count(b);
    if (++t->step % 2 == 0) status = save(s, t, p);
  }
  tsr_status end = tsr_pipeline_close(p);
  tsr_scope_close(s);
  return status ? status : end;
}

static int trains(int index)
{
  static training t;
  tsr_runtime *rt = tsr_initialize("cpu:2", .start_timeout = 30, .close_timeout = 20);
  if (tsr_runtime_status(rt)) FAIL("%s", tsr_runtime_message(rt));
  CHECK_STATUS(train(rt, &t, index == VICTIM), TSR_EPEER, NULL);
  CHECK(t.step == DEATH || t.step == DEATH - 1);
  rt = tsr_process_regroup(rt, "cpu:2");
  CHECK_STR(tsr_runtime_message(rt), "");
  CHECK_I64(tsr_process_count(rt), COUNT - 1);
  CHECK_STATUS(train(rt, &t, false), TSR_OK, NULL);
  CHECK_I64(t.step, STEPS);
  /* Each record once in each epoch, in the order that it has anyway. */
  int64_t expected[ALL], total = 0;
  tsr_scope *s = tsr_scope_open(rt);
  read_alone(s, expected);
  CHECK_I64(t.count, ALL);
  CHECK_BYTES(t.seen, expected, sizeof expected);
  for (int64_t n = 1; n <= RECORDS; n++) total += EPOCHS * n * n;
  CHECK_I64(t.total, total);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return 0;
}

TEST(fewer_go_on_with_records_that_nobody_saw)
{
  pid_t process[COUNT];
  setenv("TSR_ON_FAILURE", "shrink", 1);
  setenv("TSR_PROCESS_COUNT", "4", 1);
  setenv("TSR_COORDINATOR", fixture_socket("job"), 1);
  for (int i = 0; i < COUNT; i++) {
    char number[16];
    snprintf(number, sizeof number, "%d", i);
    setenv("TSR_PROCESS_INDEX", number, 1);
    fflush(NULL);
    process[i] = fork();
    CHECK(process[i] >= 0);
    if (process[i]) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int code = trains(i);
    fflush(NULL);
    _exit(code);
  }
  for (int i = 0; i < COUNT; i++)
    CHECK_I64(fixture_end(process[i]), i == VICTIM ? 128 + SIGKILL : 0);
}
