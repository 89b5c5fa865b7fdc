/* Profiles: a recording of a runtime's work with times, written as a file for trace viewers.
 *
 *   tsr_profile_begin(s);
 *   tsr_region_begin(s, "epoch");
 *   ...                               calls, terminals
 *   tsr_region_end(s);
 *   tsr_profile_end(s, "epoch.json"); open it at ui.perfetto.dev
 *
 * The file is JSON in the trace event format. Under "host" each thread has a lane: regions, traces
 * of bodies, plans that were made or found in the cache, programs, and the steps of programs with
 * their source lines: a kernel with its results, a move with its kind and its bytes between
 * devices, a loop with all of its steps. Under "devices" each device has a lane with the steps that
 * it took part in; a kernel lasts there from the first work for that device to the last. A device
 * whose work several threads do has a lane for each. */
#ifndef TESSERA_PROFILE_H
#define TESSERA_PROFILE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Begins to record the work of the scope's runtime, on all threads. The recording keeps at most a
 * million events; the file has the number of further ones. Errors: TSR_ESTATE while a recording
 * runs. Local. */
TSR_API tsr_status tsr_profile_begin_at(tsr_scope *scope, const char *site);

/* Ends the recording and writes it to a file, whole or not at all; names that end in .gz or .zst
 * are compressed. Errors: TSR_ESTATE without tsr_profile_begin; TSR_EIO, after which the recording
 * is lost. Local. */
TSR_API tsr_status tsr_profile_end_at(tsr_scope *scope, const char *path, const char *site);

enum { TSR_MAX_REGIONS = 32 };

/* Begins a named region on the calling thread, until tsr_region_end of the same scope, or until the
 * scope closes; regions nest. `name` is copied. Without a recording it costs a call. Errors:
 * TSR_EARG for NULL and for more than TSR_MAX_REGIONS nested regions. Local. */
TSR_API void tsr_region_begin_at(tsr_scope *scope, const char *name, const char *site);

/* Ends the innermost region of a scope. Errors: TSR_ESTATE without an open region. Local. */
TSR_API void tsr_region_end_at(tsr_scope *scope, const char *site);

#define tsr_profile_begin(scope) tsr_profile_begin_at((scope), TSR_HERE)
#define tsr_profile_end(scope, path) tsr_profile_end_at((scope), (path), TSR_HERE)
#define tsr_region_begin(scope, name) tsr_region_begin_at((scope), (name), TSR_HERE)
#define tsr_region_end(scope) tsr_region_end_at((scope), TSR_HERE)

#ifdef __cplusplus
}
#endif

#endif
