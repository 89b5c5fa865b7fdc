#!/usr/bin/env python3
"""Drawings in SVG of random shardings, as `tessera shard --svg` prints them, against shards that are dealt out here.

  tests/python/drawings_test.py BUILD/bin/tessera

Each drawing is XML; each device stands once, in the area whose title has the ranges of its shard; areas of a box
adjoin, lie inside the picture, hold their labels, and are as wide and high as their shards ask.
"""

import os
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
CHARACTER, LINE, PADDING, GAP = 8, 20, 12, 2
WHOLE = 10000  # characters: no drawing here has bands


def portion(size, count, index):
    """Start and length of part `index` of `count`: the first ones are larger by one."""
    each, more = divmod(size, count)
    return each * index + min(index, more), each + (index < more)


class Case:
    """A random shape, mesh and spec, and the range of each dim that each device holds."""

    def __init__(self, rng):
        names = ["x", "y", "z_1"][: rng.randint(1, 3)]
        self.mesh = [(name, rng.choice([1, 2, 2, 3, 4, 8])) for name in names]
        self.shape = [rng.choice([0, 1, 2, 3, 7, 8, 10, 13, 64, 1000]) for _ in range(rng.randint(0, 4))]
        self.cut = [[] for _ in self.shape]  # axes of each dim, the major one first
        for axis in rng.sample(range(len(names)), len(names)):
            dim = rng.randint(0, len(self.shape))
            if dim < len(self.shape):
                self.cut[dim].append(axis)
        words = ["+".join(names[axis] for axis in axes) or "-" for axes in self.cut]
        self.type = f"f32[{','.join(map(str, self.shape))}]" + (f"@({','.join(words)})" if words else "")
        self.mesh_text = ",".join(f"{name}={size}" for name, size in self.mesh)
        self.devices = 1
        for _, size in self.mesh:
            self.devices *= size

    def shard(self, device):
        """(start, end) of each dim; None: no axis shards it."""
        at, left = {}, device
        for axis in reversed(range(len(self.mesh))):
            left, at[axis] = divmod(left, self.mesh[axis][1])
        out = []
        for size, axes in zip(self.shape, self.cut):
            start, length, sharded = 0, size, False
            for axis in axes:
                offset, length = portion(length, self.mesh[axis][1], at[axis])
                start += offset
                sharded |= self.mesh[axis][1] > 1
            out.append((start, start + length) if sharded else None)
        return out

    def size(self, device, dim):
        held = self.shard(device)[dim] if -len(self.shape) <= dim else (0, 1)
        return held[1] - held[0] if held else self.shape[dim]


def title_of(ranges):
    return "[" + ", ".join(f"{held[0]}:{held[1]}" if held else ":" for held in ranges) + "]"


class Area:
    """An area of a drawing: its tile with half the gap around it, its devices, its title."""

    def __init__(self, element):
        title, rect, *texts = element
        assert title.tag == SVG + "title" and rect.tag == SVG + "rect", element
        self.title = title.text
        self.x, self.y, self.width, self.height = (int(rect.get(name)) for name in ("x", "y", "width", "height"))
        self.x, self.y = self.x - GAP // 2, self.y - GAP // 2
        self.width, self.height = self.width + GAP, self.height + GAP
        self.lines = [text.text for text in texts]
        label = "".join(self.lines)
        assert re.fullmatch(r"CPU \d+(,\d+)*", label), label
        self.devices = [int(word) for word in label[4:].split(",")]
        self.least = PADDING + CHARACTER * max(map(len, re.findall(r"CPU \d+,?|\d+,?", label)))
        self.colour = rect.get("fill"), rect.get("class")
        for number, text in enumerate(texts):
            at = int(text.get("y"))
            assert self.y < at - 10 and at < self.y + self.height, f"line {number} is outside of {self.title}"
            assert len(text.text) * CHARACTER + PADDING <= self.width + 1, f"{text.text} is too wide"


def adjoining(areas):
    """Areas of a drawing as boxes of rows: rows adjoin in a box, areas in a row."""
    boxes, last = [], None
    for area in areas:
        if last and (area.y, area.x) == (last.y, last.x + last.width):
            boxes[-1][-1].append(area)
        elif last and area.x == 0 and area.y == last.y + last.height:
            boxes[-1].append([area])
        else:
            assert area.x == 0, f"{area.title} begins at {area.x}"
            boxes.append([[area]])
        last = area
    return boxes


def check_widths(found, sizes, least):
    """Larger shards are wider; in proportion, to a pixel, unless labels widened some."""
    pairs = [(w, s) for w, s in zip(found, sizes) if s or not any(sizes)]
    for width, size in pairs:
        for other, other_size in pairs:
            assert size < other_size or width >= other - 1, (found, sizes)
            if min(w for w, _ in pairs) > least:
                assert abs(width * other_size - other * size) <= size + other_size, (found, sizes)


def check_box(case, box, least):
    columns = [area.width for area in box[0]]
    assert all([area.width for area in row] == columns for row in box), "columns of a box differ"
    assert all(len({area.height for area in row}) == 1 for row in box), "heights of a row differ"
    sizes = [case.size(area.devices[0], -1) for area in box[0]]
    check_widths(columns, sizes, least)
    sizes = [case.size(row[0].devices[0], -2) for row in box]
    heights = [row[0].height for row in box]
    check_widths(heights, sizes, 0)  # labels make all rows of a box higher together
    full = sum(height for height, size in zip(heights, sizes) if size or not any(sizes))
    assert full >= (10 * LINE if len(case.shape) > 1 else 2 * LINE), heights
    for row, below in zip(box, box[1:]):
        assert all(a.colour != b.colour or a.colour[1] for a, b in zip(row, below)), "no border between rows"
    for row in box:
        assert all(a.colour != b.colour or a.colour[1] for a, b in zip(row, row[1:])), "no border in a row"


def printed(tool, *arguments):
    done = subprocess.run([tool, "shard", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def check_case(tool, case, width):
    text = printed(tool, case.type, case.mesh_text, "--svg", "--width", str(width))
    root = ElementTree.fromstring(text)
    assert root.tag == SVG + "svg" and root.get("role") == "img"
    assert root[0].tag == SVG + "title" and root[0].text.endswith(f" on mesh {case.mesh_text}"), root[0].text
    assert root[0].text.startswith(f"[{','.join(map(str, case.shape))}]"), root[0].text
    areas = [Area(element) for element in root if element.tag == SVG + "g"]
    assert sorted(device for area in areas for device in area.devices) == list(range(case.devices)), "not once"
    for area in areas:
        assert all(area.title == title_of(case.shard(device)) for device in area.devices), area.title
        assert area.devices == sorted(area.devices)
        assert (area.colour[1] == "empty") == (0 in [case.size(area.devices[0], dim) for dim in range(len(case.shape))])
    boxes = adjoining(areas)
    for box in boxes:
        check_box(case, box, max(area.least for area in areas))
    assert int(root.get("width")) >= max(area.x + area.width for area in areas)
    assert int(root.get("height")) == max(area.y + area.height for area in areas)
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    headings = [element.text for element in root if element.tag == SVG + "text"]
    assert len(headings) in (0, len(boxes)), headings
    if width == WHOLE:
        plain = printed(tool, case.type, case.mesh_text, "--width", str(width))
        assert headings == re.findall(r"^\[.*\]$", plain, re.MULTILINE), headings
        assert text == printed(tool, case.type, case.mesh_text, "--svg", "--width", str(width)), "not the same twice"
    return len(areas)


def main():
    tool, rounds = sys.argv[1], 60 if os.environ.get("TEST_QUICK") == "1" else 300
    rng, areas = random.Random(7), 0
    for number in range(rounds):
        case, width = Case(rng), rng.choice([WHOLE, 0, 20, 60])
        try:
            areas += check_case(tool, case, width)
        except Exception:
            print(f"case {number}: {case.type} on {case.mesh_text}, --width {width}")
            raise
    assert areas > rounds
    print(f"{rounds} drawings, {areas} areas")


if __name__ == "__main__":
    main()
