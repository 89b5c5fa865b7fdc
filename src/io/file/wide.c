/* UTF-16 and UTF-32 to UTF-8: two walks along the text, one to find how long it becomes. */
#include "io/file/wide.h"

tsr__wide tsr__wide_of(const char *bytes, size_t length)
{
  static const struct {
    const char *mark;
    tsr__wide wide;
  } marks[] = { { "\xff\xfe\0\0", { 4, false, 4 } }, /* before UTF-16's, which begins it */
                { "\0\0\xfe\xff", { 4, true, 4 } },
                { "\xff\xfe", { 2, false, 2 } },
                { "\xfe\xff", { 2, true, 2 } } };
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    size_t mark = (size_t)marks[i].wide.mark;
    if (length >= mark && !memcmp(bytes, marks[i].mark, mark)) return marks[i].wide;
  }
  /* Eight bytes of which every other is 0: an ASCII text of four characters. */
  for (int big = 0; big < 2 && length >= 8; big++) {
    bool good = true;
    for (int i = 0; i < 8; i++) good &= (bytes[i] == 0) == (i % 2 != big);
    if (good) return (tsr__wide){ 2, big, 0 };
  }
  return (tsr__wide){ 0 };
}

static uint32_t unit_at(const unsigned char *at, tsr__wide wide)
{
  uint32_t unit = 0;
  for (int i = 0; i < wide.width; i++)
    unit |= (uint32_t)at[i] << 8 * (wide.big ? wide.width - 1 - i : i);
  return unit;
}

/* The character at `at`, of which `left` bytes are there; how many it takes, 0: it is none. */
static int64_t read_wide(const unsigned char *at, int64_t left, tsr__wide wide, uint32_t *out)
{
  if (left < wide.width) return 0;
  uint32_t unit = *out = unit_at(at, wide);
  if (unit < 0xD800 || (unit >= 0xE000 && unit <= 0x10FFFF)) return wide.width;
  /* Half of a pair, whose other half follows. */
  if (wide.width == 4 || unit >= 0xDC00 || left < 4) return 0;
  uint32_t low = unit_at(at + 2, wide);
  if (low < 0xDC00 || low >= 0xE000) return 0;
  *out = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  return 4;
}

/* The bytes of a character in UTF-8. */
static int put_utf8(uint32_t c, char *out)
{
  static const unsigned char first[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
  int size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (int i = size - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
  out[0] = (char)(first[size] | c);
  return size;
}

/* To `out`, NULL: only counted. How many bytes, or -1 with the place of what is no character. */
static int64_t convert(const tsr__loaded *bytes, tsr__wide wide, char *out, int64_t *at)
{
  int64_t made = 0;
  char one[4];
  uint32_t c;
  *at = wide.mark;
  for (int64_t n; *at < bytes->size; *at += n) {
    n = read_wide((const unsigned char *)bytes->data + *at, bytes->size - *at, wide, &c);
    if (!n) return -1;
    made += put_utf8(c, out ? out + made : one);
  }
  return made;
}

tsr_status tsr__wide_to_utf8(const char *path, tsr__wide wide, tsr__loaded *bytes,
                             tsr__error *error)
{
  int64_t at, size = convert(bytes, wide, NULL, &at);
  if (size < 0)
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: byte %lld is not UTF-%d text, but the file begins as such text",
                          path, (long long)at, 8 * wide.width);
  tsr__loaded made = { .heap = bytes->heap,
                       .size = size,
                       .room = tsr__whole_pages((size_t)size + 1) };
  made.data = tsr__new_once(made.heap, made.room);
  if (!made.data)
    return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for its %lld bytes in UTF-8", path,
                          (long long)size);
  convert(bytes, wide, made.data, &at);
  tsr__loaded_free(bytes);
  *bytes = made;
  return TSR_OK;
}
