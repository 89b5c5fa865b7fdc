/* Inside pipeline/: files of a source in another order. */
#ifndef TSR_PIPELINE_STAGE_FILES_H
#define TSR_PIPELINE_STAGE_FILES_H

#include <pthread.h>

#include "pipeline/stage.h"

/* The files in an order drawn for each epoch; an error for a source that has none. */
tsr_source *tsr__files_shuffled(tsr_source *source, uint64_t seed, const char *site);

#endif
