/* Several records as one, and one as several.
 *
 *   batch, rows 3                 [0 1 2] [3 4 5] [6 . .]     the last: short of `rows`
 *   batch, rows 3, stride 1       [0 1 2] [1 2 3] [2 3 4] ...
 *   batch, rows 2, files          [0 1] [2 .] | [3 4] [5 6]   start[f]: 0, 2, 4 of files 0, 3, 7
 *   unbatch                       0 1 2 3 4 5 6               start[k]: 0, 3, 6, 7
 *
 * Row j of record k is record k * stride + j below, so nothing is kept; of files by themselves it
 * is where each one's batches begin. Only where records say how many of their rows hold one does
 * unbatch read them all once. */
#include "pipeline/stage.h"

static const char rows_name[] = "rows";

typedef struct batch_source {
  tsr_source source;
  int64_t rows, stride;
  tsr_remainder remainder;
  int told;       /* the column that says how many rows hold a record; -1: none */
  int64_t *start; /* the first batch of each file below, and the end; NULL: all are one */
} batch_source;

/* ---- batch ----------------------------------------------------------------------------------- */

/* Some rows of records that were asked for, to be asked for below. */
typedef struct row_ask {
  const batch_source *b;
  const tsr__ask_rows *ask;
  tsr__cell cells[TSR__MAX_COLUMNS];
  int64_t at[TSR__BLOCK], place[TSR__BLOCK], count;
} row_ask;

/* Questions below are of a block at most, however many rows a record has: records are asked for in
 * as many as it takes, across their borders where their rows adjoin. */
static tsr_status flush_rows(row_ask *r, tsr__error *error)
{
  tsr__ask_rows below = *r->ask;
  below.at = r->at;
  below.place = r->place;
  below.count = r->count;
  below.cells = r->cells;
  r->count = 0;
  return tsr__records_read(r->b->source.children[0], &below, error);
}

/* The cells of record i as those of its rows; with `all`, of the rows of all records, which then
 * lie one behind the other. */
static void aim_rows(row_ask *r, int64_t i, bool all)
{
  const tsr_source *below = r->b->source.children[0];
  for (int c = 0; c < below->column_count; c++) {
    const tsr__cell *cell = &r->ask->cells[c];
    r->cells[c] = (tsr__cell){ cell->data, below->columns[c].bytes };
    if (cell->data && !all) r->cells[c].data = tsr__cell_of(r->ask, c, i);
  }
}

/* They do not where somebody put a record's cell into something wider, or asks for one at a time.
 * */
static bool rows_adjoin(const row_ask *r)
{
  const tsr_source *below = r->b->source.children[0];
  for (int c = 0; c < below->column_count; c++)
    if (r->ask->cells[c].data &&
        r->ask->cells[c].stride != (size_t)r->b->rows * below->columns[c].bytes)
      return false;
  return true;
}

/* Of padding: cells hold what an earlier batch left there. */
static void zero_row(const row_ask *r, int64_t place)
{
  const tsr_source *below = r->b->source.children[0];
  for (int c = 0; c < below->column_count; c++)
    if (r->cells[c].data)
      memset(r->cells[c].data + (size_t)place * r->cells[c].stride, 0, below->columns[c].bytes);
}

/* The first record of a batch; its file's records below are file .. file + count - 1. */
static int64_t first_of(const batch_source *b, int64_t at, int64_t *file, int64_t *count)
{
  const tsr_source *below = b->source.children[0];
  *file = 0;
  *count = below->count;
  if (!b->start) return at * b->stride;
  int64_t f = tsr__numbers_find(b->start, below->file_count, at);
  *file = below->files[f];
  *count = below->files[f + 1] - *file;
  return *file + (at - b->start[f]) * b->stride;
}

/* Rows of all records in one list, asked for a block at a time where they adjoin; `told` says
 * how many of them are records. */
static tsr_status read_batch(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const batch_source *b = (const batch_source *)source;
  row_ask r = { .b = b, .ask = ask };
  bool all = rows_adjoin(&r);
  for (int64_t i = 0; i < ask->count && !error->status; i++) {
    int64_t file, count, first = first_of(b, ask->at[i], &file, &count);
    int64_t left = file + count - first;
    if (!i || !all) aim_rows(&r, i, all);
    for (int64_t j = 0; j < b->rows && !error->status; j++) {
      int64_t place = all ? tsr__place_of(ask, i) * b->rows + j : j;
      if (j >= left && b->remainder == TSR_PAD_AND_MASK) {
        zero_row(&r, place);
        continue;
      }
      r.at[r.count] = j < left ? first + j : file + (first - file + j) % count;
      r.place[r.count++] = place;
      if (r.count == TSR__BLOCK) flush_rows(&r, error);
    }
    /* The next record's cells are others. */
    if (!all && !error->status) flush_rows(&r, error);
    if (b->told < 0 || !ask->cells[b->told].data) continue;
    int64_t rows = left < b->rows ? left : b->rows;
    memcpy(tsr__cell_of(ask, b->told, i), &rows, sizeof rows);
  }
  return error->status ? error->status : flush_rows(&r, error);
}

/* What decides the rows of a record; the number of rows is in the columns, too. */
static void about_batch(const tsr_source *source, tsr__text *out)
{
  static const char *const names[] = { "", ", drop", ", pad", ", wrap" };
  const batch_source *b = (const batch_source *)source;
  tsr__text_add(out, "%lld", (long long)b->rows);
  if (b->stride != b->rows) tsr__text_add(out, ", stride=%lld", (long long)b->stride);
  tsr__text_add(out, "%s", names[b->remainder]);
  const tsr_source *below = source->children[0];
  /* Equal numbers of records in other files would be other batches. */
  if (b->start)
    tsr__text_add(out, ", files %016llx",
                  (unsigned long long)tsr__hash(
                      below->files, ((size_t)below->file_count + 1) * sizeof *below->files, 0));
}

static const tsr__records_ops batch_ops = {
  "batch", read_batch, NULL, about_batch, NULL, NULL, NULL
};

/* How many records of so many rows there are. */
static int64_t count_batches(const tsr_batch_args *a, int64_t below, tsr__error *error)
{
  int64_t whole = below >= a->rows ? (below - a->rows) / a->stride + 1 : 0, all = whole;
  /* With strides below `rows` the last records may all have been in a whole window: then there is
   * none of the rest alone. */
  bool reached = !below || (whole && (whole - 1) * a->stride + a->rows >= below);
  if (!reached && whole * a->stride < below) all = whole + 1;
  if (all > whole && a->remainder == TSR_KEEP_SHORT)
    tsr__error_set(error, TSR_ESHAPE,
                   "%lld records fill no whole number of batches of %lld, and all batches must "
                   "have equal sizes; set .remainder to TSR_DROP, TSR_PAD_AND_MASK or TSR_WRAP",
                   (long long)below, (long long)a->rows);
  return a->remainder == TSR_DROP ? whole : all;
}

/* The same of each file by itself; NULL with the error set. */
static int64_t *start_batches(const tsr_batch_args *a, tsr__error *error)
{
  const tsr_source *source = a->source;
  int64_t files = source->file_count, *start;
  if (!source->files)
    return tsr__error_set(error, TSR_EARG,
                          ".files is set, but the source has no files; tsr_source_concat makes a "
                          "source of several files"),
           NULL;
  start = tsr__arena_new(&source->node.scope->arena, ((size_t)files + 1) * sizeof *start);
  if (!start)
    return tsr__error_set(error, TSR_ENOMEM, "no memory for the positions of %lld files",
                          (long long)files),
           NULL;
  for (int64_t f = 0; f < files && !error->status; f++)
    start[f + 1] = start[f] + count_batches(a, source->files[f + 1] - source->files[f], error);
  return start;
}

/* One dim more is checked by tsr__column_check, as a dim that is too many: it is not cut off here.
 * */
static int batch_columns(const tsr_batch_args *a, tsr__column *columns, tsr__error *error)
{
  const tsr_source *source = a->source;
  int count = source->column_count;
  for (int c = 0; c < count && !error->status; c++) {
    tsr_shape *shape = &columns[c].shape;
    columns[c] = source->columns[c];
    if (shape->rank < TSR_MAX_RANK)
      memmove(shape->dims + 1, shape->dims, (size_t)shape->rank * sizeof *shape->dims);
    shape->dims[0] = a->rows;
    shape->rank++;
    tsr__column_check(&columns[c], error);
  }
  if (error->status || a->remainder != TSR_PAD_AND_MASK) return count;
  if (tsr__column_find(columns, count, rows_name) >= 0)
    tsr__error_set(error, TSR_EARG,
                   "there is a field 'rows' already, but the stage needs that name for the number "
                   "of records per batch; rename the field with tsr_source_select");
  else if (count == TSR__MAX_COLUMNS)
    tsr__error_set(error, TSR_EARG, "more than %d fields", TSR__MAX_COLUMNS);
  else columns[count++] = (tsr__column){ .name = rows_name, .dtype = TSR_I64, .bytes = 8 };
  return count;
}

tsr_source *tsr_source_batch_with(const tsr_batch_args *given, const char *site)
{
  const char *call = "tsr_source_batch";
  const int64_t most = INT64_C(1) << 40;
  tsr_batch_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__column columns[TSR__MAX_COLUMNS];
  tsr_source *source = given ? given->source : NULL;
  int64_t count = 0, *start = NULL;
  int fields = 0;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error)) {
    if (!args.stride) args.stride = args.rows;
    if (args.rows < 1 || args.stride < 1 || args.rows > most || args.stride > most)
      tsr__error_set(&error, TSR_EARG,
                     ".rows is %lld and .stride is %lld, expected 1 or more for both",
                     (long long)args.rows, (long long)args.stride);
    else if ((unsigned)args.remainder > TSR_WRAP)
      tsr__error_set(&error, TSR_EARG, ".remainder is %d, expected a value of tsr_remainder",
                     (int)args.remainder);
    else if (args.files) start = start_batches(&args, &error);
    else count = count_batches(&args, source->count, &error);
    if (start) count = start[source->file_count];
    if (!error.status) fields = batch_columns(&args, columns, &error);
  }
  if (error.status) return tsr__stage_refused(source, call, &error, site);
  tsr__records_make make = { call,   site,    &batch_ops, sizeof(batch_source), count, columns,
                             fields, &source, 1 };
  tsr_source *made = tsr__records_new(tsr__records_scope(&source, 1), &make);
  if (made->inert) return made;
  batch_source *b = (batch_source *)made;
  b->rows = args.rows;
  b->stride = args.stride;
  b->remainder = args.remainder;
  b->told = fields > source->column_count ? source->column_count : -1;
  b->start = start;
  made->files = start;
  made->file_count = start ? source->file_count : 0;
  tsr__stage_owns(made);
  return made;
}

/* ---- unbatch --------------------------------------------------------------------------------- */

typedef struct unbatch_source {
  tsr_source source;
  int64_t rows;
  int64_t *start;             /* [records below + 1]; NULL: all rows hold a record */
  int from[TSR__MAX_COLUMNS]; /* by column: that of the source below */
} unbatch_source;

/* The record below of a position, and which of its rows. With counts the start of records tells, as
 * empty ones have none. */
static int64_t parent_of(const unbatch_source *u, int64_t at, int64_t *row)
{
  int64_t parent = at / u->rows;
  if (u->start) parent = tsr__numbers_find(u->start, u->source.children[0]->count, at);
  *row = at - (u->start ? u->start[parent] : parent * u->rows);
  return parent;
}

/* Deals rows of the records in the room out to the cells of records first .. end - 1. */
static void deal_rows(const unbatch_source *u, const tsr__ask_rows *ask, const tsr__room *room,
                      const int64_t *slot, const int64_t *row)
{
  for (int c = 0; c < u->source.column_count; c++) {
    size_t bytes = u->source.columns[c].bytes;
    const tsr__cell *from = &room->cells[u->from[c]];
    for (int64_t i = 0; ask->cells[c].data && i < ask->count; i++)
      memcpy(tsr__cell_of(ask, c, i),
             from->data + (size_t)slot[i] * from->stride + (size_t)row[i] * bytes, bytes);
  }
}

/* question   rows 4 5 6 7 of parents 1 1 2 2      room: parents 1, 2, once each, then dealt out
 *
 * Parents that follow each other are read once; a room full of them at a time. */
static tsr_status read_unbatch(const tsr_source *source, const tsr__ask_rows *ask,
                               tsr__error *error)
{
  const unbatch_source *u = (const unbatch_source *)source;
  tsr__room room;
  tsr__columns wanted = { { 0 } };
  for (int c = 0; c < source->column_count; c++)
    if (ask->cells[c].data) tsr__columns_add(&wanted, u->from[c]);
  if (tsr__room_open(&room, source->children[0], wanted, 0, error)) return error->status;
  for (int64_t first = 0, n; first < ask->count && !error->status; first += n) {
    int64_t at[TSR__BLOCK], slot[TSR__BLOCK], row[TSR__BLOCK], place[TSR__BLOCK];
    tsr__ask_rows below = *ask;
    below.count = 0;
    for (n = 0; first + n < ask->count; n++) {
      int64_t parent = parent_of(u, ask->at[first + n], &row[n]);
      if (!below.count || at[below.count - 1] != parent) {
        if (below.count == room.rows) break;
        at[below.count++] = parent;
      }
      slot[n] = below.count - 1;
      place[n] = tsr__place_of(ask, first + n);
    }
    if (tsr__room_read(&room, source->children[0], &below, at, error)) break;
    tsr__ask_rows some = *ask;
    some.place = place;
    some.count = n;
    deal_rows(u, &some, &room, slot, row);
  }
  tsr__room_close(&room);
  return error->status;
}

/* Parent's id times rows, so that ids stay where rows that hold nothing are left out. */
static void ids_unbatch(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                        int64_t *to)
{
  const unbatch_source *u = (const unbatch_source *)source;
  for (int64_t i = 0; i < count; i++) {
    int64_t row, id = parent_of(u, at[i], &row);
    tsr__records_ids(source->children[0], epoch, &id, 1, &id);
    to[i] = id * u->rows + row;
  }
}

static void about_unbatch(const tsr_source *source, tsr__text *out)
{
  tsr__text_add(out, "%lld", (long long)((const unbatch_source *)source)->rows);
}

static void release_unbatch(tsr_source *source)
{
  unbatch_source *u = (unbatch_source *)source;
  tsr__numbers_free(&source->node.scope->rt->heap, u->start, source->children[0]->count + 1);
}

static const tsr__records_ops unbatch_ops = { "unbatch",     read_unbatch,    ids_unbatch,
                                              about_unbatch, release_unbatch, NULL,
                                              NULL };

/* Rows that hold records, added up. */
typedef struct row_sum {
  int64_t *start, rows;
  int told;
} row_sum;

static tsr_status sum_rows(void *user, const tsr__room *room, int64_t first, int64_t count,
                           tsr__error *error)
{
  row_sum *s = user;
  for (int64_t i = 0; i < count && !error->status; i++) {
    int64_t rows;
    memcpy(&rows, room->cells[s->told].data + (size_t)i * room->cells[s->told].stride, sizeof rows);
    if (rows < 0 || rows > s->rows)
      tsr__error_set(error, TSR_EVALUE, "record %lld has %lld in field 'rows', expected 0 to %lld",
                     (long long)(first + i), (long long)rows, (long long)s->rows);
    s->start[first + i + 1] = s->start[first + i] + rows;
  }
  return error->status;
}

/* Columns of a row, and how many rows a record has; `told`: which column says how many hold one. */
static int row_columns(const tsr_source *source, tsr__column *columns, unbatch_source *like,
                       int *told, tsr__error *error)
{
  int count = 0;
  *told = -1;
  for (int c = 0; c < source->column_count && !error->status; c++) {
    const tsr__column *column = &source->columns[c];
    if (!strcmp(column->name, rows_name) && column->dtype == TSR_I64 && !column->shape.rank) {
      *told = c;
      continue;
    }
    int64_t rows = column->shape.rank ? column->shape.dims[0] : 0;
    if (rows < 1 || (count && rows != like->rows)) {
      tsr__error_set(error, TSR_ESHAPE,
                     "field %.80s has %lld rows, expected %lld as in the other fields: unbatch "
                     "reads the result of tsr_source_batch",
                     column->name, (long long)rows, (long long)(count ? like->rows : 1));
      break;
    }
    like->rows = rows;
    like->from[count] = c;
    columns[count] = *column;
    columns[count].shape.rank--;
    memmove(columns[count].shape.dims, column->shape.dims + 1,
            (size_t)columns[count].shape.rank * sizeof *column->shape.dims);
    tsr__column_check(&columns[count++], error);
  }
  if (!error->status && !count)
    tsr__error_set(error, TSR_ESHAPE, "the source has no field whose records have rows");
  return count;
}

/* One row, which is bad as the record is. */
static void sum_bad(void *user, int64_t record)
{
  int64_t *start = ((row_sum *)user)->start + record;
  start[1] = start[0] + 1;
}

/* `over` becomes what it is to stand over. */
static int64_t count_rows(tsr_source **over, unbatch_source *like, int told, const char *call,
                          tsr__error *error)
{
  const tsr_source *source = *over;
  if (source->extent > (INT64_C(1) << 61) / like->rows) {
    tsr__error_set(error, TSR_EARG, "%lld records of %lld rows, expected 2^61 rows at most",
                   (long long)source->extent, (long long)like->rows);
    return 0;
  }
  if (told < 0) return source->count * like->rows;
  row_sum sum = { .rows = like->rows, .told = told };
  tsr__scan scan = { *over, tsr__columns_one(told), call, "unbatch", sum_rows, &sum, sum_bad };
  if (tsr__scan_check(source, error)) return 0;
  sum.start = like->start =
      tsr__numbers_new(&source->node.scope->rt->heap, source->count + 1, error);
  if (!like->start) return 0;
  like->start[0] = 0;
  if (tsr__scan_all(&scan, error)) return 0;
  *over = scan.source;
  return like->start[source->count];
}

tsr_source *tsr_source_unbatch_at(tsr_source *source, const char *site)
{
  const char *call = "tsr_source_unbatch";
  tsr__error error = { 0 };
  tsr__column columns[TSR__MAX_COLUMNS];
  unbatch_source like = { 0 };
  tsr_source *over = source;
  int told;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  /* What was only put together is not copied to be taken apart. */
  const batch_source *b = (const batch_source *)source;
  /* Wrapped rows come twice, so they are not what lies below; those padded are cut off again. Of
   * files by themselves there are some of each. */
  if (source->ops == &batch_ops && b->stride == b->rows && b->remainder != TSR_WRAP && !b->start) {
    int64_t rows = source->count * b->rows, all = source->children[0]->count;
    return tsr_source_slice_at(source->children[0], TSR_RANGE(0, rows < all ? rows : all), site);
  }
  int fields = row_columns(source, columns, &like, &told, &error);
  int64_t count = error.status ? 0 : count_rows(&over, &like, told, call, &error);
  tsr__records_make make = { call,  site,    &unbatch_ops, sizeof(unbatch_source),
                             count, columns, fields,       &over,
                             1 };
  tsr_source *made = error.status ? tsr__stage_refused(source, call, &error, site)
                                  : tsr__records_new(tsr__records_scope(&source, 1), &make);
  if (made->inert) {
    tsr__numbers_free(&source->node.scope->rt->heap, like.start, source->count + 1);
    return made;
  }
  unbatch_source *u = (unbatch_source *)made;
  u->rows = like.rows;
  u->start = like.start;
  memcpy(u->from, like.from, sizeof u->from);
  made->extent = source->extent * like.rows;
  made->leaf = made;
  return made;
}
