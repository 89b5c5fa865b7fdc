/* Inside kernel/: the functions of an accumulator, one row each of graph/accums.def.
 *
 * Elements come in runs, in one of three ways:
 *
 *   across   a run along a reduced dim goes into one element
 *   along    a run along a kept dim goes into neighbouring elements, one each
 *   scatter  each element goes where its group code says
 *
 * A row is looked up once a run; its functions look at the dtype of the run, never at elements'. */
#ifndef TSR_KERNEL_ACCUM_H
#define TSR_KERNEL_ACCUM_H

#include "kernel/tile/partial.h"

/* The places of a part's elements in the whole domain: in C order over its reduced dims. */
typedef struct tsr__places {
  int rank;
  const int64_t *size, *start; /* both of the part */
  int64_t step[TSR_MAX_RANK];  /* 0: a kept dim */
} tsr__places;

/* A run of elements on its way into an accumulator. */
typedef struct tsr__feed {
  tsr__partial *to;
  const tsr__tiles *tiles;
  tsr__grid *grid;      /* used by sums of floats */
  int dtype;            /* x's type in registers */
  const void *x;        /* of bools: bits of the run; NULL: only the mask counts */
  const uint64_t *mask; /* bits of the run, or NULL */
  int64_t element;      /* across, along: the first element of the accumulator */
  int64_t n;            /* at most a tile */
  /* Set for rows with `places`: */
  const tsr__places *places;
  int64_t at;           /* place among the part's elements: the run's first, */
  const uint16_t *kept; /* or of scatter's run: each element's distance from `at`; NULL: in order */
} tsr__feed;

/* One result being read from its accumulators. */
typedef struct tsr__final {
  const tsr__gnode *node;
  const tsr__reduce_attr *attr;     /* of it */
  const tsr__partial *main, *count; /* count: NULL = all outputs have `population` */
  int64_t population, elements;
  void *out;
} tsr__final;

struct tsr__accum_ops {
  bool places;  /* it asks where elements stand */
  int rows;     /* tsr__rows that hold an element, 24 bytes in each; 0: it is all in `data` */
  size_t bytes; /* size of an element in `data` */
  /* Makes words from .. to - 1 of `data` those of no value. */
  void (*none)(const tsr__partial *p, size_t from, size_t to);
  void (*across)(const tsr__feed *feed);
  void (*along)(const tsr__feed *feed);
  /* Codes below 0 are left out, and the mask's choice with them. */
  void (*scatter)(const tsr__feed *feed, const int32_t *codes);
  /* Joins p->count elements. NULL: tsr__rows, which tile functions join. */
  void (*merge)(const tsr__partial *p, void *into, const void *from);
  /* Element i to its `size` bytes on the way, and such bytes to memory. NULL: tsr__rows. */
  void (*pack)(const tsr__partial *p, int64_t i, unsigned char *wire, size_t size);
  void (*unpack)(const tsr__partial *p, const unsigned char *wire, size_t size, void *memory);
  tsr_status (*read)(const tsr__final *final, tsr__error *error);
  /* `rows` runs along the same elements, one after the other in memory, longer than a tile perhaps;
   * f32 values, without a mask. NULL: one by one. */
  void (*down)(const tsr__feed *feed, int64_t rows);
};

extern const tsr__accum_ops *const tsr__accum_table[TSR__ACCUMS];

#define ACCUM(id, ...) extern const tsr__accum_ops tsr__accum_##id;
#define CLASS(...)
#include "graph/accums.def"

/* ---- functions that rows share (accum.c) ---- */

/* Words from .. to - 1 of `data` = word. */
void tsr__accum_fill(const tsr__partial *p, size_t from, size_t to, int64_t word);
void tsr__accum_zeros(const tsr__partial *p, size_t from, size_t to);

void tsr__put_bytes(unsigned char *to, uint64_t value, size_t size);
uint64_t tsr__get_bytes(const unsigned char *from, size_t size);
/* An element of one word travels as the word's low bytes, as many as the dtype has. A double
 * travels as all its bits. */
void tsr__pack_word(const tsr__partial *p, int64_t i, unsigned char *wire, size_t size);
void tsr__unpack_word(const tsr__partial *p, const unsigned char *wire, size_t size, void *memory);

/* How many elements of a bool run are true and taken; without x, how many are taken. */
int64_t tsr__count_true(const tsr__feed *feed);

/* Element i of a run of bools or integers that fit i64; 0 without x. */
static inline int64_t tsr__whole_at(const tsr__feed *f, int64_t i)
{
  return f->dtype == TSR_BOOL  ? f->x && tsr__taken(f->x, i)
         : f->dtype == TSR_I32 ? ((const int32_t *)f->x)[i]
         : f->dtype == TSR_I64 ? ((const int64_t *)f->x)[i]
                               : 0;
}

int64_t tsr__final_count(const tsr__final *f, int64_t i);
bool tsr__final_is_mean(const tsr__final *f);
bool tsr__final_is_root(const tsr__final *f);
void tsr__final_put_whole(const tsr__final *f, int64_t i, int64_t value);
void tsr__final_put_real(const tsr__final *f, int64_t i, double value);

/* Rows that take elements one by one get their functions here: their along and scatter. */
#define TSR__ACCUM_LOOPS(name, add_one)                                \
  static void along_##name(const tsr__feed *f)                         \
  {                                                                    \
    for (int64_t i = 0; i < f->n; i++)                                 \
      if (tsr__taken(f->mask, i)) add_one(f, f->element + i, i);       \
  }                                                                    \
  static void scatter_##name(const tsr__feed *f, const int32_t *codes) \
  {                                                                    \
    for (int64_t i = 0; i < f->n; i++)                                 \
      if (codes[i] >= 0) add_one(f, codes[i], i);                      \
  }

#endif
