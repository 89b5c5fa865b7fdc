/* The content of a drawing: cells, their devices, their shares and ranges of the array. */
#include "topology/drawing.h"

static const double MOST_WIDE = 1e12; /* characters, before any limit */

/* ---- labels ------------------------------------------------------------------------------ */

/* The first seat of a cell: all cells have as many. */
static const tsr__seat *seats_of(const tsr__drawing *d, int64_t cell, int *count)
{
  int64_t cells = d->leads * d->rows * d->columns;
  /* Axes that cut nothing are in every cell alike, so the quotient is whole and the same for
   * all. */
  *count = (int)(tsr__positions(d->sharding) / cells);
  return &d->seats[cell * *count];
}

/* Adds the name of a device's kind, in capitals. */
static void add_kind(tsr__drawing *d, int device)
{
  const tsr__topology *topology = d->topology;
  const char *at = topology ? topology->kinds[tsr__device_kind_of(topology, device)].name : "";
  for (; *at; at++)
    tsr__text_add(&d->label, "%c", *at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
}

/* Whether the kind of a cell's device is another than that of the device before it. */
static bool begins_kind(const tsr__drawing *d, const tsr__seat *at)
{
  const tsr__topology *topology = d->topology;
  return topology && tsr__device_kind_of(topology, at[0].device) !=
                         tsr__device_kind_of(topology, at[-1].device);
}

/* The label of the last cell is kept: measuring and drawing ask for one cell several times in a
 * row. */
const char *tsr__drawn_label(tsr__drawing *d, int64_t cell)
{
  int count;
  if (d->labelled == cell) return tsr__text_get(&d->label);
  d->labelled = cell;
  const tsr__seat *at = seats_of(d, cell, &count);
  d->label.length = 0;
  for (int i = 0; i < count; i++) {
    bool begins = !i || begins_kind(d, &at[i]);
    if (i) tsr__text_add(&d->label, begins ? " " : ",");
    if (begins) add_kind(d, at[i].device);
    tsr__text_add(&d->label, begins ? " %d" : "%d", at[i].device);
  }
  return tsr__text_get(&d->label);
}

/* Up to the last ',' that fits. A piece that is longer than the line is cut anywhere.
 *
 *   "CPU 0,1,2,3" in 8: "CPU 0,1," then "2,3"
 */
int tsr__label_line(const char *label, int width)
{
  int length = (int)strlen(label), cut = width;
  if (length <= width) return length;
  while (cut > 0 && label[cut - 1] != ',') cut--;
  return cut ? cut : width;
}

int tsr__label_lines(const char *label, int width)
{
  int lines = 0;
  for (; *label; lines++) label += tsr__label_line(label, width);
  return lines;
}

int tsr__label_least(const char *label)
{
  int least = 0, piece = 0;
  for (; *label; label++) {
    piece++;
    if (piece > least) least = piece;
    if (*label == ',') piece = 0;
  }
  return least;
}

/* ---- sizes ------------------------------------------------------------------------------- */

/* All shards are even where the size is 0 or known only at run time. */
double tsr__drawn_share(const tsr__drawing *d, int dim, int64_t index)
{
  int64_t parts = dim < 0 ? 1 : tsr__dim_parts(d->sharding, dim);
  int64_t size = dim < 0 ? 1 : d->shape->dims[dim];
  if (parts == 1 || size <= 0) return 1.0 / (double)parts;
  return (double)tsr__part_span(d->sharding, dim, size, index).length / (double)size;
}

tsr__extent tsr__drawn_extent(const tsr__drawing *d)
{
  int rank = d->shape->rank;
  double down = rank > 1 ? (double)d->shape->dims[rank - 2] : 1;
  double over = rank > 1 ? (double)d->shape->dims[rank - 1] : 1;
  /* Ten lines at scale 1; the width has the shape's ratio, as if characters were square. */
  double height = (double)(int)(10 * d->opts.scale);
  if (rank == 1 && d->shape->dims[0] > 1) down = (double)d->shape->dims[0];
  /* Kept in doubles and bounded: sizes of arrays are up to 2^63. */
  double wide = height * (over > 0 ? over : 1) / (down > 0 ? down : 1);
  return (tsr__extent){ height, wide < MOST_WIDE ? (double)(int64_t)wide : MOST_WIDE };
}

/* ---- ranges ------------------------------------------------------------------------------ */

/* The range of a dim from one position's start to another one's end. */
static void put_range(tsr__drawing *d, int dim, int from, int to)
{
  tsr__span low = tsr__dim_span(d->sharding, dim, d->shape->dims[dim], from);
  tsr__span high = tsr__dim_span(d->sharding, dim, d->shape->dims[dim], to);
  if (!tsr__dim_axes(d->sharding, dim)) tsr__text_add(d->out, ":");
  else
    tsr__text_add(d->out, "%lld:%lld", (long long)low.start, (long long)(high.start + high.length));
}

static int position_in(const tsr__drawing *d, int64_t cell)
{
  int count;
  return seats_of(d, cell, &count)->position;
}

void tsr__draw_heading(tsr__drawing *d, int64_t lead, int first, int last)
{
  int rank = d->shape->rank;
  int from = position_in(d, tsr__drawn_cell(d, lead, 0, first));
  int to = position_in(d, tsr__drawn_cell(d, lead, 0, last - 1));
  tsr__text_add(d->out, "[");
  for (int dim = 0; dim < rank; dim++) {
    tsr__text_add(d->out, "%s", dim ? ", " : "");
    /* All rows are there, and all columns unless a band shows some of them. */
    bool whole = dim == rank - 2 || (dim == rank - 1 && first == 0 && last == d->columns);
    if (whole) tsr__text_add(d->out, ":");
    else put_range(d, dim, from, to);
  }
  tsr__text_add(d->out, "]");
}

bool tsr__has_headings(const tsr__drawing *d, int band)
{
  return d->shape->rank > 2 || band < d->columns;
}

void tsr__draw_ranges(tsr__drawing *d, int64_t cell)
{
  int position = position_in(d, cell);
  tsr__text_add(d->out, "[");
  for (int dim = 0; dim < d->shape->rank; dim++) {
    tsr__text_add(d->out, "%s", dim ? ", " : "");
    put_range(d, dim, position, position);
  }
  tsr__text_add(d->out, "]");
}

bool tsr__drawn_empty(const tsr__drawing *d, int64_t cell)
{
  int position = position_in(d, cell);
  for (int dim = 0; dim < d->shape->rank; dim++)
    if (!tsr__dim_span(d->sharding, dim, d->shape->dims[dim], position).length) return true;
  return false;
}

/* ---- colours ----------------------------------------------------------------------------- */

/* Chosen to differ from their neighbours in the list. Rows are five colours apart, which is prime
 * to their number: cells below each other differ. */
tsr__colour tsr__drawn_colour(const tsr__drawing *d, int64_t lead, int row, int column)
{
  enum { COLOURS = 12, BLACK = 0, WHITE = 15 };
  static const tsr__colour colours[COLOURS] = {
    { 25, WHITE }, { 208, BLACK }, { 28, WHITE },  { 160, WHITE }, { 222, BLACK }, { 97, WHITE },
    { 37, BLACK }, { 94, WHITE },  { 205, BLACK }, { 67, WHITE },  { 142, BLACK }, { 244, BLACK },
  };
  return colours[(lead * d->rows * d->columns + column + 5 * row) % COLOURS];
}
