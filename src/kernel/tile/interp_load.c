/* Operands that do not lie like the domain, and values made from positions.
 *
 * All of them go run by run along the innermost dim that the operand treats alike: a run is copied
 * or filled at once. A position is always counted within the device's part, in C order. */
#include "kernel/tile/interp.h"

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

/* ---- broadcast operands ---------------------------------------------------------------------- */

/* A run on its way into a tile; `still`: one element, repeated. */
typedef struct piece {
  void *to;
  const void *from;
  int64_t at, offset, n; /* elements: where in the tile, where in the operand, how many */
  int dtype;
  bool still;
} piece;

static void load_bits(const piece *p)
{
  if (!p->still) {
    tsr__bits_copy(p->to, p->at, p->from, p->offset, p->n);
    return;
  }
  uint64_t all = 0 - tsr__bits_get(p->from, p->offset, 1);
  for (int64_t i = 0; i < p->n; i += 64)
    tsr__bits_put(p->to, p->at + i, p->n - i < 64 ? (int)(p->n - i) : 64, all);
}

#define REPEAT(T)                                                                                  \
  {                                                                                                \
    T value;                                                                                       \
    memcpy(&value, in, sizeof value);                                                              \
    for (int64_t i = 0; i < n; i++) memcpy(out + i * (int64_t)sizeof value, &value, sizeof value); \
    break;                                                                                         \
  }

/* One element n times. */
static void repeat(char *out, const char *in, size_t size, int64_t n)
{
  switch (size) {
  case 1: memset(out, *(const unsigned char *)in, (size_t)n); break;
  case 2: REPEAT(int16_t)
  case 4: REPEAT(int32_t)
  default: REPEAT(int64_t)
  }
}

static void load_run(const piece *p)
{
  if (p->dtype == TSR_BOOL) {
    load_bits(p);
    return;
  }
  size_t size = tsr_dtype_size((tsr_dtype)p->dtype);
  char *out = (char *)p->to + (size_t)p->at * size;
  const char *in = (const char *)p->from + (size_t)p->offset * size;
  if (!p->still) memcpy(out, in, (size_t)p->n * size);
  else repeat(out, in, size, p->n);
}

void tsr__do_load(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n)
{
  const tsr__loadinfo *info = &task->kernel->loads[inst->extra];
  const tsr__walk *walk = &task->loads[inst->extra];
  piece p = { .to = task->slot[inst->out],
              .from = task->part->inputs[info->input]->data,
              .dtype = inst->dtype,
              .still = walk->step[walk->rank - 1] == 0 };
  for (p.at = 0; p.at < n; p.at += p.n) {
    p.offset = tsr__walk_at(walk, at + p.at, &p.n);
    if (p.n > n - p.at) p.n = n - p.at;
    load_run(&p);
  }
}

/* ---- positions ------------------------------------------------------------------------------- */

/* The place in the global array of element `at` of the part, by the dims of a node; `*left`: how
 * many elements from there on are neighbours in both. */
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
    if (whole) {
      offset += here * run;
      run *= task->size[d];
      *left = run - offset;
      whole = task->size[d] == g->dims[d];
    }
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
    int64_t place = global_at(task, g, at + i, &left);
    if (left > n - i) left = n - i;
    if (inst->dtype == TSR_F64) task->tiles->uniform_f64((double *)to + i, place, left, key);
    else task->tiles->uniform_f32((float *)to + i, place, left, key);
  }
}

/* ---- tables ---------------------------------------------------------------------------------- */

static int64_t table_size(const tsr__task *task, const tsr__gnode *table, int dim, int input)
{
  if (table->dims[dim] >= 0) return table->dims[dim];
  return (int64_t)(task->part->inputs[input]->bytes / tsr_dtype_size((tsr_dtype)table->dtype));
}

/* Wraps a negative index; one out of range is noted (the first of the run counts) and becomes 0. */
static int64_t checked(tsr__task *task, const tsr__gnode *g, int64_t index, int64_t limit,
                       int64_t at)
{
  if (index >= 0 && index < limit) return index;
  if (index < 0 && index + limit >= 0) return index + limit;
  int64_t left, place = global_at(task, g, at, &left);
  if (!task->fault.set || place < task->fault.position)
    task->fault = (tsr__fault){ .set = true, .position = place, .value = index, .limit = limit };
  return 0;
}

static void take_piece(const piece *p)
{
  if (p->n > 1 || p->dtype == TSR_BOOL) {
    load_run(p);
    return;
  }
  switch (tsr_dtype_size((tsr_dtype)p->dtype)) {
  case 1: ((int8_t *)p->to)[p->at] = ((const int8_t *)p->from)[p->offset]; break;
  case 2: ((int16_t *)p->to)[p->at] = ((const int16_t *)p->from)[p->offset]; break;
  case 4: ((int32_t *)p->to)[p->at] = ((const int32_t *)p->from)[p->offset]; break;
  default: ((int64_t *)p->to)[p->at] = ((const int64_t *)p->from)[p->offset];
  }
}

/* out[a, i, b] = table[a, index[i], b]: runs along b. */
void tsr__do_take(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n)
{
  const tsr__sourceinfo *info = &task->kernel->sources[inst->extra];
  const tsr__gnode *g = &task->program->nodes[info->node];
  const tsr__gnode *table = &task->program->nodes[tsr__in(task->program, g, 0)];
  int64_t entries = table_size(task, table, info->dim, info->input), inner = 1, middle = 1;
  for (int d = 0; d < task->kernel->rank; d++) {
    if (d >= info->dim + info->span) inner *= task->size[d];
    else if (d >= info->dim) middle *= task->size[d];
  }
  const void *from = task->part->inputs[info->input]->data;
  const int64_t *index = task->slot[inst->in[0]];
  void *to = task->slot[inst->out];
  if (entries == 0) {
    memset(to, 0, tsr__device_bytes((tsr_dtype)inst->dtype, n));
    for (int64_t i = 0; i < n; i++) checked(task, g, index[i], 0, at + i);
    return;
  }
  for (int64_t i = 0, left; i < n; i += left) {
    int64_t b = (at + i) % inner, a = (at + i) / (inner * middle);
    left = inner - b < n - i ? inner - b : n - i;
    int64_t entry = checked(task, g, index[i], entries, at + i);
    take_piece(&(piece){ .to = to,
                         .from = from,
                         .at = i,
                         .n = left,
                         .dtype = inst->dtype,
                         .offset = (a * entries + entry) * inner + b });
  }
}

void tsr__do_search(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n)
{
  const tsr__sourceinfo *info = &task->kernel->sources[inst->extra];
  const tsr__gnode *g = &task->program->nodes[info->node];
  const tsr__gnode *table = &task->program->nodes[tsr__in(task->program, g, 0)];
  int64_t entries = table_size(task, table, 0, info->input);
  (void)at;
  task->tiles->search[table->dtype](task->slot[inst->out], task->slot[inst->in[0]], n,
                                    task->part->inputs[info->input]->data, entries);
}
