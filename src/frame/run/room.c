/* What a terminal needs at least, said before it reads or computes anything.
 *
 *   orders.csv --> sort --> join --> head     files: the columns to read, which stay
 *   items.csv ------------^                   sort: an order of rows, and columns in it, which stay
 *                                             join: a match a row, then the right side's columns
 *
 * Invariant: a lower bound. Rows that a condition may leave out count as none, a column whose type
 * may still change as the narrowest that it can become, and rows as if they lay where there is
 * room. So nothing is refused that would have fit; what only a step finds out it checks itself
 * (tsr__need_check). */
#include "frame/run/run.h"

typedef struct tsr__room {
  const tsr__bind *bind;
  int devices;
  bool loose;       /* a column's type may still change */
  int64_t held;     /* bytes that stay until the terminal's end */
  int64_t most;     /* at the worst moment ... */
  const char *step; /* ... which is this one's */
} needs;

/* `bytes` that a step takes for its time, and `stay` that it leaves. A moment's need on top of
 * what earlier steps left: like a stack, of which the highest point counts. */
static void add(needs *n, const char *step, int64_t bytes, int64_t stay)
{
  if (n->held + bytes > n->most) {
    n->most = n->held + bytes;
    n->step = step;
  }
  n->held += stay;
}

/* Of a loose column: text, of which there are codes, takes the least. A column that is still
 * loose may become text. */
static int64_t column_bytes(int type, int64_t rows, bool loose)
{
  tsr_dtype dtype = tsr__dtype_of_type(type);
  if (loose && tsr_dtype_size(dtype) > tsr_dtype_size(TSR_I32)) dtype = TSR_I32;
  return (int64_t)tsr__device_bytes(dtype, rows);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void add_file(needs *n, const tsr__visit *v)
{
  const tsr__source *source = v->df->source;
  const tsr__reader *reader = &source->reader;
  const tsr__read_column *column;
  int64_t reading = 0, stay = 0;
  int positions = tsr__positions(&source->sharding);
  /* Fronts are short; what is borrowed takes nothing. */
  if (v->front >= 0 || (reader->ops->borrow && positions == 1) || source->rows < 0) return;
  tsr_shape shape = { 1, { source->rows } };
  int count = reader->ops->columns(reader->file, &column);
  for (int i = 0; i < count; i++) {
    if (!v->need[i] || (v->told && v->told[i])) continue;
    if (tsr__scan_column(source, i, v->pushdown).values) continue;
    int type = v->df->schema.field[i].type;
    n->loose = n->loose || column[i].loose;
    for (int p = 0; p < positions; p++) {
      tsr_box box;
      tsr__box(&source->sharding, &shape, p, &box);
      /* Validity is read beside every column and dropped again if it says nothing. */
      reading +=
          column_bytes(type, box.size[0], false) + column_bytes(TSR_COL_BOOL, box.size[0], false);
      stay += column_bytes(type, box.size[0], column[i].loose);
    }
  }
  add(n, v->df->what, reading, stay);
}

/* ---- rows ------------------------------------------------------------------------------------ */

int64_t tsr__least_none(const tsr__visit *v)
{
  (void)v;
  return 0;
}

int64_t tsr__least_concat(const tsr__visit *v)
{
  int64_t sum = 0;
  for (int i = 0; i < v->df->part_count; i++) sum += v->part[i]->least;
  return sum;
}

int64_t tsr__least_join(const tsr__visit *v)
{
  return v->df->join->how == TSR_JOIN_LEFT ? v->parent->least : 0;
}

/* A filter may leave nothing, so behind one all counts are 0 unless a verb makes rows of its
 * own. */
static int64_t least_rows(const tsr__bind *bind, const tsr__visit *v)
{
  const tsr_frame *df = v->df;
  if (df->one_row) return 1;
  if (tsr__visit_is_there(bind, v)) return df->source->rows;
  tsr__rows rows = tsr__verb_of(df)->rows;
  int64_t from = v->parent ? v->parent->least : 0;
  if (rows == TSR__ROWS_SOURCE) return v->front < 0 && df->source->rows > 0 ? df->source->rows : 0;
  if (rows == TSR__ROWS_MOVES && df->count) return df->count < from ? df->count : from;
  return tsr__frame_same_count(df) ? from : tsr__verb_run_of(df)->least(v);
}

/* ---- breakers -------------------------------------------------------------------------------- */

/* Of the columns from `first` on that are to be made. */
static int64_t made_bytes(const needs *n, const tsr__visit *v, int first, int64_t rows)
{
  const tsr_frame *df = v->df;
  bool some = df->source && df->source->rows >= 0;
  int64_t bytes = 0;
  for (int i = first; i < df->schema.count; i++)
    if (v->need[i] && !(some && df->source->col[i].values))
      bytes += column_bytes(df->schema.field[i].type, rows, n->loose);
  return bytes;
}

/* On several devices the rows of one part may stay where they are. */
static int64_t moved_rows(const needs *n, const tsr__visit *v)
{
  int64_t largest = 0;
  int parts = 0;
  for (int i = 0; i < v->df->part_count; i++) {
    if (v->part[i]->least > largest) largest = v->part[i]->least;
    parts += v->part[i]->least > 0;
  }
  return n->devices > 1 || parts < 2 ? v->least - largest : v->least;
}

void tsr__room_none(needs *n, const tsr__visit *v)
{
  (void)n;
  (void)v;
}

/* Of the first rows only those are copied. */
void tsr__room_sort(needs *n, const tsr__visit *v)
{
  if (v->df->count) return;
  int64_t stay = made_bytes(n, v, 0, v->least);
  add(n, v->df->what, 4 * v->parent->least + stay, stay);
}

void tsr__room_concat(needs *n, const tsr__visit *v)
{
  int64_t stay = made_bytes(n, v, 0, moved_rows(n, v));
  add(n, v->df->what, stay, stay);
}

/* Left columns may be passed on; keys may be sent to where there is room. */
void tsr__room_join(needs *n, const tsr__visit *v)
{
  const tsr_frame *df = v->df;
  int64_t keys = 4 * v->parent->least + 12 * v->other->least;
  if (n->devices == 1) add(n, df->what, keys, 0);
  int64_t stay = made_bytes(n, v, df->schema.count - df->join->take_count, v->least);
  add(n, df->what, stay, stay);
}

/* Codes of the groups. */
void tsr__room_group(needs *n, const tsr__visit *v)
{
  if (n->devices == 1 && tsr__frame_by_rows(v->df)) add(n, v->df->what, 4 * v->parent->least, 0);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static tsr_status compare(const needs *n, tsr__error *error)
{
  const tsr_runtime *rt = n->bind->scope->rt;
  const tsr__devices *devices = tsr__devices_of(rt);
  int64_t held = 0, room = 0, limit = 0;
  for (int i = 0; i < devices->count; i++) {
    tsr_memory memory = devices->ops->memory(rt, devices->first + i);
    held += memory.now;
    if (__builtin_add_overflow(limit, memory.limit, &limit)) limit = INT64_MAX;
  }
  room = limit - held;
  /* All devices together: rows may lie anywhere. */
  if (n->most <= room) return TSR_OK;
  return tsr__error_set(
      error, TSR_ENOMEM,
      "%s needs at least %lld more bytes by its %s, and the devices hold %lld of "
      "the %lld that .memory_limit allows them; use more devices, fewer columns, or "
      "raise the limit",
      n->bind->what, (long long)n->most, n->step, (long long)held, (long long)limit);
}

tsr_status tsr__room_check(tsr__bind *bind)
{
  const tsr_runtime *rt = bind->scope->rt;
  /* Without a limit there is nothing to compare with; a stage is part of a terminal that was
   * checked. */
  if (!rt->opts.memory_limit || bind->stage || bind->plan) return TSR_OK;
  needs n = { .bind = bind, .devices = tsr__devices_of(rt)->count };
  for (tsr__visit *v = bind->visits; v; v = v->next) {
    if (!v->live) continue;
    bool file = v->df->kind == TSR__FRAME_FILE;
    /* A file that cannot be counted is told of when it is read, as without a limit: one that is
     * read before it may have an error of its own. */
    tsr__error later = { .status = TSR_OK };
    if (file && v->front < 0) (void)tsr__scan_count(v->df, &later);
    v->least = least_rows(bind, v);
    if (file) add_file(&n, v);
    else if (v->made && !tsr__visit_is_there(bind, v)) tsr__verb_run_of(v->df)->room(&n, v);
  }
  return compare(&n, &bind->error);
}
