/* Tables of right rows by key, and looking left rows up in them.
 *
 *   direct   head[key - least]  ->  row          where the keys lie close together
 *   hash     slot[hash >> ..]   ->  key, row     linear probing
 *                                   link[row]    the next row of the same key
 *
 * Invariant: rows are put in from the last to the first, each in front of those of its key, so that
 * a chain is in order of the rows. A table is filled in ranges of its slots, one a task; each task
 * reads all keys and puts in those of its range, so that no two write to one place and the
 * table is the same for any number of workers. */
#include "kernel/rows/match.h"

#include "kernel/device/cpu.h"

enum {
  BLOCK = 2 << 20,  /* rows of a part that a task of building reads */
  SMALL = 1 << 15,  /* right rows up to which one task fills a table */
  GROUP = 64,       /* rows looked up together, their slots fetched ahead */
  HELD = 1024,      /* rows of a range gathered before they are put in */
  CLEARED = 1 << 20 /* bytes of a range made free at a time */
};

static bool null_bit_at(const uint64_t *bits, int64_t at)
{
  return bits && bits[at / 64] >> (at % 64) & 1;
}

/* ---- which kind ---- */

/* Keys of nulls say nothing of the range: they are never looked up. */
static void table_extent_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const tsr__matched *m = user;
  tsr__match_piece *piece = &m->right[task];
  const tsr__match_table *t = &m->table[piece->part];
  uint64_t least = UINT64_MAX, most = 0;
  int64_t rows = piece->end - piece->begin;
  if (t->right_null) piece->count = tsr__bits_count(t->right_null + piece->begin / 64, rows);
  for (int64_t r = piece->begin; t->words == 1 && r < piece->end; r++) {
    uint64_t key = t->right[r];
    if (piece->count && null_bit_at(t->right_null, r)) continue;
    least = key < least ? key : least;
    most = key > most ? key : most;
  }
  piece->least = least;
  piece->most = most;
}

/* So many tasks fill a table that all workers have one, also where it is the only one. Tasks are
 * shared out by the parts' rows. Each range reads all keys of its part, so more than eight would
 * read more than they save. */
static void cut_ranges(const tsr__matched *m, tsr__match_table *t)
{
  int64_t all = 0;
  for (int p = 0; p < m->parts; p++) all += m->table[p].right_rows;
  /* A share of the workers by rows; small tables are filled faster than tasks are started. */
  int64_t ask = t->right_rows <= SMALL ? 1 : tsr__worker_count(m->rt) * t->right_rows / all;
  t->range_bits = 0;
  while (1 << t->range_bits < ask && t->range_bits < 3) t->range_bits++;
  t->ranges = 1 << t->range_bits;
}

/* Places of four bytes are no more memory than a hash table's slots as long as there are four a
 * slot, and looking up is one read without a hash. The last place, head[span], is for keys outside
 * of the range and stays free. */
static void choose_table_kind(tsr__match_table *t, uint64_t least, uint64_t most)
{
  uint64_t rows = (uint64_t)t->right_rows;
  uint64_t span = most >= least ? most - least : 0;
  t->slot_bits = 4;
  /* At most two thirds full. */
  while (UINT64_C(1) << t->slot_bits < rows + rows / 2) t->slot_bits++;
  t->direct = t->words == 1 && span < 65536 + (UINT64_C(4) << t->slot_bits);
  if (t->direct) {
    /* Without a key at all the span is 0 and every lookup finds the free place. */
    t->least = most >= least ? least : 0;
    t->span = most >= least ? span + 1 : 0;
  }
}

tsr_status tsr__match_choose(tsr__matched *m, tsr__error *error)
{
  if (!tsr__parallel_long(m->rt, "join", m->right_count, table_extent_task, m))
    return tsr__cancelled(error, "join");
  /* Told as one way for all parts. */
  m->direct = true;
  int64_t piece = 0;
  for (int p = 0; p < m->parts; p++) {
    uint64_t least = UINT64_MAX, most = 0;
    int64_t nulls = 0;
    for (; piece < m->right_count && m->right[piece].part == p; piece++) {
      if (m->right[piece].least < least) least = m->right[piece].least;
      if (m->right[piece].most > most) most = m->right[piece].most;
      nulls += m->right[piece].count;
    }
    /* No nulls were met, so none are asked for on the way. */
    if (!nulls) m->table[p].right_null = NULL;
    choose_table_kind(&m->table[p], least, most);
    cut_ranges(m, &m->table[p]);
    m->direct = m->direct && m->table[p].direct;
  }
  return TSR_OK;
}

int64_t tsr__match_table_bytes(const tsr__match_table *t)
{
  int64_t table = t->direct ? (int64_t)(t->span + 1) * (int64_t)sizeof(uint32_t)
                            : (INT64_C(1) << t->slot_bits) * (int64_t)sizeof(tsr__match_slot);
  return table + t->right_rows * (int64_t)sizeof(tsr__match_link);
}

/* ---- building ---- */

/* A range of a table to fill, from a block of its rows. */
typedef struct fill {
  int part, range;
  bool chained, full; /* found: a key twice; no slot left */
  int64_t steps;
  tsr__progress *progress;
  int worker; /* who fills */
} fill;

typedef struct build {
  tsr__matched *matched;
  fill *fills;
  int64_t block; /* blocks are numbered from the last rows to the first */
  tsr__progress progress;
} build;

/* Puts a row in front of a chain; true if there was one. The rows of a chain are put in from the
 * last to the first, so the newest is in front and knows the length. */
static bool put_front(tsr__match_link *link, uint32_t row, uint32_t first)
{
  bool chained = first != TSR__NO_ROW;
  link[row] = (tsr__match_link){ first, chained ? link[first].length + 1 : 1 };
  return chained;
}

static bool put_direct(tsr__match_table *t, const uint32_t *rows, int count)
{
  bool chained = false;
  for (int i = 0; i < count; i++) {
    uint32_t row = rows[i], *head = &t->head[t->right[row] - t->least];
    chained |= put_front(t->link, row, *head);
    *head = row;
  }
  return chained;
}

/* Rows of one hash may be rows of two keys. */
static bool same_right(const tsr__match_table *t, int64_t a, int64_t b)
{
  for (int w = 0; w < t->words; w++)
    if (t->right[w * t->right_rows + a] != t->right[w * t->right_rows + b]) return false;
  return true;
}

/* The first slot for a key with this hash, and the mask of the range that the key wraps in. Ranges
 * are the top bits, so that a range is a stretch of slots and its keys are known from the hash. */
static uint64_t home(const tsr__match_table *t, uint64_t hash)
{
  return hash * UINT64_C(0x9e3779b97f4a7c15) >> (64 - t->slot_bits);
}

/* Probing wraps at the end of its range: another range is another task's. */
static uint64_t around(const tsr__match_table *t, uint64_t at)
{
  uint64_t mask = (UINT64_C(1) << (t->slot_bits - t->range_bits)) - 1;
  return (at & ~mask) | ((at + 1) & mask);
}

/* Puts rows in whose hashes are known; a range whose slots are all taken is given up. All slots
 * are fetched before the first row is put in. */
static void put_hash(tsr__match_table *t, fill *f, const uint32_t *rows, const uint64_t *hash,
                     int count)
{
  /* For writing; the lines come while the others are asked for. */
  for (int i = 0; i < count; i++) __builtin_prefetch(&t->slot[home(t, hash[i])], 1);
  for (int i = 0; i < count; i++) {
    uint32_t row = rows[i];
    uint64_t key = t->words == 1 ? t->right[row] : hash[i], first = home(t, hash[i]), at = first;
    tsr__match_slot *slot;
    for (;;) {
      slot = &t->slot[at];
      if (slot->row == TSR__NO_ROW) break;
      if (slot->key == key && (t->words == 1 || same_right(t, slot->row, row))) break;
      at = around(t, at);
      f->steps++;
      /* Only an author of keys who knew the seed could crowd them; equal keys share a slot. A full
       * range is still possible where its share of keys is too large. */
      if (at == first) {
        f->full = true;
        return;
      }
    }
    f->chained |= put_front(t->link, row, slot->row);
    *slot = (tsr__match_slot){ .key = key, .row = row };
  }
}

/* The slots of one range: first .. first + count - 1. */
static void slots_of_range(const tsr__match_table *t, int range, uint64_t *first, uint64_t *count)
{
  /* A direct table has a place a key, a hash table slots. */
  uint64_t all = t->direct ? t->span : UINT64_C(1) << t->slot_bits;
  *first = all * (uint64_t)range / (uint64_t)t->ranges;
  *count = all * (uint64_t)(range + 1) / (uint64_t)t->ranges - *first;
}

/* Clears a little at a time, for fresh memory is slow. False: cancelled. All ones: TSR__NO_ROW for
 * heads, and a slot whose row is TSR__NO_ROW. The last range of a direct table clears the place
 * after it, too. */
static bool clear_range(tsr__match_table *t, const fill *f)
{
  uint64_t first, count;
  slots_of_range(t, f->range, &first, &count);
  bool last = f->range + 1 == t->ranges;
  char *at = t->direct ? (char *)&t->head[first] : (char *)&t->slot[first];
  size_t left = t->direct ? (count + last) * sizeof *t->head : count * sizeof *t->slot;
  for (size_t here; left; at += here, left -= here) {
    here = left < CLEARED ? left : CLEARED;
    if (tsr__progress_stops(f->progress, f->worker)) return false;
    memset(at, 0xFF, here);
  }
  return true;
}

/* Reads a block's keys from the last row to the first; the rows of this range are held and put in
 * some at a time, so that the loop over keys stays short. */
static void fill_direct(tsr__match_table *t, fill *f, int64_t begin, int64_t end)
{
  uint32_t held[HELD];
  uint64_t first, count;
  int n = 0;
  slots_of_range(t, f->range, &first, &count);
  first += t->least;
  for (int64_t r = end - 1; r >= begin; r--) {
    held[n] = (uint32_t)r;
    /* Unsigned: keys below `first` wrap to large numbers and are not below `count`. Written always;
     * counted where it belongs to the range and is no null. */
    n += (t->right[r] - first < count) & !null_bit_at(t->right_null, r);
    if (n < HELD) continue;
    f->chained |= put_direct(t, held, n);
    n = 0;
    if (tsr__progress_stops(f->progress, f->worker)) return;
  }
  f->chained |= put_direct(t, held, n);
}

static void fill_hash(tsr__match_table *t, fill *f, int64_t begin, int64_t end)
{
  uint32_t held[HELD];
  uint64_t hashes[HELD], first, count;
  int n = 0;
  slots_of_range(t, f->range, &first, &count);
  /* Once a range is full its entries are of no use. */
  for (int64_t r = end - 1; r >= begin && !f->full; r--) {
    uint64_t hash = tsr__key_place(t->seed, t->right + r, t->right_rows, t->words);
    held[n] = (uint32_t)r;
    hashes[n] = hash;
    n += (int)(home(t, hash) - first < count) & (int)!null_bit_at(t->right_null, r);
    if (n < HELD) continue;
    put_hash(t, f, held, hashes, n);
    n = 0;
    if (tsr__progress_stops(f->progress, f->worker)) return;
  }
  if (!f->full) put_hash(t, f, held, hashes, n);
}

/* Blocks of rows, and between them other parts' turn; a block is a round of tasks for all
 * ranges. */
static void build_task(void *user, int64_t task, int worker)
{
  build *b = user;
  fill *f = &b->fills[task];
  tsr__match_table *t = &b->matched->table[f->part];
  f->worker = worker;
  if (b->block == 0 && !clear_range(t, f)) return;
  int64_t end = t->right_rows - b->block * BLOCK, begin = end > BLOCK ? end - BLOCK : 0;
  if (end <= 0 || f->full) return;
  if (t->direct) fill_direct(t, f, begin, end);
  else fill_hash(t, f, begin, end);
}

/* One round over all tables that are not yet built; true when a range had no slot left. Rounds go
 * from the last block to the first, as chains ask for. */
static tsr_status build_round(tsr__matched *m, const bool *wanted, bool *full, tsr__error *error)
{
  build b = { .matched = m, .progress = { .rt = m->rt, .what = "join" } };
  int64_t count = 0, longest = 0;
  /* The part with most rows decides the rounds; other parts have nothing to do in the last
   * rounds. */
  for (int p = 0; p < m->parts; p++) {
    if (!wanted[p]) continue;
    count += m->table[p].ranges;
    if (m->table[p].right_rows > longest) longest = m->table[p].right_rows;
  }
  size_t size = (size_t)(count + 1) * sizeof(fill);
  b.fills = tsr__new(&m->rt->heap, size);
  if (!b.fills) return tsr__error_set(error, TSR_ENOMEM, "no memory to join; free some frames");
  int64_t at = 0;
  for (int p = 0; p < m->parts; p++)
    for (int r = 0; wanted[p] && r < m->table[p].ranges; r++)
      b.fills[at++] = (fill){ .part = p, .range = r, .progress = &b.progress };
  bool done = true;
  /* Also without rows: ranges must be cleared. */
  for (; done && (b.block == 0 || b.block * BLOCK < longest); b.block++)
    done = tsr__parallel_progress(&b.progress, count, build_task, &b);
  for (int64_t i = 0; i < count; i++) {
    m->table[b.fills[i].part].chained |= b.fills[i].chained;
    m->table[b.fills[i].part].full |= b.fills[i].full;
    *full |= b.fills[i].full;
    m->steps += b.fills[i].steps;
  }
  tsr__del(&m->rt->heap, b.fills, size);
  return done ? TSR_OK : tsr__cancelled(error, "join");
}

/* Keys whose hashes crowd in one range find room once the whole table is one range. */
tsr_status tsr__match_build(tsr__matched *m, tsr__error *error)
{
  size_t size = (size_t)m->parts * sizeof(bool);
  bool *wanted = tsr__new(&m->rt->heap, size), full = false;
  if (!wanted) return tsr__error_set(error, TSR_ENOMEM, "no memory to join; free some frames");
  memset(wanted, true, size);
  tsr_status status = build_round(m, wanted, &full, error);
  /* Only the tables of which a range was full; all else stays as it is. */
  if (!status && full) {
    for (int p = 0; p < m->parts; p++) {
      tsr__match_table *t = &m->table[p];
      wanted[p] = t->full;
      if (!t->full) continue;
      t->full = t->chained = false;
      t->ranges = 1;
      t->range_bits = 0;
    }
    status = build_round(m, wanted, &full, error);
  }
  tsr__del(&m->rt->heap, wanted, size);
  return status;
}

/* ---- looking up ---- */

/* A key outside of the range finds the place after the last, which is free: no branch. */
static void probe_direct(const tsr__match_table *t, int64_t begin, int64_t end, uint32_t *match)
{
  const uint64_t *key = t->left;
  const uint32_t *head = t->head;
  uint64_t least = t->least, span = t->span;
  for (int64_t r = begin; r < end; r++) {
    uint64_t at = key[r] - least;
    match[r] = head[at < span ? at : span];
  }
}

/* A slot holds a key of one word itself; a key of several words has its hash there, and the words
 * are compared. */
static uint32_t find_right_row(const tsr__match_table *t, uint64_t hash, int64_t row)
{
  uint64_t key = t->words == 1 ? t->left[row] : hash, first = home(t, hash), at = first;
  do {
    const tsr__match_slot *slot = &t->slot[at];
    if (slot->row == TSR__NO_ROW) return TSR__NO_ROW;
    bool same = slot->key == key;
    for (int w = 0; same && t->words > 1 && w < t->words; w++)
      same = t->left[w * t->left_rows + row] == t->right[w * t->right_rows + slot->row];
    if (same) return slot->row;
    at = around(t, at);
  } while (at != first);
  return TSR__NO_ROW;
}

/* The slots of GROUP rows are fetched before the first is looked at. A group waits for memory once,
 * not once a row. */
static void probe_hash(const tsr__match_table *t, int64_t begin, int64_t end, uint32_t *match)
{
  uint64_t hash[GROUP];
  for (int64_t from = begin; from < end; from += GROUP) {
    int some = end - from < GROUP ? (int)(end - from) : GROUP;
    for (int i = 0; i < some; i++) {
      hash[i] = tsr__key_place(t->seed, t->left + from + i, t->left_rows, t->words);
      __builtin_prefetch(&t->slot[home(t, hash[i])]);
    }
    for (int i = 0; i < some; i++) match[from + i] = find_right_row(t, hash[i], from + i);
  }
}

void tsr__match_probe(const tsr__match_table *t, int64_t begin, int64_t end, uint32_t *match)
{
  if (t->direct) probe_direct(t, begin, end, match);
  else probe_hash(t, begin, end, match);
  /* Nulls were looked up like any key and are taken back: few, and a test for each row would cost
   * more. */
  for (int64_t r = begin; t->left_null && r < end; r += 64) {
    uint64_t nulls = tsr__bits_get(t->left_null, r, end - r < 64 ? (int)(end - r) : 64);
    for (; nulls; nulls &= nulls - 1) match[r + __builtin_ctzll(nulls)] = TSR__NO_ROW;
  }
}
