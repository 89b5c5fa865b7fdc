"""Matrix products: python products.py f32|f64; "run m k n" is answered with the best time and whose it is."""
import os
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import numpy as np
except ImportError:
    sys.exit("missing")

dtype = {"f32": np.float32, "f64": np.float64}[sys.argv[1]]
calls = {"NumPy": (lambda a: a, lambda a, b: a @ b)}
try:
    import jax
    jax.config.update("jax_enable_x64", True)
    product = jax.jit(lambda a, b: a @ b)
    calls["JAX"] = (jax.numpy.asarray, lambda a, b: product(a, b).block_until_ready())
except ImportError:
    pass
try:
    import torch
    torch.set_num_threads(2)
    calls["PyTorch"] = (torch.from_numpy, lambda a, b: a @ b)
except ImportError:
    pass

rng = np.random.default_rng(1)
held, shape = {}, None
print("ready", flush=True)
for line in sys.stdin:
    m, k, n = map(int, line.split()[1:])
    if shape != (m, k, n):
        shape = (m, k, n)
        a, b = (rng.random(s).astype(dtype) for s in ((m, k), (k, n)))
        held = {name: (put(a), put(b)) for name, (put, _) in calls.items()}
        for name, (_, call) in calls.items():
            call(*held[name])
    best = (float("inf"), "")
    for name, (_, call) in calls.items():
        start = time.perf_counter()
        call(*held[name])
        best = min(best, (time.perf_counter() - start, name))
    print(repr(best[0]), best[1], flush=True)
