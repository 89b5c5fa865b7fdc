/* Texts of a list as string_view of Arrow: views of 16 bytes are made, the bytes stay in
 * the list and are shown as buffers of texts.
 *
 *   list      | k-0001 k-0002 .. | .. a text .. | ..       bytes of all, one after the other
 *   buffers   0                  1              2          one begins each 2^shift bytes
 *
 * A buffer ends where the last text does that begins in it, so that none is cut and views need 32
 * bits to say where a text lies. */
#ifndef TSR_IO_ARROW_VIEWS_H
#define TSR_IO_ARROW_VIEWS_H

#include "io/text/dict.h"

enum { TSR__ARROW_SHIFT = 30, TSR__ARROW_VIEW = 16, TSR__ARROW_INSIDE = 12 };

/* How many buffers a list makes, and one of them. */
int64_t tsr__arrow_text_buffers(const tsr__dict *dict, int shift);
tsr__text_span tsr__arrow_text_buffer(const tsr__dict *dict, int shift, int64_t index);

/* Rows of a column; nothing under a null is looked at. */
typedef struct tsr__arrow_rows {
  const tsr__dict *dict; /* NULL: there are only nulls */
  const int32_t *codes;
  const uint64_t *valid; /* NULL: there are no nulls */
  int64_t count;
  int shift;
} tsr__arrow_rows;

typedef struct tsr__arrow_seen {
  _Atomic bool outside;     /* some text is longer than what stands in its view */
  _Atomic int64_t too_long; /* bytes of one that no view can have; 0: there is none */
} tsr__arrow_seen;

/* Makes the views on all workers; false: cancelled, as `what` says to who asks. */
bool tsr__arrow_views(tsr_runtime *rt, const char *what, const tsr__arrow_rows *rows, void *views,
                      tsr__arrow_seen *seen);

#endif
