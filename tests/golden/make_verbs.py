#!/usr/bin/env python3
"""Makes verbs.csv, a small table with nulls in every type, and verbs.txt: what the short calls on
frames (drop, fill_null, value_counts, describe, ...) give on it, by pandas. Means and deviations are
exact rational arithmetic rounded once. Run it in this folder; needs pandas.

    query NAME                 the name of a case of tests/unit/frame/verbs_test.c
    columns N
    row VALUE...               as in frames.txt (make_frames.py)
"""
import os

import pandas as pd

import make_frames
from make_frames import mean, std

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = 40
TYPES = {"id": "Int64", "n": "Int64", "x": "Float64", "t": "string", "d": "string", "b": "boolean",
         "odd name": "Int64"}


def word(value):
    return "null" if pd.isna(value) else make_frames.word(value)


def table():
    """Formulas with gaps: no two columns have theirs in the same rows."""
    texts = ["ant", "bee", "", "cat", "dög", "a'b"]
    return pd.DataFrame({
        "id": pd.array(range(ROWS), "Int64"),
        "n": pd.array([None if i % 7 == 3 else (i * 11) % 17 - 5 for i in range(ROWS)], "Int64"),
        "x": pd.array([None if i % 5 == 1 else ((i * 29) % 32 - 9) / 4 for i in range(ROWS)], "Float64"),
        "t": pd.array([texts[(i * i) % 6] for i in range(ROWS)], "string"),
        "d": pd.array([None if i % 9 == 4 else "2013-%02d-%02d" % (i % 12 + 1, i % 28 + 1)
                       for i in range(ROWS)], "string"),
        "b": pd.array([None if i % 8 == 5 else i % 3 == 0 for i in range(ROWS)], "boolean"),
        "odd name": pd.array([None] * 3 + list(range(3, ROWS)), "Int64"),
    })


def counts(frame, keys):
    """Most frequent first, equal ones by first appearance."""
    grouped = frame.groupby(keys, sort=False, dropna=False).size().reset_index(name="count")
    return grouped.sort_values("count", ascending=False, kind="stable")


def describe(frame):
    """Our shape: nine rows, numbers and bools as floats, other columns as text."""
    names = ["count", "nulls", "mean", "std", "min", "25%", "50%", "75%", "max"]
    out = {"statistic": names}
    for name in frame.columns:
        column = frame[name]
        whole = column.dropna()
        if str(column.dtype) == "string":
            ordered = sorted(whole, key=lambda v: v.encode())
            out[name] = [str(len(whole)), str(len(column) - len(whole)), None, None,
                         ordered[0], None, None, None, ordered[-1]]
            continue
        numbers = column.astype("Int64") if str(column.dtype) == "boolean" else column
        whole = numbers.dropna().astype(float)
        quarters = [float(whole.quantile(q)) for q in (0.25, 0.5, 0.75)]
        out[name] = [float(len(whole)), float(len(column) - len(whole)), mean(numbers), std(numbers),
                     float(whole.min()), *quarters, float(whole.max())]
    return pd.DataFrame({k: pd.array(v, dtype=object) for k, v in out.items()})


def queries(f):
    yield "drop", f.drop(columns=["n", "odd name"])
    yield "rename", f.rename(columns={"id": "n", "n": "id", "odd name": "plain"})
    yield "is_null", f.isna()
    yield "drop_nulls", f.dropna()
    yield "drop_nulls_of", f.dropna(subset=["x", "odd name"])
    yield "fill_numbers", f.fillna({"n": 0, "x": 0.0, "odd name": 0})
    yield "fill_named", f.assign(n=f["n"].fillna(f["id"]), **{"odd name": f["odd name"].fillna(f["id"])})
    yield "fill_wider", f.assign(n=f["n"].astype("Float64").fillna(0.5))
    yield "fill_date", f.assign(d=f["d"].fillna("2000-02-29"))
    yield "fill_bool", f.assign(b=f["b"].fillna(True))
    yield "counts_text", counts(f, ["t"])
    yield "counts_two", counts(f, ["b", "t"])
    yield "counts_null", counts(f, ["n"])
    yield "describe", describe(f)
    yield "describe_few", describe(f[["odd name", "b", "x"]].head(3))


def main():
    frame = table()
    path = os.path.join(HERE, "verbs.csv")
    with open(path, "w", encoding="utf-8") as out:
        print(",".join(frame.columns), file=out)
        for row in frame.itertuples(index=False):
            cells = ["" if v is pd.NA else str(v) for v in row]
            cells[5] = cells[5].lower()
            print(",".join('""' if not c and k == 3 else c for k, c in enumerate(cells)), file=out)
    with open(os.path.join(HERE, "verbs.txt"), "w", encoding="utf-8") as out:
        for name, result in queries(frame):
            print("query", name, file=out)
            print("columns", len(result.columns), file=out)
            for row in result.astype(object).itertuples(index=False):
                print("row", *map(word, row), file=out)


if __name__ == "__main__":
    main()
