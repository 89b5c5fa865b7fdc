/* The columns of a frame as fields, copied to the host: numbers as arrays, texts as their bytes or
 * as their places in the order of all texts of the column.
 *
 *   city     "Rome" "Bern" null "Rome"      bytes    RomeBernRome   0 4 8 8 12
 *                                           codes    1 0 -1 1 */
#include <stdlib.h>

#include "frame/chain/chain.h"
#include "pipeline/memory_source.h"

/* A frame that becomes a source. */
typedef struct taking {
  tsr_frame *df;
  tsr_scope *scope;
  const char *site;
  tsr__name_list codes;
  tsr_table *texts;                   /* of the columns of text; NULL: there are none */
  tsr_array *array[TSR__MAX_COLUMNS]; /* by column; NULL: text */
  tsr__found found;
} taking;

static bool is_text(const taking *t, int column)
{
  return tsr_frame_column_type(t->df, column) == TSR_COL_TEXT;
}

/* ---- texts ----------------------------------------------------------------------------------- */

typedef struct cell_text {
  const char *at; /* NULL: null */
  size_t length;
  int64_t row;
} cell_text;

/* All texts of a column, on the heap; NULL with the error set. */
static cell_text *texts_of(const taking *t, int column, int64_t *count, tsr__error *error)
{
  int of = tsr_table_find(t->texts, tsr_frame_column_name(t->df, column));
  *count = tsr_table_row_count(t->texts);
  cell_text *all = tsr__new_raw(&t->scope->rt->heap, ((size_t)*count + 1) * sizeof *all);
  for (int64_t i = 0; all && i < *count; i++) {
    all[i].at = tsr_table_bytes(t->texts, i, of, &all[i].length);
    all[i].row = i;
  }
  if (!all || tsr_scope_status(t->scope))
    tsr__error_set(error, TSR_ENOMEM, "no memory for the texts of column %.80s",
                   tsr_frame_column_name(t->df, column));
  return all;
}

/* Nulls first, then by bytes. */
static int by_bytes(const void *a, const void *b)
{
  const cell_text *x = a, *y = b;
  if (!x->at || !y->at) return (x->at != NULL) - (y->at != NULL);
  size_t length = x->length < y->length ? x->length : y->length;
  int order = length ? memcmp(x->at, y->at, length) : 0;
  return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* A block that is the next column's; NULL with the error set. */
static char *next_block(taking *t, const char *name, size_t size, tsr__error *error)
{
  char *block = tsr__new_raw(&t->scope->rt->heap, size);
  if (!block) tsr__error_set(error, TSR_ENOMEM, "no memory for %zu bytes of '%.80s'", size, name);
  return block;
}

static tsr_status add_codes(taking *t, const char *name, cell_text *all, int64_t count,
                            tsr__error *error)
{
  tsr__found *f = &t->found;
  size_t size = ((size_t)count + 1) * sizeof(int64_t);
  int64_t code = -1;
  tsr__column column = { .name = name, .dtype = TSR_I64, .bytes = sizeof code };
  if (f->count == TSR__MAX_COLUMNS)
    return tsr__error_set(error, TSR_EARG, "more than %d fields, counting the fields of lengths",
                          TSR__MAX_COLUMNS);
  char *block = next_block(t, name, size, error);
  if (!block) return error->status;
  qsort(all, (size_t)count, sizeof *all, by_bytes);
  for (int64_t i = 0; i < count; i++) {
    code += all[i].at && (!i || by_bytes(&all[i - 1], &all[i]));
    memcpy(block + (size_t)all[i].row * sizeof code, &code, sizeof code);
  }
  f->data[f->count] = f->block[f->count] = block;
  f->block_size[f->count] = size;
  f->column[f->count++] = column;
  return TSR_OK;
}

/* One block: where each begins, then all of them. */
static tsr_status add_bytes(taking *t, const char *name, const cell_text *all, int64_t count,
                            tsr__error *error)
{
  size_t head = ((size_t)count + 1) * sizeof(int64_t), size = head + 1;
  for (int64_t i = 0; i < count; i++) size += all[i].at ? all[i].length : 0;
  char *block = next_block(t, name, size, error);
  if (!block) return error->status;
  int64_t *offsets = (int64_t *)(void *)block, used = 0;
  for (int64_t i = 0; i <= count; i++) {
    offsets[i] = used;
    if (i == count || !all[i].at || !all[i].length) continue;
    memcpy(block + head + used, all[i].at, all[i].length);
    used += (int64_t)all[i].length;
  }
  tsr_ragged_field field = { name, TSR_U8, { 0 }, block + head, offsets };
  int column = t->found.count;
  if (tsr__found_ragged(&t->found, &field, error)) {
    tsr__del(&t->scope->rt->heap, block, size);
    return error->status;
  }
  t->found.block[column] = block;
  t->found.block_size[column] = size;
  return TSR_OK;
}

static tsr_status add_texts(taking *t, int column, const char *name, tsr__error *error)
{
  int64_t count;
  bool coded = tsr__name_list_find(&t->codes, tsr_frame_column_name(t->df, column)) >= 0;
  cell_text *all = texts_of(t, column, &count, error);
  if (!error->status && t->found.records >= 0 && t->found.records != count)
    tsr__error_set(error, TSR_EVALUE, "%lld texts for %lld records, expected equally many",
                   (long long)count, (long long)t->found.records);
  if (!error->status) t->found.records = count;
  if (!error->status && coded) add_codes(t, name, all, count, error);
  else if (!error->status) add_bytes(t, name, all, count, error);
  if (all) tsr__del(&t->scope->rt->heap, all, ((size_t)count + 1) * sizeof *all);
  return error->status;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* A column as an array. Rows without a value have no other form in an array: NaN where there is
 * one, an error elsewhere, which the column's call tells. */
static tsr_array *column_array(const taking *t, int column)
{
  tsr_frame_column_opts opts = { .size = sizeof opts };
  tsr_coltype type = tsr_frame_column_type(t->df, column);
  if (type == TSR_COL_F16 || type == TSR_COL_BF16 || type == TSR_COL_F32 || type == TSR_COL_F64)
    opts.null_value = tsr_scalar_float(__builtin_nan(""));
  return tsr_frame_column_with(t->df, tsr_frame_column_name(t->df, column), &opts, t->site);
}

static tsr_status check_codes(const taking *t, tsr__error *error)
{
  tsr__known known = { .count = 0 };
  char hint[TSR__HINT];
  for (int c = 0; c < tsr_frame_column_count(t->df); c++)
    if (is_text(t, c))
      tsr__known_add(&known, tsr_frame_column_name(t->df, c),
                     strlen(tsr_frame_column_name(t->df, c)));
  for (int i = 0; i < t->codes.count; i++) {
    int c = 0, count = tsr_frame_column_count(t->df);
    while (c < count && strcmp(tsr_frame_column_name(t->df, c), t->codes.name[i]) != 0) c++;
    if (c < count && is_text(t, c)) continue;
    return tsr__error_set(error, TSR_EARG,
                          ".codes names '%.80s', but there is no such column of text%s",
                          t->codes.name[i], tsr__known_hint(&known, t->codes.name[i], hint));
  }
  return TSR_OK;
}

/* Computed at the call, all arrays together and all texts: reading records runs no program. */
static tsr_status compute(taking *t, tsr__error *error)
{
  tsr__text texts;
  tsr_array *all[TSR__MAX_COLUMNS];
  int arrays = 0;
  tsr__text_init(&texts, &t->scope->rt->heap);
  for (int c = 0; c < tsr_frame_column_count(t->df); c++) {
    if (is_text(t, c)) {
      tsr__text_add(&texts, texts.length ? ",\"" : "\"");
      for (const char *n = tsr_frame_column_name(t->df, c); *n; n++)
        tsr__text_put(&texts, "\"\"", *n == '"' ? 2 : 0), tsr__text_put(&texts, n, *n != '"');
      tsr__text_add(&texts, "\"");
    } else all[arrays++] = t->array[c] = column_array(t, c);
  }
  tsr_status status = arrays ? tsr_eval_at(all, arrays, t->site) : TSR_OK;
  if (!status && texts.length) {
    const tsr_formula *names = TSR_FORMULA(tsr__text_get(&texts));
    status = tsr_frame_collect_at(tsr_frame_select_at(t->df, names, t->site), &t->texts, t->site);
  }
  if (texts.failed) status = TSR_ENOMEM;
  tsr__text_free(&texts);
  if (!status) return TSR_OK;
  return tsr__error_set(error, status, "the columns cannot be computed");
}

static tsr_status take_all(taking *t, const tsr_source_frame_args *args, tsr__error *error)
{
  tsr__arena *arena = &t->scope->arena;
  int count = tsr_frame_column_count(t->df);
  if (count > TSR__MAX_COLUMNS || !count)
    return tsr__error_set(
        error, TSR_EARG,
        "the frame has %d columns, expected 1 to %d; choose some with tsr_frame_select", count,
        TSR__MAX_COLUMNS);
  if (args->codes && tsr__name_list_read(arena, args->codes, false, &t->codes, error))
    return error->status;
  if (check_codes(t, error) || compute(t, error)) return error->status;
  for (int c = 0; c < count && !error->status; c++) {
    const char *own = tsr_frame_column_name(t->df, c);
    char *name = tsr__arena_text(arena, own, strlen(own));
    if (!name) return tsr__error_set(error, TSR_ENOMEM, "no memory for a name");
    tsr__name_clean(name);
    if (is_text(t, c)) add_texts(t, c, name, error);
    else tsr__found_array(&t->found, t->array[c], name, error);
  }
  return error->status;
}

tsr_source *tsr_source_frame_with(tsr_frame *df, const tsr_source_frame_args *given,
                                  const char *site)
{
  const char *call = "tsr_source_frame";
  tsr_scope *scope = df ? tsr__scope_here(df->node.scope) : NULL;
  tsr_source_frame_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  TSR__CALL(scope, "source_frame");
  taking t = { .df = df, .scope = scope, .site = site };
  t.found.scope = scope;
  t.found.records = -1;
  if (!tsr__take_opts(call, given, &args, sizeof args, &error)) take_all(&t, &args, &error);
  if (!error.status) return tsr__found_source(&t.found, call, site);
  tsr__found_drop(&t.found);
  return tsr__records_refused(scope, site, call, &error);
}
