"""JAX's jit on the programs of array_lines.c: python arrays.py DEVICES memory|l2

Answers each line "program repeats" with "seconds-a-call sum-of-the-sizes-of-the-result", or "-1" where it has none."""
import os
import sys

from serve import ready, timed

devices, size = int(sys.argv[1]), sys.argv[2]
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError:
    sys.exit("missing")
from jax.sharding import Mesh, NamedSharding, PartitionSpec

vector, rows, columns, side, updates, bins = {
    "memory": (1 << 26, 16384, 1024, 8192, 1000000, 10000),
    "l2": (1 << 16, 64, 1024, 256, 10000, 1000)}[size]
mesh = Mesh(np.array(jax.devices()), ("data",))
split, whole = (NamedSharding(mesh, PartitionSpec(*s)) for s in (("data",), ()))


def mixed(salt, count):
    start = np.uint32(salt * 40503 & 0xFFFFFFFF)
    return np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + start


def reals(salt, shape, on):
    x = (mixed(salt, int(np.prod(shape))) >> 8).astype(np.float32) * np.float32(2**-24) + np.float32(0.001)
    return jax.device_put(x.reshape(shape), on)


def below(salt, bound, count):
    x = ((mixed(salt, count) >> 8) % np.uint32(bound)).astype(np.int32)
    return jax.device_put(x, split if count % devices == 0 else whole)


a, b = reals(1, (vector,), split), reals(2, (vector,), split)
matrix, square = reals(3, (rows, columns), split), reals(4, (side, side), split)
column, row = reals(5, (side, 1), split), reals(6, (1, side), whole)
picked, labels = below(7, rows, rows), below(8, 64, rows)
weights = reals(9, (64, 256), whole)
places, new = below(10, bins, updates), reals(11, (updates,), split)
zeros = jax.device_put(jnp.zeros(bins, jnp.float32), whole)
half = jax.device_put(reals(12, (vector,), split).astype(jnp.bfloat16), split)
bytes_ = below(13, 256, vector // 4)


def layer_norm(m):
    return (m - m.mean(1, keepdims=True)) / jnp.sqrt(m.var(1, keepdims=True) + 1e-5)


PROGRAMS = {
    "triad": (lambda a, b: a * 3 + b, a, b),
    "chain": (lambda a, b: jnp.tanh(a) * b + jnp.exp(-a) * jnp.sqrt(b), a, b),
    "softmax": (lambda m: jax.nn.softmax(m, axis=1), matrix),
    "layer_norm": (layer_norm, matrix),
    "mse": (lambda a, b: ((a - b) ** 2).mean(), a, b),
    "var_over_rows": (lambda m: m.var(0), matrix),
    "var_over_columns": (lambda m: m.var(1), matrix),
    "argmax": (lambda m: m.argmax(1), matrix),
    "cumsum": (lambda a: jnp.cumsum(a), a),
    "where_chain": (lambda a, b: jnp.where(a > 0.75, 0.0, jnp.where(a < 0.25, b * 2, b - a)), a, b),
    "transpose": (lambda m: m.T, square),
    "concat": (lambda m: jnp.concatenate([m, m], 1), square),
    "pad": (lambda m: jnp.pad(m, 1), square),
    "roll": (lambda a: jnp.roll(a, 5), a),
    "gather_rows": (lambda m, i: m[i], matrix, picked),
    "scatter_add": (lambda z, i, u: z.at[i].add(u), zeros, places, new),
    "one_hot_product": (lambda i, w: jax.nn.one_hot(i, 64, dtype=jnp.float32) @ w, labels, weights),
    "outer": (lambda c, r: c * r, column, row),
    "bf16_scale": (lambda h: (h * 1.5).astype(jnp.float32), half),
    "histogram": (lambda i: jnp.zeros(256, jnp.int32).at[i].add(1), bytes_),
}
if devices > 1:  # prefix sums of a sharded dim did not end within minutes
    PROGRAMS.pop("cumsum")
compiled = {}

ready()
for line in sys.stdin:
    name, repeats = line.split()
    if name not in PROGRAMS:
        print("-1", flush=True)
        continue
    function, *given = PROGRAMS[name]
    if name not in compiled:
        run = compiled[name] = jax.jit(function)
        value = jax.block_until_ready(run(*given))
        total = float(np.abs(np.asarray(value).astype(np.float64)).sum())
        compiled[name] = run, total
        del value
    run, total = compiled[name]

    def calls():
        for _ in range(int(repeats)):
            jax.block_until_ready(run(*given))

    seconds = timed(calls)[1]
    print(repr(seconds / int(repeats)), repr(total), flush=True)
