/* Device memory: a cache of blocks by size class in front of the heap or of huge pages.
 *
 *   class sizes  64 128 192 256 | 320 384 448 512 | 640 768 896 1024 | ...   (4 steps a power)
 *   one block    [ class size | slack ]     kernels may read a full vector past the last element
 *   free blocks  class -> newest -> ... -> oldest, linked through their own first bytes
 *
 * Invariants: `now` is the sum of the bytes asked for in live blocks and never exceeds `limit`;
 * `held` and `cached` count whole blocks, live and kept. A freed block is reused as it is, so in
 * steady state no page is touched for the first time. The user's allocator is never called
 * under the lock.
 *
 *   take    the newest kept block of the class, else of a larger   the new one without the lock
 *           one, else a new one
 *   give    onto the class's list                                  never back to the system
 *           crowded, or nothing left: all kept blocks go back before a new one is made
 *
 *   slab    [ block ][ block ][ block ][ block ]     of one class, in huge pages: what is expected
 *           by turns. A block of 384 KB alone has small pages, and one of 3 MB has a third of it
 *           there. Its blocks are kept and taken as others are; it goes back as a whole, when none
 *           of them is live.
 */
#include "base/base.h"
#include "base/latch.h"
#include "base/watched.h"

#include <sys/mman.h>
#include <unistd.h>

#if TSR__WATCHED
#include <sanitizer/asan_interface.h>
#define HIDE(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define SHOW(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define HIDE(p, n) ((void)0)
#define SHOW(p, n) ((void)0)
#endif

/* A vector of AVX-512. */
#define SLACK ((size_t)64)
/* 64 TiB; what is larger has no class. */
#define LARGEST ((size_t)1 << 46)
#define CLASSES (4 + (46 - 8) * 4)
#define POISON 0xCB
/* So much may be kept beside what programs use, however little that is. */
#define SPARE_ROOM ((int64_t)64 << 20)
/* From these bytes on a block of up to four times the size will do: clearing a new one takes longer
 * than most that is done with it, and what programs need over time is of many sizes. So many of
 * them may be lent at a time. */
#define LEAST_LENT ((size_t)1 << 20)
#define LENDERS 8 /* classes, four a power */
#define LENT 32

typedef struct free_block {
  struct free_block *next;
} free_block;

typedef struct slab {
  struct slab *next;
  char *data;
  size_t bytes, each; /* of the mapping; from block to block */
  int index, blocks;  /* class; how many */
  int idle;           /* while kept blocks are dropped: those that were found */
} slab;

/* A live block that is larger than its class: blocks have no header to say so. */
typedef struct lent_block {
  const void *block;
  int index;
} lent_block;

/* `now` and `peak` in bytes that were asked for, which the limit is of; `held`, `most_held` and
 * `cached` in sizes of classes, which is what memory is really taken. */
struct tsr__pool {
  tsr__heap *heap;
  size_t page;
  bool mapped;             /* big blocks come from mmap; false when the user brought an allocator */
  tsr__pool_source source; /* all blocks come from there, if it can take any */
  bool poison;
  tsr__latch lock;
  int64_t limit, now, peak;
  int64_t held, most_held, cached;
  free_block *free[CLASSES];
  slab *slabs;
  lent_block lent[LENT];
  int lent_count;
};

/*   300 bytes: between 256 = 2^8 and 512, in steps of 64: class 320, the first of its power
 *
 * Four steps a power waste a fifth at most of what is larger than 256, and keep lists few. */
static int class_of(size_t bytes, size_t *out_size)
{
  size_t size = bytes < 64 ? 64 : bytes;
  if (size <= 256) {
    size_t steps = (size + 63) / 64;
    *out_size = steps * 64;
    return (int)steps - 1;
  }
  /* Of size - 1, so that a power of two belongs to the step that ends with it. */
  int power = 63 - __builtin_clzll((unsigned long long)size - 1);
  size_t base = (size_t)1 << power, step = base / 4;
  size_t steps = (size - base + step - 1) >> (power - 2);
  *out_size = base + steps * step;
  return 4 + (power - 8) * 4 + (int)steps - 1;
}

/* The inverse of class_of for its second result. */
static size_t size_of_class(int index)
{
  if (index < 4) return ((size_t)index + 1) * 64;
  size_t base = (size_t)1 << (8 + (index - 4) / 4);
  return base + base / 4 * ((size_t)((index - 4) % 4) + 1);
}

static bool is_mapped(const tsr__pool *pool, size_t size)
{
  /* Smaller ones would waste a mapping, and users who bring an allocator want all of it from
   * there. */
  return pool->mapped && !pool->source.take && size >= TSR__HUGE_PAGE;
}

/* The slack of a mapped block is a page, so that a class that is a whole number of huge pages
 * stays one. */
static size_t whole_size(const tsr__pool *pool, size_t size)
{
  return is_mapped(pool, size) ? size + pool->page : size + SLACK;
}

/* Before anything of a block is touched: links of free ones lie in them. */
static void own_blocks(tsr__pool *pool)
{
  if (pool->source.own) pool->source.own(pool->source.user);
}

static void *make_block(tsr__pool *pool, size_t size)
{
  size_t whole = whole_size(pool, size);
  if (pool->source.take) return pool->source.take(pool->source.user, whole);
  return is_mapped(pool, size) ? tsr__map_huge(pool->heap, whole)
                               : tsr__new_pooled(pool->heap, whole);
}

static void drop_block(tsr__pool *pool, void *block, size_t size)
{
  size_t whole = whole_size(pool, size);
  SHOW(block, whole);
  if (pool->source.give) {
    pool->source.give(pool->source.user, block, whole);
    return;
  }
  if (is_mapped(pool, size)) tsr__unmap_huge(pool->heap, block, whole);
  else tsr__del_pooled(pool->heap, block, whole);
}

tsr__pool *tsr__pool_open(tsr__heap *heap, int64_t limit)
{
  tsr__pool *pool = tsr__new(heap, sizeof *pool);
  if (!pool) return NULL;
  long page = sysconf(_SC_PAGESIZE);
  pool->heap = heap;
  pool->page = page > 0 ? (size_t)page : 4096;
  pool->mapped = tsr__heap_is_default(heap);
  pool->limit = limit > 0 ? limit : 0;
  return pool;
}

void tsr__pool_from(tsr__pool *pool, const tsr__pool_source *source)
{
  pool->source = *source;
}

/* ---- slabs ----------------------------------------------------------------------------------- */

static slab *slab_of(slab *slabs, const void *block)
{
  for (slab *s = slabs; s; s = s->next)
    if ((const char *)block >= s->data && (const char *)block < s->data + s->bytes) return s;
  return NULL;
}

/* Called under the lock, with all kept blocks taken off their lists: those of slabs that have live
 * ones go back onto them, those of others go with their slabs, which are returned. A pool has few
 * slabs, and mostly none. */
static slab *take_idle(tsr__pool *pool, free_block **taken)
{
  slab *idle = NULL;
  for (slab *s = pool->slabs; s; s = s->next) s->idle = 0;
  for (slab *s = pool->slabs; s; s = s->next) {
    /* Twice of a class with two slabs: the second time nothing of it is left. */
    free_block *block = taken[s->index];
    taken[s->index] = NULL;
    for (free_block *next; block; block = next) {
      slab *own = slab_of(pool->slabs, block);
      free_block **list = own ? &pool->free[s->index] : &taken[s->index];
      next = block->next;
      if (own) own->idle++;
      block->next = *list;
      *list = block;
    }
  }
  for (slab **at = &pool->slabs; *at;) {
    slab *s = *at;
    if (s->idle < s->blocks) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    s->next = idle;
    idle = s;
    for (free_block **b = &pool->free[s->index]; *b;)
      if (slab_of(s, *b) == s) *b = (*b)->next;
      else b = &(*b)->next;
  }
  return idle;
}

static void drop_slab(tsr__pool *pool, slab *s)
{
  SHOW(s->data, s->bytes);
  tsr__unmap_huge(pool->heap, s->data, s->bytes);
  tsr__del(pool->heap, s, sizeof *s);
}

/* As many blocks as fill huge pages. What is left of the last one, if it is little, has small
 * pages: the blocks' slack alone would take one more. NULL: not worth it, or no memory. */
static slab *make_slab(const tsr__pool *pool, size_t bytes, int count)
{
  size_t size;
  int index = class_of(bytes, &size);
  size_t each = whole_size(pool, size), all = each * (size_t)count;
  size_t over = all & (TSR__HUGE_PAGE - 1);
  if (all < TSR__HUGE_PAGE / 2 || each > LARGEST / (size_t)count) return NULL;
  if (over >= TSR__HUGE_PAGE / 8) all += TSR__HUGE_PAGE - over;
  else all = (all + pool->page - 1) & ~(pool->page - 1);
  slab *s = tsr__new(pool->heap, sizeof *s);
  char *data = s ? tsr__map_huge(pool->heap, all) : NULL;
  if (!data) {
    tsr__del(pool->heap, s, sizeof *s);
    return NULL;
  }
  *s = (slab){
    .data = data, .bytes = all, .each = each, .index = index, .blocks = (int)(all / each)
  };
  return s;
}

/* How many blocks of a class are kept in slabs; under the lock. */
static int kept_in_slabs(const tsr__pool *pool, int index)
{
  int kept = 0;
  for (const free_block *b = pool->slabs ? pool->free[index] : NULL; b; b = b->next)
    kept += slab_of(pool->slabs, b) != NULL;
  return kept;
}

void tsr__pool_expect(tsr__pool *pool, size_t bytes, int count)
{
  size_t size;
  /* Users who bring an allocator want all from there, and so do other processes' readers. */
  if (!pool->mapped || pool->source.take || count < 1 || bytes > LARGEST) return;
  int index = class_of(bytes, &size);
  tsr__latch_close(&pool->lock);
  bool there = kept_in_slabs(pool, index) >= count;
  bool poison = pool->poison;
  int64_t held = pool->held + pool->cached, limit = pool->limit;
  tsr__latch_open(&pool->lock);
  if (there || (limit && (int64_t)size > (limit - held) / count)) return;
  slab *s = make_slab(pool, bytes, count);
  if (!s) return;
  if (poison) memset(s->data, POISON, s->bytes);
  tsr__latch_close(&pool->lock);
  s->next = pool->slabs;
  pool->slabs = s;
  /* The first is taken first: the pages of those behind it may never be touched. */
  for (int i = s->blocks - 1; i >= 0; i--) {
    free_block *block = (free_block *)(s->data + (size_t)i * s->each);
    block->next = pool->free[index];
    pool->free[index] = block;
    HIDE((char *)block + SLACK, s->each - SLACK);
  }
  pool->cached += (int64_t)size * s->blocks;
  tsr__latch_open(&pool->lock);
}

/* ---- dropping what is kept ------------------------------------------------------------------- */

/* Frees every kept block. The lists are taken under the lock and freed outside of it. The link of
 * each is read before it goes. */
static void drop_cache(tsr__pool *pool)
{
  free_block *taken[CLASSES];
  own_blocks(pool);
  tsr__latch_close(&pool->lock);
  memcpy(taken, pool->free, sizeof taken);
  memset(pool->free, 0, sizeof pool->free);
  pool->cached = 0;
  slab *idle = take_idle(pool, taken);
  for (slab *s = pool->slabs; s; s = s->next)
    pool->cached += (int64_t)size_of_class(s->index) * s->idle;
  tsr__latch_open(&pool->lock);
  for (slab *next; idle; idle = next) {
    next = idle->next;
    drop_slab(pool, idle);
  }
  for (int i = 0; i < CLASSES; i++) {
    for (free_block *block = taken[i], *next; block; block = next) {
      next = block->next;
      drop_block(pool, block, size_of_class(i));
    }
  }
}

void tsr__pool_close(tsr__pool *pool)
{
  if (!pool) return;
  drop_cache(pool);
  tsr__del(pool->heap, pool, sizeof *pool);
}

/* Called under the lock. */
static bool limit_allows(const tsr__pool *pool, size_t bytes)
{
  return !pool->limit || (int64_t)bytes <= pool->limit - pool->now;
}

/* For the message of a refusal, which has to say whether it was the limit or the memory. */
bool tsr__pool_would_fit(tsr__pool *pool, size_t bytes)
{
  if (bytes > LARGEST) return !pool->limit;
  tsr__latch_close(&pool->lock);
  bool fits = limit_allows(pool, bytes);
  tsr__latch_open(&pool->lock);
  return fits;
}

/* Called under the lock: books a block as live. */
static void book(tsr__pool *pool, size_t bytes, size_t size)
{
  pool->now += (int64_t)bytes;
  pool->held += (int64_t)size;
  if (pool->now > pool->peak) pool->peak = pool->now;
  if (pool->held > pool->most_held) pool->most_held = pool->held;
}

/* Would one more block make the cache a burden? The limit is the user's word; without one, live
 * and kept blocks together may be twice the most that ever lived, and some. */
static bool crowded(const tsr__pool *pool, size_t size)
{
  int64_t total = pool->held + pool->cached + (int64_t)size;
  if (pool->limit && total > pool->limit) return true;
  return total > 2 * pool->most_held + (int64_t)size + SPARE_ROOM;
}

/* The slow path: no kept block fits. The bytes are reserved before the lock is left, so two
 * threads cannot both fill the last place under the limit. */
static void *take_new(tsr__pool *pool, size_t bytes, size_t size)
{
  bool drop = pool->cached && crowded(pool, size);
  /* Kept to be put back: a block that could not be had never was, so it may leave no peak. */
  int64_t peak = pool->peak, most_held = pool->most_held;
  book(pool, bytes, size);
  bool poison = pool->poison;
  tsr__latch_open(&pool->lock);
  if (drop) drop_cache(pool);
  void *block = make_block(pool, size);
  /* Memory that lies in other classes may be what is missing; this is tried once. */
  if (!block && !drop) {
    drop_cache(pool);
    block = make_block(pool, size);
  }
  if (block) {
    if (poison) memset(block, POISON, whole_size(pool, size));
    return block;
  }
  tsr__latch_close(&pool->lock);
  pool->now -= (int64_t)bytes;
  pool->held -= (int64_t)size;
  /* What others still have of what they took meanwhile counts; a peak that they reached and left
   * is lost. */
  pool->peak = pool->now > peak ? pool->now : peak;
  pool->most_held = pool->held > most_held ? pool->held : most_held;
  tsr__latch_open(&pool->lock);
  return NULL;
}

/* The class whose newest block is taken for one of class `index`: the next larger one that has one,
 * if it has none itself. What is held and kept together is the same then, so no limit is asked.
 * Called under the lock. */
static int lender_of(const tsr__pool *pool, int index, size_t size)
{
  if (pool->free[index] || size < LEAST_LENT || pool->lent_count == LENT) return index;
  for (int i = index + 1; i <= index + LENDERS && i < CLASSES; i++)
    if (pool->free[i]) return i;
  return index;
}

/* The class that a block of class `index` really is of. Called under the lock. */
static int lent_from(tsr__pool *pool, const void *block, int index)
{
  for (int i = 0; i < pool->lent_count; i++) {
    if (pool->lent[i].block != block) continue;
    index = pool->lent[i].index;
    pool->lent[i] = pool->lent[--pool->lent_count];
    break;
  }
  return index;
}

void *tsr__pool_take(tsr__pool *pool, size_t bytes)
{
  /* Beyond it, 64 TiB, there is no class. */
  if (bytes > LARGEST) return NULL;
  size_t size;
  int index = class_of(bytes, &size);
  own_blocks(pool);
  tsr__latch_close(&pool->lock);
  if (!limit_allows(pool, bytes)) {
    tsr__latch_open(&pool->lock);
    return NULL;
  }
  int from = lender_of(pool, index, size);
  free_block *block = pool->free[from];
  if (!block) return take_new(pool, bytes, size); /* leaves the lock */
  pool->free[from] = block->next;
  if (from != index) pool->lent[pool->lent_count++] = (lent_block){ block, from };
  pool->cached -= (int64_t)size_of_class(from);
  book(pool, bytes, size_of_class(from));
  bool poison = pool->poison;
  tsr__latch_open(&pool->lock);
  SHOW(block, whole_size(pool, size));
  /* The rest is still poisoned from when it was given back; only the link was written since. */
  if (poison) memset(block, POISON, sizeof *block);
  return block;
}

/* `bytes` as it was taken with: the class follows from it, unless the block was lent. */
void tsr__pool_give(tsr__pool *pool, void *block, size_t bytes)
{
  if (!block) return;
  size_t size;
  int index = class_of(bytes, &size);
  own_blocks(pool);
  tsr__latch_close(&pool->lock);
  if (pool->lent_count && size >= LEAST_LENT) {
    index = lent_from(pool, block, index);
    size = size_of_class(index);
  }
  if (pool->poison) {
    SHOW(block, whole_size(pool, size)); /* behind what was lent nobody may have written */
    memset(block, POISON, whole_size(pool, size));
  }
  free_block *kept = block;
  /* The newest first: it is the one whose pages are still in the caches. */
  kept->next = pool->free[index];
  /* The link at the front stays readable: the pool follows it. */
  HIDE((char *)block + SLACK, whole_size(pool, size) - SLACK);
  pool->free[index] = kept;
  pool->now -= (int64_t)bytes;
  pool->held -= (int64_t)size;
  pool->cached += (int64_t)size;
  tsr__latch_open(&pool->lock);
}

tsr_memory tsr__pool_memory(tsr__pool *pool)
{
  tsr__latch_close(&pool->lock);
  tsr_memory memory = { pool->now, pool->peak, pool->limit, pool->cached };
  tsr__latch_open(&pool->lock);
  return memory;
}

void tsr__pool_poison(tsr__pool *pool, bool on)
{
  tsr__latch_close(&pool->lock);
  pool->poison = on;
  tsr__latch_open(&pool->lock);
  if (on) drop_cache(pool); /* what is taken from now on is filled, whatever its history */
}
