#!/usr/bin/env python3
"""Writes tests/golden/shortest.txt: numbers and their shortest texts by Python and NumPy.

  tests/golden/make_shortest.py > tests/golden/shortest.txt

A line is "f64 BITS TEXT" or "f32 BITS TEXT". Both libraries write the shortest digits that read back, of
those the nearest; here they are laid out as Tessera does, up to 1e16 without an exponent.
"""

import math
import random
import struct

import numpy

random.seed(7)


def lay_out(value, digits):
    """The digits of "d.ddde+xx" as text."""
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    mantissa, exponent = digits.split("e")
    sign, mantissa, exponent = "-" * mantissa.startswith("-"), mantissa.lstrip("-"), int(exponent)
    plain = mantissa.replace(".", "").rstrip("0")
    if exponent < -4 or exponent >= 16:
        return f"{sign}{plain[0]}{'.' * (len(plain) > 1)}{plain[1:]}e{exponent:+03d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{plain}"
    whole = plain[:exponent + 1].ljust(exponent + 1, "0")
    return sign + whole + "." * (len(plain) > exponent + 1) + plain[exponent + 1:]


def doubles():
    """Numbers of every size, borders between exponents and their neighbours, short decimals."""
    for exponent in range(-1074, 1024, 23):
        edge = math.ldexp(1.0, exponent)
        yield from (edge, math.nextafter(edge, 0), math.nextafter(edge, math.inf))
    for power in range(-323, 309, 7):
        yield from (float(f"1e{power}"), -float(f"9e{power - 1}") if power > -323 else 5e-324)
    for _ in range(600):
        yield struct.unpack("<d", struct.pack("<Q", random.getrandbits(64)))[0]
        yield random.randrange(-10 ** 9, 10 ** 9) / 10 ** random.randrange(1, 12)
        yield random.random() * 10 ** random.randrange(-6, 20)


def floats():
    """The same for floats."""
    for exponent in range(-149, 128, 5):
        edge = numpy.float32(math.ldexp(1.0, exponent))
        yield from (edge, numpy.nextafter(edge, numpy.float32(0)),
                    numpy.nextafter(edge, numpy.float32(math.inf)))
    for _ in range(500):
        yield numpy.frombuffer(struct.pack("<I", random.getrandbits(32)), numpy.float32)[0]
        yield numpy.float32(random.randrange(-10 ** 6, 10 ** 6) / 10 ** random.randrange(1, 8))
        yield numpy.float32(random.randrange(-10 ** 6, 10 ** 6) * 10 ** random.randrange(0, 10))
    for whole in (2 ** 24 - 1, 2 ** 24, 2 ** 24 + 2, 123456789, 10 ** 10, 2 ** 31, 2 ** 53, 10 ** 15):
        yield numpy.float32(whole)


for number in doubles():
    if math.isfinite(number):
        shortest = numpy.format_float_scientific(number, unique=True, trim="-")
        assert float(shortest) == number == float(repr(number))
        text = lay_out(number, shortest)
        if "e" in repr(number) or "." in text:
            assert text == repr(number), (text, repr(number))
        print(f"f64 {struct.unpack('<Q', struct.pack('<d', number))[0]:016x} {text}")
for number in floats():
    if math.isfinite(number):
        shortest = numpy.format_float_scientific(number, unique=True, trim="-")
        print(f"f32 {struct.unpack('<I', struct.pack('<f', number))[0]:08x} "
              f"{lay_out(float(number), shortest)}")
