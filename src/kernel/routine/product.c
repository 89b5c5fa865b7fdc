/* Blocked products: how a large one is cut for workers, caches and registers.
 *
 *   task    a block of a part's result, kept while all of the depth passes, DEPTH at a time
 *   block   panels of rows, panels of columns: each pair of them is one tile function's work
 *
 *               columns                       what of the result can be computed where it lies is:
 *            .-----------.                    whole panels of columns side by side, in the kind of
 *       rows |   |   |   |edge                number that it has. The rest, `edge` or all, is kept
 *            '-----------'                    in the task's memory and written at the end
 *
 * Columns that several blocks of rows meet, of one device or of several that have the same ones,
 * are packed before, once for all: a stripe of columns with all of the depth at a time. Operands
 * that are read once or by few are not packed at all: rows of few columns, columns of few rows, and
 * the rows of a matrix that meet a vector are read where they lie.
 *
 * Invariant: an element takes its products in order of the depth, all of which is here, so neither
 * blocks nor workers change a result. If leaves are asked for, each leaf is such a chain, and
 * leaves are added as a tree, whose whole nodes may lie on other devices. */
#include "kernel/routine/product.h"

#include "topology/half.h"

/*   packed rows      a   rows x DEPTH      panels of `high`, numbers of one k side by side
 *   packed columns   b   columns x DEPTH   panels of `wide`, likewise
 *
 * Together they fit the second cache, so that each is read from memory once for all pairs of
 * panels. */
enum {
  DEPTH = 264,          /* at most; 784 is three of it */
  ROW_BYTES = 1344,     /* a block's rows at one k: with COLUMN_BYTES and DEPTH they */
  COLUMN_BYTES = 2048,  /* fit the second cache */
  TILES = 10,           /* more levels than leaves that fit DEPTH have, and one */
  LINE_BYTES = 8192,    /* columns of a block of one row that is not packed */
  LINE_COLUMNS = 256,   /* columns where these are lines: tasks small enough to share evenly */
  FEW_PANELS = 4,       /* panels of columns that read rows in place */
  PAGE = 4096,          /* bytes: elements so far apart share a set of the first cache */
  NARROW = 1024,        /* bytes from a line of such columns to the next, at most */
  LINE_DEPTH = 1 << 16, /* their depth at a time: a cancelled call waits for no more */
  THIN = 128,           /* the depth at a time, if there is one panel of rows only */
  SHARED = 16 << 20,    /* bytes of columns that are packed before */
  PACKED = 128,         /* columns that a task packs at DEPTH */
  SMALL = 1 << 17,      /* products that are not worth waking a worker for */
  TASKS = 4             /* tasks a worker, if none becomes smaller than SMALL */
};

typedef struct blocking {
  const tsr__product_call *call;
  enum tsr__product_kind kind;
  const tsr__products *ops;
  size_t size;           /* bytes of a number of the kind */
  int rows, columns;     /* size of a block, whole panels */
  int levels;            /* levels of blocks that wait for their neighbours, with leaves */
  int64_t column, width; /* the stripe of columns that is done now */
  char *panels;          /* packed columns of the stripe; NULL: each task packs its own */
  int64_t *panels_at;    /* [part]: place of its first panel in `panels` */
  int64_t *first;        /* [part]: its first task; at the end the number of tasks */
  int64_t together;      /* so many small products are one task */
  _Atomic bool failed;
  tsr__progress progress;
} blocking;

static int64_t count_blocks(int64_t size, int64_t block)
{
  return (size + block - 1) / block;
}

/* ---- indices --------------------------------------------------------------------------------- */

void tsr__product_add(tsr__product_part *part, int side, tsr__product_index index)
{
  tsr__product_list *list = &part->list[side];
  list->at[list->count++] = index;
  list->size *= index.size;
}

/* The arrays of a product: each has its member of an index's steps. */
enum { LEFT, RIGHT, OUT };

static int64_t index_step_in(const tsr__product_index *index, int array)
{
  return array == LEFT ? index->left : array == RIGHT ? index->right : index->out;
}

/* Offsets of elements first .. first + n - 1 of a list in an array; past its end the last.
 * Division once, then counting: an element's offset follows from the one before it. Elements
 * past the end repeat the last one, so that panels may be read whole: their results are
 * never written. */
static void offsets(const tsr__product_list *list, int array, int64_t first, int64_t n,
                    int64_t *out)
{
  int64_t at[TSR__PRODUCT_INDICES] = { 0 }, offset = 0, rest = first, last = list->count - 1;
  int64_t step = last < 0 ? 0 : index_step_in(&list->at[last], array);
  for (int64_t d = last; d >= 0; d--) {
    at[d] = rest % list->at[d].size;
    rest /= list->at[d].size;
    offset += at[d] * index_step_in(&list->at[d], array);
  }
  for (int64_t i = 0, end; i < n; i = end) {
    bool past = first + i >= list->size || last < 0;
    int64_t left = past ? n - i : list->at[last].size - at[last];
    end = left < n - i ? i + left : n;
    for (int64_t j = i, by = past ? 0 : step; j < end; j++, offset += by) out[j] = offset;
    if (past || end == n) continue;
    offset = out[end - 1];
    if (first + end >= list->size) continue;
    offset -= (list->at[last].size - 1) * step;
    at[last] = 0;
    for (int64_t d = last - 1; d >= 0; d--) {
      offset += index_step_in(&list->at[d], array);
      if (++at[d] < list->at[d].size) break;
      offset -= at[d] * index_step_in(&list->at[d], array);
      at[d] = 0;
    }
  }
}

static int64_t offset_of(const tsr__product_list *list, int array, int64_t i)
{
  int64_t offset;
  offsets(list, array, i, 1, &offset);
  return offset;
}

/* Whether n offsets are `step` from each other; a single offset always is. */
static bool equidistant(const int64_t *at, int64_t n, int64_t step)
{
  for (int64_t i = 1; i < n; i++)
    if (at[i] != at[0] + i * step) return false;
  return true;
}

/* Finds, for each element that begins a run, how many from there on are known to lie one apart.
 * Packing copies such runs as vectors. Runs of one are always true, so they stand where nothing is
 * known. */
static void find_unit_runs(const tsr__product_list *list, int array, int64_t first, int64_t n,
                           int64_t *run)
{
  const tsr__product_index *last = list->count ? &list->at[list->count - 1] : NULL;
  bool along = last && index_step_in(last, array) == 1;
  int64_t left = along ? last->size - first % last->size : 1;
  for (int64_t i = 0; i < n; i += run[i], left = along ? last->size : 1)
    run[i] = left < n - i ? left : n - i;
}

/* ---- a task's block -------------------------------------------------------------------------- */

typedef struct block {
  const blocking *plan;
  const tsr__product_part *part;
  int64_t row, column, rows, columns, depth; /* depth: of the whole part */
  const char *left, *right;                  /* operands of its batch */
  char *out;
  bool packed;  /* its columns are, in `b` */
  int64_t edge; /* columns from here on are in `kept` */
  int64_t kept_row;
  bool ready;  /* panels of columns may be read where they lie */
  bool direct; /* panels of rows are */
  bool lines;  /* one row, whose columns are lines */
  char *a, *b, *kept, *levels, *tiles;
  int64_t *in_row, *out_row, *in_column, *out_column;
  int64_t *left_step, *right_step, *left_run, *right_run; /* for the packed depth */
} block;

static int64_t whole_panels(int64_t n, int64_t panel)
{
  return count_blocks(n, panel) * panel;
}

/* Whether columns are neighbours, in the kind of number that they are computed in. */
static bool reads_in_place(const blocking *plan, const tsr__product_part *part)
{
  const tsr__product_list *columns = &part->list[TSR__COLUMNS];
  return tsr_dtype_size(plan->call->in) == plan->size && columns->count &&
         columns->at[columns->count - 1].right == 1;
}

/* Whether a part is one row, and its columns are lines along the depth, in the kind of number that
 * they are computed in: a matrix by a vector. */
static bool columns_are_lines(const blocking *plan, const tsr__product_part *part)
{
  const tsr__product_list *depth = &part->list[TSR__DEPTH];
  return !plan->call->leaf && part->list[TSR__ROWS].size == 1 &&
         part->list[TSR__COLUMNS].size > 1 && depth->count == 1 && depth->at[0].right == 1 &&
         tsr_dtype_size(plan->call->in) == plan->size && !reads_in_place(plan, part);
}

/* Whether elements of a list lie apart in the left: elements at multiples of a page share a set of
 * the first cache, and one would drive the other out. */
static bool lies_apart(const blocking *plan, const tsr__product_list *list)
{
  return list->count && list->at[list->count - 1].left * (int64_t)plan->size % PAGE;
}

/* Whether rows are read where they lie: so few columns meet each that packing would cost as much as
 * they do. */
static bool reads_rows(const blocking *plan, const tsr__product_part *part, int64_t columns)
{
  const tsr__product_list *rows = &part->list[TSR__ROWS], *depth = &part->list[TSR__DEPTH];
  return !plan->call->leaf && columns <= FEW_PANELS * plan->ops->wide &&
         rows->size >= plan->ops->high && tsr_dtype_size(plan->call->in) == plan->size &&
         lies_apart(plan, rows) && lies_apart(plan, depth);
}

/* Whether nothing of a part needs to be packed: its rows are read where they lie, and its columns
 * lie there about as in a panel, as in a narrow matrix. */
static bool packs_none(const blocking *plan, const tsr__product_part *part)
{
  const tsr__product_list *columns = &part->list[TSR__COLUMNS], *depth = &part->list[TSR__DEPTH];
  bool steady = reads_in_place(plan, part) && reads_rows(plan, part, columns->size);
  for (int d = 0; d + 1 < depth->count && steady; d++)
    steady = depth->at[d].right == depth->at[d + 1].right * depth->at[d + 1].size;
  return steady && depth->at[depth->count - 1].right * (int64_t)plan->size <= NARROW;
}

/* Rows of a packed panel of the left: one alone is not repeated. */
static int height_of(const block *p)
{
  return p->rows == 1 ? 1 : p->plan->ops->high;
}

/* Neighbouring panels of the left's rows or of the right's columns, up to `lines` of them. */
static void pack_panels(const block *p, bool right, int64_t at, int64_t lines, int64_t depth)
{
  const tsr__products *ops = p->plan->ops;
  int64_t left = (right ? p->columns : p->rows) - at;
  tsr__packing job = { .from = right ? p->right : p->left,
                       .line = (right ? p->in_column : p->in_row) + at,
                       .step = right ? p->right_step : p->left_step,
                       .run = right ? p->right_run : p->left_run,
                       .depth = depth,
                       .lines = lines < left ? lines : left,
                       .high = right ? ops->wide : height_of(p),
                       .to = (right ? p->b : p->a) + (size_t)(at * depth) * p->plan->size };
  ops->pack[p->plan->call->in](&job);
}

/* Whether a panel of columns is read where it lies: to be packed it has too few rows to meet.
 * Packing costs a pass over the columns, which pays where several panels of rows meet each of
 * them. */
static bool columns_lie_ready(const block *p, int64_t column)
{
  int wide = p->plan->ops->wide;
  return p->ready && column + wide <= p->columns && equidistant(p->in_column + column, wide, 1);
}

/* Whether a panel of rows is read where it lies: the missing rows of the last panel are computed
 * with it, so a panel that misses many is packed. */
static bool rows_lie(const block *p, int64_t row)
{
  return p->direct && 2 * (p->rows - row) > p->plan->ops->high;
}

/* Whether panels of columns may be read where they lie: few rows meet them, or they lie as near to
 * each other as in a panel, as in a narrow matrix. The steps of the depth must be even as well: the
 * tile function goes from k to k + 1 by one number. */
static bool reads_columns(const block *p, int64_t depth)
{
  const blocking *plan = p->plan;
  int64_t step = depth < 2 ? 0 : p->right_step[1] - p->right_step[0];
  bool narrow = p->direct && step * (int64_t)plan->size <= NARROW;
  return (p->rows <= plan->ops->high || narrow) && reads_in_place(plan, p->part) &&
         equidistant(p->right_step, depth, step);
}

static void pack_block_panels(block *p, int64_t first, int64_t depth)
{
  const tsr__products *ops = p->plan->ops;
  const tsr__product_list *depths = &p->part->list[TSR__DEPTH];
  int64_t lie = 0;
  while (lie < p->rows && rows_lie(p, lie)) lie += ops->high;
  if (lie < p->rows) {
    find_unit_runs(depths, LEFT, first, depth, p->left_run);
    pack_panels(p, false, lie, p->rows - lie, depth);
  }
  if (p->packed) return;
  p->ready = reads_columns(p, depth);
  find_unit_runs(depths, RIGHT, first, depth, p->right_run);
  if (!p->ready) pack_panels(p, true, 0, p->columns, depth);
  for (int64_t j = 0; p->ready && j < p->columns; j += ops->wide)
    if (!columns_lie_ready(p, j)) pack_panels(p, true, j, ops->wide, depth);
}

/* The number of columns from j on that few rows meet at once, if columns lie side by side: two rows
 * take two panels, whose sums are all in registers. One row takes all columns: memory is read along
 * a few lines of the right at a time, and the sums stay in the first cache. */
static int64_t columns_of(const block *p, int64_t j)
{
  int64_t wide = p->plan->ops->wide;
  if (!p->ready || p->rows > 2) return wide;
  int64_t whole = p->columns / wide * wide - j, columns = p->rows == 1 ? whole : 2 * wide;
  if (columns > whole || columns < wide) return wide;
  return equidistant(p->in_column + j, columns, 1) ? columns : wide;
}

/* All panels of rows by all panels of columns; one of rows is kept near while the others pass. */
static void multiply_panels(const block *p, int64_t depth, bool fresh)
{
  const tsr__products *ops = p->plan->ops;
  size_t size = p->plan->size;
  tsr__tile_product job = { .depth = depth, .fresh = fresh };
  for (int64_t i = 0; i < p->rows; i += ops->high)
    for (int64_t j = 0; j < p->columns; j += job.columns) {
      bool kept = j >= p->edge, ready = columns_lie_ready(p, j);
      int64_t left = p->rows - i;
      job.rows = left < ops->high ? (int)left : ops->high;
      bool lie = rows_lie(p, i);
      job.line = lie ? p->in_row + i : NULL;
      job.step = p->left_step;
      job.a_step = height_of(p);
      job.a = lie ? p->left : p->a + (size_t)(i * depth) * size;
      job.b = ready ? p->right + (size_t)(p->in_column[j] + p->right_step[0]) * size
                    : p->b + (size_t)(j * depth) * size;
      job.b_step = !ready ? ops->wide : depth > 1 ? p->right_step[1] - p->right_step[0] : 0;
      job.in_place = ready;
      job.columns = columns_of(p, j);
      job.c_row = kept ? p->kept_row : p->rows > 1 ? p->out_row[1] - p->out_row[0] : 0;
      job.c = kept ? p->kept + (size_t)(i * p->kept_row + j - p->edge) * size
                   : p->out + (size_t)(p->out_row[i] + p->out_column[j]) * size;
      ops->product(&job);
    }
}

/* ---- leaves ---------------------------------------------------------------------------------- */

/* So many leaves are packed at once: a power of two, that they are a node of the tree. A power
 * of two of leaves, begun at a multiple of it, is one whole node of the tree, wherever it
 * stands. */
static int64_t leaves_of_depth(int64_t leaf)
{
  int64_t leaves = 1;
  while (2 * leaves * leaf <= DEPTH) leaves *= 2;
  return leaves;
}

/* to = from + to */
static void add_number_row(const blocking *plan, char *to, const char *from, int64_t n)
{
  float *f = (void *)to;
  double *d = (void *)to;
  if (plan->kind == TSR__PRODUCT_F32)
    for (int64_t i = 0; i < n; i++) f[i] += ((const float *)(const void *)from)[i];
  else
    for (int64_t i = 0; i < n; i++) d[i] += ((const double *)(const void *)from)[i];
}

/* Sums of n numbers that become a tree: that of the last nodes, and those that wait. */
typedef struct tree {
  const blocking *plan;
  char *now, *levels;
  int64_t n;
} tree;

/* Takes the next node of a level into a tree: `now` becomes the sum of all that it completes, and
 * of all there is once it is the last; else it waits in `levels`.
 *
 *   leaves    0  1  2  3  4       levels are the binary digits of how many were taken, and a
 *              \/    \/   |       carry is an addition. Of 5 leaves (0+1)+(2+3) waits in level
 *               \    /    |       2; leaf 4 has no neighbour, goes up as it is and is added last */
static void take_node(const tree *t, int64_t node, bool last)
{
  int level = 0;
  size_t bytes = (size_t)t->n * t->plan->size;
  for (; node >> level; level++) {
    bool waits = node >> level & 1;
    if (!waits && !last) break;
    /* The waiting sum precedes the new sum, and float addition commutes. */
    if (waits) add_number_row(t->plan, t->now, t->levels + (size_t)level * bytes, t->n);
  }
  if (!last) memcpy(t->levels + (size_t)level * bytes, t->now, bytes);
}

/* A tile of `kept`: the tree of the leaves that are packed. */
static void multiply_leaves(const block *p, int64_t i, int64_t j, int64_t depth)
{
  const tsr__products *ops = p->plan->ops;
  size_t size = p->plan->size;
  int64_t leaf = p->plan->call->leaf, left = p->rows - i, tile = (int64_t)ops->high * ops->wide;
  bool ready = columns_lie_ready(p, j);
  tree sums = { p->plan, p->tiles, p->tiles + (size_t)tile * size, tile };
  tsr__tile_product job = {
    .c = p->tiles, .c_row = ops->wide, .columns = ops->wide, .fresh = true
  };
  job.a_step = height_of(p);
  job.in_place = ready;
  job.rows = left < ops->high ? (int)left : ops->high;
  job.b_step = !ready ? ops->wide : depth > 1 ? p->right_step[1] - p->right_step[0] : 0;
  for (int64_t k = 0; k < depth; k += leaf) {
    job.depth = depth - k < leaf ? depth - k : leaf;
    job.a = p->a + (size_t)(i * depth + k * job.a_step) * size;
    job.b = ready ? p->right + (size_t)(p->in_column[j] + p->right_step[k]) * size
                  : p->b + (size_t)(j * depth + k * ops->wide) * size;
    ops->product(&job);
    take_node(&sums, k / leaf, k + leaf >= depth);
  }
  for (int r = 0; r < job.rows; r++)
    memcpy(p->kept + (size_t)((i + r) * p->kept_row + j) * size,
           p->tiles + (size_t)(r * ops->wide) * size, (size_t)ops->wide * size);
}

#define WRITE(T, FROM, VALUE)                                                 \
  do {                                                                        \
    T *to = (T *)(void *)p->out + p->out_row[i];                              \
    const FROM *from = (const FROM *)(const void *)p->kept + i * p->kept_row; \
    for (int64_t j = p->edge; j < p->columns; j++)                            \
      to[p->out_column[j]] = VALUE(from[j - p->edge]);                        \
  } while (0)

static void write_kept(const block *p)
{
  tsr_dtype dtype = p->plan->call->out;
  if (p->edge >= p->columns) return;
  for (int64_t i = 0; i < p->rows; i++) switch (tsr_dtype_size(dtype)) {
    case 1: WRITE(uint8_t, uint32_t, (uint8_t)); break;
    case 2:
      if (dtype == TSR_F16) WRITE(uint16_t, float, tsr__f16_of);
      else if (dtype == TSR_BF16) WRITE(uint16_t, float, tsr__bf16_of);
      else WRITE(uint16_t, uint32_t, (uint16_t));
      break;
    case 4: WRITE(uint32_t, uint32_t, (uint32_t)); break;
    default: WRITE(uint64_t, uint64_t, (uint64_t));
    }
}

/* Finds the block's rows and columns, and how much of the block can be computed in place. */
static void place_block(block *p)
{
  const tsr__products *ops = p->plan->ops;
  const tsr__product_list *rows = &p->part->list[TSR__ROWS];
  const tsr__product_list *columns = &p->part->list[TSR__COLUMNS];
  offsets(rows, LEFT, p->row, whole_panels(p->rows, ops->high), p->in_row);
  offsets(rows, OUT, p->row, p->rows, p->out_row);
  p->lines = columns_are_lines(p->plan, p->part);
  p->direct = reads_rows(p->plan, p->part, p->columns);
  int64_t panel = p->lines ? TSR__PRODUCT_LINES : ops->wide;
  offsets(columns, RIGHT, p->column, whole_panels(p->columns, panel), p->in_column);
  offsets(columns, OUT, p->column, p->columns, p->out_column);
  /* In place only if numbers are of the kind that is computed in and lie as tiles are written:
   * narrow ones are rounded once, from `kept`, when the whole depth has passed. */
  bool there = tsr_dtype_size(p->plan->call->out) == p->plan->size &&
               equidistant(p->out_column, p->columns, 1) &&
               (p->rows < 2 || equidistant(p->out_row, p->rows, p->out_row[1] - p->out_row[0]));
  p->edge = !there ? 0 : p->lines ? p->columns : p->columns / ops->wide * ops->wide;
  p->kept_row = whole_panels(p->columns - p->edge, ops->wide);
}

/* A sum of no products is 0. */
static void clear(const block *p)
{
  const tsr__product_call *call = p->plan->call;
  size_t size = tsr_dtype_size(call->out);
  char none[8] = { 0 };
  /* -0 adds nothing to whatever other devices have, +0 would turn a sum of -0. */
  if (call->adds && tsr__dtype_is_real(call->out)) tsr__dtype_put_real(call->out, none, 0, -0.0);
  for (int64_t i = 0; i < p->rows; i++)
    for (int64_t j = 0; j < p->columns; j++)
      memcpy(p->out + (size_t)(p->out_row[i] + p->out_column[j]) * size, none, size);
}

/* ---- columns packed before ------------------------------------------------------------------- */

/* Columns of a part in the stripe, in whole panels.
 *
 *   panels of a part   each DEPTH of the depth one after the other, in it the stripe's panels side
 *                      by side: a block's are neighbours */
static int64_t stripe_of(const blocking *plan, const tsr__product_part *part)
{
  int64_t left = part->list[TSR__COLUMNS].size - plan->column;
  return whole_panels(left < 0 ? 0 : left < plan->width ? left : plan->width, plan->ops->wide);
}

static char *panels_at(const blocking *plan, const tsr__product_part *part, int64_t column,
                       int64_t first, int64_t depth)
{
  int64_t at = first * stripe_of(plan, part) + (column - plan->column) * depth;
  return plan->panels + (size_t)(plan->panels_at[part - plan->call->parts] + at) * plan->size;
}

/* Whether a part's columns are packed with those of an earlier one: the same numbers, as they are
 * met here. */
static bool packs_nothing(const tsr__product_call *call, int part)
{
  const tsr__product_part *p = &call->parts[part], *as = &call->parts[p->right_as];
  bool same = p != as && p->turned == as->turned;
  for (int side = TSR__COLUMNS; side <= TSR__DEPTH && same; side++) {
    same = p->list[side].count == as->list[side].count;
    for (int d = 0; d < p->list[side].count && same; d++)
      same = p->list[side].at[d].size == as->list[side].at[d].size &&
             p->list[side].at[d].right == as->list[side].at[d].right;
  }
  return same;
}

/* The depth of one pass: pieces of one size, as each costs a pass over the sums so far. */
static int64_t depth_step(int64_t depth)
{
  return count_blocks(depth, count_blocks(depth, DEPTH));
}

static int64_t packing_tasks(const blocking *plan, const tsr__product_part *part)
{
  int64_t depth = part->list[TSR__DEPTH].size;
  return count_blocks(depth, depth_step(depth)) * count_blocks(stripe_of(plan, part), PACKED);
}

/* Part of a task, and the task's number in it. */
static int part_of_block_task(const blocking *plan, int64_t *task)
{
  int part = 0;
  while (*task >= plan->first[part + 1]) part++;
  *task -= plan->first[part];
  return part;
}

static void packing_task(void *user, int64_t task, int worker)
{
  blocking *plan = user;
  int64_t lines[PACKED], step[DEPTH], run[DEPTH];
  const tsr__product_part *part = &plan->call->parts[part_of_block_task(plan, &task)];
  const tsr__product_list *columns = &part->list[TSR__COLUMNS], *depths = &part->list[TSR__DEPTH];
  int64_t depth = depth_step(depths->size), steps = count_blocks(depths->size, depth);
  int64_t first = task % steps * depth;
  if (depths->size - first < depth) depth = depths->size - first;
  block p = { .plan = plan, .part = part, .right = part->right };
  if (tsr__progress_stops(&plan->progress, worker)) return;
  p.column = plan->column + task / steps * PACKED;
  p.columns = plan->column + stripe_of(plan, part) - p.column;
  if (p.columns > PACKED) p.columns = PACKED;
  if (p.columns > columns->size - p.column) p.columns = columns->size - p.column;
  p.b = panels_at(plan, part, p.column, first, depth);
  p.in_column = lines;
  p.right_step = step;
  p.right_run = run;
  offsets(columns, RIGHT, p.column, whole_panels(p.columns, plan->ops->wide), lines);
  offsets(depths, RIGHT, first, depth, step);
  find_unit_runs(depths, RIGHT, first, depth, run);
  pack_panels(&p, true, 0, p.columns, depth);
}

/* Packs the columns of the stripe. */
static void pack_stripe(blocking *plan)
{
  const tsr__product_call *call = plan->call;
  int64_t tasks = 0, numbers = 0;
  for (int p = 0; p < call->part_count; p++) {
    const tsr__product_part *part = &call->parts[p];
    bool nothing = packs_nothing(call, p);
    plan->first[p] = tasks;
    plan->panels_at[p] = nothing ? plan->panels_at[part->right_as] : numbers;
    if (nothing) continue;
    tasks += packing_tasks(plan, part);
    numbers += stripe_of(plan, part) * part->list[TSR__DEPTH].size;
  }
  plan->first[call->part_count] = tasks;
  tsr__parallel_progress(&plan->progress, tasks, packing_task, plan);
}

/* The number of columns of each part that are packed before at a time; 0: each task packs its own
 * columns, as they are read once, or are many or few. */
static int64_t shared_width(const blocking *plan, double products)
{
  const tsr__product_call *call = plan->call;
  int64_t depths = 0, blocks = 0, packed = 0, columns = 1;
  bool high = false, none = true;
  if (call->leaf || products < (double)TASKS * SMALL) return 0;
  for (int p = 0; p < call->part_count; p++) {
    const tsr__product_list *list = call->parts[p].list;
    if (list[TSR__BATCH].size != 1 || !list[TSR__DEPTH].size) return 0;
    high |= list[TSR__ROWS].size > plan->ops->high;
    blocks += count_blocks(list[TSR__ROWS].size, ROW_BYTES / (int64_t)plan->size);
    none &= packs_none(plan, &call->parts[p]);
    if (packs_nothing(call, p)) continue;
    packed++;
    depths += list[TSR__DEPTH].size;
    if (list[TSR__COLUMNS].size > columns) columns = list[TSR__COLUMNS].size;
  }
  bool cut = !none && blocks < TASKS * tsr__worker_count(call->rt);
  if (!high || (blocks <= packed && !cut)) return 0;
  int64_t most = SHARED / (int64_t)plan->size / depths / PACKED * PACKED;
  return most ? whole_panels(count_blocks(columns, count_blocks(columns, most)), PACKED) : 0;
}

/* Bytes of the panels of a stripe. */
static size_t panel_bytes(const blocking *plan, int64_t width)
{
  size_t numbers = 0;
  blocking stripe = *plan;
  stripe.width = width;
  for (int p = 0; p < plan->call->part_count; p++)
    if (!packs_nothing(plan->call, p))
      numbers += (size_t)(stripe_of(&stripe, &plan->call->parts[p]) *
                          plan->call->parts[p].list[TSR__DEPTH].size);
  return numbers * plan->size;
}

static void pack_depth(block *p, int64_t first, int64_t depth)
{
  const tsr__product_list *depths = &p->part->list[TSR__DEPTH];
  offsets(depths, LEFT, first, depth, p->left_step);
  offsets(depths, RIGHT, first, depth, p->right_step);
  if (p->packed) p->b = panels_at(p->plan, p->part, p->column, first, depth);
  pack_block_panels(p, first, depth);
}

/* A panel that meets one of rows only stays in the first cache until it is used. */
static int64_t step_of_depth(const block *p, int64_t depth)
{
  bool thin = !p->packed && p->rows <= p->plan->ops->high && !reads_in_place(p->plan, p->part);
  return thin ? THIN : depth_step(depth);
}

/* Products first .. end - 1 as one chain. */
static bool run_chain(blocking *plan, block *p, int64_t first, int64_t end, int worker)
{
  int64_t step = step_of_depth(p, end - first);
  for (int64_t at = first; at < end; at += step) {
    int64_t depth = end - at < step ? end - at : step;
    if (tsr__progress_stops(&plan->progress, worker)) return false;
    pack_depth(p, at, depth);
    multiply_panels(p, depth, at == first);
  }
  return true;
}

/* One row by lines: most of their depth at a time, if the row lies as they do. A row that lies
 * otherwise is packed before it is met. */
static bool run_lines(blocking *plan, block *p, int worker)
{
  const tsr__product_index *k = &p->part->list[TSR__DEPTH].at[0];
  int64_t step = k->left == 1 ? LINE_DEPTH : DEPTH;
  tsr__lines_product job = {
    .c = p->edge ? p->out + (size_t)(p->out_row[0] + p->out_column[0]) * plan->size : p->kept,
    .line = p->in_column,
    .lines = p->columns
  };
  for (int64_t at = 0; at < p->depth; at += step) {
    if (tsr__progress_stops(&plan->progress, worker)) return false;
    job.depth = p->depth - at < step ? p->depth - at : step;
    job.fresh = at == 0;
    job.from = p->right + (size_t)at * plan->size;
    job.a = k->left == 1 ? p->left + (size_t)(p->in_row[0] + at) * plan->size : p->a;
    if (k->left != 1) {
      offsets(&p->part->list[TSR__DEPTH], LEFT, at, job.depth, p->left_step);
      find_unit_runs(&p->part->list[TSR__DEPTH], LEFT, at, job.depth, p->left_run);
      pack_panels(p, false, 0, 1, job.depth);
    }
    plan->ops->lines(&job);
  }
  return true;
}

/* All leaves as a tree; a leaf that is not packed at once is a chain of its own. */
static bool run_leaves(blocking *plan, block *p, int worker)
{
  const tsr__products *ops = plan->ops;
  int64_t leaf = plan->call->leaf, node = leaves_of_depth(leaf) * leaf;
  p->edge = 0;
  p->kept_row = whole_panels(p->columns, ops->wide);
  tree sums = { plan, p->kept, p->levels, p->rows * p->kept_row };
  for (int64_t first = 0; first < p->depth; first += node) {
    int64_t depth = p->depth - first < node ? p->depth - first : node;
    bool last = first + node >= p->depth;
    if (leaf > DEPTH && !run_chain(plan, p, first, first + depth, worker)) return false;
    if (tsr__progress_stops(&plan->progress, worker)) return false;
    if (leaf <= DEPTH) pack_depth(p, first, depth);
    for (int64_t i = 0; i < p->rows && leaf <= DEPTH; i += ops->high)
      for (int64_t j = 0; j < p->columns; j += ops->wide) multiply_leaves(p, i, j, depth);
    take_node(&sums, first / node, last);
  }
  return true;
}

static void run_block(blocking *plan, block *p, int worker)
{
  place_block(p);
  bool done = p->depth && (plan->call->leaf ? run_leaves(plan, p, worker)
                           : p->lines       ? run_lines(plan, p, worker)
                                            : run_chain(plan, p, 0, p->depth, worker));
  if (!p->depth) clear(p);
  if (done) write_kept(p);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static int64_t down_of(const blocking *plan, const tsr__product_part *part)
{
  return count_blocks(part->list[TSR__ROWS].size, plan->rows);
}

static int64_t across_of(const blocking *plan, const tsr__product_part *part)
{
  return count_blocks(stripe_of(plan, part), plan->columns);
}

static int64_t blocks_in(const blocking *plan, const tsr__product_part *part)
{
  return part->list[TSR__BATCH].size * down_of(plan, part) * across_of(plan, part);
}

/* A task's memory, cut up. Called twice: without memory it only counts. All of it at multiples
 * of 64 bytes. */
static size_t carve_block_memory(const blocking *plan, block *p, char *memory)
{
  size_t size = plan->size, at = 0;
  size_t lines = (size_t)(plan->rows + plan->columns + TSR__PRODUCT_LINES);
#define TAKE(member, bytes)                        \
  do {                                             \
    if (memory) p->member = (void *)(memory + at); \
    at += ((size_t)(bytes) + 63) / 64 * 64;        \
  } while (0)
  TAKE(a, (size_t)plan->rows * DEPTH * size);
  TAKE(b, plan->panels ? 0 : (size_t)plan->columns * DEPTH * size);
  TAKE(kept, (size_t)plan->rows * (size_t)plan->columns * size);
  TAKE(levels, (size_t)plan->levels * (size_t)plan->rows * (size_t)plan->columns * size);
  TAKE(tiles, plan->call->leaf ? TILES * (size_t)(plan->ops->high * plan->ops->wide) * size : 0);
  TAKE(in_row, lines * sizeof(int64_t));
  TAKE(out_row, lines * sizeof(int64_t));
  TAKE(in_column, lines * sizeof(int64_t));
  TAKE(out_column, lines * sizeof(int64_t));
  TAKE(left_step, DEPTH * sizeof(int64_t));
  TAKE(right_step, DEPTH * sizeof(int64_t));
  TAKE(left_run, DEPTH * sizeof(int64_t));
  TAKE(right_run, DEPTH * sizeof(int64_t));
#undef TAKE
  return at;
}

typedef struct stretch {
  int64_t first, size;
} stretch;

/* Block n of so many: whole panels, in each as many or one more, so that workers end together. */
static stretch stretch_of_block(int64_t size, int64_t n, int64_t blocks, int64_t panel)
{
  int64_t panels = count_blocks(size, panel);
  int64_t first = panels * n / blocks * panel, end = panels * (n + 1) / blocks * panel;
  return (stretch){ first, (end < size ? end : size) - first };
}

static void set_block(const blocking *plan, block *p, int64_t n)
{
  const tsr__product_part *part = p->part;
  int64_t across = across_of(plan, part), down = down_of(plan, part);
  int64_t batch = n / (across * down);
  const tsr__product_list *rows = &part->list[TSR__ROWS], *columns = &part->list[TSR__COLUMNS];
  /* Blocks of one batch after the other, within it row by row of blocks: neighbours share their
   * panel of rows. */
  stretch high = stretch_of_block(rows->size, n / across % down, down, plan->ops->high);
  int64_t left = columns->size - plan->column;
  stretch wide = stretch_of_block(left < plan->width ? left : plan->width, n % across, across,
                                  plan->ops->wide);
  p->row = high.first;
  p->rows = high.size;
  p->column = plan->column + wide.first;
  p->columns = wide.size;
  p->packed = plan->panels;
  p->depth = part->list[TSR__DEPTH].size;
  const tsr__product_list *batches = &part->list[TSR__BATCH];
  int64_t in = (int64_t)tsr_dtype_size(plan->call->in),
          out = (int64_t)tsr_dtype_size(plan->call->out);
  p->left = (const char *)part->left + offset_of(batches, LEFT, batch) * in;
  p->right = (const char *)part->right + offset_of(batches, RIGHT, batch) * in;
  p->out = (char *)part->out + offset_of(batches, OUT, batch) * out;
}

static void block_task(void *user, int64_t task, int worker)
{
  blocking *plan = user;
  int part = part_of_block_task(plan, &task);
  block p = { .plan = plan, .part = &plan->call->parts[part] };
  tsr__scratch *scratch =
      tsr__scratch_take(plan->call->rt, carve_block_memory(plan, &p, NULL) + 64);
  if (!scratch) {
    plan->failed = true;
    return;
  }
  carve_block_memory(plan, &p, (char *)scratch->memory);
  int64_t first = task * plan->together, all = blocks_in(plan, p.part);
  int64_t end = all - first < plan->together ? all : first + plan->together;
  for (int64_t n = first; n < end; n++) {
    set_block(plan, &p, n);
    run_block(plan, &p, worker);
  }
  tsr__scratch_give(plan->call->rt, scratch);
}

/* ---- how it is cut --------------------------------------------------------------------------- */

/* Joins indices that are one in all arrays that have them.
 *
 *   rows i of 4, step 5, and j of 5, step 1   ->   one of 20, step 1 */
static void join_indices(tsr__product_list *list)
{
  int count = 0;
  for (int d = 0; d < list->count; d++) {
    const tsr__product_index next = list->at[d];
    tsr__product_index *last = &list->at[count ? count - 1 : 0];
    if (count && last->left == next.left * next.size && last->right == next.right * next.size &&
        last->out == next.out * next.size)
      *last = (tsr__product_index){ last->size * next.size, next.left, next.right, next.out };
    else if (next.size != 1) list->at[count++] = next;
  }
  list->count = count;
}

/* Lanes go along columns: a result of few columns and more rows is computed transposed. (A B)^T
 * = B^T A^T: products commute, so each element is the same chain. */
static void transpose_part(tsr__product_part *part, int wide)
{
  tsr__product_list *rows = &part->list[TSR__ROWS], *columns = &part->list[TSR__COLUMNS];
  if (columns->size >= wide || rows->size <= columns->size) return;
  tsr__product_list list = *rows;
  *rows = *columns;
  *columns = list;
  int as = part->left_as;
  part->left_as = part->right_as;
  part->right_as = as;
  part->turned = true;
  const void *left = part->left;
  part->left = part->right;
  part->right = left;
  for (int side = 0; side < TSR__SIDES; side++)
    for (int d = 0; d < part->list[side].count; d++) {
      tsr__product_index *index = &part->list[side].at[d];
      int64_t step = index->left;
      index->left = index->right;
      index->right = step;
    }
}

/* How many levels wait at most in the tree of a part's packed leaves. */
static int levels_of(const tsr__product_call *call)
{
  int levels = 0;
  for (int p = 0; p < call->part_count && call->leaf; p++) {
    int64_t node = leaves_of_depth(call->leaf) * call->leaf;
    int64_t nodes = count_blocks(call->parts[p].list[TSR__DEPTH].size, node);
    while (nodes > 1 && (nodes - 1) >> levels) levels++;
  }
  return levels;
}

static enum tsr__product_kind product_kind_of(tsr_dtype out)
{
  size_t size = tsr_dtype_size(out);
  if (tsr__dtype_is_real(out)) return size == 8 ? TSR__PRODUCT_F64 : TSR__PRODUCT_F32;
  return size == 8 ? TSR__PRODUCT_U64 : TSR__PRODUCT_U32;
}

static double products_in(const tsr__product_part *part)
{
  double products = 1;
  for (int side = 0; side < TSR__SIDES; side++) products *= (double)part->list[side].size;
  return products;
}

static int64_t tasks_of(blocking *plan)
{
  int64_t tasks = 0;
  for (int p = 0; p < plan->call->part_count; p++) {
    plan->first[p] = tasks;
    tasks += count_blocks(blocks_in(plan, &plan->call->parts[p]), plan->together);
  }
  plan->first[plan->call->part_count] = tasks;
  return tasks;
}

/* Whether the only part there is can be dealt to the workers by panels of columns, alike. */
static bool is_even(const blocking *plan, int64_t columns)
{
  return plan->call->part_count == 1 && plan->call->parts[0].list[TSR__BATCH].size == 1 &&
         !(count_blocks(columns, plan->ops->wide) % tsr__worker_count(plan->call->rt));
}

/* Makes blocks as large as fit the cache, of even sizes; smaller while workers would idle. Blocks
 * are halved along their longer side; small products are too little to be cut, and many small ones
 * are put together instead. */
static void choose_blocks(blocking *plan, double products)
{
  int64_t rows = 1, columns = 1, down = 1, across = 1,
          enough = TASKS * tsr__worker_count(plan->call->rt);
  bool in_place = false, lines = false;
  for (int p = 0; p < plan->call->part_count; p++) {
    const tsr__product_list *list = plan->call->parts[p].list;
    if (list[TSR__ROWS].size > rows) rows = list[TSR__ROWS].size;
    if (list[TSR__COLUMNS].size > columns) columns = list[TSR__COLUMNS].size;
    in_place |= reads_in_place(plan, &plan->call->parts[p]);
    lines |= columns_are_lines(plan, &plan->call->parts[p]);
  }
  if (columns > plan->width) columns = plan->width;
  down = count_blocks(rows, ROW_BYTES / (int64_t)plan->size);
  across = count_blocks(columns, (plan->panels ? 2 : 1) * COLUMN_BYTES / (int64_t)plan->size);
  /* One panel of rows: a block of one panel of columns, so that it is used right after it was
   * packed. One row that is not packed reads wide lines: few tasks of them. */
  if (rows <= plan->ops->high && !in_place) across = count_blocks(columns, plan->ops->wide);
  if (rows == 1 && lines) across = count_blocks(columns, LINE_COLUMNS);
  if (rows == 1 && in_place) {
    across = count_blocks(columns, LINE_BYTES / (int64_t)plan->size);
    enough = 2 * tsr__worker_count(plan->call->rt);
  }
  /* A small result of long chains has a task for each worker, each with columns of its own,
   * so that no column is read twice. */
  if (down == 1 && across == 1 && !plan->panels && rows > plan->ops->high && is_even(plan, columns))
    across = enough = tsr__worker_count(plan->call->rt);
  for (plan->together = 1;;) {
    plan->rows = (int)whole_panels(count_blocks(rows, down), plan->ops->high);
    plan->columns = (int)whole_panels(count_blocks(columns, across), plan->ops->wide);
    int64_t tasks = tasks_of(plan);
    bool high = plan->rows > plan->ops->high, wide = plan->columns > plan->ops->wide;
    if (tasks >= enough || products < (double)SMALL * (double)(tasks + 1) || !(high || wide)) break;
    /* Columns that are packed already cost nothing more if there are more blocks of rows. */
    if (high && (!wide || plan->panels || plan->rows >= plan->columns)) down *= 2;
    else across *= 2;
  }
  int64_t tasks = tasks_of(plan);
  if (tasks > enough) plan->together = 1 + (int64_t)(SMALL * (double)tasks / (products + 1));
}

/* All stripes, one after the other. */
static void run_stripes(blocking *plan, double products)
{
  int64_t columns = 0;
  for (int p = 0; p < plan->call->part_count; p++) {
    const tsr__product_list *list = &plan->call->parts[p].list[TSR__COLUMNS];
    if (list->size > columns) columns = list->size;
  }
  if (!columns) return;
  if (plan->width > columns) plan->width = columns;
  products *= (double)plan->width / (double)columns;
  for (choose_blocks(plan, products); plan->column < columns; plan->column += plan->width) {
    if (plan->panels) pack_stripe(plan);
    int64_t tasks = tasks_of(plan);
    if (products <= SMALL)
      for (int64_t t = 0; t < tasks; t++) block_task(plan, t, 0);
    else tsr__parallel_progress(&plan->progress, tasks, block_task, plan);
    if (plan->failed || atomic_load(&plan->progress.stop)) return;
  }
}

/* In place: the call's lists are this routine's to change. */
static double prepare_parts(const blocking *plan)
{
  const tsr__product_call *call = plan->call;
  double products = 0;
  for (int p = 0; p < call->part_count; p++) {
    for (int side = 0; side < TSR__SIDES; side++) join_indices(&call->parts[p].list[side]);
    transpose_part(&call->parts[p], plan->ops->wide);
    products += products_in(&call->parts[p]);
  }
  return products;
}

tsr_status tsr__product_run(const tsr__product_call *call, tsr__error *error)
{
  const tsr__tiles *tiles = tsr__cpu_of(call->rt)->tiles;
  blocking plan = { .call = call,
                    .kind = product_kind_of(call->out),
                    .width = INT64_MAX,
                    .progress = { .rt = call->rt, .what = TSR__PROGRAM } };
  plan.ops = &tiles->products[plan.kind];
  plan.levels = levels_of(call);
  plan.size = plan.kind == TSR__PRODUCT_F64 || plan.kind == TSR__PRODUCT_U64 ? 8 : 4;
  double products = prepare_parts(&plan);
  int64_t width = shared_width(&plan, products);
  size_t lists = 2 * (size_t)(call->part_count + 1) * sizeof(int64_t);
  tsr__scratch *room = tsr__scratch_take(call->rt, lists);
  tsr__scratch *panels =
      width && room ? tsr__scratch_take(call->rt, panel_bytes(&plan, width)) : NULL;
  plan.failed = !room;
  if (panels) {
    plan.panels = (char *)panels->memory;
    plan.width = width;
  }
  if (room) {
    plan.first = (void *)room->memory;
    plan.panels_at = plan.first + call->part_count + 1;
    run_stripes(&plan, products);
  }
  tsr__scratch_give(call->rt, panels);
  tsr__scratch_give(call->rt, room);
  if (plan.failed)
    return tsr__error_set(
        error, TSR_ENOMEM,
        "tsr_%s: no memory left for the blocks of the product; free arrays or raise .memory_limit",
        call->name);
  return atomic_load(&plan.progress.stop) ? tsr__cancelled(error, TSR__PROGRAM) : TSR_OK;
}
