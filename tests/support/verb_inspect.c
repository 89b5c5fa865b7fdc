/* The jobs of what looks inside; see verb_cases.c. */
#include "verb_cases.h"

void verb_profiled(struct verb_run *r)
{
  tsr_status status = tsr_profile_begin(r->s);
  tsr_region_begin(r->s, "job");
  verb_see_array(r, tsr_sum(tsr_exp(verb_matrix(r)), .dims = TSR_DIMS(0)));
  if (!tsr_scope_status(r->s)) tsr_region_end(r->s);
  if (!status) status = tsr_profile_end(r->s, test_tmp("out/o.json"));
  if (status && !r->status) r->status = status;
}
