/* What the functions of expressions do to one text. Texts are UTF-8 already, so code points are
 * found by their first bytes. Letters change case by Unicode's simple mappings, one character for
 * one (letters.c). */
#include "frame/lower/functions.h"

#include "base/utf8.h"

/* ---- code points ------------------------------------------------------------------------- */

static bool continues(char byte)
{
  return ((unsigned char)byte & 0xc0) == 0x80;
}

int64_t tsr__text_points(tsr__text_view text)
{
  int64_t points = 0;
  for (int64_t i = 0; i < text.length; i++) points += !continues(text.at[i]);
  return points;
}

/* The byte where a code point begins; the length for those beyond. Texts are walked from the front:
 * an index of code points would cost more than the few that ask. */
static int64_t byte_of(tsr__text_view text, int64_t point)
{
  int64_t i = 0;
  while (i < text.length && point > 0) {
    i++;
    while (i < text.length && continues(text.at[i])) i++;
    point--;
  }
  return i;
}

/* ---- case -------------------------------------------------------------------------------- */

static void encode(uint32_t c, tsr__text *out)
{
  char bytes[4];
  int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  for (int k = more; k > 0; k--, c >>= 6) bytes[k] = (char)(0x80 | (c & 0x3f));
  /* 0xc0, 0xe0, 0xf0: as many leading ones as the character has bytes. */
  bytes[0] = (char)(more ? (0xff00u >> (more + 1) & 0xff) | c : c);
  tsr__text_put(out, bytes, (size_t)more + 1);
}

/* How many of a text's first bytes are ASCII, by eights. */
static int64_t ascii_bytes(tsr__text_view text)
{
  int64_t i = 0;
  for (uint64_t word; text.length - i >= 8; i += 8) {
    memcpy(&word, text.at + i, 8);
    if (word & UINT64_C(0x8080808080808080)) break;
  }
  while (i < text.length && !(text.at[i] & 0x80)) i++;
  return i;
}

static void change_case(bool to_upper, tsr__text_view text, tsr__text *out)
{
  uint32_t c = 0;
  int64_t ascii = ascii_bytes(text);
  size_t begin = out->length;
  char first = to_upper ? 'a' : 'A';
  /* Most texts are ASCII as a whole: copied, then changed in place. */
  tsr__text_put(out, text.at, (size_t)ascii);
  char *to = out->data + begin;
  for (int64_t i = 0; i < ascii && !out->failed; i++)
    to[i] = (char)(to[i] ^ ((unsigned char)(to[i] - first) < 26 ? 0x20 : 0));
  for (int64_t i = ascii; i < text.length;) {
    size_t size = tsr__utf8_read(text.at + i, (size_t)(text.length - i), &c);
    i += size ? (int64_t)size : 1; /* texts were checked when they came in */
    encode(to_upper ? tsr__letter_upper(c) : tsr__letter_lower(c), out);
  }
}

/* ---- searching --------------------------------------------------------------------------- */

/* Where `b` first stands in `a` from `from` on, or -1. */
static int64_t find(tsr__text_view a, tsr__text_view b, int64_t from)
{
  if (!b.length) return from;
  if (a.length - from < b.length) return -1;
  const char *found = memmem(a.at + from, (size_t)(a.length - from), b.at, (size_t)b.length);
  return found ? found - a.at : -1;
}

/* By bytes: in UTF-8 no character begins within another, so what is found is found at
 * characters. */
bool tsr__text_test(int fn, tsr__text_view a, tsr__text_view b)
{
  /* A longer text stands in no shorter one; the empty one stands in all. */
  if (b.length > a.length) return false;
  if (!b.length) return true;
  if (fn == TSR__F_CONTAINS) return find(a, b, 0) >= 0;
  int64_t at = fn == TSR__F_STARTS_WITH ? 0 : a.length - b.length;
  return !memcmp(a.at + at, b.at, (size_t)b.length);
}

static void replace(tsr__text_view text, tsr__text_view old, tsr__text_view new, tsr__text *out)
{
  int64_t at = 0, next;
  while ((next = find(text, old, at)) >= 0) {
    tsr__text_put(out, text.at + at, (size_t)(next - at));
    tsr__text_put(out, new.at, (size_t) new.length);
    /* Behind what was replaced: the new text is not searched. */
    at = next + old.length;
  }
  tsr__text_put(out, text.at + at, (size_t)(text.length - at));
}

/* ---- parts ------------------------------------------------------------------------------- */

/* Code points start .. start + length - 1, those that there are; from the end where start < 0.
 *
 *   slice("grüne", -3, 2)     points 5, start 2, end 4: "ün" */
static void slice(tsr__text_view text, int64_t start, int64_t length, tsr__text *out)
{
  int64_t points = tsr__text_points(text), end;
  if (start < 0) start += points;
  if (start > points) start = points;
  /* A start so far before the beginning that the end is before it, too, gives nothing. */
  if (__builtin_add_overflow(start, length, &end) || end > points) end = points;
  if (start < 0) start = 0;
  if (end <= start) return;
  int64_t from = byte_of(text, start);
  tsr__text_view rest = { text.at + from, text.length - from };
  tsr__text_put(out, rest.at, (size_t)byte_of(rest, end - start));
}

static bool blank(char byte)
{
  return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static tsr__text_view trimmed(tsr__text_view text)
{
  while (text.length && blank(text.at[0])) text.at++, text.length--;
  while (text.length && blank(text.at[text.length - 1])) text.length--;
  return text;
}

static tsr__text_view literal(const tsr__expr *expr)
{
  return (tsr__text_view){ expr->text, expr->length };
}

void tsr__text_fn(const tsr__expr *expr, tsr__text_view a, tsr__text_view b, tsr__text *out)
{
  switch (expr->op) {
  case TSR__F_LOWER:
  case TSR__F_UPPER: change_case(expr->op == TSR__F_UPPER, a, out); break;
  case TSR__F_TRIM:
    a = trimmed(a);
    tsr__text_put(out, a.at, (size_t)a.length);
    break;
  case TSR__F_REPLACE: replace(a, literal(expr->arg[1]), literal(expr->arg[2]), out); break;
  case TSR__F_SLICE:
    slice(a, expr->arg[1]->i, expr->count > 2 ? expr->arg[2]->i : INT64_MAX / 2, out);
    break;
  default: tsr__text_put(out, a.at, (size_t)a.length); tsr__text_put(out, b.at, (size_t)b.length);
  }
}
