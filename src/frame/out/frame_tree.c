/* Frames as trees of their columns, and back.
 *
 *   outside a body   keep -> column, column, ...     one program, then values that are there
 *   in a body        bind -> nodes of the columns    in the body's own scope; nothing runs
 *
 * Invariant: what a tree is made of are numbers and bools without nulls, so that a frame of it is
 * the frame that it came from. */
#include "tessera/frame_tree.h"

#include "frame/out/out.h"

/* The columns of a tree in the making; names are the frame's. */
typedef struct columns {
  tsr_frame *df;
  tsr_scope *scope;
  tsr_field_args *field;
  const char *site;
} columns;

static tsr_array *fail(tsr_scope *scope, const tsr__error *error, const char *site)
{
  tsr__fail_error(scope, site, error);
  return tsr__make_inert(scope, site);
}

/* Before anything was evaluated: the other processes, which evaluate the columns, are told. In a
 * body nobody waits. */
static tsr_array *refuse(tsr_frame *df, const char *site)
{
  tsr_scope *scope = tsr__frame_home(df);
  if (df && scope && !tsr__scope_traces(scope))
    tsr__frame_refuse(df, "tsr_frame_to_tree", site, tsr_scope_status(scope));
  return tsr__frame_inert_array(df, site);
}

/* Whether all columns can be arrays; the error is set. Dates, times and texts are numbers
 * underneath; as arrays they would be numbers and come back so. */
static bool all_arrays(const tsr_frame *df, tsr__error *error)
{
  for (int i = 0; i < df->schema.count; i++) {
    int type = df->schema.field[i].type;
    if (type < TSR_COL_DATE) continue;
    tsr__error_set(error, TSR_EDTYPE,
                   "tsr_frame_to_tree: column '%.60s' is %s, expected numbers or bools; leave the "
                   "column out with tsr_frame_drop",
                   df->schema.field[i].name, tsr_coltype_name((tsr_coltype)type));
    return false;
  }
  return true;
}

/* What was evaluated is shared by the frame that is kept. A frame is kept first, so that all
 * columns come of one program instead of one each. */
static bool take_values(columns *c)
{
  tsr_frame *df = c->df;
  if (!tsr__frame_is_source(df)) df = tsr_frame_keep_at(c->scope, df, c->site);
  for (int i = 0; i < df->schema.count; i++) {
    c->field[i].array = tsr_frame_column_with(df, df->schema.field[i].name, NULL, c->site);
    if (c->field[i].array->inert) return false;
  }
  return !df->inert;
}

/* The nodes of a frame's columns, in the scope of the body. The bind is made by hand and not
 * opened: opening gives it a scope that closes at its end, and these nodes are the body's. */
static bool take_nodes(columns *c, tsr__error *error)
{
  tsr__bind bind = { .top = c->df, .what = "tsr_frame_to_tree", .site = c->site };
  tsr__bound bound;
  bind.home = bind.scope = c->scope;
  bind.last = &bind.visits;
  tsr_status status = tsr__bind_frame(&bind, c->df, false, NULL, &bound);
  *error = bind.error;
  if (status) return false;
  tsr__lower low = {
    .bind = &bind, .scope = c->scope, .site = c->site, .frame = c->df, .in = &bound
  };
  for (int i = 0; i < bound.count; i++) {
    tsr__col col = tsr__settle(&low, bound.col[i]);
    c->field[i].array = col.values;
    if (!col.valid) continue;
    tsr__error_set(error, TSR_EVALUE,
                   "tsr_frame_to_tree: column '%.60s' may have nulls, but an array holds none; "
                   "give nulls a value with tsr_frame_fill_null",
                   c->field[i].name);
    return false;
  }
  return true;
}

/* Types are looked at first, so that nothing is computed in vain. */
tsr_array *tsr_frame_to_tree_at(tsr_frame *df, const char *site)
{
  tsr_scope *scope = tsr__frame_home(df);
  tsr__error error = { .status = TSR_OK };
  if (!df) tsr__fail_null("tsr_frame_to_tree", "frame", site);
  if (!tsr__frame_usable(df)) return refuse(df, site);
  int count = df->schema.count;
  columns c = { .df = df, .scope = scope, .site = site };
  c.field = tsr__arena_new(&scope->arena, (size_t)count * sizeof *c.field);
  if (!c.field) tsr__error_set(&error, TSR_ENOMEM, "tsr_frame_to_tree: out of memory");
  if (error.status || !all_arrays(df, &error)) {
    tsr__fail_error(scope, site, &error);
    return refuse(df, site);
  }
  for (int i = 0; i < count; i++) c.field[i].name = df->schema.field[i].name;
  bool fine = tsr__scope_traces(scope) ? take_nodes(&c, &error) : take_values(&c);
  return fine ? tsr_tree_at(scope, c.field, count, site) : fail(scope, &error, site);
}

/* A tree in the tree and one without names are refused together, in the words of the whole form. */
tsr_frame *tsr_frame_from_tree_at(tsr_array *tree, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  tsr_scope *scope = tsr__home(tree);
  if (!tree) tsr__fail_null("tsr_frame_from_tree", "tree", site);
  tsr_frame *out = tsr__frame_make(scope, TSR__FRAME_ARRAYS, "tsr_frame_from_tree", site);
  if (out->inert || tree->inert) return tsr__frame_inert_like(out, site);
  int count = tsr_item_count(tree);
  tsr_column *column = tsr__arena_new(&scope->arena, ((size_t)count + 1) * sizeof *column);
  if (!column) tsr__error_set(&error, TSR_ENOMEM, "tsr_frame_from_tree: out of memory");
  for (int i = 0; column && i < count; i++) {
    column[i] = (tsr_column){ tsr_item_name(tree, i), tree->in[i] };
    /* Ends the loop as well, and is told below. */
    if (!column[i].name || tsr_is_tree(tree->in[i])) count = 0;
  }
  if (column && count) return tsr_frame_new_at(scope, column, count, site);
  if (column) {
    const char *form = tsr_tree_text(tree);
    tsr__error_set(&error, TSR_EARG,
                   "tsr_frame_from_tree: found %s, expected a tree of columns with names, "
                   "(x: *, y: *); tsr_tree makes one",
                   form ? form : "a tree");
  }
  return tsr__frame_fail(out, &error);
}

/* A frame of what was made of that of `df`; an inert array may be of no scope. */
static tsr_frame *frame_of(tsr_frame *df, tsr_array *tree, const char *site)
{
  return tree->inert ? tsr__frame_inert_like(df, site) : tsr_frame_from_tree_at(tree, site);
}

tsr_frame *tsr_frame_map_at(tsr_frame *df, tsr_tree_fn *fn, void *user, const char *site)
{
  TSR__CALL(tsr__frame_home(df), "frame_map");
  tsr_array *tree = tsr_frame_to_tree_at(df, site);
  if (!tree->inert) tree = tsr_tree_map_at(fn, user, &tree, 1, site);
  return frame_of(df, tree, site);
}

tsr_frame *tsr_frame_call_at(tsr_function *function, tsr_frame *df, const char *site)
{
  TSR__CALL(tsr__frame_home(df), "frame_call");
  tsr_array *tree = tsr_frame_to_tree_at(df, site);
  if (!tree->inert) tree = tsr_call_at(function, &tree, 1, site);
  return frame_of(df, tree, site);
}
