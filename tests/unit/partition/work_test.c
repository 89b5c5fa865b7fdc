/* Work that devices would make alike: where the planner shares it among them, where it does not,
 * and what explanations say of it. */
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "harness.h"
#include "partition/partition.h"
#include "support/mesh_fixture.h"
#include "tessera.h"

enum { BATCH = 256, WIDTH = 512, MICRO = 8, ROWS = BATCH / MICRO };

static tsr_array *layer(tsr_array *x, tsr_array *w)
{
  return tsr_tanh(tsr_matmul(x, w));
}

static tsr_array *step(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *y = layer(in[1], in[2]);
  return tsr_tuple(s, tsr_add(in[0], tsr_sum(y)), tsr_num(s, 0));
}

static tsr_array *micro_batches(tsr_array *x)
{
  return tsr_reshape(x, TSR_SHAPE(MICRO, ROWS, WIDTH));
}

static tsr_array *scan_over(tsr_scope *s, tsr_array *xs, tsr_array *w)
{
  tsr_array *zero = tsr_full(s, 0, TSR_F32, TSR_SCALAR, (tsr_sharding){ .mesh = NULL });
  return tsr_item(tsr_scan(step, NULL, zero, .xs = xs, .with = w), 0);
}

static tsr_array *scanned(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return scan_over(s, micro_batches(in[0]), in[1]);
}

/* As `scanned`, with the micro-batches where the user says. */
static tsr_array *scanned_so(tsr_scope *s, tsr_array *const *in, void *user)
{
  return scan_over(s, tsr_reshard(micro_batches(in[0]), *(tsr_sharding *)user), in[1]);
}

static tsr_array *sliced(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *xs = micro_batches(in[0]), *sum = NULL;
  (void)s, (void)user;
  for (int i = 0; i < MICRO; i++) {
    tsr_array *x = tsr_reshape(tsr_slice(xs, TSR_RANGE(i, i + 1)), TSR_SHAPE(ROWS, WIDTH));
    tsr_array *y = tsr_sum(layer(x, in[1]));
    sum = sum ? tsr_add(sum, y) : y;
  }
  return sum;
}

/* As `sliced`, with each product where the user says. */
static tsr_array *sliced_so(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *xs = micro_batches(in[0]), *sum = NULL;
  (void)s;
  for (int i = 0; i < MICRO; i++) {
    tsr_array *x = tsr_reshape(tsr_slice(xs, TSR_RANGE(i, i + 1)), TSR_SHAPE(ROWS, WIDTH));
    tsr_array *y = tsr_sum(tsr_constrain(tsr_matmul(x, in[1]), *(tsr_sharding *)user));
    sum = sum ? tsr_add(sum, y) : y;
  }
  return sum;
}

/* Two halves of a batch that eight devices hold: a half each would leave six of them idle. */
static tsr_array *halves(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(layer(tsr_reshape(in[0], TSR_SHAPE(2, BATCH / 2, WIDTH)), in[1]));
}

/* Results of micro-batches as one batch again. */
static tsr_array *stack_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tuple(s, in[0], layer(in[1], in[2]));
}

static tsr_array *stacked(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *out =
      tsr_scan(stack_step, NULL, tsr_num(s, 0), .xs = micro_batches(in[0]), .with = in[1]);
  return tsr_reshape(tsr_item(out, 1), TSR_SHAPE(BATCH, WIDTH));
}

static int64_t bytes_of(const tsr_figures *f, const char *kind)
{
  for (int k = 0; k < f->kind_count; k++)
    if (!strcmp(f->kinds[k].kind, kind)) return f->kinds[k].bytes;
  return 0;
}

/* A batch that is cut along the first axis, and whole weights. */
static tsr_compiled *compiled(fixture *f, tsr_body_fn *body, void *user)
{
  tsr_function *fn = tsr_function_make(f->s, body, .user = user);
  tsr_sharding rows = tsr_on(f->mesh, tsr_mesh_axis_name(f->mesh, 0)), whole = tsr_on(f->mesh, "");
  tsr_array *x = tsr_abstract(f->s, TSR_F32, TSR_SHAPE(BATCH, WIDTH), rows);
  tsr_array *w = tsr_abstract(f->s, TSR_F32, TSR_SHAPE(WIDTH, WIDTH), whole);
  tsr_compiled *c = tsr_compile(fn, x, w);
  CHECK_STATUS(tsr_scope_status(f->s), TSR_OK, f->s);
  return c;
}

/* How many times the flops that would do a device makes; sums and the like are the rest. */
static void check_share(tsr_compiled *c, double devices, double times)
{
  tsr_figures f = tsr_compiled_figures(c);
  double got = f.device_flops * devices / f.flops;
  if (got > times * 1.01 || got < times * 0.99) FAIL("%g times\n%s", got, tsr_compiled_text(c));
}

/* Each device sends 7 of 8 parts of its rows: 7 / 8 of all bytes, where a gather sends 7 times. */
enum { SENT = BATCH * WIDTH * 4 / 8 * 7 };

TEST(micro_batches_share_their_work)
{
  fixture f = open_fixture("cpu:8", "x=8");
  tsr_body_fn *const bodies[] = { scanned, sliced };
  for (int i = 0; i < 2; i++) {
    tsr_compiled *c = compiled(&f, bodies[i], NULL);
    tsr_figures got = tsr_compiled_figures(c);
    check_share(c, 8, 1);
    CHECK_I64(bytes_of(&got, "all-to-all"), SENT);
    CHECK_I64(bytes_of(&got, "all-gather"), 0);
    CHECK(!strstr(tsr_compiled_text(c), "repeated work"));
  }
  check_share(compiled(&f, halves, NULL), 8, 1);
  /* There and back, each device its own rows. */
  tsr_compiled *c = compiled(&f, stacked, NULL);
  check_share(c, 8, 1);
  CHECK_I64(tsr_compiled_figures(c).bytes_moved, 2 * SENT);
  CHECK_I64(tsr_compiled_figures(c).result_bytes, BATCH * WIDTH * 4 / 8);
  close_fixture(&f);
}

/* Two axes: the batch is cut along one and the weights stay whole along both, or it is cut along
 * both. */
TEST(work_is_shared_along_the_axes_that_cut_the_batch)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  check_share(compiled(&f, scanned, NULL), 4, 1);
  check_share(compiled(&f, sliced, NULL), 4, 1);
  close_fixture(&f);
}

/* Devices that make all work sooner than they start a collective: what is gathered once serves all
 * steps, where shared steps would each meet for their sum. */
TEST(work_is_repeated_where_moving_costs_more)
{
  fixture f = open_fixture("cpu:8", "x=8@1e12;flops=9e15");
  tsr_compiled *c = compiled(&f, scanned, NULL);
  check_share(c, 8, 8);
  const char *text = tsr_compiled_text(c), *said = strstr(text, "repeated work over x=8: ");
  CHECK(said);
  char line[200];
  snprintf(line, sizeof line, "repeated work over x=8: %d flops, ", 2 * BATCH * WIDTH * WIDTH);
  CHECK(!strncmp(said, line, strlen(line)));
  CHECK(strstr(said, "because the loop at work_test.c:"));
  CHECK(strstr(said, "shared: reshard it with spec -,x"));
  /* The spec that it names is one. */
  tsr_sharding so = tsr_on(f.mesh, "-,x");
  c = compiled(&f, scanned_so, &so);
  check_share(c, 8, 1);
  CHECK(!strstr(tsr_compiled_text(c), "repeated work"));
  c = compiled(&f, sliced, NULL);
  check_share(c, 8, 8);
  said = strstr(tsr_compiled_text(c), "repeated work over x=8: ");
  CHECK(said && !strncmp(said, line, strlen(line)));
  CHECK(strstr(said, "because dot at work_test.c:"));
  CHECK(strstr(said, " and 7 more of its kind\n    shared: constrain it with spec x,-\n"));
  so = tsr_on(f.mesh, "x,-");
  c = compiled(&f, sliced_so, &so);
  check_share(c, 8, 1);
  CHECK(!strstr(tsr_compiled_text(c), "repeated work"));
  close_fixture(&f);
}

static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_square(layer(in[1], in[0])));
}

static tsr_array *slope_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *slope = tsr_call(tsr_grad(tsr_function_make(s, loss)), in[2], in[1]);
  return tsr_tuple(s, tsr_add(in[0], slope), tsr_num(s, 0));
}

/* Gradients of micro-batches added up. */
static tsr_array *slopes(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *zero =
      tsr_full(s, 0, TSR_F32, TSR_SHAPE(WIDTH, WIDTH), (tsr_sharding){ .mesh = NULL });
  return tsr_item(tsr_scan(slope_step, NULL, zero, .xs = micro_batches(in[0]), .with = in[1]), 0);
}

/* Shared steps of gradients move more than the batch, so that fast devices make all of them and
 * slow ones share. Where flops are left out, 128 weigh as much as a byte. */
TEST(flops_of_devices_decide)
{
  static const struct {
    const char *mesh;
    double times;
  } rows[] = { { "x=8@1e9", 1 }, { "x=8@1e9;flops=128e9", 1 }, { "x=8@1e9;flops=9e15", 8 } };
  for (int i = 0; i < 3; i++) {
    fixture f = open_fixture("cpu:8", rows[i].mesh);
    tsr_figures got = tsr_compiled_figures(compiled(&f, slopes, NULL));
    double times = got.device_flops * 8 / got.flops;
    if (times < rows[i].times || times > rows[i].times * 1.1)
      FAIL("%s: %g times the work", rows[i].mesh, times);
    close_fixture(&f);
  }
}

/* Over two batches: a gather of one would serve both loops. */
static tsr_array *two_loops(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *const other[] = { tsr_mul(in[0], 2), in[1], NULL };
  return tsr_tuple(s, scanned(s, in, user), slopes(s, other, user));
}

/* Each loop is weighed by itself, with all of its steps: the first one moves little in a step. */
TEST(loops_of_one_program_differ)
{
  fixture f = open_fixture("cpu:8", "x=8@1e9;flops=9e15");
  tsr_compiled *c = compiled(&f, two_loops, NULL);
  tsr_figures got = tsr_compiled_figures(c);
  CHECK_I64(bytes_of(&got, "all-to-all"), SENT);
  CHECK_I64(bytes_of(&got, "all-gather"), 8 * SENT);
  CHECK(strstr(tsr_compiled_text(c), "repeated work over x=8: "));
  close_fixture(&f);
}

/* A user who wants micro-batches whole has them whole. */
TEST(places_of_users_stand)
{
  fixture f = open_fixture("cpu:8", "x=8");
  tsr_sharding whole = tsr_on(f.mesh, "-,-,-");
  tsr_compiled *c = compiled(&f, scanned_so, &whole);
  check_share(c, 8, 8);
  tsr_figures got = tsr_compiled_figures(c);
  CHECK_I64(bytes_of(&got, "all-gather"), 8 * SENT);
  close_fixture(&f);
}

/* A program that is planned with shared work and without, with a loop and repeated products. */
TEST(no_memory_is_an_error_and_leaks_nothing)
{
  fixture f = open_fixture("cpu:8", "x=8@1e12;flops=9e15");
  tsr_sharding rows = tsr_on(f.mesh, "x"), whole = tsr_on(f.mesh, "");
  tsr_array *x = tsr_full(f.s, 1, TSR_F32, TSR_SHAPE(BATCH, WIDTH), rows);
  tsr_array *w = tsr_full(f.s, 1, TSR_F32, TSR_SHAPE(WIDTH, WIDTH), whole);
  tsr_array *in[] = { x, w, NULL }, *roots[2];
  CHECK_STATUS(tsr_eval(in, 2), TSR_OK, f.s);
  roots[0] = scanned(f.s, in, NULL);
  roots[1] = sliced(f.s, in, NULL);
  tsr__program program;
  tsr__partitioned parts;
  tsr__error error = { .status = TSR_OK };
  tsr__program_init(&program, &f.rt->heap);
  CHECK_STATUS(tsr__program_trace(&program, roots, 2, &error), TSR_OK, f.s);
  int64_t calls = 0;
  for (int64_t fail = 1, done = 0; !done; fail++) {
    struct test_alloc state = { .fail_at = fail };
    tsr_allocator allocator = test_allocator(&state);
    tsr__heap heap;
    tsr__heap_init(&heap, &allocator);
    error.status = TSR_OK;
    tsr_status status = tsr__partition(&program, &heap, &parts, &error);
    CHECK(status == TSR_OK || status == TSR_ENOMEM);
    done = state.count < fail;
    CHECK(!done || (parts.inner_count == 1 && parts.repeated_count == 2));
    if (!status) tsr__partitioned_free(&parts, &heap);
    CHECK_I64(state.live, 0);
    calls = fail;
  }
  CHECK(calls > 50);
  tsr__program_free(&program);
  close_fixture(&f);
}
