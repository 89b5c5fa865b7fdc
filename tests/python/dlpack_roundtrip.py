#!/usr/bin/env python3
"""Arrays of other libraries, through DLPack and back, in memory and without a copy where that can be.

  tests/python/dlpack_roundtrip.py LIBTESSERA.so

Loads the shared library with ctypes; needs NumPy 2.1 or newer, and takes PyTorch where it is installed.
Exits with 77 where NumPy is not.
"""

import ctypes
import gc
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)
if tuple(map(int, np.__version__.split(".")[:2])) < (2, 1):
    print("skipped: NumPy is older than 2.1")
    sys.exit(77)

lib = ctypes.CDLL(sys.argv[1])
pointer = ctypes.c_void_p
for name, result, arguments in [
        ("tsr_runtime_open_with", pointer, [ctypes.c_char_p, pointer]),
        ("tsr_runtime_close", None, [pointer]),
        ("tsr_scope_open_at", pointer, [pointer, ctypes.c_char_p]),
        ("tsr_scope_close", None, [pointer]),
        ("tsr_message", ctypes.c_char_p, [pointer]),
        ("tsr_type_of", ctypes.c_char_p, [pointer]),
        ("tsr_is_inert", ctypes.c_bool, [pointer]),
        ("tsr_from_dlpack_with", pointer, [pointer, pointer, pointer, ctypes.c_char_p]),
        ("tsr_from_dlpack_versioned_with", pointer, [pointer, pointer, pointer, ctypes.c_char_p]),
        ("tsr_to_dlpack_at", ctypes.c_int, [pointer, ctypes.c_int, pointer, ctypes.c_char_p]),
        ("tsr_to_dlpack_versioned_at", ctypes.c_int,
         [pointer, ctypes.c_int, pointer, ctypes.c_char_p])]:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments

api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = pointer
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [pointer, ctypes.c_char_p, pointer]

OLD, NEW = (b"dltensor", b"used_dltensor"), (b"dltensor_versioned", b"used_dltensor_versioned")


def take(scope, capsule):
    """An array of Tessera made of a capsule, which is used up."""
    names = NEW if "versioned" in repr(capsule) else OLD
    tensor = api.PyCapsule_GetPointer(capsule, names[0])
    api.PyCapsule_SetName(capsule, names[1])
    call = lib.tsr_from_dlpack_versioned_with if names is NEW else lib.tsr_from_dlpack_with
    array = call(scope, tensor, None, b"take")
    assert not lib.tsr_is_inert(array), lib.tsr_message(scope)
    return array


class Gift:
    """What NumPy and PyTorch ask for a tensor."""

    def __init__(self, scope, array):
        self.scope, self.array = scope, array

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        new = max_version is not None and max_version[0] >= 1
        call = lib.tsr_to_dlpack_versioned_at if new else lib.tsr_to_dlpack_at
        out = pointer()
        assert call(self.array, 0, ctypes.byref(out), b"give") == 0, lib.tsr_message(self.scope)
        return api.PyCapsule_New(out, (NEW if new else OLD)[0], None)


class Scope:
    """A scope that is closed."""

    def __enter__(self):
        self.raw = lib.tsr_scope_open_at(runtime, b"scope")
        return self.raw

    def __exit__(self, *unused):
        lib.tsr_scope_close(self.raw)


def aligned(values):
    """A copy that begins at a multiple of 64 bytes."""
    room = np.empty(values.nbytes + 64, dtype=np.uint8)
    start = -room.ctypes.data % 64
    out = room[start:start + values.nbytes].view(values.dtype).reshape(values.shape)
    out[...] = values
    return out


def test_types():
    kinds = "?bhilBHILefd"
    for kind in kinds:
        values = aligned((np.arange(24).reshape(4, 6) % 5).astype(kind))
        for versions in ({}, {"max_version": (1, 0)}):
            with Scope() as scope:
                array = take(scope, values.__dlpack__(**versions))
                back = np.from_dlpack(Gift(scope, array))
                assert back.dtype == values.dtype and (back == values).all(), kind
                same = back.ctypes.data == values.ctypes.data
                assert same == (kind != "?"), kind
                assert not back.flags.writeable or kind == "?"
            assert (back == values).all()  # it outlives the scope
            del back
            gc.collect()
    return len(kinds)


def test_layouts():
    values = np.arange(120, dtype=np.int32).reshape(2, 3, 4, 5)
    views = [values.T, values[:, ::-1], values[..., 1:4:2], values[1, 2], values[:0], values[1:, 1:2],
             np.broadcast_to(np.float64(3), (3, 4)), np.array(7, dtype=np.int16)]
    for view in views:
        with Scope() as scope:
            back = np.from_dlpack(Gift(scope, take(scope, view.__dlpack__(max_version=(1, 0)))))
            assert back.shape == view.shape and (back == view).all()
    return len(views)


def test_release():
    """NumPy's array goes when the scope does, not before."""
    values = aligned(np.arange(8.0))
    before = sys.getrefcount(values)
    with Scope() as scope:
        take(scope, values.__dlpack__())
        gc.collect()
        assert sys.getrefcount(values) > before
    gc.collect()
    assert sys.getrefcount(values) == before


def test_torch():
    try:
        import torch
    except ImportError:
        return "not installed"
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.float16, torch.uint8):
        values = (torch.arange(24).reshape(4, 6) % 5).to(dtype)
        with Scope() as scope:
            array = take(scope, torch.utils.dlpack.to_dlpack(values.t()))
            back = torch.from_dlpack(Gift(scope, array))
            assert back.dtype == dtype and torch.equal(back, values.t())
    return "taken and given"


runtime = lib.tsr_runtime_open_with(b"cpu:2", None)
print(test_types(), "types of NumPy there and back")
print(test_layouts(), "layouts")
test_release()
print("PyTorch:", test_torch())
lib.tsr_runtime_close(runtime)
