/* Text out of gzip and zstd, a piece at a time.
 *
 * Invariant: a text counts as read only when its last member ended and its checksums agreed. The
 * libraries keep their own state in memory of their own. */
#include "io/file/unpack.h"
#include "io/file/files.h"
#include "io/file/gunzip.h"

#include <zstd.h>
#include <zstd_errors.h>

/* 256 MiB may always be unpacked, so that a small file is not refused for packing well. */
enum { INPUT = 256 << 10, LEAST = 256 << 20 };

struct tsr__unpack {
  tsr__packed from;
  tsr__gunzip *gzip;
  ZSTD_DStream *zstd;
  int64_t offset;  /* of the next stored byte to fetch */
  size_t at, have; /* of the input: what is not consumed yet */
  int64_t members; /* that have ended */
  int64_t made;    /* bytes of text */
  bool begun;      /* inside a member */
  bool ended;
  unsigned char input[INPUT];
};

tsr__packing tsr__packing_of(const char *bytes, size_t length)
{
  if (length >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0) return TSR__GZIP;
  if (length < 4) return TSR__PLAIN;
  /* Frames that readers skip may stand before the first one; there are 16 kinds of them, 0x50 to
   * 0x5f. */
  bool skipped = (bytes[0] & 0xf0) == 0x50 && memcmp(bytes + 1, "\x2a\x4d\x18", 3) == 0;
  return skipped || memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0 ? TSR__ZSTD : TSR__PLAIN;
}

int64_t tsr__unpack_limit(const tsr_runtime *rt, int64_t stored, int64_t asked)
{
  int64_t limit = asked, memory = rt->opts.memory_limit;
  /* A thousand times the stored size, more than text packs to: beyond, a bomb is likely. */
  if (limit <= 0 && __builtin_mul_overflow(stored, 1000, &limit)) limit = INT64_MAX;
  if (asked <= 0 && limit < LEAST) limit = LEAST;
  return memory > 0 && memory < limit ? memory : limit;
}

tsr__unpack *tsr__unpack_open(const tsr__packed *packed)
{
  tsr__unpack *unpack = tsr__new(packed->heap, sizeof *unpack);
  if (!unpack) return NULL;
  unpack->from = *packed;
  bool good;
  if (packed->packing == TSR__ZSTD) {
    unpack->zstd = ZSTD_createDStream();
    /* 2^31: archives made with a long window (zstd --long=31) can be read. */
    good = unpack->zstd &&
           !ZSTD_isError(ZSTD_DCtx_setParameter(unpack->zstd, ZSTD_d_windowLogMax, 31));
  } else {
    unpack->gzip = tsr__gunzip_open(packed->heap);
    good = unpack->gzip;
  }
  if (good) return unpack;
  tsr__unpack_close(unpack);
  return NULL;
}

void tsr__unpack_close(tsr__unpack *unpack)
{
  if (!unpack) return;
  if (unpack->zstd) ZSTD_freeDStream(unpack->zstd);
  tsr__gunzip_close(unpack->gzip);
  tsr__del(unpack->from.heap, unpack, sizeof *unpack);
}

int64_t tsr__unpack_guess(const tsr__unpack *unpack)
{
  return tsr__packed_guess(&unpack->from);
}

int64_t tsr__packed_guess(const tsr__packed *from)
{
  int64_t stored = from->stored, guess = stored * 4, most = stored * 64, got;
  if (from->packing == TSR__GZIP) {
    unsigned char tail[4];
    if (stored < 18 || from->read(from->user, (char *)tail, stored - 4, 4, &got) || got < 4)
      return guess;
    /* Size modulo 4 GiB, of the last member only: believed if the ratio is usual. */
    uint32_t size =
        tail[0] | (uint32_t)tail[1] << 8 | (uint32_t)tail[2] << 16 | (uint32_t)tail[3] << 24;
    if (size > stored / 2) guess = size;
  } else {
    char front[18];
    if (from->read(from->user, front, 0, 18, &got)) return guess;
    unsigned long long size = ZSTD_getFrameContentSize(front, (size_t)got);
    if (size != ZSTD_CONTENTSIZE_UNKNOWN && size != ZSTD_CONTENTSIZE_ERROR &&
        size < (unsigned long long)most)
      guess = (int64_t)size;
  }
  /* A frame may say anything: memory beyond 64 times the file is given only for bytes that came. */
  if (guess > most) guess = most;
  /* One more than is expected, so that the end shows without another round. */
  return (guess < from->limit ? guess : from->limit) + 1;
}

/* ---- input --------------------------------------------------------------------------------- */

/* Sees that there is input; false at the stored end, or with `*code` set. */
static bool fill(tsr__unpack *u, int *code)
{
  int64_t got, left = u->from.stored - u->offset;
  *code = 0;
  if (u->at < u->have) return true;
  *code =
      u->from.read(u->from.user, (char *)u->input, u->offset, left < INPUT ? left : INPUT, &got);
  if (*code) return false;
  u->offset += got;
  u->at = 0;
  u->have = (size_t)got;
  return got > 0;
}

static tsr_status damaged(const tsr__unpack *u, const char *why, tsr__error *error)
{
  return tsr__error_set(
      error, TSR_EPARSE,
      "%s: the %s data is damaged near byte %lld: %.80s; was the file copied whole?", u->from.path,
      u->zstd ? "zstd" : "gzip", (long long)(u->offset - (int64_t)(u->have - u->at)), why);
}

static tsr_status beyond(const tsr__unpack *u, tsr__error *error)
{
  return tsr__error_set(
      error, TSR_ENOMEM,
      "%s: its %lld bytes unpack to more than %lld; if the file is meant to be that large, raise "
      "the option unpack_limit, and .memory_limit if there is one",
      u->from.path, (long long)u->from.stored, (long long)u->from.limit);
}

static const char no_memory[] = "no memory";

/* ---- members --------------------------------------------------------------------------------- */

/* Unpacks what the input gives into to[0..room); moves on by `*made`. NULL, or what is wrong. */
static const char *gzip_step(tsr__unpack *u, char *to, size_t room, size_t *made)
{
  if (!u->begun) {
    /* Zeros may fill up the last block of what the file was stored on. */
    if (u->members && u->input[u->at] == 0) {
      u->at++;
      return NULL;
    }
    if (u->members) tsr__gunzip_next(u->gzip);
    u->begun = true;
  }
  tsr__gunzip_io io = {
    .in = u->input + u->at, .left = u->have - u->at, .out = (unsigned char *)to, .room = room
  };
  tsr_status status = tsr__gunzip_some(u->gzip, &io);
  u->at = u->have - io.left;
  *made = room - io.room;
  if (io.ended) u->begun = false, u->members++;
  if (status) return status == TSR_ENOMEM ? no_memory : io.wrong;
  return NULL;
}

static const char *zstd_step(tsr__unpack *u, char *to, size_t room, size_t *made)
{
  ZSTD_inBuffer in = { u->input, u->have, u->at };
  ZSTD_outBuffer out = { to, room, 0 };
  size_t code = ZSTD_decompressStream(u->zstd, &out, &in);
  u->at = in.pos;
  *made = out.pos;
  if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation) return no_memory;
  if (ZSTD_isError(code)) return ZSTD_getErrorName(code);
  /* zstd says 0 at a frame's end, else how much it would like next. The next call begins another
   * frame by itself. */
  u->begun = code != 0;
  return NULL;
}

tsr_status tsr__unpack_some(tsr__unpack *u, char *to, int64_t most, int64_t *got, tsr__error *error)
{
  int code = 0;
  *got = 0;
  while (*got < most && !u->ended) {
    size_t made = 0, room = (size_t)(most - *got);
    bool more = fill(u, &code);
    if (code) return tsr__file_error(u->from.path, "read", code, error);
    /* The reader gave nothing though bytes were stored: the file is shorter now. */
    if (!more && u->offset < u->from.stored)
      return tsr__file_shrunk(u->from.path, u->offset, u->from.stored, error);
    /* Between members, at the end of what is stored: this is the only good end. */
    if (!more && !u->begun) u->ended = true;
    if (u->ended) break;
    const char *wrong =
        u->zstd ? zstd_step(u, to + *got, room, &made) : gzip_step(u, to + *got, room, &made);
    if (wrong == no_memory)
      return tsr__error_set(error, TSR_ENOMEM, "%s: no memory to unpack the file", u->from.path);
    if (wrong) return damaged(u, wrong, error);
    *got += (int64_t)made;
    u->made += (int64_t)made;
    /* Asked after each step: what went too far is at most one step's room. */
    if (u->made > u->from.limit) return beyond(u, error);
    /* The input is used up inside a member. */
    if (!more && made == 0) return damaged(u, "the data is cut off", error);
  }
  return TSR_OK;
}
