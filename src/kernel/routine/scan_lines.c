/* The pieces of lines, their states, and the three passes over them (scan.h).
 *
 * Lines go in strips of neighbours, as in routine_call.c; a strip of a group of devices is a unit.
 * Units are done in rounds, so that the states of a round fit the cache. */
#include "kernel/routine/scan.h"

#include "kernel/device/cpu.h"

enum {
  WIDTH = 64,         /* the most lines of a strip */
  PIECE = 1 << 16,    /* elements of a line that are worth a task of their own */
  TASK = 1 << 15,     /* elements of a task */
  ROUND = 4 << 20,    /* bytes of states */
  ASK_AFTER = 1 << 16 /* elements between two questions whether to go on */
};

/*   a line     piece 0 | piece 1 | piece 2          pieces of one device, then of the next
 *
 *   totals     t0        t1                         each piece by itself, side by side
 *   join       0         t0        t0 + t1          what is before each piece
 *   prefixes   from 0    from t0   from t0 + t1     each piece again, and written
 *
 * If devices are in several processes, each makes totals and prefixes of its own pieces, and in
 * between publishes the totals of its devices' parts of the lines. */
typedef struct scan_job {
  const tsr__call *call;
  const tsr__scan_work *work;
  tsr__line_groups groups;
  int64_t blocks, pieces; /* blocks: of a device's part of a line; pieces: of a line */
  int64_t first, units;   /* the round's */
  int64_t together;       /* units of a task */
  int64_t piece;          /* that is done alone, where elements are ordered */
  tsr__scan_state *state; /* [unit * pieces + piece]: the state before the piece */
  char *memory;
  _Atomic int64_t moved, escaped; /* bytes */
  _Atomic bool failed;
  tsr__error *error;
  tsr__progress progress;
} scan_job;

static size_t line_bytes(const tsr__scan_work *work)
{
  return work->sums ? tsr__rows_bytes(1) : sizeof(uint64_t);
}

/* ---- states ---------------------------------------------------------------------------------- */

/* Exact sums have lists of escapes of their own; other states are words that mean nothing yet or
 * the neutral element. */
static void start_state(const tsr__scan_work *work, tsr__heap *heap, tsr__scan_state *state)
{
  uint64_t *word = state->memory;
  state->empty = true;
  if (work->sums) tsr__rows_init(&state->sums, heap, state->memory, state->count);
  else
    for (int64_t i = 0; i < state->count; i++) word[i] = work->neutral;
}

/* Adds another state, whose words are elements of the result's dtype. */
static void join_state(const scan_job *job, tsr__scan_state *into, const tsr__scan_state *from)
{
  /* An empty state adds nothing; the neutral word of extremes would not be an element. */
  if (from->empty) return;
  if (job->work->sums) {
    tsr__cpu_of(job->call->rt)->tiles->exact->rows_merge(&into->sums, 0, &from->sums);
    into->empty = false;
    return;
  }
  /* A state is joined like a run of elements: it holds elements of the result. */
  tsr__scan_block one = { .dtype = tsr__call_dtype(job->call, 0), .from = from->memory, .runs = 1 };
  job->work->go(&one, into);
}

/* ---- units and pieces ------------------------------------------------------------------------ */

static tsr__sides sides_of_scan(const scan_job *job, int part)
{
  return tsr__sides_of(&job->call->parts[part].in[0], tsr__call_rank(job->call),
                       tsr__call_dim(job->call));
}

static int64_t strips_of_group(const scan_job *job, int group)
{
  tsr__sides sides = sides_of_scan(job, job->groups.part[group * job->groups.members]);
  return sides.before * ((sides.after + WIDTH - 1) / WIDTH);
}

/* A strip of a group's lines. */
typedef struct unit {
  int group;
  int64_t before, line, count;
} unit;

/* Found by counting through the groups: there are few, and units are taken in long tasks. */
static unit unit_of(const scan_job *job, int64_t number)
{
  unit u = { 0 };
  for (int64_t strips; number >= (strips = strips_of_group(job, u.group)); u.group++)
    number -= strips;
  tsr__sides sides = sides_of_scan(job, job->groups.part[u.group * job->groups.members]);
  int64_t across = (sides.after + WIDTH - 1) / WIDTH;
  u.before = number / across;
  u.line = number % across * WIDTH;
  u.count = sides.after - u.line < WIDTH ? sides.after - u.line : WIDTH;
  return u;
}

static int part_of_scan_piece(const scan_job *job, const unit *u, int64_t piece)
{
  int members = job->groups.members, member = (int)(piece / job->blocks);
  /* Backwards the last device's piece is the first. */
  if (tsr__call_reverse(job->call)) member = members - 1 - member;
  return job->groups.part[u->group * members + member];
}

/* The elements of a unit's piece. */
static tsr__scan_block scan_block_of(const scan_job *job, const unit *u, int64_t piece)
{
  int part = part_of_scan_piece(job, u, piece);
  const tsr__call_part *p = &job->call->parts[part];
  tsr__sides sides = sides_of_scan(job, part);
  bool reverse = tsr__call_reverse(job->call);
  int64_t block = piece % job->blocks;
  if (reverse) block = job->blocks - 1 - block;
  /* Even borders without a remainder; the product stays far below 2^63. */
  int64_t start = block * sides.along / job->blocks, end = (block + 1) * sides.along / job->blocks;
  int64_t first = reverse ? end - 1 : start;
  return (tsr__scan_block){ .tiles = tsr__cpu_of(job->call->rt)->tiles,
                            .dtype = tsr__call_dtype(job->call, 0),
                            .from = tsr__cpu_data(p->in[0].buffer),
                            .to = tsr__cpu_data(p->out[0].buffer),
                            .at = (u->before * sides.along + first) * sides.after + u->line,
                            .step = reverse ? -sides.after : sides.after,
                            .runs = end - start };
}

static tsr__scan_state *state_of(const scan_job *job, int64_t number, int64_t piece)
{
  return &job->state[(number - job->first) * job->pieces + piece];
}

/* Whether a piece is done in this process. */
static bool piece_is_here(const scan_job *job, const unit *u, int64_t piece)
{
  return tsr__call_here(job->call, part_of_scan_piece(job, u, piece));
}

/* Sends the state before a piece to the piece's device, from the device of the piece before. The
 * state is read in place; the copied bytes are those that a wire would carry, and explanations
 * promise just these bytes. */
static void send_state(scan_job *job, const unit *u, int64_t number, int64_t piece)
{
  tsr__traffic traffic = { 0 };
  uint64_t wire[3 * WIDTH];
  const tsr__scan_state *state = state_of(job, number, piece);
  tsr__transfer carry = { .to = wire,
                          .from = state->memory,
                          .bytes = (size_t)state->count * line_bytes(job->work),
                          .to_device = job->call->parts[part_of_scan_piece(job, u, piece)].device,
                          .from_device =
                              job->call->parts[part_of_scan_piece(job, u, piece - 1)].device };
  if (!piece_is_here(job, u, piece)) return;
  tsr__cpu_move(&carry, &traffic);
  int64_t escapes = job->work->sums ? (int64_t)state->sums.escape_count * TSR__ESCAPE_WIRE : 0;
  atomic_fetch_add(&job->moved, traffic.bytes + escapes);
  atomic_fetch_add(&job->escaped, escapes);
}

/* In stretches, so that it can be cancelled. */
static void scan_block(const tsr__scan_work *work, const tsr__scan_block *block,
                       tsr__scan_state *state, const tsr__strip *strip)
{
  int64_t runs = ASK_AFTER / state->count + 1, left = block->runs;
  tsr__scan_block some = *block;
  for (; left > 0; left -= runs, some.at += runs * some.step) {
    some.runs = left < runs ? left : runs;
    work->go(&some, state);
    if (left > runs && tsr__progress_stops(strip->progress, strip->worker)) return;
  }
}

/* ---- passes ---------------------------------------------------------------------------------- */

static void scan_piece(scan_job *job, int64_t number, int64_t piece, bool totals, int worker)
{
  unit u = unit_of(job, number);
  if (!piece_is_here(job, &u, piece)) return;
  tsr__scan_block block = scan_block_of(job, &u, piece);
  /* A total is put where the next piece looks for its state. */
  tsr__scan_state *state = state_of(job, number, piece + totals);
  if (totals) block.to = NULL;
  tsr__strip asker = { .worker = worker, .progress = &job->progress };
  scan_block(job->work, &block, state, &asker);
  if (state->sums.failed) atomic_store(&job->failed, true);
}

static void some_units(scan_job *job, int64_t task, int64_t piece, bool totals, int worker)
{
  int64_t first = job->first + task * job->together, end = first + job->together;
  if (end > job->first + job->units) end = job->first + job->units;
  for (int64_t n = first; n < end; n++) scan_piece(job, n, piece, totals, worker);
}

static void totals_task(void *user, int64_t task, int worker)
{
  scan_job *job = user;
  some_units(job, task / (job->pieces - 1), task % (job->pieces - 1), true, worker);
}

static void prefixes_task(void *user, int64_t task, int worker)
{
  scan_job *job = user;
  some_units(job, task / job->pieces, task % job->pieces, false, worker);
}

static void ordered_task(void *user, int64_t task, int worker)
{
  some_units(user, task, ((scan_job *)user)->piece, false, worker);
}

static void join_piece(scan_job *job, int64_t number, int64_t piece, int64_t before)
{
  tsr__scan_state *here = state_of(job, number, piece);
  join_state(job, here, state_of(job, number, before));
  if (here->sums.failed) atomic_store(&job->failed, true);
}

/* Puts the total of each member's part of the line where the next member looks for its state. Lines
 * are side by side in the state. */
static void within_task(void *user, int64_t task, int worker)
{
  (void)worker;
  scan_job *job = user;
  int64_t blocks = job->blocks;
  for (int64_t k = 2; k < job->pieces; k++)
    if (k % blocks != 1 % blocks) join_piece(job, job->first + task, k, k - 1);
}

/* The state of a member is the state of the member before it, and that member's total. Members go
 * in order: each needs the one before. */
static void across_task(void *user, int64_t task, int worker)
{
  (void)worker;
  scan_job *job = user;
  int64_t number = job->first + task;
  unit u = unit_of(job, number);
  for (int64_t k = 0; k < job->pieces; k += job->blocks) {
    if (k) join_piece(job, number, k, k - job->blocks);
    if (k) send_state(job, &u, number, k);
    for (int64_t b = 1; b < job->blocks && piece_is_here(job, &u, k); b++)
      join_piece(job, number, k + b, k);
  }
}

static tsr_status no_scan_memory(const tsr__call *call, tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM,
                        "tsr_%s: no scratch memory left; free arrays or raise .memory_limit",
                        tsr__ops[tsr__call_node(call)->op].name);
}

static tsr_status run_scan_pass(scan_job *job, int64_t tasks, tsr__task_fn fn)
{
  if (!tsr__parallel_progress(&job->progress, tasks, fn, job))
    return tsr__cancelled(job->error, job->progress.what);
  return job->failed ? no_scan_memory(job->call, job->error) : TSR_OK;
}

/* ---- states that processes publish ----------------------------------------------------------- */

/*   note     | empty, escapes | words | escapes |  ...       for each unit of the round and each of
 *                                                            this process's members, in that order
 * All walk the units alike, so that notes need no names. */
typedef struct told {
  uint32_t empty, escapes;
} told;

/* The total of member m. */
static tsr__scan_state *total_of(const scan_job *job, int64_t number, int64_t m)
{
  return state_of(job, number, (m + 1) * job->blocks);
}

static int process_of_member(const scan_job *job, const unit *u, int64_t m)
{
  return job->call->parts[part_of_scan_piece(job, u, m * job->blocks)].process;
}

static size_t put_state(const scan_job *job, const tsr__scan_state *state, char *to)
{
  size_t words = (size_t)state->count * line_bytes(job->work);
  size_t escapes = job->work->sums ? state->sums.escape_count * sizeof(tsr__escape) : 0;
  const told head = { state->empty, (uint32_t)(escapes / sizeof(tsr__escape)) };
  if (!to) return sizeof head + words + escapes;
  memcpy(to, &head, sizeof head);
  memcpy(to + sizeof head, state->memory, words);
  if (escapes) memcpy(to + sizeof head + words, state->sums.escape, escapes);
  return sizeof head + words + escapes;
}

/* How far it reaches; 0: the note ends before. */
static size_t get_state(const scan_job *job, const tsr__call_note *note, tsr__scan_state *state)
{
  told head;
  size_t words = (size_t)state->count * line_bytes(job->work), size = sizeof head + words;
  if (note->size < size) return 0;
  const char *from = note->data;
  memcpy(&head, from, sizeof head);
  if ((note->size - size) / sizeof(tsr__escape) < head.escapes) return 0;
  memcpy(state->memory, from + sizeof head, words);
  state->empty = head.empty;
  for (uint32_t e = 0; e < head.escapes; e++, size += sizeof(tsr__escape)) {
    tsr__escape escape;
    memcpy(&escape, from + size, sizeof escape);
    tsr__rows_escape(&state->sums, escape.element, &escape.sum);
  }
  return size;
}

/* Puts the states of members first .. end - 1 of every unit. Returns the bytes; NULL for `to` only
 * counts them. */
static size_t put_states(const scan_job *job, int64_t first, int64_t end, char *to)
{
  size_t size = 0;
  for (int64_t n = job->first; n < job->first + job->units; n++) {
    unit u = unit_of(job, n);
    for (int64_t m = first; m < end; m++)
      if (process_of_member(job, &u, m) == job->call->peers->index)
        size += put_state(job, total_of(job, n, m), to ? to + size : NULL);
  }
  return size;
}

static tsr_status get_states(scan_job *job, int64_t first, int64_t end, tsr__call_note *notes)
{
  for (int64_t n = job->first; n < job->first + job->units; n++) {
    unit u = unit_of(job, n);
    for (int64_t m = first; m < end; m++) {
      int process = process_of_member(job, &u, m);
      if (process == job->call->peers->index) continue;
      tsr__scan_state *state = total_of(job, n, m);
      size_t size = get_state(job, &notes[process], state);
      if (!size)
        return tsr__error_set(job->error, TSR_EPEER,
                              "process %d published fewer lines than this process expects",
                              process);
      notes[process].data = (const char *)notes[process].data + size;
      notes[process].size -= size;
      if (state->sums.failed) return no_scan_memory(job->call, job->error);
    }
  }
  return TSR_OK;
}

/* Processes publish the totals of their members among first .. end - 1 to all. */
static tsr_status tell_states(scan_job *job, int64_t first, int64_t end)
{
  const tsr__call_peers *peers = job->call->peers;
  size_t size = put_states(job, first, end, NULL);
  size_t list = (size_t)peers->count * sizeof(tsr__call_note);
  tsr__call_note *notes = tsr__new(&job->call->rt->heap, list + size);
  if (!notes) return no_scan_memory(job->call, job->error);
  char *mine = (char *)(notes + peers->count);
  put_states(job, first, end, mine);
  const tsr__call_note *all = peers->gather(peers->user, mine, size, job->error);
  if (all) memcpy(notes, all, list);
  tsr_status status = all ? get_states(job, first, end, notes) : job->error->status;
  tsr__del(&job->call->rt->heap, notes, list + size);
  return status;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Passes the total of the current piece to the next piece. */
static tsr_status pass_state_on(scan_job *job)
{
  int64_t end = job->first + job->units, k = job->piece + 1;
  for (int64_t n = job->first; n < end; n++) {
    const tsr__scan_state *here = state_of(job, n, k - 1);
    tsr__scan_state *next = state_of(job, n, k);
    next->empty = here->empty;
    memcpy(next->memory, here->memory, (size_t)here->count * sizeof(uint64_t));
  }
  tsr_status status = job->call->peers ? tell_states(job, k - 1, k) : TSR_OK;
  for (int64_t n = job->first; n < end && !status; n++) {
    unit u = unit_of(job, n);
    send_state(job, &u, n, k);
  }
  return status;
}

/* One piece after the other, all units side by side. Products of floats are no sums that could
 * be joined: each piece begins with the product of the one before. All lines go side by side, so
 * workers have work where there are many; processes wait for each other. */
static tsr_status go_in_order(scan_job *job, int64_t tasks)
{
  tsr_status status = TSR_OK;
  for (job->piece = 0; job->piece < job->pieces && !status; job->piece++) {
    status = run_scan_pass(job, tasks, ordered_task);
    if (!status && job->piece + 1 < job->pieces) status = pass_state_on(job);
  }
  return status;
}

static tsr_status do_round(scan_job *job)
{
  int64_t tasks = (job->units + job->together - 1) / job->together;
  /* Nobody asks for the total of the last piece. Each pass reads states that the one before it
   * wrote, of other tasks too: they must not overlap. */
  if (job->work->ordered) return go_in_order(job, tasks);
  tsr_status status = run_scan_pass(job, tasks * (job->pieces - 1), totals_task);
  if (!status) status = run_scan_pass(job, job->units, within_task);
  if (!status && job->call->peers) status = tell_states(job, 0, job->groups.members - 1);
  if (!status) status = run_scan_pass(job, job->units, across_task);
  return status ? status : run_scan_pass(job, tasks * job->pieces, prefixes_task);
}

static void start_round(scan_job *job)
{
  /* Narrow strips get as much as wide ones, so that places follow from numbers. */
  size_t bytes = WIDTH * line_bytes(job->work);
  for (int64_t i = 0; i < job->units; i++) {
    int64_t count = unit_of(job, job->first + i).count;
    for (int64_t k = i * job->pieces; k < (i + 1) * job->pieces; k++) {
      job->state[k] =
          (tsr__scan_state){ .count = count, .memory = job->memory + (size_t)k * bytes };
      start_state(job->work, &job->call->rt->heap, &job->state[k]);
    }
  }
}

static void end_round(scan_job *job)
{
  for (int64_t k = 0; job->work->sums && k < job->units * job->pieces; k++)
    tsr__rows_free(&job->state[k].sums);
}

static tsr_status do_scan_units(scan_job *job, int64_t units)
{
  tsr__heap *heap = &job->call->rt->heap;
  size_t bytes = WIDTH * line_bytes(job->work) + sizeof *job->state;
  /* The number of units whose states fit a round, at least one. Members count, as processes agree
   * on members: several blocks occur only with few units. */
  int64_t most = ROUND / (int64_t)bytes / job->groups.members;
  if (most > units) most = units;
  if (most < 1) most = 1;
  size_t size = (size_t)(most * job->pieces) * bytes;
  job->state = tsr__new_raw(heap, size);
  if (!job->state) return no_scan_memory(job->call, job->error);
  job->memory = (char *)(job->state + most * job->pieces);
  tsr_status status = TSR_OK;
  for (job->first = 0; job->first < units && !status; job->first += most) {
    job->units = units - job->first < most ? units - job->first : most;
    start_round(job);
    status = do_round(job);
    end_round(job);
  }
  tsr__del(heap, job->state, size);
  return status;
}

/* How many pieces a device's part of a line is: one, unless there are too few lines for all
 * workers. Pieces cost a second pass over the elements, so lines side by side come first. */
static int64_t blocks_of_member(const scan_job *job, int64_t units, int64_t along)
{
  int64_t workers = tsr__worker_count(job->call->rt), blocks = along / PIECE;
  if (job->work->ordered || units * job->groups.members >= 2 * workers || blocks < 2) return 1;
  return blocks;
}

/* ---- lines that lie whole -------------------------------------------------------------------- */

static tsr_status whole_strip(const tsr__strip *s)
{
  const tsr__scan_work *work = s->user;
  bool reverse = tsr__call_reverse(s->call);
  tsr__scan_state state = { .count = s->count, .memory = s->room };
  tsr__scan_block block = { .tiles = tsr__cpu_of(s->call->rt)->tiles,
                            .dtype = tsr__call_dtype(s->call, 0),
                            .from = tsr__cpu_data(s->part->in[0].buffer),
                            .to = tsr__cpu_data(s->part->out[0].buffer),
                            .at = s->at + (reverse ? (s->along - 1) * s->after : 0),
                            .step = reverse ? -s->after : s->after,
                            .runs = s->along };
  start_state(work, &s->call->rt->heap, &state);
  scan_block(work, &block, &state, s);
  tsr_status status = state.sums.failed ? TSR_ENOMEM : TSR_OK;
  if (work->sums) tsr__rows_free(&state.sums);
  return status;
}

/* One piece a line: nothing is before it, and nothing to be joined. */
static tsr_status whole_lines(const tsr__call *call, const tsr__scan_work *work, tsr__error *error)
{
  tsr__line_work lines = {
    .width = WIDTH, .room = WIDTH * line_bytes(work), .fn = whole_strip, .user = work
  };
  return tsr__each_line(call, &lines, error);
}

tsr_status tsr__scan_lines(const tsr__call *call, const tsr__scan_work *work, tsr__error *error)
{
  scan_job job = {
    .call = call, .work = work, .error = error, .progress = { .rt = call->rt, .what = TSR__PROGRAM }
  };
  tsr_status status = tsr__line_groups_find(call, &job.groups, error);
  int64_t units = 0, along = 0;
  for (int g = 0; g < job.groups.count && !status; g++) units += strips_of_group(&job, g);
  for (int p = 0; p < call->part_count; p++)
    if (sides_of_scan(&job, p).along > along) along = sides_of_scan(&job, p).along;
  if (!status) job.blocks = blocks_of_member(&job, units, along);
  job.pieces = job.blocks * job.groups.members;
  int64_t width = call->part_count && sides_of_scan(&job, 0).after < WIDTH
                      ? sides_of_scan(&job, 0).after
                      : WIDTH;
  /* So many units to a task that it has about TASK elements. */
  job.together = TASK / (along / (job.blocks + !job.blocks) * width + 1) + 1;
  if (!status && along && units)
    status = job.pieces == 1 ? whole_lines(call, work, error) : do_scan_units(&job, units);
  if (call->traffic) {
    call->traffic->bytes += job.moved;
    call->traffic->escapes += job.escaped;
  }
  tsr__line_groups_free(call, &job.groups);
  return status;
}
