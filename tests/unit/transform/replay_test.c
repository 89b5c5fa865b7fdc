/* Replaying what was traced: the same nodes again have the same values, whatever they are. */
#include <string.h>

#include "harness.h"
#include "tessera.h"
#include "transform/transform.h"

/* A body that is another function's: its nodes made again. */
static tsr_array *again(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr__arguments a = { .in = { in, 2 } };
  tsr__replay replay;
  for (int i = 0; i < 2; i++)
    if (!tsr__leaves_of(&s->arena, in[i], &a.leaves)) return NULL;
  const tsr__traced *t = tsr__trace(s, user, &a, TSR_HERE);
  if (!t || !tsr__replay_open(&replay, s, t, a.leaves.at, TSR_HERE)) return NULL;
  /* Those without operands one by one, the others behind them. */
  for (int n = 0; n < replay.program->node_count; n++)
    if (!replay.at[n] && !replay.program->nodes[n].in_count)
      replay.at[n] = tsr__replay_make(&replay, n, TSR__IN_NONE);
  tsr__replay_through(&replay);
  tsr_array *results[4];
  for (int i = 0; i < t->region->result_count; i++) results[i] = replay.at[replay.results[i]];
  return tsr__form_fill(s, t->form, results, TSR_HERE);
}

/* Numbers, several results, attributes, sharded constraints, an array from outside, regions. */
static tsr_array *inner(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_cumsum(tsr_sub(tsr_flip(in[0], TSR_DIMS(0)), 0.5), 0);
}

typedef struct outside {
  tsr_array *table;
  tsr_mesh *mesh;
  tsr_function *inner;
} outside;

static tsr_array *many(tsr_scope *s, tsr_array *const *in, void *user)
{
  outside *o = user;
  tsr_array *w = tsr_field(in[0], "w"), *top;
  tsr_array *x = tsr_constrain(tsr_matmul(in[1], w), tsr_on(o->mesh, "x"));
  tsr_array *places = tsr_argmax(x, .dims = TSR_DIMS(1));
  tsr_array *draws = tsr_uniform(s, .key = 7, .shape = TSR_SHAPE(4));
  top = tsr_sort(tsr_add(tsr_take(o->table, places, 0), draws), 0);
  return tsr_tuple(s, tsr_call(o->inner, x), top, tsr_sum(x, .dims = TSR_DIMS(0)), w);
}

TEST(what_is_replayed_has_the_same_values)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  outside o = { .mesh = tsr_mesh_make(rt, "x=2,y=2") };
  tsr_array *a = tsr_mod(tsr_arange(s, .stop = 24), 7);
  o.table = tsr_put(s, (double[]){ 3, 1, 4, 1 }, TSR_F64, TSR_SHAPE(4), tsr_on(o.mesh, "y"));
  o.inner = tsr_function_make(s, inner);
  tsr_function *f = tsr_function_make(s, many, .user = &o);
  tsr_function *g = tsr__function_new(s, again, f, "again", TSR_HERE);
  tsr_array *w = tsr_tree(s, { "w", tsr_reshape(a, TSR_SHAPE(6, 4)) });
  tsr_array *x = tsr_reshape(a, TSR_SHAPE(4, 6));
  tsr_array *want = tsr_call(f, w, x), *found = tsr_call(g, w, x);
  CHECK_STR(tsr_tree_text(found), "(*, *, *, *)");
  for (int i = 0; i < 4; i++) {
    double one[24], other[24];
    size_t bytes = i == 0 ? 16 * sizeof *one : i == 3 ? 24 * sizeof *one : 4 * sizeof *one;
    CHECK_STATUS(tsr_read(tsr_item(want, i), one, bytes), TSR_OK, s);
    CHECK_STATUS(tsr_read(tsr_item(found, i), other, bytes), TSR_OK, s);
    CHECK_BYTES(one, other, bytes);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
