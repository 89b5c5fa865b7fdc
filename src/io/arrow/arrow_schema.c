/* Arrow's formats, and what a batch must be made of.
 *
 * Invariant: what tsr__arrow_check lets pass can be read by arrow_read.c without another look at
 * counts and pointers.
 *
 *   schema   +s   | child: name, format | child: name, index format, dictionary: format | ..
 *   batch    1 buffer, children: | validity, values | validity, indices, dictionary: arrays | ..
 */
#include "io/arrow/arrow_inner.h"

#include <inttypes.h>
#include <stdlib.h>

static const char what[] = "tsr_frame_from_arrow";

tsr_status tsr__arrow_no_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", what);
}

/* ---- formats --------------------------------------------------------------------------------- */

/* `layout`: how values lie; `type`: the column's; value * factor / divisor is what the column
 * holds. */
typedef struct format {
  const char *text;
  uint8_t layout, type;
  int64_t factor, divisor;
} format;

/* A timestamp's format goes on with its time zone: instants are UTC whatever the zone. */
static const format formats[] = {
  /* A column of nulls alone says no type, and must have some. */
  { "n", TSR__ARROW_NULL, TSR_COL_F64, 1, 1 },
  { "b", TSR__ARROW_BOOL, TSR_COL_BOOL, 1, 1 },
  { "c", TSR__ARROW_I8, TSR_COL_I8, 1, 1 },
  { "C", TSR__ARROW_U8, TSR_COL_U8, 1, 1 },
  { "s", TSR__ARROW_I16, TSR_COL_I16, 1, 1 },
  { "S", TSR__ARROW_U16, TSR_COL_U16, 1, 1 },
  { "i", TSR__ARROW_I32, TSR_COL_I32, 1, 1 },
  { "I", TSR__ARROW_U32, TSR_COL_U32, 1, 1 },
  { "l", TSR__ARROW_I64, TSR_COL_I64, 1, 1 },
  { "L", TSR__ARROW_U64, TSR_COL_U64, 1, 1 },
  { "e", TSR__ARROW_F16, TSR_COL_F16, 1, 1 },
  { "f", TSR__ARROW_F32, TSR_COL_F32, 1, 1 },
  { "g", TSR__ARROW_F64, TSR_COL_F64, 1, 1 },
  { "u", TSR__ARROW_TEXT, TSR_COL_TEXT, 1, 1 },
  { "U", TSR__ARROW_LARGE_TEXT, TSR_COL_TEXT, 1, 1 },
  { "vu", TSR__ARROW_TEXT_VIEW, TSR_COL_TEXT, 1, 1 },
  { "tdD", TSR__ARROW_I32, TSR_COL_DATE, 1, 1 },
  /* Milliseconds of a day. */
  { "tdm", TSR__ARROW_I64, TSR_COL_DATE, 1, 86400000 },
  { "tss:", TSR__ARROW_I64, TSR_COL_TIME, 1000000, 1 },
  { "tsm:", TSR__ARROW_I64, TSR_COL_TIME, 1000, 1 },
  { "tsu:", TSR__ARROW_I64, TSR_COL_TIME, 1, 1 },
  { "tsn:", TSR__ARROW_I64, TSR_COL_TIME, 1, 1000 },
};

static const format *find_format(const char *text)
{
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    size_t length = strlen(formats[i].text);
    bool open = formats[i].text[length - 1] == ':';
    /* A format that ends in ':' goes on; all others must be whole: "i" is no "iX". */
    if (strncmp(text, formats[i].text, length) == 0 && (open || !text[length])) return &formats[i];
  }
  return NULL;
}

/* What formats that are not read are called, and what becomes of such a column. */
typedef struct stranger {
  const char *begin, *name, *way_out;
} stranger;

/* The first that a format begins with, so the empty one is last. */
static const stranger *stranger_of(const char *text)
{
  static const stranger strangers[] = {
    { "tt", "time of day", "cast the column to text, or to its integer since midnight, first" },
    { "tD", "duration", "cast the column to its integer first" },
    { "ti", "interval", "cast the column to numbers first" },
    { "z", "binary", "cast the column to text first" },
    { "Z", "large binary", "cast the column to text first" },
    { "vz", "binary view", "cast the column to text first" },
    { "w:", "fixed binary", "cast the column to text first" },
    { "d:", "decimal", "cast the column to f64 first" },
    { "+s", "struct", "make its fields columns first" },
    { "+l", "list", "explode or join the lists first" },
    { "+L", "large list", "explode or join the lists first" },
    { "+w", "fixed list", "explode or join the lists first" },
    { "+v", "list view", "explode or join the lists first" },
    { "+m", "map", "make its values columns first" },
    { "+r", "run-end encoded", "decode the column first" },
    { "+u", "union", "cast the column first" },
    { "", "unknown", "cast the column first" },
  };
  const stranger *s = strangers;
  /* The last entry, "", begins every text: the loop ends. */
  while (strncmp(text, s->begin, strlen(s->begin)) != 0) s++;
  return s;
}

static tsr_status unsupported(const struct ArrowSchema *column, const char *text, bool entries,
                              tsr__error *error)
{
  const stranger *s = stranger_of(text);
  return tsr__error_set(error, TSR_EUNSUPPORTED,
                        "%s: column '%.60s' has the Arrow type %s%s (format '%.20s'), but frames "
                        "have no such type; %s",
                        what, column->name, entries ? "dictionary of " : "", s->name, text,
                        s->way_out);
}

/* Reads ":PRECISION,SCALE" or ":PRECISION,SCALE,BITS", which follows "d"; 128 bits by default. */
static bool read_decimal(const char *text, tsr__arrow_type *type)
{
  /* `text` is at ':' or at a comma, which is stepped over. */
  char *end;
  long part[3] = { 0, 0, 128 };
  for (int i = 0; i < 3; i++) {
    const char *from = ++text;
    part[i] = strtol(from, &end, 10);
    text = end;
    if (end == from || (*end && *end != ',')) return false;
    /* Precision and scale must be there, bits may be. */
    if (!*end && i >= 1) break;
    if (!*end || i == 2) return false;
  }
  /* 76 digits are what 256 bits hold. */
  bool fine = part[0] >= 1 && part[0] <= 76 && part[1] >= -1000 && part[1] <= 1000;
  long bits = part[2];
  type->layout = TSR__ARROW_DECIMAL;
  type->bytes = (uint8_t)(bits / 8);
  type->scale = (int32_t)part[1];
  return fine && (bits == 32 || bits == 64 || bits == 128 || bits == 256);
}

/* What a column holds, or the dictionary of one. A decimal that cannot be read is named as one
 * (stranger_of), not as a fault of its format. */
static tsr_status take_values(const struct ArrowSchema *column, const char *text,
                              tsr__read_column *out, tsr__arrow_type *type, tsr__error *error)
{
  const format *f = find_format(text);
  *type = (tsr__arrow_type){ .factor = 1, .divisor = 1 };
  if (strncmp(text, "d:", 2) == 0 && read_decimal(text + 1, type)) {
    out->type = TSR_COL_F64; /* until the values are seen */
    return TSR_OK;
  }
  if (!f) return unsupported(column, text, text != column->format, error);
  out->type = (tsr_coltype)f->type;
  out->vacant = f->layout == TSR__ARROW_NULL;
  *type = (tsr__arrow_type){ .layout = f->layout, .factor = f->factor, .divisor = f->divisor };
  return TSR_OK;
}

/* With a dictionary the column's own format is that of its indices, and the dictionary's that of
 * its values. */
static tsr_status take_type(const struct ArrowSchema *column, tsr__read_column *out,
                            tsr__arrow_type *type, tsr__error *error)
{
  const struct ArrowSchema *entries = column->dictionary;
  if (!entries) return take_values(column, column->format, out, type, error);
  if (!entries->format || !entries->release)
    return tsr__error_set(error, TSR_EARG, "%s: the dictionary of column '%.60s' has no format",
                          what, column->name);
  /* A dictionary of a dictionary. */
  if (entries->dictionary) return unsupported(column, entries->format, true, error);
  const format *index = find_format(column->format);
  /* An integer of any width: its format is one letter. */
  if (!index || index->layout < TSR__ARROW_I8 || index->layout > TSR__ARROW_U64 ||
      strlen(column->format) != 1)
    return tsr__error_set(error, TSR_EARG,
                          "%s: column '%.60s' has indices of format '%.20s', expected integers",
                          what, column->name, column->format);
  if (take_values(column, entries->format, out, type, error)) return error->status;
  type->index = index->layout;
  return TSR_OK;
}

static tsr_status check_name(const struct ArrowSchema *column, int64_t index, tsr__error *error)
{
  const char *name = column->name;
  size_t length = name ? strlen(name) : 0;
  /* 1,000 bytes bound what a hostile stream can make of a name. */
  if (!length || length > 1000 || !tsr__utf8_valid(name, length))
    return tsr__error_set(error, TSR_ECOLUMN,
                          "%s: the name of column %" PRId64 " is empty, too long or not UTF-8",
                          what, index);
  return TSR_OK;
}

/* The columns one by one; `names` are those of the ones before. */
static tsr_status take_columns(tsr__arrow *arrow, const struct ArrowSchema *schema,
                               tsr__dict_local *names, tsr__error *error)
{
  for (int64_t i = 0; i < schema->n_children; i++) {
    const struct ArrowSchema *column = schema->children[i];
    if (!column || !column->format || !column->release)
      return tsr__error_set(error, TSR_EARG, "%s: the schema of column %" PRId64 " is missing",
                            what, i);
    tsr__read_column *out = &arrow->columns[i];
    if (check_name(column, i, error)) return error->status;
    size_t length = strlen(column->name);
    bool added;
    out->name = tsr__new(arrow->heap, length + 1);
    if (!out->name) return tsr__arrow_no_memory(error);
    memcpy(out->name, column->name, length + 1);
    /* Counted as soon as its name is there: who frees the columns frees as many. */
    arrow->column_count++;
    if (tsr__dict_code(names, out->name, length, false, &added) < 0)
      return tsr__arrow_no_memory(error);
    if (!added)
      return tsr__error_set(error, TSR_ECOLUMN, "%s: two columns are named '%.60s'", what,
                            column->name);
    if (take_type(column, out, &arrow->types[i], error)) return error->status;
    if (arrow->types[i].layout == TSR__ARROW_DECIMAL && !arrow->decimal)
      if (!(arrow->decimal = tsr__decimal_open(arrow->heap))) return tsr__arrow_no_memory(error);
  }
  return TSR_OK;
}

tsr_status tsr__arrow_schema(tsr__arrow *arrow, const struct ArrowSchema *schema, tsr__error *error)
{
  /* A stream of record batches is one of structs. */
  int64_t count = schema->n_children;
  if (!schema->format || strcmp(schema->format, "+s") != 0)
    return tsr__error_set(error, TSR_EARG,
                          "%s: the stream's format is '%.20s', expected '+s', a struct of columns",
                          what, schema->format ? schema->format : "(NULL)");
  /* A million columns bound the memory that a count alone can ask for. */
  if (count < 1 || count > 1000000 || !schema->children)
    return tsr__error_set(error, TSR_ECOLUMN, "%s: %" PRId64 " columns, expected 1 to 1,000,000",
                          what, count);
  arrow->columns = tsr__new(arrow->heap, (size_t)count * sizeof *arrow->columns);
  arrow->types = tsr__new(arrow->heap, (size_t)count * sizeof *arrow->types);
  if (!arrow->columns || !arrow->types) return tsr__arrow_no_memory(error);
  tsr__dict_local names;
  tsr__dict_local_init(&names, arrow->heap);
  tsr_status status = take_columns(arrow, schema, &names, error);
  tsr__dict_local_free(&names);
  return status;
}

/* ---- batches --------------------------------------------------------------------------------- */

static tsr_status wrong(const tsr__arrow *arrow, int column, const char *why, tsr__error *error)
{
  if (column < 0) return tsr__error_set(error, TSR_EARG, "%s: a batch %s", what, why);
  return tsr__error_set(error, TSR_EARG, "%s: column '%.60s' of a batch %s", what,
                        arrow->columns[column].name, why);
}

/* What is the same for arrays of all types; NULL or what is wrong. Sizes of buffers are not in the
 * interface: what lengths say is believed, as they are. */
static const char *check_array(const struct ArrowArray *array)
{
  int64_t end;
  if (array->length < 0) return "has a negative length";
  if (array->offset < 0) return "has a negative offset";
  /* Every product of an element's place and its size (16 bytes at most) then fits 64 bits. */
  if (__builtin_add_overflow(array->offset, array->length, &end) || end > INT64_MAX / 16)
    return "is longer than memory";
  /* -1: not counted. */
  if (array->null_count < -1 || array->null_count > array->length)
    return "has an impossible number of nulls";
  if (array->n_buffers < 0 || (array->n_buffers && !array->buffers)) return "has no buffers";
  return NULL;
}

/* NULL or what is wrong with the buffers of an array that is to have a layout. */
static const char *check_buffers(const struct ArrowArray *array, int layout)
{
  int64_t expected = 2;
  /* validity, offsets, bytes; others: validity, values. */
  if (layout == TSR__ARROW_TEXT || layout == TSR__ARROW_LARGE_TEXT) expected = 3;
  bool views = layout == TSR__ARROW_TEXT_VIEW;
  /* The interface says 0 for nulls; some give the validity that all other types have. */
  if (layout == TSR__ARROW_NULL) expected = array->n_buffers == 1;
  /* Views: validity, views, any number of buffers of texts, and their lengths. */
  if (views ? array->n_buffers < 3 : array->n_buffers != expected)
    return "does not have the number of buffers of its type";
  if (array->n_children) return "has children, but its type has none";
  /* Empty arrays may leave all of their buffers out. */
  if (layout == TSR__ARROW_NULL || array->length == 0) return NULL;
  if (!array->buffers[1]) return "has no buffer of values";
  if (array->null_count > 0 && !array->buffers[0]) return "has nulls but no validity";
  for (int64_t i = 2; views && i + 1 < array->n_buffers; i++)
    if (!array->buffers[i]) return "has an empty buffer of texts";
  if (views && array->n_buffers > 3 && !array->buffers[array->n_buffers - 1])
    return "has no sizes of its buffers";
  return NULL;
}

/* Children of structs may be longer than the batch shows, so lengths are compared by who has
 * both. */
static const char *check_column(const struct ArrowArray *array, const tsr__arrow_type *type)
{
  const char *why;
  if (!array || !array->release) return "is missing or was released";
  int layout = type->index ? type->index : type->layout;
  if ((why = check_array(array)) || (why = check_buffers(array, layout))) return why;
  if (!type->index) return array->dictionary ? "has a dictionary, but its type has none" : NULL;
  const struct ArrowArray *entries = array->dictionary;
  if (!entries || !entries->release) return "has no dictionary";
  /* The entries as carefully as an array: they come from the same stranger. */
  if (check_array(entries) || check_buffers(entries, type->layout) || entries->dictionary)
    return "has a dictionary that does not fit its type";
  return NULL;
}

/* A count of -1, not counted, makes it look. */
static bool any_null(const struct ArrowArray *array)
{
  const uint8_t *bits = array->n_buffers > 0 ? array->buffers[0] : NULL;
  /* Producers may leave a bitmap there without any null in it. */
  for (int64_t i = 0; bits && array->null_count && i < array->length; i++) {
    int64_t at = array->offset + i;
    if (!(bits[at / 8] >> (at % 8) & 1)) return true;
  }
  return false;
}

tsr_status tsr__arrow_check(const tsr__arrow *arrow, const struct ArrowArray *batch,
                            tsr__error *error)
{
  const char *why = check_array(batch);
  if (why) return wrong(arrow, -1, why, error);
  if (batch->n_children != arrow->column_count || !batch->children)
    return wrong(arrow, -1, "does not have the number of columns of the schema", error);
  if (batch->n_buffers != 1 || batch->dictionary)
    return wrong(arrow, -1, "is not a struct of columns", error);
  if (any_null(batch))
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: a batch has rows that are null as a whole, but frames have nulls "
                          "only in columns; fill the columns instead",
                          what);
  for (int i = 0; i < arrow->column_count; i++) {
    const struct ArrowArray *column = batch->children[i];
    why = check_column(column, &arrow->types[i]);
    /* The batch may begin at an offset of its own into its columns. */
    if (!why && column->length - batch->offset < batch->length)
      why = "has fewer rows than the batch";
    if (why) return wrong(arrow, i, why, error);
  }
  return TSR_OK;
}
