#!/usr/bin/env python3
"""Writes names.txt: the functions of NumPy's main namespace and of jax.numpy, jax.lax and jax.nn, a module
and its names a line. The guide's tables must have each of them (tests/unit/public/guide_test.c)."""

import inspect
from pathlib import Path

import jax
import numpy

HERE = Path(__file__).resolve().parent


def functions(module, names):
    for name in sorted(names):
        value = getattr(module, name, None)
        if name[0].islower() and callable(value) and not inspect.isclass(value):
            yield name


def listed(module):
    return getattr(module, "__all__", None) or dir(module)


def main():
    lines = [f"# numpy {numpy.__version__}, jax {jax.__version__}"]
    for module in (numpy, jax.numpy, jax.lax, jax.nn):
        names = functions(module, listed(module))
        lines.append(" ".join([module.__name__, *names]))
    (HERE / "names.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
