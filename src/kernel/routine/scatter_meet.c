/* Scattering over several processes, of which each has joined the updates of its own devices: what
 * these came to is told to all, and each joins it for the results of its own.
 *
 *   note   | the first index that is none | of a group: numbers of its last updates | its units |
 *          of all groups that have a member in the process, one after the other
 *   unit   of sums   | sums_head | an integer a place, or three doubles | the escapes |
 *          else      | elements, run after run, up to a whole word |
 *
 * Updates are several for each place, so what is told is less than they are. Invariant: all that is
 * joined here is exact or an element that was there, so neither the order of processes nor who has
 * which updates can show. Of updates that replace what is there the last one of all wins. */
#include "kernel/routine/scatter_inner.h"

typedef tsr__scatter_job apart;
typedef tsr__scatter_unit unit;

typedef struct meeting {
  apart *job;
  int64_t units;
  const char **said;  /* [process * units + unit]; NULL: nothing, or it is this process */
  const char **order; /* [process * groups + group]: numbers of last updates */
} meeting;

static const tsr__call_peers *peers_of(const apart *job)
{
  return job->call->peers;
}

static bool takes_part(const apart *job, int group, int process)
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
  return (size_t)tsr__scatter_sides(job, first).along * sizeof(int64_t);
}

/* Elements of unit k of a group, be it here or not. */
static int64_t elements_of(const apart *job, int group, int64_t k)
{
  tsr__sides sides = tsr__scatter_sides(job, job->groups.part[group * job->groups.members]);
  int64_t across = (sides.after + job->width - 1) / job->width, line = k % across * job->width;
  return sides.along * (sides.after - line < job->width ? sides.after - line : job->width);
}

/* How sums are told: as a tsr__bins that has integers, or rows, or nothing. */
typedef struct sums_head {
  double unit;
  int64_t added; /* 0: no integers */
  uint64_t begun, escapes;
} sums_head;

static size_t sums_bytes(const sums_head *head, int64_t elements)
{
  size_t bytes = head->added ? (size_t)elements * sizeof(int64_t) : 0;
  if (head->begun) bytes += tsr__rows_bytes(elements);
  return sizeof *head + bytes;
}

static size_t elements_bytes(const apart *job, int64_t elements)
{
  size_t bytes = (size_t)elements * tsr_dtype_size(tsr__call_dtype(job->call, 0));
  return (bytes + 7) / 8 * 8;
}

/* ---- telling --------------------------------------------------------------------------------- */

static size_t put_sums(const tsr__bins *bins, char *to)
{
  const tsr__rows *rows = &bins->rows;
  const sums_head head = { bins->unit, bins->added, bins->begun, rows->escape_count };
  size_t size = sums_bytes(&head, rows->count), more = rows->escape_count * sizeof *rows->escape;
  if (!to) return size + more;
  memcpy(to, &head, sizeof head);
  to += sizeof head;
  if (head.added) memcpy(to, bins->sum, (size_t)rows->count * sizeof *bins->sum);
  if (head.added) to += (size_t)rows->count * sizeof *bins->sum;
  if (head.begun) memcpy(to, rows->part[0], tsr__rows_bytes(rows->count));
  if (more) memcpy(to + tsr__rows_bytes(rows->count), rows->escape, more);
  return size + more;
}

static size_t put_unit(apart *job, const unit *u, char *to)
{
  if (job->kept) return put_sums(&job->kept[u->number].bins, to);
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
static size_t put_all(apart *job, const tsr__scatter_wrong *wrong, char *to)
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

/* ---- what was told --------------------------------------------------------------------------- */

/* How far unit k of a group reaches; 0: the note ends before. */
static size_t unit_bytes(const apart *job, int group, int64_t k, const tsr__call_note *rest)
{
  int64_t elements = elements_of(job, group, k);
  bool sums = tsr__scatter_sums(job->call);
  sums_head head = { 0 };
  size_t bytes = sums ? sizeof head : elements_bytes(job, elements);
  if (rest->size < bytes) return 0;
  if (!sums) return bytes;
  memcpy(&head, rest->data, sizeof head);
  bytes = sums_bytes(&head, elements);
  if (rest->size < bytes || head.escapes > (rest->size - bytes) / sizeof(tsr__escape)) return 0;
  return bytes + (size_t)head.escapes * sizeof(tsr__escape);
}

static void pass(tsr__call_note *note, size_t bytes)
{
  note->data = (const char *)note->data + bytes;
  note->size -= bytes;
}

/* Where another process's note has what this one joins. False: it says less than that. */
static bool find_said(meeting *m, int process, tsr__call_note note)
{
  const apart *job = m->job;
  int64_t number = 0;
  pass(&note, sizeof(tsr__scatter_wrong));
  for (int g = 0; g < job->groups.count; g++) {
    bool here = job->here_count[g], theirs = takes_part(job, g, process);
    int64_t units = tsr__scatter_units(job, g);
    size_t bytes = order_bytes(job, g);
    if (theirs && note.size < bytes) return false;
    if (theirs && here) m->order[process * job->groups.count + g] = note.data;
    if (theirs) pass(&note, bytes);
    for (int64_t k = 0; k < units && theirs; k++) {
      if (here) m->said[process * m->units + number + k] = note.data;
      if (!(bytes = unit_bytes(job, g, k, &note))) return false;
      pass(&note, bytes);
    }
    if (here) number += units;
  }
  return true;
}

/* Indices first: of those that are none all refuse the first of all processes. */
static tsr_status read_notes(meeting *m, const tsr__call_note *notes, tsr__error *error)
{
  const tsr__call_peers *peers = peers_of(m->job);
  tsr__scatter_wrong first = { INT64_MAX, 0 }, wrong;
  for (int p = 0; p < peers->count; p++) {
    if (notes[p].size < sizeof wrong || (p != peers->index && !find_said(m, p, notes[p])))
      return tsr__error_set(error, TSR_EPEER,
                            "process %d says less of its updates than this one expects", p);
    memcpy(&wrong, notes[p].data, sizeof wrong);
    if (wrong.position < first.position) first = wrong;
  }
  return tsr__scatter_refuse(m->job->call, &first, error);
}

/* By place, the process that has the last update; this one where nobody has any. */
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

/* The sums as they were told, in `memory`. */
static void read_sums(const sums_head *head, const char *said, tsr__bins *out)
{
  const int64_t count = out->rows.count;
  said += sizeof *head;
  if (head->added) memcpy(out->sum, said, (size_t)count * sizeof *out->sum);
  if (head->added) said += (size_t)count * sizeof *out->sum;
  if (head->begun) memcpy(out->rows.part[0], said, tsr__rows_bytes(count));
  out->unit = head->unit;
  out->added = head->added;
  out->begun = head->begun;
}

/* Sums that came are copied first: joining may have to empty them. */
static bool add_sums(const unit *u, const char *said)
{
  tsr_runtime *rt = u->job->call->rt;
  tsr__bins *into = &u->job->kept[u->number].bins, from;
  const int64_t count = into->rows.count;
  sums_head head;
  memcpy(&head, said, sizeof head);
  if (!head.added && !head.begun) return true;
  tsr__scratch *scratch = tsr__scratch_take(rt, tsr__bins_bytes(count) + 64);
  if (!scratch) return false;
  tsr__bins_init(&from, into->ops, &rt->heap, scratch->memory, count);
  read_sums(&head, said, &from);
  tsr__bins_join(into, &from);
  bool good = !from.rows.failed && !into->rows.failed;
  tsr__rows_free(&from.rows);
  tsr__scratch_give(rt, scratch);
  said += sums_bytes(&head, count);
  for (uint64_t e = 0; e < head.escapes && good; e++) {
    tsr__escape escape;
    memcpy(&escape, said + e * sizeof escape, sizeof escape);
    good = head.begun && escape.element >= 0 && escape.element < count;
    if (good) tsr__rows_escape(&into->rows, escape.element, &escape.sum);
  }
  return good && !into->rows.failed;
}

static void add_x(void *user, const int64_t *place, const tsr__reals *x)
{
  for (int i = 0; i < x->n; i++) tsr__rows_add(user, place[i], tsr__real_at(x, i));
}

/* With the operand's elements, of which nobody told. */
static bool finish_sums(const unit *u)
{
  tsr__bins *bins = &u->job->kept[u->number].bins;
  tsr__strip strip = u->strip;
  strip.part = &u->job->call->parts[u->part[0]];
  tsr__scattering a = tsr__scattering_of(&strip);
  tsr__bins_empty(bins);
  tsr__scatter_each_x(&a, add_x, &bins->rows);
  if (!bins->rows.failed) tsr__scatter_write_sums(u, &bins->rows);
  return !bins->rows.failed;
}

/* Of set those runs alone that the process has the last update of. */
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

static void join_task(void *user, int64_t task, int worker)
{
  const meeting *m = user;
  apart *job = m->job;
  unit u = tsr__scatter_unit_of(job, task, worker);
  bool good = true;
  for (int p = 0; p < peers_of(job)->count && good; p++) {
    const char *said = m->said[p * m->units + task];
    if (!said) continue;
    if (job->kept) good = add_sums(&u, said);
    else join_elements(&u, p, said);
  }
  if (good && job->kept) good = finish_sums(&u);
  if (good) tsr__scatter_send_back(&u);
  else atomic_store(&job->failed, true);
}

static tsr_status join_all(meeting *m, tsr__error *error)
{
  apart *job = m->job;
  for (int g = 0; g < job->groups.count; g++)
    if (job->last && job->here_count[g]) find_processes(m, g);
  if (!tsr__parallel_progress(&job->progress, m->units, join_task, m))
    return tsr__cancelled(error, job->progress.what);
  if (!job->failed) return TSR_OK;
  return tsr__error_set(error, TSR_ENOMEM,
                        "tsr_scatter: no memory left to work in; free arrays or raise "
                        ".memory_limit");
}

tsr_status tsr__scatter_meet(apart *job, int64_t units, tsr__error *error)
{
  const tsr__call_peers *peers = peers_of(job);
  tsr__heap *heap = &job->call->rt->heap;
  tsr__scatter_wrong wrong = { INT64_MAX, 0 };
  if (atomic_load(job->outside)) wrong = tsr__scatter_find_wrong(job->call);
  size_t size = put_all(job, &wrong, NULL);
  size_t list = (size_t)peers->count * (size_t)(units + job->groups.count) * sizeof(char *);
  meeting m = { .job = job, .units = units, .said = tsr__new_raw(heap, list + size) };
  if (!m.said) return tsr__error_set(error, TSR_ENOMEM, "no memory to meet other processes");
  /* One block: said | order | what this process tells. */
  memset(m.said, 0, list);
  m.order = m.said + (int64_t)peers->count * units;
  char *mine = (char *)m.said + list;
  put_all(job, &wrong, mine);
  const tsr__call_note *notes = peers->gather(peers->user, mine, size, error);
  tsr_status status = notes ? read_notes(&m, notes, error) : error->status;
  if (!status) status = join_all(&m, error);
  tsr__del(heap, m.said, list + size);
  return status;
}
