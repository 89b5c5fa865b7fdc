#!/usr/bin/env python3
"""Writes correlations.csv, integers of 64 bits that span more than 2^53 beside floats, and what their
correlations and spreads are by group and in all, by exact arithmetic.

Run it in this folder: python3 make_correlations.py > correlations.txt
A line a group, the last of all rows: its key (-1: all), corr(x, y), corr(u, y), corr(x, u), corr(w, x),
var(x), std(x), var(u), std(u), as the 16 hexadecimal digits of their bits; any NaN is "nan".
"""
import random
import struct
from decimal import Decimal, getcontext
from fractions import Fraction

getcontext().prec = 80


def rows():
    """x: i64, each group far from the others; u: u64 likewise; y: floats of a few binades; w: of many."""
    rng = random.Random(20)
    middles = [-2**63 + 10**6, -2**62, -1, 2**53 + 1, 2**62, 2**63 - 10**6]
    for i in range(240):
        g = i % 6
        spread = (40, 3, 10**5, 1, 7, 10**6 - 1)[g]
        yield {
            "g": g,
            "x": middles[g] + rng.randint(-spread, spread),
            "u": middles[-1 - g] + 2**63 + rng.randint(-spread, spread),
            "y": None if i % 17 == 5 else rng.randint(-10**6, 10**6) / 1024,
            "w": rng.uniform(-1, 1) * 10.0 ** rng.randint(-80, 80),
        }


def bits(x):
    return struct.pack(">d", x).hex()


def rounded_root(value):
    """The square root of a rational, rounded once: 80 digits are far more than a tie could hide in."""
    return float((Decimal(value.numerator) / Decimal(value.denominator)).sqrt())


def comoment(a, b):
    n = len(a)
    return n * sum(p * q for p, q in zip(a, b)) - sum(a) * sum(b)


def corr(some, one, other):
    pairs = [(Fraction(r[one]), Fraction(r[other])) for r in some
             if r[one] is not None and r[other] is not None]
    a, b = [p for p, _ in pairs], [q for _, q in pairs]
    square = comoment(a, a) * comoment(b, b)
    if not square:
        return "nan"
    c = comoment(a, b)
    root = rounded_root(c * c / square)
    return bits(root if c > 0 else -root)


def spread(some, name):
    values = [Fraction(r[name]) for r in some]
    exact = comoment(values, values) / (len(values) * (len(values) - 1))
    return bits(float(exact)) + " " + bits(rounded_root(exact))


def main():
    table = list(rows())
    with open("correlations.csv", "w") as out:
        out.write("g,x,u,y,w\n")
        for r in table:
            out.write(",".join("" if r[c] is None else repr(r[c]) for c in ("g", "x", "u", "y", "w")) + "\n")
    for g in range(7):
        some = [r for r in table if g in (r["g"], 6)]
        print(g if g < 6 else -1, corr(some, "x", "y"), corr(some, "u", "y"), corr(some, "x", "u"),
              corr(some, "w", "x"), spread(some, "x"), spread(some, "u"))


if __name__ == "__main__":
    main()
