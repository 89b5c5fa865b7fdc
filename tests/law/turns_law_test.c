/* The law of turns: a loop whose steps have a scope each holds as much after its hundredth turn as
 * after its third on devices, and as after its tenth on the host, in every form that the README,
 * the guide and the examples show; and where an array stands in trees, or is kept, shows in none of
 * it. What a tree names it does not hold: arrays of models and of what optimisers keep are deleted
 * and donated as others are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "harness.h"
#include "tessera.h"

enum { TURNS = 100, SIDE = 256, BYTES = SIDE * SIDE * 4 };

typedef struct loop {
  tsr_runtime *rt;
  tsr_mesh *mesh;
  tsr_scope *s, *here;
  tsr_array *state, *x;
  tsr_function *slope;
  tsr_pipeline *p;
  int turn;
} loop;

static int64_t on_devices(const loop *l)
{
  int64_t bytes = 0;
  for (int d = 0; d < tsr_device_count(l->rt); d++) bytes += tsr_device_memory(l->rt, d).now;
  return bytes;
}

static int64_t on_host(const loop *l)
{
  return atomic_load(&l->rt->heap.used);
}

/* ---- a model that learns --------------------------------------------------------------------- */

static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *y = tsr_add(tsr_matmul(in[1], tsr_field(in[0], "w")), tsr_field(in[0], "b"));
  return tsr_mean(tsr_square(y));
}

static void begin(loop *l)
{
  tsr_sharding whole = tsr_on(l->mesh, "");
  tsr_array *w = tsr_initial(l->s, TSR_HE, TSR_INITIAL_NORMAL, .key = 1, .dtype = TSR_F32,
                             .shape = TSR_SHAPE(SIDE, SIDE), .on = whole);
  tsr_array *model =
      tsr_tree(l->s, { "w", w }, { "b", tsr_full(l->s, 0, TSR_F32, TSR_SHAPE(SIDE), whole) });
  l->x = tsr_keep(l->s, tsr_full(l->s, 0.5, TSR_F32, TSR_SHAPE(8, SIDE), tsr_on(l->mesh, "x")));
  l->state = tsr_tree_keep(l->s, tsr_tuple(l->s, model, tsr_adam_state(model)));
  l->slope = tsr_value_and_grad(tsr_function_make(l->s, loss));
  l->here = tsr_scope_open(l->s);
}

static tsr_array *next_of(const loop *l)
{
  tsr_array *model = tsr_item(l->state, 0), *kept = tsr_item(l->state, 1);
  tsr_array *both = tsr_call(l->slope, model, l->x);
  tsr_array *next = tsr_adam(model, tsr_item(both, 1), kept, .rate = TSR_OPERAND(0.01));
  return tsr_tuple(l->here, next, tsr_item(both, 0));
}

/* The next step's scope, with what goes on, in the place of this one's. */
static void pass_on(loop *l, tsr_array *next)
{
  tsr_scope *after = tsr_scope_open(l->s);
  next = tsr_tree_keep(after, next);
  CHECK_STATUS(tsr_scope_status(after), TSR_OK, after);
  tsr_scope_close(l->here);
  l->here = after;
  l->state = tsr_item(next, 0);
  double value = 0;
  CHECK_STATUS(tsr_read_scalar(tsr_item(next, 1), &value), TSR_OK, after);
  CHECK(tsr_text_of(tsr_round(tsr_item(next, 1), .decimals = 3)) != NULL);
}

static void trains(loop *l)
{
  pass_on(l, next_of(l));
}

static void donates(loop *l)
{
  tsr_array *next = next_of(l);
  CHECK_STATUS(tsr_donate(l->state), TSR_OK, l->here);
  pass_on(l, next);
}

/* By hand: a tree of what a function makes of the arrays of two. */
static tsr_array *lower(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sub(in[0], tsr_mul(in[1], 0.01));
}

static void maps(loop *l)
{
  tsr_array *model = tsr_item(l->state, 0), *both = tsr_call(l->slope, model, l->x);
  model = tsr_tree_map(lower, NULL, (tsr_array *[]){ model, tsr_item(both, 1) }, 2);
  tsr_array *state = tsr_tuple(l->here, model, tsr_item(l->state, 1));
  pass_on(l, tsr_tuple(l->here, state, tsr_item(both, 0)));
}

static void saves(loop *l)
{
  trains(l);
  tsr_array *small = tsr_field(l->state, "0.b");
  CHECK_STATUS(tsr_checkpoint_save(l->s, test_tmp("turns"), small, .step = l->turn, .keep = 2,
                                   .overwrite = true, .background = true),
               TSR_OK, l->s);
  CHECK_STATUS(tsr_checkpoint_wait(l->s), TSR_OK, l->s);
}

/* ---- batches --------------------------------------------------------------------------------- */

static void begin_batches(loop *l)
{
  tsr_source *range = tsr_source_range(l->s, 40);
  l->p = tsr_pipeline_open(range, .batch_size = 8, .on = tsr_on(l->mesh, "x"), .epochs = -1,
                           .threads = -1);
  l->here = tsr_scope_open(l->s);
  l->state = tsr_metric_start(l->here);
}

static void measures(loop *l)
{
  tsr_batch *b = tsr_pipeline_next(l->p);
  CHECK(b);
  tsr_array *known = tsr_tree_keep(tsr_batch_scope(b), l->state);
  tsr_scope_close(l->here);
  l->here = tsr_scope_open(l->s);
  l->state = tsr_tree_keep(l->here, tsr_metric_add(known, tsr_batch_field(b, "index")));
  CHECK_STATUS(tsr_scope_status(l->s), TSR_OK, l->s);
  tsr_batch_release(b);
}

static void reads(loop *l)
{
  double mean = 0;
  tsr_batch *b = tsr_pipeline_next(l->p);
  CHECK_STATUS(tsr_read_scalar(tsr_mean(tsr_batch_field(b, "index")), &mean), TSR_OK, l->s);
  tsr_batch_release(b);
}

/* ---- the law --------------------------------------------------------------------------------- */

/* Two scopes take turns, and each keeps a block for its next nodes, of 4 KiB first, which doubles
 * up to 64 KiB where a step has more nodes: each has its last size after five turns of its own.
 * No more than these may come to the host after the third turn, and nothing after the tenth. */
enum { SETTLED = 10, BLOCKS = 2 * (64 << 10) };

static void run(const char *what, const char *devices, void (*start)(loop *l),
                void (*turn)(loop *l))
{
  int64_t third[2] = { 0 }, most = 0;
  loop l = { .rt = tsr_runtime_open(devices, .threads = 1) };
  l.mesh = tsr_mesh_default(l.rt, "x");
  l.s = tsr_scope_open(l.rt);
  start(&l);
  for (l.turn = 1; l.turn <= TURNS; l.turn++) {
    turn(&l);
    int64_t now[2] = { on_devices(&l), on_host(&l) };
    if (l.turn == 3) memcpy(third, now, sizeof third);
    if (l.turn <= 3) continue;
    if (l.turn <= SETTLED && now[1] > most) most = now[1];
    if (now[0] > third[0] || now[1] > third[1] + BLOCKS || now[1] > most)
      FAIL("%s, turn %d: %lld bytes on devices and %lld on the host, after the third %lld and %lld",
           what, l.turn, (long long)now[0], (long long)now[1], (long long)third[0],
           (long long)third[1]);
  }
  CHECK_STATUS(tsr_scope_status(l.s), TSR_OK, l.s);
  tsr_runtime_close(l.rt);
}

TEST_TIMEOUT(loops_hold_what_they_held, 300)
{
  static const struct {
    const char *name;
    void (*start)(loop *l), (*turn)(loop *l);
  } loops[] = { { "trains", begin, trains },
                { "donates", begin, donates },
                { "maps", begin, maps },
                { "saves", begin, saves },
                { "measures", begin_batches, measures },
                { "reads", begin_batches, reads } };
  for (int d = 0; d < 2; d++)
    for (int i = 0; i < 6; i++)
      run(loops[i].name, d ? "cpu:8" : "cpu:1", loops[i].start, loops[i].turn);
}

/* The peak of a step whose state is given up is that of its work and one state: Adam writes over
 * it. The weights, and two like them that are kept. */
TEST(adam_writes_over_what_it_is_given)
{
  int64_t peaks[2];
  for (int give = 0; give < 2; give++) {
    loop l = { .rt = tsr_runtime_open("cpu:1") };
    l.mesh = tsr_mesh_default(l.rt, "x");
    l.s = tsr_scope_open(l.rt);
    begin(&l);
    /* The model is not there a second time. */
    if ((double)on_devices(&l) >= 3.2 * BYTES)
      FAIL("%lld bytes are held", (long long)on_devices(&l));
    for (l.turn = 1; l.turn <= 5; l.turn++) give ? donates(&l) : trains(&l);
    peaks[give] = tsr_device_memory(l.rt, 0).peak;
    if (give) CHECK((double)on_devices(&l) < 3.2 * BYTES);
    tsr_runtime_close(l.rt);
  }
  if ((double)(peaks[0] - peaks[1]) < 2.9 * BYTES)
    FAIL("peaks of %lld and %lld bytes", (long long)peaks[0], (long long)peaks[1]);
}

/* ---- who holds an array ---------------------------------------------------------------------- */

/* What a loop in one scope gives up, in whatever tree it stood. */
static int64_t after_turns(int how)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_keep(s, tsr_iota(s, TSR_F32, TSR_SHAPE(SIDE, SIDE), 0, (tsr_sharding){ 0 }));
  tsr_array *t = tsr_tree_keep(s, tsr_tree(s, { "w", x })), *leaves[4];
  for (int i = 0; i < 6; i++) {
    tsr_scope *in = tsr_scope_open(s);
    tsr_array *more = tsr_add(tsr_field(t, "w"), 1), *n = tsr_tree(in, { "w", more });
    int count = tsr_tree_leaves(t, leaves, 4);
    if (how == 1) n = tsr_tuple(in, n, tsr_num(in, 1));
    if (how == 2) n = tsr_sgd(t, t, tsr_sgd_state(t), .rate = TSR_OPERAND(0.1));
    if (how == 3) CHECK_STATUS(tsr_donate(t), TSR_OK, s);
    n = tsr_tree_keep(s, n);
    tsr_scope_close(in);
    if (how < 3) tsr_delete(t);
    if (how == 4) tsr_delete(tsr_field(t, "w"));
    for (int k = 0; k < count && how == 5; k++) tsr_delete(leaves[k]);
    t = how == 1 || how == 2 ? tsr_item(n, 0) : n;
    if (how == 5) t = tsr_tree(s, { "w", tsr_field(tsr_tuple(s, n), "0.w") });
  }
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  int64_t bytes = tsr_device_memory(rt, 0).now;
  tsr_runtime_close(rt);
  return bytes;
}

TEST(trees_hold_nothing)
{
  for (int how = 0; how < 6; how++)
    if ((double)after_turns(how) >= 1.1 * BYTES)
      FAIL("%d: %lld bytes are held", how, (long long)after_turns(how));
}

/* A tree that was made before is no reader of what is given up, nor is one that waits. */
TEST(what_stands_in_trees_is_donated)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  for (int how = 0; how < 4; how++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_sharding on = tsr_on(tsr_mesh_default(rt, "x"), how & 1 ? "x" : "");
    tsr_array *w = tsr_keep(s, tsr_iota(s, TSR_F32, TSR_SHAPE(8), 0, on));
    tsr_array *b = tsr_keep(s, tsr_full(s, 1, TSR_F32, TSR_SHAPE(8), on));
    tsr_array *x = tsr_keep(s, tsr_full(s, 2, TSR_F32, TSR_SHAPE(4, 8), on));
    tsr_array *model = tsr_tree(s, { "w", w }, { "b", b }), *beside = tsr_tuple(s, model, x, w);
    tsr_array *kept = how & 2 ? tsr_tree_keep(s, tsr_adam_state(model)) : tsr_adam_state(model);
    tsr_array *slope = tsr_tree(s, { "w", tsr_mul(w, 2) }, { "b", tsr_mul(b, 2) });
    tsr_array *next = tsr_adam(model, slope, kept, .rate = TSR_OPERAND(0.1));
    CHECK_STATUS(tsr_donate(model), TSR_OK, s);
    next = tsr_tree_keep(s, next);
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    float found[8];
    CHECK_STATUS(tsr_read(tsr_field(next, "0.w"), found, sizeof found), TSR_OK, s);
    CHECK(found[0] == 0 && found[7] < 7);
    CHECK_STATUS(tsr_read(tsr_item(beside, 1), found, sizeof found), TSR_EARG, s); /* its size */
    tsr_scope_clear(s);
    CHECK_STATUS(tsr_read(tsr_item(beside, 2), found, sizeof found), TSR_ESTATE, s);
    CHECK_STR_HAS(tsr_message(s), "donated by tsr_donate");
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* What is kept where it is already is no second holder of its memory. */
TEST(what_is_kept_in_its_own_scope_is_itself)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt), *in = tsr_scope_open(s);
  tsr_array *x = tsr_iota(s, TSR_F32, TSR_SHAPE(SIDE, SIDE), 0, (tsr_sharding){ 0 });
  tsr_array *own = tsr_iota(in, TSR_F32, TSR_SHAPE(SIDE), 0, (tsr_sharding){ 0 });
  CHECK(tsr_keep(s, x) == x);
  CHECK(tsr_keep(s, own) != own);
  CHECK(tsr_keep(in, x) != x); /* its memory is shared there, and ends there */
  tsr_scope_close(in);
  tsr_delete(x);
  CHECK(tsr_device_memory(rt, 0).now < BYTES / 2);
  tsr_runtime_close(rt);
}
