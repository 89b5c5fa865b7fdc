/* Reading what came through the Arrow C stream interface, as csv.h reads files: columns known when
 * it is open, values when they are asked for.
 *
 * Opening takes all batches and checks their structure: every pointer, count and offset that is
 * used later. Contents (offsets of texts, indices, UTF-8, ranges) are checked as they are read.
 * Bitmaps, the length of a buffer and the numbers of rows are the producer's word: the interface
 * says no sizes. */
#ifndef TSR_IO_ARROW_READ_H
#define TSR_IO_ARROW_READ_H

#include "io/rows/reader.h"
#include "tessera/arrow.h"

typedef struct tsr__arrow tsr__arrow;

/* Takes over the stream, released when this returns. NULL with the error set: TSR_EIO (what the
 * producer said), TSR_EARG (a structure that the interface does not allow), TSR_EUNSUPPORTED (a
 * type, by name and format), TSR_ECOLUMN, TSR_ENOMEM. */
tsr__arrow *tsr__arrow_open(tsr_runtime *rt, struct ArrowArrayStream *stream, tsr__error *error);
void tsr__arrow_close(tsr__arrow *arrow);
int64_t tsr__arrow_batches(const tsr__arrow *arrow);
/* A column's values where they lie as devices want them: one batch, no nulls, aligned to 64 bytes.
 * The memory stays until its release, also when `arrow` is closed. */
bool tsr__arrow_borrow(tsr__arrow *arrow, int column, tsr__foreign *out);

/* The same as a table of calls. */
extern const tsr__reader_ops tsr__arrow_reader;

#endif
