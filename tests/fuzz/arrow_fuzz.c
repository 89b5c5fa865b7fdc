/* Any bytes as an Arrow stream: never a crash, a read outside of its buffers or a leak; each array
 * is released once; over other devices, with texts that lie in other ways, and behind a filter that
 * the reader judges, the same rows, values and errors.
 *
 * How long buffers are nobody can tell a consumer, so they are as long as lengths and offsets say,
 * and no offset of a text points behind its bytes: what lies in them, and all else, are the bytes'.
 *
 * Bytes: columns, batches; of each column format, index and name; of each batch rows, offset, and
 * each column's offset, nulls, a fault of its structure, and what lies in its buffers. */
#include "fuzz.h"
#include "fuzz_frame.h"

enum { COLUMNS = 4, BATCHES = 3, ROWS = 80, BUFFERS = 7, TEXTS = 64 };

static const struct kind {
  const char *format;
  int bytes; /* of an element; 0: bits; -1: none; -2: offsets of 32 bits; -3: of 64; -4: views */
} kinds[] = {
  { "n", -1 },        { "b", 0 },
  { "c", 1 },         { "C", 1 },
  { "s", 2 },         { "S", 2 },
  { "i", 4 },         { "I", 4 },
  { "l", 8 },         { "L", 8 },
  { "e", 2 },         { "f", 4 },
  { "g", 8 },         { "u", -2 },
  { "U", -3 },        { "vu", -4 },
  { "tdD", 4 },       { "tdm", 8 },
  { "tss:", 8 },      { "tsm:UTC", 8 },
  { "tsu:", 8 },      { "tsn:", 8 },
  { "d:38,0", 16 },   { "d:9,3,32", 4 },
  { "d:18,0,64", 8 }, { "d:76,40,256", 32 },
  { "d:1,1,7", 1 },   { "z", -2 },
  { "+s", -1 },
};
enum { KINDS = sizeof kinds / sizeof *kinds, INDICES = 8, FIRST_INDEX = 2 };

/* What a stream is made of, and who of it is alive. */
typedef struct owner {
  fuzz_bytes bytes;
  int columns, batches, alive;
  struct {
    const struct kind *kind, *index; /* index NULL: no dictionary */
    char name[8];
  } column[COLUMNS];
} owner;

static void *room(size_t size)
{
  void *out = calloc(1, size ? size : 1);
  REQUIRE(out);
  return out;
}

/* ---- schemas ------------------------------------------------------------------------------- */

static void release_schema(struct ArrowSchema *s)
{
  for (int64_t i = 0; i < s->n_children; i++) {
    if (s->children[i]->release) s->children[i]->release(s->children[i]);
    free(s->children[i]);
  }
  free(s->children);
  if (s->dictionary) {
    s->dictionary->release(s->dictionary);
    free(s->dictionary);
  }
  ((owner *)s->private_data)->alive--;
  s->release = NULL;
}

static struct ArrowSchema schema_of(owner *o, const char *format, const char *name)
{
  o->alive++;
  return (struct ArrowSchema){
    .format = format, .name = name, .release = release_schema, .private_data = o
  };
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
  owner *o = stream->private_data;
  *out = schema_of(o, "+s", "");
  out->n_children = o->columns;
  out->children = room((size_t)o->columns * sizeof *out->children);
  for (int c = 0; c < o->columns; c++) {
    const struct kind *kind = o->column[c].kind, *index = o->column[c].index;
    struct ArrowSchema *s = out->children[c] = room(sizeof *s);
    *s = schema_of(o, index ? index->format : kind->format, o->column[c].name);
    if (!index) continue;
    s->dictionary = room(sizeof *s->dictionary);
    *s->dictionary = schema_of(o, kind->format, NULL);
  }
  return 0;
}

/* ---- arrays -------------------------------------------------------------------------------- */

static void release_array(struct ArrowArray *a)
{
  for (int64_t i = 0; i < a->n_children; i++) {
    if (a->children[i]->release) a->children[i]->release(a->children[i]);
    free(a->children[i]);
  }
  free(a->children);
  if (a->dictionary) {
    a->dictionary->release(a->dictionary);
    free(a->dictionary);
  }
  /* One more than any array says it has. */
  for (int b = 0; b <= BUFFERS; b++) free((void *)(uintptr_t)a->buffers[b]);
  free(a->buffers);
  ((owner *)a->private_data)->alive--;
  a->release = NULL;
}

/* A few of the input's bytes, again and again. */
static char *fill(owner *o, size_t size)
{
  char *out = room(size), word[8];
  int many = fuzz_byte(&o->bytes) % 9;
  for (int i = 0; i < many; i++) word[i] = (char)fuzz_byte(&o->bytes);
  for (size_t i = 0; many && i < size; i++) out[i] = word[i % (size_t)many];
  return out;
}

/* Offsets into TEXTS bytes: they rise, or now and then do not. */
static char *make_offsets(owner *o, size_t count, size_t size)
{
  char *out = room((count + 1) * size);
  int64_t at = fuzz_byte(&o->bytes) % 5;
  for (size_t i = 0; i <= count; i++) {
    uint8_t step = i < 20 ? fuzz_byte(&o->bytes) : 1;
    at = step > 250 ? (int64_t)(int8_t)step : at < 0 ? 0 : at + step % 8;
    if (at > TEXTS) at = TEXTS;
    memcpy(out + i * size, &at, size);
  }
  return out;
}

/* Views into two buffers, whose lengths are those that the last buffer says. */
static void make_views(owner *o, struct ArrowArray *a, size_t count)
{
  int64_t *lengths = room(2 * sizeof *lengths);
  char *views = fill(o, count * 16);
  for (size_t i = 0; i < count && i < 20; i++) {
    uint8_t size = fuzz_byte(&o->bytes);
    /* Mostly of a length that can be; else as the bytes fell. */
    if (size > 200) continue;
    int32_t view[4] = { size % 40, 0, size & 1, size % 25 };
    memcpy(views + i * 16, view, view[0] > 12 ? 16 : 4);
  }
  a->buffers[1] = views;
  for (int b = 0; b < 2; b++) a->buffers[2 + b] = fill(o, (size_t)(lengths[b] = TEXTS / 2 + b));
  a->buffers[4] = lengths;
  a->n_buffers = 5;
}

static void make_values(owner *o, struct ArrowArray *a, const struct kind *kind, size_t count)
{
  a->n_buffers = 2;
  switch (kind->bytes) {
  case -1: a->n_buffers = 0; return;
  case 0: a->buffers[1] = fill(o, count / 8 + 1); return;
  case -2:
  case -3:
    a->n_buffers = 3;
    a->buffers[1] = make_offsets(o, count, kind->bytes == -2 ? 4 : 8);
    a->buffers[2] = fill(o, TEXTS);
    return;
  case -4: make_views(o, a, count); return;
  default: a->buffers[1] = fill(o, count * (size_t)kind->bytes);
  }
}

/* One thing that may not be; most arrays have none. */
static void break_array(owner *o, struct ArrowArray *a)
{
  switch (fuzz_byte(&o->bytes)) {
  case 255: a->n_buffers++; return;
  case 254: a->n_buffers -= a->n_buffers > 0; return;
  case 253: a->null_count = a->length + 1; return;
  case 252: a->length = -1; return;
  case 251: a->offset = -3; return;
  case 250: a->length -= a->length > 0; return;
  case 249: a->offset = INT64_MAX - 1; return;
  case 248: a->null_count = -2; return;
  case 247:
    free((void *)(uintptr_t)a->buffers[1]);
    a->buffers[1] = NULL;
    return;
  default: return;
  }
}

static struct ArrowArray array_of(owner *o)
{
  o->alive++;
  return (struct ArrowArray){ .buffers = room((BUFFERS + 1) * sizeof(void *)),
                              .release = release_array,
                              .private_data = o };
}

static struct ArrowArray *make_array(owner *o, const struct kind *kind, int64_t length)
{
  struct ArrowArray *a = room(sizeof *a);
  *a = array_of(o);
  a->offset = fuzz_byte(&o->bytes) % 11;
  a->length = length;
  size_t count = (size_t)(a->offset + length);
  uint8_t nulls = fuzz_byte(&o->bytes) % 3;
  make_values(o, a, kind, count);
  if (nulls && kind->bytes != -1) a->buffers[0] = fill(o, count / 8 + 1);
  a->null_count = nulls == 1 ? -1 : nulls == 2 && length ? 1 : 0;
  break_array(o, a);
  return a;
}

static struct ArrowArray *make_column(owner *o, int c, int64_t length)
{
  const struct kind *kind = o->column[c].kind, *index = o->column[c].index;
  struct ArrowArray *a = make_array(o, index ? index : kind, length);
  if (index) a->dictionary = make_array(o, kind, fuzz_byte(&o->bytes) % 12);
  return a;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
  owner *o = stream->private_data;
  *out = (struct ArrowArray){ 0 };
  if (!o->batches) return 0;
  o->batches--;
  uint8_t rows = fuzz_byte(&o->bytes);
  *out = array_of(o);
  out->n_buffers = 1;
  out->length = rows % ROWS;
  out->offset = fuzz_byte(&o->bytes) % 3;
  out->n_children = o->columns;
  out->children = room((size_t)o->columns * sizeof *out->children);
  for (int c = 0; c < o->columns; c++)
    out->children[c] = make_column(o, c, out->length + out->offset);
  /* What comes with an error is nobody's. */
  if (rows <= 252) return 0;
  out->release(out);
  return 5;
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
  (void)stream;
  return "enough";
}

static void release_stream(struct ArrowArrayStream *stream)
{
  stream->release = NULL;
}

/* What a stream of the bytes is. */
static struct ArrowArrayStream make_stream(owner *o, fuzz_bytes bytes)
{
  *o = (owner){ .bytes = bytes };
  o->columns = 1 + fuzz_byte(&o->bytes) % COLUMNS;
  o->batches = fuzz_byte(&o->bytes) % (BATCHES + 1);
  for (int c = 0; c < o->columns; c++) {
    uint8_t index = fuzz_byte(&o->bytes), name = fuzz_byte(&o->bytes);
    o->column[c].kind = &kinds[fuzz_byte(&o->bytes) % KINDS];
    if (index % 4 == 0) o->column[c].index = &kinds[FIRST_INDEX + index / 4 % INDICES];
    o->column[c].name[0] = name > 252 ? (char)(name == 253 ? 'a' : name) : (char)('a' + c);
  }
  return (struct ArrowArrayStream){ .get_schema = get_schema,
                                    .get_next = get_next,
                                    .get_last_error = get_last_error,
                                    .release = release_stream,
                                    .private_data = o };
}

/* ---- frames -------------------------------------------------------------------------------- */

enum { WHOLE, FILTERED, COUNTED };

typedef struct asked {
  int devices, what;
  bool first_whole; /* all is read before the filter stands there, so nothing is dropped */
  const char *layout;
} asked;

static tsr_frame *filtered(tsr_frame *df, int what)
{
  bool text = tsr_frame_column_type(df, 0) == TSR_COL_TEXT;
  df = tsr_frame_filter(df, text ? "contains(upper(a), 'A')" : "a is not null");
  return what == COUNTED ? tsr_frame_agg(df, "n = count()") : df;
}

static fuzz_outcome read_stream(tsr_runtime *rt, fuzz_bytes bytes, const asked *ask)
{
  owner o;
  struct ArrowArrayStream stream = make_stream(&o, bytes);
  char spec[20];
  fuzz_outcome out;
  tsr_scope *s = tsr_scope_open(rt);
  snprintf(spec, sizeof spec, "x=%d", ask->devices);
  setenv("TSR_TEXTS", ask->layout, 1);
  tsr_frame *df = tsr_frame_from_arrow(s, &stream, .on = tsr_on(tsr_mesh_make(rt, spec), "x"));
  REQUIRE(!stream.release);
  if (tsr_scope_status(s)) {
    out = (fuzz_outcome){ .status = tsr_scope_status(s) };
    fuzz_message(tsr_message(s), 3000);
  } else {
    out = (fuzz_outcome){ .status = TSR_OK };
    if (ask->first_whole) out = fuzz_collect(s, df);
    if (!out.status) out = fuzz_collect(s, ask->what == WHOLE ? df : filtered(df, ask->what));
  }
  tsr_scope_close(s);
  REQUIRE(!o.alive);
  return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const asked asks[] = {
    { 1, WHOLE, false, "codes" },    { 3, WHOLE, false, "views" },
    { 2, WHOLE, false, "mixed" },    { 1, FILTERED, true, "codes" },
    { 1, FILTERED, false, "views" }, { 3, FILTERED, false, "codes" },
    { 1, COUNTED, false, "codes" },  { 3, COUNTED, false, "mixed" },
  };
  enum { ASKS = sizeof asks / sizeof *asks };
  static tsr_runtime *rt;
  fuzz_outcome out[ASKS];
  if (size > 1 << 12) return 0;
  if (!rt) rt = tsr_runtime_open("cpu:3", .threads = 1);
  for (int i = 0; i < ASKS; i++)
    out[i] = read_stream(rt, (fuzz_bytes){ data, data + size }, &asks[i]);
  for (int i = 1; i < ASKS; i++) {
    bool same = asks[i].what == asks[i - 1].what;
    if (same) fuzz_same("a stream", &out[i - 1], &out[i]);
  }
  /* What is wrong in a column that nobody asks for is not found. */
  if (out[3].status) fuzz_same("a filter", &out[0], &out[3]);
  return 0;
}
