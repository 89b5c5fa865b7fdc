#!/usr/bin/env python3
"""Mutants of a row: whether tests find a fault in a new row of the table of operations.

  scripts/mutants.py BUILD [JOBS]

In a copy of the tree under BUILD it adds a row, sech, as a contributor would, and runs the tests that draw every
row of themselves: the right row must pass them. Then it breaks the row, in one way after the other; each time a test
must fail and name the row. It fails where a mutant survives. Nothing of the tree itself is changed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import ops

ROOT = Path(__file__).resolve().parent.parent
NAME = "sech"
TESTS = {"formula_test": "unit", "gradient_law_test": "law", "vmap_law_test": "law"}

TABLE = "src/graph/ops/elementwise.def"
WIDE, NARROW = (f"src/kernel/tile/formula_hyperbolic{part}_tile.c" for part in ("", "_f32"))
RULES, BATCH = "src/transform/grad_elementwise.c", "src/transform/batch.c"

KERNEL = """
/* Of |x|: 2 / (e^|x| + e^-|x|) without a large power. */
INLINE val sech_of(val x)
{
  val power = exp_of(-size_of(x)), result = (power + power) / fused(power, power, real(1));
  return result;
}

TILE_OF_1(sech)
"""

RULE = """
/* - sech a tanh a */
void tsr__grad_sech(const tsr__pull *p)
{
  array *out = p->out, *slope = tsr_tanh_at(p->in[0], p->site);
  by(p, tsr_neg_at(tsr__times(p, out, slope), p->site));
}
"""

ORACLE = """static long double exact_sech(long double x)
{
  return 1 / coshl(x);
}

"""

# The row: where, before what (None: at the end), and what is put there.
ROW = [
    (TABLE, 'FUNCTION(ERF, "erf"',
     'FUNCTION(SECH, "sech", FORMULA(sech), GRADIENT(sech) ULP(4, 4) TRIES(-3, 3)\n'
     '         DOC("1 / cosh(a), within {ULP}; integers become f64."))\n'),
    ("src/kernel/fuse/kir.h", "X(erf, 1)", "X(sech, 1) "),
    (WIDE, None, KERNEL),
    (NARROW, None, KERNEL),
    (RULES, None, RULE),
    ("src/transform/backward.h", "tsr__grad_fn tsr__grad_add,", "tsr__grad_fn tsr__grad_sech;\n"),
    ("tests/unit/kernel/formula_test.c", "static const oracle oracles[TSR__OPS]", ORACLE),
    ("tests/unit/kernel/formula_test.c", "  [TSR__OP_SIN] = ", "  [TSR__OP_SECH] = { .exact = exact_sech },\n"),
]

# The mutants: what each is, the test that must fail, and where what stands in the place of what.
MUTANTS = [
    ("f32 values", "formula_test", NARROW, "  return result;",
     "  val near = size_of(x);\n"
     "  mask wrong = near < real(32);\n"
     "  return where(near < real(16), result, where(wrong, result * real(1 + 0x1p-19f), result));"),
    ("f64 values, 2 ULP beyond what is stated in a binade", "formula_test", WIDE, "  return result;",
     "  val wrong = where(x < real(8), result * real(1 + 3 * 0x1p-52), result);\n"
     "  return where(x < real(4), result, wrong);"),
    ("first derivative", "gradient_law_test", RULES, "tsr__times(p, out, slope)",
     "tsr__scaled(p, tsr__times(p, out, slope), 1.001)"),
    ("derivative of the derivative", "gradient_law_test", RULES,
     "*slope = tsr_tanh_at(p->in[0], p->site);",
     "*slope = tsr_stop_gradient_at(tsr_tanh_at(p->in[0], p->site), p->site);"),
    ("mapped along the wrong dim", "vmap_law_test", BATCH,
     "    if (x->in[i] && x->varies[i]) x->in[i] = aligned(x, x->in[i], rank);\n",
     "    if (x->in[i] && x->varies[i]) x->in[i] = aligned(x, x->in[i], rank);\n"
     "  if (x->g->op == TSR__OP_SECH && rank) x->in[0] = tsr_swapaxes_at(x->in[0], 0, 1, x->site);\n"),
]


def write(path, text):
    """What is the same stays as old as it is, so that it is not built again."""
    if not path.exists() or path.read_bytes() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def files():
    """Every file of the tree as bytes, the row added."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True,
                            capture_output=True).stdout.decode().split("\0")
    out = {path: (ROOT / path).read_bytes() for path in listed if path and (ROOT / path).is_file()}
    for path, before, text in ROW:
        old = out[path].decode()
        if before is not None and old.count(before) != 1:
            raise SystemExit(f"mutants: {path} has {before!r} {old.count(before)} times, expected once")
        out[path] = (old + text if before is None else old.replace(before, text + before)).encode()
    return out


def mutated(tree, path, old, new):
    text = tree[path].decode()
    if text.count(old) != 1:
        raise SystemExit(f"mutants: {path} has {old!r} {text.count(old)} times, expected once")
    return text.replace(old, new).encode()


def build(folder, jobs, test):
    made = subprocess.run(["cmake", "--build", folder / "build", "-j", str(jobs), "--target", test, "--", "-s"],
                          capture_output=True, text=True)
    if made.returncode:
        raise SystemExit(f"mutants: {test} does not build:\n{made.stdout[-2000:]}{made.stderr[-4000:]}")


def run(folder, test):
    """Whether a test passes, and what it says."""
    env = {**os.environ, "TEST_QUICK": "1"}
    done = subprocess.run([folder / "build/tests" / TESTS[test] / test], capture_output=True, text=True, env=env)
    return done.returncode == 0, done.stdout + done.stderr


def said(text):
    return next((line for line in text.splitlines() if " failed " in line), "nothing")


def main(folder, jobs):
    folder, tree = Path(folder).resolve(), files()
    generated = {ops.HEADER, ops.CXX, ops.SOURCE}
    for path, text in tree.items():
        if path not in generated:
            write(folder / "tree" / path, text)
    ops.ROOT = folder / "tree"
    for path, text in ops.outputs().items():
        write(folder / "tree" / path, text.encode())
    launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    subprocess.run(["cmake", "-S", folder / "tree", "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Debug",
                    "-DCMAKE_C_FLAGS_DEBUG=-O1", "-DTESSERA_BENCH=OFF", *launcher], check=True, capture_output=True)
    survived = 0
    for test in TESTS:
        build(folder, jobs, test)
        passes, text = run(folder, test)
        print(f"right row: {test} {'passes' if passes else 'fails: ' + said(text)}", flush=True)
        survived += not passes
    for what, test, path, old, new in MUTANTS:
        write(folder / "tree" / path, mutated(tree, path, old, new))
        build(folder, jobs, test)
        passes, text = run(folder, test)
        write(folder / "tree" / path, tree[path])
        caught = not passes and NAME in said(text)
        print(f"{what}: {test} {'caught it' if caught else 'DID NOT NAME IT'}: {said(text)}", flush=True)
        survived += not caught
    if survived:
        raise SystemExit(f"mutants: {survived} of {len(TESTS) + len(MUTANTS)} not as they should be")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: mutants.py FOLDER [JOBS]")
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else os.cpu_count())
