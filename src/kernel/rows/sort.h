/* Inside kernel/: declarations that the files of the sort share. */
#ifndef TSR_KERNEL_SORT_H
#define TSR_KERNEL_SORT_H

#include "kernel/rows/columns.h"

enum {
  TSR__SORT_LEAF_ROWS = 65536, /* a row's place in a leaf takes 16 bits */
  TSR__CUT_BUCKETS = 1024,
  TSR__CUT_LINE = 16, /* rows that are collected for a bucket before they are written */
  TSR__CUT_SAMPLES = 16384,
  TSR__SORT_LEAF_DIGITS = 1024
};

/* A worker's own memory. */
typedef union tsr__sort_room {
  struct {
    uint64_t a[TSR__SORT_LEAF_ROWS], b[TSR__SORT_LEAF_ROWS];
    uint32_t tally[TSR__SORT_LEAF_DIGITS];
    uint64_t sample[TSR__CUT_SAMPLES], sorted[TSR__CUT_SAMPLES];
    uint32_t order[TSR__CUT_SAMPLES];
  };
  struct {
    _Alignas(64) uint64_t word[TSR__CUT_BUCKETS][TSR__CUT_LINE];
    _Alignas(64) uint32_t at[TSR__CUT_BUCKETS][TSR__CUT_LINE];
    int64_t first[TSR__CUT_BUCKETS], next[TSR__CUT_BUCKETS];
  };
} tsr__sort_room;

/* At most TSR__SORT_LEAF_ROWS words and the rows they are of (NULL: 0, 1, 2, ...). */
typedef struct tsr__sort_leaf {
  const uint64_t *word;
  const uint32_t *at;
  int64_t count;
  uint32_t *out;
} tsr__sort_leaf;

/* Puts the rows in order of their words, stable. */
void tsr__sort_leaf_rows(tsr__sort_room *room, const tsr__sort_leaf *leaf);

/* Words in order, padded by tsr__sort_pad_borders: bucket b has the words from border[b - 1] up to,
 * without, border[b]. An array of `count` borders needs room for TSR__SORT_BORDER_ROOM(count). */
typedef struct tsr__sort_borders {
  const uint64_t *border;
  int count, depth;
} tsr__sort_borders;

#define TSR__SORT_BORDER_ROOM(count) (2 * (count) + 2)
/* Returns the depth. */
int tsr__sort_pad_borders(uint64_t *border, int count);
void tsr__sort_search_borders(const tsr__sort_borders *borders, const uint64_t *word, int64_t n,
                              uint16_t *bucket);

/* Rows of one piece go to their buckets. Bucket b's come to start + next[b], next[b] + 1, ... */
typedef struct tsr__sort_deal {
  const uint64_t *word;
  const uint32_t *at; /* NULL: first_row, first_row + 1, ... */
  uint32_t first_row;
  const uint16_t *bucket;
  int64_t count;
  int buckets;
  int64_t start;
  const uint32_t *next;
  uint64_t *to_word;
  uint32_t *to_at;
} tsr__sort_deal;

void tsr__sort_deal_rows(tsr__sort_room *room, const tsr__sort_deal *job);

#endif
