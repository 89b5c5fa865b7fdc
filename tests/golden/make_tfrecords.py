#!/usr/bin/env python3
"""Writes tests/golden/files/examples_{1,2}.tfrecord: tf.Example messages encoded by protobuf from a
description of its own, framed here. Record n: image u8[2,3] = 6 n + i, weights f32[3] = n / 4 - i,
label i64 = -n, and a feature that nobody asks for. Those of the second file are not packed.

    make_tfrecords.py        with protobuf (any Python that has it)
"""

import struct
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

HERE = Path(__file__).resolve().parent / "files"


def make_messages(packed):
    """Feature, Features and Example, with lists that are packed or not."""
    file = descriptor_pb2.FileDescriptorProto(name=f"example_{packed}.proto", package=f"p{packed}",
                                              syntax="proto2")
    kind = descriptor_pb2.FieldDescriptorProto

    def message(name, *fields):
        made = file.message_type.add(name=name)
        for number, (title, type_, repeated, of) in enumerate(fields, 1):
            field = made.field.add(name=title, number=number, type=type_,
                                   label=kind.LABEL_REPEATED if repeated else kind.LABEL_OPTIONAL)
            if of:
                field.type_name = f".p{packed}.{of}"
            elif repeated and type_ != kind.TYPE_BYTES:
                field.options.packed = bool(packed)
    message("Bytes", ("value", kind.TYPE_BYTES, True, None))
    message("Floats", ("value", kind.TYPE_FLOAT, True, None))
    message("Integers", ("value", kind.TYPE_INT64, True, None))
    message("Feature", ("bytes", kind.TYPE_MESSAGE, False, "Bytes"),
            ("floats", kind.TYPE_MESSAGE, False, "Floats"),
            ("integers", kind.TYPE_MESSAGE, False, "Integers"))
    message("Entry", ("key", kind.TYPE_STRING, False, None),
            ("value", kind.TYPE_MESSAGE, False, "Feature"))
    message("Features", ("feature", kind.TYPE_MESSAGE, True, "Entry"))
    message("Example", ("features", kind.TYPE_MESSAGE, False, "Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"p{packed}.Example"))


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


assert crc32c(b"123456789") == 0xE3069283
for number, records in ((1, range(0, 7)), (2, range(7, 12))):
    example_of = make_messages(number == 1)
    out = b""
    for n in records:
        example = example_of()
        for key in ("label", "other", "weights", "image"):
            entry = example.features.feature.add(key=key)
            if key == "image":
                entry.value.bytes.value.append(bytes(6 * n + i for i in range(6)))
            elif key == "weights":
                entry.value.floats.value.extend(n / 4 - i for i in range(3))
            elif key == "label":
                entry.value.integers.value.append(-n)
            else:
                entry.value.bytes.value.append(b"not asked for")
        data = example.SerializeToString()
        length = struct.pack("<Q", len(data))
        out += length + masked(length) + data + masked(data)
    (HERE / f"examples_{number}.tfrecord").write_bytes(out)
