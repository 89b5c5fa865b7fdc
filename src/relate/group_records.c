/* Groups over several parts by records: each part reads its own rows, and only the records of groups
 * that are at home elsewhere travel.
 *
 *   part 0   a [sum 5] b [sum 1]                      a [5 + 4] b [1]
 *   part 1   c [sum 2] a [sum 4]   -- a [4] -> 0      c [2]
 *
 * Invariant: records are exact, so how rows lay cannot show in what they join to. */
#include "relate/homes.h"

typedef struct leaving {
  const tsr__homes *h;
  tsr__tallied *tallied;
  int words;
  int64_t *count;                   /* groups that leave each part */
  tsr__colparts *columns;           /* number at home, then the words of the record */
  tsr__buffer **to, **sent;         /* [part]; [column * parts + part] */
  tsr__buffer **came, **came_valid; /* as sent */
  const uint16_t **dest;
  int64_t *counts, *rows;
  int shares;            /* of the groups of a part, that workers may share one part's joining */
  const uint64_t **word; /* [part * words + word]: what came */
  tsr__index order;
  void *block;
  size_t size;
} leaving;

static tsr_status leaving_new(leaving *l)
{
  size_t parts = (size_t)l->h->parts, columns = (size_t)l->words + 1;
  l->size = columns * sizeof *l->columns + (3 * columns + 1) * parts * sizeof *l->sent +
            parts * sizeof *l->dest + (parts * parts + 2 * parts) * sizeof *l->counts +
            parts * (size_t)l->words * sizeof *l->word;
  l->block = tsr__new(&l->h->rt->heap, l->size);
  if (!l->block)
    return tsr__error_set(l->h->error, TSR_ENOMEM,
                          "group by: no memory for the description of %d columns; free some arrays",
                          l->words);
  l->columns = l->block;
  l->to = (tsr__buffer **)(l->columns + columns);
  l->sent = l->to + parts;
  l->came = l->sent + columns * parts;
  l->came_valid = l->came + columns * parts;
  l->dest = (const uint16_t **)(l->came_valid + columns * parts);
  l->counts = (int64_t *)(l->dest + parts);
  l->rows = l->counts + parts * parts;
  l->count = l->rows + parts;
  l->word = (const uint64_t **)(l->count + parts);
  return TSR_OK;
}

static void leaving_free(leaving *l)
{
  if (!l->block) return;
  tsr__drop_buffers(l->to, (3 * ((int64_t)l->words + 1) + 1) * l->h->parts);
  tsr__index_free(l->h->rt, &l->order);
  tsr__del(&l->h->rt->heap, l->block, l->size);
}

static void take_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const leaving *l = user;
  const tsr__homes *h = l->h;
  int parts = h->parts;
  const int32_t *home = h->home[p]->data, *number = h->number[p]->data;
  const uint64_t *record = tsr__tallied_records(l->tallied, (int)p);
  uint16_t *to = l->to[p]->data;
  int32_t *there = l->sent[p]->data;
  int64_t n = 0;
  for (int64_t g = 0; g < h->local.count[p]; g++) {
    if (home[g] == p && number[g] == g) continue;
    to[n] = (uint16_t)home[g];
    there[n] = number[g];
    for (int w = 0; w < l->words; w++)
      ((uint64_t *)l->sent[(1 + w) * parts + p]->data)[n] = record[g * l->words + w];
    n++;
  }
}

static tsr_status send_records(leaving *l)
{
  const tsr__homes *h = l->h;
  int parts = h->parts;
  for (int p = 0; p < parts; p++) l->count[p] = h->local.count[p] - h->own.rows[p];
  tsr_status status = tsr__part_buffers(h, TSR_I32, l->count, l->to);
  for (int c = 0; c <= l->words && !status; c++) {
    l->columns[c] =
        (tsr__colparts){ .dtype = c ? TSR_I64 : TSR_I32, .values = l->sent + c * parts };
    status = tsr__part_buffers(h, l->columns[c].dtype, l->count, l->sent + c * parts);
  }
  if (!status) status = tsr__each_part(h, take_task, l);
  for (int p = 0; p < parts && !status; p++) l->dest[p] = l->to[p]->data;
  tsr__parts lie = { parts, h->view->parts.device, l->count };
  tsr__routes routes = { &lie, l->dest, &l->order, l->counts };
  if (!status) status = tsr__exchange_order(h->rt, &routes, h->error);
  tsr__sending send = { .what = "records of groups",
                        .from = l->count,
                        .counts = l->counts,
                        .order = &l->order,
                        .count = 1 + l->words,
                        .columns = l->columns,
                        .values = l->came,
                        .valid = l->came_valid,
                        .came = l->rows };
  if (!status) status = tsr__send(h, &send);
  tsr__drop_buffers(l->sent, (1 + (int64_t)l->words) * parts);
  return status;
}

static void join_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const leaving *l = user;
  int p = (int)(task / l->shares), share = (int)(task % l->shares);
  uint64_t groups = (uint64_t)l->h->local.count[p], shares = (uint64_t)l->shares;
  tsr__joining from = { .group = l->came[p]->data,
                        .word = l->word + (int64_t)p * l->words,
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
      memcpy(record + i * l->words, record + (int64_t)own->at[p][i] * l->words,
             (size_t)l->words * sizeof *record);
}

tsr_status tsr__join_records(const tsr__homes *homes, tsr__tallied *tallied)
{
  leaving l = { .h = homes,
                .tallied = tallied,
                .words = tsr__tallied_words(tallied),
                .shares = tsr__worker_count(homes->rt) };
  tsr_status status = leaving_new(&l);
  if (!status) status = send_records(&l);
  for (int p = 0; p < homes->parts && !status; p++)
    for (int w = 0; w < l.words; w++)
      l.word[p * l.words + w] = l.came[(1 + w) * homes->parts + p]->data;
  if (!status &&
      !tsr__parallel_long(homes->rt, "group by", (int64_t)homes->parts * l.shares, join_task, &l))
    status = tsr__cancelled(homes->error, "group by");
  if (!status) status = tsr__each_part(homes, close_task, &l);
  leaving_free(&l);
  return status;
}
