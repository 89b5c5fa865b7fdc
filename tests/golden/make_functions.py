#!/usr/bin/env python3
"""Writes functions.txt: exp, log and log1p to 60 digits (decimal), log2, log10, tanh, sin, cos and tan
to as many (mpmath), rounded once to f64, and Philox4x32-10 blocks by a direct reading of the paper (and
its published known answers). Needs mpmath.

Run it in this folder: python3 make_functions.py > functions.txt
Values are the 16 hexadecimal digits of their bits; beside each result stands the part of a ULP that
rounding cut off, so that a test can measure errors in ULP.
"""
import math
import random
import struct
from decimal import Decimal, getcontext

import mpmath

getcontext().prec = 60
getcontext().Emax = 10 ** 6
getcontext().Emin = -10 ** 6


def bits(x):
    return struct.pack(">d", x).hex()


def rounded(exact):
    """The nearest double, and (exact - nearest) in ULP of it."""
    near = float(exact)
    if math.isinf(near):
        return near, 0.0
    ulp = math.ulp(near)
    return near, float((exact - Decimal(near)) / Decimal(ulp))


def line(name, x, exact):
    near, cut = rounded(exact)
    print(name, bits(x), bits(near), "%.4f" % cut)


def exp(x):
    return Decimal(x).exp()


def log(x):
    return Decimal(x).ln()


def log1p(x):
    d = Decimal(x)
    if abs(x) < 1e-25:
        return d - d * d / 2
    return (1 + d).ln()


def other(name, x):
    """By mpmath: the digits of large angles need pi to some 400."""
    with mpmath.workdps(420 if name in ("sin", "cos", "tan") else 80):
        value = {"log2": lambda v: mpmath.log(v, 2)}.get(name, getattr(mpmath, name, None))(mpmath.mpf(x))
        text = mpmath.nstr(value, 60)
    return Decimal(text)


def others():
    rng = random.Random(6)
    for _ in range(1000):
        for name in ("log2", "log10"):
            x = rng.choice((2.0 ** rng.uniform(-1074, 1023.9), rng.uniform(0.5, 2), rng.uniform(0.9, 1.1)))
            line(name, x, other(name, x))
        x = rng.choice((-1, 1)) * rng.choice((2.0 ** rng.uniform(-40, 5), rng.uniform(0.3, 3)))
        line("tanh", x, other("tanh", x))
        for name in ("sin", "cos", "tan"):
            x = rng.choice((-1, 1)) * rng.choice((rng.uniform(0, 7), 2.0 ** rng.uniform(-30, 21), rng.randrange(
                1, 600000) * (math.pi / 2), 2.0 ** rng.uniform(19.9, 1023.9)))
            line(name, x, other(name, x))
    for k in (1, 2, 3, 10, 100, 1000):
        line("log2", 2.0 ** k, Decimal(k))
        line("log2", 2.0 ** -k, Decimal(-k))
    for k in range(1, 23):
        line("log10", float(10 ** k), Decimal(k))
    # doubles very near to whole quarters of a turn
    for x in (math.pi / 2, math.pi, 3 * math.pi / 2, 5.319372648326541e255, 6381956970095103 * 2.0 ** 797,
              1e22, 1048575.9999999999, 1048576.0, 1.7976931348623157e308, 0.7853981633974483):
        for name in ("sin", "cos", "tan"):
            line(name, x, other(name, x))


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


def main():
    rng = random.Random(5)
    for _ in range(900):
        x = rng.uniform(-745, 709.7)
        line("exp", x, exp(x))
        x = rng.choice((-1, 1)) * 2.0 ** rng.uniform(-60, 9.4)
        line("exp", x, exp(x))
        x = 2.0 ** rng.uniform(-1074, 1023.9)
        line("log", x, log(x))
        x = rng.uniform(0.5, 2)
        line("log", x, log(x))
        x = 2.0 ** rng.uniform(-1000, 1023)
        line("log1p", x, log1p(x))
        x = rng.uniform(-0.999999, 2)
        line("log1p", x, log1p(x))
        x = -(2.0 ** -rng.uniform(0.001, 60))
        line("log1p", x, log1p(x))
    for x in (5e-324, 2.0 ** -1022, 0.7071067811865475, 0.7071067811865476, 1.4142135623730951, 2.0,
              1 - 2.0 ** -53, 1 + 2.0 ** -52, 1.7976931348623157e308):
        line("log", x, log(x))
    for x in (-744.4, -745.1, -708.4, -708.39, 709.78, 5e-324, -5e-324, 0.5, 1.0, -1.0):
        line("exp", x, exp(x))
    for x in (5e-324, -5e-324, -0.29, 0.41, -0.2928932, 0.41421356, 1.0, -1 + 2.0 ** -53):
        line("log1p", x, log1p(x))
    others()
    for counter, key, words in KNOWN:
        assert philox(counter, key) == list(words)
    for counter, key in [(c, k) for c, k, _ in KNOWN] + [
            (tuple(rng.getrandbits(32) for _ in range(4)), tuple(rng.getrandbits(32) for _ in range(2)))
            for _ in range(40)]:
        w = philox(counter, key)
        first, stream, seed = (counter[0] | counter[1] << 32, counter[2] | counter[3] << 32,
                               key[0] | key[1] << 32)
        f64 = ((w[0] | w[1] << 32) >> 11) * 2.0 ** -53
        f32 = (w[0] >> 8) * 2.0 ** -24
        print("philox %016x %016x %016x" % (first, stream, seed), bits(f64), bits(f32))


if __name__ == "__main__":
    main()
