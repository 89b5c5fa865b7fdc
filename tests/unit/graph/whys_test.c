/* Each reason of graph/whys.def as an explanation tells it, by a program in which it moves data. No
 * call of the library is told as if somebody had asked for its place. */
#include <stdlib.h>
#include <string.h>

#include "graph/whys.h"
#include "harness.h"
#include "support/mesh_fixture.h"
#include "support/told.h"
#include "support/verb_cases.h"
#include "tessera.h"

enum { SIDE = 8 };

/* Numbers that have lain at a place. */
static tsr_array *laid(fixture *f, const char *spec)
{
  static double numbers[SIDE * SIDE];
  tsr_array *a = tsr_put(f->s, numbers, TSR_F64, TSR_SHAPE(SIDE, SIDE), tsr_on(f->mesh, spec));
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, f->s);
  return a;
}

static tsr_array *sines(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sin(in[0]);
}

/* ---- a program for each reason ---- */

static tsr_array *asked(fixture *f)
{
  return tsr_reshard(laid(f, "x,-"), tsr_on(f->mesh, "-,x"));
}

static tsr_array *constrained(fixture *f)
{
  return tsr_constrain(laid(f, "x,-"), tsr_on(f->mesh, "-,x"));
}

static tsr_array *on(fixture *f)
{
  return tsr_shuffle(laid(f, "x,-"), 0, .key = 1, .on = tsr_on(f->mesh, "-,y"));
}

static tsr_array *in_specs(fixture *f)
{
  return tsr_call(tsr_function_make(f->s, sines, .in_specs = { "-,x" }, .mesh = f->mesh),
                  laid(f, "x,-"));
}

static tsr_array *out_specs(fixture *f)
{
  return tsr_call(tsr_function_make(f->s, sines, .out_specs = { "-,x" }, .mesh = f->mesh),
                  laid(f, "x,-"));
}

static tsr_array *both(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tuple(s, tsr_sin(in[0]), tsr_sin(in[1]));
}

/* What lies nowhere is by these rules whole on the mesh of the others. */
static tsr_array *explicitly(fixture *f)
{
  static double numbers[SIDE];
  tsr_array *nowhere = tsr_put(f->s, numbers, TSR_F64, TSR_SHAPE(SIDE), (tsr_sharding){ 0 });
  tsr_function *made = tsr_function_make(f->s, both, .explicit_shardings = true);
  return tsr_call(made, nowhere, laid(f, "x,y"));
}

static tsr_array *loaded(fixture *f)
{
  tsr_function *made = tsr_function_make(f->s, sines);
  tsr_array *like = laid(f, "-,x");
  CHECK_STATUS(tsr_function_save(made, test_tmp("why.txt"), like), TSR_OK, f->s);
  return tsr_call(tsr_function_load(f->s, test_tmp("why.txt")), laid(f, "x,-"));
}

static tsr_array *pmap(fixture *f)
{
  return tsr_call(tsr_pmap(tsr_function_make(f->s, sines)), laid(f, "-,x"));
}

static tsr_array *xmap(fixture *f)
{
  tsr_function *made = tsr_function_make(f->s, sines);
  return tsr_call(tsr_xmap(made, .in_axes = { "-,x" }, .out_axes = { "-,x" }, .mesh = f->mesh),
                  laid(f, "x,-"));
}

static tsr_array *cut(fixture *f)
{
  return tsr_shard_map(f->mesh, sines, NULL, .in = { laid(f, "x,-") }, .in_specs = { "-,x" },
                       .out_specs = { "-,x" });
}

static tsr_array *dealt_out(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_all_to_all(in[0], "y", .dim = 1);
}

/* What each place has of all is joined along the places. */
static tsr_array *joined(fixture *f)
{
  tsr_array *a = tsr_reshape(tsr_arange(f->s, .stop = 64), TSR_SHAPE(16, 4));
  return tsr_shard_map(f->mesh, dealt_out, NULL, .in = { a }, .in_specs = { "y" },
                       .out_specs = { "y" });
}

static tsr_array *held(tsr_scope *s, tsr_array *const *in, void *user)
{
  fixture *f = user;
  (void)s;
  return tsr_sum(tsr_mul(tsr_constrain(tsr_sin(in[0]), tsr_on(f->mesh, "-,x")), in[1]));
}

static tsr_array *back(fixture *f)
{
  tsr_function *sum = tsr_function_make(f->s, held, .user = f);
  return tsr_call(tsr_grad(sum), laid(f, "x,-"), laid(f, "x,-"));
}

static tsr_array *state(fixture *f)
{
  tsr_array *p = laid(f, ""), *g = laid(f, "x,y");
  return tsr_item(tsr_sgd(p, g, tsr_sgd_state(p), .rate = TSR_OPERAND(0.1)), 0);
}

static tsr_array *add_up(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tuple(s, tsr_add(in[0], in[1]), in[0]);
}

/* Slices without a dim that could be cut instead. */
static tsr_array *steps(fixture *f)
{
  tsr_array *zero = tsr_full(f->s, 0, TSR_F64, TSR_SCALAR, tsr_on(f->mesh, ""));
  tsr_array *sums = tsr_sum(laid(f, "x,-"), .dims = TSR_DIMS(1));
  return tsr_item(tsr_scan(add_up, NULL, zero, .xs = sums), 0);
}

static tsr_array *each_sine(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tuple(s, in[0], tsr_sin(in[1]));
}

static tsr_array *shared(fixture *f)
{
  return tsr_item(tsr_scan(each_sine, NULL, tsr_num(f->s, 0), .xs = laid(f, "x,-")), 1);
}

static tsr_array *onto(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_add(in[1], (tsr_array *)user);
}

/* A carry that began nowhere. */
static tsr_array *carried(fixture *f)
{
  static double numbers[SIDE * SIDE];
  tsr_array *nowhere = tsr_put(f->s, numbers, TSR_F64, TSR_SHAPE(SIDE, SIDE), (tsr_sharding){ 0 });
  return tsr_fori(0, 3, onto, laid(f, "x,-"), nowhere);
}

static tsr_array *turned(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_transpose(in[1]);
}

static tsr_array *next(fixture *f)
{
  return tsr_fori(0, 3, turned, NULL, laid(f, "x,-"));
}

static tsr_array *transposed(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_transpose(in[0]);
}

static tsr_array *left(fixture *f)
{
  tsr_array *yes = tsr_full(f->s, 1, TSR_BOOL, TSR_SCALAR, tsr_on(f->mesh, ""));
  return tsr_cond(yes, sines, transposed, NULL, laid(f, "x,-"));
}

/* Frames say it themselves: their rows lie as the first column does, and c is brought there. */
static const char *rows(fixture *f)
{
  static const double numbers[SIDE];
  const char *text = NULL;
  tsr_frame *df[2];
  for (int i = 0; i < 2; i++) {
    tsr_sharding at = tsr_on(f->mesh, i ? "y" : "x"), apart = tsr_on(f->mesh, "y+x");
    df[i] = tsr_frame_new(f->s, { "a", tsr_put(f->s, numbers, TSR_F64, TSR_SHAPE(SIDE), at) },
                          { "c", tsr_put(f->s, numbers, TSR_F64, TSR_SHAPE(SIDE), apart) });
  }
  CHECK_STATUS(tsr_frame_explain_into(tsr_frame_add(df[0], df[1]), &text), TSR_OK, f->s);
  return text;
}

/* ---- the table ---- */

static tsr_array *exchanged(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_ragged_all_to_all(in[0], "y", .to = in[0], .starts = in[1], .sizes = in[2],
                               .places = in[3]);
}

static tsr_array *said(fixture *f)
{
  tsr_array *in[] = { tsr_arange(f->s, .stop = 16), tsr_arange(f->s, .stop = 16),
                      tsr_full(f->s, 1, TSR_I64, TSR_SHAPE(16), (tsr_sharding){ 0 }), NULL };
  in[1] = tsr_cast(tsr_mod(in[1], 4), TSR_I64);
  in[3] = tsr_add(tsr_neg(in[1]), 3);
  for (int i = 0; i < 4; i++) in[i] = tsr_reshard(in[i], tsr_on(f->mesh, "y"));
  CHECK_STATUS(tsr_eval(in, 4), TSR_OK, f->s);
  return tsr_shard_map(f->mesh, exchanged, NULL, .in = { in[0], in[1], in[2], in[3] },
                       .in_specs = { "y", "y", "y", "y" }, .out_specs = { "y" });
}

static tsr_array *(*const programs[TSR__WHYS])(fixture *) = {
  [TSR__WHY_ASKED] = asked,
  [TSR__WHY_CONSTRAINED] = constrained,
  [TSR__WHY_ON] = on,
  [TSR__WHY_IN_SPECS] = in_specs,
  [TSR__WHY_OUT_SPECS] = out_specs,
  [TSR__WHY_EXPLICIT] = explicitly,
  [TSR__WHY_LOADED] = loaded,
  [TSR__WHY_PMAP] = pmap,
  [TSR__WHY_XMAP] = xmap,
  [TSR__WHY_CUT] = cut,
  [TSR__WHY_JOINED] = joined,
  [TSR__WHY_BACK] = back,
  [TSR__WHY_STATE] = state,
  [TSR__WHY_STEPS] = steps,
  [TSR__WHY_CARRIED] = carried,
  [TSR__WHY_NEXT] = next,
  [TSR__WHY_LEFT] = left,
  [TSR__WHY_SAID] = said,
  [TSR__WHY_SHARED] = shared,
};

static const char *say(fixture *f, int why)
{
  if (why == TSR__WHY_ROWS) return rows(f);
  if (!programs[why]) FAIL("reason %d has no program here", why);
  tsr_array *a = programs[why](f);
  if (tsr_is_inert(a)) FAIL("reason %d: %s", why, tsr_message(f->s));
  return told_of(a, tsr__whys[why].what);
}

/* "because <who> at whys_test.c:12 <what>". */
static bool tells(const char *text, int why)
{
  char begin[100];
  snprintf(begin, sizeof begin, "because %s at whys_test.c:", tsr__whys[why].who);
  for (const char *at = text; (at = strstr(at, begin)); at++) {
    const char *what = at + strlen(begin);
    what += strspn(what, "0123456789");
    if (!strncmp(what, " (of ", 5)) what = strchr(what, ')') + 1;
    if (!strncmp(what, " (back from ", 12)) what = strchr(what, ')') + 1;
    size_t length = strlen(tsr__whys[why].what);
    if (*what == ' ' && !strncmp(what + 1, tsr__whys[why].what, length)) return true;
  }
  return false;
}

TEST(each_reason_is_told_with_the_line_of_the_user)
{
  for (int why = 0; why < TSR__WHYS; why++) {
    fixture f = open_fixture("cpu:8", "x=2,y=4");
    char *text = told_unfold(say(&f, why));
    told_check(text, tsr__whys[why].what);
    if (!tells(text, why))
      FAIL("reason %d (%s) is not told in: %s", why, tsr__whys[why].what, text);
    bool gives = programs[why] == asked || programs[why] == constrained || programs[why] == on;
    if (!gives && strstr(text, "asks for")) FAIL("nobody asked: %s", text);
    free(text);
    close_fixture(&f);
  }
}

/* ---- all calls ---- */

static int told;

static void look(tsr_array *a, const char *job)
{
  const char *text = told_of(a, job);
  told += text && strstr(text, "because ");
}

/* Every job of every verb: what is said of each array before it is read. */
TEST(no_call_is_told_as_asked_for_where_nobody_asked)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  uint64_t hash;
  verb_files();
  verb_look = look;
  told = 0;
  for (int i = 0; i < verb_case_count; i++) {
    verb_out_reset();
    verb_run(&verb_cases[i], rt, &hash);
  }
  CHECK(told > 40);
  tsr_runtime_close(rt);
}
