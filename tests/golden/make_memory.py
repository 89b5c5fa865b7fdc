#!/usr/bin/env python3
"""Writes memory.txt: specs with kinds of memory on a mesh x=4,y=2, two a line, the rank of an array, and
whether JAX says that both place it alike (1) or not (0)."""

import os
from itertools import product
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec

HERE = Path(__file__).resolve().parent
KINDS = [None, "device", "pinned_host", "unpinned_host"]
SPECS = ["-", "x", "-,y", "x+y"]


def sharding(mesh, spec, kind):
    dims = [None if dim == "-" else tuple(dim.split("+")) for dim in spec.split(",")]
    return NamedSharding(mesh, PartitionSpec(*dims), memory_kind=kind)


def main():
    mesh = Mesh(numpy.array(jax.devices()).reshape(4, 2), ("x", "y"))
    lines = [f"# jax {jax.__version__}"]
    for (a, ka), (b, kb) in product(product(SPECS, KINDS), repeat=2):
        same = sharding(mesh, a, ka).is_equivalent_to(sharding(mesh, b, kb), 2)
        texts = [s + (f";{k}" if k else "") for s, k in ((a, ka), (b, kb))]
        lines.append(f"{texts[0]} {texts[1]} 2 {int(same)}")
    (HERE / "memory.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
