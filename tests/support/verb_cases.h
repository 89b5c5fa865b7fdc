/* Every verb of the library that does work, as small jobs whose results are known by a hash. What
 * makes a verb fail (memory, files, signals) runs them all, so a verb added here is tested against
 * all. */
#ifndef TESTS_SUPPORT_VERB_CASES_H
#define TESTS_SUPPORT_VERB_CASES_H

#include "harness.h"
#include "tessera.h"

/* What a job runs in and what it finds. */
struct verb_run {
  const char *job;
  tsr_runtime *rt;
  tsr_mesh *mesh;  /* all devices on "data" */
  tsr_scope *s;    /* the job's */
  tsr_sharding at; /* rows over "data" */
  tsr_status status;
  uint64_t hash; /* of all results, while status is TSR_OK */
};

struct verb_case {
  const char *name;
  void (*run)(struct verb_run *r);
};

/* Called with each array that a job makes, before it is read, and the job's name; or NULL. */
extern void (*verb_look)(tsr_array *a, const char *job);
/* What jobs do with a result, and an array to begin with: f64[6,4]. */
void verb_see_array(struct verb_run *r, tsr_array *a);
tsr_array *verb_matrix(struct verb_run *r);
/* Of what cannot say so itself: texts that are empty, batches that are nobody's any more. */
void verb_no_memory(struct verb_run *r);

/* Jobs of verb_arrays.c. */
void verb_more_functions(struct verb_run *r);
void verb_more_elements(struct verb_run *r);
void verb_statistics(struct verb_run *r);
void verb_parts_of_products(struct verb_run *r);
void verb_shapes(struct verb_run *r);
void verb_more_shapes(struct verb_run *r);
void verb_indexing(struct verb_run *r);
void verb_finding(struct verb_run *r);
void verb_draws(struct verb_run *r);
void verb_more_draws(struct verb_run *r);
void verb_elsewhere(struct verb_run *r);
/* Jobs of verb_transform.c. */
void verb_trees(struct verb_run *r);
void verb_functions(struct verb_run *r);
void verb_compiled(struct verb_run *r);
void verb_taps(struct verb_run *r);
void verb_gradients(struct verb_run *r);
void verb_rules(struct verb_run *r);
void verb_mapping(struct verb_run *r);
void verb_shard_maps(struct verb_run *r);
void verb_training(struct verb_run *r);
void verb_loops(struct verb_run *r);
void verb_named(struct verb_run *r);
void verb_donated(struct verb_run *r);
void verb_frame_trees(struct verb_run *r);
/* Jobs of verb_stages.c. */
void verb_stages(struct verb_run *r);
void verb_images(struct verb_run *r);

/* Jobs of verb_inspect.c. */
void verb_profiled(struct verb_run *r);
void verb_saved(struct verb_run *r);
void verb_meeting(struct verb_run *r);
void verb_process_data(struct verb_run *r);
void verb_checkpoints(struct verb_run *r);
void verb_pipelines(struct verb_run *r);
void verb_more_sources(struct verb_run *r);

extern const struct verb_case verb_cases[];
extern const int verb_case_count;

/* Writes the files that the jobs read, and the folder "out" where they write. Once a test. */
void verb_files(void);

/* Runs a job in a scope of its own and looks for what no result may show: a failure without a
 * message, a result beside a failure. Returns its status. */
tsr_status verb_run(const struct verb_case *job, tsr_runtime *rt, uint64_t *hash);

/* The message of the scope that the last job ran in. */
const char *verb_message(void);

/* Puts "before" in the file that jobs write to. */
void verb_out_reset(void);
/* Fails the test unless `out` holds nothing but that file, with "before" in it or, if `whole` is
 * not 0, bytes of that hash. */
void verb_out_check(const char *job, uint64_t whole);
/* The hash of what was written. */
uint64_t verb_out_hash(void);

#endif
