/* Directions through tsr_while: against the steps written out and central differences, with values
 * that stay the function's own bits; where the loop stands in others, under maps, on a mesh, in
 * itself, and twice. */
#include <math.h>
#include <string.h>

#include "harness.h"
#include "support/mesh_fixture.h"
#include "tessera.h"

enum { N = 8 };

/* ---- the loop -------------------------------------------------------------------------------- */

/* x = w sin(x) + x / 2, counted, until x is small. */
static tsr_array *is_large(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = tsr_item(in[0], 0);
  (void)s, (void)user;
  return tsr_and(tsr_gt(tsr_sum(tsr_mul(x, x)), 1.0), tsr_lt(tsr_item(in[0], 1), 100));
}

static tsr_array *shrink(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = tsr_item(in[0], 0);
  (void)user;
  tsr_array *next = tsr_add(tsr_mul(tsr_sin(x), in[1]), tsr_mul(x, 0.5));
  return tsr_tuple(s, next, tsr_add(tsr_item(in[0], 1), 1));
}

enum { LOOP_AT = __LINE__ + 4 };
static tsr_array *looped(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *begin = tsr_tuple(s, in[0], tsr_num(s, (int64_t)0));
  return tsr_item(tsr_while(is_large, shrink, user, begin, .with = in[1]), 0);
}

/* The same in C: x, its directions a (of x and w) and b (of x alone), and how a changes along b. */
typedef struct along {
  double x[N], a[N], b[N], ab[N];
} along;

static void one_step(along *p, const double *w, const double *dw)
{
  for (int i = 0; i < N; i++) {
    double s = sin(p->x[i]), c = cos(p->x[i]), a = p->a[i], b = p->b[i];
    p->ab[i] = -s * w[i] * a * b + c * (w[i] * p->ab[i] + b * dw[i]) + 0.5 * p->ab[i];
    p->a[i] = c * w[i] * a + s * dw[i] + 0.5 * a;
    p->b[i] = c * w[i] * b + 0.5 * b;
    p->x[i] = s * w[i] + 0.5 * p->x[i];
  }
}

static int loop_in_c(along *p, const double *w, const double *dw)
{
  int steps = 0;
  for (;; steps++) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += p->x[i] * p->x[i];
    if (!(sum > 1.0)) return steps;
    one_step(p, w, dw);
  }
}

typedef struct point {
  double x[N], w[N], dx[N], dw[N], e[N];
} point;

static point point_of(double size)
{
  point p;
  for (int i = 0; i < N; i++) {
    p.x[i] = size * (1 + 0.1 * i);
    p.w[i] = 0.3 + 0.01 * i;
    p.dx[i] = 0.5 - 0.2 * i;
    p.dw[i] = 0.1 * (i % 3) - 0.1;
    p.e[i] = 1 - 0.3 * (i % 4);
  }
  return p;
}

static along along_of(const point *p)
{
  along q = { .ab = { 0 } };
  memcpy(q.x, p->x, sizeof q.x);
  memcpy(q.a, p->dx, sizeof q.a);
  memcpy(q.b, p->e, sizeof q.b);
  return q;
}

static void check_near(tsr_array *a, const double *want)
{
  double got[N];
  CHECK_STATUS(tsr_read(a, got, sizeof got), TSR_OK, NULL);
  for (int i = 0; i < N; i++) CHECK(fabs(got[i] - want[i]) <= 1e-13 * (1 + fabs(want[i])));
}

static void check_same(tsr_array *a, tsr_array *b)
{
  double x[N], y[N];
  CHECK_STATUS(tsr_read(a, x, sizeof x), TSR_OK, NULL);
  CHECK_STATUS(tsr_read(b, y, sizeof y), TSR_OK, NULL);
  CHECK(!memcmp(x, y, sizeof x));
}

/* Arguments and directions of a point, cut along a mesh if there is one. */
static void put(fixture *f, const point *p, bool cut, tsr_array *out[5])
{
  const double *from[5] = { p->x, p->w, p->dx, p->dw, p->e };
  tsr_sharding at = cut ? tsr_on(f->mesh, "x") : (tsr_sharding){ 0 };
  for (int i = 0; i < 5; i++) out[i] = tsr_put(f->s, from[i], TSR_F64, TSR_SHAPE(N), at);
}

/* ---- what it stands in ----------------------------------------------------------------------- */

/* What is run in it; NULL: the loop. */
typedef struct inner {
  tsr_body_fn *body;
} inner;

static tsr_array *grown(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *with[3] = { tsr_mul(in[0], 3), in[1] };
  tsr_body_fn *body = user ? ((inner *)user)->body : looped;
  return body(s, with, NULL);
}

static tsr_array *called(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_call(tsr_function_make(s, grown, .user = user), in[0], in[1]);
}

static tsr_array *checkpointed(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_call(tsr_checkpoint(tsr_function_make(s, grown, .user = user)), in[0], in[1]);
}

static tsr_array *counted(tsr_scope *s, tsr_array *const *in, void *user)
{
  return grown(s, in + 1, user);
}

static tsr_array *in_fori(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_fori(0, 2, counted, user, in[0], .with = in[1]);
}

/* Carry, slice, with: what is stacked is the carry as it came and its sum. */
static tsr_array *scanned(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *next = grown(s, (tsr_array *[]){ in[0], in[1], NULL }, user);
  return tsr_tuple(s, next, tsr_mul(next, 2));
}

static tsr_array *in_scan(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *ws = tsr_broadcast_to(in[1], TSR_SHAPE(2, N));
  tsr_array *out = tsr_scan(scanned, user, in[0], .xs = ws);
  tsr_array *last = tsr_reshape(tsr_slice(tsr_item(out, 1), TSR_RANGE(1, 2)), TSR_SHAPE(N));
  (void)s;
  return tsr_sub(last, tsr_item(out, 0)); /* twice less once */
}

static tsr_array *other(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(in[0], in[1]);
}

static tsr_array *in_cond(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_cond(tsr_gt(tsr_sum(in[0]), 0), grown, other, user, in[0], in[1]);
}

static tsr_array *below_two(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_lt(tsr_item(in[0], 1), 2);
}

static tsr_array *grow_and_count(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *next = grown(s, (tsr_array *[]){ tsr_item(in[0], 0), in[1], NULL }, user);
  return tsr_tuple(s, next, tsr_add(tsr_item(in[0], 1), 1));
}

static tsr_array *in_while(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *begin = tsr_tuple(s, in[0], tsr_num(s, (int64_t)0));
  return tsr_item(tsr_while(below_two, grow_and_count, user, begin, .with = in[1]), 0);
}

/* Each grows and loops so many times. */
static const struct {
  const char *name;
  tsr_body_fn *body;
  int rounds;
} places[] = {
  { "itself", looped, 0 },
  { "a call", called, 1 },
  { "fori", in_fori, 2 },
  { "scan", in_scan, 2 },
  { "cond", in_cond, 1 },
  { "while", in_while, 2 },
  { "a checkpoint", checkpointed, 1 },
};

static int in_c(along *q, const point *p, const int *rounds)
{
  double *all = (double *)q;
  int steps = *rounds ? 0 : loop_in_c(q, p->w, p->dw);
  for (int r = 0; r < *rounds; r++) {
    for (int i = 0; i < 4 * N; i++) all[i] *= 3;
    steps += in_c(q, p, rounds + 1);
  }
  return steps;
}

/* ---- steps written out ----------------------------------------------------------------------- */

/* The loop in `place`, and where there is one in that in `in_that`. */
static int check_loop(int place, int in_that, double size, bool cut)
{
  fixture f = open_fixture("cpu:4", "x=4");
  point p = point_of(size);
  along q = along_of(&p);
  inner within = { places[in_that].body };
  tsr_array *given[5];
  put(&f, &p, cut, given);
  tsr_function *own = tsr_function_make(f.s, places[place].body, .user = &within);
  tsr_function *ahead = tsr_jvp(own, .wrt = TSR_ARGS(0, 1));
  int steps = in_c(&q, &p, (int[]){ places[place].rounds, places[in_that].rounds, 0 });
  tsr_array *both = tsr_call(ahead, given[0], given[1], given[2], given[3]);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  check_same(tsr_item(both, 0), tsr_call(own, given[0], given[1]));
  check_near(tsr_item(both, 1), q.a);
  /* By x alone, and then how the first changes along that. */
  check_near(tsr_item(tsr_call(tsr_jvp(own), given[0], given[1], given[4]), 1), q.b);
  tsr_array *twice = tsr_call(tsr_jvp(ahead), given[0], given[1], given[2], given[3], given[4]);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  check_same(tsr_item(tsr_item(twice, 0), 0), tsr_call(own, given[0], given[1]));
  check_near(tsr_item(tsr_item(twice, 0), 1), q.a);
  check_near(tsr_item(tsr_item(twice, 1), 0), q.b);
  check_near(tsr_item(tsr_item(twice, 1), 1), q.ab);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  close_fixture(&f);
  return steps;
}

TEST(a_direction_goes_through_a_while_as_through_its_steps)
{
  CHECK(check_loop(0, 0, 1, false) > 2);
  CHECK(check_loop(0, 0, 2, false) > check_loop(0, 0, 1, false));
}

TEST(a_while_that_runs_zero_times_gives_its_direction)
{
  CHECK_I64(check_loop(0, 0, 0.1, false), 0);
}

TEST(a_carry_that_is_cut_has_directions_that_are)
{
  CHECK(check_loop(0, 0, 2, true) > 2);
  CHECK_I64(check_loop(0, 0, 0.1, true), 0);
}

TEST(a_while_may_stand_in_all_that_runs_bodies)
{
  for (int i = 1; i < (int)(sizeof places / sizeof *places); i++) {
    printf("# %s\n", places[i].name);
    CHECK(check_loop(i, 0, 1, i & 1) > 2);
    CHECK(check_loop(i, 0, 0.7, !(i & 1)) > 2);
  }
}

TEST(a_while_may_stand_in_loops_of_loops)
{
  int count = (int)(sizeof places / sizeof *places);
  for (int i = 1; i < count; i++)
    for (int k = 1; k < count; k++)
      if (!test_quick() || (i + k) % 3 == 0) CHECK(check_loop(i, k, 1, (i + k) % 4 == 0) > 2);
}

/* ---- differences, maps, shards, points ------------------------------------------------------- */

TEST(a_direction_is_what_central_differences_find)
{
  fixture f = open_fixture("cpu:4", "x=4");
  point p = point_of(2), up = p, down = p;
  double h = 1e-6, got[N], above[N], below[N];
  for (int i = 0; i < N; i++) {
    up.x[i] += h * p.dx[i], down.x[i] -= h * p.dx[i];
    up.w[i] += h * p.dw[i], down.w[i] -= h * p.dw[i];
  }
  tsr_array *given[5], *more[5], *less[5];
  put(&f, &p, false, given);
  put(&f, &up, false, more);
  put(&f, &down, false, less);
  tsr_function *own = tsr_function_make(f.s, in_scan);
  tsr_function *ahead = tsr_jvp(own, .wrt = TSR_ARGS(0, 1));
  tsr_array *to = tsr_item(tsr_call(ahead, given[0], given[1], given[2], given[3]), 1);
  CHECK_STATUS(tsr_read(to, got, sizeof got), TSR_OK, f.s);
  CHECK_STATUS(tsr_read(tsr_call(own, more[0], more[1]), above, sizeof above), TSR_OK, f.s);
  CHECK_STATUS(tsr_read(tsr_call(own, less[0], less[1]), below, sizeof below), TSR_OK, f.s);
  for (int i = 0; i < N; i++) CHECK(fabs(got[i] - (above[i] - below[i]) / (2 * h)) < 1e-8);
  close_fixture(&f);
}

enum { ROWS = 4 };

/* Points whose loops end after different numbers of steps, as rows. */
typedef struct rows {
  point p[ROWS];
  along q[ROWS];
  tsr_array *given[4];
} rows;

static void open_rows(rows *r, fixture *f, bool cut)
{
  double all[4][ROWS][N];
  int steps[ROWS];
  for (int k = 0; k < ROWS; k++) {
    r->p[k] = point_of(0.1 + k);
    r->q[k] = along_of(&r->p[k]);
    steps[k] = loop_in_c(&r->q[k], r->p[k].w, r->p[k].dw);
    for (int i = 0; i < 4; i++) memcpy(all[i][k], (double *)&r->p[k] + (size_t)i * N, N * 8);
  }
  CHECK(steps[0] == 0 && steps[1] < steps[ROWS - 1]);
  tsr_sharding at = cut ? tsr_on(f->mesh, "x") : (tsr_sharding){ 0 };
  for (int k = 0; k < 4; k++) r->given[k] = tsr_put(f->s, all[k], TSR_F64, TSR_SHAPE(ROWS, N), at);
}

static void check_rows(const rows *r, fixture *f, tsr_array *both)
{
  double value[ROWS][N], to[ROWS][N];
  CHECK_STATUS(tsr_scope_status(f->s), TSR_OK, f->s);
  CHECK_STATUS(tsr_read(tsr_item(both, 0), value, sizeof value), TSR_OK, f->s);
  CHECK_STATUS(tsr_read(tsr_item(both, 1), to, sizeof to), TSR_OK, f->s);
  for (int k = 0; k < ROWS; k++)
    for (int i = 0; i < N; i++) {
      CHECK(fabs(value[k][i] - r->q[k].x[i]) < 1e-13);
      CHECK(fabs(to[k][i] - r->q[k].a[i]) < 1e-13 * (1 + fabs(to[k][i])));
    }
}

TEST(each_element_of_a_map_has_a_direction_through_its_own_steps)
{
  fixture f = open_fixture("cpu:4", "x=4");
  tsr_function *plain = tsr_function_make(f.s, looped);
  for (int i = 0; i < 4; i++) {
    tsr_function *own = i & 2 ? tsr_checkpoint(plain) : plain;
    rows r;
    open_rows(&r, &f, i & 1);
    tsr_function *inside = tsr_vmap(tsr_jvp(own, .wrt = TSR_ARGS(0, 1)));
    tsr_function *outside = tsr_jvp(tsr_vmap(own), .wrt = TSR_ARGS(0, 1));
    check_rows(&r, &f, tsr_call(inside, r.given[0], r.given[1], r.given[2], r.given[3]));
    check_rows(&r, &f, tsr_call(outside, r.given[0], r.given[1], r.given[2], r.given[3]));
  }
  close_fixture(&f);
}

/* A row on each device. */
static tsr_array *of_row(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *row[3] = { tsr_reshape(in[0], TSR_SHAPE(N)), tsr_reshape(in[1], TSR_SHAPE(N)) };
  return tsr_reshape(looped(s, row, user), TSR_SHAPE(1, N));
}

static tsr_array *on_devices(tsr_scope *s, tsr_array *const *in, void *user)
{
  fixture *f = user;
  (void)s;
  return tsr_shard_map(f->mesh, of_row, NULL, .in = { in[0], in[1] }, .in_specs = { "x", "x" },
                       .out_specs = { "x" });
}

/* Weights that are whole on each device. */
static tsr_array *on_devices_whole(tsr_scope *s, tsr_array *const *in, void *user)
{
  fixture *f = user;
  (void)s;
  return tsr_shard_map(f->mesh, of_row, NULL, .in = { in[0], in[1] }, .in_specs = { "x", "" },
                       .out_specs = { "x" });
}

static tsr_array *ahead_inside(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_function *own = tsr_function_make(s, of_row, .user = user);
  return tsr_call(tsr_jvp(own, .wrt = TSR_ARGS(0, 1)), in[0], in[1], in[2], in[3]);
}

TEST(devices_go_ahead_through_their_own_steps)
{
  fixture f = open_fixture("cpu:4", "x=4");
  rows r;
  open_rows(&r, &f, false);
  tsr_function *own = tsr_function_make(f.s, on_devices, .user = &f);
  tsr_function *ahead = tsr_jvp(own, .wrt = TSR_ARGS(0, 1));
  check_rows(&r, &f, tsr_call(ahead, r.given[0], r.given[1], r.given[2], r.given[3]));
  tsr_array *one[4];
  for (int k = 0; k < 4; k++) one[k] = k % 2 ? tsr_slice(r.given[k], TSR_RANGE(0, 1)) : r.given[k];
  own = tsr_function_make(f.s, on_devices_whole, .user = &f);
  ahead = tsr_jvp(own, .wrt = TSR_ARGS(0, 1));
  check_rows(&r, &f, tsr_call(ahead, one[0], one[1], one[2], one[3]));
  for (int whole = 0; whole < 2; whole++) {
    tsr_array **given = whole ? one : r.given;
    const char *w = whole ? "" : "x";
    check_rows(&r, &f,
               tsr_shard_map(f.mesh, ahead_inside, NULL,
                             .in = { given[0], given[1], given[2], given[3] },
                             .in_specs = { "x", w, "x", w }, .out_specs = { "x", "x" }));
  }
  close_fixture(&f);
}

/* x as many times over as the loop grows it: of one number, so that a jacobian goes forward. */
static tsr_array *repeated(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *all = tsr_mul(in[0], tsr_add(tsr_arange(s, 0, N, .dtype = TSR_F64), 1.0));
  tsr_array *with[3] = { all, in[1] };
  return looped(s, with, user);
}

TEST(what_is_made_of_jvps_goes_through_a_while)
{
  fixture f = open_fixture("cpu:4", "x=4");
  point p = point_of(2);
  for (int i = 0; i < N; i++) p.x[i] = 0.3 * (i + 1), p.e[i] = i + 1;
  along q = along_of(&p);
  CHECK(loop_in_c(&q, p.w, p.dw) > 2);
  tsr_array *given[5];
  put(&f, &p, false, given);
  tsr_array *x = tsr_num(f.s, 0.3);
  check_near(tsr_call(tsr_jacobian(tsr_function_make(f.s, repeated)), x, given[1]), q.b);
  tsr_function *own = tsr_function_make(f.s, looped);
  tsr_function *linear = tsr_linearize(own, .at = { given[0], given[1] });
  check_near(tsr_call(linear, given[4]), q.b);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  close_fixture(&f);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static tsr_array *read_from(tsr_scope *s, tsr_function *f, tsr_array *x, tsr_array *w)
{
  const char *text;
  CHECK_STATUS(tsr_function_text_into(f, &text, x, w), TSR_OK, s);
  return tsr_call(tsr_jvp(tsr_function_from_text(s, text), .wrt = TSR_ARGS(0, 1)), x, w, x, w);
}

/* A text says that the function is gone back through, as it has no rule. */
TEST(a_checkpoint_that_was_saved_has_directions)
{
  fixture f = open_fixture("cpu:4", "x=4");
  point p = point_of(2);
  along q = along_of(&p);
  memcpy(q.a, p.x, sizeof q.a);
  CHECK(loop_in_c(&q, p.w, p.w) > 2);
  tsr_array *given[5];
  put(&f, &p, false, given);
  tsr_function *own = tsr_checkpoint(tsr_function_make(f.s, looped));
  tsr_array *both = read_from(f.s, own, given[0], given[1]);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  check_near(tsr_item(both, 0), q.x);
  check_near(tsr_item(both, 1), q.a);
  close_fixture(&f);
}

/* What the loop finds of w, times sines of x. */
static tsr_array *beside(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *found = looped(s, (tsr_array *[]){ tsr_mul(in[1], 9), in[1], NULL }, user);
  return tsr_sum(tsr_mul(tsr_sin(in[0]), found));
}

/* d/dx sum(sin(x) y) = cos(x) y, with y of the loop in C. */
TEST(a_checkpoint_is_gone_back_through_beside_a_while)
{
  fixture f = open_fixture("cpu:4", "x=4");
  point p = point_of(2), other = p;
  for (int i = 0; i < N; i++) other.x[i] = 9 * p.w[i];
  along q = along_of(&other);
  CHECK(loop_in_c(&q, other.w, other.dw) > 2);
  for (int i = 0; i < N; i++) q.x[i] *= cos(p.x[i]);
  tsr_array *given[5];
  put(&f, &p, false, given);
  tsr_function *own = tsr_checkpoint(tsr_function_make(f.s, beside));
  check_near(tsr_call(tsr_grad(own), given[0], given[1]), q.x);
  check_same(tsr_call(tsr_grad(own), given[0], given[1]),
             tsr_call(tsr_grad(tsr_function_make(f.s, beside)), given[0], given[1]));
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  CHECK(tsr_is_inert(tsr_call(tsr_grad(own, .wrt = TSR_ARGS(1)), given[0], given[1])));
  char told[100];
  snprintf(told, sizeof told, "forward_test.c:%d: TSR_EUNSUPPORTED: tsr_grad: while", LOOP_AT);
  CHECK_STR_HAS(tsr_message(f.s), told);
  CHECK_STR_HAS(tsr_message(f.s), "use tsr_fori or tsr_scan");
  close_fixture(&f);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static tsr_array *summed(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_sum(looped(s, in, user));
}

/* How the sum changes by x along w. */
static tsr_array *summed_ahead(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_item(tsr_call(tsr_jvp(tsr_function_make(s, summed)), in[0], in[1], in[1]), 1);
}

static tsr_array *summed_slope(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_call(tsr_grad(tsr_function_make(s, summed)), in[0], in[1]);
}

TEST(going_back_through_a_while_stays_refused)
{
  fixture f = open_fixture("cpu:4", "x=4");
  point p = point_of(2);
  tsr_array *given[5];
  put(&f, &p, false, given);
  tsr_function *own = tsr_function_make(f.s, summed), *one = tsr_function_make(f.s, looped);
  tsr_function *ahead = tsr_function_make(f.s, summed_ahead);
  tsr_function *back = tsr_function_make(f.s, summed_slope);
  for (int i = 0; i < 6; i++) {
    tsr_array *made = i == 0   ? tsr_call(tsr_grad(own), given[0], given[1])
                      : i == 1 ? tsr_call(tsr_vjp(one), given[0], given[1], given[2])
                      : i == 2 ? tsr_call(tsr_hvp(own), given[0], given[1], given[2])
                      : i == 3 ? tsr_call(tsr_grad(ahead), given[0], given[1])
                      : i == 4 ? tsr_call(tsr_jvp(back), given[0], given[1], given[2])
                               : tsr_call(tsr_grad(tsr_checkpoint(own)), given[0], given[1]);
    CHECK(tsr_is_inert(made));
    CHECK_I64(tsr_scope_status(f.s), TSR_EUNSUPPORTED);
    CHECK_STR_HAS(tsr_message(f.s), "while has no gradient: the number of its steps is known only "
                                    "at run time; use tsr_fori or tsr_scan");
    tsr_scope_clear(f.s);
  }
  tsr_call(tsr_jvp(one), given[0], given[1], tsr_num(f.s, 1.0));
  CHECK_STR_HAS(tsr_message(f.s), "tsr_jvp: array 0 of the tangent is f64[], expected f64[8]");
  close_fixture(&f);
}
