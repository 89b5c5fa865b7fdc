"""Orbax or torch.distributed.checkpoint: python checkpoints.py orbax|torch BYTES FOLDER

Answers "save" and "restore" with seconds: 16 arrays of f32, files forced to the disk, read from the page cache."""
import os
import shutil
import sys

from serve import ready, timed

kind, size, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
path = os.path.abspath(os.path.join(folder, "ckpt-" + kind))
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
shape = (size // 16 // 4 // 1024, 1024)
try:
    import numpy as np
    if kind == "orbax":
        import jax
        import orbax.checkpoint as ocp
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
    else:
        import torch
        import torch.distributed.checkpoint as dcp
except ImportError:
    sys.exit("missing")


def numbers(i):
    """Of which nothing can be packed away."""
    return np.random.default_rng(i).random(shape, np.float32)


def force():
    """The disk has it all, names too."""
    for top, _, names in os.walk(path):
        for name in [*names, "."]:
            fd = os.open(os.path.join(top, name), os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)


if kind == "orbax":
    place = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))
    tree = {f"w{i}": jax.device_put(numbers(i), place) for i in range(16)}
    checkpointer = ocp.StandardCheckpointer()

    def save():
        checkpointer.save(path, tree, force=True)
        checkpointer.wait_until_finished()
        force()

    def restore():
        like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), tree)
        jax.block_until_ready(checkpointer.restore(path, like))
else:
    tree = {f"w{i}": torch.from_numpy(numbers(i)) for i in range(16)}

    def save():
        shutil.rmtree(path, ignore_errors=True)
        dcp.save(tree, checkpoint_id=path)
        force()

    def restore():
        dcp.load({name: torch.empty(shape) for name in tree}, checkpoint_id=path)


save()
ready()
for line in sys.stdin:
    _, seconds, _ = timed({"save": save, "restore": restore}[line.split()[0]])
    print(repr(seconds), flush=True)
shutil.rmtree(path, ignore_errors=True)
