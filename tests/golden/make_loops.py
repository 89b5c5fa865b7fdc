"""Writes loops.txt: what jax.lax.associative_scan gives, in its order of combining.

    python tests/golden/make_loops.py        (JAX, NumPy 2.x)

One case a line, as in routines.txt: operation, dim, operands, '>', results. Operations end in _back where the
last element comes first.
"""
import contextlib
import io
import pathlib
import runpy

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
from jax import lax, numpy as jnp

HERE = pathlib.Path(__file__).parent
before = (HERE / "routines.txt").read_bytes()
with contextlib.redirect_stdout(io.StringIO()):
    m = runpy.run_path(str(HERE / "make_routines.py"))
assert (HERE / "routines.txt").read_bytes() == before, "routines.txt is not what its script writes"
text = m["text"]
rng = np.random.default_rng(3)

COMBINE = {
    "add": lambda a, b: a + b,
    "max": jnp.maximum,
    "or": lambda a, b: a | b,
    "affine": lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]),
    "product": lambda a, b: a @ b,
}


def drawn(name, shape):
    if name == "bool":
        return rng.integers(0, 2, shape).astype("?")
    if name.startswith(("i", "u")):
        return rng.integers(0, 6, shape).astype(name)
    return rng.standard_normal(shape).astype(name)


lines = []
for op, dims, shapes, dtypes, arrays in [
    ("add", (0, -1), [(1,), (2,), (7,), (8,), (33,), (3, 5), (2, 3, 4)], ["float64", "float32", "int32"], 1),
    ("max", (0, 1), [(5, 6), (6, 1), (4, 9)], ["float32", "int64", "int8"], 1),
    ("or", (0,), [(0,), (13,), (3, 4)], ["bool", "int16"], 1),
    ("affine", (0,), [(6,), (11,), (5, 3)], ["float64"], 2),
    ("product", (0,), [(3, 2, 2), (6, 2, 2)], ["int64"], 1),
]:
    for shape in shapes:
        for dtype in dtypes:
            for reverse in (False, True):
                dim = int(rng.choice(dims))
                if len(shape) == 1:
                    dim = min(dim, 0)
                given = [drawn(dtype, shape) for _ in range(arrays)]
                elems = tuple(map(jnp.asarray, given))
                axis = dim % len(shape)  # JAX reverses no dim counted from the end
                made = lax.associative_scan(COMBINE[op], elems if arrays > 1 else elems[0], reverse, axis)
                made = [np.asarray(a) for a in (made if arrays > 1 else [made])]
                name = op + "_back" * reverse
                lines.append(" ".join([name, str(dim), *map(text, given), ">", *map(text, made)]))
(HERE / "loops.txt").write_text("\n".join(lines) + "\n")
print(len(lines), "cases")
