#!/bin/bash
# Installs the peers in a scratch environment (once) and measures against them.
set -eu
env=build/bench-env
if [ ! -x "$env/bin/python" ]; then
  echo "installing the peers in $env" >&2
  python3 -m venv "$env"
  "$env/bin/pip" -q install numpy polars duckdb jax pandas pyarrow orbax-checkpoint torch
fi
command -v mpicc >/dev/null || echo "without mpicc (libopenmpi-dev) the lines comm.* have no Open MPI beside them" >&2
BENCH_PYTHON=$PWD/$env/bin/python exec build/release/bench/bench "$@"
