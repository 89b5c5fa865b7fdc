"""Writes sorting.txt: what NumPy gives along a dim: orders and prefixes, both ways.

    python tests/golden/make_sorting.py        (NumPy 2.x, ml_dtypes)

One case a line, as in routines.txt: operation, dim, operands, '>', results. Descending orders are those of
keys turned over, with NaN last. Prefix sums of floats are computed as fractions (make_routines.py).
"""
import contextlib
import io
import pathlib
import runpy

import numpy as np

HERE = pathlib.Path(__file__).parent
before = (HERE / "routines.txt").read_bytes()
with contextlib.redirect_stdout(io.StringIO()):
    m = runpy.run_path(str(HERE / "make_routines.py"))
assert (HERE / "routines.txt").read_bytes() == before, "routines.txt is not what its script writes"
DTYPES, FLOATS, SHAPES, text = m["DTYPES"], m["FLOATS"], m["SHAPES"], m["text"]
rng = m["rng"] = np.random.default_rng(12)
values = m["values"]
values.__globals__["rng"] = rng
lines = []


def case(op, dim, operands, *results):
    lines.append(" ".join([op, str(dim), *map(text, operands), ">", *map(text, results)]))


def keys(a):
    """Numbers in the order of the values: wide floats, or exact integers as objects."""
    return a.astype("f8") if m["NAMES"][a.dtype] in FLOATS else a.astype(object)


def order(a, dim, down):
    k = keys(a)
    if down:
        k = -k
    return np.argsort(k, dim, kind="stable")  # -nan is nan: last


def turned(f, a, dim):
    return np.flip(f(np.flip(a, dim)), dim)


with np.errstate(all="ignore"):
    for shape in SHAPES:
        for name in DTYPES:
            dim = int(rng.integers(-len(shape), len(shape)))
            a = values(name, shape)
            o = order(a, dim, True)
            case("descending", dim, [a], np.take_along_axis(a, o, dim), o.astype("i8"))
    for shape in ((9,), (4, 5), (2, 3, 4)):
        for name in list(DTYPES)[1:]:
            dim = int(rng.integers(0, len(shape)))
            low = 0 if name.startswith("u") else -1
            a, b = values(name, shape), rng.integers(low, 2, shape).astype(DTYPES[name])
            c = rng.integers(0, 2, shape).astype("u1")
            case("lexsort", dim, [a, b, c], np.lexsort((keys(a), b, c), dim).astype("i8"))
            case("partition", dim - len(shape), [a], np.take_along_axis(a, order(a, dim, False), dim),
                 order(a, dim, False).astype("i8"))
    for shape in ((9,), (3, 4), (2, 3, 2)):
        for name in DTYPES:
            dim = int(rng.integers(0, len(shape)))
            a = values(name, shape)
            case("cumsum_back", dim, [a], turned(lambda x: m["cumsum"](x, dim), a, dim))
            if name in FLOATS:
                case("nancumsum", dim, [a], m["cumsum"](np.where(np.isnan(a), np.array(0, a.dtype), a), dim))
            if name in ("f32", "f64"):
                case("nancumprod", dim - len(shape), [a], np.nancumprod(a.astype("f8"), dim).astype(a.dtype))
                case("cumprod_back", dim, [a], turned(lambda x: np.cumprod(x.astype("f8"), dim), a, dim)
                     .astype(a.dtype))
            if name != "bool":
                case("cummax_back", dim, [a], turned(lambda x: m["extreme"](x, dim, True), a, dim))
                case("cummin_back", dim - len(shape), [a], turned(lambda x: m["extreme"](x, dim, False), a, dim))
(HERE / "sorting.txt").write_text("\n".join(lines) + "\n")
