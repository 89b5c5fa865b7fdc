/* Inside pipeline/: what caches in memory and in files share. */
#ifndef TSR_PIPELINE_STAGE_CACHE_H
#define TSR_PIPELINE_STAGE_CACHE_H

#include "pipeline/stage.h"

/* A cache in a file, made where there is none; what can be cached was checked. */
tsr_source *tsr__cache_file(tsr_source *source, const char *path, const char *site);
void tsr__cache_ids(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                    int64_t *to);

#endif
