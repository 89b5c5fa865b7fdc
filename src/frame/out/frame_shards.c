/* Frames as values where their rows lie, and back, for who keeps them elsewhere.
 *
 *   frame --collect--> column: values, validity, dictionary    each process has its devices' parts
 *   values that were filled from somewhere --> a frame that stands on nothing but them */
#include "frame/out/out.h"

#include "io/text/dict.h"

/* Validity is given only where there are nulls. All that meets others is done before `each`, whose
 * errors are this process's own. Counting is a meeting of all processes, so it is done for all
 * columns first: an error of one process in `each` must not leave the others waiting at the next
 * count. */
static tsr_status drop_validity(tsr__bind *bind, tsr__bound *bound)
{
  for (int i = 0; i < bound->count && !bind->error.status; i++) {
    tsr__col *col = &bound->col[i];
    int64_t valid = 0;
    if (!col->valid) continue;
    const tsr__value *value = col->valid->value;
    if (!tsr__value_count(value, &valid, bind->what, &bind->error) && valid == value->shape.dims[0])
      col->valid = NULL;
  }
  return bind->error.status;
}

/* Values are borrowed until the terminal closes; `each` holds what it wants to keep. */
tsr_status tsr__frame_shards(tsr_frame *df, const char *what, tsr__shards_fn *each, void *user)
{
  tsr__bind bind;
  tsr__bound bound;
  tsr_status status = tsr__bind_open(&bind, df, what, NULL);
  if (status) return status;
  status = tsr__bind_meet(&bind);
  if (!status) status = tsr__collect_shards(&bind, true, &bound);
  if (!status) status = drop_validity(&bind, &bound);
  for (int i = 0; i < bound.count && !status; i++) {
    tsr__shard_column column = { .name = bind.top->schema.field[i].name,
                                 .type = (uint8_t)tsr__shard_type(bind.top->schema.field[i].type),
                                 .values = bound.col[i].values->value,
                                 .valid = bound.col[i].valid ? bound.col[i].valid->value : NULL,
                                 .dict = bound.col[i].dict };
    status = each(user, &column, &bind.error);
  }
  tsr_status closed = tsr__bind_close(&bind);
  return closed ? closed : status;
}

/* ---- back ------------------------------------------------------------------------------------ */

/* False without an error: no memory, which the caller says. */
static bool take_schema(tsr_frame *df, const tsr__shard_column *columns, int count,
                        tsr__error *error)
{
  tsr__arena *arena = &df->node.scope->arena;
  tsr__field *field = tsr__arena_new(arena, (size_t)count * sizeof *field);
  for (int i = 0; field && i < count; i++) {
    field[i].name = tsr__arena_text(arena, columns[i].name, strlen(columns[i].name));
    field[i].type = columns[i].type;
    if (!field[i].name) field = NULL;
  }
  if (!field) return false;
  df->schema = (tsr__schema){ count, field, NULL };
  return !tsr__schema_index(df, error);
}

/* The leaf takes a reference over, so one is taken for it: the caller's stays the caller's. */
static tsr_array *leaf_of(const tsr_frame *df, tsr__value *value)
{
  if (!value) return NULL;
  tsr__value_hold(value);
  return tsr__make_leaf(df->node.scope, (tsr_dtype)value->dtype, &value->shape, &value->sharding,
                        value, df->node.site);
}

static bool take_columns(tsr_frame *df, const tsr__shard_column *columns, int count)
{
  tsr__source *source = df->source = tsr__source_new(df->node.scope, count);
  if (!source) return false;
  source->rows = columns->values->shape.dims[0];
  source->sharding = columns->values->sharding;
  source->version = df->version;
  for (int i = 0; i < count; i++) {
    tsr__col *col = &source->col[i];
    *col = (tsr__col){ .type = columns[i].type, .dict = columns[i].dict };
    if (col->dict) source->dicts[source->dict_count++] = tsr__dict_hold(col->dict);
    col->values = leaf_of(df, columns[i].values);
    col->valid = leaf_of(df, columns[i].valid);
    if (col->values->inert || (col->valid && col->valid->inert)) return false;
  }
  tsr__source_use(df);
  return true;
}

/* Whatever was taken before a failure goes with the frame's scope: leaves and dictionaries are
 * its. */
tsr_frame *tsr__frame_of_shards(tsr_frame *df, const tsr__shard_column *columns, int count)
{
  tsr__error error = { 0 };
  if (df->inert) return df;
  if (take_schema(df, columns, count, &error) && take_columns(df, columns, count)) return df;
  tsr__error_set(&error, TSR_ENOMEM, "%s: out of memory", df->what);
  return tsr__frame_fail(df, &error);
}
