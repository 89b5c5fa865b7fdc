#!/usr/bin/env python3
"""Writes src/frame/lower/letters.c: the letters that change between upper and lower case, one for one.

  scripts/letters.py > src/frame/lower/letters.c

These are Unicode's simple mappings, of the version that Python's unicodedata has. Python's own methods are
the full ones: where upper() gives several characters the title case is the simple mapping if it is one
character, and else there is none; of lower() only that of U+0130 is longer, and begins with the simple one.
"""

import sys
import unicodedata

POINTS = [c for c in range(sys.maxunicode + 1) if not 0xd800 <= c < 0xe000]


def upper(point):
    one = chr(point).upper()
    if len(one) > 1:
        one = chr(point).title()
    return ord(one) if len(one) == 1 else point


def lower(point):
    return ord(chr(point).lower()[0])


def spans(change):
    """Runs of letters that move by the same step and lie 1 or 2 apart: [first, last, apart, step]."""
    out = []
    for point in POINTS:
        step = change(point) - point
        if not step:
            continue
        run = out[-1] if out else None
        if run and run[3] == step and point - run[1] in (1, 2) and \
                (run[0] == run[1] or point - run[1] == run[2]):
            run[1], run[2] = point, point - run[1]
        else:
            out.append([point, point, 1, step])
    return out


def table(name, change):
    print(f"static const span {name}[] = {{")
    for first, last, apart, step in spans(change):
        print(f"  {{ {first:#x}, {last:#x}, {apart}, {step} }},")
    print("};\n")


def main():
    print(f"/* Letters that change case, one for one, by Unicode {unicodedata.unidata_version}. Written by "
          "scripts/letters.py. */\n"
          '#include "frame/lower/functions.h"\n\n'
          "/* first, first + apart, ... last, which move by `step`; in order. */\n"
          "typedef struct span {\n  uint32_t first, last, apart;\n  int32_t step;\n} span;\n\n"
          "/* clang-format off */")
    table("to_lower", lower)
    table("to_upper", upper)
    print("/* clang-format on */\n\n"
          "static uint32_t change(const span *table, int count, uint32_t c)\n{\n"
          "  int from = 0, to = count; /* spans that may hold c */\n"
          "  while (from < to) {\n"
          "    int middle = (from + to) / 2;\n"
          "    const span *s = &table[middle];\n"
          "    if (c > s->last) from = middle + 1;\n"
          "    else if (c < s->first) to = middle;\n"
          "    else return (c - s->first) % s->apart ? c : c + (uint32_t)s->step;\n"
          "  }\n"
          "  return c;\n}\n\n"
          "uint32_t tsr__letter_lower(uint32_t c)\n{\n"
          "  return change(to_lower, sizeof to_lower / sizeof *to_lower, c);\n}\n\n"
          "uint32_t tsr__letter_upper(uint32_t c)\n{\n"
          "  return change(to_upper, sizeof to_upper / sizeof *to_upper, c);\n}")


main()
