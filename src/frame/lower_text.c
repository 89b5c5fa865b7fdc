/* Text by dictionary: what an expression asks of texts is asked once of each distinct text, on the
 * host; rows only look their code up. The look-up fuses with the rest.
 *
 *   who < 'b'      codes      0 1 0 2        dictionary   0 "ann"  1 "bob"  2 "amy"
 *                  table      true false true
 *                  result     true false true true */
#include "frame/plan.h"

#include <stdlib.h>

const char *tsr__dict_get(const tsr__dict *dict, int64_t code, int64_t *length)
{
  *length = dict->offsets[code + 1] - dict->offsets[code];
  return dict->bytes + dict->offsets[code];
}

int tsr__text_order(const char *a, int64_t a_length, const char *b, int64_t b_length)
{
  int64_t shorter = a_length < b_length ? a_length : b_length;
  int order = shorter ? memcmp(a, b, (size_t)shorter) : 0;
  if (order) return order;
  return a_length < b_length ? -1 : a_length > b_length;
}

int32_t tsr__dict_find(const tsr__dict *dict, const char *text, int64_t length)
{
  for (int32_t code = 0; code < dict->count; code++) {
    int64_t found;
    const char *entry = tsr__dict_get(dict, code, &found);
    if (found == length && !memcmp(entry, text, (size_t)length)) return code;
  }
  return -1;
}

const tsr__dict *tsr__dict_copy(tsr__arena *arena, const tsr__dict *dict)
{
  size_t texts = (size_t)dict->count, bytes = (size_t)dict->offsets[texts];
  tsr__dict *copy = tsr__arena_new(arena, sizeof *copy);
  if (!copy) return NULL;
  copy->count = dict->count;
  copy->offsets = tsr__arena_new(arena, (texts + 1) * sizeof *copy->offsets);
  copy->bytes = tsr__arena_new(arena, bytes ? bytes : 1);
  if (!copy->offsets || !copy->bytes) return NULL;
  memcpy(copy->offsets, dict->offsets, (texts + 1) * sizeof *copy->offsets);
  if (bytes) memcpy(copy->bytes, dict->bytes, bytes);
  return copy;
}

static void *room(tsr__lower *low, int64_t count, size_t element)
{
  void *out = tsr__arena_new(&low->scope->arena, (size_t)(count > 0 ? count : 1) * element);
  if (!out) tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
  return out;
}

tsr_array *tsr__table_leaf(tsr__lower *low, tsr_dtype dtype, const void *data, int64_t count)
{
  const tsr_sharding *rows = low->in->sharding;
  tsr_sharding whole = { 0 };
  if (rows && rows->mesh) whole = tsr_on_dims(rows->mesh, 0, NULL);
  return tsr_put_at(low->scope, data, dtype, (tsr_shape){ 1, { count } }, whole, low->site);
}

/* table[codes]; an empty dictionary has nulls only, and any value will do. */
static tsr_array *look_up(tsr__lower *low, tsr_dtype dtype, const void *table, int64_t count,
                          tsr_array *codes)
{
  if (!count) return tsr__const_i(low, dtype, 0);
  return tsr__op2(low, TSR__OP_TAKE, tsr__table_leaf(low, dtype, table, count), codes);
}

/* A dictionary in the terminal's scope; never refcounted. */
static tsr__dict *new_dict(tsr__lower *low, int32_t count, int64_t bytes)
{
  tsr__dict *dict = room(low, 1, sizeof *dict);
  if (!dict) return NULL;
  dict->count = count;
  dict->offsets = room(low, count + 1, sizeof *dict->offsets);
  dict->bytes = room(low, bytes, 1);
  return dict->offsets && dict->bytes ? dict : NULL;
}

tsr__col tsr__text_literal(tsr__lower *low, const tsr__expr *expr)
{
  tsr__dict *dict = new_dict(low, 1, expr->length);
  if (dict) {
    dict->offsets[1] = expr->length;
    memcpy(dict->bytes, expr->text, (size_t)expr->length);
  }
  return (tsr__col){ .type = TSR_COL_TEXT, .values = tsr__const_i(low, TSR_I32, 0), .dict = dict };
}

/* ---- one dictionary out of two -------------------------------------------------------------- */

typedef struct entry {
  const char *text;
  int64_t length;
  int32_t code; /* in a: code; in b: a's count + code */
  int32_t rank;
} entry;

static int by_text(const void *left, const void *right)
{
  const entry *a = left, *b = right;
  int order = tsr__text_order(a->text, a->length, b->text, b->length);
  if (order) return order;
  return a->code < b->code ? -1 : a->code > b->code;
}

/* The entries of both, sorted; equal texts get equal ranks. */
static entry *sorted(tsr__lower *low, const tsr__dict *a, const tsr__dict *b)
{
  int64_t count = (int64_t)a->count + b->count;
  entry *all = room(low, count, sizeof *all);
  if (!all) return NULL;
  for (int64_t i = 0; i < count; i++) {
    bool left = i < a->count;
    all[i].text = tsr__dict_get(left ? a : b, left ? i : i - a->count, &all[i].length);
    all[i].code = (int32_t)i;
  }
  qsort(all, (size_t)count, sizeof *all, by_text);
  int32_t rank = 0;
  for (int64_t i = 0; i < count; i++) {
    bool same =
        i && !tsr__text_order(all[i].text, all[i].length, all[i - 1].text, all[i - 1].length);
    if (i && !same) rank++;
    all[i].rank = rank;
  }
  return all;
}

/* The ranks of a column's texts among those of both, as an array of its rows. */
static tsr_array *ranks(tsr__lower *low, const entry *all, const tsr__dict *a, const tsr__dict *b,
                        tsr__col column)
{
  bool left = column.dict == a;
  int32_t first = left ? 0 : a->count, count = left ? a->count : b->count;
  int32_t *table = room(low, count, sizeof *table);
  if (!table) return column.values;
  for (int64_t i = 0; i < (int64_t)a->count + b->count; i++)
    if (all[i].code >= first && all[i].code < first + count)
      table[all[i].code - first] = all[i].rank;
  return look_up(low, TSR_I32, table, count, column.values);
}

/* The dictionary of all texts of both in order of rank. */
static tsr__dict *ranked_dict(tsr__lower *low, const entry *all, int64_t count)
{
  int64_t bytes = 0, at = 0;
  int32_t texts = count ? all[count - 1].rank + 1 : 0;
  for (int64_t i = 0; i < count; i++) bytes += all[i].length;
  tsr__dict *dict = new_dict(low, texts, bytes);
  if (!dict) return NULL;
  for (int64_t i = 0; i < count; i++) {
    if (i && all[i].rank == all[i - 1].rank) continue;
    memcpy(dict->bytes + at, all[i].text, (size_t)all[i].length);
    at += all[i].length;
    dict->offsets[all[i].rank + 1] = at;
  }
  return dict;
}

void tsr__text_rank(tsr__lower *low, tsr__col *a)
{
  if (!a->dict) return;
  entry *all = sorted(low, a->dict, a->dict);
  if (!all) return;
  tsr__dict *dict = ranked_dict(low, all, 2 * (int64_t)a->dict->count);
  a->values = tsr__spread(low, ranks(low, all, a->dict, a->dict, *a));
  a->dict = dict;
}

bool tsr__text_unify(tsr__lower *low, tsr__col *a, tsr__col *b)
{
  if (!a->dict) a->dict = b->dict; /* a bare null has none */
  if (!b->dict) b->dict = a->dict;
  if (!a->dict || a->dict == b->dict) return a->dict != NULL;
  entry *all = sorted(low, a->dict, b->dict);
  if (!all) return false;
  tsr__dict *both = ranked_dict(low, all, (int64_t)a->dict->count + b->dict->count);
  tsr_array *left = ranks(low, all, a->dict, b->dict, *a);
  b->values = ranks(low, all, a->dict, b->dict, *b);
  a->values = left;
  a->dict = b->dict = both;
  return both != NULL;
}

/* ---- predicates ---------------------------------------------------------------------------- */

static const uint8_t ops[] = { TSR__OP_EQ, TSR__OP_NE, TSR__OP_LT,
                               TSR__OP_LE, TSR__OP_GT, TSR__OP_GE };

static bool holds(int op, int order)
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

/* Column against literal: equality compares codes, order looks up. */
static tsr_array *against(tsr__lower *low, tsr__col column, int op, const tsr__expr *text)
{
  if (op == TSR__B_EQ || op == TSR__B_NE) {
    int32_t code = tsr__dict_find(column.dict, text->text, text->length);
    return tsr__op2(low, (tsr__op)ops[op - TSR__B_EQ], column.values,
                    tsr__const_i(low, TSR_I32, code));
  }
  bool *table = room(low, column.dict->count, sizeof *table);
  if (!table) return column.values;
  for (int32_t code = 0; code < column.dict->count; code++) {
    int64_t length;
    const char *entry_text = tsr__dict_get(column.dict, code, &length);
    table[code] = holds(op, tsr__text_order(entry_text, length, text->text, text->length));
  }
  return look_up(low, TSR_BOOL, table, column.dict->count, column.values);
}

/* a < b is b > a. */
static int turned(int op)
{
  static const uint8_t other[] = {
    TSR__B_EQ, TSR__B_NE, TSR__B_GT, TSR__B_GE, TSR__B_LT, TSR__B_LE
  };
  return other[op - TSR__B_EQ];
}

tsr__col tsr__text_compare(tsr__lower *low, const tsr__expr *expr)
{
  const tsr__expr *a = expr->arg[0], *b = expr->arg[1];
  tsr__col out = { .type = TSR_COL_BOOL };
  bool literal_left = a->kind == TSR__E_TEXT, literal_right = b->kind == TSR__E_TEXT;
  if (literal_left || literal_right) {
    tsr__col column = tsr__settle(low, tsr__lower_expr(low, literal_right ? a : b));
    out.valid = column.valid;
    if (!column.dict) out.values = tsr__const_i(low, TSR_BOOL, 0);
    else if (literal_right) out.values = against(low, column, expr->op, b);
    else out.values = against(low, column, turned(expr->op), a);
    return out;
  }
  tsr__col left = tsr__settle(low, tsr__lower_expr(low, a));
  tsr__col right = tsr__settle(low, tsr__lower_expr(low, b));
  out.valid = tsr__both(low, left.valid, right.valid);
  if (left.dict && left.dict == right.dict) {
    /* Codes of one dictionary are equal when texts are, but in the order of appearance. */
    tsr__text_rank(low, &left);
    tsr__text_rank(low, &right);
  } else {
    tsr__text_unify(low, &left, &right);
  }
  out.values = tsr__op2(low, (tsr__op)ops[expr->op - TSR__B_EQ], left.values, right.values);
  return out;
}

tsr__col tsr__text_in(tsr__lower *low, const tsr__expr *expr)
{
  tsr__col column = tsr__settle(low, tsr__lower_expr(low, expr->arg[0]));
  tsr__col out = { .type = TSR_COL_BOOL, .valid = column.valid };
  int64_t count = column.dict ? column.dict->count : 0;
  bool *table = room(low, count, sizeof *table);
  out.values = column.values;
  if (!table) return out;
  for (int64_t code = 0; code < count; code++) table[code] = expr->negated;
  for (int i = 1; i < expr->count && count; i++) {
    int32_t code = tsr__dict_find(column.dict, expr->arg[i]->text, expr->arg[i]->length);
    if (code >= 0) table[code] = !expr->negated;
  }
  out.values = look_up(low, TSR_BOOL, table, count, column.values);
  return out;
}
