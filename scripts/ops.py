#!/usr/bin/env python3
"""Writes the public calls of the operations of src/graph/ops/ that are written by family: declaration,
comment and macro in include/tessera/operations.h, the same for C++ in include/tessera/operations.hpp,
definition in src/array/operations.c, names in tests/exports.txt.

  scripts/ops.py

`make lint` proves that they are fresh.
"""

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE, HEADER, SOURCE = "src/graph/ops.def", "include/tessera/operations.h", "src/array/operations.c"
CXX, EXPORTS = "include/tessera/operations.hpp", "tests/exports.txt"
WIDTH = 100

# A family's call: what it takes, what makes it, the macro's parameters and what it is.
UNARY = ("tsr_array *a", "tsr__unary({op}, a, site)", "a", "{call}((a), TSR_HERE)")
BINARY = ("tsr_array *a, tsr_operand b", "tsr__binary({op}, a, b, site)", "a, b",
          "TSR_BINARY_({call}, a, b)")
REDUCTION = ("const tsr_reduce_args *args", "tsr__reduction({op}, args, site)", "...",
             "{call}(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)")
FAMILIES = {"UNARY": UNARY, "FUNCTION": UNARY, "BINARY": BINARY, "COMPARISON": BINARY,
            "REDUCTION": REDUCTION}

_ROW = re.compile(r'^([A-Z]+)\((\w+), "(\w+)",|^/\* ---- (.*?) ----', re.MULTILINE)
_DOC = re.compile(r'DOC\(((?:\s*"(?:[^"\\]|\\.)*")+)\)')
_ULP = re.compile(r"\bULP\(([\d.]+), ([\d.]+)\)")


def table():
    """The rows, in order: those of the files that the table includes."""
    return "".join((ROOT / "src" / path).read_text()
                   for path in re.findall(r'#include "(graph/ops/\w+\.def)"', (ROOT / TABLE).read_text()))


def rows(text):
    """(family, enumerator, name, section, comment) of every row."""
    marks, section = list(_ROW.finditer(text)), ""
    for mark, following in zip(marks, marks[1:] + [None]):
        if mark.group(4):
            section = mark.group(4)
            continue
        body = text[mark.start() : following.start() if following else len(text)]
        doc = _DOC.search(body)
        if not doc:
            raise SystemExit(f"{TABLE}: {mark.group(2)} has no DOC")
        words = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', doc.group(1))).replace('\\"', '"')
        ulp = _ULP.search(body)
        if bool(ulp) != ("{ULP}" in words):
            raise SystemExit(f"{TABLE}: {mark.group(2)} has ULP without {{ULP}} in its DOC, or the reverse")
        if ulp:
            words = words.replace("{ULP}", f"{ulp.group(1)} ULP")
        yield mark.group(1), mark.group(2), mark.group(3), section, words


def promises(text):
    """What ULP says of each row that has it: (name, f64, f32)."""
    marks = list(_ROW.finditer(text))
    for mark, following in zip(marks, marks[1:] + [None]):
        ulp = _ULP.search(text[mark.start() : following.start() if following else len(text)])
        if ulp:
            yield mark.group(3), float(ulp.group(1)), float(ulp.group(2))


def comment(words):
    lines = textwrap.wrap(words + " Local. */", WIDTH - 3, break_on_hyphens=False)
    return "\n".join(("/* " if not i else " * ") + line for i, line in enumerate(lines))


def rule(section):
    return f"/* ---- {section} " + "-" * (WIDTH - 14 - len(section)) + " */"


def header(calls):
    out = [
        f"/* Operations on arrays, each from a row of {TABLE}. Written by scripts/ops.py. */",
        "#ifndef TESSERA_OPERATIONS_H\n#define TESSERA_OPERATIONS_H\n",
        '#include "array.h"\n',
        '#ifdef __cplusplus\nextern "C" {\n#endif',
    ]
    section = None
    for family, _, name, here, words in calls:
        if here != section:
            section = here
            out.append("\n" + rule(section) + "\n")
        out.append(comment(words))
        out.append(f"TSR_API tsr_array *tsr_{name}_at({FAMILIES[family][0]}, const char *site);")
    out.append("\n#ifdef __cplusplus\n}\n#endif\n\n#ifndef __cplusplus")
    for family, _, name, _, _ in calls:
        _, _, takes, passes = FAMILIES[family]
        out.append(f"#define tsr_{name}({takes}) {passes.format(call=f'tsr_{name}_at')}")
    out.append("#endif\n\n#endif\n")
    return "\n".join(out)


def source(calls):
    out = [f"/* Operations on arrays, each from a row of {TABLE}. Written by scripts/ops.py. */",
           '#include "array/array_room.h"\n']
    for family, op, name, _, _ in calls:
        takes, makes, _, _ = FAMILIES[family]
        out.append(f"tsr_array *tsr_{name}_at({takes}, const char *site)\n{{\n"
                   f"  return {makes.format(op='TSR__OP_' + op)};\n}}\n")
    return "\n".join(out)


# What C++ has as words of its own; they are operators there.
WORDS = {"and", "or", "xor", "not"}


def cxx(calls):
    """Functions of one and of two operands; reductions are members of array."""
    out = [
        f"/* Operations on arrays as functions of C++. Written by scripts/ops.py from {TABLE}.\n"
        " * operations.h documents them. */",
        "#ifndef TESSERA_OPERATIONS_HPP\n#define TESSERA_OPERATIONS_HPP\n",
        '#include "array.hpp"\n\nnamespace tessera {\n',
    ]
    for family, _, name, _, _ in calls:
        if name in WORDS or FAMILIES[family] is REDUCTION:
            continue
        if FAMILIES[family] is UNARY:
            out.append(f"inline array {name}(const array &a, location at = location::current())\n{{\n"
                       f"  return array(tsr_{name}_at(a.raw(), detail::site(at)));\n}}")
        else:
            out.append(f"inline array {name}(const array &a, operand b)\n{{\n"
                       f"  return array(tsr_{name}_at(a.raw(), b.raw(), b.site()));\n}}")
            out.append(f"inline array {name}(number a, const array &b)\n{{\n"
                       f"  return a.beside(tsr_{name}_at, b);\n}}")
    out.append("\n} // namespace tessera\n\n#endif\n")
    return "\n".join(out)


def exports(calls, now):
    names = set(now.split()) | {f"tsr_{name}_at" for _, _, name, _, _ in calls}
    return "\n".join(sorted(names)) + "\n"


def outputs():
    """What each file should hold."""
    calls = [row for row in rows(table()) if row[0] in FAMILIES]
    return {HEADER: header(calls), CXX: cxx(calls), SOURCE: source(calls),
            EXPORTS: exports(calls, (ROOT / EXPORTS).read_text())}


if __name__ == "__main__":
    for path, text in outputs().items():
        (ROOT / path).write_text(text)
