"""Encoded images and what they are at 20 x 24: tests/golden/files/images.npz.

    make_images.py OUT      needs NumPy and Pillow

Fields, an image a record: image, image_length (the bytes of a file), colour u8[20,24,3] and grey
u8[20,24] (upright, whole, resized by Pillow's BILINEAR). Pixels of PNG come from the arrays that
they were written from, not from a decoder.
"""
import io
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps

HEIGHT, WIDTH = 20, 24
random = np.random.default_rng(5)


def scene(height, width):
    """Waves and an edge, so that every corner and colour tells itself from the others."""
    y, x = np.mgrid[0:height, 0:width].astype(float)
    red = 255 * x / max(width - 1, 1)
    green = 127 + 120 * np.sin(y / 5) * np.cos(x / 9)
    blue = np.where(x + 2 * y < width, 230, 20)
    return np.stack([red, green, blue], -1).astype(np.uint8)


def jpeg(image, orientation=None, **how):
    out = io.BytesIO()
    if orientation:
        exif = Image.Exif()
        exif[0x0112] = orientation
        how["exif"] = exif.tobytes()
    image.save(out, "JPEG", quality=92, **how)
    return out.getvalue()


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def packed(rows, bits):
    """Samples [height, samples] to bytes of rows, behind filter 0."""
    out = b""
    for row in rows:
        out += b"\0"
        if bits == 16:
            out += row.astype(">u2").tobytes()
        elif bits == 8:
            out += row.astype(np.uint8).tobytes()
        else:
            each = np.unpackbits(row.astype(np.uint8)[:, None], axis=1)[:, 8 - bits:]
            out += np.packbits(each.reshape(-1)).tobytes()
    return out


PASSES = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def png(samples, kind, bits, laced=False, more=b""):
    """samples [height, width, n] of a colour type."""
    height, width, n = samples.shape
    head = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, int(laced))
    if laced:
        data = b"".join(packed(part.reshape(part.shape[0], -1), bits)
                        for part in (samples[t::down, l::right] for t, l, down, right in PASSES) if part.size)
    else:
        data = packed(samples.reshape(height, width * n), bits)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + more + chunk(b"IDAT", zlib.compress(data, 9)) +
            chunk(b"IEND", b""))


cases = []   # bytes, the upright image in colours


def add(data, pixels=None):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))) if pixels is None else Image.fromarray(pixels)
    cases.append((data, image.convert("RGB")))


def add_jpegs():
    image = Image.fromarray(scene(37, 53))
    for sampling in (0, 1, 2):
        add(jpeg(image, subsampling=sampling))
    add(jpeg(image, progressive=True))
    add(jpeg(image.convert("L")))
    add(jpeg(image.convert("CMYK")))
    add(jpeg(Image.fromarray(scene(6, 8))))
    add(jpeg(Image.fromarray(scene(161, 150)), restart_marker_blocks=4))
    for orientation in range(1, 9):
        add(jpeg(image, orientation))


def add_pngs():
    colours = scene(31, 45)
    grey = colours[:, :, :1]
    alpha = random.integers(0, 256, (31, 45, 1), dtype=np.uint8)
    wide = colours.astype(np.uint16) * 256 + random.integers(0, 256, (31, 45, 3))
    three = lambda one: np.repeat(one.astype(np.uint8), 3, axis=2)
    for laced in (False, True):
        for bits in (1, 2, 4, 8):
            few = grey >> (8 - bits)
            add(png(few, 0, bits, laced), three(few * (255 // (2 ** bits - 1))))
            palette = random.integers(0, 256, (2 ** bits, 3), dtype=np.uint8)
            add(png(few, 3, bits, laced, chunk(b"PLTE", palette.tobytes())), palette[few[:, :, 0]])
        add(png(wide[:, :, :1], 0, 16, laced), three(wide[:, :, :1] >> 8))
        add(png(colours, 2, 8, laced), colours)
        add(png(wide, 2, 16, laced), (wide >> 8).astype(np.uint8))
        add(png(np.concatenate([grey, alpha], 2), 4, 8, laced), three(grey))
        add(png(np.concatenate([colours, alpha], 2), 6, 8, laced), colours)
    clear = chunk(b"PLTE", palette.tobytes()) + chunk(b"tRNS", bytes(range(200)))
    add(png(grey, 3, 8, False, clear), palette[grey[:, :, 0]])
    tags = struct.pack(">2sHIHHHIHHI", b"MM", 42, 8, 1, 0x0112, 3, 1, 6, 0, 0)
    add(png(colours, 2, 8, False, chunk(b"eXIf", tags)), np.rot90(colours, -1).copy())


def add_ramps():
    """Grey that rises to the right, and downwards: what is cut of them tells where."""
    ramp = np.tile(np.arange(256, dtype=np.uint8), (256, 1))
    for one in (ramp, ramp.T):
        add(png(one[:, :, None], 0, 8), np.repeat(one[:, :, None], 3, axis=2))


add_jpegs()
add_pngs()
add_ramps()
longest = max(len(data) for data, _ in cases)
encoded = np.zeros((len(cases), longest), np.uint8)
for row, (data, _) in zip(encoded, cases):
    row[:len(data)] = np.frombuffer(data, np.uint8)
size = (WIDTH, HEIGHT)
np.savez_compressed(
    sys.argv[1], image=encoded, image_length=np.array([len(data) for data, _ in cases], np.int64),
    colour=np.stack([np.asarray(image.resize(size, Image.BILINEAR)) for _, image in cases]),
    grey=np.stack([np.asarray(image.convert("L").resize(size, Image.BILINEAR)) for _, image in cases]))
