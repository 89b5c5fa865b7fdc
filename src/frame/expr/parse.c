/* From text to trees, by recursive descent: one function a level of precedence.
 *
 *   or  <  and  <  not  <  comparisons, in, is  <  + -  <  * / // %  <  unary -  <  **
 *
 * as in Python: `**` groups to the right and binds tighter than the minus before it, comparisons
 * chain (0 < x <= 9 is 0 < x and x <= 9). Invariant: a tree is at most MAX_DEPTH deep, so that
 * nothing that walks it later can run out of stack. */
#include "frame/expr/parse_inner.h"

#include <stdio.h>

#define MAX_DEPTH 200
#define MAX_LIST 1000

/* clang-format off */
#define AGG(id, name, least, most)
#define FN(id, name, least, most, sort) name,
/* One table, read once for each list: rows of FN for functions of values, of AGG for those of
 * rows. */
static const char *const fn_names[TSR__FNS] = {
#include "frame/expr/functions.def"
};
#undef FN
#define FN(id, name, least, most, sort) { least, most, TSR__FS_##sort },
static const uint8_t fn_facts[TSR__FNS][3] = {
#include "frame/expr/functions.def"
};
#undef FN
#undef AGG
#define FN(id, name, least, most, sort)
#define AGG(id, name, least, most) name,
static const char *const agg_names[TSR__AGGS] = {
#include "frame/expr/functions.def"
};
#undef AGG
#define AGG(id, name, least, most) { least, most },
static const uint8_t agg_facts[TSR__AGGS][2] = {
#include "frame/expr/functions.def"
};
#undef FN
#undef AGG
/* clang-format on */
/* In the order of enum tsr__binary. */
static const char *const binary_names[] = { "+",  "-",  "*", "/",  "//", "%", "**",
                                            "==", "!=", "<", "<=", ">",  ">=" };

const char *tsr__fn_name(int fn)
{
  return fn_names[fn];
}

int tsr__fn_sort(int fn)
{
  return fn_facts[fn][2];
}

const char *tsr__agg_name(int agg)
{
  return agg_names[agg];
}

bool tsr__agg_needs_rows(int agg)
{
  /* Rows of the table are sorted: the first that needs all rows of a group is the median. */
  return agg >= TSR__A_MEDIAN;
}

const char *tsr__binary_name(int op)
{
  return binary_names[op];
}

/* ---- small things ------------------------------------------------------------------------ */

static tsr__expr *parse_sum(tsr__parser *p);
static tsr__expr *parse_unary(tsr__parser *p);

void *tsr__parse_refuse(tsr__parser *p, int at, int span, const char *format, ...)
{
  char said[900];
  va_list args;
  va_start(args, format);
  vsnprintf(said, sizeof said, format, args);
  va_end(args);
  tsr__place place = { p->lexer.formula, at, span };
  tsr__caret(p->lexer.error, TSR_EPARSE, place, "%s", said);
  return NULL;
}

static void *too_deep(tsr__parser *p, int at, int span)
{
  return tsr__parse_refuse(p, at, span, "the expression is nested more than %d deep", MAX_DEPTH);
}

void *tsr__parse_no_memory(tsr__parser *p)
{
  tsr__error_set(p->lexer.error, TSR_ENOMEM, "%s: out of memory", p->lexer.formula->what);
  return NULL;
}

bool tsr__parse_at(const tsr__parser *p, const char *symbol)
{
  const tsr__token *t = &p->lexer.token;
  return t->kind == TSR__T_SYMBOL && t->length == (int)strlen(symbol) &&
         !memcmp(t->text, symbol, (size_t)t->length);
}

static bool at_word(const tsr__parser *p, const char *word)
{
  const tsr__token *t = &p->lexer.token;
  return t->kind == TSR__T_WORD && t->length == (int)strlen(word) &&
         !memcmp(t->text, word, (size_t)t->length);
}

/* Makes a node that stands at [at, the end of what has been read). */
static tsr__expr *node(tsr__parser *p, int kind, int at, int count)
{
  tsr__arena *arena = p->lexer.arena;
  tsr__expr *expr = tsr__arena_new(arena, sizeof *expr);
  if (expr && count) expr->arg = tsr__arena_new(arena, (size_t)count * sizeof *expr->arg);
  if (!expr || (count && !expr->arg)) return tsr__parse_no_memory(p);
  expr->kind = (uint8_t)kind;
  expr->count = count;
  expr->at = at;
  expr->depth = expr->size = 1;
  return expr;
}

/* Puts arguments in; false if there is none (an error is recorded) or the tree gets too deep. What
 * a node costs is summed here, once: every node but a leaf is made by adopting. */
static bool adopt(tsr__parser *p, tsr__expr *expr, int index, tsr__expr *arg)
{
  if (!expr || !arg) return false;
  expr->arg[index] = arg;
  int end = arg->at + arg->span;
  if (end > expr->at + expr->span) expr->span = end - expr->at;
  /* Recursion is bounded while it goes down (`depth` of the parser); but a + b + c ... is read by a
   * loop and its tree leans left, a level for each operator. */
  if (arg->depth >= expr->depth) expr->depth = arg->depth + 1;
  expr->size += arg->size;
  if (expr->depth > MAX_DEPTH) too_deep(p, arg->at, arg->span);
  else if (expr->size > TSR__PARSE_SIZE)
    tsr__parse_refuse(p, arg->at, arg->span,
                      "the expression is too large: chained comparisons and between repeat their "
                      "operands; name a large operand by an assign first");
  return expr->depth <= MAX_DEPTH && expr->size <= TSR__PARSE_SIZE;
}

static tsr__expr *pair(tsr__parser *p, int kind, int op, tsr__expr *a, tsr__expr *b)
{
  if (!a || !b) return NULL;
  tsr__expr *expr = node(p, kind, a->at, 2);
  if (!adopt(p, expr, 0, a) || !adopt(p, expr, 1, b)) return NULL;
  expr->op = (uint8_t)op;
  return expr;
}

/* An operand that stands in a second comparison. It is the same node, which is computed once; but
 * how a literal is read depends on what it stands beside, so there each is a node of its own.
 * (check.c writes the type of a literal into its node; that of a column is the same everywhere.) */
static tsr__expr *again(tsr__parser *p, tsr__expr *expr)
{
  if (!expr || expr->count || expr->kind == TSR__E_COLUMN) return expr;
  tsr__expr *copy = node(p, expr->kind, expr->at, 0);
  if (copy) *copy = *expr;
  return copy;
}

tsr__expr *tsr__parse_unexpected(tsr__parser *p, const char *expected)
{
  const tsr__token *t = &p->lexer.token;
  char found[TSR_MAX_RANK * 8];
  if (t->kind == TSR__T_END)
    return tsr__parse_refuse(p, t->at, 1, "the expression ends where %s was expected", expected);
  snprintf(found, sizeof found, "%.*s", t->span < 40 ? t->span : 40,
           p->lexer.formula->source + t->at);
  char hint[300];
  return tsr__parse_refuse(p, t->at, t->span, "found %s where %s was expected%s", found, expected,
                           tsr__hint_of_token(p, expected, hint, sizeof hint));
}

static bool expect(tsr__parser *p, const char *symbol, const char *words)
{
  if (!tsr__parse_at(p, symbol)) {
    tsr__parse_unexpected(p, words);
    return false;
  }
  return tsr__lex(&p->lexer);
}

/* ---- primaries --------------------------------------------------------------------------- */

/* The value of the next `?`, which stands where the token is. */
static tsr__expr *parameter(tsr__parser *p, tsr__expr *expr)
{
  if (p->params >= p->given->count)
    return tsr__parse_refuse(p, expr->at, 1, "this is '?' number %d, but %d value%s given",
                             p->params + 1, p->given->count,
                             p->given->count == 1 ? " was" : "s were");
  /* Unsigned integers that i64 holds come as signed ones, so that one kind is left to look at. */
  const tsr_scalar param = tsr__scalar_signed(p->given->param[p->params++]);
  expr->param = true;
  switch (param.kind) {
  case TSR_SCALAR_BOOL:
    expr->kind = TSR__E_BOOL;
    expr->i = param.i != 0;
    return expr;
  case TSR_SCALAR_INT:
    expr->kind = TSR__E_INT;
    expr->i = param.i;
    return expr;
  case TSR_SCALAR_FLOAT:
    expr->kind = TSR__E_FLOAT;
    expr->f = param.f;
    return expr;
  case TSR_SCALAR_TEXT: break;
  case TSR_SCALAR_UINT:
    return tsr__parse_refuse(
        p, expr->at, 1,
        "the integer %llu given for this '?' does not fit i64; give the number as a double",
        (unsigned long long)param.u);
  case TSR_SCALAR_NONE:
  default:
    return tsr__parse_refuse(p, expr->at, 1,
                             "the value for this '?' has no kind; give a number, bool or text");
  }
  /* A text that is NULL is how a C program passes null. */
  expr->kind = param.text ? TSR__E_TEXT : TSR__E_NULL;
  if (!param.text) return expr;
  size_t length = strlen(param.text);
  /* From here on it is a literal of the program, and is printed in names and errors as one: the
   * same rules. */
  if (length > TSR__PARSE_LENGTH || !tsr__good_text(param.text, length))
    return tsr__parse_refuse(p, expr->at, 1,
                             "the text given for this '?' is not UTF-8 or too long");
  expr->text = tsr__arena_text(p->lexer.arena, param.text, length);
  expr->length = (int)length;
  return expr->text ? expr : tsr__parse_no_memory(p);
}

/* A number, a text, a bool, null or the value of a `?`; all are leaves, so no adopting. */
static tsr__expr *literal(tsr__parser *p)
{
  tsr__token t = p->lexer.token;
  /* A null until one of the kinds below says otherwise; the word `null` matches none of them. */
  tsr__expr *expr = node(p, TSR__E_NULL, t.at, 0);
  if (!expr) return NULL;
  expr->span = t.span;
  expr->text = t.text;
  expr->length = t.length;
  expr->f = t.f;
  if (t.kind == TSR__T_INT) {
    expr->kind = TSR__E_INT;
    if (t.i >> 63) /* 2^63 may only follow a minus: see parse_unary */
      return tsr__parse_refuse(
          p, t.at, t.span,
          "the integer does not fit 64 bits; write the number with a point for a float");
    expr->i = (int64_t)t.i;
  } else if (t.kind == TSR__T_FLOAT) {
    expr->kind = TSR__E_FLOAT;
  } else if (t.kind == TSR__T_TEXT) {
    expr->kind = TSR__E_TEXT;
  } else if (at_word(p, "true") || at_word(p, "false")) {
    expr->kind = TSR__E_BOOL;
    expr->i = at_word(p, "true");
  } else if (tsr__parse_at(p, "?") && !parameter(p, expr)) {
    return NULL;
  }
  /* The token is read last: parameter() still needs it for its place. */
  return tsr__lex(&p->lexer) ? expr : NULL;
}

int tsr__name_in(const char *const *names, int count, const char *name)
{
  for (int i = 0; i < count; i++)
    if (!strcmp(names[i], name)) return i;
  return -1;
}

/* Three answers, the surest first: another language's name for it, a name that is spelled nearly
 * so, all there are. */
static tsr__expr *unknown_call(tsr__parser *p, const tsr__token *name)
{
  const char *elsewhere = tsr__hint_of_function(name->text);
  if (elsewhere)
    return tsr__parse_refuse(p, name->at, name->span, "there is no function '%.60s'; %s",
                             name->text, elsewhere);
  const char *all[TSR__FNS + TSR__AGGS];
  for (int i = 0; i < TSR__FNS; i++) all[i] = fn_names[i];
  for (int i = 0; i < TSR__AGGS; i++) all[TSR__FNS + i] = agg_names[i];
  int near = tsr__text_nearest(name->text, all, TSR__FNS + TSR__AGGS);
  if (near >= 0)
    return tsr__parse_refuse(p, name->at, name->span,
                             "there is no function '%.60s'; did you mean '%s'?", name->text,
                             all[near]);
  tsr__text list;
  tsr__text_init(&list, NULL);
  for (int i = 0; i < TSR__FNS + TSR__AGGS; i++)
    tsr__text_add(&list, "%s%s", i == TSR__FNS ? "; aggregates: " : i ? " " : "", all[i]);
  tsr__parse_refuse(p, name->at, name->span, "there is no function '%.60s'; the functions are: %s",
                    name->text, tsr__text_get(&list));
  tsr__text_free(&list);
  return NULL;
}

/* Reads "a, b)" into an array of the arena; the count, or -1. */
static int arguments(tsr__parser *p, tsr__expr ***out, int most, const tsr__token *name)
{
  tsr__expr **list = NULL;
  int count = 0, room = 0;
  /* "()" is an empty list, "(a,)" is an error as in SQL: a comma promises an argument. */
  if (tsr__parse_at(p, ")")) return tsr__lex(&p->lexer) ? 0 : -1;
  for (;;) {
    /* Refused before the argument is read: 'in (...)' with a million values costs a thousand. */
    if (count == most) {
      tsr__parse_refuse(p, name->at, name->span, "%.*s takes at most %d argument%s", name->span,
                        p->lexer.formula->source + name->at, most, most == 1 ? "" : "s");
      return -1;
    }
    if (count == room) {
      room = room ? 2 * room : 4;
      tsr__expr **more = tsr__arena_new(p->lexer.arena, (size_t)room * sizeof *more);
      if (!more) {
        tsr__parse_no_memory(p);
        return -1;
      }
      /* The old array stays in the arena; doubling makes all of them together as large as the
       * last. */
      if (count) memcpy(more, list, (size_t)count * sizeof *more);
      *out = list = more;
    }
    if (!(list[count++] = tsr__parse_expr(p))) return -1;
    if (tsr__parse_at(p, ")")) return tsr__lex(&p->lexer) ? count : -1;
    if (!expect(p, ",", "',' or ')'")) return -1;
  }
}

/* Lets an expression span its call: the ')' is the last thing before the current token that is no
 * blank. Its nodes may have been made of arguments alone (between), whose spans end before the
 * ')'. */
static tsr__expr *spanning(const tsr__parser *p, tsr__expr *expr, int at)
{
  int end = p->lexer.token.at;
  if (!expr) return NULL;
  while (end > at && p->lexer.formula->source[end - 1] != ')') end--;
  expr->at = at;
  expr->span = end - at;
  return expr;
}

static tsr__expr *call(tsr__parser *p, const tsr__token *name)
{
  /* Functions of rows and of values share one space of names; which it is decides where it may
   * stand (check.c). */
  int fn = tsr__name_in(fn_names, TSR__FNS, name->text);
  int agg = tsr__name_in(agg_names, TSR__AGGS, name->text);
  tsr__expr **arg = NULL;
  if (fn < 0 && agg < 0) return unknown_call(p, name);
  /* All that stands in parentheses is read before its number is judged, so that the error can say
   * both. */
  if (!tsr__lex(&p->lexer)) return NULL; /* past '(' */
  const uint8_t *counts = fn >= 0 ? fn_facts[fn] : agg_facts[agg];
  int least = counts[0], count = arguments(p, &arg, counts[1], name);
  if (count < 0) return NULL;
  if (count < least)
    return tsr__parse_refuse(p, name->at, name->span, "%s takes %d argument%s, not %d", name->text,
                             least, least == 1 ? "" : "s", count);
  /* x >= a and x <= b, made of two comparisons that exist: nothing behind the parser knows
   * between. */
  if (fn == TSR__F_BETWEEN) {
    tsr__expr *low = pair(p, TSR__E_BINARY, TSR__B_GE, arg[0], arg[1]);
    tsr__expr *high = pair(p, TSR__E_BINARY, TSR__B_LE, again(p, arg[0]), arg[2]);
    return spanning(p, pair(p, TSR__E_AND, 0, low, high), name->at);
  }
  /* adopt() refuses an `expr` that is NULL, but only where there are arguments: count() has
   * none. */
  tsr__expr *expr = node(p, fn >= 0 ? TSR__E_CALL : TSR__E_AGG, name->at, count);
  for (int i = 0; i < count; i++)
    if (!adopt(p, expr, i, arg[i])) return NULL;
  if (!expr) return NULL;
  expr->op = (uint8_t)(fn >= 0 ? fn : agg);
  return spanning(p, expr, name->at);
}

/* A name, which is a call where a parenthesis follows. */
static tsr__expr *column(tsr__parser *p)
{
  tsr__token name = p->lexer.token;
  if (!tsr__lex(&p->lexer)) return NULL;
  /* Only a bare name is called; "sum"(x) in double quotes is a column and then an error at '('. */
  if (name.kind == TSR__T_NAME && tsr__parse_at(p, "(")) return call(p, &name);
  if ((int)strlen(name.text) != name.length || !name.length)
    return tsr__parse_refuse(p, name.at, name.span, "this name is empty");
  tsr__expr *expr = node(p, TSR__E_COLUMN, name.at, 0);
  if (!expr) return NULL;
  expr->span = name.span;
  expr->text = name.text;
  expr->length = name.length;
  return expr;
}

/* Parentheses leave no node: the shape of the tree is all they mean. */
static tsr__expr *parenthesis(tsr__parser *p)
{
  int at = p->lexer.token.at;
  if (!tsr__lex(&p->lexer)) return NULL;
  tsr__expr *expr = tsr__parse_expr(p);
  if (!expr) return NULL;
  if (tsr__parse_at(p, ","))
    return tsr__parse_refuse(p, at, 1, "a list in parentheses is only possible after 'in'");
  return expect(p, ")", "')'") ? expr : NULL;
}

static tsr__expr *parse_primary(tsr__parser *p)
{
  const tsr__token *t = &p->lexer.token;
  if (t->kind == TSR__T_NAME || t->kind == TSR__T_QUOTED) return column(p);
  bool value = t->kind == TSR__T_INT || t->kind == TSR__T_FLOAT || t->kind == TSR__T_TEXT ||
               tsr__parse_at(p, "?") || at_word(p, "true") || at_word(p, "false") ||
               at_word(p, "null");
  if (value) return literal(p);
  if (tsr__parse_at(p, "(")) return parenthesis(p);
  return tsr__parse_unexpected(p, "a column, a value or '('");
}

/* ---- operators --------------------------------------------------------------------------- */

/* Right of `**` stands a unary expression, whose own `**` is read by it: 2 ** 3 ** 2 is 2 ** 9, and
 * 2 ** -1 needs no parentheses. Left of it stands a primary: -x ** 2 is -(x ** 2). */
static tsr__expr *parse_power(tsr__parser *p)
{
  tsr__expr *base = parse_primary(p);
  if (!base || !tsr__parse_at(p, "**")) return base;
  if (++p->depth > MAX_DEPTH) return too_deep(p, base->at, base->span);
  if (!tsr__lex(&p->lexer)) return NULL;
  tsr__expr *expr = pair(p, TSR__E_BINARY, TSR__B_POW, base, parse_unary(p));
  p->depth--;
  return expr;
}

/* -9223372036854775808 has no positive twin: the minus is read together with its number. */
static tsr__expr *least_integer(tsr__parser *p, int at)
{
  tsr__expr *expr = node(p, TSR__E_INT, at, 0);
  if (!expr) return NULL;
  expr->i = INT64_MIN;
  expr->span = p->lexer.token.at + p->lexer.token.span - at;
  return tsr__lex(&p->lexer) ? expr : NULL;
}

/* A minus before a number becomes part of it, so that -1 is a literal as 1 is: it takes the type of
 * what it meets, and may stand in a list behind `in`. */
static tsr__expr *negate(tsr__parser *p, int at, tsr__expr *arg)
{
  if (!arg) return NULL;
  /* INT64_MIN has no negative in i64: -(-9223372036854775808) is left to the program, where
   * integers wrap. */
  bool number = (arg->kind == TSR__E_INT && arg->i != INT64_MIN) || arg->kind == TSR__E_FLOAT;
  if (number) {
    arg->i = arg->kind == TSR__E_INT ? -arg->i : 0;
    arg->f = -arg->f;
    arg->span += arg->at - at;
    arg->at = at;
    return arg;
  }
  tsr__expr *expr = node(p, TSR__E_NEG, at, 1);
  return adopt(p, expr, 0, arg) ? expr : NULL;
}

static tsr__expr *parse_unary(tsr__parser *p)
{
  int at = p->lexer.token.at;
  bool minus = tsr__parse_at(p, "-");
  if (!minus && !tsr__parse_at(p, "+")) return parse_power(p);
  if (++p->depth > MAX_DEPTH) return too_deep(p, at, 1);
  if (!tsr__lex(&p->lexer)) return NULL;
  tsr__expr *expr;
  /* The lexer lets 2^63 pass only for this. */
  if (minus && p->lexer.token.kind == TSR__T_INT && p->lexer.token.i >> 63)
    expr = least_integer(p, at);
  else expr = minus ? negate(p, at, parse_unary(p)) : parse_unary(p);
  p->depth--;
  return expr;
}

/* A loop, not a recursion to the right: a - b - c is (a - b) - c, and a thousand terms need no
 * stack. */
static tsr__expr *parse_product(tsr__parser *p)
{
  static const char *const symbol[] = { "*", "/", "//", "%" };
  static const uint8_t op[] = { TSR__B_MUL, TSR__B_DIV, TSR__B_FLOORDIV, TSR__B_MOD };
  tsr__expr *expr = parse_unary(p);
  while (expr) {
    int found = -1;
    for (int i = 0; i < 4; i++)
      if (tsr__parse_at(p, symbol[i])) found = i;
    if (found < 0) return expr;
    if (!tsr__lex(&p->lexer)) return NULL;
    expr = pair(p, TSR__E_BINARY, op[found], expr, parse_unary(p));
  }
  return NULL;
}

static tsr__expr *parse_sum(tsr__parser *p)
{
  tsr__expr *expr = parse_product(p);
  while (expr && (tsr__parse_at(p, "+") || tsr__parse_at(p, "-"))) {
    int op = tsr__parse_at(p, "+") ? TSR__B_ADD : TSR__B_SUB;
    if (!tsr__lex(&p->lexer)) return NULL;
    expr = pair(p, TSR__E_BINARY, op, expr, parse_product(p));
  }
  return expr;
}

/* "(1, 2, 3)" after in. */
static tsr__expr *parse_in(tsr__parser *p, tsr__expr *left, bool negated)
{
  tsr__expr **list = NULL;
  if (!tsr__lex(&p->lexer)) return NULL; /* past 'in' */
  tsr__token open = p->lexer.token;
  if (!expect(p, "(", "'(' and a list")) return NULL;
  int count = arguments(p, &list, MAX_LIST, &open);
  if (count < 0) return NULL;
  if (!count)
    return tsr__parse_refuse(p, open.at, 1,
                             "the list after 'in' is empty; write at least one value");
  /* Counted like any other argument, the value that is looked for is the first: one node, one
   * walk. */
  tsr__expr *expr = node(p, TSR__E_IN, left->at, count + 1);
  if (!adopt(p, expr, 0, left)) return NULL;
  for (int i = 0; i < count; i++)
    if (!adopt(p, expr, i + 1, list[i])) return NULL;
  expr->negated = negated;
  return expr;
}

static tsr__expr *parse_is(tsr__parser *p, tsr__expr *left)
{
  if (!tsr__lex(&p->lexer)) return NULL; /* past 'is' */
  bool negated = at_word(p, "not");
  if (negated && !tsr__lex(&p->lexer)) return NULL;
  /* Two words for one question: NaN is a number that compares with nothing, null is no value. */
  if (p->lexer.token.kind == TSR__T_NAME && !strcmp(p->lexer.token.text, "nan"))
    return tsr__parse_refuse(p, p->lexer.token.at, p->lexer.token.span,
                             "to look for NaN write %sis_nan(x)", negated ? "not " : "");
  if (!at_word(p, "null"))
    return tsr__parse_unexpected(p, negated ? "'null'" : "'null' or 'not null'");
  tsr__expr *expr = node(p, TSR__E_ISNULL, left->at, 1);
  if (!adopt(p, expr, 0, left)) return NULL;
  /* The span ends at the word null, which is no argument that adopt() could have counted. */
  expr->span = p->lexer.token.at + p->lexer.token.span - left->at;
  expr->negated = negated;
  return tsr__lex(&p->lexer) ? expr : NULL;
}

static int comparison(const tsr__parser *p)
{
  for (int op = TSR__B_EQ; op <= TSR__B_GE; op++)
    if (tsr__parse_at(p, binary_names[op])) return op;
  return -1;
}

/* "is null", "in (...)" or "not in (...)" behind an operand. */
static tsr__expr *parse_question(tsr__parser *p, tsr__expr *left)
{
  if (at_word(p, "is")) return parse_is(p, left);
  bool negated = at_word(p, "not");
  if (negated && !tsr__lex(&p->lexer)) return NULL;
  return at_word(p, "in") ? parse_in(p, left, negated)
                          : tsr__parse_unexpected(p, "'in' after 'not'");
}

/* A chain of links joined by `and`: each compares with the last operand of the one before. A
 * question has no operand behind it: what follows is asked of its answer.
 *
 *   a < b <= c          a < b and b <= c
 *   a < b is null       a < b and b is null
 *   a is null == c      (a is null) == c */
static tsr__expr *parse_compare(tsr__parser *p)
{
  tsr__expr *left = parse_sum(p), *before = NULL, *link = NULL, *next = NULL;
  /* Links so far: `before` (all but the last, joined by and), `link` (the last), `next` (its right
   * operand, which the next comparison shares; NULL behind a question). */
  while (left) {
    int op = comparison(p);
    if (op < 0 && !at_word(p, "is") && !at_word(p, "in") && !at_word(p, "not")) break;
    /* Each new link puts the one before it behind an `and`, so that the tree leans left like
     * others. */
    if (next) before = before ? pair(p, TSR__E_AND, 0, before, link) : link;
    if (next && !before) return NULL;
    if (next) left = again(p, next);
    else if (link) left = link;
    next = NULL;
    if (op >= 0) {
      if (!tsr__lex(&p->lexer) || !(next = parse_sum(p))) return NULL;
      link = pair(p, TSR__E_BINARY, op, left, next);
    } else {
      link = parse_question(p, left);
    }
    if (!link) return NULL;
  }
  return before ? pair(p, TSR__E_AND, 0, before, link) : link ? link : left;
}

static tsr__expr *parse_not(tsr__parser *p)
{
  int at = p->lexer.token.at;
  /* `not` binds looser than comparisons, as in Python and SQL: not a == b is not (a == b). */
  if (!at_word(p, "not")) return parse_compare(p);
  /* A thousand `not` in a row recurse without passing parse_or, which would count them. */
  if (++p->depth > MAX_DEPTH) return too_deep(p, at, 3);
  if (!tsr__lex(&p->lexer)) return NULL;
  tsr__expr *arg = parse_not(p);
  p->depth--;
  if (!arg) return NULL;
  tsr__expr *expr = node(p, TSR__E_NOT, at, 1);
  return adopt(p, expr, 0, arg) ? expr : NULL;
}

static tsr__expr *parse_and(tsr__parser *p)
{
  tsr__expr *expr = parse_not(p);
  while (expr && at_word(p, "and")) {
    if (!tsr__lex(&p->lexer)) return NULL;
    expr = pair(p, TSR__E_AND, 0, expr, parse_not(p));
  }
  return expr;
}

tsr__expr *tsr__parse_expr(tsr__parser *p)
{
  /* Each parenthesis, argument and item comes through here, so this bounds them all. */
  if (++p->depth > MAX_DEPTH) return too_deep(p, p->lexer.token.at, 1);
  tsr__expr *expr = parse_and(p);
  while (expr && at_word(p, "or")) {
    if (!tsr__lex(&p->lexer)) return NULL;
    expr = pair(p, TSR__E_OR, 0, expr, parse_and(p));
  }
  p->depth--;
  return expr;
}
