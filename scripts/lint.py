#!/usr/bin/env python3
"""The house's checks. Prints one line a finding and fails if there is any.

  scripts/lint.py [BUILD_FOLDER]    the folder holds lib/libtessera.a; without it the check for
                                    mutable globals is left out
"""

import concurrent.futures
import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

import ctext
import ops
import prose

# A room includes itself and rooms of a lower level only.
LEVELS = {
    "base": 0,
    "topology": 1, "comm": 1,
    "graph": 2,
    "kernel": 3, "partition": 3,
    "execute": 4,
    "array": 5, "relate": 5,
    "transform": 6, "io": 6,
    "frame": 7, "train": 7, "inspect": 7,
    "checkpoint": 8, "pipeline": 8,
}
# Rooms inside a room, each with its level there; "" stands for what lies in the room itself. They include
# themselves and those of a lower level, so that no two are in a circle.
SUBROOMS = {
    "kernel": {"device": 0, "exact": 0, "fuse": 0, "tile": 1, "jit": 2, "rows": 2,
               "routine": 3, "fallback": 4, "": 5},
    "io": {"file": 0, "text": 0, "rows": 1, "csv": 2, "json": 2, "arrow": 2, "npy": 2},
    "frame": {"expr": 0, "chain": 1, "lower": 2, "run": 3, "out": 4},
}
CLIENTS = ("tools", "examples", "bench")  # of the public API only
COLLECTIVITY = ("Local.", "Collective.", "Collective, same arguments.")

findings = []


def find(path, line, text):
    findings.append(f"{path}:{line}: {text}" if line else f"{path}: {text}")


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def sources(files, *folders, suffixes=ctext.SOURCE_SUFFIXES):
    return [f for f in files if f.suffix in suffixes and (not folders or f.parts[0] in folders)]


# ---- formatting ------------------------------------------------------------------------------

WIDTH = 100  # columns; clang-format sees no comments


def check_width(files):
    for path in sources(files):
        if path.suffix == ".def":
            continue  # tables: a row is a line
        for number, text in enumerate(ctext.read(path).splitlines(), 1):
            if len(text) > WIDTH:
                find(path, number, f"{len(text)} columns, at most {WIDTH}")


def run_format(files):
    """What clang-format with .clang-format prints: the text of all its runs."""
    paths = [str(f) for f in sources(files, suffixes={".c", ".h", ".cc"})]
    printed = ""
    for start in range(0, len(paths), 50):
        done = subprocess.run(
            ["clang-format", "--dry-run", "--style=file", *paths[start : start + 50]],
            cwd=ctext.ROOT, capture_output=True, text=True, check=False)
        printed += done.stderr
    return printed


def check_format(printed):
    """The places alone, a line a file."""
    places = {}
    for match in re.finditer(r"^(.+?):(\d+):\d+: (warning|error): (.*)$", printed, re.M):
        places.setdefault(match.group(1), []).append(int(match.group(2)))
    for path, lines in sorted(places.items()):
        distinct = sorted(set(lines))
        shown = ", ".join(map(str, distinct[:8])) + (", ..." if len(distinct) > 8 else "")
        find(path, 0, f"formatting differs at line {shown}; run: make format")


# ---- who includes whom --------------------------------------------------------------------------

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def is_public(name):
    return name == "tessera.h" or name.startswith("tessera/")


def subroom(parts):
    """The sub-room of a path below src/: ("kernel", "fuse", "kir.h") is of "fuse"."""
    return parts[1] if len(parts) > 2 else ""


def check_subroom_include(path, line, name):
    room, own, other = path.parts[1], subroom(path.parts[1:]), subroom(name.split("/"))
    levels = SUBROOMS.get(room, {own: 0, other: -1})
    if own not in levels:
        find(path, line, f"{room}/{own} is no sub-room; there are {', '.join(filter(None, levels))}")
    elif other != own and levels.get(other, 99) >= levels[own]:
        find(path, line, f"{room}/{own} includes {name}: only sub-rooms further down are allowed")


# The first words of a header that is not for everybody: "/* Inside kernel/ and relate/: ...".
_INSIDE = re.compile(r"/\* Inside ((?:\w+/(?:, | and )?)+):")


def check_inner_include(path, line, name):
    """A header that begins "Inside ROOM/:" is included there only: what a buffer is, for one, is
    kernel/'s alone."""
    match = _INSIDE.match(ctext.read(Path("src") / name))
    rooms = re.findall(r"(\w+)/", match[1]) if match else [path.parts[1]]
    if path.parts[1] not in rooms:
        find(path, line, f"{name} is for {', '.join(rooms)} only, as its first line says")


def check_room_include(path, line, name, quoted):
    room = path.parts[1] if len(path.parts) > 2 else None
    if room not in LEVELS:
        find(path, line, f"'{room}' is no room; the rooms are {', '.join(LEVELS)}")
    elif is_public(name):
        if not (ctext.ROOT / "include" / name).is_file():
            find(path, line, f"there is no public header {name}")
    elif quoted and not (ctext.ROOT / "src" / name).is_file():
        find(path, line, f'"{name}" is not there; includes are written from src/, as "base/base.h"')
    elif quoted:
        check_inner_include(path, line, name)
        other = name.split("/")[0]
        if other != room and LEVELS.get(other, 99) >= LEVELS[room]:
            find(path, line, f"{room}/ (level {LEVELS[room]}) includes {name} "
                             f"(level {LEVELS.get(other, '?')}); only lower rooms are allowed")
        elif other == room:
            check_subroom_include(path, line, name)


def check_client_include(path, line, name, quoted):
    """Clients see the public face, and headers of their own folder."""
    own = (ctext.ROOT / path).parent / name
    if quoted and not is_public(name) and not own.is_file():
        find(path, line, f'"{name}": {path.parts[0]}/ may include only tessera.h and tessera/*.h')


def check_includes(files):
    for path in sources(files, "src", "include", *CLIENTS):
        text = ctext.read(path)
        for match in _INCLUDE.finditer(text):
            quoted, name, line = match.group(1) == '"', match.group(2), line_of(text, match.start())
            if path.parts[0] == "src":
                check_room_include(path, line, name, quoted)
            elif path.parts[0] == "include":
                sibling = ctext.ROOT / "include" / "tessera" / name
                if quoted and not is_public(name) and not sibling.is_file():
                    find(path, line, f'"{name}": a public header includes public ones only')
            else:
                check_client_include(path, line, name, quoted)


def check_unique_names(files):
    seen = {}
    for path in sources(files, "src", "include", "tools", "tests"):
        # A room's public header may share its name with the internal one.
        key = (path.name, path.parts[0] == "include")
        if key in seen:
            find(path, 0, f"has the name of {seen[key]}; file names are unique")
        seen[key] = path


# What a header declares for other files: not what it defines itself.
_DECLARED = re.compile(r"^(?!static|typedef)[a-z_][\w *]*?\b(tsr__\w+)\([^;{}]*;", re.M)


def check_shared(files):
    """A function that one file makes and only that file uses is static there, not in a header. Names
    that a table's macro puts together are found by their beginning."""
    code = {path: ctext.without_comments(ctext.read(path))
            for path in sources(files, "src", "tests", "bench")}
    pasted = tuple({name for text in code.values() for name in re.findall(r"\b(tsr__\w+)##", text)})
    words = {path: re.findall(r"\btsr__\w+", text) for path, text in code.items()}
    users = {}
    for path, names in words.items():
        for name in set(names):
            users.setdefault(name, []).append(path)
    for path in (p for p in code if p.suffix == ".h" and p.parts[0] == "src"):
        for match in _DECLARED.finditer(ctext.code_only(ctext.read(path))):
            name = match.group(1)
            if len(users[name]) <= 2 and words[path].count(name) == 1 and not (
                    pasted and name.startswith(pasted)):
                find(path, line_of(code[path], match.start(1)),
                     f"{name} is used in one file only: static there")


# ---- the public face -------------------------------------------------------------------------------


def comment_above(text, at):
    """The text of the comment that ends on the line directly above, or None."""
    above = text[:at].rstrip(" \t")
    if not above.endswith("*/\n"):
        return None
    comment = above[above.rfind("/*") + 2 : -3]
    return " ".join(line.strip().lstrip("*").strip() for line in comment.split("\n")).strip()


def check_documented(files):
    for path in sources(files, "include", "src"):
        text = ctext.read(path)
        for match in re.finditer(r"^[ \t]*TSR_API\b[^;{]*", ctext.code_only(text), re.MULTILINE):
            line = line_of(text, match.start() + len(match.group()) - len(match.group().lstrip()))
            name = re.search(r"(\w+)\s*\(", match.group())
            name = name.group(1) if name else "?"
            if path.parts[0] == "src":
                find(path, line, f"{name}: TSR_API belongs in a public header only")
                continue
            comment = comment_above(text, text.rfind("\n", 0, text.find("TSR_API", match.start())) + 1)
            if not comment:
                find(path, line, f"{name} is not documented: no comment directly above")
            elif not comment.endswith(COLLECTIVITY):
                find(path, line, f"{name}: its comment must end with one of "
                                 + ", ".join(f"'{word}'" for word in COLLECTIVITY))


# ---- operations ---------------------------------------------------------------------------------------

# What asks which operation something is: comparisons, cases, tables by operation.
_ASKS = re.compile(r"[!=]=\s*TSR__OP_(\w+)|\bTSR__OP_(\w+)\s*[!=]=|\bcase\s+TSR__OP_(\w+)|"
                   r"\[TSR__OP_(\w+)\]\s*=")
_NAMES = re.compile(r"\bTSR__OP_(?!COUNT\b)\w+")
# The few that are the structure of a program itself: where values and numbers come in, what a
# region takes, what is several arrays, where somebody said how an array lies.
STRUCTURE = {"graph": {"LEAF", "CONST", "ARG", "TREE"}, "kernel": {"CONST"},
             "transform": {"LEAF", "CONST", "ARG", "TREE"},
             "partition": {"LEAF", "CONST", "CONSTRAIN", "RESHARD"}}


def check_operations(files):
    """No operation is known outside its row: whoever needs to know asks the row. array/, transform/ and frame/
    may name the one they make."""
    for path in sources(files, "src"):
        room, code = path.parts[1], ctext.without_comments(ctext.read(path))
        for match in _ASKS.finditer(code):
            name = next(filter(None, match.groups()))
            if name not in STRUCTURE.get(room, ()):
                find(path, line_of(code, match.start()),
                     f"'{match.group()}': ask the operation's row of the table")
        if room not in ("graph", "kernel", "partition", "array", "frame", "transform"):
            for match in _NAMES.finditer(code):
                find(path, line_of(code, match.start()), f"{match.group()} is named outside its home")


# Names of operations in disguise: the kind of a row's kernel, and functions of rows that are compared.
_KERNEL_KINDS = re.compile(r"(?:\.|->)lowering\b|\bTSR__LOW_\w+")
_ROW_FUNCTIONS = re.compile(r"[!=]=\s*&?tsr__(?:shape|view|flops|routine|room_of|batch)_\w+\b(?!\s*\()")


def check_row_questions(files):
    """Whoever needs to know something about an operation asks a trait of its row, or calls a function that the
    row names. graph/ alone reads what kind of kernel a row has."""
    for path in sources(files, "src"):
        code = ctext.without_comments(ctext.read(path))
        for match in _ROW_FUNCTIONS.finditer(code):
            find(path, line_of(code, match.start()), f"'{match.group()}': a trait of the row, in ops.def")
        if path.parts[1] == "graph":
            continue
        for match in _KERNEL_KINDS.finditer(code):
            find(path, line_of(code, match.start()),
                 f"'{match.group()}': ask a trait of the row, or a function of graph/ops.h")


_VERBS = re.compile(r"\bcase\s+TSR__FRAME_\w+")


_DTYPE = r"TSR_(?:BOOL|[IU](?:8|16|32|64)|B?F16|F32|F64)\b"
_TYPES_APART = re.compile(rf"\bcase {_DTYPE}|[!=]= {_DTYPE} (?:\|\||&&)[^;]*[!=]= {_DTYPE}")


def check_dtypes(files):
    """There is one table of element types: but for it and the loops of kernels nobody tells them
    apart one by one."""
    for path in sources(files, "src"):
        if path.parts[1] in ("topology", "kernel"):
            continue
        code = ctext.without_comments(ctext.read(path))
        for match in _TYPES_APART.finditer(code):
            find(path, line_of(code, match.start()),
                 f"'{match.group()}': ask the table (topology/dtypes.def)")


def check_verbs(files):
    """Nothing switches over the verbs of frames: what a verb is stands in its row of verbs.def."""
    for path in sources(files, "src"):
        code = ctext.without_comments(ctext.read(path))
        for match in _VERBS.finditer(code):
            find(path, line_of(code, match.start()),
                 f"'{match.group()}': a verb is a row of frame/chain/verbs.def")


def check_generated():
    """What scripts/ops.py writes is what it would write now."""
    for path, text in ops.outputs().items():
        if not Path(path).exists() or Path(path).read_text() != text:
            find(path, 0, f"is not what {ops.TABLE} says; run scripts/ops.py")


def check_guide_index(files):
    """The index of the guide has a line for each of its pages, and one only."""
    index = Path("docs/guide/README.md")
    linked = re.findall(r"^\| \[[^]]*\]\(([\w-]+\.md)\) \|", ctext.read(index), re.M)
    for path in (f for f in files if f.parent == index.parent and f.suffix == ".md" and f != index):
        if linked.count(path.name) != 1:
            find(index, 0, f"has {linked.count(path.name)} lines for {path.name}, and not one")


def promised(cell, count):
    """The numbers that a cell begins with: one for each name, or one for all."""
    numbers = re.match(r"[\d.]+(?:, [\d.]+)*", cell)
    found = [float(number) for number in numbers.group().split(", ")] if numbers else []
    return found * count if len(found) == 1 else found


def check_promises():
    """The table of errors in NUMERICS.md says what rows state as ULP, of each of them."""
    page, stated = Path("docs/NUMERICS.md"), {}
    for line in page.read_text().split("| function |")[1].split("\n\n")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        names = re.sub(r" \(.*?\)", "", cells[0]).split(", ")
        stated.update(zip(names, zip(promised(cells[1], len(names)), promised(cells[3], len(names)))))
    for name, *ulp in ops.promises(ops.table()):
        if stated.get(name) != tuple(ulp):
            find(page, 0, f"{name} is promised within {stated.get(name)} ULP, {ops.TABLE} says {tuple(ulp)}")


# A number of operands that is written down somewhere else than in a row of the table.
_FIXED = re.compile(
    r"\b(?:tsr_array|tsr__type|tsr_dtype|int|int32_t)\b[\s*]*(?:const\s+)?in\[\d+\]"
    r"|\(tsr_array \*(?:const )?\[3\]\)")
_COUNTED = re.compile(r"for \(int (\w) = \d; \1 < \d; \1\+\+\)(.{0,160})", re.DOTALL)


def check_operand_counts(files):
    """A node has any number of operands: TSR__IN makes them, TSR_FOR_OPERANDS goes over them."""
    for path in sources(files, "src", "tests"):
        code = ctext.without_comments(ctext.read(path))
        found = [(m.start(), m.group()) for m in _FIXED.finditer(code)]
        for m in _COUNTED.finditer(code):
            operand = rf"(?:->|\.)in\[{m.group(1)}\]|tsr__in\([^;]*, {m.group(1)}\)"
            if re.search(operand, m.group(2).split(";")[0]):
                found.append((m.start(), f"a loop over {m.group(1)}"))
        for at, text in found:
            find(path, line_of(code, at), f"'{text}' fixes a node's number of operands; use TSR__IN,"
                                          " TSR_FOR_OPERANDS, tsr__in")


# ---- what may not be ----------------------------------------------------------------------------------

BANNED = {
    "strcpy": "its length is unbounded", "strcat": "its length is unbounded",
    "sprintf": "its length is unbounded", "vsprintf": "its length is unbounded",
    "gets": "its length is unbounded", "strtok": "it has hidden state",
    "atoi": "it does not see errors", "atof": "it does not see errors",
    "rand": "it has hidden state", "srand": "it has hidden state",
    "exit": "a library does not end its process", "abort": "a library does not end its process",
    "printf": "the library prints nothing", "fprintf": "the library prints nothing",
    "puts": "the library prints nothing", "putchar": "the library prints nothing",
    "perror": "the library prints nothing",
    "setlocale": "the locale is the program's", "uselocale": "the locale is the program's",
    "localeconv": "it depends on the locale",
    "tsr_reshard_at": "nobody asked for that place; say why with tsr__reshard_for",
    "tsr_constrain_at": "nobody asked for that place; say why with tsr__constrain_for",
}
_LOCALE = ("atof strtod strtof strtold isalpha isalnum isspace isdigit isxdigit isupper islower isprint "
           "ispunct isgraph iscntrl isblank toupper tolower strcoll strxfrm strcasecmp strncasecmp "
           "strerror strerror_r strftime strptime mbtowc mbrtowc mbstowcs wctomb wcrtomb wcstombs "
           "wcwidth glob fnmatch regcomp sscanf")
BANNED.update({name: "it depends on the locale" for name in _LOCALE.split() if name not in BANNED})
_BANNED = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
# The functions that may: the end of a broken invariant, and where TSR_LOG sends its lines.
# find_names takes a locale of its own; the last two are those calls.
EXEMPT = {"tsr__invariant_broken", "to_stderr", "find_names", "tsr_reshard_at", "tsr_constrain_at"}
# printf of a float writes the locale's decimal point: tsr__text_f64 and tsr__text_decimals do not.
_FLOAT_FORMAT = re.compile(r"%[-+ #0']*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?L?[aefgAEFG]")
FLOATS_ALLOWED = {"tsr__text_decimals"}


def check_banned(files):
    for path in sources(files, "src"):
        code = ctext.code_only(ctext.read(path))
        free = [f for f in ctext.functions(path) if f.name in EXEMPT]
        for match in _BANNED.finditer(code):
            line = line_of(code, match.start())
            if not any(f.first <= line <= f.last for f in free):
                find(path, line, f"{match.group(1)}: {BANNED[match.group(1)]}")


def site_macros():
    """The macros of public headers that take the line on which they stand."""
    text = "\n".join(ctext.read(f) for f in sorted(Path("include/tessera").glob("*.h")))
    bodies = dict(re.findall(r"^#define (\w+)\(.*?\)((?:.*\\\n)*.*)$", text, re.M))
    found = {"TSR_HERE"}
    while True:
        more = {name for name, body in bodies.items()
                if name not in found and found & set(re.findall(r"\w+", body))}
        if not more:
            return found
        found |= more


# A call in src/ by such a macro would put a line of the library where users look for theirs.
def check_sites(files):
    names = re.compile(r"(?<!\w)(" + "|".join(sorted(site_macros())) + r")\b(?:(?=\s*\()|(?<=TSR_HERE))")
    for path in sources(files, "src"):
        code = ctext.code_only(ctext.read(path))
        for match in names.finditer(code):
            find(path, line_of(code, match.start()), f"{match.group(1)}: its line is the library's; "
                 "call the function ending in _at with the caller's")


def check_float_formats(files):
    for path in sources(files, "src"):
        free = [f for f in ctext.functions(path) if f.name in FLOATS_ALLOWED]
        for number, text in enumerate(ctext.strings_only(ctext.read(path)).splitlines(), 1):
            match = _FLOAT_FORMAT.search(text.replace("%%", "  "))
            if match and not any(f.first <= number <= f.last for f in free):
                find(path, number, f"'{match.group()}' writes the locale's decimal point; use "
                                   "tsr__text_f64 or tsr__text_decimals")


_SECTION = re.compile(r"^\S+\s+(.{7})\s+(\S+)\s+(\S+)\s+(.*)$")


# The one thing that hangs on no runtime, and is each thread's own: what its calls of NULL told.
THREADS_OWN = {("scope.c.o", "stray")}


def check_globals(build):
    """No object of the library has writable data: state hangs on a runtime."""
    archive = Path(build) / "lib" / "libtessera.a"
    if not archive.is_file():
        find(archive, 0, "is not built, so mutable globals cannot be looked for")
        return
    done = subprocess.run(["objdump", "-t", str(archive)], capture_output=True, text=True,
                          check=True)
    member = "?"
    for text in done.stdout.splitlines():
        if ":     file format" in text:
            member = text.split(":")[0]
            continue
        match = _SECTION.match(text)
        if not match or "d" in match.group(1) or int(match.group(3), 16) == 0:
            continue
        section, name = match.group(2), match.group(4).split()[-1]
        # .data.rel.ro is constant: addresses in const tables, fixed once by the loader.
        writable = re.match(r"\.(data|bss|tdata|tbss)\b|\*COM\*", section)
        own = section.startswith(".tbss") and (member, name) in THREADS_OWN
        if writable and not own and not section.startswith(".data.rel.ro"):
            find(member, 0, f"{name} is a mutable global (section {section})")


def room_of_objects(files):
    """Which room and sub-room an object of the archive comes from, by its name."""
    return {path.name + ".o": (path.parts[1], subroom(path.parts[1:]))
            for path in sources(files, "src", suffixes={".c"})}


def archive_symbols(archive):
    """What each object of an archive defines and what it needs: name -> object, {object: names}."""
    done = subprocess.run(["nm", str(archive)], capture_output=True, text=True, check=True)
    homes, needs, member = {}, {}, "?"
    for text in done.stdout.splitlines():
        words = text.split()
        if text.endswith(".o:"):
            member = text[:-1]
        elif len(words) == 2 and words[0] == "U":
            needs.setdefault(member, set()).add(words[1])
        elif len(words) == 3 and words[1].isupper():
            homes[words[2]] = member
    return homes, needs


# Nodes of frames are made without a run: what makes them calls none of these.
QUIET = {"frame/lower": None, "frame/run": {"verb_run.c.o"}}
RUNS = {"tsr__execute", "tsr__bind_run", "tsr__bind_frame", "tsr__stage_frame", "tsr__carry_rows"}


def check_quiet(member, room, names):
    here = QUIET.get("/".join(room), ())
    for name in sorted(RUNS & names if here is None or member in here else ()):
        find(member, 0, f"calls {name}: nodes of frames are made without a run")


# Calls by address into memory that processes share.
PEERS_MEMORY = {f"tsr__peers_{verb}" for verb in ("take", "give", "has", "offset", "at", "fetch")}


def check_device_calls(build, files):
    """Rooms outside of kernel/ call an entry of the device table through the table, as a second table
    may stand before the first. They name no pool, as memory of a device is asked by the entry `memory`,
    and no memory of other processes, which the entries share, open_shared and fetch stand for."""
    archive = Path(build) / "lib" / "libtessera.a"
    tables = ctext.without_comments(ctext.read(Path("src/kernel/cpu.c")))
    entries = set(re.findall(r"^  \.\w+ = (tsr__\w+),$", tables, re.M))
    if not archive.is_file():
        return  # check_globals says so
    rooms, (_, needs) = room_of_objects(files), archive_symbols(archive)
    for member, names in sorted(needs.items()):
        for name in sorted(names & entries):
            if rooms.get(member, ("kernel",))[0] != "kernel":
                find(member, 0, f"calls {name}: by the device table, tsr__devices_of and tsr__on_rows")
        for name in sorted(names):
            if name.startswith("tsr__pool_") and rooms.get(member, ("kernel",))[0] not in ("base", "kernel"):
                find(member, 0, f"calls {name}: pools are the CPU devices' own; ask the entry memory")
            if name in PEERS_MEMORY and rooms.get(member, ("kernel",))[0] not in ("comm", "kernel"):
                find(member, 0, f"calls {name}: by the entries share, open_shared and fetch")


_MAPS = re.compile(r"(?:->|\.)map\(")


def check_maps(files):
    """Above kernel/ one function maps buffers, for the host to look at elements: none is mapped for its
    address, as a handle (the entry share) says where it is."""
    for path in sources(files, "src"):
        code = ctext.code_only(ctext.read(path))
        free = [f for f in ctext.functions(path) if f.name == "tsr__value_map"]
        for match in _MAPS.finditer(code) if path.parts[1] != "kernel" else ():
            line = line_of(code, match.start())
            if not any(f.first <= line <= f.last for f in free):
                find(path, line, "maps a buffer: use tsr__value_map, or the entries share and copy")


# What tiles may call of the C library: all exact or rounded once, so the same on every machine.
TILE_CALLS = re.compile(r"(copysign|floor|ceil|trunc|rint|sqrt)f?|fmaf?|fabsf?|mem\w+|_\w+")


def check_tiles(build):
    """Numbers do not depend on a machine's C library: tiles call no function of it that rounds as it likes."""
    archive = Path(build) / "lib" / "libtessera.a"
    if not archive.is_file():
        return  # check_globals says so
    homes, needs = archive_symbols(archive)
    for member in sorted(needs):
        for name in sorted(needs[member]):
            if member.endswith("_tile.c.o") and name not in homes and not TILE_CALLS.fullmatch(name):
                find(member, 0, f"calls {name} of the C library, whose bits are its own")


def check_calls(build, files):
    """Headers hide who carries out what they declare; objects do not: within a room, calls too go to
    sub-rooms further down only."""
    archive = Path(build) / "lib" / "libtessera.a"
    if not archive.is_file():
        return  # check_globals says so
    rooms, (homes, needs) = room_of_objects(files), archive_symbols(archive)
    for member, names in sorted(needs.items()):
        room, own = rooms.get(member, ("", ""))
        check_quiet(member, (room, own), names)
        for name in sorted(names):
            to = homes.get(name)
            other_room, other = rooms.get(to, ("", ""))
            if not room or other_room != room or other == own:
                continue
            levels = SUBROOMS.get(room, {own: 0, other: -1})
            if levels.get(other, 99) >= levels.get(own, 0):
                find(member, 0, f"{room}/{own} calls {name} of {room}/{other} ({to}): only sub-rooms"
                                " further down are allowed")


_NAMED = re.compile(r"`((?:[\w.]+/)+[\w.*{},]*)`|\]\(([^)#:\s]+)\)")


def spellings(name):
    """a/{b,c}_test.c is a/b_test.c and a/c_test.c."""
    match = re.match(r"(.*)\{([^}]*)\}(.*)$", name)
    return [match[1] + word + match[3] for word in match[2].split(",")] if match else [name]


def check_named_files(files):
    """Files that a page names are there: those of links, and those named by their path."""
    known = {str(f) for f in files} | {str(folder) for f in files for folder in f.parents}
    roots = {f.parts[0] for f in files if len(f.parts) > 1}
    for path in (f for f in files if f.suffix == ".md"):
        text = ctext.read(path)
        for match in _NAMED.finditer(text):
            link, name = match[2], match[1] or match[2]
            if not link and (name.split("/")[0] not in roots | LEVELS.keys() or name[-1] == "/"):
                continue
            for one in spellings(name.rstrip("/")):
                at = os.path.normpath(path.parent / one) if link else one
                wanted = [at] if link or at.split("/")[0] in roots else [f"src/{at}"]
                if not any(fnmatch.filter(known, w) for w in wanted):
                    find(path, line_of(text, match.start()), f"there is no {one}")


# Names of the place where the project was made have no business in it.
FOREIGN = [
    (re.compile(r"/wo" r"rk/"), "a machine's path"),
    # Money a visit, "revenue/sess" "ion", is not one.
    (re.compile(r"(?<![/\w])sess" r"ion\b", re.I), "a working sess" "ion"),
    (re.compile(r"\biss" r"ue\s*#|\biss" r"ue \d", re.I), "an iss" "ue"),
    (re.compile(r"py" r"pi\.org|deb" r"ian\.org|npm" r"js\.org|crates" r"\.io|anaconda" r"\.org"),
     "a registry's host"),
]


def check_foreign(files):
    for path in files:
        if path.name == "LICENSE" or b"\0" in (ctext.ROOT / path).read_bytes()[:4096]:
            continue
        if path.suffix in (".csv", ".npy", ".npz"):
            continue
        for number, text in enumerate(ctext.read(path).splitlines(), 1):
            for pattern, what in FOREIGN:
                match = pattern.search(text)
                if match:
                    find(path, number, f"'{match.group()}' names {what}")


def check_prose(files):
    """Documents, headers and messages keep the rules of plain words; rooms speak no worse than they did
    (scripts/prose.txt)."""
    for path in files:
        finder = prose.finder_of(path)
        for line, text in finder(ctext.read(path)) if finder else ():
            find(path, line, text)
    for room, text in prose.room_findings(files):
        find(Path("src") / room, 0, text)


def main():
    files = ctext.tree_files()
    beside = concurrent.futures.ThreadPoolExecutor(1)
    formatted = beside.submit(run_format, files)
    check_width(files)
    check_includes(files)
    check_unique_names(files)
    check_shared(files)
    check_documented(files)
    check_operations(files)
    check_row_questions(files)
    check_generated()
    check_guide_index(files)
    check_promises()
    check_operand_counts(files)
    check_dtypes(files)
    check_verbs(files)
    check_banned(files)
    check_sites(files)
    check_maps(files)
    check_float_formats(files)
    check_named_files(files)
    check_foreign(files)
    check_prose(files)
    if len(sys.argv) > 1:
        check_globals(sys.argv[1])
        check_calls(sys.argv[1], files)
        check_device_calls(sys.argv[1], files)
        check_tiles(sys.argv[1])
    check_format(formatted.result())
    for finding in findings:
        print(finding)
    print(f"lint: {len(findings)} findings in {len(files)} files" if findings
          else f"lint: {len(files)} files are clean")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
