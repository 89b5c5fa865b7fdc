"""JAX's collectives between processes, by Gloo: python collectives_gloo.py PROCESSES BYTES...

Prints a line "collective bytes seconds" for each of them and each size, as collectives_mpi.inc does."""
import os
import socket
import subprocess
import sys
import time

count, sizes = int(sys.argv[1]), [int(size) for size in sys.argv[2:]]
me = int(os.environ.get("GLOO_INDEX", "0"))
children = []
if me == 0:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        os.environ["GLOO_PORT"] = str(s.getsockname()[1])
    for index in range(1, count):
        children.append(subprocess.Popen([sys.executable] + sys.argv, env={**os.environ, "GLOO_INDEX": str(index)}))
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.pop("XLA_FLAGS", None)
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError:
    for child in children:
        child.kill()
    sys.exit("missing")
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize("127.0.0.1:" + os.environ["GLOO_PORT"], count, me)
mesh = Mesh(np.array(jax.devices()), ("x",))
kinds = {
    "all_reduce": (lambda x: jax.lax.psum(x, "x"), P()),
    "all_gather": (lambda x: jax.lax.all_gather(x, "x", tiled=True), P()),
    "reduce_scatter": (lambda x: jax.lax.psum_scatter(x, "x", tiled=True), P("x")),
    "all_to_all": (lambda x: jax.lax.all_to_all(x, "x", 0, 0, tiled=True), P("x")),
}
for kind, (join, out) in kinds.items():
    for wanted in sizes:
        unit = 4 if kind == "all_reduce" else 4 * count
        size = max(wanted // unit * unit, unit)
        local = size // 4 // (count if kind == "all_gather" else 1)
        calls = 100 if size <= 1 << 14 else 20 if size <= 1 << 20 else 2
        x = jax.make_array_from_process_local_data(
            NamedSharding(mesh, P("x")), (np.arange(local) % 3).astype(np.float32), (local * count,))
        step = jax.jit(jax.shard_map(join, mesh=mesh, in_specs=P("x"), out_specs=out, check_vma=False))
        step(x).block_until_ready()
        times = []
        for _ in range(3):
            start = time.perf_counter()
            for _ in range(calls):
                step(x).block_until_ready()
            times.append((time.perf_counter() - start) / calls)
        if me == 0:
            print(kind, size, "%.9f" % sorted(times)[1], flush=True)
jax.distributed.shutdown()
for child in children:
    child.wait()
