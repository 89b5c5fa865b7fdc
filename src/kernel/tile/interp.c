/* Running a kernel on all local devices.
 *
 *   parts     one a device: its share of the domain
 *   tasks     stretches of parts, handed to the workers; small runs are done by the caller
 *   tiles     1,024 elements of a task: all instructions are done on a tile before the next
 *
 * Invariant: a task writes only its own elements of results. Accumulators are written in place
 * where one task has a device's elements (or its own rows of outputs), else each task has its own,
 * which it joins to the device's under a lock; joining is exact, so the order cannot show. */
#include "kernel/tile/interp.h"

#include <stdio.h>

enum {
  SMALL_RUN = 32768,    /* elements that are not worth waking a worker for */
  LEAST_CHUNK = 16384,  /* elements of a task */
  ROW_SUM = 64,         /* elements that take as long as the end of a row that is reduced */
  MOST_CHUNK = 2097152, /* smaller ones cost 15 % of a sum: each starts with cold lines */
  STREAM_BYTES = 4096,  /* taken at a time from memory that streams: this, the next and registers,
                           which lie in the same sets, fit an L1 of 32 KB */
  STREAM_PIECE = 256,   /* and the least elements */
  STREAM_INSTS = 24,    /* bodies longer than this wait for arithmetic, not for memory */
  STREAMED_BYTES = 16 << 20, /* results of so many bytes are not kept in the caches */
  ASK_AFTER = 1 << 20,       /* instructions of an element between two looks at the callback */
  CELL = 128                 /* bytes of a uniform: a bool is spread over a tile */
};

#define REGISTER_BYTES ((size_t)TSR__TILE * 8)
#define OWN_BYTES ((size_t)8 << 20) /* accumulators that a task may have of its own */

/* A part cut into tasks. */
typedef struct cut {
  int64_t count, chunk, tasks, first;
} cut;

struct tsr__job {
  const tsr__run *run;
  const tsr__tiles *tiles;
  cut *cuts;
  int64_t total; /* elements of all parts */
  bool alone;    /* the caller does everything: accumulators are written in place */
  pthread_mutex_t lock;
  tsr__fault fault;
  bool failed; /* out of memory */
  tsr__progress progress;
};

/* ---- working memory -------------------------------------------------------------------------- */

static size_t aligned_bytes(size_t bytes)
{
  return (bytes + 63) & ~(size_t)63;
}

/* Memory is carved off in order, each piece at a line of the cache of its own. */
typedef struct bump {
  unsigned char *at;
} bump;

static void *carve(bump *b, size_t bytes)
{
  void *memory = b->at;
  b->at += aligned_bytes(bytes);
  return memory;
}

/* In the order in which open_task carves: a line added there needs one here. One block a stretch,
 * from the runtime's kept ones: running a kernel allocates nothing in steady state.
 *
 *   pointers | moving | loads | reds | codes | uniforms | registers, stages | blocks | accumulators
 */
static size_t scratch_bytes(const tsr__kernel *k, size_t own)
{
  size_t blocks = 0;
  for (int i = 0; i < k->load_count; i++)
    if (tsr__turn_may(&k->loads[i], k->rank)) blocks += aligned_bytes(tsr__turn_bytes());
  return blocks + aligned_bytes(((size_t)k->slot_count + 1) * sizeof(void *)) +
         aligned_bytes((size_t)k->slot_count * sizeof(tsr__moving)) +
         aligned_bytes((size_t)k->load_count * sizeof(tsr__loading)) +
         aligned_bytes((size_t)k->red_count * sizeof(tsr__reducing)) +
         aligned_bytes(TSR__TILE * sizeof(int32_t)) + (size_t)k->uniform_count * CELL +
         ((size_t)k->reg_count + (size_t)k->io.output_count) * REGISTER_BYTES + own + 64;
}

/* ---- uniforms -------------------------------------------------------------------------------- */

/* A uniform is one element, but of a bool a whole tile of bits, as bool tiles are read as bits. */
static void fill_cell(void *cell, int dtype, tsr__num value)
{
  int32_t narrow = (int32_t)value.i;
  float real = (float)value.f;
  uint64_t all = 0 - (uint64_t)(value.i != 0);
  switch (dtype) {
  case TSR_BOOL:
    for (int i = 0; i < TSR__TILE / 64; i++) memcpy((char *)cell + 8 * i, &all, 8);
    break;
  case TSR_I32: memcpy(cell, &narrow, sizeof narrow); break;
  case TSR_F32: memcpy(cell, &real, sizeof real); break;
  default: memcpy(cell, &value, sizeof value);
  }
}

/* A result may lie in the memory of an operand that is given up (tsr__kernel_reads_own): then whole
 * tiles are computed in a register first, so that no instruction reads an element that an earlier
 * one wrote. */
static bool is_input(const tsr__task *task, const void *memory)
{
  const tsr__kernel_io *io = &task->kernel->io;
  for (int i = 0; i < io->input_count; i++)
    if (tsr__cpu_data(task->part->inputs[i]) == memory) return true;
  return false;
}

/* A slot that moves. Results of many bytes go past the caches, by way of a register at `*stages`:
 * reading their lines only to overwrite them would cost half as much again. A bool has size 0
 * here: it lies eight elements a byte. */
static tsr__moving move_slot(const tsr__task *task, int slot, void *memory, unsigned char **stages)
{
  const tsr__slotinfo *info = &task->kernel->slots[slot];
  tsr__moving m = { .base = memory, .slot = slot, .input = info->kind == TSR__SLOT_INPUT };
  if (info->dtype != TSR_BOOL) m.size = (int32_t)tsr_dtype_size((tsr_dtype)info->dtype);
  /* The whole run decides and not the part: eight devices of one machine share its caches. */
  bool large = task->job->total * m.size >= STREAMED_BYTES && (uintptr_t)memory % 64 == 0;
  m.shared = !m.input && is_input(task, memory);
  if (m.input || (!large && !m.shared)) return m;
  m.stage = (char *)*stages;
  *stages += REGISTER_BYTES;
  return m;
}

/* Points the slots that are the same for all parts to their memory. */
static void place_own(tsr__task *task, unsigned char *cells)
{
  const tsr__kernel *k = task->kernel;
  for (int s = 0; s < k->slot_count; s++) {
    const tsr__slotinfo *info = &k->slots[s];
    unsigned char *cell = info->uniform < 0 ? NULL : cells + (size_t)info->uniform * CELL;
    task->slot[s] = cell;
    if (info->kind == TSR__SLOT_REG)
      task->slot[s] = task->registers + (size_t)info->index * REGISTER_BYTES;
    else if (info->kind == TSR__SLOT_PARAM)
      fill_cell(cell, info->dtype, task->program->params[info->index]);
    else if (info->kind == TSR__SLOT_CONST)
      fill_cell(cell, info->dtype, k->consts[info->index].value);
  }
}

/* And those that lie in a part's buffers; those that move get their base. Registers are followed by
 * one for each result. */
static void place_part(tsr__task *task)
{
  const tsr__kernel *k = task->kernel;
  const tsr__run_part *part = task->part;
  unsigned char *stages = task->registers + (size_t)k->reg_count * REGISTER_BYTES;
  task->moving_count = 0;
  for (int s = 0; s < k->slot_count; s++) {
    const tsr__slotinfo *info = &k->slots[s];
    bool output = info->kind == TSR__SLOT_OUTPUT;
    /* An operand of one element is read where it lies. */
    if (!output && info->kind != TSR__SLOT_INPUT && info->kind != TSR__SLOT_ONE) continue;
    void *memory = tsr__cpu_data((output ? part->outputs : part->inputs)[info->index]);
    task->slot[s] = memory;
    if (info->kind != TSR__SLOT_ONE)
      task->moving[task->moving_count++] = move_slot(task, s, memory, &stages);
  }
}

/* A load that turns dims around has a block of its own, in which a tile's worth of the operand is
 * put right. */
static void place_loads(tsr__task *task, bump *memory)
{
  const tsr__kernel *k = task->kernel;
  for (int i = 0; i < k->load_count; i++) {
    const tsr__loadinfo *info = &k->loads[i];
    tsr__loading *l = &task->loads[i];
    tsr__loading_make(l, info, k->rank, task->size);
    l->block = NULL;
    if (!tsr__turn_may(info, k->rank)) continue;
    int dtype = task->program->nodes[k->io.inputs[info->input]].dtype;
    l->size = dtype == TSR_BOOL ? 0 : (int32_t)tsr_dtype_size((tsr_dtype)dtype);
    l->block = carve(memory, tsr__turn_bytes());
  }
  tsr__turn_plan(task);
}

/* ---- accumulators ---------------------------------------------------------------------------- */

/* Tasks of a part have outputs of their own if the outermost dim is kept. Then a task's elements
 * go to outputs that no other task has, as long as its stretch is a whole number of rows
 * (own_bytes sees to that). */
static bool splits(const tsr__reducing *red)
{
  return red->walk.step[0] != 0;
}

/* The device's accumulators, but escapes of the task's own. The parts lie in the device's memory,
 * of which the task writes only its own; the list of escapes, which grows as other tasks end, can
 * be neither shared nor read. */
static void borrow_rows(tsr__partial *own, const tsr__partial *device)
{
  *own = (tsr__partial){ .rt = device->rt,
                         .device = device->device,
                         .row = device->row,
                         .dtype = device->dtype,
                         .ops = device->ops,
                         .count = device->count,
                         .bytes = device->bytes,
                         .data = device->data };
  for (int i = 0; i < 2; i++) {
    const tsr__rows *rows = &device->rows[i];
    tsr__rows_over(&own->rows[i], rows->heap, rows->part[0], rows->count);
  }
}

static void number_places(const tsr__task *task, const tsr__redinfo *info, tsr__places *places)
{
  const tsr__kernel *k = task->kernel;
  const int64_t *dims = task->program->nodes[k->io.domain].dims;
  int64_t step = 1;
  places->rank = k->rank;
  places->size = task->size;
  places->start = task->part->box.start;
  for (int d = k->rank - 1; d >= 0; d--) {
    bool reduced = info->codes >= 0 || info->dims >> d & 1;
    /* The place of an element among those reduced with it, counted over the whole array: a part's
     * start is added from its box. */
    places->step[d] = reduced ? step : 0;
    if (reduced) step *= dims[d]; /* only dim 0 may be unknown, and nothing lies before it */
  }
}

static void place_reductions(tsr__task *task, bump *memory, bool in_place)
{
  const tsr__kernel *k = task->kernel;
  const tsr__guess *guesses = task->job->run->guesses;
  for (int i = 0; i < k->red_count; i++) {
    const tsr__redinfo *info = &k->reds[i];
    tsr__reducing *red = &task->reds[i];
    tsr__partial *device = task->part->partials[i];
    red->to = device;
    red->grid = (tsr__grid){ .exponent = atomic_load_explicit(&guesses[info->accum],
                                                              memory_order_relaxed) };
    if (device->ops->places) number_places(task, info, &red->places);
    uint32_t all = (1u << k->rank) - 1;
    tsr__walk_make(&red->walk, k->rank, task->size, info->codes >= 0 ? all : info->dims);
    /* No other task writes to the accumulator, or none writes to those outputs. */
    if (in_place || (splits(red) && !device->ops->rows)) continue;
    if (splits(red)) {
      borrow_rows(&red->own, device);
      red->to = &red->own;
      continue;
    }
    /* The task's accumulator lies in its own memory and begins with "none"; the device's begins
     * when it is made. */
    red->own = (tsr__partial){ .rt = device->rt, .device = -1 };
    tsr__partial_plan(&red->own, device->row, device->dtype, device->count);
    red->own.data = carve(memory, red->own.bytes);
    tsr__partial_start(&red->own, &device->rt->heap);
    red->to = &red->own;
  }
}

/* Only escapes: the parts were written in place. */
static bool join_escapes(tsr__partial *into, const tsr__partial *from)
{
  bool good = true;
  for (int k = 0; k < 2; k++) {
    for (size_t i = 0; i < from->rows[k].escape_count; i++)
      tsr__rows_escape(&into->rows[k], from->rows[k].escape[i].element,
                       &from->rows[k].escape[i].sum);
    good = good && !from->rows[k].failed && !into->rows[k].failed;
  }
  return good;
}

/* Leaves this run's guess about the size of the values to the next run. The last writer wins: a
 * guess is only where to begin (exact_tile.c), and no bit of a result depends on it. */
static void keep_guesses(const tsr__task *task)
{
  const tsr__kernel *k = task->kernel;
  tsr__guess *guesses = task->job->run->guesses;
  for (int i = 0; i < k->red_count; i++)
    atomic_store_explicit(&guesses[k->reds[i].accum], task->reds[i].grid.exponent,
                          memory_order_relaxed);
}

/* Joins a task's own accumulators to the device's. */
static bool join_reductions(tsr__task *task)
{
  bool good = true;
  for (int i = 0; i < task->kernel->red_count; i++) {
    tsr__reducing *red = &task->reds[i];
    if (red->to != &red->own) continue;
    tsr__partial *device = task->part->partials[i];
    if (splits(red)) good = join_escapes(device, &red->own) && good;
    else good = tsr__partial_merge(device, &red->own, task->tiles) && good;
    tsr__partial_stop(&red->own);
  }
  return good;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* These instructions need the tile's place in the part; all others see slots only. */
static void do_special_inst(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n)
{
  switch (inst->op) {
  case TSR__K_LOAD: tsr__do_load(task, inst, at, n); break;
  case TSR__K_IOTA: tsr__do_iota(task, inst, at, n); break;
  case TSR__K_UNIFORM: tsr__do_uniform(task, inst, at, n); break;
  case TSR__K_TAKE: tsr__do_take(task, inst, at, n); break;
  case TSR__K_SEARCH: tsr__do_search(task, inst, at, n); break;
  case TSR__K_WITHIN: tsr__do_within(task, inst, at, n); break;
  default: tsr__do_reduce(task, inst, at, n);
  }
}

/* The next tile's inputs are fetched a few lines an instruction, so that memory is never idle. */
typedef struct fetch {
  const char *at[16];
  int64_t lines[16];
  int count, now, step;
} fetch;

/* At most sixteen inputs are fetched ahead; a kernel of more waits for memory in the rest of
 * them. */
static void fetch_plan(fetch *f, const tsr__task *task, int64_t at, int64_t n, int insts)
{
  int64_t total = 0;
  f->count = f->now = 0;
  for (int i = 0; i < task->moving_count && f->count < 16; i++) {
    const tsr__moving *m = &task->moving[i];
    /* Bools are so few bytes that the hardware's own prefetching does. */
    if (!m->input || !m->size) continue;
    f->at[f->count] = m->base + at * m->size;
    f->lines[f->count] = n * m->size / 64;
    total += f->lines[f->count++];
  }
  /* Lines an instruction, so that fetching ends with the tile's last one. */
  f->step = (int)((total + insts - 1) / insts);
}

/* Whether it is of use. One operand alone the processor fetches ahead of itself, and a burst of
 * lines asked for between instructions would only be waited for; small operands are in the
 * cache. */
static bool asks_ahead(const tsr__task *task)
{
  int operands = 0;
  for (int i = 0; i < task->moving_count; i++)
    operands += task->moving[i].input && task->moving[i].size;
  return !task->job->alone && operands > 1;
}

static inline void fetch_some(fetch *f)
{
  for (int left = f->step; left > 0 && f->now < f->count;) {
    int64_t some = f->lines[f->now] < left ? f->lines[f->now] : left;
    const char *at = f->at[f->now];
    for (int64_t i = 0; i < some; i++) __builtin_prefetch(at + 64 * i, 0, 3);
    f->at[f->now] = at + 64 * some;
    f->lines[f->now] -= some;
    if (!f->lines[f->now]) f->now++;
    left -= (int)some;
  }
}

static inline void do_inst(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n)
{
  void **slot = task->slot;
  /* The enumeration lists special instructions after the pure ones (kir.h). */
  if (inst->op >= TSR__K_LOAD) {
    do_special_inst(task, inst, at, n);
    return;
  }
  const tsr__stretch span = { (int32_t)n, inst->scalar };
  task->tiles->fn[inst->op][inst->dtype](slot[inst->out], slot[inst->in[0]], slot[inst->in[1]],
                                         slot[inst->in[2]], span);
}

/* Elements of a tile. Operands that stream from memory are taken in pieces, so that one being
 * fetched and one being worked on fit the nearest cache; operands in the cache, and long bodies,
 * take whole tiles, which cost fewer calls. Multiples of STREAM_PIECE keep every piece a whole
 * number of vectors and of bool words. */
static int64_t tile_step(const tsr__task *task, bool streams)
{
  const tsr__kernel *k = task->kernel;
  int64_t bytes = 0; /* sum over inputs of whole bytes an element */
  for (int i = 0; i < task->moving_count; i++)
    if (task->moving[i].input) bytes += task->moving[i].size;
  bool computes = k->inst_count - k->prologue_count > STREAM_INSTS;
  if (!streams || computes || !bytes) return TSR__TILE;
  int64_t piece = STREAM_BYTES / bytes / STREAM_PIECE * STREAM_PIECE;
  return piece < STREAM_PIECE ? STREAM_PIECE : piece > TSR__TILE ? TSR__TILE : piece;
}

static void flush_stages(const tsr__task *task, int64_t at, int64_t n)
{
  for (int i = 0; i < task->moving_count; i++) {
    const tsr__moving *m = &task->moving[i];
    size_t bytes = (size_t)(n * m->size);
    if (m->shared) memcpy(m->base + at * m->size, m->stage, bytes);
    else if (m->stage) task->tiles->stream(m->base + at * m->size, m->stage, bytes);
  }
}

bool tsr__task_stops(const tsr__task *task)
{
  return tsr__progress_stops(&task->job->progress, task->worker);
}

/* The prologue computes uniforms, once a stretch. A tile whose path is empty ends the stretch:
 * paths know where a task's elements end. */
static void run_tiles(tsr__task *task, int64_t from, int64_t to)
{
  const tsr__kernel *k = task->kernel;
  const tsr__inst *first = k->insts + k->prologue_count, *end = k->insts + k->inst_count;
  for (const tsr__inst *inst = k->insts; inst < first; inst++) do_inst(task, inst, 0, 1);
  if (tsr__goes_down(task)) {
    tsr__do_down(task, from, to);
    return;
  }
  fetch ahead; /* planned before each tile where it is asked */
  ahead.count = ahead.now = ahead.step = 0;
  bool streams = asks_ahead(task), staged = false;
  for (int i = 0; i < task->moving_count; i++) staged |= task->moving[i].stage != NULL;
  int64_t asked = 0;
  tsr__path path = tsr__path_of(task, from, to, tile_step(task, streams));
  for (tsr__stop here = tsr__path_next(&path), next; here.n; here = next) {
    const int64_t at = here.at, n = here.n;
    next = tsr__path_next(&path);
    asked += n * k->inst_count;
    if (asked > ASK_AFTER && tsr__progress_stops(&task->job->progress, task->worker)) break;
    if (asked > ASK_AFTER) asked = 0;
    for (int i = 0; i < task->moving_count; i++) {
      const tsr__moving *m = &task->moving[i];
      /* Moving slots are the only ones that change from tile to tile. */
      task->slot[m->slot] = m->stage ? m->stage : m->base + (m->size ? at * m->size : at / 8);
    }
    if (streams) fetch_plan(&ahead, task, next.at, next.n, k->inst_count - k->prologue_count);
    for (const tsr__inst *inst = first; inst < end; inst++) {
      if (streams) fetch_some(&ahead);
      do_inst(task, inst, at, n);
    }
    if (staged) flush_stages(task, at, n);
  }
  /* Streamed results are visible before the task is counted as done. */
  if (staged) task->tiles->drain();
}

/* A task in its working memory; returns where that goes on. */
static bump open_task(tsr__task *task, tsr__job *job, int worker, const tsr__scratch *scratch)
{
  const tsr__run *run = job->run;
  const tsr__kernel *k = run->kernel;
  bump memory = { scratch->memory };
  *task = (tsr__task){
    .job = job, .worker = worker, .kernel = k, .program = run->program, .tiles = job->tiles
  };
  task->slot = (void **)carve(&memory, ((size_t)k->slot_count + 1) * sizeof(void *)) + 1;
  /* An instruction names -1 for an operand that it does not have. */
  task->slot[-1] = NULL;
  task->moving = carve(&memory, (size_t)k->slot_count * sizeof(tsr__moving));
  task->loads = carve(&memory, (size_t)k->load_count * sizeof(tsr__loading));
  task->reds = carve(&memory, (size_t)k->red_count * sizeof(tsr__reducing));
  task->codes = carve(&memory, TSR__TILE * sizeof(int32_t));
  unsigned char *cells = carve(&memory, (size_t)k->uniform_count * CELL);
  task->registers =
      carve(&memory, ((size_t)k->reg_count + (size_t)k->io.output_count) * REGISTER_BYTES);
  place_own(task, cells);
  return memory;
}

/* `own`: bytes of its own accumulators; 0: it writes the device's. */
typedef struct stretch {
  int part;
  int64_t from, to; /* elements */
  size_t own;
} stretch;

/* Part after part may be done by one task, each of them in the same `memory`. */
static void run_stretch(tsr__task *task, bump memory, const stretch *s)
{
  tsr__job *job = task->job;
  task->part = &job->run->parts[s->part];
  task->band = (tsr__band){ 0 };
  memcpy(task->size, task->part->box.size, sizeof task->size);
  place_part(task);
  place_loads(task, &memory);
  place_reductions(task, &memory, s->own == 0);
  run_tiles(task, s->from, s->to);
  keep_guesses(task);
  /* Tasks that wrote in place have nothing to join, and take no lock. */
  if (!s->own && !task->fault.set) return;
  pthread_mutex_lock(&job->lock);
  bool good = join_reductions(task);
  if (!good) job->failed = true;
  if (tsr__fault_before(&task->fault, &job->fault)) job->fault = task->fault;
  pthread_mutex_unlock(&job->lock);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* Bytes of the accumulators that each task of a part, which has elements, would have for itself;
 * and in `*unit` how many elements a stretch must be a multiple of, so that other accumulators are
 * split with it.
 *
 *   unit of rows of 6 and 64 elements: lcm(64, 6) = 192, a whole number of rows and of words */
static size_t own_bytes(const tsr__kernel *k, const tsr__run_part *part, int64_t *unit)
{
  size_t own = 64;
  *unit = 64; /* whole words of bools */
  for (int i = 0; i < k->red_count; i++) {
    const tsr__redinfo *info = &k->reds[i];
    tsr__walk walk;
    uint32_t all = (1u << k->rank) - 1;
    tsr__walk_make(&walk, k->rank, part->box.size, info->codes >= 0 ? all : info->dims);
    if (!walk.step[0]) {
      own += aligned_bytes(part->partials[i]->bytes);
      continue;
    }
    /* The least common multiple of the rows of all reductions and of 64: a stretch of so many
     * elements begins at a row of each. */
    int64_t row = 1, a = *unit, b;
    for (int d = 1; d < walk.rank; d++) row *= walk.size[d];
    for (int64_t x = a, y = row; (b = y); y = x % y, x = b) a = y;
    *unit = row / a * *unit;
  }
  return own;
}

/* Cuts a part of `count` elements into tasks of about `chunk`. A part stays whole where the order
 * counts (products of floats), where accumulators are too large to have twice, or where rows are
 * so long that cutting would give less than two tasks. */
static void cut_part(tsr__job *job, int part, int64_t chunk, cut *out)
{
  const tsr__kernel *k = job->run->kernel;
  int64_t unit;
  out->tasks = out->count > 0;
  out->chunk = out->count;
  /* A part without elements is not divided: its rows may have none. */
  if (!out->count) return;
  size_t own = own_bytes(k, &job->run->parts[part], &unit);
  if (k->ordered || own > OWN_BYTES || unit > out->count / 2) return;
  int64_t least = (int64_t)own / 2; /* joining must stay cheap against working */
  if (chunk < least) chunk = least;
  if (chunk >= out->count) return;
  /* Whole tiles where that is possible, so that only the last tile of a part is short. */
  int64_t round = unit < TSR__TILE && TSR__TILE % unit == 0 ? TSR__TILE : unit;
  out->chunk = (chunk + round - 1) / round * round;
  out->tasks = (out->count + out->chunk - 1) / out->chunk;
}

/* The part of a task: the last one whose tasks begin at its number or before. */
static int part_of_task(const tsr__job *job, int64_t number)
{
  int first = 0;
  for (int count = job->run->part_count, half; count > 1; count -= half) {
    half = count / 2;
    if (job->cuts[first + half].first <= number) first += half;
  }
  return first;
}

/* Numbers of tasks go on from part to part, so that one list serves all devices. */
static void run_task(void *user, int64_t number, int worker)
{
  tsr__job *job = user;
  int part = part_of_task(job, number);
  const cut *c = &job->cuts[part];
  int64_t from = (number - c->first) * c->chunk;
  int64_t to = from + c->chunk < c->count ? from + c->chunk : c->count, unit;
  size_t own = c->tasks > 1 ? own_bytes(job->run->kernel, &job->run->parts[part], &unit) : 0;
  int64_t begun = job->run->busy ? tsr__now() : 0;
  tsr_runtime *rt = job->run->rt;
  tsr__scratch *scratch = tsr__scratch_take(rt, scratch_bytes(job->run->kernel, own));
  if (scratch) {
    tsr__task task;
    bump memory = open_task(&task, job, worker, scratch);
    run_stretch(&task, memory, &(stretch){ part, from, to, own });
    tsr__scratch_give(rt, scratch);
  }
  if (begun) tsr__busy_add(&job->run->busy[part], begun);
  if (scratch) return;
  pthread_mutex_lock(&job->lock);
  job->failed = true;
  pthread_mutex_unlock(&job->lock);
}

/* Refuses a row number, or a number of rows, that is out of range. */
static tsr_status refuse_rows(const tsr__within_attr *of, const tsr__fault *fault,
                              tsr__error *error)
{
  int64_t row = fault->value < 0 ? fault->value + fault->limit : fault->value;
  if (of->whom == TSR__WITHIN_SIZES)
    return tsr__error_set(
        error, TSR_EVALUE,
        "tsr_ragged_all_to_all: .sizes has a size of %lld rows, expected 0 or more",
        (long long)row);
  bool put = of->whom == TSR__WITHIN_PUT;
  return tsr__error_set(error, TSR_EVALUE,
                        "tsr_ragged_all_to_all: %s and .sizes name row %lld of %s, expected rows 0 "
                        "to %lld at each position",
                        put ? ".places" : ".starts", (long long)row, put ? ".to" : "x",
                        (long long)fault->limit - 1);
}

/* Refuses an index into a table, or one with a named dim. */
static tsr_status refuse_index(const tsr__program *program, const tsr__fault *fault,
                               tsr__error *error)
{
  const tsr__gnode *g = &program->nodes[fault->node];
  const tsr__within_attr *of = (const void *)(program->attrs + g->attr);
  char where[64] = "the result";
  const char *name = tsr__ops[g->op].name;
  if (tsr__ops[g->op].attr == TSR__ATTR_WITHIN) {
    if (of->whom >= TSR__WITHIN_SENT) return refuse_rows(of, fault, error);
    snprintf(where, sizeof where, "the indices of dim %lld", (long long)of->dim);
    name = (const char *const[]){ "gather", "scatter_nd", "take" }[of->whom];
  }
  return tsr__error_set(error, TSR_EVALUE,
                        "tsr_%s: index %lld at position %lld of %s is out of range, expected %lld "
                        "to %lld",
                        name, (long long)fault->value, (long long)fault->position, where,
                        (long long)-fault->limit, (long long)fault->limit - 1);
}

/* Memory first: a run that lacked it may not have met the fault. */
static tsr_status outcome(const tsr__job *job, tsr__error *error)
{
  const tsr__fault *fault = &job->fault;
  if (job->failed)
    return tsr__error_set(error, TSR_ENOMEM, "no memory left for the working set of a kernel");
  if (atomic_load(&job->progress.stop)) return tsr__cancelled(error, job->progress.what);
  return fault->set ? refuse_index(job->run->program, fault, error) : TSR_OK;
}

/* How many elements of plain work take as long: rows of a few elements that are reduced, such as
 * the scores of examples, are mostly the ends of rows. */
static int64_t work_of(const tsr__job *job)
{
  const tsr__kernel *k = job->run->kernel;
  int64_t work = job->total;
  for (int p = 0; p < job->run->part_count; p++)
    for (int i = 0; i < k->red_count; i++) {
      int64_t rows = job->cuts[p].count ? 1 : 0;
      for (int d = 0; d < k->rank; d++)
        if (!(k->reds[i].dims >> d & 1)) rows *= job->run->parts[p].box.size[d];
      /* Groups, and columns that are reduced, have no ends of rows. */
      bool ends = k->rank && k->reds[i].codes < 0 && k->reds[i].dims >> (k->rank - 1) & 1;
      work += ends ? rows * ROW_SUM : 0;
    }
  return work;
}

static void run_parallel(tsr__job *job, int64_t work)
{
  const tsr__run *run = job->run;
  int64_t total = job->total, chunk = total / (4 * tsr__worker_count(run->rt));
  int64_t least = (int64_t)(LEAST_CHUNK * ((double)total / (double)work));
  if (chunk < least) chunk = least;
  /* Four tasks a worker even out uneven work; within bounds that keep starts cheap and cancelling
   * quick. */
  if (chunk > MOST_CHUNK) chunk = MOST_CHUNK;
  int64_t tasks = 0;
  for (int i = 0; i < run->part_count; i++) {
    cut_part(job, i, chunk, &job->cuts[i]);
    job->cuts[i].first = tasks;
    tasks += job->cuts[i].tasks;
  }
  tsr__parallel_progress(&job->progress, tasks, run_task, job);
}

/* The caller does one part after the other, as one task. */
static void run_alone(tsr__job *job)
{
  const tsr__run *run = job->run;
  tsr__scratch *scratch = tsr__scratch_take(run->rt, scratch_bytes(run->kernel, 0));
  tsr__task task;
  job->failed = !scratch;
  if (!scratch) return;
  bump memory = open_task(&task, job, 0, scratch);
  for (int i = 0; i < run->part_count; i++)
    if (job->cuts[i].count)
      run_stretch(&task, memory, &(stretch){ .part = i, .to = job->cuts[i].count });
  tsr__scratch_give(run->rt, scratch);
}

tsr_status tsr__cpu_run(const tsr__run *run, tsr__error *error)
{
  enum { FEW = 64 };
  cut few[FEW];
  tsr__job job = { .run = run,
                   .tiles = tsr__cpu_of(run->rt)->tiles,
                   .cuts = few,
                   .lock = PTHREAD_MUTEX_INITIALIZER,
                   .progress = { .rt = run->rt, .what = TSR__PROGRAM } };
  size_t bytes = (size_t)run->part_count * sizeof(cut);
  if (run->part_count > FEW) job.cuts = tsr__new(&run->rt->heap, bytes);
  if (!job.cuts) return tsr__error_set(error, TSR_ENOMEM, "no memory left to run a kernel");
  int64_t total = 0;
  for (int i = 0; i < run->part_count; i++) {
    job.cuts[i].count = tsr__box_count(&run->parts[i].box, run->kernel->rank);
    total += job.cuts[i].count;
  }
  job.total = total;
  /* Over all parts: eight devices with a few elements each are small work, too. */
  int64_t work = work_of(&job);
  job.alone = work <= SMALL_RUN;
  if (job.alone) run_alone(&job);
  else run_parallel(&job, work);
  if (run->part_count > FEW) tsr__del(&run->rt->heap, job.cuts, bytes);
  pthread_mutex_destroy(&job.lock);
  return outcome(&job, error);
}
