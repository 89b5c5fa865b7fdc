/* Children of fork in a job: they close their copy of a runtime, in any state, and read what is
 * there, and nothing of that shows in the processes of the job; and what core dumps hold of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/among.h"
#include "tessera.h"

enum { N = 1 << 18 }; /* 2 MiB of f64: pages that go back when they are freed */

typedef struct world {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
  tsr_array *cut, *whole, *own, *small, *sum, *bits, *pending;
  tsr_frame *df;
  tsr_pipeline *pipeline;
  tsr_batch *batch;
} world;

/* 0, 1, 2 ...: of a device memory of every kind: cut over all processes, whole on each, of this
 * process alone, small blocks that lie in a line of others, a sum that is left unreduced, bits,
 * rows of a frame, batches that threads fill, and what a thread still computes. */
static void fill_world(world *w)
{
  w->s = tsr_scope_open(w->rt);
  w->mesh = tsr_mesh_default(w->rt, "x");
  tsr_sharding on = tsr_on(w->mesh, "x");
  w->cut = tsr_iota(w->s, TSR_F64, TSR_SHAPE(N), 0, on);
  w->whole = tsr_iota(w->s, TSR_F64, TSR_SHAPE(N), 0, tsr_on(w->mesh, "-"));
  w->own = tsr_iota(w->s, TSR_F64, TSR_SHAPE(N), 0, (tsr_sharding){ 0 });
  w->small = tsr_iota(w->s, TSR_F64, TSR_SHAPE(8), 0, on);
  w->sum = tsr_constrain(tsr_sum(tsr_iota(w->s, TSR_F64, TSR_SHAPE(64, 128), 1, on),
                                 .dims = TSR_DIMS(0)),
                         tsr_on(w->mesh, "-;sum(x)"));
  w->bits = tsr_ge(w->cut, 5);
  tsr_array *ready[] = { w->cut, w->whole, w->own, w->small, w->sum, w->bits };
  CHECK_STATUS(tsr_eval(ready, sizeof ready / sizeof *ready), TSR_OK, w->s);
  w->df = tsr_frame_keep(w->s, tsr_frame_sort(tsr_frame_new(w->s, { "k", w->cut }), "k desc"));
  w->pipeline = tsr_pipeline_open(tsr_source_range(w->s, 4096), .batch_size = 64, .on = on);
  w->batch = tsr_pipeline_next(w->pipeline);
  CHECK(w->batch != NULL);
  w->pending = tsr_mul(w->cut, 3);
  CHECK_STATUS(tsr_start(&w->pending, 1), TSR_OK, w->s);
  CHECK_STR(tsr_message(w->s), "");
}

static void check_counted(world *w, tsr_array *a, double factor)
{
  static double found[N];
  int64_t count = tsr_shape_of(a).dims[0];
  CHECK_STATUS(tsr_read(tsr_mul(a, 1), found, (size_t)count * sizeof *found), TSR_OK, w->s);
  for (int64_t i = 0; i < count; i++) CHECK_F64_BITS(found[i], factor * (double)i);
}

static void check_world(world *w)
{
  double value = 0;
  check_counted(w, w->cut, 1);
  check_counted(w, w->whole, 1);
  check_counted(w, w->own, 1);
  check_counted(w, w->small, 1);
  check_counted(w, w->sum, 64);
  check_counted(w, w->pending, 3);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_cast(w->bits, TSR_F64)), &value), TSR_OK, w->s);
  CHECK_F64_BITS(value, N - 5);
  tsr_array *k = tsr_frame_column(w->df, "k");
  CHECK_STATUS(tsr_read_scalar(tsr_sum(k), &value), TSR_OK, w->s);
  CHECK_F64_BITS(value, (double)N * (N - 1) / 2);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_cast(tsr_batch_field(w->batch, "index"), TSR_F64)),
                               &value),
               TSR_OK, w->s);
  CHECK_F64_BITS(value, 64.0 * 63 / 2);
}

/* ---- children -------------------------------------------------------------------------------- */

static int closes_all(world *w)
{
  tsr_scope_close(w->s);
  tsr_runtime_close(w->rt);
  return 0;
}

static int closes_the_runtime(world *w)
{
  tsr_runtime_close(w->rt);
  return 0;
}

static int deletes(world *w)
{
  tsr_array *all[] = { w->cut, w->whole, w->own, w->small, w->sum, w->bits };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tsr_delete(all[i]);
  tsr_batch_release(w->batch);
  return closes_all(w);
}

/* What is this process's own can be read and computed with; new arrays take the place of old
 * ones. */
static int computes(world *w)
{
  double value = 0;
  if (tsr_read_scalar(tsr_sum(w->own), &value) || value != (double)N * (N - 1) / 2) return 1;
  tsr_delete(w->own);
  for (int i = 0; i < 20; i++) {
    tsr_scope *s = tsr_scope_open(w->s);
    tsr_array *a = tsr_full(s, i, TSR_F64, TSR_SHAPE(N), (tsr_sharding){ 0 });
    if (tsr_read_scalar(tsr_sum(tsr_mul(a, 2)), &value) || value != 2.0 * i * N) return 2;
    tsr_scope_close(s);
  }
  return closes_all(w);
}

/* What all do together is refused, and nobody of the job hears of it. */
static int meets(world *w)
{
  double value = 0;
  tsr_batch_release(w->batch); /* errors are its scope's else, which is the newest */
  if (tsr_read_scalar(tsr_sum(w->cut), &value) != TSR_ESTATE) return 1;
  if (!strstr(tsr_message(w->s), "this process is a child of fork")) return 2;
  tsr_scope_clear(w->s);
  tsr_array *gathered = tsr_process_gather(w->small);
  if (!tsr_is_inert(gathered) || tsr_scope_status(w->s) != TSR_ESTATE) return 3;
  return closes_all(w);
}

static int opens_another(world *w)
{
  double value = 0;
  tsr_runtime_close(w->rt);
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = tsr_full(s, 2, TSR_F64, TSR_SHAPE(N), tsr_on(tsr_mesh_default(rt, "x"), "x"));
  if (tsr_read_scalar(tsr_sum(a), &value) || value != 2.0 * N) return 1;
  tsr_runtime_close(rt);
  return 0;
}

/* In every process, and while nobody computes; then all go on. */
static void fork_and(world *w, int (*child)(world *w))
{
  int ended = 0;
  CHECK_STATUS(tsr_wait(w->pending), TSR_OK, w->s);
  CHECK_STATUS(tsr_sync(w->s, "fork"), TSR_OK, w->s);
  fflush(NULL);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (!pid) {
    alarm(60);
    _exit(child(w));
  }
  CHECK_I64(waitpid(pid, &ended, 0), pid);
  if (ended) FAIL("the child ended with %x", (unsigned)ended);
  CHECK_STATUS(tsr_sync(w->s, "forked"), TSR_OK, w->s);
}

static void children_of_a_job(void)
{
  static int (*const children[])(world *) = { closes_all, closes_the_runtime, deletes, computes,
                                              meets,      opens_another };
  world w = { .rt = among_open(2) };
  for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
    fill_world(&w);
    check_world(&w);
    fork_and(&w, children[i]);
    check_world(&w);
    tsr_scope_close(w.s);
  }
  tsr_runtime_close(w.rt);
}

AMONG_2_AND_4(children_leave_what_their_parents_have, children_of_a_job)

/* A process alone has no memory that a child shares; its threads are still not the child's. */
TEST(children_of_a_process_alone)
{
  static int (*const children[])(world *) = { closes_all, closes_the_runtime, deletes, computes };
  for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
    int ended = 0;
    world w = { .rt = tsr_runtime_open("cpu:4") };
    fill_world(&w);
    CHECK_STATUS(tsr_wait(w.pending), TSR_OK, w.s);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
      alarm(60);
      _exit(children[i](&w));
    }
    CHECK_I64(waitpid(pid, &ended, 0), pid);
    CHECK_I64(ended, 0);
    check_world(&w);
    tsr_runtime_close(w.rt);
  }
}

/* ---- core dumps ------------------------------------------------------------------------------ */

/* Bytes of mappings that a core dump takes in, and of the larger ones of memory files among them.
 * */
static void dumped(size_t *all, size_t *files)
{
  FILE *maps = fopen("/proc/self/smaps", "r");
  char line[1000];
  size_t bytes = 0;
  bool file = false;
  CHECK(maps);
  *all = *files = 0;
  while (fgets(line, sizeof line, maps)) {
    size_t from, end;
    if (sscanf(line, "%zx-%zx ", &from, &end) == 2) {
      bytes = end - from;
      file = strstr(line, "memfd:") != NULL;
    }
    if (strncmp(line, "VmFlags:", 8) || strstr(line, " dd ") || strstr(line, " dd\n")) continue;
    *all += bytes;
    if (file) *files += bytes;
  }
  fclose(maps);
}

/* A process of a job that is ended by a signal writes what it has itself, and not what others have
 * or what is only reserved: no more than one alone, but for some stacks. */
static void dumps_of_a_job(void)
{
  size_t alone, job, files;
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 1);
  dumped(&alone, &files);
  tsr_runtime_close(rt);
  world w = { .rt = among_open(2) };
  fill_world(&w);
  CHECK_STATUS(tsr_wait(w.pending), TSR_OK, w.s);
  dumped(&job, &files);
  CHECK_I64((int64_t)files, 0);
  if (job > alone + ((size_t)1 << 30))
    FAIL("%zu MiB would be dumped, and of a process alone %zu", job >> 20, alone >> 20);
  tsr_runtime_close(w.rt);
}

AMONG_2_AND_4(core_dumps_leave_out_what_is_shared, dumps_of_a_job)
