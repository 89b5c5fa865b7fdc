#!/usr/bin/env python3
"""Writes tests/golden/files/samples_{0,1,2}.tar, by Python's tarfile, as ustar, pax and GNU.

Sample n of 9, three an archive, has
    .bin       min(n * 100 + 3, 403) bytes, byte i = (37 n + i) mod 256
    .cls       n * n - 10 as text, with a line's end for odd n
    .vec.npy   f32[3] = n / 2 - i, by NumPy
    .txt       "text " n times; sample 4 has none
and between them lie members that are no part of samples. The sizes of sample 7 are written in other
ways: base 256, and by pax with nonsense in the header.

    make_archives.py        with NumPy
"""

import io
import tarfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent / "files"


def sum_again(header):
    """A header of 512 bytes with the checksum that it should have."""
    header = header[:148] + b" " * 8 + header[156:]
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]


def members_of(n):
    front = "a.b/"
    if n in (1, 4):
        front = "d" * 120 + "/"
    elif n in (5, 8):
        front = ("n" * 90 + "/") * 2
    array = io.BytesIO()
    np.save(array, np.array([n / 2 - i for i in range(3)], np.float32))
    yield f"{front}{n:04d}.bin", bytes((37 * n + i) % 256 for i in range(min(n * 100 + 3, 403)))
    yield f"{front}{n:04d}.cls", (str(n * n - 10) + "\n" * (n % 2)).encode()
    yield f"{front}{n:04d}.vec.npy", array.getvalue()
    if n != 4:
        yield f"{front}{n:04d}.txt", b"text " * n


def other(archive, name, kind=tarfile.REGTYPE, data=b""):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.size = len(data)
    if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        info.linkname = "elsewhere" * 15 if archive.format != tarfile.USTAR_FORMAT else "elsewhere"
    archive.addfile(info, io.BytesIO(data))


formats = (tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)
for number, kind in enumerate(formats):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
        other(archive, "a.b", tarfile.DIRTYPE)
        other(archive, "README", data=b"no ending")
        for n in range(3 * number, 3 * number + 3):
            for name, data in members_of(n):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                info.mtime = 1e9 + 0.5
                archive.addfile(info, io.BytesIO(data))
            other(archive, "a.b/.hidden.cls", data=b"5")
            other(archive, "a.b/link.cls", tarfile.SYMTYPE)
            other(archive, "a.b/hard.cls", tarfile.LNKTYPE)
            other(archive, "a.b/__x.y__", data=b"x" * 600)
    whole = out.getvalue()
    if number == 2:
        # Sample 7: its .bin has its size in base 256, its .cls by pax.
        at = whole.index(b"0007.bin") // 512 * 512
        header = whole[at:at + 512]
        size = int(header[124:135], 8)
        whole = whole[:at] + sum_again(header[:124] + b"\x80" + size.to_bytes(11, "big") +
                                       header[136:]) + whole[at + 512:]
        at = whole.index(b"0007.cls") // 512 * 512
        header = whole[at:at + 512]
        size = int(header[124:135], 8)
        record = b"%d size=%d\n" % (len("9 size=9\n") + len(str(size)) - 1, size)
        assert len(record) == int(record.split()[0]), record
        ahead = tarfile.TarInfo("pax")
        ahead.type = b"x"
        ahead.size = len(record)
        whole = (whole[:at] + ahead.tobuf(tarfile.USTAR_FORMAT) + record.ljust(512, b"\0") +
                 sum_again(header[:124] + b"77777777777\0" + header[136:]) + whole[at + 512:])
        with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
            names = {m.name: archive.extractfile(m).read() for m in archive if m.isreg()}
            for name, data in members_of(7):
                assert names[name] == data, name
    (HERE / f"samples_{number}.tar").write_bytes(whole.rstrip(b"\0") + b"\0" * 2048 if number == 0
                                                 else whole)
