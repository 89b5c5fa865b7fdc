/* Text by dictionary: what an expression asks of texts is asked once of each distinct text, on the
 * host; rows only look their code up. The look-up fuses with the rest.
 *
 *   who < 'b'      codes      0 1 0 2        dictionary   0 "ann"  1 "bob"  2 "amy"
 *                  table      true false true
 *                  result     true false true true */
#include "frame/lower/functions.h"

int tsr__text_order(const char *a, int64_t a_length, const char *b, int64_t b_length)
{
  int64_t shorter = a_length < b_length ? a_length : b_length;
  /* memcmp compares bytes as unsigned: the order of UTF-8 is that of code points. */
  int order = shorter ? memcmp(a, b, (size_t)shorter) : 0;
  if (order) return order;
  return a_length < b_length ? -1 : a_length > b_length;
}

/* The code of a text, -1 if it is not there; of a list without repeats. One by one: it is asked
 * once a literal, while building a table of the dictionary would cost a pass as well. */
static int32_t dict_find(const tsr__dict *dict, const char *text, int64_t length)
{
  for (int32_t code = 0; code < dict->count; code++) {
    int64_t found;
    const char *entry = tsr__dict_get(dict, code, &found);
    if (found == length && !memcmp(entry, text, (size_t)length)) return code;
  }
  return -1;
}

/* A scope's hold on a dictionary. */
typedef struct holding {
  tsr__node node;
  tsr__dict *dict;
} holding;

static void let_go(tsr__node *node)
{
  tsr__dict_release(((holding *)node)->dict);
}

/* As a node without an array: it lives as long as others of its scope do. On success the scope has
 * the reference that the caller had. */
const tsr__dict *tsr__dict_in(tsr_scope *scope, tsr__dict *dict)
{
  holding *own = dict ? tsr__node_new(scope, sizeof *own, NULL, let_go) : NULL;
  if (own) own->dict = dict;
  else tsr__dict_release(dict);
  return own ? dict : NULL;
}

void *tsr__lower_room(tsr__lower *low, int64_t count, size_t element)
{
  void *out = tsr__arena_new(&low->scope->arena, (size_t)(count > 0 ? count : 1) * element);
  if (!out) tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
  return out;
}

/* Whole on every device, since any row may look up any entry. */
tsr_array *tsr__table_leaf(tsr__lower *low, tsr_dtype dtype, const void *data, int64_t count)
{
  const tsr_sharding *rows = low->in->sharding;
  tsr_sharding whole = { 0 };
  if (rows && rows->mesh) whole = tsr_on_dims(rows->mesh, 0, NULL);
  return tsr_put_at(low->scope, data, dtype, (tsr_shape){ 1, { count } }, whole, low->site);
}

/* table[codes]; an empty dictionary has nulls only, and any value will do. */
tsr_array *tsr__look_up(tsr__lower *low, tsr_dtype dtype, const void *table, int64_t count,
                        tsr_array *codes)
{
  if (!count) return tsr__const_i(low, dtype, 0);
  return tsr__op2(low, TSR__OP_TAKE, tsr__table_leaf(low, dtype, table, count), codes);
}

const tsr__dict *tsr__lower_dict(tsr__lower *low, tsr__dict *made, const tsr__progress *progress)
{
  const tsr__dict *dict = tsr__dict_in(low->scope, made);
  if (dict) return dict;
  if (progress && progress->stop) tsr__lower_cancelled(low);
  else tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
  return NULL;
}

/* A dictionary of one text, of which every row has code 0. */
tsr__col tsr__text_literal(tsr__lower *low, const tsr__expr *expr)
{
  tsr__dict *dict = tsr__dict_new(&low->scope->rt->heap, 1, expr->length);
  if (dict) memcpy(dict->bytes, expr->text, (size_t)expr->length);
  return (tsr__col){ .type = TSR_COL_TEXT,
                     .values = tsr__const_i(low, TSR_I32, 0),
                     .dict = tsr__lower_dict(low, dict, NULL) };
}

bool tsr__text_distinct(tsr__lower *low, tsr__col *a)
{
  const tsr__dict *dict = a->dict;
  if (a->type != TSR_COL_TEXT || !dict || !dict->repeats) return true;
  tsr__progress progress = { .rt = low->scope->rt, .what = TSR__PROGRAM };
  const tsr__dict_once *once = tsr__dict_distinct(dict, &progress);
  if (!once) {
    (void)tsr__lower_dict(low, NULL, &progress);
    return false;
  }
  /* No text stood there twice: codes are what they should be. */
  if (!once->dict) return true;
  a->values = tsr__spread(low, tsr__look_up(low, TSR_I32, once->map, dict->count, a->values));
  a->dict = once->dict;
  return true;
}

/* ---- predicates ---------------------------------------------------------------------------- */

static const uint16_t ops[] = { TSR__OP_EQ, TSR__OP_NE, TSR__OP_LT,
                                TSR__OP_LE, TSR__OP_GT, TSR__OP_GE };

bool tsr__order_holds(int op, int order)
{
  switch (op) {
  case TSR__B_EQ: return order == 0;
  case TSR__B_NE: return order != 0;
  case TSR__B_LT: return order < 0;
  case TSR__B_LE: return order <= 0;
  case TSR__B_GT: return order > 0;
  default: return order >= 0;
  }
}

/* A literal that all texts of a list are compared with. */
typedef struct comparing {
  const tsr__dict *dict;
  const tsr__expr *text;
  bool *table;
  int op;
  bool told; /* of equal ones, where only these are marked */
} comparing;

static void compare_piece(void *user, int64_t piece, int worker)
{
  (void)worker;
  comparing *c = user;
  int64_t end, length;
  for (int64_t i = tsr__texts_piece(piece, c->dict->count, &end); i < end; i++) {
    const char *text = tsr__dict_get(c->dict, i, &length);
    c->table[i] =
        tsr__order_holds(c->op, tsr__text_order(text, length, c->text->text, c->text->length));
  }
}

static void mark_piece(void *user, int64_t piece, int worker)
{
  (void)worker;
  comparing *c = user;
  int64_t end, length;
  for (int64_t i = tsr__texts_piece(piece, c->dict->count, &end); i < end; i++) {
    const char *text = tsr__dict_get(c->dict, i, &length);
    if (length == c->text->length && !memcmp(text, c->text->text, (size_t)length))
      c->table[i] = c->told;
  }
}

/* Column against literal: equality compares codes, order looks up, and so does equality where a
 * text may have several codes. */
static tsr_array *against(tsr__lower *low, tsr__col column, int op, const tsr__expr *text)
{
  bool equal = op == TSR__B_EQ || op == TSR__B_NE;
  comparing c = { .dict = column.dict, .text = text, .op = op, .told = op == TSR__B_EQ };
  if (equal && !column.dict->repeats) {
    /* A text that is not there has code -1, which no row has: equal to none, different from all. */
    int32_t code = dict_find(column.dict, text->text, text->length);
    return tsr__op2(low, (tsr__op)ops[op - TSR__B_EQ], column.values,
                    tsr__const_i(low, TSR_I32, code));
  }
  c.table = tsr__lower_room(low, column.dict->count, sizeof *c.table);
  if (!c.table) return column.values;
  if (equal && !c.told) memset(c.table, 1, (size_t)column.dict->count);
  tsr__texts_each(low, column.dict->count, equal ? mark_piece : compare_piece, &c);
  return tsr__look_up(low, TSR_BOOL, c.table, column.dict->count, column.values);
}

/* a < b is b > a. */
static int turned(int op)
{
  static const uint8_t other[] = {
    TSR__B_EQ, TSR__B_NE, TSR__B_GT, TSR__B_GE, TSR__B_LT, TSR__B_LE
  };
  return other[op - TSR__B_EQ];
}

/* A literal is found or looked up in the other's dictionary; of two columns the codes are made to
 * compare as texts do. */
tsr__col tsr__text_compare(tsr__lower *low, const tsr__expr *expr)
{
  const tsr__expr *a = expr->arg[0], *b = expr->arg[1];
  tsr__col out = { .type = TSR_COL_BOOL };
  bool literal_left = a->kind == TSR__E_TEXT, literal_right = b->kind == TSR__E_TEXT;
  if (literal_left || literal_right) {
    tsr__col column = tsr__settle(low, tsr__lower_expr(low, literal_right ? a : b));
    out.valid = column.valid;
    /* No dictionary: every row is null, and any value will do. */
    if (!column.dict) out.values = tsr__const_i(low, TSR_BOOL, 0);
    else if (literal_right) out.values = against(low, column, expr->op, b);
    else out.values = against(low, column, turned(expr->op), a);
    return out;
  }
  tsr__col left = tsr__settle(low, tsr__lower_expr(low, a));
  tsr__col right = tsr__settle(low, tsr__lower_expr(low, b));
  if (!tsr__text_distinct(low, &left) || !tsr__text_distinct(low, &right)) return left;
  out.valid = tsr__both(low, left.valid, right.valid);
  bool equal = expr->op == TSR__B_EQ || expr->op == TSR__B_NE;
  if (!tsr__text_meet(low, &left, &right, equal)) return left;
  out.values = tsr__op2(low, (tsr__op)ops[expr->op - TSR__B_EQ], left.values, right.values);
  return out;
}

/* One table for any number of literals: a row looks its code up once. */
tsr__col tsr__text_in(tsr__lower *low, const tsr__expr *expr)
{
  tsr__col column = tsr__settle(low, tsr__lower_expr(low, expr->arg[0]));
  tsr__col out = { .type = TSR_COL_BOOL, .valid = column.valid };
  int64_t count = column.dict ? column.dict->count : 0;
  bool *table = tsr__lower_room(low, count, sizeof *table);
  out.values = column.values;
  if (!table) return out;
  for (int64_t code = 0; code < count; code++) table[code] = expr->negated;
  for (int i = 1; i < expr->count && count; i++) {
    if (tsr__lower_stops(low, -1)) break;
    comparing c = {
      .dict = column.dict, .text = expr->arg[i], .table = table, .told = !expr->negated
    };
    tsr__texts_each(low, count, mark_piece, &c);
  }
  out.values = tsr__look_up(low, TSR_BOOL, table, count, column.values);
  return out;
}

/* ---- making dictionaries ------------------------------------------------------------------- */

void tsr__texts_open(tsr__texts *texts, tsr__lower *low)
{
  *texts = (tsr__texts){ .low = low, .progress = { .rt = low->scope->rt, .what = TSR__PROGRAM } };
  tsr__dict_local_init(&texts->local, &low->scope->rt->heap);
  texts->local.progress = &texts->progress;
}

int32_t tsr__texts_code(tsr__texts *texts, const char *text, size_t length)
{
  bool added;
  int32_t code = tsr__dict_code(&texts->local, length ? text : "", length, true, &added);
  /* A failure is kept in the dictionary, and told when it is closed. */
  return texts->local.failed ? 0 : code;
}

const tsr__dict *tsr__texts_close(tsr__texts *texts, int32_t *codes, int64_t count)
{
  tsr__dict_local *all = &texts->local;
  tsr__dict *made = all->failed ? NULL : tsr__dict_unify(all->heap, &all, 1);
  int32_t run = 0;
  for (int64_t i = 0; made && made->repeats && i < count; i++)
    codes[i] = tsr__dict_final(all, codes[i], &run);
  tsr__dict_local_free(all);
  return tsr__lower_dict(texts->low, made, &texts->progress);
}

/* ---- functions ----------------------------------------------------------------------------- */

enum { ALL_PAIRS = 65536 };

/* Fills `pairs` and `index`: all pairs where they are few, else those that occur, which a run
 * tells: false until then. All pairs of 256 by 256 texts are made whether they occur or not, so no
 * run has to find out. Where one side has one text there are as many pairs as texts of the
 * other. */
static bool find_pairs(tsr__lower *low, const tsr__expr *expr, int part, tsr__text_domain *d)
{
  int64_t texts = d->b.dict->count, all = d->a.dict->count * texts;
  tsr_array *first = tsr__cast(low, d->a.values, TSR_I64);
  tsr_array *second = tsr__cast(low, d->b.values, TSR_I64);
  first = tsr__op2(low, TSR__OP_MUL, first, tsr__const_i(low, TSR_I64, texts));
  d->index = tsr__op2(low, TSR__OP_ADD, first, second);
  d->count = all;
  if (all <= ALL_PAIRS || texts == 1 || d->a.dict->count == 1) return true;
  tsr__distinct ask = {
    .expr = expr, .part = part, .values = d->index, .mask = tsr__both(low, d->a.valid, d->b.valid)
  };
  const tsr__distinct *pairs = tsr__ask_distinct(low, &ask);
  if (!pairs) return false;
  d->pairs = pairs->list;
  d->count = pairs->count;
  d->index = tsr__place_of(low, pairs);
  return true;
}

bool tsr__is_text_test(int fn)
{
  return fn == TSR__F_CONTAINS || fn == TSR__F_STARTS_WITH || fn == TSR__F_ENDS_WITH;
}

tsr__col tsr__all_null(tsr__lower *low, int type)
{
  tsr__col null = { .type = TSR__COL_NULL,
                    .values = tsr__const_i(low, TSR_I64, 0),
                    .valid = tsr__const_i(low, TSR_BOOL, 0) };
  return type == TSR__COL_NULL ? null : tsr__convert(low, null, type);
}

/* `part` of an ask is the step of the concat, so that each finds its own pairs again. */
tsr__col tsr__lower_text_fn(tsr__lower *low, const tsr__expr *expr)
{
  int texts = tsr__is_text_test(expr->op) ? 2 : expr->op == TSR__F_CONCAT ? expr->count : 1;
  bool asks = tsr__is_text_test(expr->op) || expr->op == TSR__F_LENGTH;
  tsr__text_domain d = { 0 };
  const tsr__expr *of = asks ? tsr__text_inner(expr, &d.depth) : expr->arg[0];
  d.a = tsr__settle(low, tsr__lower_expr(low, of));
  /* A concat of several is made of two at a time: its result so far is `a` of the next step. */
  for (int i = 1; i <= texts; i++) {
    bool two = i < texts;
    if (!two && i > 1) break;
    if (two) d.b = tsr__settle(low, tsr__lower_expr(low, expr->arg[i]));
    bool none = !d.a.dict || !d.a.dict->count || (two && (!d.b.dict || !d.b.dict->count));
    if (none) return tsr__all_null(low, expr->type); /* one is a bare null, or nulls only */
    /* Pairs of texts that repeat would be as many as there are rows. */
    bool pairs = two && d.a.dict->count > 1 && d.b.dict->count > 1;
    if (pairs && (!tsr__text_distinct(low, &d.a) || !tsr__text_distinct(low, &d.b)))
      return tsr__all_null(low, expr->type);
    d.pairs = NULL;
    d.count = d.a.dict->count;
    d.index = d.a.values;
    /* Not known yet: nulls stand in until a run has told which pairs occur. */
    if (two && !find_pairs(low, expr, i, &d)) return tsr__all_null(low, expr->type);
    d.a = tsr__text_apply(low, expr, &d);
    d.b = (tsr__col){ 0 };
  }
  return d.a;
}
