#!/bin/bash
# Installs the peers in scratch environments, one a family (once each), and measures against them.
set -eu
install() { # FOLDER PACKAGE...
  local env=$1
  shift
  if [ ! -x "$env/bin/python" ]; then
    echo "installing peers in $env: $*" >&2
    python3 -m venv "$env"
    "$env/bin/pip" -q install "$@"
  fi
}
install build/bench-env numpy polars duckdb jax pandas pyarrow orbax-checkpoint torch torchvision webdataset
# Only the lines that read them need these.
case ${1:-load} in
load*)
  install build/bench-grain grain numpy
  install build/bench-tf tensorflow
  ;;
esac
command -v mpicc >/dev/null || echo "without mpicc (libopenmpi-dev) the lines comm.* have no Open MPI beside them" >&2
export BENCH_PYTHON=$PWD/build/bench-env/bin/python
for family in GRAIN TF; do
  python=$PWD/build/bench-$(echo $family | tr A-Z a-z)/bin/python
  if [ -x "$python" ]; then export BENCH_PYTHON_$family="$python"; fi
done
exec build/release/bench/bench "$@"
