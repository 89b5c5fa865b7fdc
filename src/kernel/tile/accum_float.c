/* Accumulators of floats: sums and spreads that do not round, and products, which do.
 *
 *             one element over all devices     an element of an array
 *   SUM       tsr__acc                         three doubles, and escapes (tsr__rows)
 *   SPREAD    tsr__spread                      two tsr__rows: of x and of x * x
 *   PROD      double                           double
 *
 * The state of a sum is exact, and reading it rounds once: so it does not matter in which order
 * runs, tasks and devices come. A product rounds at each step; its order is fixed, and its class
 * ORDERED. */
#include "kernel/tile/accum.h"

/* Runs so short that setting up vectors would cost more than adding one by one. */
enum { SHORT_RUN = 12 };

/* f16 and bf16 were widened to f32 when they were loaded. */
static double float_at(const tsr__feed *f, int64_t i)
{
  return f->dtype == TSR_F64 ? ((const double *)f->x)[i] : (double)((const float *)f->x)[i];
}

/* ---- sums and spreads of all elements -------------------------------------------------------- */

/* The grid is where the last tile's values lay: exact_tile.c begins there, and a wrong guess costs
 * a second look, never a bit. */
static void across_float_sum(const tsr__feed *f)
{
  const tsr__exact_ops *ops = f->tiles->exact;
  if (f->dtype == TSR_F64) ops->sum_f64(f->to->data, f->grid, f->x, (int)f->n, f->mask);
  else ops->sum_f32(f->to->data, f->grid, f->x, (int)f->n, f->mask);
}

static void across_float_spread(const tsr__feed *f)
{
  const tsr__exact_ops *ops = f->tiles->exact;
  if (f->dtype == TSR_F64) ops->spread_f64(f->to->data, f->grid, f->x, (int)f->n, f->mask);
  else ops->spread_f32(f->to->data, f->grid, f->x, (int)f->n, f->mask);
}

/* Exact, so it may be done in any order and by any device. */
static void merge_sum(const tsr__partial *p, void *into, const void *from)
{
  (void)p;
  tsr__acc_merge(into, from);
}

static void merge_spread(const tsr__partial *p, void *into, const void *from)
{
  (void)p;
  tsr__spread *to = into;
  const tsr__spread *of = from;
  tsr__acc_merge(&to->sum, &of->sum);
  tsr__acc2_merge(&to->squares, &of->squares);
}

/* A lone accumulator has one element, the first. */
static void pack_float_sum(const tsr__partial *p, int64_t i, unsigned char *wire, size_t size)
{
  (void)i, (void)size;
  tsr__acc_pack(p->data, wire);
}

static void unpack_float_sum(const tsr__partial *p, const unsigned char *wire, size_t size,
                             void *memory)
{
  (void)p, (void)size;
  tsr__acc_unpack(memory, wire);
}

static void pack_float_spread(const tsr__partial *p, int64_t i, unsigned char *wire, size_t size)
{
  (void)i, (void)size;
  const tsr__spread *spread = p->data;
  tsr__acc_pack(&spread->sum, wire);
  tsr__acc2_pack(&spread->squares, wire + TSR__ACC_WIRE);
}

static void unpack_float_spread(const tsr__partial *p, const unsigned char *wire, size_t size,
                                void *memory)
{
  (void)p, (void)size;
  tsr__spread *spread = memory;
  tsr__acc_unpack(&spread->sum, wire);
  /*    wire   sum (TSR__ACC_WIRE bytes) | squares (TSR__ACC2_WIRE bytes) */
  tsr__acc2_unpack(&spread->squares, wire + TSR__ACC_WIRE);
}

static tsr_status read_float_sum(const tsr__final *f, tsr__error *error)
{
  (void)error;
  tsr_dtype to = (tsr_dtype)f->node->dtype;
  const tsr__acc *acc = f->main->data;
  bool mean = tsr__final_is_mean(f);
  /* The mean is rounded once, from the long number itself: dividing a rounded sum would round
   * twice, or overflow. */
  double value = mean ? tsr__acc_mean(acc, tsr__final_count(f, 0), to) : tsr__acc_sum(acc, to);
  tsr__final_put_real(f, 0, value);
  return TSR_OK;
}

/* Reads a variance or a standard deviation from the exact sums of x and of x * x, and the number of
 * values. The difference of two exact numbers: nothing cancels that was rounded before. */
static tsr_status read_spread(const tsr__final *f, tsr__error *error)
{
  (void)error;
  tsr_dtype to = (tsr_dtype)f->node->dtype;
  const tsr__spread *spread = f->main->data;
  int64_t n = tsr__final_count(f, 0), ddof = f->attr->ddof;
  double value = tsr__final_is_root(f) ? tsr__acc_std(&spread->sum, &spread->squares, n, ddof, to)
                                       : tsr__acc_var(&spread->sum, &spread->squares, n, ddof, to);
  tsr__final_put_real(f, 0, value);
  return TSR_OK;
}

/* These rows reduce all elements to one: nothing goes along or by groups. */
const tsr__accum_ops tsr__accum_SUM_LONE = { .bytes = sizeof(tsr__acc),
                                             .none = tsr__accum_zeros,
                                             .across = across_float_sum,
                                             .merge = merge_sum,
                                             .pack = pack_float_sum,
                                             .unpack = unpack_float_sum,
                                             .read = read_float_sum };

const tsr__accum_ops tsr__accum_SPREAD_LONE = { .bytes = sizeof(tsr__spread),
                                                .none = tsr__accum_zeros,
                                                .across = across_float_spread,
                                                .merge = merge_spread,
                                                .pack = pack_float_spread,
                                                .unpack = unpack_float_spread,
                                                .read = read_spread };

/* ---- arrays of sums and spreads -------------------------------------------------------------- */

/* A sum of no value is -0: adding +0 gives +0, as adding -0 gives -0. */
static void no_sums(const tsr__partial *p, size_t from, size_t to)
{
  const double no_sum = -0.0;
  int64_t word;
  memcpy(&word, &no_sum, sizeof word);
  tsr__accum_fill(p, from, to, word);
}

/* A value as the first of its element: part[1] is -0 bit for bit while the element has no value. */
static bool begins_element(const tsr__rows *rows, int64_t element, double value)
{
  const double none = -0.0;
  if (memcmp(&rows->part[1][element], &none, sizeof none) || !(fabs(value) < TSR__ROWS_VALUE_LIMIT))
    return false;
  rows->part[0][element] = value;
  rows->part[1][element] = rows->part[2][element] = 0;
  return true;
}

/* The run into one element, whose largest part stays in a register for as long as that takes all of
 * each value. */
static void add_short_sum(const tsr__feed *f)
{
  tsr__rows *rows = f->to->rows;
  double *kept = rows->part[0] + f->element, sum = *kept;
  for (int64_t i = 0; i < f->n; i++) {
    if (!tsr__taken(f->mask, i)) continue;
    double value = float_at(f, i), plain = sum + value;
    if (tsr__takes_all(sum, value, plain) && fabs(plain) < TSR__ROWS_PART_LIMIT) {
      sum = plain;
      continue;
    }
    *kept = sum;
    if (!begins_element(rows, f->element, value)) tsr__rows_add(rows, f->element, value);
    sum = *kept;
  }
  *kept = sum;
}

/* Adds the run to one element, or to one each. `each`: along a kept dim, else all into one element.
 * The vector way and the scalar way leave the same sums, so the limit SHORT_RUN shows in time
 * only. */
static void short_run(const tsr__feed *f, bool each)
{
  tsr__rows *rows = f->to->rows;
  bool both = f->to->ops->rows == 2;
  if (!each && !both) {
    add_short_sum(f);
    return;
  }
  for (int64_t i = 0; i < f->n; i++) {
    if (!tsr__taken(f->mask, i)) continue;
    int64_t element = f->element + (each ? i : 0);
    double value = float_at(f, i);
    tsr__rows_add(&rows[0], element, value);
    /* x * x is added exactly, as the product and its error. */
    if (both) tsr__rows_add_product(&rows[1], element, value, value);
  }
}

/* Vectors add as exactly as the loop for short runs does: the result is the same either way. */
static void across_rows(const tsr__feed *f)
{
  const tsr__exact_ops *ops = f->tiles->exact;
  tsr__partial *to = f->to;
  int n = (int)f->n;
  if (n <= SHORT_RUN) {
    short_run(f, false);
    return;
  }
  bool both = to->ops->rows == 2;
  tsr__rows_at at = { &to->rows[0], f->element, both ? &to->rows[1] : NULL };
  if (f->dtype == TSR_F64)
    (both ? ops->rows_spread_f64 : ops->rows_run_f64)(at, f->grid, f->x, n, f->mask);
  else (both ? ops->rows_spread_f32 : ops->rows_run_f32)(at, f->grid, f->x, n, f->mask);
}

/* Element i of the run goes into element f->element + i.
 *
 *   run     x0 x1 x2 x3        elements   e+0 e+1 e+2 e+3     one value each */
static void along_rows(const tsr__feed *f)
{
  const tsr__exact_ops *ops = f->tiles->exact;
  tsr__rows *rows = f->to->rows;
  bool wide = f->dtype == TSR_F64;
  if (f->n <= SHORT_RUN) {
    short_run(f, true);
    return;
  }
  if (wide) ops->rows_add_f64(&rows[0], f->element, f->x, f->n, f->mask);
  else ops->rows_add_f32(&rows[0], f->element, f->x, f->n, f->mask);
  /* The second tsr__rows are those of the squares. */
  if (f->to->ops->rows != 2) return;
  if (wide) ops->rows_square_f64(&rows[1], f->element, f->x, f->n, f->mask);
  else ops->rows_square_f32(&rows[1], f->element, f->x, f->n, f->mask);
}

/* Rows of a matrix below each other, each column to its own sum: vectors go along the rows, and
 * no element is touched alone. */
static void down_rows(const tsr__feed *f, int64_t rows)
{
  tsr__partial *to = f->to;
  tsr__rows_at at = { &to->rows[0], f->element, to->ops->rows == 2 ? &to->rows[1] : NULL };
  f->tiles->exact->rows_down_f32(at, &(tsr__columns){ f->x, f->n, rows, f->n });
}

/* Two passes over the run for spreads: the codes and elements of a tile are in the cache for the
 * second. */
static void scatter_float_rows(const tsr__feed *f, const int32_t *codes)
{
  tsr__partial *to = f->to;
  for (int k = 0; k < to->ops->rows; k++) {
    tsr__scatter how = { .group = codes, .n = f->n, .squares = k == 1 };
    if (f->dtype == TSR_F64) tsr__rows_scatter_f64(&to->rows[k], f->x, &how);
    else tsr__rows_scatter_f32(&to->rows[k], f->x, &how);
  }
}

/* The parameters for reading many elements. Counts are by element where a mask or groups choose;
 * else all have as many values. */
static tsr__rows_read how_to_read(const tsr__final *f)
{
  return (tsr__rows_read){ .to = (tsr_dtype)f->node->dtype,
                           .n = f->population,
                           .counts = f->count ? f->count->data : NULL,
                           .ddof = f->attr->ddof,
                           .root = tsr__final_is_root(f) };
}

static tsr_status read_float_sums(const tsr__final *f, tsr__error *error)
{
  (void)error;
  tsr__rows_read how = how_to_read(f);
  if (tsr__final_is_mean(f)) tsr__rows_mean(f->main->rows, &how, f->out);
  else tsr__rows_sum(f->main->rows, &how, f->out);
  return TSR_OK;
}

static tsr_status read_float_spreads(const tsr__final *f, tsr__error *error)
{
  (void)error;
  tsr__rows_read how = how_to_read(f);
  tsr__rows_spread(&f->main->rows[0], &f->main->rows[1], &how, f->out);
  return TSR_OK;
}

/* Three doubles an element. Joining and sending tsr__rows is not done by rows of this table: tile
 * functions do it for whole runs. */
const tsr__accum_ops tsr__accum_SUM_ROWS = { .rows = 1,
                                             .bytes = 24,
                                             .none = no_sums,
                                             .across = across_rows,
                                             .along = along_rows,
                                             .scatter = scatter_float_rows,
                                             .read = read_float_sums,
                                             .down = down_rows };

const tsr__accum_ops tsr__accum_SPREAD_ROWS = { .rows = 2,
                                                .bytes = 48,
                                                .none = no_sums,
                                                .across = across_rows,
                                                .along = along_rows,
                                                .scatter = scatter_float_rows,
                                                .read = read_float_spreads,
                                                .down = down_rows };

/* ---- products -------------------------------------------------------------------------------- */

static void fill_float_ones(const tsr__partial *p, size_t from, size_t to)
{
  const double one = 1;
  int64_t word;
  memcpy(&word, &one, sizeof word);
  tsr__accum_fill(p, from, to, word);
}

/* In a register until the end of the run; the order is that of the elements. */
static void across_float_product(const tsr__feed *f)
{
  double product = ((double *)f->to->data)[f->element];
  for (int64_t i = 0; i < f->n; i++)
    if (tsr__taken(f->mask, i)) product *= ((const double *)f->x)[i];
  ((double *)f->to->data)[f->element] = product;
}

/* One element of the run into one product; the operand is f64, as products are taken there. Loops
 * of TSR__ACCUM_LOOPS go in order of the run, which is all that a product asks for. */
static void multiply_float(const tsr__feed *f, int64_t element, int64_t i)
{
  ((double *)f->to->data)[element] *= ((const double *)f->x)[i];
}

TSR__ACCUM_LOOPS(product, multiply_float)

/* In order of the members: the one merge that is not exact, so that its class is ORDERED and no
 * task splits it. */
static void merge_products(const tsr__partial *p, void *into, const void *from)
{
  double *to = into;
  const double *of = from;
  for (int64_t i = 0; i < p->count; i++) to[i] *= of[i];
}

static tsr_status read_products(const tsr__final *f, tsr__error *error)
{
  (void)error;
  for (int64_t i = 0; i < f->elements; i++)
    tsr__final_put_real(f, i, ((const double *)f->main->data)[i]);
  return TSR_OK;
}

const tsr__accum_ops tsr__accum_PROD_FLOAT = { .bytes = 8,
                                               .none = fill_float_ones,
                                               .across = across_float_product,
                                               .along = along_product,
                                               .scatter = scatter_product,
                                               .merge = merge_products,
                                               .pack = tsr__pack_word,
                                               .unpack = tsr__unpack_word,
                                               .read = read_products };
