#!/usr/bin/env python3
"""Writes tests/golden/train.txt: steps of PyTorch's optimisers, its losses with their gradients and its
schedules, in f64, and how wide JAX's initializers draw. A line is a name and numbers as C prints them
with %a.

  tests/golden/make_train.py
"""
from pathlib import Path

import numpy as np
import torch

LINES = []


def put(name, values):
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    LINES.append(" ".join([name] + [float(v).hex() for v in flat]) + "\n")


rng = np.random.default_rng(13)
STEPS = 4
FIRST = [rng.normal(size=3), rng.normal(size=(2, 2))]
SLOPES = [[rng.normal(size=3), rng.normal(size=(2, 2))] for _ in range(STEPS)]
put("first", np.concatenate([a.reshape(-1) for a in FIRST]))
for k, slopes in enumerate(SLOPES):
    put(f"slope.{k}", np.concatenate([a.reshape(-1) for a in slopes]))


def steps(name, make):
    weights = [torch.tensor(a, requires_grad=True) for a in FIRST]
    optimizer, out = make(weights), []
    for slopes in SLOPES:
        for w, g in zip(weights, slopes):
            w.grad = torch.tensor(g)
        optimizer.step()
        out += [w.detach().numpy().reshape(-1).copy() for w in weights]
    put(name, np.concatenate(out))


steps("sgd", lambda w: torch.optim.SGD(w, 0.1))
steps("sgd.momentum", lambda w: torch.optim.SGD(w, 0.1, momentum=0.9))
steps("sgd.nesterov", lambda w: torch.optim.SGD(w, 0.05, momentum=0.8, nesterov=True, weight_decay=0.01))
steps("adam", lambda w: torch.optim.Adam(w, 0.01))
steps("adam.betas", lambda w: torch.optim.Adam(w, 0.02, betas=(0.8, 0.95), eps=1e-3))
steps("adamw", lambda w: torch.optim.AdamW(w, 0.01, weight_decay=0.1))

grads = [torch.tensor(a) for a in SLOPES[0]]
put("norm", torch.sqrt(sum((g * g).sum() for g in grads)).item())
for g in grads:
    g.requires_grad_(True)
    g.grad = g.detach().clone()
torch.nn.utils.clip_grad_norm_(grads, 0.5)
put("clipped", np.concatenate([g.grad.numpy().reshape(-1) for g in grads]))

SCORES = rng.normal(size=(4, 3)) * 3
LABELS = np.array([2, 0, 1, 2])
SHARES = rng.dirichlet(np.ones(3), size=4)
put("scores", SCORES)
put("shares", SHARES)
for name, truth, smoothing in (("classes", LABELS, 0.0), ("smoothed", LABELS, 0.1), ("likely", SHARES, 0.0),
                               ("likely.smoothed", SHARES, 0.2)):
    x = torch.tensor(SCORES, requires_grad=True)
    lines = torch.nn.functional.cross_entropy(x, torch.tensor(truth), reduction="none", label_smoothing=smoothing)
    lines.mean().backward()
    put(f"loss.{name}", lines.detach().numpy())
    put(f"loss.{name}.slope", x.grad.numpy())


def rates(name, make, count):
    w = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([w], 0.5)
    schedule, out = make(optimizer), []
    for _ in range(count):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    put(name, out)


# Beyond its end PyTorch's wave rises again, and ours stays: one half is compared.
rates("rate.cosine", lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10, eta_min=0.05), 11)
rates("rate.steps", lambda o: torch.optim.lr_scheduler.StepLR(o, 3, gamma=0.5), 11)

# Deviations as jax.nn.initializers.variance_scaling gives them: glorot, he, lecun.
for shape in ((100, 200), (3, 3, 40, 50)):
    places = int(np.prod(shape[:-2], dtype=np.int64))
    ins, outs = places * shape[-2], places * shape[-1]
    put("deviation." + "x".join(map(str, shape)), np.sqrt([2 / (ins + outs), 2 / ins, 1 / ins]))

(Path(__file__).parent / "train.txt").write_text("".join(LINES))
