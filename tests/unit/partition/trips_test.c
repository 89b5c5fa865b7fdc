/* What is ready at once and goes over the same axes is one collective: how many each program takes,
 * and that the explanation names what they carry. */
#include "harness.h"

#include <string.h>

#include "tessera.h"

enum { MOST = 8 };

/* What a program is made of and what it makes. */
typedef struct made {
  tsr_scope *s;
  tsr_mesh *mesh;
  tsr_array *root[MOST];
  int count;
} made;

static tsr_array *leaf(made *m, tsr_shape shape, const char *spec)
{
  tsr_sharding on = spec ? tsr_on(m->mesh, spec) : (tsr_sharding){ .mesh = NULL };
  tsr_array *a = tsr_add(tsr_iota(m->s, TSR_F32, shape, 0, on), tsr_num(m->s, m->count));
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, m->s);
  return a;
}

static tsr_array *on(made *m, tsr_array *a, const char *spec)
{
  return tsr_reshard(a, tsr_on(m->mesh, spec));
}

static void give(made *m, tsr_array *a)
{
  m->root[m->count++] = a;
}

/* ---- the programs ---- */

static void three_reductions(made *m)
{
  give(m, tsr_sum(leaf(m, TSR_SHAPE(8), "x")));
  give(m, tsr_mean(leaf(m, TSR_SHAPE(16, 3), "x")));
  give(m, tsr_max(leaf(m, TSR_SHAPE(5, 8), "-,x")));
}

static void reductions_over_other_axes(made *m)
{
  give(m, tsr_sum(leaf(m, TSR_SHAPE(8), "x")));
  give(m, tsr_sum(leaf(m, TSR_SHAPE(8), "y")));
  give(m, tsr_sum(leaf(m, TSR_SHAPE(8, 2), "y")));
}

static void three_gathers(made *m)
{
  give(m, on(m, leaf(m, TSR_SHAPE(8), "x"), "-"));
  give(m, on(m, leaf(m, TSR_SHAPE(3, 8), "-,x"), "-"));
  give(m, on(m, tsr_exp(leaf(m, TSR_SHAPE(9), "x")), "-"));
}

static void gathers_over_other_axes(made *m)
{
  give(m, on(m, leaf(m, TSR_SHAPE(8, 8), "x,y"), "-,y"));
  give(m, on(m, leaf(m, TSR_SHAPE(8, 8), "x,y"), "x"));
}

static void a_gather_and_an_exchange(made *m)
{
  give(m, on(m, leaf(m, TSR_SHAPE(8, 8), "x"), "-"));
  give(m, on(m, leaf(m, TSR_SHAPE(8, 8), "x"), "-,x"));
  give(m, on(m, leaf(m, TSR_SHAPE(16, 8), "x"), "-,x"));
}

static void operands_of_one(made *m)
{
  tsr_array *a = leaf(m, TSR_SHAPE(8, 8), "x"), *b = leaf(m, TSR_SHAPE(8, 8), "x");
  give(m, tsr_matmul(on(m, a, "-"), on(m, b, "-")));
}

static void one_after_the_other(made *m)
{
  tsr_array *a = on(m, leaf(m, TSR_SHAPE(8, 8), "x"), "-");
  give(m, on(m, tsr_exp(tsr_constrain(tsr_exp(a), tsr_on(m->mesh, "x"))), "-"));
}

static void what_can_wait(made *m)
{
  tsr_array *early = on(m, leaf(m, TSR_SHAPE(8), "x"), "-");
  tsr_array *first = on(m, leaf(m, TSR_SHAPE(16), "x"), "-");
  tsr_array *late = on(m, tsr_cumsum(tsr_add(tsr_sum(first), leaf(m, TSR_SHAPE(8), "x")), 0), "-");
  give(m, tsr_mul(late, early));
}

static void what_cannot_wait(made *m)
{
  tsr_array *early = on(m, leaf(m, TSR_SHAPE(8), "x"), "-");
  tsr_array *b = tsr_add(leaf(m, TSR_SHAPE(8), "x"), tsr_sum(tsr_exp(early)));
  give(m, tsr_mul(on(m, b, "-"), early));
}

static void routines_between(made *m)
{
  for (int i = 0; i < 3; i++) {
    tsr_array *a = tsr_sort(on(m, leaf(m, TSR_SHAPE(8, 6), "x"), "-,x"), 0);
    give(m, tsr_sort(on(m, a, "x"), 1));
  }
}

static void neighbours(made *m)
{
  give(m, tsr_roll(leaf(m, TSR_SHAPE(16), "x"), 1, 0));
  give(m, tsr_roll(leaf(m, TSR_SHAPE(8, 3), "x"), 2, 0));
}

static void joined_with_placed(made *m)
{
  tsr_array *a = leaf(m, TSR_SHAPE(8), "x");
  give(m, tsr_add(tsr_add(a, leaf(m, TSR_SHAPE(8), NULL)), leaf(m, TSR_SHAPE(8), NULL)));
}

static void scattered_sums(made *m)
{
  for (int i = 0; i < 2; i++) {
    tsr_array *a = tsr_sum(leaf(m, TSR_SHAPE(8, 16), "x"), .dims = TSR_DIMS(0));
    give(m, tsr_constrain(a, tsr_on(m->mesh, "x")));
  }
}

/* Over x first and last, over y between: the first is read by nobody. */
static void a_loss_waits(made *m)
{
  tsr_array *slope = tsr_mul(leaf(m, TSR_SHAPE(8), "x"), tsr_sum(leaf(m, TSR_SHAPE(8, 8), "y")));
  give(m, tsr_mean(leaf(m, TSR_SHAPE(16), "x")));
  give(m, tsr_var(leaf(m, TSR_SHAPE(16), "x")));
  give(m, tsr_sum(slope));
}

/* Its reader has to wait as well: it runs in a stage after that. */
static void a_sum_waits_for_its_reader(made *m)
{
  tsr_array *early = tsr_sum(leaf(m, TSR_SHAPE(8), "x"));
  tsr_array *late = tsr_mul(leaf(m, TSR_SHAPE(8), "x"), tsr_sum(leaf(m, TSR_SHAPE(8), "y")));
  give(m, tsr_mul(early, tsr_sum(late)));
}

static void what_is_read_between(made *m)
{
  tsr_array *early = tsr_sum(leaf(m, TSR_SHAPE(8), "x")), *other = leaf(m, TSR_SHAPE(8), "y");
  tsr_array *late = tsr_mul(leaf(m, TSR_SHAPE(8), "x"), tsr_sum(other));
  give(m, tsr_sum(tsr_mul(other, early)));
  give(m, tsr_sum(late));
}

static void scattered_sums_wait(made *m)
{
  tsr_sharding cut = tsr_on(m->mesh, "x");
  tsr_array *late = tsr_mul(leaf(m, TSR_SHAPE(64, 16), "x"), tsr_sum(leaf(m, TSR_SHAPE(8), "y")));
  give(m, tsr_constrain(tsr_sum(leaf(m, TSR_SHAPE(32, 16), "x"), .dims = TSR_DIMS(0)), cut));
  give(m, tsr_constrain(tsr_sum(late, .dims = TSR_DIMS(0)), cut));
  give(m, tsr_sum(leaf(m, TSR_SHAPE(9), "x"))); /* of another kind */
}

/* What is left unreduced meets with others where it is needed. */
static void kept_sums_meet(made *m)
{
  tsr_sharding left = tsr_on(m->mesh, "-;sum(x)");
  tsr_array *kept =
      tsr_constrain(tsr_sum(leaf(m, TSR_SHAPE(8, 3), "x"), .dims = TSR_DIMS(0)), left);
  give(m, tsr_add(tsr_slice(kept, TSR_RANGE(0, 2)), 1));
  give(m, tsr_sum(leaf(m, TSR_SHAPE(9), "x")));
}

TEST(golden_counts)
{
  static const struct {
    void (*make)(made *m);
    int collectives;
  } rows[] = {
    { three_reductions, 1 },
    { reductions_over_other_axes, 2 },
    { three_gathers, 1 },
    { gathers_over_other_axes, 2 },
    { a_gather_and_an_exchange, 2 },
    { operands_of_one, 1 },
    { one_after_the_other, 2 },
    { what_can_wait, 2 },
    { what_cannot_wait, 2 },
    { routines_between, 2 },
    { neighbours, 1 },
    { joined_with_placed, 1 },
    { scattered_sums, 1 },
    { a_loss_waits, 2 },
    { a_sum_waits_for_its_reader, 2 },
    { what_is_read_between, 4 },
    { scattered_sums_wait, 3 },
    { kept_sums_meet, 1 },
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    made m = { .s = tsr_scope_open(rt), .mesh = tsr_mesh_make(rt, "x=4,y=2") };
    rows[i].make(&m);
    CHECK_STATUS(tsr_eval(m.root, m.count), TSR_OK, m.s);
    CHECK_STATUS(tsr_eval(m.root, m.count), TSR_OK, m.s);
    tsr_run_stats all = tsr_last_run(m.s);
    if (all.collectives != rows[i].collectives)
      FAIL("row %zu: %d collectives, expected %d", i, all.collectives, rows[i].collectives);
    CHECK_I64(all.bytes_counted, all.bytes_explained + all.bytes_escaped);
    tsr_scope_close(m.s);
  }
  tsr_runtime_close(rt);
}

/* One collective, all that it carries below it. */
TEST(explanations_name_what_is_carried)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  made m = { .s = tsr_scope_open(rt), .mesh = tsr_mesh_make(rt, "x=4,y=2") };
  tsr_sharding whole = tsr_on(m.mesh, "-");
  tsr_array *a = leaf(&m, TSR_SHAPE(8), "x"), *b = leaf(&m, TSR_SHAPE(12), "x");
  tsr_array *root[2] = { tsr_reshard_at(a, whole, "a.c:1"), tsr_reshard_at(b, whole, "a.c:2") };
  CHECK_STR(tsr_explain(root, 2),
            "all-gather over x=4: 480 bytes\n"
            "    %0 f32[8]@(x) -> %1 f32[8]@(-), because reshard at a.c:1 asks for this\n"
            "        sharding\n"
            "    cheaper: put %0 with spec - (0 bytes)\n"
            "    %2 f32[12]@(x) -> %3 f32[12]@(-), because reshard at a.c:2 asks for this\n"
            "        sharding\n"
            "    cheaper: put %2 with spec - (0 bytes)\n");
  for (int i = 0; i < 2; i++)
    root[i] =
        tsr_max_at(&(tsr_reduce_args){ .size = sizeof(tsr_reduce_args), .x = i ? b : a }, "a.c:3");
  const char *text = tsr_explain(root, 2);
  CHECK_STR_HAS(text,
                "    because max at a.c:3 reduces sharded dims of %0 f32[8]@(x) and max at a.c:3\n"
                "        those of %2 f32[12]@(x); 2 partial results travel together\n");
  tsr_runtime_close(rt);
}
