/* Writing memory past the caches: what is not read again soon, and would be read first only to be
 * overwritten. */
#ifndef TSR_KERNEL_PUT_LINE_H
#define TSR_KERNEL_PUT_LINE_H

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

/* Lines are there for other threads behind it. */
static inline void tsr__put_done(void)
{
  _mm_sfence();
}
#else
static inline void tsr__put_line(void *to, const void *from, int bytes)
{
  memcpy(to, from, (size_t)bytes);
}

static inline void tsr__put_done(void)
{
}
#endif

#endif
