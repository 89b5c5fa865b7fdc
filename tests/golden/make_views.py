"""Writes views.txt: what NumPy gives for chains of views of 0.0, 1.0, 2.0, ...

    python tests/golden/make_views.py        (NumPy 2.x)

One case a line: the leaf's shape, the views, the result's shape, its elements:

    3,4 | slice 2 0 2 1 E E -1 ; transpose 2 1 0 | 4,2 | 3,7,...

Numbers of a view: how many ranges or dims, and those; E is a bound left out. Of a pad: how many dims, what
is before and after each, the value. Concat: 1, along which dim the array, itself turned, and itself again.
"""
import pathlib

import numpy as np

rng = np.random.default_rng(5)
lines = []


def bound(size):
    return None if rng.random() < 0.4 else int(rng.integers(-size - 2, size + 3))


def slices(x):
    count = int(rng.integers(0, x.ndim + 1))
    parts, words = [], [str(count)]
    for d in range(count):
        step = int(rng.choice([1, 1, 2, 3, -1, -2, -5]))
        part = slice(bound(x.shape[d]), bound(x.shape[d]), step)
        parts.append(part)
        words += ["E" if v is None else str(v) for v in (part.start, part.stop, step)]
    return x[tuple(parts)], "slice " + " ".join(words)


def transpose(x):
    if rng.random() < 0.3:
        return x.T, "transpose 0"
    order = rng.permutation(x.ndim)
    named = [int(d) - (x.ndim if rng.random() < 0.3 else 0) for d in order]
    return x.transpose(order), " ".join(["transpose", str(x.ndim), *map(str, named)])


def flip(x):
    dims = [d for d in range(x.ndim) if rng.random() < 0.5]
    return np.flip(x, dims or None), " ".join(["flip", str(len(dims)), *map(str, dims)])


def broadcast(x):
    shape = [int(rng.integers(0, 4)) if n == 1 else n for n in x.shape]
    shape = [int(n) for n in rng.integers(1, 3, rng.integers(0, 2))] + shape
    return np.broadcast_to(x, shape), " ".join(["broadcast", str(len(shape)), *map(str, shape)])


def pad(x):
    widths = [tuple(int(n) for n in rng.integers(0, 3, 2)) for _ in x.shape]
    words = ["pad", str(x.ndim), *(str(n) for pair in widths for n in pair), "-7"]
    return np.pad(x, widths, constant_values=-7) if x.ndim else x, " ".join(words)


def concat(x):
    """The array, itself turned, and itself again."""
    dim = int(rng.integers(0, max(x.ndim, 1)))
    return np.concatenate([x, np.flip(x), x], dim) if x.ndim else x, f"concat 1 {dim}"


for _ in range(500):
    shape = tuple(int(n) for n in rng.integers(1, 7, rng.integers(0, 5)))
    x = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
    words = []
    for _ in range(rng.integers(1, 5)):
        x, word = rng.choice([slices, slices, transpose, flip, broadcast, pad, concat])(x)
        words.append(word)
    if x.ndim > 8 or x.size > 2000:
        continue
    text = [",".join(map(str, shape)), " ; ".join(words), ",".join(map(str, x.shape))]
    lines.append(" | ".join([*text, ",".join(str(int(v)) for v in x.ravel())]))

pathlib.Path(__file__).with_name("views.txt").write_text("\n".join(lines) + "\n")
