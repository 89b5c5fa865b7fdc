/* Which part each row goes to, so that parts come to hold even runs of all rows in order of key,
 * part and row.
 *
 *   part 0   5 1 9 5      splitter: key 5 of part 0, row 3       part 0 gets   5(row 0) 1 | 2 3
 *   part 1   2 5 3                                               part 1 gets   9 5(row 3) | 5
 *
 * Splitters are quantiles of a sample. A splitter names a row and not only a key, so a key that
 * half of the rows have is spread over parts like any other.
 *
 * Invariant: rows before a splitter, in that order, go to lower parts than the splitter's row. */
#include "kernel/device/cpu.h"
#include "kernel/rows/pieces.h"
#include "kernel/rows/sort.h"
#include "kernel/tile/interp_tile.h"

#include <stdlib.h>

enum { SAMPLES = 1024, SAMPLES_MOST = 1 << 17, BLOCK = 512, FEW = 24 };

#define SIGN (UINT64_C(1) << 63)

/* A row: its words in order, the first of which counts most, and where it stands. */
typedef struct place {
  uint64_t first;
  const uint64_t *word;
  int64_t row;
  int words, part;
} place;

static int compare_words(const uint64_t *a, int64_t stride, const place *b)
{
  for (int w = 0; w < b->words; w++) {
    uint64_t x = a[w * stride], y = b->word[w];
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}

static int by_place(const void *left, const void *right)
{
  const place *a = left, *b = right;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  int order = compare_words(a->word, 1, b);
  if (order) return order;
  if (a->part != b->part) return a->part < b->part ? -1 : 1;
  return (a->row > b->row) - (a->row < b->row);
}

/* ---- the sample ------------------------------------------------------------------------------ */

size_t tsr__sort_sample_bytes(int words)
{
  return (size_t)(words + 2) * sizeof(uint64_t);
}

void tsr__sort_sample_free(tsr_runtime *rt, tsr__sort_sample *sample)
{
  if (sample->place) tsr__del(&rt->heap, sample->place, sample->bytes);
  *sample = (tsr__sort_sample){ 0 };
}

/* Rows of a part in proportion to its share, at places that are spread but not regular. */
static void sample_part(const tsr__packed_keys *keys, int64_t rows, int part, int64_t wanted,
                        tsr__sort_sample *out)
{
  /* A row out of each stretch of equal length, at a place that the salt picks: keys that repeat
   * with a period are met like others. The stretches cover all rows, so that the sample of ordered
   * keys does not end before the keys do. */
  if (wanted > rows) wanted = rows;
  for (int64_t i = 0; i < wanted; i++) {
    int64_t first = i * rows / wanted, end = (i + 1) * rows / wanted;
    uint64_t salt = ((uint64_t)i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    int64_t row = first + (int64_t)((salt >> 32) % (uint64_t)(end - first));
    uint64_t *to = out->place + out->count++ * (keys->words + 2);
    for (int w = 0; w < keys->words; w++) to[w] = keys->word[part][w * rows + row];
    to[keys->words] = (uint64_t)part;
    to[keys->words + 1] = (uint64_t)row;
  }
}

static tsr_status no_split_memory(tsr__error *error, int parts)
{
  return tsr__error_set(error, TSR_ENOMEM,
                        "sort: no memory for the splitters of %d devices; free some arrays", parts);
}

/* Every part with rows gives one place at least, so a splitter exists even for few rows. */
tsr_status tsr__sort_sample_rows(tsr_runtime *rt, const tsr__sample_ask *ask, tsr__sort_sample *out,
                                 tsr__error *error)
{
  const tsr__parts *parts = ask->parts;
  int64_t room = (int64_t)SAMPLES * parts->count;
  if (room > SAMPLES_MOST) room = SAMPLES_MOST;
  *out = (tsr__sort_sample){ .words = ask->keys->words };
  /* Each part rounds up. */
  out->bytes = (size_t)(room + parts->count) * tsr__sort_sample_bytes(out->words);
  out->place = tsr__new_raw(&rt->heap, out->bytes);
  if (!out->place) return no_split_memory(error, parts->count);
  for (int p = 0; p < parts->count; p++) {
    int64_t rows = parts->rows[p];
    if (!rows) continue; /* no rows at all: the share would be 0 / 0 */
    int64_t share = (int64_t)((double)rows / (double)ask->total * (double)room) + 1;
    sample_part(ask->keys, rows, p, share, out);
  }
  return TSR_OK;
}

/* ---- the splitters --------------------------------------------------------------------------- */

typedef struct split_job {
  const tsr__tiles *tiles;
  const tsr__parts *parts;
  const tsr__packed_keys *keys;
  const tsr__sort_sample *sample;
  place *places; /* the sample, and after it the splitters */
  const place *splitter;
  int splitters;
  tsr__buffer *const *dest;
} split_job;

static void pick_splitters(split_job *job)
{
  const tsr__sort_sample *sample = job->sample;
  int parts = job->parts->count;
  int64_t count = sample->count;
  for (int64_t i = 0; i < count; i++) {
    const uint64_t *from = sample->place + i * (sample->words + 2);
    job->places[i] = (place){ .first = *from,
                              .word = from,
                              .row = (int64_t)from[sample->words + 1],
                              .words = sample->words,
                              .part = (int)from[sample->words] };
  }
  /* Places differ, so the order of equal words is settled by part and row: the same splitters for
   * any sort. */
  qsort(job->places, (size_t)count, sizeof *job->places, by_place);
  place *splitter = job->places + count;
  for (int i = 1; i < parts; i++) splitter[i - 1] = job->places[(int64_t)i * count / parts];
  job->splitter = splitter;
  job->splitters = parts - 1;
}

/* ---- the rows -------------------------------------------------------------------------------- */

/* Whether rows of `part` from `row` on, whose words equal a splitter's, go above the splitter. Rows
 * with equal keys are ordered by part, then by row. */
static bool reached(const place *splitter, int part, int64_t row)
{
  return part > splitter->part || (part == splitter->part && row >= splitter->row);
}

/* A few borders are counted through by vectors, which compare signed numbers. Counting all
 * borders that a word is not below is fewer instructions than a search, for FEW of them. */
static void count_borders(const split_job *job, const tsr__sort_borders *borders,
                          const uint64_t *word, int64_t n, uint16_t *dest)
{
  int64_t border[FEW], x[BLOCK], found[BLOCK];
  /* The sign bit turned over makes the order of unsigned numbers that of signed ones. */
  for (int b = 0; b < borders->count; b++) border[b] = (int64_t)(borders->border[b] ^ SIGN);
  for (int64_t at = 0; at < n; at += BLOCK) {
    int some = n - at < BLOCK ? (int)(n - at) : BLOCK;
    for (int i = 0; i < some; i++) x[i] = (int64_t)(word[at + i] ^ SIGN);
    job->tiles->search[TSR_I64](found, x, some, border, borders->count);
    for (int i = 0; i < some; i++) dest[at + i] = (uint16_t)found[i];
  }
}

/* Rows of one word that no splitter's row divides: a search among words. NOPE its own word goes
 * above it or not, all of the run alike. */
static void send_words(const split_job *job, const tsr__piece *rows, uint64_t *border)
{
  const uint64_t *word = job->keys->word[rows->part] + rows->start;
  uint16_t *dest = (uint16_t *)tsr__cpu_data(job->dest[rows->part]) + rows->start;
  int n = 0;
  /* From `least` on where equal words go above it, else from the next word on. Nothing is above the
   * largest word. */
  for (int s = 0; s < job->splitters; s++) {
    uint64_t least = job->splitter[s].first;
    if (reached(&job->splitter[s], rows->part, rows->start)) border[n++] = least;
    else if (least < UINT64_MAX) border[n++] = least + 1;
  }
  tsr__sort_borders borders = { border, n, tsr__sort_pad_borders(border, n) };
  if (n <= FEW) count_borders(job, &borders, word, rows->count, dest);
  else tsr__sort_search_borders(&borders, word, rows->count, dest);
}

static void send_row_range(const split_job *job, const tsr__piece *rows)
{
  const tsr__packed_keys *keys = job->keys;
  int64_t stride = job->parts->rows[rows->part];
  uint16_t *dest = tsr__cpu_data(job->dest[rows->part]);
  for (int64_t i = rows->start; i < rows->start + rows->count; i++) {
    /* How many splitters the row is not before: that is its part. */
    int low = 0, high = job->splitters;
    while (low < high) {
      int middle = (low + high) / 2;
      const place *s = &job->splitter[middle];
      int order = compare_words(keys->word[rows->part] + i, stride, s);
      if (order > 0 || (!order && reached(s, rows->part, i))) low = middle + 1;
      else high = middle;
    }
    dest[i] = (uint16_t)low;
  }
}

typedef struct send_job {
  const split_job *split;
  uint64_t *borders; /* room for all of a worker's */
} send_job;

static void find_destinations_task(void *user, int64_t task, int worker)
{
  const send_job *send = user;
  const split_job *job = send->split;
  tsr__piece piece = tsr__piece_of(job->parts, TSR__PIECE_ROWS, task);
  if (job->keys->words > 1) {
    send_row_range(job, &piece);
    return;
  }
  uint64_t *border = send->borders + (int64_t)worker * TSR__SORT_BORDER_ROOM(job->splitters);
  int64_t end = piece.start + piece.count;
  /* A piece is divided where a splitter's own row lies in it: from that row on words equal to the
   * splitter's go above it. */
  for (int64_t at = piece.start, next; at < end; at = next) {
    next = end;
    for (int s = 0; s < job->splitters; s++) {
      const place *p = &job->splitter[s];
      if (p->part == piece.part && p->row > at && p->row < next) next = p->row;
    }
    send_words(job, &(tsr__piece){ piece.part, at, next - at }, border);
  }
}

static tsr_status send_all_rows(tsr_runtime *rt, const split_job *job, tsr__error *error)
{
  size_t size = (size_t)tsr__worker_count(rt) * (size_t)TSR__SORT_BORDER_ROOM(job->splitters) * 8;
  send_job send = { job, tsr__new(&rt->heap, size) };
  if (!send.borders) return no_split_memory(error, job->parts->count);
  bool done = tsr__parallel_long(rt, "sort", tsr__piece_count(job->parts, TSR__PIECE_ROWS),
                                 find_destinations_task, &send);
  tsr__del(&rt->heap, send.borders, size);
  return done ? TSR_OK : tsr__cancelled(error, "sort");
}

/* ---- the whole ------------------------------------------------------------------------------- */

void tsr__sort_split_free(tsr_runtime *rt, tsr__sort_split *split)
{
  if (split->dest)
    for (int p = 0; p < split->parts; p++) tsr__buffer_release(split->dest[p]);
  tsr__del(&rt->heap, split->dest, (size_t)split->parts * sizeof *split->dest);
  *split = (tsr__sort_split){ 0 };
}

/* Two bytes a row say which part it goes to. */
static tsr_status split_new(tsr_runtime *rt, const tsr__parts *parts, tsr__sort_split *out,
                            tsr__error *error)
{
  out->parts = parts->count;
  out->dest = tsr__new(&rt->heap, (size_t)parts->count * sizeof *out->dest);
  if (!out->dest) return no_split_memory(error, parts->count);
  for (int p = 0; p < parts->count; p++) {
    size_t bytes = (size_t)parts->rows[p] * sizeof(uint16_t);
    out->dest[p] = tsr__cpu_take(rt, parts->device[p], bytes, error);
    if (!out->dest[p]) return error->status;
  }
  return TSR_OK;
}

tsr_status tsr__sort_split_rows(tsr_runtime *rt, const tsr__split_ask *ask, tsr__sort_split *out,
                                tsr__error *error)
{
  const tsr__parts *parts = ask->parts;
  *out = (tsr__sort_split){ 0 };
  tsr_status status = split_new(rt, parts, out, error);
  size_t size = (size_t)(ask->sample->count + parts->count) * sizeof(place);
  split_job job = { .tiles = tsr__cpu_of(rt)->tiles,
                    .parts = parts,
                    .keys = ask->keys,
                    .sample = ask->sample,
                    .dest = out->dest };
  if (!status && ask->sample->count) {
    job.places = tsr__new_raw(&rt->heap, size);
    if (!job.places) status = no_split_memory(error, parts->count);
  }
  if (!status && ask->sample->count) {
    pick_splitters(&job);
    status = send_all_rows(rt, &job, error);
  }
  tsr__del(&rt->heap, job.places, size);
  if (status) tsr__sort_split_free(rt, out);
  return status;
}
