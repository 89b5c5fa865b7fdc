/* A second device table that forwards to the first, and opens the devices' memory meanwhile.
 *
 *   arena   | block ... | block ... | block |     whole pages, unreadable but in entries of the
 *                                                 table, and read-only where the host has mapped
 *                                                 them
 *
 * Blocks are booked by the library's own pools, so that limits and figures are as ever; what
 * devices get is a block of the arena instead. Entries nest and run on many threads: while any is
 * under way a block opens at the first touch, which is a fault, and stays open until the last entry
 * is over. So an entry costs what it touches, and not what the devices hold.
 *
 * Each runtime has an arena. That of several processes is a block of the process's segment, which
 * its peers map elsewhere: the pages that a peer opens are a block of the peer's own guard.
 *
 *   process 0   | arena: .. | block | .. |      a guard closes addresses of its own process alone
 *   process 1     window:   | block |           opened by its handle
 *
 * A staging buffer is a block of its own, as if the host could not address the devices' memory:
 * giving copies it to the buffer, whose own memory holds STALE bytes until then. A block serves for
 * one staging buffer only and stays unreadable afterwards, within entries too. */
#include "support/guarded_devices.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/peers.h"
#include "kernel/device/cpu.h"
#include "kernel/rows/row_ops.h"
#include "support/empty_devices.h"
#include "support/late_devices.h"

#define ARENA ((size_t)1 << 34)
#define STAGING_ARENA ((size_t)1 << 36)
enum {
  CLASSES = 40,
  SLACK = 64,
  KEPT_PAGES = 16,
  STALE = 0xA5,
  READ_WRITE = PROT_READ | PROT_WRITE
};

/* Pages that open and close together. */
typedef struct block {
  struct arena *arena;
  char *data;
  size_t bytes;
  void *booked;         /* the pool's own block; NULL: the memory is another process's */
  struct block *next;   /* idle: the next idle one; another process's: the next of these */
  struct block *opened; /* open for the entries under way: the next such block */
  int class;            /* 2^class pages */
  int mapped;           /* how often the host has mapped it */
  int access;           /* PROT_NONE, PROT_READ or READ_WRITE */
  bool listed;
  bool filled; /* its buffer has a staging buffer that is open */
  bool over;   /* it was a staging buffer, which is given or dropped */
} block;

/* The memory of one runtime's devices. */
typedef struct arena {
  struct arena *next;
  const tsr__cpu *devices;
  bool shared; /* it lies in this process's segment */
  char *base;
  size_t bytes, used;
  block *head; /* [page]: the block that begins there; of the others `data` alone */
  block *idle[CLASSES];
  block *theirs; /* of other processes, as far as they were opened */
} arena;

static struct {
  pthread_mutex_t lock;
  size_t page;
  int depth;     /* entries under way */
  block *opened; /* blocks to close after the last entry */
  arena *arenas;
  arena staging;    /* blocks of staging buffers, of all runtimes */
  int staging_left; /* the staging buffer that fails, counted down; 0: none does */
} guard = { .lock = PTHREAD_MUTEX_INITIALIZER };

static tsr__device_ops real_ops, hidden_ops;
static tsr__row_ops real_rows, hidden_rows;

/* The library's own, which those of the same name here stand before. */
static struct {
  tsr_status (*install)(tsr_runtime *rt);
  void *(*take)(tsr__pool *pool, size_t bytes);
  void (*give)(tsr__pool *pool, void *block, size_t bytes);
  tsr__buffer *(*open_shared)(tsr_runtime *rt, int device, uint64_t handle, size_t bytes,
                              tsr__error *error);
  void (*free)(tsr_runtime *rt, void *devices);
  void (*leave)(tsr_runtime *rt, void *devices);
} library;

static void next_one(const char *name, void *function)
{
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) abort();
  memcpy(function, &found, sizeof found);
}

__attribute__((constructor)) static void find_library(void)
{
  next_one("tsr__devices_install", &library.install);
  next_one("tsr__pool_take", &library.take);
  next_one("tsr__pool_give", &library.give);
  next_one("tsr__cpu_open_shared", &library.open_shared);
}

/* ---- open and shut --------------------------------------------------------------------------- */

static bool lies_in(const void *address, const char *from, size_t bytes)
{
  return (uintptr_t)address - (uintptr_t)from < bytes;
}

static block *head_of(const arena *a, const char *data)
{
  return &a->head[(size_t)(data - a->base) / guard.page];
}

/* The block of an arena that an address lies in; NULL: in none. */
static block *own_block_at(const arena *a, const void *address)
{
  if (!lies_in(address, a->base, a->bytes)) return NULL;
  const block *at = head_of(a, address);
  return at->data ? head_of(a, at->data) : NULL;
}

/* The block that an address lies in; NULL: in none. */
static block *block_at(const void *address)
{
  block *own = own_block_at(&guard.staging, address);
  for (const arena *a = guard.arenas; a && !own; a = a->next) {
    own = own_block_at(a, address);
    for (block *b = a->theirs; b; b = b->next)
      if (lies_in(address, b->data, b->bytes)) return b;
  }
  return own;
}

static void set_access(block *b, int access)
{
  if (b->access == access) return;
  if (mprotect(b->data, b->bytes, access)) abort();
  b->access = access;
}

/* The access to a block outside of entries. */
static int access_of(const block *b)
{
  return b->mapped ? PROT_READ : PROT_NONE;
}

/* Ends the access of entries to a block, now or after the last entry. */
static void shut(block *b)
{
  if (!guard.depth) {
    set_access(b, access_of(b));
  } else if (b->access && !b->listed) {
    b->opened = guard.opened;
    guard.opened = b;
    b->listed = true;
  }
}

static void enter(void)
{
  pthread_mutex_lock(&guard.lock);
  guard.depth++;
  pthread_mutex_unlock(&guard.lock);
}

static void leave(void)
{
  pthread_mutex_lock(&guard.lock);
  guard.depth--;
  while (!guard.depth && guard.opened) {
    block *b = guard.opened;
    guard.opened = b->opened;
    b->listed = false;
    set_access(b, access_of(b));
  }
  pthread_mutex_unlock(&guard.lock);
}

/* Whether a fault is the first touch of a block by an entry, which may look there now. */
static bool opens(const void *address)
{
  pthread_mutex_lock(&guard.lock);
  block *b = block_at(address);
  bool may = b && !b->over && guard.depth;
  if (may) {
    set_access(b, READ_WRITE);
    shut(b);
  }
  pthread_mutex_unlock(&guard.lock);
  return may;
}

bool guard_hides(const void *address)
{
  const block *b = block_at(address);
  return b && (b->over || (!guard.depth && !b->mapped));
}

/* ---- arenas ---------------------------------------------------------------------------------- */

static void *map_pages(size_t bytes, int protection)
{
  int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *pages = mmap(NULL, bytes, protection, how, -1, 0);
  if (pages == MAP_FAILED) abort();
  return pages;
}

static void map_heads(arena *a)
{
  a->head = map_pages(a->bytes / guard.page * sizeof *a->head, READ_WRITE);
}

static void open_staging(void)
{
  guard.staging = (arena){ .base = map_pages(STAGING_ARENA, PROT_NONE), .bytes = STAGING_ARENA };
  map_heads(&guard.staging);
}

/* A segment is as large as the machine's memory is. */
static void open_arena(const tsr__cpu *devices, tsr__peers *peers)
{
  arena *a = calloc(1, sizeof *a);
  if (!a) abort();
  *a = (arena){ guard.arenas, devices, .shared = peers, .bytes = ARENA };
  if (!peers) a->base = map_pages(a->bytes, PROT_NONE);
  while (!a->base && a->bytes > guard.page)
    if (!(a->base = tsr__peers_take(peers, a->bytes))) a->bytes /= 2;
  if (mprotect(a->base, a->bytes, PROT_NONE)) abort();
  map_heads(a);
  guard.arenas = a;
}

/* The arena of a runtime's devices, or of one of their pools; NULL: these are not guarded. */
static arena *arena_of(const tsr__cpu *devices, const tsr__pool *pool)
{
  for (arena *a = guard.arenas; a; a = a->next) {
    if (a->devices == devices) return a;
    for (int i = 0; pool && i < a->devices->base.count; i++)
      if (a->devices->pools[i] == pool) return a;
  }
  return NULL;
}

/* Forgets blocks of other processes, or all, before their addresses are somebody else's. */
static void forget(arena *a, bool all)
{
  for (block **at = &guard.opened; *at;)
    if ((*at)->arena == a && (all || !(*at)->booked)) *at = (*at)->opened;
    else at = &(*at)->opened;
  for (block *next, *b = a->theirs; b; b = next) {
    next = b->next;
    free(b);
  }
  a->theirs = NULL;
}

static void close_arena(arena *a)
{
  arena **at = &guard.arenas;
  forget(a, true);
  while (*at != a) at = &(*at)->next;
  *at = a->next;
  munmap(a->head, a->bytes / guard.page * sizeof *a->head);
  if (!a->shared) munmap(a->base, a->bytes); /* else it goes with the segment */
  free(a);
}

/* The runtime has left its peers, and unmaps their memory next. */
static void leave_devices(tsr_runtime *rt, void *devices)
{
  library.leave(rt, devices);
  pthread_mutex_lock(&guard.lock);
  forget(arena_of(devices, NULL), false);
  pthread_mutex_unlock(&guard.lock);
}

static void free_devices(tsr_runtime *rt, void *devices)
{
  library.free(rt, devices);
  pthread_mutex_lock(&guard.lock);
  close_arena(arena_of(devices, NULL)); /* compares the address alone */
  pthread_mutex_unlock(&guard.lock);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static block *block_cut(arena *a, int class)
{
  char *data = a->base + a->used;
  block *b = head_of(a, data);
  size_t bytes = guard.page << class;
  if (bytes > a->bytes - a->used) abort();
  a->used += bytes;
  for (size_t i = 0; i < (size_t)1 << class; i++) b[i].data = data;
  b->arena = a;
  b->bytes = bytes;
  b->class = class;
  return b;
}

static int class_of(size_t bytes)
{
  int class = 0;
  while ((guard.page << class) < bytes + SLACK) class ++;
  return class;
}

static void *block_new(arena *a, void *booked, size_t bytes)
{
  int class = class_of(bytes);
  block *b = a->idle[class];
  if (b) a->idle[class] = b->next;
  else b = block_cut(a, class);
  b->booked = booked;
  return b->data;
}

/* Pages go back to the machine: of shared memory only where they may be written, and by a call that
 * all processes feel, so that blocks of few pages keep them. */
static void give_pages(block *b)
{
  if (!b->arena->shared) {
    if (madvise(b->data, b->bytes, MADV_DONTNEED)) abort();
  } else if (b->bytes >= KEPT_PAGES * guard.page) {
    set_access(b, READ_WRITE);
    (void)madvise(b->data, b->bytes, MADV_REMOVE); /* refused in a child of fork */
  }
}

/* Returns the block that was booked. */
static void *block_free(block *b)
{
  b->next = b->arena->idle[b->class];
  b->arena->idle[b->class] = b;
  b->mapped = 0;
  give_pages(b);
  shut(b);
  return b->booked;
}

void *tsr__pool_take(tsr__pool *pool, size_t bytes)
{
  void *taken = library.take(pool, bytes);
  pthread_mutex_lock(&guard.lock);
  arena *a = taken ? arena_of(NULL, pool) : NULL;
  if (a) taken = block_new(a, taken, bytes);
  pthread_mutex_unlock(&guard.lock);
  return taken;
}

void tsr__pool_give(tsr__pool *pool, void *taken, size_t bytes)
{
  pthread_mutex_lock(&guard.lock);
  block *b = block_at(taken);
  if (b) taken = block_free(b);
  pthread_mutex_unlock(&guard.lock);
  library.give(pool, taken, bytes);
}

/* Takes the pages of a buffer of another process under the guard, which are that buffer's alone as
 * blocks are whole pages. A block may be opened again, for more bytes. */
static void guard_theirs(arena *a, const tsr__buffer *opened)
{
  char *data = tsr__cpu_data(opened);
  size_t bytes = (opened->bytes + guard.page - 1) / guard.page * guard.page;
  block *b = a->theirs;
  while (b && b->data != data) b = b->next;
  if (lies_in(data, a->base, a->bytes) || (b && bytes <= b->bytes)) return;
  if (!b) {
    b = calloc(1, sizeof *b);
    if (!b) abort();
    *b = (block){ .arena = a, .data = data, .next = a->theirs };
    a->theirs = b;
  }
  b->bytes = bytes;
  b->access = PROT_NONE;
  set_access(b, READ_WRITE); /* the pages that are new to it have this access */
  shut(b);
}

tsr__buffer *tsr__cpu_open_shared(tsr_runtime *rt, int device, uint64_t handle, size_t bytes,
                                  tsr__error *error)
{
  tsr__buffer *opened = library.open_shared(rt, device, handle, bytes, error);
  pthread_mutex_lock(&guard.lock);
  arena *a = arena_of(tsr__cpu_of(rt), NULL);
  if (a && opened && bytes) guard_theirs(a, opened);
  pthread_mutex_unlock(&guard.lock);
  return opened;
}

/* ---- what the host sees ---------------------------------------------------------------------- */

static const void *hidden_map(tsr__buffer *buffer)
{
  const char *data = real_ops.map(buffer);
  pthread_mutex_lock(&guard.lock);
  block *b = block_at(data);
  if (b) {
    b->mapped++;
    if (!b->access) set_access(b, PROT_READ);
  }
  pthread_mutex_unlock(&guard.lock);
  return data;
}

static void hidden_unmap(tsr__buffer *buffer)
{
  enter();
  pthread_mutex_lock(&guard.lock);
  block *b = block_at(tsr__cpu_data(buffer));
  if (b && b->mapped && !--b->mapped) shut(b);
  pthread_mutex_unlock(&guard.lock);
  real_ops.unmap(buffer);
  leave();
}

/* ---- staging buffers ------------------------------------------------------------------------- */

static void say(const char *text)
{
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) _exit(2);
}

static void misuse(const char *text)
{
  say(text);
  abort();
}

/* Marks a device's block as one that is filled, or not. Memory that was adopted is no block. */
static void mark_filled(const tsr__buffer *buffer, bool filled)
{
  block *b = block_at(tsr__cpu_data(buffer));
  if (b && filled && b->filled) misuse("# a buffer has two staging buffers\n");
  if (b) b->filled = filled;
}

/* A block that the host reads and writes. */
static char *staging_new(size_t bytes)
{
  block *b = block_cut(&guard.staging, class_of(bytes));
  b->mapped = 1;
  set_access(b, READ_WRITE);
  return b->data;
}

static void *hidden_staging_open(tsr__buffer *buffer, bool keeps, tsr__error *error)
{
  pthread_mutex_lock(&guard.lock);
  bool fails = guard.staging_left && !--guard.staging_left;
  char *memory = fails ? NULL : staging_new(buffer->bytes);
  if (memory) mark_filled(buffer, true);
  pthread_mutex_unlock(&guard.lock);
  if (!memory) {
    tsr__error_set(error, TSR_ENOMEM, "no memory for a staging buffer");
    return NULL;
  }
  enter();
  if (keeps) memcpy(memory, tsr__cpu_data(buffer), buffer->bytes);
  else memset(memory, STALE, buffer->bytes);
  if (!keeps) memset(tsr__cpu_data(buffer), STALE, buffer->bytes);
  leave();
  return memory;
}

static void hidden_staging_close(tsr__buffer *buffer, void *memory, bool filled)
{
  enter();
  if (filled) memcpy(tsr__cpu_data(buffer), memory, buffer->bytes);
  leave();
  pthread_mutex_lock(&guard.lock);
  block *b = block_at(memory);
  mark_filled(buffer, false);
  b->mapped = 0;
  b->over = true;
  set_access(b, PROT_NONE);
  give_pages(b);
  pthread_mutex_unlock(&guard.lock);
}

void guard_fail_staging(int nth)
{
  guard.staging_left = nth;
}

static void hidden_give(tsr__buffer *buffer)
{
  pthread_mutex_lock(&guard.lock);
  const block *b = block_at(tsr__cpu_data(buffer));
  bool filled = b && b->filled;
  pthread_mutex_unlock(&guard.lock);
  if (filled) misuse("# a buffer was released before its staging buffer\n");
  enter();
  real_ops.give(buffer);
  leave();
}

/* ---- the table ------------------------------------------------------------------------------- */

#define FORWARD(table, ret, name, params, args) \
  static ret hidden_##name params               \
  {                                             \
    enter();                                    \
    ret out = real_##table.name args;           \
    leave();                                    \
    return out;                                 \
  }
#define FORWARD_VOID(name, params, args) \
  static void hidden_##name params       \
  {                                      \
    enter();                             \
    real_ops.name args;                  \
    leave();                             \
  }
#define ENTRY2(table, ret, name, A, B) FORWARD(table, ret, name, (A a, B b), (a, b))
#define ENTRY3(table, ret, name, A, B, C) FORWARD(table, ret, name, (A a, B b, C c), (a, b, c))
#define ENTRY4(table, ret, name, A, B, C, D) \
  FORWARD(table, ret, name, (A a, B b, C c, D d), (a, b, c, d))
#define ENTRY5(table, ret, name, A, B, C, D, E) \
  FORWARD(table, ret, name, (A a, B b, C c, D d, E e), (a, b, c, d, e))
#define VOID1(name, A) FORWARD_VOID(name, (A a), (a))
#define VOID2(name, A, B) FORWARD_VOID(name, (A a, B b), (a, b))
#define VOID3(name, A, B, C) FORWARD_VOID(name, (A a, B b, C c), (a, b, c))
#define VOID4(name, A, B, C, D) FORWARD_VOID(name, (A a, B b, C c, D d), (a, b, c, d))
#define ROWS2(name, ...) ENTRY2(rows, tsr_status, name, __VA_ARGS__)
#define ROWS3(name, ...) ENTRY3(rows, tsr_status, name, __VA_ARGS__)
#define ROWS4(name, ...) ENTRY4(rows, tsr_status, name, __VA_ARGS__)
#define ROWS5(name, ...) ENTRY5(rows, tsr_status, name, __VA_ARGS__)

ENTRY4(ops, tsr__buffer *, take, tsr_runtime *, int, size_t, tsr__error *)
ENTRY3(ops, tsr__buffer *, adopt, tsr_runtime *, int, const tsr__foreign *)
ENTRY2(ops, tsr_memory, memory, const tsr_runtime *, int)
VOID4(expect, tsr_runtime *, int, size_t, int)
VOID2(fill, tsr__buffer *, uint8_t)
VOID3(number, tsr__buffer *, int64_t, int64_t)
VOID3(from_host, const tsr__box_copy *, const void *, tsr__buffer *)
VOID3(to_host, const tsr__box_copy *, const tsr__buffer *, void *)
VOID4(copy, const tsr__box_copy *, const tsr__buffer *, tsr__buffer *, tsr__traffic *)
ENTRY4(ops, bool, assemble, const tsr__assembly *, int, tsr__buffer *const *, tsr__traffic *)
VOID4(pick, const tsr__pick *, const tsr__buffer *, tsr__buffer *, tsr__traffic *)
VOID4(disperse, const tsr__disperse *, const tsr__buffer *, tsr__buffer *const *, tsr__traffic *)
ENTRY3(ops, tsr__partial *, partial, tsr_runtime *, const tsr__partial_ask *, tsr__error *)
VOID1(partial_free, tsr__partial *)
ENTRY4(ops, tsr__partial *, partial_take, const tsr__partial *, const int64_t *, int64_t,
       tsr__error *)
ENTRY4(ops, tsr_status, partial_tell, const tsr__partial *, tsr__partial_told *, tsr__buffer **,
       tsr__error *)
ENTRY4(ops, tsr__partial *, partial_far, tsr_runtime *, const tsr__partial_ask *,
       const tsr__partial_told *, tsr__error *)
ENTRY2(ops, tsr_status, call, const tsr__call *, tsr__error *)
ENTRY2(ops, unsigned, call_axes, const struct tsr__program *, int)
ENTRY2(ops, int, call_apart, const struct tsr__program *, int)
ENTRY2(ops, tsr_status, run, const tsr__run *, tsr__error *)
ENTRY3(ops, tsr_status, all_reduce, const tsr__all_reduce *, tsr__traffic *, tsr__error *)
ENTRY2(ops, int64_t, mask_count, const tsr__buffer *, int64_t)
ENTRY4(ops, int64_t, mask_find, const tsr__buffer *, int64_t, bool, int64_t)
VOID1(compact, const tsr__compact *)
VOID4(mask_first, const tsr__buffer *, int64_t, int64_t, tsr__buffer *)

ROWS3(keys_range, tsr_runtime *, const tsr__range_ask *, tsr__error *)
ROWS4(pack_keys, tsr_runtime *, const tsr__pack_ask *, tsr__packed_keys *, tsr__error *)
ROWS4(packed_came, tsr_runtime *, const tsr__keys_came *, tsr__packed_keys *, tsr__error *)
ROWS5(gather_column, tsr_runtime *, const tsr__gather *, tsr__buffer **, tsr__buffer **,
      tsr__error *)
ROWS5(sort_rows, tsr_runtime *, const tsr__parts *, const tsr__packed_keys *, tsr__index *,
      tsr__error *)
ROWS4(top_rows, tsr_runtime *, const tsr__top_ask *, tsr__index *, tsr__error *)
ROWS4(sort_sample_rows, tsr_runtime *, const tsr__sample_ask *, tsr__sort_sample *, tsr__error *)
ROWS4(sort_split_rows, tsr_runtime *, const tsr__split_ask *, tsr__sort_split *, tsr__error *)
ROWS3(route_rows, tsr_runtime *, const tsr__routes *, tsr__error *)
ROWS5(aggregate_groups, tsr_runtime *, const tsr__aggregate_ask *, tsr__buffer **, tsr__buffer **,
      tsr__error *)
ROWS4(group_record_groups, tsr_runtime *, const tsr__aggregate_ask *, tsr__group_records **,
      tsr__error *)
ROWS5(tallied_read, tsr__group_records *, const tsr__grouped *, tsr__buffer **, tsr__buffer **,
      tsr__error *)
ROWS4(match_find, tsr_runtime *, const tsr__match_ask *, tsr__matched *, tsr__error *)
ROWS3(match_left, const tsr__matched *, tsr__index *, tsr__error *)
ROWS3(match_right, tsr__matched *, tsr__index *, tsr__error *)
ROWS4(match_keep, const tsr__matched *, const tsr__colparts *, tsr__buffer **, tsr__error *)
ROWS4(match_extent_of, tsr_runtime *, const tsr__extent_ask *, tsr__match_extent *, tsr__error *)
ROWS3(match_owners_of, tsr_runtime *, const tsr__match_owners *, tsr__error *)
ROWS2(match_answers, const tsr__match_answer *, tsr__error *)
ROWS4(match_at_home, tsr_runtime *, const tsr__match_home *, tsr__matched *, tsr__error *)
ROWS4(homes_group, tsr_runtime *, tsr__group_homes *, const tsr__packed_keys *, tsr__error *)
ROWS3(homes_of_nothing, tsr_runtime *, tsr__group_homes *, tsr__error *)
ROWS3(homes_send, tsr_runtime *, const tsr__homes_keys *, tsr__error *)
ROWS4(homes_meet, tsr_runtime *, const tsr__homes_keys *, tsr__buffer **, tsr__error *)
ROWS3(homes_settle, tsr_runtime *, const tsr__homes_told *, tsr__error *)
ROWS5(homes_codes, tsr_runtime *, const tsr__group_homes *, tsr__buffer **, tsr__index *,
      tsr__error *)
ROWS4(homes_by_code, tsr_runtime *, tsr__group_homes *, tsr__buffer **, tsr__error *)
ROWS5(homes_route, tsr_runtime *, const tsr__group_homes *, tsr__buffer **, tsr__buffer **,
      tsr__error *)
ROWS5(homes_aggregate, tsr_runtime *, const tsr__homes_rows *, tsr__buffer **, tsr__buffer **,
      tsr__error *)
ROWS4(homes_dest, tsr_runtime *, const tsr__group_homes *, tsr__buffer **, tsr__error *)
ROWS5(homes_order, tsr_runtime *, const tsr__group_homes *, tsr__buffer **, tsr__index *,
      tsr__error *)
ROWS4(homes_first, tsr_runtime *, const tsr__group_homes *, tsr__index *, tsr__error *)
ROWS5(homes_keep, tsr_runtime *, tsr__group_homes *, int64_t, tsr__buffer **, tsr__error *)
ROWS3(leaving_count, tsr_runtime *, const tsr__leaving *, tsr__error *)
ROWS3(leaving_take, tsr_runtime *, const tsr__leaving *, tsr__error *)
ROWS3(leaving_join, tsr_runtime *, tsr__leaving *, tsr__error *)

static void fill_rows(void)
{
  hidden_rows.keys_range = hidden_keys_range;
  hidden_rows.pack_keys = hidden_pack_keys;
  hidden_rows.packed_came = hidden_packed_came;
  hidden_rows.gather_column = hidden_gather_column;
  hidden_rows.sort_rows = hidden_sort_rows;
  hidden_rows.top_rows = hidden_top_rows;
  hidden_rows.sort_sample_rows = hidden_sort_sample_rows;
  hidden_rows.sort_split_rows = hidden_sort_split_rows;
  hidden_rows.route_rows = hidden_route_rows;
  hidden_rows.aggregate_groups = hidden_aggregate_groups;
  hidden_rows.group_record_groups = hidden_group_record_groups;
  hidden_rows.tallied_read = hidden_tallied_read;
  hidden_rows.match_find = hidden_match_find;
  hidden_rows.match_left = hidden_match_left;
  hidden_rows.match_right = hidden_match_right;
  hidden_rows.match_keep = hidden_match_keep;
  hidden_rows.match_extent_of = hidden_match_extent_of;
  hidden_rows.match_owners_of = hidden_match_owners_of;
  hidden_rows.match_answers = hidden_match_answers;
  hidden_rows.match_at_home = hidden_match_at_home;
  hidden_rows.homes_group = hidden_homes_group;
  hidden_rows.homes_of_nothing = hidden_homes_of_nothing;
  hidden_rows.homes_send = hidden_homes_send;
  hidden_rows.homes_meet = hidden_homes_meet;
  hidden_rows.homes_settle = hidden_homes_settle;
  hidden_rows.homes_codes = hidden_homes_codes;
  hidden_rows.homes_by_code = hidden_homes_by_code;
  hidden_rows.homes_route = hidden_homes_route;
  hidden_rows.homes_aggregate = hidden_homes_aggregate;
  hidden_rows.homes_dest = hidden_homes_dest;
  hidden_rows.homes_order = hidden_homes_order;
  hidden_rows.homes_first = hidden_homes_first;
  hidden_rows.homes_keep = hidden_homes_keep;
  hidden_rows.leaving_count = hidden_leaving_count;
  hidden_rows.leaving_take = hidden_leaving_take;
  hidden_rows.leaving_join = hidden_leaving_join;
}

static void fill_ops(void)
{
  hidden_ops.take = hidden_take;
  hidden_ops.give = hidden_give;
  hidden_ops.adopt = hidden_adopt;
  hidden_ops.memory = hidden_memory;
  hidden_ops.expect = hidden_expect;
  hidden_ops.fill = hidden_fill;
  hidden_ops.number = hidden_number;
  hidden_ops.map = hidden_map;
  hidden_ops.unmap = hidden_unmap;
  hidden_ops.staging_open = hidden_staging_open;
  hidden_ops.staging_close = hidden_staging_close;
  hidden_ops.from_host = hidden_from_host;
  hidden_ops.to_host = hidden_to_host;
  hidden_ops.copy = hidden_copy;
  hidden_ops.assemble = hidden_assemble;
  hidden_ops.pick = hidden_pick;
  hidden_ops.disperse = hidden_disperse;
  hidden_ops.partial = hidden_partial;
  hidden_ops.partial_free = hidden_partial_free;
  hidden_ops.partial_take = hidden_partial_take;
  hidden_ops.partial_tell = hidden_partial_tell;
  hidden_ops.partial_far = hidden_partial_far;
  hidden_ops.run = hidden_run;
  hidden_ops.call = hidden_call;
  hidden_ops.call_axes = hidden_call_axes;
  hidden_ops.call_apart = hidden_call_apart;
  hidden_ops.all_reduce = hidden_all_reduce;
  hidden_ops.mask_count = hidden_mask_count;
  hidden_ops.mask_find = hidden_mask_find;
  hidden_ops.compact = hidden_compact;
  hidden_ops.mask_first = hidden_mask_first;
  hidden_ops.rows = &hidden_rows;
}

/* ---- on and off ------------------------------------------------------------------------------ */

/* Reports a stray access, and lets it happen again. */
static void touched(int number, siginfo_t *info, void *context)
{
  (void)context;
  if (opens(info->si_addr)) return;
  const block *b = block_at(info->si_addr);
  if (b && b->over) say("# a staging buffer was touched after it was given or dropped\n");
  else if (b && b->mapped) say("# device memory that is mapped for reading was written\n");
  else if (guard_hides(info->si_addr))
    say("# device memory was touched outside of the device table\n");
  signal(number, SIG_DFL);
}

bool guard_asked(void)
{
  const char *wanted = getenv("TEST_GUARD");
  return wanted && *wanted;
}

static void fill_tables(const tsr__device_ops *ops)
{
  struct sigaction action = { .sa_sigaction = touched, .sa_flags = SA_SIGINFO };
  real_ops = hidden_ops = *ops;
  real_rows = hidden_rows = *ops->rows;
  fill_rows();
  fill_ops();
  guard.page = (size_t)sysconf(_SC_PAGESIZE);
  open_staging();
  sigaction(SIGSEGV, &action, NULL);
}

/* The later half of the devices is of the kind "late"; one device alone is. */
static tsr_status install_mixed(tsr_runtime *rt)
{
  tsr__topology *topology = tsr__topology_of(rt);
  const tsr__devices *all = tsr__devices_of(rt);
  int cpu = all->count / 2;
  if (cpu) topology->kind_count++;
  topology->kinds[topology->kind_count - 1].first = cpu;
  strcpy(topology->kinds[topology->kind_count - 1].name, "late");
  return late_open(rt, all->first + cpu, all->count - cpu);
}

/* Between hosts an engine reads and writes device memory on a thread of its own, and cannot be told
 * from a stray look: devices of several hosts stay as they are. */
tsr_status tsr__devices_install(tsr_runtime *rt)
{
  tsr_status status = library.install(rt);
  tsr__peers *peers = tsr__peers_of(rt);
  if (!status && empty_asked()) return empty_install(rt);
  if (!status && late_asked()) return late_install(rt);
  if (!status && late_asked_beside_cpu()) return install_mixed(rt);
  if (status || !guard_asked() || (peers && tsr__peers_hosts(peers) > 1)) return status;
  pthread_mutex_lock(&guard.lock);
  tsr__devices *devices = tsr__devices_of(rt);
  if (!guard.page) fill_tables(devices->ops);
  library.free = rt->slot_free[TSR__SLOT_HOST];
  library.leave = rt->slot_leave[TSR__SLOT_HOST];
  rt->slot_free[TSR__SLOT_HOST] = free_devices;
  rt->slot_leave[TSR__SLOT_HOST] = leave_devices;
  open_arena(tsr__cpu_of(rt), peers);
  devices->ops = &hidden_ops;
  pthread_mutex_unlock(&guard.lock);
  return TSR_OK;
}
