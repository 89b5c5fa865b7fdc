/* Level 6: what unpacks gzip faster than zlib does, and needs a library of its own.
 *
 * tessera_isal.so is loaded when the first gzip file is opened; its one symbol is tessera_isal. The
 * caller owns the memory of a state, so that memory limits count it. */
#ifndef TSR_IO_GUNZIP_PLUGIN_H
#define TSR_IO_GUNZIP_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TSR__GUNZIP_VERSION = 1 };

/* The input and the room of a step; both move on by what was used. */
typedef struct tsr__gunzip_step {
  const unsigned char *in;
  uint32_t left; /* bytes of the input */
  unsigned char *out;
  uint32_t room;
  bool ended; /* the member has ended, and its checksum agrees */
} tsr__gunzip_step;

typedef struct tsr__gunzip_calls {
  uint32_t version; /* TSR__GUNZIP_VERSION */
  size_t bytes;     /* of a state */
  void (*begin)(void *state);
  /* The next member begins; what was not read yet stays. */
  void (*next)(void *state);
  /* Until the input, the room or the member ends. Returns the fault as a static text, or NULL. */
  const char *(*some)(void *state, tsr__gunzip_step *step);
} tsr__gunzip_calls;

const tsr__gunzip_calls *tessera_isal(void);

#endif
