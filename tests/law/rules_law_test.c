/* One operation of each sharding rule, exhaustively: its operands on every spec of every mesh, of
 * every type, and the result wanted on every spec.
 *
 * The law: the values are those of unplaced data, bit for bit, and the bytes counted are those
 * explained. That a rule of the table is missing below is a failure. The run prints its table: how
 * many placements each operation was met with, by type. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "support/law_fixture.h"
#include "support/topology_fixture.h"

enum { SPECS = 512, MOST = 4096 };

/* Of the first operand. Few of them leave devices of eight without any. */
static int64_t rows, columns;

/* ---- one operation of each rule ---- */

static tsr_array *negated(tsr_array *a, tsr_array *b)
{
  (void)b;
  return tsr_neg(a);
}

static tsr_array *greater(tsr_array *a, tsr_array *b)
{
  return tsr_gt(a, b);
}

static tsr_array *chosen(tsr_array *a, tsr_array *b)
{
  return tsr_where(b, a, 1);
}

static tsr_array *largest(tsr_array *a, tsr_array *b)
{
  (void)b;
  return tsr_max(a, .dims = TSR_DIMS(0));
}

static tsr_array *summed(tsr_array *a, tsr_array *b)
{
  return tsr_sum(a, .dims = TSR_DIMS(1), .where = b);
}

static tsr_array *taken(tsr_array *a, tsr_array *b)
{
  return tsr_take(a, b, 0);
}

static tsr_array *taken_along(tsr_array *a, tsr_array *b)
{
  return tsr_take_along_dim(a, b, 1);
}

static tsr_array *fetched(tsr_array *a, tsr_array *b)
{
  (void)b;
  tsr_array *at = tsr_iota(tsr__home(a), TSR_I64, TSR_SHAPE(rows, 3), 0, (tsr_sharding){ 0 });
  at = tsr_mod(tsr_mul(at, 5), rows * columns);
  return tsr__make(NULL, TSR__OP_FETCH, TSR__IN(a, at),
                   &(tsr__ask){ TSR__ATTR(tsr__span_attr, .more = 1) }, TSR_HERE);
}

static tsr_array *found(tsr_array *a, tsr_array *b)
{
  return tsr_searchsorted(b, a, false);
}

static tsr_array *summed_up(tsr_array *a, tsr_array *b)
{
  (void)b;
  return tsr_cumsum(a, 0);
}

static tsr_array *best(tsr_array *a, tsr_array *b)
{
  (void)b;
  return tsr_top_k(a, 2, 1);
}

static tsr_array *put_in(tsr_array *a, tsr_array *b)
{
  tsr_array *at = tsr_iota(tsr__home(a), TSR_I64, TSR_SHAPE(23), 0, (tsr_sharding){ 0 });
  return tsr_scatter(a, tsr_mod(at, rows), b, 0, .how = TSR_SCATTER_ADD);
}

static tsr_array *starts(tsr_array *a)
{
  return tsr_iota(tsr__home(a), TSR_I64, TSR_SHAPE(2), 0, (tsr_sharding){ 0 });
}

static tsr_array *cut_out(tsr_array *a, tsr_array *b)
{
  (void)b;
  return tsr_dynamic_slice(a, starts(a), TSR_SHAPE(3, columns));
}

static tsr_array *written(tsr_array *a, tsr_array *b)
{
  return tsr_dynamic_update_slice(a, b, starts(a));
}

static tsr_array *multiplied(tsr_array *a, tsr_array *b)
{
  return tsr_matmul(a, b);
}

static tsr_array *sliced(tsr_array *a, tsr_array *b)
{
  (void)b;
  return tsr_slice(a, TSR_RANGE(1, rows - 1));
}

static tsr_array *padded(tsr_array *a, tsr_array *b)
{
  (void)b;
  return tsr_pad(a, .low = { 1, 0 }, .high = { 2, 1 });
}

static tsr_array *reshaped(tsr_array *a, tsr_array *b)
{
  (void)b;
  return tsr_reshape(a, TSR_SHAPE(rows * 2, columns / 2));
}

static tsr_array *rolled(tsr_array *a, tsr_array *b)
{
  (void)b;
  return tsr_roll(a, 3, 0);
}

static tsr_array *diagonal(tsr_array *a, tsr_array *b)
{
  (void)b;
  return tsr_diag(a, 1);
}

static tsr_array *joined(tsr_array *a, tsr_array *b)
{
  return tsr_concat((tsr_array *[]){ a, b }, 2, 0);
}

static tsr_array *counted(tsr_array *a, tsr_array *b)
{
  (void)b;
  tsr_array *i = tsr_iota(tsr__home(a), TSR_I64, TSR_SHAPE(rows, columns), 1, (tsr_sharding){ 0 });
  return tsr_add(tsr_cast(a, TSR_I64), i);
}

/* What comes as the second operand. */
enum second { NONE, LIKE, MASK, INDEX, ALONG, LINE, UPDATES, UPDATE, RIGHT };

static const struct {
  tsr__op op;
  enum second b;
  tsr_array *(*make)(tsr_array *a, tsr_array *b);
} rules[] = {
  { TSR__OP_NEG, NONE, negated },
  { TSR__OP_GT, LIKE, greater },
  { TSR__OP_WHERE, MASK, chosen },
  { TSR__OP_MAX, NONE, largest },
  { TSR__OP_SUM, MASK, summed },
  { TSR__OP_TAKE, INDEX, taken },
  { TSR__OP_TAKE_ALONG, ALONG, taken_along },
  { TSR__OP_FETCH, NONE, fetched },
  { TSR__OP_SEARCH, LINE, found },
  { TSR__OP_CUMSUM, NONE, summed_up },
  { TSR__OP_TOP_K, NONE, best },
  { TSR__OP_SCATTER, UPDATES, put_in },
  { TSR__OP_DYNAMIC_SLICE, NONE, cut_out },
  { TSR__OP_DYNAMIC_UPDATE, UPDATE, written },
  { TSR__OP_DOT, RIGHT, multiplied },
  { TSR__OP_SLICE, NONE, sliced },
  { TSR__OP_PAD, NONE, padded },
  { TSR__OP_RESHAPE, NONE, reshaped },
  { TSR__OP_ROLL, NONE, rolled },
  { TSR__OP_DIAGONAL, NONE, diagonal },
  { TSR__OP_CONCAT, LIKE, joined },
  { TSR__OP_IOTA, NONE, counted },
};
enum { COUNT = sizeof rules / sizeof *rules };

/* Rules of what has no operands on devices, or rows that only a run knows: the laws of frames; and
 * of what the planner itself makes of a product. */
static bool is_apart(const char *rule)
{
  return !strcmp(rule, "->") || strstr(rule, "~i") || !strcmp(rule, tsr__ops[TSR__OP_FOLD].factors);
}

TEST(no_rule_is_missing)
{
  for (int op = 0; op < TSR__OPS; op++) {
    bool met = is_apart(tsr__ops[op].factors);
    for (int r = 0; r < COUNT; r++)
      met |= !strcmp(tsr__ops[op].factors, tsr__ops[rules[r].op].factors);
    if (!met) FAIL("%s: nothing has the rule %s", tsr__ops[op].name, tsr__ops[op].factors);
  }
}

/* ---- every spec ---- */

typedef struct specs {
  int count;
  tsr_sharding at[SPECS];
} specs;

static void add_spec(specs *out, const tsr_mesh *mesh, char dims[TSR_MAX_RANK][64], int rank)
{
  char text[256] = "";
  for (int d = 0; d < rank; d++) {
    if (d) strcat(text, ",");
    strcat(text, dims[d][0] ? dims[d] : "-");
  }
  tsr_sharding on = tsr_on(mesh, text);
  for (int i = 0; i < out->count; i++)
    if (tsr_sharding_same(&out->at[i], &on, (tsr_shape){ .rank = rank, .dims = { 8, 8, 8, 8 } }))
      return;
  CHECK(out->count < SPECS);
  out->at[out->count++] = on;
}

/* Gives each axis that is not used yet to a dim, or ends: so all orders come. */
static void give_axes(specs *out, const tsr_mesh *mesh, char dims[TSR_MAX_RANK][64], int rank,
                      unsigned used)
{
  add_spec(out, mesh, dims, rank);
  for (int a = 0; a < tsr_mesh_axis_count(mesh); a++)
    for (int d = 0; d < rank && !(used >> a & 1); d++) {
      size_t length = strlen(dims[d]);
      if (length) strcat(dims[d], "+");
      strcat(dims[d], tsr_mesh_axis_name(mesh, a));
      give_axes(out, mesh, dims, rank, used | 1u << a);
      dims[d][length] = '\0';
    }
}

static specs *every_spec(const tsr_mesh *mesh, int rank)
{
  char dims[TSR_MAX_RANK][64] = { { 0 } };
  specs *out = calloc(1, sizeof *out);
  CHECK(out);
  give_axes(out, mesh, dims, rank, 0);
  return out;
}

/* ---- operands ---- */

static tsr_shape shape_of_second(enum second b)
{
  switch (b) {
  case INDEX: return TSR_SHAPE(4);
  case ALONG: return TSR_SHAPE(rows, 4);
  case LINE: return TSR_SHAPE(5);
  case UPDATES: return TSR_SHAPE(23, columns);
  case UPDATE: return TSR_SHAPE(3, columns);
  case RIGHT: return TSR_SHAPE(columns, 5);
  default: return TSR_SHAPE(rows, columns);
  }
}

/* Small numbers, in order for tables that must be so, in range for indices. */
static tsr_array *data(tsr_scope *s, tsr_dtype dtype, tsr_shape shape, enum second what)
{
  double values[MOST];
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  for (int64_t i = 0; i < count; i++) {
    values[i] = (double)((i * 37 + 11) % 13);
    if (what == INDEX || what == ALONG) values[i] = (double)(i * 5 % 13 % columns) - (i % 3 == 0);
    if (what == LINE) values[i] = (double)(3 * i);
  }
  if (what == MASK) dtype = TSR_BOOL;
  if (what == INDEX || what == ALONG) dtype = TSR_I64;
  tsr_array *a = tsr_cast(tsr_put(s, values, TSR_F64, shape, (tsr_sharding){ 0 }), dtype);
  if (what == MASK) a = tsr_gt(tsr_put(s, values, TSR_F64, shape, (tsr_sharding){ 0 }), 4);
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, s);
  return a;
}

static size_t bytes_of(const tsr_array *a)
{
  tsr_shape shape = tsr_shape_of(a);
  size_t bytes = tsr_dtype_size(tsr_dtype_of(a));
  for (int d = 0; d < shape.rank; d++) bytes *= (size_t)shape.dims[d];
  CHECK(bytes <= 8 * MOST);
  return bytes;
}

/* ---- the law ---- */

typedef struct subject {
  tsr_scope *s;
  int rule;
  tsr_mesh *mesh;
  tsr_array *a, *b; /* unplaced */
  tsr_sharding on_a, on_b, wanted;
  const void *expected;
} subject;

static void check(const subject *t)
{
  static double out[MOST];
  tsr_scope *s = tsr_scope_open(t->s);
  tsr_array *a = tsr_reshard(t->a, t->on_a), *b = t->b ? tsr_reshard(t->b, t->on_b) : NULL;
  tsr_array *both[2] = { a, b };
  CHECK_STATUS(tsr_eval(both, b ? 2 : 1), TSR_OK, s);
  tsr_array *r = rules[t->rule].make(a, b);
  if (t->wanted.mesh) r = tsr_constrain(r, t->wanted);
  CHECK_STATUS(tsr_eval(&r, 1), TSR_OK, s);
  tsr_run_stats stats = tsr_last_run(s);
  CHECK_STATUS(tsr_read(r, out, bytes_of(r)), TSR_OK, s);
  bool same = !memcmp(out, t->expected, bytes_of(r));
  if (!same || stats.bytes_counted != stats.bytes_explained + stats.bytes_escaped)
    FAIL("%s of %s and %s on mesh %s as %s: %s, %lld bytes explained, %lld counted",
         tsr__ops[rules[t->rule].op].name, tsr_type_of(a), b ? tsr_type_of(b) : "nothing",
         tsr_mesh_text(t->mesh), tsr_type_of(r), same ? "same values" : "other values",
         (long long)stats.bytes_explained, (long long)stats.bytes_counted);
  tsr_scope_close(s);
}

/* Every spec of a, each with one of b and of the result; `pairs`: with every one. */
static int on_mesh(subject t, int rank, bool pairs)
{
  int count = 0;
  tsr_shape of_b = t.b ? tsr_shape_of(t.b) : TSR_SHAPE(1);
  specs *a = every_spec(t.mesh, 2), *b = every_spec(t.mesh, of_b.rank),
        *r = every_spec(t.mesh, rank);
  int seconds = pairs ? (t.b ? b->count : r->count) : 1;
  for (int i = 0; i < a->count; i++)
    for (int k = 0; k < seconds; k++, count++) {
      int j = i + k;
      t.on_a = a->at[i];
      t.on_b = b->at[(t.b ? j : 0) % b->count];
      t.wanted = r->at[(t.b ? 3 * i + 5 * k : j) % r->count];
      if (j % 4 == 3) t.wanted = (tsr_sharding){ 0 };
      check(&t);
    }
  free(a);
  free(b);
  free(r);
  return count;
}

/* How many placements were met; 0: the operation has not the type. */
static int meet(tsr_runtime *rt, int rule, tsr_dtype dtype)
{
  static double expected[MOST];
  bool pairs = dtype == TSR_F32 && !test_quick();
  tsr_scope *s = tsr_scope_open(rt);
  enum second what = rules[rule].b;
  subject t = { .s = s, .rule = rule, .expected = expected };
  t.a = data(s, dtype, TSR_SHAPE(rows, columns), NONE);
  if (what != NONE) t.b = data(s, dtype, shape_of_second(what), what);
  tsr_scope *inner = tsr_scope_open(s);
  tsr_array *whole = rules[rule].make(t.a, t.b);
  int count = 0, rank = tsr_shape_of(whole).rank;
  bool has = !tsr_is_inert(whole);
  if (has) CHECK_STATUS(tsr_read(whole, expected, bytes_of(whole)), TSR_OK, inner);
  tsr_scope_close(inner);
  for (int m = 0; m < LAW_MESHES && has; m++) {
    t.mesh = tsr_mesh_make(rt, law_meshes[m]);
    count += on_mesh(t, rank, pairs);
  }
  tsr_scope_close(s);
  return count;
}

static void every_rule(int64_t row_count, int64_t column_count, int step)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  rows = row_count, columns = column_count;
  printf("# %-22s %-18s", "operation", "rule");
  for (int k = 0; k < FIXTURE_DTYPES; k += step) printf(" %5s", tsr_dtype_name(fixture_dtype(k)));
  printf("\n");
  for (int r = 0; r < COUNT; r++) {
    const tsr__opinfo *row = &tsr__ops[rules[r].op];
    int met = 0;
    printf("# %-22s %-18s", row->name, row->factors);
    for (int k = 0; k < FIXTURE_DTYPES; k += step) {
      int count = meet(rt, r, fixture_dtype(k));
      printf(" %5d", count);
      met += count > 0;
    }
    printf("\n");
    CHECK(met * step >= 5);
  }
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(every_placement_gives_the_same, 900)
{
  every_rule(7, 6, 1);
}

TEST_TIMEOUT(short_dims_give_the_same, 900)
{
  every_rule(3, 2, 4);
}
