/* Lines of text files, as ragged fields.
 *
 *   | BOM | first line \n | second \r\n | last, without an end |
 *         m0              m1            m2                     m3
 *
 * What ends a line is no part of it: "\n", or "\r\n". A byte-order mark at the start of a file is
 * skipped. Neighbours that are asked for together are one reading. */
#include "base/utf8.h"
#include "pipeline/record_files.h"
#include "tessera/sources.h"

typedef struct lines_source {
  tsr_source source;
  tsr__record_files files;
  bool cut, utf8;
} lines_source;

/* ---- the index ------------------------------------------------------------------------------- */

/* Bytes of a line without its end. */
static int64_t bare(const char *line, int64_t bytes)
{
  if (!bytes || line[bytes - 1] != '\n') return bytes;
  bytes--;
  return bytes && line[bytes - 1] == '\r' ? bytes - 1 : bytes;
}

/* What a walk knows of the line that it is in, and the window that it sees. */
typedef struct line_walk {
  int64_t start; /* of the line */
  int64_t at, have;
  /* Ends of two bytes may lie across two windows. */
  bool returned; /* the byte before the window's is '\r' */
} line_walk;

/* All ends of lines in a window. */
static tsr_status walk_window(tsr__file_walk *w, line_walk *l, const unsigned char *window,
                              tsr__error *error)
{
  const unsigned char *from = window, *end = window + l->have, *found;
  while ((found = memchr(from, '\n', (size_t)(end - from)))) {
    int64_t stop = l->at + (found - window);
    bool returned = found > window ? found[-1] == '\r' : l->returned;
    /* An empty line has no byte that could be a '\r': the one before it ends the line before. */
    int64_t length = stop - l->start - (returned && stop > l->start);
    if (length > w->longest) w->longest = length;
    if (tsr__walk_mark(w, l->start, error)) return error->status;
    w->records++;
    l->start = stop + 1;
    from = found + 1;
  }
  l->returned = l->have && end[-1] == '\r';
  return TSR_OK;
}

static tsr_status walk_lines(tsr__file_walk *w, tsr__error *error)
{
  line_walk l = { 0 };
  int64_t size = w->file->size;
  if (size >= 3) {
    const unsigned char *first = tsr__walk_look(w, 0, 3, NULL, error);
    if (!first) return error->status;
    if (!memcmp(first, "\xEF\xBB\xBF", 3)) l.at = l.start = 3;
  }
  /* As far as the file went when it was opened: lines that are added meanwhile are no records. */
  for (; l.at < size; l.at += l.have) {
    const unsigned char *window = tsr__walk_look(w, l.at, 1, &l.have, error);
    if (!window) return error->status;
    if (l.have > size - l.at) l.have = size - l.at; /* the file grew meanwhile */
    if (walk_window(w, &l, window, error)) return error->status;
  }
  /* A last line without an end is a line; behind a last end there is none. */
  if (l.start < size) {
    if (size - l.start > w->longest) w->longest = size - l.start;
    if (tsr__walk_mark(w, l.start, error)) return error->status;
    w->records++;
  }
  return tsr__walk_mark(w, size, error);
}

/* Marks as of records one behind the other; with their ends lines may be two bytes longer. */
static bool lines_fit(const tsr__file_walk *w)
{
  tsr__file_walk ends = *w;
  if (w->longest > w->file->size) return false;
  ends.longest = w->longest + 2 < w->file->size ? w->longest + 2 : w->file->size;
  return tsr__record_places_fit(&ends);
}

static const tsr__file_format lines_format = { "lines",   walk_lines,
                                               lines_fit, TSR__PACKED_BY_HEAD,
                                               NULL,      "lines of text" };

/* ---- reading --------------------------------------------------------------------------------- */

static tsr_status check_utf8(const char *line, int64_t bytes, tsr__error *error)
{
  uint32_t letter;
  for (int64_t i = 0, n; i < bytes; i += n) {
    n = (int64_t)tsr__utf8_read(line + i, (size_t)(bytes - i), &letter);
    if (!n)
      return tsr__error_set(error, TSR_EPARSE, "byte %lld of the line is not UTF-8", (long long)i);
  }
  return TSR_OK;
}

/* A line with what ends it. */
static tsr_status take_line(const tsr__record_row *row, tsr__error *error)
{
  const lines_source *l = (const lines_source *)row->source;
  int64_t most = l->source.columns[0].shape.dims[0], length = bare(row->at, row->bytes);
  if (l->utf8 && check_utf8(row->at, length, error)) return error->status;
  if (length > most && !l->cut)
    return tsr__error_set(error, TSR_EVALUE,
                          "the line has %lld bytes, expected at most %lld (.longest); set .cut to "
                          "keep the first bytes",
                          (long long)length, (long long)most);
  if (length > most) length = most;
  if (row->ask->cells[0].data) memcpy(tsr__cell_of(row->ask, 0, row->i), row->at, (size_t)length);
  tsr__ragged_end(&l->source, row->ask, 0, row->i, length);
  return TSR_OK;
}

static tsr_status read_lines(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  static const tsr__record_taker taker = { take_line, false };
  return tsr__record_rows_read(&((const lines_source *)source)->files, source, ask, &taker, error);
}

static void about_lines(const tsr_source *source, tsr__text *out)
{
  const lines_source *l = (const lines_source *)source;
  tsr__record_files_about(&l->files, out);
  if (l->cut) tsr__text_add(out, ", cut");
}

static void release_lines(tsr_source *source)
{
  tsr__record_files_close(&((lines_source *)source)->files);
}

static void where_lines(const tsr_source *source, int64_t record, tsr__text *out)
{
  const tsr__record_files *files = &((const lines_source *)source)->files;
  tsr__record_files_where(files, record, tsr__record_place_of(files, record).at, out);
}

static const tsr__records_ops lines_ops = { "lines",       read_lines, NULL,       about_lines,
                                            release_lines, NULL,       where_lines };

/* ---- the call -------------------------------------------------------------------------------- */

static tsr_source *lines_of(tsr_scope *scope, const tsr__record_files *files,
                            const tsr_lines_args *args, const char *site)
{
  const char *call = "tsr_source_lines";
  tsr__error error = { 0 };
  tsr__column columns[2] = { { .name = "text", .dtype = TSR_U8 } };
  int64_t longest = args->longest ? args->longest : files->longest;
  if (tsr__ragged_columns(&scope->arena, columns, longest, &error))
    return tsr__records_refused(scope, site, call, &error);
  int64_t count = tsr__record_files_total(files);
  tsr__records_make make = { call, site, &lines_ops, sizeof(lines_source), count, columns,
                             2,    NULL, 0 };
  tsr_source *source = tsr__records_new(scope, &make);
  if (source->inert) return source;
  lines_source *l = (lines_source *)source;
  if (tsr__record_files_tell(files, source, &error))
    return tsr__records_refused(scope, site, call, &error);
  /* From here on the source closes them; before, the caller does. */
  l->files = *files;
  l->cut = args->cut;
  l->utf8 = args->utf8;
  return source;
}

tsr_source *tsr_source_lines_with(tsr_scope *scope, const char *path, const tsr_lines_args *given,
                                  const char *site)
{
  const char *call = "tsr_source_lines";
  tsr_lines_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__record_files files = { 0 };
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error))
    tsr__ragged_check(path, args.longest, &error);
  tsr__record_files_ask ask = {
    scope, call, path, &lines_format, args.index, NULL, args.unpack_limit
  };
  if (!error.status) tsr__record_files_open(&files, &ask, &error);
  tsr_source *source = error.status ? tsr__records_refused(scope, site, call, &error)
                                    : lines_of(scope, &files, &args, site);
  if (source->inert) tsr__record_files_close(&files);
  return source;
}
