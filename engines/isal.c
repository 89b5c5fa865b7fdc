/* The plugin 'isal': members of gzip, unpacked by ISA-L. */
#include <isa-l/igzip_lib.h>

#include "io/file/gunzip_plugin.h"

static void begin(void *state)
{
  struct inflate_state *s = state;
  isal_inflate_init(s);
  s->crc_flag = ISAL_GZIP;
}

static void next(void *state)
{
  /* The flag and what was not read yet stay. */
  isal_inflate_reset(state);
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

static const char *some(void *state, tsr__gunzip_step *step)
{
  struct inflate_state *s = state;
  s->next_in = (uint8_t *)step->in; /* which is only read */
  s->avail_in = step->left;
  s->next_out = step->out;
  s->avail_out = step->room;
  int code = isal_inflate(s);
  step->in += step->left - s->avail_in;
  step->left = s->avail_in;
  step->out += step->room - s->avail_out;
  step->room = s->avail_out;
  step->ended = s->block_state == ISAL_BLOCK_FINISH;
  /* Codes above zero ask for more input or room. */
  return code < 0 ? text_of(code) : NULL;
}

__attribute__((visibility("default"))) const tsr__gunzip_calls *tessera_isal(void)
{
  static const tsr__gunzip_calls calls = {
    TSR__GUNZIP_VERSION, sizeof(struct inflate_state), begin, next, some,
  };
  return &calls;
}
