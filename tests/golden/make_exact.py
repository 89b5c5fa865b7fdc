#!/usr/bin/env python3
"""Writes exact.txt: sums, means, variances and deviations by rational arithmetic.

Every result is the exact rational number (fractions.Fraction), rounded once to the format,
ties to even. Run it in this folder: python3 make_exact.py > exact.txt
Values are written as the 16 hexadecimal digits of their bits; any NaN is "nan".
"""
import random
import struct
from fractions import Fraction
from math import isqrt

F64 = (53, -1074, Fraction(2) ** 1024)
F32 = (24, -149, Fraction(2) ** 128)


def bits64(x):
    return "nan" if x != x else struct.pack(">d", x).hex()


def bits32(x):
    return "nan" if x != x else struct.pack(">f", x).hex()


def floor_log2(x):
    e = x.numerator.bit_length() - x.denominator.bit_length()
    while Fraction(2) ** e > x:
        e -= 1
    while Fraction(2) ** (e + 1) <= x:
        e += 1
    return e


def round_fraction(x, fmt):
    """The nearest value of the format as a double, ties to even."""
    precision, lowest, limit = fmt
    if x == 0:
        return 0.0
    sign, x = (-1, -x) if x < 0 else (1, x)
    unit = Fraction(2) ** max(floor_log2(x) - precision + 1, lowest)
    y = round(x / unit) * unit  # Python rounds ties to even
    return sign * (float("inf") if y >= limit else float(y))


def round_root(x, fmt):
    """The nearest value to sqrt(x): the root is never a tie unless x is an exact square."""
    if x == 0:
        return 0.0
    shift = 2 * (400 + abs(floor_log2(x)))
    scaled = x * Fraction(2) ** shift
    whole = scaled.numerator // scaled.denominator
    root = isqrt(whole)
    exact = root * root == whole and scaled.denominator == 1
    return round_fraction(Fraction(2 * root + (0 if exact else 1), 2) / Fraction(2) ** (shift // 2), fmt)


def both(x, rounder=round_fraction):
    return bits64(rounder(x, F64)) + " " + bits32(rounder(x, F32))


def special(values):
    if any(v != v for v in values):
        return float("nan")
    up, down = float("inf") in values, float("-inf") in values
    if up and down:
        return float("nan")
    return float("inf") if up else float("-inf") if down else None


def print_spread(values, exact):
    n = len(exact)
    for ddof in (0, 1):
        if values is not None and special(values) is not None or n - ddof <= 0:
            print(f"var{ddof} nan nan")
            print(f"std{ddof} nan nan")
            continue
        mean = sum(exact) / n
        var = sum((x - mean) ** 2 for x in exact) / (n - ddof)
        print(f"var{ddof}", both(var))
        print(f"std{ddof}", both(var, round_root))


def emit(values):
    for i in range(0, len(values), 5):
        print("v", *(bits64(v) for v in values[i:i + 5]))
    s = special(values)
    if s is not None:
        print("sum", bits64(s), bits32(s))
        print("mean", bits64(s), bits32(s))
        print_spread(values, [None] * len(values))
        print("end")
        return
    exact = [Fraction(v) for v in values]
    total = sum(exact, Fraction(0))
    only_negative_zero = values and all(bits64(v) == "8000000000000000" for v in values)
    if total == 0:
        zero = -0.0 if only_negative_zero else 0.0
        print("sum", bits64(zero), bits32(zero))
        print("mean", *((bits64(zero), bits32(zero)) if values else ("nan", "nan")))
    else:
        print("sum", both(total))
        print("mean", both(total / len(values)))
    print_spread(values, exact)
    print("end")


def emit_ints(values):
    for i in range(0, len(values), 5):
        print("i", *values[i:i + 5])
    exact = [Fraction(v) for v in values]
    print("mean", both(sum(exact) / len(values)) if values else "nan nan")
    print_spread(None, exact)
    print("end")


def from_bits(b):
    return struct.unpack(">d", struct.pack(">Q", b))[0]


def any_finite(rng):
    while True:
        v = from_bits(rng.getrandbits(64))
        if v - v == 0:
            return v


def halfway(rng):
    """Values whose sum or mean falls on, or next to, the middle between two results."""
    p = rng.choice((53, 24))
    m = rng.getrandbits(p) | 1 << (p - 1)
    e = rng.randint(-60, 60)
    tail = rng.choice((0.0, 5e-324, -5e-324, 1e-300, -1e-300))
    big = [float(m) * 2.0 ** e, 2.0 ** (e - 1), tail]
    if rng.random() < 0.5:
        big += [1e300, -1e300]
    rng.shuffle(big)
    return big


def cases():
    rng = random.Random(20240611)
    inf, nan, tiny, huge = float("inf"), float("nan"), 5e-324, 1.7976931348623157e308
    fixed = [
        [], [0.0], [-0.0], [-0.0] * 3, [-0.0, 0.0], [1.0, -1.0], [-1.0, 1.0, -0.0], [tiny], [-tiny],
        [tiny] * 3, [tiny, -tiny], [tiny, 0.0], [-tiny, 0.0, 0.0], [2.2250738585072014e-308, -tiny],
        [inf], [-inf], [inf, -inf], [nan], [nan, inf], [1.0, inf, huge, huge], [huge, huge], [-huge, -huge],
        [huge, huge, -huge], [huge, 2.0 ** 970], [huge, 2.0 ** 969], [huge, 2.0 ** 970, -tiny],
        [3.4028234663852886e38, 2.0 ** 103], [3.4028234663852886e38, 2.0 ** 103, -tiny],
        [2.0 ** -150], [2.0 ** -150, tiny], [2.0 ** -150, 2.0 ** -149], [1.0, 2.0 ** -24],
        [1.0, 2.0 ** -24, tiny], [1.0, 2.0 ** -53], [1.0, 2.0 ** -53, tiny], [1e16, 1.0, -1e16], [0.1] * 10,
        [0.1] * 11, [1e308, 1.0, -1e308], [3.0, 3.0, 3.0], [huge] * 4, [huge, -huge, 1.0, 2.0],
        [1.0, 1.0 + 2.0 ** -52], [1e150, 1e-150], [1e-170, 2e-170, 4e-170], [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0],
    ]
    for values in fixed:
        emit(values)
    for _ in range(120):
        emit(halfway(rng))
    for _ in range(60):
        emit([any_finite(rng) for _ in range(rng.randint(1, 12))])
    for _ in range(60):
        k = rng.randint(1, 8)
        some = [any_finite(rng) for _ in range(k)]
        values = some + [-v for v in some] + [rng.choice((tiny, -tiny, 1.0, -3.5e-310, 0.0, -0.0))]
        rng.shuffle(values)
        emit(values)
    for _ in range(60):
        scale = 2.0 ** rng.randint(-540, 540)
        emit([scale * rng.gauss(rng.choice((0, 1, 1e8)), 1) for _ in range(rng.randint(1, 15))])
    for values in [[], [0], [-1], [1, 2], [2**63 - 1] * 3, [-2**63] * 3, [-2**63, 2**63 - 1]]:
        emit_ints(values)
    for _ in range(40):
        top = 2 ** rng.randint(1, 63)
        emit_ints([rng.randint(-top, top - 1) for _ in range(rng.randint(1, 12))])


print("# Written by make_exact.py: rational arithmetic, rounded once.")
cases()
