/* Sorting records digit by digit, the lowest first.
 *
 *   records     31 12 32 11       a digit is at most 11 bits of those that differ
 *   by 1s       31 11 12 32       count (a task a piece), settle (here), deal (a task a piece)
 *   by 10s      11 12 31 32
 *
 * Dealing is stable, so the order by earlier digits stays. Records are collected to lines of the
 * cache before they are written, which then pass it: a digit reads and writes each record once,
 * whatever the records are.
 *
 * Invariant: a piece's records of a digit go after those of the pieces before it.
 *
 * Memory:
 *   tally    [piece][digit]     records, then the place of the piece's first record */
#include "kernel/rows/radix.h"

#include "kernel/device/put_line.h"
#include "kernel/rows/pieces.h"

enum {
  DIGIT = 11,
  DIGITS = 1 << DIGIT,
  LINE = 64,
  LEAST = 1 << 15, /* records of a piece: so many that most lines of a digit are the piece's own, */
  MOST = 1 << 20,  /* so few that all workers have some, */
  SHARE = 8        /* tasks a worker, if pieces allow */
};

/* A worker's own: lines that fill, where each digit's next record goes and its first went. */
typedef struct room {
  _Alignas(LINE) unsigned char line[DIGITS][LINE];
  uint32_t next[DIGITS], first[DIGITS];
} room;

/* Which digits a part has. */
typedef struct plan {
  int from, width, passes;
} plan;

typedef struct sorter {
  tsr_runtime *rt;
  const tsr__radix *job;
  plan *plans;
  tsr__parts live; /* in this pass: parts that have no such digit have no rows */
  int64_t *rows;   /* those of `live` */
  int pass;
  int64_t piece;   /* records of a piece */
  uint32_t *tally; /* [piece * DIGITS + digit]: records, then where they go */
  room *rooms;     /* one a worker */
} sorter;

/* Bits that are equal in all records need no pass; those between the first and the last that differ
 * are cut into digits of about one width. */
static plan plan_digits(uint64_t differ)
{
  if (!differ) return (plan){ 0 };
  int from = __builtin_ctzll(differ), bits = 64 - __builtin_clzll(differ) - from;
  int passes = (bits + DIGIT - 1) / DIGIT;
  return (plan){ from, (bits + passes - 1) / passes, passes };
}

/* The digit of this pass. */
typedef struct digit {
  int shift;
  uint32_t mask;
} digit;

static digit digit_of(const sorter *s, int part)
{
  const plan *p = &s->plans[part];
  return (digit){ p->from + s->pass * p->width, (UINT32_C(1) << p->width) - 1 };
}

/* ---- count ----------------------------------------------------------------------------------- */

#define COUNT(T)                            \
  for (int64_t i = 0; i < piece.count; i++) \
  tally[(uint32_t)(((const T *)at)[i] >> d.shift) & d.mask]++

static void count_digits_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const sorter *s = user;
  tsr__piece piece = tsr__piece_of(&s->live, s->piece, task);
  uint32_t *tally = s->tally + task * DIGITS;
  digit d = digit_of(s, piece.part);
  const char *at = (const char *)s->job->at[piece.part] + piece.start * s->job->size;
  memset(tally, 0, ((size_t)d.mask + 1) * sizeof *tally);
  if (s->job->size == 4) COUNT(uint32_t);
  else COUNT(uint64_t);
}

/* ---- settle ---------------------------------------------------------------------------------- */

/* Digit by digit over the pieces of a part, as places of a counting sort. */
static void settle_part(uint32_t *tally, int64_t pieces, uint32_t digits)
{
  uint32_t next[DIGITS] = { 0 };
  /* Finds where each digit begins over all pieces, then piece by piece within it. */
  for (int64_t p = 0; p < pieces; p++)
    for (uint32_t d = 0; d < digits; d++) next[d] += tally[p * DIGITS + d];
  for (uint32_t d = 0, at = 0; d < digits; d++) {
    uint32_t here = next[d];
    next[d] = at;
    at += here;
  }
  for (int64_t p = 0; p < pieces; p++)
    for (uint32_t d = 0; d < digits; d++) {
      uint32_t here = tally[p * DIGITS + d];
      tally[p * DIGITS + d] = next[d];
      next[d] += here;
    }
}

/* Serial: it reads as many numbers as there are pieces times digits, and no record. */
static void place_digits(const sorter *s)
{
  uint32_t *tally = s->tally;
  for (int p = 0; p < s->live.count; p++) {
    int64_t pieces = (s->live.rows[p] + s->piece - 1) / s->piece;
    if (pieces) settle_part(tally, pieces, digit_of(s, p).mask + 1);
    tally += pieces * DIGITS;
  }
}

/* ---- deal ------------------------------------------------------------------------------------ */

/* Writes the line that ends with record `end` - 1, or the piece's own records in it: a piece shares
 * the lines at its ends with its neighbours. */
static void flush_record_line(const room *r, uint32_t d, int64_t end, int size, char *to)
{
  int64_t slots = LINE / size, start = (end - 1) / slots * slots;
  int64_t first = r->first[d] > start ? r->first[d] : start;
  if (first == start && end == start + slots) {
    tsr__put_line(to + start * size, r->line[d], LINE);
    return;
  }
  memcpy(to + first * size, r->line[d] + (first - start) * size, (size_t)((end - first) * size));
}

/* A line is full when its last place is taken, counted in places of the result, so that full lines
 * are whole lines of memory. */
#define DEAL(name, T)                                                                            \
  static void name(const T *in, int64_t n, digit by, room *r, char *to)                          \
  {                                                                                              \
    enum { SLOTS = LINE / sizeof(T) };                                                           \
    for (int64_t i = 0; i < n; i++) {                                                            \
      uint32_t d = (uint32_t)(in[i] >> by.shift) & by.mask, at = r->next[d]++;                   \
      ((T *)(void *)r->line[d])[at % SLOTS] = in[i];                                             \
      if (at % SLOTS == SLOTS - 1) flush_record_line(r, d, (int64_t)at + 1, (int)sizeof(T), to); \
    }                                                                                            \
  }
DEAL(deal_narrow, uint32_t)
DEAL(deal_wide, uint64_t)

static void deal_digits_task(void *user, int64_t task, int worker)
{
  const sorter *s = user;
  room *r = &s->rooms[worker];
  tsr__piece piece = tsr__piece_of(&s->live, s->piece, task);
  digit by = digit_of(s, piece.part);
  int size = s->job->size;
  const char *at = (const char *)s->job->at[piece.part] + piece.start * size;
  char *to = s->job->spare[piece.part];
  memcpy(r->next, s->tally + task * DIGITS, ((size_t)by.mask + 1) * sizeof *r->next);
  memcpy(r->first, r->next, ((size_t)by.mask + 1) * sizeof *r->first);
  if (size == 4) deal_narrow((const uint32_t *)(const void *)at, piece.count, by, r, to);
  else deal_wide((const uint64_t *)(const void *)at, piece.count, by, r, to);
  /* The rest: lines that are not full, and lines shared with another piece. */
  for (uint32_t d = 0; d <= by.mask; d++)
    if (r->next[d] > r->first[d] && r->next[d] % (uint32_t)(LINE / size))
      flush_record_line(r, d, r->next[d], size, to);
  tsr__put_done();
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int64_t piece_size(tsr_runtime *rt, const tsr__parts *parts)
{
  int64_t rows = 0, pieces = (int64_t)tsr__worker_count(rt) * SHARE;
  for (int p = 0; p < parts->count; p++) rows += parts->rows[p];
  int64_t size = (rows + pieces - 1) / pieces;
  /* A multiple of 64 records. */
  return size < LEAST ? LEAST : size > MOST ? MOST : (size + LINE - 1) / LINE * LINE;
}

/* Parts whose records differ in this pass's digit. */
static bool start_pass(sorter *s)
{
  bool more = false;
  for (int p = 0; p < s->live.count; p++) {
    const plan *own = &s->plans[p];
    digit d = s->pass < own->passes ? digit_of(s, p) : (digit){ 0 };
    /* A digit that is the same in all records of a part moves none of them. */
    bool takes_part = s->job->differ[p] >> d.shift & d.mask;
    s->rows[p] = takes_part ? s->job->parts->rows[p] : 0;
    more = more || s->pass < own->passes;
  }
  return more;
}

static tsr_status run_pass(sorter *s, tsr__error *error)
{
  int64_t pieces = tsr__piece_count(&s->live, s->piece);
  if (!tsr__parallel_long(s->rt, "sort", pieces, count_digits_task, s))
    return tsr__cancelled(error, "sort");
  place_digits(s);
  if (!tsr__parallel_long(s->rt, "sort", pieces, deal_digits_task, s))
    return tsr__cancelled(error, "sort");
  /* The buffers change roles; after the last pass `at` has the result. */
  for (int p = 0; p < s->live.count; p++) {
    if (!s->live.rows[p]) continue;
    void *sorted = s->job->spare[p];
    s->job->spare[p] = s->job->at[p];
    s->job->at[p] = sorted;
  }
  return TSR_OK;
}

tsr_status tsr__radix_sort(tsr_runtime *rt, const tsr__radix *job, tsr__error *error)
{
  tsr__heap *heap = &rt->heap;
  size_t parts = (size_t)job->parts->count, list = parts * (sizeof(plan) + sizeof(int64_t));
  size_t rooms = (size_t)tsr__worker_count(rt) * sizeof(room);
  sorter s = { .rt = rt, .job = job, .live = *job->parts, .piece = piece_size(rt, job->parts) };
  size_t tallies = (size_t)tsr__piece_count(job->parts, s.piece) * DIGITS * sizeof(uint32_t);
  s.live.rows = s.rows = tsr__new(heap, list);
  s.tally = tsr__new_raw(heap, tallies + sizeof(uint32_t));
  s.rooms = tsr__new_raw(heap, rooms);
  tsr_status status = TSR_OK;
  if (!s.rows || !s.tally || !s.rooms)
    status = tsr__error_set(error, TSR_ENOMEM,
                            "sort: no memory for the counts of keys; free some arrays");
  s.plans = (plan *)(s.rows + parts);
  for (size_t p = 0; p < parts && !status; p++) s.plans[p] = plan_digits(job->differ[p]);
  for (; !status && start_pass(&s); s.pass++) status = run_pass(&s, error);
  tsr__del(heap, s.rows, list);
  tsr__del(heap, s.tally, tallies + sizeof(uint32_t));
  tsr__del(heap, s.rooms, rooms);
  return status;
}
