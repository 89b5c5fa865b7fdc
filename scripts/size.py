#!/usr/bin/env python3
"""Lengths of functions, files and parameter lists of src/, include/ and tools/ against the bars.

A function over the hard stop passes only with a mark in the comment above it or on its first
line: /* long: why */. Marks are counted: the whole tree has room for a few.
"""

import sys
from collections import defaultdict

import ctext

FUNCTION_P95 = 60
FUNCTION_STOP = 100
LONG_MARKS = 6
FILE_LINES = 1000
HEADER_LINES = 600
PARAMETERS = 5


def percentile(values, share):
    """The smallest value that at least that share of all is not above."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)] if ordered else 0


def room_of(path):
    parts = path.parts
    return "/".join(parts[:2]) if parts[0] in ("src", "tools") else parts[0]


def counted_parameters(function):
    """The call site that a public macro fills in is not one that anybody writes."""
    names = [name for name in function.parameters if name != "..."]
    if names and names[-1] == "const char *site":
        names.pop()
    return len(names)


def check_functions(functions, problems):
    for function in functions:
        where = f"{function.path}:{function.first}: {function.name}"
        if function.length > FUNCTION_STOP and not function.marker:
            problems.append(f"{where}: {function.length} lines; the stop is {FUNCTION_STOP}")
        count = counted_parameters(function)
        if count > PARAMETERS:
            problems.append(f"{where}: {count} parameters; past {PARAMETERS}, make it a struct")


def check_files(lines, problems):
    for path, count in lines.items():
        public = path.parts[0] == "include"
        bar = HEADER_LINES if public else FILE_LINES
        if count > bar:
            problems.append(f"{path}: {count} lines; the bar is {bar}")


def print_row(name, files, lines, lengths):
    share = 100 * sum(n for n in lengths if n > FUNCTION_P95) / max(1, sum(lengths))
    print(
        f"{name:16} {files:6} {lines:7} {len(lengths):10} {percentile(lengths, 50):7}"
        f" {percentile(lengths, 95):5} {max(lengths, default=0):8} {share:10.0f} %"
    )


def print_table(lines, functions):
    rooms = defaultdict(lambda: ([], []))
    for path, count in lines.items():
        rooms[room_of(path)][0].append(count)
    for function in functions:
        rooms[room_of(function.path)][1].append(function.length)
    print(f"{'room':16} {'files':>6} {'lines':>7} {'functions':>10} {'median':>7} {'p95':>5}"
          f" {'longest':>8} {'in > 60':>12}")
    for room in sorted(rooms):
        counts, lengths = rooms[room]
        print_row(room, len(counts), sum(counts), lengths)
    print_row("all", len(lines), sum(lines.values()), [f.length for f in functions])


def main():
    paths = [
        path
        for path in ctext.tree_files()
        if path.parts[0] in ("src", "include", "tools") and path.suffix in ctext.SOURCE_SUFFIXES
    ]
    lines = {path: len(ctext.read(path).splitlines()) for path in paths}
    functions = [function for path in paths for function in ctext.functions(path)]
    print_table(lines, functions)

    problems = []
    check_functions(functions, problems)
    check_files(lines, problems)
    p95 = percentile([function.length for function in functions], 95)
    if p95 > FUNCTION_P95:
        problems.append(f"p95 of function lengths is {p95} lines; the bar is {FUNCTION_P95}")
    marked = [function for function in functions if function.marker]
    print(f"marked as long: {len(marked)} of at most {LONG_MARKS}")
    for function in marked:
        print(f"  {function.path}:{function.first}: {function.name}: {function.length} lines:"
              f" {function.marker}")
    if len(marked) > LONG_MARKS:
        problems.append(f"{len(marked)} functions are marked as long; at most {LONG_MARKS} may be")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
