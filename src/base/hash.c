/* A 64-bit hash of bytes for plan keys and dictionaries: 16 bytes a step, each step one
 * 64x64->128 multiply whose halves are folded together. Both factors depend on the seed, so that no
 * text can make one of them 0 without knowing it.
 *
 * Invariant: the value depends on bytes, length and seed only (bytes are read in little-endian
 * order), so processes agree on it.
 *
 *   32 bytes a round, two lanes | the lanes folded | 16 a step | what is left, and the length
 */
#include "base/base.h"

__extension__ typedef unsigned __int128 wide;

/* Odd constants with about half of their bits set, from the fractional parts of square roots. */
#define K0 UINT64_C(0x6a09e667f3bcc909)
#define K1 UINT64_C(0xbb67ae8584caa73b)
#define K2 UINT64_C(0x3c6ef372fe94f82b)
#define K3 UINT64_C(0xa54ff53a5f1d36f1)

/* The upper half depends on the high bits of both, the lower one on the low ones, their exclusive
 * or on all. It is 0 where a factor is, which the secret keeps strangers from choosing. */
static inline uint64_t mix(uint64_t a, uint64_t b)
{
  wide product = (wide)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t load8(const unsigned char *p)
{
  uint64_t value;
  memcpy(&value, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap64(value);
#endif
  return value;
}

/* Byte by byte, not to read beyond the end. */
static inline uint64_t load_rest(const unsigned char *p, size_t length)
{
  uint64_t value = 0;
  for (size_t i = 0; i < length; i++) value |= (uint64_t)p[i] << (8 * i);
  return value;
}

/* Two lanes side by side hide the multiplier's latency on long inputs. */
static const unsigned char *mix_long(const unsigned char *p, size_t *length, uint64_t *state)
{
  /* Both factors have something of the seed in them: `state` begins as the secret. */
  uint64_t secret = *state, lane = secret ^ K3;
  while (*length > 32) {
    *state = mix(load8(p) ^ secret ^ K1, load8(p + 8) ^ *state);
    lane = mix(load8(p + 16) ^ secret ^ K2, load8(p + 24) ^ lane);
    p += 32;
    *length -= 32;
  }
  *state ^= lane;
  return p;
}

uint64_t tsr__hash(const void *data, size_t length, uint64_t seed)
{
  const unsigned char *p = data;
  uint64_t secret = mix(seed ^ K0, K1), state = secret;
  size_t rest = length;
  if (rest > 32) p = mix_long(p, &rest, &state);
  while (rest >= 16) {
    state = mix(load8(p) ^ secret ^ K1, load8(p + 8) ^ state);
    p += 16;
    rest -= 16;
  }
  uint64_t a = 0, b = 0;
  if (rest >= 8) {
    a = load8(p);
    b = load_rest(p + 8, rest - 8);
  } else if (rest) {
    a = load_rest(p, rest);
  }
  state = mix(a ^ secret ^ K2, b ^ state);
  /* The length, so that zeros behind a text make another one. */
  return mix(state ^ K3, (uint64_t)length ^ K1);
}
