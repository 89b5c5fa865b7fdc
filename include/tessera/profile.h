/* Where the time goes: what a runtime does, recorded and written as a file that trace viewers open.
 *
 *   tsr_profile_begin(s);
 *   tsr_region_begin(s, "epoch");
 *   ...                               calls, terminals
 *   tsr_region_end(s);
 *   tsr_profile_end(s, "epoch.json"); open it at ui.perfetto.dev
 *
 * The file is JSON in the trace event format. Under "host" each thread has a lane: regions, bodies
 * that are traced, plans that are made or found, programs that run, and of these each step with the
 * line that it comes from: a kernel by what it makes, a move by its kind with the bytes between
 * devices, a loop and all of its steps. Under "devices" each device has a lane with the steps that
 * it had part in; a kernel lasts there from the first work for that device to the last. A device
 * that several threads have work has a lane for each. */
#ifndef TESSERA_PROFILE_H
#define TESSERA_PROFILE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Begins to record what the scope's runtime does, in all threads. At most a million events are
 * kept; the file says how many more there were. Errors: TSR_ESTATE where it is recorded already.
 * Local. */
TSR_API tsr_status tsr_profile_begin_at(tsr_scope *scope, const char *site);

/* Ends it and writes what was recorded to a file, whole or not at all; names that end in .gz or
 * .zst are packed. Errors: TSR_ESTATE without tsr_profile_begin, TSR_EIO (what was recorded is gone
 * then). Local. */
TSR_API tsr_status tsr_profile_end_at(tsr_scope *scope, const char *path, const char *site);

enum { TSR_MAX_REGIONS = 32 };

/* Names what the calling thread does from here on, until tsr_region_end of the same scope, or until
 * the scope closes; regions lie in each other. `name` is copied. It costs a call where nobody
 * records. Errors: TSR_EARG for NULL, for more than TSR_MAX_REGIONS in each other. Local. */
TSR_API void tsr_region_begin_at(tsr_scope *scope, const char *name, const char *site);

/* Ends the innermost region of a scope. Errors: TSR_ESTATE where none is open. Local. */
TSR_API void tsr_region_end_at(tsr_scope *scope, const char *site);

#define tsr_profile_begin(scope) tsr_profile_begin_at((scope), TSR_HERE)
#define tsr_profile_end(scope, path) tsr_profile_end_at((scope), (path), TSR_HERE)
#define tsr_region_begin(scope, name) tsr_region_begin_at((scope), (name), TSR_HERE)
#define tsr_region_end(scope) tsr_region_end_at((scope), TSR_HERE)

#ifdef __cplusplus
}
#endif

#endif
