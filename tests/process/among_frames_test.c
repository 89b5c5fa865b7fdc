/* Frames over devices of several processes: the rows, texts and files of one process, and what one
 * of them cannot do told to all. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "support/among.h"
#include "tessera.h"

enum { DEVICES = 8, ROWS = 1500, MOST = 1 << 20 };

/* ---- files ---- */

/* Rows of numbers, texts with quotes and nulls; `late`: a row whose number is none, -1: none. */
static void put_csv(const char *path, int rows, int late)
{
  FILE *out = fopen(path, "wb");
  CHECK(out);
  fputs("id,who,n,x\n", out);
  for (int i = 0; i < rows; i++) {
    unsigned h = (unsigned)i * 2654435761u;
    fprintf(out, "%d,", i);
    if (h >> 8 & 1) fprintf(out, "\"w, %u\"", (h >> 9) % 37);
    else if (h >> 28) fprintf(out, "w%u", (h >> 9) % 91);
    if (i == late) fputs(",many", out);
    else fprintf(out, ",%u", (h >> 12) % 1000);
    if (h >> 20 & 7) fprintf(out, ",%.3f\n", (double)(h >> 3) / 77 - 100000);
    else fputs(",\n", out);
  }
  CHECK(!fclose(out));
}

static void put_json(const char *path, int rows)
{
  FILE *out = fopen(path, "wb");
  CHECK(out);
  for (int i = 0; i < rows; i++) {
    unsigned h = (unsigned)i * 2654435761u;
    fprintf(out, "{\"id\": %d, \"who\": \"w%u\"", i, (h >> 9) % 53);
    if (i > rows / 2) fprintf(out, ", \"x\": %u.5", h >> 12);
    fputs("}\n", out);
  }
  CHECK(!fclose(out));
}

static char *read_whole(const char *path, size_t *size)
{
  static char room[2][MOST];
  static int turn;
  FILE *in = fopen(path, "rb");
  CHECK(in);
  turn = !turn;
  *size = fread(room[turn], 1, MOST, in);
  CHECK(*size < MOST && !fclose(in));
  return room[turn];
}

/* ---- the same as one process ---- */

/* What a program says: texts, one after the other. */
typedef struct said {
  char text[1 << 16];
} said;

static void say(said *out, tsr_frame *df)
{
  const char *text = tsr_frame_text_with(df, &(tsr_show_opts){ .size = sizeof(tsr_show_opts) });
  CHECK(strlen(out->text) + strlen(text) < sizeof out->text);
  strcat(out->text, text);
}

typedef void program(tsr_scope *s, tsr_sharding on, const char *out, said *to);

static void rows_of_csv(tsr_scope *s, tsr_sharding on, const char *out, said *to)
{
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("in.csv"), .on = on);
  say(to, df);
  say(to, tsr_frame_describe(df));
  tsr_frame *some = tsr_frame_filter(df, "x > 0 and who is not null");
  tsr_frame *by = tsr_frame_group_agg(some, "who", "rows = count(), s = sum(x), m = max(id)");
  say(to, tsr_frame_sort(by, "s desc, who"));
  tsr_frame *both = tsr_frame_join(df, by, "who", .how = TSR_JOIN_LEFT);
  both = tsr_frame_sort(both, "x, id desc");
  CHECK_STATUS(tsr_frame_write_csv(both, out), TSR_OK, s);
  strcat(to->text, tsr_frame_explain(by));
  strcat(to->text, tsr_frame_explain(both));
  int64_t rows = 0;
  CHECK_STATUS(tsr_frame_row_count(some, &rows), TSR_OK, s);
  sprintf(to->text + strlen(to->text), "%d\n%s", (int)rows, tsr_frame_devices(some));
}

static void rows_of_json(tsr_scope *s, tsr_sharding on, const char *out, said *to)
{
  tsr_frame *df = tsr_frame_read_json(s, test_tmp("in.json"), .on = on);
  say(to, tsr_frame_distinct(df, "who"));
  df = tsr_frame_sort(df, "who desc");
  CHECK_STATUS(tsr_frame_write_json(df, out), TSR_OK, s);
  say(to, tsr_frame_head(df, 7));
}

/* Both files have one content, and both said the same. */
static void check_alone(program *run)
{
  static said mine, expected;
  if (!test_process()) {
    put_csv(test_tmp("in.csv"), ROWS, -1);
    put_json(test_tmp("in.json"), ROWS);
  }
  tsr_runtime *among = among_open(DEVICES / test_process_count());
  tsr_scope *s = tsr_scope_open(among);
  CHECK_STATUS(tsr_sync(s, "written"), TSR_OK, s);
  char one[64];
  snprintf(one, sizeof one, "one%d", test_process());
  const char *alone_path = test_tmp(one), *path = test_tmp("all");
  run(s, tsr_on(tsr_mesh_make(among, "data=8"), "data"), path, &mine);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_runtime *alone = tsr_runtime_open("cpu:8");
  tsr_scope *own = tsr_scope_open(alone);
  run(own, tsr_on(tsr_mesh_make(alone, "data=8"), "data"), alone_path, &expected);
  CHECK_STATUS(tsr_scope_status(own), TSR_OK, own);
  CHECK_STR(mine.text, expected.text);
  size_t size, wanted;
  char *found = read_whole(path, &size), *want = read_whole(alone_path, &wanted);
  CHECK_I64((int64_t)size, (int64_t)wanted);
  CHECK_BYTES(found, want, size);
  CHECK_STATUS(tsr_sync(s, "read"), TSR_OK, s);
  tsr_runtime_close(alone);
  tsr_runtime_close(among);
}

TEST_PROCESSES(csv_of_two_is_that_of_one, 2)
{
  check_alone(rows_of_csv);
}

TEST_PROCESSES(csv_of_four_is_that_of_one, 4)
{
  check_alone(rows_of_csv);
}

TEST_PROCESSES(json_of_four_is_that_of_one, 4)
{
  check_alone(rows_of_json);
}

/* ---- what one of them finds ---- */

typedef struct reading {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_sharding on;
} reading;

static reading open_reading(void)
{
  reading r = { .rt = among_open(2) };
  r.s = tsr_scope_open(r.rt);
  r.on = tsr_on(tsr_mesh_default(r.rt, "data"), "data");
  return r;
}

static void ready(const reading *r)
{
  CHECK_STATUS(tsr_sync(r->s, "written"), TSR_OK, r->s);
}

TEST_PROCESSES(a_late_value_widens_a_column_everywhere, 3)
{
  reading r = open_reading();
  tsr_table *table;
  /* Behind what is sampled when the file is opened. */
  if (!test_process()) put_csv(test_tmp("late.csv"), 60000, 59000);
  ready(&r);
  tsr_frame *df = tsr_frame_read_csv(r.s, test_tmp("late.csv"), .on = r.on);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_head(tsr_frame_select(df, "id"), 3), &table), TSR_OK,
               r.s);
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, r.s);
  int n = tsr_table_find(table, "n");
  CHECK_I64(tsr_table_type(table, n), TSR_COL_TEXT);
  CHECK_STR(tsr_table_text(table, 59000, n), "many");
  tsr_runtime_close(r.rt);
}

TEST_PROCESSES(a_bad_row_is_one_error_for_all, 3)
{
  reading r = open_reading();
  tsr_table *table;
  if (!test_process()) {
    put_csv(test_tmp("bad.csv"), 30000, -1);
    FILE *out = fopen(test_tmp("bad.csv"), "ab");
    CHECK(out && fputs("30000,too,many,fields,here\n", out) > 0);
    for (int i = 30001; i < 60000; i++) fprintf(out, "%d,w,1,2\n", i);
    CHECK(fputs("60000,too,few\n", out) > 0 && !fclose(out));
  }
  ready(&r);
  tsr_frame *df = tsr_frame_read_csv(r.s, test_tmp("bad.csv"), .on = r.on);
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_EPARSE, NULL);
  /* The earlier one, as the process that has neither says it, too. */
  CHECK(strstr(tsr_message(r.s), "bad.csv:30002:"));
  CHECK(strstr(tsr_message(r.s), "has 5 fields, expected 4"));
  CHECK(!strstr(tsr_message(r.s), "process "));
  tsr_scope_clear(r.s);
  double sum = 0;
  float ones[6] = { 1, 1, 1, 1, 1, 1 };
  CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_put(r.s, ones, TSR_F32, TSR_SHAPE(6), r.on)), &sum),
               TSR_OK, r.s);
  CHECK(sum == 6);
  tsr_runtime_close(r.rt);
}

TEST_PROCESSES(a_file_that_one_cannot_open_is_opened_by_none, 3)
{
  reading r = open_reading();
  if (!test_process()) put_csv(test_tmp("in.csv"), 30, -1);
  ready(&r);
  const char *path = test_tmp(test_process() == 1 ? "nowhere.csv" : "in.csv");
  tsr_frame *df = tsr_frame_read_csv(r.s, path, .on = r.on);
  CHECK(tsr_frame_is_inert(df));
  CHECK(strstr(tsr_message(r.s), "nowhere.csv"));
  if (test_process() != 1) CHECK(strstr(tsr_message(r.s), "process 1: "));
  tsr_scope_clear(r.s);
  df = tsr_frame_read_csv(r.s, test_tmp("in.csv"), .on = r.on);
  int64_t rows = 0;
  CHECK_STATUS(tsr_frame_row_count(df, &rows), TSR_OK, r.s);
  CHECK_I64(rows, 30);
  tsr_runtime_close(r.rt);
}

static int no_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
  (void)stream, (void)out;
  return EIO;
}

TEST_PROCESSES(a_stream_that_one_cannot_read_is_read_by_none, 2)
{
  reading r = open_reading();
  int64_t ids[4] = { 1, 2, 3, 4 }, rows = 0;
  tsr_array *own = tsr_put(r.s, ids, TSR_I64, TSR_SHAPE(4), (tsr_sharding){ 0 });
  for (int bad = 1; bad >= 0; bad--) {
    struct ArrowArrayStream stream;
    CHECK_STATUS(tsr_frame_to_arrow(tsr_frame_new(r.s, { "id", own }), &stream), TSR_OK, r.s);
    if (bad && test_process()) stream.get_schema = no_schema;
    tsr_frame *df = tsr_frame_from_arrow(r.s, &stream, .on = r.on);
    CHECK(tsr_frame_is_inert(df) == (bool)bad);
    if (!bad) CHECK_STATUS(tsr_frame_row_count(df, &rows), TSR_OK, r.s);
    if (bad && !test_process()) CHECK_STR_HAS(tsr_message(r.s), "process 1: ");
    if (bad) tsr_scope_clear(r.s);
  }
  CHECK_I64(rows, 4);
  tsr_runtime_close(r.rt);
}

TEST_PROCESSES(another_content_is_named, 2)
{
  reading r = open_reading();
  if (!test_process()) {
    put_csv(test_tmp("a.csv"), 30, -1);
    put_csv(test_tmp("b.csv"), 31, -1);
  }
  ready(&r);
  const char *path = test_tmp(test_process() ? "b.csv" : "a.csv");
  tsr_frame *df = tsr_frame_read_csv(r.s, path, .on = r.on);
  CHECK(tsr_frame_is_inert(df));
  CHECK_STATUS(tsr_scope_status(r.s), TSR_EPEER, NULL);
  CHECK(strstr(tsr_message(r.s), "not the same in all processes"));
  CHECK(strstr(tsr_message(r.s), "bytes in process 0"));
  tsr_runtime_close(r.rt);
}

TEST_PROCESSES(a_file_that_cannot_be_written_is_an_error_of_all, 2)
{
  reading r = open_reading();
  int64_t ids[6] = { 5, 4, 3, 2, 1, 0 };
  tsr_frame *df = tsr_frame_new(r.s, { "id", tsr_put(r.s, ids, TSR_I64, TSR_SHAPE(6), r.on) });
  df = tsr_frame_sort(df, "id");
  CHECK(tsr_frame_write_csv(df, test_tmp("no/such/folder.csv")));
  CHECK(strstr(tsr_message(r.s), "folder.csv"));
  if (test_process()) CHECK(strstr(tsr_message(r.s), "process 0: "));
  tsr_scope_clear(r.s);
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("out.csv")), TSR_OK, r.s);
  size_t size;
  CHECK_BYTES(read_whole(test_tmp("out.csv"), &size), "id\n0\n1\n2\n3\n4\n5\n", 15);
  tsr_runtime_close(r.rt);
}

TEST_PROCESSES(who_ends_before_a_sort_is_named, 3)
{
  reading r = open_reading();
  tsr_table *table;
  if (!test_process()) put_csv(test_tmp("in.csv"), 3000, -1);
  ready(&r);
  tsr_frame *df = tsr_frame_read_csv(r.s, test_tmp("in.csv"), .on = r.on);
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, r.s);
  if (test_process() == 2) _exit(0);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_sort(df, "x, id"), &table), TSR_EPEER, NULL);
  CHECK(strstr(tsr_message(r.s), "process 2"));
  tsr_scope_close(r.s);
  tsr_runtime_close(r.rt);
}
