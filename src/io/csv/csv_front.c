/* The first rows of a source, without the rest of it: a prefix of each file that has some of them
 * is held and indexed as a whole file would be.
 *
 *   file     |head|rows that are wanted|a few more|ro            not read
 *            |<------------- the prefix ----------->|
 *
 * A row that the prefix cuts does not end in it, and so is none. Where the prefix held too few rows
 * a longer one is taken; where that would be much, or rows must be looked for byte by byte, all of
 * the source is counted.
 *
 * Invariant: the rows of a front are the first ones of the source, as a whole reading finds
 * them. */
#include "io/csv/csv_inner.h"
#include "io/file/files.h"

enum { FRONT = 64 << 10, FRONT_MOST = 64 << 20 };

/* ---- a prefix ------------------------------------------------------------------------------ */

struct prefix {
  tsr__csv_file *file;
  tsr__unpack *unpack; /* NULL: a plain file */
  int64_t want, got;
  bool ended; /* there is no more of it */
  int code;
  tsr__error error;
};

static void prefix_step(void *user, int64_t task, int worker)
{
  (void)task;
  (void)worker;
  struct prefix *p = user;
  tsr__csv_file *file = p->file;
  char *to = file->block + TSR__CSV_FRONT + p->got;
  /* In pieces of 1 MiB, so that a cancellation is noticed. */
  int64_t left = p->want - p->got, step = left < TSR__CSV_PIECE ? left : TSR__CSV_PIECE, got = 0;
  if (p->unpack) tsr__unpack_some(p->unpack, to, step, &got, &p->error);
  else p->code = tsr__csv_file_read(file, to, p->got, step, &got);
  p->got += got;
  p->ended = got < step;
}

static tsr_status read_prefix(struct prefix *p, tsr__error *error)
{
  tsr__csv_file *file = p->file;
  while (p->got < p->want && !p->ended) {
    if (!tsr__parallel_long(file->csv->rt, "csv", 1, prefix_step, p))
      return tsr__cancelled(error, file->csv->path);
    if (p->error.status) return tsr__error_set(error, p->error.status, "%s", p->error.text);
    if (p->code) return tsr__file_error(file->path, "read", p->code, error);
    /* A plain file has a length that was promised; a packed one ends where it ends. */
    if (p->ended && !p->unpack) return tsr__file_shrunk(file->path, p->got, file->stored, error);
  }
  return tsr__csv_file_same(file, error);
}

/* Holds the first `want` bytes of a file's text, or all of it. */
static tsr_status hold_prefix(tsr__csv_file *file, int64_t want, tsr__error *error)
{
  struct prefix p = { .file = file, .want = want };
  tsr_status status = tsr__csv_file_open(file, error);
  if (status) return status;
  bool packed = file->packing != TSR__PLAIN;
  if (!packed && want > file->stored) p.want = file->stored;
  if (!tsr__csv_file_room(file, p.want, 0)) status = tsr__csv_no_memory(file->csv, error);
  if (!status && packed && !(p.unpack = tsr__csv_unpack(file)))
    status = tsr__csv_no_memory(file->csv, error);
  if (!status) status = read_prefix(&p, error);
  tsr__unpack_close(p.unpack);
  if (file->csv->file_count > 1) tsr__csv_file_close(file);
  if (status) {
    tsr__csv_file_drop(file);
    return status;
  }
  tsr__csv_file_done(file, p.got);
  file->partial = packed ? !p.ended : p.got < file->stored;
  /* Behind the last newline: what follows may be half a row. */
  if (file->partial) file->end = file->size; /* its last row need not end there */
  return TSR_OK;
}

/* ---- the rows of one file -------------------------------------------------------------------- */

/* How long a prefix holds `want` rows, where one of `size` bytes held some. */
static int64_t longer(const tsr__csv_file *file, int64_t want)
{
  /* A quarter more than the ratio says, since rows differ; not 64 times more at once, since the
   * first rows may be odd ones. */
  double more = file->rows > 0 ? 1.25 * (double)want / (double)file->rows : 4;
  return (int64_t)((double)file->size * (more < 2 ? 2 : more > 64 ? 64 : more));
}

/* Finds `want` rows at the beginning of a file, or all; false in `*fine`: it must be counted
 * whole. */
static tsr_status front_of(tsr__csv_file *file, int64_t want, bool *fine, tsr__error *error)
{
  const tsr__csv_opts *opts = &file->csv->opts;
  int64_t size = file->body + (opts->front > 0 ? opts->front : FRONT);
  if (file->partial) tsr__csv_file_drop(file);
  for (;;) {
    /* 64 MiB of a prefix is no longer a short reading: then all is counted. */
    *fine = size <= FRONT_MOST || file->data;
    if (!*fine) return TSR_OK;
    if (!file->data && hold_prefix(file, size, error)) return error->status;
    tsr_status status = tsr__csv_index(file, fine, error);
    /* Quotes in odd places make it not `fine`: rows are found from the beginning only. */
    if (status || !*fine || !file->partial || file->rows >= want) return status;
    size = longer(file, want);
    tsr__csv_file_drop(file);
  }
}

/* ---- the whole ------------------------------------------------------------------------------- */

void tsr__csv_front_drop(tsr__csv *csv)
{
  for (int f = 0; f < csv->file_count; f++)
    if (csv->files[f].partial) tsr__csv_file_drop(&csv->files[f]);
  csv->front = -1;
}

tsr_status tsr__csv_front(tsr__csv *csv, int64_t want, int64_t *rows, tsr__error *error)
{
  /* Text that comments or bad rows are taken out of has other rows than its prefix. */
  bool fine = csv->rows < 0 && !csv->opts.comment && !csv->opts.bad_rows;
  /* A longer front answers a shorter question. */
  if (csv->front >= want) {
    *rows = csv->front;
    return TSR_OK;
  }
  int64_t found = 0;
  csv->front = -1;
  for (int f = 0; f < csv->file_count && fine; f++) {
    tsr__csv_file *file = &csv->files[f];
    int64_t missing = want - found;
    file->first_row = found;
    /* Files behind the last row wanted are not opened. */
    if (missing <= 0) file->rows = 0;
    else if (front_of(file, missing, &fine, error)) break;
    found += file->rows;
  }
  if (error->status || !fine) tsr__csv_front_drop(csv);
  if (error->status) return error->status;
  if (!fine) return tsr__csv_count(csv, rows, error);
  csv->front = *rows = found;
  return TSR_OK;
}
