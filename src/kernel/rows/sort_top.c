/* Finding the rows that the first few in order of key are among, without sorting.
 *
 *   words of all parts    |  tally by 12 bits  |  the bin that the count ends in, by 12 more bits
 *                         | ... 4096 bins            until what lies below its end is little
 *   rows                  those whose word is not above that end, in order, of every part
 *
 * Only the first word of a key is looked at, and all rows of the last bin are taken: ties and
 * further words are the business of the sort that follows. Invariant: a row left out has a larger
 * first word than `count` rows that are in, so no order of the rest could bring it among the
 * first. */
#include "kernel/device/cpu.h"
#include "kernel/rows/pieces.h"

enum { BIN_BITS = 12, BINS = 1 << BIN_BITS, SPARE = 1024 /* rows too many that cost nothing */ };

typedef struct finder {
  tsr_runtime *rt;
  const tsr__parts *parts;
  const tsr__packed_keys *keys;
  uint64_t low, width; /* the words tallied: low .. low + width - 1; width 0: all */
  int shift;
  int64_t *tally; /* [worker * BINS + bin] */
  uint64_t most;  /* the largest word taken */
  int64_t *taken; /* by piece: how many rows, then where in the part's index they go */
  uint32_t **at;  /* by part */
} finder;

static void tally_top_digits_task(void *user, int64_t task, int worker)
{
  const finder *f = user;
  tsr__piece piece = tsr__piece_of(f->parts, TSR__PIECE_ROWS, task);
  const uint64_t *word = f->keys->word[piece.part] + piece.start;
  int64_t *tally = f->tally + (int64_t)worker * BINS;
  /* Unsigned: words below `low` wrap to the far end and are passed over. */
  for (int64_t i = 0; i < piece.count; i++) {
    uint64_t from = word[i] - f->low;
    if (!f->width || from < f->width) tally[from >> f->shift]++;
  }
}

static void count_top_rows_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const finder *f = user;
  tsr__piece piece = tsr__piece_of(f->parts, TSR__PIECE_ROWS, task);
  const uint64_t *word = f->keys->word[piece.part] + piece.start;
  int64_t count = 0;
  for (int64_t i = 0; i < piece.count; i++) count += word[i] <= f->most;
  f->taken[task] = count;
}

static void take_top_rows_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const finder *f = user;
  tsr__piece piece = tsr__piece_of(f->parts, TSR__PIECE_ROWS, task);
  const uint64_t *word = f->keys->word[piece.part] + piece.start;
  uint32_t *at = f->at[piece.part] + f->taken[task];
  for (int64_t i = 0; i < piece.count; i++)
    if (word[i] <= f->most) *at++ = (uint32_t)(piece.start + i);
}

/* The largest word to take so that `count` rows are, by ever finer bins. */
static tsr_status find_most(finder *f, int64_t count, tsr__error *error)
{
  int workers = tsr__worker_count(f->rt), bits = f->keys->words == 1 ? f->keys->bits : 64;
  int64_t pieces = tsr__piece_count(f->parts, TSR__PIECE_ROWS), below = 0;
  f->shift = bits > BIN_BITS ? bits - BIN_BITS : 0;
  f->width = bits < 64 ? UINT64_C(1) << bits : 0;
  for (;;) {
    /* Each round tallies 12 bits more of those words that have the bits before in common. */
    memset(f->tally, 0, (size_t)workers * BINS * sizeof *f->tally);
    if (!tsr__parallel_long(f->rt, "sort", pieces, tally_top_digits_task, f))
      return tsr__cancelled(error, "sort");
    int64_t here = 0;
    /* `below`: rows in the bins before; bins are passed until the count is reached. The last one
     * holds what is left. */
    int bin = -1;
    do {
      below += here;
      here = 0;
      bin++;
      for (int w = 0; w < workers; w++) here += f->tally[(int64_t)w * BINS + bin];
    } while (below + here < count && bin < BINS - 1);
    uint64_t first = f->low + ((uint64_t)bin << f->shift);
    f->most = first + ((UINT64_C(1) << f->shift) - 1);
    /* All bits are known, or few rows too many would be taken: further rounds cost more than they
     * save. */
    if (!f->shift || below + here <= 2 * count + SPARE) return TSR_OK;
    f->low = first;
    f->width = UINT64_C(1) << f->shift;
    f->shift = f->shift > BIN_BITS ? f->shift - BIN_BITS : 0;
  }
}

/* Counts of the pieces become places; `rows` gets those of the parts. Returns their sum. */
static int64_t place_top_rows(finder *f, int64_t *rows)
{
  int64_t task = 0, all = 0;
  /* In order of pieces, so the rows of a part stay in order. */
  for (int p = 0; p < f->parts->count; p++) {
    rows[p] = 0;
    for (int64_t at = 0; at < f->parts->rows[p]; at += TSR__PIECE_ROWS, task++) {
      int64_t here = f->taken[task];
      f->taken[task] = rows[p];
      rows[p] += here;
    }
    all += rows[p];
  }
  return all;
}

static tsr_status find_top_rows(finder *f, const tsr__top_ask *ask, int64_t *rows, tsr__index *out,
                                tsr__error *error)
{
  int64_t pieces = tsr__piece_count(f->parts, TSR__PIECE_ROWS);
  tsr_status status = find_most(f, ask->count, error);
  if (status) return status;
  if (!tsr__parallel_long(f->rt, "sort", pieces, count_top_rows_task, f))
    return tsr__cancelled(error, "sort");
  /* Nearly all would be taken: nothing is gained, and `out` stays empty. */
  if (place_top_rows(f, rows) > ask->most) return TSR_OK;
  tsr__parts few = { f->parts->count, f->parts->device, rows };
  status = tsr__index_new(f->rt, &few, out, error);
  if (status) return status;
  f->at = out->at;
  if (tsr__parallel_long(f->rt, "sort", pieces, take_top_rows_task, f)) return TSR_OK;
  tsr__index_free(f->rt, out);
  return tsr__cancelled(error, "sort");
}

tsr_status tsr__top_rows(tsr_runtime *rt, const tsr__top_ask *ask, tsr__index *out,
                         tsr__error *error)
{
  finder f = { .rt = rt, .parts = ask->parts, .keys = ask->keys };
  size_t tallies = (size_t)tsr__worker_count(rt) * BINS, parts = (size_t)ask->parts->count;
  size_t pieces = (size_t)tsr__piece_count(ask->parts, TSR__PIECE_ROWS);
  size_t bytes = (tallies + pieces + parts) * sizeof(int64_t);
  *out = (tsr__index){ 0 };
  f.tally = tsr__new(&rt->heap, bytes);
  if (!f.tally)
    return tsr__error_set(error, TSR_ENOMEM,
                          "sort: no memory to look for the first rows; free some arrays");
  f.taken = f.tally + tallies;
  tsr_status status = find_top_rows(&f, ask, f.taken + pieces, out, error);
  tsr__del(&rt->heap, f.tally, bytes);
  return status;
}
