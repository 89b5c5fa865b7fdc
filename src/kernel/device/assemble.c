/* A part put together of pieces that lie in many buffers, as each device does in an all-to-all.
 *
 *   pieces of the part     one dim is walked, that of most overlaps; the others stand still
 *   . . . . .              until it is through, so where a piece lies in its part and in the
 *   . . . . .              result is a sum of products with the walked overlap alone
 *
 * Thousands of pieces of a few elements each are common on large meshes: a piece must cost little
 * more than its elements. It is copied as runs that lie at even distances:
 *
 *   form   run                                      as many of them as
 *   LINE   the walked overlap and all dims behind   one dim before it has elements
 *   ROWS   one dim behind the walked one            the walked overlap has elements
 *   BOX    anything else, and bits                  (copied as a box) */
#include "kernel/device/cpu.h"
#include "kernel/device/put_line.h"

#define ASK_AFTER ((int64_t)1 << 20) /* elements: some milliseconds */

enum form { BOX, LINE, ROWS };

typedef struct walk {
  const tsr__assembly *job;
  tsr__buffer *const *from;
  tsr__buffer *to;
  tsr__traffic *traffic;
  int dim;
  tsr__overlap at[TSR_MAX_RANK]; /* of each dim, as far as it lies in the slab */
  int position;                  /* the sum of the offsets of the dims that stand still */
  /* Where a piece begins: from_still + from_part * part_size + from_start * from_step, of the walked
   * overlap; and to_still + to_start * to_step. */
  int64_t from_still, from_part, from_step, to_still, to_step;
  enum form form;
  int64_t runs, length;           /* LINE: length for each element walked; ROWS: no runs yet */
  int64_t from_stride, to_stride; /* LINE: from_stride for each element of the walked part */
  int64_t left;                   /* elements until the progress is asked */
  bool missed;                    /* a piece had no buffer */
} walk;

/* What of an overlap lies in the slab; its size is 0 or less where nothing does. */
static tsr__overlap in_slab(const tsr__assembly *job, int dim, const tsr__overlap *whole)
{
  tsr__overlap o = *whole;
  if (dim != job->slab_dim) return o;
  int64_t end = o.to_start + o.size < job->slab_end ? o.to_start + o.size : job->slab_end;
  int64_t start = o.to_start > job->slab_start ? o.to_start : job->slab_start;
  o.from_start += start - o.to_start;
  o.to_start = start;
  o.size = end - start;
  return o;
}

static bool is_whole(const walk *w, int d)
{
  return w->at[d].size == w->at[d].part_size && w->at[d].size == w->job->to_dims[d];
}

/* The form that pieces have while the other dims stand still; strides are in elements. */
static void find_form(walk *w)
{
  int rank = w->job->pieces->rank, last = rank - 1, outer = -1, longer = 0;
  int64_t inner = 1;
  for (; last > w->dim && is_whole(w, last); last--) inner *= w->at[last].size;
  for (int d = 0; d < last; d++) {
    if (d == w->dim || w->at[d].size == 1) continue;
    outer = d;
    longer++;
  }
  w->form = BOX;
  if (w->job->dtype == TSR_BOOL || longer > (last == w->dim)) return;
  w->form = last == w->dim ? LINE : ROWS;
  w->length = last == w->dim ? inner : inner * w->at[last].size;
  w->runs = outer < 0 ? 1 : w->at[outer].size;
  w->from_stride = w->to_stride = 1;
  for (int d = outer + 1; outer >= 0 && d < rank; d++) {
    w->from_stride *= d == w->dim ? 1 : w->at[d].part_size;
    w->to_stride *= w->job->to_dims[d];
  }
}

/* The dims behind the walked one count whole parts; those before it, parts of the walked one, too,
 * whose size is its overlap's. */
static void find_places(walk *w)
{
  int64_t from = 1, to = 1;
  w->position = 0;
  w->from_still = w->from_part = w->to_still = 0;
  for (int d = w->job->pieces->rank - 1; d >= 0; d--) {
    const tsr__overlap *o = &w->at[d];
    if (d == w->dim) {
      w->from_step = from;
      w->to_step = to;
    } else {
      *(d > w->dim ? &w->from_still : &w->from_part) += o->from_start * from;
      w->to_still += o->to_start * to;
      w->position += o->offset;
      from *= o->part_size;
    }
    to *= w->job->to_dims[d];
  }
}

#define COPY_WORDS(T) \
  for (int64_t i = 0; i < runs; i++) memcpy(to + i * to_stride, from + i * from_stride, sizeof(T))

/* Few bytes are moved as one word, without a call. */
static inline void copy_runs(const walk *w, char *to, const char *from, size_t bytes, int64_t runs,
                             int64_t to_stride, int64_t from_stride)
{
  switch (bytes) {
  case 4: COPY_WORDS(uint32_t); return;
  case 8: COPY_WORDS(uint64_t); return;
  case 2: COPY_WORDS(uint16_t); return;
  case 1: COPY_WORDS(uint8_t); return;
  default: break;
  }
  for (int64_t i = 0; i < runs; i++, to += to_stride, from += from_stride)
    if (w->job->streams) tsr__put_run(to, from, bytes);
    else memcpy(to, from, bytes);
}

static void copy_piece(const walk *w, const tsr__overlap *o, const tsr__buffer *from)
{
  int64_t size = (int64_t)tsr_dtype_size(w->job->dtype);
  int64_t at = w->from_still + w->from_part * o->part_size + w->from_step * o->from_start;
  const char *source = (const char *)from->data + at * size;
  char *target = (char *)w->to->data + (w->to_still + w->to_step * o->to_start) * size;
  if (w->form == LINE)
    copy_runs(w, target, source, (size_t)(w->length * o->size * size), w->runs, w->to_stride * size,
              w->from_stride * o->part_size * size);
  else
    copy_runs(w, target, source, (size_t)(w->length * size), o->size, w->to_step * size,
              w->from_step * size);
}

static void copy_box(walk *w, const tsr__overlap *o, const tsr__buffer *from)
{
  int64_t from_dims[TSR_MAX_RANK], from_start[TSR_MAX_RANK], to_start[TSR_MAX_RANK],
      size[TSR_MAX_RANK];
  w->at[w->dim] = *o;
  for (int d = 0; d < w->job->pieces->rank; d++) {
    from_dims[d] = w->at[d].part_size;
    from_start[d] = w->at[d].from_start;
    to_start[d] = w->at[d].to_start;
    size[d] = w->at[d].size;
  }
  tsr__cpu_copy(&(tsr__box_copy){ .dtype = w->job->dtype,
                                  .rank = w->job->pieces->rank,
                                  .from_dims = from_dims,
                                  .from_start = from_start,
                                  .to_dims = w->job->to_dims,
                                  .to_start = to_start,
                                  .size = size,
                                  .progress = w->job->progress,
                                  .worker = w->job->worker,
                                  .streams = w->job->streams },
                from, w->to, w->traffic);
}

/* False: somebody said to stop. */
static bool goes_on(walk *w, int64_t elements)
{
  w->left -= elements;
  if (w->left > 0) return true;
  w->left = ASK_AFTER;
  return !w->job->progress || !tsr__progress_stops(w->job->progress, w->job->worker);
}

/* Copies a piece, and returns how many elements were copied without a look at the progress. */
static int64_t take_piece(walk *w, const tsr__overlap *o, const tsr__buffer *from,
                          int64_t *elements)
{
  enum { OF_BOX = 1 << 10 }; /* stands for the time that describing a box takes */
  int64_t count = w->length * o->size * (w->form == LINE ? w->runs : 1);
  if (w->form == BOX) {
    copy_box(w, o, from);
    return OF_BOX;
  }
  copy_piece(w, o, from);
  if (from->device != w->to->device) *elements += count;
  return count;
}

/* The pieces of one walk. False: it was stopped. */
static bool copy_walk(walk *w)
{
  const tsr__piece_grid *pieces = w->job->pieces;
  int64_t crossed = 0;
  bool on = true;
  for (int i = 0; i < pieces->counts[w->dim] && on; i++) {
    tsr__overlap o = in_slab(w->job, w->dim, &pieces->overlaps[w->dim][i]);
    int position = w->position + o.offset;
    const tsr__buffer *from = w->from[position == pieces->leader ? pieces->own : position];
    if (o.size <= 0) continue;
    if (from) on = goes_on(w, take_piece(w, &o, from, &crossed));
    else w->missed = true;
  }
  if (w->traffic) w->traffic->bytes += crossed * (int64_t)tsr_dtype_size(w->job->dtype);
  return on;
}

/* ---- all walks ------------------------------------------------------------------------------- */

/* The dim with most overlaps; the last of several, whose runs are the longest. */
static int walked_dim(const tsr__piece_grid *pieces)
{
  int dim = 0;
  for (int d = 1; d < pieces->rank; d++)
    if (pieces->counts[d] >= pieces->counts[dim]) dim = d;
  return dim;
}

/* Puts the other dims at their overlaps number `index`. False: one of them has none in the slab. */
static bool stand_at(walk *w, const int *index)
{
  const tsr__piece_grid *pieces = w->job->pieces;
  for (int d = 0; d < pieces->rank; d++) {
    w->at[d] = in_slab(w->job, d, &pieces->overlaps[d][index[d]]);
    if (d != w->dim && w->at[d].size <= 0) return false;
  }
  find_form(w);
  find_places(w);
  return true;
}

/* An odometer over the dims that stand still: where the last is through it begins again, and the one
 * before it goes on. False: all are through. */
static bool next_index(const walk *w, int *index)
{
  const tsr__piece_grid *pieces = w->job->pieces;
  for (int d = pieces->rank - 1; d >= 0; d--) {
    if (d == w->dim) continue;
    if (++index[d] < pieces->counts[d]) return true;
    index[d] = 0;
  }
  return false;
}

static bool assemble(const tsr__assembly *job, tsr__buffer *const *from, tsr__buffer *to,
                     tsr__traffic *traffic)
{
  const tsr__piece_grid *pieces = job->pieces;
  walk w = { .job = job, .from = from, .to = to, .traffic = traffic, .left = ASK_AFTER };
  int index[TSR_MAX_RANK] = { 0 };
  bool on = true;
  w.dim = walked_dim(pieces);
  for (int d = 0; d < pieces->rank; d++)
    if (!pieces->counts[d]) return true;
  do {
    if (stand_at(&w, index)) on = copy_walk(&w);
  } while (on && next_index(&w, index));
  if (job->streams) tsr__put_done();
  return !w.missed;
}

/* A scalar is copied as an array of one element. */
bool tsr__cpu_assemble(const tsr__assembly *job, tsr__buffer *const *from, tsr__buffer *to,
                       tsr__traffic *traffic)
{
  static const tsr__overlap one = { 1, 0, 0, 1, 0 };
  static const int64_t dims[1] = { 1 };
  tsr__piece_grid pieces = { 1, { 1 }, { &one }, job->pieces->leader, job->pieces->own };
  tsr__assembly scalar = *job;
  scalar.pieces = &pieces;
  scalar.to_dims = dims;
  return assemble(job->pieces->rank ? job : &scalar, from, to, traffic);
}
