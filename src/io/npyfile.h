/* The .npy format: header parsing (hostile sizes refused), mapping, writing. Bool, i32, i64,
 * f32, f64, little-endian, C order (Fortran order is accepted when rank <= 1 or refused
 * clearly). */
#ifndef TSR_IO_NPYFILE_H
#define TSR_IO_NPYFILE_H

#include "base/base.h"
#include "tessera/topology.h"

typedef struct tsr__npy {
  tsr_dtype dtype;
  tsr_shape shape;
  const void *data; /* inside the mapping; as in NumPy (bool = bytes) */
  void *map;
  size_t map_size;
} tsr__npy;

/* Maps a file of version 1, 2 or 3 for reading; bytes behind the array are ignored. Data that is
 * not aligned in the file is copied into memory of its own. As with any mapping, a file that is
 * shortened while it is mapped ends the process when it is read there: copy soon. Errors:
 * TSR_EIO, TSR_EPARSE (damaged or cut off), TSR_EDTYPE, TSR_ESHAPE (overflow), TSR_EUNSUPPORTED
 * (Fortran order, more than TSR_MAX_RANK dims, .npz); `out` is untouched then. */
tsr_status tsr__npy_map(const char *path, tsr__npy *out, tsr__error *error);
void tsr__npy_unmap(tsr__npy *npy);

/* As tsr__npy_map for a file's bytes in memory, which may be moved: `data` points into them. */
tsr_status tsr__npy_in(const char *name, void *memory, int64_t size, tsr__npy *out,
                       tsr__error *error);

enum { TSR__NPY_HEADER = 1024 }; /* bytes that hold any header that is written */
typedef struct tsr__npy_sizes {
  size_t header, data;
} tsr__npy_sizes;
/* The bytes before an array's data, and how many bytes each takes. TSR_EARG. */
tsr_status tsr__npy_header(const char *path, const tsr__npy *array, char header[TSR__NPY_HEADER],
                           tsr__npy_sizes *out, tsr__error *error);
/* Writes an array's dtype, shape and data (C order, bool as bytes) to a temporary file beside `path`
 * and renames it: never half a file. `progress` (NULL: none) is asked on the way. */
tsr_status tsr__npy_write(tsr__heap *heap, const char *path, const tsr__npy *array,
                          tsr__progress *progress, tsr__error *error);

#endif
