/* Random nodes of each row of the table of operations: what laws of rows share. */
#ifndef TESTS_SUPPORT_LAW_ROWS_H
#define TESTS_SUPPORT_LAW_ROWS_H

#include "support/law_world.h"

typedef struct law_rows {
  law_world law;
  tsr_shape base; /* of operands, or what broadcasts to it */
} law_rows;

/* What is not drawn, and where it is looked at; NULL: it is. */
extern const char *const law_rows_elsewhere[];

/* A node of a row; NULL where the base has not the dims for it. */
tsr_array *law_row(law_rows *w, tsr__op op);

#endif
