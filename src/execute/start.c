/* Programs that are started and waited for later.
 *
 *   caller   trace, plan, bind --> queue                   wait --> values on nodes, or an error
 *   runner                             --> run in order -->
 *
 * On devices with queues the runner has a program queued when it goes on to the next one, and the
 * caller waits for the devices. The runner waits for a program that nobody will ask for any more,
 * when it has nothing else to do.
 *
 * One thread a runtime, made at the first start, runs the bound programs one after another on the
 * pool of workers. It touches no node and no scope: its results stay in the job until the thread
 * that owns the nodes waits, traces over one of them or releases them.
 *
 * Several processes meet in the order in which programs run, which is that of the calls on all of
 * them: whatever else meets waits until all that was started is done, and none is left out. */
#include "base/thread.h"
#include "execute/engine.h"

#include <unistd.h>

typedef struct job {
  tsr__pending pending; /* first: what nodes point to */
  struct job *next;
  tsr__starter *starter;
  tsr__exec exec;
  tsr__error error;
  bool cached, done; /* done: under the starter's lock */
  int left;          /* roots that point here; under the lock */
  int count;
  size_t bytes;
  struct root {
    tsr_array *array; /* NULL: let go */
    int node;
  } root[];
} job;

struct tsr__starter {
  tsr_runtime *rt;
  tsr__engine *engine;
  pthread_mutex_t lock;
  pthread_cond_t more, done;
  job *first, **last;
  job *forgotten; /* under way on devices, and no node refers to them */
  int unfinished; /* that wait or run */
  pthread_t thread;
  pid_t process; /* whose thread it is: a child of fork has none */
  bool quit;
};

static void free_start_job(job *j)
{
  tsr__unbind(j->starter->engine, &j->exec);
  tsr__del(&j->starter->rt->heap, j, j->bytes);
}

static void end_job(job *j)
{
  tsr__run_end(&j->exec);
  free_start_job(j);
}

/* ---- the runner -------------------------------------------------------------------------- */

/* The next job to run, or one to end that was forgotten, which is `done`; NULL at the end. */
static job *next_job(tsr__starter *s)
{
  pthread_mutex_lock(&s->lock);
  while (!s->first && !s->forgotten && !s->quit) pthread_cond_wait(&s->more, &s->lock);
  /* Jobs that wait when the runtime closes are not run: nobody can read them any more. */
  job *j = s->quit ? NULL : s->first;
  if (j) {
    if (!(s->first = j->next)) s->last = &s->first;
  } else {
    j = s->forgotten;
    if (j) s->forgotten = j->next;
  }
  pthread_mutex_unlock(&s->lock);
  return j;
}

static void run_started(tsr__starter *s, job *j)
{
  /* Its error goes to the job, which whoever waits will read. */
  tsr__run_begin(&j->exec);
  pthread_mutex_lock(&s->lock);
  j->done = true;
  s->unfinished--;
  /* Read under the lock together with setting `done`: of runner and forgetter exactly one sees
   * both, and ends the job. */
  bool forgotten = j->left == 0;
  pthread_cond_broadcast(&s->done);
  pthread_mutex_unlock(&s->lock);
  if (forgotten) end_job(j);
}

static void *runner(void *user)
{
  tsr__starter *s = user;
  if (tsr__peers_of(s->rt)) tsr__thread_wake_soon();
  for (job *j; (j = next_job(s));) {
    if (j->done) end_job(j);
    else run_started(s, j);
  }
  return NULL;
}

/* Until all that was started is done; not of the runner itself, which is at one of them. */
static void wait_all(void *user)
{
  tsr__starter *s = user;
  if (pthread_equal(pthread_self(), s->thread)) return;
  pthread_mutex_lock(&s->lock);
  while (s->unfinished) pthread_cond_wait(&s->done, &s->lock);
  pthread_mutex_unlock(&s->lock);
}

/* NULL: no memory, or no thread; tsr__start then runs programs at once. */
static tsr__starter *starter_new(tsr_runtime *rt, tsr__engine *engine)
{
  tsr__starter *s = tsr__new(&rt->heap, sizeof *s);
  if (!s) return NULL;
  s->rt = rt;
  s->engine = engine;
  s->last = &s->first;
  s->process = getpid();
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->more, NULL);
  pthread_cond_init(&s->done, NULL);
  if (tsr__thread_start(&s->thread, TSR__THREAD_USERS, 0, runner, s)) {
    if (tsr__peers_of(rt)) tsr__peers_await(tsr__peers_of(rt), wait_all, s);
    return s;
  }
  pthread_cond_destroy(&s->done);
  pthread_cond_destroy(&s->more);
  pthread_mutex_destroy(&s->lock);
  tsr__del(&rt->heap, s, sizeof *s);
  return NULL;
}

/* The runtime's runner; NULL where there can be none. */
static tsr__starter *starter_of(tsr_runtime *rt, tsr__engine *engine)
{
  pthread_mutex_lock(&engine->room_lock);
  if (!engine->starter) engine->starter = starter_new(rt, engine);
  tsr__starter *s = engine->starter;
  pthread_mutex_unlock(&engine->room_lock);
  return s;
}

void tsr__starter_free(tsr__starter *s)
{
  if (!s) return;
  tsr__peers *peers = tsr__peers_of(s->rt);
  /* In a child of fork the locks are as the thread left them, so only the starter is freed. */
  if (s->process != getpid()) {
    tsr__del(&s->rt->heap, s, sizeof *s);
    return;
  }
  /* Others may wait for them. */
  if (peers) wait_all(s);
  if (peers) tsr__peers_await(peers, NULL, NULL);
  pthread_mutex_lock(&s->lock);
  s->quit = true;
  pthread_cond_broadcast(&s->more);
  pthread_mutex_unlock(&s->lock);
  /* A program under way is finished first; it cannot be interrupted from here. */
  pthread_join(s->thread, NULL);
  for (job *j = s->first, *next; j; j = next) { /* nobody is left to ask for them */
    next = j->next;
    free_start_job(j);
  }
  pthread_cond_destroy(&s->done);
  pthread_cond_destroy(&s->more);
  pthread_mutex_destroy(&s->lock);
  tsr__del(&s->rt->heap, s, sizeof *s);
}

/* ---- nodes and jobs ---------------------------------------------------------------------- */

/* Without waiting for devices. */
static void leave_to_runner(job *j)
{
  tsr__starter *s = j->starter;
  pthread_mutex_lock(&s->lock);
  j->next = s->forgotten;
  s->forgotten = j;
  pthread_cond_signal(&s->more);
  pthread_mutex_unlock(&s->lock);
}

/* A node is freed, or has its value. The last to use a job that no node refers to frees it: the
 * runner, if the job is not over yet. */
static void forget(tsr__pending *pending, tsr_array *array)
{
  job *j = (job *)pending;
  /* Nodes are touched by their own thread alone, so this needs no lock; `left` and `done` are
   * shared with the runner. */
  array->pending = NULL;
  for (int i = 0; i < j->count; i++)
    if (j->root[i].array == array) j->root[i].array = NULL;
  pthread_mutex_lock(&j->starter->lock);
  bool last = --j->left == 0 && j->done;
  pthread_mutex_unlock(&j->starter->lock);
  if (last && j->exec.under_way) leave_to_runner(j);
  else if (last) free_start_job(j);
}

tsr_status tsr__pending_wait(tsr_array *array, tsr__error *error)
{
  job *j = (job *)array->pending;
  pthread_mutex_lock(&j->starter->lock);
  /* One condition for all jobs: few wait at once, and each looks at its own. */
  while (!j->done) pthread_cond_wait(&j->starter->done, &j->starter->lock);
  pthread_mutex_unlock(&j->starter->lock);
  tsr_status status = tsr__run_end(&j->exec);
  if (status) *error = j->error;
  if (!status) tsr__note_stats(array->node.scope, &j->exec, j->cached);
  for (int i = 0, count = j->count; i < count; i++) {
    tsr_array *root = j->root[i].array;
    bool last = j->left == 1; /* only this thread's nodes point here */
    if (!root) continue;
    /* It may be deleted meanwhile; somebody may need it all the same. */
    bool read = !root->deleted || tsr__array_users(root);
    if (!status && read) tsr__exec_settle(&j->exec, root, j->root[i].node);
    forget(&j->pending, root);
    if (last) break;
  }
  return status;
}

/* Nodes that are neither evaluated nor under way, each once. */
static int take_roots(job *j, tsr_array *const *roots, int count)
{
  for (int i = 0; i < count; i++) {
    bool known = (roots[i]->value && !roots[i]->deleted) || roots[i]->pending;
    for (int k = 0; k < j->count && !known; k++) known = j->root[k].array == roots[i];
    if (!known) j->root[j->count++].array = roots[i];
  }
  return j->count;
}

static void enqueue(job *j)
{
  for (int i = 0; i < j->count; i++) {
    j->root[i].node = j->exec.homes[i];
    j->root[i].array->pending = &j->pending;
  }
  j->left = j->count;
  pthread_mutex_lock(&j->starter->lock);
  *j->starter->last = j;
  j->starter->last = &j->next;
  j->starter->unfinished++;
  pthread_cond_signal(&j->starter->more);
  pthread_mutex_unlock(&j->starter->lock);
}

/* A process without memory for a job runs the program at once and meets the others' runners
 * there; within a run of this thread the program is part of that run. */
tsr_status tsr__start(tsr_scope *scope, tsr_array *const *roots, int count, tsr__error *error)
{
  tsr_runtime *rt = scope->rt;
  tsr__peers *peers = tsr__peers_of(rt);
  if (peers && tsr__peers_in_run(peers)) return tsr__evaluate(scope, roots, count, error);
  tsr__engine *engine = rt->slots[TSR__SLOT_PLANS];
  tsr__starter *starter = starter_of(rt, engine);
  size_t bytes = sizeof(job) + (size_t)count * (sizeof(struct root) + sizeof(tsr_array *));
  job *j = starter ? tsr__new(&rt->heap, bytes) : NULL;
  if (!j) return tsr__evaluate(scope, roots, count, error); /* then it is done at once */
  *j = (job){ .pending = { forget }, .starter = starter, .bytes = bytes };
  /* The list of roots to trace follows the roots in the same block. */
  tsr_array **fresh = (tsr_array **)(j->root + count);
  take_roots(j, roots, count);
  for (int i = 0; i < j->count; i++) fresh[i] = j->root[i].array;
  j->exec = (tsr__exec){ .rt = rt, .keeps = true, .error = &j->error };
  tsr_status status =
      j->count ? tsr__prepare(engine, fresh, j->count, &j->exec, &j->cached) : TSR_OK;
  if (status) *error = j->error;
  if (!status && j->count) enqueue(j);
  else free_start_job(j);
  return status ? tsr__refuse_run((tsr__operands){ roots, count }, true, error) : TSR_OK;
}
