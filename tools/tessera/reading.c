/* tessera pipeline: shows the fields of record files with the first records, and measures how fast
 * all records are read in batches.
 *
 * A record that cannot be read ends a pipeline, but the other records are wanted too: the failed
 * batch is read again, record by record, and a new pipeline starts after it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tool.h"

/* Source locations of this program would say nothing to its users. */
#undef TSR_HERE
#define TSR_HERE NULL

enum { SHOWN = 8, MOST_MESSAGES = 10, MOST_BAD = 1000, CELL = 240, TEXT = 40 };

/* A source, with the results of the sample and of the measurement. */
typedef struct figures {
  tsr_source *source;
  tsr_sharding on;
  int64_t batch_size, seconds; /* -1: one epoch */
  int threads;
  int64_t record_bytes, batches, records, bad;
  int64_t alone;                    /* good records that were read one by one */
  double opened, read, processors;  /* seconds */
  char message[MOST_MESSAGES][400]; /* of the first bad records */
  int fields, head;                 /* numbers of fields and records to show */
  char cell[TSR_MAX_FIELDS][SHOWN][CELL];
} figures;

static double now(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double processors(void)
{
  return now(CLOCK_PROCESS_CPUTIME_ID);
}

/* A scope for one attempt at reading: an error there is not the command's failure. */
static tsr_scope *attempt(tsr_scope *s)
{
  return tsr_scope_nest_at(s, TSR_HERE);
}

/* ---- a sample -------------------------------------------------------------------------------- */

/* Writes the first values of a field of each record as text. */
static void put_values(figures *f, int field, const void *values, tsr_dtype dtype, int64_t width)
{
  for (int r = 0; r < f->head; r++) {
    char *at = f->cell[field][r], *end = at + CELL;
    for (int64_t i = 0; i < width && end - at > 32; i++) {
      int64_t k = r * width + i;
      if (i) *at++ = ' ';
      if (dtype == TSR_I64) at += sprintf(at, "%" PRId64, ((const int64_t *)values)[k]);
      else if (dtype == TSR_U64) at += sprintf(at, "%" PRIu64, ((const uint64_t *)values)[k]);
      else at += sprintf(at, "%.6g", ((const double *)values)[k]);
    }
  }
}

static bool is_float(tsr_dtype dtype)
{
  return dtype == TSR_F64 || dtype == TSR_F32 || dtype == TSR_F16 || dtype == TSR_BF16;
}

/* Whether a field is ragged. */
static bool is_ragged(const figures *f, int field)
{
  char length[300];
  snprintf(length, sizeof length, "%s_length", tsr_source_field_of(f->source, field).name);
  for (int c = 0; c < f->fields; c++)
    if (!strcmp(tsr_source_field_of(f->source, c).name, length)) return true;
  return false;
}

/* Whether bytes are a text: no control characters but tabs and line ends. UTF-8 and the one-byte
 * encodings of older files both count. */
static bool is_text(const char *bytes, int64_t length)
{
  for (int64_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if ((c < 0x20 && !strchr("\t\r\n", c)) || c == 0 || c == 0x7F) return false;
  }
  return true;
}

/* Writes the beginning of a text in quotes, with line ends as blanks. Bytes that are not UTF-8, as
 * in Latin-1 texts, are written as "\xE9". */
static void put_text(const char *bytes, int64_t length, bool cut, char out[CELL])
{
  char *at = out, *end = out + CELL - 16;
  *at++ = '"';
  for (int64_t i = 0, n; i < length && at < end; i += n) {
    int size = tool_character(bytes + i, (size_t)(length - i));
    n = size ? size : 1;
    /* An incomplete last character of a cut text is left out. */
    if (!size && cut && length - i < 4) break;
    if (!size) at += sprintf(at, "\\x%02X", (unsigned char)bytes[i]);
    else if (strchr("\t\r\n", bytes[i])) *at++ = ' ';
    else memcpy(at, bytes + i, (size_t)n), at += n;
  }
  sprintf(at, "\"%s", cut ? " ..." : "");
}

/* Writes the texts of a ragged field of bytes; false: the field holds no texts. */
static bool sample_texts(figures *f, tsr_batch *b, int field)
{
  char bytes[SHOWN * TEXT], name[300];
  int64_t lengths[SHOWN];
  tsr_record_field column = tsr_source_field_of(f->source, field);
  if (column.dtype != TSR_U8 || column.shape.rank != 1 || !is_ragged(f, field)) return false;
  int64_t width = column.shape.dims[0] < TEXT ? column.shape.dims[0] : TEXT;
  tsr_array *x = tsr_slice(tsr_batch_field(b, column.name), TSR_ALL, TSR_RANGE(0, width));
  snprintf(name, sizeof name, "%s_length", column.name);
  if (tsr_read(x, bytes, (size_t)(f->head * width)) ||
      tsr_read(tsr_batch_field(b, name), lengths, (size_t)f->head * sizeof *lengths))
    return false;
  for (int r = 0; r < f->head; r++)
    if (!is_text(bytes + r * width, lengths[r] < width ? lengths[r] : width)) return false;
  for (int r = 0; r < f->head; r++)
    put_text(bytes + r * width, lengths[r] < width ? lengths[r] : width, lengths[r] > width,
             f->cell[field][r]);
  return true;
}

static void sample_field(figures *f, tsr_batch *b, int field)
{
  if (sample_texts(f, b, field)) return;
  union {
    int64_t i64[SHOWN * SHOWN];
    double f64[SHOWN * SHOWN];
  } values;
  tsr_record_field column = tsr_source_field_of(f->source, field);
  int64_t each = 1, shown;
  for (int d = 0; d < column.shape.rank; d++) each *= column.shape.dims[d];
  shown = each < SHOWN ? each : SHOWN;
  tsr_dtype dtype = is_float(column.dtype) ? TSR_F64 : column.dtype == TSR_U64 ? TSR_U64 : TSR_I64;
  tsr_array *x = tsr_reshape(tsr_batch_field(b, column.name), TSR_SHAPE(f->head, each));
  x = tsr_cast(tsr_slice(x, TSR_ALL, TSR_RANGE(0, shown)), dtype);
  if (!shown || tsr_read(x, &values, (size_t)(f->head * shown) * 8)) return;
  put_values(f, field, &values, dtype, shown);
  for (int r = 0; each > shown && r < f->head; r++) strcat(f->cell[field][r], " ...");
}

/* Fills the cells of the first records; no records are shown if they cannot be read. */
static void sample(figures *f, tsr_scope *outer)
{
  if (f->head > tsr_source_count(f->source)) f->head = (int)tsr_source_count(f->source);
  if (!f->head) return;
  tsr_scope *s = attempt(outer);
  tsr_pipeline *p = tsr_pipeline_open(f->source, .batch_size = f->head, .threads = -1);
  tsr_batch *b = tsr_pipeline_next(p);
  for (int c = 0; b && c < f->fields; c++) sample_field(f, b, c);
  tsr_batch_release(b);
  if (tsr_pipeline_close(p)) f->head = 0;
  tsr_scope_close(s);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads from a record on. Returns the record after the last batch; `status` is the pipeline's. */
static int64_t read_from(figures *f, tsr_scope *outer, int64_t first, tsr_status *status)
{
  tsr_scope *s = attempt(outer);
  tsr_source *rest = first ? tsr_source_skip(f->source, first) : f->source;
  double begin = now(CLOCK_MONOTONIC), cpu = processors(), end = begin + (double)f->seconds;
  int64_t at = first;
  tsr_pipeline *p =
      tsr_pipeline_open(rest, .batch_size = f->batch_size, .epochs = f->seconds > 0 ? -1 : 1,
                        .threads = f->threads, .on = f->on);
  for (tsr_batch *b; (b = tsr_pipeline_next(p));) {
    f->records += tsr_batch_count(b);
    f->batches++;
    /* After the first epoch no record is left to read. */
    at = tsr_batch_epoch(b) ? tsr_source_count(f->source) : at + tsr_batch_count(b);
    tsr_batch_release(b);
    if (f->seconds > 0 && now(CLOCK_MONOTONIC) >= end) break;
  }
  *status = tsr_pipeline_close(p);
  f->read += now(CLOCK_MONOTONIC) - begin;
  f->processors += processors() - cpu;
  tsr_scope_close(s);
  return at;
}

/* Whether a record cannot be read by itself, with the message. */
static bool is_bad(figures *f, tsr_scope *outer, int64_t record, char *message, size_t size)
{
  tsr_scope *s = attempt(outer);
  tsr_pipeline *p =
      tsr_pipeline_open(tsr_source_slice(f->source, TSR_RANGE(record, record + 1)), .threads = -1);
  tsr_batch_release(tsr_pipeline_next(p));
  bool bad = tsr_pipeline_close(p) != TSR_OK;
  char *words = tool_message_words(tool_message(s));
  snprintf(message, size, "%s", words ? words : "");
  free(words);
  tsr_scope_close(s);
  return bad;
}

/* Counts the bad records of a range, and keeps their first messages. */
static void find_bad(figures *f, tsr_scope *s, int64_t first, int64_t end)
{
  char message[sizeof f->message[0]];
  for (int64_t i = first; i < end; i++) {
    if (!is_bad(f, s, i, message, sizeof message)) {
      f->alone++;
      continue;
    }
    if (f->bad < MOST_MESSAGES) memcpy(f->message[f->bad], message, sizeof message);
    f->bad++;
  }
}

/* Reads one epoch, or for --seconds, and continues after a batch that cannot be read. */
static void read_all(figures *f, tsr_scope *s)
{
  int64_t count = tsr_source_count(f->source), at = 0;
  if (f->seconds == 0) return;
  while (at < count && f->bad < MOST_BAD && !tool_interrupted()) {
    tsr_status status;
    at = read_from(f, s, at, &status);
    if (status == TSR_OK || status == TSR_ECANCELLED) break;
    int64_t end = f->batch_size < count - at ? at + f->batch_size : count, before = f->bad;
    find_bad(f, s, at, end);
    /* Every record can be read by itself, so no record was the cause. */
    if (f->bad == before) snprintf(f->message[f->bad++], 99, "a batch could not be filled");
    at = end;
    f->seconds = -1;
  }
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Prints a table without its last line, the number of rows. */
static int put_table(const tool_args *args, tsr_scope *s, tsr_frame *df)
{
  int width = args->width >= 0 ? (int)(args->width < 100000 ? args->width : 0)
                               : tool_terminal_width(stdout);
  tsr_show_opts opts = { .size = sizeof opts,
                         .rows = -1,
                         .width = width ? width : -1,
                         .colour = tool_wants_colour(stdout) };
  const char *text = NULL;
  if (tsr_frame_text_into_at(df, &opts, &text, TSR_HERE)) return tool_fail(s);
  size_t length = strlen(text);
  if (length && text[length - 1] == '\n') length--;
  while (length && text[length - 1] != '\n') length--;
  tool_progress_end();
  fwrite(text, 1, length, stdout);
  return TOOL_OK;
}

/* "u8[8,8]"; "u8" for a scalar. */
static const char *type_text(tsr_record_field field, char out[160])
{
  tsr_type_text(field.dtype, field.shape, NULL, out, 160);
  if (!field.shape.rank) out[strcspn(out, "[")] = 0;
  return out;
}

static int64_t bytes_of(tsr_record_field field)
{
  int64_t bytes = (int64_t)tsr_dtype_size(field.dtype);
  for (int d = 0; d < field.shape.rank; d++) bytes *= field.shape.dims[d];
  return bytes;
}

static int show_fields(const tool_args *args, tsr_scope *s, const figures *f)
{
  char types[TSR_MAX_FIELDS][160], names[TSR_MAX_FIELDS][TOOL_NAME], title[32];
  char columns[40 + 32 * SHOWN] = "field, type, bytes";
  const char *name[TSR_MAX_FIELDS], *type[TSR_MAX_FIELDS], *cell[TSR_MAX_FIELDS];
  int64_t bytes[TSR_MAX_FIELDS];
  for (int c = 0; c < f->fields; c++) {
    tsr_record_field field = tsr_source_field_of(f->source, c);
    name[c] = tool_tame(field.name, names[c], sizeof names[c]);
    type[c] = type_text(field, types[c]);
    bytes[c] = bytes_of(field);
  }
  tsr_frame *df = tsr_frame_new(s, { "bytes", tsr_put(s, bytes, TSR_I64, TSR_SHAPE(f->fields),
                                                      (tsr_sharding){ 0 }) });
  df = tsr_frame_text_column(df, "field", name, f->fields);
  df = tsr_frame_text_column(df, "type", type, f->fields);
  for (int r = 0; r < f->head; r++) {
    snprintf(title, sizeof title, "record %d", r);
    for (int c = 0; c < f->fields; c++) cell[c] = f->cell[c][r];
    df = tsr_frame_text_column(df, title, cell, f->fields);
    snprintf(columns + strlen(columns), 32, ", \"record %d\"", r);
  }
  return put_table(args, s, tsr_frame_select(df, columns));
}

/* One row of the table of figures. */
typedef struct figure {
  const char *name;
  char value[200];
} figure;

static TSR_PRINTF(3, 4) void add_line(figure *out, const char *name, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  out->name = name;
  vsnprintf(out->value, sizeof out->value, format, args);
  va_end(args);
}

static int add_rates(const figures *f, figure *out)
{
  char size[32];
  int64_t records = f->records + f->alone;
  double rate = f->read > 0 ? (double)f->records / f->read : 0;
  tool_size_text((int64_t)(rate * (double)f->record_bytes), size);
  add_line(out++, "read", "%" PRId64 " records", records);
  add_line(out++, "seconds", "%.3f, %.3f of processors", f->read, f->processors);
  add_line(out++, "throughput", "%.0f records/s", rate);
  add_line(out++, "", "%s/s", size);
  add_line(out++, "bad records", "%" PRId64, f->bad);
  return 5;
}

static int show_figures(const tool_args *args, tsr_scope *s, const figures *f)
{
  figure lines[9];
  const char *names[9], *values[9];
  char size[32], all[32];
  int64_t count = tsr_source_count(f->source), index[9];
  int n = 0;
  tool_size_text(f->record_bytes, size);
  tool_size_text(f->record_bytes * count, all);
  add_line(&lines[n++], "records", "%" PRId64, count);
  add_line(&lines[n++], "size", "%s each, %s", size, all);
  add_line(&lines[n++], "batches", "%" PRId64 " of %" PRId64,
           count / f->batch_size + (count % f->batch_size > 0), f->batch_size);
  if (f->seconds) add_line(&lines[n++], "opened in", "%.3f s", f->opened);
  if (f->seconds) n += add_rates(f, lines + n);
  for (int i = 0; i < n; i++) names[i] = lines[i].name, values[i] = lines[i].value, index[i] = i;
  tsr_frame *df =
      tsr_frame_new(s, { "i", tsr_put(s, index, TSR_I64, TSR_SHAPE(n), (tsr_sharding){ 0 }) });
  df = tsr_frame_text_column(tsr_frame_text_column(df, "figure", names, n), "value", values, n);
  return put_table(args, s, tsr_frame_select(df, "figure, value"));
}

static int show(const tool_args *args, tsr_scope *s, const figures *f)
{
  char text[4000];
  printf("%s\n", tool_tame(tsr_source_text(f->source), text, sizeof text));
  int code = show_fields(args, s, f);
  if (code == TOOL_OK) code = show_figures(args, s, f);
  int64_t shown = f->bad < MOST_MESSAGES ? f->bad : MOST_MESSAGES;
  for (int64_t i = 0; i < shown; i++)
    printf("bad: %s\n", tool_tame(f->message[i], text, sizeof text));
  if (f->bad > shown) printf("bad: and %" PRId64 " more\n", f->bad - shown);
  if (f->bad >= MOST_BAD) printf("the remaining records were not read\n");
  return code;
}

static void put_json_field(const figures *f, int c)
{
  char type[160];
  tsr_record_field field = tsr_source_field_of(f->source, c);
  printf("%s\n  {\"name\": ", c ? "," : "");
  tool_put_json(field.name);
  printf(", \"type\": \"%s\", \"dtype\": \"%s\", \"shape\": [", type_text(field, type),
         tsr_dtype_name(field.dtype));
  for (int d = 0; d < field.shape.rank; d++)
    printf("%s%" PRId64, d ? ", " : "", field.shape.dims[d]);
  printf("], \"bytes\": %" PRId64 ", \"sample\": [", bytes_of(field));
  for (int r = 0; r < f->head; r++) {
    if (r) printf(", ");
    tool_put_json(f->cell[c][r]);
  }
  printf("]}");
}

static int show_json(const figures *f)
{
  double rate = f->read > 0 ? (double)f->records / f->read : 0;
  tool_progress_end();
  printf("{\"source\": ");
  tool_put_json(tsr_source_text(f->source));
  printf(", \"fields\": [");
  for (int c = 0; c < f->fields; c++) put_json_field(f, c);
  printf("],\n \"records\": %" PRId64 ", \"record_bytes\": %" PRId64 ", \"batch_size\": %" PRId64
         ", \"opened_seconds\": %.6f,\n \"read\": {\"records\": %" PRId64 ", \"batches\": %" PRId64
         ", \"seconds\": %.6f, \"records_per_second\": %.1f, \"bytes_per_second\": %.1f, "
         "\"processor_seconds\": %.6f},\n \"bad\": %" PRId64 ", \"bad_messages\": [",
         tsr_source_count(f->source), f->record_bytes, f->batch_size, f->opened,
         f->records + f->alone, f->batches, f->read, rate, rate * (double)f->record_bytes,
         f->processors, f->bad);
  for (int64_t i = 0; i < f->bad && i < MOST_MESSAGES; i++) {
    if (i) printf(", ");
    tool_put_json(f->message[i]);
  }
  printf("]}\n");
  return TOOL_OK;
}

int tool_pipeline(const tool_args *args)
{
  static figures f; /* too large for a stack */
  tsr_runtime *rt = tool_open(args);
  if (!rt) return TOOL_FAILED;
  tsr_scope *s = tsr_scope_open(rt);
  double begin = now(CLOCK_MONOTONIC);
  int code = TOOL_FAILED;
  f.source = tool_source(s, args);
  f.opened = now(CLOCK_MONOTONIC) - begin;
  if (f.source) {
    f.on = tsr_on(tsr_mesh_default(rt, "data"), "data");
    f.batch_size = args->batch > 0 ? args->batch : 256;
    f.seconds = args->seconds;
    f.threads = args->threads > 0 ? (int)args->threads : args->threads == 0 ? -1 : 0;
    f.head = args->head >= 0 ? (int)args->head : 1;
    int all = tsr_source_field_count(f.source);
    f.fields = all < TSR_MAX_FIELDS ? all : TSR_MAX_FIELDS;
    if (f.fields < all)
      fprintf(stderr,
              "tessera: note: the first %d of %d fields are shown; --fields selects others\n",
              f.fields, all);
    for (int c = 0; c < all; c++) f.record_bytes += bytes_of(tsr_source_field_of(f.source, c));
    sample(&f, s);
    read_all(&f, s);
    code = args->count[OPT_JSON] ? show_json(&f) : show(args, s, &f);
    if (f.bad) code = TOOL_FAILED;
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return code;
}
