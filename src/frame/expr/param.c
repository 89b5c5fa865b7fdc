/* Right operands of whole-frame arithmetic. */
#include "tessera/frame.h"

tsr_frame_operand tsr_frame_operand_frame(tsr_frame *frame)
{
  return (tsr_frame_operand){ .frame = frame };
}

tsr_frame_operand tsr_frame_operand_int(long long value)
{
  return (tsr_frame_operand){ .number = tsr_scalar_int(value) };
}

tsr_frame_operand tsr_frame_operand_uint(unsigned long long value)
{
  return (tsr_frame_operand){ .number = tsr_scalar_uint(value) };
}

tsr_frame_operand tsr_frame_operand_float(double value)
{
  return (tsr_frame_operand){ .number = tsr_scalar_float(value) };
}
