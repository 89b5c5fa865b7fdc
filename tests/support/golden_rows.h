/* Goldens of tables: lines that the scripts of tests/golden write and tests compare.
 *
 *   query NAME
 *   ...                     what is asked, for the test to understand
 *   columns N               then what the table must hold:
 *   row VALUE...            null, integers, texts in hex after 'x', doubles as 16 hex digits */
#ifndef SUPPORT_GOLDEN_ROWS_H
#define SUPPORT_GOLDEN_ROWS_H

#include "tessera.h"

typedef struct golden_reader {
  char *line; /* the current one, without its newline; NULL at the end */
  char *next;
} golden_reader;

/* Goes on to the next line. */
void golden_step(golden_reader *r);
/* What follows a word at the start of the current line; NULL if the line is another. */
char *golden_after(const golden_reader *r, const char *word);
/* Compares a table with the lines from "columns" on, every bit of every value, and goes past
 * them. */
void golden_check_rows(golden_reader *r, const tsr_table *table);

#endif
