#!/usr/bin/env python3
"""Plain words: sentences that break a rule where users read, and how each room of src/ speaks.

  scripts/prose.py FILE...     lists sentences of these documents, headers and sources that break a rule
  scripts/prose.py --rooms     prints each room's figures beside those of scripts/prose.txt
  scripts/prose.py --write     writes figures that fell into scripts/prose.txt

Files are named from the top of the tree. Where users read (documents, public headers, messages) no sentence
begins with What, Who or Of, none says "is none", "behind" for after, or begins with a pronoun whose noun stands in
the sentence before. In src/ a room's figures may only fall, and its share of comment lines may not.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

import ctext

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/NUMERICS.md", "docs/EXPRESSIONS.md",
             "docs/ARCHITECTURE.md", "bench/README.md")
KEPT = Path("scripts/prose.txt")

_RULES = (
    (re.compile(r"(What|Who|Whom|Whose|Whoever|Whatever|Of)\b"), "begins with '{}': name the subject first"),
    (re.compile(r"(It|They|Them|Both|Neither|Theirs|Its|Their)\b"),
     "begins with '{}', whose noun stands in another sentence"),
)
_ANYWHERE = (
    (re.compile(r"\b((?:is|are|was|were) none)\b"), "says '{}': say what it is not"),
    (re.compile(r"\b(behind)\b"), "says '{}': after, or the place itself"),
)
_IN_MESSAGES = (
    (re.compile(r"\b(who|whom|whoever)\b"), "says '{}': name who"),
    (re.compile(r"(?:^|[:;,] |\b(?:of|for|to|by|from|with|than|as|and) )(what)\b(?! (?:is|are) the)"),
     "says '{}': name the noun"),
    (re.compile(r"\b(ha(?:s|ve) not)\b(?! \w+e[dn]\b)"), "says '{}': has no, lacks"),
)


def broken_rules(sentence, extra=()):
    """What a sentence breaks, as texts."""
    begin = re.sub(r"^[\W_]+", "", sentence)
    found = [text.format(match[1]) for rule, text in _RULES if (match := rule.match(begin))]
    return found + [text.format(match[1]) for rule, text in (*_ANYWHERE, *extra)
                    if (match := rule.search(sentence))]


def sentences(text):
    """The sentences of a paragraph and the place in it where each begins."""
    at = 0
    for piece in re.split(r"((?<=[.;:!?])\s+)", text):
        if piece.strip():
            yield at, piece
        at += len(piece)


# ---- documents -------------------------------------------------------------------------------


def _paragraphs(text):
    """Runs of prose of a Markdown document with the number of their first line; cells stand alone."""
    fenced, held, first = False, [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        prose = not fenced and line.strip() and not line.startswith("    ")
        alone = prose and re.match(r"\s*(\||#|[-*] |\d+\. )", line)
        if held and (not prose or alone):
            yield first, "\n".join(held)
            held = []
        if prose and line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                yield number, cell
        elif prose:
            first = first if held else number
            held.append(line)


def document_findings(text):
    """Line and text of each broken rule of a Markdown document."""
    for first, paragraph in _paragraphs(text):
        bare = re.sub(r"`[^`]*`", lambda code: "`" + "x" * (len(code[0]) - 2) + "`", paragraph)
        for at, sentence in sentences(bare):
            for broken in broken_rules(sentence):
                yield first + paragraph.count("\n", 0, at), broken


# ---- headers and messages --------------------------------------------------------------------


def _comment_words(comment):
    """A comment's prose, drawings and code left out, each line in its place."""
    kept = []
    for line in comment.split("\n"):
        line = re.sub(r"^\s*(/\*+|\*+/?|//+)", lambda mark: " " * len(mark[0]), line)
        drawn = re.search(r"\S\s{3,}\S", line) or line.startswith("      ") or "|" in line
        kept.append("" if drawn else line.replace("*/", "  "))
    return "\n".join(kept)


def header_findings(text):
    for first, comment in ctext.comments(text):
        prose = _comment_words(comment)
        for at, sentence in sentences(prose):
            for broken in broken_rules(sentence):
                yield first + prose.count("\n", 0, at + len(sentence) - len(sentence.lstrip())), broken


def message_findings(text):
    """Findings in strings of a source that are prose: three words at least."""
    for line, words in ctext.literals(text):
        if len(re.findall(r"[A-Za-z]{2,}", words)) >= 3:
            for broken in broken_rules(words, _IN_MESSAGES):
                yield line, broken


# ---- rooms -----------------------------------------------------------------------------------

_BEGINS = re.compile(r"\W*(what|who|whoever|where|of|for|by|as)\b")


def room_figures(files):
    """Room -> "what" in 1,000 words, % of sentences begun by What, Who, Of, For, By, Where or As, % of static
    functions whose name another file has, % of comment lines."""
    rooms = defaultdict(lambda: {"words": 0, "what": 0, "sentences": 0, "begun": 0, "lines": 0,
                                 "comment": 0, "statics": 0, "shared": 0})
    names, statics = defaultdict(set), []
    for path in files:
        if path.parts[0] == "src" and path.suffix in (".c", ".h"):
            text = ctext.read(path)
            _count_comments(rooms[path.parts[1]], text)
            for name in _static_names(path, text):
                names[name].add(path)
                statics.append((path, name))
    for path, name in statics:
        rooms[path.parts[1]]["statics"] += 1
        rooms[path.parts[1]]["shared"] += len(names[name]) > 1
    return {room: _shares(sums) for room, sums in sorted(rooms.items())}


def _count_comments(sums, text):
    sums["lines"] += text.count("\n")
    for _, comment in ctext.comments(text):
        sums["comment"] += comment.count("\n") + 1
        for _, sentence in sentences(re.sub(r"\s+", " ", _comment_words(comment))):
            words = re.findall(r"[A-Za-z']+", sentence)
            if len(words) >= 3:
                sums["words"] += len(words)
                sums["what"] += len(re.findall(r"\bwhat\b", sentence.lower()))
                sums["sentences"] += 1
                sums["begun"] += bool(_BEGINS.match(sentence.lower()))


def _static_names(path, text):
    lines = text.split("\n")
    for function in ctext.functions(path):
        head = " ".join(lines[max(0, function.first - 2):function.first])
        if re.search(r"\bstatic\b|INLINE", head):
            yield function.name


def _shares(sums):
    def of(part, whole, factor):
        return round(factor * sums[part] / max(1, sums[whole]), 1)
    return (of("what", "words", 1000), of("begun", "sentences", 100),
            of("shared", "statics", 100), of("comment", "lines", 100))


NEW_ROOM = (3.0, 4.0, 8.0, 14.0)  # bounds of a room that scripts/prose.txt does not list
FIGURES = ("'what' in 1,000 words", "% of sentences begun by What, Who, Of, For, By, Where or As",
           "% of static functions whose name another file has", "% of comment lines")


def kept_figures():
    rows = (line.split() for line in ctext.read(KEPT).splitlines() if line and line[0] != "#")
    return {row[0]: tuple(map(float, row[1:])) for row in rows}


def room_findings(files):
    """Rooms that speak worse than scripts/prose.txt has them."""
    kept = kept_figures()
    for room, now in room_figures(files).items():
        for which, name in enumerate(FIGURES):
            most = kept.get(room, NEW_ROOM)[which]
            if now[which] < most - 0.05 if which == 3 else now[which] > most + 0.05:
                yield room, f"{name}: {now[which]}, expected at {'least' if which == 3 else 'most'} {most}"


def write_figures(figures):
    """Keeps the better of each room's figures and those kept before."""
    kept = kept_figures()
    text = ("# How each room of src/ speaks (scripts/prose.py); the first three may only fall, the last may not.\n"
            "# room        " + "  ".join(FIGURES) + "\n")
    for room, now in figures.items():
        old = kept.get(room, now)
        best = [*map(min, old[:3], now[:3]), max(old[3], now[3])]
        text += f"{room:12}" + "".join(f"{figure:7.1f}" for figure in best) + "\n"
    (ctext.ROOT / KEPT).write_text(text, encoding="utf-8")


# ---- all -------------------------------------------------------------------------------------


def finder_of(path):
    """The rules of a file where users read, None of another: text -> line and text of each broken rule."""
    if str(path) in DOCUMENTS or path.match("docs/guide/*.md"):
        return document_findings
    if path.parts[0] == "include" and path.suffix in (".h", ".hpp"):
        return header_findings
    if path.parts[0] in ("src", "tools") and path.suffix in (".c", ".h", ".def"):
        return message_findings
    return None


def main(arguments):
    files = ctext.tree_files()
    if arguments in (["--rooms"], ["--write"]):
        figures = room_figures(files)
        if arguments == ["--write"]:
            write_figures(figures)
        kept = kept_figures()
        for room, now in figures.items():
            print(f"{room:12}", *(f"{a:6} ({b})" for a, b in zip(now, kept.get(room, now))))
        return 0
    count = 0
    for path in [Path(name) for name in arguments] or files:
        finder = finder_of(path)
        for line, text in finder(ctext.read(path)) if finder else ():
            print(f"{path}:{line}: {text}")
            count += 1
    print(f"{count} sentences break a rule")
    return count > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
