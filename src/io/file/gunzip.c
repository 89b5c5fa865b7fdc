/* gzip by the library that is there; TSR_ISAL says that ISA-L is.
 *
 * Both count what they are given in 32 bits, so that a step offers them a gibibyte at most. Both
 * give back what they looked at behind the end of a member: the next one may begin there. */
#include "io/file/gunzip.h"

enum { OFFER = 1 << 30 };

#ifdef TSR_ISAL
#include <isa-l/igzip_lib.h>

struct tsr__gunzip {
  tsr__heap *heap;
  struct inflate_state state; /* a hundred kilobytes: its tables and the last texts are in it */
};

tsr__gunzip *tsr__gunzip_open(tsr__heap *heap)
{
  tsr__gunzip *z = tsr__new_raw(heap, sizeof *z);
  if (!z) return NULL;
  z->heap = heap;
  isal_inflate_init(&z->state);
  z->state.crc_flag = ISAL_GZIP;
  return z;
}

void tsr__gunzip_close(tsr__gunzip *z)
{
  if (z) tsr__del(z->heap, z, sizeof *z);
}

void tsr__gunzip_next(tsr__gunzip *z)
{
  /* The flag and what was not read yet stay. */
  isal_inflate_reset(&z->state);
}

static const char *text_of(int code)
{
  switch (code) {
  case ISAL_INVALID_BLOCK: return "invalid block";
  case ISAL_INVALID_SYMBOL: return "invalid code";
  case ISAL_INVALID_LOOKBACK: return "invalid distance";
  case ISAL_INCORRECT_CHECKSUM: return "a checksum differs";
  case ISAL_UNSUPPORTED_METHOD: return "unknown compression method";
  default: return "incorrect header";
  }
}

tsr_status tsr__gunzip_some(tsr__gunzip *z, tsr__gunzip_io *io)
{
  struct inflate_state *s = &z->state;
  uint32_t left = (uint32_t)(io->left < OFFER ? io->left : OFFER);
  uint32_t room = (uint32_t)(io->room < OFFER ? io->room : OFFER);
  s->next_in = (uint8_t *)io->in; /* which is only read */
  s->avail_in = left;
  s->next_out = io->out;
  s->avail_out = room;
  int code = isal_inflate(s);
  io->in += left - s->avail_in;
  io->left -= left - s->avail_in;
  io->out += room - s->avail_out;
  io->room -= room - s->avail_out;
  io->ended = s->block_state == ISAL_BLOCK_FINISH;
  /* Above zero are reasons to be asked again. */
  if (code >= 0) return TSR_OK;
  io->wrong = text_of(code);
  return TSR_EPARSE;
}

#else
#include <zlib.h>

struct tsr__gunzip {
  tsr__heap *heap;
  z_stream state; /* zlib keeps the rest in memory of its own */
};

tsr__gunzip *tsr__gunzip_open(tsr__heap *heap)
{
  tsr__gunzip *z = tsr__new(heap, sizeof *z);
  if (!z) return NULL;
  z->heap = heap;
  /* 16 asks zlib for gzip's header and checksum. */
  if (inflateInit2(&z->state, 16 + MAX_WBITS) == Z_OK) return z;
  tsr__del(heap, z, sizeof *z);
  return NULL;
}

void tsr__gunzip_close(tsr__gunzip *z)
{
  if (!z) return;
  inflateEnd(&z->state);
  tsr__del(z->heap, z, sizeof *z);
}

void tsr__gunzip_next(tsr__gunzip *z)
{
  inflateReset(&z->state); /* which fails only for a stream that is none */
}

tsr_status tsr__gunzip_some(tsr__gunzip *z, tsr__gunzip_io *io)
{
  z_stream *s = &z->state;
  uInt left = (uInt)(io->left < OFFER ? io->left : OFFER);
  uInt room = (uInt)(io->room < OFFER ? io->room : OFFER);
  s->next_in = (unsigned char *)io->in; /* which is only read */
  s->avail_in = left;
  s->next_out = io->out;
  s->avail_out = room;
  int code = inflate(s, Z_NO_FLUSH);
  io->in += left - s->avail_in;
  io->left -= left - s->avail_in;
  io->out += room - s->avail_out;
  io->room -= room - s->avail_out;
  io->ended = code == Z_STREAM_END;
  if (code == Z_MEM_ERROR) return TSR_ENOMEM;
  if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) return TSR_OK;
  io->wrong = s->msg ? s->msg : "a checksum differs";
  return TSR_EPARSE;
}

#endif
