/* Homes of groups, found by owners: the loops of parts and owners over keys and answers.
 *
 *   part 0   groups a b c      a -> owner 1, b -> owner 0, c -> owner 1        a key a group
 *   part 1   groups c d a      c -> owner 1, d -> owner 0, a -> owner 1
 *   owner 1  a0 c0 c1 a1       the first that came is the home: a and c are at home on part 0
 *
 * If nearly all keys differ, each row is sent as a local group of its own, and the home of a row
 * is the first one with its key.
 *
 * Invariant: keys come to an owner in order of the senders, and those of a sender in order of its
 * groups' first rows. So the first group that came with a key is from the part that holds the key's
 * first row. */
#include "kernel/rows/group_homes.h"
#include "kernel/device/cpu.h"

#include "kernel/rows/key_hash.h"

static const char what[] = "group by";

enum { ASK_AFTER = 1 << 14 }; /* keys between two questions whether to go on */

tsr_status tsr__buffers_of(tsr_runtime *rt, const tsr__parts *parts, tsr_dtype dtype,
                           tsr__buffer **out, tsr__error *error)
{
  for (int p = 0; p < parts->count; p++) {
    out[p] = tsr__cpu_take(rt, parts->device[p], tsr__device_bytes(dtype, parts->rows[p]), error);
    if (!out[p]) return error->status;
  }
  return TSR_OK;
}

tsr_status tsr__homes_each(tsr_runtime *rt, int64_t tasks, tsr__task_fn fn, void *user,
                           tsr__error *error)
{
  return tsr__parallel_long(rt, what, tasks, fn, user) ? TSR_OK : tsr__cancelled(error, what);
}

/* ---- each part's groups ---------------------------------------------------------------------- */

/* Whether nearly every row seems to have a key of its own: a sample of one part has as few equal
 * keys as random keys would have, drawn from half as many keys as rows. The hash is the fixed one,
 * for a plan must not change from run to run; a sample is too small to be harmed. */
static bool all_differ(const tsr__parts *parts, const tsr__packed_keys *keys)
{
  enum { SAMPLE = 4096, SLOTS = 4 * SAMPLE, LEAST = 1 << 17 };
  uint32_t slot[SLOTS] = { 0 };
  int p = 0, equal = 0;
  for (int q = 1; q < parts->count; q++)
    if (parts->rows[q] > parts->rows[p]) p = q;
  /* The largest part speaks for all: a sample of a few rows would say nothing. */
  int64_t rows = parts->rows[p];
  if (rows < LEAST || keys->bits <= 22) return false;
  for (int64_t i = 0; i < SAMPLE; i++) {
    /* At even distances through the part. */
    uint64_t hash = tsr__key_hash(keys->word[p] + rows / SAMPLE * i, rows, keys->words);
    /* Never 0, which is an empty slot. Two keys of one mark count as equal; among 4,096 that
     * hardly happens. */
    uint32_t mark = (uint32_t)(hash >> 32) | 1;
    uint64_t s = hash % SLOTS;
    while (slot[s] && slot[s] != mark) s = (s + 1) % SLOTS;
    equal += slot[s] == mark;
    slot[s] = mark;
  }
  /* n rows make n * n / 2 pairs, of which n * n / rows are alike over rows / 2 keys. */
  return equal <= (int64_t)SAMPLE * SAMPLE / rows + 1;
}

static void alone_task(void *user, int64_t p, int worker)
{
  (void)worker;
  tsr__grouped *local = user;
  for (int64_t r = 0; r < local->count[p]; r++)
    local->first.at[p][r] = local->group[p][r] = (uint32_t)r;
}

/* Each row a group: owners find the equal ones, of one part as of several. */
static tsr_status leave_alone(tsr_runtime *rt, tsr__group_homes *h, tsr__error *error)
{
  size_t parts = (size_t)h->parts->count;
  tsr__grouped *local = &h->local;
  local->parts = h->parts->count;
  local->count = tsr__new(&rt->heap, parts * sizeof *local->count);
  local->group = tsr__new(&rt->heap, parts * sizeof *local->group);
  local->buffers = tsr__new(&rt->heap, parts * sizeof *local->buffers);
  if (!local->count || !local->group || !local->buffers)
    return tsr__error_set(error, TSR_ENOMEM,
                          "group by: no memory for the description of groups on %d devices; free "
                          "some arrays",
                          local->parts);
  tsr_status status = tsr__buffers_of(rt, h->parts, TSR_I32, local->buffers, error);
  if (!status) status = tsr__index_new(rt, h->parts, &local->first, error);
  for (int p = 0; p < local->parts && !status; p++) {
    local->count[p] = h->parts->rows[p];
    local->group[p] = tsr__cpu_data(local->buffers[p]);
  }
  return status ? status : tsr__homes_each(rt, local->parts, alone_task, local, error);
}

tsr_status tsr__homes_group(tsr_runtime *rt, tsr__group_homes *h, const tsr__packed_keys *keys,
                            tsr__error *error)
{
  if (h->parts->count > 1 && all_differ(h->parts, keys)) return leave_alone(rt, h, error);
  return tsr__group_rows(rt, h->parts, keys, &h->local, error);
}

tsr_status tsr__homes_of_nothing(tsr_runtime *rt, tsr__group_homes *h, tsr__error *error)
{
  /* One group over all rows, though no row exists: the first part has the group, without a first
   * row. */
  h->local.count[0] = 1;
  tsr__index_free(rt, &h->local.first);
  tsr__parts of = tsr__homes_lie(h, h->local.count);
  tsr_status status = tsr__index_new(rt, &of, &h->local.first, error);
  if (!status) h->local.first.at[0][0] = TSR__NO_ROW;
  return status;
}

/* ---- keys to their owners -------------------------------------------------------------------- */

static void keys_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const tsr__homes_keys *ask = user;
  const tsr__group_homes *h = ask->homes;
  int64_t rows = h->parts->rows[p], count = h->local.count[p];
  int words = ask->keys->words, parts = h->parts->count;
  const uint32_t *first = h->local.first.at[p];
  uint16_t *owner = tsr__cpu_data(h->owner[p]);
  int32_t *number = tsr__cpu_data(ask->columns[words * parts + p]);
  const uint64_t *word = ask->keys->word ? ask->keys->word[p] : NULL, none = 0;
  for (int64_t g = 0; g < count; g++) {
    const uint64_t *key = word ? word + first[g] : &none;
    for (int w = 0; w < words; w++)
      ((uint64_t *)tsr__cpu_data(ask->columns[w * parts + p]))[g] = key[w * rows];
    uint64_t hash = tsr__key_hash(key, rows, words) & UINT32_MAX;
    /* The low half of the fixed hash as a fraction of the parts: processes agree on it. */
    owner[g] = (uint16_t)(hash * (uint64_t)parts >> 32);
    number[g] = (int32_t)g;
  }
  /* The number of rows of each group, for callers that number the rows of a group across parts. */
  if (!ask->counted) return;
  int64_t *of = tsr__cpu_data(ask->columns[(words + 1) * parts + p]);
  const uint32_t *group = h->local.group[p];
  memset(of, 0, (size_t)count * sizeof *of);
  for (int64_t r = 0; r < rows; r++) of[group[r]]++;
}

tsr_status tsr__homes_send(tsr_runtime *rt, const tsr__homes_keys *ask, tsr__error *error)
{
  return tsr__homes_each(rt, ask->homes->parts->count, keys_task, (void *)ask, error);
}

/* ---- owners find the first of each key ------------------------------------------------------- */

typedef struct meeting {
  const tsr__homes_keys *ask;
  tsr__buffer **answer;
  tsr__packed_keys packed; /* the keys that came */
  tsr__progress progress;
} meeting;

static void answer_keys_task(void *user, int64_t o, int worker)
{
  meeting *m = user;
  const tsr__group_homes *h = m->ask->homes;
  tsr__buffer **came = m->ask->columns;
  int parts = h->parts->count, sender = 0, words = m->ask->keys->words;
  const uint32_t *group = h->owned.group[o], *first = h->owned.first.at[o];
  const int32_t *number = tsr__cpu_data(came[words * parts + o]);
  int32_t *home_of = tsr__cpu_data(h->owned_home[o]),
          *number_of = tsr__cpu_data(h->owned_number[o]);
  int64_t until = h->counts[o];
  for (int64_t g = 0; g < h->owned.count[o]; g++) {
    if (g % ASK_AFTER == ASK_AFTER - 1 && tsr__progress_stops(&m->progress, worker)) return;
    /*   came    | of part 0 ... | of part 1 ... |        `until`: where the keys of `sender` end
     *
     * Groups are in order of their first keys, so senders only go up. */
    while (first[g] >= until) until += h->counts[++sender * parts + o];
    home_of[g] = sender;
    number_of[g] = number[first[g]];
  }
  /* An answer a key that came, in the order of the keys, so that it finds its way back. */
  int32_t *home = tsr__cpu_data(m->answer[o]), *there = tsr__cpu_data(m->answer[parts + o]);
  int32_t *owned_as = tsr__cpu_data(m->answer[2 * parts + o]);
  for (int64_t i = 0; i < h->came[o]; i++) {
    if (i % ASK_AFTER == ASK_AFTER - 1 && tsr__progress_stops(&m->progress, worker)) return;
    home[i] = home_of[group[i]];
    there[i] = number_of[group[i]];
    owned_as[i] = (int32_t)group[i];
  }
  if (!m->ask->counted) return;
  const int64_t *of = tsr__cpu_data(came[(words + 1) * parts + o]);
  int64_t *before = tsr__cpu_data(m->answer[3 * parts + o]);
  /* The rows of a group so far stand at its first key's place. */
  for (int64_t i = 0; i < h->came[o]; i++) {
    uint32_t at = first[group[i]];
    before[i] = at == i ? 0 : before[at];
    before[at] += of[i];
  }
  /* `before` of a group's first key served as a counter meanwhile; no rows lie before the first key
   * of a group. */
  for (int64_t g = 0; g < h->owned.count[o]; g++) before[first[g]] = 0;
}

tsr_status tsr__homes_meet(tsr_runtime *rt, const tsr__homes_keys *came, tsr__buffer **answers,
                           tsr__error *error)
{
  tsr__group_homes *h = came->homes;
  int parts = h->parts->count;
  size_t size = (size_t)parts * sizeof(uint64_t *);
  tsr__parts lie = tsr__homes_lie(h, h->came);
  tsr__keys_came words = { &lie, came->keys->words, came->columns, NULL };
  meeting m = { .ask = came, .answer = answers, .progress = { .rt = rt, .what = what } };
  m.packed.parts = parts;
  m.packed.words = words.words;
  m.packed.bits = came->keys->bits;
  m.packed.word = tsr__new(&rt->heap, size);
  if (!m.packed.word)
    return tsr__error_set(error, TSR_ENOMEM,
                          "group by: no memory for the description of groups on %d devices; free "
                          "some arrays",
                          parts);
  tsr_status status = tsr__packed_came(rt, &words, &m.packed, error);
  if (!status) status = tsr__group_rows(rt, &lie, &m.packed, &h->owned, error);
  tsr__parts owned = tsr__homes_lie(h, h->owned.count);
  if (!status) status = tsr__buffers_of(rt, &owned, TSR_I32, h->owned_home, error);
  if (!status) status = tsr__buffers_of(rt, &owned, TSR_I32, h->owned_number, error);
  for (int c = 0; c < 3 + came->counted && !status; c++)
    status = tsr__buffers_of(rt, &lie, c < 3 ? TSR_I32 : TSR_I64, answers + c * parts, error);
  if (!status && !tsr__parallel_progress(&m.progress, parts, answer_keys_task, &m))
    status = tsr__cancelled(error, what);
  tsr__del(&rt->heap, m.packed.word, size);
  return status;
}

/* ---- and the answers go back ----------------------------------------------------------------- */

typedef struct settling {
  const tsr__homes_told *told;
  int64_t *own; /* [part]: groups that are at home */
} settling;

static void settle_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const settling *s = user;
  tsr__group_homes *h = s->told->homes;
  int parts = h->parts->count;
  const uint32_t *order = s->told->order->at[p];
  /* Answers come sorted by owner; `order` says which local group each of them is of. */
  tsr__buffer **to[3] = { h->home, h->number, h->owned_as };
  for (int c = 0; c < 3; c++) {
    const int32_t *from = tsr__cpu_data(s->told->answers[c * parts + p]);
    int32_t *out = tsr__cpu_data(to[c][p]);
    for (int64_t i = 0; i < h->local.count[p]; i++) out[order[i]] = from[i];
  }
  if (s->told->counted) {
    const int64_t *from = tsr__cpu_data(s->told->answers[3 * parts + p]);
    int64_t *out = tsr__cpu_data(h->before[p]);
    for (int64_t i = 0; i < h->local.count[p]; i++) out[order[i]] = from[i];
  }
  const int32_t *home = tsr__cpu_data(h->home[p]), *number = tsr__cpu_data(h->number[p]);
  int64_t own = 0;
  /* Counted first, as the list of them is taken at its size. */
  for (int64_t g = 0; g < h->local.count[p]; g++) own += home[g] == p && number[g] == g;
  s->own[p] = own;
}

static void list_home_groups_task(void *user, int64_t p, int worker)
{
  (void)worker;
  tsr__group_homes *h = user;
  const int32_t *home = tsr__cpu_data(h->home[p]), *number = tsr__cpu_data(h->number[p]);
  uint32_t *own = h->own.at[p];
  int64_t count = 0;
  for (int64_t g = 0; g < h->local.count[p]; g++)
    if (home[g] == p && number[g] == g) own[count++] = (uint32_t)g;
}

tsr_status tsr__homes_settle(tsr_runtime *rt, const tsr__homes_told *told, tsr__error *error)
{
  tsr__group_homes *h = told->homes;
  int parts = h->parts->count;
  size_t size = (size_t)parts * sizeof(int64_t);
  tsr__parts local = tsr__homes_lie(h, h->local.count);
  settling s = { told, tsr__new(&rt->heap, size) };
  if (!s.own)
    return tsr__error_set(error, TSR_ENOMEM, "group by: no memory for the row counts of %d devices",
                          parts);
  tsr_status status = tsr__buffers_of(rt, &local, TSR_I32, h->home, error);
  if (!status) status = tsr__buffers_of(rt, &local, TSR_I32, h->number, error);
  if (!status) status = tsr__buffers_of(rt, &local, TSR_I32, h->owned_as, error);
  if (!status && told->counted) status = tsr__buffers_of(rt, &local, TSR_I64, h->before, error);
  if (!status) status = tsr__homes_each(rt, parts, settle_task, &s, error);
  tsr__parts own = tsr__homes_lie(h, s.own);
  tsr__index_free(rt, &h->own);
  if (!status) status = tsr__index_new(rt, &own, &h->own, error);
  if (!status) status = tsr__homes_each(rt, parts, list_home_groups_task, h, error);
  tsr__del(&rt->heap, s.own, size);
  return status;
}
