"""Writes promote.txt: the dtype in which each pair of dtypes meets.

    python tests/golden/make_promote.py        (JAX, 64-bit types on)

One pair a line: both dtypes and what they meet in.
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
lines = [
    f"{a} {b} {ours[jnp.promote_types(names[a], names[b])]}\n" for a in names for b in names
]
(pathlib.Path(__file__).parent / "promote.txt").write_text("".join(lines))
