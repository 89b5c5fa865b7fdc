/* Finding the order of one line of each device, all side by side.
 *
 *   way         records, sorted by digits           where
 *   WORDS       | word |                            elements alone are wanted: the words say them
 *   PLACED      | word, 32 bits | place, 32 bits |  places of narrow elements
 *   ROWS        none: rows by packed keys           places of wide elements, several keys
 *
 * A record is no larger than it must be, since the cost of a digit is moving records. A line with
 * -0 or NaN, which words do not tell from 0 and other NaN, is not sorted by words alone; the place
 * in a record shows which element it was. */
#include "kernel/device/cpu.h"
#include "kernel/routine/sort_line.h"
#include "kernel/rows/radix.h"

enum { WORDS, PLACED, ROWS };
enum { BLOCK = TSR__LINE_BLOCK };

static const tsr__line *line_of_part(const tsr__line_sort *s, int key, int part)
{
  return &s->lines[key * s->parts->count + part];
}

static tsr__line piece_of_line(const tsr__line_sort *s, int key, const tsr__piece *piece)
{
  tsr__line some = *line_of_part(s, key, piece->part);
  some.at += piece->start * some.step;
  some.n = piece->count;
  return some;
}

static int record_size(const tsr__line_sort *s)
{
  return s->way == WORDS && tsr__line_narrow(s->lines) ? sizeof(uint32_t) : sizeof(uint64_t);
}

/* ---- lists and buffers ----------------------------------------------------------------------- */

static size_t line_list_bytes(int parts)
{
  return (size_t)parts * (2 * sizeof(tsr__buffer *) + 2 * sizeof(void *) + sizeof(uint64_t *) +
                          3 * sizeof(uint64_t));
}

static tsr_status new_line_lists(tsr__line_sort *s, tsr__error *error)
{
  int n = s->parts->count;
  s->buffers = tsr__new(&s->rt->heap, line_list_bytes(n));
  if (!s->buffers)
    return tsr__error_set(error, TSR_ENOMEM, "tsr_sort: no memory left; free some arrays");
  /*   buffers 2 a part | at | spare | word | ones | zeros | differ        by part */
  s->at = (void **)(s->buffers + 2 * n);
  s->spare = s->at + n;
  s->word = (uint64_t **)(s->spare + n);
  s->ones = (_Atomic uint64_t *)(s->word + n);
  s->zeros = s->ones + n;
  s->differ = (uint64_t *)(s->zeros + n);
  return TSR_OK;
}

static void drop_buffers(tsr__line_sort *s)
{
  for (int i = 0; i < 2 * s->parts->count; i++) {
    tsr__buffer_release(s->buffers[i]);
    s->buffers[i] = NULL;
  }
}

/* `lists` buffers a part, of `size` bytes for each of its rows. */
static tsr_status new_line_buffers(tsr__line_sort *s, int lists, size_t size, tsr__error *error)
{
  for (int p = 0; p < s->parts->count; p++)
    for (int i = 0; i < lists && s->parts->rows[p]; i++) {
      size_t bytes = (size_t)s->parts->rows[p] * size;
      s->buffers[2 * p + i] = tsr__cpu_take(s->rt, s->parts->device[p], bytes, error);
      if (!s->buffers[2 * p + i]) return error->status;
      void *data = tsr__cpu_data(s->buffers[2 * p + i]);
      /* Two a part: radix passes go from one to the other and back. */
      if (i) s->spare[p] = data;
      else s->at[p] = s->word[p] = data;
    }
  return TSR_OK;
}

/* ---- by packed keys -------------------------------------------------------------------------- */

/* The last key decides first: its words stand before the others'. */
static void pack_words_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const tsr__line_sort *s = user;
  tsr__piece piece = tsr__piece_of(s->parts, TSR__PIECE_ROWS, task);
  for (int key = 0; key < s->keys; key++) {
    tsr__line some = piece_of_line(s, key, &piece);
    int64_t before = (s->keys - 1 - key) * s->parts->rows[piece.part];
    tsr__line_words(&some, s->word[piece.part] + before + piece.start);
  }
}

static tsr_status sort_rows(tsr__line_sort *s, tsr__error *error)
{
  tsr__packed_keys keys = {
    .parts = s->parts->count, .words = s->keys, .bits = 64, .word = s->word
  };
  tsr_status status = new_line_buffers(s, 1, (size_t)s->keys * sizeof(uint64_t), error);
  if (status) return status;
  if (!tsr__parallel_long(s->rt, TSR__PROGRAM, tsr__piece_count(s->parts, TSR__PIECE_ROWS),
                          pack_words_task, s))
    return tsr__cancelled(error, TSR__PROGRAM);
  return tsr__sort_rows(s->rt, s->parts, &keys, &s->order, error);
}

/* ---- by records ------------------------------------------------------------------------------ */

/* The low bits that some records of words have in common. */
typedef struct common {
  uint64_t ones, zeros; /* bits that some have, and that some have not */
} common;

static bool fill_wide(const tsr__line *some, uint64_t *record, common *seen)
{
  bool odd = tsr__line_words64(some, record);
  for (int64_t i = 0; i < some->n; i++) {
    /* A bit that all have, or none has, is no digit to sort by. */
    seen->ones |= record[i];
    seen->zeros |= ~record[i];
  }
  return odd;
}

static bool fill_narrow(const tsr__line *some, uint32_t *record, common *seen)
{
  bool odd = tsr__line_words32(some, record);
  uint32_t ones = 0, zeros = 0;
  for (int64_t i = 0; i < some->n; i++) {
    ones |= record[i];
    zeros |= ~record[i];
  }
  seen->ones |= ones;
  seen->zeros |= zeros;
  return odd;
}

static void fill_placed(const tsr__line *some, uint64_t first, uint64_t *record, common *seen)
{
  uint32_t word[BLOCK];
  fill_narrow(some, word, seen);
  /* The place in the low half makes equal words ascend by it, should they be compared as a
   * whole. */
  for (int64_t i = 0; i < some->n; i++) record[i] = (uint64_t)word[i] << 32 | (first + (uint64_t)i);
}

/* A block at a time, which stays in the cache. */
static void fill_records_task(void *user, int64_t task, int worker)
{
  (void)worker;
  tsr__line_sort *s = user;
  tsr__piece piece = tsr__piece_of(s->parts, TSR__PIECE_ROWS, task);
  common seen = { 0 };
  bool odd = false;
  for (int64_t at = 0; at < piece.count; at += BLOCK) {
    int64_t first = piece.start + at, n = piece.count - at < BLOCK ? piece.count - at : BLOCK;
    tsr__line some = piece_of_line(s, 0, &(tsr__piece){ piece.part, first, n });
    if (s->way == PLACED)
      fill_placed(&some, (uint64_t)first, (uint64_t *)s->at[piece.part] + first, &seen);
    else if (tsr__line_narrow(&some))
      odd |= fill_narrow(&some, (uint32_t *)s->at[piece.part] + first, &seen);
    else odd |= fill_wide(&some, (uint64_t *)s->at[piece.part] + first, &seen);
  }
  /* Tasks of all parts note their bits, each once: or needs no order. */
  if (odd) atomic_store(&s->odd, true);
  atomic_fetch_or(&s->ones[piece.part], seen.ones);
  atomic_fetch_or(&s->zeros[piece.part], seen.zeros);
}

static tsr_status fill_records(tsr__line_sort *s, tsr__error *error)
{
  drop_buffers(s);
  for (int p = 0; p < s->parts->count; p++) s->ones[p] = s->zeros[p] = 0;
  tsr_status status = new_line_buffers(s, 2, (size_t)record_size(s), error);
  if (!status &&
      !tsr__parallel_long(s->rt, TSR__PROGRAM, tsr__piece_count(s->parts, TSR__PIECE_ROWS),
                          fill_records_task, s))
    status = tsr__cancelled(error, TSR__PROGRAM);
  for (int p = 0; p < s->parts->count; p++)
    s->differ[p] = (s->ones[p] & s->zeros[p]) << (s->way == PLACED ? 32 : 0);
  return status;
}

/* One narrow key: its word and its place fit one record. */
static int way_of(bool narrow, int keys, bool places)
{
  int placed = keys == 1 && narrow ? PLACED : ROWS;
  return keys > 1 || places ? placed : WORDS;
}

/* Records need two lists. Rows need the words, and the sorter's memory (rows/sort.c): words and
 * places at two levels, buckets, the order; several words also need one word in order, and another
 * order. */
int64_t tsr__line_sort_room(tsr_dtype dtype, int keys, bool places)
{
  enum { WORD = sizeof(uint64_t), PLACE = sizeof(uint32_t), BUCKET = sizeof(uint16_t) };
  tsr__line line = { .dtype = dtype };
  bool narrow = tsr__line_narrow(&line);
  int way = way_of(narrow, keys, places);
  if (way != ROWS) return 2 * (way == WORDS && narrow ? (int)sizeof(uint32_t) : WORD);
  return keys * WORD + 2 * (WORD + PLACE) + BUCKET + PLACE + (keys > 1 ? WORD + PLACE : 0);
}

tsr_status tsr__line_sort_run(tsr__line_sort *s, tsr__error *error)
{
  bool narrow = tsr__line_narrow(s->lines);
  int placed = s->keys == 1 && narrow ? PLACED : ROWS;
  s->way = way_of(narrow, s->keys, s->want[1]);
  tsr_status status = new_line_lists(s, error);
  if (!status && s->way != ROWS) status = fill_records(s, error);
  /* Found out while filling; then it is done again by places, which is rare. */
  if (!status && s->way == WORDS && s->odd) {
    s->way = placed;
    drop_buffers(s);
    if (placed == PLACED) status = fill_records(s, error);
  }
  if (status) return status;
  if (s->way == ROWS) return sort_rows(s, error);
  tsr__radix job = { s->parts, record_size(s), s->differ, s->at, s->spare };
  return tsr__radix_sort(s->rt, &job, error);
}

void tsr__line_sort_end(tsr__line_sort *s)
{
  tsr__index_free(s->rt, &s->order);
  if (s->buffers) drop_buffers(s);
  tsr__del(&s->rt->heap, s->buffers, line_list_bytes(s->parts->count));
  s->buffers = NULL;
}

/* ---- results in order ---------------------------------------------------------------------- */

static bool any_odd(const tsr__line *line, const uint32_t *word)
{
  bool odd = false;
  for (int64_t i = 0; i < line->n; i++) odd |= tsr__line_odd(line, word[i]);
  return odd;
}

/* Records with places: elements are looked up where words do not say them. */
static void take_placed(const tsr__line *from, const uint64_t *record, const tsr__line *to,
                        void *const results[2])
{
  uint32_t word[BLOCK], row[BLOCK];
  int64_t *places = results[1];
  for (int64_t i = 0; i < to->n; i++) {
    word[i] = (uint32_t)(record[i] >> 32);
    row[i] = (uint32_t)record[i];
  }
  if (results[0] && tsr__dtype_has_nan(to->dtype) && any_odd(to, word)) {
    tsr__line_take(from, row, to, 0, results);
    return;
  }
  if (results[0]) tsr__line_put32(to, word, to->n, results[0]);
  for (int64_t i = 0, at = to->to; places && i < to->n; i++, at += to->step)
    places[at] = from->places ? from->places[row[i]] : row[i];
}

static void take_line_block(const tsr__line_sort *s, const tsr__piece *run, const tsr__line *to,
                            void *const results[2])
{
  const tsr__line *from = line_of_part(s, 0, run->part);
  const char *record = (const char *)s->at[run->part] + run->start * record_size(s);
  if (s->way == PLACED) take_placed(from, (const void *)record, to, results);
  else if (record_size(s) == 4) tsr__line_put32(to, (const void *)record, to->n, results[0]);
  else tsr__line_put64(to, (const void *)record, to->n, results[0]);
}

void tsr__line_sort_take(const tsr__line_sort *s, const tsr__piece *run, const tsr__line *to,
                         int64_t first, void *const results[2])
{
  tsr__line some = *to;
  if (s->way == ROWS) {
    some.n = run->count;
    tsr__line_take(line_of_part(s, 0, run->part), s->order.at[run->part] + run->start, &some, first,
                   results);
    return;
  }
  /* Takes those of the line's first `kept` elements that are in this run. */
  int64_t end = run->count < to->kept - first ? run->count : to->kept - first;
  for (int64_t at = 0; at < end; at += BLOCK) {
    some.to = to->to + (first + at) * to->step;
    some.n = some.kept = end - at < BLOCK ? end - at : BLOCK;
    take_line_block(s, &(tsr__piece){ run->part, run->start + at, some.n }, &some, results);
  }
}
