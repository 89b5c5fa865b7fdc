#!/usr/bin/env python3
"""Writes the reference from the comments of the public headers: a page a header, and an index of all calls.

  scripts/docs.py        writes docs/reference/*.md; reference_test compares them with the headers
"""

import re
import sys
from pathlib import Path

import ctext

FOLDER = Path("docs/reference")
FIRST = ["base.h", "topology.h", "array.h"]  # the others follow by name
_COMMENT = re.compile(r"/\*(.*?)\*/[ \t]*\n", re.DOTALL)
_NOISE = re.compile(r"\s*\b(TSR_PRINTF\([^)]*\)|TSR_MUST_USE)|\bTSR_API\s+")


_CODE = re.compile(r"`[^`]*`")
_CALL = re.compile(r"\b(?:tsr|TSR)_\w+")


def comment_text(body, places=None, own=None):
    """Paragraphs of a comment; lines indented further than the text are kept as code. Names that have an entry
    become links to it, by `places`, but for those of the entry `own`."""
    lines = [re.sub(r"^[ \t]*\*? ?", "", line).rstrip() for line in body.split("\n")]
    out, inside = [], False
    for line in "\n".join(lines).strip().split("\n"):
        code = line.startswith("  ")
        if code != inside and line:
            out.append("```" if inside else "```c")
            inside = code
        out.append(line if inside else prose(line, places or {}, own))
    return "\n".join(out + (["```"] if inside else []))


def prose(line, places, own):
    """A line of a comment as Markdown: markup but for code in backticks is kept as text."""
    def linked(match):
        place = places.get(match[0])
        return match[0] if not place or place == places.get(own) else f"[{match[0]}]({place})"

    out, at = [], 0
    for code in [*_CODE.finditer(line), None]:
        text = line[at : code.start() if code else len(line)]
        out += [_CALL.sub(linked, re.sub(r"([<*|])", r"\\\1", text)), code[0] if code else ""]
        at = code.end() if code else at
    return "".join(out)


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
    for pattern in (r"\A#define (\w+)", r"\A[^{;]*\{.*\}\s*(\w+);", r"\(\*(\w+)\)", r"(\w+)\s*\(", r"(\w+);"):
        match = re.search(pattern, text, re.DOTALL)
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
        self.macros = all_macros(texts.values())
        self.fields = structs(texts.values())
        self.caller = callers(self.macros)
        self.shown_with_function = set(self.caller.values())
        self.examples = examples(texts.values())
        self.places = {}  # name -> "array.md#tsr_put", of each entry
        for header, text in texts.items():
            for shown, _ in declared(text):
                name = self.title(shown)
                if name:
                    self.places[name] = self.places[name_of(shown)] = f"{page_of(header)}#{name.lower()}"

    def title(self, shown):
        """The name of the entry of a declaration: that of the macro that users call, if there is one; None where
        the declaration has no entry."""
        name = name_of(shown)
        if name in self.shown_with_function or name.endswith("_"):
            return None  # the function's entry has it
        return self.caller.get(name, name)

    def entry(self, shown, comment):
        name, macro = self.title(shown), self.caller.get(name_of(shown))
        out = [f"### `{name}`", "", "```c"]
        if macro:
            out += [wrapped(f"{macro}({parameters_of(macro, self.macros, self.fields)})"), ""]
        out += [shown, "```", "", comment_text(comment, self.places, name), ""]
        example = self.examples.get(macro)
        out += [f"As in: {example}", ""] if example else []
        return out + (self.statuses() if name == "TSR_STATUS_MAP" else [])

    def statuses(self):
        rows = re.findall(r'X\((\w+), (\d+), "([^"]*)"\)', self.macros["TSR_STATUS_MAP"][1])
        return (["| status | value | text |", "|---|--:|---|"] +
                [f"| `TSR_{name}` | {value} | {text} |" for name, value, text in rows] + [""])


# ---- headers -----------------------------------------------------------------------------------


def page_of(header):
    return header.replace(".h", ".md")


def shown_of(found):
    """A declaration as users read it, its later lines moved with the first one."""
    lines = _NOISE.sub("", found).strip().split("\n")
    moved = len("TSR_API ") if found.startswith("TSR_API ") else 0
    return "\n".join([lines[0]] + [re.sub(rf"^ {{0,{moved}}}", "", line) for line in lines[1:]])


def pieces(text):
    """What a header says, in order: ("head" | "section" | "text", comment) or (declaration, comment)."""
    for match in _COMMENT.finditer(text):
        body = match.group(1)
        # Comments at the margin only: others belong to fields, which their struct shows.
        at_margin = text[:match.start()].endswith("\n") or match.start() == 0
        if not at_margin or body.strip().startswith("clang-format"):
            continue
        found = declaration(text, match.end()) if match.start() else ""
        heading = re.match(r"-+ (.*?) -+$", body.strip())
        if match.start() == 0:
            yield "head", body
        elif found:
            yield shown_of(found), body
        elif heading:
            yield "section", heading.group(1).capitalize()
        elif not text[match.end():].lstrip().startswith("#"):
            yield "text", body


def declared(text):
    return [(what, body) for what, body in pieces(text) if what not in ("head", "section", "text")]


def header_page(header, text, reference):
    out = [f"# tessera/{header}", ""]
    for what, body in pieces(text):
        if what in ("head", "text"):
            out += [comment_text(body, reference.places), ""]
        elif what == "section":
            out += [f"## {body}", ""]
        elif reference.title(what):
            out += reference.entry(what, body)
    return out


# ---- the index -----------------------------------------------------------------------------------

HEAD = """# Reference

Every public function, by header. `make docs` writes these pages from the comments in `include/tessera/`:
change the comments, not the pages.

Where a function's name ends in `_at` or `_with`, C programs call the macro of the same name without
the ending, shown first: it fills in file and line, and takes options as named arguments
(`tsr_sum(x, .dims = TSR_DIMS(0), .keep_dims = true)`), each of which may be left out. C++ and other
languages call the function.
"""


def first_sentence(text):
    head = next(body for what, body in pieces(text) if what == "head")
    flat = " ".join(comment_text(head).split())
    return re.match(r".*?[.:](?= |$)", flat)[0].rstrip(":.") + "."


def index_page(texts, reference):
    # Who calls what is said once, in the first header.
    rule = re.search(r"^ \* Every function's comment ends.*?\*/", texts[FIRST[0]], re.M | re.S).group()
    out = [HEAD, comment_text(rule[:-2]), ""]
    for header, text in texts.items():
        out += [f"## [{header}]({page_of(header)})", "", first_sentence(text), ""]
        names = [reference.title(shown) for shown, _ in declared(text)]
        out += [", ".join(f"[{name}]({reference.places[name]})" for name in dict.fromkeys(names) if name), ""]
    return out


def outputs():
    """Path -> text of each page."""
    folder = ctext.ROOT / "include" / "tessera"
    names = [path.name for path in folder.glob("*.h")]
    names.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    texts = {name: (folder / name).read_text(encoding="utf-8").replace(" TSR_REST_BY_NAME;", ";")
             for name in names}
    reference = Reference(texts)
    pages = {name: header_page(name, text, reference) for name, text in texts.items()}
    pages["README.h"] = index_page(texts, reference)
    return {FOLDER / page_of(name): "\n".join(lines).rstrip() + "\n" for name, lines in pages.items()}


def main():
    folder = ctext.ROOT / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    written = outputs()
    for path in folder.glob("*.md"):
        if FOLDER / path.name not in written:
            path.unlink()  # its header is gone
    for path, text in written.items():
        (ctext.ROOT / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
