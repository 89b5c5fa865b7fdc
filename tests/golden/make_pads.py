"""Writes pads.txt: what jax.lax.pad gives for 0, 1, 2, ... of each dtype.

    python tests/golden/make_pads.py        (JAX)

One case a line, as in views.txt: the shape, the call, the result's shape, its elements as f64:

    3 | pad i32 7 1 -1 2 | 7 | 7,0,7,7,1,7,7

A pad has its dtype, the number around, and by dim what is before it, after it, and between its elements.
"""
import pathlib

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
from jax import lax, numpy as jnp

DTYPES = {"bool": jnp.bool_, "i8": jnp.int8, "i16": jnp.int16, "i32": jnp.int32, "i64": jnp.int64,
          "u8": jnp.uint8, "u16": jnp.uint16, "u32": jnp.uint32, "u64": jnp.uint64,
          "f16": jnp.float16, "bf16": jnp.bfloat16, "f32": jnp.float32, "f64": jnp.float64}
rng = np.random.default_rng(11)


def case(name, shape, value, borders):
    count = int(np.prod(shape))
    x = jnp.arange(count, dtype=jnp.float64).reshape(shape).astype(DTYPES[name])
    y = lax.pad(x, jnp.asarray(value, DTYPES[name]), borders)
    words = ["pad", name, str(value), *(str(v) for dim in borders for v in dim)]
    return " | ".join([",".join(map(str, shape)), " ".join(words), ",".join(map(str, y.shape)),
                       ",".join(f"{v:g}" for v in np.asarray(y.astype(jnp.float64)).ravel())])


def drawn(shape):
    """Borders of each dim that leave 0 elements or more."""
    borders = []
    for size in shape:
        low, high = (int(v) for v in rng.integers(-4, 5, 2))
        between = int(rng.choice([0, 0, 1, 2, 3]))
        left = size + max(size - 1, 0) * between + low + high
        borders.append((low, high - min(left, 0), between))
    return borders


# Elements beyond the ends alone are left, an end is cut within what is between, nothing is left.
lines = [case("f64", (4,), 7, [(-5, 3, 0)]), case("f64", (4,), 7, [(3, -5, 0)]), case("f64", (4,), 7, [(-9, 9, 0)]),
         case("f64", (3,), 7, [(-2, -2, 2)]), case("f64", (3,), 7, [(-4, -3, 2)]),
         case("f64", (1,), 7, [(0, 0, 5)]), case("f64", (0,), 7, [(1, 2, 5)]), case("f64", (9,), 7, [(0, 2, 2)]),
         case("f64", (1,) * 7 + (2,), 7, [(0, 0, 0)] * 7 + [(1, -1, 1)]),
         case("f64", (2, 1, 2, 1, 1, 2, 1, 1), 7, [(0, 0, 0)] * 5 + [(-1, 1, 2)] + [(0, 0, 3)] * 2)]
while len(lines) < 300:
    name = list(DTYPES)[len(lines) % len(DTYPES)]
    shape = tuple(int(v) for v in rng.choice([0, 1, 2, 3, 4, 5, 6], int(rng.integers(1, 4)),
                                             p=[0.04, 0.1, 0.16, 0.2, 0.2, 0.15, 0.15]))
    value = int(rng.integers(0, 2 if name == "bool" else 99))
    line = case(name, shape, value, drawn(shape))
    if line.count(",") < 120:
        lines.append(line)
pathlib.Path(__file__).with_name("pads.txt").write_text("\n".join(lines) + "\n")
