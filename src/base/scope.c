/* Scopes: they own nodes and nested scopes, and keep the first error of their formulas.
 *
 *   root of thread 1         runtime.open[1] -> c -> a -> root
 *     | first_child          runtime.open[2] -> b
 *     v
 *     c -> b -> a            made of root's nodes: by thread 1 in c, by thread 2 in b
 *
 * Every open scope is in two lists, both under the runtime's lock: that of the scope around it, and
 * that of its thread, newest first, in which tsr__scope_here finds where a result belongs.
 *
 * Invariants: nodes are made in a scope by one thread at a time; everything it holds lies in its
 * arena, so closing it is: nested scopes, release hooks newest first, the arena. Release hooks may
 * call users: the scope is in no list by then and no lock is held. Closed scopes are kept by the
 * runtime (at most SPARES) so that a small formula allocates nothing.
 *
 * A scope that cannot be had is one of two constants. They are in read-only memory and shared by
 * all threads: every function here looks at `inert` before it writes. */
#include "base/base.h"

#include <limits.h>
#include <stdio.h>

/* Scopes kept for reuse, the nodes after which a scope is told of as crowded, and how many sites
 * are followed to say which line made them. */
#define SPARES 4
#define CROWD 100000
#define CANDIDATES 16

/* Their depth is beyond all others, so they are inside of whatever they meet. */
static const tsr_scope no_memory_scope = {
  .rt = (tsr_runtime *)&tsr__inert_runtime,
  .arena.heap = (tsr__heap *)&tsr__inert_runtime.heap,
  .depth = INT_MAX,
  .inert = true,
  .status = TSR_ENOMEM,
  .message = (char *)"TSR_ENOMEM: no memory was left to open a scope; close scopes that are no "
                     "longer needed",
};

static const tsr_scope no_parent_scope = {
  .rt = (tsr_runtime *)&tsr__inert_runtime,
  .arena.heap = (tsr__heap *)&tsr__inert_runtime.heap,
  .depth = INT_MAX,
  .inert = true,
  .status = TSR_EARG,
  .message = (char *)"TSR_EARG: a scope was opened on NULL; open it on a runtime or on a scope",
};

/* ---- errors ---- */

/* A call that is given nothing but NULL knows no scope, and no runtime either. Its error is kept
 * for the thread, as errno is, and every scope that the thread has open then takes it over once it
 * is looked at. It is the one thing that hangs on no runtime. */
static _Thread_local struct {
  uint32_t number; /* scopes know the number up to which they heard */
  bool closed;     /* some scope has heard it, or was opened since: the next error is another one */
  const char *call;
  tsr_status status;
  char text[1100];
} stray;

static void take_stray(tsr_scope *scope);

/* Room is kept with the scope and used again, as errors that are cleared in a loop would fill
 * its arena. */
static char *message_room(tsr_scope *scope, size_t size)
{
  if (size <= scope->message_size) return scope->message_room;
  char *room = tsr__arena_new(&scope->arena, size);
  if (!room) return NULL;
  scope->message_room = room;
  scope->message_size = size;
  return room;
}

/* What is said when there is no memory for the message itself. */
static const char *bare_message(tsr_status status)
{
  switch (status) {
#define STATUS_LINE(name, value, text) \
  case TSR_##name: return "TSR_" #name ": " text;
    TSR_STATUS_MAP(STATUS_LINE)
#undef STATUS_LINE
  }
  return "TSR_EUNKNOWN: a status this library does not know";
}

/* A text behind the name of the operation that it begins with, if it does. "tsr_maximum: dims .."
 * to "dims ..": the call that is made of it puts its own name there. */
static const char *behind_name(const char *text)
{
  size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
  bool named = strncmp(text, "tsr_", 4) == 0 && strncmp(text + name, ": ", 2) == 0;
  return named ? text + name + 2 : text;
}

/* A call that is made of others names itself, not the one that failed inside it. A call whose first
 * operand is NULL is open for its thread; others of it may have a scope. The names are taken out
 * meanwhile, so that the second round does not come here again. */
static tsr_status fail_by_name(tsr_scope *scope, const char *site, tsr_status status,
                               const char *format, va_list args)
{
  const char *call = scope ? scope->call : NULL, *astray = stray.call;
  tsr__error found = { .status = TSR_OK };
  tsr__error_vset(&found, status, format, args);
  if (scope) scope->call = NULL;
  stray.call = NULL;
  tsr__fail(scope, site, status, "tsr_%s: %s", call ? call : astray, behind_name(found.text));
  if (scope) scope->call = call;
  stray.call = astray;
  return status;
}

/* The first one is the cause, for who could hear it. */
static tsr_status fail_astray(const char *site, tsr_status status, const char *format, va_list args)
{
  if (stray.status && !stray.closed) return status;
  if (stray.call) return fail_by_name(NULL, site, status, format, args);
  tsr__error found = { .status = TSR_OK };
  tsr__error_vset(&found, status, format, args);
  stray.number++;
  stray.closed = false;
  stray.status = status;
  tsr__text_tame(found.text);
  int length = snprintf(stray.text, sizeof stray.text, "%s%s%s: %s", site ? site : "",
                        site ? ": " : "", tsr_status_name(status), found.text);
  if (length < 0) stray.text[0] = '\0';
  return status;
}

/*   "layer.c:7: " | "TSR_ESHAPE" ": " | text, tamed | what the heap has to add |
 *   front                              length        more
 */
static tsr_status vfail(tsr_scope *scope, const char *site, tsr_status status, const char *format,
                        va_list args)
{
  if (status == TSR_OK) return status;
  if (!scope) return fail_astray(site, status, format, args);
  if (scope->inert) return status;
  take_stray(scope);
  /* The first error of a scope is its cause; what follows from it is silent. One that tells another
   * scope has none any more once it is cleared there. */
  if (scope->status != TSR_OK && !(scope->tells && !scope->outer->status)) return status;
  if (scope->call || stray.call) return fail_by_name(scope, site, status, format, args);
  scope->status = status;
  /* Set before memory is asked for: if there is none, this is what is said. */
  scope->message = (char *)bare_message(status);
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (length < 0) return status;
  char more[256] = "";
  if (status == TSR_ENOMEM) tsr__heap_tell(&scope->rt->heap, more, sizeof more);
  const char *name = tsr_status_name(status);
  size_t front = (site ? strlen(site) + 2 : 0) + strlen(name) + 2;
  size_t size = front + (size_t)length + strlen(more) + 1;
  char *room = message_room(scope, size);
  if (!room) return status;
  snprintf(room, front + 1, "%s%s%s: ", site ? site : "", site ? ": " : "", name);
  vsnprintf(room + front, (size_t)length + 1, format, args);
  memcpy(room + front + length, more, strlen(more) + 1);
  /* Texts of users (names, values of files) may be in it. The site is the compiler's and stays
   * as it is. */
  tsr__text_tame(room + front);
  scope->message = room;
  if (scope->tells) tsr__fail(scope->outer, site, status, "%s", room + front);
  return status;
}

tsr_status tsr__fail(tsr_scope *scope, const char *site, tsr_status status, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  vfail(scope, site, status, format, args);
  va_end(args);
  return status;
}

tsr_status tsr__fail_error(tsr_scope *scope, const char *site, const tsr__error *error)
{
  if (!error || error->status == TSR_OK) return TSR_OK;
  return tsr__fail(scope, site, error->status, "%s", error->text);
}

const tsr_scope *tsr__scope_failed(const tsr_scope *scope)
{
  while (scope && scope->status == TSR_OK) scope = scope->outer;
  return scope;
}

/* Tells a scope that has no error one with a text of another's. */
static void set_error(tsr_scope *scope, tsr_status status, const char *message)
{
  scope->status = status;
  scope->message = (char *)bare_message(status);
  size_t size = strlen(message) + 1;
  char *room = message_room(scope, size);
  if (room) scope->message = memcpy(room, message, size);
}

static void take_stray(tsr_scope *scope)
{
  if (scope->inert || scope->heard == stray.number) return;
  if (scope->thread != tsr__thread_id(scope->rt)) return;
  scope->heard = stray.number;
  stray.closed = true;
  if (scope->status == TSR_OK && stray.status) set_error(scope, stray.status, stray.text);
}

/* Tells a scope the error of another one, in its words; the same one may be both. */
static tsr_status fail_as(tsr_scope *scope, const tsr_scope *other)
{
  if (!scope || scope->inert || scope == other) return other->status;
  take_stray(scope);
  if (scope->status == TSR_OK) set_error(scope, other->status, other->message);
  return other->status;
}

tsr_status tsr__fail_inert(tsr_scope *scope, const tsr_scope *of, const char *site,
                           const char *call, const char *what)
{
  if (!of)
    return tsr__fail(scope, site, TSR_EARG,
                     "%s: the %s is the result of a call with NULL; give that call its arguments",
                     call, what);
  const tsr_scope *failed = tsr__scope_failed(of);
  if (failed) return fail_as(scope, failed);
  return tsr__fail(
      scope, site, TSR_ESTATE,
      "%s: the %s is the result of a failed call whose error was cleared; make it again", call,
      what);
}

tsr_status tsr__fail_null(const char *call, const char *what, const char *site)
{
  return tsr__fail(NULL, site, TSR_EARG, "%s: the %s is NULL; give one", call, what);
}

tsr_status tsr__scope_usable(const tsr_scope *scope, const char *call, const char *site)
{
  if (!scope)
    return tsr__fail(NULL, site, TSR_EARG, "%s: the scope is NULL; open one with tsr_scope_open",
                     call);
  if (scope->inert) return scope->status;
  return scope->rt->error.status; /* the scope has said why */
}

/* NULL where nothing was opened, so that closing it does nothing. */
const char **tsr__call_open(tsr_scope *scope, const char *call)
{
  if (scope && scope->inert) return NULL;
  const char **slot = scope ? &scope->call : &stray.call;
  /* The outermost call is the one that the user wrote. */
  if (*slot) return NULL;
  *slot = call;
  return slot;
}

void tsr__call_close(const char ***opened)
{
  if (*opened) **opened = NULL;
}

tsr_status tsr_fail(tsr_scope *scope, tsr_status status, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  vfail(scope, NULL, status, format, args);
  va_end(args);
  return status;
}

/* Another thread may be at work in a scope around, whose errors are not looked at from here. */
const char *tsr_message(const tsr_scope *scope)
{
  if (!scope) return stray.status ? stray.text : "";
  for (uintptr_t thread = scope->thread; scope && scope->thread == thread; scope = scope->outer)
    if (tsr_scope_status(scope)) return scope->message ? scope->message : "";
  return "";
}

tsr_status tsr_scope_status(const tsr_scope *scope)
{
  if (!scope) return stray.status;
  take_stray((tsr_scope *)scope);
  return scope->status;
}

/* The room of the message stays for the next one. Nodes that are inert stay so. */
void tsr_scope_clear(tsr_scope *scope)
{
  if (!scope) stray.status = TSR_OK;
  if (!scope || scope->inert) return;
  take_stray(scope);
  scope->status = TSR_OK;
  scope->message = NULL;
}

/* ---- nodes ---- */

/* The site that made most nodes of a scope, by the Misra-Gries method: any site that made more
 * than 1/(CANDIDATES + 1) of them survives the first walk; the second walk counts exactly. J. Misra
 * and D. Gries, "Finding repeated elements" (1982): 16 counters however many lines there are. */
static const char *busiest_site(const tsr_scope *scope, int64_t *out_count)
{
  const char *site[CANDIDATES] = { 0 };
  int64_t count[CANDIDATES] = { 0 };
  for (const tsr__node *node = scope->nodes; node; node = node->next) {
    int at = -1, empty = -1;
    for (int i = 0; i < CANDIDATES && at < 0; i++) {
      if (count[i] && site[i] == node->site) at = i;
      if (!count[i]) empty = i;
    }
    if (at < 0) at = empty;
    if (at >= 0) {
      site[at] = node->site;
      count[at]++;
    } else {
      /* A node of a site that is no candidate strikes out one of each, itself among them: so a
       * site of more than its share cannot be struck out entirely. */
      for (int i = 0; i < CANDIDATES; i++) count[i]--;
    }
  }
  int best = 0;
  for (int i = 0; i < CANDIDATES; i++) {
    bool survived = count[i] > 0;
    count[i] = 0;
    if (!survived) continue;
    for (const tsr__node *node = scope->nodes; node; node = node->next)
      count[i] += node->site == site[i];
    if (count[i] > count[best]) best = i;
  }
  *out_count = count[best];
  return count[best] ? site[best] : NULL;
}

/* Once a scope, as it would be said at every node from here on. */
static void warn_crowd(tsr_scope *scope)
{
  scope->warned = true;
  if (!tsr__log_on(scope->rt, TSR_LOG_WARN, "base")) return;
  int64_t made = 0;
  const char *site = busiest_site(scope, &made);
  tsr__log(scope->rt, TSR_LOG_WARN, "base",
           "the scope opened at %s holds %lld nodes, %lld of them made at %s; "
           "open a scope for each step of a loop and move results out with tsr_keep",
           scope->site ? scope->site : "an unknown line", (long long)scope->node_count,
           (long long)made, site ? site : "many lines");
}

void *tsr__node_new(tsr_scope *scope, size_t size, const char *site, void (*release)(tsr__node *))
{
  if (!scope || scope->inert) return NULL;
  TSR_INVARIANT(size >= sizeof(tsr__node));
  tsr__node *node = tsr__arena_new(&scope->arena, size);
  if (!node) {
    tsr__fail(scope, site, TSR_ENOMEM,
              "no memory for a node of %zu bytes, the scope holds %lld nodes; close scopes that "
              "are no longer needed",
              size, (long long)scope->node_count);
    return NULL;
  }
  node->scope = scope;
  node->site = site;
  node->release = release;
  /* Newest first, which is the order in which they are released: users before their operands. */
  node->next = scope->nodes;
  scope->nodes = node;
  if (++scope->node_count > CROWD && !scope->warned) warn_crowd(scope);
  return node;
}

int64_t tsr_scope_node_count(const tsr_scope *scope)
{
  return scope ? scope->node_count : 0;
}

tsr_scope *tsr__scope_inner(tsr_scope *a, tsr_scope *b)
{
  if (!a || !b) return a ? a : b;
  /* Both are on one way to the root where this is asked, so the deeper one is the inner one;
   * whether they are is checked when operands are used (tsr__scope_encloses). */
  return b->depth > a->depth ? b : a;
}

/* As many steps as one is deeper than the other. */
bool tsr__scope_encloses(const tsr_scope *outer, const tsr_scope *scope)
{
  while (scope && scope->depth > outer->depth) scope = scope->outer;
  return scope == outer;
}

bool tsr__scope_traces(const tsr_scope *scope)
{
  while (scope && !scope->body) scope = scope->outer;
  return scope != NULL;
}

/* ---- opening ---- */

/* A new scope with nothing but the arena in order. Not zeroed: start_scope does that, but for the
 * block inside, which is most of it. */
static tsr_scope *new_scope(tsr_runtime *rt)
{
  tsr_scope *scope = tsr__new_raw(&rt->heap, sizeof *scope);
  if (!scope) return NULL;
  tsr__arena_init(&scope->arena, &rt->heap);
  tsr__arena_reset(&scope->arena, scope->inline_block, sizeof scope->inline_block);
  return scope;
}

/* All but the arena begins anew: nothing of what a kept scope was can be forgotten here. */
static void start_scope(tsr_scope *scope, tsr_runtime *rt, tsr_scope *outer, const char *site)
{
  tsr__arena arena = scope->arena;
  /* The first block lies in the scope and is most of it: it is not cleared, since only what is
   * handed out is zeroed. */
  memset(scope, 0, offsetof(tsr_scope, inline_block));
  scope->arena = arena;
  scope->rt = rt;
  scope->outer = outer;
  scope->thread = tsr__thread_id(rt);
  scope->depth = outer ? outer->depth + 1 : 0;
  scope->site = site;
  scope->heard = stray.number; /* what went before it is none of its errors */
  stray.closed = true;
}

static tsr_scope **list_of(tsr_runtime *rt, uintptr_t thread)
{
  return &rt->open[thread % TSR__SCOPE_LISTS];
}

/* Puts a scope at the head of the lists that it belongs to. Called under the lock. */
static void link_scope(tsr_scope *scope)
{
  tsr_scope **list = list_of(scope->rt, scope->thread), *outer = scope->outer;
  scope->older = *list;
  if (*list) (*list)->newer = scope;
  *list = scope;
  if (!outer) return;
  scope->next_sibling = outer->first_child;
  if (outer->first_child) outer->first_child->prev_sibling = scope;
  outer->first_child = scope;
  /* Relaxed: it only tells whether a look under the lock is worth it, and a thread sees its own
   * scopes. */
  atomic_fetch_add_explicit(&outer->nested, 1, memory_order_relaxed);
}

static void unlink_scope(tsr_scope *scope)
{
  tsr_scope **list = list_of(scope->rt, scope->thread), *outer = scope->outer;
  if (scope->newer) scope->newer->older = scope->older;
  else *list = scope->older;
  if (scope->older) scope->older->newer = scope->newer;
  if (!outer) return;
  if (scope->prev_sibling) scope->prev_sibling->next_sibling = scope->next_sibling;
  else outer->first_child = scope->next_sibling;
  if (scope->next_sibling) scope->next_sibling->prev_sibling = scope->prev_sibling;
  atomic_fetch_sub_explicit(&outer->nested, 1, memory_order_relaxed);
}

/* Kept scopes form a list through next_sibling; the head's depth is the length of the list. Called
 * under the lock. Its arena is empty already. */
static tsr_scope *pop_spare(tsr_runtime *rt)
{
  tsr_scope *scope = rt->spare;
  if (scope) rt->spare = scope->next_sibling;
  return scope;
}

static tsr_scope *open_scope(tsr_runtime *rt, tsr_scope *outer, const char *site)
{
  pthread_mutex_lock(&rt->lock);
  tsr_scope *scope = pop_spare(rt);
  if (!scope) {
    pthread_mutex_unlock(&rt->lock);
    /* The allocator is the user's and may call us: no lock is held. */
    scope = new_scope(rt);
    if (!scope) return (tsr_scope *)&no_memory_scope;
    pthread_mutex_lock(&rt->lock);
  }
  start_scope(scope, rt, outer, site);
  link_scope(scope);
  pthread_mutex_unlock(&rt->lock);
  /* A runtime that could not be opened has scopes that fail from the start, so that users find
   * its error where they look. */
  if (rt->error.status != TSR_OK) tsr__fail_error(scope, site, &rt->error);
  return scope;
}

tsr_scope *tsr_scope_open_at(tsr_runtime *rt, const char *site)
{
  if (!rt) return (tsr_scope *)&no_parent_scope;
  if (rt == &tsr__inert_runtime) return (tsr_scope *)&no_memory_scope;
  return open_scope(rt, NULL, site);
}

tsr_scope *tsr_scope_nest_at(tsr_scope *outer, const char *site)
{
  if (!outer) return (tsr_scope *)&no_parent_scope;
  return outer->inert ? outer : open_scope(outer->rt, outer, site);
}

/* ---- where results belong ---- */

/* A thread's own nested scopes are counted before it asks, so without any there is nothing to look
 * for: the usual case takes no lock. */
tsr_scope *tsr__scope_here(tsr_scope *scope)
{
  if (!scope || scope->inert) return scope;
  if (!atomic_load_explicit(&scope->nested, memory_order_relaxed)) return scope;
  tsr_runtime *rt = scope->rt;
  uintptr_t self = tsr__thread_id(rt);
  pthread_mutex_lock(&rt->lock);
  tsr_scope *own = *list_of(rt, self);
  /* Threads share lists, so the thread is compared, too. The list is newest first: the first that
   * fits is the innermost. */
  while (own && !(own->thread == self && tsr__scope_encloses(scope, own))) own = own->older;
  pthread_mutex_unlock(&rt->lock);
  return own ? own : scope;
}

/* Without the lock, for who closes the runtime and is alone. */
tsr_scope *tsr__scope_any(const tsr_runtime *rt)
{
  for (int i = 0; i < TSR__SCOPE_LISTS; i++)
    if (rt->open[i]) return rt->open[i];
  return NULL;
}

/* ---- closing ---- */

static void free_scope(tsr_runtime *rt, tsr_scope *scope)
{
  tsr__arena_free(&scope->arena);
  tsr__del(&rt->heap, scope, sizeof *scope);
}

/* Keeps an emptied scope for reuse unless there are enough. Called under the lock. */
static bool push_spare(tsr_runtime *rt, tsr_scope *scope)
{
  int kept = rt->spare ? rt->spare->depth : 0;
  if (kept >= SPARES) return false;
  scope->depth = kept + 1;
  scope->next_sibling = rt->spare;
  rt->spare = scope;
  return true;
}

/* Lets go of what nodes hold. The scope is in no list any more, so nobody else finds it. */
static void release_nodes(tsr_scope *scope)
{
  for (tsr__node *node = scope->nodes, *next; node; node = next) {
    next = node->next; /* read before the hook runs */
    if (node->release) node->release(node);
  }
}

void tsr__scope_rewind(tsr_scope *scope, const tsr__node *last)
{
  while (scope->nodes != last) {
    tsr__node *node = scope->nodes;
    scope->nodes = node->next;
    scope->node_count--;
    if (node->release) node->release(node);
  }
}

/* Closes a scope that has no nested scopes left. */
static void close_leaf(tsr_scope *scope)
{
  tsr_runtime *rt = scope->rt;
  pthread_mutex_lock(&rt->lock);
  unlink_scope(scope);
  pthread_mutex_unlock(&rt->lock);
  release_nodes(scope);
  for (tsr_scope *body = scope->retired, *next; body; body = next) {
    next = body->next_sibling;
    free_scope(rt, body);
  }
  /* Between the two locks: what the arena gives back goes to the user's allocator. */
  tsr__arena_reset(&scope->arena, scope->inline_block, sizeof scope->inline_block);
  pthread_mutex_lock(&rt->lock);
  bool kept = push_spare(rt, scope);
  pthread_mutex_unlock(&rt->lock);
  if (!kept) free_scope(rt, scope);
}

/* What nodes hold is let go now; their memory stays. They say that their scope is `to`, so whoever
 * asks one of them finds an open scope to be told in. */
void tsr__scope_retire(tsr_scope *scope, tsr_scope *to)
{
  while (scope->first_child) tsr__scope_close(scope->first_child);
  while (to->body) to = to->outer;
  pthread_mutex_lock(&scope->rt->lock);
  unlink_scope(scope);
  pthread_mutex_unlock(&scope->rt->lock);
  release_nodes(scope);
  for (tsr__node *node = scope->nodes; node; node = node->next) node->scope = to;
  pthread_mutex_lock(&scope->rt->lock);
  scope->next_sibling = to->retired;
  to->retired = scope;
  pthread_mutex_unlock(&scope->rt->lock);
}

/* Innermost first, without recursion: nesting may be deeper than the stack. */
void tsr__scope_close(tsr_scope *scope)
{
  if (scope->inert) return;
  for (tsr_scope *leaf = scope;;) {
    while (leaf->first_child) leaf = leaf->first_child;
    tsr_scope *outer = leaf->outer;
    bool last = leaf == scope;
    close_leaf(leaf);
    if (last) return;
    leaf = outer;
  }
}

/* A scope or one nested in it, in which a body is being traced; NULL: there is none. */
static tsr_scope *body_in(tsr_scope *scope)
{
  for (tsr_scope *at = scope;;) {
    if (at->body) return at;
    tsr_scope *next = at->first_child;
    while (!next && at != scope) {
      next = at->next_sibling;
      if (!next) at = at->outer;
    }
    if (!next) return NULL;
    at = next;
  }
}

void tsr_scope_close(tsr_scope *scope)
{
  if (!scope || scope->inert) return;
  tsr_scope *body = body_in(scope);
  if (body)
    tsr__fail(body, NULL, TSR_ESTATE,
              "tsr_scope_close: the library closes the scope of a body that is being traced; leave "
              "the scope open");
  else tsr__scope_close(scope);
}
