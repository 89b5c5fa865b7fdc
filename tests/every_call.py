#!/usr/bin/env python3
"""A call of every public function, made of its prototype, for tests/unit/messages_test.c:

    static void call_tsr_add_at(struct world *w) { SEE_ARRAY(tsr_add_at(PICK(0, array), ...)); }
    ...
    static const struct row rows[] = { { "tsr_add_at", call_tsr_add_at, 2 }, ...

Objects are picked by their number, also in operands, lists and structs of arguments; texts, bodies and places
for results come from the test; all else is zero.

    tests/every_call.py INCLUDE_DIR OUT [DTYPES]

DTYPES gets the names of the functions that take a dtype, for tests/unit/topology/dtype_kind_test.c.
"""
import re
import sys
from pathlib import Path

from by_name_test import split, without_comments

OBJECTS = {f"tsr_{name}": name for name in (
    "array", "frame", "source", "function", "pipeline", "batch", "table", "row", "mesh", "scope", "runtime",
    "saved_step", "npz", "compiled")}
OPERANDS = {"tsr_operand": "array", "tsr_frame_operand": "frame"}


def normal(kind):
    """A type without what says nothing of its values."""
    kind = re.sub(r"\b(TSR_MUST_USE|struct|const)\b", " ", kind)
    return re.sub(r"\s*\*\s*", " *", " ".join(kind.split())).strip().replace("* *", "**")


class Calls:
    def __init__(self, folder):
        text = without_comments("\n".join(f.read_text() for f in sorted(Path(folder).rglob("*.h"))))
        self.structs = {m[2]: self.fields(m[1])
                        for m in re.finditer(r"typedef struct \w+ \{(.*?)\n\} (\w+);", text, re.S)}
        self.calls = {m[2]: (normal(m[1]), [self.parameter(p) for p in split(" ".join(m[3].split()))])
                      for m in re.finditer(r"TSR_API ([^;(]*?)(\w+)\(([^;]*?)\)\s*(?:TSR_PRINTF[^;]*)?;", text)}
        self.count = 0
        self.needed = False

    @staticmethod
    def fields(body):
        """(type, name, whether it is an array) of each field."""
        out = []
        for declaration in re.sub(r"\bTSR_REST_BY_NAME\b", " ", body).split(";"):
            m = re.match(r"\s*((?:const |struct |enum )*\w+)\s+(.*)", " ".join(declaration.split()))
            for one in split(m[2]) if m else []:
                name = re.search(r"(\w+)(\[.*)?$", one)
                if name:  # not that of a function
                    out.append((normal(m[1] + " " + one[: name.start()]), name[1], bool(name[2])))
        return out

    @staticmethod
    def parameter(text):
        m = re.match(r"(.*?)(\w+)((?:\[.*\])?)$", text)
        if not m or not m[1]:
            return text, ""
        return m[1].strip() + (" *" if m[3] else ""), m[2]

    def pick(self, name):
        self.count += 1
        self.needed = self.needed or name != "mesh"  # without a mesh arrays lie where they do
        return f"PICK({self.count - 1}, {name})"

    def value(self, kind):
        """The value of an object or of what has one in it; or None."""
        if kind.endswith(" *") and kind[:-2] in OBJECTS:
            return self.pick(OBJECTS[kind[:-2]])
        if kind in OPERANDS:
            return f"{kind}_{OPERANDS[kind]}({self.pick(OPERANDS[kind])})"
        if kind.endswith(" **") and kind[:-3] in OBJECTS:
            return f"LIST({kind[:-1]}, {self.pick(OBJECTS[kind[:-3]])})"
        if kind == "tsr_body_fn *":
            return "w->body"
        if kind == "char *":
            return "w->text"
        return None

    def literal(self, struct):
        parts, counted = [], False
        for kind, name, many in self.structs[struct]:
            value = f"sizeof({struct})" if (kind, name) == ("size_t", "size") else self.value(kind)
            if value:
                parts.append(f".{name} = {{ {value} }}" if many else f".{name} = {value}")
            elif counted and kind == "int":
                parts.append(f".{name} = 1")
            counted = kind.endswith(" **") and bool(value)
        return f"({struct}){{ {', '.join(parts) or '0'} }}"

    def arguments(self, parameters):
        out, counted = [], False
        for declared, name in parameters:
            kind, constant = normal(declared), "const" in declared.split("*")[0]
            struct = kind[:-2] if kind.endswith(" *") and kind[:-2] in self.structs else ""
            if kind in ("...", "void"):
                continue
            if name == "site":
                out.append("TSR_HERE")
            elif name == "format":
                out.append('"tsr_fail"')
            elif kind == "tsr_status":
                out.append("TSR_EARG")
            elif struct and constant and struct not in OBJECTS:
                out.append(f"ARGS({self.literal(struct)})")
            elif kind in self.structs and kind not in OPERANDS:
                out.append(self.literal(kind))
            elif kind.endswith(" **") and "const *" not in declared:
                out.append("w->arrays")
            elif (value := self.value(kind)) and (constant or kind != "char *"):
                out.append(value)
            elif kind == "FILE *" or "_fn" in kind or "_rule" in kind or "managed" in kind or "versioned" in kind:
                out.append("0")
            elif "Arrow" in kind:
                out.append("w->place")
            elif kind.endswith("*"):
                out.append("w->place")
            else:
                out.append("1" if counted and kind == "int" else f"({kind})0")
            counted = kind.endswith("*") and constant and struct not in OBJECTS or "const *" in declared
        return ", ".join(out)

    def seen(self, name, result, parameters):
        """What there is to look at: a status, an object, an array in the place for results, or nothing."""
        if result == "tsr_status" and not name.endswith("_status"):
            return "STATUS"
        if result.endswith(" *") and result[:-2] in OBJECTS:
            return OBJECTS[result[:-2]].upper()
        if self.structs.get(result, [("",)])[0][0] == "tsr_array *" and result not in OPERANDS:
            return "PARTS"
        if result == "void":
            out = any(normal(p) == "tsr_array **" and "const *" not in p for p, _ in parameters)
            return "PLACE" if out else "NOTHING"
        return "VALUE"

    def text(self):
        functions, rows = [], []
        for name, (result, parameters) in sorted(self.calls.items()):
            self.count, self.needed = 0, False
            call = f"{name}({self.arguments(parameters)})"
            see = self.seen(name, result, parameters)
            if see == "PARTS":
                see, call = "ARRAY", f"{call}.{self.structs[result][0][1]}"
            functions.append(f"static void call_{name}(struct world *w)\n{{\n  (void)w;\n  SEE_{see}({call});\n}}\n")
            # To end what was never begun is no error.
            needed = self.needed and not name.endswith(("_close", "_free", "_release"))
            rows.append(f'  {{ "{name}", call_{name}, {self.count}, {str(needed).lower()}, SEES_{see} }},\n')
        return "\n".join(functions) + "\nstatic const struct row rows[] = {\n" + "".join(rows) + "};\n"


    def takes_dtype(self, kind):
        """Whether a value of a type is a dtype, or has one in it."""
        kind = kind.replace(" *", "")
        fields = self.structs.get(kind, ()) if kind not in OBJECTS else ()
        return kind == "tsr_dtype" or any(self.takes_dtype(field[0]) for field in fields)

    def dtypes(self):
        """The functions that are given one; results are written through pointers to what is not constant."""
        def given(declared):
            return "*" not in declared or "const" in declared.split("*")[0]
        return "".join(f'"{name}",\n' for name, (_, parameters) in sorted(self.calls.items())
                       if any(given(kind) and self.takes_dtype(normal(kind)) for kind, _ in parameters))


def main():
    include, out, *dtypes = sys.argv[1:]
    calls = Calls(include)
    Path(out).write_text(calls.text())
    for path in dtypes:
        Path(path).write_text(calls.dtypes())


if __name__ == "__main__":
    main()
