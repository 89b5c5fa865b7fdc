"""What every peer script shares: answer one line "seconds result" to every line read."""
import sys
import time


def serve(job):
    """Runs `job()` (returns a tuple of numbers) once to warm up, then once for each line."""
    job()
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        result = job()
        seconds = time.perf_counter() - start
        print(repr(seconds), *(repr(v) for v in result), flush=True)
