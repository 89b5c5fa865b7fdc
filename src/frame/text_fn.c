/* What the functions of expressions do to one text. Texts are UTF-8 already, so code points are
 * found by their first bytes. Letters change case by Unicode's simple mappings (one character for
 * one) in Latin, Greek, Cyrillic and Armenian; other scripts stay as they are. */
#include "frame/functions.h"

/* ---- code points ------------------------------------------------------------------------- */

static bool continues(char byte)
{
  return ((unsigned char)byte & 0xc0) == 0x80;
}

int64_t tsr__text_points(tsr__bytes text)
{
  int64_t points = 0;
  for (int64_t i = 0; i < text.length; i++) points += !continues(text.at[i]);
  return points;
}

/* The byte where a code point begins; the length for those beyond. */
static int64_t byte_of(tsr__bytes text, int64_t point)
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

/* Letters that lie `step` apart (capital first), or in turns for step 1. */
typedef struct range {
  uint16_t first, last; /* capitals */
  uint16_t step;
} range;

static const range ranges[] = {
  { 'A', 'Z', 32 },       { 0xc0, 0xd6, 32 },   { 0xd8, 0xde, 32 },    { 0x100, 0x12e, 1 },
  { 0x132, 0x136, 1 },    { 0x139, 0x147, 1 },  { 0x14a, 0x176, 1 },   { 0x179, 0x17d, 1 },
  { 0x386, 0x386, 38 },   { 0x388, 0x38a, 37 }, { 0x38c, 0x38c, 64 },  { 0x38e, 0x38f, 63 },
  { 0x391, 0x3a1, 32 },   { 0x3a3, 0x3ab, 32 }, { 0x400, 0x40f, 80 },  { 0x410, 0x42f, 32 },
  { 0x460, 0x480, 1 },    { 0x48a, 0x4be, 1 },  { 0x4c0, 0x4c0, 15 },  { 0x4c1, 0x4cd, 1 },
  { 0x4d0, 0x52e, 1 },    { 0x531, 0x556, 48 }, { 0x1e00, 0x1e94, 1 }, { 0x1ea0, 0x1efe, 1 },
  { 0xff21, 0xff3a, 32 },
};
enum { RANGES = sizeof ranges / sizeof *ranges };

static uint32_t lower(uint32_t c)
{
  if (c == 0x130) return 'i';
  if (c == 0x178) return 0xff;
  if (c == 0x1e9e) return 0xdf;
  for (int i = 0; i < RANGES && c >= ranges[i].first; i++)
    if (c <= ranges[i].last && (ranges[i].step > 1 || !((c - ranges[i].first) & 1)))
      return c + ranges[i].step;
  return c;
}

static uint32_t upper(uint32_t c)
{
  if (c == 0xb5) return 0x39c;
  if (c == 0xff) return 0x178;
  if (c == 0x131) return 'I';
  if (c == 0x17f) return 'S';
  if (c == 0x3c2) return 0x3a3;
  for (int i = 0; i < RANGES; i++) {
    uint32_t capital = c - ranges[i].step;
    if (capital < ranges[i].first || capital > ranges[i].last || c < ranges[i].step) continue;
    if (ranges[i].step > 1 || !((capital - ranges[i].first) & 1)) return capital;
  }
  return c;
}

/* The code point at `*i` and the one after; the text is valid. */
static uint32_t decode(tsr__bytes text, int64_t *i)
{
  const unsigned char *at = (const unsigned char *)text.at + *i;
  int more = at[0] < 0x80 ? 0 : at[0] < 0xe0 ? 1 : at[0] < 0xf0 ? 2 : 3;
  uint32_t c = more ? at[0] & (0x3fu >> more) : at[0];
  for (int k = 1; k <= more; k++) c = c << 6 | (at[k] & 0x3fu);
  *i += more + 1;
  return c;
}

static void encode(uint32_t c, tsr__text *out)
{
  char bytes[4];
  int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  for (int k = more; k > 0; k--, c >>= 6) bytes[k] = (char)(0x80 | (c & 0x3f));
  bytes[0] = (char)(more ? (0xff00u >> (more + 1) & 0xff) | c : c);
  tsr__text_put(out, bytes, (size_t)more + 1);
}

static void change_case(bool to_upper, tsr__bytes text, tsr__text *out)
{
  for (int64_t i = 0; i < text.length;) {
    uint32_t c = decode(text, &i);
    encode(to_upper ? upper(c) : lower(c), out);
  }
}

/* ---- searching --------------------------------------------------------------------------- */

/* Where `b` first stands in `a` from `from` on, or -1. */
static int64_t find(tsr__bytes a, tsr__bytes b, int64_t from)
{
  if (!b.length) return from;
  if (a.length - from < b.length) return -1;
  const char *found = memmem(a.at + from, (size_t)(a.length - from), b.at, (size_t)b.length);
  return found ? found - a.at : -1;
}

bool tsr__text_test(int fn, tsr__bytes a, tsr__bytes b)
{
  if (b.length > a.length) return false;
  if (!b.length) return true;
  if (fn == TSR__F_CONTAINS) return find(a, b, 0) >= 0;
  int64_t at = fn == TSR__F_STARTS_WITH ? 0 : a.length - b.length;
  return !memcmp(a.at + at, b.at, (size_t)b.length);
}

static void replace(tsr__bytes text, tsr__bytes old, tsr__bytes new, tsr__text *out)
{
  int64_t at = 0, next;
  while ((next = find(text, old, at)) >= 0) {
    tsr__text_put(out, text.at + at, (size_t)(next - at));
    tsr__text_put(out, new.at, (size_t) new.length);
    at = next + old.length;
  }
  tsr__text_put(out, text.at + at, (size_t)(text.length - at));
}

/* ---- parts ------------------------------------------------------------------------------- */

/* Code points start .. start + length - 1, those that there are; from the end where start < 0. */
static void slice(tsr__bytes text, int64_t start, int64_t length, tsr__text *out)
{
  int64_t points = tsr__text_points(text), end;
  if (start < 0) start += points;
  if (start > points) start = points;
  if (__builtin_add_overflow(start, length, &end) || end > points) end = points;
  if (start < 0) start = 0;
  if (end <= start) return;
  int64_t from = byte_of(text, start);
  tsr__bytes rest = { text.at + from, text.length - from };
  tsr__text_put(out, rest.at, (size_t)byte_of(rest, end - start));
}

static bool blank(char byte)
{
  return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static tsr__bytes trimmed(tsr__bytes text)
{
  while (text.length && blank(text.at[0])) text.at++, text.length--;
  while (text.length && blank(text.at[text.length - 1])) text.length--;
  return text;
}

static tsr__bytes literal(const tsr__expr *expr)
{
  return (tsr__bytes){ expr->text, expr->length };
}

void tsr__text_fn(const tsr__expr *expr, tsr__bytes a, tsr__bytes b, tsr__text *out)
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
