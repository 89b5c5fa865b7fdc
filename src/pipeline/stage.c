/* Rooms of records, scans, and the small things that stages share. */
#include "pipeline/stage.h"

#include <math.h>

#include "base/events.h"

/* Of the columns of a room: functions of the program read elements there as what they are. */
enum { ALIGN = 64 };

/* Columns begin so whatever stands in front of them; `bytes` is far from overflow, as columns are
 * (tsr__column_check). */
static size_t aligned(size_t bytes)
{
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* data | slack | column 0: rows | column 2: rows | ...      of the columns that are wanted alone */
tsr_status tsr__room_open(tsr__room *room, const tsr_source *source, tsr__columns columns,
                          int64_t rows, tsr__error *error)
{
  size_t row = 1, used = 0;
  *room = (tsr__room){ .heap = &source->node.scope->rt->heap };
  for (int c = 0; c < source->column_count; c++)
    if (tsr__columns_have(&columns, c)) row += source->columns[c].bytes;
  /* A record that is larger than a room is a room of its own: one at a time always works. */
  room->rows = rows ? rows : TSR__ROOM / (int64_t)row;
  room->rows = room->rows < 1 ? 1 : room->rows > TSR__BLOCK ? TSR__BLOCK : room->rows;
  room->bytes = row * (size_t)room->rows + (size_t)(source->column_count + 1) * ALIGN;
  room->data = tsr__new_raw(room->heap, room->bytes);
  if (!room->data)
    return tsr__error_set(error, TSR_ENOMEM, "no memory for %zu bytes of records", room->bytes);
  /* The heap aligns small blocks less; `bytes` has room for this and for what each column is
   * rounded up. */
  char *first = room->data + (ALIGN - (uintptr_t)room->data % ALIGN) % ALIGN;
  for (int c = 0; c < source->column_count; c++) {
    if (!tsr__columns_have(&columns, c)) continue;
    room->cells[c] = (tsr__cell){ first + used, source->columns[c].bytes };
    used += aligned(source->columns[c].bytes * (size_t)room->rows);
  }
  return TSR_OK;
}

void tsr__room_close(tsr__room *room)
{
  tsr__del(room->heap, room->data, room->bytes);
  room->data = NULL;
}

tsr_status tsr__room_read(const tsr__room *room, const tsr_source *source, const tsr__ask_rows *ask,
                          const int64_t *at, tsr__error *error)
{
  tsr__ask_rows below = *ask;
  below.at = at;
  /* A room's rows are numbered from 0, wherever the records of the question go in the end. */
  below.place = NULL;
  below.cells = room->cells;
  return tsr__records_read(source, &below, error);
}

tsr_status tsr__scan_check(const tsr_source *source, tsr__error *error)
{
  if (!source->by_epoch) return TSR_OK;
  return tsr__error_set(error, TSR_EARG,
                        "the source is shuffled, so each epoch would give other records; shuffle "
                        "the result of this stage instead");
}

/* Scans ask as of epoch 0: what they look at does not depend on the epoch (tsr__scan_check), but
 * for fields that maps draw, of which what is found out is what the first epoch has. */
/* A scan that runs. */
typedef struct scanning {
  tsr__scan *scan;
  tsr__room room;
  tsr__unread_list bad;
} scanning;

/* Reads records one by one that could not be read together, and keeps what is bad. */
static tsr_status scan_each(scanning *s, const int64_t *at, int64_t count, tsr__error *error)
{
  const tsr__scan *scan = s->scan;
  for (int64_t i = 0; i < count && !error->status; i++) {
    tsr__ask_rows one = { .count = 1 };
    tsr__error cause = { 0 };
    if (!tsr__room_read(&s->room, scan->source, &one, &at[i], &cause))
      scan->fn(scan->user, &s->room, at[i], 1, error);
    else if (!tsr__records_bad(&cause)) *error = cause;
    else if (!tsr__unread_add(&s->bad, at[i], cause.status, cause.text))
      tsr__error_set(error, TSR_ENOMEM, "no memory for a list of bad records");
    else scan->bad(scan->user, at[i]);
  }
  return error->status;
}

/* A room of records. */
static tsr_status scan_some(scanning *s, int64_t first, int64_t count, tsr__error *error)
{
  const tsr__scan *scan = s->scan;
  int64_t at[TSR__BLOCK];
  tsr__ask_rows ask = { .count = count };
  tsr__error cause = { 0 };
  for (int64_t i = 0; i < count; i++) at[i] = first + i;
  /* Without columns nothing is read: who asks knows from shapes what the records say. */
  if (tsr__columns_none(&scan->columns) ||
      !tsr__room_read(&s->room, scan->source, &ask, at, &cause))
    return scan->fn(scan->user, &s->room, first, count, error);
  if (tsr__records_bad(&cause)) return scan_each(s, at, count, error);
  return *error = cause, error->status;
}

tsr_status tsr__scan_all(tsr__scan *scan, tsr__error *error)
{
  const tsr_source *source = scan->source;
  scanning s = { .scan = scan, .bad.heap = &source->node.scope->rt->heap };
  tsr__progress progress = { .rt = source->node.scope->rt,
                             .what = scan->what,
                             .total = source->count };
  if (tsr__room_open(&s.room, source, scan->columns, 0, error)) return error->status;
  for (int64_t first = 0, n; first < source->count && !error->status; first += n) {
    n = source->count - first < s.room.rows ? source->count - first : s.room.rows;
    scan_some(&s, first, n, error);
    if (!error->status && tsr__progress_stops(&progress, 0)) tsr__cancelled(error, scan->call);
  }
  tsr__room_close(&s.room);
  if (error->status) tsr__unread_free(&s.bad);
  else if (s.bad.count) {
    scan->source = tsr__unread_over(scan->source, &s.bad, scan->source->node.site);
    if (scan->source->inert) tsr__error_set(error, TSR_ENOMEM, "no memory for bad records");
  }
  return error->status;
}

void tsr__scan_ids(const tsr_source *source, int64_t first, int64_t count, int64_t *ids)
{
  int64_t at[TSR__BLOCK] = { 0 };
  for (int64_t i = 0; i < count; i++) at[i] = first + i;
  tsr__records_ids(source, 0, at, count, ids);
}

int64_t *tsr__numbers_new(tsr__heap *heap, int64_t count, tsr__error *error)
{
  /* One byte more: a list of nothing has an address, which is how it differs from none. */
  bool fits = count < INT64_MAX / 8;
  int64_t *numbers = fits ? tsr__new_raw(heap, (size_t)count * sizeof *numbers + 1) : NULL;
  if (!numbers)
    tsr__error_set(error, TSR_ENOMEM, "no memory for the positions of %lld records",
                   (long long)count);
  return numbers;
}

void tsr__numbers_free(tsr__heap *heap, int64_t *numbers, int64_t count)
{
  if (numbers) tsr__del(heap, numbers, (size_t)count * sizeof *numbers + 1);
}

/* The last of equal starts: of parts without records the one behind them has the position. */
int64_t tsr__numbers_find(const int64_t *start, int64_t count, int64_t at)
{
  int64_t low = 0, high = count - 1;
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (start[middle] <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

int tsr__field_find(const tsr_source *source, const char *name, tsr__error *error)
{
  tsr__known known = { .count = 0 };
  char hint[TSR__HINT];
  if (!name || !*name)
    return tsr__error_set(error, TSR_EARG, "the name of the field is NULL or empty; give a name"),
           -1;
  int c = tsr__column_find(source->columns, source->column_count, name);
  if (c >= 0) return c;
  for (int i = 0; i < source->column_count; i++)
    tsr__known_add(&known, source->columns[i].name, strlen(source->columns[i].name));
  tsr__error_set(error, TSR_EARG, "no field '%.80s'%s", name, tsr__known_hint(&known, name, hint));
  return -1;
}

int tsr__length_find(const tsr_source *source, const char *name)
{
  size_t length = strlen(name);
  /* By name, dtype and rank: a field of the program's that is called so is no length. */
  for (int c = 0; c < source->column_count; c++) {
    const tsr__column *column = &source->columns[c];
    if (!strncmp(column->name, name, length) && !strcmp(column->name + length, "_length") &&
        column->dtype == TSR_I64 && !column->shape.rank)
      return c;
  }
  return -1;
}

/* u64 above i64's: u64 alone      2.5: floats alone      2.0: whole numbers, too
 *
 * Whether a dtype has a number is asked before it is written, since casts would wrap or cut it. */
bool tsr__element_of(tsr_scalar given, tsr_dtype dtype, char value[8])
{
  tsr_scalar number = tsr__scalar_signed(given);
  double real = tsr__scalar_real(number);
  int64_t whole = number.kind == TSR_SCALAR_FLOAT && fabs(real) < 0x1p62 ? (int64_t)real : number.i;
  bool fits = number.kind <= TSR_SCALAR_FLOAT;
  if (number.kind == TSR_SCALAR_NONE) whole = 0, real = 0;
  if (tsr__dtype_is_real(dtype)) tsr__dtype_put_real(dtype, value, 0, real);
  else if (number.kind == TSR_SCALAR_UINT) fits = dtype == TSR_U64;
  else if (number.kind == TSR_SCALAR_FLOAT) fits = real == (double)whole;
  if (dtype == TSR_BOOL) fits = fits && (whole == 0 || whole == 1), value[0] = (char)whole;
  else if (tsr__dtype_integer(dtype)) {
    fits = fits && (number.kind == TSR_SCALAR_UINT || tsr__dtype_holds(dtype, whole));
    tsr__dtype_put_whole(dtype, value, 0, whole);
  }
  return fits;
}

void tsr__element_text(tsr_dtype dtype, const char *value, char text[32])
{
  if (dtype == TSR_BOOL) snprintf(text, 32, "%d", *value);
  else tsr__dtype_text(dtype, value, 0, text);
}

tsr_source *tsr__stage_refused(tsr_source *source, const char *call, const tsr__error *error,
                               const char *site)
{
  tsr_scope *scope = source ? tsr__scope_here(source->node.scope) : NULL;
  return tsr__records_refused(scope, site, call, error);
}

void tsr__stage_owns(tsr_source *stage)
{
  stage->extent = stage->count;
  stage->leaf = stage;
}
