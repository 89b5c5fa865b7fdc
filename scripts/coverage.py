#!/usr/bin/env python3
"""Which tests see a file of the sources.

  coverage.py map BUILD JOBS          runs each test of a build for coverage and writes BUILD/map.json
  coverage.py tests BUILD JOBS FILE   runs what sees FILE with the tests of BUILD, fastest first

A map holds the tests with their seconds and, of each function that some test ran, its file and which
those tests were. A header's tests are those of the functions that it declares, or, where it declares
none, those of the files that include it; a C++ header's are the tests in C++.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAP = ROOT / "build/coverage/map.json"


def ctest(build):
    """The tests that CTest knows: name to command, environment and the rest that says who passed."""
    said = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, capture_output=True, text=True,
                          check=True).stdout
    tests = {}
    for test in json.loads(said)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        if "command" in test and "SKIP_REGULAR_EXPRESSION" not in properties:
            tests[test["name"]] = {"command": test["command"], **properties}
    return tests


def run(build, test, more):
    """Returns (whether it passed, seconds, what it printed)."""
    environment = {**os.environ, **dict(e.split("=", 1) for e in test.get("ENVIRONMENT", [])), **more}
    began = time.monotonic()
    process = subprocess.Popen(test["command"], cwd=test.get("WORKING_DIRECTORY", build), env=environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        text = process.communicate(timeout=test.get("TIMEOUT", 1500))[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text = process.communicate()[0].decode(errors="replace") + "\nran out of time\n"
    code = process.returncode
    passes = test.get("PASS_REGULAR_EXPRESSION")
    good = any(re.search(p, text) for p in passes) if passes else code in (0, test.get("SKIP_RETURN_CODE", 0))
    return good, time.monotonic() - began, text


def each(jobs, items, work):
    """work(item) for every item, in order, `jobs` at once."""
    left, lock = iter(items), threading.Lock()

    def worker():
        while True:
            with lock:
                item = next(left, None)
            if item is None:
                return
            work(item)

    threads = [threading.Thread(target=worker) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ---- the map --------------------------------------------------------------------------------------


def functions_of(at, known):
    """The (file, function) of each function of an object, by the addresses that it wrote."""
    path, *addresses = at.read_text().split("\n")[:-1]
    if path not in known:
        said = subprocess.run(["addr2line", "-f", "-e", path], input="\n".join(addresses),
                              capture_output=True, text=True, check=True).stdout.split("\n")
        pairs = []
        for function, line in zip(said[0::2], said[1::2]):
            file = pathlib.Path(line.rsplit(":", 1)[0])
            file = (file if file.is_absolute() else pathlib.Path(path).parent / file).resolve()
            pairs.append((str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else None, function))
        known[path] = pairs
    return known[path]


def make_map(build, jobs):
    # Other kernels and guarded devices run the same functions.
    tests = {name: test for name, test in ctest(build).items()
             if ".guarded" not in name
             and not ("law" in test["LABELS"] and "fast" not in test["LABELS"] and "TSR_ISA" in str(test))}
    folder, seconds, known, files = build / "seen", {}, {}, {}
    shutil.rmtree(folder, ignore_errors=True)

    def one(name):
        (folder / name).mkdir(parents=True)
        good, seconds[name], _ = run(build, tests[name],
                                     {"TEST_COVERAGE": str(folder / name), "TEST_QUICK": "1",
                                      "TEST_TIMEOUT_SCALE": "4"})
        if not good:
            print(f"coverage: {name} failed; it is taken by what it ran", file=sys.stderr)

    each(jobs, tests, one)
    names = sorted(tests)
    for number, name in enumerate(names):
        for seen in (folder / name).glob("*.seen"):
            at = seen.with_suffix(".at")
            if not at.exists():
                continue
            for byte, (file, function) in zip(seen.read_bytes(), functions_of(at, known)):
                if byte and file:
                    numbers = files.setdefault(file, {}).setdefault(function, [])
                    if not numbers or numbers[-1] != number:
                        numbers.append(number)
    shutil.rmtree(folder)
    MAP.write_text(json.dumps({"tests": [[n, round(seconds[n], 2)] for n in names], "files": files},
                              indent=0, sort_keys=True))
    print(f"{len(names)} tests see {sum(map(len, files.values()))} functions of {len(files)} files: "
          f"{MAP.relative_to(ROOT)}")


# ---- the tests of a file --------------------------------------------------------------------------


def includers(file):
    """Files of the library and its headers that include a file."""
    ends = [str(file.relative_to(base)) for base in (ROOT / "src", ROOT / "include") if file.is_relative_to(base)]
    wanted = re.compile(r'^#include [<"](%s)[>"]' % "|".join(map(re.escape, ends)), re.M)
    found = []
    for base in ("src", "include"):
        for path in sorted((ROOT / base).rglob("*.[ch]")):
            if wanted.search(path.read_text()):
                found.append(path)
    return found


def numbers_of(file, all_files, met):
    """The numbers of the tests that see a file."""
    met.add(file)
    own = all_files.get(str(file.relative_to(ROOT)), {})
    numbers = set().union(*own.values())
    if file.suffix != ".c":
        declared = set(re.findall(r"\b(tsr_\w+)\(", file.read_text()))
        for functions in all_files.values():
            for name in declared & functions.keys():
                numbers.update(functions[name])
        if not numbers:
            for other in includers(file):
                if other not in met:
                    numbers |= numbers_of(other, all_files, met)
    return numbers


def by_name(file, tests):
    """Without a map: the test of the file's name, then those of its room, then the laws."""
    room = file.relative_to(ROOT).parts[1]

    def place(name):
        command = " ".join(tests[name]["command"])
        if name.startswith(file.stem.removesuffix("_tile") + "_test"):
            return 0
        if list((ROOT / "tests/unit" / room).glob(pathlib.Path(command).name + ".c*")):
            return 1
        return 2 if {"law", "fast"} <= set(tests[name]["LABELS"]) and "." not in name[:-9] else 3

    places = {name: place(name) for name in tests if ".guarded" not in name}
    return sorted((n for n in places if places[n] < 3), key=lambda n: (places[n], n))


def cxx_tests():
    """The tests of the C++ headers, whose functions are all inline."""
    programs = [p.stem for p in (ROOT / "tests/unit").rglob("*.cc")]
    return set(programs + ["example_" + p.stem for p in (ROOT / "examples").glob("*.cc")])


def tests_of(build, jobs, path):
    file = (ROOT / path).resolve()
    if not file.is_file() or not any(file.is_relative_to(ROOT / base) for base in ("src", "include")):
        sys.exit(f"coverage: '{path}' is no file of src/ or include/: make tests-of FILE=src/...")
    tests = ctest(build)
    if file.suffix == ".hpp":
        names = sorted(tests.keys() & cxx_tests())
    elif MAP.exists():
        told = json.loads(MAP.read_text())
        numbers = sorted(numbers_of(file, told["files"], set()), key=lambda n: told["tests"][n][1])
        names = [told["tests"][n][0] for n in numbers if told["tests"][n][0] in tests]
    else:
        print("no coverage map: by names and folders (make coverage-map makes one, in some minutes)")
        names = by_name(file, tests)
    if not names:
        sys.exit(f"coverage: no test sees {path}; a map that is older than it: make coverage-map")
    print(f"{len(names)} tests", flush=True)
    failed, lock = [], threading.Lock()

    def one(name):
        good, seconds, text = run(build, tests[name], {"TEST_QUICK": "1"})
        with lock:
            print(f"{'ok    ' if good else 'FAILED'} {seconds:6.1f} s  {name}", flush=True)
            if not good:
                failed.append(name)
                print(text, flush=True)

    each(jobs, names, one)
    if failed:
        sys.exit(f"{len(failed)} of {len(names)} failed: {' '.join(failed)}")


def main():
    what, build, jobs = sys.argv[1], (ROOT / sys.argv[2]).resolve(), int(sys.argv[3])
    if what == "map":
        make_map(build, jobs)
    else:
        tests_of(build, jobs, sys.argv[4])


if __name__ == "__main__":
    main()
