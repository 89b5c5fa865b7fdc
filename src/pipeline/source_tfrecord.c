/* TFRecord files of tf.Example messages.
 *
 *   record   | length (8) | checksum of it (4) | message | checksum of it (4) |
 *
 * Numbers are little-endian, checksums CRC-32C, turned and with a constant added, as the format has
 * it. Lengths are read once, when the source is made, each compared with its checksum: a wrong one
 * loses its place for good. From then on a record is one reading at a known place; its message is
 * compared with its checksum each time and its features are copied straight to their cells. */
#include "io/file/crc32c.h"
#include "pipeline/example.h"
#include "pipeline/record_files.h"

enum { HEAD = 12, TAIL = 4 };

typedef struct tfrecord_source {
  tsr_source source;
  tsr__record_files files; /* `longest`: bytes of a record, with what is around the message */
  bool defaults, unchecked, cut;
  bool ragged[TSR__MAX_COLUMNS]; /* by column; its length is in the next */
} tfrecord_source;

/* As the format has it: checksums of bytes that hold checksums would be poor ones. */
static uint32_t masked(const void *data, size_t length)
{
  uint32_t crc = tsr__crc32c(0, data, length);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static uint64_t little(const unsigned char *from, int bytes)
{
  uint64_t number = 0;
  for (int i = 0; i < bytes; i++) number |= (uint64_t)from[i] << 8 * i;
  return number;
}

/* ---- the index ------------------------------------------------------------------------------- */

/* The length of the record at a place, compared with its checksum and with the file. */
static int64_t length_at(tsr__file_walk *w, int64_t at, tsr__error *error)
{
  const char *path = w->file->path;
  int64_t left = w->file->size - at;
  long long record = w->file->first + w->records, byte = at;
  if (left < HEAD + TAIL)
    return tsr__error_set(error, TSR_EPARSE, "%s: record %lld at byte %lld is cut off", path,
                          record, byte);
  const unsigned char *head = tsr__walk_look(w, at, HEAD, NULL, error);
  if (!head) return 0;
  /* Compared even with .unchecked: it says where the next record is, and a wrong one would make all
   * that follow noise. */
  uint64_t length = little(head, 8);
  if (masked(head, 8) != little(head + 8, 4))
    tsr__error_set(error, TSR_EPARSE,
                   "%s: record %lld at byte %lld: its length does not match its checksum; the file "
                   "is not a TFRecord file, or is damaged",
                   path, record, byte);
  /* A subtraction of what is known, so that no length can overflow. */
  else if (length > (uint64_t)(left - HEAD - TAIL))
    tsr__error_set(
        error, TSR_EPARSE,
        "%s: record %lld at byte %lld is cut off: it has %llu bytes, but only %lld are in the file",
        path, record, byte, (unsigned long long)length, (long long)(left - HEAD));
  return (int64_t)length;
}

/* A mark where each record begins, and one behind the last: a record's bytes are the distance to
 * the next mark. */
static tsr_status walk_tfrecord(tsr__file_walk *w, tsr__error *error)
{
  for (int64_t at = 0; at < w->file->size; w->records++) {
    int64_t bytes = length_at(w, at, error) + HEAD + TAIL;
    if (error->status || tsr__walk_mark(w, at, error)) return error->status;
    if (bytes > w->longest) w->longest = bytes;
    at += bytes;
  }
  return tsr__walk_mark(w, w->file->size, error);
}

static bool places_fit(const tsr__file_walk *w)
{
  const int64_t *marks = w->files->marks + w->file->mark;
  bool fit = tsr__record_places_fit(w);
  /* read_message takes HEAD and TAIL off what an index says. */
  for (int64_t i = 0; fit && i < w->records; i++) fit = marks[i + 1] - marks[i] >= HEAD + TAIL;
  return fit;
}

/* A length may begin as a packed file does; its checksum is another one then. */
static bool is_tfrecord(const unsigned char *head)
{
  return masked(head, 8) == little(head + 8, 4);
}

static const tsr__file_format tfrecord_format = { "tfrecord",          walk_tfrecord, places_fit,
                                                  TSR__PACKED_BY_HEAD, is_tfrecord,   NULL };

/* ---- reading --------------------------------------------------------------------------------- */

/* One record whole, compared with its checksum; the message lies HEAD bytes into the room. */
static tsr_status read_message(const tfrecord_source *t, int64_t record, unsigned char *room,
                               int64_t *length, tsr__error *error)
{
  tsr__record_place p = tsr__record_place_of(&t->files, record);
  *length = p.bytes - HEAD - TAIL;
  if (tsr__record_files_read(&t->files, p, room, error)) return error->status;
  if (!t->unchecked && masked(room + HEAD, (size_t)*length) != little(room + p.bytes - TAIL, 4))
    tsr__error_set(error, TSR_EPARSE, "its message does not match its checksum");
  return error->status;
}

static tsr_status read_record(const tfrecord_source *t, const tsr__ask_rows *ask, int64_t i,
                              unsigned char *room, tsr__error *error)
{
  const tsr_source *source = &t->source;
  tsr__example example = { .columns = source->columns,
                           .count = source->column_count,
                           .defaults = t->defaults,
                           .cut = t->cut };
  memcpy(example.ragged, t->ragged, sizeof example.ragged);
  /* A message is read whole even for one feature of it: its checksum is of all. */
  if (read_message(t, ask->at[i], room, &example.length, error)) return error->status;
  example.message = room + HEAD;
  for (int c = 0; c < source->column_count; c += 1 + t->ragged[c]) {
    example.to[c] = ask->cells[c].data ? tsr__cell_of(ask, c, i) : NULL;
    /* Somebody may ask for the length alone. */
    example.wanted[c] = example.to[c] || (t->ragged[c] && ask->cells[c + 1].data);
  }
  if (tsr__example_read(&example, error)) return error->status;
  for (int c = 0; c < source->column_count; c += 1 + t->ragged[c])
    if (t->ragged[c] && example.wanted[c]) tsr__ragged_end(source, ask, c, i, example.used[c]);
  return TSR_OK;
}

/* Names of features that a message has; one that cannot be read has none. */
static tsr_status look_for_features(const tsr_source *source, int64_t record, tsr__met *met,
                                    tsr__error *error)
{
  const tfrecord_source *t = (const tfrecord_source *)source;
  tsr__example example = { .columns = source->columns, .count = source->column_count };
  size_t bytes = (size_t)tsr__record_place_of(&t->files, record).bytes;
  unsigned char *room = tsr__new_raw(&source->node.scope->rt->heap, bytes + 1);
  if (!room) return tsr__error_set(error, TSR_ENOMEM, "no memory for a record of %zu bytes", bytes);
  example.message = room + HEAD;
  if (!read_message(t, record, room, &example.length, error))
    tsr__example_names(&example, met->field, &met->known, error);
  tsr__del(&source->node.scope->rt->heap, room, bytes + 1);
  return error->status;
}

/* The room is of the longest record of all, and one for the whole question. */
static tsr_status read_tfrecord(const tsr_source *source, const tsr__ask_rows *ask,
                                tsr__error *error)
{
  const tfrecord_source *t = (const tfrecord_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  size_t bytes = (size_t)t->files.longest + 1;
  unsigned char *room = tsr__new_raw(heap, bytes);
  if (!room) return tsr__error_set(error, TSR_ENOMEM, "no memory for a record of %zu bytes", bytes);
  for (int64_t i = 0; i < ask->count && !error->status; i++) {
    tsr__error cause = { 0 };
    if (read_record(t, ask, i, room, &cause))
      tsr__record_failed(&t->files, ask->at[i], &cause, error);
  }
  tsr__del(heap, room, bytes);
  return error->status;
}

static void about_tfrecord(const tsr_source *source, tsr__text *out)
{
  tsr__record_files_about(&((const tfrecord_source *)source)->files, out);
}

static void release_tfrecord(tsr_source *source)
{
  tsr__record_files_close(&((tfrecord_source *)source)->files);
}

static void where_tfrecord(const tsr_source *source, int64_t record, tsr__text *out)
{
  const tsr__record_files *files = &((const tfrecord_source *)source)->files;
  tsr__record_files_where(files, record, tsr__record_place_of(files, record).at, out);
}

static const tsr__records_ops tfrecord_ops = { "tfrecord",     read_tfrecord,    NULL,
                                               about_tfrecord, release_tfrecord, NULL,
                                               where_tfrecord };

/* The lists that a feature may be: floats, int64s, bytes. */
static bool is_feature(tsr_dtype dtype)
{
  static const tsr_dtype lists[] = { TSR_F32, TSR_I64, TSR_U8 };
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (lists[i] == dtype) return true;
  return false;
}

tsr_source *tsr_source_tfrecord_with(tsr_scope *scope, const char *path,
                                     const tsr_tfrecord_args *given, const char *site)
{
  const char *call = "tsr_source_tfrecord";
  tsr_tfrecord_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__asked made = { .count = 0 };
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error)) {
    if (!path) tsr__error_set(&error, TSR_EARG, "the path is NULL; give the path of a file");
    else tsr__asked_all(&made, &scope->arena, args.fields, args.ragged, &error);
  }
  for (int c = 0; c < made.count && !error.status; c += 1 + made.ragged[c])
    if (!is_feature(made.columns[c].dtype))
      tsr__error_set(&error, TSR_EDTYPE, "field %.80s is %s, expected f32, i64, or u8 for bytes",
                     made.columns[c].name, tsr_dtype_name(made.columns[c].dtype));
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  tsr__records_make make = { call, site,         &tfrecord_ops, sizeof(tfrecord_source),
                             0,    made.columns, made.count,    NULL,
                             0 };
  tsr_source *source = tsr__records_new(scope, &make);
  tfrecord_source *t = (tfrecord_source *)source;
  if (source->inert) return source;
  t->defaults = args.defaults;
  t->unchecked = args.unchecked;
  t->cut = args.cut;
  memcpy(t->ragged, made.ragged, sizeof t->ragged);
  tsr__record_files_ask ask = {
    scope, call, path, &tfrecord_format, args.index, NULL, args.unpack_limit
  };
  if (!tsr__record_files_open(&t->files, &ask, &error)) {
    source->extent = source->count = tsr__record_files_total(&t->files);
    if (!tsr__record_files_tell(&t->files, source, &error) && t->defaults)
      tsr__met_check(source, t->ragged, look_for_features, &error);
    if (!error.status) return source;
  }
  return tsr__records_refused(scope, site, call, &error);
}
