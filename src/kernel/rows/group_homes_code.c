/* Homes of groups whose keys are codes.
 *
 *   code          0 1 2 3 4
 *   part 0 has    1 1 . 1 .      home of 0, 1, 3
 *   part 1 has    1 . 1 1 .      home of 2                 a code's home: the first part with it
 *
 * Invariant: parts lie in order of the rows, so the first part that has a code has its first
 * row. */
#include "kernel/device/cpu.h"
#include "kernel/rows/group_homes.h"

typedef struct telling {
  const tsr__group_homes *homes;
  tsr__buffer **mine;
  const tsr__index *order; /* lists mine for all, or the groups at home */
  int64_t *count;          /* [part]: groups at home */
} telling;

static void mine_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const telling *t = user;
  const tsr__group_homes *h = t->homes;
  const uint32_t *number = h->local.number[p];
  int64_t codes = INT64_C(1) << h->local.bits, words = h->code_words;
  uint64_t *out = tsr__cpu_data(t->mine[p]);
  /* A part without rows has no codes, and may be another process's, which is not told of here. */
  if (!h->local.count[p]) {
    memset(out, 0, (size_t)words * sizeof *out);
    codes = 0;
  }
  for (int64_t c = 0; c < codes; c += 64) {
    int some = codes - c < 64 ? (int)(codes - c) : 64;
    uint64_t bits = 0;
    for (int i = 0; i < some; i++) bits |= (uint64_t)(number[c + i] != TSR__NO_ROW) << i;
    out[c / 64] = bits;
  }
  for (int q = 0; q < h->parts->count; q++)
    for (int64_t w = 0; w < words; w++) t->order->at[p][q * words + w] = (uint32_t)w;
}

tsr_status tsr__homes_codes(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **mine,
                            tsr__index *order, tsr__error *error)
{
  telling t = { homes, mine, order, NULL };
  return tsr__homes_each(rt, homes->parts->count, mine_task, &t, error);
}

/* The codes that `part` knows part q to have. */
static const uint64_t *codes_of_part(const tsr__group_homes *h, int64_t part, int64_t q)
{
  return (const uint64_t *)tsr__cpu_data(h->everyone[part]) + q * h->code_words;
}

/* `mine` becomes one bit a group: whether it is at home. */
static void mark_home_groups_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const telling *t = user;
  const tsr__group_homes *h = t->homes;
  const uint32_t *number = h->local.number[p];
  uint64_t *home = tsr__cpu_data(t->mine[p]);
  int64_t count = 0;
  memset(home, 0, (size_t)h->code_words * sizeof *home);
  t->count[p] = 0;
  if (!h->local.count[p]) return;
  for (int64_t w = 0; w < h->code_words; w++) {
    uint64_t bits = codes_of_part(h, p, p)[w];
    for (int q = 0; q < p; q++) bits &= ~codes_of_part(h, p, q)[w];
    for (; bits; bits &= bits - 1, count++) {
      uint32_t g = number[64 * w + __builtin_ctzll(bits)];
      home[g / 64] |= UINT64_C(1) << (g % 64);
    }
  }
  t->count[p] = count;
}

static void list_coded_groups_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const telling *t = user;
  const uint64_t *home = tsr__cpu_data(t->mine[p]);
  uint32_t *own = t->order->at[p];
  for (int64_t w = 0; w < t->homes->code_words; w++)
    for (uint64_t bits = home[w]; bits; bits &= bits - 1)
      *own++ = (uint32_t)(64 * w + __builtin_ctzll(bits));
}

tsr_status tsr__homes_by_code(tsr_runtime *rt, tsr__group_homes *h, tsr__buffer **mine,
                              tsr__error *error)
{
  int parts = h->parts->count;
  size_t size = (size_t)parts * sizeof(int64_t);
  telling t = { h, mine, &h->own, tsr__new(&rt->heap, size) };
  if (!t.count)
    return tsr__error_set(error, TSR_ENOMEM, "group by: no memory for the row counts of %d devices",
                          parts);
  tsr_status status = tsr__homes_each(rt, parts, mark_home_groups_task, &t, error);
  tsr__parts own = tsr__homes_lie(h, t.count);
  if (!status) status = tsr__index_new(rt, &own, &h->own, error);
  if (!status) status = tsr__homes_each(rt, parts, list_coded_groups_task, &t, error);
  tsr__del(&rt->heap, t.count, size);
  return status;
}
