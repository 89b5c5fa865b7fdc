#!/usr/bin/env python3
"""A step of a checkpoint, written by the library and read by what the format says alone: the catalog as JSON,
data files as safetensors, checksums bit by bit. Where the package safetensors is installed it reads the
same files.

  tests/python/checkpoint_read.py LIBTESSERA.so
"""

import ctypes
import itertools
import json
import math
import re
import struct
import sys
import tempfile
from pathlib import Path

from header_layout import structure

lib = ctypes.CDLL(sys.argv[1])
pointer = ctypes.c_void_p
FORMATS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "I16": "h", "I8": "b",
           "U64": "Q", "U32": "I", "U16": "H", "U8": "B", "BOOL": "?"}
DTYPES = {}  # number by name
Shape, Sharding, Field = map(structure, ("tsr_shape", "tsr_sharding", "tsr_field_args"))

for name, result, arguments in [
        ("tsr_runtime_open_with", pointer, [ctypes.c_char_p, pointer]),
        ("tsr_runtime_close", None, [pointer]),
        ("tsr_scope_open_at", pointer, [pointer, ctypes.c_char_p]),
        ("tsr_scope_close", None, [pointer]),
        ("tsr_message", ctypes.c_char_p, [pointer]),
        ("tsr_mesh_make", pointer, [pointer, ctypes.c_char_p]),
        ("tsr_dtype_name", ctypes.c_char_p, [ctypes.c_int]),
        ("tsr_on_with", Sharding, [pointer, ctypes.c_char_p, pointer]),
        ("tsr_put_at", pointer, [pointer, ctypes.c_char_p, ctypes.c_int, Shape, Sharding, ctypes.c_char_p]),
        ("tsr_tree_at", pointer, [pointer, ctypes.POINTER(Field), ctypes.c_int, ctypes.c_char_p]),
        ("tsr_checkpoint_save_with", ctypes.c_int,
         [pointer, ctypes.c_char_p, pointer, pointer, ctypes.c_char_p])]:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments
for number in range(1, 16):
    DTYPES.setdefault(lib.tsr_dtype_name(number).decode().upper(), number)

# What is saved: a name, dtype, shape, spec; elements are 0, 1, 2 ... or every third one true.
ARRAYS = [("w", "F32", (8, 16), "x,y"), ("rows", "F64", (10, 3), "x"), ("columns", "I32", (3, 10), "-,y"),
          ("flags", "BOOL", (13,), "x+y"), ("half", "F16", (7,), ""), ("bytes", "U8", (2, 2, 2), "y"),
          ("one", "I64", (), ""), ("none", "F32", (0, 4), "x"), ("large", "U16", (700, 1001), "x,y")]


def elements(dtype, shape):
    count = math.prod(shape)
    if dtype == "BOOL":
        return [i % 3 == 0 for i in range(count)]
    return [i % 256 if dtype == "U8" else i % 65536 if dtype == "U16" else i for i in range(count)]


def write(folder):
    rt = lib.tsr_runtime_open_with(b"cpu:8", None)
    mesh = lib.tsr_mesh_make(rt, b"x=2,y=4")
    scope = lib.tsr_scope_open_at(rt, b"here")
    fields = (Field * len(ARRAYS))()
    for field, (name, dtype, shape, spec) in zip(fields, ARRAYS):
        data = struct.pack(f"<{math.prod(shape)}{FORMATS[dtype]}", *elements(dtype, shape))
        place = lib.tsr_on_with(mesh, spec.encode(), None)
        field.name = name.encode()
        dims = Shape(len(shape))
        dims.dims[:len(shape)] = shape
        field.array = lib.tsr_put_at(scope, data, DTYPES[dtype], dims, place, b"here")
    tree = lib.tsr_tree_at(scope, fields, len(ARRAYS), b"here")
    status = lib.tsr_checkpoint_save_with(scope, str(folder).encode(), tree, None, b"here")
    assert status == 0, lib.tsr_message(scope)
    lib.tsr_scope_close(scope)
    lib.tsr_runtime_close(rt)


def crc32c(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def read_safetensors(path):
    """Its tensors: (dtype, shape, bytes) by name. What the format asks for is asked."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    assert data[8:9] == b"{" and (8 + length) % 64 == 0
    assert all(isinstance(v, str) for v in header.pop("__metadata__").values())
    end, tensors = 0, {}
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = tensor["data_offsets"]
        assert start == end, "holes or overlaps"
        end = stop
        tensors[name] = (tensor["dtype"], tensor["shape"], data[8 + length + start:8 + length + stop])
        assert len(tensors[name][2]) == math.prod(tensor["shape"]) * struct.calcsize(FORMATS[tensor["dtype"]])
    assert 8 + length + end == len(data)
    return tensors


def put_part(whole, shape, slices, part):
    """Puts the elements of a box where they are in the whole array."""
    indices = itertools.product(*(range(a, b) for a, b in slices))
    for value, index in zip(part, indices):
        at = 0
        for i, size in zip(index, shape):
            at = at * size + i
        assert whole[at] is None, "an element stands twice"
        whole[at] = value


def read_by_names(step):
    """The arrays by the names of tensors alone: "w[0:4,0:4]"."""
    shapes = {name: shape for name, _, shape, _ in ARRAYS}
    found = {name: [None] * math.prod(shape) for name, shape in shapes.items()}
    for path in step.glob("*.safetensors"):
        for name, (dtype, shape, data) in read_safetensors(path).items():
            base, _, slices = name.partition("[")
            part = struct.unpack(f"<{math.prod(shape)}{FORMATS[dtype]}", data)
            box = [tuple(map(int, s.split(":"))) for s in slices.rstrip("]").split(",")] if slices else [
                (0, size) for size in shapes[base]]
            put_part(found[base], shapes[base], box, part)
    return found


def read_by_catalog(step):
    text = (step / "tessera.json").read_text()
    catalog = json.loads(text)
    tail = re.search(r',\n"crc32c": "([0-9a-f]{8})"\n}\n\Z', text)
    assert int(tail[1], 16) == crc32c(text[:tail.start()].encode())
    assert (catalog["format"], catalog["version"]) == ("tessera checkpoint", 1)
    found, block = {}, catalog["block"]
    files = [(step / file["name"]).read_bytes() for file in catalog["files"]]
    assert [len(data) for data in files] == [file["bytes"] for file in catalog["files"]]
    for entry in catalog["entries"]:
        form, shape = FORMATS[entry["dtype"].upper()], entry["shape"]
        whole = found[entry["name"]] = [None] * math.prod(shape)
        for piece in entry["pieces"]:
            count = math.prod(piece["size"])
            data = files[piece["file"]][piece["at"]:piece["at"] + count * struct.calcsize(form)]
            sums = [f"{crc32c(data[at:at + block]):08x}" for at in range(0, len(data), block)]
            assert "".join(sums) == piece["crc32c"]
            put_part(whole, shape, [(a, a + n) for a, n in zip(piece["start"], piece["size"])],
                     struct.unpack(f"<{count}{form}", data))
    return found


def read_with_package(step):
    """The package's own reader gives the same tensors."""
    try:
        from safetensors import safe_open
        import numpy
    except ImportError:
        return "the package safetensors is not installed"
    for path in step.glob("*.safetensors"):
        own = read_safetensors(path)
        with safe_open(path, "numpy") as file:
            assert sorted(file.keys()) == sorted(own)
            for name in file.keys():
                tensor = file.get_tensor(name)
                assert list(tensor.shape) == own[name][1]
                assert numpy.ascontiguousarray(tensor).tobytes() == own[name][2]
    return "so does the package safetensors"


with tempfile.TemporaryDirectory() as folder:
    write(Path(folder) / "ckpt")
    step = Path(folder) / "ckpt" / "step_0"
    for found in (read_by_names(step), read_by_catalog(step)):
        for name, dtype, shape, _ in ARRAYS:
            assert list(found[name]) == elements(dtype, shape), name
    print(f"{len(ARRAYS)} arrays are read from {len(list(step.glob('*.safetensors')))} data files;",
          read_with_package(step))
