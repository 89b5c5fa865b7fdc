#!/usr/bin/env python3
"""What NumPy makes of choosing, finding and counting: tests/golden/indexing.txt.

  tests/golden/make_indexing.py > tests/golden/indexing.txt

A line is a case: its name and its integers, the arrays that go in and, behind '>', those that come out. An
array is its dtype, its dims and its elements, floats in hexadecimal: f64:2x2:0x1p+0,nan,-0x0p+0,inf.
"""

import numpy as np

rng = np.random.default_rng(12)


def text(array):
    array = np.asarray(array)
    kind = {"b": "bool", "f": f"f{array.dtype.itemsize * 8}", "u": f"u{array.dtype.itemsize * 8}",
            "i": f"i{array.dtype.itemsize * 8}"}[array.dtype.kind]
    values = [float(v).hex() if kind[0] == "f" else str(int(v)) for v in array.ravel()]
    return f"{kind}:{'x'.join(map(str, array.shape))}:{','.join(values)}"


def case(name, numbers, ins, outs):
    print(name, *numbers, *map(text, ins), ">", *map(text, outs))


def numbers(shape, dtype):
    if np.dtype(dtype).kind == "f":
        x = rng.integers(-6, 7, shape) / 2 if rng.integers(2) else rng.normal(size=shape)
        x = np.asarray(x).astype(dtype)
        if x.size > 4 and rng.integers(2):
            flat = x.ravel()
            flat[[0, -2]], flat[1], flat[-1] = np.nan, -0.0, np.inf
        return x
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = rng.integers(max(low, -5), 6, shape).astype(dtype)
    if x.size > 4:
        x.ravel()[0], x.ravel()[1] = low, high
    return x


def finite(shape, dtype):
    return np.nan_to_num(numbers(shape, dtype).astype("f8"), nan=0, posinf=2, neginf=-2).astype(dtype) \
        if np.dtype(dtype).kind == "f" else rng.integers(0, 9, shape).astype(dtype)


TYPES = ["i1", "u8", "f4", "f8"]
SHAPES = [(7,), (0,), (17,), (3, 5)]

for t in TYPES:
    for shape in SHAPES:
        x = numbers(shape, t)
        table = np.sort(numbers((int(rng.integers(0, 12)),), t))
        for right in (0, 1):
            case("searchsorted", [right], [table, x], [np.searchsorted(table, x, ["left", "right"][right])])
        bins = np.unique(finite((8,), t))
        for turned in (bins, bins[::-1]):
            for right in (0, 1):
                case("digitize", [right], [x, turned], [np.digitize(x, turned, bool(right))])
        among = numbers((5,), t)
        case("isin", [], [x, among], [np.isin(x, among)])
        if len(shape) == 1:
            mask = rng.integers(0, 2, shape).astype(bool)
            for count in (0, 3, 9):
                kept = np.compress(mask, x)
                kept = np.concatenate([kept, np.zeros(count, t)])[:count].astype(t)
                case("compress", [count], [x, mask], [kept])
                where = np.concatenate([np.nonzero(x)[0], np.full(count, -1)])[:count]
                case("nonzero", [count], [x], [where])
            values, index, inverse, counts = np.unique(x, return_index=True, return_inverse=True,
                                                       return_counts=True)
            if x.size:
                for count in (len(values), len(values) + 3):
                    more = count - len(values)
                    case("unique", [count], [x],
                         [np.concatenate([x[index], np.repeat(x[index][:1], more)]),
                          np.concatenate([index, np.zeros(more, "i8")]).astype("i8"), inverse,
                          np.concatenate([counts, np.zeros(more, "i8")]).astype("i8")])
        y = finite(shape, t)
        edges = np.array([0, 1, 1.5, 4, 7]).astype(t if t[0] == "f" else "f8")
        counts, _ = np.histogram(y, edges)
        case("histogram_edges", [], [y, edges], [counts])
        for bins in (1, 10):
            counts, edges = np.histogram(y, bins)
            case("histogram", [bins], [y], [counts, edges])
        if y.size:
            density, edges = np.histogram(y, 4, density=True)
            case("density", [4], [y], [density])
for shape in SHAPES:
    x = rng.integers(0, 9, shape).astype("i4")
    weights = rng.integers(-64, 65, shape) / 8
    case("bincount", [12], [x], [np.bincount(x.ravel(), minlength=12)])
    case("weights", [12], [x, weights], [np.bincount(x.ravel(), weights.ravel(), 12).astype("f8")])
    wild = rng.integers(-3, 9, shape)
    case("one_hot", [6], [wild], [(wild[..., None] == np.arange(6)).astype("f4")])
    for points in (1, 2, 9):
        xp = np.sort(rng.normal(size=points)) if points != 2 else np.array([0.0, 1.0])
        fp = rng.normal(size=points)
        at = rng.normal(size=shape) * 2
        if at.size > 4:
            at.ravel()[0], at.ravel()[1], at.ravel()[2], at.ravel()[3] = np.nan, xp[0], xp[-1], np.inf
        case("interp", [], [at, xp, fp], [np.interp(at, xp, fp)])
        case("interp_ends", [], [at, xp, fp], [np.interp(at, xp, fp, -7, 9)])
    first, second = rng.integers(0, 2, shape).astype(bool), rng.integers(0, 2, shape).astype(bool)
    a, b = rng.normal(size=shape), rng.integers(-9, 9, shape)
    case("select", [], [first, second, a, b], [np.select([first, second], [a, b], 5)])

# Arrays of any rank: what is found is numbered in C order, or along each dim.
rng = np.random.default_rng(13)
for t in TYPES + ["bool"]:
    for shape in [(), (1,), (3, 5), (2, 0, 3), (2, 3, 4)]:
        x = numbers(shape, t) if t != "bool" else rng.integers(0, 2, shape).astype(bool)
        mask = rng.integers(0, 2, shape).astype(bool)
        for count in (2, 30):
            where = np.array(np.nonzero(np.atleast_1d(x)))
            where = np.concatenate([where, np.full((len(where), count), -1)], 1)[:, :count]
            flat = np.concatenate([np.flatnonzero(x), np.full(count, -1)])[:count]
            case("nonzero", [count], [x], [flat])
            if shape:
                case("nonzero_dims", [count], [x], where)
            kept = x[mask].ravel()
            case("compress", [count], [x, mask], [np.concatenate([kept, np.zeros(count, x.dtype)])[:count]])
        values, index, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        if x.size:
            values, inverse = x.ravel()[index], inverse.reshape(x.shape)
            more = 2
            case("unique", [len(values) + more], [x],
                 [np.concatenate([values, np.repeat(values[:1], more)]),
                  np.concatenate([index, np.zeros(more, "i8")]).astype("i8"), inverse.astype("i8"),
                  np.concatenate([counts, np.zeros(more, "i8")]).astype("i8")])
