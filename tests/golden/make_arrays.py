"""Writes arrays.txt: what NumPy gives for elementwise operations and reductions.

    python tests/golden/make_arrays.py        (NumPy 2.x)

One case a line: operation, dtype, operands and result as hexadecimal floats or integers. Sums are
compared where NumPy's own are exact: operands are multiples of 1/64 below 2^20.
"""
import pathlib

import numpy as np

rng = np.random.default_rng(11)
names = {"float64": "f64", "float32": "f32", "int64": "i64", "int32": "i32", "bool": "bool"}
lines = []


def text(a):
    a = np.atleast_1d(a).ravel()
    if a.dtype.kind == "f":
        return ",".join("nan" if np.isnan(v) else float(v).hex() for v in a)
    return ",".join(str(int(v)) for v in a)


def case(op, result, *operands):
    result = np.asarray(result)
    dtype = names[operands[0].dtype.name]
    lines.append(" ".join([op, dtype, names[result.dtype.name], *(text(o) for o in operands), text(result)]))


def values(dtype, n=23):
    if dtype.startswith("i"):
        return rng.integers(-1000, 1000, n).astype(dtype)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e300 if dtype == "f8" else 1e30])
    return np.concatenate([rng.standard_normal(n - 7) * 10.0 ** rng.integers(-5, 6, n - 7), odd]).astype(dtype)


with np.errstate(all="ignore"):
    for dtype in ("f8", "f4", "i8", "i4"):
        a, b = values(dtype), rng.permutation(values(dtype))
        case("add", a + b, a, b)
        case("sub", a - b, a, b)
        case("mul", a * b, a, b)
        for op, fn in (("lt", np.less), ("le", np.less_equal), ("eq", np.equal), ("ne", np.not_equal),
                       ("gt", np.greater), ("ge", np.greater_equal)):
            case(op, fn(a, b), a, b)
        case("abs", np.abs(a), a)
        case("neg", -a, a)
        if dtype.startswith("f"):
            case("div", a / b, a, b)
            case("floordiv", a // b, a, b)
            case("mod", np.mod(a, b), a, b)
            tenth = np.array([0.1, -0.1, 0.25, 3.0] * 4, dtype)
            whole = np.arange(1, 17).astype(dtype)
            case("floordiv", whole // tenth, whole, tenth)
            case("mod", np.mod(whole, tenth), whole, tenth)
            case("sqrt", np.sqrt(a), a)
            case("floor", np.floor(a), a)
            case("rint", np.rint(a), a)
            dyadic = (rng.integers(-2**20, 2**20, 40) / 64).astype(dtype)
            case("sum", dyadic.sum(dtype="f8").astype(dtype), dyadic)
            case("max", dyadic.max(), dyadic)
            case("min", dyadic.min(), dyadic)
        else:
            case("div", a / np.where(b == 0, 1, b), a, np.where(b == 0, 1, b).astype(dtype))
            case("floordiv", a // np.where(b == 0, 1, b).astype(dtype), a, np.where(b == 0, 1, b).astype(dtype))
            case("mod", a % np.where(b == 0, 1, b).astype(dtype), a, np.where(b == 0, 1, b).astype(dtype))
            case("sum", a.sum(dtype="i8"), a)
            case("prod", a[:5].prod(dtype="i8"), a[:5])
            case("max", a.max(), a)
            case("min", a.min(), a)
            case("mean", np.float64(int(a.sum())) / np.float64(len(a)), a)
pathlib.Path(__file__).with_name("arrays.txt").write_text("\n".join(lines) + "\n")
