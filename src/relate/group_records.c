/* Groups over several parts by records: each part reads its own rows, and only the records of
 * groups that are at home elsewhere travel.
 *
 *   part 0   a [sum 5] b [sum 1]                      a [5 + 4] b [1]
 *   part 1   c [sum 2] a [sum 4]   -- a [4] -> 0      c [2]
 *
 * Invariant: records are exact, so how rows lay cannot show in what they join to. */
#include "relate/group_owners.h"

/* The five lists of buffers lie one after the other from `valid` on and are dropped as one;
 * `valid` is only where the exchange puts validity, of which records have none. */
typedef struct leaving {
  const tsr__group_owners *h;
  tsr__leaving all;
  tsr__buffer **valid;        /* [part] */
  int64_t *from, *from_words; /* [part]: records that leave, and their words */
  void *block;
  size_t size;
} leaving;

static tsr_status leaving_new(leaving *l)
{
  size_t parts = (size_t)l->h->parts;
  tsr__leaving *all = &l->all;
  l->size = parts * (5 * sizeof *l->valid + (2 * parts + 4) * sizeof *l->from);
  l->block = tsr__new(&l->h->rt->heap, l->size);
  if (!l->block)
    return tsr__error_set(l->h->error, TSR_ENOMEM,
                          "group by: no memory for the records of %d devices; free some arrays",
                          l->h->parts);
  l->valid = l->block;
  all->sent_number = l->valid + parts;
  all->came_number = all->sent_number + parts;
  all->sent = all->came_number + parts;
  all->came = all->sent + parts;
  all->counts = (int64_t *)(all->came + parts);
  all->word_counts = all->counts + parts * parts;
  all->rows = all->word_counts + parts * parts;
  all->row_words = all->rows + parts;
  l->from = all->row_words + parts;
  l->from_words = l->from + parts;
  return TSR_OK;
}

static void leaving_free(leaving *l)
{
  if (!l->block) return;
  tsr__drop_buffers(l->valid, 5 * (int64_t)l->h->parts);
  tsr__del(&l->h->rt->heap, l->block, l->size);
}

/* What each part sends, by destination. A record is `words` words of 64 bits, laid out as the
 * kernel likes; for the exchange they are rows of i64, so all counts exist twice: in records and
 * in words.
 *
 * Homes that were found by codes need no numbers: both ends list the codes they share alike. */
static tsr_status take_records(leaving *l)
{
  const tsr__group_owners *h = l->h;
  tsr__leaving *all = &l->all;
  int parts = h->parts;
  tsr_status status = tsr__on_rows(h->rt)->leaving_count(h->rt, all, h->error);
  for (int p = 0; p < parts; p++) {
    for (int q = 0; q < parts; q++) l->from[p] += all->counts[p * parts + q];
    l->from_words[p] = l->from[p] * all->words;
  }
  if (!status && !h->homes.coded) status = tsr__part_buffers(h, TSR_I32, l->from, all->sent_number);
  if (!status) status = tsr__part_buffers(h, TSR_I64, l->from_words, all->sent);
  if (!status) status = tsr__on_rows(h->rt)->leaving_take(h->rt, all, h->error);
  for (int i = 0; i < parts * parts; i++) all->word_counts[i] = all->counts[i] * all->words;
  return status;
}

static tsr_status send_records(leaving *l)
{
  const tsr__group_owners *h = l->h;
  tsr__leaving *all = &l->all;
  tsr_status status = take_records(l);
  tsr__colparts number = { .dtype = TSR_I32, .values = all->sent_number };
  tsr__colparts record = { .dtype = TSR_I64, .values = all->sent };
  tsr__sending numbers = { .what = "numbers of groups",
                           .from = l->from,
                           .counts = all->counts,
                           .count = 1,
                           .columns = &number,
                           .values = all->came_number,
                           .valid = l->valid,
                           .came = all->rows };
  tsr__sending records = { .what = "records of groups",
                           .from = l->from_words,
                           .counts = all->word_counts,
                           .each = all->words,
                           .count = 1,
                           .columns = &record,
                           .values = all->came,
                           .valid = l->valid,
                           .came = all->row_words };
  if (!status && !h->homes.coded) status = tsr__send(h, &numbers);
  if (!status) status = tsr__send(h, &records);
  tsr__drop_buffers(all->sent_number, h->parts);
  tsr__drop_buffers(all->sent, h->parts);
  return status;
}

/* What stays at home is joined where it is; only the records of groups at home elsewhere leave. */
tsr_status tsr__join_records(const tsr__group_owners *h, tsr__group_records *tallied)
{
  leaving l = {
    .h = h, .all = { .homes = &h->homes, .records = tallied, .words = tsr__tallied_words(tallied) }
  };
  tsr_status status = leaving_new(&l);
  if (!status) status = send_records(&l);
  if (!status) status = tsr__on_rows(h->rt)->leaving_join(h->rt, &l.all, h->error);
  leaving_free(&l);
  return status;
}
