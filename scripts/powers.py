#!/usr/bin/env python3
"""Writes src/base/powers.c: the top 128 bits of the powers of ten that doubles need.

  scripts/powers.py > src/base/powers.c
"""

LEAST, MOST = -342, 324


def top_bits(power):
    """The first 128 bits of 5^power, cut off below: those of 10^power are the same."""
    if power >= 0:
        number = 5 ** power
        return number << 128 - number.bit_length() if number.bit_length() < 128 \
            else number >> number.bit_length() - 128
    divisor = 5 ** -power
    number = (1 << divisor.bit_length() + 127) // divisor
    return number >> number.bit_length() - 128


print("/* The first 128 bits of 10^-342 ... 10^324, cut off below. Written by scripts/powers.py. */\n"
      '#include "base/powers.h"\n\n/* clang-format off */\n'
      "const tsr__power tsr__powers[TSR__POWER_MOST - TSR__POWER_LEAST + 1] = {")
for first in range(LEAST, MOST + 1, 2):
    cells = [top_bits(power) for power in range(first, min(first + 2, MOST + 1))]
    print("  " + " ".join(f"{{ 0x{bits >> 64:016x}, 0x{bits & (1 << 64) - 1:016x} }},"
                          for bits in cells))
print("};\n/* clang-format on */")
