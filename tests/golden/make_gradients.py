#!/usr/bin/env python3
"""Writes gradients.txt: what JAX carries back at the edges of operations, in f64.

  python3 tests/golden/make_gradients.py

A case is its name, then its arrays as "in DIMS NUMBERS", what is due to the result as "due ...",
and what comes to each array as "to ...". tests/unit/transform/gradient_golden_test.c has the same cases.
"""

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)

NAN, INF = math.nan, math.inf
EDGES = [-INF, -800.0, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.5, 800.0, INF, NAN]
TIES = [[3.0, 1.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0], [1.0, 5.0, 5.0, -1.0]]
ZEROS = [[2.0, 0.0, 3.0, 4.0], [0.0, 5.0, 0.0, 2.0], [1.5, -2.0, 0.5, 3.0]]
PAIRS = ([0.0, 0.0, 2.0, -1.0, 3.0, 0.0, INF, NAN, 1.0],
         [0.0, 1.0, 2.0, 2.0, 0.0, 3.0, INF, 1.0, -INF])
LEVEL = [[1.0, 1.0, 2.0, 2.0, 2.0], [1.0, 1.0, 2.0, 0.0, 2.0], [3.0, 3.0, 0.0, 0.0, 0.0],
         [3.0, 3.0, 0.0, 7.0, 0.0]]
LINE = [1.0, -2.0, 3.0, 0.5, 3.0]
IMAGE = np.sin(np.arange(32.0)).reshape(1, 4, 4, 2).tolist()
FILTER = np.cos(np.arange(16.0)).reshape(2, 2, 2, 2).tolist()
THREE = [[0.0, 1.0, -1.0], [2.0, 2.0, 2.0]]


def pooled(op, first, window, strides, borders):
    return lambda x: lax.reduce_window(x, first, op, window, strides, borders)


EDGE_CALLS = {
    "neg": jnp.negative, "abs": jnp.abs, "sqrt": jnp.sqrt, "cbrt": jnp.cbrt, "exp": jnp.exp,
    "exp2": jnp.exp2, "expm1": jnp.expm1, "log": jnp.log, "log1p": jnp.log1p, "log2": jnp.log2,
    "log10": jnp.log10, "tanh": jnp.tanh, "asinh": jnp.arcsinh, "atanh": jnp.arctanh, "sin": jnp.sin, "cos": jnp.cos, "tan": jnp.tan, "asin": jnp.arcsin,
    "acos": jnp.arccos, "atan": jnp.arctan, "sinh": jnp.sinh, "cosh": jnp.cosh, "erf": lax.erf,
    "erfc": lax.erfc, "erfinv": lax.erf_inv, "sigmoid": jax.nn.sigmoid, "lgamma": lax.lgamma,
    "relu": jax.nn.relu, "square": jnp.square,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False), "floor": jnp.floor, "rint": jnp.rint,
    "sign": jnp.sign, "reciprocal": lambda x: 1.0 / x, "cube": lambda x: x**3,
    "to_zero": lambda x: x**0, "to_half": lambda x: x**0.5, "of_two": lambda x: 2.0**x,
    "clip": lambda x: jnp.clip(x, -1.0, 1.0),
    "safe_where": lambda x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0),
    "nan_where": lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0),
    "stopped": lambda x: x * lax.stop_gradient(x),
}
ONE = {name: (function, EDGES) for name, function in EDGE_CALLS.items()}
ONE |= {
    "acosh": (jnp.arccosh, [1.0, 1.5, 4.0, 800.0, INF, NAN]),
    "digamma": (lax.digamma, [-0.5, 0.5, 1.0, 3.5, 800.0, NAN]),
    "max_rows": (lambda x: x.max(axis=1), TIES), "min_all": (lambda x: x.min(), TIES),
    "max_zeros": (lambda x: x.max(), [0.0, -0.0, -1.0]),
    "max_masked": (lambda x: x.max(axis=1, where=x < 5, initial=-INF), TIES),
    "mean_masked": (lambda x: x.mean(axis=0, where=x < 3), TIES),
    "prod_rows": (lambda x: x.prod(axis=1), ZEROS), "prod_all": (lambda x: x.prod(), ZEROS[2]),
    "cumsum": (lambda x: jnp.cumsum(x, 0), TIES), "cumprod": (lambda x: jnp.cumprod(x, 1), ZEROS),
    "cumsum_back": (lambda x: lax.cumsum(x, 1, reverse=True), TIES),
    "cumprod_back": (lambda x: lax.cumprod(x, 0, reverse=True), ZEROS),
    "cummax": (lambda x: lax.cummax(x, 1), TIES),
    "cummin": (lambda x: lax.cummin(x, 0, reverse=True), TIES),
    "sort": (lambda x: jnp.sort(x, 1), TIES),
    "sort_down": (lambda x: jnp.take_along_axis(
        x, jnp.argsort(x, 1, stable=True, descending=True), 1), TIES),
    "top_k": (lambda x: lax.top_k(x, 2)[0], TIES),
    "median": (lambda x: jnp.median(x, 1), [[3.0, 1.0, 4.0, 2.0], [0.0, 9.0, 5.0, 7.0]]),
    "var": (lambda x: jnp.var(x, 0), TIES), "var_less": (lambda x: jnp.var(x, 1, ddof=1), TIES),
    "std": (lambda x: jnp.std(x, 0), TIES), "std_flat": (lambda x: jnp.std(x, 1), TIES),
    "mean": (lambda x: jnp.mean(x), TIES), "sum_squares": (lambda x: jnp.sum(x * x, 1), TIES),
    "norm": (lambda x: jnp.sqrt(jnp.sum(x * x, 1)), [[3.0, -4.0], [0.0, 0.0]]),
    "softmax": (lambda x: jax.nn.softmax(x, 0), [0.0, -INF, 1.0, 2.0]),
    "log_softmax": (lambda x: jax.nn.log_softmax(x, 1), THREE),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, 0), [0.0, -INF, 1.0, 2.0]),
    "doubled": (lambda x: x[jnp.array([0, 2, 2, 1, 2])], [1.0, 2.0, 3.0]),
    "outside": (lambda x: jnp.take(x, jnp.array([7, 0, 0, 3]), mode="clip"), [1.0, 2.0, 3.0]),
    "filled": (lambda x: jnp.take(x, jnp.array([7, 0, -1]), mode="fill"), [1.0, 2.0, 3.0]),
    "taken": (lambda x: jnp.take(x, jnp.array([[1, 1], [0, 3]]), axis=1), TIES),
    "along": (lambda x: jnp.take_along_axis(x, jnp.array([[2, 2], [0, 3], [1, 1]]), 1), TIES),
    "gathered": (lambda x: x[jnp.array([0, 2, 0]), jnp.array([1, 3, 1])], TIES),
    "window": (lambda x: lax.dynamic_slice(x, (1, 2), (2, 2)), TIES),
    "window_end": (lambda x: lax.dynamic_slice(x, (2, 3), (2, 2)), TIES),
    "steps": (lambda x: x[::-2, 1:4:2], TIES), "rolled": (lambda x: jnp.roll(x, 3, 1), TIES),
    "padded": (lambda x: jnp.pad(x, ((1, 0), (0, 2))), TIES),
    "padded_cut": (lambda x: lax.pad(x, x[1, 2], ((1, -1, 0), (-1, 2, 0))), TIES),
    "padded_between": (lambda x: lax.pad(x, x[1, 2], ((-2, 1, 1), (1, -1, 2))), TIES),
    "tiled": (lambda x: jnp.tile(x, (2, 1)), TIES),
    "repeated": (lambda x: jnp.repeat(x, 3, 0), TIES),
    "trace": (lambda x: jnp.trace(x), TIES), "lower": (lambda x: jnp.tril(x), TIES),
    "diff": (lambda x: jnp.diff(x, axis=1), TIES),
    "joined": (lambda x: jnp.concatenate([x, x * x], 0), TIES),
    "max_pool": (pooled(lax.max, -INF, (2, 2), (2, 1), "VALID"), LEVEL),
    "max_pool_wide": (pooled(lax.max, -INF, (3, 3), (1, 1), "SAME"), LEVEL),
    "min_pool": (pooled(lax.min, INF, (1, 3), (1, 2), "VALID"), LEVEL),
    "sum_pool": (pooled(lax.add, 0.0, (2, 2), (2, 1), "VALID"), LEVEL),
    "cast": (lambda x: x.astype(jnp.float32).astype(jnp.float64) * 3, [0.5, -2.0]),
    "whole": (lambda x: x * x.astype(jnp.int32), [2.0, -3.0]),
}
PLACES = jnp.array([1, 1, 0])
TWO = {
    "minimum": (jnp.minimum, PAIRS), "maximum": (jnp.maximum, PAIRS), "add": (jnp.add, PAIRS),
    "mul": (jnp.multiply, PAIRS), "div": (jnp.divide, PAIRS),
    "pow": (jnp.power, ([0.0, 0.0, 2.0, 1.5, 0.0, -2.0, -2.0, INF],
                        [1.0, 2.0, 3.0, -1.0, 0.0, 3.0, 0.5, 2.0])),
    "atan2": (jnp.arctan2, ([1.0, 0.0, -2.0, 0.0], [0.0, 1.0, 3.0, 0.0])),
    "hypot": (jnp.hypot, ([3.0, 0.0, -2.0, 0.0], [4.0, 1.0, 0.0, 0.0])),
    "copysign": (jnp.copysign, ([3.0, -2.0, 0.5], [-1.0, -4.0, 2.0])),
    "mod": (jnp.mod, ([5.5, -5.5, 5.5, 6.0], [2.0, 2.0, -2.0, 2.0])),
    "fmod": (jnp.fmod, ([5.5, -5.5, 5.5, 6.0], [2.0, 2.0, -2.0, 2.0])),
    "logaddexp": (jnp.logaddexp, ([0.0, -INF, 1.0, INF, -INF, INF],
                                  [0.0, 2.0, -3.0, 1.0, -INF, INF])),
    "where": (lambda a, b: jnp.where(a > b, a * b, b), PAIRS),
    "row_and_column": (lambda a, b: a[:, None] * b[None, :], ([1.0, 2.0], [3.0, 4.0, 5.0])),
    "biased": (lambda a, b: a + b, (TIES, [1.0, 2.0, 3.0, 4.0])),
    "matmul": (jnp.matmul, (ZEROS, np.transpose(TIES).tolist())),
    "by_vector": (jnp.matmul, (ZEROS, [1.0, 0.0, -1.0, 2.0])),
    "einsum": (lambda a, b: jnp.einsum("ij,ik->kij", a, b), (ZEROS, TIES)),
    "put": (lambda a, b: a.at[jnp.array([2, 0])].set(b), ([1.0, 2.0, 3.0], [4.0, 5.0])),
    "added": (lambda a, b: a.at[PLACES].add(b), ([1.0, 2.0], [3.0, 4.0, 5.0])),
    "dropped": (lambda a, b: a.at[jnp.array([1, 9, 0])].add(b), ([1.0, 2.0], [3.0, 4.0, 5.0])),
    "multiplied": (lambda a, b: a.at[jnp.array([1, 0])].multiply(b, unique_indices=True),
                   ([0.0, 2.0], [3.0, 0.0])),
    "best": (lambda a, b: a.at[jnp.array([1, 0, 2])].max(b), ([1.0, 2.0, 3.0], [2.0, 0.0, 7.0])),
    "best_twice": (lambda a, b: a.at[PLACES].max(b), ([1.0, 2.0], [5.0, 5.0, 1.0])),
    "written": (lambda a, b: lax.dynamic_update_slice(a, b, (1, 3)),
                (TIES, [[7.0, 8.0], [9.0, 1.0]])),
    "conv": (lambda a, b: lax.conv_general_dilated(
        a, b, (2, 1), [(1, 0), (0, 1)], dimension_numbers=("NHWC", "HWIO", "NHWC")),
             (IMAGE, FILTER)),
    "conv_holes": (lambda a, b: lax.conv_general_dilated(
        a, b, (1, 1), [(0, 0), (0, 0)], rhs_dilation=(2, 1),
        dimension_numbers=("NHWC", "HWIO", "NHWC")), (IMAGE, FILTER)),
    "fma": (lambda a, b: a * b + a, PAIRS),
}
# The gradient of these, once more.
SMOOTH = [-1.5, -0.25, 0.5, 2.0]
AGAIN = {
    "tanh_again": (jnp.tanh, SMOOTH), "sigmoid_again": (jax.nn.sigmoid, SMOOTH),
    "gelu_again": (lambda x: jax.nn.gelu(x, approximate=False), SMOOTH),
    "sin_again": (jnp.sin, SMOOTH), "cube_again": (lambda x: x**3, SMOOTH),
    "erf_again": (lax.erf, SMOOTH),
    "lgamma_again": (lax.lgamma, [0.5, 1.0, 3.5, 20.0]),
    "softmax_again": (lambda x: jax.nn.softmax(x, 0), SMOOTH),
    "var_again": (lambda x: jnp.var(x, 0), SMOOTH),
    "norm_again": (lambda x: jnp.sqrt(jnp.sum(x * x)), SMOOTH),
    "cumprod_again": (lambda x: jnp.cumprod(x), SMOOTH),
    "prod_again": (lambda x: jnp.prod(x), SMOOTH),
    "relu_again": (jax.nn.relu, SMOOTH), "sort_again": (lambda x: jnp.sort(x)**2, SMOOTH),
    "pow_again": (lambda x: 2.0**(x * x), SMOOTH),
}


def line(word, a):
    a = np.asarray(a, dtype=np.float64)
    dims = "x".join(str(d) for d in a.shape) or "-"
    return f"{word} {dims} " + " ".join(repr(float(v)) for v in a.ravel())


def weights(shape):
    return jnp.asarray(0.25 * (np.arange(np.prod(shape, dtype=int)) % 7 + 1)).reshape(shape)


def case(name, function, arrays):
    arrays = [jnp.asarray(a, dtype=jnp.float64) for a in arrays]
    out, back = jax.vjp(function, *arrays)
    due = weights(out.shape)
    return "\n".join([f"case {name}"] + [line("in", a) for a in arrays] + [line("due", due)]
                     + [line("to", a) for a in back(due)])


def slope(function):
    return jax.grad(lambda x: jnp.sum(function(x) * weights(function(x).shape)))


def main():
    cases = [case(n, f, (a,)) for n, (f, a) in ONE.items()]
    cases += [case(n, f, a) for n, (f, a) in TWO.items()]
    cases += [case(n, slope(f), (a,)) for n, (f, a) in AGAIN.items()]
    text = f"# JAX {jax.__version__}, by make_gradients.py\n" + "\n".join(cases) + "\n"
    (Path(__file__).parent / "gradients.txt").write_text(text)


if __name__ == "__main__":
    main()
