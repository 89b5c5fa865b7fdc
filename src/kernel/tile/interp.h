/* Inside kernel/: one task of the interpreter: a stretch of one device's part of a domain. */
#ifndef TSR_KERNEL_INTERP_H
#define TSR_KERNEL_INTERP_H

#include "kernel/tile/accum.h"

/* Adjacent dims of a domain that an operand or a reduction treats alike, joined: the outermost
 * first. `step`: elements of the operand (or outputs of the reduction) between neighbours; 0 = it
 * does not vary. A dense operand's innermost step is 0 or 1. */
typedef struct tsr__walk {
  int rank;
  int64_t size[TSR_MAX_RANK], step[TSR_MAX_RANK];
} tsr__walk;

/* Joins `rank` dims of `size`; bit d of `flat`: does not vary along d. */
void tsr__walk_make(tsr__walk *walk, int rank, const int64_t *size, uint32_t flat);
/* The place of element `at` of the domain; and how many elements from it on lie in one run of the
 * innermost dim. */
int64_t tsr__walk_at(const tsr__walk *walk, int64_t at, int64_t *left);

/* A load of one device: the same in elements of the operand's part, the domain's dims joined where
 * that is one walk. Element `at` of the domain, at `index` along the walk's dims, lies at start +
 * the sum of index * step; it is there where low <= index < high. */
typedef struct tsr__loading {
  tsr__walk walk;
  bool empty, bounded;
  int64_t start;
  int64_t low[TSR_MAX_RANK], high[TSR_MAX_RANK];
  /* across the operand's lines: a block of them, turned (interp_turn.c) */
  bool turned;
  const tsr__tiles *tiles;
  int32_t size;     /* bytes of an element; 0: bits */
  char *block;      /* memory for one, or NULL */
  int64_t block_at; /* the block's start in the operand */
} tsr__loading;

/* Tiles that go down `rows` rows of a block before the next one: rows of `row` elements, `count` of
 * them until they begin anew. No row: tiles in order. */
typedef struct tsr__band {
  int64_t row, rows, count;
} tsr__band;

/* The tiles of a stretch, one after the other. */
typedef struct tsr__path {
  tsr__band band;
  int64_t from, to, at, tile;
  int64_t first, end, line, column; /* rows of the band; the row and column to do next */
} tsr__path;

typedef struct tsr__stop {
  int64_t at, n; /* n = 0: the end */
} tsr__stop;

void tsr__loading_make(tsr__loading *loading, const tsr__loadinfo *info, int rank,
                       const int64_t *size);

/* A slot that moves with the tile. */
typedef struct tsr__moving {
  char *base;
  int32_t slot;
  int32_t size; /* bytes of an element; 0: bits */
  bool input;   /* worth fetching ahead */
  bool shared;  /* a result in the memory of an input: put there when its tile is done */
  char *stage;  /* such, and those larger than the caches: computed here, then put to `base` */
} tsr__moving;

typedef struct tsr__reducing {
  tsr__partial *to; /* the device's, or `own` */
  tsr__partial own;
  tsr__walk walk; /* steps: in outputs */
  tsr__grid grid;
  tsr__places places;
} tsr__reducing;

/* The first index out of range of a run: the fault with the lowest node, then the lowest
 * position. */
typedef struct tsr__fault {
  bool set;
  int node;
  int64_t position, value, limit;
} tsr__fault;

static inline bool tsr__fault_before(const tsr__fault *a, const tsr__fault *b)
{
  if (!a->set || !b->set) return a->set;
  return a->node < b->node || (a->node == b->node && a->position < b->position);
}

typedef struct tsr__job tsr__job;

typedef struct tsr__task {
  tsr__job *job;
  int worker;
  const tsr__kernel *kernel;
  const tsr__program *program;
  const tsr__tiles *tiles;
  const tsr__run_part *part;
  void **slot;                /* slot[-1] is NULL */
  unsigned char *registers;   /* and after them one for each result */
  int64_t size[TSR_MAX_RANK]; /* local dims */
  tsr__moving *moving;
  int moving_count;
  tsr__loading *loads; /* by load */
  tsr__band band;
  tsr__reducing *reds; /* by reduction */
  int32_t *codes;      /* a tile of group codes */
  tsr__fault fault;
} tsr__task;

/* interp_load.c: instructions that look beyond their operands' tiles. `at`: first element. */
void tsr__do_load(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n);
void tsr__do_iota(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n);
void tsr__do_uniform(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n);
void tsr__do_take(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n);
void tsr__do_within(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n);
void tsr__do_search(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n);

/* interp_turn.c: whether a load may go across lines, then it needs so many bytes for a block. */
bool tsr__turn_may(const tsr__loadinfo *info, int rank);
size_t tsr__turn_bytes(void);
/* Which loads of a task do, and the order of tiles that serves them. */
void tsr__turn_plan(tsr__task *task);
/* A run of `n` elements at `row` and `column` of the two innermost dims. */
typedef struct tsr__turn {
  void *to;
  const void *from;
  int64_t offset, row, column, n;
} tsr__turn;
/* Copies the first of them by way of the block and returns how many; 0: not worth a block. */
int64_t tsr__turn_copy(tsr__loading *loading, const tsr__turn *turn);
tsr__path tsr__path_of(const tsr__task *task, int64_t from, int64_t to, int64_t tile);
tsr__stop tsr__path_next(tsr__path *path);

/* interp_reduce.c */
/* Whether a kernel only reduces columns of operands in memory; then many rows at once. */
bool tsr__goes_down(const tsr__task *task);
void tsr__do_down(tsr__task *task, int64_t from, int64_t to);
void tsr__do_reduce(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n);

/* interp.c */
bool tsr__task_stops(const tsr__task *task);

/* Runs a kernel on all local devices. */
tsr_status tsr__cpu_run(const tsr__run *run, tsr__error *error);

#endif
