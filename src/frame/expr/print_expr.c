/* Expressions back as text: one spelling for equal trees, with as few parentheses as precedence
 * allows. The default name of a result column is such a text.
 *
 * Parentheses stand where an operand binds less tightly than its place asks for:
 *
 *   (a + b) * c     the sum binds looser than an operand of * must: parentheses
 *   a - (b - c)     operations group to the left, so the right operand must bind tighter
 *   a - b - c       and the left one need not */
#include "frame/expr/expr.h"

#include <math.h>
#include <stdio.h>

/* Levels of binding, loosest first. */
enum { P_OR, P_AND, P_NOT, P_COMPARE, P_SUM, P_PRODUCT, P_UNARY, P_POWER, P_PRIMARY };

static int level(const tsr__expr *expr)
{
  switch (expr->kind) {
  case TSR__E_OR: return P_OR;
  case TSR__E_AND: return P_AND;
  case TSR__E_NOT: return P_NOT;
  case TSR__E_ISNULL:
  case TSR__E_IN: return P_COMPARE;
  case TSR__E_NEG: return P_UNARY;
  case TSR__E_INT: return expr->i < 0 ? P_UNARY : P_PRIMARY;
  case TSR__E_FLOAT: /* -0.0 is not below 0, but begins with a minus, too; NaN shows no sign */
    return signbit(expr->f) && !isnan(expr->f) ? P_UNARY : P_PRIMARY;
  case TSR__E_BINARY:
    if (expr->op >= TSR__B_EQ) return P_COMPARE;
    if (expr->op == TSR__B_POW) return P_POWER;
    return expr->op <= TSR__B_SUB ? P_SUM : P_PRODUCT;
  default: return P_PRIMARY;
  }
}

static void print(const tsr__expr *expr, tsr__text *out);

/* An operand where it must bind at least as tightly as `least`. */
static void print_at(const tsr__expr *expr, int least, tsr__text *out)
{
  bool wrap = level(expr) < least;
  if (wrap) tsr__text_put(out, "(", 1);
  print(expr, out);
  if (wrap) tsr__text_put(out, ")", 1);
}

static void print_quoted(const char *text, int length, char quote, tsr__text *out)
{
  /* Doubled inside, as the parser reads it. */
  tsr__text_put(out, &quote, 1);
  for (int i = 0; i < length; i++) {
    if (text[i] == quote) tsr__text_put(out, &quote, 1);
    tsr__text_put(out, text + i, 1);
  }
  tsr__text_put(out, &quote, 1);
}

static void print_list(const tsr__expr *expr, int first, tsr__text *out)
{
  tsr__text_put(out, "(", 1);
  for (int i = first; i < expr->count; i++) {
    if (i > first) tsr__text_put(out, ", ", 2);
    print(expr->arg[i], out);
  }
  tsr__text_put(out, ")", 1);
}

/* Operands of an operation that groups to the left. */
static void print_binary(const tsr__expr *expr, const char *name, tsr__text *out)
{
  /* Powers group to the right: a power as a base needs parentheses, as an exponent none, and a
   * minus may begin the exponent. Comparisons do not chain, so neither side may be one. */
  int mine = level(expr);
  bool power = expr->kind == TSR__E_BINARY && expr->op == TSR__B_POW;
  bool compare = mine == P_COMPARE;
  print_at(expr->arg[0], power ? P_PRIMARY : mine + compare, out);
  tsr__text_add(out, " %s ", name);
  print_at(expr->arg[1], power ? P_UNARY : mine + 1, out);
}

static void print_float(double value, tsr__text *out)
{
  /* The shortest text that is read back as the same number; it must not look like an integer. */
  char text[32];
  int length = tsr__text_f64(text, value);
  tsr__text_put(out, text, (size_t)length);
  if (!strpbrk(text, ".en")) tsr__text_put(out, ".0", 2); /* "inf" and "nan" hold an n */
}

static void print(const tsr__expr *expr, tsr__text *out)
{
  switch (expr->kind) {
  case TSR__E_INT: tsr__text_add(out, "%lld", (long long)expr->i); break;
  case TSR__E_FLOAT: print_float(expr->f, out); break;
  case TSR__E_BOOL: tsr__text_add(out, "%s", expr->i ? "true" : "false"); break;
  case TSR__E_NULL: tsr__text_add(out, "null"); break;
  case TSR__E_TEXT: print_quoted(expr->text, expr->length, '\'', out); break;
  case TSR__E_COLUMN:
    if (tsr__plain_name(expr->text)) tsr__text_put(out, expr->text, (size_t)expr->length);
    else print_quoted(expr->text, expr->length, '"', out);
    break;
  case TSR__E_NEG:
    tsr__text_put(out, "-", 1);
    print_at(expr->arg[0], P_UNARY, out);
    break;
  case TSR__E_NOT:
    tsr__text_add(out, "not ");
    print_at(expr->arg[0], P_NOT, out);
    break;
  case TSR__E_AND: print_binary(expr, "and", out); break;
  case TSR__E_OR: print_binary(expr, "or", out); break;
  case TSR__E_BINARY: print_binary(expr, tsr__binary_name(expr->op), out); break;
  case TSR__E_ISNULL:
    /* Tighter than a comparison, of which this is one. */
    print_at(expr->arg[0], P_SUM, out);
    tsr__text_add(out, expr->negated ? " is not null" : " is null");
    break;
  case TSR__E_IN:
    print_at(expr->arg[0], P_SUM, out);
    tsr__text_add(out, expr->negated ? " not in " : " in ");
    print_list(expr, 1, out);
    break;
  case TSR__E_CALL:
    tsr__text_add(out, "%s", tsr__fn_name(expr->op));
    print_list(expr, 0, out);
    break;
  default: tsr__text_add(out, "%s", tsr__agg_name(expr->op)); print_list(expr, 0, out);
  }
}

void tsr__expr_print(const tsr__expr *expr, tsr__text *out)
{
  print(expr, out);
}

/* ---- text on one line ------------------------------------------------------------------------ */

typedef struct character {
  size_t bytes;
  int columns;
  bool blank; /* shown as one */
} character;

static character next_character(const char *text, size_t length)
{
  size_t control = tsr__text_control(text, length), bytes = 1;
  if (control) return (character){ control, 1, true };
  /* The bytes of one character in UTF-8: those behind the first begin with the bits 10. */
  while (bytes < length && ((unsigned char)text[bytes] & 0xc0) == 0x80) bytes++;
  return (character){ bytes, tsr__text_width(text, bytes), false };
}

/* Twice over the text: whether it is cut must be known before the first character is put. */
void tsr__text_clip(tsr__text *out, const char *text, size_t length, int width)
{
  character c;
  int used = 0;
  /* How wide is it, as far as that matters: only a text that is cut gives up a column for its
   * mark. */
  for (size_t at = 0; at < length && used <= width; at += c.bytes) {
    c = next_character(text + at, length - at);
    used += c.columns;
  }
  bool cut = used > width;
  used = 0;
  for (size_t at = 0; at < length; at += c.bytes) {
    c = next_character(text + at, length - at);
    used += c.columns;
    if (cut && used > width - 1) break;
    tsr__text_put(out, c.blank ? " " : text + at, c.blank ? 1 : c.bytes);
  }
  if (cut) tsr__text_add(out, "…");
}
