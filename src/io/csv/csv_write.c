/* Rows as CSV.
 *
 * Invariant: what is written is read back equal by csv.h's reader: a field is quoted whenever it
 * would otherwise be split, trimmed, or taken for a null. */
#include "io/rows/write.h"

typedef struct style {
  const tsr__write_ask *ask;
  const char *null;
  size_t null_length;
  char separator;
  bool special[256]; /* bytes that make quotes necessary */
} style;

typedef uint8_t sixteen __attribute__((vector_size(16)));

/* Where one of sixteen bytes is a quote, a line end or the separator. */
static inline sixteen special_of(const style *s, const char *at)
{
  sixteen x;
  memcpy(&x, at, 16);
  return (sixteen)(x == '"') | (sixteen)(x == '\n') | (sixteen)(x == '\r') |
         (sixteen)(x == (uint8_t)s->separator);
}

/* Whether any byte of a text is special; the last sixteen are looked at together with some that
 * were seen before. */
static inline bool any_special(const style *s, const char *text, size_t length)
{
  if (length < 16) {
    bool any = false;
    for (size_t i = 0; i < length; i++) any |= s->special[(unsigned char)text[i]];
    return any;
  }
  sixteen found = special_of(s, text + length - 16);
  uint64_t half[2];
  for (size_t i = 0; i + 16 < length; i += 16) found |= special_of(s, text + i);
  memcpy(half, &found, 16);
  return half[0] | half[1];
}

static bool must_quote(const style *s, const char *text, size_t length)
{
  /* An empty text is written "", so that it is not the empty field that null is. */
  if (length == 0) return true;
  unsigned char first = (unsigned char)text[0], last = (unsigned char)text[length - 1];
  /* Blanks at the ends are trimmed by many readers; 0xef begins a byte order mark, which a first
   * field must not look like. */
  if (first == ' ' || first == '\t' || last == ' ' || last == '\t' || first == 0xef) return true;
  if (any_special(s, text, length)) return true;
  /* NA is a null to readers, ours among them. */
  if (length == 2 && memcmp(text, "NA", 2) == 0) return true;
  return length == s->null_length && memcmp(text, s->null, length) == 0;
}

static void put_text(const style *s, tsr__bytes *out, const char *text, size_t length)
{
  if (!must_quote(s, text, length)) {
    tsr__bytes_put(out, text, length);
    return;
  }
  tsr__bytes_char(out, '"');
  /* Up to a quote and with it, then the quote once more. */
  for (const char *end = text + length; text < end;) {
    const char *quote = memchr(text, '"', (size_t)(end - text));
    const char *stop = quote ? quote + 1 : end;
    tsr__bytes_put(out, text, (size_t)(stop - text));
    if (quote) tsr__bytes_char(out, '"');
    text = stop;
  }
  tsr__bytes_char(out, '"');
}

static void put_field(const style *s, tsr__bytes *out, const tsr__out_column *column, int64_t row)
{
  size_t length;
  if (column->valid && !column->valid[row]) {
    /* Many readers leave out empty lines; between quotes the null is still one for numbers. */
    bool alone = s->ask->count == 1 && !s->null_length && column->type != TSR_COL_TEXT;
    tsr__bytes_put(out, alone ? "\"\"" : s->null, alone ? 2 : s->null_length);
  } else if (column->type == TSR_COL_TEXT) {
    const char *text = tsr__out_text(column, row, &length);
    put_text(s, out, text, length);
  } else {
    tsr__bytes_value(out, column, row, TSR__FLOATS_MARKED);
  }
}

static void put_rows(const void *user, tsr__bytes *out, int64_t from, int64_t to)
{
  /* A line a row: separators between fields, a newline behind the last one. */
  const style *s = user;
  for (int64_t row = from; row < to; row++)
    for (int i = 0; i < s->ask->count; i++) {
      put_field(s, out, &s->ask->column[i], row);
      tsr__bytes_char(out, i + 1 < s->ask->count ? s->separator : '\n');
    }
}

static tsr_status check(const style *s, tsr__error *error)
{
  const char *what = s->ask->what;
  unsigned char c = (unsigned char)s->separator;
  /* Digits, letters, signs: a number or a date could not be told from two fields. */
  bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (word || c >= 0x80 || strchr("\"\n\r.+-:", c))
    return tsr__error_set(error, TSR_EARG,
                          "%s: the separator is byte %d, expected a byte that no number or date "
                          "holds, such as ',' ';' '|' or a tab",
                          what, c);
  /* The text for null is never quoted, or it would be a text. */
  for (size_t i = 0; i < s->null_length; i++)
    if (s->special[(unsigned char)s->null[i]])
      return tsr__error_set(error, TSR_EARG,
                            "%s: the text for null, '%.40s', holds a separator, a quote or a line "
                            "end; choose another text, such as NA",
                            what, s->null);
  return TSR_OK;
}

tsr_status tsr__csv_write(const tsr__write_ask *ask, const tsr__csv_style *style_ask,
                          tsr__error *error)
{
  style s = { .ask = ask, .null = style_ask->null ? style_ask->null : "" };
  s.null_length = strlen(s.null);
  s.separator = style_ask->separator ? style_ask->separator : ',';
  s.special['"'] = s.special['\n'] = s.special['\r'] = true;
  s.special[(unsigned char)s.separator] = true;
  if (check(&s, error)) return error->status;
  tsr__bytes head = { .heap = &ask->rt->heap };
  /* Names are texts, quoted as such. A name may hold anything. */
  for (int i = 0; !style_ask->no_header && i < ask->count; i++) {
    put_text(&s, &head, ask->column[i].name, strlen(ask->column[i].name));
    tsr__bytes_char(&head, i + 1 < ask->count ? s.separator : '\n');
  }
  tsr_status status = tsr__write_rows(ask, &head, put_rows, &s, error);
  tsr__bytes_free(&head);
  return status;
}
