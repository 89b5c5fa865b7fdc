#include "support/golden_rows.h"

#include "harness.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void golden_step(golden_reader *r)
{
  r->line = r->next && *r->next ? r->next : NULL;
  if (!r->line) return;
  char *end = strchr(r->line, '\n');
  r->next = end ? end + 1 : NULL;
  if (end) *end = 0;
}

char *golden_after(const golden_reader *r, const char *word)
{
  size_t length = strlen(word);
  if (!r->line || strncmp(r->line, word, length) || r->line[length] != ' ') return NULL;
  return r->line + length + 1;
}

static void hex_text(const char *hex, char *out)
{
  for (hex++; hex[0] && hex[1]; hex += 2) {
    char pair[3] = { hex[0], hex[1], 0 };
    *out++ = (char)strtol(pair, NULL, 16);
  }
  *out = 0;
}

static void check_value(const tsr_table *table, int64_t row, int column, const char *word)
{
  char text[200];
  tsr_coltype type = tsr_table_type(table, column);
  bool null = tsr_table_is_null(table, row, column);
  if (null != !strcmp(word, "null"))
    FAIL("row %" PRId64 " of %s is %s, expected %s", row, tsr_table_name(table, column),
         null ? "null" : tsr_table_text(table, row, column), word);
  if (null) return;
  if (word[0] == 'x') {
    hex_text(word, text);
    CHECK_STR(tsr_table_text(table, row, column), text);
  } else if (type == TSR_COL_F64) {
    uint64_t bits = strtoull(word, NULL, 16);
    double expected;
    memcpy(&expected, &bits, sizeof expected);
    CHECK_F64_BITS(tsr_table_f64(table, row, column), expected);
  } else {
    CHECK_I64(tsr_table_i64(table, row, column), strtoll(word, NULL, 10));
  }
}

void golden_check_rows(golden_reader *r, const tsr_table *table)
{
  CHECK(golden_after(r, "columns"));
  CHECK_I64(tsr_table_column_count(table), atoi(golden_after(r, "columns")));
  int64_t row = 0;
  for (golden_step(r); golden_after(r, "row"); golden_step(r), row++) {
    CHECK(row < tsr_table_row_count(table));
    char *rest = NULL, *word = strtok_r(golden_after(r, "row"), " ", &rest);
    for (int c = 0; c < tsr_table_column_count(table); c++) {
      CHECK(word != NULL);
      check_value(table, row, c, word);
      word = strtok_r(NULL, " ", &rest);
    }
    CHECK(!word);
  }
  CHECK_I64(tsr_table_row_count(table), row);
}
