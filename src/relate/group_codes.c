/* Homes of groups whose keys are codes.
 *
 *   code          0 1 2 3 4
 *   part 0 has    1 1 . 1 .      home of 0, 1, 3
 *   part 1 has    1 . 1 1 .      home of 2                 a code's home: the first part with it
 *
 * Every part tells every part which codes it has, a bit each; nobody asks an owner, and no key or
 * number travels with a record, as both ends list the codes they share in the same order.
 *
 * Invariant: the order of codes is the only one that both ends need to agree on. */
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

/* Every part sends all of its words to every part: an all-gather by the ragged exchange. The
 * order lists the words once for each destination, so `from` counts parts times as many rows as
 * there are words. */
static tsr_status tell(telling *t)
{
  tsr__group_owners *h = t->h;
  int parts = h->parts;
  int64_t *all = t->words + parts;
  for (int p = 0; p < parts; p++) {
    t->words[p] = h->homes.code_words;
    all[p] = h->homes.code_words * parts;
    for (int q = 0; q < parts; q++) t->counts[p * parts + q] = h->homes.code_words;
  }
  tsr__parts lie = { parts, h->view->parts.device, all };
  tsr_status status = tsr__part_buffers(h, TSR_I64, t->words, t->mine);
  if (!status) status = tsr__index_new(h->rt, &lie, &t->order, h->error);
  if (!status)
    status = tsr__on_rows(h->rt)->homes_codes(h->rt, &h->homes, t->mine, &t->order, h->error);
  tsr__colparts column = { .dtype = TSR_I64, .values = t->mine };
  tsr__sending send = { .what = "codes, 64 a row",
                        .from = all,
                        .counts = t->counts,
                        .order = &t->order,
                        .count = 1,
                        .columns = &column,
                        .values = h->homes.everyone,
                        .valid = t->valid,
                        .came = t->words };
  return status ? status : tsr__send(h, &send);
}

tsr_status tsr__group_owners_by_code(tsr__group_owners *h)
{
  telling t = { .h = h };
  /* One bit for each code that the keys' bits can make, not for those that occur: places must be
   * the same on every part without asking. */
  h->homes.code_words = ((INT64_C(1) << h->homes.local.bits) + 63) / 64;
  tsr_status status = telling_new(&t);
  if (!status) status = tell(&t);
  if (!status) status = tsr__on_rows(h->rt)->homes_by_code(h->rt, &h->homes, t.mine, h->error);
  telling_free(&t);
  return status;
}
