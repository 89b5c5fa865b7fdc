/* The calls that make frames.
 *
 *   usable parent? -> parse -> node -> schema and types -> the frame, or an inert one
 *
 * Invariant of a frame that is not inert: its expressions were checked against the parent's schema,
 * and its own schema has no name twice. Nothing is read or computed here but what a file says
 * of its columns.
 *
 * A frame belongs to the newest scope inside those of what it stands on. One that could not be made
 * is inert: what stands on it is inert too, and says nothing of its own. */
#include "frame/chain/chain.h"

/* Frames of no scope; `op` is why. Constants, so they may be given out without memory and from any
 * thread. They are handed out as frames that can be written to, and nobody does: each writer looks
 * at `inert` first. */
static const tsr_frame no_memory_frame = { .inert = true, .op = TSR_ENOMEM };
static const tsr_frame no_scope_frame = { .inert = true, .op = TSR_EARG };

static void release_frame(tsr__node *node)
{
  tsr_frame *df = (tsr_frame *)node;
  if (!df->source) return;
  /* What tsr__source_use has in use; one that failed has no columns in its schema. */
  for (int i = 0; df->kind == TSR__FRAME_ARRAYS && i < df->schema.count; i++)
    tsr__array_let_go(df->source->col[i].values);
  /* The rows at the front of a file were read with dictionaries of their own. */
  for (const tsr__source *s = df->source; s; s = s->front)
    for (int i = 0; i < s->dict_count; i++) tsr__dict_release(s->dicts[i]);
  if (df->source->reader.ops) df->source->reader.ops->close(df->source->reader.file);
  df->source = NULL;
}

void tsr__source_use(tsr_frame *df)
{
  for (int i = 0; i < df->schema.count; i++) tsr__array_use(df->source->col[i].values);
}

tsr_frame *tsr__frame_make(tsr_scope *scope, int kind, const char *what, const char *site)
{
  tsr__scope_usable(scope, what, site);
  if (!scope) return (tsr_frame *)&no_scope_frame;
  if (scope->inert) return (tsr_frame *)&no_memory_frame;
  tsr_frame *df = tsr__node_new(scope, sizeof *df, site, release_frame);
  if (!df) return (tsr_frame *)&no_memory_frame;
  df->inert = scope->rt->error.status != TSR_OK; /* no devices to compute on */
  df->kind = (uint8_t)kind;
  df->what = what;
  /* Counts up when a late value of a file changes a type; whoever was checked against an older
   * version is checked again. */
  df->version = 1;
  return df;
}

/* An inert frame in a scope, which has the message. Its kind does not matter: who meets it looks at
 * `inert` before anything else. */
static tsr_frame *frame_inert(tsr_scope *scope, const char *site)
{
  if (!scope) return (tsr_frame *)&no_scope_frame;
  tsr_frame *df = tsr__frame_make(scope, TSR__FRAME_ARRAYS, "frame", site);
  if (!df->inert) df->inert = true;
  return df;
}

tsr_scope *tsr__frame_home(const tsr_frame *df)
{
  return df ? tsr__scope_here(df->node.scope) : NULL;
}

/* Where a frame of both belongs: the inner one of their scopes, or a newer one of this thread. */
tsr_scope *tsr__frames_home(const tsr_frame *a, const tsr_frame *b)
{
  return tsr__scope_here(tsr__scope_inner(a ? a->node.scope : NULL, b ? b->node.scope : NULL));
}

tsr_status tsr__frame_why_inert(const tsr_frame *df, const char *what, const char *site)
{
  if (!df->node.scope && df->op == TSR_ENOMEM)
    return tsr__fail(
        NULL, site, TSR_ENOMEM,
        "%s: there was no memory for the frame; close scopes that are no longer needed", what);
  return tsr__fail_inert(tsr__frame_home(df), df->node.scope, site ? site : df->node.site, what,
                         "frame");
}

tsr_frame *tsr__frame_inert_like(const tsr_frame *df, const char *site)
{
  /* One of the constants above: there is no scope to make another in, and its reason stays. */
  if (df && !df->node.scope) return (tsr_frame *)df;
  tsr_frame *out = frame_inert(tsr__frame_home(df), site);
  if (df && df->shared && out->node.scope) out->shared = true;
  return out;
}

tsr_array *tsr__frame_inert_array(const tsr_frame *df, const char *site)
{
  if (df && !df->node.scope) return tsr__inert_why((tsr_status)df->op);
  return tsr__make_inert(tsr__frame_home(df), site);
}

/* Two things may be missing at once, and one is told: an inert frame has told its own, a NULL has
 * not. */
tsr_frame *tsr__frame_inert_among(tsr_frame *const *frames, int count, const char *what,
                                  const char *site)
{
  tsr_scope *scope = NULL;
  int missing = 0;
  bool inert = false, shared = false;
  tsr_frame *nowhere = NULL;
  for (int i = 0; i < count; i++) {
    if (frames[i] && !frames[i]->node.scope) nowhere = frames[i];
    if (frames[i]) scope = tsr__scope_inner(scope, frames[i]->node.scope);
    else if (!missing) missing = i + 1;
    inert = inert || (frames[i] && frames[i]->inert);
    shared = shared || (frames[i] && frames[i]->shared);
  }
  scope = tsr__scope_here(scope);
  if (nowhere && !scope) return nowhere; /* whose making told why */
  tsr_frame *out = frame_inert(scope, site);
  if (shared && out->node.scope) out->shared = true;
  /* Beside an inert frame nothing is said: its own error came first, and the NULL may well follow
   * from it. */
  if (count < 1)
    tsr__fail(NULL, site, TSR_EARG, "%s: no frames are given; give at least one", what);
  else if (nowhere && nowhere->op == TSR_ENOMEM)
    tsr__fail(scope, site, TSR_ENOMEM,
              "%s: there was no memory for a frame; close scopes that are no longer needed", what);
  else if (nowhere) tsr__fail_inert(scope, NULL, site, what, "frame");
  else if (missing && !inert)
    tsr__fail(scope, site, TSR_EARG,
              "%s: frame %d of %d is NULL; check the call that makes the frame", what, missing,
              count);
  return out;
}

tsr_frame *tsr__frame_fail(tsr_frame *df, const tsr__error *error)
{
  if (df->inert) return df;
  tsr__fail_error(df->node.scope, df->node.site, error);
  df->inert = true;
  /* So that nobody reads a schema that was made halfway. */
  df->schema = (tsr__schema){ 0 };
  return df;
}

bool tsr__frame_usable(const tsr_frame *df)
{
  return df && !df->inert;
}

/* Made of memory: nothing of it is read later, so it may be used from many threads. */
bool tsr__frame_is_source(const tsr_frame *df)
{
  return df->kind == TSR__FRAME_ARRAYS || df->kind == TSR__FRAME_TEXT;
}

/* Names are texts that are printed and compared as such. */
tsr_status tsr__check_name(const char *what, const char *name, tsr__error *error)
{
  if (!name || !*name)
    return tsr__error_set(error, TSR_ECOLUMN, "%s: a column's name is %s; give every column a name",
                          what, name ? "empty" : "NULL");
  size_t length = strlen(name);
  if (length > 1000 || !tsr__good_text(name, length))
    return tsr__error_set(error, TSR_ECOLUMN,
                          "%s: a column's name is longer than 1,000 bytes or not UTF-8 text", what);
  return TSR_OK;
}

/* The text is freed in any case. */
tsr_status tsr__frame_give(tsr_frame *df, tsr__text *text, const char **to, const char *site)
{
  tsr_scope *scope = tsr__frame_home(df);
  char *out =
      text->failed ? NULL : tsr__arena_text(&scope->arena, tsr__text_get(text), text->length);
  tsr__text_free(text);
  if (out) *to = out;
  return out ? TSR_OK
             : tsr__fail(scope, site ? site : df->node.site, TSR_ENOMEM, "%s: out of memory",
                         df->what);
}

const char *tsr__frame_say(tsr_frame *df, tsr__text *text)
{
  const char *out;
  return tsr__frame_give(df, text, &out, NULL) ? tsr_message(tsr__frame_home(df)) : out;
}

tsr_status tsr__frame_check_out(tsr_frame *df, const char *const *out, const char *what,
                                const char *site)
{
  if (out || !tsr__frame_usable(df)) return TSR_OK;
  if (!site) site = df->node.site;
  tsr_status status =
      tsr__fail(tsr__frame_home(df), site, TSR_EARG,
                "%s: the pointer for the text is NULL; give the address of one", what);
  return tsr__frame_refuse(df, what, site, status);
}

/* ---- sources ----------------------------------------------------------------------------- */

tsr__source *tsr__source_new(tsr_scope *scope, int columns)
{
  size_t count = columns > 0 ? (size_t)columns : 1;
  tsr__source *source = tsr__arena_new(&scope->arena, sizeof *source);
  if (!source) return NULL;
  source->col = tsr__arena_new(&scope->arena, count * sizeof *source->col);
  source->dicts = tsr__arena_new(&scope->arena, count * sizeof *source->dicts);
  /* Not known until the file was read. */
  source->rows = -1;
  return source->col && source->dicts ? source : NULL;
}

/* All columns have one row count; an array whose size only a run tells has none yet. The whole list
 * before anything is taken over, so that the first column that is wrong is named whatever follows
 * it. */
static tsr_status check_columns(const tsr_column *columns, int count, tsr__error *error)
{
  const char *what = "tsr_frame_new";
  if (!columns || count < 1)
    return tsr__error_set(error, TSR_ECOLUMN, "%s: no columns are given; a frame has at least one",
                          what);
  const tsr_array *first = columns[0].array;
  for (int i = 0; i < count; i++) {
    const tsr_array *array = columns[i].array;
    if (tsr__check_name(what, columns[i].name, error)) return error->status;
    if (!array)
      return tsr__error_set(error, TSR_EARG, "%s: the array of column '%.60s' is NULL", what,
                            columns[i].name);
    if (array->shape.rank != 1 || array->shape.dims[0] < 0)
      return tsr__error_set(error, TSR_ESHAPE, "%s: column '%.60s' has rank %d%s, expected 1", what,
                            columns[i].name, array->shape.rank,
                            array->shape.rank == 1 ? " and a size known only at run time" : "");
    if (array->shape.dims[0] != first->shape.dims[0])
      return tsr__error_set(error, TSR_ESHAPE,
                            "%s: column '%.60s' has %lld rows, expected %lld as "
                            "in '%.60s'",
                            what, columns[i].name, (long long)array->shape.dims[0],
                            (long long)first->shape.dims[0], columns[0].name);
  }
  return TSR_OK;
}

/* The innermost scope among those of the columns; NULL if an array is inert. A frame of arrays of
 * several scopes belongs to the innermost one; that the others enclose it is checked where columns
 * are taken over. */
static bool columns_scope(const tsr_column *columns, int count, tsr_scope **scope)
{
  bool fine = true;
  for (int i = 0; i < count; i++) {
    /* NULL ones are told of later, by check_columns. */
    if (!columns || !columns[i].array) continue;
    fine = fine && !columns[i].array->inert;
    if (columns[i].array->node.scope)
      *scope = tsr__scope_inner(*scope, columns[i].array->node.scope);
  }
  return fine;
}

static bool some_shared(const tsr_column *columns, int count)
{
  bool shared = false;
  for (int i = 0; i < count && columns; i++)
    shared = shared || (columns[i].array && tsr__is_shared(columns[i].array));
  return shared;
}

/* Whether `part` lives at least as long as `scope` does. */
tsr_status tsr__check_owner(const tsr_scope *part, const tsr_scope *scope, const char *what,
                            const char *name, tsr__error *error)
{
  if (part->rt != scope->rt)
    return tsr__error_set(
        error, TSR_EARG,
        "%s: %.60s belongs to another runtime; make it with the runtime of the scope", what, name);
  if (!tsr__scope_encloses(part, scope))
    return tsr__error_set(error, TSR_EARG,
                          "%s: %.60s belongs to a scope that may close before this one; move it to "
                          "a scope around both with tsr_keep",
                          what, name);
  return TSR_OK;
}

/* Columns are taken over one by one; only when all are there the arrays are in use, so that a
 * failure leaves none behind. */
static tsr_status take_columns(tsr_frame *df, const tsr_column *columns, int count,
                               tsr__error *error)
{
  tsr__arena *arena = &df->node.scope->arena;
  tsr__field *field = NULL;
  tsr__names names = { .table.arena = arena };
  if (check_columns(columns, count, error)) return error->status;
  df->source = tsr__source_new(df->node.scope, count);
  field = tsr__arena_new(arena, (size_t)count * sizeof *field);
  if (!df->source || !field) goto no_memory;
  df->source->rows = columns[0].array->shape.dims[0];
  for (int i = 0; i < count; i++) {
    tsr_array *array = columns[i].array;
    field[i].name = tsr__arena_text(arena, columns[i].name, strlen(columns[i].name));
    field[i].type = array->dtype;
    if (!field[i].name) goto no_memory;
    /* A chain is planned again whenever it is collected, so its columns must live as long as the
     * frame does. */
    if (tsr__check_owner(array->node.scope, df->node.scope, df->what, field[i].name, error))
      return error->status;
    if (tsr__names_find(&names, field[i].name) >= 0)
      return tsr__error_set(
          error, TSR_ECOLUMN,
          "tsr_frame_new: two columns are named '%.60s'; give each a name of its own",
          field[i].name);
    tsr__names_add(&names, field[i].name, i);
    if (names.failed) goto no_memory;
    df->source->col[i] = (tsr__col){ .values = array, .type = field[i].type };
    /* The frame lies as its first placed column does; the others are brought there where they
     * differ. */
    bool placed = array->placed || (array->value && array->sharding.mesh);
    if (placed && !df->source->sharding.mesh) {
      df->source->sharding = array->sharding;
      df->source->sharding.unreduced = 0; /* columns are whole */
    }
  }
  df->schema = (tsr__schema){ .count = count, .field = field };
  if (tsr__schema_index(df, error)) return error->status;
  tsr__source_use(df);
  return TSR_OK;
no_memory:
  return tsr__error_set(error, TSR_ENOMEM, "tsr_frame_new: out of memory");
}

tsr_frame *tsr_frame_new_at(tsr_scope *scope, const tsr_column *columns, int count,
                            const char *site)
{
  bool shared = some_shared(columns, count);
  /* An inert array has said why already: so the frame says nothing. */
  tsr_frame *df = columns_scope(columns, count, &scope)
                      ? tsr__frame_make(scope, TSR__FRAME_ARRAYS, "tsr_frame_new", site)
                      : frame_inert(scope, site);
  tsr__error error = { 0 };
  if (df->node.scope) df->shared = shared;
  if (df->inert || !take_columns(df, columns, count, &error)) return df;
  return tsr__frame_fail(df, &error);
}

/* ---- chains ------------------------------------------------------------------------------ */

/* Types and schema follow from its formula. */
/* Of any frame that it stands on: also of one that fails, whose others go on. */
static void note_shared(tsr_frame *df)
{
  if (df->inert && !df->node.scope) return;
  for (int i = 0; i < tsr__frame_parent_count(df); i++)
    if (tsr__frame_parent(df, i)->shared) df->shared = true;
  if (df->to.mesh && tsr__rel_apart(df->node.scope->rt, &df->to)) df->shared = true;
}

tsr_frame *tsr__frame_typed(tsr_frame *df)
{
  tsr__error error = { 0 };
  note_shared(df);
  if (df->inert || !tsr__frame_type_settled(df, &error)) return df;
  return tsr__frame_fail(df, &error);
}

/* A node on its parent, of the parent's home. The parent is never changed by it, so any number of
 * chains may stand on one frame. */
tsr_frame *tsr__frame_begin(tsr_frame *parent, int kind, const char *what, const char *site)
{
  if (!parent) tsr__fail_null(what, "frame", site);
  if (!tsr__frame_usable(parent)) return tsr__frame_inert_like(parent, site);
  tsr_frame *df = tsr__frame_make(tsr__frame_home(parent), kind, what, site);
  if (!df->inert) df->parent = parent;
  if (df->node.scope) df->shared = parent->shared;
  return df;
}

/* Parses the formula into the frame's own memory; names in it are resolved later, against the
 * parent. */
static tsr_frame *with_formula(tsr_frame *df, const tsr_formula *formula, bool list)
{
  tsr__error error = { 0 };
  if (df->inert) return df;
  tsr__parse_ask ask = { df->what, formula, list };
  if (tsr__parse(&ask, &df->node.scope->arena, &df->formula, &error))
    return tsr__frame_fail(df, &error);
  return df;
}

tsr_frame *tsr_frame_filter_at(tsr_frame *df, const tsr_formula *predicate, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_FILTER, "tsr_frame_filter", site);
  return tsr__frame_typed(with_formula(out, predicate, false));
}

tsr_frame *tsr_frame_assign_at(tsr_frame *df, const char *name, const tsr_formula *value,
                               const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_ASSIGN, "tsr_frame_assign", site);
  tsr__error error = { 0 };
  if (out->inert) return out;
  if (tsr__check_name(out->what, name, &error)) return tsr__frame_fail(out, &error);
  out->name = tsr__arena_text(&out->node.scope->arena, name, strlen(name));
  if (!out->name) {
    tsr__error_set(&error, TSR_ENOMEM, "tsr_frame_assign: out of memory");
    return tsr__frame_fail(out, &error);
  }
  return tsr__frame_typed(with_formula(out, value, false));
}

tsr_frame *tsr_frame_select_at(tsr_frame *df, const tsr_formula *columns, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_SELECT, "tsr_frame_select", site);
  return tsr__frame_typed(with_formula(out, columns, true));
}

tsr_frame *tsr_frame_agg_at(tsr_frame *df, const tsr_formula *aggregates, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_AGG, "tsr_frame_agg", site);
  if (!out->inert) out->one_row = true;
  return tsr__frame_typed(with_formula(out, aggregates, true));
}

/* The groups in order of those keys that say how.
 *
 *   group_agg(df, "a desc, b", "sum(c)")    ->    sort(group(df, a, b), a desc)
 *
 * The names of its keys are columns of the groups, so the sort's keys are read like any. It goes by
 * the name of the call that the user wrote. */
static tsr_frame *order_groups(tsr_frame *groups, const char *site)
{
  const tsr__keylist *keys = &groups->keys;
  tsr__arena *arena = &groups->node.scope->arena;
  int count = keys->formula.count, used = 0;
  /* Keys of which somebody said how they are to be ordered. */
  for (int i = 0; i < count; i++) used += keys->order[i].given;
  /* Without an order that was asked for, groups stay in the order of their first rows. */
  if (groups->inert || !used) return groups;
  /* The groups are sorted by a frame of its own on top of them. */
  tsr_frame *out = tsr__frame_begin(groups, TSR__FRAME_SORT, groups->what, site);
  if (out->inert) return out;
  tsr__error error = { 0 };
  tsr__expr *expr = tsr__arena_new(arena, (size_t)used * sizeof *expr);
  out->keys.formula = keys->formula; /* errors point into its text */
  out->keys.formula.item = tsr__arena_new(arena, (size_t)used * sizeof(tsr__item));
  out->keys.order = tsr__arena_new(arena, (size_t)used * sizeof(tsr__order));
  if (!expr || !out->keys.formula.item || !out->keys.order) {
    tsr__error_set(&error, TSR_ENOMEM, "%s: out of memory", out->what);
    return tsr__frame_fail(out, &error);
  }
  out->keys.formula.count = used;
  for (int i = count - 1; i >= 0; i--) {
    const tsr__item *item = &keys->formula.item[i];
    if (!keys->order[i].given) continue;
    /* From behind, so that `used` ends at 0 and the places come out in the order of the keys. */
    expr[--used] = (tsr__expr){ .kind = TSR__E_COLUMN,
                                .depth = 1,
                                .at = item->at,
                                .span = item->span,
                                .text = item->name,
                                .length = (int)strlen(item->name) };
    out->keys.formula.item[used] =
        (tsr__item){ .name = item->name, .at = item->at, .span = item->span, .expr = &expr[used] };
    out->keys.order[used] = keys->order[i];
  }
  return tsr__frame_typed(out);
}

tsr_frame *tsr_frame_group_agg_at(tsr_frame *df, const char *keys, const tsr_formula *aggregates,
                                  const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_GROUP, "tsr_frame_group_agg", site);
  tsr__error error = { 0 };
  if (out->inert) return out;
  /* Both are parsed before either is checked. */
  if (tsr__parse_keys("tsr_frame_group_agg, keys", keys, &out->node.scope->arena, &out->keys,
                      &error))
    return tsr__frame_fail(out, &error);
  return order_groups(tsr__frame_typed(with_formula(out, aggregates, true)), site);
}

/* ---- whole frames ------------------------------------------------------------------------ */

/* Whether the operand is a frame, be it NULL, and no number. */
static bool takes_frame(const tsr_frame_operand *b)
{
  return b->frame || b->number.kind == TSR_SCALAR_NONE;
}

/* A number beside columns is a literal, of no width of its own (weak). As a node of an expression
 * it is bound by the same rules as a number in a formula. */
static tsr_status take_operand(tsr_frame *df, const tsr_frame_operand *b, tsr__error *error)
{
  if (takes_frame(b)) {
    df->other = b->frame;
    /* Both are bound only when the result is collected, so both must live as long as it does. */
    if (tsr__check_owner(df->parent->node.scope, df->node.scope, df->what, "the left frame", error))
      return error->status;
    return tsr__check_owner(b->frame->node.scope, df->node.scope, df->what, "the right frame",
                            error);
  }
  /* What fits i64 becomes an i64; what does not is refused here and not rounded. */
  tsr_scalar number = tsr__scalar_signed(b->number);
  if (number.kind == TSR_SCALAR_UINT)
    return tsr__error_set(error, TSR_EDTYPE,
                          "%s: the integer %llu does not fit i64; give the number as a double",
                          df->what, (unsigned long long)number.u);
  if (number.kind != TSR_SCALAR_INT && number.kind != TSR_SCALAR_FLOAT)
    return tsr__error_set(error, TSR_EARG, "%s: the operand is neither a number nor a frame",
                          df->what);
  df->number = tsr__arena_new(&df->node.scope->arena, sizeof *df->number);
  if (!df->number) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  bool whole = number.kind == TSR_SCALAR_INT;
  *df->number = (tsr__expr){ .kind = whole ? TSR__E_INT : TSR__E_FLOAT,
                             .depth = 1,
                             .i = whole ? number.i : 0,
                             .f = tsr__scalar_real(number),
                             .weak = true,
                             .type = whole ? TSR_COL_I64 : TSR_COL_F64 };
  return TSR_OK;
}

/* Either side may be the inert one: the result lies in a scope of one that has some. An operand
 * that is neither frame nor number counts as a missing frame. */
static tsr_frame *arith(tsr_frame *a, int op, tsr_frame_operand b, const char *site)
{
  static const char *const whats[] = { "tsr_frame_add", "tsr_frame_sub", "tsr_frame_mul",
                                       "tsr_frame_div" };
  tsr__error error = { 0 };
  if (takes_frame(&b) && !(tsr__frame_usable(a) && tsr__frame_usable(b.frame)))
    return tsr__frame_inert_among((tsr_frame *[]){ a, b.frame }, 2, whats[op], site);
  if (!a) tsr__fail_null(whats[op], "frame", site);
  if (!tsr__frame_usable(a)) return tsr__frame_inert_like(a, site);
  tsr_scope *scope = tsr__frames_home(a, takes_frame(&b) ? b.frame : NULL);
  tsr_frame *df = tsr__frame_make(scope, TSR__FRAME_ARITH, whats[op], site);
  if (df->inert) return df;
  df->op = (uint8_t)op;
  df->parent = a;
  if (take_operand(df, &b, &error)) return tsr__frame_fail(df, &error);
  return tsr__frame_typed(df);
}

tsr_frame *tsr_frame_add_at(tsr_frame *df, tsr_frame_operand b, const char *site)
{
  return arith(df, TSR__B_ADD, b, site);
}

tsr_frame *tsr_frame_sub_at(tsr_frame *df, tsr_frame_operand b, const char *site)
{
  return arith(df, TSR__B_SUB, b, site);
}

tsr_frame *tsr_frame_mul_at(tsr_frame *df, tsr_frame_operand b, const char *site)
{
  return arith(df, TSR__B_MUL, b, site);
}

tsr_frame *tsr_frame_div_at(tsr_frame *df, tsr_frame_operand b, const char *site)
{
  return arith(df, TSR__B_DIV, b, site);
}

/* Every column by one aggregate. `one_row`: a frame beside it may have any number of rows. */
static tsr_frame *reduce(tsr_frame *df, int op, const char *what, const char *site)
{
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_REDUCE, what, site);
  if (out->inert) return out;
  out->op = (uint8_t)op;
  out->one_row = true;
  return tsr__frame_typed(out);
}

tsr_frame *tsr_frame_sum_at(tsr_frame *df, const char *site)
{
  return reduce(df, TSR__A_SUM, "tsr_frame_sum", site);
}

tsr_frame *tsr_frame_mean_at(tsr_frame *df, const char *site)
{
  return reduce(df, TSR__A_MEAN, "tsr_frame_mean", site);
}

tsr_frame *tsr_frame_min_at(tsr_frame *df, const char *site)
{
  return reduce(df, TSR__A_MIN, "tsr_frame_min", site);
}

tsr_frame *tsr_frame_max_at(tsr_frame *df, const char *site)
{
  return reduce(df, TSR__A_MAX, "tsr_frame_max", site);
}

tsr_frame *tsr_frame_count_at(tsr_frame *df, const char *site)
{
  return reduce(df, TSR__A_COUNT, "tsr_frame_count", site);
}

tsr_frame *tsr_frame_var_at(tsr_frame *df, const char *site)
{
  return reduce(df, TSR__A_VAR, "tsr_frame_var", site);
}

tsr_frame *tsr_frame_std_at(tsr_frame *df, const char *site)
{
  return reduce(df, TSR__A_STD, "tsr_frame_std", site);
}
