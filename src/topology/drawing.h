/* Inside topology/: a drawing, for its two forms.
 *
 * A column stands for each shard of the last dim, a row for each shard of the dim before it. Dims
 * before those two are drawn shard by shard, each under its ranges: a lead. A cell is one shard of
 * the array; cells count row-major: leads, then rows, then columns.
 *
 *     lead 0:  cell 0 | cell 1       lead 1:  cell 4 | cell 5       2 leads, 2 rows, 2 columns
 *              cell 2 | cell 3                cell 6 | cell 7
 */
#ifndef TSR_TOPOLOGY_DRAWING_H
#define TSR_TOPOLOGY_DRAWING_H

#include "topology/topology.h"

/* A device and the cell that it belongs to. Sorted, all devices of a cell stand together, the
 * lowest first.
 *
 *   cell 0: 0 1 | cell 1: 2 3 | ..       as many seats a cell, so cell c begins at c * so many
 */
typedef struct tsr__seat {
  int64_t cell;
  int device, position;
} tsr__seat;

/* The size of a column or row: in characters and lines, or in pixels. */
typedef struct tsr__track {
  int ideal; /* that its share of the array asks for */
  int size;  /* that it gets */
} tsr__track;

typedef struct tsr__drawing {
  tsr__text *out;
  const tsr_sharding *sharding; /* canonical */
  const tsr_shape *shape;
  tsr_draw_opts opts;
  const tsr__topology *topology; /* which kinds the devices are of */
  int64_t leads;                 /* shards of all dims before the last two */
  int rows, columns;
  tsr__seat *seats; /* sorted by cell, then device */
  tsr__track *row, *column;
  tsr__text label;  /* of the cell at hand */
  int64_t labelled; /* which that is; -1 before the first */
} tsr__drawing;

/* ---- the two forms: add the drawing to d->out (draw_text.c, draw_svg.c) ------------------- */

void tsr__draw_text(tsr__drawing *d);
void tsr__draw_svg(tsr__drawing *d);

/* ---- for both (drawing.c) ------------------------------------------------------------ */

/* The cell in a row and column of a lead. */
static inline int64_t tsr__drawn_cell(const tsr__drawing *d, int64_t lead, int row, int column)
{
  return (lead * d->rows + row) * d->columns + column;
}

/* The devices of a cell as text, "CPU 0,1" or "CPU 3 LATE 4,5": valid until the next call. */
const char *tsr__drawn_label(tsr__drawing *d, int64_t cell);
/* How much of a label goes on a line of `width` characters. */
int tsr__label_line(const char *label, int width);
int tsr__label_lines(const char *label, int width);
/* The widest piece of a label that cannot be wrapped. */
int tsr__label_least(const char *label);

/* The share of shard `index` of a dim in the whole dim; 1 for the missing dim -1. */
double tsr__drawn_share(const tsr__drawing *d, int dim, int64_t index);

/* Characters of height and width of the whole array. */
typedef struct tsr__extent {
  double height, width;
} tsr__extent;
tsr__extent tsr__drawn_extent(const tsr__drawing *d);

/* Adds "[0:2, :, 0:512]": the ranges that columns `first` to before `last` of a lead show. */
void tsr__draw_heading(tsr__drawing *d, int64_t lead, int first, int last);
/* Whether drawings have headings where `band` columns go side by side. */
bool tsr__has_headings(const tsr__drawing *d, int band);
/* Adds the ranges that the devices of a cell hold. */
void tsr__draw_ranges(tsr__drawing *d, int64_t cell);
/* Whether the shard of a cell has no elements. */
bool tsr__drawn_empty(const tsr__drawing *d, int64_t cell);

/* A background on which its text is read well. */
typedef struct tsr__colour {
  uint8_t back, text; /* of the 256 colours of terminals */
} tsr__colour;
tsr__colour tsr__drawn_colour(const tsr__drawing *d, int64_t lead, int row, int column);

#endif
