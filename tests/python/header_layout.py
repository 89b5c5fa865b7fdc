"""Structs of the library for ctypes, as its headers say: nothing about their layout is written twice."""

import ctypes
import re
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "include" / "tessera"
TYPES = {"bool": ctypes.c_bool, "int": ctypes.c_int, "double": ctypes.c_double, "size_t": ctypes.c_size_t}
TYPES.update((f"{sign}int{bits}_t", getattr(ctypes, f"c_{sign}int{bits}"))
             for sign in ("", "u") for bits in (8, 16, 32, 64))


@lru_cache(None)
def headers():
    """The text of all headers, without comments."""
    text = "\n".join(path.read_text() for path in sorted(FOLDER.glob("*.h")))
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def constant(text):
    """What a length is: sums of numbers and names that are defined, "TSR_MAX_RANK + 1"."""
    total = 0
    for term in map(str.strip, text.split("+")):
        if not term.isdigit():
            found = re.search(rf"#define {term} +(\d+)|\b{term} = (\d+)", headers())
            assert found, f"{term} is not defined in {FOLDER}"
            term = found[1] or found[2]
        total += int(term)
    return total


def ctype(name):
    """The type of a field that is no pointer."""
    if re.search(rf"typedef enum {name} {{", headers()):
        return ctypes.c_int
    return TYPES.get(name) or structure(name)


@lru_cache(None)
def structure(name):
    """The class of a struct: structure("tsr_shape")."""
    found = re.search(rf"typedef struct {name} {{(.*?)}} {name};", headers(), re.S)
    assert found, f"struct {name} is not in {FOLDER}"
    fields = []
    for line in found[1].replace("TSR_REST_BY_NAME", "").split(";"):
        if not line.strip():
            continue
        base, rest = re.fullmatch(r"\s*(?:const\s+)?(?:struct\s+)?(\w+)\s*(\W*\w.*)", line, re.S).groups()
        for each in rest.split(","):
            star, field, length = re.fullmatch(r"\s*(\**)\s*(\w+)\s*(?:\[(.*)\])?\s*", each).groups()
            kind = ctype(base) if not star else ctypes.c_char_p if base == "char" else ctypes.c_void_p
            fields.append((field, kind * constant(length) if length else kind))
    return type(name, (ctypes.Structure,), {"_fields_": fields})
