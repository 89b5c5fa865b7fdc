/* What all sources have in common: how they are made, what they are called, how they are asked.
 *
 * Invariant: columns have names that differ, dtypes and shapes whose bytes were checked for
 * overflow, and count >= 0; whoever reads a source relies on that. */
#include "pipeline/records.h"

#include "base/events.h"

static const tsr_source no_source = { .inert = true };

/* A node whose making failed half way has no ops yet. */
static void release_source(tsr__node *node)
{
  tsr_source *source = (tsr_source *)node;
  if (source->ops && source->ops->release) source->ops->release(source);
}

tsr_source *tsr__records_refused(tsr_scope *scope, const char *site, const char *call,
                                 const tsr__error *error)
{
  /* Never NULL: calls go on with what is inert, and the scope has the first error. */
  if (!scope)
    tsr__fail(NULL, site, TSR_EARG, "%s: %s", call,
              error && error->status ? error->text : "the source or the scope is NULL; give both");
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
    /* Names may lie in the source below, which is of an outer scope, or on the caller's stack. */
    to[i].name = tsr__arena_text(arena, from[i].name, strlen(from[i].name));
    if (!to[i].name) return NULL;
  }
  return to;
}

static bool over_stream(const tsr__records_make *make)
{
  for (int i = 0; i < make->child_count; i++)
    if (make->children[i]->streams) return true;
  return false;
}

static int depth_over(const tsr__records_make *make)
{
  int most = 0;
  for (int i = 0; i < make->child_count; i++)
    if (make->children[i]->depth > most) most = make->children[i]->depth;
  return most + 1;
}

tsr_source *tsr__records_new(tsr_scope *scope, const tsr__records_make *make)
{
  tsr__error error = { 0 };
  if (!scope || scope->inert || !over_stream(make)) return tsr__records_in_order(scope, make);
  tsr__error_set(&error, TSR_EARG,
                 "a stream has an order and an unknown number of records, so this stage cannot "
                 "read it; only tsr_source_map and tsr_source_select take a stream");
  return tsr__records_refused(scope, make->site, make->call, &error);
}

tsr_source *tsr__records_in_order(tsr_scope *scope, const tsr__records_make *make)
{
  tsr__error error = { 0 };
  if (!scope || scope->inert) return tsr__records_refused(scope, make->site, make->call, NULL);
  int depth = depth_over(make);
  if (depth > TSR__DEEPEST) {
    tsr__error_set(&error, TSR_EARG,
                   "more than %d stages are stacked; join many sources in one call of "
                   "tsr_source_concat, and several functions in one function",
                   TSR__DEEPEST);
    return tsr__records_refused(scope, make->site, make->call, &error);
  }
  /* Released from here on, whatever else fails: `ops` comes last. */
  tsr_source *source = tsr__node_new(scope, make->size, make->site, release_source);
  if (!source) return tsr__records_refused(scope, make->site, make->call, NULL);
  source->columns = copy_columns(&scope->arena, make->columns, make->column_count);
  size_t children = (size_t)make->child_count * sizeof *source->children;
  source->children = tsr__arena_new(&scope->arena, children + 1);
  if (!source->columns || !source->children) {
    tsr__error_set(&error, TSR_ENOMEM, "no memory for the description of a source");
    return tsr__records_refused(scope, make->site, make->call, &error);
  }
  if (children) memcpy(source->children, make->children, children);
  source->ops = make->ops;
  source->streams = over_stream(make);
  source->count = make->count;
  source->column_count = make->column_count;
  source->child_count = make->child_count;
  source->depth = depth;
  for (int i = 0; i < make->child_count; i++) {
    source->by_epoch = source->by_epoch || make->children[i]->by_epoch;
    source->drawn = source->drawn || make->children[i]->drawn;
    source->blocking = source->blocking || make->children[i]->blocking;
  }
  /* A stage over one source changes no record's identity, unless it says so (tsr__stage_owns). */
  source->extent = make->child_count == 1 ? make->children[0]->extent : make->count;
  source->leaf = make->child_count == 1 ? make->children[0]->leaf : source;
  return source;
}

tsr_scope *tsr__records_scope(tsr_source *const *sources, int count)
{
  tsr_scope *scope = NULL;
  /* What is made of an inert source is inert, and says nothing more. */
  for (int i = 0; i < count; i++) {
    if (!tsr__records_usable(sources[i])) return NULL;
    /* The innermost, so that what is made goes before anything that it reads. */
    scope = tsr__scope_inner(scope, sources[i]->node.scope);
  }
  return tsr__scope_here(scope);
}

tsr_source *tsr__records_over(tsr_source *source, const char *call, const tsr__records_ops *ops,
                              size_t size, const char *site)
{
  tsr__records_make make = { .call = call,
                             .site = site,
                             .ops = ops,
                             .size = size,
                             .count = source->count,
                             .columns = source->columns,
                             .column_count = source->column_count,
                             .children = &source,
                             .child_count = 1 };
  return tsr__records_new(tsr__records_scope(&source, 1), &make);
}

void tsr__records_follow(tsr_source *made, const tsr_source *source)
{
  made->files = source->files;
  made->file_count = source->file_count;
  made->dealer = source->dealer;
}

/* ---- columns --------------------------------------------------------------------------------- */

tsr_status tsr__column_check(tsr__column *column, tsr__error *error)
{
  if (!column->name || !*column->name)
    return tsr__error_set(error, TSR_EARG, "a field has no name; give each field a name");
  tsr__error unknown = { .status = TSR_OK };
  if (tsr__dtype_check(column->dtype, &unknown))
    return tsr__error_set(error, TSR_EDTYPE, "field %.80s: %s", column->name, unknown.text);
  /* A batch has a dim more than a record. */
  int64_t count = column->shape.rank < 0 || column->shape.rank >= TSR_MAX_RANK
                      ? -1
                      : tsr__shape_count(&column->shape);
  /* Bytes of a record, and sums of some of them, need no checks of overflow behind this one. */
  if (count < 0 || count > (INT64_C(1) << 40))
    return tsr__error_set(error, TSR_ESHAPE,
                          "field %.80s: a record of rank %d is too large or has a dim below 0; a "
                          "batch adds one dim, and an array has at most %d",
                          column->name, column->shape.rank, TSR_MAX_RANK);
  column->bytes = tsr_dtype_size(column->dtype) * (size_t)count;
  return TSR_OK;
}

tsr_status tsr__column_records(tsr__column *column, int64_t *records, tsr__error *error)
{
  tsr_shape *shape = &column->shape;
  if (!shape->rank)
    return tsr__error_set(
        error, TSR_ESHAPE,
        "'%.80s' is one element without dims, expected a first dim that counts the records",
        column->name);
  if (*records >= 0 && *records != shape->dims[0])
    return tsr__error_set(
        error, TSR_ESHAPE,
        "'%.80s' has %lld records, but other fields have %lld, expected equally many", column->name,
        (long long)shape->dims[0], (long long)*records);
  *records = shape->dims[0];
  memmove(shape->dims, shape->dims + 1, (size_t)--shape->rank * sizeof *shape->dims);
  shape->dims[shape->rank] = 0;
  return TSR_OK;
}

/* Of a few dozen: a table would cost more to fill than it saves. */
int tsr__column_find(const tsr__column *columns, int count, const char *name)
{
  for (int i = 0; i < count; i++)
    if (!strcmp(columns[i].name, name)) return i;
  return -1;
}

/* Lists of fields end with the first that has no name, as braces leave the rest zero. */
int tsr__columns_of(const tsr_record_field *fields, tsr__column *columns, tsr__error *error)
{
  int count = 0;
  for (; count < TSR_MAX_FIELDS && fields[count].name && !error->status; count++) {
    columns[count] = (tsr__column){ .name = fields[count].name,
                                    .dtype = fields[count].dtype,
                                    .shape = fields[count].shape };
    if (!tsr__column_check(&columns[count], error) &&
        tsr__column_find(columns, count, columns[count].name) >= 0)
      tsr__error_set(error, TSR_EARG,
                     "the name '%.80s' is given twice; give each field a name of its own",
                     columns[count].name);
  }
  if (!count)
    tsr__error_set(error, TSR_EARG, "there are no .fields; describe the fields of a record");
  return error->status ? 0 : count;
}

void tsr__column_text(const tsr__column *column, tsr__text *out)
{
  bool plain = true;
  for (const char *c = column->name; *c; c++)
    plain = plain && (tsr__name_char(*c) || *c == '/' || *c == '.');
  /* What other names have could be taken for the text around them. */
  if (plain) tsr__text_add(out, "%s", column->name);
  else tsr__text_json(out, column->name);
  tsr__text_add(out, " %s[", tsr_dtype_name(column->dtype));
  for (int d = 0; d < column->shape.rank; d++)
    tsr__text_add(out, "%s%lld", d ? "," : "", (long long)column->shape.dims[d]);
  tsr__text_add(out, "]");
}

tsr_status tsr__columns_same(const tsr_source *a, const tsr_source *b, tsr__error *error)
{
  if (a->column_count != b->column_count)
    return tsr__error_set(
        error, TSR_EARG,
        "one source has %d fields and another %d, expected the same fields in all sources",
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
    /* What a user would mend first is told first: the name, then the shape, then the dtype. */
    tsr_status status = !named ? TSR_EARG : same ? TSR_EDTYPE : TSR_ESHAPE;
    tsr__error_set(error, status, "field %d is %.150s in one source and %.150s in another", i,
                   tsr__text_get(&one), tsr__text_get(&other));
    tsr__text_free(&one);
    tsr__text_free(&other);
    return status;
  }
  return TSR_OK;
}

/* ---- ragged fields --------------------------------------------------------------------------- */

tsr_status tsr__ragged_check(const char *path, int64_t longest, tsr__error *error)
{
  if (!path) return tsr__error_set(error, TSR_EARG, "the path is NULL; give the path of a file");
  if (longest >= 0) return TSR_OK;
  return tsr__error_set(error, TSR_EARG,
                        ".longest is %lld, expected 1 or more, or 0 for the longest record",
                        (long long)longest);
}

tsr_status tsr__ragged_columns(tsr__arena *arena, tsr__column *column, int64_t longest,
                               tsr__error *error)
{
  tsr_shape *shape = &column[0].shape;
  size_t length = strlen(column[0].name);
  if (shape->rank < 0 || shape->rank >= TSR_MAX_RANK)
    return tsr__error_set(error, TSR_ESHAPE,
                          "field %.80s: its elements have rank %d, too many dims for a batch",
                          column[0].name, shape->rank);
  char *name = tsr__arena_new(arena, length + sizeof "_length");
  if (!name) return tsr__error_set(error, TSR_ENOMEM, "no memory for a name");
  memcpy(name, column[0].name, length);
  memcpy(name + length, "_length", sizeof "_length");
  column[1] = (tsr__column){ .name = name, .dtype = TSR_I64 };
  memmove(shape->dims + 1, shape->dims, (size_t)shape->rank++ * sizeof *shape->dims);
  /* Where all records are empty there is still a dim, which arrays can have. */
  shape->dims[0] = longest > 0 ? longest : 1;
  if (!tsr__column_check(&column[0], error)) tsr__column_check(&column[1], error);
  return error->status;
}

void tsr__ragged_end(const tsr_source *source, const tsr__ask_rows *ask, int column, int64_t i,
                     int64_t used)
{
  const tsr__column *c = &source->columns[column];
  size_t element = c->bytes / (size_t)c->shape.dims[0];
  int64_t length = element ? used / (int64_t)element : 0;
  /* Cells come with what was in them before: a batch must not show one of an earlier epoch. */
  if (ask->cells[column].data)
    memset(tsr__cell_of(ask, column, i) + used, 0, c->bytes - (size_t)used);
  if (ask->cells[column + 1].data) memcpy(tsr__cell_of(ask, column + 1, i), &length, sizeof length);
}

static tsr_status add_asked(tsr__asked *made, tsr__arena *arena, const tsr__column *asked,
                            bool ragged, tsr__error *error)
{
  int first = made->count, last = first + ragged;
  tsr__column *column = &made->columns[first];
  if (last >= TSR__MAX_COLUMNS)
    return tsr__error_set(error, TSR_EARG, "more than %d fields, counting the fields of lengths",
                          TSR__MAX_COLUMNS);
  *column = *asked;
  made->ragged[first] = ragged;
  if (ragged) {
    tsr_shape *shape = &column->shape;
    if (!shape->rank)
      return tsr__error_set(
          error, TSR_ESHAPE,
          "field %.80s is ragged, but has no dims; its first dim is the largest number of values",
          asked->name);
    memmove(shape->dims, shape->dims + 1, (size_t)--shape->rank * sizeof *shape->dims);
    if (tsr__ragged_columns(arena, column, asked->shape.dims[0], error)) return error->status;
  }
  for (int c = first; c <= last; c++)
    if (tsr__column_find(made->columns, c, made->columns[c].name) >= 0)
      return tsr__error_set(error, TSR_EARG,
                            "two fields would be called '%.80s'; give each a name of its own",
                            made->columns[c].name);
  made->count = last + 1;
  return TSR_OK;
}

tsr_status tsr__asked_all(tsr__asked *made, tsr__arena *arena, const tsr_record_field *fields,
                          const char *ragged, tsr__error *error)
{
  tsr__column columns[TSR__MAX_COLUMNS];
  tsr__name_list names = { .count = 0 };
  int count = tsr__columns_of(fields, columns, error);
  if (ragged && !error->status) tsr__name_list_read(arena, ragged, false, &names, error);
  for (int i = 0; i < names.count && !error->status; i++)
    if (tsr__column_find(columns, count, names.name[i]) < 0)
      tsr__error_set(error, TSR_EARG, ".ragged names '%.80s', but .fields has no such field",
                     names.name[i]);
  for (int c = 0; c < count && !error->status; c++)
    add_asked(made, arena, &columns[c], tsr__name_list_find(&names, columns[c].name) >= 0, error);
  return error->status;
}

/* The first field that was not met; -1: all were. */
static int unmet(const tsr_source *source, const bool *ragged, const tsr__met *met)
{
  for (int c = 0; c < source->column_count; c += 1 + ragged[c])
    if (!met->field[c]) return c;
  return -1;
}

tsr_status tsr__met_check(const tsr_source *source, const bool *ragged, tsr__met_fn *look,
                          tsr__error *error)
{
  tsr__progress progress = { .rt = source->node.scope->rt,
                             .what = source->ops->kind,
                             .total = source->count };
  tsr__met met = { .known = { .count = 0 } };
  char hint[TSR__HINT];
  /* Mostly the first record has all of them. */
  for (int64_t i = 0; i < source->count; i++) {
    tsr__error cause = { 0 };
    /* What is wrong with a record is told by who reads it. */
    if (look(source, i, &met, &cause) == TSR_ENOMEM) return *error = cause, error->status;
    if (unmet(source, ragged, &met) < 0) return TSR_OK;
    if (tsr__progress_stops(&progress, 0)) return tsr__cancelled(error, "a look for its fields");
  }
  /* Of no record, or of none that can be read, nothing is known. */
  int c = unmet(source, ragged, &met);
  if (c < 0 || !met.known.count) return TSR_OK;
  const char *name = source->columns[c].name;
  return tsr__error_set(error, TSR_EARG, "no record of %lld has a field '%.80s'%s",
                        (long long)source->count, name, tsr__known_hint(&met.known, name, hint));
}

/* ---- asking ---------------------------------------------------------------------------------- */

bool tsr__records_stop(const tsr__ask_rows *ask)
{
  if (ask->pipeline && tsr_pipeline_stopping(ask->pipeline)) return true;
  return ask->progress && tsr__progress_stops(ask->progress, ask->worker);
}

/* asked for at `begin`
 * |------------- took -------------|
 *      |- below -|   |-- below --|        `inside`: their sum; the rest is this stage's own */
static tsr_status read_timed(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  tsr__meter *meter = ask->meter;
  /* `inside` is a sum over those who are asked from here. It is set aside for the time of this
   * call, as several stages may be asked one after the other by the same one. */
  int64_t beside = meter->inside, begin = tsr__now();
  meter->inside = 0;
  tsr_status status = source->ops->read(source, ask, error);
  int64_t took = tsr__now() - begin;
  tsr__meter_stage(meter, source->ops->kind, took - meter->inside, ask->count);
  meter->inside = beside + took;
  return status;
}

tsr_status tsr__records_read(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  /* Stages ask for what is left of a question, which may be nothing. */
  if (!ask->count) return TSR_OK;
  if (ask->once && tsr__once_source(ask->once) == source)
    return tsr__once_read(ask->once, ask, error);
  return ask->meter ? read_timed(source, ask, error) : source->ops->read(source, ask, error);
}

bool tsr__records_bad(const tsr__error *error)
{
  return error->status && error->status != TSR_ENOMEM && error->status != TSR_ECANCELLED;
}

void tsr__records_where(const tsr_source *source, int64_t id, tsr__text *out)
{
  /* A stage whose records are its own has another numbering than what lies below. */
  while (!source->ops->where && source->child_count == 1 && source->leaf != source)
    source = source->children[0];
  if (source->ops->where && id >= 0 && id < source->extent) source->ops->where(source, id, out);
}

/* All of the records or none: who asks reads them either there or into memory of its own. */
bool tsr__records_lend(const tsr_source *source, int column, const tsr__ask_rows *ask,
                       const char **to)
{
  return source->ops->lend && source->ops->lend(source, column, ask, to);
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
    if (i) tsr__text_add(out, ", ");
    else if (source->streams) tsr__text_add(out, "any number of ");
    else tsr__text_add(out, "%lld of ", (long long)source->count);
    tsr__column_text(&source->columns[i], out);
  }
  tsr__text_add(out, ")");
}

/* ---- what users ask -------------------------------------------------------------------------- */

int64_t tsr_source_count(const tsr_source *source)
{
  if (!tsr__records_usable(source)) return 0;
  return source->streams ? -1 : source->count;
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

/* Made when it is asked for and kept, as it lives as long as the source does. */
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
