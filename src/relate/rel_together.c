/* An operator over several processes: each does the work of its own devices' parts, and where one
 * answer must be the same for all they tell each other what they found.
 *
 *   process 0   parts 0 1 | - -     ranges, samples, counts     |    the same
 *   process 1   parts - - | 2 3     of its own parts            |    answer
 *
 * An operator is one run of all processes (comm/peers.h): it begins with what all must be about to
 * do and ends with how it went.
 *
 * Invariant: whether processes meet, and how often, follows from how tables lie and from what was
 * agreed before, never from what one process alone knows. */
#include "relate/relate_inner.h"

bool tsr__rel_apart(const tsr_runtime *rt, const tsr_sharding *sharding)
{
  return sharding->mesh && !sharding->mesh->abstract && tsr__peers_of(rt);
}

/* ---- one answer ------------------------------------------------------------------------------ */

static tsr_status no_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM,
                        "no memory for what processes tell each other; free some arrays");
}

typedef void join_fn(void *user, const tsr__peers_note *note);

/* Calls `join` with what each process tells, in the order of the processes. */
static tsr_status agree(tsr_runtime *rt, const tsr__peers_note *mine, join_fn *join, void *user,
                        tsr__error *error)
{
  tsr__peers *peers = tsr__peers_of(rt);
  int count = tsr__peers_count(peers);
  size_t bytes = (size_t)count * sizeof(tsr__peers_note);
  tsr__peers_note *all = tsr__new(&rt->heap, bytes);
  if (!all) return no_memory(error);
  tsr_status status = tsr__peers_gather(peers, mine->data, mine->size, all, error);
  for (int p = 0; p < count && !status; p++) join(user, &all[p]);
  tsr__del(&rt->heap, all, bytes);
  return status;
}

typedef struct totals {
  int64_t *sum;
  size_t size;
} totals;

static void add_sums(void *user, const tsr__peers_note *note)
{
  const totals *t = user;
  int64_t each;
  for (size_t at = 0; at + sizeof each <= note->size && at < t->size; at += sizeof each) {
    memcpy(&each, (const char *)note->data + at, sizeof each);
    t->sum[at / sizeof each] += each;
  }
}

static tsr_status agree_sums(tsr_runtime *rt, int64_t *sums, int count, tsr__error *error)
{
  enum { MOST = 16 };
  int64_t mine[MOST];
  size_t size = (size_t)count * sizeof *sums;
  TSR_INVARIANT(count <= MOST);
  memcpy(mine, sums, size);
  memset(sums, 0, size);
  return agree(rt, &(tsr__peers_note){ mine, size }, add_sums, &(totals){ sums, size }, error);
}

tsr_status tsr__agree_sum(tsr_runtime *rt, bool apart, int64_t *sum, tsr__error *error)
{
  return apart ? agree_sums(rt, sum, 1, error) : TSR_OK;
}

tsr_status tsr__agree_any(tsr_runtime *rt, bool apart, bool *any, tsr__error *error)
{
  int64_t sum = *any;
  tsr_status status = tsr__agree_sum(rt, apart, &sum, error);
  *any = sum != 0;
  return status;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static uint64_t fingerprint(const char *what, const tsr__rel *rel)
{
  uint64_t hash = tsr__hash(what, strlen(what), (uint64_t)rel->total);
  for (int c = 0; c < rel->count; c++) {
    const uint8_t kind[2] = { rel->column[c].values->dtype, rel->column[c].valid != NULL };
    hash = tsr__hash(kind, sizeof kind, hash);
  }
  return hash;
}

tsr_status tsr__rel_enter(tsr__rel_meeting *m, const char *what, const tsr__rel *rel,
                          const tsr_sharding *to)
{
  bool apart = tsr__rel_apart(rel->rt, &rel->sharding) || (to && tsr__rel_apart(rel->rt, to));
  m->peers = apart ? tsr__peers_of(rel->rt) : NULL;
  if (!apart) return TSR_OK;
  const tsr__peers_work work = { fingerprint(what, rel), what, NULL };
  tsr_status status = tsr__peers_enter(m->peers, &work, m->error);
  if (status) m->peers = NULL;
  return status;
}

/* What moved is told of all processes: each counted what came to its own devices. Movements have
 * one order on all, as all take the same steps. */
static tsr_status add_up(const tsr__rel_meeting *m)
{
  tsr__rel_stats *stats = m->stats;
  if (!stats) return TSR_OK;
  int64_t sum[2 * TSR__REL_MOVES];
  for (int i = 0; i < TSR__REL_MOVES; i++) {
    sum[2 * i] = stats->move[i].rows;
    sum[2 * i + 1] = stats->move[i].bytes;
  }
  tsr_status status = agree_sums(m->rt, sum, 2 * TSR__REL_MOVES, m->error);
  for (int i = 0; i < stats->move_count && !status; i++) {
    stats->move[i].rows = sum[2 * i];
    stats->move[i].bytes = sum[2 * i + 1];
  }
  return status;
}

tsr_status tsr__rel_leave(const tsr__rel_meeting *m, tsr_status status, tsr__rel *out)
{
  if (!m->peers) return status;
  tsr_status own = status;
  if (!status) status = add_up(m);
  status = tsr__peers_leave(m->peers, status, m->error);
  if (status && !own && out) tsr__rel_free(out);
  return status;
}

/* ---- keys ------------------------------------------------------------------------------------ */

typedef struct ranges {
  tsr__key *keys;
  int count;
} ranges;

static void join_ranges(void *user, const tsr__peers_note *note)
{
  const ranges *r = user;
  for (int k = 0; k < r->count && (size_t)(k + 1) * sizeof(tsr__key) <= note->size; k++) {
    tsr__key *key = &r->keys[k], other;
    memcpy(&other, (const char *)note->data + (size_t)k * sizeof other, sizeof other);
    key->nullable = key->nullable || other.nullable;
    if (!other.seen) continue;
    key->least = key->seen && key->least < other.least ? key->least : other.least;
    key->most = key->seen && key->most > other.most ? key->most : other.most;
    key->seen = true;
  }
}

tsr_status tsr__agree_keys(tsr_runtime *rt, bool apart, tsr__key *keys, int count,
                           tsr__error *error)
{
  if (!apart) return TSR_OK;
  return agree(rt, &(tsr__peers_note){ keys, (size_t)count * sizeof *keys }, join_ranges,
               &(ranges){ keys, count }, error);
}

static void join_extent(void *user, const tsr__peers_note *note)
{
  tsr__match_extent *all = user, other;
  if (note->size != sizeof other) return;
  memcpy(&other, note->data, sizeof other);
  all->least = all->least < other.least ? all->least : other.least;
  all->most = all->most > other.most ? all->most : other.most;
  all->rows += other.rows;
}

tsr_status tsr__agree_extent(tsr_runtime *rt, bool apart, tsr__match_extent *extent,
                             tsr__error *error)
{
  const tsr__match_extent mine = *extent;
  if (!apart) return TSR_OK;
  extent->rows = 0;
  return agree(rt, &(tsr__peers_note){ &mine, sizeof mine }, join_extent, extent, error);
}

/* ---- samples --------------------------------------------------------------------------------- */

static void count_sample(void *user, const tsr__peers_note *note)
{
  *(size_t *)user += note->size;
}

typedef struct taking {
  char *to;
  size_t used, room;
} taking;

static void take_sample(void *user, const tsr__peers_note *note)
{
  taking *t = user;
  if (note->size > t->room - t->used) return;
  if (note->size) memcpy(t->to + t->used, note->data, note->size);
  t->used += note->size;
}

/* Told twice: first it is seen how much there is. */
tsr_status tsr__agree_sample(tsr_runtime *rt, bool apart, tsr__sort_sample *sample,
                             tsr__error *error)
{
  size_t each = tsr__sort_sample_bytes(sample->words), room = 0;
  tsr__peers_note mine = { sample->place, (size_t)sample->count * each };
  if (!apart) return TSR_OK;
  tsr_status status = agree(rt, &mine, count_sample, &room, error);
  tsr__sort_sample all = { .words = sample->words, .count = (int64_t)(room / each) };
  if (!status) all.place = tsr__new_raw(&rt->heap, room + 1);
  if (!status && !all.place) status = no_memory(error);
  all.bytes = room + 1;
  taking t = { (char *)all.place, 0, room };
  if (!status) status = agree(rt, &mine, take_sample, &t, error);
  if (status) {
    if (all.place) tsr__del(&rt->heap, all.place, all.bytes);
    return status;
  }
  tsr__sort_sample_free(rt, sample);
  *sample = all;
  return TSR_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* What a process tells of a draft:  rows[position] | nulls[column]    of its own positions. */
typedef struct drafting {
  tsr__draft *draft;
  int process;
} drafting;

static void join_draft(void *user, const tsr__peers_note *note)
{
  drafting *d = user;
  tsr__draft *draft = d->draft;
  const tsr__topology *topology = tsr__topology_of(draft->rt);
  size_t rows = (size_t)draft->positions * sizeof(int64_t);
  int process = d->process++;
  if (note->size != rows + (size_t)draft->count * sizeof(bool)) return;
  for (int p = 0; p < draft->positions; p++)
    if (tsr__device_process(topology, tsr__position_device(&draft->sharding, p)) == process)
      memcpy(&draft->rows[p], (const char *)note->data + (size_t)p * sizeof(int64_t),
             sizeof(int64_t));
  for (int c = 0; c < draft->count; c++)
    draft->nulls[c] = draft->nulls[c] || ((const char *)note->data)[rows + (size_t)c];
}

tsr_status tsr__agree_draft(tsr__draft *draft, tsr__error *error)
{
  tsr_runtime *rt = draft->rt;
  size_t rows = (size_t)draft->positions * sizeof(int64_t);
  size_t size = rows + (size_t)draft->count * sizeof(bool);
  char *mine = tsr__new(&rt->heap, size + 1);
  if (!mine) return no_memory(error);
  memcpy(mine, draft->rows, rows);
  memcpy(mine + rows, draft->nulls, (size_t)draft->count * sizeof(bool));
  tsr_status status = agree(rt, &(tsr__peers_note){ mine, size }, join_draft,
                            &(drafting){ draft, 0 }, error);
  tsr__del(&rt->heap, mine, size + 1);
  return status;
}
