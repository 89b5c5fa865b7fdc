/* Records of groups that leave for home, and are joined there.
 *
 *   part 0   a [sum 5] b [sum 1]                      a [5 + 4] b [1]
 *   part 1   c [sum 2] a [sum 4]   -- a [4] -> 0      c [2]
 *
 * Records lie by destination and whole, so they move as they lie. A group's number at home goes
 * with its record. Groups of codes need no number: both ends take them in order of the codes they
 * share.
 *
 * Invariant: records are exact, so the joined record does not depend on the rows' sharding. */
#include "kernel/device/cpu.h"
#include "kernel/rows/group_homes.h"

enum {
  BLOCK = 1024,
  FETCHED = 64,   /* records ahead of reading */
  SHARE = 1 << 20 /* records of a task that joins, about */
};

/* ---- which groups leave ---------------------------------------------------------------------- */

/* Walks over the groups that leave one part for another, which both know by their codes. */
typedef struct shared {
  const uint64_t *of, *to; /* the codes of both */
  const uint64_t *all;     /* of parts 0, 1, .. `words` each */
  int64_t words;
  int before; /* parts that come before `to` */
} shared;

static shared shared_codes(const tsr__group_homes *h, int64_t at, int from, int to)
{
  const uint64_t *all = tsr__cpu_data(h->everyone[at]);
  return (shared){ all + from * h->code_words, all + to * h->code_words, all, h->code_words, to };
}

/* A word of the codes that two parts have in common, and no part before `to`: each code goes to the
 * first part that has it. */
static uint64_t shared_bits(const shared *s, int64_t w)
{
  uint64_t bits = s->of[w] & s->to[w];
  for (int q = 0; bits && q < s->before; q++) bits &= ~s->all[q * s->words + w];
  return bits;
}

static int64_t count_shared(const shared *s, int64_t end)
{
  int64_t count = 0;
  for (int64_t w = 0; w < end; w++) count += __builtin_popcountll(shared_bits(s, w));
  return count;
}

/* A group stays if it is at home with the number that it has. */
static bool group_leaves(const tsr__group_homes *h, int64_t p, int64_t g)
{
  const int32_t *home = tsr__cpu_data(h->home[p]), *number = tsr__cpu_data(h->number[p]);
  return home[g] != p || number[g] != g;
}

static void count_leaving_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const tsr__leaving *l = user;
  const tsr__group_homes *h = l->homes;
  int64_t *counts = l->counts + p * h->parts->count;
  if (!h->local.count[p]) return;
  if (h->coded) {
    /* Codes go to parts before this one only: home is the first part that has the code. */
    for (int q = 0; q < p; q++) {
      shared s = shared_codes(h, p, (int)p, q);
      counts[q] = count_shared(&s, h->code_words);
    }
  } else {
    const int32_t *home = tsr__cpu_data(h->home[p]);
    for (int64_t g = 0; g < h->local.count[p]; g++) counts[home[g]] += group_leaves(h, p, g);
  }
}

/* ---- and go ---------------------------------------------------------------------------------- */

static inline void copy_words(uint64_t *to, const uint64_t *from, int words)
{
  for (int w = 0; w < words; w++) to[w] = from[w];
}

/* Records lie anywhere: some are fetched into the cache before they are read. */
static void take_coded(const tsr__leaving *l, int p)
{
  const tsr__group_homes *h = l->homes;
  const uint32_t *number = h->local.number[p];
  const uint64_t *record = tsr__tallied_records(l->records, p);
  uint64_t *out = tsr__cpu_data(l->sent[p]);
  int64_t group[2 * FETCHED];
  for (int q = 0; q < p; q++) {
    shared s = shared_codes(h, p, p, q);
    int n = 0;
    for (int64_t w = 0; w < h->code_words; w++) {
      for (uint64_t bits = shared_bits(&s, w); bits; bits &= bits - 1) {
        group[n] = (int64_t)number[64 * w + __builtin_ctzll(bits)] * l->words;
        __builtin_prefetch(record + group[n++]);
      }
      /* Until enough are on their way, or all are. */
      if (n < FETCHED && w + 1 < h->code_words) continue;
      for (int i = 0; i < n; i++, out += l->words) copy_words(out, record + group[i], l->words);
      n = 0;
    }
  }
}

static void take_leaving_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const tsr__leaving *l = user;
  const tsr__group_homes *h = l->homes;
  if (!h->local.count[p]) return;
  if (h->coded) {
    take_coded(l, (int)p);
    return;
  }
  int parts = h->parts->count;
  const int32_t *home = tsr__cpu_data(h->home[p]), *number = tsr__cpu_data(h->number[p]);
  const uint64_t *record = tsr__tallied_records(l->records, (int)p);
  int32_t *there = tsr__cpu_data(l->sent_number[p]);
  uint64_t *out = tsr__cpu_data(l->sent[p]);
  int64_t *next = l->word_counts + p * parts, at = 0;
  /* The first record for each part: records lie by destination. */
  for (int q = 0; q < parts; at += l->counts[p * parts + q++]) next[q] = at;
  for (int64_t g = 0; g < h->local.count[p]; g++) {
    if (!group_leaves(h, p, g)) continue;
    int64_t to = next[home[g]]++;
    there[to] = number[g];
    copy_words(out + to * l->words, record + g * l->words, l->words);
  }
}

tsr_status tsr__leaving_count(tsr_runtime *rt, const tsr__leaving *leaving, tsr__error *error)
{
  return tsr__homes_each(rt, leaving->homes->parts->count, count_leaving_task, (void *)leaving,
                         error);
}

tsr_status tsr__leaving_take(tsr_runtime *rt, const tsr__leaving *leaving, tsr__error *error)
{
  return tsr__homes_each(rt, leaving->homes->parts->count, take_leaving_task, (void *)leaving,
                         error);
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Joins a share of the records that part q sent to part p, from `record` on, in order of their
 * codes. */
static void join_coded(const tsr__leaving *l, int p, int q, int64_t share, const uint64_t *record)
{
  const uint32_t *number = l->homes->local.number[p];
  shared s = shared_codes(l->homes, p, q, p);
  /* Words of codes are cut evenly; a share counts the records before its own. */
  int64_t first = s.words * share / l->shares, end = s.words * (share + 1) / l->shares;
  uint32_t group[BLOCK + 64];
  tsr__joining block = { .group = group, .end = UINT64_MAX };
  block.record = record + count_shared(&s, first) * l->words;
  for (int64_t w = first; w < end; w++) {
    for (uint64_t bits = shared_bits(&s, w); bits; bits &= bits - 1)
      group[block.count++] = number[64 * w + __builtin_ctzll(bits)];
    /* A block is joined when it is full, or at the end of the share. */
    if (block.count < BLOCK && w + 1 < end) continue;
    tsr__tallied_join(l->records, p, &block);
    block.record += block.count * l->words;
    block.count = 0;
  }
}

static void join_leaving_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const tsr__leaving *l = user;
  const tsr__group_homes *h = l->homes;
  int p = (int)(task / l->shares);
  int64_t share = task % l->shares;
  if (!h->local.count[p]) return;
  const uint64_t *record = tsr__cpu_data(l->came[p]);
  for (int q = p + 1; h->coded && q < h->parts->count; q++) {
    join_coded(l, p, q, share, record);
    record += l->word_counts[q * h->parts->count + p];
  }
  if (h->coded) return;
  /* If groups have numbers, each share has a range of numbers and passes over all records. */
  uint64_t groups = (uint64_t)h->local.count[p], shares = (uint64_t)l->shares;
  tsr__joining from = { .group = tsr__cpu_data(l->came_number[p]),
                        .record = record,
                        .count = l->rows[p],
                        .first = groups * (uint64_t)share / shares,
                        .end = groups * ((uint64_t)share + 1) / shares };
  tsr__tallied_join(l->records, p, &from);
}

/* The records of groups at home move together. */
static void close_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const tsr__leaving *l = user;
  const tsr__index *own = &l->homes->own;
  uint64_t *record = tsr__tallied_records(l->records, (int)p);
  for (int64_t i = 0; i < own->rows[p]; i++)
    if (own->at[p][i] != i)
      copy_words(record + i * l->words, record + (int64_t)own->at[p][i] * l->words, l->words);
}

/* A share a worker. Codes are found without a pass over all records, so they get as many shares as
 * make a task's time. */
static int64_t shares_of(tsr_runtime *rt, const tsr__leaving *l)
{
  int64_t most = 0, workers = tsr__worker_count(rt);
  if (!l->homes->coded) return workers;
  for (int p = 0; p < l->homes->parts->count; p++)
    most = l->row_words[p] / l->words > most ? l->row_words[p] / l->words : most;
  return workers + most / SHARE;
}

tsr_status tsr__leaving_join(tsr_runtime *rt, tsr__leaving *leaving, tsr__error *error)
{
  int64_t parts = leaving->homes->parts->count;
  leaving->shares = shares_of(rt, leaving);
  tsr_status status =
      tsr__homes_each(rt, parts * leaving->shares, join_leaving_task, leaving, error);
  return status ? status : tsr__homes_each(rt, parts, close_task, leaving, error);
}
