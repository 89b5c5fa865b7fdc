#!/usr/bin/env python3
"""Makes relations_left.csv, relations_right.csv and relations.txt: what sorts, groups, joins and
choices of rows give on them, by Polars (which tells null from NaN as we do); means and deviations of
groups are exact rational arithmetic rounded once. Run it in this folder; needs polars and pandas.

    query NAME
    STEP ...                   a call and its arguments, one a line; see tests/unit/frame/relations_test.c
    columns N
    row VALUE...               as in frames.txt (make_frames.py)
"""
import math
import os
from fractions import Fraction

import polars as pl

from make_frames import rounded_root, word as plain_word

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = ["ant", "bee", "", "Cat", "dög", "a'b", "antelope", "zebra", "bee "]


def word(value):
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and math.isnan(value):
        return "7ff8000000000000"
    return plain_word(value)


def real(i, m, gap, nan):
    if i % gap == gap - 1:
        return None
    return math.nan if i % nan == nan - 2 else ((i * m) % 41 - 20) / 4


def left():
    rows = 127
    return pl.DataFrame({
        "id": list(range(rows)),
        "k": [None if i % 11 == 5 else (i * i * 7) % 13 - 4 for i in range(rows)],
        "far": [((i * 7919) % 37) * 10**9 - 5 * 10**9 for i in range(rows)],
        "x": [real(i, 29, 6, 13) for i in range(rows)],
        "q": [None if i % 9 == 4 else ((i * 53) % 101) / 4 for i in range(rows)],
        "t": [WORDS[(i * i + i // 7) % 9] for i in range(rows)],
        "u": [WORDS[(i * 5 + i // 11) % 9] for i in range(rows)],
        "b": [None if i % 10 == 9 else i % 3 == 0 for i in range(rows)],
    }, schema_overrides={"k": pl.Int64, "far": pl.Int64})


def right():
    rows = 43
    return pl.DataFrame({
        "k": [None if i % 12 == 7 else (i * 5) % 17 - 2 for i in range(rows)],
        "x": [real(i, 7, 8, 9) for i in range(rows)],
        "t": [["zebra", "yak", "bee", "ant", "", "gnu"][(i * i) % 6] for i in range(rows)],
        "w": [i * 3 - 20 for i in range(rows)],
    })


def spread(values):
    values = [Fraction(v) for v in values if v is not None]
    n = len(values)
    if n < 2:
        return None
    first = sum(values, Fraction(0))
    return (sum((v * v for v in values), Fraction(0)) - first * first / n) / (n - 1)


def exact(column, what):
    values = [Fraction(v) for v in column.to_list() if v is not None]
    if what == "sum":
        return float(sum(values, Fraction(0)))
    if what == "mean":
        return float(sum(values, Fraction(0)) / len(values)) if values else None
    found = spread(column.to_list())
    if found is None:
        return None
    return float(found) if what == "var" else rounded_root(found)


def quantile(values, q):
    """As pandas has it for groups."""
    found = sorted(values.drop_nulls().to_list())
    if not found:
        return None
    at = q * (len(found) - 1)
    low = int(at)
    high = min(low + 1, len(found) - 1)
    return float(found[low] + (found[high] - found[low]) * (at - low))


def one(part, text):
    """One aggregate, "sum(q)", of a group's rows."""
    name, column = text.rstrip(")").split("(")
    column, *more = column.split(", ")
    if not column:
        return part.height
    values = part[column]
    if name in ("sum", "mean", "var", "std") and values.dtype == pl.Float64:
        return exact(values, name)
    if name == "first":
        return values[0] if part.height else None
    if name == "last":
        return values[-1] if part.height else None
    if name in ("min", "max") and values.dtype == pl.Float64:
        # NaN is greater than every number
        found = values.drop_nulls().to_list()
        found = sorted(found, key=lambda v: (math.isnan(v), 0 if math.isnan(v) else v))
        return None if not found else found[0] if name == "min" else found[-1]
    return {
        "sum": lambda: values.sum(), "count": lambda: values.count(),
        "min": lambda: values.min(), "max": lambda: values.max(),
        "median": lambda: quantile(values, 0.5),
        "quantile": lambda: quantile(values, float(more[0])),
        "nunique": lambda: values.drop_nulls().n_unique(),
        "any": lambda: bool(values.any()), "all": lambda: bool(values.all()),
    }[name]()


def group(frame, keys, aggregates):
    """Groups in order of their first row."""
    columns = [k.strip() for k in keys.split(",")]
    first = frame.with_row_index("#").group_by(columns, maintain_order=True).agg(pl.col("#"))
    rows = []
    for line in first.iter_rows():
        part = frame[line[-1]]
        rows.append(list(line[:-1]) + [one(part, a) for a in aggregates])
    return rows


def sort(frame, keys):
    by, down, last = [], [], []
    for key in keys.split(","):
        parts = key.split()
        by.append(parts[0])
        down.append("desc" in parts)
        last.append("first" not in parts)
    return frame.sort(by, descending=down, nulls_last=last, maintain_order=True)


ALL = ["count()", "sum(q)", "mean(q)", "var(q)", "std(q)", "min(x)", "max(x)", "count(x)", "sum(k)",
       "min(k)", "max(far)", "median(q)", "quantile(q, 0.3)", "median(k)", "nunique(k)", "nunique(t)",
       "first(x)", "last(q)", "first(u)", "last(k)", "min(t)", "max(u)", "any(b)", "all(b)"]
FUSED = ["count()", "sum(q)", "std(q)", "min(x)", "max(x)", "sum(k)", "min(t)", "max(u)", "any(b)"]


def order(names, keys):
    """The steps and the answer of a sort."""
    return [f"sort {keys}", f"select {names}"], sort(left(), keys).select(names.split(", "))


def grouped(frame, keys, aggregates, before=()):
    asked = ", ".join(f"a{i} = {a}" for i, a in enumerate(aggregates))
    return [*before, f"by {keys}", f"group {asked}"], group(frame, keys, aggregates)


def joined(how, on, names, theirs, ours):
    answer = left().join(right(), left_on=theirs, right_on=ours, how=how, suffix="_right",
                         maintain_order="left_right" if how in ("inner", "left") else "left")
    return [f"join {how} {on}", f"select {names}"], answer.select(names.split(", "))


def queries():
    frame = left()
    yield "sort 1", order("id", "k")
    yield "sort 2", order("id, x", "x desc")
    yield "sort 3", order("id, x", "x nulls first")
    yield "sort 4", order("id", "t desc, x, k desc nulls first")
    yield "sort 5", order("id", "b nulls first, far desc, u")
    yield "sort 6", order("id", "far, t, b desc, k, x desc nulls first")
    yield "limit", (["sort far, t", "limit 20 31"], sort(frame, "far, t").slice(20, 31))
    yield "tail", (["sort u desc", "tail 17"], sort(frame, "u desc").tail(17))
    yield "distinct 1", (["distinct t"], frame.unique(["t"], keep="first", maintain_order=True))
    yield "distinct 2", (["distinct x, b"],
                         frame.unique(["x", "b"], keep="first", maintain_order=True))
    yield "distinct all", (["select k, t, b", "distinct *"],
                           frame.select("k", "t", "b").unique(keep="first", maintain_order=True))
    some = frame.filter(pl.col("k") > 0)
    yield "distinct of some", (["filter k > 0", "distinct k, b"],
                               some.unique(["k", "b"], keep="first", maintain_order=True))
    kept = sort(some, "q desc").with_columns(pl.col("id").cum_count().over("t").alias("n"))
    yield "group head", (["filter k > 0", "sort q desc", "head_of 2 t", "select id"],
                         kept.filter(pl.col("n") <= 2).select("id"))
    yield "index", (["filter k > 0", "index row", "filter row % 3 == 1"],
                    some.with_row_index("row").filter(pl.col("row") % 3 == 1))
    other = sort(frame, "x").head(40)
    yield "concat", (["concat sort x/head 40", "select id, t, x"],
                     pl.concat([frame, other]).select("id", "t", "x"))
    yield "no keys", (["agg " + ", ".join(f"a{i} = {a}" for i, a in enumerate(ALL))],
                      [[one(frame, a) for a in ALL]])
    yield "no rows, no keys", (
        ["filter id < 0", "agg " + ", ".join(f"a{i} = {a}" for i, a in enumerate(ALL[:18]))],
        [[one(frame.head(0), a) for a in ALL[:18]]])
    for keys in ("k", "t", "b, t", "k, t, b"):
        yield f"fused by {keys}", grouped(frame, keys, FUSED)
    for keys in ("k", "t", "x", "far", "b, x", "t, u", "k, x, t", "far, b, u, k", "k, t, b, u, x"):
        yield f"by {keys}", grouped(frame, keys, ALL)
    yield "some by x", grouped(some, "x", FUSED, ["filter k > 0"])
    yield "none by x", grouped(frame.head(0), "x", FUSED, ["filter id < 0"])
    yield "inner k", joined("inner", "k", "id, k, x, x_right, t_right, w", "k", "k")
    yield "left k", joined("left", "k", "id, k, x_right, t_right, w", "k", "k")
    yield "semi k", joined("semi", "k", "id, t", "k", "k")
    yield "anti k", joined("anti", "k", "id, t", "k", "k")
    yield "inner x", joined("inner", "x", "id, x, k_right, w", "x", "x")
    yield "left t", joined("left", "t", "id, t, k_right, x_right, w", "t", "t")
    yield "left u = t", joined("left", "u = t", "id, t, k_right, w", "u", "t")
    yield "inner k, t", joined("inner", "k, t", "id, x_right, w", ["k", "t"], ["k", "t"])
    yield "anti t, x", joined("anti", "t, x", "id, x", ["t", "x"], ["t", "x"])


def main():
    for name, frame in (("left", left()), ("right", right())):
        with open(os.path.join(HERE, f"relations_{name}.csv"), "w", encoding="utf-8") as out:
            print(",".join(frame.columns), file=out)
            for row in frame.iter_rows():
                cells = ["" if v is None else "nan" if isinstance(v, float) and math.isnan(v)
                         else str(v).lower() if isinstance(v, bool) else str(v) for v in row]
                print(",".join(cells), file=out)
    with open(os.path.join(HERE, "relations.txt"), "w", encoding="utf-8") as out:
        for name, (steps, answer) in queries():
            rows = answer if isinstance(answer, list) else answer.rows()
            count = len(rows[0]) if rows else answer.width if hasattr(answer, "width") else 10
            print("query", name, file=out)
            for step in steps:
                print(step, file=out)
            print("columns", count, file=out)
            for row in rows:
                print("row", *map(word, row), file=out)


if __name__ == "__main__":
    main()
