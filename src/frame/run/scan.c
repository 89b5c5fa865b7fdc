/* Files of CSV or JSON lines, read at a terminal straight into the staging buffers of the devices'
 * shards, which on CPU devices are the shards themselves.
 *
 *   file rows    0 .. 3264 | 3265 .. 6529 | ...      the usual borders over the mesh
 *                    v              v
 *                device 0       device 1             one buffer a column and a device
 *
 * What was read stays with the frame, so a second terminal on it reads only columns that are
 * new. Columns that filters were pushed down into are kept apart from whole ones (`pushed`), and so
 * are the first rows of a file where those were enough (`front`): three sets of columns, each in
 * itself as long as its rows.
 *
 * Invariant: all columns of a source are of one version of the schema; a value that contradicts its
 * column's type changes the version, and the reading that met it is dropped. */
#include "frame/run/run.h"

#include "io/text/dict.h"
#include "kernel/device/staging.h"

#include <stdio.h>

/* ---- reading ----------------------------------------------------------------------------- */

/* Values or validity of a column, while a reader's threads fill them. */
typedef struct filling {
  tsr__value *value;     /* NULL: the frame has it, or there is none */
  tsr__staging *staging; /* by part: of the position that is read into */
} filling;

/* One reading: values and validity of each column, and which positions hold which part. */
typedef struct reading {
  tsr_frame *df;
  tsr__source *source; /* the frame's, or its front */
  tsr__traffic *moved; /* to replicas */
  tsr__error *error;
  int parts;
  int *position; /* by part: the position that is read into */
  int64_t *rows;
  int count;
  tsr__read_target *target;
  filling *values, *valid;
  const tsr__pushdown *pushdown; /* NULL: all rows count */
  const bool *told;              /* by column, as of the visit; NULL: none */
  tsr__pushed *pushed;           /* where sparse columns go */
  bool apart;                    /* all processes read together, */
  bool *here;                    /* by part: each its own; NULL: each all */
} reading;

/* Small arrays of a reading; one element at least, so that NULL means out of memory. */
static void *room(reading *r, tsr_scope *scope, int count, size_t element)
{
  void *out = tsr__arena_new(&scope->arena, (size_t)(count > 0 ? count : 1) * element);
  if (!out) tsr__error_set(r->error, TSR_ENOMEM, "%s: out of memory", r->df->what);
  return out;
}

/* The position that a part is read into: the first of those that are addressable. */
static int reads_into(const reading *r, int64_t part)
{
  const tsr_sharding *sharding = &r->source->sharding;
  const tsr__topology *topology = tsr__topology_of(r->df->node.scope->rt);
  int found = -1;
  /* Every position that holds the part will do: a replica that is here is better than one that
   * another process holds. */
  for (int p = 0; p < tsr__positions(sharding); p++) {
    if (tsr__dim_index(sharding, 0, p) != part) continue;
    if (tsr__device_local(topology, tsr__position_device(sharding, p))) return p;
    if (found < 0) found = p;
  }
  return found;
}

/* Parts in order of their rows; replicas are filled later. */
static tsr_status find_parts(reading *r, tsr_scope *scope)
{
  const tsr_sharding *sharding = &r->source->sharding;
  int positions = tsr__positions(sharding);
  tsr_shape shape = { 1, { r->source->rows } };
  r->position = room(r, scope, positions, sizeof *r->position);
  r->rows = room(r, scope, positions + 1, sizeof *r->rows);
  if (!r->position || !r->rows) return r->error->status;
  /* Parts are numbered along the dim, so their first rows rise and each ends where the next
   * begins. */
  int64_t parts = tsr__dim_parts(sharding, 0);
  for (int64_t part = 0; part < parts; part++) {
    tsr_box box;
    r->position[r->parts] = reads_into(r, part);
    tsr__box(sharding, &shape, r->position[r->parts], &box);
    r->rows[r->parts++] = box.start[0];
  }
  r->rows[r->parts] = shape.dims[0];
  if (!r->apart || !r->df->source->reader.ops->together) return TSR_OK;
  const tsr__topology *topology = tsr__topology_of(scope->rt);
  r->here = room(r, scope, r->parts, sizeof *r->here);
  for (int p = 0; r->here && p < r->parts; p++)
    r->here[p] = tsr__device_local(topology, tsr__position_device(sharding, r->position[p]));
  return r->here ? TSR_OK : r->error->status;
}

/* Room for a part of another process: what is read there decides types and codes of all, and is
 * forgotten. */
static tsr_status add_spare(reading *r, tsr_scope *scope, int part, tsr_dtype dtype)
{
  int64_t rows = r->rows[part + 1] - r->rows[part];
  tsr__read_target *target = &r->target[r->count - 1];
  target->values[part] = tsr__arena_new(&scope->arena, tsr__device_bytes(dtype, rows) + 8);
  target->validity[part] = tsr__arena_new(&scope->arena, tsr__device_bytes(TSR_BOOL, rows) + 8);
  if (target->values[part] && target->validity[part]) return TSR_OK;
  return tsr__error_set(r->error, TSR_ENOMEM, "%s: out of memory", r->df->what);
}

static bool is_told(const reading *r, int column)
{
  return r->told && r->told[column];
}

/* A new value, and staging buffers for the parts that are read into. The caller drops the filling
 * in any case, after an error too. */
static tsr_status open_filling(reading *r, tsr_scope *scope, tsr_dtype dtype, filling *out)
{
  tsr_shape shape = { 1, { r->source->rows } };
  tsr__layout layout = { dtype, &shape, &r->source->sharding, NULL };
  out->staging = room(r, scope, r->parts, sizeof *out->staging);
  if (!out->staging) return r->error->status;
  out->value = tsr__value_new(scope->rt, &layout, r->error);
  for (int i = 0; i < r->parts && !r->error->status; i++)
    tsr__staging_open(out->value->parts[r->position[i]], &out->staging[i], r->error);
  return r->error->status;
}

static void drop_filling(const reading *r, filling *f)
{
  for (int i = 0; f->staging && i < r->parts; i++) tsr__staging_drop(&f->staging[i]);
  tsr__value_release(f->value);
  f->value = NULL;
}

/* Takes fresh buffers for a column, with staging buffers that the reader fills, all parts at
 * once. */
static tsr_status add_target(reading *r, tsr_scope *scope, int column, bool sparse)
{
  tsr_dtype dtype = tsr__dtype_of_type(r->df->schema.field[column].type);
  tsr__read_target *target = &r->target[r->count];
  if (is_told(r, column)) {
    *target = (tsr__read_target){ .column = column, .told = true };
    r->count++;
    return TSR_OK;
  }
  filling *values = &r->values[r->count], *valid = &r->valid[r->count];
  target->column = column;
  target->sparse = sparse;
  target->values = room(r, scope, r->parts, sizeof *target->values);
  target->validity = room(r, scope, r->parts, sizeof *target->validity);
  r->count++; /* drop() lets go of all that is made from here on */
  if (!target->values || !target->validity) return r->error->status;
  /* Validity is read with every column, since only the reading tells whether there are nulls. */
  if (open_filling(r, scope, dtype, values) || open_filling(r, scope, TSR_BOOL, valid))
    return r->error->status;
  for (int i = 0; i < r->parts; i++) {
    target->values[i] = values->staging[i].memory;
    target->validity[i] = valid->staging[i].memory;
    if (!target->values[i] && !r->here && add_spare(r, scope, i, dtype)) return r->error->status;
  }
  return TSR_OK;
}

static tsr_array *leaf(tsr_frame *df, tsr__value *value)
{
  return tsr__make_leaf(df->node.scope, (tsr_dtype)value->dtype, &value->shape, &value->sharding,
                        value, df->node.site);
}

/* A column that was read: the devices get it, replicas too. */
static tsr_array *give_filling(reading *r, filling *f)
{
  tsr__value *value = f->value;
  for (int i = 0; i < r->parts; i++) tsr__staging_give(&f->staging[i]);
  f->value = NULL;
  tsr__value_replicate(value, r->moved);
  return leaf(r->df, value);
}

/* Keeps what was read with the frame; the reading's references go over. Without nulls the
 * validity is dropped, and with it a read of it in every later kernel. */
static tsr_status keep(reading *r)
{
  tsr__source *source = r->source;
  for (int i = 0; i < r->count; i++) {
    tsr__read_target *target = &r->target[i];
    if (target->told || target->there) continue;
    tsr__col col = { .type = r->df->schema.field[target->column].type, .dict = target->dict };
    if (target->dict) source->dicts[source->dict_count++] = target->dict;
    target->dict = NULL; /* the source's now, even if what follows fails */
    col.values = give_filling(r, &r->values[i]);
    if (target->nulls) col.valid = give_filling(r, &r->valid[i]);
    if (col.values->inert || (col.valid && col.valid->inert))
      return tsr__error_set(r->error, TSR_ENOMEM, "%s: out of memory", r->df->what);
    if (target->sparse) r->pushed->col[target->column] = col;
    else source->col[target->column] = col;
  }
  return TSR_OK;
}

/* Lets go of what keep() did not take: all of it, or what was not needed, as a validity without
 * nulls. Dictionaries go only if the reading failed. */
static void drop(reading *r, bool dicts)
{
  for (int i = 0; i < r->count; i++) {
    const tsr__read_target *target = &r->target[i];
    drop_filling(r, &r->values[i]);
    drop_filling(r, &r->valid[i]);
    if (dicts && target->dict) tsr__dict_release(target->dict);
  }
}

/* Takes a column's memory as it lies, where the reader offers that; false: it must be read. One
 * position only, and here: memory of others lies in one piece, and a shard of it would need the
 * rest to be kept. */
static bool borrow(reading *r, int column)
{
  tsr_frame *df = r->df;
  const tsr__reader *reader = &df->source->reader;
  tsr_runtime *rt = df->node.scope->rt;
  tsr_shape shape = { 1, { r->source->rows } };
  const tsr_sharding *sharding = &r->source->sharding;
  tsr__error none = { 0 };
  tsr__foreign memory;
  if (!reader->ops->borrow || tsr__positions(sharding) != 1 || r->apart) return false;
  if (!tsr__device_local(tsr__topology_of(rt), tsr__home_device(rt, sharding, 0))) return false;
  /* Refused where the memory does not lie as a device wants it. */
  if (!reader->ops->borrow(reader->file, column, &memory)) return false;
  uint8_t type = df->schema.field[column].type;
  tsr__layout layout = { tsr__dtype_of_type(type), &shape, sharding, NULL };
  tsr__value *value = tsr__value_frame(rt, &layout, &none);
  int device = tsr__position_device(sharding, 0);
  if (value) value->parts[0] = tsr__devices_of(rt)->ops->adopt(rt, device, &memory);
  /* A device may refuse to adopt the memory. The memory is released here then, and the column is
   * read like any other column. */
  if (!value || !value->parts[0]) {
    tsr__value_release(value);
    memory.release(memory.data, memory.user);
    return false;
  }
  tsr_array *values = leaf(df, value);
  if (!values->inert) r->source->col[column] = (tsr__col){ .type = type, .values = values };
  return !values->inert;
}

/* ---- rows that filters drop ---------------------------------------------------------------- */

/* The whole column comes first. A column whose reading dropped values serves only where each row
 * that passes this terminal's filters also passed the filters of that reading. */
tsr__col tsr__scan_column(const tsr__source *source, int column, const tsr__pushdown *pushdown)
{
  const tsr__pushed *pushed = source->pushed;
  bool whole = source->col[column].values || !pushed || !pushdown || pushdown->whole[column];
  return whole || !tsr__pushdown_holds(pushed, pushdown) ? source->col[column]
                                                         : pushed->col[column];
}

const tsr__pushed *tsr__scan_pushed(const tsr__visit *file)
{
  const tsr__source *source = file->df->source;
  bool any = false;
  /* A front has no pushed columns, since its few rows are read whole. */
  if (!file->pushdown || !source || !source->pushed || file->front >= 0) return NULL;
  for (int i = 0; i < file->df->schema.count; i++)
    any = any || (file->need[i] && !source->col[i].values &&
                  tsr__scan_column(source, i, file->pushdown).values);
  return any || file->told ? source->pushed : NULL;
}

/* Whether a column's values of rows that are dropped are of no use, and cost something. */
static bool gains(const reading *r, int column)
{
  bool text = r->df->schema.field[column].type == TSR_COL_TEXT;
  return !r->pushdown->whole[column] && (text || r->df->source->reader.ops->drops_values);
}

/* Whether a reading can leave out values of rows that its predicates drop: their columns are read
 * with it, and others that need no dropped row. One set of predicates a file: the first
 * terminal's. Another's would need columns for each set. The columns of the predicates must not
 * be there already, or there would be nothing to judge while reading. */
static bool can_push_down(const reading *r, const bool *need)
{
  const tsr__source *source = r->source;
  bool any = false;
  if (!r->pushdown || !r->pushdown->count || source->pushed) return false;
  /* The predicates are judged on columns that are read now; one that is there is not read again. */
  for (int s = 0; s < r->pushdown->count; s++)
    if (!need[r->pushdown->predicate[s].target] ||
        source->col[r->pushdown->predicate[s].target].values)
      return false;
  /* At least one column must gain by it: needed, not read, and of no use in dropped rows. */
  for (int i = 0; i < r->df->schema.count; i++)
    any = any || r->told || (need[i] && gains(r, i) && !source->col[i].values);
  return any;
}

static const char *predicate_words(const tsr__pushdown *pushdown, tsr_scope *scope)
{
  tsr__text words;
  tsr__text_init(&words, &scope->rt->heap);
  for (int s = 0; s < pushdown->count; s++) {
    tsr__text_add(&words, "%s", s ? " and " : "");
    tsr__expr_print(pushdown->expr[s], &words);
  }
  const char *text = tsr__text_get(&words);
  char *out = words.failed ? NULL : tsr__arena_text(&scope->arena, text, strlen(text));
  tsr__text_free(&words);
  return out;
}

/* What predicates are to give, in the frame's scope. Kept in the frame's scope, as the columns
 * read by it are; a bit a row says which rows it kept. */
static tsr_status make_pushed(reading *r)
{
  tsr_scope *scope = r->df->node.scope;
  const tsr__pushdown *pushdown = r->pushdown;
  tsr__pushed *out = room(r, scope, 1, sizeof *out);
  if (!out) return r->error->status;
  out->count = pushdown->count;
  out->key = room(r, scope, pushdown->count, sizeof *out->key);
  out->col = room(r, scope, r->df->schema.count, sizeof *out->col);
  out->kept = room(r, scope, r->parts, sizeof *out->kept);
  out->words = predicate_words(pushdown, scope);
  if (!out->key || !out->col || !out->kept || !out->words)
    return tsr__error_set(r->error, TSR_ENOMEM, "%s: out of memory", r->df->what);
  for (int k = 0; k < pushdown->count; k++) {
    char *key = room(r, scope, (int)pushdown->key[k].length, 1);
    if (!key) return r->error->status;
    /* Keys are compared by later terminals, which make theirs anew: these are copies that live with
     * the frame. */
    memcpy(key, pushdown->key[k].at, pushdown->key[k].length);
    out->key[k] = (tsr__pushdown_key){ key, pushdown->key[k].length };
  }
  for (int p = 0; p < r->parts; p++) {
    /* Bits come in words of 64 rows, and a part begins with a word of its own: workers of two parts
     * never write to one. */
    int64_t words = (r->rows[p + 1] - r->rows[p] + 63) / 64;
    out->kept[p] = tsr__arena_new(&scope->arena, (size_t)(words + 1) * sizeof(uint64_t));
    if (!out->kept[p])
      return tsr__error_set(r->error, TSR_ENOMEM, "%s: out of memory", r->df->what);
  }
  r->pushed = out;
  return TSR_OK;
}

/* A predicate's column that was borrowed, which the reader looks at where it lies. One part has
 * it. */
static void add_there(reading *r, int column)
{
  const tsr__value *value = r->source->col[column].values->value;
  r->target[r->count++] =
      (tsr__read_target){ .column = column, .there = tsr__value_map(value, r->position[0]) };
}

/* Ends the reader's look at borrowed columns, before columns may be forgotten. */
static void unmap_there(const reading *r)
{
  for (int i = 0; i < r->count; i++)
    if (r->target[i].there)
      tsr__value_unmap(r->source->col[r->target[i].column].values->value, r->position[0]);
}

/* The predicates with the numbers of their targets; `scope` holds them. The reader numbers
 * targets of this reading, not columns of the file. */
static tsr_status take_predicates(reading *r, tsr_scope *scope, tsr__read_ask *read)
{
  tsr__predicate *predicates = room(r, scope, r->pushdown->count, sizeof *predicates);
  if (!predicates) return r->error->status;
  for (int s = 0; s < r->pushdown->count; s++) {
    int column = r->pushdown->predicate[s].target, t = 0;
    predicates[s] = r->pushdown->predicate[s];
    while (t < r->count && r->target[t].column != column) t++;
    if (t == r->count) add_there(r, column);
    predicates[s].target = t;
  }
  read->predicate_count = r->pushdown->count;
  read->predicates = predicates;
  return TSR_OK;
}

/* A part that several processes read is counted by the first of them. */
static bool counts_here(const reading *r, int part)
{
  const tsr_sharding *sharding = &r->source->sharding;
  const tsr__topology *topology = tsr__topology_of(r->df->node.scope->rt);
  int p = 0;
  if (!r->here) return true;
  while (tsr__dim_index(sharding, 0, p) != part) p++;
  return tsr__device_local(topology, tsr__position_device(sharding, p));
}

static void join_kept(void *into, const void *other, size_t size)
{
  (void)size;
  *(int64_t *)into += *(const int64_t *)other;
}

/* Rows that passed, over all parts. Bits behind a part's last row are 0. */
static tsr_status count_kept(reading *r)
{
  tsr_runtime *rt = r->df->node.scope->rt;
  for (int p = 0; p < r->parts; p++)
    for (int64_t w = 0; w * 64 < r->rows[p + 1] - r->rows[p]; w++)
      if (counts_here(r, p)) r->pushed->rows += __builtin_popcountll(r->pushed->kept[p][w]);
  return r->here
             ? tsr__agree_found(rt, &r->pushed->rows, sizeof r->pushed->rows, join_kept, r->error)
             : TSR_OK;
}

/* The rows that passed as an array, which stands in for the filters. */
static tsr_status make_mask(reading *r, tsr_scope *scope)
{
  filling mask = { 0 };
  open_filling(r, scope, TSR_BOOL, &mask);
  for (int p = 0; p < r->parts && !r->error->status; p++) {
    void *bits = mask.staging[p].memory;
    size_t words = (size_t)(r->rows[p + 1] - r->rows[p] + 63) / 64;
    if (bits) memcpy(bits, r->pushed->kept[p], words * sizeof(uint64_t));
  }
  if (!r->error->status) r->pushed->mask = give_filling(r, &mask);
  drop_filling(r, &mask);
  if (r->pushed->mask && r->pushed->mask->inert)
    return tsr__error_set(r->error, TSR_ENOMEM, "%s: out of memory", r->df->what);
  return r->error->status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static bool is_there(const reading *r, int column)
{
  /* What was looked at once said all that it is asked for. */
  if (is_told(r, column) && r->source->pushed) return true;
  return tsr__scan_column(r->source, column, r->pushdown).values != NULL;
}

/* All that a reading will hold, before the first buffer is taken. Device by device, since parts may
 * be uneven and memory limits differ. */
static tsr_status check_room(const reading *r, const bool *need)
{
  const tsr_frame *df = r->df;
  const tsr_sharding *sharding = &r->source->sharding;
  tsr_shape shape = { 1, { r->source->rows } };
  tsr__need ask = { df->node.scope->rt, df->what, NULL };
  for (int p = 0; p < tsr__positions(sharding); p++) {
    tsr_box box;
    int64_t bytes = 0;
    tsr__box(sharding, &shape, p, &box);
    for (int i = 0; i < df->schema.count; i++) {
      if (!need[i] || is_told(r, i) || is_there(r, i)) continue;
      tsr_dtype dtype = tsr__dtype_of_type(df->schema.field[i].type);
      /* Values and validity, as add_target() will take them. */
      bytes += (int64_t)(tsr__device_bytes(dtype, box.size[0]) +
                         tsr__device_bytes(TSR_BOOL, box.size[0]));
    }
    if (tsr__need_check(&ask, tsr__position_device(sharding, p), bytes, r->error))
      return r->error->status;
  }
  return TSR_OK;
}

/* Reads into fresh buffers; `scope` holds the reading's small arrays. */
static tsr_status read_columns(reading *r, tsr_scope *scope, const bool *need)
{
  tsr_frame *df = r->df;
  int columns = df->schema.count;
  /* `first`: this reading judges the predicates. Later ones of other columns follow the bits that
   * it left. */
  bool first = can_push_down(r, need);
  if (find_parts(r, scope)) return r->error->status;
  r->target = room(r, scope, columns, sizeof *r->target);
  r->values = room(r, scope, columns, sizeof *r->values);
  r->valid = room(r, scope, columns, sizeof *r->valid);
  if (!r->target || !r->values || !r->valid) return r->error->status;
  r->pushed = r->source->pushed;
  bool sparse = first || (r->pushed && r->pushdown && tsr__pushdown_holds(r->pushed, r->pushdown));
  if (first && make_pushed(r)) return r->error->status;
  /* Memory that is borrowed needs no room of a device's, so it is taken before room is counted. */
  for (int i = 0; i < columns; i++)
    if (need[i] && !is_there(r, i)) (void)borrow(r, i);
  if (check_room(r, need)) return r->error->status;
  for (int i = 0; i < columns; i++)
    if (need[i] && !is_there(r, i) && add_target(r, scope, i, sparse && gains(r, i)))
      return r->error->status;
  /* Borrowed by now, or read before. Rows are looked at once even if no column is wanted: what is
   * wrong with one of them is told to who counts them, too. */
  if (!r->count && (r->source->seen || !df->source->reader.ops->front)) return TSR_OK;
  tsr__read_ask read = { .parts = r->parts,
                         .rows = r->rows,
                         .target_count = r->count,
                         .targets = r->target,
                         .front = r->source != df->source,
                         .here = r->here };
  /* Out where this reading judges the predicates, in where it goes by what an earlier one found. */
  if (sparse) read.kept = r->pushed->kept;
  if (first && take_predicates(r, scope, &read)) return r->error->status;
  read.target_count = r->count;
  const tsr__reader *reader = &df->source->reader;
  tsr_status status = reader->ops->read(reader->file, &read, r->error);
  unmap_there(r);
  if (status) return status;
  if (first && !read.retyped) {
    if (count_kept(r) || (r->told && make_mask(r, scope))) return r->error->status;
    r->source->pushed = r->pushed;
  }
  r->source->seen = r->source->seen || !read.retyped;
  /* Nothing of a reading is kept in which a column changed its type: all columns share the
   * version. */
  if (!read.retyped) return keep(r);
  df->version++;
  return tsr__file_schema(df, r->error);
}

/* Whether what a visit needs of a file is there, of all its rows or those that pass its
 * conditions. */
static bool whole_is_there(const tsr__visit *file)
{
  const tsr__source *source = file->df->source;
  bool there = source->seen;
  for (int i = 0; i < file->df->schema.count && there; i++)
    there = !file->need[i] || tsr__scan_column(source, i, file->pushdown).values;
  return there;
}

void tsr__scan_forget_front(tsr_frame *df)
{
  tsr__source *front = df->source->front;
  if (!front) return;
  for (int i = 0; i < df->schema.count; i++) {
    const tsr__col *col = &front->col[i];
    if (col->values) tsr__array_delete(col->values);
    if (col->valid) tsr__array_delete(col->valid);
  }
  for (int i = 0; i < front->dict_count; i++) tsr__dict_release(front->dicts[i]);
  df->source->front = NULL;
}

/* Sees that the frame's source has a front of so many rows, or of all. A larger one takes the place
 * of a smaller one. */
static tsr_status open_front(tsr_frame *df, int64_t enough, tsr__error *error)
{
  tsr__source *whole = df->source, *front = whole->front;
  const tsr__reader *reader = &whole->reader;
  /* A front of an older version of the schema is read anew. */
  bool fresh = !front || front->version != df->version || enough > front->enough;
  int64_t want = fresh ? enough : front->rows, rows;
  tsr_status status = reader->ops->front(reader->file, want, &rows, error);
  if (status || !fresh) return status;
  tsr__scan_forget_front(df);
  front = tsr__source_new(df->node.scope, df->schema.count);
  if (!front) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  front->rows = rows < enough ? rows : enough;
  /* A front that found fewer rows than it looked for has the whole file. */
  front->enough = rows < enough ? INT64_MAX : enough;
  front->sharding = whole->sharding;
  front->version = df->version;
  whole->front = front;
  return TSR_OK;
}

/* Begins and ends what all processes do to a file together, each a part of it where the reader
 * knows how. */
static tsr_status begin_together(tsr_frame *df, tsr__error *error)
{
  const tsr__reader *reader = &df->source->reader;
  tsr_status status = tsr__source_enter(df, error);
  if (!status && reader->ops->together)
    reader->ops->together(reader->file, tsr__peers_of(df->node.scope->rt));
  return status;
}

static tsr_status end_together(tsr_frame *df, tsr_status status, tsr__error *error)
{
  const tsr__reader *reader = &df->source->reader;
  if (reader->ops->together) reader->ops->together(reader->file, NULL);
  return tsr__source_leave(df, status, error);
}

static tsr_status count_rows(tsr_frame *df, tsr__error *error)
{
  tsr__source *source = df->source;
  return source->reader.ops->count(source->reader.file, &source->rows, error);
}

tsr_status tsr__scan_count(tsr_frame *df, tsr__error *error)
{
  if (df->source->rows >= 0) return TSR_OK;
  if (!tsr__source_apart(df, &df->source->sharding)) return count_rows(df, error);
  tsr_status status = begin_together(df, error);
  return status ? status : end_together(df, count_rows(df, error), error);
}

/* Chooses which rows of a file are read: all, or a front. */
static tsr_status open_rows(tsr__visit *file, tsr__error *error)
{
  tsr_frame *df = file->df;
  tsr__source *source = df->source;
  const tsr__reader *reader = &source->reader;
  /* Once all rows are there the first ones are, too. */
  if (!reader->ops->front || whole_is_there(file)) file->front = -1;
  /* A front as long as the file is the file. */
  if (source->rows >= 0 && source->rows <= file->front) file->front = -1;
  if (file->front >= 0) return open_front(df, file->front, error);
  return source->rows >= 0 ? TSR_OK : count_rows(df, error);
}

tsr__source *tsr__scan_source(const tsr__visit *v)
{
  tsr__source *source = v->df->source;
  return source && source->front && v->front >= 0 ? source->front : source;
}

static tsr_status read_file(tsr__visit *file, tsr__traffic *moved, tsr__error *error)
{
  tsr_frame *df = file->df;
  tsr_scope *scope = tsr_scope_nest_at(df->node.scope, df->node.site);
  reading r = { .df = df,
                .moved = moved,
                .error = error,
                .pushdown = file->pushdown,
                .told = file->told,
                .apart = tsr__source_apart(df, &df->source->sharding) };
  int before = df->version;
  if (scope->inert) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  tsr_status status = open_rows(file, error);
  r.source = tsr__scan_source(file);
  if (r.source != df->source) r.pushdown = NULL; /* a front is short */
  if (!status && r.apart) status = tsr__source_same(df, &df->source->reader, r.source->rows, error);
  if (!status) status = read_columns(&r, scope, file->need);
  /* After a retyping there is no error, but nothing of the reading was kept. */
  drop(&r, status != TSR_OK || df->version != before);
  tsr_scope_close(scope);
  return status;
}

/* What replicas got is told of all processes. */
static void join_moved(void *into, const void *other, size_t size)
{
  (void)size;
  ((tsr__traffic *)into)->bytes += ((const tsr__traffic *)other)->bytes;
}

tsr_status tsr__scan_read(tsr__visit *file, tsr__traffic *moved, tsr__error *error)
{
  tsr_frame *df = file->df;
  tsr_runtime *rt = df->node.scope->rt;
  if (!tsr__source_apart(df, &df->source->sharding)) return read_file(file, moved, error);
  tsr_status status = begin_together(df, error);
  if (status) return status;
  status = read_file(file, moved, error);
  if (!status) status = tsr__agree_found(rt, moved, sizeof *moved, join_moved, error);
  return end_together(df, status, error);
}

void tsr__scan_blame(const tsr__visit *visits, tsr__error *error)
{
  for (const tsr__visit *v = visits; v; v = v->next) {
    if (v->df->kind != TSR__FRAME_FILE) continue;
    for (int i = 0; i < v->df->schema.count; i++) {
      const char *text;
      size_t used = strlen(error->text);
      const tsr__reader *reader = &v->df->source->reader;
      bool may = v->need[i] && reader->ops->widened;
      int64_t row = may ? reader->ops->widened(reader->file, i, &text) : -1;
      if (row < 0) continue;
      snprintf(error->text + used, sizeof error->text - used,
               "\n    column '%.60s' is %s from row %lld of %.200s on, where the value is '%.79s'",
               v->df->schema.field[i].name,
               tsr_coltype_name((tsr_coltype)v->df->schema.field[i].type), (long long)row,
               v->df->source->path, text);
    }
  }
}
