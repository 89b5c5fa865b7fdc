/* Groups over several parts by records: each part reads its own rows, and only the records of
 * groups that are at home elsewhere travel.
 *
 *   part 0   a [sum 5] b [sum 1]                      a [5 + 4] b [1]
 *   part 1   c [sum 2] a [sum 4]   -- a [4] -> 0      c [2]
 *
 * Records lie by destination and whole, so they move as they lie. A group's number at home goes
 * with its record, but for groups of codes: both ends take those in order of the codes they share.
 *
 * Invariant: records are exact, so how rows lay cannot show in what they join to. */
#include "relate/group_owners.h"

enum {
  NUMBERS, /* at home; none of codes */
  RECORDS, /* word after word */
  COLUMNS
};
enum {
  BLOCK = 1024,
  FETCHED = 64,   /* records ahead of reading */
  SHARE = 1 << 20 /* records of a task that joins, about */
};

typedef struct leaving {
  const tsr__group_owners *h;
  tsr__group_records *tallied;
  int words;
  tsr__buffer **sent[COLUMNS], **came[COLUMNS], **valid; /* [part] */
  int64_t *counts, *word_counts;                         /* [from * parts + to] */
  int64_t *from, *from_words, *rows, *row_words;         /* [part] */
  int64_t shares; /* of the groups of a part, that workers may share one part's joining */
  void *block;
  size_t size;
} leaving;

static tsr_status leaving_new(leaving *l)
{
  size_t parts = (size_t)l->h->parts;
  l->size = parts * (5 * sizeof *l->valid + (2 * parts + 4) * sizeof *l->counts);
  l->block = tsr__new(&l->h->rt->heap, l->size);
  if (!l->block)
    return tsr__error_set(l->h->error, TSR_ENOMEM,
                          "group by: no memory for the records of %d devices; free some arrays",
                          l->h->parts);
  l->valid = l->block;
  for (int c = 0; c < COLUMNS; c++) {
    l->sent[c] = l->valid + (size_t)(1 + 2 * c) * parts;
    l->came[c] = l->sent[c] + parts;
  }
  l->counts = (int64_t *)(l->valid + 5 * parts);
  l->word_counts = l->counts + parts * parts;
  l->from = l->word_counts + parts * parts;
  l->from_words = l->from + parts;
  l->rows = l->from_words + parts;
  l->row_words = l->rows + parts;
  return TSR_OK;
}

static void leaving_free(leaving *l)
{
  if (!l->block) return;
  tsr__drop_buffers(l->valid, 5 * (int64_t)l->h->parts);
  tsr__del(&l->h->rt->heap, l->block, l->size);
}

/* ---- which groups leave ---------------------------------------------------------------------- */

/* Walks over the groups that leave one part for another, which both know by their codes. */
typedef struct shared {
  const uint64_t *of, *to; /* the codes of both */
  const uint64_t *all;     /* of parts 0, 1, .. `words` each */
  int64_t words;
  int before; /* parts that come before `to` */
} shared;

static shared shared_codes(const tsr__group_owners *h, int64_t at, int from, int to)
{
  const uint64_t *all = tsr__codes_of(h, at, 0);
  return (shared){ all + from * h->code_words, all + to * h->code_words, all, h->code_words, to };
}

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

static bool leaves(const tsr__group_owners *h, int64_t p, int64_t g)
{
  const int32_t *home = h->home[p]->data, *number = h->number[p]->data;
  return home[g] != p || number[g] != g;
}

static void count_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const leaving *l = user;
  const tsr__group_owners *h = l->h;
  int64_t *counts = l->counts + p * h->parts;
  if (h->coded) {
    for (int q = 0; q < p; q++) {
      shared s = shared_codes(h, p, (int)p, q);
      counts[q] = count_shared(&s, h->code_words);
    }
  } else {
    const int32_t *home = h->home[p]->data;
    for (int64_t g = 0; g < h->local.count[p]; g++) counts[home[g]] += leaves(h, p, g);
  }
}

/* ---- and go ---------------------------------------------------------------------------------- */

static inline void copy_words(uint64_t *to, const uint64_t *from, int words)
{
  for (int w = 0; w < words; w++) to[w] = from[w];
}

/* Records lie anywhere: some are fetched into the cache before they are read. */
static void take_coded(const leaving *l, int p)
{
  const tsr__group_owners *h = l->h;
  const uint32_t *number = h->local.number[p];
  const uint64_t *record = tsr__tallied_records(l->tallied, p);
  uint64_t *out = l->sent[RECORDS][p]->data;
  int64_t group[2 * FETCHED];
  for (int q = 0; q < p; q++) {
    shared s = shared_codes(h, p, p, q);
    int n = 0;
    for (int64_t w = 0; w < h->code_words; w++) {
      for (uint64_t bits = shared_bits(&s, w); bits; bits &= bits - 1) {
        group[n] = (int64_t)number[64 * w + __builtin_ctzll(bits)] * l->words;
        __builtin_prefetch(record + group[n++]);
      }
      if (n < FETCHED && w + 1 < h->code_words) continue;
      for (int i = 0; i < n; i++, out += l->words) copy_words(out, record + group[i], l->words);
      n = 0;
    }
  }
}

static void take_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const leaving *l = user;
  const tsr__group_owners *h = l->h;
  if (h->coded) {
    take_coded(l, (int)p);
    return;
  }
  const int32_t *home = h->home[p]->data, *number = h->number[p]->data;
  const uint64_t *record = tsr__tallied_records(l->tallied, (int)p);
  int32_t *there = l->sent[NUMBERS][p]->data;
  uint64_t *out = l->sent[RECORDS][p]->data;
  int64_t *next = l->word_counts + p * h->parts, at = 0;
  for (int q = 0; q < h->parts; at += l->counts[p * h->parts + q++]) next[q] = at;
  for (int64_t g = 0; g < h->local.count[p]; g++) {
    if (!leaves(h, p, g)) continue;
    int64_t to = next[home[g]]++;
    there[to] = number[g];
    copy_words(out + to * l->words, record + g * l->words, l->words);
  }
}

static tsr_status send_records(leaving *l)
{
  const tsr__group_owners *h = l->h;
  int parts = h->parts;
  tsr_status status = tsr__each_part(h, count_task, l);
  for (int p = 0; p < parts; p++) {
    for (int q = 0; q < parts; q++) l->from[p] += l->counts[p * parts + q];
    l->from_words[p] = l->from[p] * l->words;
  }
  if (!status && !h->coded) status = tsr__part_buffers(h, TSR_I32, l->from, l->sent[NUMBERS]);
  if (!status) status = tsr__part_buffers(h, TSR_I64, l->from_words, l->sent[RECORDS]);
  if (!status) status = tsr__each_part(h, take_task, l);
  for (int i = 0; i < parts * parts; i++) l->word_counts[i] = l->counts[i] * l->words;
  tsr__colparts number = { .dtype = TSR_I32, .values = l->sent[NUMBERS] };
  tsr__colparts record = { .dtype = TSR_I64, .values = l->sent[RECORDS] };
  tsr__sending numbers = { .what = "numbers of groups",
                           .from = l->from,
                           .counts = l->counts,
                           .count = 1,
                           .columns = &number,
                           .values = l->came[NUMBERS],
                           .valid = l->valid,
                           .came = l->rows };
  tsr__sending records = { .what = "records of groups",
                           .from = l->from_words,
                           .counts = l->word_counts,
                           .each = l->words,
                           .count = 1,
                           .columns = &record,
                           .values = l->came[RECORDS],
                           .valid = l->valid,
                           .came = l->row_words };
  if (!status && !h->coded) status = tsr__send(h, &numbers);
  if (!status) status = tsr__send(h, &records);
  tsr__drop_buffers(l->sent[NUMBERS], parts);
  tsr__drop_buffers(l->sent[RECORDS], parts);
  return status;
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Joins a share of what part q sent to part p: the records from `record` on, in order of their
 * codes. */
static void join_coded(const leaving *l, int p, int q, int64_t share, const uint64_t *record)
{
  const uint32_t *number = l->h->local.number[p];
  shared s = shared_codes(l->h, p, q, p);
  int64_t first = s.words * share / l->shares, end = s.words * (share + 1) / l->shares;
  uint32_t group[BLOCK + 64];
  tsr__joining block = { .group = group, .end = UINT64_MAX };
  block.record = record + count_shared(&s, first) * l->words;
  for (int64_t w = first; w < end; w++) {
    for (uint64_t bits = shared_bits(&s, w); bits; bits &= bits - 1)
      group[block.count++] = number[64 * w + __builtin_ctzll(bits)];
    if (block.count < BLOCK && w + 1 < end) continue;
    tsr__tallied_join(l->tallied, p, &block);
    block.record += block.count * l->words;
    block.count = 0;
  }
}

static void join_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const leaving *l = user;
  const tsr__group_owners *h = l->h;
  int p = (int)(task / l->shares);
  int64_t share = task % l->shares;
  const uint64_t *record = l->came[RECORDS][p]->data;
  for (int q = p + 1; h->coded && q < h->parts; q++) {
    join_coded(l, p, q, share, record);
    record += l->word_counts[q * h->parts + p];
  }
  if (h->coded) return;
  uint64_t groups = (uint64_t)h->local.count[p], shares = (uint64_t)l->shares;
  tsr__joining from = { .group = l->came[NUMBERS][p]->data,
                        .record = record,
                        .count = l->rows[p],
                        .first = groups * (uint64_t)share / shares,
                        .end = groups * ((uint64_t)share + 1) / shares };
  tsr__tallied_join(l->tallied, p, &from);
}

/* The records of groups at home move together. */
static void close_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const leaving *l = user;
  const tsr__index *own = &l->h->own;
  uint64_t *record = tsr__tallied_records(l->tallied, (int)p);
  for (int64_t i = 0; i < own->rows[p]; i++)
    if (own->at[p][i] != i)
      copy_words(record + i * l->words, record + (int64_t)own->at[p][i] * l->words, l->words);
}

/* As many shares as workers; of codes, which are found without a look at all, as many as take
 * a task's time. */
static int64_t shares_of(const leaving *l)
{
  int64_t most = 0, workers = tsr__worker_count(l->h->rt);
  if (!l->h->coded) return workers;
  for (int p = 0; p < l->h->parts; p++)
    most = l->row_words[p] / l->words > most ? l->row_words[p] / l->words : most;
  return workers + most / SHARE;
}

tsr_status tsr__join_records(const tsr__group_owners *homes, tsr__group_records *tallied)
{
  leaving l = { .h = homes, .tallied = tallied, .words = tsr__tallied_words(tallied) };
  tsr_status status = leaving_new(&l);
  if (!status) status = send_records(&l);
  if (!status) l.shares = shares_of(&l);
  if (!status &&
      !tsr__parallel_long(homes->rt, "group by", (int64_t)homes->parts * l.shares, join_task, &l))
    status = tsr__cancelled(homes->error, "group by");
  if (!status) status = tsr__each_part(homes, close_task, &l);
  leaving_free(&l);
  return status;
}
