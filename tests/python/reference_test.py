#!/usr/bin/env python3
"""The reference is that of the headers as they are. It has an entry for every macro that users call and every
function that has none, all statuses, and its index says what Local and Collective mean; all links lead somewhere.

  tests/python/reference_test.py
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs" / "reference"

sys.path.insert(0, str(ROOT / "scripts"))
import docs  # pylint: disable=wrong-import-position


def stale(pages):
    """Pages that are not those which the headers give now, and pages of headers that are gone."""
    written = {ROOT / path: text for path, text in docs.outputs().items()}
    return [f"{path.name}, as the headers are now; run make docs" for path in sorted(written.keys() | pages.keys())
            if written.get(path) != pages.get(path)]


def dead_links(pages):
    """Links of all documents to an entry of the reference that is not there."""
    anchors = {path.name: {name.lower() for name in re.findall(r"^### `(\w+)`", text, re.MULTILINE)}
               for path, text in pages.items()}
    documents = [*pages, ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guide").glob("*.md")]
    links = [(path, *link) for path in documents
             for link in re.findall(r"\]\((\.\./reference/)?([\w.]+)#([^)]*)\)", path.read_text(encoding="utf-8"))]
    return [f"{page}#{anchor}, a link of {path.name}" for path, folder, page, anchor in links
            if (folder or path in pages) and anchor not in anchors.get(page, ())]


def features(pages):
    """Faults of the table of features: headers without a row, calls that the header of their row does not have."""
    rows = re.findall(r"^\|.*?\(\.\./reference/(\w+\.md)\).*?\| (.*?) \|",
                      (ROOT / "docs/guide/features.md").read_text(encoding="utf-8"), re.MULTILINE)
    linked = [page for page, _ in rows]
    names = [path.name for path in pages if path.name != "README.md"]
    out = [f"one row for {name} in features.md" for name in names if linked.count(name) != 1]
    for page, calls in rows:
        entries = re.findall(r"^### `(\w+)`", pages.get(FOLDER / page, ""), re.MULTILINE)
        out += [f"{call}, of features.md, in {page}" for call in re.findall(r"`(\w+)`", calls) if call not in entries]
    return out


def main():
    pages = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    text = "\n".join(pages[path] for path in sorted(pages))
    missing = stale(pages) + dead_links(pages) + features(pages)
    listed = re.findall(r"^### `(\w+)`", text, re.MULTILINE)
    entries = set(listed)
    listed.remove("tsr_scope_open")  # takes a runtime or a scope, and has an entry for each
    missing += [f"one name for each entry: {name}" for name in entries if listed.count(name) > 1]
    for header in sorted((ROOT / "include" / "tessera").glob("*.h")):
        source = header.read_text(encoding="utf-8")
        macros = set(re.findall(r"^#define (tsr_\w+)", source, re.MULTILINE))
        functions = set(re.findall(r"^TSR_API[^;]*?\b(tsr_\w+)\(", source, re.MULTILINE))
        functions -= {f"{macro}_{ending}" for macro in macros for ending in ("at", "with")}
        functions.discard("tsr_scope_nest_at")  # tsr_scope_open takes either
        missing += [f"{name} ({header.name})" for name in sorted((macros | functions) - entries)]
    statuses = re.findall(r"^  X\((\w+), \d+", (ROOT / "include/tessera/base.h").read_text(), re.M)
    missing += [f"TSR_{name}" for name in statuses if f"| `TSR_{name}` |" not in text]
    errors = (ROOT / "docs/guide/errors.md").read_text(encoding="utf-8")
    missing += [f"TSR_{name}, in the table of docs/guide/errors.md" for name in statuses
                if f"\n| `TSR_{name}` |" not in errors]
    for call in ("tsr_add(a, b)\n", "tsr_sum(x, .dims =, .keep_dims =, .where =", "`TSR_SHAPE`"):
        missing += [call] if call not in text else []
    if '"Local":' not in pages[FOLDER / "README.md"].split("\n## ")[0]:
        missing.append("what Local means, at the head of the index")
    for name in missing:
        print(f"the reference lacks {name}")
    print(f"{len(entries)} entries")
    return 1 if missing or not statuses else 0


if __name__ == "__main__":
    sys.exit(main())
