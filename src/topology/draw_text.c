/* A drawing as boxes of text.
 *
 *     ┌───────┬───────┐       a column for each shard of the last dim, a row for each shard of the
 *     │CPU 0,1│CPU 2,3│       dim before it; the devices of a shard are its label
 *     └───────┴───────┘
 *
 * Boxes have the proportions of the array, and are never smaller than their label. A line that
 * would become too long has narrower columns, in which labels wrap. If not even the longest number
 * fits, bands of columns stand one below the other. */
#include "topology/drawing.h"

/* The size of a box that asks for `size`, less two for padding, around a label of `length`. */
static int padded(double size, int length)
{
  int room = (int)size - length - 2;
  return room > 0 ? length + room : length;
}

/* Characters are some two and a half times as high as wide. */
static void measure_columns(tsr__drawing *d, double width)
{
  int dim = d->shape->rank - 1;
  for (int c = 0; c < d->columns; c++) {
    double size = (double)(int64_t)(tsr__drawn_share(d, dim, c) * width * 2.5);
    if (size < d->opts.min_width) size = d->opts.min_width;
    if (size > d->opts.max_width) size = d->opts.max_width;
    d->column[c].ideal = 0;
    /* A column is as wide as its widest label anywhere below each other, so that all boxes
     * align. */
    for (int64_t at = 0; at < d->leads * d->rows; at++) {
      int length = (int)strlen(tsr__drawn_label(d, at * d->columns + c));
      int own = padded(size, length) + 2 * d->opts.colour;
      if (own > d->column[c].ideal) d->column[c].ideal = own;
    }
  }
}

/* One line at least; colours have no rule between rows and get two more instead. */
static void measure_rows(tsr__drawing *d, double height)
{
  int rank = d->shape->rank;
  for (int r = 0; r < d->rows; r++) {
    double size = rank < 2 ? 1 : (double)(int)(tsr__drawn_share(d, rank - 2, r) * height);
    d->row[r].ideal = padded(size + 1, 1) + 2 * d->opts.colour;
  }
}

/* Makes columns `first` to before `last` fit a line: the widest column loses a character each time.
 * Returns false if they cannot fit, as no column becomes narrower than `least`. A single column is
 * drawn even if it is too wide for its line. */
static bool fit_columns(tsr__drawing *d, int first, int last, int least)
{
  /* Rules between columns take a character each; coloured cells have no rules. */
  int sum = d->opts.colour ? 0 : last - first + 1, top = first;
  if (sum + (int64_t)(last - first) * least > d->opts.width && last - first > 1) return false;
  for (int c = first; c < last; c++) {
    d->column[c].size = d->column[c].ideal;
    sum += d->column[c].size;
  }
  /* Of columns that are equally wide the last gives way first, so that even parts stay even but
   * for the last ones. */
  while (sum > d->opts.width) {
    for (int c = top = first; c < last; c++)
      if (d->column[c].size >= d->column[top].size) top = c;
    if (d->column[top].size <= least) break; /* a single one */
    d->column[top].size--;
    sum--;
  }
  return true;
}

/* ---- lines ------------------------------------------------------------------------------- */

static void put_spaces(tsr__drawing *d, int count)
{
  tsr__text_pad(d->out, ' ', count);
}

static void put_rule(tsr__drawing *d, int first, int last, const char *const ends[3])
{
  for (int c = first; c < last; c++) {
    tsr__text_add(d->out, "%s", c == first ? ends[0] : ends[1]);
    for (int i = 0; i < d->column[c].size; i++) tsr__text_add(d->out, "─");
  }
  tsr__text_add(d->out, "%s\n", ends[2]);
}

static void put_colour(tsr__drawing *d, tsr__colour colour)
{
  tsr__text_add(d->out, "\033[48;5;%dm\033[38;5;%dm", colour.back, colour.text);
}

/* Line `line` of a cell that is `height` lines high. */
static void put_cell_line(tsr__drawing *d, const char *label, int width, int height, int line)
{
  int top = (height - tsr__label_lines(label, width)) / 2, length = 0;
  /* Labels are wrapped anew for each line: they are short, and nothing is kept. */
  for (int i = top; i <= line && *label; i++) {
    label += length;
    length = tsr__label_line(label, width);
  }
  if (line < top) length = 0;
  int left = (width - length) / 2;
  put_spaces(d, left);
  tsr__text_put(d->out, label, (size_t)length);
  put_spaces(d, width - length - left);
}

/* As high as its share asks, or as the highest label that had to wrap. */
static int row_height(tsr__drawing *d, int64_t lead, int r, int first, int last)
{
  int height = d->row[r].ideal;
  for (int c = first; c < last; c++) {
    const char *label = tsr__drawn_label(d, tsr__drawn_cell(d, lead, r, c));
    int lines = tsr__label_lines(label, d->column[c].size);
    if (lines > height) height = lines;
  }
  return height;
}

static void put_row(tsr__drawing *d, int64_t lead, int r, int first, int last)
{
  int height = row_height(d, lead, r, first, last);
  for (int line = 0; line < height; line++) {
    for (int c = first; c < last; c++) {
      const char *label = tsr__drawn_label(d, tsr__drawn_cell(d, lead, r, c));
      if (d->opts.colour) put_colour(d, tsr__drawn_colour(d, lead, r, c));
      else tsr__text_add(d->out, "│");
      put_cell_line(d, label, d->column[c].size, height, line);
      if (d->opts.colour) tsr__text_add(d->out, "\033[0m");
    }
    tsr__text_add(d->out, d->opts.colour ? "\n" : "│\n");
  }
}

/* A box of the columns `first` to before `last`. */
static void put_box(tsr__drawing *d, int64_t lead, int first, int last)
{
  static const char *const top[3] = { "┌", "┬", "┐" }, *const between[3] = { "├", "┼", "┤" };
  static const char *const bottom[3] = { "└", "┴", "┘" };
  bool boxed = !d->opts.colour;
  if (boxed) put_rule(d, first, last, top);
  for (int r = 0; r < d->rows; r++) {
    if (boxed && r) put_rule(d, first, last, between);
    put_row(d, lead, r, first, last);
  }
  if (boxed) put_rule(d, first, last, bottom);
}

/* The narrowest that a column may be: that of the widest number. */
static int least_width(tsr__drawing *d)
{
  int least = 1;
  for (int64_t cell = 0; cell < d->leads * d->rows * d->columns; cell++) {
    int own = tsr__label_least(tsr__drawn_label(d, cell));
    if (own > least) least = own;
  }
  return least;
}

void tsr__draw_text(tsr__drawing *d)
{
  tsr__extent extent = tsr__drawn_extent(d);
  measure_columns(d, extent.width);
  measure_rows(d, extent.height);
  int least = least_width(d), band = d->columns;
  /* First all columns in one line; else as many to a band as fit when each is as narrow as can
   * be. A rule stands in front of each column, and one after the last. */
  if (!fit_columns(d, 0, band, least)) band = (d->opts.width - 1) / (least + !d->opts.colour);
  if (band < 1) band = 1;
  for (int64_t lead = 0; lead < d->leads; lead++)
    for (int first = 0; first < d->columns; first += band) {
      int last = first + band < d->columns ? first + band : d->columns;
      if (tsr__has_headings(d, band)) {
        tsr__draw_heading(d, lead, first, last);
        tsr__text_add(d->out, "\n");
      }
      fit_columns(d, first, last, least);
      put_box(d, lead, first, last);
    }
}
