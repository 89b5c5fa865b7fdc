"""Writes drawings.txt: shardings as JAX draws them on a terminal of 80 characters without colour.

    python tests/golden/make_drawings.py        (JAX with 32 CPU devices, rich)

Each drawing follows a line of its name, shape, mesh, spec, device ids, options and device kind. Two
of JAX's drawings lose the labels where columns together are wider than the terminal (2d_wide,
1x4096); what stands for them is drawn here by hand, at the same widths, with the labels kept.
"""
import contextlib
import io
import os
import pathlib

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=32"
os.environ["COLUMNS"] = "80"

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

ids8, ids32 = list(range(8)), list(range(32))
XY = {"x": 4, "y": 2}
LARGE = {"x": 8, "y": 4}
SQUARE = {"x": 2, "y": 2}
cases = [
    ("1d8", (8,), {"x": 8}, "x", ids8, {}),
    ("1d16_len", (1024,), {"x": 8}, "x", ids8, {}),
    ("2d_xy", (8, 8), XY, "x,y", ids8, {}),
    ("2d_yx", (8, 8), XY, "y,x", ids8, {}),
    ("2d_x", (8, 8), XY, "x", ids8, {}),
    ("2d_none_x", (8, 8), XY, "-,x", ids8, {}),
    ("2d_xytuple", (8, 8), XY, "x+y", ids8, {}),
    ("2d_none_xy", (8, 8), XY, "-,x+y", ids8, {}),
    ("2d_repl", (8, 8), XY, "-", ids8, {}),
    ("2d_tall", (64, 8), XY, "x,y", ids8, {}),
    ("2d_wide", (8, 64), XY, "x,y", ids8, {}),
    ("2d_scale2", (8, 8), SQUARE, "x,y", ids8[:4], {"scale": 2.0}),
    ("gpu", (8, 8), SQUARE, "x,y", ids8[:4], {}),
    ("minw4", (8, 8), SQUARE, "x,y", ids8[:4], {"min_width": 4}),
    ("maxw40", (8, 800), SQUARE, "x,-", ids8[:4], {"max_width": 40}),
    ("perm_ids", (8, 8), XY, "x,y", [0, 1, 2, 3, 6, 7, 4, 5], {}),
    ("bigids", (8, 8), SQUARE, "x,y", [0, 1, 131072, 131073], {}),
    ("smallshape", (4, 2), XY, "x,y", ids8, {}),
    ("1x4096", (1, 4096), {"x": 8}, "-,x", ids8, {}),
    ("trivial", (5,), {"x": 1}, "x", [0], {}),
    ("trivial_scale8", (5,), {"x": 1}, "x", [0], {"scale": 8.0}),
    ("full", (8, 8), LARGE, "x,y", ids32, {}),
    ("replicated_y", (8, 8), LARGE, "x,-", ids32, {}),
    ("replicated_x", (8, 8), XY, "-,y", ids8, {}),
    ("wide_array", (128, 10000), LARGE, "x,-", ids32, {}),
]


class Device:
    """What the drawing asks of a device."""

    def __init__(self, id, platform):
        self.id, self.platform, self.device_kind = id, platform, platform
        self.process_index, self.client = 0, None


class Named:
    """A sharding whose devices have other names."""

    def __init__(self, sharding, devices):
        self.sharding, self.devices, self.device_set = sharding, devices, set(devices)

    def devices_indices_map(self, shape):
        parts = self.sharding.devices_indices_map(shape)
        return dict(zip(self.devices, parts.values()))


def spec_of(text):
    entries = [None if e == "-" else tuple(e.split("+")) for e in text.split(",")]
    return PartitionSpec(*entries)


def box(widths, rows, height):
    """A drawing as ours: labels in the middle of columns of these widths."""
    rule = lambda a, b, c: a + b.join("─" * w for w in widths) + c
    blank = "│" + "│".join(" " * w for w in widths) + "│"
    cell = lambda t, w: " " * ((w - len(t)) // 2) + t + " " * (w - len(t) - (w - len(t)) // 2)
    lines = [rule("┌", "┬", "┐")]
    for number, row in enumerate(rows):
        if number:
            lines.append(rule("├", "┼", "┤"))
        above = (height - 1) // 2
        middle = "│" + "│".join(cell(t, w) for t, w in zip(row, widths)) + "│"
        lines += [blank] * above + [middle] + [blank] * (height - 1 - above)
    return "\n".join(lines + [rule("└", "┴", "┘")]) + "\n"


by_hand = {
    "2d_wide": box([39, 38], [[f"CPU {2 * r}", f"CPU {2 * r + 1}"] for r in range(4)], 1),
    "1x4096": box([9] * 7 + [8], [[f"CPU {d}" for d in range(8)]], 9),
}


def drawing(name, shape, mesh, spec, ids, options):
    if name in by_hand:
        return by_hand[name]
    devices = np.array(jax.devices()[: len(ids)]).reshape(tuple(mesh.values()))
    sharding = NamedSharding(jax.sharding.Mesh(devices, tuple(mesh)), spec_of(spec))
    kind = "gpu" if name == "gpu" else "cpu"
    named = Named(sharding, [Device(i, kind) for i in ids])
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        jax.debug.visualize_sharding(shape, named, use_color=False, **options)
    return out.getvalue().rstrip("\n") + "\n"


with open(pathlib.Path(__file__).with_name("drawings.txt"), "w") as out:
    for name, shape, mesh, spec, ids, options in cases:
        fields = [
            name,
            ",".join(map(str, shape)),
            ",".join(f"{a}={n}" for a, n in mesh.items()),
            spec,
            ",".join(map(str, ids)),
            ",".join(f"{k}={v:g}" for k, v in options.items()) or "-",
            "gpu" if name == "gpu" else "cpu",
        ]
        out.write("--- " + " ".join(fields) + "\n" + drawing(name, shape, mesh, spec, ids, options))
