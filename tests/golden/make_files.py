#!/usr/bin/env python3
"""Writes tests/golden/files: one table of every type in every format, by other libraries and by ours.

  tests/golden/make_files.py LIBTESSERA.so

fixture.txt says what the table holds. Files by pandas, PyArrow, Polars and Python's json are for the
reader; those by Tessera (the test compares what it writes with them, byte for byte) are read here by the
others, and the script fails unless they find the same. Needs pandas, pyarrow, polars, numpy.
"""

import ctypes
import datetime
import gzip
import json
import math
import pathlib
import struct
import sys

import numpy
import pandas
import polars
import pyarrow
import pyarrow.csv
import pyarrow.json

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "files"
sys.path.insert(0, str(HERE.parent / "python"))
import arrow_roundtrip  # noqa: E402, it loads the library named on the command line
import header_layout  # noqa: E402

DAY, TIME = datetime.date, datetime.datetime
COLUMNS = {
    "b": ("bool", pyarrow.bool_(), [True, False, None, True, False, None, True, False]),
    "i": ("i32", pyarrow.int32(),
          [0, -1, None, 2 ** 31 - 1, -2 ** 31, 7, None, 123456]),
    "l": ("i64", pyarrow.int64(),
          [0, -1, 2 ** 63 - 1, -2 ** 63, None, 2 ** 53 + 1, 10, None]),
    "f": ("f32", pyarrow.float32(),
          [0.1, -0.0, None, 1e-45, 3.4028234663852886e38, 16777216.0, math.nan, math.inf]),
    "g": ("f64", pyarrow.float64(),
          [0.1, -0.0, math.nan, 5e-324, 1.7976931348623157e308, None, -math.inf, 1e22]),
    "d": ("date", pyarrow.date32(),
          [DAY(1970, 1, 1), DAY(1969, 12, 31), None, DAY(1, 1, 1), DAY(9999, 12, 31),
           DAY(2000, 2, 29), DAY(1900, 2, 28), None]),
    "w": ("time", pyarrow.timestamp("us"),
          [TIME(1970, 1, 1), TIME(1969, 12, 31, 23, 59, 59, 999999), None,
           TIME(2013, 1, 31, 6, 30), TIME(1900, 1, 1), None, TIME(9999, 12, 31, 23, 59, 59),
           TIME(1, 1, 1, 0, 0, 1)]),
    "t, \"x\"": ("text", pyarrow.string(),
                 ["", None, "a,b", "line\nbreak\r\n", "\"quoted\"", " blanks\t",
                  "\u00e9\u4e2d\U0001f600", "NA"]),
    "\u540d": ("text", pyarrow.string(),
               ["null", "nan", "007", "1e5", "\\back\\slash", "\u0001\u007f", None, "x" * 200]),
}
TYPES = ", ".join(f'"{name}" {kind}'.replace('"t, "x""', '"t, ""x"""')
                  for name, (kind, _, _) in COLUMNS.items())


def table(rows):
    """The first rows as a PyArrow table."""
    return pyarrow.table({name: pyarrow.array(values[:rows], kind)
                          for name, (_, kind, values) in COLUMNS.items()})


def cell(kind, value):
    """A value as fixture.txt has it."""
    if value is None:
        return "~"
    if kind == "bool":
        return str(int(value))
    if kind == "f32":
        return f"{struct.unpack('<I', struct.pack('<f', value))[0]:x}"
    if kind == "f64":
        return f"{struct.unpack('<Q', struct.pack('<d', value))[0]:x}"
    if kind == "date":
        return str((value - DAY(1970, 1, 1)).days)
    if kind == "time":
        return str((value - TIME(1970, 1, 1)) // datetime.timedelta(microseconds=1))
    return "=" + value.encode().hex() if kind == "text" else str(value)


def write_fixture():
    """Names, types and values, a column a line."""
    lines = []
    for name, (kind, _, values) in COLUMNS.items():
        lines.append(" ".join([name.encode().hex(), kind] + [cell(kind, v) for v in values]))
    (OUT / "fixture.txt").write_text("\n".join(lines) + "\n")


def json_value(value):
    """A value as JSON lines have it."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, TIME):
        return value.isoformat() + "Z"
    return value.isoformat() if isinstance(value, DAY) else value


def write_by_others(rows):
    """The files that the reader is tested with."""
    whole = table(rows)
    pyarrow.csv.write_csv(whole, OUT / f"pyarrow_{rows}.csv")
    frame = pandas.DataFrame({name: pandas.Series(values[:rows], dtype=kind) for
                              (name, (_, _, values)), kind in
                              zip(COLUMNS.items(), ["boolean", "Int32", "Int64", "float32",
                                                    "float64", "object", "object", "object",
                                                    "object"])})
    frame.to_csv(OUT / f"pandas_{rows}.csv.gz", index=False,
                 compression={"method": "gzip", "mtime": 1})
    polars.from_arrow(whole).write_csv(OUT / f"polars_{rows}.csv", include_bom=True)
    lines = [json.dumps({name: json_value(v) for name, v in row.items()},
                        ensure_ascii=number % 2 == 0)
             for number, row in enumerate(whole.to_pylist())]
    text = "".join(line + "\n" for line in lines)
    (OUT / f"python_{rows}.jsonl").write_text(text)
    polars.from_arrow(whole).write_ndjson(OUT / f"polars_{rows}.jsonl")


def write_by_tessera(rows):
    """What the writer is tested with."""
    lib, pointer = arrow_roundtrip.lib, arrow_roundtrip.pointer
    lib.tsr_frame_write_csv_with.argtypes = [pointer, ctypes.c_char_p, pointer, ctypes.c_char_p]
    lib.tsr_frame_write_json_at.argtypes = [pointer, ctypes.c_char_p, ctypes.c_char_p]
    tessera = arrow_roundtrip.Tessera("cpu:3")
    frame = tessera.read(table(rows), True)
    tessera.check(lib.tsr_frame_write_csv_with(frame, str(OUT / f"tessera_{rows}.csv").encode(),
                                               None, b"make_files.py"))
    tessera.check(lib.tsr_frame_write_json_at(frame, str(OUT / f"tessera_{rows}.jsonl").encode(),
                                              b"make_files.py"))
    tessera.close()


def same(found, expected, nan_is_null):
    """Whether two lists of values are equal, NaN to NaN and -0 not to 0."""
    def plain(value):
        if isinstance(value, float):
            if nan_is_null and not math.isfinite(value) and value != value:
                return None
            return value.hex()
        if isinstance(value, TIME) and value.tzinfo:
            return value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return value
    return [plain(v) for v in found] == [plain(v) for v in expected]


def check_equal(who, found, rows, finite=False, nan_is_null=False):
    """Ends with an error unless a reader found the table."""
    for name, (_, kind, values) in COLUMNS.items():
        values = pyarrow.array(values[:rows], kind).to_pylist()
        if finite:
            values = [None if isinstance(v, float) and not math.isfinite(v) else v for v in values]
        assert same(found[name], values, nan_is_null), (who, name, found[name], values)


def check_what_tessera_wrote(rows):
    """Read by PyArrow, pandas, Polars and Python."""
    path, kinds = OUT / f"tessera_{rows}.csv", {n: k for n, (_, k, _) in COLUMNS.items()}
    kinds["w"] = pyarrow.timestamp("us", "UTC")
    options = pyarrow.csv.ConvertOptions(column_types=kinds, strings_can_be_null=True,
                                         quoted_strings_can_be_null=False, null_values=[""])
    found = pyarrow.csv.read_csv(
        path, convert_options=options,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True))
    check_equal("pyarrow csv", {n: found[n].to_pylist() for n in COLUMNS}, rows)
    frame = pandas.read_csv(path, keep_default_na=False, na_values={n: ["", "nan"] for n in "bilfg"},
                            dtype={"b": "boolean", "i": "Int32", "l": "Int64", "f": "float32"})
    for name in "bil":
        values = COLUMNS[name][2][:rows]
        assert [None if v is pandas.NA else v for v in frame[name]] == values, (name, rows)
    for name in "fg":
        found = [None if v != v else v for v in frame[name].tolist()]
        values = pyarrow.array(COLUMNS[name][2][:rows], COLUMNS[name][1]).to_pylist()
        assert same(found, [None if v != v else v for v in values], True), (name, found)
    for name in list(COLUMNS)[7:]:
        assert frame[name].tolist() == [v or "" for v in COLUMNS[name][2][:rows]], name
    if rows == 0:
        return
    path = OUT / f"tessera_{rows}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for name, (_, kind, values) in COLUMNS.items():
        values = pyarrow.array(values[:rows], kind).to_pylist()
        found = [line[name] for line in lines]
        if name == "f":
            found = pyarrow.array(found, pyarrow.float32()).to_pylist()
        if name == "w":
            found = [v and v.replace(".000000", "") for v in found]
        assert same(found, [json_value(v) for v in values], False), (name, found)
    schema = pyarrow.schema([(n, pyarrow.string() if n in "dw" else k)
                             for n, (_, k, _) in COLUMNS.items()])
    found = pyarrow.json.read_json(
        path, parse_options=pyarrow.json.ParseOptions(explicit_schema=schema))
    for name in "bil":
        assert found[name].to_pylist() == COLUMNS[name][2][:rows], name
    for name in list(COLUMNS)[7:]:
        assert found[name].to_pylist() == COLUMNS[name][2][:rows], name
    found = polars.read_ndjson(path)
    assert found["l"].to_list() == COLUMNS["l"][2][:rows]


def arrays():
    """Arrays of every dtype, empty and without dims too."""
    return {"b": numpy.array([True, False, True]), "i": numpy.arange(6, dtype="i4").reshape(2, 3),
            "l": numpy.array([2 ** 63 - 1, -2 ** 63]), "f": numpy.array([0.1, -0.0], dtype="f4"),
            "g": numpy.array([[5e-324, numpy.nan], [numpy.inf, -1e308]]), "s": numpy.array(7.5),
            "none": numpy.zeros((0, 4)), "\u00e9/x": numpy.ones(300)}


Sharding, Item = map(header_layout.structure, ("tsr_sharding", "tsr_npz_item"))


def copy_by_tessera(source, path):
    """Reads an archive and writes it again."""
    lib, pointer = arrow_roundtrip.lib, arrow_roundtrip.pointer
    for name, result, arguments in [
            ("tsr_load_npz_at", pointer, [pointer, ctypes.c_char_p, ctypes.c_char_p]),
            ("tsr_npz_count", ctypes.c_int, [pointer]),
            ("tsr_npz_name", ctypes.c_char_p, [pointer, ctypes.c_int]),
            ("tsr_npz_array_at", pointer, [pointer, ctypes.c_char_p, Sharding, ctypes.c_char_p]),
            ("tsr_save_npz_with", ctypes.c_int,
             [pointer, ctypes.c_char_p, ctypes.POINTER(Item), ctypes.c_int, ctypes.c_char_p])]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    tessera = arrow_roundtrip.Tessera("cpu:1")
    archive = lib.tsr_load_npz_at(tessera.scope, str(source).encode(), b"make_files.py")
    names = [lib.tsr_npz_name(archive, i) for i in range(lib.tsr_npz_count(archive))]
    items = [Item(n, lib.tsr_npz_array_at(archive, n, Sharding(), b"make_files.py")) for n in names]
    tessera.check(lib.tsr_save_npz_with(tessera.scope, str(path).encode(),
                                        (Item * len(items))(*items), len(items),
                                        b"make_files.py"))
    tessera.close()


def write_archives():
    """By NumPy and, of one of these, by Tessera, which NumPy then reads."""
    numpy.savez(OUT / "numpy_stored.npz", **arrays())
    numpy.savez_compressed(OUT / "numpy_deflated.npz", **arrays())
    path = OUT / "tessera.npz"
    copy_by_tessera(OUT / "numpy_stored.npz", path)
    with numpy.load(path) as found:
        assert list(found) == list(arrays())
        for name, value in arrays().items():
            assert found[name].dtype == value.dtype and found[name].shape == value.shape, name
            assert found[name].tobytes() == value.tobytes(), name


def main():
    """All files."""
    OUT.mkdir(exist_ok=True)
    write_fixture()
    for rows in (0, 1, 8):
        write_by_others(rows)
        write_by_tessera(rows)
        check_what_tessera_wrote(rows)
    write_archives()
    with gzip.open(OUT / "pandas_8.csv.gz") as packed:
        assert packed.readline().startswith(b"b,i,l")


main()
