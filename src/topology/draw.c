/* Shardings drawn: who holds which part of an array, as boxes of text.
 *
 *     ┌───────┬───────┐       a column for each part of the last dim, a row for each of the dim
 *     │CPU 0,1│CPU 2,3│       before it; a part's devices are its label. Dims before those two
 *     └───────┴───────┘       are drawn one part after the other, each under its range.
 *
 * Parts are as large as their share of the array, in the shape that it has, and never smaller than
 * their label. A line that would become too long is made of narrower columns, in which labels wrap,
 * and where not even the longest number fits, of bands of columns, one below the other. */
#include <stdlib.h>

#include "topology/topology.h"

/* More than these nobody reads, and time and text grow with them. */
enum { MOST_POSITIONS = 1 << 14, MOST_WIDTH = 10000, COLOURS = 12 };

static const double MOST_WIDE = 1e12; /* characters, before any limit */

/* A device and the cell that it belongs to. Sorted, all devices of a cell stand together, the
 * lowest first.
 *
 *   cell 0: 0 1 | cell 1: 2 3 | ..       as many seats a cell, so cell c begins at c * so many
 */
typedef struct seat {
  int64_t cell;
  int device;
} seat;

/* How a column or a row of parts is drawn. */
typedef struct track {
  int ideal; /* characters or lines that its share of the array asks for */
  int size;  /* that it gets */
} track;

typedef struct drawing {
  tsr__text *out;
  const tsr_sharding *sharding;
  const tsr_shape *shape;
  tsr_draw_opts opts;
  char kind[16]; /* "CPU " */
  int64_t leads; /* parts of all dims before the last two */
  int rows, columns;
  seat *seats; /* sorted by cell, then device */
  track *row, *column;
  tsr__text label;  /* of the cell at hand */
  int64_t labelled; /* which that is; -1 before the first */
} drawing;

/* ---- labels ------------------------------------------------------------------------------ */

static int by_cell(const void *a, const void *b)
{
  const seat *x = a, *y = b;
  if (x->cell != y->cell) return x->cell < y->cell ? -1 : 1;
  return (x->device > y->device) - (x->device < y->device);
}

static int64_t parts_of(const drawing *d, int dim)
{
  return dim < 0 ? 1 : tsr__dim_parts(d->sharding, dim);
}

/* The cell of a position: its place among the parts of all dims, row-major. */
static int64_t cell_of(const drawing *d, int position)
{
  int64_t cell = 0;
  /* Row-major over parts, so that cells count as they are drawn: leads, then rows, then columns. */
  for (int dim = 0; d->sharding->mesh && dim < d->shape->rank; dim++)
    cell = cell * parts_of(d, dim) + tsr__dim_index(d->sharding, dim, position);
  return cell;
}

/* By device within a cell, as labels list them in order. */
static void fill_seats(drawing *d, int count)
{
  for (int p = 0; p < count; p++)
    d->seats[p] = (seat){ cell_of(d, p), tsr__position_device(d->sharding, p) };
  qsort(d->seats, (size_t)count, sizeof *d->seats, by_cell);
}

/* The first seat of a cell: all cells have as many. */
static const seat *seats_of(const drawing *d, int64_t cell, int *count)
{
  int64_t cells = d->leads * d->rows * d->columns;
  /* Axes that cut nothing are in every cell alike, so the quotient is whole and the same for
   * all. */
  *count = (int)(tsr__positions(d->sharding) / cells);
  return &d->seats[cell * *count];
}

/* One label is kept: those who measure and those who draw ask for the same cell several times in
 * a row. */
static void make_label(drawing *d, int64_t cell)
{
  int count;
  if (d->labelled == cell) return;
  d->labelled = cell;
  const seat *at = seats_of(d, cell, &count);
  d->label.length = 0;
  tsr__text_add(&d->label, "%s", d->kind);
  for (int i = 0; i < count; i++) tsr__text_add(&d->label, "%s%d", i ? "," : "", at[i].device);
}

/* How much of a label goes on a line of `width`: up to the last ',' that fits. A piece that is
 * longer than the line is cut anywhere.
 *
 *   "CPU 0,1,2,3" in 8: "CPU 0,1," then "2,3"
 */
static int label_line(const char *label, int width)
{
  int length = (int)strlen(label), cut = width;
  if (length <= width) return length;
  while (cut > 0 && label[cut - 1] != ',') cut--;
  return cut ? cut : width;
}

static int label_lines(const char *label, int width)
{
  int lines = 0;
  for (; *label; lines++) label += label_line(label, width);
  return lines;
}

/* The widest piece of a label that cannot be wrapped. */
static int label_least(const char *label)
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

/* The share of part `index` of a dim in the whole. Axis by axis, as tsr__dim_span cuts, but by
 * the part's number: no position is at hand. A size that only the run knows, and nothing, are
 * shared out evenly. */
static double share_of(const drawing *d, int dim, int64_t index)
{
  int64_t parts = parts_of(d, dim), size = dim < 0 ? 1 : d->shape->dims[dim], share = size;
  if (parts == 1 || size <= 0) return 1.0 / (double)parts;
  for (int i = d->sharding->first[dim]; i < d->sharding->first[dim + 1]; i++) {
    int64_t own = d->sharding->mesh->sizes[d->sharding->axis[i]];
    parts /= own;
    share = share / own + (index / parts < share % own);
    index %= parts;
  }
  return (double)share / (double)size;
}

/* A part that asks for `size`, less the two that padding takes, about a label of `length`. */
static int padded(double size, int length)
{
  int room = (int)size - length - 2;
  return room > 0 ? length + room : length;
}

/* Characters of height and width of the whole array. */
static void base_sizes(const drawing *d, double *height, double *width)
{
  int rank = d->shape->rank;
  double down = rank > 1 ? (double)d->shape->dims[rank - 2] : 1;
  double over = rank > 1 ? (double)d->shape->dims[rank - 1] : 1;
  /* Ten lines at scale 1, and as wide as the shape's ratio asks. Characters are some two and a
   * half times as high as wide, which measure_columns allows for. */
  *height = (double)(int)(10 * d->opts.scale);
  if (rank == 1 && d->shape->dims[0] > 1) down = (double)d->shape->dims[0];
  /* Kept in doubles and bounded: sizes of arrays are up to 2^63. */
  double wide = *height * (over > 0 ? over : 1) / (down > 0 ? down : 1);
  *width = wide < MOST_WIDE ? (double)(int64_t)wide : MOST_WIDE;
}

static void measure_columns(drawing *d, double width)
{
  int dim = d->shape->rank - 1;
  for (int c = 0; c < d->columns; c++) {
    double size = (double)(int64_t)(share_of(d, dim, c) * width * 2.5);
    if (size < d->opts.min_width) size = d->opts.min_width;
    if (size > d->opts.max_width) size = d->opts.max_width;
    d->column[c].ideal = 0;
    /* A column is as wide as its widest label anywhere below each other, so that all boxes
     * align. */
    for (int64_t at = 0; at < d->leads * d->rows; at++) {
      make_label(d, at * d->columns + c);
      int own = padded(size, (int)d->label.length) + 2 * d->opts.colour;
      if (own > d->column[c].ideal) d->column[c].ideal = own;
    }
  }
}

/* One line at least; colours have no rule between rows and get two more instead. */
static void measure_rows(drawing *d, double height)
{
  int rank = d->shape->rank;
  for (int r = 0; r < d->rows; r++) {
    double size = rank < 2 ? 1 : (double)(int)(share_of(d, rank - 2, r) * height);
    d->row[r].ideal = padded(size + 1, 1) + 2 * d->opts.colour;
  }
}

/* Columns `first` to before `last` made to fit a line, the widest one narrower each time; false
 * where they cannot, as no column becomes narrower than `least`. A single column may be too wide
 * for its line: it is drawn all the same. */
static bool fit_columns(drawing *d, int first, int last, int least)
{
  /* Rules between columns take a character each; colours need none. */
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

static void put_spaces(drawing *d, int count)
{
  tsr__text_pad(d->out, ' ', count);
}

static void put_rule(drawing *d, int first, int last, const char *const ends[3])
{
  for (int c = first; c < last; c++) {
    tsr__text_add(d->out, "%s", c == first ? ends[0] : ends[1]);
    for (int i = 0; i < d->column[c].size; i++) tsr__text_add(d->out, "─");
  }
  tsr__text_add(d->out, "%s\n", ends[2]);
}

/* Backgrounds of 256 colours, on which black (0) or white (15) is read well. Chosen to differ from
 * their neighbours in the list; put_row says which numbers meet. */
static void put_colour(drawing *d, int64_t number)
{
  static const uint8_t back[COLOURS] = { 25, 208, 28, 160, 222, 97, 37, 94, 205, 67, 142, 244 };
  static const uint8_t text[COLOURS] = { 15, 0, 15, 15, 0, 15, 0, 15, 0, 15, 0, 0 };
  tsr__text_add(d->out, "\033[48;5;%dm\033[38;5;%dm", back[number % COLOURS],
                text[number % COLOURS]);
}

/* Line `line` of the cell at hand, whose label begins at line `top`. */
static void put_cell_line(drawing *d, int width, int line, int top)
{
  const char *label = tsr__text_get(&d->label);
  int length = 0;
  /* Labels are wrapped anew for each line: they are short, and nothing is kept. */
  for (int i = top; i <= line && *label; i++) {
    label += length;
    length = label_line(label, width);
  }
  if (line < top) length = 0;
  int left = (width - length) / 2;
  put_spaces(d, left);
  tsr__text_put(d->out, label, (size_t)length);
  put_spaces(d, width - length - left);
}

/* As high as its share asks, or as the highest label that had to wrap. */
static int row_height(drawing *d, int64_t lead, int r, int first, int last)
{
  int height = d->row[r].ideal;
  for (int c = first; c < last; c++) {
    make_label(d, (lead * d->rows + r) * d->columns + c);
    int lines = label_lines(tsr__text_get(&d->label), d->column[c].size);
    if (lines > height) height = lines;
  }
  return height;
}

static void put_row(drawing *d, int64_t lead, int r, int first, int last)
{
  int height = row_height(d, lead, r, first, last);
  for (int line = 0; line < height; line++) {
    for (int c = first; c < last; c++) {
      make_label(d, (lead * d->rows + r) * d->columns + c);
      int top = (height - label_lines(tsr__text_get(&d->label), d->column[c].size)) / 2;
      /* Rows are five colours apart, which is prime to 12: cells below each other differ. */
      if (d->opts.colour) put_colour(d, lead * d->rows * d->columns + c + 5 * r);
      else tsr__text_add(d->out, "│");
      put_cell_line(d, d->column[c].size, line, top);
      if (d->opts.colour) tsr__text_add(d->out, "\033[0m");
    }
    tsr__text_add(d->out, d->opts.colour ? "\n" : "│\n");
  }
}

/* The range of a dim that part `index` of it covers. */
static void put_range(drawing *d, int dim, int position)
{
  tsr__span span = tsr__dim_span(d->sharding, dim, d->shape->dims[dim], position);
  if (!tsr__dim_axes(d->sharding, dim)) tsr__text_add(d->out, ":");
  else
    tsr__text_add(d->out, "%lld:%lld", (long long)span.start,
                  (long long)(span.start + span.length));
}

/* Some position in a cell. Through the positions and not by arithmetic: it is asked twice a
 * heading. */
static int position_in(const drawing *d, int64_t cell)
{
  int position = 0;
  /* Every cell has one, so the search ends. */
  while (d->sharding->mesh && cell_of(d, position) != cell) position++;
  return position;
}

/* "[0:2, :, 0:512]": which part of the array a drawing shows. */
static void put_heading(drawing *d, int64_t lead, int first, int last)
{
  int rank = d->shape->rank;
  int64_t base = lead * d->rows * d->columns;
  /* A band shows some columns: its range is from the first one's start to the last one's end. */
  int from = position_in(d, base + first), to = position_in(d, base + last - 1);
  tsr__text_add(d->out, "[");
  for (int dim = 0; dim < rank; dim++) {
    tsr__text_add(d->out, "%s", dim ? ", " : "");
    if (dim < rank - 2) put_range(d, dim, from);
    else if (dim < rank - 1 || (first == 0 && last == d->columns)) tsr__text_add(d->out, ":");
    else {
      tsr__span low = tsr__dim_span(d->sharding, dim, d->shape->dims[dim], from);
      tsr__span high = tsr__dim_span(d->sharding, dim, d->shape->dims[dim], to);
      tsr__text_add(d->out, "%lld:%lld", (long long)low.start,
                    (long long)(high.start + high.length));
    }
  }
  tsr__text_add(d->out, "]\n");
}

/* A box of the columns `first` to before `last`. */
static void put_box(drawing *d, int64_t lead, int first, int last)
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
static int least_width(drawing *d)
{
  int least = 1;
  for (int64_t cell = 0; cell < d->leads * d->rows * d->columns; cell++) {
    make_label(d, cell);
    int own = label_least(tsr__text_get(&d->label));
    if (own > least) least = own;
  }
  return least;
}

static void put_all(drawing *d)
{
  int least = least_width(d), band = d->columns;
  /* First all columns in one line; else as many to a band as fit when each is as narrow as can
   * be. A rule stands in front of each column, and one behind the last. */
  if (!fit_columns(d, 0, band, least)) band = (d->opts.width - 1) / (least + !d->opts.colour);
  if (band < 1) band = 1;
  for (int64_t lead = 0; lead < d->leads; lead++)
    for (int first = 0; first < d->columns; first += band) {
      int last = first + band < d->columns ? first + band : d->columns;
      if (d->shape->rank > 2 || band < d->columns) put_heading(d, lead, first, last);
      fit_columns(d, first, last, least);
      put_box(d, lead, first, last);
    }
}

/* ---- the calls --------------------------------------------------------------------------- */

static tsr_status check_opts(const tsr_draw_opts *opts, tsr__error *error)
{
  /* Written so that NaN fails, too. */
  if (!(opts->scale >= 0 && opts->scale <= 100)) {
    char scale[32];
    tsr__text_f64(scale, opts->scale);
    return tsr__error_set(error, TSR_EARG, ".scale is %s, expected 0 (the default, 1) to 100",
                          scale);
  }
  /* All three within the same bounds. */
  int least = opts->width < opts->min_width ? opts->width : opts->min_width;
  int most = opts->width > opts->min_width ? opts->width : opts->min_width;
  if (opts->max_width < least) least = opts->max_width;
  if (opts->max_width > most) most = opts->max_width;
  if (least >= 0 && most <= MOST_WIDTH) return TSR_OK;
  return tsr__error_set(error, TSR_EARG, ".width is %d characters, expected 0 (the default) to %d",
                        least < 0 ? least : most, (int)MOST_WIDTH);
}

static void default_opts(tsr_draw_opts *opts)
{
  if (opts->scale == 0) opts->scale = 1;
  if (!opts->min_width) opts->min_width = 9;
  if (!opts->max_width) opts->max_width = 80;
  if (!opts->width) opts->width = 80;
}

/* What is drawn must have parts to draw, and not too many of them. */
static tsr_status check_drawn(const tsr_scope *scope, const tsr_sharding *sharding,
                              const tsr_shape *shape, tsr__error *error)
{
  if (tsr__shape_check(shape, error) || tsr__sharding_check_form(sharding, shape, error))
    return error->status;
  if (sharding->mesh && sharding->mesh->rt != scope->rt)
    return tsr__error_set(
        error, TSR_EAXIS,
        "the mesh %s belongs to another runtime; make the mesh with the runtime of the scope",
        tsr_mesh_text(sharding->mesh));
  if (tsr__positions(sharding) <= MOST_POSITIONS) return TSR_OK;
  return tsr__error_set(
      error, TSR_EARG,
      "mesh %s has %d devices, expected at most %d for a drawing; draw a smaller mesh",
      tsr_mesh_text(sharding->mesh), tsr__positions(sharding), (int)MOST_POSITIONS);
}

static void name_kind(drawing *d, const tsr_scope *scope)
{
  const tsr__topology *topology = tsr__topology_of(scope->rt);
  size_t n = 0;
  /* In capitals, and a blank behind it: there is room for that. */
  for (const char *at = topology ? topology->kind : ""; *at && n + 2 < sizeof d->kind; at++)
    d->kind[n++] = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
  d->kind[n] = ' ';
}

/* Tells whether there was memory. */
static bool draw(drawing *d, tsr__heap *heap)
{
  int rank = d->shape->rank, count = tsr__positions(d->sharding);
  d->columns = (int)parts_of(d, rank - 1);
  d->rows = (int)parts_of(d, rank - 2);
  d->leads = 1;
  for (int dim = 0; dim < rank - 2; dim++) d->leads *= parts_of(d, dim);
  size_t seats = (size_t)count * sizeof *d->seats;
  size_t tracks = (size_t)(d->rows + d->columns) * sizeof *d->row;
  /* The label is a text of its own, freed only where it was begun. */
  d->seats = tsr__new(heap, seats);
  d->row = tsr__new(heap, tracks);
  if (d->seats && d->row) {
    double height, width;
    d->column = d->row + d->rows;
    tsr__text_init(&d->label, heap);
    fill_seats(d, count);
    base_sizes(d, &height, &width);
    measure_columns(d, width);
    measure_rows(d, height);
    put_all(d);
    tsr__text_free(&d->label);
  }
  bool whole = d->seats && d->row && !d->label.failed && !d->out->failed;
  if (d->seats) tsr__del(heap, d->seats, seats);
  if (d->row) tsr__del(heap, d->row, tracks);
  return whole;
}

/* A checked sharding as text in a scope's arena; NULL out of memory. */
static const char *drawn(tsr_scope *scope, drawing *d, const tsr_sharding *sharding)
{
  tsr__text text;
  /* Axes of size 1 cut nothing, and would only make cells' numbers longer. */
  tsr_sharding canon = tsr__sharding_canon(sharding);
  const char *out = NULL;

  tsr__text_init(&text, &scope->rt->heap);
  default_opts(&d->opts);
  name_kind(d, scope);
  d->out = &text;
  d->sharding = &canon;
  d->labelled = -1;
  if (draw(d, &scope->rt->heap))
    out = tsr__arena_text(&scope->arena, tsr__text_get(&text), text.length);
  tsr__text_free(&text);
  return out;
}

const char *tsr_visualize_sharding_with(tsr_scope *scope, tsr_sharding sharding, tsr_shape shape,
                                        const tsr_draw_opts *opts, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  drawing d = { .shape = &shape, .opts = { .size = sizeof d.opts } };

  if (!scope || scope->inert || scope->rt->error.status) return tsr_message(scope);
  if (opts) tsr__take_opts("tsr_visualize_sharding", opts, &d.opts, sizeof d.opts, &error);
  if (!error.status && !check_opts(&d.opts, &error)) check_drawn(scope, &sharding, &shape, &error);
  const char *text = error.status ? NULL : drawn(scope, &d, &sharding);
  if (text) return text;
  tsr__error_set(&error, TSR_ENOMEM, "no memory for a drawing");
  tsr__fail(scope, site, error.status, "tsr_visualize_sharding: %s", error.text);
  return tsr_message(scope);
}
