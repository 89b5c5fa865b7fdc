#!/usr/bin/env python3
"""Writes the reference from the comments of the public headers, as Markdown.

  scripts/docs.py docs/reference.md
"""

import re
import sys
from pathlib import Path

import ctext

FIRST = ["base.h", "topology.h", "array.h"]  # the others follow by name
_COMMENT = re.compile(r"/\*(.*?)\*/[ \t]*\n", re.DOTALL)
_NOISE = re.compile(r"\s*\b(TSR_PRINTF\([^)]*\)|TSR_MUST_USE)|\bTSR_API\s+")


def comment_text(body):
    """Paragraphs of a comment; lines indented further than the text are kept as code."""
    lines = [re.sub(r"^[ \t]*\*? ?", "", line).rstrip() for line in body.split("\n")]
    out, inside = [], False
    for line in "\n".join(lines).strip().split("\n"):
        code = line.startswith("  ")
        if code != inside and line:
            out.append("```" if inside else "```c")
            inside = code
        out.append(line)
    return "\n".join(out + (["```"] if inside else []))


def declaration(text, at):
    """The declaration or macro that starts at `at`, up to its end; "" if none is there."""
    rest = text[at:]
    if not rest or rest[0] in "\n/":
        return ""
    if rest.startswith("#"):
        match = re.match(r"#[ \t]*define[ \t]+(\w+(?:\([^)]*\))?)(.*(?:\\\n.*)*)", rest)
        if not match:
            return ""
        # A constant's value is of interest, how a macro does it is not.
        value = match.group(2).strip()
        simple = "(" not in match.group(1) and len(value) < 60 and "\\" not in value
        return f"#define {match.group(1)}" + (f" {value}" if simple and value else "")
    depth = 0
    for end, char in enumerate(ctext.without_comments(rest)):
        depth += (char == "{") - (char == "}")
        if char == ";" and depth == 0:
            return rest[: end + 1]
    return ""


def name_of(text):
    for pattern in (r"\A#define (\w+)", r"\(\*(\w+)\)", r"}\s*(\w+);", r"(\w+)\s*\(", r"(\w+);"):
        match = re.search(pattern, text)
        if match:
            return match.group(1)
    return text


def header_reference(name, text):
    comments = list(_COMMENT.finditer(text))
    out = [f"## {name}", ""]
    for number, match in enumerate(comments):
        starts_line = not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        if not starts_line:
            continue
        if number == 0 and match.start() == 0:
            out += [comment_text(match.group(1)), ""]
            continue
        found = declaration(text, match.end())
        if not found:
            body = match.group(1).strip()
            heading = re.match(r"-+ (.*?) -+$", body)
            out += [f"### {heading.group(1).capitalize()}" if heading else comment_text(body), ""]
            continue
        shown = _NOISE.sub("", found).strip()
        out += [f"#### `{name_of(shown)}`", "", "```c", shown, "```", "",
                comment_text(match.group(1)), ""]
    return out


def main():
    folder = ctext.ROOT / "include" / "tessera"
    names = [path.name for path in folder.glob("*.h")]
    names.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    out = ["# Reference", "", "Every public function, by header. Written by `make docs` from the",
           "comments in `include/tessera/`; change those, not this file.", ""]
    for name in names:
        out += header_reference(f"tessera/{name}", (folder / name).read_text(encoding="utf-8"))
    Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    Path(sys.argv[1]).write_text("\n".join(out).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
