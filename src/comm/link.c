/* A connection: frames in and out of a socket that never blocks.
 *
 *   in:   used up | a frame | a part of one |          out:   sent | to be sent |
 *                 ^ in_at                   ^ length               ^ out_at     ^ length
 *
 * Invariant: `in` holds at most one frame of `most` bytes and a chunk more; it is read further only
 * once what it holds was taken. Buffers that are used up and were large are given back. */
#include "comm/wire.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK = 16 << 10, ROUNDS = 64 };

void tsr__link_init(tsr__link *link, tsr__heap *heap, int fd, size_t most)
{
  *link = (tsr__link){ .fd = fd, .most = most };
  tsr__text_init(&link->in, heap);
  tsr__text_init(&link->out, heap);
}

void tsr__link_close(tsr__link *link)
{
  if (link->fd >= 0) close(link->fd);
  link->fd = -1;
  tsr__text_free(&link->in);
  tsr__text_free(&link->out);
  link->in_at = link->out_at = 0;
}

/* Drops what was used up.
 * The rest is moved to the front only when it is the smaller part, so each byte is moved a few
 * times at most. `failed` is kept when a buffer goes: it says that bytes were lost. */
static void compact(tsr__text *text, size_t *at)
{
  if (*at == text->length) {
    tsr__heap *heap = text->heap;
    bool failed = text->failed;
    text->length = 0;
    if (text->capacity > 4 * CHUNK) {
      tsr__text_free(text);
      tsr__text_init(text, heap);
      text->failed = failed;
    }
    *at = 0;
  } else if (*at > text->length / 2) {
    memmove(text->data, text->data + *at, text->length - *at);
    text->length -= *at;
    *at = 0;
  }
}

/* By a chunk on the stack: how much comes is not known before. A chunk that was not full says
 * that nothing is left now, and saves the call that would be told so. */
bool tsr__link_read(tsr__link *link)
{
  char chunk[CHUNK];
  compact(&link->in, &link->in_at);
  /* Nobody is listened to for ever: the others come after so many rounds. */
  for (int i = 0; i < ROUNDS; i++) {
    if (link->in.length - link->in_at > link->most + TSR__WIRE_HEAD) return true;
    ssize_t got = recv(link->fd, chunk, sizeof chunk, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (got <= 0) return false;
    tsr__text_put(&link->in, chunk, (size_t)got);
    if (link->in.failed) return false;
    if ((size_t)got < sizeof chunk) return true;
  }
  return true;
}

/* The packet's fields point into `in`; the next read may move that. */
int tsr__link_next(tsr__link *link, tsr__packet *out)
{
  if (link->fd < 0 || link->in.length == link->in_at) return 0;
  const uint8_t *at = (const uint8_t *)link->in.data + link->in_at;
  int64_t used = tsr__packet_next(at, link->in.length - link->in_at, link->most, out);
  if (used <= 0) return (int)used;
  link->in_at += (size_t)used;
  return 1;
}

/* Without MSG_NOSIGNAL a closed connection would end the program by SIGPIPE. */
bool tsr__link_write(tsr__link *link)
{
  while (link->out_at < link->out.length) {
    ssize_t sent = send(link->fd, link->out.data + link->out_at, link->out.length - link->out_at,
                        MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) return false;
    link->out_at += (size_t)sent;
  }
  compact(&link->out, &link->out_at);
  return !link->out.failed;
}

size_t tsr__link_waiting(const tsr__link *link)
{
  return link->out.length - link->out_at;
}
