/* Files of arrays. Frames read files by tsr_frame_read_csv (frame.h). */
#ifndef TESSERA_IO_H
#define TESSERA_IO_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a .npy file (bool, i32, i64, f32, f64; little-endian, C order) to the devices of a
 * sharding; the file is mapped and each device copies its part. Returns an array owned by the
 * scope. Errors: TSR_EIO, TSR_EPARSE, TSR_EUNSUPPORTED. Collective, same arguments. */
TSR_API tsr_array *tsr_read_npy_at(tsr_scope *scope, const char *path, tsr_sharding sharding,
                                   const char *site);

/* Evaluates an array and writes it as a .npy file: to a temporary file beside `path`, then renamed,
 * so that nobody ever sees half of it. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_save_npy(tsr_array *array, const char *path);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define tsr_read_npy(scope, path, sharding) tsr_read_npy_at((scope), (path), (sharding), TSR_HERE)
#endif

#endif
