/* Level 0: memory, scopes, errors, text, hashing, logging and workers.
 *
 * No mutable globals live anywhere in the library: all state hangs on a runtime. base/ owns
 * the runtime's struct but not what it is made of: the rooms above put their parts into its
 * slots, and each slot carries its own destructor.
 *
 * Lock order: runtime lock, then pool lock, then heap lock. No callback runs under a lock. */
#ifndef TSR_BASE_BASE_H
#define TSR_BASE_BASE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include "base/hash_table.h"
#include "base/hash_tree.h"
#include "base/latch.h"
#include "tessera/base.h"
#include "tessera/scalar.h"

/* ---- memory of the library itself (heap.c) ------------------------------------------- */

/* A counted front of the user's allocator: 64-byte aligned where a block is larger than 512 bytes,
 * else as malloc; zeroed, may return NULL. */
typedef struct tsr__heap {
  tsr_allocator fn;
  _Atomic int64_t live; /* blocks not yet freed: 0 after a clean close */
  _Atomic int64_t used; /* bytes in them, but for those of pools, which count their own */
  _Atomic int64_t
      beyond; /* what `used` would have come to when `limit` refused it; 0: it did not, or told */
  /* Of `used`: the host's share of .memory_limit; 0: none. Set when there are devices; the
   * coordinator's thread may be there before. */
  _Atomic int64_t limit;
  uint64_t seed;    /* drawn anew for each heap: of hashes that strangers must not foresee */
  tsr__latch latch; /* of what follows, and of reserves */
  struct tsr__spare_pages {
    char *at;
    size_t size; /* whole huge pages */
  } pages[8];    /* given back and kept for who asks next, as clearing others takes long */
  int page_count;
} tsr__heap;

void tsr__heap_init(tsr__heap *heap, const tsr_allocator *user);
bool tsr__heap_is_default(const tsr__heap *heap); /* false: all memory comes from the user's */
void *tsr__new(tsr__heap *heap, size_t size);     /* zeroed; NULL when refused */
void *tsr__new_raw(tsr__heap *heap, size_t size); /* not zeroed */
void tsr__del(tsr__heap *heap, void *block, size_t size); /* NULL is allowed */
/* For what is large and soon given back: a block of whole pages goes back as a whole, where malloc
 * would keep it between blocks that stay. Some pages stay with the heap for later ones, unless
 * there is a limit. */
void *tsr__new_once(tsr__heap *heap, size_t size); /* not zeroed */
void tsr__del_once(tsr__heap *heap, void *block, size_t size);
bool tsr__heap_trim(tsr__heap *heap); /* gives such pages to the system; whether there were some */
size_t tsr__whole_pages(size_t size); /* of a block that is to be one, for as many bytes */
void *tsr__new_pooled(tsr__heap *heap, size_t size); /* not zeroed, and no part of `used` */
void tsr__del_pooled(tsr__heap *heap, void *block, size_t size);
/* What is to be said behind the message of a TSR_ENOMEM if `limit` was the cause, once; else "". */
void tsr__heap_tell(tsr__heap *heap, char *out, size_t size);
/* Grows an array of `*capacity` elements to hold `need`; false when refused, nothing changed. */
bool tsr__grow(tsr__heap *heap, void **array, size_t *capacity, size_t need, size_t element);
/* Copies a list that has grown to the length that it has come to, by which it is freed then. False:
 * out of memory; the list is freed, and NULL. */
bool tsr__trim(tsr__heap *heap, void **array, size_t capacity, size_t count, size_t element);

#define TSR__HUGE_PAGE ((size_t)2 << 20)
/* A block of the system that begins at a huge page, with huge pages under it where it has some:
 * advice only, small pages work as well. Counted as the heap's blocks are, so that a clean close
 * leaves none, and no part of `used`. NULL: the system has none left. */
void *tsr__map_huge(tsr__heap *heap, size_t size);
void tsr__unmap_huge(tsr__heap *heap, void *block, size_t size);

/* Address space for a block whose size shows while it is filled, by several threads: memory is
 * there where it is written, and the block never moves. */
typedef struct tsr__reserve {
  tsr__heap *heap;
  char *at; /* NULL: none */
  size_t most;
  size_t taken;  /* what of it is part of heap->used */
  size_t backed; /* up to where it was given pages that were kept */
} tsr__reserve;

/* False: the memory is a user's allocator's, or the system has no such range of addresses. */
bool tsr__reserve_open(tsr__reserve *reserve, tsr__heap *heap, size_t most);
/* Its first `end` bytes will be written; false: the limit refuses more. */
bool tsr__reserve_take(tsr__reserve *reserve, size_t end);
/* Its first bytes as a block for tsr__del_once, of `*size` then, and closes it; NULL when
 * refused. */
void *tsr__reserve_keep(tsr__reserve *reserve, size_t *size);
void tsr__reserve_close(tsr__reserve *reserve);

/* ---- device memory (pool.c) ------------------------------------------------------------ */

/* A caching pool: 64-byte aligned blocks, size classes, blocks of 2 MB and more in huge
 * pages; freed blocks are kept and reused newest first. One pool a device; thread-safe. */
typedef struct tsr__pool tsr__pool;

/* Where a pool's blocks come from instead of the heap: memory that other processes can read. */
typedef struct tsr__pool_source {
  void *(*take)(void *user, size_t bytes); /* aligned by 64; NULL: none */
  void (*give)(void *user, void *block, size_t bytes);
  /* Called before a block is written to by the pool or is lent: in a child of fork it takes care
   * that this is no longer the parent's memory. */
  void (*own)(void *user);
  void *user;
} tsr__pool_source;

tsr__pool *tsr__pool_open(tsr__heap *heap, int64_t limit);
void tsr__pool_from(tsr__pool *pool, const tsr__pool_source *source); /* before the first block */
void tsr__pool_close(tsr__pool *pool);
void *tsr__pool_take(tsr__pool *pool, size_t bytes);     /* NULL: limit or memory (see which) */
bool tsr__pool_would_fit(tsr__pool *pool, size_t bytes); /* false: the limit is what refuses */
void tsr__pool_give(tsr__pool *pool, void *block, size_t bytes);
/* So many blocks of a size will be taken by turns, for long: they lie side by side in large pages
 * where that is worth it. A hint: nothing fails by it. */
void tsr__pool_expect(tsr__pool *pool, size_t bytes, int count);
tsr_memory tsr__pool_memory(tsr__pool *pool);
/* Tests: fill every free and every new block with 0xCB so that reads of strangers show. */
void tsr__pool_poison(tsr__pool *pool, bool on);

/* ---- arenas: many small things freed together (arena.c) -------------------------------- */

/* The first block lives inside the struct, so that a small scope allocates nothing. */
typedef struct tsr__arena {
  tsr__heap *heap;
  struct tsr__arena_block *blocks;
  struct tsr__arena_block *kept; /* an empty block left by tsr__arena_reset, or NULL */
  char *at, *end;
} tsr__arena;

void tsr__arena_init(tsr__arena *arena, tsr__heap *heap);
void tsr__arena_free(tsr__arena *arena);
/* Empties an arena for another use of `first` (borrowed); keeps one small block at hand. */
void tsr__arena_reset(tsr__arena *arena, void *first, size_t length);
/* Takes back what was handed out since `then`, a copy of the arena, unless blocks were added. */
static inline void tsr__arena_back(tsr__arena *arena, const tsr__arena *then)
{
  if (arena->blocks == then->blocks && arena->end == then->end) arena->at = then->at;
}
/* Bytes that surely can be had. */
static inline size_t tsr__arena_left(const tsr__arena *arena)
{
  return (size_t)(arena->end - arena->at);
}
void *tsr__arena_new(tsr__arena *arena, size_t size); /* zeroed, 16-aligned, or NULL */
void *tsr__arena_raw(tsr__arena *arena, size_t size); /* the same, not zeroed */
/* Makes room for one element more after `count`; the list before stays in the arena. False: out of
 * memory, nothing changed. */
bool tsr__arena_grow(tsr__arena *arena, void **array, int *room, int count, size_t element);
char *tsr__arena_text(tsr__arena *arena, const char *text, size_t length); /* copy + NUL */

/* ---- text (text.c) --------------------------------------------------------------------- */

/* A text builder that never fails visibly: out of memory, it drops text and sets `failed`. */
typedef struct tsr__text {
  tsr__heap *heap; /* NULL: malloc */
  char *data;      /* NUL-terminated once anything was added; may be NULL while empty */
  size_t length, capacity;
  bool failed;
} tsr__text;

void tsr__text_init(tsr__text *text, tsr__heap *heap);
void tsr__text_free(tsr__text *text);
void tsr__text_add(tsr__text *text, const char *format, ...) TSR_PRINTF(2, 3);
void tsr__text_put(tsr__text *text, const char *bytes, size_t length);
void tsr__text_pad(tsr__text *text, char fill, int count);
const char *tsr__text_get(const tsr__text *text); /* never NULL */
/* As a JSON text, with its quotes; what is no UTF-8, or would steer a terminal, is a question
 * mark. */
void tsr__text_json(tsr__text *text, const char *words);
/* The end of "folder/file.c:12" behind the folders; "" for NULL. */
const char *tsr__site_file(const char *site);
/* Shortest text of a double that reads back to the same bits; "nan", "inf", "-inf"; an
 * integer value prints without ".0". `out` holds 32 bytes. Locale-independent. */
int tsr__text_f64(char *out, double value);
int tsr__text_f32(char *out, float value);
/* The same for a float of 16 bits, of bf16 or f16, and its value. */
int tsr__text_f16(char *out, uint16_t bits, double value);
int tsr__text_bf16(char *out, uint16_t bits, double value);
/* A double as printf writes it by "%.*e" (form 'e') or "%.*f" in the C locale, whatever the locale
 * is; the length. `out` has room for all of it. */
int tsr__text_decimals(char *out, size_t size, double value, char form, int after);
/* An integer in at most 20 bytes, not ended by a NUL; the length. */
int tsr__text_i64(char *out, int64_t value);
int tsr__text_u64(char *out, uint64_t value);
/* Columns a UTF-8 text takes on a terminal; bytes that are no UTF-8 count one each. */
int tsr__text_width(const char *text, size_t length);
/* Bytes of the character that a text begins with if it is one that would steer a terminal (controls
 * of ASCII and C1, separators of lines, turns of direction) or no UTF-8; else 0. Names and values
 * come from files, and what is shown must not steer what shows it. */
size_t tsr__text_control(const char *text, size_t length);
/* Puts '?' in the place of such characters but tab and newline. */
void tsr__text_tame(char *text);
/* The name in `names` nearest to `word` by edit distance (case-insensitive), or -1 if none
 * is near enough to be worth suggesting. */
int tsr__text_nearest(const char *word, const char *const *names, int count);

/* ---- hashing (hash.c) ------------------------------------------------------------------ */

/* Of equal bytes and seeds equal everywhere. Texts that collide whatever the seed are not known:
 * tables that strangers fill take heap->seed. */
uint64_t tsr__hash(const void *data, size_t length, uint64_t seed);

/* ---- errors ---------------------------------------------------------------------------- */

/* An error being carried up from a room that knows no scope: fixed size, no allocation. */
typedef struct tsr__error {
  tsr_status status;
  char text[1000];
} tsr__error;

/* Writes an error once; later ones are dropped. Returns the status (breakpoint here). */
tsr_status tsr__error_set(tsr__error *error, tsr_status status, const char *format, ...)
    TSR_PRINTF(3, 4);
tsr_status tsr__error_vset(tsr__error *error, tsr_status status, const char *format, va_list args);

/* Returns the system's text for an errno, in `buffer`; in English, whatever the locale is. */
const char *tsr__sys_text(int code, char *buffer, size_t size);

/* ---- what callers give (opts.c, scalar.c) ------------------------------------------------ */

/* Whether options of `size` bytes, from a caller with a newer header, set a field beyond the
 * `known` bytes of ours. */
bool tsr__opts_beyond(const void *opts, size_t size, size_t known);
/* Copies a struct of options or arguments, which begins with its size: a caller built with an older
 * header gives fewer, one built with a newer header must not have set what is not known. NULL:
 * nothing. */
tsr_status tsr__take_opts(const char *what, const void *opts, void *own, size_t known,
                          tsr__error *error);

/* An unsigned integer that fits i64 as a signed one; what is of kind UINT afterwards is larger. */
tsr_scalar tsr__scalar_signed(tsr_scalar value);
/* A number or bool as a double; 0 for anything else. */
double tsr__scalar_real(tsr_scalar value);

/* ---- plugins (plugin.c) ------------------------------------------------------------------ */

/* What is wanted of tessera_NAME.so. */
typedef struct tsr__plugin_ask {
  const char *name;
  const char *symbol; /* its one function */
  const char *what;   /* in messages: "the engine 'ucx', which ... need," */
  const char *hint;   /* a way out beside installing packages, or NULL */
} tsr__plugin_ask;
/* A plugin's function, as data's address; it stays loaded. TSR_EUNSUPPORTED. */
tsr_status tsr__plugin_load(const tsr__plugin_ask *ask, void **out, tsr__error *error);

/* ---- scopes (scope.c) ------------------------------------------------------------------ */

/* What a scope owns. Each node struct (array, frame, row...) begins with this header, so that
 * closing a scope can release what its nodes hold. */
typedef struct tsr__node {
  struct tsr__node *next; /* in the scope's list, newest first */
  tsr_scope *scope;
  const char *site;                        /* "file.c:12" or NULL */
  void (*release)(struct tsr__node *node); /* NULL: nothing to release */
} tsr__node;

struct tsr_scope {
  tsr_runtime *rt;
  tsr_scope *outer, *first_child, *next_sibling, *prev_sibling;
  tsr_scope *older, *newer; /* in its list of the runtime's open scopes */
  tsr_scope *retired;       /* bodies that ended, which go with it */
  uintptr_t thread;         /* that opened it (tsr__thread_id) */
  _Atomic int nested;       /* open scopes right inside it */
  uint32_t heard;           /* errors of its thread's calls without a scope, up to which number */
  tsr__arena arena;
  tsr__node *nodes;
  int64_t node_count;
  int depth;
  bool body;   /* a function's body is traced in it */
  bool inert;  /* could not be allocated properly: every call makes inert nodes */
  bool warned; /* the 100,000-node warning was given */
  bool tells;  /* who uses it has the outer scope alone: that gets its errors, too */
  const char *site;
  const char *call; /* "relu": a call that is being made of others (tsr__call_open); NULL: none */
  tsr_status status;
  char *message;      /* in message_room, or a static text */
  const void *mesh;   /* topology/: the default mesh; NULL = that of the outer scope */
  const void *axes;   /* transform/: named axes that are mapped over here; NULL = none */
  void *regions;      /* inspect/: named regions that are open; NULL = none was */
  void *run_stats;    /* execute/: figures of the last terminal, in the arena; NULL = none yet */
  char *message_room; /* in the arena; kept when the error is cleared, for the next one */
  size_t message_size;
  char inline_block[1536]; /* the last: what is in front of it is zeroed when a scope opens */
};

/* Makes a zeroed node of `size` bytes in a scope; NULL out of memory (recorded). */
void *tsr__node_new(tsr_scope *scope, size_t size, const char *site, void (*release)(tsr__node *));
/* Takes back the nodes that a scope got since `last` was its newest (NULL: all), which nobody uses
 * any more: what they hold is let go, their memory stays. */
void tsr__scope_rewind(tsr_scope *scope, const tsr__node *last);

/* The one way to fail: records the first error of a scope. The text should be the four parts
 * of the house: what, found against expected, way out; the site is put in front:
 * "file.c:12: TSR_ESHAPE: ...". Without a scope all those are told that the thread has open.
 * Returns `status`. */
tsr_status tsr__fail(tsr_scope *scope, const char *site, tsr_status status, const char *format, ...)
    TSR_PRINTF(4, 5);
tsr_status tsr__fail_error(tsr_scope *scope, const char *site, const tsr__error *error);

/* The scope that has an error, this one or the next one around it; NULL: none has. What is inert
 * here may have been so there. */
const tsr_scope *tsr__scope_failed(const tsr_scope *scope);
/* Tells a scope why something that was made in the scope `of` is inert, or, where no scope made it,
 * that it was made of NULL. `call`: "tsr_read"; `what`: "array". Returns the status. */
tsr_status tsr__fail_inert(tsr_scope *scope, const tsr_scope *of, const char *site,
                           const char *call, const char *what);

/* Tells that a call was given NULL for the object that it is of, and so no scope: "tsr_read",
 * "array". Returns TSR_EARG. */
tsr_status tsr__fail_null(const char *call, const char *what, const char *site);

/* TSR_OK for a scope that a call can use; else why not, told where it is NULL. `call`:
 * "tsr_sync". */
tsr_status tsr__scope_usable(const tsr_scope *scope, const char *call, const char *site);

/* While a call is made of others, what they find wrong in a scope is said in its name: the place of
 * "tsr_maximum" in the text takes that of `call`, "relu". The outermost one that is open counts. */
const char **tsr__call_open(tsr_scope *scope, const char *call);
void tsr__call_close(const char ***opened);
/* Open to the end of the block. */
#define TSR__CALL(scope, call)                                                  \
  __attribute__((cleanup(tsr__call_close), unused)) const char **tsr__opened_ = \
      tsr__call_open((scope), (call))

/* The shortest-lived of two scopes: the deeper one. NULL is allowed for either. */
tsr_scope *tsr__scope_inner(tsr_scope *a, tsr_scope *b);
/* Whether `outer` is `scope` or around it, so that it closes no sooner. */
bool tsr__scope_encloses(const tsr_scope *outer, const tsr_scope *scope);
/* Whether a function's body is traced in a scope or around it. */
bool tsr__scope_traces(const tsr_scope *scope);
/* Where a result belongs whose operands' innermost scope is `scope`: the newest scope in it, itself
 * included, that the calling thread opened; `scope` where there is none. NULL for NULL. */
tsr_scope *tsr__scope_here(tsr_scope *scope);
/* Closes the scope of a body that was traced. Who kept one of its nodes can still ask what it was:
 * the memory stays until `to` closes, or the scope around it that is no body's. */
void tsr__scope_retire(tsr_scope *scope, tsr_scope *to);
/* As tsr_scope_close, also where a body is traced. */
void tsr__scope_close(tsr_scope *scope);
/* Some open scope of a runtime; NULL: all are closed. */
tsr_scope *tsr__scope_any(const tsr_runtime *rt);

/* ---- the runtime ----------------------------------------------------------------------- */

/* What the rooms above hang on a runtime; destroyed in reverse order at close. */
enum tsr__slot {
  TSR__SLOT_FILES,
  TSR__SLOT_COMM,
  TSR__SLOT_PEERS,
  TSR__SLOT_TOPOLOGY,
  TSR__SLOT_HOST, /* the CPU devices, also where the runtime's own are of another kind */
  TSR__SLOT_DEVICES,
  TSR__SLOT_PLANS,
  TSR__SLOT_SAVES,
  TSR__SLOTS
};

typedef struct tsr__workers tsr__workers;

enum { TSR__SCOPE_LISTS = 64, TSR__ASKERS = 64 };

/* When a thread last called the progress callback, in nanoseconds, and what work it told of: each
 * thread that works or waits calls it in its turn. Beyond TSR__ASKERS threads some call it more
 * often. */
typedef struct tsr__asker {
  uintptr_t thread;
  int64_t at; /* 0: of no thread */
  const char *what;
} tsr__asker;

void tsr__sites_free(tsr_runtime *rt);

typedef struct tsr__event tsr__event; /* base/events.h */
enum { TSR__LANES = 32 };             /* threads that are told apart */

/* What is recorded of a runtime (events.c); under the lock but for `on`. */
typedef struct tsr__recorder {
  _Atomic bool on;
  int thread_count;
  tsr__event *events;
  size_t count, room;
  int64_t origin, lost;
  pthread_t threads[TSR__LANES];
} tsr__recorder;

enum tsr__check { TSR__CHECK_NOTHING, TSR__CHECK_NAN, TSR__CHECK_INF }; /* INF: NaN, too */

struct tsr_runtime {
  tsr__heap heap;
  tsr_runtime_opts opts; /* a copy; threads is resolved, isa points to isa_name */
  char isa_name[32];
  char isa[16];         /* opts.isa or $TSR_ISA resolved by kernel/; "" until then */
  tsr__error error;     /* why open failed */
  pthread_mutex_t lock; /* guards the links of scopes, slots' creation and sites */
  tsr__hash_tree sites; /* texts of tsr_runtime_site (sites.c) */
  bool keyed;           /* threads have numbers here, under this key */
  pthread_key_t thread_key;
  _Atomic uintptr_t thread_count;    /* that were given one */
  tsr_scope *open[TSR__SCOPE_LISTS]; /* open scopes by their thread's number, newest first */
  tsr_scope *spare;                  /* a few closed scopes kept for reuse (a 3 us call path) */
  _Atomic(tsr__workers *) workers;   /* started at first use */
  void *slots[TSR__SLOTS];
  void (*slot_free[TSR__SLOTS])(tsr_runtime *rt, void *slot);
  /* Of slots whose memory is given away: ends their work at the close of a runtime from which
   * something is lent. Their slot_free comes when that was given back. */
  void (*slot_leave[TSR__SLOTS])(tsr_runtime *rt, void *slot);
  tsr__asker asker[TSR__ASKERS]; /* under the lock */
  int64_t progress_gap; /* nanoseconds between two calls in a thread; tests that count set 0 */
  struct tsr__log *log;
  tsr__recorder recorder;
  int check; /* tsr__check: opts.check_floats or $TSR_CHECK_FLOATS, which it is instead of */
  tsr_log_fn compile_log; /* told of what transform/ traces anew; NULL: nobody */
  void *compile_user;
  /* What was given away and may outlive it (DLPack, Arrow), and one while it is open: whoever lets
   * go last ends it. */
  _Atomic int64_t loans;
};

/* Keeps the heap and the devices of a runtime beyond its close, for what is given away, until it is
 * let go of by any thread. */
void tsr__runtime_hold(tsr_runtime *rt);
void tsr__runtime_let_go(tsr_runtime *rt);

/* Never NULL; tsr_runtime_status tells whether it can be filled. The caller may only add slots
 * to a runtime whose status is TSR_OK: the inert one is read-only memory. */
tsr_runtime *tsr__runtime_new(const tsr_runtime_opts *opts);
/* The one used when memory is short: constant, shared, every allocation on its heap refused. */
extern const tsr_runtime tsr__inert_runtime;
/* Records why a runtime could not be opened; the first reason is kept. Returns `status`. */
tsr_status tsr__runtime_fail(tsr_runtime *rt, tsr_status status, const char *format, ...)
    TSR_PRINTF(3, 4);
/* The slot_leave of a slot that has no work to end. */
void tsr__slot_stay(tsr_runtime *rt, void *slot);

/* The number of the calling thread: not 0, and never that of another thread, also of one that ended
 * before. A pthread_t is an address that a new thread may have from one that ended. */
uintptr_t tsr__thread_id(tsr_runtime *rt);

/* ---- logging (log.c) ------------------------------------------------------------------- */

/* Areas are room names: "base", "graph", "partition", "execute", "io", ... TSR_LOG is
 * "debug", or "execute:debug,io". Silent by default. */
void tsr__log_open(tsr_runtime *rt); /* reads TSR_LOG; runtime.c only */
void tsr__log_close(tsr_runtime *rt);
bool tsr__log_on(const tsr_runtime *rt, tsr_log_level level, const char *area);
void tsr__log(tsr_runtime *rt, tsr_log_level level, const char *area, const char *format, ...)
    TSR_PRINTF(4, 5);
/* An error that no call can tell any more, as the runtime closes: to the log, or on stderr where
 * there is none, and to `tessera run`, which fails by it. */
void tsr__log_last(tsr_runtime *rt, const char *area, const char *format, ...) TSR_PRINTF(3, 4);

/* ---- workers (workers.c) ---------------------------------------------------------------- */

/* One pool of as many threads as cores (the caller is worker 0). Idle workers spin, then
 * yield, then sleep, so an idle library costs no CPU. */
typedef void (*tsr__task_fn)(void *user, int64_t task, int worker);

int tsr__worker_count(tsr_runtime *rt);
/* Runs task 0..count-1 over the workers and returns when all are done. Tasks are handed out in
 * order; which worker gets which is not defined. Not reentrant from inside a task. While the
 * threads are another caller's, the calling thread begins alone, so that nobody waits for anybody's
 * job. */
void tsr__parallel(tsr_runtime *rt, int64_t count, tsr__task_fn fn, void *user);

/* As tsr__parallel for work that may take long: `what` names it to the progress callback. Returns
 * false when the callback cancelled: then some tasks were not run. Tasks should take 20 ms at most.
 * The caller gives TSR_ECANCELLED by tsr__cancelled. */
bool tsr__parallel_long(tsr_runtime *rt, const char *what, int64_t count, tsr__task_fn fn,
                        void *user);

/* Long work as its doer sees it: for tasks that may take longer than 20 ms, and for loops on the
 * calling thread. `rt` and `what` are set by the doer, the rest is zero; it lives as long as the
 * work. */
typedef struct tsr__progress {
  tsr_runtime *rt;
  const char *what;
  int64_t total; /* parts of the work; 0 = not known */
  _Atomic int64_t done;
  _Atomic bool stop;
} tsr__progress;

/* Whether to give up; asked every millisecond or so by a task of tsr__parallel_progress with its
 * worker's number, or with 0 by the thread that called the terminal. What was done so far is of no
 * use then. */
bool tsr__progress_stops(tsr__progress *progress, int worker);
/* As tsr__parallel_long under the caller's progress, which tasks reach by `user`. */
bool tsr__parallel_progress(tsr__progress *progress, int64_t count, tsr__task_fn fn, void *user);

/* Takes a lock that others may hold for long; false when the callback cancelled meanwhile. */
bool tsr__lock_long(pthread_mutex_t *lock, tsr__progress *progress);

/* Sets the error of cancelled work: "tsr_frame_collect: cancelled". Returns TSR_ECANCELLED. */
tsr_status tsr__cancelled(tsr__error *error, const char *what);

/* Cores this process may use, by its affinity mask and its control group's quota; at least 1. */
int tsr__core_count(void);
void tsr__workers_stop(tsr_runtime *rt); /* joins all threads; runtime.c and tests only */

/* ---- invariants -------------------------------------------------------------------------- */

/* A broken promise of our own code (never of the user's): says where and aborts. */
#define TSR_INVARIANT(condition) \
  ((condition) ? (void)0 : tsr__invariant_broken(#condition, __FILE__, __LINE__))
_Noreturn void tsr__invariant_broken(const char *what, const char *file, int line);

#endif
