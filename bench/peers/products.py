"""Products: python products.py f32|f64; "run m k n" is answered with the best time and whose it is. And convolutions:
python products.py conv; "run" is answered with the best time, its processor time, the sum of sizes and the layout."""
import os
import sys

from serve import ready, reals, settle, timed

os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import numpy as np
except ImportError:
    sys.exit("missing")
try:
    import torch
    torch.set_num_threads(2)
except ImportError:
    torch = None


def best_of(calls):
    """Name, seconds and processor time of the fastest; each begins when the others' threads sleep."""
    best = ("", float("inf"), 0)
    for name, call in calls.items():
        settle()
        _, seconds, busy = timed(call)
        best = min(best, (name, seconds, busy), key=lambda of: of[1])
    return best


def products(dtype):
    calls = {"NumPy": (lambda a: a, lambda a, b: a @ b)}
    try:
        import jax
        jax.config.update("jax_enable_x64", True)
        product = jax.jit(lambda a, b: a @ b)
        calls["JAX"] = (jax.numpy.asarray, lambda a, b: product(a, b).block_until_ready())
    except ImportError:
        pass
    if torch:
        calls["PyTorch"] = (torch.from_numpy, lambda a, b: a @ b)
    rng = np.random.default_rng(1)
    held, shape = {}, None
    ready()
    for line in sys.stdin:
        m, k, n = map(int, line.split()[1:])
        if shape != (m, k, n):
            shape = (m, k, n)
            a, b = (rng.random(s).astype(dtype) for s in ((m, k), (k, n)))
            held = {name: (call, *map(put, (a, b))) for name, (put, call) in calls.items()}
            for call, *given in held.values():
                call(*given)
        name, seconds, _ = best_of({name: lambda of=of: of[0](*of[1:]) for name, of in held.items()})
        print(repr(seconds), name, flush=True)


def convolutions():
    if not torch:
        sys.exit("missing")
    x = torch.tensor(reals(1, 1, 32, 56, 56, 64)).permute(0, 3, 1, 2)
    kernel = torch.tensor(reals(2, 0.1, 3, 3, 64, 64)).permute(3, 2, 0, 1)
    layouts = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}
    given = {name: [a.contiguous(memory_format=of) for a in (x, kernel)] for name, of in layouts.items()}
    conv = torch.nn.functional.conv2d
    with torch.inference_mode():
        total = max(float(conv(*of, padding=1).abs().double().sum()) for of in given.values())
        ready()
        for _ in sys.stdin:
            name, seconds, busy = best_of({name: lambda of=of: conv(*of, padding=1) for name, of in given.items()})
            print(repr(seconds), repr(busy), repr(total), "PyTorch, " + name.split()[1], flush=True)


if sys.argv[1] == "conv":
    convolutions()
else:
    products({"f32": np.float32, "f64": np.float64}[sys.argv[1]])
