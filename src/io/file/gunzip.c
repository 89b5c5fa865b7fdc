/* gzip by the plugin 'isal' where it is there, else by zlib.
 *
 * Both count what they are given in 32 bits, so that a step offers them a gibibyte at most. Both
 * give back what they looked at after the end of a member: the next one may begin there. */
#include "io/file/gunzip.h"

#include <string.h>
#include <zlib.h>

#include "io/file/gunzip_plugin.h"

enum { OFFER = 1 << 30 };

struct tsr__gunzip {
  tsr__heap *heap;
  const tsr__gunzip_calls *calls; /* NULL: zlib */
  z_stream zlib;                  /* which keeps the rest in memory of its own */
  max_align_t state[];            /* of the plugin */
};

/* NULL: the plugin is not there, or of another version. */
static const tsr__gunzip_calls *find_plugin(void)
{
  static const tsr__plugin_ask ask = { "isal", "tessera_isal", "the plugin 'isal'", NULL };
  tsr__error error = { .status = TSR_OK };
  const tsr__gunzip_calls *(*plugin)(void);
  void *symbol;
  if (tsr__plugin_load(&ask, &symbol, &error)) return NULL;
  /* ISO C has no cast from an object's address to a function's. */
  memcpy(&plugin, &symbol, sizeof plugin);
  const tsr__gunzip_calls *calls = plugin();
  return calls->version == TSR__GUNZIP_VERSION ? calls : NULL;
}

static size_t bytes_of(const tsr__gunzip_calls *calls)
{
  return sizeof(tsr__gunzip) + (calls ? calls->bytes : 0);
}

tsr__gunzip *tsr__gunzip_open(tsr__heap *heap)
{
  const tsr__gunzip_calls *calls = find_plugin();
  tsr__gunzip *z = tsr__new_raw(heap, bytes_of(calls));
  if (!z) return NULL;
  memset(z, 0, sizeof *z);
  z->heap = heap;
  z->calls = calls;
  if (calls) calls->begin(z->state);
  /* 16 asks zlib for gzip's header and checksum. */
  else if (inflateInit2(&z->zlib, 16 + MAX_WBITS) != Z_OK) {
    tsr__del(heap, z, bytes_of(calls));
    return NULL;
  }
  return z;
}

void tsr__gunzip_close(tsr__gunzip *z)
{
  if (!z) return;
  if (!z->calls) inflateEnd(&z->zlib);
  tsr__del(z->heap, z, bytes_of(z->calls));
}

void tsr__gunzip_next(tsr__gunzip *z)
{
  if (z->calls) z->calls->next(z->state);
  else inflateReset(&z->zlib); /* which fails only for a stream that is none */
}

static tsr_status zlib_some(z_stream *s, tsr__gunzip_step *step, const char **wrong)
{
  s->next_in = (unsigned char *)step->in; /* which is only read */
  s->avail_in = step->left;
  s->next_out = step->out;
  s->avail_out = step->room;
  int code = inflate(s, Z_NO_FLUSH);
  step->in = s->next_in;
  step->left = s->avail_in;
  step->out = s->next_out;
  step->room = s->avail_out;
  step->ended = code == Z_STREAM_END;
  if (code == Z_MEM_ERROR) return TSR_ENOMEM;
  if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) return TSR_OK;
  *wrong = s->msg ? s->msg : "a checksum differs";
  return TSR_EPARSE;
}

tsr_status tsr__gunzip_some(tsr__gunzip *z, tsr__gunzip_io *io)
{
  uint32_t left = (uint32_t)(io->left < OFFER ? io->left : OFFER);
  uint32_t room = (uint32_t)(io->room < OFFER ? io->room : OFFER);
  tsr__gunzip_step step = { io->in, left, io->out, room, false };
  tsr_status status = TSR_OK;
  if (!z->calls) status = zlib_some(&z->zlib, &step, &io->wrong);
  else if ((io->wrong = z->calls->some(z->state, &step))) status = TSR_EPARSE;
  io->in = step.in;
  io->left -= left - step.left;
  io->out = step.out;
  io->room -= room - step.room;
  io->ended = step.ended;
  return status;
}
