#!/usr/bin/env python3
"""Makes frames.txt: what queries on examples/data/weather.csv give. Filters, groups and nulls are
pandas' (nullable dtypes); sums, means, variances and deviations are exact rational arithmetic
rounded once. Run it in this folder; needs pandas.

    query NAME
    where EXPR | with NAME EXPR | by KEYS | agg LIST      what is asked, in our words
    columns N
    row VALUE...           one a row: null, integers, texts in hex after 'x', doubles as 16 hex digits
"""
import decimal
import math
import os
import struct
from fractions import Fraction

import pandas as pd

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "..", "examples", "data", "weather.csv")
decimal.getcontext().prec = 80


def read():
    frame = pd.read_csv(DATA, na_values=["NA"], keep_default_na=False)
    for name in frame.columns:
        if frame[name].dtype == float and name == "wind_dir":
            frame[name] = frame[name].astype("Int64")
        elif frame[name].dtype == float:
            frame[name] = frame[name].astype("Float64")
        elif frame[name].dtype == int:
            frame[name] = frame[name].astype("Int64")
    return frame


def rounded_root(value):
    """The square root of a rational, rounded once: the quotient has 80 digits, far more than a tie
    could hide in."""
    exact = decimal.Decimal(value.numerator) / decimal.Decimal(value.denominator)
    return float(exact.sqrt())


def numbers(column):
    return [Fraction(v) if not isinstance(v, float) else Fraction(*v.as_integer_ratio())
            for v in column.dropna().tolist()]


def is_integer(column):
    return column.dtype == "Int64"


def total(column):
    result = sum(numbers(column), Fraction(0))
    return int(result) if is_integer(column) else float(result)


def mean(column):
    values = numbers(column)
    return float(sum(values, Fraction(0)) / len(values)) if values else None


def spread(column):
    values = numbers(column)
    n = len(values)
    if n < 2:
        return None
    first = sum(values, Fraction(0))
    second = sum((v * v for v in values), Fraction(0))
    return (second - first * first / n) / (n - 1)


def var(column):
    found = spread(column)
    return None if found is None else float(found)


def std(column):
    found = spread(column)
    return None if found is None else rounded_root(found)


def extreme(which):
    def pick(column):
        column = column.dropna()
        return None if column.empty else getattr(column, which)()
    return pick


def count(column):
    return int(column.notna().sum())


SMALLEST, LARGEST = extreme("min"), extreme("max")


def celsius(frame):
    return (frame["temp"] - 32) * 5 / 9


def truth(mask):
    return mask.fillna(False).astype(bool)


# name, where (ours, pandas), with (name, ours, pandas), by, aggregates (ours, column, function)
QUERIES = [
    ("all", None, None, None,
     [("count()", None, None), ("count(wind_gust)", "wind_gust", count), ("sum(temp)", "temp", total),
      ("mean(temp)", "temp", mean), ("min(temp)", "temp", SMALLEST), ("max(temp)", "temp", LARGEST),
      ("var(temp)", "temp", var), ("std(pressure)", "pressure", std), ("sum(wind_dir)", "wind_dir", total),
      ("mean(wind_dir)", "wind_dir", mean), ("max(origin is null)", None, lambda f: 0)]),
    ("warm by airport", ("temp > 80 and wind_speed is not null",
                         lambda f: truth((f["temp"] > 80) & f["wind_speed"].notna())),
     ("celsius", "(temp - 32) * 5 / 9", celsius), "origin",
     [("n = count()", None, None), ("mean(celsius)", "celsius", mean), ("std(celsius)", "celsius", std),
      ("max(wind_speed)", "wind_speed", LARGEST), ("sum(precip)", "precip", total)]),
    ("months", None, None, "origin, month",
     [("count()", None, None), ("mean(humid)", "humid", mean), ("var(pressure)", "pressure", var),
      ("sum(hour)", "hour", total), ("count(wind_gust)", "wind_gust", count)]),
    ("null keys", ("visib < 2", lambda f: truth(f["visib"] < 2)), None, "wind_dir",
     [("count()", None, None), ("mean(visib)", "visib", mean), ("min(dewp)", "dewp", SMALLEST)]),
    ("kleene", ("not (wind_gust > 20) or pressure is null and temp < 30",
                lambda f: truth(~(f["wind_gust"] > 20) | (f["pressure"].isna() & (f["temp"] < 30)))),
     None, "day", [("count()", None, None), ("sum(temp)", "temp", total), ("std(temp)", "temp", std)]),
    ("integers", ("month in (6, 7, 8) and origin != 'JFK'",
                  lambda f: truth(f["month"].isin([6, 7, 8]) & (f["origin"] != "JFK"))),
     ("code", "wind_dir // 45 * 10 + hour % 6",
      lambda f: f["wind_dir"] // 45 * 10 + f["hour"] % 6), "code",
     [("count()", None, None), ("sum(wind_dir)", "wind_dir", total), ("max(day)", "day", LARGEST)]),
    ("time", ("time_hour >= '2013-12-01' and time_hour < '2013-12-25T12:00'",
              lambda f: (f["time_hour"] >= "2013-12-01") & (f["time_hour"] < "2013-12-25T12:00")),
     None, "hour", [("count()", None, None), ("mean(temp)", "temp", mean), ("min(temp)", "temp", SMALLEST)]),
    ("nothing", ("temp > 1000", lambda f: truth(f["temp"] > 1000)), None, None,
     [("count()", None, None), ("sum(temp)", "temp", total), ("sum(hour)", "hour", total),
      ("mean(temp)", "temp", mean), ("max(hour)", "hour", LARGEST), ("std(temp)", "temp", std)]),
]


def word(value):
    if value is None or value is pd.NA:
        return "null"
    if isinstance(value, str):
        return "x" + value.encode().hex()
    if isinstance(value, float) or hasattr(value, "dtype") and value.dtype.kind == "f":
        return "%016x" % struct.unpack("<Q", struct.pack("<d", float(value)))[0]
    return str(int(value))


def answers(frame, aggregates):
    row = []
    for _, column, function in aggregates:
        if function is None:
            row.append(len(frame))
        elif column is None:
            row.append(function(frame))
        else:
            row.append(function(frame[column]))
    return row


def groups(frame, keys):
    """The groups in order of their first row, null keys among them."""
    for key, part in frame.groupby(keys, sort=False, dropna=False):
        yield list(key if isinstance(key, tuple) else (key,)), part


def main():
    weather = read()
    with open(os.path.join(HERE, "frames.txt"), "w", encoding="utf-8") as out:
        for name, where, derive, by, aggregates in QUERIES:
            frame = weather
            print("query", name, file=out)
            if where:
                print("where", where[0], file=out)
                frame = frame[where[1](frame)]
            if derive:
                print("with", derive[0], derive[1], file=out)
                frame = frame.assign(**{derive[0]: derive[2](frame)})
            if by:
                print("by", by, file=out)
            print("agg", ", ".join(a[0] for a in aggregates), file=out)
            keys = by.split(", ") if by else []
            print("columns", len(keys) + len(aggregates), file=out)
            rows = groups(frame, keys) if by else [([], frame)]
            for key, part in rows:
                print("row", *map(word, key + answers(part, aggregates)), file=out)
    assert math.isclose(float(weather["temp"].sum()), total(weather["temp"]), rel_tol=1e-12)


if __name__ == "__main__":
    main()
