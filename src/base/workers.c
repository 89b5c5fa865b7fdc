/* The one pool of threads. A job is an array of tasks; the caller runs tasks as worker 0 and the
 * threads join it when they notice it. A caller that finds the pool taken begins its job alone,
 * task by task, and shares what is left once the pool is free: its own work is what it waits with.
 *
 *   gate (64 bits):  [ job number | quit | open | workers inside (16 bits) ]
 *
 * Invariants: a thread reads the job only between joining (a compare-and-swap that needs `open`)
 * and leaving; the caller changes the job only when `open` is off and nobody is inside. So a
 * thread that sleeps or is not scheduled never holds up a job: the caller does its share.
 *
 * Waiting is the same everywhere: spin, then yield, then sleep. Sleepers announce themselves in
 * a counter, look at the gate once more and only then sleep, so no wake-up is lost. */
#include "base/events.h"
#include "base/thread.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define INSIDE UINT64_C(0xFFFF)
#define OPEN UINT64_C(0x10000)
#define QUIT UINT64_C(0x20000)
#define JOB UINT64_C(0x40000)
#define JOB_MASK (~(JOB - 1))

/* Spinning bridges the gap between the kernels of one program, yielding what a caller does
 * between programs; after that a core is worth more to others. */
#define SPINS 4000
#define YIELD_NS 50000
#define ASK_NS 10000000 /* a caller that waits asks its callback so often */
/* One past the last that a set can name. */
#define NO_CPU ((size_t)CPU_SETSIZE)

/* What different threads write lies on different cache lines: the gate, the tasks handed out,
 * the job (read only while it is open), and the rest, which is touched between jobs. */
struct tsr__workers {
  _Alignas(64) _Atomic uint64_t gate;
  _Alignas(64) _Atomic int64_t next; /* the next task to hand out */
  _Alignas(64) tsr__task_fn fn;      /* the job; see the invariant */
  void *user;
  int64_t count;
  _Alignas(64) pthread_mutex_t submit; /* one job at a time */
  _Atomic uintptr_t caller;            /* its pthread_t; 0 between jobs */
  _Atomic int caller_cpu;              /* where it was when it opened the job */
  pthread_mutex_t sleep_lock;
  pthread_cond_t wake; /* a job was opened, or quit */
  pthread_cond_t done; /* the last worker left a closed job */
  _Atomic int sleepers;
  _Atomic int caller_sleeps;
  int spins;         /* 0 when there are more threads than cores: spinning would steal a core */
  _Atomic bool meet; /* a thread was woken on its caller's core: from then on they are told where */
  int started;
  size_t size;
  pid_t process;
  tsr__workers *before; /* of the process that this one was forked from: memory, and no threads */
  struct member {
    tsr__workers *workers;
    pthread_t thread;
    int worker;
    size_t cpu;           /* where it is pinned, or NO_CPU */
    bool asleep, steered; /* under sleep_lock: it may not run on its caller's core, but on `own` */
    cpu_set_t own;
  } member[];
};

/* ---- cores ---- */

/* A container's CPU quota counts as well: threads beyond it only get throttled. Control groups of
 * version 2. Rounded up: of one and a half cores two threads make use. 0: no quota. */
static int quota_cores(void)
{
  FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
  if (!file) return 0;
  long long quota = 0, period = 0;
  int read = fscanf(file, "%lld %lld", &quota, &period); /* "max 100000" reads no number */
  fclose(file);
  if (read != 2 || quota <= 0 || period <= 0) return 0;
  long long cores = (quota + period - 1) / period;
  return cores < 4096 ? (int)cores : 0;
}

static int allowed_cpus(cpu_set_t *set)
{
  CPU_ZERO(set);
  if (!sched_getaffinity(0, sizeof *set, set) && CPU_COUNT(set) > 0) return CPU_COUNT(set);
  CPU_ZERO(set);
  /* The set is empty then, so that nobody is pinned. */
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 && online < 4096 ? (int)online : 1;
}

/* Asked anew each time, as both may change while a program runs. */
int tsr__core_count(void)
{
  cpu_set_t set;
  int cores = allowed_cpus(&set), quota = quota_cores();
  return quota && quota < cores ? quota : cores;
}

/* The n-th CPU this process may run on, or NO_CPU. */
static size_t nth_cpu(const cpu_set_t *set, int n)
{
  size_t cpu = 0;
  for (; cpu < NO_CPU; cpu++)
    if (CPU_ISSET(cpu, set) && n-- == 0) break;
  return cpu;
}

/* ---- waiting ---- */

/* What is waited for is always a value of the gate. */
typedef bool (*ready_fn)(uint64_t gate, uint64_t seen);

/* Spins, then yields. True as soon as the gate is ready, false when it is time to sleep.
 * Spinning reads only: the line of the gate stays shared until somebody writes to it. */
static bool wait_awake(tsr__workers *w, ready_fn ready, uint64_t seen)
{
  for (int i = 0; i < w->spins; i++) {
    if (ready(atomic_load_explicit(&w->gate, memory_order_acquire), seen)) return true;
    tsr__pause();
  }
  int64_t until = tsr__now() + YIELD_NS;
  do {
    if (ready(atomic_load_explicit(&w->gate, memory_order_acquire), seen)) return true;
    sched_yield();
  } while (tsr__now() < until);
  return false;
}

/* ---- the threads ---- */

/* A job that this thread has seen is none, even while it is open: it found no task left. */
static bool work_ready(uint64_t gate, uint64_t seen)
{
  return (gate & QUIT) || ((gate & OPEN) && (gate & JOB_MASK) != seen);
}

/* Leaves the caller's core to the caller: both would share it for as long as a job lasts. One that
 * is pinned stays. */
static void step_aside(tsr__workers *w)
{
  int cpu = sched_getcpu();
  if (cpu < 0 || cpu != atomic_load_explicit(&w->caller_cpu, memory_order_relaxed)) return;
  if (tsr__thread_step_aside(NULL, 0)) atomic_store_explicit(&w->meet, true, memory_order_relaxed);
}

/* The same by the caller, before it wakes one: there a thread steps aside only once it was given
 * the core, which a short job does not wait for. Under sleep_lock. */
static void steer(tsr__workers *w, struct member *m)
{
  int cpu = atomic_load_explicit(&w->caller_cpu, memory_order_relaxed);
  if (cpu < 0 || (size_t)cpu >= NO_CPU || m->cpu < NO_CPU || !m->asleep) return;
  /* One that was steered and not woken yet may have another caller now. */
  if (!m->steered && pthread_getaffinity_np(m->thread, sizeof m->own, &m->own)) return;
  cpu_set_t others = m->own;
  CPU_CLR((size_t)cpu, &others);
  if (CPU_COUNT(&others)) m->steered |= !pthread_setaffinity_np(m->thread, sizeof others, &others);
}

static void wait_for_work(struct member *m, uint64_t seen)
{
  tsr__workers *w = m->workers;
  if (wait_awake(w, work_ready, seen)) return;
  pthread_mutex_lock(&w->sleep_lock);
  atomic_fetch_add(&w->sleepers, 1);
  /* Announced under the lock and looked once more: whoever opens a job after this look finds the
   * sleeper counted and signals under the same lock, which the wait has given back by then. */
  m->asleep = true;
  while (!work_ready(atomic_load(&w->gate), seen)) pthread_cond_wait(&w->wake, &w->sleep_lock);
  bool steered = m->steered;
  m->asleep = m->steered = false;
  atomic_fetch_sub(&w->sleepers, 1);
  pthread_mutex_unlock(&w->sleep_lock);
  if (steered) sched_setaffinity(0, sizeof m->own, &m->own);
  else step_aside(w);
}

static void run_tasks(tsr__workers *w, int worker)
{
  tsr__task_fn fn = w->fn;
  void *user = w->user;
  int64_t count = w->count;
  for (;;) {
    /* Relaxed: joining has made the job visible, and what tasks write is ordered by leaving
     * (leave_job, close_job). The counter may run past the count by the number of workers. */
    int64_t task = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);
    if (task >= count) return;
    fn(user, task, worker);
  }
}

/* Joins the open job, if it is one this thread has not seen. */
static bool join_job(tsr__workers *w, uint64_t *seen)
{
  uint64_t gate = atomic_load_explicit(&w->gate, memory_order_acquire);
  /* One more inside, at the same job: if it was closed or changed meanwhile the swap fails and
   * the new gate is looked at. */
  while ((gate & OPEN) && (gate & JOB_MASK) != *seen) {
    if (atomic_compare_exchange_weak_explicit(&w->gate, &gate, gate + 1, memory_order_acq_rel,
                                              memory_order_acquire)) {
      *seen = gate & JOB_MASK;
      return true;
    }
  }
  return false;
}

static void leave_job(tsr__workers *w)
{
  /* Only the last one out of a closed job wakes the caller, and only one that sleeps.
   * Sequentially consistent, against close_job: either this sees `caller_sleeps` or the caller
   * sees the count. */
  uint64_t gate = atomic_fetch_sub(&w->gate, 1);
  if ((gate & OPEN) || (gate & INSIDE) != 1 || !atomic_load(&w->caller_sleeps)) return;
  pthread_mutex_lock(&w->sleep_lock);
  pthread_cond_signal(&w->done);
  pthread_mutex_unlock(&w->sleep_lock);
}

static void *thread_main(void *argument)
{
  struct member *member = argument;
  tsr__workers *w = member->workers;
  if (member->cpu < NO_CPU) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(member->cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one); /* advice: a refusal is no harm */
  }
  uint64_t seen = 0;
  for (;;) {
    wait_for_work(member, seen);
    if (atomic_load(&w->gate) & QUIT) return NULL;
    /* Another job, or none, by now. */
    if (!join_job(w, &seen)) continue;
    run_tasks(w, member->worker);
    leave_job(w);
  }
}

/* ---- starting and stopping ---- */

static bool init_locks(tsr__workers *w)
{
  if (pthread_mutex_init(&w->submit, NULL)) return false;
  if (!pthread_mutex_init(&w->sleep_lock, NULL)) {
    if (!pthread_cond_init(&w->wake, NULL)) {
      if (!pthread_cond_init(&w->done, NULL)) return true;
      pthread_cond_destroy(&w->wake);
    }
    pthread_mutex_destroy(&w->sleep_lock);
  }
  pthread_mutex_destroy(&w->submit);
  return false;
}

/* Threads run where the system puts them:
 * pinned ones of two processes would share a core while others idle, so that is for who knows that
 * the machine is theirs (TSR_PIN=1). */
static void start_threads(tsr__workers *w, int wanted)
{
  const char *pin = getenv("TSR_PIN");
  cpu_set_t set;
  int cpus = allowed_cpus(&set);
  bool pinned = pin && !strcmp(pin, "1") && wanted <= cpus;
  w->spins = wanted <= tsr__core_count() ? SPINS : 0;
  for (int i = 1; i < wanted; i++) {
    struct member *member = &w->member[w->started];
    *member =
        (struct member){ .workers = w, .worker = i, .cpu = pinned ? nth_cpu(&set, i) : NO_CPU };
    /* Fewer threads than asked for do the same work: tasks are handed out, not dealt. */
    if (!tsr__thread_start(&member->thread, TSR__THREAD_USERS, TSR__THREAD_STACK, thread_main,
                           member))
      break;
    w->started++;
  }
}

/* Everything but the threads. The allocator is the user's, so no lock is held here. */
static tsr__workers *new_workers(tsr_runtime *rt)
{
  size_t size = sizeof(tsr__workers) + (size_t)rt->opts.threads * sizeof(struct member);
  tsr__workers *w = tsr__new(&rt->heap, size);
  if (!w) return NULL;
  w->size = size;
  w->process = getpid();
  if (init_locks(w)) return w;
  tsr__del(&rt->heap, w, size);
  return NULL;
}

static void free_workers(tsr_runtime *rt, tsr__workers *w)
{
  pthread_cond_destroy(&w->done);
  pthread_cond_destroy(&w->wake);
  pthread_mutex_destroy(&w->sleep_lock);
  pthread_mutex_destroy(&w->submit);
  tsr__del(&rt->heap, w, w->size);
}

/* NULL when memory is short: the job then runs on the caller alone. In a child of fork the threads
 * do not exist, and its copies of their locks and conditions are in any state: a lock may be held
 * by a thread that is gone, and a signal may wait for one that slept. So the child starts its own;
 * the old ones' memory stays until the end, as another thread may be looking at it.
 * Threads are started at the first job that has use for them: a program of small work has none. */
static tsr__workers *open_workers(tsr_runtime *rt)
{
  tsr__workers *w = atomic_load_explicit(&rt->workers, memory_order_acquire);
  if (w && w->process == getpid()) return w;
  tsr__workers *fresh = new_workers(rt);
  if (!fresh) return NULL;
  pthread_mutex_lock(&rt->lock);
  w = atomic_load_explicit(&rt->workers, memory_order_relaxed);
  if (w && w->process != fresh->process) {
    fresh->before = w;
    w = NULL;
  }
  if (!w) {
    start_threads(fresh, rt->opts.threads);
    atomic_store_explicit(&rt->workers, fresh, memory_order_release);
  }
  pthread_mutex_unlock(&rt->lock);
  if (!w) return fresh;
  free_workers(rt, fresh); /* another caller was sooner */
  return w;
}

/* QUIT under the lock of sleepers: one that has looked at the gate and not yet slept would miss
 * it. */
static void stop_threads(tsr_runtime *rt, tsr__workers *w)
{
  pthread_mutex_lock(&w->sleep_lock);
  atomic_fetch_or(&w->gate, QUIT);
  pthread_cond_broadcast(&w->wake);
  pthread_mutex_unlock(&w->sleep_lock);
  for (int i = 0; i < w->started; i++) pthread_join(w->member[i].thread, NULL);
  free_workers(rt, w);
}

/* No job runs: the runtime is closed by one thread alone. */
void tsr__workers_stop(tsr_runtime *rt)
{
  tsr__workers *w = atomic_exchange(&rt->workers, NULL);
  if (!w) return;
  tsr__workers *old = w->process == getpid() ? w->before : w;
  if (w != old) stop_threads(rt, w);
  for (tsr__workers *before; old; old = before) {
    before = old->before;
    tsr__del(&rt->heap, old, old->size); /* whose locks nobody can destroy */
  }
}

int tsr__worker_count(tsr_runtime *rt)
{
  return rt && rt->opts.threads > 0 ? rt->opts.threads : 1;
}

/* ---- a job ---- */

/* A task that starts a job would be two workers of one number: better to say so. */
static void check_outside(tsr__workers *w)
{
  pthread_t self = pthread_self();
  TSR_INVARIANT(atomic_load(&w->caller) != (uintptr_t)self);
  for (int i = 0; i < w->started; i++) TSR_INVARIANT(!pthread_equal(w->member[i].thread, self));
}

/* `caller` is only compared with oneself (check_outside), so nothing is ordered by it. */
static bool take_pool(tsr__workers *w)
{
  /* Tried only: who finds it taken has work of its own to do meanwhile. */
  if (pthread_mutex_trylock(&w->submit)) return false;
  atomic_store_explicit(&w->caller, (uintptr_t)pthread_self(), memory_order_relaxed);
  return true;
}

static void wake_sleepers(tsr__workers *w, int64_t wanted)
{
  /* After the gate was opened: a sleeper that is not counted yet will look at the gate before it
   * sleeps. */
  int sleepers = atomic_load(&w->sleepers);
  if (!sleepers) return;
  pthread_mutex_lock(&w->sleep_lock);
  /* All of them, as a signal wakes any. */
  for (int i = 0; i < w->started && atomic_load_explicit(&w->meet, memory_order_relaxed); i++)
    steer(w, &w->member[i]);
  pthread_mutex_unlock(&w->sleep_lock);
  /* Behind the lock, which who is woken takes first. Those that are counted wait by now. */
  if (wanted >= sleepers) pthread_cond_broadcast(&w->wake);
  else
    for (int64_t i = 0; i < wanted; i++) pthread_cond_signal(&w->wake);
}

static bool all_left(uint64_t gate, uint64_t seen)
{
  (void)seen;
  return !(gate & INSIDE);
}

/* ---- long jobs: progress and cancelling ---- */

/* Whether this thread's last call was long enough ago, or of other work: who shows progress hears
 * of writing before a byte is out. Then this is its next. */
static bool is_due(tsr_runtime *rt, const char *what)
{
  int64_t now = tsr__now();
  uintptr_t self = tsr__thread_id(rt);
  pthread_mutex_lock(&rt->lock);
  tsr__asker *own = rt->asker;
  for (int i = 0; i < TSR__ASKERS; i++) {
    tsr__asker *a = &rt->asker[i];
    if (a->at && a->thread == self) {
      own = a;
      break;
    }
    if (a->at < own->at) own = a; /* the one that is silent for longest makes room */
  }
  bool mine = own->at && own->thread == self;
  bool due = !mine || what != own->what || now - own->at >= rt->progress_gap;
  if (due) *own = (tsr__asker){ self, now, what };
  pthread_mutex_unlock(&rt->lock);
  return due;
}

/* Asks the callback if it is time to; on the caller's thread only. */
static void ask(tsr__progress *progress)
{
  tsr_runtime *rt = progress->rt;
  if (!is_due(rt, progress->what)) return;
  /* A count for show: it may be behind by what runs at the moment. */
  int64_t done = atomic_load_explicit(&progress->done, memory_order_relaxed);
  if (!rt->opts.progress(progress->what, done, progress->total, rt->opts.progress_user))
    atomic_store_explicit(&progress->stop, true, memory_order_relaxed);
}

bool tsr__progress_stops(tsr__progress *progress, int worker)
{
  if (!progress->rt->opts.progress) return false;
  /* Worker 0 is the caller: callbacks run on the thread that called us. */
  if (worker == 0 && !atomic_load_explicit(&progress->stop, memory_order_relaxed)) ask(progress);
  return atomic_load_explicit(&progress->stop, memory_order_relaxed);
}

/* ---- the end of a job ---- */

/* When it is time to ask the callback again. The clock of pthread's timed waits, which may be set:
 * then one wait is shorter or longer. */
static struct timespec next_ask(void)
{
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += ASK_NS;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return until;
}

bool tsr__lock_long(pthread_mutex_t *lock, tsr__progress *progress)
{
  if (!pthread_mutex_trylock(lock)) return true;
  if (!progress->rt->opts.progress) {
    pthread_mutex_lock(lock);
    return true;
  }
  for (;;) {
    if (tsr__progress_stops(progress, 0)) return false;
    struct timespec until = next_ask();
    if (!pthread_mutex_timedlock(lock, &until)) return true;
  }
}

/* Waits until somebody left, at most until it is time to ask the callback again. */
static void wait_for_leavers(tsr__workers *w, bool asks)
{
  if (!asks) {
    pthread_cond_wait(&w->done, &w->sleep_lock);
    return;
  }
  struct timespec until = next_ask();
  pthread_cond_timedwait(&w->done, &w->sleep_lock, &until);
}

/* Waits for the tasks that others still have. One of them may be the longest of all, so a long job
 * goes on asking. */
static void close_job(tsr__workers *w, tsr__progress *progress)
{
  /* No thread can join from here on; those inside take what tasks are left, and none is when
   * this is called. */
  uint64_t gate = atomic_fetch_and(&w->gate, ~OPEN);
  if (!(gate & INSIDE) || wait_awake(w, all_left, 0)) return;
  pthread_mutex_lock(&w->sleep_lock);
  atomic_store(&w->caller_sleeps, 1);
  while (atomic_load(&w->gate) & INSIDE) {
    wait_for_leavers(w, progress != NULL);
    if (!progress) continue;
    pthread_mutex_unlock(&w->sleep_lock);
    /* Without the lock: the callback is the user's, and may take as long as it likes. */
    tsr__progress_stops(progress, 0);
    pthread_mutex_lock(&w->sleep_lock);
  }
  atomic_store(&w->caller_sleeps, 0);
  pthread_mutex_unlock(&w->sleep_lock);
}

typedef struct batch {
  int64_t count;
  tsr__task_fn fn;
  void *user;
  tsr__progress *progress; /* NULL: nobody asks */
} batch;

/*   task   0 1 2 | 3 4 5 6 7 ..      0 .. first - 1 alone, while the pool is another's; then shared
 */
static void run_batch(tsr_runtime *rt, const batch *job)
{
  tsr__workers *w = job->count > 1 && tsr__worker_count(rt) > 1 ? open_workers(rt) : NULL;
  if (!w) {
    for (int64_t task = 0; task < job->count; task++) job->fn(job->user, task, 0);
    return;
  }
  int64_t first = 0;
  /* Task by task, looking each time whether the pool is free by now; what is left then is
   * shared. */
  while (!take_pool(w)) {
    if (!first) check_outside(w);
    job->fn(job->user, first++, 0);
    if (first == job->count) return;
  }
  /* Nobody is inside and the gate is closed, so nobody reads these; opening the gate publishes
   * them. */
  w->fn = job->fn;
  w->user = job->user;
  w->count = job->count;
  atomic_store_explicit(&w->caller_cpu, sched_getcpu(), memory_order_relaxed);
  atomic_store_explicit(&w->next, first, memory_order_relaxed);
  uint64_t gate = atomic_load_explicit(&w->gate, memory_order_relaxed);
  /* A new number, so that threads know it for another job. 46 bits do not come round. */
  atomic_store(&w->gate, ((gate & JOB_MASK) + JOB) | OPEN);
  wake_sleepers(w, job->count - first - 1);
  run_tasks(w, 0);
  close_job(w, job->progress);
  atomic_store_explicit(&w->caller, 0, memory_order_relaxed);
  pthread_mutex_unlock(&w->submit);
}

void tsr__parallel(tsr_runtime *rt, int64_t count, tsr__task_fn fn, void *user)
{
  run_batch(rt, &(batch){ count, fn, user, NULL });
}

/* ---- long jobs ---- */

typedef struct long_job {
  tsr__progress *progress;
  tsr__task_fn fn;
  void *user;
} long_job;

static void long_task(void *user, int64_t task, int worker)
{
  long_job *job = user;
  if (tsr__progress_stops(job->progress, worker)) return;
  job->fn(job->user, task, worker);
  atomic_fetch_add_explicit(&job->progress->done, 1, memory_order_relaxed);
}

bool tsr__parallel_progress(tsr__progress *progress, int64_t count, tsr__task_fn fn, void *user)
{
  if (!progress->rt->opts.progress) {
    tsr__parallel(progress->rt, count, fn, user);
    return true;
  }
  progress->total = count;
  atomic_store(&progress->done, 0);
  if (tsr__progress_stops(progress, 0)) return false; /* others may take all that is to be done */
  long_job job = { progress, fn, user };
  run_batch(progress->rt, &(batch){ count, long_task, &job, progress });
  return !atomic_load(&progress->stop);
}

bool tsr__parallel_long(tsr_runtime *rt, const char *what, int64_t count, tsr__task_fn fn,
                        void *user)
{
  tsr__progress progress = { .rt = rt, .what = what };
  return tsr__parallel_progress(&progress, count, fn, user);
}

tsr_status tsr__cancelled(tsr__error *error, const char *what)
{
  return tsr__error_set(error, TSR_ECANCELLED, "%s: cancelled by the progress callback", what);
}
