"""What peer scripts share: one line "seconds result..." is answered to every line read."""
import importlib.metadata
import sys
import time
import types

SHORT = 0.05  # seconds of a turn that is made twice, as bench.c has it


def timed(call):
    """What a call returns, its seconds and its processor time. A short one is made twice and the second counts: the
    first wakes threads and fills caches."""
    for _ in range(2):
        busy, start = time.process_time(), time.perf_counter()
        result = call()
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
        if seconds >= SHORT:
            break
    return result, seconds, busy


def ready(*later):
    """Says that a script waits for lines, with the versions of the packages that it has imported or names."""
    main = vars(sys.modules["__main__"])
    names = {value.__name__ for value in main.values() if isinstance(value, types.ModuleType)} | set(later)
    said = []
    for name in sorted(names):
        try:
            said.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            pass  # of Python itself, a part of a package, or not installed
    print("ready", ", ".join(said), flush=True)


def settle():
    """Waits until this process sleeps: pools of threads go on spinning when their work is done."""
    quiet = 0
    for _ in range(50):
        busy = time.process_time()
        time.sleep(0.02)
        quiet = quiet + 1 if time.process_time() - busy < 1e-3 else 0
        if quiet == 2:
            return


def serve(job):
    """Runs `job()` (returns a tuple of numbers) once to warm up, then for each line."""
    job()
    ready()
    for _ in sys.stdin:
        result, seconds, _ = timed(job)
        print(repr(seconds), *(repr(v) for v in result), flush=True)


def serve_steps(step):
    """The same of a step of training, which returns its loss: "seconds loss cpu-seconds"."""
    step()
    ready()
    for _ in sys.stdin:
        loss, seconds, busy = timed(step)
        print(repr(seconds), repr(loss), repr(busy), flush=True)


def reals(salt, scale, *shape):
    """f32 from -scale to scale by the formula that bench.c has."""
    import numpy as np
    mixed = np.arange(int(np.prod(shape)), dtype=np.uint32) * np.uint32(2654435761)
    mixed = (mixed + np.uint32(salt * 40503 & 0xFFFFFFFF)) >> 8
    return (np.float32(scale) * (mixed.astype(np.float32) * np.float32(2**-23) - 1)).reshape(shape)
