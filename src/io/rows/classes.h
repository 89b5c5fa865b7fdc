/* Classes of values that text holds, and the type of a column by what it holds: one table for all
 * formats that have no types of their own. */
#ifndef TSR_IO_CLASSES_H
#define TSR_IO_CLASSES_H

#include "tessera/frame.h"

/* What a field can be. A column's type is a function of the set of classes it holds. */
enum {
  TSR__CLASS_NULL = 1,
  TSR__CLASS_BOOL = 2,
  TSR__CLASS_INT = 4,    /* an integer that fits i64 */
  TSR__CLASS_BIG = 8,    /* an integer that does not */
  TSR__CLASS_FLOAT = 16, /* a point, an exponent, inf or nan */
  TSR__CLASS_DATE = 32,
  TSR__CLASS_TIME = 64,
  TSR__CLASS_TEXT = 128,
  TSR__CLASS_CODE = 256 /* beside INT or BIG: it begins with zeros that a number would lose */
};

typedef struct tsr__read_value {
  int64_t integer; /* INT, DATE (days), TIME (microseconds), BOOL; BIG: bits of u64, if `natural` */
  double real;     /* INT, BIG, FLOAT */
  bool natural;    /* BIG: u64 holds it */
} tsr__read_value;

/* Whether a column of a type of numbers can hold a value. */
bool tsr__number_fits(tsr_coltype type, unsigned class, const tsr__read_value *value);
/* The type of a column that holds these classes: the table of csv.h. */
tsr_coltype tsr__classes_type(unsigned seen);
/* The type that a word of the options means ("f64"); -1: none. */
int tsr__type_named(const char *word);

#endif
