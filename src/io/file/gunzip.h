/* Members of gzip (RFC 1952), one after another, each with its checksum: by ISA-L where it was
 * installed when the library was built, which takes a third of the time, else by zlib. */
#ifndef TSR_IO_GUNZIP_H
#define TSR_IO_GUNZIP_H

#include "base/base.h"

typedef struct tsr__gunzip tsr__gunzip;

/* What a step reads and writes; all of it is moved on. */
typedef struct tsr__gunzip_io {
  const unsigned char *in;
  size_t left; /* bytes of the input */
  unsigned char *out;
  size_t room;
  bool ended;        /* the member has, and its checksum agreed */
  const char *wrong; /* of TSR_EPARSE: what is */
} tsr__gunzip_io;

/* At the beginning of a member; NULL out of memory. */
tsr__gunzip *tsr__gunzip_open(tsr__heap *heap);
void tsr__gunzip_close(tsr__gunzip *z);
/* Begins the next one. */
void tsr__gunzip_next(tsr__gunzip *z);
/* Until the input, the room or the member ends; it is asked again with more. TSR_EPARSE,
 * TSR_ENOMEM. */
tsr_status tsr__gunzip_some(tsr__gunzip *z, tsr__gunzip_io *io);

#endif
