#!/usr/bin/env python3
"""Makes decimal.txt, csv_cases.txt and csv_weather.txt: what Python's csv module, float() and
datetime say about texts that are hard to read. Run it in this folder; it needs nothing else.

decimal.txt      TEXT KIND BITS, the bits of the double in hex; KIND int, big or float
csv_cases.txt    files in hex, and for each column its type and values
csv_weather.txt  the columns of examples/data/weather.csv: type, nulls, first, last, checksum
"""
import csv
import datetime
import io
import os
import random
import re
import struct
from fractions import Fraction

HERE = os.path.dirname(os.path.abspath(__file__))
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WORDS = {"inf": "inf", "infinity": "inf", "nan": "nan"}
DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
    r"(Z|[+-]\d{2}:\d{2})?", re.ASCII)


def bits(value):
    return "%016x" % struct.unpack("<Q", struct.pack("<d", value))[0]


# ---- one value ----------------------------------------------------------------------------


def classify(text):
    """The class of a text and its value, by the table of src/io/csv/csv.h."""
    text = text.strip(" \t")
    if text in ("", "NA"):
        return "null", None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return "bool", text.lower() == "true"
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        value = int(text)
        if len(text.lstrip("+-")) > 1 and text.lstrip("+-")[0] == "0":
            return "code", value
        return ("int" if -(2**63) <= value < 2**63 else "big"), value
    if NUMBER.fullmatch(text) or text.lstrip("+-").lower() in WORDS and text.count("+") + \
            text.count("-") <= 1:
        return "float", float(text)
    if DATE.fullmatch(text):
        try:
            day = datetime.date.fromisoformat(text)
            return "date", (day - EPOCH.date()).days
        except ValueError:
            return "text", None
    match = TIME.fullmatch(text)
    return ("time", stamp(match)) if match and stamp(match) is not None else ("text", None)


def stamp(match):
    day, hour, minute, second, fraction, zone = match.groups()
    fraction = (fraction or "").ljust(9, "0")
    if fraction[6:] != "000":
        return None
    try:
        at = datetime.datetime.fromisoformat(day).replace(
            hour=int(hour), minute=int(minute), second=int(second or 0),
            microsecond=int(fraction[:6]), tzinfo=datetime.timezone.utc)
    except ValueError:
        return None
    east = 0
    if zone and zone != "Z":
        if int(zone[1:3]) > 23 or int(zone[4:]) > 59:
            return None
        east = (int(zone[1:3]) * 60 + int(zone[4:])) * (-1 if zone[0] == "-" else 1)
    return (at - EPOCH) // datetime.timedelta(microseconds=1) - east * 60 * 10**6


def column_type(classes):
    if not classes:
        return "text"
    classes = classes - {"null"}
    if not classes:
        return "f64"
    if classes == {"bool"}:
        return "bool"
    if "code" in classes:
        return "text"
    if classes == {"int"}:
        return "i64"
    if "float" in classes and classes <= {"int", "big", "float"}:
        return "f64"
    if classes == {"date"}:
        return "date"
    if "time" in classes and classes <= {"date", "time"}:
        return "time"
    return "text"


def column_values(kind, texts):
    for text in texts:
        if kind == "text":
            yield "t:" + text.encode().hex()
            continue
        which, value = classify(text)
        if which == "null":
            yield "-"
        elif kind == "f64":
            yield "f:" + bits(float(value))
        elif kind == "time":
            yield "i:%d" % (value * 86400 * 10**6 if which == "date" else value)
        else:
            yield "i:%d" % value


def read(data):
    """Header and columns of a file's bytes."""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    while not rows[0]:
        rows.pop(0)
    header = rows.pop(0)
    names = [name or "column_%d" % (i + 1) for i, name in enumerate(header)]
    if len(header) > 1:
        rows = [row for row in rows if row]
    rows = [row or [""] for row in rows]
    assert all(len(row) == len(header) for row in rows), data
    return names, [[row[c] for row in rows] for c in range(len(names))], len(rows)


# ---- decimal.txt -----------------------------------------------------------------------------


def decimals():
    rng = random.Random(1)
    texts = """0 -0 0.0 -0.0 +5 007 1. .5 -.5e1 1e5 1E+5 1e-5 123456789 12345678 1234567.8 0.1 0.2
        0.3
        9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809
        00000000000000000000000000000000009223372036854775807 18446744073709551616
        9007199254740992 9007199254740993 9007199254740993.0 9007199254740992.9 9007199254740993.1
        4503599627370497.5 4503599627370496.5 4503599627370497.4999999999999999999999999999999999
        10.357019999999999 39.02 1e22 1e23 1e-22 1e-23 123e22 8.5e-300 1.7976931348623157e308
        1.7976931348623158e308 1.7976931348623159e308 1.8e308 1e309 -1e400 1e999999999999
        1e-999999999999
        0e999999999999 4.9e-324 2.4703282292062327e-324 2.4703282292062328e-324 2.5e-324 1e-400
        2.2250738585072014e-308 2.2250738585072011e-308 2.225073858507201e-308 6.62607015e-34
        1e-5000 0.000000000000000000000000000000000000000000000000000001 100000000000000000000000.5
        7.2057594037927933e16 72057594037927933 5e-324 3e-324 89255e-22 1.0e+00005""".split()
    texts += ["0." + "0" * 400 + "1234567890123456789012345", "1" + "0" * 400, "1" * 400 + "e-400",
              "0." + "3" * 400, "9" * 19, "9" * 20 + ".0", "1" * 19 + "." + "1" * 400]
    # Borders between doubles, and their nearest neighbours, with all their digits.
    for _ in range(40):
        value = struct.unpack("<d", struct.pack("<Q", rng.getrandbits(63) % 0x7fe0000000000000))[0]
        texts.append(repr(value))
        texts += [exact_half(value, 0), exact_half(value, 1), exact_half(value, -1)]
    for _ in range(300):
        digits = rng.randrange(1, 25)
        text = str(rng.randrange(10**digits))
        point = rng.randrange(len(text) + 1)
        text = text[:point] + "." + text[point:] if rng.random() < 0.7 else text
        if rng.random() < 0.5 or text == ".":
            text += ("0" if text == "." else "") + "e%d" % rng.randrange(-330, 330)
        texts.append(text)
    for text in texts:
        kind, value = classify(text)
        if kind == "code":  # of a text alone: its zeros are those of a column's value
            kind, value = classify(str(value))
        yield "%s %s %s" % (text, kind, bits(float(text)))


def exact_half(value, beside):
    """The decimal text of the border between a double and the next one, or just beside it."""
    as_int = struct.unpack("<q", struct.pack("<d", value))[0]
    after = struct.unpack("<d", struct.pack("<q", as_int + 1))[0]
    border = (Fraction(value) + Fraction(after)) / 2
    scale = border.denominator.bit_length() - 1  # the denominator is a power of two
    digits, scale = border.numerator * 5**scale * 10**25 + beside, scale + 25
    digits = str(digits).rjust(scale + 1, "0")
    return digits[:len(digits) - scale] + "." + digits[len(digits) - scale:]


# ---- csv_cases.txt -----------------------------------------------------------------------------

def short_float(seed):
    """Up to nine digits before the point and behind it, all lengths."""
    rng = random.Random(seed)
    before, after = rng.randrange(10), rng.randrange(10)
    text = "".join(rng.choice("0123456789") for _ in range(before)) or "0"
    return rng.choice(["", "", "-"]) + text + "." + str(rng.randrange(10**after)).rjust(after, "9")


CASES = [
    ("plain", "a,b\n1,x\n2,y\n"),
    ("no_last_newline", "a,b\n1,x\n2,y"),
    ("crlf", "a,b\r\n1,x\r\n2,y\r\n"),
    ("crlf_cut", "a,b\r\n1,x\r\n2,y"),
    ("cr_only", "a,b\r1,x\r2,\"y\rz\"\r"),
    ("mixed_ends", "a,b\n1,x\r\n2,y\n3,z\r\n"),
    ("mark", "\ufeffa,b\n1,x\n"),
    ("mark_quoted", "\ufeff\"a\",b\n1,x\n"),
    ("header_only", "a,b,c\n"),
    ("header_only_cut", "a,b,c"),
    ("one_column", "a\n1\n\n3\n"),
    ("one_column_cut", "a\n1\n\n3"),
    ("one_column_text", "a\nx\n\n\"\"\nNA\n"),
    ("one_column_crlf", "a\r\n1\r\n\r\n3\r\n"),
    ("blank_lines", "\n\na,b\n\n1,x\n\r\n\n2,y\n\n\n"),
    ("blank_lines_crlf", "\r\na,b\r\n\r\n1,x\r\n\r\n\r\n2,y\r\n"),
    ("quotes", 'a,b\n"1","x"\n"2","y,z"\n"3","say ""hi"""\n"",""""\n'),
    ("quoted_newlines", 'a,b\n1,"x\ny"\n2,"\r\n"\n3,"\n\n"\n'),
    ("quoted_blank", 'a,b\n1,"\n\na,b\n"\n2,"\n"\n'),
    ("quote_heavy", 'a,b,c\n"""","""""",""\n",",",,","\n"\n'),
    ("stray_quotes", 'a,b\n5" pipe,x\n7,"y ""q"" z"\n8"",a"b"c\n'),
    ("stray_then_newline", 'a,b\nx"y,1\nz,"2\n3"\n"q\n",4"\n'),
    ("empty_names", "a,,c\n1,2,3\n"),
    ("quoted_names", '"a ""x""","b\nc",d\n1,2,3\n'),
    ("nulls", "i,f,b,d,t,s\nNA,NA,NA,NA,NA,NA\n1,1.5,true,2013-01-01,2013-01-01T00:00Z,x\n,,,,,\n"),
    ("all_null", "a,b\nNA,\n,NA\n"),
    ("spaces", "i,f,s\n 1 ,\t2.5 , x \n2,  ,y\n NA,1, NA\n"),
    ("spaces_quoted", 'i,s\n" 1 ",x\n 2,"  "\n'),
    ("bools", "a,b\ntrue,true\nFalse,FALSE\nTRUE,1\n"),
    ("bool_and_null", "a,b\ntrue,x\n,y\nFALSE,z\n"),
    ("ints", "a,b\n007,+5\n-0,-12345678\n123456789,-123456789\n99999999,-9223372036854775808\n"),
    ("codes", "zip,signed,long,zero,mixed,quoted,point\n02134,-7,1,0,1.5,1,0.5\n"
     "10001,-07,00000000000000000001,-0,007,\"001\",00.5\n,+3,NA,+0,2,2,007.25\n"),
    ("code_beyond_i64", "a,b\n1,1\n09223372036854775808,x\n"),
    ("big_ints", "a,b,c\n1,1.5,9223372036854775808\n9223372036854775808,9223372036854775808,1\n"),
    ("floats", "a,b\n1,1e3\n2.5,nan\nNaN,-inf\nINF,Infinity\n-Infinity,.5\n1.,+1.25\n"),
    ("near_numbers", "a,b,c,d,e\n1,1,1,1,1\n1e,.,-,1.2.3,0x10\n"),
    ("float_digits", "a\n10.357019999999999\n0.1\n123456789012345678901234567890\n5e-324\n1e400\n"),
    ("short_floats", "a,b\n" + "".join("%s,%s\n" % (short_float(i), short_float(1000 + i))
                                       for i in range(300))),
    ("sixteen_digits", "a\n" + "".join("9%d.%d\n" % (1000000 + i * 7919, 10000000 + i * 1299709)
                                       for i in range(60))),
    ("dates", "a,b\n1970-01-01,2000-02-29\n1969-12-31,1900-02-28\n0001-01-01,9999-12-31\n"),
    ("bad_dates", "a,b,c\n2013-01-01,2013-01-01,2013-01-01\n2013-02-29,2013-13-01,2013-1-1\n"),
    ("times", "a,b\n2013-01-01T06:00:00Z,2013-01-01 06:00\n"
     "1969-12-31T23:59:59.999999Z,2013-01-01T06:00+05:30\n"
     "0001-01-01T00:00:00.5-23:59,2013-01-01 06:00:00.123456000+00:00\n"),
    ("bad_times", "a,b,c,d\n" + ",".join(["2013-01-01T06:00:00Z"] * 4) +
     "\n2013-01-01T24:00Z,2013-01-01T06:00:60Z,"
     "2013-01-01T06:00:00.1234567Z,2013-01-01T06:00:00+5\n"),
    ("dates_and_times", "a,b\n2013-01-01,2013-01-01T00:00:00.000001Z\n"
     "2013-01-02T00:00Z,1960-05-05\n"),
    ("mixtures", "a,b,c,d,e\n1,1,1.5,2013-01-01,true\nx,2013-01-01,true,5,2013-01-01T00:00Z\n"),
    ("utf8", "naïve,日本\né,😀\nß,\u0301\n"),
    ("long_row", ",".join("c%d" % i for i in range(300)) + "\n" +
     ",".join("%d" % i for i in range(300)) + "\n" + ",".join('"%d"' % i for i in range(300)) + "\n"),
    ("many_texts", "k,v\n" + "".join("key%d,%d\n" % (i * i % 97, i) for i in range(400))),
    ("word_borders", "a,b\n" + "".join('%s,"%s\n"\n' % ("x" * (i % 70), "y" * (i % 67))
                                       for i in range(150))),
]


def random_cases():
    rng = random.Random(2)
    for n in range(16):
        columns = rng.randrange(1, 6)
        style = rng.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
        out = io.StringIO(newline="")
        writer = csv.writer(out, quoting=style, lineterminator=rng.choice(["\n", "\r\n"]))
        writer.writerow(["c%d" % c for c in range(columns)])
        kinds = [rng.randrange(7) for _ in range(columns)]
        for _ in range(rng.randrange(1, 70)):
            writer.writerow([random_value(rng, kind) for kind in kinds])
        yield "random_%d" % n, out.getvalue()


def random_value(rng, kind):
    if rng.random() < 0.05:
        return rng.choice(["", "NA"])
    if kind == 0:
        return rng.randrange(-10**rng.randrange(1, 19), 10**rng.randrange(1, 19))
    if kind == 1:
        return rng.choice([rng.uniform(-1, 1), rng.expovariate(1e-20), float(rng.randrange(100))])
    if kind == 2:
        return rng.choice(["true", "false"])
    if kind == 3:
        return datetime.date.fromordinal(rng.randrange(1, 3652059)).isoformat()
    if kind == 4:
        return (EPOCH + datetime.timedelta(microseconds=rng.randrange(-10**15, 10**15))).isoformat()
    if kind == 5:
        pieces = ["a", "b", ",", '"', "\n", "\r\n", "é", " ", "1"]
        return "".join(rng.choice(pieces) for _ in range(rng.randrange(0, 12)))
    return "key%d" % rng.randrange(20)


def case_lines():
    for name, text in list(CASES) + list(random_cases()):
        data = text.encode()
        names, columns, rows = read(data)
        yield "case %s %d %d %s" % (name, rows, len(names), data.hex())
        for title, texts in zip(names, columns):
            kind = column_type({classify(text)[0] for text in texts})
            yield "column %s %s" % (title.encode().hex(), kind)
            yield from column_values(kind, texts)


# ---- csv_weather.txt ---------------------------------------------------------------------------


def weather_lines():
    """checksum = fold of h * 1000003 + x over the rows, modulo 2^64; x is a null's -1, a text's
    code in order of first appearance, or the value's bits."""
    with open(os.path.join(HERE, "../../examples/data/weather.csv"), "rb") as file:
        names, columns, rows = read(file.read())
    yield "rows %d" % rows
    for name, texts in zip(names, columns):
        kind = column_type({classify(text)[0] for text in texts})
        values = list(column_values(kind, texts))
        codes, checksum = {}, 0
        for value in values:
            if value == "-":
                x = -1
            elif value[0] == "t":
                x = codes.setdefault(value, len(codes))
            else:
                x = int(value[2:], 16) if value[0] == "f" else int(value[2:])
            checksum = (checksum * 1000003 + x) % 2**64
        yield "%s %s %d %s %s %016x" % (name, kind, values.count("-"), values[0], values[-1],
                                        checksum)


def write(name, lines):
    with open(os.path.join(HERE, name), "w", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


write("decimal.txt", decimals())
write("csv_cases.txt", case_lines())
write("csv_weather.txt", weather_lines())
