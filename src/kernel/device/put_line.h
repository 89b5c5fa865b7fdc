/* Writing memory past the caches: for results that are not read again soon, whose lines would be
 * read only to be overwritten. */
#ifndef TSR_KERNEL_PUT_LINE_H
#define TSR_KERNEL_PUT_LINE_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>

/* `bytes`: a multiple of 16, and so are both places. */
static inline void tsr__put_line(void *to, const void *from, int bytes)
{
  for (int i = 0; i < bytes; i += 16)
    _mm_stream_si128((__m128i *)(void *)((char *)to + i),
                     _mm_load_si128((const __m128i *)(const void *)((const char *)from + i)));
}

/* Any number of bytes, from and to anywhere; few of them by way of the caches. */
static inline void tsr__put_run(void *to, const void *from, size_t bytes)
{
  enum { FEW = 256 };
  char *at = to;
  const char *next = from;
  size_t head = -(uintptr_t)at % 16;
  if (bytes < FEW) {
    memcpy(at, next, bytes);
    return;
  }
  memcpy(at, next, head);
  for (bytes -= head, at += head, next += head; bytes >= 16; bytes -= 16, at += 16, next += 16)
    _mm_stream_si128((__m128i *)(void *)at, _mm_loadu_si128((const __m128i *)(const void *)next));
  memcpy(at, next, bytes);
}

/* Other threads see the lines after this call. */
static inline void tsr__put_done(void)
{
  _mm_sfence();
}
#else
static inline void tsr__put_run(void *to, const void *from, size_t bytes)
{
  memcpy(to, from, bytes);
}

static inline void tsr__put_line(void *to, const void *from, int bytes)
{
  memcpy(to, from, (size_t)bytes);
}

static inline void tsr__put_done(void)
{
}
#endif

#endif
