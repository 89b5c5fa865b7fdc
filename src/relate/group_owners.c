/* Finding the home of groups that lie over several parts.
 *
 *   part 0   groups a b c      a -> owner 1, b -> owner 0, c -> owner 1        one key a local
 *            group
 *   part 1   groups c d a      c -> owner 1, d -> owner 0, a -> owner 1
 *   owner 1  a0 c0 c1 a1       the first that came is the home: a and c are at home on part 0
 *
 * Only keys of local groups travel, with their numbers, and the answer comes back the same way.
 *
 * Where nearly all keys differ, each row is sent as a local group of its own, and the home of a row
 * is the first one with its key.
 *
 * Invariant: keys come to an owner in order of the senders, and of one sender in order of its
 * groups' first rows. So the first that came of a key is of the part that holds the first row. */
#include "relate/group_owners.h"

#include "kernel/rows/key_hash.h"

/* ---- helpers --------------------------------------------------------------------------------- */

tsr_status tsr__part_buffers(const tsr__group_owners *homes, tsr_dtype dtype, const int64_t *rows,
                             tsr__buffer **out)
{
  for (int p = 0; p < homes->parts; p++) {
    out[p] =
        tsr__devices_of(homes->rt)->ops->buffer(homes->rt, homes->view->parts.device[p],
                                                tsr__device_bytes(dtype, rows[p]), homes->error);
    if (!out[p]) return homes->error->status;
  }
  return TSR_OK;
}

tsr_status tsr__each_part(const tsr__group_owners *homes, tsr__task_fn fn, void *user)
{
  if (tsr__parallel_long(homes->rt, "group by", homes->parts, fn, user)) return TSR_OK;
  return tsr__cancelled(homes->error, "group by");
}

tsr_status tsr__send(const tsr__group_owners *homes, const tsr__sending *sending)
{
  tsr__parts from = { homes->parts, homes->view->parts.device, sending->from };
  tsr__moved moved = { 0 };
  tsr__exchange ask = { .rt = homes->rt,
                        .from = &from,
                        .counts = sending->counts,
                        .dest = sending->dest,
                        .order = sending->order,
                        .column_count = sending->count,
                        .columns = sending->columns,
                        .values = sending->values,
                        .valid = sending->valid,
                        .rows = sending->came,
                        .moved = &moved };
  tsr_status status = tsr__exchange_rows(&ask, homes->error);
  if (sending->each) moved.rows /= sending->each;
  if (!status) tsr__stats_add(homes->stats, sending->what, &moved);
  return status;
}

/* ---- keys to their owners -------------------------------------------------------------------- */

/* What finding homes needs while it lasts. Lists are [column * parts + part]. */
typedef struct finding {
  tsr__group_owners *h;
  const tsr__packed_keys *keys;
  bool counted;
  int columns; /* words of a key, then the group's number, then its rows if they are counted */
  tsr__colparts *sent_column;
  tsr__buffer **sent, **got, **got_valid;
  tsr__index order;                                   /* of each part's groups by owner */
  tsr__buffer **answer, **answered, **answered_valid; /* 3 columns, and `before` */
  int64_t *answers;
  tsr__packed_keys packed; /* of the keys that came */
  void *block;
  size_t size;
  tsr__progress progress; /* of answering */
} finding;

enum { ASK_AFTER = 1 << 14 }; /* keys between two questions whether to go on */

enum { ANSWERS = 4 };

static tsr_status no_memory(const tsr__group_owners *h)
{
  return tsr__error_set(h->error, TSR_ENOMEM,
                        "group by: no memory for the description of groups on %d devices; free "
                        "some arrays",
                        h->parts);
}

static tsr_status finding_new(finding *f)
{
  size_t parts = (size_t)f->h->parts;
  f->columns = f->keys->words + 1 + f->counted;
  size_t columns = (size_t)f->columns;
  size_t buffers = 3 * columns * parts + 3 * ANSWERS * parts;
  f->size = columns * sizeof(tsr__colparts) + buffers * sizeof(tsr__buffer *) +
            parts * sizeof(int64_t) + 2 * parts * sizeof(uint64_t *);
  f->block = tsr__new(&f->h->rt->heap, f->size);
  if (!f->block) return no_memory(f->h);
  f->sent_column = f->block;
  f->sent = (tsr__buffer **)(f->sent_column + columns);
  f->got = f->sent + columns * parts;
  f->got_valid = f->got + columns * parts;
  f->answer = f->got_valid + columns * parts;
  f->answered = f->answer + ANSWERS * parts;
  f->answered_valid = f->answered + ANSWERS * parts;
  f->answers = (int64_t *)(f->answered_valid + ANSWERS * parts);
  f->packed.word = (uint64_t **)(f->answers + parts);
  return TSR_OK;
}

static void finding_free(finding *f)
{
  int64_t parts = f->h->parts;
  if (!f->block) return;
  tsr__drop_buffers(f->sent, 3 * f->columns * parts + 3 * ANSWERS * parts);
  tsr__index_free(f->h->rt, &f->order);
  tsr__del(&f->h->rt->heap, f->block, f->size);
}

/* The key of each local group, from its first row, and its owner. */
static void keys_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const finding *f = user;
  const tsr__group_owners *h = f->h;
  int64_t rows = h->view->parts.rows[p], count = h->local.count[p];
  int words = f->keys->words;
  const uint32_t *first = h->local.first.at[p];
  uint16_t *owner = h->owner[p]->data;
  int32_t *number = f->sent[words * h->parts + p]->data;
  const uint64_t *word = f->keys->word ? f->keys->word[p] : NULL, none = 0;
  for (int64_t g = 0; g < count; g++) {
    const uint64_t *key = word ? word + first[g] : &none;
    for (int w = 0; w < words; w++)
      ((uint64_t *)f->sent[w * h->parts + p]->data)[g] = key[w * rows];
    uint64_t hash = tsr__key_hash(key, rows, words) & UINT32_MAX;
    owner[g] = (uint16_t)(hash * (uint64_t)h->parts >> 32);
    number[g] = (int32_t)g;
  }
  if (!f->counted) return;
  int64_t *of = f->sent[(words + 1) * h->parts + p]->data;
  const uint32_t *group = h->local.group[p];
  memset(of, 0, (size_t)count * sizeof *of);
  for (int64_t r = 0; r < rows; r++) of[group[r]]++;
}

static tsr_status send_keys(finding *f)
{
  tsr__group_owners *h = f->h;
  const int64_t *groups = h->local.count;
  tsr_status status = tsr__part_buffers(h, TSR_I32, groups, h->owner);
  for (int c = 0; c < f->columns && !status; c++) {
    tsr_dtype dtype = c == f->keys->words ? TSR_I32 : TSR_I64;
    status = tsr__part_buffers(h, dtype, groups, f->sent + c * h->parts);
    f->sent_column[c] = (tsr__colparts){ .dtype = dtype, .values = f->sent + c * h->parts };
  }
  if (!status) status = tsr__each_part(h, keys_task, f);
  if (status) return status;
  const uint16_t **dest = (const uint16_t **)(f->packed.word + h->parts);
  for (int p = 0; p < h->parts; p++) dest[p] = h->owner[p]->data;
  tsr__parts lie = { h->parts, h->view->parts.device, groups };
  tsr__routes routes = { &lie, dest, &f->order, h->counts };
  status = tsr__exchange_order(h->rt, &routes, h->error);
  tsr__sending send = { .what = "keys by hash",
                        .from = groups,
                        .counts = h->counts,
                        .dest = dest,
                        .count = f->columns,
                        .columns = f->sent_column,
                        .values = f->got,
                        .valid = f->got_valid,
                        .came = h->came };
  if (!status) status = tsr__send(h, &send);
  tsr__drop_buffers(f->sent, (int64_t)f->columns * h->parts);
  for (int p = 0; p < h->parts; p++)
    for (int q = 0; q < h->parts; q++) h->back[q * h->parts + p] = h->counts[p * h->parts + q];
  return status;
}

/* ---- owners find the first of each key ------------------------------------------------------- */

/* The keys that came, packed: the words of one part lie one after the other. */
static tsr_status pack_came(finding *f)
{
  const tsr__group_owners *h = f->h;
  int words = f->keys->words;
  f->packed.parts = h->parts;
  f->packed.words = words;
  f->packed.bits = f->keys->bits;
  for (int p = 0; p < h->parts; p++) {
    if (words > 1) {
      size_t bytes = (size_t)h->came[p] * sizeof(uint64_t);
      tsr__buffer *all = tsr__devices_of(h->rt)->ops->buffer(h->rt, h->view->parts.device[p],
                                                             bytes * (size_t)words, h->error);
      if (!all) return h->error->status;
      for (int w = 0; w < words; w++) {
        tsr__buffer **one = &f->got[w * h->parts + p];
        memcpy((char *)all->data + (size_t)w * bytes, (*one)->data, bytes);
        tsr__drop_buffers(one, 1);
      }
      f->got[p] = all;
    }
    f->packed.word[p] = f->got[p]->data;
  }
  return TSR_OK;
}

static void answer_task(void *user, int64_t o, int worker)
{
  finding *f = user;
  const tsr__group_owners *h = f->h;
  int parts = h->parts, sender = 0;
  const uint32_t *group = h->owned.group[o], *first = h->owned.first.at[o];
  const int32_t *number = f->got[f->keys->words * parts + o]->data;
  int32_t *home_of = h->owned_home[o]->data, *number_of = h->owned_number[o]->data;
  int64_t until = h->counts[o];
  for (int64_t g = 0; g < h->owned.count[o]; g++) {
    if (g % ASK_AFTER == ASK_AFTER - 1 && tsr__progress_stops(&f->progress, worker)) return;
    while (first[g] >= until) until += h->counts[++sender * parts + o];
    home_of[g] = sender;
    number_of[g] = number[first[g]];
  }
  int32_t *home = f->answer[o]->data, *there = f->answer[parts + o]->data;
  int32_t *owned_as = f->answer[2 * parts + o]->data;
  for (int64_t i = 0; i < h->came[o]; i++) {
    if (i % ASK_AFTER == ASK_AFTER - 1 && tsr__progress_stops(&f->progress, worker)) return;
    home[i] = home_of[group[i]];
    there[i] = number_of[group[i]];
    owned_as[i] = (int32_t)group[i];
  }
  if (!f->counted) return;
  const int64_t *of = f->got[(f->keys->words + 1) * parts + o]->data;
  int64_t *before = f->answer[3 * parts + o]->data;
  /* The rows of a group so far stand at its first key's place. */
  for (int64_t i = 0; i < h->came[o]; i++) {
    uint32_t at = first[group[i]];
    before[i] = at == i ? 0 : before[at];
    before[at] += of[i];
  }
  for (int64_t g = 0; g < h->owned.count[o]; g++) before[first[g]] = 0;
}

static tsr_status find_owned(finding *f)
{
  tsr__group_owners *h = f->h;
  tsr__parts lie = { h->parts, h->view->parts.device, h->came };
  tsr_status status = pack_came(f);
  if (!status) status = tsr__group_rows(h->rt, &lie, &f->packed, &h->owned, h->error);
  if (!status) status = tsr__part_buffers(h, TSR_I32, h->owned.count, h->owned_home);
  if (!status) status = tsr__part_buffers(h, TSR_I32, h->owned.count, h->owned_number);
  for (int c = 0; c < 3 + f->counted && !status; c++)
    status = tsr__part_buffers(h, c < 3 ? TSR_I32 : TSR_I64, h->came, f->answer + c * h->parts);
  if (!status && !tsr__parallel_progress(&f->progress, h->parts, answer_task, f))
    status = tsr__cancelled(h->error, f->progress.what);
  tsr__drop_buffers(f->got, (int64_t)f->columns * h->parts);
  return status;
}

/* ---- and the answers go back ----------------------------------------------------------------- */

/* Puts what came back where the groups are; finds those that are at home. */
static void settle_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const finding *f = user;
  tsr__group_owners *h = f->h;
  const uint32_t *order = f->order.at[p];
  tsr__buffer **to[3] = { h->home, h->number, h->owned_as };
  for (int c = 0; c < 3; c++) {
    const int32_t *from = f->answered[c * h->parts + p]->data;
    int32_t *out = to[c][p]->data;
    for (int64_t i = 0; i < h->local.count[p]; i++) out[order[i]] = from[i];
  }
  if (f->counted) {
    const int64_t *from = f->answered[3 * h->parts + p]->data;
    int64_t *out = h->before[p]->data;
    for (int64_t i = 0; i < h->local.count[p]; i++) out[order[i]] = from[i];
  }
  const int32_t *home = h->home[p]->data, *number = h->number[p]->data;
  int64_t own = 0;
  for (int64_t g = 0; g < h->local.count[p]; g++) own += home[g] == p && number[g] == g;
  f->answers[p] = own;
}

static void own_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const finding *f = user;
  const int32_t *home = f->h->home[p]->data, *number = f->h->number[p]->data;
  uint32_t *own = f->h->own.at[p];
  int64_t count = 0;
  for (int64_t g = 0; g < f->h->local.count[p]; g++)
    if (home[g] == p && number[g] == g) own[count++] = (uint32_t)g;
}

static tsr_status take_answers(finding *f)
{
  tsr__group_owners *h = f->h;
  tsr__colparts columns[ANSWERS];
  for (int c = 0; c < ANSWERS; c++)
    columns[c] =
        (tsr__colparts){ .dtype = c < 3 ? TSR_I32 : TSR_I64, .values = f->answer + c * h->parts };
  tsr__sending send = { .what = "homes",
                        .from = h->came,
                        .counts = h->back,
                        .count = 3 + f->counted,
                        .columns = columns,
                        .values = f->answered,
                        .valid = f->answered_valid,
                        .came = f->answers };
  tsr_status status = tsr__send(h, &send);
  tsr__drop_buffers(f->answer, (int64_t)ANSWERS * h->parts);
  const int64_t *groups = h->local.count;
  if (!status) status = tsr__part_buffers(h, TSR_I32, groups, h->home);
  if (!status) status = tsr__part_buffers(h, TSR_I32, groups, h->number);
  if (!status) status = tsr__part_buffers(h, TSR_I32, groups, h->owned_as);
  if (!status && f->counted) status = tsr__part_buffers(h, TSR_I64, groups, h->before);
  if (!status) status = tsr__each_part(h, settle_task, f);
  tsr__parts lie = { h->parts, h->view->parts.device, f->answers };
  tsr__index_free(h->rt, &h->own);
  if (!status) status = tsr__index_new(h->rt, &lie, &h->own, h->error);
  return status ? status : tsr__each_part(h, own_task, f);
}

/* ---- the whole ------------------------------------------------------------------------------- */

enum { LISTS = 8 };

static tsr_status homes_new(tsr__group_owners *h)
{
  size_t parts = (size_t)h->parts;
  h->size = (parts + 2 * parts * parts) * sizeof(int64_t) + LISTS * parts * sizeof(tsr__buffer *);
  h->block = tsr__new(&h->rt->heap, h->size);
  if (!h->block) return no_memory(h);
  h->came = h->block;
  h->counts = h->came + parts;
  h->back = h->counts + parts * parts;
  h->owner = (tsr__buffer **)(h->back + parts * parts);
  h->home = h->owner + parts;
  h->number = h->home + parts;
  h->owned_as = h->number + parts;
  h->before = h->owned_as + parts;
  h->owned_home = h->before + parts;
  h->owned_number = h->owned_home + parts;
  h->everyone = h->owned_number + parts;
  return TSR_OK;
}

/* Whether nearly every row seems to have a key of its own: as few equal keys in a sample of one
 * part as there would be if they were dealt at random over half as many keys as rows. The hash is
 * the fixed one, for a plan must not change from run to run; a sample is too small to be harmed. */
static bool all_differ(const tsr__group_owners *h, const tsr__packed_keys *keys)
{
  enum { SAMPLE = 4096, SLOTS = 4 * SAMPLE, LEAST = 1 << 17 };
  uint32_t slot[SLOTS] = { 0 };
  int p = 0, equal = 0;
  for (int q = 1; q < h->parts; q++)
    if (h->view->parts.rows[q] > h->view->parts.rows[p]) p = q;
  int64_t rows = h->view->parts.rows[p];
  if (rows < LEAST || keys->bits <= 22) return false;
  for (int64_t i = 0; i < SAMPLE; i++) {
    uint64_t hash = tsr__key_hash(keys->word[p] + rows / SAMPLE * i, rows, keys->words);
    uint32_t mark = (uint32_t)(hash >> 32) | 1;
    uint64_t s = hash % SLOTS;
    while (slot[s] && slot[s] != mark) s = (s + 1) % SLOTS;
    equal += slot[s] == mark;
    slot[s] = mark;
  }
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
static tsr_status leave_alone(tsr__group_owners *h)
{
  size_t parts = (size_t)h->parts;
  tsr__grouped *local = &h->local;
  local->parts = h->parts;
  local->count = tsr__new(&h->rt->heap, parts * sizeof *local->count);
  local->group = tsr__new(&h->rt->heap, parts * sizeof *local->group);
  local->buffers = tsr__new(&h->rt->heap, parts * sizeof *local->buffers);
  if (!local->count || !local->group || !local->buffers) return no_memory(h);
  tsr_status status = tsr__part_buffers(h, TSR_I32, h->view->parts.rows, local->buffers);
  if (!status) status = tsr__index_new(h->rt, &h->view->parts, &local->first, h->error);
  for (int p = 0; p < h->parts && !status; p++) {
    local->count[p] = h->view->parts.rows[p];
    local->group[p] = local->buffers[p]->data;
  }
  return status ? status : tsr__each_part(h, alone_task, local);
}

tsr_status tsr__group_owners_seek(tsr__group_owners *h, const tsr__packed_keys *keys, bool counted)
{
  finding f = {
    .h = h, .keys = keys, .counted = counted, .progress = { .rt = h->rt, .what = "group by" }
  };
  h->coded = false;
  tsr_status status = finding_new(&f);
  if (!status) status = send_keys(&f);
  if (!status) status = find_owned(&f);
  if (!status) status = take_answers(&f);
  finding_free(&f);
  return status;
}

/* Whether telling all parts all codes takes no more than sending keys, 24 bytes a group. */
static bool few_codes(const tsr__group_owners *h)
{
  int64_t groups = 0;
  if (!h->records || !h->local.number) return false;
  for (int p = 0; p < h->parts; p++) groups += h->local.count[p];
  return (int64_t)h->parts << h->local.bits <= 8 * 24 * (groups / h->parts + 1);
}

tsr_status tsr__group_owners_find(tsr__group_owners *h, const tsr__packed_keys *keys, bool counted)
{
  tsr_status status = homes_new(h);
  if (!status && h->parts > 1 && all_differ(h, keys)) status = leave_alone(h);
  else if (!status) status = tsr__group_rows(h->rt, &h->view->parts, keys, &h->local, h->error);
  if (status || h->parts == 1) return status;
  h->coded = few_codes(h);
  return h->coded ? tsr__group_owners_by_code(h) : tsr__group_owners_seek(h, keys, counted);
}

void tsr__group_owners_free(tsr__group_owners *h)
{
  tsr__grouped_free(h->rt, &h->local);
  tsr__grouped_free(h->rt, &h->owned);
  tsr__index_free(h->rt, &h->own);
  if (h->block) {
    tsr__drop_buffers(h->owner, (int64_t)LISTS * h->parts);
    tsr__del(&h->rt->heap, h->block, h->size);
  }
  h->block = NULL;
}
