"""Writes products.txt: what NumPy gives for products of arrays, and JAX for windows, where nothing can round.

    python tests/golden/make_products.py        (NumPy 2.x, ml_dtypes, JAX)

One case a line: operation, what is asked ('_' for a space, '.' for nothing), operands, '>', the result; an array is
dtype:shape:values. All values are whole numbers.
"""
import math
import pathlib

import jax
import ml_dtypes
import numpy as np

jax.config.update("jax_enable_x64", True)

rng = np.random.default_rng(11)
DTYPES = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
          "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
          "f32": np.float32, "f64": np.float64}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
FLOATS = ("f16", "bf16", "f32", "f64")
lines, turn = [], 0


def text(a):
    whole = a.reshape(-1)
    whole = whole if NAMES[a.dtype] not in FLOATS else whole.astype("f8")
    return ":".join([NAMES[a.dtype], "x".join(map(str, a.shape)), ",".join(str(int(v)) for v in whole)])


def values(name, shape):
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0 if name.startswith("u") else -3, 4, shape).astype(DTYPES[name])


def in_wide(a):
    """What is exact whatever is done: wraps at the end."""
    return a.astype("f8" if NAMES[a.dtype] in FLOATS else "i8")


def case(op, asked, operands, result):
    dtype = operands[0].dtype
    result = np.asarray(result)
    result = result != 0 if dtype == np.bool_ else result.astype(dtype)
    lines.append(" ".join([op, asked.replace(" ", "_") or ".", *map(text, operands), ">", text(result)]))


def drawn(shapes):
    global turn
    turn += 1
    name = tuple(DTYPES)[turn % len(DTYPES)]
    return [np.asarray(values(name, shape)) for shape in shapes]


for shapes in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((2, 2, 3), (3, 2)), ((2, 3), (4, 3, 2)),
               ((3, 1, 2, 3), (2, 3, 2)), ((1, 2, 3), (5, 3, 1)), ((2, 0), (0, 3)), ((0, 3), (3, 2)), ((4, 3), (4, 3, 1)),
               ((2, 1, 1, 2), (1, 3, 2, 2))):
    for _ in range(2):
        a, b = drawn(shapes)
        case("matmul", "", [a, b], in_wide(a) @ in_wide(b))
for shapes in (((3,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((2, 2, 3), (2, 3, 2)), ((), (2, 3)), ((3,), ()), ((3,), (2, 3, 2))):
    a, b = drawn(shapes)
    case("dot", "", [a, b], np.dot(in_wide(a), in_wide(b)))
for shapes in (((3,), (3,)), ((2, 3), (3,)), ((2, 3), (4, 3)), ((2, 2, 3), (2, 3)), ((), (2, 3))):
    a, b = drawn(shapes)
    case("inner", "", [a, b], np.inner(in_wide(a), in_wide(b)))
for shapes in (((3,), (4,)), ((2, 3), (2,)), ((), (3,)), ((0,), (3,))):
    a, b = drawn(shapes)
    case("outer", "", [a, b], np.outer(in_wide(a), in_wide(b)))
for shapes, axes in ((((2, 3), (3, 4)), ((1,), (0,))), (((2, 3, 4), (4, 3)), ((1, 2), (1, 0))), (((2, 3), (2, 3)), ((0, 1), (0, 1))),
                     (((2, 3), (3, 2)), ((-1, 0), (0, -1))), (((5, 2), (2, 0)), ((1,), (0,)))):
    a, b = drawn(shapes)
    asked = ",".join(map(str, axes[0])) + ";" + ",".join(map(str, axes[1]))
    case("tensordot", asked, [a, b], np.tensordot(in_wide(a), in_wide(b), axes))
for shape, offset, dims in (((3, 3), 0, (0, 1)), ((2, 4), 1, (0, 1)), ((4, 3), -1, (0, 1)), ((2, 3, 4), 0, (0, 2)), ((2, 3, 3), 5, (-1, 1))):
    a = values("i64", shape)
    case("trace", f"{offset};{dims[0]},{dims[1]}", [a], np.trace(a, offset, *dims))

EINSUMS = """ij,jk->ik:2,3 3,4|ij,jk:2,3 3,4|ij,kj->ki:2,3 4,3|ji,jk->ik:3,2 3,4|ij->ji:2,3|ij:2,3|ba:2,3|ii->i:3,3|ii:3,3|ii->:3,3
|ij->:2,3|ij->j:2,3|i,i:4 4|i,i->i:4 4|i,j->ij:3 4|i,j->ji:3 4|i,j:3 4|i->:4|,->: |,i->i: 3|ij,ij->:2,3 2,3
|ij,ij->i:2,3 2,3|bij,bjk->bik:2,3,2 2,2,4|bij,bjk->kbi:2,3,2 2,2,4|bhqd,bhkd->bhqk:2,2,3,4 2,2,2,4|bqhd,bkhd->bhqk:2,3,2,2 2,4,2,2
|...ij,...jk->...ik:2,3,2 2,2,4|...ij,...jk->...ik:1,3,2 5,2,2|...ij,jk->...ik:2,3,2 2,2|...ij,...jk:2,2,3,2 1,2,2|i...,i...->...:3,2 3,2
|...,...:2,3 3|...i->...:2,3,4|...ii->...i:2,3,3|i...->...i:2,3,4|...->...:2,3|ij...,jk...->ik...:2,3,2 3,2,2|...:2,2
|ij,jk,kl->il:2,3 3,2 2,4|ij,jk,kl:2,3 3,2 2,2|i,ij,j->:3 3,4 4|ab,bc,cd,de->ae:2,3 3,2 2,3 3,2|ij,ik,il->jkl:2,3 2,2 2,4|iij,jk->ik:3,3,2 2,2
|iij,jk->k:3,3,2 2,2|ii,jj->ij:2,2 3,3|ii,jj->:2,2 3,3|iij,j->:2,2,3 3|ijk,ilm,njm,nlk,abc->:2,3,2 2,3,2 2,3,2 2,3,2 1,2,2|ij,ij,ij->ij:2,3 2,3 2,3
|a b , b c -> c a:2,3 3,4|Aa,aB->BA:2,3 3,4|Zz,zA:2,3 3,2|ij,jk->ik:0,3 3,2|ij,jk->ik:2,0 0,3|ij,k->i:2,3 4|ij,kl->:2,2 3,2|ijk,k->ijk:2,3,4 4
|abcd,bd->dca:2,3,2,2 3,2|...ab,...b->...a:3,1,2,3 2,3|i...j,j...->...:2,3,2 2,3|abc,abd,acd->a:2,2,3 2,2,2 2,3,2|ijij->ji:2,3,2,3|iijj->:2,2,3,3
|...ij,...ij->...:2,1,2,3 4,2,3|ab,ab,c->:2,3 2,3 4|aab,ab->b:2,2,3 2,3|i,j,k->kji:2 3 2"""
for line in EINSUMS.replace("\n", "").split("|"):
    spec, shapes = line.split(":")
    shapes = [tuple(int(n) for n in s.split(",") if n) for s in shapes.split(" ")]
    for _ in range(2):
        operands = drawn(shapes)
        case("einsum", spec, operands, np.einsum(spec.replace(" ", ""), *map(in_wide, operands)))

# ---- windows: JAX's values; asked: numbers by spatial dim, or by dim ----

def listed(*parts):
    return ";".join(",".join(map(str, part)) for part in parts)


# x, kernel, stride, low, high, dilation, input dilation, groups
CONVS = (((2, 5, 2), (3, 2, 3), (1,), (0,), (0,), (1,), (1,), 1), ((1, 7, 1), (2, 1, 4), (3,), (1,), (2,), (1,), (1,), 1),
         ((2, 5, 4, 2), (3, 2, 2, 3), (1, 1), (1, 0), (1, 1), (1, 1), (1, 1), 1), ((1, 6, 5, 4), (2, 2, 2, 4), (2, 1), (0, 1), (0, 0), (1, 2), (1, 1), 2),
         ((1, 3, 3, 3), (2, 2, 1, 6), (1, 1), (1, 1), (1, 1), (1, 1), (2, 2), 3), ((1, 3, 4, 2, 1), (2, 2, 1, 1, 2), (1, 2, 1), (0, 0, 0), (0, 1, 0), (1, 1, 1), (1, 1, 2), 1),
         ((2, 2, 1), (4, 1, 2), (1,), (0,), (0,), (1,), (1,), 1), ((0, 4, 2), (2, 2, 3), (1,), (0,), (0,), (1,), (1,), 1), ((1, 9, 3), (3, 3, 2), (2,), (4,), (0,), (3,), (1,), 1))
for shape, kernel, stride, low, high, dilation, spaced, groups in CONVS:
    for _ in range(2):
        x, k = drawn((shape, kernel))
        if x.dtype == np.bool_:
            x, k = drawn((shape, kernel))
        letters = "HWD"[:len(stride)]
        out = jax.lax.conv_general_dilated(in_wide(x).astype("f8"), in_wide(k).astype("f8"), stride, list(zip(low, high)), spaced, dilation,
                                           (f"N{letters}C", f"{letters}IO", f"N{letters}C"), feature_group_count=groups)
        out = np.asarray(out)
        case("conv", listed(stride, low, high, dilation, spaced, (groups,)), [x, k], out if NAMES[x.dtype] in FLOATS else out.astype("i8"))

# what, shape, window, stride, low, high, dilation
WINDOWS = (((7,), (3,), (1,), (0,), (0,), (1,)), ((9,), (5,), (2,), (2,), (1,), (1,)), ((4, 6), (2, 3), (2, 1), (0, 1), (1, 0), (1, 2)),
           ((2, 5, 5, 2), (1, 3, 2, 1), (1, 2, 2, 1), (0, 0, 1, 0), (0, 0, 0, 0), (1, 1, 1, 1)), ((3,), (5,), (1,), (0,), (0,), (1,)), ((17,), (11,), (3,), (0,), (4,), (1,)),
           ((5, 0), (2, 1), (1, 1), (0, 0), (0, 0), (1, 1)), ((2, 23), (1, 7), (1, 4), (0, 3), (0, 3), (1, 3)))
KINDS = ((jax.lax.add, lambda d: 0), (jax.lax.max, lambda d: -np.inf if d == "f" else 0 if d == "u" else -2**7),
         (jax.lax.min, lambda d: np.inf if d == "f" else 2**7 - 1), (jax.lax.mul, lambda d: 1))
for shape, window, stride, low, high, dilation in WINDOWS:
    for which, (fn, start) in enumerate(KINDS):
        x, = drawn((shape,))
        if x.dtype == np.bool_:
            x, = drawn((shape,))
        x = x[..., :] if which != 3 else np.where(x == 3, 1, x).astype(x.dtype)
        kind = "f" if NAMES[x.dtype] in FLOATS else NAMES[x.dtype][0]
        wide = in_wide(x)
        out = jax.lax.reduce_window(wide, np.asarray(start(kind), wide.dtype), fn, window, stride, list(zip(low, high)), window_dilation=dilation)
        case("window", listed((which,), window, stride, low, high, dilation), [x], np.asarray(out))

for shapes in (((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (3, 2)), ((), ()), ((0,), (0, 2)), ((5, 1), (5,))):
    for _ in range(2):
        a, b = drawn(shapes)
        case("vdot", "", [a, b], np.vdot(in_wide(a), in_wide(b)))
for shapes in (((3,), (2,)), ((2, 3), (3, 2)), ((2,), (2, 3)), ((), (2, 2)), ((2, 1, 2), (3,)), ((2, 0), (1, 3)), ((1, 2, 1, 2), (2, 1, 2, 1))):
    for _ in range(2):
        a, b = drawn(shapes)
        case("kron", "", [a, b], np.kron(in_wide(a), in_wide(b)))

path = pathlib.Path(__file__).with_name("products.txt")
path.write_text("".join(line + "\n" for line in lines))
