/* The .npy format: header parsing (hostile sizes refused), reading, writing. All element types but
 * bf16, little-endian, C order (Fortran order is accepted when rank <= 1 or refused clearly). */
#ifndef TSR_IO_NPYFILE_H
#define TSR_IO_NPYFILE_H

#include "execute/execute.h"
#include "tessera/array.h"

typedef struct tsr__npy {
  tsr_dtype dtype;
  tsr_shape shape;
  const void *data; /* in memory, as in NumPy (bool = bytes) */
} tsr__npy;

/* An open file, or the bytes of one in memory. */
typedef struct tsr__npy_file {
  const char *path;   /* borrowed */
  const char *memory; /* NULL: read from `fd` */
  int fd;
  int64_t size;
  int64_t header_at, header_size;
  int64_t data_at, data_size; /* in bytes */
} tsr__npy_file;

/* The dtype that an array of a dtype has in a file: itself, of bf16 f32. */
tsr_dtype tsr__npy_dtype(tsr_dtype dtype);
/* Files of arrays on meshes that all processes have are written by process 0, with the others'
 * help: a run of all of them, who agree how it went. What has no such mesh each process saves for
 * itself. (npy.c) */
typedef struct tsr__npy_saving {
  tsr__peers *peers; /* NULL: no run */
  bool writes;
} tsr__npy_saving;
/* `count` evaluated arrays, of which one on such a mesh suffices. */
void tsr__npy_begin(tsr__npy_saving *saving, tsr_array *const *arrays, int count,
                    const tsr__peers_work *work);
tsr_status tsr__npy_end(const tsr__npy_saving *saving, tsr_status status, tsr__error *error);
/* Copies an evaluated array to host memory as a file has it; `out` is NULL in processes that only
 * take part. */
tsr_status tsr__npy_fetch(const tsr__npy_saving *saving, const tsr_array *array, void *out,
                          const char *what, tsr__error *error);

/* Opens a file of version 1, 2 or 3 and reads its header; bytes behind the array are ignored.
 * Errors: TSR_EIO, TSR_EPARSE (damaged or cut off), TSR_EDTYPE, TSR_ESHAPE (overflow),
 * TSR_EUNSUPPORTED (Fortran order, more than TSR_MAX_RANK dims, .npz); `out` is untouched and
 * nothing open then. */
tsr_status tsr__npy_open(const char *path, tsr__npy_file *file, tsr__npy *out, tsr__error *error);
/* Reads `size` bytes of the elements, from byte `at` of them; several threads may. TSR_EIO. */
tsr_status tsr__npy_read(const tsr__npy_file *file, void *to, int64_t at, int64_t size,
                         tsr__error *error);
void tsr__npy_close(tsr__npy_file *file);

/* As tsr__npy_open for a file's bytes in memory, which may be moved: `data` points into them. */
tsr_status tsr__npy_in(const char *name, void *memory, int64_t size, tsr__npy *out,
                       tsr__error *error);

enum { TSR__NPY_HEADER = 1024 }; /* bytes that hold any header that is written */
typedef struct tsr__npy_sizes {
  size_t header, data;
} tsr__npy_sizes;
/* The bytes before an array's data, and how many bytes each takes. TSR_EARG. */
tsr_status tsr__npy_header(const char *path, const tsr__npy *array, char header[TSR__NPY_HEADER],
                           tsr__npy_sizes *out, tsr__error *error);
/* Writes an array's dtype, shape and data (C order, bool as bytes) to a temporary file beside
 * `path` and renames it: never half a file. `progress` (NULL: none) is asked on the way. */
tsr_status tsr__npy_write(tsr__heap *heap, const char *path, const tsr__npy *array,
                          tsr__progress *progress, tsr__error *error);

#endif
