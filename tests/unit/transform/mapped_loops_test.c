/* Loops and choices that are mapped over: each element has what it has alone, on every mesh;
 * collectives by name in bodies of loops; gradients through all that. */
#include <math.h>
#include <string.h>

#include "harness.h"
#include "support/law_fixture.h"
#include "support/mesh_fixture.h"
#include "tessera.h"

enum { ROWS = 8, N = 4, STEPS = 5 };

typedef tsr_array *const *given;

static void close_checked(fixture *f)
{
  CHECK_STATUS(tsr_scope_status(f->s), TSR_OK, f->s);
  close_fixture(f);
}

/* ---- bodies: of h [N], x [STEPS, N], k [] ---------------------------------------------------- */

static tsr_array *step(tsr_scope *s, given in, void *user)
{
  (void)user;
  tsr_array *h = tsr_tanh(tsr_add(tsr_mul(in[0], in[2]), in[1]));
  return tsr_tuple(s, h, tsr_mul(h, in[1]));
}

static tsr_array *scanned(tsr_scope *s, given in, void *user)
{
  (void)s;
  tsr_array *out = tsr_scan(step, NULL, in[0], .xs = in[1], .with = in[2], .reverse = user != NULL);
  return tsr_add(tsr_sum(tsr_item(out, 1), .dims = TSR_DIMS(0)), tsr_item(out, 0));
}

/* Two carries, the first of which comes to vary by the second; and one that never does. */
static tsr_array *chained(tsr_scope *s, given in, void *user)
{
  (void)user;
  tsr_array *a = tsr_item(in[0], 0), *b = tsr_item(in[0], 1), *c = tsr_item(in[0], 2);
  tsr_array *next = tsr_tuple(s, b, tsr_add(tsr_mul(b, 0.5), in[2]), tsr_add(c, 1));
  return tsr_tuple(s, next, tsr_tuple(s, tsr_add(a, in[1]), c));
}

static tsr_array *settled(tsr_scope *s, given in, void *user)
{
  (void)user;
  tsr_array *zero = tsr_mul(tsr_sum(in[3]), 0), *row = tsr_mul(in[3], 0);
  tsr_array *out =
      tsr_scan(chained, NULL, tsr_tuple(s, row, row, zero), .xs = in[3], .with = in[0]);
  tsr_array *sums = tsr_sum(tsr_field(out, "1.0"), .dims = TSR_DIMS(0));
  return tsr_add(tsr_add(sums, tsr_field(out, "0.0")), tsr_sum(tsr_field(out, "1.1")));
}

static tsr_array *counted(tsr_scope *s, given in, void *user)
{
  (void)s, (void)user;
  return tsr_add(tsr_mul(in[1], 0.5), tsr_mul(in[0], in[2]));
}

/* A loop of each slice in a loop over slices. */
static tsr_array *outer(tsr_scope *s, given in, void *user)
{
  (void)user;
  tsr_array *h = tsr_fori(1, 4, counted, NULL, in[0], .with = tsr_add(in[1], in[2]));
  return tsr_tuple(s, h, tsr_sum(h));
}

static tsr_array *nested(tsr_scope *s, given in, void *user)
{
  (void)s, (void)user;
  tsr_array *out = tsr_scan(outer, NULL, in[0], .xs = in[1], .with = in[2]);
  return tsr_add(tsr_item(out, 0), tsr_sum(tsr_item(out, 1)));
}

static tsr_array *small(tsr_scope *s, given in, void *user)
{
  (void)s, (void)user;
  return tsr_lt(tsr_sum(tsr_item(in[0], 0)), 40);
}

static tsr_array *grown(tsr_scope *s, given in, void *user)
{
  (void)user;
  tsr_array *h = tsr_item(in[0], 0);
  return tsr_tuple(s, tsr_add(tsr_mul(h, 1.5), tsr_abs(in[1])), tsr_add(tsr_item(in[0], 1), 1));
}

/* Each element goes on for a number of rounds of its own. */
static tsr_array *repeated(tsr_scope *s, given in, void *user)
{
  (void)user;
  tsr_array *count = tsr_mul(tsr_sum(in[3]), 0), *start = tsr_add(tsr_abs(in[0]), 0.1);
  tsr_array *out = tsr_while(small, grown, NULL, tsr_tuple(s, start, count), .with = in[2]);
  return tsr_add(tsr_item(out, 0), tsr_item(out, 1));
}

static tsr_array *sines(tsr_scope *s, given in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(tsr_sin(in[0]), in[1]);
}

static tsr_array *squares(tsr_scope *s, given in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(tsr_mul(in[0], in[0]), in[1]);
}

static tsr_array *plain(tsr_scope *s, given in, void *user)
{
  (void)s, (void)in, (void)user;
  return tsr_mul(in[2], 2);
}

/* Elements choose each for itself. */
static tsr_array *chosen(tsr_scope *s, given in, void *user)
{
  (void)s;
  tsr_array *k = tsr_cast(tsr_floor(tsr_mul(in[2], 4)), TSR_I64);
  if (user) return tsr_cond(tsr_gt(in[2], 0), squares, sines, NULL, in[0], in[2]);
  return tsr_switch(k, NULL, .bodies = { sines, squares, plain }, .in = { in[0], in[2], in[0] });
}

/* All elements choose the same. */
static tsr_array *agreed(tsr_scope *s, given in, void *user)
{
  (void)s, (void)user;
  tsr_array *p = tsr_gt(tsr_sum(in[3]), 0), *row = tsr_slice(in[3], { 0, 1, 1 });
  row = tsr_reshape(row, TSR_SHAPE(N));
  return tsr_cond(p, squares, plain, NULL, in[0], in[2], row);
}

static const struct {
  const char *name;
  tsr_body_fn *body;
  bool turns, slopes; /* it has another way with .user; it has a gradient */
} bodies[] = {
  { "scan", scanned, true, true },   { "carries", settled, false, true },
  { "nested", nested, false, true }, { "while", repeated, false, false },
  { "switch", chosen, true, true },  { "cond", agreed, false, true },
};
enum { BODIES = sizeof bodies / sizeof *bodies };

/* ---- each element alone ---------------------------------------------------------------------- */

/* h, x, k with the front, and one x for all. */
static void arguments(const fixture *f, test_rng *rng, tsr_array **in)
{
  const tsr_shape shapes[] = { TSR_SHAPE(ROWS, N), TSR_SHAPE(ROWS, STEPS, N), TSR_SHAPE(ROWS),
                               TSR_SHAPE(STEPS, N) };
  for (int i = 0; i < 4; i++) {
    double data[ROWS * STEPS * N];
    for (int k = 0; k < ROWS * STEPS * N; k++) data[k] = test_uniform(rng) * 2 - 1;
    in[i] = tsr_put(f->s, data, TSR_F64, shapes[i], law_sharding(rng, f->mesh, shapes[i].rank));
  }
}

static tsr_array *row_of(tsr_array *a, int r)
{
  return tsr_squeeze(tsr_slice(a, TSR_RANGE(r, r + 1)), TSR_DIMS(0));
}

static void check_rows(const fixture *f, tsr_function *one, tsr_array *const *in, const char *name)
{
  double all[ROWS * STEPS * N], own[STEPS * N];
  tsr_function *many = tsr_vmap(one, .in_dims = { 0, 0, 0, TSR_UNMAPPED });
  tsr_array *made = tsr_call_at(many, in, 4, TSR_HERE);
  if (tsr_scope_status(f->s)) FAIL("%s: %s", name, tsr_message(f->s));
  tsr_shape shape = tsr_shape_of(made);
  size_t each = sizeof *own;
  for (int d = 1; d < shape.rank; d++) each *= (size_t)shape.dims[d];
  CHECK_I64(shape.dims[0], ROWS);
  CHECK_STATUS(tsr_read(made, all, ROWS * each), TSR_OK, f->s);
  for (int r = 0; r < ROWS; r++) {
    tsr_array *alone[] = { row_of(in[0], r), row_of(in[1], r), row_of(in[2], r), in[3] };
    CHECK_STATUS(tsr_read(tsr_call_at(one, alone, 4, TSR_HERE), own, each), TSR_OK, f->s);
    for (size_t i = 0; i < each / sizeof *own; i++) {
      double a = all[(size_t)r * each / sizeof *own + i], b = own[i];
      if (fabs(a - b) > 1e-13 * (1 + fabs(b)))
        FAIL("%s: row %d, element %zu: %.17g, alone %.17g", name, r, i, a, b);
    }
  }
}

static void check_mesh(const char *mesh, uint64_t seed)
{
  fixture f = open_fixture("cpu:8", mesh);
  test_rng rng = test_seeded(seed);
  for (int i = 0; i < BODIES; i++)
    for (int way = 0; way <= bodies[i].turns; way++) {
      tsr_array *args[4];
      arguments(&f, &rng, args);
      tsr_function *one = tsr_function_make(f.s, bodies[i].body, .user = way ? &f : NULL);
      check_rows(&f, one, args, bodies[i].name);
    }
  close_checked(&f);
}

TEST_TIMEOUT(loops_of_many_are_those_of_each_on_every_mesh, 300)
{
  for (int i = 0; i < LAW_MESHES; i++) check_mesh(law_meshes[i], (uint64_t)i);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static tsr_array *total(tsr_scope *s, given in, void *user)
{
  (void)s;
  return tsr_sum(tsr_call(user, in[0], in[1], in[2], in[3]));
}

static void check_close(const char *name, tsr_array *a, tsr_array *b)
{
  double off = NAN;
  tsr_array *far = tsr_div(tsr_abs(tsr_sub(a, b)), tsr_add(tsr_abs(b), 1));
  if (tsr_is_inert(far)) FAIL("%s: not of one type", name);
  CHECK_STATUS(tsr_read(tsr_max(far), &off, sizeof off), TSR_OK, NULL);
  if (!(off <= 1e-12)) FAIL("%s: off by %g", name, off);
}

/* By what has the front, row by row; by what is the same for all, the sum of the rows. */
static void check_slopes(const fixture *f, int body, int which, tsr_array *const *in)
{
  tsr_function *one = tsr_function_make(f->s, bodies[body].body), *grads[2];
  tsr_function *many = tsr_vmap(one, .in_dims = { 0, 0, 0, TSR_UNMAPPED });
  for (int i = 0; i < 2; i++)
    grads[i] = tsr_grad(tsr_function_make(f->s, total, .user = i ? one : many),
                        .wrt = tsr_dims_of(&which, 1));
  tsr_array *found = tsr_call_at(grads[0], in, 4, TSR_HERE), *sum = NULL;
  for (int r = 0; r < ROWS; r++) {
    tsr_array *alone[] = { row_of(in[0], r), row_of(in[1], r), row_of(in[2], r), in[3] };
    tsr_array *own = tsr_call_at(grads[1], alone, 4, TSR_HERE);
    if (which < 3) check_close(bodies[body].name, row_of(found, r), own);
    sum = sum ? tsr_add(sum, own) : own;
  }
  if (which == 3) check_close(bodies[body].name, found, sum);
}

TEST_TIMEOUT(gradients_of_loops_of_many_are_those_of_each, 300)
{
  for (int m = 0; m < 2; m++) {
    fixture f = open_fixture("cpu:8", m ? "x=4,y=2" : "x=1");
    test_rng rng = test_seeded((uint64_t)m);
    for (int i = 0; i < BODIES; i++)
      for (int which = 0; which < 4 && bodies[i].slopes; which++) {
        tsr_array *args[4];
        arguments(&f, &rng, args);
        check_slopes(&f, i, which, args);
      }
    close_checked(&f);
  }
}

/* ---- collectives by name --------------------------------------------------------------------- */

/* h [N], x [STEPS, N], w [N] the same everywhere */
static tsr_array *meeting(tsr_scope *s, given in, void *user)
{
  (void)user;
  tsr_array *mean = tsr_pmean(tsr_mul(in[1], in[0]), "i"), *place = tsr_axis_index(s, "i");
  tsr_array *h = tsr_tanh(tsr_add(tsr_mul(in[0], in[2]), mean));
  tsr_array *next = tsr_ppermute(h, "i", { 0, 1 }, { 1, 2 }, { 2, 3 }, { 3, 0 });
  tsr_array *odd = tsr_eq(tsr_mod(place, 2), 1);
  tsr_array *y = tsr_cond(odd, squares, sines, NULL, next, in[2], in[2]);
  return tsr_tuple(s, next, tsr_sum(tsr_mul(y, in[2])));
}

static tsr_array *with_scan(tsr_scope *s, given in, void *user)
{
  (void)user;
  tsr_array *out = tsr_scan(meeting, NULL, in[0], .xs = in[1], .with = in[2]);
  return tsr_tuple(s, tsr_item(out, 0), tsr_psum(tsr_sum(tsr_item(out, 1)), "i"));
}

/* The same written out, with both bodies where elements choose. */
static tsr_array *written_out(tsr_scope *s, given in, void *user)
{
  (void)user;
  tsr_array *h = in[0], *sum = NULL, *place = tsr_axis_index(s, "i");
  tsr_array *odd = tsr_eq(tsr_mod(place, 2), 1);
  for (int k = 0; k < STEPS; k++) {
    tsr_array *x = row_of(in[1], k), *mean = tsr_pmean(tsr_mul(x, h), "i");
    h = tsr_tanh(tsr_add(tsr_mul(h, in[2]), mean));
    h = tsr_ppermute(h, "i", { 0, 1 }, { 1, 2 }, { 2, 3 }, { 3, 0 });
    tsr_array *two[] = { h, in[2], in[2] };
    tsr_array *y = tsr_where(odd, squares(s, two, NULL), sines(s, two, NULL));
    y = tsr_sum(tsr_mul(y, in[2]));
    sum = sum ? tsr_add(sum, y) : y;
  }
  return tsr_tuple(s, h, tsr_psum(sum, "i"));
}

static tsr_array *loss_in_body(tsr_scope *s, given in, void *user)
{
  tsr_array *out = (user ? with_scan : written_out)(s, in, NULL);
  return tsr_add(tsr_item(out, 1), tsr_psum(tsr_sum(tsr_item(out, 0)), "i"));
}

/* The gradient by what is the same everywhere, and by h, at each place; of the scan if `user`. */
static tsr_array *slopes_in_body(tsr_scope *s, given in, void *user)
{
  tsr_function *f = tsr_function_make(s, loss_in_body, .user = user);
  return tsr_tuple(s, tsr_call(tsr_grad(f, .wrt = TSR_DIMS(2)), in[0], in[1], in[2]),
                   tsr_call(tsr_grad(f, .wrt = TSR_DIMS(0)), in[0], in[1], in[2]));
}

typedef struct pair {
  tsr_array *at[2];
} pair;

static pair mapped(const fixture *f, int how, tsr_body_fn *body, void *user, tsr_array *const *in)
{
  tsr_array *out;
  tsr_function *one = tsr_function_make(f->s, body, .user = user);
  bool slopes = body == slopes_in_body; /* the first result is that by w */
  if (how == 0)
    out = tsr_shard_map(f->mesh, body, user, .in = { in[0], in[1], in[2] },
                        .in_specs = { "i", "-,i", "" },
                        .out_specs = { slopes ? "" : "i", slopes ? "i" : "" });
  else if (how == 1)
    out = tsr_call(tsr_pmap(one, .in_dims = { 0, 1, TSR_UNMAPPED }, .axis = "i"), in[0], in[1],
                   in[2]);
  else
    out = tsr_call(tsr_vmap(one, .in_dims = { 0, 1, TSR_UNMAPPED }, .axis = "i"), in[0], in[1],
                   in[2]);
  return (pair){ { tsr_item(out, 0), tsr_item(out, 1) } };
}

static void check_named(const fixture *f, int how)
{
  test_rng rng = test_seeded((uint64_t)how);
  double data[4 * STEPS * N];
  for (int k = 0; k < 4 * STEPS * N; k++) data[k] = test_uniform(&rng) * 2 - 1;
  tsr_sharding at = how == 1 ? (tsr_sharding){ 0 } : tsr_on(f->mesh, "i");
  tsr_shape h = how ? TSR_SHAPE(4, N) : TSR_SHAPE(4 * N);
  tsr_shape x = how ? TSR_SHAPE(STEPS, 4, N) : TSR_SHAPE(STEPS, 4 * N);
  tsr_array *in[] = { tsr_put(f->s, data, TSR_F64, h, at),
                      tsr_put(f->s, data, TSR_F64, x, (tsr_sharding){ 0 }),
                      tsr_put(f->s, data + 7, TSR_F64, TSR_SHAPE(N), (tsr_sharding){ 0 }) };
  pair a = mapped(f, how, with_scan, NULL, in), b = mapped(f, how, written_out, NULL, in);
  for (int i = 0; i < 2; i++) check_close("values", a.at[i], b.at[i]);
  a = mapped(f, how, slopes_in_body, data, in);
  b = mapped(f, how, slopes_in_body, NULL, in);
  for (int i = 0; i < 2; i++) check_close(i ? "by h" : "by w", a.at[i], b.at[i]);
}

TEST(collectives_by_name_stand_in_loops)
{
  const char *const meshes[] = { "i=4", "i=4,y=2" };
  for (int m = 0; m < 2; m++)
    for (int how = 0; how < 3; how++) {
      fixture f = open_fixture("cpu:8", meshes[m]);
      check_named(&f, how);
      close_checked(&f);
    }
}
