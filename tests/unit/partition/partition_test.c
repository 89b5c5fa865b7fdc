/* Partitioning: where nodes come to lie, what is moved and what is refused, by programs written by
 * hand; the invariants of support/partition_check.h hold of all of them. */
#include <stdlib.h>
#include <string.h>

#include "partition/flow.h"
#include "support/partition_check.h"

typedef struct fixture {
  tsr_runtime *rt;
  tsr_mesh *mesh;
  tsr_scope *s;
  tsr__program p;
  tsr__partitioned parts;
  tsr__error error;
} fixture;

static fixture open_fixture(void)
{
  fixture f = { .rt = fixture_devices("cpu:8") };
  f.mesh = tsr_mesh_make(f.rt, "x=2,y=4");
  f.s = tsr_scope_open(f.rt);
  tsr__program_init(&f.p, &f.rt->heap);
  return f;
}

static tsr_status try_partition(fixture *f, tsr_array *const *roots, int count)
{
  tsr__program_clear(&f->p);
  f->error = (tsr__error){ .status = TSR_OK };
  tsr_status status = tsr__program_trace(&f->p, roots, count, &f->error);
  return status ? status : tsr__partition(&f->p, &f->rt->heap, &f->parts, &f->error);
}

static void partition(fixture *f, tsr_array *const *roots, int count)
{
  if (try_partition(f, roots, count)) FAIL("%s", f->error.text);
  check_partitioned(&f->p, &f->parts);
}

/* The partitioned program as text, without the lines that made its nodes. */
static void check_text(fixture *f, const char *expected)
{
  tsr__text text;
  tsr__text_init(&text, &f->rt->heap);
  for (int n = 0; n < f->parts.program.node_count; n++) f->parts.program.sites[n] = NULL;
  tsr__program_print(&f->parts.program, &text);
  CHECK_STR(tsr__text_get(&text), expected);
  tsr__text_free(&text);
}

static tsr_array *on(fixture *f, tsr_shape shape, const char *spec)
{
  return fixture_leaf(f->s, TSR_F64, shape, spec ? f->mesh : NULL, spec);
}

static tsr_array *binary(tsr_array *a, tsr_array *b)
{
  return fixture_make(TSR__OP_ADD, a, b, NULL, "a.c:1");
}

static tsr_array *moved(tsr__op op, tsr_array *a, const tsr_mesh *mesh, const char *spec)
{
  tsr_sharding at = tsr_on(mesh, spec);
  tsr__operands in = TSR__IN(a);
  const tsr__ask ask = { .sharding = &at, .opens = op == TSR__OP_CONSTRAIN };
  return tsr__make(a->node.scope, op, in, &ask, "a.c:2");
}

static tsr_array *iota(fixture *f, tsr_shape shape)
{
  return tsr__make(f->s, TSR__OP_IOTA, TSR__IN_NONE,
                   &(tsr__ask){ .dtype = TSR_F64, .shape = shape }, "a.c:3");
}

/* ---- propagation ---- */

TEST(results_follow_their_operands)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(8, 8), "x,y"), *row = on(&f, TSR_SHAPE(8), "y");
  tsr_array *r = binary(fixture_make(TSR__OP_NEG, x, NULL, NULL, NULL), row);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8,8]@(x,y)\n"
                 "  %1 = neg(%0)        f64[8,8]@(x,y)\n"
                 "  %2 = put            f64[8]@(y)\n"
                 "  %3 = %1 + %2        f64[8,8]@(x,y)\n");
  CHECK_I64(f.parts.note_count, 0);
}

TEST(dims_that_only_one_operand_cuts_stay_cut)
{
  fixture f = open_fixture();
  tsr_array *column = on(&f, TSR_SHAPE(8, 1), "x"), *row = on(&f, TSR_SHAPE(8), "y");
  tsr_array *r = binary(column, row);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8,1]@(x,-)\n"
                 "  %1 = put            f64[8]@(y)\n"
                 "  %2 = %0 + %1        f64[8,8]@(x,y)\n");
}

TEST(the_larger_operand_wins_and_ties_go_to_the_first)
{
  fixture f = open_fixture();
  tsr_array *big = on(&f, TSR_SHAPE(16, 8), "x"), *small = on(&f, TSR_SHAPE(8), "x");
  tsr_array *r = binary(small, big);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8]@(x)\n"
                 "  %1 = put            f64[16,8]@(x,-)\n"
                 "  %2 = reshard(%0)    f64[8]@(-)\n"
                 "  %3 = %2 + %1        f64[16,8]@(x,-)\n");
  r = binary(on(&f, TSR_SHAPE(8, 8), "x,-"), on(&f, TSR_SHAPE(8, 8), "-,x"));
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8,8]@(x,-)\n"
                 "  %1 = put            f64[8,8]@(-,x)\n"
                 "  %2 = reshard(%1)    f64[8,8]@(x,-)\n"
                 "  %3 = %0 + %2        f64[8,8]@(x,-)\n");
}

/* Each operand is cut once more for nothing, or moves only a part. */
TEST(operands_that_cut_one_dim_join_their_cuts)
{
  fixture f = open_fixture();
  tsr_array *r = binary(on(&f, TSR_SHAPE(8), "x"), on(&f, TSR_SHAPE(8), "y"));
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8]@(x)\n"
                 "  %1 = put            f64[8]@(y)\n"
                 "  %2 = reshard(%0)    f64[8]@(y+x)\n"
                 "  %3 = reshard(%1)    f64[8]@(y+x)\n"
                 "  %4 = %2 + %3        f64[8]@(y+x)\n");
  CHECK_I64(f.parts.notes[0].bytes, 32);
  CHECK_I64(f.parts.notes[1].bytes, 0);
}

TEST(sources_lie_where_they_are_needed)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(8, 8), "x,y");
  tsr_array *free_chain = fixture_make(TSR__OP_NEG, iota(&f, TSR_SHAPE(8)), NULL, NULL, NULL);
  tsr_array *r = binary(x, free_chain);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8,8]@(x,y)\n"
                 "  %1 = iota(dim 0)    f64[8]@(y)\n"
                 "  %2 = neg(%1)        f64[8]@(y)\n"
                 "  %3 = %0 + %2        f64[8,8]@(x,y)\n");
  CHECK_I64(f.parts.note_count, 0);
}

TEST(constraints_reach_back_to_free_producers)
{
  fixture f = open_fixture();
  tsr_array *r =
      moved(TSR__OP_CONSTRAIN, fixture_make(TSR__OP_NEG, iota(&f, TSR_SHAPE(8)), NULL, NULL, NULL),
            f.mesh, "x+y");
  partition(&f, &r, 1);
  check_text(&f, "  %0 = iota(dim 0)    f64[8]@(x+y)\n"
                 "  %1 = neg(%0)        f64[8]@(x+y)\n");
  CHECK_I64(f.parts.home[r->mark - 1], 1);
  CHECK_I64(f.parts.note_count, 0);
}

/* Dims that a constraint leaves open stay as they are, as far as the others leave their axes. */
TEST(open_dims_of_constraints_follow_their_operand)
{
  static const struct {
    const char *lies, *asked, *becomes;
    int notes;
  } rows[] = {
    { "x,y", "?,?", "f64[8,16]@(x,y)", 0 },   { "x,y", "-,?", "f64[8,16]@(-,y)", 1 },
    { "x,-", "?,y", "f64[8,16]@(x,y)", 1 },   { "x,y", "y,?", "f64[8,16]@(y,-)", 1 },
    { "x+y,-", "?,x", "f64[8,16]@(y,x)", 1 },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fixture f = open_fixture();
    char type[64];
    tsr_array *r =
        moved(TSR__OP_CONSTRAIN, on(&f, TSR_SHAPE(8, 16), rows[i].lies), f.mesh, rows[i].asked);
    partition(&f, &r, 1);
    const tsr__gnode *g = &f.parts.program.nodes[f.parts.home[r->mark - 1]];
    tsr_type_text(TSR_F64, tsr__gnode_shape(g), &f.parts.program.shardings[g->sharding], type,
                  sizeof type);
    CHECK_STR(type, rows[i].becomes);
    CHECK_I64(f.parts.note_count, rows[i].notes);
  }
}

/* A constraint behind real data: the move goes where the data is smallest. */
TEST(constraints_reach_back_to_where_moving_is_cheapest)
{
  fixture f = open_fixture();
  tsr_array *x = fixture_leaf(f.s, TSR_F32, TSR_SHAPE(8), f.mesh, "x");
  tsr_array *wide = tsr__make(f.s, TSR__OP_CAST, TSR__IN(x), &(tsr__ask){ .dtype = TSR_F64 }, NULL);
  tsr_array *r =
      moved(TSR__OP_CONSTRAIN, fixture_make(TSR__OP_NEG, wide, NULL, NULL, NULL), f.mesh, "y");
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f32[8]@(x)\n"
                 "  %1 = reshard(%0)    f32[8]@(y)\n"
                 "  %2 = cast(%1)       f64[8]@(y)\n"
                 "  %3 = neg(%2)        f64[8]@(y)\n");
  CHECK_I64(f.parts.notes[0].cause, TSR__CAUSE_PLACED);
  tsr_array *y = on(&f, TSR_SHAPE(8), "x");
  tsr_array *narrow = fixture_make(TSR__OP_ISNAN, y, NULL, NULL, NULL);
  r = moved(TSR__OP_CONSTRAIN, narrow, f.mesh, "y");
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8]@(x)\n"
                 "  %1 = isnan(%0)      bool[8]@(x)\n"
                 "  %2 = reshard(%1)    bool[8]@(y)\n");
}

/* The partials go to fewer devices where the result is to be cut anyway. */
TEST(constraints_reach_reductions)
{
  fixture f = open_fixture();
  tsr_array *sum = fixture_reduce(TSR__OP_SUM, on(&f, TSR_SHAPE(64, 64), "x"), NULL, 1, NULL);
  tsr_array *r = moved(TSR__OP_CONSTRAIN, sum, f.mesh, "y");
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put              f64[64,64]@(x,-)\n"
                 "  %1 = reshard(%0)      f64[64,64]@(x,y)\n"
                 "  %2 = sum(%1, dims 0)  f64[64]@(y)\n");
  CHECK_I64(f.parts.notes[0].bytes, 0);
  CHECK_I64(f.parts.notes[1].bytes, 64 * (24 + 8));
}

/* Of equal bytes the way that cuts the work: slices are made early, gathers late. What is evaluated
 * itself lies as its operands do. */
TEST(work_is_cut_where_that_costs_nothing)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(64, 64), "-"), *y = on(&f, TSR_SHAPE(64, 64), "x"), *r[2];
  r[0] = moved(TSR__OP_CONSTRAIN, fixture_make(TSR__OP_NEG, x, NULL, NULL, NULL), f.mesh, "y,x");
  partition(&f, r, 1);
  check_text(&f, "  %0 = put            f64[64,64]@(-,-)\n"
                 "  %1 = reshard(%0)    f64[64,64]@(y,x)\n"
                 "  %2 = neg(%1)        f64[64,64]@(y,x)\n");
  r[0] = binary(fixture_make(TSR__OP_NEG, x, NULL, NULL, NULL), y);
  partition(&f, r, 1);
  check_text(&f, "  %0 = put            f64[64,64]@(-,-)\n"
                 "  %1 = reshard(%0)    f64[64,64]@(x,-)\n"
                 "  %2 = neg(%1)        f64[64,64]@(x,-)\n"
                 "  %3 = put            f64[64,64]@(x,-)\n"
                 "  %4 = %2 + %3        f64[64,64]@(x,-)\n");
  r[0] = moved(TSR__OP_RESHARD, fixture_make(TSR__OP_NEG, y, NULL, NULL, NULL), f.mesh, "-");
  partition(&f, r, 1);
  check_text(&f, "  %0 = put            f64[64,64]@(x,-)\n"
                 "  %1 = neg(%0)        f64[64,64]@(x,-)\n"
                 "  %2 = reshard(%1)    f64[64,64]@(-,-)\n");
  r[0] = fixture_make(TSR__OP_NEG, x, NULL, NULL, NULL);
  r[1] = moved(TSR__OP_CONSTRAIN, r[0], f.mesh, "y");
  partition(&f, r, 2);
  check_text(&f, "  %0 = put            f64[64,64]@(-,-)\n"
                 "  %1 = neg(%0)        f64[64,64]@(-,-)\n"
                 "  %2 = reshard(%1)    f64[64,64]@(y,-)\n");
}

/* What the run's numbers make is made twice rather than moved. */
TEST(sources_are_made_wherever_they_are_needed)
{
  fixture f = open_fixture();
  tsr_array *number = iota(&f, TSR_SHAPE(8));
  tsr_array *r[2] = { binary(number, on(&f, TSR_SHAPE(8), "x")),
                      binary(number, on(&f, TSR_SHAPE(8), "y")) };
  partition(&f, r, 2);
  check_text(&f, "  %0 = iota(dim 0)    f64[8]@(y)\n"
                 "  %1 = put            f64[8]@(x)\n"
                 "  %2 = iota(dim 0)    f64[8]@(x)\n"
                 "  %3 = %2 + %1        f64[8]@(x)\n"
                 "  %4 = put            f64[8]@(y)\n"
                 "  %5 = %0 + %4        f64[8]@(y)\n");
  CHECK_I64(f.parts.note_count, 0);
}

/* An axis that is cut by hand is nobody's: nothing may be placed along it, and so nothing is cut by
 * it, moved along it or combined over it. */
TEST(manual_axes_are_not_touched)
{
  fixture f = open_fixture();
  tsr_array *sum = fixture_reduce(TSR__OP_SUM, on(&f, TSR_SHAPE(64, 8), "y"), NULL, 1, NULL);
  tsr_array *r = binary(sum, on(&f, TSR_SHAPE(8), "-"));
  tsr__arena arena;
  tsr__flow flow;
  CHECK_STATUS(tsr__program_trace(&f.p, &r, 1, &f.error), TSR_OK, NULL);
  tsr__arena_init(&arena, &f.rt->heap);
  CHECK_STATUS(tsr__flow_run(&f.p, (tsr__flow_opts){ .manual = 1 }, &arena, &flow, &f.error),
               TSR_OK, NULL);
  for (int n = 0; n < f.p.node_count; n++) {
    CHECK_U64(tsr__used_axes(tsr__flow_at(&flow, n)) & 1, 0);
    CHECK_U64(flow.ways[n]->meet & 1, 0);
  }
  CHECK_I64(tsr__flow_run(&f.p, (tsr__flow_opts){ .manual = 2 }, &arena, &flow, &f.error),
            TSR_EAXIS);
  CHECK_STR(f.error.text, "tsr_put: %0 is placed along axis \"y\", which is manual here; leave the "
                          "axis out of its spec");
  tsr__arena_free(&arena);
}

TEST(programs_without_a_mesh_stay_unplaced)
{
  fixture f = open_fixture();
  tsr_array *r =
      fixture_reduce(TSR__OP_SUM, binary(on(&f, TSR_SHAPE(8), NULL), iota(&f, TSR_SHAPE(8))), NULL,
                     0, NULL);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8]\n"
                 "  %1 = iota(dim 0)    f64[8]\n"
                 "  %2 = %0 + %1        f64[8]\n"
                 "  %3 = sum(%2)        f64[]\n");
  CHECK_I64(f.parts.note_count, 0);
}

/* Unplaced data stays on its device as long as it meets nothing that is placed. */
TEST(unplaced_operands_join_placed_ones_late)
{
  fixture f = open_fixture();
  tsr_array *u = on(&f, TSR_SHAPE(8), NULL), *x = on(&f, TSR_SHAPE(8), "x");
  tsr_array *mean =
      fixture_reduce(TSR__OP_MEAN, fixture_make(TSR__OP_NEG, u, NULL, NULL, NULL), NULL, 0, NULL);
  tsr_array *r = binary(x, mean);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8]@(x)\n"
                 "  %1 = put            f64[8]\n"
                 "  %2 = neg(%1)        f64[8]\n"
                 "  %3 = mean(%2)       f64[]\n"
                 "  %4 = reshard(%3)    f64[]@()\n"
                 "  %5 = %0 + %4        f64[8]@(x)\n");
  CHECK_I64(f.parts.note_count, 1);
  CHECK_I64(f.parts.notes[0].move, TSR__MOVE_BROADCAST);
  CHECK_I64(f.parts.notes[0].cause, TSR__CAUSE_UNPLACED);
  CHECK_I64(f.parts.notes[0].bytes, 7 * 8);
}

TEST(numbers_never_move)
{
  fixture f = open_fixture();
  tsr_array *r = binary(on(&f, TSR_SHAPE(8), "x"), fixture_number(f.s, TSR_F64, 3));
  partition(&f, &r, 1);
  CHECK_I64(f.parts.note_count, 0);
  CHECK_I64(f.parts.program.nodes[1].sharding, 0);
}

TEST(a_number_with_a_place_is_made_there)
{
  fixture f = open_fixture();
  tsr_array *r = moved(TSR__OP_RESHARD, fixture_number(f.s, TSR_F64, 3), f.mesh, "");
  partition(&f, &r, 1);
  CHECK_I64(f.parts.program.nodes[f.parts.home[r->mark - 1]].op, TSR__OP_FULL);
  CHECK_I64(f.parts.note_count, 0);
}

TEST(fulls_of_a_computed_number_follow_it)
{
  fixture f = open_fixture();
  tsr_array *sum = fixture_reduce(TSR__OP_SUM, on(&f, TSR_SHAPE(8), "x"), NULL, 0, NULL);
  tsr__operands in = TSR__IN(sum);
  tsr_array *r = tsr__make(f.s, TSR__OP_FULL, in,
                           &(tsr__ask){ .dtype = TSR_F64, .shape = TSR_SHAPE(5) }, NULL);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8]@(x)\n"
                 "  %1 = sum(%0)        f64[]@()\n"
                 "  %2 = full(%1)       f64[5]@(-)\n");
  tsr_array *both = binary(r, on(&f, TSR_SHAPE(5), "y"));
  partition(&f, &both, 1);
  check_text(&f, "  %0 = put            f64[8]@(x)\n"
                 "  %1 = sum(%0)        f64[]@()\n"
                 "  %2 = full(%1)       f64[5]@(y)\n"
                 "  %3 = put            f64[5]@(y)\n"
                 "  %4 = %2 + %3        f64[5]@(y)\n");
}

/* ---- reductions ---- */

TEST(reduced_dims_give_the_axes_to_combine)
{
  fixture f = open_fixture();
  static const struct {
    const char *spec;
    uint32_t dims;
    unsigned axes;
    const char *type;
  } cases[] = {
    { "x,y", 3, 3, "f64[]@()" },    { "x,y", 1, 1, "f64[64]@(y)" },
    { "x,y", 2, 2, "f64[64]@(x)" }, { "x", 2, 0, "f64[64]@(x)" },
    { "x+y", 1, 3, "f64[64]@(-)" }, { "-,y+x", 1, 0, "f64[64]@(y+x)" },
    { "-", 3, 0, "f64[]@()" },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_array *r = fixture_reduce(TSR__OP_SUM, on(&f, TSR_SHAPE(64, 64), cases[i].spec), NULL,
                                  cases[i].dims, NULL);
    char type[64];
    partition(&f, &r, 1);
    const tsr__gnode *g = &f.parts.program.nodes[1];
    CHECK_U64(g->reduce_axes, cases[i].axes);
    tsr_type_text(g->dtype, tsr__gnode_shape(g), &f.parts.program.shardings[g->sharding], type,
                  sizeof type);
    CHECK_STR(type, cases[i].type);
    CHECK_I64(f.parts.note_count, cases[i].axes != 0);
  }
}

/* Of few rows the partials would weigh more than the rows. */
TEST(short_reduced_dims_are_moved_instead)
{
  fixture f = open_fixture();
  tsr_array *r = fixture_reduce(TSR__OP_SUM, on(&f, TSR_SHAPE(8, 64), "x+y,-"), NULL, 1, NULL);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put              f64[8,64]@(x+y,-)\n"
                 "  %1 = reshard(%0)      f64[8,64]@(-,x+y)\n"
                 "  %2 = sum(%1, dims 0)  f64[64]@(x+y)\n");
}

TEST(masks_and_codes_lie_like_what_they_select)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(8), "x"),
            *m = fixture_leaf(f.s, TSR_BOOL, TSR_SHAPE(8), f.mesh, "y");
  tsr_array *codes = fixture_leaf(f.s, TSR_I32, TSR_SHAPE(8), NULL, NULL);
  tsr__operands in = TSR__IN(x, m, codes);
  tsr_array *r = tsr__make(f.s, TSR__OP_SUM, in,
                           &(tsr__ask){ TSR__ATTR(tsr__reduce_attr, .groups = 3) }, NULL);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put                                 f64[8]@(x)\n"
                 "  %1 = put                                 bool[8]@(y)\n"
                 "  %2 = put                                 i32[8]\n"
                 "  %3 = reshard(%1)                         bool[8]@(x)\n"
                 "  %4 = reshard(%2)                         i32[8]@(x)\n"
                 "  %5 = sum(%0, where %3, by %4, 3 groups)  f64[3]@(-)\n");
  CHECK_U64(f.parts.program.nodes[5].reduce_axes, 1);
}

/* ---- tables ---- */

/* Only the dim that is looked into must be whole: the other one stays cut, and the indices, which
 * are fewer bytes, come to it. */
TEST(tables_are_whole_along_the_dim_that_is_looked_into)
{
  fixture f = open_fixture();
  tsr_array *t = on(&f, TSR_SHAPE(6, 5), "x,y"),
            *i = fixture_leaf(f.s, TSR_I64, TSR_SHAPE(16), f.mesh, "y");
  tsr__operands in = TSR__IN(t, i);
  tsr_array *r = tsr__make(f.s, TSR__OP_TAKE, in, &(tsr__ask){ 0 }, NULL);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put                  f64[6,5]@(x,y)\n"
                 "  %1 = put                  i64[16]@(y)\n"
                 "  %2 = reshard(%0)          f64[6,5]@(-,y)\n"
                 "  %3 = reshard(%1)          i64[16]@(-)\n"
                 "  %4 = take(%2, %3, dim 0)  f64[16,5]@(-,y)\n");
  CHECK_I64(f.parts.notes[0].cause, TSR__CAUSE_WHOLE);
  CHECK_I64(f.parts.notes[0].move, TSR__MOVE_ALL_GATHER);
  CHECK_I64(f.parts.notes[0].bytes, 2 * 3 * 5 * 8);
}

/* ---- moves that were asked for ---- */

TEST(reshards_that_move_nothing_are_gone)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(8, 1), "x"), *r = moved(TSR__OP_RESHARD, x, f.mesh, "x,-");
  r = moved(TSR__OP_CONSTRAIN, r, f.mesh, "x");
  partition(&f, &r, 1);
  CHECK_I64(f.parts.program.node_count, 1);
  CHECK_I64(f.parts.home[r->mark - 1], 0);
  CHECK_I64(f.parts.program.nodes[0].flags & TSR__ROOT, TSR__ROOT);
}

TEST(equal_moves_are_made_once)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(8), "x"), *y = on(&f, TSR_SHAPE(8), "y");
  tsr_array *r[3] = { binary(x, y), fixture_make(TSR__OP_MUL, x, y, NULL, NULL),
                      moved(TSR__OP_RESHARD, y, f.mesh, "x") };
  partition(&f, r, 3);
  CHECK_I64(f.parts.note_count, 1);
  CHECK_I64(f.parts.program.node_count, 5);
}

/* ---- meshes ---- */

TEST(operands_on_two_meshes_meet_on_the_larger_ones)
{
  fixture f = open_fixture();
  tsr_mesh *other = tsr_mesh_make(f.rt, "d=8");
  tsr_array *a = on(&f, TSR_SHAPE(8), "x"),
            *b = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(4, 8), other, "-,d");
  tsr_array *r = binary(a, b);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8]@(x)\n"
                 "  %1 = put            f64[4,8]@(-,d)\n"
                 "  %2 = reshard(%0)    f64[8]@(d)\n"
                 "  %3 = %2 + %1        f64[4,8]@(-,d)\n");
  CHECK_I64(f.parts.notes[0].cause, TSR__CAUSE_MESH);
}

/* The same parts at the same positions need no move, whatever the axes are called. */
TEST(equal_places_on_two_meshes_are_one_place)
{
  fixture f = open_fixture();
  tsr_mesh *other = tsr_mesh_make(f.rt, "d=8");
  tsr_array *a = on(&f, TSR_SHAPE(8), "x+y"),
            *b = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), other, "d");
  tsr_array *r = binary(a, b);
  partition(&f, &r, 1);
  CHECK_I64(f.parts.note_count, 0);
  tsr_mesh_opts opts = { .size = sizeof opts,
                         .axis_count = 1,
                         .names = { "d" },
                         .sizes = { 8 },
                         .devices = (const int[]){ 1, 0, 2, 3, 4, 5, 6, 7 } };
  tsr_mesh *turned = tsr_mesh_make_with(f.rt, &opts);
  r = binary(a, fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), turned, "d"));
  partition(&f, &r, 1);
  CHECK_I64(f.parts.notes[0].move, TSR__MOVE_PERMUTE);
  CHECK_I64(f.parts.notes[0].bytes, 2 * 8);
}

TEST(different_devices_are_an_error)
{
  fixture f = open_fixture();
  tsr_mesh *half = tsr_mesh_make(f.rt, "h=4");
  tsr_array *r =
      binary(on(&f, TSR_SHAPE(8), "x"), fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), half, "h"));
  CHECK_I64(try_partition(&f, &r, 1), TSR_EAXIS);
  CHECK_STR(
      f.error.text,
      "tsr_add: f64[8]@(h) on mesh (h=4) is needed as f64[8]@(x) on mesh (x=2,y=4), but the meshes "
      "have different devices; place both arrays on the same devices\n    used at a.c:1");
}

/* ---- rows ---- */

TEST(filters_keep_rows_where_they_are)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(16, 4), "y"),
            *m = fixture_leaf(f.s, TSR_BOOL, TSR_SHAPE(16), f.mesh, "y");
  tsr_array *kept = fixture_make(TSR__OP_COMPACT, x, m, NULL, NULL);
  tsr_array *r[2] = { fixture_reduce(TSR__OP_SUM, kept, NULL, 0, NULL),
                      fixture_make(TSR__OP_REBALANCE, kept, NULL, NULL, NULL) };
  partition(&f, r, 2);
  check_text(&f, "  %0 = put              f64[16,4]@(y,-)\n"
                 "  %1 = put              bool[16]@(y)\n"
                 "  %2 = compact(%0, %1)  f64[?,4]@(y,-)\n"
                 "  %3 = sum(%2)          f64[]@()\n"
                 "  %4 = rebalance(%2)    f64[?,4]@(y,-)\n");
  CHECK_I64(f.parts.note_count, 2);
  CHECK_I64(f.parts.notes[1].move, TSR__MOVE_ROWS);
}

TEST(filtered_rows_cannot_be_moved_as_they_are)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(16), "y"),
            *m = fixture_leaf(f.s, TSR_BOOL, TSR_SHAPE(16), f.mesh, "y");
  tsr_array *kept = fixture_make(TSR__OP_COMPACT, x, m, NULL, NULL);
  tsr_array *r = moved(TSR__OP_RESHARD, kept, f.mesh, "x");
  CHECK_I64(try_partition(&f, &r, 1), TSR_EUNSUPPORTED);
  CHECK_STR_HAS(f.error.text, "uneven rows after a filter and is needed as f64[?]@(x)");
  tsr_array *even = fixture_make(TSR__OP_REBALANCE, kept, NULL, NULL, NULL);
  r = moved(TSR__OP_RESHARD, even, f.mesh, "x");
  partition(&f, &r, 1);
  r = binary(kept, even);
  CHECK_I64(try_partition(&f, &r, 1), TSR_ESHAPE);
}

/* ---- the ladder ---- */

TEST(moves_are_named_by_the_ladder)
{
  fixture f = open_fixture();
  tsr_mesh *other = tsr_mesh_make(f.rt, "a=4,b=2");
  static const struct {
    const char *from, *to;
    int move;
    unsigned axes;
    int64_t bytes; /* of f64[8,8], counted by hand; each device holds 8 bytes an element */
  } cases[] = {
    { "-", "x,y", TSR__MOVE_SLICE, 0, 0 },
    { "x", "x,y", TSR__MOVE_SLICE, 0, 0 },
    { "x", "x+y", TSR__MOVE_SLICE, 0, 0 },
    { "x,y", "-", TSR__MOVE_ALL_GATHER, 3, 8 * 56 * 8 },
    { "x,y", "x", TSR__MOVE_ALL_GATHER, 2, 8 * 24 * 8 },
    { "x+y", "x", TSR__MOVE_ALL_GATHER, 2, 8 * 24 * 8 },
    { "x", "-,y", TSR__MOVE_ALL_GATHER, 1, 8 * 8 * 8 },
    { "x", "-,x", TSR__MOVE_ALL_TO_ALL, 1, 8 * 16 * 8 },
    { "x,y", "y,x", TSR__MOVE_ALL_TO_ALL, 3, -1 },
    { "x+y", "y+x", TSR__MOVE_PERMUTE, 3, -1 },
    { NULL, "x,y", TSR__MOVE_BROADCAST, 3, 7 * 8 * 8 },
    { NULL, "-", TSR__MOVE_BROADCAST, 3, 7 * 64 * 8 },
  };
  tsr_shape shape = TSR_SHAPE(8, 8);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_sharding from = { .mesh = NULL }, to = tsr_on(f.mesh, cases[i].to);
    if (cases[i].from) from = tsr_on(f.mesh, cases[i].from);
    from = tsr__sharding_canon(&from);
    to = tsr__sharding_canon(&to);
    unsigned axes;
    CHECK_I64(tsr__reshard_move(&from, &to, &shape, &axes), cases[i].move);
    CHECK_U64(axes, cases[i].axes);
    int64_t bytes = tsr__reshard_bytes(&from, &to, TSR_F64, &shape);
    if (cases[i].bytes >= 0) CHECK_I64(bytes, cases[i].bytes);
    CHECK_I64(bytes, 8 * check_reshard(&from, &to, &shape));
  }
  unsigned axes;
  tsr_sharding from = tsr_on(f.mesh, "x,y"), to = tsr_on(other, "a,b");
  CHECK_I64(tsr__reshard_move(&from, &to, &shape, &axes), TSR__MOVE_REMATERIALISE);
  to = tsr_on(other, "b,a");
  CHECK_I64(tsr__reshard_move(&from, &to, &shape, &axes), TSR__MOVE_PERMUTE);
}

TEST(bools_move_as_bits)
{
  tsr_box box = { .size = { 3, 3 } };
  CHECK_I64(tsr__piece_bytes(TSR_BOOL, 2, &box), 2);
  CHECK_I64(tsr__piece_bytes(TSR_BOOL, 1, &box), 1);
  CHECK_I64(tsr__piece_bytes(TSR_BOOL, 0, &box), 1);
  CHECK_I64(tsr__piece_bytes(TSR_F32, 2, &box), 36);
}

/* ---- notes ---- */

TEST(reductions_of_a_stage_travel_together)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(8, 8), "x,y"), *m = fixture_make(TSR__OP_GT, x, x, NULL, NULL);
  tsr_array *r[5] = {
    fixture_reduce(TSR__OP_SUM, x, NULL, 0, NULL), fixture_reduce(TSR__OP_MEAN, x, m, 0, NULL),
    fixture_reduce(TSR__OP_MAX, x, NULL, 0, NULL), fixture_reduce(TSR__OP_MEAN, x, NULL, 0, NULL),
    fixture_reduce(TSR__OP_SUM, x, NULL, 1, NULL),
  };
  partition(&f, r, 5);
  CHECK_I64(f.parts.note_count, 2);
  /* sum and mean share one of 276; the masked mean has 276 and a count of 8; max 8; four results */
  CHECK_I64(f.parts.notes[0].accums, 4);
  CHECK_I64(f.parts.notes[0].bytes, 7 * (276 + 276 + 8 + 8 + 4 * 8));
  /* along x only: 4 groups of 2, each with 2 sums of 24 bytes and 2 results */
  CHECK_I64(f.parts.notes[1].axes, 1);
  CHECK_I64(f.parts.notes[1].bytes, 4 * (2 * 24 + 2 * 8));
}

/* Replicas do their own: sharded over x, combined over x, four times. */
TEST(replicated_axes_multiply_the_groups)
{
  fixture f = open_fixture();
  tsr_array *r = fixture_reduce(TSR__OP_ANY, on(&f, TSR_SHAPE(9), "x"), NULL, 0, NULL);
  partition(&f, &r, 1);
  CHECK_I64(f.parts.notes[0].bytes, 4 * (1 + 1));
}

/* ---- the same on every process, and short of memory ---- */

static void check_each_process(const char *mesh)
{
  tsr__partitioned plans[2];
  for (int index = 0; index < 2; index++) {
    fixture f = { .rt = fixture_devices("cpu:4") };
    CHECK(tsr__topology_spread(f.rt, 2, index));
    f.mesh = tsr_mesh_make(f.rt, mesh);
    f.s = tsr_scope_open(f.rt);
    tsr__program_init(&f.p, &f.rt->heap);
    tsr_array *x = on(&f, TSR_SHAPE(10, 9), "x,y"), *y = on(&f, TSR_SHAPE(10, 9), "y");
    tsr_array *r = fixture_reduce(TSR__OP_SUM, binary(binary(x, y), on(&f, TSR_SHAPE(9), NULL)),
                                  NULL, 2, NULL);
    partition(&f, &r, 1);
    plans[index] = f.parts;
  }
  const tsr__program *a = &plans[0].program, *b = &plans[1].program;
  CHECK_I64(a->node_count, b->node_count);
  CHECK_BYTES(a->nodes, b->nodes, (size_t)a->node_count * sizeof *a->nodes);
  CHECK_I64(a->sharding_count, b->sharding_count);
  for (int i = 1; i < a->sharding_count; i++) {
    CHECK_I64(a->shardings[i].mesh->id, b->shardings[i].mesh->id);
    CHECK_BYTES(a->shardings[i].first, b->shardings[i].first, TSR_MAX_RANK + 1 + TSR_MAX_AXES);
  }
  CHECK_I64(plans[0].note_count, plans[1].note_count);
  for (int i = 0; i < plans[0].note_count; i++) {
    CHECK_I64(plans[0].notes[i].bytes, plans[1].notes[i].bytes);
    CHECK_I64(plans[0].notes[i].move, plans[1].notes[i].move);
    CHECK_STR(plans[0].notes[i].cheaper, plans[1].notes[i].cheaper);
    CHECK_BYTES(plans[0].notes[i].along, plans[1].notes[i].along, sizeof plans[0].notes[i].along);
  }
}

TEST(plans_are_the_same_in_every_process)
{
  check_each_process("x=2,y=4");
  check_each_process("x=2@10,y=4@300");
}

static void check_no_memory(const char *mesh)
{
  fixture f = open_fixture();
  f.mesh = tsr_mesh_make(f.rt, mesh);
  tsr_array *x = on(&f, TSR_SHAPE(8, 8), "x,y"), *y = on(&f, TSR_SHAPE(8, 8), "y,x");
  x = binary(x, on(&f, TSR_SHAPE(8, 8), "-,x:p1"));
  tsr_array *r = fixture_reduce(TSR__OP_MEAN, binary(x, y), NULL, 0, NULL);
  CHECK_STATUS(tsr__program_trace(&f.p, &r, 1, &f.error), TSR_OK, NULL);
  for (int64_t fail = 1, done = 0; !done; fail++) {
    struct test_alloc state = { .fail_at = fail };
    tsr_allocator allocator = test_allocator(&state);
    tsr__heap heap;
    tsr__heap_init(&heap, &allocator);
    tsr__error error = { .status = TSR_OK };
    tsr_status status = tsr__partition(&f.p, &heap, &f.parts, &error);
    CHECK(status == TSR_OK || status == TSR_ENOMEM);
    done = state.count < fail;
    if (!status) tsr__partitioned_free(&f.parts, &heap);
    CHECK_I64(state.live, 0);
  }
}

TEST(no_memory_is_an_error_and_leaks_nothing)
{
  check_no_memory("x=2,y=4");
  check_no_memory("x=2@10,y=4@300");
}

TEST_TIMEOUT(deep_programs_are_partitioned_without_recursion, 30)
{
  fixture f = open_fixture();
  tsr_array *a = on(&f, TSR_SHAPE(8), "x");
  for (int i = 0; i < 100000; i++) a = fixture_make(TSR__OP_NEG, a, NULL, NULL, NULL);
  CHECK_I64(try_partition(&f, &a, 1), TSR_OK);
  CHECK_I64(f.parts.program.node_count, 100001);
}

/* A large table stays where it is; whoever has an entry gives it to the others. */
TEST(large_tables_are_looked_into_where_they_lie)
{
  fixture f = open_fixture();
  tsr_array *t = on(&f, TSR_SHAPE(600, 5), "x,y"),
            *i = fixture_leaf(f.s, TSR_I64, TSR_SHAPE(16), f.mesh, "-");
  tsr__operands in = TSR__IN(t, i);
  tsr_array *r = tsr__make(f.s, TSR__OP_TAKE, in, &(tsr__ask){ 0 }, NULL);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put                  f64[600,5]@(x,y)\n"
                 "  %1 = put                  i64[16]@(-)\n"
                 "  %2 = take(%0, %1, dim 0)  f64[16,5]@(-,y)\n");
  CHECK_I64(f.parts.note_count, 1);
  CHECK_I64(f.parts.notes[0].cause, TSR__CAUSE_JOINED);
  CHECK_I64(f.parts.notes[0].move, TSR__MOVE_LOOK);
  CHECK_I64(f.parts.notes[0].bytes, 16 * 5 * 8);
}

/* ---- priorities ---- */

static tsr_array *product(tsr_array *a, tsr_array *b)
{
  const tsr__ask ask = {
    .dtype = TSR_F64, TSR__ATTR(tsr__dot_attr, .left = { 1, 2 }, .right = { 2, 3 }, .out = { 1, 3 })
  };
  return tsr__make(a->node.scope, TSR__OP_DOT, TSR__IN(a, b), &ask, "a.c:4");
}

/* Weights of which each device keeps a part: bytes alone would move the batch. */
TEST(what_is_ranked_first_decides_before_bytes)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(16, 64), "x,-");
  tsr_array *r = product(x, on(&f, TSR_SHAPE(64, 128), "x,y"));
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put                      f64[16,64]@(x,-)\n"
                 "  %1 = put                      f64[64,128]@(x,y)\n"
                 "  %2 = reshard(%0)              f64[16,64]@(-,x)\n"
                 "  %3 = dot(%2, %1, ab,bc->dac)  f64[2,16,128]@(x,-,y)\n"
                 "  %4 = reshard(%3)              f64[2,16,128]@(-,-,y+x)\n"
                 "  %5 = fold(%4, dims 0)         f64[16,128]@(-,y+x)\n"
                 "  %6 = reshard(%5)              f64[16,128]@(-,y)\n");
  r = product(x, on(&f, TSR_SHAPE(64, 128), "x:p1,y"));
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put                     f64[16,64]@(x,-)\n"
                 "  %1 = put                     f64[64,128]@(x,y)\n"
                 "  %2 = reshard(%1)             f64[64,128]@(-,y)\n"
                 "  %3 = dot(%0, %2, ab,bc->ac)  f64[16,128]@(x,y)\n");
}

TEST(what_comes_after_is_claimed_like_what_came_before)
{
  fixture f = open_fixture();
  tsr_array *y = on(&f, TSR_SHAPE(8), "x:p1");
  tsr_array *r =
      moved(TSR__OP_CONSTRAIN, fixture_make(TSR__OP_ISNAN, y, NULL, NULL, NULL), f.mesh, "y");
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8]@(x)\n"
                 "  %1 = reshard(%0)    f64[8]@(y+x)\n"
                 "  %2 = isnan(%1)      bool[8]@(y+x)\n"
                 "  %3 = reshard(%2)    bool[8]@(y)\n");
}

TEST(claims_pass_elements_before_products)
{
  fixture f = open_fixture();
  tsr_array *a = on(&f, TSR_SHAPE(64, 4), "x,-"), *b = on(&f, TSR_SHAPE(4, 64), "y:p1"),
            *c = on(&f, TSR_SHAPE(64, 64), "-,x");
  tsr_array *r = binary(fixture_make(TSR__OP_NEG, product(a, b), NULL, NULL, NULL), c);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put                     f64[64,4]@(x,-)\n"
                 "  %1 = put                     f64[4,64]@(y,-)\n"
                 "  %2 = reshard(%0)             f64[64,4]@(y,-)\n"
                 "  %3 = reshard(%1)             f64[4,64]@(-,x)\n"
                 "  %4 = dot(%2, %3, ab,bc->ac)  f64[64,64]@(y,x)\n"
                 "  %5 = neg(%4)                 f64[64,64]@(y,x)\n"
                 "  %6 = put                     f64[64,64]@(-,x)\n"
                 "  %7 = reshard(%6)             f64[64,64]@(y,x)\n"
                 "  %8 = %5 + %7                 f64[64,64]@(y,x)\n");
}

TEST(claims_take_the_longest_cut_that_agrees)
{
  fixture f = open_fixture();
  tsr_array *r = binary(on(&f, TSR_SHAPE(8, 8), "x,-"), on(&f, TSR_SHAPE(8, 8), "x+y,-"));
  r = binary(r, on(&f, TSR_SHAPE(8, 8), "-,y:p1"));
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8,8]@(x,-)\n"
                 "  %1 = put            f64[8,8]@(x+y,-)\n"
                 "  %2 = reshard(%0)    f64[8,8]@(x+y,-)\n"
                 "  %3 = %2 + %1        f64[8,8]@(x+y,-)\n"
                 "  %4 = put            f64[8,8]@(-,y)\n"
                 "  %5 = reshard(%4)    f64[8,8]@(x+y,-)\n"
                 "  %6 = %3 + %5        f64[8,8]@(x+y,-)\n");
}

TEST(of_equal_ranks_the_larger_claims)
{
  fixture f = open_fixture();
  tsr_array *r = binary(on(&f, TSR_SHAPE(8), "x"), on(&f, TSR_SHAPE(16, 8), "x,-"));
  r = binary(r, on(&f, TSR_SHAPE(16, 8), "-,y:p2"));
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put            f64[8]@(x)\n"
                 "  %1 = put            f64[16,8]@(x,-)\n"
                 "  %2 = reshard(%0)    f64[8]@(y)\n"
                 "  %3 = reshard(%1)    f64[16,8]@(x,y)\n"
                 "  %4 = %2 + %3        f64[16,8]@(x,y)\n"
                 "  %5 = put            f64[16,8]@(-,y)\n"
                 "  %6 = reshard(%5)    f64[16,8]@(x,y)\n"
                 "  %7 = %4 + %6        f64[16,8]@(x,y)\n");
}

TEST(claimed_dims_are_not_moved_to_be_reduced)
{
  fixture f = open_fixture();
  tsr_array *r = fixture_reduce(TSR__OP_SUM, on(&f, TSR_SHAPE(4, 1000), "x,y"), NULL, 1, NULL);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put              f64[4,1000]@(x,y)\n"
                 "  %1 = reshard(%0)      f64[4,1000]@(-,y+x)\n"
                 "  %2 = sum(%1, dims 0)  f64[1000]@(y+x)\n");
  r = fixture_reduce(TSR__OP_SUM, on(&f, TSR_SHAPE(4, 1000), "x,y:p1"), NULL, 1, NULL);
  partition(&f, &r, 1);
  check_text(&f, "  %0 = put              f64[4,1000]@(x,y)\n"
                 "  %1 = sum(%0, dims 0)  f64[1000]@(y)\n");
}
