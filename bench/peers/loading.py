"""Shuffled batches of 256 from memory: an epoch a turn; "seconds cpu-seconds-a-record".

    loading.py numpy|torch|torch2|grain|grain_batch|tfdata 3k|52b

torch2 has two workers, whose processor time counts; grain maps records, grain_batch batches.
"""
import os
import resource
import sys
import time

import numpy as np
from serve import ready

BATCH = 256
peer, which = sys.argv[1:3]
random = np.random.default_rng(0)
SCALE = np.float32(1 / 255)
if which == "3k":
    images = random.integers(0, 256, (50_000, 32, 32, 3), dtype=np.uint8)
    fields = images, np.arange(50_000, dtype=np.int32) % 10
else:
    fields = (random.normal(size=(1_000_000, 13)).astype(np.float32),)
count = len(fields[0])


def scaled(record):
    return (record[0].astype(np.float32) * SCALE, *record[1:]) if which == "3k" else record


def of_numpy():
    def batches():
        order = random.permutation(count)
        for at in range(0, count - BATCH + 1, BATCH):
            some = order[at:at + BATCH]
            yield scaled(tuple(f[some] for f in fields))
    return batches


def of_torch():
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Records(Dataset):
        def __len__(self):
            return count

        def __getitem__(self, i):
            if which == "3k":
                return torch.from_numpy(images[i]).float() / 255, fields[1][i]
            return torch.from_numpy(fields[0][i])

    workers = 2 if peer == "torch2" else 0
    return lambda: DataLoader(Records(), BATCH, shuffle=True, drop_last=True, num_workers=workers)


def of_grain():
    import grain

    class Records:
        def __len__(self):
            return count

        def __getitem__(self, i):
            return tuple(f[i] for f in fields)

    shuffled = grain.MapDataset.source(Records()).shuffle(seed=1)
    if peer == "grain":
        whole = shuffled.map(scaled).batch(BATCH, drop_remainder=True)
    else:
        whole = shuffled.batch(BATCH, drop_remainder=True).map(scaled)
    in_memory = grain.ReadOptions(num_threads=0)  # as its guide says of data in memory
    return lambda: whole.to_iter_dataset(read_options=in_memory)


def of_tfdata():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    auto = tf.data.AUTOTUNE
    whole = tf.data.Dataset.from_tensor_slices(fields).shuffle(count)
    if which == "3k":
        whole = whole.map(lambda x, y: (tf.cast(x, tf.float32) / 255, y), auto)
    whole = whole.batch(BATCH, drop_remainder=True).prefetch(auto)
    return lambda: whole


def cpu():
    """Seconds of this process and of the workers that have ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(r.ru_utime + r.ru_stime for r in spent)


def epoch(batches, most=None):
    done = 0
    for _ in batches():
        done += BATCH
        if done == most:
            break
    return done


makers = {"numpy": of_numpy, "torch": of_torch, "torch2": of_torch, "grain": of_grain, "grain_batch": of_grain,
          "tfdata": of_tfdata}
try:
    batches = makers[peer]()
except ImportError:
    sys.exit("missing")
epoch(batches, None if peer == "numpy" else 4 * BATCH)
ready()
for _ in sys.stdin:
    busy, start = cpu(), time.perf_counter()
    done = epoch(batches)
    seconds = time.perf_counter() - start
    print(repr(seconds), repr((cpu() - busy) / done), repr(seconds / done), flush=True)
