#!/bin/sh
# Installs into a folder of its own and builds a small program against it, found by pkg-config
# (shared and static) and by CMake, and runs the installed tool.
#   tests/install_test.sh CMAKE BUILD_FOLDER C_COMPILER
set -eu
cmake=$1 build=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

"$cmake" --install "$build" --strip --prefix "$prefix" >/dev/null

cat >"$work/main.c" <<'END'
#include <stdio.h>
#include <tessera.h>

int main(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  int bad = tsr_runtime_status(rt) != TSR_OK || tsr_device_count(rt) != 2;
  if (bad) fprintf(stderr, "%s\n", tsr_runtime_message(rt));
  tsr_runtime_close(rt);
  return bad;
}
END
cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(user C)
find_package(tessera 0.1 REQUIRED)
add_executable(by_shared main.c)
target_link_libraries(by_shared PRIVATE tessera::tessera)
add_executable(by_static main.c)
target_link_libraries(by_static PRIVATE tessera::static)
END

echo "# by find_package"
"$cmake" -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >/dev/null
"$cmake" --build "$work/build" >/dev/null
"$work/build/by_shared"
"$work/build/by_static"

echo "# by pkg-config"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tessera.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir tessera)
# shellcheck disable=SC2046 # words are wanted
"$cc" -std=c11 "$work/main.c" -o "$work/by_pc" $(pkg-config --cflags --libs tessera)
LD_LIBRARY_PATH=$libdir "$work/by_pc"
# shellcheck disable=SC2046
"$cc" -std=c11 "$work/main.c" -o "$work/by_pc_static" $(pkg-config --cflags tessera) \
  "$libdir/libtessera.a" -lm -pthread
"$work/by_pc_static"
# Nothing of the machine is needed but the kernel. The linker warns of what loads plugins and finds hosts.
# shellcheck disable=SC2046
"$cc" -std=c11 -static "$work/main.c" -o "$work/by_pc_whole" \
  $(pkg-config --static --cflags --libs tessera) 2>"$work/warnings" || { cat "$work/warnings" >&2; exit 1; }
"$work/by_pc_whole"

test -f "$prefix/include/tessera.hpp"

for plugin in ucx mpi_openmpi mpi_mpich images isal; do
  [ -f "$build/lib/tessera_$plugin.so" ] || continue
  echo "# the plugin $plugin lies beside the library"
  test -f "$libdir/tessera_$plugin.so"
  "$prefix/bin/tessera" version | grep "^  $plugin .* found"
done

if [ -x "$prefix/bin/tessera" ]; then
  echo "# the tool"
  "$prefix/bin/tessera" info >/dev/null
  if objdump -h "$prefix/bin/tessera" | grep -q '\.debug_info'; then
    echo "the tool is not stripped" >&2
    exit 1
  fi
  for file in share/man/man1/tessera.1 share/doc/tessera/LICENSE share/doc/tessera/EXPRESSIONS.md \
    share/bash-completion/completions/tessera; do
    [ -s "$prefix/$file" ] || { echo "$file is not installed" >&2; exit 1; }
  done
  bash -n "$prefix/share/bash-completion/completions/tessera"
fi
