/* Tables for the eye:
 *
 *   ┌────────┬────────────┐
 *   │ origin │ mean(temp) │
 *   │ text   │ f64        │
 *   ├────────┼────────────┤
 *   │ EWR    │  55.557895 │
 *   │ …      │          … │    rows left out
 *   └────────┴────────────┘
 *   3 rows, 2 columns
 *
 * Numbers stand at the right with at most six decimals, all else at the left. Where the columns do
 * not fit the width, texts and names are cut, the longest first, at CELL down to SHORT; numbers
 * never are. What does not fit then is left out in the middle. Colours are put around whole pieces,
 * after their widths are known. */
#include "frame/out/out.h"

#include <limits.h>
#include <math.h>

enum { WIDTH = 120, CELL = 32, SHORT = 12, MOST_COLUMNS = 256 };

/* What a column may take: all it has, and the least it can do with. */
typedef struct span {
  int whole, least;
} span;

/* Lists are by place from the left, of which there is one more than columns for the gap. */
typedef struct layout {
  const tsr_table *table;
  int64_t total;               /* rows of the frame */
  int64_t split;               /* rows before the gap; -1: no gap */
  int shown[MOST_COLUMNS + 1]; /* columns by number; -1: those left out */
  span span[MOST_COLUMNS + 1]; /* of those that are shown */
  int width[MOST_COLUMNS + 1];
  int count;
  int most; /* characters a line may take */
  bool colour;
  tsr__text *out;
} layout;

static bool right(const tsr_table *table, int column)
{
  return column >= 0 && tsr__is_number(table->column[column].type);
}

/* Six decimals are enough to look at; small numbers keep six digits. The power of ten is exact, so
 * the quotient is the double nearest to the decimal and its shortest text has no more digits.
 *
 *   55.5578947368   ->  55.557895      six decimals
 *   0.00012345678   ->  0.000123457    six digits
 *   1e10 and more   ->  three decimals, from 9e12 on none */
static double shorten(double value)
{
  double size = fabs(value), power = 1e6;
  /* From 9e15 on doubles have no decimals, and below 1e-12 the powers would leave the exact
   * ones. */
  if (!(size > 0) || size >= 9e15 || size < 1e-12) return value;
  if (size >= 9e9) power = size < 9e12 ? 1e3 : 1;
  if (size < 1e-3) power = 1e8;
  for (double least = 1e-3; size < least && power < 1e21; least /= 10) power *= 10;
  return rint(value * power) / power;
}

/* A cell's text: one line, cut to `most` characters. */
static void cell(const tsr_table *table, int64_t row, int column, int most, tsr__text *out)
{
  tsr__text whole;
  tsr__text_init(&whole, out->heap);
  const tsr__table_column *c = &table->column[column];
  if (c->type == TSR_COL_F64 && !tsr_table_is_null(table, row, column)) {
    char number[32];
    int length = tsr__text_f64(number, shorten(((const double *)c->values)[row]));
    tsr__text_put(&whole, number, (size_t)length);
  } else {
    tsr__table_print(table, row, column, &whole);
  }
  if (whole.failed) out->failed = true;
  else tsr__text_clip(out, tsr__text_get(&whole), whole.length, most);
  tsr__text_free(&whole);
}

/* ---- layout ------------------------------------------------------------------------------ */

static int wider(int width, const tsr__text *text)
{
  int found = tsr__text_width(tsr__text_get(text), text->length);
  return found > width ? found : width;
}

/* All rows that are shown are looked at, which are few: a terminal collected no others. */
static span measure(const layout *l, int column)
{
  tsr__text text;
  tsr__text_init(&text, l->out->heap);
  const char *name = l->table->column[column].name;
  int values = 4; /* the type's name */
  for (int64_t row = 0; row < l->table->rows; row++) {
    /* The room of the text is used again for each cell. */
    text.length = 0;
    cell(l->table, row, column, CELL, &text);
    values = wider(values, &text);
  }
  text.length = 0;
  tsr__text_clip(&text, name, strlen(name), CELL);
  int whole = wider(values, &text), least = whole < SHORT ? whole : SHORT;
  /* Numbers are never cut, as a cut number is another number. */
  if (right(l->table, column) && values > least) least = values;
  if (text.failed) l->out->failed = true;
  tsr__text_free(&text);
  return (span){ whole, least };
}

/* Shows all columns. The first is always taken, however wide; false: they do not fit. */
static bool choose_all(layout *l)
{
  int columns = l->table->count, used = 1;
  if (columns > MOST_COLUMNS) return false;
  for (int c = 0; c < columns; c++) {
    l->span[c] = measure(l, c);
    l->shown[c] = c;
    /* A column takes its text, a blank at each side and a bar. */
    used += l->span[c].least + 3;
    if (c && used > l->most) return false;
  }
  l->count = columns;
  return true;
}

/* Takes columns from both ends as long as they fit. */
static void choose_ends(layout *l)
{
  int columns = l->table->count, left = 0, last = columns, used = 1, before = 0;
  span spans[MOST_COLUMNS];
  int ends[MOST_COLUMNS];
  while (left < last && l->count < MOST_COLUMNS) {
    /* Which end has given fewer columns; the first column comes first. */
    bool front = left <= columns - last;
    /* From both ends in turn: the first and last columns say most. */
    int column = front ? left : last - 1;
    span wants = measure(l, column);
    /* Room for the column of dots, unless this is the last column. */
    int gap = left + 1 < last ? 6 : 0;
    if (l->count && used + wants.least + 3 + gap > l->most) break;
    used += wants.least + 3;
    ends[l->count] = column;
    spans[l->count++] = wants;
    if (front) left++;
    else last--;
  }
  bool gap = left < last;
  int taken = l->count;
  /* Columns of the end were found from the last one inward: they are put in the order of the table,
   * the gap between both ends. */
  for (int i = 0; i < taken; i++) {
    bool front = ends[i] < left;
    int place = front ? ends[i] : taken + gap - (columns - ends[i]);
    l->shown[place] = ends[i];
    l->span[place] = spans[i];
    before += front;
  }
  if (!gap) return;
  l->shown[before] = -1;
  l->span[before] = (span){ 1, 1 };
  l->count++;
}

/* Cuts the longest as far as they must be. */
static void choose_widths(layout *l)
{
  /* One character less at a time for all: the longest give way first. */
  for (int most = CELL; most >= SHORT; most--) {
    int used = 1;
    for (int i = 0; i < l->count; i++) {
      int width = l->span[i].whole > most ? most : l->span[i].whole;
      l->width[i] = width < l->span[i].least ? l->span[i].least : width;
      used += l->width[i] + 3;
    }
    if (used <= l->most) break;
  }
}

/* ---- lines ------------------------------------------------------------------------------- */

#define DIM "\033[2m"
#define BOLD "\033[1m"
#define PLAIN "\033[0m"

static void paint(const layout *l, const char *code)
{
  if (l->colour) tsr__text_add(l->out, "%s", code);
}

static void rule(const layout *l, const char *left, const char *middle, const char *end)
{
  paint(l, DIM);
  for (int i = 0; i < l->count; i++) {
    tsr__text_add(l->out, "%s", i ? middle : left);
    for (int k = 0; k < l->width[i] + 2; k++) tsr__text_add(l->out, "─");
  }
  tsr__text_add(l->out, "%s", end);
  paint(l, PLAIN);
  tsr__text_add(l->out, "\n");
}

static void bar(const layout *l)
{
  paint(l, DIM);
  tsr__text_add(l->out, "│");
  paint(l, PLAIN);
}

typedef struct cell_style {
  bool at_right;
  const char *code; /* NULL: plain */
} cell_style;

static void put_cell(const layout *l, int place, const tsr__text *text, const cell_style *style)
{
  int gap = l->width[place] - tsr__text_width(tsr__text_get(text), text->length);
  bool at_right = style->at_right;
  bar(l);
  tsr__text_add(l->out, " ");
  if (at_right) tsr__text_pad(l->out, ' ', gap);
  if (style->code) paint(l, style->code);
  tsr__text_put(l->out, tsr__text_get(text), text->length);
  if (style->code) paint(l, PLAIN);
  if (!at_right) tsr__text_pad(l->out, ' ', gap);
  tsr__text_add(l->out, " ");
}

enum { NAMES = -1, TYPES = -2, GAP = -3 };

/* One line: a row, or the names, types or gap. */
static void line(const layout *l, int64_t row)
{
  tsr__text text;
  tsr__text_init(&text, l->out->heap);
  for (int i = 0; i < l->count; i++) {
    int column = l->shown[i];
    const tsr__table_column *c = column < 0 ? NULL : &l->table->column[column];
    text.length = 0;
    if (!c || row == GAP) tsr__text_add(&text, "…");
    else if (row == NAMES) tsr__text_clip(&text, c->name, strlen(c->name), l->width[i]);
    else if (row == TYPES) tsr__text_add(&text, "%s", tsr_coltype_name((tsr_coltype)c->type));
    else cell(l->table, row, column, l->width[i], &text);
    bool dim =
        !c || row == GAP || row == TYPES || (row >= 0 && tsr_table_is_null(l->table, row, column));
    put_cell(l, i, &text,
             &(cell_style){ right(l->table, column), row == NAMES ? BOLD
                                                     : dim        ? DIM
                                                                  : NULL });
  }
  bar(l);
  tsr__text_add(l->out, "\n");
  if (text.failed) l->out->failed = true;
  tsr__text_free(&text);
}

/* 26115 as "26,115". */
static void put_count(tsr__text *out, int64_t value)
{
  if (value >= 1000) {
    put_count(out, value / 1000);
    tsr__text_add(out, ",%03d", (int)(value % 1000));
  } else {
    tsr__text_add(out, "%d", (int)value);
  }
}

static void print_table(const tsr_table *table, const tsr__window *window,
                        const tsr_show_opts *opts, tsr__text *out)
{
  layout l = { .table = table, .total = window->total, .split = -1, .out = out };
  l.colour = opts->colour;
  /* A width below 0: no limit. */
  l.most = opts->width > 0 ? opts->width : opts->width < 0 ? INT_MAX / 2 : WIDTH;
  if (window->head >= 0 && window->total > table->rows) l.split = window->head;
  if (!choose_all(&l)) choose_ends(&l);
  choose_widths(&l);
  rule(&l, "┌", "┬", "┐");
  line(&l, NAMES);
  line(&l, TYPES);
  rule(&l, "├", "┼", "┤");
  for (int64_t row = 0; row < table->rows; row++) {
    if (row == l.split) line(&l, GAP);
    line(&l, row);
  }
  /* The gap is behind all rows where no last ones were asked for. */
  if (l.split == table->rows) line(&l, GAP);
  rule(&l, "└", "┴", "┘");
  put_count(out, window->total);
  tsr__text_add(out, " row%s, %d column%s\n", window->total == 1 ? "" : "s", table->count,
                table->count == 1 ? "" : "s");
}

/* ---- terminals --------------------------------------------------------------------------- */

/* Rows shown where nobody says how many. */
enum { SHOW = 20 };

/* A caller's struct may be shorter or longer than ours: its size says. */
static tsr_show_opts known(const tsr_show_opts *opts)
{
  tsr_show_opts out = { 0 };
  size_t size = opts ? opts->size : 0;
  if (size) memcpy(&out, opts, size < sizeof out ? size : sizeof out);
  return out;
}

tsr_status tsr__frame_draw(tsr_frame *df, const tsr_show_opts *given, tsr__text *text, bool *apart,
                           const char *site)
{
  tsr_show_opts show = known(given), *opts = &show;
  int64_t most = opts->rows ? opts->rows : SHOW;
  tsr__window window = { -1, -1, 0 };
  /* The first half and the last, the odd row in front. */
  if (most > 0) window = (tsr__window){ (most + 1) / 2, most / 2, 0 };
  tsr_table *table = NULL;
  tsr_status status = tsr__collect(df, &window, &table, site);
  if (status) return status;
  if (apart) *apart = table->apart;
  tsr__text_init(text, &df->node.scope->rt->heap);
  print_table(table, &window, opts, text);
  return TSR_OK;
}

tsr_status tsr_frame_text_into_at(tsr_frame *df, const tsr_show_opts *opts, const char **out,
                                  const char *site)
{
  tsr__text text;
  if (!df) return tsr__fail_null("tsr_frame_text_into", "frame", site);
  tsr_status status = tsr__frame_check_out(df, out, "tsr_frame_text_into", site);
  if (!status) status = tsr__frame_draw(df, opts, &text, NULL, site);
  return status ? status : tsr__frame_give(df, &text, out, site);
}

const char *tsr_frame_text_with(tsr_frame *df, const tsr_show_opts *opts)
{
  const char *out;
  return tsr_frame_text_into_at(df, opts, &out, NULL) ? tsr__frame_why(df) : out;
}

const char *tsr_frame_text(tsr_frame *df)
{
  return tsr_frame_text_with(df, NULL);
}

tsr_status tsr_frame_print_at(tsr_frame *df, FILE *out, const char *site)
{
  tsr__text text;
  if (!df) return tsr__fail_null("tsr_frame_print", "frame", site);
  tsr_status status = tsr__frame_draw(df, NULL, &text, NULL, site);
  if (status) return status;
  if (!site) site = df->node.site;
  if (text.failed)
    status = tsr__fail(tsr__frame_home(df), site, TSR_ENOMEM, "tsr_frame_print: out of memory");
  else if (!out || fputs(tsr__text_get(&text), out) < 0)
    status = tsr__fail(tsr__frame_home(df), site, TSR_EIO,
                       "tsr_frame_print: the table could not be written");
  tsr__text_free(&text);
  return status;
}
