/* A join as it is asked for: its keys, their types, and the columns of the result.
 *
 *   left  k a b      right  k c a      on k      ->  k a b c a_right
 *
 * Keys meet in one type each; a right key that stands as it is does not come again. Semi and anti
 * joins have the left columns alone.
 *
 * Expressions of both sides stand in one formula, whose text messages point into; each is checked
 * against its own frame. */
#include "frame/chain/chain.h"

/* Memory of the frame's scope. */
static void *keep(tsr_frame *df, int count, size_t element, tsr__error *error)
{
  void *out = tsr__arena_new(&df->node.scope->arena, (size_t)(count > 0 ? count : 1) * element);
  if (!out) tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  return out;
}

/* ---- the call ---------------------------------------------------------------------------- */

/* Columns of a key that a side does not have. Looked for when the keys are read, by side, since the
 * check of expressions would not say which of the two frames lacks it. */
static tsr_status find_columns(const tsr_frame *df, const tsr__expr *key, bool right,
                               tsr__error *error)
{
  const tsr__schema *schema = right ? &df->other->schema : &df->parent->schema;
  /* Inner ones first: the first column that is missing is told. */
  for (int i = 0; i < key->count && !error->status; i++)
    find_columns(df, key->arg[i], right, error);
  if (error->status || key->kind != TSR__E_COLUMN || tsr__schema_find(schema, key->text) >= 0)
    return error->status;
  tsr__text hint;
  tsr__text_init(&hint, NULL);
  tsr__schema_hint(schema, key->text, &hint);
  tsr__caret(error, TSR_ECOLUMN, (tsr__place){ &df->formula, key->at, key->span },
             "the %s frame has no column '%.60s'%.500s", right ? "right" : "left", key->text,
             tsr__text_get(&hint));
  tsr__text_free(&hint);
  return error->status;
}

/* "k" is of both; "left = right" where they differ. */
static tsr_status take_on(tsr_frame *df, const char *text, tsr__error *error)
{
  tsr__join *join = df->join;
  tsr__arena *arena = &df->node.scope->arena;
  if (tsr__parse_pairs("tsr_frame_join, keys", text, arena, &df->formula, error))
    return error->status;
  int count = df->formula.count;
  join->left = keep(df, count, sizeof *join->left, error);
  join->right = keep(df, count, sizeof *join->right, error);
  join->type = keep(df, count, sizeof *join->type, error);
  if (error->status) return error->status;
  /* The pairs were parsed: `left` and `expr` are what stands at both sides of the sign, or twice
   * the same. */
  for (int i = 0; i < count; i++) {
    join->left[i] = df->formula.item[i].left;
    join->right[i] = df->formula.item[i].expr;
    if (find_columns(df, join->left[i], false, error) ||
        find_columns(df, join->right[i], true, error))
      return error->status;
  }
  join->key_count = count;
  return TSR_OK;
}

/* Fields that are left out are an inner join and "_right". */
static tsr_status take_opts(tsr_frame *df, const tsr_join_opts *opts, tsr__error *error)
{
  tsr_join_opts all = { .how = TSR_JOIN_INNER };
  if (tsr__take_opts(df->what, opts, &all, sizeof all, error)) return error->status;
  if (all.how < TSR_JOIN_INNER || all.how > TSR_JOIN_ANTI)
    return tsr__error_set(error, TSR_EARG, "%s: `how` is %d, expected a value of tsr_join_how",
                          df->what, (int)all.how);
  const char *suffix = all.suffix ? all.suffix : "_right";
  if (!*suffix || strlen(suffix) > 500)
    return tsr__error_set(error, TSR_EARG, "%s: the suffix is empty or too long", df->what);
  df->join = keep(df, 1, sizeof *df->join, error);
  if (!df->join) return error->status;
  df->join->how = (uint8_t)all.how;
  df->join->unique = all.unique;
  df->join->suffix = tsr__arena_text(&df->node.scope->arena, suffix, strlen(suffix));
  if (!df->join->suffix) tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  return error->status;
}

/* Owners are checked before anything is parsed: both frames must outlive this one. */
tsr_frame *tsr_frame_join_with(tsr_frame *left, tsr_frame *right, const char *on,
                               const tsr_join_opts *opts, const char *site)
{
  tsr_scope *scope = tsr__frames_home(left, right);
  tsr__error error = { 0 };
  if (!tsr__frame_usable(left) || !tsr__frame_usable(right))
    return tsr__frame_inert_among((tsr_frame *[]){ left, right }, 2, "tsr_frame_join", site);
  tsr_frame *df = tsr__frame_make(scope, TSR__FRAME_JOIN, "tsr_frame_join", site);
  if (df->inert) return df;
  df->parent = left;
  df->other = right;
  tsr_status status = tsr__check_owner(left->node.scope, scope, df->what, "the left frame", &error);
  if (!status)
    status = tsr__check_owner(right->node.scope, scope, df->what, "the right frame", &error);
  if (!status) status = take_opts(df, opts, &error);
  if (!status) status = take_on(df, on, &error);
  return status ? tsr__frame_fail(df, &error) : tsr__frame_typed(df);
}

/* ---- columns ----------------------------------------------------------------------------- */

/* Which type a side is to be cast to, 0: none. Text becomes what it meets, a bool a number; of
 * others, times and numbers, none can be the other. */
static int cast_for(const tsr__expr *side, const tsr__expr *other)
{
  if (side->type == TSR_COL_TEXT) return other->type;
  return side->type == TSR_COL_BOOL && tsr__is_number(other->type) ? other->type : 0;
}

static void add_key_text(const tsr__expr *key, int type, tsr__text *out)
{
  if (type) tsr__text_add(out, "cast(");
  tsr__expr_print(key, out);
  if (type) tsr__text_add(out, ", '%s')", tsr_coltype_name((tsr_coltype)type));
}

/* Types that do not meet, and how the pair is to be written. The advice is the whole pair as it is
 * to be written, quotes included, so it can be copied. */
static tsr_status refuse_types(const tsr_frame *df, int i, tsr__error *error)
{
  const tsr__item *item = &df->formula.item[i];
  const tsr__expr *left = item->left, *right = item->expr;
  int cast_left = cast_for(left, right), cast_right = cast_left ? 0 : cast_for(right, left);
  tsr__text advice;
  tsr__text_init(&advice, NULL);
  /* Neither can become the other: integers are what both can be cast to. */
  if (!cast_left && !cast_right) cast_left = cast_right = TSR_COL_I64;
  add_key_text(left, cast_left == left->type ? 0 : cast_left, &advice);
  tsr__text_add(&advice, " = ");
  add_key_text(right, cast_right == right->type ? 0 : cast_right, &advice);
  tsr__caret(error, TSR_EDTYPE, (tsr__place){ &df->formula, item->at, item->span },
             "the key is %s in the left frame and %s in the right frame; write \"%.400s\"",
             tsr_coltype_name((tsr_coltype)left->type), tsr_coltype_name((tsr_coltype)right->type),
             tsr__text_get(&advice));
  tsr__text_free(&advice);
  return error->status;
}

/* A key as it is read from its side's columns. */
static tsr_status type_key(const tsr_frame *df, tsr__expr *key, const tsr__schema *schema,
                           tsr__error *error)
{
  if (tsr__check(&df->formula, key, schema, TSR__IN_ROW, error)) return error->status;
  if (key->bare) return TSR_OK;
  return tsr__caret(
      error, TSR_EARG, (tsr__place){ &df->formula, key->at, key->span },
      "the key reads no column of its frame; to compare with a value, filter the frame");
}

/* Checked again whenever a parent's schema changed. */
static tsr_status type_keys(tsr_frame *df, tsr__error *error)
{
  tsr__join *join = df->join;
  for (int i = 0; i < join->key_count; i++) {
    tsr__expr *left = join->left[i], *right = join->right[i];
    if (type_key(df, left, &df->parent->schema, error) ||
        type_key(df, right, &df->other->schema, error))
      return error->status;
    tsr__align_vacant(left, right);
    tsr__expr a = { .type = left->type }, b = { .type = right->type };
    bool null = a.type == TSR__COL_NULL || b.type == TSR__COL_NULL;
    bool mixed = !null && (a.type == TSR_COL_BOOL) != (b.type == TSR_COL_BOOL);
    int type = mixed ? -1 : tsr__meet(&a, &b);
    /* u64 and i64: what is negative is null there, and equals nothing. */
    if (tsr__is_integer(a.type) && tsr__is_integer(b.type) && type == TSR_COL_F64)
      type = TSR_COL_U64;
    if (type < 0) return refuse_types(df, i, error);
    join->type[i] = (uint8_t)type;
  }
  return TSR_OK;
}

/* A right key that is a plain column equals a left one in every result, so it is left out. An
 * expression on the right is no column of the result, so nothing is left out for it. */
static bool is_right_key(const tsr__join *join, int column)
{
  for (int i = 0; i < join->key_count; i++)
    if (join->right[i]->kind == TSR__E_COLUMN && join->right[i]->column == column) return true;
  return false;
}

/* A right column's name beside those before it. */
static const char *name_of(tsr_frame *df, const tsr__names *names, const char *name,
                           tsr__error *error)
{
  if (tsr__names_find(names, name) < 0) return name;
  /* Only where the name is taken. */
  size_t length = strlen(name), more = strlen(df->join->suffix);
  char *out = keep(df, (int)(length + more + 1), 1, error);
  if (!out) return NULL;
  memcpy(out, name, length);
  memcpy(out + length, df->join->suffix, more + 1);
  if (tsr__names_find(names, out) < 0) return out;
  tsr__error_set(error, TSR_ECOLUMN,
                 "%s: both frames have a column '%.60s', and '%.60s' is taken too; give another "
                 ".suffix, or rename a column",
                 df->what, name, out);
  return NULL;
}

tsr_status tsr__type_join(tsr_frame *df, tsr__error *error)
{
  const tsr__schema *left = &df->parent->schema, *right = &df->other->schema;
  tsr__join *join = df->join;
  /* Semi and anti joins only choose among the left rows: right columns would have nothing to
   * show. */
  bool both = join->how == TSR_JOIN_INNER || join->how == TSR_JOIN_LEFT;
  int count = left->count;
  /* Room for all columns of both; some of the right ones may be left out. */
  tsr__field *field = keep(df, left->count + right->count, sizeof *field, error);
  join->take = keep(df, right->count, sizeof *join->take, error);
  if (error->status || type_keys(df, error)) return error->status;
  memcpy(field, left->field, (size_t)count * sizeof *field);
  tsr__names names = { .table.arena = &df->node.scope->arena };
  for (int i = 0; i < count; i++) tsr__names_add(&names, field[i].name, i);
  join->take_count = 0;
  for (int i = 0; both && i < right->count; i++) {
    if (is_right_key(join, i)) continue;
    const char *name = name_of(df, &names, right->field[i].name, error);
    if (!name) return error->status;
    tsr__names_add(&names, name, count);
    field[count] = right->field[i];
    field[count++].name = name;
    join->take[join->take_count++] = i;
  }
  if (names.failed) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  df->schema = (tsr__schema){ .count = count, .field = field };
  return TSR_OK;
}
