/* Joins: names and types at the call, keys and rows at a terminal.
 *
 *   on "k, day = date(at)"     left  k, day     right  k, date(at)     pairs meet in one type
 *   columns                    left ..., then right ... but for those that are keys; a name taken
 *                              gets the suffix
 *
 * Text keys meet by the left dictionary: each right code is mapped to the left code of the same
 * text, or to -1, which equals nothing. So rows are compared as numbers alone, and a dictionary is
 * looked through once, not once a row.
 *
 * A left row keeps its place: the result lies where the left rows do, in their order. Whether a key
 * repeats is seen by relate/ on the way; which one it was is looked for only when it matters. */
#include "frame/run/run.h"

#include <stdio.h>

/* ---- rows -------------------------------------------------------------------------------- */

/* One side: its columns that the result has, then its keys where they are not among them.
 *
 *    carry.col   columns of the result, by place in `df` | keys that are none of them
 *    at          which column of `df`                    | -1 */
typedef struct side {
  tsr_frame *df;
  bool *carried; /* by column of `df` */
  tsr__lower low;
  tsr__bound bound;
  tsr__carry carry;
  int columns;           /* of it that are no keys */
  bool right;            /* texts of its keys are looked for in the left's, each by itself */
  tsr__expr *const *key; /* of `df` */
  int *at; /* what each carried column is in `df`; -1: a key that was converted, or only a key */
  tsr__rel_key *keys;
  tsr__rel rel;
} side;

static tsr_status add_key(side *s, const tsr__expr *expr, int type, tsr__rel_key *key)
{
  int place = -1;
  bool column = expr->kind == TSR__E_COLUMN;
  /* A signed key beside an unsigned one: a negative number equals none of u64, so it becomes
   * null, which matches nothing. */
  bool natural = type == TSR_COL_U64 && expr->type != TSR_COL_U64;
  tsr__col col = natural    ? tsr__lower_natural(&s->low, expr)
                 : s->right ? tsr__lower_row(&s->low, expr, type)
                            : tsr__lower_key(&s->low, expr, type);
  /* Unconverted, so the carried column serves as the key. */
  bool same = column && col.values == s->bound.col[expr->column].values;
  for (int i = 0; same && i < s->carry.count && place < 0; i++)
    if (s->at[i] == expr->column) place = i;
  if (place < 0) {
    place = s->carry.count++;
    s->at[place] = -1;
    s->carry.col[place] = col;
  }
  *key = (tsr__rel_key){ .column = place };
  return tsr_scope_status(s->low.scope);
}

static tsr_status lower_keys(tsr__bind *bind, void *user)
{
  side *s = user;
  const tsr__join *join = bind->top->join;
  tsr_status status = TSR_OK;
  s->low = (tsr__lower){ .bind = bind,
                         .scope = bind->scope,
                         .site = bind->site,
                         .frame = bind->top,
                         .from = s->df,
                         .in = &s->bound };
  /* The columns of the result come first and are the same each time: lowering starts behind
   * them. */
  s->carry.count = s->columns;
  for (int i = 0; i < join->key_count && !status; i++)
    status = add_key(s, s->key[i], join->type[i], &s->keys[i]);
  return status;
}

static tsr_status bind_side(tsr__bind *bind, const bool *need, side *s)
{
  int keys = bind->top->join->key_count, columns = s->df->schema.count, most = columns + keys;
  s->carry.col = tsr__bind_room(bind, most, sizeof *s->carry.col);
  s->at = tsr__bind_room(bind, most, sizeof *s->at);
  s->keys = tsr__bind_room(bind, keys, sizeof *s->keys);
  if (!s->carry.col || !s->at || !s->keys) return bind->error.status;
  tsr_status status = tsr__stage_frame(bind, s->df, true, need, &s->bound);
  if (status) return status;
  for (int i = 0; i < columns; i++) {
    if (!s->carried[i]) continue;
    s->at[s->columns] = i;
    s->carry.col[s->columns++] = s->bound.col[i];
  }
  return tsr__lower_until_known(bind, lower_keys, s);
}

/* Right codes of text in the left's dictionaries. Only distinct texts are compared, not rows; a
 * text that the left has not becomes -1. */
static tsr_status map_texts(const tsr__join *join, side *left, side *right)
{
  for (int i = 0; i < join->key_count; i++) {
    const tsr__dict *to = left->carry.col[left->keys[i].column].dict;
    const tsr__dict *from = right->carry.col[right->keys[i].column].dict;
    /* One dictionary for both, or none in one of them (a column of nulls): codes can be compared as
     * they are. */
    if (join->type[i] != TSR_COL_TEXT || !from || !to || from == to) continue;
    right->keys[i].map = tsr__text_map(&right->low, from, to);
    right->keys[i].map_count = from->count;
    if (!right->keys[i].map) return tsr_scope_status(right->low.scope);
  }
  return TSR_OK;
}

/* ---- both sides on one mesh ---- */

static tsr_status move(tsr__bind *bind, tsr__rel *rel, const tsr_sharding *to)
{
  tsr__rel moved = { 0 };
  tsr__rel_stats stats = { 0 };
  tsr_status status = tsr__rel_place(rel, to, &moved, &stats, &bind->error);
  if (status) return status;
  tsr__rel_free(rel);
  *rel = moved;
  return TSR_OK;
}

/* Rows that lie on no mesh, or on another, go to the left ones; where those lie on none, to the
 * right ones. A small right side goes whole to every device. Joins need both sides on one mesh.
 * The left rows stay, since the result lies where they do; which of two ways the right ones take
 * is decided by bytes alone. */
static tsr_status meet_places(tsr__bind *bind, tsr__rel *left, tsr__rel *right)
{
  /* Both on one mesh, or both on none. */
  if (left->sharding.mesh == right->sharding.mesh) return TSR_OK;
  if (!left->sharding.mesh) return move(bind, left, &right->sharding);
  /* Every device gets the whole right side where that is the smaller one: no left row needs to be
   * looked at for it. Otherwise its rows are dealt like the left ones. */
  tsr_sharding whole = tsr_on_dims(left->sharding.mesh, 0, NULL);
  whole = tsr__sharding_canon(&whole);
  bool small = tsr__rel_bytes(right) <= tsr__rel_bytes(left);
  return move(bind, right, small ? &whole : &left->sharding);
}

/* ---- a key that must not repeat ---- */

static tsr_status print_value(tsr__bind *bind, const tsr__value *values, int64_t row,
                              const tsr__col *col, tsr__text *out)
{
  uint64_t found = 0; /* as the element lies in host memory */
  tsr_dtype dtype = (tsr_dtype)values->dtype;
  char text[40];
  int64_t whole = 0, length = 0;
  tsr_status status = tsr__value_at(values, row, &found, bind->what, &bind->error);
  if (status) return status;
  if (!tsr__dtype_is_real(dtype)) whole = tsr__dtype_get_whole(dtype, &found, 0);
  switch (col->type) {
  case TSR_COL_TEXT: {
    /* Sixty bytes say which one it is; a text may be any length. */
    const char *word = tsr__dict_get(col->dict, whole, &length);
    tsr__text_add(out, "'%.*s'", (int)(length < 60 ? length : 60), word);
    return TSR_OK;
  }
  case TSR_COL_DATE: tsr__date_write(whole, text); break;
  case TSR_COL_TIME: tsr__time_write(whole, text); break;
  case TSR_COL_BOOL: text[snprintf(text, sizeof text, "%d", (int)whole)] = '\0'; break;
  default: text[tsr__dtype_text(dtype, &found, 0, text)] = '\0';
  }
  tsr__text_add(out, "%s", text);
  return TSR_OK;
}

/* Finds a right row whose key stood there before among those that have a left one. Only now that
 * the join failed: the right rows that have a left one (a semi join the other way round), their
 * first rows by key, and the first row that is none of them. */
static tsr_status say_repeat(tsr__bind *bind, const side *left, const side *right)
{
  const tsr__join *join = bind->top->join;
  tsr__rel_join_ask ask = { .left = &right->rel,
                            .right = &left->rel,
                            .left_keys = right->keys,
                            .right_keys = left->keys,
                            .key_count = join->key_count,
                            .how = TSR__MATCH_SEMI };
  tsr__rel met = { 0 };
  tsr__rel_stats stats = { 0 };
  bool repeats;
  tsr__value *mask = NULL;
  tsr__text key;
  if (tsr__rel_join(&ask, &met, &repeats, &stats, &bind->error)) return bind->error.status;
  tsr__rel_group_ask firsts = { .in = &met, .keys = right->keys, .key_count = join->key_count };
  tsr_status status = tsr__rel_first_of_group(&firsts, 1, &mask, &stats, &bind->error);
  tsr__text_init(&key, NULL);
  /* Where no repetition is found the row lies behind the last; the message then has no key. */
  int64_t row = met.total;
  tsr__value_place first = { false, 0 };
  if (!status) status = tsr__value_find(mask, first, &row, bind->what, &bind->error);
  for (int i = 0; row < met.total && !status && i < join->key_count; i++) {
    int column = right->keys[i].column;
    tsr__text_add(&key, i ? ", " : "");
    tsr__expr_print(join->right[i], &key);
    tsr__text_add(&key, " = ");
    status = print_value(bind, met.column[column].values, row, &right->carry.col[column], &key);
  }
  tsr__value_release(mask);
  tsr__rel_free(&met);
  /* Whatever failed on the way, this is the error that the user must see, unless one was set
   * before. */
  tsr__error_set(
      &bind->error, TSR_EVALUE,
      "tsr_frame_join: a left row has two matches, but `unique` is set: the right frame has the "
      "key %.600s more than once; use tsr_frame_distinct on the right frame first",
      tsr__text_get(&key));
  tsr__text_free(&key);
  return bind->error.status;
}

/* ---- all of it ---- */

/* Which columns of each side the result has, and where they stand in it. */
static tsr_status choose(tsr__bind *bind, const bool *need, side *left, side *right)
{
  tsr_frame *df = bind->top;
  left->df = df->parent;
  left->key = df->join->left;
  right->df = df->other;
  right->key = df->join->right;
  left->carried = tsr__bind_room(bind, left->df->schema.count, sizeof(bool));
  right->carried = tsr__bind_room(bind, right->df->schema.count, sizeof(bool));
  if (!left->carried || !right->carried) return bind->error.status;
  /* Two halves of the schema: the parent's columns, then the taken ones. */
  int columns = left->df->schema.count;
  for (int i = 0; i < columns; i++) left->carried[i] = need[i];
  for (int i = 0; i < df->join->take_count; i++)
    right->carried[df->join->take[i]] = need[columns + i];
  return TSR_OK;
}

/* relate/ gives the left columns, then the taken right ones: where each belongs in the frame. */
static void list_columns(tsr_frame *df, const side *left, const side *right, int *take,
                         tsr__made *made)
{
  const tsr__join *join = df->join;
  int columns = left->df->schema.count, n = left->carry.count;
  for (int i = 0; i < n; i++) {
    made->at[i] = left->at[i];
    if (left->at[i] >= 0) made->meta[left->at[i]] = left->carry.col[i];
  }
  for (int i = 0; i < right->carry.count; i++) {
    /* A key that only the match needs is no column of the result, so it is not taken. */
    if (right->at[i] < 0) continue;
    for (int k = 0; k < join->take_count; k++)
      if (join->take[k] == right->at[i]) made->at[n] = columns + k;
    made->meta[made->at[n]] = right->carry.col[i];
    take[n++ - left->carry.count] = i;
  }
  for (int i = 0; i < df->schema.count; i++) made->meta[i].type = df->schema.field[i].type;
}

static void note(tsr_frame *df, const side *left, const side *right, const tsr__rel *out)
{
  tsr__making *making = &df->making;
  making->done = true;
  making->rows_in = left->rel.total;
  making->bytes_in = tsr__rel_bytes(&left->rel);
  making->other_rows = right->rel.total;
  making->other_bytes = tsr__rel_bytes(&right->rel);
  making->rows_out = out->total;
  making->bytes_out = tsr__rel_bytes(out);
}

/* Both sides are evaluated before anything moves, so that an error in either costs no exchange. */
static tsr_status join_sides(tsr__bind *bind, side *left, side *right, tsr__made *made)
{
  tsr_frame *df = bind->top;
  tsr__join *join = df->join;
  bool repeats = false;
  /* The places among the carried right columns of those that the result has. */
  int *take = tsr__bind_room(bind, right->carry.count, sizeof *take);
  if (!take || tsr__made_room(bind, left->carry.count + right->carry.count, made))
    return bind->error.status;
  tsr_status status = tsr__carry_rows(&left->low, &left->carry, &left->rel);
  if (!status) status = tsr__carry_rows(&right->low, &right->carry, &right->rel);
  if (!status) status = meet_places(bind, &left->rel, &right->rel);
  if (status) return status;
  list_columns(df, left, right, take, made);
  tsr__rel_join_ask ask = { .left = &left->rel,
                            .right = &right->rel,
                            .left_keys = left->keys,
                            .right_keys = right->keys,
                            .key_count = join->key_count,
                            .how = join->how,
                            .take = take };
  /* `take` has the columns of the result only; keys behind them are of the match alone. */
  for (int i = 0; i < right->carry.count; i++) ask.take_count += right->at[i] >= 0;
  status = tsr__rel_join(&ask, &made->rel, &repeats, &df->making.stats, &bind->error);
  /* Checked after the join, which knows; its result is thrown away then. */
  if (!status && repeats && join->unique) status = say_repeat(bind, left, right);
  if (!status) note(df, left, right, &made->rel);
  return status;
}

tsr_status tsr__make_join(tsr__bind *bind, tsr__visit *v, tsr__made *made)
{
  const bool *need = v->need;
  tsr_frame *df = bind->top;
  side left = { .df = NULL }, right = { .right = true };
  bool *wanted = tsr__bind_room(bind, df->parent->schema.count, sizeof(bool));
  bool *other = tsr__bind_room(bind, df->other->schema.count, sizeof(bool));
  if (!wanted || !other || choose(bind, need, &left, &right)) return bind->error.status;
  /* The keys of both sides are marked, too. */
  tsr__frame_needs(df, need, wanted, other);
  tsr_status status = bind_side(bind, wanted, &left);
  if (!status) status = bind_side(bind, other, &right);
  if (!status) status = map_texts(df->join, &left, &right);
  if (!status) status = join_sides(bind, &left, &right, made);
  tsr__rel_free(&left.rel);
  tsr__rel_free(&right.rel);
  return status;
}
