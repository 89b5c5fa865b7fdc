/* How an image is cut, resized and put.
 *
 * Invariant: row r of the window lies in slot r mod `most` of the ring, and rows of the result take
 * at most `most` rows, the first of which never go back. */
#include "pipeline/pixels.h"

#include <math.h>

#include "pipeline/permute.h"

enum { TRIES = 10, LINE = 64, ROOTS = 32 };

/* ---- which part ------------------------------------------------------------------------------ */

/* Draw k of a record, 0 <= x < 1. 53 bits are exact in a double, so that every machine draws the
 * same. */
static double drawn(uint64_t draw, uint64_t k)
{
  return (double)(tsr__mix(draw, k) >> 11) * 0x1p-53;
}

/* from * (to / from)^u by square roots, which are exact everywhere. No library of mathematics
 * rounds pow alike; square roots, products and quotients are IEEE's. */
static double between(double from, double to, double u)
{
  double root = to / from, value = from;
  for (int i = 0; i < ROOTS; i++) {
    root = sqrt(root);
    u *= 2;
    if (u < 1) continue;
    u -= 1;
    value *= root;
  }
  return value;
}

/* A side of 1 pixel at least, and within the image however a product was rounded. */
static int rounded(double value, int most)
{
  int whole = value > most ? most : (int)(value + 0.5);
  return whole < 1 ? 1 : whole > most ? most : whole;
}

static tsr__image_box centred(int height, int width, int all_height, int all_width)
{
  return (tsr__image_box){ (all_height - height) / 2, (all_width - width) / 2, height, width };
}

/* The largest box of an aspect, width by height, times a share. */
static tsr__image_box of_aspect(double aspect, double share, int height, int width)
{
  double h = height, w = width;
  if (w > h * aspect) w = h * aspect;
  else h = w / aspect;
  return centred(rounded(h * share, height), rounded(w * share, width), height, width);
}

/* A box of a random area and aspect that fits, at a random place; after ten that do not, the
 * largest one whose aspect is allowed. */
static tsr__image_box random_box(const tsr__image_plan *plan, uint64_t draw, int height, int width)
{
  /* Each try has draws of its own, and draw 0 is the mirror's: one that fails changes none of the
   * others. */
  for (uint64_t k = 1; k <= TRIES * 4; k += 4) {
    double least = plan->area[0], most = plan->area[1];
    double area = (least + (most - least) * drawn(draw, k)) * (double)height * (double)width;
    double aspect = between(plan->aspect[0], plan->aspect[1], drawn(draw, k + 1));
    double h = sqrt(area / aspect) + 0.5, w = sqrt(area * aspect) + 0.5;
    /* Written so that NaN, which a hostile size could make, fails as well. */
    if (!(h >= 1 && w >= 1 && h < height + 1.0 && w < width + 1.0)) continue;
    tsr__image_box box = { 0, 0, (int)h, (int)w };
    box.top = (int)(drawn(draw, k + 2) * (height - box.height + 1));
    box.left = (int)(drawn(draw, k + 3) * (width - box.width + 1));
    return box;
  }
  double own = (double)width / height, least = plan->aspect[0], most = plan->aspect[1];
  return of_aspect(own < least ? least : own > most ? most : own, 1, height, width);
}

/* In pixels of the image as it is to be seen, upright; stored_box says where that lies. */
static tsr__image_box box_of(const tsr__image_plan *plan, uint64_t draw, int height, int width)
{
  if (plan->box == TSR__BOX_RANDOM) return random_box(plan, draw, height, width);
  if (plan->box == TSR__BOX_CENTRE)
    return of_aspect((double)plan->width / plan->height, plan->share, height, width);
  return (tsr__image_box){ 0, 0, height, width };
}

/* ---- which way ------------------------------------------------------------------------------- */

/* How an image is stored: lines are columns, and which of both count from the other end. */
typedef struct turning {
  bool swapped, rows_back, columns_back;
} turning;

/* EXIF 1 to 8: those from 5 on lie on their side; the table of the standard as bits. */
static turning turning_of(int orientation)
{
  int o = orientation;
  return (turning){ o >= 5, o == 3 || o == 4 || o == 6 || o == 7,
                    o == 2 || o == 3 || o == 7 || o == 8 };
}

/* Where a box of the upright image is stored. */
static tsr__image_box stored_box(turning t, tsr__image_box box, const tsr__image_head *head)
{
  tsr__image_box is = box;
  if (t.swapped) is = (tsr__image_box){ box.left, box.top, box.width, box.height };
  if (t.rows_back) is.top = head->height - is.top - is.height;
  if (t.columns_back) is.left = head->width - is.left - is.width;
  return is;
}

/* Where row r, column c, lane l of what was resized as stored goes: to element
 * first + r * row + c * column + l * lane. */
typedef struct strides {
  ptrdiff_t first, row, column, lane;
} strides;

/* Turning costs nothing: what was resized as stored is put from another corner, in other steps. */
static strides strides_of(const tsr__image_plan *plan, turning t, bool mirrored)
{
  ptrdiff_t channels = plan->channels, height = plan->height, width = plan->width;
  ptrdiff_t step = plan->planes ? 1 : channels, line = width * step;
  ptrdiff_t down = t.swapped ? step : line, right = t.swapped ? line : step;
  bool rows_back = t.rows_back, columns_back = t.columns_back;
  if (mirrored && t.swapped) rows_back = !rows_back;
  if (mirrored && !t.swapped) columns_back = !columns_back;
  strides s = { 0, down, right, plan->planes ? height * width : 1 };
  ptrdiff_t rows = t.swapped ? width : height, columns = t.swapped ? height : width;
  if (rows_back) s.first += (rows - 1) * down, s.row = -down;
  if (columns_back) s.first += (columns - 1) * right, s.column = -right;
  return s;
}

/* ---- weights --------------------------------------------------------------------------------- */

static double reach_of(int from, int to, bool aliased)
{
  return aliased || from <= to ? 1 : (double)from / to;
}

/* Pixels of the source lie at their centres, as those of the result do; a triangle as wide as the
 * step between the latter is weighed, at least one pixel to each side. */
static void weigh(tsr__taps *taps, int from, int to, bool aliased)
{
  double scale = (double)from / to, reach = reach_of(from, to, aliased);
  taps->count = to;
  for (int k = 0; k < to; k++) {
    double centre = (k + 0.5) * scale, sum = 0;
    int first = (int)(centre - reach + 0.5), end = (int)(centre + reach + 0.5);
    if (centre - reach + 0.5 < 0) first = 0;
    if (end > from) end = from;
    float *weight = taps->weight + (size_t)k * (size_t)taps->most;
    for (int pass = 0; pass < 2; pass++)
      for (int i = first; i < end; i++) {
        double x = (i + 0.5 - centre) / reach, w = x < 0 ? 1 + x : 1 - x;
        if (w < 0) w = 0;
        if (pass) weight[i - first] = (float)(w / sum);
        else sum += w;
      }
    /* A weight of zero would have a decoder read a row that adds nothing. */
    while (end - first > 1 && weight[end - first - 1] == 0) end--;
    taps->first[k] = first;
    taps->length[k] = end - first;
  }
}

/* ---- room ------------------------------------------------------------------------------------ */

/* What one image takes, cut out of a bench's room. */
typedef struct job {
  const tsr__image_plan *plan;
  tsr__image_bench *bench;
  tsr__image_box window; /* as stored */
  int lanes;
  tsr__taps down, across;
  size_t line; /* bytes from a row of the ring to the next */
  unsigned char *ring;
  const unsigned char **row;
  float *sum, *out;
  strides to;
} job;

static void *cut(char *room, size_t *used, size_t count, size_t size)
{
  void *at = room ? room + *used : NULL;
  *used += (count * size + LINE - 1) / LINE * LINE;
  return at;
}

/* Each list begins a line of the cache. */
static void cut_taps(tsr__taps *taps, char *room, size_t *used)
{
  size_t count = (size_t)taps->count;
  taps->first = cut(room, used, count, sizeof *taps->first);
  taps->length = cut(room, used, count, sizeof *taps->length);
  taps->weight = cut(room, used, count * (size_t)taps->most, sizeof *taps->weight);
}

/* How many bytes a job takes; with room it is given them. Twice, first without room: what is
 * counted and what is given can never be two things. */
static size_t cut_job(job *j, char *room)
{
  size_t used = 0, width = (size_t)j->window.width * (size_t)j->lanes;
  cut_taps(&j->down, room, &used);
  cut_taps(&j->across, room, &used);
  j->line = (width + 2 * TSR__IMAGES_SLACK + LINE - 1) / LINE * LINE;
  j->ring = cut(room, &used, (size_t)j->down.most, j->line);
  if (j->ring) j->ring += TSR__IMAGES_SLACK;
  j->row = cut(room, &used, (size_t)j->down.most, sizeof *j->row);
  j->sum = cut(room, &used, TSR__IMAGE_ROWS * j->line, sizeof *j->sum);
  j->out = cut(room, &used, TSR__IMAGE_ROWS * (size_t)j->across.count * (size_t)j->lanes,
               sizeof *j->out);
  return used;
}

static tsr_status make_room(job *j, tsr__error *error)
{
  tsr__image_bench *bench = j->bench;
  size_t need = cut_job(j, NULL);
  if (need > bench->size) {
    tsr__del(bench->heap, bench->room, bench->size);
    bench->size = 0;
    /* Cleared, as vectors read beyond rows: what they read is dropped, but must have been written
     * once. */
    bench->room = tsr__new(bench->heap, need);
    if (!bench->room) return tsr__error_set(error, TSR_ENOMEM, "no memory for %zu bytes", need);
    bench->size = need;
  }
  cut_job(j, bench->room);
  return TSR_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Bytes were rounded by the sum's bias. */
static void put_row(const job *j, const float *from, int r, void *to)
{
  const tsr__image_plan *plan = j->plan;
  ptrdiff_t base = j->to.first + r * j->to.row;
  for (int l = 0; l < plan->channels; l++) {
    ptrdiff_t at = base + l * j->to.lane, step = j->to.column;
    const float *x = from + l;
    if (plan->f32)
      for (int c = 0; c < j->across.count; c++) ((float *)to)[at + c * step] = x[c * j->lanes];
    else
      for (int c = 0; c < j->across.count; c++)
        ((unsigned char *)to)[at + c * step] = (unsigned char)(int)x[c * j->lanes];
  }
}

/* Whether a row's pixels follow each other in the result as they do here, or backwards. Then pixels
 * go straight to the batch, else by way of a row. */
static bool in_place(const job *j)
{
  const tsr__image_plan *plan = j->plan;
  ptrdiff_t step = j->to.column < 0 ? -j->to.column : j->to.column;
  return plan->f32 && j->to.lane == 1 && step == plan->channels;
}

/* The sum for row r of the result, of rows that are read as far as it needs them. */
static tsr_status add_rows(const job *j, int r, int *have, tsr__error *error)
{
  const tsr__image_plan *plan = j->plan;
  tsr__image_reader *reader = j->bench->reader;
  int first = j->down.first[r], rows = j->down.length[r], most = j->down.most;
  int place = r % TSR__IMAGE_ROWS;
  /* Rows that no result needs are read over just the same: a decoder only goes forwards. */
  for (; *have < first + rows; ++*have)
    if (!plan->calls->row(reader, j->ring + (size_t)(*have % most) * j->line))
      return tsr__error_set(error, TSR_EPARSE, "%s", plan->calls->why(reader));
  for (int i = 0; i < rows; i++) j->row[i] = j->ring + (size_t)((first + i) % most) * j->line;
  tsr__down down = { .row = j->row,
                     .weight = j->down.weight + (size_t)r * (size_t)most,
                     .rows = rows,
                     .n = (int64_t)j->window.width * j->lanes,
                     .place = j->lanes == 4 ? place : -1 };
  plan->tiles->down(j->sum + (j->lanes == 4 ? 0 : (size_t)place * j->line), &down);
  return TSR_OK;
}

/* window rows   decoded, as many as the next sum needs     ring[most]
 * sums          TSR__IMAGE_ROWS of them, rows added        sum, lanes of 4 rows by turns
 * result        those sums across, at once                 straight to the batch, or `out` first */
static tsr_status resize(const job *j, void *to, tsr__error *error)
{
  const tsr__image_plan *plan = j->plan;
  bool direct = in_place(j);
  int have = 0;
  ptrdiff_t own = (ptrdiff_t)j->across.count * j->lanes;
  tsr__across across = { .sum = j->sum,
                         .line = (int64_t)j->line,
                         .step = direct ? j->to.row : own,
                         .taps = &j->across,
                         .lanes = j->lanes,
                         .reversed = direct && j->to.column < 0,
                         .packed = direct && j->lanes == 4 };
  memcpy(across.scale, plan->scale, sizeof across.scale);
  memcpy(across.bias, plan->bias, sizeof across.bias);
  for (int r = 0; r < j->down.count; r += across.rows) {
    int left = j->down.count - r;
    across.rows = left < TSR__IMAGE_ROWS ? left : TSR__IMAGE_ROWS;
    for (int k = 0; k < across.rows; k++)
      if (add_rows(j, r + k, &have, error)) return error->status;
    ptrdiff_t base = j->to.first + r * j->to.row;
    if (direct && j->to.column < 0) base += (j->across.count - 1) * j->to.column;
    plan->tiles->across(direct ? (float *)to + base : j->out, &across);
    for (int k = 0; k < across.rows && !direct; k++) put_row(j, j->out + k * own, r + k, to);
  }
  return TSR_OK;
}

/* look -> which window -> room and weights -> begin -> rows. The weights are made anew for each
 * image, as windows differ: a few hundred of them against a hundred thousand pixels. */
static tsr_status read_image(const tsr__image_plan *plan, tsr__image_bench *bench,
                             const tsr__image_one *one, tsr__error *error)
{
  tsr__image_head head;
  if (!plan->calls->look(bench->reader, &one->ask, &head))
    return tsr__error_set(error, TSR_EPARSE, "%s", plan->calls->why(bench->reader));
  turning t = turning_of(plan->as_stored ? 1 : head.orientation);
  int height = t.swapped ? head.width : head.height, width = t.swapped ? head.height : head.width;
  tsr__image_box box = box_of(plan, one->draw, height, width);
  bool mirrored = plan->flips && tsr__mix(one->draw, 0) >> 63;
  job j = { .plan = plan,
            .bench = bench,
            .window = stored_box(t, box, &head),
            .lanes = one->ask.lanes,
            .to = strides_of(plan, t, mirrored) };
  j.down.count = t.swapped ? plan->width : plan->height;
  j.across.count = t.swapped ? plan->height : plan->width;
  /* A triangle of 2 * reach and what rounding adds at both ends; the ring holds as many rows. */
  j.down.most = 2 * (int)reach_of(j.window.height, j.down.count, plan->aliased) + 3;
  j.across.most = 2 * (int)reach_of(j.window.width, j.across.count, plan->aliased) + 3;
  if (make_room(&j, error)) return error->status;
  weigh(&j.down, j.window.height, j.down.count, plan->aliased);
  weigh(&j.across, j.window.width, j.across.count, plan->aliased);
  if (!plan->calls->begin(bench->reader, &j.window))
    return tsr__error_set(error, TSR_EPARSE, "%s", plan->calls->why(bench->reader));
  return resize(&j, one->out, error);
}

tsr_status tsr__image_make(const tsr__image_plan *plan, tsr__image_bench *bench,
                           const tsr__image_one *one, tsr__error *error)
{
  /* Once a bench, when its first image comes: benches are as many as threads. */
  if (!bench->reader) bench->reader = plan->calls->open();
  if (!bench->reader) return tsr__error_set(error, TSR_ENOMEM, "no memory for a reader of images");
  read_image(plan, bench, one, error);
  /* Also after an error, or the next image would find this one's decoder. */
  plan->calls->end(bench->reader);
  return error->status;
}
