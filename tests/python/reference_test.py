#!/usr/bin/env python3
"""The reference has an entry for every macro that users call and every function that has none, all
statuses, and says what Local and Collective mean before it uses the words.

  tests/python/reference_test.py
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def main():
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "reference.md"
        subprocess.run([sys.executable, str(ROOT / "scripts" / "docs.py"), str(page)], check=True)
        text = page.read_text(encoding="utf-8")
    missing = []
    entries = set(re.findall(r"^#### `(\w+)`", text, re.MULTILINE))
    for header in sorted((ROOT / "include" / "tessera").glob("*.h")):
        source = header.read_text(encoding="utf-8")
        macros = set(re.findall(r"^#define (tsr_\w+)", source, re.MULTILINE))
        functions = set(re.findall(r"^TSR_API[^;]*?\b(tsr_\w+)\(", source, re.MULTILINE))
        functions -= {f"{macro}_{ending}" for macro in macros for ending in ("at", "with")}
        functions.discard("tsr_scope_nest_at")  # tsr_scope_open takes either
        missing += [f"{name} ({header.name})" for name in sorted((macros | functions) - entries)]
    statuses = re.findall(r"^  X\((\w+), \d+", (ROOT / "include/tessera/base.h").read_text(), re.M)
    missing += [f"TSR_{name}" for name in statuses if f"| `TSR_{name}` |" not in text]
    for call in ("tsr_add(a, b)\n", "tsr_sum(x, .dims =, .keep_dims =, .where =", "`TSR_SHAPE`"):
        missing += [call] if call not in text else []
    if '"Local":' not in text.split("## tessera/base.h")[0]:
        missing.append("what Local means, at the head")
    for name in missing:
        print(f"the reference lacks {name}")
    print(f"{len(entries)} entries")
    return 1 if missing or not statuses else 0


if __name__ == "__main__":
    sys.exit(main())
