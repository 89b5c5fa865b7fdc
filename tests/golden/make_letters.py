#!/usr/bin/env python3
"""Writes tests/golden/letters.txt: code point, lower and upper case of each that has another, in hex.

  tests/golden/make_letters.py > tests/golden/letters.txt

One character for one, by the methods of Python's texts (3.11, Unicode 14.0): where they give several the
simple mapping is told here.
"""

import sys

SIMPLE_LOWER = {0x130: 0x69}
# Greek with an iota below: the capital has it beside. Others that become several letters stay.
SIMPLE_UPPER = {0x1fb3: 0x1fbc, 0x1fc3: 0x1fcc, 0x1ff3: 0x1ffc}
for row in (0x1f80, 0x1f90, 0x1fa0):
    SIMPLE_UPPER.update({row + i: row + i + 8 for i in range(8)})

for point in range(sys.maxunicode + 1):
    if 0xd800 <= point < 0xe000:
        continue
    lower, upper = chr(point).lower(), chr(point).upper()
    lower = ord(lower) if len(lower) == 1 else SIMPLE_LOWER.get(point, point)
    upper = ord(upper) if len(upper) == 1 else SIMPLE_UPPER.get(point, point)
    if lower != point or upper != point:
        print(f"{point:x} {lower:x} {upper:x}")
