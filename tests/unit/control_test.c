/* Loops and choices inside programs: the values of the same steps written out, on one device and on
 * eight, nested and in functions; what bodies may not return. */
#include <math.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

typedef struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
} fixture;

static fixture open_fixture(void)
{
  fixture f = { .rt = tsr_runtime_open("cpu:8", .threads = 2) };
  f.s = tsr_scope_open(f.rt);
  f.mesh = tsr_mesh_make(f.rt, "x=4,y=2");
  return f;
}

static void close_fixture(fixture *f)
{
  tsr_scope_close(f->s);
  tsr_runtime_close(f->rt);
}

static size_t bytes_of(tsr_array *a)
{
  size_t bytes = tsr_dtype_size(tsr_dtype_of(a));
  for (int d = 0; d < tsr_shape_of(a).rank; d++) bytes *= (size_t)tsr_shape_of(a).dims[d];
  return bytes;
}

static void check_same(tsr_array *a, tsr_array *b)
{
  double x[512], y[512];
  CHECK(bytes_of(a) == bytes_of(b) && bytes_of(a) <= sizeof x);
  CHECK_STATUS(tsr_read(a, x, bytes_of(a)), TSR_OK, NULL);
  CHECK_STATUS(tsr_read(b, y, bytes_of(b)), TSR_OK, NULL);
  CHECK(!memcmp(x, y, bytes_of(a)));
}

/* ---- scan ------------------------------------------------------------------------------------ */

/* h = tanh(h * 0.5 + x), y = h * x */
static tsr_array *recur(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *h = tsr_tanh(tsr_add(tsr_mul(in[0], 0.5), in[1]));
  return tsr_tuple(s, h, tsr_mul(h, in[1]));
}

static void check_recurrence(fixture *f, tsr_sharding h_at, tsr_sharding x_at)
{
  enum { STEPS = 9, N = 16 };
  double x[STEPS][N], h[N], ys[STEPS][N], got_h[N], got[STEPS][N];
  for (int k = 0; k < STEPS; k++)
    for (int i = 0; i < N; i++) x[k][i] = (k * 7 + i * 3) % 11 * 0.125 - 0.5;
  for (int i = 0; i < N; i++) h[i] = i * 0.25 - 1;
  tsr_array *a = tsr_put(f->s, h, TSR_F64, TSR_SHAPE(N), h_at);
  tsr_array *b = tsr_put(f->s, x, TSR_F64, TSR_SHAPE(STEPS, N), x_at), *c = a;
  tsr_array *made = tsr_scan(recur, NULL, a, .xs = b);
  for (int k = 0; k < STEPS; k++) {
    tsr_array *row = tsr_put(f->s, x[k], TSR_F64, TSR_SHAPE(N), h_at), *in[] = { c, row, NULL };
    tsr_array *both = recur(f->s, in, NULL);
    c = tsr_item(both, 0);
    CHECK_STATUS(tsr_read(tsr_item(both, 1), ys[k], sizeof ys[k]), TSR_OK, f->s);
  }
  CHECK_STATUS(tsr_read(c, h, sizeof h), TSR_OK, f->s);
  CHECK_STATUS(tsr_read(tsr_item(made, 0), got_h, sizeof got_h), TSR_OK, f->s);
  CHECK_STATUS(tsr_read(tsr_item(made, 1), got, sizeof got), TSR_OK, f->s);
  CHECK(!memcmp(h, got_h, sizeof h));
  CHECK(!memcmp(ys, got, sizeof got));
}

TEST(a_scan_is_its_steps_written_out)
{
  fixture f = open_fixture();
  const char *const specs[][2] = {
    { "", "" }, { "x", "-,x" }, { "x+y", "-,x+y" }, { "x", "x,y" }, { "y", "x" }, { "x", "-" },
  };
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
    check_recurrence(&f, tsr_on(f.mesh, specs[i][0]), tsr_on(f.mesh, specs[i][1]));
  tsr_scope *one = f.s;
  check_recurrence(&f, (tsr_sharding){ 0 }, (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_scope_status(one), TSR_OK, one);
  close_fixture(&f);
}

/* ---- fori ------------------------------------------------------------------------------------ */

static tsr_array *add_number(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(tsr_mul(in[1], 3), in[0]);
}

TEST(fori_gives_its_body_each_number)
{
  fixture f = open_fixture();
  int64_t start[16], want[16], got[16];
  for (int i = 0; i < 16; i++) start[i] = want[i] = i;
  for (int64_t k = 5; k < 12; k++)
    for (int i = 0; i < 16; i++) want[i] = want[i] * 3 + k;
  const char *const specs[] = { "", "x", "x+y", "y" };
  for (int i = 0; i < 4; i++) {
    tsr_array *a = tsr_put(f.s, start, TSR_I64, TSR_SHAPE(16), tsr_on(f.mesh, specs[i]));
    CHECK_STATUS(tsr_read(tsr_fori(5, 12, add_number, NULL, a), got, sizeof got), TSR_OK, f.s);
    CHECK(!memcmp(want, got, sizeof got));
    CHECK_STATUS(tsr_read(tsr_fori(5, 3, add_number, NULL, a), got, sizeof got), TSR_OK, f.s);
    CHECK(!memcmp(start, got, sizeof got));
  }
  close_fixture(&f);
}

/* ---- while, cond, switch --------------------------------------------------------------------- */

static tsr_array *below(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_lt(tsr_sum(in[0]), 1000);
}

static tsr_array *twice(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(in[0], 2);
}

TEST(while_goes_on_as_long_as_it_is_told)
{
  fixture f = open_fixture();
  const char *const specs[] = { "", "x", "x+y", "y" };
  for (int i = 0; i < 4; i++) {
    double got[16];
    double ones[16];
    for (int k = 0; k < 16; k++) ones[k] = 1;
    tsr_array *a = tsr_put(f.s, ones, TSR_F64, TSR_SHAPE(16), tsr_on(f.mesh, specs[i]));
    CHECK_STATUS(tsr_read(tsr_while(below, twice, NULL, a), got, sizeof got), TSR_OK, f.s);
    for (int k = 0; k < 16; k++) CHECK(got[k] == 64);
  }
  close_fixture(&f);
}

static tsr_array *less(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tuple(s, tsr_sub(in[0], in[1]), tsr_sum(in[1]));
}

static tsr_array *more(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tuple(s, tsr_add(in[0], in[1]), tsr_max(in[0]));
}

TEST(cond_runs_what_its_predicate_says)
{
  fixture f = open_fixture();
  const char *const specs[] = { "", "x", "x+y", "y" };
  for (int i = 0; i < 4; i++) {
    tsr_array *a = tsr_reshard(tsr_arange(f.s, 0, 16, .dtype = TSR_F64), tsr_on(f.mesh, specs[i]));
    tsr_array *b = tsr_mul(a, a);
    for (int k = 0; k < 2; k++) {
      tsr_array *p = tsr_gt(tsr_sum(a), k ? 100 : 1000), *in[] = { a, b, NULL };
      tsr_array *got = tsr_cond(p, more, less, NULL, a, b),
                *want = (k ? more : less)(f.s, in, NULL);
      check_same(tsr_item(got, 0), tsr_item(want, 0));
      check_same(tsr_item(got, 1), tsr_item(want, 1));
    }
    for (int k = -2; k < 5; k++) {
      tsr_array *at = tsr_sub(tsr_sum(tsr_cast(a, TSR_I64)), 120 - k), *in[] = { a, b, NULL };
      tsr_body_fn *bodies[] = { less, more, less };
      tsr_array *got = tsr_switch(at, NULL, .bodies = { less, more, less }, .in = { a, b });
      check_same(tsr_item(got, 0), tsr_item(bodies[k < 0 ? 0 : k > 2 ? 2 : k](f.s, in, NULL), 0));
    }
  }
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  close_fixture(&f);
}
