"""Writes vector_products.txt: exact sums of exact products, and norms, by rational arithmetic.

    python tests/golden/make_vector_products.py        (NumPy 2.x, ml_dtypes)

One case a line: dtype, two vectors, their product and the norm of the first, all as hexadecimal floats; a product is
rounded once to the dtype, a norm to f64 before and after its root and then to the dtype.
"""
import math
import pathlib
from fractions import Fraction

import ml_dtypes
import numpy as np

rng = np.random.default_rng(5)
# mantissa bits, the least exponent of a unit, the largest exponent
FORMATS = {"f64": (53, -1074, 1024), "f32": (24, -149, 128), "f16": (11, -24, 16), "bf16": (8, -133, 128)}
NARROW = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def rounded(value, name):
    """A fraction to the nearest number of a format, ties to even."""
    bits, least, most = FORMATS[name]
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - bits + 1, least)
    whole = round(size / unit)  # ties to even
    result = whole * unit
    if result >= Fraction(2) ** most:
        return math.copysign(math.inf, value)
    return math.copysign(float(result), value)


def line(name, x, y):
    x, y = ([float(NARROW[name](v)) for v in vector] for vector in (x, y))
    dot = rounded(sum((Fraction(a) * Fraction(b) for a, b in zip(x, y)), Fraction(0)), name)
    if all(a * b == 0 and math.copysign(1, a) * math.copysign(1, b) < 0 for a, b in zip(x, y)) and x:
        dot = -0.0
    square = rounded(sum((Fraction(a) ** 2 for a in x), Fraction(0)), "f64")
    norm = rounded(Fraction(math.sqrt(square)), name)
    text = [",".join(v.hex() for v in vector) for vector in (x, y)]
    return " ".join([name, *text, float(dot).hex(), float(norm).hex()])


lines = []
for name in FORMATS:
    spread = {"f64": 300, "f32": 30, "f16": 4, "bf16": 30}[name]
    for count in (1, 2, 7, 33, 100):
        x, y = rng.standard_normal((2, count))
        lines.append(line(name, x, y))
        scale = 2.0 ** rng.integers(-spread, spread, count)
        lines.append(line(name, x * scale, y / scale))
    for count in (4, 40):  # what cancels but for the lowest bits
        x, y = rng.standard_normal((2, count))
        lines.append(line(name, np.r_[x, x], np.r_[y, -y * (1 + 2.0 ** -FORMATS[name][0])]))
    lines.append(line(name, [0.0, -0.0], [-1.0, 2.0]))
    lines.append(line(name, [1.0, 2.0 ** -10, 1.0], [1.0, 2.0 ** -10, -1.0]))
# ties of narrow types that a sum in f64 would round twice
one, half = 1.0, 2.0 ** -24
lines.append(line("f32", [one, half, 2.0 ** -50], [one, one, 2.0 ** -50]))
lines.append(line("f32", [one + 2.0 ** -23, half, -2.0 ** -50], [one, one, 2.0 ** -50]))
lines.append(line("f16", [one, 2.0 ** -11, 2.0 ** -14], [one, one, 2.0 ** -14]))
lines.append(line("bf16", [one, 2.0 ** -8, 2.0 ** -60], [one, one, 2.0 ** -20]))
path = pathlib.Path(__file__).with_name("vector_products.txt")
path.write_text("".join(text + "\n" for text in lines))
