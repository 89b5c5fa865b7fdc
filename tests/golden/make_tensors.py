#!/usr/bin/env python3
"""Writes tests/golden/files/tensors_{0,1}.safetensors by the package safetensors, and
lengths.tfrecord, whose messages and checksums are put together here.

Record n of the tensors, 5 in the first file and 3 in the second:
    image.raw  u8[2,2] = 10 n + i        label    i64 = -n
    half       f16[3] = n / 2 - i        mask     bool = n is odd
and an array "scale" that counts no records. Record n of the examples, 6 of them:
    tokens     n mod 4 integers, 100 n + i
    bytes      3 n bytes, 7 n + i, as two values; not there in record 5
    pairs      2 (n mod 3) floats, n + i / 4

    make_tensors.py         with NumPy and safetensors
"""

import struct
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

HERE = Path(__file__).resolve().parent / "files"

for number, records in ((0, range(5)), (1, range(5, 8))):
    n = np.array(records)
    save_file({"image.raw": (10 * n[:, None, None] + np.arange(4).reshape(2, 2)).astype(np.uint8),
               "label": -n.astype(np.int64),
               "half": (n[:, None] / 2 - np.arange(3)).astype(np.float16),
               "mask": n % 2 == 1,
               "scale": np.ones(2, np.float32)},
              HERE / f"tensors_{number}.safetensors", metadata={"kind": "test"})


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def part(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


out = b""
for n in range(6):
    data = bytes((7 * n + i) % 256 for i in range(3 * n))
    features = {
        b"tokens": part(3, part(1, b"".join(varint(100 * n + i) for i in range(n % 4)))),
        b"pairs": part(2, part(1, struct.pack(f"<{2 * (n % 3)}f",
                                              *(n + i / 4 for i in range(2 * (n % 3)))))),
    }
    if n != 5:
        features[b"bytes"] = part(1, part(1, data[:n]) + part(1, data[n:]))
    message = part(1, b"".join(part(1, part(1, key) + part(2, value))
                               for key, value in features.items()))
    length = struct.pack("<Q", len(message))
    out += length + masked(length) + message + masked(message)
(HERE / "lengths.tfrecord").write_bytes(out)
