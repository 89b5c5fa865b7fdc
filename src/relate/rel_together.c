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
                        "no memory for the messages between processes; free some arrays");
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

typedef struct finding {
  void *found;
  size_t size;
  tsr__join_found *join;
  bool first;
} finding;

static void join_found(void *user, const tsr__peers_note *note)
{
  finding *f = user;
  if (note->size != f->size) return;
  if (!f->first) f->join(f->found, note->data, f->size);
  else if (f->size) memcpy(f->found, note->data, f->size);
  f->first = false;
}

tsr_status tsr__agree_found(void *user, void *found, size_t size, tsr__join_found *join,
                            tsr__error *error)
{
  return agree(user, &(tsr__peers_note){ found, size }, join_found,
               &(finding){ found, size, join, true }, error);
}

static void add_sum(void *into, const void *other, size_t size)
{
  (void)size;
  *(int64_t *)into += *(const int64_t *)other;
}

tsr_status tsr__agree_sum(tsr_runtime *rt, bool apart, int64_t *sum, tsr__error *error)
{
  return apart ? tsr__agree_found(rt, sum, sizeof *sum, add_sum, error) : TSR_OK;
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
  const tsr__peers_work work = { .fingerprint = fingerprint(what, rel), .what = what };
  tsr_status status = tsr__peers_enter(m->peers, &work, m->error);
  if (status) m->peers = NULL;
  return status;
}

static void join_stats(void *user, const tsr__peers_note *note)
{
  tsr__rel_stats *all = user, other;
  if (note->size != sizeof other) return;
  memcpy(&other, note->data, sizeof other);
  if (other.need > all->need) all->need = other.need;
  for (int i = 0; i < all->move_count; i++) {
    all->move[i].rows += other.move[i].rows;
    all->move[i].bytes += other.move[i].bytes;
  }
}

/* What moved is told of all processes: each counted what came to its own devices. Movements have
 * one order on all, as all take the same steps. */
static tsr_status add_up(const tsr__rel_meeting *m)
{
  if (!m->stats) return TSR_OK;
  const tsr__rel_stats mine = *m->stats;
  for (int i = 0; i < mine.move_count; i++) m->stats->move[i].rows = m->stats->move[i].bytes = 0;
  return agree(m->rt, &(tsr__peers_note){ &mine, sizeof mine }, join_stats, m->stats, m->error);
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

static void join_ranges(void *into, const void *from, size_t size)
{
  tsr__key *keys = into;
  for (size_t k = 0; k < size / sizeof *keys; k++) {
    tsr__key *key = &keys[k];
    const tsr__key *other = (const tsr__key *)from + k;
    key->nullable = key->nullable || other->nullable;
    if (!other->seen) continue;
    key->least = key->seen && key->least < other->least ? key->least : other->least;
    key->most = key->seen && key->most > other->most ? key->most : other->most;
    key->seen = true;
  }
}

/* The maps stay this process's own. */
tsr_status tsr__agree_keys(tsr_runtime *rt, bool apart, tsr__key *keys, int count,
                           tsr__error *error)
{
  size_t size = (size_t)count * sizeof *keys;
  if (!apart || !count) return TSR_OK;
  tsr__key *found = tsr__new(&rt->heap, size);
  if (!found) return no_memory(error);
  memcpy(found, keys, size);
  tsr_status status = tsr__agree_found(rt, found, size, join_ranges, error);
  for (int k = 0; k < count && !status; k++) {
    found[k].map = keys[k].map;
    keys[k] = found[k];
  }
  tsr__del(&rt->heap, found, size);
  return status;
}

static void join_extent(void *into, const void *from, size_t size)
{
  tsr__match_extent *all = into;
  const tsr__match_extent *other = from;
  (void)size;
  all->least = all->least < other->least ? all->least : other->least;
  all->most = all->most > other->most ? all->most : other->most;
  all->rows += other->rows;
}

tsr_status tsr__agree_extent(tsr_runtime *rt, bool apart, tsr__match_extent *extent,
                             tsr__error *error)
{
  return apart ? tsr__agree_found(rt, extent, sizeof *extent, join_extent, error) : TSR_OK;
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
  tsr_status status =
      agree(rt, &(tsr__peers_note){ mine, size }, join_draft, &(drafting){ draft, 0 }, error);
  tsr__del(&rt->heap, mine, size + 1);
  return status;
}
