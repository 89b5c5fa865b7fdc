"""JAX moving 256 MiB of f32 between 8 host devices: python reshard.py LINE"""
import os
import sys

from serve import ready, timed

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError:
    sys.exit("missing")
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

lines = {
    "reshard.rows_cols": ((8192, 8192), P("x"), P(None, "x")),
    "all_gather": ((1024, 8192), P("x"), P()),
    "all_to_all": ((64, 1024, 1024), P("x"), P(None, "x")),
    "reduce.sharded": ((8192, 8192), P("x"), P("x")),
}
shape, origin, target = lines[sys.argv[1]]
mesh = Mesh(np.array(jax.devices()), ("x",))
x = jax.device_put(jnp.ones(shape, jnp.float32), NamedSharding(mesh, origin))
sums = sys.argv[1] == "reduce.sharded"
move = jax.jit(lambda x: x.sum(0) if sums else x + 0, out_shardings=NamedSharding(mesh, target))
move(x).block_until_ready()
ready()
for line in sys.stdin:
    print(repr(timed(lambda: move(x).block_until_ready())[1]), flush=True)
