/* Rows as a table of Markdown: a line a row.
 *
 * Invariant: a cell is one line and holds no bar that ends it; what would steer a terminal is a
 * blank, as in tables drawn for the eye. */
#include "io/rows/write.h"
#include "topology/topology.h"

/* Bytes up to the first that needs a look: one of Markdown's, or one that may begin what steers. */
static size_t plain_bytes(const char *text, size_t length)
{
  size_t i = 0;
  while (i < length && text[i] != '|' && text[i] != '\\' &&
         !tsr__text_control(text + i, length - i)) {
    i++;
    /* Characters of several bytes are taken whole: their later bytes are no ASCII. */
    while (i < length && ((unsigned char)text[i] & 0xc0) == 0x80) i++;
  }
  return i;
}

static void put_cell(tsr__bytes *out, const char *text, size_t length)
{
  for (size_t step; length; text += step, length -= step) {
    size_t plain = plain_bytes(text, length);
    tsr__bytes_put(out, text, plain);
    if (plain == length) break;
    text += plain;
    length -= plain;
    step = tsr__text_control(text, length);
    /* A cell has one line; <br> is what Markdown's readers take for its end. A CR before it
     * goes. */
    if (*text == '\n') tsr__bytes_put(out, "<br>", 4);
    else if (step && *text != '\r') tsr__bytes_char(out, ' ');
    /* Bars and backslashes keep their meaning with a backslash before them. */
    else if (!step) tsr__bytes_char(out, '\\');
    if (step) continue;
    tsr__bytes_char(out, *text);
    step = 1;
  }
}

static void put_value(tsr__bytes *out, const tsr__out_column *column, int64_t row)
{
  size_t length;
  /* Null is an empty cell. */
  if (column->valid && !column->valid[row]) return;
  if (column->type == TSR_COL_TEXT) {
    const char *text = tsr__out_text(column, row, &length);
    put_cell(out, text, length);
  } else {
    tsr__bytes_value(out, column, row, TSR__FLOATS_SHORT);
  }
}

static void put_rows(const void *user, tsr__bytes *out, int64_t from, int64_t to)
{
  const tsr__write_ask *ask = user;
  for (int64_t row = from; row < to; row++) {
    for (int i = 0; i < ask->count; i++) {
      tsr__bytes_put(out, i ? " | " : "| ", i ? 3 : 2);
      put_value(out, &ask->column[i], row);
    }
    tsr__bytes_put(out, " |\n", 3);
  }
}

static bool is_number(int type)
{
  return tsr__dtype_integer((tsr_dtype)type) || tsr__dtype_is_real((tsr_dtype)type);
}

tsr_status tsr__markdown_write(const tsr__write_ask *ask, tsr__error *error)
{
  tsr__bytes head = { .heap = &ask->rt->heap };
  for (int i = 0; i < ask->count; i++) {
    const char *name = ask->column[i].name;
    tsr__bytes_put(&head, i ? " | " : "| ", i ? 3 : 2);
    put_cell(&head, name, strlen(name));
  }
  tsr__bytes_put(&head, " |\n", 3);
  /* Numbers stand at the right. */
  for (int i = 0; i < ask->count; i++)
    tsr__bytes_put(&head, is_number(ask->column[i].type) ? "|--:" : "|---", 4);
  tsr__bytes_put(&head, "|\n", 2);
  tsr_status status = tsr__write_rows(ask, &head, put_rows, ask, error);
  tsr__bytes_free(&head);
  return status;
}
