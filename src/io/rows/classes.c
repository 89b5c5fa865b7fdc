/* The table of types that csv.h shows, and the words for types. */
#include "io/rows/classes.h"

#include <string.h>

tsr_coltype tsr__classes_type(unsigned seen)
{
  const unsigned ints = TSR__CLASS_INT | TSR__CLASS_BIG, reals = ints | TSR__CLASS_FLOAT;
  const unsigned times = TSR__CLASS_DATE | TSR__CLASS_TIME;
  if (seen == 0) return TSR_COL_TEXT;
  seen &= ~(unsigned)TSR__CLASS_NULL;
  if (seen == 0) return TSR_COL_F64;
  if (seen == TSR__CLASS_BOOL) return TSR_COL_BOOL;
  if (seen == TSR__CLASS_INT) return TSR_COL_I64;
  if (seen == TSR__CLASS_DATE) return TSR_COL_DATE;
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
  static const tsr_coltype types[] = { TSR_COL_BOOL, TSR_COL_I32,  TSR_COL_I64,  TSR_COL_F32,
                                       TSR_COL_F64,  TSR_COL_DATE, TSR_COL_TIME, TSR_COL_TEXT };
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(word, tsr_coltype_name(types[i]))) return (int)types[i];
  return -1;
}
