"""Steps of training as training_lines.c has them: python training.py JAX|PyTorch mlp|cnn DEVICES [once]

Answers each line with "seconds loss cpu-seconds"; with `once` it makes one step and prints the loss."""
import os
import sys

from serve import reals, serve_steps

peer, net, devices = sys.argv[1], sys.argv[2], int(sys.argv[3])
if peer == "PyTorch" and devices > 1 and os.environ.get("BENCH_TORCH_8", "1") == "0":
    sys.exit("missing")
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import numpy as np
    if peer == "JAX":
        import jax
        import jax.numpy as jnp
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
    else:
        import torch
        import torch.nn.functional as F
except ImportError:
    sys.exit("missing")


def layer(salt, ins, outs):
    return [reals(salt, 0.08, ins, outs), np.zeros(outs, np.float32)]


batch = 128 if net == "cnn" else 1024
labels = np.arange(batch, dtype=np.int32) % 10
if net == "mlp":
    model, x = [layer(1, 784, 512), layer(2, 512, 512), layer(3, 512, 10)], reals(4, 1, 1024, 784)
else:
    model = [[reals(1, 0.15, 3, 3, 3, 32)], [reals(2, 0.08, 3, 3, 32, 64)], layer(3, 4096, 10)]
    x = reals(4, 1, 128, 32, 32, 3)


def jax_step():
    mesh = Mesh(np.array(jax.devices()), ("data",))
    rows, whole = (NamedSharding(mesh, PartitionSpec(*spec)) for spec in (("data",), ()))

    def scores(p, x):
        if net == "mlp":
            for w, b in p[:-1]:
                x = jax.nn.relu(x @ w + b)
            return x @ p[-1][0] + p[-1][1]
        for (w,) in p[:-1]:
            x = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.lax.reduce_window(jax.nn.relu(x), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return x.reshape(x.shape[0], -1) @ p[-1][0] + p[-1][1]

    def loss(p, x, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(scores(p, x)), y[:, None], 1).mean()

    @jax.jit
    def step(p, x, y):
        value, slope = jax.value_and_grad(loss)(p, x, y)
        return jax.tree.map(lambda a, b: a - 0.01 * b, p, slope), value

    given = jax.device_put(model, whole), jax.device_put(x, rows), jax.device_put(labels, rows)
    return lambda: float(jax.block_until_ready(step(*given))[1])


def torch_step():
    torch.set_num_threads(2)
    first = [torch.tensor(a) for part in model for a in part]
    y = torch.tensor(labels, dtype=torch.int64)
    if net == "cnn":  # its own layout, channels last in memory
        first[:2] = [w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last) for w in first[:2]]
        images = torch.tensor(x).permute(0, 3, 1, 2)
    else:
        images = torch.tensor(x)

    def scores(p):
        if net == "mlp":
            z = torch.relu(torch.addmm(p[1], images, p[0]))
            z = torch.relu(torch.addmm(p[3], z, p[2]))
            return torch.addmm(p[5], z, p[4])
        z = images
        for w in p[:2]:
            z = F.max_pool2d(torch.relu(F.conv2d(z, w, padding=1)), 2)
        return torch.addmm(p[3], z.permute(0, 2, 3, 1).reshape(z.shape[0], -1), p[2])

    def step():
        p = [w.detach().requires_grad_(True) for w in first]
        value = F.cross_entropy(scores(p), y)
        value.backward()
        with torch.no_grad():
            for w in p:
                w - 0.01 * w.grad
        return value.item()

    return step


run = jax_step() if peer == "JAX" else torch_step()
if sys.argv[4:] == ["once"]:
    print(run())
    sys.exit()
serve_steps(run)
