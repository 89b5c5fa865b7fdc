"""Writes print_values.txt: arrays with the text that NumPy prints for them.

    python tests/golden/make_prints.py        (NumPy 2.x)
"""
import pathlib

import numpy as np

rng = np.random.default_rng(5)
cases = [
    np.arange(12, dtype="i8").reshape(3, 4),
    np.array([1.0, 2.5, 3.0]),
    np.array([0.0, -0.0, 1e-3, 100.0]),
    np.array([1e10, 1.5]),
    np.array([1e-5, 1.0]),
    np.array([np.nan, 1.0, -2.25]),
    np.array([np.inf, -np.inf, 3.0]),
    np.array([0.1, 0.2, 0.30000000000000004]),
    np.array([0.1, 0.2, 0.3], dtype="f4"),
    np.array([1 / 3, 2 / 3], dtype="f4"),
    np.array([[True, False], [False, False]]),
    np.array([-5, 123456, 7], dtype="i4"),
    np.array(3.5),
    np.array(7, dtype="i8"),
    np.array([], dtype="f8"),
    np.zeros((2, 0, 3)),
    np.arange(24.0).reshape(2, 3, 4),
    rng.standard_normal(30),
    rng.standard_normal((4, 5)).astype("f4"),
    np.arange(1500, dtype="i8"),
    np.arange(2000.0).reshape(50, 40),
    np.arange(8 * 9 * 20, dtype="i4").reshape(8, 9, 20),
    np.array([1e300, -1e-300, 0.0]),
    np.array([123456789.0, 1.0]),
    np.array([99999999.0, 1.0]),
    np.array([1e16, 2.0]),
    np.arange(100, dtype="i8"),
    rng.uniform(0, 100, 17).round(2),
    np.array([5e-324, 1.7976931348623157e308]),
    np.array([16777216.0, 1e-4], dtype="f4"),
    np.array([1000.0, 1.0]),
    np.array([10000.0, 1.0]),
    np.array([1234.5, 0.5]),
    np.array([2.7200000000000002e-08]),
    np.array(1 / 3),
    np.array(0.0),
    np.array(1e16),
    np.array(1 / 3, dtype="f4"),
    np.array([9455291.0], dtype="f4"),
    np.array([945529.0, 2.5], dtype="f4"),
    np.array([123456.789e-9, 1e-7]),
]
names = {"int64": "i64", "int32": "i32", "float64": "f64", "float32": "f32", "bool": "bool"}
out = []
for a in cases:
    flat = a.ravel()
    text = " ".join(str(int(v)) if a.dtype.kind in "ib" else float(v).hex() for v in flat)
    out.append(f"--- {names[a.dtype.name]} {','.join(map(str, a.shape))}\n{text}\n{str(a)}\n")
pathlib.Path(__file__).with_name("print_values.txt").write_text("".join(out))
