#!/usr/bin/env python3
"""Makes csv_options.txt: what pandas reads from files under each option of the CSV reader, and
PyArrow where it alone tells a quoted text from a bare one. Run it in this folder.

A case is `case NAME ROWS COLUMNS OPTIONS FILE`, options as `key:hex` joined by `;`, the file in hex,
then its columns as in csv_cases.txt.
"""
import io
import os
import struct

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = {"Int64": "i64", "Float64": "f64", "boolean": "bool", "string": "text", "Int32": "i32",
         "Float32": "f32"}


def cell(kind, value):
    if value is None or value is pd.NA:
        return "-"
    if kind == "text":
        return "t:" + value.encode().hex()
    if kind in ("f64", "f32"):
        return "f:%016x" % struct.unpack("<Q", struct.pack("<d", float(value)))[0]
    return "i:%d" % int(value)


def by_pandas(data, **how):
    how.setdefault("keep_default_na", False)
    how.setdefault("na_values", ["", "NA"])
    frame = pd.read_csv(io.BytesIO(data), dtype_backend="numpy_nullable", **how)
    return [(str(name), KINDS[str(frame[name].dtype)], list(frame[name])) for name in frame]


def by_arrow(data, **how):
    table = pc.read_csv(io.BytesIO(data), convert_options=pc.ConvertOptions(**how))
    kinds = {pa.int64(): "i64", pa.float64(): "f64", pa.bool_(): "bool", pa.string(): "text"}
    return [(n, kinds[table[n].type], table[n].to_pylist()) for n in table.column_names]


def only(columns, names):
    by_name = {c[0]: c for c in columns}
    return [by_name[n] for n in names]


PLAIN = b"a,b,c\n1,x,2.5\n2,\"y, z\",-1e3\n3,\"say \"\"no\"\"\",0.125\n"
SEMI = PLAIN.replace(b",", b";").replace(b"; z", b", z")
COMMENTS = (b"# made by hand, \"with a quote\na,b\n# first\n1,x\n\n2,\"y\n# no comment\"\n#\n# last\n"
            b"3,z\n#no newline")


def cases():
    yield "semicolon", {"separator": b";"}, SEMI, by_pandas(SEMI, sep=";")
    for name, byte in (("tab", b"\t"), ("pipe", b"|"), ("caret", b"^"), ("unit", b"\x1f")):
        data = b"a,b,c\n1,x,2.5\n2,y,1e3\n".replace(b",", byte)
        yield name, {"separator": byte}, data, by_pandas(data, sep=byte.decode())
    yield "comments", {"comment": b"#"}, COMMENTS, by_pandas(
        b"a,b\n1,x\n2,\"y\n# no comment\"\n3,z\n")
    data = b"a,b\r\n%1,2\r\n3,4\r\n%\r\n5,6\r\n"
    yield "comments_crlf", {"comment": b"%"}, data, by_pandas(data, comment="%")
    data = b"1,x,2.5\n2,y,3.5\n"
    yield "no_header", {"no_header": b"1"}, data, by_pandas(
        data, header=None, names=["column_1", "column_2", "column_3"])
    data = b"\n\n7,8\n\n9,10\n"
    yield "no_header_blank", {"no_header": b"1"}, data, by_pandas(
        data, header=None, names=["column_1", "column_2"])
    yield "names", {"names": b"p, \"q, r\", s"}, PLAIN, by_pandas(PLAIN, header=0,
                                                                names=["p", "q, r", "s"])
    data = b"1,x\n2,y\n"
    yield "names_no_header", {"names": b"p,q", "no_header": b"1"}, data, by_pandas(
        data, header=None, names=["p", "q"])
    data = b"a;b\n1,5;x\n-2,25e2;y\n;z\n7;w\n"
    yield "decimal_comma", {"separator": b";", "decimal_comma": b"1"}, data, by_pandas(
        data, sep=";", decimal=",")
    data = b"title \"x\nmade 2013\na,b\n1,2\n3,4\n"
    yield "skip_rows", {"skip_rows": b"2"}, data, by_pandas(b"a,b\n1,2\n3,4\n")
    data = b"skip,me\n1,2\n3,4\n"
    yield "skip_no_header", {"skip_rows": b"1", "no_header": b"1"}, data, by_pandas(
        data, skiprows=1, header=None, names=["column_1", "column_2"])
    yield "columns", {"columns": b"c, a"}, PLAIN, only(by_pandas(PLAIN), ["c", "a"])
    data = b"a,b,c,d,e\n1,2,3,4.5,6\n-7,8,9,10,\n"
    types = {"a": "Int32", "b": "Float64", "c": "string", "d": "Float32", "e": "Int64"}
    yield "types", {"types": b"a i32, b f64, c text, d f32, e i64"}, data, by_pandas(
        data, dtype=types)
    data = b"a,b,c\n1,x,-999\n-,y,2\n,-,3\n4,none,none\n"
    yield "nulls", {"nulls": b"-, none, -999", "text_nulls": b"1"}, data, by_pandas(
        data, na_values=["", "-", "none", "-999"])
    data = b"a,b\n1,x\n2,\n3,NA\n4,\"\"\n5,\"NA\"\n"
    yield "text_nulls", {"text_nulls": b"1"}, data, by_arrow(
        data, null_values=["", "NA"], strings_can_be_null=True, quoted_strings_can_be_null=False)
    data = b"t\n\nx\n\ny\n\n"
    yield "text_nulls_one_column", {"text_nulls": b"1"}, data, by_pandas(
        data, skip_blank_lines=False)
    data = b"a,b\n1,x\n2,y,z\n3,w\n4,5,6,7\n8,v\n"
    yield "bad_skip", {"bad_rows": b"1"}, data, by_pandas(data, on_bad_lines="skip")
    data = b"a,b,c\n1,x,2\n3\n4,y,6,7\n8,,9\n"
    yield "bad_null", {"bad_rows": b"2", "text_nulls": b"1"}, data, by_pandas(
        data.replace(b",7", b""))


def lines():
    for name, options, data, columns in cases():
        text = ";".join("%s:%s" % (k, v.hex()) for k, v in options.items())
        rows = len(columns[0][2])
        yield "case %s %d %d %s %s" % (name, rows, len(columns), text, data.hex())
        for title, kind, values in columns:
            yield "column %s %s" % (title.encode().hex(), kind)
            for value in values:
                yield cell(kind, value)


with open(os.path.join(HERE, "csv_options.txt"), "w", encoding="ascii") as out:
    out.write("\n".join(lines()) + "\n")
