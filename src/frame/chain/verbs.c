/* Calls that are short for others: each makes the node that tsr_frame_select or tsr_frame_filter
 * makes, of expressions built from the parent's columns instead of read from a text.
 *
 *   drop(df, "b")             select a, c
 *   rename(df, "x = a")       select x = a, b, c
 *   is_null(df)               select a = a is null, b = b is null, c = c is null
 *   fill_null(df, "a", "0")   select a = coalesce(a, 0), b, c
 *   drop_nulls(df, "a, b")    filter a is not null and b is not null
 *
 * Invariant: what is built here passed the same checks as what is parsed, and `what` names the
 * call that the user wrote. */
#include "frame/chain/chain.h"

#include <stdio.h>

/* ---- small things ------------------------------------------------------------------------ */

/* Types a frame whose formula is there; inert where something before failed. */
static tsr_frame *finish(tsr_frame *df, tsr__error *error)
{
  if (df->inert || (!error->status && !tsr__frame_type_settled(df, error))) return df;
  return tsr__frame_fail(df, error);
}

/* Memory of the frame's own scope, where its tree lives. */
static void *room(tsr_frame *df, int count, size_t element, tsr__error *error)
{
  size_t bytes = (size_t)(count > 0 ? count : 1) * element;
  void *out = tsr__arena_new(&df->node.scope->arena, bytes);
  if (!out) tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  return out;
}

static tsr__expr *make(tsr_frame *df, int kind, int count, tsr__error *error)
{
  tsr__expr *expr = room(df, 1, sizeof *expr, error);
  /* Zeroed by the arena: places in a text that nobody wrote are 0. */
  if (!expr) return NULL;
  expr->kind = (uint8_t)kind;
  expr->count = count;
  expr->depth = 1;
  expr->arg = count ? room(df, count, sizeof(tsr__expr *), error) : NULL;
  return count && !expr->arg ? NULL : expr;
}

/* The depth of a tree is kept as it is built, since checks bound it. */
static void put(tsr__expr *expr, int at, tsr__expr *arg)
{
  expr->arg[at] = arg;
  if (arg->depth >= expr->depth) expr->depth = arg->depth + 1;
}

/* A column of the parent. */
static tsr__expr *column(tsr_frame *df, int at, tsr__error *error)
{
  tsr__expr *expr = make(df, TSR__E_COLUMN, 0, error);
  if (!expr) return NULL;
  /* By name, as if parsed: the check finds its number. */
  expr->text = df->parent->schema.field[at].name;
  expr->length = (int)strlen(expr->text);
  return expr;
}

/* "column is null", or "is not null". */
static tsr__expr *null_test(tsr_frame *df, int at, bool negated, tsr__error *error)
{
  tsr__expr *arg = column(df, at, error);
  tsr__expr *expr = arg ? make(df, TSR__E_ISNULL, 1, error) : NULL;
  if (!expr) return NULL;
  put(expr, 0, arg);
  expr->negated = negated;
  return expr;
}

/* Gives the frame room for `count` items, of which nobody wrote a text. The source is an empty
 * text, so that a caret of a later error has something to point into. */
static tsr__item *items(tsr_frame *df, int count, tsr__error *error)
{
  tsr__item *item = room(df, count, sizeof *item, error);
  df->formula = (tsr__formula){ .what = df->what, .source = "", .count = count, .item = item };
  return item;
}

/* ---- lists of columns -------------------------------------------------------------------- */

/* Parses "a, b" or, where `named`, "new = old, ...": plain columns of the parent. By the parser of
 * formulas, so that names with blanks are quoted here as everywhere; then each item must be a
 * column. */
static tsr_status parse_columns(tsr_frame *df, const char *text, bool named, tsr__formula *out,
                                tsr__error *error)
{
  tsr_formula formula = { .text = text };
  tsr__parse_ask ask = { df->what, &formula, true };
  if (!text)
    return tsr__error_set(error, TSR_EARG,
                          "%s: the list of columns is NULL; name at least one column", df->what);
  if (tsr__parse(&ask, &df->node.scope->arena, out, error)) return error->status;
  for (int i = 0; i < out->count; i++) {
    const tsr__item *item = &out->item[i];
    tsr__place place = { out, item->at, item->span };
    if (item->expr->kind != TSR__E_COLUMN || item->named != named)
      return tsr__caret(error, TSR_EPARSE, place,
                        named ? "expected 'new = old', the new name of a column and its old one"
                              : "expected the name of a column");
    if (tsr__check(out, item->expr, &df->parent->schema, TSR__IN_ROW, error)) return error->status;
  }
  return TSR_OK;
}

/* The parent's columns that a list names, as marks; all of them for NULL. In the order of the
 * schema whatever the order of the list: dropping does not rearrange. */
static bool *marks(tsr_frame *df, const char *text, int *count, tsr__error *error)
{
  int columns = df->parent->schema.count;
  tsr__formula list = { 0 };
  bool *mark = room(df, columns, sizeof *mark, error);
  if (!mark) return NULL;
  if (text && parse_columns(df, text, false, &list, error)) return NULL;
  /* Named twice counts once. */
  for (int i = 0; i < list.count; i++) mark[list.item[i].expr->column] = true;
  *count = 0;
  for (int i = 0; i < columns; i++) {
    if (!text) mark[i] = true;
    *count += mark[i];
  }
  return mark;
}

/* ---- leaving out and renaming -------------------------------------------------------------- */

static void drop(tsr_frame *df, const char *columns, tsr__error *error)
{
  int gone = 0, used = 0, all = df->parent->schema.count;
  if (!columns) {
    tsr__error_set(error, TSR_EARG, "%s: the list of columns is NULL; name at least one column",
                   df->what);
    return;
  }
  const bool *mark = marks(df, columns, &gone, error);
  if (mark && gone == all)
    tsr__error_set(error, TSR_ECOLUMN, "%s: all %d columns are left out; keep at least one",
                   df->what, all);
  /* Only what was asked for is built: an error ends it. */
  tsr__item *item = error->status ? NULL : items(df, all - gone, error);
  for (int i = 0; item && i < all; i++) {
    if (mark[i]) continue;
    tsr__expr *expr = column(df, i, error);
    if (!expr) return;
    item[used++] = (tsr__item){ .name = expr->text, .expr = expr };
  }
}

tsr_frame *tsr_frame_drop_at(tsr_frame *df, const char *columns, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_SELECT, "tsr_frame_drop", site);
  tsr__error error = { 0 };
  if (!out->inert) drop(out, columns, &error);
  return finish(out, &error);
}

/* The items of a rename by the names that they take from and give to columns. */
typedef struct renaming {
  tsr__names from, to;
} renaming;

/* No name twice afterwards, and no column renamed twice. */
static tsr_status check_new_names(const tsr_frame *df, const tsr__formula *list, renaming *r,
                                  tsr__error *error)
{
  const tsr__schema *from = &df->parent->schema;
  r->from.table.arena = r->to.table.arena = &df->node.scope->arena;
  /* First all that are renamed, so that names may be swapped: "a = b, b = a". */
  for (int i = 0; i < list->count; i++) {
    const tsr__item *item = &list->item[i];
    if (tsr__check_name(df->what, item->name, error)) return error->status;
    if (tsr__names_find(&r->from, item->expr->text) >= 0)
      return tsr__caret(error, TSR_ECOLUMN, (tsr__place){ list, item->at, item->span },
                        "column '%.60s' is renamed twice", item->expr->text);
    tsr__names_add(&r->from, item->expr->text, i);
  }
  for (int i = 0; i < list->count; i++) {
    const tsr__item *item = &list->item[i];
    /* A name that its column gives up is free. */
    bool stays =
        tsr__schema_find(from, item->name) >= 0 && tsr__names_find(&r->from, item->name) < 0;
    if (stays || tsr__names_find(&r->to, item->name) >= 0)
      return tsr__caret(error, TSR_ECOLUMN, (tsr__place){ list, item->at, item->span },
                        "the name '%.60s' is taken by another column", item->name);
    tsr__names_add(&r->to, item->name, i);
  }
  if (!r->from.failed && !r->to.failed) return TSR_OK;
  return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
}

static void rename_columns(tsr_frame *df, const char *names, tsr__error *error)
{
  tsr__formula list = { 0 };
  renaming r = { 0 };
  int all = df->parent->schema.count;
  if (parse_columns(df, names, true, &list, error) || check_new_names(df, &list, &r, error)) return;
  tsr__item *item = items(df, all, error);
  for (int i = 0; item && i < all; i++) {
    tsr__expr *expr = column(df, i, error);
    if (!expr) return;
    /* Where a column is not renamed its item has the old name. */
    int at = tsr__names_find(&r.from, expr->text);
    item[i] = (tsr__item){ .name = at < 0 ? expr->text : list.item[at].name,
                           .named = at >= 0,
                           .expr = expr };
  }
}

tsr_frame *tsr_frame_rename_at(tsr_frame *df, const char *names, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_SELECT, "tsr_frame_rename", site);
  tsr__error error = { 0 };
  if (!out->inert) rename_columns(out, names, &error);
  return finish(out, &error);
}

/* ---- nulls ------------------------------------------------------------------------------- */

/* Each column keeps its name; what it holds is a bool. */
static void test_nulls(tsr_frame *df, tsr__error *error)
{
  int all = df->parent->schema.count;
  tsr__item *item = items(df, all, error);
  for (int i = 0; item && i < all; i++) {
    item[i] = (tsr__item){ .name = df->parent->schema.field[i].name,
                           .named = true,
                           .expr = null_test(df, i, false, error) };
    if (!item[i].expr) return;
  }
}

tsr_frame *tsr_frame_is_null_at(tsr_frame *df, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_SELECT, "tsr_frame_is_null", site);
  tsr__error error = { 0 };
  if (!out->inert) test_nulls(out, &error);
  return finish(out, &error);
}

/* "is not null" of the marked columns from `first` up to `end`, joined by `and` as a tree of little
 * depth; NULL where none is marked or memory ended. */
static tsr__expr *none_null(tsr_frame *df, const bool *mark, int first, int end, tsr__error *error)
{
  /* Halves, so that a thousand columns make a tree ten deep, not a thousand. */
  if (end - first == 1) return mark[first] ? null_test(df, first, true, error) : NULL;
  int middle = first + (end - first) / 2;
  tsr__expr *a = none_null(df, mark, first, middle, error);
  tsr__expr *b = none_null(df, mark, middle, end, error);
  if (!a || !b) return a ? a : b;
  tsr__expr *expr = make(df, TSR__E_AND, 2, error);
  if (!expr) return NULL;
  put(expr, 0, a);
  put(expr, 1, b);
  return expr;
}

static void keep_full(tsr_frame *df, const char *columns, tsr__error *error)
{
  int count = 0;
  const bool *mark = marks(df, columns, &count, error);
  tsr__item *item = mark ? items(df, 1, error) : NULL;
  if (!item) return;
  item->expr = none_null(df, mark, 0, df->parent->schema.count, error);
  item->name = "no nulls";
}

tsr_frame *tsr_frame_drop_nulls_at(tsr_frame *df, const char *columns, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_FILTER, "tsr_frame_drop_nulls", site);
  tsr__error error = { 0 };
  if (!out->inert) keep_full(out, columns, &error);
  return finish(out, &error);
}

/* Whether a value fills columns of a type that nobody named: those of its own kind, and only where
 * the column's type stays. Without a list of columns a number is not to turn integers into floats,
 * nor a text all into text. */
static bool fills(const tsr__expr *value, int type)
{
  if (tsr__is_float(type)) return tsr__is_number(value->type);
  if (tsr__is_integer(type)) return tsr__is_integer(value->type);
  return value->type == type;
}

/* A named column takes whatever meets its type. */
static tsr_status check_filling(const tsr_frame *df, int at, const tsr__formula *text,
                                tsr__error *error)
{
  const tsr__expr *value = text->item[0].expr;
  tsr__expr field = { .type = df->parent->schema.field[at].type };
  bool read = tsr__is_temporal(field.type) && value->kind == TSR__E_TEXT;
  bool mixed = (field.type == TSR_COL_BOOL) != (value->type == TSR_COL_BOOL);
  /* One that holds nothing takes the value's type. */
  if (df->parent->schema.field[at].vacant) return TSR_OK;
  /* What becomes a bool without doubt may fill one. */
  if (field.type == TSR_COL_BOOL && tsr__bool_value(value)) return TSR_OK;
  if (value->type == TSR__COL_NULL || read || (!mixed && tsr__meet(&field, value) >= 0))
    return TSR_OK;
  return tsr__caret(error, TSR_EDTYPE, (tsr__place){ text, value->at, value->span },
                    "column '%.60s' is %s, so a value of type %s cannot fill its nulls",
                    df->parent->schema.field[at].name, tsr_coltype_name((tsr_coltype)field.type),
                    tsr_coltype_name((tsr_coltype)value->type));
}

/* coalesce(column, value) with a tree of its own: a literal takes the type of what it meets. */
static tsr__expr *filled(tsr_frame *df, int at, const tsr_formula *value, tsr__error *error)
{
  tsr__formula text;
  tsr__parse_ask ask = { df->what, value, false };
  if (tsr__parse(&ask, &df->node.scope->arena, &text, error)) return NULL;
  tsr__expr *arg = column(df, at, error);
  tsr__expr *expr = arg ? make(df, TSR__E_CALL, 2, error) : NULL;
  if (!expr) return NULL;
  expr->op = TSR__F_COALESCE;
  /* The caret of a later error points at the value. */
  expr->at = text.item[0].expr->at;
  expr->span = text.item[0].expr->span;
  put(expr, 0, arg);
  put(expr, 1, text.item[0].expr);
  return expr;
}

static void fill(tsr_frame *df, const char *columns, const tsr_formula *value, tsr__error *error)
{
  const tsr__schema *from = &df->parent->schema;
  int count = 0;
  tsr__formula text;
  tsr__parse_ask ask = { df->what, value, false };
  /* Parsed once to be checked, and once for each column below. */
  const bool *mark = marks(df, columns, &count, error);
  if (!mark || tsr__parse(&ask, &df->node.scope->arena, &text, error)) return;
  if (tsr__check(&text, text.item[0].expr, from, TSR__IN_ROW, error)) return;
  tsr__item *item = items(df, from->count, error);
  if (!item) return;
  df->formula.source = text.source; /* errors found later point into it */
  df->formula.length = text.length;
  for (int i = 0; i < from->count; i++) {
    bool use = mark[i] && (columns || fills(text.item[0].expr, from->field[i].type));
    if (use && check_filling(df, i, &text, error)) return;
    tsr__expr *expr = use ? filled(df, i, value, error) : column(df, i, error);
    if (!expr) return;
    item[i] = (tsr__item){ .name = from->field[i].name, .named = use, .expr = expr };
  }
}

tsr_frame *tsr_frame_fill_null_at(tsr_frame *df, const char *columns, const tsr_formula *value,
                                  const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_SELECT, "tsr_frame_fill_null", site);
  tsr__error error = { 0 };
  if (!out->inert) fill(out, columns, value, &error);
  return finish(out, &error);
}

/* ---- counts of values ------------------------------------------------------------------------ */

static tsr_frame *count_groups(tsr_frame *df, const char *columns, tsr__error *error)
{
  tsr__arena *arena = &df->node.scope->arena;
  /* Written as a formula, so that it is checked like any. */
  tsr_formula count = { .text = "count = count()" };
  tsr__parse_ask ask = { df->what, &count, true };
  if (columns) tsr__parse_keys(df->what, columns, arena, &df->keys, error);
  else tsr__all_keys(df, error);
  if (!error->status) tsr__parse(&ask, arena, &df->formula, error);
  return finish(df, error);
}

/* Two nodes under one name: groups with a count, and a sort of them. Groups that are inert make the
 * sort inert, with the same message. */
tsr_frame *tsr_frame_value_counts_at(tsr_frame *df, const char *columns, const char *site)
{
  tsr_frame *groups = tsr__frame_begin(df, TSR__FRAME_GROUP, "tsr_frame_value_counts", site);
  tsr__error error = { 0 };
  if (!groups->inert) groups = count_groups(groups, columns, &error);
  tsr_frame *out = tsr__frame_begin(groups, TSR__FRAME_SORT, "tsr_frame_value_counts", site);
  /* Most frequent first; of equal counts the first met, since sorts are stable. */
  if (!out->inert)
    tsr__parse_keys(out->what, "\"count\" desc", &out->node.scope->arena, &out->keys, &error);
  return finish(out, &error);
}

/* ---- descriptions ---------------------------------------------------------------------------- */

static tsr__expr *literal(tsr_frame *df, int kind, double value, tsr__error *error)
{
  /* Integers and floats in one: readers take the field of the kind. */
  tsr__expr *expr = make(df, kind, 0, error);
  if (!expr) return NULL;
  expr->i = (int64_t)value;
  expr->f = value;
  return expr;
}

/* A column of the parent; a bool as the number 0 or 1 (the column + 0). */
static tsr__expr *as_number(tsr_frame *df, int at, tsr__error *error)
{
  tsr__expr *arg = column(df, at, error);
  if (!arg || df->parent->schema.field[at].type != TSR_COL_BOOL) return arg;
  tsr__expr *zero = literal(df, TSR__E_INT, 0, error);
  tsr__expr *sum = zero ? make(df, TSR__E_BINARY, 2, error) : NULL;
  if (!sum) return NULL;
  sum->op = TSR__B_ADD;
  put(sum, 0, arg);
  put(sum, 1, zero);
  return sum;
}

/* One aggregate of a column; `share` of a quantile, else below 0. Quantiles take their share as a
 * second argument. */
static tsr__expr *aggregate(tsr_frame *df, int op, int at, double share, tsr__error *error)
{
  tsr__expr *arg = as_number(df, at, error);
  tsr__expr *second = share >= 0 ? literal(df, TSR__E_FLOAT, share, error) : NULL;
  tsr__expr *expr = arg ? make(df, TSR__E_AGG, share >= 0 ? 2 : 1, error) : NULL;
  if (!expr || (share >= 0 && !second)) return NULL;
  expr->op = (uint8_t)op;
  put(expr, 0, arg);
  if (second) put(expr, 1, second);
  return expr;
}

/* The aggregates that describe a column, in the order of tsr__statistics. */
static bool describe_column(tsr_frame *df, int at, tsr__item *item, int *used, tsr__error *error)
{
  const tsr__field *field = &df->parent->schema.field[at];
  for (int i = 0; i < TSR__STATISTICS; i++) {
    const tsr__statistic *s = &tsr__statistics[i];
    if (!tsr__describes(i, field->type)) continue;
    /* Names are numbers: nobody sees them, but they must differ. */
    char name[16];
    snprintf(name, sizeof name, "%d", *used);
    tsr__item *one = &item[(*used)++];
    one->name = tsr__arena_text(&df->node.scope->arena, name, strlen(name));
    one->expr = aggregate(df, s->agg, at, s->share, error);
    if (!one->name) tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
    if (!one->name || !one->expr) return false;
  }
  return true;
}

/* One row of all that is asked of all columns: first the number of rows. Room for all; how many
 * there are is known at the end. */
static void describe_all(tsr_frame *df, tsr__error *error)
{
  const tsr__schema *from = &df->parent->schema;
  int used = 1;
  tsr__item *item = items(df, 1 + from->count * TSR__STATISTICS, error);
  if (!item) return;
  item[0] = (tsr__item){ .name = "rows", .expr = make(df, TSR__E_AGG, 0, error) };
  if (!item[0].expr) return;
  item[0].expr->op = TSR__A_COUNT;
  for (int i = 0; i < from->count; i++)
    if (!describe_column(df, i, item, &used, error)) return;
  df->formula.count = used;
}

tsr_frame *tsr_frame_describe_at(tsr_frame *df, const char *site)
{
  /* Two frames: a row of aggregates, and the table made of it. */
  tsr_frame *row = tsr__frame_begin(df, TSR__FRAME_AGG, "tsr_frame_describe", site);
  tsr__error error = { 0 };
  if (!row->inert) {
    row->one_row = true;
    describe_all(row, &error);
  }
  row = finish(row, &error);
  return finish(tsr__frame_begin(row, TSR__FRAME_DESCRIBE, "tsr_frame_describe", site), &error);
}
