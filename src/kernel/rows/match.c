/* Matching the rows of two tables by their packed keys.
 *
 *   choose tables -> room? -> build -> probe and count -> room? -> fill index vectors
 *                                      match[]: each left row's first right row
 *
 *   left rows    0  1  2  3  4         match  7  -  7  2  -      (7 -> 9: the same key)
 *   inner        0  0  2  2  3         left index
 *                7  9  7  9  2         right index
 *
 * Invariant: a left row's results lie together in order of the left rows, whatever task made them:
 * pieces are counted first, and each then writes where the ones before it end. A vector that would
 * say 0, 1, 2, ... is not made, and match[] itself is the right one where every left row has
 * one. */
#include "kernel/rows/match.h"

#include "kernel/device/cpu.h"
#include "kernel/tile/interp_tile.h"

enum {
  PIECE = 1 << 16, /* rows a task */
  MANY = 1 << 21   /* results after which a task's rows end where they can */
};

/* ---- room ---- */

tsr_status tsr__match_room(tsr_runtime *rt, int device, int64_t bytes, tsr__error *error)
{
  /* The process that owns a device checks its memory. */
  if (!tsr__device_local(tsr__topology_of(rt), device)) return TSR_OK;
  /* Asked before the large pieces are taken, so that the message tells the need of the whole join,
   * not of its last buffer. */
  tsr_memory memory = tsr__devices_of(rt)->ops->memory(rt, device);
  if (tsr__memory_fits(&memory, bytes)) return TSR_OK;
  return tsr__error_set(
      error, TSR_ENOMEM,
      "join needs %lld bytes more on device %d, but the device holds %lld of the %lld bytes that "
      ".memory_limit allows; free frames, select fewer columns before the join, or raise the limit",
      (long long)bytes, device, (long long)memory.now, (long long)memory.limit);
}

static tsr_status no_match_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "no memory to join; free some frames");
}

/* ---- pieces ---- */

/* Tasks are pieces of at most PIECE rows of one part, whatever the number of parts, so that one
 * large part does not keep a worker busy while the others wait. */
static tsr_status cut_match_pieces(tsr_runtime *rt, const tsr__parts *parts, tsr__match_piece **out,
                                   int64_t *count, tsr__error *error)
{
  int64_t pieces = 0;
  for (int p = 0; p < parts->count; p++) pieces += (parts->rows[p] + PIECE - 1) / PIECE;
  *out = tsr__new(&rt->heap, (size_t)(pieces + 1) * sizeof **out);
  if (!*out) return no_match_memory(error);
  *count = 0;
  for (int p = 0; p < parts->count; p++)
    for (int64_t at = 0; at < parts->rows[p]; at += PIECE) {
      int64_t end = at + PIECE < parts->rows[p] ? at + PIECE : parts->rows[p];
      (*out)[(*count)++] = (tsr__match_piece){ .part = p, .begin = at, .end = end };
    }
  return TSR_OK;
}

/* ---- finding ---- */

/* `length` is how many rows from there to the end of the chain: the head's is the whole chain's. */
static void count_chains(const tsr__matched *m, const tsr__match_table *t, tsr__match_piece *piece)
{
  const uint32_t *match = m->match[piece->part];
  /* A semi or anti join asks whether there is one; how many more there are says nothing to it. */
  bool all = m->how == TSR__MATCH_INNER || m->how == TSR__MATCH_LEFT;
  for (int64_t r = piece->begin; r < piece->end; r++) {
    if (match[r] == TSR__NO_ROW) continue;
    uint32_t length = t->link[match[r]].length;
    piece->several |= length > 1;
    if (all) piece->count += length - 1;
  }
}

/* Hits are counted first, without looking at chains: most tables have none. */
void tsr__match_count(const tsr__matched *m, tsr__match_piece *piece)
{
  const tsr__match_table *t = &m->table[piece->part];
  const uint32_t *match = m->match[piece->part];
  int64_t rows = piece->end - piece->begin, hits = 0;
  for (int64_t r = piece->begin; r < piece->end; r++) hits += match[r] != TSR__NO_ROW;
  piece->misses = hits < rows;
  /*   inner   hits        left   all rows        semi   hits       anti   the others
   *
   * Joins that make pairs add the matches that chains hold beyond one. */
  if (m->how == TSR__MATCH_LEFT) piece->count = rows;
  else piece->count = m->how == TSR__MATCH_ANTI ? rows - hits : hits;
  if (t->chained && hits) count_chains(m, t, piece);
}

/* Counted while the matches are in the cache. */
static void probe_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const tsr__matched *m = user;
  tsr__match_piece *piece = &m->left[task];
  tsr__match_probe(&m->table[piece->part], piece->begin, piece->end, m->match[piece->part]);
  tsr__match_count(m, piece);
}

/* Cuts a piece of many results after every so many, at a row's end; returns how many pieces it
 * is. A row's results are never divided; a single row may be more than MANY. */
static int64_t split_piece(const tsr__matched *m, const tsr__match_piece *whole,
                           tsr__match_piece *out)
{
  const uint32_t *match = m->match[whole->part];
  const tsr__match_link *link = m->table[whole->part].link;
  int64_t pieces = 0, count = 0, begin = whole->begin;
  for (int64_t r = whole->begin; r < whole->end; r++) {
    bool hit = match[r] != TSR__NO_ROW;
    /* A left join's row without a match is a result, too. */
    count += hit ? link[match[r]].length : m->how == TSR__MATCH_LEFT;
    if (count < MANY && r + 1 < whole->end) continue;
    out[pieces] = *whole;
    out[pieces].begin = begin;
    out[pieces].end = begin = r + 1;
    out[pieces++].count = count;
    count = 0;
  }
  return pieces;
}

/* Few rows may give many results: tasks that make them are cut anew, to stay short. */
static tsr_status split_pieces(tsr__matched *m, tsr__error *error)
{
  int64_t room = 0, pieces = 0;
  /* The most pieces that splitting makes: a piece begins for each MANY results. A piece with fewer
   * results stays whole. */
  for (int64_t i = 0; i < m->left_count; i++) room += m->left[i].count / MANY + 1;
  if (room == m->left_count) return TSR_OK;
  tsr__match_piece *out = tsr__new(&m->rt->heap, (size_t)(room + 1) * sizeof *out);
  if (!out) return no_match_memory(error);
  for (int64_t i = 0; i < m->left_count; i++) {
    if (m->left[i].count < MANY) out[pieces++] = m->left[i];
    else pieces += split_piece(m, &m->left[i], out + pieces);
  }
  tsr__del(&m->rt->heap, m->left, (size_t)(m->left_room + 1) * sizeof *m->left);
  m->left = out;
  m->left_count = pieces;
  m->left_room = room;
  return TSR_OK;
}

/* Finds the place of each piece's results; a part's rows are numbered by 32 bits. */
tsr_status tsr__match_number(tsr__matched *m, tsr__error *error)
{
  /* Sums over the pieces of each part, and their flags. */
  for (int64_t i = 0; i < m->left_count; i++) {
    const tsr__match_piece *piece = &m->left[i];
    m->rows[piece->part] += piece->count;
    m->repeats |= piece->several;
    m->misses |= piece->misses;
  }
  for (int p = 0; p < m->parts; p++)
    /* Before anything is allocated for results, which may be a product of two tables. */
    if (m->rows[p] >= (int64_t)TSR__NO_ROW)
      return tsr__error_set(error, TSR_EUNSUPPORTED,
                            "join gives %lld rows on device %d, where %lld left rows match many "
                            "right rows each, expected at most %lld rows per device: filter or "
                            "group before joining, or use more devices",
                            (long long)m->rows[p], m->table[p].device,
                            (long long)m->table[p].left_rows, (long long)TSR__NO_ROW - 1);
  if (split_pieces(m, error)) return error->status;
  /* Pieces of a part follow one another, so each begins where the one before it ends. */
  for (int64_t i = 0, at = 0; i < m->left_count; i++) {
    if (i && m->left[i].part != m->left[i - 1].part) at = 0;
    m->left[i].at = at;
    at += m->left[i].count;
  }
  return TSR_OK;
}

/* Memory of a part's device that lives with the matched rows. */
tsr_status tsr__match_take(tsr__matched *m, int p, int which, int64_t bytes, tsr__error *error)
{
  tsr__match_table *t = &m->table[p];
  t->memory[which] = tsr__cpu_take(m->rt, t->device, (size_t)bytes, error);
  return t->memory[which] ? TSR_OK : error->status;
}

/*    memory[0]   head or slots     memory[1]   links     memory[2]   match[]
 * All parts are asked for before the first is taken: a join that fails leaves no table half
 * made. */
static tsr_status take_tables(tsr__matched *m, tsr__error *error)
{
  for (int p = 0; p < m->parts; p++) {
    tsr__match_table *t = &m->table[p];
    int64_t bytes = tsr__match_table_bytes(t) + t->left_rows * (int64_t)sizeof(uint32_t);
    /* The most of any device: explanations tell it. */
    if (bytes > m->need) m->need = bytes;
    if (tsr__match_room(m->rt, t->device, bytes, error)) return error->status;
  }
  for (int p = 0; p < m->parts; p++) {
    tsr__match_table *t = &m->table[p];
    int64_t links = t->right_rows * (int64_t)sizeof(tsr__match_link);
    if (tsr__match_take(m, p, 0, tsr__match_table_bytes(t) - links, error)) return error->status;
    if (tsr__match_take(m, p, 1, links, error)) return error->status;
    if (tsr__match_take(m, p, 2, t->left_rows * (int64_t)sizeof(uint32_t), error))
      return error->status;
    if (t->direct) t->head = tsr__cpu_data(t->memory[0]);
    else t->slot = tsr__cpu_data(t->memory[0]);
    t->link = tsr__cpu_data(t->memory[1]);
    m->match[p] = tsr__cpu_data(t->memory[2]);
  }
  return TSR_OK;
}

/* Tables that no later step probes go back to the pool before results are made. Chains are still
 * walked when results are made; tables are not. */
static void drop_tables(tsr__matched *m)
{
  for (int p = 0; p < m->parts; p++) {
    tsr__match_table *t = &m->table[p];
    tsr__buffer_release(t->memory[0]);
    t->memory[0] = NULL;
    if (t->chained) continue;
    tsr__buffer_release(t->memory[1]);
    t->memory[1] = NULL;
  }
}

/* Takes all that is needed to match the left rows, but for the tables; freed by tsr__match_free,
 * whatever was taken. */
tsr_status tsr__match_open(tsr_runtime *rt, const tsr__parts *left, int how, tsr__matched *out,
                           tsr__error *error)
{
  tsr__matched *m = out;
  size_t parts = (size_t)left->count;
  *m = (tsr__matched){ .rt = rt, .parts = left->count, .how = how };
  m->table = tsr__new(&rt->heap, (parts + 1) * sizeof *m->table);
  m->match = tsr__new(&rt->heap, (parts + 1) * sizeof *m->match);
  m->rows = tsr__new(&rt->heap, (parts + 1) * sizeof *m->rows);
  if (!m->table || !m->match || !m->rows) return no_match_memory(error);
  for (int p = 0; p < left->count; p++)
    m->table[p] = (tsr__match_table){ .device = left->device[p],
                                      .left_rows = left->rows[p],
                                      .seed = tsr__key_seed_of(rt->heap.seed) };
  tsr_status status = cut_match_pieces(rt, left, &m->left, &m->left_count, error);
  m->left_room = m->left_count;
  return status;
}

/* The right side's keys, as those of the left one, and pieces to look at them. */
static tsr_status open(tsr__matched *m, const tsr__match_ask *ask, tsr__error *error)
{
  for (int p = 0; p < m->parts; p++) {
    tsr__match_table *t = &m->table[p];
    t->words = ask->left->words;
    t->right_rows = ask->right_parts->rows[p];
    t->left = ask->left->word[p];
    t->left_null = ask->left->null ? ask->left->null[p] : NULL;
    t->right = ask->right->word[p];
    t->right_null = ask->right->null ? ask->right->null[p] : NULL;
  }
  return cut_match_pieces(m->rt, ask->right_parts, &m->right, &m->right_count, error);
}

tsr_status tsr__match_find(tsr_runtime *rt, const tsr__match_ask *ask, tsr__matched *out,
                           tsr__error *error)
{
  tsr__matched *m = out;
  tsr_status status = tsr__match_open(rt, ask->left_parts, ask->how, m, error);
  if (!status) status = open(m, ask, error);
  if (!status) status = tsr__match_choose(m, error);
  if (!status) status = take_tables(m, error);
  if (!status) status = tsr__match_build(m, error);
  if (!status && !tsr__parallel_long(rt, "join", m->left_count, probe_task, m))
    status = tsr__cancelled(error, "join");
  /* After all is counted: numbers of results are known before any room is taken for them. */
  if (!status) status = tsr__match_number(m, error);
  if (status) tsr__match_free(m);
  else drop_tables(m);
  return status;
}

void tsr__match_free(tsr__matched *m)
{
  if (!m->rt) return;
  tsr__heap *heap = &m->rt->heap;
  size_t parts = (size_t)m->parts;
  for (int p = 0; m->table && p < m->parts; p++)
    for (int i = 0; i < 3; i++) tsr__buffer_release(m->table[p].memory[i]);
  tsr__del(heap, m->table, (parts + 1) * sizeof *m->table);
  tsr__del(heap, m->match, (parts + 1) * sizeof *m->match);
  tsr__del(heap, m->rows, (parts + 1) * sizeof *m->rows);
  tsr__del(heap, m->left, (size_t)(m->left_room + 1) * sizeof *m->left);
  tsr__del(heap, m->right, (size_t)(m->right_count + 1) * sizeof *m->right);
  *m = (tsr__matched){ .rt = NULL };
}

/* ---- index vectors ---- */

/* Whether every left row gives one row. Then the left side stays as it is, and match[] is the
 * right side's index. */
static bool one_each(const tsr__matched *m, int p)
{
  const tsr__match_table *t = &m->table[p];
  /* Equally many results and rows may still be two for one row and none for another, so repeats
   * count, too. */
  if (m->rows[p] != t->left_rows) return false;
  return m->how != TSR__MATCH_INNER || !t->chained || !m->repeats;
}

typedef struct filling {
  const tsr__matched *matched;
  uint32_t *const *left, *const *right; /* one of them is made */
} filling;

/* A piece whose left rows give one result or none. `hits`: rows with a match are kept, of an anti
 * join those without. */
static tsr__keep keep_of(const tsr__matched *m, const tsr__match_piece *piece)
{
  return (tsr__keep){ .match = m->match[piece->part] + piece->begin,
                      .rows = piece->end - piece->begin,
                      .kept = piece->count,
                      .hits = m->how != TSR__MATCH_ANTI };
}

/* Written always, kept if it counts: no branch that the processor would have to guess. */
static void fill_left(const tsr__match_piece *piece, const tsr__keep *keep, int how, uint32_t *out)
{
  bool all = how == TSR__MATCH_LEFT;
  int64_t at = 0;
  /* The loop ends when all rows are found: the last one stands at the piece's count. */
  for (int64_t r = piece->begin; at < piece->count; r++) {
    out[at] = (uint32_t)r;
    at += all | ((keep->match[r - piece->begin] != TSR__NO_ROW) == keep->hits);
  }
}

/* The right rows themselves: all of match[] for a left join, the rows that exist for an inner
 * join. */
static void fill_right(const tsr__matched *m, const tsr__keep *keep, uint32_t *out)
{
  if (m->how == TSR__MATCH_LEFT) memcpy(out, keep->match, (size_t)keep->rows * sizeof *out);
  else tsr__cpu_of(m->rt)->tiles->keep[tsr__size_log(4)](out, keep->match, keep);
}

/* Rows of several results. A left join's row without a match gives one result, whose right row is
 * TSR__NO_ROW. */
static void fill_chains(const tsr__matched *m, const tsr__match_piece *piece, uint32_t *left,
                        uint32_t *right)
{
  const uint32_t *match = m->match[piece->part];
  const tsr__match_link *link = m->table[piece->part].link;
  bool misses = m->how == TSR__MATCH_LEFT;
  int64_t at = 0;
  for (int64_t r = piece->begin; r < piece->end; r++) {
    uint32_t row = match[r];
    if (row == TSR__NO_ROW && !misses) continue;
    /* A row without a match goes through once, with no right row. */
    do {
      if (left) left[at] = (uint32_t)r;
      if (right) right[at] = row;
      at++;
      row = row == TSR__NO_ROW ? row : link[row].next;
    } while (row != TSR__NO_ROW);
  }
}

/* Only one of both vectors is asked for at a time; a chain's rows are written into either alike. */
static void fill_results_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const filling *f = user;
  const tsr__matched *m = f->matched;
  const tsr__match_piece *piece = &m->left[task];
  int p = piece->part;
  uint32_t *left = f->left && f->left[p] ? f->left[p] + piece->at : NULL;
  uint32_t *right = f->right && f->right[p] ? f->right[p] + piece->at : NULL;
  if (one_each(m, p) || (!left && !right)) return;
  bool pairs = m->how == TSR__MATCH_INNER || m->how == TSR__MATCH_LEFT;
  tsr__keep keep = keep_of(m, piece);
  /* Chains are walked only in pieces where some row has several results. */
  if (pairs && piece->several) fill_chains(m, piece, left, right);
  else if (left) fill_left(piece, &keep, m->how, left);
  else fill_right(m, &keep, right);
}

/* A vector for each part whose rows do not stay as they are. Rows of a part that stays are said,
 * but no vector is there: `at` NULL means "as they are". */
static tsr_status index_new(const tsr__matched *m, tsr__index *out, tsr__error *error)
{
  tsr__heap *heap = &m->rt->heap;
  size_t parts = (size_t)m->parts;
  int *device = tsr__new(heap, (parts + 1) * sizeof *device);
  int64_t *rows = tsr__new(heap, (parts + 1) * sizeof *rows);
  tsr_status status = device && rows ? TSR_OK : no_match_memory(error);
  for (int p = 0; !status && p < m->parts; p++) {
    device[p] = m->table[p].device;
    rows[p] = one_each(m, p) ? 0 : m->rows[p];
    status = tsr__match_room(m->rt, device[p], rows[p] * (int64_t)sizeof(uint32_t), error);
  }
  tsr__parts ask = { .count = m->parts, .device = device, .rows = rows };
  if (!status) status = tsr__index_new(m->rt, &ask, out, error);
  for (int p = 0; !status && p < m->parts; p++) {
    if (!one_each(m, p)) continue;
    tsr__buffer_release(out->buffers[p]);
    out->buffers[p] = NULL;
    out->at[p] = NULL;
    out->rows[p] = m->rows[p];
  }
  tsr__del(heap, device, (parts + 1) * sizeof *device);
  tsr__del(heap, rows, (parts + 1) * sizeof *rows);
  return status;
}

/* A vector that was not filled is of no use. */
static tsr_status fill_result_index(const tsr__matched *m, filling *f, tsr__index *out,
                                    tsr__error *error)
{
  f->matched = m;
  if (tsr__parallel_long(m->rt, "join", m->left_count, fill_results_task, f)) return TSR_OK;
  tsr__index_free(m->rt, out);
  return tsr__cancelled(error, "join");
}

tsr_status tsr__match_left(const tsr__matched *m, tsr__index *out, tsr__error *error)
{
  tsr_status status = index_new(m, out, error);
  return status ? status : fill_result_index(m, &(filling){ .left = out->at }, out, error);
}

tsr_status tsr__match_right(tsr__matched *m, tsr__index *out, tsr__error *error)
{
  tsr_status status = index_new(m, out, error);
  if (!status) status = fill_result_index(m, &(filling){ .right = out->at }, out, error);
  /* match[] becomes the vector where every row has one result: the buffer changes hands. */
  for (int p = 0; !status && p < m->parts; p++) {
    if (!one_each(m, p)) continue;
    out->buffers[p] = m->table[p].memory[2];
    out->at[p] = m->match[p];
    m->table[p].memory[2] = NULL;
  }
  return status;
}

/* ---- left columns without an index ---- */

/* Left columns are filtered, not gathered by an index, where no left row gives two results. */
bool tsr__match_keeps(const tsr__matched *m)
{
  bool pairs = m->how == TSR__MATCH_INNER || m->how == TSR__MATCH_LEFT;
  return !pairs || !m->repeats;
}

typedef struct keeping {
  const tsr__matched *matched;
  const tsr__colparts *from;
  tsr__buffer **values;
} keeping;

/* The kept rows of a piece, moved together to where its results begin. */
static void keep_rows_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const keeping *k = user;
  const tsr__matched *m = k->matched;
  const tsr__match_piece *piece = &m->left[task];
  if (one_each(m, piece->part)) return;
  int64_t size = (int64_t)tsr_dtype_size(k->from->dtype);
  const char *from = tsr__cpu_data(k->from->values[piece->part]);
  char *to = tsr__cpu_data(k->values[piece->part]);
  const tsr__tiles *tiles = tsr__cpu_of(m->rt)->tiles;
  tsr__keep keep = keep_of(m, piece);
  tiles->keep[tsr__size_log(size)](to + piece->at * size, from + piece->begin * size, &keep);
}

tsr_status tsr__match_keep(const tsr__matched *m, const tsr__colparts *from, tsr__buffer **values,
                           tsr__error *error)
{
  keeping k = { m, from, values };
  tsr_status status = TSR_OK;
  memset(values, 0, (size_t)m->parts * sizeof *values);
  for (int p = 0; p < m->parts && !status; p++) {
    /* A column that stays is shared. */
    if (one_each(m, p)) {
      values[p] = from->values[p];
      tsr__buffer_hold(values[p]);
      continue;
    }
    size_t bytes = tsr__device_bytes(from->dtype, m->rows[p]);
    values[p] = tsr__cpu_take(m->rt, m->table[p].device, bytes, error);
    if (!values[p]) status = error->status;
  }
  if (!status && !tsr__parallel_long(m->rt, "join", m->left_count, keep_rows_task, &k))
    status = tsr__cancelled(error, "join");
  for (int p = 0; p < m->parts && status; p++) {
    tsr__buffer_release(values[p]);
    values[p] = NULL;
  }
  return status;
}
