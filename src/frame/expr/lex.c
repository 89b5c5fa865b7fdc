/* Tokens of an expression, and errors that point into its text.
 *
 * The text is read once from left to right; only quoted texts with a doubled quote are rewritten.
 * Bytes above 0x7f may stand in names and texts; they were checked to be UTF-8 before. */
#include "frame/expr/expr.h"

#include "io/text/decimal.h"
#include "io/text/dict.h"

#include <stdio.h>

/* ---- errors ------------------------------------------------------------------------------ */

#define WINDOW 72 /* bytes of a line that an error shows */

/* Copies [from, to) of a line for display: a control character becomes a blank. One blank for each
 * byte, so that what stood at byte n of the line still does, and the caret under it. */
static void show(const char *source, int from, int to, char *out)
{
  int n = 0;
  for (int i = from; i < to; i++)
    out[n++] = (unsigned char)source[i] < ' ' || source[i] == 0x7f ? ' ' : source[i];
  out[n] = 0;
}

/* The byte where the character at `at` begins: a window that cut one in half would be no UTF-8. */
static int step_back(const char *source, int at, int least)
{
  while (at > least && ((unsigned char)source[at] & 0xc0) == 0x80) at--;
  return at;
}

/* The line that holds `at`, cut to a window around it when it is long. */
static void window(const tsr__formula *formula, int at, int *from, int *to)
{
  const char *source = formula->source;
  int start = at, end = at;
  while (start > 0 && source[start - 1] != '\n') start--;
  while (end < formula->length && source[end] != '\n') end++;
  /* The place stands in the middle; near an end of the line the window is pushed inside, so that it
   * is always full. */
  if (end - start > WINDOW) {
    int middle = at - WINDOW / 2;
    if (middle > end - WINDOW) middle = end - WINDOW;
    if (middle > start) start = step_back(source, middle, start);
    if (end - start > WINDOW) end = step_back(source, start + WINDOW, start);
  }
  *from = start;
  *to = end;
}

tsr_status tsr__caret(tsr__error *error, tsr_status status, tsr__place place, const char *format,
                      ...)
{
  /* What is said may hold names and texts of any length: callers cut them, and `said` cuts the
   * rest. Lines and marks are WINDOW bytes and no more, see window(). */
  const tsr__formula *formula = place.formula;
  int at = place.at, span = place.span;
  char said[700], line[WINDOW + 8], marks[WINDOW + 8];
  int from, to;
  va_list args;
  va_start(args, format);
  vsnprintf(said, sizeof said, format, args);
  va_end(args);
  window(formula, at, &from, &to);
  show(formula->source, from, to, line);
  /* The caret is counted in columns of a terminal, not in bytes: "größe" has 5 of them and 7
   * bytes. */
  int before = tsr__text_width(line, (size_t)(at - from));
  int end = at + span < to ? at + span : to;
  /* At the end of the text nothing is left to be underlined: the caret points behind it. So it does
   * where a part of several lines goes on behind the one shown. */
  int width = end > at ? tsr__text_width(line + (at - from), (size_t)(end - at)) : 1;
  if (width < 1) width = 1;
  if (width > WINDOW) width = WINDOW;
  memset(marks, '~', (size_t)width);
  marks[0] = '^';
  marks[width] = 0;
  return tsr__error_set(error, status, "%s: %s\n    %s\n    %*s%s", formula->what, said, line,
                        before, "", marks);
}

/* ---- characters -------------------------------------------------------------------------- */

/* Letters are ASCII's or any byte of a longer character: names of columns come from files in any
 * language, and whether such a character is a letter is not asked. `c | 0x20` makes capitals
 * small. */
static bool name_start(unsigned char c)
{
  return (unsigned)(c | 0x20) - 'a' < 26u || c == '_' || c >= 0x80;
}

static bool digit(unsigned char c)
{
  return (unsigned)c - '0' < 10u;
}

static bool name_part(unsigned char c)
{
  return name_start(c) || digit(c);
}

/* Tabs and line ends are let in, since texts are often written over several lines. Other control
 * characters could steer the terminal that shows an error; a NUL would end the text early. */
bool tsr__good_text(const char *text, size_t length)
{
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if ((c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == 0x7f) return false;
  }
  return tsr__utf8_valid(text, length);
}

/* Small letters only: AND is a name, and parse.c says of it what was meant. */
static const char *const keywords[] = { "and", "or", "not", "in", "is", "null", "true", "false" };

static bool keyword(const char *text, int length)
{
  for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
    if ((int)strlen(keywords[i]) == length && !memcmp(keywords[i], text, (size_t)length))
      return true;
  return false;
}

bool tsr__plain_name(const char *name)
{
  int length = (int)strlen(name);
  if (!name_start((unsigned char)name[0])) return false;
  for (int i = 1; i < length; i++)
    if (!name_part((unsigned char)name[i])) return false;
  return !keyword(name, length);
}

/* ---- tokens ------------------------------------------------------------------------------ */

/* Errors of the lexer give false, so that they can be returned. */
static bool no_memory(tsr__lexer *lexer)
{
  tsr__error_set(lexer->error, TSR_ENOMEM, "%s: out of memory", lexer->formula->what);
  return false;
}

static bool refuse(tsr__lexer *lexer, int at, int span, const char *message)
{
  tsr__caret(lexer->error, TSR_EPARSE, (tsr__place){ lexer->formula, at, span }, "%s", message);
  return false;
}

/* Up to 15 digits and a small exponent are exact in double arithmetic; other numbers take the
 * reader of io/, which builds tables. */
static bool read_float(tsr__lexer *lexer, int start, int span, double *out)
{
  const char *text = lexer->formula->source + start;
  uint64_t mantissa = 0;
  int digits_seen = 0, after = 0, i = 0;
  bool point = false;
  for (; i < span && (digit((unsigned char)text[i]) || text[i] == '.'); i++) {
    if (text[i] == '.') {
      point = true;
      continue;
    }
    /* The sixteenth digit already says that this way is not taken: later ones are only counted, and
     * the sum cannot overflow. */
    if (digits_seen < 16) mantissa = mantissa * 10 + (uint64_t)(text[i] - '0');
    digits_seen++;
    after += point;
  }
  /* mantissa < 10^15 < 2^53 and 10^15 are doubles, and a quotient of two doubles is rounded once:
   * this is the nearest double. What ends at an exponent is not at `span` yet. */
  if (i == span && digits_seen <= 15 && after <= 15) {
    /* Powers up to 10^22 are exact, so are these products. */
    double power = 1;
    for (int p = 0; p < after; p++) power *= 10;
    *out = (double)mantissa / power;
    return true;
  }
  tsr__decimal *decimal = tsr__decimal_open(lexer->arena->heap);
  int64_t integer;
  tsr__number kind = TSR__NUMBER_NONE;
  if (decimal) kind = tsr__decimal_read(decimal, text, (size_t)span, &integer, out);
  else no_memory(lexer);
  tsr__decimal_close(decimal);
  return kind != TSR__NUMBER_NONE;
}

static int skip_digits(const char *source, int at)
{
  while (digit((unsigned char)source[at])) at++;
  return at;
}

/* A date without its quotes would be a difference, 2006 for 2013-06-01. Nothing behind the text's
 * NUL is looked at: it matches no character of the pattern, and `at[10]` is asked for only when ten
 * have matched. */
static bool like_date(const char *at)
{
  static const char pattern[] = "0000-00-00";
  for (int i = 0; pattern[i]; i++)
    if (pattern[i] == '0' ? !digit((unsigned char)at[i]) : at[i] != pattern[i]) return false;
  return !digit((unsigned char)at[10]);
}

/* A sign is no part of a number: "a -1" is a difference, and -1 by itself the parser makes. */
static bool lex_number(tsr__lexer *lexer)
{
  const char *source = lexer->formula->source;
  tsr__token *token = &lexer->token;
  int start = lexer->at, at = skip_digits(source, start);
  bool whole = true;
  /* Said at once: the parser would take it for 2013 - 6 - 1 and find nothing wrong (06 is a 6). */
  if (like_date(source + start))
    return refuse(lexer, start, 10,
                  "this is a difference of numbers; write a date in single quotes, or a difference "
                  "with blanks around '-'");
  if (source[at] == '.') {
    whole = false;
    at = skip_digits(source, at + 1);
  }
  /* 'e' belongs to the number only with digits behind it, so that 2e is reported as a whole below,
   * not as 2 and a stray name. */
  if (source[at] == 'e' || source[at] == 'E') {
    int sign = source[at + 1] == '+' || source[at + 1] == '-';
    if (digit((unsigned char)source[at + 1 + sign])) {
      whole = false;
      at = skip_digits(source, at + 1 + sign);
    }
  }
  /* 2x, 1.2.3 and 0x1f: to read them as two tokens would give errors about what was not meant. */
  if (name_part((unsigned char)source[at]) || source[at] == '.') {
    while (name_part((unsigned char)source[at]) || source[at] == '.') at++;
    return refuse(lexer, start, at - start, "this is not a number");
  }
  token->span = at - start;
  lexer->at = at;
  token->kind = whole ? TSR__T_INT : TSR__T_FLOAT;
  if (!whole) return read_float(lexer, start, token->span, &token->f);
  for (int i = start; i < at; i++) {
    uint64_t d = (uint64_t)(source[i] - '0');
    /* i * 10 + d <= 2^63: one more than INT64_MAX, since a minus may stand before it
     * (parse_unary). */
    if (token->i > ((UINT64_C(1) << 63) - d) / 10)
      return refuse(lexer, start, token->span,
                    "the integer does not fit 64 bits; write the number with a point for a float");
    token->i = token->i * 10 + d;
  }
  return true;
}

/* 'text' and "name": a doubled quote stands for one. */
static bool lex_quoted(tsr__lexer *lexer, char quote)
{
  const char *source = lexer->formula->source;
  int start = lexer->at, at = start + 1, length = 0;
  for (;; at++) {
    if (at >= lexer->formula->length)
      return refuse(lexer, start, at - start,
                    quote == '"' ? "the name that begins here has no closing '\"'"
                                 : "the text that begins here has no closing '");
    /* A NUL ends the source, so a look behind a quote that is its last byte is fine. */
    if (source[at] != quote) continue;
    if (source[at + 1] != quote) break;
    at++;
  }
  /* At most the bytes between the quotes, and one for the NUL, which is there: arenas are zero. */
  char *text = tsr__arena_new(lexer->arena, (size_t)(at - start));
  if (!text) return no_memory(lexer);
  for (int i = start + 1; i < at; i++) {
    text[length++] = source[i];
    if (source[i] == quote) i++;
  }
  lexer->token.kind = quote == '"' ? TSR__T_QUOTED : TSR__T_TEXT;
  lexer->token.text = text;
  lexer->token.length = length;
  lexer->token.span = at + 1 - start;
  lexer->at = at + 1;
  return true;
}

/* A keyword is where it stands in the text; a name is copied, so that it ends with a 0. */
static bool lex_name(tsr__lexer *lexer)
{
  const char *source = lexer->formula->source;
  int start = lexer->at, at = start;
  while (name_part((unsigned char)source[at])) at++;
  int length = at - start;
  lexer->token.span = lexer->token.length = length;
  lexer->at = at;
  if (keyword(source + start, length)) {
    lexer->token.kind = TSR__T_WORD;
    lexer->token.text = source + start;
    return true;
  }
  lexer->token.kind = TSR__T_NAME;
  lexer->token.text = tsr__arena_text(lexer->arena, source + start, (size_t)length);
  return lexer->token.text || no_memory(lexer);
}

/* Spellings of other languages, with ours. */
static const char *const strangers[][2] = {
  { "&&", "write 'and'" },
  { "||", "write 'or', or concat(a, b) for texts" },
  { "<>", "write '!='" },
  { "===", "write '=='" },
  { "<=>", "compare with == != < <= > >=" },
  { "!", "write 'not'" },
  { "&", "write 'and'" },
  { "|", "write 'or'" },
  { "^", "for powers write '**'" },
  { "~", "write 'not'" },
  { "::", "write cast(x, 'i64')" },
  { ":", "write if(condition, a, b)" },
  { "[", "write lists in parentheses: x in (1, 2)" },
  { ".", "write sum(x) for x.sum(), and names with dots in double quotes" },
  { ";", "write a single expression here" },
};

static const char *const symbols[] = { "**", "//", "==", "!=", "<=", ">=", "<", ">", "+",
                                       "-",  "*",  "/",  "%",  "(",  ")",  ",", "=", "?" };

static bool lex_symbol(tsr__lexer *lexer)
{
  const char *at = lexer->formula->source + lexer->at;
  /* Strangers first, and the longer of those that begin alike before the shorter: "===" would be
   * "==" and a stray "=", "<>" a "<" and a stray ">". */
  for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
    size_t length = strlen(strangers[i][0]);
    if (strncmp(at, strangers[i][0], length) || !strncmp(at, "!=", 2)) continue;
    char message[120];
    snprintf(message, sizeof message, "'%s' is not an operator here; %s", strangers[i][0],
             strangers[i][1]);
    return refuse(lexer, lexer->at, (int)length, message);
  }
  /* Two characters stand before one here as well, or "**" would be "*" twice. */
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    size_t length = strlen(symbols[i]);
    if (strncmp(at, symbols[i], length)) continue;
    lexer->token.kind = TSR__T_SYMBOL;
    lexer->token.text = at;
    lexer->token.span = lexer->token.length = (int)length;
    lexer->at += (int)length;
    return true;
  }
  return refuse(lexer, lexer->at, 1, "this character has no meaning here");
}

bool tsr__lex(tsr__lexer *lexer)
{
  const char *source = lexer->formula->source;
  while (source[lexer->at] == ' ' || source[lexer->at] == '\t' || source[lexer->at] == '\n' ||
         source[lexer->at] == '\r')
    lexer->at++;
  lexer->token = (tsr__token){ .at = lexer->at };
  unsigned char c = (unsigned char)source[lexer->at];
  /* Texts with a NUL inside were refused before, so the first one is the end. */
  if (!c) return true; /* TSR__T_END */
  if (digit(c) || (c == '.' && digit((unsigned char)source[lexer->at + 1])))
    return lex_number(lexer);
  if (c == '\'' || c == '"') return lex_quoted(lexer, (char)c);
  if (name_start(c)) return lex_name(lexer);
  return lex_symbol(lexer);
}
