/* Expressions: how they read, what types they have, and what is said about bad ones. */
#include "frame/expr/expr.h"

#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

static const tsr__field fields[] = {
  { "a", TSR_COL_I64, false },       { "b", TSR_COL_I64, false },
  { "i", TSR_COL_I32, false },       { "x", TSR_COL_F64, false },
  { "h", TSR_COL_F32, false },       { "ok", TSR_COL_BOOL, false },
  { "day", TSR_COL_DATE, false },    { "at", TSR_COL_TIME, false },
  { "who", TSR_COL_TEXT, false },    { "odd name", TSR_COL_F64, false },
  { "revenue", TSR_COL_F64, false }, { "sessions", TSR_COL_I64, false },
  { "sum", TSR_COL_I64, false },     { "größe", TSR_COL_F64, false },
};
static const tsr__schema schema = { (int)(sizeof fields / sizeof *fields), fields, NULL };

struct fixture {
  tsr__heap heap;
  tsr__arena arena;
  tsr__error error;
  tsr__formula formula;
};

static void open_fixture(struct fixture *f)
{
  memset(f, 0, sizeof *f);
  tsr__heap_init(&f->heap, NULL);
  tsr__arena_init(&f->arena, &f->heap);
}

static void close_fixture(struct fixture *f)
{
  tsr__arena_free(&f->arena);
  CHECK_I64(f->heap.live, 0);
}

/* Parses and checks; leaves the outcome in f->error and f->formula. */
static tsr_status read_formula(struct fixture *f, const tsr_formula *given, bool list, int context)
{
  tsr__parse_ask ask = { "tsr_frame_filter", given, list };
  f->error = (tsr__error){ 0 };
  f->formula = (tsr__formula){ 0 };
  tsr_status st = tsr__parse(&ask, &f->arena, &f->formula, &f->error);
  for (int i = 0; !st && i < f->formula.count; i++)
    st = tsr__check(&f->formula, f->formula.item[i].expr, &schema, context, &f->error);
  return st;
}

/* ---- reading back ------------------------------------------------------------------------ */

static const char *const spellings[][2] = {
  { "a+b*x", "a + b * x" },
  { "(a+b)*x", "(a + b) * x" },
  { "a-(b-x)", "a - (b - x)" },
  { "a-b-x", "a - b - x" },
  { "a/(b*x)", "a / (b * x)" },
  { "-a**2", "-a ** 2" },
  { "(-a)**2", "(-a) ** 2" },
  { "2**-x", "2 ** -x" },
  { "a**b**2", "a ** b ** 2" },
  { "(a**b)**2", "(a ** b) ** 2" },
  { "- -a", "--a" },
  { "-3", "-3" },
  { "- -3", "3" },
  { "+a", "a" },
  { "(-3)**2", "(-3) ** 2" },
  { "-3**2", "-3 ** 2" },
  { "(-0.0)**2", "(-0.0) ** 2" },
  { "-9223372036854775808", "-9223372036854775808" },
  { "a//b%3", "a // b % 3" },
  { "not ok and ok or ok", "not ok and ok or ok" },
  { "not (ok and ok)", "not (ok and ok)" },
  { "ok and (ok or ok)", "ok and (ok or ok)" },
  { "not a == b", "not a == b" },
  { "(a < b) == ok", "(a < b) == ok" },
  { "0 < a <= 9", "0 < a and a <= 9" },
  { "a < b is null", "a < b and b is null" },
  { "a < b in (1) is not null", "a < b and (b in (1)) is not null" },
  { "a is null == ok", "(a is null) == ok" },
  { "a < b is null == ok != ok", "a < b and (b is null) == ok and ok != ok" },
  { "a is null", "a is null" },
  { "a + 1 is  not\tnull", "a + 1 is not null" },
  { "a in(1,2 , 3)", "a in (1, 2, 3)" },
  { "who not in ('x')", "who not in ('x')" },
  { "who == 'it''s'", "who == 'it''s'" },
  { "\"odd name\"*2", "\"odd name\" * 2" },
  { "größe>1.50", "größe > 1.5" },
  { "x > 1e3", "x > 1000.0" },
  { "x > .5", "x > 0.5" },
  { "x > 5.", "x > 5.0" },
  { "x > 1e-320", "x > 1e-320" },
  { "if(ok,a,b)", "if(ok, a, b)" },
  { "coalesce(a,0)", "coalesce(a, 0)" },
  { "is_nan( x )", "is_nan(x)" },
  { "sum + 1", "sum + 1" },
  { "true and false", "true and false" },
  { "between( a , 1,2 )", "a >= 1 and a <= 2" },
  { "cast(a,'f64')", "cast(a, 'f64')" },
  { "slice( who,-1 )", "slice(who, -1)" },
  { "\n a\r\n+ b", "a + b" },
};

TEST(expr_spellings)
{
  struct fixture f;
  open_fixture(&f);
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    tsr_formula given = { .text = spellings[i][0] };
    CHECK_STATUS(read_formula(&f, &given, false, TSR__IN_ROW), TSR_OK, NULL);
    tsr__text text;
    tsr__text_init(&text, NULL);
    tsr__expr_print(f.formula.item[0].expr, &text);
    CHECK_STR(tsr__text_get(&text), spellings[i][1]);
    tsr_formula again = { .text = spellings[i][1] };
    CHECK_STATUS(read_formula(&f, &again, false, TSR__IN_ROW), TSR_OK, NULL);
    tsr__text twice;
    tsr__text_init(&twice, NULL);
    tsr__expr_print(f.formula.item[0].expr, &twice);
    CHECK_STR(tsr__text_get(&twice), spellings[i][1]);
    tsr__text_free(&twice);
    tsr__text_free(&text);
  }
  close_fixture(&f);
}

TEST(expr_items_have_names)
{
  struct fixture f;
  open_fixture(&f);
  tsr_formula given = { .text =
                            "sum( revenue ), n=count() , \"a b\" = max(a)-min( b ),\"odd name\"" };
  tsr__parse_ask ask = { "tsr_frame_agg", &given, true };
  CHECK_STATUS(tsr__parse(&ask, &f.arena, &f.formula, &f.error), TSR_OK, NULL);
  CHECK_I64(f.formula.count, 4);
  CHECK_STR(f.formula.item[0].name, "sum(revenue)");
  CHECK_STR(f.formula.item[1].name, "n");
  CHECK_STR(f.formula.item[2].name, "a b");
  CHECK_STR(f.formula.item[3].name, "odd name");
  close_fixture(&f);
}

TEST(expr_parameters)
{
  struct fixture f;
  open_fixture(&f);
  tsr_formula given = { "a > ? and who == ? and x < ? and ok == ?",
                        4,
                        { TSR_VALUE(INT64_MAX), TSR_VALUE("o'k"), TSR_VALUE(0.1),
                          TSR_VALUE((bool)1) } };
  CHECK_STATUS(read_formula(&f, &given, false, TSR__IN_ROW), TSR_OK, NULL);
  tsr__text text;
  tsr__text_init(&text, NULL);
  tsr__expr_print(f.formula.item[0].expr, &text);
  CHECK_STR(tsr__text_get(&text),
            "a > 9223372036854775807 and who == 'o''k' and x < 0.1 and ok == true");
  tsr__text_free(&text);
  given.count = 3;
  CHECK_STATUS(read_formula(&f, &given, false, TSR__IN_ROW), TSR_EPARSE, NULL);
  CHECK_STR_HAS(f.error.text, "this is '?' number 4, but 3 values were given");
  given.text = "a > ?";
  CHECK_STATUS(read_formula(&f, &given, false, TSR__IN_ROW), TSR_EPARSE, NULL);
  CHECK_STR_HAS(f.error.text, "3 values were given, but the expression has 1 '?'");
  given.count = 9;
  CHECK_STATUS(read_formula(&f, &given, false, TSR__IN_ROW), TSR_EARG, NULL);
  given = (tsr_formula){ "a == ?", 1, { TSR_VALUE((const char *)NULL) } };
  CHECK_STATUS(read_formula(&f, &given, false, TSR__IN_ROW), TSR_EDTYPE, NULL);
  given = (tsr_formula){ "who == ?", 1, { TSR_VALUE("\xff") } };
  CHECK_STATUS(read_formula(&f, &given, false, TSR__IN_ROW), TSR_EPARSE, NULL);
  close_fixture(&f);
}

/* ---- types ------------------------------------------------------------------------------- */

/* clang-format off */
static const struct {
  const char *text;
  int type;
} types[] = {
  { "a + b", TSR_COL_I64 },      { "i + i", TSR_COL_I32 },      { "i + a", TSR_COL_I64 },
  { "i + 1", TSR_COL_I32 },      { "i + 3000000000", TSR_COL_I64 }, { "h + 1", TSR_COL_F32 },
  { "h * 0.5", TSR_COL_F32 },    { "h + i", TSR_COL_F64 },      { "h + a", TSR_COL_F64 },
  { "h + x", TSR_COL_F64 },      { "a * 0.5", TSR_COL_F64 },    { "a / b", TSR_COL_F64 },
  { "i / i", TSR_COL_F64 },      { "h / h", TSR_COL_F32 },      { "a // b", TSR_COL_I64 },
  { "x % 2", TSR_COL_F64 },      { "a ** 2", TSR_COL_I64 },     { "a ** -1", TSR_COL_F64 },
  { "a ** b", TSR_COL_F64 },     { "h ** 2", TSR_COL_F32 },     { "ok + ok", TSR_COL_I64 },
  { "ok + x", TSR_COL_F64 },     { "-i", TSR_COL_I32 },         { "abs(i)", TSR_COL_I32 },
  { "sqrt(a)", TSR_COL_F64 },    { "sqrt(h)", TSR_COL_F32 },    { "a + null", TSR_COL_I64 },
  { "null", TSR__COL_NULL },     { "if(ok, a, null)", TSR_COL_I64 },
  { "if(ok, i, a)", TSR_COL_I64 }, { "if(ok, i, 1)", TSR_COL_I32 },
  { "if(ok, 1, h)", TSR_COL_F32 }, { "if(ok, day, at)", TSR_COL_TIME },
  { "if(ok, day, '2013-01-01')", TSR_COL_DATE }, { "coalesce(h, 1.5)", TSR_COL_F32 },
  { "coalesce(who, 'none')", TSR_COL_TEXT }, { "coalesce(null, null, i)", TSR_COL_I32 },
  { "day < '2013-02-01'", TSR_COL_BOOL }, { "at >= '2013-07-01'", TSR_COL_BOOL },
  { "'2013-07-01 12:30' < at", TSR_COL_BOOL }, { "day < at", TSR_COL_BOOL },
  { "at in ('2013-07-01', '2013-07-02T00:00:00Z')", TSR_COL_BOOL },
  { "who < 'b'", TSR_COL_BOOL }, { "ok == true", TSR_COL_BOOL }, { "a == 0.5", TSR_COL_BOOL },
  { "2 + 3", TSR_COL_I64 },      { "not null", TSR_COL_BOOL },
  { "day - day", TSR_COL_I64 },  { "day - '2013-01-01'", TSR_COL_I64 }, { "at - day", TSR_COL_I64 },
  { "day + i", TSR_COL_DATE },   { "3 + day", TSR_COL_DATE },   { "at - 1", TSR_COL_TIME },
  { "length(who)", TSR_COL_I64 }, { "concat(who, 'x', who)", TSR_COL_TEXT },
  { "contains(who, who)", TSR_COL_BOOL }, { "slice(who, -2)", TSR_COL_TEXT },
  { "upper(null)", TSR_COL_TEXT }, { "year(day)", TSR_COL_I64 }, { "date(at)", TSR_COL_DATE },
  { "date_trunc('week', at)", TSR_COL_TIME }, { "date_trunc('month', day)", TSR_COL_DATE },
  { "cast(x, 'i32')", TSR_COL_I32 }, { "try_cast(who, 'time')", TSR_COL_TIME },
  { "cast(a, 'date')", TSR_COL_DATE }, { "cast(null, 'text')", TSR_COL_TEXT },
  { "cast(1.5, 'f64') * h", TSR_COL_F64 }, { "sign(i)", TSR_COL_I32 },
  { "round(h, 2)", TSR_COL_F32 },
  { "log2(h)", TSR_COL_F32 },    { "tanh(i)", TSR_COL_F64 },    { "least(i, a, 2)", TSR_COL_I64 },
  { "i + (1 + 2)", TSR_COL_I64 }, { "h * (1 + 2)", TSR_COL_F32 },
  { "h * (1 / 2)", TSR_COL_F32 }, { "i + -3", TSR_COL_I32 },
  { "least(1, 3000000000, i)", TSR_COL_I64 }, { "least(3000000000, 1, i)", TSR_COL_I64 },
  { "greatest(1, 2.5, i)", TSR_COL_F64 }, { "greatest(i, 1, 2.5)", TSR_COL_F64 },
  { "coalesce(null, 1, 2, i)", TSR_COL_I32 }, { "coalesce(1, 2.5, h)", TSR_COL_F32 },
  { "greatest(day, '2013-01-01')", TSR_COL_DATE }, { "between(x, 1, i)", TSR_COL_BOOL },
};

static const struct {
  const char *text;
  int type;
} agg_types[] = {
  { "sum(i)", TSR_COL_I64 },   { "sum(h)", TSR_COL_F32 },  { "sum(ok)", TSR_COL_I64 },
  { "mean(i)", TSR_COL_F64 },  { "mean(h)", TSR_COL_F32 }, { "min(day)", TSR_COL_DATE },
  { "max(at)", TSR_COL_TIME }, { "min(ok)", TSR_COL_BOOL }, { "count()", TSR_COL_I64 },
  { "count(who)", TSR_COL_I64 }, { "any(a > 1)", TSR_COL_BOOL }, { "std(a)", TSR_COL_F64 },
  { "max(i) - min(i)", TSR_COL_I32 }, { "sum(a) / count()", TSR_COL_F64 },
  { "sum(a * x)", TSR_COL_F64 }, { "mean(a > 1)", TSR_COL_F64 },
  { "median(i)", TSR_COL_F64 }, { "median(h)", TSR_COL_F32 }, { "median(ok)", TSR_COL_F64 },
  { "quantile(x, 0.25)", TSR_COL_F64 }, { "quantile(h, 1)", TSR_COL_F32 },
  { "nunique(who)", TSR_COL_I64 }, { "first(who)", TSR_COL_TEXT }, { "last(day)", TSR_COL_DATE },
  { "last(ok)", TSR_COL_BOOL }, { "corr(i, h)", TSR_COL_F64 }, { "corr(a, b) ** 2", TSR_COL_F64 },
};
/* clang-format on */

TEST(expr_types)
{
  struct fixture f;
  open_fixture(&f);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    tsr_formula given = { .text = types[i].text };
    tsr_status st = read_formula(&f, &given, false, TSR__IN_ROW);
    if (st) FAIL("%s: %s", given.text, f.error.text);
    if (f.formula.item[0].expr->type != types[i].type)
      FAIL("%s has type %d", given.text, f.formula.item[0].expr->type);
  }
  for (size_t i = 0; i < sizeof agg_types / sizeof *agg_types; i++) {
    tsr_formula given = { .text = agg_types[i].text };
    tsr_status st = read_formula(&f, &given, true, TSR__IN_AGG);
    if (st) FAIL("%s: %s", given.text, f.error.text);
    if (f.formula.item[0].expr->type != agg_types[i].type)
      FAIL("%s has type %d", given.text, f.formula.item[0].expr->type);
  }
  close_fixture(&f);
}

TEST(expr_checked_again_with_another_schema)
{
  static const tsr__field other[] = { { "at", TSR_COL_TEXT, false }, { "a", TSR_COL_F64, false } };
  const tsr__schema widened = { 2, other, NULL };
  struct fixture f;
  open_fixture(&f);
  tsr_formula given = { .text = "at > '2013-01-01' and a + 1 > 0" };
  CHECK_STATUS(read_formula(&f, &given, false, TSR__IN_ROW), TSR_OK, NULL);
  tsr__expr *expr = f.formula.item[0].expr;
  CHECK_I64(expr->arg[0]->arg[1]->type, TSR_COL_TIME);
  CHECK_STATUS(tsr__check(&f.formula, expr, &widened, TSR__IN_ROW, &f.error), TSR_OK, NULL);
  CHECK_I64(expr->arg[0]->arg[1]->type, TSR_COL_TEXT);
  CHECK_I64(expr->arg[1]->arg[0]->type, TSR_COL_F64);
  CHECK_I64(expr->arg[1]->arg[0]->arg[0]->column, 1);
  close_fixture(&f);
}

/* ---- bad texts --------------------------------------------------------------------------- */

static const struct {
  const char *text;
  tsr_status status;
  const char *message; /* the whole of it */
} messages[] = {
  { "revenue / sesions > 1", TSR_ECOLUMN,
    "tsr_frame_filter: no column 'sesions'; columns: a, b, i, x, h, ok, day, at, who, odd name, "
    "revenue, sessions and 2 more; did you mean 'sessions'?\n"
    "    revenue / sesions > 1\n"
    "              ^~~~~~~" },
  { "a = 3", TSR_EPARSE,
    "tsr_frame_filter: found = where an operator or the end was expected; to compare write '=='\n"
    "    a = 3\n"
    "      ^" },
  { "größe > && 1", TSR_EPARSE,
    "tsr_frame_filter: '&&' is not an operator here; write 'and'\n    größe > && 1\n            "
    "^~" },
  { "who + 1 > 2", TSR_EDTYPE,
    "tsr_frame_filter: '+' needs numbers, found text; write cast(who, 'f64'); join texts with "
    "concat\n    who + 1 > 2\n    ^~~" },
  { "who * 2 > 2", TSR_EDTYPE,
    "tsr_frame_filter: '*' needs numbers, found text; write cast(who, 'f64')\n"
    "    who * 2 > 2\n"
    "    ^~~" },
  { "concat(who, i + 1) == 'x'", TSR_EDTYPE,
    "tsr_frame_filter: concat needs text, found i32; write cast(i + 1, 'text')\n"
    "    concat(who, i + 1) == 'x'\n"
    "                ^~~~~" },
  { "length(day) > 3", TSR_EDTYPE,
    "tsr_frame_filter: length needs text, found date; write cast(day, 'text')\n"
    "    length(day) > 3\n"
    "           ^~~" },
  { "sqrt(who) > 3", TSR_EDTYPE,
    "tsr_frame_filter: sqrt needs a number, found text; write cast(who, 'f64')\n"
    "    sqrt(who) > 3\n"
    "         ^~~" },
  { "sqrt('x') > 3", TSR_EDTYPE,
    "tsr_frame_filter: sqrt needs a number, found text\n"
    "    sqrt('x') > 3\n"
    "         ^~~" },
  { "at > '2013-13-01'", TSR_EDTYPE,
    "tsr_frame_filter: '2013-13-01' is not a time; write '2013-01-31' or '2013-01-31T06:00:00Z'\n  "
    "  at > '2013-13-01'\n         ^~~~~~~~~~~~" },
  { "a == null", TSR_EDTYPE,
    "tsr_frame_filter: comparing with null is always null; write 'is null' or 'is not null'\n"
    "    a == null\n"
    "         ^~~~" },
  { "who == 'x", TSR_EPARSE,
    "tsr_frame_filter: the text that begins here has no closing '\n    who == 'x\n           ^~" },
  { "a >", TSR_EPARSE,
    "tsr_frame_filter: the expression ends where a column, a value or '(' was expected\n"
    "    a >\n"
    "       ^" },
  { "a >\n  b +* 2", TSR_EPARSE,
    "tsr_frame_filter: found * where a column, a value or '(' was expected\n"
    "      b +* 2\n"
    "         ^" },
  { "squrt(x) > 1", TSR_EPARSE,
    "tsr_frame_filter: there is no function 'squrt'; did you mean 'sqrt'?\n"
    "    squrt(x) > 1\n"
    "    ^~~~~" },
  { "sum(a) > 1", TSR_EDTYPE,
    "tsr_frame_filter: sum(...) reduces rows and cannot stand here; aggregate with tsr_frame_agg\n"
    "    sum(a) > 1\n"
    "    ^~~~~~" },
  { "cast(a, 'int')", TSR_EDTYPE,
    "tsr_frame_filter: expected one of 'bool', 'i8', 'i16', 'i32', 'i64', 'u8', 'u16', 'u32', "
    "'u64', 'f16', 'bf16', 'f32', 'f64', 'date', 'time', 'text' here\n    cast(a, 'int')\n         "
    "   ^~~~~" },
  { "hour(day) > 1", TSR_EDTYPE,
    "tsr_frame_filter: hour needs a time, found date\n"
    "    hour(day) > 1\n"
    "         ^~~" },
  { "day + 1.5 > day", TSR_EDTYPE,
    "tsr_frame_filter: '+' does not take date and f64; add integers to a date (days) or a time "
    "(microseconds), and subtract dates from dates or times from times\n    day + 1.5 > day\n    "
    "^~~~~~~~~" },
  { "slice(who, x) == 'a'", TSR_EDTYPE,
    "tsr_frame_filter: slice takes whole numbers as its start and length: slice(x, start, "
    "length)\n    slice(who, x) == 'a'\n               ^" },
  { "replace(who, '', 'x') == 'a'", TSR_EDTYPE,
    "tsr_frame_filter: replace takes texts in quotes as its second and third argument, the second "
    "one not empty\n    replace(who, '', 'x') == 'a'\n                 ^~" },
  { "cast(ok, 'date') == day", TSR_EDTYPE,
    "tsr_frame_filter: a bool cannot be cast to a date\n    cast(ok, 'date') == day\n    "
    "^~~~~~~~~~~~~~~~" },
  { "", TSR_EPARSE, "tsr_frame_filter: the expression is empty; write one" },
};

TEST(expr_messages)
{
  struct fixture f;
  open_fixture(&f);
  for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
    tsr_formula given = { .text = messages[i].text };
    CHECK_STATUS(read_formula(&f, &given, false, TSR__IN_ROW), messages[i].status, NULL);
    CHECK_STR(f.error.text, messages[i].message);
  }
  close_fixture(&f);
}

/* Each is refused, by one of the statuses of expressions. */
/* clang-format off */
static const char *const malformed[] = {
  "+", "-", "*", "a +", "+ +", "* a", "a b", "a 1", "1 a", "1a", "1.2.3", "1e", "1e+", "a +- ",
  "()", "(", ")", "(a", "a)", "((a)", "(a))", "a,", ",a", "a,,b", "(a, b)", "a ==", "== a",
  "a == == b", "a === b", "a <> b", "a => b", "a =< b", "a != ", "! ok", "!ok", "~ok", "a & b",
  "a | b", "a ^ b", "a && b", "a || b", "a ? b : 1", "?", "??", "a.b", "a[0]", "a{0}", "a;",
  "a; b", "a:b", "a@b", "#a", "$a", "a\\b", "`a`", "a'", "'a", "\"a", "a\"", "'", "\"", "\"\"",
  "''' ", "'' + 1", "a is", "a is 1", "a is not", "a is not 1", "is null", "a not", "a not null",
  "a not 1", "in (1)", "a in", "a in 1", "a in ()", "a in (", "a in (1", "a in (1,", "a in (1,)",
  "a in (,1)", "a in (b)", "a in (null)", "a in ('x')", "who in (1)", "ok in (1)", "not",
  "not not", "and", "or", "ok and", "ok or", "and ok", "or ok", "ok and and ok", "ok or or ok",
  "ok not ok", "a and b", "a or 1", "not a", "not 'x'", "1 and 2", "who and who", "x or ok",
  "nothing", "Revenue", "odd name", "\"odd  name\"", "a.revenue", "f(a)", "abs", "abs(", "abs()",
  "abs(a", "abs(a,b)", "abs(who)", "abs(ok)", "abs(day)", "sqrt(who)", "exp('a')", "log()",
  "if()", "if(ok)", "if(ok,a)", "if(ok,a,b,b)", "if(a,b,b)", "if(ok,a,who)", "if(ok,day,a)",
  "if(ok, ok, a)", "coalesce()", "coalesce(a)", "coalesce(a,who)", "is_nan(who)", "sum(a)",
  "count()", "mean(x) + 1", "sum(sum(a))", "a + count()", "-who", "-ok", "-day", "-null",
  "- 'x'", "who + who", "who * 2", "day + x", "day + day", "1 - day", "day - at - at", "at * 2",
  "who == 1",
  "1 == who", "who < 1", "who == ok", "ok == 1", "ok < ok", "ok == who", "day == 1", "day == a",
  "at == 1.5", "at == ok", "day == 'x'", "day == '2013-02-30'", "day == '2013-1-1'",
  "at == '2013-01-01T25:00'", "at == 'noon'", "day in ('x')", "a == 'x'", "null == a",
  "a < null", "null < null", "'a' + 'b'", "9223372036854775808", "99999999999999999999",
  "-9223372036854775809", "a ==9223372036854775808", "1_000", "0x10", "1..2", "..1", ".",
  "a . b", "a AND b", "ok AND ok", "ok OR ok", "NOT ok", "NULL", "ok == TRUE", "a IS NULL",
  "a IN (1)", "a BETWEEN 1 AND 2", "a LIKE 'x'", "a = 3", "a == b = 3", "a = b == 3", "x = ",
  "= x", "a := 1", "a += 1", "a ++", "a --", "a ** ** b", "** a", "a **", "a // ", "// a",
  "a % ", "% a", "a %% b", "a <", "< a", "a < < b", "a >> b", "a << b", "a -> b", "lambda",
  "select a", "a from b", "a where b", "count(*)", "sum(*)", "a, *", "null null",
  "true false", "true()", "null()", "not()", "in()", "a(b)", "\"a\"(b)", "(a)(b)", "a (b)",
  "1(2)", "'a'(b)", "abs(abs)", "abs(a b)", "abs(a;b)", "abs(,a)", "abs(a,)", "if(,,)",
  "min(a, b)", "max(a, b) > 1", "sum(a, b)", "count(a, b)", "any(ok)", "all(ok) or ok", "\xff",
  "a \x80 b", "\xc3", "'\xff'", "a\x01", "\x7f", "a > '", "a > \"", "who == \"x\"", "who = 'x'",
  "who == x'", "who == 'x''", "who == ''x'", "(((((((((((((((((((((((((a", "a))))))))))))))",
  "-(-(-(-(-who))))", "not not not not a", "1 < who < 3", "a < who", "a < b < who",
  "a < b == who", "a is null is 1", "a is null + 1 + who", "a in (1) in (who)",
  "if(ok, if(ok, a), b)", "abs(sqrt(who))", "a + b + who", "(who) + 1", "coalesce(day, a)",
  "coalesce(who, 1)", "coalesce(day, 'x')", "if(ok, at, 'x')", "if(null, a, who)", "x > 'a'",
  "h == 'a'", "i in (1, 'a')", "i in (1, ok)", "day in (1)", "who in ('a', 1)", "who not in (1)",
  "a not in ('b')", "a not in ()", "a not in (b)", "a not in 1", "ok is not true", "a is not b",
  "a not is null", "is", "is not", "not in", "a is null null", "a null", "null is", "a ** who",
  "who ** 2", "a // who", "a % ok % who", "exp()", "exp(a, b)", "floor(who)", "round(at)",
  "round(a, b)", "log(a, b)", "is_nan()", "is_nan(day)", "if (ok a b)", "e5 + 1", "1e5x",
  "1.5.a", "1 .5", "1. 5", "a .5", ".5.", "+-*/", "a + b - ", "a * / b", "a / / b", "a < > b",
  "a < = b", "a = = b", "a ! = b", "a ! b", "a !", "(a + ) b", "(a + b))(", ")(",
  "() + 1", "( )", "( , )", "lower(a)", "upper(ok)", "length(day)", "trim(1)", "lower()",
  "contains(who)", "contains(who, 1)", "contains(a, 'x')", "starts_with(who, null, 1)",
  "replace(who, 'a')", "replace(who, who, 'a')", "replace(who, 'a', null)", "slice(who)",
  "slice(who, 1.5)", "slice(who, 1, -1)", "slice(who, null)", "concat(who)", "concat(who, a)",
  "year(a)", "year('2013-01-01')", "date(a)", "minute(day)", "date_trunc(day, 'month')",
  "date_trunc('hour', day)", "date_trunc('decade', day)", "date_trunc(who, day)", "cast(a)",
  "cast(a, i64)", "cast(a, 'I64')", "cast(x, 'date')", "cast(day, 'bool')", "cast(a, 'f64', 1)",
  "try_cast(ok, 'time')", "round(x, 2.5)", "round(x, 19)", "round(x, null)", "log2(who)",
  "sin(ok)", "least(a)", "least(a, who)", "greatest(ok, 1)", "between(a, 1)", "between(a, 'x', 2)",
  "who in (concat('a', 'b'))", "a + day + x", "day * 2", "at - who",
};
/* clang-format on */

/* Every one of the texts is refused, with a message. */
static void check_refused(const char *const *texts, size_t count, int context)
{
  struct fixture f;
  bool rows = context == TSR__IN_ROW;
  open_fixture(&f);
  for (size_t i = 0; i < count; i++) {
    tsr_formula given = { .text = texts[i] };
    tsr_status st = read_formula(&f, &given, !rows, context);
    if (st != TSR_EPARSE && st != TSR_EDTYPE && !(rows && st == TSR_ECOLUMN))
      FAIL("%s: status %d, %s", texts[i], (int)st, f.error.text);
    CHECK_STR_HAS(f.error.text, "tsr_frame_filter: ");
    CHECK_I64(st, f.error.status);
  }
  close_fixture(&f);
}

TEST(expr_malformed)
{
  size_t count = sizeof malformed / sizeof *malformed;
  CHECK(count >= 300);
  check_refused(malformed, count, TSR__IN_ROW);
}

TEST(expr_aggregate_context)
{
  static const char *const bad[] = { "a",
                                     "sum(a) + b",
                                     "sum(mean(a))",
                                     "count(), a",
                                     "if(ok, a, b)",
                                     "sum(who)",
                                     "mean(day)",
                                     "any(a)",
                                     "sum(null) + who",
                                     "sum()",
                                     "mean()",
                                     "count(count())",
                                     "n = a",
                                     "all(x)",
                                     "median(who)",
                                     "median(day)",
                                     "quantile(a)",
                                     "quantile(a, 2)",
                                     "quantile(a, -1)",
                                     "quantile(a, null)",
                                     "quantile(a, b)",
                                     "quantile(a, 0.5 + 0.1)",
                                     "nunique()",
                                     "nunique(null)",
                                     "first(a, b)",
                                     "corr(a)",
                                     "corr(a, who)",
                                     "corr(day, a)" };
  check_refused(bad, sizeof bad / sizeof *bad, TSR__IN_AGG);
}

static char *repeat(const char *before, const char *part, int count, const char *after)
{
  size_t size = strlen(before) + strlen(part) * (size_t)count + strlen(after) + 1;
  char *text = malloc(size), *at = text;
  CHECK(text != NULL);
  at += snprintf(at, size, "%s", before);
  for (int i = 0; i < count; i++) {
    memcpy(at, part, strlen(part));
    at += strlen(part);
  }
  memcpy(at, after, strlen(after) + 1);
  return text;
}

TEST(expr_depth_and_length)
{
  static const struct {
    const char *before, *part, *after;
    int fine, bad;
  } cases[] = {
    { "", "(", "a", 0, 1000 },
    { "", "-", "a", 150, 1000 },
    { "ok", " and ok", "", 150, 5000 },
    { "a", " + a", "", 150, 5000 },
    { "", "not ", "ok", 150, 2000 },
    { "", "abs(", "a", 0, 3000 },
    { "a", " ** a", "", 60, 3000 },
    { "a < b", " < a", "", 150, 3000 },
    { "", "+", "a", 150, 60000 },
    { "a in (1", ",1", ")", 900, 1100 },
    { "'", "x", "' == who", 60000, 70000 },
  };
  struct fixture f;
  open_fixture(&f);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *good = repeat(cases[i].before, cases[i].part, cases[i].fine, cases[i].after);
    tsr_formula given = { .text = good };
    tsr_status st = read_formula(&f, &given, false, TSR__IN_ROW);
    if (cases[i].fine && st) FAIL("%.40s: %s", good, f.error.text);
    free(good);
    given.text = repeat(cases[i].before, cases[i].part, cases[i].bad, cases[i].after);
    if (read_formula(&f, &given, false, TSR__IN_ROW) != TSR_EPARSE)
      FAIL("%d times %s are fine", cases[i].bad, cases[i].part);
    free((char *)given.text);
  }
  close_fixture(&f);
}

/* Comparisons share operands: a chain in a chain in a chain must not be walked forever. */
TEST(expr_size)
{
  struct fixture f;
  open_fixture(&f);
  char *text = repeat("", "ok == (", 60, "ok");
  char *whole = repeat(text, ") == ok", 60, "");
  tsr_formula given = { .text = whole };
  CHECK_STATUS(read_formula(&f, &given, false, TSR__IN_ROW), TSR_EPARSE, NULL);
  CHECK_STR_HAS(f.error.text, "the expression is too large");
  free(text);
  free(whole);
  close_fixture(&f);
}

/* The items of a list are bounded together: many of them, each within its bound, are refused. */
TEST(expr_list_size)
{
  struct fixture f;
  open_fixture(&f);
  char *text = repeat("", "ok == (", 12, "ok");
  char *one = repeat(text, ") == ok", 12, "");
  char *tail = repeat(", ", "", 0, one);
  char *whole = repeat(one, tail, 60, "");
  const tsr_formula few = { .text = one }, many = { .text = whole };
  CHECK_STATUS(read_formula(&f, &few, true, TSR__IN_ROW), TSR_OK, NULL);
  CHECK_STATUS(read_formula(&f, &many, true, TSR__IN_ROW), TSR_EPARSE, NULL);
  CHECK_STR_HAS(f.error.text, "this expression makes the list too large");
  free(text);
  free(one);
  free(tail);
  free(whole);
  close_fixture(&f);
}

/* Every function has its place in the document. */
TEST(expr_functions_are_documented)
{
  char *text = test_read(test_file("../docs/EXPRESSIONS.md"), NULL), name[40];
  for (int i = 0; i < TSR__FNS + TSR__AGGS; i++) {
    snprintf(name, sizeof name, "`%s(",
             i < TSR__FNS ? tsr__fn_name(i) : tsr__agg_name(i - TSR__FNS));
    if (!strstr(text, name)) FAIL("%s...)` is not in docs/EXPRESSIONS.md", name);
  }
  free(text);
}

/* Random bytes and random words: never a crash, and what reads fine prints and reads back. */
TEST(expr_random)
{
  static const char *const words[] = { "a",   "x",  "who",  "ok",  "1",    "2.5",  "'t'",
                                       "+",   "-",  "*",    "/",   "//",   "**",   "(",
                                       ")",   ",",  "==",   "<",   "and",  "or",   "not",
                                       "in",  "is", "null", "if(", "abs(", "sum(", "\"odd name\"",
                                       "day", "?" };
  test_rng rng = test_seeded(7);
  struct fixture f;
  open_fixture(&f);
  int fine = 0, rounds = test_quick() ? 20000 : 200000;
  for (int round = 0; round < rounds; round++) {
    char text[200];
    size_t length = 0;
    int64_t parts = test_range(&rng, 0, 12);
    for (int64_t i = 0; i < parts; i++) {
      int64_t w = test_range(&rng, 0, 31);
      if (w < 30) length += (size_t)snprintf(text + length, sizeof text - length, "%s ", words[w]);
      else text[length++] = (char)test_range(&rng, 1, 255);
    }
    text[length] = 0;
    tsr_formula given = { .text = text };
    tsr_status st = read_formula(&f, &given, false, TSR__IN_ROW);
    if (st) {
      CHECK(f.error.text[0] != 0);
    } else {
      tsr__text once, twice;
      tsr__text_init(&once, NULL);
      tsr__text_init(&twice, NULL);
      tsr__expr_print(f.formula.item[0].expr, &once);
      given.text = tsr__text_get(&once);
      CHECK_STATUS(read_formula(&f, &given, false, TSR__IN_ROW), TSR_OK, NULL);
      tsr__expr_print(f.formula.item[0].expr, &twice);
      CHECK_STR(tsr__text_get(&twice), tsr__text_get(&once));
      tsr__text_free(&once);
      tsr__text_free(&twice);
      fine++;
    }
    tsr__arena_reset(&f.arena, NULL, 0);
  }
  CHECK(fine > rounds / 100);
  close_fixture(&f);
}

TEST(expr_dates_write)
{
  static const struct {
    int64_t value;
    const char *text;
  } days[] = { { 0, "1970-01-01" },        { -1, "1969-12-31" },       { 11016, "2000-02-29" },
               { -719162, "0001-01-01" },  { -719529, "-0001-12-31" }, { -4371587, "-9999-01-01" },
               { 2932897, "10000-01-01" }, { 2932896, "9999-12-31" } };
  char out[40];
  for (size_t i = 0; i < sizeof days / sizeof *days; i++) {
    tsr__date_write(days[i].value, out);
    CHECK_STR(out, days[i].text);
  }
  tsr__time_write(INT64_C(1357020000000000), out);
  CHECK_STR(out, "2013-01-01T06:00:00Z");
  tsr__time_write(-1, out);
  CHECK_STR(out, "1969-12-31T23:59:59.999999Z");
  tsr__time_write(INT64_MIN, out);
  tsr__time_write(INT64_MAX, out);
}
