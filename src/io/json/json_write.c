/* Rows as JSON, an object a row:
 *
 *   {"a":1}            [
 *   {"a":2}            {"a":1},
 *                      {"a":2}
 *                      ]             one array, where the path ends in .json
 *
 * Invariant: every object is JSON by RFC 8259, also where the values are not: NaN and infinities
 * are null there.
 *
 * Nothing else is lost: numbers are the shortest texts that read back to them. */
#include "io/rows/write.h"
#include "topology/topology.h"

#include <math.h>

typedef struct objects {
  const tsr__write_ask *ask;
  tsr__bytes names; /* {"a": then ,"b": ... each with what stands before its value */
  size_t *ends;     /* of each column in `names` */
  bool array;       /* objects have commas between them and brackets around */
} objects;

/* Short escapes where JSON has some, else four digits. Only of ASCII: UTF-8 needs none in JSON. */
static void put_escape(tsr__bytes *out, unsigned char c)
{
  static const char hex[] = "0123456789abcdef";
  static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
  const char *known = c ? strchr(plain, c) : NULL;
  if (known) {
    char two[2] = { '\\', letters[known - plain] };
    tsr__bytes_put(out, two, 2);
    return;
  }
  char six[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };
  tsr__bytes_put(out, six, 6);
}

/* What needs no escape is copied in runs. */
static void put_text(tsr__bytes *out, const char *text, size_t length)
{
  tsr__bytes_char(out, '"');
  size_t done = 0;
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    tsr__bytes_put(out, text + done, i - done);
    put_escape(out, c);
    done = i + 1;
  }
  tsr__bytes_put(out, text + done, length - done);
  tsr__bytes_char(out, '"');
}

/* JSON has no number for those. */
static bool is_null(const tsr__out_column *column, int64_t row)
{
  if (column->valid && !column->valid[row]) return true;
  tsr_dtype dtype = (tsr_dtype)column->type;
  return tsr__dtype_has_nan(dtype) && !isfinite(tsr__dtype_get_real(dtype, column->values, row));
}

static void put_value(tsr__bytes *out, const tsr__out_column *column, int64_t row)
{
  /* Dates and times are texts to JSON. */
  bool quoted = column->type == TSR_COL_DATE || column->type == TSR_COL_TIME;
  size_t length;
  if (is_null(column, row)) {
    tsr__bytes_put(out, "null", 4);
  } else if (column->type == TSR_COL_TEXT) {
    const char *text = tsr__out_text(column, row, &length);
    put_text(out, text, length);
  } else {
    if (quoted) tsr__bytes_char(out, '"');
    tsr__bytes_value(out, column, row, TSR__FLOATS_MARKED);
    if (quoted) tsr__bytes_char(out, '"');
  }
}

/* Rows from .. to - 1; tasks write into bytes of their own, which are put together in order. What
 * ends a row depends on its number alone, so tasks need to know nothing of each other. */
static void put_rows(const void *user, tsr__bytes *out, int64_t from, int64_t to)
{
  const objects *l = user;
  for (int64_t row = from; row < to; row++) {
    size_t before = 0;
    for (int i = 0; i < l->ask->count; i++) {
      tsr__bytes_put(out, l->names.at + before, l->ends[i] - before);
      before = l->ends[i];
      put_value(out, &l->ask->column[i], row);
    }
    const char *end = !l->array ? "}\n" : row + 1 < l->ask->rows ? "},\n" : "}\n]\n";
    tsr__bytes_put(out, end, strlen(end));
  }
}

/* By the path's ending: .json is one array, anything else an object a line. */
tsr_status tsr__json_write(const tsr__write_ask *ask, tsr__error *error)
{
  tsr__heap *heap = &ask->rt->heap;
  objects l = { .ask = ask,
                .names = { .heap = heap },
                .array = tsr__path_ends(ask->path, ".json") };
  size_t bytes = (size_t)(ask->count + 1) * sizeof *l.ends;
  l.ends = tsr__new(heap, bytes);
  /* What stands before each value is the same in all rows: made once. */
  for (int i = 0; l.ends && i < ask->count; i++) {
    tsr__bytes_char(&l.names, i ? ',' : '{');
    put_text(&l.names, ask->column[i].name, strlen(ask->column[i].name));
    tsr__bytes_char(&l.names, ':');
    l.ends[i] = l.names.used;
  }
  /* An empty array has no line of its own. */
  tsr__bytes head = { .heap = heap, .failed = !l.ends || l.names.failed };
  if (l.array) tsr__bytes_put(&head, ask->rows ? "[\n" : "[]\n", ask->rows ? 2 : 3);
  tsr_status status = tsr__write_rows(ask, &head, put_rows, &l, error);
  tsr__bytes_free(&head);
  tsr__bytes_free(&l.names);
  tsr__del(heap, l.ends, bytes);
  return status;
}
