/* The runtime: what lives longer than one formula. base/ owns the struct, the rooms above fill
 * its slots and leave a destructor with each.
 *
 * Invariants: a runtime is never NULL for the user; one that could not be allocated is a
 * constant that refuses everything. Closing goes from the outside in: scopes, slots in reverse
 * order, workers, log, the struct. What was given away holds the slots of memory, the heap and the
 * log until it is given back. */
#include "base/events.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_THREADS 4096

/* Its heap has no functions, so whatever is asked of it is refused without writing to it. */
const tsr_runtime tsr__inert_runtime = {
  .error = { TSR_ENOMEM, "no memory was left to open a runtime" },
  .lock = PTHREAD_MUTEX_INITIALIZER,
};

/* Copies options of a caller compiled against an older or newer header: what it does not know is
 * zero, what we do not know must be zero. */
static bool copy_options(tsr_runtime_opts *out, const tsr_runtime_opts *opts)
{
  memset(out, 0, sizeof *out);
  if (!opts) return true;
  size_t size = opts->size ? opts->size : sizeof *out;
  const unsigned char *bytes = (const unsigned char *)opts;
  for (size_t i = sizeof *out; i < size; i++)
    if (bytes[i]) return false;
  memcpy(out, opts, size < sizeof *out ? size : sizeof *out);
  out->size = sizeof *out;
  return true;
}

/* All options are looked at, but the first mistake is the one that stays. */
static void check_options(tsr_runtime *rt, bool known)
{
  const tsr_runtime_opts *o = &rt->opts;
  if (!known)
    tsr__runtime_fail(rt, TSR_EUNSUPPORTED,
                      "tsr_runtime_open: an option is set that version %s does not know; load the "
                      "library that the program was compiled for",
                      tsr_version());
  if (o->threads < 0 || o->threads > MOST_THREADS)
    tsr__runtime_fail(rt, TSR_EARG,
                      "tsr_runtime_open: .threads is %d, expected 1 to %d, or 0 for one per core",
                      o->threads, MOST_THREADS);
  if (o->memory_limit < 0)
    tsr__runtime_fail(rt, TSR_EARG,
                      "tsr_runtime_open: .memory_limit is %lld bytes, expected "
                      "a positive number, or 0 for no limit",
                      (long long)o->memory_limit);
  if (o->plan_cache < 0)
    tsr__runtime_fail(rt, TSR_EARG,
                      "tsr_runtime_open: .plan_cache is %d plans, expected a "
                      "positive number, or 0 for 256",
                      o->plan_cache);
  if (o->allocator && (!o->allocator->allocate || !o->allocator->release))
    tsr__runtime_fail(rt, TSR_EARG, "tsr_runtime_open: .allocator lacks %s; set both functions",
                      o->allocator->allocate ? "release" : "allocate");
}

/* The option before the environment; an empty one asks for nothing. */
static void read_check(tsr_runtime *rt)
{
  const char *own = rt->opts.check_floats, *ask = own ? own : getenv("TSR_CHECK_FLOATS");
  rt->opts.check_floats = NULL;
  if (!ask || !*ask) return;
  if (!strcmp(ask, "nan")) rt->check = TSR__CHECK_NAN;
  else if (!strcmp(ask, "inf")) rt->check = TSR__CHECK_INF;
  else
    tsr__runtime_fail(rt, TSR_EARG,
                      "tsr_runtime_open: %s is \"%.40s\", expected \"nan\", or \"inf\" for both",
                      own ? ".check_floats" : "$TSR_CHECK_FLOATS", ask);
}

/* The user's pointers are borrowed for the call only, so what stays points to our copies. After the
 * checks, whose messages name what was given. */
static void keep_options(tsr_runtime *rt)
{
  if (rt->opts.isa) {
    snprintf(rt->isa_name, sizeof rt->isa_name, "%s", rt->opts.isa);
    rt->opts.isa = rt->isa_name;
  }
  if (rt->opts.allocator) rt->opts.allocator = &rt->heap.fn;
  if (rt->opts.threads <= 0 || rt->opts.threads > MOST_THREADS) rt->opts.threads = 0;
  if (!rt->opts.threads) rt->opts.threads = tsr__core_count();
  if (!rt->opts.plan_cache) rt->opts.plan_cache = 256;
}

tsr_runtime *tsr__runtime_new(const tsr_runtime_opts *opts)
{
  tsr_runtime_opts options;
  bool known = copy_options(&options, opts);
  tsr__heap heap;
  /* The heap lives in the struct that it makes: this one is only for the first block. */
  tsr__heap_init(&heap, options.allocator);
  tsr_runtime *rt = tsr__new(&heap, sizeof *rt);
  if (!rt) return (tsr_runtime *)&tsr__inert_runtime;
  tsr__heap_init(&rt->heap, options.allocator);
  atomic_store_explicit(&rt->heap.live, 1, memory_order_relaxed); /* the runtime itself */
  rt->opts = options;
  atomic_init(&rt->workers, NULL);
  atomic_init(&rt->loans, 1);
  /* 20 ms between two calls of the progress callback of a thread. */
  rt->progress_gap = INT64_C(20000000);
  if (pthread_mutex_init(&rt->lock, NULL)) {
    tsr__del(&rt->heap, rt, sizeof *rt);
    return (tsr_runtime *)&tsr__inert_runtime;
  }
  rt->keyed = !pthread_key_create(&rt->thread_key, NULL);
  if (!rt->keyed)
    tsr__runtime_fail(rt, TSR_ENOMEM,
                      "tsr_runtime_open: the system has no thread key left, and each open runtime "
                      "needs one; close runtimes that are no longer needed");
  /* Bad options make a runtime that has an error, which its scopes tell: the call itself has no
   * status. */
  check_options(rt, known);
  read_check(rt);
  keep_options(rt);
  /* Last, since it reads options and may call the user's function. */
  tsr__log_open(rt);
  return rt;
}

/* The runtime's own error, which its scopes tell; the inert one has its error for good. */
tsr_status tsr__runtime_fail(tsr_runtime *rt, tsr_status status, const char *format, ...)
{
  if (!rt || rt == &tsr__inert_runtime) return status;
  va_list args;
  va_start(args, format);
  tsr__error_vset(&rt->error, status, format, args);
  va_end(args);
  return status;
}

void tsr__slot_stay(tsr_runtime *rt, void *slot)
{
  (void)rt, (void)slot;
}

/* `lent`: something was given away. Slots of memory end their work then, and stay. */
static void free_slots(tsr_runtime *rt, bool lent)
{
  /* From the highest room down: each may use those below it while it goes. */
  for (int i = TSR__SLOTS - 1; i >= 0; i--) {
    void *slot = rt->slots[i];
    bool stays = lent && rt->slot_leave[i];
    void (*go)(tsr_runtime *, void *) = stays ? rt->slot_leave[i] : rt->slot_free[i];
    if (!stays) rt->slots[i] = NULL;
    if (slot && go) go(rt, slot);
  }
}

/* What is left when nobody has anything of the runtime any more. */
static void end(tsr_runtime *rt)
{
  free_slots(rt, false);
  tsr__heap_trim(&rt->heap);
  /* Less the runtime and its log, which are still there. */
  long long live = (long long)atomic_load(&rt->heap.live) - 1 - (rt->log != NULL);
  if (live)
    tsr__log(rt, TSR_LOG_ERROR, "base",
             "%lld blocks of memory were still held when the runtime closed", live);
  tsr__log_close(rt);
  if (rt->keyed) pthread_key_delete(rt->thread_key);
  pthread_mutex_destroy(&rt->lock);
  tsr__heap heap;
  /* A copy, as the heap that frees the struct lies in it. */
  tsr__heap_init(&heap, &rt->heap.fn);
  tsr__del(&heap, rt, sizeof *rt);
}

/* Counted up, so none comes again. What a thread has under a key goes with the thread, and what it
 * had under a key of a runtime that was closed is not found by another that has the key now. A
 * thread that the system cannot keep a number for has a new one each time: nothing is its own. */
uintptr_t tsr__thread_id(tsr_runtime *rt)
{
  uintptr_t id = rt->keyed ? (uintptr_t)pthread_getspecific(rt->thread_key) : 0;
  if (id) return id;
  id = 1 + atomic_fetch_add_explicit(&rt->thread_count, 1, memory_order_relaxed);
  /* The number itself stands where an address might: nothing is to be freed when a thread ends. */
  if (rt->keyed) pthread_setspecific(rt->thread_key, (void *)id);
  return id;
}

void tsr__runtime_hold(tsr_runtime *rt)
{
  atomic_fetch_add_explicit(&rt->loans, 1, memory_order_relaxed);
}

void tsr__runtime_let_go(tsr_runtime *rt)
{
  /* Whoever ends it must see what all others did. */
  if (atomic_fetch_sub_explicit(&rt->loans, 1, memory_order_acq_rel) == 1) end(rt);
}

/* By one thread, when no other uses the runtime but to give back what it was given: nothing here is
 * locked against it. */
void tsr_runtime_close(tsr_runtime *rt)
{
  /* NULL and the constant: nothing to close. */
  if (!rt || rt == &tsr__inert_runtime) return;
  /* Those still open: their nodes may hold values of devices, which slots own, so scopes go
   * first. */
  for (tsr_scope *scope; (scope = tsr__scope_any(rt));) tsr__scope_close(scope);
  free_slots(rt, atomic_load(&rt->loans) > 1);
  /* After the slots, whose work may still run on them. */
  tsr__workers_stop(rt);
  for (tsr_scope *spare = rt->spare, *next; spare; spare = next) {
    next = spare->next_sibling;
    tsr__arena_free(&spare->arena);
    tsr__del(&rt->heap, spare, sizeof *spare);
  }
  tsr__sites_free(rt);
  tsr__events recorded; /* that nobody asked for */
  if (tsr__events_take(rt, &recorded)) tsr__events_free(rt, &recorded);
  tsr__runtime_let_go(rt);
}

tsr_status tsr_runtime_status(const tsr_runtime *rt)
{
  return rt ? rt->error.status : TSR_EARG;
}

const char *tsr_runtime_message(const tsr_runtime *rt)
{
  if (!rt) return "the runtime is NULL";
  return rt->error.status != TSR_OK ? rt->error.text : "";
}
