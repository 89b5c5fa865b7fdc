/* Sorting rows by packed keys.
 *
 *   words of a part      9 2 7 2 8 1 ...           more than 65,536: a round cuts the segment
 *   round                |2 2 1 ..|7 8 9 ..|       into buckets of nearby words, rows beside them
 *   leaves               1 2 2    7 8 9            each bucket is sorted inside the cache
 *   order                5 1 3    2 4 0
 *
 * A sample proposes the borders of the buckets: equal steps if the words are spread evenly, else
 * its quantiles; a word that is frequent gets a bucket to itself, which is sorted as it is. Rounds
 * and leaves are tasks over all parts at once.
 *
 * Invariants: buckets are cut stably and leaves sorted stably, so equal words keep their order
 * whatever the sample says. A segment's rows stay within its own range of the part's buffers, so a
 * leaf waits undisturbed until all are cut. A round always takes something off a segment: the
 * sampled words lie in two buckets at least, or in one of their own. */
#include "kernel/rows/sort.h"
#include "kernel/device/cpu.h"
#include "kernel/rows/pieces.h"

enum {
  PIECE = 1 << 17, /* rows of a task of a round */
  TARGET = 24576,  /* rows a bucket may have on average */
  FEWEST = 4,      /* buckets of a round */
  MOST = TSR__CUT_BUCKETS,
  SAMPLES = TSR__CUT_SAMPLES / MOST /* a bucket */
};

/* ---- segments and how they are cut ----------------------------------------------------------- */

/* Some rows of a part that are sorted among themselves. Level 0 lies in the input, then the part's
 * two buffers take turns.
 *
 *    level 0   in            a round reads level n and writes level n + 1;
 *    level 1   word[0], at[0]     the buffer of level n - 1 is free by then
 *    level 2   word[1], at[1]
 *    level 3   word[0], at[0] ... */
typedef struct segment {
  int part, level;
  bool constant; /* or in order: nothing to sort */
  int64_t start, count;
} segment;

/* The buckets of a segment: by equal steps from `least`, or by borders (bucket b holds words from
 * border[b - 1] up to, without, border[b]). `border` is padded to a complete tree of `depth`
 * levels, which a search walks without branches. */
typedef struct cut {
  segment from;
  bool steps;
  int shift, buckets, depth; /* depth of the padded borders */
  uint64_t least;
  int64_t first_piece; /* number among all pieces of the round */
  uint32_t *tally;     /* [piece * buckets + b]: rows, then their place in the segment */
  uint64_t border[MOST];
} cut;

/* The words that one part sorts; `unsorted` as soon as one word is below the one before it. */
typedef struct lane {
  const uint64_t *in; /* the words, and which rows they are of (NULL: 0, 1, 2, ...) */
  const uint32_t *in_at;
  uint64_t *word[2];
  uint32_t *at[2];
  uint16_t *bucket;
  uint32_t *out;
  _Atomic bool unsorted;
} lane;

enum { LANE_BUFFERS = 5 }; /* word and at of two levels, bucket */

typedef struct sorter {
  tsr_runtime *rt;
  const tsr__parts *parts;
  tsr__error *error;
  lane *lanes;
  tsr__buffer **buffers; /* [LANE_BUFFERS * part + i] */
  tsr__sort_room *room;  /* one a worker */
  int workers;
  segment *leaf, *big;
  size_t leaf_count, leaf_room, big_count, big_room;
  cut *cuts;
  size_t cut_room;
  int64_t cut_count;
  uint32_t *tally;
  size_t tally_room;
} sorter;

/* A segment's words, where its level lies. */
static const uint64_t *words_of_segment(const sorter *s, const segment *g)
{
  const lane *l = &s->lanes[g->part];
  return (g->level ? l->word[(g->level - 1) & 1] : l->in) + g->start;
}

/* NULL: the identity, of a whole part. */
static const uint32_t *rows_of_segment(const sorter *s, const segment *g)
{
  const lane *l = &s->lanes[g->part];
  const uint32_t *at = g->level ? l->at[(g->level - 1) & 1] : l->in_at;
  return at ? at + g->start : NULL;
}

static tsr_status no_sort_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM,
                        "sort: no memory for the plan of a sort; free some arrays");
}

/* ---- choosing borders ------------------------------------------------------------------------ */

/* Words of a segment at places that are spread but not regular, in order. Places are the same on
 * every run, and a hash of the number keeps them from meeting a period in the data. */
static const uint64_t *sample_segment(const segment *g, const uint64_t *word, int wanted,
                                      tsr__sort_room *room)
{
  int64_t stride = g->count / wanted;
  /* One word of each stride of rows, so that the sample covers the segment. */
  for (int i = 0; i < wanted; i++) {
    uint64_t salt = ((uint64_t)i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    room->sample[i] = word[i * stride + (int64_t)((salt >> 32) % (uint64_t)stride)];
  }
  /* Samples are few enough for a leaf. */
  tsr__sort_leaf_rows(room, &(tsr__sort_leaf){ room->sample, NULL, wanted, room->order });
  for (int i = 0; i < wanted; i++) room->sorted[i] = room->sample[room->order[i]];
  return room->sorted;
}

/* Equal steps, if no bucket gets too many of the sample. A subtraction and a shift a row instead
 * of a search: worth it if the words are spread evenly. How evenly is judged by the sample: no
 * step may hold more of it than three quarters of a leaf. */
static bool cut_in_steps(cut *c, const uint64_t *sample, int count, int wanted)
{
  uint64_t spread = sample[count - 1] - sample[0];
  /* A power of two, so that the step of a word is a shift. */
  int shift = tsr__used_bits(spread) - tsr__used_bits((uint64_t)wanted - 1) - 1;
  if (shift < 0) shift = 0;
  /* There must be room for the last bucket, too. */
  while (spread >> shift >= TSR__CUT_BUCKETS) shift++;
  if (!spread) return false;
  /* The sample's share of three quarters of a leaf's rows; `run` counts sampled words in one
   * step. */
  int64_t most = TSR__SORT_LEAF_ROWS * 3 / 4 * (int64_t)count / c->from.count, run = 0;
  for (int i = 0; shift && i < count; i++) {
    bool same = i && (sample[i] - sample[0]) >> shift == (sample[i - 1] - sample[0]) >> shift;
    run = same ? run + 1 : 1;
    if (run > most) return false;
  }
  c->steps = true;
  c->shift = shift;
  c->least = sample[0];
  c->buckets = (int)(spread >> shift) + 1;
  return true;
}

/* Borders at the sample's quantiles; a word that is two of them is cut off on both sides. A word
 * that is at two quantiles has a share of at least a bucket: border, then border + 1, make a
 * bucket of nothing else. */
static void cut_by_borders(cut *c, const uint64_t *sample, int count, int wanted)
{
  int n = 0;
  uint64_t last = 0;
  for (int i = 1; i < wanted; i++) {
    /* The i-th of `wanted` quantiles. */
    uint64_t word = sample[(int64_t)i * count / wanted];
    if (!n || word != last) {
      if (!n || c->border[n - 1] != word) c->border[n++] = word;
    } else if (c->border[n - 1] == word && word < UINT64_MAX) {
      c->border[n++] = word + 1;
    }
    last = word;
  }
  c->steps = false;
  c->buckets = n + 1;
  c->depth = tsr__sort_pad_borders(c->border, n);
}

/* The first and the last bucket of steps take all that lies outside of the sample's range. */
static bool constant_bucket(const cut *c, int b)
{
  if (c->steps) return !c->shift && b > 0 && b < c->buckets - 1;
  if (!b) return false;
  if (b == c->buckets - 1) return c->border[b - 1] == UINT64_MAX;
  return c->border[b] - c->border[b - 1] == 1;
}

static void plan_task(void *user, int64_t task, int worker)
{
  const sorter *s = user;
  cut *c = &s->cuts[task];
  int wanted = FEWEST;
  /* A power of two of buckets, each with a leaf's share or somewhat more. */
  while (wanted < MOST && (int64_t)wanted * TARGET < c->from.count) wanted *= 2;
  int count = wanted * SAMPLES;
  const uint64_t *sample =
      sample_segment(&c->from, words_of_segment(s, &c->from), count, &s->room[worker]);
  if (!cut_in_steps(c, sample, count, wanted)) cut_by_borders(c, sample, count, wanted);
}

/* ---- a round: which bucket, how many, where to ----------------------------------------------- */

typedef struct round_piece {
  const cut *cut;
  const segment *from;
  int64_t start, count; /* within the segment */
  uint32_t *tally;
} round_piece;

/* Pieces are numbered over all cuts of a round; the last cut that begins at or before the task is
 * its own. */
static round_piece round_piece_of(const sorter *s, int64_t task)
{
  int64_t low = 0, high = s->cut_count - 1;
  while (low < high) {
    int64_t middle = (low + high + 1) / 2;
    if (s->cuts[middle].first_piece <= task) low = middle;
    else high = middle - 1;
  }
  /* Rows of a piece within its segment; the last piece has the rest. */
  const cut *c = &s->cuts[low];
  int64_t number = task - c->first_piece, start = number * PIECE, rest = c->from.count - start;
  return (round_piece){ c, &c->from, start, rest < PIECE ? rest : PIECE,
                        c->tally + number * c->buckets };
}

/* Words outside of the sample's range go to the ends. */
static void bucket_by_steps(const cut *c, const uint64_t *word, int64_t n, uint16_t *bucket)
{
  uint64_t last = (uint64_t)c->buckets - 1;
  for (int64_t i = 0; i < n; i++) {
    uint64_t b = word[i] < c->least ? 0 : (word[i] - c->least) >> c->shift;
    bucket[i] = (uint16_t)(b < last ? b : last);
  }
}

/* Buckets are kept, two bytes a row: looking a border up a second time while scattering would
 * cost more than reading them back. */
static void bucket_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const sorter *s = user;
  round_piece p = round_piece_of(s, task);
  const uint64_t *word = words_of_segment(s, p.from) + p.start;
  uint16_t *bucket = s->lanes[p.from->part].bucket + p.from->start + p.start;
  if (p.cut->steps) bucket_by_steps(p.cut, word, p.count, bucket);
  else
    tsr__sort_search_borders(&(tsr__sort_borders){ p.cut->border, p.cut->buckets - 1,
                                                   p.cut->depth },
                             word, p.count, bucket);
  memset(p.tally, 0, (size_t)p.cut->buckets * sizeof *p.tally);
  for (int64_t i = 0; i < p.count; i++) p.tally[bucket[i]]++;
}

/* `first_row` counts where no rows are given: level 0 of a first word, whose rows are 0, 1, 2,
 * ... */
static void scatter_task(void *user, int64_t task, int worker)
{
  const sorter *s = user;
  round_piece p = round_piece_of(s, task);
  const lane *l = &s->lanes[p.from->part];
  int to = p.from->level & 1;
  int64_t base = p.from->start;
  const uint32_t *at = rows_of_segment(s, p.from);
  tsr__sort_deal job = { .word = words_of_segment(s, p.from) + p.start,
                         .at = at ? at + p.start : NULL,
                         .first_row = (uint32_t)p.start,
                         .bucket = l->bucket + base + p.start,
                         .count = p.count,
                         .buckets = p.cut->buckets,
                         .start = base,
                         .next = p.tally,
                         .to_word = l->word[to],
                         .to_at = l->at[to] };
  tsr__sort_deal_rows(&s->room[worker], &job);
}

/* ---- from segments to smaller ones ----------------------------------------------------------- */

/* Leaves wait until all rounds are over. So each worker's cache is used for one thing at a time,
 * and a round has nothing but large tasks. */
static bool add_segment(sorter *s, const segment *g)
{
  /* A segment that is small or needs no sort is a leaf; any other is cut in the next round. */
  tsr__heap *heap = &s->rt->heap;
  if (g->constant || g->count <= TSR__SORT_LEAF_ROWS) {
    if (!tsr__grow(heap, (void **)&s->leaf, &s->leaf_room, s->leaf_count + 1, sizeof *g))
      return false;
    s->leaf[s->leaf_count++] = *g;
    return true;
  }
  if (!tsr__grow(heap, (void **)&s->big, &s->big_room, s->big_count + 1, sizeof *g)) return false;
  s->big[s->big_count++] = *g;
  return true;
}

/* Turns a cut's counts into places, and its buckets into segments. Bucket by bucket over the
 * pieces, as places of a counting sort: rows of a bucket stay in order of the pieces, which makes
 * it stable. */
static bool settle_cut(sorter *s, const cut *c)
{
  int64_t pieces = (c->from.count + PIECE - 1) / PIECE, at = 0;
  for (int b = 0; b < c->buckets; b++) {
    int64_t first = at;
    for (int64_t i = 0; i < pieces; i++) {
      uint32_t *tally = &c->tally[i * c->buckets + b], here = *tally;
      *tally = (uint32_t)at;
      at += here;
    }
    segment g = { c->from.part, c->from.level + 1, constant_bucket(c, b), c->from.start + first,
                  at - first };
    if (g.count && !add_segment(s, &g)) return false;
  }
  return true;
}

/* The buffers of a part that a level's rows go to. Made when a level is first reached: most sorts
 * need one level, few rows none. */
static bool level_room(sorter *s, const segment *g)
{
  lane *l = &s->lanes[g->part];
  int to = g->level & 1, device = s->parts->device[g->part];
  size_t rows = (size_t)s->parts->rows[g->part];
  tsr__buffer **own = s->buffers + LANE_BUFFERS * g->part;
  struct {
    int slot;
    size_t bytes;
  } want[] = { { 2 * to, rows * 8 }, { 2 * to + 1, rows * 4 }, { 4, rows * 2 } };
  for (int i = 0; i < 3; i++) {
    tsr__buffer **slot = &own[want[i].slot];
    if (!*slot) *slot = tsr__cpu_take(s->rt, device, want[i].bytes, s->error);
    if (!*slot) return false;
  }
  l->word[to] = tsr__cpu_data(own[2 * to]);
  l->at[to] = tsr__cpu_data(own[2 * to + 1]);
  l->bucket = tsr__cpu_data(own[4]);
  return true;
}

/* Takes the big segments as the cuts of a round. */
static tsr_status start_sort_round(sorter *s)
{
  tsr__heap *heap = &s->rt->heap;
  if (!tsr__grow(heap, (void **)&s->cuts, &s->cut_room, s->big_count, sizeof *s->cuts))
    return no_sort_memory(s->error);
  s->cut_count = (int64_t)s->big_count;
  s->big_count = 0;
  /* The list of big segments is read to its end before the round adds to it again. */
  for (int64_t i = 0; i < s->cut_count; i++) {
    s->cuts[i].from = s->big[i];
    if (!level_room(s, &s->big[i])) return s->error->status;
  }
  return TSR_OK;
}

/* Numbers the pieces of all cuts and shares the tallies out: a row of counts for each piece. */
static int64_t number_cut_pieces(sorter *s)
{
  int64_t pieces = 0;
  size_t tallies = 0;
  for (int64_t i = 0; i < s->cut_count; i++) {
    int64_t here = (s->cuts[i].from.count + PIECE - 1) / PIECE;
    s->cuts[i].first_piece = pieces;
    pieces += here;
    tallies += (size_t)here * (size_t)s->cuts[i].buckets;
  }
  if (!tsr__grow(&s->rt->heap, (void **)&s->tally, &s->tally_room, tallies, sizeof *s->tally))
    return -1;
  /* Pointers into the list are given out after it grew, as growing moves it. */
  uint32_t *next = s->tally;
  for (int64_t i = 0; i < s->cut_count; i++) {
    cut *c = &s->cuts[i];
    c->tally = next;
    next += (c->from.count + PIECE - 1) / PIECE * c->buckets;
  }
  return pieces;
}

/* plan (a task a segment), bucket (a task a piece), settle (here), scatter (a task a piece). */
static tsr_status run_round(sorter *s)
{
  tsr_status status = start_sort_round(s);
  if (status) return status;
  if (!tsr__parallel_long(s->rt, "sort", s->cut_count, plan_task, s))
    return tsr__cancelled(s->error, "sort");
  int64_t pieces = number_cut_pieces(s);
  if (pieces < 0) return no_sort_memory(s->error);
  if (!tsr__parallel_long(s->rt, "sort", pieces, bucket_task, s))
    return tsr__cancelled(s->error, "sort");
  for (int64_t i = 0; i < s->cut_count; i++)
    if (!settle_cut(s, &s->cuts[i])) return no_sort_memory(s->error);
  if (!tsr__parallel_long(s->rt, "sort", pieces, scatter_task, s))
    return tsr__cancelled(s->error, "sort");
  return TSR_OK;
}

/* ---- rows that are in order already ---------------------------------------------------------- */

static void look_for_order_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const sorter *s = user;
  tsr__piece piece = tsr__piece_of(s->parts, TSR__PIECE_ROWS, task);
  lane *l = &s->lanes[piece.part];
  const uint64_t *word = l->in;
  /* Another piece has seen it: no need to look on. */
  if (atomic_load_explicit(&l->unsorted, memory_order_relaxed)) return;
  /* A piece looks at the last word of the one before it: borders between pieces are looked at
   * once. */
  for (int64_t i = piece.start + !piece.start; i < piece.start + piece.count; i++) {
    if (word[i - 1] <= word[i]) continue;
    atomic_store_explicit(&l->unsorted, true, memory_order_relaxed);
    return;
  }
}

/* Each part as a segment, or in pieces that are left as they are. Data that is sorted already is
 * common, and costs one look. Pieces of sorted data become many leaves that stay as they are, so
 * that all workers write the identity. */
static tsr_status first_segments(sorter *s)
{
  for (int p = 0; p < s->parts->count; p++) atomic_store(&s->lanes[p].unsorted, false);
  if (!tsr__parallel_long(s->rt, "sort", tsr__piece_count(s->parts, TSR__PIECE_ROWS),
                          look_for_order_task, s))
    return tsr__cancelled(s->error, "sort");
  for (int p = 0; p < s->parts->count; p++) {
    /* A part that is unsorted is one segment. */
    bool sorted = !atomic_load(&s->lanes[p].unsorted);
    int64_t rows = s->parts->rows[p], step = sorted ? PIECE : rows;
    for (int64_t at = 0; at < rows; at += step) {
      segment g = { p, 0, sorted, at, rows - at < step ? rows - at : step };
      if (!add_segment(s, &g)) return no_sort_memory(s->error);
    }
  }
  return TSR_OK;
}

/* The rows of a segment as they are. */
static void keep_order(const segment *g, const uint32_t *at, uint32_t *out)
{
  if (at) memcpy(out, at, (size_t)g->count * sizeof *out);
  else
    for (int64_t i = 0; i < g->count; i++) out[i] = (uint32_t)(g->start + i);
}

/* A leaf writes its rows where the segment stands in the part: leaves need no joining. */
static void leaf_task(void *user, int64_t task, int worker)
{
  const sorter *s = user;
  const segment *g = &s->leaf[task];
  const uint32_t *at = rows_of_segment(s, g);
  uint32_t *out = s->lanes[g->part].out + g->start;
  if (g->constant) keep_order(g, at, out);
  else
    tsr__sort_leaf_rows(&s->room[worker],
                        &(tsr__sort_leaf){ words_of_segment(s, g), at, g->count, out });
}

/* Sorts every lane by its words; `out` of the lanes gets the rows. Rounds until every segment is
 * small enough: one for some millions of rows, two for more. */
static tsr_status sort_lanes(sorter *s)
{
  s->leaf_count = s->big_count = 0;
  tsr_status status = first_segments(s);
  while (!status && s->big_count) status = run_round(s);
  if (status) return status;
  if (!tsr__parallel_long(s->rt, "sort", (int64_t)s->leaf_count, leaf_task, s))
    return tsr__cancelled(s->error, "sort");
  return TSR_OK;
}

/* ---- keys of several words ------------------------------------------------------------------- */

typedef struct take_job {
  const sorter *s;
  const uint64_t *const *word;
  uint64_t **to;
} take_job;

/* The next word of each key in the order found so far: reads that jump, once a word. */
static void take_next_word_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const take_job *job = user;
  tsr__piece piece = tsr__piece_of(job->s->parts, TSR__PIECE_ROWS, task);
  const uint64_t *word = job->word[piece.part];
  const uint32_t *at = job->s->lanes[piece.part].in_at + piece.start;
  uint64_t *to = job->to[piece.part] + piece.start;
  for (int64_t i = 0; i < piece.count; i++) to[i] = word[at[i]];
}

/* The last word first; each further one in the order found so far, which is stable. `index` holds
 * that order and `other` takes the next. */
typedef struct chain {
  tsr__index *index, other;
  tsr__buffer **buffers; /* a part's words in the order found so far */
  const uint64_t **word; /* the key's words */
  uint64_t **taken;
} chain;

/* One block for the three lists of a part each. */
static size_t chain_size(int parts)
{
  return (size_t)parts * (sizeof(tsr__buffer *) + sizeof(uint64_t *) + sizeof(uint64_t *));
}

static tsr_status chain_new(sorter *s, chain *c)
{
  int parts = s->parts->count;
  c->buffers = tsr__new(&s->rt->heap, chain_size(parts));
  if (!c->buffers) return no_sort_memory(s->error);
  /* The block goes on after the buffers' list. */
  c->word = (const uint64_t **)(c->buffers + parts);
  c->taken = (uint64_t **)(c->word + parts);
  for (int p = 0; p < parts; p++) {
    c->buffers[p] = tsr__cpu_take(s->rt, s->parts->device[p],
                                  (size_t)s->parts->rows[p] * sizeof(uint64_t), s->error);
    if (!c->buffers[p]) return s->error->status;
    c->taken[p] = tsr__cpu_data(c->buffers[p]);
  }
  return tsr__index_new(s->rt, s->parts, &c->other, s->error);
}

static void chain_free(sorter *s, chain *c)
{
  if (c->buffers)
    for (int p = 0; p < s->parts->count; p++) tsr__buffer_release(c->buffers[p]);
  tsr__del(&s->rt->heap, c->buffers, chain_size(s->parts->count));
  tsr__index_free(s->rt, &c->other);
}

/* The two orders change places: the found order is read while the other is written. */
static tsr_status next_word(sorter *s, const tsr__packed_keys *keys, int w, chain *c)
{
  tsr__index found = *c->index;
  *c->index = c->other;
  c->other = found;
  for (int p = 0; p < s->parts->count; p++) {
    /* Words of a key lie in columns: all first words, then all second ones. */
    c->word[p] = tsr__packed_words(keys, p, w, s->parts->rows[p]);
    s->lanes[p].in = c->taken[p];
    s->lanes[p].in_at = found.at[p];
    s->lanes[p].out = c->index->at[p];
  }
  take_job job = { s, c->word, c->taken };
  if (!tsr__parallel_long(s->rt, "sort", tsr__piece_count(s->parts, TSR__PIECE_ROWS),
                          take_next_word_task, &job))
    return tsr__cancelled(s->error, "sort");
  return sort_lanes(s);
}

/* From the last word to the first, as a card sorter does: a stable sort by an earlier word keeps
 * the order that later ones made among its equals. */
static tsr_status sort_words(sorter *s, const tsr__packed_keys *keys, tsr__index *out)
{
  chain c = { .index = out };
  for (int p = 0; p < s->parts->count; p++) {
    s->lanes[p].in = tsr__packed_words(keys, p, keys->words - 1, s->parts->rows[p]);
    /* The last word needs no order found before: rows are 0, 1, 2, ... */
    s->lanes[p].out = out->at[p];
  }
  tsr_status status = sort_lanes(s);
  if (status || keys->words == 1) return status;
  status = chain_new(s, &c);
  for (int w = keys->words - 2; w >= 0 && !status; w--) status = next_word(s, keys, w, &c);
  chain_free(s, &c);
  return status;
}

static tsr_status sorter_new(sorter *s)
{
  tsr__heap *heap = &s->rt->heap;
  size_t parts = (size_t)s->parts->count;
  s->lanes = tsr__new(heap, parts * sizeof *s->lanes);
  s->buffers = tsr__new(heap, parts * LANE_BUFFERS * sizeof *s->buffers);
  s->room = tsr__new_raw(heap, (size_t)s->workers * sizeof *s->room);
  return s->lanes && s->buffers && s->room ? TSR_OK : no_sort_memory(s->error);
}

static void sorter_free(sorter *s)
{
  /* Whatever of it was made. */
  tsr__heap *heap = &s->rt->heap;
  int parts = s->parts->count;
  for (int i = 0; s->buffers && i < LANE_BUFFERS * parts; i++) tsr__buffer_release(s->buffers[i]);
  tsr__del(heap, s->lanes, (size_t)parts * sizeof *s->lanes);
  tsr__del(heap, s->buffers, (size_t)parts * LANE_BUFFERS * sizeof *s->buffers);
  tsr__del(heap, s->room, (size_t)s->workers * sizeof *s->room);
  tsr__del(heap, s->leaf, s->leaf_room * sizeof *s->leaf);
  tsr__del(heap, s->big, s->big_room * sizeof *s->big);
  tsr__del(heap, s->cuts, s->cut_room * sizeof *s->cuts);
  tsr__del(heap, s->tally, s->tally_room * sizeof *s->tally);
}

/* A second level where a round cannot come down to leaves at once; bucket numbers are the 2. */
int64_t tsr__sort_need(int64_t rows, int words)
{
  /* Bytes of a row: its word and its number on a level. */
  int64_t level = 8 + 4, row = 4; /* the index */
  if (rows > TSR__SORT_LEAF_ROWS) row += level + 2;
  if (rows > (int64_t)MOST * TARGET) row += level;
  if (words > 1) row += 8 + 4;
  return rows * row;
}

tsr_status tsr__sort_rows(tsr_runtime *rt, const tsr__parts *parts, const tsr__packed_keys *keys,
                          tsr__index *out, tsr__error *error)
{
  sorter s = { .rt = rt, .parts = parts, .error = error, .workers = tsr__worker_count(rt) };
  tsr_status status = tsr__index_new(rt, parts, out, error);
  if (status) return status;
  status = sorter_new(&s);
  if (!status) status = sort_words(&s, keys, out);
  sorter_free(&s);
  if (status) tsr__index_free(rt, out);
  return status;
}
