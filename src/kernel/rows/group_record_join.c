/* Joining records of groups that came from other parts.
 *
 *   group     4 0 7 ...            record 4 of the part  <-  count + count, sum + sum, larger key
 *   records   |c s k|c s k|..
 *
 * Invariant: each kind joins as it reads rows (group_record.c): add, take the larger, or bitwise
 * or. */
#include "kernel/rows/group_record.h"

enum { BLOCK = 1024 };

/* Records of a block that are joined: the source and the target of each. */
typedef struct pairs {
  const uint64_t *from[BLOCK];
  uint64_t *to[BLOCK];
  int n;
} pairs;

#define EACH(pairs, at, body)                       \
  for (int i = 0; i < (pairs)->n; i++) {            \
    const uint64_t *from = (pairs)->from[i] + (at); \
    uint64_t *to = (pairs)->to[i] + (at);           \
    body;                                           \
  }

static inline bool add_128_words(uint64_t *to, const uint64_t *from)
{
  uint64_t carry = __builtin_add_overflow(to[0], from[0], &to[0]), sum;
  bool over = __builtin_add_overflow(to[1], from[1], &sum);
  return __builtin_add_overflow(sum, carry, &to[1]) || over;
}

static void join_tally(const tsr__group_record *t, const pairs *p)
{
  size_t at = t->offset / sizeof(uint64_t);
  switch (t->kind) {
  case TSR__RECORD_COUNT:
  case TSR__RECORD_I64: EACH(p, at, *to += *from); break;
  case TSR__RECORD_I128:
  case TSR__RECORD_FIX: EACH(p, at, add_128_words(to, from)); break;
  case TSR__RECORD_I192:
  case TSR__RECORD_FIX2: EACH(p, at, to[2] += from[2] + add_128_words(to, from)); break;
  case TSR__RECORD_SAW:
  case TSR__RECORD_TRUE: EACH(p, at, *to |= *from); break;
  default: EACH(p, at, *to = *from > *to ? *from : *to);
  }
}

void tsr__group_record_join(const tsr__tallies *plan, char *records, const tsr__joining *from)
{
  size_t words = plan->stride / sizeof(uint64_t);
  pairs p;
  for (int64_t start = 0; start < from->count; start += BLOCK) {
    int64_t end = from->count - start < BLOCK ? from->count : start + BLOCK;
    p.n = 0;
    for (int64_t i = start; i < end; i++) {
      uint32_t group = from->group[i];
      p.from[p.n] = from->record + (size_t)i * words;
      p.to[p.n] = (uint64_t *)(void *)(records + group * plan->stride);
      p.n += group >= from->first && group < from->end;
    }
    for (int k = 0; k < plan->count; k++) join_tally(&plan->item[k], &p);
  }
}
