/* Parts put together of pieces that lie in many buffers, as each device does in an all-to-all.
 *
 *   pieces of the part     one dim is walked, that of most overlaps; the others stand still
 *   . . . . .              until it is through, so where a piece lies in its part and in the
 *   . . . . .              result is a sum of products with the walked overlap alone
 *
 * Thousands of pieces of a few elements each are common on large meshes: a piece must cost little
 * more than its elements. An assembly is copied as runs that lie at even distances:
 *
 *   form   run                                      as many of them as
 *   LINE   the walked overlap and all dims after    one dim before it has elements
 *   ROWS   one dim after the walked one             the walked overlap has elements
 *   BOX    anything else, and bits                  (copied as a box)
 *
 * Parts of one walk over the same overlaps go side by side: neighbours take neighbouring elements
 * of the same buffers, which one look at the memory brings for all of them. */
#include "kernel/device/cpu.h"
#include "kernel/device/put_line.h"

#define ASK_AFTER ((int64_t)1 << 22) /* bytes: some milliseconds */

enum form { BOX, LINE, ROWS };

typedef struct walk {
  const tsr__assembly *job;
  int dim;
  tsr__overlap at[TSR_MAX_RANK]; /* each dim's overlap, as far as it lies in the slab */
  int position;                  /* the sum of the offsets of the dims that stand still */
  /* A piece begins at from_still + from_part * part_size + from_step * from_start, of the walked
   * overlap, and comes to to_still + to_step * to_start. */
  int64_t from_still, from_part, from_step, to_still, to_step;
  enum form form;
  int64_t runs, length;           /* LINE: length for each element walked; ROWS: no runs yet */
  int64_t from_stride, to_stride; /* LINE: from_stride for each element of the walked part */
} walk;

/* A part on a walk that is not of boxes; all in bytes. */
typedef struct lane {
  const tsr__assembly *job;
  tsr__buffer *const *from; /* indexed by the walked overlap's offset, */
  int leader, own;          /* which may be one in the place of another */
  int device;
  bool lines;
  char *to;
  int64_t still, part, step, to_step, length, runs, stride, to_stride;
  int64_t crossed; /* from other devices */
} lane;

typedef struct batch {
  tsr__buffer *const *from;
  tsr__traffic *traffic;
  const tsr__overlap *list; /* that all lanes walk */
  int dim, overlaps, lanes;
  int64_t left; /* bytes until the progress is asked */
  bool missed;  /* a piece had no buffer */
  int scouts;   /* lanes that read other memory than those before them */
  int scout[TSR__MOST_ASSEMBLED];
  lane lane[TSR__MOST_ASSEMBLED];
} batch;

/* Returns the part of an overlap that lies in the slab; its size is 0 or less where nothing
 * does. */
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

/* ---- the pieces of a walk -------------------------------------------------------------------- */

/* Whether a piece has all elements of a dim, both of the part that it comes from and of the result.
 * Neighbours along the dim before it are neighbours in memory then. */
static bool is_whole_dim(const walk *w, int d)
{
  return w->at[d].size == w->at[d].part_size && w->at[d].size == w->job->to_dims[d];
}

/* The form that pieces have while the other dims stand still; strides are in elements. */
static void find_form(walk *w)
{
  int rank = w->job->pieces.rank, last = rank - 1, outer = -1, longer = 0;
  int64_t inner = 1;
  for (; last > w->dim && is_whole_dim(w, last); last--) inner *= w->at[last].size;
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

/* The dims after the walked one count whole parts; those before it, parts of the walked one, too,
 * whose size is its overlap's. */
static void find_walk_places(walk *w)
{
  int64_t from = 1, to = 1;
  w->position = 0;
  w->from_still = w->from_part = w->to_still = 0;
  for (int d = w->job->pieces.rank - 1; d >= 0; d--) {
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

/* ---- pieces ---------------------------------------------------------------------------------- */

/* False: somebody said to stop. */
static bool batch_goes_on(batch *b, const tsr__assembly *job, int64_t bytes)
{
  b->left -= bytes;
  if (b->left > 0) return true;
  b->left = ASK_AFTER;
  return !job->progress || !tsr__progress_stops(job->progress, job->worker);
}

/* The piece of one overlap as a box; the other dims stand where the walk has put them. */
static void copy_piece_box(walk *w, const tsr__overlap *o, const tsr__buffer *from,
                           tsr__traffic *traffic)
{
  int64_t from_dims[TSR_MAX_RANK], from_start[TSR_MAX_RANK], to_start[TSR_MAX_RANK],
      size[TSR_MAX_RANK];
  w->at[w->dim] = *o;
  for (int d = 0; d < w->job->pieces.rank; d++) {
    from_dims[d] = w->at[d].part_size;
    from_start[d] = w->at[d].from_start;
    to_start[d] = w->at[d].to_start;
    size[d] = w->at[d].size;
  }
  tsr__cpu_copy(&(tsr__box_copy){ .dtype = w->job->dtype,
                                  .rank = w->job->pieces.rank,
                                  .from_dims = from_dims,
                                  .from_start = from_start,
                                  .to_dims = w->job->to_dims,
                                  .to_start = to_start,
                                  .size = size,
                                  .progress = w->job->progress,
                                  .worker = w->job->worker,
                                  .streams = w->job->streams },
                from, w->job->to, traffic);
}

/* The pieces of a walk, each as a box. Bits are copied so, and pieces of several elements along two
 * dims or more that are not whole, whose runs lie at two distances. */
static bool copy_boxes(batch *b, walk *w)
{
  enum { OF_BOX = 1 << 12 }; /* stands for the time that describing a box takes */
  const tsr__piece_grid *pieces = &w->job->pieces;
  bool on = true;
  for (int i = 0; i < pieces->counts[w->dim] && on; i++) {
    tsr__overlap o = in_slab(w->job, w->dim, &pieces->overlaps[w->dim][i]);
    int position = w->position + o.offset;
    const tsr__buffer *from = b->from[position == pieces->leader ? pieces->own : position];
    if (o.size <= 0) continue;
    if (from) copy_piece_box(w, &o, from, b->traffic);
    else b->missed = true;
    on = batch_goes_on(b, w->job, OF_BOX);
  }
  return on;
}

/* Runs of the same length, at even distances. */
typedef struct run_list {
  char *to;
  const char *from;
  size_t bytes; /* per run */
  int64_t count, to_stride, from_stride;
} run_list;

#define COPY_WORDS(T)                                                                \
  for (int64_t i = 0; i < r->count; i++, to += r->to_stride, from += r->from_stride) \
    memcpy(to, from, sizeof(T));                                                     \
  break

static void copy_runs(const run_list *r, bool streams)
{
  char *to = r->to;
  const char *from = r->from;
  switch (r->bytes) {
  case 1: COPY_WORDS(uint8_t);
  case 2: COPY_WORDS(uint16_t);
  case 4: COPY_WORDS(uint32_t);
  case 8: COPY_WORDS(uint64_t);
  default:
    for (int64_t i = 0; i < r->count; i++, to += r->to_stride, from += r->from_stride)
      if (streams) tsr__put_run(to, from, r->bytes);
      else memcpy(to, from, r->bytes);
  }
}

/* The first byte of a piece in its buffer. Dims before the walked one count parts of the walked
 * dim, whose sizes may differ by one element, so that this sum depends on the overlap twice. */
static inline const char *piece_source(const lane *l, const tsr__overlap *o,
                                       const tsr__buffer *from)
{
  return (const char *)tsr__cpu_data(from) + l->still + l->part * o->part_size +
         l->step * o->from_start;
}

/* Lanes are neighbours, mostly: a few of them say which memory all are about to read. */
static void find_scouts(batch *b)
{
  enum { LINE_BYTES = 64, LOOKED_AT = 8 };
  b->scouts = 0;
  for (int n = 0; n < b->lanes; n++) {
    bool known = false;
    for (int k = n > LOOKED_AT ? n - LOOKED_AT : 0; k < n && !known; k++)
      known = b->lane[k].from == b->lane[n].from &&
              b->lane[k].still / LINE_BYTES == b->lane[n].still / LINE_BYTES;
    if (!known) b->scout[b->scouts++] = n;
  }
}

/* Pieces of a few bytes lie far from each other, so the memory is asked for ahead: first the
 * buffers' headers, a while later their bytes. */
static inline void look_ahead(const batch *b, int i)
{
  enum { BUFFER = 16, PIECE = 8 };
  const tsr__overlap *o = &b->list[i + PIECE];
  for (int k = 0; k < b->scouts && i + BUFFER < b->overlaps; k++) {
    const lane *l = &b->lane[b->scout[k]];
    const tsr__buffer *from = l->from[o->offset];
    __builtin_prefetch(l->from[o[BUFFER - PIECE].offset]);
    if (from) __builtin_prefetch(piece_source(l, o, from));
  }
}

/* Returns the bytes copied. One word is moved at once, without a list of runs. */
static inline int64_t copy_piece_runs(batch *b, lane *l, const tsr__overlap *o)
{
  const tsr__buffer *from = l->from[o->offset == l->leader ? l->own : o->offset];
  if (!from) {
    b->missed = true;
    return 0;
  }
  const char *source = piece_source(l, o, from);
  char *target = l->to + l->to_step * o->to_start;
  int64_t run = l->lines ? l->length * o->size : l->length, runs = l->lines ? l->runs : o->size;
  if (from->device != l->device) l->crossed += run * runs;
  if (runs == 1 && run == sizeof(uint32_t)) memcpy(target, source, sizeof(uint32_t));
  else if (runs == 1 && run == sizeof(uint64_t)) memcpy(target, source, sizeof(uint64_t));
  else
    copy_runs(&(run_list){ target, source, (size_t)run, runs, l->lines ? l->to_stride : l->to_step,
                           l->lines ? l->stride * o->part_size : l->step },
              l->job->streams);
  return run * runs;
}

/* Moves of elements between many devices end here: each device has one element for each other
 * device.
 *
 * Whether pieces of lanes are one word each, at the same place of their parts, of the same buffers:
 * an even cut of a dim by elements. */
static bool are_words(const batch *b)
{
  const tsr__overlap *list = b->list;
  const lane *first = b->lane;
  int64_t word = first->lines ? first->length * list->size : first->length;
  if (word != 1 && word != 2 && word != 4 && word != 8) return false;
  for (int i = 1; i < b->overlaps; i++)
    if (list[i].part_size != list->part_size || list[i].from_start != list->from_start ||
        list[i].size != list->size)
      return false;
  for (const lane *l = first; l < first + b->lanes; l++) {
    bool one = l->lines ? l->runs == 1 : list->size == 1;
    if (!one || l->job->slab_dim == b->dim || l->leader != l->own || l->from != first->from ||
        l->lines != first->lines || l->length != first->length || l->to_step != first->to_step)
      return false;
  }
  return true;
}

enum { FEW_BUFFERS = 8 };

/* Words of some buffers, and where each goes from a lane's first one. */
typedef struct word_list {
  int count;
  const char *from[FEW_BUFFERS];
  int64_t to[FEW_BUFFERS];
} word_list;

/* The places of each lane's words in their buffers, and the devices that take them. */
typedef struct word_lanes {
  int64_t still[TSR__MOST_ASSEMBLED];
  int device[TSR__MOST_ASSEMBLED];
  int count, lowest, highest; /* device numbers */
} word_lanes;

#define COPY_LIST(T)                                            \
  for (int k = 0; k < list->count; k++)                         \
    memcpy(to + list->to[k], list->from[k] + still, sizeof(T)); \
  break

static inline void copy_list(const word_list *list, char *to, int64_t still, int64_t word)
{
  switch (word) {
  case 1: COPY_LIST(uint8_t);
  case 2: COPY_LIST(uint16_t);
  case 4: COPY_LIST(uint32_t);
  default: COPY_LIST(uint64_t);
  }
}

/* All words of a lane lie at one place of their buffers: parts of one size begin alike, and the
 * lane takes the same element of each (are_words). */
static word_lanes word_lanes_of(const batch *b)
{
  word_lanes out = { .count = b->lanes, .lowest = b->lane->device, .highest = b->lane->device };
  for (int n = 0; n < b->lanes; n++) {
    const lane *l = &b->lane[n];
    out.still[n] = l->still + l->part * b->list->part_size + l->step * b->list->from_start;
    out.device[n] = l->device;
    if (l->device < out.lowest) out.lowest = l->device;
    if (l->device > out.highest) out.highest = l->device;
  }
  return out;
}

/* Lanes of other devices than a buffer's, each of which takes a word across. A device outside the
 * range of the lanes' devices is told from all at once. */
static int others_than(const word_lanes *lanes, int device)
{
  int others = 0;
  if (device < lanes->lowest || device > lanes->highest) return lanes->count;
  for (int n = 0; n < lanes->count; n++) others += lanes->device[n] != device;
  return others;
}

/* The buffers of the overlaps from number `at` on, as many as a list has; counts the words that
 * cross to other devices. */
static int64_t list_words(batch *b, const word_lanes *lanes, int at, word_list *out)
{
  const lane *first = b->lane;
  int64_t crossed = 0;
  out->count = 0;
  for (int i = at; i < b->overlaps && i < at + FEW_BUFFERS; i++) {
    const tsr__buffer *from = first->from[b->list[i].offset];
    look_ahead(b, i);
    b->missed |= !from;
    if (!from) continue;
    crossed += others_than(lanes, from->device);
    out->from[out->count] = tsr__cpu_data(from);
    out->to[out->count++] = first->to_step * b->list[i].to_start;
  }
  return crossed;
}

/* Few buffers at once, a lane after the other: parts of one size often begin at the same place of
 * the cache, where it has no room for a line of each lane. */
static bool copy_word_lanes(batch *b)
{
  const lane *first = b->lane;
  int64_t crossed = 0, word = first->lines ? first->length * b->list->size : first->length;
  word_lanes lanes = word_lanes_of(b);
  word_list list;
  for (int i = 0; i < b->overlaps; i += FEW_BUFFERS) {
    crossed += list_words(b, &lanes, i, &list);
    for (int n = 0; n < b->lanes; n++) copy_list(&list, b->lane[n].to, lanes.still[n], word);
  }
  b->lane->crossed += word * crossed;
  return batch_goes_on(b, first->job, word * b->overlaps * b->lanes);
}

/* Pieces of any length. All lanes take their pieces of one overlap before the next overlap, so that
 * a line of memory that the first lane brings is still near when the last one reads it. */
static bool copy_unlike(batch *b)
{
  bool on = true;
  for (int i = 0; i < b->overlaps && on; i++) {
    int64_t bytes = 0;
    look_ahead(b, i);
    for (lane *l = b->lane; l < b->lane + b->lanes; l++) {
      if (l->job->slab_dim == b->dim) {
        tsr__overlap some = in_slab(l->job, b->dim, &b->list[i]);
        if (some.size > 0) bytes += copy_piece_runs(b, l, &some);
      } else {
        bytes += copy_piece_runs(b, l, &b->list[i]);
      }
    }
    on = batch_goes_on(b, b->lane[0].job, bytes);
  }
  return on;
}

/* All lanes take their pieces of an overlap before any goes on to the next. */
static bool copy_lanes(batch *b)
{
  if (!b->lanes) return true;
  find_scouts(b);
  bool on = are_words(b) ? copy_word_lanes(b) : copy_unlike(b);
  for (int n = 0; n < b->lanes && b->traffic; n++) b->traffic->bytes += b->lane[n].crossed;
  b->lanes = 0;
  return on;
}

/* ---- walks ----------------------------------------------------------------------------------- */

/* The dim with most overlaps; the last of several, whose runs are the longest. */
static int walked_dim(const tsr__piece_grid *pieces)
{
  int dim = 0;
  for (int d = 1; d < pieces->rank; d++)
    if (pieces->counts[d] >= pieces->counts[dim]) dim = d;
  return dim;
}

/* Puts the other dims at their overlaps number `index`. False: one of them has no overlap in
 * the slab. */
static bool stand_at(walk *w, const int *index)
{
  const tsr__piece_grid *pieces = &w->job->pieces;
  for (int d = 0; d < pieces->rank; d++) {
    w->at[d] = in_slab(w->job, d, &pieces->overlaps[d][index[d]]);
    if (d != w->dim && w->at[d].size <= 0) return false;
  }
  find_form(w);
  find_walk_places(w);
  return true;
}

/* An odometer over the dims that stand still: after its end the last dim begins again, and the dim
 * before it goes on. False: all are through. */
static bool next_index(const walk *w, int *index)
{
  const tsr__piece_grid *pieces = &w->job->pieces;
  for (int d = pieces->rank - 1; d >= 0; d--) {
    if (d == w->dim) continue;
    if (++index[d] < pieces->counts[d]) return true;
    index[d] = 0;
  }
  return false;
}

/* A lane is a walk with its strides in bytes. The lane's buffers are counted from the position
 * where the walk stands, so that the offset of an overlap alone finds the buffer of a piece. */
static void add_lane(batch *b, const walk *w)
{
  const tsr__assembly *job = w->job;
  int64_t size = (int64_t)tsr_dtype_size(job->dtype);
  b->dim = w->dim;
  b->list = job->pieces.overlaps[w->dim];
  b->overlaps = job->pieces.counts[w->dim];
  b->lane[b->lanes++] = (lane){ .job = job,
                                .from = b->from + w->position,
                                .leader = job->pieces.leader - w->position,
                                .own = job->pieces.own - w->position,
                                .device = job->to->device,
                                .lines = w->form == LINE,
                                .to = (char *)tsr__cpu_data(job->to) + w->to_still * size,
                                .still = w->from_still * size,
                                .part = w->from_part * size,
                                .step = w->from_step * size,
                                .to_step = w->to_step * size,
                                .length = w->length * size,
                                .runs = w->runs,
                                .stride = w->from_stride * size,
                                .to_stride = w->to_stride * size };
}

/* Whether a walk goes beside those at hand, over the same overlaps. */
static bool goes_beside(const batch *b, const walk *w)
{
  const tsr__piece_grid *pieces = &w->job->pieces;
  return b->lanes && b->lanes < TSR__MOST_ASSEMBLED && b->dim == w->dim &&
         b->list == pieces->overlaps[w->dim] && b->overlaps == pieces->counts[w->dim];
}

/* The walks of a part; the last ones stay in the batch, where others may go beside them. */
static bool walk_part(batch *b, const tsr__assembly *job)
{
  walk w = { .job = job, .dim = walked_dim(&job->pieces) };
  int index[TSR_MAX_RANK] = { 0 };
  bool on = true;
  for (int d = 0; d < job->pieces.rank; d++)
    if (!job->pieces.counts[d]) return true;
  do {
    if (!stand_at(&w, index)) continue;
    if (!goes_beside(b, &w)) on = copy_lanes(b);
    if (!on) return false;
    if (w.form == BOX) on = copy_boxes(b, &w);
    else add_lane(b, &w);
  } while (on && next_index(&w, index));
  return on;
}

/* A scalar is an array of one element. */
static tsr__assembly as_array(const tsr__assembly *job)
{
  static const tsr__overlap one = { 1, 0, 0, 1, 0 };
  tsr__assembly out = *job;
  out.pieces.rank = out.pieces.counts[0] = 1;
  out.pieces.overlaps[0] = &one;
  out.to_dims[0] = 1;
  return out;
}

bool tsr__cpu_assemble(const tsr__assembly *parts, int count, tsr__buffer *const *from,
                       tsr__traffic *traffic)
{
  bool on = true;
  batch b; /* its lanes are written as they are added */
  b.from = from;
  b.traffic = traffic;
  b.left = ASK_AFTER;
  b.missed = false;
  b.lanes = 0;
  for (int i = 0; i < count && on; i++) {
    tsr__assembly scalar;
    if (!parts[i].pieces.rank) {
      scalar = as_array(&parts[i]);
      on = walk_part(&b, &scalar) && copy_lanes(&b);
    } else {
      on = walk_part(&b, &parts[i]);
    }
  }
  if (on) copy_lanes(&b);
  if (count && parts->streams) tsr__put_done();
  return !b.missed;
}
