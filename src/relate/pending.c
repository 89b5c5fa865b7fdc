/* Operators that are not there yet: whoever defines one takes the place of what stands here. */
#include "relate/relate.h"

#define PENDING __attribute__((weak))

static tsr_status refuse(tsr__error *error, const char *what)
{
  return tsr__error_set(error, TSR_EUNSUPPORTED, "%s is not supported yet", what);
}

PENDING tsr_status tsr__rel_group(const tsr__rel_group_ask *ask, tsr__rel *out,
                                  tsr__rel_stats *stats, tsr__error *error)
{
  (void)ask, (void)out, (void)stats;
  return refuse(error, "grouping by these keys");
}

PENDING tsr_status tsr__rel_first_of_group(const tsr__rel_group_ask *ask, int64_t count,
                                           tsr__value **out, tsr__rel_stats *stats,
                                           tsr__error *error)
{
  (void)ask, (void)count, (void)out, (void)stats;
  return refuse(error, "distinct");
}
