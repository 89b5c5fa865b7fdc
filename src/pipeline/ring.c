/* Who fills which slice, and when: a ring of trays, threads that claim slices in order, and the
 * caller of tsr_pipeline_next, who claims as well instead of waiting.
 *
 *   claim     a slice of the newest tray; none left there: the next batch, if a tray is free
 *   fill      without the lock
 *   finish    who fills the last slice of a tray makes it ready
 *
 * Invariants, under the lock: delivered <= opened <= delivered + depth; only the tray opened last
 * has slices that nobody claimed; after `failed` or `stop` no tray is opened. So a ring that is
 * full stops its threads, and what is delivered comes in order whoever filled it.
 *
 * Waking a thread costs as much as a small batch. Where batches are filled in less than that a few
 * times, threads sleep until the ring is empty and then fill all of it. */
#include "pipeline/pipeline_room.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/events.h"
#include "base/thread.h"

enum { ASK_NS = 10000000, TELL_S = 1, STALL_S = 5, QUICK_NS = 50000 };

typedef struct claimed {
  tsr__tray *tray;
  int slice;
} claimed;

/* ---- trays ----------------------------------------------------------------------------------- */

static tsr__tray *tray_of(tsr_pipeline *p, int64_t batch)
{
  return &p->trays[batch % p->depth];
}

/* Which records batch `number` has, counted over all epochs.
 *
 *   meant     it should have, wrapped ones included        skipped and masked ones count
 *   records   it has                                       fewer once bad ones are skipped
 *   rows      its arrays have                              records, or `size` where it is padded */
static void number_tray(const tsr_pipeline *p, tsr__tray *tray, int64_t number)
{
  int64_t size = p->args.batch_size, left;
  const tsr__dealer *dealer = p->source->dealer;
  tray->home = 0;
  tray->around = p->stream ? INT64_MAX : p->source->count;
  if (p->stream) {
    const tsr__stream_part *part = tsr__stream_part_of(p->stream, number);
    tray->epoch = part->epoch;
    tray->index = part->index;
    tray->first = number * size;
    left = part->records;
  } else {
    tray->epoch = number / p->batches;
    tray->index = number % p->batches;
    tray->first = tray->index * size;
    left = p->source->count - tray->first;
  }
  /* Its batches are of several sizes, and do not come in the order of positions. */
  if (dealer) {
    tsr__deal deal;
    dealer->deal(dealer, tray->epoch, tray->index, &deal);
    tray->first = deal.first;
    tray->home = deal.home;
    tray->around = deal.around;
    left = deal.records;
    size = deal.size;
  }
  bool short_one = p->args.remainder == TSR_KEEP_SHORT && left < size;
  tray->records = left < size && p->args.remainder != TSR_WRAP ? left : size;
  tray->rows = short_one ? left : size;
  tray->meant = tray->records;
  tray->fault_count = 0;
  tray->listed = false;
}

static void make_ready(tsr_pipeline *p, tsr__tray *tray)
{
  tray->ready = true;
  if (tray->error.status) p->failed = true;
  pthread_cond_broadcast(&p->done);
}

/* Opens the next tray where there is room for it; under the lock, as it only reserves memory. */
static bool open_tray(tsr_pipeline *p)
{
  if (p->failed || atomic_load(&p->stop) || p->opened == p->total) return false;
  if (p->opened - p->delivered >= p->depth) return false;
  if (p->stream && p->opened == p->read) return false;
  tsr__tray *tray = tray_of(p, p->opened);
  number_tray(p, tray, p->opened++);
  tsr__tray_prepare(p, tray);
  if (p->stream && tsr__stream_part_of(p->stream, p->opened - 1)->error.status)
    tray->error = tsr__stream_part_of(p->stream, p->opened - 1)->error;
  if (tray->error.status) make_ready(p, tray);
  else if (tray->slices > 1) pthread_cond_broadcast(&p->work);
  return true;
}

/* Whether a stream is to be read by who asks, which is a claim without a tray; under the lock. */
static bool claim_reading(tsr_pipeline *p, claimed *out)
{
  /* A stream is read as far ahead as there are trays: its parts are used again with them. */
  bool full = p->read - p->delivered >= p->depth || p->read == p->total;
  if (!p->stream || p->reading || full || p->failed || atomic_load(&p->stop)) return false;
  *out = (claimed){ 0 };
  return p->reading = true;
}

/* With the lock before and after, without it meanwhile. */
static void read_ahead(tsr_pipeline *p, tsr__where *where)
{
  int64_t batch = p->read;
  pthread_mutex_unlock(&p->lock);
  bool some = tsr__stream_read(p->stream, p, batch, where);
  pthread_mutex_lock(&p->lock);
  /* Its end is known when it is met, and is the pipeline's. */
  if (some) p->read++;
  else p->total = p->read;
  p->reading = false;
  pthread_cond_broadcast(&p->work);
  pthread_cond_broadcast(&p->done);
}

/* Under the lock. */
static bool claim(tsr_pipeline *p, claimed *out)
{
  for (;;) {
    tsr__tray *tray = p->opened > p->delivered ? tray_of(p, p->opened - 1) : NULL;
    if (tray && !tray->ready && tray->next < tray->slices) {
      *out = (claimed){ tray, tray->next++ };
      return true;
    }
    /* Only where nothing can be filled, since reading is what lets the next be filled at all. */
    if (!open_tray(p)) return claim_reading(p, out);
  }
}

/* Fills what was claimed; with the lock before and after, without it meanwhile. Of the errors of a
 * batch the one of its first rows stays: which one that is does not depend on threads. What was not
 * claimed yet is left out after an error. */
static void fill_claimed(tsr_pipeline *p, claimed c, tsr__doing *doing)
{
  tsr__error error = { 0 };
  if (!c.tray) {
    read_ahead(p, doing->where);
    return;
  }
  pthread_mutex_unlock(&p->lock);
  tsr__tray_fill(p, c.tray, c.slice, doing, &error);
  pthread_mutex_lock(&p->lock);
  tsr__figures_filled(p, doing);
  tsr__tray *tray = c.tray;
  if (error.status && (tray->failed < 0 || c.slice < tray->failed)) {
    tray->failed = c.slice;
    tray->error = error;
    tray->left -= tray->slices - tray->next;
    tray->next = tray->slices;
  }
  /* The last one finishes it alone; others may be at slices of the next one by now. */
  if (--tray->left) return;
  pthread_mutex_unlock(&p->lock);
  tsr__tray_finish(p, tray);
  pthread_mutex_lock(&p->lock);
  make_ready(p, tray);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *filler_main(void *user)
{
  tsr__filler *filler = user;
  tsr_pipeline *p = filler->pipeline;
  claimed c;
  pthread_mutex_lock(&p->lock);
  filler->self = pthread_self();
  filler->runs = true;
  while (!atomic_load(&p->stop)) {
    tsr__doing doing = { .where = &filler->where };
    if (claim(p, &c)) fill_claimed(p, c, &doing);
    else pthread_cond_wait(&p->work, &p->lock);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

/* Fewer threads than asked for fill the same batches:
 * who waits for one fills it. */
static void start_fillers(tsr_pipeline *p)
{
  for (int i = 0; i < p->args.threads; i++) {
    tsr__filler *filler = &p->fillers[p->threads];
    filler->pipeline = p;
    /* With a stack as functions of the program may expect one. */
    if (!tsr__thread_start(&filler->thread, TSR__THREAD_USERS, TSR__THREAD_STACK, filler_main,
                           filler))
      break;
    p->threads++;
  }
}

/* `locks` says to closing that there is something to destroy: a pipeline that failed earlier has
 * none. */
static bool init_locks(tsr_pipeline *p)
{
  pthread_condattr_t clock;
  if (pthread_mutex_init(&p->lock, NULL)) return false;
  pthread_condattr_init(&clock);
  /* A clock that is set must not make a wait longer. */
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&p->work, NULL);
  pthread_cond_init(&p->done, &clock);
  pthread_condattr_destroy(&clock);
  p->process = getpid();
  return p->locks = true;
}

/* Once, for all batches that a tray will hold: by column, and of lots by column and position. */
static bool tray_lists(tsr_pipeline *p, tsr__tray *tray)
{
  tsr__arena *arena = &p->node.scope->arena;
  size_t columns = (size_t)p->source->column_count, positions = (size_t)p->most_positions;
  tray->values = tsr__arena_new(arena, columns * sizeof *tray->values);
  tray->staged = tsr__arena_new(arena, columns * sizeof *tray->staged);
  tray->staged_size = tsr__arena_new(arena, columns * sizeof *tray->staged_size);
  tray->lots = tsr__arena_new(arena, columns * positions * sizeof *tray->lots);
  return tray->values && tray->staged && tray->staged_size && tray->lots;
}

tsr_status tsr__ring_open(tsr_pipeline *p, tsr__error *error)
{
  tsr__arena *arena = &p->node.scope->arena;
  p->depth = p->args.prefetch + 1; /* one of them is being waited for */
  p->trays = tsr__arena_new(arena, (size_t)p->depth * sizeof *p->trays);
  p->fillers = tsr__arena_new(arena, (size_t)p->args.threads * sizeof *p->fillers + 1);
  bool fine = p->trays && p->fillers;
  for (int i = 0; fine && i < p->depth; i++) fine = tray_lists(p, &p->trays[i]);
  if (!fine || !init_locks(p))
    return tsr__error_set(error, TSR_ENOMEM, "no memory for %d batches", p->depth);
  if (p->stream && tsr__stream_open(p->stream, &p->args, p->depth, error)) return error->status;
  if (p->stream) tsr__stream_seek(p->stream, p->stream_epoch, p->stream_skip);
  /* And the one that is delivered: its memory is the next one's that is begun, while it is still in
   * the caches. A pipeline of fewer batches never has as many. */
  if (p->total >= p->depth) tsr__tray_expect(p, p->depth + 1);
  start_fillers(p);
  return TSR_OK;
}

/* ---- the caller ------------------------------------------------------------------------------ */

/* Under the lock. Without threads of its own whoever else is there while a batch is filled is a
 * worker that fills it. */
static bool is_inside(const tsr_pipeline *p)
{
  pthread_t self = pthread_self();
  for (int i = 0; i < p->args.threads; i++)
    if (p->fillers[i].runs && pthread_equal(p->fillers[i].self, self)) return true;
  return p->asked && (!p->args.threads || pthread_equal(p->asker, self));
}

bool tsr__ring_inside(tsr_pipeline *p)
{
  if (!p->locks) return false;
  pthread_mutex_lock(&p->lock);
  bool inside = is_inside(p);
  p->asked_inside = p->asked_inside || inside;
  pthread_mutex_unlock(&p->lock);
  return inside;
}

bool tsr__ring_enter(tsr_pipeline *p)
{
  pthread_mutex_lock(&p->lock);
  bool fine = !p->asked && !is_inside(p);
  if (fine) {
    p->asked = true;
    p->asker = pthread_self();
  } else p->asked_inside = true;
  pthread_mutex_unlock(&p->lock);
  return fine;
}

bool tsr__ring_leave(tsr_pipeline *p)
{
  pthread_mutex_lock(&p->lock);
  p->asked = false;
  bool fine = !p->asked_inside;
  pthread_mutex_unlock(&p->lock);
  return fine;
}

/* Slices of one batch over the runtime's workers: without threads of its own. */
typedef struct together {
  tsr_pipeline *p;
  tsr__tray *tray;
  tsr__progress *progress;
} together;

static void fill_task(void *user, int64_t slice, int worker)
{
  together *t = user;
  tsr__error error = { 0 };
  tsr__doing doing = { .progress = t->progress, .worker = worker };
  tsr__tray_fill(t->p, t->tray, (int)slice, &doing, &error);
  pthread_mutex_lock(&t->p->lock);
  tsr__figures_filled(t->p, &doing);
  if (error.status && (t->tray->failed < 0 || slice < t->tray->failed)) {
    t->tray->failed = (int)slice;
    t->tray->error = error;
  }
  pthread_mutex_unlock(&t->p->lock);
}

/* without threads    lock: read a stream, open one tray | no lock: fill it over the workers
 *
 * The same batches as threads give, since who fills a slice does not show in it; one at a time, so
 * that nothing is ahead of what is delivered. */
static tsr__tray *fill_here(tsr_pipeline *p, tsr__progress *progress)
{
  claimed c;
  int64_t begin = tsr__now();
  pthread_mutex_lock(&p->lock);
  if (p->read == p->delivered && claim_reading(p, &c)) read_ahead(p, NULL);
  bool opened = open_tray(p);
  pthread_mutex_unlock(&p->lock);
  if (!opened) return NULL;
  tsr__tray *tray = tray_of(p, p->delivered);
  if (tray->ready) return tray;
  together t = { p, tray, progress };
  /* Workers compute: what waits for something else is waited for here, one after the other. */
  if (!p->source->blocking) tsr__parallel(p->node.scope->rt, tray->slices, fill_task, &t);
  for (int i = 0; p->source->blocking && i < tray->slices && tray->failed < 0; i++)
    fill_task(&t, i, 0);
  tsr__tray_finish(p, tray);
  tray->ready = true;
  if (tray->error.status) p->failed = true;
  tsr__figures_asked(p, begin, 0);
  return atomic_load(&progress->stop) ? NULL : tray;
}

/* Batches that could be delivered now; under the lock. */
static int count_ready(const tsr_pipeline *p)
{
  int ready = 0;
  for (int64_t n = p->delivered; n < p->opened && p->trays[n % p->depth].ready; n++) ready++;
  return ready;
}

/* Waits for a tray that becomes ready or for work, but no longer than until the progress callback
 * is to be asked. */
static void wait_some(tsr_pipeline *p)
{
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += ASK_NS;
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    until.tv_sec++;
  }
  pthread_cond_timedwait(&p->done, &p->lock, &until);
}

/* Says whom a program waits for that seems to hang, once a batch; without the lock, as it calls a
 * function of the program. A thread that is in none reads, or fills. */
static void tell_stall(tsr_pipeline *p)
{
  const char *name = NULL;
  int64_t record = 0;
  for (int i = 0; i < p->threads && !name; i++) {
    const tsr__where *where = &p->fillers[i].where;
    name = atomic_load_explicit(&where->name, memory_order_acquire);
    record = atomic_load_explicit(&where->record, memory_order_relaxed);
  }
  if (name)
    tsr__log(p->node.scope->rt, TSR_LOG_WARN, "pipeline",
             "tsr_pipeline_next has waited %d s for batch %lld, where %s is at record %lld",
             STALL_S, (long long)p->delivered, name, (long long)record);
  else
    tsr__log(p->node.scope->rt, TSR_LOG_WARN, "pipeline",
             "tsr_pipeline_next has waited %d s for batch %lld, while its source reads", STALL_S,
             (long long)p->delivered);
}

tsr__tray *tsr__ring_take(tsr_pipeline *p)
{
  tsr__progress progress = { .rt = p->node.scope->rt, .what = "pipeline" };
  tsr__tray *tray = tray_of(p, p->delivered);
  progress.total = p->total == INT64_MAX ? 0 : p->total;
  atomic_store(&progress.done, p->delivered);
  claimed c;
  if (!p->threads) return fill_here(p, &progress);
  bool stops = false, told = false;
  int64_t begin = tsr__now();
  pthread_mutex_lock(&p->lock);
  int ready = count_ready(p);
  while (!(p->opened > p->delivered && tray->ready) && !stops && p->delivered != p->total) {
    /* A batch that nobody fills is filled here; one that others are at is waited for, and so is
     * one whose functions may block: they would keep the callback from being asked. */
    tsr__doing doing = { .progress = &progress };
    if (!p->source->blocking && claim(p, &c)) fill_claimed(p, c, &doing);
    else wait_some(p);
    pthread_mutex_unlock(&p->lock);
    /* Without the lock: it calls a function of the program. */
    stops = tsr__progress_stops(&progress, 0);
    if (!told && tsr__now() - begin > STALL_S * INT64_C(1000000000)) {
      told = true;
      tell_stall(p);
    }
    pthread_mutex_lock(&p->lock);
  }
  tsr__figures_asked(p, begin, ready);
  pthread_mutex_unlock(&p->lock);
  return stops || p->delivered == p->total ? NULL : tray;
}

/* Whether there is enough to fill for a thread that sleeps; under the lock. Who asks for a batch
 * that nobody is at fills it, so none is waited for by leaving threads asleep; but not where it
 * could block. */
static bool worth_waking(const tsr_pipeline *p)
{
  int64_t done = p->delivered - p->from, room = p->depth - (p->opened - p->delivered);
  bool quick = !p->stream && !p->source->blocking && p->figures.filled < done * QUICK_NS;
  return !quick || room >= p->depth;
}

void tsr__ring_give(tsr_pipeline *p, tsr__tray *tray)
{
  tsr__tray_empty(p, tray);
  pthread_mutex_lock(&p->lock);
  p->delivered++;
  p->stream_epoch = tray->epoch;
  p->stream_index = tray->index + 1;
  if (worth_waking(p)) pthread_cond_signal(&p->work);
  pthread_mutex_unlock(&p->lock);
}

/* ---- processors ------------------------------------------------------------------------------ */

/* By the thread's own clock, which can be read from outside while it runs. */
static int64_t cpu_of(pthread_t thread)
{
  clockid_t clock;
  struct timespec t;
  if (pthread_getcpuclockid(thread, &clock) || clock_gettime(clock, &t)) return 0;
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t tsr__ring_cpu(const tsr_pipeline *p)
{
  int64_t all = p->cpu;
  for (int i = 0; i < p->threads; i++) all += cpu_of(p->fillers[i].thread);
  return all;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Joins a thread; after a second it says what is waited for, and goes on waiting. */
static void join_filler(tsr_pipeline *p, tsr__filler *filler)
{
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += TELL_S;
  if (!pthread_timedjoin_np(filler->thread, NULL, &until)) return;
  const char *name = atomic_load_explicit(&filler->where.name, memory_order_acquire);
  tsr__log(p->node.scope->rt, TSR_LOG_WARN, "pipeline",
           "tsr_pipeline_close waits for %s at record %lld; a long function should ask "
           "tsr_pipeline_stopping",
           name ? name : "a source", (long long)atomic_load(&filler->where.record));
  pthread_join(filler->thread, NULL);
}

static void end_threads(tsr_pipeline *p)
{
  pthread_mutex_lock(&p->lock);
  atomic_store(&p->stop, true);
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->lock);
  /* Before they are joined: a thread that ended has no clock. */
  p->cpu = tsr__ring_cpu(p);
  for (int i = 0; i < p->threads; i++) join_filler(p, &p->fillers[i]);
  /* All they did was done under the lock or before they gave it back: checkers of races know that,
   * but not what a join with a deadline means. */
  pthread_mutex_lock(&p->lock);
  pthread_mutex_unlock(&p->lock);
}

/* In a child of fork the threads are not there to be joined, and locks are as they had them: a
 * condition that they wait for would never be free to be destroyed. */
void tsr__ring_close(tsr_pipeline *p)
{
  tsr__heap *heap = &p->node.scope->rt->heap;
  if (!p->locks) return;
  if (p->process == getpid()) end_threads(p);
  for (int i = 0; i < p->depth; i++) {
    tsr__tray *tray = &p->trays[i];
    tsr__tray_empty(p, tray);
    tsr__del(heap, tray->edges, tray->edge_room * sizeof *tray->edges);
    tsr__del(heap, tray->faults, tray->fault_room * sizeof *tray->faults);
    tsr__del(heap, tray->list, tray->list_room * sizeof *tray->list);
  }
  if (p->stream) tsr__stream_close(p->stream);
  if (p->process == getpid()) {
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
  }
  p->locks = false;
  p->threads = 0;
}
