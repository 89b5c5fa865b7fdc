/* Steps saved by several processes and restored by another number of them: each writes what it
 * holds, all know how it went, and whoever reads finds one array. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/process_fixture.h"

/* f32[8,16] = 0, 1, 2 ...: made where it lies. */
static tsr_array *counted(tsr_scope *s, tsr_sharding on)
{
  tsr_array *flat = tsr_iota(s, TSR_F32, TSR_SHAPE(128), 0, tsr_on(on.mesh, ""));
  return tsr_constrain(tsr_reshape(flat, TSR_SHAPE(8, 16)), on);
}

static void check_counted(tsr_scope *s, tsr_array *a)
{
  float found[128];
  CHECK_STATUS(tsr_read(a, found, sizeof found), TSR_OK, s);
  for (int i = 0; i < 128; i++) CHECK_F32_BITS(found[i], (float)i);
}

static tsr_status save(tsr_runtime *rt, tsr_scope *s, const char *path, int64_t step)
{
  char mesh_text[32];
  int devices = tsr_device_count(rt);
  snprintf(mesh_text, sizeof mesh_text, "x=%d,y=%d", devices > 1 ? 2 : 1,
           devices > 1 ? devices / 2 : 1);
  tsr_mesh *mesh = tsr_mesh_make(rt, mesh_text);
  tsr_array *tree = tsr_tree(s, { "w", counted(s, tsr_on(mesh, "x,y")) },
                             { "all", counted(s, tsr_on(mesh, "")) }, { "own", tsr_num(s, 3) });
  char name[32];
  int me = tsr_process_index(rt);
  snprintf(name, sizeof name, "state/%d", me);
  return tsr_checkpoint_save(s, path, tree, .step = step,
                             .blobs = { { name, name, strlen(name) }, { "same", &me, sizeof me } });
}

static void restore(tsr_runtime *rt, tsr_scope *s, const char *path, int writers)
{
  tsr_saved_step *c = tsr_checkpoint_open(s, path);
  CHECK_STR(tsr_message(s), "");
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *on = tsr_abstract(s, TSR_F32, TSR_SHAPE(8, 16), tsr_on(mesh, "x"));
  tsr_array *back = tsr_checkpoint_restore(c, tsr_tree(s, { "w", on }, { "all", on }));
  check_counted(s, tsr_field(back, "w"));
  check_counted(s, tsr_field(back, "all"));
  double own = 0;
  CHECK_STATUS(tsr_read_scalar(tsr_checkpoint_restore(c, NULL, .path = "own"), &own), TSR_OK, s);
  CHECK_F64_BITS(own, 3);
  for (int p = 0; p < writers; p++) {
    char name[32];
    tsr_value value = { NULL, 0 };
    snprintf(name, sizeof name, "state/%d", p);
    CHECK_STATUS(tsr_checkpoint_blob(c, name, &value), TSR_OK, s);
    CHECK_STR(value.data, name);
    CHECK_STATUS(tsr_checkpoint_blob(c, "same", &value), TSR_OK, s);
    CHECK_I64(*(const int *)value.data, 0);
  }
}

static void there_and_back(const char *socket, int devices)
{
  char spec[16];
  snprintf(spec, sizeof spec, "cpu:%d", devices);
  tsr_runtime *rt = tsr_initialize(spec, .coordinator = fixture_socket(socket),
                                   .process_count = test_process_count(),
                                   .process_index = test_process(), .start_timeout = 30);
  CHECK_STR(tsr_runtime_message(rt), "");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_tmp("ckpt");
  CHECK_STATUS(save(rt, s, path, 7), TSR_OK, s);
  restore(rt, s, path, test_process_count());
  /* The step is there: on all the same error, from process 0. */
  CHECK_STATUS(save(rt, s, path, 7), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(s), "step_7 exists already");
  tsr_scope_clear(s);
  CHECK_STATUS(save(rt, s, path, 8), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_PROCESSES(two_of_two_devices, 2)
{
  there_and_back("two", 2);
}

TEST_PROCESSES(four_of_one_device, 4)
{
  there_and_back("four", 1);
}

/* What four wrote one reads, and the other way round. */
static int save_as_one_of(tsr_runtime *rt, tsr_scope *s, int index)
{
  (void)index;
  return save(rt, s, test_tmp("ckpt"), 1) ? 1 : 0;
}

static int restore_as_one_of(tsr_runtime *rt, tsr_scope *s, int index)
{
  (void)index;
  restore(rt, s, test_tmp("ckpt"), 1);
  return 0;
}

TEST(another_number_reads)
{
  fixture_run("four", 4, save_as_one_of);
  for (int count = 1; count <= 4; count++) {
    char name[16];
    snprintf(name, sizeof name, "read%d", count);
    fixture_run(name, count, restore_as_one_of);
  }
}

/* ---- frames ---------------------------------------------------------------------------------- */

enum { ROWS = 83 };

/* Texts that repeat, nulls in every column but the first, dates, times and bools. */
static void put_csv(const char *path)
{
  FILE *out = fopen(path, "wb");
  CHECK(out);
  fputs("id,who,day,at,ok,x\n", out);
  for (int i = 0; i < ROWS; i++) {
    unsigned h = (unsigned)i * 2654435761u;
    fprintf(out, "%d,", i);
    if (h >> 28) fprintf(out, "\"w\xc3\xa4, %u\"", (h >> 9) % 17);
    if (h >> 20 & 7) fprintf(out, ",2013-%02u-%02u", h % 12 + 1, (h >> 5) % 28 + 1);
    else fputs(",", out);
    fprintf(out, ",2014-05-%02u 1%u:00:07", (h >> 3) % 28 + 1, (h >> 13) % 10);
    fputs(h >> 17 & 3 ? h >> 19 & 1 ? ",true" : ",false" : ",", out);
    if (h >> 23 & 7) fprintf(out, ",%.3f\n", (double)(h >> 3) / 77 - 100000);
    else fputs(",\n", out);
  }
  CHECK(!fclose(out));
}

enum { FRAMES = 6 };
static const char *const frame_names[FRAMES] = { "all", "some", "none", "by", "sorted", "types" };

/* Rows in the usual borders and ragged, none, of groups, moved, and of every dtype. */
static void make_frames(tsr_scope *s, tsr_sharding on, tsr_frame *out[FRAMES])
{
  static const tsr_dtype dtypes[] = { TSR_BOOL, TSR_I8,  TSR_I16, TSR_I32, TSR_I64, TSR_U8,
                                      TSR_U16,  TSR_U32, TSR_U64, TSR_F16, TSR_F32, TSR_F64 };
  enum { COUNT = sizeof dtypes / sizeof *dtypes };
  tsr_column columns[COUNT];
  out[0] = tsr_frame_read_csv(s, test_tmp("in.csv"), .on = on, .text_nulls = true);
  out[1] = tsr_frame_filter(out[0], "x > 0 and id < 70");
  out[2] = tsr_frame_filter(out[0], "id > 1000");
  out[3] = tsr_frame_group_agg(out[0], "who", "rows = count(), s = sum(x), last = max(day)");
  out[4] = tsr_frame_sort(out[0], "who desc, id");
  tsr_array *numbers = tsr_iota(s, TSR_I32, TSR_SHAPE(41), 0, on);
  for (int i = 0; i < COUNT; i++)
    columns[i] =
        (tsr_column){ tsr_dtype_name(dtypes[i]), tsr_cast(tsr_mod(numbers, 7), dtypes[i]) };
  out[5] = tsr_frame_new_at(s, columns, COUNT, TSR_HERE);
}

static const char *whole_text(tsr_frame *df)
{
  return tsr_frame_text_with(df, &(tsr_show_opts){ .size = sizeof(tsr_show_opts), .rows = -1 });
}

static int save_frames(tsr_runtime *rt, tsr_scope *s, int index)
{
  tsr_frame *df[FRAMES];
  (void)index;
  make_frames(s, tsr_on(tsr_mesh_default(rt, "x"), "x"), df);
  tsr_save_opts opts = { .size = sizeof opts, .step = 1 };
  for (int i = 0; i < FRAMES; i++) opts.frames[i] = (tsr_frame_item){ frame_names[i], df[i] };
  return tsr_checkpoint_save_with(s, test_tmp("ckpt"), NULL, &opts, TSR_HERE) ? 1 : 0;
}

/* The texts of the frames as one process makes them. */
static void check_frames(tsr_scope *s, tsr_mesh *mesh)
{
  tsr_frame *expected[FRAMES];
  tsr_runtime *alone = tsr_runtime_open("cpu:3");
  tsr_scope *own = tsr_scope_open(alone);
  make_frames(own, tsr_on(tsr_mesh_default(alone, "x"), "x"), expected);
  tsr_saved_step *c = tsr_checkpoint_open(s, test_tmp("ckpt"));
  CHECK_STR(tsr_message(s), "");
  for (int i = 0; i < FRAMES; i++)
    for (int cut = 0; cut < 3; cut++) {
      tsr_sharding on = cut == 2 ? (tsr_sharding){ 0 } : tsr_on(mesh, cut ? "x" : "-");
      tsr_frame *back = tsr_checkpoint_frame(c, frame_names[i], on);
      CHECK_STR(whole_text(back), whole_text(expected[i]));
      if (i != 0) continue;
      /* It is a frame as any other: its texts have codes. */
      CHECK_STR(whole_text(tsr_frame_sort(tsr_frame_distinct(back, "who"), "who")),
                whole_text(tsr_frame_sort(tsr_frame_distinct(expected[i], "who"), "who")));
    }
  tsr_runtime_close(alone);
}

static int restore_frames(tsr_runtime *rt, tsr_scope *s, int index)
{
  (void)index;
  check_frames(s, tsr_mesh_default(rt, "x"));
  return 0;
}

/* Data files of a process in the step. */
static int files_of(int process)
{
  char command[700];
  snprintf(command, sizeof command, "exit $(ls '%s/step_1' | grep -c -- '^data-[0-9a-f]*-%d-')",
           test_tmp("ckpt"), process);
  return WEXITSTATUS(system(command));
}

TEST_TIMEOUT(frames_over_processes, 300)
{
  static const int readers[] = { 1, 2, 3, 4 };
  put_csv(test_tmp("in.csv"));
  fixture_run("frames", 4, save_frames);
  for (int p = 0; p < 4; p++) CHECK(files_of(p) > 0);
  for (size_t i = test_quick() ? 2 : 0; i < sizeof readers / sizeof *readers; i++) {
    char name[16];
    snprintf(name, sizeof name, "frames%d", readers[i]);
    fixture_run(name, readers[i], restore_frames);
  }
}

/* ---- replicas -------------------------------------------------------------------------------- */

/* What several processes hold each writes a share of; of little another of each array. */
static int save_replicas(tsr_runtime *rt, tsr_scope *s, int index)
{
  tsr_mesh *mesh = tsr_mesh_default(rt, "x"), *square = tsr_mesh_make(rt, "x=2,y=2");
  tsr_sharding everywhere = tsr_on(mesh, ""), pairs = tsr_on(square, "-,y");
  tsr_array *large = tsr_iota(s, TSR_F32, TSR_SHAPE(103, 1000), 1, everywhere);
  tsr_array *cut = tsr_iota(s, TSR_F64, TSR_SHAPE(333, 200), 0, pairs);
  tsr_array *tree = tsr_tree(s, { "large", large }, { "cut", cut },
                             { "a", tsr_full(s, 1, TSR_F32, TSR_SHAPE(3), everywhere) },
                             { "b", tsr_full(s, 2, TSR_F32, TSR_SHAPE(3), everywhere) },
                             { "c", tsr_full(s, 3, TSR_BOOL, TSR_SHAPE(3), everywhere) },
                             { "d", tsr_full(s, 4, TSR_F32, TSR_SHAPE(0), everywhere) });
  CHECK_STATUS(tsr_checkpoint_save(s, test_tmp("ckpt"), tree, .step = 1), TSR_OK, s);
  tsr_saved_step *c = tsr_checkpoint_open(s, test_tmp("ckpt"));
  CHECK_STATUS(tsr_checkpoint_verify(c), TSR_OK, s);
  CHECK_I64(tsr_checkpoint_entry(c, 0).parts, 4);
  CHECK_I64(tsr_checkpoint_entry(c, 1).parts, 4);
  for (int i = 2; i < 6; i++) CHECK_I64(tsr_checkpoint_entry(c, i).parts, 1);
  tsr_array *back = tsr_checkpoint_restore(c, tree);
  static const char *const names[] = { "large", "cut", "a", "b", "c" };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    double differ = 1;
    tsr_array *ne = tsr_ne(tsr_field(back, names[i]), tsr_field(tree, names[i]));
    CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_cast(ne, TSR_F64)), &differ), TSR_OK, s);
    CHECK(differ == 0);
  }
  CHECK(files_of(index) > 0);
  return 0;
}

TEST(replicas_are_written_by_all_that_hold_them)
{
  fixture_run("replicas", 4, save_replicas);
}

/* ---- many arrays ----------------------------------------------------------------------------- */

/* More arrays than a meeting has room to list, of each process's own and of all. */
enum { MANY = 40000 };

static tsr_array *many(tsr_runtime *rt, tsr_scope *s, bool types)
{
  static tsr_array *all[MANY];
  const double four[4] = { 1, 2, 3, 4 };
  tsr_sharding cut = tsr_on(tsr_mesh_default(rt, "x"), "x");
  for (int i = 0; i < MANY; i++) {
    tsr_sharding on = i % 4 ? (tsr_sharding){ 0 } : cut;
    all[i] = types ? tsr_abstract(s, TSR_F64, TSR_SHAPE(4), on)
                   : tsr_put(s, four, TSR_F64, TSR_SHAPE(4), on);
  }
  return tsr_tuple_at(s, all, MANY, TSR_HERE);
}

static int save_many(tsr_runtime *rt, tsr_scope *s, int index)
{
  (void)index;
  tsr_status status = tsr_checkpoint_save(s, test_tmp("ckpt"), many(rt, s, false), .step = 1);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  return status != TSR_OK;
}

static int restore_many(tsr_runtime *rt, tsr_scope *s, int index)
{
  static const double four[4] = { 1, 2, 3, 4 };
  double found[4];
  (void)index;
  tsr_saved_step *c = tsr_checkpoint_open(s, test_tmp("ckpt"));
  CHECK_I64(tsr_checkpoint_count(c), MANY);
  tsr_array *back = tsr_checkpoint_restore(c, many(rt, s, true));
  for (int i = 0; i < MANY; i += 2003) {
    CHECK_STATUS(tsr_read(tsr_item(back, i), found, sizeof found), TSR_OK, s);
    CHECK_BYTES(found, four, sizeof found);
  }
  return 0;
}

TEST_TIMEOUT(many_arrays, 300)
{
  char command[700];
  fixture_run("many", 2, save_many);
  /* What each process listed for process 0 is gone: the catalog, and a file of each. */
  snprintf(command, sizeof command, "exit $(ls -a '%s/step_1' | wc -l)", test_tmp("ckpt"));
  CHECK_I64(WEXITSTATUS(system(command)), 2 + 1 + 2);
  fixture_run("again", 2, restore_many);
}

/* ---- when one fails -------------------------------------------------------------------------- */

/* Process 1 cannot write: all hear why, nothing stays, and the step before is the newest. */
TEST_PROCESSES(who_cannot_write_tells_all, 3)
{
  tsr_runtime *rt = fixture_join("fails");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_tmp("ckpt");
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *x = tsr_iota(s, TSR_F32, TSR_SHAPE(300), 0, tsr_on(mesh, "x"));
  CHECK_STATUS(tsr_checkpoint_save(s, path, x, .step = 1), TSR_OK, s);
  /* Of another tree than the others'. */
  tsr_array *other = test_process() == 1 ? tsr_tuple(s, x) : x;
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  CHECK_STATUS(tsr_checkpoint_save(s, path, other, .step = 2), TSR_EPEER, NULL);
  CHECK_STR_HAS(tsr_message(s), "process 1 saves step 2 of (*), but process 0 saves step 2 of *");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_sync(s, "undone"), TSR_OK, s);
  CHECK_I64(tsr_checkpoint_step(tsr_checkpoint_open(s, path)), 1);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
