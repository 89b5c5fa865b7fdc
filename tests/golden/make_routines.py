"""Writes routines.txt: what NumPy gives for the operations that run as device routines.

    python tests/golden/make_routines.py        (NumPy 2.x, ml_dtypes)

One case a line: operation, dim, operands, '>', results; an array is dtype:shape:bits in hexadecimal.
Prefix sums of floats are computed as fractions and rounded once.
"""
import math
import pathlib
from fractions import Fraction

import ml_dtypes
import numpy as np

rng = np.random.default_rng(5)
DTYPES = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
          "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
          "f32": np.float32, "f64": np.float64}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
FLOATS = ("f16", "bf16", "f32", "f64")
SHAPES = ((9,), (3, 4), (4, 1, 3), (2, 3, 2, 2), (3, 0, 2))
lines = []


def text(a):
    bits = a.reshape(-1).view({1: "u1", 2: "u2", 4: "u4", 8: "u8"}[a.dtype.itemsize])
    return ":".join([NAMES[a.dtype], "x".join(map(str, a.shape)), ",".join(f"{int(b):x}" for b in bits)])


def case(op, dim, operands, *results):
    lines.append(" ".join([op, str(dim), *map(text, operands), ">", *map(text, results)]))


def values(name, shape):
    dtype, n = DTYPES[name], math.prod(shape)
    if name == "bool":
        return rng.integers(0, 2, shape).astype(dtype)
    if name not in FLOATS:
        info = np.iinfo(dtype)
        odd = rng.choice(np.array([info.min, info.max, 0, 1], dtype), n)
        near = rng.integers(0 if info.min == 0 else -20, 20, n).astype(dtype)
        return np.where(rng.random(n) < 0.3, odd, near).reshape(shape)
    odd = rng.choice([0.0, -0.0, math.nan, math.inf, -math.inf], n)
    wide = rng.standard_normal(n) * 2.0 ** rng.integers(-10, 10, n)
    return np.where(rng.random(n) < 0.15, odd, wide).astype(dtype).reshape(shape)


# ---- prefix sums ----

def rounded(total, name):
    """A fraction rounded once to a float, ties to even."""
    bits, lowest, top = {"f16": (11, -24, 16), "bf16": (8, -133, 128), "f32": (24, -149, 128),
                         "f64": (53, -1074, 1024)}[name]
    size, step = abs(total), lowest
    while size / Fraction(2) ** step >= 2 ** bits:
        step += 1
    whole = round(size / Fraction(2) ** step)  # ties to even
    if whole * Fraction(2) ** step >= Fraction(2) ** top:
        return math.copysign(math.inf, total)
    return math.copysign(math.ldexp(whole, step), total)


def prefix(line, name):
    total, special, negative, out = Fraction(0), 0.0, True, []
    for value in map(float, line):
        if math.isfinite(value):
            total += Fraction(value)
        else:
            special += value
        negative = negative and value == 0 and math.copysign(1, value) < 0
        out.append(special if special != 0 else rounded(total, name) if total else -0.0 if negative else 0.0)
    return np.array(out, DTYPES[name])


def cumsum(a, dim):
    name = NAMES[a.dtype]
    if name in FLOATS:
        return np.apply_along_axis(prefix, dim, a, name).astype(a.dtype) if a.size else a
    return np.cumsum(a, dim, dtype="u8" if name.startswith("u") else "i8")


with np.errstate(all="ignore"):
    for shape in SHAPES:
        for name in DTYPES:
            dim = int(rng.integers(-len(shape), len(shape)))
            a = values(name, shape)
            case("cumsum", dim, [a], cumsum(a, dim))
            a = values(name, shape)
            order = np.argsort(a.astype("f4") if name == "bf16" else a, dim, kind="stable")
            case("sort", dim, [a], np.take_along_axis(a, order, dim), order.astype("i8"))

# ---- adding at places: one sum a place, by fractions for floats ----

def total(values, name):
    if name in FLOATS:
        return prefix(values, name)[-1]
    return np.array([int(v) for v in values], object).sum() % 2 ** 64


def scatter_add(a, at, updates, dim):
    name, out = NAMES[a.dtype], a.copy()
    for place in np.ndindex(a.shape):
        values = [a[place]]
        for j in np.ndindex(at.shape):
            if at[j] % a.shape[dim] == place[dim]:
                values.append(updates[(*place[:dim], *j, *place[dim + 1:])])
        value = total(values, name)
        out[place] = value if name in FLOATS else np.array(value, "u8").astype(DTYPES[name])
    return out


with np.errstate(all="ignore"):
    for shape, dim, places in (((9,), 0, (7,)), ((3, 4), 1, (2, 2)), ((2, 3, 2), 1, (5,)), ((4, 3), 0, ())):
        for name in tuple(DTYPES)[1:]:
            a = values(name, shape)
            at = np.asarray(rng.integers(-shape[dim], shape[dim], places)).astype(rng.choice(["i4", "i8", "i1"]))
            updates = values(name, (*shape[:dim], *places, *shape[dim + 1:]))
            case("scatter_add", dim - len(shape) * (dim % 2), [a, np.asarray(at), updates],
                 scatter_add(a, np.asarray(at), updates, dim))

# ---- matrix products: NumPy's where nothing can round ----

with np.errstate(all="ignore"):
    for left, right in (((3, 4), (4, 5)), ((1, 7), (7, 1)), ((2, 3, 2), (2, 2, 4)), ((7, 9), (9, 2)), ((2, 0), (0, 3))):
        for name in tuple(DTYPES)[1:]:
            low = 0 if name.startswith("u") else -6
            a, b = (rng.integers(low, 7, shape).astype(DTYPES[name]) for shape in (left, right))
            if name not in FLOATS:  # wraps
                a = np.where(rng.random(left) < 0.3, np.iinfo(a.dtype).max, a)
            else:
                b = (b.astype("f8") / 2).astype(b.dtype)
            exact = a.astype("f8") @ b.astype("f8") if name in FLOATS else a @ b
            case("matmul", 0, [a, b], exact.astype(DTYPES[name]))

# ---- other prefixes; -0 is below 0, which NumPy leaves open ----

def ordered(a):
    """Floats as integers in the order of the values, NaN apart."""
    bits = a.astype("f8").view("i8")
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def extreme(a, dim, largest):
    out = a.copy()
    for at in np.ndindex(a.shape):
        if at[dim] == 0:
            continue
        before = out[(*at[:dim], at[dim] - 1, *at[dim + 1:])]
        x, y = (ordered(np.asarray(v)) if NAMES[a.dtype] in FLOATS else int(v) for v in (before, a[at]))
        keep = before != before or (a[at] == a[at] and (x >= y if largest else x <= y))
        out[at] = before if keep else a[at]
    return out


with np.errstate(all="ignore"):
    for shape in SHAPES:
        for name in tuple(DTYPES)[1:]:
            dim = int(rng.integers(0, len(shape)))
            a = values(name, shape)
            case("cummax", dim, [a], extreme(a, dim, True))
            case("cummin", dim - len(shape), [a], extreme(a, dim, False))
            wide = "f8" if name in FLOATS else "u8" if name.startswith("u") else "i8"
            products = np.cumprod(a.astype(wide), dim)
            if name in ("f16", "bf16"):  # NumPy's cast would round twice
                products = np.array([rounded(Fraction(v), name) if math.isfinite(v) and v else v
                                     for v in products.reshape(-1)]).reshape(shape)
            case("cumprod", dim, [a], products.astype(DTYPES[name]) if name in FLOATS else products)

# ---- the largest few: jax.lax.top_k's order, but that -0 and 0 are equal ----

for shape in ((9,), (3, 4), (4, 2, 3)):
    for name in DTYPES:
        dim = int(rng.integers(0, len(shape)))
        a = values(name, shape)
        wide = a.astype("f4") if name in ("bf16", "f16") else a
        back = np.flip(np.argsort(np.flip(wide, dim), dim, kind="stable"), dim)  # ties: the later first
        order = np.take(a.shape[dim] - 1 - back, [0, 1], dim)
        case("top_k", dim - len(shape), [a], np.take_along_axis(a, order, dim), order.astype("i8"))
pathlib.Path(__file__).with_name("routines.txt").write_text("\n".join(lines) + "\n")
