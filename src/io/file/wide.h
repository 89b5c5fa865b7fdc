/* Text in UTF-16 and UTF-32, brought to UTF-8. */
#ifndef TSR_IO_WIDE_H
#define TSR_IO_WIDE_H

#include "io/file/files.h"

/* How characters lie; width 0: a text in bytes. */
typedef struct tsr__wide {
  int width; /* bytes of a unit: 2 or 4 */
  bool big;  /* the first byte of a unit counts most */
  int mark;  /* bytes of the mark that says so; 0: it was seen by the text */
} tsr__wide;

/* What a text is by its first bytes: by its mark, or, of UTF-16, as ASCII in two bytes each. */
tsr__wide tsr__wide_of(const char *bytes, size_t length);
/* Puts a file's text in UTF-8 in the place of its bytes. Errors: TSR_EPARSE (no such text, with the
 * byte), TSR_ENOMEM. */
tsr_status tsr__wide_to_utf8(const char *path, tsr__wide wide, tsr__loaded *bytes,
                             tsr__error *error);

#endif
