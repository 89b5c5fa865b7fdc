/* Operands that do not lie like the domain, and values made from positions.
 *
 * All of them go run by run along the innermost dim that the operand treats alike: a run is copied,
 * filled or gathered at once. A position is always counted within the device's part, in C order. */
#include "kernel/tile/interp.h"

#include "kernel/device/spaced.h"

/*   size 4 3 5, dim 1 reduced:      | 4, step 5 | 3, step 0 | 5, step 1 |
 *   size 4 3 5, dims 1 2 reduced:   | 4, step 1 | 15, step 0 |
 *
 * Neighbours of one kind are joined, so that runs are as long as can be; dims of size 1 are no
 * dims. */
void tsr__walk_make(tsr__walk *walk, int rank, const int64_t *size, uint32_t flat)
{
  int64_t step = 1;
  int64_t sizes[TSR_MAX_RANK], steps[TSR_MAX_RANK];
  int count = 0; /* innermost first, while joining */
  for (int d = rank - 1; d >= 0; d--) {
    bool still = flat >> d & 1;
    if (size[d] == 1) continue;
    if (count && (steps[count - 1] == 0) == still) {
      sizes[count - 1] *= size[d];
    } else {
      sizes[count] = size[d];
      steps[count++] = still ? 0 : step;
    }
    if (!still) step *= size[d];
  }
  /* A part of one element still has a dim to walk along. */
  if (!count) {
    sizes[0] = 1;
    steps[count++] = 0;
  }
  walk->rank = count;
  for (int i = 0; i < count; i++) {
    walk->size[i] = sizes[count - 1 - i];
    walk->step[i] = steps[count - 1 - i];
  }
}

/* The loop goes from the last dim on, until the rest of the index is 0. `*left`: how many elements
 * from there on lie as one run. */
int64_t tsr__walk_at(const tsr__walk *walk, int64_t at, int64_t *left)
{
  int last = walk->rank - 1;
  int64_t place = at % walk->size[last], offset = place * walk->step[last];
  *left = walk->size[last] - place;
  at /= walk->size[last];
  for (int d = last - 1; d >= 0 && at; d--) {
    offset += at % walk->size[d] * walk->step[d];
    at /= walk->size[d];
  }
  return offset;
}

/* ---- loads ----------------------------------------------------------------------------------- */

/* Per dim of the domain: the place of the operand's first element, and the step along each dim. A
 * dim of the operand that stands for a dim of the domain which is read backwards has a negative
 * step, and starts at its end. */
static void find_steps(const tsr__loadinfo *info, const int64_t *size, int64_t step[TSR_MAX_RANK],
                       int64_t *start)
{
  int64_t stride = 1;
  *start = 0;
  for (int k = info->rank - 1; k >= 0; k--) {
    const tsr__loaddim *dim = &info->dims[k];
    step[dim->dim] += dim->step * stride;
    *start += dim->start * stride;
    /* A dim that is passed on is as long as the device's part of the domain; any other is whole. */
    stride *= dim->size < 0 ? size[dim->dim] : dim->size;
  }
}

/* A dim of the domain as it is walked along. */
typedef struct stride {
  int64_t size, step, low, high;
} stride;

/* Whether the dims around `inner` continue it: then they are one. */
static bool joins(const stride *outer, const stride *inner)
{
  return inner->low == 0 && inner->high == inner->size && outer->step == inner->step * inner->size;
}

void tsr__loading_make(tsr__loading *l, const tsr__loadinfo *info, int rank, const int64_t *size)
{
  int64_t step[TSR_MAX_RANK] = { 0 };
  stride made[TSR_MAX_RANK + 1] = { { 1, 0, 0, 1 } }; /* innermost first */
  int count = 0;
  l->empty = l->bounded = false;
  find_steps(info, size, step, &l->start);
  for (int d = rank - 1; d >= 0; d--) {
    stride s = { size[d], step[d], info->low[d], info->high[d] };
    if (s.high > s.size) s.high = s.size;
    /* A piece that shows nothing on this device touches no tile. */
    l->empty = l->empty || s.low >= s.high;
    l->bounded = l->bounded || s.low > 0 || s.high < s.size;
    if (s.size == 1) continue;
    if (count && joins(&s, &made[count - 1])) {
      stride *inner = &made[count - 1];
      /* Bounds of the outer dim, counted in elements of both. */
      *inner =
          (stride){ s.size * inner->size, inner->step, s.low * inner->size, s.high * inner->size };
    } else {
      made[count++] = s;
    }
  }
  l->walk.rank = count ? count : 1;
  for (int i = 0; i < l->walk.rank; i++) {
    const stride *s = &made[l->walk.rank - 1 - i];
    l->walk.size[i] = s->size;
    l->walk.step[i] = s->step;
    l->low[i] = s->low;
    l->high[i] = s->high;
  }
}

/* A run on its way into a tile. */
typedef struct piece {
  void *to;
  const void *from;
  int64_t at, offset, n; /* elements: place in the tile, place in the operand, number */
  int64_t step;          /* between neighbours in the operand; 0: one element, repeated */
  int dtype;
  int64_t size; /* bytes of an element; 0: bits */
} piece;

static void load_bits(const piece *p)
{
  if (p->step == 1) {
    tsr__bits_copy(p->to, p->at, p->from, p->offset, p->n);
    return;
  }
  int64_t offset = p->offset;
  for (int64_t i = 0; i < p->n; i += 64) {
    int some = p->n - i < 64 ? (int)(p->n - i) : 64;
    /* One bit repeated is a word of zeros or of ones. */
    uint64_t word = p->step ? 0 : 0 - tsr__bits_get(p->from, offset, 1);
    for (int k = 0; k < some && p->step; k++, offset += p->step)
      word |= tsr__bits_get(p->from, offset, 1) << k;
    tsr__bits_put(p->to, p->at + i, some, word);
  }
}

/* Elements pass through memcpy, as both sides are bytes of some type. */
#define WORD_OF(T)                     \
  {                                    \
    T value;                           \
    memcpy(&value, in, sizeof value);  \
    return UINT64_MAX / (T)-1 * value; \
  }

/* Returns a word of copies of an element. UINT64_MAX / (T)-1 is a 1 in each place of T: 0x0101..
 * for bytes, 0x00010001.. of two. */
static uint64_t word_of_copies(const char *in, size_t size)
{
  switch (size) {
  case 1: WORD_OF(uint8_t)
  case 2: WORD_OF(uint16_t)
  case 4: WORD_OF(uint32_t)
  default: WORD_OF(uint64_t)
  }
}

typedef uint64_t pair __attribute__((vector_size(16), aligned(1), may_alias));

/* One element n times: two words, which every register holds, at once. Most are the zeros of
 * borders. */
static void repeat(char *out, const char *in, size_t size, int64_t n)
{
  const pair all = word_of_copies(in, size) - (pair){ 0 };
  size_t bytes = (size_t)n * size, done = 0;
  if (!all[0]) {
    memset(out, 0, bytes);
    return;
  }
  for (; done + sizeof all <= bytes; done += sizeof all) *(pair *)(void *)(out + done) = all;
  memcpy(out + done, &all, bytes - done);
}

/* Every `step`th element. */
static void load_spaced(const piece *p, size_t size)
{
  const char *from = (const char *)p->from + p->offset * (int64_t)size;
  tsr__put_spaced((char *)p->to + p->at * (int64_t)size, from, p->n, p->step, size);
}

/* Copies the run, repeats one element, or takes every `step`th. */
static void load_run(const piece *p)
{
  if (p->dtype == TSR_BOOL) {
    load_bits(p);
    return;
  }
  size_t size = tsr_dtype_size((tsr_dtype)p->dtype);
  char *out = (char *)p->to + (size_t)p->at * size;
  const char *in = (const char *)p->from + (size_t)p->offset * size;
  if (p->step == 1) memcpy(out, in, (size_t)p->n * size);
  else if (p->step == 0) repeat(out, in, size, p->n);
  else load_spaced(p, size);
}

/* The place of a walk: the index along each of its dims, and in the operand. */
typedef struct spot {
  int64_t index[TSR_MAX_RANK], offset;
  bool inside; /* all outer dims within their bounds */
} spot;

/* Whether the first `dims` indices are within their bounds. Asked once a line and not once an
 * element: only the innermost dim has its bounds cut into runs. */
static bool is_spot_within(const tsr__loading *l, const spot *p, int dims)
{
  bool inside = true;
  for (int d = 0; d < dims && l->bounded; d++)
    inside = inside && p->index[d] >= l->low[d] && p->index[d] < l->high[d];
  return inside;
}

static void look_inside(const tsr__loading *l, spot *p)
{
  p->inside = is_spot_within(l, p, l->walk.rank - 1);
}

static void find_spot(const tsr__loading *l, int64_t at, spot *p)
{
  p->offset = l->start;
  for (int d = l->walk.rank - 1; d >= 0; d--) {
    p->index[d] = at % l->walk.size[d];
    at /= l->walk.size[d];
    p->offset += p->index[d] * l->walk.step[d];
  }
  look_inside(l, p);
}

/* Goes on by `n` elements of a run. */
static void advance_spot(const tsr__loading *l, spot *p, int64_t n)
{
  const tsr__walk *w = &l->walk;
  int d = w->rank - 1;
  p->index[d] += n;
  p->offset += n * w->step[d];
  if (p->index[d] < w->size[d]) return;
  for (; d > 0 && p->index[d] == w->size[d]; d--) {
    /* Back to the line's start, and one on along the dim around it. */
    p->offset += w->step[d - 1] - w->size[d] * w->step[d];
    p->index[d] = 0;
    p->index[d - 1]++;
  }
  look_inside(l, p);
}

/* A run across the operand's lines. */
static void load_turned(tsr__loading *l, const spot *here, int64_t column, piece *p)
{
  int64_t n = p->n, size = l->size;
  for (int64_t some; n > 0; n -= some, column += some, p->at += some, p->offset += some * p->step) {
    const tsr__turn turn = { .to = (char *)p->to + p->at * size,
                             .from = p->from,
                             .offset = p->offset,
                             .row = here->index[l->walk.rank - 2],
                             .column = column,
                             .n = n };
    /* 0: the rest of the run is copied like any other. */
    some = tsr__turn_copy(l, &turn);
    if (some) continue;
    p->n = some = n;
    load_run(p);
  }
}

/* So many lines of so many bytes, and from each to the next in the tile and in the operand. */
typedef struct short_lines {
  char *to;
  const char *from;
  int64_t to_step, from_step, bytes, count;
} short_lines;

/* Most loads of pools and borders of images are short lines, and a call would take longer than one
 * of them. */
static void copy_lines(short_lines l)
{
  for (int64_t i = 0; i < l.count; i++, l.to += l.to_step, l.from += l.from_step) {
    int64_t at = 0;
    for (; at + 64 <= l.bytes; at += 64) memcpy(l.to + at, l.from + at, 64);
    if (at < l.bytes) memcpy(l.to + at, l.from + at, (size_t)(l.bytes - at));
  }
}

enum { SHORT_LINE = 1024 }; /* bytes */

/* Whether whole lines of a load are copied several at a time. */
static bool has_short_lines(const tsr__loading *l, const piece *p)
{
  int last = l->walk.rank - 1;
  return last > 0 && p->step == 1 && p->size && !l->turned &&
         l->walk.size[last] * p->size <= SHORT_LINE;
}

/* Whole lines from `here`, which begins one, along the dim around them: the tile has room for n
 * elements. Returns how many elements of the tile they are.
 *
 *   tile      | . . x x . | . . x x . | . . x x . |       x: low <= index < high
 *   operand     . . x x . . . x x . . . x x               a line is `step` from the next */
static int64_t load_tile_lines(const tsr__loading *l, piece p, spot *here, int64_t n)
{
  const tsr__walk *w = &l->walk;
  const int last = w->rank - 1, around = last - 1;
  const int64_t width = w->size[last], size = p.size, index = here->index[around];
  int64_t lines = n / width, low = l->low[last], high = l->high[last];
  if (lines > w->size[around] - index) lines = w->size[around] - index;
  int64_t first = l->low[around] > index ? l->low[around] - index : 0;
  int64_t end = l->high[around] - index < lines ? l->high[around] - index : lines;
  if (high > width) high = width;
  if (is_spot_within(l, here, around) && first < end && low < high)
    copy_lines((short_lines){ .to = (char *)p.to + (p.at + first * width + low) * size,
                              .from = (const char *)p.from +
                                      (here->offset + first * w->step[around] + low) * size,
                              .to_step = width * size,
                              .from_step = w->step[around] * size,
                              .bytes = (high - low) * size,
                              .count = end - first });
  here->index[around] += lines;
  here->offset += lines * w->step[around];
  for (int d = around; d > 0 && here->index[d] == w->size[d]; d--) {
    here->offset += w->step[d - 1] - w->size[d] * w->step[d];
    here->index[d] = 0;
    here->index[d - 1]++;
  }
  look_inside(l, here);
  return lines * width;
}

/* The part of a tile that one load is for, run by run. */
static void load_tile_piece(tsr__loading *l, piece p, int64_t first, int64_t n)
{
  int last = l->walk.rank - 1;
  spot here;
  p.step = l->walk.step[last];
  find_spot(l, first, &here);
  const bool lines = has_short_lines(l, &p);
  for (int64_t done = 0, run; done < n; done += run) {
    int64_t from = here.index[last], to = l->walk.size[last];
    if (lines && !from && to <= n - done) {
      p.at = done;
      run = load_tile_lines(l, p, &here, n - done);
      continue;
    }
    run = to - from < n - done ? to - from : n - done;
    /*   a run of the tile    | from .......... from + run |
     *   bounds                   low .......... high
     *   loaded                   [skip, to)                     other pieces load the rest */
    to = from + run < l->high[last] ? from + run : l->high[last];
    int64_t skip = from < l->low[last] ? l->low[last] - from : 0;
    p.at = done + skip;
    p.offset = here.offset + skip * p.step;
    p.n = to - from - skip;
    if (here.inside && p.n > 0 && l->turned) load_turned(l, &here, from + skip, &p);
    else if (here.inside && p.n > 0) load_run(&p);
    advance_spot(l, &here, run);
  }
}

void tsr__do_load(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n)
{
  int i = inst->extra;
  /* Pieces in order: later ones lie over earlier ones (kir.h). */
  for (bool more = true; more; i++) {
    const tsr__loadinfo *info = &task->kernel->loads[i];
    const void *from =
        info->input < 0 ? task->slot[info->fill] : tsr__cpu_data(task->part->inputs[info->input]);
    piece p = { .to = task->slot[inst->out], .from = from, .dtype = inst->dtype };
    if (p.dtype != TSR_BOOL) p.size = (int64_t)tsr_dtype_size((tsr_dtype)p.dtype);
    if (!task->loads[i].empty) load_tile_piece(&task->loads[i], p, at, n);
    more = info->more;
  }
}

/* ---- positions ------------------------------------------------------------------------------- */

/* The place in the global array of element `at` of the part, by the dims of a node; `*left`: how
 * many elements from there on are neighbours in both.
 *
 *   part [2, 3] of [4, 6] from (2, 3) on, element 4: (1, 1) here, (3, 4) there: place 22, 2 left */
static int64_t global_at(const tsr__task *task, const tsr__gnode *g, int64_t at, int64_t *left)
{
  int64_t step = 1, place = 0, run = 1;
  bool whole = true; /* all inner dims are held whole */
  *left = 1;
  int64_t offset = 0;
  for (int d = g->rank - 1; d >= 0; d--) {
    int64_t here = task->size[d] ? at % task->size[d] : 0;
    at = task->size[d] ? at / task->size[d] : 0;
    place += (task->part->box.start[d] + here) * step;
    /* Neighbours in the part are neighbours in the whole up to the first dim that is cut. */
    if (whole) {
      offset += here * run;
      run *= task->size[d];
      *left = run - offset;
      whole = task->size[d] == g->dims[d];
    }
    /* A dim known at run time is dim 0, the last here, whose step is not multiplied any more. */
    step *= g->dims[d] > 0 ? g->dims[d] : task->size[d];
  }
  return place;
}

#define IOTA(T) \
  for (int64_t i = 0; i < count; i++) ((T *)to)[done + i] = (T)(first + (inner == 1 ? i : 0))

void tsr__do_iota(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n)
{
  int dim = task->kernel->sources[inst->extra].dim;
  int64_t inner = 1, size = task->size[dim];
  for (int d = dim + 1; d < task->kernel->rank; d++) inner *= task->size[d];
  void *to = task->slot[inst->out];
  for (int64_t done = 0, count; done < n; done += count) {
    int64_t p = at + done, place = p / inner % size;
    int64_t first = task->part->box.start[dim] + place;
    /* Along the last dim numbers count up; along another all of a run have one number. */
    count = inner == 1 ? size - place : inner - p % inner;
    if (count > n - done) count = n - done;
    switch (inst->dtype) {
    case TSR_I32: IOTA(int32_t); break;
    case TSR_I64: IOTA(int64_t); break;
    case TSR_U32: IOTA(uint32_t); break;
    case TSR_U64: IOTA(uint64_t); break;
    case TSR_F32: IOTA(float); break;
    default: IOTA(double);
    }
  }
}

void tsr__do_uniform(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n)
{
  const tsr__gnode *g = &task->program->nodes[task->kernel->sources[inst->extra].node];
  const tsr__num *param = &task->program->params[g->param];
  const int64_t key[2] = { param[0].i, param[1].i };
  void *to = task->slot[inst->out];
  for (int64_t i = 0, left; i < n; i += left) {
    /* Drawn by the place in the whole array, so that no mesh shows in random numbers. */
    int64_t place = global_at(task, g, at + i, &left);
    if (left > n - i) left = n - i;
    if (inst->dtype == TSR_F64) task->tiles->uniform_f64((double *)to + i, place, left, key);
    else task->tiles->uniform_f32((float *)to + i, place, left, key);
  }
}

/* ---- tables ---------------------------------------------------------------------------------- */

static int64_t entries_of_table(const tsr__task *task, const tsr__gnode *table, int dim, int input)
{
  if (table->dims[dim] >= 0) return table->dims[dim];
  /* Rows known at run time: the buffer tells how many there are. */
  return (int64_t)(task->part->inputs[input]->bytes / tsr_dtype_size((tsr_dtype)table->dtype));
}

/* Wraps a negative index; one out of range is noted (the first of the run counts) and becomes 0.
 * The run goes on, with an element that is there, and fails at its end: tasks cannot be stopped by
 * each other, and the reported fault must not depend on which task was first. The first fault by
 * position is reported, whatever order tasks meet them in (tsr__fault_before). */
static int64_t checked(tsr__task *task, int node, int64_t index, int64_t limit, int64_t at)
{
  if (index >= 0 && index < limit) return index;
  if (index < 0 && index + limit >= 0) return index + limit;
  int64_t left, place = global_at(task, &task->program->nodes[node], at, &left);
  tsr__fault fault = { true, node, place, index, limit };
  if (tsr__fault_before(&fault, &task->fault)) task->fault = fault;
  return 0;
}

void tsr__do_within(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n)
{
  int node = task->kernel->sources[inst->extra].node;
  const tsr__gnode *g = &task->program->nodes[node];
  const tsr__within_attr *of = (const void *)(task->program->attrs + g->attr);
  const int64_t *index = task->slot[inst->in[0]];
  int64_t *to = task->slot[inst->out];
  for (int64_t i = 0; i < n; i++) to[i] = checked(task, node, index[i], of->size, at + i);
}

/* One element is stored without the calls that a run takes: look-ups with an index each have no
 * longer runs. */
static void take_table_piece(const piece *p)
{
  if (p->n > 1 || p->dtype == TSR_BOOL) {
    load_run(p); /* neighbours: its step is 1 */
    return;
  }
  switch (tsr_dtype_size((tsr_dtype)p->dtype)) {
  case 1: ((int8_t *)p->to)[p->at] = ((const int8_t *)p->from)[p->offset]; break;
  case 2: ((int16_t *)p->to)[p->at] = ((const int16_t *)p->from)[p->offset]; break;
  case 4: ((int32_t *)p->to)[p->at] = ((const int32_t *)p->from)[p->offset]; break;
  default: ((int64_t *)p->to)[p->at] = ((const int64_t *)p->from)[p->offset];
  }
}

/* out[a, i, b] = table[a, index[i], b]: runs along b; batch dims are the first of a. If each
 * element has an index of its own, out[a, i, b] = table[a, index[a, i, b], b], a run is one. */
void tsr__do_take(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n)
{
  const tsr__sourceinfo *info = &task->kernel->sources[inst->extra];
  const tsr__gnode *g = &task->program->nodes[info->node];
  const tsr__gnode *table = &task->program->nodes[tsr__in(task->program, g, 0)];
  int64_t entries = entries_of_table(task, table, info->dim, info->input), inner = 1, middle = 1;
  for (int d = info->dim; d < info->dim + tsr__more_of(task->program, g); d++)
    /* Dims that are looked into as one are so many entries. */
    entries *= table->dims[d + 1];
  bool each = tsr__ops[g->op].each_line;
  for (int d = 0; d < task->kernel->rank; d++) {
    if (d >= info->dim + info->span) inner *= task->size[d];
    else if (d >= info->dim) middle *= task->size[d];
  }
  const void *from = tsr__cpu_data(task->part->inputs[info->input]);
  const int64_t *index = task->slot[inst->in[0]];
  void *to = task->slot[inst->out];
  /* An empty table has no element 0 to take for indices out of range, and every index is out of
   * range. */
  if (entries == 0) {
    memset(to, 0, tsr__device_bytes((tsr_dtype)inst->dtype, n));
    for (int64_t i = 0; i < n; i++) checked(task, info->node, index[i], 0, at + i);
    return;
  }
  for (int64_t i = 0, left; i < n; i += left) {
    int64_t b = (at + i) % inner, a = (at + i) / (inner * middle);
    left = each ? 1 : inner - b < n - i ? inner - b : n - i;
    int64_t entry = checked(task, info->node, index[i], entries, at + i);
    take_table_piece(&(piece){ .to = to,
                               .from = from,
                               .at = i,
                               .n = left,
                               .step = 1,
                               .dtype = inst->dtype,
                               .offset = (a * entries + entry) * inner + b });
  }
}

void tsr__do_search(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n)
{
  const tsr__sourceinfo *info = &task->kernel->sources[inst->extra];
  const tsr__gnode *g = &task->program->nodes[info->node];
  const tsr__gnode *table = &task->program->nodes[tsr__in(task->program, g, 0)];
  int64_t entries = entries_of_table(task, table, 0, info->input);
  (void)at;
  task->tiles->search[table->dtype](task->slot[inst->out], task->slot[inst->in[0]], n,
                                    tsr__cpu_data(task->part->inputs[info->input]), entries);
}
