#!/usr/bin/env python3
"""Makes expressions.txt: what functions of expressions give for each row of a small table with nulls,
NaN, empty and odd texts, and dates and times from end to end of their types. Computed in plain
Python (dates by datetime, moved by whole eras of 400 years), and compared on the way with Polars
wherever Polars has the function and the value. Run it in this folder; needs polars and numpy.

    column NAME TYPE WORD...     the table; words: null, integers, doubles as 16 hex digits, nan,
                                 texts in hex after 'x'
    expr TYPE TEXT               one expression, and in the next line its values
    WORD...
"""
import datetime
import math
import os
import struct

import numpy as np
import polars as pl

HERE = os.path.dirname(os.path.abspath(__file__))
ERA = 146097
EPOCH = datetime.date(1970, 1, 1).toordinal()
DAY = 86400000000

TEXTS = ["", "a", "abc", None, "Ärger", "ÄRGER", "ärger", "  padded ", "\tx\n", "日本語テキスト", "😀 smile",
         "ΑΒΓΣς", "Привет Мир", "straße", "İı", "ÿŸ", "e\u0301", None, "aaa", "abab", "it's", "a,b",
         "Éé", "ŁÓDŹ łódź", "ÆØÅ", "ЁЖ ёж", "Ԥԥ", "ＡＢｃ", "x" * 40, "X" * 40, " ", "abcabcabc", "ABC"]
OTHERS = ["a", "a", "bc", "x", "Ä", "är", None, " ", "x", "本", "😀", "Σ", "т", "ß", "i", "ÿ", "", None,
          "aa", "ab", "'", ",", "É", "ł", "Ø", "Ё", "ԥ", "ｃ", "xx", "X", "", "cab", "abc"]
NUMBERS = ["0", "1", "-17", None, "2.5", "1e3", "-0", "9223372036854775807", "9223372036854775808",
           "", "abc", "nan", "inf", "-inf", "+4", " 5", "2147483648", "-2147483648", "true", "False",
           "TRUE", "2013-02-28", "2013-02-29", "2013-07-01T06:00:00Z", "1969-12-31 23:59:59.5",
           ".5", "5.", "1e400", "1_000", "0x10", None, "007", "--1"]
REALS = [0.0, -0.0, 1.5, None, -1.5, 2.5, -2.5, 0.5, -0.5, 1e300, -1e300, math.nan, math.inf, -math.inf,
         2.0 ** 31, 2.0 ** 31 - 0.5, -2.0 ** 31 - 0.5, 2.0 ** 63, -2.0 ** 63, 2.0 ** 52 + 1, 0.125, 2.675,
         1.005, 123456.789, -123456.789, 5e-324, None, 15.0, 25.0, 1.25, 1 / 3, 1e16, 99.995]
SMALLS = [0.0, 1.5, None, -2.25, 0.1, 3.4e38, math.nan, math.inf] * 4 + [7.0]
INTS = [0, 1, -1, None, 5, -5, 15, 25, 35, -15, -25, 49, 50, 51, 149, 150, 151, 2 ** 31 - 1, -2 ** 31, 99, 100,
        None, 7, 8, 9, 10, 11, 12, 13, 14, 250, 350, -250]
LONGS = [0, 1, -1, None, 2 ** 53 + 1, -2 ** 53 - 1, 2 ** 62, -2 ** 62, 450, 550, -450, -550, 1500, 2500,
         2 ** 31, -2 ** 31 - 1, 86400, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, None, 13, 14, 15, 16, 17]
BOOLS = [True, False, None] * 11
DAYS = [0, -1, 1, None, 11016, 11017, -719162, -719468, -719469, 2932896, 2932897, 15706, 15705, 15707, 15734,
        16800, 16801, 16802, 16803, 16804, 19722, 19723, 365, 59, 60, -2 ** 31 + 400, 2 ** 31 - 1, -1000000,
        1000000, None, 10957, -25567, 20088]
TIMES = [0, -1, 1, None, DAY, -DAY, DAY - 1, -DAY - 1, 1357020000000000, 1372658399999999, -62135596800000000,
         253402300799999999, 2 ** 62, -2 ** 62, 3600000000 * 13 + 59999999, 60000000 * 59, 951782400000000,
         951868799999999, 1e15, 17, None, -3600000000, -60000000, -1000000, 10 ** 17, -10 ** 17, 5, 6, 7, 8,
         1456704000000000, 1456790399999999, 9]
TIMES = [None if t is None else int(t) for t in TIMES]

COLUMNS = {
    "s": ("text", TEXTS), "t": ("text", OTHERS), "w": ("text", NUMBERS), "x": ("f64", REALS),
    "h": ("f32", [None if v is None else float(np.float32(v)) for v in SMALLS]), "i": ("i32", INTS),
    "n": ("i64", LONGS), "ok": ("bool", BOOLS), "d": ("date", DAYS), "m": ("time", TIMES),
}
ROWS = len(TEXTS)


def strict(function):
    """A function that is null where an argument is."""
    return lambda *args: None if any(a is None for a in args) else function(*args)


# ---- dates --------------------------------------------------------------------------------------


def moved(days):
    """A date of the years 2000 to 2399 that stands at the same place of its era, and the years between."""
    shift = (days + EPOCH - datetime.date(2000, 1, 1).toordinal()) // ERA
    return datetime.date.fromordinal(days + EPOCH - shift * ERA), shift * 400


def part(name):
    def of(days):
        date, years = moved(days)
        return {"year": date.year + years, "quarter": (date.month + 2) // 3, "month": date.month,
                "week": date.isocalendar()[1], "day": date.day,
                "day_of_year": date.timetuple().tm_yday, "weekday": date.isoweekday()}[name]
    return of


def first(unit):
    def of(days):
        date, _ = moved(days)
        if unit == "week":
            return days - date.weekday()
        start = {"year": date.replace(month=1, day=1), "month": date.replace(day=1), "day": date,
                 "quarter": date.replace(month=(date.month - 1) // 3 * 3 + 1, day=1)}[unit]
        return days - (date - start).days
    return of


# ---- texts --------------------------------------------------------------------------------------


def simple(method):
    """One character for one, as Unicode's simple mappings have it."""
    odd = {"lower": {"İ": "i", "Σ": "σ"}, "upper": {"ß": "ß"}}[method]
    return lambda s: "".join(odd.get(c, getattr(c, method)()) for c in s)


def trim(s):
    return s.strip(" \t\n\v\f\r")


def substring(s, start, length=None):
    points = list(s)
    begin = start if start >= 0 else len(points) + start
    end = len(points) if length is None else begin + length
    return "".join(points[max(begin, 0):max(end, 0)])


def trimmed(of):
    """Of a text without the blanks around it."""
    return lambda word: of(word.strip(" \t"))


@trimmed
def number_of(word):
    if word != word.strip() or "_" in word or not word:
        return None
    try:
        return float(word)
    except ValueError:
        return None


def integer_of(least, most):
    @trimmed
    def of(word):
        if not word.lstrip("+-").isdigit() or len(word) - len(word.lstrip("+-")) > 1:
            return None
        return int(word) if least <= int(word) <= most else None
    return of


@trimmed
def bool_of(word):
    return {"true": True, "True": True, "TRUE": True, "false": False, "False": False,
            "FALSE": False}.get(word)


@trimmed
def date_of(word):
    try:
        return datetime.date.fromisoformat(word).toordinal() - EPOCH if len(word) == 10 else None
    except ValueError:
        return None


@trimmed
def time_of(word):
    if date_of(word) is not None:
        return date_of(word) * DAY
    try:
        stamp = datetime.datetime.fromisoformat(word.replace("Z", "+00:00"))
    except ValueError:
        return None
    stamp = stamp.replace(tzinfo=datetime.timezone.utc)
    since = stamp - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return since // datetime.timedelta(microseconds=1) if len(word) > 10 else None


# ---- numbers ------------------------------------------------------------------------------------


def cut(least, most):
    def of(x):
        if math.isnan(x) or math.isinf(x):
            return None
        return int(x) if least <= int(x) <= most else None
    return of


def root(x):
    """As C's pow(x, 0.5): of -0 it is +0, of -inf inf."""
    return math.inf if x == -math.inf else math.nan if x < 0 else math.sqrt(x) + 0.0


def rounded(digits):
    def of(x):
        return float(np.round(np.float64(x), digits)) if abs(x) < 2 ** 52 or digits < 0 else x
    return of


def rounded_whole(step):
    def of(n):
        low = n // step * step
        rest = n - low
        up = 2 * rest > step or (2 * rest == step and low // step % 2 == 1)
        return low + step * up
    return of


def pick(least):
    """Of the values that are there; NaN is greater than all numbers."""
    def of(*values):
        found = [v for v in values if v is not None]
        key = lambda v: (isinstance(v, float) and math.isnan(v), v)
        return (min if least else max)(found, key=key) if found else None
    return of


def sign(x):
    return x if math.isnan(x) or x == 0 else math.copysign(1.0, x)


def shortest(value):
    """As the library prints doubles; only for values whose text is beyond doubt."""
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    return {1.5: "1.5", -1.5: "-1.5", 15.0: "15", 25.0: "25"}.get(value, None)


I32, I64 = (-2 ** 31, 2 ** 31 - 1), (-2 ** 63, 2 ** 63 - 1)

# type, ours, function, columns, and Polars' (a function of a frame's columns) or None
EXPRESSIONS = [
    ("i64", "length(s)", strict(len), "s", lambda: pl.col("s").str.len_chars()),
    ("text", "lower(s)", strict(simple("lower")), "s", None),
    ("text", "upper(s)", strict(simple("upper")), "s", None),
    ("text", "trim(s)", strict(trim), "s", lambda: pl.col("s").str.strip_chars(" \t\n\v\f\r")),
    ("bool", "contains(s, 'a')", strict(lambda s: "a" in s), "s",
     lambda: pl.col("s").str.contains("a", literal=True)),
    ("bool", "contains(s, t)", strict(lambda s, t: t in s), "s t",
     lambda: pl.col("s").str.contains(pl.col("t"), literal=True)),
    ("bool", "contains(s, '')", strict(lambda s: True), "s", None),
    ("bool", "starts_with(s, t)", strict(lambda s, t: s.startswith(t)), "s t",
     lambda: pl.col("s").str.starts_with(pl.col("t"))),
    ("bool", "ends_with(s, 'bc')", strict(lambda s: s.endswith("bc")), "s",
     lambda: pl.col("s").str.ends_with("bc")),
    ("bool", "ends_with('abc', t)", strict(lambda t: "abc".endswith(t)), "t", None),
    ("text", "replace(s, 'ab', 'x')", strict(lambda s: s.replace("ab", "x")), "s",
     lambda: pl.col("s").str.replace_all("ab", "x", literal=True)),
    ("text", "replace(s, 'a', '')", strict(lambda s: s.replace("a", "")), "s",
     lambda: pl.col("s").str.replace_all("a", "", literal=True)),
    ("text", "slice(s, 1, 2)", strict(lambda s: substring(s, 1, 2)), "s",
     lambda: pl.col("s").str.slice(1, 2)),
    ("text", "slice(s, -2)", strict(lambda s: substring(s, -2)), "s", lambda: pl.col("s").str.slice(-2)),
    ("text", "slice(s, -5, 3)", strict(lambda s: substring(s, -5, 3)), "s",
     lambda: pl.col("s").str.slice(-5, 3)),
    ("text", "slice(s, 2, 0)", strict(lambda s: ""), "s", None),
    ("text", "slice(s, 9223372036854775807)", strict(lambda s: ""), "s", None),
    ("text", "slice(s, -9223372036854775808, 3)", strict(lambda s: ""), "s", None),
    ("text", "slice(s, -5, 9223372036854775807)", strict(lambda s: substring(s, -5, 2 ** 63 - 1)), "s", None),
    ("text", "slice(s, -50, 48)", strict(lambda s: substring(s, -50, 48)), "s", None),
    ("text", "concat(s, t)", strict(lambda s, t: s + t), "s t", lambda: pl.col("s") + pl.col("t")),
    ("text", "concat(s, '-', t, '!')", strict(lambda s, t: s + "-" + t + "!"), "s t", None),
    ("text", "concat(null, s)", lambda s: None, "s", None),
    ("bool", "lower(s) == lower(t)", strict(lambda s, t: simple("lower")(s) == simple("lower")(t)), "s t", None),
    ("bool", "upper(s) < t", strict(lambda s, t: simple("upper")(s).encode() < t.encode()), "s t", None),
    ("bool", "upper(slice(s, 0, 1)) in ('A', 'X')", strict(lambda s: simple("upper")(s[:1]) in ("A", "X")), "s", None),
    ("text", "coalesce(s, t, 'none')", lambda s, t: s if s is not None else t if t is not None else "none", "s t",
     lambda: pl.coalesce("s", "t", pl.lit("none"))),
    ("text", "least(s, t)", pick(True), "s t", lambda: pl.min_horizontal("s", "t")),
    ("text", "greatest(s, 'b', t)", lambda s, t: pick(False)(s, "b", t), "s t", None),
    ("text", "greatest(s, lower(s))", strict(lambda s: max(s, simple("lower")(s))), "s", None),
    ("i64", "length(concat(s, t)) - length(t)", strict(lambda s, t: len(s)), "s t", None),
] + [("i64", "%s(d)" % name, strict(part(name)), "d", polars) for name, polars in [
    ("year", lambda: pl.col("d").dt.year()), ("quarter", lambda: pl.col("d").dt.quarter()),
    ("month", lambda: pl.col("d").dt.month()), ("week", lambda: pl.col("d").dt.week()),
    ("day", lambda: pl.col("d").dt.day()), ("day_of_year", lambda: pl.col("d").dt.ordinal_day()),
    ("weekday", lambda: pl.col("d").dt.weekday())]
] + [("i64", "%s(m)" % name, strict(lambda m, f=part(name): f(m // DAY)), "m", polars) for name, polars in [
    ("year", lambda: pl.col("m").dt.year()), ("quarter", None), ("month", lambda: pl.col("m").dt.month()),
    ("week", lambda: pl.col("m").dt.week()), ("day", lambda: pl.col("m").dt.day()),
    ("day_of_year", None), ("weekday", lambda: pl.col("m").dt.weekday())]
] + [
    ("i64", "hour(m)", strict(lambda m: m % DAY // 3600000000), "m", lambda: pl.col("m").dt.hour()),
    ("i64", "minute(m)", strict(lambda m: m // 60000000 % 60), "m", lambda: pl.col("m").dt.minute()),
    ("i64", "second(m)", strict(lambda m: m // 1000000 % 60), "m", lambda: pl.col("m").dt.second()),
    ("date", "date(m)", strict(lambda m: m // DAY), "m", lambda: pl.col("m").dt.date()),
    ("date", "date(d)", lambda d: d, "d", None),
] + [("date", "date_trunc('%s', d)" % unit, strict(first(unit)), "d",
      lambda every=every: pl.col("d").dt.truncate(every))
     for unit, every in [("year", "1y"), ("quarter", "1q"), ("month", "1mo"), ("week", "1w"), ("day", "1d")]
] + [("time", "date_trunc('%s', m)" % unit, strict(lambda m, f=first(unit): f(m // DAY) * DAY), "m",
      lambda every=every: pl.col("m").dt.truncate(every))
     for unit, every in [("year", "1y"), ("quarter", "1q"), ("month", "1mo"), ("week", "1w"), ("day", "1d")]
] + [("time", "date_trunc('%s', m)" % unit, strict(lambda m, s=size: m - m % s), "m",
      lambda every=every: pl.col("m").dt.truncate(every))
     for unit, every, size in [("hour", "1h", 3600000000), ("minute", "1m", 60000000), ("second", "1s", 1000000)]
] + [
    ("i64", "d - '2000-02-29'", strict(lambda d: d - 11016), "d", None),
    ("i64", "d - date(m)", strict(lambda d, m: d - m // DAY), "d m", None),
    ("date", "if(d < '5000-01-01', d + 28, d)", strict(lambda d: d + 28 if d < 1106672 else d), "d", None),
    ("date", "if(abs(n) < 1000, date(m) - n, null)",
     lambda m, n: None if m is None or n is None or abs(n) >= 1000 else m // DAY - n, "m n", None),
    ("time", "if(abs(n) < 1000, n + m, null)",
     lambda m, n: None if m is None or n is None or abs(n) >= 1000 else m + n, "m n", None),
    ("i64", "m - '1970-01-02'", strict(lambda m: m - DAY), "m", None),
    ("bool", "between(d, '1970-01-01', '2013-12-31')", strict(lambda d: 0 <= d <= 16070), "d", None),
    ("bool", "between(x, i, 3)", lambda x, i: kleene(None if x is None or i is None else x >= i,
                                                     None if x is None else x <= 3), "x i", None),
    ("i32", "try_cast(x, 'i32')", strict(cut(*I32)), "x", lambda: pl.col("x").cast(pl.Int32, strict=False)),
    ("i64", "try_cast(x, 'i64')", strict(cut(*I64)), "x", lambda: pl.col("x").cast(pl.Int64, strict=False)),
    ("i64", "try_cast(h, 'i64')", strict(cut(*I64)), "h", None),
    ("i32", "try_cast(n, 'i32')", strict(lambda n: n if I32[0] <= n <= I32[1] else None), "n",
     lambda: pl.col("n").cast(pl.Int32, strict=False)),
    ("f64", "cast(n, 'f64')", strict(float), "n", lambda: pl.col("n").cast(pl.Float64)),
    ("f32", "cast(x, 'f32')", strict(lambda x: float(f32(x))), "x", lambda: pl.col("x").cast(pl.Float32)),
    ("f64", "cast(h, 'f64')", strict(float), "h", lambda: pl.col("h").cast(pl.Float64)),
    ("bool", "cast(n, 'bool')", strict(lambda n: n != 0), "n", lambda: pl.col("n").cast(pl.Boolean)),
    ("bool", "cast(x, 'bool')", strict(lambda x: x != 0), "x", None),
    ("i64", "cast(ok, 'i64')", strict(int), "ok", None),
    ("f32", "cast(ok, 'f32')", strict(float), "ok", None),
    ("i64", "cast(d, 'i64')", lambda d: d, "d", None),
    ("i64", "cast(m, 'i64')", lambda m: m, "m", None),
    ("f64", "cast(d, 'f64')", strict(float), "d", None),
    ("date", "cast(i, 'date')", lambda i: i, "i", None),
    ("date", "try_cast(n, 'date')", strict(lambda n: n if I32[0] <= n <= I32[1] else None), "n", None),
    ("time", "cast(n, 'time')", lambda n: n, "n", None),
    ("time", "try_cast(d, 'time')", strict(lambda d: d * DAY if abs(d * DAY) < 2 ** 63 else None), "d", None),
    ("i64", "try_cast(w, 'i64')", strict(integer_of(*I64)), "w", None),
    ("i32", "try_cast(w, 'i32')", strict(integer_of(*I32)), "w", None),
    ("f64", "try_cast(w, 'f64')", strict(number_of), "w", None),
    ("f32", "try_cast(w, 'f32')", strict(lambda w: None if number_of(w) is None else float(f32(number_of(w)))),
     "w", None),
    ("bool", "try_cast(w, 'bool')", strict(bool_of), "w", None),
    ("date", "try_cast(w, 'date')", strict(date_of), "w", None),
    ("time", "try_cast(w, 'time')", strict(time_of), "w", None),
    ("text", "cast(i, 'text')", strict(str), "i", lambda: pl.col("i").cast(pl.String)),
    ("text", "cast(n, 'text')", strict(str), "n", lambda: pl.col("n").cast(pl.String)),
    ("text", "cast(ok, 'text')", strict(lambda b: "true" if b else "false"), "ok",
     lambda: pl.col("ok").cast(pl.String)),
    ("text", "cast(try_cast(x, 'i32'), 'text')", strict(lambda x: None if cut(*I32)(x) is None else
                                                        str(cut(*I32)(x))), "x", None),
    ("text", "if(x in (1.5, -1.5, 15, 25) or x == 0 or is_nan(x), cast(x, 'text'), null)",
     strict(lambda x: "nan" if math.isnan(x) else shortest(x)), "x", None),
    ("f64", "cast(cast(x, 'text'), 'f64')", strict(lambda x: x), "x", None),
    ("f32", "cast(cast(h, 'text'), 'f32')", strict(lambda x: x), "h", None),
    ("f64", "x ** 2", strict(lambda x: x * x), "x", None),
    ("f64", "x ** 0.5", strict(root), "x", None),
    ("f32", "h ** 2", strict(lambda h: float(f32(h) * f32(h))), "h", None),
    ("f32", "h ** 0.5", strict(lambda h: float(f32(root(h)))), "h", None),
    ("text", "cast(date(m), 'text')", strict(lambda m: date_text(m // DAY)), "m", None),
    ("date", "try_cast(cast(d, 'text'), 'date')",
     strict(lambda d: d if -719528 <= d <= 2932896 else None), "d", None),
    ("text", "concat(cast(i, 'text'), '/', cast(ok, 'text'))",
     strict(lambda i, b: "%d/%s" % (i, "true" if b else "false")), "i ok", None),
    ("f64", "ceil(x)", strict(lambda x: float(np.ceil(x))), "x", lambda: pl.col("x").ceil()),
    ("i32", "ceil(i)", lambda i: i, "i", None),
    ("f64", "sign(x)", strict(sign), "x", None),
    ("i32", "sign(i)", strict(lambda i: (i > 0) - (i < 0)), "i", lambda: pl.col("i").sign()),
    ("f64", "round(x, 2)", strict(rounded(2)), "x", None),
    ("f64", "round(x, 0)", strict(rounded(0)), "x", None),
    ("f64", "round(x, -1)", strict(rounded(-1)), "x", None),
    ("f64", "round(x, 18)", strict(rounded(18)), "x", None),
    ("f32", "round(h, 1)", strict(lambda h: float(f32(rounded(1)(h)))), "h", None),
    ("i64", "round(n, -2)", strict(rounded_whole(100)), "n", None),
    ("i64", "round(n, 2)", lambda n: n, "n", None),
    ("i32", "if(-1000 < i < 1000, round(i, -1), null)",
     strict(lambda i: rounded_whole(10)(i) if -1000 < i < 1000 else None), "i", None),
    ("f64", "least(x, i, 2)", lambda x, i: pick(True)(x, None if i is None else float(i), 2.0), "x i", None),
    ("f64", "greatest(x, i, 2)", lambda x, i: pick(False)(x, None if i is None else float(i), 2.0), "x i", None),
    ("i64", "greatest(i, n)", pick(False), "i n", lambda: pl.max_horizontal("i", "n")),
    ("time", "least(try_cast(d, 'time'), m)", lambda d, m: pick(True)(None if d is None or abs(d) > 10 ** 8 else d * DAY, m), "d m",
     None),
    ("bool", "least(ok, true)", lambda b: True if b is None else b, "ok", None),
    ("bool", "greatest(ok, null)", lambda b: b, "ok", None),
]


def kleene(a, b):
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def f32(x):
    with np.errstate(over="ignore"):
        return np.float32(x)


def date_text(days):
    date, years = moved(days)
    year = date.year + years
    return "%s%04d-%02d-%02d" % ("-" * (year < 0), abs(year), date.month, date.day)


def word(kind, value):
    if value is None:
        return "null"
    if kind == "text":
        return "x" + value.encode().hex()
    if kind in ("f64", "f32"):
        return "nan" if math.isnan(value) else struct.pack(">d", value).hex()
    return str(int(value))


def same(a, b):
    if isinstance(a, datetime.datetime):
        a = (a - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    elif isinstance(a, datetime.date):
        a = a.toordinal() - EPOCH
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return a == b


def compare(expressions):
    """Polars on the rows whose dates and times Python can hold."""
    kinds = {"text": pl.String, "f64": pl.Float64, "f32": pl.Float32, "i32": pl.Int32, "i64": pl.Int64,
             "bool": pl.Boolean, "date": pl.Date, "time": pl.Datetime("us")}
    fine = [r for r in range(ROWS) if (DAYS[r] is None or abs(DAYS[r]) < 700000) and
            (TIMES[r] is None or abs(TIMES[r]) < 6 * 10 ** 16)]
    made = {name: pl.Series(name, [values[r] for r in fine],
                            dtype={"date": pl.Int32, "time": pl.Int64}.get(kind, kinds[kind])).cast(kinds[kind])
            for name, (kind, values) in COLUMNS.items()}
    frame = pl.DataFrame(made)
    checked = 0
    for _, ours, function, names, polars in expressions:
        if polars is None:
            continue
        found = frame.select(polars().alias("r"))["r"].to_list()
        for r, theirs in zip(fine, found):
            mine = function(*[COLUMNS[n][1][r] for n in names.split()])
            assert same(theirs, mine), (ours, r, theirs, mine)
            checked += 1
    return checked


def main():
    assert all(len(values) == ROWS for _, values in COLUMNS.values()), [len(v) for _, v in COLUMNS.values()]
    print(compare(EXPRESSIONS), "values are as Polars has them")
    with open(os.path.join(HERE, "expressions.txt"), "w", encoding="utf-8") as out:
        for name, (kind, values) in COLUMNS.items():
            print("column", name, kind, *[word(kind, v) for v in values], file=out)
        for kind, ours, function, names, _ in EXPRESSIONS:
            print("expr", kind, ours, file=out)
            print(*[word(kind, function(*[COLUMNS[n][1][r] for n in names.split()])) for r in range(ROWS)],
                  file=out)


if __name__ == "__main__":
    main()
