/* Scattering over several processes. Each has joined the updates of its own devices and publishes
 * the results; each then joins all of them for its own results.
 *
 *   note   | the first index outside |  of a group: numbers of its last updates | its units |
 *          of all groups that have a member in the process, one after the other
 *   unit   of sums   | how many escapes | three doubles a place | the escapes |
 *          else      | elements, run after run, up to a whole word |
 *
 * Many sums: each process finishes a share of every unit's runs, and publishes the results once
 * more; else each finishes all. Several updates go to each place, so the message is smaller than
 * the updates. Invariant: all that is joined here is exact or an existing element, so neither the
 * order of processes nor the sharding of updates changes a result. The last update of all wins if
 * updates replace elements. */
#include "kernel/routine/scatter_inner.h"

typedef tsr__scatter_job apart;
typedef tsr__scatter_unit unit;

typedef struct meeting {
  apart *job;
  bool shares; /* each process finishes some runs, and tells them */
  int64_t units;
  const char **said;  /* [process * units + unit]; NULL: nothing, or it is this process */
  const char **order; /* [process * groups + group]: numbers of last updates */
} meeting;

static const tsr__call_peers *peers_of(const apart *job)
{
  return job->call->peers;
}

static bool process_takes_part(const apart *job, int group, int process)
{
  const int *part = &job->groups.part[group * job->groups.members];
  for (int m = 0; m < job->groups.members; m++)
    if (job->call->parts[part[m]].process == process) return true;
  return false;
}

/* Bytes of the numbers of a group's last updates; 0 where nobody asks for them. */
static size_t order_bytes(const apart *job, int group)
{
  const int first = job->groups.part[group * job->groups.members];
  if (!job->last || !tsr__scatter_units(job, group)) return 0;
  return (size_t)tsr__scatter_places(job, first) * sizeof(int64_t);
}

/* Elements of unit k of a group, be it here or not. */
static int64_t elements_of_unit(const apart *job, int group, int64_t k)
{
  tsr__sides sides = tsr__scatter_sides(job, job->groups.part[group * job->groups.members]);
  int64_t across = (sides.after + job->width - 1) / job->width, line = k % across * job->width;
  return sides.along * (sides.after - line < job->width ? sides.after - line : job->width);
}

static size_t elements_bytes(const apart *job, int64_t elements)
{
  size_t bytes = (size_t)elements * tsr_dtype_size(tsr__call_dtype(job->call, 0));
  return (bytes + 7) / 8 * 8;
}

/* ---- telling --------------------------------------------------------------------------------- */

static size_t put_sums(const tsr__rows *rows, char *to)
{
  const uint64_t escapes = rows->escape_count;
  size_t words = tsr__rows_bytes(rows->count), more = (size_t)escapes * sizeof *rows->escape;
  if (!to) return sizeof escapes + words + more;
  memcpy(to, &escapes, sizeof escapes);
  memcpy(to + sizeof escapes, rows->part[0], words);
  if (more) memcpy(to + sizeof escapes + words, rows->escape, more);
  return sizeof escapes + words + more;
}

static size_t put_unit(apart *job, const unit *u, char *to)
{
  if (job->kept) return put_sums(&job->kept[u->number].bins.rows, to);
  size_t bytes = tsr__scatter_run_bytes(u);
  size_t all = elements_bytes(job, u->strip.along * u->strip.count);
  if (to && all) memset(to + all - 8, 0, 8);
  for (int64_t t = 0, n; t < u->strip.along && to; t += n) {
    n = tsr__scatter_runs_at(u, t, u->strip.along);
    memcpy(to + (size_t)t * bytes, tsr__scatter_run(u, u->part[0], t), (size_t)n * bytes);
  }
  return all;
}

/* All that this process tells; `to` NULL: it is counted. */
static size_t put_note_units(apart *job, const tsr__scatter_wrong *wrong, char *to)
{
  size_t size = sizeof *wrong;
  int64_t number = 0;
  if (to) memcpy(to, wrong, sizeof *wrong);
  for (int g = 0; g < job->groups.count; g++) {
    if (!job->here_count[g]) continue;
    size_t bytes = order_bytes(job, g);
    if (to && bytes) memcpy(to + size, job->most[g], bytes);
    size += bytes;
    for (int64_t k = 0, units = tsr__scatter_units(job, g); k < units; k++) {
      unit u = tsr__scatter_unit_of(job, number++, 0);
      size += put_unit(job, &u, to ? to + size : NULL);
    }
  }
  return size;
}

/* ---- received messages ----------------------------------------------------------------------- */

/* How far unit k of a group reaches; 0: the note ends before. */
static size_t unit_bytes(const apart *job, int group, int64_t k, const tsr__call_note *rest)
{
  const int64_t elements = elements_of_unit(job, group, k);
  bool sums = tsr__scatter_sums(job->call);
  uint64_t escapes = 0;
  size_t bytes = sums ? sizeof escapes + tsr__rows_bytes(elements) : elements_bytes(job, elements);
  if (rest->size < bytes) return 0;
  if (sums) memcpy(&escapes, rest->data, sizeof escapes);
  if (escapes > (rest->size - bytes) / sizeof(tsr__escape)) return 0;
  return bytes + (size_t)escapes * sizeof(tsr__escape);
}

static void pass_note_bytes(tsr__call_note *note, size_t bytes)
{
  note->data = (const char *)note->data + bytes;
  note->size -= bytes;
}

/* Finds in another process's message the units that this process joins. False: the message is too
 * short. */
static bool find_said(meeting *m, int process, tsr__call_note note)
{
  const apart *job = m->job;
  int64_t number = 0;
  pass_note_bytes(&note, sizeof(tsr__scatter_wrong));
  for (int g = 0; g < job->groups.count; g++) {
    bool here = job->here_count[g], theirs = process_takes_part(job, g, process);
    int64_t units = tsr__scatter_units(job, g);
    size_t bytes = order_bytes(job, g);
    if (theirs && note.size < bytes) return false;
    if (theirs && here) m->order[process * job->groups.count + g] = note.data;
    if (theirs) pass_note_bytes(&note, bytes);
    for (int64_t k = 0; k < units && theirs; k++) {
      if (here) m->said[process * m->units + number + k] = note.data;
      if (!(bytes = unit_bytes(job, g, k, &note))) return false;
      pass_note_bytes(&note, bytes);
    }
    if (here) number += units;
  }
  return true;
}

/* Reads indices first: all processes refuse the first index outside of the dim among all. */
static tsr_status read_notes(meeting *m, const tsr__call_note *notes, tsr__error *error)
{
  const tsr__call_peers *peers = peers_of(m->job);
  tsr__scatter_wrong first = { INT64_MAX, 0 }, wrong;
  for (int p = 0; p < peers->count; p++) {
    if (notes[p].size < sizeof wrong || (p != peers->index && !find_said(m, p, notes[p])))
      return tsr__error_set(error, TSR_EPEER,
                            "process %d published fewer updates than this process expects", p);
    memcpy(&wrong, notes[p].data, sizeof wrong);
    if (wrong.position < first.position) first = wrong;
  }
  return tsr__scatter_refuse(m->job->call, &first, error);
}

/* Finds, by place, the process that has the last update; this process if nobody has any. */
static void find_processes(meeting *m, int group)
{
  apart *job = m->job;
  int64_t *who = job->last[job->here[group * job->groups.members]];
  for (int64_t t = 0; t < (int64_t)(order_bytes(job, group) / sizeof *who); t++) {
    int64_t most = job->most[group][t], number;
    who[t] = peers_of(job)->index;
    for (int p = 0; p < peers_of(job)->count; p++) {
      const char *order = m->order[p * job->groups.count + group];
      if (!order) continue;
      memcpy(&number, order + (size_t)t * sizeof number, sizeof number);
      if (number > most) who[t] = p;
      if (number > most) most = number;
    }
  }
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Runs of a unit's sums in a message: the doubles of all runs, and the escapes after them. */
typedef struct told_sums {
  const char *doubles, *escapes;
  uint64_t escape_count;
} told_sums;

static told_sums sums_at(const char *said, int64_t elements)
{
  told_sums t = { .doubles = said + sizeof t.escape_count };
  memcpy(&t.escape_count, said, sizeof t.escape_count);
  t.escapes = t.doubles + tsr__rows_bytes(elements);
  return t;
}

/* Takes elements from `first` on as sums of their own. */
static void take_doubles(const told_sums *t, int64_t all, int64_t first, tsr__rows *out)
{
  for (int k = 0; k < 3; k++)
    memcpy(out->part[k], t->doubles + (size_t)(k * all + first) * sizeof(double),
           (size_t)out->count * sizeof(double));
}

static void take_note_escapes(const told_sums *t, int64_t first, tsr__rows *into)
{
  for (uint64_t e = 0; e < t->escape_count; e++) {
    tsr__escape escape;
    memcpy(&escape, t->escapes + e * sizeof escape, sizeof escape);
    escape.element -= first;
    if (escape.element < 0 || escape.element >= into->count) continue;
    tsr__rows_escape(into, escape.element, &escape.sum);
  }
}

static void begin_rows_with_x(void *user, const int64_t *place, const tsr__reals *x)
{
  tsr__rows_begin(user, place[0], x);
}

/* The sums of a unit's runs, of all processes and with the operand's elements, of which nobody
 * told. `part` is the unit as a strip that has these runs alone. */
static bool add_all(const meeting *m, const unit *part, int64_t first, tsr__rows *into,
                    tsr__rows *from)
{
  const tsr__rows *own = &m->job->kept[part->number].bins.rows;
  const told_sums mine = { (const char *)own->part[0], (const char *)own->escape,
                           own->escape_count };
  tsr__scattering a = tsr__scattering_of(&part->strip);
  tsr__scatter_each_x(&a, begin_rows_with_x, into);
  for (int p = 0; p < peers_of(m->job)->count; p++) {
    const char *said = m->said[p * m->units + part->number];
    bool here = p == peers_of(m->job)->index;
    if (!said && !here) continue;
    told_sums theirs = here ? mine : sums_at(said, own->count);
    take_doubles(&theirs, own->count, first, from);
    tsr__cpu_of(m->job->call->rt)->tiles->exact->rows_merge(into, 0, from);
    take_note_escapes(&theirs, first, into);
  }
  return !into->failed;
}

static bool join_unit_sums(const meeting *m, const unit *u, const tsr__scatter_runs *r)
{
  tsr_runtime *rt = m->job->call->rt;
  const int64_t count = r->count * u->strip.count, first = r->first * u->strip.count;
  const size_t bytes = tsr__rows_bytes(count);
  tsr__rows into, from;
  unit part = *u;
  part.strip.part = &m->job->call->parts[u->part[0]];
  part.strip.at += r->first * u->strip.after;
  part.strip.along = r->count;
  tsr__scratch *scratch = tsr__scratch_take(rt, 2 * bytes + 64);
  if (!scratch) return false;
  tsr__rows_init(&into, &rt->heap, scratch->memory, count);
  tsr__rows_over(&from, &rt->heap, (char *)scratch->memory + bytes, count);
  bool good = add_all(m, &part, first, &into, &from);
  if (good) tsr__scatter_write_sums(&part, &into);
  tsr__rows_free(&into);
  tsr__scratch_give(rt, scratch);
  return good;
}

/* Joins a process's elements; a set takes only runs whose last update the process has. */
static void join_elements(const unit *u, int process, const char *said)
{
  enum { ROOM = 4096 };
  unsigned char came[ROOM];
  _Static_assert(ROOM >= 8 * TSR__SCATTER_WIDTH, "a run has room");
  size_t bytes = tsr__scatter_run_bytes(u);
  int64_t most = u->who || !bytes ? 1 : (int64_t)(sizeof came / bytes);
  for (int64_t t = 0, n; t < u->strip.along; t += n) {
    n = tsr__scatter_runs_at(u, t, most);
    if (u->who && u->who[t] != process) continue;
    memcpy(came, said + (size_t)t * bytes, (size_t)n * bytes);
    tsr__scatter_join_runs(u, u->part[0], &(tsr__scatter_runs){ t, n }, came);
  }
}

/* The runs of a group's units that a process finishes: all of them, or its share. */
static tsr__scatter_runs runs_of_share(const meeting *m, int group, int process)
{
  const apart *job = m->job;
  int64_t along = tsr__scatter_sides(job, job->groups.part[group * job->groups.members]).along;
  int64_t rank = 0, count = 0;
  if (!m->shares) return (tsr__scatter_runs){ 0, along };
  for (int p = 0; p < peers_of(job)->count; p++) {
    if (!process_takes_part(job, group, p)) continue;
    if (p == process) rank = count;
    count++;
  }
  int64_t first = along * rank / count;
  return (tsr__scatter_runs){ first, along * (rank + 1) / count - first };
}

static void join_task(void *user, int64_t task, int worker)
{
  const meeting *m = user;
  apart *job = m->job;
  unit u = tsr__scatter_unit_of(job, task, worker);
  tsr__scatter_runs mine = runs_of_share(m, u.group, peers_of(job)->index);
  if (job->kept && !join_unit_sums(m, &u, &mine)) atomic_store(&job->failed, true);
  for (int p = 0; p < peers_of(job)->count && !job->kept; p++)
    if (m->said[p * m->units + task]) join_elements(&u, p, m->said[p * m->units + task]);
  if (!m->shares) tsr__scatter_send_back(&u);
}

static tsr_status join_note_units(meeting *m, tsr__error *error)
{
  apart *job = m->job;
  for (int g = 0; g < job->groups.count; g++)
    if (job->last && job->here_count[g]) find_processes(m, g);
  if (!tsr__parallel_progress(&job->progress, m->units, join_task, m))
    return tsr__cancelled(error, job->progress.what);
  if (!job->failed) return TSR_OK;
  return tsr__error_set(error, TSR_ENOMEM,
                        "tsr_scatter: no scratch memory left; free arrays or raise .memory_limit");
}

/* ---- shares of other processes
 * -------------------------------------------------------------------- */

/* The plan decides, equally in all processes: whether joining and rounding all sums costs more
 * than one more round. */
static bool has_shares(const apart *job)
{
  enum { FEW = 1 << 12 };
  int64_t elements = 0;
  for (int g = 0; g < job->groups.count; g++)
    for (int64_t k = 0, units = tsr__scatter_units(job, g); k < units && elements < FEW; k++)
      elements += elements_of_unit(job, g, k);
  return tsr__scatter_sums(job->call) && elements >= FEW;
}

/* Runs of a unit's result to or from a row of bytes; returns how many, by whole words. NULL: they
 * are counted. */
static size_t pass_runs(const unit *u, const tsr__scatter_runs *r, char *to, const char *from)
{
  size_t bytes = tsr__scatter_run_bytes(u);
  for (int64_t t = r->first, n; t < r->first + r->count && (to || from); t += n) {
    n = tsr__scatter_runs_at(u, t, r->first + r->count - t);
    char *run = tsr__scatter_run(u, u->part[0], t);
    size_t at = (size_t)(t - r->first) * bytes;
    if (to) memcpy(to + at, run, (size_t)n * bytes);
    else memcpy(run, from + at, (size_t)n * bytes);
  }
  return ((size_t)r->count * bytes + 7) / 8 * 8;
}

static size_t put_shares(const meeting *m, char *to)
{
  size_t size = 0;
  for (int64_t n = 0; n < m->units; n++) {
    unit u = tsr__scatter_unit_of(m->job, n, 0);
    tsr__scatter_runs mine = runs_of_share(m, u.group, peers_of(m->job)->index);
    size += pass_runs(&u, &mine, to ? to + size : NULL, NULL);
  }
  return size;
}

/* Takes the runs that another process finished of the units that are here. Units of groups that are
 * not here are skipped. */
static tsr_status take_shares(const meeting *m, int process, tsr__call_note note, tsr__error *error)
{
  const apart *job = m->job;
  const size_t size = tsr_dtype_size(tsr__call_dtype(job->call, 0));
  int64_t number = 0;
  for (int g = 0; g < job->groups.count; g++) {
    tsr__scatter_runs r = runs_of_share(m, g, process);
    int64_t units = tsr__scatter_units(job, g),
            along = tsr__scatter_sides(job, job->groups.part[g * job->groups.members]).along;
    for (int64_t k = 0; k < units; k++) {
      bool here = job->here_count[g], theirs = process_takes_part(job, g, process);
      unit u = { 0 };
      if (here) u = tsr__scatter_unit_of(m->job, number++, 0);
      if (!theirs) continue;
      size_t bytes = ((size_t)(elements_of_unit(job, g, k) / along * r.count) * size + 7) / 8 * 8;
      if (note.size < bytes)
        return tsr__error_set(error, TSR_EPEER,
                              "process %d published fewer partial sums than this process expects",
                              process);
      if (here) pass_runs(&u, &r, NULL, note.data);
      pass_note_bytes(&note, bytes);
    }
  }
  return TSR_OK;
}

/* Exchanges sums whose shares are finished. */
static tsr_status meet_again(const meeting *m, tsr__error *error)
{
  const tsr__call_peers *peers = peers_of(m->job);
  size_t size = put_shares(m, NULL);
  tsr__scratch *mine = tsr__scratch_take(m->job->call->rt, size + 64);
  if (!mine)
    return tsr__error_set(error, TSR_ENOMEM, "no memory for a round with the other processes");
  memset(mine->memory, 0, size);
  put_shares(m, (char *)mine->memory);
  const tsr__call_note *notes = peers->gather(peers->user, mine->memory, size, error);
  tsr__scratch_give(m->job->call->rt, mine);
  tsr_status status = notes ? TSR_OK : error->status;
  for (int p = 0; p < peers->count && !status; p++)
    if (p != peers->index) status = take_shares(m, p, notes[p], error);
  for (int64_t n = 0; n < m->units && !status; n++) {
    unit u = tsr__scatter_unit_of(m->job, n, 0);
    tsr__scatter_send_back(&u);
  }
  return status;
}

tsr_status tsr__scatter_meet(apart *job, int64_t units, tsr__error *error)
{
  const tsr__call_peers *peers = peers_of(job);
  tsr__heap *heap = &job->call->rt->heap;
  tsr__scatter_wrong wrong = { INT64_MAX, 0 };
  if (atomic_load(job->outside)) wrong = tsr__scatter_find_wrong(job->call);
  size_t size = put_note_units(job, &wrong, NULL);
  size_t list = (size_t)peers->count * (size_t)(units + job->groups.count) * sizeof(char *);
  meeting m = {
    .job = job, .shares = has_shares(job), .units = units, .said = tsr__new(heap, list)
  };
  tsr__scratch *mine = tsr__scratch_take(job->call->rt, size + 64);
  const tsr__call_note *notes = NULL;
  tsr_status status = TSR_OK;
  if (!m.said || !mine) {
    status = tsr__error_set(error, TSR_ENOMEM, "no memory for a round with the other processes");
  } else {
    /* One block: said | order. */
    m.order = m.said + (int64_t)peers->count * units;
    put_note_units(job, &wrong, (char *)mine->memory);
    notes = peers->gather(peers->user, mine->memory, size, error);
  }
  tsr__scratch_give(job->call->rt, mine);
  if (!status) status = notes ? read_notes(&m, notes, error) : error->status;
  if (!status) status = join_note_units(&m, error);
  if (!status && m.shares) status = meet_again(&m, error);
  tsr__del(heap, m.said, list);
  return status;
}
