"""Polars (streaming) on the main job: python main_job.py FOLDER finite|max THREADS"""
import os
import sys

folder, kind, threads = sys.argv[1], sys.argv[2], sys.argv[3]
os.environ["POLARS_MAX_THREADS"] = threads
try:
    import numpy as np
    import polars as pl
except ImportError:
    sys.exit("missing")
from serve import serve

frame = pl.DataFrame({"revenue": np.load(f"{folder}/revenue.npy"),
                      "sessions": np.load(f"{folder}/sessions.npy")})
keep = pl.col("revenue") > 50
last = pl.col("rps").max()
if kind == "finite":
    keep = keep & (pl.col("sessions") > 0)
    last = pl.col("rps").mean()
query = (frame.lazy().filter(keep)
         .with_columns(rps=pl.col("revenue") / pl.col("sessions"))
         .select(pl.col("revenue").sum(), pl.col("sessions").sum(), last))
serve(lambda: query.collect(engine="streaming").row(0))
