/* What columns a frame has, and which of its parents' columns it needs: one rule for each verb,
 * named in verbs.def.
 *
 *   type      parents' schemas, expressions  -->  own schema        at the call, and again
 *   needs     own needed columns             -->  parents' ones     when a type changed
 *   origin    a column                       -->  the same one of the parent, or its expression
 *
 * Invariant: what a schema says is of one version of the parents' schemas; a frame whose parents
 * changed is typed again before it is used.
 *
 * Fields and trees lie in the arena of the frame's scope. A schema that was replaced stays there
 * until the scope closes, so whoever holds fields of the old one reads nothing freed.
 *
 *   file retypes column 2     its frame: version 1 -> 2
 *   filter on it              parent_version 1 differs: typed again, version 2
 *   select on that            and so on, up to where the terminal stands */
#include "frame/chain/chain.h"

#define MAX_CHAIN 2000 /* frames on each other; bounds the recursion of a terminal */

/* ---- small things ------------------------------------------------------------------------ */

/* Memory of the frame's scope: earlier schemas of it stay until that closes. */
static tsr__field *new_fields(tsr_frame *df, int count, tsr__error *error)
{
  size_t room = (size_t)(count ? count : 1) * sizeof(tsr__field);
  tsr__field *field = tsr__arena_new(&df->node.scope->arena, room);
  if (!field) tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  return field;
}

/* A column that an expression makes; of a column by itself it is that one. What is nothing but null
 * has no type, and a column must have one. A column of nothing but nulls (vacant) stays so under a
 * new name: what it meets gives it a type. */
static tsr__field made_field(const tsr_frame *df, const char *name, const tsr__expr *expr)
{
  if (expr->kind == TSR__E_COLUMN) {
    const tsr__field *same = &df->parent->schema.field[expr->column];
    return (tsr__field){ name, same->type, same->vacant };
  }
  bool null = expr->type == TSR__COL_NULL;
  return (tsr__field){ name, null ? (uint8_t)TSR_COL_I64 : expr->type, null || expr->vacant };
}

static tsr_status same_schema(tsr_frame *df)
{
  df->schema = df->parent->schema;
  return TSR_OK;
}

tsr_status tsr__type_same(tsr_frame *df, tsr__error *error)
{
  (void)error;
  return same_schema(df);
}

/* Sources get their columns where they are opened. */
tsr_status tsr__type_given(tsr_frame *df, tsr__error *error)
{
  (void)df;
  (void)error;
  return TSR_OK;
}

/* ---- types ------------------------------------------------------------------------------- */

tsr_status tsr__type_filter(tsr_frame *df, tsr__error *error)
{
  /* Checked against the parent's columns each time, since a file may have retyped one. */
  tsr__expr *expr = df->formula.item[0].expr;
  if (tsr__check(&df->formula, expr, &df->parent->schema, TSR__IN_ROW, error)) return error->status;
  if (expr->vacant) expr->type = TSR__COL_NULL;
  if (expr->type != TSR_COL_BOOL && expr->type != TSR__COL_NULL)
    return tsr__caret(error, TSR_EDTYPE, (tsr__place){ &df->formula, expr->at, expr->span },
                      "a filter needs bool, found %s; write a comparison",
                      tsr_coltype_name((tsr_coltype)expr->type));
  return same_schema(df);
}

/* The parent's columns and one more, or one replaced. Fields are copied: the parent's schema is
 * read by other chains on it. */
static tsr_status add_column(tsr_frame *df, tsr__field added, tsr__error *error)
{
  const tsr__schema *from = &df->parent->schema;
  int at = tsr__schema_find(from, df->name);
  tsr__field *field = new_fields(df, from->count + 1, error);
  if (!field) return error->status;
  memcpy(field, from->field, (size_t)from->count * sizeof *field);
  /* A name that is there is replaced in its place. */
  if (at < 0) at = from->count;
  field[at] = added;
  df->schema = (tsr__schema){ at == from->count ? at + 1 : from->count, field, NULL };
  return TSR_OK;
}

tsr_status tsr__type_assign(tsr_frame *df, tsr__error *error)
{
  tsr__expr *expr = df->formula.item[0].expr;
  if (tsr__check(&df->formula, expr, &df->parent->schema, TSR__IN_ROW, error)) return error->status;
  return add_column(df, made_field(df, df->name, expr), error);
}

tsr_status tsr__type_text(tsr_frame *df, tsr__error *error)
{
  bool vacant = df->source->dicts[0]->count == 0;
  return add_column(df, (tsr__field){ df->name, TSR_COL_TEXT, vacant }, error);
}

/* A name may stand once in a schema; the caret points at the item that takes it again. */
static tsr_status check_name_free(const tsr_frame *df, const tsr__item *item, int place,
                                  tsr__names *names, tsr__error *error)
{
  const tsr__formula *formula = place < df->keys.formula.count ? &df->keys.formula : &df->formula;
  if (tsr__names_find(names, item->name) >= 0)
    return tsr__caret(error, TSR_ECOLUMN, (tsr__place){ formula, item->at, item->span },
                      "the name '%.60s' is taken; give one of the two another name: 'other = ...'",
                      item->name);
  tsr__names_add(names, item->name, place);
  if (!names->failed) return TSR_OK;
  return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
}

/* Keys are expressions of rows. Typing again goes through here, too; trees keep what they were
 * resolved to until then. */
static tsr_status check_keys(tsr_frame *df, tsr__error *error)
{
  const tsr__formula *keys = &df->keys.formula;
  for (int i = 0; i < keys->count; i++)
    if (tsr__check(keys, keys->item[i].expr, &df->parent->schema, TSR__IN_ROW, error))
      return error->status;
  return TSR_OK;
}

/* The items of a select or agg, after the keys of a group. `context`: whether aggregates may stand
 * in the items. */
static tsr_status type_items(tsr_frame *df, int context, tsr__error *error)
{
  const tsr__formula *formula = &df->formula;
  /* Keys come first. */
  int keys = tsr__frame_key_columns(df), count = keys + formula->count;
  tsr__field *field = new_fields(df, count, error);
  tsr__names names = { .table.arena = &df->node.scope->arena };
  if (!field || check_keys(df, error)) return error->status;
  for (int i = 0; i < count; i++) {
    const tsr__item *item = i < keys ? &df->keys.formula.item[i] : &formula->item[i - keys];
    if (tsr__check_name(df->what, item->name, error)) return error->status;
    if (i >= keys && tsr__check(formula, item->expr, &df->parent->schema, context, error))
      return error->status;
    if (check_name_free(df, item, i, &names, error)) return error->status;
    field[i] = made_field(df, item->name, item->expr);
  }
  df->schema = (tsr__schema){ count, field, NULL };
  return TSR_OK;
}

tsr_status tsr__type_select(tsr_frame *df, tsr__error *error)
{
  return type_items(df, TSR__IN_ROW, error);
}

tsr_status tsr__type_items(tsr_frame *df, tsr__error *error)
{
  return type_items(df, TSR__IN_AGG, error);
}

tsr_status tsr__type_keys(tsr_frame *df, tsr__error *error)
{
  return check_keys(df, error) ? error->status : same_schema(df);
}

/* A column of row numbers in front. */
tsr_status tsr__type_index(tsr_frame *df, tsr__error *error)
{
  const tsr__schema *from = &df->parent->schema;
  tsr__field *field = new_fields(df, from->count + 1, error);
  if (!field) return error->status;
  if (tsr__schema_find(from, df->name) >= 0)
    return tsr__error_set(error, TSR_ECOLUMN,
                          "%s: there is a column '%.60s' already; give another name", df->what,
                          df->name);
  field[0] = (tsr__field){ .name = df->name, .type = TSR_COL_I64 };
  memcpy(field + 1, from->field, (size_t)from->count * sizeof *field);
  df->schema = (tsr__schema){ from->count + 1, field, NULL };
  return TSR_OK;
}

/* The type that columns of two frames meet in; -1: none. One that holds nothing takes the
 * other's. */
static int meet_columns(const tsr__field *a, const tsr__field *b)
{
  tsr__expr left = { .type = a->type }, right = { .type = b->type };
  /* Bools count as numbers in formulas, but a column of both would no longer say which it was. */
  bool mixed = (a->type == TSR_COL_BOOL) != (b->type == TSR_COL_BOOL);
  if (b->vacant) return a->type;
  if (a->vacant) return b->type;
  return mixed ? -1 : tsr__meet(&left, &right);
}

/* Brings the columns of frame `part` together with those before it. A type only widens by it; what
 * the parts hold is converted when rows are made. */
static tsr_status meet_part(const tsr_frame *df, int part, tsr__field *field, tsr__error *error)
{
  const tsr__schema *other = &df->part[part]->schema;
  int count = df->parent->schema.count;
  for (int i = 0; i < count; i++) {
    /* By name: the order of columns may differ from file to file. */
    int at = tsr__schema_find(other, field[i].name);
    if (at < 0)
      return tsr__error_set(error, TSR_ECOLUMN, "%s: frame %d has no column '%.60s'", df->what,
                            part + 1, field[i].name);
    int type = meet_columns(&field[i], &other->field[at]);
    if (type < 0)
      return tsr__error_set(error, TSR_EDTYPE,
                            "%s: column '%.60s' is %s in frame %d and %s in the frames before; "
                            "make them one type with tsr_frame_assign",
                            df->what, field[i].name,
                            tsr_coltype_name((tsr_coltype)other->field[at].type), part + 1,
                            tsr_coltype_name((tsr_coltype)field[i].type));
    field[i].type = (uint8_t)type;
    field[i].vacant = field[i].vacant && other->field[at].vacant;
  }
  /* The same columns by name, so as many: then each was found once. */
  if (other->count != count)
    return tsr__error_set(error, TSR_ECOLUMN,
                          "%s: frame %d has %d columns, but the first frame has %d", df->what,
                          part + 1, other->count, count);
  return TSR_OK;
}

tsr_status tsr__type_concat(tsr_frame *df, tsr__error *error)
{
  const tsr__schema *from = &df->parent->schema;
  tsr__field *field = new_fields(df, from->count, error);
  if (!field) return error->status;
  /* Types start from the first part's. */
  memcpy(field, from->field, (size_t)from->count * sizeof *field);
  for (int p = 1; p < df->part_count; p++)
    if (meet_part(df, p, field, error)) return error->status;
  df->schema = (tsr__schema){ from->count, field, NULL };
  return TSR_OK;
}

static tsr_status not_a_number(const tsr_frame *df, const tsr__field *field, tsr__error *error)
{
  return tsr__error_set(error, TSR_EDTYPE,
                        "%s: column '%.60s' is %s, expected a number or bool; leave the column out "
                        "with tsr_frame_select",
                        df->what, field->name, tsr_coltype_name((tsr_coltype)field->type));
}

static bool reducible(int op, int type)
{
  /* Counting and ordering work on any type; adding needs numbers. */
  if (op == TSR__A_COUNT || op == TSR__A_MIN || op == TSR__A_MAX) return true;
  return tsr__is_number(type) || type == TSR_COL_BOOL;
}

tsr_status tsr__type_reduce(tsr_frame *df, tsr__error *error)
{
  const tsr__schema *from = &df->parent->schema;
  tsr__field *field = new_fields(df, from->count, error);
  if (!field) return error->status;
  for (int i = 0; i < from->count; i++) {
    int type = from->field[i].type;
    /* Of a column that holds nothing the type is a guess. */
    if (from->field[i].vacant && !reducible(df->op, type)) type = TSR_COL_I64;
    if (!reducible(df->op, type)) return not_a_number(df, &from->field[i], error);
    field[i] = (tsr__field){ .name = from->field[i].name, .type = (uint8_t)type };
    /* What counts is i64, what adds is the type sums have, what divides a float. */
    if (df->op == TSR__A_COUNT) field[i].type = TSR_COL_I64;
    else if (df->op == TSR__A_SUM) field[i].type = (uint8_t)tsr__sum_type(type);
    else if (df->op != TSR__A_MIN && df->op != TSR__A_MAX)
      field[i].type = (uint8_t)tsr__mean_type(type);
  }
  df->schema = (tsr__schema){ from->count, field, NULL };
  return TSR_OK;
}

/* The frame that chose the rows of a frame: frames with the same one have the same rows.
 *
 *   b = assign(a, ..)       a         the same rows as a
 *   c = filter(a, ..)       c         rows of its own, though it may leave all of them
 *   d = a + agg(a, ..)      a         one row beside the rows of a */
static const tsr_frame *row_owner(const tsr_frame *df)
{
  for (;;) {
    tsr__rows rows = tsr__verb_of(df)->rows;
    /* Up through what keeps rows or maps them one to one. Beside a frame of one row, it is the
     * other operand that says which rows there are. */
    bool pairs = rows == TSR__ROWS_PAIRS;
    if (rows != TSR__ROWS_KEEPS && rows != TSR__ROWS_MAPS && !pairs) return df;
    df = pairs && df->other && df->parent->one_row ? df->other : df->parent;
  }
}

tsr_status tsr__same_rows(const char *what, const tsr_frame *left, const tsr_frame *right,
                          tsr__error *error)
{
  /* One row stands beside any number of them. */
  if (left->one_row || right->one_row) return TSR_OK;
  const tsr_frame *a = row_owner(left), *b = row_owner(right);
  bool sources = a->kind == TSR__FRAME_ARRAYS && b->kind == TSR__FRAME_ARRAYS;
  /* What two filters leave may have the same count and yet be other rows; that is never taken for
   * the same. */
  if (a == b || (sources && a->source->rows == b->source->rows)) return TSR_OK;
  if (sources)
    return tsr__error_set(
        error, TSR_ESHAPE,
        "%s: the left frame has %lld rows, the right frame has %lld, expected equally many", what,
        (long long)a->source->rows, (long long)b->source->rows);
  return tsr__error_set(error, TSR_ESHAPE,
                        "%s: the rows of the two frames come from different filters or files, so "
                        "they may not match; compute both columns in one frame",
                        what);
}

/* Columns meet by name; the left frame gives their order. */
tsr_status tsr__type_arith(tsr_frame *df, tsr__error *error)
{
  const tsr__schema *from = &df->parent->schema;
  const tsr__schema *other = df->other ? &df->other->schema : NULL;
  tsr__field *field = new_fields(df, from->count, error);
  if (!field) return error->status;
  if (other && tsr__same_rows(df->what, df->parent, df->other, error)) return error->status;
  if (other && other->count != from->count)
    return tsr__error_set(
        error, TSR_ECOLUMN,
        "%s: the left frame has %d columns, the right frame has %d, expected equally many",
        df->what, from->count, other->count);
  for (int i = 0; i < from->count; i++) {
    int at = other ? tsr__schema_find(other, from->field[i].name) : -1;
    if (other && at < 0)
      return tsr__error_set(error, TSR_ECOLUMN, "%s: the right frame has no column '%.60s'",
                            df->what, from->field[i].name);
    tsr__expr a = { .type = from->field[i].type };
    /* A frame's column has its type, the number its node. */
    tsr__expr b = { .type = other ? other->field[at].type : 0 };
    /* The number's own node: a literal takes the width of the column it meets. */
    if (!other) b = *df->number;
    if (!reducible(TSR__A_SUM, a.type)) return not_a_number(df, &from->field[i], error);
    if (other && !reducible(TSR__A_SUM, b.type)) return not_a_number(df, &other->field[at], error);
    int type = tsr__meet(&a, &b);
    /* true + true is 2, as everywhere. */
    if (type == TSR_COL_BOOL) type = TSR_COL_I64;
    /* A quotient of integers is no integer. */
    if (df->op == TSR__B_DIV && !tsr__is_float(type)) type = TSR_COL_F64;
    field[i] = (tsr__field){ .name = from->field[i].name, .type = (uint8_t)type };
  }
  df->schema = (tsr__schema){ from->count, field, NULL };
  return TSR_OK;
}

/* Grows whenever a schema beside the parent's changes. A sum is enough: versions never go down, so
 * it stands still only if none of them moved. */
static int others_version(const tsr_frame *df)
{
  int version = 0;
  for (int i = 1; i < tsr__frame_parent_count(df); i++)
    version += tsr__frame_parent(df, i)->version;
  return version;
}

/* Many columns get an index of their names; one of equal columns is its parent's. */
tsr_status tsr__schema_index(tsr_frame *df, tsr__error *error)
{
  /* Names are compared one by one up to here; an index would cost more than it saves. */
  enum { FEW = 48 };
  tsr__schema *schema = &df->schema;
  tsr__arena *arena = &df->node.scope->arena;
  schema->names = NULL;
  if (schema->count <= FEW) return TSR_OK;
  /* A verb that changes no column shares its parent's list, and so its index. */
  if (df->parent && df->parent->schema.field == schema->field &&
      df->parent->schema.count == schema->count) {
    schema->names = df->parent->schema.names;
    return TSR_OK;
  }
  tsr__names *names = tsr__arena_new(arena, sizeof *names);
  if (names) names->table.arena = arena;
  /* Memory is noted by the index itself. */
  for (int i = 0; names && i < schema->count; i++) tsr__names_add(names, schema->field[i].name, i);
  if (!names || names->failed)
    return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  schema->names = names;
  return TSR_OK;
}

/* Whether all that a frame stands on is one row, if it gives one for one. */
static bool maps_one_row(const tsr_frame *df)
{
  bool one = true;
  for (int i = 0; i < tsr__frame_parent_count(df); i++)
    one = one && tsr__frame_parent(df, i)->one_row;
  return one;
}

/* In a body a frame's rows are arrays' elements: as many as there are, in their order. */
static bool needs_a_run(const tsr_frame *df)
{
  tsr__rows rows = tsr__verb_of(df)->rows;
  bool other = rows == TSR__ROWS_MASKS || rows == TSR__ROWS_MOVES || rows == TSR__ROWS_MAKES;
  return other && tsr__scope_traces(df->node.scope);
}

tsr_status tsr__frame_type(tsr_frame *df, tsr__error *error)
{
  const tsr__verb *verb = tsr__verb_of(df);
  int under = -1;
  /* One more than the deepest parent: bounds the recursion of whatever walks a chain. */
  for (int i = 0; i < tsr__frame_parent_count(df); i++)
    if (tsr__frame_parent(df, i)->depth > under) under = tsr__frame_parent(df, i)->depth;
  df->depth = under + 1;
  /* Taken before the types are: what they are made of is this version. */
  if (df->parent) df->parent_version = df->parent->version;
  df->other_version = others_version(df);
  /* What gives a row for a row is one row where all it stands on is. */
  if (verb->rows == TSR__ROWS_MAPS || verb->rows == TSR__ROWS_PAIRS) df->one_row = maps_one_row(df);
  if (df->depth > MAX_CHAIN)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: more than %d calls in one chain; collect and "
                          "start a new frame",
                          df->what, MAX_CHAIN);
  if (needs_a_run(df))
    return tsr__error_set(
        error, TSR_EUNSUPPORTED,
        "%s: the number or order of rows cannot change in the body of a function; make the call "
        "before or after the function, or choose values with if(..)",
        df->what);
  if (verb->type(df, error)) return error->status;
  return tsr__schema_index(df, error);
}

/* Parents first: a terminal visits them in that order. Versions of parents are compared for
 * inequality, so a chain of any length is brought up to date by one walk that goes parents
 * first. */
tsr_status tsr__frame_refresh(tsr_frame *df, tsr__error *error)
{
  bool parent = df->parent && df->parent->version != df->parent_version;
  if (!parent && others_version(df) == df->other_version) return TSR_OK;
  /* Versions only grow, so whoever stands on this frame sees that it changed, even back to an
   * earlier type. */
  df->version++;
  tsr_status status = tsr__frame_type(df, error);
  /* It keeps its old schema, which is of no version of the parent's any more. */
  if (status) df->parent_version = -1;
  return status;
}

/* Settles the types of the files below a frame, and types again what stands on those that changed:
 * true if some did. Each frame is looked at once for a `top`. */
static bool settle_below(tsr_frame *df, const tsr_frame *top, tsr__error *error)
{
  bool changed = false;
  for (int i = 0; i < tsr__frame_parent_count(df); i++) {
    tsr_frame *parent = tsr__frame_parent(df, i);
    if (parent->settled_for == top) continue;
    parent->settled_for = top;
    changed |= settle_below(parent, top, error);
    if (error->status) return false;
    if (parent->kind != TSR__FRAME_FILE) {
      if (tsr__frame_refresh(parent, error)) return false;
      continue;
    }
    const tsr__reader *reader = &parent->source->reader;
    bool other = false;
    if (reader->ops->settle && reader->ops->settle(reader->file, &other, error)) return false;
    if (!other) continue;
    parent->version++;
    if (tsr__file_schema(parent, error)) return false;
    changed = true;
  }
  return changed;
}

/* Steps of the search below, after which it is taken to have found something. */
enum { SEARCH = 10000 };

static bool reads_loose(const tsr_frame *df, const tsr__expr *expr, int *steps);

/* Whether a column's type may be one of a sample. What is not known may be. */
static bool is_loose(const tsr_frame *df, int column, int *steps)
{
  const tsr__read_column *columns;
  if (--*steps < 0) return true;
  if (df->kind == TSR__FRAME_FILE) {
    const tsr__reader *reader = &df->source->reader;
    return column < reader->ops->columns(reader->file, &columns) && columns[column].loose;
  }
  if (tsr__frame_is_source(df)) return false;
  tsr__origin from = tsr__verb_of(df)->origin(df, column);
  if (from.column >= 0) return is_loose(df->parent, from.column, steps);
  return !from.expr || reads_loose(df->parent, from.expr, steps);
}

/* The same of the columns of a frame that an expression names. */
static bool reads_loose(const tsr_frame *df, const tsr__expr *expr, int *steps)
{
  bool found = false;
  for (int i = 0; i < expr->count && !found; i++) found = reads_loose(df, expr->arg[i], steps);
  if (found || expr->kind != TSR__E_COLUMN) return found;
  int column = tsr__schema_find(&df->schema, expr->text);
  return column >= 0 && is_loose(df, column, steps);
}

/* Whether what a frame says of its columns may fail by a sample's types. */
static bool depends_on_sample(const tsr_frame *df)
{
  const tsr__formula *lists[] = { &df->formula, &df->keys.formula };
  int steps = SEARCH;
  bool any = false;
  for (int l = 0; l < 2; l++)
    for (int i = 0; i < lists[l]->count; i++) {
      const tsr__item *item = &lists[l]->item[i];
      if (reads_loose(df->join ? df->other : df->parent, item->expr, &steps)) return true;
      if (item->left && reads_loose(df->parent, item->left, &steps)) return true;
      any = true;
    }
  return !any;
}

tsr_status tsr__frame_type_settled(tsr_frame *df, tsr__error *error)
{
  tsr__error below = { 0 };
  if (tsr__frame_type(df, error) != TSR_EDTYPE || !depends_on_sample(df)) return error->status;
  bool changed = settle_below(df, df, &below);
  /* What stands between does not fit the types there are; a file that cannot be read says nothing
   * of what was asked. */
  if (below.status == TSR_EDTYPE) *error = below;
  if (!changed) return error->status;
  *error = (tsr__error){ 0 };
  return tsr__frame_type(df, error);
}

/* ---- needs ------------------------------------------------------------------------------- */

/* Marks the columns that an expression reads. */
static void mark(const tsr__expr *expr, bool *need)
{
  /* Columns were resolved by tsr__check, so a node knows its column's number. */
  if (expr->kind == TSR__E_COLUMN) need[expr->column] = true;
  for (int i = 0; i < expr->count; i++) mark(expr->arg[i], need);
}

tsr__origin tsr__origin_none(const tsr_frame *df, int column)
{
  (void)df;
  (void)column;
  return (tsr__origin){ -1, NULL };
}

tsr__origin tsr__origin_same(const tsr_frame *df, int column)
{
  (void)df;
  return (tsr__origin){ column, NULL };
}

/* An expression that is a column is that column. */
static tsr__origin origin_of(const tsr__expr *expr)
{
  return (tsr__origin){ expr->kind == TSR__E_COLUMN ? expr->column : -1, expr };
}

/* What was added has the frame's own copy of its name. */
tsr__origin tsr__origin_added(const tsr_frame *df, int column)
{
  /* By its pointer: names of the parent's columns are other memory, even where they are equal. */
  if (df->schema.field[column].name != df->name) return (tsr__origin){ column, NULL };
  return df->formula.count ? origin_of(df->formula.item[0].expr) : (tsr__origin){ -1, NULL };
}

tsr__origin tsr__origin_select(const tsr_frame *df, int column)
{
  return origin_of(df->formula.item[column].expr);
}

/* Column 0 is the number, and -1 without an expression: it is made of nothing. */
tsr__origin tsr__origin_index(const tsr_frame *df, int column)
{
  (void)df;
  return (tsr__origin){ column - 1, NULL };
}

void tsr__needs_none(const tsr_frame *df, const bool *need, bool *parent, bool *other)
{
  (void)df;
  (void)need;
  (void)parent;
  (void)other;
}

/* Column i is of the parent's column i. */
void tsr__needs_place(const tsr_frame *df, const bool *need, bool *parent, bool *other)
{
  (void)other;
  for (int i = 0; i < df->schema.count; i++) parent[i] = parent[i] || need[i];
}

/* The verb's own rule for origins says what a column comes of, so a verb that passes columns on
 * needs no rule of its own for needs. */
void tsr__needs_columns(const tsr_frame *df, const bool *need, bool *parent, bool *other)
{
  (void)other;
  for (int i = 0; i < df->schema.count; i++) {
    if (!need[i]) continue;
    tsr__origin from = tsr__verb_of(df)->origin(df, i);
    if (from.column >= 0) parent[from.column] = true;
    else if (from.expr) mark(from.expr, parent);
  }
}

void tsr__needs_filter(const tsr_frame *df, const bool *need, bool *parent, bool *other)
{
  tsr__needs_columns(df, need, parent, other);
  mark(df->formula.item[0].expr, parent);
}

/* Keys are marked by tsr__frame_needs, for all verbs that have some. */
void tsr__needs_items(const tsr_frame *df, const bool *need, bool *parent, bool *other)
{
  int keys = tsr__frame_key_columns(df);
  (void)other;
  for (int i = 0; i < df->formula.count; i++)
    if (need[keys + i]) mark(df->formula.item[i].expr, parent);
}

void tsr__needs_arith(const tsr_frame *df, const bool *need, bool *parent, bool *other)
{
  for (int i = 0; i < df->schema.count; i++) {
    if (!need[i]) continue;
    parent[i] = true;
    /* Columns meet by name, whatever their places. */
    if (other) other[tsr__schema_find(&df->other->schema, df->schema.field[i].name)] = true;
  }
}

static void needs_of_keys(const tsr_frame *df, bool *parent)
{
  for (int i = 0; i < df->keys.formula.count; i++) mark(df->keys.formula.item[i].expr, parent);
}

/* Keys of both sides are needed whatever is asked for; columns behind the left ones are taken from
 * the right. */
void tsr__needs_join(const tsr_frame *df, const bool *need, bool *parent, bool *other)
{
  int left = df->parent->schema.count;
  for (int i = 0; i < df->join->key_count; i++) {
    mark(df->join->left[i], parent);
    if (other) mark(df->join->right[i], other);
  }
  for (int i = 0; i < df->schema.count; i++) {
    if (need[i] && i < left) parent[i] = true;
    if (need[i] && i >= left && other) other[df->join->take[i - left]] = true;
  }
}

/* Columns of a part are found by name, as its order may be another. */
void tsr__part_needs(const tsr_frame *df, int part, const bool *need, bool *out)
{
  const tsr__schema *schema = &df->part[part]->schema;
  for (int i = 0; i < df->schema.count; i++)
    if (need[i]) out[tsr__schema_find(schema, df->schema.field[i].name)] = true;
}

/* The other parts are asked one by one (tsr__part_needs), as there may be any number of them. */
void tsr__needs_concat(const tsr_frame *df, const bool *need, bool *parent, bool *other)
{
  (void)other;
  tsr__part_needs(df, 0, need, parent);
}

/* Keys choose or order rows, so they are needed whichever columns are. */
void tsr__frame_needs(const tsr_frame *df, const bool *need, bool *parent, bool *other)
{
  needs_of_keys(df, parent);
  tsr__verb_of(df)->needs(df, need, parent, other);
}
