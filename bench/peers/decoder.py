"""The step of examples/transformer.c in JAX, on 8 host devices as a mesh of data=4, model=2: python decoder.py FILE

FILE has what decoder_job.c begins with. Answers as training.py does."""
import os
import sys

from serve import serve_steps

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError:
    sys.exit("missing")
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

WINDOW, WIDTH, HEADS, BLOCKS, STEPS = 64, 128, 4, 2, 400
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
columns, rows, whole = P(None, "model"), P("model"), P()
specs = [whole] * 2 + BLOCKS * ([whole] * 2 + [columns] * 3 + [rows] + [whole] * 2 + [columns, rows]) + [whole] * 3


def lies(x, *spec):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def norm(x, scale, shift):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-5) * scale + shift


def heads_of(x):
    return x.reshape(*x.shape[:2], HEADS, WIDTH // HEADS).swapaxes(1, 2)


def attention(x, query, key, value, out):
    q, k, v = (heads_of(lies(x @ w, "data", None, "model")) for w in (query, key, value))
    scores = q @ k.swapaxes(2, 3) * (WIDTH // HEADS) ** -0.5
    scores = jnp.where(jnp.tri(x.shape[1], dtype=bool), scores, -1e9)
    seen = (jax.nn.softmax(scores) @ v).swapaxes(1, 2)
    return lies(seen.reshape(x.shape), "data", None, "model") @ out


def block(x, p):
    x = lies(x + attention(norm(x, *p[:2]), *p[2:6]), "data")
    inner = jax.nn.gelu(lies(norm(x, *p[6:8]) @ p[8], "data", None, "model"), approximate=False)
    return lies(x + inner @ p[9], "data")


def loss(p, windows):
    x = lies(p[0][windows[:, :-1]] + p[1], "data")
    for i in range(BLOCKS):
        x = block(x, p[2 + 10 * i:12 + 10 * i])
    scores = norm(x, *p[-3:-1]) @ p[-1]
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), windows[:, 1:, None], 2).mean()


def rate_at(step):
    way = jnp.clip((step - 20) / STEPS, 0, 1)
    late = (jnp.cos(way * np.pi) + 1) * (4e-3 - 4e-4) / 2 + 4e-4
    return jnp.where(step < 20, step * 4e-3 / 20, late)


@jax.jit
def step(p, mean, square, done, text, starts):
    windows = lies(text[starts[:, None] + jnp.arange(WINDOW + 1)], "data")
    value, slope = jax.value_and_grad(loss)(p, windows)
    size = jnp.sqrt(sum((g * g).sum() for g in slope))
    slope = [g / jnp.maximum(size, 1) for g in slope]
    mean = [0.9 * m + 0.1 * g for m, g in zip(mean, slope)]
    square = [0.999 * s + 0.001 * g * g for s, g in zip(square, slope)]
    rate, corrected = rate_at(done), [1 - b ** (done + 1.0) for b in (0.9, 0.999)]
    after = []
    for w, m, s, spec in zip(p, mean, square, specs):
        off = m / corrected[0] / (jnp.sqrt(s / corrected[1]) + 1e-8)
        after.append(lies(w - rate * 0.01 * w - rate * off, *spec))
    return after, mean, square, value


given = np.load(sys.argv[1])
p = [jax.device_put(given[str(i)], NamedSharding(mesh, spec)) for i, spec in enumerate(specs)]
text, starts = (jax.device_put(given[name], NamedSharding(mesh, whole)) for name in ("text", "starts"))
mean, square = ([jax.device_put(np.zeros(w.shape, np.float32), w.sharding) for w in p] for _ in range(2))
for i in range(len(starts) - 1):
    p, mean, square, _ = step(p, mean, square, i, text, starts[i])
last, start = len(starts) - 1, starts[-1]
serve_steps(lambda: float(jax.block_until_ready(step(p, mean, square, last, text, start))[3]))
