/* The Arrow C stream interface with producers made by hand, what they may get wrong, and a strict
 * consumer: who owns what, until when. Guards the devices. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "io/arrow/arrow_read.h"
#include "support/allocations.h"
#include "tessera.h"

/* ---- a producer ---------------------------------------------------------------------------- */

enum { COLUMNS = 3, BATCHES = 4, BUFFERS = 5 };

/* What is given: columns by format, the same buffers in every batch. Arrays count their
 * releases. */
typedef struct producer {
  int columns, batches, given;
  const char *format[COLUMNS], *name[COLUMNS], *entry_format;
  struct ArrowArray column[COLUMNS], entries; /* templates */
  const void *buffers[COLUMNS][BUFFERS], *entry_buffers[BUFFERS];
  int64_t length, offset;
  int live_arrays, live_schemas, live_streams;
  int fail_schema, fail_at_batch; /* errno; the batch counted from 1 */
  const char *said;
  struct ArrowSchema schema_child[COLUMNS], schema_entries, *schema_pointer[COLUMNS];
} producer;

typedef struct made {
  producer *p;
  struct ArrowArray child[COLUMNS], entries, *pointer[COLUMNS];
  const void *none[1];
} made;

static void release_child_schema(struct ArrowSchema *schema)
{
  ((producer *)schema->private_data)->live_schemas--;
  schema->release = NULL;
}

static void release_schema(struct ArrowSchema *schema)
{
  for (int64_t i = 0; i < schema->n_children; i++) {
    struct ArrowSchema *child = schema->children[i];
    if (child->dictionary && child->dictionary->release)
      child->dictionary->release(child->dictionary);
    if (child->release) child->release(child);
  }
  release_child_schema(schema);
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
  producer *p = stream->private_data;
  if (p->fail_schema) return p->fail_schema;
  for (int i = 0; i < p->columns; i++) {
    p->schema_child[i] = (struct ArrowSchema){
      .format = p->format[i], .name = p->name[i], .release = release_child_schema, .private_data = p
    };
    p->schema_pointer[i] = &p->schema_child[i];
    p->live_schemas++;
  }
  if (p->entry_format) {
    p->schema_entries = (struct ArrowSchema){ .format = p->entry_format,
                                              .release = release_child_schema,
                                              .private_data = p };
    p->schema_child[0].dictionary = &p->schema_entries;
    p->live_schemas++;
  }
  p->live_schemas++;
  *out = (struct ArrowSchema){ .format = "+s",
                               .n_children = p->columns,
                               .children = p->schema_pointer,
                               .release = release_schema,
                               .private_data = p };
  return 0;
}

static void release_child(struct ArrowArray *array)
{
  ((producer *)array->private_data)->live_arrays--;
  array->release = NULL;
}

static void release_batch(struct ArrowArray *array)
{
  made *m = array->private_data;
  for (int64_t i = 0; i < m->p->columns; i++) {
    if (m->child[i].dictionary && m->entries.release) m->entries.release(&m->entries);
    if (m->child[i].release) m->child[i].release(&m->child[i]);
  }
  m->p->live_arrays--;
  array->release = NULL;
  free(m);
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
  producer *p = stream->private_data;
  if (p->fail_at_batch == p->given + 1) return EIO;
  *out = (struct ArrowArray){ 0 };
  if (p->given == p->batches) return 0;
  p->given++;
  made *m = calloc(1, sizeof *m);
  m->p = p;
  for (int i = 0; i < p->columns; i++) {
    m->child[i] = p->column[i];
    m->pointer[i] = &m->child[i];
    if (!m->child[i].buffers) m->child[i].buffers = p->buffers[i];
    m->child[i].private_data = p;
    m->child[i].release = release_child;
    p->live_arrays++;
  }
  if (p->entry_format) {
    m->entries = p->entries;
    m->entries.buffers = p->entry_buffers;
    m->entries.private_data = p;
    m->entries.release = release_child;
    m->child[0].dictionary = &m->entries;
    p->live_arrays++;
  }
  p->live_arrays++;
  *out = (struct ArrowArray){ .length = p->length,
                              .offset = p->offset,
                              .n_buffers = 1,
                              .buffers = m->none,
                              .n_children = p->columns,
                              .children = m->pointer,
                              .release = release_batch,
                              .private_data = m };
  return 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
  return ((producer *)stream->private_data)->said;
}

static void release_stream(struct ArrowArrayStream *stream)
{
  ((producer *)stream->private_data)->live_streams--;
  stream->release = NULL;
}

static struct ArrowArrayStream stream_of(producer *p)
{
  p->given = 0;
  p->live_streams++;
  return (struct ArrowArrayStream){ get_schema, get_next, get_last_error, release_stream, p };
}

static _Alignas(64) const int64_t numbers[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
static const uint8_t some_valid[1] = { 0xb6 }; /* 1 and 2, 4 and 5, 7 */
static const int32_t text_offsets[9] = { 0, 1, 3, 3, 4, 5, 6, 7, 8 };

/* i64 with nulls, f64, text. */
static producer usual(void)
{
  producer p = { .columns = 3,
                 .batches = 1,
                 .length = 8,
                 .format = { "l", "g", "u" },
                 .name = { "a", "b", "c" },
                 .said = "the disk is gone" };
  for (int i = 0; i < 3; i++)
    p.column[i] = (struct ArrowArray){ .length = 8, .n_buffers = i == 2 ? 3 : 2 };
  p.column[0].null_count = 3;
  p.buffers[0][0] = some_valid;
  p.buffers[0][1] = p.buffers[1][1] = numbers;
  p.buffers[2][1] = text_offsets;
  p.buffers[2][2] = "xyzzabcd";
  return p;
}

/* ---- reading ------------------------------------------------------------------------------- */

static const char *csv_of(tsr_scope *s, tsr_frame *df, char *out, size_t size)
{
  const char *path = test_tmp("seen.csv");
  CHECK_STATUS(tsr_frame_write_csv(df, path), TSR_OK, s);
  char *text = test_read(path, NULL);
  snprintf(out, size, "%s", text);
  free(text);
  return out;
}

static void check_released(const producer *p)
{
  CHECK_I64(p->live_arrays, 0);
  CHECK_I64(p->live_schemas, 0);
  CHECK_I64(p->live_streams, 0);
}

TEST(batches_are_rows_and_are_released_once)
{
  for (int devices = 1; devices <= 3; devices += 2) {
    char text[1000];
    producer p = usual();
    p.column[1] = p.column[0]; /* the same integers twice */
    p.column[1].null_count = 0;
    p.buffers[1][0] = NULL;
    p.format[1] = "l";
    p.batches = 2;
    p.offset = 5; /* rows 5, 6 and 7 of the columns */
    p.length = 3;
    struct ArrowArrayStream stream = stream_of(&p);
    tsr_runtime *rt = tsr_runtime_open(devices == 1 ? "cpu:1" : "cpu:3");
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = tsr_frame_from_arrow(s, &stream);
    CHECK(stream.release == NULL);
    CHECK_I64(p.live_streams, 0);
    CHECK_STR(csv_of(s, df, text, sizeof text), "a,b,c\n6,6,b\n,7,c\n8,8,d\n6,6,b\n,7,c\n8,8,d\n");
    CHECK(p.live_arrays > 0);
    tsr_scope_close(s);
    check_released(&p);
    tsr_runtime_close(rt);
  }
}

TEST(one_batch_on_one_device_is_borrowed)
{
  producer p = usual();
  p.format[1] = "l";
  struct ArrowArrayStream stream = stream_of(&p);
  tsr__error error = { 0 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr__arrow *arrow = tsr__arrow_open(rt, &stream, &error);
  tsr__foreign memory;
  CHECK(!tsr__arrow_borrow(arrow, 0, &memory)); /* nulls */
  CHECK(!tsr__arrow_borrow(arrow, 2, &memory)); /* text */
  CHECK(tsr__arrow_borrow(arrow, 1, &memory));
  CHECK(memory.data == numbers);
  tsr__arrow_close(arrow);
  CHECK(p.live_arrays > 0); /* held by what was borrowed */
  memory.release(memory.data, memory.user);
  check_released(&p);

  stream = stream_of(&p);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_from_arrow(s, &stream);
  struct ArrowArrayStream out;
  struct ArrowArray batch;
  CHECK_STATUS(tsr_frame_to_arrow(tsr_frame_select(df, "b"), &out), TSR_OK, s);
  tsr_scope_close(s);
  CHECK_I64(out.get_next(&out, &batch), 0);
  out.release(&out);
  CHECK(batch.children[0]->buffers[1] == numbers); /* the producer's memory, all the way */
  CHECK(p.live_arrays > 0);
  batch.release(&batch);
  check_released(&p);
  tsr_runtime_close(rt);
}

TEST(dictionaries_and_views_are_texts)
{
  char text[1000];
  static const int8_t indices[8] = { 1, 0, 1, 2, 0, 0, 1, 1 };
  static const int32_t offsets[4] = { 0, 1, 3, 3 };
  static const uint8_t entry_valid[1] = { 3 };
  producer p = usual();
  p.format[0] = "c";
  p.entry_format = "u";
  p.buffers[0][1] = indices;
  p.entries = (struct ArrowArray){ .length = 3, .n_buffers = 3, .null_count = 1 };
  p.entry_buffers[0] = entry_valid;
  p.entry_buffers[1] = offsets;
  p.entry_buffers[2] = "xyy";
  p.columns = 2;
  p.format[1] = "vu";
  char views[8][16] = { { 0 } };
  int64_t size = 20;
  for (int i = 0; i < 8; i++) {
    int32_t length = i == 3 ? 15 : i;
    memcpy(views[i], &length, 4);
    memcpy(views[i] + 4, i == 3 ? "abcd\0\0\0\0\2\0\0\0" : "1234567", i == 3 ? 12 : 8);
  }
  p.buffers[1][1] = views;
  p.buffers[1][2] = "xxabcdefghijklmnoxxx";
  p.buffers[1][3] = &size;
  p.column[1].n_buffers = 4;
  struct ArrowArrayStream stream = stream_of(&p);
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_from_arrow(s, &stream);
  CHECK_STR(csv_of(s, df, text, sizeof text),
            "a,b\n,\"\"\nx,1\nyy,12\n,abcdefghijklmno\nx,1234\nx,12345\n,123456\nyy,1234567\n");
  tsr_scope_close(s);
  check_released(&p);
  tsr_runtime_close(rt);
}

/* ---- types of other systems ------------------------------------------------------------------ */

static void check_refused(producer *p, tsr_status status, const char *part);

/* The columns of a producer as CSV, on one device. */
static void check_csv(producer *p, const char *expected)
{
  char text[2000];
  struct ArrowArrayStream stream = stream_of(p);
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STR(csv_of(s, tsr_frame_from_arrow(s, &stream), text, sizeof text), expected);
  tsr_scope_close(s);
  check_released(p);
  tsr_runtime_close(rt);
}

/* Polars gives a column of nothing but nulls a validity buffer, which is NULL. */
TEST(nulls_may_have_a_buffer)
{
  for (int buffers = 0; buffers < 2; buffers++) {
    producer p = usual();
    p.columns = 2;
    p.format[1] = "n";
    p.column[1] = (struct ArrowArray){ .length = 8, .n_buffers = buffers, .null_count = 8 };
    p.buffers[1][1] = NULL;
    check_csv(&p, "a,b\n,\n2,\n3,\n,\n5,\n6,\n,\n8,\n");
  }
  producer p = usual();
  p.format[1] = "n";
  check_refused(&p, TSR_EARG, "does not have the number of buffers");
}

/* A column that says no type takes that of what it is put under. */
TEST(nulls_take_the_type_that_they_meet)
{
  char text[2000];
  producer p = usual();
  p.columns = 2;
  p.format[1] = "n";
  p.column[1] = (struct ArrowArray){ .length = 8, .null_count = 8 };
  p.buffers[1][1] = NULL;
  struct ArrowArrayStream stream = stream_of(&p);
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  const char *none[] = { NULL, NULL };
  int64_t a[] = { 1, 2 };
  tsr_frame *arrow = tsr_frame_head(tsr_frame_from_arrow(s, &stream), 1);
  tsr_frame *texts =
      tsr_frame_new(s, { "a", tsr_put(s, a, TSR_I64, TSR_SHAPE(2), (tsr_sharding){ 0 }) });
  texts = tsr_frame_text_column(texts, "b", none, 2);
  tsr_frame *whole = tsr_frame_assign(tsr_frame_head(texts, 1), "b", "9007199254740993");
  CHECK_STR(csv_of(s, tsr_frame_concat(arrow, texts, whole), text, sizeof text),
            "a,b\n,\n1,\n2,\n1,9007199254740993\n");
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  check_released(&p);
  tsr_runtime_close(rt);
}

static producer decimals(const char *a, const char *b, const void *data_a, const void *data_b)
{
  producer p = usual();
  p.columns = 2;
  p.length = p.column[0].length = p.column[1].length = 3;
  p.column[0].null_count = 0;
  p.buffers[0][0] = NULL;
  p.format[0] = a;
  p.format[1] = b;
  p.buffers[0][1] = data_a;
  p.buffers[1][1] = data_b;
  return p;
}

TEST(decimals_are_numbers)
{
  static const int64_t small[6] = { 5, 0, -7, -1, INT64_MAX, 0 };
  static const int64_t large[6] = { 5, 0, 0, INT64_MIN, 0, 1 }; /* the last: 2^64 */
  static const int64_t huge[12] = { 1, 0, 0, 0, -1, -1, -1, -1, 0, 0, 0, 1 };
  static const int32_t cents[3] = { 150, -1, 7 };
  producer p = decimals("d:38,0", "d:38,2,128", small, small);
  check_csv(&p, "a,b\n5,0.05\n-7,-0.07\n9223372036854775807,9.223372036854776e+16\n");
  p = decimals("d:38,0", "d:38,-2", large, small);
  check_csv(&p, "a,b\n5.0,500.0\n-1.7014118346046923e+38,-700.0\n1.8446744073709552e+19,"
                "9.223372036854776e+20\n");
  p = decimals("d:76,0,256", "d:9,2,32", huge, cents);
  check_csv(&p, "a,b\n1.0,1.5\n-1.0,-0.01\n6.277101735386681e+57,0.07\n");
  p = decimals("d:18,0,64", "d:76,60,256", small, huge);
  check_csv(&p, "a,b\n5,1e-60\n0,-1e-60\n-7,0.006277101735386681\n");
  static const char *const odd[] = { "d:",           "d:38",  "d:38,",  "d:38,0,", "d:38,0,7",
                                     "d:38,0,128,1", "d:0,0", "d:77,0", "d:38,x" };
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    p = decimals(odd[i], "l", small, small);
    check_refused(&p, TSR_EUNSUPPORTED, "the Arrow type decimal");
  }
}

TEST(half_floats_are_floats)
{
  static const uint16_t halves[8] = {
    0x3c00, 0xc000, 0x7bff, 0x0001, 0x8000, 0x7c00, 0x7e00, 0x3555
  };
  producer p = usual();
  p.columns = 2;
  p.format[1] = "e";
  p.buffers[1][1] = halves;
  check_csv(&p, "a,b\n,1.0\n2,-2.0\n3,65500.0\n,6e-08\n5,-0.0\n6,inf\n,nan\n8,0.3333\n");
}

TEST(dictionaries_may_hold_numbers)
{
  static const int8_t indices[8] = { 1, 0, 1, 2, 0, 0, 1, 1 };
  static const uint8_t entry_valid[1] = { 3 };
  static const int64_t stamps[3] = { 1000, 2500000, 7 }, wide[6] = { 5, 0, -1, -1, 7, 0 };
  static const double reals[3] = { 0.5, -1e300, 7 };
  static const struct {
    const char *format;
    const void *data;
    const char *zero, *one;
  } cases[] = { { "l", stamps, "1000", "2500000" },
                { "g", reals, "0.5", "-1e+300" },
                { "tsn:", stamps, "1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00.002500Z" },
                { "d:38,0", wide, "5", "-1" },
                { "b", "\1", "true", "false" } };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char expected[600];
    const char *z = cases[i].zero, *o = cases[i].one;
    producer p = usual();
    p.columns = 1;
    p.format[0] = "c";
    p.entry_format = cases[i].format;
    p.column[0].null_count = 3;
    p.buffers[0][1] = indices;
    p.entries = (struct ArrowArray){ .length = 3, .n_buffers = 2, .null_count = 1 };
    p.entry_buffers[0] = entry_valid;
    p.entry_buffers[1] = cases[i].data;
    snprintf(expected, sizeof expected, "a\n\"\"\n%s\n%s\n\"\"\n%s\n%s\n\"\"\n%s\n", z, o, z, z, o);
    check_csv(&p, expected);
  }
  static const uint64_t beyond[3] = { 1, UINT64_MAX, 2 };
  producer p = usual();
  p.columns = 1;
  p.format[0] = "c";
  p.entry_format = "L";
  p.column[0].null_count = 3;
  p.buffers[0][1] = indices;
  p.entries = (struct ArrowArray){ .length = 3, .n_buffers = 2 };
  p.entry_buffers[1] = beyond;
  check_csv(&p, "a\n\"\"\n1\n18446744073709551615\n\"\"\n1\n1\n\"\"\n18446744073709551615\n");
}

TEST(buffers_may_lie_anywhere)
{
  static char a[8 * 8 + 16], b[9 * 4 + 16], c[8 * 8 + 16];
  for (int shift = 0; shift < 8; shift++) {
    producer p = usual();
    memcpy(a + shift, numbers, sizeof numbers);
    memcpy(b + shift, text_offsets, sizeof text_offsets);
    memcpy(c + shift, numbers, sizeof numbers);
    p.format[1] = "l";
    p.buffers[0][1] = a + shift;
    p.buffers[1][1] = c + shift;
    p.buffers[2][1] = b + shift;
    check_csv(&p, "a,b,c\n,1,x\n2,2,yz\n3,3,\"\"\n,4,z\n5,5,a\n6,6,b\n,7,c\n8,8,d\n");
  }
}

TEST(what_frames_do_not_have_is_told_with_a_way_out)
{
  static const char *const cases[][2] = {
    { "tts",
      "time of day (format 'tts'), but frames have no such type; cast the column to text, or to" },
    { "ttm", "time of day" },
    { "ttu", "time of day" },
    { "ttn", "time of day" },
    { "tDs", "duration" },
    { "z", "binary (format 'z'), but frames have no such type; cast the column to text first" },
    { "+l", "list (format '+l'), but frames have no such type; explode or join the lists first" }
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    producer p = usual();
    p.format[1] = cases[i][0];
    check_refused(&p, TSR_EUNSUPPORTED, cases[i][1]);
  }
}

/* ---- what producers get wrong ---------------------------------------------------------------- */

/* `filter`: a question about the first column of texts, which the reader judges; what is wrong is
 * found in rows that it drops, too. */
static void check_refused_by(producer *p, bool filter, tsr_status status, const char *part)
{
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  struct ArrowArrayStream stream = stream_of(p), out;
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .allocator = &allocator);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_from_arrow(s, &stream);
  CHECK(stream.release == NULL);
  for (int i = 0; i < p->columns && filter; i++) {
    if (tsr_frame_column_type(df, i) != TSR_COL_TEXT) continue;
    char words[60];
    snprintf(words, sizeof words, "contains(%s, 'no such text')", p->name[i]);
    df = tsr_frame_filter(df, words);
    filter = false;
  }
  CHECK_STATUS(tsr_frame_to_arrow(df, &out), status, s);
  CHECK_STR_HAS(tsr_message(s), part);
  CHECK_STR_HAS(tsr_message(s), "tsr_frame_from_arrow: ");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  CHECK_I64(state.live, 0);
  check_released(p);
}

static void check_refused(producer *p, tsr_status status, const char *part)
{
  check_refused_by(p, false, status, part);
  /* Refused at the call it has no columns to ask. */
  if (status == TSR_EVALUE) check_refused_by(p, true, status, part);
}

#define REFUSED(change, status, part)  \
  do {                                 \
    producer p = usual();              \
    change;                            \
    check_refused(&p, (status), part); \
  } while (0)

TEST(structures_that_cannot_be_are_refused)
{
  REFUSED(p.fail_schema = EIO, TSR_EIO, "the producer failed: the disk is gone");
  REFUSED(p.fail_schema = ENOMEM, TSR_ENOMEM, "the disk is gone");
  REFUSED((p.batches = 3, p.fail_at_batch = 2), TSR_EIO, "the disk is gone");
  REFUSED((p.fail_at_batch = 1, p.said = NULL), TSR_EIO, "Input/output error");
  REFUSED(p.columns = 0, TSR_ECOLUMN, "0 columns");
  REFUSED(p.name[1] = "a", TSR_ECOLUMN, "two columns are named 'a'");
  REFUSED(p.name[1] = NULL, TSR_ECOLUMN, "the name of column 1 is empty");
  REFUSED(p.name[1] = "\xff", TSR_ECOLUMN, "not UTF-8");
  REFUSED(p.format[1] = NULL, TSR_EARG, "the schema of column 1 is missing");
  REFUSED(p.format[1] = "+l", TSR_EUNSUPPORTED, "column 'b' has the Arrow type list (format '+l')");
  REFUSED(p.format[1] = "", TSR_EUNSUPPORTED, "type unknown");
  REFUSED(p.format[1] = "gg", TSR_EUNSUPPORTED, "type unknown");
  REFUSED((p.entry_format = "z", p.entries.n_buffers = 2), TSR_EUNSUPPORTED,
          "dictionary of binary");
  REFUSED((p.entry_format = "u", p.format[0] = "g"), TSR_EARG, "indices of format 'g'");
  REFUSED(p.length = -1, TSR_EARG, "a batch has a negative length");
  REFUSED(p.offset = -1, TSR_EARG, "a batch has a negative offset");
  REFUSED(p.offset = INT64_MAX, TSR_EARG, "is longer than memory");
  REFUSED(p.length = 9, TSR_EARG, "column 'a' of a batch has fewer rows than the batch");
  REFUSED(p.offset = 1, TSR_EARG, "has fewer rows than the batch");
  REFUSED(p.column[1].length = -5, TSR_EARG, "column 'b' of a batch has a negative length");
  REFUSED(p.column[1].offset = -5, TSR_EARG, "column 'b' of a batch has a negative offset");
  REFUSED(p.column[1].null_count = 9, TSR_EARG, "an impossible number of nulls");
  REFUSED(p.column[1].null_count = 1, TSR_EARG, "has nulls but no validity");
  REFUSED(p.column[1].n_buffers = 3, TSR_EARG, "does not have the number of buffers");
  REFUSED(p.column[1].n_children = 1, TSR_EARG, "has children");
  REFUSED(p.buffers[1][1] = NULL, TSR_EARG, "has no buffer of values");
  REFUSED((p.entry_format = "u", p.entries.length = -1), TSR_EARG,
          "a dictionary that does not fit");
}

/* A column of views: short ones, and in row 3 "abcdefghijklmno" of the one buffer of texts, whose
 * number, beginning and size may be others. */
typedef struct views {
  char view[8][16];
  int64_t sizes[1];
} views;

static producer viewed(views *v, int32_t size, int32_t buffer, int32_t begin)
{
  producer p = usual();
  *v = (views){ .sizes = { 20 } };
  for (int32_t i = 0; i < 8; i++) {
    memcpy(v->view[i], &i, 4);
    memcpy(v->view[i] + 4, "1234567", 8);
  }
  memcpy(v->view[3], &size, 4);
  memcpy(v->view[3] + 4, "abcd", 4);
  memcpy(v->view[3] + 8, &buffer, 4);
  memcpy(v->view[3] + 12, &begin, 4);
  p.format[1] = "vu";
  p.buffers[1][1] = v->view;
  p.buffers[1][2] = "xxabcdefghijklmnoxxx";
  p.buffers[1][3] = v->sizes;
  p.column[1].n_buffers = 4;
  return p;
}

TEST(views_that_cannot_be_are_refused)
{
  static const char why[] = "column 'b' holds a text with impossible offsets, in row 3";
  static const int32_t odd[][3] = { { -1, 0, 2 },        { INT32_MIN, 0, 2 },  { 15, 1, 2 },
                                    { 15, -1, 2 },       { 15, INT32_MAX, 2 }, { 15, 0, -1 },
                                    { 15, 0, 6 },        { 15, 0, INT32_MAX }, { 21, 0, 0 },
                                    { INT32_MAX, 0, 0 }, { 15, 0, INT32_MIN } };
  views v;
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    producer p = viewed(&v, odd[i][0], odd[i][1], odd[i][2]);
    check_refused(&p, TSR_EVALUE, why);
  }
  producer p = viewed(&v, 15, 0, 2);
  v.sizes[0] = -1;
  check_refused(&p, TSR_EVALUE, why);
  p = viewed(&v, 15, 0, 2);
  p.buffers[1][3] = NULL;
  check_refused(&p, TSR_EARG, "column 'b' of a batch has no sizes of its buffers");
  p = viewed(&v, 15, 0, 2);
  p.buffers[1][2] = NULL;
  check_refused(&p, TSR_EARG, "has an empty buffer of texts");
  p = viewed(&v, 15, 0, 2);
  p.column[1].n_buffers = 2;
  check_refused(&p, TSR_EARG, "does not have the number of buffers");
  /* Without buffers of texts there is nothing that a long view could lie in. */
  p = viewed(&v, 15, 0, 2);
  p.column[1].n_buffers = 3;
  check_refused(&p, TSR_EVALUE, why);
  p = viewed(&v, 15, 0, 5);
  p.columns = 2;
  check_csv(&p, "a,b\n,\"\"\n2,1\n3,12\n,defghijklmnoxxx\n5,1234\n6,12345\n,123456\n8,1234567\n");
}

TEST(contents_that_cannot_be_are_refused)
{
  static const int32_t falling[9] = { 0, 1, 3, 2, 4, 5, 6, 7, 8 };
  static const int32_t negative[9] = { -1, 1, 3, 3, 4, 5, 6, 7, 8 };
  static const int8_t indices[8] = { 0, 1, 2, 3, 0, 0, 0, 0 }, below[8] = { 0, -1 };
  REFUSED(p.buffers[2][1] = falling, TSR_EVALUE,
          "column 'c' holds a text with impossible offsets, in row 2");
  REFUSED(p.buffers[2][1] = negative, TSR_EVALUE, "a text with impossible offsets, in row 0");
  REFUSED(p.buffers[2][2] = "xyz\xff"
                            "abcd",
          TSR_EVALUE, "a text that is not UTF-8, in row 3");
  REFUSED(p.buffers[2][2] = NULL, TSR_EVALUE, "a text with impossible offsets, in row 0");
  for (int i = 0; i < 2; i++)
    REFUSED((p.entry_format = "u", p.format[0] = "c", p.column[0].null_count = 0,
             p.buffers[0][0] = NULL, p.buffers[0][1] = i ? below : indices, p.entries.length = 3,
             p.entries.n_buffers = 3, p.entry_buffers[1] = text_offsets,
             p.entry_buffers[2] = "xyzz"),
            TSR_EVALUE,
            i ? "an index outside the dictionary, in row 1"
              : "an index outside the dictionary, in row 3");
  static const int64_t large[8] = { 0, INT64_MAX, -1 };
  REFUSED((p.format[1] = "tsn:", p.buffers[1][1] = numbers), TSR_EVALUE, "not a whole microsecond");
  REFUSED((p.format[1] = "tss:UTC", p.buffers[1][1] = large), TSR_EVALUE,
          "64 bits of microseconds");
  REFUSED((p.format[1] = "tdm", p.buffers[1][1] = numbers), TSR_EVALUE, "not a whole day");
}

TEST(a_stream_that_was_released_is_refused)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  struct ArrowArrayStream gone = { 0 };
  CHECK(tsr_frame_is_inert(tsr_frame_from_arrow(s, &gone)));
  CHECK_STR_HAS(tsr_message(s), "the stream is NULL, was released");
  CHECK(tsr_frame_is_inert(tsr_frame_from_arrow(s, NULL)));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- a strict consumer ----------------------------------------------------------------------- */

static tsr_frame *frame_to_give(tsr_scope *s, const tsr_mesh *mesh)
{
  static const int64_t i[10] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
  static const bool b[10] = { true, false, true };
  static const char *const t[10] = { "x", NULL, "yy", "x", "", "x", NULL, "zz", "yy", "x" };
  tsr_frame *df =
      tsr_frame_new(s, { "i", tsr_put(s, i, TSR_I64, TSR_SHAPE(10), tsr_on(mesh, "x")) },
                    { "b", tsr_put(s, b, TSR_BOOL, TSR_SHAPE(10), tsr_on(mesh, "x")) });
  return tsr_frame_text_column(df, "t", t, 10);
}

static void check_schema(const struct ArrowSchema *schema)
{
  static const char *const formats[] = { "l", "b", "i", "g" }, *const names[] = { "i", "b", "t",
                                                                                  "h" };
  CHECK_STR(schema->format, "+s");
  CHECK_I64(schema->n_children, 4);
  CHECK(schema->dictionary == NULL && schema->metadata == NULL);
  for (int i = 0; i < 4; i++) {
    CHECK_STR(schema->children[i]->format, formats[i]);
    CHECK_STR(schema->children[i]->name, names[i]);
    CHECK_I64(schema->children[i]->flags, ARROW_FLAG_NULLABLE);
    CHECK((schema->children[i]->dictionary != NULL) == (i == 2));
  }
  CHECK_STR(schema->children[2]->dictionary->format, "U");
}

TEST(what_is_given_has_owners_of_its_own)
{
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  tsr_runtime *rt = tsr_runtime_open("cpu:4", .allocator = &allocator);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = frame_to_give(s, tsr_mesh_default(rt, "x"));
  df = tsr_frame_assign(df, "h", "i / 2");
  df = tsr_frame_filter(df, "i != 4");
  struct ArrowArrayStream stream;
  CHECK_STATUS(tsr_frame_to_arrow(df, &stream, .texts = TSR_ARROW_DICTIONARY), TSR_OK, s);
  tsr_scope_close(s); /* all of it outlives the scope */
  struct ArrowSchema schema, kept;
  struct ArrowArray batch, column = { 0 };
  CHECK_I64(stream.get_schema(&stream, &kept), 0);
  CHECK_I64(stream.get_schema(&stream, &schema), 0);
  schema.release(&schema);
  CHECK(schema.release == NULL);
  int64_t rows = 0, total = 0;
  for (int n = 0;; n++) {
    CHECK_I64(stream.get_next(&stream, &batch), 0);
    CHECK_STR(stream.get_last_error(&stream), NULL);
    if (!batch.release) break;
    CHECK_I64(batch.n_children, 4);
    CHECK_I64(batch.offset, 0);
    for (int64_t r = 0; r < batch.length; r++)
      total += ((const int64_t *)batch.children[0]->buffers[1])[r];
    rows += batch.length;
    if (n == 1) { /* a child is moved away and outlives its parent */
      column = *batch.children[2];
      batch.children[2]->release = NULL;
    }
    batch.release(&batch);
    CHECK(batch.release == NULL);
  }
  CHECK_I64(rows, 9);
  CHECK_I64(total, 41);
  CHECK_I64(stream.get_next(&stream, &batch), 0); /* the end stays the end */
  CHECK(batch.release == NULL);
  stream.release(&stream);
  CHECK(stream.release == NULL);
  check_schema(&kept);
  kept.release(&kept);
  /* The second device held rows 3 to 5: "x", "" (filtered out), "x". */
  CHECK_I64(column.length, 2);
  const struct ArrowArray *entries = column.dictionary;
  const int32_t code = ((const int32_t *)column.buffers[1])[1];
  const int64_t *offsets = entries->buffers[1];
  CHECK_I64(offsets[code + 1] - offsets[code], 1);
  CHECK_BYTES((const char *)entries->buffers[2] + offsets[code], "x", 1);
  column.release(&column);
  tsr_runtime_close(rt);
  CHECK_I64(state.live, 0);
}

/* ---- texts as views -------------------------------------------------------------------------- */

/* Appends what row `i` of a column of views says, and '|'; a null is "-". */
static void read_view(const struct ArrowArray *a, int64_t i, char *out)
{
  const uint8_t *bits = a->buffers[0];
  const char *view = (const char *)a->buffers[1] + i * 16, *text = view + 4;
  int32_t size, buffer, at;
  memcpy(&size, view, 4);
  memcpy(&buffer, view + 8, 4);
  memcpy(&at, view + 12, 4);
  if (bits && !(bits[i / 8] >> (i % 8) & 1)) {
    strcat(out, "-|");
    return;
  }
  if (size > 12) {
    CHECK(buffer >= 0 && buffer < a->n_buffers - 3);
    int64_t room = ((const int64_t *)a->buffers[a->n_buffers - 1])[buffer];
    CHECK(at >= 0 && at + size <= room);
    text = (const char *)a->buffers[2 + buffer] + at;
    CHECK_BYTES(text, view + 4, 4);
  }
  strncat(out, text, (size_t)size);
  strcat(out, "|");
}

static const char *const texts_to_give[10] = {
  "a", NULL, "longer than a view is", "a", "", "exactly twelv", NULL, "twelve bytes", "b", "b"
};

/* Sets what TSR_TEXTS says for the test's own process. */
static tsr_frame *texts_frame(tsr_scope *s, const tsr_mesh *mesh, const char *layout)
{
  static const int64_t i[10] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
  setenv("TSR_TEXTS", layout, 1);
  tsr_frame *df =
      tsr_frame_new(s, { "i", tsr_put(s, i, TSR_I64, TSR_SHAPE(10), tsr_on(mesh, "x")) });
  return tsr_frame_select(tsr_frame_text_column(df, "t", texts_to_give, 10), "t, i");
}

/* All rows of a stream's first column, which are views. */
static void read_stream(struct ArrowArrayStream *stream, char *out)
{
  struct ArrowArray batch;
  *out = 0;
  for (;;) {
    CHECK_I64(stream->get_next(stream, &batch), 0);
    if (!batch.release) break;
    const struct ArrowArray *column = batch.children[0];
    CHECK(column->dictionary == NULL);
    for (int64_t i = 0; i < column->length; i++) read_view(column, i, out);
    batch.release(&batch);
  }
  stream->release(stream);
}

static void check_format(struct ArrowArrayStream *stream, const char *format)
{
  struct ArrowSchema schema;
  CHECK_I64(stream->get_schema(stream, &schema), 0);
  CHECK_STR(schema.children[0]->format, format);
  CHECK((schema.children[0]->dictionary != NULL) == (*format == 'i'));
  schema.release(&schema);
}

TEST(texts_leave_as_views_and_need_no_scope)
{
  static const char *const devices[] = { "cpu:1", "cpu:3" }, *const layouts[] = { "codes", "views",
                                                                                  "mixed" };
  for (int c = 0; c < 6; c++) {
    struct test_alloc state = { 0 };
    tsr_allocator allocator = test_allocator(&state);
    tsr_runtime *rt = tsr_runtime_open(devices[c % 2], .allocator = &allocator);
    tsr_scope *s = tsr_scope_open(rt);
    struct ArrowArrayStream all, some, none;
    char text[500];
    tsr_frame *df = texts_frame(s, tsr_mesh_default(rt, "x"), layouts[c / 2]);
    CHECK_STATUS(tsr_frame_to_arrow(df, &all, .texts = TSR_ARROW_VIEWS), TSR_OK, s);
    CHECK_STATUS(tsr_frame_to_arrow(tsr_frame_filter(df, "i % 2 == 0"), &some,
                                    .texts = TSR_ARROW_VIEWS),
                 TSR_OK, s);
    CHECK_STATUS(tsr_frame_to_arrow(tsr_frame_filter(df, "i < 0"), &none, .texts = TSR_ARROW_VIEWS),
                 TSR_OK, s);
    tsr_scope_close(s);
    check_format(&all, "vu");
    read_stream(&all, text);
    CHECK_STR(text, "a|-|longer than a view is|a||exactly twelv|-|twelve bytes|b|b|");
    read_stream(&some, text);
    CHECK_STR(text, "a|longer than a view is||-|b|");
    read_stream(&none, text);
    CHECK_STR(text, "");
    tsr_runtime_close(rt);
    CHECK_I64(state.live, 0);
  }
}

/* Of texts that all stand in their views a consumer holds no bytes. */
TEST(short_texts_leave_without_their_list)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  struct ArrowArrayStream stream;
  struct ArrowArray batch;
  tsr_frame *df = texts_frame(s, tsr_mesh_default(rt, "x"), "views");
  df = tsr_frame_filter(df, "i < 2 or i > 6");
  CHECK_STATUS(tsr_frame_to_arrow(df, &stream), TSR_OK, s);
  CHECK_I64(stream.get_next(&stream, &batch), 0);
  CHECK_I64(batch.children[0]->n_buffers, 3);
  batch.release(&batch);
  stream.release(&stream);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(texts_leave_as_they_are_held_or_as_is_asked)
{
  static const struct {
    const char *layout, *format;
    tsr_arrow_texts texts;
  } cases[] = { { "codes", "i", TSR_ARROW_AS_HELD },    { "views", "vu", TSR_ARROW_AS_HELD },
                { "codes", "i", TSR_ARROW_DICTIONARY }, { "views", "i", TSR_ARROW_DICTIONARY },
                { "codes", "vu", TSR_ARROW_VIEWS },     { "views", "vu", TSR_ARROW_VIEWS } };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    tsr_runtime *rt = tsr_runtime_open("cpu:2");
    tsr_scope *s = tsr_scope_open(rt);
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    tsr_frame *df = texts_frame(s, tsr_mesh_default(rt, "x"), cases[c].layout);
    CHECK_STATUS(tsr_frame_to_arrow(df, &stream, .texts = cases[c].texts), TSR_OK, s);
    check_format(&stream, cases[c].format);
    CHECK_I64(stream.get_next(&stream, &batch), 0);
    /* A dictionary has each text once: "a", the long one, "", and those of the second device. */
    if (cases[c].format[0] == 'i') CHECK_I64(batch.children[0]->dictionary->length, 6);
    batch.release(&batch);
    stream.release(&stream);
    tsr_scope_close(s);
    tsr_runtime_close(rt);
  }
}

TEST(how_texts_leave_is_a_value_of_the_enum)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  struct ArrowArrayStream stream;
  tsr_frame *df = frame_to_give(s, tsr_mesh_default(rt, "x"));
  CHECK_STATUS(tsr_frame_to_arrow(df, &stream, .texts = (tsr_arrow_texts)3), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s), ".texts is 3");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(nulls_are_bits_of_a_device)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  struct ArrowArrayStream stream;
  struct ArrowArray batch;
  CHECK_STATUS(tsr_frame_to_arrow(frame_to_give(s, tsr_mesh_default(rt, "x")), &stream), TSR_OK, s);
  CHECK_I64(stream.get_next(&stream, &batch), 0);
  CHECK_I64(batch.length, 5);
  CHECK_I64(batch.children[2]->null_count, 1);
  CHECK_I64(((const uint8_t *)batch.children[2]->buffers[0])[0] & 31, 29);
  CHECK(batch.children[0]->buffers[0] == NULL);
  CHECK_I64(((const uint8_t *)batch.children[1]->buffers[1])[0] & 31, 5);
  batch.release(&batch);
  stream.release(&stream); /* with a batch not taken */
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Arrow has no bf16: f32 has all of its values. */
TEST(bf16_leaves_as_f32)
{
  static const uint16_t values[5] = { 0x3f80, 0xc040, 0x7f7f, 0x0001, 0x7f80 };
  static const float expected[5] = { 1, -3, 0x1.fep127f, 0x1p-133f, INFINITY };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df =
      tsr_frame_new(s, { "a", tsr_put(s, values, TSR_BF16, TSR_SHAPE(5), (tsr_sharding){ 0 }) });
  struct ArrowArrayStream stream;
  struct ArrowSchema schema;
  struct ArrowArray batch;
  CHECK_STATUS(tsr_frame_to_arrow(df, &stream), TSR_OK, s);
  CHECK_I64(stream.get_schema(&stream, &schema), 0);
  CHECK_STR(schema.children[0]->format, "f");
  schema.release(&schema);
  CHECK_I64(stream.get_next(&stream, &batch), 0);
  CHECK_BYTES(batch.children[0]->buffers[1], expected, sizeof expected);
  batch.release(&batch);
  tsr_frame *back = tsr_frame_assign(tsr_frame_from_arrow(s, &stream), "a", "cast(a, 'bf16')");
  CHECK_I64(tsr_frame_column_type(back, 0), TSR_COL_BF16);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Rows of a stream whose texts a filter asks for; `b` lies in the producer's memory. */
static int64_t kept_of(tsr_scope *s, producer *p, const char *filter, const char *says)
{
  struct ArrowArrayStream stream = stream_of(p);
  tsr_frame *df = tsr_frame_filter(tsr_frame_from_arrow(s, &stream), filter);
  tsr_frame *sum = tsr_frame_agg(df, "n = count(), s = sum(b)");
  tsr_row *row = tsr_frame_row(sum);
  CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
  CHECK_STR_HAS(tsr_frame_explain(sum), says);
  return tsr_row_i64(row, "n") * 100 + (tsr_row_is_null(row, "s") ? 0 : tsr_row_i64(row, "s"));
}

TEST(texts_of_a_filter_alone_are_asked_where_they_lie)
{
  static const int8_t indices[8] = { 0, 1, 2, 3, 0, 0, 0, 0 };
  for (int batches = 1; batches < 3; batches++) {
    producer p = usual();
    p.format[1] = "l";
    p.batches = batches;
    tsr_runtime *rt = tsr_runtime_open("cpu:1");
    tsr_scope *s = tsr_scope_open(rt);
    CHECK_I64(kept_of(s, &p, "contains(c, 'z')", "while reading: contains(c, 'z') keeps"),
              batches * (200 + 2 + 4));
    CHECK_I64(kept_of(s, &p, "contains(c, 'z') and b > 3",
                      "texts not kept: c (only filters read them"),
              batches * (100 + 4));
    CHECK_I64(kept_of(s, &p, "c == '' and a is not null", "keeps"), batches * (100 + 3));
    CHECK_I64(kept_of(s, &p, "ends_with(upper(c), 'D') and a >= 5", "keeps"), batches * (100 + 8));
    /* Texts of a dictionary: each of its entries is asked once. */
    p.format[0] = "c";
    p.entry_format = "u";
    p.buffers[0][1] = indices;
    p.entries = (struct ArrowArray){ .length = 4, .n_buffers = 3 };
    p.entry_buffers[1] = text_offsets;
    p.entry_buffers[2] = "xyzzabcd";
    CHECK_I64(kept_of(s, &p, "contains(a, 'x') and b < 8", "keeps"), batches * (200 + 5 + 6));
    tsr_scope_close(s);
    check_released(&p);
    tsr_runtime_close(rt);
  }
}

static bool sift(tsr_runtime *rt, bool fails, const void *user)
{
  producer p = usual();
  p.format[1] = "l";
  struct ArrowArrayStream stream = stream_of(&p);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_filter(tsr_frame_from_arrow(s, &stream), user);
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "n = count()"));
  tsr_status status = tsr_row_status(row);
  if (!status) CHECK_I64(tsr_row_i64(row, "n"), 1);
  else CHECK_STATUS(status, fails ? TSR_ENOMEM : TSR_OK, s);
  if (!s) FAIL("no scope");
  if (stream.release) stream.release(&stream);
  tsr_scope_close(s);
  check_released(&p);
  return status != TSR_OK;
}

static bool take_and_give(tsr_runtime *rt, bool fails, const void *user)
{
  producer p = usual();
  p.batches = 2;
  struct ArrowArrayStream stream = stream_of(&p), out;
  struct ArrowSchema schema;
  struct ArrowArray batch;
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_from_arrow(s, &stream);
  tsr_arrow_texts texts = user ? TSR_ARROW_VIEWS : TSR_ARROW_DICTIONARY;
  tsr_status status = tsr_frame_to_arrow(df, &out, .texts = texts);
  if (!status) {
    if (out.get_schema(&out, &schema)) CHECK_STR(out.get_last_error(&out), "out of memory");
    else schema.release(&schema);
    CHECK_I64(out.get_next(&out, &batch), 0);
    batch.release(&batch);
    out.release(&out);
  } else {
    CHECK_STATUS(status, fails ? TSR_ENOMEM : TSR_OK, s);
  }
  if (!s) FAIL("no scope");
  if (stream.release) stream.release(&stream); /* without a scope nothing was taken */
  tsr_scope_close(s);
  check_released(&p);
  return status != TSR_OK;
}

TEST_TIMEOUT(any_allocation_may_fail, 300)
{
  CHECK(each_allocation_fails("cpu:2", take_and_give, NULL) > 10);
  CHECK(each_allocation_fails("cpu:2", take_and_give, "views") > 10);
  CHECK(each_allocation_fails("cpu:1", sift, "contains(upper(c), 'Z') and b > 3") > 10);
}

/* What a consumer holds is often the last that goes: streams, schemas, batches, columns of them. */
TEST(streams_outlive_their_runtime)
{
  for (int k = 0; k < 4; k++) {
    tsr_runtime *rt = tsr_runtime_open("cpu:2");
    tsr_scope *s = tsr_scope_open(rt);
    static const int64_t numbers_of[4] = { 1, 2, 3, 4 };
    tsr_frame *df =
        tsr_frame_new(s,
                      { "i", tsr_put(s, numbers_of, TSR_I64, TSR_SHAPE(4), (tsr_sharding){ 0 }) });
    df = tsr_frame_assign(df, "t", "cast(i, 'text')");
    struct ArrowArrayStream out;
    struct ArrowSchema schema;
    struct ArrowArray batch, column;
    CHECK_STATUS(tsr_frame_to_arrow(df, &out,
                                    .texts = k & 1 ? TSR_ARROW_VIEWS : TSR_ARROW_DICTIONARY),
                 TSR_OK, s);
    if (k & 2) tsr_scope_close(s);
    tsr_runtime_close(rt);
    CHECK_I64(out.get_schema(&out, &schema), 0);
    CHECK_I64(out.get_next(&out, &batch), 0);
    out.release(&out);
    CHECK_STR(schema.children[1]->name, "t");
    schema.release(&schema);
    /* Moved out, as the interface allows. */
    column = *batch.children[0];
    batch.children[0]->release = NULL;
    batch.release(&batch);
    CHECK_I64(((const int64_t *)column.buffers[1])[0], 1);
    column.release(&column);
  }
}
