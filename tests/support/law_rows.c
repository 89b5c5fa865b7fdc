#include "support/law_rows.h"

#include "harness.h"
#include "support/law_fixture.h"
#include "support/topology_fixture.h"
#include "tessera/indexing.h"

const char *const law_rows_elsewhere[TSR__OPS] = {
  [TSR__OP_ARG] = "stands in regions: region_test",
  [TSR__OP_AXIS_ALL] = "stands in regions: vmap_test",
  [TSR__OP_AXIS_OWN] = "stands in regions: vmap_test",
  [TSR__OP_AXIS_MEET] = "stands in regions: mapped_gradient_test",
  [TSR__OP_TREE] = "is taken apart before a program is made: function_test",
  [TSR__OP_CALL] = "stands in its region's place: region_test",
  [TSR__OP_SCAN] = "runs regions: control_test",
  [TSR__OP_WHILE] = "runs regions: control_test",
  [TSR__OP_SWITCH] = "runs regions: control_test",
  [TSR__OP_CUSTOM] = "stands in its region's place: custom_test",
  [TSR__OP_COMPACT] = "rows of frames: chain_law_test",
  [TSR__OP_FIRSTN] = "rows of frames: chain_law_test",
  [TSR__OP_TAP] = "its operand, shown: tap_test",
  [TSR__OP_NAME] = "its operand takes its place: named_test",
  [TSR__OP_REBALANCE] = "rows of frames: chain_law_test",
  [TSR__OP_SUM_TO] = "made by products: routine_law_test",
  [TSR__OP_FOLD] = "put between by the planner: split_test",
  [TSR__OP_BLOCKS] = "put between by the planner: split_test",
};

typedef law_rows world;

static int64_t draw(world *w, int64_t first, int64_t last)
{
  return law_draw(&w->law, first, last);
}

/* ---- operands -------------------------------------------------------------------------------- */

static bool takes(tsr__op op, tsr_dtype dtype)
{
  const tsr__opinfo *row = &tsr__ops[op];
  switch ((enum tsr__want)row->wants) {
  case TSR__WANT_NUMBER:
  case TSR__WANT_ROUNDED: return dtype != TSR_BOOL || row->on_bools;
  case TSR__WANT_INTEGER: return tsr__dtype_integer(dtype);
  case TSR__WANT_BITS: return !tsr__dtype_is_real(dtype);
  case TSR__WANT_BOOL: return dtype == TSR_BOOL;
  default: return op != TSR__OP_RANDOM || dtype == TSR_U64; /* made by calls, of words alone */
  }
}

/* What depends on the mesh for floats (docs/NUMERICS.md) is drawn of others. */
static bool of_any_mesh(tsr__op op, tsr_dtype dtype)
{
  bool ordered = op == TSR__OP_PROD || op == TSR__OP_CUMPROD || op == TSR__OP_DOT;
  return !ordered || !tsr__dtype_is_real(dtype);
}

static tsr_dtype draw_dtype(world *w, tsr__op op)
{
  for (;;) {
    tsr_dtype dtype = fixture_dtype(draw(w, 0, FIXTURE_DTYPES - 1));
    if (takes(op, dtype) && of_any_mesh(op, dtype)) return dtype;
  }
}

static bool same_shape(tsr_shape a, tsr_shape b)
{
  return a.rank == b.rank && !memcmp(a.dims, b.dims, (size_t)a.rank * sizeof *a.dims);
}

/* Something of that type that was made before, or a leaf. */
static tsr_array *operand(world *w, tsr_dtype dtype, tsr_shape shape)
{
  for (int tries = 0; tries < 4 && w->law.count; tries++) {
    tsr_array *a = w->law.made[draw(w, 0, w->law.count - 1)];
    if (tsr_dtype_of(a) == dtype && same_shape(tsr_shape_of(a), shape)) return a;
  }
  return law_leaf(&w->law, dtype, shape, 0);
}

/* The base, or what broadcasts to it. */
static tsr_shape smaller(world *w)
{
  tsr_shape shape = { .rank = w->base.rank }, from = w->base;
  int drop = draw(w, 0, 3) == 0 ? (int)draw(w, 0, shape.rank) : 0;
  shape.rank -= drop;
  for (int d = 0; d < shape.rank; d++) shape.dims[d] = draw(w, 0, 5) ? from.dims[d + drop] : 1;
  return shape;
}

static tsr_array *number(world *w, tsr_dtype dtype)
{
  int64_t n = draw(w, 0, 3);
  tsr__num value = { .i = n };
  if (tsr__dtype_is_real(dtype)) value.f = (double)n;
  return tsr__make_const(w->law.s, dtype, value, TSR_HERE);
}

static int draw_dim(world *w)
{
  return (int)draw(w, 0, w->base.rank - 1);
}

/* Integers of -size .. size - 1: places of a dim. */
static tsr_array *places(world *w, tsr_shape shape, int64_t size)
{
  return law_leaf(&w->law, draw(w, 0, 1) ? TSR_I64 : TSR_I16, shape, size);
}

static tsr_array *make(world *w, tsr__op op, tsr__operands in, const tsr__ask *ask)
{
  return tsr__make(w->law.s, op, in, ask, TSR_HERE);
}

/* ---- rows by their shape rule ---------------------------------------------------------------- */

static tsr_array *within(world *w, tsr__op op)
{
  int64_t size = draw(w, 1, 9);
  tsr_array *at = law_leaf(&w->law, TSR_I64, w->base, size);
  return make(w, op, TSR__IN(at), &(tsr__ask){ TSR__ATTR(tsr__within_attr, .size = size) });
}

static tsr_array *draw_element(world *w, tsr__op op)
{
  enum { MOST = 3 };
  const tsr__opinfo *row = &tsr__ops[op];
  tsr_dtype dtype = draw_dtype(w, op);
  tsr_array *in[MOST];
  CHECK(row->least <= MOST);
  if (row->attr == TSR__ATTR_WITHIN) return within(w, op);
  for (int i = 0; i < row->least; i++) {
    bool condition = row->wants == TSR__WANT_CHOICE && !i;
    tsr_shape shape = i ? smaller(w) : w->base;
    bool sign = op == TSR__OP_COPYSIGN && i; /* that of a NaN that is computed is nobody's */
    in[i] =
        sign ? law_leaf(&w->law, dtype, shape, 0) : operand(w, condition ? TSR_BOOL : dtype, shape);
  }
  if (row->least == 2 && dtype != TSR_BOOL && !draw(w, 0, 5)) in[1] = number(w, dtype);
  tsr__ask ask = { .dtype = fixture_dtype(draw(w, op == TSR__OP_RANDOM, FIXTURE_DTYPES - 1)) };
  return make(w, op, (tsr__operands){ in, row->least }, &ask);
}

static tsr_array *draw_source(world *w, tsr__op op)
{
  const tsr__opinfo *row = &tsr__ops[op];
  tsr_sharding on = law_sharding(&w->law.rng, w->law.mesh, w->base.rank);
  tsr_dtype dtype =
      fixture_dtype(draw(w, row->dtype_rule == TSR__DT_ATTR_NUMBER, FIXTURE_DTYPES - 1));
  if (row->dtype_rule == TSR__DT_ATTR_FLOAT) dtype = draw(w, 0, 1) ? TSR_F32 : TSR_F64;
  if (tsr__is_leaf((int)op) && row->numbers) return draw_element(w, TSR__OP_ADD);
  if (tsr__is_leaf((int)op)) return law_leaf(&w->law, dtype, w->base, 0);
  if (row->attr == TSR__ATTR_DIM && !w->base.rank) return NULL;
  tsr__ask ask = { .dtype = dtype, .shape = w->base, .sharding = &on };
  if (row->attr == TSR__ATTR_DIM) {
    tsr__dim_attr dim = { draw_dim(w) };
    ask.attr = &dim;
    ask.attr_bytes = sizeof dim;
    return make(w, op, TSR__IN_NONE, &ask);
  }
  tsr__num seeds[2] = { { .i = draw(w, 0, 99) }, { .i = draw(w, 0, 3) } };
  ask.numbers = row->numbers ? seeds : NULL;
  ask.number_count = row->numbers;
  if (!row->least) return make(w, op, TSR__IN_NONE, &ask);
  return make(w, op, TSR__IN(number(w, dtype)), &ask);
}

static tsr_array *draw_reduce(world *w, tsr__op op)
{
  tsr_dtype dtype = draw_dtype(w, op);
  tsr_array *x = operand(w, dtype, w->base), *mask = NULL, *codes = NULL;
  uint32_t all = (UINT32_C(1) << w->base.rank) - 1;
  tsr__reduce_attr attr = { .dims = (uint32_t)draw(w, 0, all),
                            .keep = (uint16_t)draw(w, 0, 1),
                            .ddof = draw(w, 0, 1) };
  if (!draw(w, 0, 2)) mask = operand(w, TSR_BOOL, smaller(w));
  if (!draw(w, 0, 5)) {
    codes = tsr_abs(law_leaf(&w->law, TSR_I32, w->base, 3));
    attr.groups = 4;
  }
  if (tsr__ops[op].needs_one && !law_count(w->base)) mask = operand(w, TSR_BOOL, w->base);
  return make(w, op, TSR__IN(x, mask, codes),
              &(tsr__ask){ .attr = &attr, .attr_bytes = sizeof attr });
}

/* Elements of a line along a dim: scans, and the results of sorts. */
static tsr_array *draw_along(world *w, tsr__op op)
{
  if (!w->base.rank) return NULL;
  int64_t dim = draw_dim(w), order = draw(w, TSR__ORDER_ASCENDING, TSR__ORDER_DESCENDING);
  tsr_array *x = operand(w, draw_dtype(w, op), w->base);
  tsr__scan_attr scan = { dim, draw(w, 0, 1) };
  tsr__sort_attr sort = { .dim = dim, .order = order };
  if (tsr__ops[op].keeps_first) {
    sort.order = TSR__ORDER_LARGEST;
    sort.count = draw(w, 0, w->base.dims[dim]);
  }
  if (tsr__ops[op].attr == TSR__ATTR_SCAN)
    return make(w, op, TSR__IN(x), &(tsr__ask){ .attr = &scan, .attr_bytes = sizeof scan });
  tsr_array *all = make(w, op, TSR__IN(x), &(tsr__ask){ .attr = &sort, .attr_bytes = sizeof sort });
  tsr__ask which = { TSR__ATTR(tsr__index_attr, .index = draw(w, 0, 1)) };
  return make(w, TSR__OP_RESULT, TSR__IN(all), &which);
}

static tsr_array *draw_keys(world *w, tsr__op op)
{
  if (!w->base.rank) return NULL;
  tsr_array *keyed[3];
  int count = (int)draw(w, 1, 3);
  for (int i = 0; i < count; i++) {
    tsr_dtype dtype = fixture_dtype(draw(w, 1, FIXTURE_DTYPES - 1));
    bool few = tsr__dtype_integer(dtype) && draw(w, 0, 1);
    keyed[i] = few ? law_leaf(&w->law, dtype, w->base, 2) : operand(w, dtype, w->base);
  }
  return make(w, op, (tsr__operands){ keyed, count },
              &(tsr__ask){ TSR__ATTR(tsr__sort_attr, .dim = draw_dim(w)) });
}

/* Dims of an array that indices are of: one, or for some rows several, behind some that the indices
 * have, too. */
typedef struct span {
  int dim, more, batch;
  int64_t size;
} span;

static span draw_span(world *w, bool several)
{
  span s = { .dim = draw_dim(w) };
  if (several) s.more = (int)draw(w, 0, w->base.rank - 1 - s.dim);
  if (several) s.batch = (int)draw(w, 0, s.dim);
  s.size = w->base.dims[s.dim];
  for (int d = s.dim + 1; d <= s.dim + s.more; d++) s.size *= w->base.dims[d];
  return s;
}

static tsr_shape index_shape(world *w, const span *s)
{
  tsr_shape shape = { .rank = s->batch + (int)draw(w, s->size ? 0 : 1, 2) };
  for (int d = 0; d < shape.rank; d++)
    shape.dims[d] = d < s->batch ? w->base.dims[d] : s->size ? draw(w, 0, 7) : 0;
  return shape;
}

static tsr_array *draw_take(world *w, tsr__op op)
{
  if (!w->base.rank) return NULL;
  bool several = tsr__ops[op].attr == TSR__ATTR_SPAN;
  span s = draw_span(w, several);
  tsr_array *x = operand(w, draw_dtype(w, op), w->base);
  tsr_shape shape = index_shape(w, &s);
  if (tsr__ops[op].each_line) {
    shape = w->base;
    if (s.size) shape.dims[s.dim] = draw(w, 0, 7);
  }
  tsr__span_attr span_attr = { s.dim, s.more, s.batch };
  tsr__dim_attr dim_attr = { s.dim };
  tsr__ask ask = { .attr = &dim_attr, .attr_bytes = sizeof dim_attr };
  if (several) ask = (tsr__ask){ .attr = &span_attr, .attr_bytes = sizeof span_attr };
  return make(w, op, TSR__IN(x, places(w, shape, s.size)), &ask);
}

/* Rows of two dims as one, by indices of the dims up to the first of them and of one more. */
static tsr_array *draw_fetch(world *w, tsr__op op)
{
  if (w->base.rank < 2) return NULL;
  int dim = (int)draw(w, 0, w->base.rank - 2);
  int64_t size = w->base.dims[dim] * w->base.dims[dim + 1];
  tsr_shape shape = { .rank = dim + 2 };
  for (int d = 0; d <= dim; d++) shape.dims[d] = w->base.dims[d];
  shape.dims[dim + 1] = size ? draw(w, 0, 7) : 0;
  tsr_array *x = operand(w, draw_dtype(w, op), w->base);
  return make(w, op, TSR__IN(x, places(w, shape, size)),
              &(tsr__ask){ TSR__ATTR(tsr__span_attr, .dim = dim, .more = 1) });
}

static tsr_array *draw_scatter(world *w, tsr__op op)
{
  if (!w->base.rank) return NULL;
  span s = draw_span(w, true);
  tsr_dtype dtype = fixture_dtype(draw(w, 1, FIXTURE_DTYPES - 1));
  tsr__scatter_attr attr = { .dim = s.dim,
                             .more = s.more,
                             .batch = s.batch,
                             .how = draw(w, TSR_SCATTER_SET, TSR_SCATTER_MAX),
                             .drops = draw(w, 0, 1) };
  if (attr.how == TSR_SCATTER_MUL && tsr__dtype_is_real(dtype)) attr.how = TSR_SCATTER_ADD;
  tsr_shape at = index_shape(w, &s), updates = { .rank = 0 };
  for (int d = 0; d < s.dim; d++) updates.dims[updates.rank++] = w->base.dims[d];
  for (int d = s.batch; d < at.rank; d++) updates.dims[updates.rank++] = at.dims[d];
  for (int d = s.dim + s.more + 1; d < w->base.rank; d++)
    updates.dims[updates.rank++] = w->base.dims[d];
  tsr_array *x = operand(w, dtype, w->base), *u = operand(w, dtype, updates);
  return make(w, op, TSR__IN(x, places(w, at, s.size), u),
              &(tsr__ask){ .attr = &attr, .attr_bytes = sizeof attr });
}

/* A table in order, without NaN. */
static tsr_array *draw_search(world *w, tsr__op op)
{
  tsr_dtype dtype = fixture_dtype(draw(w, 1, FIXTURE_DTYPES - 1));
  tsr_shape list = { .rank = 1, .dims = { draw(w, 0, 40) } };
  tsr_array *table = tsr_cast(law_leaf(&w->law, TSR_I32, list, 20), dtype);
  tsr_array *x = tsr_cast(law_leaf(&w->law, TSR_I32, w->base, 25), dtype);
  return make(w, op, TSR__IN(tsr_sort(table, 0), x), &(tsr__ask){ 0 });
}

static tsr_array *starts(world *w)
{
  return law_leaf(&w->law, TSR_I64, TSR_SHAPE(w->base.rank), 6);
}

static tsr_array *draw_slice(world *w, tsr__op op)
{
  if (!w->base.rank) return NULL;
  tsr__slice_attr attr = { .start = { 0 } };
  tsr_array *x = operand(w, draw_dtype(w, op), w->base);
  bool dynamic = tsr__ops[op].least == 2;
  for (int d = 0; d < w->base.rank; d++) {
    int64_t size = w->base.dims[d], step = dynamic ? 1 : draw(w, 1, 3);
    if (!size || draw(w, 0, 2) == 0) continue;
    attr.start[d] = dynamic ? 0 : draw(w, 0, size - 1);
    attr.size[d] = draw(w, 0, (size - 1 - attr.start[d]) / step + 1);
    attr.step[d] = attr.size[d] > 1 ? step : 1;
    if (!attr.size[d]) attr.start[d] = 0;
    if (dynamic || attr.size[d] < 2 || draw(w, 0, 1)) continue;
    attr.start[d] += (attr.size[d] - 1) * step; /* the same backwards */
    attr.step[d] = -step;
  }
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr };
  return make(w, op, dynamic ? TSR__IN(x, starts(w)) : TSR__IN(x), &ask);
}

static tsr_array *draw_update(world *w, tsr__op op)
{
  if (!w->base.rank) return NULL;
  tsr_shape box = w->base;
  for (int d = 0; d < box.rank; d++)
    if (draw(w, 0, 1)) box.dims[d] = draw(w, 0, box.dims[d]);
  tsr_dtype dtype = fixture_dtype(draw(w, 0, FIXTURE_DTYPES - 1));
  tsr_array *x = operand(w, dtype, w->base), *u = operand(w, dtype, box);
  return make(w, op, TSR__IN(x, starts(w), u), &(tsr__ask){ 0 });
}

static tsr_array *draw_order(world *w, tsr__op op)
{
  if (!w->base.rank) return NULL;
  tsr__order_attr attr = { { 0 } };
  int first = (int)draw(w, 0, 2), rank = w->base.rank;
  for (int d = 0; d < rank; d++) attr.dims[d] = (uint8_t)((d + first) % rank);
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr };
  return make(w, op, TSR__IN(operand(w, draw_dtype(w, op), w->base)), &ask);
}

static tsr_array *draw_broadcast(world *w, tsr__op op)
{
  tsr_array *x = operand(w, draw_dtype(w, op), smaller(w));
  return make(w, op, TSR__IN(x), &(tsr__ask){ .shape = w->base });
}

static tsr_array *draw_reshape(world *w, tsr__op op)
{
  int64_t count = law_count(w->base), rows = draw(w, 1, 4);
  tsr_array *x = operand(w, draw_dtype(w, op), w->base);
  tsr_shape shape = { .rank = 2, .dims = { rows, count / rows } };
  if (count % rows) shape = (tsr_shape){ .rank = 1, .dims = { count } };
  return make(w, op, TSR__IN(x), &(tsr__ask){ .shape = shape });
}

static tsr_array *draw_pad(world *w, tsr__op op)
{
  if (!w->base.rank) return NULL;
  tsr__pad_attr attr = { .low = { 0 } };
  tsr_dtype dtype = draw_dtype(w, op);
  for (int d = 0; d < w->base.rank; d++) {
    /* Of many dims few: each may be many times as long. */
    if (w->base.rank > 4 && draw(w, 0, 7)) continue;
    attr.low[d] = draw(w, -3, 3);
    attr.high[d] = draw(w, -3, 3);
    int64_t size = w->base.dims[d] + attr.low[d] + attr.high[d];
    if (size < 0) attr.high[d] -= size;
  }
  return make(w, op, TSR__IN(operand(w, dtype, w->base), number(w, dtype)),
              &(tsr__ask){ .attr = &attr, .attr_bytes = sizeof attr });
}

static tsr_array *draw_roll(world *w, tsr__op op)
{
  if (!w->base.rank) return NULL;
  int dim = draw_dim(w);
  int64_t size = w->base.dims[dim];
  tsr_array *x = operand(w, draw_dtype(w, op), w->base);
  tsr__ask ask = { TSR__ATTR(tsr__roll_attr, .dim = dim,
                             .count = size ? draw(w, 0, size - 1) : 0) };
  return make(w, op, TSR__IN(x, x), &ask);
}

static tsr_array *draw_pick(world *w, tsr__op op)
{
  if (!w->base.rank) return NULL;
  enum { MOST = 12 };
  int dim = draw_dim(w), count = (int)draw(w, 0, MOST);
  int64_t room[(sizeof(tsr__pick_attr) + MOST * sizeof(int32_t)) / sizeof(int64_t)];
  tsr__pick_attr *attr = (tsr__pick_attr *)(void *)room;
  tsr_dtype dtype = draw_dtype(w, op);
  attr->dim = dim;
  for (int i = 0; i < count; i++) attr->picks[i] = (int32_t)draw(w, -1, w->base.dims[dim] - 1);
  return make(w, op, TSR__IN(operand(w, dtype, w->base), number(w, dtype)),
              &(tsr__ask){ .attr = attr, .attr_bytes = tsr__pick_bytes(count) });
}

static tsr_array *draw_diagonal(world *w, tsr__op op)
{
  if (w->base.rank < 2) return NULL;
  int dim = (int)draw(w, 0, w->base.rank - 2);
  tsr__ask ask = { TSR__ATTR(tsr__diagonal_attr, .dim = dim,
                             .offset = draw(w, -w->base.dims[dim], w->base.dims[dim + 1])) };
  return make(w, op, TSR__IN(operand(w, draw_dtype(w, op), w->base)), &ask);
}

static tsr_array *draw_concat(world *w, tsr__op op)
{
  if (!w->base.rank) return NULL;
  tsr_array *parts[3];
  int dim = draw_dim(w), count = (int)draw(w, 1, 3);
  tsr_dtype dtype = draw_dtype(w, op);
  for (int i = 0; i < count; i++) {
    tsr_shape shape = w->base;
    if (i) shape.dims[dim] = draw(w, 0, 9);
    parts[i] = operand(w, dtype, shape);
  }
  return make(w, op, (tsr__operands){ parts, count }, &(tsr__ask){ TSR__ATTR(tsr__dim_attr, dim) });
}

static tsr_array *draw_dot(world *w, tsr__op op)
{
  tsr_dtype dtype = TSR_BOOL;
  while (dtype == TSR_BOOL) dtype = draw_dtype(w, op);
  tsr__dot_attr attr = { .left = { 1, 2 }, .right = { 2, 3 }, .out = { 1, 3 } };
  int64_t m = draw(w, 0, 9), k = draw(w, 0, 9), n = draw(w, 0, 9);
  tsr_array *a = operand(w, dtype, TSR_SHAPE(m, k)), *b = operand(w, dtype, TSR_SHAPE(k, n));
  tsr__ask ask = { .dtype = dtype, .attr = &attr, .attr_bytes = sizeof attr };
  return make(w, op, TSR__IN(a, b), &ask);
}

static tsr_array *draw_first(world *w, tsr__op op)
{
  tsr_sharding on = law_sharding(&w->law.rng, w->law.mesh, w->base.rank);
  tsr_array *x = operand(w, draw_dtype(w, op), w->base);
  return make(w, op, TSR__IN(x), &(tsr__ask){ .sharding = &on });
}

/* With a sharding of its own at times. */
static tsr_array *draw_like(world *w, tsr__op op)
{
  tsr_sharding on = law_sharding(&w->law.rng, w->law.mesh, w->base.rank);
  tsr_array *x = operand(w, draw_dtype(w, op), w->base);
  tsr_array *like = operand(w, draw_dtype(w, op), w->base);
  return make(w, op, TSR__IN(x, like), &(tsr__ask){ .sharding = draw(w, 0, 1) ? &on : NULL });
}

static tsr_array *draw_result(world *w, tsr__op op)
{
  (void)op;
  return draw_along(w, TSR__OP_SORT);
}

/* The draws of each shape function (the column SHAPE), unless its rows are drawn elsewhere. */
typedef tsr_array *draw_fn(world *w, tsr__op op);

#define draw_top draw_along
#define draw_take_along draw_take
#define draw_dynamic_slice draw_slice
#define draw_list NULL
#define draw_filter NULL
#define draw_rows NULL
#define draw_blocks NULL
#define draw_call NULL
#define draw_custom NULL
#define draw_named NULL
#define draw_loop NULL
#define draw_axis_all NULL
#define draw_axis_own NULL

#define SHAPE(function) draw_##function,
#define OP(id, text, kernel, ...) [TSR__OP_##id] = __VA_ARGS__
static draw_fn *const draws[TSR__OPS] = {
#include "graph/ops.def"
};

/* A node of a row; NULL where the base has not the dims for it. */
tsr_array *law_row(world *w, tsr__op op)
{
  if (!draws[op]) FAIL("%s has a shape function of its own; draw it here", tsr__ops[op].name);
  return draws[op](w, op);
}
