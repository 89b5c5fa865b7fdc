"""Writes weak.txt: the dtype of each call of two operands where one is a number.

    python tests/golden/make_weak.py        (JAX, 64-bit types on)

One case a line: the call, the array's dtype, which side the number stands on, the number, and the
dtype of the result; calls that JAX refuses are left out. Integers and bools of functions of floats
are f64 in Tessera (docs/NUMERICS.md), which JAX agrees with for 64-bit integers only: for these
calls narrower ones are left out.
"""
import pathlib

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

names = {
    "bool": jnp.bool_, "i8": jnp.int8, "i16": jnp.int16, "i32": jnp.int32, "i64": jnp.int64,
    "u8": jnp.uint8, "u16": jnp.uint16, "u32": jnp.uint32, "u64": jnp.uint64,
    "f16": jnp.float16, "bf16": jnp.bfloat16, "f32": jnp.float32, "f64": jnp.float64,
}
ours = {jnp.dtype(dtype): name for name, dtype in names.items()}
calls = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "div": jnp.true_divide,
    "floordiv": jnp.floor_divide, "mod": jnp.remainder, "fmod": jnp.fmod, "pow": jnp.power,
    "minimum": jnp.minimum, "maximum": jnp.maximum, "copysign": jnp.copysign,
    "nextafter": jnp.nextafter, "atan2": jnp.arctan2, "hypot": jnp.hypot,
    "logaddexp": jnp.logaddexp, "eq": jnp.equal, "ne": jnp.not_equal, "lt": jnp.less,
    "le": jnp.less_equal, "gt": jnp.greater, "ge": jnp.greater_equal, "and": jnp.bitwise_and,
    "or": jnp.bitwise_or, "xor": jnp.bitwise_xor, "left_shift": jnp.left_shift,
    "right_shift": jnp.right_shift, "fmin": jnp.fmin, "fmax": jnp.fmax,
    "heaviside": jnp.heaviside, "logical_and": jnp.logical_and, "logical_or": jnp.logical_or,
    "logical_xor": jnp.logical_xor,
}
of_floats = {"div", "copysign", "nextafter", "atan2", "hypot", "logaddexp", "heaviside"}
lines = []
for call, function in calls.items():
    for name, dtype in names.items():
        x = jax.ShapeDtypeStruct((2,), dtype)
        for kind, number in (("int", 2), ("float", 2.5), ("bool", True)):
            for side in ("left", "right"):
                try:
                    call_of = (lambda x: function(number, x)) if side == "left" else (lambda x: function(x, number))
                    out = jax.eval_shape(call_of, x)
                except TypeError:
                    continue
                got = ours[out.dtype]
                if (call, name) == ("pow", "bool"):
                    continue  # which JAX computes in i32 by some numbers
                if call in of_floats and not jnp.issubdtype(dtype, jnp.floating) and got != "f64":
                    continue
                lines.append(f"{call} {name} {side} {kind} {got}\n")
(pathlib.Path(__file__).parent / "weak.txt").write_text("".join(lines))
