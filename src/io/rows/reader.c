/* The readers of rows as tables of calls. */
#include "io/rows/reader.h"

static void csv_close(void *file)
{
  tsr__csv_close(file);
}

static int csv_columns(const void *file, const tsr__csv_column **out)
{
  return tsr__csv_columns(file, out);
}

static const char *csv_path(const void *file)
{
  return tsr__csv_path(file);
}

static tsr_status csv_count(void *file, int64_t *rows, tsr__error *error)
{
  return tsr__csv_count(file, rows, error);
}

static tsr_status csv_read(void *file, tsr__csv_read *read, tsr__error *error)
{
  return tsr__csv_read_parts(file, read, error);
}

static int64_t csv_widened(const void *file, int column, const char **text)
{
  return tsr__csv_widened(file, column, text);
}

static int64_t csv_bytes(const void *file)
{
  return tsr__csv_bytes(file);
}

static const char *csv_notes(const void *file)
{
  return tsr__csv_notes(file);
}

static tsr_status csv_front(void *file, int64_t want, int64_t *rows, tsr__error *error)
{
  return tsr__csv_front(file, want, rows, error);
}

const tsr__reader_ops tsr__csv_reader = { .format = "csv",
                                          .close = csv_close,
                                          .columns = csv_columns,
                                          .path = csv_path,
                                          .count = csv_count,
                                          .read = csv_read,
                                          .widened = csv_widened,
                                          .bytes = csv_bytes,
                                          .notes = csv_notes,
                                          .front = csv_front };

static void json_close(void *file)
{
  tsr__json_close(file);
}

static int json_columns(const void *file, const tsr__csv_column **out)
{
  return tsr__json_columns(file, out);
}

static const char *json_path(const void *file)
{
  return tsr__json_path(file);
}

static tsr_status json_count(void *file, int64_t *rows, tsr__error *error)
{
  (void)error;
  *rows = tsr__json_rows(file);
  return TSR_OK;
}

static tsr_status json_read(void *file, tsr__csv_read *read, tsr__error *error)
{
  return tsr__json_read_parts(file, read, error);
}

/* Types are final when the file is open. */
static int64_t never_widened(const void *file, int column, const char **text)
{
  (void)file;
  (void)column;
  (void)text;
  return -1;
}

const tsr__reader_ops tsr__json_reader = { .format = "json",
                                           .close = json_close,
                                           .columns = json_columns,
                                           .path = json_path,
                                           .count = json_count,
                                           .read = json_read,
                                           .widened = never_widened };

static void arrow_close(void *file)
{
  tsr__arrow_close(file);
}

static int arrow_columns(const void *file, const tsr__csv_column **out)
{
  return tsr__arrow_columns(file, out);
}

static const char *arrow_path(const void *file)
{
  (void)file;
  return "stream";
}

static tsr_status arrow_count(void *file, int64_t *rows, tsr__error *error)
{
  (void)error;
  *rows = tsr__arrow_rows(file);
  return TSR_OK;
}

static tsr_status arrow_read(void *file, tsr__csv_read *read, tsr__error *error)
{
  return tsr__arrow_read_parts(file, read, error);
}

static bool arrow_borrow(void *file, int column, tsr__foreign *out)
{
  return tsr__arrow_borrow(file, column, out);
}

const tsr__reader_ops tsr__arrow_reader = { .format = "arrow",
                                            .close = arrow_close,
                                            .columns = arrow_columns,
                                            .path = arrow_path,
                                            .count = arrow_count,
                                            .read = arrow_read,
                                            .widened = never_widened,
                                            .borrow = arrow_borrow };
