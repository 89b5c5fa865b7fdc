/* Homes of groups whose keys are codes.
 *
 *   code          0 1 2 3 4
 *   part 0 has    1 1 . 1 .      home of 0, 1, 3
 *   part 1 has    1 . 1 1 .      home of 2                 a code's home is the first part that has
 *                 it
 *
 * Every part tells every part which codes it has, a bit each; nobody asks an owner, and no key or
 * number travels with a record, as both ends list the codes they share in the same order.
 *
 * Invariant: parts lie in order of the rows, so the first part that has a code has its first
 * row. */
#include "relate/group_owners.h"

typedef struct telling {
  tsr__group_owners *h;
  tsr__buffer **mine, **valid; /* [part] */
  tsr__index order;            /* all of mine, once for each part */
  int64_t *counts, *words;     /* of the exchange */
  void *block;
  size_t size;
} telling;

static tsr_status telling_new(telling *t)
{
  size_t parts = (size_t)t->h->parts;
  t->size = parts * (2 * sizeof *t->mine + (parts + 2) * sizeof *t->words);
  t->block = tsr__new(&t->h->rt->heap, t->size);
  if (!t->block)
    return tsr__error_set(t->h->error, TSR_ENOMEM,
                          "group by: no memory for the codes of %d devices; free some arrays",
                          t->h->parts);
  t->mine = t->block;
  t->valid = t->mine + parts;
  t->words = (int64_t *)(t->valid + parts);
  t->counts = t->words + 2 * parts;
  return TSR_OK;
}

static void telling_free(telling *t)
{
  if (!t->block) return;
  tsr__drop_buffers(t->mine, 2 * (int64_t)t->h->parts);
  tsr__index_free(t->h->rt, &t->order);
  tsr__del(&t->h->rt->heap, t->block, t->size);
}

/* Which codes a part has. */
static void mine_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const telling *t = user;
  const uint32_t *number = t->h->local.number[p];
  int64_t codes = INT64_C(1) << t->h->local.bits, words = t->h->code_words;
  uint64_t *out = t->mine[p]->data;
  for (int64_t c = 0; c < codes; c += 64) {
    int some = codes - c < 64 ? (int)(codes - c) : 64;
    uint64_t bits = 0;
    for (int i = 0; i < some; i++) bits |= (uint64_t)(number[c + i] != TSR__NO_ROW) << i;
    out[c / 64] = bits;
  }
  for (int q = 0; q < t->h->parts; q++)
    for (int64_t w = 0; w < words; w++) t->order.at[p][q * words + w] = (uint32_t)w;
}

static tsr_status tell(telling *t)
{
  tsr__group_owners *h = t->h;
  int parts = h->parts;
  int64_t *all = t->words + parts;
  for (int p = 0; p < parts; p++) {
    t->words[p] = h->code_words;
    all[p] = h->code_words * parts;
    for (int q = 0; q < parts; q++) t->counts[p * parts + q] = h->code_words;
  }
  tsr__parts lie = { parts, h->view->parts.device, all };
  tsr_status status = tsr__part_buffers(h, TSR_I64, t->words, t->mine);
  if (!status) status = tsr__index_new(h->rt, &lie, &t->order, h->error);
  if (!status) status = tsr__each_part(h, mine_task, t);
  tsr__colparts column = { .dtype = TSR_I64, .values = t->mine };
  tsr__sending send = { .what = "codes, 64 a row",
                        .from = all,
                        .counts = t->counts,
                        .order = &t->order,
                        .count = 1,
                        .columns = &column,
                        .values = h->everyone,
                        .valid = t->valid,
                        .came = t->words };
  return status ? status : tsr__send(h, &send);
}

/* ---- the groups that are at home ------------------------------------------------------------- */

/* `mine` becomes one bit a group: whether it is at home. Their number goes to `words`. */
static void home_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const telling *t = user;
  const tsr__group_owners *h = t->h;
  const uint32_t *number = h->local.number[p];
  uint64_t *home = t->mine[p]->data;
  int64_t count = 0;
  memset(home, 0, (size_t)h->code_words * sizeof *home);
  for (int64_t w = 0; w < h->code_words; w++) {
    uint64_t bits = tsr__codes_of(h, p, (int)p)[w];
    for (int q = 0; q < p; q++) bits &= ~tsr__codes_of(h, p, q)[w];
    for (; bits; bits &= bits - 1, count++) {
      uint32_t g = number[64 * w + __builtin_ctzll(bits)];
      home[g / 64] |= UINT64_C(1) << (g % 64);
    }
  }
  t->words[p] = count;
}

static void own_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const telling *t = user;
  const uint64_t *home = t->mine[p]->data;
  uint32_t *own = t->h->own.at[p];
  for (int64_t w = 0; w < t->h->code_words; w++)
    for (uint64_t bits = home[w]; bits; bits &= bits - 1)
      *own++ = (uint32_t)(64 * w + __builtin_ctzll(bits));
}

tsr_status tsr__group_owners_by_code(tsr__group_owners *h)
{
  telling t = { .h = h };
  h->code_words = ((INT64_C(1) << h->local.bits) + 63) / 64;
  tsr_status status = telling_new(&t);
  if (!status) status = tell(&t);
  if (!status) status = tsr__each_part(h, home_task, &t);
  tsr__parts lie = { h->parts, h->view->parts.device, t.words };
  if (!status) status = tsr__index_new(h->rt, &lie, &h->own, h->error);
  if (!status) status = tsr__each_part(h, own_task, &t);
  telling_free(&t);
  return status;
}
