/* Matrix products: out[.., i, j] = the sum over k of a[.., i, k] * b[.., k, j].
 *
 *   block of out     up to ROWS x COLUMNS, a task: kept while all of k passes, DEPTH at a time
 *   panels           a few rows of a, a few columns of b, as kernel/tile/product_tile.c takes them
 *
 * Invariant: an element takes its products in order of k, all of which is here, so neither blocks
 * nor meshes can show. Floats are multiplied and added in f64 and rounded to their dtype at the
 * end; integers wrap. */
#include "kernel/routine/routine.h"

enum {
  ROWS = 96, /* of a block; multiples of a panel's */
  COLUMNS = 256,
  DEPTH = 256,
  HIGH = TSR__PRODUCT_ROWS,
  WIDE = TSR__PRODUCT_COLUMNS,
  SMALL = 1 << 17 /* products that are not worth waking a worker for */
};

/* What is computed in: f64, or integers of 64 or 32 bits, of which narrower ones are the ends. */
typedef struct number {
  tsr_dtype dtype;
  size_t size;
  void (*product)(void *c, const void *a, const void *b, int64_t depth);
} number;

static number number_of(const tsr__call *call)
{
  const tsr__tiles *tiles = tsr__cpu_of(call->rt)->tiles;
  tsr_dtype dtype = tsr__call_dtype(call, 0);
  if (tsr__dtype_float(dtype)) return (number){ dtype, sizeof(double), tiles->product_f64 };
  if (tsr_dtype_size(dtype) == 8) return (number){ dtype, 8, tiles->product_u64 };
  return (number){ dtype, 4, tiles->product_u32 };
}

typedef struct product_job {
  const tsr__call *call;
  number number;
  int rank;
  tsr__progress progress;
} product_job;

/* A part's matrices: `count` products of rows x depth by depth x columns, in so many blocks. */
typedef struct extent {
  int64_t count, rows, depth, columns, down, across;
} extent;

static extent extent_of(const product_job *job, int part)
{
  const tsr__shard *a = &job->call->parts[part].in[0], *b = &job->call->parts[part].in[1];
  extent e = {
    1, a->box.size[job->rank - 2], a->box.size[job->rank - 1], b->box.size[job->rank - 1], 0, 0
  };
  for (int d = 0; d < job->rank - 2; d++) e.count *= a->box.size[d];
  e.down = (e.rows + ROWS - 1) / ROWS;
  e.across = (e.columns + COLUMNS - 1) / COLUMNS;
  return e;
}

/* A task: where its block lies, and its own memory. */
typedef struct block {
  const product_job *job;
  const tsr__call_part *part;
  extent e;
  int64_t matrix, row, column, rows, columns; /* rows and columns: without what fills panels up */
  char *a, *b, *c, *line;
} block;

static size_t room_of(const number *n)
{
  return (size_t)(ROWS * DEPTH + DEPTH * COLUMNS + ROWS * COLUMNS + COLUMNS) * n->size;
}

/* ---- elements as they are computed with ------------------------------------------------------ */

#define WIDEN(T, I)                                                               \
  for (int64_t i = 0; i < n; i++) to[i] = (uint32_t)(I)((const T *)from)[at + i]; \
  break

static void load_line(tsr_dtype dtype, const void *from, int64_t at, int64_t n, void *out)
{
  uint32_t *to = out;
  switch (dtype) {
  case TSR_I8: WIDEN(int8_t, int32_t);
  case TSR_I16: WIDEN(int16_t, int32_t);
  case TSR_U8: WIDEN(uint8_t, uint32_t);
  case TSR_U16: WIDEN(uint16_t, uint32_t);
  case TSR_I32:
  case TSR_U32: WIDEN(uint32_t, uint32_t);
  case TSR_I64:
  case TSR_U64: memcpy(out, (const uint64_t *)from + at, (size_t)n * sizeof(uint64_t)); break;
  default: tsr__load_reals(dtype, from, at, n, out);
  }
}

/* A line of `n` elements into panels of so many lines: element k of line i goes to place k of panel
 * i / high, beside those of the panel's other lines. */
#define SPREAD(name, T)                                                                \
  static void name(const void *line, int64_t n, int64_t i, int64_t high, void *panels) \
  {                                                                                    \
    const T *from = line;                                                              \
    T *to = (T *)panels + i / high * high * n + i % high;                              \
    for (int64_t k = 0; k < n; k++) to[k * high] = from[k];                            \
  }

SPREAD(spread_32, uint32_t)
SPREAD(spread_64, uint64_t)

/* `depth` columns of a from `first` on. */
static void pack_left(const block *p, int64_t first, int64_t depth)
{
  const number *n = &p->job->number;
  for (int64_t i = 0; i < (p->rows + HIGH - 1) / HIGH * HIGH; i++) {
    int64_t at = (p->matrix * p->e.rows + p->row + i) * p->e.depth + first;
    if (i < p->rows) load_line(n->dtype, p->part->in[0].buffer->data, at, depth, p->line);
    else memset(p->line, 0, (size_t)depth * n->size);
    (n->size == 8 ? spread_64 : spread_32)(p->line, depth, i, HIGH, p->a);
  }
}

/* `depth` rows of b from `first` on: each panel has its own piece of every row. */
static void pack_right(const block *p, int64_t first, int64_t depth)
{
  const number *n = &p->job->number;
  int64_t panels = (p->columns + WIDE - 1) / WIDE;
  size_t piece = WIDE * n->size;
  for (int64_t k = 0; k < depth; k++) {
    int64_t at = (p->matrix * p->e.depth + first + k) * p->e.columns + p->column;
    memset(p->line + (size_t)(panels - 1) * piece, 0, piece);
    load_line(n->dtype, p->part->in[1].buffer->data, at, p->columns, p->line);
    for (int64_t v = 0; v < panels; v++)
      memcpy(p->b + (size_t)(v * depth + k) * piece, p->line + (size_t)v * piece, piece);
  }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Sums begin with -0, to which anything can be added without a trace; the sum of nothing is 0. */
static void clear(const block *p)
{
  double nothing = p->e.depth ? -0.0 : 0.0, *c = (double *)(void *)p->c;
  if (!tsr__dtype_float(p->job->number.dtype))
    memset(p->c, 0, (size_t)(ROWS * COLUMNS) * p->job->number.size);
  else
    for (int i = 0; i < ROWS * COLUMNS; i++) c[i] = nothing;
}

static void multiply(const block *p, int64_t depth)
{
  const number *n = &p->job->number;
  int64_t high = (p->rows + HIGH - 1) / HIGH, wide = (p->columns + WIDE - 1) / WIDE;
  for (int64_t v = 0; v < wide; v++)
    for (int64_t u = 0; u < high; u++)
      n->product(p->c + (size_t)((v * high + u) * HIGH * WIDE) * n->size,
                 p->a + (size_t)(u * HIGH * depth) * n->size,
                 p->b + (size_t)(v * WIDE * depth) * n->size, depth);
}

static void write_block(const block *p)
{
  const number *n = &p->job->number;
  void *out = p->part->out[0].buffer->data;
  bool real = tsr__dtype_float(n->dtype);
  int64_t high = (p->rows + HIGH - 1) / HIGH;
  for (int64_t i = 0; i < p->rows; i++)
    for (int64_t j = 0; j < p->columns; j++) {
      int64_t at = (p->matrix * p->e.rows + p->row + i) * p->e.columns + p->column + j;
      int64_t panel = j / WIDE * high + i / HIGH;
      int64_t from = (panel * HIGH + i % HIGH) * WIDE + j % WIDE;
      if (real) tsr__dtype_put_real(n->dtype, out, at, ((double *)(void *)p->c)[from]);
      else if (n->size == 8)
        tsr__dtype_put_whole(n->dtype, out, at, ((int64_t *)(void *)p->c)[from]);
      else tsr__dtype_put_whole(n->dtype, out, at, ((int32_t *)(void *)p->c)[from]);
    }
}

static void run_block(product_job *job, block *p, int worker)
{
  clear(p);
  for (int64_t first = 0; first < p->e.depth; first += DEPTH) {
    int64_t depth = p->e.depth - first < DEPTH ? p->e.depth - first : DEPTH;
    if (tsr__progress_stops(&job->progress, worker)) return;
    pack_left(p, first, depth);
    pack_right(p, first, depth);
    multiply(p, depth);
  }
  write_block(p);
}

typedef struct product_run {
  product_job job;
  _Atomic bool failed;
} product_run;

static void block_task(void *user, int64_t task, int worker)
{
  product_run *run = user;
  product_job *job = &run->job;
  extent e = extent_of(job, 0);
  int part = 0;
  for (; task >= e.count * e.down * e.across; e = extent_of(job, ++part))
    task -= e.count * e.down * e.across;
  block p = { .job = job, .part = &job->call->parts[part], .e = e };
  tsr__scratch *scratch = tsr__scratch_take(job->call->rt, room_of(&job->number));
  if (!scratch) {
    run->failed = true;
    return;
  }
  p.matrix = task / (e.down * e.across);
  p.row = task / e.across % e.down * ROWS;
  p.column = task % e.across * COLUMNS;
  p.rows = e.rows - p.row < ROWS ? e.rows - p.row : ROWS;
  p.columns = e.columns - p.column < COLUMNS ? e.columns - p.column : COLUMNS;
  p.a = (char *)scratch->memory;
  p.b = p.a + (size_t)(ROWS * DEPTH) * job->number.size;
  p.c = p.b + (size_t)(DEPTH * COLUMNS) * job->number.size;
  p.line = p.c + (size_t)(ROWS * COLUMNS) * job->number.size;
  run_block(job, &p, worker);
  tsr__scratch_give(job->call->rt, scratch);
}

tsr_status tsr__routine_matmul(const tsr__call *call, tsr__error *error)
{
  product_run run = { .job = { .call = call,
                               .number = number_of(call),
                               .rank = tsr__call_node(call)->rank,
                               .progress = { .rt = call->rt, .what = TSR__PROGRAM } } };
  int64_t tasks = 0;
  double products = 0;
  for (int p = 0; p < call->part_count; p++) {
    extent e = extent_of(&run.job, p);
    tasks += e.count * e.down * e.across;
    products += (double)(e.count * e.rows * e.columns) * (double)e.depth;
  }
  if (products <= SMALL)
    for (int64_t t = 0; t < tasks; t++) block_task(&run, t, 0);
  else tsr__parallel_progress(&run.job.progress, tasks, block_task, &run);
  if (run.failed)
    return tsr__error_set(error, TSR_ENOMEM,
                          "tsr_matmul: no memory left for its blocks; free arrays or raise "
                          ".memory_limit");
  return atomic_load(&run.job.progress.stop) ? tsr__cancelled(error, TSR__PROGRAM) : TSR_OK;
}
