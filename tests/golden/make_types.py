#!/usr/bin/env python3
"""Columns of all element types, by exact arithmetic: writes types.txt beside this script.

  meet A B T          a column of type A plus one of type B is a T: JAX's table between two integers and between
                      two floats, NumPy's (the float that holds the integer) between one and the other
  read T TEXT BITS    what a text is as a T, rounded once; "none" where it is none
  show T BITS TEXT    the shortest text that reads back, the nearest of them to the value
  cast T BITS U BITS  try_cast; "none" where it gives null
  sums N T BITS...    N numbers, then   sum mean min max var std median   of them: integers as they are, the
                      rest as the hexadecimal bits of an f64

Needs jax, ml_dtypes and numpy, for `meet` alone.
"""

import math
import pathlib
import random
import struct
from fractions import Fraction

import jax
import ml_dtypes
import numpy as np

jax.config.update("jax_enable_x64", True)
INTEGERS = {"i8": (-2**7, 2**7 - 1), "i16": (-2**15, 2**15 - 1), "i32": (-2**31, 2**31 - 1),
            "i64": (-2**63, 2**63 - 1), "u8": (0, 2**8 - 1), "u16": (0, 2**16 - 1),
            "u32": (0, 2**32 - 1), "u64": (0, 2**64 - 1)}
# significant bits, exponent of the least value, bits of the exponent, all bits
FLOATS = {"f16": (11, -24, 5, 16), "bf16": (8, -133, 8, 16), "f32": (24, -149, 8, 32),
          "f64": (53, -1074, 11, 64)}
TYPES = ["bool", *INTEGERS, *FLOATS]
NUMPY = {"bool": np.bool_, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
         "f64": np.float64, **{t: np.dtype(("u" if t[0] == "u" else "") + "int" + t[1:]).type
                               for t in INTEGERS}}
NAME = {np.dtype(v): k for k, v in NUMPY.items()}
random.seed(20)


# ---- floats as bits ----------------------------------------------------------------------------

def round_to(value, kind, negative_zero=False):
    """The bits of a fraction as a float, ties to even."""
    p, least, width, bits = FLOATS[kind]
    sign = (value < 0 or negative_zero) << (bits - 1)
    size = abs(value)
    if not size:
        return sign
    top = size.numerator.bit_length() - size.denominator.bit_length()
    top -= Fraction(2) ** top > size
    step = max(top - p + 1, least)
    whole = round(size / Fraction(2) ** step)  # ties to even
    highest = (2 ** (width - 1) - 1) - p + 1  # the step of the largest numbers
    if whole == 2 ** p:
        whole, step = whole // 2, step + 1
    if step > highest:
        return sign | (2 ** width - 1) << (p - 1)
    field = step - least + (whole >= 2 ** (p - 1))
    return sign | field << (p - 1) | (whole & (2 ** (p - 1) - 1))


def value_of(bits, kind):
    """A fraction, or the text nan, inf or -inf."""
    p, least, width, room = FLOATS[kind]
    field, fraction = bits >> (p - 1) & (2 ** width - 1), bits & (2 ** (p - 1) - 1)
    negative = bits >> (room - 1)
    if field == 2 ** width - 1:
        return "nan" if fraction else "-inf" if negative else "inf"
    size = (fraction + (2 ** (p - 1) if field else 0)) * Fraction(2) ** (least + max(field - 1, 0))
    return -size if negative else size


def hex_of(bits):
    """Bits as the file has them."""
    return f"0x{bits:x}"


# ---- lines -------------------------------------------------------------------------------------

def meet(a, b):
    """The type of a sum of two columns."""
    a, b = (("i64" if t == "bool" else t) for t in (a, b))
    if (a in FLOATS) == (b in FLOATS):
        return NAME[np.dtype(jax.numpy.promote_types(NUMPY[a], NUMPY[b]))]
    whole, real = (b, a) if a in FLOATS else (a, b)
    if real == "bf16":  # holds 8 bits; NumPy's rule for its own floats
        return "bf16" if whole in ("i8", "u8") else meet(whole, "f32")
    return NAME[np.promote_types(NUMPY[whole], NUMPY[real])]


def meets():
    """All pairs."""
    return [f"meet {a} {b} {meet(a, b)}" for a in TYPES for b in TYPES]


def decimal_text(value):
    """All digits of a fraction whose denominator is a power of two."""
    places = max(value.denominator.bit_length() - 1, 0)
    digits = str(abs(value.numerator) * 5 ** places).rjust(places + 1, "0")
    text = digits[:len(digits) - places] + ("." + digits[len(digits) - places:] if places else "")
    return ("-" if value < 0 else "") + text


def reads():
    """Integers at the ends of types; floats at, and next to, borders between two."""
    lines = []
    for kind, (low, high) in INTEGERS.items():
        for n in {low - 1, low, high, high + 1, 0, 7, -1, 2**63, 2**64 - 1, 2**64, 10**30}:
            lines.append(f"read {kind} {n} {n if low <= n <= high else 'none'}")
        lines.append(f"read {kind} 1.5 none")
        lines.append(f"read {kind} +7 7")
    for kind in ("f16", "bf16", "f32"):
        p, _, width, _ = FLOATS[kind]
        top = (2 ** width - 1) << (p - 1)
        for bits in [0, 1, 2, 2 ** (p - 1) - 1, 2 ** (p - 1), top - 1] + random.sample(range(top), 30):
            low, high = value_of(bits, kind), value_of(min(bits + 1, top - 1), kind)
            if low == high:  # half a step above the largest, where infinity begins
                high = low + (low - value_of(bits - 1, kind))
            border = decimal_text((low + high) / 2)
            point = border if "." in border else border + ".0"
            below = decimal_text((low + high) / 2 - Fraction(1, 2 ** 200))
            for text in (border, point + "0" * 60 + "1", below, "-" + point, decimal_text(low)):
                exact = Fraction(text)
                lines.append(f"read {kind} {text} {hex_of(round_to(exact, kind, text[0] == '-'))}")
        for text in ("0.1", "1e400", "-1e-400", "65519.99999999999999", "65520", "3.3895314e38",
                     "3.4028236e38", "5.9604645e-8", "2.98023223876953125e-8", "12345.678e-2"):
            exact = Fraction(text)
            lines.append(f"read {kind} {text} {hex_of(round_to(exact, kind, text[0] == '-'))}")
    return lines


def lay_out(digits, power):
    """Digits d.ddd * 10^power as the library writes them."""
    digits = digits.rstrip("0") or "0"
    point = power + 1
    if point < -3 or point > 16:
        text = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{text}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if point <= 0:
        return "0." + "0" * -point + digits
    if len(digits) <= point:
        return digits + "0" * (point - len(digits))
    return digits[:point] + "." + digits[point:]


def shortest(bits, kind):
    """The text of a float."""
    value = value_of(bits, kind)
    if isinstance(value, str):
        return value
    sign = "-" if bits >> (FLOATS[kind][3] - 1) else ""
    size = abs(value)
    if not size:
        return sign + "0"
    want = round_to(size, kind)
    power = math.floor(math.log10(size.numerator) - math.log10(size.denominator))
    power += (Fraction(10) ** (power + 1) <= size) - (Fraction(10) ** power > size)
    for count in range(1, 25):
        unit = Fraction(10) ** (power - count + 1)
        near = [n for n in (math.floor(size / unit), math.floor(size / unit) + 1)
                if round_to(n * unit, kind) == want]
        if near:
            n = min(near, key=lambda k: (abs(k * unit - size), k % 2))
            shown = power + (len(str(n)) - count)
            return sign + lay_out(str(n), shown)
    raise AssertionError(bits)


def shows():
    """Special values, and others by chance."""
    lines = []
    for kind in ("f16", "bf16"):
        p, _, width, room = FLOATS[kind]
        top = (2 ** width - 1) << (p - 1)
        for bits in [0, 1, 1 << (room - 1), top, top | 1 << (room - 1), top - 1, 2 ** (p - 1),
                     *random.sample(range(2 ** room), 150)]:
            text = shortest(bits, kind)
            if text != "nan":
                lines.append(f"show {kind} {hex_of(bits)} {text}")
    return lines


def cast(bits, a, b):
    """What try_cast makes of a value, as the file has it."""
    value = Fraction(bits) if a not in FLOATS else value_of(bits, a)
    negative = a in FLOATS and bits >> (FLOATS[a][3] - 1)
    if b == "bool":
        return int(value != 0)
    if b in INTEGERS:
        if isinstance(value, str):
            return "none"
        low, high = INTEGERS[b]
        return int(value) if low <= int(value) <= high else "none"
    p, _, width, room = FLOATS[b]
    infinity = (2 ** width - 1) << (p - 1)
    if value == "nan":
        return "nan"
    if isinstance(value, str):
        return hex_of(infinity | (value == "-inf") << (room - 1))
    return hex_of(round_to(value, b, negative))


def casts():
    """Edges of every type to every other."""
    lines = []
    for a in TYPES:
        if a in INTEGERS:
            low, high = INTEGERS[a]
            values = {low, low + 1, high, high - 1, 0, 1, high // 2 + 1, 200, 2**53 + 1, 2**24 + 1,
                      65519, 65520, 257, 2**32, 2**31, -1, -129, 2**15}
            values = sorted(v for v in values if low <= v <= high)
        elif a == "bool":
            values = [0, 1]
        else:
            wanted = [0, 1, -1, "1/2", "-1/2", "127.9", "-128.9", 128, "255.9", 256, 65504, 65520,
                      2**31 - 1, 2**31, -2**31 - 1, 2**32, 2**63, -2**63, 2**64, "1e-8", "0.1",
                      "3e38", "1e39"]
            values = sorted({round_to(Fraction(v), a) for v in wanted})
            values += [1 << (FLOATS[a][3] - 1), (2 ** FLOATS[a][2] - 1) << (FLOATS[a][0] - 1),
                       2 ** (FLOATS[a][3] - 1) - 1]
        for value in values:
            shown = hex_of(value) if a in FLOATS else value
            lines += [f"cast {a} {shown} {b} {cast(value, a, b)}" for b in TYPES if b != a]
    return lines


def root(value):
    """The bits of the root of a fraction as an f64."""
    shift = 2 * 2000
    near = Fraction(math.isqrt(value.numerator * 2 ** shift // value.denominator), 2 ** (shift // 2))
    if near * near != value:
        near += Fraction(1, 2 ** 4000)  # the rest, on the same side of every border
    return round_to(near, "f64")


def statistics(numbers):
    """sum mean min max var std median."""
    n, total = len(numbers), sum(numbers)
    mean = Fraction(total, n)
    spread = sum((x - mean) ** 2 for x in numbers) / (n - 1)
    ordered = sorted(numbers)
    middle = [float(ordered[(n - 1) // 2]), float(ordered[n // 2])]
    median = struct.unpack("<Q", struct.pack("<d", (middle[0] + middle[1]) / 2))[0]
    f64 = [round_to(mean, "f64"), round_to(spread, "f64"), root(spread), median]
    return (f"{total} {hex_of(f64[0])} {ordered[0]} {ordered[-1]} {hex_of(f64[1])} {hex_of(f64[2])} "
            f"{hex_of(f64[3])}")


def sums():
    """Columns of integers whose sums are in range."""
    lines = []
    for kind, (low, high) in INTEGERS.items():
        wide = kind in ("i64", "u64")
        for n in (2, 3, 9, 40):
            numbers = [random.randint(low, high) // (n if wide else 1) for _ in range(n)]
            numbers[0] = high // n if wide else high
            numbers[1] = low // n if wide else low
            lines.append(f"sums {n} {kind} {' '.join(map(str, numbers))} {statistics(numbers)}")
    for numbers in ([2**64 - 1, 0], [2**63, 2**63 - 1], [2**64 - 3, 1, 1], [2**63 + 12345, 7, 2**62]):
        lines.append(f"sums {len(numbers)} u64 {' '.join(map(str, numbers))} {statistics(numbers)}")
    return lines


def main():
    """Writes the file."""
    lines = meets() + reads() + shows() + casts() + sums()
    path = pathlib.Path(__file__).with_name("types.txt")
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
