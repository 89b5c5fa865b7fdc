/* Sorting one leaf: up to 65,536 words inside the cache.
 *
 *   word    64 bits          record   | top 48 bits of (word - least) | place |
 *
 * Records are radix sorted by the few top bits that tell most of them apart; an insertion sort does
 * the rest, about a step a row for evenly spread words. If it needs more steps, the digits below
 * are sorted as well. Words that differ only below the 48 bits are told apart at last, run by run.
 *
 * Invariant: the place decides between records with equal keys, so the order is stable. */
#include "kernel/rows/sort.h"

/* A place among 65,536 rows takes 16 bits; DIGIT bits make 512 counters of 4 bytes, which leave
 * the cache to the records. */
enum { PLACE = 16, KEY = 64 - PLACE, DIGIT = 9, SMALL = 48, PATIENCE = 12 };

typedef struct records {
  uint64_t *at, *spare; /* they change places with each digit */
  int64_t count;
} records;

/* Sorts by bits from .. end - 1, stable; at most DIGIT + 1 bits at a time. Bits are dealt out
 * evenly over the passes: 12 bits are two passes of 6, not one of 9 and one of 3. */
static void radix(records *r, int from, int end, uint32_t *tally)
{
  int passes = (end - from + DIGIT - 1) / DIGIT;
  for (; passes > 0; passes--) {
    int width = (end - from + passes - 1) / passes;
    const uint64_t *in = r->at;
    uint64_t *out = r->spare, mask = (UINT64_C(1) << width) - 1;
    memset(tally, 0, ((size_t)mask + 1) * sizeof *tally);
    for (int64_t i = 0; i < r->count; i++) tally[in[i] >> from & mask]++;
    /* A digit that is the same for all moves nothing. */
    if (tally[in[0] >> from & mask] != (uint32_t)r->count) {
      for (uint32_t d = 0, next = 0; d <= mask; d++) {
        uint32_t here = tally[d];
        tally[d] = next;
        next += here;
      }
      for (int64_t i = 0; i < r->count; i++) out[tally[in[i] >> from & mask]++] = in[i];
      r->spare = r->at;
      r->at = out;
    }
    from += width;
  }
}

/* False: patience ran out, and the records are in some order that keeps equal keys as they were.
 * Records that a radix sort has nearly put in order move by a few places each. `patience` bounds
 * the moves, so that no input makes it quadratic. */
static bool insertion(uint64_t *record, int64_t count, int64_t patience)
{
  for (int64_t i = 1; i < count; i++) {
    uint64_t moved = record[i];
    int64_t k = i;
    for (; k > 0 && record[k - 1] > moved; k--) record[k] = record[k - 1];
    record[k] = moved;
    patience -= i - k;
    if (patience < 0) return false;
  }
  return true;
}

/* The bits that the keys left out: the low bits of word - least. */
typedef struct rest {
  const uint64_t *word;
  uint64_t least;
  int bits;
} rest;

/* Sorts runs of equal keys by the bits that were left out. The key in the record is replaced by the
 * bits that were left out, for the time of the run; only the place is needed afterwards. */
static void sort_equal_runs(records *r, const rest *left_out, uint32_t *tally)
{
  uint64_t mask = (UINT64_C(1) << left_out->bits) - 1;
  for (int64_t first = 0, end; first < r->count; first = end) {
    for (end = first + 1; end < r->count && r->at[end] >> PLACE == r->at[first] >> PLACE;) end++;
    if (end - first == 1) continue;
    records run = { r->at + first, r->spare + first, end - first };
    for (int64_t i = 0; i < run.count; i++) {
      uint64_t place = run.at[i] & 0xFFFF;
      run.at[i] = ((left_out->word[place] - left_out->least) & mask) << PLACE | place;
    }
    if (run.count <= SMALL) insertion(run.at, run.count, INT64_MAX);
    else radix(&run, PLACE, PLACE + left_out->bits, tally);
    if (run.at != r->at + first) memcpy(r->at + first, run.at, (size_t)run.count * sizeof *run.at);
  }
}

/* Two loops, since the test for `at` would be made for each row. */
static void write_rows(const uint64_t *record, const tsr__sort_leaf *leaf)
{
  const uint32_t *at = leaf->at;
  uint32_t *out = leaf->out;
  if (at)
    for (int64_t i = 0; i < leaf->count; i++) out[i] = at[record[i] & 0xFFFF];
  else
    for (int64_t i = 0; i < leaf->count; i++) out[i] = (uint32_t)(record[i] & 0xFFFF);
}

void tsr__sort_leaf_rows(tsr__sort_room *room, const tsr__sort_leaf *leaf)
{
  const uint64_t *word = leaf->word;
  int64_t n = leaf->count;
  uint64_t least = UINT64_MAX, most = 0;
  for (int64_t i = 0; i < n; i++) {
    least = word[i] < least ? word[i] : least;
    most = word[i] > most ? word[i] : most;
  }
  if (!n) return;
  int bits = tsr__used_bits(most - least), kept = bits < KEY ? bits : KEY, left_out = bits - kept;
  records r = { room->a, room->b, n };
  for (int64_t i = 0; i < n; i++) r.at[i] = (word[i] - least) >> left_out << PLACE | (uint64_t)i;
  /* Words that are spread evenly over n steps differ in log2(n) bits; three more leave few ties. */
  int tell = tsr__used_bits((uint64_t)n) + 3;
  if (tell > kept) tell = kept;
  int end = PLACE + kept;
  if (n <= SMALL) {
    insertion(r.at, n, INT64_MAX);
  } else {
    radix(&r, end - tell, end, room->tally);
    if (kept > tell && !insertion(r.at, n, PATIENCE * n)) radix(&r, PLACE, end, room->tally);
  }
  if (left_out) sort_equal_runs(&r, &(rest){ word, least, left_out }, room->tally);
  write_rows(r.at, leaf);
}
