/* Inside kernel/: the CPU devices' own state and the functions of their table. */
#ifndef TSR_KERNEL_CPU_H
#define TSR_KERNEL_CPU_H

#include "kernel/fuse/kir.h"
#include "kernel/tile/isa.h"

/* Working memory of one task, kept from run to run; taken and given back newest first, so that
 * it stays in the cache. */
typedef struct tsr__scratch {
  struct tsr__scratch *next;
  size_t size; /* of `memory` */
  unsigned char *memory;
} tsr__scratch;

/* The slot TSR__SLOT_DEVICES of a "cpu:n" runtime. */
typedef struct tsr__cpu {
  tsr__devices base;
  const tsr__tiles *tiles;
  pthread_mutex_t lock;
  tsr__scratch *idle;
} tsr__cpu;

tsr__cpu *tsr__cpu_of(const tsr_runtime *rt);
/* NULL when memory is short. */
tsr__scratch *tsr__scratch_take(tsr_runtime *rt, size_t size);
void tsr__scratch_give(tsr_runtime *rt, tsr__scratch *scratch);

/* copy.c */
void tsr__cpu_from_host(const tsr__box_copy *copy, const void *host, tsr__buffer *to);
void tsr__cpu_to_host(const tsr__box_copy *copy, const tsr__buffer *from, void *host);
void tsr__cpu_copy(const tsr__box_copy *copy, const tsr__buffer *from, tsr__buffer *to,
                   tsr__traffic *traffic);
/* The one routine that moves bytes from one device's pool to another's, and counts them. */
typedef struct tsr__carry {
  void *to;
  const void *from;
  size_t bytes;
  int to_device, from_device;
} tsr__carry;
void tsr__cpu_move(const tsr__carry *carry, tsr__traffic *traffic);

/* gather.c */
void tsr__cpu_pick(const tsr__pick *pick, const tsr__buffer *from, tsr__buffer *to,
                   tsr__traffic *traffic);

/* disperse.c */
void tsr__cpu_disperse(const tsr__disperse *job, const tsr__buffer *from, tsr__buffer *const *to,
                       tsr__traffic *traffic);

/* compact.c */
int64_t tsr__cpu_mask_count(const tsr__buffer *mask, int64_t rows);
void tsr__cpu_compact(const tsr__compact *job);
void tsr__cpu_mask_first(const tsr__buffer *mask, int64_t rows, int64_t keep, tsr__buffer *to);

/* interp.c, all_reduce.c */
tsr_status tsr__cpu_run(const tsr__run *run, tsr__error *error);
tsr_status tsr__cpu_combine(const tsr__combine *combine, tsr__traffic *traffic, tsr__error *error);

/* ---- runs of bits ---------------------------------------------------------------------------- */

/* The `n` <= 64 bits from bit `at` on; touches only words that hold some of them. */
static inline uint64_t tsr__bits_get(const uint64_t *bits, int64_t at, int n)
{
  int shift = (int)(at % 64);
  uint64_t value = bits[at / 64] >> shift;
  if (shift + n > 64) value |= bits[at / 64 + 1] << (64 - shift);
  return n == 64 ? value : value & ((UINT64_C(1) << n) - 1);
}

static inline void tsr__bits_put(uint64_t *bits, int64_t at, int n, uint64_t value)
{
  int shift = (int)(at % 64);
  uint64_t mask = n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
  uint64_t *word = bits + at / 64;
  word[0] = (word[0] & ~(mask << shift)) | (value & mask) << shift;
  if (shift + n > 64)
    word[1] = (word[1] & ~(mask >> (64 - shift))) | (value & mask) >> (64 - shift);
}

static inline void tsr__bits_copy(uint64_t *to, int64_t to_at, const uint64_t *from,
                                  int64_t from_at, int64_t n)
{
  for (int64_t i = 0; i < n; i += 64) {
    int some = n - i < 64 ? (int)(n - i) : 64;
    tsr__bits_put(to, to_at + i, some, tsr__bits_get(from, from_at + i, some));
  }
}

/* How many of bits 0 .. n - 1 are set. */
static inline int64_t tsr__bits_count(const uint64_t *bits, int64_t n)
{
  int64_t count = 0;
  for (int64_t i = 0; i < n / 64; i++) count += __builtin_popcountll(bits[i]);
  if (n % 64) count += __builtin_popcountll(tsr__bits_get(bits, n / 64 * 64, (int)(n % 64)));
  return count;
}

#endif
