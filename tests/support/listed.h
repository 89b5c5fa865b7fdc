/* Records kept by hand beside a source: what its stages should give, as a list of numbers.
 *
 * Fields are of whole numbers; record r has its values at value[r * width], field after field. */
#ifndef TESTS_SUPPORT_LISTED_H
#define TESTS_SUPPORT_LISTED_H

#include "harness.h"
#include "tessera.h"

enum { LISTED_FIELDS = 12 };

typedef struct listed_field {
  char name[60];
  tsr_dtype dtype;
  tsr_shape shape;
  int64_t at, size; /* in a record, in values */
} listed_field;

typedef struct listed {
  int64_t count, width;
  int fields;
  listed_field field[LISTED_FIELDS];
  int64_t *value;
} listed;

/* A list of the same fields with room for `count` records; of other fields: clear and add them. */
listed listed_like(const listed *from, int64_t count);
int listed_add(listed *l, const char *name, tsr_dtype dtype, tsr_shape shape);
/* Allocates once all fields are added. */
void listed_room(listed *l, int64_t count);
void listed_free(listed *l);
int listed_find(const listed *l, const char *name);
/* The values of a field of a record. */
int64_t *listed_at(const listed *l, int64_t record, int field);
/* Copies the fields of a record that both lists have by name and size. */
void listed_copy(listed *to, int64_t record, const listed *from, int64_t other);

/* The records as a source in memory, whose bytes the scope borrows: free them with `bytes`. */
tsr_source *listed_source(tsr_scope *s, const listed *l, char **bytes);
/* Whether a batch has the records first .. of the list, in every field. */
void listed_check(tsr_batch *b, const listed *l, const int64_t *records);

#endif
