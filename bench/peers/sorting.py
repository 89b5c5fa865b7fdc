"""NumPy's sorts: python sorting.py sort|argsort FILE STRIDE; answers with seconds and the sum of sorted[::STRIDE]."""
import sys

from serve import ready, timed

try:
    import numpy as np
except ImportError:
    sys.exit("missing")

what, path, stride = sys.argv[1], sys.argv[2], int(sys.argv[3])
x = np.load(path)
call = {"sort": np.sort, "argsort": np.argsort}[what]
result = call(x)
shown = float((result if what == "sort" else x[result])[::stride].astype(np.float64).sum())
del result
ready()
for line in sys.stdin:
    result, seconds, _ = timed(lambda: call(x))
    del result
    print(repr(seconds), repr(shown), flush=True)
