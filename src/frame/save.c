/* Frames to files: rows are collected on the host, then written by io/.
 *
 * Invariant: the file appears whole or not at all, and the rows' memory is given back before the
 * call returns. */
#include "frame/plan.h"

#include "io/write.h"

/* The options of CSV; NULL: JSON lines. */
static tsr_status write_table(tsr_scope *scope, const tsr_table *table, tsr__write_ask *ask,
                              const tsr_csv_write_opts *csv, tsr__error *error)
{
  tsr__heap *heap = &scope->rt->heap;
  size_t bytes = (size_t)(table->count + 1) * sizeof(tsr__out_column);
  tsr__out_column *column = tsr__new(heap, bytes);
  if (!column) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", ask->what);
  for (int i = 0; i < table->count; i++) {
    const tsr__table_column *from = &table->column[i];
    column[i] = (tsr__out_column){ from->name, (tsr_coltype)from->type, from->values, from->valid,
                                   from->dict };
  }
  ask->rt = scope->rt;
  ask->rows = table->rows;
  ask->count = table->count;
  ask->column = column;
  tsr__csv_style style = { 0 };
  if (csv) style = (tsr__csv_style){ csv->separator, csv->no_header, csv->null };
  tsr_status status = csv ? tsr__csv_write(ask, &style, error) : tsr__json_write(ask, error);
  tsr__del(heap, column, bytes);
  return status;
}

static tsr_status save(tsr_frame *df, const char *what, const char *path,
                       const tsr_csv_write_opts *csv)
{
  tsr_table *table = NULL;
  tsr__error error = { 0 };
  tsr__write_ask ask = { .what = what, .path = path };
  tsr_scope *scope = df ? df->node.scope : NULL;
  if (tsr__frame_usable(df) && (!path || !*path))
    return tsr__fail(scope, df->node.site, TSR_EARG, "%s: the path is %s", what,
                     path ? "empty" : "NULL");
  tsr_status status = tsr_frame_collect(df, &table);
  if (status) return status;
  status = write_table(scope, table, &ask, csv, &error);
  tsr__table_empty(table);
  return status ? tsr__fail(scope, df->node.site, status, "%s", error.text) : TSR_OK;
}

tsr_status tsr_frame_write_csv_with(tsr_frame *df, const char *path, const tsr_csv_write_opts *opts)
{
  static const char what[] = "tsr_frame_write_csv";
  tsr_csv_write_opts all = { 0 };
  tsr__error error = { 0 };
  if (tsr__frame_usable(df) && tsr__take_opts(what, opts, &all, sizeof all, &error))
    return tsr__fail(df->node.scope, df->node.site, error.status, "%s", error.text);
  return save(df, what, path, &all);
}

tsr_status tsr_frame_write_json(tsr_frame *df, const char *path)
{
  return save(df, "tsr_frame_write_json", path, NULL);
}
