/* Zip archives as far as .npz files need them: members stored or deflated, zip64, CRC-32; no
 * encryption, no parts. */
#ifndef TSR_IO_ZIP_H
#define TSR_IO_ZIP_H

#include "io/file/outfile.h"
#include "io/text/dict.h"

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct tsr__zip_member {
  const char *name; /* UTF-8, NUL-terminated */
  bool deflated;
  uint32_t crc;
  int64_t size, packed; /* bytes of the member and of what stands in the file */
  int64_t at;           /* of its local header */
} tsr__zip_member;

typedef struct tsr__zip {
  tsr__heap *heap;
  char *path;
  size_t path_size;
  int fd;
  int64_t end; /* where the directory begins: members end before */
  int count;
  tsr__zip_member *member;
  char *directory;
  size_t directory_size, member_room;
  tsr__progress *progress; /* asked while members are read; NULL: nobody is */
} tsr__zip;

/* Opens and reads the directory; nothing of it is believed before it was compared with the file.
 * Errors: TSR_EIO, TSR_EPARSE, TSR_EUNSUPPORTED, TSR_ENOMEM; `out` is closed then. */
tsr_status tsr__zip_open(tsr__heap *heap, const char *path, tsr__zip *out, tsr__error *error);
void tsr__zip_close(tsr__zip *zip);
/* Reads a member into a new block of size + 1 bytes, owned by the caller; its CRC is checked. */
tsr_status tsr__zip_read(const tsr__zip *zip, int member, char **out, tsr__error *error);

/* ---- writing ------------------------------------------------------------------------------- */

typedef struct tsr__zip_writer {
  tsr__heap *heap;
  tsr__outfile *out;
  char *directory; /* as it will be written */
  size_t used, room;
  int64_t count;
} tsr__zip_writer;

tsr_status tsr__zip_begin(tsr__heap *heap, const char *path, const tsr__out_opts *opts,
                          tsr__zip_writer *out, tsr__error *error);
/* Writes a stored member's header; then exactly `size` bytes of that CRC are to be put to
 * writer->out. */
tsr_status tsr__zip_add(tsr__zip_writer *writer, const char *name, int64_t size, uint32_t crc,
                        tsr__error *error);
/* Writes the directory; with `keep` false nothing is left behind. */
tsr_status tsr__zip_end(tsr__zip_writer *writer, bool keep, tsr__error *error);

/* CRC-32 of bytes that follow those of `crc` (0 at the start); `progress` (NULL: none) may stop it
 * early, and what it returns then is of no use. */
uint32_t tsr__zip_crc(uint32_t crc, const void *data, size_t length, tsr__progress *progress);

#endif
