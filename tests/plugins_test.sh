#!/bin/sh
# Plugins appear where their packages are installed after a first build, and go where these are removed, without
# a clean build. The packages are stand-ins: empty headers and libraries in a folder of the test's own, the
# only one where CMake looks.
#   tests/plugins_test.sh CMAKE SOURCE_FOLDER C_COMPILER
set -eu
cmake=$1 source=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
include=$work/root/usr/include lib=$work/root/usr/lib
mkdir -p "$include" "$lib"
touch "$include/zlib.h" "$include/zstd.h"

fail() {
  echo "$1" >&2
  cat "$work/said" >&2
  exit 1
}

# has yes|no PLUGIN: whether the build has a target for it, after its own look at what changed.
has() {
  "$cmake" --build "$work/build" --target help >"$work/targets"
  found=no
  ! grep -q " tessera_$2\$" "$work/targets" || found=yes
  [ "$found" = "$1" ] || fail "plugin $2: expected $1, found $found"
}

again() {
  make -C "$work/build" cmake_check_build_system >"$work/said" 2>&1 || fail "configuring again failed"
}

echo "# nothing is installed"
"$cmake" -S "$source" -B "$work/build" -G "Unix Makefiles" -DCMAKE_C_COMPILER="$cc" -DTESSERA_TESTS=OFF \
  -DTESSERA_BENCH=OFF -DCMAKE_FIND_ROOT_PATH="$work/root" -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
  -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY >"$work/said" 2>&1 || fail "configuring failed"
for name in ucx images isal; do
  has no $name
  grep -q "not built.*$name (" "$work/said" || fail "$name is missing and not named"
done

echo "# headers and libraries come"
sleep 1
mkdir -p "$include/ucp/api" "$include/isa-l"
touch "$include/ucp/api/ucp.h" "$include/jpeglib.h" "$include/spng.h" "$include/isa-l/igzip_lib.h"
touch "$lib/libucp.so" "$lib/libucs.so" "$lib/libjpeg.so" "$lib/libspng.so" "$lib/libisal.so"
again
grep -q "Configuring done" "$work/said" || fail "nothing was configured again"
for name in ucx images isal; do has yes $name; done

echo "# one of them goes"
sleep 1
rm "$lib/libspng.so"
again
has yes ucx
has no images
grep -q "not built.*images (libjpeg62-turbo-dev, libspng-dev)" "$work/said" || fail "images is not named"

echo "# nothing changes"
again
! grep -q "Configuring done" "$work/said" || fail "configured without need"
