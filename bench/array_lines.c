/* arrays.1dev and arrays.8dev: twenty programs over arrays in memory and in the second cache. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs: the same numbers on both sides, by a formula (peers/arrays.py has it too) ---- */

typedef struct sizes {
  const char *name;
  int64_t vector, rows, columns, side, updates, bins;
  int repeats; /* calls in a round */
} sizes;

static const sizes both_sizes[] = {
  { "memory", 1 << 26, 16384, 1024, 8192, 1000000, 10000, 1 },
  { "l2", 1 << 16, 64, 1024, 256, 10000, 1000, 50 },
};

typedef struct inputs {
  tsr_array *a, *b;            /* f32 vectors */
  tsr_array *matrix;           /* f32 [rows, columns] */
  tsr_array *square;           /* f32 [side, side] */
  tsr_array *column, *row;     /* f32 [side, 1], [1, side] */
  tsr_array *picked, *labels;  /* i32 [rows]: of rows, of 64 */
  tsr_array *weights;          /* f32 [64, 256] */
  tsr_array *places, *updates; /* i32 and f32 [updates], of bins */
  tsr_array *zeros;            /* f32 [bins] */
  tsr_array *half;             /* bf16 vector */
  tsr_array *bytes;            /* i32 [vector / 4], of 256 */
} inputs;

static uint32_t mixed(int64_t i, uint32_t salt)
{
  return (uint32_t)i * 2654435761u + salt * 40503u;
}

static tsr_array *reals(tsr_scope *s, uint32_t salt, tsr_shape shape, tsr_sharding on)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  float *x = malloc((size_t)count * sizeof *x);
  for (int64_t i = 0; i < count; i++) x[i] = (float)(mixed(i, salt) >> 8) * 0x1p-24f + 0.001f;
  tsr_array *array = tsr_put(s, x, TSR_F32, shape, on);
  free(x);
  return array;
}

static tsr_array *below(tsr_scope *s, uint32_t salt, int64_t bound, int64_t count, tsr_sharding on)
{
  int32_t *x = malloc((size_t)count * sizeof *x);
  for (int64_t i = 0; i < count; i++) x[i] = (int32_t)((mixed(i, salt) >> 8) % (uint32_t)bound);
  tsr_array *array = tsr_put(s, x, TSR_I32, TSR_SHAPE(count), on);
  free(x);
  return array;
}

static tsr_status make_inputs(tsr_scope *s, tsr_mesh *mesh, const sizes *n, inputs *in)
{
  tsr_sharding rows = tsr_on(mesh, "data"), whole = tsr_on(mesh, "");
  *in = (inputs){
    .a = reals(s, 1, TSR_SHAPE(n->vector), rows),
    .b = reals(s, 2, TSR_SHAPE(n->vector), rows),
    .matrix = reals(s, 3, TSR_SHAPE(n->rows, n->columns), rows),
    .square = reals(s, 4, TSR_SHAPE(n->side, n->side), rows),
    .column = reals(s, 5, TSR_SHAPE(n->side, 1), rows),
    .row = reals(s, 6, TSR_SHAPE(1, n->side), whole),
    .picked = below(s, 7, n->rows, n->rows, rows),
    .labels = below(s, 8, 64, n->rows, rows),
    .weights = reals(s, 9, TSR_SHAPE(64, 256), whole),
    .places = below(s, 10, n->bins, n->updates, rows),
    .updates = reals(s, 11, TSR_SHAPE(n->updates), rows),
    .zeros = tsr_full(s, 0, TSR_F32, TSR_SHAPE(n->bins), whole),
    .half = tsr_cast(reals(s, 12, TSR_SHAPE(n->vector), rows), TSR_BF16),
    .bytes = below(s, 13, 256, n->vector / 4, rows),
  };
  tsr_array *made[] = { in->a,       in->b,      in->matrix, in->square,  in->column,
                        in->row,     in->picked, in->labels, in->weights, in->places,
                        in->updates, in->zeros,  in->half,   in->bytes };
  return tsr_eval(made, (int)(sizeof made / sizeof *made));
}

/* ---- the programs ---- */

static tsr_array *triad(tsr_scope *s, const inputs *in)
{
  return tsr_add(tsr_mul(tsr_keep(s, in->a), 3), in->b);
}

static tsr_array *chain(tsr_scope *s, const inputs *in)
{
  tsr_array *a = tsr_keep(s, in->a), *b = tsr_keep(s, in->b);
  return tsr_add(tsr_mul(tsr_tanh(a), b), tsr_mul(tsr_exp(tsr_neg(a)), tsr_sqrt(b)));
}

static tsr_array *softmax(tsr_scope *s, const inputs *in)
{
  tsr_array *m = tsr_keep(s, in->matrix);
  tsr_array *e = tsr_exp(tsr_sub(m, tsr_max(m, .dims = TSR_DIMS(1), .keep_dims = true)));
  return tsr_div(e, tsr_sum(e, .dims = TSR_DIMS(1), .keep_dims = true));
}

static tsr_array *layer_norm(tsr_scope *s, const inputs *in)
{
  tsr_array *m = tsr_keep(s, in->matrix);
  tsr_array *centred = tsr_sub(m, tsr_mean(m, .dims = TSR_DIMS(1), .keep_dims = true));
  tsr_array *var = tsr_var(m, .dims = TSR_DIMS(1), .keep_dims = true);
  return tsr_div(centred, tsr_sqrt(tsr_add(var, 1e-5)));
}

static tsr_array *mse(tsr_scope *s, const inputs *in)
{
  return tsr_mean(tsr_pow(tsr_sub(tsr_keep(s, in->a), in->b), 2));
}

static tsr_array *var_over_rows(tsr_scope *s, const inputs *in)
{
  return tsr_var(tsr_keep(s, in->matrix), .dims = TSR_DIMS(0));
}

static tsr_array *var_over_columns(tsr_scope *s, const inputs *in)
{
  return tsr_var(tsr_keep(s, in->matrix), .dims = TSR_DIMS(1));
}

static tsr_array *argmax(tsr_scope *s, const inputs *in)
{
  return tsr_argmax(tsr_keep(s, in->matrix), .dims = TSR_DIMS(1));
}

static tsr_array *cumsum(tsr_scope *s, const inputs *in)
{
  return tsr_cumsum(tsr_keep(s, in->a), 0);
}

static tsr_array *where_chain(tsr_scope *s, const inputs *in)
{
  tsr_array *a = tsr_keep(s, in->a), *b = tsr_keep(s, in->b);
  tsr_array *low = tsr_where(tsr_lt(a, 0.25), tsr_mul(b, 2), tsr_sub(b, a));
  return tsr_where(tsr_gt(a, 0.75), 0.0, low);
}

static tsr_array *transpose(tsr_scope *s, const inputs *in)
{
  return tsr_transpose(tsr_keep(s, in->square));
}

static tsr_array *concat(tsr_scope *s, const inputs *in)
{
  tsr_array *a = tsr_keep(s, in->square);
  return tsr_concat((tsr_array *[]){ a, a }, 2, 1);
}

static tsr_array *pad(tsr_scope *s, const inputs *in)
{
  return tsr_pad(tsr_keep(s, in->square), .low = { 1, 1 }, .high = { 1, 1 });
}

static tsr_array *roll(tsr_scope *s, const inputs *in)
{
  tsr_array *a = tsr_keep(s, in->a);
  return tsr_concat((tsr_array *[]){ tsr_slice(a, TSR_RANGE(-5, TSR_END)),
                                     tsr_slice(a, TSR_RANGE(0, -5)) },
                    2, 0);
}

static tsr_array *gather_rows(tsr_scope *s, const inputs *in)
{
  return tsr_take(tsr_keep(s, in->matrix), in->picked, 0);
}

static tsr_array *scatter_add(tsr_scope *s, const inputs *in)
{
  return tsr_scatter_add(tsr_keep(s, in->zeros), in->places, in->updates, 0);
}

static tsr_array *one_hot_product(tsr_scope *s, const inputs *in)
{
  tsr_array *labels = tsr_keep(s, in->labels);
  int64_t rows = tsr_shape_of(labels).dims[0];
  tsr_array *classes = tsr_iota(s, TSR_I32, TSR_SHAPE(rows, 64), 1, (tsr_sharding){ 0 });
  tsr_array *spread = tsr_transpose(tsr_broadcast_to(labels, TSR_SHAPE(64, rows)));
  return tsr_matmul(tsr_cast(tsr_eq(classes, spread), TSR_F32), in->weights);
}

static tsr_array *outer(tsr_scope *s, const inputs *in)
{
  return tsr_mul(tsr_keep(s, in->column), in->row);
}

static tsr_array *bf16_scale(tsr_scope *s, const inputs *in)
{
  return tsr_cast(tsr_mul(tsr_keep(s, in->half), 1.5), TSR_F32);
}

static tsr_array *histogram(tsr_scope *s, const inputs *in)
{
  tsr_array *bytes = tsr_keep(s, in->bytes);
  tsr_array *none = tsr_full(s, 0, TSR_I32, TSR_SHAPE(256), (tsr_sharding){ 0 });
  tsr_array *ones = tsr_full(s, 1, TSR_I32, tsr_shape_of(bytes), (tsr_sharding){ 0 });
  return tsr_scatter_add(none, bytes, ones, 0);
}

/* What a program reads, in arrays of its inputs; what it writes is its result. */
typedef struct item {
  const char *name;
  tsr_array *(*make)(tsr_scope *s, const inputs *in);
  double vectors, matrices, squares, updates;
} item;

static const item items[] = {
  { "triad", triad, .vectors = 2 },
  { "chain", chain, .vectors = 2 },
  { "softmax", softmax, .matrices = 1 },
  { "layer_norm", layer_norm, .matrices = 1 },
  { "mse", mse, .vectors = 2 },
  { "var_over_rows", var_over_rows, .matrices = 1 },
  { "var_over_columns", var_over_columns, .matrices = 1 },
  { "argmax", argmax, .matrices = 1 },
  { "cumsum", cumsum, .vectors = 1 },
  { "where_chain", where_chain, .vectors = 2 },
  { "transpose", transpose, .squares = 1 },
  { "concat", concat, .squares = 1 },
  { "pad", pad, .squares = 1 },
  { "roll", roll, .vectors = 1 },
  { "gather_rows", gather_rows, .matrices = 1 },
  { "scatter_add", scatter_add, .updates = 2 },
  { "one_hot_product", one_hot_product, .vectors = 0 },
  { "outer", outer, .vectors = 0 },
  { "bf16_scale", bf16_scale, .vectors = 0.5 },
  { "histogram", histogram, .vectors = 0.25 },
};

enum { ITEMS = sizeof items / sizeof *items };

/* ---- rounds ---- */

typedef struct side {
  tsr_runtime *rt;
  tsr_scope *s;
  inputs in;
  const sizes *n;
  bench_peer *peer;
  char *room; /* what the limit reads */
} side;

/* One round: seconds a call, negative where one failed. */
static double time_item(const side *on, const item *what)
{
  double start = bench_now();
  for (int i = 0; i < on->n->repeats; i++) {
    tsr_scope *s = tsr_scope_open(on->s);
    tsr_status status = tsr_wait(what->make(s, &on->in));
    tsr_scope_close(s);
    if (status) return -1;
  }
  return (bench_now() - start) / on->n->repeats;
}

/* The sum of the sizes of an item's result, and the bytes that it reads and writes. */
static double look(const side *on, const item *what, double *bytes)
{
  double sum = NAN;
  tsr_scope *s = tsr_scope_open(on->s);
  tsr_array *made = what->make(s, &on->in);
  tsr_shape shape = tsr_shape_of(made);
  double count = 1;
  for (int d = 0; d < shape.rank; d++) count *= (double)shape.dims[d];
  double read = what->vectors * (double)on->n->vector +
                what->matrices * (double)on->n->rows * (double)on->n->columns +
                what->squares * (double)on->n->side * (double)on->n->side +
                what->updates * (double)on->n->updates;
  *bytes = 4 * read + count * (double)tsr_dtype_size(tsr_dtype_of(made));
  if (tsr_read_scalar(tsr_sum(tsr_abs(tsr_cast(made, TSR_F64))), &sum))
    fprintf(stderr, "arrays.%s: %s\n", what->name, tsr_message(s));
  tsr_scope_close(s);
  return sum;
}

/* Whether the peer's sum is ours, but for the rounding of f32. */
static bool agrees(const item *what, double ours, const char *said)
{
  double theirs = strtod(said, NULL);
  if (fabs(ours - theirs) <= 2e-3 * fabs(theirs) + 1e-3) return true;
  fprintf(stderr, "arrays.%s: ours sums to %.9g, the peer's to %s\n", what->name, ours, said);
  return false;
}

/* Prints an item's line and returns the peer's time over ours: 0 without a peer, negative where it
 * failed. */
static double item_line(const side *on, const item *what)
{
  double ours[BENCH_ROUNDS], theirs[BENCH_ROUNDS], limits[BENCH_ROUNDS], bytes;
  int rounds = on->n->repeats > 1 ? 7 : 3;
  char ask[64], said[256] = "", name[64];
  snprintf(ask, sizeof ask, "%s %d", what->name, on->n->repeats);
  double sum = look(on, what, &bytes);
  if (isnan(sum)) return -1;
  bool known = true;
  for (int r = -1; r < rounds; r++) {
    int at = r < 0 ? 0 : r;
    if ((ours[at] = time_item(on, what)) < 0) return -1;
    if (bench_short(ours[at] * on->n->repeats)) ours[at] = time_item(on, what);
    theirs[at] = known ? bench_peer_ask(on->peer, ask, said, sizeof said) : -1;
    known = theirs[at] > 0;
    if (known && r < 0 && !agrees(what, sum, said)) return -1;
    bench_span span = { on->room, (int64_t)bytes };
    limits[at] = on->room ? bench_read_spans(&span, 1, 2) : -1;
  }
  double mine = bench_median(ours, rounds), peer = known ? bench_median(theirs, rounds) : -1;
  snprintf(name, sizeof name, "  %s.%s", what->name, on->n->name);
  bench_line(name, mine * 1e3, "jax jit", known ? peer * 1e3 : -1,
             on->room ? bench_median(limits, rounds) * 1e3 : -1, "ms");
  return known ? peer / mine : 0;
}

static bool open_side(side *on, int devices, const sizes *n)
{
  char text[32];
  snprintf(text, sizeof text, "cpu:%d", devices);
  *on = (side){ .rt = tsr_runtime_open(text, .threads = 2), .n = n };
  on->s = tsr_scope_open(on->rt);
  if (make_inputs(on->s, tsr_mesh_default(on->rt, "data"), n, &on->in)) {
    fprintf(stderr, "arrays: %s\n", tsr_message(on->s));
    return false;
  }
  snprintf(text, sizeof text, "%d %s", devices, n->name);
  on->peer = bench_peer_open("arrays.py", text);
  if (n->repeats == 1) on->room = bench_written(n->vector * 16);
  return true;
}

static void close_side(side *on)
{
  bench_peer_close(on->peer);
  free(on->room);
  tsr_scope_close(on->s);
  tsr_runtime_close(on->rt);
}

int bench_arrays(int devices, const char *only)
{
  int failed = 0, compared = 0;
  double logs = 0, worst = INFINITY;
  for (int z = 0; z < 2; z++) {
    side on;
    bool open = open_side(&on, devices, &both_sizes[z]);
    for (int i = 0; i < ITEMS && open; i++) {
      if (only && strcmp(only, items[i].name) != 0) continue;
      double ratio = item_line(&on, &items[i]);
      failed |= ratio < 0;
      if (ratio <= 0) continue;
      compared++;
      logs += log(ratio);
      if (ratio < worst) worst = ratio;
    }
    close_side(&on);
    failed |= !open;
  }
  if (compared)
    printf(
        "arrays.%ddev: jax jit takes %.2f times as long in the geometric mean of %d, %.2f in the "
        "worst\n",
        devices, exp(logs / compared), compared, worst);
  return failed;
}
