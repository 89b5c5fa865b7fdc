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

static tsr_array *waves(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_add(tsr_sin(in[0]), tsr_mul((tsr_array *)user, 0.5));
}

void verb_saved(struct verb_run *r)
{
  const char *text = NULL;
  tsr_array *x = verb_matrix(r), *outer = tsr_abs(x);
  tsr_status status = tsr_eval(&outer, 1);
  tsr_function *f = tsr_function_make(r->s, waves, .user = outer);
  if (!f) return;
  if (!status) status = tsr_function_text_into(f, &text, x);
  if (!status) verb_see_array(r, tsr_call(tsr_function_from_text(r->s, text), x));
  if (!status) status = tsr_function_save(f, test_tmp("out/o.json"), x);
  if (!status) verb_see_array(r, tsr_call(tsr_function_load(r->s, test_tmp("out/o.json")), x));
  if (status && !r->status) r->status = status;
}
