"""Writes dtypes.txt: casts between all element types, elementwise results and sums of the narrow ones.

    python tests/golden/make_dtypes.py        (JAX, 64-bit types on)

One case a line: what, the operands' dtype, the result's dtype, the operands' bits and the result's
bits, in hexadecimal. Floats that leave the range of an integer type are left out: JAX does not say
what they give; and integers beyond 2^24 that become 16-bit floats, which it rounds twice, by way of
f32. Sums are of small values, exact in any order.
"""
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

names = {
    "bool": jnp.bool_, "i8": jnp.int8, "i16": jnp.int16, "i32": jnp.int32, "i64": jnp.int64,
    "u8": jnp.uint8, "u16": jnp.uint16, "u32": jnp.uint32, "u64": jnp.uint64,
    "f16": jnp.float16, "bf16": jnp.bfloat16, "f32": jnp.float32, "f64": jnp.float64,
}
ours = {jnp.dtype(dtype): name for name, dtype in names.items()}
lines = []


def bits(array):
    array = np.asarray(array)
    width = array.dtype.itemsize
    return ",".join(f"{int(v):x}" for v in np.ravel(array).view(f"u{width}"))


def case(what, result, *operands):
    parts = [what, ours[operands[0].dtype], ours[result.dtype]]
    lines.append(" ".join(parts + [bits(o) for o in operands] + [bits(result)]))


def edges(name):
    dtype = names[name]
    if name == "bool":
        return jnp.array([False, True])
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        wide = [0, 1, 2, 77, 100, info.max, info.max - 1, info.min, info.min + 1, info.max // 3,
                info.max // 2 + 1]
        wide += [-1, -2, -100] if info.min < 0 else []
        wide += [2**24 + 1, 2**33 + 2**25 + 1] if info.bits == 64 else []
        wide += [2**63 + 2**55 + 1, 2**63 + 1] if name == "u64" else []
        return jnp.array(np.array(wide, dtype=np.dtype(dtype)))
    info = jnp.finfo(dtype)
    small = [0.0, -0.0, 1.0, -1.5, 2.5, 3.14159, 100.25, 127.0, -128.0, 255.0, float(info.tiny),
             float(info.max), float("inf"), float("nan"), 65504.0, 65519.0, 65520.0, 1.00048828125,
             1.00390625, 2.0**-24, 2.0**-25]
    return jnp.array(small, dtype=dtype)


def in_range(values, to):
    if jnp.issubdtype(values.dtype, jnp.integer) and to in (jnp.float16, jnp.bfloat16):
        return values[np.array([abs(int(v)) <= 2**24 for v in np.asarray(values)])]
    if not jnp.issubdtype(values.dtype, jnp.floating) or not jnp.issubdtype(to, jnp.integer):
        return values
    info = jnp.iinfo(to)
    wide = np.asarray(values).astype(np.float64)
    keep = np.isfinite(wide) & (np.trunc(wide) >= float(info.min)) & (np.trunc(wide) < float(info.max))
    return values[keep]


for name in names:
    for to in names:
        x = in_range(edges(name), names[to])
        y = x != 0 if to == "bool" else x.astype(names[to])
        case("cast", y, x)

rng = np.random.default_rng(3)
for name in ("i8", "i16", "u8", "u16", "u32", "u64"):
    info = jnp.iinfo(names[name])
    a = jnp.array(rng.integers(info.min, info.max, 40, dtype=np.dtype(names[name]), endpoint=True))
    b = jnp.array(rng.integers(info.min, info.max, 40, dtype=np.dtype(names[name]), endpoint=True))
    b = jnp.where(b == 0, 3, b).astype(names[name])
    for what, fn in (("add", jnp.add), ("sub", jnp.subtract), ("mul", jnp.multiply),
                     ("floordiv", jnp.floor_divide), ("mod", jnp.remainder), ("lt", jnp.less),
                     ("maximum", jnp.maximum)):
        case(what, fn(a, b), a, b)
    case("sum", jnp.sum(a), a)
    case("min", jnp.min(a), a)
    case("max", jnp.max(a), a)
for name in ("f16", "bf16"):
    a = jnp.array(rng.standard_normal(60) * 8, dtype=names[name])
    b = jnp.array(rng.standard_normal(60) * 8, dtype=names[name])
    for what, fn in (("add", jnp.add), ("sub", jnp.subtract), ("mul", jnp.multiply),
                     ("div", jnp.divide), ("lt", jnp.less), ("maximum", jnp.maximum)):
        case(what, fn(a, b), a, b)
    small = jnp.array(rng.integers(-8, 8, 30), dtype=names[name])
    case("sum", jnp.sum(small), small)
    case("max", jnp.max(a), a)
(pathlib.Path(__file__).parent / "dtypes.txt").write_text("\n".join(lines) + "\n")
