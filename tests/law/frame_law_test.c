/* The law of frames: a random chain of filters, assignments, heads and selections, ended by rows,
 * an aggregate or groups, gives on every mesh what a naive evaluator gives that knows neither
 * meshes nor columns: it walks rows one by one, with its own rules for nulls and its own exact
 * sums. */
#include "tessera.h"

#include "base/base.h"
#include "oracle.h"
#include "support/guarded_devices.h"
#include "topology/topology.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- values and trees of the evaluator ------------------------------------------------------- */

/* The columns that a frame begins with: I is of any integers, H of any floats. */
enum { A, I, X, H, D, OK, WHO, BASE };

enum { MOST_ROWS = 3000, MOST_COLUMNS = 16, MOST_STEPS = 6 };

typedef struct cell {
  bool null;
  double f;  /* floats */
  int64_t i; /* integers, bools, text: number of the word */
} cell;

static const char *const words[] = {
  "", "Ann", "ann", "ann'a", "bob", "zo\xc3\xa9"
}; /* in order */
enum { WORDS = 6 };

typedef struct tree {
  char kind; /* c(olumn) l(iteral) N(ull) + - * / D(//) % n(eg) a(bs) i(f) C(oalesce) = ! < { > }
                    & | ~ z(is null) Z(is not null) I(n) and L(floor) */
  int type;
  int column;
  cell value; /* literal */
  struct tree *arg[3];
  int count;
  int word[3]; /* in: words or numbers */
} tree;

typedef struct step {
  char kind; /* f(ilter) a(ssign) h(ead) */
  tree *expr;
  int column;
  int64_t head;
} step;

typedef struct trial {
  test_rng rng;
  int64_t rows;
  int columns; /* base columns, then made ones */
  int type[MOST_COLUMNS], base_type[BASE];
  char name[MOST_COLUMNS][12];
  cell *data; /* current values: [row * MOST_COLUMNS + column] */
  bool *in;   /* current selection */
  step steps[MOST_STEPS];
  int step_count;
  bool overflow;
  const char *asked; /* the query being checked */
  tree *pool;
  int used;
} trial;

static int64_t pick(trial *t, int64_t first, int64_t last)
{
  return test_range(&t->rng, first, last);
}

static bool numeric(int type)
{
  return type > TSR_COL_BOOL && type < TSR_COL_DATE;
}

static bool whole(int type)
{
  return type >= TSR_COL_I8 && type <= TSR_COL_U64;
}

static bool natural(int type)
{
  return type >= TSR_COL_U8 && type <= TSR_COL_U64;
}

/* Bits of an integer without its sign, or those of a float that count. */
static int value_bits(int type)
{
  static const int bits[] = { [TSR_F16] = 11, [TSR_BF16] = 8, [TSR_F32] = 24, [TSR_F64] = 53 };
  if (!whole(type)) return bits[type];
  return 8 * (int)tsr_dtype_size((tsr_dtype)type) - !natural(type);
}

/* Whether integers of a type have a value; of u64 only what i64 has is asked for. */
static bool in_range(int type, int64_t value)
{
  if (value < 0) return !natural(type) && value >= -(INT64_MAX >> (63 - value_bits(type))) - 1;
  return value_bits(type) > 62 || value >> value_bits(type) == 0;
}

/* Rounds a double to a type, once. */
static double round_as(int type, double v)
{
  static const int least[] = { [TSR_F16] = -24, [TSR_BF16] = -133 };
  int power;
  if (type == TSR_COL_F32) return (double)(float)v;
  if (type == TSR_COL_F64 || !isfinite(v) || v == 0) return v;
  frexp(v, &power);
  power -= value_bits(type);
  if (power < least[type]) power = least[type];
  double rounded = ldexp(rint(ldexp(v, -power)), power);
  bool over = fabs(rounded) > (type == TSR_COL_F16 ? 65504 : 0x1.fep127);
  return over ? copysign((double)INFINITY, v) : rounded;
}

static tree *grow(trial *t, char kind, int type, int count)
{
  tree *n = &t->pool[t->used++];
  CHECK(t->used < 4000);
  *n = (tree){ .kind = kind, .type = type, .count = count };
  return n;
}

/* ---- random trees ---------------------------------------------------------------------------- */

static tree *column(trial *t, bool (*fits)(int))
{
  for (;;) {
    int c = (int)pick(t, 0, t->columns - 1);
    if (!fits(t->type[c])) continue;
    tree *n = grow(t, 'c', t->type[c], 0);
    n->column = c;
    return n;
  }
}

static tree *literal_for(trial *t, int type)
{
  tree *n = grow(t, 'l', type, 0);
  n->value.i = pick(t, natural(type) ? 0 : -9, 9);
  n->value.f = (double)n->value.i;
  if (!whole(type)) n->value.f += 0.25 * (double)pick(t, 0, 3);
  return n;
}

static int meet(int a, int b)
{
  static const int signed_of[] = { TSR_COL_I8, TSR_COL_I16, TSR_COL_I32, TSR_COL_I64 };
  if (a == b) return a;
  if (whole(a) != whole(b)) { /* the float, if it has all of the integers */
    int real = whole(a) ? b : a, bits = value_bits(whole(a) ? a : b);
    return value_bits(real) >= bits ? real : bits <= 24 ? TSR_COL_F32 : TSR_COL_F64;
  }
  if (!whole(a)) {
    bool halves = a < TSR_COL_F32 && b < TSR_COL_F32;
    return halves ? TSR_COL_F32 : a > b ? a : b;
  }
  if (natural(a) == natural(b)) return value_bits(a) > value_bits(b) ? a : b;
  int size = value_bits(natural(a) ? a : b) * 2 / 8,
      other = (value_bits(natural(a) ? b : a) + 1) / 8;
  if (other > size) size = other;
  return size > 8 ? TSR_COL_F64 : signed_of[size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3];
}

static tree *random_number(trial *t, int depth);
static tree *random_bool(trial *t, int depth);

static tree *random_binary(trial *t, int depth)
{
  static const char ops[] = "+-*/+-*D%";
  char op = ops[pick(t, 0, 8)];
  tree *a = random_number(t, depth - 1), *b;
  if (pick(t, 0, 2)) b = random_number(t, depth - 1);
  else b = literal_for(t, a->type);
  int type = meet(a->type, b->type);
  if ((op == 'D' || op == '%') && !whole(type)) op = '+';
  if (op == '/' && whole(type)) type = TSR_COL_F64;
  tree *n = grow(t, op, type, 2);
  n->arg[0] = a;
  n->arg[1] = b;
  return n;
}

static tree *random_choice(trial *t, int depth)
{
  bool coalesce = pick(t, 0, 2) == 0;
  tree *a = random_number(t, depth - 1), *b = random_number(t, depth - 1);
  int way = (int)pick(t, 0, 3);
  if (!coalesce && way == 0) b = grow(t, 'N', a->type, 0);
  if (way == 1) b = literal_for(t, a->type);
  tree *n = grow(t, coalesce ? 'C' : 'i', meet(a->type, b->type), coalesce ? 2 : 3);
  if (!coalesce) n->arg[0] = random_bool(t, depth - 1);
  n->arg[n->count - 2] = a;
  n->arg[n->count - 1] = b;
  return n;
}

static tree *random_number(trial *t, int depth)
{
  int64_t way = depth <= 0 ? 0 : pick(t, 0, 9);
  if (way <= 3) return column(t, numeric);
  if (way <= 6) return random_binary(t, depth);
  if (way <= 8) return random_choice(t, depth);
  tree *a = random_number(t, depth - 1);
  tree *n = grow(t, pick(t, 0, 1) ? 'n' : pick(t, 0, 1) ? 'a' : 'L', a->type, 1);
  n->arg[0] = a;
  return n;
}

static bool is_bool(int type)
{
  return type == TSR_COL_BOOL;
}

static bool is_text(int type)
{
  return type == TSR_COL_TEXT;
}

static bool any_type(int type)
{
  return type != 0;
}

static tree *random_compare(trial *t, int depth)
{
  static const char ops[] = "=!<{>}";
  tree *n = grow(t, ops[pick(t, 0, 5)], TSR_COL_BOOL, 2);
  if (pick(t, 0, 3) == 0) {
    n->arg[0] = column(t, is_text);
    n->arg[1] = pick(t, 0, 2) ? grow(t, 'l', TSR_COL_TEXT, 0) : column(t, is_text);
    n->arg[1]->value.i = pick(t, 0, WORDS - 1);
    return n;
  }
  n->arg[0] = random_number(t, depth - 1);
  n->arg[1] = pick(t, 0, 1) ? random_number(t, depth - 1) : literal_for(t, n->arg[0]->type);
  return n;
}

static tree *random_in(trial *t)
{
  bool text = pick(t, 0, 1);
  tree *n = grow(t, 'I', TSR_COL_BOOL, 1);
  n->arg[0] = text ? column(t, is_text) : column(t, whole);
  for (int k = 0; k < 3; k++) n->word[k] = (int)(text ? pick(t, 0, WORDS - 1) : pick(t, -9, 9));
  n->value.i = pick(t, 0, 1); /* not in */
  return n;
}

static tree *random_bool(trial *t, int depth)
{
  int64_t way = depth <= 0 ? pick(t, 0, 3) : pick(t, 0, 9);
  tree *n;
  if (way == 0) return column(t, is_bool);
  if (way == 1) return random_in(t);
  if (way == 2) {
    n = grow(t, pick(t, 0, 1) ? 'z' : 'Z', TSR_COL_BOOL, 1);
    n->arg[0] = column(t, any_type);
    return n;
  }
  if (way <= 6) return random_compare(t, depth);
  if (way == 7) {
    n = grow(t, '~', TSR_COL_BOOL, 1);
    n->arg[0] = random_bool(t, depth - 1);
    return n;
  }
  n = grow(t, way == 8 ? '&' : '|', TSR_COL_BOOL, 2);
  n->arg[0] = random_bool(t, depth - 1);
  n->arg[1] = random_bool(t, depth - 1);
  return n;
}

/* One that is the same in every row: 5 is null, if(5 is null, 3, null). */
static tree *constant_bool(trial *t)
{
  tree *n = grow(t, pick(t, 0, 1) ? 'z' : 'Z', TSR_COL_BOOL, 1);
  n->arg[0] = literal_for(t, TSR_COL_I64);
  return n;
}

static tree *constant_number(trial *t)
{
  int type = pick(t, 0, 1) ? TSR_COL_I64 : TSR_COL_F64;
  tree *value = literal_for(t, type);
  if (pick(t, 0, 1)) return value;
  tree *n = grow(t, 'i', type, 3);
  n->arg[0] = constant_bool(t);
  n->arg[1] = value;
  n->arg[2] = grow(t, 'N', type, 0);
  return n;
}

/* ---- trees as text -----------------------------------------------------------------------------
 * */

typedef struct writer {
  char text[8000];
  size_t length;
} writer;

static void put(writer *w, const char *format, ...) TSR_PRINTF(2, 3);

static void put(writer *w, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  int n = vsnprintf(w->text + w->length, sizeof w->text - w->length, format, args);
  va_end(args);
  CHECK(n >= 0 && w->length + (size_t)n < sizeof w->text);
  w->length += (size_t)n;
}

static void put_word(writer *w, const char *word)
{
  put(w, "'");
  for (; *word; word++) put(w, *word == '\'' ? "''" : "%c", *word);
  put(w, "'");
}

static void put_tree(writer *w, const trial *t, const tree *n)
{
  static const struct {
    char kind;
    const char *before, *between, *after;
  } shapes[] = {
    { '+', "(", " + ", ")" },          { '-', "(", " - ", ")" },
    { '*', "(", " * ", ")" },          { '/', "(", " / ", ")" },
    { 'D', "(", " // ", ")" },         { '%', "(", " % ", ")" },
    { '=', "(", " == ", ")" },         { '!', "(", " != ", ")" },
    { '<', "(", " < ", ")" },          { '{', "(", " <= ", ")" },
    { '>', "(", " > ", ")" },          { '}', "(", " >= ", ")" },
    { '&', "(", " and ", ")" },        { '|', "(", " or ", ")" },
    { '~', "(not ", "", ")" },         { 'n', "(-", "", ")" },
    { 'a', "abs(", "", ")" },          { 'i', "if(", ", ", ")" },
    { 'L', "floor(", "", ")" },        { 'z', "(", "", " is null)" },
    { 'Z', "(", "", " is not null)" }, { 'C', "coalesce(", ", ", ")" },
  };
  if (n->kind == 'c') put(w, "%s", t->name[n->column]);
  else if (n->kind == 'N') put(w, "null");
  else if (n->kind == 'l' && n->type == TSR_COL_TEXT) put_word(w, words[n->value.i]);
  else if (n->kind == 'l' && whole(n->type)) put(w, "%lld", (long long)n->value.i);
  else if (n->kind == 'l') put(w, "%.2f", n->value.f);
  else if (n->kind == 'I') {
    put(w, "(");
    put_tree(w, t, n->arg[0]);
    put(w, n->value.i ? " not in (" : " in (");
    for (int k = 0; k < 3; k++) {
      put(w, k ? ", " : "");
      if (n->arg[0]->type == TSR_COL_TEXT) put_word(w, words[n->word[k]]);
      else put(w, "%d", n->word[k]);
    }
    put(w, "))");
  } else {
    size_t s = 0;
    while (shapes[s].kind != n->kind) s++;
    put(w, "%s", shapes[s].before);
    for (int k = 0; k < n->count; k++) {
      put(w, "%s", k ? shapes[s].between : "");
      put_tree(w, t, n->arg[k]);
    }
    put(w, "%s", shapes[s].after);
  }
}

/* ---- evaluation, one row at a time
 * ----------------------------------------------------------------- */

static cell to_type(cell v, int from, int to)
{
  if (whole(from) && !whole(to)) v.f = (double)v.i;
  if (!whole(to) && numeric(to)) v.f = round_as(to, v.f);
  return v;
}

static cell evaluate(trial *t, const tree *n, int64_t row);

static int64_t floor_div(int64_t a, int64_t b)
{
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

static cell arithmetic(trial *t, const tree *n, int64_t row)
{
  cell a = to_type(evaluate(t, n->arg[0], row), n->arg[0]->type, n->type);
  cell b = to_type(evaluate(t, n->arg[1], row), n->arg[1]->type, n->type);
  cell r = { .null = a.null || b.null };
  if (r.null) return r;
  if (!whole(n->type)) {
    double v = n->kind == '+'   ? a.f + b.f
               : n->kind == '-' ? a.f - b.f
               : n->kind == '*' ? a.f * b.f
                                : a.f / b.f;
    r.f = round_as(n->type, v);
    return r;
  }
  bool out = false;
  if (n->kind == '+') out = __builtin_add_overflow(a.i, b.i, &r.i);
  if (n->kind == '-') out = __builtin_sub_overflow(a.i, b.i, &r.i);
  if (n->kind == '*') out = __builtin_mul_overflow(a.i, b.i, &r.i);
  if (n->kind == 'D' || n->kind == '%') {
    r.null = b.i == 0;
    if (!r.null) r.i = n->kind == 'D' ? floor_div(a.i, b.i) : a.i - floor_div(a.i, b.i) * b.i;
  }
  if (out || !in_range(n->type, r.i)) t->overflow = true;
  return r;
}

static cell compare(trial *t, const tree *n, int64_t row)
{
  cell a = evaluate(t, n->arg[0], row), b = evaluate(t, n->arg[1], row);
  cell r = { .null = a.null || b.null };
  int type = n->arg[0]->type;
  bool real = false;
  if (numeric(type)) {
    type = meet(type, n->arg[1]->type);
    a = to_type(a, n->arg[0]->type, type);
    b = to_type(b, n->arg[1]->type, type);
    real = !whole(type);
  }
  bool less = real ? a.f < b.f : a.i < b.i, same = real ? a.f == b.f : a.i == b.i;
  bool more = real ? a.f > b.f : a.i > b.i;
  switch (n->kind) {
  case '=': r.i = same; break;
  case '!': r.i = !same; break;
  case '<': r.i = less; break;
  case '{': r.i = less || same; break;
  case '>': r.i = more; break;
  default: r.i = more || same;
  }
  return r;
}

/* 0 false, 1 true, 2 unknown. */
static int truth(cell v)
{
  return v.null ? 2 : v.i != 0;
}

static cell logic(trial *t, const tree *n, int64_t row)
{
  int a = truth(evaluate(t, n->arg[0], row)), b = truth(evaluate(t, n->arg[1], row));
  int r = 2;
  if (n->kind == '&') r = a == 0 || b == 0 ? 0 : a == 1 && b == 1 ? 1 : 2;
  else r = a == 1 || b == 1 ? 1 : a == 0 && b == 0 ? 0 : 2;
  return (cell){ .null = r == 2, .i = r == 1 };
}

static cell unary(trial *t, const tree *n, int64_t row)
{
  cell a = evaluate(t, n->arg[0], row);
  switch (n->kind) {
  case 'z': return (cell){ .i = a.null };
  case 'Z': return (cell){ .i = !a.null };
  case '~': a.i = !a.i; return a;
  case 'n':
    a.i = -a.i;
    a.f = -a.f;
    if (whole(n->type) && !a.null && !in_range(n->type, a.i)) t->overflow = true;
    return a;
  case 'a':
    a.i = a.i < 0 ? -a.i : a.i;
    a.f = fabs(a.f);
    if (whole(n->type) && !a.null && !in_range(n->type, a.i)) t->overflow = true;
    return a;
  case 'L': a.f = floor(a.f); return a;
  default: break;
  }
  bool hit = false;
  for (int k = 0; k < 3; k++) hit = hit || a.i == n->word[k];
  a.i = hit != (n->value.i != 0);
  return a;
}

static cell evaluate(trial *t, const tree *n, int64_t row)
{
  cell a;
  switch (n->kind) {
  case 'c': return t->data[row * MOST_COLUMNS + n->column];
  case 'l': return n->value;
  case 'N': return (cell){ .null = true };
  case '+':
  case '-':
  case '*':
  case '/':
  case 'D':
  case '%': return arithmetic(t, n, row);
  case '=':
  case '!':
  case '<':
  case '{':
  case '>':
  case '}': return compare(t, n, row);
  case '&':
  case '|': return logic(t, n, row);
  case 'i': {
    int k = truth(evaluate(t, n->arg[0], row)) == 1 ? 1 : 2;
    return to_type(evaluate(t, n->arg[k], row), n->arg[k]->type, n->type);
  }
  case 'C':
    a = to_type(evaluate(t, n->arg[0], row), n->arg[0]->type, n->type);
    if (!a.null) return a;
    return to_type(evaluate(t, n->arg[1], row), n->arg[1]->type, n->type);
  default: return unary(t, n, row);
  }
}

/* ---- trials ---------------------------------------------------------------------------------- */

static double hostile(trial *t)
{
  static const double odd[] = { 0.0, -0.0, 1e300, -1e300, 0x1p-1060 };
  int64_t way = pick(t, 0, 40);
  if (way == 0) return (double)NAN;
  if (way == 1) return (double)INFINITY;
  if (way == 2) return -(double)INFINITY;
  if (way <= 4) return odd[pick(t, 0, 4)];
  return (double)pick(t, -4000, 4000) / 16;
}

/* A file has no narrow types; it has nulls everywhere but in text. */
static void as_in_a_file(trial *t)
{
  t->type[I] = TSR_COL_I64;
  t->type[H] = TSR_COL_F64;
  for (int64_t row = 0; row < t->rows; row++) {
    cell *v = &t->data[row * MOST_COLUMNS];
    v[WHO].null = false;
    for (int c = 0; c < WHO; c++)
      if (row > 1 && pick(t, 0, 6) == 0) v[c] = (cell){ .null = true, .i = pick(t, 0, 1) };
  }
}

static void fill(trial *t)
{
  static const char *const names[BASE] = { "a", "i", "x", "h", "d", "ok", "who" };
  static const int types[BASE] = { TSR_COL_I64, TSR_COL_I32,  TSR_COL_F64, TSR_COL_F32,
                                   TSR_COL_F64, TSR_COL_BOOL, TSR_COL_TEXT };
  static const int reals[] = { TSR_COL_F16, TSR_COL_BF16, TSR_COL_F32 };
  t->columns = BASE;
  for (int c = 0; c < BASE; c++) {
    snprintf(t->name[c], sizeof t->name[c], "%s", names[c]);
    t->type[c] = types[c];
  }
  t->type[I] = (int)pick(t, TSR_COL_I8, TSR_COL_U64);
  t->type[H] = reals[pick(t, 0, 2)];
  memcpy(t->base_type, t->type, sizeof t->base_type);
  for (int64_t row = 0; row < t->rows; row++) {
    cell *v = &t->data[row * MOST_COLUMNS];
    t->in[row] = true;
    v[A] = (cell){ .i = pick(t, -99, 99) };
    v[I] = (cell){ .i = pick(t, natural(t->type[I]) ? 0 : -9, 9) };
    v[X] = (cell){ .f = hostile(t) };
    v[H] = (cell){ .f = round_as(t->type[H], (double)pick(t, -400, 400) / 8) };
    v[D] = (cell){ .f = (double)pick(t, -9000, 9000) / 64 };
    v[OK] = (cell){ .i = pick(t, 0, 1) };
    v[WHO] = (cell){ .null = pick(t, 0, 4) == 0, .i = pick(t, 0, WORDS - 1) };
  }
}

/* Runs a step on the evaluator's rows. */
static void apply(trial *t, const step *s)
{
  int64_t left = s->head;
  for (int64_t row = 0; row < t->rows; row++) {
    if (!t->in[row]) continue;
    if (s->kind == 'h') t->in[row] = left-- > 0;
    else if (s->kind == 'f') t->in[row] = truth(evaluate(t, s->expr, row)) == 1;
    else t->data[row * MOST_COLUMNS + s->column] = evaluate(t, s->expr, row);
  }
}

static void random_steps(trial *t)
{
  t->step_count = (int)pick(t, 0, MOST_STEPS);
  for (int k = 0; k < t->step_count; k++) {
    step *s = &t->steps[k];
    int64_t way = pick(t, 0, 9);
    *s = (step){ .kind = way <= 3 ? 'f' : way <= 8 ? 'a' : 'h', .head = pick(t, 0, t->rows + 3) };
    bool constant = pick(t, 0, 5) == 0;
    if (s->kind == 'f') s->expr = constant ? constant_bool(t) : random_bool(t, 2);
    if (s->kind == 'a') {
      bool number = pick(t, 0, 3);
      if (constant) s->expr = number ? constant_number(t) : constant_bool(t);
      else s->expr = number ? random_number(t, 2) : random_bool(t, 2);
      s->column = (int)pick(t, 0, t->columns);
      /* Columns that trees look for by type keep theirs. */
      bool fixed = s->column == D || s->column == WHO || s->column == OK || s->column == I;
      if (s->column == A && s->expr->type == TSR_COL_I64) fixed = false;
      else fixed = fixed || s->column == A;
      if (fixed || s->column == MOST_COLUMNS) s->column = X;
    }
    /* The evaluator goes along: later expressions see the new column. */
    apply(t, s);
    if (s->kind != 'a') continue;
    if (s->column == t->columns)
      snprintf(t->name[t->columns++], sizeof t->name[0], "made_%d", s->column);
    t->type[s->column] = s->expr->type;
  }
}

/* ---- meshes ---------------------------------------------------------------------------------- */

static const char *const meshes[][2] = { { "", "" },           { "data=1", "data" },
                                         { "data=2", "data" }, { "data=3", "data" },
                                         { "data=8", "data" }, { "x=2,y=2", "x" },
                                         { "x=2,y=2", "x+y" }, { "x=2,y=2", "-" },
                                         { "x=4,y=2", "y+x" } };
enum { MESHES = 9 };

/* ---- the frame ------------------------------------------------------------------------------- */

static tsr_array *put_column(tsr_scope *s, const trial *t, const cell *base, int c, tsr_sharding at)
{
  tsr_dtype dtype = (tsr_dtype)t->base_type[c];
  unsigned char *data = calloc((size_t)t->rows + 1, 8);
  for (int64_t row = 0; row < t->rows; row++) {
    cell v = base[row * MOST_COLUMNS + c];
    if (tsr__dtype_is_real(dtype)) tsr__dtype_put_real(dtype, data, row, v.f);
    else tsr__dtype_put_whole(dtype, data, row, v.i);
  }
  tsr_array *array = tsr_put(s, data, dtype, TSR_SHAPE(t->rows), at);
  free(data);
  return array;
}

static tsr_frame *base_frame(tsr_scope *s, const trial *t, const cell *base, tsr_sharding at)
{
  tsr_column columns[WHO];
  for (int c = 0; c < WHO; c++)
    columns[c] = (tsr_column){ t->name[c], put_column(s, t, base, c, at) };
  tsr_frame *df = tsr_frame_new_at(s, columns, WHO, TSR_HERE);
  const char **texts = calloc((size_t)t->rows + 1, sizeof *texts);
  for (int64_t row = 0; row < t->rows; row++) {
    cell v = base[row * MOST_COLUMNS + WHO];
    texts[row] = v.null ? NULL : words[v.i];
  }
  df = tsr_frame_text_column(df, "who", texts, t->rows);
  free(texts);
  return df;
}

static void put_csv_value(FILE *out, int type, cell v)
{
  char text[40];
  if (v.null) {
    fputs(v.i ? "" : "NA", out);
  } else if (type == TSR_COL_TEXT) {
    fputs(words[v.i], out);
  } else if (type == TSR_COL_BOOL) {
    fputs(v.i ? "true" : "false", out);
  } else if (whole(type)) {
    fprintf(out, "%lld", (long long)v.i);
  } else {
    snprintf(text, sizeof text, "%.17g", v.f);
    fprintf(out, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
  }
}

static tsr_frame *file_frame(tsr_scope *s, const trial *t, const cell *base, int mesh)
{
  const char *path = test_tmp("law.csv");
  FILE *out = fopen(path, "w");
  CHECK(out != NULL);
  for (int c = 0; c < BASE; c++) fprintf(out, "%s%s", c ? "," : "", t->name[c]);
  for (int64_t row = 0; row < t->rows; row++)
    for (int c = 0; c < BASE; c++) {
      static const int types[BASE] = { TSR_COL_I64, TSR_COL_I64,  TSR_COL_F64, TSR_COL_F64,
                                       TSR_COL_F64, TSR_COL_BOOL, TSR_COL_TEXT };
      fputs(c ? "," : "\n", out);
      put_csv_value(out, types[c], base[row * MOST_COLUMNS + c]);
    }
  CHECK(fclose(out) == 0);
  const tsr_mesh *on = tsr_mesh_make(s->rt, meshes[mesh][0]);
  /* A few values do not say the types of their columns. */
  const char *types = t->rows < 7 ? "a i64, i i64, x f64, h f64, d f64, ok bool, who text" : NULL;
  return tsr_frame_read_csv(s, path, .on = tsr_on(on, meshes[mesh][1]), .types = types);
}

static tsr_frame *add_steps(tsr_frame *df, const trial *t)
{
  for (int k = 0; k < t->step_count; k++) {
    const step *s = &t->steps[k];
    writer w = { .length = 0 };
    if (s->expr) put_tree(&w, t, s->expr);
    if (s->kind == 'f') df = tsr_frame_filter(df, w.text);
    if (s->kind == 'a') df = tsr_frame_assign(df, t->name[s->column], w.text);
    if (s->kind == 'h') df = tsr_frame_head(df, s->head);
  }
  return df;
}

static void describe(const trial *t)
{
  for (int k = 0; k < t->step_count; k++) {
    writer w = { .length = 0 };
    if (t->steps[k].expr) put_tree(&w, t, t->steps[k].expr);
    printf("# %c %s %s %lld\n", t->steps[k].kind,
           t->steps[k].kind == 'a' ? t->name[t->steps[k].column] : "", w.text,
           (long long)t->steps[k].head);
  }
  if (t->asked) printf("# %s\n", t->asked);
}

static void check_cell(const trial *t, const tsr_table *table, int64_t row, int column, int type,
                       cell expected)
{
  bool null = tsr_table_is_null(table, row, column);
  double f = tsr_table_f64(table, row, column);
  int64_t i = tsr_table_i64(table, row, column);
  const char *text = tsr_table_text(table, row, column);
  bool same = null == expected.null;
  if (same && !null && type == TSR_COL_TEXT) same = !strcmp(text, words[expected.i]);
  else if (same && !null && (whole(type) || type == TSR_COL_BOOL)) same = i == expected.i;
  else if (same && !null) same = memcmp(&f, &expected.f, 8) == 0 || (isnan(f) && isnan(expected.f));
  if (same) return;
  describe(t);
  FAIL("row %lld of %s: found %s, expected %s %.17g %lld", (long long)row,
       tsr_table_name(table, column), text ? text : "null", expected.null ? "null" : "", expected.f,
       (long long)expected.i);
}

static tsr_sharding placed(tsr_runtime *rt, int mesh)
{
  if (!meshes[mesh][0][0]) return (tsr_sharding){ 0 };
  return tsr_on(tsr_mesh_make(rt, meshes[mesh][0]), meshes[mesh][1]);
}

typedef void (*check_fn)(tsr_frame *df, trial *t);

/* Trials whose chain left the range of an integer; they say little, so there must be few. */
static int skipped;

/* One trial: the same chain on three meshes. */
static void try_one(tsr_runtime *rt, uint64_t seed, bool file, check_fn check)
{
  static const int64_t sizes[] = { 0, 1, 2, 7, 64, 65, 333, 1025, MOST_ROWS };
  trial *t = calloc(1, sizeof *t);
  t->rng = test_seeded(seed);
  t->rows = sizes[pick(t, 0, 8)];
  size_t cells = (size_t)(t->rows + 1) * MOST_COLUMNS;
  t->data = calloc(cells, sizeof(cell));
  t->in = calloc((size_t)t->rows + 1, sizeof(bool));
  t->pool = calloc(4000, sizeof(tree));
  fill(t);
  if (file) as_in_a_file(t);
  cell *base = malloc(cells * sizeof(cell));
  memcpy(base, t->data, cells * sizeof(cell));
  random_steps(t);
  test_rng rest = t->rng;
  for (int k = 0; k < 3 && !t->overflow; k++) {
    tsr_scope *s = tsr_scope_open(rt);
    int mesh = (int)((seed + (uint64_t)k * 4) % MESHES);
    t->rng = rest; /* the same questions on each */
    tsr_frame *df =
        file ? file_frame(s, t, base, mesh ? mesh : 4) : base_frame(s, t, base, placed(rt, mesh));
    df = add_steps(df, t);
    if (tsr_scope_status(s)) {
      describe(t);
      FAIL("seed %llu: %s", (unsigned long long)seed, tsr_message(s));
    }
    check(df, t);
    tsr_scope_close(s);
  }
  skipped += t->overflow;
  free(base);
  free(t->data);
  free(t->in);
  free(t->pool);
  free(t);
}

static void run_law(check_fn check, bool file, uint64_t seed)
{
  int rounds = guard_asked() ? 30 : test_quick() ? 150 : 800;
  int tried = 0;
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (int k = 0; k < rounds; k++) {
    if (!test_share(seed + (uint64_t)k)) continue;
    try_one(rt, seed + (uint64_t)k, file, check);
    tried++;
  }
  tsr_runtime_close(rt);
  CHECK(skipped < tried / 5);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void check_rows(tsr_frame *df, trial *t)
{
  tsr_table *table = NULL;
  int64_t kept = 0, rows = -1;
  for (int64_t row = 0; row < t->rows; row++) kept += t->in[row];
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, NULL);
  CHECK_I64(tsr_table_row_count(table), kept);
  CHECK_STATUS(tsr_frame_row_count(df, &rows), TSR_OK, NULL);
  CHECK_I64(rows, kept);
  CHECK_I64(tsr_table_column_count(table), t->columns);
  int64_t at = 0;
  for (int64_t row = 0; row < t->rows; row++) {
    if (!t->in[row]) continue;
    for (int c = 0; c < t->columns; c++) {
      int found = tsr_table_find(table, t->name[c]);
      CHECK_I64(tsr_table_type(table, found), (tsr_coltype)t->type[c]);
      check_cell(t, table, at, found, t->type[c], t->data[row * MOST_COLUMNS + c]);
    }
    at++;
  }
}

TEST_TIMEOUT(frame_rows_are_those_of_the_evaluator, 600)
{
  run_law(check_rows, false, 1000);
}

TEST_TIMEOUT(frame_rows_of_files_are_those_of_the_evaluator, 600)
{
  run_law(check_rows, true, 200000);
}

/* ---- aggregates ------------------------------------------------------------------------------ */

static const char *const agg_names[] = { "sum", "mean",  "min", "max", "var",
                                         "std", "count", "any", "all" };

typedef struct query {
  int op; /* in agg_names; 9: count() */
  tree *expr;
} query;

static query random_query(trial *t)
{
  query q = { .op = (int)pick(t, 0, 9) };
  if (q.op == 7 || q.op == 8) {
    q.expr = random_bool(t, 2);
  } else if (q.op == 4 || q.op == 5) {
    q.expr = grow(t, 'i', TSR_COL_F64, 3); /* the evaluator's variance needs multiples of 1/1024 */
    q.expr->arg[0] = random_bool(t, 1);
    q.expr->arg[1] = grow(t, 'c', TSR_COL_F64, 0);
    q.expr->arg[1]->column = D;
    q.expr->arg[2] = grow(t, 'N', TSR_COL_F64, 0);
  } else if (q.op < 9) {
    q.expr = random_number(t, 2);
  }
  return q;
}

static int query_type(const query *q)
{
  int type = q->expr ? q->expr->type : TSR_COL_I64;
  if (q->op == 6 || q->op == 9) return TSR_COL_I64;
  if (q->op >= 7) return TSR_COL_BOOL;
  if (q->op == 0) return natural(type) ? TSR_COL_U64 : whole(type) ? TSR_COL_I64 : type;
  if (q->op == 2 || q->op == 3) return type;
  return type == TSR_COL_F32 ? TSR_COL_F32 : TSR_COL_F64;
}

static void put_query(writer *w, const trial *t, const query *q, int number)
{
  put(w, "%sq%d = %s(", number ? ", " : "", number, q->op == 9 ? "count" : agg_names[q->op]);
  if (q->expr) put_tree(w, t, q->expr);
  put(w, ")");
}

typedef struct answer {
  tally sums;
  int64_t rows, values, nans;
  bool any, all;
  double low, high; /* of those that are no NaN */
} answer;

static void take_cell(answer *a, const query *q, cell v)
{
  int type = q->expr ? q->expr->type : TSR_COL_I64;
  if (!a->rows++) a->all = true;
  if (v.null) return;
  bool real = !whole(type) && type != TSR_COL_BOOL;
  dense one = { .dtype = real ? (tsr_dtype)type : TSR_I64, .f = &v.f, .i = &v.i };
  tally_add(&a->sums, &one, 0);
  a->any = a->any || v.i;
  a->all = a->all && v.i;
  if (real && isnan(v.f)) a->nans++;
  if (real && !isnan(v.f)) {
    a->low = a->values > a->nans ? min_f(a->low, v.f) : v.f;
    a->high = a->values > a->nans ? max_f(a->high, v.f) : v.f;
  }
  a->values++;
}

static void take(answer *a, trial *t, const query *q, int64_t row)
{
  take_cell(a, q, q->expr ? evaluate(t, q->expr, row) : (cell){ .i = 1 });
}

static cell finish(const answer *a, const query *q)
{
  int type = q->expr ? q->expr->type : TSR_COL_I64;
  bool real = !whole(type) && type != TSR_COL_BOOL;
  tsr_dtype to = type == TSR_COL_F32 ? TSR_F32 : TSR_F64, own = real ? (tsr_dtype)type : TSR_F64;
  cell r = { .null = false };
  switch (q->op) {
  case 0:
    r.i = (int64_t)a->sums.isum;
    r.f = tally_float_sum(&a->sums, own, 1);
    break;
  case 1:
    r.null = !a->values;
    if (!r.null)
      r.f = real ? tally_float_sum(&a->sums, to, (uint64_t)a->values) : int_mean(&a->sums);
    break;
  case 2:
    r = (cell){ !a->values, a->values == a->nans ? (double)NAN : a->low, (int64_t)a->sums.imin };
    break;
  case 3: r = (cell){ !a->values, a->nans ? (double)NAN : a->high, (int64_t)a->sums.imax }; break;
  case 4:
  case 5:
    r.null = a->values < 2;
    if (!r.null) r.f = tally_var(&a->sums, true, 1, q->op == 5, TSR_F64);
    break;
  case 6: r.i = a->values; break;
  case 7: r.i = a->any; break;
  case 8: r.i = a->values ? a->all : 1; break;
  default: r.i = a->rows;
  }
  return r;
}

enum { QUERIES = 5 };

/* Which aggregates a value of a type may have. */
static int op_for(trial *t, int type)
{
  if (type == TSR_COL_BOOL) return (int)pick(t, 6, 8);
  return (int)pick(t, 0, 6);
}

/* A row of aggregates is a row like any other, also where a filter drops it: `first` are the values
 * in it. */
static void check_again(tsr_frame *df, trial *t, const query *q, const cell *first)
{
  query again[2 * QUERIES];
  writer w = { .length = 0 };
  tree *keep = pick(t, 0, 1) ? constant_bool(t) : NULL;
  bool there = !keep || truth(evaluate(t, keep, 0)) == 1;
  if (keep) {
    writer condition = { .length = 0 };
    put_tree(&condition, t, keep);
    df = tsr_frame_filter(df, condition.text);
  }
  for (int k = 0; k < 2 * QUERIES; k++) {
    int type = query_type(&q[k / 2]);
    again[k] = (query){ op_for(t, type), grow(t, 'c', type, 0) };
    put(&w, "%sr%d = %s(q%d)", k ? ", " : "", k, agg_names[again[k].op], k / 2);
  }
  tsr_table *table = NULL;
  t->asked = w.text;
  CHECK_STATUS(tsr_frame_collect(tsr_frame_agg(df, w.text), &table), TSR_OK, NULL);
  for (int k = 0; k < 2 * QUERIES; k++) {
    answer a = { .rows = 0 };
    if (there) take_cell(&a, &again[k], first[k / 2]);
    CHECK_I64(tsr_table_type(table, k), (tsr_coltype)query_type(&again[k]));
    check_cell(t, table, 0, k, query_type(&again[k]), finish(&a, &again[k]));
  }
  t->asked = NULL;
}

static void check_aggregates(tsr_frame *df, trial *t)
{
  query q[QUERIES];
  cell first[QUERIES];
  writer w = { .length = 0 };
  int used = t->used;
  for (int k = 0; k < QUERIES; k++) {
    q[k] = random_query(t);
    put_query(&w, t, &q[k], k);
  }
  answer *a = calloc(QUERIES, sizeof *a);
  for (int64_t row = 0; row < t->rows; row++)
    for (int k = 0; k < QUERIES && t->in[row]; k++) take(&a[k], t, &q[k], row);
  tsr_table *table = NULL;
  df = tsr_frame_agg(df, w.text);
  tsr_status st = tsr_frame_collect(df, &table);
  if (st && !t->overflow) {
    describe(t);
    FAIL("%s: status %d", w.text, (int)st);
  }
  for (int k = 0; k < QUERIES && !t->overflow; k++) {
    CHECK_I64(tsr_table_row_count(table), 1);
    CHECK_I64(tsr_table_type(table, k), (tsr_coltype)query_type(&q[k]));
    writer one = { .length = 0 };
    put_query(&one, t, &q[k], k);
    t->asked = one.text;
    first[k] = finish(&a[k], &q[k]);
    check_cell(t, table, 0, k, query_type(&q[k]), first[k]);
    t->asked = NULL;
  }
  if (!t->overflow) check_again(df, t, q, first);
  free(a);
  t->used = used;
}

TEST_TIMEOUT(frame_aggregates_are_those_of_the_evaluator, 600)
{
  run_law(check_aggregates, false, 50000);
}

TEST_TIMEOUT(frame_aggregates_of_files_are_those_of_the_evaluator, 600)
{
  run_law(check_aggregates, true, 250000);
}

/* ---- groups ---------------------------------------------------------------------------------- */

typedef struct bucket {
  int64_t key[3];
  bool null[3];
  answer *answers;
} bucket;

static bool same_group(const trial *t, const bucket *b, int64_t row, const int *keys, int count)
{
  for (int k = 0; k < count; k++) {
    cell v = t->data[row * MOST_COLUMNS + keys[k]];
    if (v.null != b->null[k] || (!v.null && v.i != b->key[k])) return false;
  }
  return true;
}

static bool can_key(const trial *t, int c)
{
  return t->type[c] == TSR_COL_TEXT || t->type[c] == TSR_COL_BOOL || c == I || c == A;
}

static int random_keys(trial *t, int keys[3], writer *w)
{
  int count = (int)pick(t, 1, 2);
  for (int k = 0; k < count; k++) {
    do keys[k] = (int)pick(t, 0, t->columns - 1);
    while (!can_key(t, keys[k]) ||
           !(whole(t->type[keys[k]]) || t->type[keys[k]] == TSR_COL_BOOL ||
             t->type[keys[k]] == TSR_COL_TEXT) ||
           (k && keys[k] == keys[0]));
    put(w, "%s%s", k ? ", " : "", t->name[keys[k]]);
  }
  return count;
}

/* Every distinct key in order of its first row. */
static int64_t find_groups(trial *t, const int *keys, int count, const query *q, bucket *all)
{
  int64_t groups = 0;
  for (int64_t row = 0; row < t->rows; row++) {
    if (!t->in[row]) continue;
    int64_t g = 0;
    while (g < groups && !same_group(t, &all[g], row, keys, count)) g++;
    if (g == groups) {
      groups++;
      for (int k = 0; k < count; k++) {
        cell v = t->data[row * MOST_COLUMNS + keys[k]];
        all[g].key[k] = v.i;
        all[g].null[k] = v.null;
      }
      all[g].answers = calloc(QUERIES, sizeof(answer));
    }
    for (int k = 0; k < QUERIES; k++) take(&all[g].answers[k], t, &q[k], row);
  }
  return groups;
}

static void check_groups(tsr_frame *df, trial *t)
{
  query q[QUERIES];
  writer w = { .length = 0 }, by = { .length = 0 };
  int used = t->used, keys[3];
  int count = random_keys(t, keys, &by);
  for (int k = 0; k < QUERIES; k++) {
    q[k] = random_query(t);
    put_query(&w, t, &q[k], k);
  }
  bucket *all = calloc((size_t)t->rows + 1, sizeof *all);
  int64_t groups = find_groups(t, keys, count, q, all);
  tsr_table *table = NULL;
  tsr_status st = tsr_frame_collect(tsr_frame_group_agg(df, by.text, w.text), &table);
  bool skip = t->overflow;
  t->asked = w.text;
  if (st && !skip) {
    describe(t);
    FAIL("by %s: %s: status %d", by.text, w.text, (int)st);
  }
  if (!skip) CHECK_I64(tsr_table_row_count(table), groups);
  for (int64_t g = 0; g < groups; g++) {
    for (int k = 0; k < count && !skip; k++)
      check_cell(t, table, g, k, t->type[keys[k]],
                 (cell){ .null = all[g].null[k], .i = all[g].key[k] });
    for (int k = 0; k < QUERIES && !skip; k++)
      check_cell(t, table, g, count + k, query_type(&q[k]), finish(&all[g].answers[k], &q[k]));
    free(all[g].answers);
  }
  free(all);
  t->asked = NULL;
  t->used = used;
}

TEST_TIMEOUT(frame_groups_are_those_of_the_evaluator, 600)
{
  run_law(check_groups, false, 90000);
}

TEST_TIMEOUT(frame_groups_of_files_are_those_of_the_evaluator, 600)
{
  run_law(check_groups, true, 290000);
}
