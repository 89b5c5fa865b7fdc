"""Writes shapes.txt: what NumPy makes of calls that are compositions here, one a line:

    shape | call numbers | shape | elements

of an array 0, 1, 2 ... of f64. Numbers are the call's in its order; `range` calls have no operand.

  make_shapes.py > shapes.txt
"""

import numpy as np

rng = np.random.default_rng(12)


def emit(shape, call, out):
    dims = ",".join(map(str, shape))
    sizes = ",".join(map(str, np.shape(out)))
    values = ",".join(f"{float(x):.17g}" for x in np.ravel(out))
    print(f"{dims} | {call} | {sizes} | {values}")


def array(*shape):
    return np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape)


for shape in [(7,), (3, 5), (4, 1), (2, 3, 4), (0, 3), (1,)]:
    x = array(*shape)
    for dim in range(len(shape)):
        other = int(rng.integers(0, len(shape)))
        emit(shape, f"moveaxis {dim} {other}", np.moveaxis(x, dim, other))
        emit(shape, f"swapaxes {dim} {other}", np.swapaxes(x, dim, other))
        for n in (0, 1, 3):
            emit(shape, f"diff {n} {dim}", np.diff(x, n, dim))
            emit(shape, f"repeat {n} {dim}", np.repeat(x, n, dim))
        shift = int(rng.integers(-9, 9))
        emit(shape, f"roll {shift} {dim}", np.roll(x, shift, dim))
        for part, piece in enumerate(np.array_split(x, 3, dim)):
            emit(shape, f"split 3 {part} {dim}", piece)
        if shape[dim]:
            low, high = (int(n) for n in rng.integers(0, 2 * shape[dim] + 3, 2))
            widths = [(low, high) if d == dim else (0, 0) for d in range(len(shape))]
            for mode, name in enumerate(("edge", "wrap", "reflect", "symmetric"), 1):
                emit(shape, f"pad {mode} {low} {high} {dim}", np.pad(x, widths, name))
        for n in range(4):
            if dim != other:
                emit(shape, f"rot90 {n} {dim} {other}", np.rot90(x, n, (dim, other)))
    for dim in range(len(shape) + 1):
        emit(shape, f"stack {dim}", np.stack([x, x + 1], dim))
    for times in ([2], [2, 3], [1, 0], [3, 1, 2], [37]):
        emit(shape, f"tile {' '.join(map(str, times))}", np.tile(x, times))
    for k in (-2, 0, 1, 9):
        if len(shape) <= 2:
            emit(shape, f"diag {k}", np.diag(x, k))
        if len(shape) >= 2:
            emit(shape, f"tril {k}", np.tril(x, k))
            emit(shape, f"triu {k}", np.triu(x, k))
    emit(shape, "atleast 3", np.atleast_3d(x))
    emit(shape, "atleast 2", np.atleast_2d(x))
for rows, columns, k in [(3, 4, 0), (4, 3, -1), (2, 2, 5), (0, 3, 0)]:
    emit((), f"eye {rows} {columns} {k}", np.eye(rows, columns, k))
for start, stop, step in [(0, 10, 1), (3, -4, -2), (0, 1, 0.25), (5, 5, 1), (-2.5, 3, 1.5), (1, 0, 1)]:
    emit((), f"arange {start} {stop} {step}", np.arange(start, stop, step))
for start, stop, count, is_open in [(0, 1, 5, 0), (0, 1, 7, 1), (-3.3, 9.7, 50, 0), (2, 2, 3, 0), (1, 9, 1, 0), (0, 1, 0, 0), (0.1, 0.7, 33, 1)]:
    emit((), f"linspace {start} {stop} {count} {is_open}", np.linspace(start, stop, count, endpoint=not is_open))
for shape in [(3,), (4, 3)]:
    x = array(*shape)
    for counts in [(2, 0, 1), (0, 0, 3)]:
        emit(shape, f"each {' '.join(map(str, counts))}", np.repeat(x, counts, len(shape) - 1))
