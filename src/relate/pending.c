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

PENDING tsr_status tsr__rel_join(const tsr__rel_join_ask *ask, tsr__rel *out, bool *repeats,
                                 tsr__rel_stats *stats, tsr__error *error)
{
  (void)ask, (void)out, (void)repeats, (void)stats;
  return refuse(error, "join");
}

PENDING tsr_status tsr__rel_place(const tsr__rel *in, const tsr_sharding *to, tsr__rel *out,
                                  tsr__rel_stats *stats, tsr__error *error)
{
  (void)in, (void)to, (void)out, (void)stats;
  return refuse(error, "moving rows");
}

PENDING tsr_status tsr__rel_concat(const tsr__rel *const *in, int count, tsr__rel *out,
                                   tsr__rel_stats *stats, tsr__error *error)
{
  (void)in, (void)count, (void)out, (void)stats;
  return refuse(error, "concat");
}
