/* Long lists of operands, several results and programs inside nodes: made by hand and by calls,
 * printed, checked, compared, copied, merged, and let go of when they are done. */
#include <string.h>

#include "execute/engine.h"
#include "partition/flow.h"
#include "support/leaf_fixture.h"

typedef struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr__program p;
  tsr__error error;
} fixture;

static fixture open_fixture(void)
{
  fixture f = { .rt = fixture_devices("cpu:1") };
  f.s = tsr_scope_open(f.rt);
  tsr__program_init(&f.p, &f.rt->heap);
  return f;
}

static void close_fixture(fixture *f)
{
  tsr__program_free(&f->p);
  tsr_scope_close(f->s);
  tsr_runtime_close(f->rt);
}

/* ---- by hand ---- */

static int add(tsr__program *p, tsr__op op, tsr_dtype dtype, tsr__links in, int64_t index)
{
  tsr__index_attr attr = { .index = index };
  tsr__gnode g = { .op = (uint16_t)op, .dtype = (uint8_t)dtype, .rank = 1, .param = -1 };
  g.dims[0] = 8;
  g.attr_bytes = tsr__attrs[tsr__ops[op].attr].bytes;
  g.attr = tsr__program_attr(p, &attr, g.attr_bytes);
  return tsr__program_add(p, &g, in, NULL);
}

/* (a, b) -> (a op b, a < b), of f64[8]. */
static tsr__region *two_results(fixture *f, tsr__op op)
{
  tsr__program p;
  tsr__program_init(&p, &f->rt->heap);
  int a = add(&p, TSR__OP_ARG, TSR_F64, TSR__LINKS_NONE, 0);
  int b = add(&p, TSR__OP_ARG, TSR_F64, TSR__LINKS_NONE, 1);
  int both = add(&p, op, TSR_F64, TSR__LINKS(a, b), 0);
  int less = add(&p, TSR__OP_LT, TSR_BOOL, TSR__LINKS(a, b), 0);
  tsr__region *region = tsr__region_make(&p, TSR__LINKS(both, less));
  CHECK(region && !p.node_count);
  return region;
}

/* Calls a region of two results on nodes `a` and `b`. */
static int call(tsr__program *p, tsr__region *region, int a, int b)
{
  tsr__result types[2] = { { .dtype = TSR_F64, .rank = 1, .dims = { 8 } },
                           { .dtype = TSR_BOOL, .rank = 1, .dims = { 8 } } };
  tsr__gnode g = { .op = TSR__OP_CALL, .param = -1, .region_count = 1, .result_count = 2 };
  g.first_result = tsr__program_results(p, types, 2);
  return tsr__program_add(p, &g, TSR__LINKS(a, b, tsr__program_region(p, region)), NULL);
}

/* %0 put, %1 put, %2:2 = call(%0, %1), %3 = %2#0, %4 = %2#1, %5 = not(%4) */
static void make_program(fixture *f, tsr__program *p, tsr__op op)
{
  tsr__region *region = two_results(f, op);
  int x = add(p, TSR__OP_LEAF, TSR_F64, TSR__LINKS_NONE, 0);
  int y = add(p, TSR__OP_LEAF, TSR_F64, TSR__LINKS_NONE, 0);
  int both = call(p, region, x, y);
  int sum = add(p, TSR__OP_RESULT, TSR_F64, TSR__LINKS(both), 0);
  int less = add(p, TSR__OP_RESULT, TSR_BOOL, TSR__LINKS(both), 1);
  int not_less = add(p, TSR__OP_NOT, TSR_BOOL, TSR__LINKS(less), 0);
  p->nodes[sum].flags = p->nodes[not_less].flags = TSR__ROOT;
  tsr__region_release(region);
}

TEST(regions_print_inside_their_node)
{
  fixture f = open_fixture();
  tsr__text text;
  make_program(&f, &f.p, TSR__OP_ADD);
  CHECK_STATUS(tsr__program_verify(&f.p, &f.error), TSR_OK, NULL);
  tsr__text_init(&text, &f.rt->heap);
  tsr__program_print(&f.p, &text);
  CHECK_STR(tsr__text_get(&text), "  %0 = put             f64[8]\n"
                                  "  %1 = put             f64[8]\n"
                                  "  %2:2 = call(%0, %1)  f64[8], bool[8]\n"
                                  "      %0 = arg 0          f64[8]\n"
                                  "      %1 = arg 1          f64[8]\n"
                                  "      %2 = %0 + %1        f64[8]\n"
                                  "      %3 = %0 < %1        bool[8]\n"
                                  "      return %2, %3\n"
                                  "  %3 = %2#0            f64[8]\n"
                                  "  %4 = %2#1            bool[8]\n"
                                  "  %5 = not(%4)         bool[8]\n");
  tsr__text_free(&text);
  close_fixture(&f);
}

TEST(equal_regions_are_one_and_make_equal_keys)
{
  fixture f = open_fixture();
  tsr__program q, other;
  tsr__program_init(&q, &f.rt->heap);
  tsr__program_init(&other, &f.rt->heap);
  make_program(&f, &f.p, TSR__OP_ADD);
  make_program(&f, &q, TSR__OP_ADD);
  make_program(&f, &other, TSR__OP_SUB);
  CHECK(f.p.regions[0] != q.regions[0]);
  CHECK(tsr__program_same(&f.p, &q));
  CHECK_U64(tsr__program_hash(&f.p), tsr__program_hash(&q));
  CHECK(!tsr__program_same(&f.p, &other));
  CHECK(tsr__program_hash(&f.p) != tsr__program_hash(&other));
  CHECK_I64(tsr__program_region(&f.p, q.regions[0]), 0);
  CHECK_I64(tsr__program_region(&f.p, other.regions[0]), 1);
  tsr__program_free(&q);
  tsr__program_free(&other);
  close_fixture(&f);
}

/* A copy holds the regions, not copies of them; results and their order are part of the key. */
TEST(copies_have_all_lists)
{
  fixture f = open_fixture();
  tsr__program copy;
  make_program(&f, &f.p, TSR__OP_ADD);
  CHECK_STATUS(tsr__program_copy(&copy, &f.p, &f.rt->heap), TSR_OK, NULL);
  CHECK(tsr__program_same(&copy, &f.p));
  CHECK(copy.regions[0] == f.p.regions[0]);
  CHECK_I64(copy.regions[0]->refs, 2);
  copy.results[1].dtype = TSR_I32;
  CHECK(!tsr__program_same(&copy, &f.p));
  CHECK(tsr__program_hash(&copy) != tsr__program_hash(&f.p));
  tsr__program_free(&copy);
  CHECK_I64(f.p.regions[0]->refs, 1);
  tsr__program_clear(&f.p);
  CHECK_I64(f.p.region_count, 0);
  close_fixture(&f);
}

TEST(verify_looks_into_regions)
{
  fixture f = open_fixture();
  make_program(&f, &f.p, TSR__OP_ADD);
  tsr__gnode *nodes = f.p.nodes, *inside = f.p.regions[0]->program.nodes;
  int32_t *links = f.p.operands, *returned = f.p.regions[0]->results;
  tsr__result *results = f.p.results;
#define BROKEN(place, change)                               \
  do {                                                      \
    tsr__error error = { .status = TSR_OK };                \
    __typeof__(place) good = (place);                       \
    (place) = (change);                                     \
    CHECK(tsr__program_verify(&f.p, &error) == TSR_ESTATE); \
    (place) = good;                                         \
    error.status = TSR_OK;                                  \
    CHECK(tsr__program_verify(&f.p, &error) == TSR_OK);     \
  } while (0)
  BROKEN(nodes[2].region_count, 0);
  BROKEN(links[2], 1);          /* the index of the region */
  BROKEN(nodes[2].in_count, 1); /* an argument is missing */
  BROKEN(nodes[2].result_count, 1);
  BROKEN(nodes[2].first_result, 1);
  BROKEN(nodes[2].dtype, TSR_F64);
  BROKEN(nodes[2].param_count, 1);
  BROKEN(nodes[3].result_count, 1);
  BROKEN(nodes[3].attr, nodes[4].attr); /* that result is bool */
  BROKEN(nodes[0].dtype, TSR_F32);      /* not what the region takes */
  BROKEN(nodes[5].op, TSR__OP_ARG);
  BROKEN(results[0].dims[0], 9);
  BROKEN(results[1].dtype, TSR_I32);
  BROKEN(results[0].sharding, 3);
  BROKEN(returned[0], 4);
  BROKEN(returned[1], 2);
  BROKEN(inside[2].dtype, TSR_F32);
  BROKEN(inside[1].op, TSR__OP_LEAF);
  BROKEN(f.p.regions[0]->program.param_count, 1);
#undef BROKEN
  close_fixture(&f);
}

/* A program is planned as if what regions compute had stood there, and tied to itself. */
TEST(regions_are_put_in_place)
{
  fixture f = open_fixture();
  tsr__partitioned out;
  tsr__text text;
  make_program(&f, &f.p, TSR__OP_ADD);
  CHECK_STATUS(tsr__partition(&f.p, &f.rt->heap, &out, &f.error), TSR_OK, NULL);
  tsr__text_init(&text, &f.rt->heap);
  tsr__program_print(&out.program, &text);
  CHECK_STR(tsr__text_get(&text), "  %0 = put            f64[8]\n"
                                  "  %1 = put            f64[8]\n"
                                  "  %2 = %0 + %1        f64[8]\n"
                                  "  %3 = %0 < %1        bool[8]\n"
                                  "  %4 = not(%3)        bool[8]\n");
  static const int home[] = { 0, 1, -1, 2, 3, 4 }, origin[] = { 0, 1, 3, 4, 5 };
  CHECK_I64(out.home_count, 6);
  for (int n = 0; n < 6; n++) CHECK_I64(out.home[n], home[n]);
  for (int n = 0; n < 5; n++) CHECK_I64(out.origin[n], origin[n]);
  for (int n = 0; n < 5; n++) CHECK_I64(out.number[n], origin[n]);
  CHECK(out.program.nodes[2].flags & TSR__ROOT && out.program.nodes[4].flags & TSR__ROOT);
  CHECK(!(out.program.nodes[3].flags & TSR__ROOT));
  tsr__text_free(&text);
  tsr__partitioned_free(&out, &f.rt->heap);
  close_fixture(&f);
}

/* What goes into a region lies whole, and so does what comes out: how its program could be cut is
 * for whoever lowers it. What stands around it is cut as ever. */
TEST(propagation_does_not_look_into_regions)
{
  fixture f = { .rt = fixture_devices("cpu:2") };
  f.s = tsr_scope_open(f.rt);
  tsr__program_init(&f.p, &f.rt->heap);
  tsr_sharding on = tsr_on(tsr_mesh_make(f.rt, "x=2"), "x"), at = tsr__sharding_canon(&on);
  make_program(&f, &f.p, TSR__OP_ADD);
  int asked = add(&f.p, TSR__OP_CONSTRAIN, TSR_BOOL, TSR__LINKS(5), 0);
  int place = tsr__program_sharding(&f.p, &at);
  for (int n = 0; n <= asked; n += asked) {
    f.p.nodes[n].sharding = (uint16_t)place;
    f.p.nodes[n].flags |= TSR__PLACED;
  }
  CHECK_STATUS(tsr__program_verify(&f.p, &f.error), TSR_OK, NULL);
  tsr__arena arena;
  tsr__flow flow;
  tsr__arena_init(&arena, &f.rt->heap);
  CHECK_STATUS(tsr__flow_run(&f.p, (tsr__flow_opts){ .manual = 0 }, &arena, &flow, &f.error),
               TSR_OK, NULL);
  for (int i = 0; i < 2; i++) {
    CHECK(tsr__flow_need(&flow, 2, i)->mesh == at.mesh);
    CHECK_U64(tsr__used_axes(tsr__flow_need(&flow, 2, i)), 0);
    CHECK_U64(tsr__used_axes(tsr__flow_at(&flow, 3 + i)), 0);
  }
  for (int n = 2; n <= 4; n++) CHECK(flow.fixed[n] && !flow.ways[n]->next);
  tsr__arena_free(&arena);
  close_fixture(&f);
}

/* ---- when results are done ---- */

/* A node of several results lives as long as any of them is read, and for good if one is a root. */
TEST(a_producer_goes_with_its_last_result)
{
  for (int root = 0; root < 2; root++) {
    fixture f = open_fixture();
    tsr__plan *plan = tsr__new(&f.rt->heap, sizeof *plan);
    tsr__program *p = &plan->parts.program;
    tsr__program_init(p, &f.rt->heap);
    tsr__program_init(&plan->key, &f.rt->heap);
    tsr__region *region = two_results(&f, TSR__OP_ADD);
    int x = add(p, TSR__OP_LEAF, TSR_F64, TSR__LINKS_NONE, 0);
    int both = call(p, region, x, x), unread = call(p, region, x, both);
    int sum = add(p, TSR__OP_RESULT, TSR_F64, TSR__LINKS(both), 0);
    int less = add(p, TSR__OP_RESULT, TSR_BOOL, TSR__LINKS(both), 1);
    int nobody = add(p, TSR__OP_RESULT, TSR_BOOL, TSR__LINKS(unread), 1);
    int first = add(p, TSR__OP_RESHARD, TSR_BOOL, TSR__LINKS(less), 0);
    int last = add(p, TSR__OP_RESHARD, TSR_F64, TSR__LINKS(sum), 0);
    p->nodes[root ? sum : last].flags = TSR__ROOT;
    const int order[] = { both, unread, first, last };
    plan->schedule.heap = &f.rt->heap;
    plan->schedule.step_room = plan->schedule.step_count = 4;
    plan->schedule.steps = tsr__new(&f.rt->heap, 4 * sizeof *plan->schedule.steps);
    for (int s = 0; s < 4; s++)
      plan->schedule.steps[s] = (tsr__step){ .kind = TSR__STEP_RESHARD, .node = order[s] };
    CHECK_STATUS(tsr__plan_last_uses(f.rt, plan, &f.error), TSR_OK, NULL);
    CHECK_I64(plan->last_use[x], 1);
    CHECK_I64(plan->last_use[less], 2);
    CHECK_I64(plan->last_use[sum], root ? -1 : 3);
    CHECK_I64(plan->last_use[both], root ? -1 : 3);
    CHECK_I64(plan->last_use[nobody], 1);
    CHECK_I64(plan->last_use[unread], 1);
    tsr__region_release(region);
    tsr__plan_free(f.rt, plan);
    close_fixture(&f);
  }
}

/* ---- by calls ---- */

/* The sum of `count` arguments of f64[8], plus a number. */
static tsr__region *long_sum(fixture *f, int count)
{
  tsr__program p;
  tsr__program_init(&p, &f->rt->heap);
  tsr__gnode number = { .op = TSR__OP_CONST, .dtype = TSR_F64, .param_count = 1 };
  int sum = tsr__program_add(&p, &number, TSR__LINKS_NONE, NULL);
  p.param_count = 1;
  for (int i = 0; i < count; i++) {
    int next = add(&p, TSR__OP_ARG, TSR_F64, TSR__LINKS_NONE, i);
    sum = add(&p, TSR__OP_ADD, TSR_F64, TSR__LINKS(sum, next), 0);
  }
  tsr__region *region = tsr__region_make(&p, TSR__LINKS(sum, sum));
  CHECK(region);
  return region;
}

enum { LONG = 20 };

static tsr_array *call_long(fixture *f, tsr__region *region, tsr_array *const *in, int count)
{
  tsr__ask ask = { TSR__NUMBERS({ .f = 0.5 }), .regions = &region, .region_count = 1 };
  return tsr__make(f->s, TSR__OP_CALL, (tsr__operands){ in, count }, &ask, "a.c:1");
}

static tsr_array *take_out(fixture *f, tsr_array *a, int index)
{
  tsr__ask ask = { TSR__ATTR(tsr__index_attr, .index = index) };
  return tsr__make(f->s, TSR__OP_RESULT, TSR__IN(a), &ask, "a.c:2");
}

TEST(a_node_has_twenty_operands)
{
  fixture f = open_fixture();
  tsr_array *in[LONG];
  tsr__region *region = long_sum(&f, LONG);
  for (int i = 0; i < LONG; i++) in[i] = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), NULL, NULL);
  tsr_array *all = call_long(&f, region, in, LONG), *sum = take_out(&f, all, 1);
  CHECK(!all->inert && !sum->inert);
  CHECK_I64(all->in_count, LONG);
  CHECK_I64(all->extras->result_count, 2);
  CHECK_I64(sum->dtype, TSR_F64);
  CHECK_I64(in[LONG - 1]->users, 1);
  CHECK_STATUS(tsr__program_trace(&f.p, &sum, 1, &f.error), TSR_OK, NULL);
  CHECK_STATUS(tsr__program_verify(&f.p, &f.error), TSR_OK, NULL);
  const tsr__gnode *g = &f.p.nodes[LONG];
  CHECK_I64(g->op, TSR__OP_CALL);
  for (int i = 0; i < LONG; i++) CHECK_I64(tsr__in(&f.p, g, i), i);
  CHECK_I64(tsr__in(&f.p, g, LONG), -1);
  CHECK(tsr__region_in(&f.p, g, 0) == region);
  CHECK_I64(g->param_count, 1);
  CHECK(f.p.params[g->param].f == 0.5);
  CHECK_I64(region->refs, 3);
  tsr__region_release(region);
  close_fixture(&f);
}

/* Equal calls are one node where no numbers differ; results of one call are told apart. */
TEST(equal_calls_are_merged)
{
  fixture f = open_fixture();
  tsr__region *region = two_results(&f, TSR__OP_ADD), *equal = two_results(&f, TSR__OP_ADD);
  tsr__region *other = two_results(&f, TSR__OP_MUL), *use[4] = { region, equal, other, region };
  tsr_array *x = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), NULL, NULL), *r[8];
  tsr_array *y = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), NULL, NULL);
  for (int i = 0; i < 4; i++) {
    tsr__ask ask = { .regions = &use[i], .region_count = 1 };
    tsr__operands in = i == 3 ? (tsr__operands){ (tsr_array *[]){ y, x }, 2 }
                              : (tsr__operands){ (tsr_array *[]){ x, y }, 2 };
    tsr_array *both = tsr__make(f.s, TSR__OP_CALL, in, &ask, NULL);
    for (int k = 0; k < 2; k++) r[2 * i + k] = take_out(&f, both, k);
  }
  CHECK_STATUS(tsr__program_trace(&f.p, r, 8, &f.error), TSR_OK, NULL);
  CHECK_STATUS(tsr__program_verify(&f.p, &f.error), TSR_OK, NULL);
  CHECK_I64(f.p.node_count, 2 + 3 + 6);
  CHECK_I64(f.p.region_count, 2);
  CHECK_I64(f.p.result_count, 6);
  CHECK(r[0]->mark == r[2]->mark && r[1]->mark == r[3]->mark && r[0]->mark != r[1]->mark);
  tsr__region_release(region);
  tsr__region_release(equal);
  tsr__region_release(other);
  close_fixture(&f);
}

TEST(calls_say_what_does_not_fit)
{
  fixture f = open_fixture();
  tsr__region *region = long_sum(&f, 6);
  tsr_array *x[6];
  for (int i = 0; i < 6; i++) x[i] = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), NULL, NULL);
  tsr_array *good = call_long(&f, region, x, 6);
  const struct {
    tsr_array *made;
    const char *says;
  } cases[] = {
    { call_long(&f, region, x, 5), "5 operands, but the program takes argument 6" },
    { take_out(&f, good, 2), "result 2 does not exist in an array of 2 results" },
    { take_out(&f, x[0], 0), "result 0 does not exist in an array of 0 results" },
    { fixture_make(TSR__OP_ADD, x[0], good, NULL, NULL), "operand 2 has 2 results" },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) CHECK(cases[i].made->inert);
  CHECK_STR_HAS(tsr_message(f.s), cases[0].says);
  for (int i = 1; i < 4; i++) {
    tsr_scope *s = tsr_scope_open(f.s);
    tsr__ask ask = { TSR__ATTR(tsr__index_attr, .index = i == 1 ? 2 : 0) };
    if (i < 3) tsr__make(s, TSR__OP_RESULT, TSR__IN(i == 1 ? good : x[0]), &ask, NULL);
    else tsr__make(s, TSR__OP_ADD, TSR__IN(x[0], good), &(tsr__ask){ 0 }, NULL);
    CHECK_STR_HAS(tsr_message(s), cases[i].says);
    tsr_scope_close(s);
  }
  x[4] = fixture_leaf(f.s, TSR_F32, TSR_SHAPE(8), NULL, NULL);
  tsr_scope *s = tsr_scope_open(f.s);
  tsr__ask ask = { TSR__NUMBERS({ .f = 1 }), .regions = &region, .region_count = 1 };
  CHECK(tsr__make(s, TSR__OP_CALL, (tsr__operands){ x, 6 }, &ask, NULL)->inert);
  CHECK_STR_HAS(tsr_message(s), "operand 5 is f32[8], expected f64[8]");
  tsr_scope_close(s);
  tsr__region_release(region);
  close_fixture(&f);
}

/* ---- run ---- */

/* (a) -> (sorted a + number, a, number, a call of `inner` on a and a); numbers of both count. */
static tsr__region *outer_region(fixture *f, tsr__region *inner)
{
  tsr__program p;
  tsr__program_init(&p, &f->rt->heap);
  tsr__gnode number = { .op = TSR__OP_CONST, .dtype = TSR_F64, .param_count = 1 };
  int a = add(&p, TSR__OP_ARG, TSR_F64, TSR__LINKS_NONE, 0);
  int x = tsr__program_add(&p, &number, TSR__LINKS_NONE, NULL);
  tsr__result types[2] = { { .dtype = TSR_F64, .rank = 1, .dims = { 8 } },
                           { .dtype = TSR_I64, .rank = 1, .dims = { 8 } } };
  tsr__sort_attr line = { 0 };
  tsr__gnode sort = { .op = TSR__OP_SORT, .param = -1, .result_count = 2 };
  sort.first_result = tsr__program_results(&p, types, 2);
  sort.attr_bytes = sizeof line;
  sort.attr = tsr__program_attr(&p, &line, sizeof line);
  int sorted = tsr__program_add(&p, &sort, TSR__LINKS(a), NULL);
  int values = add(&p, TSR__OP_RESULT, TSR_F64, TSR__LINKS(sorted), 0);
  int sum = add(&p, TSR__OP_ADD, TSR_F64, TSR__LINKS(values, x), 0);
  int both = call(&p, inner, a, sum);
  p.results[p.nodes[both].first_result + 1].dtype = TSR_F64;
  int fifth = add(&p, TSR__OP_RESULT, TSR_F64, TSR__LINKS(both), 0);
  p.nodes[both].param = 1;
  p.nodes[both].param_count = inner->program.param_count;
  p.param_count = 1 + inner->program.param_count;
  tsr__region *region = tsr__region_make(&p, TSR__LINKS(sum, a, x, fifth));
  CHECK(region);
  return region;
}

static void read8(tsr_array *a, double out[8])
{
  CHECK_STATUS(tsr_read(a, out, 8 * sizeof *out), TSR_OK, tsr__home(a));
}

/* Regions in regions, of several results, one of them an argument and one a number; the same
 * region with different numbers, on any mesh. */
TEST(calls_run)
{
  static const char *const specs[] = { NULL, "x", "-" };
  static const double x[8] = { 5, 3, -1, 8, 0, 2, 7, 4 }, sorted[8] = { -1, 0, 2, 3, 4, 5, 7, 8 };
  for (int c = 0; c < 3; c++) {
    fixture f = open_fixture();
    tsr_runtime *rt = tsr_runtime_open("cpu:4");
    tsr_scope *s = tsr_scope_open(rt);
    tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
    tsr__program_free(&f.p);
    fixture g = { .rt = rt, .s = s };
    tsr__region *inner = long_sum(&g, 2), *outer = outer_region(&g, inner);
    tsr_sharding at = specs[c] ? tsr_on(mesh, specs[c]) : (tsr_sharding){ 0 };
    tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(8), at);
    for (int k = 1; k < 3; k++) {
      tsr__ask ask = { TSR__NUMBERS({ .f = k }, { .f = 100 * k }), .regions = &outer,
                       .region_count = 1 };
      tsr_array *all = tsr__make(s, TSR__OP_CALL, TSR__IN(a), &ask, "a.c:3"), *r[5];
      for (int i = 0; i < 4; i++) r[i] = take_out(&g, all, i);
      r[4] = tsr_add(r[0], r[3]);
      CHECK_STATUS(tsr_eval(r, 5), TSR_OK, s);
      double y[5][8], number;
      CHECK_STATUS(tsr_read_scalar(r[2], &number), TSR_OK, s);
      CHECK_F64_BITS(number, k);
      for (int i = 0; i < 5; i++)
        if (i != 2) read8(r[i], y[i]);
      for (int i = 0; i < 8; i++) {
        CHECK_F64_BITS(y[0][i], sorted[i] + k);
        CHECK_F64_BITS(y[1][i], x[i]);
        CHECK_F64_BITS(y[3][i], 100 * k + x[i] + (sorted[i] + k));
        CHECK_F64_BITS(y[4][i], sorted[i] + k + (100 * k + x[i] + (sorted[i] + k)));
      }
    }
    tsr__region_release(inner);
    tsr__region_release(outer);
    tsr_scope_close(s);
    tsr_runtime_close(rt);
    tsr_scope_close(f.s);
    tsr_runtime_close(f.rt);
  }
}

/* A number that is an operand is one array of rank 0 inside. */
TEST(calls_take_numbers)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  fixture f = { .rt = rt, .s = tsr_scope_open(rt) };
  tsr__program p;
  tsr__program_init(&p, &rt->heap);
  tsr__gnode arg = { .op = TSR__OP_ARG, .dtype = TSR_F64, .param = -1 };
  tsr__index_attr index = { 0 };
  arg.attr_bytes = sizeof index;
  arg.attr = tsr__program_attr(&p, &index, sizeof index);
  int a = tsr__program_add(&p, &arg, TSR__LINKS_NONE, NULL);
  tsr__reduce_attr none = { 0 };
  tsr__gnode sum = { .op = TSR__OP_SUM, .dtype = TSR_F64, .param = -1, .attr_bytes = sizeof none };
  sum.attr = tsr__program_attr(&p, &none, sizeof none);
  int total = tsr__program_add(&p, &sum, TSR__LINKS(a), NULL);
  tsr__region *region = tsr__region_make(&p, TSR__LINKS(total));
  tsr__ask ask = { .regions = &region, .region_count = 1 };
  tsr_array *called = tsr__make(f.s, TSR__OP_CALL, TSR__IN(tsr_num(f.s, 2.5)), &ask, NULL);
  double value;
  CHECK_STATUS(tsr_read_scalar(take_out(&f, called, 0), &value), TSR_OK, f.s);
  CHECK_F64_BITS(value, 2.5);
  tsr__region_release(region);
  tsr_scope_close(f.s);
  tsr_runtime_close(rt);
}
