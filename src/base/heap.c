/* The library's own memory: one counted front of whatever allocator the user chose.
 *
 * Invariant: `live` is the number of blocks handed out and not yet given back, whatever their
 * origin, so a clean close leaves 0. `used` is the sum of their sizes without those of pools;
 * blocks of more than SMALL bytes never bring it above `limit`. Smaller ones are not refused, so
 * that what is said of a refusal, and what is done after it, find memory. A heap without functions
 * (that of the inert runtime, which is constant) refuses everything and is never written. */
#include "base/base.h"
#include "base/watched.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ALIGNMENT ((size_t)64)
#define LARGE (2 * TSR__HUGE_PAGE)
/* Room to round up to any alignment without overflow. */
#define LARGEST ((size_t)PTRDIFF_MAX - 4096)
/* Never refused by the limit: messages, scopes and lists of a few things. */
#define SMALL ((size_t)4096)
#define MAPPED \
  ((size_t)1 << 16) /* what comes from the system itself is of so many bytes, or times it */
#define KEPT ((size_t)512 << 20) /* bytes of pages that a heap keeps at most */
#define NARROW ((size_t)512) /* holds no vectors and is asked for often: malloc's alignment does */

static void huge_pages(void *block, size_t size)
{
#ifdef MADV_HUGEPAGE
  /* Advice: a system without huge pages refuses it, and nothing is lost. */
  madvise(block, size, MADV_HUGEPAGE);
#else
  (void)block;
  (void)size;
#endif
}

/* Large blocks lie on huge pages: tables touched at random miss fewer translations, and taking and
 * giving back their pages is no long wait. */
static void *default_allocate(size_t size, size_t alignment, void *user)
{
  (void)user;
  if (alignment <= _Alignof(max_align_t)) return malloc(size);
  if (size >= LARGE) alignment = TSR__HUGE_PAGE;
  /* The size must be a multiple of the alignment. */
  void *block = aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
  if (block && size >= LARGE) huge_pages(block, size & ~(TSR__HUGE_PAGE - 1));
  return block;
}

static void default_release(void *pointer, size_t size, void *user)
{
  (void)size;
  (void)user;
  free(pointer);
}

/* Of the system, or of what differs from run to run where it gives none. Tables that strangers fill
 * are seeded by it. */
static uint64_t draw_seed(const tsr__heap *heap)
{
  uint64_t seed;
  if (getentropy(&seed, sizeof seed) == 0) return seed;
  struct timespec now = { 0, 0 };
  clock_gettime(CLOCK_REALTIME, &now);
  return tsr__hash(&now, sizeof now, (uint64_t)(uintptr_t)heap);
}

/* The user's functions are copied; what `user` of them points to is borrowed as long as the heap is
 * used. */
void tsr__heap_init(tsr__heap *heap, const tsr_allocator *user)
{
  /* Half an allocator is none. */
  bool whole = user && user->allocate && user->release;
  heap->fn = whole ? *user : (tsr_allocator){ default_allocate, default_release, NULL };
  atomic_init(&heap->live, 0);
  atomic_init(&heap->used, 0);
  atomic_init(&heap->beyond, 0);
  atomic_init(&heap->limit, 0);
  heap->latch = (tsr__latch){ false };
  heap->page_count = 0;
  heap->seed = draw_seed(heap);
}

bool tsr__heap_is_default(const tsr__heap *heap)
{
  return heap->fn.allocate == default_allocate;
}

static void *take(tsr__heap *heap, size_t size, size_t alignment)
{
  if (!heap->fn.allocate || size > LARGEST) return NULL;
  /* An allocator may read size 0 as "free", so nothing is asked for as one byte. */
  void *block = heap->fn.allocate(size ? size : 1, alignment, heap->fn.user);
  /* What is kept may be what is missing. */
  if (!block && tsr__heap_is_default(heap) && tsr__heap_trim(heap))
    block = default_allocate(size, alignment, NULL);
  if (block) atomic_fetch_add_explicit(&heap->live, 1, memory_order_relaxed);
  return block;
}

/* Blocks of pools are bounded by their devices' limits and counted there. */
void *tsr__new_pooled(tsr__heap *heap, size_t size)
{
  return take(heap, size, ALIGNMENT);
}

void tsr__del_pooled(tsr__heap *heap, void *block, size_t size)
{
  if (!block) return;
  heap->fn.release(block, size ? size : 1, heap->fn.user);
  atomic_fetch_sub_explicit(&heap->live, 1, memory_order_relaxed);
}

/* Maps too much and gives back both ends, because mmap only aligns to small pages. */
static void *map(tsr__heap *heap, size_t size, int flags)
{
  char *raw = mmap(NULL, size + TSR__HUGE_PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (raw == MAP_FAILED) return NULL;
  /*   raw |--front--|========= size =========|--rest--|       front + rest = one huge page */
  size_t front = (size_t)(-(uintptr_t)raw & (TSR__HUGE_PAGE - 1));
  if (front) munmap(raw, front);
  if (front < TSR__HUGE_PAGE) munmap(raw + front + size, TSR__HUGE_PAGE - front);
  huge_pages(raw + front, size);
  atomic_fetch_add_explicit(&heap->live, 1, memory_order_relaxed);
  return raw + front;
}

void *tsr__map_huge(tsr__heap *heap, size_t size)
{
  return map(heap, size, 0);
}

void tsr__unmap_huge(tsr__heap *heap, void *block, size_t size)
{
  munmap(block, size);
  atomic_fetch_sub_explicit(&heap->live, 1, memory_order_relaxed);
}

/* Whether a block that is taken once comes from the system: whole pages, whatever their size. */
static bool is_mapped(const tsr__heap *heap, size_t size)
{
  return size >= LARGE && size % MAPPED == 0 && tsr__heap_is_default(heap);
}

static void give_up(tsr__heap *heap, size_t size)
{
  atomic_fetch_sub_explicit(&heap->used, (int64_t)size, memory_order_relaxed);
}

/* Booked before it is taken, so that two threads cannot both fill the last place. */
static bool book(tsr__heap *heap, size_t size)
{
  int64_t bytes = (int64_t)size;
  /* `used` is what was there before these bytes. */
  int64_t used = atomic_fetch_add_explicit(&heap->used, bytes, memory_order_relaxed);
  int64_t limit = atomic_load_explicit(&heap->limit, memory_order_relaxed);
  if (!limit || size <= SMALL || bytes <= limit - used) return true;
  give_up(heap, size);
  /* Remembered for the message that somebody is about to write; of several refusals the last one
   * is told. */
  atomic_store_explicit(&heap->beyond, used + bytes, memory_order_relaxed);
  return false;
}

/* ---- pages that were given back -------------------------------------------------------------- */

/*   kept   |====|====|====|==      block   |....|....|....        a huge page moves from the end of
 *                           \______________>|                     one to where the other begins
 *
 * Pages are moved by the system's tables: nothing is copied, and nothing cleared. */

#if defined(MREMAP_FIXED) && !TSR__WATCHED
enum { KEEPS = 1 };
#else
enum { KEEPS = 0 };
#endif

/* A huge page to its place, where nothing was written yet; false: there is none. */
static bool move_page(tsr__heap *heap, char *to)
{
#ifdef MREMAP_FIXED
  while (heap->page_count) {
    struct tsr__spare_pages *last = &heap->pages[heap->page_count - 1];
    last->size -= TSR__HUGE_PAGE;
    char *from = last->at + last->size;
    heap->page_count -= !last->size;
    if (mremap(from, TSR__HUGE_PAGE, TSR__HUGE_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to)
      return true;
    /* What it was to replace may be gone by then. */
    munmap(from, TSR__HUGE_PAGE);
    void *again = mmap(to, TSR__HUGE_PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    TSR_INVARIANT(again == to);
  }
#endif
  (void)heap;
  (void)to;
  return false;
}

/* Gives a new mapping kept pages, as far as there are some. */
static void back(tsr__heap *heap, char *block, size_t size)
{
  if (!KEEPS) return;
  tsr__latch_close(&heap->latch);
  for (size_t at = 0; at + TSR__HUGE_PAGE <= size && move_page(heap, block + at);)
    at += TSR__HUGE_PAGE;
  tsr__latch_open(&heap->latch);
}

/* Keeps pages of a block that is given back, or gives them to the system. */
static void spare(tsr__heap *heap, char *block, size_t size)
{
  size_t kept = size & ~(TSR__HUGE_PAGE - 1), sum = kept;
  const int most = (int)(sizeof heap->pages / sizeof *heap->pages);
  tsr__latch_close(&heap->latch);
  for (int i = 0; i < heap->page_count; i++) sum += heap->pages[i].size;
  if (!KEEPS || heap->page_count == most || sum > KEPT || atomic_load(&heap->limit)) kept = 0;
  else heap->pages[heap->page_count++] = (struct tsr__spare_pages){ block, kept };
  tsr__latch_open(&heap->latch);
  if (kept < size) munmap(block + kept, size - kept);
}

bool tsr__heap_trim(tsr__heap *heap)
{
  tsr__latch_close(&heap->latch);
  bool any = heap->page_count > 0;
  for (; heap->page_count; heap->page_count--) {
    const struct tsr__spare_pages *last = &heap->pages[heap->page_count - 1];
    munmap(last->at, last->size);
  }
  tsr__latch_open(&heap->latch);
  return any;
}

static void *take_booked(tsr__heap *heap, size_t size, bool once)
{
  if (!heap->fn.allocate || size > LARGEST || !book(heap, size)) return NULL;
  size_t alignment = size <= NARROW ? _Alignof(max_align_t) : ALIGNMENT;
  bool mapped = once && is_mapped(heap, size);
  void *block = mapped ? map(heap, size, 0) : take(heap, size, alignment);
  if (!block) give_up(heap, size);
  else if (mapped) back(heap, block, size);
  return block;
}

void *tsr__new_raw(tsr__heap *heap, size_t size)
{
  return take_booked(heap, size, false);
}

void *tsr__new_once(tsr__heap *heap, size_t size)
{
  return take_booked(heap, size, true);
}

void tsr__del_once(tsr__heap *heap, void *block, size_t size)
{
  if (!block || !is_mapped(heap, size)) {
    tsr__del(heap, block, size);
    return;
  }
  give_up(heap, size);
  atomic_fetch_sub_explicit(&heap->live, 1, memory_order_relaxed);
  spare(heap, block, size);
}

static size_t round_up(size_t size)
{
  return (size + MAPPED - 1) & ~(MAPPED - 1);
}

size_t tsr__whole_pages(size_t size)
{
  return size < LARGE || size > LARGEST ? size : round_up(size);
}

bool tsr__reserve_open(tsr__reserve *reserve, tsr__heap *heap, size_t most)
{
  *reserve = (tsr__reserve){ .heap = heap };
  if (!tsr__heap_is_default(heap) || most > LARGEST / 2) return false;
  reserve->most = round_up(most ? most : 1);
  /* Nothing is promised: the system's own limit would count what is never written. */
  reserve->at = map(heap, reserve->most, MAP_NORESERVE);
  return reserve->at != NULL;
}

bool tsr__reserve_take(tsr__reserve *reserve, size_t end)
{
  tsr__heap *heap = reserve->heap;
  tsr__latch_close(&heap->latch);
  bool fine = end <= reserve->taken || book(heap, end - reserve->taken);
  if (fine && end > reserve->taken) reserve->taken = end;
  /* Ahead of what is written anywhere, as pages replace what is there. */
  while (KEEPS && fine && reserve->backed < end) {
    bool moved = reserve->most - reserve->backed >= TSR__HUGE_PAGE &&
                 move_page(heap, reserve->at + reserve->backed);
    reserve->backed = moved ? reserve->backed + TSR__HUGE_PAGE : reserve->most;
  }
  tsr__latch_open(&heap->latch);
  return fine;
}

void tsr__reserve_close(tsr__reserve *reserve)
{
  if (!reserve->at) return;
  tsr__unmap_huge(reserve->heap, reserve->at, reserve->most);
  give_up(reserve->heap, reserve->taken);
  *reserve = (tsr__reserve){ .heap = reserve->heap };
}

void *tsr__reserve_keep(tsr__reserve *reserve, size_t *size)
{
  tsr__heap *heap = reserve->heap;
  char *block = reserve->at;
  size_t kept = round_up(*size);
  if (kept < LARGE || kept > reserve->most) {
    /* As little as that is no block of whole pages. */
    block = tsr__new_once(heap, *size);
    if (block) memcpy(block, reserve->at, *size);
    tsr__reserve_close(reserve);
    return block;
  }
  if (kept < reserve->most) munmap(block + kept, reserve->most - kept);
  atomic_fetch_add_explicit(&heap->used, (int64_t)kept - (int64_t)reserve->taken,
                            memory_order_relaxed);
  *size = kept;
  *reserve = (tsr__reserve){ .heap = heap };
  return block;
}

void *tsr__new(tsr__heap *heap, size_t size)
{
  void *block = tsr__new_raw(heap, size);
  if (block) memset(block, 0, size);
  return block;
}

void tsr__del(tsr__heap *heap, void *block, size_t size)
{
  if (!block) return;
  give_up(heap, size);
  tsr__del_pooled(heap, block, size);
}

void tsr__heap_tell(tsr__heap *heap, char *out, size_t size)
{
  int64_t beyond = 0;
  /* Told once: a later lack of memory may have another cause. */
  if (heap->limit) beyond = atomic_exchange_explicit(&heap->beyond, 0, memory_order_relaxed);
  out[0] = '\0';
  if (beyond)
    snprintf(out, size,
             "; the host would hold %lld bytes beside the devices, but .memory_limit allows %lld; "
             "read fewer columns of text, collect fewer rows, or raise the limit",
             (long long)beyond, (long long)heap->limit);
}

/* Twice as large each time, so that n additions copy fewer than 2 n elements; just as large as
 * needed where twice would be more than there can be. */
bool tsr__grow(tsr__heap *heap, void **array, size_t *capacity, size_t need, size_t element)
{
  if (need <= *capacity) return true;
  size_t wanted = *capacity < 4 ? 8 : *capacity > SIZE_MAX / 2 ? need : *capacity * 2;
  if (wanted < need) wanted = need;
  if (element && wanted > LARGEST / element) wanted = need;
  if (element && wanted > LARGEST / element) return false;
  /* No realloc: users' allocators have none, and the old list stays whole where memory is short. */
  void *grown = tsr__new_raw(heap, wanted * element);
  if (!grown) return false;
  size_t used = *capacity * element;
  if (*array && used) memcpy(grown, *array, used);
  /* New places are zero, which lists of structs rely on. */
  memset((char *)grown + used, 0, wanted * element - used);
  tsr__del(heap, *array, used);
  *array = grown;
  *capacity = wanted;
  return true;
}

bool tsr__trim(tsr__heap *heap, void **array, size_t capacity, size_t count, size_t element)
{
  size_t bytes = count * element;
  void *exact = bytes ? tsr__new_raw(heap, bytes) : NULL;
  if (exact) memcpy(exact, *array, bytes);
  tsr__del(heap, *array, capacity * element);
  *array = exact;
  return exact || !bytes;
}
