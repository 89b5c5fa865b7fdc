/* The relational part of the device table: whatever reads or writes rows, as columns.h, match.h and
 * group_homes.h describe it. Rooms above kernel/ call these entries and nothing below them;
 * functions that only hold buffers (indices, packed keys and their release) they call directly. */
#ifndef TSR_KERNEL_ROWS_H
#define TSR_KERNEL_ROWS_H

#include "kernel/rows/group_homes.h"
#include "kernel/rows/match.h"

/* Each entry is the function tsr__NAME. */
typedef struct tsr__row_ops {
  tsr_status (*keys_range)(tsr_runtime *rt, const tsr__range_ask *ask, tsr__error *error);
  tsr_status (*pack_keys)(tsr_runtime *rt, const tsr__pack_ask *ask, tsr__packed_keys *out,
                          tsr__error *error);
  tsr_status (*packed_came)(tsr_runtime *rt, const tsr__keys_came *came, tsr__packed_keys *out,
                            tsr__error *error);
  tsr_status (*gather_column)(tsr_runtime *rt, const tsr__gather *ask, tsr__buffer **values,
                              tsr__buffer **valid, tsr__error *error);
  tsr_status (*sort_rows)(tsr_runtime *rt, const tsr__parts *parts, const tsr__packed_keys *keys,
                          tsr__index *out, tsr__error *error);
  tsr_status (*top_rows)(tsr_runtime *rt, const tsr__top_ask *ask, tsr__index *out,
                         tsr__error *error);
  tsr_status (*sort_sample_rows)(tsr_runtime *rt, const tsr__sample_ask *ask, tsr__sort_sample *out,
                                 tsr__error *error);
  tsr_status (*sort_split_rows)(tsr_runtime *rt, const tsr__split_ask *ask, tsr__sort_split *out,
                                tsr__error *error);
  tsr_status (*route_rows)(tsr_runtime *rt, const tsr__routes *routes, tsr__error *error);
  tsr_status (*aggregate_groups)(tsr_runtime *rt, const tsr__aggregate_ask *ask,
                                 tsr__buffer **values, tsr__buffer **valid, tsr__error *error);
  tsr_status (*group_record_groups)(tsr_runtime *rt, const tsr__aggregate_ask *ask,
                                    tsr__group_records **out, tsr__error *error);
  tsr_status (*tallied_read)(tsr__group_records *tallied, const tsr__grouped *groups,
                             tsr__buffer **values, tsr__buffer **valid, tsr__error *error);
  tsr_status (*match_find)(tsr_runtime *rt, const tsr__match_ask *ask, tsr__matched *out,
                           tsr__error *error);
  tsr_status (*match_left)(const tsr__matched *matched, tsr__index *out, tsr__error *error);
  tsr_status (*match_right)(tsr__matched *matched, tsr__index *out, tsr__error *error);
  tsr_status (*match_keep)(const tsr__matched *matched, const tsr__colparts *from,
                           tsr__buffer **values, tsr__error *error);
  tsr_status (*match_extent_of)(tsr_runtime *rt, const tsr__extent_ask *ask, tsr__match_extent *out,
                                tsr__error *error);
  tsr_status (*match_owners_of)(tsr_runtime *rt, const tsr__match_owners *ask, tsr__error *error);
  tsr_status (*match_answers)(const tsr__match_answer *ask, tsr__error *error);
  tsr_status (*match_at_home)(tsr_runtime *rt, const tsr__match_home *ask, tsr__matched *out,
                              tsr__error *error);
  tsr_status (*homes_group)(tsr_runtime *rt, tsr__group_homes *homes, const tsr__packed_keys *keys,
                            tsr__error *error);
  tsr_status (*homes_of_nothing)(tsr_runtime *rt, tsr__group_homes *homes, tsr__error *error);
  tsr_status (*homes_send)(tsr_runtime *rt, const tsr__homes_keys *ask, tsr__error *error);
  tsr_status (*homes_meet)(tsr_runtime *rt, const tsr__homes_keys *came, tsr__buffer **answers,
                           tsr__error *error);
  tsr_status (*homes_settle)(tsr_runtime *rt, const tsr__homes_told *told, tsr__error *error);
  tsr_status (*homes_codes)(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **mine,
                            tsr__index *order, tsr__error *error);
  tsr_status (*homes_by_code)(tsr_runtime *rt, tsr__group_homes *homes, tsr__buffer **mine,
                              tsr__error *error);
  tsr_status (*homes_route)(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **owner,
                            tsr__buffer **number, tsr__error *error);
  tsr_status (*homes_aggregate)(tsr_runtime *rt, const tsr__homes_rows *ask, tsr__buffer **values,
                                tsr__buffer **valid, tsr__error *error);
  tsr_status (*homes_dest)(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **dest,
                           tsr__error *error);
  tsr_status (*homes_order)(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **number,
                            tsr__index *order, tsr__error *error);
  tsr_status (*homes_first)(tsr_runtime *rt, const tsr__group_homes *homes, tsr__index *first,
                            tsr__error *error);
  tsr_status (*homes_keep)(tsr_runtime *rt, tsr__group_homes *homes, int64_t most,
                           tsr__buffer **bits, tsr__error *error);
  tsr_status (*leaving_count)(tsr_runtime *rt, const tsr__leaving *leaving, tsr__error *error);
  tsr_status (*leaving_take)(tsr_runtime *rt, const tsr__leaving *leaving, tsr__error *error);
  tsr_status (*leaving_join)(tsr_runtime *rt, tsr__leaving *leaving, tsr__error *error);
} tsr__row_ops;

static inline const tsr__row_ops *tsr__on_rows(const tsr_runtime *rt)
{
  return tsr__devices_of(rt)->ops->rows;
}

#endif
