/* Text: a builder that grows, widths on a terminal, near names.
 *
 * Invariant of the builder: while `data` is not NULL, data[length] is '\0' and length is below
 * capacity; after a refusal `failed` stays set and the text so far remains valid. */
#include "base/base.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the builder ---- */

void tsr__text_init(tsr__text *text, tsr__heap *heap)
{
  *text = (tsr__text){ .heap = heap };
}

void tsr__text_free(tsr__text *text)
{
  if (text->heap) tsr__del(text->heap, text->data, text->capacity);
  else free(text->data);
  *text = (tsr__text){ .heap = text->heap };
}

/* Makes room for `more` bytes and the NUL. */
static bool reserve(tsr__text *text, size_t more)
{
  if (text->failed || more >= SIZE_MAX - text->length) {
    text->failed = true;
    return false;
  }
  size_t need = text->length + more + 1;
  if (need <= text->capacity) return true;
  /* A text without a heap (hints of messages) is malloc's, and counted nowhere. */
  if (text->heap) {
    /* A line; most texts are no longer. */
    if (need < 120) need = 120;
    text->failed = !tsr__grow(text->heap, (void **)&text->data, &text->capacity, need, 1);
    return !text->failed;
  }
  /* Doubled, so that adding piece by piece costs as much as the text is long. */
  size_t wanted = text->capacity > SIZE_MAX / 4 ? need : text->capacity * 2;
  if (wanted < need) wanted = need < 120 ? 120 : need;
  char *grown = realloc(text->data, wanted);
  text->failed = !grown;
  if (!grown) return false;
  text->data = grown;
  text->capacity = wanted;
  return true;
}

void tsr__text_put(tsr__text *text, const char *bytes, size_t length)
{
  if (!reserve(text, length)) return;
  if (length) memcpy(text->data + text->length, bytes, length);
  text->length += length;
  text->data[text->length] = '\0';
}

/* Written where there is room at once: most texts are formatted once only. */
static void add(tsr__text *text, const char *format, va_list args)
{
  /* A list of arguments can be walked once, and a text that does not fit is written twice. */
  va_list again;
  va_copy(again, args);
  /* Nothing is written at all once it failed: `length` stays what it was. */
  size_t room = text->failed ? 0 : text->capacity - text->length;
  int length = vsnprintf(room ? text->data + text->length : NULL, room, format, args);
  if (length < 0) {
    text->failed = true;
  } else if ((size_t)length < room) {
    text->length += (size_t)length;
  } else if (reserve(text, (size_t)length)) {
    vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  if (text->data) text->data[text->length] = '\0'; /* a refused text leaves no half of itself */
  va_end(again);
}

/* What has nothing to fill in is put as it is: forms of arguments are written at each call. */
void tsr__text_add(tsr__text *text, const char *format, ...)
{
  va_list args;
  if (!strchr(format, '%')) {
    tsr__text_put(text, format, strlen(format));
    return;
  }
  va_start(args, format);
  add(text, format, args);
  va_end(args);
}

/* Controls become '?', so no other escape is needed than that of quotes and backslashes. */
void tsr__text_json(tsr__text *out, const char *text)
{
  size_t length = strlen(text);
  tsr__text_put(out, "\"", 1);
  for (size_t i = 0; i < length;) {
    size_t bad = tsr__text_control(text + i, length - i);
    bool quoted = text[i] == '"' || text[i] == '\\';
    if (quoted) tsr__text_put(out, "\\", 1);
    tsr__text_put(out, bad ? "?" : text + i, 1);
    i += bad ? bad : 1;
  }
  tsr__text_put(out, "\"", 1);
}

void tsr__text_pad(tsr__text *text, char fill, int count)
{
  if (count <= 0 || !reserve(text, (size_t)count)) return;
  memset(text->data + text->length, fill, (size_t)count);
  text->length += (size_t)count;
  text->data[text->length] = '\0';
}

/* Words, of what is not finite, have no point to be looked for. */
int tsr__text_decimals(char *out, size_t size, double value, char form, int after)
{
  int length = form == 'e' ? snprintf(out, size, "%.*e", after, value)
                           : snprintf(out, size, "%.*f", after, value);
  if (!isfinite(value)) return length;
  /* printf writes the point of the user's locale, and our numbers do not depend on it. Setting
   * the locale would be a global of theirs. */
  char *point = out + strspn(out, "-0123456789");
  size_t bytes = strcspn(point, "0123456789e"); /* the locale's point, a comma or several bytes */
  if (!bytes) return length;
  *point = '.';
  memmove(point + 1, point + bytes, strlen(point + bytes) + 1);
  return length - (int)bytes + 1;
}

const char *tsr__text_get(const tsr__text *text)
{
  return text->data ? text->data : "";
}

const char *tsr__site_file(const char *site)
{
  const char *slash = site ? strrchr(site, '/') : NULL;
  return slash ? slash + 1 : site ? site : "";
}

/* ---- widths ---- */

typedef struct range {
  uint32_t first, last;
} range;

/* Characters that take no column of their own: combining marks, joiners, selectors. From Unicode's
 * combining marks and format characters, as far as terminals agree on them. */
static const range zero_width[] = {
  { 0x0300, 0x036F },   { 0x0483, 0x0489 }, { 0x0591, 0x05BD }, { 0x05BF, 0x05BF },
  { 0x05C1, 0x05C2 },   { 0x05C4, 0x05C5 }, { 0x0610, 0x061A }, { 0x064B, 0x065F },
  { 0x0670, 0x0670 },   { 0x06D6, 0x06DC }, { 0x06DF, 0x06E4 }, { 0x06E7, 0x06E8 },
  { 0x06EA, 0x06ED },   { 0x0900, 0x0902 }, { 0x093C, 0x093C }, { 0x0941, 0x0948 },
  { 0x094D, 0x094D },   { 0x0E31, 0x0E31 }, { 0x0E34, 0x0E3A }, { 0x0E47, 0x0E4E },
  { 0x1160, 0x11FF },   { 0x1AB0, 0x1AFF }, { 0x1DC0, 0x1DFF }, { 0x200B, 0x200F },
  { 0x202A, 0x202E },   { 0x2060, 0x2064 }, { 0x20D0, 0x20F0 }, { 0x302A, 0x302D },
  { 0x3099, 0x309A },   { 0xFE00, 0xFE0F }, { 0xFE20, 0xFE2F }, { 0xFEFF, 0xFEFF },
  { 0xE0100, 0xE01EF },
};

/* Characters of two columns: East Asian wide and full-width forms, emoji. */
static const range double_width[] = {
  { 0x1100, 0x115F },   { 0x231A, 0x231B },   { 0x2329, 0x232A },   { 0x23E9, 0x23EC },
  { 0x25FD, 0x25FE },   { 0x2614, 0x2615 },   { 0x2648, 0x2653 },   { 0x26AA, 0x26AB },
  { 0x26BD, 0x26BE },   { 0x26C4, 0x26C5 },   { 0x2705, 0x2705 },   { 0x270A, 0x270B },
  { 0x2728, 0x2728 },   { 0x274C, 0x274C },   { 0x2753, 0x2755 },   { 0x2795, 0x2797 },
  { 0x2B1B, 0x2B1C },   { 0x2B50, 0x2B50 },   { 0x2E80, 0x303E },   { 0x3041, 0x33FF },
  { 0x3400, 0x4DBF },   { 0x4E00, 0xA4CF },   { 0xA960, 0xA97F },   { 0xAC00, 0xD7A3 },
  { 0xF900, 0xFAFF },   { 0xFE30, 0xFE6F },   { 0xFF00, 0xFF60 },   { 0xFFE0, 0xFFE6 },
  { 0x1F300, 0x1F64F }, { 0x1F680, 0x1F6FF }, { 0x1F900, 0x1FAFF }, { 0x20000, 0x3FFFD },
};

static bool in_ranges(const range *ranges, size_t count, uint32_t c)
{
  /* The first range that does not end before c; ranges ascend and do not overlap. */
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (c > ranges[middle].last) low = middle + 1;
    else high = middle;
  }
  return low < count && c >= ranges[low].first;
}

/* Characters beyond ASCII that steer what shows them: C1 controls, separators of lines, and those
 * that turn the direction of what follows. */
static const range steering[] = {
  { 0x80, 0x9F }, { 0x2028, 0x202E }, { 0x2066, 0x206F }, { 0xFFF9, 0xFFFB }
};

size_t tsr__text_control(const char *text, size_t length)
{
  uint32_t c = 0;
  if (!length) return 0;
  size_t size = tsr__utf8_read(text, length, &c);
  /* A byte that is no UTF-8 counts as one character that cannot be shown. */
  if (!size || c < ' ' || c == 0x7f) return 1;
  return c >= 0x80 && in_ranges(steering, sizeof steering / sizeof *steering, c) ? size : 0;
}

void tsr__text_tame(char *text)
{
  /* In place: what is written is never longer than what was read. */
  const char *from = text, *end = text + strlen(text);
  for (size_t size; from < end; from += size) {
    uint32_t c;
    bool kept = *from == '\t' || *from == '\n';
    size = kept ? 0 : tsr__text_control(from, (size_t)(end - from));
    if (size) {
      *text++ = '?';
      continue;
    }
    size = tsr__utf8_read(from, (size_t)(end - from), &c);
    memmove(text, from, size);
    text += size;
  }
  *text = '\0';
}

/* Columns, for tables in a terminal: characters are told by their ranges, not by the locale. */
int tsr__text_width(const char *text, size_t length)
{
  int width = 0;
  while (length) {
    uint32_t c = 0;
    /* A byte that is no UTF-8 is shown as one sign, and passed over alone. */
    size_t size = tsr__utf8_read(text, length, &c);
    /* Below that all characters take one column, which settles nearly all text. */
    if (!size || c < 0x300) width++;
    else if (in_ranges(double_width, sizeof double_width / sizeof *double_width, c)) width += 2;
    else if (!in_ranges(zero_width, sizeof zero_width / sizeof *zero_width, c)) width++;
    if (!size) size = 1;
    text += size;
    length -= size;
  }
  return width;
}

/* ---- near names ---- */

#define LONGEST_NAME 63

static char lower(char c)
{
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Optimal string alignment: insertions, deletions, changes and swaps of neighbours cost 1.
 * Three rows of the table are enough. Both at most LONGEST_NAME long, which the rows have room for.
 * Bytes are compared: names are mostly ASCII, and a hint may be a little off. */
static int edit_distance(const char *a, int a_length, const char *b, int b_length)
{
  /*   above2   row i - 2     a swap of neighbours comes from here
   *   above    row i - 1     a change (diagonal) or a character left out
   *   row      row i         a character put in (left) */
  int rows[3][LONGEST_NAME + 1];
  int *above2 = rows[0], *above = rows[1], *row = rows[2];
  for (int j = 0; j <= b_length; j++) above[j] = j;
  for (int i = 1; i <= a_length; i++) {
    row[0] = i;
    for (int j = 1; j <= b_length; j++) {
      char x = lower(a[i - 1]), y = lower(b[j - 1]);
      int best = above[j - 1] + (x != y);
      if (above[j] + 1 < best) best = above[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      bool swapped = i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y;
      if (swapped && above2[j - 2] + 1 < best) best = above2[j - 2] + 1;
      row[j] = best;
    }
    int *oldest = above2;
    above2 = above;
    above = row;
    row = oldest;
  }
  return above[b_length];
}

int tsr__text_nearest(const char *word, const char *const *names, int count)
{
  size_t length = strlen(word);
  if (!length || length > LONGEST_NAME) return -1;
  /* A third of the word may be wrong; of one that is as far off as it is long nothing is right. */
  int limit = length < 3 ? 1 : ((int)length + 2) / 3, nearest = -1;
  for (int i = 0; i < count; i++) {
    size_t other = names[i] ? strlen(names[i]) : 0;
    if (!other || other > LONGEST_NAME) continue;
    int distance = edit_distance(word, (int)length, names[i], (int)other);
    int longer = (int)(length > other ? length : other);
    if (distance > limit || distance >= longer) continue;
    limit = distance - 1; /* only a nearer one replaces it; ties go to the first */
    nearest = i;
  }
  return nearest;
}
