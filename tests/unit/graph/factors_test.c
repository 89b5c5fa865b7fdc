/* Sharding rules expanded for given shapes, and what follows from the table for reductions:
 * accumulators, stages and bytes on the way. */
#include <string.h>

#include "support/leaf_fixture.h"

typedef struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr__program p;
} fixture;

static fixture open_fixture(void)
{
  fixture f = { .rt = fixture_devices("cpu:8") };
  f.s = tsr_scope_open(f.rt);
  tsr__program_init(&f.p, &f.rt->heap);
  return f;
}

static tsr_array *plain(fixture *f, tsr_dtype dtype, tsr_shape shape)
{
  return fixture_leaf(f->s, dtype, shape, NULL, NULL);
}

static void trace(fixture *f, tsr_array *const *roots, int count)
{
  tsr__error error = { .status = TSR_OK };
  tsr__program_clear(&f->p);
  if (tsr__program_trace(&f->p, roots, count, &error)) FAIL("%s", error.text);
}

/* The factors of a root as text: "in0;in1;in2>out|kinds", a digit a dim, '-' for none. */
static const char *factors_text(fixture *f, tsr_array *root, char out[96])
{
  tsr__factors factors;
  int at = 0;
  trace(f, &root, 1);
  int n = (int)root->mark - 1;
  const tsr__gnode *g = &f->p.nodes[n];
  tsr__factors_of(&f->p, n, &factors);
  enum { SHOWN = 3 };
  for (int i = 0; i <= SHOWN; i++) {
    int8_t map[TSR_MAX_RANK];
    int in = i < SHOWN ? tsr__in(&f->p, g, i) : n;
    if (i < SHOWN) tsr__factors_in(&factors, i, map);
    else memcpy(map, factors.out, sizeof map);
    if (i == SHOWN) out[at++] = '>';
    for (int d = 0; in >= 0 && d < f->p.nodes[in].rank; d++)
      out[at++] = map[d] < 0 ? '-' : (char)('0' + map[d]);
    if (i < SHOWN - 1) out[at++] = ';';
  }
  out[at++] = '|';
  for (int k = 0; k < factors.count; k++) out[at++] = "PRNML"[factors.kind[k]];
  out[at] = '\0';
  return out;
}

TEST(elementwise_dims_are_aligned_at_the_last)
{
  fixture f = open_fixture();
  char text[96];
  tsr_array *a = plain(&f, TSR_F64, TSR_SHAPE(8, 1, 5)), *b = plain(&f, TSR_F64, TSR_SHAPE(3, 5));
  tsr_array *one = plain(&f, TSR_F64, TSR_SHAPE(1));
  CHECK_STR(factors_text(&f, fixture_make(TSR__OP_NEG, b, NULL, NULL, NULL), text), "01;;>01|PP");
  CHECK_STR(factors_text(&f, fixture_make(TSR__OP_ADD, a, b, NULL, NULL), text), "0-2;12;>012|PPP");
  CHECK_STR(factors_text(&f, fixture_make(TSR__OP_ADD, one, one, NULL, NULL), text), "0;0;>0|P");
  tsr_array *c = plain(&f, TSR_BOOL, TSR_SHAPE(3, 1));
  CHECK_STR(factors_text(&f, fixture_make(TSR__OP_WHERE, c, a, b, NULL), text),
            "1-;0-2;12>012|PPP");
}

/* What a view passes on may be cut alike on both sides; along what it cuts, turns or extends
 * elements come to lie elsewhere. */
TEST(views_share_the_dims_that_they_pass_on)
{
  fixture f = open_fixture();
  char text[96];
  tsr_array *x = plain(&f, TSR_F64, TSR_SHAPE(8, 1, 5)), *n = plain(&f, TSR_F64, TSR_SCALAR);
  tsr__ask part = { TSR__ATTR(tsr__slice_attr, .start = { 0, 0, 4 }, .step = { 0, 0, -1 },
                              .size = { 0, 0, 5 }) };
  CHECK_STR(factors_text(&f, tsr__make(f.s, TSR__OP_SLICE, TSR__IN(x), &part, NULL), text),
            "012;;>012|PPM");
  tsr__ask order = { TSR__ATTR(tsr__order_attr, .dims = { 2, 0, 1 }) };
  CHECK_STR(factors_text(&f, tsr__make(f.s, TSR__OP_TRANSPOSE, TSR__IN(x), &order, NULL), text),
            "120;;>012|PPP");
  tsr__ask spread = { .shape = TSR_SHAPE(2, 8, 3, 5) };
  CHECK_STR(factors_text(&f, tsr__make(f.s, TSR__OP_BROADCAST, TSR__IN(x), &spread, NULL), text),
            "1-3;;>0123|PPPP");
  tsr__ask borders = { TSR__ATTR(tsr__pad_attr, .low = { 0, 1 }, .high = { 0, 0, 1 }) };
  CHECK_STR(factors_text(&f, tsr__make(f.s, TSR__OP_PAD, TSR__IN(x, n), &borders, NULL), text),
            "012;;>012|PMM");
  tsr__ask along = { TSR__ATTR(tsr__dim_attr, .dim = 1) };
  CHECK_STR(factors_text(&f, tsr__make(f.s, TSR__OP_CONCAT, TSR__IN(x, x, x), &along, NULL), text),
            "012;012;012>012|PMP");
}

TEST(reduced_dims_are_reduction_factors)
{
  fixture f = open_fixture();
  char text[96];
  tsr_array *x = plain(&f, TSR_F64, TSR_SHAPE(2, 3, 4)),
            *m = plain(&f, TSR_BOOL, TSR_SHAPE(2, 3, 4));
  CHECK_STR(factors_text(&f, fixture_reduce(TSR__OP_SUM, x, m, 2, NULL), text), "012;012;>02|PRP");
  tsr__ask keep = { TSR__ATTR(tsr__reduce_attr, .dims = 5, .keep = 1) };
  tsr__operands in = TSR__IN(x);
  CHECK_STR(factors_text(&f, tsr__make(f.s, TSR__OP_MAX, in, &keep, NULL), text), "012;;>-1-|RPR");
  tsr__operands grouped = TSR__IN(x, NULL, plain(&f, TSR_I32, TSR_SHAPE(2, 3, 4)));
  tsr__ask groups = { TSR__ATTR(tsr__reduce_attr, .groups = 9) };
  CHECK_STR(factors_text(&f, tsr__make(f.s, TSR__OP_SUM, grouped, &groups, NULL), text),
            "012;;012>-|RRR");
}

TEST(tables_are_looked_into)
{
  fixture f = open_fixture();
  char text[96];
  tsr_array *t = plain(&f, TSR_F32, TSR_SHAPE(5, 6, 7)), *i = plain(&f, TSR_I64, TSR_SHAPE(2, 9));
  tsr__operands in = TSR__IN(t, i);
  CHECK_STR(factors_text(&f,
                         tsr__make(f.s, TSR__OP_TAKE, in,
                                   &(tsr__ask){ TSR__ATTR(tsr__span_attr, .dim = 1) }, NULL),
                         text),
            "012;34;>0342|PLPPP");
  tsr__ask batch = { TSR__ATTR(tsr__span_attr, .dim = 2, .batch = 1) };
  tsr__operands rows = TSR__IN(t, plain(&f, TSR_I64, TSR_SHAPE(5, 2, 9)));
  CHECK_STR(factors_text(&f, tsr__make(f.s, TSR__OP_TAKE, rows, &batch, NULL), text),
            "012;034;>0134|PPLPP");
  tsr__operands sorted =
      TSR__IN(plain(&f, TSR_F32, TSR_SHAPE(5)), plain(&f, TSR_F32, TSR_SHAPE(2, 3)));
  CHECK_STR(factors_text(
                &f, tsr__make(f.s, TSR__OP_SEARCH, sorted, &(tsr__ask){ .dtype = TSR_I64 }, NULL),
                text),
            "2;01;>01|PPN");
}

TEST(rows_and_sources)
{
  fixture f = open_fixture();
  char text[96];
  tsr_array *x = plain(&f, TSR_F32, TSR_SHAPE(5, 6)), *m = plain(&f, TSR_BOOL, TSR_SHAPE(5));
  CHECK_STR(factors_text(&f, fixture_make(TSR__OP_COMPACT, x, m, NULL, NULL), text), "01;0;>01|MP");
  CHECK_STR(factors_text(&f, fixture_make(TSR__OP_FIRSTN, m, NULL, NULL, NULL), text), "0;;>0|M");
  tsr__ask iota = { .dtype = TSR_I64, .shape = TSR_SHAPE(4, 5) };
  CHECK_STR(factors_text(&f, tsr__make(f.s, TSR__OP_IOTA, TSR__IN_NONE, &iota, NULL), text),
            ";;>01|PP");
}

/* ---- stages ---- */

TEST(stages_count_combinations_on_the_way)
{
  fixture f = open_fixture();
  tsr_mesh *mesh = tsr_mesh_make(f.rt, "x=8");
  tsr_array *x = plain(&f, TSR_F64, TSR_SHAPE(8));
  tsr_array *mean = fixture_reduce(TSR__OP_MEAN, x, NULL, 0, NULL);     /* 0 */
  tsr_array *centred = fixture_make(TSR__OP_SUB, x, mean, NULL, NULL);  /* 1 */
  tsr_array *sum = fixture_reduce(TSR__OP_SUM, centred, NULL, 0, NULL); /* 1 */
  tsr_array *last = fixture_make(TSR__OP_NEG, sum, NULL, NULL, NULL);   /* 2 */
  tsr_sharding at = tsr_on(mesh, "x");
  tsr__operands in = TSR__IN(x);
  tsr_array *moved =
      tsr__make(f.s, TSR__OP_RESHARD, in, &(tsr__ask){ .sharding = &at }, NULL); /* -1 */
  tsr_array *near = fixture_make(TSR__OP_NEG, moved, NULL, NULL, NULL);          /* 0 */
  tsr__operands from = TSR__IN(near);
  tsr_array *late =
      tsr__make(f.s, TSR__OP_RESHARD, from, &(tsr__ask){ .sharding = &at }, NULL); /* 0 */
  tsr_array *far = fixture_make(TSR__OP_ADD, late, mean, NULL, NULL);              /* 1 */
  tsr_array *roots[2] = { last, far },
            *nodes[9] = { x, mean, centred, sum, last, moved, near, late, far };
  static const int expected[9] = { -1, 0, 1, 1, 2, -1, 0, 0, 1 };
  int stage[16];
  trace(&f, roots, 2);
  CHECK_I64(tsr__stages(&f.p, stage), 3);
  for (int i = 0; i < 9; i++) CHECK_I64(stage[nodes[i]->mark - 1], expected[i]);
}

/* ---- accumulators ---- */

static int accums(const tsr__program *p, tsr__accum *out, int *of_node)
{
  int stage[64];
  CHECK(p->node_count <= 64);
  tsr__stages(p, stage);
  return tsr__accums(p, stage, out, of_node);
}

TEST(reductions_share_what_they_can)
{
  fixture f = open_fixture();
  tsr_array *x = plain(&f, TSR_F64, TSR_SHAPE(8)), *m = plain(&f, TSR_BOOL, TSR_SHAPE(8));
  tsr_array *r[8] = {
    fixture_reduce(TSR__OP_SUM, x, m, 0, NULL),      fixture_reduce(TSR__OP_MEAN, x, m, 0, NULL),
    fixture_reduce(TSR__OP_VAR, x, m, 0, NULL),      fixture_reduce(TSR__OP_STD, x, m, 0, NULL),
    fixture_reduce(TSR__OP_COUNT, m, NULL, 0, NULL), fixture_reduce(TSR__OP_SUM, x, NULL, 0, NULL),
    fixture_reduce(TSR__OP_MEAN, x, NULL, 0, NULL),  fixture_reduce(TSR__OP_MIN, x, NULL, 0, NULL),
  };
  static const int expected[8][2] = { { 0, -1 }, { 0, 1 },  { 2, 1 },  { 2, 1 },
                                      { 1, -1 }, { 3, -1 }, { 3, -1 }, { 4, -1 } };
  static const int rows[5] = { TSR__ACCUM_SUM_LONE, TSR__ACCUM_COUNT, TSR__ACCUM_SPREAD_LONE,
                               TSR__ACCUM_SUM_LONE, TSR__ACCUM_MIN };
  tsr__accum list[16];
  int of_node[64];
  trace(&f, r, 8);
  CHECK_I64(accums(&f.p, list, of_node), 5);
  for (int i = 0; i < 8; i++) {
    CHECK_I64(of_node[2 * (r[i]->mark - 1)], expected[i][0]);
    CHECK_I64(of_node[2 * (r[i]->mark - 1) + 1], expected[i][1]);
  }
  for (int i = 0; i < 5; i++) CHECK_I64(list[i].row, rows[i]);
  CHECK_I64(list[1].operand, -1);
  CHECK_I64(list[1].dtype, TSR_I64);
  CHECK_I64(list[1].mask, (int)m->mark - 1);
  CHECK_I64(of_node[2 * (x->mark - 1)], -1);
}

/* A count of one mask in two stages is two accumulators: the first is gone when the second
 * starts. */
TEST(accumulators_belong_to_one_stage)
{
  fixture f = open_fixture();
  tsr_array *x = plain(&f, TSR_F64, TSR_SHAPE(8)), *m = plain(&f, TSR_BOOL, TSR_SHAPE(8));
  tsr_array *share =
      fixture_make(TSR__OP_DIV, x, fixture_reduce(TSR__OP_SUM, x, NULL, 0, NULL), NULL, NULL);
  tsr_array *r[2] = { fixture_reduce(TSR__OP_MEAN, share, m, 0, NULL),
                      fixture_reduce(TSR__OP_COUNT, m, NULL, 0, NULL) };
  tsr__accum list[16];
  int of_node[64];
  trace(&f, r, 2);
  CHECK_I64(accums(&f.p, list, of_node), 4);
  CHECK(of_node[2 * (r[0]->mark - 1) + 1] != of_node[2 * (r[1]->mark - 1)]);
}

TEST(bytes_on_the_way)
{
  static const struct {
    tsr__op op;
    int dtype;
    int64_t scalar, element;
  } cases[] = {
    { TSR__OP_SUM, TSR_F64, 276, 24 }, { TSR__OP_MEAN, TSR_F32, 276, 24 },
    { TSR__OP_SUM, TSR_I64, 16, 16 },  { TSR__OP_VAR, TSR_F64, 816, 48 },
    { TSR__OP_STD, TSR_I64, 40, 40 },  { TSR__OP_COUNT, TSR_BOOL, 8, 8 },
    { TSR__OP_MIN, TSR_F64, 8, 8 },    { TSR__OP_MAX, TSR_F32, 4, 4 },
    { TSR__OP_MIN, TSR_I32, 4, 4 },    { TSR__OP_MAX, TSR_U8, 1, 1 },
    { TSR__OP_PROD, TSR_F64, 8, 8 },   { TSR__OP_PROD, TSR_I64, 8, 8 },
    { TSR__OP_ANY, TSR_BOOL, 1, 1 },   { TSR__OP_ALL, TSR_BOOL, 1, 1 },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture f = open_fixture();
    tsr_array *x = plain(&f, (tsr_dtype)cases[i].dtype, TSR_SHAPE(8, 5));
    tsr_array *r[2] = { fixture_reduce(cases[i].op, x, NULL, 3, NULL),
                        fixture_reduce(cases[i].op, x, NULL, 1, NULL) };
    tsr__accum list[16];
    int of_node[64];
    trace(&f, r, 2);
    CHECK_I64(accums(&f.p, list, of_node), 2);
    for (int k = 0; k < 2; k++) {
      const tsr__accum *accum = &list[of_node[2 * (r[k]->mark - 1)]];
      int64_t element = k ? cases[i].element : cases[i].scalar;
      CHECK_I64(tsr__wire_bytes(accum->row, accum->dtype, 1), element);
      CHECK_I64(tsr__wire_bytes(accum->row, accum->dtype, 5), 5 * element);
      CHECK_I64(tsr__wire_bytes(accum->row, accum->dtype, 0), 0);
    }
  }
}
