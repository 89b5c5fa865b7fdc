/* Text out of gzip and zstd, a piece at a time, wherever the stored bytes come from.
 *
 *   stored   |member|member|member|   ->   one text */
#ifndef TSR_IO_UNPACK_H
#define TSR_IO_UNPACK_H

#include "base/base.h"

typedef enum tsr__packing { TSR__PLAIN, TSR__GZIP, TSR__ZSTD } tsr__packing;

/* What stored bytes are, by the first of them. */
tsr__packing tsr__packing_of(const char *bytes, size_t length);

/* Where stored bytes come from; borrowed while they are unpacked. */
typedef struct tsr__packed {
  tsr__heap *heap;
  const char *path; /* for messages */
  tsr__packing packing;
  int64_t stored; /* bytes */
  int64_t limit;  /* bytes that it may unpack to: tsr__unpack_limit */
  /* Reads `length` of them at an offset, fewer only at the end; `*got` says how many. Returns an
   * errno, or 0. */
  int (*read)(const void *user, char *to, int64_t offset, int64_t length, int64_t *got);
  const void *user;
} tsr__packed;

typedef struct tsr__unpack tsr__unpack;

/* How much a packed file may unpack to: `asked`, or, for 0, a thousand times what is stored but 256
 * MiB at least; and no more than the memory of the runtime's devices where that has a limit. */
int64_t tsr__unpack_limit(const tsr_runtime *rt, int64_t stored, int64_t asked);

/* Starts over; NULL out of memory. */
tsr__unpack *tsr__unpack_open(const tsr__packed *packed);
void tsr__unpack_close(tsr__unpack *unpack);
/* Unpacks `most` bytes of text, fewer only at the end. Errors: TSR_EPARSE (damaged or cut off),
 * TSR_EIO, TSR_ENOMEM (also beyond the limit). */
tsr_status tsr__unpack_some(tsr__unpack *unpack, char *to, int64_t most, int64_t *got,
                            tsr__error *error);
/* How long the text may be: told by the file, else a guess. */
int64_t tsr__unpack_guess(const tsr__unpack *unpack);
/* The same before anything is opened. */
int64_t tsr__packed_guess(const tsr__packed *packed);

#endif
