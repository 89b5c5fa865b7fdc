/* Random Arrow arrays against the values they were made of: every type, as it is and as a
 * dictionary of any index; nulls, offsets, several batches and devices; buffers at any address that
 * end where memory does; garbage wherever nobody has any business to look. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"
#include "tessera/arrow.h"

enum { COLUMNS = 5, BATCHES = 4, ROWS = 150, ENTRIES = 40, TEXT = 100 };

/* What an element says. */
typedef struct element {
  bool null;
  int64_t i;
  double f;
  char text[TEXT]; /* also the digits of a decimal */
  int length;
} element;

typedef enum family { INTEGER, REAL, WORD, WIDE, NOTHING } family;

static const struct kind {
  const char *format;
  family family;
  int bytes;               /* of an element; 0: bits, or texts */
  int64_t least, most;     /* integers */
  int64_t factor, divisor; /* stored = value * factor / divisor */
} kinds[] = {
  { "b", INTEGER, 0, 0, 1, 1, 1 },
  { "c", INTEGER, 1, INT8_MIN, INT8_MAX, 1, 1 },
  { "C", INTEGER, 1, 0, UINT8_MAX, 1, 1 },
  { "s", INTEGER, 2, INT16_MIN, INT16_MAX, 1, 1 },
  { "S", INTEGER, 2, 0, UINT16_MAX, 1, 1 },
  { "i", INTEGER, 4, INT32_MIN, INT32_MAX, 1, 1 },
  { "I", INTEGER, 4, 0, UINT32_MAX, 1, 1 },
  { "l", INTEGER, 8, INT64_MIN, INT64_MAX, 1, 1 },
  { "L", INTEGER, 8, INT64_MIN, INT64_MAX, 1, 1 }, /* as bits */
  { "tdD", INTEGER, 4, -700000, 2900000, 1, 1 },
  { "tdm", INTEGER, 8, -700000, 2900000, 86400000, 1 },
  { "tss:UTC", INTEGER, 8, -2000000, 2000000, 1, 1000000 },
  { "tsm:", INTEGER, 8, -2000000, 2000000, 1, 1000 },
  { "tsu:Europe/Oslo", INTEGER, 8, -20000000, 20000000, 1, 1 },
  { "tsn:", INTEGER, 8, -20000000, 20000000, 1000, 1 },
  { "e", REAL, 2, 0, 0, 1, 1 },
  { "f", REAL, 4, 0, 0, 1, 1 },
  { "g", REAL, 8, 0, 0, 1, 1 },
  { "u", WORD, 4, 0, 0, 1, 1 },
  { "U", WORD, 8, 0, 0, 1, 1 },
  { "vu", WORD, 16, 0, 0, 1, 1 },
  { "d:38,0", WIDE, 16, 38, 0, 1, 1 },
  { "d:18,0,64", WIDE, 8, 18, 0, 1, 1 },
  { "d:38,10", WIDE, 16, 38, 10, 1, 1 },
  { "d:9,3,32", WIDE, 4, 9, 3, 1, 1 },
  { "d:20,-4,128", WIDE, 16, 20, -4, 1, 1 },
  { "d:76,0,256", WIDE, 32, 76, 0, 1, 1 },
  { "d:76,40,256", WIDE, 32, 76, 40, 1, 1 },
  { "n", NOTHING, 0, 0, 0, 1, 1 },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static test_rng rng;

static int64_t any(int64_t first, int64_t last)
{
  return test_range(&rng, first, last);
}

/* Zeros that live as long as the test. */
static void *zeros(size_t count, size_t size)
{
  return memset(test_guarded(count * size), 0, count * size);
}

/* Memory at any address that ends where a page does, full of garbage. */
static void *garbage(size_t bytes)
{
  size_t front = (size_t)any(0, 9);
  unsigned char *block = test_guarded(front + bytes);
  for (size_t i = 0; i < front + bytes; i++) block[i] = (unsigned char)test_random(&rng);
  return block + front;
}

/* ---- elements -------------------------------------------------------------------------------- */

static void make_word(element *e)
{
  static const char *const words[] = {
    "", "a", "b\0c", "\xc3\xa4", "a text that is longer than twelve", "twelve bytes", "x,\"y\"\n"
  };
  static const int lengths[] = { 0, 1, 3, 2, 33, 12, 6 };
  int w = (int)any(0, 6);
  memcpy(e->text, words[w], (size_t)lengths[w]);
  e->length = lengths[w];
}

static void make_digits(const struct kind *k, element *e)
{
  int most = (int)k->least, digits = (int)any(1, any(0, 2) ? (most < 18 ? most : 18) : most);
  char number[TEXT + 20];
  if (any(0, 2) == 0) e->text[e->length++] = '-';
  for (int i = 0; i < digits; i++)
    e->text[e->length++] = (char)('0' + any(i == 0 && digits > 1, 9));
  snprintf(number, sizeof number, "%.*se%d", e->length, e->text, -(int)k->most);
  e->f = strtod(number, NULL) + 0.0; /* an integer has one zero */
  e->i = strtoll(e->text, NULL, 10); /* of use where all are i64 */
}

static element make_element(const struct kind *k)
{
  element e = { .null = k->family == NOTHING || any(0, 4) == 0 };
  if (k->family == INTEGER) {
    e.i = any(0, 3) ? any(k->least / 3, k->most / 3) : any(0, 1) ? k->least : k->most;
    e.i *= k->divisor; /* times: whole seconds, in microseconds */
  } else if (k->family == REAL) {
    static const double specials[] = {
      0.0, -0.0, 1.5, -65504, 0x1p-24, -0x1.ff8p-15, (double)INFINITY
    };
    e.f = any(0, 1) ? specials[any(0, 6)] : (double)any(-2048, 2048) / 16;
  } else if (k->family == WORD) {
    make_word(&e);
  } else if (k->family == WIDE) {
    make_digits(k, &e);
  }
  return e;
}

/* The bits of a half that holds the value exactly. */
static uint16_t half_of(double value)
{
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  double size = fabs(value);
  if (isinf(value)) return sign | 0x7c00;
  if (size < 0x1p-14) return (uint16_t)(sign | (uint16_t)(size * 0x1p24));
  int power = ilogb(size);
  return (uint16_t)(sign | (power + 15) << 10 | (int)((ldexp(size, -power) - 1) * 1024));
}

/* Digits to two's complement, digit by digit. */
static void put_digits(const element *e, unsigned char *to, int bytes)
{
  memset(to, 0, (size_t)bytes);
  for (int i = e->text[0] == '-'; i < e->length; i++) {
    unsigned carry = (unsigned)(e->text[i] - '0');
    for (int b = 0; b < bytes; b++) {
      carry += to[b] * 10u;
      to[b] = (unsigned char)carry;
      carry >>= 8;
    }
  }
  unsigned carry = 1;
  for (int b = 0; e->text[0] == '-' && b < bytes; b++) {
    carry += (unsigned char)~to[b];
    to[b] = (unsigned char)carry;
    carry >>= 8;
  }
}

static void put_fixed(const struct kind *k, const element *e, char *to)
{
  int64_t stored = e->i * k->factor / k->divisor;
  float f = (float)e->f;
  uint16_t half = k->bytes == 2 && k->family == REAL ? half_of(e->f) : 0;
  if (k->family == WIDE) put_digits(e, (unsigned char *)to, k->bytes);
  else if (k->family == INTEGER) memcpy(to, &stored, (size_t)k->bytes);
  else if (k->bytes == 2) memcpy(to, &half, 2);
  else if (k->bytes == 4) memcpy(to, &f, 4);
  else memcpy(to, &e->f, 8);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static int live;

static void release_array(struct ArrowArray *array)
{
  for (int64_t i = 0; i < array->n_children; i++)
    if (array->children[i]->release) array->children[i]->release(array->children[i]);
  if (array->dictionary && array->dictionary->release)
    array->dictionary->release(array->dictionary);
  array->release = NULL;
  live--;
}

static void set_bit(unsigned char *bits, int64_t at, bool value)
{
  bits[at / 8] = (unsigned char)((bits[at / 8] & ~(1 << at % 8)) | value << at % 8);
}

static void put_words(const struct kind *k, const element *e, int64_t from, int64_t count,
                      const void **buffers)
{
  size_t used = 0, wide = (size_t)k->bytes;
  char *offsets = garbage((size_t)(from + count + 1) * wide), *bytes = garbage(ROWS * 40);
  for (int64_t i = 0; i <= count; i++) {
    int64_t at = (int64_t)used;
    memcpy(offsets + (size_t)(from + i) * wide, &at, wide);
    if (i == count || e[i].null) continue;
    memcpy(bytes + used, e[i].text, (size_t)e[i].length);
    used += (size_t)e[i].length;
  }
  buffers[1] = offsets;
  buffers[2] = bytes;
}

static void put_views(const element *e, int64_t from, int64_t count, const void **buffers)
{
  int32_t used = 0, which = 0;
  char *views = garbage((size_t)(from + count) * 16), *bytes = garbage(ROWS * 40);
  for (int64_t i = 0; i < count; i++) {
    char *view = views + (from + i) * 16;
    if (e[i].null) continue;
    memcpy(view, &e[i].length, 4);
    if (e[i].length <= 12) {
      memcpy(view + 4, e[i].text, (size_t)e[i].length);
      continue;
    }
    memcpy(view + 8, &which, 4);
    memcpy(view + 12, &used, 4);
    memcpy(bytes + used, e[i].text, (size_t)e[i].length);
    used += e[i].length;
  }
  int64_t *sizes = garbage(8), size = used;
  memcpy(sizes, &size, 8);
  buffers[1] = views;
  buffers[2] = bytes;
  buffers[3] = sizes;
}

/* An array of elements, with `from` others before them that nobody may look at. */
static struct ArrowArray make_array(const struct kind *k, const element *e, int64_t from,
                                    int64_t count)
{
  const void **buffers = zeros(4, sizeof *buffers);
  struct ArrowArray out = {
    .length = count, .offset = from, .n_buffers = 2, .buffers = buffers, .release = release_array
  };
  int64_t nulls = 0;
  unsigned char *bits = garbage((size_t)(from + count) / 8 + 1);
  for (int64_t i = 0; i < count; i++) {
    nulls += e[i].null;
    set_bit(bits, from + i, !e[i].null);
  }
  live++;
  out.null_count = any(0, 1) ? -1 : nulls;
  if (k->family == NOTHING) {
    out.n_buffers = any(0, 1);
    return out;
  }
  if (nulls || any(0, 1)) buffers[0] = bits;
  if (!strcmp(k->format, "vu")) {
    out.n_buffers = 4;
    put_views(e, from, count, buffers);
  } else if (k->family == WORD) {
    out.n_buffers = 3;
    put_words(k, e, from, count, buffers);
  } else if (!k->bytes) {
    unsigned char *values = garbage((size_t)(from + count) / 8 + 1);
    for (int64_t i = 0; i < count; i++)
      if (!e[i].null) set_bit(values, from + i, e[i].i);
    buffers[1] = values;
  } else {
    char *values = garbage((size_t)(from + count) * (size_t)k->bytes);
    for (int64_t i = 0; i < count; i++)
      if (!e[i].null) put_fixed(k, &e[i], values + (from + i) * k->bytes);
    buffers[1] = values;
  }
  return out;
}

/* ---- a stream -------------------------------------------------------------------------------- */

typedef struct column {
  const struct kind *kind, *index; /* index NULL: no dictionary */
  char name[16];
  element entry[ENTRIES];
  element row[BATCHES * ROWS]; /* what is to be seen */
  bool wide;                   /* decimals: some are no i64 */
} column;

typedef struct stream {
  int columns, batches, next;
  int64_t rows[BATCHES], total;
  column column[COLUMNS];
  struct ArrowSchema schema[COLUMNS], entries[COLUMNS], *pointer[COLUMNS];
} stream;

static void release_schema(struct ArrowSchema *schema)
{
  schema->release = NULL;
}

static int get_schema(struct ArrowArrayStream *from, struct ArrowSchema *out)
{
  stream *s = from->private_data;
  for (int i = 0; i < s->columns; i++) {
    const column *c = &s->column[i];
    s->entries[i] = (struct ArrowSchema){ .format = c->kind->format, .release = release_schema };
    s->schema[i] = s->entries[i];
    s->schema[i].name = c->name;
    if (c->index) {
      s->schema[i].format = c->index->format;
      s->schema[i].dictionary = &s->entries[i];
    }
    s->pointer[i] = &s->schema[i];
  }
  *out = (struct ArrowSchema){
    .format = "+s", .n_children = s->columns, .children = s->pointer, .release = release_schema
  };
  return 0;
}

static struct ArrowArray make_column(column *c, element *row, int64_t from, int64_t count)
{
  if (!c->index) {
    for (int64_t i = 0; i < count; i++) row[i] = make_element(c->kind);
    return make_array(c->kind, row, from, count);
  }
  element index[ROWS];
  for (int64_t i = 0; i < count; i++) {
    index[i] = (element){ .null = any(0, 5) == 0, .i = any(0, ENTRIES - 1) };
    row[i] = index[i].null ? (element){ .null = true } : c->entry[index[i].i];
  }
  struct ArrowArray out = make_array(c->index, index, from, count);
  out.dictionary = zeros(1, sizeof *out.dictionary);
  *out.dictionary = make_array(c->kind, c->entry, any(0, 9), ENTRIES);
  return out;
}

static int get_next(struct ArrowArrayStream *from, struct ArrowArray *out)
{
  stream *s = from->private_data;
  *out = (struct ArrowArray){ 0 };
  if (s->next == s->batches) return 0;
  int64_t count = s->rows[s->next++], skip = any(0, 1) ? 0 : any(0, 20);
  struct ArrowArray *child = zeros((size_t)s->columns, sizeof *child);
  struct ArrowArray **children = zeros((size_t)s->columns, sizeof *children);
  for (int i = 0; i < s->columns; i++) {
    int64_t own = any(0, 1) ? 0 : any(0, 20);
    child[i] = make_column(&s->column[i], s->column[i].row + s->total, own + skip, count);
    child[i].offset = own;
    child[i].length = skip + count;
    children[i] = &child[i];
  }
  s->total += count;
  live++;
  *out = (struct ArrowArray){ .length = count,
                              .offset = skip,
                              .n_buffers = 1,
                              .buffers = zeros(1, sizeof(void *)),
                              .n_children = s->columns,
                              .children = children,
                              .release = release_array };
  return 0;
}

static void release_stream(struct ArrowArrayStream *from)
{
  from->release = NULL;
}

static void plan_stream(stream *s)
{
  memset(s, 0, sizeof *s);
  s->columns = (int)any(1, COLUMNS);
  s->batches = (int)any(0, BATCHES);
  for (int b = 0; b < s->batches; b++) s->rows[b] = any(0, 3) ? any(0, ROWS) : any(0, 2);
  for (int i = 0; i < s->columns; i++) {
    column *c = &s->column[i];
    c->kind = &kinds[any(0, KINDS - 1)];
    snprintf(c->name, sizeof c->name, "c%d", i);
    c->index = any(0, 1) ? &kinds[any(1, 8)] : NULL;
    for (int k = 0; k < ENTRIES; k++) c->entry[k] = make_element(c->kind);
  }
}

/* ---- what was read --------------------------------------------------------------------------- */

static void check_value(const column *c, int64_t row, const tsr_table *table, int at)
{
  const element *e = &c->row[row];
  size_t length = 0;
  if (tsr_table_is_null(table, row, at) != e->null)
    FAIL("%s%s, row %lld: null is %d, expected %d", c->index ? "dictionary of " : "",
         c->kind->format, (long long)row, !e->null, e->null);
  if (e->null) return;
  bool whole = tsr_table_type(table, at) == TSR_COL_I64;
  if (c->kind->family == INTEGER || (c->kind->family == WIDE && whole)) {
    CHECK_I64(tsr_table_i64(table, row, at), e->i);
  } else if (c->kind->family == WORD) {
    const char *text = tsr_table_bytes(table, row, at, &length);
    CHECK_U64(length, (uint64_t)e->length);
    CHECK_BYTES(text, e->text, length);
  } else {
    CHECK_F64_BITS(tsr_table_f64(table, row, at), e->f);
  }
}

/* Whether decimals had to become floats. */
static bool some_wide(const column *c, int64_t rows)
{
  const element *e = c->index ? c->entry : c->row;
  for (int64_t i = 0; i < (c->index ? ENTRIES : rows); i++)
    if (!e[i].null && e[i].length - (e[i].text[0] == '-') > 18) return true;
  return false;
}

static void check_column(const column *c, int64_t rows, const tsr_table *table, int at)
{
  tsr_coltype type = tsr_table_type(table, at);
  if (c->kind->family == WIDE && (c->kind->most != 0 || !some_wide(c, rows)))
    CHECK_I64(type, c->kind->most ? TSR_COL_F64 : TSR_COL_I64);
  for (int64_t row = 0; row < rows; row++) check_value(c, row, table, at);
}

static void check_stream(const char *devices, bool spread)
{
  stream s;
  plan_stream(&s);
  tsr_runtime *rt = tsr_runtime_open(devices);
  tsr_scope *scope = tsr_scope_open(rt);
  struct ArrowArrayStream from = { get_schema, get_next, NULL, release_stream, &s };
  tsr_frame *df = tsr_frame_from_arrow(
      scope, &from, .on = tsr_on(spread ? tsr_mesh_default(rt, "x") : NULL, spread ? "x" : NULL));
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, scope);
  CHECK_I64(tsr_table_row_count(table), s.total);
  for (int i = 0; i < s.columns; i++) check_column(&s.column[i], s.total, table, i);
  tsr_scope_close(scope);
  tsr_runtime_close(rt);
  CHECK_I64(live, 0);
}

/* Guarded memory lasts as long as its test, and there are only so many maps. */
static void check_seeds(int first)
{
  for (int seed = first; seed < first + (test_quick() ? 60 : 250); seed++) {
    rng = test_seeded((uint64_t)seed);
    check_stream(seed % 3 == 1 ? "cpu:3" : "cpu:1", seed % 2);
  }
}

TEST_TIMEOUT(arrays_are_read_as_they_were_made, 300)
{
  check_seeds(0);
}

TEST_TIMEOUT(and_others_are, 300)
{
  check_seeds(1000);
}

TEST_TIMEOUT(and_others_still, 300)
{
  check_seeds(2000);
}
