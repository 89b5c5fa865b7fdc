/* Elements that lie apart, put one after the other. */
#ifndef TSR_KERNEL_SPACED_H
#define TSR_KERNEL_SPACED_H

#include <stddef.h>
#include <stdint.h>

#define TSR__SPACED(T)                                                        \
  for (int64_t i = 0; i < n; i++) ((T *)to)[i] = ((const T *)from)[i * step]; \
  break;

/* n of them, `step` elements of 1, 2, 4 or 8 bytes apart; a step of 0 repeats one. */
static inline void tsr__put_spaced(void *to, const void *from, int64_t n, int64_t step, size_t size)
{
  switch (size) {
  case 1: TSR__SPACED(int8_t)
  case 2: TSR__SPACED(int16_t)
  case 4: TSR__SPACED(int32_t)
  default: TSR__SPACED(int64_t)
  }
}

#endif
