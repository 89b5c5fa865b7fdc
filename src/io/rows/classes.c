/* The table of types that csv.h shows, and the words for types. */
#include "io/rows/classes.h"

#include "topology/topology.h"

#include <string.h>

bool tsr__number_fits(tsr_coltype type, unsigned class, const tsr__read_value *value)
{
  const unsigned numbers = TSR__CLASS_INT | TSR__CLASS_BIG | TSR__CLASS_FLOAT;
  tsr_dtype dtype = (tsr_dtype)type;
  /* Any number as a float, be it rounded. */
  if (tsr__dtype_is_real(dtype)) return (class & numbers) != 0;
  if (class == TSR__CLASS_BIG) return dtype == TSR_U64 && value->natural;
  return class == TSR__CLASS_INT && tsr__dtype_holds(dtype, value->integer);
}

tsr_coltype tsr__classes_type(unsigned seen)
{
  const unsigned ints = TSR__CLASS_INT | TSR__CLASS_BIG, reals = ints | TSR__CLASS_FLOAT;
  /* The classes seen as a set: which of them came first does not matter, so neither do the cuts of
   * a file. */
  const unsigned times = TSR__CLASS_DATE | TSR__CLASS_TIME;
  /* No row at all. */
  if (seen == 0) return TSR_COL_TEXT;
  seen &= ~(unsigned)TSR__CLASS_NULL;
  /* 02134 is a code and no number: as text nothing of it is lost. */
  if (seen & TSR__CLASS_CODE) return TSR_COL_TEXT;
  /* Nothing but nulls: numbers are the most likely to come, as in pandas. */
  if (seen == 0) return TSR_COL_F64;
  if (seen == TSR__CLASS_BOOL) return TSR_COL_BOOL;
  if (seen == TSR__CLASS_INT) return TSR_COL_I64;
  if (seen == TSR__CLASS_DATE) return TSR_COL_DATE;
  /* Integers beyond i64 alone are text, since no digit may be lost; beside a float they round as it
   * does. */
  if ((seen & TSR__CLASS_FLOAT) && !(seen & ~reals)) return TSR_COL_F64;
  if ((seen & TSR__CLASS_TIME) && !(seen & ~times)) return TSR_COL_TIME;
  return TSR_COL_TEXT;
}

const char *tsr_coltype_name(tsr_coltype type)
{
  switch (type) {
  case TSR_COL_DATE: return "date";
  case TSR_COL_TIME: return "time";
  case TSR_COL_TEXT: return "text";
  default: return tsr_dtype_name((tsr_dtype)type);
  }
}

int tsr__type_named(const char *word)
{
  TSR__FOR_DTYPES(type)
  if (!strcmp(word, tsr_coltype_name((tsr_coltype)type))) return type;
  for (int type = TSR_COL_DATE; type <= TSR_COL_TEXT; type++)
    if (!strcmp(word, tsr_coltype_name((tsr_coltype)type))) return type;
  return -1;
}
