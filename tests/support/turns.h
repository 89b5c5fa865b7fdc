/* Put in front of the programs of pages and the examples, as they are built for tests: a line that
 * keeps arrays, or calls a function, is looked at each time it is met. See turns.c. */
#ifndef TESTS_SUPPORT_TURNS_H
#define TESTS_SUPPORT_TURNS_H

#include <tessera.h>

void turns_scope(const tsr_scope *scope, const char *site);
void turns_call(const tsr_function *function, const char *site);
/* The next batch, after the pipeline's threads have filled those that they may read ahead. */
tsr_batch *turns_next(tsr_pipeline *pipeline, const char *site);

#undef tsr_keep
#define tsr_keep(outer, a) (turns_scope((outer), TSR_HERE), tsr_keep_at((outer), (a), TSR_HERE))
#undef tsr_pipeline_next
#define tsr_pipeline_next(pipeline) turns_next((pipeline), TSR_HERE)
#undef tsr_tree_keep
#define tsr_tree_keep(outer, tree) \
  (turns_scope((outer), TSR_HERE), tsr_tree_keep_at((outer), (tree), TSR_HERE))
#undef tsr_call
#define tsr_call(function, ...)                                                          \
  (turns_call((function), TSR_HERE),                                                     \
   tsr_call_at((function), (tsr_array *const[]){ __VA_ARGS__ },                          \
               (int)(sizeof((tsr_array *const[]){ __VA_ARGS__ }) / sizeof(tsr_array *)), \
               TSR_HERE))

#endif
