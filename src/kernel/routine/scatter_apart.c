/* Scattering updates that are sharded over devices: each device joins its own updates, and the
 * first of the devices that hold the same part of the result joins their results. Many updates of
 * one device are shared out to the workers in the same way, unless their order counts.
 *
 *   device 0   x, and updates 0 1 2      the sums, the extremes or the last ones so far
 *   device 1      updates 3 4 5    -->   to device 0, which joins them, and back to all
 *
 * Sums of floats travel exactly, integers wrap and extremes are elements. If updates replace
 * elements, the last update in the order of all indices wins: devices tell each other the last
 * update of each place. So neither the sharding nor the order of devices changes a result.
 *
 * If a group lies over several processes, each joins the updates of its own devices and publishes
 * the results to all (scatter_meet.c).
 *
 * Units of work:
 *   unit     a strip of a group's parts: the task of a worker
 *   share    the sums of some of all updates, if several workers make sums */
#include "kernel/routine/scatter_inner.h"

typedef tsr__scatter_job apart;
typedef tsr__scatter_unit unit;

static tsr__scattering of_member(const unit *u, int member, tsr__strip *strip)
{
  *strip = u->strip;
  strip->part = &u->job->call->parts[u->part[member]];
  return tsr__scattering_of(strip);
}

/* Counts traffic between devices of one process; traffic of several processes is counted in one
 * sum. */
static void count_traffic(const unit *u, int64_t bytes)
{
  if (!u->job->meets) atomic_fetch_add(&u->job->moved, bytes);
}

/* Copies from one part's device to another's, counted. All devices' memory is in this process; the
 * copied bytes are those that would travel, and one function counts them. */
static void carry_run(const unit *u, int from, int to, tsr__transfer what)
{
  tsr__traffic traffic = { 0 };
  what.from_device = u->job->call->parts[from].device;
  what.to_device = u->job->call->parts[to].device;
  tsr__cpu_move(&what, &traffic);
  count_traffic(u, traffic.bytes);
}

void *tsr__scatter_run(const unit *u, int part, int64_t t)
{
  const tsr__strip *s = &u->strip;
  size_t size = tsr_dtype_size(tsr__call_dtype(s->call, 0));
  char *out = tsr__cpu_data(u->job->call->parts[part].out[0].buffer);
  return out + (size_t)(s->at + t * s->after) * size;
}

size_t tsr__scatter_run_bytes(const unit *u)
{
  return (size_t)u->strip.count * tsr_dtype_size(tsr__call_dtype(u->strip.call, 0));
}

/* The number of runs from run t on that lie one after the other and are handled as one: at most
 * `most`. */
int64_t tsr__scatter_runs_at(const unit *u, int64_t t, int64_t most)
{
  int64_t left = u->strip.along - t;
  if (u->strip.count != u->strip.after || most < 1) return 1;
  return left < most ? left : most;
}

/* The finished result to those that only helped. Each replica must have the result, though one
 * device was enough to make it. */
void tsr__scatter_send_back(const unit *u)
{
  size_t bytes = tsr__scatter_run_bytes(u);
  for (int m = 1; m < u->members; m++)
    for (int64_t t = 0, n; t < u->strip.along; t += n) {
      n = tsr__scatter_runs_at(u, t, u->strip.along);
      carry_run(u, u->part[0], u->part[m],
                (tsr__transfer){ .to = tsr__scatter_run(u, u->part[m], t),
                                 .from = tsr__scatter_run(u, u->part[0], t),
                                 .bytes = (size_t)n * bytes });
    }
}

/* ---- sums of floats -------------------------------------------------------------------------- */

typedef tsr__scatter_share share;

/* -0 stays only while all that is added is -0, of which integers know nothing. */
static void look_at_x(void *user, const int64_t *place, const tsr__reals *x)
{
  (void)place;
  tsr__bins *bins = user;
  bool found = false;
  for (int i = 0; i < x->n && x->f32; i++) found |= x->f32[i] == 0 && signbit(x->f32[i]);
  for (int i = 0; i < x->n && x->f64; i++) found |= x->f64[i] == 0 && signbit(x->f64[i]);
  bins->plain |= found;
}

/* The operand's elements are where all sums begin. */
static void begin_bins_with_x(void *user, const int64_t *place, const tsr__reals *x)
{
  tsr__bins *bins = user;
  tsr__bins_begin(bins);
  tsr__rows_begin(&bins->rows, place[0], x);
  look_at_x(bins, place, x);
}

static void add_sums(void *user, const int64_t *place, const tsr__reals *x)
{
  tsr__bins_add(user, place, x);
}

static int64_t updates_of(const unit *u)
{
  tsr__strip strip;
  int64_t updates = 0;
  for (int m = 0; m < u->members; m++) updates += of_member(u, m, &strip).count;
  return updates;
}

/* Cut evenly by number, whatever places they go to and whose they are. */
static void add_updates(share *s, int worker)
{
  const unit *u = s->unit;
  const int64_t all = updates_of(u), from = all * s->part / s->parts;
  const int64_t to = all * (s->part + 1) / s->parts;
  for (int64_t m = 0, before = 0; m < u->members; m++) {
    tsr__strip strip;
    tsr__scattering a = of_member(u, (int)m, &strip);
    int64_t count = a.count;
    strip.worker = worker;
    a.begin = from > before ? from - before : 0;
    a.end = to - before < count ? to - before : count;
    if (a.begin < a.end) tsr__scatter_each_update(&a, add_sums, &s->bins);
    before += count;
  }
}

/* The operand's own elements, equal on all members, are added once: by the first share, or after
 * the exchange of processes. Other shares look for -0 among them: if one is there, these shares
 * must keep the sign of zeros, too. */
static void make_share(share *s, int worker)
{
  tsr__error error;
  tsr__strip strip;
  const unit *u = s->unit;
  tsr__scattering a = of_member(u, 0, &strip);
  tsr_runtime *rt = strip.call->rt;
  int64_t count = strip.along * strip.count;
  int member = s->part * u->members / s->parts;
  strip.worker = worker;
  s->memory =
      tsr__cpu_take(rt, strip.call->parts[u->part[member]].device, tsr__bins_bytes(count), &error);
  if (!s->memory) return;
  tsr__bins_init(&s->bins, tsr__cpu_of(rt)->tiles->exact, &rt->heap, tsr__cpu_data(s->memory),
                 count);
  tsr__scatter_each_x(&a, s->part || u->job->kept ? look_at_x : begin_bins_with_x, &s->bins);
  add_updates(s, worker);
  s->good = !s->bins.rows.failed;
}

static void free_share(share *s)
{
  if (s->memory) tsr__rows_free(&s->bins.rows);
  tsr__buffer_release(s->memory);
  *s = (share){ 0 };
}

/* Counts the sums that travel, three doubles a place, from all members but the first. In one
 * process updates of several members are added in one table, straight from their memory, and
 * nothing is copied. */
static void count_sums(const unit *u)
{
  int64_t bytes = (int64_t)tsr__rows_bytes(u->strip.along * u->strip.count);
  count_traffic(u, (u->members - 1) * bytes);
}

/* Writes as many lines at a time as the reader's memory holds; a strip that is narrower than its
 * lines, one at a time. */
void tsr__scatter_write_sums(const unit *u, const tsr__rows *sums)
{
  const tsr__strip *s = &u->strip;
  size_t size = tsr_dtype_size(tsr__call_dtype(s->call, 0));
  char *to = tsr__cpu_data(u->job->call->parts[u->part[0]].out[0].buffer);
  int64_t n, left = 0, most = s->count == s->after ? TSR__BINS_BLOCK / s->count : 1;
  for (int64_t t = 0; t < s->along && tsr__strip_goes_on(s, &left); t += n) {
    n = s->along - t < most ? s->along - t : most;
    tsr__rows part = tsr__rows_slice(sums, t * s->count, n * s->count);
    tsr__rows_sum(&part, &(tsr__rows_read){ .to = tsr__call_dtype(s->call, 0) },
                  to + (size_t)(s->at + t * s->after) * size);
  }
}

/* Writes the first share, which all other shares were joined to, as results; keeps the share if
 * shares of other processes are to come. */
static bool finish_sums(const unit *u, share *first)
{
  tsr__bins_empty(&first->bins);
  if (first->bins.rows.failed) return false;
  if (u->job->kept) {
    u->job->kept[u->number] = *first;
    *first = (share){ 0 };
    return true;
  }
  tsr__scatter_write_sums(u, &first->bins.rows);
  count_sums(u);
  return true;
}

/* Sums a unit by one worker: all updates are one share. */
static bool sum_unit(const unit *u)
{
  share all = { .unit = u, .parts = 1 };
  make_share(&all, u->strip.worker);
  bool good = all.good && finish_sums(u, &all);
  free_share(&all);
  return good;
}

static void share_task(void *user, int64_t task, int worker)
{
  make_share((share *)user + task, worker);
}

static bool sum_shares(const unit *u, int parts)
{
  tsr__heap *heap = &u->job->call->rt->heap;
  share *all = tsr__new(heap, (size_t)parts * sizeof *all);
  if (!all) return false;
  for (int k = 0; k < parts; k++) all[k] = (share){ .unit = u, .part = k, .parts = parts };
  bool good = tsr__parallel_progress(&u->job->progress, parts, share_task, all);
  for (int k = 0; k < parts; k++) good = good && all[k].good;
  for (int k = 1; k < parts && good; k++) tsr__bins_join(&all[0].bins, &all[k].bins);
  /* One that had to be emptied may have found no memory there. */
  for (int k = 1; k < parts; k++) good = good && !all[k].bins.rows.failed;
  good = good && finish_sums(u, &all[0]);
  for (int k = 0; k < parts; k++) free_share(&all[k]);
  tsr__del(heap, all, (size_t)parts * sizeof *all);
  return good;
}

/* ---- elements joined one by one -------------------------------------------------------------- */

typedef tsr__scatter_runs runs;

/* A member's result of some of its updates. */
typedef struct fold {
  const unit *unit;
  int member, part, parts; /* its updates are cut into so many */
  tsr__buffer *memory;     /* size of its result, for all parts but the first */
  bool good;
} fold;

/* Begins runs: with the operand's elements, if joining these again changes nothing, else with the
 * neutral element. The first member always begins with the operand's elements. */
static void begin_runs(const tsr__scattering *a, bool first, int64_t t, int64_t n)
{
  const tsr__strip *s = a->strip;
  int64_t how = a->attr->how;
  size_t size = tsr_dtype_size(a->dtype), bytes = (size_t)(n * s->count) * size;
  size_t at = (size_t)(s->at + t * s->after) * size;
  char *run = (char *)a->to + at;
  /* Extremes and replaced elements may meet the operand's element twice; a sum or a product may
   * not. */
  bool counts = how == TSR_SCATTER_ADD || how == TSR_SCATTER_MUL;
  if (first || !counts) {
    memcpy(run, (const char *)tsr__cpu_data(s->part->in[0].buffer) + at, bytes);
    return;
  }
  memset(run, 0, bytes);
  for (int64_t j = 0; how == TSR_SCATTER_MUL && j < n * s->count; j++)
    tsr__dtype_put_whole(a->dtype, run, j, 1);
}

/* Runs of something else to those of a part that is here. */
void tsr__scatter_join_runs(const unit *u, int part, const runs *r, const void *came)
{
  tsr__strip strip = u->strip;
  strip.part = &u->job->call->parts[part];
  tsr__scattering a = tsr__scattering_of(&strip);
  const int64_t first = 0, width = r->count * u->strip.count;
  tsr__scatter_join (&a)(
      &(tsr__joined){ tsr__scatter_run(u, part, r->first), came, &first, 1, width, width });
}

static void do_fold(fold *f, int worker)
{
  const unit *u = f->unit;
  tsr__error error;
  tsr__strip strip;
  tsr__scattering a = of_member(u, f->member, &strip);
  strip.worker = worker;
  a.begin = a.count * f->part / f->parts;
  a.end = a.count * (f->part + 1) / f->parts;
  if (f->part) {
    f->memory = tsr__cpu_take(strip.call->rt, strip.part->device,
                              (size_t)strip.along * tsr__scatter_run_bytes(u), &error);
    if (!f->memory) return;
    a.to = tsr__cpu_data(f->memory);
  }
  for (int64_t t = 0, n; t < strip.along; t += n) {
    n = tsr__scatter_runs_at(u, t, strip.along);
    begin_runs(&a, u->begins && !f->member && !f->part, t, n);
  }
  tsr__scatter_fold(&a, tsr__scatter_join(&a));
  f->good = true;
}

static void join_members(const unit *u)
{
  enum { ROOM = 4096 };
  /* At least one run of the widest element: eight bytes. */
  unsigned char came[ROOM];
  _Static_assert(ROOM >= 8 * TSR__SCATTER_WIDTH, "a run has room");
  size_t bytes = tsr__scatter_run_bytes(u);
  /* The member with the last update is told run by run. */
  int64_t most = u->who || !bytes ? 1 : (int64_t)(sizeof came / bytes);
  for (int m = 1; m < u->members; m++)
    for (int64_t t = 0, n; t < u->strip.along; t += n) {
      n = tsr__scatter_runs_at(u, t, most);
      carry_run(u, u->part[m], u->part[0],
                (tsr__transfer){ .to = came,
                                 .from = tsr__scatter_run(u, u->part[m], t),
                                 .bytes = (size_t)n * bytes });
      /* A set takes only the member with the last update, though all send theirs, as explained. */
      if (!u->who || u->who[t] == m) tsr__scatter_join_runs(u, u->part[0], &(runs){ t, n }, came);
    }
}

static void fold_unit(const unit *u)
{
  for (int m = 0; m < u->members; m++)
    do_fold(&(fold){ .unit = u, .member = m, .parts = 1 }, u->strip.worker);
  join_members(u);
}

static void fold_share_task(void *user, int64_t task, int worker)
{
  do_fold((fold *)user + task, worker);
}

/* Workers take each member's updates in some parts; a part's result has the shape of the member's
 * result and is joined to it. */
static bool fold_shares(const unit *u, int parts)
{
  tsr__heap *heap = &u->job->call->rt->heap;
  int count = u->members * parts;
  fold *all = tsr__new(heap, (size_t)count * sizeof *all);
  if (!all) return false;
  for (int k = 0; k < count; k++)
    all[k] = (fold){ .unit = u, .member = k / parts, .part = k % parts, .parts = parts };
  bool done = tsr__parallel_progress(&u->job->progress, count, fold_share_task, all), good = done;
  for (int k = 0; k < count; k++) good = good && all[k].good;
  for (int k = 0; k < count; k++) {
    if (good && all[k].part)
      tsr__scatter_join_runs(u, u->part[all[k].member], &(runs){ 0, u->strip.along },
                             tsr__cpu_data(all[k].memory));
    tsr__buffer_release(all[k].memory);
  }
  tsr__del(heap, all, (size_t)count * sizeof *all);
  if (good) join_members(u);
  return good;
}

/* ---- which update is the last ---------------------------------------------------------------- */

tsr__sides tsr__scatter_sides(const apart *job, int part)
{
  int dim = tsr__call_dim(job->call);
  return tsr__sides_over(&job->call->parts[part].in[0], tsr__call_rank(job->call), dim,
                         dim + tsr__scatter_more(job->call));
}

int64_t tsr__scatter_places(const apart *job, int part)
{
  return tsr__scatter_batch(job->call, &job->call->parts[part]) *
         tsr__scatter_sides(job, part).along;
}

/* The number of a part's update among all of them. */
static int64_t number_of_update(const apart *job, int part, int64_t j)
{
  const tsr__gnode *at =
      &job->call->program->nodes[tsr__in(job->call->program, tsr__call_node(job->call), 1)];
  /* Counts in C order over all of the indices, as position_of_index() does. */
  const tsr_box *box = &job->call->parts[part].in[1].box;
  int64_t number = 0, scale = 1;
  for (int d = at->rank - 1; d >= 0; d--) {
    number += (box->start[d] + j % box->size[d]) * scale;
    j /= box->size[d];
    scale *= at->dims[d];
  }
  return number;
}

/* Finds the last update of each place of a part; -1: no update. */
static void find_last(apart *job, int part)
{
  tsr__strip strip = { .call = job->call, .part = &job->call->parts[part] };
  tsr__scattering a = tsr__scattering_of(&strip);
  const int64_t along = tsr__scatter_sides(job, part).along;
  const int64_t all = a.count * tsr__scatter_batch(job->call, strip.part);
  const int64_t places = tsr__scatter_places(job, part);
  for (int64_t t = 0; t < places; t++) job->last[part][t] = -1;
  for (int64_t j = 0; j < all; j++) {
    int64_t place = tsr__scatter_place(&a, j), number = number_of_update(job, part, j);
    int64_t *last = &job->last[part][j / a.count * along];
    /* The number decides, not the order of the loop: a part's updates may be sharded along any of
     * the indices' dims. */
    if (place >= 0 && number > last[place]) last[place] = number;
  }
}

/* Finds the members of a group that are here. */
static void find_group_members(const apart *job, int group, unit *u)
{
  const int members = job->groups.members;
  u->part = &job->here[group * members];
  u->members = job->here_count[group];
  u->begins = u->part[0] == job->groups.part[group * members];
}

/* Finds a group's last updates: afterwards the first part's list names the member with the last
 * update of all, and the group's own list has the update's number. */
static void find_winners(apart *job, int group)
{
  /* All strips of the group share this: which update is the last depends on the place along the
   * dim alone. */
  unit u = { .job = job };
  find_group_members(job, group, &u);
  int64_t places = tsr__scatter_places(job, u.part[0]), *first = job->last[u.part[0]];
  for (int m = 0; m < u.members; m++) find_last(job, u.part[m]);
  for (int64_t t = 0; t < places; t++) {
    int64_t most = first[t], who = 0;
    for (int m = 1; m < u.members; m++) {
      int64_t number = -1;
      carry_run(&u, u.part[m], u.part[0],
                (tsr__transfer){
                    .to = &number, .from = &job->last[u.part[m]][t], .bytes = sizeof number });
      /* Only -1 occurs twice: the first member stays if nobody has an update. */
      if (number > most) who = m;
      if (number > most) most = number;
    }
    first[t] = who;
    job->most[group][t] = most;
  }
}

/* Strips of a group: its parts have one shape. */
int64_t tsr__scatter_units(const apart *job, int group)
{
  tsr__sides sides = tsr__scatter_sides(job, job->groups.part[group * job->groups.members]);
  return sides.along ? sides.before * ((sides.after + job->width - 1) / job->width) : 0;
}

/* 0 of a part that is another process's. */
static size_t count_part_places(const apart *job, int part)
{
  return tsr__call_here(job->call, part) ? (size_t)tsr__scatter_places(job, part) : 0;
}

/* In one block: pointers by part and by group, then the lists. NULL out of memory. */
static int64_t **new_winner_lists(apart *job, size_t *bytes)
{
  size_t parts = (size_t)job->call->part_count, groups = (size_t)job->groups.count, cells = 0;
  const int members = job->groups.members;
  for (size_t p = 0; p < parts; p++) cells += count_part_places(job, (int)p);
  *bytes = (parts + groups) * sizeof(int64_t *) + (2 * cells + 1) * sizeof(int64_t);
  int64_t **last = tsr__new(&job->call->rt->heap, *bytes);
  if (!last) return NULL;
  job->most = last + parts;
  int64_t *next = (int64_t *)(job->most + groups);
  for (size_t p = 0; p < parts; p++) {
    last[p] = next;
    next += count_part_places(job, (int)p);
  }
  /* A group with a member here has no more places than that. */
  for (size_t g = 0; g < groups; g++) {
    job->most[g] = next;
    if (job->here_count[g]) next += count_part_places(job, job->here[(int)g * members]);
  }
  return last;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Units that this process has something to do for. */
static int64_t units_here(const apart *job, int group)
{
  return job->here_count[group] ? tsr__scatter_units(job, group) : 0;
}

/* Units are numbered through the groups that have a member here. */
unit tsr__scatter_unit_of(apart *job, int64_t task, int worker)
{
  int group = 0;
  const int64_t number = task;
  for (int64_t units; task >= (units = units_here(job, group)); group++) task -= units;
  unit u = { .job = job, .group = group, .number = number };
  find_group_members(job, group, &u);
  tsr__sides sides = tsr__scatter_sides(job, u.part[0]);
  int64_t across = (sides.after + job->width - 1) / job->width, first = task % across * job->width;
  /* The last updates are those of the element of the batch dims that the unit lies in. */
  int64_t batch = tsr__scatter_batch(job->call, &job->call->parts[u.part[0]]);
  int64_t line = task / across, element = line / (sides.before / batch);
  u.who = job->last ? job->last[u.part[0]] + element * sides.along : NULL;
  u.strip =
      (tsr__strip){ .call = job->call,
                    .along = sides.along,
                    .after = sides.after,
                    .at = line * sides.along * sides.after + first,
                    .count = sides.after - first < job->width ? sides.after - first : job->width,
                    .user = job->outside,
                    .worker = worker,
                    .progress = &job->progress };
  return u;
}

static void unit_task(void *user, int64_t task, int worker)
{
  apart *job = user;
  unit u = tsr__scatter_unit_of(job, task, worker);
  if (!tsr__scatter_sums(job->call)) fold_unit(&u);
  else if (!sum_unit(&u)) atomic_store(&job->failed, true);
  if (!job->meets) tsr__scatter_send_back(&u);
}

/* How many parts the updates are cut into for the workers. Joining costs a pass over all places, so
 * a part must have several updates a place. */
static int64_t parts_of_updates(const apart *job, const unit *u)
{
  enum { LEAST = 1 << 15, MOST_BYTES = 1 << 25 };
  int64_t count = u->strip.along * u->strip.count, least = 8 * count < LEAST ? LEAST : 8 * count;
  bool sums = tsr__scatter_sums(job->call);
  size_t bytes = sums ? tsr__bins_bytes(count) : (size_t)u->strip.along * tsr__scatter_run_bytes(u);
  /* No more than two shares a worker, and no more than memory allows. */
  int64_t most = MOST_BYTES / ((int64_t)bytes + 1), shares = 2 * tsr__worker_count(job->call->rt);
  int64_t parts = updates_of(u) * u->strip.count / least;
  if (shares > most) shares = most;
  if (parts > shares) parts = shares;
  if (sums) return parts;
  /* Joins that depend on order are not cut, and parts have the layout of the whole result. */
  bool free = tsr__scatter_free(job->call) && !u->strip.at && u->strip.count == u->strip.after;
  return free ? parts / u->members : 1;
}

/* Units that are too few for the workers, one after the other, shared out to them. False: that is
 * no use. So a few long lines occupy all workers. */
static bool share_units(apart *job, int64_t units)
{
  bool sums = tsr__scatter_sums(job->call);
  if (units >= tsr__worker_count(job->call->rt)) return false;
  for (int64_t task = 0; task < units; task++) {
    unit u = tsr__scatter_unit_of(job, task, 0);
    int64_t parts = parts_of_updates(job, &u);
    /* All are alike, or nearly so: the first one decides. */
    if (!task && parts < 2 && (sums || u.members == 1)) return false;
    if (parts < 1) parts = 1;
    bool good = sums ? sum_shares(&u, (int)parts) : fold_shares(&u, (int)parts);
    if (!good) atomic_store(&job->failed, true);
    if (!job->meets) tsr__scatter_send_back(&u);
  }
  return true;
}

/* The traffic between a group's devices over several processes, counted by the process that has the
 * first. */
static int64_t group_traffic(const apart *job, int group)
{
  const int first = job->groups.part[group * job->groups.members];
  const tsr_dtype dtype = tsr__call_dtype(job->call, 0);
  tsr__sides sides = tsr__scatter_sides(job, first);
  int64_t elements = sides.before * sides.along * sides.after;
  int64_t back = elements * (int64_t)tsr_dtype_size(dtype), there = back;
  if (!job->here_count[group] || job->here[group * job->groups.members] != first) return 0;
  if (tsr__scatter_sums(job->call)) there = (int64_t)tsr__rows_bytes(elements);
  if (job->last && elements) there += tsr__scatter_places(job, first) * (int64_t)sizeof(int64_t);
  return (job->groups.members - 1) * (there + back);
}

static tsr_status no_scatter_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM,
                        "tsr_scatter: no scratch memory left; free arrays or raise .memory_limit");
}

static tsr_status do_scatter_units(apart *job, tsr__error *error)
{
  int64_t units = 0;
  for (int g = 0; g < job->groups.count; g++) {
    units += units_here(job, g);
    /* Before any unit begins, as all units of a group ask for the same winners. */
    if (job->last && units_here(job, g)) find_winners(job, g);
    if (job->meets) job->moved += group_traffic(job, g);
  }
  size_t kept = job->meets && tsr__scatter_sums(job->call) ? (size_t)units + 1 : 0;
  if (kept && !(job->kept = tsr__new(&job->call->rt->heap, kept * sizeof *job->kept)))
    return no_scatter_memory(error);
  if (!share_units(job, units)) tsr__parallel_progress(&job->progress, units, unit_task, job);
  tsr_status status = TSR_OK;
  if (atomic_load(&job->progress.stop)) status = tsr__cancelled(error, job->progress.what);
  else if (job->failed) status = no_scatter_memory(error);
  if (!status && job->meets) status = tsr__scatter_meet(job, units, error);
  if (job->call->traffic && !status) job->call->traffic->bytes += job->moved;
  for (int64_t n = 0; kept && n < units; n++) free_share(&job->kept[n]);
  if (kept) tsr__del(&job->call->rt->heap, job->kept, kept * sizeof *job->kept);
  return status;
}

/* Which members of each group are here: all of one process. */
static bool find_here(apart *job)
{
  const tsr__call *call = job->call;
  const int members = job->groups.members;
  job->here_count = tsr__new(&call->rt->heap, tsr__scatter_here_bytes(job));
  if (!job->here_count) return false;
  job->here = job->here_count + job->groups.count;
  for (int k = 0; k < job->groups.count * members; k++) {
    int part = job->groups.part[k], g = k / members;
    if (tsr__call_here(call, part)) job->here[g * members + job->here_count[g]++] = part;
  }
  return true;
}

tsr_status tsr__scatter_apart(const tsr__call *call, _Atomic bool *outside, tsr__error *error)
{
  const tsr__scatter_attr *attr = tsr__attr_of(call->program, tsr__call_node(call));
  apart job = { .call = call,
                .width = tsr__scatter_width(call),
                .outside = outside,
                .meets = call->peers != NULL,
                .progress = { .rt = call->rt, .what = TSR__PROGRAM } };
  size_t bytes = 0;
  tsr_status status = tsr__groups_over(call, tsr__call_node(call)->reduce_axes, &job.groups, error);
  if (!status && (!find_here(&job) ||
                  (attr->how == TSR_SCATTER_SET && !(job.last = new_winner_lists(&job, &bytes)))))
    status = tsr__error_set(error, TSR_ENOMEM, "no memory to run a program");
  if (!status) status = do_scatter_units(&job, error);
  if (job.last) tsr__del(&call->rt->heap, job.last, bytes);
  if (job.here_count) tsr__del(&call->rt->heap, job.here_count, tsr__scatter_here_bytes(&job));
  tsr__line_groups_free(call, &job.groups);
  return status;
}
