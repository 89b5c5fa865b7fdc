/* Single values that users pass: a kind and a field of it. Calls take them by value, so nothing is
 * owned but a text, which is borrowed for the call. */
#include "tessera/scalar.h"
#include "base/base.h"

tsr_scalar tsr_scalar_bool(bool value)
{
  return (tsr_scalar){ .kind = TSR_SCALAR_BOOL, .i = value };
}

tsr_scalar tsr_scalar_int(long long value)
{
  return (tsr_scalar){ .kind = TSR_SCALAR_INT, .i = value };
}

tsr_scalar tsr_scalar_uint(unsigned long long value)
{
  return (tsr_scalar){ .kind = TSR_SCALAR_UINT, .u = value };
}

tsr_scalar tsr_scalar_float(double value)
{
  return (tsr_scalar){ .kind = TSR_SCALAR_FLOAT, .f = value };
}

tsr_scalar tsr_scalar_text(const char *value)
{
  return (tsr_scalar){ .kind = TSR_SCALAR_TEXT, .text = value };
}

/* What fits both is signed, so that 7u and 7 are the same number in a formula. */
tsr_scalar tsr__scalar_signed(tsr_scalar value)
{
  if (value.kind == TSR_SCALAR_UINT && value.u <= INT64_MAX) value.kind = TSR_SCALAR_INT;
  return value;
}

/* The nearest f64; 0 for what is no number. */
double tsr__scalar_real(tsr_scalar value)
{
  switch (value.kind) {
  case TSR_SCALAR_FLOAT: return value.f;
  case TSR_SCALAR_UINT: return (double)value.u;
  case TSR_SCALAR_BOOL:
  case TSR_SCALAR_INT: return (double)value.i;
  case TSR_SCALAR_NONE:
  case TSR_SCALAR_TEXT: break;
  }
  return 0;
}
