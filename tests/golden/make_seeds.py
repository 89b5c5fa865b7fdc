#!/usr/bin/env python3
"""Turns tests/golden/seeds/DDD_BB.json into DDD_BB.txt beside it: the same facts a line each, so
that the C programs of examples/seeds read them without a JSON parser.

    array NAME DTYPE DIMS...     an output; DIMS are its global shape
    lies (SPEC) on MESH          how it lies, where that is known
    shards N...                  elements of dim 0 on each device
    values V... | sum V, first V..., last V...       (bools as 0 and 1)
    collective NAME KIND AXIS    what may be communicated for NAME, one line each
    line NAME TEXT               a line of printed text

Run it again after the JSON files changed (seeds/make_goldens.py makes those).
"""

import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent / "seeds"


def word(value):
    if isinstance(value, bool):
        return str(int(value))
    return value if isinstance(value, str) else repr(value)


def words(values):
    flat = []
    for value in values:
        flat += value if isinstance(value, list) else [value]
    return " ".join(word(value) for value in flat)


def array_lines(name, output):
    yield f"array {name} {output['dtype']} {words(output['shape'])}".rstrip()
    if "sharding" in output:
        yield f"lies {output['sharding']}"
    if "device_shapes" in output:
        yield "shards " + words(shape[0] if shape else 1 for shape in output["device_shapes"])
    for key in ("values", "first", "last"):
        if key in output:
            yield f"{key} {words(output[key])}".rstrip()
    if "sum" in output:
        yield f"sum {word(output['sum'])}"


def lines_of(golden):
    for name, output in golden["outputs"].items():
        if output["dtype"] == "text":
            yield from (f"line {name} {line}" for line in output["lines"])
        else:
            yield from array_lines(name, output)
    for name, moves in golden.get("collectives", {}).items():
        for one in re.split(r", ", name) if not name.startswith("sum1") else ["three_sums"]:
            yield from (f"collective {one} " + re.match(r"(\S+) over (\S+)", move).expand(r"\1 \2")
                        for move in moves)


def main():
    for path in sorted(HERE.glob("*.json")):
        golden = json.loads(path.read_text())
        head = f"block {golden['block']}: {golden['source']}"
        text = "\n".join([head, *lines_of(golden), ""])
        path.with_suffix(".txt").write_text(text)


if __name__ == "__main__":
    main()
