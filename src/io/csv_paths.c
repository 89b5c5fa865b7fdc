/* Which files a path means: one, standard input, or those that a pattern names.
 *
 *   day-*.csv   ->  day-01.csv, day-02.csv, ...      in the order of the bytes of their names
 *
 * Invariant: a name that is a file's means that file, whatever characters it holds. */
#include "io/csv_inner.h"
#include "io/files.h"

static tsr_status make_files(tsr__csv *csv, char **paths, int count, tsr__error *error)
{
  csv->files = tsr__new(csv->heap, (size_t)count * sizeof *csv->files);
  if (!csv->files) return tsr__csv_no_memory(csv, error);
  csv->file_count = count;
  for (int i = 0; i < count; i++) {
    tsr__csv_file *file = &csv->files[i];
    *file = (tsr__csv_file){ .csv = csv,
                             .fd = -1,
                             .size = -1,
                             .dialect = { .separator = csv->opts.separator, .newline = '\n' } };
    file->path = tsr__arena_text(&csv->arena, paths[i], strlen(paths[i]));
    if (!file->path) return tsr__csv_no_memory(csv, error);
  }
  return TSR_OK;
}

tsr_status tsr__csv_find_files(tsr__csv *csv, tsr__error *error)
{
  if (strcmp(csv->path, "-") == 0) {
    char *name = (char[]){ "standard input" };
    tsr_status status = make_files(csv, &name, 1, error);
    if (!status) csv->files[0].stream = true;
    return status;
  }
  tsr__paths paths;
  if (tsr__paths_find(csv->heap, csv->path, &paths, error)) return error->status;
  /* A pattern with braces may name a file twice. */
  int kept = 0;
  for (int i = 0; i < paths.count; i++)
    if (i == 0 || strcmp(paths.path[i], paths.path[kept - 1]) != 0)
      paths.path[kept++] = paths.path[i];
  tsr_status status = make_files(csv, paths.path, kept, error);
  tsr__paths_free(&paths);
  return status;
}
