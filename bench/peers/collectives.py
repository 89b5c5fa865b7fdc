"""JAX's collectives by name on 8 host devices: python collectives.py psum|all_gather BYTES CALLS"""
import os
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError:
    sys.exit("missing")
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from serve import ready

kind, size, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
mesh = Mesh(np.array(jax.devices()), ("x",))
x = jax.device_put(jnp.ones((8, size // 4), jnp.float32), NamedSharding(mesh, P("x")))


def join(x):
    return jax.lax.psum(x, "x") if kind == "psum" else jax.lax.all_gather(x, "x", tiled=True)


gathers = kind != "psum"
step = jax.jit(jax.shard_map(join, mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=not gathers))
step(x).block_until_ready()
ready()
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(calls):
        step(x).block_until_ready()
    print(repr((time.perf_counter() - start) / calls), flush=True)
