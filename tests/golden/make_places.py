"""Writes places.txt: where NumPy finds the smallest and the largest element, of all element types.

    python tests/golden/make_places.py        (NumPy 2.x, and ml_dtypes for bf16)

One case a line: operation, dtype, shape, dims (a number, or "all" for the flattened array), the
operand's bits in hexadecimal, and the places. Few different values make many ties; floats have NaN
and zeros of both signs.
"""
import pathlib

import ml_dtypes
import numpy as np

rng = np.random.default_rng(23)
names = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}
shapes = [(1,), (7,), (23,), (3, 4), (5, 2), (1, 9), (2, 3, 4), (3, 1, 5)]
lines = []


def values(name, shape):
    dtype = names[name]
    count = int(np.prod(shape))
    if name == "bool":
        few = [False, True]
    elif np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        few = [info.min, info.max, 0, 1, info.max // 2 + 1]
    else:
        few = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan]
    few = few[: rng.integers(1, len(few) + 1)]
    return np.array([few[k] for k in rng.integers(0, len(few), count)], dtype=dtype).reshape(shape)


for name in names:
    for shape in shapes:
        for dims in [None, *range(len(shape))]:
            for op, find in (("argmin", np.argmin), ("argmax", np.argmax)):
                x = values(name, shape)
                compared = x.astype(np.float32) if name == "bf16" else x
                places = np.atleast_1d(find(compared, axis=dims)).ravel()
                bits = ",".join(f"{int(v):x}" for v in x.ravel().view(f"u{x.dtype.itemsize}"))
                lines.append(" ".join([op, name, ",".join(map(str, shape)),
                                       "all" if dims is None else str(dims), bits,
                                       ",".join(map(str, places))]))
pathlib.Path(__file__).with_name("places.txt").write_text("\n".join(lines) + "\n")
