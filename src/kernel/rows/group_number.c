/* Groups of equal keys, numbered in order of their first row.
 *
 *   row      0  1  2  3  4  5
 *   key      b  a  b  c  a  c
 *   first    0  1  0  3  1  3        the first row with an equal key
 *   marks    1  1  .  1  .  .        rows that are their own first
 *   group    0  1  0  2  1  2        how many marks come before `first`
 *
 * Keys of few bits find `first` in a table over all of their values. Others are hashed: rows are
 * dealt into bins by their hash, each bin small enough that its table stays in the cache; then they
 * are taken back in order. A mark and a count replace any sorting of the groups.
 *
 * Invariant: `first` is a row of the same part and of an equal key, and no smaller row has that
 * key; so neither tasks nor bins nor the size of tables can show in a number. */
#include "kernel/rows/group_inner.h"
#include "kernel/rows/key_hash.h"

enum {
  PIECE = 1 << 17,      /* rows of a task; a multiple of 64, so that no two tasks share marks */
  BIN_ROWS = 1 << 13,   /* rows of a bin, about */
  MAX_BIN_BITS = 12,    /* bins of a part */
  ASK_AFTER = 1 << 14,  /* rows of a bin between two questions whether to go on */
  MAX_DENSE_BITS = 22,  /* tables over all values */
  SMALL_DENSE_BITS = 14 /* always worth one */
};

#define SLOT_ROWS (INT64_C(1) << 22) /* rows a task reads before others get their turn */

/* ---- working memory -------------------------------------------------------------------------- */

/* Working memory of a device, given back all at once: no path of an error has to know which buffers
 * were taken before. The place in the list is made first, so that a buffer is never lost. */
void *tsr__loan(tsr__loans *loans, int device, size_t bytes)
{
  tsr_runtime *rt = loans->rt;
  if (!tsr__grow(&rt->heap, (void **)&loans->held, &loans->capacity, loans->count + 1,
                 sizeof *loans->held)) {
    tsr__error_set(loans->error, TSR_ENOMEM, "no memory to group rows; free arrays");
    return NULL;
  }
  tsr__buffer *buffer = tsr__cpu_take(rt, device, bytes, loans->error);
  if (!buffer) return NULL;
  loans->held[loans->count++] = buffer;
  return tsr__cpu_data(buffer);
}

void tsr__loans_return(tsr__loans *loans)
{
  for (size_t i = 0; i < loans->count; i++) tsr__buffer_release(loans->held[i]);
  tsr__del(&loans->rt->heap, loans->held, loans->capacity * sizeof *loans->held);
  loans->held = NULL;
  loans->count = loans->capacity = 0;
}

/* ---- the job --------------------------------------------------------------------------------- */

/* A slot of a bin's table: the key's only word, or its hash, and its first row in the bin. A slot
 * is taken if `bin` is the bin being grouped, so that tables are never cleared in between. */
typedef struct slot {
  uint64_t key;
  uint32_t at, bin;
} slot;

typedef struct table {
  slot *slots;
  size_t size, used; /* size: a power of two */
  int64_t steps;     /* beyond the slots where keys belong */
} table;

/*
 *    dense    firsts[slot][key]      the first row of a key among the rows of a slot of workers
 *             firsts[0][key]         joined: the first row of all; then the key's number
 *    hashed   bin[row], start[piece][bin]   where rows go when they are dealt into bins
 *             bin_word, bin_row[place]      keys and rows, bin after bin
 *             bin_first[place]              the first row with the key of that place */
typedef struct part {
  int64_t rows;
  int device;
  const uint64_t *word;
  uint32_t *group;
  tsr__marks marks;
  /* Dense: a table a slot of workers; [0] ends as the number of each key. */
  uint32_t **firsts;
  /* Hashed: rows by bin. */
  int bin_bits;
  uint64_t *bin_word;
  uint32_t *bin_row, *bin_first;
  uint16_t *bin;
  uint32_t *start; /* [piece][bin]: place of the next row */
  int64_t first_piece;
} part;

/* The rows of a bin in its part. */
typedef struct bin_of {
  int part;
  int64_t start, count;
} bin_of;

typedef struct job {
  tsr_runtime *rt;
  tsr__error *error;
  tsr__grouped *out;
  tsr__loans loans;
  part *part;
  int parts, words, bits, slots;
  int64_t round, rounds;
  const tsr__parts *rows;
  int64_t *code_count; /* [part]: codes of its dense table */
  bin_of *bins;
  int64_t bin_count;
  table *tables; /* one a worker */
  int workers;
  tsr__key_seed seed;
  tsr__progress progress; /* of bins: one of them may hold most rows */
  _Atomic bool failed;
} job;

static const char what[] = "group by";

static tsr_status no_hash_memory(job *j)
{
  return tsr__error_set(j->error, TSR_ENOMEM, "%s: no memory for the hash tables; free arrays",
                        what);
}

/* Errors of tasks are told after all of them ended. */
static tsr_status run_number_tasks(job *j, int64_t tasks, tsr__task_fn fn)
{
  if (!tsr__parallel_long(j->rt, what, tasks, fn, j)) return tsr__cancelled(j->error, what);
  return atomic_load(&j->failed) ? no_hash_memory(j) : TSR_OK;
}

/* A table costs to be cleared and read whatever the rows: many more places than rows are not
 * worth it, but for tables that stay in the cache. */
static bool suits_dense_table(const job *j, int64_t rows)
{
  if (j->words > 1 || j->bits > MAX_DENSE_BITS) return false;
  return j->bits <= SMALL_DENSE_BITS || INT64_C(1) << j->bits <= 2 * rows;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Counts the marks before each word and makes room for the first rows. Serial: a word of marks
 * stands for 64 rows, so the count reads a 64th of the bytes of a pass over keys. */
static tsr_status count_marks(job *j)
{
  int *device = tsr__new_raw(&j->rt->heap, (size_t)(j->parts + 1) * sizeof *device);
  if (!device) return no_hash_memory(j);
  for (int p = 0; p < j->parts; p++) {
    part *at = &j->part[p];
    uint32_t count = 0;
    device[p] = at->device;
    for (int64_t w = 0; w < (at->rows + 63) / 64; w++) {
      at->marks.before[w] = count;
      count += (uint32_t)__builtin_popcountll(at->marks.bits[w]);
    }
    j->out->count[p] = count;
  }
  tsr__parts of = { .count = j->parts, .device = device, .rows = j->out->count };
  tsr_status status = tsr__index_new(j->rt, &of, &j->out->first, j->error);
  tsr__del(&j->rt->heap, device, (size_t)(j->parts + 1) * sizeof *device);
  return status;
}

/* `before` makes a rank one addition and one count of bits (tsr__rank). */
static bool marks_room(job *j, part *at)
{
  int64_t words = (at->rows + 63) / 64;
  at->marks.bits = tsr__loan(&j->loans, at->device, (size_t)words * sizeof(uint64_t));
  at->marks.before = tsr__loan(&j->loans, at->device, (size_t)words * sizeof(uint32_t));
  return at->marks.bits && at->marks.before;
}

/* ---- keys of few bits ------------------------------------------------------------------------ */

/* Finds the first row of each value among some rows of a slot: task = (part, slot). Rows are taken
 * from the last to the first, so the first row is written last and nothing need be compared. */
static void find_task(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  /* Each slot of workers has rows of its own and a table of its own: none waits for another. */
  part *at = &j->part[task / j->slots];
  int64_t s = task % j->slots;
  int64_t start = at->rows * s / j->slots, end = at->rows * (s + 1) / j->slots;
  uint32_t *first = at->firsts[s];
  /* Rounds go from the last rows to the first, too: the highest round comes first and clears the
   * table. */
  if (j->round == j->rounds - 1) memset(first, 0xff, sizeof *first << j->bits);
  /* A round is a stretch of the slot's rows, so that a task is short enough to be cancelled. */
  start += j->round * SLOT_ROWS;
  if (end > start + SLOT_ROWS) end = start + SLOT_ROWS;
  /* Without bits all keys are equal, and there is no word to read. */
  if (!j->bits) {
    if (start < end) *first = (uint32_t)start;
    return;
  }
  for (int64_t r = end - 1; r >= start; r--) first[at->word[r]] = (uint32_t)r;
}

/* Some codes of a part: one task takes all where a piece holds them. */
typedef struct codes {
  int part;
  uint32_t *first;
  int64_t start, end;
} codes;

static codes codes_of_task(const job *j, int64_t task)
{
  tsr__parts all = { j->parts, NULL, j->code_count };
  tsr__piece cut = tsr__piece_of(&all, PIECE, task);
  return (codes){ cut.part, j->part[cut.part].firsts[0], cut.start, cut.start + cut.count };
}

/* A task has codes, not rows, so two tasks never write one table entry. Two tasks may mark rows of
 * the same word of marks, unless one task has all codes of the part. */
static void join_codes_task(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  codes c = codes_of_task(j, task);
  const part *at = &j->part[c.part];
  /* If one task has all codes of a part, no other task writes its marks. */
  bool shared = INT64_C(1) << j->bits > PIECE; /* others mark rows of the part as well */
  for (int64_t code = c.start; code < c.end; code++) {
    uint32_t row = c.first[code];
    /* The smallest row of all slots is the first of all. */
    for (int s = 1; s < j->slots; s++)
      if (at->firsts[s][code] < row) row = at->firsts[s][code];
    c.first[code] = row;
    if (row == TSR__NO_ROW) continue;
    uint64_t *bits = &at->marks.bits[row / 64], bit = UINT64_C(1) << (row % 64);
    if (shared) __atomic_fetch_or(bits, bit, __ATOMIC_RELAXED);
    else *bits |= bit;
  }
}

/* After all marks are set and counted: the rank of a first row is its group's number. */
static void number_task(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  codes c = codes_of_task(j, task);
  /* Each number is written once: no two codes have one first row. */
  uint32_t *rows = j->out->first.at[c.part];
  for (int64_t code = c.start; code < c.end; code++) {
    if (c.first[code] == TSR__NO_ROW) continue;
    uint32_t number = tsr__rank(&j->part[c.part].marks, c.first[code]);
    rows[number] = c.first[code];
    c.first[code] = number;
  }
}

static void assign_task(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  tsr__piece cut = tsr__piece_of(j->rows, PIECE, task);
  const part *at = &j->part[cut.part];
  int64_t end = cut.start + cut.count;
  const uint32_t *number = at->firsts[0];
  const uint64_t *word = at->word;
  uint32_t *group = at->group;
  if (!j->bits) memset(group + cut.start, 0, (size_t)cut.count * sizeof *group);
  else
    for (int64_t r = cut.start; r < end; r++) group[r] = number[word[r]];
}

/* The tables of several parts stay: owners read from them the codes that parts share. The tables
 * outlive the job as buffers of their own, while loans end with the job. */
static bool tables_room(job *j)
{
  tsr__grouped *out = j->out;
  if (j->parts == 1) return true;
  out->bits = j->bits;
  out->tables = tsr__new(&j->rt->heap, (size_t)j->parts * sizeof *out->tables);
  out->number = tsr__new(&j->rt->heap, (size_t)j->parts * sizeof *out->number);
  if (!out->tables || !out->number) return false;
  for (int p = 0; p < j->parts; p++) {
    size_t bytes = sizeof(uint32_t) << j->bits;
    out->tables[p] = tsr__cpu_take(j->rt, j->part[p].device, bytes, j->error);
    if (!out->tables[p]) return false;
    out->number[p] = tsr__cpu_data(out->tables[p]);
  }
  return true;
}

/* Tables of all slots, marks cleared. */
static bool dense_room(job *j)
{
  tsr__heap *heap = &j->rt->heap;
  j->code_count = tsr__new(heap, (size_t)j->parts * sizeof *j->code_count);
  bool fine = j->code_count && tables_room(j);
  for (int p = 0; fine && p < j->parts; p++) {
    part *at = &j->part[p];
    fine = marks_room(j, at);
    at->firsts = tsr__new(heap, (size_t)j->slots * sizeof *at->firsts);
    fine = fine && at->firsts;
    for (int s = 0; fine && s < j->slots; s++) {
      /* The first slot's table is the one that numbers end up in. */
      bool kept = !s && j->out->number;
      at->firsts[s] =
          kept ? j->out->number[p] : tsr__loan(&j->loans, at->device, sizeof(uint32_t) << j->bits);
      fine = at->firsts[s] != NULL;
    }
    if (fine) memset(at->marks.bits, 0, (size_t)(at->rows + 63) / 64 * sizeof(uint64_t));
    if (fine) j->code_count[p] = at->rows ? INT64_C(1) << j->bits : 0;
  }
  return fine;
}

static tsr_status group_dense(job *j)
{
  int64_t most = 0;
  for (int p = 0; p < j->parts; p++)
    if (j->part[p].rows > most) most = j->part[p].rows;
  /* All workers have something to do, whatever the number of parts; a part that is small is one
   * slot. */
  j->slots = (j->workers + j->parts - 1) / j->parts;
  if (most < 2 * PIECE) j->slots = 1;
  if (!dense_room(j)) return no_hash_memory(j);
  tsr__parts of = { j->parts, NULL, j->code_count };
  int64_t cuts = tsr__piece_count(&of, PIECE), pieces = tsr__piece_count(j->rows, PIECE);
  /* find, join, count, number, assign: each a pass over all parts at once, the next one beginning
   * when the last is done. */
  tsr_status status = TSR_OK;
  /* The longest slot decides the number of rounds. */
  j->rounds = most / j->slots / SLOT_ROWS + 1;
  for (j->round = j->rounds - 1; !status && j->round >= 0; j->round--)
    status = run_number_tasks(j, (int64_t)j->parts * j->slots, find_task);
  if (!status) status = run_number_tasks(j, cuts, join_codes_task);
  if (!status) status = count_marks(j);
  if (!status) status = run_number_tasks(j, cuts, number_task);
  return status ? status : run_number_tasks(j, pieces, assign_task);
}

/* ---- any other keys -------------------------------------------------------------------------- */

/* The counts of a piece for all bins, later its places: a row of the matrix `start`. */
static uint32_t *bin_counts_of(int64_t piece, const part *at)
{
  return at->start + ((piece - at->first_piece) << at->bin_bits);
}

/* The bin of each row of a piece, and how many rows each bin gets. */
static void count_bins_task(void *user, int64_t piece, int worker)
{
  (void)worker;
  job *j = user;
  tsr__piece cut = tsr__piece_of(j->rows, PIECE, piece);
  const part *at = &j->part[cut.part];
  int64_t end = cut.start + cut.count;
  /* A part of one bin needs no dealing. */
  if (!at->bin_bits) return;
  uint32_t *count = bin_counts_of(piece, at);
  memset(count, 0, sizeof *count << at->bin_bits);
  for (int64_t r = cut.start; r < end; r++) {
    /* The top bits of the hash choose the bin, the low ones the slot in its table: so keys of a
     * bin spread over its whole table. */
    uint64_t bin = tsr__key_place(j->seed, at->word + r, at->rows, j->words) >> (64 - at->bin_bits);
    at->bin[r] = (uint16_t)bin;
    count[bin]++;
  }
}

/* Turns the counts of pieces into where their rows of each bin start; cuts the bins. Column by
 * column of the matrix: all pieces' rows of bin 0, in order of the pieces, then those of bin 1.
 * So the deal is stable, and a bin's rows are in order of the part's. */
static void place_key_bins(job *j)
{
  int64_t bin_at = 0;
  for (int p = 0; p < j->parts; p++) {
    part *at = &j->part[p];
    if (!at->rows) continue;
    int64_t pieces = (at->rows + PIECE - 1) / PIECE, place = 0;
    for (int64_t bin = 0; bin < INT64_C(1) << at->bin_bits; bin++) {
      int64_t start = place;
      for (int64_t piece = 0; at->bin_bits && piece < pieces; piece++) {
        uint32_t *here = at->start + (piece << at->bin_bits) + bin;
        uint32_t count = *here;
        *here = (uint32_t)place;
        place += count;
      }
      if (!at->bin_bits) place = at->rows;
      j->bins[bin_at++] = (bin_of){ p, start, place - start };
    }
  }
}

/* Places are copied to the stack: a piece writes to as many bins as there are, and 16 KiB of
 * counters stay in the cache. */
static void deal_bins_task(void *user, int64_t piece, int worker)
{
  (void)worker;
  job *j = user;
  tsr__piece cut = tsr__piece_of(j->rows, PIECE, piece);
  const part *at = &j->part[cut.part];
  int64_t end = cut.start + cut.count;
  uint32_t place[1 << MAX_BIN_BITS];
  if (!at->bin_bits) return;
  memcpy(place, bin_counts_of(piece, at), sizeof *place << at->bin_bits);
  for (int64_t r = cut.start; r < end; r++) {
    uint32_t to = place[at->bin[r]]++;
    at->bin_row[to] = (uint32_t)r;
    for (int w = 0; w < j->words; w++) at->bin_word[w * at->rows + to] = at->word[w * at->rows + r];
  }
}

/* A table of `size` slots, all free. */
static bool make_slot_table(tsr__heap *heap, table *t, size_t size)
{
  slot *slots = tsr__new(heap, size * sizeof *slots);
  if (!slots) return false;
  tsr__del(heap, t->slots, t->size * sizeof *t->slots);
  *t = (table){ slots, size, t->used, t->steps };
  return true;
}

static bool rows_have_same_key(const uint64_t *word, int64_t stride, int words, uint32_t a,
                               uint32_t b)
{
  for (int w = 0; w < words; w++)
    if (word[w * stride + a] != word[w * stride + b]) return false;
  return true;
}

/* A bin being grouped: its rows' keys, `stride` between words of one key. */
typedef struct bin {
  const uint64_t *word;
  int64_t stride, count;
  uint32_t tag;
  tsr__key_seed seed;
  int worker;
} bin;

/* The slot of row `at`, or the free one where it belongs. A free slot is written to but not taken:
 * `bin` stays another's until the caller takes it. A key of one word is stored itself; a key of
 * several words is stored as its hash, and equal hashes compare the words. */
static inline slot *find_slot(table *t, const bin *b, uint32_t at, int words)
{
  uint64_t hash = tsr__key_place(b->seed, b->word + at, b->stride, words);
  uint64_t key = words == 1 ? b->word[at] : hash;
  /* Linear probing; the table is at most half full, so it meets a free slot. */
  for (size_t s = hash & (t->size - 1);; s = (s + 1) & (t->size - 1), t->steps++) {
    slot *found = &t->slots[s];
    if (found->bin != b->tag) {
      *found = (slot){ key, at, found->bin };
      return found;
    }
    if (found->key == key &&
        (words == 1 || rows_have_same_key(b->word, b->stride, words, found->at, at)))
      return found;
  }
}

/* Doubles the slots and moves the bin's entries. Slots of other bins are not moved: they were free
 * to this bin. */
static bool table_grow(tsr__heap *heap, table *t, const bin *b, int words)
{
  table bigger = { 0 };
  if (!make_slot_table(heap, &bigger, 2 * t->size)) return false;
  for (size_t s = 0; s < t->size; s++) {
    if (t->slots[s].bin != b->tag) continue;
    find_slot(&bigger, b, t->slots[s].at, words)->bin = b->tag;
  }
  tsr__del(heap, t->slots, t->size * sizeof *t->slots);
  bigger.used = t->used;
  bigger.steps += t->steps;
  *t = bigger;
  return true;
}

/* first[i] = the first place in the bin with the key of place i. Called with a constant number of
 * words, so that the compiler makes a version for one. */
static inline bool group_bin(job *j, table *t, const bin *b, uint32_t *first, int words)
{
  t->used = 0;
  for (int64_t i = 0; i < b->count; i++) {
    if (i % ASK_AFTER == ASK_AFTER - 1 && tsr__progress_stops(&j->progress, b->worker)) return true;
    slot *s = find_slot(t, b, (uint32_t)i, words);
    first[i] = s->at;
    if (s->bin == b->tag) continue;
    s->bin = b->tag;
    if (2 * ++t->used > t->size && !table_grow(&j->rt->heap, t, b, words)) return false;
  }
  return true;
}

static void bin_task(void *user, int64_t task, int worker)
{
  job *j = user;
  const bin_of *cut = &j->bins[task];
  const part *at = &j->part[cut->part];
  table *t = &j->tables[worker];
  if (atomic_load_explicit(&j->failed, memory_order_relaxed)) return;
  const uint64_t *word = at->bin_bits ? at->bin_word : at->word;
  /* Tags begin at 1: fresh tables are zero, and so belong to no bin. Tags are tasks' numbers, so no
   * two bins that share a worker's table have the same tag. */
  bin b = { word + cut->start, at->rows, cut->count, (uint32_t)task + 1, j->seed, worker };
  /* Without bins the rows are in order already, and the groups' list itself takes the first
   * rows. */
  uint32_t *first = (at->bin_bits ? at->bin_first : at->group) + cut->start;
  /* At most half full with the rows of a usual bin; a bin of more rows lets it grow. */
  size_t size = b.count < BIN_ROWS ? 2 * BIN_ROWS : 4 * BIN_ROWS;
  if (b.count < 64) size = 128;
  bool fine = t->size >= size || make_slot_table(&j->rt->heap, t, size);
  fine = fine &&
         (j->words == 1 ? group_bin(j, t, &b, first, 1) : group_bin(j, t, &b, first, j->words));
  if (!fine) {
    atomic_store(&j->failed, true);
    return;
  }
  /* With one bin `first` has rows already. */
  if (!at->bin_bits) return;
  const uint32_t *row = at->bin_row + cut->start;
  /* From places in the bin to rows of the part. The order within a bin is that of rows, so the
   * first place is the first row. */
  for (int64_t i = 0; i < b.count; i++) first[i] = row[first[i]];
}

/* Takes the rows of a piece back in order: group[r] becomes its first row, and marks are set. Reads
 * the bins' results in the order in which deal_bins_task wrote there: the same places, once more
 * from `start`, which nobody changed. */
static void back_task(void *user, int64_t piece, int worker)
{
  (void)worker;
  job *j = user;
  tsr__piece cut = tsr__piece_of(j->rows, PIECE, piece);
  const part *at = &j->part[cut.part];
  int64_t end = cut.start + cut.count;
  uint32_t *group = at->group;
  uint32_t place[1 << MAX_BIN_BITS];
  if (at->bin_bits) memcpy(place, bin_counts_of(piece, at), sizeof *place << at->bin_bits);
  for (int64_t r = cut.start; r < end; r += 64) {
    int64_t last = end - r < 64 ? end : r + 64;
    uint64_t bits = 0;
    /* Rows of a bin come in order, so the next one is where the piece's place says. */
    if (at->bin_bits)
      for (int64_t i = r; i < last; i++) group[i] = at->bin_first[place[at->bin[i]]++];
    for (int64_t i = r; i < last; i++) bits |= (uint64_t)(group[i] == (uint32_t)i) << (i - r);
    at->marks.bits[r / 64] = bits;
  }
}

/* `group` changes its meaning here, from a first row to a number; each row is changed once, by
 * the task whose piece it is in, and marks are only read. */
static void rank_task(void *user, int64_t piece, int worker)
{
  (void)worker;
  job *j = user;
  tsr__piece cut = tsr__piece_of(j->rows, PIECE, piece);
  const part *at = &j->part[cut.part];
  int64_t end = cut.start + cut.count;
  uint32_t *group = at->group, *first = j->out->first.at[cut.part];
  /* Numbers of a piece's first rows follow those of the pieces before it. */
  uint32_t number = at->marks.before[cut.start / 64];
  for (int64_t r = cut.start; r < end; r += 64) {
    int64_t last = end - r < 64 ? end : r + 64;
    for (int64_t i = r; i < last; i++) group[i] = tsr__rank(&at->marks, group[i]);
    for (uint64_t bits = at->marks.bits[r / 64]; bits; bits &= bits - 1)
      first[number++] = (uint32_t)(r + __builtin_ctzll(bits));
  }
}

/* How many bins a part has follows from its rows alone, not from workers. */
static bool hash_room(job *j)
{
  int64_t bins = 0, first_piece = 0;
  j->tables = tsr__new(&j->rt->heap, (size_t)j->workers * sizeof *j->tables);
  bool fine = j->tables != NULL;
  for (int p = 0; fine && p < j->parts; p++) {
    part *at = &j->part[p];
    size_t rows = (size_t)at->rows, pieces = (rows + PIECE - 1) / PIECE;
    /* About BIN_ROWS rows a bin. */
    while (at->bin_bits < MAX_BIN_BITS && at->rows >> at->bin_bits > 2 * BIN_ROWS) at->bin_bits++;
    at->first_piece = first_piece;
    first_piece += (int64_t)pieces;
    bins += at->rows ? INT64_C(1) << at->bin_bits : 0;
    fine = marks_room(j, at);
    if (!at->bin_bits || !fine) continue;
    at->bin_word = tsr__loan(&j->loans, at->device, rows * (size_t)j->words * sizeof(uint64_t));
    at->bin_row = tsr__loan(&j->loans, at->device, rows * sizeof(uint32_t));
    at->bin_first = tsr__loan(&j->loans, at->device, rows * sizeof(uint32_t));
    at->bin = tsr__loan(&j->loans, at->device, rows * sizeof(uint16_t));
    at->start = tsr__loan(&j->loans, at->device, pieces * sizeof(uint32_t) << at->bin_bits);
    fine = at->bin_word && at->bin_row && at->bin_first && at->bin && at->start;
  }
  if (!fine) return false;
  j->bin_count = bins;
  j->bins = tsr__new_raw(&j->rt->heap, (size_t)(bins + 1) * sizeof *j->bins);
  return j->bins != NULL;
}

static tsr_status group_hashed(job *j)
{
  if (!hash_room(j)) return no_hash_memory(j);
  int64_t pieces = tsr__piece_count(j->rows, PIECE);
  tsr_status status = run_number_tasks(j, pieces, count_bins_task);
  if (status) return status;
  place_key_bins(j);
  status = run_number_tasks(j, pieces, deal_bins_task);
  if (!status && !tsr__parallel_progress(&j->progress, j->bin_count, bin_task, j))
    status = tsr__cancelled(j->error, what);
  if (!status && atomic_load(&j->failed)) status = no_hash_memory(j);
  if (!status) status = run_number_tasks(j, pieces, back_task);
  if (!status) status = count_marks(j);
  return status ? status : run_number_tasks(j, pieces, rank_task);
}

/* ---- the two together ------------------------------------------------------------------------ */

/* Groups of each part in its device's memory; the lists of pointers in the heap. */
static bool make_group_lists(job *j, const tsr__parts *parts)
{
  tsr__heap *heap = &j->rt->heap;
  size_t count = (size_t)parts->count;
  tsr__grouped *out = j->out;
  out->parts = parts->count;
  out->count = tsr__new(heap, count * sizeof *out->count);
  out->group = tsr__new(heap, count * sizeof *out->group);
  out->buffers = tsr__new(heap, count * sizeof *out->buffers);
  j->part = tsr__new(heap, count * sizeof *j->part);
  if (!out->count || !out->group || !out->buffers || !j->part) return false;
  for (int p = 0; p < parts->count; p++) {
    size_t bytes = (size_t)parts->rows[p] * sizeof(uint32_t);
    out->buffers[p] = tsr__cpu_take(j->rt, parts->device[p], bytes, j->error);
    if (!out->buffers[p]) return false;
    out->group[p] = tsr__cpu_data(out->buffers[p]);
  }
  return true;
}

/* Steps are told for tests: they show that nobody can choose keys that crowd. */
static void number_job_free(job *j)
{
  tsr__heap *heap = &j->rt->heap;
  tsr__loans_return(&j->loans);
  for (int w = 0; j->tables && w < j->workers; w++) j->out->steps += j->tables[w].steps;
  for (int w = 0; j->tables && w < j->workers; w++)
    tsr__del(heap, j->tables[w].slots, j->tables[w].size * sizeof(slot));
  tsr__del(heap, j->tables, (size_t)j->workers * sizeof *j->tables);
  for (int p = 0; j->part && p < j->parts; p++)
    tsr__del(heap, j->part[p].firsts, (size_t)j->slots * sizeof *j->part[p].firsts);
  tsr__del(heap, j->part, (size_t)j->parts * sizeof *j->part);
  tsr__del(heap, j->code_count, (size_t)j->parts * sizeof *j->code_count);
  tsr__del(heap, j->bins, (size_t)(j->bin_count + 1) * sizeof *j->bins);
}

tsr_status tsr__group_rows(tsr_runtime *rt, const tsr__parts *parts, const tsr__packed_keys *keys,
                           tsr__grouped *out, tsr__error *error)
{
  job j = { .rt = rt,
            .error = error,
            .out = out,
            .loans = { .rt = rt, .error = error },
            .parts = parts->count,
            .rows = parts,
            .words = keys->words,
            .bits = keys->bits,
            .workers = tsr__worker_count(rt),
            .seed = tsr__key_seed_of(rt->heap.seed),
            .progress = { .rt = rt, .what = what } };
  int64_t most = 0;
  memset(out, 0, sizeof *out);
  tsr_status status = make_group_lists(&j, parts) ? TSR_OK : no_hash_memory(&j);
  for (int p = 0; p < parts->count && !status; p++) {
    j.part[p].rows = parts->rows[p];
    j.part[p].device = parts->device[p];
    j.part[p].word = keys->word ? keys->word[p] : NULL;
    j.part[p].group = out->group[p];
    if (parts->rows[p] > most) most = parts->rows[p];
  }
  /* The part with most rows decides: all parts go one way. */
  if (!status) status = suits_dense_table(&j, most) ? group_dense(&j) : group_hashed(&j);
  number_job_free(&j);
  if (status) tsr__grouped_free(rt, out);
  return status;
}

void tsr__grouped_free(tsr_runtime *rt, tsr__grouped *grouped)
{
  size_t count = (size_t)grouped->parts;
  for (int p = 0; grouped->buffers && p < grouped->parts; p++)
    tsr__buffer_release(grouped->buffers[p]);
  for (int p = 0; grouped->tables && p < grouped->parts; p++)
    tsr__buffer_release(grouped->tables[p]);
  tsr__index_free(rt, &grouped->first);
  tsr__del(&rt->heap, grouped->buffers, count * sizeof *grouped->buffers);
  tsr__del(&rt->heap, grouped->tables, count * sizeof *grouped->tables);
  tsr__del(&rt->heap, grouped->number, count * sizeof *grouped->number);
  tsr__del(&rt->heap, grouped->group, count * sizeof *grouped->group);
  tsr__del(&rt->heap, grouped->count, count * sizeof *grouped->count);
  memset(grouped, 0, sizeof *grouped);
}
