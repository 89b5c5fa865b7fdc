/* The search for NaN: what is named is the first operation that made one, with its line. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

typedef struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
} fixture;

static fixture open_fixture(const char *check)
{
  fixture f = { .rt = tsr_runtime_open("cpu:4", .threads = 2, .check_floats = check) };
  f.s = tsr_scope_open(f.rt);
  f.mesh = tsr_mesh_make(f.rt, "x=4");
  return f;
}

/* 8 x 3 numbers with another at [row, column]. */
static tsr_array *numbers(const fixture *f, double other, int row, int column)
{
  double data[24];
  for (int i = 0; i < 24; i++) data[i] = 1 + i;
  data[row * 3 + column] = other;
  return tsr_put(f->s, data, TSR_F64, TSR_SHAPE(8, 3), tsr_on(f->mesh, "x"));
}

/* An evaluation that fails with a text; then the runtime goes on. */
static void check_found(const fixture *f, tsr_array *a, const char *const *texts)
{
  CHECK_I64(tsr_eval(&a, 1), TSR_EVALUE);
  for (; *texts; texts++)
    if (!strstr(tsr_message(f->s), *texts)) FAIL("no \"%s\" in %s", *texts, tsr_message(f->s));
  tsr_scope_clear(f->s);
  tsr_array *fine = tsr_sum(tsr_sqrt(numbers(f, 4, 0, 0)));
  CHECK_STATUS(tsr_eval(&fine, 1), TSR_OK, f->s);
}

#define FOUND(f, a, ...) check_found((f), (a), (const char *const[]){ __VA_ARGS__, NULL })

static char line_text[64];

/* "check_floats_test.c:LINE" of the line it stands on, and so many before. */
#define LINE_BEFORE(n) \
  (snprintf(line_text, sizeof line_text, "check_floats_test.c:%d", __LINE__ - (n)), line_text)

TEST(first_operation_of_a_fused_chain_with_line_device_and_index)
{
  fixture f = open_fixture("nan");
  tsr_array *x = numbers(&f, -5, 5, 2);
  tsr_array *root = tsr_sqrt(x);
  const char *line = LINE_BEFORE(1);
  tsr_array *y = tsr_exp(tsr_add(tsr_mul(root, 2), 1));
  FOUND(&f, y, "sqrt at ", line, "computed a NaN at [5,2] on device 2",
        "from operands without one");
  /* A reduction and a routine, too. */
  FOUND(&f, tsr_sum(tsr_mul(tsr_log(numbers(&f, -1, 0, 1)), 0)), "log at ", "[0,1] on device 0");
  tsr_array *big = tsr_mul(numbers(&f, 1e308, 1, 1), 10);
  FOUND(&f, tsr_sub(big, big), "sub", "[1,1] on device 0");
  FOUND(&f, tsr_mean(tsr_neg(numbers(&f, NAN, 7, 0))), "neg", "[7,0] on device 3",
        "from an operand that has one, made at ");
  tsr_runtime_close(f.rt);
}

TEST(every_type_of_floats_and_infinities_where_asked)
{
  static const tsr_dtype types[] = { TSR_F64, TSR_F32, TSR_F16, TSR_BF16 };
  for (int inf = 0; inf < 2; inf++) {
    fixture f = open_fixture(inf ? "inf" : "nan");
    for (int t = 0; t < 4; t++) {
      tsr_array *x = tsr_cast(numbers(&f, 0, 4, 1), types[t]);
      tsr_array *log = tsr_log(x); /* -Inf, no NaN */
      if (inf) FOUND(&f, log, "log at ", "computed an Inf at [4,1] on device 2");
      else CHECK_STATUS(tsr_eval(&log, 1), TSR_OK, f.s);
      FOUND(&f, tsr_sqrt(tsr_neg(x)), "sqrt", "computed a NaN at [0,0] on device 0");
    }
    tsr_runtime_close(f.rt);
  }
}

static tsr_array *body(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_sqrt(in[0]));
}

static tsr_array *step(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sqrt(tsr_sub(in[1], 3));
}

TEST(functions_gradients_and_loops)
{
  fixture f = open_fixture("nan");
  tsr_function *sum = tsr_function_make(f.s, body);
  FOUND(&f, tsr_call(sum, numbers(&f, -1, 3, 0)), "sqrt at ",
        "check_floats_test.c:", "[3,0] on device 1");
  /* The root of 0 is no NaN; 0 times its gradient, which is infinite, is. */
  tsr_array *x = numbers(&f, 0, 6, 1);
  CHECK_STATUS(tsr_eval(&(tsr_array *){ tsr_call(sum, x) }, 1), TSR_OK, f.s);
  tsr_array *in[] = { x };
  (void)in;
  tsr_array *gradient = tsr_mul(tsr_call(tsr_grad(sum), x), tsr_sub(x, x));
  FOUND(&f, gradient, "mul at ", "[6,1] on device 3");
  /* 20 - 3 ... below zero after some steps. */
  FOUND(&f, tsr_fori(0, 6, step, NULL, numbers(&f, 2, 0, 0)), "sqrt at ", "[0,0] on device 0");
  tsr_runtime_close(f.rt);
}

TEST(without_the_option_nothing_is_looked_at_and_bits_are_the_same)
{
  double plain[8], seen[8];
  for (int on = 0; on < 2; on++) {
    fixture f = open_fixture(on ? "nan" : NULL);
    tsr_array *x = tsr_sin(tsr_div(numbers(&f, 3, 0, 0), 7));
    tsr_array *y = tsr_sum(tsr_mul(tsr_exp(x), x), .dims = TSR_DIMS(1));
    CHECK_STATUS(tsr_read(y, on ? seen : plain, sizeof plain), TSR_OK, f.s);
    tsr_array *bad = tsr_sqrt(numbers(&f, -1, 0, 0));
    CHECK_I64(tsr_eval(&bad, 1), on ? TSR_EVALUE : TSR_OK);
    tsr_runtime_close(f.rt);
  }
  CHECK(!memcmp(plain, seen, sizeof plain));
}

TEST(the_environment_says_it_too_and_another_word_is_refused)
{
  setenv("TSR_CHECK_FLOATS", "inf", 1);
  fixture f = open_fixture(NULL);
  FOUND(&f, tsr_log(numbers(&f, 0, 0, 0)), "an Inf");
  tsr_runtime_close(f.rt);
  setenv("TSR_CHECK_FLOATS", "all", 1);
  f = open_fixture(NULL);
  CHECK_I64(tsr_runtime_status(f.rt), TSR_EARG);
  CHECK(strstr(tsr_runtime_message(f.rt), "$TSR_CHECK_FLOATS is \"all\", expected \"nan\""));
  tsr_runtime_close(f.rt);
  f = open_fixture("nan"); /* the option counts before it */
  CHECK_I64(tsr_runtime_status(f.rt), TSR_OK);
  tsr_runtime_close(f.rt);
}
