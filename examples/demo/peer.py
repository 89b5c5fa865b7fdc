"""The pass of the large example by Polars, over draws of its own; a line as large.c prints them.
Prints nothing and fails where Polars or NumPy is not installed or memory is short.

   peer.py ROWS"""
import os
import statistics
import sys
import time

rows = int(sys.argv[1])
try:
    import numpy
    import polars
except ImportError:
    sys.exit(1)

BYTES = 16  # a row
ROUNDS = 5


def available():
    with open("/proc/meminfo") as info:
        for line in info:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def job(frame):
    kept = frame.lazy().filter(polars.col("revenue") > 50)
    kept = kept.with_columns(each=polars.col("revenue") / polars.col("sessions"))
    return kept.select(
        polars.col("revenue").sum(), polars.col("sessions").sum(), polars.col("each").mean()
    ).collect()


if available() < 4 * rows * BYTES:
    sys.exit(1)
draw = numpy.random.default_rng(1)
frame = polars.DataFrame(
    {"revenue": draw.exponential(100, rows), "sessions": draw.poisson(5, rows)}
)
job(frame)
took = []
for _ in range(ROUNDS):
    start = time.perf_counter()
    job(frame)
    took.append(time.perf_counter() - start)
middle = statistics.median(took)
print(
    f"{'Polars':>7}  {middle * 1e3:7.2f} ms  {rows / middle:14,.0f}"
    f"  {rows * BYTES / middle / 1e9:5.1f} GB/s  {polars.__version__}, {os.cpu_count()} cores"
)
