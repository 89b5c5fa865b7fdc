/* What every call of arrays says of wrong input: golden/refusals.txt, to be read line by line. The
 * text of a message begins with the line and the name of the call that was made; what it is made of
 * is not named. REFUSALS_WRITE=1 writes the file instead of comparing. A public call of arrays that
 * takes a line, and so can be refused, has a case here or a reason in `never`. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "tessera.h"

/* ---- what is asked, of what ------------------------------------------------------------------ */

static tsr_runtime *rt, *other;
static tsr_scope *s;
static tsr_mesh *mesh; /* x=2,y=2 */
static const tsr_sharding free_place;
static FILE *page;
static int cases;
static FILE *called; /* the names of the calls of all cases, a line each */

/* Arrays by dtype and shape: f34 is f32[3,4]. */
static tsr_array *f34, *f43, *f23, *f3, *f4, *f03, *f, *wide16, *d3, *i3, *i34, *i2, *i, *u3, *b3,
    *b2, *b34, *k3, *stranger, *gone;

static tsr_array *ones(tsr_dtype dtype, tsr_shape shape)
{
  return tsr_full(s, 1, dtype, shape, (tsr_sharding){ 0 });
}

static void open_world(void)
{
  rt = tsr_runtime_open("cpu:4");
  other = tsr_runtime_open("cpu:4");
  s = tsr_scope_open(rt);
  mesh = tsr_mesh_make(rt, "x=2,y=2");
  f34 = ones(TSR_F32, TSR_SHAPE(3, 4));
  f43 = ones(TSR_F32, TSR_SHAPE(4, 3));
  f23 = ones(TSR_F32, TSR_SHAPE(2, 3));
  f3 = ones(TSR_F32, TSR_SHAPE(3));
  f4 = ones(TSR_F32, TSR_SHAPE(4));
  f03 = ones(TSR_F32, TSR_SHAPE(0, 3));
  f = ones(TSR_F32, TSR_SCALAR);
  wide16 = ones(TSR_F32, TSR_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3));
  d3 = ones(TSR_F64, TSR_SHAPE(3));
  i3 = ones(TSR_I32, TSR_SHAPE(3));
  i34 = ones(TSR_I32, TSR_SHAPE(3, 4));
  i2 = ones(TSR_I64, TSR_SHAPE(2));
  i = ones(TSR_I64, TSR_SCALAR);
  u3 = ones(TSR_U64, TSR_SHAPE(3));
  b3 = ones(TSR_BOOL, TSR_SHAPE(3));
  b2 = ones(TSR_BOOL, TSR_SHAPE(2));
  b34 = ones(TSR_BOOL, TSR_SHAPE(3, 4));
  k3 = ones(TSR_I8, TSR_SHAPE(3));
  gone = tsr_add(f3, 1);
  tsr_delete(gone);
  stranger = tsr_full(tsr_scope_open(other), 1, TSR_F32, TSR_SHAPE(3), (tsr_sharding){ 0 });
}

/* ---- the page -------------------------------------------------------------------------------- */

/* Writes a text with "here" for every line of this file. */
static void put_text(const char *text)
{
  const char *file = __FILE__ ":";
  for (const char *at; (at = strstr(text, file)); text = at) {
    fprintf(page, "%.*shere", (int)(at - text), text);
    at += strlen(file);
    at += strspn(at, "0123456789");
  }
  fputs(text, page);
}

/* The name that a case begins with: "tsr_take" of "tsr_take(f34, i2, 2)". Those are noted. */
static int name_of(const char *text, char name[64])
{
  text = strstr(text, "tsr_");
  int length = (int)strcspn(text, "(");
  if (length > 3 && !strncmp(text + length - 3, "_at", 3)) length -= 3;
  if (length > 5 && !strncmp(text + length - 5, "_with", 5)) length -= 5;
  fprintf(called, "%.*s\n", length, text);
  return snprintf(name, 64, "%.*s", length, text);
}

/* The message of the call: behind its line and its name, which must be there. */
static const char *message_of(const char *text, const char *where)
{
  char name[64];
  const char *message = tsr_message(s);
  int length = name_of(text, name);
  if (strncmp(message, where, strlen(where))) FAIL("%s: no line in: %s", text, message);
  message += strlen(where) + strlen(": ");
  const char *said = strstr(message, ": ") + 2;
  if (strncmp(said, name, (size_t)length) || said[length] != ':')
    FAIL("%s names another call: %s", text, message);
  return message;
}

static void put_case(const char *text, const char *message)
{
  fprintf(page, "%s\n  ", text);
  put_text(message);
  fputs("\n", page);
  tsr_scope_clear(s);
  cases++;
}

/* A call that must fail and say so, here. */
static void refused(const char *text, bool is_inert, const char *where)
{
  if (!is_inert || !tsr_scope_status(s)) FAIL("%s is taken: %s", text, tsr_message(s));
  put_case(text, message_of(text, where));
}

/* The same of a terminal. */
static void failed(const char *text, tsr_status status, const char *where)
{
  if (!status || status != tsr_scope_status(s)) FAIL("%s is taken: %s", text, tsr_message(s));
  put_case(text, message_of(text, where));
}

#define NO(...) refused(#__VA_ARGS__, tsr_is_inert(__VA_ARGS__), TSR_HERE)
#define NO_END(...) failed(#__VA_ARGS__, (__VA_ARGS__), TSR_HERE)

/* Arguments of a program that was compiled for a later version, which uses what that one added. */
static const void *later(const void *args, size_t known)
{
  static union {
    size_t size;
    unsigned char bytes[4096];
  } all;
  memcpy(&all, args, known);
  memset(all.bytes + known, 1, sizeof all - known);
  all.size = sizeof all;
  return &all;
}

#define LATER(type, ...) later(&(type){ __VA_ARGS__ }, sizeof(type))

static void title(const char *text)
{
  fprintf(page, "%s# %s\n\n", cases ? "\n" : "", text);
}

/* ---- families -------------------------------------------------------------------------------- */

/* Calls of a family that say the same but for their names, together. */
typedef struct echo {
  char *said, *names;
} echo;

enum { ECHOES = 64 };

static echo echoes[ECHOES];

/* Adds what `name` says to the echoes; what is taken says nothing. */
static void listen(const char *name, const char *text, tsr_array *made, const char *where)
{
  char whole[64];
  if (!tsr_is_inert(made)) return;
  snprintf(whole, sizeof whole, "tsr_%s(%s", name, text);
  const char *message = message_of(whole, where);
  char *said = NULL;
  size_t size;
  FILE *out = open_memstream(&said, &size);
  fprintf(out, "%.*stsr_NAME%s", (int)strcspn(message, ":") + 2, message,
          strstr(message, ": ") + 2 + strlen("tsr_") + strlen(name));
  fclose(out);
  tsr_scope_clear(s);
  cases++;
  int at = 0;
  while (at < ECHOES && echoes[at].said && strcmp(echoes[at].said, said)) at++;
  CHECK(at < ECHOES);
  echo *e = &echoes[at];
  size_t names = e->names ? strlen(e->names) : 0;
  e->names = realloc(e->names, names + strlen(name) + 2);
  sprintf(e->names + names, " %s", name);
  if (e->said) free(said);
  else e->said = said;
}

static void put_echoes(const char *text)
{
  for (int at = 0; at < ECHOES && echoes[at].said; at++) {
    fprintf(page, "tsr_NAME(%s of%s\n  ", text, echoes[at].names);
    put_text(echoes[at].said);
    fputs("\n", page);
    free(echoes[at].said);
    free(echoes[at].names);
  }
  memset(echoes, 0, sizeof echoes);
}

/* clang-format off */
#define ONES(X)                                                                               \
  X(neg) X(abs) X(rint) X(floor) X(ceil) X(trunc) X(not) X(popcount) X(clz) X(isnan) X(sqrt)  \
  X(exp) X(exp2) X(expm1) X(log) X(log1p) X(log2) X(log10) X(tanh) X(asinh) X(acosh) X(atanh) \
  X(sin) X(cos) X(tan) X(cbrt) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(erf) X(erfc)         \
  X(erfinv) X(lgamma) X(sigmoid) X(gelu) X(square) X(reciprocal) X(sign) X(deg2rad)           \
  X(rad2deg) X(isfinite) X(isinf) X(signbit) X(logical_not) X(relu) X(silu) X(softplus)         \
  X(ravel) X(digamma) X(stop_gradient)
#define PAIRS(X)                                                                              \
  X(add) X(sub) X(mul) X(div) X(floordiv) X(mod) X(fmod) X(pow) X(minimum) X(maximum)         \
  X(copysign) X(nextafter) X(atan2) X(hypot) X(logaddexp) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) \
  X(and) X(or) X(xor) X(left_shift) X(right_shift) X(fmin) X(fmax) X(heaviside)               \
  X(logical_and) X(logical_or) X(logical_xor)
#define REDUCTIONS(X)                                                                         \
  X(sum) X(prod) X(mean) X(var) X(std) X(min) X(max) X(argmin) X(argmax) X(any) X(all)        \
  X(count) X(ptp) X(norm) X(logsumexp)
/* clang-format on */

/* EACH(FAMILY, one) calls `one` of each of a family's names; the texts are what it calls. */
#define HEARD(name, text, ...) listen(#name, text, tsr_##name(__VA_ARGS__), TSR_HERE);
#define EACH(family, call, text)   \
  do {                             \
    family(call) put_echoes(text); \
  } while (0)

static void elements(void)
{
  title("elementwise, one operand");
#define OF_BOOLS(name) HEARD(name, "b3)", b3)
#define OF_FLOATS(name) HEARD(name, "f3)", f3)
#define OF_GONE(name) HEARD(name, "gone)", gone)
  EACH(ONES, OF_GONE, "gone)");
  EACH(ONES, OF_BOOLS, "b3)");
  EACH(ONES, OF_FLOATS, "f3)");
  title("elementwise, two operands");
#define OF_SHAPES(name) HEARD(name, "i3, i2)", i3, i2)
#define OF_PAIR_BOOLS(name) HEARD(name, "b3, b3)", b3, b3)
#define OF_PAIR_FLOATS(name) HEARD(name, "f3, f3)", f3, f3)
#define OF_MIXED(name) HEARD(name, "u3, i3)", u3, i3)
#define OF_NULL(name) HEARD(name, "i3, NULL)", i3, (tsr_array *)NULL)
#define OF_LARGE(name) HEARD(name, "k3, 300)", k3, 300)
#define OF_LARGE_LEFT(name) HEARD(name, "300, k3)", 300, k3)
#define OF_OTHERS(name) HEARD(name, "f3, stranger)", f3, stranger)
  EACH(PAIRS, OF_SHAPES, "i3, i2)");
  EACH(PAIRS, OF_PAIR_BOOLS, "b3, b3)");
  EACH(PAIRS, OF_PAIR_FLOATS, "f3, f3)");
  EACH(PAIRS, OF_MIXED, "u3, i3)");
  EACH(PAIRS, OF_NULL, "i3, NULL)");
  EACH(PAIRS, OF_LARGE, "k3, 300)");
  EACH(PAIRS, OF_LARGE_LEFT, "300, k3)");
  EACH(PAIRS, OF_OTHERS, "f3, stranger)");
  title("elementwise, the others");
  tsr_array *none = NULL, *two[2];
  NO(tsr_sub(tsr_num(s, 300), k3));
  NO(tsr_fma(2, f34, f3));
  NO(tsr_fma(f34, f3, 1));
  NO(tsr_fma(f3, none, 1));
  NO(tsr_fma(k3, f3, none));
  NO((tsr_divmod(f34, f3, two), two[0]));
  NO((tsr_divmod(300, k3, two), two[0]));
  NO(tsr_clip(f34, f3, 1));
  NO(tsr_clip(k3, 0, 200));
  NO(tsr_round(f3, .decimals = 309));
  NO(tsr_round(b3, .decimals = 1));
  NO(tsr_nan_to_num(f34, .nan = TSR_OPERAND(f3)));
  NO(tsr_nan_to_num_at(LATER(tsr_nan_to_num_args, .x = f3), TSR_HERE));
  NO(tsr_cast(f3, (tsr_dtype)77));
  NO(tsr_cast(f3, (tsr_dtype)0));
  NO(tsr_where(f3, f3, 1));
  NO(tsr_where(b3, f34, 1));
  NO(tsr_where(b3, k3, 300));
  NO(tsr_where(b3, none, f3));
}

static void reductions(void)
{
  title("reductions");
#define OF_DIMS(name) HEARD(name, "f34, .dims = TSR_DIMS(2))", f34, .dims = TSR_DIMS(2))
#define OF_BACK(name) HEARD(name, "f34, .dims = TSR_DIMS(-3))", f34, .dims = TSR_DIMS(-3))
#define OF_RANK_0(name) HEARD(name, "f, .dims = TSR_DIMS(0))", f, .dims = TSR_DIMS(0))
#define OF_NONE(name) HEARD(name, "f03)", f03)
#define OF_REDUCED_BOOLS(name) HEARD(name, "b3)", b3)
#define OF_MASK(name) HEARD(name, "f34, .where = f34)", f34, .where = f34)
#define OF_MASK_SHAPE(name) HEARD(name, "f34, .where = b3)", f34, .where = b3)
#define OF_NAN_MASK(name) \
  HEARD(name, "f34, .where = b3, .skip_nan = true)", f34, .where = b3, .skip_nan = true)
#define OF_DTYPE(name) HEARD(name, "f34, .dtype = (tsr_dtype)77)", f34, .dtype = (tsr_dtype)77)
#define OF_FLOAT(name) HEARD(name, "f34, .dtype = TSR_F64)", f34, .dtype = TSR_F64)
#define OF_INITIAL(name) HEARD(name, "k3, .initial = ...(i2))", k3, .initial = TSR_OPERAND(i2))
#define OF_NUMBER(name) HEARD(name, "k3, .initial = ...(300))", k3, .initial = TSR_OPERAND(300))
  EACH(REDUCTIONS, OF_DIMS, "f34, .dims = TSR_DIMS(2))");
  EACH(REDUCTIONS, OF_BACK, "f34, .dims = TSR_DIMS(-3))");
  EACH(REDUCTIONS, OF_RANK_0, "f, .dims = TSR_DIMS(0))");
  EACH(REDUCTIONS, OF_NONE, "f03)");
  EACH(REDUCTIONS, OF_REDUCED_BOOLS, "b3)");
  EACH(REDUCTIONS, OF_MASK, "f34, .where = f34)");
  EACH(REDUCTIONS, OF_MASK_SHAPE, "f34, .where = b3)");
  EACH(REDUCTIONS, OF_NAN_MASK, "f34, .where = b3, .skip_nan = true)");
  EACH(REDUCTIONS, OF_DTYPE, "f34, .dtype = (tsr_dtype)77)");
  EACH(REDUCTIONS, OF_FLOAT, "f34, .dtype = TSR_F64)");
  EACH(REDUCTIONS, OF_INITIAL, "k3, .initial = TSR_OPERAND(i2))");
  EACH(REDUCTIONS, OF_NUMBER, "k3, .initial = TSR_OPERAND(300))");
  NO(tsr_sum_at(LATER(tsr_reduce_args, .x = f3), TSR_HERE));
  title("statistics");
  NO(tsr_average(f34, .weights = f3));
  NO(tsr_average(f34, .dims = TSR_DIMS(2)));
  NO(tsr_quantile(f34, .q = 1.5, .dims = TSR_DIMS(0)));
  NO(tsr_quantile(f34, .q = NAN, .dims = TSR_DIMS(0)));
  NO(tsr_percentile(f34, .q = 101, .dims = TSR_DIMS(1)));
  NO(tsr_median(f34, .dims = TSR_DIMS(2)));
  NO(tsr_cov(wide16));
  NO(tsr_cov(f));
  NO(tsr_isclose(f34, f3));
  NO(tsr_isclose(f34, NULL));
  NO(tsr_allclose(f34, f3));
  NO(tsr_array_equal(f34, NULL));
  NO(tsr_softmax(f34, 2));
  NO(tsr_softmax(f, 0));
  NO(tsr_log_softmax(f34, -3));
}

/* ---- shapes and orders ----------------------------------------------------------------------- */

static void views(void)
{
  tsr_array *none = NULL;
  title("views");
  NO(tsr_slice(f34, TSR_ALL, TSR_ALL, TSR_ALL));
  NO(tsr_slice(f, TSR_ALL));
  NO(tsr_slice_at(f34, NULL, 1, TSR_HERE));
  NO(tsr_slice_at(f34, NULL, -1, TSR_HERE));
  NO(tsr_transpose(f34, 0));
  NO(tsr_transpose(f34, 0, 2));
  NO(tsr_transpose(f34, 0, 0));
  NO(tsr_transpose_at(f34, NULL, 2, TSR_HERE));
  NO(tsr_flip(f34, TSR_DIMS(2)));
  NO(tsr_flip(f, TSR_DIMS(0)));
  NO(tsr_flip(f34, TSR_DIMS(0, 0)));
  NO(tsr_flip(f34, TSR_DIMS(0, -2)));
  NO(tsr_broadcast_to(f34, TSR_SHAPE(4)));
  NO(tsr_broadcast_to(f34, TSR_SHAPE(2, 2, 4)));
  NO(tsr_broadcast_to(f34, TSR_SHAPE(-2, 3, 4)));
  NO(tsr_broadcast_to(f3, TSR_SHAPE(INT64_MAX, 3)));
  NO(tsr_broadcast_to(f3, (tsr_shape){ .rank = TSR_MAX_RANK + 1 }));
  NO(tsr_pad(f34, .low = { 0, -3 }, .high = { 0, -2 }));
  NO(tsr_pad(f34, .low = { INT64_MIN }, .high = { INT64_MAX }));
  NO(tsr_pad(f34, .low = { 0, -6 }, .high = { 0, -2 }, .interior = { 0, 1 }));
  NO(tsr_pad(f34, .interior = { -1 }));
  NO(tsr_pad(f34, .interior = { INT64_MAX }));
  NO(tsr_pad(f34, .interior = { 0, INT64_MAX / 4 }));
  NO(tsr_pad(f34, .interior = { 0, 0, 1 }));
  NO(tsr_pad(f34, .high = { 0, 0, 1 }));
  NO(tsr_pad(f, .low = { 1 }));
  NO(tsr_pad(f34, .high = { INT64_MAX, 0 }));
  NO(tsr_pad(f34, .low = { 1 }, .value = TSR_OPERAND(f3)));
  NO(tsr_pad(k3, .low = { 1 }, .value = TSR_OPERAND(300)));
  NO(tsr_pad_like((tsr_pad_mode)0, f34, .low = { 1 }));
  NO(tsr_pad_like(TSR_PAD_EDGE, f34, .low = { 0, -1 }));
  NO(tsr_pad_like(TSR_PAD_EDGE, f34, .low = { 1 }, .interior = { 1 }));
  NO(tsr_pad_like(TSR_PAD_WRAP, f34, .high = { 0, 0, 1 }));
  NO(tsr_pad_like(TSR_PAD_WRAP, f03, .high = { 1 }));
  NO(tsr_pad_like(TSR_PAD_EDGE, f34, .high = { INT64_MAX }));
  NO(tsr_pad_like(TSR_PAD_WRAP, f34, .high = { INT64_MAX / 8 }));
  NO(tsr_concat((tsr_array *[]){ f34, f34 }, 2, 2));
  NO(tsr_concat((tsr_array *[]){ f34, f34 }, 2, -3));
  NO(tsr_concat((tsr_array *[]){ f, f }, 2, 0));
  NO(tsr_concat((tsr_array *[]){ f34, f43 }, 2, 0));
  NO(tsr_concat((tsr_array *[]){ f34, f3 }, 2, 0));
  NO(tsr_concat((tsr_array *[]){ f34, none }, 2, 0));
  NO(tsr_concat((tsr_array *[]){ f3, stranger }, 2, 0));
  title("other shapes");
  NO(tsr_reshape(f34, TSR_SHAPE(5, 2)));
  NO(tsr_reshape(f34, TSR_SHAPE(-1, 5)));
  NO(tsr_reshape(f34, TSR_SHAPE(-1, -1)));
  NO(tsr_reshape(f34, TSR_SHAPE(-2, 6)));
  NO(tsr_reshape(f03, TSR_SHAPE(-1, 0)));
  NO(tsr_reshape(f34, TSR_SHAPE(INT64_MAX, 2)));
  NO(tsr_expand_dims(f34, TSR_DIMS(4)));
  NO(tsr_expand_dims(f34, TSR_DIMS(0, -4)));
  NO(tsr_expand_dims(wide16, TSR_DIMS(0)));
  NO(tsr_squeeze(f34, TSR_DIMS(0)));
  NO(tsr_squeeze(f34, TSR_DIMS(2)));
  NO(tsr_squeeze(f, TSR_DIMS(0)));
  NO(tsr_squeeze(f34, TSR_DIMS(1, 1)));
  NO(tsr_atleast(f34, 4));
  NO(tsr_atleast(f34, -1));
  title("other orders");
  NO(tsr_roll(f34, 1, 2));
  NO(tsr_roll(f, 1, 0));
  NO(tsr_roll_at(f34, NULL, NULL, 1, TSR_HERE));
  NO(tsr_moveaxis(f34, 2, 0));
  NO(tsr_moveaxis(f34, 0, -3));
  NO(tsr_swapaxes(f34, 0, 2));
  NO(tsr_rot90(f34, 1, 1, 1));
  NO(tsr_rot90(f34, 1, 0, 2));
  NO(tsr_diff(f34, -1, 0));
  NO(tsr_diff(f34, 1, 2));
  title("matrices");
  NO(tsr_tril(f3, 0));
  NO(tsr_triu(f, 0));
  NO(tsr_diag(wide16, 0));
  NO(tsr_diag(f, 0));
  NO(tsr_diag(f3, INT64_MIN));
}

static void several(void)
{
  tsr_array *out[3], *none = NULL;
  title("one of several, several of one");
  NO(tsr_stack((tsr_array *[]){ f34, f43 }, 2, 0));
  NO(tsr_stack((tsr_array *[]){ f34 }, 1, 3));
  NO(tsr_stack((tsr_array *[]){ wide16 }, 1, 0));
  NO(tsr_stack((tsr_array *[]){ f34, none }, 2, 0));
  NO((tsr_split(f34, 2, 2, out), out[1]));
  NO((out[0] = none, tsr_split(f34, 0, 0, out), out[0]));
  NO((tsr_split(f34, 2, 0, NULL), none));
  NO(tsr_tile(f34, -1));
  NO(tsr_tile(f34, INT64_MAX));
  NO(tsr_tile_at(f34, NULL, 1, TSR_HERE));
  NO(tsr_tile(f34, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
  NO(tsr_repeat(f34, -2, 0));
  NO(tsr_repeat(f34, 2, 2));
  NO(tsr_repeat(f, 2, 0));
  NO(tsr_repeat(f34, INT64_MAX, 0));
  NO(tsr_repeat(wide16, INT64_MAX, 7));
  NO(tsr_repeat_each(f34, f3, 4, 0));
  NO(tsr_repeat_each(f34, i2, 4, 0));
  NO(tsr_repeat_each(f34, i3, -1, 0));
  NO(tsr_repeat_each(f34, i3, 4, 2));
  NO(tsr_repeat_each(f34, none, 4, 0));
  NO((tsr_broadcast_arrays((tsr_array *[]){ f34, f43 }, 2, out), out[0]));
  NO((tsr_broadcast_arrays((tsr_array *[]){ f34, none }, 2, out), out[0]));
  NO((tsr_meshgrid((tsr_array *[]){ f3, f34 }, 2, false, out), out[1]));
  NO((tsr_meshgrid((tsr_array *[]){ f3, none }, 2, false, out), out[1]));
  title("at places that arrays say");
  NO(tsr_dynamic_slice(f34, i2, TSR_SHAPE(2)));
  NO(tsr_dynamic_slice(f34, i2, TSR_SHAPE(3, 5)));
  NO(tsr_dynamic_slice(f34, i2, TSR_SHAPE(3, -1)));
  NO(tsr_dynamic_slice(f34, i3, TSR_SHAPE(1, 1)));
  NO(tsr_dynamic_slice(f34, i34, TSR_SHAPE(1, 1)));
  NO(tsr_dynamic_slice(f34, f3, TSR_SHAPE(1, 1)));
  NO(tsr_dynamic_slice(f34, none, TSR_SHAPE(1, 1)));
  NO(tsr_dynamic_update_slice(f34, f43, i2));
  NO(tsr_dynamic_update_slice(f34, f3, i2));
  NO(tsr_dynamic_update_slice(f34, f34, i3));
  NO(tsr_dynamic_update_slice(f34, f34, f3));
  NO(tsr_dynamic_update_slice(f34, none, i2));
}

/* ---- indices and order ----------------------------------------------------------------------- */

static void taking(void)
{
  title("taking and putting");
  NO(tsr_take(f34, i2, 2));
  NO(tsr_take(f34, i2, -3));
  NO(tsr_take(f, i2, 0));
  NO(tsr_take(f34, f3, 0));
  NO(tsr_take(f34, b3, 0, .mode = TSR_INDEX_FILL));
  NO(tsr_take(f34, i2, 0, .mode = (tsr_index_mode)7));
  NO(tsr_take(k3, i2, 0, .mode = TSR_INDEX_FILL, .fill = TSR_OPERAND(300)));
  NO(tsr_take(f34, NULL, 0));
  NO(tsr_take(wide16, i34, 0));
  NO(tsr_take_at(LATER(tsr_take_args, .x = f34, .indices = i2), TSR_HERE));
  NO(tsr_take_along_dim(f34, i2, 0));
  NO(tsr_take_along_dim(f34, ones(TSR_I64, TSR_SHAPE(2, 3)), 0));
  NO(tsr_take_along_dim(f34, i34, -3));
  NO(tsr_take_along_dim(f34, f34, 0));
  NO(tsr_take_along_dim(f34, NULL, 0));
  NO(tsr_gather(f34, { NULL }));
  NO(tsr_gather(f34, { i2, i2, i2 }));
  NO(tsr_gather(f34, { i2, f3 }));
  NO(tsr_gather(f34, { i2, i3 }));
  NO(tsr_gather(k3, { i2 }, .mode = TSR_INDEX_FILL, .fill = TSR_OPERAND(1.5)));
  NO(tsr_gather(f34, { i2 }, .mode = (tsr_index_mode)-1));
  NO(tsr_scatter(f34, i2, 1, 2));
  NO(tsr_scatter(f34, f3, 1, 0));
  NO(tsr_scatter(f34, i2, f23, 0));
  NO(tsr_scatter(f34, i2, 1, 0, .how = (tsr_scatter_how)9));
  NO(tsr_scatter(f34, i2, 1, 0, .mode = (tsr_index_mode)9));
  NO(tsr_scatter(k3, i2, 300, 0));
  NO(tsr_scatter(f34, NULL, 1, 0));
  NO(tsr_scatter(f34, i2, (tsr_array *)NULL, 0));
  NO(tsr_scatter_nd(i2, 1, { i2, i2 }));
  NO(tsr_scatter_nd(f34, f3, { i2, i2 }));
  NO(tsr_scatter_nd(f34, 1, { f3 }));
  NO(tsr_scatter_nd(f34, 1, { i2 }, .how = (tsr_scatter_how)-1));
}

static void finding(void)
{
  tsr_array *none = NULL, *out[2];
  title("choosing, finding and counting");
  NO(tsr_select(NULL, NULL, 0, .otherwise = TSR_OPERAND(i2)));
  NO(tsr_select((tsr_array *[]){ i2 }, (tsr_array *[]){ i2 }, 1));
  NO(tsr_select((tsr_array *[]){ b3 }, (tsr_array *[]){ i2 }, 1));
  NO(tsr_select((tsr_array *[]){ none }, (tsr_array *[]){ i2 }, 1));
  NO(tsr_select((tsr_array *[]){ b3 }, (tsr_array *[]){ k3 }, 1, .otherwise = TSR_OPERAND(300)));
  NO(tsr_compress(f34, i2, 1));
  NO(tsr_compress(f34, b2, 1));
  NO(tsr_compress(f34, ones(TSR_BOOL, TSR_SHAPE(2, 3)), 1));
  NO(tsr_compress(f34, b3, 1, .dim = 2));
  NO(tsr_compress(f34, b3, -1));
  NO(tsr_compress(f34, NULL, 1));
  NO(tsr_nonzero(f3, .count = -1));
  NO((tsr_nonzero_dims(f34, out, -2), out[1]));
  NO(tsr_searchsorted(f34, f3, false));
  NO(tsr_searchsorted(f3, NULL, false));
  NO(tsr_digitize(f3, f34, true));
  NO(tsr_isin(f3, f34));
  NO(tsr_isin(f3, NULL));
  NO(tsr_interp(f3, i2, f3));
  NO(tsr_interp(f3, f34, f34));
  NO(tsr_interp(f3, ones(TSR_F64, TSR_SHAPE(0)), ones(TSR_F64, TSR_SHAPE(0))));
  NO(tsr_interp(f3, f3, NULL));
  NO(tsr_unique(f3, .count = -1).values);
  NO(tsr_unique(f3, .count = INT64_MAX).values);
  NO(tsr_one_hot(f3, 3, 0));
  NO(tsr_one_hot(i2, -1, 0));
  NO(tsr_one_hot(i2, 3, (tsr_dtype)77));
  NO(tsr_one_hot(tsr_cast(wide16, TSR_I8), 3, 0));
  NO(tsr_bincount(f3, 3, NULL));
  NO(tsr_bincount(i2, 0, NULL));
  NO(tsr_bincount(i2, INT64_MAX, NULL));
  NO(tsr_bincount(i2, 3, f34));
  NO(tsr_histogram(b3).counts);
  NO(tsr_histogram(f34, .bins = -1).edges);
  NO(tsr_histogram(f34, .low = 2, .high = 1).counts);
  NO(tsr_histogram(f34, .low = NAN).counts);
  NO(tsr_histogram(f34, .edges = ones(TSR_F64, TSR_SHAPE(1))).counts);
  NO(tsr_histogram(f34, .edges = f34).counts);
  NO(tsr_histogram(f34, .weights = f3).counts);
}

static void sorting(void)
{
  tsr_array *none = NULL;
  title("order and prefixes");
  NO(tsr_sort(f34, -3));
  NO(tsr_sort(f, 0));
  NO(tsr_sort_at(LATER(tsr_sort_args, .x = f34), TSR_HERE));
  NO(tsr_argsort(f34, 2));
  NO(tsr_lexsort((tsr_array *[]){ f3, i2 }, 2, 0));
  NO(tsr_lexsort((tsr_array *[]){ f3, none }, 2, 0));
  NO(tsr_lexsort((tsr_array *[]){ f3, f3 }, 2, 1));
  NO(tsr_top_k(f34, 5, -1));
  NO(tsr_top_k(f34, 2, 2));
  NO(tsr_arg_top_k(f34, -1, 0));
  NO(tsr_partition(f34, 0, 5));
  NO(tsr_partition(f34, -5, 1));
  NO(tsr_argpartition(f34, 3, 0));
  NO(tsr_cumsum(f34, 2));
  NO(tsr_cumsum(f, 0));
  NO(tsr_cumprod(f34, -3));
  NO(tsr_cummax(f34, 9));
  NO(tsr_cummin(f34, -3));
  NO(tsr_nancumsum(f34, -4, .reverse = true));
  NO(tsr_nancumprod(f34, 9));
}

/* ---- products and windows -------------------------------------------------------------------- */

static void products(void)
{
  tsr_array *none = NULL, *nine = ones(TSR_F32, TSR_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1)),
            *one = ones(TSR_F32, TSR_SHAPE(1, 1));
  title("products");
  NO(tsr_matmul(f34, f34));
  NO(tsr_matmul(f, f3));
  NO(tsr_matmul(ones(TSR_F32, TSR_SHAPE(2, 3, 4)), ones(TSR_F32, TSR_SHAPE(3, 4, 5))));
  NO(tsr_matmul(f34, f43, .dtype = (tsr_dtype)99));
  NO(tsr_matmul(f34, NULL));
  NO(tsr_matmul(f3, stranger));
  NO(tsr_inner(f34, f43));
  NO(tsr_inner(f34, f3, .dtype = TSR_F64));
  NO(tsr_dot(f34, f3));
  NO(tsr_outer(f3, none));
  NO(tsr_vdot(f34, f3));
  NO(tsr_kron(nine, f3));
  NO(tsr_tensordot(nine, nine, 0));
  NO(tsr_tensordot(f34, f34, 2, (int[]){ 0, -2 }, NULL));
  NO(tsr_tensordot(f34, f3, 2));
  NO(tsr_tensordot(f34, f3, 1));
  NO(tsr_tensordot(f34, f34, -1));
  NO(tsr_trace(f3));
  NO(tsr_trace(f34, .dims = { 0, 2 }));
  NO(tsr_einsum("ij,j?->i", f34, f4));
  NO(tsr_einsum("i.j->i", f34));
  NO(tsr_einsum("......->", f34));
  NO(tsr_einsum("ij,j->i", f34, f43));
  NO(tsr_einsum("ijk...,j->i", f34, f4));
  NO(tsr_einsum("ij,jk->ik", f34, f34));
  NO(tsr_einsum("...i,...i", f34, f43));
  NO(tsr_einsum("ij,jk->iz", f34, f43));
  NO(tsr_einsum("ij,jk -> i k i", f34, f43));
  NO(tsr_einsum("...j->j", f34));
  NO(tsr_einsum("ij->i", f34, f43));
  NO(tsr_einsum("ij,jk->i", f34));
  NO(tsr_einsum("ij->i->j", f34));
  NO(tsr_einsum("abcdefghi,jklmnopqr->abcdefghijklmnopqr", nine, nine));
  NO(tsr_einsum("abcdefghi,jklmnopqr,abcdefghijklmnop,qr->", nine, nine,
                tsr_sum(wide16, .dims = TSR_DIMS(15), .keep_dims = true), one));
  NO(tsr_einsum(NULL, f34));
  NO(tsr_einsum("ij,j", f34, none));
  NO(tsr_einsum_with("ij", TSR_ARRAYS(f34), .dtype = (tsr_dtype)99));
  tsr_array *x = ones(TSR_F32, TSR_SHAPE(1, 5, 3)), *k = ones(TSR_F32, TSR_SHAPE(2, 3, 4));
  title("windows");
  NO(tsr_conv(f34, f34));
  NO(tsr_conv(x, f34));
  NO(tsr_conv(x, ones(TSR_F32, TSR_SHAPE(2, 2, 4))));
  NO(tsr_conv(x, k, .groups = 2));
  NO(tsr_conv(x, k, .stride = { -1 }));
  NO(tsr_conv(x, k, .input_dilation = { -1 }));
  NO(tsr_conv(x, k, .low = { -1 }));
  NO(tsr_conv(x, k, .high = { -1 }));
  NO(tsr_conv(x, k, .low = { INT64_MAX }));
  NO(tsr_conv(x, k, .dilation = { INT64_MAX }));
  NO(tsr_conv(x, k, .dtype = (tsr_dtype)99));
  NO(tsr_conv(x, NULL));
  NO(tsr_reduce_window(f3, .window = { -2 }));
  NO(tsr_reduce_window(f3, .window = { 1, 2 }));
  NO(tsr_reduce_window(f34, .stride = { 1, -1 }));
  NO(tsr_reduce_window(f34, .window = { 2, 2 }, .dilation = { 1, -1 }));
  NO(tsr_reduce_window(f3, .window = { 2 }, .low = { -1 }));
  NO(tsr_reduce_window(f3, .window = { 2 }, .low = { INT64_MAX }));
  NO(tsr_reduce_window(f3, (tsr_window_op)9));
  NO(tsr_reduce_window(b3, .window = { 2 }));
  NO(tsr_max_pool(f34, .window = { 2 }));
  NO(tsr_max_pool(x, .window = { -2 }));
  NO(tsr_max_pool(x, .stride = { -2 }));
  NO(tsr_avg_pool(f34, .window = { 2 }));
  NO(tsr_avg_pool(x, .low = { -2 }));
  NO(tsr_avg_pool(tsr_cast(x, TSR_I8), .high = { INT64_MAX }));
}

/* ---- where arrays come from and lie ---------------------------------------------------------- */

static tsr_status no_part(const tsr_box *box, void *out, void *user)
{
  (void)box, (void)out, (void)user;
  return TSR_EIO;
}

/* A place on a mesh that is wrong, and what of a call says so. */
static tsr_sharding on(const char *spec)
{
  return tsr_on(mesh, spec);
}

static void places(void)
{
  float x[12] = { 0 };
  tsr_sharding uneven = tsr_on(mesh, "x", .strict = true);
  tsr_sharding far = tsr_on(tsr_mesh_default(other, "d"), "d");
  tsr_sharding nowhere = tsr_on(tsr_mesh_abstract(rt, "a=2"), "a");
  tsr_shape many = TSR_SHAPE(INT64_MAX), square = TSR_SHAPE(INT64_C(1) << 32, INT64_C(1) << 32);
  title("places: every call that takes one says the same of it");
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(3), on("z")));
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(3), on("x,y")));
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(3, 4), on("x,x")));
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(3, 4), on("x,,")));
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(3, 4), on("?,x")));
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(3, 4), on("x,-;pinned_host")));
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(3), uneven));
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(3), far));
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(3), nowhere));
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(3), tsr_on(tsr_mesh_make(rt, "x=9"), "x")));
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(3), tsr_on(NULL, "x")));
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(3), tsr_on(s, "x")));
  NO(tsr_adopt(s, x, TSR_F32, TSR_SHAPE(3), on("z"), NULL, NULL));
  NO(tsr_from_shards(s, (const void *[]){ x }, 1, TSR_F32, TSR_SHAPE(3), on("z")));
  NO(tsr_from_callback(s, no_part, NULL, TSR_F32, TSR_SHAPE(3), on("z")));
  NO(tsr_full(s, 1, TSR_F32, TSR_SHAPE(3), on("z")));
  NO(tsr_iota(s, TSR_F32, TSR_SHAPE(3), 0, on("z")));
  NO(tsr_eye(s, TSR_F32, TSR_SHAPE(3, 3), 0, on("z")));
  NO(tsr_arange(s, .stop = 3, .on = on("z")));
  NO(tsr_linspace(s, 0, 1, 3, .on = on("z")));
  NO(tsr_uniform(s, .shape = TSR_SHAPE(3), .on = on("z"), .key = 1));
  NO(tsr_exponential(s, 1, .shape = TSR_SHAPE(3), .on = on("z"), .key = 1));
  NO(tsr_poisson(s, 1, .shape = TSR_SHAPE(3), .on = on("z"), .key = 1));
  NO(tsr_reshard(f3, on("z")));
  NO(tsr_reshard(f3, on("x,y")));
  NO(tsr_reshard(f3, uneven));
  NO(tsr_reshard(f3, far));
  NO(tsr_reshard(f34, on("?,x")));
  NO(tsr_reshard(f34, on("-,x;unpinned_host")));
  NO(tsr_constrain(f34, on("?,x;sum(y);pinned_host")));
  NO(tsr_constrain(f3, on("z")));
  NO(tsr_constrain(f3, far));
  title("shapes and dtypes of what is made");
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(-1), free_place));
  NO(tsr_put(s, x, TSR_F32, (tsr_shape){ .rank = TSR_MAX_RANK + 1 }, free_place));
  NO(tsr_put(s, x, TSR_F32, many, free_place));
  NO(tsr_put(s, x, (tsr_dtype)77, TSR_SHAPE(3), free_place));
  NO(tsr_put(s, NULL, TSR_F32, TSR_SHAPE(3), free_place));
  NO(tsr_adopt(s, x, TSR_F32, square, free_place, NULL, NULL));
  NO(tsr_adopt(s, NULL, TSR_F32, TSR_SHAPE(3), free_place, NULL, NULL));
  NO(tsr_adopt_at(s, NULL, TSR_HERE));
  NO(tsr_from_shards(s, (const void *[]){ x }, 1, TSR_F32, TSR_SHAPE(3), on("x")));
  NO(tsr_from_shards(s, (const void *[]){ NULL }, 1, TSR_F32, TSR_SHAPE(3), free_place));
  NO(tsr_from_shards(s, (const void *[]){ x }, 1, 0, TSR_SHAPE(3), free_place));
  NO(tsr_from_shards_at(s, NULL, TSR_HERE));
  NO(tsr_from_callback(s, NULL, NULL, TSR_F32, TSR_SHAPE(3), free_place));
  NO(tsr_from_callback(s, no_part, NULL, TSR_F32, TSR_SHAPE(3), on("x")));
  NO(tsr_from_callback(s, no_part, NULL, TSR_F32, square, free_place));
  NO(tsr_from_callback_at(s, NULL, TSR_HERE));
  NO(tsr_num(s, "three"));
  NO(tsr_full(s, 300, TSR_I8, TSR_SHAPE(3), free_place));
  NO(tsr_full(s, f3, TSR_F32, TSR_SHAPE(3), free_place));
  NO(tsr_full(s, 1, TSR_F32, square, free_place));
  NO(tsr_full(s, 1, (tsr_dtype)77, TSR_SHAPE(3), free_place));
  NO(tsr_full_like(tsr_cast(f3, TSR_I8), 300));
  NO(tsr_full_like(tsr_tuple(s, f3), 1));
  NO(tsr_add(f3, tsr_tuple(s, f3)));
  NO(tsr_iota(s, TSR_F32, TSR_SHAPE(3), 1, free_place));
  NO(tsr_iota(s, TSR_F32, TSR_SHAPE(3), -1, free_place));
  NO(tsr_iota(s, TSR_BOOL, TSR_SHAPE(3), 0, free_place));
  NO(tsr_iota(s, TSR_F32, square, 0, free_place));
  NO(tsr_eye(s, TSR_F32, TSR_SHAPE(3), 0, free_place));
  NO(tsr_eye(s, TSR_F32, square, 0, free_place));
  NO(tsr_eye(s, (tsr_dtype)77, TSR_SHAPE(3, 3), 0, free_place));
  NO(tsr_arange(s, .stop = 1e300));
  NO(tsr_arange(s, 4));
  NO(tsr_arange(s, .stop = NAN));
  NO(tsr_arange(s, .stop = 9, .dtype = TSR_BOOL));
  NO(tsr_arange(s, .stop = 9, .dtype = (tsr_dtype)77));
  NO(tsr_arange_at(s, NULL, TSR_HERE));
  NO(tsr_linspace(s, 0, 1, -1));
  NO(tsr_linspace(s, 0, INFINITY, 3));
  NO(tsr_linspace(s, 0, 1, INT64_MAX));
  NO(tsr_linspace(s, 0, 1, 3, .dtype = TSR_BOOL));
  NO(tsr_linspace_at(s, NULL, TSR_HERE));
  title("random draws");
  NO(tsr_uniform(s, .shape = TSR_SHAPE(3), .keys = i3));
  NO(tsr_uniform(s, .shape = TSR_SHAPE(3), .dtype = TSR_I32, .key = 1));
  NO(tsr_uniform(s, .shape = square, .key = 1));
  NO(tsr_uniform_at(s, NULL, TSR_HERE));
  NO(tsr_exponential(s, -1, .shape = TSR_SHAPE(3), .key = 1));
  NO(tsr_exponential(s, NAN, .shape = TSR_SHAPE(3), .key = 1));
  NO(tsr_exponential(s, 1, .shape = square, .key = 1));
  NO(tsr_exponential_at(s, 1, NULL, TSR_HERE));
  NO(tsr_poisson(s, 1e5, .shape = TSR_SHAPE(3), .key = 1));
  NO(tsr_poisson(s, 1, .shape = TSR_SHAPE(3), .dtype = TSR_F32, .key = 1));
  NO(tsr_poisson(s, 1, .shape = TSR_SHAPE(-3), .key = 1));
  NO(tsr_poisson_at(s, TSR_OPERAND(1), NULL, TSR_HERE));
  NO(tsr_normal(s, .shape = TSR_SHAPE(3), .dtype = TSR_I32, .key = 1));
  NO(tsr_normal(s, .shape = TSR_SHAPE(3), .stream = UINT64_MAX, .key = 1));
  NO(tsr_truncated_normal(s, 1, -1, .shape = TSR_SHAPE(3), .key = 1));
  NO(tsr_truncated_normal(s, 90, 91, .shape = TSR_SHAPE(3), .key = 1));
  NO(tsr_gamma(s, -1, .shape = TSR_SHAPE(3), .key = 1));
  NO(tsr_bernoulli(s, 1.5, .shape = TSR_SHAPE(3), .key = 1));
  NO(tsr_bernoulli(s, d3, .shape = TSR_SHAPE(4), .key = 1));
  NO(tsr_bernoulli(s, f34, .shape = TSR_SHAPE(4), .key = 1));
  NO(tsr_bernoulli(s, f3, .shape = TSR_SHAPE(3), .on = on("z"), .key = 1));
  NO(tsr_bernoulli(s, gone, .shape = TSR_SHAPE(3), .key = 1));
  NO(tsr_bernoulli(s, stranger, .shape = TSR_SHAPE(3), .key = 1));
  NO(tsr_gamma(s, f34, .shape = TSR_SHAPE(3), .keys = ones(TSR_U64, TSR_SHAPE(2))));
  NO(tsr_poisson(s, d3, .dtype = TSR_F32, .key = 1));
  NO(tsr_bernoulli(s, 0.5, .shape = TSR_SHAPE(3), .dtype = TSR_F32, .key = 1));
  NO(tsr_randint(s, 3, 3, .shape = TSR_SHAPE(3), .key = 1));
  NO(tsr_randint(s, 0, 300, .shape = TSR_SHAPE(3), .dtype = TSR_I8, .key = 1));
  NO(tsr_random_bits(s, .shape = TSR_SHAPE(3), .dtype = TSR_F32, .key = 1));
  NO(tsr_random_bits(s, .shape = TSR_SHAPE(3), .key = 1, .keys = u3));
  NO(tsr_random_bits(s, .shape = TSR_SHAPE(3), .keys = f3));
  NO(tsr_random_split(u3, -1));
  NO(tsr_random_split(f3, 2));
  NO(tsr_random_fold_in(u3, f3));
  NO(tsr_random_fold_in(f3, 1));
  NO(tsr_categorical(f34, 2, .key = 1));
  NO(tsr_categorical(i34, 0, .key = 1));
  NO(tsr_permutation(s, -1, .key = 1));
  NO(tsr_shuffle(f34, 2, .key = 1));
  NO(tsr_shuffle(f34, 0, .keys = u3));
  NO(tsr_choice(f34, 4, .by = { .key = 1 }));
  NO(tsr_choice(f34, 2, .weights = f4, .by = { .key = 1 }));
  NO(tsr_choice(f, 1, .by = { .key = 1 }));
}

/* ---- DLPack ---------------------------------------------------------------------------------- */

static tsr_dl_managed tensor_of(int32_t device, uint8_t bits, int64_t *shape)
{
  static float x[12];
  return (tsr_dl_managed){ .tensor = { .data = x,
                                       .device_type = device,
                                       .ndim = 1,
                                       .code = 2,
                                       .bits = bits,
                                       .lanes = 1,
                                       .shape = shape } };
}

static void tensors(void)
{
  int64_t three = 3, minus = -3, far = INT64_MAX;
  tsr_dl_managed cuda = tensor_of(2, 32, &three), odd = tensor_of(1, 24, &three),
                 bad = tensor_of(1, 32, &minus), flat = tensor_of(1, 32, NULL),
                 wide = tensor_of(1, 32, &three), empty = tensor_of(1, 32, &three),
                 good = tensor_of(1, 32, &three), *out;
  tsr_dl_versioned late = { .major = 2 }, *out_versioned;
  wide.tensor.strides = &far;
  empty.tensor.data = NULL;
  title("DLPack");
  NO(tsr_from_dlpack(s, NULL));
  NO(tsr_from_dlpack(s, &cuda));
  NO(tsr_from_dlpack(s, &odd));
  NO(tsr_from_dlpack(s, &bad));
  NO(tsr_from_dlpack(s, &flat));
  NO(tsr_from_dlpack(s, &wide));
  NO(tsr_from_dlpack(s, &empty));
  NO(tsr_from_dlpack(s, &good, .on = on("z")));
  NO(tsr_from_dlpack_versioned(s, NULL));
  NO(tsr_from_dlpack_versioned(s, &late));
  NO_END(tsr_to_dlpack(f3, 1, &out));
  NO_END(tsr_to_dlpack(f3, 0, NULL));
  NO_END(tsr_to_dlpack_versioned(f3, -1, &out_versioned));
  NO_END(tsr_to_dlpack_versioned(f3, 0, NULL));
}

/* ---- files and texts ------------------------------------------------------------------------- */

static void files(void)
{
  tsr_array *none = NULL;
  tsr_type type;
  CHECK_I64(chdir(test_tmp("")), 0);
  CHECK_I64(tsr_save_npz(s, "a.npz", { "x", f3 }), TSR_OK);
  tsr_npz *open = tsr_load_npz(s, "a.npz");
  title("files");
  NO_END(tsr_save_npy(f3, NULL));
  NO_END(tsr_save_npy(f3, ""));
  NO_END(tsr_save_npy(gone, "gone.npy"));
  NO(tsr_load_npy(s, NULL, free_place));
  NO(tsr_load_npy(s, "there/is/none.npy", free_place));
  NO_END(tsr_save_npz(s, NULL, { "x", f3 }));
  NO_END(tsr_save_npz(s, "a.npz", { NULL, f3 }));
  NO_END(tsr_save_npz(s, "a.npz", { "x", none }));
  NO_END(tsr_save_npz(s, "a.npz", { "x", f3 }, { "x", f4 }));
  NO_END(tsr_save_npz(s, "a.npz", { "x", gone }));
  NO_END((tsr_load_npz(s, NULL), tsr_scope_status(s)));
  NO_END((tsr_load_npz(s, "there/is/none.npz"), tsr_scope_status(s)));
  NO(tsr_npz_array(open, "y", free_place));
  NO(tsr_npz_array(open, NULL, free_place));
  NO(tsr_npz_array(open, "x", on("z")));
  title("types and drawings");
  NO_END(tsr_type_parse(s, mesh, NULL, &type));
  NO_END(tsr_type_parse(s, mesh, "f32[3", &type));
  NO_END(tsr_type_parse(s, mesh, "f33[3]", &type));
  NO_END(tsr_type_parse(s, mesh, "f32[-3]", &type));
  NO_END(tsr_type_parse(s, mesh, "f32[3]@(z)", &type));
  NO_END(tsr_type_parse(s, mesh, "f32[3]", NULL));
  NO_END((tsr_visualize(gone), tsr_scope_status(s)));
  NO_END((tsr_visualize_sharding(s, on("z"), TSR_SHAPE(3)), tsr_scope_status(s)));
  NO_END((tsr_visualize_sharding(s, on("x"), TSR_SHAPE(-3)), tsr_scope_status(s)));
  NO_END((tsr_visualize_sharding(s, on("x"), TSR_SHAPE(3), .width = -1), tsr_scope_status(s)));
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void terminals(void)
{
  float x[12];
  double number;
  int64_t whole;
  tsr_shard shard;
  const char *text;
  tsr_array *none = NULL, *large = ones(TSR_U64, TSR_SCALAR);
  tsr_array *inert = tsr_add(f3, f4);
  tsr_scope_clear(s);
  large = tsr_sub(large, 2);
  title("ends");
  NO_END(tsr_eval((tsr_array *[]){ f3, none }, 2));
  NO_END(tsr_eval((tsr_array *[]){ f3, stranger }, 2));
  NO_END(tsr_eval(&inert, 1));
  NO_END(tsr_eval(&gone, 1));
  NO_END(tsr_start((tsr_array *[]){ f3, none }, 2));
  NO_END(tsr_start((tsr_array *[]){ f3, stranger }, 2));
  NO_END(tsr_read(f3, x, 11));
  NO_END(tsr_read(f3, NULL, 12));
  NO_END(tsr_read(gone, x, 12));
  NO_END(tsr_read(inert, x, 12));
  NO_END(tsr_read_scalar(f3, &number));
  NO_END(tsr_read_scalar(f, NULL));
  NO_END(tsr_read_i64(i3, &whole));
  NO_END(tsr_read_i64(f, &whole));
  NO_END(tsr_read_i64(i, NULL));
  NO_END(tsr_read_i64(large, &whole));
  NO_END(tsr_wait(gone));
  NO_END(tsr_wait(inert));
  NO_END(tsr_donate(gone));
  NO_END(tsr_donate(inert));
  NO_END(tsr_shard_view(f3, 1, &shard));
  NO_END(tsr_shard_view(f3, 0, NULL));
  NO_END(tsr_text_into(f3, NULL));
  NO_END(tsr_text_into(gone, &text));
  NO_END(tsr_devices_into(f3, NULL));
  NO_END(tsr_dump_into(f3, NULL));
  NO_END(tsr_explain_into((tsr_array *[]){ f3 }, 1, NULL));
  NO(tsr_add(gone, 1));
  NO_END((tsr_keep(s, gone), tsr_scope_status(s)));
  NO(tsr_keep(s, stranger));
}

/* ---- what only a run finds ------------------------------------------------------------------- */

/* A call that is taken, whose run fails and says so: in the operation's name, or the terminal's. */
static void ran(const char *text, tsr_array *made, const char *where)
{
  if (tsr_is_inert(made)) FAIL("%s is refused: %s", text, tsr_message(s));
  tsr_status status = tsr_wait_at(made, where);
  if (!status || status != tsr_scope_status(s)) FAIL("%s runs: %s", text, tsr_message(s));
  bool ended = strstr(tsr_message(s), ": tsr_wait: ");
  put_case(text, message_of(ended ? "tsr_wait(" : text, where));
}

#define RUN(...) ran(#__VA_ARGS__, (__VA_ARGS__), TSR_HERE)

static void indices_in_runs(void)
{
  static const int64_t index[4] = { 0, -3, 3, -4 };
  tsr_array *at = tsr_put(s, index, TSR_I64, TSR_SHAPE(4), on("x"));
  tsr_array *zero = ones(TSR_I64, TSR_SHAPE(4));
  title("indices out of range: the run fails");
  RUN(tsr_take(f34, at, 0));
  RUN(tsr_take_along_dim(f3, at, 0));
  RUN(tsr_gather(f34, { at, zero }));
  RUN(tsr_scatter(f34, at, 1, 0));
  RUN(tsr_scatter_nd(f34, 1, { zero, tsr_add(at, 2) }));
}

/* More than devices of 1 MiB hold. */
static void memory_in_runs(void)
{
  enum { MANY = 1 << 20 };
  tsr_scope *usual = s;
  tsr_runtime *small = tsr_runtime_open("cpu:2", .memory_limit = 1 << 20);
  float *x = calloc(MANY, sizeof *x);
  s = tsr_scope_open(small);
  tsr_array *v = ones(TSR_F32, TSR_SHAPE(MANY)), *m = ones(TSR_F32, TSR_SHAPE(1 << 10, 1 << 10));
  tsr_array *at = ones(TSR_I32, TSR_SHAPE(MANY));
  title("more than the memory limit: the run fails");
  NO(tsr_put(s, x, TSR_F32, TSR_SHAPE(MANY), free_place));
  NO(tsr_from_callback(s, no_part, NULL, TSR_F32, TSR_SHAPE(MANY), free_place));
  RUN(tsr_add(v, 1));
  RUN(tsr_matmul(m, m));
  RUN(tsr_sort(v, 0));
  RUN(tsr_cumsum(v, 0));
  RUN(tsr_concat((tsr_array *[]){ v, v }, 2, 0));
  RUN(tsr_take(v, at, 0));
  RUN(tsr_scatter(v, at, 1, 0));
  RUN(tsr_uniform(s, .shape = TSR_SHAPE(MANY), .key = 1));
  free(x);
  tsr_runtime_close(small);
  s = usual;
}

/* ---- functions and trees --------------------------------------------------------------------- */

static tsr_status status_of(const tsr_function *made)
{
  (void)made;
  return tsr_scope_status(s);
}

static tsr_array *first_of(tsr_scope *scope, tsr_array *const *in, void *user)
{
  (void)scope;
  return user ? tsr_matmul(in[0], in[0]) : in[0];
}

static tsr_array *leaf_of(tsr_scope *scope, tsr_array *const *leaves, void *user)
{
  (void)scope, (void)user;
  return leaves[0];
}

static void functions(void)
{
  tsr_array *pair = tsr_tuple(s, f3, f4), *named = tsr_tree(s, { "w", f3 }, { "b", pair });
  tsr_function *same = tsr_function_make(s, first_of), *bad;
  bad = tsr_function_make(s, first_of, .user = mesh, .name = "bad");
  title("functions and trees");
  NO(tsr_tree(s, { "w", f3 }, { "w", f4 }));
  NO(tsr_tree(s, { "two words", f3 }));
  NO(tsr_tree(s, { "w", NULL }));
  NO(tsr_tuple(s, f3, NULL));
  NO(tsr_tuple(s, f3, stranger));
  NO(tsr_item(pair, 2));
  NO(tsr_item(f3, 0));
  NO(tsr_field(named, "b.2"));
  NO(tsr_field(named, ""));
  NO(tsr_tree_like(pair, (tsr_array *[]){ f3 }, 1));
  NO(tsr_tree_map(leaf_of, NULL, (tsr_array *[]){ pair, named }, 2));
  NO(tsr_tree_map(NULL, NULL, &pair, 1));
  NO(tsr_tree_keep(s, tsr_tuple(s, gone, f3)));
  NO(tsr_exp(pair));
  NO_END(status_of(tsr_function_make(s, NULL)));
  NO_END(status_of(tsr_function_make(s, first_of, .user_bytes = 8)));
  NO(tsr_call(same, f3, NULL));
  NO(tsr_call(same, stranger));
  NO(tsr_call(bad, f34));
}

/* ---- compiled ahead of time ------------------------------------------------------------------ */

static tsr_status text_status(const tsr_compiled *made)
{
  return *tsr_compiled_text(made) ? tsr_scope_status(s) : TSR_OK;
}

static void compiled(void)
{
  tsr_function *same = tsr_function_make(s, first_of, .name = "same"), *bad;
  bad = tsr_function_make(s, first_of, .user = mesh, .name = "bad");
  tsr_compiled *c = tsr_compile(same, f3);
  tsr_sharding nowhere = tsr_on(tsr_mesh_abstract(rt, "a=2"), "a");
  tsr_array *type = tsr_abstract(s, TSR_F32, TSR_SHAPE(4), nowhere);
  title("functions compiled ahead of time");
  NO(tsr_abstract(s, (tsr_dtype)99, TSR_SHAPE(4), nowhere));
  NO(tsr_abstract(s, TSR_F32, TSR_SHAPE(4), tsr_on(mesh, "q")));
  NO(tsr_abstract(s, TSR_F32, TSR_SCALAR, nowhere));
  NO_END(tsr_wait(type));
  NO_END(tsr_wait(tsr_constrain(tsr_arange(s, 0, 4), nowhere)));
  NO_END(text_status(tsr_compile(bad, f34)));
  NO_END(text_status(tsr_compile(same, f3, NULL)));
  NO(tsr_compiled_call(c, f4));
  NO(tsr_compiled_call(c, f3, f3));
  NO(tsr_compiled_call(c, NULL));
}

/* ---- shown on the way ------------------------------------------------------------------------ */

static tsr_status fails(const tsr_seen *seen, void *user)
{
  (void)seen, (void)user;
  return TSR_EVALUE;
}

static void taps(void)
{
  title("arrays shown and named on the way");
  NO(tsr_inspect_sharding(f3, NULL, NULL));
  NO(tsr_named(f3, NULL));
  NO(tsr_named(f3, ""));
  NO(tsr_named(f3, "a name of more than sixty-three bytes, which is the most that there may be"));
  NO(tsr_callback(f3, NULL));
  NO(tsr_print(f3, NULL));
  NO(tsr_print(f3, "{x}"));
  NO_END(tsr_wait(tsr_callback(f3, fails)));
}

static tsr_array *seen_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  (void)scope, (void)user;
  return tsr_callback(in[0], fails);
}

static void saved(void)
{
  title("functions as text");
  const char *text = NULL;
  tsr_function *same = tsr_function_make(s, first_of), *own = tsr_function_make(s, seen_body);
  NO_END(tsr_function_text_into(same, NULL, f3));
  NO_END(tsr_function_text_into(same, &text, NULL));
  NO_END(tsr_function_text_into(own, &text, f3));
  NO_END(tsr_function_save(same, NULL, f3));
  NO_END(tsr_function_save(same, "/no/folder/f.tsr", f3));
  NO_END(status_of(tsr_function_load(s, NULL)));
  NO_END(status_of(tsr_function_load(s, "/no/folder/f.tsr")));
  NO_END(status_of(tsr_function_from_text(s, NULL)));
  NO_END(status_of(tsr_function_from_text(s, "tessera function 2")));
  NO_END(tsr_function_about_into(same, &text));
  NO_END(tsr_function_about_into(same, NULL));
  NO_END((tsr_function_arguments(same, NULL, 0), tsr_scope_status(s)));
}

static void checkpoints(void)
{
  const tsr_blob_item a = { "a", "", 0 };
  tsr_value value;
  tsr_array *tree = tsr_tree(s, { "weights", f3 });
  CHECK_I64(tsr_checkpoint_save(s, "ckpt", tree), TSR_OK);
  tsr_saved_step *c = tsr_checkpoint_open(s, "ckpt");
  title("checkpoints");
  NO_END(tsr_checkpoint_save(s, NULL, tree));
  NO_END(tsr_checkpoint_save(s, "ckpt", tree));
  NO_END(tsr_checkpoint_save(s, "ckpt", tree, .step = -1));
  NO_END(tsr_checkpoint_save(s, "ckpt", tree, .step = 1, .keep = -1));
  NO_END(tsr_checkpoint_save(s, "ckpt", tree, .step = 1, .timeout = -1));
  NO_END(tsr_checkpoint_save(s, "ckpt", gone, .step = 1));
  NO_END(tsr_checkpoint_save(s, "ckpt", stranger, .step = 1));
  NO_END(tsr_checkpoint_save(s, "no/such/folder", tree));
  NO_END(tsr_checkpoint_save(s, "ckpt", tree, .step = 1, .blobs = { { "a b", "", 0 } }));
  NO_END(tsr_checkpoint_save(s, "ckpt", tree, .step = 1, .blobs = { { "a", NULL, 1 } }));
  NO_END(tsr_checkpoint_save(s, "ckpt", tree, .step = 1, .blobs = { a, a }));
  NO_END((tsr_checkpoint_open(s, NULL), tsr_scope_status(s)));
  NO_END((tsr_checkpoint_open(s, "there/is/none"), tsr_scope_status(s)));
  NO_END((tsr_checkpoint_open(s, "."), tsr_scope_status(s)));
  NO(tsr_checkpoint_restore(c, tsr_tree(s, { "weight", f3 })));
  NO(tsr_checkpoint_restore(c, tsr_tree(s, { "weights", f4 })));
  NO(tsr_checkpoint_restore(c, tsr_tree(s, { "weights", f34 })));
  NO(tsr_checkpoint_restore(c, tsr_tree(s, { "weights", d3 })));
  NO(tsr_checkpoint_restore(c, NULL, .path = "layer"));
  NO_END(tsr_checkpoint_blob(c, "rng", &value));
  NO_END(tsr_checkpoint_blob(c, NULL, &value));
  NO_END(tsr_checkpoint_blob(c, "rng", NULL));
  NO_END((tsr_checkpoint_frame(c, "seen", free_place), tsr_scope_status(s)));
  NO_END((tsr_checkpoint_frame(c, NULL, free_place), tsr_scope_status(s)));
  CHECK_I64(tsr_checkpoint_save(s, "ckpt", tree, .background = true), TSR_OK);
  NO_END(tsr_checkpoint_wait(s));
}

static void profiles(void)
{
  title("profiles");
  NO_END(tsr_profile_end(s, "p.json"));
  tsr_profile_begin(s);
  NO_END(tsr_profile_begin(s));
  NO_END(tsr_profile_end(s, NULL));
  NO_END(tsr_profile_end(s, "/no/folder/p.json"));
}

/* ---- processes ------------------------------------------------------------------------------- */

static void processes(void)
{
  title("processes");
  static const int beyond[] = { 0, 3 };
  tsr_value value;
  tsr_store_keys keys;
  int64_t sum;
  tsr_scope *before = s;
  bool stop = false;
  NO_END(tsr_sync(s, "epoch"));
  NO_END(tsr_process_stop(s));
  NO_END(tsr_process_should_stop(s, 1, &stop));
  tsr_runtime *one = tsr_initialize("cpu:1", .detect = "none");
  s = tsr_scope_open(one);
  NO_END(tsr_sync(s, NULL));
  NO_END(tsr_sync(s, "epoch", .timeout = -1));
  NO_END(tsr_sync(s, "epoch", .processes = beyond, .process_count = 2));
  NO_END(tsr_sync(s, "epoch", .process_count = 1));
  NO_END(tsr_sync_with(s, "epoch", later(&(tsr_sync_opts){ 0 }, sizeof(tsr_sync_opts)), TSR_HERE));
  NO_END(tsr_process_fail(s, NULL));
  NO_END(tsr_process_should_stop(s, -1, &stop));
  NO_END(tsr_process_should_stop(s, 1, NULL));
  if (tsr_process_should_stop(s, 5, &stop)) FAIL("%s", tsr_message(s));
  NO_END(tsr_process_should_stop(s, 4, &stop));
  NO_END(tsr_store_set(s, "", "v", 1));
  NO_END(tsr_store_set(s, "k", NULL, 1));
  NO_END(tsr_store_set(s, "k", "v", (size_t)9 << 20));
  if (tsr_store_set(s, "k", "v", 1)) FAIL("%s", tsr_message(s));
  NO_END(tsr_store_set(s, "k", "v", 1));
  NO_END(tsr_store_get(s, "none", &value, .timeout = 0.01));
  NO_END(tsr_store_get(s, "k", NULL));
  NO_END(tsr_store_find(s, "/", &value));
  NO_END(tsr_store_add(s, "k", 1, &sum));
  NO_END(tsr_store_add(s, "n", 1, NULL));
  NO_END(tsr_store_delete(s, NULL));
  NO_END(tsr_store_delete(s, "/"));
  NO_END(tsr_store_list(s, NULL, &keys));
  tsr_runtime_close(one);
  s = before;
}

/* In a process that is alone; what several say of each other process_data_test has. */
static void data_of_processes(void)
{
  static float x[12];
  const tsr_sharding rows = tsr_on(mesh, "x,-");
  title("data of processes");
  NO(tsr_from_process_data(s, x, .dtype = TSR_F32, .shape = TSR_SHAPE(3, 4),
                           .on = tsr_on(mesh, "z")));
  NO(tsr_from_process_data(s, NULL, .dtype = TSR_F32, .shape = TSR_SHAPE(4, 3), .on = rows));
  NO(tsr_from_process_data(s, x, .shape = TSR_SHAPE(4, 3), .on = rows));
  NO(tsr_from_process_data(s, x, .dtype = TSR_F32, .shape = TSR_SHAPE(4, -3), .on = rows));
  NO(tsr_from_process_data(s, x, .dtype = TSR_F32, .shape = TSR_SHAPE(4, 3), .on = rows,
                           .whole = TSR_SHAPE(12)));
  NO(tsr_from_process_data(s, x, .dtype = TSR_F32, .shape = TSR_SHAPE(4, 3), .on = rows,
                           .whole = TSR_SHAPE(8, 3)));
  NO(tsr_from_process_data(s, x, .dtype = TSR_F32, .shape = TSR_SHAPE(3), .whole = TSR_SHAPE(4)));
  NO(tsr_from_process_data(s, x, .dtype = TSR_F32, .shape = TSR_SHAPE(3),
                           .on = tsr_on(mesh, "x", .strict = true)));
  NO(tsr_from_process_data_at(s, NULL, TSR_HERE));
  NO(tsr_from_process_data_at(s, LATER(tsr_process_data_args, .data = x), TSR_HERE));
  NO_END(tsr_read_process(f34, x, 4));
  NO_END(tsr_read_process(f34, NULL, sizeof x));
  NO_END(tsr_read_process(gone, x, 12));
  NO_END(tsr_read_root(f34, 0, x, 4));
  NO_END(tsr_read_root(f34, 1, x, sizeof x));
  NO(tsr_to_global(f34, tsr_on(mesh, "z")));
  NO(tsr_to_global(gone, rows));
  NO(tsr_to_local(gone));
  NO(tsr_process_gather(gone));
  NO(tsr_process_gather(wide16));
  NO(tsr_process_gather(tsr_put(s, x, TSR_F32, TSR_SHAPE(3), tsr_on(mesh, "x"))));
  NO(tsr_process_gather_with(f3, LATER(tsr_process_gather_opts, .tiled = true), TSR_HERE));
  NO(tsr_process_broadcast(f3, .root = 1));
  NO(tsr_process_broadcast(tsr_put(s, x, TSR_F32, TSR_SHAPE(3), tsr_on(mesh, "x"))));
  NO(tsr_process_broadcast_with(f3, LATER(tsr_process_broadcast_opts, .root = 0), TSR_HERE));
  NO_END(tsr_process_equal(gone, NULL));
  NO_END(tsr_process_meet(s, NULL));
}

/* ---- mapping --------------------------------------------------------------------------------- */

/* Bodies of one call each, which is refused there: NULL stands for what they return. */
static tsr_array *psum_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  static const int twice[] = { 0, 0 };
  (void)scope;
  if (user) return tsr_psum(in[0], "i", .groups = twice, .group_count = 1);
  return tsr_pmean(in[0], "i", .groups = twice, .group_count = 3);
}

static tsr_array *move_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  (void)scope;
  if (user) return tsr_all_gather(in[0], "i", .dim = 4);
  return tsr_psum_scatter(in[0], "i", .tiled = true);
}

static tsr_array *swap_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  (void)scope;
  if (user) return tsr_ppermute(in[0], "i", { 0, 1 }, { 1, 1 });
  return tsr_pbroadcast(in[0], "i", 7);
}

static tsr_array *sent_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  (void)scope;
  if (user) return tsr_pshuffle(in[0], "i", 1, 1);
  return tsr_ragged_all_to_all(in[0], "i", .to = in[0], .starts = in[0], .sizes = in[0],
                               .places = in[0]);
}

static void more_mapping(void)
{
  tsr_array *f2 = ones(TSR_F32, TSR_SHAPE(2, 3)), *f8 = ones(TSR_F32, TSR_SHAPE(1000, 3));
  tsr_function *same = tsr_function_make(s, first_of);
  NO(tsr_call(tsr_vmap(same, .out_dims = { TSR_UNMAPPED }), f2));
  NO(tsr_call(tsr_vmap(same, .out_dims = { 2 }), f2));
  NO(tsr_call(tsr_pmap(same), f8));
  NO(tsr_call(tsr_pmap(same, .in_dims = { 3 }), f2));
  NO_END(status_of(tsr_pmap(same, .axis = "")));
  NO_END(status_of(tsr_xmap(same)));
  NO_END(status_of(tsr_xmap(same, .in_axes = { "a" }, .out_axes = { "b" })));
  NO(tsr_call(tsr_xmap(same, .in_axes = { "a,b" }, .out_axes = { "a" }), f2));
  NO(tsr_pswapaxes(f3, "i"));
  NO(tsr_pshuffle(f3, "i", 0));
  NO(tsr_ragged_all_to_all(f3, "i", .to = f3));
  NO(tsr_call(tsr_vmap(tsr_function_make(s, sent_body), .axis = "i"), f2));
  NO(tsr_call(tsr_vmap(tsr_function_make(s, sent_body, .user = mesh), .axis = "i"), f2));
  NO(tsr_shard_map(mesh, first_of, NULL, .in = { f4 }, .in_specs = { "x", "x" },
                   .out_specs = { "x" }));
  NO(tsr_shard_map(mesh, first_of, NULL, .in = { f4 }, .in_specs = { "x" },
                   .out_specs = { "x", "x" }));
  NO(tsr_shard_map(mesh, first_of, NULL, .in = { f4 }, .in_specs = { "x,y" },
                   .out_specs = { "x" }));
  NO(tsr_shard_map(mesh, first_of, NULL, .in = { f4 }, .in_specs = { "x" },
                   .out_specs = { "x,y" }));
  NO(tsr_shard_map(mesh, first_of, NULL, .in = { f4 }, .axes = "q", .in_specs = { "" },
                   .out_specs = { "" }));
  NO(tsr_shard_map(mesh, first_of, NULL, .in = { f4 }, .axes = "y", .in_specs = { "x" },
                   .out_specs = { "" }));
}

static void mapping(void)
{
  tsr_array *f2 = ones(TSR_F32, TSR_SHAPE(2, 3));
  tsr_function *same = tsr_function_make(s, first_of), *all = tsr_vmap(same);
  tsr_function *two = tsr_vmap(same, .in_dims = { 0, 1 });
  tsr_function *none = tsr_vmap(same, .in_dims = { TSR_UNMAPPED });
  title("mapping");
  NO_END(status_of(tsr_vmap(same, .axis = "")));
  NO(tsr_call(all, f));
  NO(tsr_call(two, f3, f34));
  NO(tsr_call(none, f3));
  NO(tsr_psum(f3, "i"));
  NO(tsr_pmean(f3, "i"));
  NO(tsr_pmax(f3, "i"));
  NO(tsr_pmin(f3, ""));
  NO(tsr_all_gather(f3, "i"));
  NO(tsr_psum_scatter(f3, "i"));
  NO(tsr_all_to_all(f3, "i"));
  NO(tsr_ppermute(f3, "i", { 0, 1 }));
  NO(tsr_pbroadcast(f3, "i", 0));
  NO(tsr_pvary(f3, "i"));
  NO(tsr_axis_index(s, "i"));
  NO_END(tsr_axis_size(s, "i") ? TSR_OK : tsr_scope_status(s));
  NO(tsr_call(tsr_vmap(tsr_function_make(s, psum_body), .axis = "i"), f2));
  NO(tsr_call(tsr_vmap(tsr_function_make(s, psum_body, .user = mesh), .axis = "i"), f2));
  NO(tsr_call(tsr_vmap(tsr_function_make(s, move_body), .axis = "i"), f2));
  NO(tsr_call(tsr_vmap(tsr_function_make(s, move_body, .user = mesh), .axis = "i"), f2));
  NO(tsr_call(tsr_vmap(tsr_function_make(s, swap_body), .axis = "i"), f2));
  NO(tsr_call(tsr_vmap(tsr_function_make(s, swap_body, .user = mesh), .axis = "i"), f2));
  NO(tsr_shard_map(mesh, first_of, NULL, .in = { f3 }, .in_specs = { "x" }, .out_specs = { "x" }));
  NO(tsr_shard_map(mesh, first_of, NULL, .in = { f4 }, .in_specs = { "q" }, .out_specs = { "x" }));
  NO(tsr_shard_map(mesh, first_of, NULL, .in = { f4 }, .in_specs = { "x" }, .out_specs = { "y" }));
  NO(tsr_shard_map(mesh, first_of, NULL, .in = { f }, .in_specs = { "" }, .out_specs = { "x" }));
  NO(tsr_shard_map(mesh, NULL, NULL, .in = { f4 }, .in_specs = { "x" }, .out_specs = { "x" }));
  more_mapping();
}

/* ---- training -------------------------------------------------------------------------------- */

static void training(void)
{
  tsr_array *model = tsr_tree(s, { "w", f3 }, { "b", f4 }), *kept = tsr_sgd_state(model);
  tsr_array *strange = tsr_tree(s, { "w", f3 }, { "c", f4 }),
            *wide = tsr_tree(s, { "w", f4 }, { "b", f4 });
  tsr_array *moments = tsr_adam_state(model);
  title("training");
  NO(tsr_cross_entropy(f34, f3));
  NO(tsr_cross_entropy(i34, i3));
  NO(tsr_cross_entropy(f34, i2));
  NO(tsr_cross_entropy(f34, i3, .smoothing = 2));
  NO(tsr_cross_entropy_at(LATER(tsr_cross_entropy_args, .scores = f34, .truth = i3), TSR_HERE));
  NO(tsr_initial(s, TSR_HE, TSR_INITIAL_NORMAL, .key = 1, .shape = TSR_SHAPE(3)));
  NO(tsr_initial(s, (tsr_initial_rule)7, TSR_INITIAL_NORMAL, .key = 1, .shape = TSR_SHAPE(3, 4)));
  NO(tsr_initial(s, TSR_HE, TSR_INITIAL_UNIFORM, .key = 1, .shape = TSR_SHAPE(3, 4), .high = 1));
  NO(tsr_initial(s, TSR_HE, TSR_INITIAL_UNIFORM, .key = 1, .shape = TSR_SHAPE(3, 4),
                 .dtype = TSR_I32));
  NO(tsr_schedule(f, TSR_SCHEDULE_CONSTANT, .rate = 1));
  NO(tsr_schedule(i2, TSR_SCHEDULE_CONSTANT, .rate = 1));
  NO(tsr_schedule(i, (tsr_schedule_kind)9, .rate = 1));
  NO(tsr_schedule(i, TSR_SCHEDULE_COSINE, .rate = 1, .warmup = 5, .steps = 5));
  NO(tsr_schedule(i, TSR_SCHEDULE_STEPS, .rate = 1, .every = 3));
  NO(tsr_global_norm(tsr_tuple(s, f3, i3)));
  NO(tsr_clip_norm(model, 0));
  NO(tsr_clip_norm(i3, 1));
  tsr_array *two = tsr_gt(tsr_iota(s, TSR_F32, TSR_SHAPE(2), 0, (tsr_sharding){ 0 }), 0);
  NO(tsr_metric_add(model, f3));
  NO(tsr_metric_add(tsr_metric_start(s), f3, .where = f3));
  NO(tsr_metric_add(tsr_metric_start(s), f3, .where = two));
  NO(tsr_metric_add(tsr_metric_start(s), NULL));
  NO(tsr_metric_add(tsr_metric_start(s), tsr_tuple(s, f3)));
  NO(tsr_metric_join(tsr_metric_start(s), f3));
  NO(tsr_metric_of(f3, TSR_METRIC_MEAN));
  NO(tsr_metric_of(tsr_metric_start(s), (tsr_metric)9));
  NO(tsr_sgd_state(i3));
  NO(tsr_adam_state(tsr_tuple(s, f3, i3)));
  NO(tsr_sgd(model, strange, kept, .rate = TSR_OPERAND(0.1)));
  NO(tsr_sgd(model, wide, kept, .rate = TSR_OPERAND(0.1)));
  NO(tsr_sgd(model, NULL, kept, .rate = TSR_OPERAND(0.1)));
  NO(tsr_sgd(model, model, moments, .rate = TSR_OPERAND(0.1)));
  NO(tsr_sgd(model, model, kept));
  NO(tsr_sgd(model, model, kept, .rate = TSR_OPERAND(f3)));
  NO(tsr_sgd(model, model, kept, .rate = TSR_OPERAND(0.1), .momentum = 1));
  NO(tsr_sgd(i3, i3, kept, .rate = TSR_OPERAND(0.1)));
  NO(tsr_adam(model, model, kept, .rate = TSR_OPERAND(0.1)));
  NO(tsr_adam(model, model, moments, .rate = TSR_OPERAND(0.1), .beta1 = 1));
  NO(tsr_adam_at(LATER(tsr_adam_args, .model = model, .state = kept), TSR_HERE));
}

/* ---- loops ----------------------------------------------------------------------------------- */

static tsr_array *pair_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  if (user == mesh) return tsr_tuple(scope, tsr_cast(in[0], TSR_F64), in[1]);
  if (user) return tsr_tuple(scope, tsr_reshape(in[0], TSR_SHAPE(3, 1)), in[1]);
  return tsr_tuple(scope, in[0], in[1]);
}

static tsr_array *tree_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tree(scope, { "a", in[0] }, { "b", tsr_cast(tsr_field(in[0], "a"), TSR_I32) });
}

static tsr_array *less_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  (void)scope, (void)user;
  return tsr_lt(in[0], 3);
}

static tsr_array *failing_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  (void)scope, (void)user;
  return tsr_add(in[0], tsr_tile(in[0], 2));
}

static tsr_array *nothing_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  (void)scope, (void)in, (void)user;
  return NULL;
}

static tsr_array *first_row(tsr_scope *scope, tsr_array *const *in, void *user)
{
  (void)scope, (void)user;
  return tsr_slice(in[0], { 0, 1, 1 });
}

static void loops(void)
{
  tsr_array *f5 = ones(TSR_F32, TSR_SHAPE(5)), *yes = tsr_any(tsr_gt(f3, 0));
  tsr_array *i0 = tsr_sum(tsr_cast(f3, TSR_I64));
  title("loops");
  NO(tsr_scan(pair_body, NULL, NULL, .xs = f5));
  NO(tsr_scan(NULL, NULL, f3, .length = 2));
  NO(tsr_scan(pair_body, NULL, f3));
  NO(tsr_scan(pair_body, NULL, f3, .length = -1));
  NO(tsr_scan(pair_body, NULL, f3, .xs = f5, .length = 4));
  NO(tsr_scan(pair_body, NULL, f3, .xs = tsr_tuple(s, f5, f3)));
  NO(tsr_scan(pair_body, NULL, f3, .xs = yes));
  NO(tsr_scan(first_of, NULL, f3, .xs = f5));
  NO(tsr_scan(pair_body, mesh, f3, .xs = f5));
  NO(tsr_scan(pair_body, s, f3, .xs = f5));
  NO(tsr_scan(failing_body, NULL, f3, .xs = f5));
  NO(tsr_fori(0, 3, NULL, NULL, f3));
  NO(tsr_fori(0, 3, pair_body, NULL, f3));
  NO(tsr_fori(INT64_MIN, INT64_MAX, first_of, NULL, f3));
  NO(tsr_while(less_body, first_of, NULL, f3));
  NO(tsr_while(NULL, first_of, NULL, f3));
  NO(tsr_while(first_of, first_of, NULL, i0));
  NO(tsr_while(less_body, pair_body, NULL, i0));
  NO(tsr_cond(f3, first_of, first_of, NULL, f3));
  NO(tsr_cond(i0, first_of, first_of, NULL, f3));
  NO(tsr_cond(yes, first_of, NULL, NULL, f3));
  NO(tsr_cond(yes, first_of, less_body, NULL, f3));
  NO(tsr_switch(yes, NULL, .bodies = { first_of }, .in = { f3 }));
  NO(tsr_switch(i0, NULL, .in = { f3 }));
  NO(tsr_switch(i0, NULL, .bodies = { first_of, pair_body }, .in = { f3, f3 }));
  NO(tsr_while(less_body, tree_body, NULL, tsr_tree(s, { "a", i0 }, { "b", i0 })));
  NO(tsr_associative_scan(NULL, NULL, f5));
  NO(tsr_associative_scan(first_of, NULL, f5, .dim = 1));
  NO(tsr_associative_scan(first_of, NULL, tsr_tuple(s, f5, f3)));
  NO(tsr_associative_scan(nothing_body, NULL, f5));
  NO(tsr_associative_scan(pair_body, NULL, f5));
  NO(tsr_associative_scan(less_body, NULL, f5));
  NO(tsr_associative_scan(first_row, NULL, f5));
  NO(tsr_associative_scan_at(first_of, NULL, LATER(tsr_prefix_args, .x = f5), TSR_HERE));
}

/* ---- the guard ------------------------------------------------------------------------------- */

/* ---- pipelines ------------------------------------------------------------------------------- */

#define NO_SOURCE(...) failed(#__VA_ARGS__, ((void)(__VA_ARGS__), tsr_scope_status(s)), TSR_HERE)

static tsr_status no_record(const tsr_record *record, void *user)
{
  (void)record, (void)user;
  return TSR_EARG;
}

static tsr_status no_make(int64_t at, void *const *out, void *user)
{
  (void)at, (void)out, (void)user;
  return TSR_EARG;
}

static bool no_test(const tsr_record *record, void *user)
{
  (void)record, (void)user;
  return false;
}

static int64_t no_parts(const tsr_record *record, void *user)
{
  (void)record, (void)user;
  return -1;
}

static tsr_status no_half(const tsr_record *record, int64_t part, void *user)
{
  (void)record, (void)part, (void)user;
  return TSR_EARG;
}

/* What becomes of records between a source and its batches. */
static void stages(void)
{
  static const uint8_t pixels[8] = { 0 };
  title("stages");
  tsr_source *four = tsr_source_range(s, 4), *mixed = tsr_source_shuffle(four, .seed = 1);
  tsr_source *two = tsr_source_memory(s, 4, { "x", TSR_U8, TSR_SHAPE(2), pixels });
  tsr_source *three = tsr_source_batch(four, .rows = 3, .remainder = TSR_PAD_AND_MASK);
  NO_SOURCE(tsr_source_batch(four, .rows = 0));
  NO_SOURCE(tsr_source_batch(four, .rows = 3));
  NO_SOURCE(tsr_source_batch(four, .rows = 2, .stride = -1));
  NO_SOURCE(tsr_source_batch(four, .rows = 2, .remainder = (tsr_remainder)9));
  NO_SOURCE(tsr_source_batch(three, .rows = 2, .remainder = TSR_PAD_AND_MASK));
  NO_SOURCE(tsr_source_unbatch(four));
  NO_SOURCE(tsr_source_unbatch(tsr_source_zip(two, three)));
  NO_SOURCE(tsr_source_flat_map(four, NULL, .count = no_parts));
  NO_SOURCE(tsr_source_flat_map(four, no_half, .seed = 1));
  NO_SOURCE(tsr_source_flat_map(four, no_half, .count = no_parts));
  NO_SOURCE(tsr_source_flat_map(mixed, no_half, .count = no_parts));
  NO_SOURCE(tsr_source_flat_map(four, no_half, .count = no_parts,
                                .fields = { { "part", TSR_U8, { 0 } } }));
  tsr_source *turns[] = { four, two };
  NO_SOURCE(tsr_source_interleave(turns, 2, .cycle = 1));
  NO_SOURCE(tsr_source_interleave(turns, 1, .cycle = -1));
  tsr_source *named = tsr_source_select(four, "index=n");
  NO_SOURCE(tsr_source_merge(four, tsr_source_take(named, 3)));
  NO_SOURCE(tsr_source_merge(four, two));
  NO_SOURCE(tsr_source_batch(four, .rows = 2, .files = true));
  NO_SOURCE(tsr_source_merge(four, tsr_source_shuffle(named, .seed = 1)));
  NO_SOURCE(tsr_source_shuffle(four, .files = true));
  NO_SOURCE(tsr_source_shuffle(four, .files = true, .window = 2));
  NO_SOURCE(tsr_source_cache(mixed));
  tsr_source *drawn =
      tsr_source_map(four, no_record, .seed = 1, .fields = { { "n", TSR_I64, { 0 } } });
  NO_SOURCE(tsr_source_cache(drawn));
  NO_SOURCE(tsr_source_cache(four, .records = -1));
  NO_SOURCE(tsr_source_cache(four, .records = 1, .path = "four.cache"));
  NO_SOURCE(tsr_source_cache(four, .path = "there/is/none.cache"));
  NO_SOURCE(tsr_source_cache(four, .path = "words.csv"));
  tsr_source_cache(four, .path = "four.cache");
  NO_SOURCE(tsr_source_cache(named, .path = "four.cache"));
  static const int64_t long_ago[4] = { 0, 1, 2, 3 };
  tsr_source *ragged = tsr_source_memory(s, 4, { "x", TSR_U8, TSR_SHAPE(2), pixels },
                                         { "x_length", TSR_I64, { 0 }, long_ago });
  NO_SOURCE(tsr_source_bucket(two, "x", .rows = 2, .bounds = { 1 }));
  NO_SOURCE(tsr_source_bucket(ragged, "x", .rows = 0, .bounds = { 1 }));
  NO_SOURCE(tsr_source_bucket(ragged, "x", .rows = 2, .bounds = { 2, 2 }));
  NO_SOURCE(tsr_source_bucket(ragged, "x", .rows = 2, .bounds = { 1 }));
  NO_SOURCE(tsr_source_bucket(tsr_source_shuffle(ragged, .seed = 1), "x", .rows = 2));
  NO_SOURCE(tsr_source_pack(two, "", .length = 2));
  NO_SOURCE(tsr_source_pack(two, "x", .length = 0));
  NO_SOURCE(tsr_source_pack(two, "x,x", .length = 2));
  NO_SOURCE(tsr_source_pack(two, "x", .length = 2, .open = -1));
  NO_SOURCE(tsr_source_pack(two, "x", .length = 1));
  NO_SOURCE(tsr_source_pack(four, "index", .length = 1));
  NO_SOURCE(tsr_source_pack(ragged, "x", .length = 2));
  NO_SOURCE(tsr_source_pack(tsr_source_shuffle(two, .seed = 1), "x", .length = 2));
  NO_SOURCE(tsr_source_pad(two, "y", .length = 3));
  NO_SOURCE(tsr_source_pad(two, NULL, .length = 3));
  NO_SOURCE(tsr_source_pad(four, "index", .length = 3));
  NO_SOURCE(tsr_source_pad(two, "x", .length = 0));
  NO_SOURCE(tsr_source_pad(two, "x", .length = 3, .value = TSR_VALUE(300)));
  NO_SOURCE(tsr_source_pad(two, "x", .length = 3, .value = TSR_VALUE(0.5)));
  NO_SOURCE(tsr_source_one_hot(four, "index", .classes = 0));
  NO_SOURCE(tsr_source_one_hot(four, "index", .classes = 4, .dtype = (tsr_dtype)99));
  NO_SOURCE(tsr_source_cast(two, "y"));
  NO_SOURCE(tsr_source_cast(two, "x", .dtype = TSR_I32, .scale = 2));
  NO_SOURCE(tsr_source_cast(two, "x", .std = { -1, -1, -1, -1 }));
  NO_SOURCE(tsr_source_cast(two, "x", .dtype = (tsr_dtype)99));
  NO_SOURCE(tsr_source_fit(two, "x"));
  NO_SOURCE(tsr_source_fit(ragged, "x", .multiple = -1));
  NO_SOURCE(tsr_source_fit(tsr_source_shuffle(ragged, .seed = 1), "x"));
  NO_SOURCE(tsr_source_pack(two, "x", .length = 2, .way = (tsr_pack_way)3));
  NO_SOURCE(tsr_source_sample(.parts = { { four, 0 } }));
  NO_SOURCE(tsr_source_sample(.parts = { { four, 1 }, { two, 1 } }));
  NO_SOURCE(tsr_source_sample(.parts = { { four, 1 } }, .end = (tsr_sample_end)3));
  NO_SOURCE(tsr_source_pack(two, "x", .length = 2, .end = TSR_VALUE(300)));
  NO_SOURCE(tsr_source_cache(four, .bytes = -1));
  NO_SOURCE(tsr_source_cache(four, .bytes = 1, .path = "four.cache"));
  NO_SOURCE(tsr_source_gather(four, NULL, 2));
  NO_SOURCE(tsr_source_gather(four, (const int64_t[]){ 4 }, 1));
  tsr_source *label = tsr_source_one_hot(four, "index", .classes = 3);
  NO_SOURCE(tsr_source_one_hot(label, "index", .classes = 3));
  NO_SOURCE(tsr_pipeline_next(tsr_pipeline_open(label, .batch_size = 4)));
}

static tsr_status no_next(void *const *out, bool *ended, void *user)
{
  (void)out, (void)user;
  *ended = true;
  return TSR_OK;
}

static void pipelines(void)
{
  float x[4] = { 0 };
  title("pipelines");
  FILE *csv = fopen("words.csv", "w");
  CHECK(csv && fputs("word\na\n", csv) >= 0 && !fclose(csv));
  NO_SOURCE(tsr_source_frame(tsr_frame_read_csv(s, "words.csv"), .codes = "none"));
  tsr_source *four = tsr_source_range(s, 4), *named = tsr_source_select(four, "index=n");
  NO_SOURCE(tsr_source_npz(s, NULL));
  NO_SOURCE(tsr_source_npz(s, "there/is/none.npz"));
  NO_SOURCE(tsr_source_npy(s, NULL));
  NO_SOURCE(tsr_source_npy(s, "there/is/none.npy"));
  NO_SOURCE(tsr_source_memory(s, -1, { "x", TSR_F32, { 0 }, x }));
  NO_SOURCE(tsr_source_memory(s, 4, { "x", TSR_F32, { 0 }, NULL }));
  NO_SOURCE(tsr_source_memory(s, 4, { "", TSR_F32, { 0 }, x }));
  NO_SOURCE(tsr_source_memory(s, 4, { "x", (tsr_dtype)99, { 0 }, x }));
  NO_SOURCE(tsr_source_memory(s, 4, { "x", TSR_F32, { .rank = TSR_MAX_RANK }, x }));
  NO_SOURCE(tsr_source_memory(s, 4, { "x", TSR_F32, { 0 }, x }, { "x", TSR_F32, { 0 }, x }));
  NO_SOURCE(tsr_source_arrays(s, NULL));
  NO_SOURCE(tsr_source_arrays(s, f));
  NO_SOURCE(tsr_source_arrays(s, tsr_tuple(s, f3, f4)));
  NO_SOURCE(tsr_source_range(s, -1));
  NO_SOURCE(tsr_source_callback(s, .count = 4));
  NO_SOURCE(tsr_source_callback(s, .count = -4, .fn = no_make));
  NO_SOURCE(tsr_source_callback(s, .count = 4, .fn = no_make));
  NO_SOURCE(tsr_source_binary(s, NULL, .header = 1));
  NO_SOURCE(tsr_source_binary(s, "there/is/none.bin", .fields = { { "x", TSR_U8, { 0 } } }));
  NO_SOURCE(tsr_source_binary(s, "a.npz", .header = -1));
  NO_SOURCE(tsr_source_binary(s, "a.npz", .fields = { { "x", TSR_U8, TSR_SHAPE(1000) } }));
  NO_SOURCE(tsr_source_tfrecord(s, NULL, .defaults = true));
  NO_SOURCE(tsr_source_tfrecord(s, "a.npz", .defaults = true));
  NO_SOURCE(tsr_source_tfrecord(s, "a.npz", .fields = { { "x", TSR_F64, { 0 } } }));
  NO_SOURCE(tsr_source_tfrecord(s, "a.npz", .fields = { { "x", TSR_U8, { 0 } } }));
  NO_SOURCE(tsr_source_lines(s, NULL, .longest = 1));
  NO_SOURCE(tsr_source_lines(s, "there/is/none.txt", .longest = 1));
  NO_SOURCE(tsr_source_lines(s, "words.csv", .longest = -1));
  NO_SOURCE(tsr_source_json(s, NULL, .cut = true));
  NO_SOURCE(tsr_source_json(s, "words.csv", .cut = true));
  NO_SOURCE(tsr_source_json(s, "there/is/none.jsonl", .fields = { { "x", TSR_U8, { 0 } } }));
  NO_SOURCE(tsr_source_json(s, "a.npz", .ragged = "x", .fields = { { "x", TSR_U8, { 0 } } }));
  NO_SOURCE(tsr_source_tar(s, NULL, .cut = true));
  NO_SOURCE(tsr_source_tar(s, "there/is/none.tar", .cut = true));
  NO_SOURCE(tsr_source_tar(s, "a.npz", .cut = true));
  NO_SOURCE(tsr_source_tar(s, "a.npz", .fields = { { "x", TSR_F32, { 0 } } }));
  NO_SOURCE(tsr_source_folder(s, NULL, .cut = true));
  NO_SOURCE(tsr_source_folder(s, "there/is/none", .cut = true));
  NO_SOURCE(tsr_source_folder(s, ".", .longest = -1));
  NO_SOURCE(tsr_source_stream(s, .fields = { { "x", TSR_I64, { 0 } } }));
  NO_SOURCE(tsr_source_stream(s, .fn = no_next));
  tsr_source *stream = tsr_source_stream(s, .fn = no_next, .fields = { { "x", TSR_I64, { 0 } } });
  NO_SOURCE(tsr_source_slice(stream, TSR_RANGE(0, 1)));
  NO_SOURCE(tsr_pipeline_open(stream, .epochs = 2));
  NO_SOURCE(tsr_pipeline_open(stream, .remainder = TSR_WRAP));
  static const int64_t falls[] = { 0, 2, 1 };
  NO_SOURCE(tsr_source_ragged(s, -1, { "x", TSR_F32, { 0 }, x, falls }));
  NO_SOURCE(tsr_source_ragged(s, 2, { "x", TSR_F32, { 0 }, x, falls }));
  NO_SOURCE(tsr_source_ragged(s, 2, { "x", TSR_F32, { 0 }, x, NULL }));
  NO_SOURCE(tsr_source_safetensors(s, NULL, NULL));
  NO_SOURCE(tsr_source_safetensors(s, "there/is/none.safetensors", NULL));
  NO_SOURCE(tsr_source_safetensors(s, "a.npz", NULL));
  NO_SOURCE(tsr_source_tfrecord(s, "a.npz", .ragged = "x", .fields = { { "x", TSR_U8, { 0 } } }));
  NO_SOURCE(tsr_source_images(four, .height = 2));
  NO_SOURCE(tsr_source_images(four, .height = 2, .width = 2, .field = "y"));
  NO_SOURCE(tsr_source_images(four, .height = 2, .width = 2, .field = "index"));
  NO_SOURCE(tsr_source_images(four, .height = 2, .width = 2, .channels = 4));
  NO_SOURCE(tsr_source_images(four, .height = 2, .width = 2, .dtype = TSR_F64));
  NO_SOURCE(tsr_source_images(four, .height = 2, .width = 2, .crop = (tsr_image_crop)7));
  NO_SOURCE(tsr_source_images(four, .height = 2, .width = 2, .share = 2));
  NO_SOURCE(tsr_source_split(four, .part = 4, .parts = 4));
  NO_SOURCE(tsr_source_filter(four, NULL));
  NO_SOURCE(tsr_source_filter(tsr_source_shuffle(four, .seed = 1), no_test));
  NO_SOURCE(tsr_source_shuffle(four, .window = -1));
  NO_SOURCE(tsr_source_slice(four, TSR_STEPS(0, 4, 0)));
  NO_SOURCE(tsr_source_repeat(four, -1));
  NO_SOURCE(tsr_source_concat(four, named));
  NO_SOURCE(tsr_source_zip(four, four));
  NO_SOURCE(tsr_source_mix({ four, 0 }));
  NO_SOURCE(tsr_source_select(four, ""));
  NO_SOURCE(tsr_source_select(four, "indx"));
  NO_SOURCE(tsr_source_select(four, "index,index"));
  NO_SOURCE(tsr_source_map(four, NULL));
  NO_SOURCE(tsr_source_map(four, no_record));
  NO_SOURCE(tsr_pipeline_open(four, .batch_size = -1));
  NO_SOURCE(tsr_pipeline_open(four, .epochs = -2));
  NO_SOURCE(tsr_pipeline_open(four, .threads = -2));
  NO_SOURCE(tsr_pipeline_open(four, .prefetch = -1));
  NO_SOURCE(tsr_pipeline_open(four, .remainder = (tsr_remainder)9));
  NO_SOURCE(tsr_pipeline_open(four, .bad = (tsr_bad_records)9));
  NO_SOURCE(tsr_pipeline_open(four, .bad_most = -1));
  NO_SOURCE(tsr_pipeline_open(four, .bad_share = 1.5));
  NO_SOURCE(tsr_pipeline_open(four, .on = on("z")));
  NO_SOURCE(tsr_pipeline_open(four, .on = on("x,y")));
  NO_SOURCE(tsr_pipeline_open(four, .fields = { { "x", on("") } }));
  NO_SOURCE(tsr_pipeline_open(four, .state = x, .state_size = sizeof x));
  tsr_source *bad = tsr_source_map(four, no_record, .fields = { { "index", TSR_I64, { 0 } } });
  tsr_pipeline *p = tsr_pipeline_open(bad, .batch_size = 4);
  NO_SOURCE(tsr_pipeline_next(p));
  p = tsr_pipeline_open(bad, .batch_size = 4, .bad = TSR_BAD_SUBSTITUTE);
  NO_SOURCE(tsr_pipeline_next(p));
  p = tsr_pipeline_open(bad, .batch_size = 4, .bad = TSR_BAD_MASK, .bad_most = 3);
  NO_SOURCE(tsr_pipeline_next(p));
  p = tsr_pipeline_open(bad, .batch_size = 4, .bad = TSR_BAD_MASK, .bad_share = 0.5);
  NO_SOURCE(tsr_pipeline_next(p));
  p = tsr_pipeline_open(four, .batch_size = 4);
  tsr_batch *b = tsr_pipeline_next(p);
  tsr_scope *outer = s;
  s = tsr_batch_scope(b);
  NO(tsr_batch_field(b, "x"));
  s = outer;
  tsr_scope_clear(s); /* which is told, too */
  tsr_batch_release(b);
}

/* Calls that take a line and are not refused, and why. */
static const char *const never[][2] = {
  { "tsr_binary", "it is the call that it is given" },
  { "tsr_fma_of", "tsr_fma is it" },
  { "tsr_divmod_of", "tsr_divmod is it" },
  { "tsr_metric_start", "takes nothing" },
  { "tsr_on", "a place is data; the call that takes it says what is wrong with it" },
  { "tsr_random_key", "any seed is a key" },
  { "tsr_grad", "a function is made; gradient_test has what its call says" },
  { "tsr_value_and_grad", "as tsr_grad" },
  { "tsr_vjp", "as tsr_grad" },
  { "tsr_jvp", "as tsr_grad" },
  { "tsr_hvp", "as tsr_grad" },
  { "tsr_jacobian", "a function is made; custom_test has what its call says" },
  { "tsr_linearize", "as tsr_jacobian" },
  { "tsr_custom_vjp", "as tsr_jacobian" },
  { "tsr_custom_jvp", "as tsr_jacobian" },
  { "tsr_checkpoint", "as tsr_jacobian" },
  { "tsr_initialize", "the runtime has the status; role_test and death_test have what it says" },
  { "tsr_process_regroup", "the runtime has the status; fate_test has what it says" },
  { "tsr_checkpoint_verify", "it names files that are named by chance; checkpoint_test has it" },
  { "tsr_region_begin", "it returns nothing; profile_test has what it says" },
  { "tsr_region_end", "as tsr_region_begin" },
};

/* Calls on other things have tests of their own. */
static const char *const others[] = { "tsr_frame_", "tsr_mesh_",  "tsr_runtime_",
                                      "tsr_row_",   "tsr_scope_", "tsr_table_" };

static bool begins(const char *text, const char *with)
{
  return !strncmp(text, with, strlen(with));
}

/* Cuts "_at" or "_with" off; false: the call takes no line. */
static bool cut_line(char *name)
{
  size_t length = strlen(name);
  bool at = length > 3 && !strcmp(name + length - 3, "_at");
  bool with = length > 5 && !strcmp(name + length - 5, "_with");
  if (at || with) name[length - (at ? 3 : 5)] = 0;
  return at || with;
}

static bool has_reason(const char *name)
{
  for (size_t at = 0; at < sizeof never / sizeof *never; at++)
    if (!strcmp(never[at][0], name)) return true;
  return false;
}

/* Each call that can be refused was. */
static void look_for_all(const char *names)
{
  char *exports = test_read(test_file("exports.txt"), NULL), *state;
  for (char *name = strtok_r(exports, "\n", &state); name; name = strtok_r(NULL, "\n", &state)) {
    bool looked_at = cut_line(name);
    for (size_t at = 0; at < sizeof others / sizeof *others; at++)
      looked_at = looked_at && !begins(name, others[at]);
    if (!looked_at) continue;
    char line[80];
    snprintf(line, sizeof line, "\n%s\n", name);
    if (has_reason(name) == !!strstr(names, line))
      FAIL("%s has %s", name, has_reason(name) ? "a case and a reason why none" : "no case here");
  }
  free(exports);
}

/* ---- the test -------------------------------------------------------------------------------- */

static void compare(const char *found, const char *expected)
{
  const char *line = found, *before = found;
  while (*found && *found == *expected) {
    if (*found == '\n' && found[1] != ' ') before = line, line = found + 1;
    found++, expected++;
  }
  if (*found != *expected)
    FAIL("%.*s, expected in golden/refusals.txt ...%.200s", 300, before, expected);
}

TEST_TIMEOUT(every_call_says_what_is_wrong_and_what_to_do, 200)
{
  void (*const parts[])(
      void) = { elements,        reductions, views,    several,        taking,    finding,
                sorting,         products,   places,   tensors,        files,     terminals,
                indices_in_runs, functions,  compiled, taps,           profiles,  saved,
                mapping,         training,   loops,    memory_in_runs, processes, data_of_processes,
                checkpoints,     pipelines,  stages };
  const char *write = getenv("REFUSALS_WRITE"), *path = test_file("golden/refusals.txt");
  char *text = NULL, *names = NULL;
  size_t size, names_size;
  page = open_memstream(&text, &size);
  called = open_memstream(&names, &names_size);
  fputs("\n", called);
  open_world();
  for (size_t at = 0; at < sizeof parts / sizeof *parts; at++) parts[at]();
  fclose(page);
  fclose(called);
  look_for_all(names);
  tsr_runtime_close(rt);
  tsr_runtime_close(other);
  CHECK(cases >= 400);
  if (write && *write == '1') {
    test_write(path, text, size);
  } else {
    char *golden = test_read(path, NULL);
    compare(text, golden);
    free(golden);
  }
  free(names);
  free(text);
}
