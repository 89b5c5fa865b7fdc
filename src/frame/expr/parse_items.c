/* What whole texts hold: one expression, a list of named ones, keys with their orders, pairs of
 * keys. */
#include "frame/expr/parse_inner.h"

#define FEW_ITEMS 4 /* room to begin with */

/* What a text holds. */
enum items { ONE, ITEMS, KEYS, PAIRS };

/* "name =" before an expression; false on an error. A name alone is put back by reading again. */
static bool item_name(tsr__parser *p, tsr__item *item)
{
  /* Two tokens must be seen to know a name from an expression. A lexer is a value: a copy of it is
   * a place in the text to go back to. */
  tsr__lexer before = p->lexer;
  tsr__token name = before.token;
  if (name.kind != TSR__T_NAME && name.kind != TSR__T_QUOTED) return true;
  if (!tsr__lex(&p->lexer)) return false;
  if (!tsr__parse_at(p, "=")) {
    p->lexer = before;
    return true;
  }
  if (!name.length || (int)strlen(name.text) != name.length) {
    tsr__parse_refuse(p, name.at, name.span, "this name is empty");
    return false;
  }
  *item = (tsr__item){ name.text, true, name.at, name.span, NULL, NULL };
  return tsr__lex(&p->lexer);
}

/* The name of an unnamed item: a column's own, else its text. So count() without a name is found
 * again by asking for "count()". */
static bool default_name(tsr__parser *p, tsr__item *item)
{
  if (item->expr->kind == TSR__E_COLUMN) {
    item->name = item->expr->text;
    return true;
  }
  tsr__text text;
  /* Printed, not copied from the text: blanks and parentheses that mean nothing would make other
   * names. */
  tsr__text_init(&text, p->lexer.arena->heap);
  tsr__expr_print(item->expr, &text);
  if (!text.failed) item->name = tsr__arena_text(p->lexer.arena, tsr__text_get(&text), text.length);
  tsr__text_free(&text);
  if (!item->name) tsr__parse_no_memory(p);
  return item->name != NULL;
}

/* Together the items of a text are no larger than one may be. `size` was bounded for each; a list
 * of many large ones would be as slow as one larger. */
static bool add_size(tsr__parser *p, const tsr__expr *expr)
{
  p->size += expr->size;
  if (p->size <= TSR__PARSE_SIZE) return true;
  return tsr__parse_refuse(
             p, expr->at, expr->span,
             "this expression makes the list too large: chained comparisons and between repeat "
             "their operands; name a large operand by an assign first") != NULL;
}

/* "left = right", or an expression that is both: then it is read again, since each tree is checked
 * against columns of its own. */
static bool parse_pair(tsr__parser *p, tsr__item *item)
{
  tsr__lexer before = p->lexer;
  *item = (tsr__item){ .name = "", .at = before.token.at, .left = tsr__parse_expr(p) };
  if (!item->left) return false;
  /* A pair has no place for a name, so '=' stands for the two keys; '==' would be a bool, and is
   * what users of SQL write. */
  if (!tsr__parse_at(p, "=")) {
    if (item->left->kind == TSR__E_BINARY && item->left->op == TSR__B_EQ)
      return tsr__parse_refuse(p, item->at, item->left->span,
                               "write '=' between the left and the right key");
    /* Values of `?` would be taken twice by reading again; keys are given none. */
    p->lexer = before;
  } else if (!tsr__lex(&p->lexer)) {
    return false;
  }
  item->expr = tsr__parse_expr(p);
  if (item->expr) item->span = item->expr->at + item->expr->span - item->at;
  return item->expr && add_size(p, item->left) && add_size(p, item->expr);
}

static bool parse_item(tsr__parser *p, tsr__item *item, bool list)
{
  *item = (tsr__item){ 0 };
  if (list && !item_name(p, item)) return false;
  item->expr = tsr__parse_expr(p);
  if (!item->expr || !add_size(p, item->expr)) return false;
  /* Errors about an item point at its name where it has one: a name that stands twice is such an
   * error. */
  if (!item->named) {
    item->at = item->expr->at;
    item->span = item->expr->span;
  }
  return item->named || default_name(p, item);
}

/* A key that is a value is the same in every row: who writes 2 wants the second column, as in SQL,
 * and who writes 'a' the column of that name. */
static bool check_key(tsr__parser *p, const tsr__item *item)
{
  int kind = item->expr->kind;
  bool text = kind == TSR__E_TEXT;
  if (item->named || !(text || kind == TSR__E_INT || kind == TSR__E_FLOAT)) return true;
  const char *way = text ? "write a name without quotes, or in double quotes"
                         : "write a column's name, not its number";
  return tsr__parse_refuse(p, item->at, item->span,
                           "this key is a value, the same in every row; %s", way) != NULL;
}

/* Whether the token is a word that has a meaning only behind a key; then it is read. asc, desc,
 * nulls, first and last are no keywords: columns may be called so. Behind a whole key nothing but
 * these can stand, so there is no doubt which is meant. */
static bool key_word(tsr__parser *p, const char *word)
{
  const tsr__token *t = &p->lexer.token;
  return t->kind == TSR__T_NAME && !strcmp(t->text, word) && tsr__lex(&p->lexer);
}

/* "desc nulls first" behind a key. */
static bool parse_order(tsr__parser *p, tsr__order *order)
{
  *order = (tsr__order){ 0 };
  order->descending = key_word(p, "desc");
  order->given = order->descending || key_word(p, "asc");
  if (!key_word(p, "nulls")) return !p->lexer.error->status;
  order->given = true;
  order->nulls_first = key_word(p, "first");
  if (order->nulls_first || key_word(p, "last")) return true;
  return tsr__parse_unexpected(p, "'first' or 'last' after 'nulls'") != NULL;
}

/* Room for twice as many elements in the arena, where the old ones stay; NULL: out of memory. */
static void *twice(tsr__parser *p, const void *old, int count, size_t element)
{
  size_t used = (size_t)count * element;
  void *out = tsr__arena_new(p->lexer.arena, count ? 2 * used : FEW_ITEMS * element);
  if (!out) tsr__parse_no_memory(p);
  else if (count) memcpy(out, old, used);
  return out;
}

/* There are at most as many items as TSR__PARSE_LENGTH has room for. An item takes two bytes at
 * least, and its comma. */
static bool parse_items(tsr__parser *p, enum items what, tsr__formula *out, tsr__order **order)
{
  bool list = what != ONE;
  tsr__item *items = NULL;
  tsr__order *orders = NULL;
  int count = 0, room = 0;
  do {
    if (count && !tsr__lex(&p->lexer)) return false;
    if (count == room) {
      items = twice(p, items, count, sizeof *items);
      if (order) orders = twice(p, orders, count, sizeof *orders);
      if (!items || (order && !orders)) return false;
      room = count ? 2 * count : FEW_ITEMS;
    }
    bool fine = what == PAIRS ? parse_pair(p, &items[count]) : parse_item(p, &items[count], list);
    if (!fine || (order && !check_key(p, &items[count]))) return false;
    if (order && !parse_order(p, &orders[count])) return false;
    count++;
  } while (list && tsr__parse_at(p, ","));
  if (p->lexer.token.kind != TSR__T_END) {
    tsr__parse_unexpected(p, order           ? "an operator, 'asc', 'desc', 'nulls', ',' or the end"
                             : what == PAIRS ? "an operator, '=', ',' or the end"
                             : list          ? "an operator, ',' or the end"
                                             : "an operator or the end");
    return false;
  }
  out->item = items;
  if (order) *order = orders;
  out->count = count;
  return true;
}

static tsr_status take_text(const tsr__parse_ask *ask, tsr__arena *arena, tsr__formula *out,
                            tsr__error *error)
{
  /* Checked before anything is read: hostile texts from files of queries meet this first. */
  const char *text = ask->formula ? ask->formula->text : NULL;
  if (!text)
    return tsr__error_set(error, TSR_EARG, "%s: the expression is NULL; give a text", ask->what);
  if (ask->formula->count < 0 || ask->formula->count > TSR_MAX_PARAMS)
    return tsr__error_set(error, TSR_EARG, "%s: an expression takes 0 to %d values, not %d",
                          ask->what, TSR_MAX_PARAMS, ask->formula->count);
  /* TSR__PARSE_LENGTH keeps every place in the text an int. */
  size_t length = strlen(text);
  if (length > TSR__PARSE_LENGTH)
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: the expression has %zu bytes; at most %d are "
                          "allowed",
                          ask->what, length, TSR__PARSE_LENGTH);
  /* The text is UTF-8 from here on; lexer and errors step by characters without looking again. */
  if (!tsr__good_text(text, length))
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: the expression is not UTF-8 text or holds control characters",
                          ask->what);
  /* Copied: errors and the names of columns point into it as long as the arena lives, callers'
   * texts may be gone. */
  out->source = tsr__arena_text(arena, text, length);
  out->length = (int)length;
  out->what = ask->what;
  if (!out->source) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", ask->what);
  return TSR_OK;
}

static tsr_status parse(const tsr__parse_ask *ask, tsr__arena *arena, tsr__keylist *out,
                        enum items what, tsr__error *error)
{
  tsr__formula formula = { 0 };
  if (take_text(ask, arena, &formula, error)) return error->status;
  tsr__parser p = { .lexer = { &formula, arena, error, 0, { 0 } }, .given = ask->formula };
  bool fine = tsr__lex(&p.lexer);
  if (fine && p.lexer.token.kind == TSR__T_END)
    return tsr__error_set(error, TSR_EPARSE, "%s: the expression is empty; write one", ask->what);
  fine = fine && parse_items(&p, what, &formula, what == KEYS ? &out->order : NULL);
  /* Too many `?` are refused at the place of the first that finds no value; too few only here. */
  if (fine && p.params < ask->formula->count)
    return tsr__caret(error, TSR_EPARSE, (tsr__place){ &formula, 0, formula.length },
                      "%d value%s given, but the expression has %d '?'", ask->formula->count,
                      ask->formula->count == 1 ? " was" : "s were", p.params);
  /* Whoever said what is wrong said it first; this is kept only where no one did. */
  if (!fine) {
    tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", ask->what);
    return error->status;
  }
  out->formula = formula;
  return TSR_OK;
}

tsr_status tsr__parse(const tsr__parse_ask *ask, tsr__arena *arena, tsr__formula *out,
                      tsr__error *error)
{
  tsr__keylist list;
  tsr_status status = parse(ask, arena, &list, ask->list ? ITEMS : ONE, error);
  if (!status) *out = list.formula;
  return status;
}

tsr_status tsr__parse_keys(const char *what, const char *text, tsr__arena *arena, tsr__keylist *out,
                           tsr__error *error)
{
  tsr_formula formula = { .text = text };
  tsr__parse_ask ask = { what, &formula, true };
  if (!text)
    return tsr__error_set(error, TSR_EARG, "%s: the keys are NULL; name at least one", what);
  return parse(&ask, arena, out, KEYS, error);
}

tsr_status tsr__parse_pairs(const char *what, const char *text, tsr__arena *arena,
                            tsr__formula *out, tsr__error *error)
{
  tsr_formula formula = { .text = text };
  tsr__parse_ask ask = { what, &formula, true };
  tsr__keylist list;
  if (!text)
    return tsr__error_set(error, TSR_EARG, "%s: the keys are NULL; name at least one", what);
  tsr_status status = parse(&ask, arena, &list, PAIRS, error);
  if (!status) *out = list.formula;
  return status;
}
