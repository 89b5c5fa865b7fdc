"""JAX's draws: python draws.py uniform|normal; "run" is answered with seconds and the mean of their sizes."""
import os
import sys

from serve import ready, timed

os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
    import numpy as np
except ImportError:
    sys.exit("missing")

kind = getattr(jax.random, sys.argv[1])
draw = jax.jit(lambda key: kind(key, (1 << 24,), dtype="float32"))
key = jax.random.key(0)
mean = float(np.abs(np.asarray(draw(key)).astype(np.float64)).mean())
ready()
for line in sys.stdin:
    key, use = jax.block_until_ready(jax.random.split(key))
    seconds = timed(lambda: draw(use).block_until_ready())[1]
    print(repr(seconds), repr(mean), flush=True)
