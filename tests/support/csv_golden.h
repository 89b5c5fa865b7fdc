/* Goldens of CSV files, as tests/golden/make_csv*.py write them. */
#ifndef TESTS_SUPPORT_CSV_GOLDEN_H
#define TESTS_SUPPORT_CSV_GOLDEN_H

#include "support/csv_table.h"

/* Undoes hex in place; returns the length. */
size_t golden_unhex(char *text);
/* One line, without its newline, NUL-terminated in place; NULL at the end. */
char *golden_line(char **at);
/* Whether a cell is what a line says; writes into the line. */
bool golden_cell_is(const struct table_cell *cell, char *expected);
/* Checks a column of a table with the lines at `*at`, which it reads and writes into. */
void golden_column(const struct table *t, int c, const char *name, char **at);

#endif
