/* UTF-8, a character at a time. */
#ifndef TSR_BASE_UTF8_H
#define TSR_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whether bytes are all ASCII. Eight at a time: no branch in the loop, and one look at the end. */
static inline bool tsr__all_ascii(const char *at, size_t length)
{
  uint64_t all = 0, word;
  for (; length >= 8; at += 8, length -= 8) {
    memcpy(&word, at, 8);
    all |= word;
  }
  for (; length; at++, length--) all |= (unsigned char)*at;
  return !(all & UINT64_C(0x8080808080808080));
}

/* Reads the character at `text`, of which `length` > 0 bytes are left; the bytes it takes, or 0 for
 * what is none: overlong forms, surrogates, beyond U+10FFFF, what ends too early. */
static inline size_t tsr__utf8_read(const char *text, size_t length, uint32_t *out)
{
  static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
  const unsigned char *p = (const unsigned char *)text;
  if (p[0] < 0x80) {
    *out = p[0];
    return 1;
  }
  size_t size = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
  if (p[0] < 0xC0 || p[0] >= 0xF8 || size > length) return 0;
  uint32_t c = p[0] & (0xFFu >> (size + 1));
  for (size_t i = 1; i < size; i++) {
    if ((p[i] & 0xC0) != 0x80) return 0;
    c = c << 6 | (p[i] & 0x3Fu);
  }
  if (c < least[size] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return 0;
  *out = c;
  return size;
}

#endif
