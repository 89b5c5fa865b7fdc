/* Values that users pass: `?` of expressions and right operands of whole-frame arithmetic. */
#include "tessera/frame.h"

tsr_param tsr_param_int(long long value)
{
  return (tsr_param){ .kind = 1, .i = value };
}

tsr_param tsr_param_uint(unsigned long long value)
{
  if (value > INT64_MAX) return tsr_param_float((double)value);
  return tsr_param_int((long long)value);
}

tsr_param tsr_param_float(double value)
{
  return (tsr_param){ .kind = 2, .f = value };
}

tsr_param tsr_param_bool(bool value)
{
  return (tsr_param){ .kind = 3, .i = value };
}

tsr_param tsr_param_text(const char *value)
{
  return (tsr_param){ .kind = 4, .text = value };
}

tsr_frame_operand tsr_frame_operand_frame(tsr_frame *frame)
{
  return (tsr_frame_operand){ .kind = 0, .frame = frame };
}

tsr_frame_operand tsr_frame_operand_int(long long value)
{
  return (tsr_frame_operand){ .kind = 1, .i = value };
}

tsr_frame_operand tsr_frame_operand_float(double value)
{
  return (tsr_frame_operand){ .kind = 2, .f = value };
}
