/* The hashes of packed keys, whose words lie `stride` apart: a fixed one and a seeded one.
 *
 * Other processes and explanations know the owner device of a key, so that hash is fixed; an author
 * of keys may send them all to one device. No one else sees a key's slot in a table: the slot's
 * hash takes the runtime's seed, so no author can choose keys that collide in one slot. */
#ifndef TSR_KERNEL_KEY_HASH_H
#define TSR_KERNEL_KEY_HASH_H

#include "kernel/exact/exact.h"

/* One multiplication of 64 by 64 bits, both halves folded together. */
static inline uint64_t tsr__key_mix(uint64_t a, uint64_t b)
{
  tsr__u128 product = (tsr__u128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The fixed hash. All bits are good; a caller takes top bits for one choice, low bits for the
 * next. */
static inline uint64_t tsr__key_hash(const uint64_t *word, int64_t stride, int words)
{
  uint64_t hash =
      tsr__key_mix(word[0] ^ UINT64_C(0x6a09e667f3bcc909), UINT64_C(0x9e3779b97f4a7c15));
  for (int w = 1; w < words; w++)
    hash = tsr__key_mix(hash ^ word[w * stride] ^ UINT64_C(0xa54ff53a5f1d36f1),
                        UINT64_C(0xbb67ae8584caa73b));
  return hash;
}

/* A seed as two numbers: both factors of the folded products are unknown to an author of keys. */
typedef struct tsr__key_seed {
  uint64_t add, times;
} tsr__key_seed;

static inline tsr__key_seed tsr__key_seed_of(uint64_t seed)
{
  return (tsr__key_seed){
    seed, tsr__key_mix(seed ^ UINT64_C(0x6a09e667f3bcc909), UINT64_C(0xbb67ae8584caa73b)) | 1
  };
}

/* The seeded hash, for tables. Low bits are good for any seed; a rare seed gives keys in equal
 * steps uneven top bits, so a caller that needs top bits multiplies once more. */
static inline uint64_t tsr__key_place(tsr__key_seed seed, const uint64_t *word, int64_t stride,
                                      int words)
{
  uint64_t hash = tsr__key_mix(word[0] ^ seed.add, seed.times);
  for (int w = 1; w < words; w++)
    hash = tsr__key_mix(hash ^ word[w * stride] ^ seed.add, seed.times);
  return hash;
}

#endif
