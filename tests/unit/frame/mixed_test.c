/* Frames that lie differently: where rows lie, what arithmetic of two frames moves, replicas. */
#include "tessera.h"

#include "frame/out/out.h"
#include "harness.h"

#include <string.h>

enum { N = 100 };

struct fixture {
  tsr_runtime *rt;
  tsr_mesh *mesh; /* data=2,model=4 */
  tsr_scope *s;
};

static struct fixture open_fixture(void)
{
  struct fixture f = { .rt = tsr_runtime_open("cpu:8") };
  f.mesh = tsr_mesh_make(f.rt, "data=2,model=4");
  f.s = tsr_scope_open(f.rt);
  return f;
}

/* a: 0 .. 99, on a spec of the mesh; NULL: unplaced. */
static tsr_frame *frame_on(struct fixture *f, const char *spec)
{
  int64_t a[N];
  for (int i = 0; i < N; i++) a[i] = i;
  tsr_sharding at = spec ? tsr_on(f->mesh, spec) : (tsr_sharding){ 0 };
  return tsr_frame_new(f->s, { "a", tsr_put(f->s, a, TSR_I64, TSR_SHAPE(N), at) });
}

static void check_place(tsr_frame *df, const char *expected)
{
  char found[64];
  tsr_sharding at = tsr_frame_sharding(df);
  tsr_sharding_text(&at, 1, found, sizeof found);
  CHECK_STR(found, expected);
}

static void check_sum(tsr_frame *df, int64_t expected)
{
  tsr_row *row = tsr_frame_row(tsr_frame_sum(df));
  CHECK_STATUS(tsr_row_status(row), TSR_OK, df->node.scope);
  CHECK_I64(tsr_row_i64(row, "a"), expected);
}

TEST(rows_lie_where_their_source_does)
{
  struct fixture f = open_fixture();
  tsr_frame *rows = frame_on(&f, "data");
  check_place(rows, "(data)");
  check_place(tsr_frame_filter(rows, "a > 3"), "(data)");
  check_place(tsr_frame_head(tsr_frame_assign(rows, "b", "a * 2"), 3), "(data)");
  check_place(frame_on(&f, "data+model"), "(data+model)");
  check_place(frame_on(&f, "-"), "(-)");
  check_place(frame_on(&f, NULL), "unplaced");
  check_place(tsr_frame_sum(rows), "unplaced");
  check_place(tsr_frame_filter(rows, "nothing"), "unplaced");
  check_place(NULL, "unplaced");
  tsr_scope_clear(f.s);
  check_place(tsr_frame_sub(tsr_frame_sum(rows), rows), "(data)");
  tsr_runtime_close(f.rt);
}

/* Wherever two frames of equal rows lie, their sum has the right values and lies where it says. */
TEST(frames_on_any_two_places)
{
  static const char *const specs[] = { NULL, "-", "data", "model", "model+data" };
  struct fixture f = open_fixture();
  for (int i = 0; i < 5; i++) {
    for (int k = 0; k < 5; k++) {
      tsr_frame *a = frame_on(&f, specs[i]), *b = frame_on(&f, specs[k]);
      tsr_frame *sum = tsr_frame_add(a, b);
      tsr_sharding said = tsr_frame_sharding(sum);
      tsr_array *column = tsr_frame_column(sum, "a");
      tsr_sharding found = tsr_sharding_of(column);
      if (!tsr_sharding_same(&said, &found, TSR_SHAPE(N)))
        FAIL("%s + %s", specs[i] ? specs[i] : "unplaced", specs[k] ? specs[k] : "unplaced");
      const char *moves = tsr_frame_incompatible(a, b);
      if ((tsr_last_run(f.s).bytes_counted == 0) != !moves)
        FAIL("%s + %s moved %lld bytes: %s", specs[i] ? specs[i] : "unplaced",
             specs[k] ? specs[k] : "unplaced", (long long)tsr_last_run(f.s).bytes_counted, moves);
      check_sum(sum, 2 * 4950);
      int64_t rows = 0;
      CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(sum, "a >= 100"), &rows), TSR_OK, f.s);
      CHECK_I64(rows, 50);
    }
  }
  CHECK_STR(tsr_message(f.s), "");
  tsr_runtime_close(f.rt);
}

/* Rows over one axis of two: the devices along the other hold the same rows, which count once. */
TEST(replicas_count_once)
{
  struct fixture f = open_fixture();
  static const char *const specs[] = { "data", "model", "-" };
  for (int i = 0; i < 3; i++) {
    tsr_frame *df = frame_on(&f, specs[i]), *kept = tsr_frame_filter(df, "a % 3 == 0");
    tsr_table *table = NULL;
    int64_t rows = 0;
    CHECK_STATUS(tsr_frame_row_count(kept, &rows), TSR_OK, f.s);
    CHECK_I64(rows, 34);
    CHECK_STATUS(tsr_frame_collect(kept, &table), TSR_OK, f.s);
    CHECK_I64(tsr_table_row_count(table), 34);
    for (int r = 0; r < 34; r++) CHECK_I64(tsr_table_i64(table, r, 0), 3 * r);
    tsr_row *row = tsr_frame_row(tsr_frame_agg(kept, "n = count(), s = sum(a), v = var(a)"));
    CHECK_I64(tsr_row_i64(row, "n"), 34);
    CHECK_I64(tsr_row_i64(row, "s"), 3 * 33 * 34 / 2);
    CHECK_F64_BITS(tsr_row_f64(row, "v"), 9 * 34.0 * 35 / 12);
    CHECK_STATUS(tsr_frame_collect(tsr_frame_head(kept, 5), &table), TSR_OK, f.s);
    CHECK_I64(tsr_table_row_count(table), 5);
    CHECK_I64(tsr_table_i64(table, 4, 0), 12);
    CHECK_I64(tsr_shape_of(tsr_frame_column(kept, "a")).dims[0], 34);
  }
  tsr_runtime_close(f.rt);
}

TEST(what_does_not_fit_is_told)
{
  struct fixture f = open_fixture();
  tsr_frame *rows = frame_on(&f, "data"), *whole = frame_on(&f, "-"), *local = frame_on(&f, NULL);
  CHECK_STR(tsr_frame_incompatible(rows, whole), NULL);
  CHECK_STR(tsr_frame_incompatible(whole, rows), NULL);
  CHECK_STR(tsr_frame_incompatible(rows, tsr_frame_sum(rows)), NULL);
  CHECK_STR(tsr_frame_incompatible(rows, tsr_frame_assign(rows, "a", "a + 1")), NULL);
  CHECK_STR(tsr_frame_incompatible(rows, local),
            "the rows of the right frame lie on one device and would be sent to (data) on "
            "data=2,model=4; place both frames alike, or use tsr_frame_scatter once");
  CHECK_STR_HAS(tsr_frame_incompatible(local, rows),
                "the rows of the left frame lie on one device");
  CHECK_STR_HAS(tsr_frame_incompatible(rows, frame_on(&f, "model")),
                "right frame lie on (model) on data=2,model=4 and would be sent to (data)");
  CHECK_STR_HAS(tsr_frame_incompatible(rows, tsr_frame_filter(rows, "a > 3")),
                "come from different filters");
  CHECK_STR(tsr_frame_incompatible(rows, NULL), "the right frame is inert: its own call failed");
  CHECK_STR(tsr_frame_incompatible(tsr_frame_filter(rows, "b"), rows),
            "the left frame is inert: its own call failed");
  CHECK(tsr_frame_incompatible(NULL, NULL) != NULL);
  tsr_runtime_close(f.rt);
}

/* C's true and false are integers; beside a bool they are bools. */
TEST(bool_values_meet_bool_columns)
{
  struct fixture f = open_fixture();
  tsr_frame *df = tsr_frame_assign(frame_on(&f, "data"), "even", "a % 2 == 0");
  int64_t rows = 0;
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(df, "even == ?", true), &rows), TSR_OK, f.s);
  CHECK_I64(rows, 50);
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(df, "? != even and a < ?", false, 10), &rows),
               TSR_OK, f.s);
  CHECK_I64(rows, 5);
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(df, "even in (?)", true), &rows), TSR_OK, f.s);
  CHECK_I64(rows, 50);
  df = tsr_frame_fill_null(tsr_frame_assign(df, "n", "if(a > 3, even, null)"), "n", "?", true);
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(df, "n"), &rows), TSR_OK, f.s);
  CHECK_I64(rows, 52);
  CHECK(tsr_frame_is_inert(tsr_frame_filter(df, "even == ?", 2)));
  CHECK_STR_HAS(tsr_message(f.s), "'==' cannot compare bool with i64");
  tsr_runtime_close(f.rt);
}

/* A frame holds the values of its arrays, whoever deletes these. */
TEST(deleted_arrays_serve_their_frames)
{
  struct fixture f = open_fixture();
  int64_t a[N];
  for (int i = 0; i < N; i++) a[i] = i;
  tsr_array *x = tsr_put(f.s, a, TSR_I64, TSR_SHAPE(N), tsr_on(f.mesh, "data"));
  tsr_frame *df = tsr_frame_new(f.s, { "a", x });
  tsr_frame *kept = tsr_frame_filter(df, "a < 10");
  tsr_delete(x);
  check_sum(kept, 45);
  check_sum(df, 4950);
  tsr_array *late = tsr_add(tsr_put(f.s, a, TSR_I64, TSR_SHAPE(N), tsr_on(f.mesh, "data")), 1);
  df = tsr_frame_new(f.s, { "a", late });
  tsr_delete(late);
  int64_t rows = 0;
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_row_count(df, &rows), TSR_OK, f.s);
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(f.s), "the array of column 'a' was deleted before it was evaluated");
  CHECK_STR_HAS(tsr_frame_explain(df), "was deleted before");
  tsr_runtime_close(f.rt);
}

/* A frame's value keeps device memory only as long as the frame. */
TEST(deleted_arrays_go_with_their_frames)
{
  struct fixture f = open_fixture();
  tsr_array *x = tsr_full(f.s, 3.0, TSR_F64, TSR_SHAPE(1 << 20), (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, f.s);
  tsr_scope *inner = tsr_scope_open(f.s);
  tsr_frame *df = tsr_frame_new(inner, { "a", x });
  tsr_delete(x);
  CHECK(!tsr_frame_is_inert(df));
  CHECK(tsr_device_memory(f.rt, 0).now >= 8 << 20);
  tsr_scope_close(inner);
  CHECK(tsr_device_memory(f.rt, 0).now < 8 << 20);
  tsr_runtime_close(f.rt);
}

TEST(frames_without_a_scope)
{
  int64_t rows;
  tsr_table *table = NULL;
  tsr_frame *df = tsr_frame_read_csv(NULL, "a.csv");
  CHECK(tsr_frame_is_inert(df) && tsr_frame_is_inert(tsr_frame_filter(df, "a")));
  CHECK_STATUS(tsr_frame_row_count(df, &rows), TSR_EARG, NULL);
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_EARG, NULL);
  CHECK_STATUS(tsr_row_status(tsr_frame_row(df)), TSR_EARG, NULL);
}

/* Rows that were moved lie where they were asked to, and a mixed filter knows its devices. */
TEST(moved_rows_and_devices)
{
  struct fixture f = open_fixture();
  tsr_frame *rows = frame_on(&f, "data"), *local = frame_on(&f, NULL);
  check_place(tsr_frame_scatter(local, tsr_on(f.mesh, "model,-")), "(model)");
  check_place(tsr_frame_gather(rows), "unplaced");
  tsr_frame *kept = tsr_frame_filter(tsr_frame_add(local, rows), "a >= 100");
  CHECK_STR_HAS(tsr_frame_devices(kept), "device 0: 0 of 50 rows\n");
  CHECK_STR_HAS(tsr_frame_devices(kept), "device 7: 50 of 50 rows\n");
  tsr_frame_scatter(local, tsr_on(f.mesh, "-,model"));
  CHECK_STATUS(tsr_scope_status(f.s), TSR_EUNSUPPORTED, f.s);
  tsr_runtime_close(f.rt);
}
