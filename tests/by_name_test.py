#!/usr/bin/env python3
"""Options are given by name, and required arguments are asked for, in every macro that fills in a struct of
arguments: each call is found in the headers, made with values of the right types, which must compile, then
with one value more that has no name, and with one argument less, which must not.

    tests/by_name_test.py INCLUDE_DIR CC...
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

EXTRA = ("1", "1.0", '"k"', "NULL", "TSR_F32", "{ 1 }")
MARK = "TSR_REST_BY_NAME"


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def split(text):
    """At commas that no bracket holds."""
    out, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            out.append(text[last:i])
            last = i + 1
    return [part.strip() for part in out + [text[last:]] if part.strip()]


class Headers:
    def __init__(self, folder):
        text = without_comments("\n".join(f.read_text() for f in sorted(Path(folder).rglob("*.h"))))
        self.macros = {}
        for m in re.finditer(r"^#define (\w+)\(([^)]*)\)((?:[^\n]*\\\n)*[^\n]*)", text, re.M):
            params = [p.strip() for p in m[2].split(",")]
            self.macros[m[1]] = params, re.sub(r"\s+", " ", m[3].replace("\\\n", " ")).strip()
        self.structs = {m[2]: self.fields(m[1])
                        for m in re.finditer(r"typedef struct \w+ \{(.*?)\n\} (\w+);", text, re.S)
                        if m[1].split()[:2] == ["size_t", "size;"] or f"size {MARK}" in m[1]}
        self.calls = {m[2]: [self.parameter(p) for p in split(re.sub(r"\s+", " ", m[3]))]
                      for m in re.finditer(r"TSR_API ([^;(]*?)(\w+)\(([^;]*)\)[^;]*;", text)}

    def fields(self, body):
        """(name, type, whether it is an array, whether the rest goes by name), in order."""
        out = []
        for declaration in body.split(";"):
            declaration = " ".join(declaration.split())
            marked = declaration.endswith(MARK)
            m = re.match(r"((?:const |struct |enum )*\w+) (.*)", declaration.replace(MARK, "").strip())
            for one in split(m[2]) if m else []:
                name = re.search(r"(\w+)(\[.*)?$", one)
                out.append([name[1], m[1] + " " + one[: name.start()], bool(name[2]), False])
            if m:
                out[-1][3] = marked
        return out

    @staticmethod
    def parameter(text):
        m = re.match(r"(.*?)(\w+)((?:\[.*\])?)$", text)
        return m[1] + ("*" if m[3] else "") if m else text

    def literal(self, name):
        """The macro that has the struct's literal in it: name's own or the one that it comes down to."""
        seen = []
        while name in self.macros and name not in seen:
            seen.append(name)
            params, body = self.macros[name]
            at = re.search(r"\(\w+\)\{[^{}]*__VA_ARGS__ \}", body)
            if at:
                return params, body, at[0]
            inner = [w for w in re.findall(r"\b(TSR_\w+_)\b", body) if not w.startswith("TSR_NEEDS")]
            name = inner[0] if inner else ""
        return None

    def value(self, kind):
        return f"(*({kind.strip()} *)0)"

    def call(self, name):
        """Arguments of a macro that takes options, with those that may stand without a name behind the
        required ones; or None."""
        found = self.literal(name)
        # Of an einsum all that follows is a list.
        if not found or "TSR_ARRAYS(__VA_ARGS__)" in self.macros[name][1]:
            return None
        params, body, literal = found
        struct = re.match(r"\((\w+)\)", literal)[1]
        if struct not in self.structs:
            return None
        fields, given = self.structs[struct], {}
        for field, what in re.findall(r"\.(\w+) = (\(\w+\)|TSR_OPERAND\(\w+\)|__VA_ARGS__)", literal):
            given[re.search(r"\w+(?=\)?$)", what)[0]] = field, "OPERAND" in what
        arguments = []
        own = self.macros[name][0]
        for param in [p for p in (params if own == ["..."] else own) if p != "..."]:
            arguments.append(self.argument(param, given, fields, name, body))
        last = re.findall(r"\.(\w+) = ", literal)[-1]
        at = [f[0] for f in fields].index(last)
        if "__VA_ARGS__" in given:
            arguments.append(self.of_field(fields[at]))
        places = []
        while at < len(fields) and not fields[at][3]:
            at += 1
            if at < len(fields):
                places.append(self.of_field(fields[at]))
        return arguments, places, at < len(fields)

    def of_field(self, field):
        return "{ 0 }" if field[2] else self.value(field[1])

    def argument(self, param, given, fields, name, body):
        if param in given:
            field, operand = given[param]
            kind = next(f[1] for f in fields if f[0] == field)
            return self.value("tsr_array *" if operand else kind)
        texts = [body, self.macros[name][1]]
        for text in texts:
            for call, inside in calls_in(text):
                parts = split(inside)
                for i, part in enumerate(parts):
                    if part == f"({param})" and call in self.calls:
                        return self.value(self.calls[call][i])
                    if part == f"TSR_OPERAND({param})":
                        return self.value("tsr_array *")
        if "_Generic" in body:
            return self.value("tsr_mesh *") if param == "place" else self.value("const char *")
        raise SystemExit(f"by_name_test.py: what is {param} of {name}?")


def calls_in(text):
    """(name, what stands between its brackets) of each call in a text."""
    for m in re.finditer(r"\b(tsr_\w+)\(", text):
        depth = 1
        for i in range(m.end(), len(text)):
            depth += (text[i] == "(") - (text[i] == ")")
            if not depth:
                yield m[1], text[m.end() : i]
                break


def statements(headers):
    """(statement, None or what its error says) of every call."""
    for name in sorted(headers.macros):
        call = name.startswith("tsr_") and headers.call(name)
        if not call:
            continue
        arguments, places, marked = call
        yield f"(void)({name}({', '.join(arguments) or ' '}))", None
        needs = re.search(r'TSR_NEEDS_(\d)_\("(.*?)"', headers.macros[name][1])
        if needs:
            yield f"(void)({name}({', '.join(arguments[: int(needs[1]) - 1])}))", needs[2] + ": an argument"
        if not marked:
            continue
        full = arguments + places
        yield f"(void)({name}({', '.join(full)}))", None
        for value in EXTRA:
            yield f"(void)({name}({', '.join(full + [value])}))", ""


def errors(cc, include, lines):
    """The first error of each line, by its number; all of them go through the compiler at once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.c"
        head = ["#include <stddef.h>", "#include <tessera.h>"]
        path.write_text("\n".join(head) + "\n" +
                        "".join(f"void f{i}(void); void f{i}(void) {{ {s}; }}\n" for i, s in enumerate(lines)))
        clang = "clang" in subprocess.run([cc, "--version"], capture_output=True, text=True, check=True).stdout
        more = ["-ferror-limit=0"] if clang else ["-fmax-errors=0", "-ftrack-macro-expansion=0"]
        done = subprocess.run([cc, "-std=c11", f"-isystem{include}", "-fsyntax-only", *more, str(path)],
                              capture_output=True, text=True, check=False)
        out = {}
        for m in re.finditer(r"a\.c:(\d+):\d+: error: (.*)", done.stderr):
            out.setdefault(int(m[1]) - 1 - len(head), m[2])
        return out


def main():
    include, compilers = sys.argv[1], sys.argv[2:]
    cases = list(statements(Headers(include)))
    bad = 0
    for cc in compilers:
        found = errors(cc, include, [statement for statement, _ in cases])
        for i, (statement, expected) in enumerate(cases):
            error = found.get(i)
            if (error is None) == (expected is None) and (not expected or expected in error):
                continue
            bad += 1
            print(f"{cc}: {statement}: {error or 'compiles'}, expected {expected if expected is not None else 'none'}")
    calls = len({statement.split("(")[2] for statement, _ in cases})
    print(f"{len(cases)} statements of {calls} calls, {bad} wrong")
    return bad > 0 or calls < 100


if __name__ == "__main__":
    sys.exit(main())
