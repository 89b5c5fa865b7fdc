/* Matching keys that meet on devices which neither side's rows need to live on.
 *
 *   home       rows  0 1 2 3     sent by owner: 1 3 | 0 2        order
 *   owners     answers              1 0 | 2 1                    matches of each
 *   home       right rows back:  a  |  b c d                     in order of the answers
 *              match[]  0 -> b, 1 -> a, 2 -> d, 3 -> none        and row 0 goes on to c
 *
 * Invariant: answers come back in the order in which keys were sent, so that a left row's number
 * never travels: `order` at its home still says whose each answer is. */
#include "kernel/device/cpu.h"
#include "kernel/rows/match.h"
#include "kernel/rows/pieces.h"

__extension__ typedef unsigned __int128 wide;

/* ---- owners of keys ---- */

/* Spreads a word's bits over all others. */
static inline uint64_t mix_word_bits(uint64_t x)
{
  x = (x ^ x >> 32) * UINT64_C(0xD1B54A32D192ED03);
  x = (x ^ x >> 29) * UINT64_C(0xABC98388FB8FAC03);
  return x ^ x >> 32;
}

/* Fixed: explanations tell the traffic of each device, and all processes agree on it. */
static inline uint64_t owner_hash(const uint64_t *word, int words, int64_t rows, int64_t row)
{
  uint64_t hash = mix_word_bits(word[row]);
  for (int w = 1; w < words; w++) hash = mix_word_bits(hash ^ word[w * rows + row]);
  return hash;
}

typedef struct extents {
  const tsr__extent_ask *ask;
  tsr__match_extent *found; /* by worker */
} extents;

typedef struct owning {
  const tsr__match_owners *ask;
  bool any;    /* some right key is no null */
  bool ranges; /* owners have shares of least .. least + reach, not of hashes */
  uint64_t least, reach, scale;
} owning;

static bool bit_at_row(const uint64_t *bits, int64_t at)
{
  return bits && bits[at / 64] >> (at % 64) & 1;
}

static const uint64_t *null_of(const tsr__packed_keys *packed, int part)
{
  return packed->null ? packed->null[part] : NULL;
}

static void key_extent_task(void *user, int64_t task, int worker)
{
  const extents *x = user;
  tsr__piece piece = tsr__piece_of(x->ask->parts, TSR__PIECE_ROWS, task);
  const uint64_t *word = x->ask->packed->word[piece.part];
  const uint64_t *null = null_of(x->ask->packed, piece.part);
  /* Each worker has its own, written back once a piece. */
  tsr__match_extent e = x->found[worker];
  for (int64_t r = piece.start; r < piece.start + piece.count; r++) {
    if (bit_at_row(null, r)) continue;
    e.least = word[r] < e.least ? word[r] : e.least;
    e.most = word[r] > e.most ? word[r] : e.most;
  }
  x->found[worker] = e;
}

tsr_status tsr__match_extent_of(tsr_runtime *rt, const tsr__extent_ask *ask, tsr__match_extent *out,
                                tsr__error *error)
{
  int workers = tsr__worker_count(rt);
  size_t size = (size_t)workers * sizeof(tsr__match_extent);
  *out = (tsr__match_extent){ UINT64_MAX, 0, 0 };
  for (int p = 0; p < ask->parts->count; p++) out->rows += ask->parts->rows[p];
  if (ask->packed->words != 1) return TSR_OK;
  extents x = { ask, tsr__new(&rt->heap, size) };
  if (!x.found) return tsr__error_set(error, TSR_ENOMEM, "no memory to join; free some frames");
  for (int w = 0; w < workers; w++) x.found[w] = *out;
  int64_t pieces = tsr__piece_count(ask->parts, TSR__PIECE_ROWS);
  bool done = tsr__parallel_long(rt, "join", pieces, key_extent_task, &x);
  for (int w = 0; w < workers; w++) {
    out->least = x.found[w].least < out->least ? x.found[w].least : out->least;
    out->most = x.found[w].most > out->most ? x.found[w].most : out->most;
  }
  tsr__del(&rt->heap, x.found, size);
  return done ? TSR_OK : tsr__cancelled(error, "join");
}

/* The owner of each row of a piece, of whichever side. */
static void find_owners(const owning *o, int side, const tsr__piece *piece)
{
  const tsr__parts *parts = o->ask->parts[side];
  const tsr__packed_keys *packed = o->ask->packed[side];
  const uint64_t *word = packed->word[piece->part], *null = null_of(packed, piece->part);
  int64_t rows = parts->rows[piece->part];
  uint64_t count = (uint64_t)parts->count;
  uint16_t *dest = tsr__cpu_data(o->ask->dest[side][piece->part]), here = (uint16_t)piece->part;
  for (int64_t r = piece->start; r < piece->start + piece->count; r++) {
    /* Unsigned: keys below the least wrap to the far end. A left key beyond all right ones meets
     * nothing, and its row stays at home. */
    bool meets = o->any && word[r] - o->least <= o->reach;
    if (o->ranges) {
      /* Key ranges of equal width, by a product instead of a division: scale is count / keys in
       * units of 2^-64. */
      uint64_t owner = (uint64_t)(((wide)(word[r] - o->least) * o->scale) >> 64);
      dest[r] = meets ? (uint16_t)owner : here;
    } else {
      uint64_t hash = owner_hash(word, packed->words, rows, r);
      /* The low half of the hash as a fraction of 2^32, times the number of owners. */
      dest[r] = meets ? (uint16_t)(((hash & UINT32_MAX) * count) >> 32) : here;
    }
  }
  for (int64_t r = piece->start; null && r < piece->start + piece->count; r++)
    /* Nulls meet nothing. */
    if (bit_at_row(null, r)) dest[r] = here;
}

static void find_owners_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const owning *o = user;
  int64_t left = tsr__piece_count(o->ask->parts[0], TSR__PIECE_ROWS);
  int side = task >= left;
  tsr__piece piece = tsr__piece_of(o->ask->parts[side], TSR__PIECE_ROWS, side ? task - left : task);
  find_owners(o, side, &piece);
}

static void share_key_range(owning *o)
{
  const tsr__match_extent *extent = o->ask->extent;
  uint64_t least = extent->least, most = extent->most, rows = (uint64_t)extent->rows;
  const tsr__parts *right = o->ask->parts[1];
  /* Untouched by any key, least is above most. */
  o->any = most >= least;
  o->least = o->any ? least : 0;
  o->reach = o->any ? most - least : 0;
  /* Dense keys: ranges keep neighbours together, and owners can look keys up in a table by
   * number. */
  o->ranges = o->reach < 4 * rows + 65536;
  /* Rounded down, so that at <= reach gives an owner below the number of parts. */
  uint64_t count = (uint64_t)right->count, keys = o->ranges ? o->reach + 1 : 1;
  /* A share of a whole part or more a key: 2^64 does not fit, and one less still gives key i an
   * owner of at most i. */
  o->scale = keys <= count ? UINT64_MAX : (uint64_t)(((wide)count << 64) / keys);
}

tsr_status tsr__match_owners_of(tsr_runtime *rt, const tsr__match_owners *ask, tsr__error *error)
{
  /* Keys of several words have no extent: any may meet another. */
  owning o = { .ask = ask, .any = true, .reach = UINT64_MAX };
  int64_t right = tsr__piece_count(ask->parts[1], TSR__PIECE_ROWS);
  int64_t left = tsr__piece_count(ask->parts[0], TSR__PIECE_ROWS);
  if (ask->packed[1]->words == 1) share_key_range(&o);
  bool done = tsr__parallel_long(rt, "join", left + right, find_owners_task, &o);
  return done ? TSR_OK : tsr__cancelled(error, "join");
}

/* ---- answers of owners ---- */

static uint32_t matches_of(const tsr__match_table *t, uint32_t row)
{
  if (row == TSR__NO_ROW) return 0;
  return t->chained ? t->link[row].length : 1;
}

static void answer_rows_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const tsr__match_answer *ask = user;
  const tsr__match_piece *piece = &ask->matched->left[task];
  const uint32_t *match = ask->matched->match[piece->part];
  void *out = tsr__cpu_data(ask->answers[piece->part]);
  for (int64_t r = piece->begin; ask->dtype != TSR_BOOL && r < piece->end; r++)
    ((uint32_t *)out)[r] = matches_of(&ask->matched->table[piece->part], match[r]);
  for (int64_t r = piece->begin; ask->dtype == TSR_BOOL && r < piece->end; r += 64) {
    int some = piece->end - r < 64 ? (int)(piece->end - r) : 64;
    uint64_t bits = 0;
    for (int k = 0; k < some; k++) bits |= (uint64_t)(match[r + k] != TSR__NO_ROW) << k;
    ((uint64_t *)out)[r / 64] = bits;
  }
}

/* Sum of the answers begin .. end - 1. */
static int64_t sum_answers(tsr_dtype dtype, const void *answers, int64_t begin, int64_t end)
{
  int64_t sum = 0;
  for (int64_t r = begin; dtype != TSR_BOOL && r < end; r++) sum += ((const uint32_t *)answers)[r];
  for (int64_t r = begin; dtype == TSR_BOOL && r < end; r += 64) {
    int some = end - r < 64 ? (int)(end - r) : 64;
    sum += __builtin_popcountll(tsr__bits_get(answers, r, some));
  }
  return sum;
}

static void sum_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const tsr__match_answer *ask = user;
  /* The rows that came to an owner lie by home, so each home's answers are one stretch. */
  int parts = ask->matched->parts, owner = (int)(task / parts), home = (int)(task % parts);
  int64_t begin = 0;
  for (int h = 0; h < home; h++) begin += ask->came[h * parts + owner];
  ask->counts[task] = sum_answers(ask->dtype, tsr__cpu_data(ask->answers[owner]), begin,
                                  begin + ask->came[home * parts + owner]);
}

tsr_status tsr__match_answers(const tsr__match_answer *ask, tsr__error *error)
{
  const tsr__matched *m = ask->matched;
  bool done = tsr__parallel_long(m->rt, "join", m->left_count, answer_rows_task, (void *)ask);
  done = done &&
         tsr__parallel_long(m->rt, "join", (int64_t)m->parts * m->parts, sum_task, (void *)ask);
  return done ? TSR_OK : tsr__cancelled(error, "join");
}

/* ---- back home ---- */

typedef struct homing {
  tsr__matched *matched;
  const tsr__match_home *ask;
  tsr__progress progress;
} homing;

enum { ASK_AFTER = 1 << 14 }; /* links between two questions */

/* Right rows of a piece's answers, kept in `at` until the pieces before are summed too. */
static void measure_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const homing *h = user;
  tsr__match_piece *piece = &h->matched->left[task];
  const void *answers = tsr__cpu_data(h->ask->answers[piece->part]);
  piece->at = sum_answers(h->ask->dtype, answers, piece->begin, piece->end);
}

/* Right rows arrive in order of the answers, so a chain is a run of neighbours. */
static void link_rows(tsr__match_link *link, uint32_t at, uint32_t count, tsr__progress *progress,
                      int worker)
{
  for (uint32_t k = 0; k < count; k++) {
    if (k % ASK_AFTER == ASK_AFTER - 1 && tsr__progress_stops(progress, worker)) return;
    link[at + k] = (tsr__match_link){ k + 1 < count ? at + k + 1 : TSR__NO_ROW, count - k };
  }
}

static void read_answers_task(void *user, int64_t task, int worker)
{
  homing *h = user;
  const tsr__match_piece *piece = &h->matched->left[task];
  const tsr__match_table *t = &h->matched->table[piece->part];
  const uint32_t *order = h->ask->order->at[piece->part];
  const void *answers = tsr__cpu_data(h->ask->answers[piece->part]);
  uint32_t *match = h->matched->match[piece->part], at = (uint32_t)piece->at;
  for (int64_t i = piece->begin; i < piece->end; i++) {
    uint32_t count =
        h->ask->dtype == TSR_BOOL ? bit_at_row(answers, i) : ((const uint32_t *)answers)[i];
    /* Answers come by owner; `order` says which left row each is of. */
    match[order[i]] = count ? at : TSR__NO_ROW;
    if (t->chained) link_rows(t->link, at, count, &h->progress, worker);
    at += count;
  }
}

static void count_results_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const homing *h = user;
  tsr__match_count(h->matched, &h->matched->left[task]);
}

/* Turns the pieces' sums into places; `rows` gets each part's right rows. */
static void place_result_pieces(tsr__matched *m, int64_t *rows)
{
  for (int64_t i = 0; i < m->left_count; i++) {
    tsr__match_piece *piece = &m->left[i];
    int64_t here = piece->at;
    piece->at = rows[piece->part];
    rows[piece->part] += here;
  }
}

static tsr_status home_memory(tsr__matched *m, bool chained, const int64_t *rows, tsr__error *error)
{
  for (int p = 0; p < m->parts; p++) {
    tsr__match_table *t = &m->table[p];
    int64_t links = chained ? rows[p] * (int64_t)sizeof(tsr__match_link) : 0;
    int64_t match = t->left_rows * (int64_t)sizeof(uint32_t);
    if (links + match > m->need) m->need = links + match;
    if (tsr__match_room(m->rt, t->device, links + match, error)) return error->status;
    if (tsr__match_take(m, p, 2, match, error)) return error->status;
    m->match[p] = tsr__cpu_data(t->memory[2]);
    t->chained = chained;
    if (!chained) continue;
    if (tsr__match_take(m, p, 1, links, error)) return error->status;
    t->link = tsr__cpu_data(t->memory[1]);
  }
  return TSR_OK;
}

tsr_status tsr__match_at_home(tsr_runtime *rt, const tsr__match_home *ask, tsr__matched *out,
                              tsr__error *error)
{
  tsr__matched *m = out;
  homing h = { m, ask, { .rt = rt, .what = "join" } };
  tsr_status status = tsr__match_open(rt, ask->parts, ask->how, m, error);
  if (!status && !tsr__parallel_long(rt, "join", m->left_count, measure_task, &h))
    status = tsr__cancelled(error, "join");
  if (!status) place_result_pieces(m, m->rows);
  if (!status) status = home_memory(m, ask->dtype != TSR_BOOL, m->rows, error);
  if (!status && !tsr__parallel_progress(&h.progress, m->left_count, read_answers_task, &h))
    status = tsr__cancelled(error, "join");
  if (!status && !tsr__parallel_long(rt, "join", m->left_count, count_results_task, &h))
    status = tsr__cancelled(error, "join");
  /* `rows` counted right rows until here, and counts results from here on. */
  if (!status) memset(m->rows, 0, (size_t)m->parts * sizeof *m->rows);
  if (!status) status = tsr__match_number(m, error);
  if (status) tsr__match_free(m);
  return status;
}
