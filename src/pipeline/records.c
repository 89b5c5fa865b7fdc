/* What all sources have in common: how they are made, what they are called, how they are asked.
 *
 * Invariant: columns have names that differ, dtypes and shapes whose bytes were checked for
 * overflow, and count >= 0; whoever reads a source relies on that. */
#include "pipeline/records.h"

static const tsr_source no_source = { .inert = true };

static void release_source(tsr__node *node)
{
  tsr_source *source = (tsr_source *)node;
  if (source->ops && source->ops->release) source->ops->release(source);
}

tsr_source *tsr__records_refused(tsr_scope *scope, const char *site, const char *call,
                                 const tsr__error *error)
{
  if (!scope || scope->inert) return (tsr_source *)&no_source;
  if (error && error->status) tsr__fail(scope, site, error->status, "%s: %s", call, error->text);
  tsr_source *source = tsr__node_new(scope, sizeof *source, site, NULL);
  if (!source) return (tsr_source *)&no_source;
  source->inert = true;
  return source;
}

static tsr__column *copy_columns(tsr__arena *arena, const tsr__column *from, int count)
{
  tsr__column *to = tsr__arena_new(arena, (size_t)count * sizeof *to + 1);
  for (int i = 0; to && i < count; i++) {
    to[i] = from[i];
    to[i].name = tsr__arena_text(arena, from[i].name, strlen(from[i].name));
    if (!to[i].name) return NULL;
  }
  return to;
}

tsr_source *tsr__records_new(tsr_scope *scope, const tsr__records_make *make)
{
  if (!scope || scope->inert) return (tsr_source *)&no_source;
  tsr_source *source = tsr__node_new(scope, make->size, make->site, release_source);
  if (!source) return tsr__records_refused(scope, make->site, make->call, NULL);
  source->columns = copy_columns(&scope->arena, make->columns, make->column_count);
  size_t children = (size_t)make->child_count * sizeof *source->children;
  source->children = tsr__arena_new(&scope->arena, children + 1);
  if (!source->columns || !source->children) {
    tsr__error error = { 0 };
    tsr__error_set(&error, TSR_ENOMEM, "no memory for the description of a source");
    return tsr__records_refused(scope, make->site, make->call, &error);
  }
  if (children) memcpy(source->children, make->children, children);
  source->ops = make->ops;
  source->count = make->count;
  source->column_count = make->column_count;
  source->child_count = make->child_count;
  for (int i = 0; i < make->child_count; i++)
    source->by_epoch = source->by_epoch || make->children[i]->by_epoch;
  source->extent = make->child_count == 1 ? make->children[0]->extent : make->count;
  source->leaf = make->child_count == 1 ? make->children[0]->leaf : source;
  return source;
}

tsr_scope *tsr__records_scope(tsr_source *const *sources, int count)
{
  tsr_scope *scope = NULL;
  for (int i = 0; i < count; i++) {
    if (!tsr__records_usable(sources[i])) return NULL;
    scope = tsr__scope_inner(scope, sources[i]->node.scope);
  }
  return tsr__scope_here(scope);
}

/* ---- columns --------------------------------------------------------------------------------- */

tsr_status tsr__column_check(tsr__column *column, tsr__error *error)
{
  if (!column->name || !*column->name)
    return tsr__error_set(error, TSR_EARG, "a field without a name; give one");
  for (const char *c = column->name; *c; c++)
    if (!tsr__name_char(*c))
      return tsr__error_set(error, TSR_EARG,
                            "the field's name '%.80s' has another character than letters, digits, "
                            "'_' and '-'",
                            column->name);
  if (!tsr_dtype_size(column->dtype))
    return tsr__error_set(error, TSR_EDTYPE, "field %.80s: %d is no dtype", column->name,
                          (int)column->dtype);
  int64_t count = column->shape.rank < 0 || column->shape.rank >= TSR_MAX_RANK
                      ? -1
                      : tsr__shape_count(&column->shape);
  if (count < 0 || count > (INT64_C(1) << 40))
    return tsr__error_set(error, TSR_ESHAPE,
                          "field %.80s: a record of rank %d is too large or has a dim below 0; a "
                          "batch has one dim more, and %d at most",
                          column->name, column->shape.rank, TSR_MAX_RANK);
  column->bytes = tsr_dtype_size(column->dtype) * (size_t)count;
  return TSR_OK;
}

int tsr__column_find(const tsr__column *columns, int count, const char *name)
{
  for (int i = 0; i < count; i++)
    if (!strcmp(columns[i].name, name)) return i;
  return -1;
}

int tsr__columns_of(const tsr_record_field *fields, tsr__column *columns, tsr__error *error)
{
  int count = 0;
  for (; count < TSR_MAX_FIELDS && fields[count].name && !error->status; count++) {
    columns[count] = (tsr__column){ .name = fields[count].name,
                                    .dtype = fields[count].dtype,
                                    .shape = fields[count].shape };
    if (!tsr__column_check(&columns[count], error) &&
        tsr__column_find(columns, count, columns[count].name) >= 0)
      tsr__error_set(error, TSR_EARG, "the name '%.80s' stands twice", columns[count].name);
  }
  if (!count) tsr__error_set(error, TSR_EARG, "no .fields; say what a record has");
  return error->status ? 0 : count;
}

void tsr__column_text(const tsr__column *column, tsr__text *out)
{
  tsr__text_add(out, "%s %s[", column->name, tsr_dtype_name(column->dtype));
  for (int d = 0; d < column->shape.rank; d++)
    tsr__text_add(out, "%s%lld", d ? "," : "", (long long)column->shape.dims[d]);
  tsr__text_add(out, "]");
}

tsr_status tsr__columns_same(const tsr_source *a, const tsr_source *b, tsr__error *error)
{
  if (a->column_count != b->column_count)
    return tsr__error_set(error, TSR_EARG, "%d fields beside %d; sources must have the same",
                          b->column_count, a->column_count);
  for (int i = 0; i < a->column_count; i++) {
    const tsr__column *x = &a->columns[i], *y = &b->columns[i];
    bool named = !strcmp(x->name, y->name), same = tsr__shape_same(&x->shape, &y->shape);
    if (named && x->dtype == y->dtype && same) continue;
    tsr__text one, other;
    tsr__text_init(&one, NULL);
    tsr__text_init(&other, NULL);
    tsr__column_text(x, &one);
    tsr__column_text(y, &other);
    tsr_status status = !named ? TSR_EARG : same ? TSR_EDTYPE : TSR_ESHAPE;
    tsr__error_set(error, status, "field %d is %.150s in one source and %.150s in another", i,
                   tsr__text_get(&one), tsr__text_get(&other));
    tsr__text_free(&one);
    tsr__text_free(&other);
    return status;
  }
  return TSR_OK;
}

/* ---- asking ---------------------------------------------------------------------------------- */

tsr_status tsr__records_read(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  return ask->count ? source->ops->read(source, ask, error) : TSR_OK;
}

void tsr__records_ids(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                      int64_t *to)
{
  if (source->ops->ids) source->ops->ids(source, epoch, at, count, to);
  else if (to != at) memcpy(to, at, (size_t)count * sizeof *to);
}

/* A leaf, or what it is made of and then itself: "npz(...) > slice(0:10)", "(a | b) > zip()". */
void tsr__records_about(const tsr_source *source, tsr__text *out)
{
  if (source->child_count > 1) tsr__text_add(out, "(");
  for (int i = 0; i < source->child_count; i++) {
    if (i) tsr__text_add(out, " | ");
    tsr__records_about(source->children[i], out);
  }
  if (source->child_count) tsr__text_add(out, source->child_count > 1 ? ") > " : " > ");
  tsr__text_add(out, "%s(", source->ops->kind);
  size_t before = out->length;
  source->ops->about(source, out);
  if (out->length > before && !source->child_count) tsr__text_add(out, ": ");
  for (int i = 0; i < source->column_count && !source->child_count; i++) {
    tsr__text_add(out, i ? ", " : "%lld of ", (long long)source->count);
    tsr__column_text(&source->columns[i], out);
  }
  tsr__text_add(out, ")");
}

/* ---- what users ask -------------------------------------------------------------------------- */

int64_t tsr_source_count(const tsr_source *source)
{
  return tsr__records_usable(source) ? source->count : 0;
}

int tsr_source_field_count(const tsr_source *source)
{
  return tsr__records_usable(source) ? source->column_count : 0;
}

tsr_record_field tsr_source_field_of(const tsr_source *source, int index)
{
  if (index < 0 || index >= tsr_source_field_count(source)) return (tsr_record_field){ 0 };
  const tsr__column *c = &source->columns[index];
  return (tsr_record_field){ .name = c->name, .dtype = c->dtype, .shape = c->shape };
}

const char *tsr_source_text(tsr_source *source)
{
  if (!tsr__records_usable(source)) return "";
  if (source->text) return source->text;
  tsr__text text;
  tsr__text_init(&text, &source->node.scope->rt->heap);
  tsr__records_about(source, &text);
  if (!text.failed)
    source->text = tsr__arena_text(&source->node.scope->arena, tsr__text_get(&text), text.length);
  tsr__text_free(&text);
  return source->text ? source->text : "";
}
