/* Loads that go across an operand's lines: transposes.
 *
 *   domain      | a0 a1 a2 a3 ... |      neighbours of the domain are far apart in the operand, but
 *               | b0 b1 b2 b3 ... |      a0, b0, ... lie in one line of the cache
 *               | ...             |
 *
 * A line is read once: a block of as many rows of the domain as a line has elements, and of a
 * tile's columns, is turned into memory of the task's own, and rows are copied from there. So that
 * the block serves all of its rows, the tiles of a long-rowed domain are done block by block.
 *
 * Tiles begin at multiples of 64 elements (whole words of bools, whole lines of streamed results),
 * so that one may reach into the next row by up to 63 elements. */
#include "kernel/tile/interp.h"

enum {
  LINE = 64,             /* bytes */
  COLUMNS = TSR__TILE,   /* columns of a block */
  STEP = COLUMNS - 64,   /* between the blocks of a row: so the columns rounded up fit */
  LEAST = 64,            /* shorter rows are gathered */
  FAR = 256,             /* bytes; nearer neighbours stream well enough as they are */
  PITCH = COLUMNS + LINE /* elements between the rows of a block, at least: no two in one set */
};

#define NO_BLOCK INT64_MIN

/* Only an operand whose innermost dim is not the domain's last: its neighbours are the domain's far
 * ones. */
bool tsr__turn_may(const tsr__loadinfo *info, int rank)
{
  int inner = info->rank - 1;
  return info->input >= 0 && inner >= 0 && info->dims[inner].dim != rank - 1;
}

size_t tsr__turn_bytes(void)
{
  return (size_t)PITCH * LINE; /* for one-byte elements, which have the most rows */
}

/* How many elements lie in a line. Bools (size 0) never ask: they are gathered. */
static int64_t rows_of_block(const tsr__loading *l)
{
  return LINE / l->size;
}

/* Whether this load gains by blocks: rows of the domain lie one element apart in the operand,
 * either way, columns at least FAR bytes, and rows are long enough. */
static bool goes_across_lines(const tsr__loading *l)
{
  int last = l->walk.rank - 1;
  if (!l->block || l->size == 0 || l->empty || last < 1) return false;
  int64_t row = l->walk.step[last - 1], column = l->walk.step[last];
  if (column < 0) column = -column;
  return (row == 1 || row == -1) && column * l->size >= FAR && l->walk.size[last] >= LEAST;
}

/* Which loads of a kernel are turned, and the band they ask for: tiles of the whole kernel then
 * come block by block, so all turned loads must agree on the rows of the domain. A kernel whose
 * order counts keeps the order of elements. */
void tsr__turn_plan(tsr__task *task)
{
  tsr__band *band = &task->band;
  for (int i = 0; i < task->kernel->load_count; i++) {
    tsr__loading *l = &task->loads[i];
    int last = l->walk.rank - 1;
    l->turned = goes_across_lines(l);
    l->tiles = task->tiles;
    l->block_at = NO_BLOCK;
    /* A row that fits a block needs no other order of tiles: the block serves the rows as they
     * come. */
    if (!l->turned || l->walk.size[last] <= TSR__TILE) continue;
    if (!band->row && !task->kernel->ordered)
      *band = (tsr__band){ .row = l->walk.size[last], .count = l->walk.size[last - 1] };
    l->turned = band->row == l->walk.size[last] && band->count == l->walk.size[last - 1];
    if (l->turned && rows_of_block(l) > band->rows) band->rows = rows_of_block(l);
  }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

#define TURN(T)                                                                             \
  for (int64_t c = done; c < b->columns; c++) {                                             \
    const T *in = (const T *)b->from + b->offset + c * b->column_step;                      \
    T *out = (T *)b->to + c;                                                                \
    if (b->rows == LINE / (int64_t)sizeof(T) && b->row_step == 1)                           \
      for (int64_t r = 0; r < LINE / (int64_t)sizeof(T); r++) out[r * PITCH_OF(T)] = in[r]; \
    else                                                                                    \
      for (int64_t r = 0; r < b->rows; r++) out[r * PITCH_OF(T)] = in[r * b->row_step];     \
  }                                                                                         \
  break;

/* Elements between the rows of a block. */
#define PITCH_OF(T) (COLUMNS + LINE / (int64_t)sizeof(T))

typedef struct block {
  const void *from;
  void *to;
  int64_t offset, rows, columns, row_step, column_step;
} block;

/* Whole lines are turned in registers, as many of them as these take. */
static void turn_block(const block *b, const tsr__tiles *tiles, int64_t size)
{
  const tsr__turning lines = { .from = (const char *)b->from + b->offset * size,
                               .to = b->to,
                               .step = b->column_step,
                               .lines = b->columns,
                               .pitch = COLUMNS + LINE / size };
  int64_t done = b->rows == LINE / size && b->row_step == 1 ? tiles->turn(&lines, size) : 0;
  switch (size) {
  case 1: TURN(int8_t)
  case 2: TURN(int16_t)
  case 4: TURN(int32_t)
  default: TURN(int64_t)
  }
}

/* The part from `first` on of `count` that lies within bounds. Elements outside would be read
 * beyond the operand; the loading puts something else there. */
static int64_t clip(int64_t *first, int64_t count, int64_t low, int64_t high)
{
  int64_t end = *first + count < high ? *first + count : high;
  if (*first < low) *first = low;
  return end - *first;
}

/* Fills the block whose first element, were it within bounds, is at `at`. */
static void fill_turned_block(tsr__loading *l, const void *from, int64_t at, int64_t row,
                              int64_t column)
{
  int last = l->walk.rank - 1;
  int64_t first_row = row, first_column = column;
  block b = { .from = from, .row_step = l->walk.step[last - 1], .column_step = l->walk.step[last] };
  b.rows = clip(&first_row, rows_of_block(l), l->low[last - 1], l->high[last - 1]);
  b.columns = clip(&first_column, COLUMNS, l->low[last], l->high[last]);
  b.offset = at + (first_row - row) * b.row_step + (first_column - column) * b.column_step;
  /* The block keeps the clipped elements' places, so that a place in it does not depend on the
   * bounds. */
  int64_t pitch = COLUMNS + rows_of_block(l);
  b.to = l->block + ((first_row - row) * pitch + first_column - column) * l->size;
  turn_block(&b, l->tiles, l->size);
  l->block_at = at;
}

/* Copies the tile's elements that the block has: from t->column on to the end of the block. 0: the
 * block would have to be filled for a few elements at the start of the next row, and is not. */
int64_t tsr__turn_copy(tsr__loading *l, const tsr__turn *t)
{
  int last = l->walk.rank - 1;
  /* The block begins at a whole line of rows and a whole step of columns: at the same place
   * whichever row of it asks first. */
  int64_t row = t->row - t->row % rows_of_block(l);
  int64_t column = l->walk.size[last] <= COLUMNS ? 0 : t->column / STEP * STEP;
  int64_t at = t->offset - (t->row - row) * l->walk.step[last - 1] -
               (t->column - column) * l->walk.step[last];
  int64_t n = column + COLUMNS - t->column < t->n ? column + COLUMNS - t->column : t->n;
  bool end = l->walk.size[last] > COLUMNS && n < 64; /* the rest of the tile is in the next row */
  if (l->block_at != at && end) return 0;
  if (l->block_at != at) fill_turned_block(l, t->from, at, row, column);
  int64_t place = (t->row - row) * (COLUMNS + rows_of_block(l)) + t->column - column;
  memcpy(t->to, l->block + place * l->size, (size_t)(n * l->size));
  return n;
}

/* ---- the order of tiles ---------------------------------------------------------------------- */

/* Without a band tiles follow each other; with one the path starts after a finished band, so that
 * the first call of next_band_row() opens the first. */
tsr__path tsr__path_of(const tsr__task *task, int64_t from, int64_t to, int64_t tile)
{
  tsr__path p = { .band = task->band, .from = from, .to = to, .at = from, .tile = tile };
  if (!p.band.row) return p;
  p.tile = STEP;
  p.line = p.first = from / p.band.row;
  p.end = p.first; /* a finished band */
  p.column = p.band.row;
  return p;
}

/* The border of two tiles in a row. Neighbours compute the same border, rounded up to whole words:
 * no element is left out or done twice. */
static int64_t tile_border(const tsr__path *p, int64_t column)
{
  int64_t at = p->line * p->band.row + (column < p->band.row ? column : p->band.row);
  at = (at + 63) / 64 * 64;
  return at < p->from ? p->from : at > p->to ? p->to : at;
}

/* Goes to the next row of a block, the next block, the next band. False: no row is left. */
static bool next_band_row(tsr__path *p)
{
  if (++p->line < p->end) return true;
  p->column += p->tile;
  if (p->column >= p->band.row) {
    /* A band is over: the next begins after it, cut where the rows of a matrix end, or where the
     * task does. */
    p->column = 0;
    p->first = p->end;
    int64_t within = p->first % p->band.count, left = p->band.count - within;
    int64_t rows = p->band.rows - within % p->band.rows;
    p->end = p->first + (rows < left ? rows : left);
  }
  p->line = p->first;
  return p->first * p->band.row < p->to;
}

tsr__stop tsr__path_next(tsr__path *p)
{
  tsr__stop stop = { p->at, p->to - p->at < p->tile ? p->to - p->at : p->tile };
  if (!p->band.row) {
    p->at += stop.n;
    return stop;
  }
  /* Rows whose part of this task is empty are passed over. */
  do {
    if (!next_band_row(p)) return (tsr__stop){ p->to, 0 };
    stop.at = tile_border(p, p->column);
    stop.n = tile_border(p, p->column + p->tile) - stop.at;
  } while (stop.n <= 0);
  return stop;
}
