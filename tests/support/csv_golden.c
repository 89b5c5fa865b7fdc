/* Goldens of CSV files: lines of text, values in hex. */
#include "support/csv_golden.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

/* Undoes hex in place; returns the length. */
size_t golden_unhex(char *text)
{
  size_t n = 0;
  unsigned byte;
  for (const char *at = text; sscanf(at, "%2x", &byte) == 1; at += 2) text[n++] = (char)byte;
  return n;
}

/* One line, without its newline, NUL-terminated in place; NULL at the end. */
char *golden_line(char **at)
{
  char *line = *at, *stop = strchr(line, '\n');
  if (!*line) return NULL;
  if (stop) *stop = 0;
  *at = stop ? stop + 1 : line + strlen(line);
  return line;
}

bool golden_cell_is(const struct table_cell *cell, char *expected)
{
  if (expected[0] == '-') return cell->null;
  if (cell->null) return false;
  if (expected[0] == 'i') return (int64_t)cell->bits == strtoll(expected + 2, NULL, 10);
  if (expected[0] == 't') {
    size_t length = golden_unhex(expected + 2);
    return cell->length == length && memcmp(cell->text, expected + 2, length) == 0;
  }
  uint64_t bits = strtoull(expected + 2, NULL, 16);
  double value, found;
  memcpy(&value, &bits, 8);
  memcpy(&found, &cell->bits, 8);
  return bits == cell->bits || (value != value && found != found);
}

void golden_column(const struct table *t, int c, const char *name, char **at)
{
  char *line = golden_line(at), *type = strrchr(line, ' ') + 1;
  type[-1] = 0;
  char *title = strchr(line, ' ') + 1;
  title[golden_unhex(title)] = 0;
  CHECK_STR(t->schema[c].name, title);
  if (strcmp(table_type_name(t->schema[c].type), type) != 0)
    FAIL("%s: column %s is %s, expected %s", name, title, table_type_name(t->schema[c].type), type);
  for (int64_t r = 0; r < t->rows; r++)
    if (!golden_cell_is(&t->cells[c * t->rows + r], golden_line(at)))
      FAIL("%s: column %s, row %" PRId64 " differs", name, title, r);
}
