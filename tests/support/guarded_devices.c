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

#include "kernel/device/cpu.h"
#include "kernel/rows/row_ops.h"

#define ARENA ((size_t)1 << 36)
enum { CLASSES = 40, SLACK = 64, STALE = 0xA5, READ_WRITE = PROT_READ | PROT_WRITE };

/* Of a page the block that it belongs to; the rest is the block's, by its first page. */
typedef struct header {
  char *block;
  void *booked; /* the pool's own block */
  char *next;   /* idle: the data of the next one */
  char *opened; /* open for the entries under way: the data of the next such block */
  int class;    /* 2^class pages */
  int mapped;   /* how often the host has mapped it */
  int access;   /* PROT_NONE, PROT_READ or READ_WRITE */
  bool listed;
  bool filled; /* its buffer has a staging buffer that is open */
  bool over;   /* it was a staging buffer, which is given or dropped */
} header;

static struct {
  pthread_mutex_t lock;
  size_t page, used;
  char *base;
  int depth;        /* entries under way */
  int staging_left; /* the staging buffer that fails, counted down; 0: none does */
  header *head;     /* [page] */
  char *idle[CLASSES];
  char *opened; /* blocks to close after the last entry */
} arena = { .lock = PTHREAD_MUTEX_INITIALIZER };

static tsr__device_ops real_ops, hidden_ops;
static tsr__row_ops real_rows, hidden_rows;

/* The library's own, which those of the same name here stand before. */
static struct {
  tsr_status (*install)(tsr_runtime *rt);
  void *(*take)(tsr__pool *pool, size_t bytes);
  void (*give)(tsr__pool *pool, void *block, size_t bytes);
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
}

/* ---- the arena ------------------------------------------------------------------------------- */

static bool ours(const void *address)
{
  const char *at = address;
  return arena.base && at >= arena.base && at < arena.base + ARENA;
}

/* The block that an address lies in; NULL: in none. */
static header *block_at(const void *address)
{
  if (!ours(address)) return NULL;
  char *block = arena.head[(size_t)((const char *)address - arena.base) / arena.page].block;
  return block ? &arena.head[(size_t)(block - arena.base) / arena.page] : NULL;
}

static void set_access(header *b, int access)
{
  if (b->access == access) return;
  if (mprotect(b->block, arena.page << b->class, access)) abort();
  b->access = access;
}

/* The access to a block outside of entries. */
static int access_of(const header *b)
{
  return b->mapped ? PROT_READ : PROT_NONE;
}

/* Ends the access of entries to a block, now or after the last entry. */
static void shut(header *b)
{
  if (!arena.depth) {
    set_access(b, access_of(b));
  } else if (b->access && !b->listed) {
    b->opened = arena.opened;
    arena.opened = b->block;
    b->listed = true;
  }
}

static void enter(void)
{
  pthread_mutex_lock(&arena.lock);
  arena.depth++;
  pthread_mutex_unlock(&arena.lock);
}

static void leave(void)
{
  pthread_mutex_lock(&arena.lock);
  arena.depth--;
  while (!arena.depth && arena.opened) {
    header *b = block_at(arena.opened);
    arena.opened = b->opened;
    b->listed = false;
    set_access(b, access_of(b));
  }
  pthread_mutex_unlock(&arena.lock);
}

/* Whether a fault is the first touch of a block by an entry, which may look there now. */
static bool opens(const void *address)
{
  pthread_mutex_lock(&arena.lock);
  header *b = block_at(address);
  bool may = b && !b->over && arena.depth;
  if (may) {
    set_access(b, READ_WRITE);
    shut(b);
  }
  pthread_mutex_unlock(&arena.lock);
  return may;
}

bool guard_hides(const void *address)
{
  const header *b = block_at(address);
  if (b && b->over) return true;
  return ours(address) && !arena.depth && !(b && b->mapped);
}

static int class_of(size_t bytes)
{
  int class = 0;
  while ((arena.page << class) < bytes + SLACK) class ++;
  return class;
}

static char *block_cut(int class)
{
  char *data = arena.base + arena.used;
  header *b = &arena.head[arena.used / arena.page];
  arena.used += arena.page << class;
  if (arena.used > ARENA) abort();
  for (size_t i = 0; i < (size_t)1 << class; i++) b[i].block = data;
  b->class = class;
  return data;
}

static void *block_new(void *booked, size_t bytes)
{
  int class = class_of(bytes);
  pthread_mutex_lock(&arena.lock);
  char *data = arena.idle[class];
  if (data) arena.idle[class] = block_at(data)->next;
  else data = block_cut(class);
  block_at(data)->booked = booked;
  pthread_mutex_unlock(&arena.lock);
  return data;
}

/* Returns the block that was booked. */
static void *block_free(char *data)
{
  pthread_mutex_lock(&arena.lock);
  header *b = block_at(data);
  void *booked = b->booked;
  b->next = arena.idle[b->class];
  arena.idle[b->class] = data;
  b->mapped = 0;
  shut(b);
  if (madvise(data, arena.page << b->class, MADV_DONTNEED)) abort();
  pthread_mutex_unlock(&arena.lock);
  return booked;
}

void *tsr__pool_take(tsr__pool *pool, size_t bytes)
{
  void *booked = library.take(pool, bytes);
  if (!booked || !arena.base) return booked;
  return block_new(booked, bytes);
}

void tsr__pool_give(tsr__pool *pool, void *block, size_t bytes)
{
  if (ours(block)) block = block_free(block);
  library.give(pool, block, bytes);
}

/* ---- what the host sees ---------------------------------------------------------------------- */

static const void *hidden_map(tsr__buffer *buffer)
{
  const char *data = real_ops.map(buffer);
  pthread_mutex_lock(&arena.lock);
  header *b = block_at(data);
  if (b) {
    b->mapped++;
    if (!b->access) set_access(b, PROT_READ);
  }
  pthread_mutex_unlock(&arena.lock);
  return data;
}

static void hidden_unmap(tsr__buffer *buffer)
{
  enter();
  pthread_mutex_lock(&arena.lock);
  header *b = block_at(tsr__cpu_data(buffer));
  if (b && b->mapped && !--b->mapped) shut(b);
  pthread_mutex_unlock(&arena.lock);
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
  header *b = block_at(tsr__cpu_data(buffer));
  if (b && filled && b->filled) misuse("# a buffer has two staging buffers\n");
  if (b) b->filled = filled;
}

static void *hidden_staging_open(tsr__buffer *buffer, bool keeps, tsr__error *error)
{
  pthread_mutex_lock(&arena.lock);
  bool fails = arena.staging_left && !--arena.staging_left;
  char *memory = fails ? NULL : block_cut(class_of(buffer->bytes));
  if (memory) {
    mark_filled(buffer, true);
    block_at(memory)->mapped = 1;
    set_access(block_at(memory), READ_WRITE);
  }
  pthread_mutex_unlock(&arena.lock);
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
  pthread_mutex_lock(&arena.lock);
  header *b = block_at(memory);
  mark_filled(buffer, false);
  b->mapped = 0;
  b->over = true;
  set_access(b, PROT_NONE);
  if (madvise(memory, arena.page << b->class, MADV_DONTNEED)) abort();
  pthread_mutex_unlock(&arena.lock);
}

void guard_fail_staging(int nth)
{
  arena.staging_left = nth;
}

static void hidden_give(tsr__buffer *buffer)
{
  const header *b = block_at(tsr__cpu_data(buffer));
  if (b && b->filled) misuse("# a buffer was released before its staging buffer\n");
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
VOID2(partial_tell, const tsr__partial *, tsr__partial_told *)
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
  const header *b = block_at(info->si_addr);
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

static void open_arena(void)
{
  struct sigaction action = { .sa_sigaction = touched, .sa_flags = SA_SIGINFO };
  arena.page = (size_t)sysconf(_SC_PAGESIZE);
  int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  char *base = mmap(NULL, ARENA, PROT_NONE, how, -1, 0);
  size_t heads = ARENA / arena.page * sizeof *arena.head;
  arena.head = mmap(NULL, heads, PROT_READ | PROT_WRITE, how, -1, 0);
  if (base == MAP_FAILED || arena.head == MAP_FAILED) abort();
  arena.base = base;
  sigaction(SIGSEGV, &action, NULL);
}

tsr_status tsr__devices_install(tsr_runtime *rt)
{
  tsr_status status = library.install(rt);
  if (status || !guard_asked()) return status;
  pthread_mutex_lock(&arena.lock);
  tsr__devices *devices = tsr__devices_of(rt);
  if (!arena.base) {
    real_ops = hidden_ops = *devices->ops;
    real_rows = hidden_rows = *devices->ops->rows;
    fill_rows();
    fill_ops();
    open_arena();
  }
  devices->ops = &hidden_ops;
  pthread_mutex_unlock(&arena.lock);
  return TSR_OK;
}
