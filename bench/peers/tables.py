"""Polars, DuckDB and others on the made tables: python tables.py FOLDER ROWS THREADS

Answers each line "work peer" with "seconds rows checksum ...", or "-1" where it cannot; "memory peer" with the most
bytes that were ever resident. What a peer is not asked for is not loaded."""
import importlib.util
import os
import resource
import sys
import time

folder, rows, threads = sys.argv[1], sys.argv[2], sys.argv[3]
os.environ["POLARS_MAX_THREADS"] = threads
if not all(importlib.util.find_spec(m) for m in ("duckdb", "numpy", "polars")):
    sys.exit("missing")
import polars as pl
from serve import ready

c = pl.col
csv = f"{folder}/g1_{rows}.csv"
loaded = {}


class Duck:
    """A connection, opened when it is first asked."""

    def rows(self, query, **frames):
        """All rows of a query in which frames may be named: a result that is left open holds its tables."""
        if "con" not in loaded:
            import duckdb
            loaded["con"] = duckdb.connect(config={"threads": int(threads)})
            loaded["con"].execute("set preserve_insertion_order = true")
        for name, frame in frames.items():
            loaded["con"].register(name, frame)
        return loaded["con"].execute(query).fetchall()

    def row(self, query):
        """Its one row."""
        return self.rows(query)[0]


con = Duck()

GROUPS = {
    "g1": (["id1"], [c("v1").sum()], "sum(v1) as v1"),
    "g2": (["id1", "id2"], [c("v1").sum()], "sum(v1) as v1"),
    "g3": (["id3"], [c("v1").sum(), c("v3").mean()], "sum(v1) as v1, avg(v3) as v3"),
    "g4": (["id4"], [c("v1").mean(), c("v2").mean(), c("v3").mean()],
           "avg(v1) as v1, avg(v2) as v2, avg(v3) as v3"),
    "g5": (["id6"], [c("v1").sum(), c("v2").sum(), c("v3").sum()],
           "sum(v1) as v1, sum(v2) as v2, sum(v3) as v3"),
    "g6": (["id4", "id5"], [c("v3").median().alias("m"), c("v3").std().alias("s")],
           "median(v3) as m, stddev(v3) as s"),
    "g7": (["id3"], [(c("v1").max() - c("v2").min()).alias("range")],
           "max(v1) - min(v2) as range"),
    "g9": (["id2", "id4"], [(pl.corr("v1", "v2") ** 2).alias("r2")],
           "pow(corr(v1, v2), 2) as r2"),
    "g10": (["id1", "id2", "id3", "id4", "id5", "id6"],
            [c("v3").sum(), pl.len().alias("n")], "sum(v3) as v3, count(*) as n"),
}
SORTS = {"f64": ("v3", "id6"), "i64": ("id6", "v3"), "text": ("id3", "v3")}


def table():
    if "df" not in loaded:
        loaded["df"] = df = pl.read_csv(csv)
        con.rows("create table t as select * from df", df=df)
    return loaded["df"]


def sides(name):
    if loaded.get("join") != name:
        import numpy as np
        one = {p: np.load(f"{folder}/join_{name}_{rows}_{p}.npy") for p in ("lk", "lv", "rk", "rw")}
        loaded["left"] = left_side = pl.DataFrame({"k": one["lk"], "v": one["lv"]})
        loaded["right"] = right_side = pl.DataFrame({"k": one["rk"], "w": one["rw"]})
        con.rows("create or replace table l as select * from left_side", left_side=left_side)
        con.rows("create or replace table r2 as select * from right_side", right_side=right_side)
        loaded["join"] = name
    return loaded["left"], loaded["right"]


def duck(query):
    con.rows("create or replace temp table r as " + query)


def duck_sum(column):
    return lambda: con.row(f'select count(*), sum("{column}") from r')


def group(name, peer):
    keys, aggs, sql = GROUPS[name]
    df = table()
    if peer == "polars":
        return (lambda: df.lazy().group_by(keys).agg(aggs).collect(),
                lambda r: (r.height, float(r[:, -1].sum())))
    last = sql.rsplit(" ", 1)[1]
    return (lambda: duck(f"select {','.join(keys)}, {sql} from t group by {','.join(keys)}"),
            lambda r: duck_sum(last)())


def top(peer):
    df = table()
    if peer == "polars":
        return (lambda: df.lazy().sort("v3", descending=True).group_by("id6")
                .agg(c("v3").head(2)).explode("v3").collect(),
                lambda r: (r.height, r["v3"].sum()))
    return (lambda: duck("select id6, v3 from (select id6, v3, row_number() over "
                         "(partition by id6 order by v3 desc) o from t) where o <= 2"),
            lambda r: duck_sum("v3")())


def sort(name, peer):
    key, other = SORTS[name]
    df = table()
    if peer == "polars":
        return (lambda: df.lazy().select(key, other).sort(key).collect(),
                lambda r: (r.height, r[key][0], r[key][-1]))
    return (lambda: duck(f"select {key}, {other} from t order by {key}"),
            lambda r: con.row(f"select count(*), min({key}), max({key}) from r"))


def join(name, peer):
    left, right = sides(name)
    if peer == "polars":
        return (lambda: left.lazy().join(right.lazy(), on="k").collect(),
                lambda r: (r.height, float(r["w"].sum())))
    return (lambda: duck("select l.k, v, w from l join r2 using (k)"), lambda r: duck_sum("w")())


def text_table(which):
    """One of the tables of texts, "texts" or "fifth"."""
    if which not in loaded:
        half = int(rows) // 2
        loaded[which] = pl.read_csv(f"{folder}/texts_{half}.csv" if which == "texts"
                                    else f"{folder}/right_{half // 5}.csv")
    return loaded[which]


def text_duck_tables():
    if "duck" not in loaded:
        for which in ("texts", "fifth"):
            con.rows(f"create table {which} as select * from df", df=text_table(which))
        loaded["duck"] = True


def text_polars(name, df):
    one = lambda r: (r.item(),)
    last = lambda r: (r.height, r[:, -1].sum())
    jobs = {
        "read": (lambda: pl.read_csv(f"{folder}/texts_{int(rows) // 2}.csv"), last),
        "contains": (lambda: df.filter(c("s").str.contains("bacone", literal=True))
                     .select(pl.len()), one),
        "upper": (lambda: df.filter(c("s").str.to_uppercase().str.starts_with("A"))
                  .select(pl.len()), one),
        "group": (lambda: df.group_by("id").agg(pl.len(), c("v").sum()), last),
        "nunique": (lambda: df.select(c("id").n_unique()), one),
        "sort": (lambda: df.select("id", "v").sort("id"),
                 lambda r: (r.height, r["id"][0], r["id"][-1])),
        "join": (lambda: df.select("id", "v").join(text_table("fifth").lazy(), on="id"),
                 last),
        "write": (lambda: df.collect().write_csv(f"{folder}/written_polars.csv"),
                  lambda r: last(text_table("texts"))),
    }
    job, check = jobs[name]

    def run():
        result = job()
        return result.collect() if isinstance(result, pl.LazyFrame) else result
    return run, check


def text_duck(name, source):
    one = lambda r: con.row("select * from r")
    jobs = {
        "read": (f"select * from {source}", lambda r: duck_sum("v")()),
        "contains": (f"select count(*) as n from {source} where contains(s, 'bacone')", one),
        "upper": (f"select count(*) as n from {source} where starts_with(upper(s), 'A')", one),
        "group": (f"select id, count(*) as n, sum(v) as x from {source} group by id",
                  lambda r: duck_sum("x")()),
        "nunique": (f"select count(distinct id) as n from {source}", one),
        "sort": (f"select id, v from {source} order by id",
                 lambda r: con.row("select count(*), min(id), max(id) from r")),
        "join": (f"select id, v, w from {source} join fifth using (id)",
                 lambda r: duck_sum("w")()),
    }
    if name == "write":
        target = f"{folder}/written_duckdb.csv"
        return (lambda: con.rows(f"copy {source} to '{target}' (header, delimiter ',')"),
                lambda r: con.row("select count(*), sum(v) from texts"))
    query, check = jobs[name]
    return lambda: duck(query), lambda r: check(r)


def text(name, peer):
    name, _, file = name.partition(".")
    path = f"{folder}/texts_{int(rows) // 2}.csv"
    if peer == "polars":
        if name == "join":
            text_table("fifth")
        df = pl.scan_csv(path) if file or name == "read" else text_table("texts").lazy()
        return text_polars(name, df)
    text_duck_tables()
    return text_duck(name, f"read_csv('{path}')" if file or name == "read" else "texts")


def packed(peer):
    if peer == "polars":
        return lambda: pl.read_csv(csv + ".gz"), lambda r: (r.height, r["v1"].sum())
    return lambda: duck(f"select * from read_csv('{csv}.gz')"), lambda r: duck_sum("v1")()


def lines(peer):
    path = f"{folder}/lines_{int(rows) // 5}.csv"
    if peer == "polars":
        return (lambda: pl.read_ndjson(path).lazy().group_by("id1", "id2")
                .agg(pl.len(), c("v1").sum()).collect(), lambda r: (r.height, r["v1"].sum()))
    return (lambda: duck("select id1, id2, count(*) as n, sum(v1) as x from "
                         f"read_json('{path}', format='newline_delimited') group by id1, id2"),
            lambda r: duck_sum("x")())


def read(peer):
    if peer == "polars":
        return lambda: pl.read_csv(csv), lambda r: (r.height, r["v1"].sum())
    if peer == "duckdb":
        return lambda: duck(f"select * from read_csv('{csv}')"), lambda r: duck_sum("v1")()
    if peer == "pyarrow":
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.csv as pacsv
        pa.set_cpu_count(int(threads))
        return lambda: pacsv.read_csv(csv), lambda r: (r.num_rows, pc.sum(r["v1"]).as_py())
    import pandas as pd
    return lambda: pd.read_csv(csv), lambda r: (len(r), int(r["v1"].sum()))


def read_agg(peer):
    if peer == "polars":
        return (lambda: pl.scan_csv(csv).filter(c("v3") > 50).select(pl.len(), c("v1").sum())
                .collect(engine="streaming").row(0), lambda r: r)
    return (lambda: con.row(f"select count(*), sum(v1) from read_csv('{csv}') where v3 > 50"), lambda r: r)


def work(name, peer):
    kind, _, rest = name.partition(".")
    if kind == "group":
        return top(peer) if rest == "g8" else group(rest, peer)
    if kind == "sort":
        return sort(rest, peer)
    if kind == "join":
        return join(rest, peer)
    if name == "csv.gz":
        return packed(peer)
    if kind == "json":
        return lines(peer)
    if kind == "text":
        return text(rest, peer)
    return read_agg(peer) if rest == "agg" else read(peer)


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


ready("duckdb", "pyarrow", "pandas")
for line in sys.stdin:
    if line.startswith("memory"):
        print(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, flush=True)
        continue
    try:
        job, check = work(*line.split())
        before, start = cpu(), time.perf_counter()
        result = job()
        seconds, used = time.perf_counter() - start, cpu() - before
        print(repr(seconds), repr(used), *check(result), flush=True)
        del result
    except Exception as problem:
        print("-1", type(problem).__name__, str(problem).replace("\n", " ")[:200], flush=True)
