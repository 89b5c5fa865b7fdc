"""Writes orders.txt: orders of devices on a torus as JAX assigns axes of a mesh to those of a grid.

    python tests/golden/make_orders.py        (JAX 0.10)

Not of it: meshes where JAX's code prefers axes that busier ones use already, against its own comment.

Lines: grid, mesh, "whole" or "split", and the device at each position of the mesh, row-major.
"""
import pathlib

import numpy as np
from jax._src import mesh_utils

whole = [
    ((2, 2, 1), (1, 1, 4)), ((2, 2, 4), (1, 4, 4)), ((4, 4, 4), (1, 16, 4)), ((4, 4, 8), (1, 16, 8)),
    ((4, 4, 8), (1, 8, 16)), ((4, 4, 8), (16, 8, 1)), ((4, 8, 8), (1, 32, 8)),
    ((8, 8, 8), (1, 64, 8)), ((8, 8, 16), (1, 64, 16)), ((8, 8, 1), (8, 8)), ((2, 2, 2), (8,)),
    ((2, 2, 2), (2, 2, 2)), ((2, 2, 2), (2, 4)),
    ((2, 4), (4, 2)), ((2, 4, 1), (2, 4)), ((2, 3, 4), (6, 4)), ((2, 3, 4), (3, 8)),
]
split = [
    ((4, 4, 4), (2, 1, 32)), ((4, 4, 4), (8, 8, 1)), ((4, 8, 8), (1, 128, 2)), ((4, 4), (2, 8)),
    ((4, 4), (8, 2)), ((2, 4), (2, 2, 2)), ((8, 1), (2, 2, 2)), ((4, 6), (3, 8)), ((4, 6), (12, 2)),
    ((2, 2, 2), (4, 2)), ((4, 4, 2), (2, 2, 8)), ((6, 6), (4, 9)), ((6, 6), (9, 4)),
]


def line(grid, mesh, how):
    ids = np.arange(np.prod(grid)).reshape(grid)
    if how == "split":
        order, _ = mesh_utils._create_device_mesh_for_nd_torus_splitting_axes(ids, mesh)
    else:
        order, _ = mesh_utils._create_device_mesh_for_nd_torus(ids, mesh)
    sizes = lambda s: "x".join(map(str, s))
    return f"{sizes(grid)} {sizes(mesh)} {how} {','.join(map(str, order.reshape(-1)))}\n"


with open(pathlib.Path(__file__).with_name("orders.txt"), "w") as out:
    for how, rows in (("whole", whole), ("split", split)):
        for grid, mesh in rows:
            out.write(line(grid, mesh, how))
