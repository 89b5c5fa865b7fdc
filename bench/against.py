#!/usr/bin/env python3
"""This tree's speed beside an earlier commit's: every line of the bench on both libraries, in turns.

  bench/against.py REV [--only REGEX] [--turns N] [--build DIR] [--jobs N]

REV is checked out under DIR/REV and built there, with the bench of this tree in place of its own, so that both sides
do the same work; where the older headers lack a call that this bench makes, its own bench stands. A turn runs a line
once on each side, the sides in alternating order, first by the clock and then by processor time (BENCH_CLOCK=cpu).
No peer runs. It prints each figure's lowest and median time on both sides and the ratio of the lowest times, this tree
over REV; then the geometric mean of the ratios. It fails where the mean by processor time is above 1.01, and names the
figures above 1.05: each is measured again with --only before it is believed. --only is a regular expression of lines,
or the name of one line of a list.

BENCH_ROWS and BENCH_TABLE_ROWS are 1e7 and 1e6 unless they are set: the figures are those of smaller tables.
"""

import argparse
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNITS = {"s", "ms", "us", "ns"}
CLOCKS = ("clock", "cpu")
# Lines whose figures are not times of this process: they wait on purpose, or the tool measures them.
ELSEWHERE = re.compile(r"^(comm|wait\.cpu|processes|start\.|size|text\.memory|load\.jpeg)")
MOST_MEAN, MOST_LINE = 1.01, 1.05


def run(command, **more):
    return subprocess.run(command, check=True, **more)


def built(folder, jobs):
    run(["cmake", "--preset", "release", "--log-level=ERROR"], cwd=folder, stdout=subprocess.DEVNULL)
    return subprocess.run(["cmake", "--build", "build/release", "-j", str(jobs), "--target", "bench", "tessera_tool",
                           "--", "-s"], cwd=folder, stdout=subprocess.DEVNULL).returncode == 0


def earlier(rev, folder, jobs):
    """The bench program of REV."""
    name = run(["git", "rev-parse", "--short=12", rev + "^{commit}"], cwd=ROOT, capture_output=True,
               text=True).stdout.strip()
    tree = folder.resolve() / name
    program = tree / "build/release/bench/bench"
    if program.exists():
        return program
    print(f"building {tree}", flush=True)
    shutil.rmtree(tree, ignore_errors=True)
    run(["git", "clone", "-q", "--shared", "--no-checkout", str(ROOT), str(tree)])
    run(["git", "checkout", "-q", name], cwd=tree)
    for source in (ROOT / "bench").iterdir():
        if source.suffix in (".c", ".h"):
            shutil.copy(source, tree / "bench" / source.name)
    if not built(tree, jobs):
        run(["git", "checkout", "-q", name, "--", "bench"], cwd=tree)
        if not built(tree, jobs):
            sys.exit(f"{name} was not built; its compiler's messages stand above")
    return program


def times(program, line, clock):
    """The figures of one run of a line: name to time. Peers and what else is indented are left out."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_PYTHON")}
    environment["BENCH_CLOCK"] = clock
    environment.setdefault("BENCH_ROWS", "10000000")
    environment.setdefault("BENCH_TABLE_ROWS", "1000000")
    done = subprocess.run([str(program), line], cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{program} {line} failed:\n{done.stderr}")
    found = {}
    for text in done.stdout.splitlines():
        words = text.split()
        if text[:1].isalpha() and len(words) > 3 and words[2] in UNITS:
            found.setdefault(words[0], float(words[1]))
    return found


def measured(programs, line, turns):
    """For each clock and figure: a list of times for each side."""
    all_times = {clock: {} for clock in CLOCKS}
    for turn in range(turns):
        for clock in CLOCKS:
            for side in ((0, 1) if turn % 2 else (1, 0)):
                for name, seconds in times(programs[side], line, clock).items():
                    all_times[clock].setdefault(name, ([], []))[side].append(seconds)
    return all_times


def median(values):
    return sorted(values)[len(values) // 2]


def print_line(name, by_clock):
    """One line a figure; its ratios by clock and processor time."""
    ratios, columns = [], []
    for clock in CLOCKS:
        ours, theirs = by_clock[clock].get(name, ([], []))
        if not ours or not theirs or min(ours) <= 0 or min(theirs) <= 0:
            return None
        ratios.append(min(ours) / min(theirs))
        columns.append(f"{min(ours):9.4g} {median(ours):9.4g} {min(theirs):9.4g} {median(theirs):9.4g} {ratios[-1]:6.3f}")
    print(f"{name:24} {columns[0]}  {columns[1]}", flush=True)
    return ratios


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rev")
    parser.add_argument("--only", default="")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--build", type=Path, default=ROOT / "build/against")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    programs = (ROOT / "build/release/bench/bench", earlier(given.rev, given.build, given.jobs))
    lines = run([str(programs[0]), "--names"], capture_output=True, text=True).stdout.split()
    lines = [line for line in lines if (re.search(given.only, line) if given.only else not ELSEWHERE.match(line))]
    lines = lines or [given.only]  # the name of one line of a list, such as group.g3
    side = f"{'ours':>9} {'median':>9} {'theirs':>9} {'median':>9} {'ratio':>6}"
    print(f"{'by the clock, then cpu':24} {side}  {side}")
    logs, slower = [[], []], []
    for line in lines:
        by_clock = measured(programs, line, given.turns)
        for name in by_clock["cpu"]:
            ratios = print_line(name, by_clock)
            if ratios:
                for total, ratio in zip(logs, ratios):
                    total.append(math.log(ratio))
                if ratios[1] > MOST_LINE:
                    slower.append(name)
    if not logs[0]:
        sys.exit("no figure was measured on both sides")
    means = [math.exp(sum(total) / len(total)) for total in logs]
    print(f"{len(logs[0])} figures: geometric mean {means[0]:.3f} by the clock, {means[1]:.3f} by processor time")
    if slower:
        print(f"above {MOST_LINE} by processor time: {' '.join(slower)}")
    return means[1] > MOST_MEAN


if __name__ == "__main__":
    sys.exit(main())
