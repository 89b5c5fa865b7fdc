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


# ---- the macros that users call ----------------------------------------------------------------

_MACRO = re.compile(r"^#define (\w+)(?:\(([^)]*)\))?[ \t]*((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_LITERAL = re.compile(r"\((tsr_\w+)\)\{([^}]*)__VA_ARGS__")


def all_macros(texts):
    """name -> (parameters, body), of every header."""
    return {match.group(1): (match.group(2), match.group(3))
            for text in texts for match in _MACRO.finditer(text)}


def structs(texts):
    """name -> fields, of every struct."""
    out = {}
    for text in texts:
        for match in re.finditer(r"typedef struct \w+ \{([^}]*)\} (\w+);", text):
            fields = []
            for part in ctext.without_comments(match.group(1)).split(";"):
                declared = re.findall(r"(\w+)(?:\[\w+\])*\s*(?:,|$)", part.strip())
                fields += declared
            out[match.group(2)] = fields
    return out


def chain_of(name, macros):
    """A macro and those that it comes down to, ending with the one that fills in a struct, if any does."""
    out = []
    while name in macros and name not in out:
        out.append(name)
        if _LITERAL.search(macros[name][1]):
            break
        inner = [word for word in re.findall(r"\b(TSR_\w+_)\b", macros[name][1])
                 if not word.startswith("TSR_NEEDS_")]
        name = inner[0] if inner else ""
    return out


def parameters_of(name, macros, fields):
    """What a user writes between the parentheses: names, then ".field =" for named arguments."""
    chain = chain_of(name, macros)
    own, (params, body) = macros[name][0] or "", macros[chain[-1]]
    if own == "...":
        own = next((macros[at][0] for at in chain if macros[at][0] != "..."), own)
    literal = _LITERAL.search(body)
    set_before = re.findall(r"\.(\w+) =", literal.group(2)) if literal else []
    # What a macro calls x_ fills in the field x.
    named = dict((param, field) for field, param in re.findall(r"\.(\w+) = \((\w+)\)", literal.group(2))) \
        if literal and own == params else {}
    words = [word.strip() for word in own.split(",") if word.strip() != "..."]
    shown = [named.get(word, word.rstrip("_")) for word in words]
    if literal:
        first = re.search(r"\.(\w+) = *$", literal.group(2))
        shown += [first.group(1)] if first else []
        shown += [f".{field} =" for field in fields.get(literal.group(1), [])
                  if field != "size" and field not in set_before]
    elif "..." in (macros[name][0] or ""):
        shown.append("...")
    return ", ".join(shown)


def callers(macros):
    """function -> the macro that users call in its place, and the reverse."""
    out = {}
    for name in macros:
        if name.endswith("_") or not name.startswith("tsr_"):
            continue
        chain = " ".join(macros[at][1] for at in chain_of(name, macros))
        for function in re.findall(r"\b(tsr_\w+_(?:at|with))\b", chain):
            # tsr_divmod_of_at stands by itself, as tsr_binary_at does: tsr_divmod is that of tsr_divmod_at.
            if function == f"{name}_of_at":
                function = f"{name}_at"
            if function != "tsr_binary_at":
                out.setdefault(function, name)
    return out


def wrapped(call):
    """A call in lines of 92 characters, broken behind commas."""
    lines, indent = [""], " " * (call.index("(") + 1)
    for piece in re.findall(r"[^,]+,? ?", call):
        if len(lines[-1]) + len(piece.rstrip()) > 92:
            lines.append(indent)
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def examples(texts):
    """macro -> the comment above it."""
    out = {}
    for text in texts:
        text = text.replace("/* clang-format off */\n", "")
        for match in _COMMENT.finditer(text):
            macro = re.match(r"(?:#(?:if|ifdef|ifndef)[^\n]*\n)?#define (\w+)", text[match.end():])
            if macro and not match.group(1).strip().startswith("clang-format"):
                out[macro.group(1)] = comment_text(match.group(1))
    return out


class Reference:
    """What is known of all headers while one of them is written down."""

    def __init__(self, texts):
        self.macros = all_macros(texts)
        self.fields = structs(texts)
        self.caller = callers(self.macros)
        self.shown_with_function = set(self.caller.values())
        self.examples = examples(texts)

    def entry(self, shown, comment):
        name = name_of(shown)
        macro = self.caller.get(name)
        if not macro:
            return [f"#### `{name}`", "", "```c", shown, "```", "", comment, ""]
        call = wrapped(f"{macro}({parameters_of(macro, self.macros, self.fields)})")
        out = [f"#### `{macro}`", "", "```c", call, "", shown, "```", "", comment, ""]
        example = self.examples.get(macro)
        return out + ([f"As in: {example}", ""] if example else [])

    def statuses(self):
        rows = re.findall(r'X\((\w+), (\d+), "([^"]*)"\)', self.macros["TSR_STATUS_MAP"][1])
        return (["| status | value | text |", "|---|--:|---|"] +
                [f"| `TSR_{name}` | {value} | {text} |" for name, value, text in rows] + [""])


# ---- headers -----------------------------------------------------------------------------------


def header_reference(name, text, reference):
    comments = list(_COMMENT.finditer(text))
    out = [f"## {name}", ""]
    for number, match in enumerate(comments):
        # Comments at the margin only: others belong to fields, which their struct shows.
        at_margin = text[:match.start()].endswith("\n") or match.start() == 0
        if not at_margin or match.group(1).strip().startswith("clang-format"):
            continue
        if number == 0 and match.start() == 0:
            out += [comment_text(match.group(1)), ""]
            continue
        found = declaration(text, match.end())
        if not found:
            body = match.group(1).strip()
            heading = re.match(r"-+ (.*?) -+$", body)
            after = text[match.end():].lstrip()
            if heading:
                out += [f"### {heading.group(1).capitalize()}", ""]
            elif not after.startswith("#"):
                out += [comment_text(match.group(1)), ""]
            continue
        shown = _NOISE.sub("", found).strip()
        if name_of(shown) in reference.shown_with_function or name_of(shown).endswith("_"):
            continue  # the function's entry has it
        out += reference.entry(shown, comment_text(match.group(1)))
        if name_of(shown) == "TSR_STATUS_MAP":
            out += reference.statuses()
    return out


HEAD = """# Reference

Every public function, by header. Written by `make docs` from the comments in `include/tessera/`;
change those, not this file.

Where a function's name ends in `_at` or `_with`, C programs call the macro of the same name without
the ending, shown first: it fills in file and line, and takes options as named arguments
(`tsr_sum(x, .dims = TSR_DIMS(0), .keep_dims = true)`), each of which may be left out. C++ and other
languages call the function.
"""


def main():
    folder = ctext.ROOT / "include" / "tessera"
    names = [path.name for path in folder.glob("*.h")]
    names.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    texts = [(folder / name).read_text(encoding="utf-8").replace(" TSR_REST_BY_NAME;", ";") for name in names]
    reference = Reference(texts)
    # Who calls what is said once, in the first header.
    callers_rule = re.search(r"^ \* Every function's comment ends.*?\*/", texts[0], re.M | re.S).group()
    out = [HEAD, comment_text(callers_rule[:-2]), ""]
    for name, text in zip(names, texts):
        out += header_reference(f"tessera/{name}", text, reference)
    Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    Path(sys.argv[1]).write_text("\n".join(out).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
