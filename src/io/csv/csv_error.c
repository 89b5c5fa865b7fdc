/* Places in CSV files, and messages about what stands there.
 *
 *   prices.csv:17:9: row 15 has 4 fields, expected 3 as in the header: "1,2,3,4"; ...
 *
 * Invariant: lines and columns are those of the file as it is stored, also after comments were
 * taken out of its text. */
#include "io/csv/csv_inner.h"

#include <inttypes.h>
#include <stdio.h>

tsr_status tsr__csv_no_memory(const tsr__csv *csv, tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "%s: no memory to read it", csv->path);
}

/* Lines are counted from the start: places are asked for only when something is wrong. */
void tsr__csv_place(const tsr__csv_file *file, tsr__csv_window text, const char *at, int64_t *line,
                    int64_t *column)
{
  const char *from = text.at, *found;
  *line = 1;
  while (from < at && (found = memchr(from, file->dialect.newline, (size_t)(at - from)))) {
    from = found + 1;
    ++*line;
  }
  *column = at - from + 1;
  /* Comments that were cut out before this place had lines, too. */
  for (size_t i = 0; i < file->cut_count && file->cuts[i].at <= at - text.at; i++)
    *line += file->cuts[i].lines;
}

/* Says that `at` is wrong: "path:line:column: " and the message. */
static tsr_status error_at(const tsr__csv_file *file, const char *at, tsr__error *error,
                           const char *format, ...) TSR_PRINTF(4, 5);

static tsr_status error_at(const tsr__csv_file *file, const char *at, tsr__error *error,
                           const char *format, ...)
{
  int64_t line, column;
  char text[900];
  va_list args;
  tsr__csv_place(file, (tsr__csv_window){ file->data, file->data + file->end }, at, &line, &column);
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return tsr__error_set(error, TSR_EPARSE, "%s:%" PRId64 ":%" PRId64 ": %s", file->path, line,
                        column, text);
}

/* Bytes as text for a message: cut, and what is not to be printed made visible. */
static const char *quote(const char *at, size_t length, char out[96])
{
  size_t used = 0, i = 0;
  for (; i < length && used < 80; i++) {
    unsigned char c = (unsigned char)at[i];
    if (c >= ' ' && c < 0x7f) out[used++] = (char)c;
    else if (c >= 0x80 && tsr__utf8_valid(at, length < 80 ? length : i)) out[used++] = (char)c;
    else used += (size_t)snprintf(out + used, 8, c == '\n' ? "\\n" : "\\x%02x", c);
  }
  snprintf(out + used, 8, "%s", i < length ? "..." : "");
  return out;
}

tsr_status tsr__csv_row_error(const tsr__csv_file *file, tsr__csv_found found,
                              const tsr__csv_row *row, tsr__error *error)
{
  if (found == TSR__CSV_CUT)
    return error_at(file, row->fault, error,
                    "the quote that opens here is never closed; a quote inside a quoted "
                    "field is written twice");
  return error_at(file, row->fault, error,
                  "text follows a closing quote, expected '%c' or the end of the line; a "
                  "quote inside a quoted field is written twice",
                  file->dialect.separator);
}

/* The field that is too many, or the last there is, is where the error is told. */
tsr_status tsr__csv_fields_error(const tsr__csv_file *file, const tsr__csv_row *row, int64_t number,
                                 tsr__error *error)
{
  char text[96];
  const char *at = row->begin;
  int64_t some = row->fields < file->fields ? row->fields - 1 : file->fields;
  for (int64_t i = 0; i < some; i++) tsr__csv_next_field(&file->dialect, &at, row->next);
  size_t length = (size_t)(row->next - row->begin);
  if (length && row->next[-1] == file->dialect.newline) length--;
  return error_at(file, at, error,
                  "row %" PRId64 " has %" PRId64 " field%s, expected %d as in the header: "
                  "\"%s\"; a field that holds a '%c' needs quotes around it (or see the "
                  "option bad_rows)",
                  number, row->fields, row->fields == 1 ? "" : "s", file->fields,
                  quote(row->begin, length, text), file->dialect.separator);
}

/* The row is found and parsed once more, as rows are not kept apart. */
tsr__text_span tsr__csv_field_in(const tsr__csv *csv, int64_t row, int column)
{
  const tsr__csv_file *file = tsr__csv_file_of(csv, row);
  const char *end = file->data + file->end;
  const char *at = file->data + tsr__csv_locate(file, row - file->first_row);
  tsr__csv_row found;
  tsr__text_span field = { at, 0 };
  if (tsr__csv_next_row(&file->dialect, at, end, &found) != TSR__CSV_ROW) return field;
  at = found.begin;
  for (int i = 0; i <= file->at[column]; i++)
    field = tsr__csv_next_field(&file->dialect, &at, found.next);
  return field;
}

/* The first byte that is no UTF-8; NULL: all are. At most four bytes are one character: whatever is
 * not good after four is bad at its first. */
static const char *bad_byte(tsr__text_span f)
{
  if (tsr__utf8_valid(f.at, f.length)) return NULL;
  size_t good = 0;
  for (size_t length = 1; length <= f.length; length++) {
    if (tsr__utf8_valid(f.at + good, length - good)) good = length;
    else if (length - good >= 4) break;
  }
  return f.at + good;
}

/* Either it is no UTF-8, or it does not fit a type that was asked for. */
tsr_status tsr__csv_value_error(const tsr__csv *csv, int64_t row, int column, tsr__error *error)
{
  const tsr__csv_file *file = tsr__csv_file_of(csv, row);
  tsr__text_span field = tsr__csv_field_in(csv, row, column);
  const char *bad = bad_byte(field), *name = csv->columns[column].name;
  char text[96];
  if (bad)
    return error_at(file, bad, error,
                    "row %" PRId64 ", column \"%s\": the byte 0x%02x in \"%s\" is not "
                    "UTF-8, as in Latin-1 or other old encodings; convert the file (iconv "
                    "-f LATIN1 -t UTF-8)",
                    row, name, (unsigned char)*bad, quote(field.at, field.length, text));
  return error_at(
      file, field.at, error,
      "row %" PRId64
      ", column \"%s\": \"%s\" is not a valid %s, the type given for the column; give the "
      "column the type text, or see the option bad_rows",
      row, name, quote(field.at, field.length, text), tsr_coltype_name(csv->columns[column].type));
}
