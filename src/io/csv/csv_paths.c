/* Which files paths mean: each one, standard input, or those that a pattern names.
 *
 *   day-*.csv   ->  day-01.csv, day-02.csv, ...      in the order of the bytes of their names
 *
 * Invariant: a name that is a file's means that file, whatever characters it holds. */
#include "io/csv/csv_inner.h"

static tsr_status make_files(tsr__csv *csv, const tsr__paths *paths, tsr__error *error)
{
  csv->files = tsr__new(csv->heap, (size_t)paths->count * sizeof *csv->files);
  if (!csv->files) return tsr__csv_no_memory(csv, error);
  csv->file_count = csv->file_room = paths->count;
  for (int i = 0; i < paths->count; i++) {
    tsr__csv_file *file = &csv->files[i];
    bool stream = strcmp(paths->path[i], "-") == 0;
    const char *name = stream ? "standard input" : paths->path[i];
    *file =
        (tsr__csv_file){ .csv = csv,
                         .fd = -1,
                         .size = -1,
                         .stream = stream,
                         .dialect = { .separator = csv->opts.separator ? csv->opts.separator : ',',
                                      .newline = '\n' } };
    file->path = tsr__arena_text(&csv->arena, name, strlen(name));
    if (!file->path) return tsr__csv_no_memory(csv, error);
    csv->streams |= stream;
  }
  return TSR_OK;
}

tsr_status tsr__csv_find_files(tsr__csv *csv, const tsr__path_ask *ask, tsr__error *error)
{
  tsr__paths paths;
  if (tsr__paths_find(csv->heap, ask, &paths, error)) return error->status;
  tsr_status status = make_files(csv, &paths, error);
  tsr__paths_free(&paths);
  return status;
}
