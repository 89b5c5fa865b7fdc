#!/usr/bin/env python3
"""Writes elementwise.txt: functions of one and two numbers to 60 digits, rounded once to f64. Needs mpmath.

Run it in this folder: python3 make_elementwise.py > elementwise.txt
A line is: name, operands and result as the 16 hexadecimal digits of their bits (a function of one number
has 0 as its second), what rounding cut off, and the exponent of the ULP that errors are measured in: that
of the result, or of the largest term where docs/NUMERICS.md says so.
"""
import math
import random
import struct

import mpmath as mp

mp.mp.dps = 60
LINES = 50


def bits(x):
    return struct.pack(">d", x).hex()


def line(name, x, y, exact, largest=None):
    near = float(exact)
    unit = max(math.frexp(float(exact if largest is None else largest))[1] - 53, -1074)
    print(name, bits(x), bits(y), bits(near), "%.3e" % float(exact - mp.mpf(near)), unit)


def gelu(x):
    return x * mp.erfc(-x / mp.sqrt(2)) / 2


def erfinv(x):
    """Newton's steps on the logarithm of what is left of 1."""
    rest, y = 1 - abs(x), mp.sqrt(max(-mp.log(1 - x * x), mp.mpf(10) ** -30))
    if abs(x) < 0.7:
        return mp.findroot(lambda v: mp.erf(v) - x, x * mp.mpf("0.9"))
    for _ in range(200):
        step = (mp.log(mp.erfc(y)) - mp.log(rest)) * mp.erfc(y) * mp.exp(y * y) * mp.sqrt(mp.pi) / 2
        y += step
        if abs(step) < mp.mpf(10) ** -50:
            break
    return y if x > 0 else -y


ONE = {
    "cbrt": lambda x: mp.cbrt(x) if x > 0 else -mp.cbrt(-x), "asin": mp.asin, "acos": mp.acos, "atan": mp.atan,
    "sinh": mp.sinh, "cosh": mp.cosh, "erf": mp.erf, "erfc": mp.erfc, "erfinv": erfinv,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)), "gelu": gelu,
}


def draw(rng, name):
    sign = rng.choice((-1, 1))
    if name in ("asin", "acos", "erfinv"):
        return sign * rng.choice((2.0 ** -rng.uniform(0.01, 40), 1 - 2.0 ** -rng.uniform(1, 50), rng.uniform(0, 1)))
    if name in ("cbrt", "atan"):
        return sign * rng.choice((2.0 ** rng.uniform(-1070, 1020), 2.0 ** rng.uniform(-5, 5)))
    if name in ("erf", "erfc"):
        return sign * rng.choice((rng.uniform(0, 6), rng.uniform(0, 26 if name == "erfc" else 6), 2.0 ** -rng.uniform(0, 40)))
    if name == "gelu":
        return sign * rng.choice((rng.uniform(0, 6), rng.uniform(0, 37), 2.0 ** -rng.uniform(0, 40)))
    return sign * rng.choice((rng.uniform(0, 700), rng.uniform(0, 5), 2.0 ** -rng.uniform(0, 40)))


def lgamma(x):
    v = mp.mpf(x)
    exact = mp.re(mp.loggamma(v))
    if x > 0:
        line("lgamma", x, 0.0, exact)
    else:
        terms = (mp.log(mp.pi), mp.re(mp.loggamma(1 - v)), mp.log(abs(mp.sinpi(v))))
        line("lgamma", x, 0.0, exact, max(abs(t) for t in terms))


def main():
    rng = random.Random(8)
    for _ in range(LINES):
        for name, function in ONE.items():
            x = draw(rng, name)
            line(name, x, 0.0, function(mp.mpf(x)))
        lgamma(rng.choice((2.0 ** rng.uniform(-300, 900), rng.uniform(0, 12), 1 + 2.0 ** -rng.uniform(1, 50),
                           2 - 2.0 ** -rng.uniform(1, 50))))
        lgamma(-rng.choice((2.0 ** rng.uniform(-300, 40) + 0.3, rng.uniform(0, 12), 2.45702473822080, 2.0 ** -rng.uniform(1, 1070))))
        size = 2.0 ** rng.choice((rng.uniform(-990, 990), rng.uniform(-3, 3)))
        x, y = (rng.choice((-1, 1)) * size * 2.0 ** rng.uniform(-30, 2) for _ in range(2))
        line("hypot", x, y, mp.hypot(x, y))
        line("atan2", x, y, mp.atan2(x, y))
        x, y = rng.uniform(-700, 700), rng.uniform(-40, 40)
        y = rng.choice((y, x + y))
        exact, high = mp.log(mp.exp(mp.mpf(x)) + mp.exp(mp.mpf(y))), mp.mpf(max(x, y))
        line("logaddexp", x, y, exact, max(abs(exact), abs(high)))


if __name__ == "__main__":
    main()
