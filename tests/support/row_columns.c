#include "support/row_columns.h"

#include <math.h>
#include <string.h>

#define NO_GRADIENT(reason) .none = reason,
#define GRADIENT(name) .rule = #name,
#define ULP(wide, narrow) .ulp = { wide, narrow },
#define TRIES(low, high) .tries = { low, high },
#define BESIDE(low, high) .beside = { low, high },
#define AWAY(gap) .away = gap,
#define JUMPS() .jumps = true,
#define UNTRIED(reason) .untried = reason,
#define OP(id, text, kernel, ...) [TSR__OP_##id] = { __VA_ARGS__ },
const row_columns row_columns_of[TSR__OPS] = {
#include "graph/ops.def"
};

double row_ulp(const char *name, tsr_dtype dtype)
{
  int op = 0;
  while (op < TSR__OPS && strcmp(tsr__ops[op].name, name) != 0) op++;
  if (op == TSR__OPS || !(row_columns_of[op].ulp.f64 > 0)) FAIL("no row %s states ULP", name);
  if (dtype == TSR_F64) return row_columns_of[op].ulp.f64;
  return dtype == TSR_F32 ? row_columns_of[op].ulp.f32 : 0.5 + row_columns_of[op].ulp.f32 * 0x1p-13;
}

static bool takes_floats(const tsr__opinfo *row)
{
  switch ((enum tsr__want)row->wants) {
  case TSR__WANT_INTEGER:
  case TSR__WANT_BITS:
  case TSR__WANT_BOOL: return false;
  default: return row->most > 0;
  }
}

static bool gives_floats(const tsr__opinfo *row)
{
  switch ((enum tsr__dtype_rule)row->dtype_rule) {
  case TSR__DT_SAME:
  case TSR__DT_SECOND:
  case TSR__DT_FLOAT:
  case TSR__DT_SUM: return true;
  default: return false;
  }
}

bool row_has_slope(int op)
{
  const char *rule = row_columns_of[op].rule;
  if (!rule) return false;
  return strcmp(rule, "zero") != 0 || (takes_floats(&tsr__ops[op]) && gives_floats(&tsr__ops[op]));
}

static bool is_stated(row_range range)
{
  return range.least < range.most;
}

bool row_has_range(int op)
{
  return is_stated(row_columns_of[op].tries);
}

row_range row_range_of(int op, int i)
{
  const row_columns *row = &row_columns_of[op];
  return i && is_stated(row->beside) ? row->beside : row->tries;
}

double row_draw(int op, row_range range, test_rng *rng, int k, int count)
{
  double away = row_columns_of[op].away, width = range.most - range.least;
  double x = range.least + width * (k + 0.2 + 0.6 * test_uniform(rng)) / count;
  return fabs(x) < away ? x + copysign(away, x) : x;
}
