"""JAX's scan of a recurrence of 16 elements over 10,000 steps: seconds a step, the sum at the end."""
import os
import sys

from serve import ready, timed

os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
    import jax.numpy as jnp
except ImportError:
    sys.exit("missing")

STEPS, WIDE = 10000, 16
h = jnp.full((WIDE,), 0.1, jnp.float32)
x = jnp.broadcast_to(jnp.sin(jnp.arange(STEPS, dtype=jnp.float32) * 0.01)[:, None], (STEPS, WIDE)) + 0.0


def step(h, x):
    h = jnp.tanh(h * jnp.float32(0.3) + x)
    return h, h


scan = jax.jit(lambda h, x: jax.lax.scan(step, h, x))
jax.block_until_ready(scan(h, x))
ready()
for line in sys.stdin:
    out, seconds, _ = timed(lambda: jax.block_until_ready(scan(h, x)))
    print(repr(seconds / STEPS), float(out[0].sum()), flush=True)
