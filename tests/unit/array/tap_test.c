/* Arrays shown on their way through programs, in bodies too; what is traced anew and why. */
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "support/mesh_fixture.h"
#include "tessera.h"

/* What callbacks were told. */
typedef struct told {
  int calls, sharding_calls;
  char spec[64], lines[2000];
  double sums[8];
  int64_t starts[8];
  int devices[8];
} told;

static void on_sharding(tsr_sharding sharding, tsr_dtype dtype, tsr_shape shape, void *user)
{
  told *t = user;
  (void)dtype;
  t->sharding_calls++;
  tsr_sharding_text(&sharding, shape.rank, t->spec, sizeof t->spec);
}

static tsr_status on_values(const tsr_seen *seen, void *user)
{
  told *t = user;
  int64_t count = 1;
  for (int d = 0; d < seen->shape.rank; d++) count *= seen->shape.dims[d];
  if (t->calls >= 8) return TSR_ESTATE;
  for (int64_t i = 0; i < count; i++) t->sums[t->calls] += (double)((const float *)seen->data)[i];
  t->starts[t->calls] = seen->box.start[0];
  t->devices[t->calls++] = seen->device;
  return TSR_OK;
}

static void on_line(const char *line, void *user)
{
  told *t = user;
  strncat(t->lines, line, sizeof t->lines - strlen(t->lines) - 1);
}

static void on_log(tsr_log_level level, const char *area, const char *line, void *user)
{
  (void)level, (void)area;
  on_line(line, user);
  on_line("\n", user);
}

static tsr_array *counted(fixture *f, tsr_shape shape, const char *spec)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  tsr_array *a = tsr_arange(f->s, 0, (double)count, .dtype = TSR_F32);
  tsr_array *out = tsr_reshard(tsr_reshape(a, shape), tsr_on(f->mesh, spec));
  CHECK_STATUS(tsr_eval(&out, 1), TSR_OK, f->s);
  return out;
}

/* ---- shardings ------------------------------------------------------------------------------- */

static tsr_array *inspects(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_inspect_sharding(tsr_mul(in[0], 2), on_sharding, user);
}

TEST(a_sharding_is_told_at_once_or_when_the_call_is_planned)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  told t = { 0 };
  tsr_array *x = counted(&f, TSR_SHAPE(8, 4, 2), "x,-,y");
  CHECK(tsr_inspect_sharding(x, on_sharding, &t) == x);
  CHECK_STR(t.spec, "(x,-,y)");
  tsr_array *more = tsr_add(counted(&f, TSR_SHAPE(4, 2), "y,x"), 1);
  tsr_inspect_sharding(more, on_sharding, &t);
  CHECK_STR(t.spec, "(y,x)");
  CHECK_I64(t.sharding_calls, 2);
  tsr_function *fn = tsr_function_make(f.s, inspects, .user = &t);
  tsr_array *out = tsr_call(fn, x);
  CHECK_I64(t.sharding_calls, 2); /* traced, not yet planned */
  CHECK_STATUS(tsr_eval(&out, 1), TSR_OK, f.s);
  CHECK_I64(t.sharding_calls, 3);
  CHECK_STR(t.spec, "(x,-,y)");
  out = tsr_call(fn, x);
  CHECK_STATUS(tsr_eval(&out, 1), TSR_OK, f.s);
  CHECK_I64(t.sharding_calls, 3); /* the plan is found */
  tsr_compile(fn, tsr_abstract(f.s, TSR_F32, TSR_SHAPE(8, 2, 2), tsr_on(f.mesh, "y,x")));
  CHECK_I64(t.sharding_calls, 4); /* when it is compiled */
  CHECK_STR(t.spec, "(y,x,-)");
  close_fixture(&f);
}

/* Callbacks run under no lock: this one asks of another plan. */
static void asks_back(tsr_sharding sharding, tsr_dtype dtype, tsr_shape shape, void *user)
{
  const char *text;
  tsr_array *x = tsr_sum(tsr_iota(user, dtype, shape, 0, sharding));
  CHECK_STATUS(tsr_explain_into(&x, 1, &text), TSR_OK, user);
  CHECK_STR_HAS(text, "kernel 1");
}

static tsr_array *asks(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_inspect_sharding(tsr_mul(in[0], 2), asks_back, user);
}

TEST(who_is_told_of_a_sharding_may_ask_back)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *x = counted(&f, TSR_SHAPE(8, 4, 2), "x,-,y"), *out;
  tsr_function *fn = tsr_function_make(f.s, asks, .user = f.s);
  const char *text;
  out = tsr_call(fn, x);
  CHECK_STATUS(tsr_explain_into(&out, 1, &text), TSR_OK, f.s);
  CHECK_STATUS(tsr_eval(&out, 1), TSR_OK, f.s);
  out = tsr_call(fn, tsr_add(x, 1));
  CHECK_STATUS(tsr_eval(&out, 1), TSR_OK, f.s);
  close_fixture(&f);
}

/* ---- elements -------------------------------------------------------------------------------- */

static tsr_array *shows(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *x = tsr_callback(tsr_mul(in[0], 2), on_values, .user = user);
  return tsr_sum(tsr_add(x, 1));
}

static tsr_array *shows_shards(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *x = tsr_callback(tsr_mul(in[0], 2), on_values, .user = user, .shards = true);
  return tsr_sum(tsr_add(x, 1));
}

TEST(a_body_shows_elements_whole_or_by_device)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  told whole = { 0 }, parts = { 0 };
  double got;
  tsr_array *x = counted(&f, TSR_SHAPE(10, 2), "x");
  tsr_function *fn = tsr_function_make(f.s, shows, .user = &whole);
  for (int i = 0; i < 2; i++) CHECK_STATUS(tsr_read_scalar(tsr_call(fn, x), &got), TSR_OK, f.s);
  CHECK(got == 400 && whole.sums[0] == 380 && whole.sums[1] == 380);
  CHECK(whole.calls == 2 && whole.devices[0] == -1);
  fn = tsr_function_make(f.s, shows_shards, .user = &parts);
  CHECK_STATUS(tsr_read_scalar(tsr_call(fn, x), &got), TSR_OK, f.s);
  CHECK(got == 400 && parts.calls == 8);
  double sum = 0;
  for (int i = 0; i < 8; i += 2) { /* y holds replicas; rows are 3, 3, 2, 2 */
    static const int64_t starts[] = { 0, 3, 6, 8 };
    CHECK_I64(parts.starts[i], starts[i / 2]);
    CHECK_I64(parts.devices[i], i);
    CHECK(parts.sums[i] == parts.sums[i + 1]);
    sum += parts.sums[i];
  }
  CHECK(sum == 380);
  close_fixture(&f);
}

static tsr_array *prints(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *x = tsr_print(in[0], "{{first}} {type}: {}", .write = on_line, .user = user);
  x = tsr_print(tsr_neg(x), "device {device} has {}", .write = on_line, .user = user,
                .shards = true);
  return tsr_sum(x);
}

TEST(numbers_of_formulas_are_shown)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  told t = { 0 };
  double got;
  tsr_array *x = tsr_print(tsr_num(f.s, 3.5), "{process}: {}", .write = on_line, .user = &t);
  CHECK_STATUS(tsr_read_scalar(tsr_add(x, 1), &got), TSR_OK, f.s);
  CHECK(got == 4.5);
  x = tsr_print(tsr_mul(tsr_num(f.s, 3), 2), "{}", .write = on_line, .user = &t);
  CHECK_STATUS(tsr_read_scalar(x, &got), TSR_OK, f.s);
  CHECK_STR(t.lines, "0: 3.5\n6\n");
  close_fixture(&f);
}

TEST(lines_come_in_the_order_of_what_they_read)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  told t = { 0 };
  double got;
  f.mesh = tsr_mesh_make(f.rt, "x=2");
  tsr_function *fn = tsr_function_make(f.s, prints, .user = &t);
  tsr_array *x = counted(&f, TSR_SHAPE(4), "x");
  CHECK_STATUS(tsr_read_scalar(tsr_call(fn, x), &got), TSR_OK, f.s);
  CHECK(got == -6);
  CHECK_STR(t.lines, "{first} f32[4]: [0. 1. 2. 3.]\n"
                     "device 0 has [-0. -1.]\ndevice 1 has [-2. -3.]\n");
  close_fixture(&f);
}

static tsr_status refuses(const tsr_seen *seen, void *user)
{
  (void)seen;
  return *(tsr_status *)user;
}

static tsr_array *may_fail(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_sum(tsr_callback(in[0], refuses, .user = user));
}

TEST(a_callback_that_fails_fails_the_terminal)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_status status = TSR_EVALUE;
  double got;
  tsr_array *x = counted(&f, TSR_SHAPE(4), "x");
  tsr_function *fn = tsr_function_make(f.s, may_fail, .user = &status);
  CHECK_STATUS(tsr_read_scalar(tsr_call(fn, x), &got), TSR_EVALUE, NULL);
  CHECK_STR_HAS(tsr_message(f.s), "the callback of tsr_callback at ");
  CHECK_STR_HAS(tsr_message(f.s), "tap_test.c:");
  tsr_scope_clear(f.s);
  status = TSR_OK;
  CHECK_STATUS(tsr_read_scalar(tsr_call(fn, x), &got), TSR_OK, f.s);
  CHECK(got == 6);
  close_fixture(&f);
}

TEST(gradients_and_mapping_pass_through)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  told t = { 0 }, mapped = { 0 };
  float slope[4], rows[3];
  tsr_function *fn = tsr_function_make(f.s, shows, .user = &t);
  tsr_array *x = counted(&f, TSR_SHAPE(4), "x");
  CHECK_STATUS(tsr_read(tsr_call(tsr_grad(fn), x), slope, sizeof slope), TSR_OK, f.s);
  for (int i = 0; i < 4; i++) CHECK(slope[i] == 2);
  fn = tsr_function_make(f.s, shows, .user = &mapped);
  tsr_array *y = counted(&f, TSR_SHAPE(3, 2), "");
  CHECK_STATUS(tsr_read(tsr_call(tsr_vmap(fn), y), rows, sizeof rows), TSR_OK, f.s);
  CHECK_I64(mapped.calls, 1); /* all rows at once */
  CHECK_I64((int64_t)mapped.sums[0], 30);
  CHECK(rows[0] == 4 && rows[1] == 12 && rows[2] == 20);
  close_fixture(&f);
}

/* ---- what is traced anew --------------------------------------------------------------------- */

static tsr_array *twice_of(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_is_tree(in[0]) ? tsr_mul(tsr_item(in[0], 0), 2) : tsr_mul(in[0], 2);
}

TEST(what_is_traced_anew_is_told_with_what_changed)
{
  static const char *const want[] = {
    ": its first call\n",
    ": the shape of array 0 changed: f32[8]@(x), was f32[4]@(x)\n",
    ": the dtype of array 0 changed: f64[8]@(x), was f32[8]@(x)\n",
    ": the sharding of array 0 changed: f64[8]@(y), was f64[8]@(x)\n",
    ": the bytes at .user changed\n",
    ": the forms of the arguments are (*, *);, and were *;\n",
  };
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  told t = { 0 };
  int bytes = 1;
  tsr_log_compiles(f.rt, on_log, &t);
  tsr_function *fn = tsr_function_make(f.s, twice_of, .name = "doubled", .user = &bytes,
                                       .user_bytes = sizeof bytes);
  tsr_array *four = counted(&f, TSR_SHAPE(4), "x"), *eight = counted(&f, TSR_SHAPE(8), "x");
  tsr_array *wide = tsr_cast(eight, TSR_F64), *other;
  CHECK_STATUS(tsr_eval(&wide, 1), TSR_OK, f.s);
  other = tsr_reshard(wide, tsr_on(f.mesh, "y"));
  CHECK_STATUS(tsr_eval(&other, 1), TSR_OK, f.s);
  tsr_array *const given[] = { four, four, eight, wide, other };
  for (int i = 0; i < 5; i++) tsr_call(fn, given[i]);
  bytes = 2;
  tsr_call(fn, other);
  tsr_call(fn, tsr_tuple(f.s, other, other));
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  char *line = t.lines;
  for (int i = 0; i < 6; i++) {
    char *end = strchr(line, '\n');
    if (!end) FAIL("%d lines: %s", i, t.lines);
    size_t length = (size_t)(end + 1 - line), tail = strlen(want[i]);
    CHECK(!strncmp(line, "traced doubled for f", 20));
    if (length < tail || memcmp(end + 1 - tail, want[i], tail)) FAIL("%.*s", (int)length, line);
    line = end + 1;
  }
  CHECK_STR(line, "");
  tsr_log_compiles(f.rt, NULL, NULL);
  tsr_call(fn, counted(&f, TSR_SHAPE(6), "x"));
  CHECK_STR(line, "");
  close_fixture(&f);
}
