"""How soon JAX's processes are there: python start_processes.py PROCESSES

Prints seconds from the start of the first to the end of the last one's first sum over all of them, by Gloo."""
import os
import socket
import subprocess
import sys
import time

count, me = int(sys.argv[1]), os.environ.get("START_INDEX")
if me is None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    began = time.monotonic()
    children = [
        subprocess.Popen([sys.executable] + sys.argv, stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "START_INDEX": str(i), "START_PORT": str(port), "JAX_PLATFORMS": "cpu"})
        for i in range(count)]
    # Gloo prints lines of its own.
    there = [float(line.split()[1]) for child in children for line in child.communicate()[0].splitlines()
             if line.startswith("there ")]
    if len(there) == count:
        print("%.9f" % (max(there) - began))
    sys.exit(0)
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize("127.0.0.1:" + os.environ["START_PORT"], count, int(me))
on = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
x = jax.make_array_from_process_local_data(on, np.ones(16, np.float32), (16 * count,))
assert float(jax.jit(jax.numpy.sum)(x)) == 16 * count
print("there", time.monotonic(), flush=True)
jax.distributed.shutdown()
