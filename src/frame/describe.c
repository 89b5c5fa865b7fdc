/* What a frame is and what it would do, as text. */
#include "frame/plan.h"

bool tsr_frame_is_inert(const tsr_frame *df)
{
  return !tsr__frame_usable(df);
}

int tsr_frame_columns(const tsr_frame *df)
{
  return tsr__frame_usable(df) ? df->schema.count : 0;
}

const char *tsr_frame_column_name(const tsr_frame *df, int column)
{
  if (column < 0 || column >= tsr_frame_columns(df)) return NULL;
  return df->schema.field[column].name;
}

tsr_coltype tsr_frame_column_type(const tsr_frame *df, int column)
{
  if (column < 0 || column >= tsr_frame_columns(df)) return (tsr_coltype)0;
  return (tsr_coltype)df->schema.field[column].type;
}

/* The message of an unusable frame. */
static const char *why_not(const tsr_frame *df)
{
  return df && df->node.scope ? tsr_message(df->node.scope) : "the frame could not be made";
}

const char *tsr_frame_schema(tsr_frame *df)
{
  tsr__text text;
  int width = 0;
  if (!tsr__frame_usable(df)) return why_not(df);
  tsr__text_init(&text, &df->node.scope->rt->heap);
  for (int i = 0; i < df->schema.count; i++) {
    const char *name = df->schema.field[i].name;
    int found = tsr__text_width(name, strlen(name));
    if (found > width && found <= 40) width = found;
  }
  for (int i = 0; i < df->schema.count; i++) {
    const char *name = df->schema.field[i].name;
    tsr__text_put(&text, name, strlen(name));
    tsr__text_pad(&text, ' ', width + 2 - tsr__text_width(name, strlen(name)));
    tsr__text_add(&text, "%s\n", tsr_coltype_name((tsr_coltype)df->schema.field[i].type));
  }
  return tsr__frame_say(df, &text);
}

/* ---- devices ----------------------------------------------------------------------------- */

static void device_lines(const tsr__value *mask, const tsr__bound *bound, tsr__text *text)
{
  const tsr__value *whole = bound->ragged ? bound->ragged->source->whole->value : NULL;
  static const tsr_sharding unplaced;
  const tsr_sharding *sharding = bound->sharding ? bound->sharding : &unplaced;
  tsr_shape shape = { 1, { bound->rows } };
  for (int p = 0; p < tsr__positions(sharding); p++) {
    tsr_box box;
    if (whole) tsr__value_box(whole, p, &box);
    else tsr__box(sharding, &shape, p, &box);
    tsr__text_add(text, "device %d: ", tsr__position_device(sharding, p));
    if (mask) tsr__text_add(text, "%lld of ", (long long)tsr__value_true(mask, p));
    tsr__text_add(text, "%lld row%s\n", (long long)box.size[0], box.size[0] == 1 ? "" : "s");
  }
}

static tsr_status count_devices(tsr__bind *bind, tsr__text *text)
{
  tsr__bound bound;
  bool *none = tsr__arena_new(&bind->scope->arena, (size_t)bind->top->schema.count + 1);
  if (!none) return tsr__error_set(&bind->error, TSR_ENOMEM, "%s: out of memory", bind->what);
  tsr_status status = tsr__bind_frame(bind, bind->top, true, none, &bound);
  if (status) return status;
  if (bound.mask && bound.sharding) {
    tsr__ask ask = { .sharding = bound.sharding };
    bound.mask =
        tsr__make(bind->scope, TSR__OP_CONSTRAIN, (tsr_array *[3]){ bound.mask }, &ask, bind->site);
  }
  if (bound.mask) status = tsr__bind_run(bind, &bound.mask, 1);
  if (!status) device_lines(bound.mask ? bound.mask->value : NULL, &bound, text);
  return status;
}

const char *tsr_frame_devices(tsr_frame *df)
{
  tsr__bind bind;
  tsr__text text;
  if (tsr__bind_open(&bind, df, "tsr_frame_devices")) return why_not(df);
  tsr__text_init(&text, &df->node.scope->rt->heap);
  tsr_status status = count_devices(&bind, &text);
  tsr_status closed = tsr__bind_close(&bind);
  if (!status && !closed) return tsr__frame_say(df, &text);
  tsr__text_free(&text);
  return why_not(df);
}

/* ---- explain ----------------------------------------------------------------------------- */

static void print_formula(const tsr_frame *df, tsr__text *text)
{
  for (int i = 0; i < df->formula.count; i++) {
    const tsr__item *item = &df->formula.item[i];
    tsr__text_add(text, "%s", i ? ", " : "");
    if (item->named) tsr__text_add(text, "%s = ", item->name);
    tsr__expr_print(item->expr, text);
  }
}

static void print_scan(const tsr__visit *v, tsr__text *text)
{
  const tsr__source *source = v->df->source;
  int used = 0;
  char spec[100];
  if (v->df->kind == TSR__FRAME_FILE)
    tsr__text_add(text, "read %s %s", source->reader.ops->format, source->path);
  else tsr__text_add(text, "%s", v->made ? "rows made before" : "arrays");
  tsr_sharding_text(&source->sharding, 1, spec, sizeof spec);
  tsr__text_add(text, ": %lld rows@%s, columns", (long long)source->rows, spec);
  for (int i = 0; i < v->df->schema.count; i++) {
    if (!v->need[i]) continue;
    tsr__text_add(text, "%s %s", used++ ? "," : "", v->df->schema.field[i].name);
  }
  tsr__text_add(text, " (%d of %d)\n", used, v->df->schema.count);
}

static void print_visit(const tsr__visit *v, tsr__text *text)
{
  static const char *const verbs[] = {
    [TSR__FRAME_FILTER] = "filter",    [TSR__FRAME_ASSIGN] = "assign",
    [TSR__FRAME_SELECT] = "select",    [TSR__FRAME_HEAD] = "head",
    [TSR__FRAME_AGG] = "aggregate",    [TSR__FRAME_GROUP] = "group",
    [TSR__FRAME_ARITH] = "arith",      [TSR__FRAME_REDUCE] = "reduce",
    [TSR__FRAME_TEXT] = "text column", [TSR__FRAME_TAIL] = "tail",
    [TSR__FRAME_SAMPLE] = "sample",    [TSR__FRAME_FIRSTS] = "first of each group",
    [TSR__FRAME_INDEX] = "row index",
  };
  const tsr_frame *df = v->df;
  if (v->made || df->kind == TSR__FRAME_ARRAYS || df->kind == TSR__FRAME_FILE) {
    print_scan(v, text);
    return;
  }
  bool made = df->kind == TSR__FRAME_ASSIGN || df->kind == TSR__FRAME_TEXT;
  if (made && !v->need[tsr__schema_find(&df->schema, df->name)]) return;
  tsr__text_add(text, "%s ", verbs[df->kind]);
  switch (df->kind) {
  case TSR__FRAME_ASSIGN:
  case TSR__FRAME_TEXT:
    tsr__text_add(text, "%s%s", df->name, df->formula.count ? " = " : "");
    break;
  case TSR__FRAME_HEAD:
    if (df->first)
      tsr__text_add(text, "%lld from row %lld", (long long)df->count, (long long)df->first);
    else tsr__text_add(text, "%lld", (long long)df->count);
    break;
  case TSR__FRAME_TAIL: tsr__text_add(text, "%lld", (long long)df->count); break;
  case TSR__FRAME_REDUCE: tsr__text_add(text, "every column by %s", tsr__agg_name(df->op)); break;
  case TSR__FRAME_ARITH:
    tsr__text_add(text, "every column %s ", tsr__binary_name(df->op));
    if (df->number) tsr__expr_print(df->number, text);
    else tsr__text_add(text, "%s", df->other->one_row ? "one row" : "a frame");
    break;
  default: break;
  }
  print_formula(df, text);
  tsr__text_add(text, "\n");
}

/* Binds the top and lists what would be run. */
static tsr_status bind_roots(tsr__bind *bind, tsr_array ***roots, int *count)
{
  tsr__bound bound = { 0 };
  tsr_frame *df = bind->top;
  const tsr__col *col;
  tsr_array *more;
  tsr_status status = TSR_OK;
  bool by_codes = false;
  if (df->kind == TSR__FRAME_GROUP && !df->source) {
    tsr__lower low;
    tsr__groups groups = { 0 };
    status = tsr__bind_groups(bind, NULL, &low, &groups);
    col = groups.col;
    more = groups.first;
    by_codes = more != NULL;
  }
  if (!status && !by_codes) {
    status = tsr__bind_frame(bind, df, false, NULL, &bound);
    col = bound.col;
    more = bound.mask;
  }
  if (status) return status;
  int columns = df->schema.count, most = 4 * columns + 1 + bind->watch_count, n = 0;
  *roots = tsr__arena_new(&bind->scope->arena, (size_t)most * sizeof **roots);
  if (!*roots) return tsr__error_set(&bind->error, TSR_ENOMEM, "%s: out of memory", bind->what);
  for (int i = 0; i < columns; i++) {
    tsr_array *const all[] = { col[i].values, col[i].valid, col[i].count, col[i].real };
    for (int k = 0; k < 4; k++)
      if (all[k] && !all[k]->value) (*roots)[n++] = all[k];
  }
  if (more && !more->value) (*roots)[n++] = more;
  for (tsr__watch *w = bind->watches; w; w = w->next)
    if (!w->row->value) (*roots)[n++] = w->row;
  *count = n;
  return tsr_scope_status(bind->scope);
}

static tsr_status explain(tsr__bind *bind, tsr__text *text)
{
  tsr_array **roots;
  int count = 0;
  tsr_status status = bind_roots(bind, &roots, &count);
  if (status) return status;
  for (const tsr__visit *v = bind->visits; v; v = v->next)
    if (v->live) print_visit(v, text);
  if (bind->top->kind == TSR__FRAME_GROUP && !bind->top->source) {
    const tsr__formula *keys = &bind->top->keys.formula;
    tsr__text_add(text, "group by ");
    for (int i = 0; i < keys->count; i++)
      tsr__text_add(text, "%s%s", i ? ", " : "", keys->item[i].name);
    tsr__text_add(text, ": ");
    print_formula(bind->top, text);
    tsr__text_add(text, "\n");
  }
  if (!count) {
    tsr__text_add(text, "nothing to run: the columns lie there already\n");
    return TSR_OK;
  }
  return tsr__explain(bind->scope, roots, count, text, &bind->error);
}

const char *tsr_frame_explain(tsr_frame *df)
{
  tsr__bind bind;
  tsr__text text;
  if (tsr__bind_open(&bind, df, "tsr_frame_explain")) return why_not(df);
  tsr__text_init(&text, &df->node.scope->rt->heap);
  tsr_status status = explain(&bind, &text);
  tsr_status closed = tsr__bind_close(&bind);
  if (!status && !closed) return tsr__frame_say(df, &text);
  tsr__text_free(&text);
  return why_not(df);
}

tsr_status tsr__frame_plan_shape(tsr_frame *df, tsr__plan_shape *out)
{
  tsr__bind bind;
  tsr_array **roots;
  int count = 0;
  tsr_status status = tsr__bind_open(&bind, df, "plan shape");
  if (status) return status;
  status = bind_roots(&bind, &roots, &count);
  if (!status) status = tsr__plan_shape_of(bind.scope, roots, count, out, &bind.error);
  tsr_status closed = tsr__bind_close(&bind);
  return status ? status : closed;
}
