/* The grammar of JSON (RFC 8259), read one member of an object at a time.
 *
 * Invariant: what is accepted is JSON; nothing is looked at behind `end`. Nesting is bounded, so
 * the stack is too.
 *
 * A line as a row of members:
 *   {"a": 1, "b": [2, {"c": 3}]}      tsr__json_next: key a, value 1; key b, value [2, {"c": 3}]
 *
 * A value is a token, the bytes where it stands: nothing is copied or converted before somebody
 * wants it. Nested values are checked and stay text. */
#include "io/json/json_inner.h"
#include "io/text/datetime.h"

#include <math.h>

static bool fault(tsr__json_cursor *c, const char *at, const char *why)
{
  c->fault = at;
  c->why = why;
  return false;
}

static void skip_blanks(tsr__json_cursor *c)
{
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\r' || *c->at == '\n'))
    c->at++;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Which of eight bytes is the first that is a quote, a backslash or below a space; 8: none.
 *
 *   x ^ '"' * 0x0101..   bytes that are a quote become 0
 *   (x - 0x01..) & ~x    has a top bit where a byte is 0      (Hacker's Delight, 6-1)
 */
static inline int first_special(const char *at)
{
  /* A byte is 0 where subtracting 1 borrows into its top bit and the bit was clear: a false answer
   * is possible only above a true one, and the lowest counts. */
  const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
  uint64_t x;
  /* Eight copies of the character: bytes that equal it become 0. */
  memcpy(&x, at, 8);
  uint64_t quote = x ^ (ones * '"'), slash = x ^ (ones * '\\');
  uint64_t low = (x - ones * 0x20) & ~x;
  uint64_t found = (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | low) & tops;
  return found ? __builtin_ctzll(found) / 8 : 8;
}

/* Both cases, as RFC 8259 has it. */
static int hex_digit(char c)
{
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits behind \u; -1 if they are none. */
static int hex4(const char *at, const char *end)
{
  int value = 0;
  if (end - at < 4) return -1;
  for (int i = 0; i < 4; i++) {
    int digit = hex_digit(at[i]);
    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

/* From behind a backslash to behind the escape. */
static bool skip_escape(tsr__json_cursor *c)
{
  /* The fault is told at the backslash. */
  const char *begin = c->at - 1;
  if (c->at == c->end) return fault(c, begin, "the text does not end in its line");
  char kind = *c->at++;
  if (kind != 'u')
    return (kind && strchr("\"\\/bfnrt", kind)) ||
           fault(c, begin, "the escape does not exist in JSON");
  int unit = hex4(c->at, c->end);
  if (unit < 0) return fault(c, begin, "\\u needs four hexadecimal digits");
  c->at += 4;
  if (unit < 0xd800 || unit > 0xdfff) return true;
  /* Beyond 16 bits a character is two units, high one first; either alone is refused, since UTF-8
   * has no way to write it. */
  bool pair = unit < 0xdc00 && c->end - c->at >= 6 && c->at[0] == '\\' && c->at[1] == 'u';
  int low = pair ? hex4(c->at + 2, c->end) : -1;
  if (low < 0xdc00 || low > 0xdfff)
    return fault(c, begin, "half of a surrogate pair is not a character");
  c->at += 6;
  return true;
}

/* From the quote to behind the one that ends it; what was escaped is only noted. */
static bool read_text(tsr__json_cursor *c, tsr__json_token *out)
{
  const char *begin = ++c->at;
  out->escaped = false;
  for (;;) {
    /* Eight bytes at once, up to the first that is something. A comparison with `end` first: the
     * bytes behind it may be of another line, and are looked at one by one. */
    for (int plain = 8; plain == 8 && c->end - c->at >= 8; c->at += plain)
      plain = first_special(c->at);
    if (c->at == c->end) return fault(c, begin - 1, "the text does not end in its line");
    char ch = *c->at++;
    if (ch == '"') break;
    if ((unsigned char)ch < 0x20)
      return fault(c, c->at - 1, "a control character must be written as an escape");
    if (ch != '\\') continue;
    out->escaped = true;
    if (!skip_escape(c)) return false;
  }
  out->kind = TSR__JSON_IS_TEXT;
  out->expected = false;
  out->at = begin;
  out->length = (size_t)(c->at - 1 - begin);
  return true;
}

/* Never asked for half a surrogate pair: skip_escape refused these. */
static char *put_utf8(char *to, int c)
{
  if (c < 0x80) {
    *to++ = (char)c;
  } else if (c < 0x800) {
    *to++ = (char)(0xc0 | c >> 6);
    *to++ = (char)(0x80 | (c & 63));
  } else if (c < 0x10000) {
    *to++ = (char)(0xe0 | c >> 12);
    *to++ = (char)(0x80 | (c >> 6 & 63));
    *to++ = (char)(0x80 | (c & 63));
  } else {
    *to++ = (char)(0xf0 | c >> 18);
    *to++ = (char)(0x80 | (c >> 12 & 63));
    *to++ = (char)(0x80 | (c >> 6 & 63));
    *to++ = (char)(0x80 | (c & 63));
  }
  return to;
}

/* Line ends of an array's file, as json_array.c left them. */
static size_t restore(const tsr__json_token *nested, char *to)
{
  for (size_t i = 0; i < nested->length; i++) to[i] = nested->at[i] == '\r' ? '\n' : nested->at[i];
  return nested->length;
}

/* Writes at most text->length bytes. */
size_t tsr__json_unescape(const tsr__json_token *text, char *to)
{
  if (text->kind == TSR__JSON_IS_NESTED) return restore(text, to);

  /* What is unescaped was checked when it was read, so nothing is checked again. It never grows:
   * the shortest escape of a character is longer than its UTF-8. */
  static const char letters[] = "bfnrt", values[] = "\b\f\n\r\t";
  const char *at = text->at, *end = at + text->length;
  char *begin = to;
  while (at < end) {
    if (*at != '\\') {
      *to++ = *at++;
      continue;
    }
    char kind = at[1];
    const char *letter = strchr(letters, kind);
    at += 2;
    if (kind == 'u') {
      /* A pair of units is one character; that the second is there was checked. */
      int unit = hex4(at, end);
      at += 4;
      if (unit >= 0xd800 && unit < 0xdc00) {
        unit = 0x10000 + ((unit - 0xd800) << 10) + (hex4(at + 2, end) - 0xdc00);
        at += 6;
      }
      to = put_utf8(to, unit);
    } else {
      *to++ = letter ? values[letter - letters] : kind;
    }
  }
  return (size_t)(to - begin);
}

/* ---- values ---------------------------------------------------------------------------------- */

static inline const char *skip_digits(const char *at, const char *end)
{
  while (at < end && (unsigned char)(*at - '0') < 10) at++;
  return at;
}

/* Of the value nothing is computed here: where it ends and that it is a number. Whatever begins no
 * other value comes here, so what has no digit is told as no value at all. */
static bool read_number(tsr__json_cursor *c, tsr__json_token *out)
{
  const char *begin = c->at, *end = c->end, *first = begin + (*begin == '-');
  const char *at = skip_digits(first, end), *digits = at;
  if (at == first) return fault(c, begin, "the text is not a JSON value");
  /* As the grammar says; such "numbers" are mostly codes, and reading them as numbers would lose
   * their zeros. */
  if (*first == '0' && at - first > 1) return fault(c, begin, "a number must not begin with zeros");
  if (at < end && *at == '.') {
    const char *behind = at + 1;
    at = skip_digits(behind, end);
    if (at == behind) return fault(c, begin, "a digit must follow the point of a number");
  }
  if (at < end && (*at | 0x20) == 'e') {
    const char *power = at + 1;
    if (power < end && (*power == '+' || *power == '-')) power++;
    at = skip_digits(power, end);
    if (at == power) return fault(c, begin, "the exponent of a number needs a digit");
  }
  c->at = at;
  *out = (tsr__json_token){
    .kind = TSR__JSON_IS_NUMBER, .whole = at == digits, .at = begin, .length = (size_t)(at - begin)
  };
  return true;
}

/* A word is told by its letters; what follows it is looked at by who reads on. */
static bool read_word(tsr__json_cursor *c, tsr__json_token *out)
{
  static const struct {
    const char *word;
    uint8_t length, kind;
  } words[] = { { "true", 4, TSR__JSON_IS_TRUE },
                { "false", 5, TSR__JSON_IS_FALSE },
                { "null", 4, TSR__JSON_IS_NULL } };
  for (int i = 0; i < 3; i++) {
    if (c->end - c->at < words[i].length || memcmp(c->at, words[i].word, words[i].length) != 0)
      continue;
    *out = (tsr__json_token){ .kind = words[i].kind, .at = c->at, .length = words[i].length };
    c->at += words[i].length;
    return true;
  }
  return fault(c, c->at, "the text is not a JSON value");
}

static bool read_nested(tsr__json_cursor *c, tsr__json_token *out, int depth);

/* `depth` counts the brackets around. One character tells what it is; JSON needs no look back. */
static bool read_value(tsr__json_cursor *c, tsr__json_token *out, int depth)
{
  skip_blanks(c);
  if (c->at == c->end) return fault(c, c->at, "a value is missing");
  switch (*c->at) {
  case '"': return read_text(c, out);
  case '{':
  case '[': return read_nested(c, out, depth + 1);
  case 't':
  case 'f':
  case 'n': return read_word(c, out);
  default: return read_number(c, out);
  }
}

static bool cut(tsr__json_cursor *c)
{
  return fault(c, c->at,
               "the line ends inside an object; write a whole object per line, as jq -c . does");
}

static inline uint64_t load(const char *at)
{
  uint64_t x;
  memcpy(&x, at, sizeof x);
  return x;
}

/* Names mostly stand as in the line before, a colon behind them: then nothing is looked for. */
static inline bool meets_expected(tsr__json_cursor *c, tsr__json_token *key)
{
  const char *at = c->at, *name = c->expects.at;
  size_t length = c->expects.length, left = (size_t)(c->end - at);
  if (!name || left < length + 3) return false;
  if (at[0] != '"' || at[length + 1] != '"' || at[length + 2] != ':') return false;
  /* Short ones in one step, where eight bytes are there; what is expected stands before. */
  bool one = length - 1 < 8 && left > 8;
  if (one ? (load(at + 1) ^ load(name)) << (64 - 8 * length) != 0
          : memcmp(at + 1, name, length) != 0)
    return false;
  *key = (tsr__json_token){
    .kind = TSR__JSON_IS_TEXT, .expected = true, .at = at + 1, .length = length
  };
  c->at = at + length + 3;
  return true;
}

static bool read_key(tsr__json_cursor *c, tsr__json_token *key)
{
  skip_blanks(c);
  if (meets_expected(c, key)) return true;
  if (c->at == c->end) return cut(c);
  if (*c->at != '"') return fault(c, c->at, "a name in quotes is missing");
  if (!read_text(c, key)) return false;
  skip_blanks(c);
  if (c->at == c->end || *c->at != ':') return fault(c, c->at, "':' is missing after a name");
  c->at++;
  return true;
}

/* `,` or the closing character. A comma before the closing one is found by whoever then misses a
 * name or a value. */
static bool goes_on(tsr__json_cursor *c, char close, bool *more)
{
  skip_blanks(c);
  if (c->at == c->end) return cut(c);
  *more = *c->at == ',';
  if (*c->at != ',' && *c->at != close)
    return fault(c, c->at, close == '}' ? "',' or '}' is missing" : "',' or ']' is missing");
  c->at++;
  return true;
}

static bool read_nested(tsr__json_cursor *c, tsr__json_token *out, int depth)
{
  const char *begin = c->at;
  char close = *c->at == '{' ? '}' : ']';
  tsr__json_token key, value;
  /* Each level takes a frame of the stack. */
  if (depth > TSR__JSON_DEPTH)
    return fault(c, begin, "objects and arrays are nested more than 200 deep");
  c->at++;
  skip_blanks(c);
  /* At the end of the line it goes on, so that what is missing is told by whoever misses it. */
  bool more = c->at == c->end || *c->at != close;
  if (!more) c->at++;
  c->expects.at = NULL;
  while (more) {
    if (close == '}' && !read_key(c, &key)) return false;
    if (!read_value(c, &value, depth) || !goes_on(c, close, &more)) return false;
  }
  size_t length = (size_t)(c->at - begin);
  *out = (tsr__json_token){ .kind = TSR__JSON_IS_NESTED,
                            .escaped = c->unwrapped && memchr(begin, '\r', length),
                            .at = begin,
                            .length = length };
  return true;
}

/* ---- members --------------------------------------------------------------------------------- */

/* 0 and no fault, or -1: the object must be all of the line. */
static int finish(tsr__json_cursor *c)
{
  skip_blanks(c);
  if (c->at == c->end) return 0;
  fault(c, c->at, "text follows the object");
  return -1;
}

/* To where the next part of an object or an array begins: 1; 0 behind the last one; -1: a fault.
 * Called until it gives 0 or -1; the cursor says where it is. */
static int next_part(tsr__json_cursor *c, char open, char close)
{
  bool more = true;
  if (c->begun) {
    if (!goes_on(c, close, &more)) return -1;
    return more ? 1 : finish(c);
  }
  c->begun = true;
  skip_blanks(c);
  if (c->at == c->end || *c->at != open) {
    fault(c, c->at, open == '{' ? "a row must be an object, {...}" : "an array, [...], is missing");
    return -1;
  }
  c->at++;
  skip_blanks(c);
  if (c->at == c->end || *c->at != close) return 1;
  c->at++;
  return finish(c);
}

int tsr__json_next(tsr__json_cursor *c, tsr__json_token *key, tsr__json_token *value)
{
  /* As most writers put it: a comma, and the name that stood there before. */
  if (c->begun && c->at < c->end && *c->at == ',') {
    c->at++;
    if (meets_expected(c, key)) return read_value(c, value, 1) ? 1 : -1;
    c->at--;
  }
  int more = next_part(c, '{', '}');
  if (more < 1) return more;
  return read_key(c, key) && read_value(c, value, 1) ? 1 : -1;
}

int tsr__json_item(tsr__json_cursor *c, tsr__json_token *value)
{
  int more = next_part(c, '[', ']');
  if (more < 1) return more;
  return read_value(c, value, 1) ? 1 : -1;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* Escapes never stand in dates. Texts that look like dates are dates until another text of the
 * column is none: classes are joined. */
static unsigned classify_text(const tsr__json_token *token, tsr__read_value *value)
{
  int32_t days;
  unsigned char first = token->length >= 10 ? (unsigned char)token->at[0] : 0;
  /* Most texts are none and end here: a date is ten characters or more and begins with a digit. */
  if (token->escaped || (unsigned)(first - '0') > 9) return TSR__CLASS_TEXT;
  if (tsr__date_read(token->at, token->length, &days)) {
    value->integer = days;
    return TSR__CLASS_DATE;
  }
  bool time = tsr__time_read(token->at, token->length, &value->integer);
  return time ? TSR__CLASS_TIME : TSR__CLASS_TEXT;
}

/* Most integers are short. False: it is not, or 0 with a sign, which as a float is another one. */
static bool short_integer(const tsr__json_token *token, tsr__read_value *value)
{
  bool minus = token->at[0] == '-';
  int64_t integer = 0;
  if (!token->whole || token->length > 18) return false;
  for (size_t i = minus; i < token->length; i++) integer = integer * 10 + (token->at[i] - '0');
  if (minus && !integer) return false;
  value->integer = minus ? -integer : integer;
  value->real = (double)value->integer;
  return true;
}

/* The value is the bool, the integer, the days or microseconds; of texts nothing. */
unsigned tsr__json_classify(const tsr__decimal *decimal, const tsr__json_token *token,
                            tsr__read_value *value)
{
  *value = (tsr__read_value){ .integer = token->kind == TSR__JSON_IS_TRUE };
  switch (token->kind) {
  case TSR__JSON_IS_NULL: return TSR__CLASS_NULL;
  case TSR__JSON_IS_FALSE:
  case TSR__JSON_IS_TRUE: return TSR__CLASS_BOOL;
  case TSR__JSON_IS_TEXT: return classify_text(token, value);
  case TSR__JSON_IS_NESTED: return TSR__CLASS_TEXT;
  default: break;
  }
  if (short_integer(token, value)) return TSR__CLASS_INT;
  /* An integer of 64 bits, one beyond (of u64 perhaps), or anything with a point or an exponent. */
  switch (tsr__decimal_read(decimal, token->at, token->length, &value->integer, &value->real)) {
  case TSR__NUMBER_INT: return TSR__CLASS_INT;
  case TSR__NUMBER_BIG:
    if (isinf(value->real)) return TSR__CLASS_TEXT;
    value->natural = tsr__decimal_natural(token->at, token->length, (uint64_t *)&value->integer);
    return TSR__CLASS_BIG;
  /* 1e400 is a number of JSON and none of f64: as text nothing of it is lost. */
  default: return isinf(value->real) ? TSR__CLASS_TEXT : TSR__CLASS_FLOAT;
  }
}

/* Whether a value of a class is one of a type that was asked for. */
bool tsr__json_fits(tsr_coltype type, unsigned class, const tsr__read_value *value)
{
  if (class == TSR__CLASS_NULL) return true;
  switch (type) {
  case TSR_COL_BOOL: return class == TSR__CLASS_BOOL;
  case TSR_COL_DATE: return class == TSR__CLASS_DATE;
  case TSR_COL_TIME: return class == TSR__CLASS_DATE || class == TSR__CLASS_TIME;
  case TSR_COL_TEXT: return true;
  default: return tsr__number_fits(type, class, value);
  }
}

/* ---- lines and keys -------------------------------------------------------------------------- */

/* Lines of blanks alone are no rows. A line that begins before `to` may end behind it. */
bool tsr__json_line_at(const char *at, const char *to, const char *end, tsr__json_line *out)
{
  while (at < to) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    *out = (tsr__json_line){ at, newline ? newline : end, newline ? newline + 1 : end };
    while (at < out->end && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
    if (at < out->end) return true;
    at = out->next;
  }
  return false;
}

/* Not where the key has an escape: the same name may be written in several ways. */
static int32_t find_key(tsr__json_keys *keys, const tsr__json_token *key, int64_t member)
{
  tsr__dict_local *names = keys->names;
  const char *text = key->at;
  size_t length = key->length;
  bool added;
  /* Lines mostly name the same members in the same order: the member at this place in the line
   * before is looked at first, and mostly nothing is hashed. */
  if (!key->escaped && (size_t)member < keys->order_room) {
    int32_t code = keys->order[member].code;
    const tsr__dict_entry *guess = code < names->count ? &names->entries[code] : NULL;
    if (guess && guess->key.length == length && memcmp(guess->text, text, length) == 0) return code;
  }
  if (key->escaped) {
    if (!tsr__grow(names->heap, (void **)&names->scratch, &names->scratch_size, length + 1, 1))
      return -1;
    length = tsr__json_unescape(key, names->scratch);
    text = names->scratch;
  }
  return tsr__dict_code(names, text, length, key->escaped, &added);
}

int32_t tsr__json_key_found(tsr__json_keys *keys, const tsr__json_token *key, int64_t member,
                            int64_t line)
{
  tsr__heap *heap = keys->names->heap;
  int32_t code = find_key(keys, key, member);
  if (code < 0) return -1;
  /* Grown together, so that both places are there. */
  if ((size_t)member >= keys->order_room || (size_t)code >= keys->stamp_room) {
    if (!tsr__grow(heap, (void **)&keys->order, &keys->order_room, (size_t)member + 1,
                   sizeof *keys->order) ||
        !tsr__grow(heap, (void **)&keys->stamp, &keys->stamp_room, (size_t)code + 1,
                   sizeof *keys->stamp))
      return -1;
  }
  keys->order[member].code = code;
  keys->order[member].stands =
      key->escaped ? (tsr__text_span){ NULL, 0 } : (tsr__text_span){ key->at, key->length };
  /* The last line that had this name. Lines count from one, so nothing has to be cleared between
   * them. */
  if (keys->stamp[code] == line) return -2;
  keys->stamp[code] = line;
  return code;
}

void tsr__json_keys_free(tsr__json_keys *keys)
{
  tsr__heap *heap = keys->names->heap;
  if (!heap) return;
  tsr__del(heap, keys->order, keys->order_room * sizeof *keys->order);
  tsr__del(heap, keys->stamp, keys->stamp_room * sizeof *keys->stamp);
}
