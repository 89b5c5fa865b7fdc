"""Reads C just well enough for the house's checks: comments and strings, functions, tokens."""

import functools
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE_SUFFIXES = {".c", ".h", ".cc", ".def"}
IGNORED_FOLDERS = {".git", "build", "__pycache__"}


def tree_files():
    """Every file of the project as a path relative to its top, ignored ones left out."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
        names = [name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):
        names = [
            str(path.relative_to(ROOT))
            for path in ROOT.rglob("*")
            if not IGNORED_FOLDERS & set(path.relative_to(ROOT).parts)
        ]
    return sorted({Path(name) for name in names if (ROOT / name).is_file()})


def read(path):
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


_PIECES = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    """The text with comments and the insides of strings blanked; every line stays where it is."""

    def replace(match):
        piece = match.group()
        if piece[0] == "/":
            return _blank(piece)
        return piece[0] + _blank(piece[1:-1]) + piece[-1]

    return _PIECES.sub(replace, text)


def strings_only(text):
    """The text with all but the insides of strings blanked; every line stays where it is."""
    out, end = [], 0
    for match in _PIECES.finditer(text):
        piece = match.group()
        out += [_blank(text[end : match.start()]), piece if piece[0] == '"' else _blank(piece)]
        end = match.end()
    return "".join(out) + _blank(text[end:])


def comments(text):
    """Number of the first line and text of each comment."""
    for match in _PIECES.finditer(text):
        if match[0][0] == "/":
            yield text.count("\n", 0, match.start()) + 1, match[0]


def literals(text):
    """Number of the first line and contents of each string; adjacent strings are one."""
    held, first, end = [], 0, 0
    for match in _PIECES.finditer(text):
        if match[0][0] == "/" and not text[end:match.start()].strip():
            end = match.end()
        elif match[0][0] == '"':
            if held and text[end:match.start()].strip():
                yield first, "".join(held)
                held = []
            first = first if held else text.count("\n", 0, match.start()) + 1
            held.append(match[0][1:-1])
            end = match.end()
    if held:
        yield first, "".join(held)


def code_only(text):
    """As without_comments, preprocessor directives blanked too."""
    return _DIRECTIVE.sub(lambda match: _blank(match.group()), without_comments(text))


@dataclass
class Function:
    path: Path
    name: str
    first: int  # lines, counted from 1, the signature's first to the closing brace's
    last: int
    parameters: list
    marker: str  # the why of a /* long: why */ mark, or ""

    @property
    def length(self):
        return self.last - self.first + 1


def split_parameters(text):
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts = [" ".join(part.split()) for part in parts + [text[start:]]]
    return [part for part in parts if part and part != "void"]


def _signature(head):
    """Where the function's head begins, its name and parameters; None if it is no function's.

    The head reaches back from the name over words and stars only, so that macros used as
    declarations before it (without a semicolon) are not taken for a part of it.
    """
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", lambda m: _blank(m.group()), head, flags=re.DOTALL)
    end = len(head.rstrip())
    if not head[:end].endswith(")"):
        return None
    depth = 0
    for at in range(end - 1, -1, -1):
        depth += (head[at] == ")") - (head[at] == "(")
        if depth == 0:
            break
    # A name may be made by a macro: MADE(name)(parameters).
    before = re.search(r"[\w\s*]*(\b\w+\(\s*\w+\s*\)\s*)?$", head[:at]).group()
    name = re.search(r"(\w+)(\s*\))?\s*$", before)
    if not name or not before[: name.start()].strip():
        return None
    start = at - len(before.lstrip())
    return start, name.group(1), split_parameters(head[at + 1 : end - 1])


def _marker(lines, first, body):
    """The mark stands in the comment above the function or on the lines of its head."""
    start = first - 1
    while start > 0 and lines[start - 1].strip().endswith("*/"):
        start -= 1
        while start > 0 and "/*" not in lines[start]:
            start -= 1
    near = "\n".join(lines[start : body + 1])
    match = re.search(r"/\*\s*long:\s*(.*?)\*/", near, re.DOTALL)
    return " ".join(match.group(1).split()) if match else ""


@functools.cache  # several checks ask, and a file is the same to all
def functions(path):
    """The functions that a file defines, in order."""
    text = read(path)
    code, lines = code_only(text), text.split("\n")
    found, depth, start, open_at = [], 0, 0, None
    for match in re.finditer(r"[{};]", code):
        at, char = match.start(), match.group()
        if char == "{":
            head = code[start:at]
            if depth == 0 and re.search(r'\bextern\s*"[^"]*"\s*$', head):
                start = at + 1
                continue
            if depth == 0:
                signature = _signature(head)
                open_at = signature and (start + signature[0], at, *signature[1:])
            depth += 1
        elif char == "}":
            depth = max(0, depth - 1)
            if depth == 0 and open_at:
                begin, brace, name, parameters = open_at
                first, body, last = (code.count("\n", 0, i) + 1 for i in (begin, brace, at))
                mark = _marker(lines, first, body)
                found.append(Function(path, name, first, last, parameters, mark))
            if depth == 0:
                start, open_at = at + 1, None
        elif depth == 0:
            start = at + 1
    return found
