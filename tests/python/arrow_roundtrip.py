#!/usr/bin/env python3
"""Frames of other libraries, through the Arrow C stream interface and back, without a file.

  tests/python/arrow_roundtrip.py LIBTESSERA.so

Loads the shared library with ctypes; needs pyarrow, and takes pandas, Polars and DuckDB where they are
installed. Exits with 77 where pyarrow is not.
"""

import ctypes
import datetime
import decimal
import gc
import os
import sys

try:
    import pyarrow as pa
except ImportError:
    print("skipped: pyarrow is not installed")
    sys.exit(77)

from header_layout import structure

lib = ctypes.CDLL(sys.argv[1])
pointer = ctypes.c_void_p
for name, result, arguments in [
        ("tsr_runtime_open_with", pointer, [ctypes.c_char_p, pointer]),
        ("tsr_runtime_close", None, [pointer]),
        ("tsr_scope_open_at", pointer, [pointer, ctypes.c_char_p]),
        ("tsr_scope_close", None, [pointer]),
        ("tsr_scope_clear", None, [pointer]),
        ("tsr_message", ctypes.c_char_p, [pointer]),
        ("tsr_mesh_default", pointer, [pointer, ctypes.c_char_p]),
        ("tsr_frame_from_arrow_with", pointer, [pointer, pointer, pointer, ctypes.c_char_p]),
        ("tsr_frame_to_arrow_with", ctypes.c_int, [pointer, pointer, pointer, ctypes.c_char_p]),
        ("tsr_frame_is_inert", ctypes.c_bool, [pointer])]:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments


class Stream(ctypes.Structure):
    """struct ArrowArrayStream."""

    _fields_ = [(n, pointer)
                for n in ("get_schema", "get_next", "get_last_error", "release", "private_data")]


Sharding, Options, OutOptions = map(structure, ("tsr_sharding", "tsr_arrow_opts", "tsr_arrow_out_opts"))
AS_HELD, DICTIONARY, VIEWS = range(3)  # tsr_arrow_texts


lib.tsr_on_with.restype = Sharding
lib.tsr_on_with.argtypes = [pointer, ctypes.c_char_p, pointer]


class Tessera:
    """A runtime and a scope."""

    def __init__(self, devices):
        self.runtime = lib.tsr_runtime_open_with(devices.encode(), None)
        self.scope = lib.tsr_scope_open_at(self.runtime, b"arrow_roundtrip.py")

    def read(self, source, spread):
        """A frame of anything that has __arrow_c_stream__."""
        capsule = source.__arrow_c_stream__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = pointer, [ctypes.py_object, ctypes.c_char_p]
        options = Options(ctypes.sizeof(Options))
        if spread:
            options.on = lib.tsr_on_with(lib.tsr_mesh_default(self.runtime, b"rows"), b"rows", None)
        frame = lib.tsr_frame_from_arrow_with(self.scope, get(capsule, b"arrow_array_stream"),
                                              ctypes.byref(options), b"arrow_roundtrip.py")
        self.check(lib.tsr_frame_is_inert(frame))
        return frame

    def give(self, frame, texts=AS_HELD):
        """A pyarrow table of a frame."""
        stream, options = Stream(), OutOptions(ctypes.sizeof(OutOptions), texts)
        self.check(lib.tsr_frame_to_arrow_with(frame, ctypes.byref(stream), ctypes.byref(options),
                                               b"arrow_roundtrip.py"))
        table = pa.RecordBatchReader._import_from_c(ctypes.addressof(stream)).read_all()
        table.validate(full=True)
        return table

    def check(self, failed):
        """Raises what the scope says."""
        if failed:
            message = lib.tsr_message(self.scope).decode()
            lib.tsr_scope_clear(self.scope)
            raise ValueError(message)

    def close(self):
        """Closes scope and runtime."""
        lib.tsr_scope_close(self.scope)
        lib.tsr_runtime_close(self.runtime)


def plain(table):
    """Rows in types that compare: categories as texts, times as UTC without a zone, NaN as text."""
    rows = {}
    for name in table.column_names:
        values = table[name].to_pylist()
        rows[name] = [(v.astimezone(datetime.timezone.utc).replace(tzinfo=None)
                       if isinstance(v, datetime.datetime) and v.tzinfo else
                       "NaN" if isinstance(v, float) and v != v else v) for v in values]
    return rows


def every_type():
    """All types that frames take, with nulls, edges and odd texts."""
    day, time = datetime.date, datetime.datetime
    columns = {"null": pa.array([None] * 5, pa.null()),
               "bool": pa.array([True, None, False, True, None])}
    for bits in (8, 16, 32, 64):
        high = 2 ** (bits - 1)
        columns[f"i{bits}"] = pa.array([-high, None, 0, high - 1, 7], f"int{bits}")
        columns[f"u{bits}"] = pa.array([0, None, 1, 2 ** bits - 1, 7], f"uint{bits}")
    columns["f16"] = pa.array([0.0999755859375, None, float("inf"), 65504, -0.0], pa.float16())
    columns["f32"] = pa.array([0.1, None, float("inf"), float("nan"), -0.0], pa.float32())
    columns["f64"] = pa.array([0.1, None, float("-inf"), float("nan"), 5e-324])
    columns["date32"] = pa.array([day(1969, 12, 31), None, day(1, 1, 1), day(9999, 12, 31),
                                  day(2013, 1, 1)], pa.date32())
    columns["date64"] = columns["date32"].cast(pa.date64())
    stamps = [time(1969, 12, 31, 23, 59, 59), None, time(1900, 1, 1), time(2013, 1, 1, 5, 15), None]
    for unit in ("s", "ms", "us", "ns"):
        columns[unit] = pa.array(stamps, pa.timestamp(unit))
        columns[unit + "_zone"] = pa.array(stamps, pa.timestamp(unit, "America/New_York"))
    texts = ["", None, "a\n\"b\",", "\u00e9\u4e2d\U0001f600", "x" * 100]
    columns["utf8"] = pa.array(texts, pa.utf8())
    columns["large"] = pa.array(texts, pa.large_utf8())
    columns["view"] = pa.array(texts, pa.utf8()).cast(pa.string_view())
    columns["dict8"] = columns["utf8"].dictionary_encode().cast(
        pa.dictionary(pa.int8(), pa.utf8()))
    columns["dict64"] = pa.DictionaryArray.from_arrays(pa.array([1, None, 0, 2, 1], pa.int64()),
                                                       pa.array(["p", "q", None], pa.large_utf8()))
    return pa.table(columns)


def check_equal(found, expected, where):
    """Ends with an error unless all rows are equal."""
    for field in expected.schema:
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            assert found.schema.field(field.name).type == field.type, f"{where}: {field}"
    found, expected = plain(found), plain(expected)
    assert list(found) == list(expected), where
    for name, values in expected.items():
        assert found[name] == values, f"{where}: {name}: {found[name][:9]} != {values[:9]}"


def check_round_trips(table, where):
    """Through meshes of several sizes, in one batch, several, and slices with offsets."""
    several = [table, table.slice(1), table.slice(0, 0), table.slice(table.num_rows // 3)]
    batched = pa.concat_tables(several)
    for devices in ("cpu:1", "cpu:3", "cpu:8"):
        tessera = Tessera(devices)
        for source in (table, table.slice(1), table.slice(2, 1), table.slice(0, 0), batched):
            for spread in (False, True):
                check_equal(tessera.give(tessera.read(source, spread)), source,
                            f"{where} on {devices}")
        tessera.close()


def text_types(table):
    """The types of a table's columns of texts."""
    kinds = [f.type for f in table.schema]
    return {t for t in kinds if pa.types.is_dictionary(t) or t == pa.string_view()}


def check_layouts(table, where):
    """However columns of texts are held, and however they are to leave."""
    names = [f.name for f in table.schema
             if f.type in (pa.utf8(), pa.large_utf8(), pa.string_view())]
    for layout in ("codes", "views", "mixed"):
        os.environ["TSR_TEXTS"] = layout
        tessera = Tessera("cpu:3")
        for source in (table, table.slice(1), pa.concat_tables([table, table.slice(2)])):
            source = source.select(names)
            for texts in (AS_HELD, DICTIONARY, VIEWS):
                given = tessera.give(tessera.read(source, True), texts)
                check_equal(given, source, f"{where}, {layout}, {texts}")
                found = text_types(given)
                if texts == VIEWS or (texts == AS_HELD and layout == "views"):
                    assert found == {pa.string_view()}, (layout, texts, found)
                if texts == DICTIONARY or (texts == AS_HELD and layout == "codes"):
                    assert found == {pa.dictionary(pa.int32(), pa.large_utf8())}, found
                    lists = [c.dictionary.to_pylist() for n in names for c in given[n].chunks]
                    assert all(len(set(each)) == len(each) for each in lists), "a text twice"
                # and in again, as views or not
                check_equal(tessera.give(tessera.read(given, True), texts), source, where)
                del given
        gc.collect()  # what was given must not outlive the runtime
        tessera.close()
    del os.environ["TSR_TEXTS"]


def check_views():
    """Texts that do not repeat: chosen to be views, whose bytes nobody copies."""
    count = 400000
    table = pa.table({"t": pa.array([f"https://example.org/items/{i * 7919 % count:09}"
                                     for i in range(count)]).cast(pa.string_view()),
                      "short": pa.array([f"k{i}" for i in range(count)]).cast(pa.string_view())})
    tessera = Tessera("cpu:1")
    frame = tessera.read(table, False)
    given, again = tessera.give(frame), tessera.give(frame)
    assert text_types(given) == {pa.string_view()}, given.schema
    assert given.equals(table), "views"
    buffers = [[b.address for b in t["t"].chunk(0).buffers()[2:]] for t in (given, again)]
    assert buffers[0] and buffers[0] == buffers[1], "bytes of texts were copied"
    assert len(given["short"].chunk(0).buffers()) == 2, "short texts hold a buffer"
    assert text_types(tessera.give(frame, DICTIONARY)) == {pa.dictionary(pa.int32(), pa.large_utf8())}
    lib.tsr_scope_close(tessera.scope)
    assert given.slice(count - 3).to_pylist() == table.slice(count - 3).to_pylist()
    del given, again
    gc.collect()
    lib.tsr_runtime_close(tessera.runtime)


def check_converted():
    """Types that frames take as another of equal values."""
    tessera = Tessera("cpu:3")
    dec = decimal.Decimal
    wide = [dec("12345678901234567890123456789"), None, dec(-1)]
    cases = [(pa.array([1.5, None, 65504, -0.0, 6e-8], pa.float16()), None),
             (pa.array([dec("1.25"), None, dec("-0.01")], pa.decimal128(9, 2)), [1.25, None, -0.01]),
             (pa.array([dec("0.1"), None], pa.decimal256(70, 40)), [0.1, None]),
             (pa.array([dec(7), None, dec(2 ** 63 - 1)], pa.decimal128(38, 0)), [7, None, 2 ** 63 - 1]),
             (pa.array(wide, pa.decimal128(38, 0)), [float(v) if v else None for v in wide]),
             (pa.array([5, None, 7, 5]).dictionary_encode(), None),
             (pa.array([0.5, None, 0.25, 0.5]).dictionary_encode(), None),
             (pa.array([datetime.date(2013, 1, 2), None]).dictionary_encode(), None)]
    for values, expected in cases:
        given = tessera.give(tessera.read(pa.table({"a": values}), True))["a"].to_pylist()
        expected = values.to_pylist() if expected is None else expected
        assert given == expected, f"{values.type}: {given} != {expected}"
    tessera.close()


def misaligned(array):
    """The same array in buffers that lie one byte further."""
    buffers = []
    for buffer in array.buffers():
        buffers.append(buffer and pa.py_buffer(b"x" + buffer.to_pybytes()).slice(1))
    return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count, array.offset)


def check_misaligned(table):
    """Buffers at any address."""
    names = [n for n in table.column_names if not n.startswith("dict")]
    columns = {n: misaligned(table[n].combine_chunks()) for n in names if n not in ("null", "view")}
    tessera = Tessera("cpu:3")
    for spread in (False, True):
        check_equal(tessera.give(tessera.read(pa.table(columns), spread)),
                    table.select(list(columns)), "misaligned")
    tessera.close()


def check_what_is_refused():
    """Types and values that frames do not have, by name."""
    tessera = Tessera("cpu:2")
    cases = [({"a": pa.array([[1]])}, "list"),
             ({"a": pa.array([b"x"])}, "binary"),
             ({"a": pa.array([b"x"], pa.binary_view())}, "binary view (format 'vz')"),
             ({"a": pa.array([datetime.timedelta(1)])}, "duration"),
             ({"a": pa.array([datetime.time(1)])}, "time of day"),
             ({"a": pa.array([1], pa.time32("s"))}, "midnight"),
             ({"a": pa.array([{"x": 1}])}, "struct"),
             ({"a": pa.array([b"x"]).dictionary_encode()}, "dictionary of binary"),
             ({"a": pa.array([1], pa.timestamp("ns"))}, "no whole microsecond"),
             ({"a": pa.array([2 ** 62], pa.timestamp("s"))}, "beyond what 64 bits")]
    for columns, part in cases:
        try:
            tessera.give(tessera.read(pa.table(columns), False))
        except ValueError as error:
            assert part in str(error), f"{part}: {error}"
        else:
            assert False, f"{part}: was not refused"
    tessera.close()


def check_lifetimes():
    """What was borrowed is held; what was given outlives the scope."""
    tessera = Tessera("cpu:1")
    before = pa.total_allocated_bytes()
    table = pa.table({"a": pa.array(range(100000)), "t": pa.array(["x", "yy"] * 50000)})
    frame = tessera.read(table.combine_chunks(), False)
    del table
    gc.collect()
    assert pa.total_allocated_bytes() > before, "the batch is held"
    given = tessera.give(frame)
    lib.tsr_scope_close(tessera.scope)
    assert given["a"].to_pylist() == list(range(100000))
    assert given["t"].to_pylist() == ["x", "yy"] * 50000
    del given
    gc.collect()
    assert pa.total_allocated_bytes() == before, "everything was released"
    lib.tsr_runtime_close(tessera.runtime)


def check_peers(table):
    """pandas, Polars and DuckDB frames come and go."""
    peers = []
    try:
        import pandas  # noqa: F401
        peers.append(("pandas", lambda t: t.to_pandas()))
    except ImportError:
        pass
    try:
        import polars
        peers.append(("polars", polars.from_arrow))
    except ImportError:
        pass
    if "polars" in [name for name, _ in peers]:
        check_polars(polars)
    simple = table.select(["bool", "i64", "f64", "date32", "us", "utf8", "dict8"])
    for name, convert in peers:
        tessera = Tessera("cpu:3")
        source = convert(simple)
        frame = tessera.read(source, True)
        for texts in (DICTIONARY, VIEWS):
            given = tessera.give(frame, texts)
            check_equal(given, pa.table(source), name)
            back = convert(given)
            assert len(back) == simple.num_rows
            check_equal(pa.table(back), pa.table(source), f"{name} and back")
        del given, back  # what was given must not outlive the runtime
        gc.collect()
        tessera.close()
    try:
        import duckdb
    except ImportError:
        return [name for name, _ in peers]
    tessera = Tessera("cpu:3")
    query_with(duckdb, tessera)
    gc.collect()
    tessera.close()
    return [name for name, _ in peers] + ["duckdb"]


def check_polars(polars):
    """What only Polars gives so: nulls with a buffer, decimals, categories."""
    tessera = Tessera("cpu:2")
    source = polars.DataFrame({
        "n": polars.Series([None, None, None], dtype=polars.Null),
        "d": polars.Series(["1.50", None, "-7.25"]).cast(polars.Decimal(20, 2)),
        "c": polars.Series(["x", None, "y"], dtype=polars.Categorical),
        "i": polars.Series([1, None, 3], dtype=polars.Int8)})
    given = plain(tessera.give(tessera.read(source, True)))
    assert given == {"n": [None] * 3, "d": [1.5, None, -7.25], "c": ["x", None, "y"],
                     "i": [1, None, 3]}, given
    try:
        tessera.read(polars.DataFrame({"t": [datetime.time(1, 2)]}), False)
        assert False, "a time of day was not refused"
    except ValueError as error:
        assert "time of day" in str(error) and "cast it" in str(error), error
    gc.collect()
    tessera.close()


def query_with(duckdb, tessera):
    """A function of its own, since DuckDB keeps the locals of its callers."""
    connection = duckdb.connect()
    query = connection.sql("select i, i / 8.0 as f, 't' || i % 7 as t from range(10000) r(i)")
    given = tessera.give(tessera.read(query, True))  # noqa: F841, found by its name below
    assert connection.sql("select sum(i), count(distinct t) from given").fetchall() == [
        (49995000, 7)]
    given = tessera.give(tessera.read(query, True), VIEWS)  # noqa: F841
    assert connection.sql("select sum(i), count(distinct t), min(t) from given").fetchall() == [
        (49995000, 7, "t0")]
    summed = connection.sql("select sum(i) as s, sum(i / 4) as f, sum(i::hugeint * 10 ** 15) as h, "
                            "null as n, 1.25::decimal(5, 2) as d, "
                            "'b'::enum('a', 'b') as e from range(100000) r(i)")
    found = plain(tessera.give(tessera.read(summed, False)))
    assert found["s"] == [4999950000] and isinstance(found["s"][0], int), found
    assert found["d"] == [1.25] and found["n"] == [None] and found["e"] == ["b"], found
    connection.close()


def main():
    """All checks."""
    table = every_type()
    check_round_trips(table, "every type")
    many = pa.table({"i": pa.array(range(50000)),
                     "f": pa.array([None if i % 5 == 0 else i / 8 for i in range(50000)]),
                     "t": pa.array([f"text {i * i % 1000}" for i in range(50000)])})
    check_round_trips(many, "many rows")
    check_layouts(table, "every type")
    check_layouts(many, "many rows")
    check_views()
    check_misaligned(table)
    check_converted()
    check_what_is_refused()
    check_lifetimes()
    print("fine:", ", ".join(["pyarrow"] + check_peers(table)))


if __name__ == "__main__":
    main()
