/* The hash of a packed key: equal on all devices and in all runs, so that it may say where a key goes.
 * Not for hostile keys. */
#ifndef TSR_KERNEL_KEY_HASH_H
#define TSR_KERNEL_KEY_HASH_H

#include "kernel/exact.h"

/* One multiplication of 64 by 64 bits, both halves folded together. */
static inline uint64_t tsr__key_mix(uint64_t a, uint64_t b)
{
  tsr__u128 product = (tsr__u128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Of a key whose words lie `stride` apart. All bits are good; who takes top bits for one choice takes
 * low ones for the next. */
static inline uint64_t tsr__key_hash(const uint64_t *word, int64_t stride, int words)
{
  uint64_t hash =
      tsr__key_mix(word[0] ^ UINT64_C(0x6a09e667f3bcc909), UINT64_C(0x9e3779b97f4a7c15));
  for (int w = 1; w < words; w++)
    hash = tsr__key_mix(hash ^ word[w * stride] ^ UINT64_C(0xa54ff53a5f1d36f1),
                        UINT64_C(0xbb67ae8584caa73b));
  return hash;
}

#endif
