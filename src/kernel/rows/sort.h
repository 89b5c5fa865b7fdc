/* Inside kernel/: what the files of the sort share. */
#ifndef TSR_KERNEL_SORT_H
#define TSR_KERNEL_SORT_H

#include "kernel/rows/columns.h"

enum {
  TSR__LEAF_ROWS = 65536, /* a row's place in a leaf takes 16 bits */
  TSR__CUT_BUCKETS = 1024,
  TSR__CUT_LINE = 16, /* rows that are collected for a bucket before they are written */
  TSR__CUT_SAMPLES = 16384,
  TSR__LEAF_DIGITS = 1024
};

/* A worker's own memory. */
typedef union tsr__sort_room {
  struct {
    uint64_t a[TSR__LEAF_ROWS], b[TSR__LEAF_ROWS];
    uint32_t tally[TSR__LEAF_DIGITS];
    uint64_t sample[TSR__CUT_SAMPLES], sorted[TSR__CUT_SAMPLES];
    uint32_t order[TSR__CUT_SAMPLES];
  };
  struct {
    _Alignas(64) uint64_t word[TSR__CUT_BUCKETS][TSR__CUT_LINE];
    _Alignas(64) uint32_t at[TSR__CUT_BUCKETS][TSR__CUT_LINE];
    int64_t first[TSR__CUT_BUCKETS], next[TSR__CUT_BUCKETS];
  };
} tsr__sort_room;

/* At most TSR__LEAF_ROWS words and the rows they are of (NULL: 0, 1, 2, ...). */
typedef struct tsr__leaf {
  const uint64_t *word;
  const uint32_t *at;
  int64_t count;
  uint32_t *out;
} tsr__leaf;

/* Puts the rows in order of their words, stable. */
void tsr__leaf_sort(tsr__sort_room *room, const tsr__leaf *leaf);

/* Words in order, padded by tsr__pad_borders: bucket b has the words from border[b - 1] up to,
 * without, border[b]. An array of `count` borders needs room for TSR__BORDER_ROOM(count). */
typedef struct tsr__borders {
  const uint64_t *border;
  int count, depth;
} tsr__borders;

#define TSR__BORDER_ROOM(count) (2 * (count) + 2)
/* Returns the depth. */
int tsr__pad_borders(uint64_t *border, int count);
void tsr__search_borders(const tsr__borders *borders, const uint64_t *word, int64_t n,
                         uint16_t *bucket);

/* Rows of one piece go to their buckets. Bucket b's come to start + next[b], next[b] + 1, ... */
typedef struct tsr__deal {
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
} tsr__deal;

void tsr__deal_rows(tsr__sort_room *room, const tsr__deal *job);

#endif
