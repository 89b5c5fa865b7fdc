#!/usr/bin/env python3
"""Writes src/kernel/tile/formula_f32_tables.h: polynomials that the functions of f32 are made of.

  scripts/formulas.py > src/kernel/tile/formula_f32_tables.h

Each is the polynomial of its degree whose largest error is least, where an error counts as much as it shows in
the function's result. Coefficients are rounded to f32 one by one, from the constant one on, and those left are
found anew each time, so that they mend what rounding did. Needs numpy and mpmath.
"""

import sys

import mpmath as mp
import numpy as np

mp.mp.dps = 50

POINTS = 500  # where errors are looked at
ROUNDS = 60   # of weighing them anew


def least_largest(powers, goal, weight):
    """Coefficients whose largest weighted error is least: Lawson's method."""
    share = np.full(len(goal), 1 / len(goal))
    best, least = None, np.inf
    for _ in range(ROUNDS):
        scale = np.sqrt(share) * weight
        found = np.linalg.lstsq(powers * scale[:, None], goal * scale, rcond=None)[0]
        error = np.abs((powers @ found - goal) * weight)
        if error.max() < least:
            best, least = found, error.max()
        share = share * error
        if share.sum() == 0:
            break
        share /= share.sum()
    return best


def polynomial(name, what, function, low, high, count, weight):
    """Prints `count` coefficients of `function` between `low` and `high`, the highest first."""
    middle, half = (low + high) / 2, (high - low) / 2
    x = middle + half * np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    goal = np.array([float(function(mp.mpf(float(v)))) for v in x])
    scale = np.array([float(weight(mp.mpf(float(v)))) for v in x])
    powers = x[:, None] ** np.arange(count)
    fixed = np.zeros(count)
    for i in range(count):
        rest = goal - powers[:, :i] @ fixed[:i]
        fixed[i] = np.float32(least_largest(powers[:, i:], rest, scale)[0])
    error = np.abs((powers @ fixed - goal) * scale).max()
    print(f"{name}: {count} coefficients, 2^{np.log2(error):.1f}", file=sys.stderr)
    print(f"/* {what} */\nstatic const float {name}[] = {{")
    cells = [hexadecimal(c) + "," for c in fixed[::-1]]
    for at in range(0, count, 4):
        print("  " + " ".join(cells[at:at + 4]))
    print("};\n")


def hexadecimal(value):
    """A float as C spells it."""
    digits, exponent = float(np.float32(value)).hex().split("p")
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    if "." not in digits:
        digits += ".0"
    return f"{digits}p{exponent}f"


def parts(name, value, count, down=False):
    """Prints a number as a sum of floats, each what those before it lack; `down`: none too large."""
    names = ["HIGH", "LOW", "LAST"]
    for i in range(count):
        part = np.float32(float(value))
        if down and mp.mpf(float(part)) > value:
            part = np.nextafter(part, np.float32(-np.inf))
        print(f"#define {name}_{names[i]} {hexadecimal(part)}")
        value -= mp.mpf(float(part))


def tail(function, x, *terms):
    """(function(x) - terms[0] - terms[1] x - ...) / x^n, without cancellation near 0."""
    if abs(x) < mp.mpf(10) ** -6:
        series = mp.taylor(function, 0, len(terms) + 6)
        return sum(c * x ** i for i, c in enumerate(series[len(terms):]))
    rest = function(x) - sum(t * x ** i for i, t in enumerate(terms))
    return rest / x ** len(terms)


def even(function, z, *terms):
    """The same of an odd function's quotient by x, in z = x^2: its terms are those of x, x^3 ..."""
    x = mp.sqrt(abs(z)) if z else mp.mpf(0)
    if x < mp.mpf(10) ** -5:
        series = mp.taylor(function, 0, 2 * len(terms) + 8)
        return sum(c * z ** i for i, c in enumerate(series[2 * len(terms) + 1::2]))
    rest = function(x) / x - sum(t * z ** i for i, t in enumerate(terms))
    return rest / z ** len(terms)


def main():
    print("/* Polynomials and numbers of the functions of f32. Written by scripts/formulas.py. */\n"
          "#ifndef TSR_KERNEL_FORMULA_F32_TABLES_H\n#define TSR_KERNEL_FORMULA_F32_TABLES_H\n\n"
          "/* clang-format off */")
    log2e = 1 / mp.log(2)
    parts("LN2", mp.log(2), 2)
    parts("LOG2_E", log2e, 2)
    parts("LOG10_E", 1 / mp.log(10), 2)
    parts("LOG10_2", mp.log10(2), 2)
    parts("THIRD", mp.mpf(1) / 3, 2)
    parts("FIFTH", mp.mpf(1) / 5, 2)
    parts("HALF_PI", mp.pi / 2, 3, down=True)
    print()
    r = float(mp.log(2)) / 2 * 1.002
    polynomial("exp_tail", "(exp r - 1 - r) / r^2", lambda x: tail(mp.exp, x, 1, 1), -r, r, 5,
               lambda x: x ** 2 / mp.exp(x))
    polynomial("expm1_tail", "the same, where 1 is taken off again",
               lambda x: tail(mp.exp, x, 1, 1), -r, r, 6, lambda x: abs(x))
    polynomial("exp2_tail", "(2^r - 1) / r", lambda x: tail(lambda v: mp.mpf(2) ** v, x, 1),
               -0.501, 0.501, 6, lambda x: abs(x) / mp.mpf(2) ** x)
    root = float(mp.sqrt(2))
    polynomial("log_tail", "(log(1 + f) - f + f^2 / 2) / f^3",
               lambda x: tail(lambda v: mp.log(1 + v), x, 0, 1, mp.mpf(-0.5)),
               root / 2 - 1, root - 1, 8, lambda x: x ** 2)
    quarter = float(mp.pi / 4) * 1.02
    polynomial("sin_tail", "(sin r - r) / r^3 in r^2", lambda z: even(mp.sin, z, 1),
               0, quarter ** 2, 4, lambda z: z)
    polynomial("cos_tail", "(cos r - 1 + r^2 / 2) / r^4 in r^2",
               lambda z: even(lambda v: v * mp.cos(v), z, 1, mp.mpf(-0.5)),
               0, quarter ** 2, 3, lambda z: z ** 2)
    polynomial("erf_tail", "erf x / x - 1 in x^2", lambda z: even(mp.erf, z) - 1, 0, 1.0, 7,
               lambda z: 1)
    polynomial("erfc_rest", "(1 + 2 x) exp(x^2) erfc x in (x - 4) / (x + 4)", scaled_erfc,
               -0.795, 0.48, 12, lambda t: 1)
    polynomial("erfinv_near", "erfinv x / x in -log(1 - x^2) - 2.5",
               lambda t: erfinv_ratio(t + mp.mpf(2.5)), -2.5, 2.5, 10,
               lambda t: 1 / erfinv_ratio(t + mp.mpf(2.5)))
    polynomial("erfinv_far", "the same in sqrt(-log(1 - x^2)) - 3",
               lambda t: erfinv_ratio((t + 3) ** 2), float(mp.sqrt(5)) - 3.001, 1.02, 9,
               lambda t: 1 / erfinv_ratio((t + 3) ** 2))
    polynomial("atan_tail", "(atan s - s) / s^3 in s^2", lambda z: even(mp.atan, z, 1), 0, 1.0, 9,
               lambda z: z)
    polynomial("asin_tail", "(asin s - s) / s^3 in s^2", lambda z: even(mp.asin, z, 1), 0, 0.25, 5,
               lambda z: z)
    polynomial("sinh_tail", "(sinh x - x) / x^3 in x^2", lambda z: even(mp.sinh, z, 1), 0, 1.0, 4,
               lambda z: z)
    polynomial("cbrt_guess", "m^(1/3)", mp.cbrt, root / 2, root, 4, lambda m: 1)
    polynomial("atanh_tail5", "(atanh s / s - 1 - z/3 - z^2/5) / z^3 in z = s^2",
               lambda z: even(mp.atanh, z, 1, mp.mpf(1) / 3, mp.mpf(1) / 5), 0, 0.0296, 2,
               lambda z: 2 ** 12 * z ** 3)
    polynomial("exp_tail3", "(exp v - 1 - v - v^2/2) / v^3",
               lambda x: tail(mp.exp, x, 1, 1, mp.mpf(0.5)), -r, r, 5, lambda x: abs(x) ** 3)
    print("/* clang-format on */\n\n#endif")


def scaled_erfc(t):
    x = 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def erfinv_ratio(w):
    """erfinv x / x where w = -log(1 - x^2)."""
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x if w > mp.mpf(10) ** -20 else mp.sqrt(mp.pi) / 2


main()
