/* A drawing in SVG: the shards of draw_text.c, to the pixel.
 *
 *     ┌──────────┐┌──────────┐    an area for each shard, with its devices in it and its ranges
 *     │ CPU 0,1  ││ CPU 2,3  │    as the area's title; bands and headings are those of text
 *     └──────────┘└──────────┘
 *
 * Areas are in proportion to their shards wherever labels leave room for that. All numbers are
 * whole pixels, so that a drawing is the same bytes everywhere. */
#include <stdio.h>

#include "topology/drawing.h"

enum {
  CHARACTER = 8, /* of a monospaced font of 13 pixels */
  LINE = 20,     /* as high as two and a half characters are wide */
  BASELINE = 15, /* of a line's text, from its top */
  PADDING = 12,  /* beside a label, with half the gap on either side */
  GAP = 2        /* between areas */
};

typedef struct picture {
  tsr__drawing *d;
  int least;         /* the narrowest that a column may be */
  int width, height; /* pixels that areas and headings take so far */
} picture;

static int pixels(int characters)
{
  return characters * CHARACTER + PADDING;
}

/* A border may have been rounded by a pixel. */
static int characters_in(int width)
{
  return (width + 1 - PADDING) / CHARACTER;
}

static int larger(int a, int b)
{
  return a > b ? a : b;
}

static double column_share(const tsr__drawing *d, int c)
{
  return tsr__drawn_share(d, d->shape->rank - 1, c);
}

static double row_share(const tsr__drawing *d, int r)
{
  return tsr__drawn_share(d, d->shape->rank < 2 ? -1 : d->shape->rank - 2, r);
}

/* ---- sizes ------------------------------------------------------------------------------- */

/* Each column asks for the width of its labels. None is narrower than the longest piece. */
static void ask_widths(picture *p)
{
  tsr__drawing *d = p->d;
  int piece = 1;
  for (int c = 0; c < d->columns; c++) {
    int length = d->opts.min_width;
    for (int64_t at = 0; at < d->leads * d->rows; at++) {
      const char *label = tsr__drawn_label(d, at * d->columns + c);
      piece = larger(piece, tsr__label_least(label));
      length = larger(length, (int)strlen(label));
    }
    d->column[c].ideal = pixels(length < d->opts.max_width ? length : d->opts.max_width);
  }
  p->least = pixels(piece);
}

/* Returns the width of all columns of the array together at which the columns of a band that are
 * not settled yet (size 0) are as wide as they ask, and take no more than `room`. */
static double whole_width(const tsr__drawing *d, int first, int last, int room)
{
  double whole = tsr__drawn_extent(d).width * LINE, shares = 0, largest = 0;
  for (int c = first; c < last; c++) {
    double share = column_share(d, c);
    if (d->column[c].size) continue;
    shares += share;
    if (share > largest) largest = share;
    if (whole * share < d->column[c].ideal) whole = d->column[c].ideal / share;
  }
  double most = pixels(d->opts.max_width);
  if (whole * largest > most) whole = most / largest;
  return whole * shares > room ? room / shares : whole;
}

/* Widens columns that are narrower than the least width, and tells whether it found such columns.
 * If not, all other columns get their share, border by border, so that no error adds up. */
static bool settle_widths(picture *p, int first, int last, double whole)
{
  tsr__drawing *d = p->d;
  double shares = 0;
  bool narrow = false;
  for (int c = first; c < last; c++) {
    if (d->column[c].size) continue;
    if (whole * column_share(d, c) < p->least) d->column[c].size = p->least, narrow = true;
  }
  for (int c = first, from = 0; !narrow && c < last; c++) {
    if (d->column[c].size) continue;
    shares += column_share(d, c);
    int to = (int)(whole * shares + 0.5);
    d->column[c].size = to - from;
    from = to;
  }
  return narrow;
}

/* Empty shards have no share: their columns are as wide as their labels where there is room. */
static void fit_widths(picture *p, int first, int last)
{
  tsr__drawing *d = p->d;
  int room, line = larger(d->opts.width * CHARACTER, p->least);
  for (int c = first; c < last; c++) {
    bool fits = d->column[c].ideal <= line / (last - first), empty = column_share(d, c) <= 0;
    d->column[c].size = !empty ? 0 : fits ? d->column[c].ideal : p->least;
  }
  do {
    room = line;
    for (int c = first; c < last; c++) room -= d->column[c].size;
  } while (settle_widths(p, first, last, whole_width(d, first, last, room)));
}

/* Rows are as high as their share asks, or as their labels need in columns of these widths. */
static void fit_heights(picture *p, int64_t lead, int first, int last)
{
  tsr__drawing *d = p->d;
  double whole = d->shape->rank < 2 ? 2 * LINE : tsr__drawn_extent(d).height * LINE, shares = 0;
  for (int r = 0; r < d->rows; r++) {
    int lines = 1;
    for (int c = first; c < last; c++) {
      const char *label = tsr__drawn_label(d, tsr__drawn_cell(d, lead, r, c));
      lines = larger(lines, tsr__label_lines(label, characters_in(d->column[c].size)));
    }
    d->row[r].ideal = lines * LINE + 2 * GAP;
    double share = row_share(d, r);
    if (share > 0 && whole * share < d->row[r].ideal) whole = d->row[r].ideal / share;
  }
  for (int r = 0, from = 0; r < d->rows; r++) {
    shares += row_share(d, r);
    int to = (int)(whole * shares + 0.5);
    d->row[r].size = larger(to - from, d->row[r].ideal);
    from = to;
  }
}

/* ---- elements ---------------------------------------------------------------------------- */

/* One of the 256 colours of terminals, 16 and above: a cube of six steps a channel, then greys. */
static unsigned rgb_of(int number)
{
  static const unsigned steps[6] = { 0, 95, 135, 175, 215, 255 };
  int at = number - 16;
  if (number >= 232) return (unsigned)(8 + 10 * (number - 232)) * 0x10101;
  return steps[at / 36] << 16 | steps[at / 6 % 6] << 8 | steps[at % 6];
}

/* A rectangle of the picture. Rectangles of a box adjoin; half the gap of each stays free inside:
 *
 *     x          x + width
 *     |  [area]  |  [area]  |
 */
typedef struct area {
  int x, y, width, height;
} area;

/* Lines of a label stand in the middle of their area, one element of text for each line: SVG wraps
 * no text. */
static void add_label(tsr__drawing *d, const char *label, const area *at, const char *ink)
{
  int width = characters_in(at->width), lines = tsr__label_lines(label, width);
  int y = at->y + (at->height - lines * LINE) / 2 + BASELINE;
  for (; *label; y += LINE) {
    int length = tsr__label_line(label, width);
    tsr__text_add(d->out, "<text x=\"%d\" y=\"%d\"%s>", at->x + at->width / 2, y, ink);
    tsr__text_put(d->out, label, (size_t)length);
    tsr__text_add(d->out, "</text>");
    label += length;
  }
}

/* A group, so that the ranges are the title of both the area and its label. Empty shards have no
 * colour: an outline shows devices without elements. */
static void add_shard(tsr__drawing *d, int64_t cell, tsr__colour colour, const area *at)
{
  char back[32] = " class=\"empty\"", ink[32] = " class=\"ink\"";
  if (!tsr__drawn_empty(d, cell)) {
    snprintf(back, sizeof back, " fill=\"#%06x\"", rgb_of(colour.back));
    snprintf(ink, sizeof ink, " fill=\"#%s\"", colour.text ? "fff" : "000");
  }
  tsr__text_add(d->out, "<g><title>");
  tsr__draw_ranges(d, cell);
  tsr__text_add(d->out, "</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\"%s/>",
                at->x + GAP / 2, at->y + GAP / 2, at->width - GAP, at->height - GAP, back);
  add_label(d, tsr__drawn_label(d, cell), at, ink);
  tsr__text_add(d->out, "</g>\n");
}

/* A heading that is wider than its boxes widens the picture. */
static void add_heading(picture *p, int64_t lead, int first, int last)
{
  tsr__text_add(p->d->out, "<text class=\"ink\" text-anchor=\"start\" x=\"%d\" y=\"%d\">", GAP / 2,
                p->height + BASELINE);
  size_t before = p->d->out->length;
  tsr__draw_heading(p->d, lead, first, last);
  p->width = larger(p->width, pixels((int)(p->d->out->length - before)));
  tsr__text_add(p->d->out, "</text>\n");
  p->height += LINE;
}

/* The columns `first` to before `last` of a lead, all rows, from the height on that is reached. */
static void add_box(picture *p, int64_t lead, int first, int last)
{
  tsr__drawing *d = p->d;
  for (int r = 0; r < d->rows; r++) {
    area at = { 0, p->height, 0, d->row[r].size };
    for (int c = first; c < last; c++) {
      at.width = d->column[c].size;
      add_shard(d, tsr__drawn_cell(d, lead, r, c), tsr__drawn_colour(d, lead, r, c), &at);
      at.x += at.width;
    }
    p->width = larger(p->width, at.x);
    p->height += d->row[r].size;
  }
}

static void add_boxes(picture *p)
{
  tsr__drawing *d = p->d;
  /* As many columns side by side as fit when each is as narrow as can be. */
  int band = larger(d->opts.width * CHARACTER / p->least, 1);
  if (band > d->columns) band = d->columns;
  for (int64_t lead = 0; lead < d->leads; lead++)
    for (int first = 0; first < d->columns; first += band) {
      int last = first + band < d->columns ? first + band : d->columns;
      if (p->height) p->height += LINE / 2;
      if (tsr__has_headings(d, band)) add_heading(p, lead, first, last);
      fit_widths(p, first, last);
      fit_heights(p, lead, first, last);
      add_box(p, lead, first, last);
    }
}

/* ---- the file ---------------------------------------------------------------------------- */

/* "[8,8]@(x,y) on mesh x=4,y=2". Nothing is escaped: names of axes are letters, digits and '_'. */
static void add_title(const tsr__drawing *d)
{
  const tsr_mesh *mesh = d->sharding->mesh;
  tsr__text_add(d->out, "<title>");
  tsr__type_add(d->out, 0, d->shape, d->sharding);
  tsr__text_add(d->out, " on %s%s</title>\n", mesh ? "mesh " : "one device",
                mesh ? tsr_mesh_text(mesh) : "");
}

/* Text outside of coloured areas is dark on light pages and light on dark pages. */
static const char style[] =
    "<style>.ink{fill:#24292f}.empty{fill:none;stroke:#808080;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){.ink{fill:#e6edf3}}</style>\n";

/* The size stands at the head and is known at the end: areas are kept until then. */
void tsr__draw_svg(tsr__drawing *d)
{
  picture p = { .d = d };
  tsr__text *out = d->out, boxes;
  tsr__text_init(&boxes, out->heap);
  d->out = &boxes;
  ask_widths(&p);
  add_boxes(&p);
  d->out = out;
  tsr__text_add(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%d\" height=\"%d\" "
                "viewBox=\"0 0 %d %d\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" "
                "font-size=\"13\" text-anchor=\"middle\">\n",
                p.width, p.height, p.width, p.height);
  add_title(d);
  tsr__text_put(out, style, sizeof style - 1);
  tsr__text_put(out, tsr__text_get(&boxes), boxes.length);
  tsr__text_add(out, "</svg>\n");
  out->failed |= boxes.failed;
  tsr__text_free(&boxes);
}
