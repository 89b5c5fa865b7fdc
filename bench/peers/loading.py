"""Shuffled batches of 256 by hand in NumPy: an epoch a turn; "seconds cpu-seconds-a-record".

    loading.py 3k | 52b
"""
import sys
import time

import numpy as np

BATCH = 256
which = sys.argv[1]
random = np.random.default_rng(0)
if which == "3k":
    images = random.integers(0, 256, (50_000, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(50_000, dtype=np.int32) % 10
    count = len(images)
else:
    rows = random.normal(size=(1_000_000, 13)).astype(np.float32)
    count = len(rows)


def epoch():
    done = 0
    order = random.permutation(count)
    for at in range(0, count - BATCH + 1, BATCH):
        some = order[at:at + BATCH]
        if which == "3k":
            images[some].astype(np.float32) * np.float32(1 / 255), labels[some]
        else:
            rows[some]
        done += BATCH
    return done


epoch()
print("ready", flush=True)
for _ in sys.stdin:
    busy, start = time.process_time(), time.perf_counter()
    done = epoch()
    print(repr(time.perf_counter() - start), repr((time.process_time() - busy) / done), flush=True)
